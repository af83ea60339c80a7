/* What the host layer costs per command, between the API and the backend.
 *
 * Prints `name,value,unit` lines; each figure is the best of several rounds by the thread's CPU
 * time. "null" is a backend that keeps a few commands in a ring and retires them, without time or
 * numbers: what it takes alone is measured by calling its verbs directly and printed as
 * "null_floor"; the difference is ours. "sim" is the simulator, timing only. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/record_memory.h"
#include "runtime/runtime_internal.h"
#include "runtime/synthetic.h"
#include "sim/sim.h"

enum { ROUNDS = 9, COMMANDS = 200000, RING = 64, STREAMS_MAX = 4 };

static double cpu_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check(enum orr_status status, const char *what) {
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench_host_layer: %s: %s\n", what, orr_status_text(status));
    exit(1);
}

/* --- a backend that does nothing --- */

struct null_stream {
    struct orr_command ring[RING];
    uint64_t submitted, retired;
};

struct null_backend {
    struct orr_backend base;
    struct orr_retire retire;
    int64_t now_ns;
    uint32_t stream_count, memory_count;
    struct null_stream streams[STREAMS_MAX];
};

static struct null_backend *null_of(struct orr_backend *backend) {
    return (struct null_backend *)(void *)backend;
}

static void null_retire(struct null_backend *it, struct null_stream *stream) {
    struct orr_command *command = &stream->ring[stream->retired++ % RING];
    command->record.header.c = ORR_COMMAND_STATUS_OK;
    it->retire.retired(it->retire.context, command, NULL);
}

static void null_close(struct orr_backend *backend) {
    struct null_backend *it = null_of(backend);
    for (uint32_t i = 0; i < it->stream_count; i++)
        while (it->streams[i].retired < it->streams[i].submitted)
            null_retire(it, &it->streams[i]);
    free(it);
}

static enum orr_status null_memory_create(struct orr_backend *backend, uint32_t device,
                                          uint64_t bytes, uint32_t *out_memory,
                                          struct orr_error *error) {
    (void)device, (void)bytes, (void)error;
    *out_memory = null_of(backend)->memory_count++;
    return ORR_OK;
}

static void null_memory_destroy(struct orr_backend *backend, uint32_t memory) {
    (void)backend, (void)memory;
}

static void *null_memory_pointer(struct orr_backend *backend, uint32_t memory) {
    (void)backend, (void)memory;
    return NULL;
}

static enum orr_status null_stream_create(struct orr_backend *backend, uint32_t device,
                                          enum orr_stream_kind kind, uint32_t *out_stream,
                                          struct orr_error *error) {
    (void)device, (void)kind, (void)error;
    *out_stream = null_of(backend)->stream_count++;
    return ORR_OK;
}

static void null_stream_destroy(struct orr_backend *backend, uint32_t stream) {
    (void)backend, (void)stream;
}

static enum orr_status null_submit(struct orr_backend *backend, uint32_t id,
                                   const struct orr_command *command, const struct orr_point *waits,
                                   uint32_t wait_count, struct orr_point *out_point,
                                   struct orr_error *error) {
    struct null_backend *it = null_of(backend);
    struct null_stream *stream = &it->streams[id];
    (void)waits, (void)wait_count, (void)error;
    if (stream->submitted - stream->retired == RING)
        null_retire(it, stream);
    struct orr_command *slot = &stream->ring[stream->submitted % RING];
    *slot = *command;
    slot->record.seq = ++stream->submitted;
    slot->record.enqueue_ns = it->now_ns++;
    *out_point = (struct orr_point){.stream = id, .seq = slot->record.seq};
    return ORR_OK;
}

static enum orr_status null_wait(struct orr_backend *backend, uint32_t host,
                                 const struct orr_point *points, uint32_t count,
                                 enum orr_wait_mode mode, int64_t deadline_ns,
                                 struct orr_error *error) {
    struct null_backend *it = null_of(backend);
    (void)host, (void)mode, (void)deadline_ns, (void)error;
    for (uint32_t i = 0; i < count; i++)
        while (it->streams[points[i].stream].retired < points[i].seq)
            null_retire(it, &it->streams[points[i].stream]);
    return ORR_OK;
}

static int64_t null_now(struct orr_backend *backend, uint32_t host) {
    (void)host;
    return null_of(backend)->now_ns;
}

