/* Gradients: a tape follows what operators do to watched tensors, and is then played backwards.
 *
 *     struct orr_gradient_tape *tape;
 *     orr_gradient_tape_begin(runtime, &tape);
 *     orr_gradient_tape_watch(tape, w);
 *     ... operators: loss is made of w ...
 *     struct orr_tensor *dw;
 *     orr_gradient(tape, loss, &w, 1, &dw);       // dw has w's shape and dtype
 *     orr_gradient_tape_destroy(&tape);
 *
 * A gradient is a tensor, made by operators (those of the forward pass, and the ..._backward rows
 * of runtime/operator.h): it has a mesh and placements, takes simulated time, and can be fused and
 * captured like anything else. A tape records from begin to stop, or to its gradient: operators
 * that read a watched tensor, or what was made of one. Nothing is recorded while gradients are
 * computed, so there are no second derivatives.
 *
 * Any number of stopped tapes may wait to be played (the micro-batches of a pipeline), in any
 * order, and while another one records. Each knows its tensors by itself, so they may all have
 * watched the same parameters.
 *
 * Placements. A tensor and its gradient are two views of one whole: where a rank has a piece of the
 * tensor, it has that piece of the gradient. Along one mesh axis:
 *
 *     tensor   its gradient
 *     S(d)     S(d)
 *     P(sum)   R: every term counts once in the sum
 *     R        R, or P(sum) when the ranks used the tensor for different parts of the work and have
 *              a term each. The caller reduces it: R by all-reduce (data parallelism), S(0) by
 *              reduce-scatter (sharded parameters).
 *
 * So, for y = x w, dx = dy w^T, dw = x^T dy, and a bias b that broadcasts:
 *
 *     x        w        y        dx       dw       db
 *     R        R        R        R        R        R
 *     S(0)     R        S(0)     S(0)     P(sum)   P(sum)   data parallel
 *     R        S(1)     S(1)     P(sum)   S(1)     S(0)     tensor parallel, columns
 *     S(1)     S(0)     P(sum)   S(1)     S(0)     -        tensor parallel, rows: dy is R
 *
 * and for other operators: an operand that is sharded has a gradient sharded alike; a replicated
 * one (a weight of a norm, an embedding's table, what broadcasts) beside a sharded one has P(sum);
 * a sum, a mean or cross_entropy over a sharded dimension gives P(sum), takes R, and hands S(d)
 * on. A redistribution hands the gradient on as it is (from another mesh it comes back to that of
 * the tensor, P(sum) along an axis that both have): gathering S(0) to R before use makes P(sum)
 * into S(0) by a reduce-scatter. A shift shifts it back.
 *
 * Partial gradients are added up as they are, over all uses of a tensor, and reduced once: when an
 * operator other than neg, scale, cast, transpose, reshape or a redistribution made the tensor, or
 * where a use gave R. Three products that read one activation cost one all-reduce.
 *
 * Memory: a tape keeps what gradients need and no more (relu: its result; add: nothing), and lets
 * it go as it is played. A tape that persists keeps it, and can be played again.
 *
 * Regions (runtime/region.h): a compiled function may hold a whole tape, from begin to destroy. To
 * call one while a tape records is ORR_INVALID: a replay runs no operators that a tape could see.
 *
 * Hosts: one tape at a time records for each host, that host's calls. ORR_BLOCKED from a
 * gradient means: repeat the call with the same arguments; it goes on where it was.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_AUTOGRAD_H
#define ORR_RUNTIME_AUTOGRAD_H

#include "runtime/tensor.h"

struct orr_gradient_tape;

/* Starts recording the current host's operators. ORR_INVALID if it has a tape that records already;
 * ORR_NO_MEMORY. Owned by the caller. */
enum orr_status orr_gradient_tape_begin(struct orr_runtime *runtime,
                                        struct orr_gradient_tape **out_tape) ORR_MUST_CHECK;

/* Follows a tensor of floats from now on, whatever other tapes do; twice is once. It is not kept:
 * destroying it is fine. ORR_INVALID for another dtype or a tape that doesn't record any more;
 * ORR_NO_MEMORY. */
enum orr_status orr_gradient_tape_watch(struct orr_gradient_tape *tape,
                                        struct orr_tensor *tensor) ORR_MUST_CHECK;

/* Ends recording: another tape can begin, and this one can be played later. Stopping twice is
 * fine. */
