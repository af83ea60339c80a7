/* Mixtures of experts: tokens to the slots of their experts, and back.
 *
 *     x [b, s, h], in gb x gs groups           moe_dispatch -> [experts, gb, gs, capacity, h]
 *     +---------+---------+                         | e0: slot 0, 1, .. of each group
 *     | group   | group   |   indices [b, s, k]     | e1: ...
 *     | (0, 0)  | (0, 1)  |                      moe_combine -> [b, s, h]
 *     +---------+---------+
 *
 * Within a group, in the order of tokens (rows of b, then of s) and of a token's k experts, the
 * j-th one that is for expert e takes slot j of e. Beyond the capacity it is dropped; slots that
 * nobody takes are 0 (Lepikhin et al., "GShard", 2020, algorithm 1; Fedus et al., "Switch
 * Transformers", 2021, section 2.2). Groups are independent of each other, so each rank can route
 * its own tokens.
 *
 *     moe_dispatch    x, indices, [weights [b, s, k]]    experts capacity groups=[1, 1]: a slot is
 *                     its token's row, times its weight
 *     moe_combine     y [experts, gb, gs, capacity, h], indices, [weights]: a token is the sum of
 *                     its slots' rows, times their weights; 0 for what was dropped
 *     moe_dot         x, y, indices -> [b, s, k]: products of a token's row and its slots' rows, 0
 *                     for what was dropped
 *     moe_load        indices [...] -> [experts] f32    experts: how often each was chosen
 *
 * Each is the gradient of another: that of dispatch is a combine, that of combine a dispatch, and
 * that of weights moe_dot. Sums are taken in f64, over k in order, and rounded once.
 *
 * Cost. What the indices select is counted as the most that can be: a pair of token and expert
 * moves one row unless there are fewer slots. Finding the slots (a scan over the indices) is left
 * out.
 *   moe_dispatch: no FLOPs (with weights one for each element moved); reads the moved rows and the
 *   indices, writes all slots, also empty ones.
 *   moe_combine: an addition for each element moved, and with weights a multiplication; reads the
 *   moved rows, the indices and weights, writes the result.
 *   moe_dot: a multiplication and an addition for each element moved; reads x and the moved rows.
 *   moe_load: an addition for each index. */
#include <inttypes.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"

/* Shapes of a routing, of one rank. */
struct routing {
    int64_t b, s, k, h; /* tokens, experts of each, width */
    int64_t experts, gb, gs, capacity;
};

static int64_t pairs_of(const struct routing *routing) {
    return routing->b * routing->s * routing->k;
}

/* Operands `x` (or NULL) [b, s, h], `y` (or NULL) and `indices` [b, s, k] have the right ranks and
 * fit together; fills b, s, k and, from y, the slots and h. */
static enum orr_status read_shapes(const struct orr_operator *op,
                                   const struct orr_operand_info *inputs, int input_count,
                                   const struct orr_shape *x, const struct orr_shape *y,
                                   const struct orr_operand_info *indices, struct routing *routing,
                                   struct orr_error *error) {
    if (!orr__is_index(indices->dtype) || indices->shape.rank != 3)
        return orr__refuse(op, inputs, input_count, error,
                           "expected indices [b, s, k] of i32 or i64");
    const int64_t *dims = indices->shape.dims;
    *routing = (struct routing){.b = dims[0], .s = dims[1], .k = dims[2]};
    if (x && (x->rank != 3 || x->dims[0] != dims[0] || x->dims[1] != dims[1]))
        return orr__refuse(op, inputs, input_count, error,
                           "expected %s [b, s, h] and indices [b, s, k]", op->input_names[0]);
    routing->h = x ? x->dims[2] : 0;
    if (!y)
        return ORR_OK;
    if (y->rank != 5 || (x && y->dims[4] != x->dims[2]))
        return orr__refuse(op, inputs, input_count, error,
                           "expected y [experts, gb, gs, capacity, h]");
    routing->experts = y->dims[0];
    routing->gb = y->dims[1];
    routing->gs = y->dims[2];
    routing->capacity = y->dims[3];
    routing->h = y->dims[4];
    return ORR_OK;
}

