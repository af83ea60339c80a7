#include "analyzer/phase_report.h"

#include <string.h>

#include "analyzer/report_why.h"
#include "analyzer/text.h"

enum orr_status orr_phase_report(const struct orr_analysis *analysis, const struct orr_phase *phase,
                                 char *out_class, char **out_why) {
    const char *name = orr_phase_class_text(phase);
    size_t i = 0;
    for (; name[i] && i + 1 < ORR_PHASE_CLASS_MAX; i++) {
        out_class[i] = name[i] == '_' ? '-' : name[i];
    }
    out_class[i] = 0;
    struct orr_text why = {.memory = analysis->memory};
    orr__why_phase(analysis, phase, &why);
    *out_why = NULL;
    if (!why.failed) {
        const char *text = why.data ? why.data : "";
        *out_why = orr_memory_text(analysis->memory, text, strlen(text));
    }
    orr__text_free(&why);
    return *out_why ? ORR_OK : ORR_NO_MEMORY;
}
