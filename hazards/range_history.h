/* Who has touched which bytes of a memory, as far as somebody may still conflict with it.
 *
 *     bytes   0        512            1024                     2048
 *     spans   [ w5      | w5 r2 r7     )      (nobody) [ w9      )
 *
 * A span is a range of bytes with the same touches. A touch stays until one that comes after it
 * makes it superfluous: a later write, or for a read a later read too. Of every actor there are at
 * most one read and one write in a span, so that the size follows the bytes in use and the number
 * of actors, not the length of the run.
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_RANGE_HISTORY_H
#define ORR_HAZARDS_RANGE_HISTORY_H

#include "hazards/shared_clock.h"
#include "runtime/status.h"

/* One command's touch of a range. */
struct orr__touch {
    uint32_t actor;
    int32_t count; /* the actor's count: the touch precedes clocks that know as much */
    uint64_t cmd, buffer;
    uint32_t name, site, label; /* names: of the command; of the buffer */
    uint32_t host;              /* who called it... */
    int32_t call; /* ...and its count by then: who knows as much comes after the call */
    uint8_t mode; /* enum orr_access_mode */
};

struct orr__touches;

struct orr__span {
    uint64_t lo, hi;
    struct orr__touches *touches;
};

enum { ORR__TOUCH_SIZES = 24 }; /* of lists: 2, 4, 8, ... */

/* Where lists of touches come from. `bytes` is what is in use now. */
struct orr__touch_pool {
    const struct orr_memory *memory;
    struct orr__touches *free[ORR__TOUCH_SIZES];
    uint64_t bytes;
};

/* All zero: nobody has touched anything. */
struct orr__range_history {
    struct orr__span *spans; /* ascending, disjoint */
    size_t count, capacity;
};

/* Who looks at the history: what it knows, and who it is. */
struct orr__looker {
    uint32_t actor;
    const struct orr__shared_clock *knows;
    const struct orr__shared_clock *all_know; /* every later actor will: such touches can go */
};

/* Told of a touch in [lo, hi) that nothing orders before the new one, one of the two a write. */
typedef void (*orr__conflict)(void *context, const struct orr__touch *earlier, uint64_t lo,
                              uint64_t hi);

void orr__touch_pool_init(struct orr__touch_pool *pool, const struct orr_memory *memory);
/* All histories have been cleared. */
void orr__touch_pool_clear(struct orr__touch_pool *pool);

/* Adds a touch of [lo, hi), lo < hi, and tells of its conflicts in order of addresses. False
 * without memory: parts of the range may then lack the touch. */
bool orr__range_history_add(struct orr__range_history *history, struct orr__touch_pool *pool,
                            const struct orr__looker *looker, uint64_t lo, uint64_t hi,
                            const struct orr__touch *touch, orr__conflict conflict, void *context);

/* Tells of all touches in [lo, hi), in order of addresses. */
void orr__range_history_each(const struct orr__range_history *history, uint64_t lo, uint64_t hi,
                             orr__conflict each, void *context);

/* Forgets the touches of [lo, hi) that a clock knows. False without memory: some may stay. */
bool orr__range_history_forget(struct orr__range_history *history, struct orr__touch_pool *pool,
                               uint64_t lo, uint64_t hi, const struct orr__shared_clock *known);

/* Forgets what everyone knows. */
void orr__range_history_prune(struct orr__range_history *history, struct orr__touch_pool *pool,
                              const struct orr__shared_clock *all_know);

/* Forgets everything. */
void orr__range_history_clear(struct orr__range_history *history, struct orr__touch_pool *pool);

#endif
