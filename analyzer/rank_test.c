#include "analyzer/rank_test.h"

#include <math.h>

/* Number of values from `at` on that are equal to `value`. */
static size_t run(const int64_t *values, size_t count, size_t at, int64_t value) {
    size_t end = at;
    while (end < count && values[end] == value) {
        end++;
    }
    return end - at;
}

double orr_rank_test(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count) {
    double n = (double)a_count, m = (double)b_count, all = n + m;
    if (a_count == 0 || b_count == 0) {
        return 1;
    }
    /* Pairs in which the value of a is the smaller one; an equal pair is half of one. */
    double smaller = 0, ties = 0;
    for (size_t i = 0, k = 0; i < a_count || k < b_count;) {
        int64_t value = i == a_count ? b[k] : k == b_count || a[i] <= b[k] ? a[i] : b[k];
        size_t in_a = run(a, a_count, i, value), in_b = run(b, b_count, k, value);
        double equal = (double)(in_a + in_b);
        i += in_a;
        k += in_b;
        smaller += (double)in_a * ((double)(b_count - k) + (double)in_b / 2);
        ties += equal * (equal * equal - 1);
    }
    double apart = fabs(smaller - n * m / 2) - 0.5;
    double variance = n * m / 12 * (all + 1 - (all > 1 ? ties / (all * (all - 1)) : 0));
    if (apart <= 0 || !(variance > 0)) {
        return 1;
    }
    return erfc(apart / sqrt(2 * variance));
}
