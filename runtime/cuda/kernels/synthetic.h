/* What a synthetic kernel computes (runtime/synthetic.h), bit for bit. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_SYNTHETIC_H
#define ORR_RUNTIME_CUDA_KERNELS_SYNTHETIC_H

#include <stdint.h>

enum { ORR__K_RANGES_MAX = 64, ORR__K_SYNTHETIC_TILE = 1024 };

struct orr__k_range {
    unsigned char *data;
    int64_t bytes;
};

/* Takes ranges in, by one block, because their order counts. Shared memory: 4 words and a tile of
 * ORR__K_SYNTHETIC_TILE, of 8 bytes. */
struct orr__k_synthetic_read {
    uint64_t *digest;
    uint64_t begin; /* what the digest is before, if `begins` */
    int32_t begins, count;
    struct orr__k_range ranges[ORR__K_RANGES_MAX];
};

/* Fills ranges; `first` of the kernel's have been filled before. */
struct orr__k_synthetic_write {
    const uint64_t *digest; /* NULL: `begin` */
    uint64_t begin;
    int32_t first, count;
    struct orr__k_range ranges[ORR__K_RANGES_MAX];
};

#define ORR__CUDA_KERNELS_SYNTHETIC(X)                                                             \
    X(synthetic, synthetic_read, struct orr__k_synthetic_read)                                     \
    X(synthetic, synthetic_write, struct orr__k_synthetic_write)

#endif
