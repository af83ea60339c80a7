/* Redistribution: the steps of a plan, one after the other, by collectives on the communicate
 * streams and local kernels on the compute streams.
 *
 *     before --pack--> pieces --collective--> pieces --interleave--> after
 *                (if pieces do not lie one behind the other anyway) */
#include <assert.h>
#include <string.h>

#include "runtime/redistribute_internal.h"

/* One step: from `source` to `target`, whose layouts differ along one axis only. */
struct step {
    struct orr_runtime *runtime;
    struct orr_tensor *source, *target;
    struct orr__change change;
    enum orr_redistribute_kind kind;
    uint64_t op, parent; /* logical operators: the step, the whole redistribution */
};

static uint32_t group_size(const struct step *step) {
    return (uint32_t)step->change.layout.mesh->dims[step->change.axis];
}

static int64_t coordinate(const struct step *step, uint32_t rank) {
    return orr_mesh_coordinate(step->change.layout.mesh, rank, step->change.axis);
}

static size_t element_size(const struct step *step) {
    return orr_dtype_size(step->change.info->dtype);
}

static struct orr_stream *stream_of(const struct step *step, uint32_t rank,
                                    enum orr_stream_kind kind) {
    return orr_device_stream(step->runtime, step->change.layout.mesh->devices[rank], kind);
}

/* --- collectives --- */

/* Memory of a collective over the groups of an axis. */
struct group {
    struct orr_stream **streams;
    struct orr_piece *inputs, *outputs;
    struct orr_point *points;
};

static void group_free(const struct orr_memory *memory, struct group *group) {
    orr_memory_free(memory, group->streams);
    orr_memory_free(memory, group->inputs);
    orr_memory_free(memory, group->outputs);
    orr_memory_free(memory, group->points);
}

static enum orr_status group_alloc(struct orr_runtime *runtime, uint32_t count,
                                   struct group *group) {
    const struct orr_memory *memory = runtime->memory;
    group->streams = orr_memory_alloc(memory, count * sizeof(struct orr_stream *));
    group->inputs = orr_memory_alloc(memory, count * sizeof *group->inputs);
    group->outputs = orr_memory_alloc(memory, count * sizeof *group->outputs);
    group->points = orr_memory_alloc(memory, count * sizeof *group->points);
    if (group->streams && group->inputs && group->outputs && group->points) {
        return ORR_OK;
    }
    return orr__runtime_no_memory(runtime);
}

/* Streams and pieces of the ranks of a group; `from` and `to` are the tensors whose blobs they
 * are. */
static enum orr_status group_fill(const struct step *step, uint32_t first_rank,
                                  const struct orr_tensor *from, const struct orr_tensor *to,
                                  struct group *group) {
    uint32_t stride = orr_mesh_stride(step->change.layout.mesh, step->change.axis);
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < group_size(step); i++) {
        uint32_t rank = first_rank + i * stride;
        group->streams[i] = stream_of(step, rank, ORR_STREAM_COMMUNICATE);
        status = group->streams[i] ? orr__blob_use(&from->storage->blobs[rank], group->streams[i])
                                   : ORR_NO_MEMORY;
        group->inputs[i] = (struct orr_piece){.buffer = from->storage->blobs[rank].buffer};
        group->outputs[i] = (struct orr_piece){.buffer = to->storage->blobs[rank].buffer};
    }
    return status;
}

static enum orr_status group_enqueue(const struct step *step, uint32_t first_rank,
                                     const struct group *group) {
    struct orr_communicator *communicator =
        orr_mesh_communicator(step->change.layout.mesh, first_rank, step->change.axis);
    if (!communicator) {
        return ORR_NO_MEMORY;
    }
    struct orr_collective collective;
    uint64_t *counts;
    enum orr_status status = orr__change_collective(step->runtime, &step->change, step->kind,
                                                    first_rank, &collective, &counts);
    if (status == ORR_OK) {
        struct orr_collective_call call = {.kind = collective.kind,
                                           .dtype = collective.dtype,
                                           .reduction = collective.reduction,
                                           .count = collective.count,
                                           .counts = counts,
                                           .streams = group->streams,
                                           .inputs = group->inputs,
                                           .outputs = group->outputs,
                                           .op = step->op};
        status = orr_communicator_enqueue(communicator, &call, group->points);
    }
    orr_memory_free(step->runtime->memory, counts);
    return status;
}

