/* Launchers of layernorm, rmsnorm, groupnorm and their gradients. */
#include "runtime/cuda/launch_rows.h"
#include "runtime/cuda/launch_sum.h"

enum norm_kind { NORM_LAYER, NORM_RMS, NORM_GROUP };

static struct orr__k_norm_rows rows_of(const struct orr_task_operator *call, enum norm_kind kind,
                                       const struct orr_tensor_view *x) {
    const struct orr_shape *shape = &x->shape;
    struct orr__k_norm_rows rows = {
        .groups = 1,
        .places = 1,
        .eps = orr__cuda_real(call, "eps"),
        .dtype = (int)x->dtype,
        .centered = kind != NORM_RMS,
    };
    if (kind == NORM_GROUP) {
        rows.groups = orr__cuda_integer(call, "groups");
        rows.rows = shape->dims[0] * rows.groups;
        rows.channels = shape->dims[1] / rows.groups;
        for (int i = 2; i < shape->rank; i++)
            rows.places *= shape->dims[i];
    } else {
        rows.rows = orr__cuda_row_count(shape);
        rows.channels = orr__row_length(shape);
    }
    rows.width = rows.channels * rows.places;
    return rows;
}

static enum orr_status launch_norm(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, enum norm_kind kind,
                                   struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0];
    struct orr__k_norm a = {
        .rows = rows_of(call, kind, x),
        .x = x->data,
        .weight = orr__cuda_optional(call, 1),
        .bias = orr__cuda_optional(call, 2),
        .y = call->outputs[0].data,
    };
    if (a.rows.width == 0)
        return ORR_OK;
    return orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(norm, x->dtype), a.rows.rows,
                                 a.rows.width, &a, error);
}

static enum orr_status launch_backward(struct orr__cuda_queue *queue,
                                       const struct orr_task_operator *call, enum norm_kind kind,
                                       struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[1];
    struct orr__k_norm_backward a = {
        .rows = rows_of(call, kind, x),
        .grad = call->inputs[0].data,
        .x = x->data,
        .weight = orr__cuda_optional(call, 2),
        .to = call->outputs[0].data,
    };
    if (a.rows.width == 0)
        return ORR_OK;
    return orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(norm_backward, x->dtype), a.rows.rows,
                                 a.rows.width, &a, error);
}

/* ---- Gradients of weight and bias ----
 *
 * The moments of all rows, then sums of some rows each (or of the places of one sample's channel),
 * then the sums of those. */

/* Rows that a thread of norm_columns adds: as launch_sum.h cuts columns. */
enum { COLUMN_CHUNK = 128, COLUMN_CHUNKS = 1024 };

/* Partial sums: [parts, results], and the memory for them. */
struct partial {
    int64_t parts, results;
    double *moments, *dw, *db;
    void *rest; /* for the sums of the parts */
};

static enum orr_status open_partial(struct orr__cuda_queue *queue,
                                    const struct orr__k_norm_rows *rows, struct partial *partial,
                                    struct orr_error *error) {
    int64_t moments = rows->rows * 2, sums = partial->parts * partial->results;
    uint64_t bytes = (uint64_t)(moments + 2 * sums) * sizeof(double);
    bytes += orr__cuda_sum_bytes(1, partial->parts, partial->results);
    void *scratch;
    enum orr_status status = orr__cuda_scratch(queue, bytes, &scratch, error);
    partial->moments = scratch;
    if (status != ORR_OK)
        return status;
    partial->dw = partial->moments + moments;
    partial->db = partial->dw + sums;
    partial->rest = partial->db + sums;
    return ORR_OK;
}

static enum orr_status launch_moments(struct orr__cuda_queue *queue,
                                      const struct orr__k_norm_rows *rows,
                                      const struct orr_tensor_view *x, double *moments,
                                      struct orr_error *error) {
    struct orr__k_norm_moments a = {.rows = *rows, .x = x->data, .moments = moments};
    if (rows->width == 0)
        return ORR_OK;
    return orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(norm_moments, x->dtype), rows->rows,
                                 rows->width, &a, error);
}

