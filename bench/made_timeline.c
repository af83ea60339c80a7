#include "bench/made_timeline.h"

#include "bench/bench.h"

enum { DEVICES = 8, OPERATORS = 40, ROUND = 20 };

static void *need_block(void *block) {
    bench_must(block, "out of memory");
    return block;
}

struct maker {
    struct orr_timeline *t;
    int64_t host_ns, free_ns[2 * DEVICES];
    uint64_t seq[2 * DEVICES];
};

static struct orr_timeline_command *add(struct maker *m, enum orr_command_kind kind,
                                        uint32_t stream, const char *name, int64_t service) {
    struct orr_timeline_command *c = &m->t->commands[m->t->command_count++];
    int64_t start = m->host_ns + 4000 > m->free_ns[stream] ? m->host_ns + 4000 : m->free_ns[stream];
    *c = (struct orr_timeline_command){.id = m->t->command_count,
                                       .seq = ++m->seq[stream],
                                       .device = stream / 2,
                                       .stream = stream,
                                       .kind = kind,
                                       .status = ORR_COMMAND_STATUS_OK,
                                       .dtype = ORR_DTYPE_BF16,
                                       .name = name,
                                       .event = "",
                                       .site = "",
                                       .ts_source = "",
                                       .correlation = ORR_CORRELATION_NONE,
                                       .grid = "",
                                       .enqueue_ns = m->host_ns,
                                       .enqueued_ns = m->host_ns + 3000,
                                       .ready_ns = start,
                                       .start_ns = start,
                                       .finish_ns = start + service};
    m->host_ns += 3500;
    m->free_ns[stream] = c->finish_ns;
    return c;
}

static void add_kernel(struct maker *m, uint32_t device, uint64_t i) {
    struct orr_timeline_command *c =
        add(m, ORR_COMMAND_KERNEL, 2 * device, "kernel", 1000 + (int64_t)(i * 7919 % 60000));
    c->op = 1 + i % OPERATORS;
    c->flops = 1000000 * (i % 50);
    c->bytes_read = 30000 * (i % 70);
    c->bytes_written = 10000;
}

static void add_edge(struct maker *m, uint64_t src, uint64_t dst) {
    m->t->edges[m->t->edge_count++] = (struct orr_timeline_edge){src, dst, ORR_EDGE_EVENT};
}

/* Record on the compute stream, wait and collective on the other one. */
static void add_exchange(struct maker *m, uint32_t device) {
    uint64_t record = add(m, ORR_COMMAND_RECORD, 2 * device, "record", 0)->id;
    uint32_t stream = 2 * device + 1;
    if (m->free_ns[stream] < m->free_ns[2 * device]) {
        m->free_ns[stream] = m->free_ns[2 * device];
    }
    uint64_t wait = add(m, ORR_COMMAND_WAIT, stream, "wait", 0)->id;
    add(m, ORR_COMMAND_COLLECTIVE, stream, "all_reduce", 50000);
    add_edge(m, record, wait);
}

static void add_sync(struct maker *m, uint32_t device) {
    struct orr_timeline *t = m->t;
    const struct orr_timeline_command *last = &t->commands[t->command_count - 1];
    int64_t end = m->free_ns[2 * device] > m->host_ns ? m->free_ns[2 * device] : m->host_ns;
    t->syncs[t->sync_count] = (struct orr_timeline_sync){.id = t->sync_count + 1,
                                                         .cmd = last->id,
                                                         .stream = ORR_ID_NONE,
                                                         .device = ORR_ID_NONE,
                                                         .kind = ORR_SYNC_STREAM,
                                                         .target = "",
                                                         .begin_ns = m->host_ns,
                                                         .end_ns = end + 500};
    t->sync_count++;
    m->host_ns = end + 500;
}

