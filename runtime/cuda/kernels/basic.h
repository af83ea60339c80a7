/* Kernels without arithmetic of an operator: what copies, fills, moves and measurements need.
 * See kernels.h for how a family is written. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_BASIC_H
#define ORR_RUNTIME_CUDA_KERNELS_BASIC_H

#include <stdint.h>

/* Waits for `ns` of the device's clock: makes a stream busy, for checks of order and overlap. */
struct orr__k_spin {
    int64_t ns;
};

/* Writes the device's global clock, ns. */
struct orr__k_stamp {
    uint64_t *to;
};

#define ORR__CUDA_KERNELS_BASIC(X)                                                                 \
    X(basic, spin, struct orr__k_spin)                                                             \
    X(basic, stamp, struct orr__k_stamp)

#endif
