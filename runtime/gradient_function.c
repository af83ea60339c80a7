#include "runtime/gradient_function.h"

#include <assert.h>
#include <string.h>

#include "runtime/autograd_internal.h"

/* --- recording --- */

static void release(const struct orr_gradient_function *function) {
    if (function->release) {
        function->release(function->context, false);
    }
}

static bool any_float(struct orr_tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        if (orr_dtype_is_float(tensors[i]->info.dtype)) {
            return true;
        }
    }
    return false;
}

/* An output is a tensor that has no variable yet. */
static enum orr_status check_outputs(struct orr_gradient_tape *tape, const char *name,
                                     struct orr_tensor *const *outputs, int count) {
    for (int i = 0; i < count; i++) {
        bool again = orr__variables_find(&tape->variables, outputs[i]) != NULL;
        for (int k = 0; k < i; k++) {
            again = again || outputs[k] == outputs[i];
        }
        if (again) {
            return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                     "%s: result %d is a tensor that the tape follows already; "
                                     "return a new one",
                                     name, i + 1);
        }
    }
    return ORR_OK;
}

static struct orr__custom *new_custom(struct orr_runtime *runtime,
                                      const struct orr_gradient_function *function) {
    size_t length = strlen(function->name) + 1;
    struct orr__custom *custom = orr_memory_alloc(runtime->memory, sizeof *custom + length);
    if (custom) {
        custom->function = *function;
        memcpy(custom->name, function->name, length);
        custom->function.name = custom->name;
    }
    return custom;
}

enum orr_status orr_gradient_custom(struct orr_runtime *runtime,
                                    const struct orr_gradient_function *function,
                                    struct orr_tensor *const *inputs, int input_count,
                                    struct orr_tensor *const *outputs, int output_count,
                                    struct orr_tensor *const *kept, int kept_count) {
    struct orr_gradient_tape *tape = orr__tape_recorder(runtime, inputs, input_count);
    enum orr_status status = ORR_OK;
    bool probed = tape && tape->probe;
    orr_error_clear(&runtime->error);
    if (tape && !probed) {
        status = check_outputs(tape, function->name, outputs, output_count);
    }
    if (status == ORR_OK && probed && any_float(outputs, output_count)) {
        status = orr__probe_reserve(tape->probe, input_count);
        if (status == ORR_OK) {
            orr__probe_note(tape->probe, inputs, input_count);
        }
    }
    if (status != ORR_OK || !tape || probed || !any_float(outputs, output_count)) {
        release(function);
        return status;
    }
    status = orr__tape_reserve_node(tape, output_count, input_count + output_count + kept_count);
    struct orr__custom *custom = status == ORR_OK ? new_custom(runtime, function) : NULL;
    if (!custom) {
        release(function);
        return orr__runtime_no_memory(runtime);
    }
    struct orr__node *node =
        orr__tape_add_node(tape, inputs, input_count, outputs, output_count, false);
    node->custom = custom;
    node->kept_count = kept_count;
    for (int i = 0; i < kept_count; i++) {
        orr__node_keep(tape, node, input_count + output_count + i, kept[i]);
    }
    return ORR_OK;
}

/* --- playing --- */

static enum orr_status check_gradient(struct orr_runtime *runtime, const char *name, int index,
                                      const struct orr_tensor *gradient,
                                      const struct orr__traced *traced) {
    if (!gradient || (gradient->info.dtype == traced->info.dtype &&
                      orr_shape_equal(&gradient->info.shape, &traced->info.shape))) {
        return ORR_OK;
    }
    char is[ORR_SHAPE_TEXT_MAX], wants[ORR_SHAPE_TEXT_MAX];
    return orr__runtime_fail(
        runtime, ORR_INVALID,
        "%s: the gradient of input %d has shape %s %s, expected %s %s as the input", name,
        index + 1, orr_shape_text(&gradient->info.shape, is), orr_dtype_name(gradient->info.dtype),
        orr_shape_text(&traced->info.shape, wants), orr_dtype_name(traced->info.dtype));
}

/* Drops what was not asked for. */
static void drop_unwanted(struct orr__backward *b, bool all) {
    for (int i = 0; i < b->node->input_count; i++) {
        if (b->out[i] && (all || !b->wanted[i])) {
            orr__tensor_release(b->out[i]);
            b->out[i] = NULL;
        }
    }
}

/* Nothing is left for a second call if this one wants all that is followed. */
static enum orr_gradient_part part_of(const struct orr__backward *b) {
    const struct orr__node *node = b->node;
    bool left = false;
    for (int i = 0; i < node->input_count; i++) {
        left = left || (node->traced[i].tracked && !b->wanted[i]);
    }
    switch (b->tape->walk.part) {
    case ORR__WALK_ALL: return ORR_GRADIENT_WHOLE;
    case ORR__WALK_INPUTS: return left ? ORR_GRADIENT_INPUTS : ORR_GRADIENT_WHOLE;
    case ORR__WALK_WEIGHTS: break;
    }
    return node->deferred ? ORR_GRADIENT_WEIGHTS : ORR_GRADIENT_WHOLE;
}

static void call_function(struct orr__backward *b) {
    const struct orr__node *node = b->node;
    const struct orr_gradient_function *function = &node->custom->function;
    b->status = function->backward(function->context, part_of(b), b->grads, b->wanted, b->out);
    for (int i = 0; b->status != ORR_OK && i < node->input_count; i++) {
        assert(!b->out[i]);
    }
    for (int i = 0; b->status == ORR_OK && i < node->input_count; i++) {
        b->status =
            check_gradient(b->tape->runtime, function->name, i, b->out[i], &node->traced[i]);
    }
    drop_unwanted(b, b->status != ORR_OK);
}

void orr__custom_apply(struct orr__backward *b) {
    const struct orr__node *node = b->node;
    for (int i = 0; !node->custom->function.raw && i < node->output_count; i++) {
        const struct orr__traced *traced = &node->traced[node->input_count + i];
        if (!b->grads[i] && traced->tracked) {
            b->grads[i] = orr__back_zeros(b, traced);
        }
    }
    if (b->status != ORR_OK || orr__back_recall(b, b->out, node->input_count)) {
        return;
    }
    if (b->status == ORR_OK) {
        call_function(b);
    }
    if (b->status == ORR_OK) {
        orr__back_remember(b, b->out, node->input_count);
    }
}
