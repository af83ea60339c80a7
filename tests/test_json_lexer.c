/* The reader of JSON: numbers without doubles, texts, repairs, windows of any size, and nothing
 * read beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/random_numbers.h"
#include "tests/support.h"
#include "trace/import/json_document.h"

/* -- Numbers ----------------------------------------------------------------------------------- */

static struct orr__json_value value_of(const char *text, enum orr__json_kind kind) {
    return (struct orr__json_value){.kind = kind, .text = {.at = text, .length = strlen(text)}};
}

static void microseconds_become_nanoseconds_by_their_digits(void **unused) {
    (void)unused;
    static const struct {
        const char *text;
        int64_t ns;
        bool exact;
    } cases[] = {
        {"0", 0, true},
        {"1", 1000, true},
        {"12.345", 12345, true},
        {"12.3456", 12345, false},
        {"12.34500", 12345, true},
        {"-0.0019", -1, false},
        {"-0.0009", 0, false},
        {"0.0009", 0, false},
        {"4458676523033.190", INT64_C(4458676523033190), true},
        {"1711964646000000.123456", INT64_C(1711964646000000123), false},
        {"1.7119646e15", INT64_C(1711964600000000000), true},
        {"1.5E+2", 150000, true},
        {"15000e-4", 1500, true},
        {"1e-9", 0, false},
        {"0e99999999999", 0, true},
        {"9223372036854775.807", INT64_MAX, true},
        {"-9223372036854775.808", INT64_MIN, true},
        {" 7 ", 7000, true},
        {"+7", 7000, true},
        {".5", 500, true},
        {"5.", 5000, true},
        {"00012", 12000, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ns = -77;
        bool exact = false;
        struct orr__json_value number = value_of(cases[i].text, ORR__JSON_NUMBER);
        struct orr__json_value text = value_of(cases[i].text, ORR__JSON_STRING);
        assert_true(orr__json_scaled(&number, 3, &ns, &exact));
        assert_true(ns == cases[i].ns && exact == cases[i].exact);
        assert_true(orr__json_scaled(&text, 3, &ns, NULL) && ns == cases[i].ns);
    }
}

static void what_is_no_number_or_does_not_fit_is_refused(void **unused) {
    (void)unused;
    static const char *const cases[] = {"",
                                        "-",
                                        ".",
                                        "e5",
                                        "1e",
                                        "1e+",
                                        "1.2.3",
                                        "1-2",
                                        "0x10",
                                        "NaN",
                                        "12 34",
                                        "1,5",
                                        "9223372036854775.808",
                                        "-9223372036854775.809",
                                        "1e19",
                                        "1e999999",
                                        "stream 7"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ns = -77;
        struct orr__json_value value = value_of(cases[i], ORR__JSON_STRING);
        assert_false(orr__json_scaled(&value, 3, &ns, NULL));
        assert_int_equal(ns, -77);
    }
    struct orr__json_value literal = value_of("1", ORR__JSON_TRUE);
    int64_t ns;
    assert_false(orr__json_scaled(&literal, 3, &ns, NULL));
}

static void integers_are_exact_or_none(void **unused) {
    (void)unused;
    uint64_t u;
    int64_t i;
    struct orr__json_value v = value_of("18446744073709551615", ORR__JSON_NUMBER);
    assert_true(orr__json_u64(&v, &u) && u == UINT64_MAX);
    assert_false(orr__json_i64(&v, &i));
    v = value_of("18446744073709551616", ORR__JSON_NUMBER);
    assert_false(orr__json_u64(&v, &u));
    v = value_of("-1", ORR__JSON_NUMBER);
    assert_false(orr__json_u64(&v, &u));
    assert_true(orr__json_i64(&v, &i) && i == -1);
    v = value_of("4.0", ORR__JSON_NUMBER);
    assert_true(orr__json_u64(&v, &u) && u == 4);
    v = value_of("4.5", ORR__JSON_NUMBER);
    assert_false(orr__json_u64(&v, &u));
    double d;
    v = value_of("300.25", ORR__JSON_NUMBER);
    assert_true(orr__json_double(&v, &d) && d == 300.25);
    v = value_of("1e999", ORR__JSON_NUMBER);
    assert_false(orr__json_double(&v, &d));
}

/* Any number of any length is what 128-bit arithmetic says it is. */
static void random_decimals_are_what_wide_arithmetic_says(void **unused) {
    (void)unused;
    uint64_t state = 20260101;
    for (int round = 0; round < 20000; round++) {
        uint64_t whole = random_next(&state) >> random_below(&state, 64);
        unsigned decimals = (unsigned)random_below(&state, 6);
        uint64_t fraction = 0, unit = 1;
        for (unsigned i = 0; i < decimals; i++)
            unit *= 10;
        fraction = random_below(&state, unit);
        char text[64];
        int length = snprintf(text, sizeof text, "%" PRIu64, whole);
        if (decimals > 0)
            snprintf(text + length, sizeof text - (size_t)length, ".%0*" PRIu64, (int)decimals,
                     fraction);
        unsigned __int128 wide = ((unsigned __int128)whole * unit + fraction) * 1000;
        struct orr__json_value value = value_of(text, ORR__JSON_NUMBER);
        int64_t ns;
        bool exact, fits = orr__json_scaled(&value, 3, &ns, &exact);
        assert_true(fits == (wide / unit <= INT64_MAX));
        if (fits)
            assert_true((unsigned __int128)ns == wide / unit && exact == (wide % unit == 0));
    }
}

/* -- Texts ------------------------------------------------------------------------------------- */

static void texts_are_decoded_as_utf8(void **unused) {
    (void)unused;
    static const struct {
        const char *raw, *text;
        bool repaired;
    } cases[] = {
        {"plain", "plain", false},
        {"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t", "a\"b\\c/d\b\f\n\r\t", false},
        {"\\u0041\\u00e4\\u20ac", "A\xc3\xa4\xe2\x82\xac", false},
        {"\\ud83d\\ude00", "\xf0\x9f\x98\x80", false},
        {"\\ud83d x \\ude00", "\xef\xbf\xbd x \xef\xbf\xbd", false},
        {"\\ud83d\\u0041",
         "\xef\xbf\xbd"
         "A",
         false},
        {"\\u0000", "\xef\xbf\xbd", false},
        {"C:\\Users\\x", "C:\\Users\\x", false},
        {"\\u12", "\\u12", false},
        {"\\", "\\", false},
        {"\xc3\xa4", "\xc3\xa4", false},
        {"\xc3(", "\xef\xbf\xbd(", true},
        {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd", true},
        {"\xe2\x82", "\xef\xbf\xbd", true},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", true},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        bool repaired = false;
        struct orr__json_text text = {.at = cases[i].raw, .length = strlen(cases[i].raw)};
        size_t size = orr__json_decode(text, out, &repaired);
        assert_int_equal(size, strlen(cases[i].text));
        assert_memory_equal(out, cases[i].text, size);
        assert_int_equal(repaired, cases[i].repaired);
    }
}

/* -- Documents --------------------------------------------------------------------------------- */

/* What came out of a document, as a line: an item for each event, "name=value" of its members. */
struct reading {
    char text[8192];
    struct orr__json_report report;
    enum orr_status status;
};

static void append(struct reading *r, const char *text, size_t length) {
    size_t used = strlen(r->text);
    assert_true(used + length < sizeof r->text);
    memcpy(r->text + used, text, length);
    r->text[used + length] = '\0';
}

static void show(struct reading *r, struct orr__json_text text) {
    static char decoded[1 << 16];
    append(r, decoded, orr__json_decode(text, decoded, NULL));
}

static void show_event(struct reading *r, struct orr__json_cursor *cursor) {
    struct orr__json_value value;
    struct orr__json_text key;
    if (!orr__json_value(cursor, &value))
        return;
    if (value.kind != ORR__JSON_OBJECT) {
        orr__json_skip(cursor, &value);
        show(r, value.text);
        return;
    }
    while (orr__json_member(cursor, &key, &value)) {
        orr__json_skip(cursor, &value);
        show(r, key);
        append(r, "=", 1);
        show(r, value.text);
        append(r, " ", 1);
    }
}

static void read_text(const char *text, size_t size, size_t window, size_t window_max,
                      struct reading *r) {
    struct orr_memory memory = orr_memory_system();
    struct orr__json_input *input;
    struct orr__json_document *document;
    struct orr__json_piece piece;
    memset(r, 0, sizeof *r);
    assert_int_equal(orr__json_input_bytes(text, size, &memory, &input), ORR_OK);
    assert_int_equal(orr__json_document_open_window(input, &memory, window, window_max, &document),
                     ORR_OK);
    while (orr__json_document_next(document, &piece)) {
        size_t before = strlen(r->text);
        if (piece.kind == ORR__JSON_MEMBER) {
            append(r, "<", 1);
            show(r, piece.key);
            append(r, "> ", 2);
            continue;
        }
        do {
            r->text[before] = '\0';
            show_event(r, &piece.cursor);
        } while (orr__json_document_again(document, &piece));
        if (!piece.good)
            r->text[before] = '\0';
        append(r, piece.good ? "| " : "skipped | ", piece.good ? 2 : 10);
    }
    r->report = *orr__json_document_report(document);
    r->status = orr__json_document_status(document, NULL);
    orr__json_document_close(&document);
    orr__json_input_close(&input);
}

/* Reads with a window that holds all and with the smallest; both must say the same. */
static struct reading read_both(const char *text) {
    static struct reading a, b;
    /* On the heap without a byte behind it, so that a sanitizer sees a read past the end. */
    size_t size = strlen(text);
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, text, size + 1);
    read_text(copy, size, 1 << 16, 1 << 24, &a);
    read_text(copy, size, ORR__JSON_WINDOW_MIN, 1 << 24, &b);
    free(copy);
    assert_string_equal(a.text, b.text);
    assert_memory_equal(&a.report, &b.report, sizeof a.report);
    assert_int_equal(a.status, ORR_OK);
    return a;
}

static void pieces_come_in_the_order_of_the_text(void **unused) {
    (void)unused;
    struct reading r =
        read_both("\xef\xbb\xbf {\"a\": {\"x\": [1, \"]}\"]}, \"traceEvents\": [ "
                  "{\"ph\":\"X\",\"args\":{\"k\":[1,[2]]}} , 5, null ], \"b\" : 7}\n");
    assert_string_equal(r.text, "<a> ph=X args={\"k\":[1,[2]]} | 5| null| <b> ");
    assert_int_equal(r.report.events, 3);
    assert_true(r.report.has_events && !r.report.is_array && !r.report.cut);
    r = read_both("[{\"ph\":\"X\"},\n{\"ph\":\"M\"}]");
    assert_string_equal(r.text, "ph=X | ph=M | ");
    assert_true(r.report.has_events && r.report.is_array && !r.report.cut);
    r = read_both("{\"a\": 1}");
    assert_true(!r.report.has_events && !r.report.cut);
    r = read_both("");
    assert_true(!r.report.has_events && r.report.bytes == 0);
}

static void an_array_without_its_end_is_whole(void **unused) {
    (void)unused;
    struct reading r = read_both("[{\"ph\":\"X\"},{\"ph\":\"M\"},\n");
    assert_string_equal(r.text, "ph=X | ph=M | ");
    assert_true(r.report.cut && !r.report.cut_in_event && r.report.is_array);
}

static void what_is_cut_is_read_up_to_the_cut(void **unused) {
    (void)unused;
    static const char whole[] =
        "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\\\\\\\"b\"},{\"ph\":\"M\",\"ts\":12.5,"
        "\"args\":{\"k\":[true,null]}}],\"n\":\"x\"}";
    struct reading all = read_both(whole);
    for (size_t size = 1; size + 1 < sizeof whole; size++) {
        char text[sizeof whole];
        memcpy(text, whole, size);
        text[size] = '\0';
        struct reading r = read_both(text);
        assert_true(r.report.cut);
        assert_int_equal(r.report.cut_at, size);
        assert_int_equal(r.report.skipped.count, 0);
        assert_true(strncmp(r.text, all.text,
                            r.report.events == 0   ? 0
                            : r.report.events == 1 ? 16
                                                   : 41) == 0);
    }
}

static void what_tools_break_is_repaired_and_counted(void **unused) {
    (void)unused;
    static const struct {
        const char *event, *text;
        enum orr__json_repair what;
        unsigned count;
    } cases[] = {
        {"{\"name\":\"a\nb\tc\",\"ph\":\"X\"}", "name=a\nb\tc ph=X ", ORR__JSON_REPAIR_CONTROL, 2},
        {"{\"name\":\"C:\\Users\\me\",\"ph\":\"X\"}", "name=C:\\Users\\me ph=X ",
         ORR__JSON_REPAIR_ESCAPE, 2},
        {"{\"name\":\"C:\\dir\\\",\"ph\":\"X\"}", "name=C:\\dir\\ ph=X ", ORR__JSON_REPAIR_ESCAPE,
         2},
        {"{\"name\":\"say \"hi\" now\",\"ph\":\"X\"}", "name=say \"hi\" now ph=X ",
         ORR__JSON_REPAIR_QUOTE, 2},
        {"{\"name\":\"f(\"a\", \"b\")\",\"ph\":\"X\"}", "name=f(\"a\", \"b\") ph=X ",
         ORR__JSON_REPAIR_QUOTE, 4},
        {"{\"name\":\"open, \"ph\":\"X\"}", "name=open ph=X ", ORR__JSON_REPAIR_UNCLOSED, 1},
        {"{\"name:\"k\",\"ph\":\"X\"}", "name=k ph=X ", ORR__JSON_REPAIR_KEY, 1},
        {"{name\":\"k\",\"ph\":\"X\"}", "name=k ph=X ", ORR__JSON_REPAIR_KEY, 1},
        {"{\"ph\":\"X\",\"a\":[1,2,],}", "ph=X a=[1,2,] ", ORR__JSON_REPAIR_COMMA, 2},
        {"{\"ph\":\"X\" \"a\":1}", "ph=X a=1 ", ORR__JSON_REPAIR_COMMA, 1},
        {"{\"ph\":\"X\",\"dur\":NaN,\"ts\":-Infinity}", "ph=X dur=NaN ts=-Infinity ",
         ORR__JSON_REPAIR_NUMBER, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], wanted[512];
        snprintf(text, sizeof text,
                 "{\"traceEvents\":[{\"ph\":\"1\"},%s,{\"ph\":\"2\"}],\"end\":1}", cases[i].event);
        snprintf(wanted, sizeof wanted, "ph=1 | %s| ph=2 | <end> ", cases[i].text);
        struct reading r = read_both(text);
        assert_string_equal(r.text, wanted);
        assert_int_equal(r.report.repairs[cases[i].what].count, cases[i].count);
        assert_int_equal(r.report.repairs[cases[i].what].first, 27);
        assert_int_equal(r.report.skipped.count, 0);
        assert_false(r.report.cut);
    }
}

static void what_cannot_be_read_costs_one_event(void **unused) {
    (void)unused;
    static const char *const broken[] = {
        "{\"ph\":\"X\",\"cat\":[1,2}",
        "{\"ph\":\"X\",\"name\":\"never closed}",
        "{\"ph\":\"X\", 5}",
        "{\"ph\"}",
        "{\"ph\":}",
        "{\"ph\":\"X\",\"ts\":12abc}",
        "{\"ph\":\"X\",\"ts\":tru}",
        "{[}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"traceEvents\":[{\"ph\":\"1\"},\n%s,\n{\"ph\":\"2\"},{\"ph\":\"3\"}],"
                 "\"traceName\":1}",
                 broken[i]);
        struct reading r = read_both(text);
        assert_string_equal(r.text, "ph=1 | skipped | ph=2 | ph=3 | <traceName> ");
        assert_int_equal(r.report.skipped.count, 1);
        assert_int_equal(r.report.skipped.first, 28);
    }
}

