/* Records through the sinks, into a database, and back as a timeline. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/timeline_random.h"
#include "tests/trace_support.h"
#include "trace/timeline_texts.h"

/* -- Memory and null sinks --------------------------------------------------------------------- */

static void memory_sink_keeps_every_record_in_order(void **state) {
    struct trace_fixture *f = *state;
    struct orr_record_memory *store;
    assert_int_equal(orr_record_memory_create(&f->memory.table, &store), ORR_OK);
    struct orr_sink *sink = orr_record_memory_sink(store);
    struct orr_record_cursor cursor = {0};
    assert_null(orr_record_memory_next(store, &cursor));
    trace_write_commands(sink, 1, 50000); /* several chunks */
    uint64_t expected = 1;
    const struct orr_record *record;
    while ((record = orr_record_memory_next(store, &cursor)) != NULL) {
        assert_int_equal(record->kind, ORR_RECORD_COMMAND);
        assert_int_equal(((const struct orr_record_command *)(const void *)record)->id, expected);
        expected++;
    }
    assert_int_equal(expected, 50001);
    trace_write_commands(sink, 50001, 50001); /* a cursor at the end sees what comes later */
    record = orr_record_memory_next(store, &cursor);
    assert_non_null(record);
    assert_int_equal(orr_record_memory_count(store, ORR_RECORD_COMMAND), 50001);
    assert_int_equal(orr_record_memory_count(store, ORR_RECORD_EDGE), 0);
    assert_int_equal(orr_record_memory_count(store, (enum orr_record_kind)0), 50001);
    assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
    assert_int_equal(sink->close(sink, "failed", &f->error), ORR_OK);
    assert_string_equal(orr_record_memory_status(store), "failed");
    orr_record_memory_destroy(&store);
    orr_record_memory_destroy(&store);
}

static void null_sink_takes_any_number_of_records(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink;
    assert_int_equal(orr_null_sink_create(&f->memory.table, &sink), ORR_OK);
    size_t requests = f->memory.requests;
    trace_write_commands(sink, 1, 100000);
    assert_int_equal(f->memory.requests, requests);
    assert_int_equal(sink->flush(sink, &f->error), ORR_OK);
    assert_int_equal(sink->close(sink, "ok", &f->error), ORR_OK);
}

static void texts_of_kinds_are_those_of_the_lists(void **state) {
    (void)state;
    assert_string_equal(orr_command_kind_text(ORR_COMMAND_RECORD_STREAM), "record_stream");
    assert_string_equal(orr_command_kind_text(ORR_COMMAND_HOSTWRITE), "hostwrite");
    assert_string_equal(orr_command_status_text(ORR_COMMAND_STATUS_SKIPPED), "skipped");
    assert_string_equal(orr_edge_kind_text(ORR_EDGE_ALLOCATOR), "allocator");
    assert_string_equal(orr_sync_kind_text(ORR_SYNC_FUTURE), "future");
    assert_string_equal(orr_stream_kind_text(ORR_STREAM_COMMUNICATE), "communicate");
    assert_string_equal(orr_stream_sync_text(ORR_STREAM_PTDS), "ptds");
    assert_string_equal(orr_stream_sync_text(ORR_STREAM_LEGACY), "legacy");
    assert_string_equal(orr_command_kind_text(ORR_COMMAND_KIND_COUNT), "unknown");
    assert_string_equal(orr_stream_sync_text((enum orr_stream_sync)17), "unknown");
}

/* -- Round trip -------------------------------------------------------------------------------- */

struct expected {
    const struct orr_names *names;
    const struct orr_timeline *timeline;
    struct orr_timeline_edge *edges;
    struct orr_timeline_access *accesses;
    struct orr_timeline_counter *counters;
    size_t counts[ORR_RECORD_KIND_COUNT];
    size_t edge_count, access_count, counter_count;
};

static void same_text(const struct expected *e, const char *text, uint32_t id) {
    assert_string_equal(text, orr_names_text(e->names, id));
}

static void same_command(struct expected *e, const struct orr_record_command *r) {
    const struct orr_timeline_command *c = orr_timeline_command(e->timeline, r->id);
    assert_non_null(c);
    assert_int_equal(c->id, r->id);
    assert_int_equal(c->op, r->op);
    assert_int_equal(c->seq, r->seq);
    assert_int_equal(c->host, r->host);
    assert_int_equal(c->device, r->device);
    assert_int_equal(c->stream, r->stream);
    assert_int_equal(c->kind, r->header.a);
    assert_int_equal(c->dtype, r->header.b);
    assert_int_equal(c->status, r->header.c);
    assert_int_equal(c->unit, r->header.d);
    same_text(e, c->name, r->name);
    same_text(e, c->event, r->event);
    same_text(e, c->site, r->site);
    if (r->ts_source)
        same_text(e, c->ts_source, r->ts_source);
    else
        assert_string_equal(c->ts_source, orr_timeline_meta(e->timeline, "clock"));
    assert_true(c->enqueue_ns == r->enqueue_ns && c->enqueued_ns == r->enqueued_ns);
    assert_true(c->ready_ns == r->ready_ns);
    assert_true(c->start_ns == r->start_ns && c->finish_ns == r->finish_ns);
    assert_int_equal(c->flops, r->flops);
    assert_int_equal(c->bytes_read, r->bytes_read);
    assert_int_equal(c->bytes_written, r->bytes_written);
}

static void same_op(struct expected *e, const struct orr_record_op *r) {
    const struct orr_timeline_op *o = orr_timeline_op(e->timeline, r->id);
    assert_non_null(o);
    assert_int_equal(o->parent, r->parent);
    assert_int_equal(o->dtype, r->header.a);
    assert_int_equal(o->flops, r->flops);
    assert_int_equal(o->bytes_read, r->bytes_read);
    assert_int_equal(o->bytes_written, r->bytes_written);
    assert_int_equal(o->bytes_broadcast, r->bytes_broadcast);
    same_text(e, o->name, r->name);
    same_text(e, o->kind, r->kind);
    same_text(e, o->site, r->site);
    same_text(e, o->shape, r->shape);
}

