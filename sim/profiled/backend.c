/* The verbs: what computes goes to the inner machine first, then all of it to the simulator. */
#include <assert.h>

#include "sim/profiled/profiled_internal.h"
#include "sim/sim.h"

enum { HOSTS_MAX = 1 << 16, MEMORIES_MAX = 1 << 24 };

static struct profiled *of(struct orr_backend *backend) {
    return (struct profiled *)backend;
}

/* --- memory and streams: both machines have them, under equal ids --- */

static enum orr_status no_memory(struct orr_error *error) {
    return orr_error_set(error, ORR_NO_MEMORY, "profiled: out of host memory");
}

static enum orr_status memory_create(struct orr_backend *backend, uint32_t device, uint64_t bytes,
                                     uint32_t *out_memory, struct orr_error *error) {
    struct profiled *profiled = of(backend);
    uint32_t inner, simulated;
    *out_memory = 0;
    if (orr_memory_grow(profiled->memory, &profiled->memory_devices, &profiled->memory_capacity,
                        profiled->memory_count + 1, sizeof *profiled->memory_devices,
                        MEMORIES_MAX) != ORR_OK)
        return no_memory(error);
    enum orr_status status =
        profiled->on->memory_create(profiled->inner, device, bytes, &inner, error);
    if (status != ORR_OK)
        return status;
    status = profiled->in->memory_create(profiled->sim, device, bytes, &simulated, error);
    if (status == ORR_OK && simulated != inner) { /* an earlier one failed on one side only */
        profiled->in->memory_destroy(profiled->sim, simulated);
        status = no_memory(error);
    }
    if (status != ORR_OK) {
        profiled->on->memory_destroy(profiled->inner, inner);
        return status;
    }
    assert(inner == profiled->memory_count);
    profiled->memory_devices[profiled->memory_count++] = device;
    *out_memory = inner;
    return ORR_OK;
}

static void memory_destroy(struct orr_backend *backend, uint32_t memory) {
    struct profiled *profiled = of(backend);
    profiled->in->memory_destroy(profiled->sim, memory);
    profiled->on->memory_destroy(profiled->inner, memory);
}

static void *memory_pointer(struct orr_backend *backend, uint32_t memory) {
    return of(backend)->on->memory_pointer(of(backend)->inner, memory);
}

static enum orr_status memory_write(struct orr_backend *backend, uint32_t memory, uint64_t offset,
                                    const void *from, uint64_t bytes, struct orr_error *error) {
    struct profiled *profiled = of(backend);
    return profiled->on->memory_write(profiled->inner, memory, offset, from, bytes, error);
}

static enum orr_status stream_create(struct orr_backend *backend, uint32_t device,
                                     enum orr_stream_kind kind, uint32_t *out_stream,
                                     struct orr_error *error) {
    struct profiled *profiled = of(backend);
    uint32_t inner;
    *out_stream = 0;
    enum orr_status status =
        profiled->on->stream_create(profiled->inner, device, kind, &inner, error);
    if (status != ORR_OK)
        return status;
    status = profiled->in->stream_create(profiled->sim, device, kind, out_stream, error);
    if (status == ORR_OK && *out_stream == inner)
        return ORR_OK;
    if (status == ORR_OK)
        profiled->in->stream_destroy(profiled->sim, *out_stream);
    profiled->on->stream_destroy(profiled->inner, inner);
    return status == ORR_OK ? no_memory(error) : status;
}

static void stream_destroy(struct orr_backend *backend, uint32_t stream) {
    struct profiled *profiled = of(backend);
    profiled->in->stream_destroy(profiled->sim, stream);
    profiled->on->stream_destroy(profiled->inner, stream);
}

/* --- commands --- */

static struct profiled_memo *memo_of(struct profiled *profiled, uint32_t host) {
    if (orr_memory_grow(profiled->memory, &profiled->memos, &profiled->memo_capacity,
                        (size_t)host + 1, sizeof *profiled->memos, HOSTS_MAX) != ORR_OK)
        return NULL;
    return &profiled->memos[host];
}

static bool goes_on(const struct profiled_memo *memo, const struct orr_command *command,
                    uint32_t stream) {
    return memo->done && memo->name == command->record.name && memo->stream == stream;
}

