/* Recomputation: a function of the user's whose gradient is that of the same work done again, under
 * a tape of its own. */
#include <assert.h>
#include <string.h>

#include "runtime/autograd_internal.h"

enum { READS_MAX = 1 << 16 };

/* A list of tensors, one reference each. */
struct tensors {
    struct orr_tensor **items;
    size_t count, capacity;
};

struct orr_checkpoint {
    struct orr_runtime *runtime;
    struct orr_checkpoint *previous, *next; /* of the runtime */
    struct orr_gradient_tape *tape;         /* NULL: nothing to do */
    struct tensors reads;                   /* followed, in the order of their first use */
};

/* What a checkpoint leaves on the tape. */
struct part {
    struct orr_runtime *runtime;
    struct orr_recomputation again;
    struct tensors reads;
    int output_count;                /* of the work */
    int followed_count;              /* of those, the ones that are results of the node */
    int *followed;                   /* their indexes */
    struct orr__traced *results;     /* what they are */
    struct orr_tensor **outputs;     /* room for the work's; `output_count` */
    struct orr_gradient_tape *inner; /* between repeated calls */
    bool done;                       /* the work has been done again, and `outputs` are there */
    bool split;                      /* `inner` has given the first of two parts */
    char name[];
};

/* --- noting --- */

static void drop(const struct orr_memory *memory, struct tensors *list, bool ending) {
    for (size_t i = 0; !ending && i < list->count; i++) {
        orr__tensor_release(list->items[i]);
    }
    orr_memory_free(memory, list->items);
    *list = (struct tensors){0};
}

enum orr_status orr__probe_reserve(struct orr_checkpoint *probe, int count) {
    struct orr_runtime *runtime = probe->runtime;
    if (orr_memory_grow(runtime->memory, &probe->reads.items, &probe->reads.capacity,
                        probe->reads.count + (size_t)count, sizeof(struct orr_tensor *),
                        READS_MAX) != ORR_OK) {
        return orr__runtime_no_memory(runtime);
    }
    return ORR_OK;
}

static bool holds(const struct tensors *list, const struct orr_tensor *tensor) {
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i] == tensor) {
            return true;
        }
    }
    return false;
}

void orr__probe_note(struct orr_checkpoint *probe, struct orr_tensor *const *inputs, int count) {
    for (int i = 0; i < count; i++) {
        if (orr__variables_find(&probe->tape->variables, inputs[i]) &&
            !holds(&probe->reads, inputs[i])) {
            assert(probe->reads.count < probe->reads.capacity);
            probe->reads.items[probe->reads.count++] = orr_tensor_retain(inputs[i]);
        }
    }
}

void orr__probe_end(struct orr_checkpoint *probe) {
    probe->tape = NULL;
}

enum orr_status orr_checkpoint_begin(struct orr_runtime *runtime,
                                     struct orr_checkpoint **out_checkpoint) {
    *out_checkpoint = NULL;
    orr_error_clear(&runtime->error);
    struct orr_checkpoint *checkpoint = orr_memory_alloc(runtime->memory, sizeof *checkpoint);
    if (!checkpoint) {
        return orr__runtime_no_memory(runtime);
    }
    struct orr_gradient_tape *tape = orr__tape_listening(runtime);
    *checkpoint = (struct orr_checkpoint){.runtime = runtime, .next = runtime->checkpoints};
    if (checkpoint->next) {
        checkpoint->next->previous = checkpoint;
    }
    runtime->checkpoints = checkpoint;
    if (tape && !tape->probe) {
        checkpoint->tape = tape;
        tape->probe = checkpoint;
    }
    *out_checkpoint = checkpoint;
    return ORR_OK;
}

void orr_checkpoint_cancel(struct orr_checkpoint **checkpoint) {
    struct orr_checkpoint *gone = *checkpoint;
    if (!gone) {
        return;
    }
    *checkpoint = NULL;
    if (gone->tape) {
        gone->tape->probe = NULL;
    }
    *(gone->previous ? &gone->previous->next : &gone->runtime->checkpoints) = gone->next;
    if (gone->next) {
        gone->next->previous = gone->previous;
    }
    drop(gone->runtime->memory, &gone->reads, false);
    orr_memory_free(gone->runtime->memory, gone);
}

