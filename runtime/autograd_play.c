/* Playing tapes: see struct orr__walk. */
#include <assert.h>

#include "runtime/autograd_internal.h"

enum { RESULTS_MAX = 1 << 12 };

static const struct orr__variable *variable_of(const struct orr_gradient_tape *tape,
                                               const struct orr_tensor *tensor) {
    return orr__variables_find(&tape->variables, tensor);
}

/* The number of a tensor that the tape follows. */
static uint32_t number_of(const struct orr_gradient_tape *tape, const struct orr_tensor *tensor) {
    const struct orr__variable *variable = variable_of(tape, tensor);
    assert(variable);
    return variable->number;
}

static void drop_results(struct orr__walk *walk) {
    for (size_t i = 0; i < walk->result_count; i++) {
        if (walk->results[i]) {
            orr__tensor_release(walk->results[i]);
        }
    }
    walk->result_count = walk->result_next = 0;
}

void orr__walk_free(struct orr_gradient_tape *tape) {
    struct orr__walk *walk = &tape->walk;
    const struct orr_memory *memory = tape->runtime->memory;
    orr_memory_free(memory, walk->asked);
    orr_memory_free(memory, walk->grads);
    orr_memory_free(memory, walk->needed);
    orr_memory_free(memory, walk->kept);
    orr_memory_free(memory, walk->results);
    orr_memory_free(memory, walk->scratch.grads);
    *walk = (struct orr__walk){0};
}

void orr__walk_close(struct orr_gradient_tape *tape) {
    struct orr__walk *walk = &tape->walk;
    drop_results(walk);
    for (uint32_t i = 0; walk->grads && i < tape->variables.count; i++) {
        if (walk->grads[i]) {
            orr__tensor_release(walk->grads[i]);
        }
    }
    orr__walk_free(tape);
}

/* --- operators while a tape is played --- */

