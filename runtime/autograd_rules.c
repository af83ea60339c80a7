/* The gradients of operators, in terms of operators.
 *
 * g is the gradient of the result. In a binary operator the operand that may be partial comes first
 * (see placement_rules.c), so that a rule works wherever its forward operator does. */
#include <assert.h>
#include <string.h>

#include "runtime/autograd_internal.h"

/* --- calls --- */

/* A call that is being put together. */
struct step {
    const struct orr_operator *op;
    struct orr_attributes attributes;
};

static struct step step_of(const char *name) {
    struct step step = {.op = orr_operator_find(name)};
    assert(step.op);
    orr_operator_defaults(step.op, &step.attributes);
    return step;
}

static struct orr_attribute *attribute(struct step *step, const char *name) {
    int index = orr_operator_attribute(step->op, name);
    assert(index >= 0);
    return &step->attributes.values[index];
}

static struct orr_tensor *call(struct orr__backward *b, const struct step *step,
                               struct orr_tensor *x, struct orr_tensor *y) {
    struct orr_tensor *inputs[2] = {x, y};
    return orr__back_apply(b, step->op, inputs, y ? 2 : 1, &step->attributes, NULL, NULL);
}

static struct orr_tensor *unary(struct orr__backward *b, const char *name, struct orr_tensor *x) {
    struct step step = step_of(name);
    return call(b, &step, x, NULL);
}

static struct orr_tensor *binary(struct orr__backward *b, const char *name, struct orr_tensor *x,
                                 struct orr_tensor *y) {
    struct step step = step_of(name);
    return call(b, &step, x, y);
}

static struct orr_tensor *scaled(struct orr__backward *b, struct orr_tensor *x, double alpha) {
    struct step step = step_of("scale");
    attribute(&step, "alpha")->real = alpha;
    return call(b, &step, x, NULL);
}

static struct orr_tensor *reshaped(struct orr__backward *b, struct orr_tensor *x,
                                   const struct orr_shape *shape) {
    struct step step = step_of("reshape");
    attribute(&step, "shape")->shape = *shape;
    return call(b, &step, x, NULL);
}

/* --- the forward pass's values --- */

static struct orr_tensor *operand(const struct orr__backward *b, int index) {
    assert(b->node->traced[index].kept);
    return b->node->traced[index].kept;
}

static struct orr_tensor *result(const struct orr__backward *b) {
    return operand(b, b->node->input_count);
}

static const struct orr_shape *shape_of(const struct orr__backward *b, int index) {
    return &b->node->traced[index].info.shape;
}

static const struct orr_attribute *forward(const struct orr__backward *b, const char *name) {
    int index = orr_operator_attribute(b->node->op, name);
    assert(index >= 0);
    return &b->node->attributes.values[index];
}

/* A call of `name` with the forward operator's attributes, which it has in the same places. */
static struct step like_forward(const struct orr__backward *b, const char *name) {
    struct step step = step_of(name);
    step.attributes = b->node->attributes;
    return step;
}

/* --- broadcasting --- */

/* Sums a gradient of the result's shape to that of an operand which broadcast to it. */
static struct orr_tensor *unbroadcast(struct orr__backward *b, struct orr_tensor *grad, int index) {
    const struct orr_shape *to = shape_of(b, index);
    if (b->status != ORR_OK || orr_shape_equal(&grad->info.shape, to)) {
        return grad;
    }
    const struct orr_shape *from = &grad->info.shape;
    struct step step = step_of("unbroadcast");
    struct orr_shape *dims = &attribute(&step, "dims")->shape;
    int leading = from->rank - to->rank;
    attribute(&step, "leading")->integer = leading;
    for (int i = 0; i < from->rank; i++) {
        if (i < leading || from->dims[i] != to->dims[i - leading]) {
            dims->dims[dims->rank++] = i;
        }
    }
    return call(b, &step, grad, NULL);
}

/* Which of the dimensions an operand is cut along, for each mesh axis, or -1: what an operator that
 * makes the operand's gradient of replicated tensors is asked for. */
