/* From tasks to launches: which launcher an operator has, and the tasks that are none. */
#include <string.h>

#include "runtime/cuda/queue.h"

/* One a line, so that lists can be added side by side. */
/* clang-format off */
static const struct orr__cuda_operator *const lists[] = {
    orr__cuda_attention_operators,
    orr__cuda_expert_operators,
    orr__cuda_gather_operators,
    orr__cuda_gemm_operators,
    orr__cuda_image_operators,
    orr__cuda_move_operators,
    orr__cuda_norm_operators,
    orr__cuda_pointwise_operators,
    orr__cuda_quantize_operators,
    orr__cuda_reduction_operators,
    orr__cuda_serving_operators,
    orr__cuda_softmax_operators,
    orr__cuda_source_operators,
    orr__cuda_update_operators,
};
/* clang-format on */

const struct orr__cuda_operator *orr__cuda_operator_find(const char *name) {
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const struct orr__cuda_operator *row = lists[i]; row->name; row++)
            if (strcmp(row->name, name) == 0)
                return row;
    return NULL;
}

static enum orr_status enqueue_operator(struct orr__cuda_queue *queue,
                                        const struct orr_task_operator *call,
                                        struct orr_error *error) {
    const struct orr__cuda_operator *row = orr__cuda_operator_find(call->op->name);
    if (!row)
        return orr_error_set(error, ORR_UNSUPPORTED, "%s: there is no CUDA kernel for it",
                             call->op->name);
    return row->launch(queue, call, error);
}

enum orr_status orr__cuda_enqueue(struct orr__cuda_queue *queue, const struct orr_task *task,
                                  struct orr_error *error) {
    const struct orr__cuda_runtime_table *rt = &queue->api->rt;
    switch (task->kind) {
    case ORR_TASK_OPERATOR: return enqueue_operator(queue, &task->call, error);
    case ORR_TASK_FUSED: return orr__cuda_fused(queue, &task->fused, error);
    case ORR_TASK_SYNTHETIC: return orr__cuda_synthetic(queue, task, error);
    case ORR_TASK_MOVE: return orr__cuda_move(queue, &task->move, error);
    case ORR_TASK_COPY:
        return orr__cuda_check(queue->api,
                               rt->cudaMemcpyAsync(task->copy.to, task->copy.from, task->copy.bytes,
                                                   cudaMemcpyDefault, queue->stream),
                               "cudaMemcpyAsync", error);
    case ORR_TASK_FILL:
        return orr__cuda_check(
            queue->api,
            rt->cudaMemsetAsync(task->fill.to, task->fill.value, task->fill.bytes, queue->stream),
            "cudaMemsetAsync", error);
    default: return orr_error_set(error, ORR_UNSUPPORTED, "there is no CUDA kernel for this task");
    }
}