static void same_device(struct expected *e, const struct orr_record_device *r) {
    const struct orr_timeline_device *d = orr_timeline_device(e->timeline, r->id);
    assert_non_null(d);
    same_text(e, d->name, r->name);
    same_text(e, d->kind, r->kind);
    same_text(e, d->profile, r->profile);
    assert_int_equal(d->physical, r->physical);
    assert_int_equal(d->mem_bytes, r->mem_bytes);
    assert_int_equal(d->bandwidth, r->bandwidth);
}

static void same_sync(struct expected *e, const struct orr_record_sync *r) {
    const struct orr_timeline_sync *s = &e->timeline->syncs[r->id - 1];
    assert_int_equal(s->id, r->id);
    assert_int_equal(s->kind, r->header.a);
    assert_int_equal(s->cmd, r->cmd);
    assert_int_equal(s->host, r->host);
    assert_true(s->begin_ns == r->begin_ns && s->end_ns == r->end_ns);
    if (r->header.a == ORR_SYNC_EVENT && orr_names_text(e->names, r->target)[0])
        assert_string_equal(s->target + strlen("event "), orr_names_text(e->names, r->target));
}

static void same_buffer(struct expected *e, const struct orr_record_buffer *r) {
    const struct orr_timeline_buffer *b = &e->timeline->buffers[r->id - 1];
    assert_int_equal(b->id, r->id);
    assert_int_equal(b->block, r->block);
    assert_int_equal(b->bytes, r->bytes);
    assert_int_equal(b->alloc_cmd, r->alloc_cmd);
    assert_int_equal(b->device, r->device);
    assert_int_equal(b->stream, r->stream);
    same_text(e, b->label, r->label);
    same_text(e, b->memory, r->memory);
    assert_int_equal(b->role, r->header.a);
}

static void same_role(struct expected *e, const struct orr_record_buffer_role *r) {
    const struct orr_timeline_buffer_role *b =
        &e->timeline->buffer_roles[e->counts[ORR_RECORD_BUFFER_ROLE] - 1]; /* in order */
    assert_int_equal(b->buffer, r->id);
    assert_int_equal(b->after_cmd, r->after_cmd);
    assert_int_equal(b->role, r->header.a);
    assert_true(b->ts_ns == r->ts_ns);
}

static void same_collective(struct expected *e, const struct orr_record_collective *r) {
    const struct orr_timeline_collective *c = &e->timeline->collectives[r->id - 1];
    assert_int_equal(c->id, r->id);
    assert_int_equal(c->seq, r->seq);
    assert_int_equal(c->bytes, r->bytes);
    assert_int_equal(c->communicator, r->communicator);
    assert_int_equal(c->root, r->root);
    assert_int_equal(c->peer, r->peer);
    assert_int_equal(c->dtype, r->header.a);
    same_text(e, c->kind, r->kind);
    assert_int_equal(c->emulated, r->header.b);
    assert_true(c->modelled_ns == r->modelled_ns);
    same_text(e, c->algorithm, r->algorithm);
    same_text(e, c->protocol, r->protocol);
}

static void same_finding(struct expected *e, const struct orr_record_finding *r) {
    const struct orr_timeline_finding *x = &e->timeline->findings[r->id - 1];
    assert_int_equal(x->id, r->id);
    assert_int_equal(x->cmd_a, r->cmd_a);
    assert_int_equal(x->cmd_b, r->cmd_b);
    assert_int_equal(x->buffer, r->buffer);
    same_text(e, x->kind, r->kind);
    same_text(e, x->severity, r->severity);
    same_text(e, x->message, r->message);
    same_text(e, x->fix, r->fix);
}

static void same_member(struct expected *e, const struct orr_record_collective_member *r) {
    size_t at = (size_t)(r->collective - 1) * 2 + r->rank; /* two ranks each */
    const struct orr_timeline_collective_member *m = &e->timeline->collective_members[at];
    assert_int_equal(m->collective, r->collective);
    assert_int_equal(m->rank, r->rank);
    assert_int_equal(m->cmd, r->cmd);
}

static void same_small(struct expected *e, const struct orr_record *record) {
    const struct orr_timeline *t = e->timeline;
    if (record->kind == ORR_RECORD_META) {
        const struct orr_record_meta *r = (const void *)record;
        const char *value = orr_timeline_meta(t, orr_names_text(e->names, r->key));
        assert_non_null(value);
        same_text(e, value, r->value);
    } else if (record->kind == ORR_RECORD_PEAK) {
        const struct orr_record_peak *r = (const void *)record;
        assert_int_equal(t->devices[r->device].peak[record->a][record->b], r->flops_per_s);
    } else if (record->kind == ORR_RECORD_STREAM) {
        const struct orr_record_stream *r = (const void *)record;
        const struct orr_timeline_stream *s = orr_timeline_stream(t, r->id);
        assert_non_null(s);
        assert_int_equal(s->device, r->device);
        assert_int_equal(s->kind, record->a);
        assert_int_equal(s->sync, record->b);
        same_text(e, s->name, r->name);
    } else if (record->kind == ORR_RECORD_HOST) {
        const struct orr_record_host *r = (const void *)record;
        assert_int_equal(t->hosts[r->id].id, r->id);
        same_text(e, t->hosts[r->id].name, r->name);
    } else if (record->kind == ORR_RECORD_COMMUNICATOR) {
        const struct orr_record_communicator *r = (const void *)record;
        assert_int_equal(t->communicators[r->id].id, r->id);
        same_text(e, t->communicators[r->id].name, r->name);
    } else if (record->kind == ORR_RECORD_MEMBER) {
        const struct orr_record_member *r = (const void *)record;
        const struct orr_timeline_member *m = &t->members[r->communicator * 3 + r->rank];
        assert_int_equal(m->communicator, r->communicator);
        assert_int_equal(m->rank, r->rank);
        assert_int_equal(m->device, r->device);
    } else {
        const struct orr_record_buffer_free *r = (const void *)record;
        assert_int_equal(record->kind, ORR_RECORD_BUFFER_FREE);
        assert_int_equal(t->buffers[r->id - 1].free_cmd, r->free_cmd);
    }
}

