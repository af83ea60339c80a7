#include "tests/perfetto_cases.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/trace_support.h"

static void start_case(struct perfetto_case *c) {
    fixture_init(&c->fixture);
    c->phase_count = 0;
}

void perfetto_case_free(struct perfetto_case *c) {
    fixture_free(&c->fixture);
}

static void add_phase(struct perfetto_case *c, uint32_t device, int64_t begin_ns, int64_t end_ns,
                      const char *class_name, const char *why) {
    c->phases[c->phase_count++] = (struct orr_perfetto_phase){
        .device = device,
        .begin_ns = begin_ns,
        .end_ns = end_ns,
        .class_name = class_name,
        .why = why,
    };
}

void perfetto_case_example(struct perfetto_case *c) {
    start_case(c);
    struct fixture *f = &c->fixture;
    fixture_meta(f, "clock", "virtual");
    uint32_t host = fixture_host(f, "main");
    uint32_t first = fixture_device(f, "sim 0", "sim"), second = fixture_device(f, "sim 1", "sim");
    uint32_t from = fixture_stream(f, first, "compute", ORR_STREAM_COMPUTE);
    uint32_t to = fixture_stream(f, second, "compute", ORR_STREAM_COMPUTE);
    fixture_command(f, ORR_COMMAND_KERNEL, from, "produce", 6000, 26007)->op = 1;
    fixture_command(f, ORR_COMMAND_RECORD, from, "record e1", 26007, 26007)->event = "e1";
    fixture_command(f, ORR_COMMAND_WAIT, to, "wait e1", 7600, 26007)->event = "e1";
    fixture_command(f, ORR_COMMAND_KERNEL, to, "consume", 26007, 32010)->op = 2;
    fixture_enqueue(f, 1, host, 1000, 3500);
    fixture_enqueue(f, 2, host, 3500, 4300);
    fixture_enqueue(f, 3, host, 4300, 5100);
    fixture_enqueue(f, 4, host, 5100, 7600);
    fixture_edge(f, 2, 3, ORR_EDGE_EVENT);
    fixture_sync(f, host, ORR_SYNC_STREAM, 7600, 33510, 4);
    fixture_counter(f, first, "memory bytes", 6000, 1048576);
    add_phase(c, first, 6000, 26007, "memory-bound", "2 flop/byte, ridge 295");
}

/* A command that the case's only host enqueued just before. */
static struct orr_timeline_command *call(struct fixture *f, enum orr_command_kind kind,
                                         uint32_t stream, const char *name, int64_t start_ns,
                                         int64_t finish_ns) {
    struct orr_timeline_command *command =
        fixture_command(f, kind, stream, name, start_ns, finish_ns);
    int64_t enqueue_ns = 100 * (int64_t)command->id;
    fixture_enqueue(f, command->id, 0, enqueue_ns, enqueue_ns + 80);
    return command;
}

