/* Collectives through the runtime: pieces of different sizes, sends, what is recorded of them, and
 * what they put on the wire. (The arithmetic is in test_collective and the conformance suite.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/collective.h"
#include "runtime/cpu/cpu.h"
#include "runtime/program.h"
#include "runtime/runtime_internal.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { RANKS = 4, CELLS = 64 };

struct ranks {
    struct fixture f;
    struct orr_communicator *communicator;
    struct orr_stream *streams[RANKS];
    struct orr_piece in[RANKS], out[RANKS];
};

/* Rank r's input is 100 r + index, its output -1. */
static void open_ranks(struct ranks *r, orr_backend_open open) {
    const uint32_t devices[RANKS] = {2, 0, 3, 1};
    fixture_open(&r->f, open, RANKS);
    assert_int_equal(orr_communicator_create(r->f.runtime, "tp", devices, RANKS, &r->communicator),
                     ORR_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        int32_t in[CELLS], out[CELLS];
        for (int k = 0; k < CELLS; k++) {
            in[k] = (int32_t)(100 * i) + k;
            out[k] = -1;
        }
        r->streams[i] = orr_device_stream(r->f.runtime, devices[i], ORR_STREAM_COMMUNICATE);
        assert_int_equal(orr_buffer_alloc(r->streams[i], sizeof in, "in", &r->in[i].buffer),
                         ORR_OK);
        assert_int_equal(orr_buffer_alloc(r->streams[i], sizeof out, "out", &r->out[i].buffer),
                         ORR_OK);
        r->in[i].offset = r->out[i].offset = 0;
        assert_int_equal(orr__buffer_initialize(r->in[i].buffer, 0, in, sizeof in), ORR_OK);
        assert_int_equal(orr__buffer_initialize(r->out[i].buffer, 0, out, sizeof out), ORR_OK);
    }
}

static int32_t cell(const struct ranks *r, uint32_t rank, size_t index) {
    return ((const int32_t *)r->out[rank].buffer->data)[index];
}

static void finish(struct ranks *r) {
    if (orr_runtime_finish(r->f.runtime) != ORR_OK)
        fail_msg("%s", fixture_error(&r->f));
}

static struct orr_collective_call call_of(struct ranks *r, enum orr_collective_kind kind,
                                          const uint64_t *counts) {
    return (struct orr_collective_call){.kind = kind,
                                        .dtype = ORR_DTYPE_I32,
                                        .counts = counts,
                                        .streams = r->streams,
                                        .inputs = r->in,
                                        .outputs = r->out};
}

static void run_call(struct ranks *r, const struct orr_collective_call *call) {
    if (orr_communicator_enqueue(r->communicator, call, NULL) != ORR_OK)
        fail_msg("%s", fixture_error(&r->f));
    finish(r);
}

static const orr_backend_open backends[] = {orr_sim_open, orr_cpu_open};

static void pieces_of_different_sizes_arrive_in_order(void **state) {
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        struct ranks r;
        uint64_t counts[RANKS] = {3, 0, 5, 1};
        open_ranks(&r, backends[b]);
        struct orr_collective_call call = call_of(&r, ORR_COLLECTIVE_ALL_GATHER, counts);
        run_call(&r, &call);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(cell(&r, rank, 2), 2);
            assert_int_equal(cell(&r, rank, 3), 200); /* rank 1 has nothing */
            assert_int_equal(cell(&r, rank, 8), 300);
            assert_int_equal(cell(&r, rank, 9), -1);
        }
        call.kind = ORR_COLLECTIVE_REDUCE_SCATTER;
        call.reduction = ORR_MAX;
        run_call(&r, &call);
        assert_int_equal(cell(&r, 0, 2), 302);
        assert_int_equal(cell(&r, 2, 4), 307);
        assert_int_equal(cell(&r, 3, 0), 308);
        fixture_close(&r.f);
    }
}