/* Runs the step's collective in every group along the axis. */
static enum orr_status collective(const struct step *step, struct orr_tensor *from,
                                  struct orr_tensor *to) {
    const struct orr_mesh *mesh = step->change.layout.mesh;
    uint32_t stride = orr_mesh_stride(mesh, step->change.axis);
    struct group group = {NULL, NULL, NULL, NULL};
    enum orr_status status = group_alloc(step->runtime, group_size(step), &group);
    for (uint32_t rank = 0; status == ORR_OK && rank < mesh->size; rank++) {
        if (coordinate(step, rank) != 0) {
            continue;
        }
        status = group_fill(step, rank, from, to, &group);
        if (status == ORR_OK) {
            status = group_enqueue(step, rank, &group);
        }
        for (uint32_t i = 0; status == ORR_OK && i < group_size(step); i++) {
            orr__blob_written(&to->storage->blobs[rank + i * stride], group.streams[i],
                              group.points[i]);
        }
    }
    group_free(step->runtime->memory, &group);
    return status;
}

/* --- local kernels --- */

/* A block of rows, `width` bytes each, that goes from one place of a piece to one of another. */
struct cut {
    uint64_t rows, width;            /* width in bytes */
    uint64_t to, from;               /* offsets of the first row in bytes */
    uint64_t to_stride, from_stride; /* from row to row in bytes */
};

/* What a local kernel does: zeros, then cuts. */
struct move {
    const struct orr_memory *memory;
    char *to;
    const char *from;
    uint64_t zeros; /* bytes from `to` on */
    uint32_t count;
    struct cut cuts[];
};

static enum orr_status run_move(void *work, struct orr_error *error) {
    const struct move *move = work;
    (void)error;
    memset(move->to, 0, move->zeros);
    for (uint32_t i = 0; i < move->count; i++) {
        const struct cut *cut = &move->cuts[i];
        for (uint64_t row = 0; cut->width > 0 && row < cut->rows; row++) {
            memcpy(move->to + cut->to + row * cut->to_stride,
                   move->from + cut->from + row * cut->from_stride, cut->width);
        }
    }
    return ORR_OK;
}

static void release_move(void *work) {
    struct move *move = work;
    orr_memory_free(move->memory, move);
}

static struct move *move_new(struct orr_runtime *runtime, uint32_t cuts) {
    struct move *move =
        orr_memory_alloc(runtime->memory, sizeof *move + cuts * sizeof move->cuts[0]);
    if (!move) {
        (void)orr__runtime_no_memory(runtime);
        return NULL;
    }
    move->memory = runtime->memory;
    move->zeros = 0;
    move->count = 0;
    return move;
}

/* Enqueues a move of `read` bytes of one blob to `written` bytes of another, which it takes over.
 * Nothing is enqueued for nothing. */
static enum orr_status enqueue_move(const struct step *step, uint32_t rank, struct orr__blob *from,
                                    struct orr__blob *to, uint64_t read, uint64_t written,
                                    struct move *move, const char *name) {
    if (written == 0) {
        release_move(move);
        return ORR_OK;
    }
    struct orr_stream *stream = stream_of(step, rank, ORR_STREAM_COMPUTE);
    enum orr_status status = stream ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK && read > 0) {
        status = orr__blob_use(from, stream);
    }
    if (status == ORR_OK) {
        status = orr__blob_use(to, stream);
    }
    struct orr_range ranges[2] = {{from->buffer, 0, read, ORR_ACCESS_READ},
                                  {to->buffer, 0, written, ORR_ACCESS_WRITE}};
    uint64_t bytes_read = 0;
    for (uint32_t i = 0; i < move->count; i++) {
        bytes_read += move->cuts[i].rows * move->cuts[i].width;
    }
    struct orr_kernel kernel = {.name = name,
                                .dtype = step->change.info->dtype,
                                .cost = {.bytes_read = bytes_read, .bytes_written = written},
                                .accesses = read > 0 ? ranges : ranges + 1,
                                .access_count = read > 0 ? 2 : 1,
                                .submit_ns = -1,
                                .service_ns = -1,
                                .op = step->op,
                                .run = run_move,
                                .work = move,
                                .release = release_move};
    move->to = to->buffer->data;
    move->from = from->buffer->data;
    if (step->runtime->timing_only || !move->to) {
        kernel.run = NULL;
    }
    struct orr_point point;
    if (status == ORR_OK) {
        status = orr_stream_kernel(stream, &kernel, &point);
    }
    if (status == ORR_OK) {
        orr__blob_written(to, stream, point);
    } else {
        release_move(move);
    }
    return status;
}