static void the_last_event_may_be_the_broken_one(void **unused) {
    (void)unused;
    struct reading r = read_both("{\"traceEvents\":[{\"ph\":\"1\"},{\"ph\":[1}\n],\"traceName\":"
                                 "\"x\"}");
    assert_string_equal(r.text, "ph=1 | skipped | <traceName> ");
    assert_false(r.report.cut);
    r = read_both("[{\"ph\":\"1\"},{\"ph\":[1}\n]\n");
    assert_string_equal(r.text, "ph=1 | skipped | ");
    assert_false(r.report.cut);
}

static void events_come_after_members_that_cannot_be_read(void **unused) {
    (void)unused;
    struct reading r =
        read_both("{\"INFO\": [\"a]\", \"meta\": {\"x\": 1}, \"traceEvents\": [{\"ph\":\"X\"}]}");
    assert_non_null(strstr(r.text, "ph=X | "));
    assert_int_equal(r.report.members.count, 1);
}

static void what_follows_the_end_is_counted(void **unused) {
    (void)unused;
    struct reading r = read_both("[{\"ph\":\"X\"}]  [{\"ph\":\"Y\"}]");
    assert_string_equal(r.text, "ph=X | ");
    assert_int_equal(r.report.trailing, 12);
    assert_int_equal(r.report.trailing_at, 14);
}

