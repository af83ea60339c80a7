/* Communicators and collectives: one command per member, submitted as one group. */
#include "runtime/communicator.h"

#include <assert.h>

#include "runtime/runtime_internal.h"

enum { MEMBERS_MAX = 65536 };

/* --- communicators --- */

static enum orr_status check_devices(struct orr_runtime *runtime, const char *name,
                                     const uint32_t *devices, uint32_t count) {
    if (count == 0 || count > MEMBERS_MAX)
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "communicator '%s' has %u devices, expected 1 to %d", name,
                                 (unsigned)count, MEMBERS_MAX);
    bool *seen = orr_memory_alloc(runtime->memory, runtime->device_count * sizeof *seen);
    if (!seen)
        return orr__runtime_no_memory(runtime);
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; i < count && status == ORR_OK; i++) {
        if (devices[i] >= runtime->device_count)
            status = orr__runtime_fail(runtime, ORR_INVALID,
                                       "communicator '%s': device %u does not exist; there are %u",
                                       name, (unsigned)devices[i], (unsigned)runtime->device_count);
        else if (seen[devices[i]])
            status =
                orr__runtime_fail(runtime, ORR_INVALID, "communicator '%s' has device %u twice",
                                  name, (unsigned)devices[i]);
        else
            seen[devices[i]] = true;
    }
    orr_memory_free(runtime->memory, seen);
    return status;
}

static void record_communicator(struct orr_runtime *runtime,
                                const struct orr_communicator *communicator) {
    struct orr_record_communicator record = {.header =
                                                 ORR_RECORD_HEADER(communicator, COMMUNICATOR),
                                             .id = communicator->id,
                                             .name = communicator->name};
    orr__runtime_record(runtime, &record);
    for (uint32_t rank = 0; rank < communicator->count; rank++) {
        struct orr_record_member member = {.header = ORR_RECORD_HEADER(member, MEMBER),
                                           .communicator = communicator->id,
                                           .rank = rank,
                                           .device = communicator->devices[rank]};
        orr__runtime_record(runtime, &member);
    }
}

enum orr_status orr_communicator_create(struct orr_runtime *runtime, const char *name,
                                        const uint32_t *devices, uint32_t device_count,
                                        struct orr_communicator **out) {
    *out = NULL;
    uint32_t name_id;
    if (!name)
        name = "";
    enum orr_status status = check_devices(runtime, name, devices, device_count);
    if (status == ORR_OK)
        status = orr__runtime_name(runtime, name, &name_id);
    if (status == ORR_OK)
        status = orr__runtime_reserve_group(runtime, device_count);
    if (status != ORR_OK)
        return status;
    struct orr_communicator *communicator = orr_memory_alloc(
        runtime->memory, sizeof *communicator + device_count * sizeof communicator->devices[0]);
    if (!communicator)
        return orr__runtime_no_memory(runtime);
    communicator->runtime = runtime;
    communicator->id = runtime->communicator_count++;
    communicator->name = name_id;
    communicator->count = device_count;
    for (uint32_t i = 0; i < device_count; i++)
        communicator->devices[i] = devices[i];
    communicator->next = runtime->communicators;
    if (communicator->next)
        communicator->next->previous = communicator;
    runtime->communicators = communicator;
    record_communicator(runtime, communicator);
    *out = communicator;
    return ORR_OK;
}

void orr_communicator_destroy(struct orr_communicator **handle) {
    struct orr_communicator *communicator = *handle;
    if (!communicator)
        return;
    if (communicator->previous)
        communicator->previous->next = communicator->next;
    else
        communicator->runtime->communicators = communicator->next;
    if (communicator->next)
        communicator->next->previous = communicator->previous;
    orr_memory_free(communicator->runtime->memory, communicator);
    *handle = NULL;
}

void orr__communicators_destroy(struct orr_runtime *runtime) {
    while (runtime->communicators) {
        struct orr_communicator *communicator = runtime->communicators;
        orr_communicator_destroy(&communicator);
    }
}

uint32_t orr_communicator_size(const struct orr_communicator *communicator) {
    return communicator->count;
}

uint32_t orr_communicator_device(const struct orr_communicator *communicator, uint32_t rank) {
    assert(rank < communicator->count);
    return communicator->devices[rank];
}

/* --- collectives --- */

