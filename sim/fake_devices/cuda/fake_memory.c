/* Memory of GPUs, of pools, and pinned memory of the host: all of it is the host's, really.
 *
 * Blocks are sorted by address, so that any address is told from any other. A freed block stays for
 * a while, full of poison: who still reads it gets NaN, and who writes it is found out when it is
 * really freed, as a GPU's illegal address. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

enum {
    ALIGNMENT = 256,        /* of every block */
    FRESH = 0xffff,         /* 16 bits: NaN as f16, bf16, f32, f64 */
    POISON = 0xffde,        /* another NaN of all of these */
    FILLED_FRONT = 1 << 20, /* bytes of a large block */
    FILLED_BACK = 1 << 16,
    RESTING_BYTES = 8 << 20, /* of freed blocks; larger ones are freed at once */
    BLOCKS_MAX = 1 << 20
};

struct orr__fake_pool {
    struct orr__fake_pool *next;
    uint32_t device;
    uint64_t max, threshold, used, used_high;
    bool destroyed;
};

struct block {
    char *address;
    void *raw;             /* what was allocated */
    uint64_t bytes, freed; /* freed: 0, or the number of the freeing */
    uint32_t device;
    bool pinned;
    struct orr__fake_pool *pool;   /* NULL: none */
    struct orr__fake_work *ending; /* frees it in a stream */
};

struct orr__fake_blocks {
    struct block *items;
    size_t count, capacity;
    uint64_t used[ORR__FAKE_GPUS_MAX]; /* by GPU */
    uint64_t freed, resting_bytes;
};

static void fill_part(char *to, uint64_t bytes, uint16_t pattern) {
    uint16_t *at = (uint16_t *)(void *)to;
    for (uint64_t i = 0; i < bytes / sizeof *at; i++) {
        at[i] = pattern;
    }
    memcpy(to + bytes - bytes % sizeof *at, &pattern, bytes % sizeof *at);
}

static bool is_filled_part(const char *from, uint64_t bytes, uint16_t pattern) {
    const uint16_t *at = (const uint16_t *)(const void *)from;
    for (uint64_t i = 0; i < bytes / sizeof *at; i++) {
        if (at[i] != pattern) {
            return false;
        }
    }
    return memcmp(from + bytes - bytes % sizeof *at, &pattern, bytes % sizeof *at) == 0;
}

/* A large block is filled at its ends only: pages that nobody touches cost nothing, and it is
 * mostly room for many small things, which begins to be used at its front. Where the back begins,
 * an even offset; `bytes` if all is front. */
static uint64_t back_at(uint64_t bytes) {
    return bytes > FILLED_FRONT + FILLED_BACK ? (bytes - FILLED_BACK) / 2 * 2 : bytes;
}

static uint64_t front(uint64_t bytes) {
    return back_at(bytes) < bytes ? FILLED_FRONT : bytes;
}

static void fill(char *to, uint64_t bytes, uint16_t pattern) {
    fill_part(to, front(bytes), pattern);
    fill_part(to + back_at(bytes), bytes - back_at(bytes), pattern);
}

static bool is_filled(const char *from, uint64_t bytes, uint16_t pattern) {
    return is_filled_part(from, front(bytes), pattern) &&
           is_filled_part(from + back_at(bytes), bytes - back_at(bytes), pattern);
}

/* Index of the first block behind an address. */
static size_t behind(const struct orr__fake_blocks *blocks, const void *address) {
    size_t low = 0, high = blocks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)blocks->items[middle].address <= (uintptr_t)address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The block that holds an address, freed or not; NULL: none. */
static struct block *block_at(struct orr_fake_cuda *fake, const void *address) {
    size_t next = behind(fake->blocks, address);
    struct block *block = next > 0 ? &fake->blocks->items[next - 1] : NULL;
    bool inside = block && (uintptr_t)address - (uintptr_t)block->address < block->bytes;
    return inside ? block : NULL;
}

