/* Kernels of emulated collectives: all ranks' operands are in the memory of one GPU. Pointers of
 * all ranks come by value in the argument, so that a captured launch keeps them; a kernel's
 * argument has 32,764 bytes at most (CUDA C++ Programming Guide 12.1 and later, "__global__
 * function argument processing"). See kernels.h for how a family is written. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_COLLECTIVE_H
#define ORR_RUNTIME_CUDA_KERNELS_COLLECTIVE_H

#include <stdint.h>

/* Few: what a launch usually has; many: the most. */
enum {
    ORR__K_RANKS_FEW = 16,
    ORR__K_RANKS_MANY = 1024,
    ORR__K_SEGMENTS_FEW = 64,
    ORR__K_SEGMENTS_MANY = 1024
};

/* A rank's part in a reduction. */
struct orr__k_term {
    const void *in;
    void *out; /* NULL: gets nothing. Of a scattered one: where element `begin` goes */
    uint64_t begin;
};

/* out[i] = reduction over ranks, in their order, of in[i], for `count` elements; to every rank that
 * has an `out`, or, `scattered`, to the one rank in whose [begin, next begin) i is. An out may be
 * the same rank's in, or its piece of it. */
struct orr__k_reduction {
    uint64_t count;
    uint32_t ranks;
    int32_t dtype, reduction; /* enum orr_dtype, orr_reduction */
    int32_t scattered;
};

struct orr__k_reduce_few {
    struct orr__k_reduction reduction;
    struct orr__k_term terms[ORR__K_RANKS_FEW];
};

struct orr__k_reduce_many {
    struct orr__k_reduction reduction;
    struct orr__k_term terms[ORR__K_RANKS_MANY];
};

/* Bytes from one place to another; segments of a launch don't overlap. */
struct orr__k_segment {
    void *to;
    const void *from;
    uint64_t bytes;
};

struct orr__k_carry_few {
    uint32_t count, pad;
    struct orr__k_segment segments[ORR__K_SEGMENTS_FEW];
};

struct orr__k_carry_many {
    uint32_t count, pad;
    struct orr__k_segment segments[ORR__K_SEGMENTS_MANY];
};

/* In place, what NCCL has not: sums of integers become averages, cut towards zero; bytes that are
 * not 0 become 1 (bool). */
struct orr__k_settle {
    void *x;
    uint64_t count;
    uint32_t ranks;
    int32_t dtype;
};

#define ORR__CUDA_KERNELS_COLLECTIVE(X)                                                            \
    X(collective, reduce_few, struct orr__k_reduce_few)                                            \
    X(collective, reduce_many, struct orr__k_reduce_many)                                          \
    X(collective, carry_few, struct orr__k_carry_few)                                              \
    X(collective, carry_many, struct orr__k_carry_many)                                            \
    X(collective, settle, struct orr__k_settle)

#endif
