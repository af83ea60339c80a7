/* GPUs and the logical devices that they host; events. */
#include "runtime/cuda/probe.h"

#include <assert.h>

#include "runtime/cuda/cuda_internal.h"

enum orr_status orr__cuda_use(struct cuda_backend *backend, const struct cuda_gpu *gpu,
                              struct orr_error *error) {
    if (backend->lost)
        return orr_error_set(error, ORR_DEVICE_FAILED, "%s", backend->loss.text);
    if (backend->current_gpu == (int64_t)gpu->index)
        return ORR_OK;
    enum orr_status status = orr__cuda_check(
        backend->api, backend->api->rt.cudaSetDevice((int)gpu->index), "cudaSetDevice", error);
    backend->current_gpu = status == ORR_OK ? (int64_t)gpu->index : -1;
    return status;
}

/* --- events --- */

enum orr_status orr__cuda_event_take(struct cuda_backend *backend, struct cuda_gpu *gpu,
                                     cudaEvent_t *out_event, struct orr_error *error) {
    *out_event = NULL;
    if (gpu->event_count > 0) {
        *out_event = gpu->events[--gpu->event_count];
        return ORR_OK;
    }
    if (orr_memory_grow(backend->memory, &gpu->events, &gpu->event_capacity, gpu->event_total + 1,
                        sizeof *gpu->events, CUDA_EVENTS_MAX) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for event %zu",
                             gpu->event_total + 1);
    enum orr_status status = orr__cuda_use(backend, gpu, error);
    if (status != ORR_OK)
        return status;
    status = orr__cuda_check(backend->api,
                             backend->api->rt.cudaEventCreateWithFlags(
                                 out_event, orr__cuda_times_event_flags(backend->times)),
                             "cudaEventCreateWithFlags", error);
    gpu->event_total += status == ORR_OK;
    return status;
}

void orr__cuda_event_give(struct cuda_gpu *gpu, cudaEvent_t *event) {
    if (!*event)
        return;
    assert(gpu->event_count < gpu->event_total);
    gpu->events[gpu->event_count++] = *event;
    *event = NULL;
}

/* --- GPUs --- */

static enum orr_status attribute(const struct cuda_backend *backend, enum cudaDeviceAttr which,
                                 uint32_t gpu, int *out_value, struct orr_error *error) {
    *out_value = 0;
    return orr__cuda_check(backend->api,
                           backend->api->rt.cudaDeviceGetAttribute(out_value, which, (int)gpu),
                           "cudaDeviceGetAttribute", error);
}

/* Loads the kernels, which makes the GPU's context. */
static enum orr_status gpu_open(struct cuda_backend *backend, struct cuda_gpu *gpu,
                                struct orr_error *error) {
    struct orr__cuda_api *api = backend->api;
    int sm_count;
    enum orr_status status =
        attribute(backend, cudaDevAttrMultiProcessorCount, gpu->index, &sm_count, error);
    gpu->sm_count = sm_count > 0 ? (uint32_t)sm_count : 1;
    if (status == ORR_OK)
        status = orr__cuda_use(backend, gpu, error);
    if (status == ORR_OK)
        status = orr__cuda_images_load(api, (int)gpu->index, &gpu->images, error);
    if (status == ORR_OK)
        status = orr__cuda_check(
            api, api->rt.cudaDeviceGetStreamPriorityRange(&gpu->priority_low, &gpu->priority_high),
            "cudaDeviceGetStreamPriorityRange", error);
    return status;
}

static void gpu_close(struct cuda_backend *backend, struct cuda_gpu *gpu) {
    (void)orr__cuda_use(backend, gpu, NULL);
    for (size_t i = 0; i < gpu->event_count; i++)
        (void)backend->api->rt.cudaEventDestroy(gpu->events[i]);
    orr_memory_free(backend->memory, gpu->events);
    orr__cuda_images_unload(backend->api, &gpu->images);
}

static struct cuda_gpu *gpu_find(struct cuda_backend *backend, uint32_t index) {
    for (uint32_t i = 0; i < backend->gpu_count; i++)
        if (backend->gpus[i].index == index)
            return &backend->gpus[i];
    return NULL;
}

/* Opens the GPUs of all devices, each once. Devices keep pointers, so the array doesn't grow. */
static enum orr_status gpus_open(struct cuda_backend *backend, struct orr_error *error) {
    const struct orr_cuda_options *options = backend->config.options;
    uint32_t there;
    enum orr_status status = orr__cuda_probe_gpus(backend->api, &there, error);
    for (uint32_t i = 0; status == ORR_OK && i < backend->config.device_count; i++) {
        uint32_t index = options && options->gpus ? options->gpus[i] : 0;
        if (index >= there)
            return orr_error_set(error, ORR_UNAVAILABLE,
                                 "cuda: device %u is to be on GPU %u, but there %s %u, counted "
                                 "from 0",
                                 i, index, there == 1 ? "is only" : "are only", there);
        struct cuda_gpu *gpu = gpu_find(backend, index);
        if (!gpu) {
            gpu = &backend->gpus[backend->gpu_count++];
            gpu->index = index;
            status = gpu_open(backend, gpu, error);
        }
        backend->devices[i].gpu = gpu;
    }
    return status;
}

