/* Launchers of moe_dispatch, moe_combine, moe_dot and moe_load: pairs of a token and an expert are
 * sorted by expert and group, and then have their slots. */
#include "runtime/cuda/launch_order.h"
#include "runtime/cuda/launch_rows.h"

/* Shapes of a routing: tokens [b, s] with k experts each, slots [experts, gb, gs, capacity]. */
struct routing {
    int64_t b, s, k, h;
    int64_t experts, gb, gs, capacity;
    int64_t pairs, keys;
};

static struct routing routing_of(const struct orr_shape *slots, const struct orr_shape *indices) {
    const int64_t *y = slots->dims, *tokens = indices->dims;
    return (struct routing){
        .b = tokens[0],
        .s = tokens[1],
        .k = tokens[2],
        .h = y[4],
        .experts = y[0],
        .gb = y[1],
        .gs = y[2],
        .capacity = y[3],
        .pairs = tokens[0] * tokens[1] * tokens[2],
        .keys = y[0] * y[1] * y[2],
    };
}

/* Pairs in the order in which they take slots, in scratch memory; there is room for the slots of
 * pairs, too, at `out_slots` if it is asked for. */
static enum orr_status order_pairs(struct orr__cuda_queue *queue,
                                   const struct orr_tensor_view *indices,
                                   const struct routing *routing, struct orr__cuda_order *order,
                                   int64_t **out_slots, struct orr_error *error) {
    uint64_t pair_bytes = (uint64_t)routing->pairs * sizeof(int64_t);
    uint64_t order_bytes = orr__cuda_order_bytes(routing->pairs, routing->keys);
    void *scratch;
    enum orr_status status =
        orr__cuda_scratch(queue, 2 * pair_bytes + order_bytes, &scratch, error);
    if (status != ORR_OK)
        return status;
    struct orr__k_expert_keys a = {
        .indices = indices->data,
        .keys = scratch,
        .fault = queue->fault,
        .pairs = routing->pairs,
        .k = routing->k,
        .s = routing->s,
        .group_rows = routing->gb ? routing->b / routing->gb : 0,
        .group_columns = routing->gs ? routing->s / routing->gs : 0,
        .experts = routing->experts,
        .gb = routing->gb,
        .gs = routing->gs,
        .index_dtype = (int)indices->dtype,
    };
    status = orr__cuda_launch_each(queue, ORR__K_expert_keys, routing->pairs, &a, error);
    if (status != ORR_OK)
        return status;
    *order = (struct orr__cuda_order){
        .indices = a.keys,
        .index_dtype = ORR_DTYPE_I64,
        .count = routing->pairs,
        .bound = routing->keys + 1, /* the last one is that of an index out of range */
        .keys = routing->keys,
    };
    if (out_slots)
        *out_slots = a.keys + routing->pairs;
    return orr__cuda_order(queue, order, a.keys + 2 * routing->pairs, error);
}

/* The slots of all pairs, in scratch memory. */
static enum orr_status find_slots(struct orr__cuda_queue *queue,
                                  const struct orr_tensor_view *indices,
                                  const struct routing *routing, const int64_t **out_slots,
                                  struct orr_error *error) {
    struct orr__cuda_order order;
    int64_t *slots = NULL;
    enum orr_status status = order_pairs(queue, indices, routing, &order, &slots, error);
    *out_slots = slots;
    if (status != ORR_OK)
        return status;
    struct orr__k_expert_slots a = {
        .keys = order.sorted,
        .order = order.order,
        .starts = order.starts,
        .slots = slots,
        .pairs = routing->pairs,
        .capacity = routing->capacity,
        .key_count = routing->keys,
    };
    return orr__cuda_launch_each(queue, ORR__K_expert_slots, routing->pairs, &a, error);
}

static enum orr_status launch_dispatch(struct orr__cuda_queue *queue,
                                       const struct orr_task_operator *call,
                                       struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *indices = &call->inputs[1];
    struct routing routing = routing_of(&call->outputs[0].shape, &indices->shape);
    struct orr__cuda_order order;
    enum orr_status status = order_pairs(queue, indices, &routing, &order, NULL, error);
    if (status != ORR_OK)
        return status;
    struct orr__k_expert_dispatch a = {
        .x = x->data,
        .weights = orr__cuda_optional(call, 2),
        .order = order.order,
        .starts = order.starts,
        .to = call->outputs[0].data,
        .slots = routing.keys * routing.capacity,
        .capacity = routing.capacity,
        .k = routing.k,
        .h = routing.h,
        .dtype = (int)x->dtype,
    };
    return orr__cuda_launch_rows(queue, ORR__K_expert_dispatch, a.slots, a.h, &a, error);
}

static enum orr_status launch_combine(struct orr__cuda_queue *queue,
                                      const struct orr_task_operator *call,
                                      struct orr_error *error) {
    const struct orr_tensor_view *y = &call->inputs[0], *indices = &call->inputs[1];
    struct routing routing = routing_of(&y->shape, &indices->shape);
    struct orr__k_expert_combine a = {
        .y = y->data,
        .weights = orr__cuda_optional(call, 2),
        .to = call->outputs[0].data,
        .tokens = routing.b * routing.s,
        .k = routing.k,
        .h = routing.h,
        .dtype = (int)y->dtype,
    };
    enum orr_status status = find_slots(queue, indices, &routing, &a.slots, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch_rows(queue, ORR__K_expert_combine, a.tokens, a.h, &a, error);
}

static enum orr_status launch_dot(struct orr__cuda_queue *queue,
                                  const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->inputs[1];
    const struct orr_tensor_view *indices = &call->inputs[2];
    struct routing routing = routing_of(&y->shape, &indices->shape);
    struct orr__k_expert_dot a = {
        .x = x->data,
        .y = y->data,
        .to = call->outputs[0].data,
        .pairs = routing.pairs,
        .k = routing.k,
        .h = routing.h,
        .dtype = (int)x->dtype,
    };
    enum orr_status status = find_slots(queue, indices, &routing, &a.slots, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch_rows(queue, ORR__K_expert_dot, a.pairs, a.h, &a, error);
}

static enum orr_status launch_load(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *indices = &call->inputs[0];
    struct orr__k_expert_load a = {
        .indices = indices->data,
        .load = call->outputs[0].data,
        .fault = queue->fault,
        .count = orr_shape_count(&indices->shape),
        .experts = orr__cuda_integer(call, "experts"),
        .index_dtype = (int)indices->dtype,
    };
    return orr__cuda_launch_rows(queue, ORR__K_expert_load, a.experts, a.count, &a, error);
}

const struct orr__cuda_operator orr__cuda_expert_operators[] = {
    {"moe_dispatch", launch_dispatch},
    {"moe_combine", launch_combine},
    {"moe_dot", launch_dot},
    {"moe_load", launch_load},
    {NULL, NULL},
};
