/* The agenda: what happens next. A 4-ary heap of at most one pending event for each device, ordered
 * by (time, class, device), never by insertion order. A calendar queue would collapse on tied
 * times, which are the rule in virtual time.
 *
 *             [0]
 *      [1] [2] [3] [4]          children of i: 4i+1 .. 4i+4; `place` says where a device's event is
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
    int64_t time_ns;
    uint32_t class; /* enum orr__event_class */
    uint32_t device;
};

struct orr__agenda {
    struct orr__event *heap;
    uint32_t *place; /* of each device's event in the heap; UINT32_MAX: none pending */
    uint32_t count, devices;
    const struct orr_memory *memory;
};

enum orr_status orr__agenda_open(struct orr__agenda *agenda, uint32_t devices,
                                 const struct orr_memory *memory) ORR_MUST_CHECK;
void orr__agenda_close(struct orr__agenda *agenda);

/* Sets, moves or (time ORR_TIME_MAX) removes the event of a device. */
void orr__agenda_set(struct orr__agenda *agenda, uint32_t device, int64_t time_ns,
                     enum orr__event_class class);

/* The earliest event, or NULL. */
static inline const struct orr__event *orr__agenda_top(const struct orr__agenda *agenda) {
    return agenda->count ? agenda->heap : 0;
}

#endif
