/* Streams: creation, the commands that go into them, and the host's waits. */
#include "runtime/stream.h"

#include <assert.h>
#include <string.h>

#include "runtime/runtime_internal.h"
#include "runtime/synthetic.h"

/* --- creation and destruction --- */

static bool name_is_taken(const struct orr_runtime *runtime, uint32_t device, uint32_t name) {
    const struct orr_stream *stream = runtime->devices[device].all;
    while (stream && (stream->name != name || stream->destroyed))
        stream = stream->next;
    return stream != NULL;
}

static enum orr_status check_creation(struct orr_runtime *runtime, uint32_t device,
                                      enum orr_stream_kind kind, const char *name,
                                      uint32_t *out_name) {
    if (device >= runtime->device_count)
        return orr__runtime_fail(runtime, ORR_INVALID, "device %u does not exist; there are %u",
                                 (unsigned)device, (unsigned)runtime->device_count);
    if ((unsigned)kind >= ORR__STREAM_KINDS)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "a stream's kind is compute, communicate or copy");
    if (!name || !*name)
        return orr__runtime_fail(runtime, ORR_INVALID, "a stream of device %u needs a name",
                                 (unsigned)device);
    enum orr_status status = orr__runtime_name(runtime, name, out_name);
    if (status == ORR_OK && name_is_taken(runtime, device, *out_name))
        return orr__runtime_fail(runtime, ORR_INVALID, "device %u has a stream '%s' already",
                                 (unsigned)device, name);
    return status;
}

/* Room for one more stream wherever streams are counted, so that nothing fails later. */
static enum orr_status reserve_stream(struct orr_runtime *runtime) {
    size_t needed = runtime->stream_count + 1;
    enum orr_status status =
        orr_memory_grow(runtime->memory, &runtime->streams, &runtime->stream_capacity, needed,
                        sizeof(struct orr_stream *), ORR__STREAMS_MAX);
    if (status == ORR_OK)
        status = orr_memory_grow(runtime->memory, &runtime->point_scratch, &runtime->point_capacity,
                                 needed, sizeof *runtime->point_scratch, ORR__STREAMS_MAX);
    return status == ORR_OK ? ORR_OK : orr__runtime_no_memory(runtime);
}

static void record_stream(const struct orr_stream *stream) {
    struct orr_record_stream record = {.header = ORR_RECORD_HEADER(stream, STREAM),
                                       .id = stream->id,
                                       .device = stream->device,
                                       .name = stream->name};
    record.header.a = (uint8_t)stream->kind;
    record.header.b = (uint8_t)stream->sync;
    orr__runtime_record(stream->runtime, &record);
    if (stream->runtime->observer)
        stream->runtime->observer->stream(stream->runtime->observer, &record);
}

/* A zeroed struct for the next stream: one that a rewind left where it will be, or a new one. */
static struct orr_stream *take_struct(struct orr_runtime *runtime) {
    if (runtime->stream_count >= runtime->stream_spare)
        return orr_memory_alloc_lines(runtime->memory, sizeof(struct orr_stream));
    struct orr_stream *stream = runtime->streams[runtime->stream_count];
    orr_memory_free(runtime->memory, stream->awaited);
    *stream = (struct orr_stream){0};
    return stream;
}

static enum orr_status create_stream(struct orr_runtime *runtime, uint32_t device,
                                     enum orr_stream_kind kind, enum orr_stream_sync sync,
                                     const char *name, struct orr_stream **out_stream) {
    *out_stream = NULL;
    uint32_t name_id = 0;
    enum orr_status status = check_creation(runtime, device, kind, name, &name_id);
    if (status == ORR_OK)
        status = reserve_stream(runtime);
    if (status != ORR_OK)
        return status;
    struct orr_stream *stream = take_struct(runtime);
    if (!stream)
        return orr__runtime_no_memory(runtime);
    runtime->scratch.status = ORR_OK;
    status = runtime->verbs->stream_create(runtime->backend, device, kind, &stream->id,
                                           &runtime->scratch);
    if (status != ORR_OK) {
        if (runtime->stream_count >= runtime->stream_spare)
            orr_memory_free_lines(runtime->memory, stream);
        return orr__runtime_backend_failed(runtime, status);
    }
    assert(stream->id == runtime->stream_count);
    stream->runtime = runtime;
    stream->device = device;
    stream->kind = kind;
    stream->sync = sync;
    runtime->default_streams |= sync != ORR_STREAM_NB;
    stream->name = name_id;
    stream->last.stream = stream->id;
    stream->finish_ns = ORR_TIME_NONE;
    runtime->streams[runtime->stream_count++] = stream;
    *runtime->devices[device].all_end = stream;
    runtime->devices[device].all_end = &stream->next;
    record_stream(stream);
    *out_stream = stream;
    return ORR_OK;
}

