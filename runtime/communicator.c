/* Communicators and collectives: one command per member, submitted as one group. */
#include "runtime/communicator.h"

#include <assert.h>
#include <string.h>

#include "runtime/collective.h"
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

const char *orr_communicator_name(const struct orr_communicator *communicator) {
    return orr_names_text(communicator->runtime->names, communicator->name);
}

/* --- what members share --- */

/* A copy of the counts or transfers of a collective, until its last member has retired. */
struct lists {
    const struct orr_memory *memory;
    uint64_t references;
    union {
        uint64_t count;
        struct orr_transfer transfer;
    } entries[];
};

static struct lists *lists_new(struct orr_runtime *runtime, uint64_t bytes) {
    struct lists *lists = orr_memory_alloc(runtime->memory, sizeof *lists + bytes);
    if (!lists) {
        (void)orr__runtime_no_memory(runtime);
        return NULL;
    }
    lists->memory = runtime->memory;
    lists->references = 0;
    return lists;
}

static void lists_release(void *work) {
    struct lists *lists = work;
    assert(lists->references > 0);
    if (--lists->references == 0)
        orr_memory_free(lists->memory, lists);
}

/* The members take over the lists; if nothing came of the submit, nobody has them. */
static enum orr_status submit_members(struct orr_runtime *runtime,
                                      struct orr_stream *const *streams, uint32_t count,
                                      struct lists *lists, struct orr_point *out_points) {
    struct orr__pending **pending = runtime->group_pending;
    for (uint32_t i = 0; lists && i < count; i++) {
        pending[i]->command.work = lists;
        pending[i]->release = lists_release;
        lists->references++;
    }
    enum orr_status status =
        orr__runtime_submit_group(runtime, streams, pending, count, NULL, 0, out_points);
    if (status != ORR_OK && lists)
        orr_memory_free(runtime->memory, lists);
    return status;
}

static void drop_members(struct orr_runtime *runtime, uint32_t taken, struct lists *lists) {
    while (taken > 0)
        orr__pending_drop(runtime->group_pending[--taken]);
    orr_memory_free(runtime->memory, lists);
}

/* --- collectives --- */

/* One collective call, with what follows from it. */
struct call {
    struct orr_communicator *communicator;
    const struct orr_collective_call *asked;
    struct orr_collective collective; /* of rank 0 */
    uint32_t name;
};

static enum orr_status check_call(const struct call *call) {
    struct orr_runtime *runtime = call->communicator->runtime;
    const struct orr_collective_call *asked = call->asked;
    if ((unsigned)asked->kind >= ORR_COLLECTIVE_KIND_COUNT ||
        asked->kind == ORR_COLLECTIVE_SEND_RECEIVE)
        return orr__runtime_fail(runtime, ORR_INVALID, "unknown kind of collective");
    const char *kind = orr_collective_kind_text(asked->kind);
    if (asked->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    if ((unsigned)asked->dtype >= ORR_DTYPE_COUNT)
        return orr__runtime_fail(runtime, ORR_INVALID, "%s needs a dtype", kind);
    if (orr_collective_has_root(asked->kind) && asked->root >= call->communicator->count)
        return orr__runtime_fail(runtime, ORR_INVALID, "%s with root %u of %u ranks", kind,
                                 (unsigned)asked->root, (unsigned)call->communicator->count);
    if (orr_collective_reduces(asked->kind) && (unsigned)asked->reduction > ORR_MIN)
        return orr__runtime_fail(runtime, ORR_INVALID, "%s by an unknown reduction", kind);
    if (orr_collective_reduces(asked->kind) && orr_dtype_is_storage(asked->dtype))
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "%s of %s: no collective adds or compares quantized values; "
                                 "expected f64, f32, f16, bf16, i32, i64 or bool",
                                 kind, orr_dtype_name(asked->dtype));
    if (asked->counts && orr_collective_counts_length(asked->kind, 1) == 0)
        return orr__runtime_fail(runtime, ORR_INVALID, "%s has no pieces of different sizes", kind);
    return ORR_OK;
}

