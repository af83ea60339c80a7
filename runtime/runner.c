/* The runner: turns an operator into one kernel per device.
 *
 *     infer (whole shapes) -> placements by rule -> per rank: local shapes, cost, blobs, kernel
 *
 * What a kernel needs to compute lives in its work object until it has retired; under timing-only
 * there is none. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/recording_internal.h"
#include "runtime/tensor_internal.h"

const char *orr__operator_class_text(enum orr_operator_class class) {
    static const char *const texts[] = {"gemm",   "pointwise", "norm",  "reduction", "attention",
                                        "gather", "move",      "alias", "source",    "update"};
    return texts[class];
}

static struct orr_layout source_layout(struct orr_runtime *runtime,
                                       const struct orr_layout *layout) {
    if (layout) {
        return *layout;
    }
    return orr_layout_replicated(orr_mesh_default(runtime));
}

/* Every rank of a partial source would make a full term, and their sum would be another tensor. */
static enum orr_status check_source_layout(struct orr_runtime *runtime,
                                           const struct orr_operator *op,
                                           const struct orr_layout *layout) {
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        if (layout->axes[i].kind == ORR_PARTIAL && strcmp(op->name, "zeros") != 0) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "%s: a new tensor can't be placed P along mesh axis '%s'; "
                                     "expected R or S(dim)",
                                     op->name, layout->mesh->names[i]);
        }
    }
    return ORR_OK;
}

enum orr_status orr__operator_infer(struct orr_runtime *runtime, const struct orr_operator *op,
                                    struct orr_tensor *const *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_layout *layout,
                                    struct orr_operand_info *out_infos,
                                    struct orr_layout *out_layout) {
    struct orr_operand_info infos[ORR_INPUTS_MAX];
    const struct orr_layout *layouts[ORR_INPUTS_MAX];
    orr_error_clear(&runtime->error);
    if (input_count < op->inputs_min || input_count > op->inputs_max) {
        return orr__runtime_fail(runtime, ORR_INVALID, "%s: takes %d to %d operands, not %d",
                                 op->name, op->inputs_min, op->inputs_max, input_count);
    }
    for (int i = 0; i < input_count; i++) {
        if (inputs[i]->replaced) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "%s: operand %s was changed in place; use the result of the "
                                     "operator that did so",
                                     op->name, op->input_names[i]);
        }
        if (inputs[i]->dead) {
            return orr__runtime_fail(
                runtime, ORR_INVALID,
                "%s: operand %s was made inside a region and not returned from "
                "it, so it was never kept in memory",
                op->name, op->input_names[i]);
        }
        if (inputs[i]->evicted) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "%s: operand %s has been evicted; restore it first", op->name,
                                     op->input_names[i]);
        }
        infos[i] = inputs[i]->info;
        layouts[i] = &inputs[i]->layout;
    }
    enum orr_status status = op->infer(infos, input_count, attributes, out_infos, &runtime->error);
    if (status != ORR_OK) {
        return status;
    }
    if (op->class == ORR_OPERATOR_SOURCE) {
        if (!layout && !orr_mesh_default(runtime)) {
            return ORR_NO_MEMORY;
        }
        *out_layout = source_layout(runtime, layout);
        status = orr_layout_check(out_layout, &out_infos[0].shape, &runtime->error);
        return status == ORR_OK ? check_source_layout(runtime, op, out_layout) : status;
    }
    assert(!layout);
    return orr_placement_infer(op, infos, layouts, input_count, attributes, out_infos, out_layout,
                               &runtime->error);
}

uint64_t orr__op_record(struct orr_runtime *runtime, const char *name, const char *kind,
                        struct orr_cost cost, const struct orr_operand_info *output,
                        uint64_t parent) {
    uint64_t id = ++runtime->op_count;
    char shape[ORR_SHAPE_TEXT_MAX];
    struct orr_record_op record = {.header = ORR_RECORD_HEADER(op, OP),
                                   .id = id,
                                   .parent = parent,
                                   .flops = cost.flops,
                                   .bytes_read = cost.bytes_read,
                                   .bytes_written = cost.bytes_written,
                                   .bytes_broadcast = cost.bytes_broadcast,
                                   .site = runtime->site};
    record.header.a = (uint8_t)output->dtype;
    if (runtime->writer && orr__runtime_name(runtime, name, &record.name) == ORR_OK &&
        orr__runtime_name(runtime, kind, &record.kind) == ORR_OK &&
        orr__runtime_name(runtime, orr_shape_text(&output->shape, shape), &record.shape) ==
            ORR_OK) {
        orr__runtime_record(runtime, &record);
    }
    return id;
}

