/* What the convolution and its gradients share: sizes, and images as columns.
 *
 * A convolution of one image and one group is a product with the image's columns:
 *
 *                      positions oy, ox of the result
 *                     +--------------------------------+
 *     channel, i, j   | x[channel, oy s + i - p, ox s + j - p], 0 outside of the image
 *                     +--------------------------------+
 *
 * s the stride, p the padding. The columns are made for some positions at a time, in the type of
 * the arithmetic: f32, or f64 for f64.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_CONV_INTERNAL_H
#define ORR_RUNTIME_CONV_INTERNAL_H

#include "runtime/operators/gemm_internal.h"

/* Places of the attributes that all three operators have. */
enum { CONV_STRIDE, CONV_PADDING, CONV_GROUPS, CONV_SIZE };

/* x [n, c, h, w], weight [o, c / groups, kh, kw], y [n, o, oh, ow]. */
struct orr__conv {
    int64_t n, c, h, w, o, kh, kw, oh, ow, groups, stride, padding;
};

/* Sizes from the shapes of x and of the weight; false if one is not of rank 4. */
bool orr__conv_of(const struct orr_shape *x, const struct orr_shape *weight,
                  const struct orr_attributes *attributes, struct orr__conv *out_conv);

/* Refuses sizes that make no convolution; sets oh and ow. `inputs` are for the message. */
enum orr_status orr__conv_check(const struct orr_operator *op,
                                const struct orr_operand_info *inputs, int input_count,
                                struct orr__conv *conv, struct orr_error *error) ORR_MUST_CHECK;

/* 2 n o oh ow (c / groups) kh kw FLOPs: every element of the result is a sum of so many products;
 * a gradient has as many. */
uint64_t orr__conv_flops(const struct orr__conv *conv);

/* Rows of the columns: elements of a filter. */
int64_t orr__conv_filter(const struct orr__conv *conv);
/* Positions that are worked on at a time. */
int64_t orr__conv_tile(const struct orr__conv *conv);

/* Columns of positions first .. first + count - 1, [filter, count], from one group's channels of
 * one image. `compute` is f32 or f64. */
void orr__conv_columns(const struct orr__conv *conv, enum orr_dtype compute, const void *image,
                       int64_t first, int64_t count, void *columns);

/* The reverse: adds each element of the columns to its place in an image of f64. */
void orr__conv_add_columns(const struct orr__conv *conv, enum orr_dtype compute,
                           const void *columns, int64_t first, int64_t count, double *image);

#endif