static struct orr_shape shards_of(const struct orr__traced *x, const struct orr_shape *dims) {
    struct orr_shape shards = {.rank = x->layout.mesh->axis_count};
    for (int axis = 0; axis < shards.rank; axis++) {
        shards.dims[axis] = -1;
        for (int i = 0; i < dims->rank; i++) {
            bool cut =
                x->layout.axes[axis].kind == ORR_SHARD && x->layout.axes[axis].dim == dims->dims[i];
            shards.dims[axis] = cut ? dims->dims[i] : shards.dims[axis];
        }
    }
    return shards;
}

/* Repeats a gradient along dimensions of `shape`, which are the operand's, in the operand's
 * shards. */
static struct orr_tensor *expanded_to(struct orr__backward *b, struct orr_tensor *grad,
                                      const struct orr_shape *shape, const struct orr_shape *dims) {
    struct step step = step_of("expand");
    attribute(&step, "shape")->shape = *shape;
    attribute(&step, "dims")->shape = *dims;
    attribute(&step, "shards")->shape = shards_of(&b->node->traced[0], dims);
    return call(b, &step, grad, NULL);
}

/* A reduction's gradient, repeated along the dimensions that were reduced. */
static struct orr_tensor *expanded(struct orr__backward *b, struct orr_tensor *grad,
                                   const struct orr_shape *dims) {
    return expanded_to(b, grad, shape_of(b, 0), dims);
}

/* --- pointwise --- */

static void rule_add(struct orr__backward *b) {
    for (int i = 0; i < 2; i++) {
        b->out[i] = b->wanted[i] ? unbroadcast(b, b->grads[0], i) : NULL;
    }
}

static void rule_sub(struct orr__backward *b) {
    b->out[0] = b->wanted[0] ? unbroadcast(b, b->grads[0], 0) : NULL;
    if (b->wanted[1]) {
        b->out[1] = unary(b, "neg", unbroadcast(b, b->grads[0], 1));
    }
}

static void rule_mul(struct orr__backward *b) {
    if (b->wanted[0]) {
        b->out[0] = unbroadcast(b, binary(b, "mul", b->grads[0], operand(b, 1)), 0);
    }
    if (b->wanted[1]) {
        b->out[1] = unbroadcast(b, binary(b, "mul", operand(b, 0), b->grads[0]), 1);
    }
}

/* (x / y)' = 1 / y, -(x / y) / y */
static void rule_div(struct orr__backward *b) {
    if (b->wanted[0]) {
        b->out[0] = unbroadcast(b, binary(b, "div", b->grads[0], operand(b, 1)), 0);
    }
    if (b->wanted[1]) {
        struct orr_tensor *slope = binary(b, "mul", result(b), b->grads[0]);
        slope = unary(b, "neg", binary(b, "div", slope, operand(b, 1)));
        b->out[1] = unbroadcast(b, slope, 1);
    }
}

static void rule_maximum(struct orr__backward *b) {
    struct orr_tensor *difference = binary(b, "sub", operand(b, 0), operand(b, 1));
    struct orr_tensor *first = binary(b, "maximum_backward", b->grads[0], difference);
    b->out[0] = b->wanted[0] ? unbroadcast(b, first, 0) : NULL;
    if (b->wanted[1]) {
        b->out[1] = unbroadcast(b, binary(b, "sub", b->grads[0], first), 1);
    }
}

static void rule_relu(struct orr__backward *b) {
    b->out[0] = binary(b, "relu_backward", b->grads[0], result(b));
}

static void rule_gelu(struct orr__backward *b) {
    b->out[0] = binary(b, "gelu_backward", b->grads[0], operand(b, 0));
}

static void rule_silu(struct orr__backward *b) {
    b->out[0] = binary(b, "silu_backward", b->grads[0], operand(b, 0));
}

static void rule_tanh(struct orr__backward *b) {
    b->out[0] = binary(b, "tanh_backward", b->grads[0], result(b));
}

static void rule_sigmoid(struct orr__backward *b) {
    b->out[0] = binary(b, "sigmoid_backward", b->grads[0], result(b));
}

static void rule_log(struct orr__backward *b) {
    b->out[0] = binary(b, "div", b->grads[0], operand(b, 0));
}

static void rule_exp(struct orr__backward *b) {
    b->out[0] = binary(b, "mul", b->grads[0], result(b));
}

