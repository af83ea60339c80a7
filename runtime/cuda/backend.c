/* Open and close, and the table of verbs. */
#include <assert.h>
#include <string.h>

#include "runtime/cuda/cuda_internal.h"
#include "runtime/cuda/probe.h"

static int64_t now(struct orr_backend *base, uint32_t host) {
    (void)host;
    return orr__cuda_now(orr__cuda(base));
}

static enum orr_status fail_of(struct orr_backend *base, uint32_t id, struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    assert(id < backend->stream_count);
    struct cuda_stream *stream = backend->streams[id];
    (void)orr__cuda_retire(backend, false);
    if (!orr__cuda_is_poisoned(stream, stream->retired))
        return ORR_OK;
    pthread_mutex_lock(&backend->poison_lock);
    struct orr_error cause = stream->cause;
    pthread_mutex_unlock(&backend->poison_lock);
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s", cause.text);
}

static enum orr_status host_access(struct orr_backend *base, const struct orr_command *command,
                                   struct orr_error *error) {
    struct cuda_backend *backend = orr__cuda(base);
    struct orr_command copy = *command;
    struct orr_record_command *record = &copy.record;
    struct orr_error cause = {0};
    record->start_ns = record->ready_ns = orr__cuda_now(backend);
    if (record->enqueue_ns == ORR_TIME_NONE)
        record->enqueue_ns = record->start_ns;
    enum orr_status status = copy.run ? copy.run(&copy, &cause) : ORR_OK;
    record->finish_ns = record->enqueued_ns = orr__cuda_now(backend);
    record->seq = 0;
    record->header.c = status == ORR_OK ? ORR_COMMAND_STATUS_OK : ORR_COMMAND_STATUS_FAILED;
    if (status != ORR_OK)
        orr_error_set(&cause, status, "a host access failed: %s", orr_status_text(status));
    backend->config.retire.retired(backend->config.retire.context, &copy,
                                   status == ORR_OK ? NULL : &cause);
    return status == ORR_OK ? ORR_OK : orr_error_set(error, ORR_DEVICE_FAILED, "%s", cause.text);
}

static enum orr_status perturb(struct orr_backend *base, struct orr_perturb *rules,
                               struct orr_error *error) {
    enum orr_status status = orr__perturb_check_commands(rules, "CUDA devices", error);
    if (status == ORR_OK)
        orr__cuda(base)->perturb = rules;
    return status;
}

static void notes(const struct orr_backend *base, orr_backend_note note, void *context) {
    const struct cuda_backend *backend = (const void *)base;
    orr__cuda_probe_notes(backend->api, note, context);
    orr__cuda_times_notes(backend->times, note, context);
}

/* --- close and open --- */

/* Also of a backend that is open in part only. */
static void backend_free(struct cuda_backend *backend) {
    const struct orr_memory *memory = backend->memory;
    orr__cuda_collectives_close(&backend->collectives);
    orr__cuda_graphs_close(backend);
    for (size_t i = 0; i < backend->stream_count; i++)
        orr__cuda_stream_free(backend->streams[i]);
    orr__cuda_memories_clear(backend);
    orr__cuda_devices_close(backend);
    orr__cuda_times_close(&backend->times);
    orr__hosts_clear(&backend->hosts);
    orr_memory_free(memory, backend->streams);
    orr_memory_free(memory, backend->busy);
    orr_memory_free(memory, backend->members);
    orr_memory_free(memory, backend->stamps);
    orr_memory_free(memory, backend->group_gpus);
    orr_memory_free(memory, backend->checked);
    pthread_mutex_destroy(&backend->poison_lock);
    orr_memory_free_lines(memory, backend);
}

static void backend_close(struct orr_backend *base) {
    struct cuda_backend *backend = orr__cuda(base);
    struct orr__cuda_api *api = backend->api;
    orr__cuda_graph_interrupt(backend);
    orr__cuda_drain(backend);
    backend_free(backend);
    if (api->release)
        api->release(api);
}

