/* The engine of pointwise operators: a short program of stages, run block by block.
 *
 *     operands in memory            slots, one block each                           result
 *     x  bf16 [4096, 4096] --load-> 0: f32[512] --+
 *     b  bf16 [4096]       --load-> 1: f32[512] --+-> stage 0: add,  to bf16 -> slot 2
 *                                                     stage 1: relu, to bf16 -> slot 3 --> y
 *
 * A block is converted to the type it is computed in (f32 for f16, bf16 and f32; f64; i64 for
 * integers), and each stage's result is rounded to the tensors' dtype before the next one reads it.
 * An unfused operator is the program with one stage, so fusion cannot change a number.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_POINTWISE_INTERNAL_H
#define ORR_RUNTIME_POINTWISE_INTERNAL_H

#include "runtime/operators/operators_internal.h"

enum {
    ORR__BLOCK = 512, /* elements; a block of f32 is 2 KiB, so a program's blocks stay in cache */
    ORR__STAGES_MAX = 16,
    ORR__SLOTS_MAX = 33 /* 16 operands, a matrix product's result, 16 stages */
};

/* What a kernel gets: ORR__BLOCK elements of each operand (zeros beyond `count`). It may compute
 * all of them or the first `count`. */
struct orr__block {
    const void *a, *b;
    void *out; /* never overlaps a or b */
    int count;
    int64_t first;                 /* row-major index of the block's first element in the result */
    const struct orr_shape *shape; /* of the result */
    const struct orr_attributes *attributes;
};

typedef void (*orr__kernel)(const struct orr__block *block);

struct orr__pointwise {
    const struct orr_operator *op;
    unsigned dtypes; /* a set of ORR__... */
    int flops;       /* for each element; see pointwise.c for the convention */
    orr__kernel f32, f64, i64;
};

/* The kernels of a pointwise operator, NULL for any other. */
const struct orr__pointwise *orr__pointwise_of(const struct orr_operator *op);
/* The same among those of backward_pointwise.c. */
const struct orr__pointwise *orr__pointwise_backward_of(const struct orr_operator *op);

struct orr__stage {
    const struct orr_operator *op; /* of class POINTWISE */
    const struct orr_attributes *attributes;
    int inputs[2]; /* slots: operands first, then the results of stages in order */
};

/* Runs the stages; the last one's result is the output. Operands have the output's dtype and
 * broadcast to its shape; every stage's result has that shape. An operand may be the output itself
 * (same memory, same shape). Returns ORR_NO_MEMORY if there is no scratch space. */
enum orr_status orr__pointwise_run(const struct orr__stage *stages, int stage_count,
                                   const struct orr_tensor_view *operands, int operand_count,
                                   const struct orr_tensor_view *output,
                                   const struct orr_memory *memory,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
