/* Regions: the logical graph while it is collected, and compiled functions over it.
 *
 *     traced function --> nodes (calls in program order) --> groups (fusion) --> kernels
 *                                                               |
 *                                              capture: a recorded program, launched at once
 */
#include "runtime/region.h"

#include <assert.h>
#include <string.h>

#include "runtime/program_internal.h"
#include "runtime/role.h"
#include "runtime/tensor_internal.h"

enum { NODES_MAX = 1 << 20, ENTRIES_MAX = 1 << 12, TENSORS_MAX = 1 << 20 };

/* A growing list of tensors, each held by one reference. */
struct tensor_list {
    struct orr_tensor **items;
    size_t count, capacity;
};

struct orr_region {
    struct orr_runtime *runtime;
    enum orr_fusion_mode fusion;
    bool capture;
    struct orr__stage *nodes;
    size_t node_count, node_capacity;
    struct tensor_list externals; /* operands that no node makes */
    struct orr_program *program;  /* of the last piece, when captured */
    uint64_t breaks;
};

/* One captured form of a compiled function. */
struct entry {
    struct orr_program *program;
    struct tensor_list inputs, outputs, externals;
    uint64_t evictions; /* of its operands when it was captured: the program has their memory */
    bool owns_inputs;   /* private copies of the operands, which replays may overwrite */
    /* A replay by `host` that was blocked, and is to be repeated. */
    bool under_way, begun; /* begun: the launch is */
    uint32_t host;
    size_t copied; /* operands copied */
};

struct orr_compiled {
    struct orr_runtime *runtime;
    struct orr_compiled *previous, *next; /* live ones of the runtime */
    char *name;
    enum orr_fusion_mode fusion;
    bool capture;
    struct entry *entries;
    size_t entry_count, entry_capacity;
    struct orr_compiled_counts counts;
};

/* --- lists of tensors --- */

static enum orr_status list_add(struct orr_runtime *runtime, struct tensor_list *list,
                                struct orr_tensor *tensor) {
    enum orr_status status =
        orr_memory_grow(runtime->memory, &list->items, &list->capacity, list->count + 1,
                        sizeof(struct orr_tensor *), TENSORS_MAX);
    if (status != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    tensor->references++;
    list->items[list->count++] = tensor;
    return ORR_OK;
}

static void list_clear(struct orr_runtime *runtime, struct tensor_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        orr__tensor_release(list->items[i]);
    }
    orr_memory_free(runtime->memory, list->items);
    *list = (struct tensor_list){0};
}

/* Index of a tensor in a list, or the list's length. */
static size_t list_find(const struct tensor_list *list, const struct orr_tensor *tensor) {
    size_t i = 0;
    while (i < list->count && list->items[i] != tensor) {
        i++;
    }
    return i;
}

/* --- collecting --- */

enum orr_status orr__region_add(struct orr_runtime *runtime, const struct orr__stage *stage) {
    struct orr_region *region = runtime->region;
    enum orr_status status =
        orr_memory_grow(runtime->memory, &region->nodes, &region->node_capacity,
                        region->node_count + 1, sizeof *region->nodes, NODES_MAX);
    if (status != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    for (int i = 0; i < stage->input_count; i++) {
        struct orr_tensor *input = stage->inputs[i];
        if (input->node < 0 && list_find(&region->externals, input) == region->externals.count) {
            status = list_add(runtime, &region->externals, input);
            if (status != ORR_OK) {
                return status;
            }
        }
    }
    for (int i = 0; i < stage->input_count; i++) {
        stage->inputs[i]->references++;
    }
    for (int i = 0; i < stage->op->outputs; i++) {
        stage->outputs[i]->references++;
        stage->outputs[i]->node = (int)region->node_count;
    }
    region->nodes[region->node_count++] = *stage;
    return ORR_OK;
}

static void drop_nodes(struct orr_region *region) {
    for (size_t i = 0; i < region->node_count; i++) {
        struct orr__stage *node = &region->nodes[i];
        for (int k = 0; k < node->op->outputs; k++) {
            node->outputs[k]->node = -1;
            node->outputs[k]->dead |= !node->outputs[k]->storage; /* a tracing that failed */
        }
    }
    for (size_t i = 0; i < region->node_count; i++) {
        struct orr__stage *node = &region->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            orr__tensor_release(node->inputs[k]);
        }
        for (int k = 0; k < node->op->outputs; k++) {
            orr__tensor_release(node->outputs[k]);
        }
    }
    region->node_count = 0;
}