static void counts_may_go_before_the_collective_runs(void **state) {
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        struct ranks r;
        uint64_t counts[RANKS * RANKS];
        open_ranks(&r, backends[b]);
        for (uint64_t i = 0; i < RANKS * RANKS; i++)
            counts[i] = i / RANKS + i % RANKS;
        struct orr_collective_call call = call_of(&r, ORR_COLLECTIVE_ALL_TO_ALL, counts);
        assert_int_equal(orr_communicator_enqueue(r.communicator, &call, NULL), ORR_OK);
        memset(counts, 0xff, sizeof counts);
        finish(&r);
        assert_int_equal(cell(&r, 3, 0), 0 + 1 + 2);       /* of rank 0, behind 0 + 1 + 2 */
        assert_int_equal(cell(&r, 3, 3), 100 + 1 + 2 + 3); /* of rank 1 */
        assert_int_equal(cell(&r, 0, 5), 300 + 2);         /* of rank 3, behind 0 + 1 + 2 */
        fixture_close(&r.f);
    }
}

/* A ring of sends, and one to oneself. */
static uint32_t ring(const struct ranks *r, struct orr_send *sends) {
    for (uint32_t i = 0; i < RANKS; i++)
        sends[i] = (struct orr_send){.source = i,
                                     .target = (i + 1) % RANKS,
                                     .count = 4 + i,
                                     .from = r->in[i],
                                     .to = r->out[(i + 1) % RANKS]};
    sends[RANKS] = (struct orr_send){.source = 1,
                                     .target = 1,
                                     .count = 2,
                                     .from = {r->in[1].buffer, 40},
                                     .to = {r->out[1].buffer, 80}};
    return RANKS + 1;
}

static void a_ring_of_sends_is_one_group(void **state) {
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        struct ranks r;
        struct orr_send sends[RANKS + 1];
        struct orr_point points[RANKS];
        open_ranks(&r, backends[b]);
        assert_int_equal(orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, sends,
                                                  ring(&r, sends), r.streams, NULL, 0, points),
                         ORR_OK);
        finish(&r);
        assert_int_equal(cell(&r, 0, 6), 306);
        assert_int_equal(cell(&r, 0, 7), -1);
        assert_int_equal(cell(&r, 1, 3), 3);
        assert_int_equal(cell(&r, 1, 4), -1);
        assert_int_equal(cell(&r, 1, 21), 111);
        int64_t finish_ns = command_record(&r.f, points[0].cmd)->finish_ns;
        for (int i = 1; i < RANKS; i++)
            assert_int_equal(command_record(&r.f, points[i].cmd)->finish_ns, finish_ns);
        fixture_close(&r.f);
    }
}

static void a_send_is_a_command_of_two_streams(void **state) {
    (void)state;
    struct ranks r;
    struct orr_point points[RANKS];
    open_ranks(&r, orr_sim_open);
    struct orr_send send = {.source = 2, .target = 0, .count = 9, .from = r.in[2], .to = r.out[0]};
    assert_int_equal(orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, &send, 1, r.streams,
                                              "hand over", 0, points),
                     ORR_OK);
    finish(&r);
    assert_int_equal(cell(&r, 0, 8), 208);
    assert_int_equal(points[1].seq + points[3].seq, 0);
    const struct orr_record_command *got = command_record(&r.f, points[0].cmd);
    const struct orr_record_command *sent = command_record(&r.f, points[2].cmd);
    assert_int_equal(got->bytes_written, 36);
    assert_int_equal(got->bytes_read, 0);
    assert_int_equal(sent->bytes_read, 36);
    assert_int_equal(sent->device, 3);
    assert_string_equal(name_text(&r.f, sent->name), "hand over");
    const struct orr_record_collective *record = record_at(&r.f, ORR_RECORD_COLLECTIVE, 0);
    assert_string_equal(name_text(&r.f, record->kind), "send_receive");
    assert_string_equal(name_text(&r.f, record->algorithm), "direct");
    assert_int_equal(record->root, 2);
    assert_int_equal(record->peer, 0);
    assert_int_equal(record->bytes, 36);
    assert_int_equal(record_count(&r.f, ORR_RECORD_COLLECTIVE_MEMBER), 2);
    const struct orr_record_collective_member *member =
        record_at(&r.f, ORR_RECORD_COLLECTIVE_MEMBER, 1);
    assert_int_equal(member->rank, 2);
    fixture_close(&r.f);
}

static void no_sends_are_nothing(void **state) {
    (void)state;
    struct ranks r;
    struct orr_point points[RANKS];
    open_ranks(&r, orr_sim_open);
    assert_int_equal(orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, NULL, 0, r.streams,
                                              NULL, 0, points),
                     ORR_OK);
    assert_int_equal(points[3].seq, 0);
    finish(&r);
    assert_int_equal(record_count(&r.f, ORR_RECORD_COLLECTIVE), 0);
    fixture_close(&r.f);
}