/* Adds the parts to a result. */
static enum orr_status launch_parts(struct orr__cuda_queue *queue, const struct partial *partial,
                                    const double *from, const struct orr_tensor_view *to,
                                    struct orr_error *error) {
    struct orr__cuda_sum sum = {
        .x = from,
        .dtype = ORR_DTYPE_F64,
        .outer = 1,
        .n = partial->parts,
        .inner = partial->results,
        .divisor = 1,
        .to = to->data,
        .to_dtype = (int)to->dtype,
    };
    return orr__cuda_sum(queue, &sum, partial->rest, error);
}

static enum orr_status launch_weight(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call, enum norm_kind kind,
                                     struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[1];
    struct orr__k_norm_weight a = {
        .rows = rows_of(call, kind, x), .grad = call->inputs[0].data, .x = x->data};
    bool columns = kind != NORM_GROUP, has_bias = kind != NORM_RMS;
    struct partial partial = {.results = a.rows.groups * a.rows.channels};
    if (columns) {
        a.chunk = a.rows.rows / COLUMN_CHUNKS + (a.rows.rows % COLUMN_CHUNKS != 0);
        a.chunk = a.chunk < COLUMN_CHUNK ? COLUMN_CHUNK : a.chunk;
        a.chunks = a.rows.rows / a.chunk + (a.rows.rows % a.chunk != 0);
    }
    partial.parts = columns ? a.chunks : a.rows.rows / a.rows.groups;
    enum orr_status status = open_partial(queue, &a.rows, &partial, error);
    if (status == ORR_OK)
        status = launch_moments(queue, &a.rows, x, partial.moments, error);
    if (status != ORR_OK)
        return status;
    a.moments = partial.moments;
    a.dw = partial.dw;
    a.db = has_bias ? partial.db : NULL;
    int64_t sums = partial.parts * partial.results;
    if (columns)
        status = orr__cuda_launch_each(queue, ORR__CUDA_KERNEL_FOR(norm_columns, x->dtype), sums,
                                       &a, error);
    else
        status = orr__cuda_launch_rows(queue, ORR__CUDA_KERNEL_FOR(norm_places, x->dtype), sums,
                                       a.rows.places, &a, error);
    if (status == ORR_OK)
        status = launch_parts(queue, &partial, partial.dw, &call->outputs[0], error);
    if (status == ORR_OK && has_bias)
        status = launch_parts(queue, &partial, partial.db, &call->outputs[1], error);
    return status;
}

#define LAUNCHER(id, launch, kind)                                                                 \
    static enum orr_status launch_##id(struct orr__cuda_queue *queue,                              \
                                       const struct orr_task_operator *call,                       \
                                       struct orr_error *error) {                                  \
        return launch(queue, call, kind, error);                                                   \
    }
LAUNCHER(layernorm, launch_norm, NORM_LAYER)
LAUNCHER(rmsnorm, launch_norm, NORM_RMS)
LAUNCHER(groupnorm, launch_norm, NORM_GROUP)
LAUNCHER(layernorm_backward, launch_backward, NORM_LAYER)
LAUNCHER(rmsnorm_backward, launch_backward, NORM_RMS)
LAUNCHER(groupnorm_backward, launch_backward, NORM_GROUP)
LAUNCHER(layernorm_backward_weight, launch_weight, NORM_LAYER)
LAUNCHER(rmsnorm_backward_weight, launch_weight, NORM_RMS)
LAUNCHER(groupnorm_backward_weight, launch_weight, NORM_GROUP)

const struct orr__cuda_operator orr__cuda_norm_operators[] = {
    {"layernorm", launch_layernorm},
    {"rmsnorm", launch_rmsnorm},
    {"groupnorm", launch_groupnorm},
    {"layernorm_backward", launch_layernorm_backward},
    {"rmsnorm_backward", launch_rmsnorm_backward},
    {"groupnorm_backward", launch_groupnorm_backward},
    {"layernorm_backward_weight", launch_layernorm_backward_weight},
    {"rmsnorm_backward_weight", launch_rmsnorm_backward_weight},
    {"groupnorm_backward_weight", launch_groupnorm_backward_weight},
    {NULL, NULL},
};
