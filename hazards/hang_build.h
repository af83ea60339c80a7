/* Calls, entries, members and instances of a hang model (hazards/hang_model.h); its streams are
 * there already.
 *
 * Threads: one at a time. */
#ifndef ORR_HAZARDS_HANG_BUILD_H
#define ORR_HAZARDS_HANG_BUILD_H

#include "hazards/hang_model.h"

/* Of the calls with keep[op]. Says too whether two calls of one number could differ. */
enum orr_status orr__hang_build(struct orr__hang_model *model, const bool *keep) ORR_MUST_CHECK;

#endif
