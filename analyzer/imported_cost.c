#include "analyzer/imported_cost.h"

#include <string.h>

#include "analyzer/imported_cost_internal.h"

void orr__formula_unknown(struct orr__calculation *c, const char *why) {
    if (c->cost->known) {
        c->cost->known = false;
        c->cost->why = why;
    }
}

uint64_t orr__formula_times(struct orr__calculation *c, uint64_t x, uint64_t y) {
    uint64_t product;
    if (__builtin_mul_overflow(x, y, &product)) {
        orr__formula_unknown(c, "the recorded shapes are too large");
        return 0;
    }
    return product;
}

void orr__formula_add(struct orr__calculation *c, uint64_t *figure, uint64_t x, uint64_t y) {
    if (__builtin_add_overflow(*figure, orr__formula_times(c, x, y), figure)) {
        orr__formula_unknown(c, "the recorded shapes are too large");
        *figure = 0;
    }
}

const struct orr__input *orr__formula_tensor(struct orr__calculation *c, unsigned index) {
    const struct orr__input *tensor = orr__inputs_tensor(c->inputs, index);
    if (!tensor) {
        orr__formula_unknown(c, "an input's shape is not recorded");
    } else if (tensor->element.bytes == 0) {
        orr__formula_unknown(c, "an input's element type is not recorded");
        return NULL;
    }
    return tensor;
}

void orr__formula_read(struct orr__calculation *c, const struct orr__input *tensor,
                       uint64_t result) {
    uint64_t *figure = tensor->count < result ? &c->cost->bytes_broadcast : &c->cost->bytes_read;
    orr__formula_add(c, figure, tensor->count, tensor->element.bytes);
}

void orr__formula_write(struct orr__calculation *c, uint64_t count, struct orr__element element) {
    orr__formula_add(c, &c->cost->bytes_written, count, element.bytes);
}

/* ------------------------------------------------------------------------------------------------
 * The operators */

#define ELEMENTS(name, inputs, flops)                                                              \
    { name, "pointwise", orr__formula_elements, inputs, flops }
#define COMPARE(name, inputs)                                                                      \
    { name, "pointwise", orr__formula_compare, inputs, 1 }
#define REDUCE(name, sort)                                                                         \
    { name, "reduction", orr__formula_reduction, sort, 0 }

