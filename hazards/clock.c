#include "hazards/clock.h"

#include <assert.h>
#include <string.h>

enum { NODES_MAX = 1 << 30 };

void orr__clocks_init(struct orr__clocks *clocks, const struct orr_memory *memory,
                      uint32_t actors_max) {
    *clocks = (struct orr__clocks){.memory = memory, .count = 1, .levels = 1};
    for (uint32_t rest = actors_max > 0 ? actors_max - 1 : 0; rest >= ORR_CLOCK_FAN;
         rest >>= ORR_CLOCK_BITS)
        clocks->levels++;
}

void orr__clocks_clear(struct orr__clocks *clocks) {
    if (clocks->nodes)
        orr_memory_free(clocks->memory, clocks->nodes);
    clocks->nodes = NULL;
    clocks->capacity = 0;
    clocks->count = 1;
    clocks->free_first = 0;
}

/* --- nodes --- */

/* A node with garbage in it and one owner. */
static enum orr_status take_node(struct orr__clocks *clocks, uint32_t *out_node) {
    *out_node = clocks->free_first;
    if (*out_node == 0) {
        enum orr_status status =
            orr_memory_grow(clocks->memory, &clocks->nodes, &clocks->capacity,
                            (size_t)clocks->count + 1, sizeof *clocks->nodes, NODES_MAX);
        if (status != ORR_OK)
            return status;
        *out_node = clocks->count++;
    } else {
        clocks->free_first = clocks->nodes[*out_node].references;
    }
    clocks->nodes[*out_node].references = 1;
    return ORR_OK;
}

static void drop_node(struct orr__clocks *clocks, uint32_t node, uint32_t level) {
    if (node == 0 || --clocks->nodes[node].references > 0)
        return;
    if (level > 1)
        for (int i = 0; i < ORR_CLOCK_FAN; i++)
            drop_node(clocks, clocks->nodes[node].slots[i], level - 1);
    clocks->nodes[node].references = clocks->free_first;
    clocks->free_first = node;
}

uint32_t orr__clock_share(struct orr__clocks *clocks, uint32_t clock) {
    if (clock != 0)
        clocks->nodes[clock].references++;
    return clock;
}

void orr__clock_drop(struct orr__clocks *clocks, uint32_t *clock) {
    drop_node(clocks, *clock, clocks->levels);
    *clock = 0;
}

/* Makes *node one that may be written: new if there is none, a copy if others own it too. */
static enum orr_status own_node(struct orr__clocks *clocks, uint32_t *node, uint32_t level) {
    uint32_t old = *node;
    if (old != 0 && clocks->nodes[old].references == 1)
        return ORR_OK;
    uint32_t made;
    enum orr_status status = take_node(clocks, &made);
    if (status != ORR_OK)
        return status;
    uint32_t *slots = clocks->nodes[made].slots;
    if (old == 0) {
        memset(slots, 0, sizeof clocks->nodes[made].slots);
    } else {
        memcpy(slots, clocks->nodes[old].slots, sizeof clocks->nodes[made].slots);
        for (int i = 0; level > 1 && i < ORR_CLOCK_FAN; i++)
            (void)orr__clock_share(clocks, slots[i]);
        clocks->nodes[old].references--;
    }
    *node = made;
    return ORR_OK;
}

/* --- clocks --- */

/* Where a clock that nobody shares keeps an entry; NULL if a node on the way is shared or
 * absent. */
static uint32_t *own_entry(struct orr__clocks *clocks, uint32_t clock, uint32_t actor) {
    for (uint32_t shift = (clocks->levels - 1) * ORR_CLOCK_BITS;; shift -= ORR_CLOCK_BITS) {
        struct orr__clock_node *node = &clocks->nodes[clock];
        if (clock == 0 || node->references > 1)
            return NULL;
        uint32_t *slot = &node->slots[actor >> shift & (ORR_CLOCK_FAN - 1)];
        if (shift == 0)
            return slot;
        clock = *slot;
    }
}

