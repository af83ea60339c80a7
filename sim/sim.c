#include "sim/sim.h"

#include <assert.h>
#include <string.h>

#include "sim/hang.h"
#include "sim/perturb.h"

enum { POINTER_ALIGNMENT = 64 };

static enum orr_status memory_create(struct orr_backend *backend, uint32_t device, uint64_t bytes,
                                     uint32_t *out_memory, struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    *out_memory = ORR_ID_NONE;
    if (orr_memory_grow(sim->memory, &sim->memories, &sim->memory_capacity, sim->memory_count + 1,
                        sizeof *sim->memories, ORR__MEMORIES_MAX) != ORR_OK) {
        return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory");
    }
    struct orr__memory memory = {.device = device, .live = true, .bytes = bytes};
    if (!sim->timing_only) {
        bool possible = bytes <= (uint64_t)PTRDIFF_MAX - POINTER_ALIGNMENT;
        /* Not zeroed: pages of a large memory that nobody touches should cost nothing. */
        memory.block =
            possible ? orr_memory_resize(sim->memory, NULL, bytes + POINTER_ALIGNMENT) : NULL;
        uintptr_t at = ((uintptr_t)memory.block + POINTER_ALIGNMENT - 1) / POINTER_ALIGNMENT;
        memory.pointer = (unsigned char *)(at * POINTER_ALIGNMENT);
        if (!memory.block || orr__range_undefine(&memory, sim->memory, 0, bytes) != ORR_OK) {
            orr_memory_free(sim->memory, memory.block);
            return orr_error_set(error, ORR_NO_MEMORY,
                                 "sim: no host memory for %llu bytes of simulated memory",
                                 (unsigned long long)bytes);
        }
    }
    *out_memory = (uint32_t)sim->memory_count;
    sim->memories[sim->memory_count++] = memory;
    return ORR_OK;
}

static void memory_destroy(struct orr_backend *backend, uint32_t id) {
    struct orr__sim *sim = orr__sim_of(backend);
    struct orr__memory *memory = &sim->memories[id];
    assert(memory->live && memory->use_count == 0);
    orr_memory_free(sim->memory, memory->block);
    orr_memory_free(sim->memory, memory->uses);
    orr_memory_free(sim->memory, memory->undefined);
    *memory = (struct orr__memory){.device = memory->device};
}

static void *memory_pointer(struct orr_backend *backend, uint32_t id) {
    return orr__sim_of(backend)->memories[id].pointer;
}

static void memory_undefine(struct orr_backend *backend, uint32_t stream, uint32_t id,
                            uint64_t offset, uint64_t bytes) {
    struct orr__sim *sim = orr__sim_of(backend);
    if (!sim->timing_only) {
        orr__stream_undefine(sim, sim->streams[stream], id, offset, offset + bytes);
    }
}

static void memory_define(struct orr_backend *backend, uint32_t id, uint64_t offset,
                          uint64_t bytes) {
    struct orr__sim *sim = orr__sim_of(backend);
    if (!sim->timing_only &&
        orr__range_define(&sim->memories[id], sim->memory, offset, offset + bytes) != ORR_OK) {
        sim->out_of_memory = true;
    }
}

static enum orr_status fail_of(struct orr_backend *backend, uint32_t id, struct orr_error *error) {
    struct orr__sim *sim = orr__sim_of(backend);
    const struct orr__stream *stream = sim->streams[id];
    if (sim->out_of_memory) {
        return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory while simulating");
    }
    if (!stream->failed) {
        return ORR_OK;
    }
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s",
                         stream->cause ? stream->cause->text : "a device operation failed");
}

static void free_everything(struct orr__sim *sim) {
    const struct orr_memory *memory = sim->memory;
    while (sim->groups) {
        orr__group_free(sim, sim->groups);
    }
    for (size_t i = 0; i < sim->stream_count; i++) {
        orr__stream_free(sim, sim->streams[i]);
    }
    for (size_t i = 0; i < sim->memory_count; i++) {
        orr_memory_free(memory, sim->memories[i].block);
        orr_memory_free(memory, sim->memories[i].uses);
        orr_memory_free(memory, sim->memories[i].undefined);
    }
    for (size_t i = 0; i < sim->host_count; i++) {
        orr_memory_free(memory, sim->hosts[i].points);
        orr_memory_free(memory, sim->hosts[i].watches);
    }
    for (uint32_t i = 0; sim->devices && i < sim->device_count; i++) {
        orr_memory_free(memory, sim->devices[i].running);
    }
    orr__agenda_close(&sim->agenda);
    orr__agenda_close(&sim->turns);
    orr_memory_free(memory, sim->streams);
    orr_memory_free(memory, sim->memories);
    orr_memory_free(memory, sim->hosts);
    orr_memory_free_lines(memory, sim->devices);
    orr_memory_free(memory, sim->specs);
    orr_memory_free(memory, sim->work_cache);
    orr_memory_free(memory, sim);
}

static void sim_close(struct orr_backend *backend) {
    struct orr__sim *sim = orr__sim_of(backend);
    while (orr__agenda_top(&sim->agenda)) {
        orr__engine_step(sim);
    }
    for (size_t i = 0; i < sim->stream_count; i++) {
        orr__retire_pending(sim, sim->streams[i]);
    }
    free_everything(sim);
}

