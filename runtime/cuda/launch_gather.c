/* Launchers of embedding, gather_last, scatter_last, topk and embedding_backward. */
#include "runtime/cuda/launch_order.h"
#include "runtime/cuda/launch_rows.h"

/* The largest unit, up to 16 bytes, that rows of `bytes` bytes at two places are made of. */
static int32_t unit_of(uint64_t bytes, const void *one, const void *other) {
    uint64_t bits = bytes | (uint64_t)(uintptr_t)one | (uint64_t)(uintptr_t)other | 16;
    return (int32_t)(bits & (~bits + 1));
}

/* "whole" of a sharded dimension, or what is here if it isn't. */
static int64_t whole_of(const struct orr_task_operator *call, int64_t here) {
    int64_t whole = orr__cuda_integer(call, "whole");
    return whole ? whole : here;
}

static enum orr_status launch_embedding(struct orr__cuda_queue *queue,
                                        const struct orr_task_operator *call,
                                        struct orr_error *error) {
    const struct orr_tensor_view *indices = &call->inputs[0], *weight = &call->inputs[1];
    const struct orr_tensor_view *y = &call->outputs[0];
    uint64_t bytes = (uint64_t)weight->shape.dims[1] * orr_dtype_size(weight->dtype);
    int32_t unit = unit_of(bytes, weight->data, y->data);
    struct orr__k_gather_rows a = {
        .indices = indices->data,
        .weight = weight->data,
        .to = y->data,
        .fault = queue->fault,
        .count = orr_shape_count(&indices->shape),
        .units = (int64_t)(bytes / (uint64_t)unit),
        .first = orr__cuda_integer(call, "first"),
        .here = weight->shape.dims[0],
        .whole = whole_of(call, weight->shape.dims[0]),
        .unit = unit,
        .index_dtype = (int)indices->dtype,
    };
    return orr__cuda_launch_rows(queue, ORR__K_gather_rows, a.count, a.units, &a, error);
}

static enum orr_status launch_embedding_backward(struct orr__cuda_queue *queue,
                                                 const struct orr_task_operator *call,
                                                 struct orr_error *error) {
    const struct orr_tensor_view *grad = &call->inputs[0], *indices = &call->inputs[1];
    const struct orr_tensor_view *to = &call->outputs[0];
    struct orr__cuda_order order = {
        .indices = indices->data,
        .index_dtype = (int)indices->dtype,
        .count = orr_shape_count(&indices->shape),
        .bound = whole_of(call, to->shape.dims[0]),
        .first = orr__cuda_integer(call, "first"),
        .keys = to->shape.dims[0],
    };
    void *scratch;
    enum orr_status status =
        orr__cuda_scratch(queue, orr__cuda_order_bytes(order.count, order.keys), &scratch, error);
    if (status == ORR_OK)
        status = orr__cuda_order(queue, &order, scratch, error);
    struct orr__k_sum_ordered a = {
        .grad = grad->data,
        .order = order.order,
        .starts = order.starts,
        .to = to->data,
        .rows = to->shape.dims[0],
        .width = to->shape.dims[1],
        .dtype = (int)grad->dtype,
    };
    if (status == ORR_OK)
        status = orr__cuda_launch_each(queue, ORR__K_sum_ordered, a.rows * a.width, &a, error);
    return status;
}

static enum orr_status launch_gather_last(struct orr__cuda_queue *queue,
                                          const struct orr_task_operator *call,
                                          struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *indices = &call->inputs[1];
    int64_t here = orr__row_length(&x->shape);
    struct orr__k_gather_last a = {
        .x = x->data,
        .indices = indices->data,
        .to = call->outputs[0].data,
        .fault = queue->fault,
        .rows = orr__cuda_row_count(&indices->shape),
        .k = orr__row_length(&indices->shape),
        .first = orr__cuda_integer(call, "first"),
        .here = here,
        .whole = whole_of(call, here),
        .unit = (int32_t)orr_dtype_size(x->dtype),
        .index_dtype = (int)indices->dtype,
    };
    return orr__cuda_launch_each(queue, ORR__K_gather_last, a.rows * a.k, &a, error);
}

static enum orr_status launch_scatter_last(struct orr__cuda_queue *queue,
                                           const struct orr_task_operator *call,
                                           struct orr_error *error) {
    const struct orr_tensor_view *grad = &call->inputs[0], *indices = &call->inputs[1];
    int64_t here = orr__row_length(&call->outputs[0].shape);
    struct orr__k_scatter_last a = {
        .grad = grad->data,
        .indices = indices->data,
        .to = call->outputs[0].data,
        .fault = queue->fault,
        .rows = orr__cuda_row_count(&grad->shape),
        .k = orr__row_length(&grad->shape),
        .first = orr__cuda_integer(call, "first"),
        .here = here,
        .whole = whole_of(call, here),
        .dtype = (int)grad->dtype,
        .index_dtype = (int)indices->dtype,
    };
    return orr__cuda_launch_rows(queue, ORR__K_scatter_last, a.rows, here, &a, error);
}

static enum orr_status launch_topk(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0];
    struct orr__k_topk a = {
        .x = x->data,
        .values = call->outputs[0].data,
        .indices = call->outputs[1].data,
        .rows = orr__cuda_row_count(&x->shape),
        .n = orr__row_length(&x->shape),
        .k = orr__cuda_integer(call, "k"),
        .dtype = (int)x->dtype,
    };
    uint32_t block = orr__cuda_row_block(a.n);
    uint32_t shared = block * (uint32_t)(sizeof(double) + sizeof(int64_t));
    return orr__cuda_launch(queue, ORR__K_topk, orr__cuda_grid_rows(queue, (uint64_t)a.rows), block,
                            shared, &a, error);
}

const struct orr__cuda_operator orr__cuda_gather_operators[] = {
    {"embedding", launch_embedding},
    {"embedding_backward", launch_embedding_backward},
    {"gather_last", launch_gather_last},
    {"scatter_last", launch_scatter_last},
    {"topk", launch_topk},
    {NULL, NULL},
};