/* The part `span` along dimension `dim` of a piece of shape `whole`, which begins at `at` when it
 * lies alone, densely; taken out of the piece or, if `puts`, put into it. */
static struct cut cut_of(const struct orr_shape *whole, int dim, struct orr__span span, uint64_t at,
                         size_t element, bool puts) {
    uint64_t inner = orr__inner_count(whole, dim) * element;
    uint64_t width = (uint64_t)span.length * inner;
    uint64_t in_whole = (uint64_t)span.start * inner;
    uint64_t stride = (uint64_t)whole->dims[dim] * inner;
    return (struct cut){.rows = orr__outer_count(whole, dim),
                        .width = width,
                        .to = puts ? in_whole : at,
                        .from = puts ? at : in_whole,
                        .to_stride = puts ? stride : width,
                        .from_stride = puts ? width : stride};
}

/* All pieces along `dim` of a rank's `shape` one behind the other, or back if `puts`. */
static enum orr_status rearrange(const struct step *step, uint32_t rank, struct orr__blob *from,
                                 struct orr__blob *to, const struct orr_shape *shape, int dim,
                                 bool puts) {
    size_t element = element_size(step);
    uint64_t at = 0, bytes = (uint64_t)orr_shape_count(shape) * element;
    struct move *move = move_new(step->runtime, group_size(step));
    if (!move) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < group_size(step); i++) {
        struct orr__span span = orr__piece_span(shape->dims[dim], group_size(step), i);
        struct cut cut = cut_of(shape, dim, span, at, element, puts);
        move->cuts[move->count++] = cut;
        at += cut.rows * cut.width;
    }
    return enqueue_move(step, rank, from, to, bytes, bytes, move, puts ? "interleave" : "pack");
}

/* A tensor for pieces on their way, with as much memory as one of the layout has. */
static enum orr_status buffer_tensor(const struct step *step, const struct orr_tensor *like,
                                     enum orr_stream_kind kind, const char *label,
                                     struct orr_tensor **out) {
    *out = orr__tensor_new(step->runtime, &like->info, &like->layout);
    if (!*out) {
        return ORR_NO_MEMORY;
    }
    (*out)->role = ORR_ROLE_COMMUNICATION;
    return orr__tensor_allocate(*out, kind, label);
}

/* Rearranges every rank's piece of `shape_of`: the source's before, the target's after. */
static enum orr_status rearrange_all(const struct step *step, struct orr_tensor *from,
                                     struct orr_tensor *to, int dim, bool puts) {
    enum orr_status status = ORR_OK;
    for (uint32_t rank = 0; status == ORR_OK && rank < step->change.layout.mesh->size; rank++) {
        struct orr__change_shapes shapes = orr__change_shapes(&step->change, rank);
        status = rearrange(step, rank, &from->storage->blobs[rank], &to->storage->blobs[rank],
                           puts ? &shapes.after : &shapes.before, dim, puts);
    }
    return status;
}

/* --- steps --- */

/* Is there a rank whose pieces do not lie one behind the other? Shapes differ from rank to rank,
 * but rank 0 has a largest one. */
static bool packs(const struct step *step) {
    struct orr__change_shapes shapes = orr__change_shapes(&step->change, 0);
    return (step->kind == ORR_REDISTRIBUTE_REDUCE_SCATTER ||
            step->kind == ORR_REDISTRIBUTE_ALL_TO_ALL) &&
           orr__is_strided(&shapes.before, step->change.to.dim);
}

