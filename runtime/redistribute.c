/* Redistribution along one mesh axis at a time, by collectives on the communicate streams.
 *
 * Cuts of one dimension are nested, the outer axis' first: of 8 rows over a 2 x 2 mesh with
 * [S(0), S(0)], rank (0, 1) has rows 2 and 3, and those are no part of what it has with [R, S(0)].
 * So an axis may start or stop to cut a dimension only while no inner axis cuts it. */
#include <assert.h>
#include <string.h>

#include "runtime/tensor_internal.h"

/* One step: from `source` to `target`, whose layouts differ along `axis` only. */
struct step {
    struct orr_runtime *runtime;
    struct orr_tensor *source, *target;
    int axis;
    uint64_t op;
};

static struct orr_shape piece(const struct orr_tensor *tensor, uint32_t rank) {
    return orr_layout_local(&tensor->layout, &tensor->info.shape, rank, NULL);
}

static uint64_t piece_count(const struct orr_tensor *tensor, uint32_t rank) {
    struct orr_shape shape = piece(tensor, rank);
    return (uint64_t)orr_shape_count(&shape);
}

/* Does the axis cut every rank's piece of `whole` into equal parts? */
static bool is_even(const struct orr_tensor *cut, const struct orr_tensor *whole, int axis) {
    const struct orr_mesh *mesh = cut->layout.mesh;
    uint64_t parts = (uint64_t)mesh->dims[axis];
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        if (piece_count(cut, rank) * parts != piece_count(whole, rank)) {
            return false;
        }
    }
    return true;
}

/* The collective of one group of ranks along the axis. */
static enum orr_status group_collective(const struct step *step, uint32_t first_rank,
                                        enum orr_collective_kind kind, uint64_t count,
                                        const char *name, struct orr_stream **streams,
                                        struct orr_piece *pieces, struct orr_point *points) {
    struct orr_mesh *mesh = step->source->layout.mesh;
    uint32_t n = (uint32_t)mesh->dims[step->axis], stride = orr_mesh_stride(mesh, step->axis);
    struct orr_communicator *communicator = orr_mesh_communicator(mesh, first_rank, step->axis);
    if (!communicator) {
        return ORR_NO_MEMORY;
    }
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < n; i++) {
        uint32_t rank = first_rank + i * stride;
        streams[i] = orr_device_stream(step->runtime, mesh->devices[rank], ORR_STREAM_COMMUNICATE);
        status = streams[i] ? orr__blob_use(&step->source->storage->blobs[rank], streams[i])
                            : ORR_NO_MEMORY;
        pieces[i].buffer = step->source->storage->blobs[rank].buffer;
        pieces[n + i].buffer = step->target->storage->blobs[rank].buffer;
        pieces[i].offset = pieces[n + i].offset = 0;
    }
    if (status == ORR_OK) {
        status = orr_collective_enqueue(communicator, kind, step->source->info.dtype, count, 0,
                                        streams, pieces, pieces + n, name, step->op, points);
    }
    for (uint32_t i = 0; status == ORR_OK && i < n; i++) {
        orr__blob_written(&step->target->storage->blobs[first_rank + i * stride], streams[i],
                          points[i]);
    }
    return status;
}

/* Runs the collective in every group along the axis. Its count is that of the pieces of `counted`,
 * which are equal within a group but, if another axis cuts unevenly, not between groups. */
static enum orr_status collective(const struct step *step, enum orr_collective_kind kind,
                                  const struct orr_tensor *counted, const char *name) {
    const struct orr_memory *memory = step->runtime->memory;
    struct orr_mesh *mesh = step->source->layout.mesh;
    uint32_t n = (uint32_t)mesh->dims[step->axis];
    struct orr_stream **streams = orr_memory_alloc(memory, n * sizeof(struct orr_stream *));
    struct orr_piece *pieces = orr_memory_alloc(memory, 2 * n * sizeof *pieces);
    struct orr_point *points = orr_memory_alloc(memory, n * sizeof *points);
    enum orr_status status =
        streams && pieces && points ? ORR_OK : orr__runtime_no_memory(step->runtime);
    for (uint32_t rank = 0; status == ORR_OK && rank < mesh->size; rank++) {
        if (orr_mesh_coordinate(mesh, rank, step->axis) == 0) {
            status = group_collective(step, rank, kind, piece_count(counted, rank), name, streams,
                                      pieces, points);
        }
    }
    orr_memory_free(memory, streams);
    orr_memory_free(memory, pieces);
    orr_memory_free(memory, points);
    return status;
}

