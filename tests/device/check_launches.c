/* Step 6: what a launch costs the host and the device: small copies, back to back, with each source
 * of timestamps, and as a graph. */
#include "runtime/buffer.h"
#include "runtime/program.h"
#include "tests/device/check.h"

enum { LAUNCHES = 4000, LAUNCHES_QUICK = 40, NODES = 500, NODES_QUICK = 10, BYTES = 64 };

struct pair {
    struct orr_stream *stream;
    struct orr_buffer *a, *b;
};

static bool make(struct check_run *run, struct pair *p) {
    p->stream = orr_device_stream(run->runtime, 0, ORR_STREAM_COMPUTE);
    return p->stream && orr_buffer_alloc(p->stream, BYTES, "a", &p->a) == ORR_OK &&
           orr_buffer_alloc(p->stream, BYTES, "b", &p->b) == ORR_OK &&
           orr_stream_fill(p->stream, p->a, 0, BYTES, 1) == ORR_OK &&
           orr_runtime_finish(run->runtime) == ORR_OK;
}

static bool launch_many(struct pair *p, int count) {
    bool good = true;
    for (int i = 0; good && i < count; i++)
        good = orr_stream_copy(p->stream, i % 2 ? p->a : p->b, 0, i % 2 ? p->b : p->a, 0, BYTES) ==
               ORR_OK;
    return good;
}

static void report(struct check *check, struct check_run *run, const char *name, bool good,
                   int64_t ns, int count) {
    if (!good) {
        check_say(check, name, CHECK_FAIL, "%s", orr_runtime_error(run->runtime)->text);
        return;
    }
    if (check->fake)
        check_say(check, name, CHECK_SKIP, "a fake device's time means nothing; %d ran", count);
    else
        check_figure(check, name, (double)ns / 1e3 / count, "us/command");
}

static void check_mode(struct check *check, const char *name, enum orr_cuda_timestamps which) {
    struct check_run run;
    struct pair p;
    int count = check->quick ? LAUNCHES_QUICK : LAUNCHES;
    if (!check_run_open(check, &run, 1, false, which, NULL))
        return;
    bool good = make(&run, &p);
    int64_t begin_ns = check->api->now(check->api);
    good = good && launch_many(&p, count) && orr_runtime_finish(run.runtime) == ORR_OK;
    report(check, &run, name, good, check->api->now(check->api) - begin_ns, count);
    check_run_close(&run);
}

/* The third launch and later ones replay what the second one recorded. */
static void check_graph(struct check *check) {
    enum { COLD = 2, WARM = 4 };
    struct check_run run;
    struct pair p;
    struct orr_program *program = NULL;
    int nodes = check->quick ? NODES_QUICK : NODES;
    int64_t begin_ns = 0;
    if (!check_run_open(check, &run, 1, false, ORR_CUDA_TIMESTAMPS_HOST, NULL))
        return;
    bool good = make(&run, &p) && orr_program_begin(run.runtime, &program) == ORR_OK &&
                launch_many(&p, nodes) && orr_program_end(program) == ORR_OK;
    for (int i = 0; good && i < COLD + WARM; i++) {
        if (i == COLD) {
            good = orr_runtime_finish(run.runtime) == ORR_OK;
            begin_ns = check->api->now(check->api);
        }
        good = good && orr_program_launch(program, p.stream) == ORR_OK;
    }
    good = good && orr_runtime_finish(run.runtime) == ORR_OK;
    report(check, &run, "graph node", good, check->api->now(check->api) - begin_ns, WARM * nodes);
    orr_program_destroy(&program);
    check_run_close(&run);
}

void check_launches(struct check *check) {
    check_mode(check, "launch with host times", ORR_CUDA_TIMESTAMPS_HOST);
    check_mode(check, "launch with event times", ORR_CUDA_TIMESTAMPS_EVENTS);
    check_mode(check, "launch with CUPTI times", ORR_CUDA_TIMESTAMPS_CUPTI);
    check_graph(check);
    check_say(check, "launches", CHECK_PASS, "all modes ran");
}
