#include "runtime/cuda/api.h"

enum orr_status orr__cuda_need(struct orr__cuda_api *api, enum orr__cuda_library library,
                               struct orr_error *error) {
    if (api->loaded[library])
        return ORR_OK;
    enum orr_status status = api->load(api, library, error);
    api->loaded[library] = status == ORR_OK;
    return status;
}

/* What to do about a code, for those where it can be known. */
struct advice {
    int code;
    const char *text;
};

#define NO_CODE                                                                                    \
    "the plugin has no code for this GPU: build it with make ARCHES=... for its compute capability"
#define LOST   "what the GPU held is lost, and the process must be restarted"
#define BUSY   "see nvidia-smi for who uses it"
#define REPORT "this should not happen: please report it"

static const struct advice cuda_advice[] = {
    {cudaErrorInvalidValue, REPORT},
    {cudaErrorMemoryAllocation,
     "the GPU is full: fewer or smaller logical devices on it, or " BUSY},
    {cudaErrorStubLibrary,
     "libcuda.so.1 on the library path is the toolkit's link-time stub, not a driver"},
    {cudaErrorInsufficientDriver, "orrery doctor says what driver there is"},
    {cudaErrorCallRequiresNewerDriver, "a newer NVIDIA driver is needed"},
    {cudaErrorDevicesUnavailable, "another process has the GPU for itself: " BUSY},
    {cudaErrorInvalidDeviceFunction, NO_CODE},
    {cudaErrorNoDevice, "no GPU is visible: is CUDA_VISIBLE_DEVICES set?"},
    {cudaErrorInvalidDevice, "orrery doctor lists the GPUs that are visible"},
    {cudaErrorInvalidKernelImage, NO_CODE},
    {cudaErrorNoKernelImageForDevice, NO_CODE},
    {cudaErrorUnsupportedPtxVersion, "a newer NVIDIA driver is needed"},
    {cudaErrorECCUncorrectable, "the GPU's memory is defective: see nvidia-smi; " LOST},
    {cudaErrorNvlinkUncorrectable, "a link between GPUs is defective: see nvidia-smi; " LOST},
    {cudaErrorContained, LOST},
    {cudaErrorInvalidResourceHandle, REPORT},
    {cudaErrorIllegalAddress, "a kernel used memory that isn't its own; " LOST},
    {cudaErrorLaunchTimeout, "a kernel ran too long, as where a screen is attached; " LOST},
    {cudaErrorContextIsDestroyed, LOST},
    {cudaErrorAssert, LOST},
    {cudaErrorHardwareStackError, LOST},
    {cudaErrorIllegalInstruction, LOST},
    {cudaErrorMisalignedAddress, LOST},
    {cudaErrorInvalidAddressSpace, LOST},
    {cudaErrorInvalidPc, LOST},
    {cudaErrorLaunchFailure, LOST},
    {cudaErrorSystemNotReady,
     "does the fabric manager run (systemctl status nvidia-fabricmanager)?"},
    {cudaErrorSystemDriverMismatch,
     "the kernel's driver and libcuda.so.1 are of different versions: restart the machine"},
    {cudaErrorMpsConnectionFailed, "does the MPS daemon run?"},
    {cudaErrorStreamCaptureUnsupported, REPORT},
    {cudaErrorUnknown, "the kernel's log (dmesg) may say more"},
    {0, NULL}};

static const struct advice blas_advice[] = {
    {CUBLAS_STATUS_NOT_INITIALIZED, "without a driver or a GPU it can't start: see orrery doctor"},
    {CUBLAS_STATUS_ALLOC_FAILED, "the GPU is full: fewer or smaller logical devices on it"},
    {CUBLAS_STATUS_INVALID_VALUE, REPORT},
    {CUBLAS_STATUS_ARCH_MISMATCH, "this GPU is too old for the operation"},
    {CUBLAS_STATUS_EXECUTION_FAILED, LOST},
    {0, NULL}};

static const struct advice nccl_advice[] = {
    {ncclUnhandledCudaError, "NCCL_DEBUG=INFO makes NCCL say more"},
    {ncclSystemError, "NCCL_DEBUG=INFO makes NCCL say more"},
    {ncclInvalidArgument, REPORT},
    {ncclInvalidUsage, "two ranks on one GPU? --collectives emulated does that"},
    {ncclRemoteError, "another process of the run has ended, or the network is down"},
    {0, NULL}};

