/* The head and the end of every entry point: counting, charging, failing by plan, sticky errors. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

/* What a call costs its host in virtual time: round figures, of the order that CUDA's have. */
enum {
    CALL_NS = 500,       /* queries, records, waits */
    LAUNCH_NS = 2000,    /* kernels, copies, fills, host functions */
    GRAPH_NS = 5000,     /* launch of a graph */
    ALLOCATE_NS = 10000, /* memory, streams, libraries */
    TEXT_NS = 1
};

#define TEXT(function)     #function
#define EXPANDED(function) TEXT(function)

struct function {
    const char *text, *symbol;
    enum orr__cuda_library of;
};

static const struct function functions[ORR__FAKE_FUNCTION_COUNT] = {
/* Pasted before it is expanded; its text both ways. */
#define RUNTIME(function)                                                                          \
    [ORR__FAKE_##function] = {#function, EXPANDED(function), ORR__CUDA_RUNTIME},
#define BLAS(function)   [ORR__FAKE_##function] = {#function, EXPANDED(function), ORR__CUDA_BLAS},
#define BLASLT(function) [ORR__FAKE_##function] = {#function, EXPANDED(function), ORR__CUDA_BLASLT},
#define NCCL(function)   [ORR__FAKE_##function] = {#function, EXPANDED(function), ORR__CUDA_NCCL},
#define CUPTI(function)  [ORR__FAKE_##function] = {#function, EXPANDED(function), ORR__CUDA_CUPTI},
    ORR__CUDA_RUNTIME_LIST(RUNTIME) ORR__CUDA_BLAS_LIST(BLAS) ORR__CUDA_BLASLT_LIST(BLASLT)
        ORR__CUDA_NCCL_LIST(NCCL) ORR__CUDA_CUPTI_LIST(CUPTI)};

const char *orr__fake_function_text(enum orr__fake_function function) {
    return functions[function].text;
}

const char *orr__fake_function_symbol(enum orr__fake_function function) {
    return functions[function].symbol;
}

enum orr__cuda_library orr__fake_function_library(enum orr__fake_function function) {
    return functions[function].of;
}

static int64_t cost_of(enum orr__fake_function function) {
    switch (function) {
    case ORR__FAKE_cudaGetErrorName:
    case ORR__FAKE_cudaGetErrorString:
    case ORR__FAKE_cudaGetLastError:
    case ORR__FAKE_cuptiActivityGetNextRecord: return TEXT_NS;
    case ORR__FAKE_cudaLaunchKernel:
    case ORR__FAKE_cudaMemcpyAsync:
    case ORR__FAKE_cudaMemsetAsync:
    case ORR__FAKE_cudaLaunchHostFunc:
    case ORR__FAKE_cublasGemmEx:
    case ORR__FAKE_cublasGemmStridedBatchedEx:
    case ORR__FAKE_cublasLtMatmul:
    case ORR__FAKE_ncclGroupEnd: return LAUNCH_NS;
    case ORR__FAKE_cudaGraphLaunch: return GRAPH_NS;
    case ORR__FAKE_cudaMalloc:
    case ORR__FAKE_cudaFree:
    case ORR__FAKE_cudaMallocHost:
    case ORR__FAKE_cudaFreeHost:
    case ORR__FAKE_cudaMemPoolCreate:
    case ORR__FAKE_cudaStreamCreateWithPriority:
    case ORR__FAKE_cudaLibraryLoadData:
    case ORR__FAKE_cudaGraphInstantiate: return ALLOCATE_NS;
    default: return CALL_NS;
    }
}

/* Works without a driver, and after a sticky error. */
static bool needs_no_device(enum orr__fake_function function) {
    switch (function) {
    case ORR__FAKE_cudaGetErrorName:
    case ORR__FAKE_cudaGetErrorString:
    case ORR__FAKE_cudaGetLastError:
    case ORR__FAKE_cudaRuntimeGetVersion:
    case ORR__FAKE_cudaDriverGetVersion:
    case ORR__FAKE_cublasGetStatusString:
    case ORR__FAKE_cublasGetVersion:
    case ORR__FAKE_ncclGetVersion:
    case ORR__FAKE_ncclGetErrorString:
    case ORR__FAKE_ncclGetLastError:
    case ORR__FAKE_cuptiGetVersion:
    case ORR__FAKE_cuptiGetResultString:
    case ORR__FAKE_cuptiGetTimestamp:
    case ORR__FAKE_cuptiActivityRegisterCallbacks: return true;
    default: return false;
    }
}

static bool survives_errors(enum orr__fake_function function) {
    return needs_no_device(function) || function == ORR__FAKE_cudaGetDeviceCount ||
           function == ORR__FAKE_cudaGetDevice;
}

/* What the libraries answer without a driver (measured with CUDA 13.0 on a machine without one). */
static int without_driver(const struct orr_fake_cuda *fake, enum orr__fake_function function) {
    int driver = fake->options.driver_version;
    bool enough = driver == 0 || driver / 1000 >= CUDART_VERSION / 1000;
    if ((enough && !fake->options.refusal) || needs_no_device(function)) {
        return 0;
    }
    switch (functions[function].of) {
    case ORR__CUDA_RUNTIME:
        return fake->options.refusal            ? cudaErrorInitializationError
               : driver == ORR_FAKE_STUB_DRIVER ? cudaErrorStubLibrary
               : driver == ORR_FAKE_NO_GPU      ? cudaErrorNoDevice
                                                : cudaErrorInsufficientDriver;
    case ORR__CUDA_NCCL: return ncclUnhandledCudaError;
    case ORR__CUDA_CUPTI: return CUPTI_ERROR_UNKNOWN;
    default: return CUBLAS_STATUS_NOT_INITIALIZED;
    }
}

/* What a call answers once CUDA, or its own library, has failed for good. */
static int sticky_error(struct orr_fake_cuda *fake, enum orr__fake_function function) {
    enum orr__cuda_library library = functions[function].of;
    int found = atomic_load_explicit(&fake->device_error, memory_order_relaxed);
    if (found && !fake->sticky[ORR__CUDA_RUNTIME]) {
        fake->sticky[ORR__CUDA_RUNTIME] = found;
    }
    if (survives_errors(function)) {
        return 0;
    }
    if (fake->sticky[library] || !fake->sticky[ORR__CUDA_RUNTIME]) {
        return fake->sticky[library];
    }
    return library == ORR__CUDA_CUPTI  ? 0
           : library == ORR__CUDA_NCCL ? ncclUnhandledCudaError
                                       : CUBLAS_STATUS_EXECUTION_FAILED;
}

static int planned(struct orr_fake_cuda *fake, enum orr__fake_function function) {
    for (uint32_t i = 0; i < fake->fault_count; i++) {
        const struct orr__fake_fault *fault = &fake->faults[i];
        if (fault->function != (uint32_t)function || fault->nth != fake->calls[function]) {
            continue;
        }
        enum orr__cuda_library library = functions[function].of;
        if (fault->sticky) {
            fake->sticky[library] = fault->code;
            if (library == ORR__CUDA_RUNTIME) {
                atomic_store_explicit(&fake->device_error, fault->code, memory_order_relaxed);
            }
        }
        return fault->code;
    }
    return 0;
}

static int answer(struct orr_fake_cuda *fake, enum orr__fake_function function) {
    int code = without_driver(fake, function);
    code = code ? code : sticky_error(fake, function);
    return code ? code : planned(fake, function);
}

int orr__fake_enter(enum orr__fake_function function, struct orr_fake_cuda **out_fake) {
    struct orr_fake_cuda *fake = orr__fake_current();
    *out_fake = fake;
    if (!fake) {
        return cudaErrorInitializationError;
    }
    if (!orr__fake_may_call(fake)) {
        *out_fake = NULL;
        return cudaErrorNotPermitted;
    }
    fake->calls[function]++;
    fake->call = (struct orr__fake_called){
        .function = function, .correlation = ++fake->correlation, .begin_ns = orr__fake_now(fake)};
    orr__fake_spend(fake, cost_of(function));
    int code = answer(fake, function);
    if (code && functions[function].of == ORR__CUDA_RUNTIME) {
        orr__fake_leave(fake, (cudaError_t)code);
    }
    return code;
}

cudaError_t orr__fake_leave(struct orr_fake_cuda *fake, cudaError_t code) {
    if (code != cudaSuccess) {
        fake->last_error = code;
    }
    fake->call.code = (int)code;
    fake->call.end_ns = orr__fake_now(fake);
    if (fake->observer.called) {
        fake->observer.called(fake->observer.context, &fake->call);
    }
    return code;
}
