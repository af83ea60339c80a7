#include "tests/manual_backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/collective.h"
#include "runtime/runtime_internal.h"

static struct manual_backend *manual(struct orr_backend *backend) {
    struct manual_backend *it = (struct manual_backend *)(void *)backend;
    it->now_ns++;
    return it;
}

struct manual_backend *manual_of(struct orr_runtime *runtime) {
    return (struct manual_backend *)(void *)runtime->backend;
}

static bool retired(const struct manual_backend *it, struct orr_point point) {
    return point.seq == 0 || it->streams[point.stream].retired >= point.seq;
}

/* --- commands end --- */

static bool is_ready(const struct manual_backend *it, const struct manual_stream *stream) {
    if (stream->count == 0)
        return false;
    for (uint32_t i = 0; i < stream->queue[0].wait_count; i++)
        if (!retired(it, stream->queue[0].waits[i]))
            return false;
    return true;
}

static bool awaits_failure(const struct manual_backend *it, const struct manual_command *command) {
    for (uint32_t i = 0; i < command->wait_count; i++) {
        uint64_t failed_seq = it->streams[command->waits[i].stream].failed_seq;
        if (failed_seq > 0 && failed_seq <= command->waits[i].seq)
            return true;
    }
    return false;
}

static void retire_head(struct manual_backend *it, struct manual_stream *stream,
                        enum orr_command_status status) {
    struct orr_command command = stream->queue[0].command;
    bool failed = status == ORR_COMMAND_STATUS_FAILED || status == ORR_COMMAND_STATUS_SKIPPED;
    stream->count--;
    memmove(stream->queue, stream->queue + 1, stream->count * sizeof *stream->queue);
    stream->retired++;
    if (failed && stream->failed_seq == 0)
        stream->failed_seq = stream->retired;
    command.record.header.c = (uint8_t)status;
    if (status != ORR_COMMAND_STATUS_PENDING) {
        command.record.ready_ns = it->now_ns;
        command.record.start_ns = it->now_ns;
        command.record.finish_ns = ++it->now_ns;
    }
    it->config.retire.retired(it->config.retire.context, &command, failed ? &it->failure : NULL);
}

static enum orr_command_status run_head(struct manual_backend *it, struct manual_stream *stream) {
    const struct manual_command *head = &stream->queue[0];
    if (stream->failed_seq > 0 || awaits_failure(it, head))
        return ORR_COMMAND_STATUS_SKIPPED;
    struct orr_error error = {0};
    if (!head->command.run || head->command.run(&head->command, &error) == ORR_OK)
        return ORR_COMMAND_STATUS_OK;
    orr_error_set(&it->failure, ORR_DEVICE_FAILED, "%s", error.text);
    return ORR_COMMAND_STATUS_FAILED;
}

/* All members at their heads: computes and retires them. */
static bool finish_group(struct manual_backend *it, uint64_t group) {
    const struct orr_collective *members[MANUAL_STREAMS_MAX];
    struct manual_stream *streams[MANUAL_STREAMS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < it->stream_count; i++) {
        struct manual_stream *stream = &it->streams[i];
        if (!is_ready(it, stream) || stream->queue[0].group != group)
            continue;
        members[count] = stream->queue[0].command.collective;
        streams[count++] = stream;
    }
    if (count == 0 || count < members[0]->ranks)
        return false;
    struct orr_error error = {0};
    enum orr_status status =
        it->config.timing_only ? ORR_OK : orr_collective_run(members, count, &error);
    assert(status == ORR_OK);
    (void)status;
    for (uint32_t i = 0; i < count; i++)
        retire_head(it, streams[i], ORR_COMMAND_STATUS_OK);
    return true;
}

bool manual_finish(struct manual_backend *it, uint32_t id) {
    struct manual_stream *stream = &it->streams[id];
    if (!is_ready(it, stream))
        return false;
    if (stream->queue[0].group > 0)
        return finish_group(it, stream->queue[0].group);
    retire_head(it, stream, run_head(it, stream));
    return true;
}

bool manual_fail(struct manual_backend *it, uint32_t id, const char *text) {
    struct manual_stream *stream = &it->streams[id];
    if (!is_ready(it, stream))
        return false;
    orr_error_set(&it->failure, ORR_DEVICE_FAILED, "%s", text);
    retire_head(it, stream, ORR_COMMAND_STATUS_FAILED);
    return true;
}

static bool finish_any(struct manual_backend *it) {
    for (uint32_t i = 0; i < it->stream_count; i++)
        if (manual_finish(it, i))
            return true;
    return false;
}

void manual_finish_all(struct manual_backend *it) {
    while (finish_any(it))
        ;
}

/* --- verbs --- */

