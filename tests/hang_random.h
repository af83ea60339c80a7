/* Random stream programs of the hang question, for tests: few calls by few hosts, which share
 * streams, events, locks and communicators more than is good for them.
 *
 * Threads: any. */
#ifndef ORR_TESTS_HANG_RANDOM_H
#define ORR_TESTS_HANG_RANDOM_H

#include "hazards/stream_program.h"

/* A program of up to `ops` calls, and the ends of groups. Owned by the caller. *state: as for
 * random_next. */
struct orr_stream_program *hang_random(const struct orr_memory *memory, uint32_t ops,
                                       uint64_t *state);

#endif
