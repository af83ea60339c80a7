/* What the attention rows share: shapes, checks, and the walk over heads, blocks and queries.
 *
 *     q [b, h, s, d], k [b, hkv, t, d], v [b, hkv, t, dv] -> out [b, h, s, dv]
 *
 * Query head i reads key-value head i / (h / hkv). sdpa is one block; sdpa_block cuts the lengths
 * of queries and keys into as many blocks, and block r of the queries sees block r of the keys,
 * which a ring brought there from elsewhere:
 *
 *     shift 1 of 4        queries 0 1 2 3
 *                         keys    3 0 1 2       with a causal mask only those at or before r
 *
 * Arithmetic is in f32 (f64 for f64), softmax's sums in f64; scores of at most 64 queries are held
 * at a time.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_ATTENTION_INTERNAL_H
#define ORR_RUNTIME_ATTENTION_INTERNAL_H

#include "runtime/operators/operators_internal.h"

struct orr__attention {
    int64_t b, h, hkv, d, dv;
    int64_t s, t;   /* of one block: queries, keys */
    int64_t blocks; /* here: q has blocks * s rows for each head */
    bool causal;
    double scale;
    int64_t first, total, shift; /* blocks: number of the first one here, of all ranks; how far the
                                  * keys were moved */
};

/* One block, q and k whole. */
struct orr__attention orr__attention_of(const struct orr_shape *q, const struct orr_shape *k,
                                        const struct orr_shape *v, bool causal, double scale);

/* Checks that q, k and v, operands `at` and the two behind it, fit together: ranks, dtypes and
 * dimensions, but not their lengths. */
enum orr_status orr__attention_check(const struct orr_operator *op,
                                     const struct orr_operand_info *inputs, int input_count, int at,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* Twice the number of pairs of a query and a key that it sees, for one head; blocks that see
 * nothing count 0. A causal block has s t - s^2 / 2 pairs, half of the square at the diagonal. */
uint64_t orr__attention_twice_pairs(const struct orr__attention *shape);
/* Blocks that see something. */
int64_t orr__attention_seeing(const struct orr__attention *shape);

/* `inputs` are q, k, v; `lse` [b, h, s] takes the logarithms of the sums of exp(score), or is NULL.
 * Queries that see nothing get 0 and -infinity. */
enum orr_status
orr__attention_forward(const struct orr_operator *op, const struct orr__attention *shape,
                       const struct orr_tensor_view *inputs, const struct orr_tensor_view *out,
                       const struct orr_tensor_view *lse, const struct orr_memory *memory,
                       struct orr_error *error) ORR_MUST_CHECK;

/* `inputs` are grad, q, k, v, out; `outputs` dq, dk, dv. With `lse`, that of all keys,
 * probabilities are exp(score - lse); with NULL the keys here are all there are. */
enum orr_status
orr__attention_backward(const struct orr_operator *op, const struct orr__attention *shape,
                        const struct orr_tensor_view *inputs, const struct orr_tensor_view *lse,
                        const struct orr_tensor_view *outputs, const struct orr_memory *memory,
                        struct orr_error *error) ORR_MUST_CHECK;

#endif