/* No rank's side has so many bytes that their number overflows. */
static enum orr_status check_size(const struct call *call) {
    const struct orr_collective_call *asked = call->asked;
    uint64_t ranks = call->communicator->count, left = UINT64_MAX / 8;
    uint64_t length = orr_collective_counts_length(asked->kind, ranks);
    if (asked->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    bool fits = asked->counts || asked->count <= left / ranks;
    for (uint64_t i = 0; asked->counts && fits && i < length; i++) {
        fits = asked->counts[i] <= left;
        left -= fits ? asked->counts[i] : 0;
    }
    if (fits)
        return ORR_OK;
    return orr__runtime_fail(
        call->communicator->runtime, ORR_INVALID, "%s of %llu elements is too large",
        orr_collective_kind_text(asked->kind), (unsigned long long)asked->count);
}

static enum orr_status copy_counts(struct call *call, struct lists **out_lists) {
    const struct orr_collective_call *asked = call->asked;
    *out_lists = NULL;
    if (!asked->counts || asked->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    uint64_t length = orr_collective_counts_length(asked->kind, call->communicator->count);
    *out_lists = lists_new(call->communicator->runtime, length * sizeof *asked->counts);
    if (!*out_lists)
        return ORR_NO_MEMORY;
    uint64_t *counts = &(*out_lists)->entries[0].count;
    memcpy(counts, asked->counts, length * sizeof *counts);
    call->collective.counts = counts;
    return ORR_OK;
}

/* What the records say of name and algorithm; later nothing can fail any more. */
static enum orr_status find_names(struct orr_runtime *runtime, enum orr_collective_kind kind,
                                  const char *name, uint32_t *out_name) {
    uint32_t direct;
    enum orr_status status =
        orr_collective_is_direct(kind) ? orr__runtime_name(runtime, "direct", &direct) : ORR_OK;
    if (status != ORR_OK)
        return status;
    return orr__runtime_name(runtime, name && *name ? name : orr_collective_kind_text(kind),
                             out_name);
}

static bool same_piece(const struct orr_piece *a, const struct orr_piece *b) {
    return a->buffer == b->buffer && a->offset == b->offset;
}

/* The ranges of a rank. In place of the same size is one range that is read and written (races.md
 * rule 43); the root of a broadcast in place only reads. */
static enum orr_status add_pieces(const struct call *call, struct orr__pending *pending,
                                  uint32_t rank) {
    const struct orr_piece *in = &call->asked->inputs[rank], *out = &call->asked->outputs[rank];
    uint32_t device = call->communicator->devices[rank];
    bool broadcasts = call->asked->kind == ORR_COLLECTIVE_BROADCAST;
    uint64_t in_bytes = pending->command.record.bytes_read;
    uint64_t out_bytes = pending->command.record.bytes_written;
    bool reads = orr_collective_in_count(&pending->collective) > 0;
    bool writes = orr_collective_out_count(&pending->collective) > 0;
    bool in_place = reads && writes && same_piece(in, out);
    if (in_place && call->asked->kind == ORR_COLLECTIVE_ALL_TO_ALL)
        return orr__runtime_fail(call->communicator->runtime, ORR_INVALID,
                                 "all_to_all in place: rank %u's input is its output",
                                 (unsigned)rank);
    struct orr_range read = {in->buffer, in->offset, in_bytes, ORR_ACCESS_READ};
    struct orr_range write = {out->buffer, out->offset, out_bytes, ORR_ACCESS_WRITE};
    if (in_place && !broadcasts && in_bytes == out_bytes) {
        write.mode = ORR_ACCESS_READ_WRITE;
        return orr__pending_add(pending, device, &write);
    }
    enum orr_status status = reads ? orr__pending_add(pending, device, &read) : ORR_OK;
    if (status != ORR_OK || !writes || (broadcasts && in_place))
        return status;
    return orr__pending_add(pending, device, &write);
}

static enum orr_status check_piece(const struct call *call, const char *side, uint32_t rank,
                                   const struct orr_piece *piece, uint64_t needed,
                                   const uint64_t *limits) {
    struct orr_runtime *runtime = call->communicator->runtime;
    if (!limits || needed <= limits[rank])
        return ORR_OK;
    return orr__runtime_fail(
        runtime, ORR_INVALID,
        "%s: rank %u's %s is a range of %llu bytes of buffer '%s', expected %llu",
        orr_collective_kind_text(call->asked->kind), (unsigned)rank, side,
        (unsigned long long)limits[rank], orr_names_text(runtime->names, piece->buffer->label),
        (unsigned long long)needed);
}

/* Where a caller says how long a rank's pieces are, nothing behind them is touched. */
static enum orr_status check_pieces(const struct call *call,
                                    const struct orr_collective *collective, uint32_t rank) {
    const struct orr_collective_call *asked = call->asked;
    uint64_t size = orr_dtype_size(collective->dtype);
    enum orr_status status =
        check_piece(call, "input", rank, &asked->inputs[rank],
                    orr_collective_in_count(collective) * size, asked->input_bytes);
    if (status != ORR_OK)
        return status;
    return check_piece(call, "output", rank, &asked->outputs[rank],
                       orr_collective_out_count(collective) * size, asked->output_bytes);
}

static void *piece_pointer(const struct orr_piece *piece) {
    if (!piece->buffer || !piece->buffer->data)
        return NULL;
    return (char *)piece->buffer->data + piece->offset;
}

static enum orr_status fill_member(const struct call *call, struct orr__pending *pending,
                                   uint32_t rank) {
    struct orr_collective *collective = &pending->collective;
    struct orr_record_command *record = &pending->command.record;
    *collective = call->collective;
    collective->rank = rank;
    pending->communicator = call->communicator;
    pending->command.collective = collective;
    record->op = call->asked->op;
    if (collective->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    uint64_t size = orr_dtype_size(collective->dtype);
    bool broadcasts = collective->kind == ORR_COLLECTIVE_BROADCAST;
    record->header.b = (uint8_t)collective->dtype;
    /* A broadcast counts as a message of `count` read and written by everyone. */
    record->bytes_read =
        (broadcasts ? collective->count : orr_collective_in_count(collective)) * size;
    record->bytes_written = orr_collective_out_count(collective) * size;
    enum orr_status status = add_pieces(call, pending, rank);
    if (status == ORR_OK)
        status = check_pieces(call, collective, rank);
    if (status != ORR_OK)
        return status;
    if (orr_collective_in_count(collective) > 0 || broadcasts)
        collective->in = piece_pointer(&call->asked->inputs[rank]);
    if (orr_collective_out_count(collective) > 0)
        collective->out = piece_pointer(&call->asked->outputs[rank]);
    return ORR_OK;
}

static enum orr_status check_stream(const struct orr_communicator *communicator, uint32_t rank,
                                    const struct orr_stream *stream) {
    struct orr_runtime *runtime = communicator->runtime;
    if (stream && stream->device == communicator->devices[rank])
        return ORR_OK;
    return orr__runtime_fail(
        runtime, ORR_INVALID, "rank %u of communicator '%s' is device %u, but its stream is %s",
        (unsigned)rank, orr_names_text(runtime->names, communicator->name),
        (unsigned)communicator->devices[rank], stream ? "of another device" : "missing");
}

static enum orr_status take_member(const struct call *call, uint32_t rank,
                                   struct orr__pending **out_pending) {
    struct orr_runtime *runtime = call->communicator->runtime;
    *out_pending = NULL;
    enum orr_status status = check_stream(call->communicator, rank, call->asked->streams[rank]);
    if (status != ORR_OK)
        return status;
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_COLLECTIVE, call->name, 2);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    status = fill_member(call, pending, rank);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    *out_pending = pending;
    return ORR_OK;
}

enum orr_status orr_communicator_enqueue(struct orr_communicator *communicator,
                                         const struct orr_collective_call *asked,
                                         struct orr_point *out_points) {
    struct orr_runtime *runtime = communicator->runtime;
    bool barrier = asked->kind == ORR_COLLECTIVE_BARRIER;
    struct call call = {.communicator = communicator, .asked = asked};
    enum orr_status status = check_call(&call);
    if (status == ORR_OK)
        status = check_size(&call);
    if (status != ORR_OK)
        return status;
    call.collective = (struct orr_collective){
        .kind = asked->kind,
        .dtype = barrier ? ORR_DTYPE_NONE : asked->dtype,
        .reduction = orr_collective_reduces(asked->kind) ? asked->reduction : ORR_SUM,
        .communicator = communicator->id,
        .ranks = communicator->count,
        .root = orr_collective_has_root(asked->kind) ? asked->root : 0,
        .count = barrier || asked->counts ? 0 : asked->count};
    struct lists *lists = NULL;
    status = find_names(runtime, asked->kind, asked->name, &call.name);
    if (status == ORR_OK)
        status = copy_counts(&call, &lists);
    uint32_t taken = 0;
    while (status == ORR_OK && taken < communicator->count) {
        status = take_member(&call, taken, &runtime->group_pending[taken]);
        taken += status == ORR_OK;
    }
    if (status != ORR_OK) {
        drop_members(runtime, taken, lists);
        return status;
    }
    return submit_members(runtime, asked->streams, communicator->count, lists, out_points);
}

enum orr_status orr_collective_enqueue(struct orr_communicator *communicator,
                                       enum orr_collective_kind kind, enum orr_dtype dtype,
                                       uint64_t count, uint32_t root,
                                       struct orr_stream *const *streams,
                                       const struct orr_piece *inputs,
                                       const struct orr_piece *outputs, const char *name,
                                       uint64_t op, struct orr_point *out_points) {
    struct orr_collective_call call = {.kind = kind,
                                       .dtype = dtype,
                                       .root = root,
                                       .count = count,
                                       .streams = streams,
                                       .inputs = inputs,
                                       .outputs = outputs,
                                       .name = name,
                                       .op = op};
    return orr_communicator_enqueue(communicator, &call, out_points);
}

/* --- sends and receives --- */

/* A group of sends; the arrays are scratch of the call. */
struct exchange {
    struct orr_communicator *communicator;
    const struct orr_send *sends;
    uint32_t count, members, name;
    uint32_t *uses;              /* of each rank: transfers that it takes part in */
    struct orr_stream **streams; /* of the members, by rank */
    struct orr_point *points;    /* of the members */
    struct orr_collective collective;
};

static enum orr_status count_uses(struct exchange *x) {
    struct orr_runtime *runtime = x->communicator->runtime;
    for (uint32_t i = 0; i < x->count; i++) {
        const struct orr_send *send = &x->sends[i];
        if (send->source >= x->communicator->count || send->target >= x->communicator->count)
            return orr__runtime_fail(runtime, ORR_INVALID, "send from rank %u to rank %u of %u",
                                     (unsigned)send->source, (unsigned)send->target,
                                     (unsigned)x->communicator->count);
        if (send->count > UINT64_MAX / 8 / x->count)
            return orr__runtime_fail(runtime, ORR_INVALID, "send of %llu elements is too large",
                                     (unsigned long long)send->count);
        x->uses[send->source]++;
        x->uses[send->target]++;
    }
    return ORR_OK;
}

static struct lists *copy_sends(struct exchange *x) {
    struct lists *lists = lists_new(x->communicator->runtime, x->count * sizeof lists->entries[0]);
    if (!lists)
        return NULL;
    struct orr_transfer *transfers = &lists->entries[0].transfer;
    for (uint32_t i = 0; i < x->count; i++)
        transfers[i] = (struct orr_transfer){.source = x->sends[i].source,
                                             .target = x->sends[i].target,
                                             .count = x->sends[i].count,
                                             .from = piece_pointer(&x->sends[i].from),
                                             .to = piece_pointer(&x->sends[i].to)};
    x->collective.transfers = transfers;
    x->collective.transfer_count = x->count;
    return lists;
}

static enum orr_status fill_party(const struct exchange *x, struct orr__pending *pending,
                                  uint32_t rank) {
    struct orr_record_command *record = &pending->command.record;
    uint32_t device = x->communicator->devices[rank];
    uint64_t size = orr_dtype_size(x->collective.dtype);
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < x->count; i++) {
        const struct orr_send *s = &x->sends[i];
        struct orr_range read = {s->from.buffer, s->from.offset, s->count * size, ORR_ACCESS_READ};
        struct orr_range write = {s->to.buffer, s->to.offset, s->count * size, ORR_ACCESS_WRITE};
        if (s->source == rank && s->count > 0) {
            status = orr__pending_add(pending, device, &read);
            record->bytes_read += read.bytes;
        }
        if (status == ORR_OK && s->target == rank && s->count > 0) {
            status = orr__pending_add(pending, device, &write);
            record->bytes_written += write.bytes;
        }
    }
    pending->collective = x->collective;
    pending->collective.rank = rank;
    pending->communicator = x->communicator;
    pending->command.collective = &pending->collective;
    record->header.b = (uint8_t)x->collective.dtype;
    return status;
}

static enum orr_status take_party(struct exchange *x, uint32_t rank, struct orr_stream *stream,
                                  uint64_t op) {
    struct orr_runtime *runtime = x->communicator->runtime;
    enum orr_status status = check_stream(x->communicator, rank, stream);
    if (status != ORR_OK)
        return status;
    struct orr__pending *pending =
        orr__pending_take(runtime, ORR_COMMAND_COLLECTIVE, x->name, x->uses[rank]);
    if (!pending)
        return orr__runtime_no_memory(runtime);
    pending->command.record.op = op;
    status = fill_party(x, pending, rank);
    if (status != ORR_OK) {
        orr__pending_drop(pending);
        return status;
    }
    x->streams[x->members] = stream;
    runtime->group_pending[x->members++] = pending;
    return ORR_OK;
}

static enum orr_status exchange(struct exchange *x, struct orr_stream *const *streams,
                                const char *name, uint64_t op) {
    struct orr_runtime *runtime = x->communicator->runtime;
    struct lists *lists = NULL;
    enum orr_status status = count_uses(x);
    if (status == ORR_OK)
        status = find_names(runtime, ORR_COLLECTIVE_SEND_RECEIVE, name, &x->name);
    if (status == ORR_OK) {
        lists = copy_sends(x);
        status = lists ? ORR_OK : ORR_NO_MEMORY;
    }
    for (uint32_t rank = 0; status == ORR_OK && rank < x->communicator->count; rank++)
        if (x->uses[rank] > 0)
            status = take_party(x, rank, streams[rank], op);
    if (status == ORR_OK)
        status = orr__sends_check_overlap(runtime, x->sends, x->count, x->collective.dtype);
    if (status == ORR_OK)
        return submit_members(runtime, x->streams, x->members, lists, x->points);
    drop_members(runtime, x->members, lists);
    return status;
}

enum orr_status orr_send_receive_enqueue(struct orr_communicator *communicator,
                                         enum orr_dtype dtype, const struct orr_send *sends,
                                         uint32_t send_count, struct orr_stream *const *streams,
                                         const char *name, uint64_t op,
                                         struct orr_point *out_points) {
    struct orr_runtime *runtime = communicator->runtime;
    uint32_t ranks = communicator->count;
    for (uint32_t rank = 0; out_points && rank < ranks; rank++)
        out_points[rank] = (struct orr_point){0};
    if (send_count == 0)
        return ORR_OK;
    if ((unsigned)dtype >= ORR_DTYPE_COUNT)
        return orr__runtime_fail(runtime, ORR_INVALID, "send_receive needs a dtype");
    struct exchange x = {.communicator = communicator,
                         .sends = sends,
                         .count = send_count,
                         .collective = {.kind = ORR_COLLECTIVE_SEND_RECEIVE,
                                        .dtype = dtype,
                                        .communicator = communicator->id,
                                        .ranks = ranks}};
    x.uses = orr_memory_alloc(runtime->memory, ranks * sizeof *x.uses);
    x.streams = orr_memory_alloc(runtime->memory, ranks * sizeof(struct orr_stream *));
    x.points = orr_memory_alloc(runtime->memory, ranks * sizeof *x.points);
    enum orr_status status = x.uses && x.streams && x.points ? exchange(&x, streams, name, op)
                                                             : orr__runtime_no_memory(runtime);
    for (uint32_t rank = 0, i = 0; status == ORR_OK && out_points && rank < ranks; rank++)
        if (x.uses[rank] > 0)
            out_points[rank] = x.points[i++];
    orr_memory_free(runtime->memory, x.uses);
    orr_memory_free(runtime->memory, x.streams);
    orr_memory_free(runtime->memory, x.points);
    return status;
}

/* --- records --- */

/* Members of the group: all ranks, or those that take part in a transfer. */
static uint32_t member_count(const struct orr_collective *collective) {
    uint32_t count = 0;
    if (collective->kind != ORR_COLLECTIVE_SEND_RECEIVE)
        return collective->ranks;
    for (uint32_t rank = 0; rank < collective->ranks; rank++)
        for (uint32_t i = 0; i < collective->transfer_count; i++)
            if (collective->transfers[i].source == rank ||
                collective->transfers[i].target == rank) {
                count++;
                break;
            }
    return count;
}

/* What links would take, on a machine whose durations are no model's: those of memory if
 * collectives are emulated, else what to compare with. The spec is that of rank 0's device. */
static int64_t modelled_ns(const struct orr_communicator *communicator,
                           const struct orr_collective *collective) {
    const struct orr_runtime *runtime = communicator->runtime;
    uint32_t first = communicator->devices[0];
    const struct orr_device_spec *spec = &runtime->devices[first].spec;
    uint32_t per_node = spec->devices_per_node;
    bool span_nodes = false;
    for (uint32_t i = 1; per_node > 0 && i < communicator->count; i++)
        span_nodes = span_nodes || communicator->devices[i] / per_node != first / per_node;
    return runtime->verbs->separate_memory ? orr_collective_link_ns(collective, spec, span_nodes)
                                           : ORR_TIME_NONE;
}

/* bytes: of the whole message, as NCCL's tests count it: the largest of all ranks' sides. */
void orr__collective_record(struct orr_communicator *communicator,
                            const struct orr_command *members) {
    struct orr_runtime *runtime = communicator->runtime;
    const struct orr_collective *collective = members[0].collective;
    uint64_t id = ++runtime->collective_count, seq = communicator->seq++, bytes = 0;
    if (!runtime->writer)
        return;
    uint32_t count = member_count(collective), algorithm = runtime->id_algorithm;
    for (uint32_t i = 0; i < count; i++) {
        const struct orr_record_command *member = &members[i].record;
        bytes = member->bytes_read > bytes ? member->bytes_read : bytes;
        bytes = member->bytes_written > bytes ? member->bytes_written : bytes;
    }
    if (orr_collective_is_direct(collective->kind) && !runtime->verbs->separate_memory)
        (void)!orr__runtime_name(runtime, "direct", &algorithm);
    bool pair = collective->kind == ORR_COLLECTIVE_SEND_RECEIVE && collective->transfer_count == 1;
    struct orr_record_collective record = {
        .header = ORR_RECORD_HEADER(collective, COLLECTIVE),
        .id = id,
        .seq = seq,
        .bytes = bytes,
        .modelled_ns = modelled_ns(communicator, collective),
        .communicator = communicator->id,
        .kind = runtime->id_collectives[collective->kind],
        .algorithm = algorithm,
        .root = orr_collective_has_root(collective->kind) ? collective->root
                : pair                                    ? collective->transfers[0].source
                                                          : ORR_ID_NONE,
        .peer = pair ? collective->transfers[0].target : ORR_ID_NONE};
    record.header.a = (uint8_t)collective->dtype;
    record.header.b = strcmp(runtime->verbs->collective, "emulated") == 0;
    orr_record_push(runtime->writer, &record);
    for (uint32_t i = 0; i < count; i++) {
        struct orr_record_collective_member member = {
            .header = ORR_RECORD_HEADER(collective_member, COLLECTIVE_MEMBER),
            .collective = id,
            .cmd = members[i].record.id,
            .rank = members[i].collective->rank};
        orr_record_push(runtime->writer, &member);
    }
}
