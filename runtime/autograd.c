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

/* The tape that will record an operator on these operands, or NULL. */
static struct orr_gradient_tape *recorder(const struct orr_runtime *runtime,
                                          struct orr_tensor *const *inputs, int count) {
    struct orr_gradient_tape *tape = tape_of_host(runtime);
    return tape && !tape->paused && follows_any(tape, inputs, count) ? tape : NULL;
}

enum orr_status orr__tape_reserve(struct orr_runtime *runtime, struct orr_tensor *const *inputs,
                                  int input_count) {
    struct orr_gradient_tape *tape = recorder(runtime, inputs, input_count);
    if (!tape) {
        return ORR_OK;
    }
    orr_memory_free(runtime->memory, tape->spare);
    tape->spare = orr_memory_alloc(runtime->memory,
                                   (size_t)(input_count + ORR_OUTPUTS_MAX) * sizeof *tape->spare);
    if (!tape->spare ||
        orr_memory_grow(runtime->memory, &tape->nodes, &tape->node_capacity, tape->node_count + 1,
                        sizeof *tape->nodes, NODES_MAX) != ORR_OK ||
        orr__variables_reserve(&tape->variables, runtime->memory, ORR_OUTPUTS_MAX) != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    return ORR_OK;
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
                  struct orr_tensor *tensor, bool keep) {
    const struct orr__variable *variable = orr__variables_find(&tape->variables, tensor);
    *traced = (struct orr__traced){.tracked = variable != NULL,
                                   .leaf = variable && variable->leaf,
                                   .variable = variable ? variable->number : 0,
                                   .kept = keep ? orr_tensor_retain(tensor) : NULL,
                                   .info = tensor->info,
                                   .layout = tensor->layout};
}

static const struct orr__storage *base_of(const struct orr__storage *storage) {
    return storage && storage->base ? storage->base : storage;
}

/* Has the result the memory of a watched operand? */
static bool aliases_leaf(const struct orr__stage *stage, const struct orr__node *node) {
    const struct orr_tensor *from = stage->inputs[0], *to = stage->outputs[0];
    bool aliases = stage->op ? stage->op->class == ORR_OPERATOR_ALIAS
                             : to->storage && base_of(to->storage) == base_of(from->storage);
    return aliases && node->traced[0].leaf;
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
    struct orr_gradient_tape *tape = recorder(runtime, stage->inputs, stage->input_count);
    int outputs = stage->op ? stage->op->outputs : 1;
    if (!tape || !makes_floats(stage, outputs)) {
        return;
    }
    assert(tape->spare && tape->node_count < tape->node_capacity);
    struct orr__node *node = &tape->nodes[tape->node_count++];
    *node = (struct orr__node){.op = stage->op,
                               .rule = stage->op ? orr__rule_of(stage->op) : NULL,
                               .attributes = stage->attributes,
                               .shift = stage->shift,
                               .input_count = stage->input_count,
                               .output_count = outputs,
                               .traced = tape->spare};
    tape->spare = NULL;
    for (int i = 0; i < node->input_count; i++) {
        node->traced[i].tracked = follows(tape, stage->inputs[i]);
    }
    uint32_t keeps = kept_values(node, NULL);
    for (int i = 0; i < node->input_count; i++) {
        trace(tape, &node->traced[i], stage->inputs[i], keeps >> i & 1u);
    }
    bool leaf = aliases_leaf(stage, node);
    for (int i = 0; i < outputs; i++) {
        (void)orr__variables_add(&tape->variables, stage->outputs[i], leaf);
        trace(tape, &node->traced[node->input_count + i], stage->outputs[i],
              keeps / ORR__KEEP_RESULT >> i & 1u);
    }
}

enum orr_status orr__tape_refuse(struct orr_runtime *runtime, const char *what) {
    const struct orr_gradient_tape *tape = tape_of_host(runtime);
    if (!tape || tape->paused) {
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
    bool unborn = !tensor->storage && first_seen(&tensor->mark, count);
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

/* Of what one node keeps: watched tensors, or the others. */
static uint64_t node_bytes(const struct orr__node *node, bool leaves, uint64_t count,
                           int64_t device) {
    uint64_t bytes = 0;
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        const struct orr__traced *traced = &node->traced[i];
        if (traced->kept && traced->leaf == leaves) {
            bytes += unseen_bytes(traced->kept, count, device);
        }
        if (!leaves && node->deferred && node->deferred[i]) {
            bytes += unseen_bytes(node->deferred[i], count, device);
        }
    }
    return bytes;
}

static uint64_t count_bytes(const struct orr_gradient_tape *tape, int64_t device) {
    uint64_t bytes = 0, count = ++tape->runtime->mark_count;
    for (size_t i = 0; i < tape->node_count; i++) { /* first, so that what aliases them is seen */
        (void)node_bytes(&tape->nodes[i], true, count, device);
    }
    for (size_t i = 0; i < tape->node_count; i++) {
        bytes += node_bytes(&tape->nodes[i], false, count, device);
    }
    for (uint32_t i = 0; tape->deferral.grads && i < tape->variables.count; i++) {
        struct orr_tensor *grad = tape->deferral.grads[i];
        bytes += grad ? unseen_bytes(grad, count, device) : 0;
    }
    return bytes;
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

void orr__node_drop(struct orr__node *node) {
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        drop_kept(&node->traced[i]);
    }
}

void orr__node_keep_for(struct orr__node *node, const bool *wanted) {
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
    orr__tape_stop(gone);
    orr__walk_close(gone);
    orr__defer_close(gone);
    for (size_t i = 0; i < gone->node_count; i++) {
        orr__node_drop(&gone->nodes[i]);
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
    while (runtime->tapes) {
        struct orr_gradient_tape *tape = runtime->tapes;
        runtime->tapes = tape->next;
        orr__walk_free(tape);
        orr__defer_free(tape);
        free_arrays(tape);
        orr_memory_free(runtime->memory, tape);
    }
}
