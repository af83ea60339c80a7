/* Recorded programs on simulated devices, to the nanosecond; tests/test_cpu_program.c compares
 * their numbers with eager runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program.h"
#include "runtime/runtime_internal.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { KB = 1024, GRAPH_NS = 5000, SYNC_NS = 1000, EVENT_NS = 500, LAUNCH_NS = 5000 };

struct machine {
    struct fixture f;
    struct orr_runtime *runtime;
    struct orr_stream *a, *b; /* compute streams of devices 0 and 1 */
    struct orr_stream *side;  /* communicate stream of device 0 */
};

static void start(struct machine *m) {
    fixture_start(&m->f);
    m->runtime = m->f.runtime;
    m->a = orr_device_stream(m->runtime, 0, ORR_STREAM_COMPUTE);
    m->b = orr_device_stream(m->runtime, 1, ORR_STREAM_COMPUTE);
    m->side = orr_device_stream(m->runtime, 0, ORR_STREAM_COMMUNICATE);
    assert_non_null(m->a);
    assert_non_null(m->b);
    assert_non_null(m->side);
}

static void prepare(struct machine *m) {
    fixture_prepare(&m->f, orr_sim_open, 2);
    for (int i = 0; i < 2; i++)
        m->f.specs[i].host_graph_ns = GRAPH_NS;
}

static void open_machine(struct machine *m) {
    prepare(m);
    start(m);
}

static void close_machine(struct machine *m) {
    fixture_close(&m->f);
}

static void ok(const struct machine *m, enum orr_status status) {
    if (status != ORR_OK)
        print_message("%s: %s\n", orr_status_text(status), fixture_error(&m->f));
    assert_int_equal(status, ORR_OK);
}

static void fails(const struct machine *m, enum orr_status status, enum orr_status expected,
                  const char *says) {
    assert_int_equal(status, expected);
    if (!strstr(fixture_error(&m->f), says))
        fail_msg("'%s' does not say '%s'", fixture_error(&m->f), says);
}

static struct orr_program *begin(struct machine *m) {
    struct orr_program *program;
    ok(m, orr_program_begin(m->runtime, &program));
    return program;
}

/* A kernel of exactly `ns` without memory. */
static struct orr_point work(struct machine *m, struct orr_stream *stream, const char *name,
                             int64_t ns) {
    struct orr_kernel kernel = {
        .name = name, .dtype = ORR_DTYPE_NONE, .submit_ns = -1, .service_ns = ns};
    struct orr_point point;
    ok(m, orr_stream_kernel(stream, &kernel, &point));
    return point;
}

/* The `index`-th command record of a name, from 0, in the order of ids. */
static const struct orr_record_command *named(const struct machine *m, const char *name,
                                              size_t index) {
    const struct orr_record_command *found = NULL;
    uint64_t after = 0;
    for (size_t k = 0; k <= index; k++) {
        found = NULL;
        for (size_t i = 0; i < record_count(&m->f, ORR_RECORD_COMMAND); i++) {
            const struct orr_record_command *c = record_at(&m->f, ORR_RECORD_COMMAND, i);
            const char *text = name_text(&m->f, c->name);
            size_t length = strlen(name); /* "record" also finds "record e1" */
            if (c->id > after && (!found || c->id < found->id) &&
                strncmp(text, name, length) == 0 && (text[length] == ' ' || text[length] == '\0'))
                found = c;
        }
        if (!found)
            fail_msg("there is no command '%s' number %zu", name, index);
        after = found->id;
    }
    return found;
}

static void assert_times(const struct orr_record_command *c, int64_t enqueue_ns,
                         int64_t enqueued_ns, int64_t start_ns, int64_t finish_ns) {
    assert_int_equal(c->enqueue_ns, enqueue_ns);
    assert_int_equal(c->enqueued_ns, enqueued_ns);
    assert_int_equal(c->start_ns, start_ns);
    assert_int_equal(c->finish_ns, finish_ns);
}

static struct orr_event *new_event(struct machine *m) {
    struct orr_event *event;
    ok(m, orr_event_create(m->runtime, NULL, &event));
    return event;
}

static struct orr_buffer *buffer(struct machine *m, struct orr_stream *stream, uint64_t bytes) {
    struct orr_buffer *buffer;
    ok(m, orr_buffer_alloc(stream, bytes, "buffer", &buffer));
    return buffer;
}

static struct orr_buffer *host_buffer(struct machine *m, uint64_t bytes) {
    struct orr_buffer *buffer;
    ok(m, orr_buffer_alloc_host(m->runtime, bytes, "host", &buffer));
    return buffer;
}

/* --- time --- */

