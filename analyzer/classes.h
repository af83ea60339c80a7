/* Conservation: every ns of a device's window is in exactly one class (2.3).
 *
 *     busy   compute | exposed_comm | exposed_copy            (priority: C, then M, then P)
 *     gap    [g0 .. host part .. | .. dependency .. | .. rest .. g1)
 *            classed by the op N that starts at g1
 *
 * A gap is a maximal interval with no op on any stream of the device; an op of no length cuts it.
 * Host part: up to the end of N's call. Gaps are classed whole and clipped to the window
 * afterwards, so classes of adjacent windows add up.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_CLASSES_H
#define ORR_ANALYZER_CLASSES_H

#include "analyzer/events.h"
#include "analyzer/hosts.h"
#include "analyzer/options.h"
#include "analyzer/roofline.h"

/* X(name, text): text with underscores as in JSON. */
#define ORR_CLASS_LIST(X)                                                                          \
    X(COMPUTE, "compute")                                                                          \
    X(EXPOSED_COMM, "exposed_comm")                                                                \
    X(EXPOSED_COPY, "exposed_copy")                                                                \
    X(PROFILER_OVERHEAD, "profiler_overhead")                                                      \
    X(HOST_SYNC, "host_sync")                                                                      \
    X(HOST_LAUNCH, "host_launch")                                                                  \
    X(HOST_OTHER, "host_other")                                                                    \
    X(DEP_WAIT, "dep_wait")                                                                        \
    X(DISPATCH, "dispatch")                                                                        \
    X(UNKNOWN_WAIT, "unknown_wait")                                                                \
    X(UNKNOWN_UNLINKED, "unknown_unlinked")                                                        \
    X(UNKNOWN_CLOCK, "unknown_clock")                                                              \
    X(BEFORE_FIRST, "before_first")                                                                \
    X(AFTER_LAST, "after_last")

enum orr_class {
#define ORR_CLASS_ENUM(name, text) ORR_CLASS_##name,
    ORR_CLASS_LIST(ORR_CLASS_ENUM)
#undef ORR_CLASS_ENUM
        ORR_CLASS_COUNT
};

/* "exposed_comm", ...: static storage. */
const char *orr_class_text(enum orr_class class_);

/* Kinds of busy time, in order of precedence: compute by what bounds it, then comm, then copy. */
enum orr_busy {
    ORR_BUSY_COMPUTE_BOUND,
    ORR_BUSY_MEMORY_BOUND,
    ORR_BUSY_LATENCY_BOUND,
    ORR_BUSY_NO_COST,
    ORR_BUSY_COMM,
    ORR_BUSY_COPY,
    ORR_BUSY_COUNT
};

/* A gap, told to whoever listens after its pieces. */
struct orr_gap {
    int64_t begin_ns, end_ns;
    uint32_t op;       /* N */
    uint32_t previous; /* the op before N in the device's order, NONE if N is the first */
    int64_t host_ns;   /* length of the host part, 0 for unlinked and clock violations */
    int64_t classes[ORR_CLASS_COUNT];
};

/* What a walk tells. Pieces of gaps come in ascending order, so do pieces of busy time; the two are
 * not interleaved. `gap` is called for each gap after its pieces. */
struct orr_walk {
    void (*busy)(void *context, enum orr_busy busy, int64_t begin_ns, int64_t end_ns);
    void (*idle)(void *context, enum orr_class class_, int64_t begin_ns, int64_t end_ns);
    void (*gap)(void *context, const struct orr_gap *gap);
    void *context;
};

struct orr_device_times {
    uint64_t ops;
    int64_t first_ns, last_ns; /* smallest start, largest end; 0 without ops */
    int64_t span_ns, busy_ns;
    int64_t compute_ns, comm_ns, copy_ns;   /* |C|, |M|, |P| */
    int64_t comm_compute_ns, comm_copy_ns;  /* |C n M|, |M n P| */
    int64_t window_comm_ns, window_copy_ns; /* |M|, |P| within the window */
    int64_t host_api_ns; /* of host_other: inside other API calls (allocation, module load, ...) */
    int64_t classes[ORR_CLASS_COUNT]; /* of the span [first, last) */
    uint64_t gaps, gaps_host;
};

/* Walks one device's ops and gaps, whole: fills *out_times and tells `walk`. `bounds` is the
 * roofline's; the window is for the window_* figures only. */
enum orr_status orr_classes_walk(const struct orr_events *events, const struct orr_hosts *hosts,
                                 const struct orr_analysis_options *options, const uint8_t *bounds,
                                 uint32_t device, struct orr_interval window,
                                 const struct orr_memory *memory, const struct orr_walk *walk,
                                 struct orr_device_times *out_times) ORR_MUST_CHECK;

#endif