/* Rows without an id of their own are gathered, to be compared in the timeline's order. */
static void gather(struct expected *e, const struct orr_record *record) {
    if (record->kind == ORR_RECORD_EDGE) {
        const struct orr_record_edge *r = (const void *)record;
        e->edges[e->edge_count++] =
            (struct orr_timeline_edge){r->src, r->dst, (enum orr_edge_kind)record->a};
    } else if (record->kind == ORR_RECORD_ACCESS) {
        const struct orr_record_access *r = (const void *)record;
        e->accesses[e->access_count++] = (struct orr_timeline_access){
            r->cmd, r->buffer, r->offset, r->bytes, (enum orr_access_mode)record->a};
    } else {
        const struct orr_record_counter *r = (const void *)record;
        uint32_t order = (uint32_t)e->counter_count;
        e->counters[e->counter_count++] = (struct orr_timeline_counter){
            r->device, order, orr_names_text(e->names, r->name), r->ts_ns, r->value};
    }
}

static void compare_record(struct expected *e, const struct orr_record *record) {
    e->counts[record->kind]++;
    switch ((enum orr_record_kind)record->kind) {
    case ORR_RECORD_COMMAND: same_command(e, (const void *)record); break;
    case ORR_RECORD_OP: same_op(e, (const void *)record); break;
    case ORR_RECORD_DEVICE: same_device(e, (const void *)record); break;
    case ORR_RECORD_SYNC: same_sync(e, (const void *)record); break;
    case ORR_RECORD_BUFFER: same_buffer(e, (const void *)record); break;
    case ORR_RECORD_BUFFER_ROLE: same_role(e, (const void *)record); break;
    case ORR_RECORD_COLLECTIVE: same_collective(e, (const void *)record); break;
    case ORR_RECORD_COLLECTIVE_MEMBER: same_member(e, (const void *)record); break;
    case ORR_RECORD_FINDING: same_finding(e, (const void *)record); break;
    case ORR_RECORD_EDGE:
    case ORR_RECORD_ACCESS:
    case ORR_RECORD_COUNTER: gather(e, record); break;
    default: same_small(e, record); break;
    }
}

#define ORDER(a, b)                                                                                \
    if ((a) != (b))                                                                                \
    return (a) < (b) ? -1 : 1

static int order_edges(const void *a, const void *b) {
    const struct orr_timeline_edge *x = a, *y = b;
    ORDER(x->dst, y->dst);
    ORDER(x->src, y->src);
    return 0;
}

static int order_accesses(const void *a, const void *b) {
    const struct orr_timeline_access *x = a, *y = b;
    ORDER(x->cmd, y->cmd);
    return 0;
}

static int order_counters(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    ORDER(x->device, y->device);
    int order = strcmp(x->name, y->name);
    if (order != 0)
        return order;
    ORDER(x->ts_ns, y->ts_ns);
    return 0;
}

/* The simplest stable sort. */
static void sort_slowly(void *items, size_t count, size_t size,
                        int (*compare)(const void *, const void *)) {
    unsigned char *base = items, item[64];
    assert_true(size <= sizeof item);
    for (size_t i = 1; i < count; i++) {
        size_t to = i;
        memcpy(item, base + i * size, size);
        for (; to > 0 && compare(base + (to - 1) * size, item) > 0; to--)
            memcpy(base + to * size, base + (to - 1) * size, size);
        memcpy(base + to * size, item, size);
    }
}

static void compare_gathered(struct expected *e) {
    const struct orr_timeline *t = e->timeline;
    sort_slowly(e->edges, e->edge_count, sizeof *e->edges, order_edges);
    sort_slowly(e->accesses, e->access_count, sizeof *e->accesses, order_accesses);
    sort_slowly(e->counters, e->counter_count, sizeof *e->counters, order_counters);
    for (size_t i = 0; i < e->edge_count; i++) {
        assert_int_equal(t->edges[i].src, e->edges[i].src);
        assert_int_equal(t->edges[i].dst, e->edges[i].dst);
        assert_int_equal(t->edges[i].kind, e->edges[i].kind);
    }
    for (size_t i = 0; i < e->access_count; i++) {
        assert_int_equal(t->accesses[i].cmd, e->accesses[i].cmd);
        assert_int_equal(t->accesses[i].buffer, e->accesses[i].buffer);
        assert_int_equal(t->accesses[i].offset, e->accesses[i].offset);
        assert_int_equal(t->accesses[i].bytes, e->accesses[i].bytes);
        assert_int_equal(t->accesses[i].mode, e->accesses[i].mode);
    }
    for (size_t i = 0; i < e->counter_count; i++) {
        assert_int_equal(t->counters[i].device, e->counters[i].device);
        assert_string_equal(t->counters[i].name, e->counters[i].name);
        assert_int_equal(t->counters[i].order, e->counters[i].order);
        assert_true(t->counters[i].ts_ns == e->counters[i].ts_ns);
        assert_true(t->counters[i].value == e->counters[i].value); /* sums of eighths: exact */
    }
}

