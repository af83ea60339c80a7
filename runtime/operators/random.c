#include "runtime/operators/random_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

uint64_t orr__random_key(uint64_t seed) {
    /* Neighbouring seeds must not give streams shifted by a few places: jump far. */
    return orr__random_bits(seed ^ 0x6f72726572792d31u, 0);
}

double orr__random_log(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa); /* in [1, 2) */
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent++;
    }
    /* log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716: the first omitted term of the odd
     * series is s^17 / 17 < 6e-15. */
    static const double odd[] = {1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                                 1.0 / 7,  1.0 / 5,  1.0 / 3,  1};
    double s = (mantissa - 1) / (mantissa + 1), s2 = s * s, series = 0;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        series = series * s2 + odd[i];
    return (double)exponent * 0.69314718055994531 + 2 * s * series;
}

/* AS 241, the tails: `r` is the smaller of the two tail probabilities. */
static double normal_tail(double r) {
    r = sqrt(-orr__random_log(r)); /* sqrt is exactly rounded by IEEE 754 */
    if (r <= 5) {
        r -= 1.6;
        return (((1.7023821103e-1 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
               ((1.2021132975e-1 * r + 7.3700164250e-1) * r + 1);
    }
    r -= 5;
    return (((1.7337203997e-2 * r + 4.2868294337e-1) * r + 3.0812263860) * r + 6.6579051150) /
           ((1.2258202635e-2 * r + 2.4197894225e-1) * r + 1);
}

/* AS 241, the central 85 %. */
static inline double normal_center(double q) {
    double r = 0.180625 - q * q;
    return q * (((5.9109374720e1 * r + 1.5929113202e2) * r + 5.0434271938e1) * r + 3.3871327179) /
           (((6.7187563600e1 * r + 7.8757757664e1) * r + 1.7895169469e1) * r + 1);
}

/* Probability minus 1/2 of the upper 53 bits, exact. */
static inline double centered(uint64_t bits) {
    int64_t k = (int64_t)(bits >> 11) - ((int64_t)1 << 52);
    return ((double)k + 0.5) * 0x1p-53;
}

/* Beyond |q| = 0.425 the central formula is nonsense, which the tail's result replaces; that keeps
 * the first loop free of branches, and the second short. */
void orr__random_normals(const uint64_t *bits, int count, double *out_values) {
    assert(count <= ORR__RANDOM_PIECE);
    double q[ORR__RANDOM_PIECE];
    int tails[ORR__RANDOM_PIECE], tail_count = 0;
    for (int i = 0; i < count; i++) {
        q[i] = centered(bits[i]);
        out_values[i] = normal_center(q[i]);
    }
    for (int i = 0; i < count; i++) {
        tails[tail_count] = i;
        tail_count += q[i] > 0.425 || q[i] < -0.425;
    }
    for (int i = 0; i < tail_count; i++) {
        double own = q[tails[i]];
        double tail = normal_tail(0.5 - (own < 0 ? -own : own));
        out_values[tails[i]] = own < 0 ? -tail : tail;
    }
}

enum orr_status orr__check_placement(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_shape *shape, const struct orr_shape *global,
                                     const struct orr_shape *starts, struct orr_error *error) {
    if (global->rank == 0 && starts->rank == 0)
        return ORR_OK;
    if (global->rank != shape->rank || starts->rank != shape->rank)
        return orr__refuse(op, inputs, input_count, error,
                           "global_shape and starts have %d and %d entries, expected %d each",
                           (int)global->rank, (int)starts->rank, (int)shape->rank);
    struct orr_error detail = {0};
    if (orr_shape_check(global, 8, &detail) != ORR_OK)
        return orr__refuse(op, inputs, input_count, error, "global_shape: %s", detail.text);
    for (int i = 0; i < shape->rank; i++) {
        int64_t start = starts->dims[i], dim = shape->dims[i];
        if (start < 0 || start > global->dims[i] || dim > global->dims[i] - start)
            return orr__refuse(op, inputs, input_count, error,
                               "dimension %d: the part from %" PRId64 " with %" PRId64
                               " elements is not inside the global %" PRId64,
                               i, start, dim, global->dims[i]);
    }
    return ORR_OK;
}

struct orr__placement orr__placement_of(const struct orr_shape *shape,
                                        const struct orr_shape *global,
                                        const struct orr_shape *starts) {
    struct orr__placement placement = {.whole = global->rank == 0};
    if (placement.whole)
        return placement;
    placement.part.rank = shape->rank;
    orr__dense_strides(global, placement.part.strides);
    for (int i = 0; i < shape->rank; i++) {
        placement.part.dims[i] = shape->dims[i];
        placement.base += (uint64_t)(starts->dims[i] * placement.part.strides[i]);
    }
    orr__strided_merge(&placement.part);
    return placement;
}

void orr__placement_indices(const struct orr__placement *placement, int64_t first, int count,
                            uint64_t *out_indices) {
    if (placement->whole || placement->part.rank == 0) {
        for (int i = 0; i < count; i++)
            out_indices[i] = placement->base + (uint64_t)(first + i);
        return;
    }
    const struct orr__strided *part = &placement->part;
    int inner = part->rank - 1;
    int64_t at[ORR_RANK_MAX];
    for (int done = 0; done < count;) {
        uint64_t index = placement->base + (uint64_t)orr__strided_seek(part, first + done, at);
        int64_t run = part->dims[inner] - at[inner];
        for (; run > 0 && done < count; run--, done++) {
            out_indices[done] = index;
            index += (uint64_t)part->strides[inner];
        }
    }
}
