/* Virtual tables over a chunk of records.
 *
 *     words    [cmd 7][edge][access][access][cmd 3][edge][sync 1] ...     as the runtime wrote them
 *     offsets  command: 40 0 | edge: 15 55 | access: 18 23 | sync: 58     sorted into kinds
 *
 * and one virtual table per kind that walks its offsets. Kinds whose table has an id as primary key
 * are brought into the order of ids first, because commands come in the order of completion: the
 * B-tree then grows at its right edge. */
#include "trace/sqlite_rows.h"

#include <stdbool.h>
#include <stdio.h>

enum { FIELDS_MAX = 20, SQL_MAX = 256 };

enum field_type {
    FIELD_BYTE,       /* a byte of the header */
    FIELD_INDEX,      /* u32; ORR_ID_NONE is NULL */
    FIELD_NAME,       /* u32 id of a name, stored as such; 0 is NULL */
    FIELD_TEXT,       /* u32 id of a name, stored as text; 0 is NULL */
    FIELD_STRING,     /* the same, but 0 is '' */
    FIELD_COUNT,      /* u64 */
    FIELD_ID,         /* u64; 0 is NULL */
    FIELD_TIME,       /* i64; ORR_TIME_NONE is NULL */
    FIELD_REAL,       /* double */
    FIELD_CODE,       /* the header of a command in one integer, see cmd_row in schema.sql */
    FIELD_DTYPE,      /* a byte of the header; ORR_DTYPE_NONE is NULL */
    FIELD_DTYPE_TEXT, /* bytes of the header, stored as text */
    FIELD_UNIT_TEXT,
    FIELD_STREAM_KIND_TEXT,
    FIELD_STREAM_SYNC_TEXT
};

struct field {
    uint8_t type, offset; /* offset: bytes into the record */
};

struct table {
    const char *source; /* the virtual table; NULL: no such kind */
    const char *insert; /* the statement up to SELECT */
    bool by_id;         /* sort by the u64 after the header */
    int field_count;
    struct field fields[FIELDS_MAX];
};