/* An operator on one rank: local shapes, localized attributes, cost. */
struct local {
    struct orr_operand_info inputs[ORR_INPUTS_MAX], outputs[ORR_OUTPUTS_MAX];
    struct orr_attributes attributes;
    struct orr_cost cost;
    bool nothing; /* its pieces of the results are empty: there is nothing to compute */
};

/* A query head reads the key-value head of its group: a rank's pieces must have the whole's groups,
 * which uneven shards of heads don't have. k is the operand behind q. */
static bool has_own_heads(const struct orr__stage *stage, const struct local *local) {
    const struct orr_operator *op = stage->op;
    int q = 0;
    while (q < stage->input_count && strcmp(op->input_names[q], "q") != 0) {
        q++;
    }
    if (op->class != ORR_OPERATOR_ATTENTION || q + 1 >= stage->input_count) {
        return true;
    }
    const struct orr_shape *whole_q = &stage->inputs[q]->info.shape;
    const struct orr_shape *whole_k = &stage->inputs[q + 1]->info.shape;
    return local->inputs[q].shape.dims[1] * whole_k->dims[1] ==
           local->inputs[q + 1].shape.dims[1] * whole_q->dims[1];
}

static struct orr__piece piece_of(const struct orr_tensor *tensor, uint32_t rank) {
    struct orr__piece piece = {.whole = tensor->info.shape};
    piece.shape = orr_layout_local(&tensor->layout, &tensor->info.shape, rank, piece.starts);
    return piece;
}

/* Local shapes, and the attributes that go with them. */
static void cut(const struct orr__stage *stage, uint32_t rank, struct local *local) {
    struct orr__piece inputs[ORR_INPUTS_MAX], outputs[ORR_OUTPUTS_MAX];
    for (int i = 0; i < stage->input_count; i++) {
        inputs[i] = piece_of(stage->inputs[i], rank);
        local->inputs[i] = (struct orr_operand_info){.dtype = stage->inputs[i]->info.dtype,
                                                     .shape = inputs[i].shape};
    }
    for (int i = 0; i < stage->op->outputs; i++) {
        outputs[i] = piece_of(stage->outputs[i], rank);
        local->outputs[i] = (struct orr_operand_info){.dtype = stage->outputs[i]->info.dtype,
                                                      .shape = outputs[i].shape};
    }
    local->attributes = stage->attributes;
    orr__localize(stage->op, inputs, stage->input_count, &outputs[0], &local->attributes);
}

static bool makes_nothing(const struct orr_operator *op, const struct local *local) {
    for (int i = 0; i < op->outputs; i++) {
        if (orr_shape_count(&local->outputs[i].shape) > 0) {
            return false;
        }
    }
    return true;
}

/* The rule takes these placements, but not for these sizes. */
static enum orr_status refuse_pieces(struct orr_runtime *runtime, const struct orr__stage *stage,
                                     uint32_t rank, const char *why) {
    const struct orr_layout *layouts[ORR_INPUTS_MAX];
    char given[ORR_PLACEMENTS_TEXT_MAX];
    for (int i = 0; i < stage->input_count; i++) {
        layouts[i] = &stage->inputs[i]->layout;
    }
    return orr__runtime_fail(
        runtime, ORR_UNSUPPORTED, "%s: placements %s: of rank %u, %s; even shards or R would do",
        stage->op->name, orr_placements_text(stage->op, layouts, stage->input_count, given), rank,
        why);
}

