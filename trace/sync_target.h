/* Internal to trace/: what a host waited for, as the number that is stored and as text.
 *
 * Threads: reads the timeline only. */
#ifndef ORR_TRACE_SYNC_TARGET_H
#define ORR_TRACE_SYNC_TARGET_H

#include "trace/timeline.h"

enum { ORR__SYNC_TARGET_MAX = 512 };

/* "stream compute of device 0", "device 0", "event e1": of `target`, an id of a stream or device
 * (ORR_ID_NONE: not known), or of `name` for events and futures. Cut to ORR__SYNC_TARGET_MAX - 1
 * bytes. */
void orr__sync_target_text(const struct orr_timeline *timeline, enum orr_sync_kind kind,
                           uint32_t target, const char *name, char text[ORR__SYNC_TARGET_MAX]);

/* The other way: the id, or the name of an event or a future, for which the text above is the
 * sync's. *exact is false if there is none; then the id that the sync names otherwise, if any. A
 * name points into the sync's own text; "" is none. */
struct orr__sync_target {
    uint32_t id;
    const char *name;
    bool exact;
};
struct orr__sync_target orr__sync_target_of(const struct orr_timeline *timeline,
                                            const struct orr_timeline_sync *sync);

#endif
