#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "hazards/explore/fingerprint.h"
#include "hazards/explore/schedule_file.h"
#include "hazards/stream_program_read.h"
#include "tests/program_random.h"
#include "tests/program_text.h"
#include "tests/support.h"

/* Saved schedules: what is written is read back and replays to the same; what has changed no longer
 * fits; what is no schedule is refused. The verbs explore and replay, in this process. */

static const char racy[] =
    "{\"id\": \"racy\", \"program\": {\"streams\": {\"s0\": {\"dev\": 0, \"kind\": \"nb\"}, "
    "\"s1\": {\"dev\": 0, \"kind\": \"nb\"}}, \"ops\": [{\"op\": \"kernel\", \"stream\": \"s0\", "
    "\"writes\": [\"A\"]}, {\"op\": \"record\", \"stream\": \"s1\", \"event\": \"e\"}, "
    "{\"op\": \"kernel\", \"stream\": \"s1\", \"reads\": [\"A\"]}]}}\n";

/* --- the command --- */

static char out[1 << 16], err[1 << 14];

static int run(int count, const char *const *words) {
    char *arguments[16] = {"orrery"}, *out_text, *err_text;
    size_t out_size, err_size;
    struct orr_memory memory = orr_memory_system();
    struct orr_cli cli = {.memory = &memory,
                          .out = open_memstream(&out_text, &out_size),
                          .err = open_memstream(&err_text, &err_size)};
    for (int i = 0; i < count; i++)
        arguments[1 + i] = (char *)words[i];
    int exit = orr_cli_main(&cli, count + 1, arguments);
    fclose(cli.out);
    fclose(cli.err);
    snprintf(out, sizeof out, "%s", out_text);
    snprintf(err, sizeof err, "%s", err_text);
    free(out_text);
    free(err_text);
    return exit;
}

#define RUN(...)                                                                                   \
    run((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),                             \
        (const char *[]){__VA_ARGS__})

