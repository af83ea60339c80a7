/* A ring of chunks of trace records between one producer and one consumer.
 *
 *     producer (host thread)                                    consumer (writer thread)
 *        orr_ring_writable --> [chunk] [chunk] [chunk] [chunk] <-- orr_ring_readable
 *        orr_ring_publish        ^tail .. full ..  ^head           orr_ring_release
 *
 * Chunks are handed over whole: two atomic operations and at most one wake-up per chunk, nothing
 * per record. Nothing here blocks except the functions called ..._wait. When the ring is full the
 * producer decides: wait for the consumer (virtual clock), or write elsewhere and count what is
 * lost (real clock).
 *
 *     struct orr_ring_chunk *chunk = orr_ring_writable(ring);      // NULL: full
 *     fill(chunk->words, chunk->capacity); chunk->used = ...;
 *     orr_ring_publish(ring);
 *
 * Threads: one producer, one consumer, any threads; create and destroy while neither runs. */
#ifndef ORR_TRACE_RING_H
#define ORR_TRACE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"

struct orr_ring;

/* Belongs to the producer from writable to publish, to the consumer from readable to release. */
struct orr_ring_chunk {
    uint64_t *words;      /* aligned to 16 bytes; owned by the ring */
    size_t capacity;      /* words; set by the ring */
    size_t used;          /* words; set by the producer */
    uint32_t names_count; /* set by the producer: names that the records may refer to */
    uint64_t dropped;     /* set by the producer: records lost before the first of this chunk */
};

/* A ring of `chunk_count` chunks (1 to 65,536) of `chunk_words` words. Owned by the caller;
 * `memory` is borrowed until destroy. */
enum orr_status orr_ring_create(const struct orr_memory *memory, size_t chunk_count,
                                size_t chunk_words, struct orr_ring **out_ring) ORR_MUST_CHECK;

/* Frees and nulls; accepts a NULL ring. */
void orr_ring_destroy(struct orr_ring **ring);

/* Producer: the chunk to write into, the same one until it is published; NULL when all are full. */
struct orr_ring_chunk *orr_ring_writable(struct orr_ring *ring);

/* Producer: hands over the chunk that orr_ring_writable gives. */
void orr_ring_publish(struct orr_ring *ring);

/* Producer: blocks until a chunk is writable. Only with a running consumer. */
void orr_ring_wait_writable(struct orr_ring *ring);

/* Producer: blocks until every published chunk is released. Only with a running consumer. */
void orr_ring_wait_released(struct orr_ring *ring);

/* Producer: no more chunks will come; orr_ring_wait_readable returns false once all are read. */
void orr_ring_stop(struct orr_ring *ring);

/* Consumer: the oldest published chunk, NULL when there is none. */
struct orr_ring_chunk *orr_ring_readable(struct orr_ring *ring);

/* Consumer: gives back the chunk that orr_ring_readable gives. */
void orr_ring_release(struct orr_ring *ring);

/* Consumer: blocks until a chunk is readable (true), or the ring is stopped and empty (false). */
bool orr_ring_wait_readable(struct orr_ring *ring);

#endif
