/* Futures: values on their way to the host. */
#include <assert.h>
#include <string.h>

#include "runtime/redistribute_internal.h"

/* One piece in pinned memory. */
struct arrival {
    uint32_t rank;
    struct orr_buffer *staging; /* NULL: an empty piece */
    char *values;               /* the host's, while orr_future_get reads one after the other */
    struct orr_point point;
};

struct orr_future {
    struct orr_runtime *runtime;
    struct orr_future *previous, *next; /* live ones of the runtime */
    struct orr_operand_info info;
    struct orr_layout layout;
    struct arrival *arrivals;
    struct orr_point *points; /* of the arrivals, for waiting */
    uint32_t count;
    bool waited; /* orr_future_get has waited, and reads */
};

/* Replicas need to be fetched only once. */
static bool is_needed(const struct orr_layout *layout, uint32_t rank) {
    for (int axis = 0; axis < layout->mesh->axis_count; axis++) {
        if (layout->axes[axis].kind == ORR_REPLICATE &&
            orr_mesh_coordinate(layout->mesh, rank, axis) != 0) {
            return false;
        }
    }
    return true;
}

static struct orr_shape piece_of(const struct orr_future *future, uint32_t rank,
                                 int64_t *out_starts) {
    return orr_layout_local(&future->layout, &future->info.shape, rank, out_starts);
}

static enum orr_status fetch(struct orr_future *future, struct orr_tensor *tensor, uint32_t rank) {
    struct orr_runtime *runtime = future->runtime;
    struct arrival *arrival = &future->arrivals[future->count];
    struct orr_shape piece = piece_of(future, rank, NULL);
    uint64_t bytes = (uint64_t)orr_shape_count(&piece) * orr_dtype_size(future->info.dtype);
    arrival->rank = rank;
    struct orr__blob *blob = orr__tensor_blob(tensor, rank);
    struct orr_stream *stream =
        orr_device_stream(runtime, future->layout.mesh->devices[rank], ORR_STREAM_COPY);
    if (!stream) {
        return ORR_NO_MEMORY;
    }
    enum orr_status status = ORR_OK;
    if (bytes > 0) {
        status = orr_buffer_alloc_host(runtime, bytes, "future", &arrival->staging);
        if (status == ORR_OK) {
            status = orr__blob_use(blob, stream);
        }
        if (status == ORR_OK) {
            status = orr_stream_copy(stream, arrival->staging, 0, blob->buffer, 0, bytes);
        }
    }
    arrival->point = orr_stream_point(stream);
    future->points[future->count++] = arrival->point;
    return status;
}

/* Is the tensor partial in different ways along different axes, or an average that is not divided
 * exactly? Then devices reduce it: terms that arrive here are combined in any order, as numbers. */
static bool devices_reduce(const struct orr_tensor *tensor, struct orr_layout *layout) {
    int first = -1;
    bool mixes = false;
    for (int axis = 0; axis < layout->mesh->axis_count; axis++) {
        struct orr_placement placement = tensor->layout.axes[axis];
        if (placement.kind != ORR_PARTIAL) {
            continue;
        }
        first = first < 0 ? axis : first;
        mixes |= placement.reduction != tensor->layout.axes[first].reduction ||
                 (placement.reduction == ORR_AVG && !orr_dtype_is_float(tensor->info.dtype));
        layout->axes[axis] = (struct orr_placement){.kind = ORR_REPLICATE};
    }
    return mixes;
}

/* A future of the tensor with its terms reduced. */
static enum orr_status future_of_reduced(struct orr_tensor *tensor, const struct orr_layout *layout,
                                         struct orr_future **out_future) {
    struct orr_tensor *reduced;
    enum orr_status status = orr__redistribute(tensor, layout, &reduced);
    if (status == ORR_OK) {
        status = orr_tensor_future(reduced, out_future);
        orr__tensor_release(reduced);
    }
    return status;
}

