/* Optimizers: a parameter and its state in one pass. See kernels.h for how a family is written. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_UPDATE_H
#define ORR_RUNTIME_CUDA_KERNELS_UPDATE_H

#include <stdint.h>

enum orr__k_update_rule { ORR__UPDATE_SGD, ORR__UPDATE_MOMENTUM, ORR__UPDATE_ADAMW };

/* One element of each operand is read before the results are written, which may be the operands'
 * own memory. Numbers are prepared on the host in f64, as runtime/operators/update.c has them. */
struct orr__k_update {
    int32_t rule; /* enum orr__k_update_rule */
    int32_t nesterov;
    int64_t count;
    /* Parameter, gradient, state; NULL is none. */
    const void *from[4];
    /* In the same places; to[1] is a copy of the parameter in the gradient's dtype. */
    void *to[4];
    int32_t dtypes[4];
    double lr, decay;    /* decay: of sgd's gradient; adamw: what is kept of the parameter */
    double beta1, beta2; /* beta1: momentum */
    double rest1, rest2; /* 1 - beta */
    double up1, up2;     /* 1 / (1 - beta^step) */
    double eps;
};

#define ORR__CUDA_KERNELS_UPDATE(X)                                                                \
    X(update, update_f32, struct orr__k_update)                                                    \
    X(update, update_f64, struct orr__k_update)

#endif
