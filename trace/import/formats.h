/* Internal to trace/: the formats that trace/import.h tells apart, a file each.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_FORMATS_H
#define ORR_TRACE_IMPORT_FORMATS_H

#include "trace/import.h"
#include "trace/import/json_document.h"

/* A JSON trace: our own export or Kineto's, told apart by how the text begins. `name` is for
 * messages; the document is read from its beginning. */
enum orr_status orr__read_json(struct orr__json_input *input, const char *name,
                               const struct orr_import_options *options,
                               const struct orr_memory *memory, struct orr_timeline **out_timeline,
                               struct orr_error *error) ORR_MUST_CHECK;

/* A trace by PyTorch's profiler, or any Chrome JSON. */
enum orr_status orr__read_kineto(struct orr__json_document *document, const char *name,
                                 const struct orr_import_options *options,
                                 const struct orr_memory *memory,
                                 struct orr_timeline **out_timeline,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* Is this how our own export begins? */
bool orr__is_export(const char *text, size_t size);

/* Our own export. */
enum orr_status orr__read_export(struct orr__json_document *document, const char *name,
                                 const struct orr_import_options *options,
                                 const struct orr_memory *memory,
                                 struct orr_timeline **out_timeline,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* An export of Nsight Systems. It is opened read-only and immutable; nothing is written beside
 * it. */
enum orr_status orr__read_nsys(const char *path, const struct orr_import_options *options,
                               const struct orr_memory *memory, struct orr_timeline **out_timeline,
                               struct orr_error *error) ORR_MUST_CHECK;

#endif
