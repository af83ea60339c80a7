/* What distinguishes states: everything that what can still happen depends on, as a hash.
 *
 * What follows from how far hosts are is not looked at again; an entry of a stream counts as what
 * it does, not as who made it, so that hosts that do the same in another order meet in one state.
 *
 * Threads: as the run's. */
#ifndef ORR_HAZARDS_HANG_STATE_H
#define ORR_HAZARDS_HANG_STATE_H

#include "hazards/hang_run.h"
#include "hazards/hang_seen.h"

/* Of a run in which every step that goes alone has been made. `places` has room for a number per
 * entry of the model; its content does not matter. */
struct orr__hang_hash orr__hang_state(const struct orr__hang_run *run, uint32_t *places);

#endif