enum orr_status orr_stream_create(struct orr_runtime *runtime, uint32_t device,
                                  enum orr_stream_kind kind, const char *name,
                                  struct orr_stream **out_stream) {
    return create_stream(runtime, device, kind, ORR_STREAM_NB, name, out_stream);
}

enum orr_status orr_stream_create_blocking(struct orr_runtime *runtime, uint32_t device,
                                           enum orr_stream_kind kind, enum orr_stream_sync sync,
                                           const char *name, struct orr_stream **out_stream) {
    *out_stream = NULL;
    bool legacy = sync == ORR_STREAM_LEGACY;
    if ((unsigned)sync > ORR_STREAM_LEGACY)
        return orr__runtime_fail(runtime, ORR_INVALID, "a stream is nb, bl, ptds or legacy");
    if (legacy && device < runtime->device_count && runtime->devices[device].legacy)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "device %u has its legacy default stream already",
                                 (unsigned)device);
    enum orr_status status = create_stream(runtime, device, kind, sync, name, out_stream);
    if (status == ORR_OK && legacy)
        runtime->devices[device].legacy = *out_stream;
    return status;
}

/* The struct stays until the runtime goes: commands in flight and buffers refer to it. */
void orr_stream_destroy(struct orr_stream **handle) {
    struct orr_stream *stream = *handle;
    if (!stream)
        return;
    struct orr__device *device = &stream->runtime->devices[stream->device];
    assert(!stream->destroyed && stream->sync != ORR_STREAM_LEGACY);
    if (device->streams[stream->kind] == stream)
        device->streams[stream->kind] = NULL;
    stream->destroyed = true;
    stream->runtime->verbs->stream_destroy(stream->runtime->backend, stream->id);
    *handle = NULL;
}

void orr__streams_destroy(struct orr_runtime *runtime) {
    size_t count = runtime->stream_count;
    if (count < runtime->stream_spare)
        count = runtime->stream_spare;
    for (size_t i = 0; i < count; i++) {
        orr_memory_free(runtime->memory, runtime->streams[i]->awaited);
        orr_memory_free_lines(runtime->memory, runtime->streams[i]);
    }
    orr_memory_free(runtime->memory, runtime->streams);
    runtime->streams = NULL;
    runtime->stream_count = 0;
}

struct orr_stream *orr_device_stream(struct orr_runtime *runtime, uint32_t device,
                                     enum orr_stream_kind kind) {
    if (device < runtime->device_count && (unsigned)kind < ORR__STREAM_KINDS &&
        runtime->devices[device].streams[kind])
        return runtime->devices[device].streams[kind];
    struct orr_stream *stream;
    const char *name = (unsigned)kind < ORR__STREAM_KINDS ? orr_stream_kind_text(kind) : "";
    if (orr_stream_create(runtime, device, kind, name, &stream) != ORR_OK)
        return NULL;
    runtime->devices[device].streams[kind] = stream;
    return stream;
}

uint32_t orr_stream_id(const struct orr_stream *stream) {
    return stream->id;
}

uint32_t orr_stream_device(const struct orr_stream *stream) {
    return stream->device;
}

const char *orr_stream_name(const struct orr_stream *stream) {
    return orr_names_text(stream->runtime->names, stream->name);
}

struct orr_runtime *orr_stream_runtime(const struct orr_stream *stream) {
    return stream->runtime;
}

enum orr_stream_sync orr_stream_blocking(const struct orr_stream *stream) {
    return stream->sync;
}

