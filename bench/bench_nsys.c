/* What it costs to import an export of Nsight Systems, beside a plain scan of the same rows.
 *
 *     build/release/bench/bench_nsys [ROWS]        rows of work; as many of calls; 500,000
 *
 * Prints `name,value,unit`: rows a second of CPU time, medians of rounds in which the import and
 * the scan take turns. The scan steps through the same columns of the same tables and keeps
 * nothing. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "trace/import/formats.h"

static void run(sqlite3 *db, const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "bench_nsys: %s\n", error);
        exit(1);
    }
}

/* A launch every 10 us on one thread of each of two processes; the names and grids of a model. */
static void make(const char *path, long rows) {
    static const char *const pieces[] = {
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;"
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,"
        " globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER,"
        " callchainId INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
        " contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER,"
        " globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER,"
        " launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER,"
        " gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,"
        " staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER,"
        " graphId INTEGER);",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
        " INSERT INTO StringIds SELECT i, 'void kernel_' || i || '<float, 128>(int, float *)'"
        " FROM n;",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %ld)"
        " INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 60000000000 + i * 10000,"
        " 60000000000 + i * 10000 + 4000, 0, (1 << 48) + (i %% 2 << 24) + 5, 100000 + i / 2, 1, 0,"
        " NULL FROM n;",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %ld)"
        " INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 60000000000 + i * 10000 + 5000,"
        " 60000000000 + i * 10000 + 12000, i %% 2, 1, NULL, 7, 100000 + i / 2,"
        " (1 << 48) + (i %% 2 << 24), 2 + i * 7 %% 198, 2, NULL, 1, 0, 64, i %% 50 * 8, 1, 1, 256,"
        " 1, 1, 0, 4096, NULL, NULL FROM n;",
        "COMMIT;"};
    char sql[2048];
    sqlite3 *db;
    unlink(path);
    bench_must(sqlite3_open(path, &db) == SQLITE_OK, "sqlite3_open");
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (i == 2 || i == 3)
            snprintf(sql, sizeof sql, pieces[i], rows);
        run(db, i == 2 || i == 3 ? sql : pieces[i]);
    }
    bench_must(sqlite3_close(db) == SQLITE_OK, "sqlite3_close");
}

static double scan_table(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    sqlite3_int64 sum = 0;
    double begin = bench_thread_cpu_s();
    bench_must(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "prepare");
    int columns = sqlite3_column_count(statement);
    while (sqlite3_step(statement) == SQLITE_ROW)
        for (int i = 0; i < columns; i++)
            sum ^= sqlite3_column_int64(statement, i);
    sqlite3_finalize(statement);
    bench_must(sum != 1, "scan");
    return bench_thread_cpu_s() - begin;
}

static double scan(const char *path) {
    sqlite3 *db;
    bench_must(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK, "open");
    double time =
        scan_table(db, "SELECT start, end, globalTid, correlationId, nameId FROM"
                       " CUPTI_ACTIVITY_KIND_RUNTIME") +
        scan_table(db, "SELECT start, end, correlationId, deviceId, contextId, streamId,"
                       " globalPid, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ,"
                       " graphId FROM CUPTI_ACTIVITY_KIND_KERNEL");
    sqlite3_close(db);
    return time;
}

static double import(const char *path, size_t rows) {
    struct orr_memory memory = orr_memory_system();
    struct orr_import_options options = {0};
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    double begin = bench_thread_cpu_s();
    bench_check(orr__read_nsys(path, &options, &memory, &timeline, &error), error.text);
    double time = bench_thread_cpu_s() - begin;
    bench_must(timeline->command_count == rows && timeline->source.kernel_unlinked == 0, "rows");
    orr_timeline_destroy(&timeline);
    return time;
}

int main(int argc, char **argv) {
    long rows = argc > 1 ? atol(argv[1]) : bench_quick() ? 100000 : 500000;
    const char *folder = getenv("TMPDIR");
    char path[512];
    struct stat info;
    double imports[BENCH_ROUNDS_MAX], scans[BENCH_ROUNDS_MAX];
    bench_must(rows > 1, "ROWS is a number above 1");
    snprintf(path, sizeof path, "%s/bench_nsys-%ld.sqlite", folder ? folder : "/tmp",
             (long)getpid());
    make(path, rows);
    bench_must(stat(path, &info) == 0, "stat");
    bench_keep_memory();
    import(path, (size_t)rows);
    for (int i = 0; i < bench_rounds(); i++) {
        imports[i] = import(path, (size_t)rows);
        scans[i] = scan(path);
    }
    unlink(path);
    double imported = bench_median(imports, bench_rounds());
    double scanned = bench_median(scans, bench_rounds());
    bench_value("nsys_file", (double)info.st_size * 1e-6, "MB");
    bench_value("nsys_import", 2.0 * (double)rows / imported * 1e-6, "M rows/s");
    bench_value("nsys_scan", 2.0 * (double)rows / scanned * 1e-6, "M rows/s");
    bench_value("nsys_import_over_scan", imported / scanned, "times");
    return 0;
}