static void a_captured_chain_costs_one_host_call_and_runs_back_to_back(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    int64_t t = orr_runtime_now(m.runtime);
    work(&m, m.a, "k1", 1000);
    work(&m, m.a, "k2", 2000);
    work(&m, m.a, "k3", 3000);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_runtime_now(m.runtime), t);
    assert_int_equal(record_count(&m.f, ORR_RECORD_COMMAND), 0);
    ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS);
    ok(&m, orr_stream_sync(m.a));
    assert_times(named(&m, "graph launch", 0), t, t + 5000, t + 5000, t + 5000);
    assert_times(named(&m, "k1", 0), t, t + 5000, t + 5000, t + 6000);
    assert_times(named(&m, "k2", 0), t, t + 5000, t + 6000, t + 8000);
    assert_times(named(&m, "k3", 0), t, t + 5000, t + 8000, t + 11000);
    assert_int_equal(orr_runtime_now(m.runtime), t + 11000 + SYNC_NS);
    assert_int_equal(named(&m, "graph launch", 0)->header.a, ORR_COMMAND_GRAPH);
    assert_int_equal(record_count(&m.f, ORR_RECORD_COMMAND), 4); /* one stream needs no join */
    orr_program_destroy(&program);
    assert_null(program);
    close_machine(&m);
}

static void nodes_of_one_stream_keep_the_node_gap_and_records_and_joins_take_none(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    for (int i = 0; i < 2; i++) {
        m.f.specs[i].graph_node_ns = 300;
        m.f.specs[i].launch_latency_ns = 700;
    }
    start(&m);
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k1", 1000);
    ok(&m, orr_event_record(event, m.a));
    work(&m, m.a, "k2", 1000);
    ok(&m, orr_stream_wait(m.b, event));
    work(&m, m.b, "k3", 1000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_runtime_finish(m.runtime));
    assert_int_equal(named(&m, "graph launch", 0)->finish_ns, t + 5000);
    assert_int_equal(named(&m, "k1", 0)->start_ns, t + 5700); /* latency, longer than the gap */
    assert_int_equal(named(&m, "record", 0)->start_ns, t + 6700);
    assert_int_equal(named(&m, "k2", 0)->start_ns, t + 7000); /* gap */
    assert_int_equal(named(&m, "wait", 0)->finish_ns, t + 6700);
    assert_int_equal(named(&m, "k3", 0)->start_ns, t + 7000);
    assert_int_equal(named(&m, "graph join", 0)->finish_ns, t + 8000);
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_launch_forks_to_other_streams_and_joins_them(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "short", 1000);
    work(&m, m.b, "long", 30000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    work(&m, m.side, "before", 20000);           /* t + 5,000 to t + 25,000 */
    ok(&m, orr_program_launch(program, m.side)); /* t + 5,000 to t + 10,000 */
    work(&m, m.side, "after", 1000);
    ok(&m, orr_runtime_finish(m.runtime));
    const struct orr_record_command *graph = named(&m, "graph launch", 0);
    assert_times(graph, t + 5000, t + 10000, t + 25000, t + 25000);
    assert_times(named(&m, "short", 0), t + 5000, t + 10000, t + 25000, t + 26000);
    assert_times(named(&m, "long", 0), t + 5000, t + 10000, t + 25000, t + 55000);
    assert_times(named(&m, "after", 0), t + 10000, t + 15000, t + 55000, t + 56000);
    const struct orr_record_command *join = named(&m, "graph join", 0);
    assert_int_equal(join->header.a, ORR_COMMAND_MARKER);
    assert_int_equal(join->stream, orr_stream_id(m.side));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, graph->id, named(&m, "short", 0)->id));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, graph->id, named(&m, "long", 0)->id));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "short", 0)->id, join->id));
    assert_true(has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "long", 0)->id, join->id));
    orr_program_destroy(&program);
    close_machine(&m);
}

static void waits_inside_the_region_hold_in_every_launch(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "produce", 40000);
    ok(&m, orr_event_record(event, m.a));
    ok(&m, orr_stream_wait(m.b, event));
    work(&m, m.b, "consume", 1000);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_program_command_count(program), 4);
    struct orr_program_command wait = orr_program_at(program, 2);
    assert_int_equal(wait.kind, ORR_COMMAND_WAIT);
    assert_ptr_equal(wait.stream, m.b);
    assert_int_equal(wait.wait_count, 1);
    assert_int_equal(wait.waits[0], 1);
    assert_int_equal(orr_program_at(program, 0).wait_count, 0);
    assert_string_equal(orr_program_at(program, 3).name, "consume");
    for (int i = 0; i < 3; i++)
        ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_program_launch_count(program), 3);
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 3; i++) {
        int64_t produced_ns = named(&m, "produce", i)->finish_ns;
        assert_int_equal(named(&m, "consume", i)->start_ns, produced_ns);
        assert_true(
            has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "record", i)->id, named(&m, "wait", i)->id));
        if (i > 0) /* launches on one stream follow each other */
            assert_int_equal(named(&m, "produce", i)->start_ns,
                             named(&m, "consume", i - 1)->finish_ns);
    }
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_wait_for_a_point_from_before_the_region_holds_for_the_first_launch(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_event *event = new_event(&m);
    work(&m, m.b, "outside", 80000);
    ok(&m, orr_event_record(event, m.b));
    struct orr_program *program = begin(&m);
    ok(&m, orr_stream_wait(m.a, event));
    work(&m, m.a, "inside", 1000);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_program_at(program, 0).wait_count, 0);
    ok(&m, orr_program_launch(program, m.a));
    work(&m, m.b, "later", 900000);
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t outside_ns = named(&m, "outside", 0)->finish_ns;
    assert_int_equal(named(&m, "inside", 0)->start_ns, outside_ns);
    assert_int_equal(named(&m, "inside", 1)->start_ns, outside_ns + 1000);
    assert_true(
        has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "record", 0)->id, named(&m, "wait", 0)->id));
    assert_false(
        has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "record", 0)->id, named(&m, "wait", 1)->id));
    orr_program_destroy(&program);
    close_machine(&m);
}

