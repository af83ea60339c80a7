/* The host layer: what it hands to a backend, what it writes, and what it says when things fail.
 * Most cases run over the manual backend, where nothing ends by itself; those about clocks run over
 * the simulator. tests/test_runtime_data.c has those about numbers. */
#include "tests/runtime_fixture.h"

/* Position of a command's record among all records; accesses and edges of it come before. */
static size_t position_of(const struct fixture *f, enum orr_record_kind kind, uint64_t cmd) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    for (size_t i = 0; (record = orr_record_memory_next(f->store, &cursor)); i++) {
        if (record->kind != kind)
            continue;
        uint64_t id = kind == ORR_RECORD_COMMAND
                          ? ((const struct orr_record_command *)(const void *)record)->id
                      : kind == ORR_RECORD_EDGE
                          ? ((const struct orr_record_edge *)(const void *)record)->dst
                          : ((const struct orr_record_access *)(const void *)record)->cmd;
        if (id == cmd)
            return i;
    }
    fail_msg("no record of kind %d for command %d", (int)kind, (int)cmd);
    return 0;
}

/* --- creation --- */

static void a_runtime_begins_with_what_it_runs_on(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 2);
    const struct orr_record_meta *meta = record_at(&f, ORR_RECORD_META, 0);
    assert_string_equal(name_text(&f, meta->key), "backend");
    assert_string_equal(name_text(&f, meta->value), "manual");
    assert_int_equal(record_count(&f, ORR_RECORD_DEVICE), 2);
    const struct orr_record_device *device = record_at(&f, ORR_RECORD_DEVICE, 1);
    assert_int_equal(device->id, 1);
    assert_string_equal(name_text(&f, device->profile), "test");
    assert_int_equal(device->mem_bytes, 1 << 30);
    assert_int_equal(record_count(&f, ORR_RECORD_PEAK), 2 * 2 * ORR_DTYPE_COUNT);
    assert_int_equal(record_count(&f, ORR_RECORD_HOST), 1);
    assert_int_equal(orr_runtime_device_count(f.runtime), 2);
    assert_string_equal(orr_runtime_spec(f.runtime, 1)->name, "test");
    assert_null(orr_runtime_spec(f.runtime, 2));
    assert_string_equal(orr_runtime_backend_name(f.runtime), "manual");
    assert_false(orr_runtime_timing_only(f.runtime));
    assert_int_equal(orr_runtime_seed(f.runtime), 1);
    fixture_close(&f);
}

static enum orr_status open_unavailable(const struct orr_backend_config *config,
                                        struct orr_backend **out_backend, struct orr_error *error) {
    (void)config;
    *out_backend = NULL;
    return orr_error_set(error, ORR_UNAVAILABLE, "no such machine here");
}

static void what_cannot_be_opened_leaves_nothing_behind(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, open_unavailable, 1);
    assert_int_equal(orr_runtime_create(&f.config, &f.runtime, &f.error), ORR_UNAVAILABLE);
    assert_string_equal(f.error.text, "no such machine here");
    assert_null(f.runtime);
    orr_error_clear(&f.error);
    f.config.device_count = 0;
    assert_int_equal(orr_runtime_create(&f.config, &f.runtime, &f.error), ORR_INVALID);
    orr_runtime_destroy(&f.runtime); /* accepts NULL */
    fixture_close(&f);
}

static void streams_have_unique_names_and_known_devices(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 2);
    struct orr_stream *own = compute(&f, 1), *stream, *refused;
    assert_ptr_equal(compute(&f, 1), own);
    assert_string_equal(orr_stream_name(own), "compute");
    assert_int_equal(orr_stream_device(own), 1);
    assert_ptr_equal(orr_stream_runtime(own), f.runtime);
    assert_int_equal(orr_stream_create(f.runtime, 1, ORR_STREAM_COPY, "side", &stream), ORR_OK);
    assert_int_equal(orr_stream_id(stream), 1);
    assert_int_equal(orr_stream_create(f.runtime, 1, ORR_STREAM_COPY, "side", &refused),
                     ORR_INVALID);
    assert_string_equal(fixture_error(&f), "device 1 has a stream 'side' already");
    assert_int_equal(orr_stream_create(f.runtime, 1, ORR_STREAM_COPY, "", &refused), ORR_INVALID);
    assert_int_equal(orr_stream_create(f.runtime, 2, ORR_STREAM_COPY, "x", &refused), ORR_INVALID);
    assert_string_equal(fixture_error(&f), "device 2 does not exist; there are 2");
    assert_null(refused);
    assert_null(orr_device_stream(f.runtime, 2, ORR_STREAM_COMPUTE));
    orr_stream_destroy(&stream);
    assert_null(stream);
    assert_int_equal(orr_stream_create(f.runtime, 1, ORR_STREAM_COPY, "side", &stream), ORR_OK);
    assert_int_equal(orr_stream_id(stream), 2); /* ids are never reused */
    const struct orr_record_stream *record = record_at(&f, ORR_RECORD_STREAM, 2);
    assert_int_equal(record->device, 1);
    assert_int_equal(record->header.a, ORR_STREAM_COPY);
    assert_string_equal(name_text(&f, record->name), "side");
    fixture_close(&f);
}

