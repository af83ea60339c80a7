/* From a database to arrays, one table after the other, in one read transaction.
 *
 * The file may be damaged, or made to look like one of ours: nothing that comes out of it is
 * trusted. Texts are looked up in a table with bounds, codes are checked against their enum, sizes
 * of arrays follow the rows that are really there, and SQL of the file's schema is not run. */
#include "trace/timeline.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "trace/recovery_vfs.h"
#include "trace/sqlite_file.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline_texts.h"

enum {
    SQLITE_HEADER_BYTES = ORR__SQLITE_HEADER_BYTES,
    BUSY_MS = 10000,
    TEXT_IDS_MAX = 1 << 24,
    TEXT_BYTES_MAX = 1 << 28,
    ROW_BYTES_MIN = 4, /* of a row in a file, to bound what is believed about their number */
    TARGET_CACHE_SIZE = 64,
    TARGET_TEXT_MAX = 512
};

struct target {
    uint32_t kind, target;
    const char *text; /* NULL: free */
};

struct reader {
    const char *path;
    const struct orr_memory *memory;
    struct orr_timeline *timeline;
    struct orr_error *error;
    sqlite3 *db;
    uint64_t file_bytes;
    struct orr__texts *texts;
    const char **names; /* by id of table text; NULL: none */
    size_t name_count, name_capacity;
    const char *table; /* being read, for messages, as is the next */
    sqlite3_int64 row; /* first column of the row being read, if it is an id */
    sqlite3_stmt *statement;
    const char *clock; /* meta 'clock': ts_source of most commands */
    struct target targets[TARGET_CACHE_SIZE];
};

/* -- Failures ---------------------------------------------------------------------------------- */

static enum orr_status fail_memory(struct reader *reader) {
    return orr_error_set(reader->error, ORR_NO_MEMORY, "%s: no memory to read the trace",
                         reader->path);
}

/* SQLite 3.40 says "out of memory" when a damaged page points to page 2^31 - 1. */
static bool is_damaged(sqlite3 *db) {
    sqlite3_stmt *check = NULL;
    bool damaged = false;
    if (sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &check, NULL) == SQLITE_OK &&
        sqlite3_step(check) == SQLITE_ROW) {
        const char *result = (const char *)sqlite3_column_text(check, 0);
        damaged = result && strcmp(result, "ok") != 0;
    }
    sqlite3_finalize(check);
    return damaged;
}

/* A failure of SQLite while it reads. What the file says is wrong is ORR_INVALID; what the system
 * says is ORR_IO. */
static enum orr_status fail_sqlite(struct reader *reader, int code) {
    const char *table = reader->table ? reader->table : "the schema";
    switch (code & 255) {
    case SQLITE_NOMEM:
        if (!is_damaged(reader->db))
            return fail_memory(reader);
        return orr_error_set(reader->error, ORR_INVALID, "%s: damaged trace: %s", reader->path,
                             table);
    case SQLITE_BUSY:
        return orr_error_set(reader->error, ORR_IO, "%s: another process is writing to it",
                             reader->path);
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_SHORT_READ)
            break;
        return orr_error_set(reader->error, ORR_IO, "%s: cannot read it: %s", reader->path,
                             strerror(sqlite3_system_errno(reader->db)));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return orr_error_set(reader->error, ORR_IO, "%s: cannot open it: %s", reader->path,
                             sqlite3_errstr(code));
    default: break;
    }
    return orr_error_set(reader->error, ORR_INVALID, "%s: damaged trace: %s: %s", reader->path,
                         table, sqlite3_errmsg(reader->db));
}

static enum orr_status fail_value(struct reader *reader, const char *column, sqlite3_int64 value) {
    return orr_error_set(reader->error, ORR_INVALID,
                         "%s: damaged trace: %s, row %lld: %s is %lld, which means nothing",
                         reader->path, reader->table, (long long)reader->row, column,
                         (long long)value);
}

/* -- Values of a row --------------------------------------------------------------------------- */

static bool is_null(struct reader *reader, int column) {
    return sqlite3_column_type(reader->statement, column) == SQLITE_NULL;
}