struct orr_point orr_stream_point(const struct orr_stream *stream) {
    return orr__runtime_captures(stream->runtime) ? orr__capture_last(stream) : stream->last;
}

/* --- what commands compute --- */

static enum orr_status run_kernel(const struct orr_command *command, struct orr_error *error) {
    const struct orr__pending *pending = command->context;
    return pending->kernel_run(pending->command.work, error);
}

static enum orr_status run_hostfn(const struct orr_command *command, struct orr_error *error) {
    (void)error;
    const struct orr__pending *pending = command->context;
    pending->function(pending->command.work);
    return ORR_OK;
}

static enum orr_status run_copy(const struct orr_command *command, struct orr_error *error) {
    (void)error;
    const struct orr__pending *pending = command->context;
    memmove(orr__pending_pointer(pending, 1), orr__pending_pointer(pending, 0),
            (size_t)command->accesses[0].bytes);
    return ORR_OK;
}

static enum orr_status run_fill(const struct orr_command *command, struct orr_error *error) {
    (void)error;
    const struct orr__pending *pending = command->context;
    memset(orr__pending_pointer(pending, 0), pending->value, (size_t)command->accesses[0].bytes);
    return ORR_OK;
}

static enum orr_status run_synthetic(const struct orr_command *command, struct orr_error *error) {
    (void)error;
    const struct orr__pending *pending = command->context;
    struct orr__synthetic synthetic = {.digest = pending->name_digest};
    for (uint32_t i = 0; i < command->access_count; i++)
        if (command->accesses[i].mode & ORR_ACCESS_READ)
            orr__synthetic_read(&synthetic, orr__pending_pointer(pending, i),
                                (size_t)command->accesses[i].bytes);
    for (uint32_t i = 0; i < command->access_count; i++)
        if (command->accesses[i].mode & ORR_ACCESS_WRITE)
            orr__synthetic_write(&synthetic, orr__pending_pointer(pending, i),
                                 (size_t)command->accesses[i].bytes);
    return ORR_OK;
}

bool orr__stream_is_synthetic(const struct orr_command *command) {
    return command->run == run_synthetic;
}

/* Whether the library can compute on the ranges itself. */
static bool is_reachable(const struct orr__pending *pending) {
    if (pending->runtime->timing_only || pending->command.access_count == 0)
        return false;
    for (uint32_t i = 0; i < pending->command.access_count; i++)
        if (!orr__pending_buffer(pending, i)->data)
            return false;
    return true;
}

/* --- commands --- */

/* A pending command with all its ranges, or a failure with its text. */
static enum orr_status take(struct orr_runtime *runtime, enum orr_command_kind kind, uint32_t name,
                            uint32_t device, const struct orr_range *ranges, uint32_t count,
                            struct orr__pending **out_pending) {
    struct orr__pending *pending = orr__pending_take(runtime, kind, name, count);
    *out_pending = NULL;
    if (!pending)
        return orr__runtime_no_memory(runtime);
    for (uint32_t i = 0; i < count; i++) {
        enum orr_status status = orr__pending_add(pending, device, &ranges[i]);
        if (status != ORR_OK) {
            orr__pending_drop(pending);
            return status;
        }
    }
    *out_pending = pending;
    return ORR_OK;
}

static uint64_t digest_of(struct orr_runtime *runtime, uint32_t name) {
    struct orr__synthetic synthetic;
    uint32_t slot = name % ORR__NAME_CACHE;
    if (runtime->name_digests[slot].name != name) {
        orr__synthetic_begin(&synthetic, orr_names_text(runtime->names, name));
        runtime->name_digests[slot].digest = synthetic.digest;
        runtime->name_digests[slot].name = name;
    }
    return runtime->name_digests[slot].digest;
}

