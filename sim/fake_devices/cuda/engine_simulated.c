/* Streams in virtual time: each is one of the simulator's, and a work is a command of it whose
 * duration the work states. Works share nothing but time: two streams of a GPU don't slow each
 * other down, so that every time can be told from the program alone. */
#include <assert.h>

#include "runtime/splitmix.h"
#include "sim/fake_devices/cuda/engine.h"
#include "sim/sim.h"

enum {
    SIMULATED_DEVICES_MAX = 64,
    LAUNCH_LATENCY_NS = 2000, /* from the end of a call to the earliest start */
    WAIT_NS = 1000            /* from the end of what is waited for to the host's return */
};

struct simulated {
    struct orr__fake_engine base;
    struct orr__fake_engine_config config;
    struct orr_device_spec specs[SIMULATED_DEVICES_MAX];
    struct orr_backend *backend;
    uint64_t ids, random;
};

struct simulated_stream {
    uint32_t id;
    uint64_t last; /* number of the last command */
};

static bool is_done(const struct orr__fake_work *work) {
    return atomic_load_explicit(&work->state, memory_order_relaxed) == ORR__FAKE_DONE;
}

static void on_retire(void *context, const struct orr_command *command,
                      const struct orr_error *error) {
    struct orr__fake_work *work = command->context;
    (void)context, (void)error;
    if (work) {
        work->start_ns = command->record.start_ns;
        work->finish_ns = command->record.finish_ns;
        atomic_store_explicit(&work->state, ORR__FAKE_DONE, memory_order_relaxed);
    }
}

static enum orr_status run_command(const struct orr_command *command, struct orr_error *error) {
    const struct simulated *simulated = command->work;
    struct orr__fake_work *work = command->context;
    (void)error;
    work->start_ns = command->record.finish_ns - work->task.duration_ns;
    *simulated->config.inside = true;
    orr__fake_work_run(work, simulated->config.device_error);
    *simulated->config.inside = false;
    return ORR_OK;
}

/* `work` NULL: a delay. Records and waits don't pay for a launch. */
static struct orr_command command_of(struct simulated *simulated, struct orr__fake_work *work,
                                     int64_t service_ns) {
    bool launched =
        work && work->task.kind != ORR__FAKE_RECORD && work->task.kind != ORR__FAKE_WAIT;
    struct orr_command command = {.record = {.header = ORR_RECORD_HEADER(command, COMMAND),
                                             .id = ++simulated->ids,
                                             .enqueue_ns = ORR_TIME_NONE},
                                  .submit_ns = 0,
                                  .service_ns = service_ns,
                                  .run = work ? run_command : NULL,
                                  .work = simulated,
                                  .context = work};
    command.record.header.a = launched ? ORR_COMMAND_KERNEL : ORR_COMMAND_MARKER;
    return command;
}

static void wait_for(struct simulated *simulated, struct orr_point point) {
    struct orr_error error = {0};
    enum orr_status status = simulated->backend->verbs->wait(simulated->backend, 0, &point, 1,
                                                             ORR_WAIT_ALL, ORR_TIME_MAX, &error);
    assert(status == ORR_OK); /* what is submitted ends */
    (void)status;
}

static enum orr_status submit(struct simulated *simulated, struct simulated_stream *own,
                              const struct orr_command *command, const struct orr_point *waits,
                              uint32_t wait_count) {
    for (;;) {
        struct orr_point point;
        struct orr_error error = {0};
        enum orr_status status = simulated->backend->verbs->submit(
            simulated->backend, own->id, command, waits, wait_count, &point, &error);
        if (status != ORR_FULL) {
            own->last = status == ORR_OK ? point.seq : own->last;
            return status;
        }
        wait_for(simulated, point);
    }
}

static enum orr_status delay(struct simulated *simulated, struct simulated_stream *own) {
    if (simulated->config.jitter_ns <= 0) {
        return ORR_OK;
    }
    uint64_t bits = orr_splitmix_next(&simulated->random);
    struct orr_command command =
        command_of(simulated, NULL, (int64_t)(bits % (uint64_t)simulated->config.jitter_ns));
    return submit(simulated, own, &command, NULL, 0);
}

static enum orr_status simulated_submit(struct orr__fake_engine *engine, void *own,
                                        struct orr__fake_work *work) {
    struct simulated *simulated = (struct simulated *)engine;
    struct simulated_stream *stream = own;
    struct orr_point few[8], *waits = few;
    if (work->wait_count > sizeof few / sizeof *few) {
        waits = orr_memory_alloc(simulated->config.memory, work->wait_count * sizeof *waits);
        if (!waits) {
            return ORR_NO_MEMORY;
        }
    }
    for (uint32_t i = 0; i < work->wait_count; i++) {
        waits[i] = (struct orr_point){.stream = work->waits[i]->own_stream,
                                      .seq = work->waits[i]->own_seq};
    }
    enum orr_status status = delay(simulated, stream);
    if (status == ORR_OK) {
        struct orr_command command = command_of(simulated, work, work->task.duration_ns);
        status = submit(simulated, stream, &command, waits, work->wait_count);
    }
    work->own_stream = stream->id;
    work->own_seq = stream->last;
    if (waits != few) {
        orr_memory_free(simulated->config.memory, waits);
    }
    return status;
}