static uint64_t read_u64(struct reader *reader, int column) {
    return (uint64_t)sqlite3_column_int64(reader->statement, column);
}

static uint32_t read_index(struct reader *reader, int column) {
    if (is_null(reader, column))
        return ORR_ID_NONE;
    return (uint32_t)sqlite3_column_int64(reader->statement, column);
}

static int64_t read_time(struct reader *reader, int column) {
    return is_null(reader, column) ? ORR_TIME_NONE
                                   : sqlite3_column_int64(reader->statement, column);
}

/* A code below `limit`; SQL NULL is never one. */
static enum orr_status read_code(struct reader *reader, int column, const char *name,
                                 uint32_t limit, uint32_t *out_code) {
    sqlite3_int64 value = sqlite3_column_int64(reader->statement, column);
    *out_code = 0;
    if (is_null(reader, column) || value < 0 || value >= limit)
        return fail_value(reader, name, value);
    *out_code = (uint32_t)value;
    return ORR_OK;
}

static enum orr_status read_dtype(struct reader *reader, int column, enum orr_dtype *out_dtype) {
    *out_dtype = ORR_DTYPE_NONE;
    if (is_null(reader, column))
        return ORR_OK;
    uint32_t code;
    enum orr_status status = read_code(reader, column, "dtype", ORR_DTYPE_COUNT, &code);
    if (status == ORR_OK)
        *out_dtype = (enum orr_dtype)code;
    return status;
}

/* The text that a number of table text stands for; one that is not there reads as absent. */
static const char *name_of(const struct reader *reader, sqlite3_int64 id) {
    if (id <= 0 || (uint64_t)id >= reader->name_count || !reader->names[id])
        return "";
    return reader->names[id];
}

static const char *read_name(struct reader *reader, int column) {
    return name_of(reader, sqlite3_column_int64(reader->statement, column));
}

/* A text column; "" when it is NULL, NULL when there is no memory. A NUL ends it. */
static const char *read_text(struct reader *reader, int column) {
    const char *text = (const char *)sqlite3_column_text(reader->statement, column);
    if (!text)
        return is_null(reader, column) ? "" : NULL;
    return orr__texts_add(reader->memory, &reader->texts, text, strlen(text));
}

/* -- Rows, table by table: columns as the SELECT in `tables` names them ------------------------ */

static enum orr_status read_meta(struct reader *reader, void *item) {
    struct orr_timeline_meta *meta = item;
    meta->key = read_text(reader, 0);
    meta->value = read_text(reader, 1);
    return meta->key && meta->value ? ORR_OK : fail_memory(reader);
}

static enum orr_status read_device(struct reader *reader, void *item) {
    struct orr_timeline_device *device = item;
    device->id = read_index(reader, 0);
    device->name = read_text(reader, 1);
    device->kind = read_text(reader, 2);
    device->physical = read_index(reader, 3);
    device->profile = read_text(reader, 4);
    device->mem_bytes = read_u64(reader, 5);
    device->bandwidth = read_u64(reader, 6);
    return device->name && device->kind && device->profile ? ORR_OK : fail_memory(reader);
}

/* Not an array of its own: a peak goes to its device, which has been read before. */
static enum orr_status read_peak(struct reader *reader) {
    const char *unit = (const char *)sqlite3_column_text(reader->statement, 1);
    const char *dtype_text = (const char *)sqlite3_column_text(reader->statement, 2);
    struct orr_timeline *timeline = reader->timeline;
    const struct orr_timeline_device *device = orr_timeline_device(timeline, read_index(reader, 0));
    enum orr_dtype dtype;
    if (!device || !unit || !dtype_text || orr_dtype_parse(dtype_text, &dtype) != ORR_OK)
        return fail_value(reader, "device, unit or dtype", read_index(reader, 0));
    enum orr_unit unit_code = strcmp(unit, "matrix") == 0 ? ORR_UNIT_MATRIX : ORR_UNIT_VECTOR;
    timeline->devices[device - timeline->devices].peak[unit_code][dtype] = read_u64(reader, 3);
    return ORR_OK;
}