/* --- commands --- */

static void commands_are_numbered_in_order_of_calls(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    assert_int_equal(orr_stream_point(s).seq, 0);
    struct orr_point a = launch(s, "a", NULL, NULL), b = launch(t, "b", NULL, NULL);
    struct orr_point c = launch(s, "c", NULL, NULL);
    assert_int_equal(a.cmd, 1);
    assert_int_equal(b.cmd, 2);
    assert_int_equal(c.cmd, 3);
    assert_int_equal(c.seq, 2);
    assert_int_equal(orr_stream_point(s).cmd, 3);
    assert_int_equal(record_count(&f, ORR_RECORD_COMMAND), 0); /* written when they have retired */
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    assert_int_equal(command_record(&f, 3)->seq, 2);
    assert_int_equal(command_record(&f, 2)->stream, orr_stream_id(t));
    assert_string_equal(name_text(&f, command_record(&f, 2)->name), "b");
    assert_int_equal(status_of(&f, 3), ORR_COMMAND_STATUS_OK);
    fixture_close(&f);
}

static void a_kernel_carries_its_cost_site_and_times(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    set_site(&f, "main.lua:7");
    struct orr_kernel kernel = {
        .name = "gemm",
        .dtype = ORR_DTYPE_BF16,
        .cost = {.flops = 10, .bytes_read = 20, .bytes_written = 30, .unit = ORR_UNIT_MATRIX},
        .submit_ns = 11,
        .service_ns = 22,
        .op = 5};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    set_site(&f, NULL);
    const struct orr_command *command = &manual_of(f.runtime)->streams[0].queue[0].command;
    assert_int_equal(command->submit_ns, 11);
    assert_int_equal(command->service_ns, 22);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    const struct orr_record_command *record = command_record(&f, 1);
    assert_int_equal(record->header.a, ORR_COMMAND_KERNEL);
    assert_int_equal(record->header.b, ORR_DTYPE_BF16);
    assert_int_equal(record->header.d, ORR_UNIT_MATRIX);
    assert_int_equal(record->flops, 10);
    assert_int_equal(record->bytes_read, 20);
    assert_int_equal(record->bytes_written, 30);
    assert_int_equal(record->op, 5);
    assert_string_equal(name_text(&f, record->site), "main.lua:7");
    fixture_close(&f);
}

static void ranges_are_checked_before_anything_happens(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 2);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *a = alloc(s, 100, "a"), *far = alloc(compute(&f, 1), 100, "far");
    struct orr_buffer *gone = alloc(s, 100, "gone"), *stale = gone;
    uint64_t before = orr_stream_point(s).cmd;
    orr_buffer_free(&gone);
    struct orr_range range = {a, 50, 51, ORR_ACCESS_READ};
    struct orr_kernel kernel = {.name = "k", .accesses = &range, .access_count = 1};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_INVALID);
    assert_string_equal(fixture_error(&f),
                        "range of 51 bytes at 50 is outside of buffer 'a', which has 100 bytes");
    range = (struct orr_range){a, UINT64_MAX, 2, ORR_ACCESS_READ}; /* the sum wraps round */
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_INVALID);
    range = (struct orr_range){far, 0, 1, ORR_ACCESS_READ};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_INVALID);
    assert_string_equal(fixture_error(&f),
                        "buffer 'far' is memory of device 1, but device 0 is to use it");
    range = (struct orr_range){stale, 0, 1, ORR_ACCESS_READ};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_INVALID);
    range = (struct orr_range){a, 100, 0, ORR_ACCESS_READ}; /* empty at the end: fine */
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    kernel.name = "";
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_INVALID);
    assert_int_equal(orr_stream_copy(s, a, 0, a, 1, 100), ORR_INVALID);
    assert_int_equal(orr_stream_fill(s, a, 101, 0, 0), ORR_INVALID);
    assert_int_equal(orr_stream_point(s).seq, 1);
    assert_true(orr_stream_point(s).cmd > before);
    assert_int_equal(orr_stream_copy(s, a, 0, far, 0, 100), ORR_OK); /* copies may reach out */
    fixture_close(&f);
}

