/* Tensors whose memory goes and comes back. A tensor and its reshapes are a family, which goes
 * together; what shares memory with it otherwise (a redistribution for which nothing had to move)
 * is another tensor, and keeps its memory. */
#include "runtime/tensor_internal.h"

/* Of one family, with memory or without it. Most tensors are alone. */
static bool relates(const struct orr_tensor *tensor, const struct orr_tensor *other) {
    return tensor->family == other->family && tensor->storage == other->storage &&
           (tensor->evicted > 0) == (other->evicted > 0);
}

static uint32_t count_family(const struct orr_tensor *tensor) {
    uint32_t count = 0;
    for (const struct orr_tensor *t = tensor->runtime->tensors; t; t = t->next) {
        count += relates(tensor, t);
    }
    return count;
}

/* Lets go of the memory of one of `count` tensors. */
static void drop(struct orr_tensor *tensor, uint32_t count) {
    orr__tensor_drop_storage(tensor);
    tensor->evicted = count;
    tensor->evictions++;
}

enum orr_status orr_tensor_evict(struct orr_tensor *tensor) {
    struct orr_runtime *runtime = tensor->runtime;
    orr_error_clear(&runtime->error);
    if (tensor->evicted) {
        return ORR_OK;
    }
    if (runtime->region) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "evict: a compiled function does not follow it; call it outside");
    }
    enum orr_status status = orr__tensor_check_kept(tensor, "evict");
    if (status != ORR_OK) {
        return status;
    }
    uint32_t count = tensor->storage->references > 1 ? count_family(tensor) : 1;
    for (struct orr_tensor *t = count > 1 ? runtime->tensors : NULL; t; t = t->next) {
        if (t != tensor && relates(tensor, t)) {
            drop(t, count);
        }
    }
    drop(tensor, count);
    orr__runtime_spend_event(runtime, 0);
    return ORR_OK;
}

static enum orr_status check_equal(const struct orr_tensor *tensor,
                                   const struct orr_tensor *other) {
    if (tensor->info.dtype == other->info.dtype &&
        orr_shape_equal(&tensor->info.shape, &other->info.shape) &&
        orr_layout_equal(&tensor->layout, &other->layout)) {
        return ORR_OK;
    }
    char shapes[2][ORR_SHAPE_TEXT_MAX], places[2][ORR_PLACEMENT_TEXT_MAX];
    return orr__runtime_fail(
        tensor->runtime, ORR_INVALID, "restore: memory of %s %s %s%s for a tensor %s %s %s",
        orr_shape_text(&other->info.shape, shapes[0]), orr_dtype_name(other->info.dtype),
        orr_layout_text(&other->layout, places[0]),
        tensor->layout.mesh == other->layout.mesh ? "" : " on another mesh",
        orr_shape_text(&tensor->info.shape, shapes[1]), orr_dtype_name(tensor->info.dtype),
        orr_layout_text(&tensor->layout, places[1]));
}

enum orr_status orr_tensor_restore(struct orr_tensor *tensor, struct orr_tensor *other) {
    struct orr_runtime *runtime = tensor->runtime;
    orr_error_clear(&runtime->error);
    if (!tensor->evicted) {
        return orr__runtime_fail(runtime, ORR_INVALID, "restore: the tensor has not been evicted");
    }
    if (runtime->region) {
        return orr__runtime_fail(
            runtime, ORR_INVALID,
            "restore: a compiled function does not follow it; call it outside");
    }
    enum orr_status status = orr__tensor_check_kept(other, "restore");
    if (status == ORR_OK) {
        status = check_equal(tensor, other);
    }
    if (status != ORR_OK) {
        return status;
    }
    for (struct orr_tensor *t = tensor->evicted > 1 ? runtime->tensors : NULL; t; t = t->next) {
        if (t != tensor && relates(tensor, t)) {
            t->evicted = 0;
            orr__tensor_share(t, other);
        }
    }
    tensor->evicted = 0;
    orr__tensor_share(tensor, other);
    return ORR_OK;
}