static enum orr_status read_stream(struct reader *reader, void *item) {
    struct orr_timeline_stream *stream = item;
    stream->id = read_index(reader, 0);
    stream->device = read_index(reader, 1);
    stream->name = read_text(reader, 2);
    const char *kind = (const char *)sqlite3_column_text(reader->statement, 3);
    const char *sync = (const char *)sqlite3_column_text(reader->statement, 4);
    if (!stream->name)
        return fail_memory(reader);
    int kind_code = 0, sync_code = 0;
    while (kind && kind_code < ORR_STREAM_KIND_COUNT &&
           strcmp(kind, orr_stream_kind_text((enum orr_stream_kind)kind_code)) != 0)
        kind_code++;
    while (sync && sync_code <= ORR_STREAM_LEGACY &&
           strcmp(sync, orr_stream_sync_text((enum orr_stream_sync)sync_code)) != 0)
        sync_code++;
    if (!kind || !sync || kind_code == ORR_STREAM_KIND_COUNT || sync_code > ORR_STREAM_LEGACY)
        return fail_value(reader, "kind or sync", stream->id);
    stream->kind = (enum orr_stream_kind)kind_code;
    stream->sync = (enum orr_stream_sync)sync_code;
    return ORR_OK;
}

static enum orr_status read_host(struct reader *reader, void *item) {
    struct orr_timeline_host *host = item;
    host->id = read_index(reader, 0);
    host->name = read_text(reader, 1);
    return host->name ? ORR_OK : fail_memory(reader);
}

static enum orr_status read_communicator(struct reader *reader, void *item) {
    struct orr_timeline_communicator *communicator = item;
    communicator->id = read_index(reader, 0);
    communicator->name = read_text(reader, 1);
    return communicator->name ? ORR_OK : fail_memory(reader);
}

static enum orr_status read_member(struct reader *reader, void *item) {
    struct orr_timeline_member *member = item;
    member->communicator = read_index(reader, 0);
    member->rank = read_index(reader, 1);
    member->device = read_index(reader, 2);
    return ORR_OK;
}