static enum orr_status localize(struct orr_runtime *runtime, const struct orr__stage *stage,
                                uint32_t rank, struct local *local) {
    const struct orr_operator *op = stage->op;
    cut(stage, rank, local);
    local->cost = (struct orr_cost){0};
    local->nothing = makes_nothing(op, local);
    if (local->nothing) {
        return ORR_OK;
    }
    struct orr_operand_info inferred[ORR_OUTPUTS_MAX];
    struct orr_error error = {0};
    bool fits = op->infer(local->inputs, stage->input_count, &local->attributes, inferred,
                          &error) == ORR_OK;
    for (int i = 0; fits && i < op->outputs; i++) {
        fits = orr_shape_equal(&inferred[i].shape, &local->outputs[i].shape);
    }
    if (!fits) {
        return refuse_pieces(runtime, stage, rank,
                             "pieces of the operands don't make up the piece of the result");
    }
    if (!has_own_heads(stage, local)) {
        return refuse_pieces(runtime, stage, rank,
                             "the query heads are not those of its key-value heads");
    }
    local->cost = op->cost(local->inputs, stage->input_count, &local->attributes, local->outputs);
    return ORR_OK;
}

/* What a kernel computes with: views of its operands. */
struct work {
    const struct orr_memory *memory;
    const struct orr_operator *op;
    struct orr_attributes attributes;
    int input_count;
    struct orr_tensor_view outputs[ORR_OUTPUTS_MAX];
    struct orr_tensor_view inputs[];
};

static enum orr_status run_work(void *object, struct orr_error *error) {
    struct work *work = object;
    return work->op->compute(work->inputs, work->input_count, &work->attributes, work->outputs,
                             work->memory, error);
}

static void describe_work(const void *object, struct orr_task *out_task) {
    const struct work *work = object;
    *out_task = (struct orr_task){.kind = ORR_TASK_OPERATOR,
                                  .call = {.op = work->op,
                                           .attributes = &work->attributes,
                                           .input_count = work->input_count,
                                           .inputs = work->inputs,
                                           .outputs = work->outputs}};
}

static void release_work(void *object) {
    struct work *work = object;
    orr_memory_free(work->memory, work);
}

static struct orr_tensor_view view_of(const struct orr_operand_info *info,
                                      const struct orr_tensor *tensor, uint32_t rank) {
    return (struct orr_tensor_view){.dtype = info->dtype,
                                    .shape = info->shape,
                                    .data =
                                        orr_buffer_pointer(orr__tensor_blob(tensor, rank)->buffer)};
}

/* NULL without memory. */
static struct work *new_work(struct orr_runtime *runtime, const struct orr__stage *stage,
                             uint32_t rank, const struct local *local) {
    struct work *work =
        orr_memory_alloc(runtime->memory, sizeof *work + (size_t)stage->input_count *
                                                             sizeof(struct orr_tensor_view));
    if (!work) {
        return NULL;
    }
    work->memory = runtime->memory;
    work->op = stage->op;
    work->attributes = local->attributes;
    work->input_count = stage->input_count;
    for (int i = 0; i < stage->input_count; i++) {
        work->inputs[i] = view_of(&local->inputs[i], stage->inputs[i], rank);
    }
    for (int i = 0; i < stage->op->outputs; i++) {
        work->outputs[i] = view_of(&local->outputs[i], stage->outputs[i], rank);
    }
    return work;
}

static uint64_t bytes_of(const struct orr_operand_info *info) {
    return (uint64_t)orr_shape_count(&info->shape) * orr_dtype_size(info->dtype);
}

static void add_range(struct orr__launch *launch, struct orr_range *ranges,
                      const struct orr_operand_info *info, const struct orr_tensor *tensor,
                      enum orr_access_mode mode) {
    ranges[launch->kernel.access_count++] =
        (struct orr_range){.buffer = orr__tensor_blob(tensor, launch->rank)->buffer,
                           .bytes = bytes_of(info),
                           .mode = mode};
}

static void release_unused_work(const struct orr_kernel *kernel) {
    if (kernel->work) {
        kernel->release(kernel->work);
    }
}

