/* Are two samples from the same distribution? The rank test of Mann, Whitney and Wilcoxon, which
 * asks no shape of the distributions: durations have long tails.
 *
 *     orr__sort_times(memory, a, a_count);
 *     orr__sort_times(memory, b, b_count);
 *     double p = orr_rank_test(a, a_count, b, b_count);       // 0.0001: hardly
 *
 * Two-sided, by the normal approximation with a correction for ties and for continuity (Mann and
 * Whitney, Ann. Math. Stat. 18, 1947; ties: Lehmann, Nonparametrics, 1.4). Below 8 values a side it
 * is too coarse to be asked.
 *
 * Threads: pure function. */
#ifndef ORR_ANALYZER_RANK_TEST_H
#define ORR_ANALYZER_RANK_TEST_H

#include <stddef.h>
#include <stdint.h>

/* Probability of ranks as far apart as these, or farther, if both came from one distribution. 1 for
 * an empty sample or if all values are equal. Both are sorted, smallest first. The same for (a, b)
 * and (b, a). */
double orr_rank_test(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count);

#endif