/* Floats of one dtype, but for the indices, which are operand `at`. */
static enum orr_status check_dtypes(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count, int at,
                                    struct orr_error *error) {
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__ANY, error);
    for (int i = 0; status == ORR_OK && i < input_count; i++)
        if (i != at && (!orr_dtype_is_float(inputs[i].dtype) || inputs[i].dtype != inputs[0].dtype))
            status = orr__refuse(op, inputs, input_count, error,
                                 "expected operands of one dtype, floats, and indices");
    return status;
}

static enum orr_status check_weights(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs, int input_count,
                                     struct orr_error *error) {
    if (input_count < 3 || orr_shape_equal(&inputs[1].shape, &inputs[2].shape))
        return ORR_OK;
    return orr__refuse(op, inputs, input_count, error, "expected weights of the indices' shape");
}

static enum orr_status check_groups(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count,
                                    const struct routing *routing, struct orr_error *error) {
    const int64_t tokens[2] = {routing->b, routing->s}, groups[2] = {routing->gb, routing->gs};
    for (int i = 0; i < 2; i++)
        if (groups[i] < 0 || (groups[i] == 0 ? tokens[i] != 0 : tokens[i] % groups[i] != 0))
            return orr__refuse(op, inputs, input_count, error,
                               "%" PRId64 " tokens along dimension %d are not %" PRId64
                               " equal groups",
                               tokens[i], i, groups[i]);
    return ORR_OK;
}

/* Where each pair of token and expert goes: a row of [experts, gb, gs, capacity], or -1 if it is
 * dropped. `counts` has room for the experts. */
static enum orr_status find_slots(const struct orr_operator *op,
                                  const struct orr_tensor_view *inputs, int input_count,
                                  const struct orr_tensor_view *indices,
                                  const struct routing *routing, int64_t *counts, int64_t *slots,
                                  struct orr_error *error) {
    int64_t rows = routing->gb ? routing->b / routing->gb : 0;
    int64_t columns = routing->gs ? routing->s / routing->gs : 0;
    for (int64_t group = 0; group < routing->gb * routing->gs; group++) {
        int64_t first_row = group / routing->gs * rows, first = group % routing->gs * columns;
        memset(counts, 0, (size_t)routing->experts * sizeof *counts);
        for (int64_t i = 0; i < rows * columns * routing->k; i++) {
            int64_t token = (first_row + i / routing->k / columns) * routing->s + first +
                            i / routing->k % columns;
            int64_t pair = token * routing->k + i % routing->k;
            int64_t expert = orr__load_index(indices, pair);
            if (expert < 0 || expert >= routing->experts) {
                struct orr_operand_info infos[ORR_INPUTS_MAX];
                for (int k = 0; k < input_count; k++)
                    infos[k] = orr__info(&inputs[k]);
                return orr__refuse(op, infos, input_count, error,
                                   "index %" PRId64 " at position %" PRId64
                                   " is not an expert, expected 0 to %" PRId64,
                                   expert, pair, routing->experts - 1);
            }
            int64_t slot = counts[expert]++;
            int64_t row = (expert * routing->gb * routing->gs + group) * routing->capacity + slot;
            slots[pair] = slot < routing->capacity ? row : -1;
        }
    }
    return ORR_OK;
}

/* Slots of all pairs, and `rows` rows of f64 behind them; freed by the caller. */
struct routed {
    int64_t *slots;
    double *scratch;
};

static enum orr_status route(const struct orr_operator *op, const struct orr_tensor_view *inputs,
                             int input_count, const struct orr_tensor_view *indices,
                             const struct routing *routing, int64_t rows,
                             const struct orr_memory *memory, struct routed *out,
                             struct orr_error *error) {
    int64_t pairs = pairs_of(routing);
    size_t bytes = (size_t)(pairs + routing->experts + rows * routing->h + 1) * sizeof(int64_t);
    out->slots = orr_memory_resize(memory, NULL, bytes);
    if (!out->slots)
        return orr__no_scratch(op, bytes, error);
    int64_t *counts = out->slots + pairs;
    out->scratch = (double *)(void *)(counts + routing->experts);
    enum orr_status status =
        find_slots(op, inputs, input_count, indices, routing, counts, out->slots, error);
    if (status != ORR_OK)
        orr_memory_free(memory, out->slots);
    return status;
}

