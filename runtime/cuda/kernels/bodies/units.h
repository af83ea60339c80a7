/* Moves of elements of any dtype, as units of some bytes. Included after device.h. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_BODIES_UNITS_H
#define ORR_RUNTIME_CUDA_KERNELS_BODIES_UNITS_H

struct __attribute__((aligned(16))) unit16 {
    uint64_t low, high;
};

/* to[i] = from[j], or zeros if from is NULL. */
DEVICE void move_unit(void *to, int64_t i, const void *from, int64_t j, int unit) {
    struct unit16 zero = {0, 0};
    switch (unit) {
    case 16: ((struct unit16 *)to)[i] = from ? ((const struct unit16 *)from)[j] : zero; break;
    case 8: ((uint64_t *)to)[i] = from ? ((const uint64_t *)from)[j] : 0; break;
    case 4: ((uint32_t *)to)[i] = from ? ((const uint32_t *)from)[j] : 0; break;
    default: ((uint16_t *)to)[i] = from ? ((const uint16_t *)from)[j] : (uint16_t)0; break;
    }
}

#endif