static void two_launches_on_different_streams_do_not_overlap(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k", 50000);
    ok(&m, orr_program_end(program));
    struct orr_program *empty = begin(&m);
    ok(&m, orr_program_end(empty));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_program_launch(program, m.b));
    ok(&m, orr_program_launch(empty, m.b));
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t first_ns = named(&m, "k", 0)->finish_ns;
    assert_int_equal(named(&m, "graph launch", 1)->start_ns, first_ns);
    assert_int_equal(named(&m, "k", 1)->start_ns, first_ns);
    assert_int_equal(named(&m, "graph launch", 2)->start_ns, first_ns + 50000);
    assert_true(
        has_edge(&m.f, ORR_EDGE_EVENT, named(&m, "k", 0)->id, named(&m, "graph launch", 1)->id));
    orr_program_destroy(&program);
    orr_program_destroy(&empty);
    close_machine(&m);
}

static void a_full_queue_blocks_the_launching_call_and_nothing_is_lost(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    m.f.specs[0].queue_depth = 4;
    start(&m);
    struct orr_program *program = begin(&m);
    for (int i = 0; i < 12; i++)
        work(&m, m.a, "k", 10000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a));
    /* 8 of 12 must be over before the last one finds a place. */
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS + 80000 + SYNC_NS);
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(named(&m, "k", i)->enqueue_ns, t); /* still one call */
        assert_int_equal(named(&m, "k", i)->start_ns, t + GRAPH_NS + 10000 * (int64_t)i);
    }
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_dispatch_host_makes_the_call_where_there_is_one(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    m.f.config.runner = ORR_RUNNER_PER_DEVICE;
    start(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k1", 1000);
    work(&m, m.a, "k2", 1000);
    work(&m, m.b, "k3", 1000);
    ok(&m, orr_program_end(program));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_runtime_now(m.runtime), t + 1); /* one hand-over */
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t g = t + 1;
    assert_times(named(&m, "graph launch", 0), g, g + 5000, g + 5000, g + 5000);
    assert_times(named(&m, "k1", 0), g, g + 5000, g + 5000, g + 6000);
    assert_times(named(&m, "k2", 0), g, g + 5000, g + 6000, g + 7000);
    assert_times(named(&m, "k3", 0), g, g, g + 5000, g + 6000);
    assert_int_equal(named(&m, "k2", 0)->host, named(&m, "graph launch", 0)->host);
    orr_program_destroy(&program);
    close_machine(&m);
}

/* --- what is recorded --- */

static void a_collective_is_replayed_as_a_group_with_its_own_numbers(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    const uint32_t devices[2] = {0, 1};
    struct orr_communicator *pair;
    ok(&m, orr_communicator_create(m.runtime, "pair", devices, 2, &pair));
    struct orr_stream *streams[2] = {m.a, m.b};
    struct orr_buffer *of[2] = {buffer(&m, m.a, 4 * KB), buffer(&m, m.b, 4 * KB)};
    struct orr_piece pieces[2] = {{of[0], 0}, {of[1], 0}};
    for (int i = 0; i < 2; i++)
        ok(&m, orr_stream_fill(streams[i], of[i], 0, 4 * KB, 0x3f)); /* 0x3f3f3f3f = 0.747 */
    struct orr_program *program = begin(&m);
    ok(&m, orr_collective_enqueue(pair, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_F32, KB, 0, streams,
                                  pieces, pieces, "sum", 0, NULL));
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_program_command_count(program), 2);
    assert_int_equal(record_count(&m.f, ORR_RECORD_COLLECTIVE), 0);
    ok(&m, orr_program_launch(program, m.side));
    ok(&m, orr_program_launch(program, m.side));
    struct orr_buffer *host = host_buffer(&m, 4 * KB);
    ok(&m, orr_stream_copy(m.a, host, 0, of[0], 0, 4 * KB));
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 2; i++) {
        const struct orr_record_command *first = named(&m, "sum", 2 * i);
        const struct orr_record_command *second = named(&m, "sum", 2 * i + 1);
        assert_int_equal(first->finish_ns, second->finish_ns);
        assert_true(first->device != second->device);
        assert_int_equal(first->header.c, ORR_COMMAND_STATUS_OK);
        const struct orr_record_collective *c = record_at(&m.f, ORR_RECORD_COLLECTIVE, i);
        assert_int_equal(c->seq, i);
        assert_int_equal(c->bytes, 4 * KB);
        const struct orr_record_collective_member *member =
            record_at(&m.f, ORR_RECORD_COLLECTIVE_MEMBER, 2 * i + 1);
        assert_int_equal(member->cmd, second->id);
    }
    assert_true(named(&m, "sum", 2)->start_ns >= named(&m, "sum", 0)->finish_ns);
    float value;
    ok(&m, orr_buffer_read(host, 0, &value, sizeof value, -1));
    const uint32_t bits = 0x3f3f3f3f;
    float before;
    memcpy(&before, &bits, sizeof before);
    assert_true(value == 4 * before); /* doubled twice */
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_replay_reads_what_its_inputs_hold_then(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_buffer *in = host_buffer(&m, 64), *out = host_buffer(&m, 64);
    struct orr_buffer *middle = buffer(&m, m.a, 64);
    struct orr_program *program = begin(&m);
    ok(&m, orr_stream_copy(m.a, middle, 0, in, 0, 64));
    ok(&m, orr_stream_copy(m.a, out, 0, middle, 0, 64));
    ok(&m, orr_program_end(program));
    for (int i = 1; i <= 3; i++) {
        char bytes[64], seen[64];
        memset(bytes, i, sizeof bytes);
        ok(&m, orr_buffer_write(in, 0, bytes, 64, -1));
        ok(&m, orr_program_launch(program, m.a));
        ok(&m, orr_stream_sync(m.a));
        ok(&m, orr_buffer_read(out, 0, seen, 64, -1));
        assert_memory_equal(seen, bytes, 64);
    }
    orr_program_destroy(&program);
    close_machine(&m);
}

