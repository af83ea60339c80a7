#include <stdio.h>

#include "trace/import/kineto_internal.h"

/* -- Parts of an event ------------------------------------------------------------------------- */

const char *orr__kineto_text(struct orr__kineto *k, const struct orr__json_value *value) {
    struct orr__json_text text = value->text;
    if (value->kind != ORR__JSON_STRING || text.length == 0)
        return "";
    if (text.length > ORR__KINETO_TEXT_MAX) {
        text.length = ORR__KINETO_TEXT_MAX;
        text.plain = false; /* a character may have been cut */
    }
    if (text.plain)
        return orr__builder_text(k->builder, text.at, text.length);
    bool repaired = false;
    size_t size = orr__json_decode(text, k->text, &repaired);
    if (repaired && k->piece->kind == ORR__JSON_MEMBER)
        k->member_repaired = true; /* it may be read again: counted when it is done */
    else if (repaired)
        orr__json_document_repaired(k->document, k->piece, ORR__JSON_REPAIR_UTF8);
    return orr__builder_text(k->builder, k->text, size);
}

bool orr__kineto_i64(const struct orr__kineto *k, enum orr__arg arg, int64_t *out_number) {
    return orr__kineto_has_arg(k, arg) && orr__json_i64(&k->event.args[arg], out_number);
}

bool orr__kineto_u64(const struct orr__kineto *k, enum orr__arg arg, uint64_t *out_number) {
    return orr__kineto_has_arg(k, arg) && orr__json_u64(&k->event.args[arg], out_number);
}

uint64_t orr__kineto_correlation(const struct orr__kineto *k, enum orr__arg arg) {
    uint64_t number;
    return orr__kineto_u64(k, arg, &number) ? number : ORR_CORRELATION_NONE;
}

bool orr__kineto_times(struct orr__kineto *k, int64_t *out_begin_ns, int64_t *out_end_ns,
                       unsigned *out_subns) {
    const struct orr__event *event = &k->event;
    bool exact_ts = true, exact_dur = true;
    int64_t begin, duration;
    if (!orr__kineto_has(k, ORR__FIELD_TS) || !orr__kineto_has(k, ORR__FIELD_DUR) ||
        !orr__json_scaled(&event->field[ORR__FIELD_TS], 3, &begin, &exact_ts) ||
        !orr__json_scaled(&event->field[ORR__FIELD_DUR], 3, &duration, &exact_dur) ||
        __builtin_add_overflow(begin, duration, out_end_ns) || begin == ORR_TIME_NONE ||
        *out_end_ns == ORR_TIME_NONE) {
        if (k->no_time++ == 0)
            k->first_offset_no_time = k->piece->offset;
        return false;
    }
    *out_begin_ns = begin;
    *out_subns = !exact_ts + !exact_dur;
    return true;
}

/* -- Places ------------------------------------------------------------------------------------ */

static size_t put_place(struct orr__kineto *k, enum orr__field field, char *out, size_t room) {
    const struct orr__json_value *value = &k->event.field[field];
    if (!orr__kineto_has(k, field))
        return 0;
    struct orr__json_text text = value->text;
    text.length = text.length < room / 3 ? text.length : room / 3;
    return orr__json_decode(text, out, NULL);
}

static size_t put_thread(struct orr__kineto *k, char *out, size_t size) {
    size_t length = put_place(k, ORR__FIELD_PID, out, size / 2);
    out[length++] = '/';
    return length + put_place(k, ORR__FIELD_TID, out + length, size / 2 - 1);
}

enum { LABEL_MAX = 512 };

const char *orr__kineto_thread_label(struct orr__kineto *k) {
    char label[LABEL_MAX];
    size_t length = put_thread(k, label, sizeof label);
    return orr__builder_text(k->builder, label, length);
}

uint32_t orr__kineto_host(struct orr__kineto *k) {
    char label[LABEL_MAX];
    size_t length = put_thread(k, label, sizeof label);
    return orr__builder_host(k->builder, 0, label, length);
}

bool orr__kineto_device_number(const struct orr__json_value *value, uint32_t *out_device) {
    int64_t number;
    if (!orr__json_i64(value, &number) || number < 0 || number >= ORR__BUILDER_DEVICES)
        return false;
    *out_device = (uint32_t)number;
    return true;
}

