/* Launchers of what moves elements: everything becomes cuts, but for casts and matrices that are
 * turned. */
#include <assert.h>
#include <string.h>

#include "runtime/cuda/launch.h"

/* ---- Cuts for the kernel ---- */

/* Puts a loop inside of those there are, or makes the innermost one longer if both sides go on. */
static void add_loop(struct orr__k_cut *cut, uint64_t count, uint64_t to, uint64_t from) {
    int last = cut->to.rank - 1;
    if (last >= 0 && (uint64_t)cut->to.strides[last] == count * to &&
        (uint64_t)cut->from_strides[last] == count * from)
        count *= (uint64_t)cut->to.dims[last];
    else
        last = cut->to.rank++;
    cut->to.dims[last] = (int64_t)count;
    cut->to.strides[last] = (int64_t)to;
    cut->from_strides[last] = (int64_t)from;
}

/* Rows are counted in the largest unit that all addresses are a multiple of. */
static void choose_unit(struct orr__k_cut *cut) {
    int last = cut->to.rank - 1;
    uint64_t bits =
        16 | (uint64_t)cut->to.dims[last] | (uintptr_t)cut->to_data | (uintptr_t)cut->from_data;
    for (int i = 0; i < last; i++)
        bits |= (uint64_t)cut->to.strides[i] | (uint64_t)cut->from_strides[i];
    cut->unit = (int32_t)(bits & (0 - bits));
    cut->to.dims[last] /= cut->unit;
    cut->to.strides[last] = cut->from_strides[last] = cut->unit;
    if (cut->to.dims[last] == 1 && last > 0)
        cut->to.rank--;
}

/* False if there is nothing to move. */
static bool kernel_cut(const struct orr_task_cut *cut, struct orr__k_cut *out) {
    *out = (struct orr__k_cut){.to_data = cut->to, .from_data = cut->from};
    for (int i = 0; i < cut->rank; i++) {
        if (cut->counts[i] == 0)
            return false;
        if (cut->counts[i] > 1)
            add_loop(out, cut->counts[i], cut->to_strides[i], cut->from_strides[i]);
    }
    if (cut->width == 0)
        return false;
    add_loop(out, cut->width, 1, 1);
    choose_unit(out);
    out->count = 1;
    for (int i = 0; i < out->to.rank; i++)
        out->count *= out->to.dims[i];
    out->to.small = out->count <= INT32_MAX;
    return true;
}

/* ---- Launching ---- */

static enum orr_status launch_batch(struct orr__cuda_queue *queue, struct orr__k_cuts *batch,
                                    struct orr_error *error) {
    int64_t most = 0;
    for (int32_t i = 0; i < batch->count; i++)
        if (batch->cuts[i].count > most)
            most = batch->cuts[i].count;
    bool one = batch->count == 1;
    enum orr_status status = orr__cuda_launch(
        queue, one ? ORR__K_move_cut : ORR__K_move_cuts, orr__cuda_grid(queue, (uint64_t)most),
        ORR__CUDA_BLOCK, 0, one ? (const void *)&batch->cuts[0] : batch, error);
    batch->count = 0;
    return status;
}

/* Zeros go first, at once: cuts that come later may overwrite them, and earlier ones don't touch
 * them. */
static enum orr_status add_cut(struct orr__cuda_queue *queue, const struct orr_task_cut *cut,
                               struct orr__k_cuts *batch, struct orr_error *error) {
    if (!cut->from)
        return orr__cuda_zero(queue, cut->to, cut->width, error);
    batch->count += kernel_cut(cut, &batch->cuts[batch->count]);
    return batch->count == ORR__K_CUTS_MAX ? launch_batch(queue, batch, error) : ORR_OK;
}

enum orr_status orr__cuda_cuts(struct orr__cuda_queue *queue, const struct orr_task_cut *cuts,
                               uint32_t count, struct orr_error *error) {
    struct orr__k_cuts batch = {.count = 0};
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; i < count && status == ORR_OK; i++)
        status = add_cut(queue, &cuts[i], &batch, error);
    return status == ORR_OK ? launch_batch(queue, &batch, error) : status;
}