struct counted {
    int runs, releases;
    float *at;
};

static enum orr_status run_counted(void *context, struct orr_error *error) {
    (void)error;
    struct counted *counted = context;
    counted->runs++;
    return ORR_OK;
}

static void release_counted(void *context) {
    ((struct counted *)context)->releases++;
}

static enum orr_status run_failing(void *context, struct orr_error *error) {
    return ((struct counted *)context)->runs++ == 0
               ? ORR_OK
               : orr_error_set(error, ORR_DEVICE_FAILED, "the second run fails");
}

static void counted_kernel(struct machine *m, struct orr_stream *stream, struct counted *counted,
                           orr_kernel_run run) {
    struct orr_kernel kernel = {.name = "counted",
                                .dtype = ORR_DTYPE_NONE,
                                .submit_ns = -1,
                                .service_ns = 10000,
                                .run = run,
                                .work = counted,
                                .release = release_counted};
    ok(m, orr_stream_kernel(stream, &kernel, NULL));
}

static void work_runs_once_a_launch_and_is_released_with_the_program(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct counted counted = {0};
    struct orr_program *program = begin(&m);
    counted_kernel(&m, m.a, &counted, run_counted);
    ok(&m, orr_program_end(program));
    for (int i = 1; i <= 3; i++) {
        ok(&m, orr_program_launch(program, m.a));
        ok(&m, orr_stream_sync(m.a));
        assert_int_equal(counted.runs, i);
        assert_int_equal(counted.releases, 0);
    }
    orr_program_destroy(&program);
    assert_int_equal(counted.releases, 1);
    close_machine(&m);
}

static void a_program_destroyed_under_way_ends_when_its_last_launch_has(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct counted counted = {0};
    struct orr_buffer *scratch = buffer(&m, m.b, KB);
    uint64_t allocated = orr_device_memory(m.runtime, 1).allocated;
    struct orr_program *program = begin(&m);
    counted_kernel(&m, m.a, &counted, run_counted);
    ok(&m, orr_stream_fill(m.b, scratch, 0, KB, 1));
    ok(&m, orr_program_end(program));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_program_launch(program, m.a));
    orr_buffer_free(&scratch);
    orr_program_destroy(&program);
    assert_int_equal(counted.runs, 0);
    assert_int_equal(counted.releases, 0);
    assert_int_equal(orr_device_memory(m.runtime, 1).allocated, allocated);
    assert_int_equal(record_count(&m.f, ORR_RECORD_BUFFER_FREE), 0);
    ok(&m, orr_runtime_finish(m.runtime));
    assert_int_equal(counted.runs, 2);
    assert_int_equal(counted.releases, 1);
    assert_int_equal(orr_device_memory(m.runtime, 1).allocated, allocated - KB);
    assert_int_equal(record_count(&m.f, ORR_RECORD_BUFFER_FREE), 1);
    close_machine(&m);
}

static void a_buffer_freed_in_the_region_stays_the_programs(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_buffer *host = host_buffer(&m, KB);
    struct orr_program *program = begin(&m);
    struct orr_buffer *inside = buffer(&m, m.a, KB);
    uint64_t id = orr_buffer_id(inside);
    ok(&m, orr_stream_fill(m.a, inside, 0, KB, 7));
    ok(&m, orr_stream_copy(m.a, host, 0, inside, 0, KB));
    struct orr_buffer *stale = inside;
    orr_buffer_free(&inside);
    fails(&m, orr_stream_fill(m.a, stale, 0, KB, 8), ORR_INVALID, "freed");
    ok(&m, orr_program_end(program));
    const struct orr_buffer *kept = orr_program_at(program, 0).buffers[0];
    assert_int_equal(orr_buffer_id(kept), id);
    /* Nobody else gets its bytes. */
    struct orr_buffer *other = buffer(&m, m.a, KB);
    assert_ptr_not_equal(orr_buffer_pointer(other), orr_buffer_pointer(kept));
    ok(&m, orr_stream_fill(m.a, other, 0, KB, 9));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_stream_sync(m.a));
    unsigned char byte;
    ok(&m, orr_buffer_read(host, 5, &byte, 1, -1));
    assert_int_equal(byte, 7);
    assert_int_equal(((unsigned char *)orr_buffer_pointer(other))[0], 9);
    orr_buffer_free(&other);
    void *bytes = orr_buffer_pointer(kept);
    orr_program_destroy(&program);
    struct orr_buffer *again[2] = {buffer(&m, m.a, KB), buffer(&m, m.a, KB)};
    assert_true(orr_buffer_pointer(again[0]) == bytes || orr_buffer_pointer(again[1]) == bytes);
    close_machine(&m);
}

