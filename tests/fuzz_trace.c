/* Fuzzes the reader of traces, and the check that is told what it has read: a small good database,
 * damaged as the input says.
 *
 * Random bytes are not an SQLite file, and a database is larger than an input, so an input is a
 * list of changes: byte 0 holds flags, bytes 1 to 3 the length to cut the file to (0: whole), then
 * five bytes for each change: place (3), how (1), value (1). With flag 1 the second half of the
 * input is a journal beside the file, with flag 2 its header is made plausible. An input that
 * begins like an SQLite file is taken for the file itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hazards/check.h"
#include "hazards/monitor.h"
#include "hazards/observer_tee.h"
#include "hazards/recorder.h"
#include "trace/observe.h"
#include "trace/sqlite_sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FLAG_JOURNAL = 1,
    FLAG_JOURNAL_HEADER = 2,
    CHANGE_BYTES = 5,
    HEAD_BYTES = 4,
    PATH_BYTES = 256,
    STREAMS = 4
};

static struct {
    char path[PATH_BYTES], journal[PATH_BYTES + 16], wal[PATH_BYTES + 16], shm[PATH_BYTES + 16];
    unsigned char *good, *bytes; /* a good trace; the one to be read */
    size_t size;
} fuzz;

static void must(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_trace: %s\n", what);
        abort();
    }
}

static void write_records(struct orr_sink *sink, struct orr_names *names) {
    uint32_t name;
    must(orr_names_intern(names, "name", 4, &name) == ORR_OK, "names");
    struct orr_record_device device = {.header = ORR_RECORD_HEADER(device, DEVICE), .name = name};
    struct orr_record_peak peak = {.header = ORR_RECORD_HEADER(peak, PEAK), .flops_per_s = 1};
    struct orr_record_stream stream = {.header = ORR_RECORD_HEADER(stream, STREAM), .name = name};
    struct orr_record_host host = {.header = ORR_RECORD_HEADER(host, HOST), .name = name};
    orr_record_push(&sink->writer, &device);
    orr_record_push(&sink->writer, &peak);
    for (; stream.id < STREAMS; stream.id++)
        orr_record_push(&sink->writer, &stream);
    orr_record_push(&sink->writer, &host);
    for (uint64_t id = 1; id <= 300; id++) {
        struct orr_record_command command = {
            .header = ORR_RECORD_HEADER(command, COMMAND), .id = id, .name = name, .site = name};
        struct orr_record_edge edge = {
            .header = ORR_RECORD_HEADER(edge, EDGE), .src = id / 2, .dst = id};
        struct orr_record_access access = {
            .header = ORR_RECORD_HEADER(access, ACCESS), .cmd = id, .bytes = 1 + id % 256};
        struct orr_record_sync sync = {.header = ORR_RECORD_HEADER(sync, SYNC), .id = id};
        struct orr_record_buffer buffer = {.header = ORR_RECORD_HEADER(buffer, BUFFER),
                                           .id = id,
                                           .block = UINT64_C(1) << 32 | id % 7,
                                           .bytes = 256 + 64 * (id % 11),
                                           .alloc_cmd = id / 2,
                                           .stream = id % STREAMS};
        struct orr_record_buffer_free end = {
            .header = ORR_RECORD_HEADER(buffer_free, BUFFER_FREE), .id = id / 3, .free_cmd = id};
        struct orr_record_buffer_role role = {
            .header = ORR_RECORD_HEADER(buffer_role, BUFFER_ROLE), .id = id, .after_cmd = id};
        command.header.a = (uint8_t)(id % ORR_COMMAND_KIND_COUNT);
        command.stream = id % 5 < STREAMS ? (uint32_t)(id % 5) : ORR_ID_NONE;
        command.seq = command.stream == ORR_ID_NONE ? 0 : id / 5 + 1;
        edge.header.a = (uint8_t)(id % ORR_EDGE_KIND_COUNT);
        access.buffer = 1 + id / 4;
        access.header.a = (uint8_t)(ORR_ACCESS_READ + id % 3);
        role.header.a = (uint8_t)(id % ORR_ROLE_COUNT);
        sync.header.a = (uint8_t)(id % ORR_SYNC_KIND_COUNT);
        orr_record_push(&sink->writer, &command);
        orr_record_push(&sink->writer, &edge);
        orr_record_push(&sink->writer, &access);
        orr_record_push(&sink->writer, &sync);
        orr_record_push(&sink->writer, &buffer);
        if (id % 3 == 0)
            orr_record_push(&sink->writer, &end);
        orr_record_push(&sink->writer, &role);
    }
}

