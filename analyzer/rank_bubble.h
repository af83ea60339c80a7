/* Pipeline bubbles of the ranks of a job, per rank and step, from sends and receives that were
 * matched as pairs (ranks.h). Bubbles of our own traces, whose edges are recorded: pipeline.h.
 *
 *     rank 0   F0 F1 F2 .  .  .  .  B0 B1 B2      . bubble
 *     rank 1   .  F0 F1 F2 .  .  B0 B1 B2 .
 *     rank 2   .  .  F0 F1 F2 B0 B1 B2 .  .
 *             begin                          end
 *
 *   pipeline    ranks that pairs connect, directly or not; pp of them
 *   step        as steps.h finds them, of work by its call; without steps all is one, without a
 *               number
 *   window W    of a step: first start to last end of its computation, on any rank of the pipeline
 *   bubble      of a rank: W minus its computation minus the transfer part of its exposed
 *               communication (from the last arrival to the first end of a collective)
 *   m           pairs from the lowest rank to the next one in W: microbatches, if a stage is not
 *               cut into several
 *   ideal       (pp - 1) / (m + pp - 1) of W: equal stages, nothing else
 *
 * What the bubble consists of are the device's classes (classes.h), with the rest of exposed_comm,
 * which is waiting for other ranks. Clocks must be aligned; there are no bubbles else.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_RANK_BUBBLE_H
#define ORR_ANALYZER_RANK_BUBBLE_H

#include "analyzer/analysis.h"

struct orr_rank_bubble {
    uint32_t pipeline, rank; /* rank: index of ranks->items */
    uint32_t stages;         /* pp */
    bool has_step;
    uint64_t step; /* its number */
    int64_t begin_ns, end_ns;
    uint64_t microbatches; /* m, 0: not known */
    int64_t compute_ns, transfer_ns, bubble_ns;
    int64_t classes[ORR_CLASS_COUNT]; /* of the bubble: all but compute; they sum to it */
};

struct orr_rank_bubbles {
    struct orr_rank_bubble *items; /* by device, then begin; owned */
    size_t count, capacity;
};

/* `whole` is of the timeline of all ranks. ORR_NO_MEMORY. */
enum orr_status orr_rank_bubbles_compute(const struct orr_ranks *ranks,
                                         const struct orr_analysis *whole,
                                         const struct orr_memory *memory,
                                         struct orr_rank_bubbles *out) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_rank_bubbles_free(const struct orr_memory *memory, struct orr_rank_bubbles *bubbles);

#endif