static void a_failure_in_a_replay_is_the_streams_failure(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct counted counted = {0};
    struct orr_program *program = begin(&m);
    counted_kernel(&m, m.b, &counted, run_failing);
    ok(&m, orr_program_end(program));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_stream_sync(m.a));
    ok(&m, orr_program_launch(program, m.a));
    fails(&m, orr_stream_sync(m.a), ORR_DEVICE_FAILED, "the second run fails");
    assert_int_equal(named(&m, "counted", 1)->header.c, ORR_COMMAND_STATUS_FAILED);
    assert_int_equal(named(&m, "graph join", 1)->header.c, ORR_COMMAND_STATUS_SKIPPED);
    orr_program_destroy(&program);
    assert_int_equal(counted.releases, 1);
    close_machine(&m);
}

static void recording_an_operator_costs_the_host_nothing(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    int64_t t = orr_runtime_now(m.runtime);
    struct orr_program *program = begin(&m);
    orr__runtime_operator_begin(m.runtime, 0, -1);
    work(&m, m.a, "k", 1000);
    orr__runtime_operator_end(m.runtime, true);
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_runtime_now(m.runtime), t);
    ok(&m, orr_program_launch(program, m.a));
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS);
    orr_program_destroy(&program);
    close_machine(&m);
}

static void nodes_keep_the_site_of_their_recording(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    ok(&m, orr_runtime_set_caller(m.runtime, 0, "model.lua:3"));
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k", 1000);
    ok(&m, orr_program_end(program));
    ok(&m, orr_runtime_set_caller(m.runtime, 0, "train.lua:9"));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_stream_sync(m.a));
    assert_string_equal(name_text(&m.f, named(&m, "k", 0)->site), "model.lua:3");
    assert_string_equal(name_text(&m.f, named(&m, "graph launch", 0)->site), "train.lua:9");
    orr_program_destroy(&program);
    close_machine(&m);
}

/* --- what is refused --- */

static void a_host_wait_inside_is_unsupported_and_names_its_site(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_event *event = new_event(&m);
    struct orr_buffer *host = host_buffer(&m, 64);
    char bytes[64] = {0};
    ok(&m, orr_buffer_write(host, 0, bytes, 64, -1));
    work(&m, m.a, "outside", 1000);
    ok(&m, orr_event_record(event, m.a));
    size_t syncs = record_count(&m.f, ORR_RECORD_SYNC);
    ok(&m, orr_runtime_set_caller(m.runtime, 0, "step.lua:10"));
    struct orr_program *program = begin(&m);
    work(&m, m.a, "inside", 1000);
    ok(&m, orr_runtime_set_caller(m.runtime, 0, "step.lua:12"));
    const char *says = "step.lua:12: operation not permitted when stream is capturing (code 900)";
    fails(&m, orr_stream_sync(m.a), ORR_UNSUPPORTED, says);
    fails(&m, orr_stream_sync(m.b), ORR_UNSUPPORTED, says);
    fails(&m, orr_stream_query(m.a), ORR_UNSUPPORTED, says);
    fails(&m, orr_device_sync(m.runtime, 0), ORR_UNSUPPORTED, says);
    fails(&m, orr_event_sync(event), ORR_UNSUPPORTED, says);
    fails(&m, orr_event_query(event), ORR_UNSUPPORTED, says);
    fails(&m, orr_buffer_read(host, 0, bytes, 64, -1), ORR_UNSUPPORTED, says);
    fails(&m, orr_runtime_finish(m.runtime), ORR_UNSUPPORTED, "since step.lua:10");
    assert_int_equal(record_count(&m.f, ORR_RECORD_SYNC), syncs);
    work(&m, m.a, "inside", 1000); /* the region goes on */
    ok(&m, orr_program_end(program));
    assert_int_equal(orr_program_command_count(program), 2);
    ok(&m, orr_stream_sync(m.a));
    orr_program_destroy(&program);
    close_machine(&m);
}

static void an_event_last_recorded_inside_is_of_no_use_outside(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    struct orr_point point = work(&m, m.a, "k", 1000);
    ok(&m, orr_event_record(event, m.a));
    ok(&m, orr_program_end(program));
    ok(&m, orr_program_launch(program, m.a));
    ok(&m, orr_stream_sync(m.a));
    const char *says = "operation not permitted on an event last recorded in a capturing stream "
                       "(code 907)";
    fails(&m, orr_stream_wait(m.b, event), ORR_INVALID, says);
    fails(&m, orr_stream_wait_point(m.b, point), ORR_INVALID, says);
    fails(&m, orr_event_sync(event), ORR_INVALID, says);
    fails(&m, orr_event_query(event), ORR_INVALID, says);
    struct orr_program *other = begin(&m);
    fails(&m, orr_stream_wait(m.b, event), ORR_INVALID, says);
    assert_int_equal(orr_program_command_count(other), 0);
    orr_program_destroy(&other);
    orr_program_destroy(&program);
    fails(&m, orr_stream_wait(m.b, event), ORR_INVALID, "of a recorded program");
    ok(&m, orr_event_record(event, m.a)); /* a new record makes it good */
    ok(&m, orr_stream_wait(m.b, event));
    ok(&m, orr_event_sync(event));
    close_machine(&m);
}