static void accesses_are_translated_for_the_backend_and_the_trace(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *a = alloc(s, 1000, "a"), *b = alloc(s, 1000, "b");
    struct orr_range ranges[8];
    for (uint64_t i = 0; i < 8; i++) /* more than fit without an array of their own */
        ranges[i] = (struct orr_range){b, 10 * i, 10, ORR_ACCESS_READ_WRITE};
    ranges[0] = (struct orr_range){a, 1, 2, ORR_ACCESS_READ};
    struct orr_kernel kernel = {
        .name = "k", .accesses = ranges, .access_count = 8, .submit_ns = -1, .service_ns = -1};
    struct orr_point point;
    assert_int_equal(orr_stream_kernel(s, &kernel, &point), ORR_OK);
    const struct orr_command *command = &manual_of(f.runtime)->streams[0].queue[0].command;
    assert_int_equal(command->access_count, 8);
    assert_int_equal(command->accesses[0].offset, 1);
    assert_int_equal(command->accesses[7].offset, 1024 + 70); /* b lies behind a */
    assert_int_equal(command->accesses[7].mode, ORR_ACCESS_READ_WRITE);
    assert_int_equal(record_count(&f, ORR_RECORD_ACCESS), 8);
    const struct orr_record_access *access = record_at(&f, ORR_RECORD_ACCESS, 7);
    assert_int_equal(access->buffer, orr_buffer_id(b));
    assert_int_equal(access->offset, 70);
    assert_int_equal(access->bytes, 10);
    assert_int_equal(access->cmd, point.cmd);
    fixture_close(&f);
}

static void accesses_are_not_traced_unless_asked_for(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.config.trace_accesses = false;
    fixture_start(&f);
    struct orr_stream *s = compute(&f, 0);
    launch(s, "k", NULL, alloc(s, 100, "a"));
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    assert_int_equal(record_count(&f, ORR_RECORD_ACCESS), 0);
    fixture_close(&f);
}

static void a_command_that_retires_within_its_submit_is_told_about_first(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    manual_of(f.runtime)->retire_in_submit = true;
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 100, "a");
    struct orr_event *event = create_event(&f, NULL);
    struct orr_point k = launch(s, "k", NULL, a);
    assert_int_equal(orr_event_record(event, s), ORR_OK);
    assert_int_equal(orr_stream_wait(t, event), ORR_OK);
    uint64_t wait = orr_stream_point(t).cmd;
    assert_true(position_of(&f, ORR_RECORD_ACCESS, k.cmd) <
                position_of(&f, ORR_RECORD_COMMAND, k.cmd));
    assert_true(position_of(&f, ORR_RECORD_EDGE, wait) < position_of(&f, ORR_RECORD_COMMAND, wait));
    assert_int_equal(record_count(&f, ORR_RECORD_ACCESS), 1);
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 1);
    fixture_close(&f);
}

static void a_full_queue_blocks_its_host_inside_the_call(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].queue_depth = 2;
    fixture_start(&f);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = compute(&f, 0);
    launch(s, "a", NULL, NULL);
    launch(s, "b", NULL, NULL);
    int64_t begin_ns = orr_runtime_now(f.runtime);
    struct orr_point c = launch(s, "c", NULL, NULL); /* a retires */
    assert_int_equal(manual->streams[0].retired, 1);
    assert_int_equal(record_count(&f, ORR_RECORD_SYNC), 0); /* it is no sync of the program's */
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    const struct orr_record_command *record = command_record(&f, c.cmd);
    assert_in_range(record->enqueue_ns, begin_ns, begin_ns + 1);
    assert_true(record->enqueued_ns > command_record(&f, 1)->finish_ns);
    launch(s, "d", NULL, NULL); /* and the next call has a time of its own */
    assert_true(manual->streams[0].queue[0].command.record.enqueue_ns > record->enqueued_ns);
    fixture_close(&f);
}

