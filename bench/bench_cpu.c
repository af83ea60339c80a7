/* What a command costs on CPU devices, at the backend's seam: empty kernels, each with its record.
 *
 * enqueue   submits into a queue whose worker is held, and then, as `retire`, hands them back with
 *           their records: what the host pays, both by its CPU time
 * chain     one stream, end to end, the host enqueuing while the worker runs (wall time)
 * pipe4     four streams, each command waits for the last one of the stream before it
 * per-device, the same two with a dispatch thread
 * wake      workers woken per kernel while the queue is kept full
 * round     enqueue and wait for it, with the worker asleep in between or not
 * barrier   a group over 2, 4 and 8 streams, end to end
 * stamp     one reading of the clock, which is what a record costs the worker
 *
 *     build/release/bench/bench_cpu [STARPU_TASKS]
 *
 * Prints `name,value,unit` lines, medians of five rounds. With the path of a program that submits
 * empty tasks to StarPU (arguments COUNT MODE, modes indep, chain and pipe4; lines of
 * "RESULT key unit value" with keys ending in paused_submit and overlap_total) it takes turns with
 * that one and prints the ratios of the medians: submit while StarPU's workers are paused, and end
 * to end on the same graphs. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cpu/cpu.h"

enum {
    STREAMS_MAX = 8,
    COMMANDS = 300000,
    HELD = 60000, /* commands behind a held worker */
    HELD_DEPTH = 1 << 16,
    PEER_TASKS = 50000,
    ROUNDS = 5,
    CHUNK_WORDS = 1 << 16
};

struct machine {
    struct orr_memory memory;
    struct orr_device_spec spec;
    struct orr_backend *backend;
    const struct orr_backend_verbs *verbs;
    uint32_t streams[STREAMS_MAX];
    struct orr_record_writer writer; /* the records go round in one chunk */
    uint64_t *chunk;
    struct orr_error error;
};

static _Atomic int gate; /* a kernel may wait for it */

/* ---- what a benchmark needs --------------------------------------------------------------- */

static double clock_s(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(bool condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "bench_cpu: %s\n", what);
    exit(1);
}

