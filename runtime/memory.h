/* Host memory: the one table through which the library allocates.
 *
 * Everything that allocates takes a `const struct orr_memory *` when it is created and borrows it
 * until it is destroyed. Tests pass a table that counts blocks and fails the nth request.
 *
 *     struct orr_memory memory = orr_memory_system();
 *     double *values = orr_memory_alloc(&memory, 100 * sizeof *values);
 *     orr_memory_free(&memory, values);
 *
 * Threads: a table may be used from every thread if its function may; the system's may. */
#ifndef ORR_RUNTIME_MEMORY_H
#define ORR_RUNTIME_MEMORY_H

#include <stddef.h>

#include "runtime/status.h"

enum { ORR_LINE_BYTES = 64 }; /* of a cache line, on every machine that matters */

struct orr_memory {
    /* block NULL: allocate `size` bytes. size 0: free the block, return NULL. Else resize. Returns
     * NULL when there is no memory, and then leaves the block as it was. Aligned to 16 bytes. */
    void *(*resize)(void *context, void *block, size_t size);
    void *context; /* borrowed until the last user is destroyed */
};

/* The C library's allocator. */
struct orr_memory orr_memory_system(void);

/* `size` zeroed bytes (at least 1), or NULL. Owned by the caller, freed with orr_memory_free. */
void *orr_memory_alloc(const struct orr_memory *memory, size_t size);

/* Resizes; new bytes are not zeroed. NULL when there is no memory; the block is then unchanged. */
void *orr_memory_resize(const struct orr_memory *memory, void *block, size_t size);

/* Frees; accepts NULL. */
void orr_memory_free(const struct orr_memory *memory, void *block);

/* The same aligned to a cache line, ORR_LINE_BYTES, for what is used very often; a table of plain
 * blocks will do. Freed by its own function, which accepts NULL too. */
void *orr_memory_alloc_lines(const struct orr_memory *memory, size_t size);
/* Not zeroed. */
void *orr_memory_take_lines(const struct orr_memory *memory, size_t size);
void orr_memory_free_lines(const struct orr_memory *memory, void *lines);

/* Brings the lines of an object that will be written soon. Inlined before gcc finds out that it
 * changes nothing, and drops it. */
static inline __attribute__((always_inline)) void orr__lines_fetch(const void *object,
                                                                   size_t size) {
    for (size_t at = 0; at < size; at += ORR_LINE_BYTES)
        __builtin_prefetch((const char *)object + at, 1);
}

/* A copy of `length` bytes of text with a terminating NUL, or NULL. Owned by the caller. */
char *orr_memory_text(const struct orr_memory *memory, const char *text, size_t length);

/* Makes room for `needed` items of `item_size` bytes in a growing array, doubling its capacity.
 * *items may be NULL when *capacity is 0. `max` is the container's stated maximum: asking for more
 * fails like missing memory. New items are zeroed. Returns ORR_NO_MEMORY and changes nothing on
 * failure. */
enum orr_status orr_memory_grow(const struct orr_memory *memory, void *items, size_t *capacity,
                                size_t needed, size_t item_size, size_t max) ORR_MUST_CHECK;

#endif