/* Text of many events, some longer than the smallest window. */
static char *long_text(size_t *out_size) {
    size_t room = 1 << 20, size = 0;
    char *text = malloc(room);
    uint64_t state = 7;
    assert_non_null(text);
    size += (size_t)sprintf(text, "{\"meta\":{\"deep\":[[[[]]]]},\"traceEvents\":[");
    for (int i = 0; i < 300; i++) {
        size +=
            (size_t)sprintf(text + size, "%s{\"ph\":\"X\",\"ts\":%d,\"name\":\"", i ? "," : "", i);
        size_t length = random_below(&state, i % 50 == 0 ? 5000 : 60);
        memset(text + size, 'a' + i % 26, length);
        size += length;
        size += (size_t)sprintf(text + size, "\"}\n");
    }
    size += (size_t)sprintf(text + size, "]}");
    *out_size = size;
    return text;
}

static uint64_t events_of(const char *text, size_t size, size_t window, size_t window_max,
                          uint64_t *out_skipped) {
    struct orr_memory memory = orr_memory_system();
    struct orr__json_input *input;
    struct orr__json_document *document;
    struct orr__json_piece piece;
    assert_int_equal(orr__json_input_bytes(text, size, &memory, &input), ORR_OK);
    assert_int_equal(orr__json_document_open_window(input, &memory, window, window_max, &document),
                     ORR_OK);
    while (orr__json_document_next(document, &piece))
        continue; /* pieces that nobody reads are passed */
    const struct orr__json_report *report = orr__json_document_report(document);
    uint64_t events = report->events;
    *out_skipped = report->skipped.count;
    assert_true(!report->cut && report->bytes == size);
    orr__json_document_close(&document);
    orr__json_input_close(&input);
    return events;
}

