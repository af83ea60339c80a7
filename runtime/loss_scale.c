#include "runtime/loss_scale.h"

#include <assert.h>

struct orr_loss_scale orr_loss_scale_default(void) {
    return (struct orr_loss_scale){.factor = 65536, .growth = 2, .backoff = 0.5, .interval = 2000};
}

bool orr_loss_scale_update(struct orr_loss_scale *scale, double nonfinite) {
    assert(scale->factor > 0 && scale->interval > 0);
    if (nonfinite > 0 || nonfinite != nonfinite) {
        scale->factor *= scale->backoff;
        scale->usable = 0;
        scale->left_out++;
        return false;
    }
    if (++scale->usable == scale->interval) {
        scale->factor *= scale->growth;
        scale->usable = 0;
    }
    return true;
}
