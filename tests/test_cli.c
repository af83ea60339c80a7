/* The command line: every verb's exit codes, messages and files, by running the command. Without
 * ORRERY in the environment the release build is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

enum { OUTPUT_MAX = 1 << 20 };

static char folder[] = "/tmp/orrery-cli-XXXXXX";
static char command[4096];

struct result {
    int exit;
    char out[OUTPUT_MAX], err[65536];
};

static struct result result; /* of the last run */

static void read_file(const char *name, char *text, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file)
        fclose(file);
}

static void write_file(const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static bool exists(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Runs a line of shell in the folder; "orrery" is the command. */
static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int shell(const char *format, ...) {
    char line[4096], whole[16384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole,
             "cd '%s' && orrery() { '%s' \"$@\"; } && { %s\n} >'.out' 2>'.err' </dev/null", folder,
             command, line);
    int status = system(whole);
    assert_true(WIFEXITED(status));
    result.exit = WEXITSTATUS(status);
    read_file(".out", result.out, sizeof result.out);
    read_file(".err", result.err, sizeof result.err);
    return result.exit;
}

static void expect_text(const char *text, const char *part) {
    if (!strstr(text, part))
        print_message("no '%s' in:\n%s\n", part, text);
    assert_non_null(strstr(text, part));
}

/* The last run ended with `exit`, said exactly this line on stderr and nothing on stdout. */
static void expect_message(int exit, const char *line) {
    char wanted[4096];
    snprintf(wanted, sizeof wanted, "orrery: %s\n", line);
    assert_string_equal(result.err, wanted);
    assert_string_equal(result.out, "");
    assert_int_equal(result.exit, exit);
}

static bool one_line(const char *text) {
    const char *end = strchr(text, '\n');
    return end && end[1] == '\0';
}

/* A value of the trace's table meta. */
static void expect_meta(const char *trace, const char *key, const char *wanted) {
    char path[4096];
    sqlite3 *database;
    sqlite3_stmt *statement;
    snprintf(path, sizeof path, "%s/%s", folder, trace);
    assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(database, "SELECT value FROM meta WHERE key = ?", -1, &statement, NULL),
        SQLITE_OK);
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), wanted);
    sqlite3_finalize(statement);
    sqlite3_close(database);
}

/* Scenarios that the cases use. */
static const struct {
    const char *name, *text;
} files[] = {
    {"good.lua", "-- devices: sim:teaching\n"
                 "local p = orrery.args{ ns = 1000, name = 'k' }\n"
                 "local d = orrery.device(0)\n"
                 "local a = d:alloc(1024, 'a')\n"
                 "d:stream():kernel{ name = p.name, writes = {a}, ns = p.ns }\n"
                 "d:sync()\n"
                 "print('done at', orrery.now())\n"
                 "expect.clean()\n"
                 "expect.equal(p.ns, 1000)\n"},
    {"numbers.lua", "-- devices: sim:h100*2\n"
                    "local p = orrery.args{ by = 2 }\n"
                    "local x = orrery.ones{ shape = {4, 4}, place = {'S(0)'} }\n"
                    "local y = (x * 1):redistribute('R')\n"
                    "print((y * p.by):sum():future():get())\n"
                    "expect.clean()\n"},
    {"waits.lua", "-- devices: sim:teaching\n"
                  "local d = orrery.device(0)\n"
                  "local s, t = d:stream('compute'), d:stream('copy')\n"
                  "local a = d:alloc(64)\n"
                  "for i = 1, 3 do\n"
                  "    s:kernel{ name = 'w', writes = {a} }\n"
                  "    t:wait(s:record())\n"
                  "    t:kernel{ name = 'r', reads = {a} }\n"
                  "    s:wait(t:record())\n"
                  "end\n"},
    {"syntax.lua", "local a = 1\nlocal b = = 2\n"},
    {"key.lua", "orrery.device(0):stream():kernel{ name = 'k' }\n"
                "orrery.device(0):stream():kernel{ nmae = 'k' }\n"},
    {"endless.lua", "print('before')\nwhile true do\nend\n"},
    {"memory.lua", "-- devices: sim:teaching\n"
                   "local d = orrery.device(0)\n"
                   "local a = d:alloc(1 << 20, 'weights')\n"
                   "local b = d:alloc(1 << 40, 'cache')\n"},
    {"long.lua", "local d = orrery.device(0)\n"
                 "for i = 1, 20000 do d:stream():kernel{ name = 'kernel ' .. i, ns = 1 } end\n"},
};

