/* What launchers of kernels that work on rows, a block to each, have in common.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_CUDA_LAUNCH_ROWS_H
#define ORR_RUNTIME_CUDA_LAUNCH_ROWS_H

#include "runtime/cuda/launch.h"

/* Threads for a row of `width` elements: at least four elements to each, which it loads at once, if
 * there are as many, and a warp at least; twice as many for rows so long that few are at work at a
 * time. A power of two, of the width alone, so that sums have the same order on every GPU. */
static inline uint32_t orr__cuda_row_block(int64_t width) {
    uint32_t block = 32, most = width > 32768 ? 512 : 256;
    while (block < most && (int64_t)block * 4 < width)
        block *= 2;
    return block;
}

/* Product of all dimensions but the last one, which is there. */
static inline int64_t orr__cuda_row_count(const struct orr_shape *shape) {
    return orr__dims_product(shape, 0, shape->rank - 1);
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