static void compare_counts(const struct expected *e) {
    const struct orr_timeline *t = e->timeline;
    const size_t *counts = e->counts;
    assert_int_equal(t->device_count, counts[ORR_RECORD_DEVICE]);
    assert_int_equal(t->stream_count, counts[ORR_RECORD_STREAM]);
    assert_int_equal(t->host_count, counts[ORR_RECORD_HOST]);
    assert_int_equal(t->op_count, counts[ORR_RECORD_OP]);
    assert_int_equal(t->command_count, counts[ORR_RECORD_COMMAND]);
    assert_int_equal(t->edge_count, counts[ORR_RECORD_EDGE]);
    assert_int_equal(t->sync_count, counts[ORR_RECORD_SYNC]);
    assert_int_equal(t->buffer_count, counts[ORR_RECORD_BUFFER]);
    assert_int_equal(t->buffer_role_count, counts[ORR_RECORD_BUFFER_ROLE]);
    assert_int_equal(t->access_count, counts[ORR_RECORD_ACCESS]);
    assert_int_equal(t->communicator_count, counts[ORR_RECORD_COMMUNICATOR]);
    assert_int_equal(t->member_count, counts[ORR_RECORD_MEMBER]);
    assert_int_equal(t->collective_count, counts[ORR_RECORD_COLLECTIVE]);
    assert_int_equal(t->collective_member_count, counts[ORR_RECORD_COLLECTIVE_MEMBER]);
    assert_int_equal(t->counter_count, counts[ORR_RECORD_COUNTER]);
    assert_int_equal(t->finding_count, counts[ORR_RECORD_FINDING]);
}

static void compare_store(const struct orr_record_memory *store, const struct orr_names *names,
                          const struct orr_timeline *timeline) {
    size_t records = orr_record_memory_count(store, (enum orr_record_kind)0);
    struct expected e = {.names = names, .timeline = timeline};
    e.edges = calloc(records, sizeof *e.edges);
    e.accesses = calloc(records, sizeof *e.accesses);
    e.counters = calloc(records, sizeof *e.counters);
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(store, &cursor)) != NULL)
        compare_record(&e, record);
    compare_counts(&e);
    compare_gathered(&e);
    free(e.edges);
    free(e.accesses);
    free(e.counters);
}

static void every_kind_of_record_comes_back_from_the_database(void **state) {
    struct trace_fixture *f = *state;
    uint64_t seed = trace_seed();
    for (uint64_t round = 0; round < 12; round++) {
        struct orr_record_memory *store;
        assert_int_equal(orr_record_memory_create(&f->memory.table, &store), ORR_OK);
        trace_write_random(orr_record_memory_sink(store), f->names, seed + round, round * 97);
        struct orr_sink *sink = trace_open_sink(f, f->path, (enum orr_sqlite_mode)(round % 2));
        trace_copy(store, sink);
        trace_close_sink(f, sink);
        struct orr_timeline *timeline = trace_read(f, f->path);
        compare_store(store, f->names, timeline);
        assert_string_equal(orr_timeline_meta(timeline, "status"), "ok");
        assert_string_equal(orr_timeline_meta(timeline, "dropped"), "0");
        assert_string_equal(orr_timeline_meta(timeline, "schema_version"), "4");
        assert_null(orr_timeline_meta(timeline, "nothing"));
        orr_timeline_destroy(&timeline);
        orr_record_memory_destroy(&store);
    }
    assert_false(trace_exists(f->path, "-journal"));
}

/* Schema version 3 had nothing of imported traces, version 2 no emulated and no modelled_ns. */
static void files_of_older_versions_are_read(void **state) {
    struct trace_fixture *f = *state;
    struct orr_record_memory *store;
    assert_int_equal(orr_record_memory_create(&f->memory.table, &store), ORR_OK);
    trace_write_random(orr_record_memory_sink(store), f->names, trace_seed(), 97);
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    trace_copy(store, sink);
    trace_close_sink(f, sink);
    struct orr_timeline *now = trace_read(f, f->path);
    trace_execute(f->path, "DROP VIEW cmd; DROP VIEW sync; DROP VIEW call; DROP VIEW slice;"
                           "DROP VIEW overhead; DROP VIEW stream_wait; DROP VIEW v_work;"
                           "DROP VIEW v_kernel; DROP VIEW v_device; DROP VIEW v_idle;"
                           "DROP VIEW v_gap; DROP VIEW v_call; DROP VIEW v_launch;"
                           "DROP VIEW v_step; DROP VIEW v_collective; DROP VIEW v_memory;"
                           "DROP TABLE cmd_import_row; DROP TABLE sync_import_row;"
                           "DROP TABLE call_row; DROP TABLE slice_row; DROP TABLE overhead_row;"
                           "DROP TABLE stream_wait_row;"
                           "ALTER TABLE device DROP COLUMN multiprocessors;"
                           "CREATE TABLE stream3 AS SELECT id, device, name, kind, sync FROM "
                           "stream; DROP TABLE stream; ALTER TABLE stream3 RENAME TO stream;"
                           "CREATE TABLE host3 AS SELECT id, name FROM host; DROP TABLE host;"
                           "ALTER TABLE host3 RENAME TO host;"
                           "PRAGMA user_version = 3");
    struct orr_timeline *third = trace_read(f, f->path);
    char text[TIMELINE_DIFFERENCE_MAX];
    assert_null(timeline_difference(now, third, text));
    orr_timeline_destroy(&third);
    trace_execute(f->path, "DROP VIEW collective;"
                           "ALTER TABLE collective_row DROP COLUMN emulated;"
                           "ALTER TABLE collective_row DROP COLUMN modelled_ns;"
                           "PRAGMA user_version = 2");
    struct orr_timeline *before = trace_read(f, f->path);
    assert_true(now->collective_count > 0);
    assert_int_equal(before->collective_count, now->collective_count);
    for (size_t i = 0; i < now->collective_count; i++) {
        assert_int_equal(before->collectives[i].bytes, now->collectives[i].bytes);
        assert_string_equal(before->collectives[i].protocol, now->collectives[i].protocol);
        assert_false(before->collectives[i].emulated);
        assert_true(before->collectives[i].modelled_ns == ORR_TIME_NONE);
    }
    orr_timeline_destroy(&now);
    orr_timeline_destroy(&before);
    orr_record_memory_destroy(&store);
}

