/* The HTML report: its documents are cut and escaped right, its cells are exact whatever the
 * window, and it survives memory that fails. tests/test_report_html.py looks at it from outside. */
#include "analyzer/report_html.h"

#include "analyzer/report_html_internal.h"
#include "tests/analyzer_fixture.h"
#include "tests/random_numbers.h"

/* ------------------------------------------------------------------------------------------------
 * Cutting */

static void cuts(const char *document, size_t items, size_t bytes, const char *wanted,
                 const char *left_out, uint64_t nested) {
    struct orr_memory memory = orr_memory_system();
    struct orr_text out = {.memory = &memory};
    struct orr__html_cut cut = {.left_out = {.text = {.memory = &memory}, .memory = &memory}};
    assert_true(orr__html_trim(document, strlen(document), items, bytes, &out, &cut));
    assert_string_equal(out.data, wanted);
    assert_string_equal(cut.left_out.text.data ? cut.left_out.text.data : "", left_out);
    assert_int_equal(cut.nested, nested);
    orr__text_free(&out);
    orr__text_free(&cut.left_out.text);
}

static void long_lists_keep_their_first_items(void **state) {
    (void)state;
    cuts("{\"a\": [1, 2, 3], \"b\": []}", 2, 99, "{\"a\": [1, 2], \"b\": []}", "\"a\": 1", 0);
    cuts("{\"a\": [1,2],\n \"b\": [3 , 4]}\n", 1, 99, "{\"a\": [1], \"b\": [3]}",
         "\"a\": 1, \"b\": 1", 0);
    cuts("[1, 2, 3]", 1, 99, "[1]", "", 2);
    cuts("{\"a\": {\"b\": [[1, 2], [3, 4], [5, 6]]}}", 1, 99, "{\"a\": {\"b\": [[1]]}}", "", 3);
    /* What is left out is not counted again inside itself. */
    cuts("{\"a\": [[1, 2], [3, 4]]}", 1, 99, "{\"a\": [[1]]}", "\"a\": 1", 1);
    cuts("{\"a\": [{\"x\": \"]},{\"}, {\"x\": -1.5e3}, null, true]}", 3, 99,
         "{\"a\": [{\"x\": \"]},{\"}, {\"x\": -1.5e3}, null]}", "\"a\": 1", 0);
}

static void long_texts_are_cut_between_characters(void **state) {
    (void)state;
    cuts("[\"abcdef\"]", 9, 3, "[\"abc\xE2\x80\xA6\"]", "", 0);
    cuts("[\"abc\"]", 9, 3, "[\"abc\"]", "", 0);
    cuts("[\"a\\\"b\"]", 9, 2, "[\"a\xE2\x80\xA6\"]", "", 0);
    cuts("[\"a\\\\\\\\\"]", 9, 3, "[\"a\\\\\xE2\x80\xA6\"]", "", 0);
    cuts("[\"\\u12345\"]", 9, 5, "[\"\xE2\x80\xA6\"]", "", 0);
    cuts("[\"\\u12345\"]", 9, 6, "[\"\\u1234\xE2\x80\xA6\"]", "", 0);
    cuts("[\"\xC3\xA9\xC3\xA9\"]", 9, 3, "[\"\xC3\xA9\xE2\x80\xA6\"]", "", 0);
    cuts("[\"\xF0\x9F\x98\x80!\"]", 9, 3, "[\"\xE2\x80\xA6\"]", "", 0);
}

static bool trims(const char *document, size_t length) {
    struct orr_memory memory = orr_memory_system();
    struct orr_text out = {.memory = &memory};
    struct orr__html_cut cut = {.left_out = {.text = {.memory = &memory}, .memory = &memory}};
    bool whole = orr__html_trim(document, length, 1, 4, &out, &cut);
    orr__text_free(&out);
    orr__text_free(&cut.left_out.text);
    return whole;
}