/* Copies between a piece and the part of a larger one that it is: `inner` bytes at a time. */
struct cut {
    const struct orr_memory *memory;
    char *to;
    const char *from;
    uint64_t rows, to_stride, from_stride, width; /* bytes, but for rows */
};

static enum orr_status run_cut(void *work, struct orr_error *error) {
    const struct cut *cut = work;
    (void)error;
    for (uint64_t row = 0; row < cut->rows; row++) {
        memcpy(cut->to + row * cut->to_stride, cut->from + row * cut->from_stride, cut->width);
    }
    return ORR_OK;
}

static void release_cut(void *work) {
    struct cut *cut = work;
    orr_memory_free(cut->memory, cut);
}

/* Enqueues a cut on a stream: it reads `from` and writes `to`. */
static enum orr_status enqueue_cut(const struct step *step, struct orr_stream *stream,
                                   struct cut model, struct orr_range from, struct orr_range to,
                                   const char *name, struct orr_point *out_point) {
    struct orr_runtime *runtime = step->runtime;
    struct orr_range ranges[2] = {from, to};
    uint64_t bytes = model.rows * model.width;
    struct orr_kernel kernel = {.name = name,
                                .dtype = step->source->info.dtype,
                                .cost = {.bytes_read = bytes, .bytes_written = bytes},
                                .accesses = ranges,
                                .access_count = 2,
                                .submit_ns = -1,
                                .service_ns = -1,
                                .op = step->op};
    if (!runtime->timing_only && from.buffer->data) {
        struct cut *cut = orr_memory_alloc(runtime->memory, sizeof *cut);
        if (!cut) {
            return orr__runtime_no_memory(runtime);
        }
        *cut = model;
        cut->memory = runtime->memory;
        kernel.run = run_cut;
        kernel.work = cut;
        kernel.release = release_cut;
    }
    enum orr_status status = orr_stream_kernel(stream, &kernel, out_point);
    if (status != ORR_OK && kernel.work) {
        release_cut(kernel.work);
    }
    return status;
}

/* Bytes of one index of dimension `dim`, and number of outer rows, of a piece. */
static uint64_t inner_bytes(const struct orr_shape *shape, int dim, size_t element) {
    uint64_t bytes = element;
    for (int i = dim + 1; i < shape->rank; i++) {
        bytes *= (uint64_t)shape->dims[i];
    }
    return bytes;
}

static uint64_t outer_rows(const struct orr_shape *shape, int dim) {
    uint64_t rows = 1;
    for (int i = 0; i < dim; i++) {
        rows *= (uint64_t)shape->dims[i];
    }
    return rows;
}

