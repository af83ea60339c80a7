/* Optimizers: a parameter's new value, and that of its state, from a gradient, in one kernel; and
 * the check that a gradient is finite.
 *
 *     sgd            param, grad    lr weight_decay=0:    g += weight_decay param;
 *                                   param -= lr g
 *     sgd_momentum   param, grad, momentum    lr momentum=0.9 weight_decay=0 nesterov=false:
 *                                   momentum = mu momentum + g;
 *                                   param -= lr (nesterov ? g + mu momentum : momentum)
 *     adamw          param, grad, mean, square    lr beta1=0.9 beta2=0.999 eps=1e-8
 *                                   weight_decay=0.01 step=1:
 *                                   mean = b1 mean + (1 - b1) g; square = b2 square + (1 - b2) g^2;
 *                                   param -= lr (weight_decay param + (mean / (1 - b1^step)) /
 *                                                (sqrt(square / (1 - b2^step)) + eps))
 *     adamw_master   master, grad, mean, square -> param in grad's dtype, master, mean, square: the
 *                    same on a master copy of the parameter, usually f32 under a bf16 parameter
 *     count_nonfinite    x -> how many elements are infinite or NaN, f32 [] (exact up to 2^24)
 *
 * Formulas: torch.optim.SGD and AdamW (Loshchilov and Hutter, "Decoupled weight decay
 * regularization", 2019), without their options that are not named here. The operands' dtypes are
 * floats of any kind: each result has its operand's. An element is computed in f64 if the parameter
 * is f64, else in f32, and each result is rounded once.
 *
 * An attribute is part of a captured program: a replay has the step and the learning rate of the
 * capture.
 *
 * Cost. FLOPs for each element, one for every operation of the formulas as written here, with
 * weight decay whatever its value: sgd 4, sgd_momentum 6 (8 with nesterov), adamw 15,
 * count_nonfinite 1. Bytes: each operand once, each result once. */
#include <inttypes.h>
#include <math.h>

#include "runtime/operators/operators_internal.h"

enum { PIECE = 256 }; /* elements converted at a time */
enum { OPERANDS_MAX = 4 };

/* A block of each operand in f64 or f32, overwritten by the results: param, [grad], state... */
struct block {
    int count;
    union {
        double f64[PIECE];
        float f32[PIECE];
    } values[OPERANDS_MAX];
};

typedef void (*update)(const struct orr_attributes *attributes, struct block *block);

/* ---- Formulas ---- */

enum { LR, SGD_DECAY };
enum { MOMENTUM_LR, MOMENTUM_MU, MOMENTUM_DECAY, MOMENTUM_NESTEROV };
enum { ADAM_LR, ADAM_BETA1, ADAM_BETA2, ADAM_EPS, ADAM_DECAY, ADAM_STEP };

