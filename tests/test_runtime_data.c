/* The host layer's numbers: copies, fills, host functions, synthetic kernels, collectives, memory
 * that is undefined; over the simulator. */
#include <math.h>

#include "runtime/synthetic.h"
#include "tests/runtime_fixture.h"

/* --- copies, fills, host functions, numbers (simulated) --- */

static void double_it(void *context) {
    float *value = context;
    *value *= 2;
}

static void copies_fills_and_host_functions_follow_the_stream(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    struct orr_stream *s = compute(&f, 0), *far = compute(&f, 1);
    struct orr_buffer *pinned = alloc_host(&f, 16, "pinned"), *back = alloc_host(&f, 16, "back");
    struct orr_buffer *a = alloc(s, 16, "a"), *b = alloc(far, 16, "b");
    float values[4] = {1, 2, 3, 4};
    assert_int_equal(orr_buffer_write(pinned, 0, values, 16, -1), ORR_OK);
    assert_int_equal(orr_stream_copy(s, a, 0, pinned, 0, 16), ORR_OK);
    assert_int_equal(orr_stream_fill(s, a, 4, 4, 0), ORR_OK);
    struct orr_range range = {a, 0, 4, ORR_ACCESS_READ_WRITE};
    assert_int_equal(orr_stream_hostfn(s, "double", double_it, orr_buffer_pointer(a), &range, 1),
                     ORR_OK);
    assert_int_equal(orr_stream_hostfn(s, "", double_it, values, NULL, 0), ORR_INVALID);
    assert_int_equal(orr_stream_wait_point(far, orr_stream_point(s)), ORR_OK);
    assert_int_equal(orr_stream_copy(far, b, 0, a, 0, 16), ORR_OK); /* from the other device */
    assert_int_equal(orr_stream_copy(far, back, 0, b, 0, 16), ORR_OK);
    assert_int_equal(orr_stream_sync(far), ORR_OK);
    assert_int_equal(orr_buffer_read(back, 0, values, 16, 250), ORR_OK);
    assert_true(values[0] == 2 && values[1] == 0 && values[2] == 3 && values[3] == 4);
    assert_int_equal(orr_runtime_finish(f.runtime), ORR_OK);
    uint64_t last = f.runtime->command_count;
    const struct orr_record_command *read = command_record(&f, last);
    assert_int_equal(read->header.a, ORR_COMMAND_HOSTREAD);
    assert_int_equal(read->finish_ns - read->start_ns, 250);
    assert_int_equal(read->stream, ORR_ID_NONE);
    assert_int_equal(read->bytes_read, 16);
    for (uint64_t cmd = 1; cmd <= last; cmd++)
        assert_int_equal(status_of(&f, cmd), ORR_COMMAND_STATUS_OK);
    fixture_close(&f);
}

static void host_memory_is_the_only_memory_that_the_host_reads(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1); /* without the verb: the host layer does it */
    struct orr_buffer *a = alloc(compute(&f, 0), 16, "a"), *pinned = alloc_host(&f, 16, "pinned");
    char bytes[16] = "fifteen letters";
    assert_int_equal(orr_buffer_read(a, 0, bytes, 16, -1), ORR_UNSUPPORTED);
    assert_int_equal(orr_buffer_write(pinned, 0, bytes, 17, -1), ORR_INVALID);
    assert_int_equal(orr_buffer_write(pinned, 0, bytes, 16, -1), ORR_OK);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(orr_buffer_read(pinned, 0, bytes, 16, -1), ORR_OK);
    assert_string_equal(bytes, "fifteen letters");
    assert_int_equal(orr_buffer_device(pinned), ORR_ID_NONE);
    assert_int_equal(orr_buffer_bytes(pinned), 16);
    assert_int_equal(orr_buffer_record_stream(pinned, compute(&f, 0)), ORR_UNSUPPORTED);
    const struct orr_record_buffer *record = record_at(&f, ORR_RECORD_BUFFER, 1);
    assert_string_equal(name_text(&f, record->memory), "pinned");
    assert_string_equal(name_text(&f, record->label), "pinned");
    fixture_close(&f);
}

