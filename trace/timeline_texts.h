/* Internal to trace/: storage of a timeline's texts, and a stable sort for its arrays.
 *
 *     struct orr__texts *texts = NULL;                        // grows on first use
 *     const char *text = orr__texts_add(memory, &texts, "main.lua:12", 11);
 *     orr__texts_destroy(memory, texts);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_TIMELINE_TEXTS_H
#define ORR_TRACE_TIMELINE_TEXTS_H

#include <stddef.h>

#include "runtime/memory.h"

struct orr__texts;

/* A copy of `length` bytes with a NUL, which stays where it is until destroy; NULL when there is no
 * memory. *texts is NULL at first. */
const char *orr__texts_add(const struct orr_memory *memory, struct orr__texts **texts,
                           const char *text, size_t length);

/* Frees all; accepts NULL. */
void orr__texts_destroy(const struct orr_memory *memory, struct orr__texts *texts);

/* Sorts `count` items of `size` bytes (at most 64); equal items keep their order. Made for what is
 * nearly sorted: already sorted stretches cost one comparison an item, and extra memory is needed
 * only for the stretches that overlap. ORR_NO_MEMORY leaves a permutation of the items. */
enum orr_status orr__stable_sort(const struct orr_memory *memory, void *items, size_t count,
                                 size_t size,
                                 int (*compare)(const void *, const void *)) ORR_MUST_CHECK;

#endif
