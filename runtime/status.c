#include "runtime/status.h"

const char *orr_status_text(enum orr_status status) {
    static const char *const texts[ORR_STATUS_COUNT] = {
#define ORR_STATUS_TEXT(name, text) [ORR_##name] = text,
        ORR_STATUS_LIST(ORR_STATUS_TEXT)
#undef ORR_STATUS_TEXT
    };
    unsigned index = (unsigned)status;
    return index < ORR_STATUS_COUNT ? texts[index] : "unknown status";
}
