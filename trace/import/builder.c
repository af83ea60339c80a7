/* Appending; builder_link.c finishes. */
#include "trace/import/builder.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace/import/builder_internal.h"

enum { MESSAGE_MAX = 1024, ITEMS_MAX = INT32_MAX };

enum orr_status orr__builder_create(const struct orr_memory *memory, const char *format,
                                    struct orr__builder **out_builder) {
    struct orr__builder *b = orr_memory_alloc(memory, sizeof *b);
    *out_builder = b;
    if (!b)
        return ORR_NO_MEMORY;
    b->memory = memory;
    b->last_stream = b->last_host = ORR__INDEX_NONE;
    if (orr_timeline_create(memory, &b->timeline) != ORR_OK) {
        orr__builder_destroy(out_builder);
        return ORR_NO_MEMORY;
    }
    b->timeline->source.format = format;
    b->timeline->source.knows_waits = b->timeline->source.knows_syncs = false;
    return ORR_OK;
}

void orr__builder_destroy(struct orr__builder **builder) {
    struct orr__builder *b = *builder;
    *builder = NULL;
    if (!b)
        return;
    orr_timeline_destroy(&b->timeline);
    orr__texts_destroy(b->memory, b->storage);
    orr_memory_free(b->memory, b->texts);
    orr_memory_free(b->memory, b->stream_keys);
    orr_memory_free(b->memory, b->waits);
    orr_memory_free(b->memory, b->sync_links);
    orr__index_free(&b->text_index, b->memory);
    orr__index_free(&b->device_index, b->memory);
    orr__index_free(&b->stream_index, b->memory);
    orr__index_free(&b->host_index, b->memory);
    orr_memory_free(b->memory, b);
}

bool orr__builder_failed(const struct orr__builder *builder) {
    return builder->failed;
}

struct orr_timeline_source *orr__builder_source(struct orr__builder *builder) {
    return &builder->timeline->source;
}

/* -- Texts ------------------------------------------------------------------------------------- */

const char *orr__builder_text(struct orr__builder *b, const char *text, size_t length) {
    if (length == 0 || length > INT32_MAX || b->failed)
        return "";
    uint64_t hash = orr__hash_bytes(text, length);
    size_t at = orr__index_start(&b->text_index, hash);
    uint32_t item;
    while ((item = orr__index_item(&b->text_index, &at, hash)) != ORR__INDEX_NONE) {
        const struct orr__text *known = &b->texts[item];
        if (known->length == length && memcmp(known->text, text, length) == 0)
            return known->text;
        at++;
    }
    const char *copy = orr__texts_add(b->memory, &b->storage, text, length);
    if (!copy ||
        orr_memory_grow(b->memory, &b->texts, &b->text_capacity, b->text_count + 1,
                        sizeof *b->texts, ITEMS_MAX) != ORR_OK ||
        orr__index_add(&b->text_index, b->memory, hash, (uint32_t)b->text_count) != ORR_OK) {
        b->failed = true;
        return "";
    }
    b->texts[b->text_count++] = (struct orr__text){copy, (uint32_t)length};
    return copy;
}

static const char *text_of(struct orr__builder *b, const char *text) {
    return orr__builder_text(b, text, strlen(text));
}

/* -- Items: zeroed room at the end of an array of the timeline, or NULL ------------------------ */

#define APPEND(b, items, count)                                                                    \
    ((b)->failed || orr_memory_grow((b)->memory, &(b)->timeline->items, &(b)->items##_capacity,    \
                                    (b)->timeline->count + 1, sizeof *(b)->timeline->items,        \
                                    ITEMS_MAX) != ORR_OK                                           \
         ? ((b)->failed = true, NULL)                                                              \
         : &(b)->timeline->items[(b)->timeline->count++])

void orr__builder_meta(struct orr__builder *b, const char *key, const char *value) {
    struct orr_timeline *t = b->timeline;
    struct orr_timeline_meta *meta = NULL;
    for (size_t i = 0; i < t->meta_count && !meta; i++)
        if (strcmp(t->meta[i].key, key) == 0)
            meta = &t->meta[i];
    if (!meta)
        meta = APPEND(b, meta, meta_count);
    if (meta)
        *meta = (struct orr_timeline_meta){text_of(b, key), text_of(b, value)};
}

struct orr_timeline_device *orr__builder_device(struct orr__builder *b, uint32_t number) {
    struct orr_timeline *t = b->timeline;
    assert(number < ORR__BUILDER_DEVICES);
    uint64_t hash = orr__hash_mix(number, 1);
    size_t at = orr__index_start(&b->device_index, hash);
    uint32_t item;
    for (; (item = orr__index_item(&b->device_index, &at, hash)) != ORR__INDEX_NONE; at++)
        if (t->devices[item].id == number)
            return &t->devices[item];
    struct orr_timeline_device *device = APPEND(b, devices, device_count);
    if (!device || orr__index_add(&b->device_index, b->memory, hash,
                                  (uint32_t)t->device_count - 1) != ORR_OK) {
        b->failed = true;
        return NULL;
    }
    char name[32];
    snprintf(name, sizeof name, "device %u", number);
    *device = (struct orr_timeline_device){
        .id = number, .physical = number, .name = text_of(b, name), .kind = "gpu", .profile = ""};
    return device;
}

