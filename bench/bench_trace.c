/* What a trace record costs: to write it, to bring it into the database, to read it back.
 *
 *     build/release/bench/bench_trace [ROWS] [FOLDER]        500,000 rows, $TMPDIR or /tmp
 *
 * Prints `name,value,unit`. Writing a record: the least of several rounds, ns of the thread's CPU
 * time. SQLite: medians of rounds that alternate between our sink and a loop that binds and steps a
 * prepared INSERT for the same rows, with the same settings and rows per transaction; the ratio is
 * of CPU times of the same round. "wall" is the monotonic clock. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/record_memory.h"
#include "trace/sqlite_file.h"
#include "trace/sqlite_sink.h"
#include "trace/timeline.h"

enum { ROUNDS = 7, RECORDS = 4000000, KEPT = 400000, COMMIT_ROWS = 2048, PATH_BYTES = 4096 };

static double clock_s(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "bench_trace: %s\n", what);
    exit(1);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, compare_doubles);
    return values[ROUNDS / 2];
}

static void print(const char *name, double value, const char *unit) {
    printf("%s,%.3f,%s\n", name, value, unit);
}

/* -- One record -------------------------------------------------------------------------------- */

/* What the runtime has at hand for a simulated command. */
static void push_command(struct orr_record_writer *writer, uint64_t id) {
    int64_t t = (int64_t)id * 1500;
    struct orr_record_command *r = orr_record_reserve(writer, sizeof *r / sizeof(uint64_t));
    *r = (struct orr_record_command){
        .header = ORR_RECORD_HEADER(command, COMMAND),
        .id = id,
        .seq = id / 8 + 1,
        .enqueue_ns = t,
        .enqueued_ns = t + 900,
        .ready_ns = t + 2000,
        .start_ns = t + 5000,
        .finish_ns = t + 250000,
        .flops = 34359738368u + id,
        .bytes_read = 67108864,
        .bytes_written = 33554432,
        .op = id / 2 + 1,
        .name = (uint32_t)(1 + id % 60),
        .site = (uint32_t)(61 + id % 20),
        .device = (uint32_t)(id % 8),
        .stream = (uint32_t)(id % 24),
    };
    r->header.b = ORR_DTYPE_BF16;
    r->header.c = ORR_COMMAND_STATUS_OK;
    r->header.d = ORR_UNIT_MATRIX;
}

static void push_edge(struct orr_record_writer *writer, uint64_t id) {
    struct orr_record_edge *r = orr_record_reserve(writer, sizeof *r / sizeof(uint64_t));
    *r =
        (struct orr_record_edge){.header = ORR_RECORD_HEADER(edge, EDGE), .src = id, .dst = id + 1};
}

static void push_access(struct orr_record_writer *writer, uint64_t id) {
    struct orr_record_access r = {.header = ORR_RECORD_HEADER(access, ACCESS),
                                  .cmd = id,
                                  .buffer = id % 1000,
                                  .offset = (id % 4) << 20,
                                  .bytes = 1 << 20};
    r.header.a = ORR_ACCESS_READ;
    orr_record_push(writer, &r);
}

/* A record that is complete, as the runtime hands over a command that has retired. */
static struct orr_record_command complete = {
    .header = ORR_RECORD_HEADER(command, COMMAND), .start_ns = 5000, .finish_ns = 250000};

static void push_complete_command(struct orr_record_writer *writer, uint64_t id) {
    complete.id = id;
    orr_record_push(writer, &complete);
}

static void push_edge_with_clock(struct orr_record_writer *writer, uint64_t id) {
    struct timespec now; /* as the backend of CPU threads stamps */
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct orr_record_edge *r = orr_record_reserve(writer, sizeof *r / sizeof(uint64_t));
    *r =
        (struct orr_record_edge){.header = ORR_RECORD_HEADER(edge, EDGE),
                                 .src = id,
                                 .dst = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
}

/* `writer` NULL: no trace, as the runtime sees it. Not inlined: the check has to be made. */
static __attribute__((noinline)) void push_if_traced(struct orr_record_writer *writer,
                                                     uint64_t id) {
    if (writer)
        push_edge(writer, id);
}

static void time_pushes(const char *name, struct orr_record_writer *writer,
                        void (*push)(struct orr_record_writer *writer, uint64_t id)) {
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double before = clock_s(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t id = 0; id < RECORDS; id++)
            push(writer, id);
        double spent = clock_s(CLOCK_THREAD_CPUTIME_ID) - before;
        least = spent < least ? spent : least;
    }
    print(name, least / RECORDS * 1e9, "ns/record");
}