static void a_captured_group_keeps_counts_and_sends(void **state) {
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        struct ranks r;
        struct orr_send sends[RANKS + 1];
        struct orr_program *program;
        uint64_t counts[RANKS] = {1, 2, 3, 4};
        open_ranks(&r, backends[b]);
        struct orr_stream *side = orr_device_stream(r.f.runtime, 0, ORR_STREAM_COMPUTE);
        struct orr_collective_call call = call_of(&r, ORR_COLLECTIVE_ALL_GATHER, counts);
        assert_int_equal(orr_program_begin(r.f.runtime, &program), ORR_OK);
        assert_int_equal(orr_communicator_enqueue(r.communicator, &call, NULL), ORR_OK);
        assert_int_equal(orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, sends,
                                                  ring(&r, sends), r.streams, NULL, 0, NULL),
                         ORR_OK);
        assert_int_equal(orr_program_end(program), ORR_OK);
        memset(counts, 0, sizeof counts);
        for (int i = 0; i < 2; i++)
            assert_int_equal(orr_program_launch(program, side), ORR_OK);
        finish(&r);
        assert_int_equal(cell(&r, 0, 9), 303); /* gathered */
        assert_int_equal(cell(&r, 2, 3), 103); /* sent over what was gathered */
        assert_int_equal(cell(&r, 2, 5), 202);
        assert_int_equal(record_count(&r.f, ORR_RECORD_COLLECTIVE), 4);
        assert_int_equal(record_count(&r.f, ORR_RECORD_COLLECTIVE_MEMBER), 4 * RANKS);
        orr_program_destroy(&program);
        fixture_close(&r.f);
    }
}

static void refuses(struct ranks *r, struct orr_collective_call call, const char *words) {
    assert_int_equal(orr_communicator_enqueue(r->communicator, &call, NULL), ORR_INVALID);
    if (!strstr(fixture_error(&r->f), words))
        fail_msg("'%s' does not say '%s'", fixture_error(&r->f), words);
}

static void what_makes_no_sense_is_refused_and_leaves_nothing(void **state) {
    (void)state;
    struct ranks r;
    uint64_t counts[RANKS * RANKS] = {1, 1, CELLS, 1}, huge[RANKS] = {1, UINT64_MAX / 8, 1, 1};
    open_ranks(&r, orr_sim_open);
    refuses(&r, call_of(&r, ORR_COLLECTIVE_ALL_GATHER, counts), "outside of buffer 'out'");
    refuses(&r, call_of(&r, ORR_COLLECTIVE_GATHER, huge), "too large");
    refuses(&r, call_of(&r, ORR_COLLECTIVE_ALL_REDUCE, counts), "no pieces of different sizes");
    refuses(&r, call_of(&r, ORR_COLLECTIVE_SEND_RECEIVE, NULL), "unknown kind");
    struct orr_collective_call call = call_of(&r, ORR_COLLECTIVE_REDUCE, NULL);
    call.count = 1;
    call.root = RANKS;
    refuses(&r, call, "reduce with root 4 of 4 ranks");
    call.root = 0;
    call.reduction = (enum orr_reduction)9;
    refuses(&r, call, "unknown reduction");
    call = call_of(&r, ORR_COLLECTIVE_ALL_TO_ALL, NULL);
    call.count = 1;
    call.outputs = r.in;
    refuses(&r, call, "all_to_all in place");
    struct orr_send send = {.source = 1, .target = RANKS, .from = r.in[1], .to = r.out[0]};
    assert_int_equal(
        orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, &send, 1, r.streams, NULL, 0, NULL),
        ORR_INVALID);
    assert_non_null(strstr(fixture_error(&r.f), "from rank 1 to rank 4 of 4"));
    send.target = 3; /* but the piece is rank 0's */
    send.count = 1;
    assert_int_equal(
        orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, &send, 1, r.streams, NULL, 0, NULL),
        ORR_INVALID);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(orr_stream_point(r.streams[rank]).seq, 0);
    fixture_close(&r.f);
}

