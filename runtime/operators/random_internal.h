/* The counter-based generator behind rand, randn and dropout.
 *
 * Element `index` of a tensor gets orr__random_bits(key, index): a function of seed and index and
 * nothing else, so a tensor may be computed in any order, in parts and on any device. It is the
 * output number `index` of SplitMix64 (runtime/splitmix.h), started at a state mixed from the seed.
 *
 * Everything from bits to numbers is integer arithmetic or f64 with + - * / and sqrt, which IEEE
 * 754 rounds in one way only; no libm. The same seed gives the same numbers on every machine.
 *
 * Shards: an operator with the attributes `global_shape` and `starts` computes the part that begins
 * at coordinates `starts` of a larger tensor, with the index that each element has in that one; the
 * shards of ranks together equal the whole.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_RANDOM_INTERNAL_H
#define ORR_RUNTIME_RANDOM_INTERNAL_H

#include <math.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/splitmix.h"

/* The generator's state for a seed. */
uint64_t orr__random_key(uint64_t seed);

/* 64 random bits for an element. */
static inline uint64_t orr__random_bits(uint64_t key, uint64_t index) {
    return orr_splitmix_at(key, index);
}

/* Dropout with probability p keeps an element if the upper 53 of its random bits, as a number in
 * [0, 1), are p or more; compared as integers, with this, which is exact because p * 2^53 is. */
static inline uint64_t orr__dropout_threshold(double p) {
    return (uint64_t)ceil(p * 0x1p53);
}

enum { ORR__RANDOM_PIECE = 512 };

/* Standard normal numbers from 64 bits each, at most ORR__RANDOM_PIECE: the inverse of the normal
 * distribution function at (k + 1/2) / 2^53, k = the upper 53 bits, by algorithm AS 241 PPND7
 * (Wichura, Applied Statistics 37, 1988), whose relative error is below 1.2e-7. Largest magnitude:
 * 8.3. */
void orr__random_normals(const uint64_t *bits, int count, double *out_values);

/* Natural logarithm of a normal number in (0, 1], relative error below 1e-11. */
double orr__random_log(double value);

/* Which element of the global tensor a local one is. */
struct orr__placement {
    bool whole; /* the index is the local one */
    struct orr__strided part;
    uint64_t base; /* index of the part's first element */
};

/* Checks the attributes `global_shape` and `starts` (both empty, or both of the result's rank with
 * the part inside). */
enum orr_status orr__check_placement(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_shape *shape, const struct orr_shape *global,
                                     const struct orr_shape *starts,
                                     struct orr_error *error) ORR_MUST_CHECK;

struct orr__placement orr__placement_of(const struct orr_shape *shape,
                                        const struct orr_shape *global,
                                        const struct orr_shape *starts);

/* Global indices of local elements first .. first + count - 1. */
void orr__placement_indices(const struct orr__placement *placement, int64_t first, int count,
                            uint64_t *out_indices);

#endif
