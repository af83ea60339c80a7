/* Idle time inside each stream (2.4): gaps between an op's start and the largest end before it, by
 * cause. Sums over streams exceed the idle time of their device; both are printed, with their
 * names.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_IDLE_STREAMS_H
#define ORR_ANALYZER_IDLE_STREAMS_H

#include "analyzer/events.h"
#include "analyzer/options.h"

/* X(name, text): the first that applies, in this order. */
#define ORR_STREAM_IDLE_LIST(X)                                                                    \
    X(UNLINKED, "unlinked") /* the op after it has no call */                                      \
    X(HOST, "host")         /* its call began after the op before had ended */                     \
    X(SHORT, "short")       /* below 30 ns */                                                      \
    X(QUEUED, "queued")

enum orr_stream_idle {
#define ORR_STREAM_IDLE_ENUM(name, text) ORR_STREAM_IDLE_##name,
    ORR_STREAM_IDLE_LIST(ORR_STREAM_IDLE_ENUM)
#undef ORR_STREAM_IDLE_ENUM
        ORR_STREAM_IDLE_COUNT
};
/* "unlinked", ...: static storage. */
const char *orr_stream_idle_text(enum orr_stream_idle class_);

struct orr_idle_streams {
    int64_t ns[ORR_STREAM_IDLE_COUNT];
    uint64_t counts[ORR_STREAM_IDLE_COUNT];
    uint64_t streams; /* with at least one op */
};

/* Over all streams. */
void orr_idle_streams_compute(const struct orr_events *events,
                              const struct orr_analysis_options *options,
                              struct orr_idle_streams *out_idle);

#endif
