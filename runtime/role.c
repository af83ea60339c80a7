#include "runtime/role.h"

#include <assert.h>

#include "runtime/tensor_internal.h"

/* --- who allocates --- */

enum orr_role orr_runtime_set_role(struct orr_runtime *runtime, uint32_t host, enum orr_role role) {
    assert(host < runtime->host_count && role < ORR_ROLE_COUNT);
    enum orr_role before = runtime->hosts[host].role;
    runtime->hosts[host].role = role;
    return before;
}

/* --- what is live --- */

static struct orr_role_usage *usage_of(const struct orr_buffer *buffer) {
    return &buffer->runtime->devices[buffer->device].roles[buffer->role];
}

void orr__role_add(const struct orr_buffer *buffer) {
    assert(buffer->live && buffer->stream);
    struct orr_role_usage *usage = usage_of(buffer);
    usage->used += buffer->bytes;
    if (usage->used > usage->peak) {
        usage->peak = usage->used;
    }
}

void orr__role_remove(const struct orr_buffer *buffer) {
    struct orr_role_usage *usage = usage_of(buffer);
    assert(buffer->stream && usage->used >= buffer->bytes);
    usage->used -= buffer->bytes;
}

/* --- another role --- */

enum orr_role orr_buffer_role(const struct orr_buffer *buffer) {
    return (enum orr_role)buffer->role;
}

/* Once it is the host's turn. */
static void change_role(struct orr_buffer *buffer, enum orr_role role) {
    struct orr_runtime *runtime = buffer->runtime;
    if (buffer->role == (uint8_t)role) {
        return;
    }
    if (buffer->stream) {
        orr__role_remove(buffer);
    }
    buffer->role = (uint8_t)role;
    if (buffer->stream) {
        orr__role_add(buffer);
    }
    struct orr_record_buffer_role record = {
        .header = ORR_RECORD_HEADER(buffer_role, BUFFER_ROLE),
        .id = buffer->id,
        .after_cmd = runtime->command_count,
        .ts_ns = runtime->verbs->now(runtime->backend, runtime->host)};
    record.header.a = (uint8_t)role;
    orr__runtime_record(runtime, &record);
}

enum orr_status orr_buffer_set_role(struct orr_buffer *buffer, enum orr_role role) {
    assert(role < ORR_ROLE_COUNT);
    if (!buffer->live || buffer->abandoned) {
        return orr__runtime_fail(buffer->runtime, ORR_INVALID, "role of a buffer that was freed");
    }
    enum orr_status status = orr__runtime_turn(buffer->runtime);
    if (status == ORR_OK) {
        change_role(buffer, role);
    }
    return status;
}

enum orr_role orr_tensor_role(const struct orr_tensor *tensor) {
    const struct orr_buffer *first = orr_tensor_buffer(tensor, 0);
    return first ? orr_buffer_role(first) : tensor->role;
}

enum orr_status orr_tensor_set_role(struct orr_tensor *tensor, enum orr_role role) {
    assert(role < ORR_ROLE_COUNT);
    enum orr_status status = orr__runtime_turn(tensor->runtime);
    if (status != ORR_OK) {
        return status;
    }
    tensor->role = role;
    for (uint32_t i = 0; tensor->storage && i < tensor->storage->count; i++) {
        change_role(orr__tensor_blob(tensor, i)->buffer, role);
    }
    return ORR_OK;
}
