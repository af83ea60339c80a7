/* Placement rules: for each class of operators, which placements of the operands make sense along
 * one mesh axis, and what the result's is. Axes are independent of each other.
 *
 *     matmul          R,R -> R    S(row),R -> S(row)    R,S(column) -> S(column)
 *                     S(inner),S(inner) -> P    batch dimensions as pointwise
 *     pointwise       all R -> R    all S(d) -> S(d), operands that broadcast along d being R
 *     add, sub        P,P -> P        scale, neg: P -> P       mul, div by R: P,R -> P
 *     norm            S(d) -> S(d) unless d is the last dimension; weights R
 *     reduction       S(d) -> S(d) for another dimension than the reduced; over it, sum: -> P(sum),
 *                     max: -> P(max)
 *     embedding       S(d),R -> S(d)    R,S(1) -> S(last)    R,S(0) -> P: other ranks' rows are 0
 *     attention       S(0) batch and S(1) heads, the same for q, k, v
 *     rope            S(d) -> S(d) unless d is the last dimension
 *     move            the dimension moves along, but one that is cut or joined may not be sharded;
 *                     P -> P, in concat all of them
 *     update          all R, or all S(d): an optimizer's gradient is reduced first
 *
 * Training's own rows (see the table in runtime/autograd.h):
 *     ..._backward pointwise      as pointwise; P,R -> P, because they are linear in the gradient
 *     softmax_, layernorm_, rmsnorm_backward    S(d),S(d),R -> S(d), d before the last dimension
 *     ..._backward_weight         R,R -> R    S(d),S(d) -> P; matmul's also S(last),R -> S(0),
 *                                 R,S(last) -> S(1), both behind its batch; P,R or R,P -> P;
 *                                 S(batch),S(batch) -> S(batch)
 *     unbroadcast                 S(d) -> P for a summed d, else S(d); P -> P
 *     expand                      S(d) -> S(d); R -> R or, as asked, S(repeated d); P -> P
 *     max_backward                S(d),S(d) -> S(d) unless d is reduced
 *     embedding_backward          S(d),S(d) -> P    S(last),R -> S(1)    R,R -> S(0) as asked
 *     cross_entropy_backward      R,S(d),S(d),S(d) -> S(d), d a dimension of rows;
 *                                 R,S(last),R,R -> S(last)
 *     pad                         S(d) -> S(d) unless d is padded; P -> P
 *     count_nonfinite             S(d) -> P
 *
 * Convolutions and group norms: placement_image.c; quantized weights and serving:
 * placement_serving.c. What language models add: placement_model.c.
 *
 * mean and cross_entropy over sharded rows are partial too: each rank divides by the whole's count.
 *
 * A non-linear operator takes no partial operand: relu(a + b) is not relu(a) + relu(b). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/placement_internal.h"

static bool all_sums(const struct question *q) {
    for (int i = 0; i < q->count; i++) {
        if (!is_sum(q->given[i])) {
            return false;
        }
    }
    return true;
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
    if (is(q, "concat")) {
        return all_sums(q);
    }
    if (is(q, "cast")) { /* to a whole number each term would be rounded by itself */
        return first && orr_dtype_is_float(q->output->dtype);
    }
    if (is(q, "scale") || is(q, "neg") || is(q, "transpose") || is(q, "reshape") ||
        is(q, "slice")) {
        return first;
    }
    if (is(q, "mul") || is(q, "div") ||
        (q->op->class == ORR_OPERATOR_POINTWISE && strstr(q->op->name, "_backward"))) {
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

/* One of the result's first `dims` dimensions is sharded in those of the first `count` operands
 * that have it, and others, which broadcast along it, are replicated. */
static bool broadcast_rule(const struct question *q, int count, int dims,
                           struct orr_placement *out) {
    for (int dim = 0; dim < dims; dim++) {
        bool fits = true, any = false;
        for (int i = 0; i < count; i++) {
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
    return false;
}

static bool pointwise_rule(const struct question *q, struct orr_placement *out) {
    return broadcast_rule(q, q->count, q->output->shape.rank, out) || partial_rule(q, out);
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
    if (broadcast_rule(q, 2, y - 2, out)) { /* batch dimensions */
        return true;
    }
    *out = P;
    return bilinear_partial(q) && q->count < 3;
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
    bool all = dim == ORR_DIM_ALL;
    dim = dim < 0 ? dim + rank : dim;
    bool adds = is(q, "sum") || is(q, "mean"), largest = is(q, "max");
    *out = (struct orr_placement){.kind = ORR_PARTIAL, .reduction = adds ? ORR_SUM : ORR_MAX};
    if (q->given[0].kind == ORR_PARTIAL) {
        return (adds || largest) && q->given[0].reduction == out->reduction;
    }
    int at = q->given[0].dim;
    if (all || rank == 1 || at == dim) {
        return adds || largest;
    }
    *out = shard(at > dim && !flag(q, "keepdim") ? at - 1 : at);
    return true;
}

/* sdpa and its gradient: batch and heads, the same for all operands. */
static bool attention_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    for (int i = 0; i < q->count; i++) {
        if (!is_shard(q->given[i], q->given[0].dim)) {
            return false;
        }
    }
    return q->given[0].dim <= 1;
}

static bool gather_rule(const struct question *q, struct orr_placement *out) {
    if (is(q, "cross_entropy")) {
        *out = P;
        return is_shard(q->given[0], q->given[1].dim) && is_shard(q->given[1], q->given[1].dim);
    }
    if (!is(q, "embedding")) {
        return false;
    }
    /* embedding(indices, table) in either order of operands: the table has rank 2 and is a float */
    int table = orr_dtype_is_float(q->inputs[0].dtype) ? 0 : 1, indices = 1 - table;
    if (q->given[table].kind == ORR_REPLICATE && q->given[indices].kind == ORR_SHARD) {
        *out = q->given[indices];
        return true;
    }
    bool rows = is_shard(q->given[table], 0); /* a rank gives zeros for other ranks' rows */
    *out = rows ? P : shard(q->output->shape.rank - 1);
    return (rows || is_shard(q->given[table], 1)) && q->given[indices].kind == ORR_REPLICATE;
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

/* Of a dimension: one that is empty counts as one of a size that no other has, so that what comes
 * before a dimension is told apart in empty tensors too. */
static uint64_t elements(int64_t dim) {
    return dim == 0 ? 1000003 : (uint64_t)dim;
}

/* A reshape keeps a shard of a dimension whose size, and the number of elements before it, do not
 * change. A dimension that is joined with others or parted, as [b, s, h d] and [b, s, h, d], keeps
 * even shards if it is the outermost of those on both sides: the pieces are the same runs of
 * memory. */
static bool reshape_rule(const struct question *q, struct orr_placement *out) {
    const struct orr_shape *from = &q->inputs[0].shape, *to = &q->output->shape;
    int dim = q->given[0].dim;
    uint64_t outer = 1, before = 1; /* of empty tensors they may wrap around */
    for (int i = 0; i < dim; i++) {
        outer *= elements(from->dims[i]);
    }
    for (int i = 0; i < to->rank; i++) {
        bool even = from->dims[dim] % q->parts == 0 && to->dims[i] % q->parts == 0;
        if (before == outer && (to->dims[i] == from->dims[dim] || (even && to->dims[i] > 1))) {
            *out = shard(i);
            return true;
        }
        before *= elements(to->dims[i]);
    }
    return false;
}

static bool move_rule(const struct question *q, struct orr_placement *out) {
    if (partial_rule(q, out)) {
        return true;
    }
    if (is(q, "concat")) {
        for (int i = 0; i < q->count; i++) {
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

/* --- training --- */

static bool matmul_weight_rule(const struct question *q, struct orr_placement *out) {
    int last = rank_of(q, 0) - 1;
    int batch = (int)q->attributes->values[orr_operator_attribute(q->op, "batch")].integer;
    *out = alike(q, 2) && q->given[0].dim < batch ? q->given[0] : P;
    if ((alike(q, 2) && q->given[0].dim != last) || bilinear_partial(q)) {
        return true;
    }
    *out = shard(batch + (is_shard(q->given[0], last) ? 0 : 1));
    return (is_shard(q->given[0], last) && q->given[1].kind == ORR_REPLICATE) ||
           (q->given[0].kind == ORR_REPLICATE && is_shard(q->given[1], last));
}

static bool norm_backward_rule(const struct question *q, struct orr_placement *out) {
    bool weight = strstr(q->op->name, "_weight") != NULL;
    *out = weight ? P : q->given[0];
    return alike(q, 2) && q->given[0].dim != rank_of(q, 0) - 1;
}

static bool unbroadcast_rule(const struct question *q, struct orr_placement *out) {
    int leading = (int)q->attributes->values[orr_operator_attribute(q->op, "leading")].integer;
    bool sums = q->given[0].kind == ORR_PARTIAL || lists(q, "dims", q->given[0].dim);
    *out = sums ? P : shard(q->given[0].dim - leading);
    return q->given[0].kind != ORR_PARTIAL || is_sum(q->given[0]);
}

/* The result's dimension of an operand's: those that are repeated may be missing there. */
static int expanded_dim(const struct question *q, int dim) {
    bool keeps = rank_of(q, 0) == q->output->shape.rank;
    for (int to = 0; to < q->output->shape.rank; to++) {
        bool missing = !keeps && lists(q, "dims", to);
        if (!missing && dim-- == 0) {
            return to;
        }
    }
    return -1;
}

static bool expand_rule(const struct question *q, struct orr_placement *out) {
    int wanted = wanted_dim(q);
    if (q->given[0].kind == ORR_REPLICATE) {
        *out = wanted < 0 ? R : shard(wanted);
        return wanted < 0 || lists(q, "dims", wanted);
    }
    if (q->given[0].kind == ORR_PARTIAL) {
        *out = P;
        return wanted < 0 && is_sum(q->given[0]);
    }
    int dim = expanded_dim(q, q->given[0].dim);
    *out = shard(dim);
    return dim >= 0 && !lists(q, "dims", dim) && (wanted < 0 || wanted == dim);
}

/* grad has x's dimensions without the reduced one, or with size 1 there. */
static bool max_backward_rule(const struct question *q, struct orr_placement *out) {
    int64_t dim = q->attributes->values[orr_operator_attribute(q->op, "dim")].integer;
    if (dim == ORR_DIM_ALL || q->given[1].kind != ORR_SHARD) {
        return false;
    }
    dim = dim < 0 ? dim + rank_of(q, 1) : dim;
    int at = q->given[1].dim;
    *out = shard(at);
    return at != dim && is_shard(q->given[0], at > dim && !flag(q, "keepdim") ? at - 1 : at);
}

static bool embedding_backward_rule(const struct question *q, struct orr_placement *out) {
    int last = rank_of(q, 0) - 1;
    bool columns = is_shard(q->given[0], last);
    if (wanted_dim(q) >= 0) {
        *out = shard(0);
        return wanted_dim(q) == 0 && all_replicated(q);
    }
    *out = columns ? shard(1) : P;
    return columns ? q->given[1].kind == ORR_REPLICATE : alike(q, 2);
}

static bool cross_entropy_backward_rule(const struct question *q, struct orr_placement *out) {
    int last = rank_of(q, 1) - 1; /* the classes: sharded if lse is there */
    *out = q->given[1];
    if (q->given[0].kind != ORR_REPLICATE || q->given[1].kind != ORR_SHARD) {
        return false;
    }
    bool rows = q->given[1].dim != last;
    for (int i = 2; i < q->count; i++) {
        if (rows ? !is_shard(q->given[i], q->given[1].dim) : q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    return rows || q->count == 4;
}

static bool pad_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    if (q->given[0].kind == ORR_PARTIAL) {
        return is_sum(q->given[0]);
    }
    int dim = q->given[0].dim;
    return q->inputs[0].shape.dims[dim] == q->output->shape.dims[dim];
}

static bool count_rule(const struct question *q, struct orr_placement *out) {
    *out = P;
    return q->given[0].kind == ORR_SHARD;
}

/* The rule of one of training's rows whose class has none for it, or NULL. */
static rule_function training_rule(const struct question *q) {
    static const struct {
        const char *name;
        rule_function rule;
    } rules[] = {{"matmul_backward_weight", matmul_weight_rule},
                 {"softmax_backward", norm_backward_rule},
                 {"layernorm_backward", norm_backward_rule},
                 {"layernorm_backward_weight", norm_backward_rule},
                 {"rmsnorm_backward", norm_backward_rule},
                 {"rmsnorm_backward_weight", norm_backward_rule},
                 {"unbroadcast", unbroadcast_rule},
                 {"expand", expand_rule},
                 {"max_backward", max_backward_rule},
                 {"embedding_backward", embedding_backward_rule},
                 {"cross_entropy_backward", cross_entropy_backward_rule},
                 {"pad", pad_rule},
                 {"count_nonfinite", count_rule}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (is(q, rules[i].name)) {
            return rules[i].rule;
        }
    }
    return NULL;
}

static bool answer(const struct question *q, struct orr_placement *out) {
    *out = R;
    if (all_replicated(q) && wanted_dim(q) < 0) {
        return true;
    }
    rule_function own = training_rule(q);
    own = own ? own : orr__image_placement(q->op);
    own = own ? own : orr__serving_placement(q->op);
    own = own ? own : orr__model_placement(q->op);
    if (own) {
        return own(q, out);
    }
    switch (q->op->class) {
    case ORR_OPERATOR_GEMM: return gemm_rule(q, out);
    case ORR_OPERATOR_POINTWISE: return pointwise_rule(q, out);
    case ORR_OPERATOR_NORM: return first_rule(q, rank_of(q, 0) - 1, out);
    case ORR_OPERATOR_REDUCTION: return reduction_rule(q, out);
    case ORR_OPERATOR_ATTENTION:
        return q->count >= 3 ? attention_rule(q, out)
                             : first_rule(q, rank_of(q, 0) - 1, out); /* rope: not the head dim */
    case ORR_OPERATOR_GATHER: return gather_rule(q, out);
    case ORR_OPERATOR_MOVE: return move_rule(q, out);
    case ORR_OPERATOR_ALIAS:
        return partial_rule(q, out) || (q->given[0].kind == ORR_SHARD && reshape_rule(q, out));
    case ORR_OPERATOR_SOURCE: return false;
    case ORR_OPERATOR_UPDATE: *out = q->given[0]; return alike(q, q->count);
    }
    return false;
}

static int64_t parts_of(const struct orr_layout *layout, int axis) {
    int64_t parts = 1;
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        bool cuts = layout->axes[axis].kind == ORR_SHARD &&
                    is_shard(layout->axes[i], layout->axes[axis].dim);
        parts *= cuts ? layout->mesh->dims[i] : 1;
    }
    return parts;
}

static const char *legal(const struct orr_operator *op) {
    if (orr__image_legal(op)) {
        return orr__image_legal(op);
    }
    if (orr__serving_legal(op)) {
        return orr__serving_legal(op);
    }
    if (orr__model_legal(op)) {
        return orr__model_legal(op);
    }
    switch (op->class) {
    case ORR_OPERATOR_GEMM: return "R,R; S(row),R; R,S(column); S(inner),S(inner)";
    case ORR_OPERATOR_POINTWISE:
        return "all R; all S(d) with broadcast operands R; P only through linear operators";
    case ORR_OPERATOR_NORM: return "R or S(d) for d before the last dimension, weights R";
    case ORR_OPERATOR_REDUCTION:
        return "R; S(d) for a dimension that is not reduced; any S(d) for sum, mean and max";
    case ORR_OPERATOR_ATTENTION: return "R, S(0) or S(1), the same for all operands";
    case ORR_OPERATOR_GATHER:
        return "R; indices S(d) with table R; table S(0) or S(1) with indices R; rows of a loss "
               "S(d)";
    case ORR_OPERATOR_UPDATE:
        return "all R, or all S(d); a partial gradient is redistributed first";
    default: return "R; S(d) for a dimension that is not cut or joined; P of all operands";
    }
}

const char *orr_placements_text(const struct orr_operator *op,
                                const struct orr_layout *const *layouts, int count, char *buffer) {
    size_t at = 0;
    buffer[0] = '\0';
    for (int i = 0; i < count && at + ORR_PLACEMENT_TEXT_MAX + 20 < ORR_PLACEMENTS_TEXT_MAX; i++) {
        char text[ORR_PLACEMENT_TEXT_MAX];
        at +=
            (size_t)snprintf(buffer + at, ORR_PLACEMENTS_TEXT_MAX - at, "%s%.16s %s", i ? ", " : "",
                             op->input_names[i], orr_layout_text(layouts[i], text));
    }
    return buffer;
}

static enum orr_status refuse(const struct question *q, const struct orr_mesh *mesh, int axis,
                              const struct orr_layout *const *layouts, struct orr_error *error) {
    char given[ORR_PLACEMENTS_TEXT_MAX];
    return orr_error_set(error, ORR_INVALID,
                         "%s: placements %s don't fit along mesh axis '%s'%s%s; legal: %s",
                         q->op->name, orr_placements_text(q->op, layouts, q->count, given),
                         mesh->names[axis], q->why[0] ? ": " : "", q->why, legal(q->op));
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
        char why[PLACEMENT_WHY_MAX] = "";
        struct question q = {.op = op,
                             .inputs = inputs,
                             .count = input_count,
                             .attributes = attributes,
                             .output = output,
                             .axis = axis,
                             .ranks = mesh->dims[axis],
                             .parts = parts_of(layouts[0], axis),
                             .why = why};
        for (int i = 0; i < input_count; i++) {
            q.given[i] = layouts[i]->axes[axis];
        }
        if (!answer(&q, &out_layout->axes[axis])) {
            return refuse(&q, mesh, axis, layouts, error);
        }
    }
    return ORR_OK;
}
