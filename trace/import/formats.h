/* Internal to trace/: the formats that trace/import.h tells apart, a file each.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_FORMATS_H
#define ORR_TRACE_IMPORT_FORMATS_H

#include "trace/import.h"

struct orr__json_input; /* trace/import/json_input.h: bytes of a JSON text, from wherever */

/* A JSON trace: our own export (orr__read_export) or Kineto's, told apart by the first keys. `name`
 * is for messages. */
enum orr_status orr__read_json(struct orr__json_input *input, const char *name,
                               const struct orr_import_options *options,
                               const struct orr_memory *memory, struct orr_timeline **out_timeline,
                               struct orr_error *error) ORR_MUST_CHECK;

/* An export of Nsight Systems. It is opened read-only and immutable; nothing is written beside
 * it. */
enum orr_status orr__read_nsys(const char *path, const struct orr_import_options *options,
                               const struct orr_memory *memory, struct orr_timeline **out_timeline,
                               struct orr_error *error) ORR_MUST_CHECK;

#endif
