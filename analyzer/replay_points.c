/* Threads as chains of points: the begins and ends of their calls in the order of time, and what
 * the thread was doing between them. */
#include "analyzer/replay_internal.h"
#include "analyzer/sort.h"

/* Calls that are open, by what the thread does in them; closed ones are taken off when they come to
 * the top. */
struct open_calls {
    uint32_t *items[4];
    size_t counts[4];
};

struct chain {
    struct orr_replay *replay;
    struct open_calls open;
    uint8_t *closed; /* by call */
    bool first;      /* the next point is the thread's first */
};

/* The rest is the order in which fillers add calls, which is that of the definitions. */
static bool begins_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_replay_call *calls = context;
    if (calls[a].thread != calls[b].thread) {
        return calls[a].thread < calls[b].thread;
    }
    if (calls[a].begin_ns != calls[b].begin_ns) {
        return calls[a].begin_ns < calls[b].begin_ns;
    }
    return calls[a].end_ns < calls[b].end_ns;
}

/* Of calls that end together, the inner one first. */
static bool ends_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_replay_call *calls = context;
    if (calls[a].thread != calls[b].thread) {
        return calls[a].thread < calls[b].thread;
    }
    if (calls[a].end_ns != calls[b].end_ns) {
        return calls[a].end_ns < calls[b].end_ns;
    }
    return calls[a].begin_ns > calls[b].begin_ns;
}

static enum orr_replay_doing doing_in(const struct orr_replay_call *call) {
    return call->waiting     ? ORR_REPLAY_WAITING
           : call->launching ? ORR_REPLAY_LAUNCHING
                             : ORR_REPLAY_CALLING;
}

/* The call that counts for the time up to now: a waiting one before an enqueuing one before others;
 * of several the one that began last. */
static uint32_t current(struct chain *chain) {
    for (size_t kind = ORR_REPLAY_WAITING; kind > ORR_REPLAY_THINKING; kind--) {
        size_t *count = &chain->open.counts[kind];
        while (*count > 0 && chain->closed[chain->open.items[kind][*count - 1]]) {
            (*count)--;
        }
        if (*count > 0) {
            return chain->open.items[kind][*count - 1];
        }
    }
    return ORR_EVENTS_NONE;
}

static uint32_t add_point(struct chain *chain, int64_t time_ns) {
    struct orr_replay *replay = chain->replay;
    uint32_t call = current(chain);
    replay->points[replay->point_count] = (struct orr_replay_point){
        .observed_ns = time_ns,
        .call = call,
        .doing = (uint8_t)(call == ORR_EVENTS_NONE ? ORR_REPLAY_THINKING
                                                   : doing_in(&replay->calls[call])),
        .first = chain->first};
    chain->first = false;
    return (uint32_t)replay->point_count++;
}

static void begin_call(struct chain *chain, uint32_t call) {
    struct orr_replay_call *c = &chain->replay->calls[call];
    enum orr_replay_doing doing = doing_in(c);
    c->begin_point = add_point(chain, c->begin_ns);
    chain->open.items[doing][chain->open.counts[doing]++] = call;
}

static void end_call(struct chain *chain, uint32_t call) {
    struct orr_replay_call *c = &chain->replay->calls[call];
    c->end_point = add_point(chain, c->end_ns);
    chain->closed[call] = 1;
}

/* At one time what began earlier ends before what begins, and a call of no length does both. */
static void merge(struct chain *chain, const uint32_t *begins, const uint32_t *ends, size_t count) {
    const struct orr_replay_call *calls = chain->replay->calls;
    size_t b = 0, e = 0;
    chain->first = true;
    for (size_t kind = 0; kind < 4; kind++) {
        chain->open.counts[kind] = 0;
    }
    while (e < count) {
        bool empty = calls[ends[e]].begin_ns == calls[ends[e]].end_ns;
        if (empty) {
            e++; /* it ended when it began */
        } else if (b < count && calls[begins[b]].begin_ns < calls[ends[e]].end_ns) {
            begin_call(chain, begins[b]);
            if (calls[begins[b]].begin_ns == calls[begins[b]].end_ns) {
                end_call(chain, begins[b]);
            }
            b++;
        } else {
            end_call(chain, ends[e++]);
        }
    }
    for (; b < count; b++) { /* of no length, at the end of all */
        begin_call(chain, begins[b]);
        end_call(chain, begins[b]);
    }
}

enum orr_status orr__replay_make_points(struct orr__replay_plan *plan) {
    struct orr_replay *replay = plan->replay;
    const struct orr_memory *memory = plan->memory;
    size_t count = replay->call_count;
    uint32_t *begins = orr_memory_resize(memory, NULL, (count + 1) * sizeof *begins);
    uint32_t *ends = orr_memory_resize(memory, NULL, (count + 1) * sizeof *ends);
    uint32_t *open = orr_memory_resize(memory, NULL, (3 * count + 1) * sizeof *open);
    struct chain chain = {.replay = replay, .closed = orr_memory_alloc(memory, count)};
    replay->points = orr_memory_resize(memory, NULL, (2 * count + 1) * sizeof *replay->points);
    bool all = begins && ends && open && chain.closed && replay->points;
    enum orr_status status = all ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && all; i++) {
        begins[i] = ends[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(memory, begins, count, begins_before, replay->calls);
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(memory, ends, count, ends_before, replay->calls);
    }
    for (size_t kind = 1; kind < 4 && all; kind++) {
        chain.open.items[kind] = open + (kind - 1) * count;
    }
    for (size_t first = 0, next; first < count && status == ORR_OK; first = next) {
        uint32_t thread = replay->calls[begins[first]].thread;
        for (next = first; next < count && replay->calls[begins[next]].thread == thread; next++) {
        }
        merge(&chain, begins + first, ends + first, next - first);
    }
    orr_memory_free(memory, begins);
    orr_memory_free(memory, ends);
    orr_memory_free(memory, open);
    orr_memory_free(memory, chain.closed);
    return status;
}
