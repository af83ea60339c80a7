/* Numbers of recorded programs: random programs, recorded once and launched several times, leave
 * the bytes that eager runs leave, on simulated devices and on CPU threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/program.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { DEVICES = 2, STREAMS = 5, BUFFERS = 6, BYTES = 256, STEPS_MAX = 40, LAUNCHES = 4 };

enum step_kind { STEP_KERNEL, STEP_COUNT, STEP_COPY, STEP_FILL, STEP_HOSTFN, STEP_SUM, STEP_KINDS };

/* One step touches one or two buffers; `reads` may equal `writes`. */
struct step {
    enum step_kind kind;
    int stream, reads, writes;
    int other_stream; /* SUM: of the other device */
    uint64_t from, to, bytes;
    uint8_t value;
};

/* What a program does, and how its launches are spread. */
struct plan {
    struct step steps[STEPS_MAX];
    int step_count;
    int launch_streams[LAUNCHES];
    bool early_free; /* the program is destroyed, and buffers freed, before its launches are over */
};

static int device_of_stream(int stream) {
    return stream % DEVICES;
}

static int device_of_buffer(int buffer) {
    return buffer % DEVICES;
}

static int stream_on(uint64_t *random, int device) {
    int stream;
    do
        stream = (int)random_below(random, STREAMS);
    while (device_of_stream(stream) != device);
    return stream;
}

static int buffer_on(uint64_t *random, int device) {
    return DEVICES * (int)random_below(random, BUFFERS / DEVICES) + device;
}

static struct step draw_step(uint64_t *random) {
    struct step step = {.kind = (enum step_kind)random_below(random, STEP_KINDS),
                        .stream = (int)random_below(random, STREAMS)};
    int device = device_of_stream(step.stream);
    step.reads = buffer_on(random, device);
    step.writes = buffer_on(random, device);
    step.bytes = 4 * (1 + random_below(random, BYTES / 8));
    step.from = 4 * random_below(random, (BYTES - step.bytes) / 4 + 1);
    step.to = 4 * random_below(random, (BYTES - step.bytes) / 4 + 1);
    step.value = (uint8_t)random_below(random, 100);
    if (step.kind == STEP_COPY) { /* from anywhere, not over itself */
        step.reads = (int)random_below(random, BUFFERS);
        if (step.reads == step.writes)
            step.kind = STEP_FILL;
    } else if (step.kind == STEP_SUM) {
        step.other_stream = stream_on(random, 1 - device);
        step.reads = buffer_on(random, 1 - device); /* the other member's, in place */
    }
    return step;
}

static void draw_plan(struct plan *plan, uint64_t *random) {
    plan->step_count = 1 + (int)random_below(random, STEPS_MAX);
    for (int i = 0; i < plan->step_count; i++)
        plan->steps[i] = draw_step(random);
    for (int i = 0; i < LAUNCHES; i++)
        plan->launch_streams[i] = (int)random_below(random, STREAMS);
    plan->early_free = random_below(random, 2) == 0;
}

/* --- a machine that runs plans --- */

struct counter {
    unsigned char *bytes; /* of the range it counts in */
    uint64_t count;
    int *released;
};

struct machine {
    struct fixture f;
    struct orr_runtime *runtime;
    struct orr_stream *streams[STREAMS];
    struct orr_buffer *buffers[BUFFERS], *image;
    struct orr_communicator *pair;
    struct orr_event *events[STEPS_MAX];
    int last_touch[BUFFERS][STREAMS]; /* 1 + the last step of a stream that touched it; 0 none */
    struct counter counters[STEPS_MAX];
    int released;
};

static void ok(const struct machine *m, enum orr_status status) {
    if (status != ORR_OK)
        print_message("%s: %s\n", orr_status_text(status), fixture_error(&m->f));
    assert_int_equal(status, ORR_OK);
}