static void pinned_memory_lives_until_its_last_user_has_retired(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, manual_open, 1);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *pinned = alloc_host(&f, 16, "pinned"), *next;
    launch(s, "use", pinned, NULL);
    orr_buffer_free(&pinned);
    assert_true(manual->memories[0].live);
    manual_finish(manual, 0);
    next = alloc_host(&f, 16, "next"); /* a chance to tidy up */
    assert_false(manual->memories[0].live);
    orr_buffer_free(&next);
    assert_false(manual->memories[1].live);
    fixture_close(&f);
}

static float first_value(struct fixture *f, struct orr_buffer *buffer) {
    float value;
    assert_int_equal(orr_runtime_finish(f->runtime), ORR_OK);
    memcpy(&value, orr_buffer_pointer(buffer), sizeof value);
    return value;
}

/* produce -> a -> consume -> b, the consumer on another stream, with or without a wait between. */
static float produce_and_consume(const char *producer, bool waits) {
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *s = compute(&f, 0), *t = communicate(&f, 0);
    struct orr_buffer *a = alloc(s, 4096, "a"), *b = alloc(s, 4096, "b");
    assert_int_equal(orr__buffer_initialize(a, 0, NULL, 4096), ORR_OK);
    struct orr_range range = {a, 0, 4096, ORR_ACCESS_READ_WRITE};
    struct orr_kernel kernel = {.name = producer,
                                .accesses = &range,
                                .access_count = 1,
                                .submit_ns = -1,
                                .service_ns = 20000};
    assert_int_equal(orr_stream_kernel(s, &kernel, NULL), ORR_OK);
    if (waits)
        assert_int_equal(orr_stream_wait_point(t, orr_stream_point(s)), ORR_OK);
    launch(t, "consume", a, b);
    float value = first_value(&f, b);
    fixture_close(&f);
    return value;
}

static void synthetic_numbers_show_names_and_wrong_orders(void **state) {
    (void)state;
    float right = produce_and_consume("produce", true);
    assert_true(right >= -1 && right < 1);
    assert_true(produce_and_consume("produce", true) == right);
    assert_true(produce_and_consume("product", true) != right);
    assert_true(!(produce_and_consume("produce", false) == right)); /* poison, or other numbers */
}

static void a_synthetic_digest_depends_on_every_byte_and_its_place(void **state) {
    (void)state;
    unsigned char input[67] = {0};
    float output[3], other[3];
    struct orr__synthetic base, changed;
    for (size_t bytes = 1; bytes <= sizeof input; bytes++) {
        orr__synthetic_begin(&base, "k");
        orr__synthetic_read(&base, input, bytes);
        for (size_t i = 0; i < bytes; i++) {
            input[i] ^= 1;
            orr__synthetic_begin(&changed, "k");
            orr__synthetic_read(&changed, input, bytes);
            input[i] ^= 1;
            assert_int_not_equal(changed.digest, base.digest);
        }
        orr__synthetic_begin(&changed, "k");
        orr__synthetic_read(&changed, input, bytes - 1);
        assert_int_not_equal(changed.digest, base.digest);
    }
    orr__synthetic_write(&base, output, sizeof output);
    orr__synthetic_write(&base, other, sizeof other);
    assert_true(output[0] != output[1] && output[0] != other[0]);
}

static void synthetic_values_are_spread_over_minus_one_to_one(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    static float values[COUNT];
    struct orr__synthetic synthetic;
    orr__synthetic_begin(&synthetic, "spread");
    orr__synthetic_write(&synthetic, values, sizeof values - 1); /* an odd end */
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT - 1; i++) {
        assert_true(values[i] >= -1 && values[i] < 1);
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    assert_true(near_f64(sum / COUNT, 0, 0.02));
    assert_true(near_f64(squares / COUNT, 1.0 / 3, 0.01));
}

