/* Launchers of convolutions, as products with the columns of images.
 *
 *     y  [o, positions]      = weight [o, filter] columns            of each image and group
 *     dx                     : columns = weight^T grad, added up where they came from
 *     dw [o, filter]        += grad [o, positions] columns^T         image after image
 *
 * Columns are made for some images, or some positions of one image, at a time. Products of
 * gradients are kept in f32 (f64) until the end. A convolution by filters of 1 x 1 with stride 1
 * has its images for columns. */
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/launch.h"

enum { COLUMNS_BYTES = 256 << 20, ALIGNMENT = 256 };

/* x [n, c, h, w], weight [o, c / groups, kh, kw], y [n, o, oh, ow]. */
struct conv {
    struct orr__k_image image;
    int64_t o, groups, filter, positions; /* filter: elements of one */
    enum orr_dtype dtype;
};

static struct conv conv_of(const struct orr_task_operator *call, const int64_t *x,
                           const int64_t *weight, const int64_t *y) {
    struct conv conv = {
        .image = {.n = x[0],
                  .c = x[1],
                  .h = x[2],
                  .w = x[3],
                  .kh = weight[2],
                  .kw = weight[3],
                  .oh = y[2],
                  .ow = y[3],
                  .stride = orr__cuda_integer(call, "stride"),
                  .padding = orr__cuda_integer(call, "padding")},
        .o = weight[0],
        .groups = orr__cuda_integer(call, "groups"),
        .positions = y[2] * y[3],
        .dtype = call->inputs[0].dtype,
    };
    conv.filter = conv.image.c / conv.groups * conv.image.kh * conv.image.kw;
    return conv;
}

static void *at(const void *base, int64_t element, enum orr_dtype dtype) {
    return (char *)(uintptr_t)base + (size_t)element * orr_dtype_size(dtype);
}

static enum orr_dtype wide_dtype(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_F64 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
}