static void manual_close(struct orr_backend *backend) {
    struct manual_backend *it = manual(backend);
    const struct orr_memory *memory = it->config.memory;
    for (uint32_t i = 0; i < it->stream_count; i++)
        while (it->streams[i].count > 0)
            retire_head(it, &it->streams[i], ORR_COMMAND_STATUS_PENDING);
    for (uint32_t i = 0; i < it->memory_count; i++)
        orr_memory_free(memory, it->memories[i].block);
    orr_memory_free(memory, it->streams);
    orr_memory_free(memory, it->memories);
    orr_memory_free(memory, it);
}

static enum orr_status memory_create(struct orr_backend *backend, uint32_t device, uint64_t bytes,
                                     uint32_t *out_memory, struct orr_error *error) {
    struct manual_backend *it = manual(backend);
    (void)device;
    *out_memory = ORR_ID_NONE;
    if (it->memory_count == MANUAL_MEMORIES_MAX)
        return orr_error_set(error, ORR_NO_MEMORY, "manual: too many memories");
    struct manual_memory memory = {.bytes = bytes, .live = true};
    if (!it->config.timing_only) {
        memory.block = orr_memory_alloc(it->config.memory, (size_t)bytes);
        if (!memory.block)
            return orr_error_set(error, ORR_NO_MEMORY, "manual: out of host memory");
    }
    it->memories[it->memory_count] = memory;
    it->memories_live++;
    *out_memory = it->memory_count++;
    return ORR_OK;
}

static void memory_destroy(struct orr_backend *backend, uint32_t id) {
    struct manual_backend *it = manual(backend);
    struct manual_memory *memory = &it->memories[id];
    assert(memory->live);
    for (uint32_t i = 0; i < it->stream_count; i++) /* nobody uses it any more */
        for (uint32_t j = 0; j < it->streams[i].count; j++)
            for (uint32_t k = 0; k < it->streams[i].queue[j].command.access_count; k++)
                assert(it->streams[i].queue[j].command.accesses[k].memory != id);
    orr_memory_free(it->config.memory, memory->block);
    memory->block = NULL;
    memory->live = false;
    it->memories_live--;
}

static void *memory_pointer(struct orr_backend *backend, uint32_t id) {
    return manual(backend)->memories[id].block;
}

static void memory_undefine(struct orr_backend *backend, uint32_t stream, uint32_t id,
                            uint64_t offset, uint64_t bytes) {
    struct manual_memory *memory = &manual(backend)->memories[id];
    assert(memory->live && offset + bytes <= memory->bytes);
    memory->undefine_stream = stream;
    memory->undefine_offset = offset;
    memory->undefine_bytes = bytes;
    memory->undefines++;
}

static enum orr_status stream_create(struct orr_backend *backend, uint32_t device,
                                     enum orr_stream_kind kind, uint32_t *out_stream,
                                     struct orr_error *error) {
    struct manual_backend *it = manual(backend);
    (void)device, (void)kind;
    *out_stream = ORR_ID_NONE;
    if (it->stream_count == MANUAL_STREAMS_MAX)
        return orr_error_set(error, ORR_NO_MEMORY, "manual: too many streams");
    *out_stream = it->stream_count++;
    return ORR_OK;
}

static void stream_destroy(struct orr_backend *backend, uint32_t stream) {
    (void)manual(backend);
    (void)stream;
}

static bool is_blocked(struct manual_backend *it) {
    if (it->block_acts == 0)
        return false;
    it->block_acts--;
    return true;
}

static void append(struct manual_backend *it, uint32_t id, const struct orr_command *command,
                   const struct orr_point *waits, uint32_t wait_count, uint64_t group,
                   struct orr_point *out_point) {
    struct manual_stream *stream = &it->streams[id];
    struct manual_command *slot = &stream->queue[stream->count++];
    *slot = (struct manual_command){.command = *command, .wait_count = wait_count, .group = group};
    for (uint32_t i = 0; i < wait_count; i++)
        slot->waits[i] = waits[i];
    struct orr_record_command *record = &slot->command.record;
    record->seq = ++stream->submitted;
    if (record->enqueue_ns == ORR_TIME_NONE)
        record->enqueue_ns = it->now_ns;
    record->enqueued_ns = it->now_ns + 1;
    *out_point = (struct orr_point){.stream = id, .seq = record->seq};
}

static bool is_full(const struct manual_backend *it, uint32_t id, struct orr_point *out_point) {
    const struct manual_stream *stream = &it->streams[id];
    *out_point = (struct orr_point){.stream = id, .seq = stream->retired + 1};
    return stream->count >= it->depth;
}

static enum orr_status submit(struct orr_backend *backend, uint32_t stream,
                              const struct orr_command *command, const struct orr_point *waits,
                              uint32_t wait_count, struct orr_point *out_point,
                              struct orr_error *error) {
    struct manual_backend *it = manual(backend);
    (void)error;
    assert(stream < it->stream_count && wait_count <= MANUAL_WAITS_MAX);
    if (is_blocked(it))
        return ORR_BLOCKED;
    if (is_full(it, stream, out_point))
        return ORR_FULL;
    append(it, stream, command, waits, wait_count, 0, out_point);
    if (it->retire_in_submit)
        manual_finish_all(it);
    return ORR_OK;
}