static enum orr_status raise_node(struct orr__clocks *clocks, uint32_t *node, uint32_t level,
                                  uint32_t actor, uint32_t time) {
    enum orr_status status = own_node(clocks, node, level);
    if (status != ORR_OK)
        return status;
    uint32_t slot = actor >> (level - 1) * ORR_CLOCK_BITS & (ORR_CLOCK_FAN - 1);
    if (level == 1) {
        clocks->nodes[*node].slots[slot] = time;
        return ORR_OK;
    }
    uint32_t child = clocks->nodes[*node].slots[slot];
    status = raise_node(clocks, &child, level - 1, actor, time);
    clocks->nodes[*node].slots[slot] = child;
    return status;
}

enum orr_status orr__clock_raise(struct orr__clocks *clocks, uint32_t *clock, uint32_t actor,
                                 uint32_t time) {
    assert((uint64_t)actor >> clocks->levels * ORR_CLOCK_BITS == 0);
    uint32_t *entry = own_entry(clocks, *clock, actor);
    if (entry) {
        *entry = *entry > time ? *entry : time;
        return ORR_OK;
    }
    if (orr__clock_get(clocks, *clock, actor) >= time)
        return ORR_OK;
    return raise_node(clocks, clock, clocks->levels, actor, time);
}

/* Whether some slot of b is above that of a. Without a branch inside, so that it vectorizes. */
static bool leaf_exceeds(const uint32_t *a, const uint32_t *b) {
    uint32_t above = 0;
    for (int i = 0; i < ORR_CLOCK_FAN; i++)
        above |= (uint32_t)(b[i] > a[i]);
    return above != 0;
}

