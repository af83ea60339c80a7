/* A file that appears when it is whole.
 *
 * The bytes go to a file beside the target (PATH.part), which is renamed over the target at the
 * end; a failed or discarded output leaves nothing behind and an earlier target as it was. What
 * ends in ".gz" is compressed on the way; the gzip header carries no name and no time, so the same
 * bytes in are the same bytes out. A target that exists and is no regular file (a pipe, /dev/null)
 * is written as it is, because renaming over it would replace it; a symbolic link is followed.
 *
 *     struct orr_output *output;
 *     if (orr_output_create("run.json.gz", &memory, &output, &error) != ORR_OK) ...
 *     orr_output_write(output, bytes, size);      // a failure is kept until finish
 *     status = orr_output_finish(&output, &error);
 *
 * Threads: an output belongs to one thread. It blocks as files do. */
#ifndef ORR_TRACE_OUTPUT_H
#define ORR_TRACE_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"

struct orr_output;

/* Opens the file beside `path`. `memory` is borrowed until the end, `path` for the call. ORR_IO
 * with path and reason; ORR_NO_MEMORY. */
enum orr_status orr_output_create(const char *path, const struct orr_memory *memory,
                                  struct orr_output **out_output,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* Writes; bytes are borrowed for the call. A failure is kept and makes later calls do nothing. */
void orr_output_write(struct orr_output *output, const void *bytes, size_t size);

/* True once a write has failed: what follows would be thrown away. */
int orr_output_failed(const struct orr_output *output);

/* Closes the file and puts it in place, frees and nulls the output. ORR_IO with path and reason if
 * that or any write before it failed; nothing is left behind then. */
enum orr_status orr_output_finish(struct orr_output **output,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* Throws the file away, frees and nulls; accepts NULL. */
void orr_output_discard(struct orr_output **output);

#endif