enum orr__fake_place orr__fake_where(struct orr_fake_cuda *fake, const void *address,
                                     uint64_t bytes, uint32_t *out_device) {
    const struct block *block = block_at(fake, address);
    *out_device = 0;
    if (!block) {
        return ORR__FAKE_PAGEABLE;
    }
    uint64_t offset = (uintptr_t)address - (uintptr_t)block->address;
    *out_device = block->device;
    return block->freed || bytes > block->bytes - offset ? ORR__FAKE_NOWHERE
           : block->pinned                               ? ORR__FAKE_PINNED
                                                         : ORR__FAKE_DEVICE;
}

/* Gives the memory back; a write after the free comes to light. */
static void drop(struct orr_fake_cuda *fake, size_t index) {
    struct orr__fake_blocks *blocks = fake->blocks;
    struct block *block = &blocks->items[index];
    if (block->freed && !is_filled(block->address, block->bytes, POISON)) {
        int none = 0;
        atomic_compare_exchange_strong(&fake->device_error, &none, cudaErrorIllegalAddress);
    }
    blocks->resting_bytes -= block->freed ? block->bytes : 0;
    orr__fake_work_release(fake, &block->ending);
    orr_memory_free(fake->memory, block->raw);
    memmove(block, block + 1, (blocks->count - index - 1) * sizeof *block);
    blocks->count--;
}

/* Drops the blocks that were freed first, until few enough rest. What is still to be freed in a
 * stream, for all the host knows, stays. */
static void drop_oldest(struct orr_fake_cuda *fake) {
    struct orr__fake_blocks *blocks = fake->blocks;
    while (blocks->resting_bytes > RESTING_BYTES) {
        size_t oldest = blocks->count;
        for (size_t i = 0; i < blocks->count; i++) {
            const struct block *b = &blocks->items[i];
            bool over = b->freed && (!b->ending || b->ending->collected);
            if (over && (oldest == blocks->count || b->freed < blocks->items[oldest].freed)) {
                oldest = i;
            }
        }
        if (oldest == blocks->count) {
            return;
        }
        drop(fake, oldest);
    }
}

static struct block *insert(struct orr_fake_cuda *fake, uint64_t bytes) {
    struct orr__fake_blocks *blocks = fake->blocks;
    drop_oldest(fake);
    if (bytes > SIZE_MAX - ALIGNMENT ||
        orr_memory_grow(fake->memory, &blocks->items, &blocks->capacity, blocks->count + 1,
                        sizeof *blocks->items, BLOCKS_MAX) != ORR_OK) {
        return NULL;
    }
    void *raw = orr_memory_resize(fake->memory, NULL, bytes + ALIGNMENT);
    if (!raw) {
        return NULL;
    }
    char *address = (char *)(((uintptr_t)raw + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    size_t at = behind(blocks, address);
    struct block *block = &blocks->items[at];
    memmove(block + 1, block, (blocks->count - at) * sizeof *block);
    blocks->count++;
    *block = (struct block){.address = address, .raw = raw, .bytes = bytes};
    return block;
}

/* The block is the program's no more. It is poisoned by now, or by `ending`. */
static void retire(struct orr_fake_cuda *fake, struct block *block, struct orr__fake_work *ending) {
    struct orr__fake_blocks *blocks = fake->blocks;
    if (block->pinned) {
        fake->census.host_allocations--;
    } else {
        fake->census.allocations--;
        blocks->used[block->device] -= block->bytes;
    }
    if (block->pool) {
        block->pool->used -= block->bytes;
        block->pool = NULL;
    }
    block->freed = ++blocks->freed;
    block->ending = ending;
    blocks->resting_bytes += block->bytes;
}

enum orr_status orr__fake_memory_open(struct orr_fake_cuda *fake) {
    fake->blocks = orr_memory_alloc(fake->memory, sizeof *fake->blocks);
    return fake->blocks ? ORR_OK : ORR_NO_MEMORY;
}

void orr__fake_memory_close(struct orr_fake_cuda *fake) {
    while (fake->blocks && fake->blocks->count > 0) {
        drop(fake, fake->blocks->count - 1);
    }
    while (fake->pools) {
        struct orr__fake_pool *pool = fake->pools;
        fake->pools = pool->next;
        orr_memory_free(fake->memory, pool);
    }
    if (fake->blocks) {
        orr_memory_free(fake->memory, fake->blocks->items);
    }
    orr_memory_free(fake->memory, fake->blocks);
}

/* --- memory of a GPU, pinned memory --- */

cudaError_t cudaMemGetInfo(size_t *out_free, size_t *out_total) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemGetInfo);
    *out_total = fake->options.memory_bytes;
    *out_free = *out_total - fake->blocks->used[fake->device];
    return orr__fake_leave(fake, cudaSuccess);
}

