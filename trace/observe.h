/* A finished trace told to an observer, as if the run happened again: every call in the order in
 * which it was made, with what it touched and waited for, and what hosts had learned before it.
 *
 *     struct orr_timeline *timeline;
 *     if (orr_timeline_read("run.db", &memory, &timeline, &error) != ORR_OK) ...
 *     struct orr_names *names;
 *     if (orr_timeline_observe(timeline, observer, &memory, &names, &error) != ORR_OK) ...
 *     ... ask the observer ...
 *     orr_names_destroy(&names);
 *
 * What an observer of the run was told at once, it is told here at the next call of the host that
 * learned it, which makes no difference to what comes after what.
 *
 * Threads: one. */
#ifndef ORR_TRACE_OBSERVE_H
#define ORR_TRACE_OBSERVE_H

#include "runtime/observer.h"
#include "trace/timeline.h"

/* Tells everything. `names` are the observer's from then on: owned by the caller, to be destroyed
 * after the observer's last use of them, NULL on failure. ORR_INVALID for a trace that does not say
 * what its commands touch; ORR_NO_MEMORY. */
enum orr_status orr_timeline_observe(const struct orr_timeline *timeline,
                                     struct orr_observer *observer, const struct orr_memory *memory,
                                     struct orr_names **out_names,
                                     struct orr_error *error) ORR_MUST_CHECK;

#endif
