#include "analyzer/operator_set.h"

#include <string.h>

static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return (hash ^ 255) * UINT64_C(1099511628211);
}

static uint64_t hash_operator(const struct orr_events_operator *item) {
    uint64_t hash = hash_text(UINT64_C(14695981039346656037), item->name);
    hash = hash_text(hash, item->kind);
    hash = hash_text(hash, item->shape);
    hash = (hash ^ item->dtype) * UINT64_C(1099511628211);
    hash = (hash ^ item->unit) * UINT64_C(1099511628211);
    return hash ^ (hash >> 32);
}

bool orr__operator_same(const struct orr_events_operator *a, const struct orr_events_operator *b) {
    return a->dtype == b->dtype && a->unit == b->unit && strcmp(a->name, b->name) == 0 &&
           strcmp(a->kind, b->kind) == 0 && strcmp(a->shape, b->shape) == 0;
}

static enum orr_status grow_set(const struct orr_events *events, struct orr__operator_set *set) {
    size_t capacity = set->capacity ? set->capacity * 2 : 64;
    uint32_t *slots = orr_memory_alloc(events->memory, capacity * sizeof *slots);
    if (!slots) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i] == 0) {
            continue;
        }
        size_t at = hash_operator(&events->operators[set->slots[i] - 1]) & (capacity - 1);
        while (slots[at] != 0) {
            at = (at + 1) & (capacity - 1);
        }
        slots[at] = set->slots[i];
    }
    orr_memory_free(events->memory, set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return ORR_OK;
}

enum orr_status orr__operator_intern(struct orr_events *events, struct orr__operator_set *set,
                                     const struct orr_events_operator *item, uint32_t *out_row) {
    if (2 * (set->used + 1) > set->capacity) {
        enum orr_status status = grow_set(events, set);
        if (status != ORR_OK) {
            return status;
        }
    }
    size_t at = hash_operator(item) & (set->capacity - 1);
    while (set->slots[at] != 0) {
        uint32_t row = set->slots[at] - 1;
        if (orr__operator_same(&events->operators[row], item)) {
            *out_row = row;
            return ORR_OK;
        }
        at = (at + 1) & (set->capacity - 1);
    }
    enum orr_status status = orr_events_add_operator(events, item, out_row);
    if (status == ORR_OK) {
        set->slots[at] = *out_row + 1;
        set->used++;
    }
    return status;
}

void orr__operator_set_free(const struct orr_memory *memory, struct orr__operator_set *set) {
    orr_memory_free(memory, set->slots);
    *set = (struct orr__operator_set){0};
}
