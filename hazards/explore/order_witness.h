/* Witnesses of findings about memory: a schedule that shows wrong numbers, of as few operations as
 * will do. */
#ifndef ORR_HAZARDS_EXPLORE_ORDER_WITNESS_H
#define ORR_HAZARDS_EXPLORE_ORDER_WITNESS_H

#include "hazards/explore/explore.h"
#include "hazards/explore/order_run.h"

/* Finds a finding's schedule on the smallest part of the program that still has the finding, and
 * says in finding->shows_wrong whether it gives wrong numbers. It does whenever some schedule tried
 * does: first those that need no search (the pair the other way round, with everything else before
 * it, after it, or where it stood), then a few thousand distinct orders. */
enum orr_status orr__order_witness(const struct orr__order_plan *plan,
                                   const struct orr__order_finding *found,
                                   struct orr_explore_finding *finding) ORR_MUST_CHECK;

/* Sets finding->message. */
enum orr_status orr__order_message(const struct orr__order_plan *plan,
                                   const struct orr__order_finding *found,
                                   struct orr_explore_finding *finding) ORR_MUST_CHECK;

#endif