static void expect_text(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("no '%s' in: %s", part, text);
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static char *read_file(const char *name) {
    static char text[1 << 16];
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* `text` with the first `from` replaced by `to`. */
static const char *edited(const char *text, const char *from, const char *to) {
    static char made[1 << 16];
    const char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(made, sizeof made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return made;
}

static int enter_folder(void **state) {
    static char folder[] = "/tmp/orrery-schedule-XXXXXX";
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

/* --- files --- */

static void check_round_trip(const struct orr_stream_program *program,
                             const struct orr_explore_finding *finding) {
    struct orr_schedule_file file = {.id = "p",
                                     .source = "some \"file\".jsonl",
                                     .kind = finding->kind,
                                     .op_a = finding->op_a,
                                     .op_b = finding->op_b,
                                     .message = finding->message,
                                     .schedule = finding->schedule,
                                     .program = (struct orr_stream_program *)program};
    struct orr_schedule_file back;
    struct orr_error error = {0};
    struct orr_replay_result result;
    char *text, *again;
    assert_int_equal(orr_schedule_write(&file, &text), ORR_OK);
    if (orr_schedule_read(program->memory, text, strlen(text), &back, &error) != ORR_OK)
        fail_msg("%s in %s", error.text, text);
    assert_string_equal(back.source, file.source);
    assert_int_equal(back.kind, finding->kind);
    if (orr_schedule_replay(back.program, &back.schedule, &result, &error) != ORR_OK)
        fail_msg("%s in %s", error.text, text);
    assert_true(result.outcome == finding->schedule.outcome);
    assert_true(result.expected == finding->schedule.expected);
    assert_int_equal(result.poisoned, finding->schedule.poisoned);
    back.op_a = file.op_a;
    back.op_b = file.op_b;
    back.strategy = file.strategy;
    assert_int_equal(orr_schedule_write(&back, &again), ORR_OK);
    assert_true(back.fingerprint == orr_stream_program_fingerprint(program));
    orr_memory_free(program->memory, text);
    orr_memory_free(program->memory, again);
    orr_schedule_file_clear(&back, program->memory);
}

static void schedules_are_read_back_and_replayed(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1), count = 0;
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t at = (seed + i) * 0x9e3779b97f4a7c15u, drawn = at ? at : 1;
        struct program_random small = program_random_small(&drawn);
        struct orr_stream_program *program = program_random(&memory, &small, &drawn);
        struct orr_explore_options options = orr_explore_defaults();
        options.budget = 64;
        options.witnesses = 3;
        struct orr_exploration *found;
        assert_int_equal(orr_explore(program, &options, &found, NULL), ORR_OK);
        for (uint32_t k = 0; k < found->finding_count && k < 3; k++, count++)
            check_round_trip(program, &found->findings[k]);
        orr_exploration_destroy(&found);
        orr_stream_program_destroy(&program);
    }
    print_message("%llu schedules\n", (unsigned long long)count);
    assert_true(count > 50);
}

static void the_fingerprint_covers_what_can_matter(void **state) {
    (void)state;
    static const char *const texts[] = {
        "k s0 w:A; k s1 r:A",
        "k s0 w:A; k s1 r:A[0:4]",
        "k s0 w:A; k s1 w:A",
        "k s0 w:A; k s2 r:A",
        "h1: k s0 w:A; k s1 r:A",
        "k s0 w:A; k s1 r:B",
        "ms s0 A; k s1 r:A",
        "k s1 r:A; k s0 w:A",
        "k s0 w:A; k s1 r:A; rec e s1",
        "stream s0 bl; k s0 w:A; k s1 r:A",
        "stream s0 nb 1; k s0 w:A; k s1 r:A",
        "stream L legacy; k s0 w:A; k s1 r:A",
        "buffer A pinned; k s0 w:A; k s1 r:A",
        "option staged; k s0 w:A; k s1 r:A",
        "option serial; k s0 w:A; k s1 r:A",
        "option slots 2; k s0 w:A; k s1 r:A",
        "option depth 2; k s0 w:A; k s1 r:A",
        "option hang; k s0 w:A; k s1 r:A",
        "option hang; comm c r0; k s0 w:A; k s1 r:A",
        "option hang; comm c r0 r1; k s0 w:A; k s1 r:A",
    };
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    struct orr_memory memory = orr_memory_system();
    uint64_t prints[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        struct orr_stream_program *program = stream_program_of(&memory, texts[i]);
        prints[i] = orr_stream_program_fingerprint(program);
        orr_stream_program_destroy(&program);
        for (int k = 0; k < i; k++)
            if (prints[k] == prints[i])
                fail_msg("'%s' and '%s' have one fingerprint", texts[k], texts[i]);
    }
    /* The order of declarations does not matter. */
    struct orr_stream_program *a = stream_program_of(
        &memory, "stream s0 nb; stream s1 bl; buffer B pinned; k s0 w:A; k s1 r:A");
    struct orr_stream_program *b = stream_program_of(
        &memory, "buffer B pinned; stream s1 bl; stream s0 nb; k s0 w:A; k s1 r:A");
    assert_true(orr_stream_program_fingerprint(a) == orr_stream_program_fingerprint(b));
    orr_stream_program_destroy(&a);
    orr_stream_program_destroy(&b);
}

/* --- verbs --- */

static void a_finding_is_saved_and_replayed(void **state) {
    (void)state;
    write_file("p.jsonl", racy);
    assert_int_equal(RUN("explore", "p.jsonl", "--out", "p.schedule"), ORR_EXIT_NO);
    expect_text(out, "racy: race");
    expect_text(out, "2 runs, 2 distinct orders: all there are; 1 gave wrong numbers");
    assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_NO);
    expect_text(out, "racy: race, again");
    expect_text(out, "other numbers than in the program's own order");
    assert_int_equal(RUN("replay", "p.schedule", "--json"), ORR_EXIT_NO);
    expect_text(out, "\"verdict\": \"race\"");
    expect_text(out, "\"compared\": true");
    /* A second time: the same file, byte for byte. */
    char *first = strdup(read_file("p.schedule"));
    assert_int_equal(RUN("explore", "p.jsonl", "--out", "p.schedule", "--threads", "3"),
                     ORR_EXIT_NO);
    assert_string_equal(first, read_file("p.schedule"));
    free(first);
}

static void edits_that_change_nothing_are_passed_over(void **state) {
    (void)state;
    write_file("p.jsonl", racy);
    assert_int_equal(RUN("explore", "p.jsonl", "--out", "p.schedule"), ORR_EXIT_NO);
    write_file("p.jsonl", edited(racy, "\"racy\"", "\"renamed\""));
    assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_NO);
    expect_text(out, "the program is called 'renamed' now");
    write_file("p.jsonl",
               edited(racy, "{\"op\": \"kernel\"", "{\"site\": \"new.py:7\", \"op\": \"kernel\""));
    assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_NO);
    char both[4096];
    snprintf(both, sizeof both, "{\"id\": \"other\"}\n\n%s", racy);
    write_file("p.jsonl", both);
    assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_NO);
    assert_int_equal(unlink("p.jsonl"), 0);
    assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_NO);
    expect_text(out, "the program that it came from is not here");
    assert_int_equal(RUN("replay", "p.schedule", "--json"), ORR_EXIT_NO);
    expect_text(out, "\"compared\": false");
    assert_int_equal(RUN("replay", "p.schedule", "p.jsonl"), ORR_EXIT_INPUT);
}