static enum orr_status read_op(struct reader *reader, void *item) {
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
static enum orr_status unpack_code(struct reader *reader, int column,
                                   struct orr_timeline_command *command) {
    sqlite3_int64 code = sqlite3_column_int64(reader->statement, column);
    sqlite3_int64 dtype = code >> 24;
    if ((code & 255) >= ORR_COMMAND_KIND_COUNT || (code >> 8 & 255) >= ORR_COMMAND_STATUS_COUNT ||
        (code >> 16 & 255) > ORR_UNIT_MATRIX || dtype < 0 || dtype > ORR_DTYPE_COUNT)
        return fail_value(reader, "code", code);
    command->kind = (enum orr_command_kind)(code & 255);
    command->status = (enum orr_command_status)(code >> 8 & 255);
    command->unit = (uint8_t)(code >> 16 & 255);
    command->dtype = dtype == 0 ? ORR_DTYPE_NONE : (enum orr_dtype)(dtype - 1);
    return ORR_OK;
}

static enum orr_status read_command(struct reader *reader, void *item) {
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
    command->ts_source = is_null(reader, 18) ? reader->clock : read_name(reader, 18);
    return unpack_code(reader, 6, command);
}

static enum orr_status read_edge(struct reader *reader, void *item) {
    struct orr_timeline_edge *edge = item;
    edge->src = read_u64(reader, 0);
    edge->dst = read_u64(reader, 1);
    uint32_t kind;
    enum orr_status status = read_code(reader, 2, "kind", ORR_EDGE_KIND_COUNT, &kind);
    edge->kind = (enum orr_edge_kind)kind;
    return status;
}

static void describe_target(const struct reader *reader, uint32_t kind, uint32_t target, char *text,
                            size_t size) {
    const struct orr_timeline_stream *stream;
    switch ((enum orr_sync_kind)kind) {
    case ORR_SYNC_STREAM:
        stream = orr_timeline_stream(reader->timeline, target);
        if (stream && stream->name[0] != '\0')
            snprintf(text, size, "stream %s of device %u", stream->name, stream->device);
        else if (stream)
            snprintf(text, size, "stream %u of device %u", target, stream->device);
        else
            snprintf(text, size, "stream %u", target);
        break;
    case ORR_SYNC_DEVICE: snprintf(text, size, "device %u", target); break;
    case ORR_SYNC_EVENT:
    case ORR_SYNC_FUTURE:
    case ORR_SYNC_KIND_COUNT:
        snprintf(text, size, "%s %s", orr_sync_kind_text((enum orr_sync_kind)kind),
                 name_of(reader, target));
        if (name_of(reader, target)[0] == '\0')
            snprintf(text, size, "%s", orr_sync_kind_text((enum orr_sync_kind)kind));
        break;
    }
}

/* Programs wait for the same few streams over and over: the texts are kept in a small cache. */
static const char *target_text(struct reader *reader, uint32_t kind, uint32_t target) {
    struct target *cached = &reader->targets[(target * 4 + kind) % TARGET_CACHE_SIZE];
    if (cached->text && cached->kind == kind && cached->target == target)
        return cached->text;
    char text[TARGET_TEXT_MAX];
    describe_target(reader, kind, target, text, sizeof text);
    const char *copy = orr__texts_add(reader->memory, &reader->texts, text, strlen(text));
    *cached = (struct target){.kind = kind, .target = target, .text = copy};
    return copy;
}

static enum orr_status read_sync(struct reader *reader, void *item) {
    struct orr_timeline_sync *sync = item;
    sync->id = read_u64(reader, 0);
    sync->host = read_index(reader, 1);
    sync->begin_ns = read_time(reader, 4);
    sync->end_ns = read_time(reader, 5);
    sync->cmd = read_u64(reader, 6);
    uint32_t kind;
    enum orr_status status = read_code(reader, 2, "kind", ORR_SYNC_KIND_COUNT, &kind);
    if (status != ORR_OK)
        return status;
    sync->kind = (enum orr_sync_kind)kind;
    sync->target = target_text(reader, kind, read_index(reader, 3));
    return sync->target ? ORR_OK : fail_memory(reader);
}

static enum orr_status read_buffer(struct reader *reader, void *item) {
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
    return ORR_OK;
}

static enum orr_status read_access(struct reader *reader, void *item) {
    struct orr_timeline_access *access = item;
    access->cmd = read_u64(reader, 0);
    access->buffer = read_u64(reader, 1);
    access->offset = read_u64(reader, 2);
    access->bytes = read_u64(reader, 3);
    uint32_t mode;
    enum orr_status status = read_code(reader, 4, "mode", ORR_ACCESS_READ_WRITE + 1, &mode);
    if (status == ORR_OK && mode == 0)
        status = fail_value(reader, "mode", 0);
    access->mode = (enum orr_access_mode)mode;
    return status;
}

static enum orr_status read_collective(struct reader *reader, void *item) {
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
    return read_dtype(reader, 5, &collective->dtype);
}

static enum orr_status read_collective_member(struct reader *reader, void *item) {
    struct orr_timeline_collective_member *member = item;
    member->collective = read_u64(reader, 0);
    member->rank = read_index(reader, 1);
    member->cmd = read_u64(reader, 2);
    return ORR_OK;
}

static enum orr_status read_counter(struct reader *reader, void *item) {
    struct orr_timeline_counter *counter = item;
    counter->device = read_index(reader, 0);
    counter->name = read_name(reader, 1);
    counter->ts_ns = read_time(reader, 2);
    counter->value = is_null(reader, 3) ? (double)NAN : sqlite3_column_double(reader->statement, 3);
    return ORR_OK;
}

static enum orr_status read_finding(struct reader *reader, void *item) {
    struct orr_timeline_finding *finding = item;
    finding->id = read_u64(reader, 0);
    finding->kind = read_text(reader, 1);
    finding->severity = read_text(reader, 2);
    finding->cmd_a = read_u64(reader, 3);
    finding->cmd_b = read_u64(reader, 4);
    finding->buffer = read_u64(reader, 5);
    finding->message = read_text(reader, 6);
    finding->fix = read_text(reader, 7);
    return finding->kind && finding->severity && finding->message && finding->fix
               ? ORR_OK
               : fail_memory(reader);
}

/* -- Tables ------------------------------------------------------------------------------------ */

/* Runs a query; the rows are then stepped through with next_row. */
static enum orr_status open_query(struct reader *reader, const char *table, const char *sql) {
    reader->table = table;
    reader->row = 0;
    int code = sqlite3_prepare_v2(reader->db, sql, -1, &reader->statement, NULL);
    return code == SQLITE_OK ? ORR_OK : fail_sqlite(reader, code);
}

/* False at the end or after a failure, which *status then says. */
static bool next_row(struct reader *reader, enum orr_status *status) {
    if (*status != ORR_OK)
        return false;
    int code = sqlite3_step(reader->statement);
    if (code == SQLITE_ROW) {
        reader->row = sqlite3_column_int64(reader->statement, 0);
        return true;
    }
    if (code != SQLITE_DONE)
        *status = fail_sqlite(reader, code);
    return false;
}

static void close_query(struct reader *reader) {
    sqlite3_finalize(reader->statement);
    reader->statement = NULL;
}

struct table {
    const char *name, *sql;
    size_t items, count, size; /* offsets in struct orr_timeline; bytes of an item */
    bool has_rowid;
    enum orr_status (*read)(struct reader *reader, void *item);
};

#define ARRAY(array, counter)                                                                      \
    offsetof(struct orr_timeline, array), offsetof(struct orr_timeline, counter),                  \
        sizeof *((struct orr_timeline *)0)->array

/* The order matters: peaks look for their device, syncs for the name of their stream. */
static const struct table tables[] = {
    {"meta", "SELECT key, value FROM meta", ARRAY(meta, meta_count), false, read_meta},
    {"device", "SELECT id, name, kind, physical, profile, mem_bytes, bandwidth FROM device",
     ARRAY(devices, device_count), true, read_device},
    {"stream", "SELECT id, device, name, kind, sync FROM stream", ARRAY(streams, stream_count),
     true, read_stream},
    {"host", "SELECT id, name FROM host", ARRAY(hosts, host_count), true, read_host},
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
     "SELECT b.id, device, block, memory, stream, bytes, label, alloc_cmd, f.free_cmd "
     "FROM buffer_row AS b LEFT JOIN buffer_free_row AS f ON f.id = b.id ORDER BY b.id",
     ARRAY(buffers, buffer_count), true, read_buffer},
    {"access_row", "SELECT cmd, buffer, offset, bytes, mode FROM access_row",
     ARRAY(accesses, access_count), true, read_access},
    {"collective_row",
     "SELECT id, communicator, seq, kind, bytes, dtype, root, peer, algorithm, protocol "
     "FROM collective_row",
     ARRAY(collectives, collective_count), true, read_collective},
    {"collective_member", "SELECT collective, rank, cmd FROM collective_member",
     ARRAY(collective_members, collective_member_count), true, read_collective_member},
    {"counter_row", "SELECT device, name, ts_ns, value FROM counter_row",
     ARRAY(counters, counter_count), true, read_counter},
    {"finding",
     "SELECT id, kind, severity, cmd_a, cmd_b, buffer, message, fix FROM finding ORDER BY id",
     ARRAY(findings, finding_count), true, read_finding},
};

