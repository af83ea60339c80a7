/* Kernels of image.h. */
#include "device.h"

#include "runtime/cuda/kernels/image.h"

KERNEL(image_columns, struct orr__k_columns) {
    const struct orr__k_image *image = &a->image;
    int64_t filter = image->kh * image->kw, rows = image->n * image->c * filter;
    for (int64_t i = first_index(lane); i < rows * a->count; i += index_step(lane)) {
        int64_t row = i / a->count, position = a->first + i % a->count;
        int64_t channel = row / filter, element = row % filter;
        int64_t y = position / image->ow * image->stride + element / image->kw - image->padding;
        int64_t x = position % image->ow * image->stride + element % image->kw - image->padding;
        bool inside = y >= 0 && y < image->h && x >= 0 && x < image->w;
        int64_t from = (channel * image->h + y) * image->w + x;
        if (a->bytes == 2)
            ((uint16_t *)a->to)[i] = inside ? ((const uint16_t *)a->x)[from] : (uint16_t)0;
        else if (a->bytes == 4)
            ((uint32_t *)a->to)[i] = inside ? ((const uint32_t *)a->x)[from] : 0u;
        else
            ((uint64_t *)a->to)[i] = inside ? ((const uint64_t *)a->x)[from] : (uint64_t)0;
    }
}

/* The sum of what an element at (y, x) of one channel went into. */
DEVICE double pixel_sum(const struct orr__k_pixels *a, int64_t channel, int64_t y, int64_t x) {
    const struct orr__k_image *image = &a->image;
    int64_t positions = image->oh * image->ow;
    double sum = 0;
    for (int64_t i = 0; i < image->kh; i++) {
        int64_t oy = y + image->padding - i;
        if (oy < 0 || oy % image->stride != 0 || oy / image->stride >= image->oh)
            continue;
        for (int64_t j = 0; j < image->kw; j++) {
            int64_t ox = x + image->padding - j;
            if (ox < 0 || ox % image->stride != 0 || ox / image->stride >= image->ow)
                continue;
            int64_t row = (channel * image->kh + i) * image->kw + j;
            int64_t at = row * positions + oy / image->stride * image->ow + ox / image->stride;
            sum += a->wide ? ((const double *)a->columns)[at]
                           : (double)((const float *)a->columns)[at];
        }
    }
    return sum;
}

KERNEL(image_pixels, struct orr__k_pixels) {
    const struct orr__k_image *image = &a->image;
    int64_t pixels = image->h * image->w, each = image->c * pixels;
    for (int64_t i = first_index(lane); i < image->n * each; i += index_step(lane)) {
        int64_t pixel = i % pixels;
        double sum = pixel_sum(a, i / pixels, pixel / image->w, pixel % image->w);
        store_f64(a->x, a->dtype, i / each * a->step + i % each, sum);
    }
}
