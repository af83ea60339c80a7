/* How many operations a second the happens-before check of stream programs takes. All programs are
 * safe, so all of each is checked.
 *
 *     mixed       64 streams, 4 hosts: kernels with events and waits, host syncs, blocks handed on
 *     readers     one buffer, written by one stream, read by all 64, with events both ways
 *     legacy      kernels on the legacy stream and on 63 blocking ones, by turns
 *     chunks      one buffer in 10,000 disjoint chunks, and reads of half of it
 *     streams     10,000 streams that fork from one and join it again
 *     syncs       64 streams, a device sync after every fourth operation
 *     silent      64 streams of kernels; nobody ever syncs
 *
 * The floor is one join of two clocks of 64 entries per operation, with nothing else done. CPU time
 * of the thread, median of rounds. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "hazards/check.h"

enum { STREAMS = 64, HOSTS = 4, BUFFERS = 256, READERS = 4 };

struct generator {
    struct orr_stream_program *program;
    struct orr_memory memory;
    uint64_t state;
    uint32_t streams[STREAMS];
};

static uint32_t below(struct generator *g, uint32_t count) {
    g->state ^= g->state >> 12;
    g->state ^= g->state << 25;
    g->state ^= g->state >> 27;
    return (uint32_t)((g->state * 0x2545f4914f6cdd1du >> 33) % count);
}

static uint32_t name(struct generator *g, enum orr_name_space space, const char *format,
                     uint32_t number) {
    char text[32];
    uint32_t id;
    snprintf(text, sizeof text, "%s%u", format, number);
    bench_check(orr_stream_program_name(g->program, space, text, &id), "name");
    return id;
}

static void start(struct generator *g, enum orr_stream_sync first, enum orr_stream_sync rest,
                  uint32_t streams) {
    uint32_t id;
    g->memory = orr_memory_system();
    g->state = 88172645463325252u;
    bench_check(orr_stream_program_create(&g->memory, &g->program), "program");
    for (uint32_t i = 0; i < streams; i++) {
        char text[32];
        snprintf(text, sizeof text, "s%u", i);
        bench_check(orr_stream_program_stream(g->program, text, 0, i == 0 ? first : rest, &id),
                    "stream");
    }
    for (uint32_t i = 1; i < HOSTS; i++)
        name(g, ORR_NAME_HOST, "h", i);
}

static void add(struct generator *g, enum orr_stream_op_kind kind, uint32_t stream, uint32_t object,
                const struct orr_stream_access *accesses, uint32_t count) {
    struct orr_stream_op op = orr_stream_op(kind);
    op.host = stream == ORR_NONE ? 0 : stream % HOSTS;
    op.stream = stream;
    op.object = object;
    bench_check(orr_stream_program_add(g->program, &op, accesses, count), "operation");
}

static struct orr_stream_access access(uint32_t buffer, bool is_write) {
    return (struct orr_stream_access){
        .buffer = buffer, .hi = ORR_RANGE_WHOLE, .is_write = is_write};
}

/* --- mixed --- */

struct slot {
    uint32_t buffer, generation; /* name at the moment */
    uint32_t writer, reader[READERS];
    uint32_t reader_count;
    uint32_t write_event, read_events[READERS];
};

static void wait_for(struct generator *g, uint32_t stream, uint32_t other, uint32_t event) {
    if (other != stream)
        add(g, ORR_OP_WAIT, stream, event, NULL, 0);
}

static void host_syncs(struct generator *g, uint32_t event) {
    add(g, ORR_OP_SYNC_EVENT, ORR_NONE, event, NULL, 0);
}

/* The block of a slot goes to a new name, once its writer knows that nobody uses it; the host
 * hears of it too. */
