/* How fast a timeline becomes Perfetto's JSON: the whole export to a file, with its layout and its
 * sorting, against fprintf of the very same events to a file, which is handed them ready and in
 * order.
 *
 *     build/release/bench/bench_json [COMMANDS [FOLDER]]      default 250000, /tmp
 *
 * Prints `name,value,unit` lines. Ours and theirs take turns; each figure is the median of the
 * rounds, by the thread's CPU time ("_cpu") or the monotonic clock. json_ratio is fprintf's time
 * over ours. Both files are compared, byte for byte, before anything is said. */
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trace/perfetto.h"

enum { ROUNDS = 7, DEVICES = 8, STREAMS = 3, NAMES = 4 };

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "bench_json: %s\n", what);
    exit(1);
}

static void *need(void *block) {
    if (!block) {
        fail("out of memory");
    }
    return block;
}

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---------------------------------------------------------------------------------------------- */
/* The timeline: kernels in streams of several devices, a record and a wait now and then. */

static void build_machine(struct orr_timeline *t, const struct orr_memory *memory) {
    static const char *const streams[STREAMS] = {"compute", "communicate", "copy"};
    t->meta = need(orr_memory_alloc(memory, sizeof *t->meta));
    t->meta[t->meta_count++] = (struct orr_timeline_meta){"clock", "virtual"};
    t->hosts = need(orr_memory_alloc(memory, sizeof *t->hosts));
    t->hosts[t->host_count++].name = "main";
    t->devices = need(orr_memory_alloc(memory, DEVICES * sizeof *t->devices));
    t->streams = need(orr_memory_alloc(memory, DEVICES * STREAMS * sizeof *t->streams));
    for (uint32_t device = 0; device < DEVICES; device++) {
        t->devices[t->device_count++] = (struct orr_timeline_device){
            .id = device, .name = "h100", .kind = "sim", .profile = "h100"};
        for (uint32_t s = 0; s < STREAMS; s++) {
            t->streams[t->stream_count] = (struct orr_timeline_stream){
                .id = (uint32_t)t->stream_count, .device = device, .name = streams[s]};
            t->stream_count++;
        }
    }
}

static struct orr_timeline_command kernel(uint64_t *random, uint64_t id) {
    static const char *const names[NAMES] = {"sgemm_128x64_tn", "relu_fwd", "all_reduce_ring",
                                             "layernorm_bwd_dgamma"};
    return (struct orr_timeline_command){
        .id = id,
        .op = id / 4 + 1,
        .kind = ORR_COMMAND_KERNEL,
        .status = ORR_COMMAND_STATUS_OK,
        .dtype = ORR_DTYPE_BF16,
        .name = names[draw(random) % NAMES],
        .event = "",
        .site = "train.lua:42",
        .ts_source = "virtual",
        .flops = draw(random) % 10000000000,
        .bytes_read = draw(random) % 100000000,
        .bytes_written = draw(random) % 100000000,
    };
}

