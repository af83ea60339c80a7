/* Rows of our database as items of a timeline. */
#include "trace/timeline_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trace/sqlite_sink.h"
#include "trace/sync_target.h"

/* -- Values of a row --------------------------------------------------------------------------- */

static bool is_null(struct orr__reader *reader, int column) {
    return sqlite3_column_type(reader->statement, column) == SQLITE_NULL;
}

static uint64_t read_u64(struct orr__reader *reader, int column) {
    return (uint64_t)sqlite3_column_int64(reader->statement, column);
}

/* Asking a column's value for its type and its number is half the price of asking the column
 * twice. */
static bool read_number(struct orr__reader *reader, int column, sqlite3_int64 *out_number) {
    sqlite3_value *value = sqlite3_column_value(reader->statement, column);
    *out_number = sqlite3_value_int64(value);
    return sqlite3_value_type(value) != SQLITE_NULL;
}

static uint32_t read_index(struct orr__reader *reader, int column) {
    sqlite3_int64 number;
    return read_number(reader, column, &number) ? (uint32_t)number : ORR_ID_NONE;
}

static int64_t read_time(struct orr__reader *reader, int column) {
    sqlite3_int64 number;
    return read_number(reader, column, &number) ? number : ORR_TIME_NONE;
}

/* A code below `limit`; SQL NULL is never one. */
static enum orr_status read_code(struct orr__reader *reader, int column, const char *name,
                                 uint32_t limit, uint32_t *out_code) {
    sqlite3_int64 value = sqlite3_column_int64(reader->statement, column);
    *out_code = 0;
    if (is_null(reader, column) || value < 0 || value >= limit)
        return orr__fail_value(reader, name, value);
    *out_code = (uint32_t)value;
    return ORR_OK;
}

static enum orr_status read_dtype(struct orr__reader *reader, int column,
                                  enum orr_dtype *out_dtype) {
    *out_dtype = ORR_DTYPE_NONE;
    if (is_null(reader, column))
        return ORR_OK;
    uint32_t code;
    enum orr_status status = read_code(reader, column, "dtype", ORR_DTYPE_COUNT, &code);
    if (status == ORR_OK)
        *out_dtype = (enum orr_dtype)code;
    return status;
}

static enum orr_status read_role(struct orr__reader *reader, int column, enum orr_role *out_role) {
    uint32_t code;
    enum orr_status status = read_code(reader, column, "role", ORR_ROLE_COUNT, &code);
    *out_role = (enum orr_role)code;
    return status;
}

/* A number of which all 64 bits count; absent is NULL in the file. */
static uint64_t read_bits(struct orr__reader *reader, int column, uint64_t absent) {
    return is_null(reader, column) ? absent : read_u64(reader, column);
}

/* The text that a number of table text stands for; one that is not there reads as absent. */
static const char *name_of(const struct orr__reader *reader, sqlite3_int64 id) {
    if (id <= 0 || (uint64_t)id >= reader->name_count || !reader->names[id])
        return "";
    return reader->names[id];
}

static const char *read_name(struct orr__reader *reader, int column) {
    return name_of(reader, sqlite3_column_int64(reader->statement, column));
}

const char *orr__read_text(struct orr__reader *reader, int column) {
    const char *text = (const char *)sqlite3_column_text(reader->statement, column);
    if (!text)
        return is_null(reader, column) ? "" : NULL;
    return orr__texts_add(reader->memory, &reader->texts, text, strlen(text));
}

/* -- Rows, table by table: columns as the SELECT in `tables` names them ------------------------ */

static enum orr_status read_meta(struct orr__reader *reader, void *item) {
    struct orr_timeline_meta *meta = item;
    meta->key = orr__read_text(reader, 0);
    meta->value = orr__read_text(reader, 1);
    return meta->key && meta->value ? ORR_OK : orr__fail_memory(reader);
}

static enum orr_status read_device(struct orr__reader *reader, void *item) {
    struct orr_timeline_device *device = item;
    device->id = read_index(reader, 0);
    device->name = orr__read_text(reader, 1);
    device->kind = orr__read_text(reader, 2);
    device->physical = read_index(reader, 3);
    device->profile = orr__read_text(reader, 4);
    device->mem_bytes = read_u64(reader, 5);
    device->bandwidth = read_u64(reader, 6);
    device->multiprocessors = (uint32_t)read_u64(reader, 7);
    return device->name && device->kind && device->profile ? ORR_OK : orr__fail_memory(reader);
}

