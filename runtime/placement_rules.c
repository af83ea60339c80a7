/* Placement rules: for each class of operators, which placements of the operands make sense along
 * one mesh axis, and what the result's is. Axes are independent of each other.
 *
 *     matmul          R,R -> R    S(row),R -> S(row)    R,S(col) -> S(col)    S(inner),S(inner) ->
 *     P pointwise       all R -> R    all S(d) -> S(d), operands that broadcast along d being R
 *     add, sub        P,P -> P        scale, neg: P -> P       mul, div by R: P,R -> P
 *     norm            S(d) -> S(d) unless d is the last dimension; weights R
 *     reduction       S(d) -> S(d) for another dimension than the reduced; sum over it: -> P(sum)
 *     attention       S(0) batch and S(1) heads, the same for q, k, v
 *     move            the dimension moves along; a dimension that is cut or joined may not be
 *     sharded
 *
 * A non-linear operator takes no partial operand: relu(a + b) is not relu(a) + relu(b). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/placement.h"

struct question {
    const struct orr_operator *op;
    const struct orr_operand_info *inputs;
    int count;
    const struct orr_attributes *attributes;
    const struct orr_operand_info *output;
    struct orr_placement given[ORR_INPUTS_MAX]; /* along the axis */
};

static const struct orr_placement R = {.kind = ORR_REPLICATE};
static const struct orr_placement P = {.kind = ORR_PARTIAL, .reduction = ORR_SUM};