enum orr_status orr__cuda_move(struct orr__cuda_queue *queue, const struct orr_task_move *move,
                               struct orr_error *error) {
    struct orr__k_cuts batch = {.count = 0};
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; i < move->count && status == ORR_OK; i++) {
        struct orr_task_cut cut;
        move->cut(move->cuts, i, &cut);
        status = add_cut(queue, &cut, &batch, error);
    }
    return status == ORR_OK ? launch_batch(queue, &batch, error) : status;
}

/* ---- Operators as cuts ---- */

/* All elements of `shape`, with strides in elements on both sides. */
static struct orr_task_cut cut_over(const struct orr_shape *shape, const int64_t *to_strides,
                                    const int64_t *from_strides, size_t size, void *to,
                                    const void *from) {
    struct orr_task_cut cut = {.rank = shape->rank, .width = size, .to = to, .from = from};
    for (int i = 0; i < shape->rank; i++) {
        cut.counts[i] = (uint64_t)shape->dims[i];
        cut.to_strides[i] = (uint64_t)to_strides[i] * size;
        cut.from_strides[i] = (uint64_t)from_strides[i] * size;
    }
    return cut;
}

/* The result's elements in its own order, from x with these strides and offset. */
static enum orr_status gather(struct orr__cuda_queue *queue, const struct orr_tensor_view *y,
                              const struct orr_tensor_view *x, const int64_t *strides,
                              int64_t offset, struct orr_error *error) {
    int64_t dense[ORR_RANK_MAX] = {0};
    size_t size = orr_dtype_size(y->dtype);
    orr__dense_strides(&y->shape, dense);
    struct orr_task_cut cut = cut_over(&y->shape, dense, strides, size, y->data,
                                       (const char *)x->data + (size_t)offset * size);
    return orr__cuda_cuts(queue, &cut, 1, error);
}

/* Whether the last two dimensions, after merging, just change places. */
static bool is_turn(const struct orr__strided *array, struct orr__k_turn *a) {
    int rank = array->rank;
    if (rank < 2 || rank > 3)
        return false;
    const int64_t *dims = array->dims + rank - 2, *strides = array->strides + rank - 2;
    a->batch = rank == 3 ? array->dims[0] : 1;
    a->rows = dims[1];
    a->columns = dims[0];
    return strides[0] == 1 && strides[1] == dims[0] &&
           (rank == 2 || array->strides[0] == dims[0] * dims[1]);
}

static enum orr_status launch_transpose(struct orr__cuda_queue *queue,
                                        const struct orr_task_operator *call,
                                        struct orr_error *error) {
    enum { TILE = 32, TILE_SHARED = TILE * (TILE + 1) };
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->outputs[0];
    const struct orr_shape *perm = &orr__cuda_attribute(call, "perm")->shape;
    struct orr__strided array = {.rank = x->shape.rank};
    int64_t strides[ORR_RANK_MAX] = {0}, permuted[ORR_RANK_MAX] = {0};
    if (orr_shape_count(&x->shape) == 0)
        return ORR_OK;
    orr__dense_strides(&x->shape, strides);
    for (int i = 0; i < x->shape.rank; i++) {
        int rank = x->shape.rank, dim = i;
        if (perm->rank > 0)
            dim = (int)(perm->dims[i] < 0 ? perm->dims[i] + rank : perm->dims[i]);
        else if (i >= rank - 2)
            dim = i == rank - 1 ? rank - 2 : rank - 1;
        array.dims[i] = x->shape.dims[dim];
        array.strides[i] = permuted[i] = strides[dim];
    }
    orr__strided_merge(&array);
    struct orr__k_turn a = {.y = y->data, .x = x->data, .size = (int32_t)orr_dtype_size(x->dtype)};
    if (!is_turn(&array, &a))
        return gather(queue, y, x, permuted, 0, error);
    uint64_t tiles = (uint64_t)a.batch * (uint64_t)((a.rows + TILE - 1) / TILE) *
                     (uint64_t)((a.columns + TILE - 1) / TILE);
    return orr__cuda_launch(queue, ORR__K_turn, orr__cuda_grid_rows(queue, tiles), ORR__CUDA_BLOCK,
                            TILE_SHARED * (uint32_t)a.size, &a, error);
}