static void other_edits_make_the_schedule_not_fit(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } edits[] = {
        {"\"reads\": [\"A\"]", "\"reads\": [\"B\"]",
         "p.jsonl: schedule no longer fits: step 1 wants op 2 'k s1 r:A' on stream s1, the program "
         "has 'k s1 r:B'"},
        {"[{\"op\": \"kernel\"",
         "[{\"op\": \"record\", \"stream\": \"s0\", \"event\": \"e\"}, {\"op\": \"kernel\"",
         "schedule no longer fits: step 1 wants op 2 'k s1 r:A' on stream s1, the program has 'rec "
         "e s1'"},
        {"\"reads\": [\"A\"]}]",
         "\"reads\": [\"A\"]}, {\"op\": \"host_read\", \"reads\": [\"A\"]}]",
         "schedule no longer fits: op 3 was no op 3 when it was found, the program has 'hr A'"},
        {"\"stream\": \"s1\", \"event\": \"e\"", "\"stream\": \"s0\", \"event\": \"e\"",
         "schedule no longer fits: op 1 was 'rec e s1' when it was found, the program has 'rec e "
         "s0'"},
        {"\"kind\": \"nb\"}, \"s1\"", "\"kind\": \"bl\"}, \"s1\"",
         "schedule no longer fits: the program's streams, kinds of memory or communicators"},
        {"\"ops\"", "\"pageable\": \"staged\", \"ops\"",
         "schedule no longer fits: the program's oracle or switches"},
        {"\"op\": \"record\"", "\"op\": \"recrd\"",
         "schedule no longer fits: program 'racy' is malformed now"},
    };
    write_file("p.jsonl", racy);
    assert_int_equal(RUN("explore", "p.jsonl", "--out", "p.schedule"), ORR_EXIT_NO);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        write_file("p.jsonl", edited(racy, edits[i].from, edits[i].to));
        assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_INPUT);
        expect_text(err, edits[i].message);
        assert_string_equal(out, "");
    }
    char two[8192];
    snprintf(two, sizeof two, "{\"id\": \"x\"}\n{\"id\": \"y\"}\n");
    write_file("p.jsonl", two);
    assert_int_equal(RUN("replay", "p.schedule"), ORR_EXIT_INPUT);
    expect_text(err, "no program has the id 'racy'");
}

static void what_is_no_schedule_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } edits[] = {
        {"\"orrery_schedule\": 1", "\"orrery_schedule\": 2", "orrery_schedule: 1, the version"},
        {"\"orrery_schedule\": 1", "\"schedule\": 1", "orrery_schedule is missing"},
        {"\"kept\": [0, 2]", "\"kept\": [2, 0]", "kept: numbers of operations"},
        {"\"kept\": [0, 2]", "\"kept\": [0, 9]", "kept: numbers of operations"},
        {"\"kept\": [0, 2]", "\"kept\": [0]",
         "it has 2 steps, the operations that it keeps take 1"},
        {"\"stream\": \"s1\", \"what\"", "\"stream\": \"s9\", \"what\"", "steps: stream: a name"},
        {"\"what\": \"run\"", "\"what\": \"walk\"", "steps: what: run, call"},
        {"\"what\": \"run\"", "\"why\": \"run\"", "steps: op, stream or host, and what"},
        {"\"kind\": \"race\"", "\"kind\": \"no-race\"", "finding.kind: race"},
        {"\"outcome\": \"", "\"outcome\": \"z", "outcome: 16 hexadecimal digits"},
        {"{\"op\": 2, \"stream\": \"s1\"", "{\"op\": 0, \"stream\": \"s0\"", "which has been done"},
        {"\"writes\": [\"A\"]", "\"writes\": [\"B\"]", "the program in it has been changed"},
        {"}", "", "p2.schedule: "},
    };
    write_file("p.jsonl", racy);
    assert_int_equal(RUN("explore", "p.jsonl", "--out", "p.schedule"), ORR_EXIT_NO);
    char *text = strdup(read_file("p.schedule"));
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        write_file("p2.schedule", edited(text, edits[i].from, edits[i].to));
        assert_int_equal(RUN("replay", "p2.schedule"), ORR_EXIT_INPUT);
        expect_text(err, edits[i].message);
        assert_string_equal(out, "");
    }
    free(text);
    write_file("p2.schedule", "");
    assert_int_equal(RUN("replay", "p2.schedule"), ORR_EXIT_INPUT);
    assert_int_equal(RUN("replay", "nowhere.schedule"), ORR_EXIT_INPUT);
    assert_int_equal(RUN("replay"), ORR_EXIT_USAGE);
}

