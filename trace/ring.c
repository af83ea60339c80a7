#include "trace/ring.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { CHUNKS_MAX = 65536, CACHE_LINE = 64 };

/* `head` counts chunks published, `tail` chunks released; both only grow. The semaphores carry no
 * counts that matter: they are doorbells, rung after the counter has moved, and whoever was woken
 * looks at the counters again. */
struct orr_ring {
    const struct orr_memory *memory;
    struct orr_ring_chunk *chunks;
    size_t chunk_count;
    char apart[CACHE_LINE]; /* what two threads write is not in one cache line */
    atomic_size_t head;     /* written by the producer, as the next two */
    atomic_bool stopped;
    sem_t published;
    char apart_too[CACHE_LINE];
    atomic_size_t tail; /* written by the consumer, as the next */
    sem_t released;
};

enum orr_status orr_ring_create(const struct orr_memory *memory, size_t chunk_count,
                                size_t chunk_words, struct orr_ring **out_ring) {
    assert(chunk_count >= 1 && chunk_count <= CHUNKS_MAX && chunk_words > 0);
    *out_ring = NULL;
    struct orr_ring *ring = orr_memory_alloc(memory, sizeof *ring);
    if (!ring)
        return ORR_NO_MEMORY;
    ring->memory = memory;
    ring->chunk_count = chunk_count;
    sem_init(&ring->published, 0, 0);
    sem_init(&ring->released, 0, 0);
    ring->chunks = orr_memory_alloc(memory, chunk_count * sizeof *ring->chunks);
    for (size_t i = 0; ring->chunks && i < chunk_count; i++) {
        /* Not zeroed: a page is paid for when the first record arrives in it. */
        uint64_t *words = orr_memory_resize(memory, NULL, chunk_words * sizeof *words);
        ring->chunks[i] = (struct orr_ring_chunk){.words = words, .capacity = chunk_words};
    }
    for (size_t i = 0; i < chunk_count; i++) {
        if (!ring->chunks || !ring->chunks[i].words) {
            orr_ring_destroy(&ring);
            return ORR_NO_MEMORY;
        }
    }
    *out_ring = ring;
    return ORR_OK;
}

void orr_ring_destroy(struct orr_ring **ring) {
    if (!*ring)
        return;
    const struct orr_memory *memory = (*ring)->memory;
    for (size_t i = 0; (*ring)->chunks && i < (*ring)->chunk_count; i++)
        orr_memory_free(memory, (*ring)->chunks[i].words);
    orr_memory_free(memory, (*ring)->chunks);
    sem_destroy(&(*ring)->published);
    sem_destroy(&(*ring)->released);
    orr_memory_free(memory, *ring);
    *ring = NULL;
}

static void wait_doorbell(sem_t *doorbell) {
    while (sem_wait(doorbell) != 0 && errno == EINTR) {
    }
}

struct orr_ring_chunk *orr_ring_writable(struct orr_ring *ring) {
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head - tail < ring->chunk_count ? &ring->chunks[head % ring->chunk_count] : NULL;
}

void orr_ring_publish(struct orr_ring *ring) {
    struct orr_ring_chunk *chunk = orr_ring_writable(ring);
    assert(chunk && chunk->used <= chunk->capacity);
    (void)chunk;
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    sem_post(&ring->published);
}

void orr_ring_wait_writable(struct orr_ring *ring) {
    while (!orr_ring_writable(ring))
        wait_doorbell(&ring->released);
}

void orr_ring_wait_released(struct orr_ring *ring) {
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    while (atomic_load_explicit(&ring->tail, memory_order_acquire) != head)
        wait_doorbell(&ring->released);
}

void orr_ring_stop(struct orr_ring *ring) {
    atomic_store_explicit(&ring->stopped, true, memory_order_release);
    sem_post(&ring->published);
}

struct orr_ring_chunk *orr_ring_readable(struct orr_ring *ring) {
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return head != tail ? &ring->chunks[tail % ring->chunk_count] : NULL;
}

void orr_ring_release(struct orr_ring *ring) {
    assert(orr_ring_readable(ring));
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    sem_post(&ring->released);
}

bool orr_ring_wait_readable(struct orr_ring *ring) {
    for (;;) {
        bool stopped = atomic_load_explicit(&ring->stopped, memory_order_acquire);
        if (orr_ring_readable(ring))
            return true;
        if (stopped)
            return false;
        wait_doorbell(&ring->published);
    }
}
