/* Fuzzes the importer of JSON traces and the analysis of what comes out.
 *
 * An input is a file: JSON, gzip or a tar of them. It is read twice, once through a window as small
 * as it can be, and both times the same must come out. Whatever it is, every nanosecond of every
 * device has one class. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis.h"
#include "trace/import/formats.h"
#include "trace/import/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_json_trace: %s\n", what);
        abort();
    }
}

static struct orr_timeline *read_timeline(const uint8_t *data, size_t size, size_t window,
                                          const struct orr_memory *memory) {
    struct orr__json_input *input;
    struct orr__json_document *document;
    struct orr_timeline *timeline;
    struct orr_error error = {0};
    must(orr__json_input_bytes(data, size, memory, &input) == ORR_OK, "input");
    must(orr__json_document_open_window(input, memory, window, (size_t)1 << 24, &document) ==
             ORR_OK,
         "document");
    enum orr_status status = orr__read_kineto(document, "input", NULL, memory, &timeline, &error);
    must(status == ORR_OK || (status == ORR_INVALID && error.text[0] != '\0' && !timeline),
         "status");
    orr__json_document_close(&document);
    orr__json_input_close(&input);
    return timeline;
}

static void compare(const struct orr_timeline *a, const struct orr_timeline *b) {
    must(!a == !b, "a trace or none");
    if (!a)
        return;
    must(a->command_count == b->command_count && a->call_count == b->call_count &&
             a->slice_count == b->slice_count && a->op_count == b->op_count &&
             a->host_count == b->host_count && a->stream_count == b->stream_count &&
             a->counter_count == b->counter_count && a->finding_count == b->finding_count,
         "counts do not depend on the window");
    must(memcmp(&a->source, &b->source, sizeof a->source) == 0,
         "the source does not depend on the window");
    for (size_t i = 0; i < a->command_count; i++)
        must(a->commands[i].start_ns == b->commands[i].start_ns &&
                 a->commands[i].finish_ns == b->commands[i].finish_ns &&
                 a->commands[i].call == b->commands[i].call &&
                 strcmp(a->commands[i].name, b->commands[i].name) == 0,
             "commands do not depend on the window");
    for (size_t i = 0; i < a->finding_count; i++)
        must(strcmp(a->findings[i].message, b->findings[i].message) == 0,
             "findings do not depend on the window");
}

static void analyze(const struct orr_timeline *timeline, const struct orr_memory *memory) {
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    enum orr_status status = orr_analyze(timeline, &options, memory, &analysis, &error);
    must(status == ORR_OK || error.text[0] != '\0', "a failure has a text");
    if (status != ORR_OK)
        return;
    for (size_t i = 0; i < analysis->device_count; i++)
        must(analysis->devices[i].residual_ns == 0, "residual");
    orr_analysis_destroy(&analysis);
}

static void read_archive(const uint8_t *data, size_t size, const struct orr_memory *memory) {
    struct orr__json_input *input;
    struct orr__tar tar;
    struct orr__tar_member member;
    char buffer[256];
    must(orr__json_input_bytes(data, size, memory, &input) == ORR_OK, "input");
    orr__tar_begin(&tar, input, memory);
    while (orr__tar_next(&tar, &member))
        while (orr__json_input_read(member.input, buffer, sizeof buffer) > 0)
            continue;
    orr__tar_end(&tar);
    orr__json_input_close(&input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct orr_memory memory = orr_memory_system();
    read_archive(data, size, &memory);
    struct orr_timeline *timeline = read_timeline(data, size, (size_t)1 << 17, &memory);
    struct orr_timeline *again = read_timeline(data, size, ORR__JSON_WINDOW_MIN, &memory);
    compare(timeline, again);
    if (timeline)
        analyze(timeline, &memory);
    orr_timeline_destroy(&timeline);
    orr_timeline_destroy(&again);
    return 0;
}
