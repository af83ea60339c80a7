#include "runtime/memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large blocks are made of huge pages where the system has them for the asking: a page fault for
 * every 4 KiB costs more than whatever is written there (records kept in memory: 40 against 5 ns
 * each). A hint, so that its failure is nobody's business. */
static void prefer_huge_pages(char *block, size_t size) {
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t from = ((uintptr_t)block + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)block + size) / page * page;
    if (from < to)
        (void)madvise(block + (from - (uintptr_t)block), to - from, MADV_HUGEPAGE);
#else
    (void)block, (void)size;
#endif
}

static void *system_resize(void *context, void *block, size_t size) {
    enum { LARGE_BYTES = 4 << 20 };
    (void)context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    void *resized = realloc(block, size);
    if (resized && size >= LARGE_BYTES)
        prefer_huge_pages(resized, size);
    return resized;
}

struct orr_memory orr_memory_system(void) {
    return (struct orr_memory){.resize = system_resize, .context = NULL};
}

void *orr_memory_alloc(const struct orr_memory *memory, size_t size) {
    size_t asked = size > 0 ? size : 1;
    void *block = memory->resize(memory->context, NULL, asked);
    if (block)
        memset(block, 0, asked);
    return block;
}

void *orr_memory_resize(const struct orr_memory *memory, void *block, size_t size) {
    return memory->resize(memory->context, block, size > 0 ? size : 1);
}

void orr_memory_free(const struct orr_memory *memory, void *block) {
    if (block)
        memory->resize(memory->context, block, 0);
}

/* What was allocated is kept in the word before the lines; blocks are aligned to 16. */
void *orr_memory_take_lines(const struct orr_memory *memory, size_t size) {
    if (size > SIZE_MAX - ORR_LINE_BYTES)
        return NULL;
    char *block = orr_memory_resize(memory, NULL, size + ORR_LINE_BYTES);
    if (!block)
        return NULL;
    size_t past = (uintptr_t)block % ORR_LINE_BYTES;
    void **lines = (void **)(void *)(block + ORR_LINE_BYTES - past);
    assert(ORR_LINE_BYTES - past >= sizeof *lines);
    lines[-1] = block;
    return lines;
}

void *orr_memory_alloc_lines(const struct orr_memory *memory, size_t size) {
    void *lines = orr_memory_take_lines(memory, size);
    if (lines)
        memset(lines, 0, size);
    return lines;
}

void orr_memory_free_lines(const struct orr_memory *memory, void *lines) {
    if (lines)
        orr_memory_free(memory, ((void **)lines)[-1]);
}

char *orr_memory_text(const struct orr_memory *memory, const char *text, size_t length) {
    if (length == SIZE_MAX)
        return NULL;
    char *copy = orr_memory_resize(memory, NULL, length + 1);
    if (!copy)
        return NULL;
    if (length > 0)
        memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

enum orr_status orr_memory_grow(const struct orr_memory *memory, void *items, size_t *capacity,
                                size_t needed, size_t item_size, size_t max) {
    assert(item_size > 0 && *capacity <= max);
    if (needed <= *capacity)
        return ORR_OK;
    if (needed > max || needed > SIZE_MAX / item_size)
        return ORR_NO_MEMORY;
    size_t wanted = *capacity > max / 2 ? max : *capacity * 2;
    if (wanted < 8)
        wanted = max < 8 ? max : 8;
    if (wanted < needed || wanted > SIZE_MAX / item_size)
        wanted = needed;
    /* `items` is the address of a pointer to any type: copied as bytes, so that none is punned. */
    void *block;
    memcpy(&block, items, sizeof block);
    char *grown = orr_memory_resize(memory, block, wanted * item_size);
    if (!grown)
        return ORR_NO_MEMORY;
    memset(grown + *capacity * item_size, 0, (wanted - *capacity) * item_size);
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return ORR_OK;
}
