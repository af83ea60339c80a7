/* The gradients of convolutions, group norms and products with quantized weights, in terms of
 * operators. */
#include <assert.h>
#include <string.h>

#include "runtime/autograd_internal.h"

/* Applies the operator `name` with the forward operator's attributes, by their names, and with
 * `size` as the attribute of that name unless it is NULL. Results as orr__back_apply's. */
static struct orr_tensor *apply(struct orr__backward *b, const char *name,
                                struct orr_tensor *const *inputs, int count,
                                const struct orr_shape *size, struct orr_tensor **out_outputs) {
    const struct orr_operator *op = orr_operator_find(name), *forward = b->node->op;
    struct orr_attributes attributes;
    assert(op);
    orr_operator_defaults(op, &attributes);
    for (int i = 0; forward->attributes[i].name; i++) {
        int index = orr_operator_attribute(op, forward->attributes[i].name);
        if (index >= 0) {
            attributes.values[index] = b->node->attributes.values[i];
        }
    }
    if (size) {
        int index = orr_operator_attribute(op, "size");
        assert(index >= 0);
        attributes.values[index].shape = *size;
    }
    return orr__back_apply(b, op, inputs, count, &attributes, NULL, out_outputs);
}

/* Height and width of an operand. */
static struct orr_shape size_of(const struct orr__backward *b, int index) {
    return orr_shape_of(2, &b->node->traced[index].info.shape.dims[2]);
}

/* The gradient's sum over all dimensions but that of the channels: [channels]. */
static struct orr_tensor *channel_sums(struct orr__backward *b, int channel_dim) {
    const struct orr_operator *sum = orr_operator_find("unbroadcast");
    const struct orr_operator *reshape = orr_operator_find("reshape");
    const struct orr_shape *grad = &b->node->traced[b->node->input_count].info.shape;
    struct orr_attributes sums, shape;
    orr_operator_defaults(sum, &sums);
    orr_operator_defaults(reshape, &shape);
    struct orr_shape *dims = &sums.values[orr_operator_attribute(sum, "dims")].shape;
    for (int i = 0; i < grad->rank; i++) {
        if (i != channel_dim) {
            dims->dims[dims->rank++] = i;
        }
    }
    sums.values[orr_operator_attribute(sum, "leading")].integer = channel_dim;
    shape.values[orr_operator_attribute(reshape, "shape")].shape =
        orr_shape_of(1, &grad->dims[channel_dim]);
    struct orr_tensor *sums_of_all = orr__back_apply(b, sum, &b->grads[0], 1, &sums, NULL, NULL);
    return grad->rank == channel_dim + 1
               ? sums_of_all
               : orr__back_apply(b, reshape, &sums_of_all, 1, &shape, NULL, NULL);
}

static void rule_conv2d(struct orr__backward *b) {
    const struct orr__traced *traced = b->node->traced;
    struct orr_shape image = size_of(b, 0), filter = size_of(b, 1);
    if (b->wanted[0]) {
        struct orr_tensor *inputs[2] = {b->grads[0], traced[1].kept};
        b->out[0] = apply(b, "conv2d_backward_input", inputs, 2, &image, NULL);
    }
    if (b->wanted[1]) {
        struct orr_tensor *inputs[2] = {b->grads[0], traced[0].kept};
        b->out[1] = apply(b, "conv2d_backward_weight", inputs, 2, &filter, NULL);
    }
    if (b->wanted[2]) {
        b->out[2] = channel_sums(b, 1);
    }
}

static void rule_groupnorm(struct orr__backward *b) {
    const struct orr__traced *traced = b->node->traced;
    struct orr_tensor *inputs[3] = {b->grads[0], traced[0].kept, traced[1].kept};
    if (b->wanted[0]) {
        int count = b->node->input_count > 1 ? 3 : 2;
        b->out[0] = apply(b, "groupnorm_backward", inputs, count, NULL, NULL);
    }
    if (b->wanted[1]) {
        struct orr_tensor *both[2] = {NULL, NULL};
        apply(b, "groupnorm_backward_weight", inputs, 2, NULL, both);
        b->out[1] = both[0];
        b->out[2] = b->wanted[2] ? both[1] : NULL;
    } else if (b->wanted[2]) {
        b->out[2] = channel_sums(b, 1);
    }
}

/* Codes and scale stay as they are: training around a quantized weight moves other parameters. */
static void rule_linear_quantized(struct orr__backward *b) {
    const struct orr__traced *traced = b->node->traced;
    if (b->wanted[0]) {
        const struct orr_operator *dequantize = orr_operator_find("dequantize");
        const struct orr_operator *matmul = orr_operator_find("matmul");
        struct orr_attributes dtype, product;
        orr_operator_defaults(dequantize, &dtype);
        orr_operator_defaults(matmul, &product);
        dtype.values[orr_operator_attribute(dequantize, "dtype")].integer = traced[0].info.dtype;
        struct orr_tensor *codes[2] = {traced[1].kept, traced[2].kept};
        struct orr_tensor *weight = orr__back_apply(b, dequantize, codes, 2, &dtype, NULL, NULL);
        struct orr_tensor *inputs[2] = {b->grads[0], weight};
        b->out[0] = orr__back_apply(b, matmul, inputs, 2, &product, NULL, NULL);
    }
    if (b->wanted[3]) {
        b->out[3] = channel_sums(b, b->grads[0]->info.shape.rank - 1);
    }
}

#define FIRST  ORR__KEEP_FIRST
#define SECOND ORR__KEEP_SECOND
#define THIRD  ORR__KEEP_THIRD

static const struct orr__rule rules[] = {
    {"conv2d", {SECOND, FIRST, 0}, false, rule_conv2d},
    {"groupnorm", {FIRST | SECOND, FIRST, 0}, false, rule_groupnorm},
    {"linear_quantized", {SECOND | THIRD, 0, 0}, false, rule_linear_quantized},
};

const struct orr__rule *orr__image_rule(const struct orr_operator *op) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, op->name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}