/* --- logical devices --- */

/* A pool has no limit of its own: capacity is the host layer's business, and what kernels need
 * besides buffers (workspaces, scratch) is in it too. It keeps what it once got. */
static enum orr_status pool_create(struct cuda_backend *backend, struct cuda_device *device,
                                   struct orr_error *error) {
    struct orr__cuda_api *api = backend->api;
    struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = cudaMemHandleTypeNone,
        .location = {.type = cudaMemLocationTypeDevice, .id = (int)device->gpu->index}};
    enum orr_status status = orr__cuda_check(
        api, api->rt.cudaMemPoolCreate(&device->pool, &properties), "cudaMemPoolCreate", error);
    if (status != ORR_OK) {
        device->pool = NULL;
        return status;
    }
    uint64_t keep = UINT64_MAX;
    return orr__cuda_check(
        api, api->rt.cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute", error);
}

/* Kernels and NCCL of the run's other GPUs may use the pool's memory, if the GPUs reach each other.
 * Access to peers as such does not include memory of pools. */
static enum orr_status pool_share(struct cuda_backend *backend, struct cuda_device *device,
                                  struct orr_error *error) {
    struct orr__cuda_api *api = backend->api;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < backend->gpu_count; i++) {
        const struct cudaMemAccessDesc access = {
            .location = {.type = cudaMemLocationTypeDevice, .id = (int)backend->gpus[i].index},
            .flags = cudaMemAccessFlagsProtReadWrite};
        int can = 0;
        if (&backend->gpus[i] != device->gpu)
            status = orr__cuda_check(
                api,
                api->rt.cudaDeviceCanAccessPeer(&can, access.location.id, (int)device->gpu->index),
                "cudaDeviceCanAccessPeer", error);
        if (status == ORR_OK && can)
            status = orr__cuda_check(api, api->rt.cudaMemPoolSetAccess(device->pool, &access, 1),
                                     "cudaMemPoolSetAccess", error);
    }
    return status;
}

static enum orr_status device_open(struct cuda_backend *backend, struct cuda_device *device,
                                   struct orr_error *error) {
    struct orr__cuda_api *api = backend->api;
    enum orr_status status = orr__cuda_use(backend, device->gpu, error);
    if (status == ORR_OK)
        status = pool_create(backend, device, error);
    if (status == ORR_OK)
        status = pool_share(backend, device, error);
    if (status == ORR_OK)
        status =
            orr__cuda_check(api,
                            api->rt.cudaStreamCreateWithPriority(
                                &device->stream, cudaStreamNonBlocking, device->gpu->priority_low),
                            "cudaStreamCreateWithPriority", error);
    return status;
}

enum orr_status orr__cuda_devices_open(struct cuda_backend *backend, struct orr_error *error) {
    uint32_t count = backend->config.device_count;
    backend->gpus = orr_memory_alloc(backend->memory, count * sizeof *backend->gpus);
    backend->devices = orr_memory_alloc(backend->memory, count * sizeof *backend->devices);
    if (!backend->gpus || !backend->devices)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for %u devices", count);
    enum orr_status status = gpus_open(backend, error);
    for (uint32_t i = 0; status == ORR_OK && i < count; i++) {
        uint32_t depth = backend->config.specs[i].queue_depth;
        backend->devices[i].depth = depth > 0 ? depth : CUDA_DEPTH_DEFAULT;
        status = device_open(backend, &backend->devices[i], error);
    }
    return status;
}

static void device_close(struct cuda_backend *backend, struct cuda_device *device) {
    if (!device->gpu)
        return;
    (void)orr__cuda_use(backend, device->gpu, NULL);
    if (device->stream) {
        (void)backend->api->rt.cudaStreamSynchronize(device->stream);
        (void)backend->api->rt.cudaStreamDestroy(device->stream);
    }
    if (device->pool)
        (void)backend->api->rt.cudaMemPoolDestroy(device->pool);
}

void orr__cuda_devices_close(struct cuda_backend *backend) {
    for (uint32_t i = 0; backend->devices && i < backend->config.device_count; i++)
        device_close(backend, &backend->devices[i]);
    for (uint32_t i = 0; i < backend->gpu_count; i++)
        gpu_close(backend, &backend->gpus[i]);
    orr_memory_free(backend->memory, backend->devices);
    orr_memory_free(backend->memory, backend->gpus);
}
