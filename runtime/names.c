/* Interned strings.
 *
 *     slots (hash table of ids, open addressing)      segments (never move)        chunks of text
 *     +----+----+----+----+                           +---------------------+      +-------------+
 *     | 0  | 7  | 0  | 3  | ...   --- id 7 --->       | entry 0 .. 4095     | ---> | a\0 main.lua|
 *     +----+----+----+----+                           +---------------------+      | :12\0 ...   |
 *                                                     | entry 4096 .. 8191  |      +-------------+
 *
 * Only the hash table is reallocated. Entries and texts stay where they are, and the array of
 * segments has its full length from the start, so a reader on another thread who got an id through
 * a release/acquire pair touches nothing that the interning thread still changes. */
#include "runtime/names.h"

#include <assert.h>
#include <string.h>

enum {
    SEGMENT_BITS = 12,
    SEGMENT_SIZE = 1 << SEGMENT_BITS,
    SEGMENTS_MAX = 1 << 12, /* times SEGMENT_SIZE = 2^24 texts, the stated maximum */
    CHUNK_SIZE = 64 * 1024
};

struct entry {
    const char *text; /* NULL: id never given */
    uint32_t length;
    uint32_t hash;
};

struct chunk {
    struct chunk *next;
    size_t used, size; /* bytes of `text` */
    char text[];
};

struct orr_names {
    const struct orr_memory *memory; /* borrowed until destroy */
    uint32_t count;                  /* ids in use, 0 included */
    uint32_t *slots;                 /* ids; 0 = free */
    size_t slot_count;               /* a power of two, at least twice the ids */
    struct chunk *chunks;            /* the newest first */
    struct entry *segments[SEGMENTS_MAX];
};

/* FNV-1a, 32 bits (Fowler, Noll, Vo: offset basis 2166136261, prime 16777619), with a final mix so
 * that the low bits depend on all others. */
static uint32_t hash_text(const char *text, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    hash ^= hash >> 15;
    hash *= 0x2c1b3c6du;
    return hash ^ (hash >> 13);
}

static struct entry *entry_of(const struct orr_names *names, uint32_t id) {
    assert(id >> SEGMENT_BITS < SEGMENTS_MAX && names->segments[id >> SEGMENT_BITS]);
    return &names->segments[id >> SEGMENT_BITS][id & (SEGMENT_SIZE - 1)];
}

/* The slot that holds the text, or the free one where it belongs. */
static uint32_t *find_slot(const struct orr_names *names, const char *text, size_t length,
                           uint32_t hash) {
    size_t mask = names->slot_count - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        uint32_t id = names->slots[i];
        if (id == 0)
            return &names->slots[i];
        const struct entry *entry = entry_of(names, id);
        if (entry->hash == hash && entry->length == length &&
            memcmp(entry->text, text, length) == 0)
            return &names->slots[i];
    }
}

static enum orr_status grow_slots(struct orr_names *names) {
    if (names->slots && (size_t)names->count * 2 < names->slot_count)
        return ORR_OK;
    size_t slot_count = names->slots ? names->slot_count * 2 : 256;
    uint32_t *slots = orr_memory_alloc(names->memory, slot_count * sizeof *slots);
    if (!slots)
        return ORR_NO_MEMORY;
    for (uint32_t id = 1; id < names->count; id++) {
        size_t i = entry_of(names, id)->hash & (slot_count - 1);
        while (slots[i] != 0)
            i = (i + 1) & (slot_count - 1);
        slots[i] = id;
    }
    orr_memory_free(names->memory, names->slots);
    names->slots = slots;
    names->slot_count = slot_count;
    return ORR_OK;
}

/* Room for `size` bytes of text in the newest chunk. */
static char *text_room(struct orr_names *names, size_t size) {
    struct chunk *chunk = names->chunks;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t chunk_size = size > CHUNK_SIZE ? size : CHUNK_SIZE;
        chunk = orr_memory_resize(names->memory, NULL, sizeof *chunk + chunk_size);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = names->chunks, .size = chunk_size};
        names->chunks = chunk;
    }
    return chunk->text + chunk->used;
}

/* Keeps a new text under the next id. Room is made first, so a failure changes nothing visible. */
static enum orr_status add_text(struct orr_names *names, const char *text, size_t length,
                                uint32_t hash) {
    uint32_t id = names->count;
    assert(id < (uint32_t)SEGMENTS_MAX * SEGMENT_SIZE && (size_t)id * 2 < names->slot_count);
    struct entry **segment = &names->segments[id >> SEGMENT_BITS];
    if (!*segment)
        *segment = orr_memory_alloc(names->memory, SEGMENT_SIZE * sizeof **segment);
    char *copy = *segment ? text_room(names, length + 1) : NULL;
    if (!copy)
        return ORR_NO_MEMORY;
    names->chunks->used += length + 1;
    if (length > 0)
        memcpy(copy, text, length);
    copy[length] = '\0';
    *entry_of(names, id) = (struct entry){copy, (uint32_t)length, hash};
    names->count++;
    return ORR_OK;
}

enum orr_status orr_names_create(const struct orr_memory *memory, struct orr_names **out_names) {
    *out_names = NULL;
    struct orr_names *names = orr_memory_alloc(memory, sizeof *names);
    if (!names)
        return ORR_NO_MEMORY;
    names->memory = memory;
    enum orr_status status = grow_slots(names);
    if (status == ORR_OK)
        status = add_text(names, "", 0, hash_text("", 0)); /* id 0; found without the table */
    if (status != ORR_OK) {
        orr_names_destroy(&names);
        return status;
    }
    *out_names = names;
    return ORR_OK;
}

void orr_names_destroy(struct orr_names **names) {
    if (!*names)
        return;
    const struct orr_memory *memory = (*names)->memory;
    for (struct chunk *chunk = (*names)->chunks; chunk;) {
        struct chunk *next = chunk->next;
        orr_memory_free(memory, chunk);
        chunk = next;
    }
    for (int i = 0; i < SEGMENTS_MAX; i++)
        orr_memory_free(memory, (*names)->segments[i]);
    orr_memory_free(memory, (*names)->slots);
    orr_memory_free(memory, *names);
    *names = NULL;
}

enum orr_status orr_names_intern(struct orr_names *names, const char *text, size_t length,
                                 uint32_t *out_id) {
    *out_id = 0;
    if (length == 0)
        return ORR_OK;
    uint32_t hash = hash_text(text, length);
    uint32_t *slot = find_slot(names, text, length, hash);
    if (*slot != 0) {
        *out_id = *slot;
        return ORR_OK;
    }
    if (names->count == (uint32_t)SEGMENTS_MAX * SEGMENT_SIZE || length >= UINT32_MAX)
        return ORR_NO_MEMORY;
    enum orr_status status = grow_slots(names);
    if (status == ORR_OK)
        status = add_text(names, text, length, hash);
    if (status != ORR_OK)
        return status;
    uint32_t id = names->count - 1;
    *find_slot(names, text, length, hash) = id;
    *out_id = id;
    return ORR_OK;
}

const char *orr_names_text(const struct orr_names *names, uint32_t id) {
    const struct entry *segment = NULL;
    if (id >> SEGMENT_BITS < SEGMENTS_MAX)
        segment = names->segments[id >> SEGMENT_BITS];
    const char *text = segment ? segment[id & (SEGMENT_SIZE - 1)].text : NULL;
    return text ? text : "";
}

uint32_t orr_names_count(const struct orr_names *names) {
    return names->count;
}
