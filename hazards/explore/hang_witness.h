/* What a run that got stuck, or met a mismatch, came to: who is blocked in what, and the smallest
 * part of the program, with the shortest schedule found, that comes to the same. */
#ifndef ORR_HAZARDS_EXPLORE_HANG_WITNESS_H
#define ORR_HAZARDS_EXPLORE_HANG_WITNESS_H

#include "hazards/explore/explore.h"
#include "hazards/explore/interleavings.h"

/* The end of a run. Two ends are the same if kind and operations are. */
struct orr__hang_end {
    enum orr_check_verdict_kind kind; /* HANG or MISMATCH */
    uint32_t
        *blocked; /* HANG: operation of every actor that has a next step, else ORR_NONE; owned */
    uint32_t op_a, op_b; /* MISMATCH */
};

/* The end of the search's current run, which is HANG or MISMATCH. */
enum orr_status orr__hang_end_take(const struct orr__interleavings *search,
                                   struct orr__hang_end *out_end) ORR_MUST_CHECK;
void orr__hang_end_clear(struct orr__hang_end *end, const struct orr_memory *memory);
bool orr__hang_end_is(const struct orr__hang_end *end, const struct orr__hang_end *other,
                      uint32_t actor_count);

/* Sets finding->schedule to the current run, and finding->message. */
enum orr_status orr__hang_store(const struct orr__interleavings *search,
                                struct orr_explore_finding *finding) ORR_MUST_CHECK;

/* Replaces finding->schedule by one of the smallest part of the program that comes to the same end
 * and holds what the blocked wait for. `state`: of the end. */
enum orr_status orr__hang_minimize(const struct orr__queue_plan *plan, const uint32_t *state,
                                   const struct orr__hang_end *end,
                                   struct orr_explore_finding *finding) ORR_MUST_CHECK;

#endif
