/* Recording tapes. A host has a stack of those that record, of which one sees its operators: the
 * last one begun, but for those begun outside of a gradient that is being played (struct orr__host:
 * `depth`). */
#include "runtime/autograd.h"

#include <assert.h>
#include <string.h>

#include "runtime/autograd_internal.h"

enum { NODES_MAX = 1 << 20 };

/* --- recording --- */

/* The current host's tape that records. */
static struct orr_gradient_tape *tape_of_host(const struct orr_runtime *runtime) {
    const struct orr__host *host = &runtime->hosts[runtime->host];
    struct orr_gradient_tape *tape = host->tape;
    while (tape && tape->depth > host->depth) {
        tape = tape->below; /* of a gradient that is blocked */
    }
    return tape && tape->depth == host->depth ? tape : NULL;
}

static bool follows(const struct orr_gradient_tape *tape, const struct orr_tensor *tensor) {
    return orr__variables_find(&tape->variables, tensor) != NULL;
}

static bool follows_any(const struct orr_gradient_tape *tape, struct orr_tensor *const *tensors,
                        int count) {
    for (int i = 0; i < count; i++) {
        if (follows(tape, tensors[i])) {
            return true;
        }
    }
    return false;
}

/* Is it to see what its host does? */
static bool listens(const struct orr_gradient_tape *tape) {
    return tape && !tape->paused && !tape->runtime->hosts[tape->host].pauses;
}

struct orr_gradient_tape *orr__tape_listening(const struct orr_runtime *runtime) {
    struct orr_gradient_tape *tape = tape_of_host(runtime);
    return listens(tape) ? tape : NULL;
}

bool orr__tape_reads(const struct orr_gradient_tape *tape, uint32_t variable) {
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct orr__node *node = &tape->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            if (node->traced[k].tracked && node->traced[k].variable == variable) {
                return true;
            }
        }
    }
    return false;
}

struct orr_gradient_tape *orr__tape_recorder(const struct orr_runtime *runtime,
                                             struct orr_tensor *const *inputs, int count) {
    struct orr_gradient_tape *tape = orr__tape_listening(runtime);
    return tape && follows_any(tape, inputs, count) ? tape : NULL;
}