/* Upper bound of a table's rows: its largest rowid, if that is believable in a file of this size.
 * Rowids are dense in our files, so that arrays are allocated once and at their size. */
static enum orr_status guess_rows(struct reader *reader, const struct table *table,
                                  size_t *out_rows) {
    char sql[96];
    *out_rows = 0;
    if (!table->has_rowid)
        return ORR_OK;
    snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table->name);
    enum orr_status status = open_query(reader, table->name, sql);
    if (next_row(reader, &status)) {
        uint64_t rows = read_u64(reader, 0);
        *out_rows = rows <= reader->file_bytes / ROW_BYTES_MIN ? (size_t)rows : 0;
    }
    close_query(reader);
    return status;
}

static enum orr_status read_rows(struct reader *reader, const struct table *table, void **items,
                                 size_t *count, size_t *capacity) {
    enum orr_status status = open_query(reader, table->name, table->sql);
    while (next_row(reader, &status)) {
        if (*count == *capacity && orr_memory_grow(reader->memory, items, capacity, *count + 1,
                                                   table->size, SIZE_MAX / 1024) != ORR_OK)
            status = fail_memory(reader);
        else
            status = table->read(reader, (unsigned char *)*items + *count * table->size);
        *count += status == ORR_OK;
    }
    close_query(reader);
    return status;
}