/* Results made before a block are handed out again, in the same order. */
static bool recall(struct orr__walk *walk, struct orr_tensor **out, int count) {
    if (walk->result_next + (size_t)count > walk->result_count) {
        assert(walk->result_next == walk->result_count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        out[i] = walk->results[walk->result_next++];
    }
    return true;
}

static bool reserve_results(struct orr__backward *b, int count) {
    struct orr_runtime *runtime = b->tape->runtime;
    struct orr__walk *walk = &b->tape->walk;
    if (orr_memory_grow(runtime->memory, &walk->results, &walk->result_capacity,
                        walk->result_count + (size_t)count, sizeof(struct orr_tensor *),
                        RESULTS_MAX) != ORR_OK) {
        b->status = orr__runtime_no_memory(runtime);
    }
    return b->status == ORR_OK;
}

static void remember(struct orr__walk *walk, struct orr_tensor *const *results, int count) {
    for (int i = 0; i < count; i++) {
        walk->results[walk->result_count++] = results[i];
    }
    walk->result_next = walk->result_count;
}

bool orr__back_recall(struct orr__backward *b, struct orr_tensor **out, int count) {
    if (recall(&b->tape->walk, out, count)) {
        return true;
    }
    (void)reserve_results(b, count);
    return false;
}

void orr__back_remember(struct orr__backward *b, struct orr_tensor *const *made, int count) {
    remember(&b->tape->walk, made, count);
}

struct orr_tensor *orr__back_apply(struct orr__backward *b, const struct orr_operator *op,
                                   struct orr_tensor *const *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_layout *layout,
                                   struct orr_tensor **out_outputs) {
    struct orr_tensor *results[ORR_OUTPUTS_MAX] = {NULL};
    if (b->status != ORR_OK) {
        return NULL;
    }
    if (!recall(&b->tape->walk, results, op->outputs) && reserve_results(b, op->outputs)) {
        b->status = orr_tensor_apply(b->tape->runtime, op, inputs, input_count, attributes, layout,
                                     results);
        if (b->status == ORR_OK) {
            remember(&b->tape->walk, results, op->outputs);
        }
    }
    for (int i = 0; out_outputs && i < op->outputs; i++) {
        out_outputs[i] = results[i];
    }
    return results[0];
}

static struct orr_tensor *redistribute(struct orr__backward *b, struct orr_tensor *tensor,
                                       const struct orr_layout *layout) {
    struct orr_tensor *out = NULL;
    if (b->status != ORR_OK || orr_layout_equal(&tensor->layout, layout)) {
        return b->status == ORR_OK ? tensor : NULL;
    }
    if (!recall(&b->tape->walk, &out, 1) && reserve_results(b, 1)) {
        b->status = orr_tensor_redistribute(tensor, layout, &out);
        if (b->status == ORR_OK) {
            remember(&b->tape->walk, &out, 1);
        }
    }
    assert(!out || orr_layout_equal(&out->layout, layout));
    return out;
}

/* The gradient of a shift: it goes back by as much. */
static struct orr_tensor *shift_back(struct orr__backward *b, struct orr_tensor *grad,
                                     const struct orr__shift *shift) {
    struct orr_tensor *out = NULL;
    if (b->status == ORR_OK && !recall(&b->tape->walk, &out, 1) && reserve_results(b, 1)) {
        b->status = orr_tensor_shift(grad, shift->axis, -(int64_t)shift->by, &out);
        if (b->status == ORR_OK) {
            remember(&b->tape->walk, &out, 1);
        }
    }
    return out;
}

/* Where the gradient of a tensor belongs: see the table in autograd.h. `partial`: P(sum) along an
 * axis where the tensor is R may stay. */
static struct orr_tensor *bring(struct orr__backward *b, struct orr_tensor *grad,
                                const struct orr_layout *tensor, bool partial) {
    if (b->status != ORR_OK) {
        return NULL;
    }
    struct orr_layout layout = *tensor;
    for (int axis = 0; axis < layout.mesh->axis_count; axis++) {
        int other = orr__matching_axis(layout.mesh, axis, grad->layout.mesh);
        struct orr_placement *to = &layout.axes[axis], from = {.kind = ORR_REPLICATE};
        from = other < 0 ? from : grad->layout.axes[other];
        bool keeps = partial && to->kind == ORR_REPLICATE && from.kind == ORR_PARTIAL &&
                     from.reduction == ORR_SUM;
        if (to->kind == ORR_PARTIAL && to->reduction != ORR_SUM) {
            b->status = orr__runtime_fail(b->tape->runtime, ORR_UNSUPPORTED,
                                          "the gradient of a partial tensor that is no sum");
            return NULL;
        }
        if (keeps) {
            *to = from;
        } else if (to->kind == ORR_PARTIAL) {
            *to = (struct orr_placement){.kind = ORR_REPLICATE};
        }
    }
    return redistribute(b, grad, &layout);
}

/* The sum of two gradients of one tensor: partial where both are. */
static struct orr_tensor *add_up(struct orr__backward *b, struct orr_tensor *x,
                                 struct orr_tensor *y) {
    struct orr_layout layout = x->layout;
    for (int axis = 0; axis < layout.mesh->axis_count; axis++) {
        if (x->layout.axes[axis].kind != y->layout.axes[axis].kind) {
            layout.axes[axis] = (struct orr_placement){.kind = ORR_REPLICATE};
        }
    }
    struct orr_tensor *inputs[2];
    inputs[0] = redistribute(b, x, &layout); /* in this order: each makes a collective */
    inputs[1] = redistribute(b, y, &layout);
    const struct orr_operator *add = orr_operator_find("add");
    struct orr_attributes attributes;
    orr_operator_defaults(add, &attributes);
    return orr__back_apply(b, add, inputs, 2, &attributes, NULL, NULL);
}

/* --- steps --- */

/* What is added to a variable so far, with this step's additions. */
static struct orr_tensor *current(const struct orr__walk *walk,
                                  const struct orr__addition *additions, int count,
                                  uint32_t variable) {
    for (int i = count - 1; i >= 0; i--) {
        if (additions[i].variable == variable) {
            return additions[i].sum;
        }
    }
    return walk->grads[variable];
}

/* Adds a gradient to a variable's, in the tensor's layout, at the end of the step. */
static void add_gradient(struct orr__backward *b, const struct orr__traced *traced,
                         struct orr_tensor *grad, struct orr__addition *additions, int *count) {
    struct orr_tensor *term = bring(b, grad, &traced->layout, true);
    struct orr_tensor *before = current(&b->tape->walk, additions, *count, traced->variable);
    if (b->status == ORR_OK && before) {
        term = add_up(b, before, term);
    }
    if (b->status == ORR_OK) {
        additions[(*count)++] = (struct orr__addition){traced->variable, term};
    }
}

static void set_gradient(struct orr__walk *walk, uint32_t variable, struct orr_tensor *grad) {
    struct orr_tensor *old = walk->grads[variable];
    walk->grads[variable] = grad ? orr_tensor_retain(grad) : NULL;
    if (old) {
        orr__tensor_release(old);
    }
}

/* Ends a step: its additions take effect, unless it failed or is to be repeated. */
static enum orr_status end_step(struct orr__backward *b, const struct orr__addition *additions,
                                int count) {
    struct orr__walk *walk = &b->tape->walk;
    if (b->status == ORR_BLOCKED) {
        walk->result_next = 0;
        return ORR_BLOCKED;
    }
    for (int i = 0; b->status == ORR_OK && i < count; i++) {
        set_gradient(walk, additions[i].variable, additions[i].sum);
    }
    drop_results(walk);
    return b->status;
}

/* A tensor filled with a value, where a gradient of a tensor like this belongs. */
static struct orr_tensor *filled(struct orr__backward *b, double value,
                                 const struct orr_operand_info *info,
                                 const struct orr_layout *tensor) {
    const struct orr_operator *op = orr_operator_find("full");
    struct orr_attributes attributes;
    struct orr_layout layout = *tensor;
    orr_operator_defaults(op, &attributes);
    attributes.values[orr_operator_attribute(op, "shape")].shape = info->shape;
    attributes.values[orr_operator_attribute(op, "dtype")].integer = info->dtype;
    attributes.values[orr_operator_attribute(op, "value")].real = value;
    for (int axis = 0; axis < layout.mesh->axis_count; axis++) {
        if (layout.axes[axis].kind == ORR_PARTIAL) {
            layout.axes[axis] = (struct orr_placement){.kind = ORR_REPLICATE};
        }
    }
    return orr__back_apply(b, op, NULL, 0, &attributes, &layout, NULL);
}

struct orr_tensor *orr__back_zeros(struct orr__backward *b, const struct orr__traced *traced) {
    return filled(b, 0, &traced->info, &traced->layout);
}

static enum orr_status step_seed(struct orr_gradient_tape *tape,
                                 const struct orr_gradient_seed *seed) {
    struct orr__backward b = {.tape = tape};
    struct orr__addition additions[1];
    int count = 0;
    struct orr__traced traced = {.variable = number_of(tape, seed->tensor),
                                 .layout = seed->tensor->layout};
    double value = seed->value == 0 ? 1 : seed->value;
    struct orr_tensor *grad = seed->gradient
                                  ? seed->gradient
                                  : filled(&b, value, &seed->tensor->info, &seed->tensor->layout);
    add_gradient(&b, &traced, grad, additions, &count);
    return end_step(&b, additions, count);
}

/* Gradients of a node's results, as its rule takes them; false if there are none. */
static bool take_gradients(struct orr__backward *b) {
    const struct orr__node *node = b->node;
    bool partial = node->custom ? node->custom->function.raw
                                : !node->op || (node->rule && node->rule->kind & ORR__RULE_LINEAR);
    bool any = false;
    for (int i = 0; i < node->output_count; i++) {
        const struct orr__traced *traced = &node->traced[node->input_count + i];
        struct orr_tensor *grad = traced->tracked ? b->tape->walk.grads[traced->variable] : NULL;
        b->grads[i] = grad ? bring(b, grad, &traced->layout, partial) : NULL;
        any = any || grad;
    }
    return any;
}

/* Those that the first part has brought. */
static void take_deferred(struct orr__backward *b) {
    const struct orr__node *node = b->node;
    for (int i = 0; i < node->output_count; i++) {
        b->grads[i] = node->deferred[i];
    }
    for (int i = 0; i < node->input_count; i++) {
        b->out[i] = node->deferred[node->output_count + i];
        b->wanted[i] = b->wanted[i] && !b->out[i];
    }
}

/* Does this walk add to the operand's gradient? */
static bool adds(const struct orr__backward *b, int operand) {
    const struct orr_gradient_tape *tape = b->tape;
    const struct orr__traced *traced = &b->node->traced[operand];
    return traced->tracked && tape->walk.needed[traced->variable] &&
           !(tape->walk.part == ORR__WALK_WEIGHTS && tape->deferral.passed[traced->variable]);
}

/* The first operand of those whose gradients are computed together, or as many as there are. */
static int joint_from(const struct orr__node *node) {
    uint32_t kind = node->rule ? node->rule->kind : 0;
    if (node->custom && !node->custom->function.split) {
        kind = ORR__RULE_JOINT;
    }
    return kind & ORR__RULE_JOINT ? 0 : kind & ORR__RULE_JOINT_REST ? 1 : node->input_count;
}

/* Which operands' gradients are to be computed. */
static bool wants_any(struct orr__backward *b) {
    const struct orr__node *node = b->node;
    int joint = b->tape->walk.part == ORR__WALK_INPUTS ? joint_from(node) : node->input_count;
    bool any = false, any_joint = false;
    for (int i = 0; i < node->input_count; i++) {
        b->wanted[i] = adds(b, i);
        any = any || b->wanted[i];
        any_joint = any_joint || (i >= joint && b->wanted[i]);
    }
    for (int i = joint; any_joint && i < node->input_count; i++) {
        b->wanted[i] = node->traced[i].tracked;
    }
    return any;
}

static void apply_rule(struct orr__backward *b) {
    bool any = false;
    for (int i = 0; i < b->node->input_count; i++) {
        any = any || b->wanted[i];
    }
    if (b->status != ORR_OK || !any) {
        return;
    }
    if (b->node->custom) {
        orr__custom_apply(b);
    } else if (!b->node->op && b->node->shift.by > 0) {
        b->out[0] = shift_back(b, b->grads[0], &b->node->shift);
    } else if (!b->node->op) {
        b->out[0] = b->grads[0];
    } else if (b->node->rule) {
        b->node->rule->apply(b);
    } else {
        b->status = orr__runtime_fail(b->tape->runtime, ORR_UNSUPPORTED,
                                      "there is no gradient of '%s'", b->node->op->name);
    }
}

/* The node's part is done: what only it needed can go. */
static void leave_node(struct orr_gradient_tape *tape, struct orr__node *node) {
    for (int i = 0; i < node->output_count; i++) {
        const struct orr__traced *traced = &node->traced[node->input_count + i];
        if (traced->tracked && !tape->walk.kept[traced->variable]) {
            set_gradient(&tape->walk, traced->variable, NULL);
        }
    }
    bool left = tape->walk.part == ORR__WALK_INPUTS && node->deferred;
    if (!tape->persists && !left) {
        orr__defer_drop_node(tape, node);
        orr__node_drop(tape, node);
    }
}

static struct orr__backward backward_of(struct orr_gradient_tape *tape, struct orr__node *node) {
    struct orr__scratch *scratch = &tape->walk.scratch;
    for (size_t i = 0; i < scratch->inputs; i++) {
        scratch->out[i] = NULL;
        scratch->wanted[i] = false;
    }
    for (size_t i = 0; i < scratch->outputs; i++) {
        scratch->grads[i] = NULL;
    }
    return (struct orr__backward){.tape = tape,
                                  .node = node,
                                  .grads = scratch->grads,
                                  .wanted = scratch->wanted,
                                  .out = scratch->out};
}

/* Gradients of the operands from those of the results. */
static void differentiate(struct orr__backward *b, int *count) {
    struct orr_gradient_tape *tape = b->tape;
    struct orr__node *node = b->node;
    bool deferred = tape->walk.part == ORR__WALK_WEIGHTS && node->deferred;
    if (deferred) {
        take_deferred(b);
    } else if (!take_gradients(b)) {
        return;
    }
    if (tape->walk.part == ORR__WALK_INPUTS && b->status == ORR_OK) {
        b->status = orr__defer_reserve(b);
    }
    apply_rule(b);
    for (int i = 0; i < node->input_count; i++) {
        if (b->status == ORR_OK && adds(b, i) && b->out[i]) {
            add_gradient(b, &node->traced[i], b->out[i], tape->walk.scratch.additions, count);
        }
    }
}

static enum orr_status step_node(struct orr_gradient_tape *tape, struct orr__node *node) {
    struct orr__backward b = backward_of(tape, node);
    bool first = tape->walk.part == ORR__WALK_INPUTS, wants = wants_any(&b);
    int count = 0;
    if (wants) {
        differentiate(&b, &count);
    }
    if (first && b.status == ORR_OK) {
        orr__defer_node(&b);
    }
    enum orr_status status = end_step(&b, tape->walk.scratch.additions, count);
    if (status == ORR_OK && (wants || !first)) {
        leave_node(tape, node); /* else the second part may have a use for it */
    }
    return status;
}

static enum orr_status step_wanted(struct orr_gradient_tape *tape,
                                   const struct orr_tensor *wanted) {
    struct orr__backward b = {.tape = tape};
    struct orr__addition additions[1];
    int count = 0;
    uint32_t variable = number_of(tape, wanted);
    if (!tape->walk.grads[variable]) {
        struct orr_tensor *zeros = filled(&b, 0, &wanted->info, &wanted->layout);
        additions[count++] = (struct orr__addition){variable, zeros};
    }
    return end_step(&b, additions, count);
}

/* --- playing --- */

static void mark_needed(struct orr_gradient_tape *tape) {
    bool *needed = tape->walk.needed;
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct orr__node *node = &tape->nodes[i];
        bool any = false;
        for (int k = 0; k < node->input_count; k++) {
            any = any || (node->traced[k].tracked && needed[node->traced[k].variable]);
        }
        for (int k = 0; any && k < node->output_count; k++) {
            const struct orr__traced *traced = &node->traced[node->input_count + k];
            needed[traced->variable] |= traced->tracked;
        }
    }
}