void orr__checkpoints_destroy(struct orr_runtime *runtime) {
    while (runtime->checkpoints) {
        struct orr_checkpoint *checkpoint = runtime->checkpoints;
        runtime->checkpoints = checkpoint->next;
        drop(runtime->memory, &checkpoint->reads, true);
        orr_memory_free(runtime->memory, checkpoint);
    }
}

/* --- the gradient --- */

static void drop_outputs(struct part *part) {
    for (int i = 0; part->outputs && i < part->output_count; i++) {
        if (part->outputs[i]) {
            orr__tensor_release(part->outputs[i]);
            part->outputs[i] = NULL;
        }
    }
}

/* After a recomputation, or one that failed. */
static void settle(struct part *part) {
    drop_outputs(part);
    orr_gradient_tape_destroy(&part->inner);
    part->done = part->split = false;
}

static void release_part(void *context, bool ending) {
    struct part *part = context;
    const struct orr_memory *memory = part->runtime->memory;
    if (!ending) {
        settle(part);
    }
    if (part->again.release) {
        part->again.release(part->again.context, ending);
    }
    drop(memory, &part->reads, ending);
    orr_memory_free(memory, part->followed);
    orr_memory_free(memory, part->results);
    orr_memory_free(memory, part->outputs);
    orr_memory_free(memory, part);
}

static enum orr_status begin_inner(struct part *part) {
    enum orr_status status = orr_gradient_tape_begin(part->runtime, &part->inner);
    for (size_t i = 0; status == ORR_OK && i < part->reads.count; i++) {
        status = orr_gradient_tape_watch(part->inner, part->reads.items[i]);
    }
    return status;
}

static enum orr_status check_results(const struct part *part) {
    for (int i = 0; i < part->followed_count; i++) {
        const struct orr_tensor *is = part->outputs[part->followed[i]];
        const struct orr__traced *was = &part->results[i];
        if (is->info.dtype != was->info.dtype ||
            !orr_shape_equal(&is->info.shape, &was->info.shape) ||
            !orr_layout_equal(&is->layout, &was->layout)) {
            char now[ORR_SHAPE_TEXT_MAX], then[ORR_SHAPE_TEXT_MAX];
            return orr__runtime_fail(
                part->runtime, ORR_INVALID,
                "%s: recomputed, result %d has shape %s %s; it was %s %s, with the same "
                "placements: the function must do the same again",
                part->name, part->followed[i] + 1, orr_shape_text(&is->info.shape, now),
                orr_dtype_name(is->info.dtype), orr_shape_text(&was->info.shape, then),
                orr_dtype_name(was->info.dtype));
        }
    }
    return ORR_OK;
}

/* What was read the first time has been read again. */
static enum orr_status check_reads(const struct part *part) {
    for (size_t i = 0; i < part->reads.count; i++) {
        if (!orr__tape_reads(part->inner, (uint32_t)i)) {
            char shape[ORR_SHAPE_TEXT_MAX];
            const struct orr_operand_info *info = &part->reads.items[i]->info;
            return orr__runtime_fail(
                part->runtime, ORR_INVALID,
                "%s: recomputed, it does not read a tensor %s %s that it read in the forward pass "
                "(a parameter that was replaced before the backward pass?)",
                part->name, orr_shape_text(&info->shape, shape), orr_dtype_name(info->dtype));
        }
    }
    return ORR_OK;
}

static enum orr_status recompute(struct part *part) {
    enum orr_status status = part->inner ? ORR_OK : begin_inner(part);
    if (status == ORR_OK && !part->done) {
        status = part->again.run(part->again.context, part->outputs);
        part->done = status == ORR_OK;
    }
    if (status == ORR_OK) {
        orr_gradient_tape_stop(part->inner);
        status = check_results(part);
    }
    return status == ORR_OK ? check_reads(part) : status;
}

