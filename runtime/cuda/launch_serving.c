/* Launchers of rope and its relatives, and of caches. */
#include "runtime/cuda/launch.h"

enum { ALIGNMENT = 256 };

/* `starts` NULL: one sequence, which begins at `offset`. */
static enum orr_status rotate(struct orr__cuda_queue *queue, const struct orr_task_operator *call,
                              const struct orr_tensor_view *starts, int64_t offset, bool back,
                              struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0];
    const struct orr_shape *shape = &x->shape;
    bool wide = x->dtype == ORR_DTYPE_F64;
    if (orr_shape_count(shape) == 0)
        return ORR_OK;
    struct orr__k_rope a = {
        .sequences = starts ? shape->dims[0] : 1,
        .inner = 1,
        .positions = shape->dims[shape->rank - 2],
        .half = shape->dims[shape->rank - 1] / 2,
        .x = x->data,
        .y = call->outputs[0].data,
        .dtype = (int32_t)x->dtype,
        .back = back,
    };
    for (int i = starts ? 1 : 0; i < shape->rank - 2; i++)
        a.inner *= shape->dims[i];
    int64_t angles = a.sequences * a.positions * a.half;
    uint64_t bytes = (uint64_t)angles * (wide ? sizeof(double) : sizeof(float));
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *scratch;
    enum orr_status status = orr__cuda_scratch(queue, 2 * bytes, &scratch, error);
    if (status != ORR_OK)
        return status;
    struct orr__k_rope_angles table = {
        .theta = orr__cuda_real(call, "theta"),
        .sequences = a.sequences,
        .positions = a.positions,
        .half = a.half,
        .offset = offset,
        .starts = starts ? starts->data : NULL,
        .starts_dtype = starts ? (int32_t)starts->dtype : 0,
        .wide = wide,
        .cosines = scratch,
        .sines = (char *)scratch + bytes,
    };
    a.cosines = table.cosines;
    a.sines = table.sines;
    status = orr__cuda_launch(queue, ORR__K_rope_angles, orr__cuda_grid(queue, (uint64_t)angles),
                              ORR__CUDA_BLOCK, 0, &table, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch(queue, wide ? ORR__K_rope_f64 : ORR__K_rope_f32,
                            orr__cuda_grid(queue, (uint64_t)orr_shape_count(shape) / 2),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

static enum orr_status launch_rope(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    return rotate(queue, call, NULL, orr__cuda_integer(call, "offset"), false, error);
}

static enum orr_status launch_rope_backward(struct orr__cuda_queue *queue,
                                            const struct orr_task_operator *call,
                                            struct orr_error *error) {
    return rotate(queue, call, NULL, orr__cuda_integer(call, "offset"), true, error);
}

static enum orr_status launch_rope_at(struct orr__cuda_queue *queue,
                                      const struct orr_task_operator *call,
                                      struct orr_error *error) {
    return rotate(queue, call, &call->inputs[1], 0, false, error);
}

static enum orr_status launch_append(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    enum { CACHE, NEW, POSITIONS, SLOTS };
    const struct orr_tensor_view *cache = &call->inputs[CACHE], *to = &call->outputs[0];
    const int64_t *sizes = cache->shape.dims, *rows = call->inputs[NEW].shape.dims;
    bool slots = call->input_count > SLOTS;
    size_t size = orr_dtype_size(cache->dtype);
    if (to->data != cache->data) {
        enum orr_status status = orr__cuda_check(
            queue->api,
            queue->api->rt.cudaMemcpyAsync(to->data, cache->data,
                                           (size_t)orr_shape_count(&cache->shape) * size,
                                           cudaMemcpyDeviceToDevice, queue->stream),
            "cudaMemcpyAsync", error);
        if (status != ORR_OK)
            return status;
    }
    struct orr__k_append a = {
        .b = rows[0],
        .heads = sizes[1],
        .count = rows[2],
        .sequences = sizes[0],
        .capacity = sizes[2],
        .bytes = sizes[3] * (int64_t)size,
        .rows = call->inputs[NEW].data,
        .positions = call->inputs[POSITIONS].data,
        .slots = slots ? call->inputs[SLOTS].data : NULL,
        .cache = to->data,
        .positions_dtype = (int32_t)call->inputs[POSITIONS].dtype,
        .slots_dtype = slots ? (int32_t)call->inputs[SLOTS].dtype : 0,
        .fault = queue->fault,
    };
    uint64_t bytes = (uint64_t)orr_shape_count(&call->inputs[NEW].shape) * size;
    /* Indices are checked also where there is nothing to write. */
    uint32_t grid = orr__cuda_grid(queue, bytes ? bytes : 1);
    return orr__cuda_launch(queue, ORR__K_append, grid, ORR__CUDA_BLOCK, 0, &a, error);
}

const struct orr__cuda_operator orr__cuda_serving_operators[] = {
    {"rope", launch_rope},
    {"rope_backward", launch_rope_backward},
    {"rope_at", launch_rope_at},
    {"kv_append", launch_append},
    {NULL, NULL},
};