static void fill_kernel(struct orr__pending *pending, const struct orr_kernel *kernel) {
    struct orr_command *command = &pending->command;
    struct orr_record_command *record = &command->record;
    record->header.b = (uint8_t)kernel->dtype;
    record->header.d = (uint8_t)kernel->cost.unit;
    record->flops = kernel->cost.flops;
    record->bytes_read = kernel->cost.bytes_read;
    record->bytes_written = kernel->cost.bytes_written;
    record->op = kernel->op;
    command->submit_ns = kernel->submit_ns;
    command->service_ns = kernel->service_ns;
    pending->kernel_run = kernel->run;
    pending->describe = kernel->describe;
    pending->command.work = kernel->work;
    pending->release = kernel->release;
    if (kernel->run) {
        command->run = pending->runtime->timing_only ? NULL : run_kernel;
    } else if (is_reachable(pending)) {
        command->run = run_synthetic;
        pending->name_digest = digest_of(pending->runtime, record->name);
    }
}

enum orr_status orr_stream_kernel(struct orr_stream *stream, const struct orr_kernel *kernel,
                                  struct orr_point *out_point) {
    struct orr_runtime *runtime = stream->runtime;
    if (out_point)
        *out_point = (struct orr_point){.stream = stream->id};
    if (!kernel->name || !*kernel->name)
        return orr__runtime_fail(runtime, ORR_INVALID, "a kernel needs a name");
    uint32_t name;
    struct orr__pending *pending;
    enum orr_status status = orr__runtime_name(runtime, kernel->name, &name);
    if (status == ORR_OK)
        status = take(runtime, ORR_COMMAND_KERNEL, name, stream->device, kernel->accesses,
                      kernel->access_count, &pending);
    if (status != ORR_OK)
        return status;
    fill_kernel(pending, kernel);
    return orr__runtime_submit(stream, pending, NULL, 0, out_point);
}

enum orr_status orr__stream_copy(struct orr_stream *stream, const struct orr_range *to,
                                 const struct orr_range *from) {
    struct orr_runtime *runtime = stream->runtime;
    const struct orr_range ranges[2] = {*from, *to};
    struct orr__pending *pending;
    enum orr_status status =
        take(runtime, ORR_COMMAND_COPY, runtime->id_copy, ORR_ID_NONE, ranges, 2, &pending);
    if (status != ORR_OK)
        return status;
    pending->command.record.bytes_read = from->bytes;
    pending->command.record.bytes_written = to->bytes;
    if (is_reachable(pending))
        pending->command.run = run_copy;
    return orr__runtime_submit(stream, pending, NULL, 0, NULL);
}

enum orr_status orr_stream_fill(struct orr_stream *stream, struct orr_buffer *buffer,
                                uint64_t offset, uint64_t bytes, uint8_t value) {
    struct orr_runtime *runtime = stream->runtime;
    const struct orr_range range = {buffer, offset, bytes, ORR_ACCESS_WRITE};
    struct orr__pending *pending;
    enum orr_status status =
        take(runtime, ORR_COMMAND_FILL, runtime->id_fill, stream->device, &range, 1, &pending);
    if (status != ORR_OK)
        return status;
    pending->command.record.bytes_written = bytes;
    pending->value = value;
    if (is_reachable(pending))
        pending->command.run = run_fill;
    return orr__runtime_submit(stream, pending, NULL, 0, NULL);
}

enum orr_status orr_stream_hostfn(struct orr_stream *stream, const char *name,
                                  orr_host_function function, void *context,
                                  const struct orr_range *accesses, uint32_t access_count) {
    struct orr_runtime *runtime = stream->runtime;
    assert(function);
    if (!name || !*name)
        return orr__runtime_fail(runtime, ORR_INVALID, "a host function needs a name");
    uint32_t name_id;
    struct orr__pending *pending;
    enum orr_status status = orr__runtime_name(runtime, name, &name_id);
    if (status == ORR_OK)
        status = take(runtime, ORR_COMMAND_HOSTFN, name_id, stream->device, accesses, access_count,
                      &pending);
    if (status != ORR_OK)
        return status;
    pending->function = function;
    pending->command.work = context;
    pending->command.run = runtime->timing_only ? NULL : run_hostfn;
    return orr__runtime_submit(stream, pending, NULL, 0, NULL);
}

