/* Launches of captured graphs compared with what was recorded of them. A tracer that loses nodes of
 * a graph leaves idle time that was none: then idle is unreliable, whatever it looks like.
 *
 * Which graph a launch launched is known from its ops only, where they name it. A launch is short
 * if another launch of the same graph owns more ops of it.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_GRAPH_REPLAYS_H
#define ORR_ANALYZER_GRAPH_REPLAYS_H

#include "analyzer/events.h"

struct orr_graph_replays {
    uint64_t launches;
    uint64_t without_ops;   /* own no op at all */
    uint64_t short_ones;    /* own fewer ops than another launch of their graph */
    uint64_t missing_most;  /* ops that the worst of those lacks */
    uint32_t first_without; /* first call of each sort by begin, ORR_EVENTS_NONE if there is none */
    uint32_t first_short;
    bool unknown_graphs; /* some launch with ops does not say which graph it is */
};

/* `timeline` names the graphs; NULL: nothing does. ORR_NO_MEMORY. */
enum orr_status orr_graph_replays_compute(const struct orr_events *events,
                                          const struct orr_timeline *timeline,
                                          const struct orr_memory *memory,
                                          struct orr_graph_replays *out_replays) ORR_MUST_CHECK;

#endif