enum orr_status orr__tape_reserve_node(struct orr_gradient_tape *tape, int outputs, int tensors) {
    struct orr_runtime *runtime = tape->runtime;
    orr_memory_free(runtime->memory, tape->spare);
    tape->spare = orr_memory_alloc(runtime->memory, (size_t)tensors * sizeof *tape->spare);
    if (!tape->spare ||
        orr_memory_grow(runtime->memory, &tape->nodes, &tape->node_capacity, tape->node_count + 1,
                        sizeof *tape->nodes, NODES_MAX) != ORR_OK ||
        orr__variables_reserve(&tape->variables, runtime->memory, (uint32_t)outputs) != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    return ORR_OK;
}

enum orr_status orr__tape_reserve(struct orr_runtime *runtime, struct orr_tensor *const *inputs,
                                  int input_count) {
    struct orr_gradient_tape *tape = orr__tape_recorder(runtime, inputs, input_count);
    if (!tape) {
        return ORR_OK;
    }
    return tape->probe
               ? orr__probe_reserve(tape->probe, input_count)
               : orr__tape_reserve_node(tape, ORR_OUTPUTS_MAX, input_count + ORR_OUTPUTS_MAX);
}

/* Values that gradients of operands need: of those that are followed, unless `wanted` says which.
 */
static uint32_t kept_values(const struct orr__node *node, const bool *wanted) {
    uint32_t keeps = 0;
    for (int i = 0; node->rule && i < node->input_count && i < 3; i++) {
        bool needs = wanted ? wanted[i] : node->traced[i].tracked;
        keeps |= needs ? node->rule->keeps[i] : 0;
    }
    return keeps;
}

static void trace(const struct orr_gradient_tape *tape, struct orr__traced *traced,
                  const struct orr_tensor *tensor) {
    const struct orr__variable *variable = orr__variables_find(&tape->variables, tensor);
    *traced = (struct orr__traced){.tracked = variable != NULL,
                                   .leaf = variable && variable->leaf,
                                   .variable = variable ? variable->number : 0,
                                   .info = tensor->info,
                                   .layout = tensor->layout};
}

struct orr__node *orr__tape_add_node(struct orr_gradient_tape *tape,
                                     struct orr_tensor *const *inputs, int input_count,
                                     struct orr_tensor *const *outputs, int output_count,
                                     bool leaf) {
    assert(tape->spare && tape->node_count < tape->node_capacity);
    struct orr__node *node = &tape->nodes[tape->node_count++];
    *node = (struct orr__node){
        .input_count = input_count, .output_count = output_count, .traced = tape->spare};
    tape->spare = NULL;
    for (int i = 0; i < input_count; i++) {
        trace(tape, &node->traced[i], inputs[i]);
    }
    for (int i = 0; i < output_count; i++) {
        if (orr_dtype_is_float(outputs[i]->info.dtype)) {
            (void)orr__variables_add(&tape->variables, outputs[i], leaf);
        }
        trace(tape, &node->traced[input_count + i], outputs[i]);
    }
    return node;
}

void orr__node_keep(const struct orr_gradient_tape *tape, struct orr__node *node, int index,
                    struct orr_tensor *tensor) {
    if (index >= node->input_count + node->output_count) {
        trace(tape, &node->traced[index], tensor);
    }
    assert(!node->traced[index].kept);
    node->traced[index].kept = orr_tensor_retain(tensor);
}

static const struct orr__storage *base_of(const struct orr__storage *storage) {
    return storage && storage->base ? storage->base : storage;
}

/* Has the result the memory of a watched operand? */
static bool aliases_leaf(const struct orr_gradient_tape *tape, const struct orr__stage *stage) {
    const struct orr_tensor *from = stage->inputs[0], *to = stage->outputs[0];
    const struct orr__variable *variable = orr__variables_find(&tape->variables, from);
    bool aliases = stage->op ? stage->op->class == ORR_OPERATOR_ALIAS
                             : to->storage && base_of(to->storage) == base_of(from->storage);
    return aliases && variable && variable->leaf;
}

static bool makes_floats(const struct orr__stage *stage, int outputs) {
    for (int i = 0; i < outputs; i++) {
        if (orr_dtype_is_float(stage->outputs[i]->info.dtype)) {
            return true;
        }
    }
    return false;
}

void orr__tape_record(struct orr_runtime *runtime, const struct orr__stage *stage) {
    struct orr_gradient_tape *tape = orr__tape_recorder(runtime, stage->inputs, stage->input_count);
    int outputs = stage->op ? stage->op->outputs : 1;
    if (!tape || !makes_floats(stage, outputs)) {
        return;
    }
    if (tape->probe) {
        orr__probe_note(tape->probe, stage->inputs, stage->input_count);
        return;
    }
    struct orr__node *node = orr__tape_add_node(tape, stage->inputs, stage->input_count,
                                                stage->outputs, outputs, aliases_leaf(tape, stage));
    node->op = stage->op;
    node->rule = stage->op ? orr__rule_of(stage->op) : NULL;
    node->attributes = stage->attributes;
    node->shift = stage->shift;
    uint32_t keeps = kept_values(node, NULL);
    for (int i = 0; i < node->input_count; i++) {
        if (keeps >> i & 1u) {
            orr__node_keep(tape, node, i, stage->inputs[i]);
        }
    }
    for (int i = 0; i < outputs; i++) {
        if (keeps / ORR__KEEP_RESULT >> i & 1u) {
            orr__node_keep(tape, node, node->input_count + i, stage->outputs[i]);
        }
    }
}

enum orr_status orr__tape_refuse(struct orr_runtime *runtime, const char *what) {
    if (!orr__tape_listening(runtime)) {
        return ORR_OK;
    }
    return orr__runtime_fail(runtime, ORR_INVALID,
                             "'%s' is called while a tape records, which would not see what it "
                             "does; open the tape inside of it, or pause it",
                             what);
}

/* --- life --- */

enum orr_status orr_gradient_tape_begin(struct orr_runtime *runtime,
                                        struct orr_gradient_tape **out_tape) {
    *out_tape = NULL;
    orr_error_clear(&runtime->error);
    if (tape_of_host(runtime)) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "this host has a tape that records already; one at a time");
    }
    struct orr_gradient_tape *tape = orr_memory_alloc(runtime->memory, sizeof *tape);
    if (!tape) {
        return orr__runtime_no_memory(runtime);
    }
    struct orr__host *host = &runtime->hosts[runtime->host];
    *tape = (struct orr_gradient_tape){.runtime = runtime,
                                       .next = runtime->tapes,
                                       .below = host->tape,
                                       .host = runtime->host,
                                       .depth = host->depth,
                                       .recording = true};
    if (tape->next) {
        tape->next->previous = tape;
    }
    runtime->tapes = tape;
    host->tape = tape;
    *out_tape = tape;
    return ORR_OK;
}

