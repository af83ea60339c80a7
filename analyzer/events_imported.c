/* Other tools' timelines: calls, ops, waits and syncs. The names of calls and kernels say what they
 * are (api_names.h). */
#include <string.h>

#include "analyzer/api_names.h"
#include "analyzer/events_fill.h"
#include "analyzer/operator_set.h"

bool orr__timeline_imported(const struct orr_timeline *timeline) {
    const char *format = timeline->source.format;
    return format && format[0] != '\0' && strcmp(format, "orrery") != 0;
}

/* What names say, remembered by their address: equal texts of an importer have equal addresses, and
 * a trace has few names and many calls. A place holds one name. */
enum { NAME_PLACES = 512 };

struct name_cache {
    uint32_t (*meaning)(const char *name);
    struct {
        const char *name;
        uint32_t meaning;
    } places[NAME_PLACES];
};

static uint32_t meaning_of(struct name_cache *cache, const char *name) {
    size_t at = ((uintptr_t)name / 8 ^ (uintptr_t)name / 4096) % NAME_PLACES;
    if (cache->places[at].name != name) {
        cache->places[at].name = name;
        cache->places[at].meaning = cache->meaning(name);
    }
    return cache->places[at].meaning;
}

static uint32_t communicates(const char *name) {
    return orr__communication_kernel(name);
}

/* ------------------------------------------------------------------------------------------------
 * Calls: records that share a correlation are one call. */

static bool is_good(const struct orr__filler *f, const struct orr_timeline_call *call,
                    uint32_t *out_thread) {
    *out_thread = orr__find_host(f->timeline, call->host);
    return *out_thread != ORR_EVENTS_NONE && orr__good_time(call->begin_ns) &&
           orr__good_time(call->end_ns) && call->end_ns >= call->begin_ns;
}

/* Thread and name of a merged call are those of the record that began, then ended, first; the rest
 * only makes the choice independent of the order of the file. */
static bool leads(const struct orr__filler *f, const struct orr_timeline_call *a, uint32_t thread_a,
                  const struct orr_timeline_call *b, uint32_t thread_b) {
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns;
    }
    if (a->end_ns != b->end_ns) {
        return a->end_ns < b->end_ns;
    }
    const struct orr_events_thread *threads = f->events->threads;
    int labels = strcmp(threads[thread_a].label, threads[thread_b].label);
    return labels != 0 ? labels < 0 : strcmp(a->name, b->name) < 0;
}

/* The record that a merged call is known by: itself, if the timeline does not say, or if it has no
 * correlation and therefore owns nothing. */
static uint32_t group_of(const struct orr__filler *f, size_t record) {
    uint32_t group = orr__find_call(f->timeline, f->timeline->calls[record].merged);
    return group == ORR_EVENTS_NONE ? (uint32_t)record : group;
}

/* Finds the leader of each group of good records: leader[group]. */
static void choose_leaders(const struct orr__filler *f, uint32_t *leader) {
    const struct orr_timeline *t = f->timeline;
    for (size_t i = 0; i < t->call_count; i++) {
        leader[i] = ORR_EVENTS_NONE;
    }
    for (size_t i = 0; i < t->call_count; i++) {
        uint32_t thread, thread_before = 0;
        if (!is_good(f, &t->calls[i], &thread)) {
            continue;
        }
        uint32_t *first = &leader[group_of(f, i)];
        bool better = *first == ORR_EVENTS_NONE;
        if (!better) {
            thread_before = orr__find_host(t, t->calls[*first].host);
            better = leads(f, &t->calls[i], thread, &t->calls[*first], thread_before);
        }
        *first = better ? (uint32_t)i : *first;
    }
}