static void check(enum orr_status status, const char *what) {
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench_cpu: %s: %s\n", what, orr_status_text(status));
    exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

/* ---- the machine -------------------------------------------------------------------------- */

static void refill(struct orr_record_writer *writer, size_t words) {
    struct machine *m =
        (struct machine *)(void *)((char *)writer - offsetof(struct machine, writer));
    must(words <= CHUNK_WORDS, "a record is too long");
    writer->cursor = m->chunk;
}

static void on_retire(void *context, const struct orr_command *command,
                      const struct orr_error *error) {
    struct machine *m = context;
    (void)error;
    orr_record_push(&m->writer, &command->record);
}

static enum orr_status do_nothing(const struct orr_command *command, struct orr_error *error) {
    (void)command;
    (void)error;
    return ORR_OK;
}

static enum orr_status wait_for_gate(const struct orr_command *command, struct orr_error *error) {
    (void)command;
    (void)error;
    struct timespec tick = {.tv_nsec = 50000};
    while (!atomic_load(&gate))
        nanosleep(&tick, NULL);
    return ORR_OK;
}

static void machine_open(struct machine *m, enum orr_runner runner, uint32_t streams,
                         uint32_t depth) {
    *m = (struct machine){.memory = orr_memory_system(), .spec = {.queue_depth = depth}};
    m->chunk = malloc(CHUNK_WORDS * sizeof *m->chunk);
    must(m->chunk != NULL, "no memory");
    m->writer = (struct orr_record_writer){m->chunk, m->chunk + CHUNK_WORDS, refill};
    struct orr_backend_config config = {.memory = &m->memory,
                                        .specs = &m->spec,
                                        .device_count = 1,
                                        .runner = runner,
                                        .retire = {on_retire, m}};
    check(orr_cpu_open(&config, &m->backend, &m->error), "open");
    m->verbs = m->backend->verbs;
    for (uint32_t i = 0; i < streams; i++)
        check(m->verbs->stream_create(m->backend, 0, ORR_STREAM_COMPUTE, &m->streams[i], &m->error),
              "stream");
}

static void machine_close(struct machine *m) {
    m->verbs->close(m->backend);
    free(m->chunk);
}

static struct orr_command kernel(orr_command_run run) {
    struct orr_command command = {
        .record = {.header = ORR_RECORD_HEADER(command, COMMAND), .enqueue_ns = ORR_TIME_NONE},
        .submit_ns = -1,
        .service_ns = -1,
        .run = run};
    command.record.header.a = ORR_COMMAND_KERNEL;
    return command;
}

static void wait_for(struct machine *m, struct orr_point point) {
    check(m->verbs->wait(m->backend, 0, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &m->error), "wait");
}

static struct orr_point submit(struct machine *m, uint32_t stream,
                               const struct orr_command *command, const struct orr_point *waits,
                               uint32_t wait_count) {
    struct orr_point point;
    enum orr_status status;
    while ((status = m->verbs->submit(m->backend, stream, command, waits, wait_count, &point,
                                      &m->error)) == ORR_FULL)
        wait_for(m, point);
    check(status, "submit");
    return point;
}

/* ---- what the host pays ------------------------------------------------------------------- */

struct host_cost {
    double enqueue_ns, retire_ns;
};

/* The first pass touches the queue's memory, the second one counts. */
static struct host_cost measure_host(void) {
    struct machine m;
    struct host_cost cost = {0};
    machine_open(&m, ORR_RUNNER_INLINE, 1, HELD_DEPTH);
    struct orr_command held = kernel(wait_for_gate), empty = kernel(do_nothing);
    for (int pass = 0; pass < 2; pass++) {
        atomic_store(&gate, 0);
        submit(&m, m.streams[0], &held, NULL, 0);
        struct orr_point last = {0};
        double begin_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < HELD; i++)
            last = submit(&m, m.streams[0], &empty, NULL, 0);
        cost.enqueue_ns = (clock_s(CLOCK_THREAD_CPUTIME_ID) - begin_s) * 1e9 / HELD;
        begin_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
        atomic_store(&gate, 1);
        wait_for(&m, last); /* asleep while the worker runs them, then hands back all */
        cost.retire_ns = (clock_s(CLOCK_THREAD_CPUTIME_ID) - begin_s) * 1e9 / HELD;
    }
    machine_close(&m);
    return cost;
}

/* ---- end to end --------------------------------------------------------------------------- */

struct flow {
    double wall_ns, cpu_ns, wakeups;
};

/* `streams` 1: a chain; more: each command waits for the last one of the stream before it. */
static struct flow measure_flow(enum orr_runner runner, uint32_t streams) {
    struct machine m;
    struct orr_cpu_counters before, after;
    machine_open(&m, runner, streams, 0);
    struct orr_command empty = kernel(do_nothing);
    struct orr_point last = {0};
    long count = COMMANDS;
    double begin_s = 0, cpu_s = 0;
    for (long i = -count / 10; i < count; i++) {
        if (i == 0) {
            wait_for(&m, last);
            orr_cpu_counters(m.backend, &before);
            cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
            begin_s = clock_s(CLOCK_MONOTONIC);
        }
        uint32_t stream = m.streams[(uint32_t)(i + count) % streams];
        last = submit(&m, stream, &empty, &last, streams > 1 && last.seq > 0);
    }
    wait_for(&m, last);
    double per_command = 1e9 / (double)count;
    struct flow flow = {(clock_s(CLOCK_MONOTONIC) - begin_s) * per_command,
                        (clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_s) * per_command, 0};
    orr_cpu_counters(m.backend, &after);
    flow.wakeups = (double)(after.wakeups - before.wakeups) / (double)count;
    machine_close(&m);
    return flow;
}

/* ---- latencies ---------------------------------------------------------------------------- */

