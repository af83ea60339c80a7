#include "hazards/hang_seen.h"

#include "runtime/splitmix.h"

static struct orr__hang_hash *find(struct orr__hang_hash *slots, size_t size,
                                   struct orr__hang_hash hash) {
    for (size_t at = hash.a & (size - 1);; at = (at + 1) & (size - 1))
        if ((slots[at].a == hash.a && slots[at].b == hash.b) ||
            (slots[at].a == 0 && slots[at].b == 0))
            return &slots[at];
}

static enum orr_status grow(struct orr__hang_seen *seen, const struct orr_memory *memory) {
    size_t size = seen->size > 0 ? 2 * seen->size : 64;
    struct orr__hang_hash *slots = orr_memory_alloc(memory, size * sizeof *slots);
    if (!slots)
        return ORR_NO_MEMORY;
    for (size_t i = 0; i < seen->size; i++)
        if (seen->slots[i].a != 0 || seen->slots[i].b != 0)
            *find(slots, size, seen->slots[i]) = seen->slots[i];
    orr_memory_free(memory, seen->slots);
    seen->slots = slots;
    seen->size = size;
    return ORR_OK;
}

enum orr_status orr__hang_seen_add(struct orr__hang_seen *seen, const struct orr_memory *memory,
                                   struct orr__hang_hash hash, bool *out_is_new) {
    *out_is_new = false;
    if (2 * (seen->count + 1) > seen->size) {
        enum orr_status status = grow(seen, memory);
        if (status != ORR_OK)
            return status;
    }
    hash.a = orr_splitmix_mix(hash.a);
    hash.b = orr_splitmix_mix(hash.b) | 1; /* never that of a free slot */
    struct orr__hang_hash *slot = find(seen->slots, seen->size, hash);
    *out_is_new = slot->b == 0;
    seen->count += *out_is_new;
    *slot = hash;
    return ORR_OK;
}

void orr__hang_seen_clear(struct orr__hang_seen *seen, const struct orr_memory *memory) {
    orr_memory_free(memory, seen->slots);
    *seen = (struct orr__hang_seen){0};
}
