/* What launchers have in common, above all of kernels that work on rows, a block to each.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_CUDA_LAUNCH_ROWS_H
#define ORR_RUNTIME_CUDA_LAUNCH_ROWS_H

#include <assert.h>

#include "runtime/cuda/queue.h"
#include "runtime/operator.h"

enum { ORR__CUDA_ROW_BLOCK_MAX = 512 };

/* Threads for a row of `width` elements: at least four elements to each, if there are as many, and
 * a warp at least. A power of two. */
static inline uint32_t orr__cuda_row_block(int64_t width) {
    uint32_t block = 32;
    while (block < ORR__CUDA_ROW_BLOCK_MAX && (int64_t)block * 4 < width)
        block *= 2;
    return block;
}

/* Product of all dimensions but the last one, which is there. */
static inline int64_t orr__cuda_row_count(const struct orr_shape *shape) {
    int64_t rows = 1;
    for (int i = 0; i < shape->rank - 1; i++)
        rows *= shape->dims[i];
    return rows;
}

/* The last dimension. */
static inline int64_t orr__cuda_row_width(const struct orr_shape *shape) {
    return shape->dims[shape->rank - 1];
}

/* The call's attribute of that name, which its operator has. */
static inline const struct orr_attribute *orr__cuda_attribute(const struct orr_task_operator *call,
                                                              const char *name) {
    int index = orr_operator_attribute(call->op, name);
    assert(index >= 0);
    return &call->attributes->values[index];
}

/* The memory of an operand that may be missing, or NULL. */
static inline void *orr__cuda_optional(const struct orr_task_operator *call, int input) {
    return input < call->input_count ? call->inputs[input].data : NULL;
}

/* A kernel that comes as name_f32, for f32, f16 and bf16, and as name_f64. */
#define ORR__CUDA_KERNEL_FOR(name, dtype)                                                          \
    ((dtype) == ORR_DTYPE_F64 ? ORR__K_##name##_f64 : ORR__K_##name##_f32)

/* Launches a kernel with a block to each of `rows` rows, which sums over its threads. */
static inline enum orr_status orr__cuda_launch_rows(struct orr__cuda_queue *queue,
                                                    enum orr__cuda_kernel kernel, int64_t rows,
                                                    int64_t width, const void *argument,
                                                    struct orr_error *error) {
    return orr__cuda_launch(queue, kernel, orr__cuda_grid_rows(queue, (uint64_t)rows),
                            orr__cuda_row_block(width), ORR__CUDA_SHARED_SCRATCH, argument, error);
}

/* Launches a kernel with a thread to each of `count` results. */
static inline enum orr_status orr__cuda_launch_each(struct orr__cuda_queue *queue,
                                                    enum orr__cuda_kernel kernel, int64_t count,
                                                    const void *argument, struct orr_error *error) {
    return orr__cuda_launch(queue, kernel, orr__cuda_grid(queue, (uint64_t)count), ORR__CUDA_BLOCK,
                            0, argument, error);
}

#endif