/* Room for a step of any node. One block: pointers first, then what needs less alignment. */
static enum orr_status open_scratch(struct orr_gradient_tape *tape) {
    struct orr__scratch *scratch = &tape->walk.scratch;
    scratch->inputs = ORR_INPUTS_MAX;
    scratch->outputs = ORR_OUTPUTS_MAX;
    for (size_t i = 0; i < tape->node_count; i++) {
        size_t inputs = (size_t)tape->nodes[i].input_count;
        size_t outputs = (size_t)tape->nodes[i].output_count;
        scratch->inputs = inputs > scratch->inputs ? inputs : scratch->inputs;
        scratch->outputs = outputs > scratch->outputs ? outputs : scratch->outputs;
    }
    size_t pointers = (scratch->outputs + scratch->inputs) * sizeof(struct orr_tensor *);
    size_t additions = scratch->inputs * sizeof *scratch->additions;
    char *block = orr_memory_alloc(tape->runtime->memory,
                                   pointers + additions + scratch->inputs * sizeof(bool));
    if (!block) {
        return orr__runtime_no_memory(tape->runtime);
    }
    scratch->grads = (struct orr_tensor **)(void *)block;
    scratch->out = scratch->grads + scratch->outputs;
    scratch->additions = (struct orr__addition *)(void *)(block + pointers);
    scratch->wanted = (bool *)(void *)(block + pointers + additions);
    return ORR_OK;
}

