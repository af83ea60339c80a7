/* Small random stream programs for oracle hang, of all its operations. */
#ifndef ORR_TESTS_HANG_DRAW_H
#define ORR_TESTS_HANG_DRAW_H

#include "hazards/stream_program.h"

/* The program of a seed; small enough for tests/hang_naive.h. Fails the test if it can't be
 * made. */
struct orr_stream_program *hang_draw(const struct orr_memory *memory, uint64_t seed);

#endif