enum orr_status orr_tensor_future(struct orr_tensor *tensor, struct orr_future **out_future) {
    struct orr_runtime *runtime = tensor->runtime;
    *out_future = NULL;
    enum orr_status status = orr__runtime_turn(runtime);
    if (status == ORR_OK) {
        status = orr__region_flush(runtime, true);
    }
    if (status != ORR_OK) {
        return status;
    }
    status = orr__tensor_check_kept(tensor, "future");
    if (status != ORR_OK) {
        return status;
    }
    struct orr_layout layout = tensor->layout;
    if (devices_reduce(tensor, &layout)) {
        return future_of_reduced(tensor, &layout, out_future);
    }
    uint32_t size = tensor->layout.mesh->size;
    struct orr_future *future = orr_memory_alloc(runtime->memory, sizeof *future);
    if (!future) {
        return orr__runtime_no_memory(runtime);
    }
    *future = (struct orr_future){.runtime = runtime,
                                  .info = tensor->info,
                                  .layout = tensor->layout,
                                  .next = runtime->futures};
    if (future->next) {
        future->next->previous = future;
    }
    runtime->futures = future;
    future->arrivals = orr_memory_alloc(runtime->memory, size * sizeof *future->arrivals);
    future->points = orr_memory_alloc(runtime->memory, size * sizeof *future->points);
    if (!future->arrivals || !future->points) {
        status = orr__runtime_no_memory(runtime);
    }
    orr__runtime_operator_begin(runtime, future->layout.mesh->devices[0], -1);
    for (uint32_t rank = 0; status == ORR_OK && rank < size; rank++) {
        if (is_needed(&future->layout, rank)) {
            status = fetch(future, tensor, rank);
        }
    }
    orr__runtime_operator_end(runtime, status == ORR_OK);
    if (status != ORR_OK) {
        orr_future_destroy(&future);
        return status;
    }
    *out_future = future;
    return ORR_OK;
}

enum orr_status orr_future_query(struct orr_future *future) {
    struct orr_runtime *runtime = future->runtime;
    for (uint32_t i = 0; i < future->count; i++) {
        struct orr_point point = future->points[i];
        if (orr__point_retired(runtime, point)) {
            enum orr_status status = orr__runtime_reserve_seen(runtime, 1);
            if (status != ORR_OK) {
                return status;
            }
            orr__runtime_saw(runtime, &point, 1);
            continue;
        }
        enum orr_status status = orr__runtime_query(runtime, &point, 1, ORR_SYNC_FUTURE, 0);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* --- putting pieces together --- */

/* Combines a term of a partial tensor with what is there. */
static double combine(enum orr_reduction reduction, double a, double b) {
    switch (reduction) {
    case ORR_MAX: return a > b ? a : b;
    case ORR_MIN: return a < b ? a : b;
    default: return a + b;
    }
}

/* The reduction of the terms of a rank's piece, and its number of terms; 1 if it is whole. */
static enum orr_reduction reduction_of(const struct orr_layout *layout, int64_t *out_terms) {
    enum orr_reduction reduction = ORR_SUM;
    *out_terms = 1;
    for (int axis = 0; axis < layout->mesh->axis_count; axis++) {
        if (layout->axes[axis].kind == ORR_PARTIAL) {
            reduction = layout->axes[axis].reduction;
            *out_terms *= layout->mesh->dims[axis];
        }
    }
    return reduction;
}

static bool is_first_term(const struct orr_layout *layout, uint32_t rank) {
    for (int axis = 0; axis < layout->mesh->axis_count; axis++) {
        if (layout->axes[axis].kind == ORR_PARTIAL &&
            orr_mesh_coordinate(layout->mesh, rank, axis) != 0) {
            return false;
        }
    }
    return true;
}

static void place(const struct orr_future *future, const struct arrival *arrival, char *to) {
    int64_t starts[ORR_RANK_MAX], terms;
    struct orr_shape piece = piece_of(future, arrival->rank, starts);
    enum orr_dtype dtype = future->info.dtype;
    size_t element = orr_dtype_size(dtype);
    enum orr_reduction reduction = reduction_of(&future->layout, &terms);
    bool first = is_first_term(&future->layout, arrival->rank);
    int64_t count = orr_shape_count(&piece);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int dim = piece.rank - 1; dim >= 0; dim--) {
            at += (rest % piece.dims[dim] + starts[dim]) * stride;
            rest /= piece.dims[dim];
            stride *= future->info.shape.dims[dim];
        }
        if (first) {
            memcpy(to + (size_t)at * element, arrival->values + (size_t)i * element, element);
        } else {
            double sum = combine(reduction, orr_dtype_load(dtype, to, (size_t)at),
                                 orr_dtype_load(dtype, arrival->values, (size_t)i));
            orr_dtype_store(dtype, to, (size_t)at, sum);
        }
    }
}