static int set_up(void **state) {
    (void)state;
    const char *given = getenv("ORRERY");
    if (!realpath(given && given[0] ? given : "build/release/orrery", command)) {
        print_message("skipped: the command is not built\n");
        return -1;
    }
    if (!mkdtemp(folder))
        return -1;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        write_file(files[i].name, files[i].text);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char line[4096];
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    return system(line);
}

/* --- the command itself --- */

static void help_lists_the_verbs_that_there_are(void **state) {
    (void)state;
    assert_int_equal(shell("orrery --help"), 0);
    const char *verbs[] = {"run", "analyze", "export", "devices", "test"};
    for (size_t i = 0; i < 5; i++)
        expect_text(result.out, verbs[i]);
    assert_string_equal(result.err, "");
    assert_int_equal(shell("orrery help"), 0);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(shell("orrery %s --help", verbs[i]), 0);
        expect_text(result.out, "usage: orrery ");
        assert_string_equal(result.err, "");
    }
    assert_int_equal(shell("orrery --version"), 0);
    assert_int_equal(strncmp(result.out, "orrery ", 7), 0);
}

static void wrong_usage_ends_with_2_and_names_the_nearest(void **state) {
    (void)state;
    assert_int_equal(shell("orrery"), 2);
    expect_text(result.err, "orrery: expected a verb: run, analyze, ");
    expect_text(result.err, ", doctor or test (orrery --help)\n");
    assert_true(one_line(result.err));
    shell("orrery analyse run.db");
    expect_message(2, "unknown verb 'analyse'; did you mean 'analyze'? (orrery --help)");
    assert_int_equal(shell("orrery replicate good.lua"), 2);
    expect_text(result.err, "orrery: unknown verb 'replicate'; this version has run, analyze, ");
    expect_text(result.err, ", doctor and test (orrery --help)\n");
    shell("orrery run");
    expect_message(2, "expected a scenario (orrery run --help)");
    shell("orrery run good.lua --device sim:h100");
    expect_message(2, "unknown option '--device'; did you mean '--devices'? (orrery run --help)");
    shell("orrery run good.lua --devices");
    expect_message(2, "--devices takes a value (orrery run --help)");
    shell("orrery run good.lua --timing-only=yes");
    expect_message(2, "--timing-only takes no value (orrery run --help)");
    shell("orrery run good.lua other");
    expect_message(2, "'other': expected key=value (orrery run --help)");
    shell("orrery run good.lua --seed -1");
    expect_message(2, "--seed '-1': expected a whole number (orrery run --help)");
    shell("orrery run good.lua --trace summary");
    expect_message(2, "--trace 'summary': expected full or off (orrery run --help)");
    shell("orrery run good.lua --runner fast");
    expect_message(2, "--runner 'fast': expected inline or per-device (orrery run --help)");
    shell("orrery run good.lua --pageable stage");
    expect_message(2, "--pageable 'stage': expected strict or staged (orrery run --help)");
    shell("orrery run good.lua --trace off --explain");
    expect_message(2, "--explain needs a trace (orrery run --help)");
    shell("orrery analyze");
    expect_message(2, "expected a trace (orrery analyze --help)");
    shell("orrery export run.db");
    expect_message(2, "expected -o FILE.json or -o FILE.json.gz (orrery export --help)");
    shell("orrery devices a b");
    expect_message(2, "expected one name at most (orrery devices --help)");
    shell("orrery test");
    expect_message(2, "expected a scenario or a folder of scenarios (orrery test --help)");
    assert_false(exists("run.db"));
}

