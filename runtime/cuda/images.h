/* The kernels' machine code: an image for each family of kernels, embedded in the plugin. (A plugin
 * built with CUDA_ROUTE=object has nvcc's own objects instead: object/images.c.)
 *
 *     struct orr__cuda_images images;
 *     status = orr__cuda_images_load(api, gpu, &images, error);
 *     queue->code = &images.code;
 *     ... orr__cuda_images_unload(api, &images);
 *
 * Threads: the host's. */
#ifndef ORR_RUNTIME_CUDA_IMAGES_H
#define ORR_RUNTIME_CUDA_IMAGES_H

#include <stddef.h>

#include "runtime/cuda/api.h"
#include "runtime/cuda/kernels/kernels.h"

/* Functions of the images, loaded for one GPU. */
struct orr__cuda_code {
    const void *functions[ORR__K_COUNT]; /* what cudaLaunchKernel takes */
};

/* Loaded images; all zeros: none. */
struct orr__cuda_images {
    struct orr__cuda_code code;
    cudaLibrary_t libraries[ORR__FAMILY_COUNT];
};

/* Loads every image for a GPU and looks up every kernel, so that whatever is missing is missing
 * now. The GPU is the current device afterwards. ORR_UNAVAILABLE: there is no code for this GPU
 * (names its compute capability, and those that there is code for); ORR_DEVICE_FAILED: the image
 * lacks a kernel, or a call failed. Nothing stays loaded on failure. */
enum orr_status orr__cuda_images_load(struct orr__cuda_api *api, int gpu,
                                      struct orr__cuda_images *out_images,
                                      struct orr_error *error) ORR_MUST_CHECK;

/* Unloads what is loaded; no kernel of it runs. Zeroes. */
void orr__cuda_images_unload(struct orr__cuda_api *api, struct orr__cuda_images *images);

/* A family's image as it is embedded, a fatbin; static storage. NULL and 0 in a plugin built with
 * CUDA_ROUTE=object. */
const void *orr__cuda_image(enum orr__cuda_family family, size_t *out_bytes);

/* orr__cuda_check of a call that loads kernels: a GPU without code is told by its capability. */
enum orr_status orr__cuda_images_check(const struct orr__cuda_api *api, int gpu, cudaError_t code,
                                       const char *call, struct orr_error *error) ORR_MUST_CHECK;

/* "80 90 100": the compute capabilities that there is machine code for; later ones are compiled
 * from the last one's PTX by the driver. */
const char *orr__cuda_architectures(void);

#endif
