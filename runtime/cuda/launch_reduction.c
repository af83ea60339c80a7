/* Launchers of sum, mean, max, argmax, max_backward, unbroadcast and count_nonfinite. */
#include "runtime/cuda/launch_rows.h"
#include "runtime/cuda/launch_sum.h"

struct view3 {
    int64_t outer, n, inner;
};

/* A tensor around the dimension that is reduced. */
static struct view3 view_of(const struct orr_shape *x, int64_t dim) {
    if (dim == ORR_DIM_ALL)
        return (struct view3){1, orr_shape_count(x), 1};
    int at = (int)(dim < 0 ? dim + x->rank : dim);
    struct view3 view = {1, x->dims[at], 1};
    for (int i = 0; i < x->rank; i++) {
        view.outer *= i < at ? x->dims[i] : 1;
        view.inner *= i > at ? x->dims[i] : 1;
    }
    return view;
}

static enum orr_status launch_sum(struct orr__cuda_queue *queue,
                                  const struct orr_task_operator *call, bool mean,
                                  struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->outputs[0];
    struct view3 view = view_of(&x->shape, orr__cuda_integer(call, "dim"));
    struct orr__cuda_sum sum = {
        .x = x->data,
        .dtype = (int)x->dtype,
        .outer = view.outer,
        .n = view.n,
        .inner = view.inner,
        .divisor = 1,
        .to = y->data,
        .to_dtype = (int)y->dtype,
    };
    if (mean) {
        int64_t total = orr__cuda_integer(call, "total");
        sum.divisor = (double)(total ? total : view.n);
    }
    void *scratch;
    enum orr_status status = orr__cuda_scratch(
        queue, orr__cuda_sum_bytes(view.outer, view.n, view.inner), &scratch, error);
    return status == ORR_OK ? orr__cuda_sum(queue, &sum, scratch, error) : status;
}

static enum orr_status launch_plain_sum(struct orr__cuda_queue *queue,
                                        const struct orr_task_operator *call,
                                        struct orr_error *error) {
    return launch_sum(queue, call, false, error);
}

static enum orr_status launch_mean(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    return launch_sum(queue, call, true, error);
}

static enum orr_status launch_count(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->outputs[0];
    struct orr__cuda_sum sum = {
        .kind = ORR__CUDA_SUM_NONFINITE,
        .x = x->data,
        .dtype = (int)x->dtype,
        .outer = 1,
        .n = orr_shape_count(&x->shape),
        .inner = 1,
        .divisor = 1,
        .to = y->data,
        .to_dtype = (int)y->dtype,
    };
    void *scratch;
    enum orr_status status =
        orr__cuda_scratch(queue, orr__cuda_sum_bytes(1, sum.n, 1), &scratch, error);
    return status == ORR_OK ? orr__cuda_sum(queue, &sum, scratch, error) : status;
}

/* ---- Maxima ---- */

static struct orr__cuda_largest largest_of(const struct orr_tensor_view *x, int64_t dim) {
    struct view3 view = view_of(&x->shape, dim);
    return (struct orr__cuda_largest){
        .x = x->data,
        .dtype = (int)x->dtype,
        .outer = view.outer,
        .n = view.n,
        .inner = view.inner,
    };
}

static enum orr_status launch_largest(struct orr__cuda_queue *queue,
                                      const struct orr__cuda_largest *largest,
                                      struct orr_error *error) {
    uint64_t bytes = orr__cuda_largest_bytes(largest->outer, largest->n, largest->inner);
    void *scratch;
    enum orr_status status = orr__cuda_scratch(queue, bytes, &scratch, error);
    return status == ORR_OK ? orr__cuda_largest(queue, largest, scratch, error) : status;
}

static enum orr_status launch_max(struct orr__cuda_queue *queue,
                                  const struct orr_task_operator *call, struct orr_error *error) {
    struct orr__cuda_largest largest = largest_of(&call->inputs[0], orr__cuda_integer(call, "dim"));
    largest.values = call->outputs[0].data;
    return launch_largest(queue, &largest, error);
}

static enum orr_status launch_argmax(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    struct orr__cuda_largest largest = largest_of(&call->inputs[0], orr__cuda_integer(call, "dim"));
    largest.indices = call->outputs[0].data;
    return launch_largest(queue, &largest, error);
}

/* Where the largest elements are, in scratch memory, and then the gradient there. */
static enum orr_status launch_max_backward(struct orr__cuda_queue *queue,
                                           const struct orr_task_operator *call,
                                           struct orr_error *error) {
    const struct orr_tensor_view *grad = &call->inputs[0], *x = &call->inputs[1];
    struct orr__cuda_largest largest = largest_of(x, orr__cuda_integer(call, "dim"));
    int64_t count = orr_shape_count(&x->shape), results = orr_shape_count(&grad->shape);
    uint64_t bytes = orr__cuda_largest_bytes(largest.outer, largest.n, largest.inner);
    void *scratch;
    if (count == 0)
        return ORR_OK;
    enum orr_status status =
        orr__cuda_scratch(queue, bytes + (uint64_t)results * sizeof(int64_t), &scratch, error);
    if (status != ORR_OK)
        return status;
    largest.indices = scratch;
    status = orr__cuda_largest(queue, &largest, (int64_t *)scratch + results, error);
    if (status != ORR_OK)
        return status;
    struct orr__k_spread a = {
        .outer = largest.outer,
        .n = largest.n,
        .inner = largest.inner,
        .grad = grad->data,
        .indices = largest.indices,
        .to = call->outputs[0].data,
        .dtype = (int)x->dtype,
    };
    return orr__cuda_launch_each(queue, ORR__K_spread, count, &a, error);
}

