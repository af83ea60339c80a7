/* Products with what follows them in a fused kernel: gemm.h says which. */
#include <string.h>

#include "runtime/cuda/gemm.h"
#include "runtime/cuda/launch.h"

static bool is(const struct orr_fused_stage *stage, const char *name) {
    return strcmp(stage->op->name, name) == 0;
}

/* True if a stage from `first` on reads a slot. */
static bool is_read(const struct orr_fused *fused, int first, int slot) {
    for (int i = first; i < fused->stage_count; i++)
        for (int j = 0; j < fused->stages[i].input_count; j++)
            if (fused->stages[i].inputs[j] == slot)
                return true;
    return false;
}

/* Stage `index` takes the result of the one before, which nobody else does. */
static bool continues(const struct orr_fused *fused, int index) {
    int slot = fused->operand_count + index - 1;
    const struct orr_fused_stage *stage = &fused->stages[index];
    bool reads = false;
    for (int i = 0; i < stage->input_count; i++)
        reads = reads || stage->inputs[i] == slot;
    return reads && !is_read(fused, index + 1, slot);
}

static bool is_relu(const struct orr_fused *fused, int index) {
    return index < fused->stage_count && is(&fused->stages[index], "relu") &&
           continues(fused, index);
}

/* A row of `n` numbers, whatever dimensions of 1 are in front of it. */
static bool is_row(const struct orr_shape *shape, int64_t n) {
    return shape->rank > 0 && shape->dims[shape->rank - 1] == n && orr_shape_count(shape) == n;
}

/* The operand that stage 1 adds to the rows of the product, or NULL. */
static const struct orr_tensor_view *added_row(const struct orr_task_fused *task, int64_t n) {
    const struct orr_fused *fused = task->fused;
    const struct orr_fused_stage *stage = &fused->stages[1];
    int product = fused->operand_count;
    if (fused->stage_count < 2 || !is(stage, "add") || !continues(fused, 1))
        return NULL;
    int other = stage->inputs[stage->inputs[0] == product];
    bool fits = other < fused->operand_count && is_row(&task->operands[other].shape, n);
    return fits ? &task->operands[other] : NULL;
}

/* x [..., k] by one weight, all rows of x as one matrix. */
static struct orr__cuda_gemm product_of(const struct orr_task_fused *task, bool transpose_b) {
    const struct orr_fused_stage *stage = &task->fused->stages[0];
    const struct orr_tensor_view *x = &task->operands[stage->inputs[0]];
    const struct orr_tensor_view *weight = &task->operands[stage->inputs[1]];
    const int64_t *sizes = weight->shape.dims + weight->shape.rank - 2;
    struct orr__cuda_gemm gemm = {
        .dtype = x->dtype,
        .result = task->result->dtype,
        .transpose_b = transpose_b,
        .m = 1,
        .n = sizes[!transpose_b],
        .k = sizes[transpose_b],
        .a = x->data,
        .b = weight->data,
        .c = task->result->data,
    };
    for (int i = 0; i < x->shape.rank - 1; i++)
        gemm.m *= x->shape.dims[i];
    return gemm;
}

/* matmul in f32 by one weight, x not transposed. */
static bool is_plain(const struct orr_task_fused *task) {
    const struct orr_fused_stage *stage = &task->fused->stages[0];
    const struct orr_tensor_view *x = &task->operands[stage->inputs[0]];
    const struct orr_shape *weight = &task->operands[stage->inputs[1]].shape;
    struct orr_task_operator call = {.op = stage->op, .attributes = &stage->attributes};
    return x->dtype == ORR_DTYPE_F32 && orr__cuda_integer(&call, "transpose_a") == 0 &&
           orr__dims_product(weight, 0, weight->rank - 2) == 1 && weight->rank <= x->shape.rank;
}

enum orr_status orr__cuda_product_epilogue(struct orr__cuda_queue *queue,
                                           const struct orr_task_fused *task, int *out_stages,
                                           struct orr_error *error) {
    const struct orr_fused_stage *stage = &task->fused->stages[0];
    const void *bias = NULL;
    struct orr__cuda_gemm gemm;
    int stages = 1;
    *out_stages = 0;
    if (is(stage, "linear")) {
        gemm = product_of(task, true);
        bias = stage->input_count > 2 ? task->operands[stage->inputs[2]].data : NULL;
    } else if (is(stage, "matmul") && is_plain(task)) {
        struct orr_task_operator call = {.op = stage->op, .attributes = &stage->attributes};
        gemm = product_of(task, orr__cuda_integer(&call, "transpose_b") != 0);
        const struct orr_tensor_view *row = added_row(task, gemm.n);
        bias = row ? row->data : NULL;
        stages += row != NULL;
    } else {
        return ORR_OK;
    }
    bool relu = is_relu(task->fused, stages), done = false;
    stages += relu;
    if (stages == 1)
        return ORR_OK;
    enum orr_status status = orr__cuda_gemm_epilogue(queue, &gemm, bias, relu, &done, error);
    *out_stages = done ? stages : 0;
    return status;
}