static void an_answer_that_cannot_be_written_is_a_failure(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(shell("orrery devices >/dev/full"), 4);
    expect_text(result.err, "orrery: the answer could not be written");
}

/* --- run --- */

static void a_run_leaves_a_trace_and_says_so(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua -o good.db"), 0);
    assert_string_equal(result.out,
                        "done at\t6001\n"
                        "good.lua: 6.002 us of virtual time on 1 x teaching (sim), 2 commands, "
                        "trace in good.db\n"
                        "expectations: 2 met, 0 failed\n");
    assert_string_equal(result.err, "");
    expect_meta("good.db", "status", "ok");
    expect_meta("good.db", "scenario", "good.lua");
    expect_meta("good.db", "devices", "sim:teaching");
    expect_meta("good.db", "args", "");
    expect_meta("good.db", "backend", "sim");
    expect_meta("good.db", "clock", "virtual");
    assert_int_equal(shell("orrery run good.lua name=n=m ns=1000 --seed 7 --devices=sim:l4*2"), 0);
    expect_meta("run.db", "args", "name=n=m ns=1000");
    expect_meta("run.db", "seed", "7");
    expect_meta("run.db", "devices", "sim:l4*2");
}

static void two_runs_leave_the_same_bytes(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua -o 1.db >1.txt && orrery run good.lua -o 2.db"
                           " >2.txt && cmp 1.db 2.db && sed s/1.db/2.db/ 1.txt | cmp - 2.txt"),
                     0);
}

static void an_unmet_expectation_ends_with_1_and_its_line(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua ns=2000 -o no.db"), 1);
    expect_text(result.out, "failed: good.lua:9: expect.equal: got 2000, wanted 1000\n");
    expect_text(result.out, "expectations: 1 met, 1 failed\n");
    expect_meta("no.db", "status", "ok");
}

static void a_run_without_a_trace_leaves_no_file(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua --trace off -o none.db"), 0);
    expect_text(result.out, "expectations: 1 met, 0 failed, 1 not judged (no trace)\n");
    assert_false(exists("none.db"));
}

static void real_threads_run_the_same_scenario(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua --devices 'cpu*2' -o cpu.db"), 0);
    expect_meta("cpu.db", "backend", "cpu");
    expect_meta("cpu.db", "clock", "monotonic");
    expect_text(result.out, " on 2 x cpu (cpu), 2 commands, trace in cpu.db\n");
}

static void wrong_arguments_of_a_scenario_are_wrong_usage(void **state) {
    (void)state;
    shell("orrery run good.lua nss=1 -o wrong.db");
    expect_message(2, "good.lua:2: unknown argument 'nss'; did you mean 'ns'?");
    shell("orrery run good.lua ns=soon -o wrong.db");
    expect_message(2, "good.lua:2: argument ns: expected a whole number, got 'soon'");
    shell("orrery run memory.lua x=1 -o wrong.db");
    expect_message(2, "memory.lua:3: unknown argument 'x': the scenario has not declared any with "
                      "orrery.args before its first call");
    assert_false(exists("wrong.db"));
}

static void bad_scenarios_end_with_3_and_leave_nothing(void **state) {
    (void)state;
    shell("orrery run syntax.lua -o bad.db");
    expect_message(3, "syntax.lua:2: unexpected symbol near '='");
    shell("orrery run key.lua -o bad.db");
    expect_message(3, "key.lua:2: unknown key 'nmae' in kernel; did you mean 'name'?");
    shell("orrery run nosuch.lua -o bad.db");
    expect_message(3, "nosuch.lua: No such file or directory");
    shell("orrery run . -o bad.db");
    expect_message(3, ".: Is a directory");
    shell("orrery run good.lua --devices sim:h10 -o bad.db");
    expect_message(3, "unknown machine 'h10'; did you mean 'h100'?");
    assert_false(exists("bad.db"));
}

