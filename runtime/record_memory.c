/* Records in memory.
 *
 *     first -> [r0 r1 r2 ..] -> [r9 r10 ..] -> [r17 ..      ] <- last, where the writer's cursor is
 *
 * Chunks never move, so pointers to records stay good. When there is no memory for another chunk,
 * the writer is given the scratch words at the end of the store, over and over. */
#include "runtime/record_memory.h"

#include <stdbool.h>
#include <stdio.h>

enum {
    CHUNK_WORDS = 4 * 1024,        /* of the first chunk; each is twice the one before */
    CHUNK_WORDS_MAX = 4096 * 1024, /* 32 MiB */
    RECORD_WORDS_MAX = 2048,       /* far more than any kind has */
    STATUS_TEXT_MAX = 32
};

struct chunk {
    struct chunk *next;
    size_t used, capacity; /* words; `used` is set when the writer leaves the chunk */
    uint64_t words[];
};

struct orr_record_memory {
    struct orr_sink sink; /* first: the writer's address is the store's */
    const struct orr_memory *memory;
    struct chunk *first, *last;
    bool scratching; /* the writer is in `scratch` */
    size_t dropped;
    char status[STATUS_TEXT_MAX];
    uint64_t scratch[RECORD_WORDS_MAX];
};

size_t orr_record_walk_count(const uint64_t *words, size_t word_count) {
    size_t count = 0;
    for (size_t word = 0; word < word_count; count++) {
        const struct orr_record *record = (const void *)(words + word);
        assert(record->words > 0 && record->words <= word_count - word);
        word += record->words;
    }
    return count;
}

static struct orr_record_memory *store_of(struct orr_record_writer *writer) {
    return (struct orr_record_memory *)(void *)writer;
}

static size_t used_words(const struct orr_record_memory *store, const struct chunk *chunk) {
    if (chunk != store->last || store->scratching)
        return chunk->used;
    assert(store->sink.writer.cursor >= chunk->words &&
           store->sink.writer.cursor <= chunk->words + chunk->capacity);
    return (size_t)(store->sink.writer.cursor - chunk->words);
}

/* Closes the chunk or counts what went to the scratch words since the last call. */
static void leave_chunk(struct orr_record_memory *store) {
    struct orr_record_writer *writer = &store->sink.writer;
    if (store->scratching) {
        size_t words = (size_t)(writer->cursor - store->scratch);
        store->dropped += orr_record_walk_count(store->scratch, words);
        writer->cursor = store->scratch;
    } else if (store->last) {
        store->last->used = used_words(store, store->last);
    }
}

static struct chunk *add_chunk(struct orr_record_memory *store, size_t words) {
    size_t capacity = store->last ? 2 * store->last->capacity : CHUNK_WORDS;
    capacity = capacity < CHUNK_WORDS_MAX ? capacity : CHUNK_WORDS_MAX;
    assert(words <= CHUNK_WORDS);
    struct chunk *chunk =
        orr_memory_resize(store->memory, NULL, sizeof *chunk + capacity * sizeof(uint64_t));
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.capacity = capacity};
    if (store->last)
        store->last->next = chunk;
    else
        store->first = chunk;
    store->last = chunk;
    return chunk;
}

static void refill(struct orr_record_writer *writer, size_t words) {
    struct orr_record_memory *store = store_of(writer);
    assert(words <= RECORD_WORDS_MAX);
    leave_chunk(store);
    /* Once a record is lost the rest is too: a trace with a hole in its middle would read as a
     * complete one. */
    struct chunk *chunk = store->scratching ? NULL : add_chunk(store, words);
    store->scratching = chunk == NULL;
    writer->cursor = chunk ? chunk->words : store->scratch;
    writer->limit = writer->cursor + (chunk ? chunk->capacity : (size_t)RECORD_WORDS_MAX);
}

static enum orr_status flush(struct orr_sink *sink, struct orr_error *error) {
    struct orr_record_memory *store = store_of(&sink->writer);
    size_t dropped = orr_record_memory_dropped(store);
    if (dropped > 0)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for %zu trace records", dropped);
    return ORR_OK;
}

