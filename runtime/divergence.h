/* Where two runs of a program part: the first operator whose results differ by more than a
 * tolerance, with what it read.
 *
 *     struct orr_divergence divergence;
 *     if (orr_divergence_find(one_device, many, 1e-5, &memory, &divergence, &error) == ORR_OK &&
 *         divergence.parts)
 *         puts(orr_divergence_text(&divergence, text, sizeof text));
 *
 * The runs may differ in mesh, placements, backend and dtypes. Redistributions and shifts are left
 * out: they compute nothing, and each run has its own. What is left is matched in order if both
 * runs called the same operators; if not, by operator and line of the scenario, and if lines have
 * little in common, by operator alone, so that what only one run does is skipped. A pair that parts
 * and whose operands differ already may be no pair: if a little further on the runs are in step
 * again, and stay so, it is forgotten.
 *
 * Two tensors part where they have other shapes, or where the largest difference of two elements is
 * more than the tolerance times the largest magnitude in either tensor; a NaN parts from a number.
 * If the operands of the operator that is found agree, the mistake is in that operator, its
 * placements or its own operands' meaning; an operand that differs already was made by what is not
 * compared: a redistribution, a tensor from the host, or an operator of one run alone.
 *
 * Threads: pure functions of ended recordings. */
#ifndef ORR_RUNTIME_DIVERGENCE_H
#define ORR_RUNTIME_DIVERGENCE_H

#include "runtime/recording.h"

enum { ORR_DIVERGENCE_TEXT_MAX = 4096 };

/* One tensor as both runs have it. */
struct orr_difference {
    const struct orr_recorded_value *a, *b;
    const struct orr_recorded_call *maker_a, *maker_b; /* operators; NULL: it was there */
    bool shapes_differ;                                /* and the rest is 0 */
    double largest;          /* difference of two elements; infinite beside a NaN */
    double magnitude;        /* largest finite one in either */
    int64_t worst;           /* index of the element that differs most, row-major */
    double value_a, value_b; /* there */
};

struct orr_divergence {
    bool parts; /* false: they agree; then only the counts mean something */
    const struct orr_recorded_call *call_a, *call_b; /* of the same operator */
    uint32_t index_a, index_b; /* of the operator in its run, from 0, redistributions left out */
    int output;
    struct orr_difference result;
    int input_count;
    struct orr_difference inputs[ORR_INPUTS_MAX];
    const char *input_names[ORR_INPUTS_MAX];
    double tolerance;
    uint32_t compared;       /* operators up to it */
    uint32_t only_a, only_b; /* operators up to it that had no counterpart */
};

/* Compares two ended recordings, which the result borrows from until they are destroyed.
 * ORR_INVALID for a recording that has not ended or has failed, ORR_NO_MEMORY. */
enum orr_status orr_divergence_find(const struct orr_recording *a, const struct orr_recording *b,
                                    double tolerance, const struct orr_memory *memory,
                                    struct orr_divergence *out_divergence,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* In lines, each with its newline, cut off at `size` bytes; also when nothing parts. `name_a` and
 * `name_b` say which run is which. Returns `buffer`. */
const char *orr_divergence_text(const struct orr_divergence *divergence, const char *name_a,
                                const char *name_b, char *buffer, size_t size);

#endif