static void reading_a_new_buffer_poisons_what_is_written(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *s = compute(&f, 0);
    struct orr_buffer *a = alloc(s, 64, "a"), *b = alloc(s, 64, "b");
    struct orr_point bad = launch(s, "read", a, b);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(status_of(&f, bad.cmd), ORR_COMMAND_STATUS_POISONED);
    launch(s, "write", NULL, a);
    struct orr_point good = launch(s, "read", a, b);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(status_of(&f, good.cmd), ORR_COMMAND_STATUS_OK);
    orr_buffer_free(&a);
    a = alloc(s, 64, "again"); /* the same bytes, and undefined again */
    bad = launch(s, "read", a, b);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(status_of(&f, bad.cmd), ORR_COMMAND_STATUS_POISONED);
    fixture_close(&f);
}

/* --- collectives --- */

struct ranks {
    struct fixture f;
    struct orr_communicator *communicator;
    struct orr_stream *streams[4];
    struct orr_piece in[4], out[4];
};

static void ranks_open(struct ranks *r, uint64_t in_bytes, uint64_t out_bytes) {
    const uint32_t devices[4] = {2, 0, 3, 1};
    fixture_open(&r->f, orr_sim_open, 4);
    assert_int_equal(orr_communicator_create(r->f.runtime, "tp", devices, 4, &r->communicator),
                     ORR_OK);
    for (uint32_t i = 0; i < 4; i++) {
        r->streams[i] = communicate(&r->f, devices[i]);
        r->in[i] = (struct orr_piece){alloc(r->streams[i], in_bytes, "in"), 0};
        r->out[i] = (struct orr_piece){alloc(r->streams[i], out_bytes, "out"), 0};
        for (uint64_t k = 0; k < in_bytes / sizeof(float); k++) {
            float value = (float)(100 * i + k);
            assert_int_equal(
                orr__buffer_initialize(r->in[i].buffer, k * sizeof value, &value, sizeof value),
                ORR_OK);
        }
    }
}

static enum orr_status enqueue(struct ranks *r, enum orr_collective_kind kind, uint64_t count,
                               uint32_t root, const struct orr_piece *outputs) {
    return orr_collective_enqueue(r->communicator, kind, ORR_DTYPE_F32, count, root, r->streams,
                                  r->in, outputs, NULL, 0, NULL);
}

static float out_value(const struct orr_piece *piece, size_t index) {
    const char *bytes = orr_buffer_pointer(piece->buffer);
    float value;
    memcpy(&value, bytes + piece->offset + index * sizeof value, sizeof value);
    return value;
}

static void collectives_compute_what_they_are_named_for(void **state) {
    (void)state;
    struct ranks r;
    ranks_open(&r, 32, 128);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_REDUCE, 8, 0, r.out), ORR_OK);
    assert_int_equal(orr_runtime_finish(r.f.runtime), ORR_OK);
    for (int rank = 0; rank < 4; rank++)
        assert_true(out_value(&r.out[rank], 3) == 600 + 4 * 3);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_GATHER, 8, 0, r.out), ORR_OK);
    assert_int_equal(orr_runtime_finish(r.f.runtime), ORR_OK);
    for (int rank = 0; rank < 4; rank++)
        assert_true(out_value(&r.out[rank], 2 * 8 + 5) == 205);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_REDUCE_SCATTER, 2, 0, r.out), ORR_OK);
    assert_int_equal(orr_runtime_finish(r.f.runtime), ORR_OK);
    for (int rank = 0; rank < 4; rank++)
        assert_true(out_value(&r.out[rank], 1) == 600 + 4 * (2 * (float)rank + 1));
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_BROADCAST, 8, 2, r.out), ORR_OK);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_BARRIER, 0, 0, NULL), ORR_OK);
    assert_int_equal(orr_runtime_finish(r.f.runtime), ORR_OK);
    for (int rank = 0; rank < 4; rank++)
        assert_true(out_value(&r.out[rank], 7) == 207);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_REDUCE, 8, 0, r.in), ORR_OK); /* in place */
    assert_int_equal(orr_runtime_finish(r.f.runtime), ORR_OK);
    assert_true(out_value(&r.in[1], 3) == 600 + 4 * 3);
    fixture_close(&r.f);
}

