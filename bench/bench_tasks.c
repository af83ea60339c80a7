/* Empty kernels on CPU devices through the public API, with every record kept in memory, against
 * StarPU's empty tasks (bench/peers/starpu_tasks.c), in turn.
 *
 *     enqueue   what the calling thread pays (CPU time) for a kernel in a queue whose worker is
 *               held: the call, and later taking the kernel back and writing its record, in batches
 *               of a thousand, which the queue holds; StarPU: submitting tasks while its workers
 *               are paused, all of them or in such batches
 *     chain     one stream, from the first call to the end of the last kernel (wall time); StarPU:
 *               the quicker one of independent tasks and tasks that write one value
 *     pipe4     four streams, each kernel waits by an event for the one before, which is in the
 *               stream before; StarPU: the same graph by data
 *     wakeups   sleeping workers woken per kernel while the queue is kept full */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/bench.h"
#include "runtime/cpu/cpu.h"
#include "runtime/record_memory.h"
#include "runtime/runtime_internal.h" /* the backend's counters */
#include "runtime/stream.h"

enum {
    STREAMS = 4,
    HELD = 1000,
    HELD_BATCHES = 100,
    CHAIN = 200000,
    PIPE = 60000,
    PEER_VALUES = 3
};

struct machine {
    struct orr_memory memory;
    struct orr_record_memory *store;
    struct orr_runtime *runtime;
    struct orr_stream *streams[STREAMS];
    struct orr_event *events[STREAMS];
};

static void machine_open(struct machine *m) {
    struct orr_error error = {0};
    struct orr_device_spec spec = {.name = "bench", .memory_bytes = 1 << 20};
    *m = (struct machine){.memory = orr_memory_system()};
    bench_check(orr_record_memory_create(&m->memory, &m->store), "store");
    struct orr_runtime_config config = {.memory = &m->memory,
                                        .open = orr_cpu_open,
                                        .specs = &spec,
                                        .device_count = 1,
                                        .sink = orr_record_memory_sink(m->store)};
    bench_check(orr_runtime_create(&config, &m->runtime, &error), error.text);
    for (int i = 0; i < STREAMS; i++) {
        char name[] = {'s', (char)('0' + i), '\0'};
        bench_check(orr_stream_create(m->runtime, 0, ORR_STREAM_COMPUTE, name, &m->streams[i]),
                    "stream");
        bench_check(orr_event_create(m->runtime, NULL, &m->events[i]), "event");
    }
}

static void machine_close(struct machine *m) {
    orr_runtime_destroy(&m->runtime);
    orr_record_memory_destroy(&m->store);
}

static enum orr_status nothing(void *work, struct orr_error *error) {
    (void)work, (void)error;
    return ORR_OK;
}

static enum orr_status wait_at_gate(void *work, struct orr_error *error) {
    (void)error;
    pthread_mutex_lock(work);
    pthread_mutex_unlock(work);
    return ORR_OK;
}

static const struct orr_kernel empty = {
    .name = "empty", .dtype = ORR_DTYPE_NONE, .submit_ns = -1, .service_ns = -1, .run = nothing};

static int scaled(int count) {
    return bench_quick() ? count / 4 : count;
}

/* Call and record, ns of the calling thread; in batches that a queue of the usual depth holds. */
static void run_held(double *out_call, double *out_record) {
    struct machine m;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct orr_kernel hold = empty;
    double call_s = 0, record_s = 0;
    int batches = scaled(HELD_BATCHES);
    hold.run = wait_at_gate;
    hold.work = &gate;
    machine_open(&m);
    for (int batch = 0; batch < batches; batch++) {
        pthread_mutex_lock(&gate);
        bench_check(orr_stream_kernel(m.streams[0], &hold, NULL), "kernel");
        double begin_s = bench_thread_cpu_s();
        for (int i = 0; i < HELD; i++)
            bench_check(orr_stream_kernel(m.streams[0], &empty, NULL), "kernel");
        double called_s = bench_thread_cpu_s();
        pthread_mutex_unlock(&gate);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* or the sync would spin */
        double slept_s = bench_thread_cpu_s();
        bench_check(orr_stream_sync(m.streams[0]), "sync");
        call_s += called_s - begin_s;
        record_s += bench_thread_cpu_s() - slept_s;
    }
    *out_call = call_s / (HELD * batches) * 1e9;
    *out_record = record_s / (HELD * batches) * 1e9;
    machine_close(&m);
}