static void windows_do_not_matter_but_for_what_does_not_fit(void **unused) {
    (void)unused;
    size_t size;
    char *text = long_text(&size);
    uint64_t skipped;
    for (size_t window = ORR__JSON_WINDOW_MIN; window < ORR__JSON_WINDOW_MIN + 40; window++) {
        assert_int_equal(events_of(text, size, window, 1 << 20, &skipped), 300);
        assert_int_equal(skipped, 0);
    }
    /* 300 events, of which some do not fit 2 KiB. */
    uint64_t events = events_of(text, size, ORR__JSON_WINDOW_MIN, ORR__JSON_WINDOW_MIN, &skipped);
    assert_true(skipped > 0 && events + skipped == 300);
    free(text);
}

static void depth_is_bounded(void **unused) {
    (void)unused;
    char text[512] = "[{\"ph\":";
    memset(text + strlen(text), '[', 200);
    strcpy(text + 7 + 200, "1},\n{\"ph\":\"2\"}]");
    struct reading r = read_both(text);
    assert_string_equal(r.text, "skipped | ph=2 | ");
}

/* Bytes of any kind: the same with any window, and an end. */
static void random_damage_is_read_alike_in_any_window(void **unused) {
    (void)unused;
    static const char base[] =
        "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\\nb\",\"args\":{\"k\":[1,2]}},\n"
        "{\"ph\":\"M\",\"name\":\"c\"},{\"ph\":\"X\",\"ts\":1.5}],\"x\":[{}]}";
    static const char marks[] = "\"\"\\{}[],:\n 1aN";
    uint64_t state = 99;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof base];
        memcpy(text, base, sizeof base);
        for (uint64_t changes = 1 + random_below(&state, 4); changes > 0; changes--)
            text[random_below(&state, sizeof base - 1)] =
                marks[random_below(&state, sizeof marks - 1)];
        struct reading r = read_both(text);
        assert_true(r.report.bytes == sizeof base - 1 || r.report.events == 0);
    }
}

