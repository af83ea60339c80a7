/* What the check of runs costs: the same simulation with and without the monitor, without a trace.
 *
 *     build/release/bench/bench_monitor [NAME]        all, or one of
 *
 *     streams   8 devices with 8 streams each; a kernel with two ranges that it reads and one that
 *               it writes in turn on every stream, and every fourth time a stream waits for another
 *               one of its device: launch-bound, and nothing but launches
 *     joined    the same, and now and then every stream waits for every other one of its device
 *     train_N   steps of training a small decoder on N devices, through the tensor layer and Lua
 *
 * Lines NAME_plain and NAME_checked are ns of CPU time: of a command for the first two, of the
 * whole for training. NAME_ratio is the ratio of the medians. "bytes" is what the monitor holds for
 * clocks and histories when the run ends, and _10x the same of a run ten times as long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "hazards/monitor.h"
#include "runtime/buffer.h"
#include "scenarios/scenario.h"
#include "sim/sim.h"

enum { DEVICES = 8, STREAMS = 8, BUFFERS = 3, BYTES = 4096, LAUNCHES = 100000, DEVICES_MAX = 64 };

struct machine {
    struct orr_memory memory;
    struct orr_device_spec specs[DEVICES_MAX];
    struct orr_monitor *monitor; /* NULL: not checked */
    struct orr_runtime *runtime;
};

static void machine_open(struct machine *m, uint32_t devices, bool checked) {
    struct orr_error error = {0};
    *m = (struct machine){.memory = orr_memory_system()};
    for (uint32_t i = 0; i < devices; i++)
        m->specs[i] =
            (struct orr_device_spec){.name = "bench",
                                     .memory_bytes = UINT64_C(1) << 36,
                                     .bandwidth = 2000000000000,
                                     .peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 1000000000000,
                                     .peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] = 500000000000000,
                                     .host_launch_ns = 1000};
    if (checked)
        bench_check(orr_monitor_create(&m->memory, NULL, &m->monitor), "monitor");
    struct orr_runtime_config config = {.memory = &m->memory,
                                        .open = orr_sim_open,
                                        .specs = m->specs,
                                        .device_count = devices,
                                        .observer =
                                            checked ? orr_monitor_observer(m->monitor) : NULL,
                                        .timing_only = true};
    bench_check(orr_runtime_create(&config, &m->runtime, &error), error.text);
}

/* Must be clean; returns the monitor's bytes. */
static struct orr_monitor_figures machine_close(struct machine *m) {
    struct orr_monitor_figures figures = {0};
    if (m->monitor) {
        figures = orr_monitor_figures(m->monitor);
        bench_must(orr_monitor_finding_count(m->monitor) == 0, "the check found something");
        bench_check(orr_monitor_status(m->monitor), "monitor");
    }
    orr_runtime_destroy(&m->runtime);
    orr_monitor_destroy(&m->monitor);
    return figures;
}

/* --- streams --- */

struct launch_bound {
    struct machine machine;
    struct orr_stream *streams[DEVICES * STREAMS];
    struct orr_buffer *buffers[DEVICES * STREAMS][BUFFERS];
    bool joins; /* now and then all with all */
};

static void open_streams(struct launch_bound *it) {
    for (uint32_t i = 0; i < DEVICES * STREAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", (unsigned)i);
        bench_check(orr_stream_create(it->machine.runtime, i / STREAMS, ORR_STREAM_COMPUTE, name,
                                      &it->streams[i]),
                    "stream");
        for (int k = 0; k < BUFFERS; k++)
            bench_check(orr_buffer_alloc(it->streams[i], BYTES, "x", &it->buffers[i][k]), "buffer");
    }
}

static void launch_kernel(struct launch_bound *it, uint32_t stream) {
    struct orr_range ranges[BUFFERS];
    for (int k = 0; k < BUFFERS; k++)
        ranges[k] = (struct orr_range){it->buffers[stream][k], 0, BYTES,
                                       k < BUFFERS - 1 ? ORR_ACCESS_READ : ORR_ACCESS_WRITE};
    struct orr_kernel kernel = {.name = "kernel",
                                .dtype = ORR_DTYPE_F32,
                                .submit_ns = -1,
                                .service_ns = 5000,
                                .accesses = ranges,
                                .access_count = BUFFERS};
    bench_check(orr_stream_kernel(it->streams[stream], &kernel, NULL), "kernel");
}

static void join_all(struct launch_bound *it) {
    for (uint32_t i = 0; i < DEVICES * STREAMS; i++)
        for (uint32_t k = 0; k < STREAMS; k++)
            bench_check(
                orr_stream_wait_point(it->streams[i],
                                      orr_stream_point(it->streams[i / STREAMS * STREAMS + k])),
                "wait");
}