static void open_machine(struct machine *m, orr_backend_open open) {
    *m = (struct machine){0};
    fixture_open(&m->f, open, DEVICES);
    m->runtime = m->f.runtime;
    for (int i = 0; i < STREAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        ok(m, orr_stream_create(m->runtime, (uint32_t)device_of_stream(i), ORR_STREAM_COMPUTE, name,
                                &m->streams[i]));
    }
    for (int i = 0; i < BUFFERS; i++) {
        struct orr_stream *stream = m->streams[device_of_buffer(i)];
        ok(m, orr_buffer_alloc(stream, BYTES, "b", &m->buffers[i]));
        ok(m, orr_stream_fill(stream, m->buffers[i], 0, BYTES, (uint8_t)(i + 1)));
    }
    ok(m, orr_buffer_alloc_host(m->runtime, BUFFERS * BYTES, "image", &m->image));
    for (int i = 0; i < STEPS_MAX; i++)
        ok(m, orr_event_create(m->runtime, NULL, &m->events[i]));
    const uint32_t devices[DEVICES] = {0, 1};
    ok(m, orr_communicator_create(m->runtime, "pair", devices, DEVICES, &m->pair));
    ok(m, orr_runtime_finish(m->runtime));
}

/* All of memory at the end, after everything; closes. */
static void read_and_close(struct machine *m, unsigned char *image) {
    ok(m, orr_runtime_finish(m->runtime));
    for (int i = 0; i < BUFFERS; i++)
        if (m->buffers[i])
            ok(m, orr_stream_copy(m->streams[device_of_buffer(i)], m->image, (uint64_t)i * BYTES,
                                  m->buffers[i], 0, BYTES));
    ok(m, orr_runtime_finish(m->runtime));
    for (int i = 0; i < BUFFERS; i++)
        if (m->buffers[i])
            ok(m, orr_buffer_read(m->image, (uint64_t)i * BYTES, image + i * BYTES, BYTES, -1));
    for (size_t i = 0; i < record_count(&m->f, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *c = record_at(&m->f, ORR_RECORD_COMMAND, i);
        assert_int_equal(c->header.c, ORR_COMMAND_STATUS_OK); /* not poisoned, that is */
    }
    fixture_close(&m->f);
}

/* --- steps --- */

/* Whoever uses a buffer waits for all others that used it; simple, and orders everything that must
 * be. */
static void wait_for_users(struct machine *m, int stream, int buffer) {
    for (int s = 0; s < STREAMS; s++)
        if (s != stream && m->last_touch[buffer][s] > 0)
            ok(m, orr_stream_wait(m->streams[stream], m->events[m->last_touch[buffer][s] - 1]));
}

static void touched(struct machine *m, int stream, int buffer, int index) {
    m->last_touch[buffer][stream] = index + 1;
}

static enum orr_status run_count(void *work, struct orr_error *error) {
    (void)error;
    struct counter *counter = work;
    for (uint64_t i = 0; i < counter->count; i++)
        counter->bytes[i] = (unsigned char)((counter->bytes[i] + 3) % 100);
    return ORR_OK;
}

static void run_function(void *work) {
    (void)run_count(work, NULL);
}

static void release_count(void *work) {
    (*((struct counter *)work)->released)++;
}

static struct counter *counter_of(struct machine *m, const struct step *step, int index) {
    m->counters[index] = (struct counter){
        .bytes = (unsigned char *)orr_buffer_pointer(m->buffers[step->writes]) + step->to,
        .count = step->bytes,
        .released = &m->released};
    return &m->counters[index];
}

static void enqueue_kernel(struct machine *m, const struct step *step, int index) {
    bool counts = step->kind == STEP_COUNT;
    char name[16];
    snprintf(name, sizeof name, "k%d", index % 7);
    const struct orr_range ranges[2] = {
        {m->buffers[step->writes], step->to, step->bytes,
         counts ? ORR_ACCESS_READ_WRITE : ORR_ACCESS_WRITE},
        {m->buffers[step->reads], step->from, step->bytes, ORR_ACCESS_READ}};
    struct orr_kernel kernel = {.name = name,
                                .dtype = ORR_DTYPE_F32,
                                .cost = {.flops = 1000, .bytes_read = step->bytes},
                                .accesses = ranges,
                                .access_count = counts ? 1 : 2,
                                .submit_ns = -1,
                                .service_ns = -1};
    if (counts) {
        kernel.run = run_count;
        kernel.work = counter_of(m, step, index);
        kernel.release = release_count;
    }
    ok(m, orr_stream_kernel(m->streams[step->stream], &kernel, NULL));
}

static void enqueue_sum(struct machine *m, const struct step *step) {
    struct orr_stream *streams[2] = {m->streams[step->stream], m->streams[step->other_stream]};
    struct orr_piece pieces[2] = {{m->buffers[step->writes], step->to},
                                  {m->buffers[step->reads], step->to}};
    bool second = device_of_stream(step->stream) == 1; /* ranks are devices */
    struct orr_stream *by_rank[2] = {streams[second], streams[!second]};
    struct orr_piece pieces_by_rank[2] = {pieces[second], pieces[!second]};
    ok(m, orr_collective_enqueue(m->pair, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_I32, step->bytes / 4,
                                 0, by_rank, pieces_by_rank, pieces_by_rank, NULL, 0, NULL));
}

static void enqueue_own(struct machine *m, const struct step *step, int index) {
    struct orr_stream *stream = m->streams[step->stream];
    switch (step->kind) {
    case STEP_KERNEL:
    case STEP_COUNT: enqueue_kernel(m, step, index); break;
    case STEP_COPY:
        ok(m, orr_stream_copy(stream, m->buffers[step->writes], step->to, m->buffers[step->reads],
                              step->from, step->bytes));
        break;
    case STEP_FILL:
        ok(m,
           orr_stream_fill(stream, m->buffers[step->writes], step->to, step->bytes, step->value));
        break;
    case STEP_HOSTFN: {
        const struct orr_range range = {m->buffers[step->writes], step->to, step->bytes,
                                        ORR_ACCESS_READ_WRITE};
        ok(m, orr_stream_hostfn(stream, "function", run_function, counter_of(m, step, index),
                                &range, 1));
        break;
    }
    default: enqueue_sum(m, step); break;
    }
}

static void enqueue_step(struct machine *m, const struct step *step, int index) {
    bool sums = step->kind == STEP_SUM;
    int reader = sums ? step->other_stream : step->stream;
    wait_for_users(m, step->stream, step->writes);
    wait_for_users(m, reader, step->reads);
    enqueue_own(m, step, index);
    touched(m, step->stream, step->writes, index);
    touched(m, reader, step->reads, index);
    if (sums) { /* both streams go on after it: chain them, so that one event tells of both */
        struct orr_stream *other = m->streams[step->other_stream];
        ok(m, orr_stream_wait_point(m->streams[step->stream], orr_stream_point(other)));
    }
    ok(m, orr_event_record(m->events[index], m->streams[step->stream]));
    if (sums)
        m->last_touch[step->reads][step->stream] = index + 1;
}

static void enqueue_plan(struct machine *m, const struct plan *plan) {
    memset(m->last_touch, 0, sizeof m->last_touch);
    for (int i = 0; i < plan->step_count; i++)
        enqueue_step(m, &plan->steps[i], i);
}

/* --- two ways to run a plan --- */

static void run_eagerly(orr_backend_open open, const struct plan *plan, unsigned char *image) {
    struct machine m;
    open_machine(&m, open);
    for (int i = 0; i < LAUNCHES; i++) {
        enqueue_plan(&m, plan);
        ok(&m, orr_runtime_finish(m.runtime));
        ok(&m, orr_stream_fill(m.streams[0], m.buffers[0], 0, 8, (uint8_t)i));
        ok(&m, orr_runtime_finish(m.runtime));
    }
    read_and_close(&m, image);
}

static int works_of(const struct plan *plan) {
    int count = 0;
    for (int i = 0; i < plan->step_count; i++)
        count += plan->steps[i].kind == STEP_COUNT;
    return count;
}

static void run_recorded(orr_backend_open open, const struct plan *plan, unsigned char *image) {
    struct machine m;
    open_machine(&m, open);
    struct orr_program *program;
    ok(&m, orr_program_begin(m.runtime, &program));
    enqueue_plan(&m, plan);
    ok(&m, orr_program_end(program));
    for (int i = 0; i < LAUNCHES; i++) {
        struct orr_stream *stream = m.streams[plan->launch_streams[i]];
        ok(&m, orr_program_launch(program, stream));
        /* Buffer 0 is on device 0: a neighbour of the launch, ordered after it and before the
         * next. */
        struct orr_stream *writer = m.streams[0];
        ok(&m, orr_stream_wait_point(writer, orr_stream_point(stream)));
        ok(&m, orr_stream_fill(writer, m.buffers[0], 0, 8, (uint8_t)i));
        if (i + 1 < LAUNCHES)
            ok(&m, orr_stream_wait_point(m.streams[plan->launch_streams[i + 1]],
                                         orr_stream_point(writer)));
    }
    if (plan->early_free)
        orr_program_destroy(&program);
    ok(&m, orr_runtime_finish(m.runtime));
    if (!plan->early_free)
        assert_int_equal(m.released, 0);
    orr_program_destroy(&program);
    assert_int_equal(m.released, works_of(plan));
    read_and_close(&m, image);
}

/* The first difference, in words. */
static void assert_same(const unsigned char *image, const unsigned char *expected, int number,
                        const char *what) {
    for (int i = 0; i < BUFFERS * BYTES; i++)
        if (image[i] != expected[i])
            fail_msg("plan %d, %s: byte %d of buffer %d is %d, not %d", number, what, i % BYTES,
                     i / BYTES, image[i], expected[i]);
}

static void random_programs_leave_the_bytes_of_eager_runs(void **state) {
    (void)state;
    uint64_t random = random_seed(20260301);
    for (int number = 0; number < 60; number++) {
        static struct plan plan;
        static unsigned char eager[BUFFERS * BYTES], image[BUFFERS * BYTES];
        draw_plan(&plan, &random);
        run_eagerly(orr_sim_open, &plan, eager);
        run_recorded(orr_sim_open, &plan, image);
        assert_same(image, eager, number, "sim");
        run_recorded(orr_cpu_open, &plan, image);
        assert_same(image, eager, number, "cpu");
        if (number % 8 == 0) {
            run_eagerly(orr_cpu_open, &plan, image);
            assert_same(image, eager, number, "cpu, eager");
        }
    }
}

static void nodes_of_a_launch_on_threads_begin_with_its_call(void **state) {
    (void)state;
    struct machine m;
    open_machine(&m, orr_cpu_open);
    struct orr_program *program;
    ok(&m, orr_program_begin(m.runtime, &program));
    for (int i = 0; i < 6; i++)
        launch(m.streams[i % 3], "node", NULL, NULL);
    ok(&m, orr_program_end(program));
    ok(&m, orr_program_launch(program, m.streams[4]));
    ok(&m, orr_runtime_finish(m.runtime));
    int64_t graph_ns = ORR_TIME_NONE;
    int nodes = 0;
    for (size_t i = 0; i < record_count(&m.f, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *c = record_at(&m.f, ORR_RECORD_COMMAND, i);
        if (c->header.a == ORR_COMMAND_GRAPH)
            graph_ns = c->enqueue_ns;
    }
    assert_true(graph_ns != ORR_TIME_NONE);
    for (size_t i = 0; i < record_count(&m.f, ORR_RECORD_COMMAND); i++) {
        const struct orr_record_command *c = record_at(&m.f, ORR_RECORD_COMMAND, i);
        if (strcmp(name_text(&m.f, c->name), "node") != 0)
            continue;
        nodes++;
        assert_int_equal(c->enqueue_ns, graph_ns);
        assert_true(c->enqueued_ns >= graph_ns && c->start_ns >= graph_ns);
    }
    assert_int_equal(nodes, 6);
    orr_program_destroy(&program);
    fixture_close(&m.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_leave_the_bytes_of_eager_runs),
        cmocka_unit_test(nodes_of_a_launch_on_threads_begin_with_its_call),
    };
    return cmocka_run_group_tests_name("program numbers", tests, NULL, NULL);
}
