#include "tests/conformance.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "runtime/splitmix.h"

enum { CASES_MAX = 256 };

/* One case for one target: what cmocka hands to `run_case`. */
struct bound_case {
    const struct conformance_target *target;
    const struct conformance_case *c;
};

void conformance_fail(struct fixture *f, const char *file, int line, const char *format, ...) {
    int used = snprintf(f->failure, sizeof f->failure, "%s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->failure + used, sizeof f->failure - (size_t)used, format, arguments);
    va_end(arguments);
    if (f->draws > 0) {
        size_t length = strlen(f->failure);
        snprintf(f->failure + length, sizeof f->failure - length, " (seed %llu)",
                 (unsigned long long)f->seed);
    }
    longjmp(f->out, 1);
}

/* ---- memory that counts and fails --------------------------------------------------------- */

static void *counting_resize(void *context, void *block, size_t size) {
    struct fixture *f = context;
    struct orr_memory system = orr_memory_system();
    if (size == 0) {
        f->live_blocks -= block != NULL;
        return system.resize(NULL, block, 0);
    }
    /* Sanitizers stop at absurd sizes instead of refusing them. */
    if (f->allowances == 0 || size > (size_t)1 << 40)
        return NULL;
    f->allowances -= f->allowances > 0;
    void *resized = system.resize(NULL, block, size);
    f->live_blocks += !block && resized;
    return resized;
}

static void *must(struct fixture *f, void *block) {
    check_text(f, block != NULL, "the test itself is out of memory");
    return block;
}

/* ---- what is retired ---------------------------------------------------------------------- */

/* Fields of the record that belong to the host layer come back as they were given. */
static bool host_fields_are_kept(const struct fixture *f, const struct orr_record_command *given,
                                 const struct orr_record_command *record) {
    struct orr_record_command expected = *given;
    expected.seq = record->seq;
    expected.header.c = record->header.c;
    expected.ready_ns = record->ready_ns;
    expected.start_ns = record->start_ns;
    expected.finish_ns = record->finish_ns;
    expected.enqueued_ns = record->enqueued_ns;
    if (given->enqueue_ns == ORR_TIME_NONE || f->runner == ORR_RUNNER_PER_DEVICE)
        expected.enqueue_ns = record->enqueue_ns;
    if (f->runner == ORR_RUNNER_PER_DEVICE)
        expected.host = record->host;
    return memcmp(&expected, record, sizeof expected) == 0;
}

static void check_times(struct fixture *f, const struct orr_record_command *r) {
    if (r->header.c == ORR_COMMAND_STATUS_PENDING)
        return;
    check_text(f, r->enqueue_ns >= 0, "command %llu: enqueued at %lld", (unsigned long long)r->id,
               (long long)r->enqueue_ns);
    check_text(f, r->enqueue_ns <= r->enqueued_ns && r->enqueue_ns <= r->start_ns,
               "command %llu: call [%lld, %lld], but start %lld", (unsigned long long)r->id,
               (long long)r->enqueue_ns, (long long)r->enqueued_ns, (long long)r->start_ns);
    check_text(f, r->start_ns <= r->finish_ns, "command %llu: start %lld, finish %lld",
               (unsigned long long)r->id, (long long)r->start_ns, (long long)r->finish_ns);
    /* A wait is ready when what it waits for is done, which is its end. */
    int64_t latest_ns = r->header.a == ORR_COMMAND_WAIT ? r->finish_ns : r->start_ns;
    check_text(f, r->enqueue_ns <= r->ready_ns && r->ready_ns <= latest_ns,
               "command %llu: enqueue %lld, ready %lld, start %lld", (unsigned long long)r->id,
               (long long)r->enqueue_ns, (long long)r->ready_ns, (long long)r->start_ns);
}

/* Contract point 5, for every command of every case. */
static void on_retire(void *context, const struct orr_command *command,
                      const struct orr_error *error) {
    struct fixture *f = context;
    const struct orr_record_command *r = &command->record;
    check_text(f, pthread_equal(pthread_self(), f->host), "retired on another thread");
    check_text(f, r->id >= 1 && r->id <= f->ids, "command %llu was never submitted",
               (unsigned long long)r->id);
    struct outcome *outcome = &f->outcomes[r->id];
    check_text(f, !outcome->retired, "command %llu is retired twice", (unsigned long long)r->id);
    outcome->retired = true;
    outcome->record = *r;
    outcome->has_cause = error != NULL;
    snprintf(outcome->cause, sizeof outcome->cause, "%s", error ? error->text : "");
    f->retired_count++;
    check_times(f, r);
    bool failed =
        r->header.c == ORR_COMMAND_STATUS_FAILED || r->header.c == ORR_COMMAND_STATUS_SKIPPED;
    check_text(f, failed == (error != NULL), "command %llu is %s, but %s",
               (unsigned long long)r->id, orr_command_status_text(r->header.c),
               error ? "has a cause" : "has no cause");
    check_text(f, host_fields_are_kept(f, &outcome->given, r),
               "command %llu: a field that is the host layer's was changed",
               (unsigned long long)r->id);
    if (r->stream == ORR_ID_NONE)
        return;
    struct stream_note *stream = &f->streams[r->stream];
    check_text(f, r->seq == stream->retired + 1,
               "stream %u retires command %llu after command %llu", r->stream,
               (unsigned long long)r->seq, (unsigned long long)stream->retired);
    stream->retired = r->seq;
    for (uint32_t i = 0; i < outcome->wait_count; i++)
        check_text(f, f->streams[outcome->waits[i].stream].retired >= outcome->waits[i].seq,
                   "command %llu is retired before command %llu of stream %u, for which it waited",
                   (unsigned long long)r->id, (unsigned long long)outcome->waits[i].seq,
                   outcome->waits[i].stream);
}

/* ---- kernels ------------------------------------------------------------------------------ */

/* On real clocks a slow kernel ends when the case says so; nothing depends on how long that is. */
static void pass_gate(struct job *job) {
    struct timespec tick = {.tv_nsec = 20000};
    while (job->slow && !job->f->target->virtual_time &&
           !atomic_load_explicit(&job->f->gate, memory_order_acquire))
        nanosleep(&tick, NULL);
}

static enum orr_status job_run(const struct orr_command *command, struct orr_error *error) {
    struct job *job = command->work;
    atomic_fetch_add(&job->runs, 1);
    pass_gate(job);
    switch (job->kind) {
    case JOB_NOTHING: break;
    case JOB_STORE: *job->to = job->value; break;
    case JOB_COPY: *job->to = *job->from; break;
    case JOB_MIX: *job->to = (int64_t)((uint64_t)*job->to * 3 + (uint64_t)job->value); break;
    case JOB_CHECK: job->seen = *job->from; break;
    case JOB_FAIL:
        return orr_error_set(error, ORR_DEVICE_FAILED, "job %llu broke",
                             (unsigned long long)job->id);
    case JOB_FAIL_MUTE: return ORR_DEVICE_FAILED;
    case JOB_TALK: (void)orr_error_set(error, ORR_INVALID, "idle talk"); break;
    }
    return ORR_OK;
}

static void outcomes_grow(struct fixture *f) {
    if (f->ids + 1 < f->outcome_capacity)
        return;
    uint64_t capacity = f->outcome_capacity ? 2 * f->outcome_capacity : 256;
    f->outcomes = must(f, realloc(f->outcomes, capacity * sizeof *f->outcomes));
    memset(f->outcomes + f->outcome_capacity, 0,
           (capacity - f->outcome_capacity) * sizeof *f->outcomes);
    f->outcome_capacity = capacity;
}

struct job *conformance_job(struct fixture *f, enum job_kind kind) {
    struct job *job = must(f, calloc(1, sizeof *job));
    job->next = f->jobs;
    f->jobs = job;
    outcomes_grow(f);
    job->f = f;
    job->kind = kind;
    job->id = ++f->ids;
    job->command = (struct orr_command){.record = {.header = ORR_RECORD_HEADER(command, COMMAND),
                                                   .id = job->id,
                                                   .enqueue_ns = ORR_TIME_NONE,
                                                   .enqueued_ns = ORR_TIME_NONE,
                                                   .ready_ns = ORR_TIME_NONE,
                                                   .start_ns = ORR_TIME_NONE,
                                                   .finish_ns = ORR_TIME_NONE,
                                                   .op = 7 + job->id,
                                                   .name = (uint32_t)job->id,
                                                   .event = 3,
                                                   .site = 5},
                                        .submit_ns = -1,
                                        .service_ns = 1000,
                                        .run = job_run,
                                        .work = job,
                                        .accesses = job->accesses,
                                        .context = f};
    job->command.record.header.a = ORR_COMMAND_KERNEL;
    job->command.record.header.b = ORR_DTYPE_NONE;
    return job;
}

static void add_access(struct job *job, uint32_t memory, uint32_t cell, enum orr_access_mode mode) {
    job->accesses[job->command.access_count++] =
        (struct orr_access){.memory = memory,
                            .mode = (uint32_t)mode,
                            .offset = cell * sizeof(int64_t),
                            .bytes = sizeof(int64_t)};
}

void conformance_reads(struct job *job, uint32_t memory, const int64_t *pointer, uint32_t cell) {
    job->from = pointer + cell;
    add_access(job, memory, cell, ORR_ACCESS_READ);
}

void conformance_writes(struct job *job, uint32_t memory, int64_t *pointer, uint32_t cell) {
    job->to = pointer + cell;
    add_access(job, memory, cell, job->kind == JOB_MIX ? ORR_ACCESS_READ_WRITE : ORR_ACCESS_WRITE);
}

/* ---- the backend's life ------------------------------------------------------------------- */

enum orr_status conformance_try_open(struct fixture *f, uint32_t device_count) {
    f->device_count = device_count;
    f->stream_count = 0;
    for (uint64_t id = 1; id <= f->ids; id++) /* points of an earlier backend mean nothing */
        f->outcomes[id].point.stream = ORR_ID_NONE;
    for (uint32_t i = 0; i < device_count; i++) {
        f->specs[i] = f->target->spec;
        f->specs[i].queue_depth = f->depth;
    }
    struct orr_backend_config config = {.memory = &f->memory,
                                        .specs = f->specs,
                                        .device_count = device_count,
                                        .timing_only = f->timing_only,
                                        .runner = f->runner,
                                        .seed = 1,
                                        .retire = {on_retire, f}};
    f->error = (struct orr_error){0};
    enum orr_status status = f->target->open(&config, &f->backend, &f->error);
    f->verbs = status == ORR_OK ? f->backend->verbs : NULL;
    return status;
}

void conformance_open(struct fixture *f, uint32_t device_count) {
    enum orr_status status = conformance_try_open(f, device_count);
    check_text(f, status == ORR_OK, "open: %s", f->error.text);
    check(f, f->verbs->abi == ORR_BACKEND_ABI);
    check(f, f->verbs->name && f->verbs->clock);
}

void conformance_open_gate(struct fixture *f) {
    atomic_store_explicit(&f->gate, 1, memory_order_release);
}

static void free_jobs(struct fixture *f) {
    while (f->jobs) {
        struct job *next = f->jobs->next;
        free(f->jobs);
        f->jobs = next;
    }
}

void conformance_close(struct fixture *f) {
    conformance_open_gate(f);
    if (f->backend)
        f->verbs->close(f->backend);
    f->backend = NULL;
    f->verbs = NULL;
    for (uint64_t id = 1; id <= f->ids; id++)
        check_text(f, f->outcomes[id].retired == f->outcomes[id].submitted, "command %llu was %s",
                   (unsigned long long)id,
                   f->outcomes[id].submitted ? "never retired" : "retired without being accepted");
    check_text(f, f->live_blocks == 0, "%lld blocks of memory are left after close",
               (long long)f->live_blocks);
}

uint32_t conformance_stream(struct fixture *f, uint32_t device) {
    uint32_t id = ORR_ID_NONE;
    enum orr_status status =
        f->verbs->stream_create(f->backend, device, ORR_STREAM_COMPUTE, &id, &f->error);
    check_text(f, status == ORR_OK, "stream_create: %s", f->error.text);
    check_text(f, id == f->stream_count, "stream ids count from 0: expected %u, got %u",
               f->stream_count, id);
    f->stream_count++;
    if (f->stream_count > f->stream_capacity) {
        f->stream_capacity = 2 * f->stream_count;
        f->streams = must(f, realloc(f->streams, f->stream_capacity * sizeof *f->streams));
    }
    f->streams[id] = (struct stream_note){.device = device};
    return id;
}

void conformance_define(struct fixture *f, uint32_t memory, uint64_t offset, uint64_t bytes) {
    if (f->verbs->memory_define)
        f->verbs->memory_define(f->backend, memory, offset, bytes);
}

uint32_t conformance_memory_of(const struct fixture *f, uint32_t device) {
    return f->verbs->separate_memory ? ORR_ID_NONE : device;
}

int64_t *conformance_cells(struct fixture *f, uint32_t device, uint32_t *out_memory) {
    device = conformance_memory_of(f, device);
    uint32_t memory = ORR_ID_NONE;
    uint64_t bytes = CONFORMANCE_CELLS * sizeof(int64_t);
    enum orr_status status = f->verbs->memory_create(f->backend, device, bytes, &memory, &f->error);
    check_text(f, status == ORR_OK, "memory_create: %s", f->error.text);
    int64_t *pointer = f->verbs->memory_pointer(f->backend, memory);
    check(f, pointer != NULL);
    memset(pointer, 0, bytes);
    conformance_define(f, memory, 0, bytes);
    if (out_memory)
        *out_memory = memory;
    return pointer;
}

/* ---- submitting --------------------------------------------------------------------------- */

void conformance_announce(struct fixture *f, struct orr_command *command, uint32_t stream,
                          const struct orr_point *waits, uint32_t wait_count) {
    command->record.stream = stream;
    command->record.device = f->streams[stream].device;
    struct outcome *outcome = &f->outcomes[command->record.id];
    outcome->given = command->record;
    outcome->wait_count = wait_count;
    outcome->waits = must(f, realloc(outcome->waits, (wait_count + 1) * sizeof *waits));
    if (wait_count > 0)
        memcpy(outcome->waits, waits, wait_count * sizeof *waits);
}

void conformance_submitted(struct fixture *f, const struct orr_command *command,
                           struct orr_point point) {
    struct outcome *outcome = &f->outcomes[command->record.id];
    outcome->submitted = true;
    outcome->point = point;
}

enum orr_status conformance_try_submit(struct fixture *f, uint32_t stream, struct job *job,
                                       const struct orr_point *waits, uint32_t wait_count,
                                       struct orr_point *out_point) {
    /* A virtual clock may retire the command within the call, so it is announced before. */
    conformance_announce(f, &job->command, stream, waits, wait_count);
    if (job->slow)
        job->command.service_ns = CONFORMANCE_SLOW_NS;
    f->error = (struct orr_error){0};
    enum orr_status status = f->verbs->submit(f->backend, stream, &job->command, waits, wait_count,
                                              out_point, &f->error);
    if (status == ORR_OK)
        conformance_submitted(f, &job->command, *out_point);
    return status;
}

struct orr_point conformance_submit(struct fixture *f, uint32_t stream, struct job *job,
                                    const struct orr_point *waits, uint32_t wait_count) {
    struct orr_point point;
    enum orr_status status = conformance_try_submit(f, stream, job, waits, wait_count, &point);
    check_text(f, status == ORR_OK, "submit to stream %u: %s %s", stream, orr_status_text(status),
               f->error.text);
    check(f, point.stream == stream && point.seq > 0);
    return point;
}

struct orr_point conformance_quick(struct fixture *f, uint32_t stream,
                                   const struct orr_point *waits, uint32_t wait_count) {
    return conformance_submit(f, stream, conformance_job(f, JOB_NOTHING), waits, wait_count);
}

struct orr_point conformance_slow(struct fixture *f, uint32_t stream, const struct orr_point *waits,
                                  uint32_t wait_count) {
    struct job *job = conformance_job(f, JOB_NOTHING);
    job->slow = true;
    return conformance_submit(f, stream, job, waits, wait_count);
}

struct orr_point conformance_kind(struct fixture *f, uint32_t stream, enum orr_command_kind kind,
                                  const struct orr_point *waits, uint32_t wait_count) {
    struct job *job = conformance_job(f, JOB_NOTHING);
    job->command.record.header.a = (uint8_t)kind;
    job->command.run = NULL;
    job->command.service_ns = -1;
    return conformance_submit(f, stream, job, waits, wait_count);
}

/* ---- asking ------------------------------------------------------------------------------- */

void conformance_wait(struct fixture *f, struct orr_point point) {
    f->error = (struct orr_error){0};
    enum orr_status status =
        f->verbs->wait(f->backend, 0, &point, 1, ORR_WAIT_ALL, ORR_TIME_MAX, &f->error);
    check_text(f, status == ORR_OK, "wait: %s %s", orr_status_text(status), f->error.text);
}

enum orr_status conformance_query(struct fixture *f, struct orr_point point) {
    return f->verbs->query(f->backend, 0, point);
}

const struct outcome *conformance_outcome(struct fixture *f, struct orr_point point) {
    for (uint64_t id = 1; id <= f->ids; id++) {
        const struct outcome *outcome = &f->outcomes[id];
        if (!outcome->submitted || outcome->point.stream != point.stream ||
            outcome->point.seq != point.seq)
            continue;
        check_text(f, outcome->retired, "command %llu (%llu of stream %u) has not been handed back",
                   (unsigned long long)id, (unsigned long long)point.seq, point.stream);
        check_text(f, outcome->record.seq == point.seq,
                   "command %llu: record says seq %llu, not %llu", (unsigned long long)id,
                   (unsigned long long)outcome->record.seq, (unsigned long long)point.seq);
        return outcome;
    }
    conformance_fail(f, __FILE__, __LINE__, "no command %llu of stream %u",
                     (unsigned long long)point.seq, point.stream);
}

const struct orr_record_command *conformance_record(struct fixture *f, struct orr_point point) {
    return &conformance_outcome(f, point)->record;
}

enum orr_command_status conformance_status(struct fixture *f, struct orr_point point) {
    return (enum orr_command_status)conformance_record(f, point)->header.c;
}

uint32_t conformance_draw(struct fixture *f, uint32_t bound) {
    uint64_t x = orr_splitmix_at(f->seed, f->draws++);
    return (uint32_t)((x >> 32) % bound);
}

/* ---- running ------------------------------------------------------------------------------ */

static const char *exception_for(const struct conformance_exception *list, const char *name) {
    for (; list && list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list->reason;
    return NULL;
}

/* True if the case passed; else the reason is in f->failure. */
static bool passes(struct fixture *f, const struct conformance_case *c) {
    if (setjmp(f->out) != 0)
        return false;
    c->run(f);
    conformance_close(f);
    return true;
}

/* A failed case leaves its backend open on purpose: after a broken contract nothing about closing
 * it is sure. Slow kernels are let go, so that its threads come to rest. */
static void run_case(void **state) {
    const struct bound_case *bound = *state;
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->target = bound->target;
    f->host = pthread_self();
    f->allowances = -1;
    f->seed = 20240611;
    f->memory = (struct orr_memory){.resize = counting_resize, .context = f};
    const char *unsupported = exception_for(f->target->unsupported, bound->c->name);
    const char *expected = exception_for(f->target->expected_to_fail, bound->c->name);
    if (unsupported) {
        print_message("# skip %s: %s\n", bound->c->name, unsupported);
        free(f);
        skip();
    }
    bool passed = passes(f, bound->c);
    char failure[sizeof f->failure];
    memcpy(failure, f->failure, sizeof failure);
    conformance_open_gate(f);
    if (passed) {
        free_jobs(f);
        for (uint64_t id = 1; id <= f->ids; id++)
            free(f->outcomes[id].waits);
        free(f->outcomes);
        free(f->streams);
        free(f);
    }
    if (expected && passed)
        fail_msg("passes now, so take it off the list of expected failures (%s)", expected);
    if (expected)
        print_message("# expected failure of %s: %s: %s\n", bound->c->name, expected, failure);
    else if (!passed)
        fail_msg("%s", failure);
}

static size_t add_cases(struct CMUnitTest *tests, struct bound_case *bound, size_t count,
                        const struct conformance_target *target,
                        const struct conformance_case *cases) {
    for (; cases->name; cases++, count++) {
        assert_true(count < CASES_MAX);
        bound[count] = (struct bound_case){target, cases};
        tests[count] = (struct CMUnitTest){
            .name = cases->name, .test_func = run_case, .initial_state = &bound[count]};
    }
    return count;
}

/* Every name in a list of exceptions must be a case, or the list is out of date. */
static bool list_is_known(const struct conformance_exception *list, const struct CMUnitTest *tests,
                          size_t count) {
    for (; list && list->name; list++) {
        size_t i = 0;
        while (i < count && strcmp(tests[i].name, list->name) != 0)
            i++;
        if (i == count) {
            print_error("# no case is called %s\n", list->name);
            return false;
        }
    }
    return true;
}

/* NULL if the backend can be opened on this machine, else why not. */
static const char *why_unavailable(const struct conformance_target *target,
                                   struct orr_error *error) {
    struct orr_memory memory = orr_memory_system();
    struct orr_device_spec spec = target->spec;
    struct orr_backend_config config = {
        .memory = &memory, .specs = &spec, .device_count = 1, .retire = {on_retire, NULL}};
    struct orr_backend *backend = NULL;
    enum orr_status status = target->open(&config, &backend, error);
    if (status == ORR_OK)
        backend->verbs->close(backend);
    return status == ORR_UNAVAILABLE ? error->text : NULL;
}

static void skip_all(void **state) {
    print_message("# skip: %s\n", (const char *)*state);
    skip();
}

int conformance_run(const struct conformance_target *target) {
    struct orr_error error = {0};
    char *reason = (char *)(uintptr_t)why_unavailable(target, &error);
    if (reason) {
        const struct CMUnitTest none[] = {
            {.name = "target_unavailable", .test_func = skip_all, .initial_state = reason}};
        return cmocka_run_group_tests_name(target->name, none, NULL, NULL);
    }
    struct CMUnitTest tests[CASES_MAX];
    struct bound_case bound[CASES_MAX];
    size_t count = 0;
    count = add_cases(tests, bound, count, target, conformance_order_cases);
    count = add_cases(tests, bound, count, target, conformance_host_cases);
    count = add_cases(tests, bound, count, target, conformance_failure_cases);
    count = add_cases(tests, bound, count, target, conformance_collective_cases);
    if (!list_is_known(target->unsupported, tests, count) ||
        !list_is_known(target->expected_to_fail, tests, count))
        return 1;
    return _cmocka_run_group_tests(target->name, tests, count, NULL, NULL);
}