enum orr_status orr__read_peak(struct orr__reader *reader) {
    const char *unit = (const char *)sqlite3_column_text(reader->statement, 1);
    const char *dtype_text = (const char *)sqlite3_column_text(reader->statement, 2);
    struct orr_timeline *timeline = reader->timeline;
    const struct orr_timeline_device *device = orr_timeline_device(timeline, read_index(reader, 0));
    enum orr_dtype dtype;
    if (!device || !unit || !dtype_text || orr_dtype_parse(dtype_text, &dtype) != ORR_OK)
        return orr__fail_value(reader, "device, unit or dtype", read_index(reader, 0));
    enum orr_unit unit_code = strcmp(unit, "matrix") == 0 ? ORR_UNIT_MATRIX : ORR_UNIT_VECTOR;
    timeline->devices[device - timeline->devices].peak[unit_code][dtype] = read_u64(reader, 3);
    return ORR_OK;
}

static enum orr_status read_stream(struct orr__reader *reader, void *item) {
    struct orr_timeline_stream *stream = item;
    stream->id = read_index(reader, 0);
    stream->device = read_index(reader, 1);
    stream->name = orr__read_text(reader, 2);
    stream->process = read_u64(reader, 5);
    const char *kind = (const char *)sqlite3_column_text(reader->statement, 3);
    const char *sync = (const char *)sqlite3_column_text(reader->statement, 4);
    if (!stream->name)
        return orr__fail_memory(reader);
    int kind_code = 0, sync_code = 0;
    while (kind && kind_code < ORR_STREAM_KIND_COUNT &&
           strcmp(kind, orr_stream_kind_text((enum orr_stream_kind)kind_code)) != 0)
        kind_code++;
    while (sync && sync_code <= ORR_STREAM_LEGACY &&
           strcmp(sync, orr_stream_sync_text((enum orr_stream_sync)sync_code)) != 0)
        sync_code++;
    if (!kind || !sync || kind_code == ORR_STREAM_KIND_COUNT || sync_code > ORR_STREAM_LEGACY)
        return orr__fail_value(reader, "kind or sync", stream->id);
    stream->kind = (enum orr_stream_kind)kind_code;
    stream->sync = (enum orr_stream_sync)sync_code;
    return ORR_OK;
}

static enum orr_status read_host(struct orr__reader *reader, void *item) {
    struct orr_timeline_host *host = item;
    host->id = read_index(reader, 0);
    host->name = orr__read_text(reader, 1);
    host->label = orr__read_text(reader, 2);
    host->process = read_u64(reader, 3);
    return host->name && host->label ? ORR_OK : orr__fail_memory(reader);
}

static enum orr_status read_communicator(struct orr__reader *reader, void *item) {
    struct orr_timeline_communicator *communicator = item;
    communicator->id = read_index(reader, 0);
    communicator->name = orr__read_text(reader, 1);
    return communicator->name ? ORR_OK : orr__fail_memory(reader);
}

static enum orr_status read_member(struct orr__reader *reader, void *item) {
    struct orr_timeline_member *member = item;
    member->communicator = read_index(reader, 0);
    member->rank = read_index(reader, 1);
    member->device = read_index(reader, 2);
    return ORR_OK;
}

static enum orr_status read_op(struct orr__reader *reader, void *item) {
    struct orr_timeline_op *op = item;
    op->id = read_u64(reader, 0);
    op->parent = read_u64(reader, 1);
    op->name = read_name(reader, 2);
    op->kind = read_name(reader, 3);
    op->site = read_name(reader, 4);
    op->shape = read_name(reader, 5);
    op->flops = read_u64(reader, 7);
    op->bytes_read = read_u64(reader, 8);
    op->bytes_written = read_u64(reader, 9);
    op->bytes_broadcast = read_u64(reader, 10);
    return read_dtype(reader, 6, &op->dtype);
}