static const struct advice cupti_advice[] = {
    {CUPTI_ERROR_OUT_OF_MEMORY, "--timestamps events needs less memory"},
    {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
     "profiling is for administrators here: --timestamps events needs no right to it"},
    {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
     "another profiler has it: run without that, or with --timestamps events"},
    {CUPTI_ERROR_UNKNOWN, "without a driver it can't start: see orrery doctor"},
    {0, NULL}};

static const char *advice_for(const struct advice *list, int code) {
    while (list->text && list->code != code)
        list++;
    return list->text;
}

/* "call: error N (NAME): text; what to do", as far as there is one of each. */
static enum orr_status fail(struct orr_error *error, enum orr_status status, const char *call,
                            int code, const char *name, const char *text, const char *advice) {
    return orr_error_set(error, status, "%s: error %d (%s)%s%s%s%s", call, code, name,
                         text[0] ? ": " : "", text, advice ? "; " : "", advice ? advice : "");
}

static enum orr_status cuda_status(cudaError_t code) {
    switch (code) {
    case cudaErrorMemoryAllocation: return ORR_NO_MEMORY;
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch: return ORR_UNAVAILABLE;
    default: return ORR_DEVICE_FAILED;
    }
}

enum orr_status orr__cuda_check(const struct orr__cuda_api *api, cudaError_t code, const char *call,
                                struct orr_error *error) {
    if (code == cudaSuccess)
        return ORR_OK;
    return fail(error, cuda_status(code), call, (int)code, api->rt.cudaGetErrorName(code),
                api->rt.cudaGetErrorString(code), advice_for(cuda_advice, (int)code));
}

static const char *blas_name(cublasStatus_t code) {
    switch (code) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
    }
    return "unknown to this build";
}

/* cublasLt has the same codes, but no texts for them: cuBLAS' are used if it is loaded. */
enum orr_status orr__cublas_check(const struct orr__cuda_api *api, cublasStatus_t code,
                                  const char *call, struct orr_error *error) {
    if (code == CUBLAS_STATUS_SUCCESS)
        return ORR_OK;
    const char *text = api->loaded[ORR__CUDA_BLAS] ? api->blas.cublasGetStatusString(code) : "";
    enum orr_status status = code == CUBLAS_STATUS_ALLOC_FAILED ? ORR_NO_MEMORY : ORR_DEVICE_FAILED;
    return fail(error, status, call, (int)code, blas_name(code), text,
                advice_for(blas_advice, (int)code));
}

static const char *nccl_name(ncclResult_t code) {
    switch (code) {
    case ncclSuccess: return "ncclSuccess";
    case ncclUnhandledCudaError: return "ncclUnhandledCudaError";
    case ncclSystemError: return "ncclSystemError";
    case ncclInternalError: return "ncclInternalError";
    case ncclInvalidArgument: return "ncclInvalidArgument";
    case ncclInvalidUsage: return "ncclInvalidUsage";
    case ncclRemoteError: return "ncclRemoteError";
    case ncclInProgress: return "ncclInProgress";
    case ncclNumResults: break;
    }
    return "unknown to this build";
}

/* NCCL knows more than the code: what its last failed call said. */
enum orr_status orr__nccl_check(const struct orr__cuda_api *api, ncclResult_t code,
                                const char *call, struct orr_error *error) {
    if (code == ncclSuccess)
        return ORR_OK;
    const char *last = api->nccl.ncclGetLastError(NULL);
    const char *text = last && last[0] ? last : api->nccl.ncclGetErrorString(code);
    return fail(error, ORR_DEVICE_FAILED, call, (int)code, nccl_name(code), text,
                advice_for(nccl_advice, (int)code));
}

/* CUPTI's texts are the names of its codes. */
enum orr_status orr__cupti_check(const struct orr__cuda_api *api, CUptiResult code,
                                 const char *call, struct orr_error *error) {
    if (code == CUPTI_SUCCESS)
        return ORR_OK;
    const char *name = NULL;
    if (api->cupti.cuptiGetResultString(code, &name) != CUPTI_SUCCESS || !name)
        name = "unknown to this build";
    return fail(error, ORR_DEVICE_FAILED, call, (int)code, name, "",
                advice_for(cupti_advice, (int)code));
}
