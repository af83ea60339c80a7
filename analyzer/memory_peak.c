#include "analyzer/memory_peak.h"

#include <string.h>

#include "analyzer/sort.h"

/* What happens to a buffer, in the order in which the allocator saw it. At one command frees come
 * first; a new role comes behind the command that it was given after. */
enum change_kind { CHANGE_FREE, CHANGE_ALLOC, CHANGE_ROLE };

struct change {
    uint64_t command;
    uint32_t buffer; /* index in the timeline */
    uint8_t kind;    /* enum change_kind */
    uint8_t role;    /* of CHANGE_ROLE */
};

struct changes {
    const struct orr_timeline *timeline;
    struct change *items;
    uint32_t *order;
    uint8_t *roles; /* by buffer: what it has at this point of the replay */
    size_t count;
};

static bool change_before(const void *context, uint32_t a, uint32_t b) {
    const struct change *x = (const struct change *)context + a;
    const struct change *y = (const struct change *)context + b;
    return x->command != y->command ? x->command < y->command : x->kind < y->kind;
}

bool orr__memory_on_device(const struct orr_timeline_buffer *buffer) {
    return buffer->device != ORR_ID_NONE &&
           (buffer->memory[0] == '\0' || strcmp(buffer->memory, "dev") == 0);
}