/* See cmd_row in schema.sql for what is where in the code. */
static enum orr_status unpack_code(struct orr__reader *reader, int column,
                                   struct orr_timeline_command *command) {
    sqlite3_int64 code = sqlite3_column_int64(reader->statement, column);
    sqlite3_int64 dtype = code >> 24 & 255, caller = code >> 32;
    if ((code & 255) >= ORR_COMMAND_KIND_COUNT || (code >> 8 & 255) >= ORR_COMMAND_STATUS_COUNT ||
        (code >> 16 & 255) > ORR_UNIT_MATRIX || code < 0 || dtype > ORR_DTYPE_COUNT)
        return orr__fail_value(reader, "code", code);
    command->kind = (enum orr_command_kind)(code & 255);
    command->status = (enum orr_command_status)(code >> 8 & 255);
    command->unit = (uint8_t)(code >> 16 & 255);
    command->caller = caller == 0 ? command->host : (uint32_t)(caller - 1);
    command->dtype = dtype == 0 ? ORR_DTYPE_NONE : (enum orr_dtype)(dtype - 1);
    return ORR_OK;
}

static enum orr_status read_command(struct orr__reader *reader, void *item) {
    struct orr_timeline_command *command = item;
    command->id = read_u64(reader, 0);
    command->op = read_u64(reader, 1);
    command->host = read_index(reader, 2);
    command->device = read_index(reader, 3);
    command->stream = read_index(reader, 4);
    command->seq = read_u64(reader, 5);
    command->name = read_name(reader, 7);
    command->event = read_name(reader, 8);
    command->site = read_name(reader, 9);
    command->enqueue_ns = read_time(reader, 10);
    command->enqueued_ns = read_time(reader, 11);
    command->ready_ns = read_time(reader, 12);
    command->start_ns = read_time(reader, 13);
    command->finish_ns = read_time(reader, 14);
    command->flops = read_u64(reader, 15);
    command->bytes_read = read_u64(reader, 16);
    command->bytes_written = read_u64(reader, 17);
    command->correlation = ORR_CORRELATION_NONE;
    command->grid = "";
    command->ts_source = is_null(reader, 18) ? reader->clock : read_name(reader, 18);
    return unpack_code(reader, 6, command);
}

static enum orr_status read_edge(struct orr__reader *reader, void *item) {
    struct orr_timeline_edge *edge = item;
    edge->src = read_u64(reader, 0);
    edge->dst = read_u64(reader, 1);
    uint32_t kind;
    enum orr_status status = read_code(reader, 2, "kind", ORR_EDGE_KIND_COUNT, &kind);
    edge->kind = (enum orr_edge_kind)kind;
    return status;
}

/* Programs wait for the same few streams over and over: the texts are kept in a small cache. */
static const char *target_text(struct orr__reader *reader, uint32_t kind, uint32_t target) {
    struct orr__target *cached = &reader->targets[(target * 4 + kind) % ORR__TARGET_CACHE_SIZE];
    if (cached->text && cached->kind == kind && cached->target == target)
        return cached->text;
    char text[ORR__SYNC_TARGET_MAX];
    orr__sync_target_text(reader->timeline, (enum orr_sync_kind)kind, target,
                          name_of(reader, target), text);
    const char *copy = orr__texts_add(reader->memory, &reader->texts, text, strlen(text));
    *cached = (struct orr__target){.kind = kind, .target = target, .text = copy};
    return copy;
}

static enum orr_status read_sync(struct orr__reader *reader, void *item) {
    struct orr_timeline_sync *sync = item;
    sync->id = read_u64(reader, 0);
    sync->host = read_index(reader, 1);
    sync->begin_ns = read_time(reader, 4);
    sync->end_ns = read_time(reader, 5);
    sync->cmd = read_u64(reader, 6);
    sync->stream = sync->device = ORR_ID_NONE; /* and see orr__read_sync_import */
    uint32_t kind;
    enum orr_status status = read_code(reader, 2, "kind", ORR_SYNC_KIND_COUNT, &kind);
    if (status != ORR_OK)
        return status;
    sync->kind = (enum orr_sync_kind)kind;
    sync->target = target_text(reader, kind, read_index(reader, 3));
    return sync->target ? ORR_OK : orr__fail_memory(reader);
}