enum orr_status orr_stream_wait_point(struct orr_stream *stream, struct orr_point point) {
    struct orr_runtime *runtime = stream->runtime;
    if (point.seq > 0 && point.stream >= runtime->stream_count)
        return orr__runtime_fail(runtime, ORR_INVALID, "a point of stream %u, which does not exist",
                                 (unsigned)point.stream);
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_WAIT, runtime->id_wait, 0);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    return orr__runtime_submit(stream, pending, &point, point.seq > 0 ? 1 : 0, NULL);
}

/* --- the host waits --- */

bool orr__point_retired(const struct orr_runtime *runtime, struct orr_point point) {
    return point.seq == 0 || runtime->streams[point.stream]->retired_seq >= point.seq;
}

/* The command whose end was observed last: of the point whose stream finished last. */
static uint64_t observed_command(const struct orr_runtime *runtime, const struct orr_point *points,
                                 uint32_t count) {
    uint64_t cmd = 0;
    int64_t finish_ns = ORR_TIME_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (points[i].seq == 0 || !orr__point_retired(runtime, points[i]))
            continue;
        const struct orr_stream *stream = runtime->streams[points[i].stream];
        if (cmd == 0 || stream->finish_ns > finish_ns) {
            cmd = points[i].cmd;
            finish_ns = stream->finish_ns;
        }
    }
    return cmd;
}

/* Of a wait that has ended well: what the host knows now. Of several points of which any would do,
 * that is the first one that has retired, whatever else may have. */
static void saw_any(struct orr_runtime *runtime, const struct orr_point *points, uint32_t count) {
    uint32_t first = 0;
    while (first < count && !orr__point_retired(runtime, points[first]))
        first++;
    if (first < count)
        orr__runtime_saw(runtime, &points[first], 1);
}

static void record_sync(struct orr_runtime *runtime, enum orr_sync_kind kind, uint32_t target,
                        int64_t begin_ns, uint64_t cmd) {
    uint64_t id = ++runtime->sync_count;
    if (!runtime->writer)
        return;
    struct orr_record_sync record = {.header = ORR_RECORD_HEADER(sync, SYNC),
                                     .id = id,
                                     .cmd = cmd,
                                     .begin_ns = begin_ns,
                                     .end_ns = runtime->verbs->now(runtime->backend, runtime->host),
                                     .host = runtime->host,
                                     .target = target};
    record.header.a = (uint8_t)kind;
    orr_record_push(runtime->writer, &record);
}

/* The failure that a stream's point stands for, if a command up to it failed or was skipped. */
static enum orr_status check_failure(struct orr_runtime *runtime, struct orr_point point) {
    if (point.seq == 0)
        return ORR_OK;
    const struct orr_stream *stream = runtime->streams[point.stream];
    if (stream->failed_seq == 0 || stream->failed_seq > point.seq)
        return ORR_OK;
    runtime->scratch.status = ORR_OK;
    enum orr_status status =
        runtime->verbs->fail_of(runtime->backend, point.stream, &runtime->scratch);
    const char *site = orr_names_text(runtime->names, stream->failed_site);
    const char *name = orr_names_text(runtime->names, stream->failed_name);
    const char *text = status != ORR_OK ? runtime->scratch.text : "the device failed it";
    return orr__runtime_fail(runtime, ORR_DEVICE_FAILED, "%s%s%s%s%s", site, *site ? ": " : "",
                             name, *name ? ": " : "", text);
}

static enum orr_status check_capture(struct orr_runtime *runtime, const struct orr_point *points,
                                     uint32_t count, bool *out_taken) {
    *out_taken = false;
    enum orr_status status = ORR_OK;
    if (runtime->capture && runtime->capture->host_wait)
        status = runtime->capture->host_wait(runtime->capture, points, count, out_taken);
    if (*out_taken)
        return status;
    status = orr__points_check(runtime, points, count);
    *out_taken = status != ORR_OK;
    return status;
}