static void rich_commands(struct fixture *f, uint32_t compute, uint32_t network, uint32_t other) {
    struct orr_timeline_command *kernel =
        call(f, ORR_COMMAND_KERNEL, compute, "gemm \"A\\B\"", 2000, 5000);
    kernel->op = fixture_op(f, "matmul", "gemm")->id;
    f->timeline.ops[0].shape = "[8, 4096]";
    kernel->site = "train.lua:12";
    kernel->dtype = ORR_DTYPE_BF16;
    kernel->flops = 123456789;
    kernel->bytes_read = 4096;
    kernel->bytes_written = UINT64_MAX;
    kernel->ready_ns = 1500;
    kernel->ts_source = "device";
    call(f, ORR_COMMAND_RECORD, compute, "record", 5000, 5000)->event = "e1";
    call(f, ORR_COMMAND_ALLOC, compute, "alloc", 5000, 5000);
    call(f, ORR_COMMAND_WAIT, network, "wait", 3000, 5000)->event = "e1";        /* 4: blocks */
    call(f, ORR_COMMAND_WAIT, other, "wait", 6000, 6000)->event = "e1";          /* 5: does not */
    call(f, ORR_COMMAND_COLLECTIVE, network, "all_reduce", 5000, 9000);          /* 6 */
    call(f, ORR_COMMAND_GRAPH, other, "step graph", 7000, 9500);                 /* 7 */
    call(f, ORR_COMMAND_KERNEL, other, "in graph 1", 7000, 8000);                /* 8 */
    call(f, ORR_COMMAND_KERNEL, other, "in graph 2", 8000, 9500);                /* 9 */
    call(f, ORR_COMMAND_KERNEL, other, "beside", 7500, 9000);                    /* 10: overlaps */
    call(f, ORR_COMMAND_KERNEL, compute, "stuck", 9000, ORR_TIME_NONE);          /* 11 */
    call(f, ORR_COMMAND_KERNEL, compute, "never", ORR_TIME_NONE, ORR_TIME_NONE); /* 12 */
    call(f, ORR_COMMAND_KERNEL, network, "skewed", 900, 950); /* 13: before its call */
    call(f, ORR_COMMAND_FREE, compute, "free", 5500, 5500);   /* 14 */
    fixture_enqueue(f, 8, 0, 700, 780);                       /* one call, the graph's */
    fixture_enqueue(f, 9, 0, 700, 780);
    fixture_edge(f, 2, 4, ORR_EDGE_EVENT);
    fixture_edge(f, 2, 5, ORR_EDGE_EVENT);
    fixture_edge(f, 1, 2, ORR_EDGE_STREAM);
    fixture_edge(f, 3, 14, ORR_EDGE_ALLOCATOR);
}

void perfetto_case_rich(struct perfetto_case *c) {
    start_case(c);
    struct fixture *f = &c->fixture;
    fixture_meta(f, "clock", "virtual");
    fixture_meta(f, "scenario", "rich \xe2\x86\x92 \"quoted\"");
    uint32_t host = fixture_host(f, "main");
    uint32_t first = fixture_device(f, "h100 0", "sim"), second = fixture_device(f, "", "");
    uint32_t compute = fixture_stream(f, first, "compute", ORR_STREAM_COMPUTE);
    uint32_t network = fixture_stream(f, first, "communicate", ORR_STREAM_COMMUNICATE);
    uint32_t other = fixture_stream(f, second, "compute", ORR_STREAM_COMPUTE);
    fixture_stream(f, second, "idle", ORR_STREAM_COPY);
    rich_commands(f, compute, network, other);
    fixture_communicator(f, "tp");
    struct orr_timeline_collective *collective = fixture_collective(f, 0, "all_reduce", 4096);
    collective->algorithm = "ring";
    collective->protocol = "simple";
    collective->emulated = true;
    collective->modelled_ns = 1234;
    fixture_collective_member(f, collective->id, 0, 6);
    fixture_sync(f, host, ORR_SYNC_STREAM, 1500, 10000, 6);
    fixture_sync(f, host, ORR_SYNC_DEVICE, 10000, 10000, 0);
    fixture_sync(f, host, ORR_SYNC_EVENT, 11000, 12000, 2);
    fixture_counter(f, first, "memory bytes", 1000, 4096);
    fixture_counter(f, first, "memory bytes", 2000, 0.00012345678901234567);
    fixture_counter(f, first, "memory bytes", 3000, -1e300);
    fixture_counter(f, first, "queue depth", 2000, 3);
    fixture_counter(f, second, "memory bytes", 2000, 9007199254740992.0);
    struct orr_timeline_finding *race = fixture_finding(f, "race", "error", 1, 6);
    race->message = "reads what\tgemm writes";
    race->fix = "wait for e1";
    fixture_finding(f, "late-sync", "warning", 8, 0);
    fixture_finding(f, "use-after-free", "error", 8, 0);
    add_phase(c, first, 2000, 5000, "compute-bound", "");
    add_phase(c, first, 5000, 9000, "communication-bound", "waits for all_reduce");
    add_phase(c, second, 7000, 9500, "launch-bound", "3 launches of 0.8 us");
}

/* ---------------------------------------------------------------------------------------------- */
/* At random */

struct draw {
    uint64_t state;
    int64_t base_ns;  /* of all times */
    uint64_t spread;  /* times are below it: few make ties */
    uint64_t longest; /* and durations */
};