/* Into memory that grows; the store is new each time. */
static void time_memory(const struct orr_memory *memory, const char *name,
                        void (*push)(struct orr_record_writer *writer, uint64_t id)) {
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct orr_record_memory *store;
        must(orr_record_memory_create(memory, &store) == ORR_OK, "no memory");
        struct orr_record_writer *writer = &orr_record_memory_sink(store)->writer;
        double before = clock_s(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t id = 0; id < KEPT; id++)
            push(writer, id);
        double spent = clock_s(CLOCK_THREAD_CPUTIME_ID) - before;
        least = spent < least ? spent : least;
        orr_record_memory_destroy(&store);
    }
    print(name, least / KEPT * 1e9, "ns/record");
}

static void bench_records(const struct orr_memory *memory) {
    struct orr_sink *null;
    must(orr_null_sink_create(memory, &null) == ORR_OK, "no memory");
    time_pushes("trace_record_off", NULL, push_if_traced);
    time_pushes("trace_record_24_bytes", &null->writer, push_edge);
    time_pushes("trace_record_24_bytes_with_clock", &null->writer, push_edge_with_clock);
    time_pushes("trace_record_128_bytes", &null->writer, push_complete_command);
    must(null->close(null, "ok", NULL) == ORR_OK, "close");
    time_memory(memory, "trace_record_24_bytes_kept", push_edge);
    time_memory(memory, "trace_record_128_bytes_kept", push_complete_command);
}

/* -- The database ------------------------------------------------------------------------------ */

struct spent {
    double cpu_s, wall_s;
};

static struct spent now(void) {
    return (struct spent){clock_s(CLOCK_PROCESS_CPUTIME_ID), clock_s(CLOCK_MONOTONIC)};
}

static struct spent since(struct spent before) {
    struct spent after = now();
    return (struct spent){after.cpu_s - before.cpu_s, after.wall_s - before.wall_s};
}

/* A command with its edge and two accesses, or commands alone. */
static struct spent write_sink(const char *path, enum orr_sqlite_mode mode, uint64_t rows,
                               int mixed, const struct orr_memory *memory) {
    struct spent before = now();
    struct orr_sqlite_options options = {.mode = mode};
    struct orr_error error = {0};
    struct orr_sink *sink;
    must(orr_sqlite_sink_open(path, &options, memory, &sink, &error) == ORR_OK, error.text);
    for (uint64_t id = 1; id <= rows; id++) {
        push_command(&sink->writer, id ^ 1);
        if (mixed) {
            push_edge(&sink->writer, id);
            push_access(&sink->writer, id);
            push_access(&sink->writer, id);
        }
    }
    must(sink->close(sink, "ok", &error) == ORR_OK, error.text);
    return since(before);
}

static void bind_command(sqlite3_stmt *s, const struct orr_record_command *r) {
    uint8_t dtype = (uint8_t)(r->header.b + 1);
    int64_t code = r->header.a | r->header.c << 8 | r->header.d << 16 | (int64_t)dtype << 24;
    const int64_t values[] = {
        (int64_t)r->id,
        (int64_t)r->op,
        r->host,
        r->device,
        r->stream,
        (int64_t)r->seq,
        code,
        r->name,
        -1,
        r->site,
        r->enqueue_ns,
        r->enqueued_ns,
        r->ready_ns,
        r->start_ns,
        r->finish_ns,
        (int64_t)r->flops,
        (int64_t)r->bytes_read,
        (int64_t)r->bytes_written,
    };
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++)
        if (i != 8) /* no event, and no ts_source: NULL */
            sqlite3_bind_int64(s, i + 1, values[i]);
}

