/* Pointwise operators, and chains of them: one kernel for each type that is computed in, which runs
 * a short program of stages on four elements at a time.
 *
 *     operands in memory        what a thread has                                    result
 *     x  bf16 [4096, 4096] --> 4 x f32 --+
 *     b  bf16 [4096]       --> 4 x f32 --+-> stage 0: add,  to bf16 -> stage 1: relu --> y
 *
 * Each stage's result is rounded to the tensors' dtype, so that a chain gives what its operators
 * give one by one (runtime/operators/fused.h). */
#ifndef ORR_RUNTIME_CUDA_KERNELS_POINTWISE_H
#define ORR_RUNTIME_CUDA_KERNELS_POINTWISE_H

#include <stdint.h>

/* X(name): those with two operands first. */
#define ORR__K_POINTWISE_BINARY(X)                                                                 \
    X(add)                                                                                         \
    X(sub)                                                                                         \
    X(mul)                                                                                         \
    X(div)                                                                                         \
    X(maximum)                                                                                     \
    X(relu_backward)                                                                               \
    X(gelu_backward)                                                                               \
    X(silu_backward)                                                                               \
    X(tanh_backward)                                                                               \
    X(sigmoid_backward)                                                                            \
    X(maximum_backward)
#define ORR__K_POINTWISE_UNARY(X)                                                                  \
    X(relu)                                                                                        \
    X(gelu)                                                                                        \
    X(silu)                                                                                        \
    X(exp)                                                                                         \
    X(log)                                                                                         \
    X(tanh)                                                                                        \
    X(sigmoid)                                                                                     \
    X(neg)                                                                                         \
    X(scale)                                                                                       \
    X(sqrt)                                                                                        \
    X(dropout)

enum orr__k_pointwise_op {
#define ORR__K_POINTWISE_ENUM(name) ORR__P_##name,
    ORR__K_POINTWISE_BINARY(ORR__K_POINTWISE_ENUM) ORR__P_BINARY_COUNT,
    ORR__P_BEFORE_UNARY = ORR__P_BINARY_COUNT - 1,
    ORR__K_POINTWISE_UNARY(ORR__K_POINTWISE_ENUM) ORR__P_COUNT
#undef ORR__K_POINTWISE_ENUM
};

enum { ORR__K_STAGES_MAX = 16, ORR__K_OPERANDS_MAX = 17, ORR__K_VECTOR = 4 };

enum orr__k_operand_kind {
    ORR__K_DENSE,  /* element i of the result needs element i */
    ORR__K_SINGLE, /* one element for all */
    ORR__K_STRIDED /* any other broadcast */
};

struct orr__k_operand {
    const void *data;
    int64_t strides[8]; /* in elements, over the result's dimensions; 0 where it is broadcast */
    int32_t kind;
};

struct orr__k_stage {
    int32_t op;
    int32_t a, b;  /* operands, or -1 - n for the result of stage n */
    int32_t keep;  /* 1: a stage behind the next one needs the result, too */
    double factor; /* scale and dropout */
    /* Dropout: see random.h. */
    uint64_t key, threshold, base;
    int64_t strides[8]; /* of the whole of which the result is a part */
};

struct orr__k_pointwise {
    void *out;
    int64_t count;
    int64_t dims[8]; /* of the result, joined where all operands allow it */
    int32_t rank;
    int32_t small; /* 1: count is below 2^31 */
    int32_t dtype;
    int32_t vectors; /* 1: dense operands and the result are aligned to four elements */
    int32_t stage_count;
    struct orr__k_operand operands[ORR__K_OPERANDS_MAX];
    struct orr__k_stage stages[ORR__K_STAGES_MAX];
};

/* Dropout whose mask is kept. */
struct orr__k_dropout_mask {
    void *y;
    uint8_t *mask; /* written, or read if `reads` */
    const void *x;
    int64_t count;
    double factor;
    uint64_t key, threshold, base;
    int64_t dims[8], strides[8];
    int32_t rank, small, dtype, reads;
};

#define ORR__CUDA_KERNELS_POINTWISE(X)                                                             \
    X(pointwise, pointwise_f32, struct orr__k_pointwise)                                           \
    X(pointwise, pointwise_f64, struct orr__k_pointwise)                                           \
    X(pointwise, pointwise_i64, struct orr__k_pointwise)                                           \
    X(pointwise, dropout_mask, struct orr__k_dropout_mask)

#endif