static void regions_do_not_nest_and_programs_are_launched_between_them(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    assert_false(orr_runtime_is_capturing(m.runtime));
    ok(&m, orr_runtime_set_caller(m.runtime, 0, "a.lua:1"));
    struct orr_program *program = begin(&m), *second;
    assert_true(orr_runtime_is_capturing(m.runtime));
    fails(&m, orr_program_begin(m.runtime, &second), ORR_INVALID, "since a.lua:1");
    assert_null(second);
    fails(&m, orr_program_launch(program, m.a), ORR_INVALID, "not been ended");
    work(&m, m.a, "k", 1000);
    ok(&m, orr_program_end(program));
    assert_false(orr_runtime_is_capturing(m.runtime));
    fails(&m, orr_program_end(program), ORR_INVALID, "not being recorded");
    second = begin(&m);
    fails(&m, orr_program_launch(program, m.a), ORR_UNSUPPORTED, "another one is being recorded");
    ok(&m, orr_program_end(second));
    ok(&m, orr_program_launch(program, m.a));
    orr_program_destroy(&program);
    orr_program_destroy(&second);
    orr_program_destroy(&second); /* NULL by now */
    close_machine(&m);
}

static void a_program_does_not_outlive_its_streams_and_communicators(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    const uint32_t devices[2] = {0, 1};
    struct orr_communicator *pair, *unused;
    ok(&m, orr_communicator_create(m.runtime, "unused", devices, 2, &unused));
    ok(&m, orr_communicator_create(m.runtime, "pair", devices, 2, &pair));
    struct orr_stream *streams[2] = {m.a, m.b}, *own;
    ok(&m, orr_stream_create(m.runtime, 0, ORR_STREAM_COMPUTE, "own", &own));
    struct orr_program *grouped = begin(&m);
    ok(&m, orr_collective_enqueue(pair, ORR_COLLECTIVE_BARRIER, ORR_DTYPE_NONE, 0, 0, streams, NULL,
                                  NULL, NULL, 0, NULL));
    ok(&m, orr_program_end(grouped));
    struct orr_program *program = begin(&m);
    work(&m, own, "k", 1000);
    ok(&m, orr_program_end(program));
    orr_communicator_destroy(&unused);
    ok(&m, orr_program_launch(grouped, m.a));
    ok(&m, orr_program_launch(program, m.a));
    struct orr_stream *gone = own;
    orr_stream_destroy(&own);
    orr_communicator_destroy(&pair);
    fails(&m, orr_program_launch(program, m.a), ORR_INVALID, "a stream that was destroyed");
    fails(&m, orr_program_launch(grouped, gone), ORR_INVALID, "on a stream that was destroyed");
    fails(&m, orr_program_launch(grouped, m.a), ORR_INVALID, "communicator that was destroyed");
    ok(&m, orr_runtime_finish(m.runtime));
    orr_program_destroy(&program);
    orr_program_destroy(&grouped);
    close_machine(&m);
}

/* --- several hosts --- */

static void only_calls_of_the_host_that_began_are_recorded(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    uint32_t other;
    ok(&m, orr_runtime_add_host(m.runtime, "other", &other));
    struct orr_event *event = new_event(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "recorded", 1000);
    ok(&m, orr_event_record(event, m.a));
    ok(&m, orr_runtime_set_caller(m.runtime, other, NULL));
    assert_false(orr_runtime_is_capturing(m.runtime));
    orr_runtime_host_done(m.runtime, 0);
    work(&m, m.a, "live", 1000);
    fails(&m, orr_stream_wait(m.b, event), ORR_INVALID, "code 907");
    fails(&m, orr_program_end(program), ORR_INVALID, "code 908");
    ok(&m, orr_stream_sync(m.a));
    assert_int_equal(orr_program_command_count(program), 2);
    assert_int_equal(named(&m, "live", 0)->host, other);
    orr_program_destroy(&program); /* while it is open */
    struct orr_program *next = begin(&m);
    ok(&m, orr_program_end(next));
    orr_program_destroy(&next);
    close_machine(&m);
}

static void a_launch_is_one_call_though_another_host_is_earlier_by_then(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct orr_program *program = begin(&m);
    work(&m, m.a, "k1", 1000);
    work(&m, m.b, "k2", 1000);
    ok(&m, orr_program_end(program));
    uint32_t other, next;
    ok(&m, orr_runtime_add_host(m.runtime, "other", &other));
    int64_t t = orr_runtime_now(m.runtime);
    ok(&m, orr_program_launch(program, m.a)); /* t to t + 5,000; the other host is at t */
    assert_int_equal(orr_program_launch_count(program), 1);
    assert_int_equal(orr_program_launch(program, m.a), ORR_BLOCKED); /* nothing happened */
    ok(&m, orr_runtime_next_host(m.runtime, &next));
    assert_int_equal(next, other);
    ok(&m, orr_runtime_set_caller(m.runtime, other, NULL));
    ok(&m, orr_program_launch(program, m.b)); /* by the other one, from t too */
    assert_int_equal(orr_runtime_now(m.runtime), t + GRAPH_NS);
    orr_runtime_host_done(m.runtime, other);
    ok(&m, orr_runtime_set_caller(m.runtime, 0, NULL));
    ok(&m, orr_runtime_finish(m.runtime));
    assert_times(named(&m, "k1", 0), t, t + 5000, t + 5000, t + 6000);
    assert_times(named(&m, "k1", 1), t, t + 5000, t + 6000, t + 7000);
    assert_int_equal(named(&m, "k1", 1)->host, other);
    orr_program_destroy(&program);
    close_machine(&m);
}

