/* How fast a trace of PyTorch's profiler is read, and analysed.
 *
 *     build/release/bench/bench_import [MEGABYTES [FILE]]     default 110
 *
 * The trace is made up (kineto_text.h) and written to a temporary file, or to FILE, which stays.
 * The floor is a plain scan of the same bytes for line ends. "events" is what the reader of JSON
 * does without a timeline; "timeline" is the import; "analysis" comes on top of it.
 *
 * Prints `name,value,unit` lines, by the thread's CPU time; each figure is the median of the
 * rounds. Peak memory is that of a child process that imports and analyses once. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/analysis.h"
#include "bench/bench.h"
#include "bench/kineto_text.h"
#include "trace/import.h"
#include "trace/import/json_document.h"
#include "trace/import/kineto_event.h"

enum { MEGABYTES = 110, SCAN_BYTES = 1 << 20 };

static struct orr_memory memory;

static size_t scan(const char *path) {
    static char buffer[SCAN_BYTES];
    FILE *file = fopen(path, "rb");
    bench_must(file != NULL, path);
    size_t lines = 0, size;
    while ((size = fread(buffer, 1, sizeof buffer, file)) > 0)
        for (const char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + size - at))); at++)
            lines++;
    fclose(file);
    return lines;
}

static void read_events(const char *path) {
    struct orr__json_input *input;
    struct orr__json_document *document;
    struct orr__json_piece piece;
    static struct orr__event_keys keys;
    static struct orr__event event;
    orr__event_keys_init(&keys);
    bench_check(orr__json_input_open(path, &memory, &input, NULL), "input");
    bench_check(orr__json_document_open(input, &memory, &document), "document");
    while (orr__json_document_next(document, &piece)) {
        if (piece.kind != ORR__JSON_EVENT)
            continue;
        do {
            orr__event_read(&keys, &piece.cursor, &event);
        } while (orr__json_document_again(document, &piece));
    }
    orr__json_document_close(&document);
    orr__json_input_close(&input);
}

static void import(const char *path, bool analyse) {
    struct orr_traces traces = {0};
    struct orr_error error = {0};
    enum orr_status status = orr_traces_read(path, NULL, &memory, &traces, &error);
    bench_must(status == ORR_OK, error.text);
    bench_must(traces.items[0].timeline->finding_count == 0, "nothing is to be found");
    if (analyse) {
        struct orr_analysis_options options = orr_analysis_options_default();
        struct orr_analysis *analysis;
        status = orr_analyze(traces.items[0].timeline, &options, &memory, &analysis, &error);
        bench_must(status == ORR_OK, error.text);
        orr_analysis_destroy(&analysis);
    }
    orr_traces_free(&memory, &traces);
}

static double peak_mib(const char *path) {
    struct rusage used;
    int status;
    pid_t child = fork();
    bench_must(child >= 0, "fork");
    if (child == 0) {
        import(path, true);
        _exit(0);
    }
    bench_must(wait4(child, &status, 0, &used) == child && status == 0, "child");
    return (double)used.ru_maxrss / 1024;
}

static void zip(const char *path, const char *zipped) {
    static char buffer[SCAN_BYTES];
    FILE *file = fopen(path, "rb");
    gzFile out = gzopen(zipped, "wb6");
    bench_must(file && out, "gzip");
    size_t size;
    while ((size = fread(buffer, 1, sizeof buffer, file)) > 0)
        bench_must(gzwrite(out, buffer, (unsigned)size) == (int)size, "gzip");
    fclose(file);
    bench_must(gzclose(out) == Z_OK, "gzip");
}

int main(int argument_count, char **arguments) {
    uint64_t megabytes = argument_count > 1 ? strtoull(arguments[1], NULL, 10) : MEGABYTES;
    const char *folder = getenv("TMPDIR");
    char path[512], zipped[520];
    snprintf(path, sizeof path, "%s/bench_import-%ld.json", folder ? folder : "/tmp",
             (long)getpid());
    if (argument_count > 2)
        snprintf(path, sizeof path, "%s", arguments[2]);
    snprintf(zipped, sizeof zipped, "%s.gz", path);
    struct kineto_text made;
    FILE *file = fopen(path, "wb");
    bench_must(file && kineto_text_write(file, megabytes * 1000000, &made) && fclose(file) == 0,
               path);
    memory = orr_memory_system();
    double mb = (double)made.bytes / 1e6;
    bench_value("import_bytes", mb, "MB");
    bench_value("import_events", (double)made.events, "events");
    bench_value("import_ops", (double)made.ops, "ops");
    double peak = peak_mib(path), bound = 96 + (double)made.events * 64 / 1048576;
    zip(path, zipped);

    enum { SCAN, EVENTS, TIMELINE, ANALYSIS, GZIP, FIGURES };
    static double values[FIGURES][BENCH_ROUNDS_MAX];
    int rounds = bench_rounds();
    for (int round = 0; round < rounds; round++) {
        double at = bench_thread_cpu_s();
        bench_must(scan(path) > 0, "lines");
        values[SCAN][round] = bench_thread_cpu_s() - at;
        at = bench_thread_cpu_s();
        read_events(path);
        values[EVENTS][round] = bench_thread_cpu_s() - at;
        at = bench_thread_cpu_s();
        import(path, false);
        values[TIMELINE][round] = bench_thread_cpu_s() - at;
        at = bench_thread_cpu_s();
        import(path, true);
        values[ANALYSIS][round] = bench_thread_cpu_s() - at;
        at = bench_thread_cpu_s();
        import(zipped, false);
        values[GZIP][round] = bench_thread_cpu_s() - at;
    }
    bench_value("import_scan", mb / bench_median(values[SCAN], rounds), "MB/s");
    bench_value("import_lexer", mb / bench_median(values[EVENTS], rounds), "MB/s");
    bench_value("import_timeline", mb / bench_median(values[TIMELINE], rounds), "MB/s");
    bench_value("import_gzip", mb / bench_median(values[GZIP], rounds), "MB/s");
    bench_value("import_and_analysis", bench_median(values[ANALYSIS], rounds), "s");
    bench_value("import_peak", peak, "MiB");
    bench_value("import_peak_aim", bound, "MiB");
    unlink(zipped);
    if (argument_count <= 2)
        unlink(path);
    return 0;
}