static void hand_on(struct generator *g, struct slot *slot, uint32_t *generation) {
    for (uint32_t i = 0; i < slot->reader_count; i++)
        wait_for(g, slot->writer, slot->reader[i], slot->read_events[i]);
    add(g, ORR_OP_RECORD, slot->writer, slot->write_event, NULL, 0);
    host_syncs(g, slot->write_event);
    slot->reader_count = 0;
    uint32_t old = slot->buffer;
    if (slot->generation == 0) { /* it was there from the start */
        slot->generation = 1;
        return;
    }
    struct orr_stream_op op = orr_stream_op(ORR_OP_FREE);
    op.object = old;
    bench_check(orr_stream_program_add(g->program, &op, NULL, 0), "free");
    slot->buffer = name(g, ORR_NAME_BUFFER, "n", (*generation)++);
    op.kind = ORR_OP_ALLOC;
    op.object = slot->buffer;
    op.other = old;
    bench_check(orr_stream_program_add(g->program, &op, NULL, 0), "alloc");
}

/* A kernel that reads one buffer and writes another, all of it or a part. */
static void mixed_kernel(struct generator *g, struct slot *from, struct slot *to, uint32_t stream) {
    struct orr_stream_access accesses[2] = {access(from->buffer, false), access(to->buffer, true)};
    if (below(g, 4) == 0)
        accesses[0].hi = 1024 * (1 + below(g, 4));
    if (below(g, 4) == 0) {
        accesses[1].lo = 1024 * below(g, 4);
        accesses[1].hi = accesses[1].lo + 1024;
    }
    wait_for(g, stream, from->writer, from->write_event);
    wait_for(g, stream, to->writer, to->write_event);
    for (uint32_t i = 0; i < to->reader_count; i++)
        wait_for(g, stream, to->reader[i], to->read_events[i]);
    add(g, ORR_OP_KERNEL, stream, ORR_NONE, accesses, 2);
    add(g, ORR_OP_RECORD, stream, to->write_event, NULL, 0);
    to->writer = stream;
    to->reader_count = 0;
    add(g, ORR_OP_RECORD, stream, from->read_events[from->reader_count], NULL, 0);
    from->reader[from->reader_count++] = stream;
}

static void make_mixed(struct generator *g, uint32_t count) {
    static struct slot slots[BUFFERS];
    uint32_t generation = 0;
    start(g, ORR_STREAM_NB, ORR_STREAM_NB, STREAMS);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        slots[i] = (struct slot){.buffer = name(g, ORR_NAME_BUFFER, "b", i), .writer = i % STREAMS};
        slots[i].write_event = name(g, ORR_NAME_EVENT, "w", i);
        for (uint32_t j = 0; j < READERS; j++)
            slots[i].read_events[j] = name(g, ORR_NAME_EVENT, "r", i * READERS + j);
    }
    while (g->program->op_count < count) {
        struct slot *from = &slots[below(g, BUFFERS)], *to = &slots[below(g, BUFFERS)];
        if (below(g, 40) == 0)
            hand_on(g, to, &generation);
        if (from != to && from->reader_count < READERS)
            mixed_kernel(g, from, to, below(g, STREAMS));
        else if (from != to)
            mixed_kernel(g, to->reader_count < READERS ? to : from, from, below(g, STREAMS));
        for (uint32_t i = 0; i < BUFFERS; i++)
            if (slots[i].reader_count == READERS) /* room for the next */
                hand_on(g, &slots[i], &generation);
    }
}

/* --- shapes --- */

static void make_readers(struct generator *g, uint32_t count) {
    uint32_t buffer, written, read[STREAMS];
    start(g, ORR_STREAM_NB, ORR_STREAM_NB, STREAMS);
    buffer = name(g, ORR_NAME_BUFFER, "b", 0);
    written = name(g, ORR_NAME_EVENT, "w", 0);
    for (uint32_t i = 0; i < STREAMS; i++)
        read[i] = name(g, ORR_NAME_EVENT, "r", i);
    struct orr_stream_access reads = access(buffer, false), writes = access(buffer, true);
    while (g->program->op_count < count) {
        add(g, ORR_OP_KERNEL, 0, ORR_NONE, &writes, 1);
        add(g, ORR_OP_RECORD, 0, written, NULL, 0);
        for (uint32_t i = 1; i < STREAMS; i++) {
            add(g, ORR_OP_WAIT, i, written, NULL, 0);
            add(g, ORR_OP_KERNEL, i, ORR_NONE, &reads, 1);
            add(g, ORR_OP_RECORD, i, read[i], NULL, 0);
        }
        for (uint32_t i = 1; i < STREAMS; i++)
            add(g, ORR_OP_WAIT, 0, read[i], NULL, 0);
    }
}

