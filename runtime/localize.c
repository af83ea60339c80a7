/* What an operator's attributes mean for one rank that has pieces of its operands.
 *
 *     rope offset=3, x [b, h, 8, d] S(2) over 2:       rank 0: offset=3    rank 1: offset=7
 *     embedding, weight [10, w] S(0) over 2:           rank 0: rows 0 .. 4 of 10    rank 1: 5 .. 9
 *
 * Most attributes say so in the table (enum orr_attribute_local); what is left here depends on
 * other attributes' values. */
#include <assert.h>
#include <string.h>

#include "runtime/tensor_internal.h"

static struct orr_attribute *attribute(const struct orr_operator *op,
                                       struct orr_attributes *attributes, const char *name) {
    int index = orr_operator_attribute(op, name);
    return index >= 0 ? &attributes->values[index] : NULL;
}

/* A placement rule has seen to it that the piece is whole parts, or that there is one part. */
static int64_t share(int64_t parts, const struct orr__piece *piece, int dim) {
    int64_t whole = piece->whole.dims[dim];
    int64_t mine = whole > 0 ? parts * piece->shape.dims[dim] / whole : 0;
    return mine > 0 ? mine : 1;
}

/* A number: along one dimension of the piece. */
static void set_integer(const struct orr_attribute_spec *spec, const struct orr__piece *piece,
                        struct orr_attribute *value) {
    int dim = spec->dim < 0 ? spec->dim + piece->whole.rank : spec->dim;
    if (dim < 0) {
        return; /* a tensor of fewer dimensions, where the attribute is of no use */
    }
    assert(dim < piece->whole.rank);
    bool is_cut = piece->shape.dims[dim] != piece->whole.dims[dim];
    switch (spec->local) {
    case ORR_LOCAL_SAME: break;
    case ORR_LOCAL_OFFSET: value->integer += piece->starts[dim]; break;
    case ORR_LOCAL_START: value->integer = is_cut ? piece->starts[dim] : 0; break;
    case ORR_LOCAL_WHOLE: value->integer = is_cut ? piece->whole.dims[dim] : 0; break;
    case ORR_LOCAL_PIECE: value->integer = piece->shape.dims[dim]; break;
    case ORR_LOCAL_SHARE: value->integer = share(value->integer, piece, dim); break;
    }
}

/* A list: along all dimensions. What the author set is the place in a still larger tensor. */
static void set_list(const struct orr_attribute_spec *spec, const struct orr__piece *piece,
                     struct orr_attribute *value) {
    bool is_cut = !orr_shape_equal(&piece->shape, &piece->whole);
    struct orr_shape *list = &value->shape;
    if (spec->local == ORR_LOCAL_PIECE) {
        *list = piece->shape;
    } else if (spec->local == ORR_LOCAL_WHOLE && is_cut && list->rank == 0) {
        *list = piece->whole;
    } else if (spec->local == ORR_LOCAL_START && is_cut) {
        for (int i = 0; i < piece->whole.rank; i++) {
            list->dims[i] = piece->starts[i] + (i < list->rank ? list->dims[i] : 0);
        }
        list->rank = piece->whole.rank;
    }
}

/* A mean of a piece is its part of the whole's: it divides by the whole's count. */
static void set_total(const struct orr_operator *op, const struct orr_shape *x,
                      struct orr_attributes *attributes) {
    struct orr_attribute *total = attribute(op, attributes, "total");
    const struct orr_attribute *dim = attribute(op, attributes, "dim");
    if (!total || total->integer != 0) {
        return;
    }
    if (!dim) { /* rows of logits */
        total->integer = 1;
        for (int i = 0; i < x->rank - 1; i++) {
            total->integer *= x->dims[i];
        }
    } else if (dim->integer == ORR_DIM_ALL) {
        total->integer = orr_shape_count(x);
    } else {
        total->integer = x->dims[dim->integer < 0 ? dim->integer + x->rank : dim->integer];
    }
}

/* A range that is made of its first element, its step and its end has another first and end. */
static void set_range(const struct orr_operator *op, const struct orr__piece *piece,
                      struct orr_attributes *attributes) {
    struct orr_attribute *start = attribute(op, attributes, "start");
    struct orr_attribute *end = attribute(op, attributes, "end");
    const struct orr_attribute *step = attribute(op, attributes, "step");
    if (op->class != ORR_OPERATOR_SOURCE || orr_shape_equal(&piece->shape, &piece->whole) ||
        !start || !end || !step) {
        return;
    } /* unsigned: the last element is in range, what is beyond may not be */
    uint64_t stride = (uint64_t)step->integer;
    uint64_t first = (uint64_t)start->integer + (uint64_t)piece->starts[0] * stride;
    start->integer = (int64_t)first;
    end->integer = (int64_t)(first + (uint64_t)piece->shape.dims[0] * stride);
}

/* Dimensions that a slice leaves whole keep their local length. */
static void set_slice(const struct orr_operator *op, const struct orr__piece *x,
                      const struct orr__piece *result, struct orr_attributes *attributes) {
    struct orr_attribute *starts = attribute(op, attributes, "starts");
    struct orr_attribute *ends = attribute(op, attributes, "ends");
    for (int i = 0; i < x->whole.rank && i < ends->shape.rank; i++) {
        if (x->whole.dims[i] == result->whole.dims[i] && i < starts->shape.rank) {
            starts->shape.dims[i] = 0;
            ends->shape.dims[i] = x->shape.dims[i];
        }
    }
}

void orr__localize(const struct orr_operator *op, const struct orr__piece *inputs, int input_count,
                   const struct orr__piece *result, struct orr_attributes *attributes) {
    for (int i = 0; op->attributes[i].name; i++) {
        const struct orr_attribute_spec *spec = &op->attributes[i];
        if (spec->local == ORR_LOCAL_SAME || spec->of >= input_count) {
            continue; /* or of an optional operand that is not there */
        }
        const struct orr__piece *piece = spec->of < 0 ? result : &inputs[spec->of];
        if (spec->kind == ORR_ATTRIBUTE_SHAPE) {
            set_list(spec, piece, &attributes->values[i]);
        } else {
            set_integer(spec, piece, &attributes->values[i]);
        }
    }
    set_range(op, result, attributes);
    if (input_count > 0) {
        set_total(op, &inputs[0].whole, attributes);
    }
    if (strcmp(op->name, "slice") == 0) {
        set_slice(op, &inputs[0], result, attributes);
    }
}