enum orr_status orr__runtime_block(struct orr_runtime *runtime, const struct orr_point *points,
                                   uint32_t count, enum orr_wait_mode mode, int64_t deadline_ns,
                                   enum orr_sync_kind kind, uint32_t target) {
    struct orr__host *host = &runtime->hosts[runtime->host];
    int64_t begin_ns = host->first_ns;
    if (begin_ns == ORR_TIME_NONE)
        begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    enum orr_status status = orr__runtime_backend_wait(runtime, points, count, mode, deadline_ns);
    if (status == ORR_BLOCKED) {
        host->first_ns = begin_ns; /* the sync began now, however often the caller repeats it */
        return status;
    }
    host->first_ns = ORR_TIME_NONE;
    uint64_t cmd = status == ORR_OK ? observed_command(runtime, points, count) : 0;
    record_sync(runtime, kind, target, begin_ns, cmd);
    return orr__runtime_backend_failed(runtime, status);
}

enum orr_status orr__runtime_wait(struct orr_runtime *runtime, const struct orr_point *points,
                                  uint32_t count, enum orr_wait_mode mode, int64_t deadline_ns,
                                  enum orr_sync_kind kind, uint32_t target, uint32_t *out_index) {
    bool taken;
    enum orr_status status = check_capture(runtime, points, count, &taken);
    if (taken)
        return status;
    status = orr__runtime_reserve_seen(runtime, count);
    if (status == ORR_OK)
        status = orr__runtime_block(runtime, points, count, mode, deadline_ns, kind, target);
    if (status != ORR_OK)
        return status;
    if (mode == ORR_WAIT_ALL)
        orr__runtime_saw(runtime, points, count);
    else
        saw_any(runtime, points, count);
    for (uint32_t i = 0; i < count; i++) {
        if (mode == ORR_WAIT_ANY && !orr__point_retired(runtime, points[i]))
            continue;
        status = check_failure(runtime, points[i]);
        if (mode == ORR_WAIT_ANY && out_index)
            *out_index = i;
        if (mode == ORR_WAIT_ANY || status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

enum orr_status orr__runtime_query(struct orr_runtime *runtime, const struct orr_point *points,
                                   uint32_t count, enum orr_sync_kind kind, uint32_t target) {
    bool taken;
    enum orr_status status = check_capture(runtime, points, count, &taken);
    if (taken)
        return status;
    status = orr__runtime_reserve_seen(runtime, count);
    if (status != ORR_OK)
        return status;
    int64_t begin_ns = runtime->verbs->now(runtime->backend, runtime->host);
    runtime->scratch.status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < count; i++)
        status = runtime->verbs->query(runtime->backend, runtime->host, points[i]);
    if (status != ORR_OK)
        return orr__runtime_backend_failed(runtime, status);
    record_sync(runtime, kind, target, begin_ns,
                count == 1 ? points[0].cmd : observed_command(runtime, points, count));
    orr__runtime_saw(runtime, points, count);
    for (uint32_t i = 0; status == ORR_OK && i < count; i++)
        status = check_failure(runtime, points[i]);
    return status;
}

enum orr_status orr_stream_sync(struct orr_stream *stream) {
    struct orr_runtime *runtime = stream->runtime;
    uint32_t count = orr__default_stream_points(stream, runtime->point_scratch);
    return orr__runtime_wait(runtime, runtime->point_scratch, count, ORR_WAIT_ALL, ORR_TIME_MAX,
                             ORR_SYNC_STREAM, stream->id, NULL);
}

enum orr_status orr_stream_query(struct orr_stream *stream) {
    struct orr_runtime *runtime = stream->runtime;
    uint32_t count = orr__default_stream_points(stream, runtime->point_scratch);
    return orr__runtime_query(runtime, runtime->point_scratch, count, ORR_SYNC_STREAM, stream->id);
}

enum orr_status orr_device_sync(struct orr_runtime *runtime, uint32_t device) {
    if (device >= runtime->device_count)
        return orr__runtime_fail(runtime, ORR_INVALID, "device %u does not exist; there are %u",
                                 (unsigned)device, (unsigned)runtime->device_count);
    uint32_t count = 0;
    for (const struct orr_stream *it = runtime->devices[device].all; it; it = it->next)
        if (it->last.seq > 0)
            runtime->point_scratch[count++] = it->last;
    return orr__runtime_wait(runtime, runtime->point_scratch, count, ORR_WAIT_ALL, ORR_TIME_MAX,
                             ORR_SYNC_DEVICE, device, NULL);
}