/* A stream's number: 7, "7", or the old "stream 7". */
static bool stream_number(const struct orr__json_value *value, int64_t *out_number) {
    if (orr__json_i64(value, out_number))
        return true;
    static const char prefix[] = "stream ";
    size_t length = sizeof prefix - 1;
    if (value->kind != ORR__JSON_STRING || value->text.length <= length ||
        memcmp(value->text.at, prefix, length) != 0)
        return false;
    struct orr__json_value number = *value;
    number.text.at += length;
    number.text.length -= length;
    return orr__json_i64(&number, out_number);
}

bool orr__kineto_stream(struct orr__kineto *k, uint32_t *out_device, uint32_t *out_stream) {
    const struct orr__event *event = &k->event;
    int64_t number;
    bool device_arg = orr__kineto_has_arg(k, ORR__ARG_DEVICE);
    bool stream_arg = orr__kineto_has_arg(k, ORR__ARG_STREAM);
    if ((!device_arg && !orr__kineto_has(k, ORR__FIELD_PID)) ||
        (!stream_arg && !orr__kineto_has(k, ORR__FIELD_TID)) ||
        !orr__kineto_device_number(device_arg ? &event->args[ORR__ARG_DEVICE]
                                              : &event->field[ORR__FIELD_PID],
                                   out_device) ||
        !stream_number(stream_arg ? &event->args[ORR__ARG_STREAM] : &event->field[ORR__FIELD_TID],
                       &number)) {
        if (k->no_place++ == 0)
            k->first_offset_no_place = k->piece->offset;
        return false;
    }
    *out_stream = orr__builder_stream(k->builder, *out_device, 0, 0, number);
    return true;
}

/* -- The top level ----------------------------------------------------------------------------- */

static void read_device(struct orr__json_cursor *cursor, struct orr__kineto_device *device,
                        struct orr__json_value *name) {
    struct orr__json_text key;
    struct orr__json_value value;
    bool has_id = false;
    while (orr__json_member(cursor, &key, &value)) {
        if (orr__json_is(key, "id"))
            has_id = orr__json_u64(&value, &device->id);
        else if (orr__json_is(key, "name"))
            *name = value;
        else if (orr__json_is(key, "totalGlobalMem"))
            (void)orr__json_u64(&value, &device->mem_bytes);
        else if (orr__json_is(key, "numSms"))
            (void)orr__json_u64(&value, &device->multiprocessors);
        orr__json_skip(cursor, &value);
    }
    if (!has_id)
        device->id = UINT64_MAX;
}

static void read_devices(struct orr__kineto *k) {
    struct orr__json_cursor *cursor = &k->piece->cursor;
    struct orr__json_value value;
    size_t before = k->devices_count;
    do {
        k->devices_count = before;
        k->member_repaired = false;
        if (!orr__json_value(cursor, &value) || value.kind != ORR__JSON_ARRAY) {
            orr__json_skip(cursor, &value);
            continue;
        }
        while (orr__json_element(cursor, &value)) {
            struct orr__json_value name = {0};
            struct orr__kineto_device device = {.name = ""};
            if (value.kind == ORR__JSON_OBJECT)
                read_device(cursor, &device, &name);
            else
                orr__json_skip(cursor, &value);
            device.name = orr__kineto_text(k, &name);
            if (k->devices_count >= ORR__KINETO_DEVICES_MAX)
                continue;
            struct orr__kineto_device *item = ORR__KINETO_ADD(k, devices);
            if (item)
                *item = device;
        }
    } while (orr__json_document_again(k->document, k->piece));
    if (k->member_repaired)
        orr__json_document_repaired(k->document, k->piece, ORR__JSON_REPAIR_UTF8);
}

static void read_distributed(struct orr__kineto *k) {
    struct orr__json_cursor *cursor = &k->piece->cursor;
    struct orr__json_value value;
    struct orr__json_text key;
    uint64_t rank, size;
    do {
        rank = size = ORR_SOURCE_NONE;
        if (!orr__json_value(cursor, &value) || value.kind != ORR__JSON_OBJECT) {
            orr__json_skip(cursor, &value);
            continue;
        }
        while (orr__json_member(cursor, &key, &value)) {
            if (orr__json_is(key, "rank"))
                (void)orr__json_u64(&value, &rank);
            else if (orr__json_is(key, "world_size"))
                (void)orr__json_u64(&value, &size);
            orr__json_skip(cursor, &value);
        }
    } while (orr__json_document_again(k->document, k->piece));
    orr__builder_source(k->builder)->rank = rank;
    orr__builder_source(k->builder)->world_size = size;
}

