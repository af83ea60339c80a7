/* Internal to trace/: a timeline's source as rows of table meta, and back; the keys are listed in
 * schema.sql.
 *
 * Threads: as the timeline. */
#ifndef ORR_TRACE_TIMELINE_SOURCE_H
#define ORR_TRACE_TIMELINE_SOURCE_H

#include "trace/timeline.h"

enum { ORR__SOURCE_ROWS_MAX = 32, ORR__SOURCE_VALUE_MAX = 32 };

/* Is it a key under which the source is kept? Rows of timeline->meta with such a key are not
 * written. */
bool orr__source_key(const char *key);

struct orr__source_row {
    char key[40], value[ORR__SOURCE_VALUE_MAX];
};

/* The rows that say what timeline->source says; none for what a run of ours has anyway. Returns
 * their number. A format longer than ORR__SOURCE_VALUE_MAX - 1 is cut. */
size_t orr__source_rows(const struct orr_timeline *timeline,
                        struct orr__source_row rows[ORR__SOURCE_ROWS_MAX]);

/* Sets timeline->source from timeline->meta, and takes those rows out of it; of an imported trace
 * schema_version, too, which is the file's and not the source's. What has no sense is not known. */
void orr__source_from_meta(struct orr_timeline *timeline);

#endif
