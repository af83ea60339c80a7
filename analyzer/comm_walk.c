/* Which communication op an instant belongs to. See communication.h. */
#include <assert.h>

#include "analyzer/communication.h"
#include "analyzer/times.h"

struct walk {
    const struct orr_events *events;
    const uint32_t *order; /* the device's ops, by start */
    size_t count;
    size_t compute;       /* next op of `order` to look at for computation */
    int64_t compute_from; /* of the stretch of computation that ends last so far */
    int64_t compute_to;
    void (*piece)(void *context, const struct orr__comm_piece *piece);
    void *context;
};

int64_t orr__comm_all_started(const struct orr_events *events, const struct orr_events_op *op) {
    if (op->collective == ORR_EVENTS_NONE) {
        return op->start_ns;
    }
    uint32_t last = events->collectives[op->collective].last;
    return last == ORR_EVENTS_NONE ? op->start_ns
                                   : orr__max_ns(op->start_ns, events->ops[last].start_ns);
}

/* The first stretch of computation that ends behind `time`, in compute_from and compute_to: the
 * union of the device's compute ops, one stretch at a time. Times only grow. */
static void find_compute(struct walk *w, int64_t time) {
    while (w->compute_to <= time && w->compute < w->count) {
        const struct orr_events_op *op = &w->events->ops[w->order[w->compute++]];
        if (op->activity == ORR_ACTIVITY_COMPUTE && op->end_ns > w->compute_to) {
            w->compute_from = op->start_ns;
            w->compute_to = op->end_ns;
        }
    }
}

static void tell(const struct walk *w, uint32_t op, int64_t begin_ns, int64_t end_ns, bool exposed,
                 bool waiting) {
    if (begin_ns < end_ns) {
        struct orr__comm_piece piece = {op, begin_ns, end_ns, exposed, waiting};
        w->piece(w->context, &piece);
    }
}

/* [begin, end) belongs to `op`: cut where computation starts and stops, and where the last member
 * of its collective arrives. */
static void cut(struct walk *w, uint32_t op, int64_t begin_ns, int64_t end_ns) {
    int64_t arrived = orr__comm_all_started(w->events, &w->events->ops[op]);
    while (begin_ns < end_ns) {
        find_compute(w, begin_ns);
        bool computes = w->compute_from <= begin_ns && begin_ns < w->compute_to;
        int64_t change = computes                     ? w->compute_to
                         : w->compute_from > begin_ns ? w->compute_from
                                                      : end_ns;
        change = orr__min_ns(change, end_ns);
        if (computes) {
            tell(w, op, begin_ns, change, false, false);
        } else {
            int64_t middle = orr__max_ns(begin_ns, orr__min_ns(arrived, change));
            tell(w, op, begin_ns, middle, true, true);
            tell(w, op, middle, change, true, false);
        }
        begin_ns = change;
    }
}

/* Everything before `until` that ops on the stack still have. Returns the stack's new height. */
static size_t run_until(struct walk *w, const uint32_t *running, size_t height, int64_t *now,
                        int64_t until) {
    while (height > 0 && *now < until) {
        uint32_t top = running[height - 1];
        int64_t end = orr__min_ns(w->events->ops[top].end_ns, until);
        if (end > *now) {
            cut(w, top, *now, end);
            *now = end;
        }
        if (w->events->ops[top].end_ns <= *now) {
            height--;
        }
    }
    return height;
}

enum orr_status orr__comm_walk(const struct orr_events *events, uint32_t device,
                               const struct orr_memory *memory, struct orr__comm_scratch *scratch,
                               void (*piece)(void *context, const struct orr__comm_piece *piece),
                               void *context) {
    size_t first = events->device_first[device], height = 0;
    struct walk walk = {.events = events,
                        .order = events->device_order + first,
                        .count = events->device_first[device + 1] - first,
                        .compute_from = INT64_MIN,
                        .compute_to = INT64_MIN,
                        .piece = piece,
                        .context = context};
    int64_t now = INT64_MIN;
    for (size_t i = 0; i < walk.count; i++) {
        uint32_t index = walk.order[i];
        const struct orr_events_op *op = &events->ops[index];
        if (op->activity != ORR_ACTIVITY_COMM) {
            continue;
        }
        height = run_until(&walk, scratch->running, height, &now, op->start_ns);
        now = orr__max_ns(now, op->start_ns);
        enum orr_status status =
            orr_memory_grow(memory, &scratch->running, &scratch->capacity, height + 1,
                            sizeof *scratch->running, SIZE_MAX / sizeof *scratch->running);
        if (status != ORR_OK) {
            return status;
        }
        scratch->running[height++] = index;
    }
    height = run_until(&walk, scratch->running, height, &now, INT64_MAX);
    assert(height == 0);
    (void)height;
    return ORR_OK;
}

void orr__comm_scratch_free(const struct orr_memory *memory, struct orr__comm_scratch *scratch) {
    orr_memory_free(memory, scratch->running);
    *scratch = (struct orr__comm_scratch){0};
}