static void rule_sqrt(struct orr__backward *b) {
    b->out[0] = binary(b, "div", scaled(b, b->grads[0], 0.5), result(b));
}

static void rule_neg(struct orr__backward *b) {
    b->out[0] = unary(b, "neg", b->grads[0]);
}

static void rule_scale(struct orr__backward *b) {
    b->out[0] = scaled(b, b->grads[0], forward(b, "alpha")->real);
}

/* The same elements are dropped: the mask is a function of the seed and the place. */
static void rule_dropout(struct orr__backward *b) {
    struct step step = like_forward(b, "dropout");
    b->out[0] = call(b, &step, b->grads[0], NULL);
}

static void rule_dropout_mask(struct orr__backward *b) {
    struct step step = step_of("dropout_mask_backward");
    attribute(&step, "p")->real = forward(b, "p")->real;
    b->out[0] = call(b, &step, b->grads[0], operand(b, b->node->input_count + 1));
}

/* --- products --- */

static bool flag(const struct orr__backward *b, const char *name) {
    return forward(b, name)->integer != 0;
}

static struct orr_tensor *product(struct orr__backward *b, struct orr_tensor *x, bool turn_x,
                                  struct orr_tensor *y, bool turn_y) {
    struct step step = step_of("matmul");
    attribute(&step, "transpose_a")->integer = turn_x;
    attribute(&step, "transpose_b")->integer = turn_y;
    return call(b, &step, x, y);
}

/* Leading dimensions of a weight that are x's own, if it broadcasts over all batch dimensions
 * behind them: its gradient is a sum over those. -1 for a weight that is another matter. */
static int weight_batch(const struct orr__backward *b) {
    const struct orr_shape *x = shape_of(b, 0), *w = shape_of(b, 1), *y = shape_of(b, 2);
    int kept = 0;
    if (w->rank == 2) {
        return 0;
    }
    if (w->rank != x->rank) {
        return -1;
    }
    while (kept < w->rank - 2 && w->dims[kept] == x->dims[kept]) {
        kept++;
    }
    for (int i = 0; i < w->rank - 2; i++) {
        if (x->dims[i] != y->dims[i] || (i >= kept && w->dims[i] != 1)) {
            return -1;
        }
    }
    return kept < w->rank - 2 ? kept : -1;
}

static struct orr_tensor *weight_gradient(struct orr__backward *b, struct orr_tensor *x,
                                          struct orr_tensor *y, int batch) {
    struct step step = step_of("matmul_backward_weight");
    attribute(&step, "batch")->integer = batch;
    struct orr_tensor *grad = call(b, &step, x, y);
    bool same = b->status != ORR_OK || orr_shape_equal(&grad->info.shape, shape_of(b, 1));
    return same ? grad : reshaped(b, grad, shape_of(b, 1));
}

/* C = op(A) op(B). With A turned, the gradient of its turned form is turned back by computing the
 * transpose of the product. */
static void rule_matmul(struct orr__backward *b) {
    struct orr_tensor *g = b->grads[0];
    bool turn_a = flag(b, "transpose_a"), turn_b = flag(b, "transpose_b");
    if (b->wanted[0]) {
        struct orr_tensor *grad = turn_a ? product(b, operand(b, 1), turn_b, g, true)
                                         : product(b, g, false, operand(b, 1), !turn_b);
        b->out[0] = unbroadcast(b, grad, 0);
    }
    int batch = turn_a ? -1 : weight_batch(b);
    if (b->wanted[1] && batch >= 0) {
        struct orr_tensor *x = operand(b, 0);
        b->out[1] = weight_gradient(b, turn_b ? g : x, turn_b ? x : g, batch);
    } else if (b->wanted[1]) {
        struct orr_tensor *grad = turn_b ? product(b, g, true, operand(b, 0), turn_a)
                                         : product(b, operand(b, 0), !turn_a, g, false);
        b->out[1] = unbroadcast(b, grad, 1);
    }
}