/* What a call asks for. */
struct request {
    enum orr__walk_part part;
    const struct orr_gradient_seed *seeds;
    int seed_count;
    struct orr_tensor *const *wanted;
    int wanted_count;
};

static enum orr_status open_walk(struct orr_gradient_tape *tape, const struct request *request) {
    const struct orr_memory *memory = tape->runtime->memory;
    struct orr__walk *walk = &tape->walk;
    int seed_count = request->seed_count, wanted_count = request->wanted_count;
    size_t count = (size_t)tape->variables.count + 1;
    walk->asked = orr_memory_alloc(memory, ((size_t)seed_count + (size_t)wanted_count + 1) *
                                               sizeof *walk->asked);
    walk->grads = orr_memory_alloc(memory, count * sizeof(struct orr_tensor *));
    walk->needed = orr_memory_alloc(memory, count * sizeof *walk->needed);
    walk->kept = orr_memory_alloc(memory, count * sizeof *walk->kept);
    if (!walk->asked || !walk->grads || !walk->needed || !walk->kept) {
        return orr__runtime_no_memory(tape->runtime);
    }
    for (int i = 0; i < seed_count; i++) {
        walk->asked[i] = number_of(tape, request->seeds[i].tensor);
    }
    for (int i = 0; i < wanted_count; i++) {
        uint32_t variable = number_of(tape, request->wanted[i]);
        walk->asked[seed_count + i] = variable;
        walk->needed[variable] = walk->kept[variable] = true;
    }
    mark_needed(tape);
    walk->part = request->part;
    walk->seed_count = seed_count;
    walk->wanted_count = wanted_count;
    walk->nodes_left = tape->node_count;
    walk->open = true;
    enum orr_status status = open_scratch(tape);
    if (status == ORR_OK && walk->part == ORR__WALK_INPUTS) {
        status = orr__defer_open(tape);
    }
    if (status == ORR_OK && walk->part == ORR__WALK_WEIGHTS) {
        orr__defer_resume(tape);
    }
    return status;
}