void orr__tape_stop(struct orr_gradient_tape *tape) {
    if (!tape->recording) {
        return;
    }
    struct orr_gradient_tape **at = &tape->runtime->hosts[tape->host].tape;
    while (*at != tape) {
        at = &(*at)->below;
    }
    *at = tape->below;
    tape->below = NULL;
    tape->recording = false;
    if (tape->probe) {
        orr__probe_end(tape->probe);
        tape->probe = NULL;
    }
    orr_memory_free(tape->runtime->memory, tape->spare);
    tape->spare = NULL;
}

void orr_gradient_tape_stop(struct orr_gradient_tape *tape) {
    orr__tape_stop(tape);
}

enum orr_status orr_gradient_tape_watch(struct orr_gradient_tape *tape, struct orr_tensor *tensor) {
    struct orr_runtime *runtime = tape->runtime;
    orr_error_clear(&runtime->error);
    if (!tape->recording) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 tape->used ? "the tape has been played"
                                            : "the tape has been stopped");
    }
    if (!orr_dtype_is_float(tensor->info.dtype)) {
        return orr__runtime_fail(runtime, ORR_INVALID, "a tensor of %s has no gradient",
                                 orr_dtype_name(tensor->info.dtype));
    }
    if (follows(tape, tensor)) {
        return ORR_OK;
    }
    if (orr__variables_reserve(&tape->variables, runtime->memory, 1) != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    (void)orr__variables_add(&tape->variables, tensor, true);
    return ORR_OK;
}

void orr_gradient_tape_pause(struct orr_gradient_tape *tape, bool paused) {
    tape->paused += paused ? 1 : -1;
    assert(tape->paused >= 0);
}

void orr_gradient_pause(struct orr_runtime *runtime, uint32_t host, bool paused) {
    assert(host < runtime->host_count && (paused || runtime->hosts[host].pauses > 0));
    runtime->hosts[host].pauses += paused ? 1u : UINT32_MAX;
}

void orr_gradient_tape_persist(struct orr_gradient_tape *tape) {
    tape->persists = true;
}

/* --- what it keeps --- */

enum { ANY_DEVICE = -1 };

/* Marks memory as seen in this count; false if it has been. */
static bool first_seen(uint64_t *mark, uint64_t count) {
    bool first = *mark != count;
    *mark = count;
    return first;
}

/* Bytes of a tensor's pieces that this count has not seen. */
static uint64_t unseen_bytes(struct orr_tensor *tensor, uint64_t count, int64_t device) {
    const struct orr_layout *layout = &tensor->layout;
    bool unborn = !tensor->storage && !tensor->evicted && first_seen(&tensor->mark, count);
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < layout->mesh->size; rank++) {
        bool first = tensor->storage
                         ? first_seen(&orr__storage_blob(tensor->storage, rank)->mark, count)
                         : unborn;
        if (first && (device == ANY_DEVICE || layout->mesh->devices[rank] == device)) {
            struct orr_shape piece = orr_layout_local(layout, &tensor->info.shape, rank, NULL);
            bytes += (uint64_t)orr_shape_count(&piece) * orr_dtype_size(tensor->info.dtype);
        }
    }
    return bytes;
}

static int tensors_of(const struct orr__node *node) {
    return node->input_count + node->output_count + node->kept_count;
}

/* Of what one node keeps: watched tensors, or the others. */
static uint64_t node_bytes(const struct orr__node *node, bool leaves, uint64_t count,
                           int64_t device) {
    uint64_t bytes = 0;
    for (int i = 0; i < tensors_of(node); i++) {
        const struct orr__traced *traced = &node->traced[i];
        if (traced->kept && traced->leaf == leaves) {
            bytes += unseen_bytes(traced->kept, count, device);
        }
    }
    for (int i = 0; !leaves && node->deferred && i < node->input_count + node->output_count; i++) {
        if (node->deferred[i]) {
            bytes += unseen_bytes(node->deferred[i], count, device);
        }
    }
    return bytes;
}