/* --- from graph to kernels --- */

/* The graph as the fusion planner wants it, and its plan. Arrays of one entry per node. */
struct plan {
    struct orr_fusion_call *calls;
    struct orr_operand_info *operands; /* ORR_INPUTS_MAX for each call */
    struct orr_fusion_group *groups;
    int group_count;
};

static bool is_kept(const struct orr_tensor *tensor, struct orr_tensor *const *kept,
                    int kept_count) {
    if (kept_count < 0) {
        return true;
    }
    for (int i = 0; i < kept_count; i++) {
        if (kept[i] == tensor) {
            return true;
        }
    }
    return false;
}

/* Values as the planner numbers them. A node's first result has the node's number. Operators with
 * more results are never fused, so to the planner the others come from outside: they are made by an
 * earlier group than any that reads them. Their numbers lie below those of the externals. */
static int value_of(const struct orr_region *region, const struct orr_tensor *tensor) {
    if (tensor->node < 0) {
        return -1 - (int)list_find(&region->externals, tensor);
    }
    const struct orr__stage *node = &region->nodes[tensor->node];
    int result = 0;
    while (node->outputs[result] != tensor) {
        result++;
    }
    return result == 0
               ? tensor->node
               : -1 - (int)region->externals.count - tensor->node * ORR_OUTPUTS_MAX - result;
}

static void describe(const struct orr_region *region, struct plan *plan,
                     struct orr_tensor *const *kept, int kept_count) {
    for (size_t i = 0; i < region->node_count; i++) {
        const struct orr__stage *node = &region->nodes[i];
        struct orr_fusion_call *call = &plan->calls[i];
        call->op = node->op;
        call->attributes = &node->attributes;
        call->input_count = node->input_count;
        call->operands = &plan->operands[i * ORR_INPUTS_MAX];
        for (int k = 0; k < node->input_count; k++) {
            call->inputs[k] = value_of(region, node->inputs[k]);
            plan->operands[i * ORR_INPUTS_MAX + (size_t)k] = node->inputs[k]->info;
        }
        call->result = node->outputs[0]->info;
        call->kept = is_kept(node->outputs[0], kept, kept_count);
    }
}

static struct orr_tensor *tensor_of(const struct orr_region *region, int value) {
    int external = -1 - value, further = external - (int)region->externals.count;
    if (value >= 0) {
        return region->nodes[value].outputs[0];
    }
    return further < 0
               ? region->externals.items[external]
               : region->nodes[further / ORR_OUTPUTS_MAX].outputs[further % ORR_OUTPUTS_MAX];
}

static enum orr_status run_group(struct orr_region *region, const struct plan *plan,
                                 const struct orr_fusion_group *group) {
    if (group->call_count == 1) {
        return orr__run_operator(region->runtime, &region->nodes[group->calls[0]]);
    }
    struct orr_fused fused;
    int values[ORR_FUSED_OPERANDS_MAX];
    struct orr_operand_info infos[ORR_FUSED_OPERANDS_MAX];
    struct orr_tensor *operands[ORR_FUSED_OPERANDS_MAX];
    orr_fusion_build(plan->calls, group, &fused, values, infos);
    for (int i = 0; i < fused.operand_count; i++) {
        operands[i] = tensor_of(region, values[i]);
    }
    int last = group->calls[group->call_count - 1];
    return orr__run_fused(region->runtime, &fused, operands, region->nodes[last].outputs[0]);
}

