/* Operators: one table row for each, with its shape rule, its cost and its arithmetic.
 *
 * An operator is metadata: it maps operands (shape and dtype) and attributes to result operands,
 * says what that costs, and knows how to compute it on host memory. Simulated devices and CPU
 * threads run the same `compute`, so their numbers are equal bit for bit; the CUDA backend finds
 * its kernel by the operator's name. The Lua binding, the cost tests and the conformance suite all
 * walk this table, so adding a row adds the operator everywhere.
 *
 *     const struct orr_operator *op = orr_operator_find("matmul");
 *     struct orr_operand_info in[2] = {{ORR_DTYPE_BF16, x_shape}, {ORR_DTYPE_BF16, w_shape}};
 *     struct orr_operand_info out[1];
 *     struct orr_attributes attributes;
 *     orr_operator_defaults(op, &attributes);
 *     if (op->infer(in, 2, &attributes, out, &error) == ORR_OK)
 *         cost = op->cost(in, 2, &attributes, out);
 *
 * All tensors are dense and row-major. Sums are taken in a fixed order, so that results do not
 * depend on threads: matrix products in f32 for f16, bf16 and f32 operands (f64 for f64), other
 * sums in f64, integers in int64 (wrapping around). A result is rounded once. Matrix products call
 * OpenBLAS with one thread; see orr_gemm_single_thread in runtime/operators/gemm.h.
 *
 * The rows. [] = optional operand; attribute=default; an attribute without a default is required.
 * Operands have equal dtypes unless said otherwise; "floats" are f64, f32, f16 and bf16.
 *
 *   matmul         x [..., m, k], weight [..., k, n]   transpose_a=false transpose_b=false; batch
 *                  dimensions broadcast; numbers
 *   linear         x [..., in], weight [out, in], [bias [out]]; floats
 *   add sub mul div maximum    x, y, broadcast by numpy's rule; numbers (div: floats)
 *   relu neg       x; numbers
 *   gelu silu sigmoid exp log tanh sqrt    x; floats. gelu is the erf form
 *   scale          x    alpha; floats
 *   dropout        x    p=0.5 seed=0 global_shape=[] starts=[]; floats
 *   softmax        x [..., s, t]    causal=false; floats; along the last dimension, like the two
 *                  below. causal: row i sees columns 0 .. i + t - s, the others are 0; x may be
 *                  scores whose rows are sharded
 *   layernorm      x, [weight], [bias]    eps=1e-5
 *   rmsnorm        x, [weight]    eps=1e-5
 *   rope           x [..., s, d]    offset=0 theta=10000; half-split pairs
 *   sdpa           q [b, h, s, d], k [b, hkv, t, d], v [b, hkv, t, dv]    causal=false scale=0
 *                  (0: 1/sqrt(d)); h a multiple of hkv; causal: query i sees keys 0 .. i + t - s
 *   sum mean max argmax    x    dim=ORR_DIM_ALL keepdim=false; argmax is i64, sum of integers too;
 *                  mean has total=0 too: what to divide by, 0 for the number of elements
 *   embedding      indices (i32 or i64) [...], weight [rows, width] of floats; a weight whose rows
 *                  are sharded gives partial sums: a rank has zeros for rows that it has not
 *   cross_entropy  logits [..., classes] of floats, targets (i32 or i64) [...] -> mean, f32 (f64
 *                  for f64)    total=0: what to divide by, 0 for the number of targets
 *   conv2d         x [n, c, h, w], weight [o, c / groups, kh, kw], [bias [o]]    stride=1 padding=0
 *                  groups=1; zeros around x; floats
 *   groupnorm      x [n, c, ...], [weight [c]], [bias [c]]    groups=32 eps=1e-5; floats
 *   cast           x    dtype
 *   transpose      x    perm=[] (empty: the last two change places)
 *   slice          x    starts=[] ends=[]; shorter lists leave the rest whole, negative ones count
 *                  from the end, an end of INT64_MAX is the end
 *   concat         x, ... up to 16    dim=0
 *   reshape        x    shape (one -1 allowed)
 *   zeros ones     shape dtype=f32
 *   full           shape dtype=f32 value
 *   arange         start=0 end step=1 dtype=i64
 *   rand randn     shape dtype=f32 seed=0 global_shape=[] starts=[]; uniform in [0, 1), and normal.
 *                  An element depends on the seed and its index only, the same on every machine.
 *                  With both lists, the part at `starts` of a tensor of global_shape: shards of
 *                  ranks are the parts of one tensor. The same holds for dropout's mask.
 *
 * What language models add, with the gradients of these rows:
 *
 *   gather_last    x [..., n], indices [..., k] -> [..., k]: elements of the last dimension; x
 *                  sharded along it gives partial sums             (gather_last.c)
 *   scatter_last   grad [..., k], indices [..., k] -> [..., size]    size shards=[]: its gradient
 *   topk           x [..., n] -> values, indices (i64) [..., k]    k; the largest first, of equal
 *                  ones that with the lower index
 *   dropout_mask   x -> y, mask (bool)    p=0.5 seed=0; y as dropout's       (dropout_mask.c)
 *   dropout_mask_backward    grad, mask    p=0.5
 *   moe_dispatch   x [b, s, h], indices [b, s, k], [weights [b, s, k]]    experts capacity
 *                  groups=[] -> [experts, gb, gs, capacity, h]: tokens in the slots of their
 *                  experts, within each of gb x gs groups ([gb, gs]; [] is one)    (experts.c)
 *   moe_combine    y [experts, gb, gs, capacity, h], indices, [weights] -> [b, s, h]: and back
 *   moe_dot        x [b, s, h], y, indices -> [b, s, k]: the gradient of weights
 *   sdpa_block     q, k, v as sdpa's -> out, lse [b, h, s] f32 (f64 for f64)    causal=false
 *                  scale=0 blocks=1 shift=0; each block of queries sees one block of the keys,
 *                  which was moved by `shift` blocks: a step of ring attention (attention_block.c)
 *   sdpa_merge     out_a, lse_a, out_b, lse_b -> out, lse: of both sets of keys
 *   sdpa_block_backward    grad, q, k, v, out, lse -> dq, dk, dv    as sdpa_block; out and lse of
 *                  all keys. These three have no gradient on a tape
 *   moe_load       indices [...] -> [experts] f32    experts; counts, exact up to 2^24
 *
 * What training adds; runtime/autograd.h applies the first group. `grad` is the gradient of the
 * forward operator's result; sources and costs are in the files named.
 *
 *   relu_backward gelu_backward silu_backward    grad, x           (backward_pointwise.c)
 *   tanh_backward sigmoid_backward    grad, y: the forward operator's result
 *   maximum_backward   grad, x - y: the part of x
 *   softmax_backward   grad, y = softmax(x)                        (backward_norm.c)
 *   layernorm_backward rmsnorm_backward    grad, x, [weight]    eps=1e-5
 *   layernorm_backward_weight    grad, x -> of weight, of bias    eps=1e-5
 *   rmsnorm_backward_weight      grad, x -> of weight    eps=1e-5
 *   rope_backward      grad    offset=0 theta=10000                (backward_attention.c)
 *   sdpa_backward      grad, q, k, v, out -> of q, of k, of v    causal=false scale=0
 *   matmul_backward_weight    x [..., m], y [..., n] -> [m, n]    batch=0: leading dimensions that
 *                      the result keeps                            (backward_move.c)
 *   pad                x    before=[] after=[]: zeros around x
 *   unbroadcast        x    dims leading=0: sum over several dimensions (backward_reduction.c)
 *   expand             x    shape dims=[] shards=[]: repeated along several dimensions
 *   max_backward       grad, x    dim=ORR_DIM_ALL keepdim=false
 *   embedding_backward      grad [..., width], indices [...] -> [rows, width]    rows shards=[]
 *   cross_entropy_backward  grad [], logits, targets, [lse]    total; with the rows' log(sum(exp))
 *                      the classes may be sharded                  (backward_gather.c)
 *
 *   conv2d_backward_input     grad, weight    stride=1 padding=0 groups=1 size: [h, w] of x
 *   conv2d_backward_weight    grad, x    stride=1 padding=0 groups=1 size: [kh, kw]
 *                      (backward_conv.c)
 *   groupnorm_backward        grad, x, [weight]    groups=32 eps=1e-5            (groupnorm.c)
 *   groupnorm_backward_weight grad, x -> of weight, of bias    groups=32 eps=1e-5
 *
 * Quantized weights (quantize.c); q is i8, f8e4m3 or f8e5m2, scale is f32, one for each row:
 *
 *   quantize           x [..., k] -> q [..., k], scale [...]    dtype=i8
 *   dequantize         q [..., k], scale [...]    dtype=f32
 *   linear_quantized   x [..., m, in] of floats, q [out, in], scale [out], [bias [out]], as linear
 *
 * Serving (serving.c); positions, lengths and slots are i32 or i64:
 *
 *   kv_append          cache [n, h, capacity, d], new [b, h, s, d], positions [b], [slots [b]] ->
 *                      the cache, changed in place: the operand can't be used any more
 *   sdpa_decode        q [b, h, s, d], k [n, hkv, capacity, d], v, lengths [b], [slots [b]]
 *                      scale=0 keys=0 (for the cost: keys of all sequences; 0: their capacity)
 *   rope_at            x [b, ..., s, d], positions [b]    theta=10000
 *
 *   sgd                param, grad -> param    lr weight_decay=0   (update.c)
 *   sgd_momentum       param, grad, momentum -> param, momentum    lr momentum=0.9 weight_decay=0
 *                      nesterov=false
 *   adamw              param, grad, mean, square -> param, mean, square    lr beta1=0.9 beta2=0.999
 *                      eps=1e-8 weight_decay=0.01 step=1
 *   adamw_master       master, grad, mean, square -> param in grad's dtype, master, mean, square
 *   count_nonfinite    x -> how many elements are infinite or NaN, f32
 *
 * In place: the first result of an operator with `in_place` is its first operand's memory, in which
 * the kernel changes something. The runtime hands the memory over: the operand's handle can't be
 * used afterwards, so nobody sees two versions of a tensor in one memory, and what read the old one
 * on other streams (copies to the host, redistributions) is waited for. It takes a tensor that has
 * its memory for itself: one that a reshape, a tape or a compiled function also holds is refused.
 * After a failure the operand stays usable, but kernels that were launched before have changed it.
 *
 * A result may not overlap an operand, except that a pointwise operator may write over an operand
 * of the result's shape, and an optimizer's result over the operand that it replaces.
 *
 * Threads: the table is constant; `compute` is safe from any thread on distinct results. */