static bool interleaves(const struct step *step) {
    struct orr__change_shapes shapes = orr__change_shapes(&step->change, 0);
    return (step->kind == ORR_REDISTRIBUTE_ALL_GATHER ||
            step->kind == ORR_REDISTRIBUTE_ALL_TO_ALL) &&
           orr__is_strided(&shapes.after, step->change.layout.axes[step->change.axis].dim);
}

static enum orr_status exchange(const struct step *step) {
    struct orr_tensor *packed = NULL, *arrived = NULL;
    struct orr_tensor *from = step->source, *to = step->target;
    const char *name = orr_redistribute_kind_text(step->kind);
    enum orr_status status = ORR_OK;
    if (packs(step)) {
        status = buffer_tensor(step, from, ORR_STREAM_COMPUTE, name, &packed);
        if (status == ORR_OK) {
            status = rearrange_all(step, from, packed, step->change.to.dim, false);
        }
        from = packed;
    }
    if (status == ORR_OK && interleaves(step)) {
        status = buffer_tensor(step, to, ORR_STREAM_COMMUNICATE, name, &arrived);
        to = arrived;
    }
    if (status == ORR_OK) {
        status = collective(step, from, to);
    }
    if (status == ORR_OK && arrived) {
        int dim = step->change.layout.axes[step->change.axis].dim;
        status = rearrange_all(step, arrived, step->target, dim, true);
    }
    if (packed) {
        orr__tensor_release(packed);
    }
    if (arrived) {
        orr__tensor_release(arrived);
    }
    return status;
}

/* slice: the rank's part of its piece; pad: its piece within zeros; zero: its piece if it is the
 * first of its group, else zeros. */
static enum orr_status move_locally(const struct step *step, uint32_t rank) {
    struct orr__change_shapes shapes = orr__change_shapes(&step->change, rank);
    struct orr_placement from = step->change.layout.axes[step->change.axis];
    bool slices = step->kind == ORR_REDISTRIBUTE_SLICE;
    size_t element = element_size(step);
    uint64_t read = (uint64_t)orr_shape_count(&shapes.before) * element;
    uint64_t written = (uint64_t)orr_shape_count(&shapes.after) * element;
    struct move *move = move_new(step->runtime, 1);
    if (!move) {
        return ORR_NO_MEMORY;
    }
    if (step->kind == ORR_REDISTRIBUTE_ZERO) {
        bool first = coordinate(step, rank) == 0;
        move->zeros = first ? 0 : written;
        move->cuts[0] = (struct cut){.rows = 1, .width = read};
        read = first ? read : 0;
        move->count = first;
    } else {
        int dim = slices ? step->change.to.dim : from.dim;
        struct orr__span span =
            orr__piece_span(shapes.base.dims[dim], group_size(step), coordinate(step, rank));
        move->cuts[0] = cut_of(&shapes.base, dim, span, 0, element, !slices);
        move->zeros = slices ? 0 : written;
        move->count = 1;
    }
    return enqueue_move(step, rank, &step->source->storage->blobs[rank],
                        &step->target->storage->blobs[rank], read, written, move,
                        orr_redistribute_kind_text(step->kind));
}

static enum orr_status run_step(const struct step *step) {
    if (step->kind <= ORR_REDISTRIBUTE_ALL_TO_ALL) {
        return exchange(step);
    }
    enum orr_status status = ORR_OK;
    for (uint32_t rank = 0; status == ORR_OK && rank < step->change.layout.mesh->size; rank++) {
        status = move_locally(step, rank);
    }
    return status;
}

/* Is the last command of the step on the communicate streams? Then its result is allocated
 * there. */
static bool ends_on_communicate(const struct step *step) {
    return step->kind <= ORR_REDISTRIBUTE_ALL_TO_ALL && !interleaves(step);
}

/* Allocates the target and enqueues the step, as one logical operator. */
static enum orr_status make_step(struct step *step) {
    struct orr_runtime *runtime = step->runtime;
    if (step->kind == ORR_REDISTRIBUTE_KEEP) {
        orr__tensor_share(step->target, step->source);
        return ORR_OK;
    }
    struct orr_cost none = {0};
    orr__runtime_operator_begin(runtime, step->change.layout.mesh->devices[0], -1);
    enum orr_status status = orr__tensor_allocate(
        step->target, ends_on_communicate(step) ? ORR_STREAM_COMMUNICATE : ORR_STREAM_COMPUTE,
        "redistribute");
    if (status == ORR_OK) {
        step->op = orr__op_record(runtime, orr_redistribute_kind_text(step->kind), "collective",
                                  none, &step->target->info, step->parent);
        status = run_step(step);
    }
    orr__runtime_operator_end(runtime, status == ORR_OK && !runtime->capture);
    return status;
}