static void what_reaches_beyond_a_piece_is_refused(void **state) {
    (void)state;
    struct ranks r;
    open_ranks(&r, orr_sim_open);
    const uint64_t whole[RANKS] = {16, 16, 16, 16}, shorter[RANKS] = {16, 16, 12, 16};
    struct orr_collective_call call = call_of(&r, ORR_COLLECTIVE_ALL_REDUCE, NULL);
    call.count = 4;
    call.input_bytes = whole;
    call.output_bytes = shorter;
    refuses(&r, call, "all_reduce: rank 2's output is a range of 12 bytes of buffer 'out'");
    call.input_bytes = shorter;
    refuses(&r, call, "rank 2's input is a range of 12 bytes of buffer 'in', expected 16");
    call.input_bytes = call.output_bytes = whole;
    run_call(&r, &call);
    assert_int_equal(cell(&r, 2, 3), 0 + 100 + 200 + 300 + 4 * 3);
    assert_int_equal(cell(&r, 2, 4), -1);
    fixture_close(&r.f);
}

/* Do two ends share a byte, of which at least one is received? */
static bool clash(const struct orr_send *a, bool a_received, const struct orr_send *b,
                  bool b_received) {
    const struct orr_piece *x = a_received ? &a->to : &a->from;
    const struct orr_piece *y = b_received ? &b->to : &b->from;
    return (a_received || b_received) && x->buffer == y->buffer &&
           x->offset < y->offset + 4 * b->count && y->offset < x->offset + 4 * a->count;
}

static bool clashes(const struct orr_send *sends, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i; k < count; k++)
            for (int ends = 0; ends < 4; ends++)
                if ((i != k || (ends & 1) != ends >> 1) && sends[i].count > 0 &&
                    sends[k].count > 0 && clash(&sends[i], ends & 1, &sends[k], ends >> 1))
                    return true;
    return false;
}

static struct orr_send random_send(struct ranks *r, uint64_t *random) {
    struct orr_send send = {.source = (uint32_t)random_below(random, RANKS),
                            .target = (uint32_t)random_below(random, RANKS),
                            .count = random_below(random, 6)};
    send.from = random_below(random, 2) ? r->in[send.source] : r->out[send.source];
    send.to = random_below(random, 3) ? r->out[send.target] : r->in[send.target];
    send.from.offset = 4 * random_below(random, CELLS - 6);
    send.to.offset = 4 * random_below(random, CELLS - 6);
    return send;
}

static void sends_of_a_group_overlap_nothing_that_is_received(void **state) {
    (void)state;
    struct ranks r;
    int refused = 0;
    uint64_t random = random_seed(7);
    open_ranks(&r, orr_sim_open);
    for (int turn = 0; turn < 3000; turn++) {
        struct orr_send sends[5];
        uint32_t count = 1 + (uint32_t)random_below(&random, 5);
        for (uint32_t i = 0; i < count; i++)
            sends[i] = random_send(&r, &random);
        bool expected = clashes(sends, count);
        enum orr_status status = orr_send_receive_enqueue(r.communicator, ORR_DTYPE_I32, sends,
                                                          count, r.streams, NULL, 0, NULL);
        if (status != (expected ? ORR_INVALID : ORR_OK))
            fail_msg("turn %d: %s", turn, fixture_error(&r.f));
        if (expected)
            assert_non_null(strstr(fixture_error(&r.f), "receives overlaps what send"));
        refused += expected;
    }
    assert_in_range(refused, 300, 2700);
    finish(&r);
    fixture_close(&r.f);
}