static bool same_stream(const struct orr__stream_key *a, const struct orr__stream_key *b) {
    return a->device == b->device && a->process == b->process && a->context == b->context &&
           a->number == b->number;
}

static uint32_t add_stream(struct orr__builder *b, const struct orr__stream_key *key,
                           uint64_t hash) {
    struct orr_timeline_stream *stream = APPEND(b, streams, stream_count);
    if (!stream)
        return 0;
    size_t index = b->timeline->stream_count - 1;
    if (!orr__builder_device(b, key->device) ||
        orr_memory_grow(b->memory, &b->stream_keys, &b->stream_key_capacity, index + 1,
                        sizeof *b->stream_keys, ITEMS_MAX) != ORR_OK ||
        orr__index_add(&b->stream_index, b->memory, hash, (uint32_t)index) != ORR_OK) {
        b->failed = true;
        return 0;
    }
    char name[32];
    snprintf(name, sizeof name, "stream %lld", (long long)key->number);
    *stream = (struct orr_timeline_stream){.id = (uint32_t)index,
                                           .device = key->device,
                                           .name = text_of(b, name),
                                           .kind = ORR_STREAM_COMPUTE,
                                           .process = key->process};
    b->stream_keys[index] = *key;
    return (uint32_t)index;
}

uint32_t orr__builder_stream(struct orr__builder *b, uint32_t device, uint64_t process,
                             uint64_t context, int64_t number) {
    struct orr__stream_key key = {device, process, context, number};
    if (b->last_stream != ORR__INDEX_NONE && same_stream(&b->stream_keys[b->last_stream], &key))
        return b->last_stream;
    uint64_t hash =
        orr__hash_mix(orr__hash_mix(device, process), orr__hash_mix(context, (uint64_t)number));
    size_t at = orr__index_start(&b->stream_index, hash);
    uint32_t item;
    while ((item = orr__index_item(&b->stream_index, &at, hash)) != ORR__INDEX_NONE &&
           !same_stream(&b->stream_keys[item], &key))
        at++;
    if (item == ORR__INDEX_NONE)
        item = add_stream(b, &key, hash);
    b->last_stream = b->failed ? ORR__INDEX_NONE : item;
    return item;
}

uint32_t orr__builder_host(struct orr__builder *b, uint64_t process, const char *label,
                           size_t length) {
    struct orr_timeline *t = b->timeline;
    const char *text = orr__builder_text(b, label, length);
    if (b->last_host != ORR__INDEX_NONE && t->hosts[b->last_host].label == text &&
        t->hosts[b->last_host].process == process)
        return b->last_host;
    uint64_t hash = orr__hash_mix(orr__hash_mix(process, (uintptr_t)text), 1);
    size_t at = orr__index_start(&b->host_index, hash);
    uint32_t item;
    while ((item = orr__index_item(&b->host_index, &at, hash)) != ORR__INDEX_NONE &&
           (t->hosts[item].label != text || t->hosts[item].process != process))
        at++;
    if (item == ORR__INDEX_NONE) {
        struct orr_timeline_host *host = APPEND(b, hosts, host_count);
        item = (uint32_t)(t->host_count - 1);
        if (!host || orr__index_add(&b->host_index, b->memory, hash, item) != ORR_OK) {
            b->failed = true;
            return 0;
        }
        *host =
            (struct orr_timeline_host){.id = item, .name = text, .label = text, .process = process};
    }
    b->last_host = item;
    return item;
}

void orr__builder_name_host(struct orr__builder *b, uint32_t host, const char *name) {
    if (!b->failed && host < b->timeline->host_count)
        b->timeline->hosts[host].name = text_of(b, name);
}

struct orr_timeline_command *orr__builder_command(struct orr__builder *b) {
    struct orr_timeline_command *command = APPEND(b, commands, command_count);
    if (command)
        *command = (struct orr_timeline_command){.id = b->timeline->command_count,
                                                 .host = ORR_ID_NONE,
                                                 .caller = ORR_ID_NONE,
                                                 .device = ORR_ID_NONE,
                                                 .stream = ORR_ID_NONE,
                                                 .status = ORR_COMMAND_STATUS_OK,
                                                 .dtype = ORR_DTYPE_NONE,
                                                 .name = "",
                                                 .event = "",
                                                 .site = "",
                                                 .ts_source = "",
                                                 .enqueue_ns = ORR_TIME_NONE,
                                                 .enqueued_ns = ORR_TIME_NONE,
                                                 .ready_ns = ORR_TIME_NONE,
                                                 .start_ns = ORR_TIME_NONE,
                                                 .finish_ns = ORR_TIME_NONE,
                                                 .correlation = ORR_CORRELATION_NONE,
                                                 .grid = ""};
    return command;
}