static double measure_round(bool asleep) {
    struct machine m;
    machine_open(&m, ORR_RUNNER_INLINE, 1, 0);
    struct orr_command empty = kernel(do_nothing);
    int count = asleep ? 500 : 20000;
    double total_s = 0;
    wait_for(&m, submit(&m, m.streams[0], &empty, NULL, 0));
    for (int i = 0; i < count; i++) {
        struct timespec tick = {.tv_nsec = 100000};
        if (asleep)
            nanosleep(&tick, NULL);
        double begin_s = clock_s(CLOCK_MONOTONIC);
        wait_for(&m, submit(&m, m.streams[0], &empty, NULL, 0));
        total_s += clock_s(CLOCK_MONOTONIC) - begin_s;
    }
    machine_close(&m);
    return total_s * 1e9 / count;
}

static double measure_barrier(uint32_t members) {
    struct machine m;
    machine_open(&m, ORR_RUNNER_INLINE, members, 0);
    struct orr_collective collectives[STREAMS_MAX];
    struct orr_command commands[STREAMS_MAX];
    struct orr_point points[STREAMS_MAX];
    for (uint32_t i = 0; i < members; i++) {
        collectives[i] =
            (struct orr_collective){.kind = ORR_COLLECTIVE_BARRIER, .rank = i, .ranks = members};
        commands[i] = kernel(NULL);
        commands[i].record.header.a = ORR_COMMAND_COLLECTIVE;
        commands[i].collective = &collectives[i];
    }
    long count = COMMANDS / 20;
    double begin_s = clock_s(CLOCK_MONOTONIC);
    for (long i = 0; i < count; i++) {
        enum orr_status status;
        while ((status = m.verbs->submit_group(m.backend, m.streams, commands, members, NULL, 0,
                                               points, &m.error)) == ORR_FULL)
            wait_for(&m, points[0]);
        check(status, "submit_group");
    }
    wait_for(&m, points[0]);
    double ns = (clock_s(CLOCK_MONOTONIC) - begin_s) * 1e9 / (double)count;
    machine_close(&m);
    return ns;
}

static double measure_stamp(void) {
    struct machine m;
    machine_open(&m, ORR_RUNNER_INLINE, 1, 0);
    int64_t sum = 0;
    double begin_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 1000000; i++)
        sum += m.verbs->now(m.backend, 0);
    double ns = (clock_s(CLOCK_THREAD_CPUTIME_ID) - begin_s) * 1e9 / 1000000;
    must(sum > 0, "the clock stands still");
    machine_close(&m);
    return ns;
}

/* ---- report ------------------------------------------------------------------------------- */

enum figure {
    ENQUEUE,
    RETIRE,
    CHAIN,
    CHAIN_CPU,
    PIPE4,
    PIPE4_CPU,
    CHAIN_DISPATCH,
    PIPE4_DISPATCH,
    WAKE,
    ROUND_ASLEEP,
    ROUND_AWAKE,
    BARRIER_2,
    BARRIER_4,
    BARRIER_8,
    STAMP,
    STARPU_SUBMIT,
    STARPU_CHAIN,
    STARPU_PIPE4,
    FIGURES
};

static const char *const names[FIGURES][2] = {
    [ENQUEUE] = {"cpu_enqueue", "ns"},
    [RETIRE] = {"cpu_retire", "ns"},
    [CHAIN] = {"cpu_chain", "ns"},
    [CHAIN_CPU] = {"cpu_chain_process_time", "ns"},
    [PIPE4] = {"cpu_pipe4", "ns"},
    [PIPE4_CPU] = {"cpu_pipe4_process_time", "ns"},
    [CHAIN_DISPATCH] = {"cpu_chain_per_device", "ns"},
    [PIPE4_DISPATCH] = {"cpu_pipe4_per_device", "ns"},
    [WAKE] = {"cpu_wakeups_per_kernel", "wakeups"},
    [ROUND_ASLEEP] = {"cpu_round_trip_asleep", "ns"},
    [ROUND_AWAKE] = {"cpu_round_trip", "ns"},
    [BARRIER_2] = {"cpu_barrier_2", "ns"},
    [BARRIER_4] = {"cpu_barrier_4", "ns"},
    [BARRIER_8] = {"cpu_barrier_8", "ns"},
    [STAMP] = {"cpu_stamp", "ns"},
    [STARPU_SUBMIT] = {"starpu_submit_paused", "ns"},
    [STARPU_CHAIN] = {"starpu_chain", "ns"},
    [STARPU_PIPE4] = {"starpu_pipe4", "ns"},
};

