/* Work of devices, API calls, what waits for what, and the profiler's own time. */
#include <stdio.h>

#include "trace/import/kineto_internal.h"

enum category { NO_CATEGORY, KERNEL, COPY, FILL, CALL, SYNC, RECORD, OVERHEAD };

/* By lower-cased text; the old spellings are those of kineto before 2021. */
static const struct {
    const char *text;
    enum category category;
} categories[] = {
    {"kernel", KERNEL},
    {"gpu_memcpy", COPY},
    {"memcpy", COPY},
    {"gpu_memset", FILL},
    {"memset", FILL},
    {"cuda_runtime", CALL},
    {"cuda_driver", CALL},
    {"hip_runtime", CALL},
    {"hip_driver", CALL},
    {"runtime", CALL},
    {"privateuse1_runtime", CALL},
    {"privateuse1_driver", CALL},
    {"xpu_runtime", CALL},
    {"xpu_driver", CALL},
    {"mtia_runtime", CALL},
    {"cuda_sync", SYNC},
    {"cuda_event", RECORD},
    {"overhead", OVERHEAD},
};

static bool equal_without_case(const char *text, size_t length, const char *lower) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 32) : text[i];
        if (lower[i] == '\0' || c != lower[i])
            return false;
    }
    return lower[length] == '\0';
}

static enum category category_of(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (equal_without_case(text, length, categories[i].text))
            return categories[i].category;
    return NO_CATEGORY;
}

/* -- Work -------------------------------------------------------------------------------------- */

/* "[64, 1, 1]", whatever white space was between; false if it is no list of three numbers. */
static bool put_dimensions(const struct orr__json_value *value, char *out, size_t size) {
    struct orr__json_cursor cursor;
    struct orr__json_value item;
    uint64_t number[3];
    unsigned count = 0;
    if (value->kind != ORR__JSON_ARRAY && value->kind != ORR__JSON_STRING)
        return false;
    orr__json_begin(&cursor, value->text.at, value->text.length, true);
    if (!orr__json_value(&cursor, &item) || item.kind != ORR__JSON_ARRAY)
        return false;
    while (orr__json_element(&cursor, &item)) {
        if (count == 3 || !orr__json_u64(&item, &number[count++]))
            return false;
    }
    if (count != 3)
        return false;
    snprintf(out, size, "[%llu, %llu, %llu]", (unsigned long long)number[0],
             (unsigned long long)number[1], (unsigned long long)number[2]);
    return true;
}

static const char *grid_text(struct orr__kineto *k) {
    enum { DIMENSIONS_MAX = 72 };
    char grid[DIMENSIONS_MAX], block[DIMENSIONS_MAX], text[2 * DIMENSIONS_MAX + 4];
    if (!orr__kineto_has_arg(k, ORR__ARG_GRID) || !orr__kineto_has_arg(k, ORR__ARG_BLOCK) ||
        !put_dimensions(&k->event.args[ORR__ARG_GRID], grid, sizeof grid) ||
        !put_dimensions(&k->event.args[ORR__ARG_BLOCK], block, sizeof block))
        return "";
    int length = snprintf(text, sizeof text, "%s x %s", grid, block);
    return orr__builder_text(k->builder, text, (size_t)length);
}

static void add_command(struct orr__kineto *k, enum orr_command_kind kind) {
    int64_t begin, end;
    unsigned subns;
    uint32_t device, stream;
    if (!orr__kineto_times(k, &begin, &end, &subns) || !orr__kineto_stream(k, &device, &stream))
        return;
    struct orr_timeline_command *command = orr__builder_command(k->builder);
    if (!command)
        return;
    k->has_work[device / 8] = (uint8_t)(k->has_work[device / 8] | 1u << (device % 8));
    command->kind = kind;
    command->device = device;
    command->stream = stream;
    command->start_ns = begin;
    command->finish_ns = end;
    command->name = orr__kineto_text(k, &k->event.field[ORR__FIELD_NAME]);
    command->correlation = orr__kineto_correlation(k, ORR__ARG_CORRELATION);
    orr__kineto_u64(k, ORR__ARG_GRAPH_ID, &command->graph);
    if (kind == ORR_COMMAND_KERNEL)
        command->grid = grid_text(k);
    else
        orr__kineto_u64(k, ORR__ARG_BYTES, &command->bytes_written);
    bool bad = end < begin || (begin == 0 && end == 0);
    k->subns_stamps += bad ? 0 : subns;
    uint64_t id = command->id;
    orr__kineto_reference(k, id);
    if (kind == ORR_COMMAND_KERNEL && orr__kineto_has_arg(k, ORR__ARG_COLLECTIVE))
        orr__kineto_collective(k, id);
}

/* -- Calls ------------------------------------------------------------------------------------- */

