/* To be replaced by the readers of these formats. */
#include "trace/import/formats.h"

bool orr__is_export(const char *text, size_t size) {
    (void)text;
    (void)size;
    return false;
}

enum orr_status orr__read_export(struct orr__json_document *document, const char *name,
                                 const struct orr_import_options *options,
                                 const struct orr_memory *memory,
                                 struct orr_timeline **out_timeline, struct orr_error *error) {
    (void)document, (void)options, (void)memory, (void)out_timeline;
    return orr_error_set(error, ORR_INVALID, "%s: our own export is not read yet", name);
}