static enum orr_status read_table(struct reader *reader, const struct table *table) {
    void *items = NULL;
    size_t count = 0, capacity = 0;
    size_t rows;
    enum orr_status status = guess_rows(reader, table, &rows);
    if (status != ORR_OK)
        return status;
    if (rows > 0) {
        items = orr_memory_alloc(reader->memory, rows * table->size);
        if (!items)
            return fail_memory(reader);
        capacity = rows;
    }
    status = read_rows(reader, table, &items, &count, &capacity);
    unsigned char *timeline = (unsigned char *)reader->timeline;
    memcpy(timeline + table->items, &items, sizeof items);
    memcpy(timeline + table->count, &count, sizeof count);
    return status;
}

static enum orr_status read_names(struct reader *reader) {
    enum orr_status status = open_query(reader, "text", "SELECT id, text FROM text");
    while (next_row(reader, &status)) {
        if (reader->row <= 0 || reader->row >= TEXT_IDS_MAX) {
            status = fail_value(reader, "id", reader->row);
            break;
        }
        size_t id = (size_t)reader->row;
        if (orr_memory_grow(reader->memory, &reader->names, &reader->name_capacity, id + 1,
                            sizeof *reader->names, TEXT_IDS_MAX) != ORR_OK)
            status = fail_memory(reader);
        else if (!(reader->names[id] = read_text(reader, 1)))
            status = fail_memory(reader);
        else if (id >= reader->name_count)
            reader->name_count = id + 1;
    }
    close_query(reader);
    return status;
}

static enum orr_status read_peaks(struct reader *reader) {
    enum orr_status status = open_query(reader, "device_peak",
                                        "SELECT device, unit, dtype, flops_per_s FROM device_peak");
    while (next_row(reader, &status))
        status = read_peak(reader);
    close_query(reader);
    return status;
}

static int compare_edges(const void *a, const void *b) {
    const struct orr_timeline_edge *x = a, *y = b;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    return x->src == y->src ? 0 : x->src < y->src ? -1 : 1;
}

static int compare_accesses(const void *a, const void *b) {
    const struct orr_timeline_access *x = a, *y = b;
    return x->cmd == y->cmd ? 0 : x->cmd < y->cmd ? -1 : 1;
}

static int compare_collective_members(const void *a, const void *b) {
    const struct orr_timeline_collective_member *x = a, *y = b;
    if (x->collective != y->collective)
        return x->collective < y->collective ? -1 : 1;
    return x->rank == y->rank ? 0 : x->rank < y->rank ? -1 : 1;
}

static int compare_counters(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    int order = x->name == y->name ? 0 : strcmp(x->name, y->name);
    if (order != 0)
        return order;
    return x->ts_ns == y->ts_ns ? 0 : x->ts_ns < y->ts_ns ? -1 : 1;
}

static enum orr_status sort_arrays(struct reader *reader) {
    struct orr_timeline *t = reader->timeline;
    enum orr_status status =
        orr__stable_sort(reader->memory, t->edges, t->edge_count, sizeof *t->edges, compare_edges);
    if (status == ORR_OK)
        status = orr__stable_sort(reader->memory, t->accesses, t->access_count, sizeof *t->accesses,
                                  compare_accesses);
    if (status == ORR_OK)
        status = orr__stable_sort(reader->memory, t->collective_members, t->collective_member_count,
                                  sizeof *t->collective_members, compare_collective_members);
    if (status == ORR_OK)
        status = orr__stable_sort(reader->memory, t->counters, t->counter_count,
                                  sizeof *t->counters, compare_counters);
    return status == ORR_OK ? ORR_OK : fail_memory(reader);
}

