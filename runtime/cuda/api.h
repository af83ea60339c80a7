/* Every entry point of NVIDIA's libraries that the backend calls, as one table.
 *
 * The table is filled from shared libraries that are opened at run time (library.h), or by whoever
 * wants to put something else in their place: sim/fake_devices/cuda fills it with functions of the
 * same names that need no GPU. Types come from the toolkit's headers, so that the compiler checks
 * both. The libraries besides the CUDA runtime are opened when they are first needed, because
 * cuBLAS alone costs 0.1 s and 150 MiB.
 *
 *     enum orr_status status = orr__cuda_need(api, ORR__CUDA_BLAS, error);
 *     if (status == ORR_OK)
 *         code = api->blas.cublasCreate_v2(&handle);
 *
 * Threads: constant once filled. `load` is called on the host's thread. */
#ifndef ORR_RUNTIME_CUDA_API_H
#define ORR_RUNTIME_CUDA_API_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/error.h"

/* X(function). The text of a name is taken after expansion: cublasCreate is cublasCreate_v2. */
#define ORR__CUDA_RUNTIME_LIST(X)                                                                  \
    X(cudaGetDeviceCount)                                                                          \
    X(cudaSetDevice)                                                                               \
    X(cudaGetDevice)                                                                               \
    X(cudaRuntimeGetVersion)                                                                       \
    X(cudaDriverGetVersion)                                                                        \
    X(cudaGetLastError)                                                                            \
    X(cudaGetErrorName)                                                                            \
    X(cudaGetErrorString)                                                                          \
    X(cudaDeviceGetAttribute)                                                                      \
    X(cudaGetDeviceProperties)                                                                     \
    X(cudaDeviceSynchronize)                                                                       \
    X(cudaDeviceCanAccessPeer)                                                                     \
    X(cudaMemGetInfo)                                                                              \
    X(cudaMalloc)                                                                                  \
    X(cudaFree)                                                                                    \
    X(cudaMallocHost)                                                                              \
    X(cudaFreeHost)                                                                                \
    X(cudaMemcpyAsync)                                                                             \
    X(cudaMemsetAsync)                                                                             \
    X(cudaLaunchHostFunc)                                                                          \
    X(cudaStreamCreateWithPriority)                                                                \
    X(cudaDeviceGetStreamPriorityRange)                                                            \
    X(cudaStreamDestroy)                                                                           \
    X(cudaStreamSynchronize)                                                                       \
    X(cudaStreamQuery)                                                                             \
    X(cudaStreamWaitEvent)                                                                         \
    X(cudaEventCreateWithFlags)                                                                    \
    X(cudaEventDestroy)                                                                            \
    X(cudaEventRecord)                                                                             \
    X(cudaEventRecordWithFlags)                                                                    \
    X(cudaEventQuery)                                                                              \
    X(cudaEventSynchronize)                                                                        \
    X(cudaEventElapsedTime)                                                                        \
    X(cudaLibraryLoadData)                                                                         \
    X(cudaLibraryUnload)                                                                           \
    X(cudaLibraryGetKernel)                                                                        \
    X(cudaFuncSetAttribute)                                                                        \
    X(cudaLaunchKernel)                                                                            \
    X(cudaMemPoolCreate)                                                                           \
    X(cudaMemPoolDestroy)                                                                          \
    X(cudaMemPoolSetAttribute)                                                                     \
    X(cudaMemPoolSetAccess)                                                                        \
    X(cudaMemPoolGetAttribute)                                                                     \
    X(cudaMallocFromPoolAsync)                                                                     \
    X(cudaFreeAsync)                                                                               \
    X(cudaStreamBeginCapture)                                                                      \
    X(cudaStreamEndCapture)                                                                        \
    X(cudaStreamIsCapturing)                                                                       \
    X(cudaGraphGetNodes)                                                                           \
    X(cudaGraphInstantiate)                                                                        \
    X(cudaGraphUpload)                                                                             \
    X(cudaGraphLaunch)                                                                             \
    X(cudaGraphExecDestroy)                                                                        \
    X(cudaGraphDestroy)

#define ORR__CUDA_BLAS_LIST(X)                                                                     \
    X(cublasCreate)                                                                                \
    X(cublasDestroy)                                                                               \
    X(cublasSetStream)                                                                             \
    X(cublasSetWorkspace)                                                                          \
    X(cublasSetMathMode)                                                                           \
    X(cublasGemmEx)                                                                                \
    X(cublasGemmStridedBatchedEx)                                                                  \
    X(cublasGetStatusString)                                                                       \
    X(cublasGetVersion)

#define ORR__CUDA_BLASLT_LIST(X)                                                                   \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatrixLayoutSetAttribute)                                                            \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)