static void rule_linear(struct orr__backward *b) {
    struct orr_tensor *g = b->grads[0];
    const struct orr_shape *x = shape_of(b, 0);
    if (b->wanted[0] && x->rank > 1) {
        b->out[0] = product(b, g, false, operand(b, 1), false);
    } else if (b->wanted[0]) { /* a product takes matrices: one row, whose shards are g's */
        struct step row = step_of("expand"), sum = step_of("unbroadcast");
        const struct orr_shape first = orr_shape_of(1, (int64_t[]){0});
        attribute(&row, "shape")->shape = orr_shape_of(2, (int64_t[]){1, shape_of(b, 1)->dims[0]});
        attribute(&row, "dims")->shape = attribute(&sum, "dims")->shape = first;
        attribute(&sum, "leading")->integer = 1;
        struct orr_tensor *grad = product(b, call(b, &row, g, NULL), false, operand(b, 1), false);
        b->out[0] = call(b, &sum, grad, NULL);
    }
    if (b->wanted[1]) {
        b->out[1] = binary(b, "matmul_backward_weight", g, operand(b, 0));
    }
    if (b->wanted[2]) {
        b->out[2] = unbroadcast(b, g, 2);
    }
}

/* --- norms and attention --- */

static void rule_softmax(struct orr__backward *b) {
    b->out[0] = binary(b, "softmax_backward", b->grads[0], result(b));
}

/* The operand's gradient of a norm; its weight is an operand if there is one. */
static struct orr_tensor *norm_operand(struct orr__backward *b, const char *name) {
    struct step step = like_forward(b, name);
    struct orr_tensor *inputs[3] = {b->grads[0], operand(b, 0)};
    int count = b->node->input_count > 1 ? 3 : 2;
    if (count == 3) {
        inputs[2] = operand(b, 1);
    }
    return orr__back_apply(b, step.op, inputs, count, &step.attributes, NULL, NULL);
}

static void rule_layernorm(struct orr__backward *b) {
    if (b->wanted[0]) {
        b->out[0] = norm_operand(b, "layernorm_backward");
    }
    if (b->wanted[1]) {
        struct step step = like_forward(b, "layernorm_backward_weight");
        struct orr_tensor *inputs[2] = {b->grads[0], operand(b, 0)}, *both[2] = {NULL, NULL};
        orr__back_apply(b, step.op, inputs, 2, &step.attributes, NULL, both);
        b->out[1] = both[0];
        b->out[2] = b->wanted[2] ? both[1] : NULL;
    } else if (b->wanted[2]) {
        b->out[2] = unbroadcast(b, b->grads[0], 2);
    }
}

static void rule_rmsnorm(struct orr__backward *b) {
    if (b->wanted[0]) {
        b->out[0] = norm_operand(b, "rmsnorm_backward");
    }
    if (b->wanted[1]) {
        struct step step = like_forward(b, "rmsnorm_backward_weight");
        b->out[1] = call(b, &step, b->grads[0], operand(b, 0));
    }
}

static void rule_rope(struct orr__backward *b) {
    struct step step = like_forward(b, "rope_backward");
    b->out[0] = call(b, &step, b->grads[0], NULL);
}

static void rule_sdpa(struct orr__backward *b) {
    struct step step = like_forward(b, "sdpa_backward");
    struct orr_tensor *inputs[5] = {b->grads[0], operand(b, 0), operand(b, 1), operand(b, 2),
                                    result(b)};
    orr__back_apply(b, step.op, inputs, 5, &step.attributes, NULL, b->out);
}

/* --- reductions --- */

/* The dimensions that the forward operator's attribute `dim` means. */
static struct orr_shape reduced_dims(const struct orr__backward *b) {
    const struct orr_shape *x = shape_of(b, 0);
    int64_t dim = forward(b, "dim")->integer;
    struct orr_shape dims = {.rank = 0};
    for (int i = 0; i < x->rank; i++) {
        if (dim == ORR_DIM_ALL || i == (dim < 0 ? dim + x->rank : dim)) {
            dims.dims[dims.rank++] = i;
        }
    }
    return dims;
}

static void rule_sum(struct orr__backward *b) {
    struct orr_shape dims = reduced_dims(b);
    b->out[0] = expanded(b, b->grads[0], &dims);
}

