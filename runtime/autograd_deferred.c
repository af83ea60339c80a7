/* Gradients in two parts. The first one goes backwards along the nodes that lead to the inputs, and
 * applies only the rules of the operands on that way. A node of which other operands are followed,
 * too, keeps the gradients of its results and what the rest of its rules need:
 *
 *     y = x w     part one: dx = dy w^T, and the node keeps dy and x     part two: dw = x^T dy
 *
 * Nodes off the way (a weight's own cast) are left as they are. The second part walks over all
 * nodes again and does what is left, in the same order as one walk would. Each variable has all
 * its gradient from one of the parts, so that sums have the same terms in the same order. */
#include <assert.h>
#include <string.h>

#include "runtime/autograd_internal.h"

static bool is_left(const struct orr__backward *b, int operand) {
    const struct orr__traced *traced = &b->node->traced[operand];
    return traced->tracked && !b->tape->walk.needed[traced->variable];
}

enum orr_status orr__defer_reserve(struct orr__backward *b) {
    struct orr__node *node = b->node;
    bool any = false;
    for (int i = 0; i < node->input_count; i++) {
        any = any || is_left(b, i);
    }
    if (!any || node->deferred) {
        return ORR_OK;
    }
    size_t count = (size_t)node->output_count + (size_t)node->input_count;
    node->deferred =
        orr_memory_alloc(b->tape->runtime->memory, count * sizeof(struct orr_tensor *));
    return node->deferred ? ORR_OK : orr__runtime_no_memory(b->tape->runtime);
}

void orr__defer_node(struct orr__backward *b) {
    struct orr__node *node = b->node;
    if (!node->deferred) {
        return;
    }
    bool any = false;
    for (int i = 0; i < node->input_count; i++) {
        bool left = is_left(b, i);
        if (left && b->wanted[i] && b->out[i]) {
            node->deferred[node->output_count + i] = orr_tensor_retain(b->out[i]);
        }
        b->wanted[i] = left && !b->wanted[i]; /* from here on: whose rule is left */
        any = any || b->wanted[i];
    }
    bool has_them =
        !b->tape->persists && orr__checkpoint_tape(node->custom); /* its own tape does */
    for (int i = 0; any && !has_them && i < node->output_count; i++) {
        node->deferred[i] = b->grads[i] ? orr_tensor_retain(b->grads[i]) : NULL;
    }
    if (!b->tape->persists) {
        orr__node_keep_for(b->tape, node, b->wanted);
    }
}

void orr__defer_drop_node(struct orr_gradient_tape *tape, struct orr__node *node) {
    for (int i = 0; node->deferred && i < node->output_count + node->input_count; i++) {
        if (node->deferred[i]) {
            orr__tensor_release(node->deferred[i]);
        }
    }
    orr_memory_free(tape->runtime->memory, node->deferred);
    node->deferred = NULL;
}

/* Is the node off the way to the inputs, so that the first part leaves it alone? */
static bool is_off(const struct orr__walk *walk, const struct orr__node *node) {
    for (int i = 0; i < node->input_count; i++) {
        if (node->traced[i].tracked && walk->needed[node->traced[i].variable]) {
            return false;
        }
    }
    return true;
}

enum orr_status orr__defer_open(struct orr_gradient_tape *tape) {
    const struct orr_memory *memory = tape->runtime->memory;
    struct orr__deferral *deferral = &tape->deferral;
    size_t count = (size_t)tape->variables.count + 1;
    assert(!deferral->grads && !deferral->passed);
    deferral->grads = orr_memory_alloc(memory, count * sizeof(struct orr_tensor *));
    deferral->passed = orr_memory_alloc(memory, count * sizeof *deferral->passed);
    return deferral->grads && deferral->passed ? ORR_OK : orr__runtime_no_memory(tape->runtime);
}

static void hand_over(struct orr_gradient_tape *tape, uint32_t variable) {
    struct orr_tensor *grad = tape->walk.grads[variable];
    if (grad && !tape->deferral.grads[variable]) {
        tape->deferral.grads[variable] = orr_tensor_retain(grad);
    }
}

void orr__defer_settle(struct orr_gradient_tape *tape) {
    const struct orr__walk *walk = &tape->walk;
    struct orr__deferral *deferral = &tape->deferral;
    deferral->open = true;
    for (uint32_t i = 0; i < tape->variables.count; i++) {
        deferral->passed[i] = walk->needed[i];
        if (!walk->needed[i]) {
            hand_over(tape, i); /* a seed */
        }
    }
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct orr__node *node = &tape->nodes[i];
        for (int k = 0; is_off(walk, node) && k < node->output_count; k++) {
            const struct orr__traced *traced = &node->traced[node->input_count + k];
            if (traced->tracked) {
                hand_over(tape, traced->variable);
            }
        }
    }
}

void orr__defer_resume(struct orr_gradient_tape *tape) {
    struct orr__deferral *deferral = &tape->deferral;
    for (uint32_t i = 0; i < tape->variables.count; i++) {
        struct orr_tensor *grad = deferral->grads[i];
        if (tape->persists) {
            tape->walk.grads[i] = grad ? orr_tensor_retain(grad) : NULL;
        } else {
            tape->walk.grads[i] = grad;
            deferral->grads[i] = NULL;
        }
    }
}

void orr__defer_close(struct orr_gradient_tape *tape) {
    for (uint32_t i = 0; tape->deferral.grads && i < tape->variables.count; i++) {
        if (tape->deferral.grads[i]) {
            orr__tensor_release(tape->deferral.grads[i]);
        }
    }
    for (size_t i = 0; i < tape->node_count; i++) {
        orr__defer_drop_node(tape, &tape->nodes[i]);
        if (tape->used) {
            orr__node_drop(tape, &tape->nodes[i]);
        }
    }
    orr__defer_free(tape);
}

void orr__defer_free(struct orr_gradient_tape *tape) {
    for (size_t i = 0; i < tape->node_count; i++) {
        orr_memory_free(tape->runtime->memory, tape->nodes[i].deferred);
        tape->nodes[i].deferred = NULL;
    }
    orr_memory_free(tape->runtime->memory, tape->deferral.grads);
    orr_memory_free(tape->runtime->memory, tape->deferral.passed);
    tape->deferral = (struct orr__deferral){0};
}