void orr_gradient_tape_stop(struct orr_gradient_tape *tape);

/* Stops and resumes recording, for work that has no part in the gradient. Pauses nest. */
void orr_gradient_tape_pause(struct orr_gradient_tape *tape, bool paused);

/* Gradients don't use the tape up. */
void orr_gradient_tape_persist(struct orr_gradient_tape *tape);

/* Bytes that the tape keeps for its gradients, over all devices: activation memory. Memory that
 * several operators need, or tensors share, counts once; that of watched tensors does not count. */
uint64_t orr_gradient_tape_bytes(const struct orr_gradient_tape *tape);
/* The same on one device: of the pieces that it has. */
uint64_t orr_gradient_tape_bytes_on(const struct orr_gradient_tape *tape, uint32_t device);

/* Stops, frees and nulls; accepts NULL. */
void orr_gradient_tape_destroy(struct orr_gradient_tape **tape);

/* Gradients of `loss`, which has one element, for `wanted_count` tensors that the tape follows:
 * watched ones, or what was made of them. out_gradients[i] is owned by the caller and has the shape
 * and dtype of wanted[i]; zeros if the loss does not depend on it. The tape stops recording and,
 * unless it persists, is used up, also by a failure. ORR_INVALID for a tensor that it doesn't
 * follow, a loss of several elements, a used tape (such a call changes nothing); ORR_UNSUPPORTED
 * for an operator without a gradient, named; the errors of operators and redistributions. On
 * failure all are NULL. */
enum orr_status orr_gradient(struct orr_gradient_tape *tape, struct orr_tensor *loss,
                             struct orr_tensor *const *wanted, int wanted_count,
                             struct orr_tensor **out_gradients) ORR_MUST_CHECK;

/* A tensor to start from, and the gradient that it has; NULL: all elements are `value`, and 0 there
 * means 1. */
struct orr_gradient_seed {
    struct orr_tensor *tensor, *gradient;
    double value; /* a loss scale */
};

/* The same from several tensors of any shape with given gradients: a stage of a pipeline starts
 * from what the next one sends. A seed has its tensor's shape and dtype. */
enum orr_status orr_gradient_from(struct orr_gradient_tape *tape,
                                  const struct orr_gradient_seed *seeds, int seed_count,
                                  struct orr_tensor *const *wanted, int wanted_count,
                                  struct orr_tensor **out_gradients) ORR_MUST_CHECK;

/* The same in two parts, for a pipeline without bubbles (Qi et al., "Zero Bubble Pipeline
 * Parallelism", ICLR 2024): first the gradients of a stage's inputs, for which the stage before it
 * waits, then, when there is time, those of its weights. The first part plays the tape only as far
 * as the inputs need: of y = x w, dx and not dw. The second one does the rest and nothing twice, so
 * that both together are the work of one orr_gradient_from, with the same numbers. Between them
 * the tape keeps gradients of results and operands that the rest needs; orr_gradient_tape_bytes
 * counts them.
 *
 * Inputs and weights: any tensors that the tape follows, but a weight must not be one that was
 * made of an input: its gradient was needed on the way. Errors as orr_gradient_from; ORR_INVALID
 * for weights without inputs before them, or a second time. A tape that persists keeps what is
 * deferred until it is played from seeds again, so that weights can be asked for in portions. */
enum orr_status orr_gradient_inputs(struct orr_gradient_tape *tape,
                                    const struct orr_gradient_seed *seeds, int seed_count,
                                    struct orr_tensor *const *inputs, int input_count,
                                    struct orr_tensor **out_gradients) ORR_MUST_CHECK;
enum orr_status orr_gradient_weights(struct orr_gradient_tape *tape,
                                     struct orr_tensor *const *weights, int weight_count,
                                     struct orr_tensor **out_gradients) ORR_MUST_CHECK;

/* Adds a gradient to a sum over several passes: *sum becomes *sum + gradient, or another handle of
 * `gradient` if it is NULL. Two partial ones stay partial, so that a step of several passes is
 * reduced once; if only one is, it is reduced first. The old *sum is destroyed; on failure it is as
 * it was. ORR_BLOCKED: repeat the call; nothing is reduced twice. */
enum orr_status orr_gradient_accumulate(struct orr_tensor **sum,
                                        struct orr_tensor *gradient) ORR_MUST_CHECK;

#endif