static void a_blocked_call_changes_nothing_and_is_repeated(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *a = alloc(s, 100, "a");
    struct orr_range range = {a, 0, 100, ORR_ACCESS_WRITE};
    struct orr_kernel kernel = {
        .name = "k", .accesses = &range, .access_count = 1, .submit_ns = -1, .service_ns = -1};
    struct orr_event *event = create_event(&f, NULL);
    struct orr_point point;
    manual->block_acts = 2;
    assert_int_equal(orr_stream_kernel(s, &kernel, &point), ORR_BLOCKED);
    assert_int_equal(orr_event_record(event, s), ORR_BLOCKED);
    assert_int_equal(orr_stream_point(s).seq, 0);
    assert_int_equal(record_count(&f, ORR_RECORD_ACCESS), 0);
    assert_int_equal(orr_stream_kernel(s, &kernel, &point), ORR_OK);
    assert_int_equal(point.cmd, 2); /* the allocation was 1 */
    assert_int_equal(record_count(&f, ORR_RECORD_ACCESS), 1);
    manual->block_acts = 3;
    assert_int_equal(orr_stream_sync(s), ORR_BLOCKED);
    int64_t first_ns = orr_runtime_now(f.runtime);
    assert_int_equal(orr_stream_sync(s), ORR_BLOCKED);
    assert_int_equal(orr_stream_query(s), ORR_BLOCKED);
    assert_int_equal(record_count(&f, ORR_RECORD_SYNC), 0);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    const struct orr_record_sync *sync = record_at(&f, ORR_RECORD_SYNC, 0);
    assert_true(sync->begin_ns < first_ns); /* one sync, from the first call on */
    fixture_close(&f);
}

static void a_call_keeps_its_first_time_when_it_is_blocked_on_a_full_queue(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.specs[0].queue_depth = 1;
    fixture_start(&f);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = compute(&f, 0);
    struct orr_kernel kernel = {.name = "k", .submit_ns = -1, .service_ns = -1};
    launch(s, "a", NULL, NULL);
    manual->block_waits = true;
    int64_t begin_ns = orr_runtime_now(f.runtime);
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_BLOCKED);
    manual->now_ns += 1000; /* other hosts run, and the device */
    manual_finish(manual, 0);
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    assert_in_range(manual->streams[0].queue[0].command.record.enqueue_ns, begin_ns, begin_ns + 1);
    manual_finish(manual, 0);
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    assert_true(manual->streams[0].queue[0].command.record.enqueue_ns > begin_ns + 1000);
    fixture_close(&f);
}

static void count_release(void *work) {
    (*(int *)work)++;
}

static enum orr_status count_run(void *work, struct orr_error *error) {
    (void)error;
    (*(int *)work) += 100;
    return ORR_OK;
}

static void work_is_released_once_when_its_command_has_retired(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    int work = 0;
    struct orr_kernel kernel = {.name = "k",
                                .submit_ns = -1,
                                .service_ns = -1,
                                .run = count_run,
                                .work = &work,
                                .release = count_release};
    manual_of(f.runtime)->block_acts = 1;
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_BLOCKED);
    assert_int_equal(work, 0); /* still the caller's */
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    assert_int_equal(work, 0);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(work, 101);
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    orr_runtime_destroy(&f.runtime); /* pending: released, not run */
    assert_int_equal(work, 102);
    assert_int_equal(status_of(&f, 2), ORR_COMMAND_STATUS_PENDING);
    assert_int_equal(command_record(&f, 2)->finish_ns, ORR_TIME_NONE);
    fixture_close(&f);
}

static void timing_only_computes_nothing(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 1);
    f.config.timing_only = true;
    fixture_start(&f);
    struct orr_stream *s = compute(&f, 0);
    int work = 0;
    struct orr_kernel kernel = {
        .name = "k", .run = count_run, .work = &work, .release = count_release};
    struct orr_buffer *a = alloc(s, 100, "a"), *pinned = alloc_host(&f, 100, "pinned");
    assert_null(orr_buffer_pointer(a));
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    assert_int_equal(orr_stream_copy(s, pinned, 0, a, 0, 100), ORR_OK);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(work, 1);
    char bytes[4] = {0};
    assert_int_equal(orr_buffer_write(pinned, 0, bytes, 4, -1), ORR_OK);
    assert_int_equal(orr_buffer_read(pinned, 0, bytes, 4, -1), ORR_INVALID);
    fixture_close(&f);
}

/* --- events --- */

