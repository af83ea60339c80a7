/* How fast a trace in memory is analysed: event model, all figures, and the JSON report.
 *
 *     build/release/bench/bench_analyze [COMMANDS]      default 1000000
 *
 * The trace is that of made_timeline.h.
 *
 * Prints `name,value,unit` lines: by the thread's CPU time ("_cpu"), by the monotonic clock
 * ("_wall"); memory is the most that was held at once beside the timeline. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyzer/analysis.h"
#include "analyzer/report_json.h"
#include "bench/made_timeline.h"

static void fail(const char *what) {
    fprintf(stderr, "bench_analyze: %s\n", what);
    exit(1);
}

static double clock_s(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* --- memory that knows its peak --- */

struct counted {
    size_t live, peak;
};

static void *counted_resize(void *context, void *block, size_t size) {
    struct counted *counted = context;
    size_t *head = block ? (size_t *)block - 2 : NULL;
    size_t before = head ? *head : 0;
    if (size == 0) {
        counted->live -= before;
        free(head);
        return NULL;
    }
    head = realloc(head, size + 2 * sizeof *head);
    if (!head) {
        return NULL;
    }
    *head = size;
    counted->live = counted->live - before + size;
    counted->peak = counted->live > counted->peak ? counted->live : counted->peak;
    return head + 2;
}

int main(int argc, char **argv) {
    uint64_t commands = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    if (commands < 1 || commands > 100000000) {
        fail("COMMANDS must be 1 to 100000000");
    }
    struct orr_memory system = orr_memory_system();
    struct orr_timeline *timeline = made_timeline(commands, false, &system);

    struct counted counted = {0, 0};
    struct orr_memory memory = {counted_resize, &counted};
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    if (orr_analyze(timeline, &options, &memory, &analysis, &error) != ORR_OK) {
        fail(error.text);
    }
    double analyzed_cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), analyzed = clock_s(CLOCK_MONOTONIC);
    char *text;
    size_t length;
    if (orr_report_json(analysis, &text, &length) != ORR_OK) {
        fail("out of memory");
    }
    double reported = clock_s(CLOCK_MONOTONIC);
    printf("analyze_commands,%zu,count\n", timeline->command_count);
    printf("analyze_cpu,%.3f,s\n", analyzed_cpu - cpu);
    printf("analyze_wall,%.3f,s\n", analyzed - wall);
    printf("analyze_rate_cpu,%.2f,M commands/s\n",
           (double)timeline->command_count / (analyzed_cpu - cpu) * 1e-6);
    printf("analyze_json_wall,%.4f,s\n", reported - analyzed);
    printf("analyze_memory,%.1f,byte/command\n",
           (double)counted.peak / (double)timeline->command_count);
    orr_memory_free(&memory, text);
    orr_analysis_destroy(&analysis);
    orr_timeline_destroy(&timeline);
    return 0;
}