/* R -> S(d): every rank keeps its part. */
static enum orr_status slice_locally(const struct step *step, int dim) {
    const struct orr_mesh *mesh = step->source->layout.mesh;
    size_t element = orr_dtype_size(step->source->info.dtype);
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        struct orr_shape from = piece(step->source, rank), to = piece(step->target, rank);
        int64_t starts_from[ORR_RANK_MAX], starts_to[ORR_RANK_MAX];
        (void)orr_layout_local(&step->source->layout, &step->source->info.shape, rank, starts_from);
        (void)orr_layout_local(&step->target->layout, &step->target->info.shape, rank, starts_to);
        uint64_t inner = inner_bytes(&from, dim, element);
        uint64_t skip = (uint64_t)(starts_to[dim] - starts_from[dim]) * inner;
        struct orr__blob *in = &step->source->storage->blobs[rank];
        struct orr__blob *out = &step->target->storage->blobs[rank];
        struct orr_stream *stream =
            orr_device_stream(step->runtime, mesh->devices[rank], ORR_STREAM_COMPUTE);
        if (orr_shape_count(&to) == 0) {
            continue;
        }
        assert(starts_to[dim] >= starts_from[dim] &&
               starts_to[dim] + to.dims[dim] <= starts_from[dim] + from.dims[dim]);
        enum orr_status status = stream ? orr__blob_use(in, stream) : ORR_NO_MEMORY;
        if (status != ORR_OK) {
            return status;
        }
        struct cut model = {.to = out->buffer->data,
                            .from = in->buffer->data ? (char *)in->buffer->data + skip : NULL,
                            .rows = outer_rows(&from, dim),
                            .width = (uint64_t)to.dims[dim] * inner,
                            .to_stride = (uint64_t)to.dims[dim] * inner,
                            .from_stride = (uint64_t)from.dims[dim] * inner};
        struct orr_range reads = {in->buffer, 0, (uint64_t)orr_shape_count(&from) * element,
                                  ORR_ACCESS_READ};
        struct orr_range writes = {out->buffer, 0, (uint64_t)orr_shape_count(&to) * element,
                                   ORR_ACCESS_WRITE};
        struct orr_point point;
        status = enqueue_cut(step, stream, model, reads, writes, "slice", &point);
        if (status != ORR_OK) {
            return status;
        }
        orr__blob_written(out, stream, point);
    }
    return ORR_OK;
}

/* After an all-gather along a dimension other than the outermost the pieces lie one behind the
 * other; one kernel per piece puts them in place. */