static enum orr_status run_graph(struct orr_region *region, struct orr_tensor *const *kept,
                                 int kept_count) {
    struct orr_runtime *runtime = region->runtime;
    size_t count = region->node_count;
    struct plan plan = {.calls = orr_memory_alloc(runtime->memory, count * sizeof *plan.calls),
                        .operands = orr_memory_alloc(runtime->memory, count * ORR_INPUTS_MAX *
                                                                          sizeof *plan.operands),
                        .groups = orr_memory_alloc(runtime->memory, count * sizeof *plan.groups)};
    enum orr_status status = ORR_NO_MEMORY;
    if (plan.calls && plan.operands && plan.groups) {
        describe(region, &plan, kept, kept_count);
        status = orr_fusion_plan(plan.calls, (int)count, region->fusion, runtime->memory,
                                 plan.groups, &plan.group_count, &runtime->error);
    }
    if (status == ORR_NO_MEMORY) {
        (void)orr__runtime_no_memory(runtime);
    }
    for (int i = 0; status == ORR_OK && i < plan.group_count; i++) {
        status = run_group(region, &plan, &plan.groups[i]);
    }
    orr_memory_free(runtime->memory, plan.calls);
    orr_memory_free(runtime->memory, plan.operands);
    orr_memory_free(runtime->memory, plan.groups);
    return status;
}

/* --- launching --- */

static struct orr_stream *launch_stream(struct orr_runtime *runtime,
                                        const struct orr_tensor *tensor) {
    return orr_device_stream(runtime, tensor->layout.mesh->devices[0], ORR_STREAM_COMPUTE);
}

/* The launch comes after whatever made an operand. */
static enum orr_status wait_for_operands(struct orr_stream *stream,
                                         const struct tensor_list *operands) {
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < operands->count; i++) {
        struct orr__storage *storage = operands->items[i]->storage;
        for (uint32_t rank = 0; status == ORR_OK && rank < storage->count; rank++) {
            const struct orr__blob *blob = orr__storage_blob(storage, rank);
            if (blob->writer && blob->writer != stream) {
                status = orr_stream_wait_point(stream, blob->written);
            }
        }
    }
    return status;
}

/* ... and after whatever may still read the results of the launch before. For what has retired
 * already a command would be wasted. */
static enum orr_status wait_for_readers(struct orr_runtime *runtime, struct orr_program *program,
                                        struct orr_stream *stream,
                                        const struct tensor_list *results) {
    enum orr_status status = ORR_OK;
    program->after_count = 0; /* of an attempt that was blocked */
    const struct orr_mesh *mesh = results->count ? results->items[0]->layout.mesh : NULL;
    for (uint32_t rank = 0; mesh && rank < mesh->size; rank++) {
        const struct orr__device *device = &runtime->devices[mesh->devices[rank]];
        for (int kind = 0; status == ORR_OK && kind < ORR_STREAM_KIND_COUNT; kind++) {
            const struct orr_stream *reader = device->streams[kind];
            if (!reader || reader == stream || reader->last.seq == 0) {
                continue;
            }
            status = orr__point_retired(runtime, reader->last)
                         ? orr__program_launch_after(program, reader->last)
                         : orr_stream_wait_point(stream, reader->last);
        }
    }
    return status;
}

static void mark_written(struct orr_stream *stream, struct orr_tensor *const *tensors,
                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct orr__storage *storage = tensors[i]->storage;
        for (uint32_t rank = 0; storage && rank < storage->count; rank++) {
            orr__blob_written(orr__storage_blob(storage, rank), stream, orr_stream_point(stream));
        }
    }
}

/* Records the graph's kernels as a program and launches it. */
static enum orr_status capture_graph(struct orr_region *region, struct orr_tensor *const *kept,
                                     int kept_count) {
    struct orr_runtime *runtime = region->runtime;
    struct orr_stream *stream = launch_stream(runtime, region->nodes[0].outputs[0]);
    orr_program_destroy(&region->program);
    enum orr_status status = stream ? wait_for_operands(stream, &region->externals) : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        status = orr_program_begin(runtime, &region->program);
    }
    if (status == ORR_OK) {
        status = run_graph(region, kept, kept_count);
    }
    if (status == ORR_OK) {
        status = orr_program_end(region->program);
    }
    if (status == ORR_OK) {
        status = orr_program_launch(region->program, stream);
    }
    if (status != ORR_OK) {
        orr_program_destroy(&region->program);
        return status;
    }
    for (size_t i = 0; i < region->node_count; i++) {
        mark_written(stream, region->nodes[i].outputs, (size_t)region->nodes[i].op->outputs);
    }
    return ORR_OK;
}

