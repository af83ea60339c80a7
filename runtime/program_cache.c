/* Programs by name and fingerprint: a sorted array, so that entries of one name are neighbours. */
#include <assert.h>
#include <string.h>

#include "runtime/program_internal.h"

enum { ENTRIES_MAX = 1 << 24 };

struct entry {
    char *name, *fingerprint; /* owned */
    struct orr_program *program;
};

struct orr_program_cache {
    struct orr_runtime *runtime;
    struct orr_program_cache *previous, *next; /* of the runtime */
    struct entry *entries;                     /* by name, then fingerprint */
    size_t entry_count, entry_capacity;
    struct orr_program_counts counts;
};

enum orr_status orr_program_cache_create(struct orr_runtime *runtime,
                                         struct orr_program_cache **out) {
    *out = NULL;
    struct orr_program_cache *cache = orr_memory_alloc(runtime->memory, sizeof *cache);
    if (!cache)
        return orr__runtime_no_memory(runtime);
    cache->runtime = runtime;
    cache->next = runtime->program_caches;
    if (cache->next)
        cache->next->previous = cache;
    runtime->program_caches = cache;
    *out = cache;
    return ORR_OK;
}

static void free_entries(struct orr_program_cache *cache) {
    const struct orr_memory *memory = cache->runtime->memory;
    for (size_t i = 0; i < cache->entry_count; i++) {
        orr_memory_free(memory, cache->entries[i].name);
        orr_memory_free(memory, cache->entries[i].fingerprint);
    }
    orr_memory_free(memory, cache->entries);
}

static void free_cache(struct orr_program_cache *cache) {
    if (cache->previous)
        cache->previous->next = cache->next;
    else
        cache->runtime->program_caches = cache->next;
    if (cache->next)
        cache->next->previous = cache->previous;
    free_entries(cache);
    orr_memory_free(cache->runtime->memory, cache);
}

void orr_program_cache_destroy(struct orr_program_cache **handle) {
    struct orr_program_cache *cache = *handle;
    if (!cache)
        return;
    for (size_t i = 0; i < cache->entry_count; i++)
        orr_program_destroy(&cache->entries[i].program);
    free_cache(cache);
    *handle = NULL;
}

void orr__program_caches_destroy(struct orr_runtime *runtime) {
    while (runtime->program_caches)
        free_cache(runtime->program_caches);
}

static int compare(const struct entry *entry, const char *name, const char *fingerprint) {
    int order = strcmp(entry->name, name);
    return order != 0 ? order : strcmp(entry->fingerprint, fingerprint);
}

/* Where it is or belongs; *out_found says which. */
static size_t locate(const struct orr_program_cache *cache, const char *name,
                     const char *fingerprint, bool *out_found) {
    size_t low = 0, high = cache->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&cache->entries[middle], name, fingerprint) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *out_found = low < cache->entry_count && compare(&cache->entries[low], name, fingerprint) == 0;
    return low;
}

static bool has_name(const struct orr_program_cache *cache, size_t at, const char *name) {
    return (at > 0 && strcmp(cache->entries[at - 1].name, name) == 0) ||
           (at < cache->entry_count && strcmp(cache->entries[at].name, name) == 0);
}

struct orr_program *orr_program_cache_find(struct orr_program_cache *cache, const char *name,
                                           const char *fingerprint) {
    bool found;
    size_t at = locate(cache, name, fingerprint, &found);
    if (found) {
        cache->counts.replays++;
        return cache->entries[at].program;
    }
    cache->counts.mismatches += has_name(cache, at, name);
    return NULL;
}

static enum orr_status check_put(struct orr_program_cache *cache, const char *name,
                                 const struct orr_program *program, bool found) {
    struct orr_runtime *runtime = cache->runtime;
    assert(program->runtime == runtime && !program->destroyed);
    if (found)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "there is a program '%s' of this fingerprint already", name);
    if (program->recording)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "program '%s' is still being recorded: end it first", name);
    if (orr_memory_grow(runtime->memory, &cache->entries, &cache->entry_capacity,
                        cache->entry_count + 1, sizeof *cache->entries, ENTRIES_MAX) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    return ORR_OK;
}

enum orr_status orr_program_cache_put(struct orr_program_cache *cache, const char *name,
                                      const char *fingerprint, struct orr_program *program) {
    const struct orr_memory *memory = cache->runtime->memory;
    bool found;
    size_t at = locate(cache, name, fingerprint, &found);
    enum orr_status status = check_put(cache, name, program, found);
    if (status != ORR_OK)
        return status;
    struct entry entry = {.name = orr_memory_text(memory, name, strlen(name)),
                          .fingerprint = orr_memory_text(memory, fingerprint, strlen(fingerprint)),
                          .program = program};
    if (!entry.name || !entry.fingerprint) {
        orr_memory_free(memory, entry.name);
        orr_memory_free(memory, entry.fingerprint);
        return orr__runtime_no_memory(cache->runtime);
    }
    memmove(&cache->entries[at + 1], &cache->entries[at],
            (cache->entry_count - at) * sizeof *cache->entries);
    cache->entries[at] = entry;
    cache->entry_count++;
    cache->counts.captures++;
    return ORR_OK;
}

struct orr_program_counts orr_program_cache_counts(const struct orr_program_cache *cache) {
    return cache->counts;
}
