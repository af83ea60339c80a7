/* Interleavings of a program's hosts and streams (oracle hang): depth first, or by a strategy.
 *
 * Depth first, each state is left by a persistent set of steps: one step alone if nothing that
 * other actors will ever do can disturb it, else a group of actors that are only disturbed by each
 * other, else all. Of these, steps in the sleep set (tried before, and independent of what has been
 * done since) are left out. So every distinct order is completed once at most; a run that finds all
 * its steps asleep is given up, and counted.
 *
 * A run ends when nothing can go, or when two collectives that differ have met.
 *
 *     struct orr__interleavings search;
 *     orr__interleavings_open(&search, plan);
 *     while (orr__interleavings_next(&search))
 *         ... search.state, search.steps; search.is_given_up ...
 *     orr__interleavings_close(&search);
 *
 * Threads: one each. */
#ifndef ORR_HAZARDS_EXPLORE_INTERLEAVINGS_H
#define ORR_HAZARDS_EXPLORE_INTERLEAVINGS_H

#include "hazards/explore/queue_machine.h"
#include "hazards/explore/strategy.h"

struct orr__branch;

struct orr__interleavings {
    const struct orr__queue_plan *plan; /* borrowed */
    uint32_t *state;                    /* of the current run */
    struct orr_schedule_step *steps;
    uint32_t step_count;
    bool is_given_up;
    bool *sleep, *others, *group; /* per actor */
    uint32_t *enabled;
    struct orr__branch *branches; /* states with more than one step to try */
    uint32_t branch_count;        /* on the path */
    uint32_t branch_opened;       /* with memory */
    size_t branch_capacity;
    bool is_started;
    enum orr_status status;
};

enum orr_status orr__interleavings_open(struct orr__interleavings *search,
                                        const struct orr__queue_plan *plan) ORR_MUST_CHECK;
/* Accepts what was never opened. */
void orr__interleavings_close(struct orr__interleavings *search);

/* Runs the next interleaving; false after the last, or when there is no memory (search->status). */
bool orr__interleavings_next(struct orr__interleavings *search);

/* Runs one interleaving by a strategy, for which a run has begun. */
void orr__interleavings_run(struct orr__interleavings *search, struct orr__strategy *strategy);

/* Runs the interleaving that makes these steps as far as it can, those of operations that are not
 * here left out, and then goes on with the first actor that can go. `op_of`: the operation that the
 * steps name, for each of the program's. */
void orr__interleavings_follow(struct orr__interleavings *search,
                               const struct orr_schedule_step *steps, uint32_t count,
                               const uint32_t *op_of);

/* What the current run came to: MISMATCH (out: the two operations), HANG, or NO_HANG. */
enum orr_check_verdict_kind orr__interleavings_end(const struct orr__interleavings *search,
                                                   uint32_t *out_a, uint32_t *out_b);

#endif
