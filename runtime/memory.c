#include "runtime/memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *system_resize(void *context, void *block, size_t size) {
    (void)context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, size);
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