static void make_legacy(struct generator *g, uint32_t count) {
    uint32_t buffers[STREAMS];
    start(g, ORR_STREAM_LEGACY, ORR_STREAM_BL, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        buffers[i] = name(g, ORR_NAME_BUFFER, "b", i);
    while (g->program->op_count < count) {
        uint32_t stream = 1 + below(g, STREAMS - 1);
        struct orr_stream_access all = access(buffers[below(g, STREAMS)], true);
        struct orr_stream_access own = access(buffers[stream], true);
        add(g, ORR_OP_KERNEL, 0, ORR_NONE, &all, 1);
        add(g, ORR_OP_KERNEL, stream, ORR_NONE, &own, 1);
    }
}

static void make_chunks(struct generator *g, uint32_t count) {
    enum { CHUNKS = 10000, BYTES = 100, PHASE = 4000 };
    uint32_t done[STREAMS], begun;
    start(g, ORR_STREAM_NB, ORR_STREAM_NB, STREAMS);
    uint32_t buffer = name(g, ORR_NAME_BUFFER, "b", 0);
    begun = name(g, ORR_NAME_EVENT, "begun", 0);
    for (uint32_t i = 0; i < STREAMS; i++)
        done[i] = name(g, ORR_NAME_EVENT, "done", i);
    for (uint32_t phase = 0; g->program->op_count < count; phase++) {
        for (uint32_t i = 0; i < PHASE; i++) {
            uint32_t chunk = below(g, CHUNKS), wide = below(g, CHUNKS / 2) * BYTES;
            struct orr_stream_access piece = {.buffer = buffer,
                                              .lo = (uint64_t)chunk * BYTES,
                                              .hi = ((uint64_t)chunk + 1) * BYTES,
                                              .is_write = true};
            struct orr_stream_access half = {
                .buffer = buffer, .lo = wide, .hi = wide + CHUNKS / 2 * BYTES};
            /* Phases of pieces, each with its stream, and phases of reads. */
            add(g, ORR_OP_KERNEL, phase % 2 ? below(g, STREAMS) : chunk % STREAMS, ORR_NONE,
                phase % 2 ? &half : &piece, 1);
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            add(g, ORR_OP_RECORD, i, done[i], NULL, 0);
            add(g, ORR_OP_WAIT, 0, done[i], NULL, 0);
        }
        add(g, ORR_OP_RECORD, 0, begun, NULL, 0);
        for (uint32_t i = 1; i < STREAMS; i++)
            add(g, ORR_OP_WAIT, i, begun, NULL, 0);
    }
}

static void make_streams(struct generator *g, uint32_t count) {
    enum { MANY = 10000 };
    start(g, ORR_STREAM_NB, ORR_STREAM_NB, MANY);
    uint32_t begun = name(g, ORR_NAME_EVENT, "begun", 0);
    uint32_t shared = name(g, ORR_NAME_BUFFER, "b", 0);
    struct orr_stream_access reads = access(shared, false), writes = access(shared, true);
    while (g->program->op_count < count) {
        add(g, ORR_OP_KERNEL, 0, ORR_NONE, &writes, 1);
        add(g, ORR_OP_RECORD, 0, begun, NULL, 0);
        for (uint32_t i = 1; i < MANY; i++) {
            uint32_t event = name(g, ORR_NAME_EVENT, "e", i);
            add(g, ORR_OP_WAIT, i, begun, NULL, 0);
            add(g, ORR_OP_KERNEL, i, ORR_NONE, &reads, 1);
            add(g, ORR_OP_RECORD, i, event, NULL, 0);
            add(g, ORR_OP_WAIT, 0, event, NULL, 0);
        }
    }
}

static void make_syncs(struct generator *g, uint32_t count) {
    uint32_t buffers[STREAMS];
    start(g, ORR_STREAM_NB, ORR_STREAM_NB, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        buffers[i] = name(g, ORR_NAME_BUFFER, "b", i);
    while (g->program->op_count < count) {
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t stream = below(g, STREAMS);
            struct orr_stream_access own = access(buffers[stream], true);
            add(g, ORR_OP_KERNEL, stream, ORR_NONE, &own, 1);
        }
        add(g, ORR_OP_SYNC_DEVICE, ORR_NONE, ORR_NONE, NULL, 0);
    }
}

static void make_silent(struct generator *g, uint32_t count) {
    uint32_t buffers[STREAMS];
    start(g, ORR_STREAM_NB, ORR_STREAM_NB, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        buffers[i] = name(g, ORR_NAME_BUFFER, "b", i);
    while (g->program->op_count < count) {
        uint32_t stream = below(g, STREAMS);
        struct orr_stream_access own = access(buffers[stream], true);
        add(g, ORR_OP_KERNEL, stream, ORR_NONE, &own, 1);
    }
}

/* --- measuring --- */

static double floor_s(uint32_t count) {
    static uint32_t clocks[STREAMS][STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++)
        for (uint32_t j = 0; j < STREAMS; j++)
            clocks[i][j] = i * 31 + j * 7 % 64;
    double begin_s = bench_thread_cpu_s();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *to = clocks[i % STREAMS], *from = clocks[i * 7 % STREAMS];
        for (uint32_t j = 0; j < STREAMS; j++)
            to[j] = to[j] > from[j] ? to[j] : from[j];
        to[i % STREAMS]++;
        __asm__ volatile("" : : "r"(clocks) : "memory");
    }
    return bench_thread_cpu_s() - begin_s;
}

static void measure(const char *title, void (*make)(struct generator *g, uint32_t count),
                    uint32_t count) {
    double check[BENCH_ROUNDS_MAX], bare[BENCH_ROUNDS_MAX];
    struct generator g = {0};
    make(&g, count);
    count = g.program->op_count;
    for (int i = -1; i < bench_rounds(); i++) {
        struct orr_check_verdict verdict;
        double begin_s = bench_thread_cpu_s();
        bench_check(orr_check_order(g.program, &verdict), "check");
        double spent_s = bench_thread_cpu_s() - begin_s;
        if (verdict.kind != ORR_CHECK_NO_RACE)
            fprintf(stderr, "%s: %s\n", title, verdict.message);
        bench_must(verdict.kind == ORR_CHECK_NO_RACE, "the program should be safe");
        orr_check_verdict_clear(&verdict);
        if (i >= 0) {
            check[i] = spent_s;
            bare[i] = floor_s(count);
        }
    }
    double check_s = bench_median(check, bench_rounds()),
           bare_s = bench_median(bare, bench_rounds());
    bench_valuef(count, "operations", "hazards_order_%s_count", title);
    bench_valuef(count / check_s, "operations/s", "hazards_order_%s", title);
    bench_valuef(check_s / count * 1e9, "ns", "hazards_order_%s_ns", title);
    bench_valuef(check_s / bare_s, "ratio", "hazards_order_%s_to_floor", title);
    orr_stream_program_destroy(&g.program);
}

int main(void) {
    uint32_t count = bench_quick() ? 200000 : 1000000;
    bench_keep_memory();
    measure("mixed", make_mixed, count);
    measure("readers", make_readers, count);
    measure("legacy", make_legacy, count);
    measure("chunks", make_chunks, count);
    measure("streams", make_streams, count);
    measure("syncs", make_syncs, count);
    measure("silent", make_silent, count);
    return 0;
}