static void an_event_holds_the_position_of_its_last_record(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_event *event = create_event(&f, NULL), *named = create_event(&f, "ready");
    assert_string_equal(orr_event_name(event), "e1");
    assert_string_equal(orr_event_name(named), "ready");
    launch(s, "before", NULL, NULL);
    assert_int_equal(orr_event_record(event, s), ORR_OK);
    uint64_t record = orr_stream_point(s).cmd;
    assert_int_equal(orr_stream_wait(t, event), ORR_OK);
    uint64_t wait = orr_stream_point(t).cmd;
    struct orr_point used = launch(t, "after", NULL, NULL);
    launch(s, "later", NULL, NULL);
    assert_int_equal(orr_event_record(event, s), ORR_OK); /* earlier waits don't mind */
    assert_int_equal(orr_event_query(event), ORR_NOT_READY);
    assert_false(manual_finish(manual, orr_stream_id(t)));
    manual_finish(manual, 0);
    assert_false(manual_finish(manual, orr_stream_id(t))); /* the record itself is to come */
    manual_finish(manual, 0);
    assert_true(manual_finish(manual, orr_stream_id(t)));
    assert_true(manual_finish(manual, orr_stream_id(t)));
    assert_int_equal(orr_event_query(event), ORR_NOT_READY);
    assert_int_equal(orr_event_sync(event), ORR_OK);
    assert_int_equal(orr_event_query(event), ORR_OK);
    assert_true(has_edge(&f, ORR_EDGE_EVENT, record, wait));
    assert_int_equal(record_count(&f, ORR_RECORD_EDGE), 1);
    assert_string_equal(name_text(&f, command_record(&f, wait)->event), "e1");
    assert_int_equal(command_record(&f, used.cmd)->header.c, ORR_COMMAND_STATUS_OK);
    fixture_close(&f);
}

static void a_destroyed_event_is_still_waited_for(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_event *event = create_event(&f, NULL), *other = create_event(&f, NULL);
    launch(s, "a", NULL, NULL);
    assert_int_equal(orr_event_record(event, s), ORR_OK);
    assert_int_equal(orr_stream_wait(t, event), ORR_OK);
    orr_event_destroy(&event);
    assert_null(event);
    orr_event_destroy(&event); /* accepts NULL */
    assert_false(manual_finish(manual_of(f.runtime), orr_stream_id(t)));
    assert_int_equal(orr_stream_sync(t), ORR_OK);
    orr_event_destroy(&other);
    fixture_close(&f);
}

static void waiting_for_an_event_never_recorded_is_a_warning(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    struct orr_event *event = create_event(&f, "start");
    assert_int_equal(orr_stream_wait(s, event), ORR_OK);
    assert_true(manual_finish(manual_of(f.runtime), 0)); /* waits for nothing */
    assert_int_equal(orr_event_query(event), ORR_OK);
    assert_int_equal(orr_event_sync(event), ORR_OK);
    assert_int_equal(orr_runtime_finding_count(f.runtime), 1);
    const struct orr_record_finding *finding = record_at(&f, ORR_RECORD_FINDING, 0);
    assert_string_equal(name_text(&f, finding->kind), "event-unrecorded");
    assert_string_equal(name_text(&f, finding->severity), "warning");
    assert_non_null(strstr(name_text(&f, finding->message), "'start'"));
    assert_int_equal(finding->cmd_a, 1);
    fixture_close(&f);
}

/* --- the host waits --- */

static void a_sync_says_what_it_observed(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 2);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0), *far = compute(&f, 1);
    launch(s, "a", NULL, NULL);
    struct orr_point b = launch(t, "b", NULL, NULL);
    launch(far, "c", NULL, NULL);
    assert_int_equal(orr_device_sync(f.runtime, 0), ORR_OK);
    const struct orr_record_sync *sync = record_at(&f, ORR_RECORD_SYNC, 0);
    assert_int_equal(sync->header.a, ORR_SYNC_DEVICE);
    assert_int_equal(sync->target, 0);
    assert_int_equal(sync->cmd, b.cmd); /* the last to finish */
    assert_true(sync->end_ns > command_record(&f, b.cmd)->finish_ns);
    assert_int_equal(orr_stream_query(far), ORR_NOT_READY); /* of this device only */
    assert_int_equal(record_count(&f, ORR_RECORD_SYNC), 1);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(orr_stream_query(s), ORR_OK); /* as good as a sync */
    sync = record_at(&f, ORR_RECORD_SYNC, 2);
    assert_int_equal(sync->header.a, ORR_SYNC_STREAM);
    assert_int_equal(sync->target, orr_stream_id(s));
    assert_int_equal(sync->cmd, 1);
    assert_true(sync->end_ns > sync->begin_ns);
    assert_int_equal(orr_device_sync(f.runtime, 2), ORR_INVALID);
    fixture_close(&f);
}