static bool simulated_done(struct orr__fake_engine *engine, struct orr__fake_work *work) {
    struct simulated *simulated = (struct simulated *)engine;
    if (!is_done(work)) {
        simulated->backend->verbs->poll(simulated->backend);
    }
    return is_done(work);
}

static void simulated_wait(struct orr__fake_engine *engine, struct orr__fake_work *work) {
    struct simulated *simulated = (struct simulated *)engine;
    wait_for(simulated, (struct orr_point){.stream = work->own_stream, .seq = work->own_seq});
    assert(is_done(work));
}

static int64_t simulated_now(struct orr__fake_engine *engine) {
    struct simulated *simulated = (struct simulated *)engine;
    return simulated->backend->verbs->now(simulated->backend, 0);
}

static void simulated_spend(struct orr__fake_engine *engine, int64_t ns) {
    struct simulated *simulated = (struct simulated *)engine;
    simulated->backend->verbs->host_spend(simulated->backend, 0, ns);
}

static enum orr_status simulated_stream_create(struct orr__fake_engine *engine, uint32_t device,
                                               uint32_t id, void **out_own,
                                               struct orr_error *error) {
    struct simulated *simulated = (struct simulated *)engine;
    (void)id;
    *out_own = NULL;
    struct simulated_stream *own = orr_memory_alloc(simulated->config.memory, sizeof *own);
    if (!own) {
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a stream of the fake GPU");
    }
    enum orr_status status = simulated->backend->verbs->stream_create(
        simulated->backend, device, ORR_STREAM_COMPUTE, &own->id, error);
    if (status != ORR_OK) {
        orr_memory_free(simulated->config.memory, own);
        return status;
    }
    *out_own = own;
    return ORR_OK;
}

static void simulated_stream_destroy(struct orr__fake_engine *engine, void *context) {
    struct simulated *simulated = (struct simulated *)engine;
    struct simulated_stream *own = context;
    simulated->backend->verbs->stream_destroy(simulated->backend, own->id);
    orr_memory_free(simulated->config.memory, own);
}

static void simulated_close(struct orr__fake_engine *engine) {
    struct simulated *simulated = (struct simulated *)engine;
    if (simulated->backend) {
        simulated->backend->verbs->close(simulated->backend);
    }
    orr_memory_free(simulated->config.memory, simulated);
}

static const struct orr__fake_engine_verbs simulated_verbs = {
    .close = simulated_close,
    .stream_create = simulated_stream_create,
    .stream_destroy = simulated_stream_destroy,
    .submit = simulated_submit,
    .done = simulated_done,
    .wait = simulated_wait,
    .now = simulated_now,
    .spend = simulated_spend,
    .rest = simulated_spend,
};

enum orr_status orr__fake_engine_simulated(const struct orr__fake_engine_config *config,
                                           struct orr__fake_engine **out_engine,
                                           struct orr_error *error) {
    *out_engine = NULL;
    assert(config->device_count <= SIMULATED_DEVICES_MAX);
    struct simulated *simulated = orr_memory_alloc(config->memory, sizeof *simulated);
    if (!simulated) {
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for the simulated fake GPU");
    }
    *simulated = (struct simulated){
        .base.verbs = &simulated_verbs, .config = *config, .random = config->seed};
    for (uint32_t i = 0; i < config->device_count; i++) {
        /* Works state their durations: the peaks are never used. */
        struct orr_device_spec *spec = &simulated->specs[i];
        *spec = (struct orr_device_spec){.name = "fake-cuda",
                                         .bandwidth = 1000000000000,
                                         .launch_latency_ns = LAUNCH_LATENCY_NS,
                                         .host_sync_ns = WAIT_NS};
        spec->peak[0][ORR_DTYPE_F32] = spec->peak[1][ORR_DTYPE_F32] = 1000000000000;
    }
    struct orr_backend_config sim = {.memory = config->memory,
                                     .specs = simulated->specs,
                                     .device_count = config->device_count,
                                     .seed = config->seed,
                                     .retire = {on_retire, simulated}};
    enum orr_status status = orr_sim_open(&sim, &simulated->backend, error);
    if (status != ORR_OK) {
        simulated_close(&simulated->base);
        return status;
    }
    *out_engine = &simulated->base;
    return ORR_OK;
}
