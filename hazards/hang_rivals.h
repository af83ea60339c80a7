/* Who could be in whose way: the independence of steps, on which the search's economy rests.
 *
 * Two steps of different processes are independent if in every state in which both can be made,
 * either leaves the other possible, and both orders lead to the same state. Finishing is
 * independent of everything: it only makes conditions true. So are flags, which stay set, and
 * starts where slots suffice. What is left: two who add to one stream; who adds, and who looks at
 * what is in it; who records an event, and who uses it; who asks for the same lock; starts on a
 * device without slots for all; hosts that take numbers for one rank.
 *
 * Threads: as the run's. */
#ifndef ORR_HAZARDS_HANG_RIVALS_H
#define ORR_HAZARDS_HANG_RIVALS_H

#include "hazards/hang_run.h"

/* Told of a process; false: enough. */
typedef bool orr__hang_tell(void *context, uint32_t process);

/* Tells of every other process with a step, now or later, that is not independent of the next step
 * of `process`, which is READY. One may be told several times. False if `tell` had enough. */
bool orr__hang_rivals(const struct orr__hang_run *run, uint32_t process, orr__hang_tell *tell,
                      void *context);
/* Is there none? */
bool orr__hang_goes_alone(const struct orr__hang_run *run, uint32_t process);

/* Tells of processes of which one must make a step before `process`, which is not READY (the
 * run's last look was at it), can be. None: it never will be. */
void orr__hang_needed(const struct orr__hang_run *run, uint32_t process, orr__hang_tell *tell,
                      void *context);

#endif