static void average(const struct orr_future *future, void *values) {
    int64_t terms, count = orr_shape_count(&future->info.shape);
    if (reduction_of(&future->layout, &terms) != ORR_AVG) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double sum = orr_dtype_load(future->info.dtype, values, (size_t)i);
        orr_dtype_store(future->info.dtype, values, (size_t)i, sum / (double)terms);
    }
}

static enum orr_status read_piece(struct orr_runtime *runtime, struct arrival *arrival) {
    uint64_t bytes = orr_buffer_bytes(arrival->staging);
    char *values = orr_memory_alloc(runtime->memory, bytes);
    if (!values) {
        return orr__runtime_no_memory(runtime);
    }
    enum orr_status status = orr__buffer_read(arrival->staging, values, 0, bytes, -1);
    if (status == ORR_OK) {
        arrival->values = values;
    } else {
        orr_memory_free(runtime->memory, values);
    }
    return status;
}

/* Waits and reads every piece once: whoever is blocked in between repeats the call, and would else
 * pay for all of it again, and be late again. */
static enum orr_status collect(struct orr_future *future) {
    enum orr_status status = ORR_OK;
    if (!future->waited) {
        status = orr__runtime_wait(future->runtime, future->points, future->count, ORR_WAIT_ALL,
                                   ORR_TIME_MAX, ORR_SYNC_FUTURE, 0, NULL);
        future->waited = status == ORR_OK;
    }
    for (uint32_t i = 0; status == ORR_OK && i < future->count; i++) {
        struct arrival *arrival = &future->arrivals[i];
        if (arrival->staging && !arrival->values) {
            status = read_piece(future->runtime, arrival);
        }
    }
    return status;
}

/* Whoever gets the values again waits and reads again. */
static void forget(struct orr_future *future) {
    future->waited = false;
    for (uint32_t i = 0; future->arrivals && i < future->count; i++) {
        orr_memory_free(future->runtime->memory, future->arrivals[i].values);
        future->arrivals[i].values = NULL;
    }
}

enum orr_status orr_future_wait(struct orr_future *future) {
    orr_error_clear(&future->runtime->error);
    enum orr_status status = collect(future);
    if (status != ORR_OK && status != ORR_BLOCKED) {
        forget(future);
    }
    return status;
}

enum orr_status orr_future_get(struct orr_future *future, void *values, size_t bytes) {
    struct orr_runtime *runtime = future->runtime;
    uint64_t wanted =
        (uint64_t)orr_shape_count(&future->info.shape) * orr_dtype_size(future->info.dtype);
    if (runtime->timing_only) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "a value is read, but timing-only runs have no values");
    }
    if (bytes != wanted) {
        return orr__runtime_fail(runtime, ORR_INVALID, "the future holds %llu bytes, not %llu",
                                 (unsigned long long)wanted, (unsigned long long)bytes);
    }
    enum orr_status status = collect(future);
    if (status == ORR_BLOCKED) {
        return status;
    }
    for (uint32_t i = 0; status == ORR_OK && i < future->count; i++) {
        if (future->arrivals[i].values) {
            place(future, &future->arrivals[i], values);
        }
    }
    if (status == ORR_OK) {
        average(future, values);
    }
    forget(future);
    return status;
}

static void free_arrays(struct orr_future *future) {
    const struct orr_memory *memory = future->runtime->memory;
    forget(future);
    orr_memory_free(memory, future->arrivals);
    orr_memory_free(memory, future->points);
    orr_memory_free(memory, future);
}

void orr_future_destroy(struct orr_future **future) {
    struct orr_future *gone = *future;
    if (!gone) {
        return;
    }
    *future = NULL;
    for (uint32_t i = 0; gone->arrivals && i < gone->layout.mesh->size; i++) {
        orr_buffer_free(&gone->arrivals[i].staging);
    }
    *(gone->previous ? &gone->previous->next : &gone->runtime->futures) = gone->next;
    if (gone->next) {
        gone->next->previous = gone->previous;
    }
    free_arrays(gone);
}

/* With the runtime: buffers are freed as a whole, by themselves. */
void orr__futures_destroy(struct orr_runtime *runtime) {
    while (runtime->futures) {
        struct orr_future *future = runtime->futures;
        runtime->futures = future->next;
        free_arrays(future);
    }
}
