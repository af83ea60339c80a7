#include "tests/trace_support.h"

#include <dirent.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void *failing_resize(void *context, void *block, size_t size) {
    struct trace_memory *memory = context;
    if (size == 0) {
        memory->live -= block != NULL;
        free(block);
        return NULL;
    }
    memory->requests++;
    if (memory->fail_at != 0 && memory->requests >= memory->fail_at)
        return NULL;
    void *result = realloc(block, size);
    memory->live += block == NULL && result != NULL;
    return result;
}

void trace_memory_init(struct trace_memory *memory, size_t fail_at) {
    *memory = (struct trace_memory){.table = {failing_resize, memory}, .fail_at = fail_at};
}

uint64_t trace_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

uint64_t trace_seed(void) {
    const char *text = getenv("ORR_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    seed = seed ? seed : 1;
    print_message("# ORR_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

void trace_folder_create(char *path) {
    const char *parent = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/orrery-trace-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(path));
}

const char *trace_path(char *buffer, const char *folder, const char *name) {
    assert_true(snprintf(buffer, PATH_MAX, "%s/%s", folder, name) < PATH_MAX);
    return buffer;
}

void trace_folder_remove(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char file[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        trace_path(file, path, entry->d_name);
        if (unlink(file) != 0)
            rmdir(file);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

int trace_set_up(void **state) {
    struct trace_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    trace_memory_init(&f->memory, 0);
    assert_int_equal(orr_names_create(&f->memory.table, &f->names), ORR_OK);
    trace_folder_create(f->folder);
    trace_path(f->path, f->folder, "run.db");
    *state = f;
    return 0;
}

int trace_tear_down(void **state) {
    struct trace_fixture *f = *state;
    orr_names_destroy(&f->names);
    assert_int_equal(f->memory.live, 0);
    trace_folder_remove(f->folder);
    free(f);
    return 0;
}

struct orr_sink *trace_open_sink(struct trace_fixture *f, const char *path,
                                 enum orr_sqlite_mode mode) {
    struct orr_sqlite_options options = {.mode = mode};
    struct orr_sink *sink;
    if (orr_sqlite_sink_open(path, &options, &f->memory.table, &sink, &f->error) != ORR_OK)
        fail_msg("%s", f->error.text);
    sink->names = f->names;
    return sink;
}

void trace_close_sink(struct trace_fixture *f, struct orr_sink *sink) {
    if (sink->close(sink, "ok", &f->error) != ORR_OK)
        fail_msg("%s", f->error.text);
}

struct orr_timeline *trace_read(struct trace_fixture *f, const char *path) {
    struct orr_timeline *timeline;
    if (orr_timeline_read(path, &f->memory.table, &timeline, &f->error) != ORR_OK)
        fail_msg("%s", f->error.text);
    return timeline;
}

bool trace_exists(const char *path, const char *suffix) {
    char name[PATH_MAX + 16];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

/* -- Records ----------------------------------------------------------------------------------- */

struct generator {
    struct orr_sink *sink;
    struct orr_names *names;
    uint64_t random;
};

static uint64_t below(struct generator *generator, uint64_t limit) {
    return trace_random(&generator->random) % limit;
}

static uint32_t name(struct generator *generator) {
    static const char *const odd[] = {"", "it's", "line\nbreak", "\xff\xfe not UTF-8", "日本語"};
    char text[32];
    uint64_t pick = below(generator, 40);
    if (pick < sizeof odd / sizeof *odd)
        snprintf(text, sizeof text, "%s", odd[pick]);
    else
        snprintf(text, sizeof text, "name %llu", (unsigned long long)pick);
    uint32_t id;
    assert_int_equal(orr_names_intern(generator->names, text, strlen(text), &id), ORR_OK);
    return id;
}

/* Counts that a database can hold: up to 2^63 - 1. */
static uint64_t count(struct generator *generator) {
    static const uint64_t some[] = {0, 1, 255, 256, 65536, (uint64_t)1 << 40, INT64_MAX};
    return some[below(generator, sizeof some / sizeof *some)];
}

static int64_t moment(struct generator *generator) {
    static const int64_t some[] = {ORR_TIME_NONE, 0, 1, -5, 1000000, INT64_MAX, INT64_MIN + 1};
    return some[below(generator, sizeof some / sizeof *some)];
}

static uint32_t maybe(struct generator *generator, uint32_t limit) {
    uint32_t value = (uint32_t)below(generator, (uint64_t)limit + 1);
    return value == limit ? ORR_ID_NONE : value;
}

static uint8_t dtype(struct generator *generator) {
    uint8_t value = (uint8_t)below(generator, ORR_DTYPE_COUNT + 1);
    return value == ORR_DTYPE_COUNT ? ORR_DTYPE_NONE : value;
}

#define PUSH(type, KIND, ...)                                                                      \
    do {                                                                                           \
        struct orr_record_##type record = {.header = ORR_RECORD_HEADER(type, KIND), __VA_ARGS__};  \
        orr_record_push(&g->sink->writer, &record);                                                \
    } while (0)

enum { DEVICES = 3, STREAMS = 7, HOSTS = 2, COMMUNICATORS = 2 };

static void write_machine(struct generator *g) {
    for (uint32_t i = 0; i < DEVICES; i++) {
        PUSH(device, DEVICE, .id = i, .name = name(g), .kind = name(g), .physical = i / 2,
             .profile = name(g), .mem_bytes = count(g), .bandwidth = count(g));
        PUSH(peak, PEAK, .header.a = ORR_UNIT_MATRIX, .header.b = (uint8_t)(i + 1), .device = i,
             .flops_per_s = count(g));
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        PUSH(stream, STREAM, .header.a = (uint8_t)(i % 3), .header.b = (uint8_t)(i % 4), .id = i,
             .device = i % DEVICES, .name = name(g));
    for (uint32_t i = 0; i < HOSTS; i++)
        PUSH(host, HOST, .id = i, .name = name(g));
    for (uint32_t i = 0; i < COMMUNICATORS; i++) {
        PUSH(communicator, COMMUNICATOR, .id = i, .name = name(g));
        for (uint32_t rank = 0; rank < DEVICES; rank++)
            PUSH(member, MEMBER, .communicator = i, .rank = rank, .device = rank);
    }
}

static void write_command(struct generator *g, uint64_t id) {
    PUSH(command, COMMAND, .header.a = (uint8_t)below(g, ORR_COMMAND_KIND_COUNT),
         .header.b = dtype(g), .header.c = (uint8_t)below(g, ORR_COMMAND_STATUS_COUNT),
         .header.d = (uint8_t)below(g, 2), .id = id, .seq = below(g, 100), .enqueue_ns = moment(g),
         .enqueued_ns = moment(g), .ready_ns = moment(g), .start_ns = moment(g),
         .finish_ns = moment(g), .flops = count(g), .bytes_read = count(g),
         .bytes_written = count(g), .op = below(g, 5), .name = name(g), .event = name(g),
         .site = name(g), .host = maybe(g, HOSTS), .device = maybe(g, DEVICES),
         .stream = maybe(g, STREAMS), .ts_source = name(g));
}

static void write_others(struct generator *g, uint64_t id) {
    static const enum orr_access_mode modes[] = {ORR_ACCESS_READ, ORR_ACCESS_WRITE,
                                                 ORR_ACCESS_READ_WRITE};
    for (uint64_t i = below(g, 3); i > 0; i--)
        PUSH(edge, EDGE, .header.a = (uint8_t)below(g, ORR_EDGE_KIND_COUNT),
             .src = 1 + below(g, id), .dst = id);
    for (uint64_t i = below(g, 3); i > 0; i--)
        PUSH(access, ACCESS, .header.a = (uint8_t)modes[below(g, 3)], .cmd = id,
             .buffer = 1 + below(g, 9), .offset = count(g), .bytes = count(g));
    PUSH(op, OP, .header.a = dtype(g), .id = id, .parent = below(g, id), .flops = count(g),
         .bytes_read = count(g), .bytes_written = count(g), .bytes_broadcast = count(g),
         .name = name(g), .kind = name(g), .site = name(g), .shape = name(g));
    PUSH(sync, SYNC, .header.a = (uint8_t)below(g, ORR_SYNC_KIND_COUNT), .id = id,
         .cmd = below(g, 4), .begin_ns = moment(g), .end_ns = moment(g), .host = maybe(g, HOSTS),
         .target = (uint32_t)below(g, STREAMS));
    PUSH(buffer, BUFFER, .header.a = (uint8_t)below(g, ORR_ROLE_COUNT), .id = id,
         .block = below(g, 9), .bytes = count(g), .alloc_cmd = below(g, 9),
         .device = maybe(g, DEVICES), .stream = maybe(g, STREAMS), .label = name(g),
         .memory = name(g));
    if (id % 3 == 0)
        PUSH(buffer_role, BUFFER_ROLE, .header.a = (uint8_t)below(g, ORR_ROLE_COUNT), .id = id,
             .after_cmd = below(g, 9), .ts_ns = (int64_t)below(g, 1000));
    if (id > 3 && id % 2 == 0)
        PUSH(buffer_free, BUFFER_FREE, .id = id - 3, .free_cmd = id);
    PUSH(collective, COLLECTIVE, .header.a = dtype(g), .header.b = below(g, 2) == 1, .id = id,
         .modelled_ns = below(g, 2) ? (int64_t)below(g, 1000) : ORR_TIME_NONE, .seq = id,
         .bytes = count(g), .communicator = maybe(g, COMMUNICATORS), .kind = name(g),
         .algorithm = name(g), .protocol = name(g), .root = maybe(g, DEVICES),
         .peer = maybe(g, DEVICES));
    PUSH(collective_member, COLLECTIVE_MEMBER, .collective = id, .cmd = id, .rank = 1);
    PUSH(collective_member, COLLECTIVE_MEMBER, .collective = id, .cmd = id, .rank = 0);
    PUSH(counter, COUNTER, .ts_ns = (int64_t)below(g, 1000), .value = (double)below(g, 99) / 8,
         .device = maybe(g, DEVICES), .name = name(g));
    PUSH(finding, FINDING, .id = id, .cmd_a = below(g, 9), .cmd_b = below(g, 9),
         .buffer = below(g, 9), .kind = name(g), .severity = name(g), .message = name(g),
         .fix = name(g));
}

void trace_write_random(struct orr_sink *sink, struct orr_names *names, uint64_t seed,
                        uint64_t commands) {
    struct generator generator = {sink, names, seed * 2654435761u + 1}, *g = &generator;
    uint64_t *ids = calloc(commands + 1, sizeof *ids);
    assert_non_null(ids);
    write_machine(g);
    uint32_t key;
    assert_int_equal(orr_names_intern(names, "clock", 5, &key), ORR_OK);
    PUSH(meta, META, .key = key, .value = name(g));
    for (uint64_t i = 0; i < commands; i++)
        ids[i] = i + 1;
    for (uint64_t i = commands; i > 1; i--) { /* shuffled within a window, as completions are */
        uint64_t other = i - 1 - below(g, i < 50 ? i : 50), id = ids[i - 1];
        ids[i - 1] = ids[other];
        ids[other] = id;
    }
    for (uint64_t i = 0; i < commands; i++) {
        write_command(g, ids[i]);
        write_others(g, i + 1);
    }
    free(ids);
}

void trace_copy(const struct orr_record_memory *store, struct orr_sink *sink) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    while ((record = orr_record_memory_next(store, &cursor)) != NULL)
        orr_record_push(&sink->writer, record);
}

void trace_write_commands(struct orr_sink *sink, uint64_t first, uint64_t last) {
    for (uint64_t id = first; id <= last; id++) {
        int64_t t = (int64_t)id * 1000;
        struct orr_record_command record = {
            .header = ORR_RECORD_HEADER(command, COMMAND),
            .id = id,
            .seq = id / 4 + 1,
            .enqueue_ns = t,
            .enqueued_ns = t + 100,
            .ready_ns = t + 100,
            .start_ns = t + 300,
            .finish_ns = t + 800,
            .flops = 1000000,
            .bytes_read = 8192,
            .bytes_written = 4096,
            .stream = (uint32_t)(id % 4),
        };
        record.header.b = ORR_DTYPE_BF16;
        record.header.c = ORR_COMMAND_STATUS_OK;
        orr_record_push(&sink->writer, &record);
    }
}

/* -- Files ------------------------------------------------------------------------------------- */

unsigned char *trace_read_file(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*out_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *out_size, file), *out_size);
    fclose(file);
    return bytes;
}

void trace_write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* -- SQL --------------------------------------------------------------------------------------- */

static sqlite3 *open_database(const char *path, int flags) {
    sqlite3 *db;
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(db, 10000) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(db));
    return db;
}

static sqlite3_stmt *first_row(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    if (sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: no row: %s", sql, sqlite3_errmsg(db));
    return statement;
}

int64_t trace_query_int(const char *path, const char *sql) {
    sqlite3 *db = open_database(path, SQLITE_OPEN_READONLY);
    sqlite3_stmt *statement = first_row(db, sql);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

char *trace_query_text(const char *path, const char *sql) {
    sqlite3 *db = open_database(path, SQLITE_OPEN_READONLY);
    sqlite3_stmt *statement = first_row(db, sql);
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    char *copy = strdup(text ? text : "");
    assert_non_null(copy);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return copy;
}

void trace_execute(const char *path, const char *sql) {
    sqlite3 *db = open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}
