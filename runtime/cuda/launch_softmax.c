/* Launchers of softmax, cross_entropy and their gradients. */
#include "runtime/cuda/launch_rows.h"
#include "runtime/cuda/launch_sum.h"

static enum orr_status launch_softmax(struct orr__cuda_queue *queue,
                                      const struct orr_task_operator *call,
                                      struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0];
    struct orr__k_softmax a = {
        .x = x->data,
        .y = call->outputs[0].data,
        .rows = orr__cuda_row_count(&x->shape),
        .width = orr__row_length(&x->shape),
        .dtype = (int)x->dtype,
    };
    if (a.width == 0)
        return ORR_OK;
    if (orr__cuda_integer(call, "causal")) {
        /* Row i of the whole matrix sees as many columns more as there are more of them. */
        int64_t whole = orr__cuda_integer(call, "whole");
        a.mask_rows = x->shape.dims[x->shape.rank - 2];
        a.seen = orr__cuda_integer(call, "start") + 1 + a.width - (whole ? whole : a.mask_rows);
    }
    return orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(softmax, x->dtype), a.rows, a.width,
                                 &a, error);
}

static enum orr_status launch_softmax_backward(struct orr__cuda_queue *queue,
                                               const struct orr_task_operator *call,
                                               struct orr_error *error) {
    const struct orr_tensor_view *y = &call->inputs[1];
    struct orr__k_softmax_backward a = {
        .grad = call->inputs[0].data,
        .y = y->data,
        .to = call->outputs[0].data,
        .rows = orr__cuda_row_count(&y->shape),
        .width = orr__row_length(&y->shape),
        .dtype = (int)y->dtype,
    };
    if (a.width == 0)
        return ORR_OK;
    return orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(softmax_backward, y->dtype), a.rows,
                                 a.width, &a, error);
}

/* The rows' losses, in scratch memory, and their sum. */
static enum orr_status launch_loss(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *logits = &call->inputs[0], *targets = &call->inputs[1];
    int64_t rows = orr__cuda_row_count(&logits->shape);
    int64_t total = orr__cuda_integer(call, "total");
    uint64_t bytes = (uint64_t)rows * sizeof(double) + orr__cuda_sum_bytes(1, rows, 1);
    void *scratch;
    enum orr_status status = orr__cuda_scratch(queue, bytes, &scratch, error);
    if (status != ORR_OK)
        return status;
    struct orr__k_loss a = {
        .logits = logits->data,
        .targets = targets->data,
        .losses = scratch,
        .fault = queue->fault,
        .rows = rows,
        .classes = orr__row_length(&logits->shape),
        .dtype = (int)logits->dtype,
        .index_dtype = (int)targets->dtype,
    };
    status = orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(loss, logits->dtype), rows,
                                   a.classes, &a, error);
    struct orr__cuda_sum sum = {
        .x = a.losses,
        .dtype = ORR_DTYPE_F64,
        .outer = 1,
        .n = rows,
        .inner = 1,
        .divisor = (double)(total ? total : rows),
        .to = call->outputs[0].data,
        .to_dtype = (int)call->outputs[0].dtype,
    };
    return status == ORR_OK ? orr__cuda_sum(queue, &sum, a.losses + rows, error) : status;
}

static enum orr_status launch_loss_backward(struct orr__cuda_queue *queue,
                                            const struct orr_task_operator *call,
                                            struct orr_error *error) {
    const struct orr_tensor_view *logits = &call->inputs[1], *targets = &call->inputs[2];
    int64_t classes = orr__row_length(&logits->shape);
    int64_t whole = orr__cuda_integer(call, "whole");
    struct orr__k_loss_backward a = {
        .grad = call->inputs[0].data,
        .logits = logits->data,
        .targets = targets->data,
        .lse = orr__cuda_optional(call, 3),
        .to = call->outputs[0].data,
        .fault = queue->fault,
        .rows = orr__cuda_row_count(&logits->shape),
        .classes = classes,
        .first = orr__cuda_integer(call, "first"),
        .whole = whole ? whole : classes,
        .total = (double)orr__cuda_integer(call, "total"),
        .dtype = (int)logits->dtype,
        .index_dtype = (int)targets->dtype,
    };
    return orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(loss_backward, logits->dtype), a.rows,
                                 classes, &a, error);
}

const struct orr__cuda_operator orr__cuda_softmax_operators[] = {
    {"softmax", launch_softmax},
    {"softmax_backward", launch_softmax_backward},
    {"cross_entropy", launch_loss},
    {"cross_entropy_backward", launch_loss_backward},
    {NULL, NULL},
};