#define UPDATES(suffix, type, root)                                                                \
    static void sgd_##suffix(const struct orr_attributes *attributes, struct block *block) {       \
        type lr = (type)attributes->values[LR].real;                                               \
        type decay = (type)attributes->values[SGD_DECAY].real;                                     \
        type *p = block->values[0].suffix, *g = block->values[1].suffix;                           \
        for (int i = 0; i < block->count; i++)                                                     \
            p[i] -= lr * (g[i] + decay * p[i]);                                                    \
    }                                                                                              \
    static void sgd_momentum_##suffix(const struct orr_attributes *attributes,                     \
                                      struct block *block) {                                       \
        type lr = (type)attributes->values[MOMENTUM_LR].real;                                      \
        type mu = (type)attributes->values[MOMENTUM_MU].real;                                      \
        type decay = (type)attributes->values[MOMENTUM_DECAY].real;                                \
        bool nesterov = attributes->values[MOMENTUM_NESTEROV].integer != 0;                        \
        type *p = block->values[0].suffix, *g = block->values[1].suffix;                           \
        type *m = block->values[2].suffix;                                                         \
        for (int i = 0; i < block->count; i++) {                                                   \
            type slope = g[i] + decay * p[i];                                                      \
            m[i] = mu * m[i] + slope;                                                              \
            p[i] -= lr * (nesterov ? slope + mu * m[i] : m[i]);                                    \
        }                                                                                          \
    }                                                                                              \
    static void adamw_##suffix(const struct orr_attributes *attributes, struct block *block) {     \
        const struct orr_attribute *values = attributes->values;                                   \
        double step = (double)values[ADAM_STEP].integer;                                           \
        double beta1 = values[ADAM_BETA1].real, beta2 = values[ADAM_BETA2].real;                   \
        type b1 = (type)beta1, b2 = (type)beta2, rest1 = (type)(1 - beta1);                        \
        type rest2 = (type)(1 - beta2), lr = (type)values[ADAM_LR].real;                           \
        type keep = (type)(1 - values[ADAM_LR].real * values[ADAM_DECAY].real);                    \
        type up1 = (type)(1 / (1 - pow(beta1, step))), up2 = (type)(1 / (1 - pow(beta2, step)));   \
        type eps = (type)values[ADAM_EPS].real;                                                    \
        type *p = block->values[0].suffix, *g = block->values[1].suffix;                           \
        type *m = block->values[2].suffix, *v = block->values[3].suffix;                           \
        for (int i = 0; i < block->count; i++) {                                                   \
            m[i] = b1 * m[i] + rest1 * g[i];                                                       \
            v[i] = b2 * v[i] + rest2 * (g[i] * g[i]);                                              \
            p[i] = keep * p[i] - lr * (m[i] * up1 / (root(v[i] * up2) + eps));                     \
        }                                                                                          \
    }
UPDATES(f32, float, sqrtf)
UPDATES(f64, double, sqrt)

/* ---- Rows ---- */

/* What the rows differ in. Result `of` is written from the block of operand results[of]. */
struct rule {
    const struct orr_operator *op;
    bool master; /* the first result is the parameter in grad's dtype, the second the master */
    update f32, f64;
};

static const int results_plain[] = {0, 2, 3}, results_master[] = {0, 0, 2, 3};

static const int *results_of(const struct rule *rule) {
    return rule->master ? results_master : results_plain;
}

static enum orr_status infer_update(const struct rule *rule, const struct orr_operand_info *inputs,
                                    int input_count, struct orr_operand_info *out_outputs,
                                    struct orr_error *error) {
    enum orr_status status = orr__check_operands(rule->op, inputs, input_count, ORR__FLOATS, error);
    if (status != ORR_OK)
        return status;
    for (int i = 1; i < input_count; i++)
        if (!orr_shape_equal(&inputs[i].shape, &inputs[0].shape))
            return orr__refuse(rule->op, inputs, input_count, error, "expected equal shapes");
    for (int i = 0; i < rule->op->outputs; i++)
        out_outputs[i] = inputs[rule->master && i == 0 ? 1 : results_of(rule)[i]];
    return ORR_OK;
}

static struct orr_cost cost_update(const struct rule *rule, const struct orr_operand_info *inputs,
                                   int input_count, const struct orr_operand_info *outputs,
                                   int flops) {
    struct orr_cost cost = {
        .flops = orr__times((uint64_t)orr_shape_count(&inputs[0].shape), (uint64_t)flops),
        .unit = ORR_UNIT_VECTOR};
    for (int i = 0; i < input_count; i++)
        cost.bytes_read += orr__bytes(&inputs[i]);
    for (int i = 0; i < rule->op->outputs; i++)
        cost.bytes_written += orr__bytes(&outputs[i]);
    return cost;
}

static void *at(const struct orr_tensor_view *view, int64_t index) {
    return (char *)view->data + (size_t)index * orr_dtype_size(view->dtype);
}