static void add_call(struct orr__kineto *k) {
    int64_t begin, end;
    unsigned subns;
    if (!orr__kineto_has_arg(k, ORR__ARG_CORRELATION)) {
        k->no_call++;
        orr__kineto_add_slice(k, ORR_SLICE_OTHER);
        return;
    }
    if (!orr__kineto_times(k, &begin, &end, &subns))
        return;
    uint32_t host = orr__kineto_host(k);
    struct orr_timeline_call *call = orr__builder_call(k->builder);
    if (!call)
        return;
    call->begin_ns = begin;
    call->end_ns = end;
    call->host = host;
    call->name = orr__kineto_text(k, &k->event.field[ORR__FIELD_NAME]);
    call->correlation = orr__kineto_correlation(k, ORR__ARG_CORRELATION);
    k->subns_stamps += subns;
}

/* -- Waiting ----------------------------------------------------------------------------------- */

/* A stream by its number in an argument; ORR_ID_NONE for -1 and 4294967295, the whole context. */
static uint32_t stream_of(struct orr__kineto *k, enum orr__arg arg, uint32_t device) {
    int64_t number;
    if (!orr__kineto_i64(k, arg, &number) || number < 0 || number == UINT32_MAX)
        return ORR_ID_NONE;
    return orr__builder_stream(k->builder, device, 0, 0, number);
}

static void add_wait(struct orr__kineto *k, uint32_t device, int64_t begin) {
    struct orr__wait wait = {
        .correlation = orr__kineto_correlation(k, ORR__ARG_CORRELATION),
        .record_correlation = orr__kineto_correlation(k, ORR__ARG_WAIT_RECORD),
        .stream = stream_of(k, ORR__ARG_STREAM, device),
        .source = stream_of(k, ORR__ARG_WAIT_STREAM, device),
        .ts_ns = begin,
    };
    k->has_waits = true;
    orr__builder_wait(k->builder, &wait);
}

static void add_sync(struct orr__kineto *k, struct orr__json_text kind) {
    int64_t begin, end;
    unsigned subns;
    uint32_t device;
    const struct orr__event *event = &k->event;
    if (!orr__kineto_times(k, &begin, &end, &subns))
        return;
    if (!orr__kineto_device_number(orr__kineto_has_arg(k, ORR__ARG_DEVICE)
                                       ? &event->args[ORR__ARG_DEVICE]
                                       : &event->field[ORR__FIELD_PID],
                                   &device)) {
        if (k->no_place++ == 0)
            k->first_offset_no_place = k->piece->offset;
        return;
    }
    k->has_syncs = true;
    if (orr__json_is(kind, "Stream Wait Event")) {
        add_wait(k, device, begin);
        return;
    }
    uint32_t stream = stream_of(k, ORR__ARG_STREAM, device);
    struct orr_timeline_sync *sync = orr__builder_sync(k->builder);
    if (!sync)
        return;
    bool of_stream = orr__json_is(kind, "Stream Sync");
    sync->kind = of_stream                          ? ORR_SYNC_STREAM
                 : orr__json_is(kind, "Event Sync") ? ORR_SYNC_EVENT
                                                    : ORR_SYNC_DEVICE;
    sync->target = orr__builder_text(k->builder, kind.at, kind.length);
    sync->begin_ns = begin;
    sync->end_ns = end;
    sync->stream = of_stream ? stream : ORR_ID_NONE;
    sync->device = of_stream && stream != ORR_ID_NONE ? ORR_ID_NONE : device;
    orr__builder_link_sync(k->builder, 0, orr__kineto_correlation(k, ORR__ARG_CORRELATION));
}

/* -- The profiler ------------------------------------------------------------------------------ */

static bool is_profilers_own(const char *name) {
    static const char *const names[] = {"Buffer Flush", "Instrumentation", "Resource",
                                        "Activity Buffer Request"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void add_overhead(struct orr__kineto *k) {
    int64_t begin, end;
    unsigned subns;
    if (!orr__kineto_times(k, &begin, &end, &subns))
        return;
    const char *name = orr__kineto_text(k, &k->event.field[ORR__FIELD_NAME]);
    struct orr_timeline_overhead *overhead = orr__builder_overhead(k->builder);
    if (!overhead)
        return;
    overhead->name = name;
    overhead->begin_ns = begin;
    overhead->end_ns = end;
    overhead->profiler = is_profilers_own(name);
}

static void add_record(struct orr__kineto *k) {
    uint32_t device, stream;
    if (!orr__kineto_stream(k, &device, &stream))
        return;
    struct orr_timeline_slice *slice = orr__kineto_add_slice(k, ORR_SLICE_OTHER);
    if (slice)
        slice->stream = stream;
}

bool orr__kineto_work(struct orr__kineto *k, const char *category, size_t length) {
    switch (category_of(category, length)) {
    case KERNEL: add_command(k, ORR_COMMAND_KERNEL); return true;
    case COPY: add_command(k, ORR_COMMAND_COPY); return true;
    case FILL: add_command(k, ORR_COMMAND_FILL); return true;
    case CALL: add_call(k); return true;
    case SYNC:
        add_sync(k, orr__kineto_has_arg(k, ORR__ARG_SYNC_KIND)
                        ? k->event.args[ORR__ARG_SYNC_KIND].text
                        : k->event.field[ORR__FIELD_NAME].text);
        return true;
    case RECORD: add_record(k); return true;
    case OVERHEAD: add_overhead(k); return true;
    case NO_CATEGORY: break;
    }
    return false;
}
