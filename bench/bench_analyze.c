/* How fast a trace in memory is analysed: event model, all figures, and the JSON report.
 *
 *     build/release/bench/bench_analyze [COMMANDS]      default 1000000
 *
 * The trace: 8 devices with a compute and a communicate stream each, kernels of 40 operators, a
 * record, a wait and a collective every 20 kernels, a host sync every 1,000, gaps of the host's
 * making in between.
 *
 * Prints `name,value,unit` lines: by the thread's CPU time ("_cpu"), by the monotonic clock
 * ("_wall"); memory is the most that was held at once beside the timeline. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"

enum { DEVICES = 8, OPERATORS = 40, ROUND = 20 };

static void fail(const char *what) {
    fprintf(stderr, "bench_analyze: %s\n", what);
    exit(1);
}

static void *need(void *block) {
    if (!block) {
        fail("out of memory");
    }
    return block;
}

static double clock_s(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* --- memory that knows its peak --- */

struct counted {
    size_t live, peak;
};

static void *counted_resize(void *context, void *block, size_t size) {
    struct counted *counted = context;
    size_t *head = block ? (size_t *)block - 2 : NULL;
    size_t before = head ? *head : 0;
    if (size == 0) {
        counted->live -= before;
        free(head);
        return NULL;
    }
    head = realloc(head, size + 2 * sizeof *head);
    if (!head) {
        return NULL;
    }
    *head = size;
    counted->live = counted->live - before + size;
    counted->peak = counted->live > counted->peak ? counted->live : counted->peak;
    return head + 2;
}

/* --- the trace --- */

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
                                                         .kind = ORR_SYNC_STREAM,
                                                         .target = "",
                                                         .begin_ns = m->host_ns,
                                                         .end_ns = end + 500};
    t->sync_count++;
    m->host_ns = end + 500;
}

static void add_machine(struct orr_timeline *t, const struct orr_memory *memory) {
    t->meta = need(orr_memory_alloc(memory, sizeof *t->meta));
    t->meta[t->meta_count++] = (struct orr_timeline_meta){"backend", "sim"};
    t->hosts = need(orr_memory_alloc(memory, sizeof *t->hosts));
    t->hosts[t->host_count++].name = "main";
    t->devices = need(orr_memory_alloc(memory, DEVICES * sizeof *t->devices));
    t->streams = need(orr_memory_alloc(memory, 2 * DEVICES * sizeof *t->streams));
    t->ops = need(orr_memory_alloc(memory, OPERATORS * sizeof *t->ops));
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

static void make(struct orr_timeline *t, const struct orr_memory *memory, uint64_t commands) {
    struct maker maker = {.t = t};
    add_machine(t, memory);
    t->commands = need(orr_memory_alloc(memory, (commands + 8) * sizeof *t->commands));
    t->edges = need(orr_memory_alloc(memory, (commands / ROUND + 8) * sizeof *t->edges));
    t->syncs = need(orr_memory_alloc(memory, (commands / ROUND + 8) * sizeof *t->syncs));
    for (uint64_t i = 0; t->command_count < commands; i++) {
        uint32_t device = (uint32_t)(i / ROUND % DEVICES);
        add_kernel(&maker, device, i);
        if (i % ROUND == ROUND - 1) {
            add_exchange(&maker, device);
        }
        if (i % 1000 == 999) {
            add_sync(&maker, device);
        }
    }
}

int main(int argc, char **argv) {
    uint64_t commands = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    if (commands < 1 || commands > 100000000) {
        fail("COMMANDS must be 1 to 100000000");
    }
    struct orr_memory system = orr_memory_system();
    struct orr_timeline *timeline;
    if (orr_timeline_create(&system, &timeline) != ORR_OK) {
        fail("out of memory");
    }
    make(timeline, &system, commands);

    struct counted counted = {0, 0};
    struct orr_memory memory = {counted_resize, &counted};
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    if (orr_analyze(timeline, &options, &memory, &analysis, &error) != ORR_OK) {
        fail(error.text);
    }
    double analyzed_cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), analyzed = clock_s(CLOCK_MONOTONIC);
    char *text;
    size_t length;
    if (orr_report_json(analysis, &text, &length) != ORR_OK) {
        fail("out of memory");
    }
    double reported = clock_s(CLOCK_MONOTONIC);
    printf("analyze_commands,%zu,count\n", timeline->command_count);
    printf("analyze_cpu,%.3f,s\n", analyzed_cpu - cpu);
    printf("analyze_wall,%.3f,s\n", analyzed - wall);
    printf("analyze_rate_cpu,%.2f,M commands/s\n",
           (double)timeline->command_count / (analyzed_cpu - cpu) * 1e-6);
    printf("analyze_json_wall,%.4f,s\n", reported - analyzed);
    printf("analyze_memory,%.1f,byte/command\n",
           (double)counted.peak / (double)timeline->command_count);
    orr_memory_free(&memory, text);
    orr_analysis_destroy(&analysis);
    orr_timeline_destroy(&timeline);
    return 0;
}