static enum orr_status null_fail_of(struct orr_backend *backend, uint32_t stream,
                                    struct orr_error *error) {
    (void)backend, (void)stream, (void)error;
    return ORR_OK;
}

static const struct orr_backend_verbs null_verbs = {.abi = ORR_BACKEND_ABI,
                                                    .name = "null",
                                                    .collective = "direct",
                                                    .clock = "virtual",
                                                    .close = null_close,
                                                    .memory_create = null_memory_create,
                                                    .memory_destroy = null_memory_destroy,
                                                    .memory_pointer = null_memory_pointer,
                                                    .stream_create = null_stream_create,
                                                    .stream_destroy = null_stream_destroy,
                                                    .submit = null_submit,
                                                    .wait = null_wait,
                                                    .now = null_now,
                                                    .fail_of = null_fail_of};

static enum orr_status null_open(const struct orr_backend_config *config,
                                 struct orr_backend **out_backend, struct orr_error *error) {
    (void)error;
    struct null_backend *it = calloc(1, sizeof *it);
    *out_backend = NULL;
    if (!it)
        return ORR_NO_MEMORY;
    it->base.verbs = &null_verbs;
    it->retire = config->retire;
    *out_backend = &it->base;
    return ORR_OK;
}

/* --- what is measured --- */

struct bench {
    struct orr_memory memory;
    struct orr_device_spec spec;
    struct orr_sink *sink;
    struct orr_runtime *runtime;
    struct orr_stream *stream, *other;
    struct orr_buffer *buffers[3];
    struct orr_event *event;
};

static void bench_open(struct bench *b, orr_backend_open open, bool sink, bool accesses) {
    struct orr_error error = {0};
    *b = (struct bench){.memory = orr_memory_system(),
                        .spec = {.name = "bench",
                                 .memory_bytes = 1ull << 36,
                                 .bandwidth = 2000000000000,
                                 .host_launch_ns = 3000}};
    b->spec.peak[0][ORR_DTYPE_F32] = 100000000000000;
    if (sink)
        check(orr_null_sink_create(&b->memory, &b->sink), "sink");
    struct orr_runtime_config config = {.memory = &b->memory,
                                        .open = open,
                                        .specs = &b->spec,
                                        .device_count = 1,
                                        .sink = b->sink,
                                        .timing_only = true,
                                        .trace_accesses = accesses};
    check(orr_runtime_create(&config, &b->runtime, &error), "runtime");
    b->stream = orr_device_stream(b->runtime, 0, ORR_STREAM_COMPUTE);
    b->other = orr_device_stream(b->runtime, 0, ORR_STREAM_COMMUNICATE);
    for (int i = 0; i < 3; i++)
        check(orr_buffer_alloc(b->stream, 1 << 20, "x", &b->buffers[i]), "buffer");
    check(orr_event_create(b->runtime, NULL, &b->event), "event");
}

static void bench_close(struct bench *b) {
    struct orr_error error = {0};
    orr_runtime_destroy(&b->runtime);
    if (b->sink)
        check(b->sink->close(b->sink, "ok", &error), "close");
}

static void run_kernels(struct bench *b) {
    struct orr_range ranges[3] = {{b->buffers[0], 0, 1 << 20, ORR_ACCESS_READ},
                                  {b->buffers[1], 0, 1 << 20, ORR_ACCESS_READ},
                                  {b->buffers[2], 0, 1 << 20, ORR_ACCESS_WRITE}};
    struct orr_kernel kernel = {.name = "kernel",
                                .dtype = ORR_DTYPE_F32,
                                .cost = {.flops = 1000000, .bytes_read = 2 << 20},
                                .accesses = ranges,
                                .access_count = 3,
                                .submit_ns = -1,
                                .service_ns = -1};
    for (int i = 0; i < COMMANDS; i++)
        check(orr_stream_kernel(b->stream, &kernel, NULL), "kernel");
}

/* As the Lua binding does: the caller is set before every call, and the site changes. */
static void run_kernels_from_sites(struct bench *b) {
    static const char *const sites[2] = {"main.lua:10", "main.lua:11"};
    struct orr_kernel kernel = {
        .name = "kernel", .dtype = ORR_DTYPE_F32, .submit_ns = -1, .service_ns = -1};
    for (int i = 0; i < COMMANDS; i++) {
        check(orr_runtime_set_caller(b->runtime, 0, sites[i & 1]), "caller");
        check(orr_stream_kernel(b->stream, &kernel, NULL), "kernel");
    }
}