/* Of what a tape keeps, and those inside of it. */
static uint64_t tape_bytes(const struct orr_gradient_tape *tape, bool leaves, uint64_t count,
                           int64_t device) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct orr__node *node = &tape->nodes[i];
        const struct orr_gradient_tape *inner = orr__checkpoint_tape(node->custom);
        bytes += node_bytes(node, leaves, count, device);
        bytes += inner ? tape_bytes(inner, leaves, count, device) : 0;
    }
    for (uint32_t i = 0; !leaves && tape->deferral.grads && i < tape->variables.count; i++) {
        struct orr_tensor *grad = tape->deferral.grads[i];
        bytes += grad ? unseen_bytes(grad, count, device) : 0;
    }
    return bytes;
}

static uint64_t count_bytes(const struct orr_gradient_tape *tape, int64_t device) {
    uint64_t count = ++tape->runtime->mark_count;
    (void)tape_bytes(tape, true, count, device); /* so that what aliases them is seen */
    return tape_bytes(tape, false, count, device);
}

uint64_t orr_gradient_tape_bytes(const struct orr_gradient_tape *tape) {
    return count_bytes(tape, ANY_DEVICE);
}

uint64_t orr_gradient_tape_bytes_on(const struct orr_gradient_tape *tape, uint32_t device) {
    return count_bytes(tape, device);
}

static void drop_kept(struct orr__traced *traced) {
    if (traced->kept) {
        orr__tensor_release(traced->kept);
        traced->kept = NULL;
    }
}

static void release_custom(const struct orr_memory *memory, struct orr__node *node, bool ending) {
    struct orr__custom *custom = node->custom;
    node->custom = NULL;
    if (custom && custom->function.release) {
        custom->function.release(custom->function.context, ending);
    }
    orr_memory_free(memory, custom);
}

void orr__node_drop(struct orr_gradient_tape *tape, struct orr__node *node) {
    for (int i = 0; i < tensors_of(node); i++) {
        drop_kept(&node->traced[i]);
    }
    release_custom(tape->runtime->memory, node, false);
}

void orr__node_keep_for(struct orr_gradient_tape *tape, struct orr__node *node,
                        const bool *wanted) {
    bool any = false;
    for (int i = 0; i < node->input_count; i++) {
        any = any || wanted[i];
    }
    if (node->custom && any) {
        return; /* it is called again, and has what it has */
    }
    if (!any) {
        orr__node_drop(tape, node);
        return;
    }
    uint32_t keeps = kept_values(node, wanted);
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        uint32_t value = i < node->input_count ? keeps & (ORR__KEEP_RESULT - 1) : keeps >> 16;
        int at = i < node->input_count ? i : i - node->input_count;
        if (at > 15 || !(value >> at & 1u)) {
            drop_kept(&node->traced[i]);
        }
    }
}

static void free_arrays(struct orr_gradient_tape *tape) {
    const struct orr_memory *memory = tape->runtime->memory;
    for (size_t i = 0; i < tape->node_count; i++) {
        release_custom(memory, &tape->nodes[i], true);
        orr_memory_free(memory, tape->nodes[i].traced);
    }
    orr_memory_free(memory, tape->nodes);
    orr_memory_free(memory, tape->spare);
    orr_memory_free(memory, tape->variables.slots);
}

void orr_gradient_tape_destroy(struct orr_gradient_tape **tape) {
    struct orr_gradient_tape *gone = *tape;
    if (!gone) {
        return;
    }
    *tape = NULL;
    if (gone->walk.busy) {
        gone->doomed = true; /* by one of its functions */
        return;
    }
    orr__tape_stop(gone);
    orr__walk_close(gone);
    orr__defer_close(gone);
    for (size_t i = 0; i < gone->node_count; i++) {
        orr__node_drop(gone, &gone->nodes[i]);
    }
    *(gone->previous ? &gone->previous->next : &gone->runtime->tapes) = gone->next;
    if (gone->next) {
        gone->next->previous = gone->previous;
    }
    free_arrays(gone);
    orr_memory_free(gone->runtime->memory, gone);
}

/* With the runtime: tensors are freed as a whole, by themselves. */
void orr__tapes_destroy(struct orr_runtime *runtime) {
    orr__checkpoints_destroy(runtime);
    while (runtime->tapes) {
        struct orr_gradient_tape *tape = runtime->tapes;
        runtime->tapes = tape->next;
        orr__walk_free(tape);
        orr__defer_free(tape);
        free_arrays(tape);
        orr_memory_free(runtime->memory, tape);
    }
}