static void counts_beyond_int64_are_stored_as_its_maximum(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    struct orr_record_op op = {
        .header = ORR_RECORD_HEADER(op, OP), .id = 1, .flops = UINT64_MAX, .bytes_read = 7};
    orr_record_push(&sink->writer, &op);
    trace_close_sink(f, sink);
    struct orr_timeline *timeline = trace_read(f, f->path);
    assert_int_equal(timeline->ops[0].flops, INT64_MAX);
    assert_int_equal(timeline->ops[0].bytes_read, 7);
    orr_timeline_destroy(&timeline);
}

static void counters_may_be_no_number_or_infinite(void **state) {
    struct trace_fixture *f = *state;
    static const double values[] = {0.1, -1e308, (double)INFINITY, (double)NAN};
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    for (int64_t i = 0; i < 4; i++) {
        struct orr_record_counter counter = {
            .header = ORR_RECORD_HEADER(counter, COUNTER), .ts_ns = i, .value = values[i]};
        orr_record_push(&sink->writer, &counter);
    }
    trace_close_sink(f, sink);
    struct orr_timeline *timeline = trace_read(f, f->path);
    assert_int_equal(timeline->counter_count, 4);
    for (size_t i = 0; i < 3; i++)
        assert_true(timeline->counters[i].value == values[i]);
    assert_true(isnan(timeline->counters[3].value));
    orr_timeline_destroy(&timeline);
}

static void an_id_that_is_used_twice_is_named(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    trace_write_commands(sink, 1, 5);
    trace_write_commands(sink, 5, 6);
    assert_int_equal(sink->close(sink, "ok", &f->error), ORR_IO);
    assert_non_null(strstr(f->error.text, "cmd_row.id"));
    orr_error_clear(&f->error);
    assert_int_equal(trace_query_int(f->path, "SELECT value FROM meta WHERE key = 'dropped'"), 7);
}

static void lookup_by_id_finds_what_is_there_and_nothing_else(void **state) {
    struct trace_fixture *f = *state;
    struct orr_timeline *timeline;
    assert_int_equal(orr_timeline_create(&f->memory.table, &timeline), ORR_OK);
    assert_null(orr_timeline_command(timeline, 1));
    static const uint64_t ids[] = {2, 3, 7, 8, 100, UINT64_MAX};
    size_t count = sizeof ids / sizeof *ids;
    timeline->commands = orr_memory_alloc(&f->memory.table, count * sizeof *timeline->commands);
    timeline->streams = orr_memory_alloc(&f->memory.table, count * sizeof *timeline->streams);
    timeline->command_count = timeline->stream_count = count;
    for (size_t i = 0; i < count; i++) {
        timeline->commands[i].id = ids[i];
        timeline->streams[i].id = (uint32_t)ids[i];
    }
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(orr_timeline_command(timeline, ids[i]), &timeline->commands[i]);
        assert_ptr_equal(orr_timeline_stream(timeline, (uint32_t)ids[i]), &timeline->streams[i]);
    }
    static const uint32_t absent[] = {0, 1, 4, 6, 9, 99, 101, UINT32_MAX - 1};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        assert_null(orr_timeline_command(timeline, absent[i]));
        assert_null(orr_timeline_stream(timeline, absent[i]));
    }
    orr_timeline_destroy(&timeline);
    orr_timeline_destroy(&timeline);
}

static void sorting_is_stable_whatever_the_order(void **state) {
    struct trace_fixture *f = *state;
    uint64_t random = trace_seed() * 77 + 1;
    for (int round = 0; round < 300; round++) {
        size_t count = (size_t)(trace_random(&random) % 200);
        uint64_t keys = 1 + trace_random(&random) % 100, window = trace_random(&random) % 3;
        struct orr_timeline_access items[200], expected[200];
        for (size_t i = 0; i < count; i++) {
            uint64_t key = trace_random(&random) % keys;
            /* bytes: the original place. Nearly sorted, shuffled, or sorted. */
            items[i] = (struct orr_timeline_access){.cmd = window == 0   ? key
                                                           : window == 1 ? i + key
                                                                         : i / 3,
                                                    .bytes = i};
        }
        memcpy(expected, items, sizeof items);
        sort_slowly(expected, count, sizeof *expected, order_accesses);
        assert_int_equal(
            orr__stable_sort(&f->memory.table, items, count, sizeof *items, order_accesses),
            ORR_OK);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(items[i].cmd, expected[i].cmd);
            assert_int_equal(items[i].bytes, expected[i].bytes);
        }
    }
}

/* -- The database as others see it ------------------------------------------------------------- */