static void rule_mean(struct orr__backward *b) {
    struct orr_shape dims = reduced_dims(b);
    int64_t count = forward(b, "total")->integer;
    if (count == 0) {
        count = 1;
        for (int i = 0; i < dims.rank; i++) {
            count *= shape_of(b, 0)->dims[dims.dims[i]];
        }
    }
    b->out[0] = expanded(b, scaled(b, b->grads[0], 1 / (double)count), &dims);
}

static void rule_max(struct orr__backward *b) {
    struct step step = like_forward(b, "max_backward");
    b->out[0] = call(b, &step, b->grads[0], operand(b, 0));
}

static void rule_unbroadcast(struct orr__backward *b) {
    const struct orr__traced *x = &b->node->traced[0];
    const struct orr_shape *dims = &forward(b, "dims")->shape;
    int leading = (int)forward(b, "leading")->integer;
    struct orr_shape missing = {.rank = leading}, kept = {.rank = 0}; /* the latter have size 1 */
    struct orr_shape shape = x->info.shape;
    for (int i = 0; i < dims->rank; i++) {
        if (dims->dims[i] < leading) {
            missing.dims[dims->dims[i]] = dims->dims[i];
        } else {
            kept.dims[kept.rank++] = dims->dims[i];
            shape.dims[dims->dims[i]] = 1;
        }
    }
    struct orr_tensor *grad = b->grads[0];
    if (leading > 0) {
        grad = expanded_to(b, grad, &shape, &missing);
    }
    b->out[0] = expanded_to(b, grad, &x->info.shape, &kept);
}

/* What `expand` repeated is summed; a dimension that x lacked goes away. */
static void rule_expand(struct orr__backward *b) {
    const struct orr_shape *x = shape_of(b, 0);
    struct step step = step_of("unbroadcast");
    attribute(&step, "dims")->shape = forward(b, "dims")->shape;
    struct orr_tensor *sum = call(b, &step, b->grads[0], NULL);
    bool same = b->status != ORR_OK || orr_shape_equal(&sum->info.shape, x);
    b->out[0] = same ? sum : reshaped(b, sum, x);
}

/* --- gather --- */

static void rule_embedding(struct orr__backward *b) {
    struct step step = step_of("embedding_backward");
    const struct orr_shape rows = orr_shape_of(1, (int64_t[]){0});
    attribute(&step, "rows")->integer = shape_of(b, 1)->dims[0];
    attribute(&step, "shards")->shape = shards_of(&b->node->traced[1], &rows);
    b->out[1] = call(b, &step, b->grads[0], operand(b, 0));
}

/* Elements of the last dimension go back to where they came from. */
static struct orr_tensor *scattered(struct orr__backward *b, struct orr_tensor *indices) {
    const struct orr_shape *x = shape_of(b, 0);
    const struct orr_shape last = orr_shape_of(1, (int64_t[]){x->rank - 1});
    struct step step = step_of("scatter_last");
    attribute(&step, "size")->integer = x->dims[x->rank - 1];
    attribute(&step, "shards")->shape = shards_of(&b->node->traced[0], &last);
    return call(b, &step, b->grads[0], indices);
}

static void rule_gather_last(struct orr__backward *b) {
    b->out[0] = scattered(b, operand(b, 1));
}

/* Into the places of the values that were chosen, which are the second result. */
static void rule_topk(struct orr__backward *b) {
    b->out[0] = scattered(b, operand(b, b->node->input_count + 1));
}

/* --- mixtures of experts: rows go back the way they came --- */

/* A call on tokens or slots, the forward pass's indices, and its weights if it had any. */
static struct orr_tensor *routed(struct orr__backward *b, const struct step *step,
                                 struct orr_tensor *x) {
    struct orr_tensor *inputs[3] = {x, operand(b, 1)};
    int count = b->node->input_count;
    if (count > 2) {
        inputs[2] = operand(b, 2);
    }
    return orr__back_apply(b, step->op, inputs, count, &step->attributes, NULL, NULL);
}

/* The gradient of weights: products of the tokens' rows and those of their slots. */
static struct orr_tensor *dots(struct orr__backward *b, struct orr_tensor *tokens,
                               struct orr_tensor *slots) {
    struct step step = step_of("moe_dot");
    struct orr_tensor *inputs[3] = {tokens, slots, operand(b, 1)};
    return orr__back_apply(b, step.op, inputs, 3, &step.attributes, NULL, NULL);
}