static void an_endless_loop_ends_with_3_and_its_line(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run endless.lua -o endless.db"), 3);
    assert_string_equal(result.out, "before\n");
    assert_true(one_line(result.err));
    expect_text(result.err, "orrery: endless.lua:2: the scenario ran for more than its limit of ");
    assert_false(exists("endless.db"));
}

static void a_target_that_is_not_here_ends_with_5(void **state) {
    (void)state;
    /* On any machine: with or without a plugin, a driver, a GPU. */
    assert_int_equal(shell("orrery run good.lua --devices cuda:0 --cudart ./none.so"), 5);
    assert_true(one_line(result.err));
    expect_text(result.err, "orrery: --devices 'cuda:0': ");
    assert_string_equal(result.out, "");
    shell("orrery run good.lua --timestamps clock");
    expect_message(2,
                   "--timestamps 'clock': expected auto, cupti, events, both or host (orrery run "
                   "--help)");
    shell("orrery run good.lua --collectives mpi");
    expect_message(2, "--collectives 'mpi': expected auto, emulated or nccl (orrery run --help)");
}

static void a_device_out_of_memory_ends_with_4_and_keeps_its_trace(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run memory.lua -o oom.db"), 4);
    assert_true(one_line(result.err));
    assert_int_equal(strncmp(result.err, "orrery: memory.lua:4: ", 22), 0);
    expect_text(result.err, "weights");
    expect_meta("oom.db", "status", "failed");
    assert_int_equal(shell("orrery analyze oom.db --json"), 0);
}

static void an_output_that_cannot_be_written_ends_with_4(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua -o nosuch/run.db"), 4);
    assert_true(one_line(result.err));
    expect_text(result.err, "nosuch/run.db");
    assert_string_equal(result.out, "");
    if (geteuid() != 0) {
        assert_int_equal(shell("mkdir -m 555 readonly; orrery run good.lua -o readonly/run.db"), 4);
        expect_text(result.err, "readonly/run.db");
    }
}

static void a_file_that_orrery_did_not_write_is_left_alone(void **state) {
    (void)state;
    write_file("letter.txt", "Dear all\n");
    assert_int_equal(shell("orrery run good.lua -o letter.txt"), 4);
    expect_text(result.err, "letter.txt");
    assert_int_equal(shell("orrery run good.lua -o good.db && orrery export good.db -o letter.txt"),
                     4);
    expect_text(result.err, "letter.txt: a file that `orrery export` did not write");
    char text[64];
    read_file("letter.txt", text, sizeof text);
    assert_string_equal(text, "Dear all\n");
}

static void a_full_disk_ends_with_4_and_what_was_written_stays(void **state) {
    (void)state;
    assert_int_equal(shell("ulimit -f 700; orrery run long.lua -o full.db"), 4);
    assert_true(one_line(result.err));
    expect_text(result.err, "full.db");
    assert_true(exists("full.db"));
    assert_int_equal(shell("orrery analyze full.db --json"), 0);
    expect_text(result.out, "\"status\": \"failed\"");
}

static void explain_tells_what_each_command_waited_for(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua --explain -o explain.db"), 0);
    expect_text(result.out, "commands (times in ns):\n");
    expect_text(result.out, "#2     k                  0/compute        call 1 start 5001 finish "
                            "6001  at once\n");
}

/* --- analyze and export --- */