/* ns per kernel, and workers woken per kernel. */
static double run_chain(double *out_wakeups) {
    struct machine m;
    struct orr_cpu_counters before, after;
    int count = scaled(CHAIN);
    machine_open(&m);
    for (int i = 0; i < count / 10; i++)
        bench_check(orr_stream_kernel(m.streams[0], &empty, NULL), "kernel");
    bench_check(orr_stream_sync(m.streams[0]), "sync");
    orr_cpu_counters(m.runtime->backend, &before);
    double begin_s = bench_wall_s();
    for (int i = 0; i < count; i++)
        bench_check(orr_stream_kernel(m.streams[0], &empty, NULL), "kernel");
    bench_check(orr_stream_sync(m.streams[0]), "sync");
    double spent_s = bench_wall_s() - begin_s;
    orr_cpu_counters(m.runtime->backend, &after);
    *out_wakeups = (double)(after.wakeups - before.wakeups) / count;
    machine_close(&m);
    return spent_s / count * 1e9;
}

static void pipe_step(struct machine *m, int i) {
    struct orr_stream *stream = m->streams[i % STREAMS];
    if (i > 0)
        bench_check(orr_stream_wait(stream, m->events[(i - 1) % STREAMS]), "wait");
    bench_check(orr_stream_kernel(stream, &empty, NULL), "kernel");
    bench_check(orr_event_record(m->events[i % STREAMS], stream), "record");
}

static double run_pipe(void) {
    struct machine m;
    int count = scaled(PIPE);
    machine_open(&m);
    for (int i = 0; i < count / 10; i++)
        pipe_step(&m, i);
    bench_check(orr_runtime_finish(m.runtime), "finish");
    double begin_s = bench_wall_s();
    for (int i = 0; i < count; i++)
        pipe_step(&m, i);
    bench_check(orr_runtime_finish(m.runtime), "finish");
    double spent_s = bench_wall_s() - begin_s;
    machine_close(&m);
    return spent_s / count * 1e9;
}

/* Submit, end to end, and submit in batches. */
static void run_peer(const char *mode, int count, double values[PEER_VALUES]) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s %d", mode, scaled(count));
    bench_peer_run("starpu_tasks", arguments, values, PEER_VALUES);
}

enum figure { CALL, RECORD, ENQUEUE, CHAIN_NS, WAKEUPS, PIPE_NS, FIGURES };
enum peer { SUBMIT, BATCHES, TASKS, PIPELINE, PEERS };

int main(void) {
    static const char *const names[FIGURES][2] = {
        {"tasks_call", "ns/kernel"},  {"tasks_record", "ns/kernel"}, {"tasks_enqueue", "ns/kernel"},
        {"tasks_chain", "ns/kernel"}, {"tasks_wakeups", "1/kernel"}, {"tasks_pipe4", "ns/kernel"}};
    static const char *const peer_names[PEERS] = {"tasks_starpu_submit", "tasks_starpu_batches",
                                                  "tasks_starpu_chain", "tasks_starpu_pipe4"};
    double ours[FIGURES][BENCH_ROUNDS_MAX], theirs[PEERS][BENCH_ROUNDS_MAX];
    bool peer = bench_peer_exists("starpu_tasks");
    bench_keep_memory();
    for (int round = -1; round < bench_rounds(); round++) {
        int i = round < 0 ? 0 : round;
        run_held(&ours[CALL][i], &ours[RECORD][i]);
        ours[ENQUEUE][i] = ours[CALL][i] + ours[RECORD][i];
        ours[CHAIN_NS][i] = run_chain(&ours[WAKEUPS][i]);
        ours[PIPE_NS][i] = run_pipe();
        if (!peer || round < 0)
            continue;
        double independent[PEER_VALUES], chain[PEER_VALUES], pipe[PEER_VALUES];
        run_peer("independent", PIPE, independent);
        run_peer("chain", PIPE, chain);
        run_peer("pipe4", PIPE, pipe);
        theirs[SUBMIT][i] = independent[0];
        theirs[BATCHES][i] = independent[2];
        theirs[TASKS][i] = chain[1] < independent[1] ? chain[1] : independent[1];
        theirs[PIPELINE][i] = pipe[1];
    }
    for (int i = 0; i < FIGURES; i++)
        bench_value(names[i][0], bench_median(ours[i], bench_rounds()), names[i][1]);
    for (int i = 0; peer && i < PEERS; i++)
        bench_value(peer_names[i], bench_median(theirs[i], bench_rounds()), "ns/task");
    return 0;
}
