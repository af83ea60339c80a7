/* Placements of convolutions and group norms, along one mesh axis.
 *
 *     conv2d                    S(0),R,R -> S(0): images
 *                               R,S(0),S(0) -> S(1): filters; one group
 *                               S(1),S(1) -> P: input channels; one group, no bias
 *                               S(1),S(0),S(0) -> S(1): whole groups on each rank
 *                               P,R or R,P -> P without a bias
 *     conv2d_backward_input     of grad, weight: S(0),R -> S(0)    R,S(1) -> S(1)
 *                               S(1),S(0) -> P, or S(1) for whole groups    P,R or R,P -> P
 *     conv2d_backward_weight    of grad, x: S(0),S(0) -> P    S(1),R -> S(0)    R,S(1) -> S(1)
 *                               S(1),S(1) -> S(0) for whole groups    P,R or R,P -> P
 *     groupnorm                 S(0), weights R -> S(0)
 *                               S(1), weights S(0) -> S(1): whole groups on each rank
 *     groupnorm_backward        the same, for grad and x alike
 *     groupnorm_backward_weight S(0),S(0) -> P    S(1),S(1) -> S(0) for whole groups
 *
 * Rows and columns of images stay whole: their shards would have to exchange borders. */
#include "runtime/placement_internal.h"

/* Is operand `i` placed R (dim -1) or S(dim)? One that isn't there is placed anyhow. */
static bool lies(const struct question *q, int i, int dim) {
    if (i >= q->count) {
        return true;
    }
    struct orr_placement given = q->given[i];
    return dim < 0 ? given.kind == ORR_REPLICATE : given.kind == ORR_SHARD && given.dim == dim;
}

static bool lie(const struct question *q, int first, int second, int third) {
    return lies(q, 0, first) && lies(q, 1, second) && lies(q, 2, third);
}

static int64_t groups_of(const struct question *q) {
    int index = orr_operator_attribute(q->op, "groups");
    return q->attributes->values[index].integer;
}

/* Every rank's channels are whole groups: with as many groups as ranks, or a multiple, or along an
 * axis of one device, which cuts nothing. */
static bool whole_groups(const struct question *q) {
    return q->ranks == 1 || groups_of(q) % q->parts == 0;
}

/* What one operator takes. */
struct row {
    int given[3];
    bool one_group; /* only for groups = 1; else, with `grouped`, only for whole groups */
    bool grouped;
    int most; /* operands */
    int out;  /* S(out); -1: P */
};

static bool fits(const struct question *q, const struct row *row) {
    return lie(q, row->given[0], row->given[1], row->given[2]) && q->count <= row->most &&
           (!row->one_group || groups_of(q) == 1) && (!row->grouped || whole_groups(q));
}

static const struct row conv_rows[] = {
    {{0, -1, -1}, false, false, 3, 0},
    {{-1, 0, 0}, true, false, 3, 1},
    {{1, 1, -1}, true, false, 2, -1},
    {{1, 0, 0}, false, true, 3, 1},
};
static const struct row input_rows[] = {
    {{0, -1, 0}, false, false, 2, 0},
    {{-1, 1, 0}, true, false, 2, 1},
    {{1, 0, 0}, true, false, 2, -1},
    {{1, 0, 0}, false, true, 2, 1},
};
static const struct row weight_rows[] = {
    {{0, 0, 0}, false, false, 2, -1},
    {{1, -1, 0}, true, false, 2, 0},
    {{-1, 1, 0}, true, false, 2, 1},
    {{1, 1, 0}, false, true, 2, 0},
};
static const struct row norm_rows[] = {
    {{0, -1, -1}, false, false, 3, 0},
    {{1, 0, 0}, false, true, 3, 1},
};
static const struct row norm_backward_rows[] = {
    {{0, 0, -1}, false, false, 3, 0},
    {{1, 1, 0}, false, true, 3, 1},
};
static const struct row norm_weight_rows[] = {
    {{0, 0, 0}, false, false, 2, -1},
    {{1, 1, 0}, false, true, 2, 0},
};

static const struct family_row {
    const char *name;
    const struct row *rows;
    int count;
    bool linear;
    const char *legal;
} family[] = {
    {"conv2d", conv_rows, 4, true,
     "images S(0),R,R; filters R,S(0),S(0) and input channels S(1),S(1) without bias, of one "
     "group; whole groups S(1),S(0),S(0); rows and columns stay whole"},
    {"conv2d_backward_input", input_rows, 4, true,
     "S(0),R; S(1),S(0); R,S(1) of one group; rows and columns stay whole"},
    {"conv2d_backward_weight", weight_rows, 4, true,
     "S(0),S(0); S(1),R and R,S(1) of one group; whole groups S(1),S(1); rows and columns stay "
     "whole"},
    {"groupnorm", norm_rows, 2, false,
     "S(0) with weights R; S(1) with weights S(0), when whole groups lie on each rank"},
    {"groupnorm_backward", norm_backward_rows, 2, false,
     "S(0),S(0) with weight R; S(1),S(1) with weight S(0), when whole groups lie on each rank"},
    {"groupnorm_backward_weight", norm_weight_rows, 2, false,
     "S(0),S(0); S(1),S(1) when whole groups lie on each rank"},
};

static const struct family_row *row_of(const struct orr_operator *op) {
    for (size_t i = 0; i < sizeof family / sizeof family[0]; i++) {
        if (strcmp(op->name, family[i].name) == 0) {
            return &family[i];
        }
    }
    return NULL;
}

static bool rule(const struct question *q, struct orr_placement *out) {
    const struct family_row *mine = row_of(q->op);
    for (int i = 0; i < mine->count; i++) {
        if (fits(q, &mine->rows[i])) {
            *out = mine->rows[i].out < 0 ? P : shard(mine->rows[i].out);
            return true;
        }
    }
    *out = P;
    return mine->linear && q->count == 2 && bilinear_partial(q);
}

rule_function orr__image_placement(const struct orr_operator *op) {
    return row_of(op) ? rule : NULL;
}

const char *orr__image_legal(const struct orr_operator *op) {
    const struct family_row *row = row_of(op);
    return row ? row->legal : NULL;
}
