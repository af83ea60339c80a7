/* Shapes of tensors: up to ORR_RANK_MAX dimensions, row-major, dimension 0 outermost.
 *
 * A dimension may be 0; the tensor is then empty. Rank 0 is a scalar with one element.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_SHAPE_H
#define ORR_RUNTIME_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

enum { ORR_RANK_MAX = 8, ORR_SHAPE_TEXT_MAX = 192 };

struct orr_shape {
    int32_t rank; /* 0 .. ORR_RANK_MAX */
    int64_t dims[ORR_RANK_MAX];
};

/* A shape from its dimensions: orr_shape_of(2, (int64_t[]){4096, 4096}). */
struct orr_shape orr_shape_of(int rank, const int64_t *dims);

/* Checks rank and dimensions and that the number of elements times `element_size` fits in int64.
 * ORR_INVALID with the offending dimension otherwise. */
enum orr_status orr_shape_check(const struct orr_shape *shape, size_t element_size,
                                struct orr_error *error) ORR_MUST_CHECK;

/* Number of elements of a checked shape. */
int64_t orr_shape_count(const struct orr_shape *shape);

/* Equal rank and dimensions. */
int orr_shape_equal(const struct orr_shape *a, const struct orr_shape *b);

/* The shape two operands broadcast to (numpy's rule: align at the right; 1 stretches). Returns
 * ORR_INVALID if they don't. */
enum orr_status orr_shape_broadcast(const struct orr_shape *a, const struct orr_shape *b,
                                    struct orr_shape *out_shape) ORR_MUST_CHECK;

/* Writes "[4096, 4096]" ("[]" for a scalar) into a buffer of ORR_SHAPE_TEXT_MAX; returns it. */
const char *orr_shape_text(const struct orr_shape *shape, char *buffer);

#endif