/* The tensor with the placement of one axis changed. What is not the result yet is
 * communication. */
static enum orr_status change_axis(struct orr_tensor *source,
                                   const struct orr_redistribute_step *planned, uint64_t parent,
                                   bool on_the_way, struct orr_tensor **out) {
    struct orr_layout layout = source->layout;
    layout.axes[planned->axis] = planned->to;
    struct orr_tensor *target = orr__tensor_new(source->runtime, &source->info, &layout);
    if (!target) {
        return ORR_NO_MEMORY;
    }
    target->role = on_the_way ? ORR_ROLE_COMMUNICATION : target->role;
    struct step step = {.runtime = source->runtime,
                        .source = source,
                        .target = target,
                        .change = {.info = &source->info,
                                   .layout = source->layout,
                                   .axis = planned->axis,
                                   .to = planned->to},
                        .kind = planned->kind,
                        .parent = parent};
    enum orr_status status = make_step(&step);
    if (status != ORR_OK) {
        orr__tensor_release(target);
        return status;
    }
    *out = target;
    return ORR_OK;
}

static uint64_t record_plan(struct orr_runtime *runtime, const struct orr_redistribute_plan *plan) {
    char name[ORR_REDISTRIBUTE_SUMMARY_MAX];
    struct orr_cost none = {0};
    return orr__op_record(runtime, orr_redistribute_summary(plan, name, sizeof name),
                          "redistribute", none, &plan->info, 0);
}

enum orr_status orr__redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                  struct orr_tensor **out_tensor) {
    struct orr_redistribute_plan plan = {
        .info = tensor->info, .from = tensor->layout, .to = *layout};
    *out_tensor = NULL;
    enum orr_status status = orr__redistribute_search(tensor->runtime, &plan);
    uint64_t parent = status == ORR_OK ? record_plan(tensor->runtime, &plan) : 0;
    struct orr_tensor *now = orr_tensor_retain(tensor);
    for (int i = 0; status == ORR_OK && i < plan.paths[0].step_count; i++) {
        struct orr_tensor *next = NULL;
        bool on_the_way = i + 1 < plan.paths[0].step_count;
        status = change_axis(now, &plan.paths[0].steps[i], parent, on_the_way, &next);
        if (status == ORR_OK) {
            orr__tensor_release(now);
            now = next;
        }
    }
    if (status != ORR_OK) {
        orr__tensor_release(now);
        return status;
    }
    *out_tensor = now;
    return ORR_OK;
}

enum orr_status orr_tensor_redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                        struct orr_tensor **out_tensor) {
    struct orr_runtime *runtime = tensor->runtime;
    *out_tensor = NULL;
    orr_error_clear(&runtime->error);
    if (layout->mesh != tensor->layout.mesh) {
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED, "redistribute to another mesh");
    }
    enum orr_status status = orr_layout_check(layout, &tensor->info.shape, &runtime->error);
    if (status == ORR_OK && orr_layout_equal(&tensor->layout, layout)) {
        *out_tensor = orr_tensor_retain(tensor); /* nothing has to change */
        return ORR_OK;
    }
    if (status == ORR_OK) {
        status = orr__runtime_turn(runtime);
    }
    if (status == ORR_OK) {
        status = orr__region_flush(runtime, false);
    }
    if (status == ORR_OK) {
        status = orr__tensor_check_kept(tensor, "redistribute");
    }
    if (status == ORR_OK) {
        status = orr__tape_reserve(runtime, &tensor, 1);
    }
    if (status == ORR_OK) {
        status = orr__redistribute(tensor, layout, out_tensor);
    }
    if (status == ORR_OK) {
        struct orr__stage step = {.input_count = 1, .inputs = {tensor}, .outputs = {*out_tensor}};
        orr__tape_record(runtime, &step);
    }
    return status;
}