static uint64_t below(struct draw *draw, uint64_t limit) {
    return trace_random(&draw->state) % limit;
}

static bool chance(struct draw *draw, uint64_t percent) {
    return below(draw, 100) < percent;
}

static const char *odd_text(struct draw *draw, struct fixture *f) {
    static const char *const texts[] = {
        "",
        "a",
        "gemm",
        "wait",
        "wait x",
        "record",
        "phases",
        "compute",
        "compute marks",
        "compute overlap 1",
        "compute (stream 0)",
        "x \"quoted\" \\ back",
        "tab\tline\nbell\x07",
        "h\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x94\xa5",
        "bad \xff\xfe bytes",
        "cut \xe2\x82",
        "surrogate \xed\xa0\x80 here",
        "overlong \xc0\x80 \xf5",
        "\x7f",
        "\xef\xbf\xbe",
        "{\"ph\":\"i\"}",
    };
    const uint64_t count = sizeof texts / sizeof *texts;
    uint64_t pick = below(draw, count + 8);
    return pick < count ? texts[pick] : fixture_text(f, "n%d", (int)below(draw, 40));
}

static int64_t some_time(struct draw *draw) {
    return draw->base_ns + (int64_t)below(draw, draw->spread);
}

static int64_t some_end(struct draw *draw, int64_t start_ns) {
    return start_ns + (chance(draw, 40) ? 0 : (int64_t)below(draw, draw->longest));
}

static uint32_t some_id(struct draw *draw, size_t count) {
    return chance(draw, 5) ? ORR_ID_NONE : (uint32_t)below(draw, count + 1);
}

static void random_machine(struct draw *draw, struct fixture *f) {
    for (uint64_t hosts = below(draw, 4); hosts > 0; hosts--) {
        fixture_host(f, odd_text(draw, f));
    }
    for (uint64_t devices = below(draw, 4); devices > 0; devices--) {
        fixture_device(f, "", odd_text(draw, f));
    }
    for (uint64_t streams = below(draw, 8); streams > 0; streams--) {
        fixture_stream(f, (uint32_t)below(draw, f->timeline.device_count + 1), odd_text(draw, f),
                       (enum orr_stream_kind)below(draw, 3));
    }
    if (chance(draw, 30)) { /* ids need not be dense */
        for (size_t i = 0; i < f->timeline.stream_count; i++) {
            f->timeline.streams[i].id = (uint32_t)(3 * i + 1);
        }
    }
}

static void random_command(struct draw *draw, struct fixture *f) {
    int64_t start_ns = chance(draw, 6) ? ORR_TIME_NONE : some_time(draw);
    int64_t finish_ns =
        start_ns == ORR_TIME_NONE || chance(draw, 6) ? ORR_TIME_NONE : some_end(draw, start_ns);
    enum orr_command_kind kind = (enum orr_command_kind)below(draw, ORR_COMMAND_KIND_COUNT);
    if (chance(draw, 50)) {
        kind = chance(draw, 50) ? ORR_COMMAND_WAIT : ORR_COMMAND_RECORD;
    }
    struct orr_timeline_command *command =
        fixture_command(f, kind, ORR_ID_NONE, odd_text(draw, f), start_ns, finish_ns);
    size_t streams = f->timeline.stream_count;
    if (streams > 0 && chance(draw, 95)) {
        command->stream = f->timeline.streams[below(draw, streams)].id;
    }
    command->device = some_id(draw, f->timeline.device_count);
    command->event = chance(draw, 60) ? odd_text(draw, f) : "";
    command->site = chance(draw, 30) ? odd_text(draw, f) : "";
    command->ts_source = chance(draw, 10) ? "device" : "";
    command->op = below(draw, 3);
    command->dtype = chance(draw, 20) ? ORR_DTYPE_F32 : ORR_DTYPE_NONE;
    command->flops = chance(draw, 20) ? UINT64_MAX - below(draw, 9) : below(draw, 3);
    command->bytes_read = below(draw, 2) * 1000;
    command->ready_ns = chance(draw, 20) ? some_time(draw) : ORR_TIME_NONE;
    command->host = some_id(draw, f->timeline.host_count);
    command->enqueue_ns = chance(draw, 8) ? ORR_TIME_NONE : some_time(draw);
    if (command->enqueue_ns != ORR_TIME_NONE && chance(draw, 90)) {
        command->enqueued_ns = some_end(draw, command->enqueue_ns) - (int64_t)chance(draw, 3);
    }
    if (f->timeline.command_count > 1 && chance(draw, 25)) { /* enqueued by the same call */
        const struct orr_timeline_command *before = command - 1;
        command->host = before->host;
        command->enqueue_ns = before->enqueue_ns;
        command->enqueued_ns = before->enqueued_ns;
    }
}