static void database_has_the_promised_columns(void **state) {
    struct trace_fixture *f = *state;
    trace_close_sink(f, trace_open_sink(f, f->path, ORR_SQLITE_INLINE));
    static const char *const promised[] = {
        "key, value FROM meta",
        "id, name, kind, physical, profile, mem_bytes, bandwidth FROM device",
        "device, unit, dtype, flops_per_s FROM device_peak",
        "id, device, name, kind, sync FROM stream",
        "id, name FROM host",
        "id, parent, name, kind, site, flops, bytes_read, bytes_written, dtype, shape, "
        "bytes_broadcast FROM op",
        "id, op, host, device, stream, seq, kind, name, event, site, status, enqueue_ns, "
        "enqueued_ns, ready_ns, start_ns, finish_ns, flops, bytes_read, bytes_written, dtype, "
        "ts_source FROM cmd",
        "src, dst, kind FROM edge",
        "id, host, kind, target, begin_ns, end_ns, cmd FROM sync",
        "id, device, block, memory, stream, bytes, label, alloc_cmd, free_cmd, role FROM buffer",
        "buffer, role, after_cmd, ts_ns FROM buffer_role",
        "cmd, buffer, offset, bytes, mode FROM access",
        "id, name FROM communicator",
        "communicator, rank, device FROM communicator_member",
        "id, communicator, seq, kind, bytes, dtype, root, peer, algorithm, protocol, emulated, "
        "modelled_ns FROM collective",
        "collective, rank, cmd FROM collective_member",
        "device, name, ts_ns, value FROM counter",
        "id, kind, severity, cmd_a, cmd_b, buffer, message, fix FROM finding",
        "cmd, op, device, stream, submission_ns, stream_wait_ns, dep_wait_ns, dispatch_ns, "
        "queued_ns, device_ns, sync_ns, total_ns FROM v_timing",
        "op, name, commands, unlinked, submission_ns, stream_wait_ns, dep_wait_ns, dispatch_ns, "
        "queued_ns, device_ns, sync_ns, total_ns FROM v_op_timing",
    };
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
        char sql[400];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM (SELECT %s)", promised[i]);
        assert_true(trace_query_int(f->path, sql) >= 0);
    }
    assert_int_equal(trace_query_int(f->path, "PRAGMA user_version"), ORR_TRACE_SCHEMA_VERSION);
    assert_int_equal(trace_query_int(f->path, "PRAGMA application_id"), ORR_TRACE_APPLICATION_ID);
}

/* One row for every word of every list, in the order of the enum, against the C functions. */
static void views_say_the_same_words_as_the_library(void **state) {
    struct trace_fixture *f = *state;
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    char expected[600] = "";
    for (uint8_t i = 0; i < ORR_COMMAND_KIND_COUNT; i++) {
        struct orr_record_command r = {.header = ORR_RECORD_HEADER(command, COMMAND), .id = i + 1u};
        r.header.a = i;
        r.header.b = i < ORR_DTYPE_COUNT ? i : (uint8_t)ORR_DTYPE_NONE;
        r.header.c = i % ORR_COMMAND_STATUS_COUNT;
        r.header.d = i % 2;
        orr_record_push(&sink->writer, &r);
        char *end = expected + strlen(expected);
        snprintf(end, sizeof expected - (size_t)(end - expected), "%s/%s/%s/%s ",
                 orr_command_kind_text((enum orr_command_kind)i),
                 orr_command_status_text((enum orr_command_status)r.header.c),
                 i < ORR_DTYPE_COUNT ? orr_dtype_name((enum orr_dtype)i) : "-",
                 i % 2 ? "matrix" : "vector");
    }
    for (uint8_t i = 0; i < ORR_EDGE_KIND_COUNT; i++) {
        struct orr_record_edge r = {
            .header = ORR_RECORD_HEADER(edge, EDGE), .src = 1, .dst = i + 1u};
        r.header.a = i;
        orr_record_push(&sink->writer, &r);
        strcat(strcat(expected, orr_edge_kind_text((enum orr_edge_kind)i)), " ");
    }
    for (uint8_t i = 1; i <= 3; i++) {
        struct orr_record_access r = {.header = ORR_RECORD_HEADER(access, ACCESS), .cmd = 1};
        r.header.a = i;
        orr_record_push(&sink->writer, &r);
    }
    strcat(expected, "r w rw");
    for (uint8_t i = 0; i < ORR_ROLE_COUNT; i++) {
        struct orr_record_buffer buffer = {.header = ORR_RECORD_HEADER(buffer, BUFFER),
                                           .id = i + 1u};
        struct orr_record_buffer_role role = {.header = ORR_RECORD_HEADER(buffer_role, BUFFER_ROLE),
                                              .id = i + 1u};
        buffer.header.a = i;
        role.header.a = i;
        orr_record_push(&sink->writer, &buffer);
        orr_record_push(&sink->writer, &role);
        char *end = expected + strlen(expected);
        const char *text = orr_role_text((enum orr_role)i);
        snprintf(end, sizeof expected - (size_t)(end - expected), " %s/%s", text, text);
    }
    trace_close_sink(f, sink);
    char *text =
        trace_query_text(f->path, "SELECT (SELECT group_concat(kind || '/' || status || '/' || "
                                  "coalesce(dtype, '-') || '/' || unit, ' ') FROM cmd) || ' ' || "
                                  "(SELECT group_concat(kind, ' ') FROM edge) || ' ' || "
                                  "(SELECT group_concat(mode, ' ') FROM access) || ' ' || "
                                  "(SELECT group_concat(b.role || '/' || r.role, ' ') "
                                  "FROM buffer AS b JOIN buffer_role AS r ON r.buffer = b.id)");
    assert_string_equal(text, expected);
    free(text);
}

