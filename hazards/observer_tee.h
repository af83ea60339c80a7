/* Two observers of one run.
 *
 *     struct orr_observer_tee tee;
 *     orr_observer_tee_init(&tee, orr_monitor_observer(monitor), orr_recorder_observer(recorder));
 *     config.observer = &tee.observer;
 *
 * Threads: one, that of the runtime. */
#ifndef ORR_HAZARDS_OBSERVER_TEE_H
#define ORR_HAZARDS_OBSERVER_TEE_H

#include "runtime/observer.h"

struct orr_observer_tee {
    struct orr_observer observer; /* first */
    struct orr_observer *sides[2];
};

/* Both are told everything, `first` first; borrowed as long as the tee is used. */
void orr_observer_tee_init(struct orr_observer_tee *tee, struct orr_observer *first,
                           struct orr_observer *second);

#endif