static void use_document(struct memory_counting *memory, void *text) {
    struct orr__json_input *input;
    struct orr__json_document *document;
    struct orr__json_piece piece;
    if (orr__json_input_bytes(text, strlen(text), &memory->table, &input) != ORR_OK)
        return;
    if (orr__json_document_open_window(input, &memory->table, ORR__JSON_WINDOW_MIN, 1 << 20,
                                       &document) == ORR_OK) {
        while (orr__json_document_next(document, &piece))
            continue;
        enum orr_status status = orr__json_document_status(document, NULL);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr__json_document_close(&document);
    }
    orr__json_input_close(&input);
}

static void every_missing_block_is_survived(void **unused) {
    (void)unused;
    size_t size;
    char *text = long_text(&size);
    text[size] = '\0';
    assert_true(fail_each_request(use_document, text) >= 4);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(microseconds_become_nanoseconds_by_their_digits),
        cmocka_unit_test(what_is_no_number_or_does_not_fit_is_refused),
        cmocka_unit_test(integers_are_exact_or_none),
        cmocka_unit_test(random_decimals_are_what_wide_arithmetic_says),
        cmocka_unit_test(texts_are_decoded_as_utf8),
        cmocka_unit_test(pieces_come_in_the_order_of_the_text),
        cmocka_unit_test(an_array_without_its_end_is_whole),
        cmocka_unit_test(what_is_cut_is_read_up_to_the_cut),
        cmocka_unit_test(what_tools_break_is_repaired_and_counted),
        cmocka_unit_test(what_cannot_be_read_costs_one_event),
        cmocka_unit_test(the_last_event_may_be_the_broken_one),
        cmocka_unit_test(events_come_after_members_that_cannot_be_read),
        cmocka_unit_test(what_follows_the_end_is_counted),
        cmocka_unit_test(windows_do_not_matter_but_for_what_does_not_fit),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(random_damage_is_read_alike_in_any_window),
        cmocka_unit_test(every_missing_block_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