static const struct orr_backend_verbs cuda_verbs = {
    .abi = ORR_BACKEND_ABI,
    .name = "cuda",
    .clock = "device",
    .separate_memory = true,
    .close = backend_close,
    .memory_create = orr__cuda_memory_create,
    .memory_destroy = orr__cuda_memory_destroy,
    .memory_pointer = orr__cuda_memory_pointer,
    .memory_write = orr__cuda_memory_write,
    .stream_create = orr__cuda_stream_create,
    .stream_destroy = orr__cuda_stream_destroy,
    .submit = orr__cuda_submit,
    .submit_group = orr__cuda_submit_group,
    .query = orr__cuda_query,
    .wait = orr__cuda_wait,
    .poll = orr__cuda_poll,
    .now = now,
    .fail_of = fail_of,
    .host_create = orr__cuda_host_create,
    .host_next = orr__cuda_host_next,
    .host_done = orr__cuda_host_done,
    .host_reason = orr__cuda_host_reason,
    .host_park = orr__cuda_host_park,
    .host_unpark = orr__cuda_host_unpark,
    .host_access = host_access,
    .perturb = perturb,
    .notes = notes,
    .graph_begin = orr__cuda_graph_begin,
    .graph_end = orr__cuda_graph_end,
    .graph_forget = orr__cuda_graph_forget,
};

static enum orr_status check_config(const struct orr_backend_config *config,
                                    struct orr_error *error) {
    if (config->device_count == 0)
        return orr_error_set(error, ORR_INVALID, "cuda: no devices asked for");
    if (config->timing_only)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "cuda: a run that is timing only computes nothing, so that a GPU has "
                             "nothing to time: simulated devices have a model of it");
    for (uint32_t i = 0; i < config->device_count; i++)
        if (config->specs[i].queue_depth > CUDA_DEPTH_MAX)
            return orr_error_set(error, ORR_INVALID, "cuda: device %u: queue depth %u, at most %d",
                                 i, config->specs[i].queue_depth, CUDA_DEPTH_MAX);
    return ORR_OK;
}

/* Host 0, and a dispatch host for each device, which takes no turns. */
static enum orr_status hosts_open(struct cuda_backend *backend, struct orr_error *error) {
    uint32_t host, count = 1;
    orr__cuda_hosts_init(backend);
    if (backend->config.runner == ORR_RUNNER_PER_DEVICE)
        count += backend->config.device_count;
    for (uint32_t i = 0; i < count; i++) {
        if (orr__hosts_create(&backend->hosts, &host) != ORR_OK)
            return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for hosts");
        if (i > 0)
            orr__hosts_done(&backend->hosts, host);
    }
    return ORR_OK;
}

/* Times come first: CUPTI wants to be there before the first context. */
static enum orr_status parts_open(struct cuda_backend *backend, struct orr_error *error) {
    const struct orr_cuda_options *options = backend->config.options;
    enum orr_status status =
        orr__cuda_times_open(backend->api, options ? options->timestamps : ORR_CUDA_TIMESTAMPS_AUTO,
                             backend->memory, &backend->times, error);
    if (status == ORR_OK)
        status = hosts_open(backend, error);
    if (status == ORR_OK)
        status = orr__cuda_devices_open(backend, error);
    if (status == ORR_OK)
        status =
            orr__cuda_collectives_open(backend->api, backend->memory, options,
                                       backend->config.device_count, &backend->collectives, error);
    if (status != ORR_OK)
        return status;
    backend->verbs.collective = orr__cuda_collectives_algorithm(backend->collectives);
    backend->polls = strcmp(backend->verbs.collective, "nccl") == 0;
    return ORR_OK;
}

enum orr_status orr__cuda_open(struct orr__cuda_api *api, const struct orr_backend_config *config,
                               struct orr_backend **out_backend, struct orr_error *error) {
    *out_backend = NULL;
    enum orr_status status = check_config(config, error);
    if (status != ORR_OK)
        return status;
    struct cuda_backend *backend = orr_memory_alloc_lines(config->memory, sizeof *backend);
    if (!backend)
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for the backend");
    if (pthread_mutex_init(&backend->poison_lock, NULL) != 0) {
        orr_memory_free_lines(config->memory, backend);
        return orr_error_set(error, ORR_NO_MEMORY, "cuda: no memory for a lock");
    }
    backend->verbs = cuda_verbs;
    backend->base.verbs = &backend->verbs;
    backend->api = api;
    backend->config = *config;
    backend->memory = config->memory;
    backend->current_gpu = -1;
    status = parts_open(backend, error);
    if (status != ORR_OK) {
        backend_free(backend);
        return status;
    }
    *out_backend = &backend->base;
    return ORR_OK;
}