#ifndef ORR_RUNTIME_OPERATOR_H
#define ORR_RUNTIME_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cost.h"
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/shape.h"

enum {
    ORR_INPUTS_MAX = 16, /* operands of one operator; concat is the only one that takes many */
    ORR_OUTPUTS_MAX = 4,
    ORR_ATTRIBUTES_MAX = 6,
    ORR_DIM_ALL = -100 /* reductions: the attribute `dim` for "over all dimensions", the default */
};

/* Shape and dtype of one operand. */
struct orr_operand_info {
    enum orr_dtype dtype;
    struct orr_shape shape;
};

/* One operand with its memory. `data` is aligned to its element size. */
struct orr_tensor_view {
    enum orr_dtype dtype;
    struct orr_shape shape;
    void *data;
};

enum orr_attribute_kind {
    ORR_ATTRIBUTE_INT,   /* `integer` */
    ORR_ATTRIBUTE_BOOL,  /* `integer`, 0 or 1 */
    ORR_ATTRIBUTE_REAL,  /* `real` */
    ORR_ATTRIBUTE_DTYPE, /* `integer`, an enum orr_dtype */
    ORR_ATTRIBUTE_SHAPE  /* `shape`: a list of integers (also permutations, starts and ends) */
};

/* What an attribute means for a rank that has pieces of the tensors: how the runtime sets it before
 * the kernel's cost and compute see it. Numbers are about one dimension, lists about all. */
