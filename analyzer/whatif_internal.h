/* What-if: what its files share. Internal to analyzer/.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_WHATIF_INTERNAL_H
#define ORR_ANALYZER_WHATIF_INTERNAL_H

#include "analyzer/whatif.h"

/* While settings are applied. */
struct orr__whatif_state {
    struct orr_whatif *whatif;
    const struct orr_whatif_options *options;
    const struct orr_events *events;
    struct orr_replay *replay;
    struct orr_replay_values *values; /* being changed */
    int64_t least_call_ns;            /* what a call takes at least */
    bool hide_comm;                   /* overlap=perfect: after all others */
};

/* whatif_apply.c, whatif_graph.c: change values, and say what they came to. ORR_NO_MEMORY. */
enum orr_status orr__whatif_apply(struct orr__whatif_state *state,
                                  const struct orr_whatif_setting *setting,
                                  struct orr_whatif_effect *effect) ORR_MUST_CHECK;
enum orr_status orr__whatif_graph(struct orr__whatif_state *state,
                                  struct orr_whatif_effect *effect) ORR_MUST_CHECK;
enum orr_status orr__whatif_fuse(struct orr__whatif_state *state,
                                 const struct orr_whatif_setting *setting,
                                 struct orr_whatif_effect *effect) ORR_MUST_CHECK;
enum orr_status orr__whatif_straggler(struct orr__whatif_state *state,
                                      struct orr_whatif_effect *effect) ORR_MUST_CHECK;

/* An item's duration times ppm / 10^6, in 2^-20 ns, half up. */
void orr__whatif_scale_item(struct orr__whatif_state *state, uint32_t item, uint64_t ppm);
/* The same of a time in ns, which is not negative. */
int64_t orr__whatif_scale_ns(int64_t ns, uint64_t ppm);

/* Memory is the roof of an op whose cost and roof are known: F/Q < P/B. */
bool orr__whatif_memory_side(const struct orr__whatif_state *state, uint32_t op);

#endif
