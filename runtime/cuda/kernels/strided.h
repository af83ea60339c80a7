/* Arrays as dimensions and strides, for kernels and for who launches them. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_STRIDED_H
#define ORR_RUNTIME_CUDA_KERNELS_STRIDED_H

#include <stdint.h>

/* Row-major; strides in elements, 0 where an array is repeated. */
struct orr__k_strided {
    int64_t dims[9], strides[9]; /* ORR_RANK_MAX, and a row of bytes */
    int32_t rank;
    int32_t small; /* 1: all indices are below 2^31, so that 32-bit divisions do */
};

#ifdef DEVICE /* in a kernel: device.h came first */
/* Offset of the element with row-major index `index`; and that with other strides over the same
 * dimensions, unless `other` is NULL. */
DEVICE int64_t strided_offsets(const struct orr__k_strided *array, const int64_t *other,
                               int64_t index, int64_t *out_other) {
    int64_t offset = 0, beside = 0;
    for (int i = array->rank - 1; i >= 0; i--) {
        int64_t at = index;
        if (i > 0 && array->small) {
            uint32_t dim = (uint32_t)array->dims[i];
            at = (int64_t)((uint32_t)index % dim);
            index = (int64_t)((uint32_t)index / dim);
        } else if (i > 0) {
            at = index % array->dims[i];
            index /= array->dims[i];
        }
        offset += at * array->strides[i];
        beside += other ? at * other[i] : 0;
    }
    if (other)
        *out_other = beside;
    return offset;
}

DEVICE int64_t strided_offset(const struct orr__k_strided *array, int64_t index) {
    return strided_offsets(array, NULL, index, NULL);
}
#endif

#endif
