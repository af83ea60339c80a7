/* Buffers: device memory from a stream-ordered caching allocator with a hard capacity, and host
 * memory.
 *
 * Policy (the frameworks', races.md rule 25): a block is tagged with the stream it was allocated
 * for; freeing is host-ordered and returns at once; a freed block is handed out again only for the
 * same stream, whose order makes that safe. orr_buffer_record_stream says that another stream uses
 * the buffer too: reuse is then deferred until the work queued on that stream at the time of the
 * free is done. The allocator rounds to 512 bytes, carves blocks of up to 1 MiB from 2 MiB segments
 * and larger ones from 20 MiB segments or segments of their own (rounded to 2 MiB), splits and
 * merges, and gives cached segments back before it reports that memory is out.
 *
 * Out of memory is ORR_DEVICE_MEMORY; the text names device, asked, used, capacity and the sites
 * whose live buffers are the largest, with their roles.
 *
 * Contents of a new buffer are undefined; in simulation reading them poisons what is written.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_BUFFER_H
#define ORR_RUNTIME_BUFFER_H

#include "runtime/stream.h"

/* Allocates `bytes` (at least 1) of the stream's device. `label` is copied, NULL or "" for none.
 * Costs the host one event-sized call unless it happens inside an operator. */
enum orr_status orr_buffer_alloc(struct orr_stream *stream, uint64_t bytes, const char *label,
                                 struct orr_buffer **out_buffer) ORR_MUST_CHECK;

/* Host memory: pinned, or ordinary memory, which copies treat differently (see orr_stream_copy).
 * Kind "pinned" or "pageable". */
enum orr_status orr_buffer_alloc_host(struct orr_runtime *runtime, uint64_t bytes,
                                      const char *label,
                                      struct orr_buffer **out_buffer) ORR_MUST_CHECK;
enum orr_status orr_buffer_alloc_pageable(struct orr_runtime *runtime, uint64_t bytes,
                                          const char *label,
                                          struct orr_buffer **out_buffer) ORR_MUST_CHECK;

/* Frees at the host's current position and nulls the handle; accepts NULL. Commands already
 * enqueued keep the bytes alive (they were ordered before on the allocation stream, or are a
 * race). */
void orr_buffer_free(struct orr_buffer **buffer);

/* `stream` uses the buffer: see above. */
enum orr_status orr_buffer_record_stream(struct orr_buffer *buffer,
                                         struct orr_stream *stream) ORR_MUST_CHECK;

/* Id as in the trace's table buffer, and size as asked for, bytes. */
uint64_t orr_buffer_id(const struct orr_buffer *buffer);
uint64_t orr_buffer_bytes(const struct orr_buffer *buffer);
/* Device, or ORR_ID_NONE for host memory. */
uint32_t orr_buffer_device(const struct orr_buffer *buffer);
/* Where its bytes are if the host can reach them, NULL if not (timing-only, real devices). Reading
 * through it is not recorded and not checked: for kernels' run functions. */
void *orr_buffer_pointer(const struct orr_buffer *buffer);

/* A live buffer, and where its bytes are in the backend's memory. */
struct orr_live_buffer {
    uint64_t id, bytes, base;
    uint32_t memory, device; /* ORR_ID_NONE: host memory */
    uint32_t label, site;    /* names */
};
/* Shows every live buffer: of each device the newest first, then those of the host. */
void orr_buffers_show(const struct orr_runtime *runtime, void *context,
                      void (*show)(void *context, const struct orr_live_buffer *buffer));

/* Host access to pinned memory at the host's clock, recorded as hostwrite or hostread: nothing
 * orders it but what the host has waited for. `ns` is what it costs the host (-1: 1 ns).
 * ORR_UNSUPPORTED for device memory; a read under timing-only is ORR_INVALID. */
enum orr_status orr_buffer_write(struct orr_buffer *buffer, uint64_t offset, const void *from,
                                 uint64_t bytes, int64_t ns) ORR_MUST_CHECK;
enum orr_status orr_buffer_read(struct orr_buffer *buffer, uint64_t offset, void *to,
                                uint64_t bytes, int64_t ns) ORR_MUST_CHECK;

/* Bytes of live buffers of one role (runtime/role.h), as asked for. */
struct orr_role_usage {
    uint64_t used, peak;
};

/* What a device's allocator holds. Fragmentation is what the allocator has taken from the device
 * and no live buffer has at the moment when `allocated` was largest (the first such moment): cached
 * blocks, and those of freed buffers that other streams still use. That blocks are larger than what
 * was asked for is apart from it: allocated - requested. */
struct orr_memory_usage {
    uint64_t capacity;  /* of the device */
    uint64_t reserved;  /* segments taken from the device */
    uint64_t allocated; /* bytes of live buffers, rounded as the allocator does */
    uint64_t requested; /* bytes of live buffers, as asked for */
    uint64_t allocated_peak, reserved_peak;
    uint64_t fragmentation;
    struct orr_role_usage roles[ORR_ROLE_COUNT]; /* `used` adds up to `requested` */
    uint64_t alloc_count, reuse_count;
};
struct orr_memory_usage orr_device_memory(const struct orr_runtime *runtime, uint32_t device);

#endif
