/* Writes a timeline as one of our databases: what was read from any trace, in the schema of
 * trace/schema.sql.
 *
 *     status = orr_timeline_write(timeline, "run.db", &memory, &error);
 *
 * Writing and reading (orr_timeline_read) gives the same timeline: every field of every array, and
 * `source`. What the schema cannot hold is as follows. Counts beyond 2^63-1 become 2^63-1. Of
 * several meta rows with one key the first counts, and rows come back in the order of keys; a run
 * of ours gets the schema_version of this file. Ids are kept and must be unique within their array;
 * arrays come back sorted as trace/timeline.h says.
 *
 * The rows go in one table after the other, indexes come last; about a million rows a second.
 *
 * Threads: reads the timeline only. */
#ifndef ORR_TRACE_TIMELINE_WRITE_H
#define ORR_TRACE_TIMELINE_WRITE_H

#include "trace/timeline.h"

/* Writes `path`. The file appears when it is whole: until then it is PATH.part, and on failure
 * nothing is left behind and an earlier trace stays. A file that Orrery wrote is replaced, as is an
 * empty one; another one is left alone. Symbolic links are followed. ORR_INVALID: the path is a
 * file that Orrery did not write; ORR_IO with path and reason, also for an id that is there twice;
 * ORR_NO_MEMORY. May block on the file. */
enum orr_status orr_timeline_write(const struct orr_timeline *timeline, const char *path,
                                   const struct orr_memory *memory,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