static void without_memory(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 2};
    struct orr_error error;
    struct orr_runtime *runtime;
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK)
        return;
    const uint32_t devices[2] = {0, 1};
    const uint64_t counts[4] = {1, 2, 3, 4};
    struct orr_communicator *pair;
    struct orr_stream *streams[2];
    struct orr_piece in[2] = {{0}}, out[2] = {{0}};
    bool ready = orr_communicator_create(runtime, "pair", devices, 2, &pair) == ORR_OK;
    for (uint32_t i = 0; ready && i < 2; i++) {
        streams[i] = orr_device_stream(runtime, i, ORR_STREAM_COMMUNICATE);
        ready = streams[i] && orr_buffer_alloc(streams[i], 64, "in", &in[i].buffer) == ORR_OK &&
                orr_buffer_alloc(streams[i], 64, "out", &out[i].buffer) == ORR_OK;
    }
    if (ready) {
        struct orr_collective_call call = {.kind = ORR_COLLECTIVE_ALL_TO_ALL,
                                           .dtype = ORR_DTYPE_F32,
                                           .counts = counts,
                                           .streams = streams,
                                           .inputs = in,
                                           .outputs = out};
        struct orr_send sends[2] = {{.target = 1, .count = 4, .from = in[0], .to = out[1]},
                                    {.source = 1, .count = 4, .from = in[1], .to = out[0]}};
        enum orr_status first = orr_communicator_enqueue(pair, &call, NULL);
        enum orr_status second =
            orr_send_receive_enqueue(pair, ORR_DTYPE_F32, sends, 2, streams, NULL, 0, NULL);
        assert_true(first == ORR_OK || first == ORR_NO_MEMORY);
        assert_true(second == ORR_OK || second == ORR_NO_MEMORY);
    }
    (void)!orr_runtime_finish(runtime);
    orr_runtime_destroy(&runtime);
}

static void running_out_of_memory_anywhere_leaks_nothing(void **state) {
    (void)state;
    assert_true(fail_each_request(without_memory, NULL) > 20);
}

/* ---- traffic ------------------------------------------------------------------------------ */

/* The table of runtime/collective.h for pieces of 4 n bytes: hops and bytes by closed forms. */
static void equal_pieces_put_the_closed_forms_on_the_wire(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 16; n++) {
        uint64_t s = 4 * 240 * n, many = n > 1;
        const struct {
            enum orr_collective_kind kind;
            uint64_t hops, bytes;
        } table[] = {
            {ORR_COLLECTIVE_ALL_REDUCE, 2 * (n - 1), 2 * (n - 1) * s / n},
            {ORR_COLLECTIVE_ALL_GATHER, n - 1, (n - 1) * s},
            {ORR_COLLECTIVE_REDUCE_SCATTER, n - 1, (n - 1) * s},
            {ORR_COLLECTIVE_BROADCAST, n - 1, many * s},
            {ORR_COLLECTIVE_REDUCE, n - 1, many * s},
            {ORR_COLLECTIVE_GATHER, many, (n - 1) * s},
            {ORR_COLLECTIVE_SCATTER, many, (n - 1) * s},
            {ORR_COLLECTIVE_ALL_TO_ALL, many, (n - 1) * s},
            {ORR_COLLECTIVE_BARRIER, 2 * (n - 1), 0},
        };
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            struct orr_collective c = {.kind = table[i].kind,
                                       .dtype = ORR_DTYPE_F32,
                                       .ranks = (uint32_t)n,
                                       .count = 240 * n};
            struct orr_traffic traffic = orr_collective_traffic(&c);
            assert_int_equal(traffic.hops, table[i].hops);
            assert_int_equal(traffic.bytes, table[i].bytes);
        }
    }
}

static uint64_t bytes_of(enum orr_collective_kind kind, const uint64_t *counts, uint32_t root) {
    struct orr_collective c = {
        .kind = kind, .dtype = ORR_DTYPE_BOOL, .ranks = 3, .root = root, .counts = counts};
    return orr_collective_traffic(&c).bytes;
}

static void uneven_pieces_load_the_busiest_link(void **state) {
    (void)state;
    const uint64_t pieces[3] = {5, 0, 7};
    assert_int_equal(bytes_of(ORR_COLLECTIVE_ALL_GATHER, pieces, 0), 12); /* all but nothing */
    assert_int_equal(bytes_of(ORR_COLLECTIVE_REDUCE_SCATTER, pieces, 0), 12);
    assert_int_equal(bytes_of(ORR_COLLECTIVE_GATHER, pieces, 2), 5);
    assert_int_equal(bytes_of(ORR_COLLECTIVE_SCATTER, pieces, 0), 7);
    const uint64_t pairs[9] = {100, 1, 2, 3, 100, 4, 50, 6, 100};
    assert_int_equal(bytes_of(ORR_COLLECTIVE_ALL_TO_ALL, pairs, 0), 56); /* rank 2 sends 50 + 6 */
    const uint64_t turned[9] = {100, 1, 50, 3, 100, 6, 2, 4, 100};
    assert_int_equal(bytes_of(ORR_COLLECTIVE_ALL_TO_ALL, turned, 0), 56); /* and here gets them */
    const struct orr_transfer transfers[3] = {{.source = 0, .target = 1, .count = 5},
                                              {.source = 2, .target = 1, .count = 6},
                                              {.source = 1, .target = 1, .count = 99}};
    struct orr_collective c = {.kind = ORR_COLLECTIVE_SEND_RECEIVE,
                               .dtype = ORR_DTYPE_F16,
                               .ranks = 3,
                               .transfers = transfers,
                               .transfer_count = 3};
    assert_int_equal(orr_collective_traffic(&c).bytes, 22);
}