static void a_launch_blocked_in_the_middle_goes_on_when_it_is_repeated(void **state) {
    (void)state;
    struct machine m;
    prepare(&m);
    m.f.specs[0].queue_depth = 4;
    start(&m);
    struct orr_program *program = begin(&m);
    for (int i = 0; i < 10; i++)
        work(&m, m.a, "k", 10000);
    ok(&m, orr_program_end(program));
    uint32_t other, next;
    ok(&m, orr_runtime_add_host(m.runtime, "other", &other));
    int64_t t = orr_runtime_now(m.runtime);
    assert_int_equal(orr_program_launch(program, m.a), ORR_BLOCKED);
    assert_int_equal(orr_program_launch_count(program), 0);
    ok(&m, orr_runtime_set_caller(m.runtime, other, NULL));
    fails(&m, orr_program_launch(program, m.b), ORR_INVALID, "not complete yet");
    work(&m, m.b, "between", 1000);
    ok(&m, orr_runtime_spend(m.runtime, 1000000));
    ok(&m, orr_runtime_set_caller(m.runtime, 0, NULL));
    enum orr_status status;
    int repetitions = 0;
    do {
        ok(&m, orr_runtime_next_host(m.runtime, &next));
        assert_int_equal(next, 0);
        status = orr_program_launch(program, m.a);
        repetitions++;
    } while (status == ORR_BLOCKED);
    ok(&m, status);
    assert_in_range(repetitions, 2, 20);
    assert_int_equal(orr_program_launch_count(program), 1);
    orr_runtime_host_done(m.runtime, other);
    ok(&m, orr_runtime_finish(m.runtime));
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(named(&m, "k", i)->enqueue_ns, t);
        assert_int_equal(named(&m, "k", i)->start_ns, t + GRAPH_NS + 10000 * (int64_t)i);
    }
    assert_int_equal(named(&m, "between", 0)->enqueue_ns, t);
    orr_program_destroy(&program);
    close_machine(&m);
}

/* --- the end --- */

static void a_runtime_frees_what_is_left_of_its_programs(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m);
    struct counted counted[3] = {{0}};
    struct orr_buffer *memory = buffer(&m, m.a, KB), *pinned = host_buffer(&m, KB);
    struct orr_program *kept = begin(&m);
    counted_kernel(&m, m.a, &counted[0], run_counted);
    ok(&m, orr_stream_fill(m.a, memory, 0, KB, 1));
    ok(&m, orr_program_end(kept));
    struct orr_program *dying = begin(&m);
    counted_kernel(&m, m.a, &counted[1], run_counted);
    ok(&m, orr_stream_copy(m.a, pinned, 0, memory, 0, KB));
    ok(&m, orr_program_end(dying));
    ok(&m, orr_program_launch(dying, m.a));
    ok(&m, orr_program_launch(kept, m.a));
    orr_buffer_free(&memory);
    orr_buffer_free(&pinned);
    orr_program_destroy(&dying);
    (void)begin(&m);
    counted_kernel(&m, m.b, &counted[2], run_counted);
    close_machine(&m);
    assert_int_equal(counted[0].runs, 1);
    assert_int_equal(counted[1].runs, 1);
    assert_int_equal(counted[2].runs, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(counted[i].releases, 1);
}

/* A launch that lacked memory once goes on when it is repeated. */
static bool launched(struct orr_program *program, struct orr_stream *stream) {
    for (int attempt = 0; attempt < 2; attempt++)
        if (orr_program_launch(program, stream) == ORR_OK)
            return true;
    return false;
}

struct objects {
    struct orr_stream *a, *b;
    struct orr_buffer *in, *out, *pinned;
    struct orr_communicator *pair;
    struct orr_event *event;
    struct counted counted;
    bool taken; /* the work is the runtime's */
};

static bool make_objects(struct orr_runtime *runtime, struct objects *o) {
    const uint32_t devices[2] = {0, 1};
    o->a = orr_device_stream(runtime, 0, ORR_STREAM_COMPUTE);
    o->b = orr_device_stream(runtime, 1, ORR_STREAM_COMPUTE);
    return o->a && o->b && orr_buffer_alloc(o->a, KB, "in", &o->in) == ORR_OK &&
           orr_buffer_alloc(o->b, KB, "out", &o->out) == ORR_OK &&
           orr_buffer_alloc_host(runtime, KB, "pinned", &o->pinned) == ORR_OK &&
           orr_communicator_create(runtime, "pair", devices, 2, &o->pair) == ORR_OK &&
           orr_event_create(runtime, "e", &o->event) == ORR_OK &&
           orr_stream_fill(o->a, o->in, 0, KB, 1) == ORR_OK &&
           orr_stream_fill(o->b, o->out, 0, KB, 1) == ORR_OK &&
           orr_event_record(o->event, o->b) == ORR_OK;
}