#define HEADER(type, member)                                                                       \
    { FIELD_##type, offsetof(struct orr_record, member) }
#define META(type, member)                                                                         \
    { FIELD_##type, offsetof(struct orr_record_meta, member) }
#define DEVICE(type, member)                                                                       \
    { FIELD_##type, offsetof(struct orr_record_device, member) }
#define PEAK(type, member)                                                                         \
    { FIELD_##type, offsetof(struct orr_record_peak, member) }
#define STREAM(type, member)                                                                       \
    { FIELD_##type, offsetof(struct orr_record_stream, member) }
#define HOST(type, member)                                                                         \
    { FIELD_##type, offsetof(struct orr_record_host, member) }
#define OP(type, member)                                                                           \
    { FIELD_##type, offsetof(struct orr_record_op, member) }
#define COMMAND(type, member)                                                                      \
    { FIELD_##type, offsetof(struct orr_record_command, member) }
#define EDGE(type, member)                                                                         \
    { FIELD_##type, offsetof(struct orr_record_edge, member) }
#define SYNC(type, member)                                                                         \
    { FIELD_##type, offsetof(struct orr_record_sync, member) }
#define BUFFER(type, member)                                                                       \
    { FIELD_##type, offsetof(struct orr_record_buffer, member) }
#define BUFFER_FREE(type, member)                                                                  \
    { FIELD_##type, offsetof(struct orr_record_buffer_free, member) }
#define BUFFER_ROLE(type, member)                                                                  \
    { FIELD_##type, offsetof(struct orr_record_buffer_role, member) }
#define ACCESS(type, member)                                                                       \
    { FIELD_##type, offsetof(struct orr_record_access, member) }
#define COMMUNICATOR(type, member)                                                                 \
    { FIELD_##type, offsetof(struct orr_record_communicator, member) }
#define MEMBER(type, member)                                                                       \
    { FIELD_##type, offsetof(struct orr_record_member, member) }
#define COLLECTIVE(type, member)                                                                   \
    { FIELD_##type, offsetof(struct orr_record_collective, member) }
#define COLLECTIVE_MEMBER(type, member)                                                            \
    { FIELD_##type, offsetof(struct orr_record_collective_member, member) }
#define COUNTER(type, member)                                                                      \
    { FIELD_##type, offsetof(struct orr_record_counter, member) }
#define FINDING(type, member)                                                                      \
    { FIELD_##type, offsetof(struct orr_record_finding, member) }

#define TABLE(name, insert_into, sorted, ...)                                                      \
    {                                                                                              \
        .source = "src_" name, .insert = insert_into, .by_id = sorted,                             \
        .field_count = (int)(sizeof((struct field[]){__VA_ARGS__}) / sizeof(struct field)),        \
        .fields = {__VA_ARGS__},                                                                   \
    }

/* In the order of the columns of schema.sql. */
static const struct table tables[ORR_RECORD_KIND_COUNT] = {
    [ORR_RECORD_META] =
        TABLE("meta", "INSERT OR REPLACE INTO meta", false, META(STRING, key), META(STRING, value)),
    [ORR_RECORD_DEVICE] = TABLE(
        "device", "INSERT INTO device(id, name, kind, physical, profile, mem_bytes, bandwidth)",
        false, DEVICE(INDEX, id), DEVICE(TEXT, name), DEVICE(TEXT, kind), DEVICE(INDEX, physical),
        DEVICE(TEXT, profile), DEVICE(COUNT, mem_bytes), DEVICE(COUNT, bandwidth)),
    [ORR_RECORD_PEAK] =
        TABLE("peak", "INSERT OR REPLACE INTO device_peak", false, PEAK(INDEX, device),
              HEADER(UNIT_TEXT, a), HEADER(DTYPE_TEXT, b), PEAK(COUNT, flops_per_s)),
    [ORR_RECORD_STREAM] = TABLE("stream", "INSERT INTO stream(id, device, name, kind, sync)", false,
                                STREAM(INDEX, id), STREAM(INDEX, device), STREAM(TEXT, name),
                                HEADER(STREAM_KIND_TEXT, a), HEADER(STREAM_SYNC_TEXT, b)),
    [ORR_RECORD_HOST] =
        TABLE("host", "INSERT INTO host(id, name)", false, HOST(INDEX, id), HOST(TEXT, name)),
    [ORR_RECORD_OP] =
        TABLE("op", "INSERT INTO op_row", true, OP(COUNT, id), OP(ID, parent), OP(NAME, name),
              OP(NAME, kind), OP(NAME, site), OP(NAME, shape), HEADER(DTYPE, a), OP(COUNT, flops),
              OP(COUNT, bytes_read), OP(COUNT, bytes_written), OP(COUNT, bytes_broadcast)),
    [ORR_RECORD_COMMAND] = TABLE(
        "command", "INSERT INTO cmd_row", true, COMMAND(COUNT, id), COMMAND(ID, op),
        COMMAND(INDEX, host), COMMAND(INDEX, device), COMMAND(INDEX, stream), COMMAND(COUNT, seq),
        HEADER(CODE, a), COMMAND(NAME, name), COMMAND(NAME, event), COMMAND(NAME, site),
        COMMAND(TIME, enqueue_ns), COMMAND(TIME, enqueued_ns), COMMAND(TIME, ready_ns),
        COMMAND(TIME, start_ns), COMMAND(TIME, finish_ns), COMMAND(COUNT, flops),
        COMMAND(COUNT, bytes_read), COMMAND(COUNT, bytes_written), COMMAND(NAME, ts_source)),
    [ORR_RECORD_EDGE] = TABLE("edge", "INSERT INTO edge_row", false, EDGE(COUNT, src),
                              EDGE(COUNT, dst), HEADER(BYTE, a)),
    [ORR_RECORD_SYNC] = TABLE("sync", "INSERT INTO sync_row", true, SYNC(COUNT, id),
                              SYNC(INDEX, host), HEADER(BYTE, a), SYNC(INDEX, target),
                              SYNC(TIME, begin_ns), SYNC(TIME, end_ns), SYNC(ID, cmd)),
    [ORR_RECORD_BUFFER] =
        TABLE("buffer", "INSERT INTO buffer_row", true, BUFFER(COUNT, id), BUFFER(INDEX, device),
              BUFFER(ID, block), BUFFER(NAME, memory), BUFFER(INDEX, stream), BUFFER(COUNT, bytes),
              BUFFER(NAME, label), BUFFER(ID, alloc_cmd), HEADER(BYTE, a)),
    [ORR_RECORD_BUFFER_FREE] = TABLE("buffer_free", "INSERT INTO buffer_free_row", true,
                                     BUFFER_FREE(COUNT, id), BUFFER_FREE(ID, free_cmd)),
    [ORR_RECORD_BUFFER_ROLE] =
        TABLE("buffer_role", "INSERT INTO buffer_role_row", false, BUFFER_ROLE(COUNT, id),
              HEADER(BYTE, a), BUFFER_ROLE(ID, after_cmd), BUFFER_ROLE(TIME, ts_ns)),
    [ORR_RECORD_ACCESS] =
        TABLE("access", "INSERT INTO access_row", false, ACCESS(COUNT, cmd), ACCESS(COUNT, buffer),
              ACCESS(COUNT, offset), ACCESS(COUNT, bytes), HEADER(BYTE, a)),
    [ORR_RECORD_COMMUNICATOR] = TABLE("communicator", "INSERT INTO communicator", false,
                                      COMMUNICATOR(INDEX, id), COMMUNICATOR(TEXT, name)),
    [ORR_RECORD_MEMBER] =
        TABLE("member", "INSERT INTO communicator_member", false, MEMBER(INDEX, communicator),
              MEMBER(INDEX, rank), MEMBER(INDEX, device)),
    [ORR_RECORD_COLLECTIVE] =
        TABLE("collective", "INSERT INTO collective_row", true, COLLECTIVE(COUNT, id),
              COLLECTIVE(INDEX, communicator), COLLECTIVE(COUNT, seq), COLLECTIVE(NAME, kind),
              COLLECTIVE(COUNT, bytes), HEADER(DTYPE, a), COLLECTIVE(INDEX, root),
              COLLECTIVE(INDEX, peer), COLLECTIVE(NAME, algorithm), COLLECTIVE(NAME, protocol),
              HEADER(BYTE, b), COLLECTIVE(TIME, modelled_ns)),
    [ORR_RECORD_COLLECTIVE_MEMBER] =
        TABLE("collective_member", "INSERT INTO collective_member", false,
              COLLECTIVE_MEMBER(COUNT, collective), COLLECTIVE_MEMBER(INDEX, rank),
              COLLECTIVE_MEMBER(COUNT, cmd)),
    [ORR_RECORD_COUNTER] =
        TABLE("counter", "INSERT INTO counter_row", false, COUNTER(INDEX, device),
              COUNTER(NAME, name), COUNTER(TIME, ts_ns), COUNTER(REAL, value)),
    [ORR_RECORD_FINDING] =
        TABLE("finding", "INSERT INTO finding", true, FINDING(COUNT, id), FINDING(TEXT, kind),
              FINDING(TEXT, severity), FINDING(ID, cmd_a), FINDING(ID, cmd_b), FINDING(ID, buffer),
              FINDING(TEXT, message), FINDING(TEXT, fix)),
};

/* One kind of record within the current chunk: what a virtual table reads. */
struct source {
    const struct table *table;
    struct orr__rows *rows;
    uint32_t *offsets; /* words into the chunk, into rows->offsets */
    size_t count;
};

struct orr__rows {
    const struct orr_memory *memory;
    const struct orr_names *names; /* of the current chunk, as the next */
    const uint64_t *words;
    struct source sources[ORR_RECORD_KIND_COUNT];
    sqlite3_stmt *inserts[ORR_RECORD_KIND_COUNT];
    size_t offset_capacity;
    uint32_t *offsets, *spare; /* spare: for sorting */
};

struct source_table {
    sqlite3_vtab base;
    const struct source *source;
};

struct source_cursor {
    sqlite3_vtab_cursor base;
    const struct source *source;
    const struct field *fields; /* of the source's table */
    const unsigned char *record;
    size_t index;
};

/* -- The virtual tables ------------------------------------------------------------------------ */

static int table_connect(sqlite3 *db, void *context, int argument_count,
                         const char *const *arguments, sqlite3_vtab **out_table, char **out_text) {
    (void)argument_count;
    (void)arguments;
    (void)out_text;
    const struct source *source = context;
    char sql[SQL_MAX];
    int length = snprintf(sql, sizeof sql, "CREATE TABLE x(");
    for (int i = 0; i < source->table->field_count; i++)
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
    const struct source *source = ((struct source_table *)table)->source;
    *cursor = (struct source_cursor){.source = source, .fields = source->table->fields};
    *out_cursor = &cursor->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

static void cursor_seek(struct source_cursor *cursor, size_t index) {
    const struct source *source = cursor->source;
    cursor->index = index;
    if (index < source->count)
        cursor->record = (const void *)(source->rows->words + source->offsets[index]);
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

static uint32_t load_u32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t load_u64(const unsigned char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void result_u64(sqlite3_context *context, uint64_t value) {
    sqlite3_result_int64(context, value > INT64_MAX ? INT64_MAX : (sqlite3_int64)value);
}

static void result_text(sqlite3_context *context, const char *text) {
    sqlite3_result_text(context, text, -1, SQLITE_STATIC);
}

/* `at` is the first small field of a command's header. */
static void result_code(sqlite3_context *context, const unsigned char *at) {
    const unsigned char *record = at - offsetof(struct orr_record, a);
    uint32_t host = load_u32(record + offsetof(struct orr_record_command, host));
    uint32_t caller = load_u32(record + offsetof(struct orr_record_command, caller));
    uint8_t dtype = (uint8_t)(at[1] + 1); /* ORR_DTYPE_NONE becomes 0 */
    int64_t code = at[0] | at[2] << 8 | at[3] << 16 | (int64_t)dtype << 24;
    if (caller > 0 && caller - 1 != host)
        code |= (int64_t)(caller & INT32_MAX) << 32;
    sqlite3_result_int64(context, code);
}

/* A column that is left without a result is NULL. */
static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
    const struct source_cursor *cursor = (const struct source_cursor *)base;
    struct field field = cursor->fields[column];
    const unsigned char *at = cursor->record + field.offset;
    switch ((enum field_type)field.type) {
    case FIELD_BYTE: sqlite3_result_int(context, *at); break;
    case FIELD_INDEX:
        if (load_u32(at) != ORR_ID_NONE)
            sqlite3_result_int64(context, load_u32(at));
        break;
    case FIELD_NAME:
        if (load_u32(at) != 0)
            sqlite3_result_int64(context, load_u32(at));
        break;
    case FIELD_TEXT:
        if (load_u32(at) != 0)
            result_text(context, orr_names_text(cursor->source->rows->names, load_u32(at)));
        break;
    case FIELD_STRING:
        result_text(context, orr_names_text(cursor->source->rows->names, load_u32(at)));
        break;
    case FIELD_COUNT: result_u64(context, load_u64(at)); break;
    case FIELD_ID:
        if (load_u64(at) != 0)
            result_u64(context, load_u64(at));
        break;
    case FIELD_TIME:
        if ((int64_t)load_u64(at) != ORR_TIME_NONE)
            sqlite3_result_int64(context, (int64_t)load_u64(at));
        break;
    case FIELD_REAL: {
        double value;
        memcpy(&value, at, sizeof value);
        sqlite3_result_double(context, value);
        break;
    }
    case FIELD_CODE: result_code(context, at); break;
    case FIELD_DTYPE:
        if (*at != ORR_DTYPE_NONE)
            sqlite3_result_int(context, *at);
        break;
    case FIELD_DTYPE_TEXT: result_text(context, orr_dtype_name((enum orr_dtype) * at)); break;
    case FIELD_UNIT_TEXT: result_text(context, *at == ORR_UNIT_MATRIX ? "matrix" : "vector"); break;
    case FIELD_STREAM_KIND_TEXT:
        result_text(context, orr_stream_kind_text((enum orr_stream_kind) * at));
        break;
    case FIELD_STREAM_SYNC_TEXT:
        result_text(context, orr_stream_sync_text((enum orr_stream_sync) * at));
        break;
    }
    return SQLITE_OK;
}

/* Without xCreate the table exists by its name alone, in every connection that has the module. */
static const sqlite3_module source_module = {
    .xConnect = table_connect,
    .xDisconnect = table_disconnect,
    .xBestIndex = table_best_index,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

/* -- From a chunk to offsets per kind ---------------------------------------------------------- */

static uint64_t id_at(const struct orr__rows *rows, uint32_t offset) {
    return rows->words[offset + 1];
}

/* Radix sort by id, least byte first, as many bytes as the range of ids has. */
static void sort_by_id(struct orr__rows *rows, struct source *source) {
    uint64_t least = UINT64_MAX, most = 0;
    bool sorted = true;
    for (size_t i = 0; i < source->count; i++) {
        uint64_t id = id_at(rows, source->offsets[i]);
        sorted = sorted && id >= most;
        least = id < least ? id : least;
        most = id > most ? id : most;
    }
    if (sorted)
        return;
    for (unsigned shift = 0; shift < 64 && (most - least) >> shift != 0; shift += 8) {
        uint32_t starts[257] = {0};
        for (size_t i = 0; i < source->count; i++)
            starts[((id_at(rows, source->offsets[i]) - least) >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            starts[i + 1] += starts[i];
        for (size_t i = 0; i < source->count; i++) {
            uint32_t offset = source->offsets[i];
            rows->spare[starts[(id_at(rows, offset) - least) >> shift & 255]++] = offset;
        }
        memcpy(source->offsets, rows->spare, source->count * sizeof *source->offsets);
    }
}

static void sort_chunk(struct orr__rows *rows, size_t word_count) {
    size_t counts[ORR_RECORD_KIND_COUNT] = {0};
    for (size_t word = 0; word < word_count;) {
        const struct orr_record *record = (const void *)(rows->words + word);
        assert(record->kind > 0 && record->kind < ORR_RECORD_KIND_COUNT && record->words > 0);
        counts[record->kind]++;
        word += record->words;
    }
    size_t total = 0;
    for (int kind = 1; kind < ORR_RECORD_KIND_COUNT; kind++) {
        rows->sources[kind].offsets = rows->offsets + total;
        rows->sources[kind].count = 0;
        total += counts[kind];
    }
    assert(total <= rows->offset_capacity);
    for (size_t word = 0; word < word_count;) {
        const struct orr_record *record = (const void *)(rows->words + word);
        struct source *source = &rows->sources[record->kind];
        source->offsets[source->count++] = (uint32_t)word;
        word += record->words;
    }
    for (int kind = 1; kind < ORR_RECORD_KIND_COUNT; kind++)
        if (tables[kind].by_id)
            sort_by_id(rows, &rows->sources[kind]);
}

int orr__rows_insert(struct orr__rows *rows, const struct orr_names *names, const uint64_t *words,
                     size_t word_count) {
    rows->names = names;
    rows->words = words;
    sort_chunk(rows, word_count);
    for (int kind = 1; kind < ORR_RECORD_KIND_COUNT; kind++) {
        if (rows->sources[kind].count == 0)
            continue;
        sqlite3_step(rows->inserts[kind]);
        int code = sqlite3_reset(rows->inserts[kind]);
        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

static int prepare(struct orr__rows *rows, sqlite3 *db, int kind) {
    const struct table *table = &tables[kind];
    struct source *source = &rows->sources[kind];
    *source = (struct source){.table = table, .rows = rows};
    int code = sqlite3_create_module(db, table->source, &source_module, source);
    if (code != SQLITE_OK)
        return code;
    char sql[SQL_MAX];
    snprintf(sql, sizeof sql, "%s SELECT * FROM %s", table->insert, table->source);
    return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &rows->inserts[kind], NULL);
}

enum orr_status orr__rows_create(const struct orr_memory *memory, sqlite3 *db, size_t chunk_words,
                                 struct orr__rows **out_rows, struct orr_error *error) {
    *out_rows = NULL;
    struct orr__rows *rows = orr_memory_alloc(memory, sizeof *rows);
    if (!rows)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a trace");
    rows->memory = memory;
    rows->offset_capacity = chunk_words / (sizeof(struct orr_record_host) / sizeof(uint64_t));
    rows->offsets = orr_memory_resize(memory, NULL, rows->offset_capacity * sizeof(uint32_t));
    rows->spare = orr_memory_resize(memory, NULL, rows->offset_capacity * sizeof(uint32_t));
    int code = rows->offsets && rows->spare ? SQLITE_OK : SQLITE_NOMEM;
    for (int kind = 1; kind < ORR_RECORD_KIND_COUNT && code == SQLITE_OK; kind++)
        code = prepare(rows, db, kind);
    if (code == SQLITE_OK) {
        *out_rows = rows;
        return ORR_OK;
    }
    orr__rows_destroy(&rows);
    if (code == SQLITE_NOMEM)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a trace");
    return orr_error_set(error, ORR_IO, "cannot prepare a trace: %s", sqlite3_errmsg(db));
}

void orr__rows_destroy(struct orr__rows **rows) {
    if (!*rows)
        return;
    const struct orr_memory *memory = (*rows)->memory;
    for (int kind = 1; kind < ORR_RECORD_KIND_COUNT; kind++)
        sqlite3_finalize((*rows)->inserts[kind]);
    orr_memory_free(memory, (*rows)->offsets);
    orr_memory_free(memory, (*rows)->spare);
    orr_memory_free(memory, *rows);
    *rows = NULL;
}