static struct orr__json_value read_plain(struct orr__kineto *k) {
    struct orr__json_cursor *cursor = &k->piece->cursor;
    struct orr__json_value value;
    do {
        value = (struct orr__json_value){0};
        if (orr__json_value(cursor, &value))
            orr__json_skip(cursor, &value);
    } while (orr__json_document_again(k->document, k->piece));
    if (!k->piece->good)
        value = (struct orr__json_value){0};
    return value;
}

/* X(key): members that are kept as they are, as meta "kineto_KEY". */
static const char *const kept[] = {
    "schemaVersion",       "cuda_runtime_version", "cuda_driver_version", "cupti_version",
    "hip_runtime_version", "hip_driver_version",   "roctracer_version",   "with_flops",
    "with_stack",          "with_modules",         "record_shapes",       "profile_memory",
};

static void read_kept(struct orr__kineto *k) {
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strlen(kept[i]) != k->piece->key.length ||
            memcmp(kept[i], k->piece->key.at, k->piece->key.length) != 0)
            continue;
        char key[64], text[64];
        struct orr__json_value value = read_plain(k);
        if (value.kind == ORR__JSON_NULL || value.kind >= ORR__JSON_ARRAY ||
            value.text.length >= sizeof text)
            return;
        snprintf(key, sizeof key, "kineto_%s", kept[i]);
        snprintf(text, sizeof text, "%.*s", (int)value.text.length, value.text.at);
        orr__builder_meta(k->builder, key, text);
        return;
    }
}

static void read_member(struct orr__kineto *k) {
    struct orr__json_text key = k->piece->key;
    if (orr__json_is(key, "deviceProperties")) {
        read_devices(k);
    } else if (orr__json_is(key, "distributedInfo")) {
        read_distributed(k);
    } else if (orr__json_is(key, "baseTimeNanoseconds")) {
        struct orr_timeline_source *source = orr__builder_source(k->builder);
        struct orr__json_value value = read_plain(k);
        source->has_time_base = orr__json_i64(&value, &source->time_base_ns);
    } else {
        read_kept(k);
    }
}

/* -- Events ------------------------------------------------------------------------------------ */

static void take_complete(struct orr__kineto *k) {
    struct orr__json_text category = {.at = ""};
    if (orr__kineto_has(k, ORR__FIELD_CAT))
        category = k->event.field[ORR__FIELD_CAT].text;
    if (!orr__kineto_work(k, category.at, category.length))
        orr__kineto_slice(k, category.at, category.length);
}

static void take_event(struct orr__kineto *k) {
    if (!k->event.is_object) {
        k->no_event++;
        return;
    }
    switch (k->event.ph) {
    case 'X': take_complete(k); break;
    case 's':
    case 't':
    case 'f': k->flows++; break;
    case 'i':
    case 'I':
    case 'R': orr__kineto_instant(k); break;
    case 'C': orr__kineto_counter(k); break;
    case 'M': orr__kineto_metadata(k); break;
    case '\0': k->no_event++; break;
    default: k->other_ph++; break;
    }
}

static void read_all(struct orr__kineto *k) {
    struct orr__json_piece piece;
    k->piece = &piece;
    while (!k->failed && !orr__builder_failed(k->builder) &&
           orr__json_document_next(k->document, &piece)) {
        if (piece.kind == ORR__JSON_MEMBER) {
            read_member(k);
            continue;
        }
        do {
            orr__event_read(&k->keys, &piece.cursor, &k->event);
        } while (orr__json_document_again(k->document, &piece));
        if (piece.good)
            take_event(k);
    }
    k->piece = NULL;
}

/* -- Finishing --------------------------------------------------------------------------------- */

static void name_devices(const struct orr__kineto *k, struct orr_timeline *timeline) {
    for (size_t i = 0; i < timeline->device_count; i++) {
        struct orr_timeline_device *device = &timeline->devices[i];
        for (size_t j = 0; j < k->devices_count; j++) {
            const struct orr__kineto_device *from = &k->devices[j];
            if (from->id != device->id)
                continue;
            device->mem_bytes = from->mem_bytes;
            if (from->multiprocessors <= UINT32_MAX)
                device->multiprocessors = (uint32_t)from->multiprocessors;
            if (from->name[0] != '\0')
                device->name = from->name;
        }
    }
}