static void a_collective_is_written_with_its_members(void **state) {
    (void)state;
    struct ranks r;
    ranks_open(&r, 32, 128);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_BARRIER, 0, 0, NULL), ORR_OK);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_GATHER, 8, 0, r.out), ORR_OK);
    assert_int_equal(orr_runtime_finish(r.f.runtime), ORR_OK);
    assert_int_equal(record_count(&r.f, ORR_RECORD_MEMBER), 4);
    const struct orr_record_member *member = record_at(&r.f, ORR_RECORD_MEMBER, 0);
    assert_int_equal(member->device, 2);
    const struct orr_record_collective *record = record_at(&r.f, ORR_RECORD_COLLECTIVE, 1);
    assert_string_equal(name_text(&r.f, record->kind), "all_gather");
    assert_int_equal(record->bytes, 128);
    assert_int_equal(record->seq, 1);
    assert_int_equal(record->root, ORR_ID_NONE);
    assert_int_equal(record->header.a, ORR_DTYPE_F32);
    assert_int_equal(record_count(&r.f, ORR_RECORD_COLLECTIVE_MEMBER), 8);
    const struct orr_record_collective_member *of_rank =
        record_at(&r.f, ORR_RECORD_COLLECTIVE_MEMBER, 6);
    assert_int_equal(of_rank->rank, 2);
    const struct orr_record_command *command = command_record(&r.f, of_rank->cmd);
    assert_int_equal(command->header.a, ORR_COMMAND_COLLECTIVE);
    assert_int_equal(command->device, 3);
    assert_string_equal(name_text(&r.f, command->name), "all_gather");
    assert_int_equal(record_count(&r.f, ORR_RECORD_ACCESS), 8); /* in and out of each rank */
    fixture_close(&r.f);
}

static void a_collective_is_enqueued_on_all_ranks_or_none(void **state) {
    (void)state;
    struct ranks r;
    ranks_open(&r, 32, 128);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_REDUCE, 9, 0, r.out), ORR_INVALID);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_GATHER, 9, 0, r.out), ORR_INVALID);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_BROADCAST, 8, 4, r.out), ORR_INVALID);
    assert_string_equal(fixture_error(&r.f), "broadcast with root 4 of 4 ranks");
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_GATHER, UINT64_MAX / 8, 0, r.out), ORR_INVALID);
    struct orr_stream *third = r.streams[3];
    r.streams[3] = r.streams[0];
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_REDUCE, 8, 0, r.out), ORR_INVALID);
    r.streams[3] = third;
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(orr_stream_point(r.streams[rank]).seq, 0);
    assert_int_equal(enqueue(&r, ORR_COLLECTIVE_ALL_REDUCE, 8, 0, r.out), ORR_OK);
    const uint32_t twice[2] = {1, 1}, missing[2] = {1, 9};
    struct orr_communicator *refused;
    assert_int_equal(orr_communicator_create(r.f.runtime, "x", twice, 2, &refused), ORR_INVALID);
    assert_int_equal(orr_communicator_create(r.f.runtime, "x", missing, 2, &refused), ORR_INVALID);
    assert_int_equal(orr_communicator_create(r.f.runtime, "x", NULL, 0, &refused), ORR_INVALID);
    assert_int_equal(orr_communicator_size(r.communicator), 4);
    assert_int_equal(orr_communicator_device(r.communicator, 2), 3);
    orr_communicator_destroy(&r.communicator);
    fixture_close(&r.f);
}