struct orr_timeline_call *orr__builder_call(struct orr__builder *b) {
    struct orr_timeline_call *call = APPEND(b, calls, call_count);
    if (call)
        *call = (struct orr_timeline_call){.id = b->timeline->call_count,
                                           .merged = b->timeline->call_count,
                                           .correlation = ORR_CORRELATION_NONE,
                                           .name = "",
                                           .begin_ns = ORR_TIME_NONE,
                                           .end_ns = ORR_TIME_NONE,
                                           .host = ORR_ID_NONE};
    return call;
}

struct orr_timeline_sync *orr__builder_sync(struct orr__builder *b) {
    struct orr_timeline_sync *sync = APPEND(b, syncs, sync_count);
    if (sync)
        *sync = (struct orr_timeline_sync){.id = b->timeline->sync_count,
                                           .host = ORR_ID_NONE,
                                           .target = "",
                                           .begin_ns = ORR_TIME_NONE,
                                           .end_ns = ORR_TIME_NONE,
                                           .stream = ORR_ID_NONE,
                                           .device = ORR_ID_NONE};
    return sync;
}

struct orr_timeline_overhead *orr__builder_overhead(struct orr__builder *b) {
    struct orr_timeline_overhead *overhead = APPEND(b, overheads, overhead_count);
    if (overhead)
        *overhead = (struct orr_timeline_overhead){.name = ""};
    return overhead;
}

struct orr_timeline_slice *orr__builder_slice(struct orr__builder *b) {
    struct orr_timeline_slice *slice = APPEND(b, slices, slice_count);
    if (slice)
        *slice = (struct orr_timeline_slice){
            .name = "", .host = ORR_ID_NONE, .stream = ORR_ID_NONE, .kind = ORR_SLICE_OTHER};
    return slice;
}

struct orr_timeline_counter *orr__builder_counter(struct orr__builder *b) {
    struct orr_timeline_counter *counter = APPEND(b, counters, counter_count);
    if (counter)
        *counter = (struct orr_timeline_counter){
            .device = ORR_ID_NONE, .name = "", .order = (uint32_t)b->timeline->counter_count - 1};
    return counter;
}

struct orr_timeline_communicator *orr__builder_communicator(struct orr__builder *b) {
    struct orr_timeline_communicator *item = APPEND(b, communicators, communicator_count);
    if (item)
        *item = (struct orr_timeline_communicator){
            .id = (uint32_t)b->timeline->communicator_count - 1, .name = ""};
    return item;
}

struct orr_timeline_member *orr__builder_member(struct orr__builder *b) {
    struct orr_timeline_member *item = APPEND(b, members, member_count);
    if (item)
        *item = (struct orr_timeline_member){.device = ORR_ID_NONE};
    return item;
}

struct orr_timeline_collective *orr__builder_collective(struct orr__builder *b) {
    struct orr_timeline_collective *item = APPEND(b, collectives, collective_count);
    if (item)
        *item = (struct orr_timeline_collective){.id = b->timeline->collective_count,
                                                 .communicator = ORR_ID_NONE,
                                                 .root = ORR_ID_NONE,
                                                 .peer = ORR_ID_NONE,
                                                 .kind = "",
                                                 .algorithm = "",
                                                 .protocol = "",
                                                 .modelled_ns = ORR_TIME_NONE,
                                                 .dtype = ORR_DTYPE_NONE};
    return item;
}

struct orr_timeline_collective_member *orr__builder_collective_member(struct orr__builder *b) {
    return APPEND(b, collective_members, collective_member_count);
}

/* -- What is linked when finished -------------------------------------------------------------- */

void orr__builder_link_sync(struct orr__builder *b, uint64_t process, uint64_t correlation) {
    if (b->failed || b->timeline->sync_count == 0)
        return;
    if (orr_memory_grow(b->memory, &b->sync_links, &b->sync_link_capacity, b->sync_link_count + 1,
                        sizeof *b->sync_links, ITEMS_MAX) != ORR_OK) {
        b->failed = true;
        return;
    }
    b->sync_links[b->sync_link_count++] =
        (struct orr__sync_link){b->timeline->sync_count, process, correlation};
}

void orr__builder_wait(struct orr__builder *b, const struct orr__wait *wait) {
    struct orr_timeline_stream_wait *item = APPEND(b, stream_waits, stream_wait_count);
    size_t count = b->timeline->stream_wait_count;
    if (!item || orr_memory_grow(b->memory, &b->waits, &b->wait_capacity, count, sizeof *b->waits,
                                 ITEMS_MAX) != ORR_OK) {
        b->failed = true;
        return;
    }
    b->waits[count - 1] = *wait;
    *item = (struct orr_timeline_stream_wait){.id = count,
                                              .stream = wait->stream,
                                              .source = wait->source,
                                              .at_ns = wait->ts_ns,
                                              .record_ns = ORR_TIME_NONE};
}

void orr__builder_finding(struct orr__builder *b, const char *kind, const char *severity,
                          const char *fix, const char *format, ...) {
    char message[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct orr_timeline_finding *finding = APPEND(b, findings, finding_count);
    if (finding)
        *finding = (struct orr_timeline_finding){.id = b->timeline->finding_count,
                                                 .kind = text_of(b, kind),
                                                 .severity = text_of(b, severity),
                                                 .message = text_of(b, message),
                                                 .fix = text_of(b, fix)};
}
