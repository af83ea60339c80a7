/* What other people's readers see in exported files (tests/readers): the engine of Chrome DevTools,
 * and speedscope in a browser. Skipped, with the reason, where they are not installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/perfetto_cases.h"
#include "tests/trace_support.h"

enum { RANDOM_CASES = 40, LARGE_COMMANDS = 25000, COMMAND_MAX = 1 << 16, EXIT_SKIP = 77 };

static void export_case(struct perfetto_case *c, const char *path) {
    struct orr_error error = {0};
    struct orr_perfetto_counts counts;
    enum orr_status status =
        orr_perfetto_write(fixture_timeline(&c->fixture), c->phases, c->phase_count, path,
                           &c->fixture.memory, &counts, &error);
    perfetto_case_free(c);
    if (status != ORR_OK) {
        fail_msg("%s", error.text);
    }
}

/* Writes the example, one with everything and `count` random ones; returns their paths, with a
 * blank before each. */
static const char *write_cases(const char *folder, uint64_t count) {
    static char paths[COMMAND_MAX];
    size_t length = 0;
    uint64_t seed = trace_seed();
    for (uint64_t i = 0; i < count + 2; i++) {
        struct perfetto_case c;
        char path[PATH_MAX], name[64];
        snprintf(name, sizeof name, "%llu.json", (unsigned long long)(seed * 1000 + i));
        if (i == 0) {
            perfetto_case_example(&c);
        } else if (i == 1) {
            perfetto_case_rich(&c);
        } else {
            perfetto_case_random(&c, seed * 1000 + i);
        }
        export_case(&c, trace_path(path, folder, name));
        int added = snprintf(paths + length, sizeof paths - length, " %s", path);
        length += (size_t)added;
        assert_true(length < sizeof paths);
    }
    return paths;
}

static void need(const char *package) {
    char path[PATH_MAX];
    if (system(
            "node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null") !=
        0) {
        print_message("skip: node 20 is not here\n");
        skip();
    }
    snprintf(path, sizeof path, "tests/readers/node_modules/%s/package.json", package);
    if (access(path, R_OK) != 0) {
        print_message("skip: %s is not installed, see tests/readers/README.md\n", package);
        skip();
    }
}

/* Runs a reader; what it says is shown if it does not like what it reads. */
static void run_reader(const char *script, const char *paths) {
    static char command[COMMAND_MAX + 128], said[1 << 15];
    snprintf(command, sizeof command, "node tests/readers/%s%s 2>&1", script, paths);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(said, 1, sizeof said - 1, pipe);
    said[size] = '\0';
    while (fgetc(pipe) != EOF) {
    }
    int status = pclose(pipe);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
        print_message("skip: %s", said);
        skip();
    }
    if (status != 0) {
        print_error("%s\n", said);
    }
    assert_int_equal(status, 0);
}

static void devtools_sees_every_slice_and_arrow(void **unused) {
    char folder[PATH_MAX];
    (void)unused;
    need("@paulirish/trace_engine");
    trace_folder_create(folder);
    run_reader("trace_engine.mjs", write_cases(folder, RANDOM_CASES));
    trace_folder_remove(folder);
}

static void devtools_reads_a_hundred_thousand_events(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX], argument[PATH_MAX + 1];
    struct perfetto_case c;
    (void)unused;
    need("@paulirish/trace_engine");
    trace_folder_create(folder);
    perfetto_case_large(&c, LARGE_COMMANDS);
    export_case(&c, trace_path(path, folder, "large.json"));
    snprintf(argument, sizeof argument, " %s", path);
    run_reader("trace_engine.mjs", argument);
    trace_folder_remove(folder);
}

static void speedscope_draws_every_slice_with_a_length(void **unused) {
    char folder[PATH_MAX];
    (void)unused;
    need("speedscope");
    need("playwright-core");
    trace_folder_create(folder);
    run_reader("speedscope.mjs", write_cases(folder, 3));
    trace_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devtools_sees_every_slice_and_arrow),
        cmocka_unit_test(devtools_reads_a_hundred_thousand_events),
        cmocka_unit_test(speedscope_draws_every_slice_with_a_length),
    };
    return cmocka_run_group_tests_name("perfetto_readers", tests, NULL, NULL);
}