static void add_machine(struct orr_timeline *t, const struct orr_memory *memory) {
    t->meta = need_block(orr_memory_alloc(memory, sizeof *t->meta));
    t->meta[t->meta_count++] = (struct orr_timeline_meta){"backend", "sim"};
    t->hosts = need_block(orr_memory_alloc(memory, sizeof *t->hosts));
    t->hosts[t->host_count++] = (struct orr_timeline_host){.name = "main", .label = ""};
    t->devices = need_block(orr_memory_alloc(memory, DEVICES * sizeof *t->devices));
    t->streams = need_block(orr_memory_alloc(memory, 2 * DEVICES * sizeof *t->streams));
    t->ops = need_block(orr_memory_alloc(memory, OPERATORS * sizeof *t->ops));
    for (uint32_t d = 0; d < DEVICES; d++) {
        t->devices[d] = (struct orr_timeline_device){
            .id = d, .name = "h100", .kind = "gpu", .profile = "h100", .bandwidth = 3350000000000};
        t->devices[d].peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 67000000000000;
        for (uint32_t s = 0; s < 2; s++) {
            t->streams[2 * d + s] = (struct orr_timeline_stream){
                .id = 2 * d + s, .device = d, .name = s ? "communicate" : "compute"};
        }
    }
    for (uint64_t o = 0; o < OPERATORS; o++) {
        static const char *const names[4] = {"matmul", "add", "rmsnorm", "gelu"};
        static const char *const kinds[4] = {"gemm", "pointwise", "norm", "pointwise"};
        static const char *const shapes[10] = {"[1]", "[2]", "[3]", "[4]", "[5]",
                                               "[6]", "[7]", "[8]", "[9]", "[10]"};
        t->ops[o] = (struct orr_timeline_op){.id = o + 1,
                                             .name = names[o % 4],
                                             .kind = kinds[o % 4],
                                             .site = "",
                                             .shape = shapes[o / 4],
                                             .dtype = ORR_DTYPE_BF16};
    }
    t->device_count = DEVICES;
    t->stream_count = 2 * DEVICES;
    t->op_count = OPERATORS;
}

/* What a training step leaves beside every fourth command. */
static void add_memory(struct orr_timeline *t, uint64_t i, uint32_t device, int64_t now) {
    uint64_t command = t->command_count;
    t->buffers[t->buffer_count] = (struct orr_timeline_buffer){.id = t->buffer_count + 1,
                                                               .block = 1 + i % 1000,
                                                               .bytes = 1 << 20,
                                                               .alloc_cmd = command,
                                                               .free_cmd = command + 4,
                                                               .device = device,
                                                               .stream = 2 * device,
                                                               .memory = "dev",
                                                               .label = ""};
    t->buffer_count++;
    for (unsigned k = 0; k < 2; k++) {
        t->counters[t->counter_count] =
            (struct orr_timeline_counter){.device = device,
                                          .order = (uint32_t)t->counter_count,
                                          .name = "memory bytes",
                                          .ts_ns = now + k,
                                          .value = (double)(i % 997) * 4096.0};
        t->counter_count++;
    }
    for (unsigned k = 0; k < 3; k++) {
        t->accesses[t->access_count++] =
            (struct orr_timeline_access){.cmd = command,
                                         .buffer = 1 + (i + k) % t->buffer_count,
                                         .bytes = 4096,
                                         .mode = k == 0 ? ORR_ACCESS_WRITE : ORR_ACCESS_READ};
    }
}

static void make(struct orr_timeline *t, const struct orr_memory *memory, uint64_t commands,
                 bool with_memory) {
    struct maker maker = {.t = t};
    add_machine(t, memory);
    if (with_memory) {
        uint64_t rows = commands / 4 + 8;
        t->buffers = need_block(orr_memory_alloc(memory, rows * sizeof *t->buffers));
        t->counters = need_block(orr_memory_alloc(memory, 2 * rows * sizeof *t->counters));
        t->accesses = need_block(orr_memory_alloc(memory, 3 * rows * sizeof *t->accesses));
    }
    t->commands = need_block(orr_memory_alloc(memory, (commands + 8) * sizeof *t->commands));
    t->edges = need_block(orr_memory_alloc(memory, (commands / ROUND + 8) * sizeof *t->edges));
    t->syncs = need_block(orr_memory_alloc(memory, (commands / ROUND + 8) * sizeof *t->syncs));
    for (uint64_t i = 0; t->command_count < commands; i++) {
        uint32_t device = (uint32_t)(i / ROUND % DEVICES);
        add_kernel(&maker, device, i);
        if (with_memory && i % 4 == 0) {
            add_memory(t, i, device, maker.host_ns);
        }
        if (i % ROUND == ROUND - 1) {
            add_exchange(&maker, device);
        }
        if (i % 1000 == 999) {
            add_sync(&maker, device);
        }
    }
}

struct orr_timeline *made_timeline(uint64_t commands, bool with_memory,
                                   const struct orr_memory *memory) {
    struct orr_timeline *timeline;
    bench_check(orr_timeline_create(memory, &timeline), "timeline");
    make(timeline, memory, commands, with_memory);
    return timeline;
}

uint64_t made_timeline_records(const struct orr_timeline *t) {
    return t->command_count + t->edge_count + t->sync_count + t->buffer_count + t->counter_count +
           t->access_count + t->op_count + t->stream_count + t->device_count;
}