/* What the peer prints for one mode. */
struct peer {
    double paused_ns, total_ns;
};

static struct peer peer_run(const char *path, const char *mode) {
    char line[512], key[256];
    struct peer peer = {0, 0};
    double value;
    must(snprintf(line, sizeof line, "REPS=1 '%s' %d %s 2>/dev/null", path, PEER_TASKS, mode) <
             (int)sizeof line,
         "the path of the peer is too long");
    FILE *pipe = popen(line, "r");
    must(pipe != NULL, "popen");
    while (fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "RESULT %255s %*s %lf", key, &value) != 2)
            continue;
        if (strstr(key, "paused_submit"))
            peer.paused_ns = value;
        if (strstr(key, "overlap_total"))
            peer.total_ns = value;
    }
    must(pclose(pipe) == 0 && peer.paused_ns > 0 && peer.total_ns > 0, "the peer failed");
    return peer;
}

static void measure(double values[FIGURES][ROUNDS], int round, const char *peer) {
    struct host_cost host = measure_host();
    values[ENQUEUE][round] = host.enqueue_ns;
    values[RETIRE][round] = host.retire_ns;
    struct flow chain = measure_flow(ORR_RUNNER_INLINE, 1);
    values[CHAIN][round] = chain.wall_ns;
    values[CHAIN_CPU][round] = chain.cpu_ns;
    values[WAKE][round] = chain.wakeups;
    struct flow pipe = measure_flow(ORR_RUNNER_INLINE, 4);
    values[PIPE4][round] = pipe.wall_ns;
    values[PIPE4_CPU][round] = pipe.cpu_ns;
    values[CHAIN_DISPATCH][round] = measure_flow(ORR_RUNNER_PER_DEVICE, 1).wall_ns;
    values[PIPE4_DISPATCH][round] = measure_flow(ORR_RUNNER_PER_DEVICE, 4).wall_ns;
    values[ROUND_ASLEEP][round] = measure_round(true);
    values[ROUND_AWAKE][round] = measure_round(false);
    for (int i = 0; i < 3; i++)
        values[BARRIER_2 + i][round] = measure_barrier(2u << i);
    values[STAMP][round] = measure_stamp();
    if (!peer)
        return;
    values[STARPU_SUBMIT][round] = peer_run(peer, "indep").paused_ns;
    values[STARPU_CHAIN][round] = peer_run(peer, "chain").total_ns;
    values[STARPU_PIPE4][round] = peer_run(peer, "pipe4").total_ns;
}

int main(int argc, char **argv) {
    static double values[FIGURES][ROUNDS];
    double medians[FIGURES];
    const char *peer = argc > 1 ? argv[1] : NULL;
    for (int round = 0; round < ROUNDS; round++)
        measure(values, round, peer);
    for (int i = 0; i < (peer ? FIGURES : STARPU_SUBMIT); i++) {
        medians[i] = median(values[i]);
        printf("%s,%.6g,%s\n", names[i][0], medians[i], names[i][1]);
    }
    if (!peer)
        return 0;
    double recorded = medians[ENQUEUE] + medians[RETIRE];
    printf("cpu_enqueue_by_starpu,%.4f,ratio\n", medians[ENQUEUE] / medians[STARPU_SUBMIT]);
    printf("cpu_enqueue_and_record_by_starpu,%.4f,ratio\n", recorded / medians[STARPU_SUBMIT]);
    printf("cpu_chain_by_starpu,%.4f,ratio\n", medians[CHAIN] / medians[STARPU_CHAIN]);
    printf("cpu_pipe4_by_starpu,%.4f,ratio\n", medians[PIPE4] / medians[STARPU_PIPE4]);
    return 0;
}
