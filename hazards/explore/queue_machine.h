/* Runs the streams of a program as queues, one step at a time (oracle hang).
 *
 *     uint32_t *state = ... plan->at.words ...;
 *     orr__queue_reset(plan, state);
 *     while (... some actor for which orr__queue_can(plan, state, actor) ...)
 *         orr__queue_step(plan, state, actor);
 *     if (!orr__queue_is_done(plan, state)) ... it is stuck
 *
 * A state is plain words, so copying it is memcpy.
 *
 * Threads: states belong to whoever made them; the plan is shared. */
#ifndef ORR_HAZARDS_EXPLORE_QUEUE_MACHINE_H
#define ORR_HAZARDS_EXPLORE_QUEUE_MACHINE_H

#include "hazards/explore/explore.h"
#include "hazards/explore/queue_plan.h"

/* The state before the first call. */
void orr__queue_reset(const struct orr__queue_plan *plan, uint32_t *state);

/* Whether the actor's next step can be made: it has one, and nothing blocks it. */
bool orr__queue_can(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t actor);

/* Makes a step that can be made. */
void orr__queue_step(const struct orr__queue_plan *plan, uint32_t *state, uint32_t actor);

/* All calls made, all entries finished. */
bool orr__queue_is_done(const struct orr__queue_plan *plan, const uint32_t *state);

/* Two collectives that differ have met; out: their operations. */
bool orr__queue_mismatch(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t *out_a,
                         uint32_t *out_b);

/* Who is blocked in what, as a number: the same on every machine and however names are numbered.
 * `op_of`: the operation that stands for each of the program's; NULL: itself. */
uint64_t orr__queue_hash_blocked(const struct orr__queue_plan *plan, const uint32_t *state,
                                 const uint32_t *op_of);

/* What the actor's next step is; false if it has none. */
bool orr__queue_next(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t actor,
                     struct orr_schedule_step *out_step);

/* Whether the next steps of two actors, both of which can go, may not commute. */
bool orr__queue_depends(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t a,
                        uint32_t b);

/* Whether some later step of another actor than `a` may not commute with the next one of `a`. Sets
 * others[actor] for each such actor. */
bool orr__queue_disturbers(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t a,
                           bool *others);

#endif