static void waiting_for_any_names_the_first_that_retired(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_point points[2] = {launch(s, "a", NULL, NULL), launch(t, "b", NULL, NULL)};
    uint32_t index = 7;
    manual_finish(manual_of(f.runtime), orr_stream_id(t));
    assert_int_equal(orr__runtime_wait(f.runtime, points, 2, ORR_WAIT_ANY, ORR_TIME_MAX,
                                       ORR_SYNC_FUTURE, 0, &index),
                     ORR_OK);
    assert_int_equal(index, 1);
    assert_int_equal(
        orr__runtime_wait(f.runtime, points, 1, ORR_WAIT_ALL, 1, ORR_SYNC_FUTURE, 0, NULL),
        ORR_NOT_READY); /* its deadline has passed */
    fixture_close(&f);
}

static void a_hang_is_reported_with_its_site(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0);
    manual_of(f.runtime)->hang = true;
    launch(s, "a", NULL, NULL);
    set_site(&f, "main.lua:3");
    assert_int_equal(orr_stream_sync(s), ORR_DEVICE_FAILED);
    assert_string_equal(fixture_error(&f), "main.lua:3: hang: nothing can end");
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_DEVICE_FAILED);
    const struct orr_record_sync *sync = record_at(&f, ORR_RECORD_SYNC, 0);
    assert_int_equal(sync->cmd, 0);
    fixture_close(&f);
}

static enum orr_status fail_run(void *work, struct orr_error *error) {
    (void)work;
    return orr_error_set(error, ORR_INVALID, "index 9 of 8");
}

static void a_failure_reaches_whoever_waits_and_nobody_else(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0), *other;
    assert_int_equal(orr_stream_create(f.runtime, 0, ORR_STREAM_COPY, "other", &other), ORR_OK);
    struct orr_event *before = create_event(&f, NULL), *after = create_event(&f, NULL);
    assert_int_equal(orr_event_record(before, s), ORR_OK);
    set_site(&f, "main.lua:5");
    struct orr_kernel kernel = {.name = "gather", .run = fail_run, .service_ns = -1};
    struct orr_point failed;
    assert_int_equal(orr_stream_kernel(s, &kernel, &failed), ORR_OK);
    set_site(&f, "main.lua:6");
    struct orr_point skipped = launch(s, "next", NULL, NULL);
    assert_int_equal(orr_event_record(after, s), ORR_OK);
    assert_int_equal(orr_stream_wait(t, after), ORR_OK);
    struct orr_point used = launch(t, "use", NULL, NULL), fine = launch(other, "fine", NULL, NULL);
    assert_int_equal(orr_event_sync(before), ORR_OK);
    assert_int_equal(orr_stream_sync(s), ORR_DEVICE_FAILED);
    assert_string_equal(fixture_error(&f), "main.lua:5: gather: index 9 of 8");
    assert_int_equal(orr_event_sync(before), ORR_OK); /* was reached before the failure */
    assert_int_equal(orr_event_query(after), ORR_DEVICE_FAILED);
    assert_int_equal(orr_stream_sync(t), ORR_DEVICE_FAILED);
    assert_string_equal(fixture_error(&f), "main.lua:5: gather: index 9 of 8");
    assert_int_equal(orr_stream_sync(other), ORR_OK);
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_DEVICE_FAILED);
    assert_string_equal(fixture_error(&f), "main.lua:5: gather: index 9 of 8");
    assert_int_equal(status_of(&f, failed.cmd), ORR_COMMAND_STATUS_FAILED);
    assert_int_equal(status_of(&f, skipped.cmd), ORR_COMMAND_STATUS_SKIPPED);
    assert_int_equal(status_of(&f, used.cmd), ORR_COMMAND_STATUS_SKIPPED);
    assert_int_equal(status_of(&f, fine.cmd), ORR_COMMAND_STATUS_OK);
    fixture_close(&f);
}

/* --- allocations as commands --- */

