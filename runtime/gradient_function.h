/* Gradients that the user's own functions compute, and recomputation.
 *
 * orr_gradient_custom tells the tape of the current host that outputs were made of inputs by work
 * that it did not see, and which function knows the gradient:
 *
 *     orr_gradient_pause(runtime, host, true);
 *     ... operators: y is made of x, by the way a tensor q that the gradient will need ...
 *     orr_gradient_pause(runtime, host, false);
 *     struct orr_gradient_function function = {.name = "mine", .backward = mine, .context = it};
 *     status = orr_gradient_custom(runtime, &function, &x, 1, &y, 1, &q, 1);
 *
 * A checkpoint keeps nothing of a part of the forward pass but what goes into it: when its gradient
 * is asked for, the part runs again (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
 * 2016).
 *
 *     orr_checkpoint_begin(runtime, &checkpoint);
 *     ... operators: y is made of x and of weights ...
 *     struct orr_recomputation again = {.name = "block", .run = block, .context = it};
 *     status = orr_checkpoint_end(&checkpoint, &again, &y, 1, NULL, 0);
 *
 * What goes into it is found by itself: every tensor that the tape follows and an operator in
 * between read. Of gradients in two parts, the first one runs it again, and keeps what the second
 * one needs.
 *
 * Threads: as the runtime. The functions are called from within orr_gradient and its like. */
#ifndef ORR_RUNTIME_GRADIENT_FUNCTION_H
#define ORR_RUNTIME_GRADIENT_FUNCTION_H

#include "runtime/autograd.h"

/* What is asked of a gradient function. */
enum orr_gradient_part {
    ORR_GRADIENT_WHOLE,  /* the only call */
    ORR_GRADIENT_INPUTS, /* of orr_gradient_inputs; another one, for other inputs, may follow */
    ORR_GRADIENT_WEIGHTS /* that other one, of orr_gradient_weights */
};

/* Work's gradient. */
struct orr_gradient_function {
    const char *name; /* for messages; borrowed for the call */
    /* Sets out_gradients[i], owned by the caller, for every input with wanted[i], in its shape and
     * dtype; NULL means zero. gradients[i] is that of output i, zeros if the loss does not depend
     * on it, borrowed for the call; NULL for an output that is no float. They lie where the outputs
     * do, R for P. Operators may run, and tapes of its own be begun and played. On failure (with
     * the runtime's error set) all must be NULL. ORR_BLOCKED means that the host that asked has to
     * wait: it repeats its call, and so this function is called again, with the same arguments. */
    enum orr_status (*backward)(void *context, enum orr_gradient_part part,
                                struct orr_tensor *const *gradients, const bool *wanted,
                                struct orr_tensor **out_gradients);
    /* The context is not needed any more; may be NULL. `ending`: the runtime goes, and its tensors
     * by themselves; don't destroy any. */
    void (*release)(void *context, bool ending);
    void *context; /* owned by the tape from the call on, also if that fails */
    bool raw;      /* gradients come as they are: NULL for none, of R also partial sums */
    /* Gradients in two parts call it twice, each time for some inputs; else once, in the first
     * part, for all. */
    bool split;
};

/* Records it on the current host's tape, if that follows any of the inputs, and releases the
 * context at once if not. `kept` are further tensors that the context will need: the tape holds
 * them as it does operands, and counts their bytes. Outputs of floats are followed from now on.
 * ORR_INVALID for an output that the tape follows already; ORR_NO_MEMORY. */
enum orr_status orr_gradient_custom(struct orr_runtime *runtime,
                                    const struct orr_gradient_function *function,
                                    struct orr_tensor *const *inputs, int input_count,
                                    struct orr_tensor *const *outputs, int output_count,
                                    struct orr_tensor *const *kept, int kept_count) ORR_MUST_CHECK;

/* Pauses whatever tape of a host records, or will; pauses nest. */
void orr_gradient_pause(struct orr_runtime *runtime, uint32_t host, bool paused);

/* --- recomputation --- */

struct orr_checkpoint;

struct orr_recomputation {
    const char *name; /* for messages; borrowed for the call */
    /* Does the work again, with a tape recording: sets as many outputs as there were, of the same
     * shapes, dtypes and placements, owned by the caller. It must read the same tensors. On failure
     * all must be NULL; ORR_BLOCKED as above. */
    enum orr_status (*run)(void *context, struct orr_tensor **outputs);
    void (*release)(void *context, bool ending); /* as above */
    void *context;
};

/* From now on the current host's tape records nothing, but notes what of its tensors is read.
 * Without a tape that records, or within another checkpoint, it does nothing. */
enum orr_status orr_checkpoint_begin(struct orr_runtime *runtime,
                                     struct orr_checkpoint **out_checkpoint) ORR_MUST_CHECK;

/* The part is over; destroys and nulls the checkpoint, also if that fails. The context becomes the
 * tape's, or is released at once if the part read nothing that the tape follows. `kept`: further
 * tensors that the context needs. The gradient is ORR_INVALID if the recomputation makes other
 * outputs, or does not read what the part read (a parameter that was replaced meanwhile). */
enum orr_status orr_checkpoint_end(struct orr_checkpoint **checkpoint,
                                   const struct orr_recomputation *again,
                                   struct orr_tensor *const *outputs, int output_count,
                                   struct orr_tensor *const *kept, int kept_count) ORR_MUST_CHECK;

/* The part failed: as if it had not been. Accepts NULL. */
void orr_checkpoint_cancel(struct orr_checkpoint **checkpoint);

#endif