static void name_threads(const struct orr__kineto *k, struct orr_timeline *timeline) {
    for (size_t i = 0; i < timeline->host_count; i++) {
        const char *name = orr__kineto_thread_name(k, timeline->hosts[i].label);
        if (name)
            timeline->hosts[i].name = name;
    }
}

static void number_ranks(struct orr_timeline *timeline) {
    uint64_t rank = timeline->source.rank;
    for (size_t i = 0; i < timeline->collective_member_count && rank < ORR_ID_NONE; i++)
        timeline->collective_members[i].rank = (uint32_t)rank;
}

static enum orr_status finish(struct orr__kineto *k, struct orr_timeline **out_timeline) {
    struct orr_timeline *timeline;
    orr__kineto_resolve_counters(k);
    orr__kineto_resolve_collectives(k);
    orr__kineto_findings(k);
    k->failed = k->failed || orr__kineto_separate(k) != ORR_OK;
    if (k->failed) {
        orr__builder_destroy(&k->builder);
        return ORR_NO_MEMORY;
    }
    enum orr_status status = orr__builder_finish(&k->builder, &timeline);
    if (status != ORR_OK)
        return status;
    name_devices(k, timeline);
    name_threads(k, timeline);
    number_ranks(timeline);
    status = orr__kineto_resolve_operators(k, timeline);
    if (status != ORR_OK)
        orr_timeline_destroy(&timeline);
    *out_timeline = timeline;
    return status;
}

/* What has no events, or no event in them, is another JSON. */
static enum orr_status check_is_trace(const struct orr__kineto *k, const char *name,
                                      struct orr_error *error) {
    const struct orr__json_report *report = orr__json_document_report(k->document);
    if (!report->has_events)
        return orr_error_set(error, ORR_INVALID,
                             "%s: JSON without \"traceEvents\"%s; expected a trace of PyTorch's "
                             "profiler (Chrome's trace event format)",
                             name, report->cut ? ", cut or damaged before it" : "");
    if (report->is_array && k->no_event == report->events && report->events > 0)
        return orr_error_set(error, ORR_INVALID,
                             "%s: a JSON array in which nothing is an event; expected objects with "
                             "\"ph\", as in Chrome's trace event format",
                             name);
    return ORR_OK;
}

static enum orr_status read_trace(struct orr__kineto *k, const char *name,
                                  const struct orr_import_options *options,
                                  struct orr_timeline **out_timeline, struct orr_error *error) {
    enum orr_status status = orr__builder_create(k->memory, "kineto", &k->builder);
    k->text = orr_memory_resize(k->memory, NULL, 3 * ORR__KINETO_TEXT_MAX);
    if (status != ORR_OK || !k->text)
        return ORR_NO_MEMORY;
    orr__event_keys_init(&k->keys);
    read_all(k);
    status = k->failed || orr__builder_failed(k->builder) ? ORR_NO_MEMORY : ORR_OK;
    if (status == ORR_OK)
        status = orr__json_document_status(k->document, error);
    if (status == ORR_OK)
        status = check_is_trace(k, name, error);
    if (status == ORR_OK && options && options->strict)
        status = orr__kineto_strict(orr__json_document_report(k->document), name, error);
    return status == ORR_OK ? finish(k, out_timeline) : status;
}

enum orr_status orr__read_kineto(struct orr__json_document *document, const char *name,
                                 const struct orr_import_options *options,
                                 const struct orr_memory *memory,
                                 struct orr_timeline **out_timeline, struct orr_error *error) {
    *out_timeline = NULL;
    struct orr__kineto *k = orr_memory_alloc(memory, sizeof *k);
    enum orr_status status = ORR_NO_MEMORY;
    if (k) {
        k->memory = memory;
        k->document = document;
        status = read_trace(k, name, options, out_timeline, error);
        orr__builder_destroy(&k->builder);
        orr_memory_free(memory, k->text);
        orr_memory_free(memory, k->devices);
        orr_memory_free(memory, k->operators);
        orr_memory_free(memory, k->references);
        orr_memory_free(memory, k->threads);
        orr_memory_free(memory, k->counters);
        orr_memory_free(memory, k->members);
        orr_memory_free(memory, k->groups);
        orr__index_free(&k->thread_index, memory);
        orr__index_free(&k->group_index, memory);
        orr_memory_free(memory, k);
    }
    return status == ORR_NO_MEMORY ? orr_error_set(error, status, "%s: out of host memory", name)
                                   : status;
}
