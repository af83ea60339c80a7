/* Memory of logical devices and pinned memory of the host.
 *
 * Each logical device has a pool, from which memory comes in the order of a stream of its own; the
 * host waits for it, so that an address is good in every stream. All who used memory have retired
 * when it goes, so it goes in that stream's order, without a wait. */
#include <assert.h>
#include <string.h>

#include "runtime/cuda/cuda_internal.h"

static enum orr_status settle(const struct cuda_backend *backend, const struct cuda_device *device,
                              struct orr_error *error) {
    return orr__cuda_check(backend->api, backend->api->rt.cudaStreamSynchronize(device->stream),
                           "cudaStreamSynchronize", error);
}

/* Of a call that found no memory, or failed otherwise: what was asked of whom. */
static enum orr_status explain(struct cuda_backend *backend, enum orr_status status,
                               uint32_t device, uint64_t bytes, struct orr_error *error) {
    size_t free_bytes = 0, total_bytes = 0;
    if (backend->lost || (status != ORR_NO_MEMORY && orr__cuda_check_lost(backend, error)))
        return status;
    (void)backend->api->rt.cudaGetLastError();
    if (device == ORR_ID_NONE) {
        orr_error_prefix(error, "pinned host memory: asked for %llu bytes",
                         (unsigned long long)bytes);
        return status;
    }
    uint32_t gpu = backend->devices[device].gpu->index;
    if (status == ORR_NO_MEMORY &&
        backend->api->rt.cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        orr_error_prefix(error, "device %u on GPU %u: asked for %llu bytes, free are %zu of %zu",
                         device, gpu, (unsigned long long)bytes, free_bytes, total_bytes);
    else
        orr_error_prefix(error, "device %u on GPU %u: asked for %llu bytes", device, gpu,
                         (unsigned long long)bytes);
    return status;
}

static enum orr_status take_pinned(const struct cuda_backend *backend, uint64_t bytes,
                                   void **out_pointer, struct orr_error *error) {
    if (backend->lost)
        return orr_error_set(error, ORR_DEVICE_FAILED, "%s", backend->loss.text);
    return orr__cuda_check(backend->api, backend->api->rt.cudaMallocHost(out_pointer, bytes),
                           "cudaMallocHost", error);
}

static enum orr_status take_device(struct cuda_backend *backend, const struct cuda_device *device,
                                   uint64_t bytes, void **out_pointer, struct orr_error *error) {
    struct orr__cuda_api *api = backend->api;
    enum orr_status status = orr__cuda_use(backend, device->gpu, error);
    if (status == ORR_OK)
        status = orr__cuda_check(
            api, api->rt.cudaMallocFromPoolAsync(out_pointer, bytes, device->pool, device->stream),
            "cudaMallocFromPoolAsync", error);
    if (status != ORR_OK) {
        *out_pointer = NULL;
        return status;
    }
    status = settle(backend, device, error);
    if (status != ORR_OK)
        (void)api->rt.cudaFreeAsync(*out_pointer, device->stream);
    return status;
}

enum orr_status orr__cuda_memory_create(struct orr_backend *base, uint32_t device, uint64_t bytes,
                                        uint32_t *out_memory, struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    *out_memory = ORR_ID_NONE;
    if (device >= backend->config.device_count && device != ORR_ID_NONE)
        return orr_error_set(error, ORR_INVALID, "no device %u, there are %u", device,
                             backend->config.device_count);
    if (orr_memory_grow(backend->memory, &backend->memories, &backend->memory_capacity,
                        backend->memory_count + 1, sizeof *backend->memories,
                        ORR_ID_NONE) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory to note a block of memory");
    struct cuda_memory *memory = &backend->memories[backend->memory_count];
    *memory = (struct cuda_memory){.device = device};
    bytes = bytes > 0 ? bytes : 1;
    enum orr_status status =
        device == ORR_ID_NONE
            ? take_pinned(backend, bytes, &memory->pointer, error)
            : take_device(backend, &backend->devices[device], bytes, &memory->pointer, error);
    if (status != ORR_OK)
        return explain(backend, status, device, bytes, error);
    assert((uintptr_t)memory->pointer % ORR_LINE_BYTES == 0);
    memory->live = true;
    *out_memory = (uint32_t)backend->memory_count++;
    return ORR_OK;
}

static struct cuda_memory *memory_find(struct cuda_backend *backend, uint32_t memory) {
    assert(memory < backend->memory_count && backend->memories[memory].live);
    return &backend->memories[memory];
}

static void memory_drop(struct cuda_backend *backend, struct cuda_memory *memory) {
    if (memory->device == ORR_ID_NONE) {
        (void)backend->api->rt.cudaFreeHost(memory->pointer);
    } else {
        const struct cuda_device *device = &backend->devices[memory->device];
        (void)orr__cuda_use(backend, device->gpu, NULL);
        (void)backend->api->rt.cudaFreeAsync(memory->pointer, device->stream);
    }
    *memory = (struct cuda_memory){0};
}

void orr__cuda_memory_destroy(struct orr_backend *base, uint32_t memory) {
    struct cuda_backend *backend = orr__cuda(base);
    memory_drop(backend, memory_find(backend, memory));
}

void *orr__cuda_memory_pointer(struct orr_backend *base, uint32_t memory) {
    return memory_find(orr__cuda(base), memory)->pointer;
}

enum orr_status orr__cuda_memory_write(struct orr_backend *base, uint32_t id, uint64_t offset,
                                       const void *from, uint64_t bytes, struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    struct orr__cuda_api *api = backend->api;
    const struct cuda_memory *memory = memory_find(backend, id);
    char *to = (char *)memory->pointer + offset;
    if (memory->device == ORR_ID_NONE) {
        from ? memcpy(to, from, bytes) : memset(to, 0, bytes);
        return ORR_OK;
    }
    const struct cuda_device *device = &backend->devices[memory->device];
    enum orr_status status = orr__cuda_use(backend, device->gpu, error);
    if (status == ORR_OK && from)
        status = orr__cuda_check(
            api, api->rt.cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device->stream),
            "cudaMemcpyAsync", error);
    else if (status == ORR_OK)
        status = orr__cuda_check(api, api->rt.cudaMemsetAsync(to, 0, bytes, device->stream),
                                 "cudaMemsetAsync", error);
    if (status == ORR_OK)
        status = settle(backend, device, error);
    if (status != ORR_OK && error)
        (void)orr__cuda_check_lost(backend, error);
    return status;
}

void orr__cuda_memories_clear(struct cuda_backend *backend) {
    for (size_t i = 0; i < backend->memory_count; i++)
        if (backend->memories[i].live)
            memory_drop(backend, &backend->memories[i]);
    orr_memory_free(backend->memory, backend->memories);
}