static void sync_says_what_the_host_waited_for(void **state) {
    struct trace_fixture *f = *state;
    uint32_t compute, event;
    assert_int_equal(orr_names_intern(f->names, "compute", 7, &compute), ORR_OK);
    assert_int_equal(orr_names_intern(f->names, "e1", 2, &event), ORR_OK);
    struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
    struct orr_record_stream streams[] = {
        {.header = ORR_RECORD_HEADER(stream, STREAM), .id = 4, .device = 2, .name = compute},
        {.header = ORR_RECORD_HEADER(stream, STREAM), .id = 5, .device = 2},
    };
    orr_record_push(&sink->writer, &streams[0]);
    orr_record_push(&sink->writer, &streams[1]);
    static const struct {
        enum orr_sync_kind kind;
        uint32_t target;
    } waits[] = {{ORR_SYNC_STREAM, 4},
                 {ORR_SYNC_STREAM, 5},
                 {ORR_SYNC_STREAM, 6},
                 {ORR_SYNC_DEVICE, 2},
                 {ORR_SYNC_FUTURE, 0}};
    for (uint64_t i = 0; i < 6; i++) {
        struct orr_record_sync r = {.header = ORR_RECORD_HEADER(sync, SYNC), .id = i + 1};
        r.header.a = (uint8_t)(i < 5 ? waits[i].kind : ORR_SYNC_EVENT);
        r.target = i < 5 ? waits[i].target : event;
        orr_record_push(&sink->writer, &r);
    }
    trace_close_sink(f, sink);
    static const char expected[] = "stream compute of device 2, stream 5 of device 2, stream 6, "
                                   "device 2, future, event e1";
    char *text = trace_query_text(
        f->path, "SELECT group_concat(target, ', ') FROM (SELECT target FROM sync ORDER BY id)");
    assert_string_equal(text, expected);
    free(text);
    struct orr_timeline *timeline = trace_read(f, f->path);
    char joined[200] = "";
    for (size_t i = 0; i < timeline->sync_count; i++)
        strcat(strcat(joined, i ? ", " : ""), timeline->syncs[i].target);
    assert_string_equal(joined, expected);
    orr_timeline_destroy(&timeline);
}

static void write_random_file(struct trace_fixture *f, const char *path,
                              enum orr_sqlite_mode mode) {
    struct orr_names *names;
    assert_int_equal(orr_names_create(&f->memory.table, &names), ORR_OK);
    struct orr_sink *sink = trace_open_sink(f, path, mode);
    sink->names = names;
    trace_write_random(sink, names, 4711, 3000);
    trace_close_sink(f, sink);
    orr_names_destroy(&names);
}