static void load_row(const struct orr_tensor_view *view, int64_t row, int64_t width, double *to) {
    size_t at = (size_t)(row * width) * orr_dtype_size(view->dtype);
    orr_dtype_convert(ORR_DTYPE_F64, to, view->dtype, (const char *)view->data + at, (size_t)width);
}

static void store_row(const struct orr_tensor_view *view, int64_t row, int64_t width,
                      const double *from) {
    size_t at = (size_t)(row * width) * orr_dtype_size(view->dtype);
    orr_dtype_convert(view->dtype, (char *)view->data + at, ORR_DTYPE_F64, from, (size_t)width);
}

static double weight_of(const struct orr_tensor_view *inputs, int input_count, int64_t pair) {
    return input_count < 3 ? 1 : orr_dtype_load(inputs[2].dtype, inputs[2].data, (size_t)pair);
}

/* Elements that move between tokens and slots, at most. */
static uint64_t moved(const struct routing *routing) {
    uint64_t pairs = (uint64_t)pairs_of(routing);
    uint64_t slots =
        orr__times(orr__times((uint64_t)routing->experts, (uint64_t)(routing->gb * routing->gs)),
                   (uint64_t)routing->capacity);
    return orr__times(pairs < slots ? pairs : slots, (uint64_t)routing->h);
}

/* ---- moe_dispatch ---- */

enum { DISPATCH_EXPERTS, DISPATCH_CAPACITY, DISPATCH_GROUPS, DISPATCH_WHOLE };

/* Groups of this rank along dimension `dim`: as many of the whole's as it has whole ones. */
static int64_t groups_here(const struct orr_attributes *attributes, int dim, int64_t tokens) {
    const struct orr_shape *groups = &attributes->values[DISPATCH_GROUPS].shape;
    const struct orr_shape *whole = &attributes->values[DISPATCH_WHOLE].shape;
    int64_t all = groups->rank == 0 ? 1 : groups->dims[dim];
    if (whole->rank == 0 || whole->dims[dim] == tokens || all <= 0)
        return all;
    int64_t each = whole->dims[dim] / all; /* more than 0: the whole has more than `tokens` */
    return each > 0 && tokens % each == 0 ? tokens / each : -1;
}

static void dispatch_slots(const struct orr_attributes *attributes, struct routing *routing) {
    routing->experts = attributes->values[DISPATCH_EXPERTS].integer;
    routing->capacity = attributes->values[DISPATCH_CAPACITY].integer;
    routing->gb = groups_here(attributes, 0, routing->b);
    routing->gs = groups_here(attributes, 1, routing->s);
}

static enum orr_status infer_dispatch(const struct orr_operand_info *inputs, int input_count,
                                      const struct orr_attributes *attributes,
                                      struct orr_operand_info *out_outputs,
                                      struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_moe_dispatch;
    struct routing routing;
    enum orr_status status = check_dtypes(op, inputs, input_count, 1, error);
    if (status == ORR_OK)
        status = read_shapes(op, inputs, input_count, &inputs[0].shape, NULL, &inputs[1], &routing,
                             error);
    if (status == ORR_OK)
        status = check_weights(op, inputs, input_count, error);
    if (status != ORR_OK)
        return status;
    int groups = attributes->values[DISPATCH_GROUPS].shape.rank;
    if (groups != 0 && groups != 2)
        return orr__refuse(op, inputs, input_count, error, "groups has %d entries, expected 2",
                           groups);
    dispatch_slots(attributes, &routing);
    if (routing.experts < 1 || routing.capacity < 1)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " experts of capacity %" PRId64 ", expected 1 or more",
                           routing.experts, routing.capacity);
    status = check_groups(op, inputs, input_count, &routing, error);
    if (status != ORR_OK)
        return status;
    struct orr_operand_info result = {
        .dtype = inputs[0].dtype,
        .shape = orr_shape_of(
            5, (int64_t[]){routing.experts, routing.gb, routing.gs, routing.capacity, routing.h})};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct routing dispatch_routing(const struct orr_shape *x, const struct orr_shape *indices,
                                       const struct orr_attributes *attributes) {
    struct routing routing = {
        .b = x->dims[0], .s = x->dims[1], .k = indices->dims[2], .h = x->dims[2]};
    dispatch_slots(attributes, &routing);
    return routing;
}

