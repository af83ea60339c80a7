/* What a simulated kernel costs, through the public API: timing only, every record kept in memory.
 *
 *     build/release/bench/bench_sim [DEVICES]        8, 64, 512 and 4096 in turn
 *
 * One host enqueues the same number of kernels of 10 to 11 us on each device in turn; what it takes
 * from the first enqueue to the end of the last kernel is divided by the number of kernels. Ways to
 * enqueue:
 *
 *     deep     a launch costs the host 1 ns: queues are full (1024) or hold the whole program
 *     paced    a launch costs as much as keeps the devices just busy: queues stay short
 *     runner   as "deep", but launches of 3 us each are made by one dispatch host a device
 *     ranges   as "deep", and each kernel reads two buffers of its device and writes a third
 *
 *     fresh    "deep" as the first thing that a process does, once
 *
 * In turn with these run the peer, SimGrid with the same kernels (bench/peers/), and the floor, a
 * bare event core with the same kernels (bench/des_floor.h). All of it is one thread's CPU time.
 *
 * Memory that a round gives back stays with the process, and a first round of each way does not
 * count, so that the system's page faults don't: "fresh" has all of them, about 450 bytes for each
 * kernel, and is as noisy as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/des_floor.h"
#include "runtime/buffer.h"
#include "runtime/record_memory.h"
#include "sim/sim.h"

enum {
    SIZES = 4,
    KERNELS = 512000,
    KERNELS_QUICK = 128000,
    PEER_KERNELS = 131072,
    BUFFERS = 3,
    BYTES = 4096
};

enum way { DEEP, PACED, RUNNER, RANGES, WAYS };

static const char *const way_names[WAYS] = {"deep", "paced", "runner", "ranges"};

struct machine {
    struct orr_memory memory;
    struct orr_record_memory *store;
    struct orr_device_spec *specs;
    struct orr_runtime *runtime;
    struct orr_stream **streams;
    struct orr_buffer **buffers; /* BUFFERS for each device */
    uint32_t devices;
};

static void machine_open(struct machine *m, uint32_t devices, enum way way) {
    struct orr_error error = {0};
    *m = (struct machine){.memory = orr_memory_system(), .devices = devices};
    struct orr_device_spec spec = {.name = "bench",
                                   .memory_bytes = UINT64_C(1) << 36,
                                   .bandwidth = 2000000000000,
                                   .peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 1000000000000,
                                   .host_launch_ns = way == RUNNER ? 3000 : 1};
    if (way == PACED)
        spec.host_launch_ns = 10400 / devices > 0 ? 10400 / devices : 1;
    m->specs = calloc(devices, sizeof *m->specs);
    m->streams = calloc(devices, sizeof *m->streams);
    m->buffers = calloc(devices * (size_t)BUFFERS, sizeof(struct orr_buffer *));
    bench_must(m->specs && m->streams && m->buffers, "no memory");
    for (uint32_t i = 0; i < devices; i++)
        m->specs[i] = spec;
    bench_check(orr_record_memory_create(&m->memory, &m->store), "store");
    struct orr_runtime_config config = {.memory = &m->memory,
                                        .open = orr_sim_open,
                                        .specs = m->specs,
                                        .device_count = devices,
                                        .sink = orr_record_memory_sink(m->store),
                                        .runner = way == RUNNER ? ORR_RUNNER_PER_DEVICE
                                                                : ORR_RUNNER_INLINE,
                                        .timing_only = true};
    bench_check(orr_runtime_create(&config, &m->runtime, &error), error.text);
    for (uint32_t i = 0; i < devices; i++)
        m->streams[i] = orr_device_stream(m->runtime, i, ORR_STREAM_COMPUTE);
    for (uint32_t i = 0; way == RANGES && i < devices * BUFFERS; i++)
        bench_check(orr_buffer_alloc(m->streams[i / BUFFERS], BYTES, "x", &m->buffers[i]),
                    "buffer");
}

static void machine_close(struct machine *m) {
    orr_runtime_destroy(&m->runtime);
    orr_record_memory_destroy(&m->store);
    free(m->buffers);
    free(m->streams);
    free(m->specs);
}

static void set_ranges(const struct machine *m, uint32_t device, struct orr_range *ranges,
                       struct orr_kernel *kernel) {
    for (uint32_t i = 0; i < BUFFERS; i++)
        ranges[i] = (struct orr_range){m->buffers[device * BUFFERS + i], 0, BYTES,
                                       i < BUFFERS - 1 ? ORR_ACCESS_READ : ORR_ACCESS_WRITE};
    kernel->accesses = ranges;
    kernel->access_count = BUFFERS;
}