static const struct orr__formula formulas[] = {
    {"mm", "gemm", orr__formula_mm, 0, 2},
    {"addmm", "gemm", orr__formula_mm, 1, 2},
    {"_addmm_activation", "gemm", orr__formula_mm, 1, 2},
    {"bmm", "gemm", orr__formula_mm, 0, 3},
    {"baddbmm", "gemm", orr__formula_mm, 1, 3},
    {"linear", "gemm", orr__formula_linear, 0, 0},
    {"matmul", "gemm", orr__formula_matmul, 0, 0},
    {"mv", "gemm", orr__formula_matmul, 0, 0},
    {"dot", "gemm", orr__formula_matmul, 0, 0},

    {"conv1d", "conv", orr__formula_convolution, ORR__CONV_PLAIN, 2},
    {"conv2d", "conv", orr__formula_convolution, ORR__CONV_PLAIN, 2},
    {"conv3d", "conv", orr__formula_convolution, ORR__CONV_PLAIN, 2},
    {"convolution", "conv", orr__formula_convolution, ORR__CONV_FULL, 2},
    {"_convolution", "conv", orr__formula_convolution, ORR__CONV_FULL, 2},
    {"convolution_overrideable", "conv", orr__formula_convolution, ORR__CONV_FULL, 2},
    {"cudnn_convolution", "conv", orr__formula_convolution, ORR__CONV_CUDNN, 0},
    {"miopen_convolution", "conv", orr__formula_convolution, ORR__CONV_MIOPEN, 2},
    {"convolution_backward", "conv", orr__formula_convolution_backward, 0, 0},

    {"_flash_attention_forward", "attention", orr__formula_attention_bshd, 0, 8},
    {"_scaled_dot_product_flash_attention", "attention", orr__formula_attention_bhsd, 0, 4},
    {"_scaled_dot_product_efficient_attention", "attention", orr__formula_attention_bhsd, 0, 6},
    {"_scaled_dot_product_cudnn_attention", "attention", orr__formula_attention_bhsd, 0, 6},
    {"_flash_attention_backward", "attention", orr__formula_attention_backward_bshd, 1, 11},
    {"_scaled_dot_product_flash_attention_backward", "attention",
     orr__formula_attention_backward_bhsd, 1, 11},
    {"_scaled_dot_product_efficient_attention_backward", "attention",
     orr__formula_attention_backward_bhsd, 1, 11},

    {"add", "pointwise", orr__formula_add_scaled, 0, 0},
    {"sub", "pointwise", orr__formula_add_scaled, 0, 0},
    {"gelu", "pointwise", orr__formula_gelu, 1, 1},
    {"gelu_backward", "pointwise", orr__formula_gelu, 2, 2},
    {"where", "pointwise", orr__formula_where, 0, 0},
    {"masked_fill", "pointwise", orr__formula_masked_fill, 0, 0},
    {"native_dropout", "pointwise", orr__formula_dropout, 0, 0},
    ELEMENTS("mul", 2, 1),
    ELEMENTS("div", 2, 1),
    ELEMENTS("maximum", 2, 1),
    ELEMENTS("minimum", 2, 1),
    ELEMENTS("bitwise_and", 2, 1),
    ELEMENTS("bitwise_or", 2, 1),
    ELEMENTS("bitwise_xor", 2, 1),
    ELEMENTS("addcmul", 3, 3),
    ELEMENTS("addcdiv", 3, 3),
    ELEMENTS("lerp", 3, 3),
    ELEMENTS("pow", 2, 1),
    ELEMENTS("relu", 1, 1),
    ELEMENTS("neg", 1, 1),
    ELEMENTS("abs", 1, 1),
    ELEMENTS("exp", 1, 1),
    ELEMENTS("exp2", 1, 1),
    ELEMENTS("expm1", 1, 1),
    ELEMENTS("log", 1, 1),
    ELEMENTS("log2", 1, 1),
    ELEMENTS("log1p", 1, 1),
    ELEMENTS("sqrt", 1, 1),
    ELEMENTS("rsqrt", 1, 2),
    ELEMENTS("reciprocal", 1, 1),
    ELEMENTS("sin", 1, 1),
    ELEMENTS("cos", 1, 1),
    ELEMENTS("tanh", 1, 1),
    ELEMENTS("erf", 1, 1),
    ELEMENTS("floor", 1, 1),
    ELEMENTS("ceil", 1, 1),
    ELEMENTS("round", 1, 1),
    ELEMENTS("square", 1, 1),
    ELEMENTS("sigmoid", 1, 4),
    ELEMENTS("silu", 1, 4),
    ELEMENTS("clamp", 1, 2),
    ELEMENTS("clamp_min", 1, 1),
    ELEMENTS("clamp_max", 1, 1),
    ELEMENTS("hardtanh", 1, 2),
    ELEMENTS("leaky_relu", 1, 2),
    ELEMENTS("bitwise_not", 1, 1),
    ELEMENTS("threshold_backward", 2, 1),
    ELEMENTS("silu_backward", 2, 9),
    ELEMENTS("sigmoid_backward", 2, 3),
    ELEMENTS("tanh_backward", 2, 3),
    ELEMENTS("native_dropout_backward", 2, 2),
    COMPARE("eq", 2),
    COMPARE("ne", 2),
    COMPARE("lt", 2),
    COMPARE("le", 2),
    COMPARE("gt", 2),
    COMPARE("ge", 2),
    COMPARE("logical_and", 2),
    COMPARE("logical_or", 2),
    COMPARE("logical_xor", 2),
    COMPARE("logical_not", 1),
    COMPARE("isnan", 1),
    COMPARE("isinf", 1),

    REDUCE("sum", ORR__REDUCE_SUM),
    REDUCE("mean", ORR__REDUCE_MEAN),
    REDUCE("amax", ORR__REDUCE_SAME),
    REDUCE("amin", ORR__REDUCE_SAME),
    REDUCE("any", ORR__REDUCE_BOOL),
    REDUCE("all", ORR__REDUCE_BOOL),
    REDUCE("argmax", ORR__REDUCE_INDEX),
    REDUCE("argmin", ORR__REDUCE_INDEX),
    REDUCE("max", ORR__REDUCE_BOTH),
    REDUCE("min", ORR__REDUCE_BOTH),
    {"cumsum", "reduction", orr__formula_scan, 0, 0},
    {"_softmax", "norm", orr__formula_softmax, 0, 0},
    {"_log_softmax", "norm", orr__formula_softmax, 0, 0},
    {"_softmax_backward_data", "norm", orr__formula_softmax_backward, 0, 0},
    {"_log_softmax_backward_data", "norm", orr__formula_softmax_backward, 0, 0},
    {"native_layer_norm", "norm", orr__formula_norm, 6, 2},
    {"_fused_rms_norm", "norm", orr__formula_norm, 3, 1},
    {"native_layer_norm_backward", "norm", orr__formula_norm_backward, 0, 0},
    {"native_batch_norm", "norm", orr__formula_batch_norm, 0, 0},
    {"cudnn_batch_norm", "norm", orr__formula_batch_norm, 0, 0},
    {"miopen_batch_norm", "norm", orr__formula_batch_norm, 0, 0},

    {"copy", "copy", orr__formula_copy, 0, 0},
    {"fill", "copy", orr__formula_fill, 0, 0},
    {"zero", "copy", orr__formula_fill, 0, 0},
    {"cat", "copy", orr__formula_cat, 0, 0},
    {"embedding", "gather", orr__formula_embedding, 0, 0},
    {"index_select", "gather", orr__formula_index_select, 0, 0},
    {"gather", "gather", orr__formula_gather, 0, 0},
};

