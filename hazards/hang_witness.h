/* From what the search did to a schedule in which nothing is left out.
 *
 * The search leaves out calls that cannot keep anybody waiting. The witness runs the program with
 * all of them: it brings about the search's steps one after another, and whatever must happen
 * before each, by the rules alone. So a finding is never said that does not happen.
 *
 * Threads: as the run's. */
#ifndef ORR_HAZARDS_HANG_WITNESS_H
#define ORR_HAZARDS_HANG_WITNESS_H

#include "hazards/hang_run.h"

/* Fills steps, blocked and mismatch of a result of kind HANG or MISMATCH whose memory is set, by
 * the steps that a run has made. */
enum orr_status orr__hang_witness(const struct orr__hang_run *searched,
                                  struct orr_hang_result *result) ORR_MUST_CHECK;

#endif
