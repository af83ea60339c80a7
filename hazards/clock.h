/* Vector clocks that share what they have in common.
 *
 * An actor is a stream or a host thread. Its view says, for every actor, up to which time of that
 * actor everything is known to be complete. Time is counted per actor, from 1; two things let it
 * pass: an action (orr__view_tick), and learning something new (orr__view_join). So a view that
 * holds time t of an actor holds all that this actor knew then, and most joins that bring nothing
 * are seen from one number.
 *
 *     view of actor 2:  clock --> node          clock: a tree, 16 entries a node, shared by
 *                       actor 2  / ... \               reference count, copied when written
 *                       time 7  leaf   leaf   time: own entry, kept out of the tree so that
 *                               16 times             a tick touches nothing shared
 *
 * Saving a view (an event's content) costs one reference; a join costs what differs. An absent
 * subtree stands for zeros, so a thousand streams that know only themselves take no memory.
 *
 *     struct orr__clocks clocks;
 *     orr__clocks_init(&clocks, memory, actor_count);
 *     struct orr__view s0 = {.actor = 0}, s1 = {.actor = 1};
 *     struct orr__stamp write = orr__view_tick(&s0);
 *     struct orr__view event = orr__view_save(&clocks, &s0);
 *     if (orr__view_join(&clocks, &s1, &event) != ORR_OK) ...
 *     assert(orr__view_knows(&clocks, &s1, write));
 *
 * Ownership: clocks are numbers in a pool, 0 for one that knows nothing; each is to be dropped
 * once, or all at once with the pool. Errors: ORR_NO_MEMORY; the view may then have learnt a part.
 *
 * Threads: one at a time per pool. */
#ifndef ORR_HAZARDS_CLOCK_H
#define ORR_HAZARDS_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/status.h"

enum { ORR_CLOCK_BITS = 4, ORR_CLOCK_FAN = 1 << ORR_CLOCK_BITS };
#define ORR_NO_ACTOR UINT32_MAX

struct orr__clock_node {
    uint32_t slots[ORR_CLOCK_FAN]; /* times in a leaf, numbers of nodes above */
    uint32_t references;           /* of a free node: the next free one */
};

/* A pool of nodes; number 0 is none. */
struct orr__clocks {
    const struct orr_memory *memory;
    struct orr__clock_node *nodes;
    size_t capacity;
    uint32_t count, free_first;
    uint32_t levels; /* of every clock; 1: a leaf */
};

/* The moment `time` of an actor. time 0: never. */
struct orr__stamp {
    uint32_t actor, time;
};

/* What an actor knows, or knew when the view was saved: `clock`, and of itself everything up to
 * `time`. With ORR_NO_ACTOR a sum of views, that belongs to nobody.
 *
 * `source`: whoever knows this moment knows all of `clock`, because all of it was learnt from
 * there; time 0: it has no single source. A fork and its join are seen from it without a look at
 * clocks. */
struct orr__view {
    uint32_t clock, actor, time;
    struct orr__stamp source;
};

/* Stamps of which only the newest of each actor counts: one in place, more in a clock. All zero:
 * none. */
struct orr__stamps {
    struct orr__stamp one;
    uint32_t more; /* clock that holds all of them; 0: only `one`, if that */
};

/* For actors 0 .. actors_max - 1. Allocates nothing yet. */
void orr__clocks_init(struct orr__clocks *clocks, const struct orr_memory *memory,
                      uint32_t actors_max);
/* Frees every clock of the pool at once. */
void orr__clocks_clear(struct orr__clocks *clocks);

/* One more owner of the same clock; drop ends one ownership and zeroes the number. */
uint32_t orr__clock_share(struct orr__clocks *clocks, uint32_t clock);
void orr__clock_drop(struct orr__clocks *clocks, uint32_t *clock);
/* Raises one entry to `time`, if it is lower. */
enum orr_status orr__clock_raise(struct orr__clocks *clocks, uint32_t *clock, uint32_t actor,
                                 uint32_t time) ORR_MUST_CHECK;
/* Whether no entry of `other` is above that of `clock`, the entry of actor `except` aside. */
bool orr__clock_covers(const struct orr__clocks *clocks, uint32_t clock, uint32_t other,
                       uint32_t except);

/* One entry. */
static inline uint32_t orr__clock_get(const struct orr__clocks *clocks, uint32_t clock,
                                      uint32_t actor) {
    for (uint32_t shift = (clocks->levels - 1) * ORR_CLOCK_BITS; clock != 0 && shift > 0;
         shift -= ORR_CLOCK_BITS)
        clock = clocks->nodes[clock].slots[actor >> shift & (ORR_CLOCK_FAN - 1)];
    return clock == 0 ? 0 : clocks->nodes[clock].slots[actor & (ORR_CLOCK_FAN - 1)];
}

/* An action: the next moment of the view's actor. */
static inline struct orr__stamp orr__view_tick(struct orr__view *view) {
    view->time++;
    return (struct orr__stamp){.actor = view->actor, .time = view->time};
}

/* Whether the moment comes before whatever the view's actor does next. */
static inline bool orr__view_knows(const struct orr__clocks *clocks, const struct orr__view *view,
                                   struct orr__stamp stamp) {
    return stamp.actor == view->actor
               ? stamp.time <= view->time
               : stamp.time <= orr__clock_get(clocks, view->clock, stamp.actor);
}

/* The view as it is now, to be kept; dropped with orr__view_drop. */
struct orr__view orr__view_save(struct orr__clocks *clocks, const struct orr__view *view);
void orr__view_drop(struct orr__clocks *clocks, struct orr__view *view);
/* The view's actor learns everything that `other` holds. *out_changed (may be NULL): it did not
 * know all of it; its time has passed then. */
enum orr_status orr__view_join(struct orr__clocks *clocks, struct orr__view *view,
                               const struct orr__view *other, bool *out_changed) ORR_MUST_CHECK;

enum orr_status orr__stamps_add(struct orr__clocks *clocks, struct orr__stamps *stamps,
                                struct orr__stamp stamp) ORR_MUST_CHECK;
/* Whether the view knows all of them. */
bool orr__stamps_known(const struct orr__clocks *clocks, const struct orr__stamps *stamps,
                       const struct orr__view *view);
void orr__stamps_clear(struct orr__clocks *clocks, struct orr__stamps *stamps);

#endif
