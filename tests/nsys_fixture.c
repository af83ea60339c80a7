#include "tests/nsys_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char nsys_base_sql[] =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);"
    "CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,"
    " returnValue INTEGER, callchainId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,"
    " gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,"
    " blockZ INTEGER, graphNodeId INTEGER, graphId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
    " globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
    " globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL,"
    " end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, deprecatedSyncType INTEGER, syncType INTEGER,"
    " eventId INTEGER, eventSyncId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " eventId INTEGER, eventSyncId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER,"
    " overheadType INTEGER);"
    "CREATE TABLE PROFILER_OVERHEAD (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " globalTid INTEGER, nameId INTEGER, overheadType INTEGER);"
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER,"
    " text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
    "CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, totalMemory INTEGER,"
    " memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, computeMajor INTEGER,"
    " computeMinor INTEGER);"
    "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL,"
    " pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER);"
    "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);";

#define CALL  "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES "
#define WORK  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
#define GRIDS ", 20, 20, 64, 1, 1, 256, 1, 1, NULL, NULL);"

const char nsys_two_processes_sql[] =
    "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'cudaMemcpyAsync_v3020'),"
    " (3, 'cuLaunchKernelEx'), (4, 'cudaStreamSynchronize_v3020'), (5, 'cudaStreamWaitEvent'),"
    " (6, 'cudaEventRecord'), (7, 'cudaEventQuery'), (20, 'void gemm<float>(int)'),"
    " (21, 'python3'), (22, 'step');"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '');"
    "INSERT INTO ThreadNames VALUES (21, 0, " NSYS_TID_A "), (21, 0, 77);"
    /* Correlation 7 in both processes, twice in A: a runtime and a driver call. */
    CALL "(100, 120, 0, " NSYS_TID_A ", 7, 1, 0, NULL);" CALL "(105, 118, 1, " NSYS_TID_A
    ", 7, 3, 0, NULL);" CALL "(500, 510, 0, " NSYS_TID_B ", 7, 1, 0, NULL);" CALL
    "(130, 140, 0, " NSYS_TID_A ", 8, 2, 0, NULL);" CALL "(10, 20, 0, " NSYS_TID_A
    ", NULL, 1, 0, NULL);" WORK "(140, 150, 0, 1, NULL, 7, 7, " NSYS_PID_A GRIDS WORK
    "(520, 540, 1, 1, NULL, 7, 7, " NSYS_PID_B GRIDS
        /* The call of this one is not in B. */
        WORK "(50, 60, 1, 1, NULL, 7, 8, " NSYS_PID_B GRIDS
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (160, 170, 0, 1, 13, 8, " NSYS_PID_A
    ", 4096, 1, 1, 2);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (180, 185, 0, 1, 7, 99, " NSYS_PID_A
    ", 0, 512, 2);";

static void must(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "nsys_fixture: %s\n", what);
        abort();
    }
}

static void run(sqlite3 *db, const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "nsys_fixture: %s\n", error);
        abort();
    }
}

void nsys_fixture_open(struct nsys_fixture *f, const char *name) {
    const char *root = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.90s/orrery-nsys-XXXXXX", root ? root : "/tmp");
    must(mkdtemp(f->folder) != NULL, "mkdtemp");
    snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
}

void nsys_fixture_make(const struct nsys_fixture *f, const char *first, const char *second) {
    sqlite3 *db = NULL;
    unlink(f->path);
    must(sqlite3_open(f->path, &db) == SQLITE_OK, "sqlite3_open");
    run(db, "PRAGMA synchronous = OFF; BEGIN");
    run(db, first);
    run(db, second);
    run(db, "COMMIT");
    must(sqlite3_close(db) == SQLITE_OK, "sqlite3_close");
}

void nsys_fixture_write(const struct nsys_fixture *f, const void *bytes, size_t size) {
    FILE *file = fopen(f->path, "wb");
    must(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "write");
}

void nsys_fixture_close(struct nsys_fixture *f) {
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char path[224];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(path, sizeof path, "%s%s", f->path, suffixes[i]);
        unlink(path);
    }
    rmdir(f->folder);
}
