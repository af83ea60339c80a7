/* The GPUs, versions, and the texts of errors. */
#include <stdio.h>
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum { CAPABILITY_MAJOR = 9, CAPABILITY_MINOR = 0 };

/* X(code, text): those that a program of ours may come to see, with CUDA's texts. */
#define ERRORS(X)                                                                                  \
    X(cudaSuccess, "no error")                                                                     \
    X(cudaErrorInvalidValue, "invalid argument")                                                   \
    X(cudaErrorMemoryAllocation, "out of memory")                                                  \
    X(cudaErrorInitializationError, "initialization error")                                        \
    X(cudaErrorCudartUnloading, "driver shutting down")                                            \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                             \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                        \
    X(cudaErrorStubLibrary, "CUDA driver is a stub library")                                       \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    X(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")            \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                                   \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                     \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                            \
    X(cudaErrorInvalidKernelImage, "device kernel image is invalid")                               \
    X(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device") \
    X(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")                            \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                   \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")             \
    X(cudaErrorSymbolNotFound, "named symbol not found")                                           \
    X(cudaErrorNotReady, "device not ready")                                                       \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                         \
    X(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                    \
    X(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                           \
    X(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                         \
    X(cudaErrorAssert, "device-side assert triggered")                                             \
    X(cudaErrorLaunchFailure, "unspecified launch failure")                                        \
    X(cudaErrorNotPermitted, "operation not permitted")                                            \
    X(cudaErrorNotSupported, "operation not supported")                                            \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")       \
    X(cudaErrorStreamCaptureInvalidated,                                                           \
      "operation failed due to a previous error during capture")                                   \
    X(cudaErrorStreamCaptureMerge,                                                                 \
      "operation would result in a merge of separate capture sequences")                           \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")     \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                        \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")  \
    X(cudaErrorStreamCaptureImplicit,                                                              \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
    X(cudaErrorCapturedEvent,                                                                      \
      "operation not permitted on an event last recorded in a capturing stream")                   \
    X(cudaErrorStreamCaptureWrongThread,                                                           \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
    X(cudaErrorUnknown, "unknown error")

static const char unrecognized[] = "unrecognized error code";

const char *cudaGetErrorName(cudaError_t code) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaGetErrorName, &fake);
    switch (fault ? -1 : (int)code) {
#define NAME(code, text)                                                                           \
    case code: return #code;
        ERRORS(NAME)
#undef NAME
    default: return unrecognized;
    }
}

const char *cudaGetErrorString(cudaError_t code) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaGetErrorString, &fake);
    if (fake && fake->options.refusal && code == cudaErrorInitializationError) {
        return fake->options.refusal;
    }
    switch (fault ? -1 : (int)code) {
#define STRING(code, text)                                                                         \
    case code: return text;
        ERRORS(STRING)
#undef STRING
    default: return unrecognized;
    }
}

cudaError_t cudaGetLastError(void) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaGetLastError, &fake);
    if (fault) {
        return (cudaError_t)fault;
    }
    int sticky = fake->sticky[ORR__CUDA_RUNTIME];
    cudaError_t last = sticky ? (cudaError_t)sticky : fake->last_error;
    fake->last_error = cudaSuccess;
    return last;
}

cudaError_t cudaRuntimeGetVersion(int *out_version) {
    ORR__FAKE_ENTER(cudaError_t, cudaRuntimeGetVersion);
    *out_version = CUDART_VERSION;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *out_version) {
    ORR__FAKE_ENTER(cudaError_t, cudaDriverGetVersion);
    int driver = fake->options.driver_version;
    *out_version = driver == 0 || driver == ORR_FAKE_NO_GPU ? CUDART_VERSION
                   : driver < 0                             ? 0
                                                            : driver;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *out_count) {
    *out_count = 0;
    ORR__FAKE_ENTER(cudaError_t, cudaGetDeviceCount);
    *out_count = (int)fake->options.gpu_count;
    return orr__fake_leave(fake, cudaSuccess);
}

static bool is_gpu(const struct orr_fake_cuda *fake, int device) {
    return device >= 0 && device < (int)fake->options.gpu_count;
}

cudaError_t cudaSetDevice(int device) {
    ORR__FAKE_ENTER(cudaError_t, cudaSetDevice);
    if (!is_gpu(fake, device)) {
        return orr__fake_leave(fake, cudaErrorInvalidDevice);
    }
    fake->device = device;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaGetDevice(int *out_device) {
    ORR__FAKE_ENTER(cudaError_t, cudaGetDevice);
    *out_device = fake->device;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *out_value, enum cudaDeviceAttr attribute, int device) {
    ORR__FAKE_ENTER(cudaError_t, cudaDeviceGetAttribute);
    *out_value = 0;
    if (!is_gpu(fake, device)) {
        return orr__fake_leave(fake, cudaErrorInvalidDevice);
    }
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *out_value = CAPABILITY_MAJOR; break;
    case cudaDevAttrComputeCapabilityMinor: *out_value = CAPABILITY_MINOR; break;
    case cudaDevAttrMultiProcessorCount: *out_value = ORR__FAKE_SM_COUNT; break;
    case cudaDevAttrL2CacheSize: *out_value = 1 << 20; break;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate: *out_value = 1000000; break; /* kHz */
    case cudaDevAttrGlobalMemoryBusWidth: *out_value = 4096; break;
    case cudaDevAttrAsyncEngineCount: *out_value = 2; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *out_value = ORR__FAKE_SHARED_BYTES; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *out_value = ORR__FAKE_SHARED_BYTES_OPTIN; break;
    case cudaDevAttrWarpSize: *out_value = 32; break;
    case cudaDevAttrMaxThreadsPerBlock: *out_value = 1024; break;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels: *out_value = 1; break;
    default: return orr__fake_leave(fake, cudaErrorInvalidValue); /* none that we know */
    }
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out_properties, int device) {
    ORR__FAKE_ENTER(cudaError_t, cudaGetDeviceProperties);
    if (!out_properties || !is_gpu(fake, device)) {
        return orr__fake_leave(fake,
                               out_properties ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    }
    memset(out_properties, 0, sizeof *out_properties);
    snprintf(out_properties->name, sizeof out_properties->name, "Fake CUDA device");
    out_properties->totalGlobalMem = fake->options.memory_bytes;
    out_properties->major = CAPABILITY_MAJOR;
    out_properties->minor = CAPABILITY_MINOR;
    out_properties->multiProcessorCount = ORR__FAKE_SM_COUNT;
    out_properties->warpSize = 32;
    return orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *out_can, int device, int peer) {
    ORR__FAKE_ENTER(cudaError_t, cudaDeviceCanAccessPeer);
    *out_can = 0;
    if (!is_gpu(fake, device) || !is_gpu(fake, peer)) {
        return orr__fake_leave(fake, cudaErrorInvalidDevice);
    }
    *out_can = device != peer;
    return orr__fake_leave(fake, cudaSuccess);
}