static enum orr_status read_buffer(struct orr__reader *reader, void *item) {
    struct orr_timeline_buffer *buffer = item;
    buffer->id = read_u64(reader, 0);
    buffer->device = read_index(reader, 1);
    buffer->block = read_u64(reader, 2);
    buffer->memory = read_name(reader, 3);
    buffer->stream = read_index(reader, 4);
    buffer->bytes = read_u64(reader, 5);
    buffer->label = read_name(reader, 6);
    buffer->alloc_cmd = read_u64(reader, 7);
    buffer->free_cmd = read_u64(reader, 8);
    return read_role(reader, 9, &buffer->role);
}

static enum orr_status read_buffer_role(struct orr__reader *reader, void *item) {
    struct orr_timeline_buffer_role *change = item;
    change->buffer = read_u64(reader, 0);
    change->after_cmd = read_u64(reader, 2);
    change->ts_ns = read_time(reader, 3);
    return read_role(reader, 1, &change->role);
}

static enum orr_status read_access(struct orr__reader *reader, void *item) {
    struct orr_timeline_access *access = item;
    access->cmd = read_u64(reader, 0);
    access->buffer = read_u64(reader, 1);
    access->offset = read_u64(reader, 2);
    access->bytes = read_u64(reader, 3);
    uint32_t mode;
    enum orr_status status = read_code(reader, 4, "mode", ORR_ACCESS_READ_WRITE + 1, &mode);
    if (status == ORR_OK && mode == 0)
        status = orr__fail_value(reader, "mode", 0);
    access->mode = (enum orr_access_mode)mode;
    return status;
}

static enum orr_status read_collective(struct orr__reader *reader, void *item) {
    struct orr_timeline_collective *collective = item;
    collective->id = read_u64(reader, 0);
    collective->communicator = read_index(reader, 1);
    collective->seq = read_u64(reader, 2);
    collective->kind = read_name(reader, 3);
    collective->bytes = read_u64(reader, 4);
    collective->root = read_index(reader, 6);
    collective->peer = read_index(reader, 7);
    collective->algorithm = read_name(reader, 8);
    collective->protocol = read_name(reader, 9);
    collective->emulated = read_u64(reader, 10) != 0;
    collective->modelled_ns = read_time(reader, 11);
    if (collective->modelled_ns < 0)
        collective->modelled_ns = ORR_TIME_NONE;
    return read_dtype(reader, 5, &collective->dtype);
}

static enum orr_status read_collective_member(struct orr__reader *reader, void *item) {
    struct orr_timeline_collective_member *member = item;
    member->collective = read_u64(reader, 0);
    member->rank = read_index(reader, 1);
    member->cmd = read_u64(reader, 2);
    return ORR_OK;
}

static enum orr_status read_counter(struct orr__reader *reader, void *item) {
    struct orr_timeline_counter *counter = item;
    counter->device = read_index(reader, 0);
    counter->order = reader->counter_count++;
    counter->name = read_name(reader, 1);
    counter->ts_ns = read_time(reader, 2);
    counter->value = is_null(reader, 3) ? (double)NAN : sqlite3_column_double(reader->statement, 3);
    return ORR_OK;
}

static enum orr_status read_finding(struct orr__reader *reader, void *item) {
    struct orr_timeline_finding *finding = item;
    finding->id = read_u64(reader, 0);
    finding->kind = orr__read_text(reader, 1);
    finding->severity = orr__read_text(reader, 2);
    finding->cmd_a = read_u64(reader, 3);
    finding->cmd_b = read_u64(reader, 4);
    finding->buffer = read_u64(reader, 5);
    finding->message = orr__read_text(reader, 6);
    finding->fix = orr__read_text(reader, 7);
    return finding->kind && finding->severity && finding->message && finding->fix
               ? ORR_OK
               : orr__fail_memory(reader);
}
/* -- What only imported traces have ------------------------------------------------------------ */

/* The item whose id is `id`, from items[*at] on, which ascend as the rows that ask do; NULL: there
 * is none. The id is the first member. */
static void *next_item(void *items, size_t count, size_t size, uint64_t id, size_t *at) {
    unsigned char *base = items;
    for (; *at < count; ++*at) {
        uint64_t found;
        memcpy(&found, base + *at * size, sizeof found);
        if (found >= id)
            return found == id ? base + *at * size : NULL;
    }
    return NULL;
}