static bool has_room(const struct orr_fake_cuda *fake, uint32_t device, uint64_t bytes) {
    return bytes <= fake->options.memory_bytes - fake->blocks->used[device];
}

static cudaError_t make(struct orr_fake_cuda *fake, uint32_t device, uint64_t bytes,
                        struct block **out_block) {
    struct block *block = has_room(fake, device, bytes) ? insert(fake, bytes) : NULL;
    *out_block = block;
    if (!block) {
        return cudaErrorMemoryAllocation;
    }
    block->device = device;
    fake->blocks->used[device] += bytes;
    fake->census.allocations++;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out_pointer, size_t bytes) {
    ORR__FAKE_ENTER(cudaError_t, cudaMalloc);
    if (!out_pointer) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    *out_pointer = NULL;
    cudaError_t code = orr__fake_capture_forbids(fake);
    if (code == cudaSuccess && bytes > 0) {
        struct block *block;
        code = make(fake, (uint32_t)fake->device, bytes, &block);
        if (code == cudaSuccess) {
            fill(block->address, bytes, FRESH);
            *out_pointer = block->address;
        }
    }
    return orr__fake_leave(fake, code);
}

cudaError_t cudaMallocHost(void **out_pointer, size_t bytes) {
    ORR__FAKE_ENTER(cudaError_t, cudaMallocHost);
    if (!out_pointer) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    *out_pointer = NULL;
    cudaError_t code = orr__fake_capture_forbids(fake);
    if (code == cudaSuccess && bytes > 0) {
        struct block *block = insert(fake, bytes);
        if (!block) {
            return orr__fake_leave(fake, cudaErrorMemoryAllocation);
        }
        block->pinned = true;
        fake->census.host_allocations++;
        fill(block->address, bytes, FRESH);
        *out_pointer = block->address;
    }
    return orr__fake_leave(fake, code);
}

static void all_devices_wait(struct orr_fake_cuda *fake) {
    for (uint32_t i = 0; i < fake->options.gpu_count; i++) {
        orr__fake_device_wait(fake, i);
    }
}

/* Frees a whole block at once: whatever runs may still use it, so that it is waited for, as CUDA
 * does. */
static cudaError_t free_now(struct orr_fake_cuda *fake, void *pointer, bool pinned) {
    struct block *block = block_at(fake, pointer);
    if (!block || block->freed || block->address != pointer || block->pinned != pinned) {
        return cudaErrorInvalidValue;
    }
    all_devices_wait(fake);
    fill(block->address, block->bytes, POISON);
    retire(fake, block, NULL);
    return cudaSuccess;
}

static cudaError_t free_call(enum orr__fake_function function, void *pointer, bool pinned) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(function, &fake);
    if (!fake) {
        return (cudaError_t)fault;
    }
    cudaError_t forbidden = fault ? cudaSuccess : orr__fake_capture_forbids(fake);
    if (forbidden != cudaSuccess) {
        return orr__fake_leave(fake, forbidden);
    }
    cudaError_t code = pointer ? free_now(fake, pointer, pinned) : cudaSuccess;
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, code);
}

