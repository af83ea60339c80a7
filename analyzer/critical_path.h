/* The critical path: a chain of adjacent intervals from the end of the window back to its begin
 * (2.9), whose lengths sum exactly to the window.
 *
 *     host     |--launch--|....host....|==launch==|
 *     device                            \         [====op====)         [====op====)
 *                                                             \=dispatch=/          ^
 *                                                                        the walk starts here
 *
 * At an op its own time is taken, then the walk goes on at what bound its start: the op before it
 * in its stream, what it waited for, or the call that enqueued it; from a call to the host thread;
 * from the thread to the op that its last waiting call waited for. A collective is bound by the
 * member that arrived last. What cannot be explained (an unlinked op, a clock violation, a cycle of
 * bad records) is `unknown`.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_CRITICAL_PATH_H
#define ORR_ANALYZER_CRITICAL_PATH_H

#include "analyzer/events.h"

/* X(name, text) */
#define ORR_PATH_LIST(X)                                                                           \
    X(COMPUTE, "compute")                                                                          \
    X(COMM, "comm")                                                                                \
    X(COPY, "copy")                                                                                \
    X(LAUNCH, "launch")                                                                            \
    X(DISPATCH, "dispatch")                                                                        \
    X(DEP_WAIT, "dep_wait")                                                                        \
    X(HOST, "host")                                                                                \
    X(SYNC, "sync")                                                                                \
    X(UNKNOWN, "unknown")

enum orr_path_kind {
#define ORR_PATH_ENUM(name, text) ORR_PATH_##name,
    ORR_PATH_LIST(ORR_PATH_ENUM)
#undef ORR_PATH_ENUM
        ORR_PATH_COUNT
};
/* "compute", ...: static storage. */
const char *orr_path_kind_text(enum orr_path_kind kind);

struct orr_path_segment {
    int64_t begin_ns, end_ns;
    enum orr_path_kind kind;
    uint32_t op;   /* compute, comm, copy, dispatch, unknown: the op; else NONE */
    uint32_t call; /* launch, sync, host: the call that it is in or ends at; else NONE */
};

struct orr_path_operator { /* operator and the path's time in its ops */
    uint32_t operator_index;
    uint64_t count;
    int64_t time_ns;
};

struct orr_critical_path {
    int64_t begin_ns, end_ns;
    int64_t kinds[ORR_PATH_COUNT];     /* ns: they sum to end - begin */
    struct orr_path_segment *segments; /* in ascending order, adjacent; owned */
    size_t segment_count, segment_capacity;
    struct orr_path_operator *operators; /* by time, largest first; owned */
    size_t operator_count;
    bool broken; /* a cycle of bad records was met; the rest is unknown */
};

/* Walks back from end_ns to begin_ns. */
enum orr_status orr_critical_path_compute(const struct orr_events *events, int64_t begin_ns,
                                          int64_t end_ns, const struct orr_memory *memory,
                                          struct orr_critical_path *out_path) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_critical_path_free(const struct orr_memory *memory, struct orr_critical_path *path);

#endif