/* Goes on with the walk until it is done, blocked or has failed. */
static enum orr_status walk_on(struct orr_gradient_tape *tape, const struct request *request) {
    struct orr__walk *walk = &tape->walk;
    enum orr_status status = ORR_OK;
    while (status == ORR_OK && walk->seeds_done < request->seed_count) {
        status = step_seed(tape, &request->seeds[walk->seeds_done]);
        walk->seeds_done += status == ORR_OK;
    }
    while (status == ORR_OK && walk->nodes_left > 0) {
        status = step_node(tape, &tape->nodes[walk->nodes_left - 1]);
        walk->nodes_left -= status == ORR_OK;
    }
    while (status == ORR_OK && walk->wanted_done < request->wanted_count) {
        status = step_wanted(tape, request->wanted[walk->wanted_done]);
        walk->wanted_done += status == ORR_OK;
    }
    return status;
}

/* The same, unseen by a tape that this host records meanwhile: what is begun inside is deeper. */
static enum orr_status play(struct orr_gradient_tape *tape, const struct request *request) {
    struct orr_runtime *runtime = tape->runtime;
    uint32_t host = runtime->host, pauses = runtime->hosts[host].pauses;
    runtime->hosts[host].depth++;
    runtime->hosts[host].pauses = 0;
    tape->walk.busy = true;
    enum orr_status status = walk_on(tape, request);
    tape->walk.busy = false;
    runtime->hosts[host].pauses = pauses;
    uint32_t depth = --runtime->hosts[host].depth;
    while (status != ORR_BLOCKED && runtime->hosts[host].tape &&
           runtime->hosts[host].tape->depth > depth) {
        orr__tape_stop(runtime->hosts[host].tape);
    }
    return status;
}