static void random_relations(struct draw *draw, struct fixture *f) {
    size_t commands = f->timeline.command_count;
    for (uint64_t edges = below(draw, commands + 1); edges > 0; edges--) {
        fixture_edge(f, below(draw, commands + 2), below(draw, commands + 2),
                     (enum orr_edge_kind)below(draw, ORR_EDGE_KIND_COUNT));
    }
    for (uint64_t syncs = below(draw, 10); syncs > 0; syncs--) {
        int64_t begin_ns = chance(draw, 5) ? ORR_TIME_NONE : some_time(draw);
        int64_t end_ns =
            begin_ns == ORR_TIME_NONE || chance(draw, 5) ? ORR_TIME_NONE : some_end(draw, begin_ns);
        fixture_sync(f, some_id(draw, f->timeline.host_count),
                     (enum orr_sync_kind)below(draw, ORR_SYNC_KIND_COUNT), begin_ns, end_ns,
                     below(draw, commands + 2));
    }
    fixture_communicator(f, odd_text(draw, f));
    for (uint64_t members = below(draw, 4); members > 0; members--) {
        struct orr_timeline_collective *collective =
            fixture_collective(f, (uint32_t)below(draw, 2), "all_reduce", 8);
        collective->algorithm = odd_text(draw, f);
        fixture_collective_member(f, collective->id, 0, below(draw, commands + 1));
    }
    for (uint64_t findings = below(draw, 5); findings > 0; findings--) {
        struct orr_timeline_finding *finding = fixture_finding(
            f, odd_text(draw, f), "error", below(draw, commands + 2), below(draw, commands + 2));
        finding->message = odd_text(draw, f);
    }
}

static void random_counters(struct draw *draw, struct fixture *f) {
    static const double values[] = {0.0,  -0.0, 1.0,    1.5,      1e300,    9007199254740991.0,
                                    1e16, -3.0, 1.2e-4, -1.0 / 3, INFINITY, 9007199254740992.0};
    for (uint64_t counters = below(draw, 20); counters > 0; counters--) {
        fixture_counter(f, (uint32_t)below(draw, f->timeline.device_count + 1), odd_text(draw, f),
                        some_time(draw), values[below(draw, sizeof values / sizeof *values)]);
    }
}

/* Disjoint on each device, with gaps, and some of no length or of a device that is not there. */
static void random_phases(struct draw *draw, struct perfetto_case *c) {
    static const char *const classes[] = {"memory-bound", "idle", "compute-bound", "x"};
    for (uint32_t device = 0; device <= c->fixture.timeline.device_count; device++) {
        int64_t begin_ns = some_time(draw);
        for (uint64_t phases = below(draw, 5); phases > 0; phases--) {
            int64_t end_ns = begin_ns + (int64_t)below(draw, draw->longest);
            add_phase(c, device, begin_ns, end_ns, classes[below(draw, 4)],
                      chance(draw, 50) ? "2 flop/byte" : "");
            begin_ns = end_ns + (int64_t)below(draw, 3);
        }
    }
}