cudaError_t cudaFree(void *pointer) {
    return free_call(ORR__FAKE_cudaFree, pointer, false);
}

cudaError_t cudaFreeHost(void *pointer) {
    return free_call(ORR__FAKE_cudaFreeHost, pointer, true);
}

/* --- pools --- */

static struct orr__fake_pool *pool_find(struct orr_fake_cuda *fake, cudaMemPool_t handle) {
    for (struct orr__fake_pool *p = fake->pools; p; p = p->next) {
        if ((cudaMemPool_t)p == handle && !p->destroyed) {
            return p;
        }
    }
    return NULL;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *out_pool, const struct cudaMemPoolProps *props) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemPoolCreate);
    if (!out_pool || !props || props->allocType != cudaMemAllocationTypePinned ||
        props->location.type != cudaMemLocationTypeDevice || props->location.id < 0 ||
        props->location.id >= (int)fake->options.gpu_count) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    struct orr__fake_pool *pool = orr_memory_alloc(fake->memory, sizeof *pool);
    if (!pool) {
        return orr__fake_leave(fake, cudaErrorMemoryAllocation);
    }
    pool->device = (uint32_t)props->location.id;
    pool->max = props->maxSize ? props->maxSize : UINT64_MAX;
    pool->next = fake->pools;
    fake->pools = pool;
    fake->census.pools++;
    *out_pool = (cudaMemPool_t)pool;
    return orr__fake_leave(fake, cudaSuccess);
}

/* What was allocated from it stays until it is freed. */
cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaMemPoolDestroy, &fake);
    struct orr__fake_pool *pool = fake ? pool_find(fake, handle) : NULL;
    if (pool) {
        pool->destroyed = true;
        fake->census.pools--;
    } else if (!fault) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, cudaSuccess);
}

/* Attributes are 64-bit numbers, but for the three that say how memory may be reused: the fake
 * never reuses any, and takes whatever is said. */
static bool is_about_reuse(enum cudaMemPoolAttr attribute) {
    return attribute == cudaMemPoolReuseFollowEventDependencies ||
           attribute == cudaMemPoolReuseAllowOpportunistic ||
           attribute == cudaMemPoolReuseAllowInternalDependencies;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute,
                                    void *value) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemPoolSetAttribute);
    struct orr__fake_pool *pool = pool_find(fake, handle);
    uint64_t number = 0;
    if (!pool || !value) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    if (is_about_reuse(attribute)) {
        return orr__fake_leave(fake, cudaSuccess);
    }
    memcpy(&number, value, sizeof number);
    if (attribute == cudaMemPoolAttrReleaseThreshold) {
        pool->threshold = number;
    } else if (attribute == cudaMemPoolAttrUsedMemHigh && number == 0) {
        pool->used_high = pool->used;
    } else {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    return orr__fake_leave(fake, cudaSuccess);
}

/* The owner's access can't be taken away. Copies reach any memory, with or without access. */
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const struct cudaMemAccessDesc *list,
                                 size_t count) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemPoolSetAccess);
    const struct orr__fake_pool *pool = pool_find(fake, handle);
    cudaError_t code = pool && (list || count == 0) ? cudaSuccess : cudaErrorInvalidValue;
    for (size_t i = 0; code == cudaSuccess && i < count; i++) {
        uint32_t gpu = (uint32_t)list[i].location.id;
        if (list[i].location.type != cudaMemLocationTypeDevice || gpu >= fake->options.gpu_count) {
            code = cudaErrorInvalidDevice;
        } else if (gpu == pool->device && list[i].flags != cudaMemAccessFlagsProtReadWrite) {
            code = cudaErrorInvalidValue;
        }
    }
    return orr__fake_leave(fake, code);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute,
                                    void *out_value) {
    ORR__FAKE_ENTER(cudaError_t, cudaMemPoolGetAttribute);
    const struct orr__fake_pool *pool = pool_find(fake, handle);
    if (!pool || !out_value) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    uint64_t number = 0;
    switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold: number = pool->threshold; break;
    case cudaMemPoolAttrUsedMemCurrent:
    case cudaMemPoolAttrReservedMemCurrent: number = pool->used; break;
    case cudaMemPoolAttrUsedMemHigh:
    case cudaMemPoolAttrReservedMemHigh: number = pool->used_high; break;
    default: return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    memcpy(out_value, &number, sizeof number);
    return orr__fake_leave(fake, cudaSuccess);
}

