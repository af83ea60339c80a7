/* Threads for searches whose parts don't know each other: numbered jobs, taken in order by whoever
 * is free. Results must not depend on who ran what, so a job writes only to what is its own. */
#ifndef ORR_HAZARDS_EXPLORE_POOL_H
#define ORR_HAZARDS_EXPLORE_POOL_H

#include <stdint.h>

enum { ORR_POOL_THREADS_MAX = 64 };

/* Calls work(context, job) for every job from 0 to job_count - 1, on up to `threads` threads
 * (0 counts as 1), the caller's included; returns when all are done. Threads that can't be had are
 * done without. */
void orr__pool_run(uint32_t threads, uint32_t job_count, void (*work)(void *context, uint32_t job),
                   void *context);

#endif
