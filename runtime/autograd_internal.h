/* What the files of gradient tapes share: autograd.c records, autograd_play.c plays,
 * autograd_variables.c numbers tensors, autograd_rules.c knows the operators' gradients.
 *
 *     variable: a watched tensor, or a result of a node, by number
 *     node: operator, attributes, operands of the forward pass        (recorded)
 *     rule: what to keep of them, and how to get from the gradients of the results to those of the
 *           operands, in terms of operators                           (a constant table)
 *     walk: seeds -> gradients by variable; nodes backwards: gradients of the results -> rule ->
 *           added to those of the operands; last, what is wanted      (a tape that is played)
 *     orr__backward: one step of it
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_AUTOGRAD_INTERNAL_H
#define ORR_RUNTIME_AUTOGRAD_INTERNAL_H

#include "runtime/gradient_function.h"
#include "runtime/tensor_internal.h"

/* --- rules --- */

struct orr__backward;

/* How operators are differentiated. */
struct orr__rule {
    const char *name;
    /* Values that the gradient of operand 0, 1, 2 needs: ORR__KEEP_... */
    uint32_t keeps[3];
    uint32_t kind; /* ORR__RULE_..., or false for none, true for linear */
    /* Sets backward->out[i] for every operand i that is wanted. */
    void (*apply)(struct orr__backward *backward);
};

