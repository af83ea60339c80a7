/* What threads did, counters and names. */
#include <stdio.h>

#include "trace/import/kineto_internal.h"

struct orr_timeline_slice *orr__kineto_add_slice(struct orr__kineto *k, enum orr_slice_kind kind) {
    int64_t begin, end;
    unsigned subns;
    if (!orr__kineto_times(k, &begin, &end, &subns))
        return NULL;
    struct orr_timeline_slice *slice = orr__builder_slice(k->builder);
    if (!slice)
        return NULL;
    slice->begin_ns = begin;
    slice->end_ns = end;
    slice->name = orr__kineto_text(k, &k->event.field[ORR__FIELD_NAME]);
    slice->kind = kind;
    k->slices++;
    return slice;
}

static void add_on_host(struct orr__kineto *k, enum orr_slice_kind kind) {
    struct orr_timeline_slice *slice = orr__kineto_add_slice(k, kind);
    if (!slice)
        return;
    slice->host = orr__kineto_host(k);
    if (kind == ORR_SLICE_OPERATOR)
        orr__kineto_operator(k, k->slices - 1, slice->name);
}

static void add_on_stream(struct orr__kineto *k, enum orr_slice_kind kind) {
    uint32_t device, stream;
    if (!orr__kineto_stream(k, &device, &stream))
        return;
    struct orr_timeline_slice *slice = orr__kineto_add_slice(k, kind);
    if (slice)
        slice->stream = stream;
}

void orr__kineto_slice(struct orr__kineto *k, const char *category, size_t length) {
    struct orr__json_text text = {.at = category, .length = length};
    if (orr__json_is(text, "cpu_op") || orr__json_is(text, "Operator"))
        add_on_host(k, ORR_SLICE_OPERATOR);
    else if (orr__json_is(text, "python_function"))
        add_on_host(k, ORR_SLICE_FUNCTION);
    else if (orr__json_is(text, "user_annotation"))
        add_on_host(k, ORR_SLICE_ANNOTATION);
    else if (orr__json_is(text, "gpu_user_annotation"))
        add_on_stream(k, ORR_SLICE_ANNOTATION);
    else if (orr__json_is(text, "Trace"))
        k->summaries++;
    else
        add_on_host(k, ORR_SLICE_OTHER);
}

/* -- Counters ---------------------------------------------------------------------------------- */

static bool begin_of(struct orr__kineto *k, int64_t *out_ns) {
    if (orr__kineto_has(k, ORR__FIELD_TS) &&
        orr__json_scaled(&k->event.field[ORR__FIELD_TS], 3, out_ns, NULL))
        return true;
    if (k->no_time++ == 0)
        k->first_offset_no_time = k->piece->offset;
    return false;
}

static void add_counter(struct orr__kineto *k, uint32_t device, const char *name, int64_t ts_ns,
                        double value) {
    if (!orr__builder_device(k->builder, device))
        return;
    struct orr_timeline_counter *counter = orr__builder_counter(k->builder);
    if (!counter)
        return;
    counter->device = device;
    counter->name = name;
    counter->ts_ns = ts_ns;
    counter->value = value;
}

/* c10::DeviceType of what has memory of its own: CUDA, HIP, XPU, PrivateUse1, MTIA. */
static bool is_gpu(uint64_t type) {
    return type == 1 || type == 6 || type == 12 || type == 20 || type == 21;
}

static void add_memory(struct orr__kineto *k) {
    static const struct {
        enum orr__arg arg;
        const char *name;
    } totals[] = {{ORR__ARG_MEMORY_ALLOCATED, "memory bytes"},
                  {ORR__ARG_MEMORY_RESERVED, "reserved bytes"}};
    uint64_t type, bytes;
    uint32_t device;
    int64_t ts_ns;
    bool any = false;
    if (orr__kineto_u64(k, ORR__ARG_MEMORY_DEVICE_TYPE, &type) && is_gpu(type) &&
        orr__kineto_has_arg(k, ORR__ARG_MEMORY_DEVICE) &&
        orr__kineto_device_number(&k->event.args[ORR__ARG_MEMORY_DEVICE], &device)) {
        if (!begin_of(k, &ts_ns))
            return;
        for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
            if (orr__kineto_u64(k, totals[i].arg, &bytes)) {
                add_counter(k, device, totals[i].name, ts_ns, (double)bytes);
                any = true;
            }
        }
    }
    k->memory_left += !any;
}

void orr__kineto_instant(struct orr__kineto *k) {
    if (orr__kineto_has(k, ORR__FIELD_NAME) &&
        orr__json_is(k->event.field[ORR__FIELD_NAME].text, "[memory]"))
        add_memory(k);
    else
        k->instants++;
}

