/* Launchers of operators without operands. */
#include <string.h>

#include "runtime/cuda/launch.h"
#include "runtime/operators/random_internal.h"

static enum orr_status fill(struct orr__cuda_queue *queue, const struct orr_tensor_view *y,
                            double value, struct orr_error *error) {
    struct orr__k_fill a = {.to = y->data,
                            .count = orr_shape_count(&y->shape),
                            .size = (int32_t)orr_dtype_size(y->dtype)};
    orr_dtype_store(y->dtype, &a.bits, 0, value);
    return orr__cuda_launch(queue, ORR__K_fill_bits, orr__cuda_grid(queue, (uint64_t)a.count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

static enum orr_status launch_zeros(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    return orr__cuda_zero(queue, call->outputs[0].data, orr__cuda_bytes(&call->outputs[0]), error);
}

static enum orr_status launch_ones(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    return fill(queue, &call->outputs[0], 1, error);
}

static enum orr_status launch_full(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    return fill(queue, &call->outputs[0], orr__cuda_real(call, "value"), error);
}

static enum orr_status launch_arange(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *y = &call->outputs[0];
    struct orr__k_arange a = {.to = y->data,
                              .count = orr_shape_count(&y->shape),
                              .start = orr__cuda_integer(call, "start"),
                              .step = orr__cuda_integer(call, "step"),
                              .dtype = (int32_t)y->dtype};
    return orr__cuda_launch(queue, ORR__K_arange, orr__cuda_grid(queue, (uint64_t)a.count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

static enum orr_status draw(struct orr__cuda_queue *queue, const struct orr_task_operator *call,
                            bool normal, struct orr_error *error) {
    const struct orr_tensor_view *y = &call->outputs[0];
    struct orr__k_random a = {
        .to = y->data,
        .count = orr_shape_count(&y->shape),
        .key = orr__random_key((uint64_t)orr__cuda_integer(call, "seed")),
        .placement = orr__cuda_placement(call, &y->shape),
        .dtype = (int32_t)y->dtype,
        .normal = normal,
    };
    return orr__cuda_launch(queue, ORR__K_draw_random, orr__cuda_grid(queue, (uint64_t)a.count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

static enum orr_status launch_rand(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    return draw(queue, call, false, error);
}

static enum orr_status launch_randn(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    return draw(queue, call, true, error);
}

const struct orr__cuda_operator orr__cuda_source_operators[] = {
    {"zeros", launch_zeros},
    {"ones", launch_ones},
    {"full", launch_full},
    {"arange", launch_arange},
    {"rand", launch_rand},
    {"randn", launch_randn},
    {NULL, NULL},
};
