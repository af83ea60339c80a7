/* Kernels of moe_dispatch, moe_combine, moe_dot and moe_load. See kernels.h for how a family is
 * written, and runtime/operators/experts.c for what is computed.
 *
 * A pair is a token and one of its k experts; its key is expert * groups + group. Pairs sorted by
 * key (order.h) are in the order in which they take the slots of an expert, so that slot s of key e
 * is the pair order[starts[e] + s], if there is one: row e * capacity + s of the slots. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_EXPERTS_H
#define ORR_RUNTIME_CUDA_KERNELS_EXPERTS_H

#include <stdint.h>

#include "runtime/cuda/kernels/fault.h"

/* keys of pairs; that of an index out of range is experts * gb * gs, behind all others. */
struct orr__k_expert_keys {
    const void *indices;
    int64_t *keys;
    struct orr__cuda_fault *fault;
    int64_t pairs, k, s;               /* of tokens [b, s] */
    int64_t group_rows, group_columns; /* tokens of a group */
    int64_t experts, gb, gs;
    int32_t index_dtype;
};

/* slots[pair] = its row of slots, or -1 if it is dropped. */
struct orr__k_expert_slots {
    const int64_t *keys, *order, *starts;
    int64_t *slots;
    int64_t pairs, capacity, key_count;
};

/* to[slot] = x of its token, times its weight; zeros in free slots. One block to a slot. */
struct orr__k_expert_dispatch {
    const void *x, *weights; /* the latter may be NULL */
    const int64_t *order, *starts;
    void *to;
    int64_t slots, capacity, k, h;
    int32_t dtype;
};

/* to[token] = sum of its slots' rows, times their weights. One block to a token. */
struct orr__k_expert_combine {
    const void *y, *weights; /* the latter may be NULL */
    const int64_t *slots;
    void *to;
    int64_t tokens, k, h;
    int32_t dtype;
};

/* to[pair] = product of its token's row and its slot's row. One block to a pair. */
struct orr__k_expert_dot {
    const void *x, *y;
    const int64_t *slots;
    void *to;
    int64_t pairs, k, h;
    int32_t dtype;
};

/* load[expert] = how many indices are that one. One block to an expert. */
struct orr__k_expert_load {
    const void *indices;
    float *load;
    struct orr__cuda_fault *fault;
    int64_t count, experts;
    int32_t index_dtype;
};

#define ORR__CUDA_KERNELS_EXPERTS(X)                                                               \
    X(experts, expert_keys, struct orr__k_expert_keys)                                             \
    X(experts, expert_slots, struct orr__k_expert_slots)                                           \
    X(experts, expert_dispatch, struct orr__k_expert_dispatch)                                     \
    X(experts, expert_combine, struct orr__k_expert_combine)                                       \
    X(experts, expert_dot, struct orr__k_expert_dot)                                               \
    X(experts, expert_load, struct orr__k_expert_load)

#endif