static void leaf_join(uint32_t *a, const uint32_t *b) {
    for (int i = 0; i < ORR_CLOCK_FAN; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
}

static bool node_covers(const struct orr__clocks *clocks, uint32_t a, uint32_t b, uint32_t level) {
    static const struct orr__clock_node zeros;
    if (a == b || b == 0)
        return true;
    const uint32_t *x = a == 0 ? zeros.slots : clocks->nodes[a].slots;
    const uint32_t *y = clocks->nodes[b].slots;
    if (level == 1)
        return !leaf_exceeds(x, y);
    for (int i = 0; i < ORR_CLOCK_FAN; i++)
        if (y[i] != 0 && y[i] != x[i] && !node_covers(clocks, x[i], y[i], level - 1))
            return false;
    return true;
}

/* The same along the path of `except`, whose entry does not count. */
static bool node_covers_except(const struct orr__clocks *clocks, uint32_t a, uint32_t b,
                               uint32_t level, uint32_t except) {
    static const struct orr__clock_node zeros;
    if (a == b || b == 0)
        return true;
    const uint32_t *x = a == 0 ? zeros.slots : clocks->nodes[a].slots;
    const uint32_t *y = clocks->nodes[b].slots;
    uint32_t slot = except >> (level - 1) * ORR_CLOCK_BITS & (ORR_CLOCK_FAN - 1);
    if (level == 1 && !leaf_exceeds(x, y))
        return true;
    for (uint32_t i = 0; i < ORR_CLOCK_FAN; i++) {
        if (i == slot || y[i] == 0 || y[i] == x[i])
            continue;
        if (level == 1 ? y[i] > x[i] : !node_covers(clocks, x[i], y[i], level - 1))
            return false;
    }
    return level == 1 || node_covers_except(clocks, x[slot], y[slot], level - 1, except);
}

bool orr__clock_covers(const struct orr__clocks *clocks, uint32_t clock, uint32_t other,
                       uint32_t except) {
    if ((uint64_t)except >> clocks->levels * ORR_CLOCK_BITS != 0)
        return node_covers(clocks, clock, other, clocks->levels);
    return node_covers_except(clocks, clock, other, clocks->levels, except);
}

/* Joins b into *a. Where one of the two covers the other it is kept or shared whole, so that what
 * is equal becomes one node, and the next join sees it at once. */
static enum orr_status join_node(struct orr__clocks *clocks, uint32_t *a, uint32_t b,
                                 uint32_t level) {
    if (node_covers(clocks, *a, b, level))
        return ORR_OK;
    if (node_covers(clocks, b, *a, level)) {
        drop_node(clocks, *a, level);
        *a = orr__clock_share(clocks, b);
        return ORR_OK;
    }
    enum orr_status status = own_node(clocks, a, level);
    if (status == ORR_OK && level == 1)
        leaf_join(clocks->nodes[*a].slots, clocks->nodes[b].slots);
    for (int i = 0; status == ORR_OK && level > 1 && i < ORR_CLOCK_FAN; i++) {
        uint32_t child = clocks->nodes[*a].slots[i];
        status = join_node(clocks, &child, clocks->nodes[b].slots[i], level - 1);
        clocks->nodes[*a].slots[i] = child;
    }
    return status;
}

/* --- views --- */

struct orr__view orr__view_save(struct orr__clocks *clocks, const struct orr__view *view) {
    (void)orr__clock_share(clocks, view->clock);
    return *view;
}

void orr__view_drop(struct orr__clocks *clocks, struct orr__view *view) {
    orr__clock_drop(clocks, &view->clock);
}

/* Whether everything in the view's clock is known to `other`, as far as sources tell. */
static bool is_from(const struct orr__clocks *clocks, const struct orr__view *view,
                    const struct orr__view *other) {
    return view->clock == 0 ||
           (view->source.time > 0 && orr__view_knows(clocks, other, view->source));
}

/* The view's clock takes in that of `other`. */
static enum orr_status join_clocks(struct orr__clocks *clocks, struct orr__view *view,
                                   const struct orr__view *other, bool *out_changed) {
    struct orr__stamp last = {.actor = other->actor, .time = other->time};
    *out_changed = false;
    if (is_from(clocks, other, view) ||
        node_covers(clocks, view->clock, other->clock, clocks->levels))
        return ORR_OK;
    *out_changed = true;
    if (is_from(clocks, view, other) ||
        node_covers(clocks, other->clock, view->clock, clocks->levels)) {
        orr__clock_drop(clocks, &view->clock);
        view->clock = orr__clock_share(clocks, other->clock);
        view->source = last;
        return ORR_OK;
    }
    view->source = (struct orr__stamp){0};
    return join_node(clocks, &view->clock, other->clock, clocks->levels);
}

enum orr_status orr__view_join(struct orr__clocks *clocks, struct orr__view *view,
                               const struct orr__view *other, bool *out_changed) {
    struct orr__stamp last = {.actor = other->actor, .time = other->time};
    bool is_news = last.time > 0 && !orr__view_knows(clocks, view, last), changed = false;
    enum orr_status status = ORR_OK;
    /* Who knows the other's last moment knows what it knew then. */
    if (is_news || other->actor == ORR_NO_ACTOR)
        status = join_clocks(clocks, view, other, &changed);
    if (status == ORR_OK && is_news) {
        bool is_same = view->source.actor == last.actor && view->source.time == last.time;
        bool is_all = view->clock == 0;
        status = orr__clock_raise(clocks, &view->clock, last.actor, last.time);
        if (!is_same)
            view->source = is_all ? last : (struct orr__stamp){0};
    }
    view->time += view->actor != ORR_NO_ACTOR && (changed || is_news);
    if (out_changed)
        *out_changed = changed || is_news;
    return status;
}

/* --- stamps --- */

enum orr_status orr__stamps_add(struct orr__clocks *clocks, struct orr__stamps *stamps,
                                struct orr__stamp stamp) {
    if (stamps->more == 0) {
        if (stamps->one.time == 0 || stamps->one.actor == stamp.actor) {
            stamps->one = stamp;
            return ORR_OK;
        }
        enum orr_status status =
            orr__clock_raise(clocks, &stamps->more, stamps->one.actor, stamps->one.time);
        if (status != ORR_OK)
            return status;
    }
    return orr__clock_raise(clocks, &stamps->more, stamp.actor, stamp.time);
}

bool orr__stamps_known(const struct orr__clocks *clocks, const struct orr__stamps *stamps,
                       const struct orr__view *view) {
    if (stamps->more == 0)
        return stamps->one.time == 0 || orr__view_knows(clocks, view, stamps->one);
    return orr__clock_covers(clocks, view->clock, stamps->more, view->actor);
}

void orr__stamps_clear(struct orr__clocks *clocks, struct orr__stamps *stamps) {
    orr__clock_drop(clocks, &stamps->more);
    stamps->one = (struct orr__stamp){0};
}