/* Results may be the memory of their own operands: a block is read before it is written. */
static enum orr_status compute_update(const struct rule *rule, const struct orr_tensor_view *inputs,
                                      int input_count, const struct orr_attributes *attributes,
                                      const struct orr_tensor_view *outputs) {
    int64_t total = orr_shape_count(&inputs[0].shape);
    enum orr_dtype compute = inputs[0].dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    for (int64_t first = 0; first < total; first += PIECE) {
        struct block block = {.count = (int)(total - first < PIECE ? total - first : PIECE)};
        for (int i = 0; i < input_count; i++)
            orr_dtype_convert(compute, &block.values[i], inputs[i].dtype, at(&inputs[i], first),
                              (size_t)block.count);
        (compute == ORR_DTYPE_F64 ? rule->f64 : rule->f32)(attributes, &block);
        for (int i = 0; i < rule->op->outputs; i++)
            orr_dtype_convert(outputs[i].dtype, at(&outputs[i], first), compute,
                              &block.values[results_of(rule)[i]], (size_t)block.count);
    }
    return ORR_OK;
}

static enum orr_status check_rate(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_error *error) {
    for (int i = 0; op->attributes[i].name; i++) {
        double value = attributes->values[i].real;
        if (op->attributes[i].kind == ORR_ATTRIBUTE_REAL && !(value >= 0))
            return orr__refuse(op, inputs, input_count, error, "%s is %g, expected 0 or more",
                               op->attributes[i].name, value);
    }
    int step = orr_operator_attribute(op, "step");
    if (step >= 0 && attributes->values[step].integer < 1)
        return orr__refuse(op, inputs, input_count, error,
                           "step is %" PRId64 ", expected 1 or more",
                           attributes->values[step].integer);
    return ORR_OK;
}

static const char *const update_names[] = {"param", "grad", "momentum"};
static const char *const adam_names[] = {"param", "grad", "mean", "square"};
static const char *const master_names[] = {"master", "grad", "mean", "square"};
static const struct orr_attribute_spec sgd_attributes[] = {
    [LR] = {.name = "lr", .kind = ORR_ATTRIBUTE_REAL, .required = true},
    [SGD_DECAY] = {.name = "weight_decay", .kind = ORR_ATTRIBUTE_REAL},
    {.name = NULL},
};
static const struct orr_attribute_spec momentum_attributes[] = {
    [MOMENTUM_LR] = {.name = "lr", .kind = ORR_ATTRIBUTE_REAL, .required = true},
    [MOMENTUM_MU] = {.name = "momentum", .kind = ORR_ATTRIBUTE_REAL, .real = 0.9},
    [MOMENTUM_DECAY] = {.name = "weight_decay", .kind = ORR_ATTRIBUTE_REAL},
    [MOMENTUM_NESTEROV] = {.name = "nesterov", .kind = ORR_ATTRIBUTE_BOOL},
    {.name = NULL},
};
static const struct orr_attribute_spec adam_attributes[] = {
    [ADAM_LR] = {.name = "lr", .kind = ORR_ATTRIBUTE_REAL, .required = true},
    [ADAM_BETA1] = {.name = "beta1", .kind = ORR_ATTRIBUTE_REAL, .real = 0.9},
    [ADAM_BETA2] = {.name = "beta2", .kind = ORR_ATTRIBUTE_REAL, .real = 0.999},
    [ADAM_EPS] = {.name = "eps", .kind = ORR_ATTRIBUTE_REAL, .real = 1e-8},
    [ADAM_DECAY] = {.name = "weight_decay", .kind = ORR_ATTRIBUTE_REAL, .real = 0.01},
    [ADAM_STEP] = {.name = "step", .kind = ORR_ATTRIBUTE_INT, .integer = 1},
    {.name = NULL},
};

