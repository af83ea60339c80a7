/* What each host thread was doing: its calls, cut where they overlap, and the profiler's own time.
 *
 *     calls      |------sync------|   |-launch-|
 *                     |-launch-|
 *     segments   |sync|both    |s |   |launch  |
 *
 * A segment says whether the thread is inside a waiting call (and inside which, if it is only one:
 * an op's own call does not count as waiting for it) and inside an enqueuing call; segments that
 * say the same and touch are one. Between segments the thread is in no recorded call at all.
 *
 * Threads: immutable once built. */
#ifndef ORR_ANALYZER_HOSTS_H
#define ORR_ANALYZER_HOSTS_H

#include "analyzer/events.h"

#define ORR_HOSTS_SEVERAL (UINT32_MAX - 1)

struct orr_host_segment {
    int64_t begin_ns, end_ns;
    uint32_t
        waiting; /* the waiting call; ORR_EVENTS_NONE: none, ORR_HOSTS_SEVERAL: more than one */
    uint32_t enqueuing; /* 1 inside an enqueuing call */
};

struct orr_host_process {
    uint64_t process;
    struct orr_intervals overhead; /* time the profiler itself took, as a union */
};

struct orr_hosts {
    struct orr_host_segment *segments;  /* by thread and time; owned */
    size_t *first;                      /* of each thread, thread_count + 1; owned */
    struct orr_host_process *processes; /* those with overhead, by process; owned */
    size_t process_count;
};

/* Cuts the calls of all threads. ORR_NO_MEMORY leaves nothing behind. */
enum orr_status orr_hosts_create(const struct orr_events *events, const struct orr_memory *memory,
                                 struct orr_hosts *out_hosts) ORR_MUST_CHECK;
/* Frees and empties; accepts an empty one. */
void orr_hosts_free(const struct orr_memory *memory, struct orr_hosts *hosts);

/* First segment of a thread that ends after `time`; first[thread + 1] if there is none. */
size_t orr_hosts_find(const struct orr_hosts *hosts, uint32_t thread, int64_t time);

/* Overhead of a process, NULL if it has none. */
const struct orr_intervals *orr_hosts_overhead(const struct orr_hosts *hosts, uint64_t process);

#endif
