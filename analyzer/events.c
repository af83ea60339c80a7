#include "analyzer/events.h"

#include <assert.h>
#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

/* ------------------------------------------------------------------------------------------------
 * Filling */

void orr_events_init(struct orr_events *events, const struct orr_memory *memory) {
    *events = (struct orr_events){.memory = memory};
    events->source.format = "";
    events->source.status = "";
}

void orr_events_free(struct orr_events *events) {
    if (!events->memory) {
        return;
    }
    void *arrays[] = {events->devices,      events->streams,      events->threads,
                      events->calls,        events->syncs,        events->waits,
                      events->overheads,    events->operators,    events->collectives,
                      events->ops,          events->stream_order, events->device_order,
                      events->stream_first, events->device_first, events->stream_reach,
                      events->op_position,  events->thread_order, events->thread_first};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(events->memory, arrays[i]);
    }
    *events = (struct orr_events){0};
}

/* Every append is the same but for the array. The maximum keeps indices below ORR_EVENTS_NONE. */
#define ADD(field, item)                                                                           \
    do {                                                                                           \
        assert(!events->prepared);                                                                 \
        enum orr_status status = orr_memory_grow(                                                  \
            events->memory, &events->field##s, &events->field##_capacity,                          \
            events->field##_count + 1, sizeof *events->field##s, ORR_EVENTS_NONE - 1);             \
        if (status != ORR_OK) {                                                                    \
            return status;                                                                         \
        }                                                                                          \
        if (out_index) {                                                                           \
            *out_index = (uint32_t)events->field##_count;                                          \
        }                                                                                          \
        events->field##s[events->field##_count++] = *(item);                                       \
        return ORR_OK;                                                                             \
    } while (0)

enum orr_status orr_events_add_device(struct orr_events *events,
                                      const struct orr_events_device *device, uint32_t *out_index) {
    ADD(device, device);
}

enum orr_status orr_events_add_stream(struct orr_events *events,
                                      const struct orr_events_stream *stream, uint32_t *out_index) {
    ADD(stream, stream);
}

enum orr_status orr_events_add_thread(struct orr_events *events,
                                      const struct orr_events_thread *thread, uint32_t *out_index) {
    ADD(thread, thread);
}

enum orr_status orr_events_add_call(struct orr_events *events, const struct orr_events_call *call,
                                    uint32_t *out_index) {
    assert(call->begin_ns <= call->end_ns && call->name);
    ADD(call, call);
}

enum orr_status orr_events_add_sync(struct orr_events *events, const struct orr_events_sync *sync,
                                    uint32_t *out_index) {
    ADD(sync, sync);
}

enum orr_status orr_events_add_wait(struct orr_events *events, const struct orr_events_wait *wait,
                                    uint32_t *out_index) {
    ADD(wait, wait);
}

enum orr_status orr_events_add_overhead(struct orr_events *events,
                                        const struct orr_events_overhead *overhead,
                                        uint32_t *out_index) {
    ADD(overhead, overhead);
}

enum orr_status orr_events_add_operator(struct orr_events *events,
                                        const struct orr_events_operator *item,
                                        uint32_t *out_index) {
    assert(item->name && item->kind && item->shape);
    ADD(operator, item);
}

enum orr_status orr_events_add_collective(struct orr_events *events,
                                          const struct orr_events_collective *collective,
                                          uint32_t *out_index) {
    assert(collective->kind && collective->group);
    ADD(collective, collective);
}

/* Room for `count` items, not zeroed as orr_memory_grow would: whoever appends writes all of an
 * item, and pages are touched once. */
static enum orr_status reserve(const struct orr_memory *memory, void *items, size_t *capacity,
                               size_t count, size_t size) {
    if (count <= *capacity) {
        return ORR_OK;
    }
    if (count > ORR_EVENTS_NONE - 1) {
        return ORR_NO_MEMORY;
    }
    void *block;
    memcpy(&block, items, sizeof block);
    block = orr_memory_resize(memory, block, count * size);
    if (!block) {
        return ORR_NO_MEMORY;
    }
    memcpy(items, &block, sizeof block);
    *capacity = count;
    return ORR_OK;
}

enum orr_status orr_events_reserve(struct orr_events *events, size_t ops, size_t calls) {
    enum orr_status status =
        reserve(events->memory, &events->ops, &events->op_capacity, ops, sizeof *events->ops);
    if (status == ORR_OK) {
        status = reserve(events->memory, &events->calls, &events->call_capacity, calls,
                         sizeof *events->calls);
    }
    return status;
}

static bool bad_time(int64_t time) {
    return time > ORR_EVENTS_TIME_MAX || time < -ORR_EVENTS_TIME_MAX;
}

static enum orr_status append_op(struct orr_events *events, const struct orr_events_op *op,
                                 uint32_t *out_index) {
    ADD(op, op);
}

enum orr_status orr_events_add_op(struct orr_events *events, const struct orr_events_op *op,
                                  uint32_t *out_index) {
    assert(op->name);
    bool lost = op->start_ns == 0 && op->end_ns == 0;
    if (lost || op->end_ns < op->start_ns || bad_time(op->start_ns) || bad_time(op->end_ns)) {
        events->source.bad_ops++;
        if (out_index) {
            *out_index = ORR_EVENTS_NONE;
        }
        return ORR_OK;
    }
    return append_op(events, op, out_index);
}

/* ------------------------------------------------------------------------------------------------
 * Order */

/* Ties are broken as the definitions say; the rest only makes the order total, so that results do
 * not depend on the order of the arrays. */
static int compare_ops(const struct orr_events *events, uint32_t a, uint32_t b) {
    const struct orr_events_op *x = &events->ops[a], *y = &events->ops[b];
    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    if (x->end_ns != y->end_ns) {
        return x->end_ns < y->end_ns ? -1 : 1;
    }
    bool linked_x = orr_events_linked(x), linked_y = orr_events_linked(y);
    if (linked_x != linked_y) {
        return linked_x ? -1 : 1;
    }
    if (linked_x) {
        int64_t begin_x = events->calls[x->call].begin_ns,
                begin_y = events->calls[y->call].begin_ns;
        if (begin_x != begin_y) {
            return begin_x < begin_y ? -1 : 1;
        }
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    if (x->correlation != y->correlation) {
        return x->correlation < y->correlation ? -1 : 1;
    }
    if (x->activity != y->activity) {
        return x->activity < y->activity ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

bool orr__events_op_before(const void *events, uint32_t a, uint32_t b) {
    return compare_ops(events, a, b) < 0;
}

static bool call_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_events *events = context;
    const struct orr_events_call *x = &events->calls[a], *y = &events->calls[b];
    if (x->begin_ns != y->begin_ns) {
        return x->begin_ns < y->begin_ns;
    }
    return x->end_ns != y->end_ns ? x->end_ns < y->end_ns : strcmp(x->name, y->name) < 0;
}

uint32_t orr__events_earlier_call(const struct orr_events *events, uint32_t a, uint32_t b) {
    if (a == ORR_EVENTS_NONE || b == ORR_EVENTS_NONE) {
        return a == ORR_EVENTS_NONE ? b : a;
    }
    if (call_before(events, a, b) || call_before(events, b, a)) {
        return call_before(events, a, b) ? a : b;
    }
    const struct orr_events_thread *threads = events->threads;
    const char *label_a = threads[events->calls[a].thread].label;
    const char *label_b = threads[events->calls[b].thread].label;
    return strcmp(label_a, label_b) <= 0 ? a : b;
}

/* What a sync says is the more the smaller this is. */
static int vagueness(const struct orr_events_sync *sync) {
    switch (sync->kind) {
    case ORR_SYNC_TARGET_OP: return 0;
    case ORR_SYNC_TARGET_STREAM: return 1;
    case ORR_SYNC_TARGET_DEVICE: return 2;
    default: return 3;
    }
}

bool orr__events_sync_before(const struct orr_events *events, uint32_t a, uint32_t b) {
    if (a == ORR_EVENTS_NONE || b == ORR_EVENTS_NONE) {
        return a != ORR_EVENTS_NONE && b == ORR_EVENTS_NONE;
    }
    const struct orr_events_sync *x = &events->syncs[a], *y = &events->syncs[b];
    if (x->kind != y->kind || x->kind == ORR_SYNC_TARGET_UNKNOWN) {
        return vagueness(x) < vagueness(y);
    }
    if (x->kind != ORR_SYNC_TARGET_OP) {
        return x->target < y->target;
    }
    int64_t end_x = events->ops[x->target].end_ns, end_y = events->ops[y->target].end_ns;
    return end_x != end_y ? end_x > end_y : compare_ops(events, x->target, y->target) < 0;
}

void orr__events_find_syncs(const struct orr_events *events, uint32_t *out_syncs) {
    for (size_t c = 0; c < events->call_count; c++) {
        out_syncs[c] = ORR_EVENTS_NONE;
    }
    for (uint32_t s = 0; s < events->sync_count; s++) {
        uint32_t *sync = &out_syncs[events->syncs[s].call];
        *sync = orr__events_sync_before(events, s, *sync) ? s : *sync;
    }
}

/* Distributes items 0 .. count over buckets in one stable pass: first[b] .. first[b + 1) are
 * b's. */
static void bucket(size_t count, uint32_t (*bucket_of)(const struct orr_events *, uint32_t),
                   const struct orr_events *events, size_t bucket_count, size_t *first,
                   uint32_t *order) {
    memset(first, 0, (bucket_count + 1) * sizeof *first);
    for (size_t i = 0; i < count; i++) {
        first[bucket_of(events, (uint32_t)i) + 1]++;
    }
    for (size_t b = 0; b < bucket_count; b++) {
        first[b + 1] += first[b];
    }
    for (size_t i = 0; i < count; i++) {
        order[first[bucket_of(events, (uint32_t)i)]++] = (uint32_t)i;
    }
    for (size_t b = bucket_count; b > 0; b--) {
        first[b] = first[b - 1];
    }
    first[0] = 0;
}

static uint32_t stream_of_op(const struct orr_events *events, uint32_t op) {
    return events->ops[op].stream;
}

static uint32_t thread_of_call(const struct orr_events *events, uint32_t call) {
    return events->calls[call].thread;
}

static enum orr_status order_streams(struct orr_events *events) {
    events->stream_order =
        orr_memory_resize(events->memory, NULL, events->op_count * sizeof *events->stream_order);
    events->stream_first =
        orr_memory_alloc(events->memory, (events->stream_count + 1) * sizeof *events->stream_first);
    if (!events->stream_order || !events->stream_first) {
        return ORR_NO_MEMORY;
    }
    bucket(events->op_count, stream_of_op, events, events->stream_count, events->stream_first,
           events->stream_order);
    enum orr_status status = ORR_OK;
    for (size_t s = 0; s < events->stream_count && status == ORR_OK; s++) {
        size_t first = events->stream_first[s];
        status =
            orr__sort_indices(events->memory, events->stream_order + first,
                              events->stream_first[s + 1] - first, orr__events_op_before, events);
    }
    return status;
}

/* A device's ops are its streams' sorted runs, one after the other; the sort merges them. */
static enum orr_status order_devices(struct orr_events *events) {
    size_t devices = events->device_count;
    events->device_order =
        orr_memory_resize(events->memory, NULL, events->op_count * sizeof *events->device_order);
    events->device_first =
        orr_memory_alloc(events->memory, (devices + 1) * sizeof *events->device_first);
    if (!events->device_order || !events->device_first) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        events->device_first[events->streams[events->ops[i].stream].device + 1]++;
    }
    for (size_t d = 0; d < devices; d++) {
        events->device_first[d + 1] += events->device_first[d];
    }
    for (size_t s = 0; s < events->stream_count; s++) {
        size_t first = events->stream_first[s], count = events->stream_first[s + 1] - first;
        size_t *at = &events->device_first[events->streams[s].device];
        if (count > 0) {
            memcpy(events->device_order + *at, events->stream_order + first,
                   count * sizeof *events->device_order);
        }
        *at += count;
    }
    for (size_t d = devices; d > 0; d--) {
        events->device_first[d] = events->device_first[d - 1];
    }
    events->device_first[0] = 0;
    enum orr_status status = ORR_OK;
    for (size_t d = 0; d < devices && status == ORR_OK; d++) {
        size_t first = events->device_first[d];
        status =
            orr__sort_indices(events->memory, events->device_order + first,
                              events->device_first[d + 1] - first, orr__events_op_before, events);
    }
    return status;
}

/* Calls of one thread that say the same of themselves, told apart by what belongs to them. */
struct twins {
    const struct orr_events *events;
    uint32_t *first_place; /* by call: place in stream_order of the first of its ops, or NONE */
    uint32_t *syncs;       /* by call: its sync, or NONE */
};

static bool twin_before(const void *context, uint32_t a, uint32_t b) {
    const struct twins *t = context;
    const struct orr_events_call *x = &t->events->calls[a], *y = &t->events->calls[b];
    if (x->thread != y->thread) {
        return x->thread < y->thread;
    }
    if (call_before(t->events, a, b) || call_before(t->events, b, a)) {
        return call_before(t->events, a, b);
    }
    if (x->flags != y->flags) {
        return x->flags < y->flags;
    }
    if (t->first_place[a] != t->first_place[b]) {
        return t->first_place[a] < t->first_place[b];
    }
    return orr__events_sync_before(t->events, t->syncs[a], t->syncs[b]);
}

static bool has_twins(const struct orr_events *events) {
    for (size_t i = 1; i < events->call_count; i++) {
        uint32_t before = events->thread_order[i - 1], here = events->thread_order[i];
        if (events->calls[before].thread == events->calls[here].thread &&
            !call_before(events, before, here)) {
            return true;
        }
    }
    return false;
}

/* Streams are in order by now. */
static enum orr_status order_twins(struct orr_events *events) {
    if (!has_twins(events)) {
        return ORR_OK;
    }
    size_t size = events->call_count * sizeof(uint32_t);
    struct twins t = {.events = events,
                      .first_place = orr_memory_resize(events->memory, NULL, size),
                      .syncs = orr_memory_resize(events->memory, NULL, size)};
    enum orr_status status = t.first_place && t.syncs ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        orr__events_find_syncs(events, t.syncs);
        for (size_t c = 0; c < events->call_count; c++) {
            t.first_place[c] = ORR_EVENTS_NONE;
        }
        for (size_t i = events->op_count; i > 0; i--) {
            const struct orr_events_op *op = &events->ops[events->stream_order[i - 1]];
            if (orr_events_linked(op)) {
                t.first_place[op->call] = (uint32_t)(i - 1);
            }
        }
        status = orr__sort_indices(events->memory, events->thread_order, events->call_count,
                                   twin_before, &t);
    }
    orr_memory_free(events->memory, t.first_place);
    orr_memory_free(events->memory, t.syncs);
    return status;
}

static enum orr_status order_threads(struct orr_events *events) {
    events->thread_order =
        orr_memory_resize(events->memory, NULL, events->call_count * sizeof *events->thread_order);
    events->thread_first =
        orr_memory_alloc(events->memory, (events->thread_count + 1) * sizeof *events->thread_first);
    if (!events->thread_order || !events->thread_first) {
        return ORR_NO_MEMORY;
    }
    bucket(events->call_count, thread_of_call, events, events->thread_count, events->thread_first,
           events->thread_order);
    enum orr_status status = ORR_OK;
    for (size_t t = 0; t < events->thread_count && status == ORR_OK; t++) {
        size_t first = events->thread_first[t];
        status = orr__sort_indices(events->memory, events->thread_order + first,
                                   events->thread_first[t + 1] - first, call_before, events);
    }
    return status == ORR_OK ? order_twins(events) : status;
}

/* p of every op, and the largest end up to each place of a stream. */
static enum orr_status link_streams(struct orr_events *events) {
    events->stream_reach =
        orr_memory_resize(events->memory, NULL, events->op_count * sizeof *events->stream_reach);
    events->op_position =
        orr_memory_resize(events->memory, NULL, events->op_count * sizeof *events->op_position);
    if (!events->stream_reach || !events->op_position) {
        return ORR_NO_MEMORY;
    }
    for (size_t s = 0; s < events->stream_count; s++) {
        uint32_t longest = ORR_EVENTS_NONE;
        for (size_t i = events->stream_first[s]; i < events->stream_first[s + 1]; i++) {
            uint32_t index = events->stream_order[i];
            struct orr_events_op *op = &events->ops[index];
            op->prev_op = longest;
            if (longest == ORR_EVENTS_NONE || op->end_ns >= events->ops[longest].end_ns) {
                longest = index;
            }
            events->stream_reach[i] = events->ops[longest].end_ns;
            events->op_position[index] = (uint32_t)i;
        }
    }
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Waits of imported traces: "stream waits for record" becomes d of the ops behind the wait. */

/* When an op was enqueued, as far as known. */
static int64_t enqueue_time(const struct orr_events *events, uint32_t op) {
    const struct orr_events_op *o = &events->ops[op];
    return orr_events_linked(o) ? events->calls[o->call].begin_ns : o->start_ns;
}

static bool enqueued_before(const void *context, uint32_t a, uint32_t b) {
    return enqueue_time(context, a) < enqueue_time(context, b);
}

struct wait_order {
    const struct orr_events *events;
    bool by_source;
};

static bool wait_before(const void *context, uint32_t a, uint32_t b) {
    const struct wait_order *order = context;
    const struct orr_events_wait *x = &order->events->waits[a], *y = &order->events->waits[b];
    if (order->by_source) {
        return x->source < y->source;
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream;
    }
    return x->at_ns < y->at_ns;
}

/* finish[w] = the op with the largest end that was enqueued in the source stream before the
 * record. */
static enum orr_status finish_waits_of(struct orr_events *events, const uint32_t *order,
                                       size_t count, uint32_t *finish) {
    uint32_t source = events->waits[order[0]].source;
    size_t first = events->stream_first[source];
    size_t ops = events->stream_first[source + 1] - first;
    uint32_t *enqueued = orr_memory_alloc(events->memory, 2 * ops * sizeof *enqueued);
    if (!enqueued) {
        return ORR_NO_MEMORY;
    }
    uint32_t *longest = enqueued + ops;
    memcpy(enqueued, events->stream_order + first, ops * sizeof *enqueued);
    enum orr_status status =
        orr__sort_indices(events->memory, enqueued, ops, enqueued_before, events);
    for (size_t i = 0; i < ops; i++) {
        bool more = i == 0 || events->ops[enqueued[i]].end_ns >= events->ops[longest[i - 1]].end_ns;
        longest[i] = more ? enqueued[i] : longest[i - 1];
    }
    for (size_t w = 0; w < count && status == ORR_OK; w++) {
        int64_t record = events->waits[order[w]].record_ns;
        size_t low = 0, high = ops;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (enqueue_time(events, enqueued[middle]) < record) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        finish[order[w]] = low > 0 ? longest[low - 1] : ORR_EVENTS_NONE;
    }
    orr_memory_free(events->memory, enqueued);
    return status;
}

/* Of two ops, NONE allowed, the one that ends later; of equals the first in the order of ops. */
static uint32_t later_end(const struct orr_events *events, uint32_t a, uint32_t b) {
    if (a == ORR_EVENTS_NONE || b == ORR_EVENTS_NONE) {
        return a == ORR_EVENTS_NONE ? b : a;
    }
    int64_t end_a = events->ops[a].end_ns, end_b = events->ops[b].end_ns;
    if (end_a != end_b) {
        return end_a > end_b ? a : b;
    }
    return compare_ops(events, a, b) < 0 ? a : b;
}

/* order[0 .. count) are the waits of one stream by time; gives each op the largest finish of the
 * waits issued before its call. */
static enum orr_status apply_waits_to(struct orr_events *events, const uint32_t *order,
                                      size_t count, const uint32_t *finish) {
    uint32_t *longest = orr_memory_alloc(events->memory, count * sizeof *longest);
    if (!longest) {
        return ORR_NO_MEMORY;
    }
    for (size_t w = 0; w < count; w++) {
        longest[w] = later_end(events, finish[order[w]], w > 0 ? longest[w - 1] : ORR_EVENTS_NONE);
    }
    uint32_t stream = events->waits[order[0]].stream;
    for (size_t i = events->stream_first[stream]; i < events->stream_first[stream + 1]; i++) {
        struct orr_events_op *op = &events->ops[events->stream_order[i]];
        if (!orr_events_linked(op)) {
            continue;
        }
        int64_t begin = events->calls[op->call].begin_ns;
        size_t low = 0, high = count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (events->waits[order[middle]].at_ns < begin) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        uint32_t source = low > 0 ? longest[low - 1] : ORR_EVENTS_NONE;
        if (source != ORR_EVENTS_NONE &&
            (op->wait_ns == ORR_TIME_NONE || events->ops[source].end_ns > op->wait_ns)) {
            op->wait_ns = events->ops[source].end_ns;
            op->wait_op = source;
            op->wait_call = ORR_EVENTS_NONE;
        }
    }
    orr_memory_free(events->memory, longest);
    return ORR_OK;
}

/* Applies `each` to the groups of waits with an equal source (or stream). */
static enum orr_status each_wait_group(struct orr_events *events, bool by_source, uint32_t *order,
                                       size_t count, uint32_t *finish) {
    struct wait_order context = {events, by_source};
    enum orr_status status = orr__sort_indices(events->memory, order, count, wait_before, &context);
    for (size_t begin = 0, end; begin < count && status == ORR_OK; begin = end) {
        const struct orr_events_wait *first = &events->waits[order[begin]];
        for (end = begin; end < count; end++) {
            const struct orr_events_wait *wait = &events->waits[order[end]];
            if (by_source ? wait->source != first->source : wait->stream != first->stream) {
                break;
            }
        }
        status = by_source ? finish_waits_of(events, order + begin, end - begin, finish)
                           : apply_waits_to(events, order + begin, end - begin, finish);
    }
    return status;
}

static enum orr_status resolve_waits(struct orr_events *events) {
    if (events->wait_count == 0) {
        return ORR_OK;
    }
    uint32_t *order = orr_memory_alloc(events->memory, 2 * events->wait_count * sizeof *order);
    if (!order) {
        return ORR_NO_MEMORY;
    }
    uint32_t *finish = order + events->wait_count;
    size_t count = 0;
    for (size_t w = 0; w < events->wait_count; w++) {
        finish[w] = ORR_EVENTS_NONE;
        if (events->waits[w].resolved) {
            order[count++] = (uint32_t)w;
        }
    }
    enum orr_status status = each_wait_group(events, true, order, count, finish);
    if (status == ORR_OK) {
        status = each_wait_group(events, false, order, count, finish);
    }
    orr_memory_free(events->memory, order);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Dependencies that show in times: collectives and recorded ready times */

/* max(y, min(d, s)): when all that a linked op waits for was done, for some d. */
static int64_t ready_for(const struct orr_events *events, const struct orr_events_op *op,
                         int64_t wait_ns) {
    int64_t ready = orr__min_ns(events->calls[op->call].end_ns, op->start_ns);
    ready = orr__max_ns(ready, orr__min_ns(orr_events_previous_end(events, op), op->start_ns));
    return orr__max_ns(ready, orr__min_ns(wait_ns, op->start_ns));
}

/* The member that arrived last: largest start; if they started together, largest ready time. It
 * binds the critical path, but is no d of the others: a member starts when it arrives itself, and
 * waits for the others inside. A source whose members start later says so with a ready time. */
static void find_last_members(struct orr_events *events) {
    for (size_t c = 0; c < events->collective_count; c++) {
        events->collectives[c].last = ORR_EVENTS_NONE;
        events->collectives[c].members = 0;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (op->collective == ORR_EVENTS_NONE) {
            continue;
        }
        struct orr_events_collective *collective = &events->collectives[op->collective];
        collective->members++;
        if (collective->last == ORR_EVENTS_NONE) {
            collective->last = (uint32_t)i;
            continue;
        }
        const struct orr_events_op *last = &events->ops[collective->last];
        int64_t here = op->start_ns, there = last->start_ns;
        if (here == there && orr_events_linked(op) && orr_events_linked(last)) {
            here = ready_for(events, op, op->wait_ns);
            there = ready_for(events, last, last->wait_ns);
        }
        bool later = here > there ||
                     (here == there && compare_ops(events, (uint32_t)i, collective->last) < 0);
        if (later) {
            collective->last = (uint32_t)i;
        }
    }
}

bool orr_events_whole(const struct orr_events_collective *collective) {
    static const char *const pairs[] = {"send", "recv", "send_receive"};
    uint32_t needed = collective->size;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        needed = strcmp(collective->kind, pairs[i]) == 0 ? 2 : needed;
    }
    return needed > 0 && collective->members >= needed;
}

/* A recorded ready time beyond what the edges explain is a dependency that has no edge: it is
 * believed, and counted, as is one that is earlier. */
static void check_ready_times(struct orr_events *events) {
    for (size_t i = 0; i < events->op_count; i++) {
        struct orr_events_op *op = &events->ops[i];
        if (op->ready_ns == ORR_TIME_NONE || !orr_events_linked(op) ||
            orr_events_early(events, op)) {
            continue;
        }
        int64_t explained = ready_for(events, op, op->wait_ns);
        int64_t recorded = ready_for(events, op, op->ready_ns);
        if (explained == recorded) {
            continue;
        }
        int64_t difference = recorded > explained ? recorded - explained : explained - recorded;
        events->ready_disagreements++;
        events->ready_disagreement_max_ns =
            orr__max_ns(events->ready_disagreement_max_ns, difference);
        if (recorded > explained) {
            op->wait_ns = op->ready_ns;
            op->wait_op = ORR_EVENTS_NONE;
            op->wait_call = ORR_EVENTS_NONE;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void count_ops_of_calls(struct orr_events *events) {
    for (size_t c = 0; c < events->call_count; c++) {
        events->calls[c].op_count = 0;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        assert(op->stream < events->stream_count && op->operator_index < events->operator_count);
        if (orr_events_linked(op)) {
            assert(op->call < events->call_count);
            events->calls[op->call].op_count++;
        }
    }
}

enum orr_status orr_events_prepare(struct orr_events *events, struct orr_error *error) {
    assert(!events->prepared);
    events->prepared = true;
    count_ops_of_calls(events);
    enum orr_status status = order_streams(events);
    if (status == ORR_OK) {
        status = order_devices(events);
    }
    if (status == ORR_OK) {
        status = order_threads(events);
    }
    if (status == ORR_OK) {
        status = link_streams(events);
    }
    if (status == ORR_OK) {
        status = resolve_waits(events);
    }
    if (status != ORR_OK) {
        return orr_error_set(error, status, "analyze: %zu ops and %zu calls do not fit in memory",
                             events->op_count, events->call_count);
    }
    find_last_members(events);
    check_ready_times(events);
    return ORR_OK;
}