static bool record_region(struct objects *o) {
    struct orr_stream *streams[2] = {o->a, o->b};
    const struct orr_piece pieces[2] = {{o->in, 0}, {o->out, 0}};
    struct orr_range ranges[8];
    for (uint64_t i = 0; i < 8; i++) /* more than a pending object has room for */
        ranges[i] = (struct orr_range){o->in, i * 128, 128, ORR_ACCESS_READ_WRITE};
    struct orr_kernel kernel = {.name = "k",
                                .accesses = ranges,
                                .access_count = 8,
                                .submit_ns = -1,
                                .service_ns = 1000,
                                .run = run_counted,
                                .work = &o->counted,
                                .release = release_counted};
    if (orr_stream_wait(o->a, o->event) != ORR_OK ||
        orr_stream_kernel(o->a, &kernel, NULL) != ORR_OK)
        return false;
    o->taken = true;
    return orr_collective_enqueue(o->pair, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_I32, KB / 4, 0,
                                  streams, pieces, pieces, "sum", 0, NULL) == ORR_OK &&
           orr_event_record(o->event, o->b) == ORR_OK &&
           orr_stream_wait(o->a, o->event) == ORR_OK &&
           orr_stream_copy(o->a, o->pinned, 0, o->out, 0, KB) == ORR_OK;
}

/* True if everything went well. */
static bool capture_launch_and_destroy(struct orr_runtime *runtime, struct objects *o) {
    struct orr_program *program;
    if (!make_objects(runtime, o) || orr_program_begin(runtime, &program) != ORR_OK)
        return false;
    if (!record_region(o) || orr_program_end(program) != ORR_OK) {
        orr_program_destroy(&program);
        return false;
    }
    bool done = launched(program, o->a) && launched(program, o->b);
    orr_buffer_free(&o->in);
    orr_program_destroy(&program);
    return orr_runtime_finish(runtime) == ORR_OK && done;
}

static void capture_with_failing_memory(struct memory_counting *memory, void *context) {
    size_t *passes = context;
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = {.memory = &memory->table,
                                        .open = orr_sim_open,
                                        .specs = specs,
                                        .device_count = 2,
                                        .trace_accesses = true};
    struct orr_runtime *runtime;
    struct orr_error error = {0};
    struct objects objects = {0};
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    if (capture_launch_and_destroy(runtime, &objects)) {
        (*passes)++;
        assert_int_equal(objects.counted.runs, 2); /* also where a launch was repeated */
        /* 1 + 1, then 2 + 2, in every byte */
        assert_int_equal(((unsigned char *)orr_buffer_pointer(objects.pinned))[KB - 1], 4);
    }
    orr_runtime_destroy(&runtime);
    assert_int_equal(objects.counted.releases, objects.taken ? 1 : 0);
}

static void any_lack_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    size_t passes = 0;
    size_t requests = fail_each_request(capture_with_failing_memory, &passes);
    assert_true(requests > 60);
    /* The runs that needed no more requests, and those that got over one failure. */
    print_message("%zu requests, %zu runs passed\n", requests, passes);
    assert_true(passes > 2);
}

#define TEST(name) cmocka_unit_test(name)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_captured_chain_costs_one_host_call_and_runs_back_to_back),
        TEST(nodes_of_one_stream_keep_the_node_gap_and_records_and_joins_take_none),
        TEST(a_launch_forks_to_other_streams_and_joins_them),
        TEST(waits_inside_the_region_hold_in_every_launch),
        TEST(a_wait_for_a_point_from_before_the_region_holds_for_the_first_launch),
        TEST(two_launches_on_different_streams_do_not_overlap),
        TEST(a_full_queue_blocks_the_launching_call_and_nothing_is_lost),
        TEST(a_dispatch_host_makes_the_call_where_there_is_one),
        TEST(a_collective_is_replayed_as_a_group_with_its_own_numbers),
        TEST(a_replay_reads_what_its_inputs_hold_then),
        TEST(work_runs_once_a_launch_and_is_released_with_the_program),
        TEST(a_program_destroyed_under_way_ends_when_its_last_launch_has),
        TEST(a_buffer_freed_in_the_region_stays_the_programs),
        TEST(a_failure_in_a_replay_is_the_streams_failure),
        TEST(recording_an_operator_costs_the_host_nothing),
        TEST(nodes_keep_the_site_of_their_recording),
        TEST(a_host_wait_inside_is_unsupported_and_names_its_site),
        TEST(an_event_last_recorded_inside_is_of_no_use_outside),
        TEST(regions_do_not_nest_and_programs_are_launched_between_them),
        TEST(a_program_does_not_outlive_its_streams_and_communicators),
        TEST(only_calls_of_the_host_that_began_are_recorded),
        TEST(a_launch_is_one_call_though_another_host_is_earlier_by_then),
        TEST(a_launch_blocked_in_the_middle_goes_on_when_it_is_repeated),
        TEST(a_runtime_frees_what_is_left_of_its_programs),
        TEST(any_lack_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
