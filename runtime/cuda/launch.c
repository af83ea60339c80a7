#include "runtime/cuda/launch.h"

#include <assert.h>
#include <string.h>

#include "runtime/operators/random_internal.h"

const struct orr_attribute *orr__cuda_attribute(const struct orr_task_operator *call,
                                                const char *name) {
    int index = orr_operator_attribute(call->op, name);
    assert(index >= 0);
    return &call->attributes->values[index];
}

int64_t orr__cuda_integer(const struct orr_task_operator *call, const char *name) {
    return orr__cuda_attribute(call, name)->integer;
}

double orr__cuda_real(const struct orr_task_operator *call, const char *name) {
    return orr__cuda_attribute(call, name)->real;
}

uint64_t orr__cuda_bytes(const struct orr_tensor_view *view) {
    return (uint64_t)orr_shape_count(&view->shape) * orr_dtype_size(view->dtype);
}

struct orr__k_strided orr__cuda_strided(const struct orr__strided *array, int64_t count) {
    struct orr__k_strided out = {.rank = array->rank, .small = count <= INT32_MAX};
    memcpy(out.dims, array->dims, sizeof array->dims);
    memcpy(out.strides, array->strides, sizeof array->strides);
    return out;
}

struct orr__k_placement orr__cuda_placement(const struct orr_task_operator *call,
                                            const struct orr_shape *shape) {
    struct orr__placement placement =
        orr__placement_of(shape, &orr__cuda_attribute(call, "global_shape")->shape,
                          &orr__cuda_attribute(call, "starts")->shape);
    struct orr__k_placement out = {.base = placement.base};
    if (!placement.whole)
        out.part = orr__cuda_strided(&placement.part, orr_shape_count(shape));
    return out;
}

enum orr_status orr__cuda_zero(struct orr__cuda_queue *queue, void *to, uint64_t bytes,
                               struct orr_error *error) {
    if (bytes == 0)
        return ORR_OK;
    return orr__cuda_check(queue->api, queue->api->rt.cudaMemsetAsync(to, 0, bytes, queue->stream),
                           "cudaMemsetAsync", error);
}
