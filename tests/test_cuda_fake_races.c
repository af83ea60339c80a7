/* Fake CUDA, threads: ThreadSanitizer sees a wait that is missing between two streams, and nothing
 * in a program that lacks none. Each program runs in a process of its own, which ThreadSanitizer
 * ends at its first report; in other variants than tsan there is nothing to see, and only the whole
 * program runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/cuda_fake_fixture.h"

enum { BYTES = 64, STREAMS = 3, ROUNDS = 4, REPORTED = 66, RUNS_MAX = 4 };

/* What a program leaves out. */
enum drop {
    DROP_NOTHING,
    DROP_READ_AFTER_WRITE, /* the consumer's wait for a producer */
    DROP_WRITE_AFTER_READ, /* a producer's wait for the consumer */
    DROP_HOST,             /* the host's, before it reads a result */
    DROP_ALLOCATION,       /* a stream's, for an allocation in another one */
    DROP_FREE,             /* the freeing stream's, for a user in another one */
    DROP_IN_GRAPH,         /* between two streams of a capture */
    DROP_COUNT
};

static const char *const drops[DROP_COUNT] = {
    "nothing", "read after write", "write after read", "host", "allocation", "free", "in graph"};

static void order(struct fake *f, cudaStream_t before, cudaStream_t after, bool dropped) {
    cudaEvent_t e = fake_event(f);
    CALL(cudaEventRecord(e, before));
    if (!dropped)
        CALL(cudaStreamWaitEvent(after, e, 0));
    CALL(cudaEventDestroy(e));
}

/* Producers write, a consumer copies what they wrote, and they write again. */
static void produce_and_consume(struct fake *f, enum drop drop) {
    void *shared[STREAMS];
    char *result, sum = 0;
    cudaStream_t producers[STREAMS], consumer = fake_stream(f);
    CALL(cudaMallocHost((void **)&result, STREAMS * BYTES));
    for (int i = 0; i < STREAMS; i++) {
        producers[i] = fake_stream(f);
        CALL(cudaMalloc(&shared[i], BYTES));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < STREAMS; i++) {
            CALL(cudaMemsetAsync(shared[i], round, BYTES, producers[i]));
            order(f, producers[i], consumer, drop == DROP_READ_AFTER_WRITE && i == 1);
            CALL(
                cudaMemcpyAsync(result + i * BYTES, shared[i], BYTES, cudaMemcpyDefault, consumer));
        }
        for (int i = 0; i < STREAMS; i++)
            order(f, consumer, producers[i], drop == DROP_WRITE_AFTER_READ && i == 1);
    }
    if (drop != DROP_HOST)
        CALL(cudaStreamSynchronize(consumer));
    for (int i = 0; i < STREAMS * BYTES; i++)
        sum = (char)(sum + result[i]);
    assert_true(drop != DROP_NOTHING || sum == (char)(STREAMS * BYTES * (ROUNDS - 1)));
}

static void allocate_and_free(struct fake *f, enum drop drop) {
    cudaMemPool_t pool;
    void *p;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    cudaStream_t a = fake_stream(f), b = fake_stream(f);
    CALL(cudaMemPoolCreate(&pool, &props));
    for (int i = 0; i < ROUNDS; i++) {
        CALL(cudaMallocFromPoolAsync(&p, BYTES, pool, a));
        order(f, a, b, drop == DROP_ALLOCATION);
        CALL(cudaMemsetAsync(p, 1, BYTES, b));
        order(f, b, a, drop == DROP_FREE);
        CALL(cudaFreeAsync(p, a));
    }
}

/* b writes and c reads, both between two works of a. */
static void capture_and_launch(struct fake *f, enum drop drop) {
    void *p, *q;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStream_t a = fake_stream(f), b = fake_stream(f), c = fake_stream(f);
    CALL(cudaMalloc(&p, BYTES));
    CALL(cudaMalloc(&q, BYTES));
    CALL(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    order(f, a, b, false);
    order(f, a, c, false);
    CALL(cudaMemsetAsync(p, 1, BYTES, b));
    order(f, b, c, drop == DROP_IN_GRAPH);
    CALL(cudaMemcpyAsync(q, p, BYTES, cudaMemcpyDefault, c));
    order(f, b, a, false);
    order(f, c, a, false);
    CALL(cudaStreamEndCapture(a, &graph));
    CALL(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < ROUNDS; i++)
        CALL(cudaGraphLaunch(exec, i % 2 ? a : b));
}

static void run(enum drop drop) {
    struct fake f;
    fake_open(&f, (struct orr_fake_cuda_options){.engine = ORR_FAKE_THREADS});
    produce_and_consume(&f, drop);
    allocate_and_free(&f, drop);
    capture_and_launch(&f, drop);
    assert_int_equal(f.rt->cudaDeviceSynchronize(), cudaSuccess);
    fake_close(&f);
}

/* The exit code of a process that runs the program. */
static int run_apart(enum drop drop) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)drop);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("TSAN_OPTIONS", "halt_on_error=1 exitcode=66 log_path=/dev/null", 1);
        execl("/proc/self/exe", "test_cuda_fake_races", number, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_program_with_all_its_waits_is_without_races(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_apart(DROP_NOTHING), 0);
}

static void a_missing_wait_is_a_data_race(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__)
    for (enum drop drop = DROP_NOTHING + 1; drop < DROP_COUNT; drop++) {
        int runs = 1; /* two threads may follow each other by chance */
        while (run_apart(drop) != REPORTED && runs < RUNS_MAX)
            runs++;
        if (runs == RUNS_MAX)
            print_message("# a missing wait was not reported: %s\n", drops[drop]);
        assert_true(runs < RUNS_MAX);
    }
#else
    (void)drops;
    print_message("# skipped: only ThreadSanitizer sees it (make tsan)\n");
    skip();
#endif
}

int main(int argc, char **argv) {
    if (argc > 1) {
        run((enum drop)atoi(argv[1]));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_with_all_its_waits_is_without_races),
        cmocka_unit_test(a_missing_wait_is_a_data_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
