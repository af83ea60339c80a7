/* The runtime object: creation, callers and hosts, errors, names, meta and findings. Commands pass
 * through submit.c. */
#include "runtime/runtime.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/recording_internal.h"
#include "runtime/runtime_internal.h"
#include "runtime/tensor_internal.h"

#define CLOCK_MAX_NS (INT64_C(1) << 61) /* as ORR_EVENTS_TIME_MAX: later ops are bad records */

/* --- errors --- */

enum orr_status orr__runtime_fail(struct orr_runtime *runtime, enum orr_status status,
                                  const char *format, ...) {
    char text[ORR_ERROR_TEXT_MAX * 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    orr_error_clear(&runtime->error);
    return orr_error_set(&runtime->error, status, "%s", text);
}

enum orr_status orr__runtime_no_memory(struct orr_runtime *runtime) {
    return orr__runtime_fail(runtime, ORR_NO_MEMORY, "out of host memory");
}

enum orr_status orr__runtime_backend_failed(struct orr_runtime *runtime, enum orr_status status) {
    if (status == ORR_OK || status == ORR_BLOCKED || status == ORR_NOT_READY)
        return status;
    const char *site = runtime->site_text;
    const char *fault = status == ORR_DEVICE_FAILED ? orr_runtime_fault(runtime) : NULL;
    const char *text = runtime->scratch.status != ORR_OK ? runtime->scratch.text
                       : fault                           ? fault
                                                         : orr_status_text(status);
    return orr__runtime_fail(runtime, status, "%s%s%s", site, *site ? ": " : "", text);
}

/* Waits fail only if they can never end; without a reason it is their own host that is lost. */
static void note_hang(struct orr_runtime *runtime, enum orr_status status) {
    if (status == ORR_DEVICE_FAILED && runtime->scratch.status != ORR_OK)
        runtime->hung = true;
}

bool orr_runtime_hung(const struct orr_runtime *runtime) {
    return runtime->hung;
}

bool orr_runtime_host_reason(const struct orr_runtime *runtime, uint32_t host, char *text,
                             size_t size) {
    return runtime->verbs->host_reason &&
           runtime->verbs->host_reason(runtime->backend, host, text, size);
}

struct orr_error *orr_runtime_error(struct orr_runtime *runtime) {
    return &runtime->error;
}

/* --- names --- */

enum orr_status orr__runtime_name(struct orr_runtime *runtime, const char *text, uint32_t *out_id) {
    *out_id = 0;
    if (!text || !*text)
        return ORR_OK;
    /* The address chooses the slot only; what counts is the text found there. */
    size_t slot = ((uintptr_t)text >> 3 ^ (uintptr_t)text >> 9) % ORR__NAME_CACHE;
    const char *cached = runtime->name_cache[slot].text;
    if (cached && strcmp(cached, text) == 0) {
        *out_id = runtime->name_cache[slot].id;
        return ORR_OK;
    }
    if (orr_names_intern(runtime->names, text, strlen(text), out_id) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    runtime->name_cache[slot].text = orr_names_text(runtime->names, *out_id);
    runtime->name_cache[slot].id = *out_id;
    return ORR_OK;
}

static enum orr_status intern_constants(struct orr_runtime *runtime) {
    const struct {
        const char *text;
        uint32_t *id;
    } constants[] = {{"alloc", &runtime->id_alloc},
                     {"free", &runtime->id_free},
                     {"record_stream", &runtime->id_record_stream},
                     {"wait", &runtime->id_wait},
                     {"copy", &runtime->id_copy},
                     {"fill", &runtime->id_fill},
                     {"hostread", &runtime->id_hostread},
                     {"hostwrite", &runtime->id_hostwrite},
                     {"post", &runtime->id_post},
                     {"dev", &runtime->id_device_memory},
                     {"pinned", &runtime->id_pinned},
                     {"pageable", &runtime->id_pageable},
                     {"memory bytes", &runtime->id_memory_bytes},
                     {"reserved bytes", &runtime->id_reserved_bytes}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        enum orr_status status = orr__runtime_name(runtime, constants[i].text, constants[i].id);
        if (status != ORR_OK)
            return status;
    }
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++) {
        const char *text = orr_collective_kind_text((enum orr_collective_kind)kind);
        enum orr_status status = orr__runtime_name(runtime, text, &runtime->id_collectives[kind]);
        if (status != ORR_OK)
            return status;
    }
    for (int source = 0; source < ORR_TS_SOURCE_COUNT; source++) {
        const char *text = orr_ts_source_text((enum orr_ts_source)source);
        enum orr_status status = orr__runtime_name(runtime, text, &runtime->ts_sources[source]);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

/* --- the first records --- */

/* An id for a record that must not fail: "" when there is no memory for the text. */
static uint32_t name_or_empty(struct orr_runtime *runtime, const char *text) {
    uint32_t id = 0;
    if (text && orr_names_intern(runtime->names, text, strlen(text), &id) != ORR_OK)
        return 0;
    return id;
}

static void record_peaks(struct orr_runtime *runtime, uint32_t device) {
    for (int unit = 0; unit < 2; unit++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
            struct orr_record_peak peak = {.header = ORR_RECORD_HEADER(peak, PEAK),
                                           .device = device,
                                           .flops_per_s =
                                               runtime->devices[device].spec.peak[unit][dtype]};
            peak.header.a = (uint8_t)unit;
            peak.header.b = (uint8_t)dtype;
            if (peak.flops_per_s > 0)
                orr__runtime_record(runtime, &peak);
        }
}

static void record_device(struct orr_runtime *runtime, uint32_t device) {
    const struct orr_device_spec *spec = &runtime->devices[device].spec;
    char name[32];
    snprintf(name, sizeof name, "device %u", (unsigned)device);
    struct orr_record_device record = {.header = ORR_RECORD_HEADER(device, DEVICE),
                                       .id = device,
                                       .name = name_or_empty(runtime, name),
                                       .kind = name_or_empty(runtime, spec->kind),
                                       .physical = spec->hosted_by ? spec->hosted_by - 1 : device,
                                       .profile = name_or_empty(runtime, spec->name),
                                       .mem_bytes = spec->memory_bytes,
                                       .bandwidth = spec->bandwidth};
    orr__runtime_record(runtime, &record);
    record_peaks(runtime, device);
}

static void record_host(struct orr_runtime *runtime, uint32_t host, const char *name) {
    struct orr_record_host record = {
        .header = ORR_RECORD_HEADER(host, HOST), .id = host, .name = name_or_empty(runtime, name)};
    orr__runtime_record(runtime, &record);
}

static void meta_count(struct orr_runtime *runtime, const char *key, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    orr_runtime_meta(runtime, key, text);
}

static void record_start(struct orr_runtime *runtime) {
    orr_runtime_meta(runtime, "backend", runtime->verbs->name);
    orr_runtime_meta(runtime, "clock", runtime->verbs->clock);
    orr_runtime_meta(runtime, "accesses", runtime->trace_accesses ? "true" : "false");
    meta_count(runtime, "seed", runtime->seed);
    if (runtime->pageable == ORR_PAGEABLE_STAGED)
        orr_runtime_meta(runtime, "pageable", "staged");
    if (runtime->drop_wait > 0 && runtime->drop_wait != ORR_DROP_WAIT_NONE)
        meta_count(runtime, "drop_wait", runtime->drop_wait);
    for (uint32_t i = 0; i < runtime->device_count; i++)
        record_device(runtime, i);
}

/* --- creation and destruction --- */

static enum orr_status create_devices(struct orr_runtime *runtime,
                                      const struct orr_runtime_config *config) {
    runtime->devices =
        orr_memory_alloc(runtime->memory, config->device_count * sizeof *runtime->devices);
    if (!runtime->devices)
        return ORR_NO_MEMORY;
    runtime->device_count = config->device_count;
    for (uint32_t i = 0; i < config->device_count; i++) {
        struct orr__device *device = &runtime->devices[i];
        device->spec = config->specs[i];
        device->memory_bytes = device->spec.memory_bytes;
        device->deferred_end = &device->deferred;
        device->all_end = &device->all;
        enum orr_status status = orr__allocator_create(runtime->memory, device->spec.memory_bytes,
                                                       &runtime->segment_count, &device->allocator);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

static enum orr_status reserve_hosts(struct orr_runtime *runtime, size_t count) {
    return orr_memory_grow(runtime->memory, &runtime->hosts, &runtime->host_capacity, count,
                           sizeof *runtime->hosts, ORR__HOSTS_MAX);
}

/* A host whose room is reserved. */
static void add_host_entry(struct orr_runtime *runtime, const char *name) {
    uint32_t host = (uint32_t)runtime->host_count++;
    assert(host < runtime->host_capacity);
    runtime->hosts[host] = (struct orr__host){.first_ns = ORR_TIME_NONE, .role = ORR_ROLE_OTHER};
    record_host(runtime, host, name);
}

/* Host 0 makes the calls. A backend with virtual hosts and a runner for each device has a dispatch
 * host a device behind it, which is charged for launches but makes no calls. */
void orr__runtime_add_first_hosts(struct orr_runtime *runtime) {
    add_host_entry(runtime, "host");
    runtime->caller_count = 1;
    if (runtime->observer)
        orr__observe_host(runtime, 0, "host");
    if (!runtime->dispatches || !runtime->verbs->host_create)
        return;
    for (uint32_t i = 0; i < runtime->device_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "dispatch %u", (unsigned)i);
        add_host_entry(runtime, name);
    }
}

static enum orr_status open_backend(struct orr_runtime *runtime,
                                    const struct orr_runtime_config *config,
                                    struct orr_error *error) {
    struct orr_backend_config backend = {
        .memory = runtime->memory,
        .specs = config->specs,
        .device_count = config->device_count,
        .timing_only = config->timing_only,
        .runner = config->runner,
        .seed = config->seed,
        .options = config->options,
        .ts_sources = runtime->ts_sources,
        .retire = {.retired = orr__runtime_retired, .context = runtime},
        .describe = orr__runtime_describe,
        .names = runtime->names};
    enum orr_status status = config->open(&backend, &runtime->backend, error);
    if (status != ORR_OK)
        return status;
    runtime->verbs = runtime->backend->verbs;
    if (runtime->verbs->abi != ORR_BACKEND_ABI)
        return orr_error_set(error, ORR_UNAVAILABLE,
                             "backend '%s' speaks version %u of the backend seam, expected %u",
                             runtime->verbs->name, (unsigned)runtime->verbs->abi,
                             (unsigned)ORR_BACKEND_ABI);
    if (orr__runtime_name(runtime, runtime->verbs->collective, &runtime->id_algorithm) != ORR_OK)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a runtime");
    return ORR_OK;
}

/* Fills a zeroed runtime; what it leaves behind on failure is destroyed by the caller. */
static enum orr_status initialize(struct orr_runtime *runtime,
                                  const struct orr_runtime_config *config,
                                  struct orr_error *error) {
    runtime->memory = config->memory;
    runtime->timing_only = config->timing_only;
    runtime->trace_accesses = config->trace_accesses;
    runtime->pageable = config->pageable;
    runtime->drop_wait = config->drop_wait;
    runtime->seed = config->seed;
    runtime->site_text = "";
    enum orr_status status = orr_names_create(runtime->memory, &runtime->names);
    if (status == ORR_OK)
        status = intern_constants(runtime);
    if (status == ORR_OK)
        status = create_devices(runtime, config);
    if (status == ORR_OK)
        status = reserve_hosts(runtime, 1 + (size_t)config->device_count);
    if (status != ORR_OK)
        return orr_error_set(error, status, "out of host memory for a runtime of %u devices",
                             (unsigned)config->device_count);
    status = open_backend(runtime, config, error);
    if (status != ORR_OK)
        return status;
    if (config->sink) {
        runtime->sink = config->sink;
        runtime->sink->names = runtime->names;
        runtime->writer = &runtime->sink->writer;
        record_start(runtime);
    }
    if (config->observer) {
        runtime->observer = config->observer;
        runtime->observer->names = runtime->names;
    }
    runtime->dispatches = config->runner == ORR_RUNNER_PER_DEVICE;
    orr__runtime_add_first_hosts(runtime);
    return ORR_OK;
}

enum orr_status orr_runtime_create(const struct orr_runtime_config *config,
                                   struct orr_runtime **out_runtime, struct orr_error *error) {
    *out_runtime = NULL;
    assert(config->memory && config->open && config->specs);
    if (config->device_count == 0)
        return orr_error_set(error, ORR_INVALID, "a runtime needs at least one device");
    struct orr_runtime *runtime = orr_memory_alloc(config->memory, sizeof *runtime);
    if (!runtime)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for a runtime");
    enum orr_status status = initialize(runtime, config, error);
    if (status != ORR_OK) {
        runtime->memory = config->memory;
        orr_runtime_destroy(&runtime);
        return status;
    }
    *out_runtime = runtime;
    return ORR_OK;
}

static void note_meta(void *context, const char *key, const char *value) {
    orr_runtime_meta(context, key, value);
}

/* The sink outlives the runtime, but what it still holds refers to the runtime's names. Its own
 * close reports a failure of this flush again. */
static void release_sink(struct orr_runtime *runtime) {
    if (!runtime->sink)
        return;
    struct orr_error error = {0};
    if (runtime->sink->flush && runtime->sink->flush(runtime->sink, &error) != ORR_OK)
        orr_error_clear(&error);
    runtime->sink->names = NULL;
    runtime->writer = NULL;
    runtime->sink = NULL;
}

void orr_runtime_destroy(struct orr_runtime **handle) {
    struct orr_runtime *runtime = *handle;
    if (!runtime)
        return;
    if (runtime->backend && runtime->verbs->notes)
        runtime->verbs->notes(runtime->backend, note_meta, runtime);
    if (runtime->backend)
        runtime->backend->verbs->close(runtime->backend);
    release_sink(runtime);
    if (runtime->observer)
        runtime->observer->names = NULL;
    orr__compiled_destroy(runtime);
    orr__recordings_detach(runtime);
    orr__tapes_destroy(runtime);
    orr__futures_destroy(runtime);
    orr__tensors_destroy(runtime);
    orr__meshes_destroy(runtime);
    orr__programs_destroy(runtime);
    orr__buffers_destroy(runtime);
    orr__events_destroy(runtime);
    orr__communicators_destroy(runtime);
    orr__streams_destroy(runtime);
    orr__pending_pools_destroy(runtime);
    for (uint32_t i = 0; i < runtime->device_count; i++)
        orr__allocator_destroy(&runtime->devices[i].allocator);
    orr_memory_free(runtime->memory, runtime->devices);
    for (size_t i = 0; i < runtime->host_count; i++)
        orr_memory_free(runtime->memory, runtime->hosts[i].seen);
    orr_memory_free(runtime->memory, runtime->perturb);
    orr_memory_free(runtime->memory, runtime->hosts);
    orr_memory_free(runtime->memory, runtime->event_names);
    orr_memory_free(runtime->memory, runtime->point_scratch);
    orr_memory_free(runtime->memory, runtime->observed_accesses);
    orr_memory_free(runtime->memory, runtime->default_waits);
    orr_memory_free(runtime->memory, runtime->kept_waits);
    orr_memory_free(runtime->memory, runtime->idle_waits);
    orr_memory_free(runtime->memory, runtime->group_commands);
    orr_memory_free(runtime->memory, runtime->group_pending);
    orr_memory_free(runtime->memory, runtime->group_points);
    orr_memory_free(runtime->memory, runtime->group_streams);
    orr_names_destroy(&runtime->names);
    orr_memory_free(runtime->memory, runtime);
    *handle = NULL;
}

/* --- hosts and callers --- */

enum orr_status orr_runtime_set_caller(struct orr_runtime *runtime, uint32_t host,
                                       const char *site) {
    if (host >= runtime->host_count)
        return orr__runtime_fail(runtime, ORR_INVALID, "host %u does not exist; there are %zu",
                                 (unsigned)host, runtime->host_count);
    runtime->host = host;
    if (!site)
        site = "";
    if (strcmp(site, runtime->site_text) == 0)
        return ORR_OK;
    enum orr_status status = orr__runtime_name(runtime, site, &runtime->site);
    runtime->site_text = orr_names_text(runtime->names, runtime->site);
    return status;
}

enum orr_status orr_runtime_add_host(struct orr_runtime *runtime, const char *name,
                                     uint32_t *out_host) {
    *out_host = 0;
    if (!runtime->verbs->host_create)
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED, "backend '%s' has one host only",
                                 runtime->verbs->name);
    uint32_t host;
    if (reserve_hosts(runtime, runtime->host_count + 1) != ORR_OK)
        return orr__runtime_no_memory(runtime);
    enum orr_status status = runtime->verbs->host_create(runtime->backend, &host);
    if (status != ORR_OK)
        return orr__runtime_fail(runtime, status, "no further host: %s", orr_status_text(status));
    assert(host == runtime->host_count);
    add_host_entry(runtime, name);
    runtime->caller_count++;
    if (runtime->observer)
        orr__observe_host(runtime, host, name);
    *out_host = host;
    return orr__runtime_greet(runtime, host);
}

enum orr_status orr_runtime_next_host(struct orr_runtime *runtime, uint32_t *out_host) {
    *out_host = 0;
    if (!runtime->verbs->host_next)
        return ORR_OK;
    runtime->scratch.status = ORR_OK;
    enum orr_status status =
        runtime->verbs->host_next(runtime->backend, out_host, &runtime->scratch);
    note_hang(runtime, status);
    return orr__runtime_backend_failed(runtime, status);
}

void orr_runtime_host_done(struct orr_runtime *runtime, uint32_t host) {
    assert(host < runtime->host_count);
    if (runtime->verbs->host_done)
        runtime->verbs->host_done(runtime->backend, host);
}

static enum orr_status turn_about(struct orr_runtime *runtime, uint64_t thing) {
    if (runtime->caller_count == 1 || !runtime->verbs->host_next)
        return ORR_OK;
    if (runtime->operator_depth > 0 || runtime->in_call)
        return ORR_OK; /* asked when the operator, or the call, began */
    if (!runtime->verbs->host_spend)
        return ORR_OK; /* a real clock: who calls first is first */
    uint32_t host = runtime->host;
    runtime->scratch.status = ORR_OK;
    if (runtime->verbs->host_concerns)
        runtime->verbs->host_concerns(runtime->backend, host, thing);
    enum orr_status status = runtime->verbs->host_next(runtime->backend, &host, &runtime->scratch);
    if (status == ORR_OK && host != runtime->host)
        return ORR_BLOCKED;
    note_hang(runtime, status);
    return orr__runtime_backend_failed(runtime, status);
}

/* Thing 0 is whatever is not told apart. */
enum orr_status orr__runtime_turn(struct orr_runtime *runtime) {
    return turn_about(runtime, 0);
}

enum orr_status orr_runtime_meet(struct orr_runtime *runtime, uint64_t thing) {
    enum orr_status status = turn_about(runtime, thing + 1);
    if (status == ORR_OK && runtime->verbs->host_spend)
        runtime->verbs->host_spend(runtime->backend, runtime->host, 1);
    return status;
}

void orr_runtime_park(struct orr_runtime *runtime) {
    assert(runtime->verbs->host_park);
    runtime->verbs->host_park(runtime->backend, runtime->host);
}

void orr_runtime_unpark(struct orr_runtime *runtime, uint32_t host) {
    assert(runtime->verbs->host_unpark && host < runtime->host_count && host != runtime->host);
    runtime->verbs->host_unpark(runtime->backend, host, runtime->host);
}

int64_t orr_runtime_now(struct orr_runtime *runtime) {
    return runtime->verbs->now(runtime->backend, runtime->host);
}

enum orr_status orr_runtime_spend(struct orr_runtime *runtime, int64_t ns) {
    if (!runtime->verbs->host_spend)
        return orr__runtime_fail(runtime, ORR_UNSUPPORTED,
                                 "the clock of backend '%s' can't be advanced",
                                 runtime->verbs->name);
    if (ns < 0)
        return orr__runtime_fail(runtime, ORR_INVALID, "a host can't compute for %lld ns",
                                 (long long)ns);
    if (ns > CLOCK_MAX_NS - orr_runtime_now(runtime))
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "the host's clock would pass 2^61 ns, the end of time");
    runtime->verbs->host_spend(runtime->backend, runtime->host, ns);
    return ORR_OK;
}

void orr__runtime_spend_event(struct orr_runtime *runtime, uint32_t device) {
    if (runtime->operator_depth > 0 || !runtime->verbs->host_spend)
        return;
    int64_t ns = runtime->devices[device < runtime->device_count ? device : 0].spec.host_event_ns;
    runtime->verbs->host_spend(runtime->backend, runtime->host, ns > 1 ? ns : 1);
}

/* What the first command of an operator costs whoever launches it. With dispatch hosts that is a
 * launch; the rest of the operator is paid here and now by the caller. */
static int64_t operator_charge(struct orr_runtime *runtime, const struct orr_device_spec *spec) {
    if (!runtime->dispatches)
        return spec->host_operator_ns;
    int64_t own_ns = spec->host_operator_ns - spec->host_launch_ns;
    if (own_ns > 0 && !runtime->capture && runtime->verbs->host_spend)
        runtime->verbs->host_spend(runtime->backend, runtime->host, own_ns);
    return spec->host_launch_ns;
}

void orr__runtime_call_begin(struct orr_runtime *runtime, bool repeats) {
    assert(!runtime->in_call);
    runtime->in_call = true;
    runtime->call_repeats = repeats;
}

void orr__runtime_call_end(struct orr_runtime *runtime) {
    assert(runtime->in_call);
    runtime->in_call = runtime->call_repeats = false;
}

void orr__runtime_operator_begin(struct orr_runtime *runtime, uint32_t device, int64_t charge_ns) {
    assert(device < runtime->device_count);
    if (runtime->operator_depth++ > 0)
        return;
    if (charge_ns < 0)
        charge_ns = operator_charge(runtime, &runtime->devices[device].spec);
    runtime->operator_charge_ns = charge_ns;
}

void orr__runtime_operator_end(struct orr_runtime *runtime, bool completed) {
    assert(runtime->operator_depth > 0);
    if (--runtime->operator_depth > 0)
        return;
    if (completed && runtime->operator_charge_ns > 0 && runtime->verbs->host_spend)
        runtime->verbs->host_spend(runtime->backend, runtime->host, runtime->operator_charge_ns);
    runtime->operator_charge_ns = 0;
}

/* --- finishing --- */

/* A backend that ran out of host memory where no call could say so says it here, of any stream. */
static bool has_lost_memory(struct orr_runtime *runtime, struct orr_error *error) {
    return runtime->stream_count > 0 &&
           runtime->verbs->fail_of(runtime->backend, 0, error) == ORR_NO_MEMORY;
}

enum orr_status orr__runtime_backend_wait(struct orr_runtime *runtime,
                                          const struct orr_point *points, uint32_t count,
                                          enum orr_wait_mode mode, int64_t deadline_ns) {
    struct orr_error lost;
    runtime->scratch.status = ORR_OK;
    lost.status = ORR_OK;
    enum orr_status status = runtime->verbs->wait(runtime->backend, runtime->host, points, count,
                                                  mode, deadline_ns, &runtime->scratch);
    if (status == ORR_BLOCKED || status == ORR_NOT_READY || !has_lost_memory(runtime, &lost)) {
        note_hang(runtime, status);
        return status;
    }
    runtime->scratch = lost; /* the cause of whatever the wait said */
    return ORR_NO_MEMORY;
}

enum orr_status orr_runtime_finish(struct orr_runtime *runtime) {
    enum orr_status status = orr__capture_check_host(runtime);
    if (status != ORR_OK)
        return status;
    uint32_t count = 0;
    for (size_t i = 0; i < runtime->stream_count; i++)
        if (runtime->streams[i]->last.seq > 0)
            runtime->point_scratch[count++] = runtime->streams[i]->last;
    status = orr__runtime_reserve_seen(runtime, count);
    if (runtime->perturb)
        runtime->perturb->finishing = true;
    if (status == ORR_OK && count > 0)
        status = orr__runtime_backend_wait(runtime, runtime->point_scratch, count, ORR_WAIT_ALL,
                                           ORR_TIME_MAX);
    if (runtime->perturb)
        runtime->perturb->finishing = false;
    if (status != ORR_OK)
        return orr__runtime_backend_failed(runtime, status);
    orr__runtime_saw(runtime, runtime->point_scratch, count);
    if (runtime->drop_wait > 0)
        meta_count(runtime, "waits", runtime->wait_count);
    if (runtime->failure.status != ORR_OK)
        return orr__runtime_fail(runtime, ORR_DEVICE_FAILED, "%s", runtime->failure.text);
    return ORR_OK;
}

/* --- facts --- */

uint32_t orr_runtime_device_count(const struct orr_runtime *runtime) {
    return runtime->device_count;
}

const struct orr_device_spec *orr_runtime_spec(const struct orr_runtime *runtime, uint32_t device) {
    return device < runtime->device_count ? &runtime->devices[device].spec : NULL;
}

bool orr_runtime_timing_only(const struct orr_runtime *runtime) {
    return runtime->timing_only;
}

uint64_t orr_runtime_seed(const struct orr_runtime *runtime) {
    return runtime->seed;
}

const char *orr_runtime_backend_name(const struct orr_runtime *runtime) {
    return runtime->verbs->name;
}

struct orr_backend *orr_runtime_backend(const struct orr_runtime *runtime) {
    return runtime->backend;
}

void orr_runtime_meta(struct orr_runtime *runtime, const char *key, const char *value) {
    if (!runtime->writer)
        return;
    struct orr_record_meta record = {.header = ORR_RECORD_HEADER(meta, META),
                                     .key = name_or_empty(runtime, key),
                                     .value = name_or_empty(runtime, value)};
    orr_record_push(runtime->writer, &record);
}

void orr_runtime_finding(struct orr_runtime *runtime, const char *kind, const char *severity,
                         uint64_t cmd_a, uint64_t cmd_b, uint64_t buffer, const char *message,
                         const char *fix) {
    uint64_t id = ++runtime->finding_count;
    if (!runtime->writer)
        return;
    struct orr_record_finding record = {.header = ORR_RECORD_HEADER(finding, FINDING),
                                        .id = id,
                                        .cmd_a = cmd_a,
                                        .cmd_b = cmd_b,
                                        .buffer = buffer,
                                        .kind = name_or_empty(runtime, kind),
                                        .severity = name_or_empty(runtime, severity),
                                        .message = name_or_empty(runtime, message),
                                        .fix = name_or_empty(runtime, fix)};
    orr_record_push(runtime->writer, &record);
}

uint64_t orr_runtime_finding_count(const struct orr_runtime *runtime) {
    return runtime->finding_count;
}