static enum orr_status close_store(struct orr_sink *sink, const char *status,
                                   struct orr_error *error) {
    struct orr_record_memory *store = store_of(&sink->writer);
    snprintf(store->status, sizeof store->status, "%s", status);
    return flush(sink, error);
}

enum orr_status orr_record_memory_create(const struct orr_memory *memory,
                                         struct orr_record_memory **out_store) {
    *out_store = NULL;
    struct orr_record_memory *store = orr_memory_alloc(memory, sizeof *store);
    if (!store)
        return ORR_NO_MEMORY;
    store->memory = memory;
    store->sink = (struct orr_sink){.writer.refill = refill, .flush = flush, .close = close_store};
    *out_store = store;
    return ORR_OK;
}

void orr_record_memory_destroy(struct orr_record_memory **store) {
    if (!*store)
        return;
    const struct orr_memory *memory = (*store)->memory;
    for (struct chunk *chunk = (*store)->first; chunk;) {
        struct chunk *next = chunk->next;
        orr_memory_free(memory, chunk);
        chunk = next;
    }
    orr_memory_free(memory, *store);
    *store = NULL;
}

struct orr_sink *orr_record_memory_sink(struct orr_record_memory *store) {
    return &store->sink;
}

const struct orr_record *orr_record_memory_next(const struct orr_record_memory *store,
                                                struct orr_record_cursor *cursor) {
    const struct chunk *chunk = cursor->chunk ? cursor->chunk : store->first;
    while (chunk && cursor->word >= used_words(store, chunk)) {
        if (!chunk->next)
            return NULL;
        chunk = chunk->next;
        *cursor = (struct orr_record_cursor){.chunk = chunk};
    }
    if (!chunk)
        return NULL;
    const struct orr_record *record = (const void *)(chunk->words + cursor->word);
    assert(record->kind > 0 && record->kind < ORR_RECORD_KIND_COUNT);
    assert(record->words > 0 && record->words <= used_words(store, chunk) - cursor->word);
    *cursor = (struct orr_record_cursor){.chunk = chunk, .word = cursor->word + record->words};
    return record;
}

size_t orr_record_memory_count(const struct orr_record_memory *store, enum orr_record_kind kind) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    size_t count = 0;
    while ((record = orr_record_memory_next(store, &cursor)) != NULL)
        count += kind == 0 || record->kind == kind;
    return count;
}

size_t orr_record_memory_dropped(const struct orr_record_memory *store) {
    size_t dropped = store->dropped;
    if (store->scratching)
        dropped += orr_record_walk_count(store->scratch,
                                         (size_t)(store->sink.writer.cursor - store->scratch));
    return dropped;
}

const char *orr_record_memory_status(const struct orr_record_memory *store) {
    return store->status;
}

/* The null sink: one scratch area, written over and over. */

struct null_sink {
    struct orr_sink sink;
    const struct orr_memory *memory;
    uint64_t scratch[RECORD_WORDS_MAX];
};

static void null_refill(struct orr_record_writer *writer, size_t words) {
    struct null_sink *null = (struct null_sink *)(void *)writer;
    assert(words <= RECORD_WORDS_MAX);
    (void)words;
    writer->cursor = null->scratch;
    writer->limit = null->scratch + RECORD_WORDS_MAX;
}

static enum orr_status null_flush(struct orr_sink *sink, struct orr_error *error) {
    (void)sink;
    (void)error;
    return ORR_OK;
}

static enum orr_status null_close(struct orr_sink *sink, const char *status,
                                  struct orr_error *error) {
    (void)status;
    (void)error;
    struct null_sink *null = (struct null_sink *)(void *)sink;
    orr_memory_free(null->memory, null);
    return ORR_OK;
}

enum orr_status orr_null_sink_create(const struct orr_memory *memory, struct orr_sink **out_sink) {
    *out_sink = NULL;
    struct null_sink *null = orr_memory_resize(memory, NULL, sizeof *null);
    if (!null)
        return ORR_NO_MEMORY;
    null->memory = memory;
    null->sink =
        (struct orr_sink){.writer.refill = null_refill, .flush = null_flush, .close = null_close};
    *out_sink = &null->sink;
    return ORR_OK;
}