enum orr_status orr__read_command_import(struct orr__reader *reader, size_t *at) {
    struct orr_timeline *timeline = reader->timeline;
    struct orr_timeline_command *command = next_item(timeline->commands, timeline->command_count,
                                                     sizeof *command, read_u64(reader, 0), at);
    if (!command)
        return orr__fail_value(reader, "id", reader->row);
    command->call = read_u64(reader, 1);
    command->correlation = read_bits(reader, 2, ORR_CORRELATION_NONE);
    command->graph = read_u64(reader, 3);
    command->grid = read_name(reader, 4);
    return ORR_OK;
}

enum orr_status orr__read_sync_import(struct orr__reader *reader, size_t *at) {
    struct orr_timeline *timeline = reader->timeline;
    struct orr_timeline_sync *sync =
        next_item(timeline->syncs, timeline->sync_count, sizeof *sync, read_u64(reader, 0), at);
    if (!sync)
        return orr__fail_value(reader, "id", reader->row);
    if (!is_null(reader, 1))
        sync->target = read_name(reader, 1);
    sync->call = read_u64(reader, 2);
    sync->stream = read_index(reader, 3);
    sync->device = read_index(reader, 4);
    return ORR_OK;
}

static enum orr_status read_call(struct orr__reader *reader, void *item) {
    struct orr_timeline_call *call = item;
    call->id = read_u64(reader, 0);
    call->merged = read_bits(reader, 1, call->id);
    call->correlation = read_bits(reader, 2, ORR_CORRELATION_NONE);
    call->name = read_name(reader, 3);
    call->begin_ns = read_time(reader, 4);
    call->end_ns = read_time(reader, 5);
    call->host = read_index(reader, 6);
    return ORR_OK;
}

static enum orr_status read_stream_wait(struct orr__reader *reader, void *item) {
    struct orr_timeline_stream_wait *wait = item;
    wait->id = read_u64(reader, 0);
    wait->stream = read_index(reader, 1);
    wait->source = read_index(reader, 2);
    wait->at_ns = read_time(reader, 3);
    wait->record_ns = read_time(reader, 4);
    wait->resolved = read_u64(reader, 5) != 0;
    return ORR_OK;
}

static enum orr_status read_overhead(struct orr__reader *reader, void *item) {
    struct orr_timeline_overhead *overhead = item;
    overhead->process = read_u64(reader, 0);
    overhead->name = read_name(reader, 1);
    overhead->begin_ns = read_time(reader, 2);
    overhead->end_ns = read_time(reader, 3);
    overhead->profiler = read_u64(reader, 4) != 0;
    return ORR_OK;
}

static enum orr_status read_slice(struct orr__reader *reader, void *item) {
    struct orr_timeline_slice *slice = item;
    slice->name = read_name(reader, 2);
    slice->host = read_index(reader, 3);
    slice->stream = read_index(reader, 4);
    slice->begin_ns = read_time(reader, 5);
    slice->end_ns = read_time(reader, 6);
    slice->op = read_u64(reader, 7);
    uint32_t kind;
    enum orr_status status = read_code(reader, 1, "kind", ORR_SLICE_KIND_COUNT, &kind);
    slice->kind = (enum orr_slice_kind)kind;
    return status;
}

/* -- Tables ------------------------------------------------------------------------------------ */

#define ARRAY(array, counter)                                                                      \
    offsetof(struct orr_timeline, array), offsetof(struct orr_timeline, counter),                  \
        sizeof *((struct orr_timeline *)0)->array

