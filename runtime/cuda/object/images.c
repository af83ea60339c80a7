/* images.h for a plugin that is built with `make CUDA_ROUTE=object`: should some driver not take
 * the embedded images, the kernels are in objects that nvcc made, which register their code with
 * the CUDA runtime when the plugin is loaded. Such a plugin is linked with that runtime, so the one
 * it is linked with must be the one that library.h finds. */
#include "runtime/cuda/images.h"

/* What nvcc leaves on the host for a kernel, under the kernel's name: its address is what
 * cudaLaunchKernel knows it by. */
#define STUB(family, kernel, type) extern const char orr__stub_##kernel[] __asm__(#kernel);
ORR__CUDA_KERNEL_LIST(STUB)
#undef STUB

static const struct {
    const char *name;
    const void *stub;
} kernels[ORR__K_COUNT] = {
#define ROW(family, kernel, type) [ORR__K_##kernel] = {#kernel, orr__stub_##kernel},
    ORR__CUDA_KERNEL_LIST(ROW)
#undef ROW
};

const void *orr__cuda_image(enum orr__cuda_family family, size_t *out_bytes) {
    (void)family;
    *out_bytes = 0;
    return NULL;
}

/* Setting what is set already makes the runtime load the kernel, or say why it can't. */
static enum orr_status find_kernel(struct orr__cuda_api *api, int gpu, enum orr__cuda_kernel kernel,
                                   struct orr_error *error) {
    cudaError_t code = api->rt.cudaFuncSetAttribute(kernels[kernel].stub,
                                                    cudaFuncAttributePreferredSharedMemoryCarveout,
                                                    cudaSharedmemCarveoutDefault);
    enum orr_status status = orr__cuda_images_check(api, gpu, code, "cudaFuncSetAttribute", error);
    if (status != ORR_OK)
        orr_error_prefix(error, "kernel %s", kernels[kernel].name);
    return status;
}

enum orr_status orr__cuda_images_load(struct orr__cuda_api *api, int gpu,
                                      struct orr__cuda_images *out_images,
                                      struct orr_error *error) {
    *out_images = (struct orr__cuda_images){0};
    enum orr_status status =
        orr__cuda_check(api, api->rt.cudaSetDevice(gpu), "cudaSetDevice", error);
    for (int kernel = 0; kernel < ORR__K_COUNT && status == ORR_OK; kernel++) {
        out_images->code.functions[kernel] = kernels[kernel].stub;
        status = find_kernel(api, gpu, (enum orr__cuda_kernel)kernel, error);
    }
    return status;
}

void orr__cuda_images_unload(struct orr__cuda_api *api, struct orr__cuda_images *images) {
    (void)api; /* the runtime unloads them when the process ends */
    *images = (struct orr__cuda_images){0};
}