static struct orr_cost cost_dispatch(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     const struct orr_operand_info *outputs) {
    struct routing routing = dispatch_routing(&inputs[0].shape, &inputs[1].shape, attributes);
    uint64_t elements = moved(&routing);
    struct orr_cost cost = {
        .flops = input_count > 2 ? elements : 0,
        .bytes_read = orr__times(elements, orr_dtype_size(inputs[0].dtype)),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 1; i < input_count; i++)
        cost.bytes_read += orr__bytes(&inputs[i]);
    return cost;
}

static enum orr_status compute_dispatch(const struct orr_tensor_view *inputs, int input_count,
                                        const struct orr_attributes *attributes,
                                        const struct orr_tensor_view *outputs,
                                        const struct orr_memory *memory, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_moe_dispatch;
    struct routing routing = dispatch_routing(&inputs[0].shape, &inputs[1].shape, attributes);
    struct routed routed;
    memset(outputs[0].data, 0,
           (size_t)orr_shape_count(&outputs[0].shape) * orr_dtype_size(outputs[0].dtype));
    enum orr_status status =
        route(op, inputs, input_count, &inputs[1], &routing, 1, memory, &routed, error);
    if (status != ORR_OK)
        return status;
    for (int64_t pair = 0; pair < pairs_of(&routing); pair++) {
        if (routed.slots[pair] < 0)
            continue;
        double weight = weight_of(inputs, input_count, pair);
        load_row(&inputs[0], pair / routing.k, routing.h, routed.scratch);
        for (int64_t i = 0; weight != 1 && i < routing.h; i++)
            routed.scratch[i] *= weight;
        store_row(&outputs[0], routed.slots[pair], routing.h, routed.scratch);
    }
    orr_memory_free(memory, routed.slots);
    return ORR_OK;
}

static const char *const dispatch_names[] = {"x", "indices", "weights"};
static const struct orr_attribute_spec dispatch_attributes[] = {
    [DISPATCH_EXPERTS] = {.name = "experts", .kind = ORR_ATTRIBUTE_INT, .required = true},
    [DISPATCH_CAPACITY] = {.name = "capacity", .kind = ORR_ATTRIBUTE_INT, .required = true},
    [DISPATCH_GROUPS] = {.name = "groups", .kind = ORR_ATTRIBUTE_SHAPE},
    [DISPATCH_WHOLE] = {.name = "whole",
                        .kind = ORR_ATTRIBUTE_SHAPE,
                        .local = ORR_LOCAL_WHOLE,
                        .of = 1},
    {.name = NULL},
};

const struct orr_operator orr__operator_moe_dispatch = {
    .name = "moe_dispatch",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 2,
    .inputs_max = 3,
    .outputs = 1,
    .input_names = dispatch_names,
    .attributes = dispatch_attributes,
    .infer = infer_dispatch,
    .cost = cost_dispatch,
    .compute = compute_dispatch,
};

/* ---- moe_combine ---- */

static struct routing slots_routing(const struct orr_shape *y, const struct orr_shape *indices) {
    return (struct routing){.b = indices->dims[0],
                            .s = indices->dims[1],
                            .k = indices->dims[2],
                            .experts = y->dims[0],
                            .gb = y->dims[1],
                            .gs = y->dims[2],
                            .capacity = y->dims[3],
                            .h = y->dims[4]};
}