static void explore_says_what_is_wrong_with_its_input(void **state) {
    (void)state;
    write_file("p.jsonl", racy);
    assert_int_equal(RUN("explore"), ORR_EXIT_USAGE);
    assert_int_equal(RUN("explore", "p.jsonl", "--strategy", "pcd"), ORR_EXIT_USAGE);
    expect_text(err, "did you mean 'pct'?");
    assert_int_equal(RUN("explore", "p.jsonl", "--budget", "0"), ORR_EXIT_USAGE);
    assert_int_equal(RUN("explore", "p.jsonl", "--depth", "65"), ORR_EXIT_USAGE);
    expect_text(err, "from 1 to 64");
    assert_int_equal(RUN("explore", "p.jsonl", "--id", "rac"), ORR_EXIT_INPUT);
    assert_int_equal(RUN("explore", "nowhere.jsonl"), ORR_EXIT_INPUT);
    write_file("q.jsonl", "{\"id\": \"bad\", \"program\": {\"ops\": []}}\nnothing\n");
    assert_int_equal(RUN("explore", "q.jsonl"), ORR_EXIT_INPUT);
    expect_text(out, "bad: invalid");
    expect_text(out, "line 2: invalid");
    write_file("other", "not a schedule");
    assert_int_equal(RUN("explore", "p.jsonl", "--out", "other"), ORR_EXIT_FAILED);
    assert_string_equal(read_file("other"), "not a schedule");
    assert_int_equal(RUN("explore", "p.jsonl", "--budget", "1", "--json"), ORR_EXIT_NO);
    expect_text(out, "\"runs\": 1, \"orders\": 1, \"capped\": true");
    assert_string_equal(err, "");
}

static void a_hang_is_saved_and_replayed(void **state) {
    (void)state;
    write_file(
        "h.jsonl",
        "{\"id\": \"locks\", \"program\": {\"oracle\": \"hang\", \"streams\": {}, \"ops\": "
        "[{\"op\": \"lock\", \"lock\": \"a\"}, {\"op\": \"lock\", \"lock\": \"b\"}, {\"op\": "
        "\"lock\", \"lock\": \"b\", \"host\": \"x\"}, {\"op\": \"lock\", \"lock\": \"a\", "
        "\"host\": \"x\"}]}}\n");
    assert_int_equal(RUN("explore", "h.jsonl", "--out", "h.schedule"), ORR_EXIT_NO);
    expect_text(out, "locks: hang");
    assert_int_equal(RUN("replay", "h.schedule"), ORR_EXIT_NO);
    expect_text(out, "locks: hang, again");
    char *text = strdup(read_file("h.schedule"));
    write_file("h2.schedule", edited(text, "\"outcome\": \"", "\"outcome\": \"0000\", \"o\": \""));
    assert_int_equal(RUN("replay", "h2.schedule"), ORR_EXIT_INPUT);
    write_file("h2.schedule",
               edited(text, "\"outcome\"", "\"outcome\": \"0000000000000000\", \"o\""));
    assert_int_equal(RUN("replay", "h2.schedule"), ORR_EXIT_INPUT);
    expect_text(err, "its steps come to something else than when it was saved");
    free(text);
}

static void what_is_too_large_is_unknown_and_the_rest_goes_on(void **state) {
    (void)state;
    FILE *file = fopen("large.jsonl", "wb");
    fprintf(file, "{\"id\": \"large\", \"program\": {\"streams\": {\"s0\": {\"dev\": 0, \"kind\": "
                  "\"nb\"}}, \"ops\": [");
    for (int i = 0; i < 5000; i++)
        fprintf(file, "%s{\"op\": \"kernel\", \"stream\": \"s0\"}", i > 0 ? ", " : "");
    fprintf(file, "]}}\n");
    fclose(file);
    assert_int_equal(RUN("explore", "large.jsonl"), ORR_EXIT_FAILED);
    expect_text(out, "large: unknown");
    expect_text(out, "too large to explore: more than 4096");
    file = fopen("large.jsonl", "ab");
    fputs(racy, file);
    fclose(file);
    assert_int_equal(RUN("explore", "large.jsonl", "--json"), ORR_EXIT_NO);
    expect_text(out, "\"verdict\": \"unknown\"");
    expect_text(out, "\"verdict\": \"race\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_read_back_and_replayed),
        cmocka_unit_test(the_fingerprint_covers_what_can_matter),
        cmocka_unit_test(a_finding_is_saved_and_replayed),
        cmocka_unit_test(edits_that_change_nothing_are_passed_over),
        cmocka_unit_test(other_edits_make_the_schedule_not_fit),
        cmocka_unit_test(what_is_no_schedule_is_refused),
        cmocka_unit_test(a_hang_is_saved_and_replayed),
        cmocka_unit_test(what_is_too_large_is_unknown_and_the_rest_goes_on),
        cmocka_unit_test(explore_says_what_is_wrong_with_its_input),
    };
    return cmocka_run_group_tests_name("schedule", tests, enter_folder, NULL);
}