enum orr_status orr__launch_kernel(struct orr_runtime *runtime, struct orr__launch *launch) {
    struct orr_range ranges[ORR_INPUTS_MAX + ORR_OUTPUTS_MAX];
    uint32_t device = launch->outputs[0]->layout.mesh->devices[launch->rank];
    struct orr_stream *stream = orr_device_stream(runtime, device, ORR_STREAM_COMPUTE);
    enum orr_status status = stream ? ORR_OK : ORR_NO_MEMORY;
    for (int i = 0; status == ORR_OK && i < launch->input_count; i++) {
        struct orr__blob *blob = orr__tensor_blob(launch->inputs[i], launch->rank);
        bool changes = launch->in_place && i == 0;
        status = changes ? orr__blob_overwrite(blob, stream) : orr__blob_use(blob, stream);
        add_range(launch, ranges, &launch->input_infos[i], launch->inputs[i],
                  changes ? ORR_ACCESS_READ_WRITE : ORR_ACCESS_READ);
    }
    for (int i = launch->in_place; status == ORR_OK && i < launch->output_count; i++) {
        add_range(launch, ranges, &launch->output_infos[i], launch->outputs[i], ORR_ACCESS_WRITE);
    }
    struct orr_point point;
    if (status == ORR_OK) {
        launch->kernel.accesses = ranges;
        launch->kernel.service_ns = -1;
        launch->kernel.submit_ns =
            launch->rank == 0 ? -1 : runtime->devices[device].spec.host_launch_ns;
        status = orr_stream_kernel(stream, &launch->kernel, &point);
    }
    if (status != ORR_OK) {
        release_unused_work(&launch->kernel);
        return status;
    }
    for (int i = 0; i < launch->output_count; i++) {
        orr__blob_written(orr__tensor_blob(launch->outputs[i], launch->rank), stream, point);
    }
    return ORR_OK;
}

enum orr_dtype orr__arithmetic_dtype(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_operand_info *output) {
    for (int i = 0; i < input_count; i++) {
        if (orr_dtype_is_float(inputs[i].dtype)) {
            return inputs[i].dtype;
        }
    }
    return output->dtype;
}

static enum orr_status launch_on_rank(struct orr_runtime *runtime, const struct orr__stage *stage,
                                      uint32_t rank, const struct local *local, uint64_t op) {
    struct orr__launch launch = {
        .rank = rank,
        .inputs = stage->inputs,
        .input_infos = local->inputs,
        .input_count = stage->input_count,
        .outputs = stage->outputs,
        .output_infos = local->outputs,
        .output_count = stage->op->outputs,
        .in_place = stage->op->in_place,
        .kernel = {.name = stage->op->name,
                   .dtype =
                       orr__arithmetic_dtype(local->inputs, stage->input_count, &local->outputs[0]),
                   .cost = local->cost,
                   .op = op}};
    bool computes = !runtime->timing_only && !local->nothing;
    if (computes && orr_tensor_buffer(stage->outputs[0], rank)->data) {
        launch.kernel.work = new_work(runtime, stage, rank, local);
        launch.kernel.run = run_work;
        launch.kernel.describe = describe_work;
        launch.kernel.release = release_work;
        if (!launch.kernel.work) {
            return orr__runtime_no_memory(runtime);
        }
    }
    return orr__launch_kernel(runtime, &launch);
}