/* ---- unbroadcast: one sum after another ---- */

/* Neighbouring dimensions that are all summed, or all kept. */
struct runs {
    int count;
    int64_t size[ORR_RANK_MAX];
    bool summed[ORR_RANK_MAX];
};

static struct runs runs_of(const struct orr_shape *x, const struct orr_shape *dims) {
    struct runs runs = {0};
    for (int i = 0; i < x->rank; i++) {
        bool summed = false;
        for (int k = 0; k < dims->rank; k++)
            summed = summed || dims->dims[k] == i;
        if (x->dims[i] == 1)
            continue;
        if (runs.count > 0 && runs.summed[runs.count - 1] == summed) {
            runs.size[runs.count - 1] *= x->dims[i];
            continue;
        }
        runs.size[runs.count] = x->dims[i];
        runs.summed[runs.count++] = summed;
    }
    return runs;
}

/* Takes the largest run that is summed out of the array; false if there is none. */
static bool take_sum(struct runs *runs, struct view3 *out_view) {
    int at = -1;
    for (int i = 0; i < runs->count; i++)
        if (runs->summed[i] && (at < 0 || runs->size[i] > runs->size[at]))
            at = i;
    if (at < 0)
        return false;
    *out_view = (struct view3){1, runs->size[at], 1};
    for (int i = 0; i < runs->count; i++) {
        out_view->outer *= i < at ? runs->size[i] : 1;
        out_view->inner *= i > at ? runs->size[i] : 1;
    }
    runs->size[at] = 1;
    runs->summed[at] = false;
    return true;
}

/* The sums in their order, and the scratch memory that they need; results of all but the last are
 * there too, in f64. */
struct sums {
    int count;
    struct view3 at[ORR_RANK_MAX];
    uint64_t bytes;
};

static struct sums plan_sums(struct runs runs) {
    struct sums sums = {0};
    while (take_sum(&runs, &sums.at[sums.count])) {
        const struct view3 *view = &sums.at[sums.count++];
        sums.bytes += orr__cuda_sum_bytes(view->outer, view->n, view->inner);
        sums.bytes += (uint64_t)(view->outer * view->inner) * sizeof(double);
    }
    return sums;
}

static enum orr_status copy(struct orr__cuda_queue *queue, const struct orr_tensor_view *from,
                            const struct orr_tensor_view *to, struct orr_error *error) {
    size_t bytes = (size_t)orr_shape_count(&from->shape) * orr_dtype_size(from->dtype);
    if (bytes == 0)
        return ORR_OK;
    return orr__cuda_check(queue->api,
                           queue->api->rt.cudaMemcpyAsync(to->data, from->data, bytes,
                                                          cudaMemcpyDefault, queue->stream),
                           "cudaMemcpyAsync", error);
}

static enum orr_status launch_unbroadcast(struct orr__cuda_queue *queue,
                                          const struct orr_task_operator *call,
                                          struct orr_error *error) {
    const struct orr_tensor_view *x = &call->inputs[0], *y = &call->outputs[0];
    struct sums sums = plan_sums(runs_of(&x->shape, &orr__cuda_attribute(call, "dims")->shape));
    if (sums.count == 0)
        return copy(queue, x, y, error);
    void *scratch;
    enum orr_status status = orr__cuda_scratch(queue, sums.bytes, &scratch, error);
    struct orr__cuda_sum sum = {.x = x->data, .dtype = (int)x->dtype, .divisor = 1};
    char *next = scratch;
    for (int i = 0; i < sums.count && status == ORR_OK; i++) {
        const struct view3 *view = &sums.at[i];
        bool last = i == sums.count - 1;
        sum.outer = view->outer;
        sum.n = view->n;
        sum.inner = view->inner;
        sum.to = last ? y->data : next;
        sum.to_dtype = last ? (int)y->dtype : ORR_DTYPE_F64;
        next += (uint64_t)(view->outer * view->inner) * sizeof(double);
        status = orr__cuda_sum(queue, &sum, next, error);
        next += orr__cuda_sum_bytes(view->outer, view->n, view->inner);
        sum.x = sum.to;
        sum.dtype = sum.to_dtype;
    }
    return status;
}

const struct orr__cuda_operator orr__cuda_reduction_operators[] = {
    {"sum", launch_plain_sum},
    {"mean", launch_mean},
    {"max", launch_max},
    {"argmax", launch_argmax},
    {"max_backward", launch_max_backward},
    {"unbroadcast", launch_unbroadcast},
    {"count_nonfinite", launch_count},
    {NULL, NULL},
};