static enum orr_status check_seed(struct orr_gradient_tape *tape,
                                  const struct orr_gradient_seed *seed) {
    const struct orr_tensor *gradient = seed->gradient;
    if (!variable_of(tape, seed->tensor)) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "the tensor to start from depends on nothing that the tape "
                                 "watches");
    }
    if (gradient && (gradient->info.dtype != seed->tensor->info.dtype ||
                     !orr_shape_equal(&gradient->info.shape, &seed->tensor->info.shape))) {
        char is[ORR_SHAPE_TEXT_MAX], wants[ORR_SHAPE_TEXT_MAX];
        return orr__runtime_fail(
            tape->runtime, ORR_INVALID, "a seed of shape %s %s for a tensor of shape %s %s",
            orr_shape_text(&gradient->info.shape, is), orr_dtype_name(gradient->info.dtype),
            orr_shape_text(&seed->tensor->info.shape, wants),
            orr_dtype_name(seed->tensor->info.dtype));
    }
    return ORR_OK;
}

static bool is_number(const struct orr_gradient_tape *tape, const struct orr_tensor *tensor,
                      uint32_t number) {
    const struct orr__variable *variable = variable_of(tape, tensor);
    return variable && variable->number == number;
}

/* Is this the call that was blocked? */
static bool repeats(const struct orr_gradient_tape *tape, const struct request *request) {
    const struct orr__walk *walk = &tape->walk;
    bool same = request->part == walk->part && request->seed_count == walk->seed_count &&
                request->wanted_count == walk->wanted_count;
    for (int i = 0; same && i < walk->seed_count; i++) {
        same = is_number(tape, request->seeds[i].tensor, walk->asked[i]);
    }
    for (int i = 0; same && i < walk->wanted_count; i++) {
        same = is_number(tape, request->wanted[i], walk->asked[walk->seed_count + i]);
    }
    return same;
}