const struct orr__table orr__timeline_tables[ORR__TIMELINE_TABLES] = {
    {"meta", "SELECT key, value FROM meta", ARRAY(meta, meta_count), false, read_meta},
    {"device",
     "SELECT id, name, kind, physical, profile, mem_bytes, bandwidth, multiprocessors "
     "FROM device",
     ARRAY(devices, device_count), true, read_device},
    {"stream", "SELECT id, device, name, kind, sync, process FROM stream",
     ARRAY(streams, stream_count), true, read_stream},
    {"host", "SELECT id, name, label, process FROM host", ARRAY(hosts, host_count), true,
     read_host},
    {"communicator", "SELECT id, name FROM communicator", ARRAY(communicators, communicator_count),
     true, read_communicator},
    {"communicator_member", "SELECT communicator, rank, device FROM communicator_member",
     ARRAY(members, member_count), false, read_member},
    {"op_row",
     "SELECT id, parent, name, kind, site, shape, dtype, flops, bytes_read, bytes_written, "
     "bytes_broadcast FROM op_row",
     ARRAY(ops, op_count), true, read_op},
    {"cmd_row",
     "SELECT id, op, host, device, stream, seq, code, name, event, site, enqueue_ns, enqueued_ns, "
     "ready_ns, start_ns, finish_ns, flops, bytes_read, bytes_written, ts_source FROM cmd_row",
     ARRAY(commands, command_count), true, read_command},
    {"edge_row", "SELECT src, dst, kind FROM edge_row", ARRAY(edges, edge_count), true, read_edge},
    {"sync_row", "SELECT id, host, kind, target, begin_ns, end_ns, cmd FROM sync_row ORDER BY id",
     ARRAY(syncs, sync_count), true, read_sync},
    {"buffer_row",
     "SELECT b.id, device, block, memory, stream, bytes, label, alloc_cmd, f.free_cmd, role "
     "FROM buffer_row AS b LEFT JOIN buffer_free_row AS f ON f.id = b.id ORDER BY b.id",
     ARRAY(buffers, buffer_count), true, read_buffer},
    {"buffer_role_row", "SELECT buffer, role, after_cmd, ts_ns FROM buffer_role_row ORDER BY rowid",
     ARRAY(buffer_roles, buffer_role_count), true, read_buffer_role},
    {"access_row", "SELECT cmd, buffer, offset, bytes, mode FROM access_row",
     ARRAY(accesses, access_count), true, read_access},
    {"collective_row",
     "SELECT id, communicator, seq, kind, bytes, dtype, root, peer, algorithm, protocol, emulated, "
     "modelled_ns FROM collective_row",
     ARRAY(collectives, collective_count), true, read_collective},
    {"collective_member", "SELECT collective, rank, cmd FROM collective_member",
     ARRAY(collective_members, collective_member_count), true, read_collective_member},
    {"counter_row", "SELECT device, name, ts_ns, value FROM counter_row ORDER BY rowid",
     ARRAY(counters, counter_count), true, read_counter},
    {"finding",
     "SELECT id, kind, severity, cmd_a, cmd_b, buffer, message, fix FROM finding ORDER BY id",
     ARRAY(findings, finding_count), true, read_finding},
    {"call_row", "SELECT id, merged, correlation, name, begin_ns, end_ns, host FROM call_row",
     ARRAY(calls, call_count), true, read_call},
    {"stream_wait_row",
     "SELECT id, stream, source, at_ns, record_ns, resolved FROM stream_wait_row",
     ARRAY(stream_waits, stream_wait_count), true, read_stream_wait},
    {"overhead_row",
     "SELECT process, name, begin_ns, end_ns, profiler FROM overhead_row ORDER BY rowid",
     ARRAY(overheads, overhead_count), true, read_overhead},
    {"slice_row", "SELECT id, kind, name, host, stream, begin_ns, end_ns, op FROM slice_row",
     ARRAY(slices, slice_count), true, read_slice},
};

/* Tables that older files have otherwise: the last version that it was so in, the query (NULL: not
 * at all). */
static const struct {
    enum orr_status (*read)(struct orr__reader *reader, void *item);
    uint32_t version;
    const char *sql;
} older[] = {
    {read_collective, 2,
     "SELECT id, communicator, seq, kind, bytes, dtype, root, peer, algorithm, protocol, 0, NULL "
     "FROM collective_row"},
    {read_device, 3,
     "SELECT id, name, kind, physical, profile, mem_bytes, bandwidth, NULL FROM device"},
    {read_stream, 3, "SELECT id, device, name, kind, sync, NULL FROM stream"},
    {read_host, 3, "SELECT id, name, NULL, NULL FROM host"},
    {read_call, 3, NULL},
    {read_stream_wait, 3, NULL},
    {read_overhead, 3, NULL},
    {read_slice, 3, NULL},
};

const char *orr__timeline_sql(const struct orr__table *table, uint32_t version) {
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (older[i].read == table->read && version <= older[i].version)
            return older[i].sql;
    return table->sql;
}
