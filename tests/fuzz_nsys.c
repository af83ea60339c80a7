/* Fuzzes the importer of Nsight Systems' exports: a small good export, damaged as the input says.
 *
 * Byte 0 holds flags, bytes 1 to 3 the length to cut the file to (0: whole), then five bytes for
 * each change: place (3), how (1), value (1). An input that begins like an SQLite file is taken for
 * the file itself. Whatever comes: one of three answers, a text with every refusal, and a timeline
 * whose numbers refer to what is there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nsys_fixture.h"
#include "trace/import/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FLAG_STRICT = 1, CHANGE_BYTES = 5, HEAD_BYTES = 4 };

static struct {
    struct nsys_fixture fixture;
    unsigned char *good, *bytes;
    size_t size;
} fuzz;

static const char rows_sql[] =
    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (610, 611, 0, 1, 7, 21, " NSYS_PID_A
    ", NULL, 2, 3, 55), (622, 639, 0, 1, 7, 22, " NSYS_PID_A ", NULL, 3, 4294967295, 4294967295);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 0, 1, 7, 7, " NSYS_PID_A ", 3, 55);"
    "INSERT INTO PROFILER_OVERHEAD VALUES (3, 4, " NSYS_TID_A ", NULL, 1);"
    "INSERT INTO NVTX_EVENTS VALUES (1, 5, 59, 'aten::mm, op_id = 7', " NSYS_TID_A
    ", 0, NULL, 0), (1, NULL, 60, NULL, " NSYS_TID_A ", 0, 22, 0);"
    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'GPU', 1000, 2000, 1710000000, 68, 8, 6);"
    "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 0, NULL, 68);"
    "INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 3, 'Lost some events, see /a/b');"
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, deviceId, bytes, memKind,"
    " memoryOperationType);"
    "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 0, 64, 2, 0), (2, 0, 64, 2, 1);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO"
    " CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 100 + 20, i * 100 + 30, i % 2, 1, NULL, 7, i % 50,"
    " " NSYS_PID_A ", 20, 20, 64, 1, 1, 256, 1, 1, NULL, NULL FROM n;";

static void must(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_nsys: %s\n", what);
        abort();
    }
}

static void remove_files(void) {
    nsys_fixture_close(&fuzz.fixture);
}

static void set_up(void) {
    nsys_fixture_open(&fuzz.fixture, "fuzz.sqlite");
    atexit(remove_files);
    char sql[8192];
    snprintf(sql, sizeof sql, "%s%s", nsys_two_processes_sql, rows_sql);
    nsys_fixture_make(&fuzz.fixture, nsys_base_sql, sql);
    FILE *file = fopen(fuzz.fixture.path, "rb");
    must(file && fseek(file, 0, SEEK_END) == 0, "file");
    fuzz.size = (size_t)ftell(file);
    rewind(file);
    fuzz.good = malloc(fuzz.size);
    fuzz.bytes = malloc(fuzz.size);
    must(fuzz.good && fuzz.bytes && fread(fuzz.good, 1, fuzz.size, file) == fuzz.size, "read");
    fclose(file);
}

static size_t place(const uint8_t *data) {
    return ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % fuzz.size;
}

static void change(const uint8_t *data) {
    size_t at = place(data), left = fuzz.size - at;
    switch (data[3] % 4) {
    case 0: fuzz.bytes[at] = data[4]; break;
    case 1: fuzz.bytes[at] ^= (unsigned char)(1 << data[4] % 8); break;
    case 2: memset(fuzz.bytes + at, data[4], left < 64 ? left : 64); break;
    default: fuzz.bytes[at % 4096] = data[4]; break; /* the first page: header and schema */
    }
}

static void write_input(const uint8_t *data, size_t size) {
    if (size > 16 && memcmp(data, "SQLite format 3", 16) == 0) {
        nsys_fixture_write(&fuzz.fixture, data, size);
        return;
    }
    memcpy(fuzz.bytes, fuzz.good, fuzz.size);
    for (size_t at = HEAD_BYTES; at + CHANGE_BYTES <= size; at += CHANGE_BYTES)
        change(data + at);
    size_t cut = place(data + 1);
    nsys_fixture_write(&fuzz.fixture, fuzz.bytes, cut ? cut : fuzz.size);
}

/* What the timeline's header promises. */
static void check(const struct orr_timeline *t) {
    for (size_t i = 0; i < t->command_count; i++) {
        const struct orr_timeline_command *c = &t->commands[i];
        must(c->id == i + 1 && c->stream < t->stream_count && c->call <= t->call_count,
             "a command refers to nothing");
        must(t->streams[c->stream].device == c->device, "a command's stream is another device's");
        must(c->name && c->grid, "a command without texts");
        must((c->host == ORR_ID_NONE) == (c->call == 0), "linked and no host");
    }
    for (size_t i = 0; i < t->call_count; i++)
        must(t->calls[i].host < t->host_count && t->calls[i].name[0], "a call of nobody");
    for (size_t i = 0; i < t->stream_wait_count; i++)
        must(!t->stream_waits[i].resolved || t->stream_waits[i].source < t->stream_count,
             "a wait for nothing");
    for (size_t i = 0; i < t->slice_count; i++)
        must(t->slices[i].host < t->host_count && t->slices[i].end_ns != ORR_TIME_NONE,
             "an open slice");
    for (size_t i = 0; i < t->finding_count; i++)
        must(strncmp(t->findings[i].kind, "import_", 7) == 0 && t->findings[i].message[0],
             "a finding without text");
    must(t->source.kernel_process_rows <= t->source.kernel_naive_rows, "joins");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!fuzz.good)
        set_up();
    if (size < HEAD_BYTES)
        return 0;
    write_input(data, size);
    struct orr_memory memory = orr_memory_system();
    struct orr_import_options options = {.strict = data[0] & FLAG_STRICT};
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    enum orr_status status =
        orr__read_nsys(fuzz.fixture.path, &options, &memory, &timeline, &error);
    must(status == ORR_OK || status == ORR_INVALID || status == ORR_IO, "another answer");
    must((status == ORR_OK) == (timeline != NULL), "a status and no timeline");
    must(status == ORR_OK || (status == error.status && error.text[0]), "a failure without text");
    if (timeline)
        check(timeline);
    orr_timeline_destroy(&timeline);
    return 0;
}