static enum orr_status submit_group(struct orr_backend *backend, const uint32_t *streams,
                                    const struct orr_command *commands, uint32_t count,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_points, struct orr_error *error) {
    struct manual_backend *it = manual(backend);
    (void)error;
    if (is_blocked(it))
        return ORR_BLOCKED;
    for (uint32_t i = 0; i < count; i++)
        if (is_full(it, streams[i], &out_points[0]))
            return ORR_FULL;
    it->groups++;
    for (uint32_t i = 0; i < count; i++)
        append(it, streams[i], &commands[i], waits, wait_count, it->groups, &out_points[i]);
    if (it->retire_in_submit)
        manual_finish_all(it);
    return ORR_OK;
}

static enum orr_status query(struct orr_backend *backend, uint32_t host, struct orr_point point) {
    struct manual_backend *it = manual(backend);
    (void)host;
    if (is_blocked(it))
        return ORR_BLOCKED;
    return retired(it, point) ? ORR_OK : ORR_NOT_READY;
}

static bool is_over(const struct manual_backend *it, const struct orr_point *points, uint32_t count,
                    enum orr_wait_mode mode) {
    for (uint32_t i = 0; i < count; i++)
        if (retired(it, points[i]) != (mode == ORR_WAIT_ALL))
            return mode == ORR_WAIT_ANY;
    return mode == ORR_WAIT_ALL || count == 0;
}

static enum orr_status wait(struct orr_backend *backend, uint32_t host,
                            const struct orr_point *points, uint32_t count, enum orr_wait_mode mode,
                            int64_t deadline_ns, struct orr_error *error) {
    struct manual_backend *it = manual(backend);
    (void)host;
    if (is_blocked(it))
        return ORR_BLOCKED;
    while (!is_over(it, points, count, mode)) {
        if (it->now_ns >= deadline_ns)
            return ORR_NOT_READY;
        if (it->block_waits)
            return ORR_BLOCKED;
        if (it->hang || !finish_any(it))
            return orr_error_set(error, ORR_DEVICE_FAILED, "hang: nothing can end");
    }
    it->now_ns++; /* the host returns after what it waited for */
    return ORR_OK;
}

static void poll(struct orr_backend *backend) {
    (void)manual(backend);
}

static int64_t now(struct orr_backend *backend, uint32_t host) {
    (void)host;
    return ((struct manual_backend *)(void *)backend)->now_ns;
}

static enum orr_status fail_of(struct orr_backend *backend, uint32_t stream,
                               struct orr_error *error) {
    struct manual_backend *it = manual(backend);
    if (it->streams[stream].failed_seq == 0)
        return ORR_OK;
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s", it->failure.text);
}

static void host_spend(struct orr_backend *backend, uint32_t host, int64_t ns) {
    struct manual_backend *it = (struct manual_backend *)(void *)backend;
    (void)host;
    it->now_ns += ns;
}

static const struct orr_backend_verbs verbs = {.abi = ORR_BACKEND_ABI,
                                               .name = "manual",
                                               .collective = "direct",
                                               .clock = "virtual",
                                               .close = manual_close,
                                               .memory_create = memory_create,
                                               .memory_destroy = memory_destroy,
                                               .memory_pointer = memory_pointer,
                                               .stream_create = stream_create,
                                               .stream_destroy = stream_destroy,
                                               .submit = submit,
                                               .submit_group = submit_group,
                                               .query = query,
                                               .wait = wait,
                                               .poll = poll,
                                               .now = now,
                                               .fail_of = fail_of,
                                               .host_spend = host_spend,
                                               .memory_undefine = memory_undefine};

enum orr_status manual_open(const struct orr_backend_config *config,
                            struct orr_backend **out_backend, struct orr_error *error) {
    *out_backend = NULL;
    const struct orr_memory *memory = config->memory;
    struct manual_backend *it = orr_memory_alloc(memory, sizeof *it);
    if (!it)
        return orr_error_set(error, ORR_NO_MEMORY, "manual: out of host memory");
    it->base.verbs = &verbs;
    it->config = *config;
    it->depth = config->specs[0].queue_depth ? config->specs[0].queue_depth : MANUAL_QUEUE_MAX;
    assert(it->depth <= MANUAL_QUEUE_MAX);
    it->streams = orr_memory_alloc(memory, MANUAL_STREAMS_MAX * sizeof *it->streams);
    it->memories = orr_memory_alloc(memory, MANUAL_MEMORIES_MAX * sizeof *it->memories);
    if (!it->streams || !it->memories) {
        orr_memory_free(memory, it->streams);
        orr_memory_free(memory, it->memories);
        orr_memory_free(memory, it);
        return orr_error_set(error, ORR_NO_MEMORY, "manual: out of host memory");
    }
    *out_backend = &it->base;
    return ORR_OK;
}