/* Runs what has been collected. kept_count -1 keeps everything. */
static enum orr_status flush(struct orr_region *region, struct orr_tensor *const *kept,
                             int kept_count) {
    if (region->node_count == 0) {
        return ORR_OK;
    }
    struct orr_runtime *runtime = region->runtime;
    runtime->region = NULL;
    enum orr_status status = region->capture ? capture_graph(region, kept, kept_count)
                                             : run_graph(region, kept, kept_count);
    runtime->region = region;
    for (size_t i = 0; i < region->node_count; i++) {
        for (int k = 0; k < region->nodes[i].op->outputs; k++) {
            struct orr_tensor *output = region->nodes[i].outputs[k];
            output->dead = !output->storage || !is_kept(output, kept, kept_count);
            if (output->dead) {
                orr__tensor_drop_storage(output);
            }
        }
    }
    drop_nodes(region);
    return status;
}

enum orr_status orr__region_flush(struct orr_runtime *runtime, bool host_reads) {
    struct orr_region *region = runtime->region;
    if (!region) {
        return ORR_OK;
    }
    enum orr_status status = flush(region, NULL, -1);
    if (status == ORR_OK && region->capture) {
        region->breaks++;
        orr_runtime_finding(runtime, "graph-break", "note", 0, 0, 0,
                            host_reads ? "a host read inside a captured region breaks it in two"
                                       : "a redistribute inside a captured region breaks it in two",
                            host_reads ? "read the value outside of the region"
                                       : "redistribute outside of the region");
    }
    return status;
}

/* --- compiled functions --- */

enum orr_status orr_compiled_create(struct orr_runtime *runtime, const char *name,
                                    enum orr_fusion_mode fusion, bool capture,
                                    struct orr_compiled **out_compiled) {
    *out_compiled = NULL;
    struct orr_compiled *compiled = orr_memory_alloc(runtime->memory, sizeof *compiled);
    char *copy = orr_memory_text(runtime->memory, name, strlen(name));
    if (!compiled || !copy) {
        orr_memory_free(runtime->memory, compiled);
        orr_memory_free(runtime->memory, copy);
        return orr__runtime_no_memory(runtime);
    }
    compiled->runtime = runtime;
    compiled->name = copy;
    compiled->fusion = fusion;
    compiled->capture = capture;
    compiled->next = runtime->compiled;
    if (compiled->next) {
        compiled->next->previous = compiled;
    }
    runtime->compiled = compiled;
    *out_compiled = compiled;
    return ORR_OK;
}

static void entry_clear(struct orr_runtime *runtime, struct entry *entry) {
    orr_program_destroy(&entry->program);
    list_clear(runtime, &entry->inputs);
    list_clear(runtime, &entry->outputs);
    list_clear(runtime, &entry->externals);
}

void orr_compiled_destroy(struct orr_compiled **compiled) {
    struct orr_compiled *gone = *compiled;
    if (!gone) {
        return;
    }
    *compiled = NULL;
    for (size_t i = 0; i < gone->entry_count; i++) {
        entry_clear(gone->runtime, &gone->entries[i]);
    }
    *(gone->previous ? &gone->previous->next : &gone->runtime->compiled) = gone->next;
    if (gone->next) {
        gone->next->previous = gone->previous;
    }
    orr_memory_free(gone->runtime->memory, gone->entries);
    orr_memory_free(gone->runtime->memory, gone->name);
    orr_memory_free(gone->runtime->memory, gone);
}

/* With the runtime: programs and tensors are freed as a whole, by themselves. */
void orr__compiled_destroy(struct orr_runtime *runtime) {
    while (runtime->compiled) {
        struct orr_compiled *compiled = runtime->compiled;
        runtime->compiled = compiled->next;
        for (size_t i = 0; i < compiled->entry_count; i++) {
            orr_memory_free(runtime->memory, compiled->entries[i].inputs.items);
            orr_memory_free(runtime->memory, compiled->entries[i].outputs.items);
            orr_memory_free(runtime->memory, compiled->entries[i].externals.items);
        }
        orr_memory_free(runtime->memory, compiled->entries);
        orr_memory_free(runtime->memory, compiled->name);
        orr_memory_free(runtime->memory, compiled);
    }
}