static void run_events(struct bench *b) {
    for (int i = 0; i < COMMANDS / 2; i++) {
        check(orr_event_record(b->event, b->stream), "record");
        check(orr_stream_wait(b->other, b->event), "wait");
    }
}

static void run_allocations(struct bench *b) {
    for (int i = 0; i < COMMANDS / 2; i++) {
        struct orr_buffer *buffer;
        check(orr_buffer_alloc(b->stream, 4096, "x", &buffer), "alloc");
        orr_buffer_free(&buffer);
    }
}

static void run_floor(struct bench *b) {
    struct orr__pending pending = {.runtime = b->runtime, .untold = false};
    struct orr_command command = {.record = {.header = ORR_RECORD_HEADER(command, COMMAND)},
                                  .context = &pending};
    struct orr_point point;
    for (int i = 0; i < COMMANDS; i++) {
        check(null_submit(b->runtime->backend, 0, &command, NULL, 0, &point, NULL), "submit");
    }
}

static void ignore(void *context, const struct orr_command *command,
                   const struct orr_error *error) {
    (void)context, (void)command, (void)error;
}

static double best_ns(struct bench *b, void (*run)(struct bench *), double commands) {
    double best_s = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double begin_s = cpu_s();
        run(b);
        double s = cpu_s() - begin_s;
        if (round == 0 || s < best_s)
            best_s = s;
    }
    return best_s / commands * 1e9;
}

static void measure(const char *name, orr_backend_open open, bool sink, bool accesses,
                    void (*run)(struct bench *)) {
    struct bench b;
    bench_open(&b, open, sink, accesses);
    printf("%s,%.1f,ns/command\n", name, best_ns(&b, run, COMMANDS));
    bench_close(&b);
}

static void measure_floor(void) {
    struct bench b;
    bench_open(&b, null_open, false, false);
    struct null_backend *null = null_of(b.runtime->backend);
    struct orr_retire retire = null->retire;
    null->retire.retired = ignore;
    printf("host_null_floor,%.1f,ns/command\n", best_ns(&b, run_floor, COMMANDS));
    while (null->streams[0].retired < null->streams[0].submitted)
        null_retire(null, &null->streams[0]);
    null->retire = retire;
    bench_close(&b);
}

/* What a synthetic kernel reads and writes. */
static void measure_synthetic(void) {
    enum { BYTES = 1 << 22, REPEATS = 8 };
    char *bytes = calloc(1, BYTES);
    double read_s = 1e9, write_s = 1e9;
    if (!bytes)
        check(ORR_NO_MEMORY, "synthetic");
    for (int round = 0; round < ROUNDS; round++) {
        struct orr__synthetic synthetic;
        orr__synthetic_begin(&synthetic, "bench");
        double begin_s = cpu_s();
        for (int i = 0; i < REPEATS; i++)
            orr__synthetic_read(&synthetic, bytes, BYTES);
        double middle_s = cpu_s();
        for (int i = 0; i < REPEATS; i++)
            orr__synthetic_write(&synthetic, bytes, BYTES);
        double end_s = cpu_s();
        read_s = middle_s - begin_s < read_s ? middle_s - begin_s : read_s;
        write_s = end_s - middle_s < write_s ? end_s - middle_s : write_s;
    }
    printf("synthetic_read,%.2f,GB/s\n", (double)BYTES * REPEATS / read_s * 1e-9);
    printf("synthetic_write,%.2f,GB/s\n", (double)BYTES * REPEATS / write_s * 1e-9);
    free(bytes);
}

int main(void) {
    measure_floor();
    measure("host_null_kernel_3_ranges", null_open, false, false, run_kernels);
    measure("host_null_kernel_sites", null_open, false, false, run_kernels_from_sites);
    measure("host_null_kernel_sink", null_open, true, false, run_kernels);
    measure("host_null_kernel_sink_accesses", null_open, true, true, run_kernels);
    measure("host_null_record_and_wait", null_open, true, false, run_events);
    measure("host_null_alloc_and_free", null_open, false, false, run_allocations);
    measure("host_null_alloc_and_free_sink", null_open, true, false, run_allocations);
    measure("host_sim_kernel", orr_sim_open, false, false, run_kernels);
    measure("host_sim_kernel_sink", orr_sim_open, true, false, run_kernels);
    measure_synthetic();
    return 0;
}