static void a_blocked_or_full_group_is_as_if_it_was_not_called(void **state) {
    (void)state;
    struct fixture f;
    fixture_prepare(&f, manual_open, 2);
    f.specs[0].queue_depth = 1;
    fixture_start(&f);
    struct manual_backend *manual = manual_of(f.runtime);
    struct orr_stream *streams[2] = {communicate(&f, 0), communicate(&f, 1)};
    const uint32_t devices[2] = {0, 1};
    struct orr_communicator *communicator;
    assert_int_equal(orr_communicator_create(f.runtime, "dp", devices, 2, &communicator), ORR_OK);
    struct orr_point points[2];
    manual->block_acts = 1;
    assert_int_equal(orr_collective_enqueue(communicator, ORR_COLLECTIVE_BARRIER, 0, 0, 0, streams,
                                            NULL, NULL, NULL, 0, points),
                     ORR_BLOCKED);
    launch(streams[1], "busy", NULL, NULL);
    assert_int_equal(orr_collective_enqueue(communicator, ORR_COLLECTIVE_BARRIER, 0, 0, 0, streams,
                                            NULL, NULL, "meet", 0, points),
                     ORR_OK); /* waited for room on the second */
    assert_int_equal(manual->streams[1].retired, 1);
    assert_int_equal(points[0].cmd, 2);
    assert_int_equal(points[1].cmd, 3);
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), 1);
    assert_int_equal(orr_stream_sync(streams[0]), ORR_OK);
    assert_int_equal(orr_stream_query(streams[1]), ORR_OK);
    assert_string_equal(name_text(&f, command_record(&f, 3)->name), "meet");
    fixture_close(&f);
}

/* The host runs ahead: a block is handed out again while its first owner's kernel is still queued.
 * That kernel gets its numbers, and whoever reads the new buffer before writing it gets poison. */
static void a_block_reused_under_queued_work_is_undefined_for_its_new_owner(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_stream *s = orr_device_stream(f.runtime, 0, ORR_STREAM_COMPUTE);
    struct orr_buffer *first, *second, *kept;
    assert_int_equal(orr_buffer_alloc(s, 4096, "kept", &kept), ORR_OK);
    assert_int_equal(orr_buffer_alloc(s, 1024, "first", &first), ORR_OK);
    launch(s, "write first", NULL, first);
    launch(s, "read first", first, kept);
    orr_buffer_free(&first);
    assert_int_equal(orr_buffer_alloc(s, 1024, "second", &second), ORR_OK);
    struct orr_point early = launch(s, "read second", second, kept);
    launch(s, "write second", NULL, second);
    struct orr_point late = launch(s, "read it again", second, kept);
    assert_int_equal(orr_stream_sync(s), ORR_OK);
    assert_int_equal(command_record(&f, early.cmd - 1)->header.c, ORR_COMMAND_STATUS_OK);
    assert_int_equal(command_record(&f, early.cmd)->header.c, ORR_COMMAND_STATUS_POISONED);
    assert_int_equal(command_record(&f, late.cmd)->header.c, ORR_COMMAND_STATUS_OK);
    orr_buffer_free(&second);
    orr_buffer_free(&kept);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_fills_and_host_functions_follow_the_stream),
        cmocka_unit_test(host_memory_is_the_only_memory_that_the_host_reads),
        cmocka_unit_test(pinned_memory_lives_until_its_last_user_has_retired),
        cmocka_unit_test(synthetic_numbers_show_names_and_wrong_orders),
        cmocka_unit_test(a_synthetic_digest_depends_on_every_byte_and_its_place),
        cmocka_unit_test(synthetic_values_are_spread_over_minus_one_to_one),
        cmocka_unit_test(reading_a_new_buffer_poisons_what_is_written),
        cmocka_unit_test(collectives_compute_what_they_are_named_for),
        cmocka_unit_test(a_collective_is_written_with_its_members),
        cmocka_unit_test(a_collective_is_enqueued_on_all_ranks_or_none),
        cmocka_unit_test(a_blocked_or_full_group_is_as_if_it_was_not_called),
        cmocka_unit_test(a_block_reused_under_queued_work_is_undefined_for_its_new_owner),
    };
    return cmocka_run_group_tests_name("runtime data", tests, NULL, NULL);
}
