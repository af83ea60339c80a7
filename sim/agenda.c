#include "sim/agenda.h"

#include <assert.h>

enum { NOWHERE = UINT32_MAX };

enum orr_status orr__agenda_open(struct orr__agenda *agenda, uint32_t devices,
                                 const struct orr_memory *memory) {
    *agenda = (struct orr__agenda){.devices = devices, .memory = memory};
    agenda->heap = orr_memory_alloc(memory, devices * sizeof *agenda->heap);
    agenda->place = orr_memory_alloc(memory, devices * sizeof *agenda->place);
    if (!agenda->heap || !agenda->place) {
        orr__agenda_close(agenda);
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < devices; i++) {
        agenda->place[i] = NOWHERE;
    }
    return ORR_OK;
}

void orr__agenda_close(struct orr__agenda *agenda) {
    if (agenda->memory) {
        orr_memory_free(agenda->memory, agenda->heap);
        orr_memory_free(agenda->memory, agenda->place);
    }
    *agenda = (struct orr__agenda){0};
}

static inline bool before(const struct orr__event *a, const struct orr__event *b) {
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns;
    }
    return a->class != b->class ? a->class < b->class : a->device < b->device;
}

static inline void put(struct orr__agenda *agenda, uint32_t at, struct orr__event event) {
    agenda->heap[at] = event;
    agenda->place[event.device] = at;
}

static void sift_up(struct orr__agenda *agenda, uint32_t at, struct orr__event event) {
    while (at > 0) {
        uint32_t parent = (at - 1) / 4;
        if (!before(&event, &agenda->heap[parent])) {
            break;
        }
        put(agenda, at, agenda->heap[parent]);
        at = parent;
    }
    put(agenda, at, event);
}

static void sift_down(struct orr__agenda *agenda, uint32_t at, struct orr__event event) {
    for (;;) {
        uint32_t first = 4 * at + 1, best = first;
        if (first >= agenda->count) {
            break;
        }
        uint32_t end = first + 4 < agenda->count ? first + 4 : agenda->count;
        for (uint32_t child = first + 1; child < end; child++) {
            best = before(&agenda->heap[child], &agenda->heap[best]) ? child : best;
        }
        if (!before(&agenda->heap[best], &event)) {
            break;
        }
        put(agenda, at, agenda->heap[best]);
        at = best;
    }
    put(agenda, at, event);
}

static void replace(struct orr__agenda *agenda, uint32_t at, struct orr__event event) {
    if (at > 0 && before(&event, &agenda->heap[(at - 1) / 4])) {
        sift_up(agenda, at, event);
    } else {
        sift_down(agenda, at, event);
    }
}

static void take_out(struct orr__agenda *agenda, uint32_t at) {
    agenda->place[agenda->heap[at].device] = NOWHERE;
    agenda->count--;
    if (at < agenda->count) {
        replace(agenda, at, agenda->heap[agenda->count]);
    }
}

void orr__agenda_set(struct orr__agenda *agenda, uint32_t device, int64_t time_ns,
                     enum orr__event_class class) {
    assert(device < agenda->devices);
    uint32_t at = agenda->place[device];
    if (time_ns == INT64_MAX) {
        if (at != NOWHERE) {
            take_out(agenda, at);
        }
        return;
    }
    struct orr__event event = {.time_ns = time_ns, .class = class, .device = device};
    if (at == NOWHERE) {
        assert(agenda->count < agenda->devices);
        sift_up(agenda, agenda->count++, event);
    } else {
        replace(agenda, at, event);
    }
}
