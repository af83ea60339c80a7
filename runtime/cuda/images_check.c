#include "runtime/cuda/images.h"

const char *orr__cuda_architectures(void) {
    return ORR__CUDA_ARCHITECTURES; /* from the makefile */
}

/* What is known about a GPU that there is no code for, best effort: the error is there already. */
static enum orr_status no_code(const struct orr__cuda_api *api, int gpu, cudaError_t code,
                               const char *call, struct orr_error *error) {
    int major = 0, minor = 0;
    (void)api->rt.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
    (void)api->rt.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
    return orr_error_set(
        error, ORR_UNAVAILABLE,
        "no code for GPU %d, of compute capability %d.%d, in this build, which has "
        "it for %s: build with make ARCHES='... %d%d' (%s: error %d (%s))",
        gpu, major, minor, orr__cuda_architectures(), major, minor, call, (int)code,
        api->rt.cudaGetErrorName(code));
}

enum orr_status orr__cuda_images_check(const struct orr__cuda_api *api, int gpu, cudaError_t code,
                                       const char *call, struct orr_error *error) {
    if (code == cudaErrorNoKernelImageForDevice)
        return no_code(api, gpu, code, call, error);
    return orr__cuda_check(api, code, call, error);
}