/* "aten::add_" -> the formula of "add". */
static const struct orr__formula *formula_of(const char *name, bool *out_in_place) {
    static const char prefix[] = "aten::";
    *out_in_place = false;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return NULL;
    }
    name += sizeof prefix - 1;
    size_t length = strlen(name);
    *out_in_place = length > 1 && name[length - 1] == '_';
    length -= *out_in_place;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        if (strncmp(formulas[i].name, name, length) == 0 && formulas[i].name[length] == '\0') {
            return &formulas[i];
        }
    }
    return NULL;
}

static uint8_t first_dtype(const struct orr__inputs *inputs) {
    for (unsigned i = 0; i < inputs->count; i++) {
        if (inputs->items[i].kind != ORR__INPUT_VALUE) {
            return inputs->items[i].element.bytes ? inputs->items[i].element.dtype : ORR_DTYPE_NONE;
        }
    }
    return ORR_DTYPE_NONE;
}

void orr_imported_cost(const char *name, const char *inputs, struct orr_imported_cost *out_cost) {
    struct orr__inputs parsed;
    bool in_place;
    const struct orr__formula *formula = formula_of(name, &in_place);
    *out_cost = (struct orr_imported_cost){
        .why = "", .kind = formula ? formula->kind : "", .dtype = ORR_DTYPE_NONE};
    bool shaped = orr__inputs_parse(inputs, &parsed);
    if (shaped) {
        out_cost->dtype = first_dtype(&parsed);
    }
    if (!formula) {
        out_cost->why = "no formula for this operator";
    } else if (!shaped) {
        out_cost->why = "no shapes of its inputs are recorded";
    } else {
        struct orr__calculation c = {&parsed, formula, in_place, out_cost};
        out_cost->known = true;
        formula->add(&c);
    }
    if (!out_cost->known) {
        out_cost->flops = out_cost->bytes_read = 0;
        out_cost->bytes_written = out_cost->bytes_broadcast = 0;
    }
}
