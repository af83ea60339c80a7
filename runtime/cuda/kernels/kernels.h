/* The kernels of the CUDA backend: names, argument structs, and the files they are in.
 *
 * A family is one file, kernels/<family>.cu, compiled twice: by nvcc into an image of machine code
 * for the GPU, and by the C compiler for the fake devices, which run the very same source on a CPU.
 * So a kernel is written in the C subset of CUDA C, over the few words of "device.h":
 *
 *     #include "device.h"
 *     KERNEL(scale_f32, struct orr__k_scale) {
 *         for (int64_t i = first_index(lane); i < a->count; i += index_step(lane))
 *             store_f32(a->y, a->dtype, i, a->alpha * load_f32(a->x, a->dtype, i));
 *     }
 *
 * Rules: one argument, a struct by value, of which `a` is the address; loops over what there is to
 * do with strides of thread_count or index_step, so that any grid and any block is right, also one
 * thread (the fake devices use that); no global variables; no atomics on floating-point numbers,
 * whose sums would differ from run to run; 64-bit indices.
 *
 * Each family's header defines its structs and its list, X(family, kernel, struct); this header
 * joins them. It is included by host code, by nvcc and by the C compiler for the fake devices.
 *
 * Threads: constants. */
#ifndef ORR_RUNTIME_CUDA_KERNELS_H
#define ORR_RUNTIME_CUDA_KERNELS_H

#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/kernels/basic.h"
#include "runtime/cuda/kernels/collective.h"
#include "runtime/cuda/kernels/experts.h"
#include "runtime/cuda/kernels/gather.h"
#include "runtime/cuda/kernels/image.h"
#include "runtime/cuda/kernels/move.h"
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/kernels/order.h"
#include "runtime/cuda/kernels/pointwise.h"
#include "runtime/cuda/kernels/product.h"
#include "runtime/cuda/kernels/quantize.h"
#include "runtime/cuda/kernels/reduction.h"
#include "runtime/cuda/kernels/serving.h"
#include "runtime/cuda/kernels/softmax.h"
#include "runtime/cuda/kernels/source.h"
#include "runtime/cuda/kernels/synthetic.h"
#include "runtime/cuda/kernels/update.h"

/* X(family): every kernels/<family>.cu. */
#define ORR__CUDA_FAMILY_LIST(X)                                                                   \
    X(attention)                                                                                   \
    X(basic)                                                                                       \
    X(collective)                                                                                  \
    X(experts)                                                                                     \
    X(gather)                                                                                      \
    X(image)                                                                                       \
    X(move)                                                                                        \
    X(norm)                                                                                        \
    X(order)                                                                                       \
    X(pointwise)                                                                                   \
    X(product)                                                                                     \
    X(quantize)                                                                                    \
    X(reduction)                                                                                   \
    X(serving)                                                                                     \
    X(softmax)                                                                                     \
    X(source)                                                                                      \
    X(synthetic)                                                                                   \
    X(update)

/* X(family, kernel, struct): every kernel. */
#define ORR__CUDA_KERNEL_LIST(X)                                                                   \
    ORR__CUDA_KERNELS_ATTENTION(X)                                                                 \
    ORR__CUDA_KERNELS_BASIC(X)                                                                     \
    ORR__CUDA_KERNELS_COLLECTIVE(X)                                                                \
    ORR__CUDA_KERNELS_EXPERTS(X)                                                                   \
    ORR__CUDA_KERNELS_GATHER(X)                                                                    \
    ORR__CUDA_KERNELS_IMAGE(X)                                                                     \
    ORR__CUDA_KERNELS_MOVE(X)                                                                      \
    ORR__CUDA_KERNELS_NORM(X)                                                                      \
    ORR__CUDA_KERNELS_ORDER(X)                                                                     \
    ORR__CUDA_KERNELS_POINTWISE(X)                                                                 \
    ORR__CUDA_KERNELS_PRODUCT(X)                                                                   \
    ORR__CUDA_KERNELS_QUANTIZE(X)                                                                  \
    ORR__CUDA_KERNELS_REDUCTION(X)                                                                 \
    ORR__CUDA_KERNELS_SERVING(X)                                                                   \
    ORR__CUDA_KERNELS_SOFTMAX(X)                                                                   \
    ORR__CUDA_KERNELS_SOURCE(X)                                                                    \
    ORR__CUDA_KERNELS_SYNTHETIC(X)                                                                 \
    ORR__CUDA_KERNELS_UPDATE(X)

enum orr__cuda_family {
#define ORR__CUDA_FAMILY_ENUM(family) ORR__FAMILY_##family,
    ORR__CUDA_FAMILY_LIST(ORR__CUDA_FAMILY_ENUM)
#undef ORR__CUDA_FAMILY_ENUM
        ORR__FAMILY_COUNT
};

/* ORR__K_<kernel>. */
enum orr__cuda_kernel {
#define ORR__CUDA_KERNEL_ENUM(family, kernel, type) ORR__K_##kernel,
    ORR__CUDA_KERNEL_LIST(ORR__CUDA_KERNEL_ENUM)
#undef ORR__CUDA_KERNEL_ENUM
        ORR__K_COUNT
};

#endif
