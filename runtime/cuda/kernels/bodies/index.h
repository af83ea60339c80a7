/* Arithmetic with indices that several families need. Included after device.h. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_BODIES_INDEX_H
#define ORR_RUNTIME_CUDA_KERNELS_BODIES_INDEX_H

/* i / by, for i >= 0 and by > 0. Few arrays are longer than 2^32, and GPUs divide 64 bits
 * slowly. */
DEVICE int64_t quotient(int64_t i, int64_t by) {
    if (by == 1)
        return i;
    return i >> 32 == 0 && by >> 32 == 0 ? (int64_t)((uint32_t)i / (uint32_t)by) : i / by;
}

#endif
