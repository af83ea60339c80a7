/* Random stream programs of the happens-before question, for tests: all operations, all kinds of
 * streams and memory, names that live, end, are reused and aliased.
 *
 * Threads: any. */
#ifndef ORR_TESTS_PROGRAM_RANDOM_H
#define ORR_TESTS_PROGRAM_RANDOM_H

#include "hazards/stream_program.h"

struct program_random {
    uint32_t ops, streams, hosts, buffers, events, devices;
    uint32_t range;              /* bounds of accesses are up to here */
    uint32_t sync_percent;       /* share of operations that order something */
    uint32_t malformed_permille; /* of operations that may make the program malformed */
};

/* Small, and about as often racy as not. */
struct program_random program_random_small(uint64_t *state);
/* Hundreds of streams, for clocks of several levels; most of the operations order something. */
struct program_random program_random_wide(uint64_t *state);
/* Owned by the caller. *state: as for random_next. */
struct orr_stream_program *program_random(const struct orr_memory *memory,
                                          const struct program_random *options, uint64_t *state);

#endif
