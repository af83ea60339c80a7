/* States that were seen, by 128 bits of hash.
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_HANG_SEEN_H
#define ORR_HAZARDS_HANG_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/status.h"

struct orr__hang_hash {
    uint64_t a, b;
};

/* All zero: empty. */
struct orr__hang_seen {
    struct orr__hang_hash *slots; /* both words 0: free */
    size_t size, count;           /* size: a power of two, or 0 */
};

/* Mixes a value into a hash. */
static inline void orr__hang_mix(struct orr__hang_hash *hash, uint64_t value) {
    hash->a = (hash->a ^ value) * UINT64_C(0x9fb21c651e98df25);
    hash->a ^= hash->a >> 32;
    hash->b = (hash->b + value) * UINT64_C(0xd6e8feb86659fd93);
    hash->b ^= hash->b >> 29;
}

/* Remembers a state; *out_is_new: it was not there. Half the slots at most are taken. */
enum orr_status orr__hang_seen_add(struct orr__hang_seen *seen, const struct orr_memory *memory,
                                   struct orr__hang_hash hash, bool *out_is_new) ORR_MUST_CHECK;
void orr__hang_seen_clear(struct orr__hang_seen *seen, const struct orr_memory *memory);

#endif