/* The name of a series: of the counter, and of the member if there are several. */
static const char *series_name(struct orr__kineto *k, const char *counter,
                               struct orr__json_text key, bool only) {
    enum { SERIES_MAX = 256 };
    char text[SERIES_MAX];
    if (only)
        return counter;
    int length = snprintf(text, sizeof text, "%s %.*s", counter,
                          key.length < SERIES_MAX ? (int)key.length : SERIES_MAX, key.at);
    if (length < 0)
        return counter;
    struct orr__json_value name = {.kind = ORR__JSON_STRING,
                                   .text = {.at = text, .length = strlen(text)}};
    return orr__kineto_text(k, &name);
}

static size_t count_members(struct orr__json_text object) {
    struct orr__json_cursor cursor;
    struct orr__json_value value;
    struct orr__json_text key;
    size_t count = 0;
    orr__json_begin(&cursor, object.at, object.length, true);
    if (!orr__json_value(&cursor, &value) || value.kind != ORR__JSON_OBJECT)
        return 0;
    while (orr__json_member(&cursor, &key, &value)) {
        orr__json_skip(&cursor, &value);
        count++;
    }
    return count;
}

/* {"ph": "C", "name": "power", "pid": 0, "args": {"W": 300}}: a series for each member. */
void orr__kineto_counter(struct orr__kineto *k) {
    int64_t ts_ns;
    uint32_t device;
    struct orr__json_cursor cursor;
    struct orr__json_value value;
    struct orr__json_text key, all = k->event.all_args;
    size_t members = all.length > 0 ? count_members(all) : 0;
    if (members == 0 || !orr__kineto_has(k, ORR__FIELD_NAME) ||
        !orr__kineto_has(k, ORR__FIELD_PID) ||
        !orr__kineto_device_number(&k->event.field[ORR__FIELD_PID], &device)) {
        k->counters_left++;
        return;
    }
    const char *name = orr__kineto_text(k, &k->event.field[ORR__FIELD_NAME]);
    if (!begin_of(k, &ts_ns))
        return;
    orr__json_begin(&cursor, all.at, all.length, true);
    if (!orr__json_value(&cursor, &value))
        return;
    while (orr__json_member(&cursor, &key, &value)) {
        double number;
        struct orr__kineto_counter *counter =
            orr__json_double(&value, &number) ? ORR__KINETO_ADD(k, counters) : NULL;
        if (counter)
            *counter = (struct orr__kineto_counter){device, series_name(k, name, key, members == 1),
                                                    ts_ns, number};
        orr__json_skip(&cursor, &value);
    }
}

void orr__kineto_resolve_counters(struct orr__kineto *k) {
    for (size_t i = 0; i < k->counters_count; i++) {
        const struct orr__kineto_counter *counter = &k->counters[i];
        if (k->has_work[counter->device / 8] >> (counter->device % 8) & 1)
            add_counter(k, counter->device, counter->name, counter->ts_ns, counter->value);
        else
            k->counters_left++;
    }
}

/* -- Names ------------------------------------------------------------------------------------- */

/* Labels are stored once, so equal ones are the same. */
static struct orr__kineto_thread *find_thread(const struct orr__kineto *k, const char *label) {
    uint64_t hash = orr__hash_mix((uintptr_t)label, 1);
    size_t at = orr__index_start(&k->thread_index, hash);
    uint32_t item;
    while ((item = orr__index_item(&k->thread_index, &at, hash)) != ORR__INDEX_NONE) {
        if (k->threads[item].label == label)
            return &k->threads[item];
        at++;
    }
    return NULL;
}

const char *orr__kineto_thread_name(const struct orr__kineto *k, const char *label) {
    const struct orr__kineto_thread *thread = find_thread(k, label);
    return thread ? thread->name : NULL;
}

void orr__kineto_metadata(struct orr__kineto *k) {
    k->metadata++;
    if (!orr__kineto_has(k, ORR__FIELD_NAME) || !orr__kineto_has_arg(k, ORR__ARG_META_NAME) ||
        !orr__json_is(k->event.field[ORR__FIELD_NAME].text, "thread_name"))
        return;
    const char *label = orr__kineto_thread_label(k);
    const char *name = orr__kineto_text(k, &k->event.args[ORR__ARG_META_NAME]);
    struct orr__kineto_thread *thread = find_thread(k, label);
    if (name[0] == '\0')
        return;
    if (!thread) {
        thread = ORR__KINETO_ADD(k, threads);
        if (!thread ||
            orr__index_add(&k->thread_index, k->memory, orr__hash_mix((uintptr_t)label, 1),
                           (uint32_t)k->threads_count - 1) != ORR_OK) {
            k->failed = true;
            return;
        }
    }
    *thread = (struct orr__kineto_thread){label, name};
}
