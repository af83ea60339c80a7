#include "analyzer/memory_peak.h"

#include <stdbool.h>
#include <string.h>

#include "analyzer/sort.h"

/* An allocation or a free, in the order in which the allocator saw them. */
struct change {
    uint64_t command;
    uint32_t buffer; /* index in the timeline */
    bool frees;
};

struct changes {
    const struct orr_timeline *timeline;
    struct change *items;
    uint32_t *order;
    size_t count;
};

static bool change_before(const void *context, uint32_t a, uint32_t b) {
    const struct change *x = (const struct change *)context + a;
    const struct change *y = (const struct change *)context + b;
    if (x->command != y->command) {
        return x->command < y->command;
    }
    if (x->frees != y->frees) {
        return x->frees;
    }
    return x->buffer < y->buffer;
}

static bool on_device(const struct orr_timeline_buffer *buffer) {
    return buffer->device != ORR_ID_NONE &&
           (buffer->memory[0] == '\0' || strcmp(buffer->memory, "dev") == 0);
}

static enum orr_status list_changes(const struct orr_timeline *t, const struct orr_memory *memory,
                                    struct changes *changes) {
    *changes = (struct changes){.timeline = t};
    changes->items = orr_memory_resize(memory, NULL, 2 * t->buffer_count * sizeof *changes->items);
    changes->order = orr_memory_resize(memory, NULL, 2 * t->buffer_count * sizeof *changes->order);
    if (!changes->items || !changes->order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < t->buffer_count; i++) {
        const struct orr_timeline_buffer *buffer = &t->buffers[i];
        if (!on_device(buffer)) {
            continue;
        }
        changes->items[changes->count++] = (struct change){buffer->alloc_cmd, (uint32_t)i, false};
        if (buffer->free_cmd != 0) {
            changes->items[changes->count++] = (struct change){buffer->free_cmd, (uint32_t)i, true};
        }
    }
    for (size_t i = 0; i < changes->count; i++) {
        changes->order[i] = (uint32_t)i;
    }
    return orr__sort_indices(memory, changes->order, changes->count, change_before, changes->items);
}

static struct orr_memory_peak *peak_of(struct orr_memory_peaks *peaks, uint32_t device) {
    size_t low = 0, high = peaks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (peaks->items[middle].device < device) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < peaks->count && peaks->items[low].device == device;
    return found ? &peaks->items[low] : NULL;
}

/* live_at_end is the running sum meanwhile. */
static void replay(const struct changes *changes, struct orr_memory_peaks *peaks) {
    for (size_t i = 0; i < changes->count; i++) {
        const struct change *change = &changes->items[changes->order[i]];
        const struct orr_timeline_buffer *buffer = &changes->timeline->buffers[change->buffer];
        struct orr_memory_peak *peak = peak_of(peaks, buffer->device);
        if (!peak) {
            continue;
        }
        if (change->frees) {
            peak->live_at_end -=
                buffer->bytes < peak->live_at_end ? buffer->bytes : peak->live_at_end;
            continue;
        }
        peak->allocations++;
        if (__builtin_add_overflow(peak->live_at_end, buffer->bytes, &peak->live_at_end)) {
            peak->live_at_end = UINT64_MAX;
        }
        if (peak->live_at_end > peak->buffer_peak_bytes) {
            peak->buffer_peak_bytes = peak->live_at_end;
            peak->peak_cmd = change->command;
        }
    }
}

static void add_counters(const struct orr_timeline *t, struct orr_memory_peaks *peaks) {
    for (size_t i = 0; i < t->counter_count; i++) {
        const struct orr_timeline_counter *counter = &t->counters[i];
        struct orr_memory_peak *peak = peak_of(peaks, counter->device);
        if (!peak || strcmp(counter->name, "memory bytes") != 0 || !(counter->value >= 0) ||
            counter->value >= 18446744073709551616.0) {
            continue;
        }
        uint64_t bytes = (uint64_t)counter->value;
        if (bytes > peak->counter_peak_bytes) {
            peak->counter_peak_bytes = bytes;
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * What was live at each device's peak, by label */

static bool label_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_timeline *t = context;
    const struct orr_timeline_buffer *x = &t->buffers[a], *y = &t->buffers[b];
    if (x->device != y->device) {
        return x->device < y->device;
    }
    return strcmp(x->label, y->label) < 0;
}

static bool live_at_peak(const struct orr_timeline_buffer *buffer,
                         const struct orr_memory_peak *peak) {
    return buffer->alloc_cmd <= peak->peak_cmd &&
           (buffer->free_cmd == 0 || buffer->free_cmd > peak->peak_cmd);
}

static void add_top(struct orr_memory_peak *peak, struct orr_memory_top top) {
    unsigned at = peak->top_count;
    for (; at > 0 && peak->top[at - 1].bytes < top.bytes; at--) {
        if (at < ORR_MEMORY_TOP) {
            peak->top[at] = peak->top[at - 1];
        }
    }
    if (at < ORR_MEMORY_TOP) {
        peak->top[at] = top;
        peak->top_count += peak->top_count < ORR_MEMORY_TOP;
    }
}

static enum orr_status find_tops(const struct orr_timeline *t, const struct orr_memory *memory,
                                 struct orr_memory_peaks *peaks) {
    uint32_t *live = orr_memory_resize(memory, NULL, t->buffer_count * sizeof *live);
    if (!live) {
        return ORR_NO_MEMORY;
    }
    size_t count = 0;
    for (size_t i = 0; i < t->buffer_count; i++) {
        const struct orr_memory_peak *peak =
            on_device(&t->buffers[i]) ? peak_of(peaks, t->buffers[i].device) : NULL;
        if (peak && live_at_peak(&t->buffers[i], peak)) {
            live[count++] = (uint32_t)i;
        }
    }
    enum orr_status status = orr__sort_indices(memory, live, count, label_before, t);
    for (size_t begin = 0, end; begin < count && status == ORR_OK; begin = end) {
        const struct orr_timeline_buffer *first = &t->buffers[live[begin]];
        struct orr_memory_top top = {.label = first->label};
        for (end = begin; end < count && !label_before(t, live[begin], live[end]); end++) {
            top.bytes += t->buffers[live[end]].bytes;
            top.count++;
        }
        add_top(peak_of(peaks, first->device), top);
    }
    orr_memory_free(memory, live);
    return status;
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
        replay(&changes, out_peaks);
        add_counters(timeline, out_peaks);
        status = find_tops(timeline, memory, out_peaks);
    }
    for (size_t d = 0; d < out_peaks->count && status == ORR_OK; d++) {
        struct orr_memory_peak *peak = &out_peaks->items[d];
        peak->peak_bytes =
            peak->counter_peak_bytes > 0 ? peak->counter_peak_bytes : peak->buffer_peak_bytes;
    }
    orr_memory_free(memory, changes.items);
    orr_memory_free(memory, changes.order);
    if (status != ORR_OK) {
        orr_memory_peaks_free(memory, out_peaks);
    }
    return status;
}

void orr_memory_peaks_free(const struct orr_memory *memory, struct orr_memory_peaks *peaks) {
    orr_memory_free(memory, peaks->items);
    *peaks = (struct orr_memory_peaks){0};
}
