/* The SARIF report: what it holds, to the byte; what it never does to other files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/sarif.h"
#include "tests/support.h"

static char folder[] = "/tmp/orrery-sarif-XXXXXX";
static char path[64];

static int begin(void **state) {
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/report.sarif", folder);
    return 0;
}

static int end(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* nothing else was left behind */
}

static void add_findings(struct orr_sarif *sarif) {
    orr_sarif_result(sarif, &(struct orr_sarif_finding){.rule = "race",
                                                        .level = "error",
                                                        .message = "\"a\"\nand b",
                                                        .site = "dir/train.lua:12",
                                                        .related_site = "dir/train.lua:9",
                                                        .related = "the write"});
    orr_sarif_result(
        sarif, &(struct orr_sarif_finding){
                   .rule = "my-own", .level = "warning", .message = "no place", .site = "x.jsonl"});
    orr_sarif_result(sarif,
                     &(struct orr_sarif_finding){.rule = "race", .level = "error", .message = "c"});
}

static const char wanted[] =
    "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\","
    "\"runs\":[{\"results\":[\n"
    "{\"ruleId\":\"race\",\"level\":\"error\",\"message\":{\"text\":\"\\\"a\\\"\\u000aand b\"},"
    "\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":\"dir/train.lua\"},"
    "\"region\":{\"startLine\":12}}}],"
    "\"relatedLocations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":\"dir/train.lua\"},"
    "\"region\":{\"startLine\":9}},\"message\":{\"text\":\"the write\"}}]},\n"
    "{\"ruleId\":\"my-own\",\"level\":\"warning\",\"message\":{\"text\":\"no place\"},"
    "\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":\"x.jsonl\"}}}]},\n"
    "{\"ruleId\":\"race\",\"level\":\"error\",\"message\":{\"text\":\"c\"},\"locations\":[]}],"
    "\"columnKind\":\"unicodeCodePoints\",\"tool\":{\"driver\":{\"name\":\"orrery\","
    "\"version\":\"0.1.0\",\"rules\":[\n"
    "{\"id\":\"race\",\"shortDescription\":{\"text\":\"Two accesses to the same bytes, one of them "
    "a write, that nothing orders.\"}},\n"
    "{\"id\":\"my-own\"}]}}}]}\n";

static void the_report_is_this(void **state) {
    (void)state;
    struct memory_counting memory;
    memory_counting_init(&memory, 0);
    struct orr_error error = {0};
    for (int time = 0; time < 2; time++) { /* a report may replace a report */
        struct orr_sarif *sarif;
        assert_int_equal(orr_sarif_open(path, &memory.table, &sarif, &error), ORR_OK);
        add_findings(sarif);
        assert_int_equal(orr_sarif_close(&sarif, &error), ORR_OK);
        assert_null(sarif);
    }
    char text[4096] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, wanted);
    assert_int_equal(memory.live, 0);
}

static void other_files_are_not_replaced(void **state) {
    (void)state;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("my notes\n", file);
    fclose(file);
    struct orr_memory memory = orr_memory_system();
    struct orr_sarif *sarif;
    struct orr_error error = {0};
    assert_int_equal(orr_sarif_open(path, &memory, &sarif, &error), ORR_IO);
    assert_non_null(strstr(error.text, "it is not replaced"));
    assert_null(sarif);
}

static void a_discarded_report_leaves_nothing(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_sarif *sarif;
    struct orr_error error = {0};
    assert_int_equal(orr_sarif_open(path, &memory, &sarif, &error), ORR_OK);
    add_findings(sarif);
    orr_sarif_discard(&sarif);
    assert_null(sarif);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void report(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_sarif *sarif;
    struct orr_error error = {0};
    if (orr_sarif_open(path, &memory->table, &sarif, &error) == ORR_OK) {
        add_findings(sarif);
        (void)!orr_sarif_close(&sarif, &error);
    }
}

static void missing_memory_is_told_and_leaves_nothing(void **state) {
    (void)state;
    assert_true(fail_each_request(report, NULL) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_report_is_this, begin, end),
        cmocka_unit_test_setup_teardown(other_files_are_not_replaced, begin, end),
        cmocka_unit_test_setup_teardown(a_discarded_report_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(missing_memory_is_told_and_leaves_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
