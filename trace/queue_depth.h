/* Queue depth: how many commands each device has been given and has not finished.
 *
 * The depth follows from the commands, so traces don't store it: the view `counter` computes it in
 * SQL and this function for a timeline in memory. A command counts from the beginning of its call
 * (enqueue_ns) to its finish, or to the end of the trace if it has none.
 *
 * Threads: one; the timeline is changed. */
#ifndef ORR_TRACE_QUEUE_DEPTH_H
#define ORR_TRACE_QUEUE_DEPTH_H

#include "trace/timeline.h"

#define ORR_QUEUE_DEPTH_NAME "queue depth"

/* Adds counter "queue depth" of every device with commands in streams: its change points, values in
 * commands. Call it once. ORR_NO_MEMORY leaves the timeline as it was. */
enum orr_status orr_timeline_add_queue_depth(struct orr_timeline *timeline) ORR_MUST_CHECK;

#endif