static void an_allocation_is_a_command_of_the_host(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *s = compute(&f, 0);
    set_site(&f, "main.lua:2");
    struct orr_buffer *a = alloc(s, 100, "a");
    assert_int_equal(orr_buffer_record_stream(a, communicate(&f, 0)), ORR_OK);
    orr_buffer_free(&a);
    orr_buffer_free(&a); /* accepts NULL */
    assert_int_equal(orr_runtime_now(f.runtime), 1500);
    const struct orr_record_command *made = command_record(&f, 1), *used = command_record(&f, 2);
    const struct orr_record_command *freed = command_record(&f, 3);
    assert_int_equal(made->header.a, ORR_COMMAND_ALLOC);
    assert_int_equal(made->seq, 0);
    assert_int_equal(made->stream, orr_stream_id(s));
    assert_int_equal(made->enqueue_ns, 0);
    assert_int_equal(made->enqueued_ns, 500);
    assert_int_equal(made->start_ns, 500);
    assert_int_equal(made->finish_ns, 500);
    assert_string_equal(name_text(&f, made->site), "main.lua:2");
    assert_int_equal(used->header.a, ORR_COMMAND_RECORD_STREAM);
    assert_int_equal(used->stream, orr_stream_id(communicate(&f, 0)));
    assert_int_equal(freed->header.a, ORR_COMMAND_FREE);
    const struct orr_record_buffer *buffer = record_at(&f, ORR_RECORD_BUFFER, 0);
    const struct orr_record_buffer_free *free_record = record_at(&f, ORR_RECORD_BUFFER_FREE, 0);
    assert_int_equal(buffer->alloc_cmd, 1);
    assert_int_equal(buffer->bytes, 100);
    assert_string_equal(name_text(&f, buffer->memory), "dev");
    assert_int_equal(free_record->id, buffer->id);
    assert_int_equal(free_record->free_cmd, 3);
    fixture_close(&f);
}

static void an_operator_pays_once_for_all_that_it_does(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *s = compute(&f, 0);
    orr__runtime_operator_begin(f.runtime, 0, -1);
    struct orr_buffer *a = alloc(s, 100, "a");
    assert_int_equal(orr_runtime_now(f.runtime), 0); /* allocations are free of charge inside */
    struct orr_kernel kernel = {.name = "k", .submit_ns = -1, .service_ns = 1};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    assert_int_equal(orr_runtime_now(f.runtime), 8000); /* spec.host_operator_ns */
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    orr__runtime_operator_begin(f.runtime, 0, 77); /* nested: part of the outer one */
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    orr__runtime_operator_end(f.runtime, true);
    orr__runtime_operator_end(f.runtime, true);
    assert_int_equal(orr_runtime_now(f.runtime), 8000);
    orr__runtime_operator_begin(f.runtime, 0, 1234); /* no command: the end pays */
    orr_buffer_free(&a);
    orr__runtime_operator_end(f.runtime, true);
    assert_int_equal(orr_runtime_now(f.runtime), 8000 + 1234);
    orr__runtime_operator_begin(f.runtime, 0, 1234); /* came to nothing */
    orr__runtime_operator_end(f.runtime, false);
    assert_int_equal(orr_runtime_now(f.runtime), 8000 + 1234);
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    assert_int_equal(orr_runtime_now(f.runtime), 8000 + 1234 + 5000);
    fixture_close(&f);
}

/* --- hosts --- */

static void callers_and_clocks_are_checked(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    uint32_t host = 7;
    assert_int_equal(orr_runtime_set_caller(f.runtime, 1, "x"), ORR_INVALID);
    assert_int_equal(orr_runtime_add_host(f.runtime, "second", &host), ORR_UNSUPPORTED);
    assert_int_equal(orr_runtime_next_host(f.runtime, &host), ORR_OK);
    assert_int_equal(host, 0);
    orr_runtime_host_done(f.runtime, 0);
    assert_int_equal(orr_runtime_spend(f.runtime, -1), ORR_INVALID);
    int64_t before_ns = orr_runtime_now(f.runtime);
    assert_int_equal(orr_runtime_spend(f.runtime, 100), ORR_OK);
    assert_true(orr_runtime_now(f.runtime) >= before_ns + 100);
    fixture_close(&f);
}