static void a_second_run_elsewhere_agrees_or_says_where_it_parts(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run numbers.lua --trace off --compare-devices cpu*2"), 0);
    expect_text(result.out, "32.0\nnumbers.lua: "); /* the second run prints nothing */
    expect_text(result.out, "expectations: 1 met, 0 failed");
    expect_text(result.out, "4 operators compared within 1e-05: they agree\n");
    assert_int_equal(shell("orrery run numbers.lua --trace off --compare-args by=3"), 1);
    expect_text(result.out, "failed: two runs: 3 operators compared within 1e-05; the first that "
                            "parts is operator 2, scale, result 0\n");
    expect_text(result.out, "  second: f32 [4, 4] R at numbers.lua:5\n");
    expect_text(result.out, "attribute alpha is not the same: 2 and 3\n");
    shell("orrery run numbers.lua --trace off --compare-args by=3 --tolerance 0.5");
    assert_int_equal(result.exit, 0);
    shell("orrery run numbers.lua --trace off --tolerance 1");
    expect_message(2, "--tolerance goes with --compare-devices or --compare-args "
                      "(orrery run --help)");
    shell("orrery run numbers.lua --trace off --compare-devices cpu*2 --timing-only");
    expect_message(2, "--timing-only runs have no numbers to compare (orrery run --help)");
    shell("orrery run numbers.lua --trace off --compare-devices cpu*2 --tolerance=-1");
    expect_message(2, "--tolerance '-1': expected a number, 0 or more (orrery run --help)");
    assert_int_equal(shell("orrery run numbers.lua --trace off --compare-args 'by'"), 2);
    expect_text(result.err, "--compare-args: 'by': expected key=value\n");
    assert_int_equal(shell("orrery run numbers.lua --trace off --compare-args 'bye=1'"), 2);
    expect_text(result.err, "did you mean 'by'?");
}

static void json_is_one_document_and_nothing_else(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua -o good.db && orrery analyze good.db --json"), 0);
    assert_int_equal(shell("orrery analyze good.db --json"), 0);
    assert_int_equal(result.out[0], '{');
    assert_string_equal(result.err, "");
    sqlite3 *database;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(":memory:", &database), SQLITE_OK);
    sqlite3_prepare_v2(database,
                       "SELECT json_valid(?1), json_extract(?1, '$.devices[0].compute_ns')", -1,
                       &statement, NULL);
    sqlite3_bind_text(statement, 1, result.out, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), 1);
    assert_int_equal(sqlite3_column_int(statement, 1), 1000);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    assert_int_equal(shell("orrery analyze good.db"), 0);
    expect_text(result.out, "good.db");
}

static void a_part_of_the_time_is_analyzed_by_itself(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua -o good.db && "
                           "orrery analyze good.db --begin 6000 --end=6400"),
                     0);
    expect_text(result.out, "window: 400 ns, from 6000 to 6400 ns");
    shell("orrery analyze good.db --begin 6us");
    expect_message(2, "--begin and --end take a number of ns (orrery analyze --help)");
    shell("orrery analyze good.db --begin 7000 --end 6000");
    assert_int_equal(result.exit, 3);
    expect_text(result.err, "window from 7000 to 6000 ns");
}

static void a_trace_becomes_a_timeline_plain_or_compressed(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run good.lua -o good.db && orrery export good.db -o good.json"),
                     0);
    expect_text(result.out, "good.json: ");
    assert_int_equal(shell("orrery export good.db -o good.json && orrery export good.db -o "
                           "good.json.gz && gzip -dc good.json.gz | cmp - good.json"),
                     0);
    char text[4096];
    read_file("good.json", text, sizeof text);
    expect_text(text, "\"traceEvents\"");
}

/* Both verbs that read a trace answer a bad one with 3 and one line that names it. */
static void expect_bad_trace(const char *name) {
    const char *verbs[] = {"analyze %s", "analyze --json %s", "export %s -o bad.json"};
    for (size_t i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line, verbs[i], name);
        assert_int_equal(shell("orrery %s", line), 3);
        assert_string_equal(result.out, "");
        assert_true(one_line(result.err));
        expect_text(result.err, name);
        assert_false(exists("bad.json"));
    }
}