/* ns per kernel. */
static double run_ours(uint32_t devices, uint32_t kernels, enum way way) {
    struct machine m;
    machine_open(&m, devices, way);
    struct orr_kernel kernel = {
        .name = "kernel", .dtype = ORR_DTYPE_F32, .submit_ns = -1, .service_ns = -1};
    struct orr_range ranges[BUFFERS];
    double begin_s = bench_thread_cpu_s();
    for (uint32_t j = 0; j < kernels; j++)
        for (uint32_t i = 0; i < devices; i++) {
            kernel.cost.flops = 1000 * (uint64_t)des_floor_duration_ns(i, j);
            if (way == RANGES)
                set_ranges(&m, i, ranges, &kernel);
            bench_check(orr_stream_kernel(m.streams[i], &kernel, NULL), "kernel");
        }
    bench_check(orr_runtime_finish(m.runtime), "finish");
    double spent_s = bench_thread_cpu_s() - begin_s;
    size_t records = orr_record_memory_count(m.store, ORR_RECORD_COMMAND);
    bench_must(records >= (size_t)devices * kernels, "records are missing");
    machine_close(&m);
    return spent_s / ((double)devices * kernels) * 1e9;
}

/* The same in a process of its own. */
static double run_fresh(uint32_t devices, uint32_t kernels) {
    int ends[2];
    double ns = 0;
    bench_must(pipe(ends) == 0, "pipe");
    fflush(stdout);
    pid_t child = fork();
    bench_must(child >= 0, "fork");
    if (child == 0) {
        ns = run_ours(devices, kernels, DEEP);
        _exit(write(ends[1], &ns, sizeof ns) == sizeof ns ? 0 : 1);
    }
    int status;
    bench_must(read(ends[0], &ns, sizeof ns) == sizeof ns, "the fresh process failed");
    bench_must(waitpid(child, &status, 0) == child && status == 0, "the fresh process failed");
    close(ends[0]);
    close(ends[1]);
    return ns;
}

static double run_floor(uint32_t devices, uint32_t kernels) {
    int64_t end_ns;
    return des_floor_run(devices, kernels, &end_ns) / ((double)devices * kernels) * 1e9;
}

static double run_peer(uint32_t devices) {
    char arguments[64];
    double values[2];
    uint32_t total = bench_quick() ? PEER_KERNELS / 4 : PEER_KERNELS;
    snprintf(arguments, sizeof arguments, "kernels %u %u", (unsigned)devices,
             (unsigned)(total / devices));
    bench_peer_run("simgrid_kernels", arguments, values, 2);
    return values[0];
}

struct results {
    double ours[WAYS][BENCH_ROUNDS_MAX], fresh[BENCH_ROUNDS_MAX], floor[BENCH_ROUNDS_MAX],
        peer[BENCH_ROUNDS_MAX];
};

static uint32_t kernels_for(uint32_t devices) {
    return (uint32_t)(bench_quick() ? KERNELS_QUICK : KERNELS) / devices;
}

/* Before this process has used any memory. */
static void measure_fresh(uint32_t devices, struct results *results) {
    for (int round = 0; round < bench_rounds(); round++)
        results->fresh[round] = run_fresh(devices, kernels_for(devices));
}

static void measure(uint32_t devices, bool peer, struct results *results) {
    uint32_t kernels = kernels_for(devices);
    for (int round = -1; round < bench_rounds(); round++) {
        for (int way = 0; way < WAYS; way++)
            results->ours[way][round < 0 ? 0 : round] = run_ours(devices, kernels, (enum way)way);
        if (round < 0)
            continue;
        results->floor[round] = run_floor(devices, kernels);
        if (peer)
            results->peer[round] = run_peer(devices);
    }
}

static void print(uint32_t devices, const char *name, double *values, const char *unit) {
    bench_valuef(bench_median(values, bench_rounds()), unit, "sim_%s_%u", name, (unsigned)devices);
}

static void print_results(uint32_t devices, bool peer, struct results *results) {
    for (int way = 0; way < WAYS; way++)
        print(devices, way_names[way], results->ours[way], "ns/kernel");
    print(devices, "fresh", results->fresh, "ns/kernel");
    print(devices, "floor", results->floor, "ns/kernel");
    if (peer)
        print(devices, "simgrid", results->peer, "ns/activity");
}

int main(int argc, char **argv) {
    static uint32_t sizes[SIZES] = {8, 64, 512, 4096};
    static struct results results[SIZES];
    int count = argc > 1 ? 1 : SIZES;
    if (argc > 1)
        sizes[0] = (uint32_t)atoi(argv[1]);
    bench_must(sizes[0] > 0, "DEVICES is a number from 1");
    bool peer = argc == 1 && bench_peer_exists("simgrid_kernels");
    for (int i = 0; i < count; i++)
        measure_fresh(sizes[i], &results[i]);
    bench_keep_memory();
    for (int i = 0; i < count; i++) {
        measure(sizes[i], peer, &results[i]);
        print_results(sizes[i], peer, &results[i]);
    }
    return 0;
}