static struct orr_placement shard(int dim) {
    return (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
}

static bool is(const struct question *q, const char *name) {
    return strcmp(q->op->name, name) == 0;
}

static bool is_shard(struct orr_placement placement, int dim) {
    return placement.kind == ORR_SHARD && placement.dim == dim;
}

static bool all_replicated(const struct question *q) {
    for (int i = 0; i < q->count; i++) {
        if (q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    return true;
}

static int rank_of(const struct question *q, int input) {
    return q->inputs[input].shape.rank;
}

/* Linear in all its operands together, or in the first alone. */
static bool partial_rule(const struct question *q, struct orr_placement *out) {
    bool first = q->given[0].kind == ORR_PARTIAL && q->given[0].reduction == ORR_SUM;
    bool second =
        q->count > 1 && q->given[1].kind == ORR_PARTIAL && q->given[1].reduction == ORR_SUM;
    *out = P;
    if (is(q, "add") || is(q, "sub")) {
        return first && second;
    }
    if (is(q, "scale") || is(q, "neg") || is(q, "cast") || is(q, "transpose") || is(q, "reshape")) {
        return first;
    }
    if (is(q, "mul") || is(q, "div")) {
        return first && q->given[1].kind == ORR_REPLICATE;
    }
    return false;
}

/* Result dimension d as seen by an operand that broadcasts to it; -1 if it has none or
 * stretches. */
static int dim_in_operand(const struct question *q, int input, int dim) {
    int mine = dim - (q->output->shape.rank - rank_of(q, input));
    return mine >= 0 && q->inputs[input].shape.dims[mine] == q->output->shape.dims[dim] ? mine : -1;
}

static bool pointwise_rule(const struct question *q, struct orr_placement *out) {
    for (int dim = 0; dim < q->output->shape.rank; dim++) {
        bool fits = true, any = false;
        for (int i = 0; i < q->count; i++) {
            int mine = dim_in_operand(q, i, dim);
            bool sharded = mine >= 0 && is_shard(q->given[i], mine);
            any |= sharded;
            fits &= sharded || (mine < 0 && q->given[i].kind == ORR_REPLICATE);
        }
        if (fits && any) {
            *out = shard(dim);
            return true;
        }
    }
    return partial_rule(q, out);
}

static bool flag(const struct question *q, const char *name) {
    int index = orr_operator_attribute(q->op, name);
    return index >= 0 && q->attributes->values[index].integer != 0;
}

/* Dimensions of a GEMM: rows and inner of x; inner and columns of the weight. */
static bool gemm_rule(const struct question *q, struct orr_placement *out) {
    bool linear = is(q, "linear");
    int x = rank_of(q, 0), w = rank_of(q, 1), y = q->output->shape.rank;
    int inner = flag(q, "transpose_a") ? x - 2 : x - 1;
    int row = flag(q, "transpose_a") ? x - 1 : x - 2;
    bool turned = linear || flag(q, "transpose_b");
    int w_inner = turned ? w - 1 : w - 2, w_column = turned ? w - 2 : w - 1;
    struct orr_placement bias = q->count > 2 ? q->given[2] : R;
    if (is_shard(q->given[0], inner) && is_shard(q->given[1], w_inner) && q->count < 3) {
        *out = P; /* a bias would be added once by every rank */
        return true;
    }
    if (q->given[0].kind == ORR_REPLICATE && is_shard(q->given[1], w_column)) {
        *out = shard(y - 1);
        return q->count < 3 || is_shard(bias, 0);
    }
    if (bias.kind != ORR_REPLICATE) {
        return false;
    }
    if (is_shard(q->given[0], row)) {
        *out = shard(y - 2);
        return q->given[1].kind == ORR_REPLICATE;
    }
    for (int dim = 0; dim < x - 2 && x == y; dim++) { /* batch dimensions */
        if (is_shard(q->given[0], dim)) {
            *out = shard(dim);
            return w == x ? is_shard(q->given[1], dim) : q->given[1].kind == ORR_REPLICATE;
        }
    }
    *out = P;
    return q->given[0].kind == ORR_PARTIAL && q->given[1].kind == ORR_REPLICATE && q->count < 3;
}

/* The first operand's shard stays, the others are replicated. */
static bool first_rule(const struct question *q, int forbidden_dim, struct orr_placement *out) {
    for (int i = 1; i < q->count; i++) {
        if (q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    *out = q->given[0];
    return q->given[0].kind == ORR_SHARD && q->given[0].dim != forbidden_dim;
}

static bool reduction_rule(const struct question *q, struct orr_placement *out) {
    int rank = rank_of(q, 0);
    int index = orr_operator_attribute(q->op, "dim");
    int64_t dim = q->attributes->values[index].integer;
    bool all = q->output->shape.rank == 0 && rank != 1;
    dim = dim < 0 ? dim + rank : dim;
    if (q->given[0].kind == ORR_PARTIAL) {
        *out = P;
        return is(q, "sum") && q->given[0].reduction == ORR_SUM;
    }
    int at = q->given[0].dim;
    if (all || rank == 1 || at == dim) {
        *out = P;
        return is(q, "sum");
    }
    *out = shard(at > dim && !flag(q, "keepdim") ? at - 1 : at);
    return true;
}

static bool attention_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    return q->given[0].kind == ORR_SHARD && q->given[0].dim <= 1 && q->count >= 3 &&
           is_shard(q->given[1], q->given[0].dim) && is_shard(q->given[2], q->given[0].dim);
}

static bool gather_rule(const struct question *q, struct orr_placement *out) {
    if (!is(q, "embedding")) {
        return false;
    }
    /* embedding(indices, table) in either order of operands: the table has rank 2 and is a float */
    int table = orr_dtype_is_float(q->inputs[0].dtype) ? 0 : 1, indices = 1 - table;
    if (q->given[table].kind == ORR_REPLICATE && q->given[indices].kind == ORR_SHARD) {
        *out = q->given[indices];
        return true;
    }
    *out = shard(q->output->shape.rank - 1);
    return is_shard(q->given[table], 1) && q->given[indices].kind == ORR_REPLICATE;
}

static bool transpose_rule(const struct question *q, struct orr_placement *out) {
    int rank = rank_of(q, 0);
    const struct orr_shape *perm = &q->attributes->values[0].shape;
    for (int to = 0; to < rank; to++) {
        int64_t from = perm->rank ? perm->dims[to] : to < rank - 2 ? to : 2 * rank - 3 - to;
        if (from == q->given[0].dim) {
            *out = shard(to);
            return true;
        }
    }
    return false;
}

/* A reshape keeps a shard of a dimension whose size, and the sizes before it, do not change. */
static bool reshape_rule(const struct question *q, struct orr_placement *out) {
    const struct orr_shape *from = &q->inputs[0].shape, *to = &q->output->shape;
    int dim = q->given[0].dim;
    for (int i = 0; i <= dim; i++) {
        if (i >= to->rank || from->dims[i] != to->dims[i]) {
            return false;
        }
    }
    *out = shard(dim);
    return true;
}

static bool move_rule(const struct question *q, struct orr_placement *out) {
    if (partial_rule(q, out)) {
        return true;
    }
    if (is(q, "concat")) {
        for (int i = 1; i < q->count; i++) {
            if (!is_shard(q->given[i], q->given[0].dim)) {
                return false;
            }
        }
        int64_t dim = q->attributes->values[0].integer;
        *out = q->given[0];
        return q->given[0].dim != (dim < 0 ? dim + rank_of(q, 0) : dim);
    }
    if (q->given[0].kind != ORR_SHARD) {
        return false;
    }
    if (is(q, "transpose")) {
        return transpose_rule(q, out);
    }
    *out = q->given[0];
    int dim = q->given[0].dim;
    return is(q, "cast") || (is(q, "slice") && dim < q->output->shape.rank &&
                             q->inputs[0].shape.dims[dim] == q->output->shape.dims[dim]);
}

static bool answer(const struct question *q, struct orr_placement *out) {
    *out = R;
    if (all_replicated(q)) {
        return true;
    }
    switch (q->op->class) {
    case ORR_OPERATOR_GEMM: return gemm_rule(q, out);
    case ORR_OPERATOR_POINTWISE: return pointwise_rule(q, out);
    case ORR_OPERATOR_NORM: return first_rule(q, rank_of(q, 0) - 1, out);
    case ORR_OPERATOR_REDUCTION: return reduction_rule(q, out);
    case ORR_OPERATOR_ATTENTION:
        return is(q, "sdpa") ? attention_rule(q, out)
                             : first_rule(q, rank_of(q, 0) - 1, out); /* rope: not the head dim */
    case ORR_OPERATOR_GATHER: return gather_rule(q, out);
    case ORR_OPERATOR_MOVE: return move_rule(q, out);
    case ORR_OPERATOR_ALIAS:
        return partial_rule(q, out) || (q->given[0].kind == ORR_SHARD && reshape_rule(q, out));
    case ORR_OPERATOR_SOURCE: return false;
    }
    return false;
}

static const char *legal(const struct orr_operator *op) {
    switch (op->class) {
    case ORR_OPERATOR_GEMM: return "R,R; S(row),R; R,S(column); S(inner),S(inner)";
    case ORR_OPERATOR_POINTWISE:
        return "all R; all S(d) with broadcast operands R; P only through linear operators";
    case ORR_OPERATOR_NORM: return "R or S(d) for d before the last dimension, weights R";
    case ORR_OPERATOR_REDUCTION:
        return "R; S(d) for a dimension that is not reduced; any S(d) for sum";
    case ORR_OPERATOR_ATTENTION: return "R, S(0) or S(1), the same for all operands";
    case ORR_OPERATOR_GATHER: return "R; indices S(d) with table R; table S(1) with indices R";
    default: return "R; S(d) for a dimension that is not cut or joined";
    }
}

static enum orr_status refuse(const struct question *q, const struct orr_mesh *mesh, int axis,
                              const struct orr_layout *const *layouts, struct orr_error *error) {
    char given[256] = "";
    size_t at = 0;
    for (int i = 0; i < q->count && at < sizeof given - ORR_PLACEMENT_TEXT_MAX; i++) {
        char text[ORR_PLACEMENT_TEXT_MAX];
        at += (size_t)snprintf(given + at, sizeof given - at, "%s%s %s", i ? ", " : "",
                               q->op->input_names[i], orr_layout_text(layouts[i], text));
    }
    return orr_error_set(error, ORR_INVALID,
                         "%s: placements %s don't fit along mesh axis '%s'; legal: %s", q->op->name,
                         given, mesh->names[axis], legal(q->op));
}

enum orr_status orr_placement_infer(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs,
                                    const struct orr_layout *const *layouts, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_operand_info *output,
                                    struct orr_layout *out_layout, struct orr_error *error) {
    assert(input_count >= 1 && input_count <= ORR_INPUTS_MAX);
    struct orr_mesh *mesh = layouts[0]->mesh;
    *out_layout = orr_layout_replicated(mesh);
    for (int i = 1; i < input_count; i++) {
        if (layouts[i]->mesh != mesh) {
            return orr_error_set(error, ORR_INVALID,
                                 "%s: operands %s and %s are on different meshes", op->name,
                                 op->input_names[0], op->input_names[i]);
        }
    }
    for (int axis = 0; axis < mesh->axis_count; axis++) {
        struct question q = {.op = op,
                             .inputs = inputs,
                             .count = input_count,
                             .attributes = attributes,
                             .output = output};
        for (int i = 0; i < input_count; i++) {
            q.given[i] = layouts[i]->axes[axis];
        }
        if (!answer(&q, &out_layout->axes[axis])) {
            return refuse(&q, mesh, axis, layouts, error);
        }
    }
    return ORR_OK;
}
