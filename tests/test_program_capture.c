/* What a recorded program holds and keeps alive, what can't be recorded, and what is left of it. */
#include "runtime/runtime_internal.h"
#include "tests/program_fixture.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_is_replayed_as_a_group_with_its_own_numbers),
        cmocka_unit_test(a_replay_reads_what_its_inputs_hold_then),
        cmocka_unit_test(work_runs_once_a_launch_and_is_released_with_the_program),
        cmocka_unit_test(a_program_destroyed_under_way_ends_when_its_last_launch_has),
        cmocka_unit_test(a_buffer_freed_in_the_region_stays_the_programs),
        cmocka_unit_test(a_failure_in_a_replay_is_the_streams_failure),
        cmocka_unit_test(recording_an_operator_costs_the_host_nothing),
        cmocka_unit_test(nodes_keep_the_site_of_their_recording),
        cmocka_unit_test(a_host_wait_inside_is_unsupported_and_names_its_site),
        cmocka_unit_test(an_event_last_recorded_inside_is_of_no_use_outside),
        cmocka_unit_test(regions_do_not_nest_and_programs_are_launched_between_them),
        cmocka_unit_test(a_program_does_not_outlive_its_streams_and_communicators),
        cmocka_unit_test(a_runtime_frees_what_is_left_of_its_programs),
        cmocka_unit_test(any_lack_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("program capture", tests, NULL, NULL);
}
