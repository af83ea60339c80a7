#include <assert.h>

#include "runtime/autograd_internal.h"

enum { CAPACITY_MIN = 64, CAPACITY_MAX = 1 << 23 };

/* Serials come one after the other; a multiplication spreads them over the upper bits. */
static size_t slot_of(const struct orr__variables *variables, uint64_t serial) {
    uint64_t mixed = serial * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (variables->capacity - 1);
}

/* The tensor's slot, or the free one where it belongs. */
static struct orr__variable *find(const struct orr__variables *variables, uint64_t serial) {
    size_t at = slot_of(variables, serial);
    while (variables->slots[at].serial != serial && variables->slots[at].serial != 0) {
        at = (at + 1) & (variables->capacity - 1);
    }
    return &variables->slots[at];
}

const struct orr__variable *orr__variables_find(const struct orr__variables *variables,
                                                const struct orr_tensor *tensor) {
    const struct orr__variable *slot = variables->count ? find(variables, tensor->serial) : NULL;
    return slot && slot->serial ? slot : NULL;
}

enum orr_status orr__variables_reserve(struct orr__variables *variables,
                                       const struct orr_memory *memory, uint32_t more) {
    size_t capacity = variables->capacity ? variables->capacity : CAPACITY_MIN;
    while (capacity / 2 < (size_t)variables->count + more) {
        capacity *= 2; /* at most half full */
    }
    if (capacity == variables->capacity) {
        return ORR_OK;
    }
    struct orr__variables larger = {.capacity = capacity, .count = variables->count};
    if (capacity <= CAPACITY_MAX) {
        larger.slots = orr_memory_alloc(memory, capacity * sizeof *larger.slots);
    }
    if (!larger.slots) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < variables->capacity; i++) {
        if (variables->slots[i].serial) {
            *find(&larger, variables->slots[i].serial) = variables->slots[i];
        }
    }
    orr_memory_free(memory, variables->slots);
    *variables = larger;
    return ORR_OK;
}

uint32_t orr__variables_add(struct orr__variables *variables, const struct orr_tensor *tensor,
                            bool leaf) {
    assert(variables->count < variables->capacity / 2);
    struct orr__variable *slot = find(variables, tensor->serial);
    assert(slot->serial == 0);
    *slot = (struct orr__variable){
        .serial = tensor->serial, .number = variables->count++, .leaf = leaf};
    return slot->number;
}
