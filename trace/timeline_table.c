/* One virtual table per table of the schema, over an array of the timeline. */
#include "trace/timeline_table.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "trace/sync_target.h"
#include "trace/timeline_texts.h"

enum { COLUMNS_MAX = 20, SQL_MAX = 256 };

enum column_type {
    COLUMN_INDEX,       /* u32; ORR_ID_NONE is NULL */
    COLUMN_NUMBER,      /* u32 */
    COLUMN_COUNT,       /* u64, at most 2^63 - 1 */
    COLUMN_ID,          /* u64; 0 is NULL */
    COLUMN_BITS,        /* u64, all 64 bits of it; 0 is NULL */
    COLUMN_CORRELATION, /* the same, but ORR_CORRELATION_NONE is NULL */
    COLUMN_TIME,        /* i64; ORR_TIME_NONE is NULL */
    COLUMN_REAL,        /* double */
    COLUMN_NAME,        /* const char *, as its number; "" is NULL */
    COLUMN_TEXT,        /* const char *, as text; "" is NULL */
    COLUMN_WORD,        /* an enum, as its number */
    COLUMN_DTYPE,       /* the same; ORR_DTYPE_NONE is NULL */
    COLUMN_TRUTH,       /* bool */
    COLUMN_ROW,         /* the item's position from 1; no member */
    COLUMN_SPECIAL      /* `offset` is which: */
};

enum special {
    SPECIAL_CODE, /* of a command, see cmd_row in schema.sql */
    SPECIAL_TS_SOURCE,
    SPECIAL_STREAM_KIND,
    SPECIAL_STREAM_SYNC,
    SPECIAL_TARGET,       /* of sync_row */
    SPECIAL_OTHER_TARGET, /* of sync_import_row */
    SPECIAL_MERGED
};

struct column {
    uint8_t type;
    uint16_t offset; /* of the member */
};

struct table {
    const char *name, *columns_sql; /* where to insert */
    size_t items, count, size;      /* offsets in struct orr_timeline; bytes of an item */
    bool (*keep)(const struct orr_timeline *timeline, const void *item); /* NULL: all */
    int column_count;
    struct column columns[COLUMNS_MAX];
};

/* -- Which rows there are ---------------------------------------------------------------------- */

static bool keep_command(const struct orr_timeline *timeline, const void *item) {
    const struct orr_timeline_command *command = item;
    (void)timeline;
    return command->call != 0 || command->correlation != ORR_CORRELATION_NONE ||
           command->graph != 0 || command->grid[0] != '\0';
}

static bool keep_sync(const struct orr_timeline *timeline, const void *item) {
    const struct orr_timeline_sync *sync = item;
    return sync->call != 0 || sync->stream != ORR_ID_NONE || sync->device != ORR_ID_NONE ||
           !orr__sync_target_of(timeline, sync).exact;
}

static bool keep_free(const struct orr_timeline *timeline, const void *item) {
    const struct orr_timeline_buffer *buffer = item;
    (void)timeline;
    return buffer->free_cmd != 0;
}

/* -- The tables -------------------------------------------------------------------------------- */