static struct spent write_prepared(const char *path, uint64_t rows,
                                   const struct orr_memory *memory) {
    struct spent before = now();
    struct orr_sink *null; /* a record as the sink gets it, one at a time */
    struct orr_error error = {0};
    sqlite3 *db;
    sqlite3_stmt *insert;
    must(orr_null_sink_create(memory, &null) == ORR_OK, "no memory");
    must(orr__sqlite_create(path, NULL, 1000, &db, &error) == ORR_OK, error.text);
    must(sqlite3_prepare_v3(db,
                            "INSERT INTO cmd_row VALUES "
                            "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                            -1, SQLITE_PREPARE_PERSISTENT, &insert, NULL) == SQLITE_OK,
         "prepare");
    for (uint64_t id = 1; id <= rows; id++) {
        if (id % COMMIT_ROWS == 1)
            must(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK, "begin");
        push_command(&null->writer, id);
        bind_command(insert, (const void *)(null->writer.cursor - 16));
        sqlite3_step(insert);
        must(sqlite3_reset(insert) == SQLITE_OK, "insert");
        if (id % COMMIT_ROWS == 0 || id == rows)
            must(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK, "commit");
    }
    sqlite3_finalize(insert);
    must(sqlite3_close(db) == SQLITE_OK, "close");
    must(null->close(null, "ok", NULL) == ORR_OK, "close");
    return since(before);
}

static struct spent read_back(const char *path, uint64_t rows, const struct orr_memory *memory) {
    struct spent before = now();
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    must(orr_timeline_read(path, memory, &timeline, &error) == ORR_OK, error.text);
    must(timeline->command_count == rows, "rows are missing");
    struct spent spent = since(before);
    orr_timeline_destroy(&timeline);
    return spent;
}

static struct spent run_query(const char *path, const char *sql) {
    struct spent before = now();
    sqlite3 *db;
    must(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK, "open");
    must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sqlite3_errmsg(db));
    sqlite3_close(db);
    return since(before);
}

static void bench_database(const char *path, uint64_t rows, const struct orr_memory *memory) {
    double ours[ROUNDS], prepared[ROUNDS], ratio[ROUNDS], ours_wall[ROUNDS], thread_wall[ROUNDS],
        mixed[ROUNDS], read_cpu[ROUNDS], timing[ROUNDS];
    double count = (double)rows, bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct spent a = write_sink(path, ORR_SQLITE_INLINE, rows, 0, memory);
        struct stat info;
        must(stat(path, &info) == 0, "stat");
        bytes = (double)info.st_size;
        read_cpu[round] = count / read_back(path, rows, memory).cpu_s;
        timing[round] = count / run_query(path, "SELECT sum(total_ns) FROM v_timing").cpu_s;
        struct spent b = write_prepared(path, rows, memory);
        ours[round] = count / a.cpu_s;
        ours_wall[round] = count / a.wall_s;
        prepared[round] = count / b.cpu_s;
        ratio[round] = b.cpu_s / a.cpu_s;
        thread_wall[round] = count / write_sink(path, ORR_SQLITE_WAIT, rows, 0, memory).wall_s;
        mixed[round] = 4 * count / write_sink(path, ORR_SQLITE_INLINE, rows, 1, memory).cpu_s;
    }
    print("trace_sqlite_rows", median(ours), "row/cpu-s");
    print("trace_sqlite_rows_wall", median(ours_wall), "row/s");
    print("trace_sqlite_rows_thread_wall", median(thread_wall), "row/s");
    print("trace_sqlite_rows_mixed", median(mixed), "row/cpu-s");
    print("trace_sqlite_prepared_loop", median(prepared), "row/cpu-s");
    print("trace_sqlite_ratio", median(ratio), "ratio");
    print("trace_sqlite_bytes", bytes / count, "byte/row");
    print("trace_read_rows", median(read_cpu), "row/cpu-s");
    print("trace_view_timing", median(timing), "row/cpu-s");
    unlink(path);
}

int main(int argument_count, char **arguments) {
    struct orr_memory memory = orr_memory_system();
    uint64_t rows = argument_count > 1 ? strtoull(arguments[1], NULL, 10) : 500000;
    const char *folder = argument_count > 2 ? arguments[2] : getenv("TMPDIR");
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/bench_trace.%d.db", folder ? folder : "/tmp", (int)getpid());
    must(rows > 0, "ROWS is a number from 1");
    bench_records(&memory);
    bench_database(path, rows, &memory);
    return 0;
}
