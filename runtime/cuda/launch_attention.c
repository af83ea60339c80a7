/* Launchers of attention: kernels/attention.h. */
#include <math.h>

#include "runtime/cuda/launch.h"

enum { DELTA_BLOCK = 128, ALIGNMENT = 256 };

/* One block; `operands` are q, k, v. */
static struct orr__k_attention shape_of(const struct orr_task_operator *call,
                                        const struct orr_tensor_view *operands, bool causal) {
    const int64_t *q = operands[0].shape.dims, *k = operands[1].shape.dims;
    double scale = orr__cuda_real(call, "scale");
    return (struct orr__k_attention){
        .dtype = (int32_t)operands[0].dtype,
        .causal = causal,
        .b = q[0],
        .h = q[1],
        .hkv = k[1],
        .s = q[2],
        .t = k[2],
        .d = q[3],
        .dv = operands[2].shape.dims[3],
        .blocks = 1,
        .total = 1,
        .scale = scale == 0 ? 1 / sqrt((double)q[3]) : scale,
    };
}

/* A rank's blocks of a ring, as runtime/operators/attention_block.c counts them. */
static struct orr__k_attention blocks_of(const struct orr_task_operator *call,
                                         const struct orr_tensor_view *operands) {
    struct orr__k_attention shape =
        shape_of(call, operands, orr__cuda_integer(call, "causal") != 0);
    int64_t whole = orr__cuda_integer(call, "whole");
    shape.total = orr__cuda_integer(call, "blocks");
    int64_t queries = (whole ? whole : shape.s) / shape.total; /* of one block */
    shape.shift = orr__cuda_integer(call, "shift");
    shape.blocks = queries ? shape.s / queries : shape.total;
    shape.first = queries ? orr__cuda_integer(call, "start") / queries : 0;
    shape.s = queries;
    shape.t /= shape.blocks > 0 ? shape.blocks : 1;
    return shape;
}

static bool is_wide(const struct orr__k_attention *shape) {
    return shape->dtype == ORR_DTYPE_F64;
}

static uint32_t shared_bytes(const struct orr__k_attention *shape) {
    return is_wide(shape) ? ORR__ATTENTION_SHARED(ORR__ATTENTION_TILE_F64, sizeof(double))
                          : ORR__ATTENTION_SHARED(ORR__ATTENTION_TILE_F32, sizeof(float));
}

/* Blocks for a tile of `length` rows of each key head, and as many parts of `width` columns as one
 * block doesn't sum. */
static uint32_t grid_of(const struct orr__cuda_queue *queue, const struct orr__k_attention *shape,
                        int64_t length, int64_t width) {
    int64_t tile = is_wide(shape) ? ORR__ATTENTION_TILE_F64 : ORR__ATTENTION_TILE_F32;
    int64_t tiles = (length + tile - 1) / tile;
    int64_t parts = (width + ORR__ATTENTION_WIDTH - 1) / ORR__ATTENTION_WIDTH;
    return orr__cuda_grid_rows(
        queue, (uint64_t)(shape->b * shape->hkv * shape->blocks * tiles * (parts > 0 ? parts : 1)));
}

static int64_t group_rows(const struct orr__k_attention *shape) {
    return shape->h / shape->hkv * shape->s;
}

static enum orr_status attend(struct orr__cuda_queue *queue, const struct orr__k_attend *a,
                              struct orr_error *error) {
    const struct orr__k_attention *shape = &a->shape;
    return orr__cuda_launch(queue, is_wide(shape) ? ORR__K_attend_f64 : ORR__K_attend_f32,
                            grid_of(queue, shape, group_rows(shape), a->out ? shape->dv : 1),
                            ORR__CUDA_BLOCK, shared_bytes(shape), a, error);
}

static struct orr__k_attend attend_of(const struct orr__k_attention *shape,
                                      const struct orr_tensor_view *operands, void *out) {
    return (struct orr__k_attend){.shape = *shape,
                                  .q = operands[0].data,
                                  .k = operands[1].data,
                                  .v = operands[2].data,
                                  .out = out};
}

/* ---- Forward ---- */

static enum orr_status launch_sdpa(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    if (orr_shape_count(&call->outputs[0].shape) == 0)
        return ORR_OK;
    struct orr__k_attention shape =
        shape_of(call, call->inputs, orr__cuda_integer(call, "causal") != 0);
    struct orr__k_attend a = attend_of(&shape, call->inputs, call->outputs[0].data);
    return attend(queue, &a, error);
}

static enum orr_status launch_block(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    if (orr_shape_count(&call->outputs[1].shape) == 0)
        return ORR_OK;
    struct orr__k_attention shape = blocks_of(call, call->inputs);
    struct orr__k_attend a = attend_of(&shape, call->inputs, call->outputs[0].data);
    a.lse = call->outputs[1].data;
    return attend(queue, &a, error);
}

static enum orr_status launch_decode(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    enum { LENGTHS = 3, SLOTS };
    const struct orr_tensor_view *lengths = &call->inputs[LENGTHS];
    const struct orr_tensor_view *slots = call->input_count > SLOTS ? &call->inputs[SLOTS] : NULL;
    struct orr__k_attention shape = shape_of(call, call->inputs, true);
    shape.capacity = shape.t;
    shape.sequences = call->inputs[1].shape.dims[0];
    shape.lengths = lengths->data;
    shape.lengths_dtype = (int32_t)lengths->dtype;
    shape.slots = slots ? slots->data : NULL;
    shape.slots_dtype = slots ? (int32_t)slots->dtype : 0;
    shape.fault = queue->fault;
    struct orr__k_attend a = attend_of(&shape, call->inputs, call->outputs[0].data);
    return attend(queue, &a, error);
}

