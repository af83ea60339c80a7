/* Weights as 8-bit codes with a scale for each row. See kernels.h for how a family is written.
 * Codes are i8, f8e4m3 or f8e5m2, as runtime/operators/quantize.c has them. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_QUANTIZE_H
#define ORR_RUNTIME_CUDA_KERNELS_QUANTIZE_H

#include <stdint.h>

/* A block for each row. */
struct orr__k_quantize {
    int64_t rows, width;
    const void *x;
    void *q;
    float *scales;
    int32_t dtype, code; /* of x, of q */
};

/* y = q scale; without scales, the codes' values, which any float with 16 bits or more holds. */
struct orr__k_dequantize {
    int64_t count, width;
    const void *q;
    const float *scales; /* or NULL */
    void *y;
    int32_t code, dtype;
};

#define ORR__CUDA_KERNELS_QUANTIZE(X)                                                              \
    X(quantize, quantize, struct orr__k_quantize)                                                  \
    X(quantize, dequantize, struct orr__k_dequantize)

#endif