struct filling {
    char *to;
    uint64_t bytes;
    uint16_t pattern;
};

static void run_filling(struct orr__fake_work *work, void *argument) {
    const struct filling *f = argument;
    (void)work;
    fill(f->to, f->bytes, f->pattern);
}

/* In stream order: who uses memory before its allocation in a stream, or after its end there,
 * without waiting for it, races with this. */
static cudaError_t fill_in_stream(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                  const struct block *block, uint16_t pattern,
                                  struct orr__fake_work **out_work) {
    struct filling filling = {block->address, block->bytes, pattern};
    struct orr__fake_task task = {.kind = ORR__FAKE_OTHER,
                                  .run = run_filling,
                                  .argument = &filling,
                                  .argument_bytes = sizeof filling};
    return orr__fake_submit(fake, stream, &task, NULL, 0, 0, out_work);
}

/* Allocations become part of no graph here. */
static cudaError_t check_stream(struct orr_fake_cuda *fake, struct orr__fake_stream *stream) {
    if (!stream) {
        return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture) {
        return orr__fake_capture_invalidate(fake, stream->capture,
                                            cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

static cudaError_t malloc_from(struct orr_fake_cuda *fake, struct orr__fake_pool *pool,
                               struct orr__fake_stream *stream, uint64_t bytes,
                               void **out_pointer) {
    struct block *block;
    if (bytes > pool->max - pool->used) {
        return cudaErrorMemoryAllocation;
    }
    cudaError_t code = make(fake, pool->device, bytes, &block);
    if (code != cudaSuccess) {
        return code;
    }
    block->pool = pool;
    pool->used += bytes;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    code = fill_in_stream(fake, stream, block, FRESH, NULL);
    if (code != cudaSuccess) {
        fill(block->address, block->bytes, POISON);
        retire(fake, block, NULL);
        return code;
    }
    *out_pointer = block->address;
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **out_pointer, size_t bytes, cudaMemPool_t pool_handle,
                                    cudaStream_t stream_handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaMallocFromPoolAsync);
    struct orr__fake_pool *pool = pool_find(fake, pool_handle);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, stream_handle);
    if (!out_pointer || !pool) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    *out_pointer = NULL;
    cudaError_t code = check_stream(fake, stream);
    if (code == cudaSuccess && bytes > 0) {
        code = malloc_from(fake, pool, stream, bytes, out_pointer);
    }
    return orr__fake_leave(fake, code);
}

static cudaError_t free_in_stream(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                  void *pointer) {
    struct block *block = block_at(fake, pointer);
    if (!block || block->freed || block->address != pointer || block->pinned) {
        return cudaErrorInvalidValue;
    }
    struct orr__fake_work *ending;
    cudaError_t code = fill_in_stream(fake, stream, block, POISON, &ending);
    if (code == cudaSuccess) {
        retire(fake, block, ending);
    }
    return code;
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t handle) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaFreeAsync, &fake);
    if (!fake) {
        return (cudaError_t)fault;
    }
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    cudaError_t code = check_stream(fake, stream);
    if (code == cudaSuccess && pointer) {
        code = free_in_stream(fake, stream, pointer);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, code);
}