enum {
    ORR__RULE_LINEAR = 1,    /* takes a partial gradient, and hands a partial one on */
    ORR__RULE_JOINT = 2,     /* operands' gradients share work: they are computed together */
    ORR__RULE_JOINT_REST = 4 /* the same but for the first operand's */
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
/* The part of it that is in autograd_image.c: convolutions, group norms, quantized weights. */
const struct orr__rule *orr__image_rule(const struct orr_operator *op);

/* --- tapes --- */

/* Numbers of tensors on one tape, by their serial numbers, which are never used again: a hash table
 * with open addressing. All zero is an empty one. */
struct orr__variable {
    uint64_t serial; /* 0: free */
    uint32_t number; /* in the order in which they came */
    bool leaf;       /* watched, or the same memory as one that is */
};

struct orr__variables {
    struct orr__variable *slots;
    size_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

/* NULL if the tensor is not among them. */
const struct orr__variable *orr__variables_find(const struct orr__variables *variables,
                                                const struct orr_tensor *tensor);
/* Room for `more` of them. */
enum orr_status orr__variables_reserve(struct orr__variables *variables,
                                       const struct orr_memory *memory,
                                       uint32_t more) ORR_MUST_CHECK;
/* Adds a tensor that is not among them, for which there is room; returns its number. */
uint32_t orr__variables_add(struct orr__variables *variables, const struct orr_tensor *tensor,
                            bool leaf);

/* An operand or result of a node. */
struct orr__traced {
    bool tracked, leaf;
    uint32_t variable;
    struct orr_tensor *kept; /* one reference if a rule needs its values, else NULL */
    struct orr_operand_info info;
    struct orr_layout layout;
};

struct orr__node {
    const struct orr_operator *op; /* NULL: a redistribution or shift, or the user's function */
    const struct orr__rule *rule;  /* NULL: no gradient, or no operator */
    struct orr__shift shift;
    struct orr__custom *custom; /* a function of the user's; NULL: none, or released */
    struct orr_attributes attributes;
    int input_count, output_count, kept_count;
    struct orr__traced *traced; /* operands, results, what a function keeps; owned */
    /* What orr_gradient_inputs left to be done: gradients of the results, then those of operands
     * that it had to compute; NULL or one reference each. Owned; NULL: nothing is left. */
    struct orr_tensor **deferred;
};

struct orr__custom {
    struct orr_gradient_function function; /* its name is behind this */
    char name[];
};

/* A gradient that a step adds; it takes effect with the step's end. */
struct orr__addition {
    uint32_t variable;
    struct orr_tensor *sum; /* borrowed from `results` */
};

/* A host may be blocked in the middle (ORR_BLOCKED) and repeat its call. So playing is a row of
 * steps (a seed, a node, a wanted gradient) that the walk remembers, and within a step it remembers
 * the results of operators: the rule runs again and gets what was already made. What a step changes
 * it changes at its end. */
enum orr__walk_part {
    ORR__WALK_ALL,
    ORR__WALK_INPUTS, /* operands that lead to what is wanted; the rest is deferred */
    ORR__WALK_WEIGHTS /* what is deferred */
};

struct orr__walk {
    bool open;
    bool busy; /* a call of the tape is on the way: functions of the user's may run inside */
    enum orr__walk_part part;
    uint32_t *asked; /* variables of the seeds, then of what is wanted: a repeated call has these */
    int seed_count, wanted_count;
    int seeds_done, wanted_done;
    size_t nodes_left;
    struct orr_tensor **grads;   /* by variable, one reference each */
    bool *needed;                /* by variable: something wanted depends on it */
    bool *kept;                  /* by variable: is wanted itself */
    struct orr_tensor **results; /* of the step's operators, one reference each */
    size_t result_count, result_capacity, result_next;
    struct orr__scratch {          /* of the step: see struct orr__backward */
        struct orr_tensor **grads; /* the block; the others are parts of it */
        struct orr_tensor **out;
        struct orr__addition *additions;
        bool *wanted;
        size_t outputs, inputs; /* at most */
    } scratch;
};

/* Between orr_gradient_inputs and orr_gradient_weights. */
struct orr__deferral {
    bool open;
    struct orr_tensor **grads; /* by variable: of results that nodes left alone start from */
    bool *passed;              /* by variable: its gradient is done */
};

struct orr_gradient_tape {
    struct orr_runtime *runtime;
    struct orr_gradient_tape *previous, *next; /* of the runtime */
    struct orr_gradient_tape *below;           /* while it records: an earlier one of its host */
    uint32_t host, depth;                      /* that it was begun by and in */
    int paused;                                /* so many times */
    bool recording, persists, used;
    bool doomed;                  /* destroyed while it was busy */
    struct orr_checkpoint *probe; /* instead of recording, what is read is noted; NULL: records */
    struct orr__node *nodes;
    size_t node_count, node_capacity;
    struct orr__variables variables;
    struct orr__traced *spare; /* of the node that orr__tape_reserve made room for */
    struct orr__walk walk;
    struct orr__deferral deferral;
};

/* The tape that takes what the current host does to these tensors, which it follows; or NULL. */
struct orr_gradient_tape *orr__tape_recorder(const struct orr_runtime *runtime,
                                             struct orr_tensor *const *inputs, int count);
/* The current host's tape that listens to it, whatever it follows; or NULL. */
struct orr_gradient_tape *orr__tape_listening(const struct orr_runtime *runtime);
/* Does any node read the variable? */
bool orr__tape_reads(const struct orr_gradient_tape *tape, uint32_t variable);
/* Room for a node with as many results, and as many operands, results and kept tensors. */
enum orr_status orr__tape_reserve_node(struct orr_gradient_tape *tape, int outputs,
                                       int tensors) ORR_MUST_CHECK;
/* Adds a node, for which there is room, that keeps nothing yet; results of floats are followed.
 * `leaf`: they have the memory of watched tensors. */
struct orr__node *orr__tape_add_node(struct orr_gradient_tape *tape,
                                     struct orr_tensor *const *inputs, int input_count,
                                     struct orr_tensor *const *outputs, int output_count,
                                     bool leaf);
/* Makes the node's operand, result or further tensor `index` keep a tensor. */
void orr__node_keep(const struct orr_gradient_tape *tape, struct orr__node *node, int index,
                    struct orr_tensor *tensor);

/* checkpoint.c: room to note that operands are read; noting them, of which there is room; the tape
 * does not record any more. */
enum orr_status orr__probe_reserve(struct orr_checkpoint *probe, int count) ORR_MUST_CHECK;
void orr__probe_note(struct orr_checkpoint *probe, struct orr_tensor *const *inputs, int count);
void orr__probe_end(struct orr_checkpoint *probe);
/* The tape of a recomputation of which a second part is left to do, or NULL. */
const struct orr_gradient_tape *orr__checkpoint_tape(const struct orr__custom *custom);
/* With the runtime: those that never ended. */
void orr__checkpoints_destroy(struct orr_runtime *runtime);

/* Ends recording, if it does. */
void orr__tape_stop(struct orr_gradient_tape *tape);
/* Lets go of what a node keeps. */
void orr__node_drop(struct orr_gradient_tape *tape, struct orr__node *node);
/* The same but for values that rules of the operands `wanted` need. */
void orr__node_keep_for(struct orr_gradient_tape *tape, struct orr__node *node, const bool *wanted);
/* Ends a walk, finished or not. */
void orr__walk_close(struct orr_gradient_tape *tape);
/* The same when the runtime goes, and tensors by themselves. */
void orr__walk_free(struct orr_gradient_tape *tape);

/* --- a step --- */

/* Arrays are as long as the node's operands and results, and at least ORR_INPUTS_MAX and
 * ORR_OUTPUTS_MAX. */
struct orr__backward {
    struct orr_gradient_tape *tape;
    struct orr__node *node;    /* NULL at the ends of the tape */
    struct orr_tensor **grads; /* of the results; NULL: none. Borrowed */
    bool *wanted;
    struct orr_tensor **out; /* of the operands; borrowed: the tape owns results */
    enum orr_status status;  /* of the first failure; nothing is done after it */
};

/* Gradients by a function of the user's. */
void orr__custom_apply(struct orr__backward *backward);
/* Zeros where the gradient of an operand or result of the step belongs. */
struct orr_tensor *orr__back_zeros(struct orr__backward *backward,
                                   const struct orr__traced *traced);
/* Tensors that were made before the host was blocked in this step: true, and `out` has them. Else
 * there is room for them, unless the status says that there is not. */
bool orr__back_recall(struct orr__backward *backward, struct orr_tensor **out, int count);
/* They have been made now; NULL among them is fine. The tape takes them. */
void orr__back_remember(struct orr__backward *backward, struct orr_tensor *const *made, int count);

/* Applies an operator; its results belong to the tape until the node is done, and are NULL after a
 * failure. `attributes` NULL: the defaults. `layout` as in orr_tensor_apply. Returns the first
 * result; the others go to out_outputs unless that is NULL. */
struct orr_tensor *orr__back_apply(struct orr__backward *backward, const struct orr_operator *op,
                                   struct orr_tensor *const *inputs, int input_count,
                                   const struct orr_attributes *attributes,
                                   const struct orr_layout *layout,
                                   struct orr_tensor **out_outputs);

/* --- autograd_deferred.c: gradients in two parts --- */

/* Is there something left to do for the node? Allocates room for it. */
enum orr_status orr__defer_reserve(struct orr__backward *backward) ORR_MUST_CHECK;
/* A node's step of the first part ends: remembers its results' gradients, and those of operands
 * that were computed too early. Keeps what the rest needs. */
void orr__defer_node(struct orr__backward *backward);
/* Lets go of what a node left to do. */
void orr__defer_drop_node(struct orr_gradient_tape *tape, struct orr__node *node);
/* The first part begins: room for what it leaves. */
enum orr_status orr__defer_open(struct orr_gradient_tape *tape) ORR_MUST_CHECK;
/* It ends: what the second one starts from. */
void orr__defer_settle(struct orr_gradient_tape *tape);
/* The second one begins: gradients of results, which it takes over unless the tape persists. */
void orr__defer_resume(struct orr_gradient_tape *tape);
/* Drops all of it, if there is something. */
void orr__defer_close(struct orr_gradient_tape *tape);
/* The same when the runtime goes, and tensors by themselves. */
void orr__defer_free(struct orr_gradient_tape *tape);

#endif