/* Results that lead to what was read, with their gradients. */
static int fill_seeds(const struct part *part, struct orr_tensor *const *gradients,
                      struct orr_gradient_seed *seeds) {
    int count = 0;
    for (int i = 0; i < part->followed_count; i++) {
        struct orr_tensor *output = part->outputs[part->followed[i]];
        if (gradients[i] && orr__variables_find(&part->inner->variables, output)) {
            seeds[count++] = (struct orr_gradient_seed){.tensor = output, .gradient = gradients[i]};
        }
    }
    return count;
}

/* Gradients of what was read and is wanted. */
static enum orr_status play_inner(struct part *part, enum orr_gradient_part which,
                                  struct orr_tensor *const *gradients, const bool *wanted,
                                  struct orr_tensor **out_gradients) {
    struct orr_runtime *runtime = part->runtime;
    size_t count = part->reads.count;
    struct orr_gradient_seed *seeds =
        orr_memory_alloc(runtime->memory, ((size_t)part->followed_count + 1) * sizeof *seeds);
    struct orr_tensor **asked =
        orr_memory_alloc(runtime->memory, (2 * count + 1) * sizeof(struct orr_tensor *));
    struct orr_tensor **got = asked ? asked + count : NULL;
    int asked_count = 0;
    enum orr_status status = seeds && asked ? ORR_OK : orr__runtime_no_memory(runtime);
    for (size_t i = 0; status == ORR_OK && i < count; i++) {
        if (wanted[i]) {
            asked[asked_count++] = part->reads.items[i];
        }
    }
    if (status == ORR_OK && which == ORR_GRADIENT_WEIGHTS) {
        status = orr_gradient_weights(part->inner, asked, asked_count, got);
    } else if (status == ORR_OK) {
        int seed_count = fill_seeds(part, gradients, seeds);
        status = which == ORR_GRADIENT_INPUTS
                     ? orr_gradient_inputs(part->inner, seeds, seed_count, asked, asked_count, got)
                     : orr_gradient_from(part->inner, seeds, seed_count, asked, asked_count, got);
    }
    for (size_t i = 0, next = 0; status == ORR_OK && i < count; i++) {
        out_gradients[i] = wanted[i] ? got[next++] : NULL;
    }
    orr_memory_free(runtime->memory, seeds);
    orr_memory_free(runtime->memory, asked);
    return status;
}

/* The second of two parts goes on with the tape of the first. Without it (a tape that persists
 * gives weights in portions) the work is done once more. */
static enum orr_status backward(void *context, enum orr_gradient_part which,
                                struct orr_tensor *const *gradients, const bool *wanted,
                                struct orr_tensor **out_gradients) {
    struct part *part = context;
    bool second = which == ORR_GRADIENT_WEIGHTS && part->split;
    if (part->split && !second) {
        settle(part); /* of an earlier gradient */
    }
    if (which == ORR_GRADIENT_WEIGHTS && !second) {
        which = ORR_GRADIENT_WHOLE;
    }
    enum orr_status status = second ? ORR_OK : recompute(part);
    if (status == ORR_OK) {
        status = play_inner(part, which, gradients, wanted, out_gradients);
    }
    if (status == ORR_OK && which == ORR_GRADIENT_INPUTS) {
        part->split = true;
        drop_outputs(part); /* the tape has what it needs */
    } else if (status != ORR_BLOCKED) {
        settle(part);
    }
    return status;
}

const struct orr_gradient_tape *orr__checkpoint_tape(const struct orr__custom *custom) {
    if (!custom || custom->function.backward != backward) {
        return NULL;
    }
    const struct part *part = custom->function.context;
    return part->split ? part->inner : NULL;
}

/* --- the end of the part --- */