static enum orr_status check_wanted(struct orr_gradient_tape *tape, const struct request *request,
                                    int index) {
    const struct orr__variable *variable = variable_of(tape, request->wanted[index]);
    if (!variable) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "wanted tensor %d is not one that the tape follows: watch it "
                                 "before it is used",
                                 index + 1);
    }
    if (request->part == ORR__WALK_WEIGHTS && tape->deferral.passed[variable->number]) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "the gradient of wanted tensor %d was left behind by the first "
                                 "part, which went by it: ask for it there",
                                 index + 1);
    }
    return ORR_OK;
}

static enum orr_status check_call(struct orr_gradient_tape *tape, const struct request *request) {
    if (request->part == ORR__WALK_WEIGHTS && !tape->deferral.open) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "nothing was deferred: gradients of inputs come first, and those "
                                 "of weights once");
    }
    if (request->part != ORR__WALK_WEIGHTS && tape->used) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "the tape is used up; one that persists can be played again");
    }
    enum orr_status status = ORR_OK;
    for (int i = 0; status == ORR_OK && i < request->seed_count; i++) {
        status = check_seed(tape, &request->seeds[i]);
    }
    for (int i = 0; status == ORR_OK && i < request->wanted_count; i++) {
        status = check_wanted(tape, request, i);
    }
    return status;
}