static enum orr_status run_on_ranks(struct orr_runtime *runtime, const struct orr__stage *stage) {
    const struct orr_mesh *mesh = stage->outputs[0]->layout.mesh;
    uint64_t op = 0;
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        struct local local;
        enum orr_status status = localize(runtime, stage, rank, &local);
        if (status != ORR_OK) {
            return status;
        }
        if (rank == 0) {
            op =
                orr__op_record(runtime, stage->op->name, orr__operator_class_text(stage->op->class),
                               local.cost, &stage->outputs[0]->info, 0);
        }
        status = launch_on_rank(runtime, stage, rank, &local, op);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

enum orr_status orr__run_operator(struct orr_runtime *runtime, const struct orr__stage *stage) {
    if (stage->op->class == ORR_OPERATOR_ALIAS) {
        orr__tensor_share(stage->outputs[0], stage->inputs[0]);
        stage->outputs[0]->family = stage->inputs[0]->family;
        return ORR_OK;
    }
    orr__runtime_operator_begin(runtime, stage->outputs[0]->layout.mesh->devices[0], -1);
    enum orr_status status = ORR_OK;
    if (stage->op->in_place) {
        orr__tensor_share(stage->outputs[0], stage->inputs[0]);
    }
    for (int i = stage->op->in_place; status == ORR_OK && i < stage->op->outputs; i++) {
        status = orr__tensor_allocate(stage->outputs[i], ORR_STREAM_COMPUTE, stage->op->name);
    }
    if (status == ORR_OK) {
        status = run_on_ranks(runtime, stage);
    }
    if (status == ORR_OK && stage->op->in_place) { /* one reference less: the result's is left */
        stage->inputs[0]->replaced = true;
        orr__tensor_drop_storage(stage->inputs[0]);
    }
    /* Recording costs the host nothing; the launch of the program pays. */
    orr__runtime_operator_end(runtime, status == ORR_OK && !runtime->capture);
    return status;
}

static void drop_outputs(const struct orr__stage *stage, int count) {
    for (int i = 0; i < count; i++) {
        orr__tensor_release(stage->outputs[i]);
    }
}

/* Nothing else sees the memory that the operator changes: no other tensor, no tape, no region. */
static enum orr_status check_in_place(struct orr_runtime *runtime, const struct orr_operator *op,
                                      struct orr_tensor *const *inputs, int input_count) {
    const struct orr_tensor *x = inputs[0];
    if (runtime->region) {
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED,
                                 "%s changes its operand in place, which a compiled function does "
                                 "not follow; call it outside",
                                 op->name);
    }
    const struct orr__storage *storage = x->storage;
    for (int i = 1; i < input_count; i++) {
        if (inputs[i]->storage == storage) {
            return orr__runtime_fail(runtime, ORR_INVALID,
                                     "%s changes operand %s in place, and operand %s is the same "
                                     "memory",
                                     op->name, op->input_names[0], op->input_names[i]);
        }
    }
    bool alone = storage->references == 1 && storage->views == 0 && !storage->base;
    if (x->references == 1 && alone) {
        return ORR_OK;
    }
    return orr__runtime_fail(
        runtime, ORR_INVALID, "%s changes operand %s in place, but %s holds its memory too",
        op->name, op->input_names[0], alone ? "a tape or another handle" : "another tensor");
}

enum orr_status orr_tensor_apply(struct orr_runtime *runtime, const struct orr_operator *op,
                                 struct orr_tensor *const *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_layout *layout, struct orr_tensor **out_outputs) {
    struct orr_operand_info infos[ORR_OUTPUTS_MAX];
    struct orr_layout out_layout;
    for (int i = 0; i < op->outputs; i++) {
        out_outputs[i] = NULL;
    }
    enum orr_status status = orr__operator_infer(runtime, op, inputs, input_count, attributes,
                                                 layout, infos, &out_layout);
    if (status == ORR_OK && op->in_place) {
        status = check_in_place(runtime, op, inputs, input_count);
    }
    if (status == ORR_OK) {
        status = orr__tape_reserve(runtime, inputs, input_count);
    }
    if (status == ORR_OK) {
        status = orr__runtime_turn(runtime); /* before anything is done that can't be repeated */
    }
    if (status == ORR_OK) {
        status = orr__recordings_turn(runtime, op->in_place ? inputs[0] : NULL);
    }
    if (status != ORR_OK) {
        return status;
    }
    struct orr__stage stage = {.op = op, .attributes = *attributes, .input_count = input_count};
    for (int i = 0; i < input_count; i++) {
        stage.inputs[i] = inputs[i];
    }
    for (int i = 0; i < op->outputs; i++) {
        stage.outputs[i] = orr__tensor_new(runtime, &infos[i], &out_layout);
        if (!stage.outputs[i]) {
            drop_outputs(&stage, i);
            return ORR_NO_MEMORY;
        }
    }
    status =
        runtime->region ? orr__region_add(runtime, &stage) : orr__run_operator(runtime, &stage);
    if (status != ORR_OK) {
        drop_outputs(&stage, op->outputs);
        return status;
    }
    orr__tape_record(runtime, &stage);
    orr__recordings_add(runtime, &stage);
    for (int i = 0; i < op->outputs; i++) {
        out_outputs[i] = stage.outputs[i];
    }
    return ORR_OK;
}