static void same_records_give_the_same_file_with_and_without_a_thread(void **state) {
    struct trace_fixture *f = *state;
    char other[PATH_MAX];
    trace_path(other, f->folder, "other.db");
    write_random_file(f, f->path, ORR_SQLITE_INLINE);
    write_random_file(f, other, ORR_SQLITE_WAIT);
    size_t size, other_size;
    unsigned char *bytes = trace_read_file(f->path, &size);
    unsigned char *other_bytes = trace_read_file(other, &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(bytes, other_bytes, size);
    free(bytes);
    free(other_bytes);
}

/* -- The interval split ------------------------------------------------------------------------ */

enum { WORK_STREAMS = 4, WORK_DEVICES = 2, WORK_COMMANDS = 120, WORK_SYNCS = 30 };

struct work {
    struct orr_record_command commands[WORK_COMMANDS];
    struct orr_record_sync syncs[WORK_SYNCS];
};

/* A program on a few streams, with every kind of irregularity: commands without a call, clocks that
 * disagree, overlaps, commands that never ran, waits of every kind. */
static void make_work(struct work *work, uint64_t *random) {
    int64_t host = 0, ends[WORK_STREAMS] = {0};
    uint64_t seqs[WORK_STREAMS] = {0};
    size_t syncs = 0;
    for (size_t i = 0; i < WORK_COMMANDS; i++) {
        uint32_t stream = (uint32_t)(trace_random(random) % WORK_STREAMS);
        int64_t start = host + (int64_t)(trace_random(random) % 60);
        int64_t least = ends[stream] - (trace_random(random) % 10 == 0 ? 15 : 0);
        start = start > least ? start : least;
        start -= trace_random(random) % 12 == 0 ? 40 : 0;
        int64_t finish = start + (int64_t)(trace_random(random) % 90);
        struct orr_record_command *c = &work->commands[i];
        *c = (struct orr_record_command){
            .header = ORR_RECORD_HEADER(command, COMMAND),
            .id = i + 1,
            .op = trace_random(random) % 4,
            .seq = ++seqs[stream],
            .device = stream % WORK_DEVICES,
            .stream = trace_random(random) % 20 == 0 ? ORR_ID_NONE : stream,
            .enqueue_ns = trace_random(random) % 15 == 0 ? ORR_TIME_NONE : host,
            .enqueued_ns = trace_random(random) % 15 == 0 ? ORR_TIME_NONE : host + 5,
            .ready_ns = trace_random(random) % 6 == 0
                            ? ORR_TIME_NONE
                            : start - (int64_t)(trace_random(random) % 30) + 3,
            .start_ns = trace_random(random) % 20 == 0 ? ORR_TIME_NONE : start,
            .finish_ns = finish,
        };
        c->header.a = (uint8_t)(trace_random(random) % 7); /* kernel .. wait */
        ends[stream] = finish > ends[stream] ? finish : ends[stream];
        host += 5 + (int64_t)(trace_random(random) % 20);
        if (i % 4 == 3 && syncs < WORK_SYNCS) {
            uint8_t kind = (uint8_t)(trace_random(random) % ORR_SYNC_KIND_COUNT);
            uint32_t target = (uint32_t)(trace_random(random) % WORK_STREAMS);
            int64_t end = host + (int64_t)(trace_random(random) % 200);
            work->syncs[syncs] = (struct orr_record_sync){
                .header = ORR_RECORD_HEADER(sync, SYNC),
                .id = syncs + 1,
                .begin_ns = host,
                .end_ns = end,
                .cmd = 1 + trace_random(random) % (i + 1),
                .target = kind == ORR_SYNC_DEVICE ? target % WORK_DEVICES : target,
            };
            work->syncs[syncs++].header.a = kind;
            host = end;
        }
    }
}

static bool is_work(const struct orr_record_command *c) {
    return c->header.a <= ORR_COMMAND_FILL && c->start_ns != ORR_TIME_NONE &&
           c->finish_ns != ORR_TIME_NONE;
}

static bool observes(const struct work *work, const struct orr_record_sync *sync,
                     const struct orr_record_command *c) {
    if (sync->header.a == ORR_SYNC_STREAM || sync->header.a == ORR_SYNC_DEVICE) {
        uint32_t of = sync->header.a == ORR_SYNC_STREAM ? c->stream : c->device;
        return of != ORR_ID_NONE && sync->target == of && c->enqueue_ns != ORR_TIME_NONE &&
               sync->begin_ns >= c->enqueue_ns && sync->end_ns >= c->finish_ns;
    }
    const struct orr_record_command *seen = &work->commands[sync->cmd - 1];
    return c->stream != ORR_ID_NONE && seen->stream == c->stream && seen->seq >= c->seq;
}

static int64_t least_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* analysis of one command, straight from the definitions. */
static void split(const struct work *work, const struct orr_record_command *c, char *line) {
    int64_t p = INT64_MIN, a = c->enqueue_ns, s = c->start_ns, e = c->finish_ns;
    for (size_t i = 0; i < WORK_COMMANDS; i++) {
        const struct orr_record_command *o = &work->commands[i];
        if (is_work(o) && c->stream != ORR_ID_NONE && o->stream == c->stream && o->seq < c->seq)
            p = most_of(p, o->finish_ns);
    }
    char sync[24] = "-";
    for (size_t i = 0; i < WORK_SYNCS; i++) {
        const struct orr_record_sync *q = &work->syncs[i];
        if (!observes(work, q, c))
            continue;
        snprintf(sync, sizeof sync, "%lld", (long long)(q->end_ns - most_of(q->begin_ns, e)));
        break;
    }
    if (a == ORR_TIME_NONE || s < a) {
        sprintf(line, "%llu - - - - %lld %s -", (unsigned long long)c->id, (long long)(e - s),
                sync);
        return;
    }
    int64_t b = c->enqueued_ns == ORR_TIME_NONE ? a : c->enqueued_ns;
    int64_t x = least_of(b, s);
    int64_t y = p == INT64_MIN ? x : most_of(x, least_of(p, s));
    int64_t z = c->ready_ns == ORR_TIME_NONE ? y : most_of(y, least_of(c->ready_ns, s));
    assert_int_equal((x - a) + (y - x) + (z - y) + (s - z) + (e - s), e - a);
    sprintf(line, "%llu %lld %lld %lld %lld %lld %s %lld", (unsigned long long)c->id,
            (long long)(x - a), (long long)(y - x), (long long)(z - y), (long long)(s - z),
            (long long)(e - s), sync, (long long)(e - a));
}

static void timing_views_follow_the_definitions(void **state) {
    struct trace_fixture *f = *state;
    uint64_t random = trace_seed() * 31 + 5;
    for (int round = 0; round < 25; round++) {
        struct work work = {0};
        make_work(&work, &random);
        struct orr_sink *sink = trace_open_sink(f, f->path, ORR_SQLITE_INLINE);
        for (size_t i = 0; i < WORK_COMMANDS; i++)
            orr_record_push(&sink->writer, &work.commands[i]);
        for (size_t i = 0; i < WORK_SYNCS; i++)
            orr_record_push(&sink->writer, &work.syncs[i]);
        trace_close_sink(f, sink);
        static char expected[WORK_COMMANDS * 200];
        expected[0] = '\0';
        for (size_t i = 0; i < WORK_COMMANDS; i++) {
            char line[200];
            if (!is_work(&work.commands[i]))
                continue;
            split(&work, &work.commands[i], line);
            strcat(strcat(expected, line), "\n");
        }
        char *text = trace_query_text(
            f->path, "SELECT group_concat(line, '') FROM (SELECT cmd || ' ' || "
                     "coalesce(submission_ns, '-') || ' ' || coalesce(stream_wait_ns, '-') || ' ' "
                     "|| coalesce(dep_wait_ns, '-') || ' ' || coalesce(dispatch_ns, '-') || ' ' || "
                     "device_ns || ' ' || coalesce(sync_ns, '-') || ' ' || "
                     "coalesce(total_ns, '-') || char(10) AS line FROM v_timing ORDER BY cmd)");
        assert_string_equal(text, expected);
        free(text);
        assert_int_equal(trace_query_int(f->path,
                                         "SELECT (SELECT sum(total_ns) FROM v_op_timing) - "
                                         "(SELECT sum(total_ns) FROM v_timing)"),
                         0);
        assert_int_equal(
            trace_query_int(f->path, "SELECT count(*) FROM v_op_timing AS o WHERE device_ns <> "
                                     "(SELECT sum(device_ns) FROM v_timing WHERE op IS o.op) OR "
                                     "queued_ns <> stream_wait_ns + dep_wait_ns + dispatch_ns"),
            0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, trace_set_up, trace_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(memory_sink_keeps_every_record_in_order),
        CASE(null_sink_takes_any_number_of_records),
        CASE(texts_of_kinds_are_those_of_the_lists),
        CASE(every_kind_of_record_comes_back_from_the_database),
        CASE(files_of_older_versions_are_read),
        CASE(counts_beyond_int64_are_stored_as_its_maximum),
        CASE(counters_may_be_no_number_or_infinite),
        CASE(an_id_that_is_used_twice_is_named),
        CASE(lookup_by_id_finds_what_is_there_and_nothing_else),
        CASE(sorting_is_stable_whatever_the_order),
        CASE(database_has_the_promised_columns),
        CASE(views_say_the_same_words_as_the_library),
        CASE(sync_says_what_the_host_waited_for),
        CASE(same_records_give_the_same_file_with_and_without_a_thread),
        CASE(timing_views_follow_the_definitions),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