/* The call is over unless the simulator wants it once more. */
static void settle(struct profiled_memo *memo, enum orr_status status) {
    memo->done = status == ORR_BLOCKED || status == ORR_FULL;
}

static enum orr_status submit(struct orr_backend *backend, uint32_t stream,
                              const struct orr_command *command, const struct orr_point *waits,
                              uint32_t wait_count, struct orr_point *out_point,
                              struct orr_error *error) {
    struct profiled *profiled = of(backend);
    struct profiled_memo *memo = memo_of(profiled, command->record.host);
    if (!memo)
        return no_memory(error);
    if (!goes_on(memo, command, stream)) {
        enum orr_status status = orr__profiled_run(profiled, command, stream, &memo->ns, error);
        if (status != ORR_OK)
            return status;
        memo->name = command->record.name;
        memo->stream = stream;
    }
    struct orr_command timed = *command;
    timed.service_ns = memo->ns;
    timed.in_place = NULL;
    enum orr_status status =
        profiled->in->submit(profiled->sim, stream, &timed, waits, wait_count, out_point, error);
    settle(memo, status);
    return status;
}

static enum orr_status submit_group(struct orr_backend *backend, const uint32_t *streams,
                                    const struct orr_command *commands, uint32_t count,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_points, struct orr_error *error) {
    struct profiled *profiled = of(backend);
    struct profiled_memo *memo = memo_of(profiled, commands[0].record.host);
    if (!memo)
        return no_memory(error);
    if (!goes_on(memo, &commands[0], streams[0])) {
        enum orr_status status = orr__profiled_run_group(profiled, streams, commands, count, error);
        if (status != ORR_OK)
            return status;
        memo->name = commands[0].record.name;
        memo->stream = streams[0];
    }
    enum orr_status status = profiled->in->submit_group(profiled->sim, streams, commands, count,
                                                        waits, wait_count, out_points, error);
    settle(memo, status);
    return status;
}

/* The host's own access: at the host's clock in the simulation, at once in memory. */
static enum orr_status host_access(struct orr_backend *backend, const struct orr_command *command,
                                   struct orr_error *error) {
    struct profiled *profiled = of(backend);
    enum orr_status status = command->run ? command->run(command, error) : ORR_OK;
    return status == ORR_OK ? profiled->in->host_access(profiled->sim, command, error) : status;
}

static enum orr_status query(struct orr_backend *backend, uint32_t host, struct orr_point point) {
    return of(backend)->in->query(of(backend)->sim, host, point);
}

static enum orr_status wait(struct orr_backend *backend, uint32_t host,
                            const struct orr_point *points, uint32_t count, enum orr_wait_mode mode,
                            int64_t deadline_ns, struct orr_error *error) {
    struct profiled *profiled = of(backend);
    return profiled->in->wait(profiled->sim, host, points, count, mode, deadline_ns, error);
}

static void poll(struct orr_backend *backend) {
    of(backend)->in->poll(of(backend)->sim);
}

static int64_t now(struct orr_backend *backend, uint32_t host) {
    return of(backend)->in->now(of(backend)->sim, host);
}

static enum orr_status fail_of(struct orr_backend *backend, uint32_t stream,
                               struct orr_error *error) {
    return of(backend)->in->fail_of(of(backend)->sim, stream, error);
}

/* --- hosts --- */

static enum orr_status host_create(struct orr_backend *backend, uint32_t *out_host) {
    return of(backend)->in->host_create(of(backend)->sim, out_host);
}

static enum orr_status host_next(struct orr_backend *backend, uint32_t *out_host,
                                 struct orr_error *error) {
    return of(backend)->in->host_next(of(backend)->sim, out_host, error);
}

static void host_done(struct orr_backend *backend, uint32_t host) {
    of(backend)->in->host_done(of(backend)->sim, host);
}

static void host_park(struct orr_backend *backend, uint32_t host) {
    of(backend)->in->host_park(of(backend)->sim, host);
}

static void host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by) {
    of(backend)->in->host_unpark(of(backend)->sim, host, by);
}

static bool host_reason(struct orr_backend *backend, uint32_t host, char *text, size_t size) {
    return of(backend)->in->host_reason(of(backend)->sim, host, text, size);
}