static void an_all_to_all_takes_as_long_as_its_busiest_link(void **state) {
    (void)state;
    struct ranks r;
    struct orr_point points[RANKS];
    fixture_prepare(&r.f, orr_sim_open, RANKS);
    for (int i = 0; i < RANKS; i++) {
        r.f.specs[i].peer_bandwidth = 1000000000; /* one byte a nanosecond */
        r.f.specs[i].peer_latency_ns = 700;
        r.f.specs[i].kernel_fixed_ns = 0;
    }
    fixture_start(&r.f);
    const uint32_t devices[RANKS] = {0, 1, 2, 3};
    assert_int_equal(orr_communicator_create(r.f.runtime, "ep", devices, RANKS, &r.communicator),
                     ORR_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        r.streams[i] = orr_device_stream(r.f.runtime, i, ORR_STREAM_COMMUNICATE);
        r.in[i].offset = r.out[i].offset = 0;
        assert_int_equal(orr_buffer_alloc(r.streams[i], 4000, "in", &r.in[i].buffer), ORR_OK);
        assert_int_equal(orr_buffer_alloc(r.streams[i], 4000, "out", &r.out[i].buffer), ORR_OK);
        assert_int_equal(orr_stream_fill(r.streams[i], r.in[i].buffer, 0, 4000, 1), ORR_OK);
    }
    struct orr_collective_call call = call_of(&r, ORR_COLLECTIVE_ALL_TO_ALL, NULL);
    call.count = 250;
    assert_int_equal(orr_communicator_enqueue(r.communicator, &call, points), ORR_OK);
    finish(&r);
    const struct orr_record_command *last = command_record(&r.f, points[3].cmd);
    assert_int_equal(last->finish_ns - last->start_ns, 700 + 3 * 1000);
    /* What a real machine's trace has beside its own time; a simulated one needs none. */
    const struct orr_record_collective *record = record_at(&r.f, ORR_RECORD_COLLECTIVE, 0);
    assert_true(record->modelled_ns == ORR_TIME_NONE);
    struct orr_collective c = {
        .kind = ORR_COLLECTIVE_ALL_TO_ALL, .dtype = ORR_DTYPE_I32, .ranks = RANKS, .count = 250};
    assert_int_equal(orr_collective_link_ns(&c, &r.f.specs[0], false), 700 + 3 * 1000);
    assert_true(orr_collective_link_ns(&c, &r.f.specs[0], true) == ORR_TIME_NONE); /* no network */
    fixture_close(&r.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_different_sizes_arrive_in_order),
        cmocka_unit_test(counts_may_go_before_the_collective_runs),
        cmocka_unit_test(a_ring_of_sends_is_one_group),
        cmocka_unit_test(a_send_is_a_command_of_two_streams),
        cmocka_unit_test(no_sends_are_nothing),
        cmocka_unit_test(a_captured_group_keeps_counts_and_sends),
        cmocka_unit_test(what_makes_no_sense_is_refused_and_leaves_nothing),
        cmocka_unit_test(what_reaches_beyond_a_piece_is_refused),
        cmocka_unit_test(sends_of_a_group_overlap_nothing_that_is_received),
        cmocka_unit_test(running_out_of_memory_anywhere_leaks_nothing),
        cmocka_unit_test(equal_pieces_put_the_closed_forms_on_the_wire),
        cmocka_unit_test(uneven_pieces_load_the_busiest_link),
        cmocka_unit_test(an_all_to_all_takes_as_long_as_its_busiest_link),
    };
    return cmocka_run_group_tests_name("communicator", tests, NULL, NULL);
}
