/* An order of the nodes in which each comes behind what it needs: points, items, groups. What goes
 * in a circle is cut open at its earliest node, which is pinned. */
#include "analyzer/replay_internal.h"
#include "analyzer/sort.h"

struct sorter {
    struct orr_replay *replay;
    uint32_t *needs;     /* by node: what it still waits for */
    uint32_t *followers; /* nodes that need node n: follower_first[n] .. follower_first[n + 1] */
    size_t *follower_first;
    size_t ordered, taken;
};

static uint32_t item_node(const struct orr_replay *replay, uint32_t item) {
    return (uint32_t)replay->point_count + item;
}

static uint32_t group_node(const struct orr_replay *replay, uint32_t group) {
    return (uint32_t)(replay->point_count + replay->item_count) + group;
}

/* Calls `found` with every (node, what it needs). */
static void each_need(struct sorter *sorter,
                      void (*found)(struct sorter *sorter, uint32_t node, uint32_t need)) {
    const struct orr_replay *replay = sorter->replay;
    size_t plain = replay->point_count + replay->item_count;
    for (size_t node = 0; node < plain; node++) {
        for (size_t e = replay->edge_first[node]; e < replay->edge_first[node + 1]; e++) {
            found(sorter, (uint32_t)node, orr__replay_node(replay, &replay->edges[e]));
        }
        if (node < replay->point_count) {
            if (!replay->points[node].first) {
                found(sorter, (uint32_t)node, (uint32_t)node - 1);
            }
        } else if (replay->items[node - replay->point_count].point != ORR_EVENTS_NONE) {
            found(sorter, (uint32_t)node, replay->items[node - replay->point_count].point);
        }
    }
    for (uint32_t g = 0; g < replay->group_count; g++) {
        for (size_t m = replay->member_first[g]; m < replay->member_first[g + 1]; m++) {
            found(sorter, group_node(replay, g), item_node(replay, replay->members[m]));
        }
    }
}

static void count_need(struct sorter *sorter, uint32_t node, uint32_t need) {
    sorter->needs[node]++;
    sorter->follower_first[need + 1]++;
}

static void list_need(struct sorter *sorter, uint32_t node, uint32_t need) {
    sorter->followers[sorter->follower_first[need]++] = node;
}

static void append(struct sorter *sorter, uint32_t node) {
    sorter->needs[node] = UINT32_MAX;
    sorter->replay->order[sorter->ordered++] = node;
}

/* Takes nodes off the front until none is left that needs nothing. */
static void drain(struct sorter *sorter) {
    while (sorter->taken < sorter->ordered) {
        uint32_t node = sorter->replay->order[sorter->taken++];
        for (size_t f = sorter->follower_first[node]; f < sorter->follower_first[node + 1]; f++) {
            uint32_t *needs = &sorter->needs[sorter->followers[f]];
            if (*needs != UINT32_MAX && --*needs == 0) {
                append(sorter, sorter->followers[f]);
            }
        }
    }
}

static int64_t observed(const struct orr_replay *replay, uint32_t node) {
    if (node < replay->point_count) {
        return replay->points[node].observed_ns;
    }
    node -= (uint32_t)replay->point_count;
    if (node < replay->item_count) {
        return replay->items[node].start_ns;
    }
    node -= (uint32_t)replay->item_count;
    int64_t last = INT64_MIN;
    for (size_t m = replay->member_first[node]; m < replay->member_first[node + 1]; m++) {
        int64_t start = replay->items[replay->members[m]].start_ns;
        last = start > last ? start : last;
    }
    return last;
}

/* Groups are numbered as the source has them: their first members say which comes first. */
static uint32_t rank_of(const struct orr_replay *replay, uint32_t node) {
    size_t plain = replay->point_count + replay->item_count;
    return node < plain ? node : replay->members[replay->member_first[node - plain]];
}

static bool earlier(const void *context, uint32_t a, uint32_t b) {
    const struct orr_replay *replay = context;
    size_t plain = replay->point_count + replay->item_count;
    int64_t time_a = observed(replay, a), time_b = observed(replay, b);
    if (time_a != time_b || (a < plain) != (b < plain)) {
        return time_a != time_b ? time_a < time_b : a < plain;
    }
    return rank_of(replay, a) < rank_of(replay, b);
}

/* A group in a circle is none: its members end on their own. */
static void pin(struct orr_replay *replay, uint32_t node) {
    replay->counts.circular++;
    if (node < replay->point_count) {
        replay->points[node].pinned = 1;
        return;
    }
    node -= (uint32_t)replay->point_count;
    if (node < replay->item_count) {
        replay->items[node].pinned = ORR_REPLAY_CIRCULAR;
        return;
    }
    node -= (uint32_t)replay->item_count;
    for (size_t m = replay->member_first[node]; m < replay->member_first[node + 1]; m++) {
        replay->items[replay->members[m]].pinned = ORR_REPLAY_CIRCULAR;
    }
}

static enum orr_status cut_circles(struct sorter *sorter) {
    struct orr_replay *replay = sorter->replay;
    size_t count = 0;
    uint32_t *left = orr_memory_resize(replay->memory, NULL,
                                       (replay->node_count - sorter->ordered) * sizeof *left);
    if (!left) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t node = 0; node < replay->node_count; node++) {
        if (sorter->needs[node] != UINT32_MAX) {
            left[count++] = node;
        }
    }
    enum orr_status status = orr__sort_indices(replay->memory, left, count, earlier, replay);
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        if (sorter->needs[left[i]] != UINT32_MAX) {
            pin(replay, left[i]);
            append(sorter, left[i]);
            drain(sorter);
        }
    }
    orr_memory_free(replay->memory, left);
    return status;
}

static enum orr_status sort(struct sorter *sorter) {
    struct orr_replay *replay = sorter->replay;
    each_need(sorter, count_need);
    for (size_t n = 0; n < replay->node_count; n++) {
        sorter->follower_first[n + 1] += sorter->follower_first[n];
    }
    sorter->followers = orr_memory_resize(
        replay->memory, NULL, (sorter->follower_first[replay->node_count] + 1) * sizeof(uint32_t));
    if (!sorter->followers) {
        return ORR_NO_MEMORY;
    }
    each_need(sorter, list_need);
    for (size_t n = replay->node_count; n > 0; n--) {
        sorter->follower_first[n] = sorter->follower_first[n - 1];
    }
    sorter->follower_first[0] = 0;
    for (uint32_t n = 0; n < replay->node_count; n++) {
        if (sorter->needs[n] == 0) {
            append(sorter, n);
        }
    }
    drain(sorter);
    return sorter->ordered < replay->node_count ? cut_circles(sorter) : ORR_OK;
}

enum orr_status orr__replay_make_order(struct orr_replay *replay) {
    const struct orr_memory *memory = replay->memory;
    size_t nodes = replay->node_count;
    struct sorter sorter = {.replay = replay,
                            .needs = orr_memory_alloc(memory, nodes * sizeof(uint32_t)),
                            .follower_first =
                                orr_memory_alloc(memory, (nodes + 1) * sizeof(size_t))};
    replay->order = orr_memory_resize(memory, NULL, (nodes + 1) * sizeof *replay->order);
    bool all = sorter.needs && sorter.follower_first && replay->order;
    enum orr_status status = all ? sort(&sorter) : ORR_NO_MEMORY;
    orr_memory_free(memory, sorter.needs);
    orr_memory_free(memory, sorter.followers);
    orr_memory_free(memory, sorter.follower_first);
    return status;
}