static enum orr_status read_all(struct reader *reader) {
    enum orr_status status = read_names(reader);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && status == ORR_OK; i++) {
        status = read_table(reader, &tables[i]);
        if (status == ORR_OK && tables[i].read == read_device)
            status = read_peaks(reader);
        if (status == ORR_OK && tables[i].read == read_meta) {
            const char *clock = orr_timeline_meta(reader->timeline, "clock");
            reader->clock = clock ? clock : "";
        }
    }
    return status == ORR_OK ? sort_arrays(reader) : status;
}

/* -- The file ---------------------------------------------------------------------------------- */

static void print_bytes(char *text, size_t size, const unsigned char *bytes, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count && size - length > 4; i++)
        length += (size_t)snprintf(text + length, size - length, i ? " %02x" : "%02x", bytes[i]);
}

static enum orr_status check_header(struct reader *reader, const unsigned char *header,
                                    size_t length) {
    struct orr_error *error = reader->error;
    const char *path = reader->path;
    if (length == 0)
        return orr_error_set(error, ORR_INVALID, "%s: empty file, expected a trace (SQLite)", path);
    char text[64] = "";
    print_bytes(text, sizeof text, header, length < 16 ? length : 16);
    if (memcmp(header, "SQLite format 3", length < 16 ? length : 16) != 0)
        return orr_error_set(error, ORR_INVALID,
                             "%s: not an SQLite database: first bytes %s, expected a trace", path,
                             text);
    if (length < SQLITE_HEADER_BYTES)
        return orr_error_set(error, ORR_INVALID,
                             "%s: truncated: %zu bytes, an SQLite header has %d", path, length,
                             SQLITE_HEADER_BYTES);
    uint32_t application = orr__sqlite_load(header + ORR__SQLITE_APPLICATION_ID_AT);
    if (application != ORR_TRACE_APPLICATION_ID)
        return orr_error_set(error, ORR_INVALID,
                             "%s: an SQLite database, but not a trace of Orrery (application id "
                             "%u, expected %u)",
                             path, application, (unsigned)ORR_TRACE_APPLICATION_ID);
    uint32_t version = orr__sqlite_load(header + ORR__SQLITE_USER_VERSION_AT);
    if (version != ORR_TRACE_SCHEMA_VERSION)
        return orr_error_set(error, ORR_INVALID, "%s: schema version %u, this program reads %d%s",
                             path, version, (int)ORR_TRACE_SCHEMA_VERSION,
                             version > ORR_TRACE_SCHEMA_VERSION ? ": a newer Orrery wrote it" : "");
    return ORR_OK;
}

static enum orr_status check_file(struct reader *reader) {
    struct stat info;
    if (stat(reader->path, &info) != 0 && errno == ENOENT)
        return orr_error_set(reader->error, ORR_INVALID, "%s: no such file", reader->path);
    if (stat(reader->path, &info) != 0)
        return orr_error_set(reader->error, ORR_IO, "%s: cannot open it: %s", reader->path,
                             strerror(errno));
    if (!S_ISREG(info.st_mode))
        return orr_error_set(reader->error, ORR_INVALID, "%s: %s, expected a trace", reader->path,
                             S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    reader->file_bytes = (uint64_t)info.st_size;
    return ORR_OK;
}

/* The file's own SQL stays unused: no views, triggers or functions from its schema. A value that
 * claims to be longer than the file is damage, and nothing to look for memory for. */
static int defend(const struct reader *reader) {
    sqlite3 *db = reader->db;
    int longest = reader->file_bytes < TEXT_BYTES_MAX ? (int)reader->file_bytes : TEXT_BYTES_MAX;
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, longest);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_busy_timeout(db, BUSY_MS);
    return sqlite3_exec(db, "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON", NULL, NULL,
                        NULL);
}