static void a_bad_trace_ends_with_3_and_one_line(void **state) {
    (void)state;
    expect_bad_trace("nosuch.db");
    write_file("empty.db", "");
    expect_bad_trace("empty.db");
    write_file("letter.db", "Dear all, this is no database, however long you read it.\n");
    expect_bad_trace("letter.db");
    assert_int_equal(shell("orrery run long.lua -o long.db && head -c 20000 long.db >cut.db"), 0);
    expect_bad_trace("cut.db");
    assert_int_equal(shell("rm -f bad.json; mkdir -p dir.db"), 0);
    expect_bad_trace("dir.db");
}

/* --- devices --- */

static void devices_shows_every_figure_with_its_source(void **state) {
    (void)state;
    assert_int_equal(shell("orrery devices"), 0);
    const char *names[] = {"teaching", "a100-sxm", "h100-sxm", "h200",     "b200",
                           "l4",       "mi300x",   "cpu",      "dgx-a100", "dgx-h100"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect_text(result.out, names[i]);
    assert_int_equal(shell("orrery devices h100"), 0);
    expect_text(result.out, "peak.matrix.bf16     989 TFLOP/s    published spec table");
    shell("orrery devices h10");
    expect_message(3, "unknown machine 'h10'; did you mean 'h100'?");
    write_file("mine.lua", "return { base = 'l4', bandwidth = { 1e12, source = 'wishful' } }");
    assert_int_equal(shell("orrery devices ./mine.lua"), 0);
    expect_text(result.out, "bandwidth            1 TB/s         wishful");
    assert_int_equal(shell("orrery run good.lua --devices 'sim:./mine.lua*2' -o mine.db"), 0);
}

/* --- test --- */

static void test_runs_every_case_and_prints_tap(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir -p suite/a suite/library"), 0);
    write_file("suite/library/skip.lua", "error('a library is no scenario')\n");
    write_file("suite/b.lua", "-- test: x=1\n-- test: x=2 --timing-only\n"
                              "local p = orrery.args{ x = 0 }\nexpect.less(0, p.x)\n");
    write_file("suite/a/cuda.lua", "-- devices: cuda:0\n-- test: --cudart ./none.so\n");
    assert_int_equal(shell("orrery test suite --junit junit.xml"), 0);
    expect_text(result.out, "TAP version 13\nok 1 - suite/a/cuda.lua --cudart ./none.so # SKIP "
                            "--devices 'cuda:0': ");
    expect_text(result.out, "\nok 2 - suite/b.lua x=1\n"
                            "ok 3 - suite/b.lua x=2 --timing-only\n"
                            "1..3\n");
    char xml[8192];
    read_file("junit.xml", xml, sizeof xml);
    expect_text(xml, "tests=\"3\" failures=\"0\" skipped=\"1\"");
    expect_text(xml, "<testcase classname=\"suite/b.lua\" name=\"x=2 --timing-only\"/>");
}

static void test_ends_with_1_when_a_case_fails_and_says_why(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir -p bad"), 0);
    write_file("bad/equal.lua", "print('what it printed')\nexpect.equal('<a>', 'b')\n");
    write_file("bad/error.lua", "error('broken')\n");
    assert_int_equal(shell("orrery test bad --junit junit.xml"), 1);
    assert_string_equal(result.out, "TAP version 13\n"
                                    "not ok 1 - bad/equal.lua\n"
                                    "# bad/equal.lua:2: expect.equal: got '<a>', wanted 'b'\n"
                                    "# it printed:\n"
                                    "# what it printed\n"
                                    "not ok 2 - bad/error.lua\n"
                                    "# exit code 3: bad/error.lua:1: broken\n"
                                    "1..2\n");
    char xml[8192];
    read_file("junit.xml", xml, sizeof xml);
    expect_text(xml, "tests=\"2\" failures=\"2\"");
    expect_text(xml, "got '&lt;a&gt;', wanted 'b'");
    shell("orrery test nosuch");
    expect_message(3, "nosuch: No such file or directory");
    assert_int_equal(shell("mkdir -p nothing; orrery test nothing"), 3);
    write_file("bad/line.lua", "-- test: --sed 5\n");
    assert_int_equal(shell("orrery test bad/line.lua"), 2);
    expect_text(result.err, "unknown option '--sed'; did you mean '--seed'?");
}

/* The last wait of all orders nothing that is still to come. */
static void a_dropped_wait_is_found(void **state) {
    (void)state;
    assert_int_equal(shell("orrery run waits.lua --check --trace off"), 0);
    for (int i = 1; i <= 6; i++) {
        assert_int_equal(shell("orrery run waits.lua --drop-wait %d --check -o w.db", i), i < 6);
        char line[64];
        snprintf(line, sizeof line, "wait %d of 6 left out on purpose\n", i);
        expect_text(result.out, line);
    }
    expect_meta("w.db", "drop_wait", "6");
    expect_meta("w.db", "waits", "6");
    assert_int_equal(shell("orrery run waits.lua --drop-wait 7 -o x.db"), 2);
    expect_message(2, "--drop-wait 7: waits.lua has 6 waits");
    assert_false(exists("x.db"));
    shell("orrery run waits.lua --drop-wait 0");
    expect_message(2, "--drop-wait '0': expected a number from 1, or random (orrery run --help)");
    assert_int_equal(shell("orrery run waits.lua --drop-wait random --seed 2 --trace off"), 0);
    expect_text(result.out, " of 6 left out on purpose\n");
    shell("for i in 1 2; do orrery run waits.lua --drop-wait random --seed 2 --trace off; done |"
          " sort -u | wc -l");
    assert_int_equal(atoi(result.out), 2); /* twice the same two lines */
    assert_int_equal(shell("orrery run good.lua --drop-wait random --trace off"), 2);
    expect_text(result.err, "--drop-wait 1: good.lua has 0 waits");
    assert_int_equal(shell("orrery check waits.lua --drop-wait 1"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dropped_wait_is_found),
        cmocka_unit_test(help_lists_the_verbs_that_there_are),
        cmocka_unit_test(wrong_usage_ends_with_2_and_names_the_nearest),
        cmocka_unit_test(an_answer_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(a_run_leaves_a_trace_and_says_so),
        cmocka_unit_test(two_runs_leave_the_same_bytes),
        cmocka_unit_test(an_unmet_expectation_ends_with_1_and_its_line),
        cmocka_unit_test(a_run_without_a_trace_leaves_no_file),
        cmocka_unit_test(real_threads_run_the_same_scenario),
        cmocka_unit_test(wrong_arguments_of_a_scenario_are_wrong_usage),
        cmocka_unit_test(bad_scenarios_end_with_3_and_leave_nothing),
        cmocka_unit_test(an_endless_loop_ends_with_3_and_its_line),
        cmocka_unit_test(a_target_that_is_not_here_ends_with_5),
        cmocka_unit_test(a_device_out_of_memory_ends_with_4_and_keeps_its_trace),
        cmocka_unit_test(an_output_that_cannot_be_written_ends_with_4),
        cmocka_unit_test(a_file_that_orrery_did_not_write_is_left_alone),
        cmocka_unit_test(a_full_disk_ends_with_4_and_what_was_written_stays),
        cmocka_unit_test(explain_tells_what_each_command_waited_for),
        cmocka_unit_test(a_second_run_elsewhere_agrees_or_says_where_it_parts),
        cmocka_unit_test(json_is_one_document_and_nothing_else),
        cmocka_unit_test(a_part_of_the_time_is_analyzed_by_itself),
        cmocka_unit_test(a_trace_becomes_a_timeline_plain_or_compressed),
        cmocka_unit_test(a_bad_trace_ends_with_3_and_one_line),
        cmocka_unit_test(devices_shows_every_figure_with_its_source),
        cmocka_unit_test(test_runs_every_case_and_prints_tap),
        cmocka_unit_test(test_ends_with_1_when_a_case_fails_and_says_why),
    };
    return cmocka_run_group_tests_name("cli", tests, set_up, tear_down);
}