static void rule_moe_dispatch(struct orr__backward *b) {
    struct step step = step_of("moe_combine");
    b->out[0] = b->wanted[0] ? routed(b, &step, b->grads[0]) : NULL;
    b->out[2] = b->wanted[2] ? dots(b, operand(b, 0), b->grads[0]) : NULL;
}

static void rule_moe_combine(struct orr__backward *b) {
    struct step step = step_of("moe_dispatch");
    const int64_t *slots = shape_of(b, 0)->dims; /* experts, gb, gs, capacity, h */
    attribute(&step, "experts")->integer = slots[0];
    attribute(&step, "capacity")->integer = slots[3];
    attribute(&step, "groups")->shape = orr_shape_of(2, slots + 1);
    b->out[0] = b->wanted[0] ? routed(b, &step, b->grads[0]) : NULL;
    b->out[2] = b->wanted[2] ? dots(b, b->grads[0], operand(b, 0)) : NULL;
}

static void rule_cross_entropy(struct orr__backward *b) {
    struct step step = step_of("cross_entropy_backward");
    int64_t total = forward(b, "total")->integer;
    attribute(&step, "total")->integer = total ? total : orr_shape_count(shape_of(b, 1));
    struct orr_tensor *inputs[3] = {b->grads[0], operand(b, 0), operand(b, 1)};
    b->out[0] = orr__back_apply(b, step.op, inputs, 3, &step.attributes, NULL, NULL);
}

/* --- moves --- */

static void rule_cast(struct orr__backward *b) {
    struct step step = step_of("cast");
    attribute(&step, "dtype")->integer = b->node->traced[0].info.dtype;
    b->out[0] = call(b, &step, b->grads[0], NULL);
}

static void rule_transpose(struct orr__backward *b) {
    struct step step = step_of("transpose");
    const struct orr_shape *order = &forward(b, "perm")->shape;
    struct orr_shape *inverse = &attribute(&step, "perm")->shape;
    inverse->rank = order->rank; /* 0: the last two change places, and back again */
    for (int i = 0; i < order->rank; i++) {
        int64_t from = order->dims[i] < 0 ? order->dims[i] + order->rank : order->dims[i];
        inverse->dims[from] = i;
    }
    b->out[0] = call(b, &step, b->grads[0], NULL);
}

static void rule_reshape(struct orr__backward *b) {
    b->out[0] = reshaped(b, b->grads[0], shape_of(b, 0));
}

static void rule_slice(struct orr__backward *b) {
    const struct orr_shape *x = shape_of(b, 0), *y = shape_of(b, 1);
    const struct orr_shape *starts = &forward(b, "starts")->shape;
    struct step step = step_of("pad");
    struct orr_shape *before = &attribute(&step, "before")->shape;
    struct orr_shape *after = &attribute(&step, "after")->shape;
    before->rank = after->rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        int64_t start = i < starts->rank ? starts->dims[i] : 0;
        before->dims[i] = start < 0 ? start + x->dims[i] : start;
        after->dims[i] = x->dims[i] - y->dims[i] - before->dims[i];
    }
    b->out[0] = call(b, &step, b->grads[0], NULL);
}

/* The part of the gradient that lies `before` from the start of dimension `dim` has x's shape. */
static struct orr_tensor *part(struct orr__backward *b, const struct orr_shape *x, int dim,
                               int64_t before) {
    struct step step = step_of("slice");
    struct orr_shape *starts = &attribute(&step, "starts")->shape;
    struct orr_shape *ends = &attribute(&step, "ends")->shape;
    *ends = *x;
    starts->rank = x->rank;
    starts->dims[dim] = before;
    ends->dims[dim] += before;
    return call(b, &step, b->grads[0], NULL);
}

static void rule_concat(struct orr__backward *b) {
    int64_t dim = forward(b, "dim")->integer, before = 0;
    dim = dim < 0 ? dim + shape_of(b, 0)->rank : dim;
    for (int i = 0; i < b->node->input_count; i++) {
        b->out[i] = b->wanted[i] ? part(b, shape_of(b, i), (int)dim, before) : NULL;
        before += shape_of(b, i)->dims[dim];
    }
}

