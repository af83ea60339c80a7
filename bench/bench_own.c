/* How fast our own database is read and analysed, in records (rows) a second, beside a plain scan
 * of the same file.
 *
 *     build/release/bench/bench_own [RECORDS]      default 10000000; those take 1.7 GiB of memory
 *
 * The trace has what a training step leaves: commands, edges, syncs, buffers, counters, accesses.
 * The scan steps through every row that the analysis needs and asks for one number of each: what
 * SQLite itself costs. The file lies in $TMPDIR.
 *
 * Prints `name,value,unit` lines, by the thread's CPU time and by the wall clock. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "bench/bench.h"
#include "bench/made_timeline.h"
#include "trace/timeline_write.h"

enum { PATH_BYTES = 512 };

static void write_trace(uint64_t records, const char *path) {
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    /* Beside a command: 1/20 edges, 1/4 buffers, 1/2 counters, 3/4 accesses. */
    struct orr_timeline *timeline =
        made_timeline((uint64_t)((double)records / 2.45), true, &memory);
    double begin = bench_wall_s();
    enum orr_status status = orr_timeline_write(timeline, path, &memory, &error);
    if (status != ORR_OK)
        fprintf(stderr, "%s\n", error.text);
    bench_check(status, "cannot write the trace");
    double rows = (double)made_timeline_records(timeline);
    bench_value("own_records", rows, "count");
    bench_value("own_write_rate", rows / (bench_wall_s() - begin) * 1e-6, "M rows/s");
    orr_timeline_destroy(&timeline);
}

/* Rows seen; the sum keeps the compiler from leaving anything out. */
static uint64_t scan_table(sqlite3 *db, const char *sql, sqlite3_int64 *sum) {
    sqlite3_stmt *statement;
    bench_must(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "scan");
    uint64_t rows = 0;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        *sum += sqlite3_column_int64(statement, 0);
        rows++;
    }
    sqlite3_finalize(statement);
    return rows;
}

static void scan(const char *path) {
    static const char *const tables[] = {
        "SELECT finish_ns FROM cmd_row", "SELECT dst FROM edge_row",
        "SELECT end_ns FROM sync_row",   "SELECT bytes FROM buffer_row",
        "SELECT ts_ns FROM counter_row",
    };
    sqlite3 *db;
    bench_must(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK, "open");
    sqlite3_int64 sum = 0;
    uint64_t rows = 0;
    double begin = bench_thread_cpu_s();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        rows += scan_table(db, tables[i], &sum);
    double seconds = bench_thread_cpu_s() - begin;
    sqlite3_close(db);
    bench_must(rows > 0 && sum != 0, "the scan saw nothing");
    bench_value("own_scan_cpu", seconds, "s");
}

static void analyze(const char *path) {
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct orr_timeline *timeline;
    struct orr_analysis *analysis;
    struct orr_analysis_options options = orr_analysis_options_default();
    double cpu = bench_thread_cpu_s(), wall = bench_wall_s();
    enum orr_status status = orr_timeline_read_parts(path, 0, &memory, &timeline, &error);
    bench_check(status, error.text);
    double read_cpu = bench_thread_cpu_s();
    bench_check(orr_analyze(timeline, &options, &memory, &analysis, &error), error.text);
    char *text;
    size_t length;
    bench_check(orr_report_json(analysis, &text, &length), "report");
    bench_value("own_read_cpu", read_cpu - cpu, "s");
    bench_value("own_analysis_cpu", bench_thread_cpu_s() - read_cpu, "s");
    bench_value("own_total_cpu", bench_thread_cpu_s() - cpu, "s");
    bench_value("own_total_wall", bench_wall_s() - wall, "s");
    orr_memory_free(&memory, text);
    orr_analysis_destroy(&analysis);
    orr_timeline_destroy(&timeline);
}

int main(int argc, char **argv) {
    uint64_t records = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    bench_must(records >= 100 && records <= 100000000, "RECORDS must be 100 to 100000000");
    const char *folder = getenv("TMPDIR");
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/bench_own-%ld.db", folder ? folder : "/tmp", (long)getpid());
    bench_keep_memory();
    write_trace(records, path);
    scan(path);
    analyze(path);
    unlink(path);
    return 0;
}
