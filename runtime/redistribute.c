/* Redistribution: the steps of a plan, one after the other, by collectives on the communicate
 * streams and local kernels on the compute streams, but for interleaving.
 *
 *     before --pack--> pieces --collective--> pieces --interleave--> after
 *                (if pieces do not lie one behind the other anyway) */
#include <assert.h>
#include <string.h>

#include "runtime/move_internal.h"
#include "runtime/recording_internal.h"
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
        status = group->streams[i] ? orr__blob_use(orr__tensor_blob(from, rank), group->streams[i])
                                   : ORR_NO_MEMORY;
        group->inputs[i] = (struct orr_piece){.buffer = orr__tensor_blob(from, rank)->buffer};
        group->outputs[i] = (struct orr_piece){.buffer = orr__tensor_blob(to, rank)->buffer};
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
            orr__blob_written(orr__tensor_blob(to, rank + i * stride), group.streams[i],
                              group.points[i]);
        }
    }
    group_free(step->runtime->memory, &group);
    return status;
}

/* --- local kernels --- */

static struct orr__move_call call_of(const struct step *step, uint32_t rank, const char *name) {
    return (struct orr__move_call){.device = step->change.layout.mesh->devices[rank],
                                   .name = name,
                                   .dtype = step->change.info->dtype,
                                   .op = step->op};
}

struct orr__cut orr__span_cut(const struct orr_shape *whole, int dim, struct orr__span span,
                              uint64_t at, size_t element, bool puts) {
    struct orr_shape part = *whole;
    int64_t starts[ORR_RANK_MAX] = {0};
    part.dims[dim] = span.length;
    starts[dim] = span.start;
    struct orr__place in_whole = {whole, starts, 0}, alone = {&part, NULL, at};
    return orr__cut_of(&part, puts ? &in_whole : &alone, puts ? &alone : &in_whole, element);
}