struct orr_compiled_counts orr_compiled_counts(const struct orr_compiled *compiled) {
    return compiled->counts;
}

static bool guards_hold(const struct entry *entry, struct orr_tensor *const *inputs,
                        int input_count) {
    if (entry->inputs.count != (size_t)input_count) {
        return false;
    }
    for (int i = 0; i < input_count; i++) {
        const struct orr_tensor *captured = entry->inputs.items[i];
        if (captured->info.dtype != inputs[i]->info.dtype ||
            !orr_shape_equal(&captured->info.shape, &inputs[i]->info.shape) ||
            !orr_layout_equal(&captured->layout, &inputs[i]->layout)) {
            return false;
        }
    }
    return true;
}

static bool same_operands(const struct entry *entry, struct orr_tensor *const *inputs,
                          int input_count) {
    for (int i = 0; i < input_count; i++) {
        if (entry->inputs.items[i]->storage != inputs[i]->storage) {
            return false;
        }
    }
    return true;
}

/* Changes if any operand of a captured form has got other memory. */
static uint64_t evictions_of(const struct entry *entry) {
    const struct tensor_list *lists[2] = {&entry->inputs, &entry->externals};
    uint64_t evictions = 0;
    for (int list = 0; list < 2; list++) {
        for (size_t i = 0; i < lists[list]->count; i++) {
            evictions += lists[list]->items[i]->evictions;
        }
    }
    return evictions;
}

/* Copies a tensor's blobs over those of another of the same shape and placements. */
static enum orr_status copy_tensor(struct orr_runtime *runtime, struct orr_tensor *to,
                                   struct orr_tensor *from) {
    enum orr_status status = ORR_OK;
    for (uint32_t rank = 0; status == ORR_OK && rank < to->storage->count; rank++) {
        struct orr__blob *source = orr__tensor_blob(from, rank);
        struct orr__blob *target = orr__tensor_blob(to, rank);
        struct orr_stream *stream =
            orr_device_stream(runtime, to->layout.mesh->devices[rank], ORR_STREAM_COMPUTE);
        status = stream ? orr__blob_use(source, stream) : ORR_NO_MEMORY;
        if (status == ORR_OK) {
            status = orr_stream_copy(stream, target->buffer, 0, source->buffer, 0,
                                     orr_buffer_bytes(target->buffer));
        }
        if (status == ORR_OK) {
            orr__blob_written(target, stream, orr_stream_point(stream));
        }
    }
    return status;
}

/* What comes before a launch: operands are copied into the program's own, and its waits. */
static enum orr_status prepare_replay(struct orr_runtime *runtime, struct entry *entry,
                                      struct orr_tensor *const *inputs, struct orr_stream *stream) {
    enum orr_status status = ORR_OK;
    while (status == ORR_OK && entry->copied < entry->inputs.count) {
        size_t i = entry->copied;
        if (entry->inputs.items[i]->storage != inputs[i]->storage) {
            status = copy_tensor(runtime, entry->inputs.items[i], inputs[i]);
        }
        entry->copied += status == ORR_OK;
    }
    if (status != ORR_OK) {
        return status;
    }
    orr__runtime_operator_begin(runtime, stream->device, 0);
    status = wait_for_operands(stream, &entry->externals);
    if (status == ORR_OK) {
        status = wait_for_readers(runtime, entry->program, stream, &entry->outputs);
    }
    orr__runtime_operator_end(runtime, false);
    return status;
}

/* Everything up to the first node happens in one turn. A call that is blocked by a full queue goes
 * on where it was when it is repeated; until then nobody else may call: the program's operands are
 * this call's. */