uint32_t orr__memory_buffer_index(const struct orr_timeline *t, uint64_t id) {
    size_t low = 0, high = t->buffer_count;
    if (id > 0 && id <= high && t->buffers[id - 1].id == id) {
        return (uint32_t)(id - 1); /* ids are normally dense */
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->buffers[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < t->buffer_count && t->buffers[low].id == id ? (uint32_t)low : ORR_ID_NONE;
}

static void add_change(struct changes *changes, struct change change) {
    changes->order[changes->count] = (uint32_t)changes->count;
    changes->items[changes->count++] = change;
}

/* Allocations, then frees, then roles: each kind is in order or nearly so, which is what the sort
 * is fast for. It is stable, so that what happens at one command keeps the order given here. */
static enum orr_status list_changes(const struct orr_timeline *t, const struct orr_memory *memory,
                                    struct changes *changes) {
    size_t most = 2 * t->buffer_count + t->buffer_role_count;
    *changes = (struct changes){.timeline = t};
    changes->items = orr_memory_resize(memory, NULL, most * sizeof *changes->items);
    changes->order = orr_memory_resize(memory, NULL, most * sizeof *changes->order);
    changes->roles = orr_memory_resize(memory, NULL, t->buffer_count);
    if (!changes->items || !changes->order || !changes->roles) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < t->buffer_count; i++) {
        changes->roles[i] = (uint8_t)t->buffers[i].role;
        if (orr__memory_on_device(&t->buffers[i])) {
            add_change(changes, (struct change){.command = t->buffers[i].alloc_cmd,
                                                .buffer = (uint32_t)i,
                                                .kind = CHANGE_ALLOC});
        }
    }
    for (size_t i = 0; i < t->buffer_count; i++) {
        if (orr__memory_on_device(&t->buffers[i]) && t->buffers[i].free_cmd != 0) {
            add_change(changes, (struct change){.command = t->buffers[i].free_cmd,
                                                .buffer = (uint32_t)i,
                                                .kind = CHANGE_FREE});
        }
    }
    for (size_t i = 0; i < t->buffer_role_count; i++) {
        uint32_t buffer = orr__memory_buffer_index(t, t->buffer_roles[i].buffer);
        if (buffer != ORR_ID_NONE && orr__memory_on_device(&t->buffers[buffer])) {
            add_change(changes, (struct change){.command = t->buffer_roles[i].after_cmd,
                                                .buffer = buffer,
                                                .kind = CHANGE_ROLE,
                                                .role = (uint8_t)t->buffer_roles[i].role});
        }
    }
    return orr__sort_indices(memory, changes->order, changes->count, change_before, changes->items);
}

uint32_t orr__memory_peak_of(const struct orr_memory_peaks *peaks, uint32_t device) {
    size_t low = 0, high = peaks->count;
    if (device < high && peaks->items[device].device == device) {
        return device;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (peaks->items[middle].device < device) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < peaks->count && peaks->items[low].device == device;
    return found ? (uint32_t)low : ORR_ID_NONE;
}

/* ------------------------------------------------------------------------------------------------
 * The replay. A damaged trace may free what it never allocated, or more than there is: sums stay
 * within their range. */

/* Sums of one device so far: `roles` add up to peak->live_at_end. */
struct running {
    uint64_t roles[ORR_ROLE_COUNT];
};

static void add_bytes(uint64_t *sum, uint64_t bytes) {
    if (__builtin_add_overflow(*sum, bytes, sum)) {
        *sum = UINT64_MAX;
    }
}

static void take_bytes(uint64_t *sum, uint64_t bytes) {
    *sum -= bytes < *sum ? bytes : *sum;
}

static void enter_role(struct orr_memory_peak *peak, struct running *now, uint8_t role,
                       uint64_t bytes) {
    add_bytes(&now->roles[role], bytes);
    if (now->roles[role] > peak->role_peak_bytes[role]) {
        peak->role_peak_bytes[role] = now->roles[role];
    }
}

/* live_at_end is the running sum meanwhile. */
static void apply(struct orr_memory_peak *peak, struct running *now, uint8_t *role,
                  const struct change *change, uint64_t bytes) {
    if (change->kind != CHANGE_ALLOC) {
        take_bytes(&now->roles[*role], bytes);
    }
    if (change->kind == CHANGE_ROLE) {
        *role = change->role;
    }
    if (change->kind != CHANGE_FREE) {
        enter_role(peak, now, *role, bytes);
    }
    if (change->kind == CHANGE_FREE) {
        take_bytes(&peak->live_at_end, bytes);
    } else if (change->kind == CHANGE_ALLOC) {
        peak->allocations++;
        add_bytes(&peak->live_at_end, bytes);
        if (peak->live_at_end > peak->buffer_peak_bytes) {
            peak->buffer_peak_bytes = peak->live_at_end;
            peak->peak_cmd = change->command;
            memcpy(peak->role_bytes, now->roles, sizeof peak->role_bytes);
        }
    }
}

static enum orr_status replay(const struct changes *changes, const struct orr_memory *memory,
                              struct orr_memory_peaks *peaks) {
    struct running *now = orr_memory_alloc(memory, peaks->count * sizeof *now);
    if (!now) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < changes->count; i++) {
        const struct change *change = &changes->items[changes->order[i]];
        const struct orr_timeline_buffer *buffer = &changes->timeline->buffers[change->buffer];
        uint32_t index = orr__memory_peak_of(peaks, buffer->device);
        if (index != ORR_ID_NONE) {
            apply(&peaks->items[index], &now[index], &changes->roles[change->buffer], change,
                  buffer->bytes);
        }
    }
    orr_memory_free(memory, now);
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Counters */

static bool counts_bytes(const struct orr_timeline_counter *counter, const char *name) {
    return counter->value >= 0 && counter->value < 18446744073709551616.0 &&
           strcmp(counter->name, name) == 0;
}

/* A row's place in the order of writing, +1; 0: none yet. */
struct at {
    uint64_t peak, reserved;
};

/* The first of the largest values. */
static void add_counter_peaks(const struct orr_timeline *t, struct orr_memory_peaks *peaks,
                              struct at *at) {
    for (size_t i = 0; i < t->counter_count; i++) {
        const struct orr_timeline_counter *counter = &t->counters[i];
        uint32_t index = orr__memory_peak_of(peaks, counter->device);
        if (index == ORR_ID_NONE || !counts_bytes(counter, "memory bytes")) {
            continue;
        }
        uint64_t bytes = (uint64_t)counter->value, place = (uint64_t)counter->order + 1;
        struct orr_memory_peak *peak = &peaks->items[index];
        bool earlier = bytes == peak->counter_peak_bytes && place < at[index].peak;
        if (bytes > peak->counter_peak_bytes || earlier) {
            peak->counter_peak_bytes = bytes;
            at[index].peak = place;
        }
    }
}

/* The last value before that. */
static void add_reserved(const struct orr_timeline *t, struct orr_memory_peaks *peaks,
                         struct at *at) {
    for (size_t i = 0; i < t->counter_count; i++) {
        const struct orr_timeline_counter *counter = &t->counters[i];
        uint32_t index = orr__memory_peak_of(peaks, counter->device);
        if (index == ORR_ID_NONE || !counts_bytes(counter, "reserved bytes")) {
            continue;
        }
        uint64_t bytes = (uint64_t)counter->value, place = (uint64_t)counter->order + 1;
        struct orr_memory_peak *peak = &peaks->items[index];
        if (bytes > peak->reserved_peak_bytes) {
            peak->reserved_peak_bytes = bytes;
        }
        if (place < at[index].peak && place > at[index].reserved) {
            peak->knows_reserved = true;
            peak->reserved_bytes = bytes;
            at[index].reserved = place;
        }
    }
}

static enum orr_status add_counters(const struct orr_timeline *t, const struct orr_memory *memory,
                                    struct orr_memory_peaks *peaks) {
    struct at *at = orr_memory_alloc(memory, peaks->count * sizeof *at);
    if (!at) {
        return ORR_NO_MEMORY;
    }
    add_counter_peaks(t, peaks, at);
    add_reserved(t, peaks, at);
    orr_memory_free(memory, at);
    return ORR_OK;
}

/* ---------------------------------------------------------------------------------------------- */

static void free_changes(const struct orr_memory *memory, struct changes *changes) {
    orr_memory_free(memory, changes->items);
    orr_memory_free(memory, changes->order);
    orr_memory_free(memory, changes->roles);
}

enum orr_status orr_memory_peaks_compute(const struct orr_timeline *timeline,
                                         const struct orr_memory *memory,
                                         struct orr_memory_peaks *out_peaks) {
    *out_peaks = (struct orr_memory_peaks){.count = timeline->device_count};
    out_peaks->items = orr_memory_alloc(memory, timeline->device_count * sizeof *out_peaks->items);
    if (!out_peaks->items) {
        return ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < timeline->device_count; d++) {
        out_peaks->items[d].device = timeline->devices[d].id;
        out_peaks->items[d].capacity_bytes = timeline->devices[d].mem_bytes;
    }
    struct changes changes;
    enum orr_status status = list_changes(timeline, memory, &changes);
    if (status == ORR_OK) {
        status = replay(&changes, memory, out_peaks);
    }
    free_changes(memory, &changes);
    if (status == ORR_OK) {
        status = add_counters(timeline, memory, out_peaks);
    }
    if (status == ORR_OK) {
        status = orr__memory_live(timeline, memory, out_peaks);
    }
    for (size_t d = 0; d < out_peaks->count && status == ORR_OK; d++) {
        struct orr_memory_peak *peak = &out_peaks->items[d];
        peak->peak_bytes =
            peak->counter_peak_bytes > 0 ? peak->counter_peak_bytes : peak->buffer_peak_bytes;
    }
    if (status != ORR_OK) {
        orr_memory_peaks_free(memory, out_peaks);
    }
    return status;
}

void orr_memory_peaks_free(const struct orr_memory *memory, struct orr_memory_peaks *peaks) {
    orr_memory_free(memory, peaks->items);
    *peaks = (struct orr_memory_peaks){0};
}

uint64_t orr_memory_fragmentation(const struct orr_memory_peak *peak) {
    bool more = peak->knows_reserved && peak->reserved_bytes > peak->peak_bytes;
    return more ? peak->reserved_bytes - peak->peak_bytes : 0;
}