#define UPDATE(id, formula, operands, results, names, attribute_list, flop_count, is_master)       \
    static const struct rule rule_##id = {.op = &orr__operator_##id,                               \
                                          .master = is_master,                                     \
                                          .f32 = formula##_f32,                                    \
                                          .f64 = formula##_f64};                                   \
    static enum orr_status infer_##id(const struct orr_operand_info *inputs, int input_count,      \
                                      const struct orr_attributes *attributes,                     \
                                      struct orr_operand_info *out_outputs,                        \
                                      struct orr_error *error) {                                   \
        enum orr_status status =                                                                   \
            infer_update(&rule_##id, inputs, input_count, out_outputs, error);                     \
        return status != ORR_OK                                                                    \
                   ? status                                                                        \
                   : check_rate(&orr__operator_##id, inputs, input_count, attributes, error);      \
    }                                                                                              \
    static struct orr_cost cost_##id(const struct orr_operand_info *inputs, int input_count,       \
                                     const struct orr_attributes *attributes,                      \
                                     const struct orr_operand_info *outputs) {                     \
        (void)attributes;                                                                          \
        return cost_update(&rule_##id, inputs, input_count, outputs, flop_count);                  \
    }                                                                                              \
    static enum orr_status compute_##id(                                                           \
        const struct orr_tensor_view *inputs, int input_count,                                     \
        const struct orr_attributes *attributes, const struct orr_tensor_view *outputs,            \
        const struct orr_memory *memory, struct orr_error *error) {                                \
        (void)memory;                                                                              \
        (void)error;                                                                               \
        return compute_update(&rule_##id, inputs, input_count, attributes, outputs);               \
    }                                                                                              \
    const struct orr_operator orr__operator_##id = {                                               \
        .name = #id,                                                                               \
        .class = ORR_OPERATOR_UPDATE,                                                              \
        .inputs_min = operands,                                                                    \
        .inputs_max = operands,                                                                    \
        .outputs = results,                                                                        \
        .input_names = names,                                                                      \
        .attributes = attribute_list,                                                              \
        .infer = infer_##id,                                                                       \
        .cost = cost_##id,                                                                         \
        .compute = compute_##id,                                                                   \
    };

UPDATE(sgd, sgd, 2, 1, update_names, sgd_attributes, 4, false)
UPDATE(sgd_momentum, sgd_momentum, 3, 2, update_names, momentum_attributes,
       attributes->values[MOMENTUM_NESTEROV].integer ? 8 : 6, false)
UPDATE(adamw, adamw, 4, 3, adam_names, adam_attributes, 15, false)
UPDATE(adamw_master, adamw, 4, 4, master_names, adam_attributes, 15, true)

/* ---- count_nonfinite ---- */

static enum orr_status infer_count(const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    enum orr_status status = orr__check_operands(&orr__operator_count_nonfinite, inputs,
                                                 input_count, ORR__FLOATS, error);
    if (status == ORR_OK)
        out_outputs[0] = (struct orr_operand_info){.dtype = ORR_DTYPE_F32};
    return status;
}

static enum orr_status compute_count(const struct orr_tensor_view *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_tensor_view *outputs,
                                     const struct orr_memory *memory, struct orr_error *error) {
    (void)input_count;
    (void)attributes;
    (void)memory;
    (void)error;
    int64_t total = orr_shape_count(&inputs[0].shape), found = 0;
    for (int64_t first = 0; first < total; first += PIECE) {
        double values[PIECE];
        int64_t count = total - first < PIECE ? total - first : PIECE;
        orr_dtype_convert(ORR_DTYPE_F64, values, inputs[0].dtype, at(&inputs[0], first),
                          (size_t)count);
        for (int64_t i = 0; i < count; i++)
            found += !isfinite(values[i]);
    }
    orr_dtype_store(outputs[0].dtype, outputs[0].data, 0, (double)found);
    return ORR_OK;
}

static const char *const count_names[] = {"x"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};

const struct orr_operator orr__operator_count_nonfinite = {
    .name = "count_nonfinite",
    .class = ORR_OPERATOR_REDUCTION,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = count_names,
    .attributes = no_attributes,
    .infer = infer_count,
    .cost = orr__cost_reduce,
    .compute = compute_count,
};