static enum orr_status launch_slice(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0];
    const struct orr_shape *starts = &orr__cuda_attribute(call, "starts")->shape;
    int64_t strides[ORR_RANK_MAX] = {0}, offset = 0;
    if (orr_shape_count(&call->outputs[0].shape) == 0)
        return ORR_OK;
    orr__dense_strides(&x->shape, strides);
    for (int i = 0; i < x->shape.rank; i++) {
        int64_t start = i < starts->rank ? starts->dims[i] : 0;
        offset += (start < 0 ? start + x->shape.dims[i] : start) * strides[i];
    }
    return gather(queue, &call->outputs[0], x, strides, offset, error);
}

static enum orr_status launch_pad(struct orr__cuda_queue *queue,
                                  const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->outputs[0];
    const struct orr_shape *before = &orr__cuda_attribute(call, "before")->shape;
    int64_t to_strides[ORR_RANK_MAX] = {0}, from_strides[ORR_RANK_MAX] = {0}, offset = 0;
    size_t size = orr_dtype_size(x->dtype);
    enum orr_status status = orr__cuda_zero(queue, y->data, orr__cuda_bytes(y), error);
    if (status != ORR_OK || orr_shape_count(&x->shape) == 0)
        return status;
    orr__dense_strides(&y->shape, to_strides);
    orr__dense_strides(&x->shape, from_strides);
    for (int i = 0; i < x->shape.rank; i++)
        offset += (i < before->rank ? before->dims[i] : 0) * to_strides[i];
    struct orr_task_cut cut = cut_over(&x->shape, to_strides, from_strides, size,
                                       (char *)y->data + (size_t)offset * size, x->data);
    return orr__cuda_cuts(queue, &cut, 1, error);
}

static enum orr_status launch_concat(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *y = &call->outputs[0];
    struct orr_task_cut cuts[ORR_INPUTS_MAX];
    int64_t dim = orr__cuda_integer(call, "dim"), offset = 0;
    int64_t to_strides[ORR_RANK_MAX] = {0}, from_strides[ORR_RANK_MAX] = {0};
    size_t size = orr_dtype_size(y->dtype);
    dim = dim < 0 ? dim + y->shape.rank : dim;
    orr__dense_strides(&y->shape, to_strides);
    for (int i = 0; i < call->input_count; i++) {
        const struct orr_tensor_view *x = &call->inputs[i];
        orr__dense_strides(&x->shape, from_strides);
        cuts[i] = cut_over(&x->shape, to_strides, from_strides, size,
                           (char *)y->data + (size_t)offset * size, x->data);
        offset += x->shape.dims[dim] * to_strides[dim];
    }
    return orr__cuda_cuts(queue, cuts, (uint32_t)call->input_count, error);
}

/* The dimensions in the attribute `dims`, as a set. */
static unsigned dims_of(const struct orr_task_operator *call) {
    const struct orr_shape *dims = &orr__cuda_attribute(call, "dims")->shape;
    unsigned set = 0;
    for (int i = 0; i < dims->rank; i++)
        set |= 1u << dims->dims[i];
    return set;
}

/* x has the repeated dimensions with size 1, or lacks them. */
static enum orr_status launch_expand(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_shape *x = &call->inputs[0].shape, *y = &call->outputs[0].shape;
    unsigned repeated = dims_of(call);
    int64_t dense[ORR_RANK_MAX] = {0}, strides[ORR_RANK_MAX] = {0};
    int next = 0;
    orr__dense_strides(x, dense);
    for (int i = 0; i < y->rank; i++) {
        bool repeats = repeated >> i & 1u;
        strides[i] = repeats ? 0 : dense[next];
        next += !repeats || x->rank == y->rank;
    }
    return gather(queue, &call->outputs[0], &call->inputs[0], strides, 0, error);
}

/* ---- Casts ---- */

static enum orr_status launch_cast(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    struct orr__k_cast a = {.to = call->outputs[0].data,
                            .from = call->inputs[0].data,
                            .count = orr_shape_count(&call->inputs[0].shape),
                            .to_dtype = (int32_t)call->outputs[0].dtype,
                            .from_dtype = (int32_t)call->inputs[0].dtype};
    return orr__cuda_launch(queue, ORR__K_cast, orr__cuda_grid(queue, (uint64_t)a.count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

const struct orr__cuda_operator orr__cuda_move_operators[] = {
    {"transpose", launch_transpose},
    {"slice", launch_slice},
    {"pad", launch_pad},
    {"concat", launch_concat},
    {"expand", launch_expand},
    {"cast", launch_cast},
    {NULL, NULL},
};