static void rule_pad(struct orr__backward *b) {
    const struct orr_shape *x = shape_of(b, 0), *zeros = &forward(b, "before")->shape;
    struct step step = step_of("slice");
    struct orr_shape *starts = &attribute(&step, "starts")->shape;
    struct orr_shape *ends = &attribute(&step, "ends")->shape;
    *ends = *x;
    starts->rank = x->rank;
    for (int i = 0; i < zeros->rank; i++) {
        starts->dims[i] = zeros->dims[i];
        ends->dims[i] += zeros->dims[i];
    }
    b->out[0] = call(b, &step, b->grads[0], NULL);
}

/* --- the table --- */

#define FIRST  ORR__KEEP_FIRST
#define SECOND ORR__KEEP_SECOND
#define THIRD  ORR__KEEP_THIRD
#define RESULT ORR__KEEP_RESULT
#define JOINT  ORR__RULE_JOINT
#define REST   ORR__RULE_JOINT_REST

static const struct orr__rule rules[] = {
    {"matmul", {SECOND, FIRST}, false, rule_matmul},
    {"linear", {SECOND, FIRST}, false, rule_linear},
    {"add", {0}, false, rule_add},
    {"sub", {0}, false, rule_sub},
    {"mul", {SECOND, FIRST}, false, rule_mul},
    {"div", {SECOND, SECOND | RESULT}, false, rule_div},
    {"maximum", {FIRST | SECOND, FIRST | SECOND}, JOINT, rule_maximum},
    {"relu", {RESULT}, false, rule_relu},
    {"gelu", {FIRST}, false, rule_gelu},
    {"silu", {FIRST}, false, rule_silu},
    {"exp", {RESULT}, false, rule_exp},
    {"log", {FIRST}, false, rule_log},
    {"tanh", {RESULT}, false, rule_tanh},
    {"sigmoid", {RESULT}, false, rule_sigmoid},
    {"neg", {0}, true, rule_neg},
    {"scale", {0}, true, rule_scale},
    {"sqrt", {RESULT}, false, rule_sqrt},
    {"dropout", {0}, false, rule_dropout},
    {"dropout_mask", {ORR__KEEP_RESULT_SECOND}, false, rule_dropout_mask},
    {"softmax", {RESULT}, false, rule_softmax},
    {"layernorm", {FIRST | SECOND, FIRST, 0}, REST, rule_layernorm},
    {"rmsnorm", {FIRST | SECOND, FIRST}, false, rule_rmsnorm},
    {"rope", {0}, false, rule_rope},
    {"sdpa",
     {FIRST | SECOND | THIRD | RESULT, FIRST | SECOND | THIRD | RESULT,
      FIRST | SECOND | THIRD | RESULT},
     JOINT,
     rule_sdpa},
    {"sum", {0}, false, rule_sum},
    {"mean", {0}, false, rule_mean},
    {"max", {FIRST}, false, rule_max},
    {"embedding", {0, FIRST}, false, rule_embedding},
    {"gather_last", {SECOND}, false, rule_gather_last},
    {"topk", {ORR__KEEP_RESULT_SECOND}, false, rule_topk},
    {"moe_dispatch", {SECOND | THIRD, 0, FIRST | SECOND}, false, rule_moe_dispatch},
    {"moe_combine", {SECOND | THIRD, 0, FIRST | SECOND}, false, rule_moe_combine},
    {"cross_entropy", {FIRST | SECOND}, false, rule_cross_entropy},
    {"cast", {0}, true, rule_cast},
    {"transpose", {0}, true, rule_transpose},
    {"slice", {0}, false, rule_slice},
    {"concat", {0}, false, rule_concat},
    {"reshape", {0}, true, rule_reshape},
    {"unbroadcast", {0}, false, rule_unbroadcast},
    {"expand", {0}, false, rule_expand},
    {"pad", {0}, false, rule_pad},
};

const struct orr__rule *orr__rule_of(const struct orr_operator *op) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, op->name) == 0) {
            return &rules[i];
        }
    }
    return orr__image_rule(op);
}