static int64_t at_most(int64_t count, int64_t most) {
    int64_t some = most > 1 ? most : 1;
    return count < some ? count : some;
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Columns of images image .. image + images - 1 at positions first .. first + count - 1, in
 * `columns`: of some images with all positions, or of one with some. */
struct piece {
    int64_t image, images, first, count;
    const void *columns;
};

/* The first piece: how much fits. */
static struct piece piece_of(const struct conv *conv) {
    int64_t rows = conv->filter * conv->groups;
    int64_t fit = COLUMNS_BYTES / (int64_t)orr_dtype_size(conv->dtype) / (rows > 0 ? rows : 1);
    struct piece piece = {.count = at_most(conv->positions, fit)};
    piece.images =
        piece.count == conv->positions ? at_most(conv->image.n, fit / conv->positions) : 1;
    return piece;
}

static bool is_own_columns(const struct conv *conv) {
    const struct orr__k_image *image = &conv->image;
    return image->kh == 1 && image->kw == 1 && image->stride == 1 && image->padding == 0;
}

static enum orr_status make_columns(struct orr__cuda_queue *queue, const struct conv *conv,
                                    const void *x, void *to, const struct piece *piece,
                                    struct orr_error *error) {
    struct orr__k_columns a = {
        .image = conv->image,
        .first = piece->first,
        .count = piece->count,
        .x = at(x, piece->image * conv->image.c * conv->image.h * conv->image.w, conv->dtype),
        .to = to,
        .bytes = (int64_t)orr_dtype_size(conv->dtype),
    };
    a.image.n = piece->images;
    int64_t count = piece->images * conv->filter * conv->groups * piece->count;
    return orr__cuda_launch(queue, ORR__K_image_columns, orr__cuda_grid(queue, (uint64_t)count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

typedef enum orr_status (*use_columns)(struct orr__cuda_queue *queue, const struct conv *conv,
                                       const struct piece *piece, void *context,
                                       struct orr_error *error);

/* All pieces in order. `scratch` has room for the columns of one, unless x is its own columns. */
static enum orr_status walk(struct orr__cuda_queue *queue, const struct conv *conv, const void *x,
                            void *scratch, use_columns use, void *context,
                            struct orr_error *error) {
    if (is_own_columns(conv)) {
        struct piece all = {.images = conv->image.n, .count = conv->positions, .columns = x};
        return use(queue, conv, &all, context, error);
    }
    struct piece piece = piece_of(conv);
    int64_t images = piece.images, count = piece.count;
    enum orr_status status = ORR_OK;
    piece.columns = scratch;
    for (; piece.image < conv->image.n && status == ORR_OK; piece.image += images) {
        piece.images = at_most(images, conv->image.n - piece.image);
        for (piece.first = 0; piece.first < conv->positions && status == ORR_OK;
             piece.first += count) {
            piece.count = at_most(count, conv->positions - piece.first);
            status = make_columns(queue, conv, x, scratch, &piece, error);
            if (status == ORR_OK)
                status = use(queue, conv, &piece, context, error);
        }
    }
    return status;
}

/* Bytes of scratch for a walk. */
static uint64_t walk_bytes(const struct conv *conv) {
    struct piece piece = piece_of(conv);
    return is_own_columns(conv)
               ? 0
               : aligned((uint64_t)(piece.images * piece.count * conv->filter * conv->groups) *
                         orr_dtype_size(conv->dtype));
}

/* Products of all images and groups of a piece; strides of `gemm` are from group to group, `a`, `b`
 * and `c` from image to image. The larger of both is the batch. */
static enum orr_status run_products(struct orr__cuda_queue *queue, struct orr__cuda_gemm gemm,
                                    int64_t images, int64_t groups, int64_t a, int64_t b, int64_t c,
                                    struct orr_error *error) {
    bool by_group = groups > images;
    int64_t walked = by_group ? images : groups;
    int64_t step_a = by_group ? a : gemm.stride_a, step_b = by_group ? b : gemm.stride_b;
    int64_t step_c = by_group ? c : gemm.stride_c;
    enum orr_status status = ORR_OK;
    gemm.batch = by_group ? groups : images;
    gemm.stride_a = by_group ? gemm.stride_a : a;
    gemm.stride_b = by_group ? gemm.stride_b : b;
    gemm.stride_c = by_group ? gemm.stride_c : c;
    for (int64_t i = 0; i < walked && status == ORR_OK; i++) {
        status = orr__cuda_gemm(queue, &gemm, error);
        gemm.a = at(gemm.a, step_a, gemm.dtype);
        gemm.b = at(gemm.b, step_b, gemm.dtype);
        gemm.c = at(gemm.c, step_c, gemm.result);
    }
    return status;
}

/* ---- conv2d ---- */

struct forward {
    const void *weight;
    void *y;
    bool adds;
};

static enum orr_status convolve(struct orr__cuda_queue *queue, const struct conv *conv,
                                const struct piece *piece, void *context, struct orr_error *error) {
    const struct forward *forward = context;
    int64_t rows = conv->o / conv->groups, columns = conv->filter * piece->count;
    struct orr__cuda_gemm gemm = {
        .dtype = conv->dtype,
        .result = conv->dtype,
        .adds = forward->adds,
        .m = rows,
        .n = piece->count,
        .k = conv->filter,
        .a = forward->weight,
        .b = piece->columns,
        .c = at(forward->y, piece->image * conv->o * conv->positions + piece->first, conv->dtype),
        .ldc = conv->positions,
        .stride_a = rows * conv->filter,
        .stride_b = columns,
        .stride_c = rows * conv->positions,
    };
    return run_products(queue, gemm, piece->images, conv->groups, 0, columns * conv->groups,
                        conv->o * conv->positions, error);
}

static enum orr_status launch_conv(struct orr__cuda_queue *queue,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *inputs = call->inputs, *y = &call->outputs[0];
    int64_t count = orr_shape_count(&y->shape);
    if (count == 0)
        return ORR_OK;
    struct conv conv = conv_of(call, inputs[0].shape.dims, inputs[1].shape.dims, y->shape.dims);
    struct forward forward = {
        .weight = inputs[1].data, .y = y->data, .adds = call->input_count > 2};
    void *scratch;
    enum orr_status status = orr__cuda_scratch(queue, walk_bytes(&conv), &scratch, error);
    if (status == ORR_OK && forward.adds)
        status = orr__cuda_repeat(queue, conv.dtype, inputs[2].data, conv.o, conv.positions, count,
                                  y->data, error);
    if (status != ORR_OK)
        return status;
    return walk(queue, &conv, inputs[0].data, scratch, convolve, &forward, error);
}

/* ---- conv2d_backward_input ---- */

/* Channels channel .. channel + channels - 1 of images image .. image + images - 1: all of some
 * images, or some of one group of one image. */
struct part {
    int64_t image, images, channel, channels;
};

static enum orr_status make_slopes(struct orr__cuda_queue *queue, const struct conv *conv,
                                   const struct orr_tensor_view *inputs, const struct part *part,
                                   void *columns, struct orr_error *error) {
    int64_t each = conv->image.kh * conv->image.kw, channels = conv->image.c / conv->groups;
    int64_t rows = conv->o / conv->groups, group = part->channel / channels;
    int64_t groups = part->channels < channels ? 1 : part->channels / channels;
    int64_t made = part->channels / groups * each;
    struct orr__cuda_gemm gemm = {
        .dtype = conv->dtype,
        .result = wide_dtype(conv->dtype),
        .transpose_a = true,
        .m = made,
        .n = conv->positions,
        .k = rows,
        .a = at(inputs[1].data, group * rows * conv->filter + part->channel % channels * each,
                conv->dtype),
        .lda = conv->filter,
        .b = at(inputs[0].data, (part->image * conv->o + group * rows) * conv->positions,
                conv->dtype),
        .c = columns,
        .stride_a = rows * conv->filter,
        .stride_b = rows * conv->positions,
        .stride_c = made * conv->positions,
    };
    return run_products(queue, gemm, part->images, groups, 0, conv->o * conv->positions,
                        made * groups * conv->positions, error);
}

static enum orr_status add_slopes(struct orr__cuda_queue *queue, const struct conv *conv,
                                  const struct part *part, const void *columns, void *dx,
                                  struct orr_error *error) {
    int64_t pixels = conv->image.h * conv->image.w;
    struct orr__k_pixels a = {
        .image = conv->image,
        .step = conv->image.c * pixels,
        .columns = columns,
        .x = at(dx, (part->image * conv->image.c + part->channel) * pixels, conv->dtype),
        .wide = conv->dtype == ORR_DTYPE_F64,
        .dtype = (int32_t)conv->dtype,
    };
    a.image.n = part->images;
    a.image.c = part->channels;
    int64_t count = part->images * part->channels * pixels;
    return orr__cuda_launch(queue, ORR__K_image_pixels, orr__cuda_grid(queue, (uint64_t)count),
                            ORR__CUDA_BLOCK, 0, &a, error);
}

/* The largest part that fits: images, or channels of a group. */
static struct part part_of(const struct conv *conv) {
    int64_t each = conv->image.kh * conv->image.kw * conv->positions;
    int64_t fit = COLUMNS_BYTES / (int64_t)orr_dtype_size(wide_dtype(conv->dtype)) / each;
    if (fit >= conv->image.c)
        return (struct part){.images = at_most(conv->image.n, fit / conv->image.c),
                             .channels = conv->image.c};
    return (struct part){.images = 1, .channels = at_most(conv->image.c / conv->groups, fit)};
}

static enum orr_status launch_input(struct orr__cuda_queue *queue,
                                    const struct orr_task_operator *call, struct orr_error *error) {
    const struct orr_tensor_view *grad = &call->inputs[0], *dx = &call->outputs[0];
    struct conv conv = conv_of(call, dx->shape.dims, call->inputs[1].shape.dims, grad->shape.dims);
    if (orr_shape_count(&dx->shape) == 0)
        return ORR_OK;
    if (conv.o == 0)
        return orr__cuda_zero(queue, dx->data, orr__cuda_bytes(dx), error);
    struct part part = part_of(&conv);
    int64_t images = part.images, channels = part.channels;
    /* Parts don't reach over the end of a group, unless they are all of it. */
    int64_t group = channels < conv.image.c ? conv.image.c / conv.groups : conv.image.c;
    uint64_t elements =
        (uint64_t)(images * channels * conv.image.kh * conv.image.kw * conv.positions);
    void *scratch;
    enum orr_status status = orr__cuda_scratch(
        queue, elements * orr_dtype_size(wide_dtype(conv.dtype)), &scratch, error);
    for (; part.image < conv.image.n && status == ORR_OK; part.image += images) {
        part.images = at_most(images, conv.image.n - part.image);
        for (part.channel = 0; part.channel < conv.image.c && status == ORR_OK;
             part.channel += part.channels) {
            part.channels = at_most(channels, group - part.channel % group);
            status = make_slopes(queue, &conv, call->inputs, &part, scratch, error);
            if (status == ORR_OK)
                status = add_slopes(queue, &conv, &part, scratch, dx->data, error);
        }
    }
    return status;
}

/* ---- conv2d_backward_weight ---- */

struct backward {
    const void *grad;
    void *sums; /* f32 or f64 */
};

/* Image after image, so that the order of the sum is always the same. */
static enum orr_status add_weight(struct orr__cuda_queue *queue, const struct conv *conv,
                                  const struct piece *piece, void *context,
                                  struct orr_error *error) {
    const struct backward *backward = context;
    int64_t rows = conv->o / conv->groups, columns = conv->filter * piece->count;
    enum orr_status status = ORR_OK;
    for (int64_t i = 0; i < piece->images && status == ORR_OK; i++) {
        int64_t grad = (piece->image + i) * conv->o * conv->positions + piece->first;
        struct orr__cuda_gemm gemm = {
            .dtype = conv->dtype,
            .result = wide_dtype(conv->dtype),
            .transpose_b = true,
            .adds = true,
            .m = rows,
            .n = conv->filter,
            .k = piece->count,
            .a = at(backward->grad, grad, conv->dtype),
            .lda = conv->positions,
            .b = at(piece->columns, i * columns * conv->groups, conv->dtype),
            .c = backward->sums,
            .batch = conv->groups,
            .stride_a = rows * conv->positions,
            .stride_b = columns,
            .stride_c = rows * conv->filter,
        };
        status = orr__cuda_gemm(queue, &gemm, error);
    }
    return status;
}

static enum orr_status launch_weight(struct orr__cuda_queue *queue,
                                     const struct orr_task_operator *call,
                                     struct orr_error *error) {
    const struct orr_tensor_view *grad = &call->inputs[0], *x = &call->inputs[1];
    const struct orr_tensor_view *dw = &call->outputs[0];
    int64_t count = orr_shape_count(&dw->shape);
    struct conv conv = conv_of(call, x->shape.dims, dw->shape.dims, grad->shape.dims);
    enum orr_dtype wide = wide_dtype(conv.dtype);
    bool narrow = wide != conv.dtype;
    uint64_t columns = walk_bytes(&conv), bytes = (uint64_t)count * orr_dtype_size(wide);
    void *scratch;
    if (count == 0)
        return ORR_OK;
    enum orr_status status =
        orr__cuda_scratch(queue, columns + (narrow ? bytes : 0), &scratch, error);
    if (status != ORR_OK)
        return status;
    struct backward backward = {.grad = grad->data,
                                .sums = narrow ? (char *)scratch + columns : dw->data};
    status = orr__cuda_zero(queue, backward.sums, bytes, error);
    if (status == ORR_OK)
        status = walk(queue, &conv, x->data, scratch, add_weight, &backward, error);
    if (status != ORR_OK || !narrow)
        return status;
    struct orr__k_finish finish = {
        .rows = 1,
        .columns = count,
        .step = count,
        .from = backward.sums,
        .to = dw->data,
        .dtype = (int32_t)conv.dtype,
    };
    return orr__cuda_launch(queue, ORR__K_product_finish, orr__cuda_grid(queue, (uint64_t)count),
                            ORR__CUDA_BLOCK, 0, &finish, error);
}

const struct orr__cuda_operator orr__cuda_image_operators[] = {
    {"conv2d", launch_conv},
    {"conv2d_backward_input", launch_input},
    {"conv2d_backward_weight", launch_weight},
    {NULL, NULL},
};