static enum orr_status launch_merge(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *out = &call->outputs[0];
    struct orr__k_attention_merge a = {
        .dtype_a = (int32_t)call->inputs[0].dtype,
        .dtype_b = (int32_t)call->inputs[2].dtype,
        .rows = orr_shape_count(&call->outputs[1].shape),
        .dv = out->shape.dims[3],
        .out_a = call->inputs[0].data,
        .lse_a = call->inputs[1].data,
        .out_b = call->inputs[2].data,
        .lse_b = call->inputs[3].data,
        .out = out->data,
        .lse = call->outputs[1].data,
    };
    int64_t count = a.rows * (a.dv > 0 ? a.dv : 1);
    bool wide = out->dtype == ORR_DTYPE_F64;
    return orr__cuda_launch(queue, wide ? ORR__K_attention_merge_f64 : ORR__K_attention_merge_f32,
                            orr__cuda_grid(queue, (uint64_t)count), ORR__CUDA_BLOCK, 0, &a, error);
}

/* ---- Backward ---- */

enum { GRAD, BACK_Q, BACK_K, BACK_V, BACK_OUT, BACK_LSE };

/* What the rows of scores need beside their operands, in scratch: stats and delta. Without lse, the
 * sums are taken again. */
static enum orr_status prepare(struct orr__cuda_queue *queue, const struct orr_task_operator *call,
                               struct orr__k_attention_back *back, const void *lse,
                               struct orr_error *error) {
    const struct orr__k_attention *shape = &back->shape;
    bool wide = is_wide(shape);
    int64_t rows = shape->b * shape->h * shape->blocks * shape->s;
    uint64_t size = wide ? sizeof(double) : sizeof(float), stats = (uint64_t)rows * 2 * size;
    void *scratch;
    stats = (stats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    enum orr_status status =
        orr__cuda_scratch(queue, stats + (uint64_t)rows * size, &scratch, error);
    if (status != ORR_OK)
        return status;
    struct orr__k_attention_delta delta = {
        .dtype = shape->dtype,
        .rows = rows,
        .dv = shape->dv,
        .grad = call->inputs[GRAD].data,
        .out = call->inputs[BACK_OUT].data,
        .lse = lse,
        .delta = (char *)scratch + stats,
        .stats = scratch,
    };
    back->stats = scratch;
    back->delta = delta.delta;
    if (!lse) {
        struct orr__k_attend sums = attend_of(shape, &call->inputs[BACK_Q], NULL);
        sums.stats = scratch;
        status = attend(queue, &sums, error);
    }
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch(queue, wide ? ORR__K_attention_delta_f64 : ORR__K_attention_delta_f32,
                            orr__cuda_grid_rows(queue, (uint64_t)rows), DELTA_BLOCK,
                            ORR__CUDA_SHARED_SCRATCH, &delta, error);
}

static enum orr_status differentiate(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     const struct orr__k_attention *shape, const void *lse,
                                     struct orr_error *error) {
    enum orr_status status = ORR_OK;
    if (orr_shape_count(&call->inputs[GRAD].shape) == 0) {
        for (int i = 0; i < 3 && status == ORR_OK; i++)
            status = orr__cuda_zero(queue, call->outputs[i].data,
                                    orr__cuda_bytes(&call->outputs[i]), error);
        return status;
    }
    struct orr__k_attention_back a = {
        .shape = *shape,
        .q = call->inputs[BACK_Q].data,
        .k = call->inputs[BACK_K].data,
        .v = call->inputs[BACK_V].data,
        .grad = call->inputs[GRAD].data,
    };
    status = prepare(queue, call, &a, lse, error);
    for (int of = ORR__ATTENTION_DQ; of <= ORR__ATTENTION_DV && status == ORR_OK; of++) {
        int64_t length = of == ORR__ATTENTION_DQ ? group_rows(shape) : shape->t;
        a.of = of;
        a.to = call->outputs[of].data;
        status = orr__cuda_launch(
            queue, is_wide(shape) ? ORR__K_attention_back_f64 : ORR__K_attention_back_f32,
            grid_of(queue, shape, length, of == ORR__ATTENTION_DV ? shape->dv : shape->d),
            ORR__CUDA_BLOCK, shared_bytes(shape), &a, error);
    }
    return status;
}

static enum orr_status launch_backward(struct orr__cuda_queue *queue,
                                       const struct orr_task_operator *call,
                                       struct orr_error *error) {
    struct orr__k_attention shape =
        shape_of(call, &call->inputs[BACK_Q], orr__cuda_integer(call, "causal") != 0);
    return differentiate(queue, call, &shape, NULL, error);
}

static enum orr_status launch_block_backward(struct orr__cuda_queue *queue,
                                             const struct orr_task_operator *call,
                                             struct orr_error *error) {
    struct orr__k_attention shape = blocks_of(call, &call->inputs[BACK_Q]);
    return differentiate(queue, call, &shape, call->inputs[BACK_LSE].data, error);
}

const struct orr__cuda_operator orr__cuda_attention_operators[] = {
    {"sdpa", launch_sdpa},
    {"sdpa_block", launch_block},
    {"sdpa_merge", launch_merge},
    {"sdpa_decode", launch_decode},
    {"sdpa_backward", launch_backward},
    {"sdpa_block_backward", launch_block_backward},
    {NULL, NULL},
};
