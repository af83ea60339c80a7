/* What autograd.c, which records and plays tapes, and autograd_rules.c, which knows the operators'
 * gradients, share.
 *
 *     node: operator, attributes, operands of the forward pass        (recorded)
 *     rule: what to keep of them, and how to get from the gradients of the results to those of the
 *           operands, in terms of operators                           (a constant table)
 *     orr__backward: one node while the tape is played
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_AUTOGRAD_INTERNAL_H
#define ORR_RUNTIME_AUTOGRAD_INTERNAL_H

#include "runtime/autograd.h"
#include "runtime/tensor_internal.h"

/* An operand or result of a node. */
struct orr__traced {
    bool tracked;
    uint32_t variable;
    struct orr_tensor *kept; /* one reference if a rule needs its values, else NULL */
    struct orr_operand_info info;
    struct orr_layout layout;
};

struct orr__backward;

/* How operators are differentiated. */
struct orr__rule {
    const char *name;
    /* Values that the gradient of operand 0, 1, 2 needs: ORR__KEEP_... */
    uint32_t keeps[3];
    bool linear; /* takes a partial gradient, and hands a partial one on */
    /* Sets backward->out[i] for every operand i that is wanted. */
    void (*apply)(struct orr__backward *backward);
};

enum {
    ORR__KEEP_FIRST = 1 << 0, /* operands */
    ORR__KEEP_SECOND = 1 << 1,
    ORR__KEEP_THIRD = 1 << 2,
    ORR__KEEP_RESULT = 1 << 16, /* results */
    ORR__KEEP_RESULT_SECOND = 1 << 17
};

/* The rule of an operator, NULL if it has no gradient. */
const struct orr__rule *orr__rule_of(const struct orr_operator *op);

struct orr__node {
    const struct orr_operator *op; /* NULL: a redistribution */
    const struct orr__rule *rule;  /* NULL: no gradient, or a redistribution */
    struct orr_attributes attributes;
    int input_count, output_count;
    struct orr__traced *traced; /* operands, then results; owned */
};

struct orr__backward {
    struct orr_gradient_tape *tape;
    const struct orr__node *node;              /* NULL at the ends of the tape */
    struct orr_tensor *grads[ORR_OUTPUTS_MAX]; /* of the results; NULL: none. Borrowed */
    bool wanted[ORR_INPUTS_MAX];
    struct orr_tensor *out[ORR_INPUTS_MAX]; /* of the operands; borrowed: the tape owns results */
    enum orr_status status;                 /* of the first failure; nothing is done after it */
};

/* Applies an operator; its results belong to the tape until the node is done, and are NULL after a
 * failure. `attributes` NULL: the defaults. `layout` as in orr_tensor_apply. Returns the first
 * result; the others go to out_outputs unless that is NULL. */
struct orr_tensor *orr__back_apply(struct orr__backward *backward, const struct orr_operator *op,
                                   struct orr_tensor *const *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_layout *layout,
                                   struct orr_tensor **out_outputs);

#endif