static enum orr_status infer_combine(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_attributes *attributes,
                                     struct orr_operand_info *out_outputs,
                                     struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_moe_combine;
    struct routing routing;
    enum orr_status status = check_dtypes(op, inputs, input_count, 1, error);
    if (status == ORR_OK)
        status = read_shapes(op, inputs, input_count, NULL, &inputs[0].shape, &inputs[1], &routing,
                             error);
    if (status == ORR_OK)
        status = check_weights(op, inputs, input_count, error);
    if (status == ORR_OK)
        status = check_groups(op, inputs, input_count, &routing, error);
    if (status != ORR_OK)
        return status;
    struct orr_operand_info result = {
        .dtype = inputs[0].dtype,
        .shape = orr_shape_of(3, (int64_t[]){routing.b, routing.s, routing.h})};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static struct orr_cost cost_combine(const struct orr_operand_info *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_operand_info *outputs) {
    (void)attributes;
    struct routing routing = slots_routing(&inputs[0].shape, &inputs[1].shape);
    uint64_t elements = moved(&routing);
    struct orr_cost cost = {
        .flops = orr__times(input_count > 2 ? 2 : 1, elements),
        .bytes_read = orr__times(elements, orr_dtype_size(inputs[0].dtype)),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
    for (int i = 1; i < input_count; i++)
        cost.bytes_read += orr__bytes(&inputs[i]);
    return cost;
}

static enum orr_status compute_combine(const struct orr_tensor_view *inputs, int input_count,
                                       const struct orr_attributes *attributes,
                                       const struct orr_tensor_view *outputs,
                                       const struct orr_memory *memory, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_moe_combine;
    struct routing routing = slots_routing(&inputs[0].shape, &inputs[1].shape);
    struct routed routed;
    enum orr_status status =
        route(op, inputs, input_count, &inputs[1], &routing, 2, memory, &routed, error);
    if (status != ORR_OK)
        return status;
    double *sum = routed.scratch, *row = sum + routing.h;
    for (int64_t token = 0; token < routing.b * routing.s; token++) {
        memset(sum, 0, (size_t)routing.h * sizeof *sum);
        for (int64_t pair = token * routing.k; pair < (token + 1) * routing.k; pair++) {
            if (routed.slots[pair] < 0)
                continue;
            double weight = weight_of(inputs, input_count, pair);
            load_row(&inputs[0], routed.slots[pair], routing.h, row);
            for (int64_t i = 0; i < routing.h; i++)
                sum[i] += weight * row[i];
        }
        store_row(&outputs[0], token, routing.h, sum);
    }
    orr_memory_free(memory, routed.slots);
    return ORR_OK;
}

static const char *const combine_names[] = {"y", "indices", "weights"};
static const struct orr_attribute_spec no_attributes[] = {{.name = NULL}};

const struct orr_operator orr__operator_moe_combine = {
    .name = "moe_combine",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 2,
    .inputs_max = 3,
    .outputs = 1,
    .input_names = combine_names,
    .attributes = no_attributes,
    .infer = infer_combine,
    .cost = cost_combine,
    .compute = compute_combine,
};

/* ---- moe_dot ---- */

static enum orr_status infer_dot(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 struct orr_operand_info *out_outputs, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_moe_dot;
    struct routing routing;
    enum orr_status status = check_dtypes(op, inputs, input_count, 2, error);
    if (status == ORR_OK)
        status = read_shapes(op, inputs, input_count, &inputs[0].shape, &inputs[1].shape,
                             &inputs[2], &routing, error);
    if (status == ORR_OK)
        status = check_groups(op, inputs, input_count, &routing, error);
    if (status == ORR_OK)
        out_outputs[0] =
            (struct orr_operand_info){.dtype = inputs[0].dtype, .shape = inputs[2].shape};
    return status;
}

static struct orr_cost cost_dot(const struct orr_operand_info *inputs, int input_count,
                                const struct orr_attributes *attributes,
                                const struct orr_operand_info *outputs) {
    (void)input_count;
    (void)attributes;
    struct routing routing = slots_routing(&inputs[1].shape, &inputs[2].shape);
    uint64_t elements = moved(&routing);
    return (struct orr_cost){
        .flops = orr__times(2, elements),
        .bytes_read = orr__bytes(&inputs[0]) + orr__bytes(&inputs[2]) +
                      orr__times(elements, orr_dtype_size(inputs[1].dtype)),
        .bytes_written = orr__bytes(&outputs[0]),
        .unit = ORR_UNIT_VECTOR,
    };
}

static enum orr_status compute_dot(const struct orr_tensor_view *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_tensor_view *outputs,
                                   const struct orr_memory *memory, struct orr_error *error) {
    (void)attributes;
    const struct orr_operator *op = &orr__operator_moe_dot;
    struct routing routing = slots_routing(&inputs[1].shape, &inputs[2].shape);
    struct routed routed;
    enum orr_status status =
        route(op, inputs, input_count, &inputs[2], &routing, 2, memory, &routed, error);
    if (status != ORR_OK)
        return status;
    double *x = routed.scratch, *y = x + routing.h;
    for (int64_t pair = 0; pair < pairs_of(&routing); pair++) {
        double sum = 0;
        if (routed.slots[pair] >= 0) {
            load_row(&inputs[0], pair / routing.k, routing.h, x);
            load_row(&inputs[1], routed.slots[pair], routing.h, y);
            for (int64_t i = 0; i < routing.h; i++)
                sum += x[i] * y[i];
        }
        orr_dtype_store(outputs[0].dtype, outputs[0].data, (size_t)pair, sum);
    }
    orr_memory_free(memory, routed.slots);
    return ORR_OK;
}

static const char *const dot_names[] = {"x", "y", "indices"};

const struct orr_operator orr__operator_moe_dot = {
    .name = "moe_dot",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 3,
    .inputs_max = 3,
    .outputs = 1,
    .input_names = dot_names,
    .attributes = no_attributes,
    .infer = infer_dot,
    .cost = cost_dot,
    .compute = compute_dot,
};

/* ---- moe_load ---- */

static enum orr_status infer_load(const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_attributes *attributes,
                                  struct orr_operand_info *out_outputs, struct orr_error *error) {
    const struct orr_operator *op = &orr__operator_moe_load;
    int64_t experts = attributes->values[0].integer;
    enum orr_status status = orr__check_operands(op, inputs, input_count, ORR__INTEGERS, error);
    if (status != ORR_OK)
        return status;
    if (experts < 1)
        return orr__refuse(op, inputs, input_count, error,
                           "%" PRId64 " experts, expected 1 or more", experts);
    struct orr_operand_info result = {.dtype = ORR_DTYPE_F32, .shape = orr_shape_of(1, &experts)};
    status = orr__check_result(op, inputs, input_count, &result, error);
    if (status == ORR_OK)
        out_outputs[0] = result;
    return status;
}

static enum orr_status compute_load(const struct orr_tensor_view *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_tensor_view *outputs,
                                    const struct orr_memory *memory, struct orr_error *error) {
    (void)memory;
    int64_t experts = attributes->values[0].integer, count = orr_shape_count(&inputs[0].shape);
    float *load = outputs[0].data;
    memset(load, 0, (size_t)experts * sizeof *load);
    for (int64_t i = 0; i < count; i++) {
        int64_t expert = orr__load_index(&inputs[0], i);
        if (expert < 0 || expert >= experts) {
            struct orr_operand_info info = orr__info(&inputs[0]);
            return orr__refuse(&orr__operator_moe_load, &info, input_count, error,
                               "index %" PRId64 " at position %" PRId64
                               " is not an expert, expected 0 to %" PRId64,
                               expert, i, experts - 1);
        }
        load[expert] += 1;
    }
    return ORR_OK;
}

static const char *const load_names[] = {"indices"};
static const struct orr_attribute_spec load_attributes[] = {
    {.name = "experts", .kind = ORR_ATTRIBUTE_INT, .required = true},
    {.name = NULL},
};

const struct orr_operator orr__operator_moe_load = {
    .name = "moe_load",
    .class = ORR_OPERATOR_GATHER,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .input_names = load_names,
    .attributes = load_attributes,
    .infer = infer_load,
    .cost = orr__cost_reduce,
    .compute = compute_load,
};