static enum orr_status open_database(struct reader *reader, int flags, const char *vfs) {
    char path[PATH_MAX];
    int length =
        snprintf(path, sizeof path, "%s%s", reader->path[0] == ':' ? "./" : "", reader->path);
    if (length < 0 || (size_t)length >= sizeof path)
        return orr_error_set(reader->error, ORR_INVALID, "%s: the path is too long", reader->path);
    flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(path, &reader->db, flags, vfs);
    unsigned char header[SQLITE_HEADER_BYTES] = {0};
    if (code == SQLITE_OK)
        code = orr__sqlite_read_header(reader->db, header);
    if (code != SQLITE_OK)
        return fail_sqlite(reader, code);
    uint64_t bytes = reader->file_bytes;
    return check_header(reader, header, bytes < sizeof header ? (size_t)bytes : sizeof header);
}

/* Bytes that the header speaks of against those that are there. SQLite notices only whole pages
 * that are missing at the end. */
static enum orr_status check_size(struct reader *reader) {
    unsigned char header[SQLITE_HEADER_BYTES] = {0};
    sqlite3_int64 size = 0;
    sqlite3_file *file = NULL;
    int code = orr__sqlite_read_header(reader->db, header);
    if (code == SQLITE_OK)
        code = sqlite3_file_control(reader->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK)
        code = file->pMethods->xFileSize(file, &size);
    if (code != SQLITE_OK)
        return fail_sqlite(reader, code);
    uint64_t page_bytes = (uint64_t)header[16] << 8 | header[17];
    uint64_t bytes = (page_bytes == 1 ? 65536 : page_bytes) * orr__sqlite_load(header + 28);
    if ((uint64_t)size >= bytes)
        return ORR_OK;
    return orr_error_set(reader->error, ORR_INVALID,
                         "%s: truncated: %lld bytes, the header says %llu", reader->path,
                         (long long)size, (unsigned long long)bytes);
}

/* Begins to read. *killed: the file has to be recovered first. */
static enum orr_status begin(struct reader *reader, bool *killed) {
    int code = defend(reader);
    if (code == SQLITE_OK)
        code = sqlite3_exec(reader->db, "BEGIN; SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
    *killed = code == SQLITE_READONLY_ROLLBACK;
    if (code == SQLITE_OK || code == SQLITE_CORRUPT) {
        enum orr_status status = check_size(reader);
        if (status != ORR_OK)
            return status;
    }
    return code == SQLITE_OK || *killed ? ORR_OK : fail_sqlite(reader, code);
}

/* A killed run's: the journal has to be applied, which is done in memory. */
static enum orr_status read_killed(struct reader *reader) {
    struct orr__recovery_vfs vfs;
    sqlite3_close(reader->db);
    reader->db = NULL;
    int code = orr__recovery_vfs_register(&vfs);
    if (code != SQLITE_OK)
        return fail_sqlite(reader, code);
    bool killed = false;
    enum orr_status status = open_database(reader, SQLITE_OPEN_READWRITE, vfs.name);
    if (status == ORR_OK)
        status = begin(reader, &killed);
    if (status == ORR_OK)
        status = read_all(reader);
    sqlite3_close(reader->db);
    reader->db = NULL;
    orr__recovery_vfs_unregister(&vfs);
    return status;
}

static enum orr_status read_database(struct reader *reader) {
    bool killed = false;
    enum orr_status status = open_database(reader, SQLITE_OPEN_READONLY, NULL);
    if (status == ORR_OK)
        status = begin(reader, &killed);
    if (status != ORR_OK)
        return status;
    return killed ? read_killed(reader) : read_all(reader);
}

enum orr_status orr_timeline_read(const char *path, const struct orr_memory *memory,
                                  struct orr_timeline **out_timeline, struct orr_error *error) {
    *out_timeline = NULL;
    struct orr_error ignored = {0};
    struct reader reader = {
        .path = path, .memory = memory, .error = error ? error : &ignored, .clock = ""};
    enum orr_status status = check_file(&reader);
    if (status == ORR_OK)
        status = orr_timeline_create(memory, &reader.timeline);
    if (status == ORR_NO_MEMORY)
        fail_memory(&reader);
    if (status == ORR_OK)
        status = read_database(&reader);
    sqlite3_close(reader.db);
    orr_memory_free(memory, reader.names);
    if (reader.timeline)
        reader.timeline->texts = reader.texts;
    if (status == ORR_OK)
        *out_timeline = reader.timeline;
    else
        orr_timeline_destroy(&reader.timeline);
    return status;
}
