/* SplitMix64: 64 random bits from 64, for whatever must be drawn the same way everywhere.
 *
 * Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014;
 * constants of Vigna's splitmix64.c. The state advances by a constant, so that any output can be
 * reached directly. Not a cryptographic generator.
 *
 *     uint64_t state = seed;
 *     uint64_t first = orr_splitmix_next(&state), second = orr_splitmix_next(&state);
 *     assert(second == orr_splitmix_at(seed, 1));
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_SPLITMIX_H
#define ORR_RUNTIME_SPLITMIX_H

#include <stdint.h>

/* By how much the state advances: 2^64 / golden ratio, made odd. */
#define ORR_SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The finalizer, a bijection: every bit of the result depends on every bit of `z`. */
static inline uint64_t orr_splitmix_mix(uint64_t z) {
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Output number `index`, from 0, of the generator that starts at `state`. */
static inline uint64_t orr_splitmix_at(uint64_t state, uint64_t index) {
    return orr_splitmix_mix(state + (index + 1) * ORR_SPLITMIX_STEP);
}

/* The next output; advances the state. */
static inline uint64_t orr_splitmix_next(uint64_t *state) {
    return orr_splitmix_mix(*state += ORR_SPLITMIX_STEP);
}

#endif
