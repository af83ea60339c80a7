/* Images as columns, so that convolutions are matrix products. See kernels.h for how a family is
 * written, and runtime/operators/conv_internal.h for the picture. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_IMAGE_H
#define ORR_RUNTIME_CUDA_KERNELS_IMAGE_H

#include <stdint.h>

struct orr__k_image {
    int64_t n, c, h, w; /* images, and channels of each */
    int64_t kh, kw, oh, ow, stride, padding;
};

/* Columns [n, c kh kw, count] of positions first .. first + count - 1, from x [n, c, h, w] of
 * elements of so many bytes. */
struct orr__k_columns {
    struct orr__k_image image;
    int64_t first, count;
    const void *x;
    void *to;
    int64_t bytes; /* 2, 4 or 8 */
};

/* The reverse: x [n, c, h, w], whose images are `step` elements apart, is the sum of the columns
 * [n, c kh kw, oh ow] that were made from each of its elements, taken in f64, rounded once. */
struct orr__k_pixels {
    struct orr__k_image image;
    int64_t step;
    const void *columns; /* f32, or f64 with `wide` */
    void *x;
    int32_t wide, dtype;
};

#define ORR__CUDA_KERNELS_IMAGE(X)                                                                 \
    X(image, image_columns, struct orr__k_columns)                                                 \
    X(image, image_pixels, struct orr__k_pixels)

#endif
