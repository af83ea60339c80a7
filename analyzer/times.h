/* Sums and bounds of times in ns. ORR_TIME_NONE is the least of all: an absent time loses every
 * maximum.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_TIMES_H
#define ORR_ANALYZER_TIMES_H

#include <stdint.h>

static inline int64_t orr__max_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t orr__min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* a + b, at most INT64_MAX: sums over ops of a damaged trace may not fit. Neither is negative. */
static inline int64_t orr__add_ns(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

#endif
