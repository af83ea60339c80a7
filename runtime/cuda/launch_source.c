/* Launchers of operators without operands: zeros. */
#include "runtime/cuda/queue.h"

static enum orr_status launch_zeros(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *y = &call->outputs[0];
    uint64_t bytes = (uint64_t)orr_shape_count(&y->shape) * orr_dtype_size(y->dtype);
    if (bytes == 0)
        return ORR_OK;
    return orr__cuda_check(queue->api,
                           queue->api->rt.cudaMemsetAsync(y->data, 0, bytes, queue->stream),
                           "cudaMemsetAsync", error);
}

const struct orr__cuda_operator orr__cuda_source_operators[] = {
    {"zeros", launch_zeros},
    {NULL, NULL},
};
