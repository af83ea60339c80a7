#include "tests/runtime_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support.h"

enum { DEVICES = 2, STREAMS = 2 * DEVICES, BUFFERS = 6, BYTES = 2048 };

/* One stream per buffer and time: whoever takes a buffer over waits for the one who had it last. */
struct shared {
    struct orr_buffer *buffer;
    struct orr_event *event; /* recorded after its last use */
    struct orr_stream *user; /* of its last use */
};

struct program {
    struct fixture f;
    struct orr_stream *streams[STREAMS];
    struct shared buffers[DEVICES][BUFFERS];
    struct orr_buffer *pinned[DEVICES];
    struct orr_communicator *communicator;
    uint64_t random, sum;
    uint64_t trace; /* a hash of all records */
};

static void ok(const struct program *p, enum orr_status status) {
    if (status != ORR_OK)
        fail_msg("%s: %s", orr_status_text(status), fixture_error(&p->f));
}

/* The buffer belongs to `stream` from here on. */
static void take_over(struct program *p, struct shared *it, struct orr_stream *stream) {
    if (it->user != stream && it->user)
        ok(p, orr_stream_wait(stream, it->event));
    if (it->user != stream)
        ok(p, orr_buffer_record_stream(it->buffer, stream));
    it->user = stream;
}

static void give_up(struct program *p, struct shared *it) {
    ok(p, orr_event_record(it->event, it->user));
}

static void renew(struct program *p, uint32_t device, struct shared *it) {
    struct orr_stream *owner = p->streams[2 * device + random_below(&p->random, 2)];
    orr_buffer_free(&it->buffer); /* may be in use still */
    ok(p, orr_buffer_alloc(owner, BYTES, "shared", &it->buffer));
    it->user = owner;
    ok(p, orr_stream_fill(owner, it->buffer, 0, BYTES, (uint8_t)random_next(&p->random)));
    give_up(p, it);
}

static void compute(struct program *p, uint32_t device, struct shared *from, struct shared *to) {
    struct orr_stream *stream = p->streams[2 * device + random_below(&p->random, 2)];
    char name[16] = "kernel a";
    name[7] = (char)('a' + random_below(&p->random, 26));
    take_over(p, from, stream);
    if (to != from)
        take_over(p, to, stream);
    launch(stream, name, from->buffer, to->buffer);
    give_up(p, from);
    if (to != from)
        give_up(p, to);
}

static void copy(struct program *p, struct shared *from, struct shared *to) {
    struct orr_stream *stream = p->streams[random_below(&p->random, STREAMS)];
    uint64_t half = BYTES / 2 * random_below(&p->random, 2);
    if (from == to)
        return;
    take_over(p, from, stream);
    take_over(p, to, stream);
    ok(p, orr_stream_copy(stream, to->buffer, half, from->buffer, 0, BYTES / 2));
    give_up(p, from);
    give_up(p, to);
}

static void gather(struct program *p) {
    struct orr_stream *streams[DEVICES];
    struct orr_piece in[DEVICES], out[DEVICES];
    uint64_t which = random_below(&p->random, BUFFERS - 1);
    for (uint32_t i = 0; i < DEVICES; i++) {
        streams[i] = p->streams[2 * i + 1];
        take_over(p, &p->buffers[i][which], streams[i]);
        take_over(p, &p->buffers[i][which + 1], streams[i]);
        in[i] = (struct orr_piece){p->buffers[i][which].buffer, 0};
        out[i] = (struct orr_piece){p->buffers[i][which + 1].buffer, 0};
    }
    ok(p, orr_collective_enqueue(p->communicator, ORR_COLLECTIVE_ALL_GATHER, ORR_DTYPE_F32,
                                 BYTES / 4 / DEVICES, 0, streams, in, out, NULL, 0, NULL));
    for (uint32_t i = 0; i < DEVICES; i++) {
        give_up(p, &p->buffers[i][which]);
        give_up(p, &p->buffers[i][which + 1]);
    }
}

