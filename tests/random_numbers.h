/* Random numbers for tests, the same everywhere.
 *
 * Threads: pure functions of the state. */
#ifndef ORR_TESTS_RANDOM_NUMBERS_H
#define ORR_TESTS_RANDOM_NUMBERS_H

#include <stdint.h>

/* xorshift64*; *state is not 0. */
uint64_t random_next(uint64_t *state);
/* Evenly from 0 .. below - 1. */
uint64_t random_below(uint64_t *state, uint64_t below);

#endif