/* All pieces along `dim` of a rank's `shape` one behind the other, or back if `puts`. */
static enum orr_status rearrange(const struct step *step, uint32_t rank, struct orr__blob *from,
                                 struct orr__blob *to, const struct orr_shape *shape, int dim,
                                 bool puts) {
    struct orr__move *move = orr__move_new(step->runtime, group_size(step));
    uint64_t at = 0;
    if (!move) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < group_size(step); i++) {
        struct orr__span span = orr__piece_span(shape->dims[dim], group_size(step), i);
        struct orr__cut cut = orr__span_cut(shape, dim, span, at, element_size(step), puts);
        orr__move_add(move, to, from, &cut);
        at += orr__cut_bytes(&cut);
    }
    struct orr__move_call call = call_of(step, rank, puts ? "interleave" : "pack");
    call.stream = puts ? ORR_STREAM_COMMUNICATE : ORR_STREAM_COMPUTE;
    return orr__move_enqueue(move, &call);
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
        status = rearrange(step, rank, orr__tensor_blob(from, rank), orr__tensor_blob(to, rank),
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

void orr__change_move(const struct orr__change *change, enum orr_redistribute_kind kind,
                      uint32_t rank, struct orr__blob *to, struct orr__blob *from,
                      struct orr__move *move) {
    struct orr__change_shapes shapes = orr__change_shapes(change, rank);
    const struct orr_mesh *mesh = change->layout.mesh;
    bool slices = kind == ORR_REDISTRIBUTE_SLICE;
    int64_t at = orr_mesh_coordinate(mesh, rank, change->axis);
    size_t element = orr_dtype_size(change->info->dtype);
    uint64_t written = (uint64_t)orr_shape_count(&shapes.after) * element;
    if (kind == ORR_REDISTRIBUTE_ZERO && at == 0) {
        struct orr__place all = {&shapes.after, NULL, 0};
        struct orr__cut copy = orr__cut_of(&shapes.after, &all, &all, element);
        orr__move_add(move, to, from, &copy);
    } else if (kind == ORR_REDISTRIBUTE_ZERO) {
        orr__move_zero(move, to, written);
    } else {
        int dim = slices ? change->to.dim : change->layout.axes[change->axis].dim;
        struct orr__span span =
            orr__piece_span(shapes.base.dims[dim], mesh->dims[change->axis], at);
        struct orr__cut cut = orr__span_cut(&shapes.base, dim, span, 0, element, !slices);
        orr__move_zero(move, to, slices ? 0 : written);
        orr__move_add(move, to, from, &cut);
    }
}

static enum orr_status move_locally(const struct step *step, uint32_t rank) {
    struct orr__move *move = orr__move_new(step->runtime, 2);
    if (!move) {
        return ORR_NO_MEMORY;
    }
    orr__change_move(&step->change, step->kind, rank, orr__tensor_blob(step->target, rank),
                     orr__tensor_blob(step->source, rank), move);
    struct orr__move_call call = call_of(step, rank, orr_redistribute_kind_text(step->kind));
    return orr__move_enqueue(move, &call);
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

/* Is the last command of the step on the communicate streams? Then its result is allocated there.
 * What arrived is interleaved there, too: on the compute streams that would hold up what is behind
 * it until everything has arrived. */
static bool ends_on_communicate(const struct step *step) {
    return step->kind <= ORR_REDISTRIBUTE_ALL_TO_ALL;
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

enum orr_status orr__redistribute_steps(struct orr_tensor **tensor,
                                        const struct orr_redistribute_path *path, uint64_t parent,
                                        bool last) {
    for (int i = 0; i < path->step_count; i++) {
        struct orr_tensor *next = NULL;
        bool on_the_way = !last || i + 1 < path->step_count;
        enum orr_status status = change_axis(*tensor, &path->steps[i], parent, on_the_way, &next);
        if (status != ORR_OK) {
            return status;
        }
        orr__tensor_release(*tensor);
        *tensor = next;
    }
    return ORR_OK;
}

enum orr_status orr__redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                  struct orr_tensor **out_tensor) {
    struct orr_redistribute_plan plan = {
        .info = tensor->info, .from = tensor->layout, .to = *layout};
    *out_tensor = NULL;
    enum orr_status status = orr__redistribute_find(tensor->runtime, &plan);
    uint64_t parent = status == ORR_OK ? record_plan(tensor->runtime, &plan) : 0;
    struct orr_tensor *now = orr_tensor_retain(tensor);
    if (status == ORR_OK) {
        status = orr__redistribute_steps(&now, &plan.paths[0], parent, !plan.crosses);
    }
    if (status == ORR_OK && plan.crosses) {
        status = orr__redistribute_cross(&now, &plan, parent, plan.after.step_count == 0);
    }
    if (status == ORR_OK && plan.crosses) {
        status = orr__redistribute_steps(&now, &plan.after, parent, true);
    }
    if (status != ORR_OK) {
        orr__tensor_release(now);
        return status;
    }
    *out_tensor = now;
    return ORR_OK;
}

enum orr_status orr__redistribute_begin(struct orr_tensor *tensor, const char *what) {
    struct orr_runtime *runtime = tensor->runtime;
    enum orr_status status = orr__runtime_turn(runtime);
    if (status == ORR_OK) {
        status = orr__region_flush(runtime, false);
    }
    if (status == ORR_OK) {
        status = orr__tensor_check_kept(tensor, what);
    }
    return status == ORR_OK ? orr__tape_reserve(runtime, &tensor, 1) : status;
}

enum orr_status orr_tensor_redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                        struct orr_tensor **out_tensor) {
    struct orr_runtime *runtime = tensor->runtime;
    *out_tensor = NULL;
    orr_error_clear(&runtime->error);
    enum orr_status status = orr_layout_check(layout, &tensor->info.shape, &runtime->error);
    if (status == ORR_OK && orr_layout_equal(&tensor->layout, layout)) {
        *out_tensor = orr_tensor_retain(tensor); /* nothing has to change */
        return ORR_OK;
    }
    if (status == ORR_OK) {
        status = orr__redistribute_begin(tensor, "redistribute");
    }
    if (status == ORR_OK) {
        status = orr__recordings_turn(runtime, NULL);
    }
    if (status == ORR_OK) {
        status = orr__redistribute(tensor, layout, out_tensor);
    }
    if (status == ORR_OK) {
        struct orr__stage step = {.input_count = 1, .inputs = {tensor}, .outputs = {*out_tensor}};
        orr__tape_record(runtime, &step);
        orr__recordings_add(runtime, &step);
    }
    return status;
}