static void set_up(const struct orr_memory *memory) {
    const char *folder = getenv("TMPDIR");
    snprintf(fuzz.path, sizeof fuzz.path, "%s/fuzz_trace-%ld.db", folder ? folder : "/tmp",
             (long)getpid());
    snprintf(fuzz.journal, sizeof fuzz.journal, "%s-journal", fuzz.path);
    snprintf(fuzz.wal, sizeof fuzz.wal, "%s-wal", fuzz.path);
    snprintf(fuzz.shm, sizeof fuzz.shm, "%s-shm", fuzz.path);
    struct orr_names *names;
    struct orr_sink *sink;
    must(orr_names_create(memory, &names) == ORR_OK, "names");
    must(orr_sqlite_sink_open(fuzz.path, NULL, memory, &sink, NULL) == ORR_OK, "sink");
    sink->names = names;
    write_records(sink, names);
    must(sink->close(sink, "ok", NULL) == ORR_OK, "close");
    orr_names_destroy(&names);
    FILE *file = fopen(fuzz.path, "rb");
    must(file && fseek(file, 0, SEEK_END) == 0, "file");
    fuzz.size = (size_t)ftell(file);
    rewind(file);
    fuzz.good = malloc(fuzz.size);
    fuzz.bytes = malloc(fuzz.size);
    must(fuzz.good && fuzz.bytes, "memory");
    must(fread(fuzz.good, 1, fuzz.size, file) == fuzz.size, "read");
    fclose(file);
}

static void write_file(const char *path, const void *bytes, size_t size, const void *head,
                       size_t head_size) {
    FILE *file = fopen(path, "wb");
    must(file != NULL, path);
    must(fwrite(head, 1, head_size, file) == head_size, "write");
    must(fwrite(bytes, 1, size, file) == size, "write");
    must(fclose(file) == 0, "write");
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

static void write_damaged(const uint8_t *data, size_t size) {
    static const unsigned char magic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    memcpy(fuzz.bytes, fuzz.good, fuzz.size);
    int flags = data[0];
    size_t cut = place(data + 1), changes_end = size;
    if (flags & FLAG_JOURNAL) {
        changes_end = size / 2;
        write_file(fuzz.journal, data + changes_end, size - changes_end, magic,
                   flags & FLAG_JOURNAL_HEADER ? sizeof magic : 0);
    }
    for (size_t at = HEAD_BYTES; at + CHANGE_BYTES <= changes_end; at += CHANGE_BYTES)
        change(data + at);
    write_file(fuzz.path, fuzz.bytes, cut ? cut : fuzz.size, "", 0);
}

/* Whatever it says: the check of the trace, and of its calls as a stream program, come to an
 * end. */
static void check(const struct orr_timeline *timeline, const struct orr_memory *memory) {
    struct orr_monitor *monitor;
    struct orr_recorder *recorder;
    struct orr_names *names;
    struct orr_observer_tee tee;
    struct orr_error error = {0};
    must(orr_monitor_create(memory, NULL, &monitor) == ORR_OK, "monitor");
    must(orr_recorder_create(memory, &recorder) == ORR_OK, "recorder");
    orr_observer_tee_init(&tee, orr_monitor_observer(monitor), orr_recorder_observer(recorder));
    if (orr_timeline_observe(timeline, &tee.observer, memory, &names, &error) == ORR_OK) {
        struct orr_stream_program *program;
        struct orr_check_verdict verdict;
        for (size_t i = 0; i < orr_monitor_finding_count(monitor); i++) {
            struct orr_monitor_finding finding;
            orr_monitor_finding(monitor, i, &finding);
            must(finding.message[0] && finding.fix[0], "a finding without text");
        }
        if (orr_recorder_program(recorder, &program) == ORR_OK) {
            if (orr_stream_program_check(program, NULL, &verdict) == ORR_OK)
                must(verdict.kind != ORR_CHECK_NO_HANG, "another oracle");
            orr_check_verdict_clear(&verdict);
        }
        orr_stream_program_destroy(&program);
    }
    orr_names_destroy(&names);
    orr_recorder_destroy(&recorder);
    orr_monitor_destroy(&monitor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct orr_memory memory = orr_memory_system();
    if (!fuzz.good)
        set_up(&memory);
    if (size < HEAD_BYTES)
        return 0;
    if (size > 16 && memcmp(data, "SQLite format 3", 16) == 0)
        write_file(fuzz.path, data, size, "", 0);
    else
        write_damaged(data, size);
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    enum orr_status status = orr_timeline_read(fuzz.path, &memory, &timeline, &error);
    must((status == ORR_OK) == (timeline != NULL), "a status and no timeline");
    must(status == ORR_OK || (status == error.status && error.text[0]), "a failure without text");
    if (timeline)
        check(timeline, &memory);
    orr_timeline_destroy(&timeline);
    unlink(fuzz.path);
    unlink(fuzz.journal);
    unlink(fuzz.wal); /* SQLite makes these where the header says WAL */
    unlink(fuzz.shm);
    return 0;
}