#define TABLE(name, columns, array, counter, keep, ...)                                            \
    {                                                                                              \
        name, columns, offsetof(struct orr_timeline, array),                                       \
            offsetof(struct orr_timeline, counter), sizeof *((struct orr_timeline *)0)->array,     \
            keep, (int)(sizeof((struct column[]){__VA_ARGS__}) / sizeof(struct column)), {         \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define OF(item, type, member)                                                                     \
    { COLUMN_##type, offsetof(struct orr_timeline_##item, member) }
#define SPECIAL(which)                                                                             \
    { COLUMN_SPECIAL, SPECIAL_##which }

static const struct table tables[] = {
    TABLE("device", "(id, name, kind, physical, profile, mem_bytes, bandwidth, multiprocessors)",
          devices, device_count, NULL, OF(device, INDEX, id), OF(device, TEXT, name),
          OF(device, TEXT, kind), OF(device, INDEX, physical), OF(device, TEXT, profile),
          OF(device, COUNT, mem_bytes), OF(device, COUNT, bandwidth),
          OF(device, NUMBER, multiprocessors)),
    TABLE("stream", "(id, device, name, kind, sync, process)", streams, stream_count, NULL,
          OF(stream, INDEX, id), OF(stream, INDEX, device), OF(stream, TEXT, name),
          SPECIAL(STREAM_KIND), SPECIAL(STREAM_SYNC), OF(stream, BITS, process)),
    TABLE("host", "(id, name, label, process)", hosts, host_count, NULL, OF(host, INDEX, id),
          OF(host, TEXT, name), OF(host, TEXT, label), OF(host, BITS, process)),
    TABLE("communicator", "", communicators, communicator_count, NULL, OF(communicator, INDEX, id),
          OF(communicator, TEXT, name)),
    TABLE("communicator_member", "", members, member_count, NULL, OF(member, INDEX, communicator),
          OF(member, INDEX, rank), OF(member, INDEX, device)),
    TABLE("op_row", "", ops, op_count, NULL, OF(op, COUNT, id), OF(op, ID, parent),
          OF(op, NAME, name), OF(op, NAME, kind), OF(op, NAME, site), OF(op, NAME, shape),
          OF(op, DTYPE, dtype), OF(op, COUNT, flops), OF(op, COUNT, bytes_read),
          OF(op, COUNT, bytes_written), OF(op, COUNT, bytes_broadcast)),
    TABLE("cmd_row", "", commands, command_count, NULL, OF(command, COUNT, id), OF(command, ID, op),
          OF(command, INDEX, host), OF(command, INDEX, device), OF(command, INDEX, stream),
          OF(command, COUNT, seq), SPECIAL(CODE), OF(command, NAME, name), OF(command, NAME, event),
          OF(command, NAME, site), OF(command, TIME, enqueue_ns), OF(command, TIME, enqueued_ns),
          OF(command, TIME, ready_ns), OF(command, TIME, start_ns), OF(command, TIME, finish_ns),
          OF(command, COUNT, flops), OF(command, COUNT, bytes_read),
          OF(command, COUNT, bytes_written), SPECIAL(TS_SOURCE)),
    TABLE("cmd_import_row", "", commands, command_count, keep_command, OF(command, COUNT, id),
          OF(command, ID, call), OF(command, CORRELATION, correlation), OF(command, BITS, graph),
          OF(command, NAME, grid)),
    TABLE("edge_row", "", edges, edge_count, NULL, OF(edge, COUNT, src), OF(edge, COUNT, dst),
          OF(edge, WORD, kind)),
    TABLE("sync_row", "", syncs, sync_count, NULL, OF(sync, COUNT, id), OF(sync, INDEX, host),
          OF(sync, WORD, kind), SPECIAL(TARGET), OF(sync, TIME, begin_ns), OF(sync, TIME, end_ns),
          OF(sync, ID, cmd)),
    TABLE("sync_import_row", "", syncs, sync_count, keep_sync, OF(sync, COUNT, id),
          SPECIAL(OTHER_TARGET), OF(sync, ID, call), OF(sync, INDEX, stream),
          OF(sync, INDEX, device)),
    TABLE("buffer_row", "", buffers, buffer_count, NULL, OF(buffer, COUNT, id),
          OF(buffer, INDEX, device), OF(buffer, ID, block), OF(buffer, NAME, memory),
          OF(buffer, INDEX, stream), OF(buffer, COUNT, bytes), OF(buffer, NAME, label),
          OF(buffer, ID, alloc_cmd), OF(buffer, WORD, role)),
    TABLE("buffer_free_row", "", buffers, buffer_count, keep_free, OF(buffer, COUNT, id),
          OF(buffer, ID, free_cmd)),
    TABLE("buffer_role_row", "", buffer_roles, buffer_role_count, NULL,
          OF(buffer_role, COUNT, buffer), OF(buffer_role, WORD, role),
          OF(buffer_role, ID, after_cmd), OF(buffer_role, TIME, ts_ns)),
    TABLE("access_row", "", accesses, access_count, NULL, OF(access, COUNT, cmd),
          OF(access, COUNT, buffer), OF(access, COUNT, offset), OF(access, COUNT, bytes),
          OF(access, WORD, mode)),
    TABLE("collective_row", "", collectives, collective_count, NULL, OF(collective, COUNT, id),
          OF(collective, INDEX, communicator), OF(collective, COUNT, seq),
          OF(collective, NAME, kind), OF(collective, COUNT, bytes), OF(collective, DTYPE, dtype),
          OF(collective, INDEX, root), OF(collective, INDEX, peer), OF(collective, NAME, algorithm),
          OF(collective, NAME, protocol), OF(collective, TRUTH, emulated),
          OF(collective, TIME, modelled_ns)),
    TABLE("collective_member", "", collective_members, collective_member_count, NULL,
          OF(collective_member, COUNT, collective), OF(collective_member, INDEX, rank),
          OF(collective_member, COUNT, cmd)),
    TABLE("counter_row", "", counters, counter_count, NULL, OF(counter, INDEX, device),
          OF(counter, NAME, name), OF(counter, TIME, ts_ns), OF(counter, REAL, value)),
    TABLE("finding", "", findings, finding_count, NULL, OF(finding, COUNT, id),
          OF(finding, TEXT, kind), OF(finding, TEXT, severity), OF(finding, ID, cmd_a),
          OF(finding, ID, cmd_b), OF(finding, ID, buffer), OF(finding, TEXT, message),
          OF(finding, TEXT, fix)),
    TABLE("call_row", "", calls, call_count, NULL, OF(call, COUNT, id), SPECIAL(MERGED),
          OF(call, CORRELATION, correlation), OF(call, NAME, name), OF(call, TIME, begin_ns),
          OF(call, TIME, end_ns), OF(call, INDEX, host)),
    TABLE("stream_wait_row", "", stream_waits, stream_wait_count, NULL, OF(stream_wait, COUNT, id),
          OF(stream_wait, INDEX, stream), OF(stream_wait, INDEX, source),
          OF(stream_wait, TIME, at_ns), OF(stream_wait, TIME, record_ns),
          OF(stream_wait, TRUTH, resolved)),
    TABLE("overhead_row", "", overheads, overhead_count, NULL, OF(overhead, BITS, process),
          OF(overhead, NAME, name), OF(overhead, TIME, begin_ns), OF(overhead, TIME, end_ns),
          OF(overhead, TRUTH, profiler)),
    TABLE("slice_row", "", slices, slice_count, NULL, {COLUMN_ROW, 0}, OF(slice, WORD, kind),
          OF(slice, NAME, name), OF(slice, INDEX, host), OF(slice, INDEX, stream),
          OF(slice, TIME, begin_ns), OF(slice, TIME, end_ns), OF(slice, ID, op)),
};

/* -- Values ------------------------------------------------------------------------------------ */

struct source {
    const struct table *table;
    struct orr__table_writer *writer;
    const unsigned char *items;
    size_t count;
};

#define LOAD(type, name)                                                                           \
    static type name(const unsigned char *at) {                                                    \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return value;                                                                              \
    }
LOAD(uint32_t, load_u32)
LOAD(uint64_t, load_u64)
LOAD(double, load_real)
LOAD(bool, load_bool)
LOAD(const char *, load_text)
LOAD(enum orr_dtype, load_enum)
_Static_assert(sizeof(enum orr_dtype) == sizeof(enum orr_edge_kind), "enums have one size");

static void result_u64(sqlite3_context *context, uint64_t value) {
    sqlite3_result_int64(context, value > INT64_MAX ? INT64_MAX : (sqlite3_int64)value);
}

static void result_name(struct orr__table_writer *writer, sqlite3_context *context,
                        const char *text) {
    uint32_t id = orr__text_ids_of(writer->ids, text);
    writer->no_memory |= id == 0;
    if (id == 0)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_int64(context, id);
}

static void result_code(sqlite3_context *context, const struct orr_timeline_command *command) {
    uint64_t code =
        (uint64_t)command->kind | (uint64_t)command->status << 8 | (uint64_t)command->unit << 16;
    if (command->dtype < ORR_DTYPE_COUNT)
        code |= (uint64_t)(command->dtype + 1) << 24;
    if (command->caller != command->host && command->caller < INT32_MAX)
        code |= (uint64_t)(command->caller + 1) << 32;
    sqlite3_result_int64(context, (sqlite3_int64)code);
}

static void result_target(struct orr__table_writer *writer, sqlite3_context *context,
                          const struct orr_timeline_sync *sync) {
    struct orr__sync_target target = orr__sync_target_of(writer->timeline, sync);
    if (target.name[0] != '\0')
        result_name(writer, context, target.name);
    else if (target.id != ORR_ID_NONE)
        sqlite3_result_int64(context, target.id);
}

static void result_special(struct orr__table_writer *writer, sqlite3_context *context,
                           enum special which, const void *item) {
    const struct orr_timeline_command *command = item;
    const struct orr_timeline_stream *stream = item;
    const struct orr_timeline_sync *sync = item;
    const struct orr_timeline_call *call = item;
    switch (which) {
    case SPECIAL_CODE: result_code(context, command); break;
    case SPECIAL_TS_SOURCE:
        if (strcmp(command->ts_source, writer->clock) != 0)
            result_name(writer, context, command->ts_source);
        break;
    case SPECIAL_STREAM_KIND:
        sqlite3_result_text(context, orr_stream_kind_text(stream->kind), -1, SQLITE_STATIC);
        break;
    case SPECIAL_STREAM_SYNC:
        sqlite3_result_text(context, orr_stream_sync_text(stream->sync), -1, SQLITE_STATIC);
        break;
    case SPECIAL_TARGET: result_target(writer, context, sync); break;
    case SPECIAL_OTHER_TARGET:
        if (!orr__sync_target_of(writer->timeline, sync).exact)
            result_name(writer, context, sync->target);
        break;
    case SPECIAL_MERGED:
        if (call->merged != call->id)
            result_u64(context, call->merged);
        break;
    }
}

/* A column that is left without a result is NULL. */
static void result_column(const struct source *source, sqlite3_context *context,
                          struct column column, size_t index) {
    struct orr__table_writer *writer = source->writer;
    const unsigned char *item = source->items + index * source->table->size;
    const unsigned char *at = item + column.offset;
    switch ((enum column_type)column.type) {
    case COLUMN_INDEX:
        if (load_u32(at) != ORR_ID_NONE)
            sqlite3_result_int64(context, load_u32(at));
        break;
    case COLUMN_NUMBER: sqlite3_result_int64(context, load_u32(at)); break;
    case COLUMN_COUNT: result_u64(context, load_u64(at)); break;
    case COLUMN_ID:
        if (load_u64(at) != 0)
            result_u64(context, load_u64(at));
        break;
    case COLUMN_BITS:
        if (load_u64(at) != 0)
            sqlite3_result_int64(context, (sqlite3_int64)load_u64(at));
        break;
    case COLUMN_CORRELATION:
        if (load_u64(at) != ORR_CORRELATION_NONE)
            sqlite3_result_int64(context, (sqlite3_int64)load_u64(at));
        break;
    case COLUMN_TIME:
        if ((int64_t)load_u64(at) != ORR_TIME_NONE)
            sqlite3_result_int64(context, (sqlite3_int64)load_u64(at));
        break;
    case COLUMN_REAL: sqlite3_result_double(context, load_real(at)); break;
    case COLUMN_NAME:
        if (load_text(at)[0] != '\0')
            result_name(writer, context, load_text(at));
        break;
    case COLUMN_TEXT:
        if (load_text(at)[0] != '\0')
            sqlite3_result_text(context, load_text(at), -1, SQLITE_STATIC);
        break;
    case COLUMN_WORD: sqlite3_result_int64(context, (sqlite3_int64)load_enum(at)); break;
    case COLUMN_DTYPE:
        if (load_enum(at) < ORR_DTYPE_COUNT)
            sqlite3_result_int64(context, (sqlite3_int64)load_enum(at));
        break;
    case COLUMN_TRUTH: sqlite3_result_int(context, load_bool(at)); break;
    case COLUMN_ROW: sqlite3_result_int64(context, (sqlite3_int64)index + 1); break;
    case COLUMN_SPECIAL: result_special(writer, context, (enum special)column.offset, item); break;
    }
}

/* -- The virtual tables ------------------------------------------------------------------------ */

struct source_table {
    sqlite3_vtab base;
    const struct source *source;
};

struct source_cursor {
    sqlite3_vtab_cursor base;
    const struct source *source;
    size_t index;
};

static int table_connect(sqlite3 *db, void *context, int argument_count,
                         const char *const *arguments, sqlite3_vtab **out_table, char **out_text) {
    (void)argument_count;
    (void)arguments;
    (void)out_text;
    const struct source *source = context;
    char sql[SQL_MAX];
    int length = snprintf(sql, sizeof sql, "CREATE TABLE x(");
    for (int i = 0; i < source->table->column_count; i++)
        length += snprintf(sql + length, sizeof sql - (size_t)length, i ? ",c%d" : "c%d", i);
    snprintf(sql + length, sizeof sql - (size_t)length, ")");
    struct source_table *table = sqlite3_malloc(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    *table = (struct source_table){.source = source};
    *out_table = &table->base;
    return sqlite3_declare_vtab(db, sql);
}

static int table_disconnect(sqlite3_vtab *table) {
    sqlite3_free(table);
    return SQLITE_OK;
}

static int table_best_index(sqlite3_vtab *table, sqlite3_index_info *info) {
    (void)table;
    info->estimatedCost = 1e6;
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out_cursor) {
    struct source_cursor *cursor = sqlite3_malloc(sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct source_cursor){.source = ((struct source_table *)table)->source};
    *out_cursor = &cursor->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

static void cursor_seek(struct source_cursor *cursor, size_t index) {
    const struct source *source = cursor->source;
    const struct table *table = source->table;
    while (table->keep && index < source->count &&
           !table->keep(source->writer->timeline, source->items + index * table->size))
        index++;
    cursor->index = index;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int index_number, const char *index_text,
                         int argument_count, sqlite3_value **arguments) {
    (void)index_number;
    (void)index_text;
    (void)argument_count;
    (void)arguments;
    cursor_seek((struct source_cursor *)base, 0);
    return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *base) {
    struct source_cursor *cursor = (struct source_cursor *)base;
    cursor_seek(cursor, cursor->index + 1);
    return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *base) {
    const struct source_cursor *cursor = (const struct source_cursor *)base;
    return cursor->index >= cursor->source->count;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out_rowid) {
    *out_rowid = (sqlite3_int64)((const struct source_cursor *)base)->index;
    return SQLITE_OK;
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
    const struct source_cursor *cursor = (const struct source_cursor *)base;
    result_column(cursor->source, context, cursor->source->table->columns[column], cursor->index);
    return SQLITE_OK;
}

static const sqlite3_module source_module = {
    .xConnect = table_connect, /* no xCreate: the tables are there without being created */
    .xBestIndex = table_best_index,
    .xDisconnect = table_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

/* -- Inserting --------------------------------------------------------------------------------- */

static int insert(struct orr__table_writer *writer, sqlite3 *db, const struct table *table,
                  const void *items) {
    const unsigned char *timeline = (const unsigned char *)writer->timeline;
    struct source source = {.table = table, .writer = writer, .items = items};
    memcpy(&source.count, timeline + table->count, sizeof source.count);
    if (source.count == 0)
        return SQLITE_OK;
    char name[64], sql[SQL_MAX];
    snprintf(name, sizeof name, "src_%s", table->name);
    int code = sqlite3_create_module(db, name, &source_module, &source);
    snprintf(sql, sizeof sql, "INSERT INTO %s%s SELECT * FROM %s", table->name, table->columns_sql,
             name);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    /* The source is gone with this function, so its table must be, too. */
    sqlite3_create_module(db, name, NULL, NULL);
    return code;
}

static int compare_order(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    return x->order == y->order ? 0 : x->order < y->order ? -1 : 1;
}

/* Counters stand in the order in which they were written, which says who came first. */
static int insert_counters(struct orr__table_writer *writer, sqlite3 *db,
                           const struct table *table) {
    const struct orr_timeline *timeline = writer->timeline;
    size_t count = timeline->counter_count;
    struct orr_timeline_counter *sorted =
        orr_memory_resize(writer->memory, NULL, (count + 1) * sizeof *sorted);
    writer->no_memory |= !sorted;
    if (!sorted)
        return SQLITE_NOMEM;
    if (count > 0)
        memcpy(sorted, timeline->counters, count * sizeof *sorted);
    int code = SQLITE_OK;
    if (orr__stable_sort(writer->memory, sorted, count, sizeof *sorted, compare_order) != ORR_OK) {
        writer->no_memory = true;
        code = SQLITE_NOMEM;
    }
    if (code == SQLITE_OK)
        code = insert(writer, db, table, sorted);
    orr_memory_free(writer->memory, sorted);
    return code;
}

static int insert_array(struct orr__table_writer *writer, sqlite3 *db, const struct table *table) {
    if (table->items == offsetof(struct orr_timeline, counters))
        return insert_counters(writer, db, table);
    const void *items;
    memcpy(&items, (const unsigned char *)writer->timeline + table->items, sizeof items);
    return insert(writer, db, table, items);
}

static int insert_texts(const struct orr__table_writer *writer, sqlite3 *db) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "INSERT INTO text VALUES (?, ?)", -1, &statement, NULL);
    for (uint32_t id = 1; id < orr__text_ids_count(writer->ids) && code == SQLITE_OK; id++) {
        sqlite3_bind_int64(statement, 1, id);
        sqlite3_bind_text(statement, 2, orr__text_ids_text(writer->ids, id), -1, SQLITE_STATIC);
        sqlite3_step(statement);
        code = sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return code;
}

int orr__table_insert_all(struct orr__table_writer *writer, sqlite3 *db) {
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && code == SQLITE_OK; i++)
        code = insert_array(writer, db, &tables[i]);
    return code == SQLITE_OK ? insert_texts(writer, db) : code;
}
