/* Loss scaling: gradients in f16 are computed of a loss times a factor, so that small ones don't
 * become 0, and divided by it afterwards. A factor that makes one overflow is too large: the step
 * is left out and the factor reduced.
 *
 *     struct orr_gradient_seed seed = {.tensor = loss, .value = scale.factor};
 *     orr_gradient_from(tape, &seed, 1, wanted, n, grads);
 *     ... reduce the gradients (a sum of finite terms may not be finite); apply count_nonfinite to
 *     ... each, add the counts up, read the sum: nonfinite
 *     double factor = scale.factor;
 *     if (orr_loss_scale_update(&scale, nonfinite))
 *         ... the operator scale with 1 / factor, then the optimizer
 *
 * The policy is that of torch.amp.GradScaler, and so are the defaults.
 *
 * Threads: plain data. */
#ifndef ORR_RUNTIME_LOSS_SCALE_H
#define ORR_RUNTIME_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

struct orr_loss_scale {
    double factor;            /* of the loss, above 0 */
    double growth, backoff;   /* by which it is multiplied: 2 and 0.5 */
    int64_t interval;         /* it grows after so many usable steps in a row: 2000 */
    int64_t usable, left_out; /* usable steps since it last changed; steps left out so far */
};

/* The defaults, with a factor of 65536. */
struct orr_loss_scale orr_loss_scale_default(void);

/* One step had `nonfinite` infinite or NaN elements in its gradients. Adapts the factor; true if
 * the step is to be made: there were none. */
bool orr_loss_scale_update(struct orr_loss_scale *scale, double nonfinite);

#endif
