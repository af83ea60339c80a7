/* What launchers share: attributes by name, shapes as kernels take them, zeros.
 *
 * Threads: as queue.h. */
#ifndef ORR_RUNTIME_CUDA_LAUNCH_H
#define ORR_RUNTIME_CUDA_LAUNCH_H

#include "runtime/cuda/queue.h"
#include "runtime/operators/operators_internal.h"

/* A call's attribute; the name must be one of its operator's. */
const struct orr_attribute *orr__cuda_attribute(const struct orr_task_operator *call,
                                                const char *name);
int64_t orr__cuda_integer(const struct orr_task_operator *call, const char *name);
double orr__cuda_real(const struct orr_task_operator *call, const char *name);

/* Bytes of a tensor. */
uint64_t orr__cuda_bytes(const struct orr_tensor_view *view);

/* For kernels; `count` is the largest index that is asked for, plus 1. */
struct orr__k_strided orr__cuda_strided(const struct orr__strided *array, int64_t count);

/* Where the elements of a result of `shape` are in the whole of which it is a part, by the call's
 * attributes global_shape and starts. */
struct orr__k_placement orr__cuda_placement(const struct orr_task_operator *call,
                                            const struct orr_shape *shape);

/* Zeroes device memory in stream order; nothing if there is none. */
enum orr_status orr__cuda_zero(struct orr__cuda_queue *queue, void *to, uint64_t bytes,
                               struct orr_error *error) ORR_MUST_CHECK;

/* Enqueues cuts in their order (runtime/task.h). */
enum orr_status orr__cuda_cuts(struct orr__cuda_queue *queue, const struct orr_task_cut *cuts,
                               uint32_t count, struct orr_error *error) ORR_MUST_CHECK;

#endif
