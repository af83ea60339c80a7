/* The agenda: what happens next. At most one pending event for each device, ordered by (time,
 * class, device), never by insertion order: a tournament, whose leaves are the devices and where
 * every inner node is the earlier one of the two below it.
 *
 *               [1]               the earliest event of all
 *          [2]       [3]
 *        [4] [5]   [6] [7]        leaves: 4 + device; INT64_MAX where nothing is pending
 *
 * Setting an event replays its path to the root, log2(devices) comparisons without a branch that
 * depends on them: what they are compared with is known from the start, and so loaded ahead. In a
 * heap every step waits for the one before, and its branches are guessed wrong half of the time. A
 * calendar queue would collapse on tied times, which are the rule in virtual time.
 *
 * Threads: one. */
#ifndef ORR_SIM_AGENDA_H
#define ORR_SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/memory.h"

/* Order of events at one time. A host's call comes between what has finished and what may start. */
enum orr__event_class { ORR__EVENT_FINISH, ORR__EVENT_HOST, ORR__EVENT_START };

struct orr__event {
    uint64_t order; /* class << 32 | device */
    int64_t time_ns;
};

static inline enum orr__event_class orr__event_class(const struct orr__event *event) {
    return (enum orr__event_class)(event->order >> 32);
}

static inline uint32_t orr__event_device(const struct orr__event *event) {
    return (uint32_t)event->order;
}

struct orr__agenda {
    struct orr__event *nodes; /* 1 is the root */
    uint32_t leaves, devices; /* leaves: a power of two, and where they begin */
    const struct orr_memory *memory;
};

enum orr_status orr__agenda_open(struct orr__agenda *agenda, uint32_t devices,
                                 const struct orr_memory *memory) ORR_MUST_CHECK;
void orr__agenda_close(struct orr__agenda *agenda);

enum { ORR__AGENDA_PARTS = 128 };

/* Sets, moves or (time ORR_TIME_MAX) removes the event of a device. Returns a device whose event is
 * the next one of a sixteenth of all devices, and so among the next of all: whoever asks often
 * enough hears of each event about sixteen events before it comes. */
uint32_t orr__agenda_set(struct orr__agenda *agenda, uint32_t device, int64_t time_ns,
                         enum orr__event_class class);

/* The earliest event, or NULL. */
static inline const struct orr__event *orr__agenda_top(const struct orr__agenda *agenda) {
    const struct orr__event *top = &agenda->nodes[1];
    return top->time_ns != INT64_MAX ? top : 0;
}

#endif
