/* What a state that nothing leaves, or a mismatch, means in words.
 *
 * Threads: as the run's. */
#ifndef ORR_HAZARDS_HANG_EXPLAIN_H
#define ORR_HAZARDS_HANG_EXPLAIN_H

#include "hazards/hang_run.h"

/* Fills steps, blocked and mismatch of a result whose kind and memory are set. */
enum orr_status orr__hang_explain(struct orr__hang_run *run,
                                  struct orr_hang_result *result) ORR_MUST_CHECK;

#endif
