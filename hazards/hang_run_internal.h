/* What the files of a hang run share: its words, lists and who waits.
 *
 * Threads: as the run's. */
#ifndef ORR_HAZARDS_HANG_RUN_INTERNAL_H
#define ORR_HAZARDS_HANG_RUN_INTERNAL_H

#include "hazards/hang_run.h"

/* Changes a word of the state; into the log, if steps are logged. */
void orr__hang_set(struct orr__hang_run *run, size_t at, uint32_t value);

static inline uint32_t orr__hang_get(const struct orr__hang_run *run, size_t at) {
    return run->words[at];
}

static inline void orr__hang_add(struct orr__hang_run *run, size_t at, uint32_t value) {
    orr__hang_set(run, at, orr__hang_get(run, at) + value);
}

/* Begins a list at the end of `lists`; adds to it; sets its count. One is open at a time. */
uint32_t orr__hang_list_open(struct orr__hang_run *run);
void orr__hang_list_put(struct orr__hang_run *run, uint32_t value);
void orr__hang_list_close(struct orr__hang_run *run, uint32_t list);

/* All who wait for a thing are to look again. */
void orr__hang_wake_all(struct orr__hang_run *run, enum orr__hang_wait what, uint32_t object);
/* A process waits no longer. */
void orr__hang_leave(struct orr__hang_run *run, uint32_t process);

#endif