/* The walk is over, and its gradients are handed out. */
static enum orr_status finish(struct orr_gradient_tape *tape, const struct request *request,
                              enum orr_status status, struct orr_tensor **out_gradients) {
    for (int i = 0; status == ORR_OK && i < request->wanted_count; i++) {
        uint32_t variable = number_of(tape, request->wanted[i]);
        out_gradients[i] = orr_tensor_retain(tape->walk.grads[variable]);
    }
    if (status == ORR_OK && request->part == ORR__WALK_INPUTS) {
        orr__defer_settle(tape);
    }
    orr__walk_close(tape);
    bool stays = status == ORR_OK && (request->part == ORR__WALK_INPUTS || tape->persists);
    if (request->part != ORR__WALK_ALL && !stays) {
        orr__defer_close(tape);
    }
    return status;
}

static enum orr_status answer(struct orr_gradient_tape *tape, const struct request *request,
                              struct orr_tensor **out_gradients) {
    for (int i = 0; i < request->wanted_count; i++) {
        out_gradients[i] = NULL;
    }
    enum orr_status status = ORR_OK;
    orr_error_clear(&tape->runtime->error);
    if (tape->walk.busy) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "the tape is being played: one of its functions asks for another "
                                 "gradient of it");
    }
    if (!tape->walk.open) {
        status = check_call(tape, request);
        if (status != ORR_OK) {
            return status;
        }
        orr__tape_stop(tape);
        tape->used = !tape->persists;
        if (request->part != ORR__WALK_WEIGHTS && tape->deferral.open) {
            orr__defer_close(tape);
        }
        status = open_walk(tape, request);
    } else if (!repeats(tape, request)) {
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "another gradient of this tape was blocked; repeat that call");
    }
    if (status == ORR_OK) {
        status = play(tape, request);
    }
    if (status == ORR_BLOCKED && !tape->doomed) {
        return status;
    }
    if (status == ORR_BLOCKED) {
        status = orr__runtime_fail(tape->runtime, ORR_INVALID,
                                   "one of the tape's functions destroyed it while it was played");
    }
    status = finish(tape, request, status, out_gradients);
    if (tape->doomed) {
        orr_gradient_tape_destroy(&tape);
    }
    return status;
}

/* --- the calls --- */

enum orr_status orr_gradient_from(struct orr_gradient_tape *tape,
                                  const struct orr_gradient_seed *seeds, int seed_count,
                                  struct orr_tensor *const *wanted, int wanted_count,
                                  struct orr_tensor **out_gradients) {
    const struct request request = {ORR__WALK_ALL, seeds, seed_count, wanted, wanted_count};
    return answer(tape, &request, out_gradients);
}

enum orr_status orr_gradient_inputs(struct orr_gradient_tape *tape,
                                    const struct orr_gradient_seed *seeds, int seed_count,
                                    struct orr_tensor *const *inputs, int input_count,
                                    struct orr_tensor **out_gradients) {
    const struct request request = {ORR__WALK_INPUTS, seeds, seed_count, inputs, input_count};
    return answer(tape, &request, out_gradients);
}

enum orr_status orr_gradient_weights(struct orr_gradient_tape *tape,
                                     struct orr_tensor *const *weights, int weight_count,
                                     struct orr_tensor **out_gradients) {
    const struct request request = {ORR__WALK_WEIGHTS, NULL, 0, weights, weight_count};
    return answer(tape, &request, out_gradients);
}

enum orr_status orr_gradient(struct orr_gradient_tape *tape, struct orr_tensor *loss,
                             struct orr_tensor *const *wanted, int wanted_count,
                             struct orr_tensor **out_gradients) {
    struct orr_gradient_seed seed = {.tensor = loss};
    if (orr_shape_count(&loss->info.shape) != 1) {
        char shape[ORR_SHAPE_TEXT_MAX];
        for (int i = 0; i < wanted_count; i++) {
            out_gradients[i] = NULL;
        }
        return orr__runtime_fail(tape->runtime, ORR_INVALID,
                                 "the loss has shape %s, expected one element; give other tensors "
                                 "a gradient to start from",
                                 orr_shape_text(&loss->info.shape, shape));
    }
    return orr_gradient_from(tape, &seed, 1, wanted, wanted_count, out_gradients);
}