static const struct orr_backend_verbs verbs = {
    .abi = ORR_BACKEND_ABI,
    .name = "sim",
    .clock = "virtual",
    .collective = "ring",
    .close = sim_close,
    .memory_create = memory_create,
    .memory_destroy = memory_destroy,
    .memory_pointer = memory_pointer,
    .stream_create = orr__sim_stream_create,
    .stream_destroy = orr__sim_stream_destroy,
    .submit = orr__sim_submit,
    .submit_group = orr__sim_submit_group,
    .query = orr__sim_query,
    .wait = orr__sim_wait,
    .poll = orr__sim_poll,
    .now = orr__sim_now,
    .fail_of = fail_of,
    .host_create = orr__sim_host_create,
    .host_next = orr__sim_host_next,
    .host_done = orr__sim_host_done,
    .host_reason = orr__sim_host_reason,
    .host_park = orr__sim_host_park,
    .host_unpark = orr__sim_host_unpark,
    .host_spend = orr__sim_host_spend,
    .host_access = orr__sim_host_access,
    .memory_undefine = memory_undefine,
    .memory_define = memory_define,
    .perturb = orr__sim_perturb,
};

static enum orr_status check_spec(const struct orr_device_spec *spec, uint32_t device,
                                  struct orr_error *error) {
    if (spec->bandwidth == 0 || orr_device_spec_peak(spec, ORR_UNIT_VECTOR, ORR_DTYPE_F32) == 0) {
        return orr_error_set(error, ORR_INVALID,
                             "device %u, profile '%s': a simulated device needs a bandwidth and an "
                             "f32 peak above 0",
                             device, spec->name);
    }
    return ORR_OK;
}

/* Hosts: 0, and one dispatch host for each device where the runner has them. Dispatch hosts have a
 * clock but make no calls. */
static enum orr_status create_hosts(struct orr__sim *sim) {
    size_t count = 1 + (sim->runner == ORR_RUNNER_PER_DEVICE ? sim->device_count : 0);
    for (size_t i = 0; i < count; i++) {
        enum orr_status status =
            orr_memory_grow(sim->memory, &sim->hosts, &sim->host_capacity, i + 1,
                            sizeof *sim->hosts, count > 64 ? count : 64);
        if (status != ORR_OK) {
            return status;
        }
        sim->hosts[sim->host_count++] =
            (struct orr__host){.state = i == 0 ? ORR__HOST_RUNS : ORR__HOST_DONE};
    }
    sim->hosts_live = 1;
    sim->first_rank = (uint32_t)count;
    return ORR_OK;
}

static enum orr_status open_devices(struct orr__sim *sim, const struct orr_backend_config *config) {
    sim->specs = orr_memory_alloc(sim->memory, config->device_count * sizeof *sim->specs);
    sim->devices = orr_memory_alloc_lines(sim->memory, config->device_count * sizeof *sim->devices);
    sim->work_cache = orr_memory_alloc(sim->memory, ORR__WORK_CACHE * sizeof *sim->work_cache);
    if (!sim->specs || !sim->devices || !sim->work_cache) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < config->device_count; i++) {
        sim->specs[i] = config->specs[i];
        /* Equal devices share one, so that it is in the cache whichever's turn it is. */
        const struct orr_device_spec *spec = &sim->specs[i];
        if (i > 0 && memcmp(&config->specs[i], &config->specs[i - 1], sizeof *spec) == 0) {
            spec = sim->devices[i - 1].spec;
        }
        uint32_t per_node = spec->devices_per_node ? spec->devices_per_node : UINT32_MAX;
        sim->devices[i] = (struct orr__device){.spec = spec,
                                               .node = i / per_node,
                                               .sm_rate = ORR__WORK_NS,
                                               .bandwidth_rate = ORR__WORK_NS,
                                               .copy_rate = ORR__WORK_NS};
    }
    enum { TURNS_FIRST = 16 };
    enum orr_status status = orr__agenda_open(&sim->agenda, config->device_count, sim->memory);
    if (status == ORR_OK) {
        status = orr__agenda_open(&sim->turns, TURNS_FIRST, sim->memory);
    }
    return status == ORR_OK ? create_hosts(sim) : status;
}

enum orr_status orr_sim_open(const struct orr_backend_config *config,
                             struct orr_backend **out_backend, struct orr_error *error) {
    assert(config->device_count > 0);
    *out_backend = NULL;
    for (uint32_t i = 0; i < config->device_count; i++) {
        enum orr_status status = check_spec(&config->specs[i], i, error);
        if (status != ORR_OK) {
            return status;
        }
    }
    struct orr__sim *sim = orr_memory_alloc(config->memory, sizeof *sim);
    if (!sim) {
        return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory");
    }
    sim->base.verbs = &verbs;
    sim->memory = config->memory;
    sim->retire = config->retire;
    sim->timing_only = config->timing_only;
    sim->runner = config->runner;
    sim->seed = config->seed;
    sim->names = config->names;
    sim->device_count = config->device_count;
    if (open_devices(sim, config) != ORR_OK) {
        free_everything(sim);
        return orr_error_set(error, ORR_NO_MEMORY, "sim: out of host memory");
    }
    *out_backend = &sim->base;
    return ORR_OK;
}
