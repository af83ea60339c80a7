/* What a kernel can find wrong with its operands' values, and where it says so. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_FAULT_H
#define ORR_RUNTIME_CUDA_KERNELS_FAULT_H

#include <stdint.h>

enum orr__cuda_fault_code {
    ORR__FAULT_NONE,
    ORR__FAULT_INDEX /* an index that is out of range: `value` of `bound` */
};

/* In pinned host memory; the first fault stays. */
struct orr__cuda_fault {
    unsigned long long code; /* enum orr__cuda_fault_code, set last */
    int64_t value, bound;
};

#endif
