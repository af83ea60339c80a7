#include "tests/timeline_random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random_numbers.h"
#include "trace/timeline_arrays.h"

enum { ITEMS_MAX = 40, TEXTS = 16 };

static const char *const texts[TEXTS] = {"",
                                         "compute",
                                         "aten::mm",
                                         "event e1",
                                         "future loss",
                                         "device 0",
                                         "stream compute of device 1",
                                         "stream 3",
                                         "event",
                                         "event ",
                                         "void gemm<float, 4>(int, \"x\\y\")",
                                         "\x01\xff\n",
                                         "virtual",
                                         "h\xc3\xa9",
                                         "0",
                                         "[64, 1, 1] x [256, 1, 1]"};

static uint64_t draw_u64(uint64_t *state) {
    static const uint64_t extremes[] = {0, 1, INT64_MAX, INT64_MAX - 1, UINT32_MAX, 255};
    if (random_below(state, 3) == 0)
        return extremes[random_below(state, sizeof extremes / sizeof *extremes)];
    return random_next(state) >> (1 + random_below(state, 63));
}

static double draw_real(uint64_t *state) {
    static const double extremes[] = {0.0, -1.5, INFINITY, NAN, 1e300, 9007199254740993.0};
    if (random_below(state, 2) == 0)
        return extremes[random_below(state, sizeof extremes / sizeof *extremes)];
    return (double)(random_next(state) >> 11) / 1024;
}

static void draw_value(uint64_t *state, const struct orr__member *member, unsigned char *at) {
    uint64_t wide = draw_u64(state);
    uint32_t narrow =
        random_below(state, 4) == 0 ? ORR_ID_NONE : (uint32_t)random_below(state, ITEMS_MAX);
    uint32_t limit = member->limit ? member->limit : 256;
    uint8_t byte = (uint8_t)random_below(state, limit);
    enum orr_edge_kind word = (enum orr_edge_kind)random_below(state, limit);
    enum orr_dtype dtype = (enum orr_dtype)random_below(state, ORR_DTYPE_COUNT + 1);
    bool truth = random_below(state, 2);
    double real = draw_real(state);
    const char *text = texts[random_below(state, TEXTS)];
    int64_t time = random_below(state, 5) == 0 ? ORR_TIME_NONE : (int64_t)wide;
    if (random_below(state, 5) == 0 && time != ORR_TIME_NONE)
        time = -time;
    if (dtype == ORR_DTYPE_COUNT)
        dtype = ORR_DTYPE_NONE;
    switch ((enum orr__member_type)member->type) {
    case ORR__MEMBER_U8: memcpy(at, &byte, sizeof byte); break;
    case ORR__MEMBER_BOOL: memcpy(at, &truth, sizeof truth); break;
    case ORR__MEMBER_ENUM: memcpy(at, &word, sizeof word); break;
    case ORR__MEMBER_DTYPE: memcpy(at, &dtype, sizeof dtype); break;
    case ORR__MEMBER_U32: memcpy(at, &narrow, sizeof narrow); break;
    case ORR__MEMBER_U64: memcpy(at, &wide, sizeof wide); break;
    case ORR__MEMBER_I64: memcpy(at, &time, sizeof time); break;
    case ORR__MEMBER_REAL: memcpy(at, &real, sizeof real); break;
    case ORR__MEMBER_TEXT: memcpy(at, &text, sizeof text); break;
    }
}

static void draw_array(struct orr_timeline *timeline, const struct orr__array *array,
                       uint64_t *state) {
    size_t count = (size_t)random_below(state, ITEMS_MAX);
    unsigned char *items = orr_memory_alloc(timeline->memory, (count + 1) * array->size);
    uint64_t id = 0;
    if (!items)
        abort();
    for (size_t i = 0; i < count; i++) {
        unsigned char *item = items + i * array->size;
        for (size_t m = 0; m < array->member_count; m++)
            for (size_t k = 0; k < array->members[m].repeat; k++)
                draw_value(state, &array->members[m],
                           item + array->members[m].offset +
                               k * orr__member_size(&array->members[m]));
        id += 1 + (random_below(state, 4) == 0 ? random_below(state, 9) : 0);
        uint32_t narrow = (uint32_t)id;
        memcpy(item, array->id_size == sizeof id ? (void *)&id : (void *)&narrow, array->id_size);
    }
    orr__array_set(timeline, array, items, count);
}

