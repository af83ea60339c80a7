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

static inline unsigned __int128 key(struct orr__event event) {
    return (unsigned __int128)(uint64_t)event.time_ns << 64 | event.order;
}

void orr__agenda_set(struct orr__agenda *agenda, uint32_t device, int64_t time_ns,
                     enum orr__event_class class) {
    assert(device < agenda->devices && time_ns >= 0);
    struct orr__event *nodes = agenda->nodes;
    uint32_t at = agenda->leaves + device;
    uint64_t order = (uint64_t) class << 32 | device;
    struct orr__event event = {time_ns == INT64_MAX ? NOTHING.order : order, time_ns};
    nodes[at] = event;
    for (; at > 1; at /= 2) {
        struct orr__event other = nodes[at ^ 1];
        bool wins = key(other) < key(event);
        event.order = wins ? other.order : event.order;
        event.time_ns = wins ? other.time_ns : event.time_ns;
        nodes[at / 2] = event;
    }
}