static enum orr_status replay(struct orr_compiled *compiled, struct entry *entry,
                              struct orr_tensor *const *inputs) {
    struct orr_runtime *runtime = compiled->runtime;
    struct orr_stream *stream = launch_stream(runtime, entry->outputs.items[0]);
    enum orr_status status = ORR_OK;
    entry->host = runtime->host;
    if (!entry->begun) {
        orr__runtime_call_begin(runtime, true);
        status = prepare_replay(runtime, entry, inputs, stream);
        if (status == ORR_OK) {
            status = orr__program_launch_begin(entry->program, stream);
        }
        orr__runtime_call_end(runtime);
        entry->begun = status == ORR_OK;
    }
    if (status == ORR_OK) {
        status = orr_program_launch(entry->program, stream);
    }
    entry->under_way = status == ORR_BLOCKED;
    if (status != ORR_BLOCKED) {
        entry->begun = false;
        entry->copied = 0;
    }
    if (status == ORR_OK) {
        mark_written(stream, entry->outputs.items, entry->outputs.count);
        compiled->counts.replays++;
    }
    return status;
}

/* Private copies of operands, for programs that are replayed with others. */
static enum orr_status copy_inputs(struct orr_runtime *runtime, struct orr_tensor *const *inputs,
                                   int input_count, struct tensor_list *list) {
    enum orr_status status = ORR_OK;
    for (int i = 0; status == ORR_OK && i < input_count; i++) {
        struct orr_tensor *copy = orr__tensor_new(runtime, &inputs[i]->info, &inputs[i]->layout);
        if (!copy) {
            return ORR_NO_MEMORY;
        }
        copy->role = orr_tensor_role(inputs[i]);
        status = orr__tensor_allocate(copy, ORR_STREAM_COMPUTE, "operand");
        if (status == ORR_OK) {
            status = copy_tensor(runtime, copy, inputs[i]);
        }
        if (status == ORR_OK) {
            status = list_add(runtime, list, copy);
        }
        orr__tensor_release(copy);
    }
    return status;
}

static enum orr_status keep_inputs(struct orr_runtime *runtime, struct orr_tensor *const *inputs,
                                   int input_count, struct tensor_list *list) {
    enum orr_status status = ORR_OK;
    for (int i = 0; status == ORR_OK && i < input_count; i++) {
        status = list_add(runtime, list, inputs[i]);
    }
    return status;
}

static void drop_outputs(struct orr_tensor **outputs, int *output_count) {
    for (int i = 0; i < *output_count; i++) {
        orr_tensor_destroy(&outputs[i]);
    }
    *output_count = 0;
}

/* Results handed over by the traced function that no node made (an operand returned as it is) are
 * kept, too. On failure they are released. */
static enum orr_status trace(struct orr_compiled *compiled, struct orr_region *region,
                             struct orr_tensor *const *inputs, int input_count, orr_traced traced,
                             void *context, struct orr_tensor **outputs, int output_max,
                             int *out_output_count) {
    struct orr_runtime *runtime = compiled->runtime;
    runtime->region = region;
    enum orr_status status =
        traced(context, inputs, input_count, outputs, output_max, out_output_count);
    if (status == ORR_OK) {
        status = flush(region, outputs, *out_output_count);
    } else {
        *out_output_count = 0;
        drop_nodes(region);
    }
    runtime->region = NULL;
    if (status != ORR_OK) {
        drop_outputs(outputs, out_output_count);
    }
    return status;
}