void perfetto_case_random(struct perfetto_case *c, uint64_t seed) {
    static const uint64_t spreads[] = {1, 4, 20, 1000, 1000000, 3000000000000};
    struct draw draw = {.state = seed * 0x9e3779b97f4a7c15u + 1};
    start_case(c);
    struct fixture *f = &c->fixture;
    draw.spread = spreads[below(&draw, sizeof spreads / sizeof *spreads)];
    draw.longest = 1 + below(&draw, draw.spread);
    switch (below(&draw, 4)) {
    case 0: /* a clock whose zero is long ago */
        fixture_meta(f, "clock", "monotonic");
        draw.base_ns = 1753000000123456789;
        break;
    case 1: draw.base_ns = -5000; break; /* no word of a clock */
    default: fixture_meta(f, "clock", "virtual"); break;
    }
    fixture_meta(f, "args", odd_text(&draw, f));
    fixture_meta(f, "Bad Key", "left out");
    fixture_meta(f, "slices", "is a key of ours");
    random_machine(&draw, f);
    fixture_op(f, "matmul", "gemm")->shape = odd_text(&draw, f);
    for (uint64_t commands = below(&draw, 60); commands > 0; commands--) {
        random_command(&draw, f);
    }
    random_relations(&draw, f);
    random_counters(&draw, f);
    random_phases(&draw, c);
    if (draw.base_ns == 0) { /* a call that ends before it begins must not reach below 0 */
        for (size_t i = 0; i < f->timeline.command_count; i++) {
            int64_t *enqueued_ns = &f->timeline.commands[i].enqueued_ns;
            *enqueued_ns = *enqueued_ns == -1 ? 0 : *enqueued_ns;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* A long one */

void perfetto_case_large(struct perfetto_case *c, size_t commands) {
    enum { DEVICES = 4, STREAMS = 2 };
    start_case(c);
    struct fixture *f = &c->fixture;
    int64_t free_ns[DEVICES * STREAMS] = {0}, host_ns = 0;
    uint64_t state = 88172645463325252u;
    fixture_meta(f, "clock", "virtual");
    fixture_host(f, "main");
    for (uint32_t device = 0; device < DEVICES; device++) {
        fixture_device(f, fixture_text(f, "h100 %u", device), "sim");
        fixture_stream(f, device, "compute", ORR_STREAM_COMPUTE);
        fixture_stream(f, device, "communicate", ORR_STREAM_COMMUNICATE);
    }
    for (size_t i = 0; i < commands; i++) {
        uint32_t stream = (uint32_t)(trace_random(&state) % (DEVICES * STREAMS));
        bool waits = i % 10 == 9 && i > 0;
        int64_t enqueue_ns = host_ns, start_ns = free_ns[stream];
        host_ns += 800 + (int64_t)(trace_random(&state) % 400);
        start_ns = start_ns > host_ns ? start_ns : host_ns;
        int64_t finish_ns = start_ns + (int64_t)(trace_random(&state) % 9000);
        struct orr_timeline_command *command =
            fixture_command(f, waits ? ORR_COMMAND_WAIT : ORR_COMMAND_KERNEL, ORR_ID_NONE,
                            waits ? "wait e" : "layernorm_bwd_dgamma", start_ns, finish_ns);
        command->stream = stream;
        command->device = stream / STREAMS;
        fixture_enqueue(f, command->id, 0, enqueue_ns, host_ns);
        free_ns[stream] = finish_ns;
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* For the checker */

void perfetto_case_save(struct perfetto_case *c, const char *db_path, const char *analysis_path) {
    fixture_save(&c->fixture, db_path);
    FILE *file = fopen(analysis_path, "w");
    if (!file) {
        perror(analysis_path);
        abort();
    }
    fprintf(file, "{\"phases\":[");
    for (size_t i = 0; i < c->phase_count; i++) {
        const struct orr_perfetto_phase *phase = &c->phases[i];
        char class_name[64];
        size_t length = 0;
        for (; phase->class_name[length] != '\0' && length + 1 < sizeof class_name; length++) {
            char letter = phase->class_name[length];
            class_name[length] = letter == '-' ? '_' : letter; /* as in JSON */
        }
        class_name[length] = '\0';
        fprintf(file,
                "%s{\"device\":%u,\"begin_ns\":%lld,\"end_ns\":%lld,\"class\":\"%s\","
                "\"why\":\"%s\"}",
                i == 0 ? "" : ",", phase->device, (long long)phase->begin_ns,
                (long long)phase->end_ns, class_name, phase->why);
    }
    fprintf(file, "]}\n");
    if (fclose(file) != 0) {
        perror(analysis_path);
        abort();
    }
}
