#include "tests/random_numbers.h"

uint64_t random_next(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

uint64_t random_below(uint64_t *state, uint64_t below) {
    return (random_next(state) >> 32) * below >> 32;
}