/* Remembers a captured program, in place of `old` if there is one. */
static enum orr_status remember(struct orr_compiled *compiled, struct entry *old,
                                struct entry *fresh) {
    struct orr_runtime *runtime = compiled->runtime;
    if (old) {
        entry_clear(runtime, old);
        *old = *fresh;
        return ORR_OK;
    }
    if (orr_memory_grow(runtime->memory, &compiled->entries, &compiled->entry_capacity,
                        compiled->entry_count + 1, sizeof *compiled->entries,
                        ENTRIES_MAX) != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    compiled->entries[compiled->entry_count++] = *fresh;
    return ORR_OK;
}

static enum orr_status trace_call(struct orr_compiled *compiled, struct entry *old,
                                  struct orr_tensor *const *inputs, int input_count,
                                  orr_traced traced, void *context, struct orr_tensor **outputs,
                                  int output_max, int *out_output_count) {
    struct orr_runtime *runtime = compiled->runtime;
    struct orr_region region = {
        .runtime = runtime, .fusion = compiled->fusion, .capture = compiled->capture};
    struct entry fresh = {.owns_inputs = old != NULL};
    enum orr_status status = fresh.owns_inputs
                                 ? copy_inputs(runtime, inputs, input_count, &fresh.inputs)
                                 : keep_inputs(runtime, inputs, input_count, &fresh.inputs);
    if (status == ORR_OK) {
        status = trace(compiled, &region, fresh.inputs.items, input_count, traced, context, outputs,
                       output_max, out_output_count);
    }
    bool keeps = status == ORR_OK && region.program && region.breaks == 0 && *out_output_count > 0;
    if (keeps) {
        status = keep_inputs(runtime, outputs, *out_output_count, &fresh.outputs);
        fresh.program = region.program;
        fresh.externals = region.externals;
        region.program = NULL;
        region.externals = (struct tensor_list){0};
        fresh.evictions = evictions_of(&fresh);
        status = status == ORR_OK ? remember(compiled, old, &fresh) : status;
    }
    if (status == ORR_OK && compiled->capture) {
        compiled->counts.captures++;
        compiled->counts.breaks += region.breaks;
    }
    if (status != ORR_OK) {
        drop_outputs(outputs, out_output_count);
    }
    if (!keeps || status != ORR_OK) {
        entry_clear(runtime, &fresh);
    }
    orr_program_destroy(&region.program);
    list_clear(runtime, &region.externals);
    orr_memory_free(runtime->memory, region.nodes);
    return status;
}

/* Tracing runs the caller's code, which must not run twice. */
static enum orr_status cannot_repeat(const struct orr_compiled *compiled) {
    return orr__runtime_fail(compiled->runtime, ORR_UNSUPPORTED,
                             "'%s' has to wait in the middle, and another host has to run first",
                             compiled->name);
}

enum orr_status orr_compiled_call(struct orr_compiled *compiled, struct orr_tensor *const *inputs,
                                  int input_count, orr_traced traced, void *context,
                                  struct orr_tensor **outputs, int output_max,
                                  int *out_output_count) {
    struct orr_runtime *runtime = compiled->runtime;
    *out_output_count = 0;
    if (runtime->region || runtime->capture) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "'%s' is called inside another region; regions don't nest",
                                 compiled->name);
    }
    if (orr__tape_refuse(runtime, compiled->name) != ORR_OK) {
        return ORR_INVALID;
    }
    for (int i = 0; i < input_count; i++) {
        if (orr__tensor_check_kept(inputs[i], compiled->name) != ORR_OK) {
            return ORR_INVALID;
        }
    }
    enum orr_status turn = orr__runtime_turn(runtime);
    if (turn != ORR_OK) {
        return turn;
    }
    if (runtime
            ->recordings) { /* which want to see each operator's results; the numbers are equal */
        return traced(context, inputs, input_count, outputs, output_max, out_output_count);
    }
    struct entry *match = NULL;
    for (size_t i = 0; i < compiled->entry_count && !match; i++) {
        match =
            guards_hold(&compiled->entries[i], inputs, input_count) ? &compiled->entries[i] : NULL;
    }
    if (match && match->under_way && match->host != runtime->host) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "'%s' is being called by another host, whose call is blocked and "
                                 "not complete yet",
                                 compiled->name);
    }
    bool replays = match && (match->owns_inputs || same_operands(match, inputs, input_count)) &&
                   (int)match->outputs.count <= output_max &&
                   match->evictions == evictions_of(match);
    if (!replays) {
        if (compiled->entry_count > 0 && !match) {
            compiled->counts.mismatches++;
        }
        orr__runtime_call_begin(runtime, false);
        enum orr_status status = trace_call(compiled, match, inputs, input_count, traced, context,
                                            outputs, output_max, out_output_count);
        orr__runtime_call_end(runtime);
        return status == ORR_BLOCKED ? cannot_repeat(compiled) : status;
    }
    enum orr_status status = replay(compiled, match, inputs);
    for (size_t i = 0; status == ORR_OK && i < match->outputs.count; i++) {
        outputs[i] = match->outputs.items[i];
        outputs[i]->references++;
        *out_output_count = (int)i + 1;
    }
    return status;
}