/* Returns seconds per command. */
static double run_streams(bool joins, bool checked, uint32_t launches, uint64_t *out_bytes) {
    struct launch_bound *it = calloc(1, sizeof *it);
    bench_must(it != NULL, "no memory");
    it->joins = joins;
    machine_open(&it->machine, DEVICES, checked);
    open_streams(it);
    uint32_t commands = 0;
    double begin_s = bench_thread_cpu_s();
    for (uint32_t i = 0; i < launches; i++, commands++) {
        uint32_t stream = i % (DEVICES * STREAMS);
        launch_kernel(it, stream);
        if (i / (DEVICES * STREAMS) % 4 == 3) {
            uint32_t other = stream / STREAMS * STREAMS + (stream + 1) % STREAMS;
            bench_check(
                orr_stream_wait_point(it->streams[stream], orr_stream_point(it->streams[other])),
                "wait");
            commands++;
        }
        if (joins && i % 4096 == 4095) {
            join_all(it);
            commands += DEVICES * STREAMS * STREAMS;
        }
    }
    bench_check(orr_runtime_finish(it->machine.runtime), "finish");
    double spent_s = bench_thread_cpu_s() - begin_s;
    *out_bytes = machine_close(&it->machine).bytes;
    free(it);
    return spent_s / commands;
}

/* --- training --- */

static const char program[] =
    "local configurations, parallel = require 'configurations', require 'parallel'\n"
    "local texts, trainer = require 'texts', require 'trainer'\n"
    "local p = orrery.args{ dp = 1, tp = 1, pp = 1, steps = 1 }\n"
    "local config = configurations.get('tiny', {})\n"
    "local plan = parallel.plan{ dp = p.dp, tp = p.tp, pp = p.pp, microbatches = p.pp }\n"
    "local batch = plan.dp * plan.microbatches\n"
    "local run = trainer.new{ plan = plan, config = config, batch = batch, lr = 1e-3 }\n"
    "for step = 1, p.steps do\n"
    "    run:step(function(microbatch)\n"
    "        local part = batch // plan.microbatches\n"
    "        return texts.successors(config, microbatch * part, part)\n"
    "    end)\n"
    "end\n";

static double run_training(uint32_t devices, bool checked, uint32_t steps, uint64_t *out_bytes) {
    char dp[16], step_text[16];
    snprintf(dp, sizeof dp, "%u", (unsigned)devices / 4);
    snprintf(step_text, sizeof step_text, "%u", (unsigned)steps);
    const struct orr_scenario_argument arguments[] = {
        {"dp", dp}, {"tp", "2"}, {"pp", "2"}, {"steps", step_text}};
    struct machine *m = calloc(1, sizeof *m);
    bench_must(m != NULL, "no memory");
    machine_open(m, devices, checked);
    struct orr_scenario_config config = {.memory = &m->memory,
                                         .path = "train.lua",
                                         .text = program,
                                         .length = sizeof program - 1,
                                         .arguments = arguments,
                                         .argument_count = 4};
    struct orr_scenario *scenario;
    struct orr_error error = {0};
    bench_check(orr_scenario_create(&config, &scenario, &error), error.text);
    double begin_s = bench_thread_cpu_s();
    enum orr_status status = orr_scenario_run(scenario, m->runtime, &error);
    bench_must(status == ORR_OK, error.text);
    bench_check(orr_runtime_finish(m->runtime), "finish");
    double spent_s = bench_thread_cpu_s() - begin_s;
    struct orr_monitor_figures figures = machine_close(m);
    *out_bytes = figures.bytes;
    orr_scenario_destroy(&scenario);
    free(m);
    return spent_s;
}

/* --- comparing --- */

enum way { STREAMS_ALONE, STREAMS_JOINED, TRAIN_8, TRAIN_64, WAYS };

static const char *const names[WAYS] = {"streams", "joined", "train_8", "train_64"};

static double run(enum way way, bool checked, uint32_t length, uint64_t *out_bytes) {
    switch (way) {
    case TRAIN_8: return run_training(8, checked, 2 * length, out_bytes);
    case TRAIN_64: return run_training(64, checked, length, out_bytes);
    default: return run_streams(way == STREAMS_JOINED, checked, length * LAUNCHES, out_bytes);
    }
}

static void compare(enum way way) {
    double plain[BENCH_ROUNDS_MAX], checked[BENCH_ROUNDS_MAX];
    uint64_t bytes = 0, more = 0;
    (void)run(way, true, 1, &bytes);
    for (int i = 0; i < bench_rounds(); i++) {
        plain[i] = run(way, false, 1, &more);
        checked[i] = run(way, true, 1, &bytes);
    }
    double plain_s = bench_median(plain, bench_rounds());
    double checked_s = bench_median(checked, bench_rounds());
    bench_valuef(plain_s * 1e9, "ns", "monitor_%s_plain", names[way]);
    bench_valuef(checked_s * 1e9, "ns", "monitor_%s_checked", names[way]);
    bench_valuef(checked_s / plain_s, "", "monitor_%s_ratio", names[way]);
    (void)run(way, true, 10, &more);
    bench_valuef((double)bytes, "bytes", "monitor_%s_bytes", names[way]);
    bench_valuef((double)more, "bytes", "monitor_%s_bytes_10x", names[way]);
}

int main(int argc, char **argv) {
    bench_keep_memory();
    for (int way = 0; way < WAYS; way++)
        if (argc < 2 || strcmp(argv[1], names[way]) == 0)
            compare((enum way)way);
    return 0;
}
