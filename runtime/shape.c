#include "runtime/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

struct orr_shape orr_shape_of(int rank, const int64_t *dims) {
    assert(rank >= 0 && rank <= ORR_RANK_MAX);
    struct orr_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++)
        shape.dims[i] = dims[i];
    return shape;
}

enum orr_status orr_shape_check(const struct orr_shape *shape, size_t element_size,
                                struct orr_error *error) {
    assert(element_size > 0 && element_size <= 4096);
    if (shape->rank < 0 || shape->rank > ORR_RANK_MAX)
        return orr_error_set(error, ORR_INVALID, "a shape of %d dimensions; expected 0 to %d",
                             (int)shape->rank, ORR_RANK_MAX);
    /* An empty tensor must still have strides that fit, so a 0 counts as 1 here. */
    int64_t bytes = (int64_t)element_size;
    for (int i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dims[i];
        if (dim < 0)
            return orr_error_set(error, ORR_INVALID,
                                 "dimension %d of a shape is %" PRId64 "; expected 0 or more", i,
                                 dim);
        if (dim > 0 && bytes > INT64_MAX / dim)
            return orr_error_set(error, ORR_INVALID,
                                 "dimension %d of a shape, %" PRId64
                                 ", makes the tensor larger than 2^63 bytes",
                                 i, dim);
        bytes *= dim > 0 ? dim : 1;
    }
    return ORR_OK;
}

int64_t orr_shape_count(const struct orr_shape *shape) {
    assert(shape->rank >= 0 && shape->rank <= ORR_RANK_MAX);
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->dims[i];
    return count;
}

int orr_shape_equal(const struct orr_shape *a, const struct orr_shape *b) {
    if (a->rank != b->rank)
        return 0;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return 0;
    return 1;
}

/* Dimension `i` from the right, 1 beyond the left end. */
static int64_t dim_from_right(const struct orr_shape *shape, int i) {
    return i < shape->rank ? shape->dims[shape->rank - 1 - i] : 1;
}

enum orr_status orr_shape_broadcast(const struct orr_shape *a, const struct orr_shape *b,
                                    struct orr_shape *out_shape) {
    struct orr_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < result.rank; i++) {
        int64_t of_a = dim_from_right(a, i), of_b = dim_from_right(b, i);
        if (of_a != of_b && of_a != 1 && of_b != 1)
            return ORR_INVALID;
        result.dims[result.rank - 1 - i] = of_a == 1 ? of_b : of_a;
    }
    *out_shape = result;
    return ORR_OK;
}

const char *orr_shape_text(const struct orr_shape *shape, char *buffer) {
    assert(shape->rank >= 0 && shape->rank <= ORR_RANK_MAX);
    /* 8 dimensions of at most 20 characters, 7 separators and 2 brackets: 176 < 192. */
    int used = snprintf(buffer, ORR_SHAPE_TEXT_MAX, "[");
    for (int i = 0; i < shape->rank; i++)
        used += snprintf(buffer + used, (size_t)(ORR_SHAPE_TEXT_MAX - used), "%s%" PRId64,
                         i > 0 ? ", " : "", shape->dims[i]);
    snprintf(buffer + used, (size_t)(ORR_SHAPE_TEXT_MAX - used), "]");
    return buffer;
}