/* Each cut of a document, in a block of just that size: a sanitizer sees a byte too many. */
static void what_is_no_document_is_refused(void **state) {
    (void)state;
    static const char document[] = "{\"a\\\"\": [1, {\"b\": \"c\\u1234d\xC3\xA9\"}], \"e\": null}";
    for (size_t length = 0; length < sizeof document; length++) {
        char *copy = malloc(length + 1);
        memcpy(copy, document, length);
        char *exact = realloc(copy, length ? length : 1);
        assert_int_equal(trims(exact, length), length == sizeof document - 1);
        free(exact);
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_false(trims(deep, sizeof deep));
    assert_false(trims("[1]]", 4));
    assert_false(trims("[1 2]", 5));
    assert_false(trims("{\"a\" 1}", 7));
}

static void escapes(const char *json, const char *wanted) {
    struct orr_memory memory = orr_memory_system();
    struct orr_text out = {.memory = &memory};
    orr__html_escape(&out, json, strlen(json));
    assert_string_equal(out.data, wanted);
    orr__text_free(&out);
}

static void data_is_never_markup(void **state) {
    (void)state;
    escapes("\"</script>\"", "\"\\u003c/script\\u003e\"");
    escapes("\"<!--&amp;\"", "\"\\u003c!--\\u0026amp;\"");
    escapes("\xE2\x80\xA8|\xE2\x80\xA9|\xE2\x80\xA7|\xE2\x80",
            "\\u2028|\\u2029|\xE2\x80\xA7|\xE2\x80");
    escapes("plain", "plain");
}

/* ------------------------------------------------------------------------------------------------
 * Pages */

static struct orr_analysis *small(struct fixture *f, const struct orr_analysis_options *options) {
    start(f);
    kernel(f, 0, "a", 0, 10, 20, 40);
    kernel(f, 0, "</script>", 10, 20, 45, 90);
    kernel(f, 1, "b", 20, 30, 60, 160);
    kernel(f, 2, "c", 30, 40, 70, 75);
    return analyze_with(f, options);
}

static char *page(const struct orr_analysis *analysis, const struct orr_report_html_extra *extra) {
    char *text;
    size_t length;
    assert_int_equal(orr_report_html(analysis, extra, &text, &length), ORR_OK);
    assert_int_equal(strlen(text), length);
    assert_int_equal(text[length - 1], '\n');
    assert_non_null(strstr(text, ORR_REPORT_HTML_MARK));
    assert_true(strstr(text, ORR_REPORT_HTML_MARK) - text < 400);
    return text;
}

static void a_page_has_all_parts_once(void **state) {
    (void)state;
    struct fixture f;
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *a = small(&f, &options);
    char *text = page(a, NULL);
    static const char *const parts[] = {"id=\"analysis\">",
                                        "id=\"overview\">",
                                        "uPlot (v",
                                        "</html>",
                                        "Permission is hereby granted",
                                        "function start()"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *first = strstr(text, parts[i]);
        assert_non_null(first);
        assert_null(strstr(first + 1, parts[i]));
    }
    assert_null(strstr(text, "id=\"set\""));
    assert_null(strstr(text, "<!-- data -->"));
    orr_memory_free(a->memory, text);

    const char *set = "{\"ranks\": [\"<b>\"]}";
    struct orr_report_html_extra extra = {set, strlen(set), "verdict: it <is> so\nmore\n"};
    text = page(a, &extra);
    assert_non_null(strstr(text, "id=\"set\">{\"ranks\": [\"\\u003cb\\u003e\"]}</script>"));
    assert_non_null(strstr(text, "\"verdict\": \"it \\u003cis\\u003e so\""));
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

/* The sum of all numbers in arrays of the overview's "devices". */
static int64_t sum_of_cells(const char *text) {
    const char *at = strstr(text, "\"devices\": [") + 12;
    const char *end = strstr(text, "\"devices_left_out\"");
    int64_t sum = 0;
    while ((at = strstr(at, "\": [")) != NULL && at < end) {
        at += 4;
        while (*at != ']') {
            char *next;
            sum += strtoll(at, &next, 10);
            at = *next == ',' ? next + 1 : next;
        }
    }
    return sum;
}

static void check_window(int64_t begin, int64_t end) {
    struct fixture f;
    struct orr_analysis_options options = orr_analysis_options_default();
    options.begin_ns = begin;
    options.end_ns = end;
    struct orr_analysis *a = small(&f, &options);
    struct orr_memory memory = orr_memory_system();
    struct json j = {.text = {.memory = &memory}, .memory = &memory};
    put_open(&j, NULL, "{");
    assert_int_equal(orr__html_overview(&j, a), ORR_OK);
    put_close(&j, "}");
    if (sum_of_cells(j.text.data) != 2 * (end - begin)) {
        fail_msg("window from %lld to %lld: %s", (long long)begin, (long long)end, j.text.data);
    }
    orr__text_free(&j.text);
    finish(&f, &a);
}

static void cells_fill_any_window(void **state) {
    (void)state;
    static const int64_t windows[][2] = {{0, 0},
                                         {20, 160},
                                         {50, 51},
                                         {0, 200},
                                         {-5000, 12345678},
                                         {30, 30},
                                         {80, 90},
                                         {1000, 5000},
                                         {-(INT64_C(1) << 60), 0},
                                         {0, INT64_C(1) << 60}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        check_window(windows[i][0], windows[i][1]);
    }
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t random = seed;
        int64_t begin = (int64_t)random_below(&random, 200) - 20;
        check_window(begin, begin + (int64_t)random_below(&random, 300));
    }
}

/* ------------------------------------------------------------------------------------------------
 * Counters */

static void counter_points(const struct orr_timeline_counter *changes, size_t count,
                           struct orr__html_cells cells, const char *wanted) {
    struct orr_memory memory = orr_memory_system();
    struct orr_timeline timeline = {.counters = (struct orr_timeline_counter *)changes,
                                    .counter_count = count};
    struct json j = {.text = {.memory = &memory}, .memory = &memory};
    orr__html_counters(&j, &timeline, &cells);
    const char *points = strstr(j.text.data, "\"points\": ");
    assert_non_null(points);
    if (strncmp(points + 10, wanted, strlen(wanted)) != 0) {
        fail_msg("%s, expected %s", points, wanted);
    }
    orr__text_free(&j.text);
}

#define CHANGE(ns, v)                                                                              \
    { .name = "c", .ts_ns = ns, .value = v }

static void a_cell_has_the_largest_value_of_a_counter(void **state) {
    (void)state;
    const struct orr__html_cells cells = {
        .begin_ns = 100, .end_ns = 150, .cell_ns = 10, .count = 5};
    const struct orr_timeline_counter once[] = {CHANGE(112, 7)};
    counter_points(once, 1, cells, "[[1, 7]]");
    const struct orr_timeline_counter peak[] = {CHANGE(100, 1), CHANGE(121, 9), CHANGE(124, 2)};
    counter_points(peak, 3, cells, "[[0, 1], [2, 9], [3, 2]]");
    const struct orr_timeline_counter before[] = {CHANGE(5, 90), CHANGE(50, 3), CHANGE(111, 3)};
    counter_points(before, 3, cells, "[[0, 3]]");
    const struct orr_timeline_counter falls[] = {CHANGE(99, 8), CHANGE(105, 4), CHANGE(400, 99)};
    counter_points(falls, 3, cells, "[[0, 8], [1, 4]]");
    const struct orr_timeline_counter odd[] = {CHANGE(100, 0.5), CHANGE(120, 1e300)};
    counter_points(odd, 2, cells, "[[0, 0.5], [2, 1.0000000000000001e+300]]");
    const struct orr_timeline_counter late[] = {CHANGE(150, 1)};
    counter_points(late, 1, cells, "[]");
}

/* ------------------------------------------------------------------------------------------------
 * Memory that fails */

static void a_page_survives_each_failed_allocation(void **state) {
    (void)state;
    struct fixture f;
    struct orr_analysis_options options = orr_analysis_options_default();
    struct orr_analysis *a = small(&f, &options);
    const struct orr_memory *before = a->memory;
    const char *set = "{\"ranks\": []}";
    struct orr_report_html_extra extra = {set, strlen(set), NULL};
    struct failing failing = {.fail_at = 1};
    struct orr_memory memory = {failing_resize, &failing};
    for (bool failed = true; failed; failing.fail_at++) {
        char *text = NULL;
        size_t length = 1;
        failing.requests = 0;
        a->memory = &memory;
        enum orr_status status = orr_report_html(a, &extra, &text, &length);
        a->memory = before;
        failed = failing.requests >= failing.fail_at;
        assert_int_equal(status, failed ? ORR_NO_MEMORY : ORR_OK);
        assert_true((text == NULL) == failed);
        orr_memory_free(&memory, text);
        assert_int_equal(failing.live, 0);
    }
    finish(&f, &a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lists_keep_their_first_items),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(what_is_no_document_is_refused),
        cmocka_unit_test(data_is_never_markup),
        cmocka_unit_test(a_page_has_all_parts_once),
        cmocka_unit_test(cells_fill_any_window),
        cmocka_unit_test(a_cell_has_the_largest_value_of_a_counter),
        cmocka_unit_test(a_page_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