/* -- What must hold ---------------------------------------------------------------------------- */

#define COMPARE(a, b) ((a) == (b) ? 0 : (a) < (b) ? -1 : 1)

static int compare_meta(const void *a, const void *b) {
    const struct orr_timeline_meta *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static int compare_members(const void *a, const void *b) {
    const struct orr_timeline_member *x = a, *y = b;
    int order = COMPARE(x->communicator, y->communicator);
    return order ? order : COMPARE(x->rank, y->rank);
}

static int compare_edges(const void *a, const void *b) {
    const struct orr_timeline_edge *x = a, *y = b;
    int order = COMPARE(x->dst, y->dst);
    return order ? order : COMPARE(x->src, y->src);
}

static int compare_accesses(const void *a, const void *b) {
    const struct orr_timeline_access *x = a, *y = b;
    return COMPARE(x->cmd, y->cmd);
}

static int compare_collective_members(const void *a, const void *b) {
    const struct orr_timeline_collective_member *x = a, *y = b;
    int order = COMPARE(x->collective, y->collective);
    return order ? order : COMPARE(x->rank, y->rank);
}

static int compare_counters(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    int order = COMPARE(x->device, y->device);
    order = order ? order : strcmp(x->name, y->name);
    order = order ? order : COMPARE(x->ts_ns, y->ts_ns);
    return order ? order : COMPARE(x->order, y->order);
}

/* Sorted, one item of each key where a key must be unique. */
static size_t sort(void *items, size_t count, size_t size, bool unique,
                   int (*compare)(const void *, const void *)) {
    unsigned char *base = items;
    size_t kept = count > 0;
    qsort(items, count, size, compare);
    for (size_t i = 1; i < count; i++)
        if (!unique || compare(base + (kept - 1) * size, base + i * size) != 0)
            memmove(base + kept++ * size, base + i * size, size);
    return kept;
}

static void settle_commands(struct orr_timeline *t) {
    for (size_t i = 0; i < t->command_count; i++) {
        struct orr_timeline_command *command = &t->commands[i];
        if (command->caller == ORR_ID_NONE)
            command->caller = command->host;
    }
    for (size_t i = 0; i < t->access_count; i++)
        if (t->accesses[i].mode == 0)
            t->accesses[i].mode = ORR_ACCESS_READ;
    for (size_t i = 0; i < t->collective_count; i++)
        if (t->collectives[i].modelled_ns < 0)
            t->collectives[i].modelled_ns = ORR_TIME_NONE;
}

/* Only imported traces have these. */
static void settle_own(struct orr_timeline *t) {
    for (size_t i = 0; i < t->command_count; i++) {
        t->commands[i].call = t->commands[i].graph = 0;
        t->commands[i].correlation = ORR_CORRELATION_NONE;
        t->commands[i].grid = "";
    }
    for (size_t i = 0; i < t->sync_count; i++) {
        t->syncs[i].call = 0;
        t->syncs[i].stream = t->syncs[i].device = ORR_ID_NONE;
    }
    t->call_count = t->stream_wait_count = t->overhead_count = t->slice_count = 0;
}

static void settle_imported(struct orr_timeline *t, uint64_t *state) {
    struct orr_timeline_source *source = &t->source;
    source->format = random_below(state, 2) ? "kineto" : "nsys";
    source->has_time_base = random_below(state, 2);
    source->time_base_ns = source->has_time_base ? (int64_t)random_next(state) : 0;
    source->knows_waits = random_below(state, 2);
    source->knows_syncs = random_below(state, 2);
    source->rank = draw_u64(state);
    source->kernel_rows = random_below(state, 2) ? ORR_SOURCE_NONE : 0;
    source->truncated_at = random_next(state);
}

static void settle(struct orr_timeline *t, enum timeline_sort sort_of, uint64_t *state) {
    t->meta_count = sort(t->meta, t->meta_count, sizeof *t->meta, true, compare_meta);
    t->member_count = sort(t->members, t->member_count, sizeof *t->members, true, compare_members);
    sort(t->edges, t->edge_count, sizeof *t->edges, false, compare_edges);
    sort(t->accesses, t->access_count, sizeof *t->accesses, false, compare_accesses);
    for (size_t i = 0; i < t->counter_count; i++) {
        size_t other = (size_t)random_below(state, i + 1);
        t->counters[i].order = (uint32_t)i;
        t->counters[i].order = t->counters[other].order;
        t->counters[other].order = (uint32_t)i;
    }
    sort(t->counters, t->counter_count, sizeof *t->counters, false, compare_counters);
    for (size_t i = 0; i < t->stream_count; i++) /* what cannot be absent */
        t->streams[i].device &= 0xffff;
    for (size_t i = 0; i < t->member_count; i++) {
        t->members[i].device &= 0xffff;
        t->members[i].rank &= 0xffff;
        t->members[i].communicator &= 0xffff;
    }
    for (size_t i = 0; i < t->buffer_role_count; i++)
        if (t->buffer_roles[i].ts_ns == ORR_TIME_NONE)
            t->buffer_roles[i].ts_ns = 0;
    for (size_t i = 0; i < t->collective_member_count; i++)
        t->collective_members[i].rank &= 0xffff;
    sort(t->collective_members, t->collective_member_count, sizeof *t->collective_members, false,
         compare_collective_members);
    t->member_count = sort(t->members, t->member_count, sizeof *t->members, true, compare_members);
    settle_commands(t);
    if (sort_of == TIMELINE_OWN)
        settle_own(t);
    else
        settle_imported(t, state);
}

struct orr_timeline *timeline_random(const struct orr_memory *memory, uint64_t seed,
                                     enum timeline_sort sort_of) {
    struct orr_timeline *timeline;
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    if (orr_timeline_create(memory, &timeline) != ORR_OK)
        abort();
    for (size_t i = 0; i < ORR__ARRAY_COUNT; i++)
        draw_array(timeline, &orr__arrays[i], &state);
    settle(timeline, sort_of, &state);
    return timeline;
}

/* -- Comparing --------------------------------------------------------------------------------- */

static bool equal(const struct orr__member *member, const unsigned char *a,
                  const unsigned char *b) {
    if (member->type == ORR__MEMBER_TEXT) {
        const char *x, *y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        return strcmp(x, y) == 0;
    }
    if (member->type == ORR__MEMBER_REAL) {
        double x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        if (isnan(x) || isnan(y))
            return isnan(x) && isnan(y);
    }
    return memcmp(a, b, orr__member_size(member)) == 0;
}

static const char *item_difference(const struct orr__array *array, size_t index,
                                   const unsigned char *a, const unsigned char *b, char *text) {
    for (size_t m = 0; m < array->member_count; m++) {
        const struct orr__member *member = &array->members[m];
        for (size_t k = 0; k < member->repeat; k++) {
            size_t at = member->offset + k * orr__member_size(member);
            if (equal(member, a + at, b + at))
                continue;
            snprintf(text, TIMELINE_DIFFERENCE_MAX, "%s[%zu].%s[%zu]", array->name, index,
                     member->name, k);
            return text;
        }
    }
    return NULL;
}

static const char *source_difference(const struct orr_timeline_source *a,
                                     const struct orr_timeline_source *b) {
    if (strcmp(a->format, b->format) != 0)
        return "source.format";
    if (a->has_time_base != b->has_time_base || a->time_base_ns != b->time_base_ns)
        return "source.time_base_ns";
    if (a->knows_waits != b->knows_waits || a->knows_syncs != b->knows_syncs)
        return "source.knows_";
#define COMPARE_NUMBER(name)                                                                       \
    if (a->name != b->name)                                                                        \
        return "source." #name;
    ORR_SOURCE_NUMBER_LIST(COMPARE_NUMBER)
#undef COMPARE_NUMBER
    return NULL;
}

const char *timeline_difference(const struct orr_timeline *a, const struct orr_timeline *b,
                                char text[TIMELINE_DIFFERENCE_MAX]) {
    for (size_t i = 0; i < ORR__ARRAY_COUNT; i++) {
        const struct orr__array *array = &orr__arrays[i];
        const unsigned char *x = orr__array_items(a, array), *y = orr__array_items(b, array);
        if (orr__array_count(a, array) != orr__array_count(b, array)) {
            snprintf(text, TIMELINE_DIFFERENCE_MAX, "%s: %zu and %zu items", array->name,
                     orr__array_count(a, array), orr__array_count(b, array));
            return text;
        }
        for (size_t k = 0; k < orr__array_count(a, array); k++) {
            const char *difference =
                item_difference(array, k, x + k * array->size, y + k * array->size, text);
            if (difference)
                return difference;
        }
    }
    return source_difference(&a->source, &b->source);
}