static void build_commands(struct orr_timeline *t, const struct orr_memory *memory,
                           size_t commands) {
    int64_t free_ns[DEVICES * STREAMS] = {0}, host_ns = 0;
    uint64_t random = 88172645463325252u, recorded = 0;
    t->commands = need(orr_memory_alloc(memory, commands * sizeof *t->commands));
    t->edges = need(orr_memory_alloc(memory, commands * sizeof *t->edges));
    for (uint64_t id = 1; id <= commands; id++) {
        struct orr_timeline_command command = kernel(&random, id);
        uint32_t stream = (uint32_t)(draw(&random) % (DEVICES * STREAMS));
        bool record = id % 16 == 8, wait = id % 16 == 12;
        command.stream = stream;
        command.device = stream / STREAMS;
        command.enqueue_ns = host_ns;
        command.enqueued_ns = host_ns += 200 + (int64_t)(draw(&random) % 400);
        command.start_ns = free_ns[stream] > host_ns ? free_ns[stream] : host_ns;
        command.ready_ns = command.start_ns;
        command.finish_ns = command.start_ns + 1000 + (int64_t)(draw(&random) % 9000);
        if (record || wait) {
            command.kind = record ? ORR_COMMAND_RECORD : ORR_COMMAND_WAIT;
            command.name = record ? "record e" : "wait e";
            command.event = "e";
            command.op = command.flops = command.bytes_read = command.bytes_written = 0;
            command.dtype = ORR_DTYPE_NONE;
            command.finish_ns = record ? command.start_ns : command.finish_ns;
        }
        if (wait) {
            t->edges[t->edge_count++] = (struct orr_timeline_edge){recorded, id, ORR_EDGE_EVENT};
        }
        recorded = record ? id : recorded;
        free_ns[stream] = command.finish_ns;
        t->commands[t->command_count++] = command;
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* The events of a file, for fprintf */

/* Args that a slice has, by name. */
enum { CMD, OP, KIND, SITE, DTYPE, FLOPS, BYTES_READ, BYTES_WRITTEN, READY_NS, TS_SOURCE, KEYS };

static const char *const keys[KEYS] = {"cmd",      "op",       "kind",       "site",
                                       "dtype",    "flops",    "bytes_read", "bytes_written",
                                       "ready_ns", "ts_source"};

enum sort { VERBATIM, ENQUEUE, KERNEL, POINT, RESUME, SOURCE, END };

struct event {
    enum sort sort;
    uint32_t pid, tid;
    uint64_t ts, dur, id;
    const char *name, *line;
    uint64_t numbers[KEYS];
    const char *texts[KEYS];
};

/* Texts are kept once each, as a timeline does. */
static const char *keep(const char *text, size_t length) {
    static char *kept[64];
    static size_t count;
    for (size_t i = 0; i < count; i++) {
        if (strlen(kept[i]) == length && memcmp(kept[i], text, length) == 0) {
            return kept[i];
        }
    }
    if (count == sizeof kept / sizeof *kept) {
        fail("more names than expected");
    }
    return kept[count++] = need(strndup(text, length));
}

static bool take(const char **at, const char *literal) {
    size_t length = strlen(literal);
    bool there = strncmp(*at, literal, length) == 0;
    *at += there ? length : 0;
    return there;
}

static uint64_t take_number(const char **at) {
    uint64_t value = 0;
    while ((**at >= '0' && **at <= '9') || **at == '.') {
        value = **at == '.' ? value : value * 10 + (uint64_t)(**at - '0');
        ++*at;
    }
    return value;
}

static const char *take_text(const char **at) {
    const char *begin = *at, *end = strchr(begin, '"');
    *at = end + 1;
    return keep(begin, (size_t)(end - begin));
}

static unsigned take_args(struct event *event, const char **at) {
    unsigned found = 0;
    while (take(at, "{\"") || take(at, ",\"")) {
        const char *key = take_text(at);
        int k = 0;
        while (k < KEYS && strcmp(key, keys[k]) != 0) {
            k++;
        }
        if (k == KEYS || !take(at, ":")) {
            return 0;
        }
        found |= 1u << k;
        if (take(at, "\"")) {
            event->texts[k] = take_text(at);
        } else {
            event->numbers[k] = take_number(at);
        }
    }
    return found;
}

static enum sort sort_of(unsigned args) {
    const unsigned cmd = 1u << CMD, all = (1u << KEYS) - 1;
    const unsigned point = cmd | 1u << KIND | 1u << SITE | 1u << READY_NS | 1u << TS_SOURCE;
    return args == all                  ? KERNEL
           : args == cmd                ? ENQUEUE
           : args == point              ? POINT
           : args == (cmd | 1u << KIND) ? RESUME
                                        : VERBATIM;
}

/* Reads a line of traceEvents; what isn't frequent (names of tracks, merged marks) is kept as it
 * is. */
static struct event read_event(const char *line) {
    struct event event = {.line = line};
    const char *at = line;
    bool slice = take(&at, "{\"ph\":\"X\"");
    bool source = !slice && take(&at, "{\"ph\":\"s\"");
    bool end = !slice && !source && take(&at, "{\"ph\":\"f\",\"bp\":\"e\"");
    if (!(slice || source || end) || !take(&at, ",\"pid\":")) {
        return event;
    }
    event.pid = (uint32_t)take_number(&at);
    take(&at, ",\"tid\":");
    event.tid = (uint32_t)take_number(&at);
    take(&at, ",\"ts\":");
    event.ts = take_number(&at);
    if (slice) {
        take(&at, ",\"dur\":");
        event.dur = take_number(&at);
        if (!take(&at, ",\"name\":\"")) {
            return event;
        }
        event.name = take_text(&at);
        take(&at, ",\"cat\":\"op\",\"args\":");
        event.sort = sort_of(take_args(&event, &at));
    } else {
        take(&at, ",\"id\":");
        event.id = take_number(&at);
        take(&at, ",\"name\":\"");
        event.name = take_text(&at);
        event.sort = source ? SOURCE : END;
    }
    return event;
}

struct events {
    char *text, *tail; /* of the file: first line, and what follows the events */
    struct event *events;
    size_t count;
};

static char *read_file(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fail(path);
    }
    long size = ftell(file);
    rewind(file);
    char *text = need(malloc((size_t)size + 1));
    if (fread(text, 1, (size_t)size, file) != (size_t)size) {
        fail(path);
    }
    fclose(file);
    text[size] = '\0';
    *out_size = (size_t)size;
    return text;
}

static struct events read_events(const char *path, size_t count) {
    size_t size;
    struct events all = {.text = read_file(path, &size)};
    all.events = need(malloc(count * sizeof *all.events));
    char *line = strchr(all.text, '\n');
    while (line[1] == '{') {
        *line++ = '\0';
        char *end = strchr(line, '\n');
        end[end[-1] == ',' ? -1 : 0] = '\0';
        all.events[all.count++] = read_event(line);
        line = end;
    }
    all.tail = line + 1;
    if (all.count != count) {
        fail("the file has not as many lines as it should");
    }
    return all;
}

#define TRACK "\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
#define TIME  "%" PRIu64 ".%03" PRIu64
#define SLICE                                                                                      \
    "{\"ph\":\"X\"," TRACK ",\"ts\":" TIME ",\"dur\":" TIME ",\"name\":\"%s\","                    \
    "\"cat\":\"op\",\"args\":{\"cmd\":%" PRIu64
#define SLICE_VALUES(e)                                                                            \
    (e)->pid, (e)->tid, (e)->ts / 1000, (e)->ts % 1000, (e)->dur / 1000, (e)->dur % 1000,          \
        (e)->name, (e)->numbers[CMD]
#define ARROW           TRACK ",\"ts\":" TIME ",\"id\":%" PRIu64 ",\"name\":\"%s\",\"cat\":\"op\"}"
#define ARROW_VALUES(e) (e)->pid, (e)->tid, (e)->ts / 1000, (e)->ts % 1000, (e)->id, (e)->name

static void print_event(FILE *file, const struct event *e, const char *after) {
    switch (e->sort) {
    case VERBATIM: fprintf(file, "%s%s\n", e->line, after); break;
    case ENQUEUE: fprintf(file, SLICE "}}%s\n", SLICE_VALUES(e), after); break;
    case RESUME:
        fprintf(file, SLICE ",\"kind\":\"%s\"}}%s\n", SLICE_VALUES(e), e->texts[KIND], after);
        break;
    case POINT:
        fprintf(file,
                SLICE ",\"kind\":\"%s\",\"site\":\"%s\",\"ready_ns\":%" PRIu64
                      ",\"ts_source\":\"%s\"}}%s\n",
                SLICE_VALUES(e), e->texts[KIND], e->texts[SITE], e->numbers[READY_NS],
                e->texts[TS_SOURCE], after);
        break;
    case KERNEL:
        fprintf(file,
                SLICE ",\"op\":%" PRIu64 ",\"kind\":\"%s\",\"site\":\"%s\",\"dtype\":\"%s\","
                      "\"flops\":%" PRIu64 ",\"bytes_read\":%" PRIu64 ",\"bytes_written\":%" PRIu64
                      ",\"ready_ns\":%" PRIu64 ",\"ts_source\":\"%s\"}}%s\n",
                SLICE_VALUES(e), e->numbers[OP], e->texts[KIND], e->texts[SITE], e->texts[DTYPE],
                e->numbers[FLOPS], e->numbers[BYTES_READ], e->numbers[BYTES_WRITTEN],
                e->numbers[READY_NS], e->texts[TS_SOURCE], after);
        break;
    case SOURCE: fprintf(file, "{\"ph\":\"s\"," ARROW "%s\n", ARROW_VALUES(e), after); break;
    case END:
        fprintf(file, "{\"ph\":\"f\",\"bp\":\"e\"," ARROW "%s\n", ARROW_VALUES(e), after);
        break;
    }
}

static void write_by_fprintf(const struct events *all, const char *path) {
    static char buffer[1 << 18];
    FILE *file = fopen(path, "w");
    if (!file) {
        fail(path);
    }
    setvbuf(file, buffer, _IOFBF, sizeof buffer);
    fprintf(file, "%s\n", all->text);
    for (size_t i = 0; i < all->count; i++) {
        print_event(file, &all->events[i], i + 1 < all->count ? "," : "");
    }
    fprintf(file, "%s", all->tail);
    if (fclose(file) != 0) {
        fail(path);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Timing */

struct moment {
    double cpu_s, wall_s;
};

static double clock_s(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct moment now(void) {
    return (struct moment){clock_s(CLOCK_THREAD_CPUTIME_ID), clock_s(CLOCK_MONOTONIC)};
}

static struct moment since(struct moment begin) {
    struct moment end = now();
    return (struct moment){end.cpu_s - begin.cpu_s, end.wall_s - begin.wall_s};
}

static int compare_doubles(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, compare_doubles);
    return values[ROUNDS / 2];
}

struct rounds {
    double cpu_s[ROUNDS], wall_s[ROUNDS];
};

static void keep_round(struct rounds *rounds, int round, struct moment took) {
    if (round >= 0) { /* the first one warms up */
        rounds->cpu_s[round] = took.cpu_s;
        rounds->wall_s[round] = took.wall_s;
    }
}

static void export_timeline(const struct orr_timeline *timeline, const char *path,
                            struct orr_perfetto_counts *out_counts) {
    struct orr_error error = {0};
    if (orr_perfetto_write(timeline, NULL, 0, path, timeline->memory, out_counts, &error) !=
        ORR_OK) {
        fail(error.text);
    }
}

static void check_equal(const char *a, const char *b) {
    size_t a_size, b_size;
    char *a_text = read_file(a, &a_size), *b_text = read_file(b, &b_size);
    if (a_size != b_size || memcmp(a_text, b_text, a_size) != 0) {
        fail("fprintf wrote something else");
    }
    free(a_text);
    free(b_text);
}

static void print_rounds(const char *name, struct rounds *rounds,
                         const struct orr_perfetto_counts *counts) {
    double cpu_s = median(rounds->cpu_s), wall_s = median(rounds->wall_s);
    double events = (double)counts->events, bytes = (double)counts->bytes;
    printf("json_%s_events,%.0f,event/s\n", name, events / wall_s);
    printf("json_%s_events_cpu,%.0f,event/s\n", name, events / cpu_s);
    printf("json_%s_rate,%.0f,MB/s\n", name, bytes / wall_s / 1e6);
}

int main(int argc, char **argv) {
    size_t commands = argc > 1 ? strtoull(argv[1], NULL, 10) : 250000;
    char ours[PATH_MAX], theirs[PATH_MAX], zipped[PATH_MAX];
    struct orr_memory memory = orr_memory_system();
    struct orr_timeline *timeline;
    struct orr_perfetto_counts counts;
    static struct rounds export, print, zip;
    const char *folder = argc > 2 ? argv[2] : "/tmp";
    snprintf(ours, sizeof ours, "%s/bench_json.%d.json", folder, (int)getpid());
    snprintf(theirs, sizeof theirs, "%s/bench_json.%d.fprintf.json", folder, (int)getpid());
    snprintf(zipped, sizeof zipped, "%s/bench_json.%d.json.gz", folder, (int)getpid());
    if (commands == 0 || orr_timeline_create(&memory, &timeline) != ORR_OK) {
        fail("usage: bench_json [COMMANDS [FOLDER]]");
    }
    build_machine(timeline, &memory);
    build_commands(timeline, &memory, commands);
    export_timeline(timeline, ours, &counts);
    struct events all = read_events(ours, counts.events);
    for (int round = -1; round < ROUNDS; round++) {
        unlink(ours);
        struct moment begin = now();
        export_timeline(timeline, ours, &counts);
        keep_round(&export, round, since(begin));
        unlink(theirs);
        begin = now();
        write_by_fprintf(&all, theirs);
        keep_round(&print, round, since(begin));
    }
    check_equal(ours, theirs);
    for (int round = 0; round < ROUNDS; round++) {
        struct moment begin = now();
        export_timeline(timeline, zipped, &counts);
        keep_round(&zip, round, since(begin));
    }
    printf("json_bytes_per_command,%.1f,byte\n", (double)counts.bytes / (double)commands);
    print_rounds("export", &export, &counts);
    print_rounds("fprintf", &print, &counts);
    print_rounds("gz", &zip, &counts);
    printf("json_ratio,%.2f,\n", median(print.wall_s) / median(export.wall_s));
    printf("json_ratio_cpu,%.2f,\n", median(print.cpu_s) / median(export.cpu_s));
    unlink(ours);
    unlink(theirs);
    unlink(zipped);
    free(all.events);
    free(all.text);
    orr_timeline_destroy(&timeline);
    return 0;
}