static enum orr_status interleave(const struct step *step, struct orr_tensor *gathered, int dim) {
    const struct orr_mesh *mesh = step->source->layout.mesh;
    uint32_t n = (uint32_t)mesh->dims[step->axis];
    size_t element = orr_dtype_size(step->source->info.dtype);
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        struct orr_shape part = piece(step->source, rank), whole = piece(step->target, rank);
        uint64_t inner = inner_bytes(&part, dim, element);
        uint64_t width = (uint64_t)part.dims[dim] * inner;
        uint64_t part_bytes = (uint64_t)orr_shape_count(&part) * element;
        if (part_bytes == 0) {
            continue;
        }
        struct orr__blob *in = &gathered->storage->blobs[rank];
        struct orr__blob *out = &step->target->storage->blobs[rank];
        struct orr_stream *stream =
            orr_device_stream(step->runtime, mesh->devices[rank], ORR_STREAM_COMPUTE);
        enum orr_status status = stream ? orr__blob_use(in, stream) : ORR_NO_MEMORY;
        for (uint32_t i = 0; status == ORR_OK && i < n; i++) {
            struct cut model = {
                .to = out->buffer->data ? (char *)out->buffer->data + i * width : NULL,
                .from = in->buffer->data ? (char *)in->buffer->data + i * part_bytes : NULL,
                .rows = outer_rows(&part, dim),
                .width = width,
                .to_stride = (uint64_t)whole.dims[dim] * inner,
                .from_stride = width};
            struct orr_range reads = {in->buffer, i * part_bytes, part_bytes, ORR_ACCESS_READ};
            struct orr_range writes = {out->buffer, i * width,
                                       (model.rows - 1) * model.to_stride + width,
                                       ORR_ACCESS_WRITE};
            struct orr_point point;
            status = enqueue_cut(step, stream, model, reads, writes, "interleave", &point);
            orr__blob_written(out, stream, point);
        }
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

static enum orr_status all_gather(const struct step *step) {
    int dim = step->source->layout.axes[step->axis].dim;
    struct orr_shape part = piece(step->source, 0);
    if (outer_rows(&part, dim) == 1) { /* rank 0 has the most of them */
        return collective(step, ORR_COLLECTIVE_ALL_GATHER, step->source, "all_gather");
    }
    struct orr_tensor *gathered =
        orr__tensor_new(step->runtime, &step->target->info, &step->target->layout);
    if (!gathered) {
        return ORR_NO_MEMORY;
    }
    struct step first = *step;
    first.target = gathered;
    enum orr_status status = orr__tensor_allocate(gathered, ORR_STREAM_COMMUNICATE, "all_gather");
    if (status == ORR_OK) {
        status = collective(&first, ORR_COLLECTIVE_ALL_GATHER, step->source, "all_gather");
    }
    if (status == ORR_OK) {
        status = interleave(step, gathered, dim);
    }
    orr__tensor_release(gathered);
    return status;
}

static enum orr_status refuse(struct orr_runtime *runtime, const struct orr_layout *from,
                              const struct orr_layout *to, int axis) {
    char from_text[ORR_PLACEMENT_TEXT_MAX], to_text[ORR_PLACEMENT_TEXT_MAX];
    return orr__runtime_fail(runtime, ORR_UNSUPPORTED,
                             "redistribute from %s to %s along axis '%s': expected P to R, S(d) to "
                             "R, P to S(0) or R to S(d), with even shards and sums",
                             orr_layout_text(from, from_text), orr_layout_text(to, to_text),
                             from->mesh->names[axis]);
}

static enum orr_status run_step(struct step *step) {
    struct orr_placement from = step->source->layout.axes[step->axis];
    struct orr_placement to = step->target->layout.axes[step->axis];
    bool sums = from.kind == ORR_PARTIAL && from.reduction == ORR_SUM;
    const char *name = to.kind == ORR_SHARD ? (sums ? "reduce_scatter" : "slice")
                                            : (sums ? "all_reduce" : "all_gather");
    struct orr_cost none = {0};
    step->op = orr__op_record(step->runtime, name, "collective", none, &step->target->info, 0);
    if (sums && to.kind == ORR_REPLICATE) {
        return collective(step, ORR_COLLECTIVE_ALL_REDUCE, step->source, name);
    }
    if (sums && to.kind == ORR_SHARD && to.dim == 0 &&
        is_even(step->target, step->source, step->axis)) {
        return collective(step, ORR_COLLECTIVE_REDUCE_SCATTER, step->target, name);
    }
    if (from.kind == ORR_SHARD && to.kind == ORR_REPLICATE &&
        is_even(step->source, step->target, step->axis)) {
        return all_gather(step);
    }
    if (from.kind == ORR_REPLICATE && to.kind == ORR_SHARD) {
        return slice_locally(step, to.dim);
    }
    return refuse(step->runtime, &step->source->layout, &step->target->layout, step->axis);
}

static bool is_supported(struct orr_placement from, struct orr_placement to) {
    return (from.kind == ORR_PARTIAL && to.kind != ORR_PARTIAL) ||
           (from.kind == ORR_SHARD && to.kind == ORR_REPLICATE) ||
           (from.kind == ORR_REPLICATE && to.kind == ORR_SHARD);
}

/* The tensor with the placement of one axis changed. */
static enum orr_status change_axis(struct orr_tensor *source, int axis, struct orr_placement to,
                                   struct orr_tensor **out) {
    struct orr_layout layout = source->layout;
    layout.axes[axis] = to;
    struct orr_tensor *target = orr__tensor_new(source->runtime, &source->info, &layout);
    if (!target) {
        return ORR_NO_MEMORY;
    }
    struct step step = {
        .runtime = source->runtime, .source = source, .target = target, .axis = axis};
    orr__runtime_operator_begin(source->runtime, layout.mesh->devices[0], -1);
    bool on_compute = source->layout.axes[axis].kind == ORR_REPLICATE;
    enum orr_status status = orr__tensor_allocate(
        target, on_compute ? ORR_STREAM_COMPUTE : ORR_STREAM_COMMUNICATE, "redistribute");
    if (status == ORR_OK) {
        status = run_step(&step);
    }
    orr__runtime_operator_end(source->runtime, status == ORR_OK && !source->runtime->capture);
    if (status != ORR_OK) {
        orr__tensor_release(target);
        return status;
    }
    *out = target;
    return ORR_OK;
}

/* ORR_UNSUPPORTED before anything is done for a change along some axis that no step makes. */
static enum orr_status check_changes(struct orr_runtime *runtime, const struct orr_layout *from,
                                     const struct orr_layout *to) {
    for (int axis = 0; axis < to->mesh->axis_count; axis++) {
        if (!orr_placement_equal(from->axes[axis], to->axes[axis]) &&
            !is_supported(from->axes[axis], to->axes[axis])) {
            return refuse(runtime, from, to, axis);
        }
    }
    return ORR_OK;
}

static bool is_shard(struct orr_placement placement, int dim) {
    return placement.kind == ORR_SHARD && placement.dim == dim;
}

/* Is an axis outside of `axis` still to start or stop to cut `dim`? */
static bool outer_cut_changes(const struct orr_layout *now, const struct orr_layout *to, int axis,
                              int dim) {
    for (int outer = 0; outer < axis; outer++) {
        if (is_shard(now->axes[outer], dim) != is_shard(to->axes[outer], dim)) {
            return true;
        }
    }
    return false;
}

/* What an axis becomes in the first pass, which goes from the innermost axis outwards: pieces
 * become whole and partial ones sums, but for those that a cut further out would part again. */
static struct orr_placement first_placement(const struct orr_layout *now,
                                            const struct orr_layout *to, int axis) {
    struct orr_placement from = now->axes[axis], wanted = to->axes[axis];
    const struct orr_placement whole = {.kind = ORR_REPLICATE};
    if (from.kind == ORR_SHARD && outer_cut_changes(now, to, axis, from.dim)) {
        return whole;
    }
    bool early = wanted.kind == ORR_SHARD && outer_cut_changes(now, to, axis, wanted.dim);
    return from.kind == ORR_REPLICATE || early ? from : wanted;
}

/* Changes one axis of *now, unless it has that placement already. */
static enum orr_status advance(struct orr_tensor **now, int axis, struct orr_placement to) {
    if (orr_placement_equal((*now)->layout.axes[axis], to)) {
        return ORR_OK;
    }
    struct orr_tensor *next = NULL;
    enum orr_status status = change_axis(*now, axis, to, &next);
    if (status == ORR_OK) {
        orr__tensor_release(*now);
        *now = next;
    }
    return status;
}

enum orr_status orr_tensor_redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                        struct orr_tensor **out_tensor) {
    struct orr_runtime *runtime = tensor->runtime;
    int axis_count = layout->mesh->axis_count;
    *out_tensor = NULL;
    orr_error_clear(&runtime->error);
    if (layout->mesh != tensor->layout.mesh) {
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED, "redistribute to another mesh");
    }
    enum orr_status status = orr_layout_check(layout, &tensor->info.shape, &runtime->error);
    if (status == ORR_OK) {
        status = check_changes(runtime, &tensor->layout, layout);
    }
    bool changes = !orr_layout_equal(&tensor->layout, layout);
    if (status == ORR_OK && changes) {
        status = orr__region_flush(runtime, false);
    }
    if (status == ORR_OK && changes) {
        status = orr__tensor_check_kept(tensor, "redistribute");
    }
    if (status == ORR_OK && changes) {
        status = orr__tape_reserve(runtime, &tensor, 1);
    }
    struct orr_tensor *now = orr_tensor_retain(tensor);
    for (int axis = axis_count - 1; axis >= 0 && status == ORR_OK; axis--) {
        status = advance(&now, axis, first_placement(&now->layout, layout, axis));
    }
    for (int axis = 0; axis < axis_count && status == ORR_OK; axis++) { /* the outer cuts first */
        status = advance(&now, axis, layout->axes[axis]);
    }
    if (status != ORR_OK) {
        orr__tensor_release(now);
        return status;
    }
    if (now != tensor) {
        struct orr__stage step = {.input_count = 1, .inputs = {tensor}, .outputs = {now}};
        orr__tape_record(runtime, &step);
    }
    *out_tensor = now; /* the same tensor once more if nothing had to change */
    return ORR_OK;
}
