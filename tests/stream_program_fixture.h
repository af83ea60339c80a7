/* What tests of stream programs share: random well-formed programs, and when two are the same.
 *
 * Threads: one. */
#ifndef ORR_TESTS_STREAM_PROGRAM_FIXTURE_H
#define ORR_TESTS_STREAM_PROGRAM_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "hazards/stream_program.h"

/* A random program with every operation, field and option that its oracle knows. It is well formed
 * as a whole; an oracle may find an operation invalid when it is reached. Owned by the caller; NULL
 * without memory. */
struct orr_stream_program *stream_program_draw(uint64_t *random, enum orr_oracle oracle,
                                               uint32_t op_count, const struct orr_memory *memory);

/* Whether two programs differ in nothing but the numbers of their names; prints the first
 * difference. */
bool stream_program_equal(const struct orr_stream_program *a, const struct orr_stream_program *b);

#endif