#define ORR__CUDA_NCCL_LIST(X)                                                                     \
    X(ncclGetVersion)                                                                              \
    X(ncclCommInitAll)                                                                             \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclAllReduce)                                                                               \
    X(ncclAllGather)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclBroadcast)                                                                               \
    X(ncclReduce)                                                                                  \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)

#define ORR__CUDA_CUPTI_LIST(X)                                                                    \
    X(cuptiGetVersion)                                                                             \
    X(cuptiGetResultString)                                                                        \
    X(cuptiGetTimestamp)                                                                           \
    X(cuptiActivityRegisterTimestampCallback)                                                      \
    X(cuptiActivityRegisterCallbacks)                                                              \
    X(cuptiActivitySetAttribute)                                                                   \
    X(cuptiActivityEnable)                                                                         \
    X(cuptiActivityDisable)                                                                        \
    X(cuptiActivityFlushAll)                                                                       \
    X(cuptiActivityGetNextRecord)                                                                  \
    X(cuptiActivityGetNumDroppedRecords)                                                           \
    X(cuptiActivityEnableRuntimeApi)                                                               \
    X(cuptiActivityEnableDriverApi)                                                                \
    X(cuptiActivityPushExternalCorrelationId)                                                      \
    X(cuptiActivityPopExternalCorrelationId)                                                       \
    X(cuptiFinalize)

/* The members are named as the function really is: api->blas.cublasCreate_v2. */
#define ORR__CUDA_MEMBER(function) __typeof__(&function) function;
struct orr__cuda_runtime_table {
    ORR__CUDA_RUNTIME_LIST(ORR__CUDA_MEMBER)
};
struct orr__cuda_blas_table {
    ORR__CUDA_BLAS_LIST(ORR__CUDA_MEMBER)
};
struct orr__cuda_blaslt_table {
    ORR__CUDA_BLASLT_LIST(ORR__CUDA_MEMBER)
};
struct orr__cuda_nccl_table {
    ORR__CUDA_NCCL_LIST(ORR__CUDA_MEMBER)
};
struct orr__cuda_cupti_table {
    ORR__CUDA_CUPTI_LIST(ORR__CUDA_MEMBER)
};
#undef ORR__CUDA_MEMBER

enum orr__cuda_library {
    ORR__CUDA_RUNTIME, /* always there once an api is */
    ORR__CUDA_BLAS,
    ORR__CUDA_BLASLT,
    ORR__CUDA_NCCL,
    ORR__CUDA_CUPTI,
    ORR__CUDA_LIBRARIES
};

struct orr__cuda_api {
    struct orr__cuda_runtime_table rt;
    struct orr__cuda_blas_table blas;
    struct orr__cuda_blaslt_table lt;
    struct orr__cuda_nccl_table nccl;
    struct orr__cuda_cupti_table cupti;
    bool loaded[ORR__CUDA_LIBRARIES];
    /* Fills the table of a library. ORR_UNAVAILABLE names the library and every path tried. */
    enum orr_status (*load)(struct orr__cuda_api *api, enum orr__cuda_library library,
                            struct orr_error *error);
    /* The host's clock, ns: CLOCK_MONOTONIC, or that of a simulated host. */
    int64_t (*now)(const struct orr__cuda_api *api);
    /* NULL: whoever filled the table frees it, after every backend over it. Else the table belongs
     * to the one backend that is opened over it, whose close calls this last. */
    void (*release)(struct orr__cuda_api *api);
    /* The host does nothing for about so long; between two looks at events, of which it waits for
     * any. NULL: it looks again at once. */
    void (*rest)(const struct orr__cuda_api *api, int64_t ns);
    void *context; /* of these functions */
};

/* The library's table is filled when this returns ORR_OK. */
enum orr_status orr__cuda_need(struct orr__cuda_api *api, enum orr__cuda_library library,
                               struct orr_error *error) ORR_MUST_CHECK;

/* ORR_OK for cudaSuccess. Else sets the error: "cudaMalloc: error 2 (cudaErrorMemoryAllocation):
 * out of memory; <what to do>", ORR_NO_MEMORY for that one, ORR_UNAVAILABLE for codes that say that
 * there is no GPU, driver or code to run with, else ORR_DEVICE_FAILED. The others are alike; their
 * libraries are loaded. */
enum orr_status orr__cuda_check(const struct orr__cuda_api *api, cudaError_t code, const char *call,
                                struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cublas_check(const struct orr__cuda_api *api, cublasStatus_t code,
                                  const char *call, struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__nccl_check(const struct orr__cuda_api *api, ncclResult_t code,
                                const char *call, struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cupti_check(const struct orr__cuda_api *api, CUptiResult code,
                                 const char *call, struct orr_error *error) ORR_MUST_CHECK;

#endif