enum orr_attribute_local {
    ORR_LOCAL_SAME,   /* the same on every rank */
    ORR_LOCAL_OFFSET, /* the author's number, plus where the piece starts */
    ORR_LOCAL_PIECE,  /* the author's size of the whole becomes that of the piece */
    ORR_LOCAL_SHARE,  /* the author's number of equal parts becomes that of the piece, 1 or more */
    ORR_LOCAL_START,  /* the runtime's own: where the piece starts in the whole */
    ORR_LOCAL_WHOLE   /* the runtime's own: the size of the whole; 0, or an empty list, where the
                       * piece is all of it */
};

enum { ORR_OF_RESULT = -1 };

/* Description of one attribute: position in the table = position in struct orr_attributes. */
struct orr_attribute_spec {
    const char *name; /* NULL ends the list */
    enum orr_attribute_kind kind;
    bool required; /* else `integer` and `real` below are the default */
    int64_t integer;
    double real;
    enum orr_attribute_local local;
    int of;  /* unless SAME: of which operand's piece, or ORR_OF_RESULT */
    int dim; /* of a number: along which dimension, negative from the end */
};

struct orr_attribute {
    int64_t integer;
    double real;
    struct orr_shape shape;
};

struct orr_attributes {
    struct orr_attribute values[ORR_ATTRIBUTES_MAX];
};