static void host_spend(struct orr_backend *backend, uint32_t host, int64_t ns) {
    of(backend)->in->host_spend(of(backend)->sim, host, ns);
}

static enum orr_status perturb(struct orr_backend *backend, struct orr_perturb *rules,
                               struct orr_error *error) {
    return of(backend)->in->perturb(of(backend)->sim, rules, error);
}

/* What measured, and how. */
static void notes(const struct orr_backend *backend, orr_backend_note note, void *context) {
    const struct profiled *profiled = (const struct profiled *)backend;
    if (profiled->on->notes)
        profiled->on->notes(profiled->inner, note, context);
}

/* --- open and close --- */

static void profiled_close(struct orr_backend *backend) {
    struct profiled *profiled = of(backend);
    const struct orr_memory *memory = profiled->memory;
    if (profiled->sim)
        profiled->in->close(profiled->sim);
    if (profiled->inner)
        profiled->on->close(profiled->inner);
    orr__profiled_durations_clear(&profiled->durations);
    orr_memory_free(memory, profiled->memos);
    orr_memory_free(memory, profiled->memory_devices);
    orr_memory_free(memory, profiled->commands);
    orr_memory_free(memory, profiled->jobs);
    orr_memory_free(memory, profiled->points);
    orr_memory_free(memory, profiled);
}

/* separate_memory is the inner machine's: there is a table for each. */
#define VERBS(separate)                                                                            \
    {                                                                                              \
        .abi = ORR_BACKEND_ABI, .name = "profiled", .clock = "virtual", .collective = "ring",      \
        .separate_memory = separate, .close = profiled_close, .memory_create = memory_create,      \
        .memory_destroy = memory_destroy, .memory_pointer = memory_pointer,                        \
        .memory_write = separate ? memory_write : NULL, .stream_create = stream_create,            \
        .stream_destroy = stream_destroy, .submit = submit, .submit_group = submit_group,          \
        .query = query, .wait = wait, .poll = poll, .now = now, .fail_of = fail_of,                \
        .host_create = host_create, .host_next = host_next, .host_done = host_done,                \
        .host_reason = host_reason, .host_park = host_park, .host_unpark = host_unpark,            \
        .host_spend = host_spend, .host_access = host_access, .perturb = perturb, .notes = notes   \
    }

static const struct orr_backend_verbs verbs[2] = {VERBS(false), VERBS(true)};

static enum orr_status open_both(struct profiled *profiled, const struct orr_backend_config *config,
                                 struct orr_error *error) {
    const struct orr_profiled_options *options = config->options;
    struct orr_backend_config inner = *config, simulated = *config;
    inner.options = options->options;
    inner.runner = ORR_RUNNER_INLINE;
    inner.retire = (struct orr_retire){orr__profiled_retired, profiled};
    inner.describe = config->describe ? orr__profiled_describe : NULL;
    simulated.options = NULL;
    simulated.timing_only = true; /* numbers are the inner machine's */
    enum orr_status status = options->open(&inner, &profiled->inner, error);
    if (status != ORR_OK)
        return status;
    profiled->on = profiled->inner->verbs;
    status = orr_sim_open(&simulated, &profiled->sim, error);
    if (status == ORR_OK)
        profiled->in = profiled->sim->verbs;
    return status;
}

enum orr_status orr_profiled_open(const struct orr_backend_config *config,
                                  struct orr_backend **out_backend, struct orr_error *error) {
    *out_backend = NULL;
    if (config->timing_only)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "a serial profile measures kernels; a run that is timing only has "
                             "none: leave out one of the two");
    struct profiled *profiled = orr_memory_alloc(config->memory, sizeof *profiled);
    if (!profiled)
        return no_memory(error);
    *profiled = (struct profiled){.memory = config->memory,
                                  .describe = config->describe,
                                  .names = config->names,
                                  .durations = {.memory = config->memory}};
    enum orr_status status = open_both(profiled, config, error);
    if (status != ORR_OK) {
        profiled_close(&profiled->base);
        return status;
    }
    profiled->base.verbs = &verbs[profiled->on->separate_memory];
    *out_backend = &profiled->base;
    return ORR_OK;
}

void orr_profiled_counters(struct orr_backend *backend,
                           struct orr_profiled_counters *out_counters) {
    *out_counters = of(backend)->counters;
}