static enum orr_status add_leaders(struct orr__filler *f, const uint32_t *leader) {
    const struct orr_timeline *t = f->timeline;
    struct name_cache flags = {.meaning = orr__api_flags};
    for (size_t i = 0; i < t->call_count; i++) {
        f->merged_call[i] = ORR_EVENTS_NONE;
        if (leader[i] == ORR_EVENTS_NONE) {
            continue;
        }
        const struct orr_timeline_call *call = &t->calls[leader[i]];
        struct orr_events_call item = {.begin_ns = call->begin_ns,
                                       .end_ns = call->end_ns,
                                       .thread = orr__find_host(t, call->host),
                                       .flags = meaning_of(&flags, call->name),
                                       .name = call->name};
        enum orr_status status = orr_events_add_call(f->events, &item, &f->merged_call[i]);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* Records of runtime and driver lie one inside the other: the longest is as long as all. */
static void flag_reused(struct orr_events *events, const int64_t *longest) {
    for (size_t c = 0; c < events->call_count; c++) {
        struct orr_events_call *call = &events->calls[c];
        if (longest[c] < call->end_ns - call->begin_ns) {
            call->flags |= ORR_CALL_REUSED;
        }
    }
}

/* longest: by call, length of its longest record. */
static void merge_records(struct orr__filler *f, int64_t *longest) {
    const struct orr_timeline *t = f->timeline;
    struct orr_events_source *source = &f->events->source;
    for (size_t i = 0; i < t->call_count; i++) {
        uint32_t thread;
        source->api_calls++;
        if (!is_good(f, &t->calls[i], &thread)) {
            source->bad_calls++;
            continue;
        }
        uint32_t index = f->merged_call[group_of(f, i)];
        struct orr_events_call *call = &f->events->calls[index];
        int64_t length = t->calls[i].end_ns - t->calls[i].begin_ns;
        call->records++;
        call->end_ns = t->calls[i].end_ns > call->end_ns ? t->calls[i].end_ns : call->end_ns;
        longest[index] = length > longest[index] ? length : longest[index];
    }
    flag_reused(f->events, longest);
}

enum orr_status orr__fill_imported_calls(struct orr__filler *f) {
    size_t count = f->timeline->call_count;
    f->merged_call = orr_memory_resize(f->memory, NULL, count * sizeof *f->merged_call);
    uint32_t *leader = orr_memory_resize(f->memory, NULL, count * sizeof *leader);
    enum orr_status status = f->merged_call && leader ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        choose_leaders(f, leader);
        status = add_leaders(f, leader);
    }
    orr_memory_free(f->memory, leader);
    int64_t *longest = status == ORR_OK
                           ? orr_memory_alloc(f->memory, f->events->call_count * sizeof *longest)
                           : NULL;
    if (!longest) {
        return ORR_NO_MEMORY;
    }
    merge_records(f, longest);
    orr_memory_free(f->memory, longest);
    for (size_t i = 0; i < f->timeline->command_count; i++) {
        uint32_t call = orr__find_call(f->timeline, f->timeline->commands[i].call);
        f->call_of[i] =
            call == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : f->merged_call[group_of(f, call)];
    }
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Ops */

static enum orr_op_kind op_kind(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_COPY         ? ORR_DEVICE_OP_COPY
           : kind == ORR_COMMAND_FILL       ? ORR_DEVICE_OP_FILL
           : kind == ORR_COMMAND_COLLECTIVE ? ORR_DEVICE_OP_COLLECTIVE
                                            : ORR_DEVICE_OP_KERNEL;
}

/* Kernels of one name and grid are one row. */
static struct orr_events_operator operator_of(const struct orr_timeline_command *c) {
    return (struct orr_events_operator){
        .name = c->name,
        .kind = c->kind == ORR_COMMAND_KERNEL ? "" : orr_command_kind_text(c->kind),
        .shape = c->grid ? c->grid : "",
        .dtype = (uint8_t)c->dtype,
        .unit = c->unit ? 1 : 0};
}

static enum orr_status add_op(struct orr__filler *f, struct name_cache *comm,
                              struct orr__operator_set *set, size_t index) {
    const struct orr_timeline_command *c = &f->timeline->commands[index];
    struct orr_events *events = f->events;
    uint32_t place = orr__find_stream(f->timeline, c->stream);
    uint32_t stream = place == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : f->stream_index[place];
    if (stream == ORR_EVENTS_NONE || c->start_ns == ORR_TIME_NONE ||
        c->finish_ns == ORR_TIME_NONE) {
        events->source.bad_ops++;
        return ORR_OK;
    }
    bool copies = c->kind == ORR_COMMAND_COPY || c->kind == ORR_COMMAND_FILL;
    enum orr_activity activity = copies                      ? ORR_ACTIVITY_COPY
                                 : meaning_of(comm, c->name) ? ORR_ACTIVITY_COMM
                                                             : ORR_ACTIVITY_COMPUTE;
    struct orr_events_op op = {
        .start_ns = c->start_ns,
        .end_ns = c->finish_ns,
        .ready_ns = ORR_TIME_NONE,
        .wait_ns = ORR_TIME_NONE,
        .wait_op = ORR_EVENTS_NONE,
        .wait_call = ORR_EVENTS_NONE,
        .correlation = c->correlation,
        .bytes_read = c->bytes_read,
        .bytes_written = c->bytes_written,
        .stream = stream,
        .call = f->call_of[index],
        .collective = f->collective_of ? f->collective_of[index] : ORR_EVENTS_NONE,
        .command = (uint32_t)index,
        .name = c->name,
        .kind = (uint8_t)op_kind(c->kind),
        .activity = (uint8_t)activity,
        .status = (uint8_t)c->status,
    };
    struct orr_events_operator item = operator_of(c);
    enum orr_status status = orr__operator_intern(events, set, &item, &op.operator_index);
    return status == ORR_OK ? orr_events_add_op(events, &op, &f->op_of[index]) : status;
}

enum orr_status orr__fill_imported_ops(struct orr__filler *f) {
    const struct orr_timeline *t = f->timeline;
    struct name_cache comm = {.meaning = communicates};
    struct orr__operator_set set = {0};
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < t->command_count && status == ORR_OK; i++) {
        f->op_of[i] = ORR_EVENTS_NONE;
        if (orr__is_op_kind(t->commands[i].kind)) {
            status = add_op(f, &comm, &set, i);
        }
    }
    orr__operator_set_free(f->memory, &set);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Waits between streams, and the profiler's own time */

static uint32_t stream_of(const struct orr__filler *f, uint32_t id) {
    uint32_t place = id == ORR_ID_NONE ? ORR_EVENTS_NONE : orr__find_stream(f->timeline, id);
    return place == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : f->stream_index[place];
}

static enum orr_status add_waits(struct orr__filler *f) {
    const struct orr_timeline *t = f->timeline;
    struct orr_events_source *source = &f->events->source;
    for (size_t i = 0; i < t->stream_wait_count; i++) {
        const struct orr_timeline_stream_wait *wait = &t->stream_waits[i];
        struct orr_events_wait item = {.stream = stream_of(f, wait->stream),
                                       .source = stream_of(f, wait->source),
                                       .at_ns = wait->at_ns,
                                       .record_ns = wait->record_ns,
                                       .resolved = true};
        bool known = wait->resolved && orr__good_time(wait->record_ns);
        source->event_waits++;
        source->event_waits_unresolved += !known;
        if (!known || !orr__good_time(wait->at_ns) || item.stream == ORR_EVENTS_NONE ||
            item.source == ORR_EVENTS_NONE) {
            continue; /* without effect: nothing is known to wait, or nothing to be waited for */
        }
        enum orr_status status = orr_events_add_wait(f->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

enum orr_status orr__fill_imported_waits(struct orr__filler *f) {
    const struct orr_timeline *t = f->timeline;
    for (size_t i = 0; i < t->overhead_count; i++) {
        const struct orr_timeline_overhead *overhead = &t->overheads[i];
        struct orr_events_overhead item = {overhead->process, overhead->begin_ns, overhead->end_ns};
        bool good = orr__good_time(item.begin_ns) && orr__good_time(item.end_ns) &&
                    item.end_ns >= item.begin_ns;
        enum orr_status status =
            overhead->profiler && good ? orr_events_add_overhead(f->events, &item, NULL) : ORR_OK;
        if (status != ORR_OK) {
            return status;
        }
    }
    return add_waits(f);
}

/* ------------------------------------------------------------------------------------------------
 * What waiting calls waited for */

/* Only calls that wait by their names: a record of a query says what was looked at, not that anyone
 * waited. */
static enum orr_status add_recorded_syncs(struct orr__filler *f) {
    const struct orr_timeline *t = f->timeline;
    for (size_t i = 0; i < t->sync_count; i++) {
        const struct orr_timeline_sync *sync = &t->syncs[i];
        uint32_t record = orr__find_call(t, sync->call);
        uint32_t call =
            record == ORR_EVENTS_NONE ? ORR_EVENTS_NONE : f->merged_call[group_of(f, record)];
        if (call == ORR_EVENTS_NONE || !(f->events->calls[call].flags & ORR_CALL_WAITING)) {
            continue;
        }
        uint32_t stream = stream_of(f, sync->stream);
        uint32_t device =
            sync->device == ORR_ID_NONE ? ORR_EVENTS_NONE : orr__find_device(t, sync->device);
        struct orr_events_sync item = {.call = call, .kind = ORR_SYNC_TARGET_UNKNOWN};
        if (stream != ORR_EVENTS_NONE) {
            item.kind = ORR_SYNC_TARGET_STREAM;
            item.target = stream;
        } else if (device != ORR_EVENTS_NONE && sync->kind == ORR_SYNC_DEVICE) {
            item.kind = ORR_SYNC_TARGET_DEVICE;
            item.target = device;
        }
        enum orr_status status = orr_events_add_sync(f->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* A blocking copy waits for the op that it enqueues. */
static enum orr_status add_blocking_copies(struct orr__filler *f) {
    for (size_t i = 0; i < f->events->op_count; i++) {
        const struct orr_events_op *op = &f->events->ops[i];
        if (op->call == ORR_EVENTS_NONE || !(f->events->calls[op->call].flags & ORR_CALL_WAITING)) {
            continue;
        }
        struct orr_events_sync item = {op->call, ORR_SYNC_TARGET_OP, (uint32_t)i};
        enum orr_status status = orr_events_add_sync(f->events, &item, NULL);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

enum orr_status orr__fill_imported_syncs(struct orr__filler *f) {
    enum orr_status status = add_recorded_syncs(f);
    return status == ORR_OK ? add_blocking_copies(f) : status;
}