static struct part *new_part(struct orr_runtime *runtime, const struct orr_recomputation *again,
                             int output_count) {
    size_t length = strlen(again->name) + 1, count = (size_t)output_count + 1;
    struct part *part = orr_memory_alloc(runtime->memory, sizeof *part + length);
    if (!part) {
        return NULL;
    }
    *part = (struct part){.runtime = runtime, .again = *again, .output_count = output_count};
    memcpy(part->name, again->name, length);
    part->again.name = part->name;
    part->followed = orr_memory_alloc(runtime->memory, count * sizeof *part->followed);
    part->results = orr_memory_alloc(runtime->memory, count * sizeof *part->results);
    part->outputs = orr_memory_alloc(runtime->memory, count * sizeof(struct orr_tensor *));
    if (!part->followed || !part->results || !part->outputs) {
        part->again.release = NULL; /* the caller does */
        release_part(part, false);
        return NULL;
    }
    return part;
}

/* Outputs that become results of the node: new tensors of floats, each once. */
static void find_followed(struct part *part, const struct orr_gradient_tape *tape,
                          struct orr_tensor *const *outputs) {
    for (int i = 0; i < part->output_count; i++) {
        bool known = !orr_dtype_is_float(outputs[i]->info.dtype) ||
                     orr__variables_find(&tape->variables, outputs[i]);
        for (int k = 0; k < i; k++) {
            known = known || outputs[k] == outputs[i];
        }
        if (!known) {
            part->results[part->followed_count] =
                (struct orr__traced){.info = outputs[i]->info, .layout = outputs[i]->layout};
            part->followed[part->followed_count++] = i;
        }
    }
}

/* Puts the part on the tape. The inputs are what was read; `kept` are they and what else the
 * context needs. */
static enum orr_status record(struct part *part, struct orr_gradient_tape *tape,
                              struct orr_tensor *const *outputs, struct orr_tensor *const *kept,
                              int kept_count) {
    struct orr_runtime *runtime = part->runtime;
    int reads = (int)part->reads.count;
    find_followed(part, tape, outputs);
    struct orr_tensor **lists =
        orr_memory_alloc(runtime->memory, (size_t)(part->followed_count + reads + kept_count + 1) *
                                              sizeof(struct orr_tensor *));
    struct orr_tensor **keeps = lists ? lists + part->followed_count : NULL;
    struct orr_gradient_function function = {.name = part->name,
                                             .backward = backward,
                                             .release = release_part,
                                             .context = part,
                                             .raw = true,
                                             .split = true};
    if (!lists) {
        release_part(part, false);
        return orr__runtime_no_memory(runtime);
    }
    for (int i = 0; i < part->followed_count; i++) {
        lists[i] = outputs[part->followed[i]];
    }
    for (int i = 0; i < reads; i++) {
        keeps[i] = part->reads.items[i];
    }
    for (int i = 0; i < kept_count; i++) {
        keeps[reads + i] = kept[i];
    }
    enum orr_status status =
        orr_gradient_custom(runtime, &function, part->reads.items, reads, lists,
                            part->followed_count, keeps, reads + kept_count);
    orr_memory_free(runtime->memory, lists);
    return status;
}

enum orr_status orr_checkpoint_end(struct orr_checkpoint **handle,
                                   const struct orr_recomputation *again,
                                   struct orr_tensor *const *outputs, int output_count,
                                   struct orr_tensor *const *kept, int kept_count) {
    struct orr_checkpoint *checkpoint = *handle;
    struct orr_runtime *runtime = checkpoint->runtime;
    struct orr_gradient_tape *tape = checkpoint->tape;
    bool records = tape && checkpoint->reads.count > 0;
    orr_error_clear(&runtime->error);
    if (tape) {
        tape->probe = NULL;
    }
    struct part *part = records ? new_part(runtime, again, output_count) : NULL;
    enum orr_status status = records && !part ? orr__runtime_no_memory(runtime) : ORR_OK;
    if (part) {
        part->reads = checkpoint->reads;
        checkpoint->reads = (struct tensors){0};
        status = record(part, tape, outputs, kept, kept_count);
    } else if (again->release) {
        again->release(again->context, false);
    }
    checkpoint->tape = NULL;
    orr_checkpoint_cancel(handle);
    return status;
}