static void read_back(struct program *p, uint32_t device, struct shared *it) {
    unsigned char bytes[BYTES];
    struct orr_stream *stream = p->streams[2 * device + 1];
    take_over(p, it, stream);
    ok(p, orr_stream_copy(stream, p->pinned[device], 0, it->buffer, 0, BYTES));
    give_up(p, it);
    ok(p, orr_stream_sync(stream));
    ok(p, orr_buffer_read(p->pinned[device], 0, bytes, BYTES, -1));
    for (size_t i = 0; i < BYTES; i++)
        p->sum = (p->sum ^ bytes[i]) * 0x100000001b3u;
}

static void program_open(struct program *p, orr_backend_open open, enum orr_runner runner,
                         uint64_t seed) {
    memset(p, 0, sizeof *p);
    p->random = seed;
    fixture_prepare(&p->f, open, DEVICES);
    p->f.config.runner = runner;
    p->f.specs[0].queue_depth = p->f.specs[1].queue_depth = 16; /* hosts block now and then */
    fixture_start(&p->f);
    for (uint32_t i = 0; i < STREAMS; i++) {
        p->streams[i] = orr_device_stream(p->f.runtime, i / 2, (enum orr_stream_kind)(i % 2));
        assert_non_null(p->streams[i]);
    }
    const uint32_t devices[DEVICES] = {0, 1};
    ok(p, orr_communicator_create(p->f.runtime, "all", devices, DEVICES, &p->communicator));
    for (uint32_t i = 0; i < DEVICES; i++) {
        ok(p, orr_buffer_alloc_host(p->f.runtime, BYTES, "pinned", &p->pinned[i]));
        for (uint32_t j = 0; j < BUFFERS; j++) {
            ok(p, orr_event_create(p->f.runtime, NULL, &p->buffers[i][j].event));
            renew(p, i, &p->buffers[i][j]);
        }
    }
}

static void program_step(struct program *p) {
    uint32_t device = (uint32_t)random_below(&p->random, DEVICES);
    uint32_t other = (uint32_t)random_below(&p->random, DEVICES);
    struct shared *a = &p->buffers[device][random_below(&p->random, BUFFERS)];
    struct shared *b = &p->buffers[device][random_below(&p->random, BUFFERS)];
    struct shared *far = &p->buffers[other][random_below(&p->random, BUFFERS)];
    switch (random_below(&p->random, 10)) {
    case 0: renew(p, device, a); break;
    case 1: gather(p); break;
    case 2: read_back(p, device, a); break;
    case 3:
    case 4: copy(p, a, far); break;
    default: compute(p, device, a, b); break;
    }
}

/* Every command that was numbered has a record, and all of them ended well. */
static void program_close(struct program *p) {
    for (uint32_t i = 0; i < DEVICES; i++)
        for (uint32_t j = 0; j < BUFFERS; j++)
            read_back(p, i, &p->buffers[i][j]);
    ok(p, orr_runtime_finish(p->f.runtime));
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    uint64_t commands = 0, last = 0;
    while ((record = orr_record_memory_next(p->f.store, &cursor))) {
        const struct orr_record_command *command = (const void *)record;
        const uint64_t *words = (const void *)record;
        for (uint16_t i = 0; i < record->words; i++)
            p->trace = (p->trace ^ words[i]) * 0x100000001b3u;
        if (record->kind != ORR_RECORD_COMMAND)
            continue;
        assert_int_equal(record->c, ORR_COMMAND_STATUS_OK);
        assert_true(command->enqueue_ns <= command->enqueued_ns);
        assert_true(command->start_ns <= command->finish_ns);
        last = command->id > last ? command->id : last;
        commands++;
    }
    assert_int_equal(commands, last);
    fixture_close(&p->f);
}

uint64_t runtime_program_run(orr_backend_open open, enum orr_runner runner, int steps,
                             uint64_t seed, uint64_t *out_trace) {
    static struct program p;
    program_open(&p, open, runner, seed);
    for (int step = 0; step < steps; step++)
        program_step(&p);
    program_close(&p);
    if (out_trace)
        *out_trace = p.trace;
    return p.sum;
}
