/* What the fake cuBLAS and cublasLt share: products in streams.
 *
 * The arithmetic is fake_gemm.h's. Virtual durations are those of a GPU that multiplies at 100
 * TFLOP/s, whatever the type: they order works, and predict nothing.
 *
 * A product whose operands are not in a GPU's memory or pinned fails as on a GPU: in the stream, by
 * an illegal address. A product writes to its workspace, so that two streams that share one are a
 * data race here, too.
 *
 * Threads: the host's. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_FAKE_BLAS_H
#define ORR_SIM_FAKE_DEVICES_CUDA_FAKE_BLAS_H

#include "sim/fake_devices/cuda/fake_gemm.h"
#include "sim/fake_devices/cuda/fake_internal.h"

/* Checks a product and puts it into the stream. CUBLAS_STATUS_INVALID_VALUE also for a stream that
 * is none, such as the default one, which the fake doesn't have. `workspace` may be NULL. */
cublasStatus_t orr__fake_blas_enqueue(struct orr_fake_cuda *fake, cudaStream_t stream,
                                      const struct orr__fake_gemm *gemm, void *workspace,
                                      uint64_t workspace_bytes);

#endif