/* How an operator's traffic and fusion behave. */
enum orr_operator_class {
    ORR_OPERATOR_GEMM,      /* matmul, linear: epilogues may be fused into it */
    ORR_OPERATOR_POINTWISE, /* result element i needs operand elements i only: chains are fused */
    ORR_OPERATOR_NORM,      /* softmax, layernorm, rmsnorm: along the last dimension */
    ORR_OPERATOR_REDUCTION,
    ORR_OPERATOR_ATTENTION,
    ORR_OPERATOR_GATHER, /* embedding, cross-entropy, experts: data-dependent reads */
    ORR_OPERATOR_MOVE,   /* cast, transpose, slice, concat: no arithmetic */
    ORR_OPERATOR_ALIAS,  /* reshape: the result is the operand's memory; no kernel, no cost */
    ORR_OPERATOR_SOURCE, /* zeros, full, arange, randn: shape and dtype are attributes */
    ORR_OPERATOR_UPDATE, /* optimizers, dropout with a mask: results element by element */
};

struct orr_operator {
    const char *name; /* "matmul": unique, lower case, underscores */
    enum orr_operator_class class;
    bool in_place; /* see above */
    int inputs_min, inputs_max;
    int outputs;
    const char *const *input_names;              /* inputs_max names, for messages: "x", "weight" */
    const struct orr_attribute_spec *attributes; /* ends with a NULL name */

    /* Shapes and dtypes of the results. ORR_INVALID names the operator, the operands with their
     * shapes and dtypes, and what was expected: "matmul: x [8, 4096] bf16 and weight [4095, 4096]
     * bf16: inner dimensions 4096 and 4095 differ". */
    enum orr_status (*infer)(const struct orr_operand_info *inputs, int input_count,
                             const struct orr_attributes *attributes,
                             struct orr_operand_info *out_outputs, struct orr_error *error);

    /* Cost for operands that infer accepted. Never fails; 0 is allowed. */
    struct orr_cost (*cost)(const struct orr_operand_info *inputs, int input_count,
                            const struct orr_attributes *attributes,
                            const struct orr_operand_info *outputs);

    /* Computes the results on host memory. `memory` gives scratch space. Returns ORR_NO_MEMORY, or
     * ORR_INVALID for values out of range (an embedding index), named in *error. NULL for ALIAS. */
    enum orr_status (*compute)(const struct orr_tensor_view *inputs, int input_count,
                               const struct orr_attributes *attributes,
                               const struct orr_tensor_view *outputs,
                               const struct orr_memory *memory, struct orr_error *error);
};

/* The table, `orr_operator_count()` rows, in a fixed order. */
const struct orr_operator *orr_operator_at(int index);
int orr_operator_count(void);

/* The operator of a name, or NULL (orr_nearest_name over the table helps with messages). */
const struct orr_operator *orr_operator_find(const char *name);

/* Fills every attribute with its default (required ones with 0). */
void orr_operator_defaults(const struct orr_operator *op, struct orr_attributes *out_attributes);

/* Index of an attribute by name, or -1. */
int orr_operator_attribute(const struct orr_operator *op, const char *name);

#endif