static void hosts_take_turns_by_their_clocks(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    uint32_t second, next;
    assert_int_equal(orr_runtime_add_host(f.runtime, "second", &second), ORR_OK);
    assert_int_equal(second, 1);
    assert_int_equal(record_count(&f, ORR_RECORD_HOST), 2);
    launch(s, "a", NULL, NULL); /* host 0 is at 5000 ns, host 1 at 0 */
    struct orr_buffer *buffer;
    struct orr_kernel kernel = {.name = "k", .submit_ns = -1, .service_ns = 1};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_BLOCKED);
    assert_int_equal(orr_buffer_alloc(s, 1, "a", &buffer), ORR_BLOCKED);
    assert_int_equal(orr_stream_sync(s), ORR_BLOCKED);
    assert_int_equal(orr_runtime_next_host(f.runtime, &next), ORR_OK);
    assert_int_equal(next, second);
    assert_int_equal(orr_runtime_set_caller(f.runtime, second, "b.lua:1"), ORR_OK);
    struct orr_point b = launch(t, "b", NULL, NULL);
    assert_int_equal(orr_stream_sync(t), ORR_BLOCKED);
    orr_runtime_host_done(f.runtime, 0);
    assert_int_equal(orr_stream_sync(t), ORR_OK);
    orr_runtime_host_done(f.runtime, second);
    assert_int_equal(orr_runtime_next_host(f.runtime, &next), ORR_NOT_READY);
    assert_int_equal(command_record(&f, b.cmd)->host, second);
    const struct orr_record_sync *sync = record_at(&f, ORR_RECORD_SYNC, 0);
    assert_int_equal(sync->host, second);
    assert_int_equal(sync->begin_ns, 5000);
    fixture_close(&f);
}

static void a_runner_for_each_device_has_hosts_of_its_own(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, orr_sim_open, 2);
    f.config.runner = ORR_RUNNER_PER_DEVICE;
    fixture_start(&f);
    assert_int_equal(record_count(&f, ORR_RECORD_HOST), 3);
    const struct orr_record_host *dispatch = record_at(&f, ORR_RECORD_HOST, 2);
    assert_string_equal(name_text(&f, dispatch->name), "dispatch 1");
    struct orr_point point = launch(compute(&f, 1), "k", NULL, NULL);
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    assert_int_equal(command_record(&f, point.cmd)->host, 2);
    uint32_t host;
    assert_int_equal(orr_runtime_add_host(f.runtime, "rank", &host), ORR_OK);
    assert_int_equal(host, 3);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runtime_begins_with_what_it_runs_on),
        cmocka_unit_test(what_cannot_be_opened_leaves_nothing_behind),
        cmocka_unit_test(streams_have_unique_names_and_known_devices),
        cmocka_unit_test(commands_are_numbered_in_order_of_calls),
        cmocka_unit_test(a_kernel_carries_its_cost_site_and_times),
        cmocka_unit_test(ranges_are_checked_before_anything_happens),
        cmocka_unit_test(accesses_are_translated_for_the_backend_and_the_trace),
        cmocka_unit_test(accesses_are_not_traced_unless_asked_for),
        cmocka_unit_test(a_command_that_retires_within_its_submit_is_told_about_first),
        cmocka_unit_test(a_full_queue_blocks_its_host_inside_the_call),
        cmocka_unit_test(a_blocked_call_changes_nothing_and_is_repeated),
        cmocka_unit_test(a_call_keeps_its_first_time_when_it_is_blocked_on_a_full_queue),
        cmocka_unit_test(work_is_released_once_when_its_command_has_retired),
        cmocka_unit_test(timing_only_computes_nothing),
        cmocka_unit_test(an_event_holds_the_position_of_its_last_record),
        cmocka_unit_test(a_destroyed_event_is_still_waited_for),
        cmocka_unit_test(waiting_for_an_event_never_recorded_is_a_warning),
        cmocka_unit_test(a_sync_says_what_it_observed),
        cmocka_unit_test(waiting_for_any_names_the_first_that_retired),
        cmocka_unit_test(a_hang_is_reported_with_its_site),
        cmocka_unit_test(a_failure_reaches_whoever_waits_and_nobody_else),
        cmocka_unit_test(an_allocation_is_a_command_of_the_host),
        cmocka_unit_test(an_operator_pays_once_for_all_that_it_does),
        cmocka_unit_test(callers_and_clocks_are_checked),
        cmocka_unit_test(hosts_take_turns_by_their_clocks),
        cmocka_unit_test(a_runner_for_each_device_has_hosts_of_its_own),
    };
    return cmocka_run_group_tests_name("runtime", tests, NULL, NULL);
}
