#include "runtime/cuda/images.h"

/* Defined by image.S; hidden, so that they are reached without relocations. */
#define SYMBOLS(family)                                                                            \
    extern const unsigned char orr__cuda_image_##family[] __attribute__((visibility("hidden")));   \
    extern const unsigned char orr__cuda_image_end_##family[] __attribute__((visibility("hidden")));
ORR__CUDA_FAMILY_LIST(SYMBOLS)
#undef SYMBOLS

static const struct {
    const char *name;
    const unsigned char *begin, *end;
} images_of[ORR__FAMILY_COUNT] = {
#define ROW(family)                                                                                \
    [ORR__FAMILY_##family] = {#family, orr__cuda_image_##family, orr__cuda_image_end_##family},
    ORR__CUDA_FAMILY_LIST(ROW)
#undef ROW
};

static const struct {
    const char *name;
    enum orr__cuda_family family;
} kernels[ORR__K_COUNT] = {
#define ROW(family, kernel, type) [ORR__K_##kernel] = {#kernel, ORR__FAMILY_##family},
    ORR__CUDA_KERNEL_LIST(ROW)
#undef ROW
};

const void *orr__cuda_image(enum orr__cuda_family family, size_t *out_bytes) {
    *out_bytes = (size_t)(images_of[family].end - images_of[family].begin);
    return images_of[family].begin;
}

static enum orr_status find_kernel(struct orr__cuda_api *api, int gpu, enum orr__cuda_kernel kernel,
                                   struct orr__cuda_images *images, struct orr_error *error) {
    enum orr__cuda_family family = kernels[kernel].family;
    cudaKernel_t found = NULL;
    cudaError_t code =
        api->rt.cudaLibraryGetKernel(&found, images->libraries[family], kernels[kernel].name);
    if (code == cudaErrorSymbolNotFound)
        return orr_error_set(error, ORR_DEVICE_FAILED,
                             "cudaLibraryGetKernel: error %d (%s): the image %s has no kernel %s: "
                             "the plugin is not built as a whole",
                             (int)code, api->rt.cudaGetErrorName(code), images_of[family].name,
                             kernels[kernel].name);
    images->code.functions[kernel] = (const void *)found;
    return orr__cuda_images_check(api, gpu, code, "cudaLibraryGetKernel", error);
}

enum orr_status orr__cuda_images_load(struct orr__cuda_api *api, int gpu,
                                      struct orr__cuda_images *out_images,
                                      struct orr_error *error) {
    *out_images = (struct orr__cuda_images){0};
    enum orr_status status =
        orr__cuda_check(api, api->rt.cudaSetDevice(gpu), "cudaSetDevice", error);
    for (int family = 0; family < ORR__FAMILY_COUNT && status == ORR_OK; family++) {
        cudaError_t code = api->rt.cudaLibraryLoadData(
            &out_images->libraries[family], images_of[family].begin, NULL, NULL, 0, NULL, NULL, 0);
        if (code != cudaSuccess)
            out_images->libraries[family] = NULL;
        status = orr__cuda_images_check(api, gpu, code, "cudaLibraryLoadData", error);
    }
    for (int kernel = 0; kernel < ORR__K_COUNT && status == ORR_OK; kernel++)
        status = find_kernel(api, gpu, (enum orr__cuda_kernel)kernel, out_images, error);
    if (status != ORR_OK)
        orr__cuda_images_unload(api, out_images);
    return status;
}

void orr__cuda_images_unload(struct orr__cuda_api *api, struct orr__cuda_images *images) {
    for (int family = 0; family < ORR__FAMILY_COUNT; family++)
        if (images->libraries[family])
            (void)api->rt.cudaLibraryUnload(images->libraries[family]);
    *images = (struct orr__cuda_images){0};
}