/* One collective call, with the sizes that follow from it. */
struct call {
    struct orr_communicator *communicator;
    enum orr_collective_kind kind;
    enum orr_dtype dtype;
    uint64_t count, op;
    uint32_t root, name;
    uint64_t in_bytes, out_bytes; /* per rank */
};

static enum orr_status size_call(struct call *call) {
    struct orr_runtime *runtime = call->communicator->runtime;
    uint64_t ranks = call->communicator->count;
    if (call->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    if ((unsigned)call->kind >= ORR_COLLECTIVE_KIND_COUNT)
        return orr__runtime_fail(runtime, ORR_INVALID, "unknown kind of collective");
    if ((unsigned)call->dtype >= ORR_DTYPE_COUNT)
        return orr__runtime_fail(runtime, ORR_INVALID, "%s needs a dtype",
                                 orr_collective_kind_text(call->kind));
    if (call->kind == ORR_COLLECTIVE_BROADCAST && call->root >= ranks)
        return orr__runtime_fail(runtime, ORR_INVALID, "broadcast from rank %u of %u",
                                 (unsigned)call->root, (unsigned)ranks);
    uint64_t size = orr_dtype_size(call->dtype);
    if (call->count > UINT64_MAX / size / ranks)
        return orr__runtime_fail(runtime, ORR_INVALID, "%s of %llu elements is too large",
                                 orr_collective_kind_text(call->kind),
                                 (unsigned long long)call->count);
    bool gathers = call->kind == ORR_COLLECTIVE_ALL_GATHER;
    bool scatters = call->kind == ORR_COLLECTIVE_REDUCE_SCATTER;
    call->in_bytes = call->count * size * (scatters ? ranks : 1);
    call->out_bytes = call->count * size * (gathers ? ranks : 1);
    return ORR_OK;
}

static bool same_piece(const struct orr_piece *a, const struct orr_piece *b) {
    return a->buffer == b->buffer && a->offset == b->offset;
}

/* The ranges of a rank. In place of the same size is one range that is read and written (races.md
 * rule 43); the root of a broadcast in place only reads. */
static enum orr_status add_pieces(const struct call *call, struct orr__pending *pending,
                                  uint32_t rank, const struct orr_piece *in,
                                  const struct orr_piece *out) {
    uint32_t device = call->communicator->devices[rank];
    bool broadcasts = call->kind == ORR_COLLECTIVE_BROADCAST;
    bool reads = !broadcasts || rank == call->root;
    bool in_place = reads && same_piece(in, out);
    struct orr_range read = {in->buffer, in->offset, call->in_bytes, ORR_ACCESS_READ};
    struct orr_range write = {out->buffer, out->offset, call->out_bytes, ORR_ACCESS_WRITE};
    if (in_place && !broadcasts && call->in_bytes == call->out_bytes) {
        write.mode = ORR_ACCESS_READ_WRITE;
        return orr__pending_add(pending, device, &write);
    }
    enum orr_status status = reads ? orr__pending_add(pending, device, &read) : ORR_OK;
    if (status != ORR_OK || (broadcasts && in_place))
        return status;
    return orr__pending_add(pending, device, &write);
}

static void *piece_pointer(const struct orr_piece *piece) {
    if (!piece->buffer || !piece->buffer->data)
        return NULL;
    return (char *)piece->buffer->data + piece->offset;
}

static enum orr_status fill_member(const struct call *call, struct orr__pending *pending,
                                   uint32_t rank, const struct orr_piece *in,
                                   const struct orr_piece *out) {
    pending->collective = (struct orr_collective){.kind = call->kind,
                                                  .dtype = call->dtype,
                                                  .communicator = call->communicator->id,
                                                  .rank = rank,
                                                  .ranks = call->communicator->count,
                                                  .root = call->root,
                                                  .count = call->count};
    pending->communicator = call->communicator;
    struct orr_command *command = &pending->command;
    command->collective = &pending->collective;
    command->record.op = call->op;
    if (call->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    enum orr_status status = add_pieces(call, pending, rank, in, out);
    if (status != ORR_OK)
        return status;
    pending->collective.in = piece_pointer(in);
    pending->collective.out = piece_pointer(out);
    command->record.header.b = (uint8_t)call->dtype;
    command->record.bytes_read = call->in_bytes;
    command->record.bytes_written = call->out_bytes;
    return ORR_OK;
}

static enum orr_status take_member(const struct call *call, uint32_t rank,
                                   const struct orr_stream *stream, const struct orr_piece *inputs,
                                   const struct orr_piece *outputs,
                                   struct orr__pending **out_pending) {
    struct orr_runtime *runtime = call->communicator->runtime;
    *out_pending = NULL;
    if (!stream || stream->device != call->communicator->devices[rank])
        return orr__runtime_fail(
            runtime, ORR_INVALID, "rank %u of communicator '%s' is device %u, but its stream is %s",
            (unsigned)rank, orr_names_text(runtime->names, call->communicator->name),
            (unsigned)call->communicator->devices[rank], stream ? "of another device" : "missing");
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_COLLECTIVE, call->name, 2);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    bool barrier = call->kind == ORR_COLLECTIVE_BARRIER;
    enum orr_status status = fill_member(call, pending, rank, barrier ? NULL : &inputs[rank],
                                         barrier ? NULL : &outputs[rank]);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    *out_pending = pending;
    return ORR_OK;
}

/* bytes: of the whole message, as NCCL's tests count it: the larger of a rank's two sides. */
void orr__collective_record(struct orr_communicator *communicator,
                            const struct orr_command *members) {
    struct orr_runtime *runtime = communicator->runtime;
    const struct orr_record_command *first = &members[0].record;
    const struct orr_collective *collective = members[0].collective;
    uint64_t id = ++runtime->collective_count, seq = communicator->seq++;
    bool broadcasts = collective->kind == ORR_COLLECTIVE_BROADCAST;
    if (!runtime->writer)
        return;
    struct orr_record_collective record = {.header = ORR_RECORD_HEADER(collective, COLLECTIVE),
                                           .id = id,
                                           .seq = seq,
                                           .bytes = first->bytes_read > first->bytes_written
                                                        ? first->bytes_read
                                                        : first->bytes_written,
                                           .communicator = communicator->id,
                                           .kind = runtime->id_collectives[collective->kind],
                                           .algorithm = runtime->id_algorithm,
                                           .root = broadcasts ? collective->root : ORR_ID_NONE,
                                           .peer = ORR_ID_NONE};
    record.header.a = (uint8_t)collective->dtype;
    orr_record_push(runtime->writer, &record);
    for (uint32_t rank = 0; rank < communicator->count; rank++) {
        struct orr_record_collective_member member = {
            .header = ORR_RECORD_HEADER(collective_member, COLLECTIVE_MEMBER),
            .collective = id,
            .cmd = members[rank].record.id,
            .rank = rank};
        orr_record_push(runtime->writer, &member);
    }
}

enum orr_status orr_collective_enqueue(struct orr_communicator *communicator,
                                       enum orr_collective_kind kind, enum orr_dtype dtype,
                                       uint64_t count, uint32_t root,
                                       struct orr_stream *const *streams,
                                       const struct orr_piece *inputs,
                                       const struct orr_piece *outputs, const char *name,
                                       uint64_t op, struct orr_point *out_points) {
    struct orr_runtime *runtime = communicator->runtime;
    struct call call = {.communicator = communicator,
                        .kind = kind,
                        .dtype = kind == ORR_COLLECTIVE_BARRIER ? ORR_DTYPE_NONE : dtype,
                        .count = kind == ORR_COLLECTIVE_BARRIER ? 0 : count,
                        .op = op,
                        .root = kind == ORR_COLLECTIVE_BROADCAST ? root : 0};
    enum orr_status status = size_call(&call);
    if (status == ORR_OK)
        status = orr__runtime_name(runtime, name && *name ? name : orr_collective_kind_text(kind),
                                   &call.name);
    struct orr__pending **pending = runtime->group_pending;
    uint32_t taken = 0;
    for (; status == ORR_OK && taken < communicator->count; taken++) {
        status = take_member(&call, taken, streams[taken], inputs, outputs, &pending[taken]);
        if (status != ORR_OK)
            break;
    }
    if (status != ORR_OK) {
        while (taken > 0)
            orr__pending_drop(pending[--taken]);
        return status;
    }
    return orr__runtime_submit_group(runtime, streams, pending, communicator->count, NULL, 0,
                                     out_points);
}
