#include "sim/agenda.h"

#include <assert.h>

static const struct orr__event NOTHING = {.order = UINT64_MAX, .time_ns = INT64_MAX};

enum orr_status orr__agenda_open(struct orr__agenda *agenda, uint32_t devices,
                                 const struct orr_memory *memory) {
    uint32_t leaves = 1;
    while (leaves < devices && leaves <= UINT32_MAX / 4) {
        leaves *= 2;
    }
    *agenda = (struct orr__agenda){.leaves = leaves, .devices = devices, .memory = memory};
    agenda->nodes = orr_memory_alloc_lines(memory, 2 * (size_t)leaves * sizeof *agenda->nodes);
    if (!agenda->nodes || leaves < devices) {
        orr__agenda_close(agenda);
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < 2 * (size_t)leaves; i++) {
        agenda->nodes[i] = NOTHING;
    }
    return ORR_OK;
}

void orr__agenda_close(struct orr__agenda *agenda) {
    if (agenda->memory) {
        orr_memory_free_lines(agenda->memory, agenda->nodes);
    }
    *agenda = (struct orr__agenda){0};
}

/* All ones if `a` comes before `b`. The compiler is not to know what it is: it would guess. */
static inline uint64_t is_before(struct orr__event a, struct orr__event b) {
    unsigned __int128 first = (unsigned __int128)(uint64_t)a.time_ns << 64 | a.order;
    unsigned __int128 second = (unsigned __int128)(uint64_t)b.time_ns << 64 | b.order;
    uint64_t mask = -(uint64_t)(first < second);
    __asm__("" : "+r"(mask));
    return mask;
}

/* Plays the matches from a node whose winner is `event` up to node `top`; returns that one's. */
static inline struct orr__event replay(struct orr__event *nodes, uint32_t at, uint32_t top,
                                       struct orr__event event) {
    nodes[at] = event;
    for (size_t i = at; i >= 2 * (size_t)top;) {
        struct orr__event other = nodes[i ^ 1];
        uint64_t mask = is_before(other, event);
        event.order ^= (event.order ^ other.order) & mask;
        event.time_ns ^= (event.time_ns ^ other.time_ns) & (int64_t)mask;
        i /= 2;
        nodes[i] = event;
    }
    return event;
}

uint32_t orr__agenda_set(struct orr__agenda *agenda, uint32_t device, int64_t time_ns,
                         enum orr__event_class class) {
    assert(device < agenda->devices && time_ns >= 0);
    struct orr__event event = {(uint64_t) class << 32 | device, time_ns};
    if (time_ns == INT64_MAX) {
        event = NOTHING;
    }
    uint32_t at = agenda->leaves + device;
    if (agenda->leaves > ORR__AGENDA_PARTS) {
        event = replay(agenda->nodes, at, ORR__AGENDA_PARTS, event);
        at /= agenda->leaves / ORR__AGENDA_PARTS;
    }
    uint32_t soon = orr__event_device(&event);
    (void)replay(agenda->nodes, at, 1, event);
    return soon;
}
