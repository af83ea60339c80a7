/* What the analyzer says about memory, on timelines built by hand: peaks by role, the live set by
 * line, what was reserved, devices that say the same. */
#include "analyzer/device_groups.h"
#include "analyzer/report_json.h"
#include "tests/analyzer_fixture.h"

/* An allocation on a device's compute stream; returns the buffer's id. */
static uint64_t alloc(struct fixture *f, uint32_t device, const char *site, enum orr_role role,
                      uint64_t bytes) {
    uint64_t id = command(f, ORR_COMMAND_ALLOC, device, "alloc", 1, 2, 2, 2);
    fixture_row(f, id)->site = site;
    struct orr_timeline_buffer *buffer = fixture_buffer(f, device, bytes);
    buffer->alloc_cmd = id;
    buffer->role = role;
    buffer->label = "t";
    return buffer->id;
}

static void release(struct fixture *f, uint64_t buffer) {
    uint32_t device = f->timeline.buffers[buffer - 1].device;
    f->timeline.buffers[buffer - 1].free_cmd =
        command(f, ORR_COMMAND_FREE, device, "free", 1, 2, 2, 2);
}

/* From behind the last command on. */
static void retag(struct fixture *f, uint64_t buffer, enum orr_role role) {
    fixture_buffer_role(f, buffer, f->timeline.command_count, role);
}

static void check_line(const struct orr_memory_line *line, const char *site, enum orr_role role,
                       uint64_t count, uint64_t bytes) {
    assert_string_equal(line->site, site);
    assert_int_equal(line->role, role);
    assert_int_equal(line->count, count);
    assert_int_equal(line->bytes, bytes);
}

static void bytes_at_the_peak_are_split_by_role_and_line(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    alloc(&f, 0, "m.lua:1", ORR_ROLE_PARAMETER, 100);
    alloc(&f, 0, "m.lua:1", ORR_ROLE_PARAMETER, 100);
    uint64_t early = alloc(&f, 0, "m.lua:3", ORR_ROLE_ACTIVATION, 500); /* 700 */
    release(&f, early);                                                 /* 200 */
    alloc(&f, 0, "m.lua:3", ORR_ROLE_ACTIVATION, 40);
    alloc(&f, 0, "m.lua:3", ORR_ROLE_WORKSPACE, 60);
    uint64_t late = alloc(&f, 0, "m.lua:5", ORR_ROLE_OTHER, 450); /* 750: the peak */
    release(&f, late);
    struct orr_analysis *a = analyze(&f);
    const struct orr_memory_peak *peak = &a->peaks.items[0];
    assert_int_equal(peak->peak_bytes, 750);
    const uint64_t then[ORR_ROLE_COUNT] = {450, 200, 0, 0, 40, 60, 0};
    const uint64_t most[ORR_ROLE_COUNT] = {450, 200, 0, 0, 500, 60, 0};
    assert_memory_equal(peak->role_bytes, then, sizeof then);
    assert_memory_equal(peak->role_peak_bytes, most, sizeof most);
    assert_int_equal(peak->line_total, 4);
    assert_int_equal(peak->line_count, 4);
    check_line(&peak->lines[0], "m.lua:5", ORR_ROLE_OTHER, 1, 450);
    check_line(&peak->lines[1], "m.lua:1", ORR_ROLE_PARAMETER, 2, 200);
    check_line(&peak->lines[2], "m.lua:3", ORR_ROLE_WORKSPACE, 1, 60);
    check_line(&peak->lines[3], "m.lua:3", ORR_ROLE_ACTIVATION, 1, 40);
    assert_int_equal(a->peaks.items[1].line_count, 0);
    finish(&f, &a);
}

static void another_role_counts_from_the_command_after_which_it_was_given(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t x = alloc(&f, 0, "a:1", ORR_ROLE_OTHER, 10);
    retag(&f, x, ORR_ROLE_GRADIENT); /* before the peak */
    uint64_t y = alloc(&f, 0, "a:2", ORR_ROLE_OTHER, 20);
    retag(&f, x, ORR_ROLE_OPTIMIZER);        /* two, of which the last one counts */
    alloc(&f, 0, "a:3", ORR_ROLE_OTHER, 30); /* 60: the peak */
    retag(&f, y, ORR_ROLE_GRADIENT);         /* behind it */
    release(&f, x);
    release(&f, y);
    struct orr_analysis *a = analyze(&f);
    const struct orr_memory_peak *peak = &a->peaks.items[0];
    const uint64_t then[ORR_ROLE_COUNT] = {50, 0, 0, 10, 0, 0, 0};
    const uint64_t most[ORR_ROLE_COUNT] = {50, 0, 20, 10, 0, 0, 0};
    assert_memory_equal(peak->role_bytes, then, sizeof then);
    assert_memory_equal(peak->role_peak_bytes, most, sizeof most);
    check_line(&peak->lines[0], "a:3", ORR_ROLE_OTHER, 1, 30);
    check_line(&peak->lines[1], "a:2", ORR_ROLE_OTHER, 1, 20);
    check_line(&peak->lines[2], "a:1", ORR_ROLE_OPTIMIZER, 1, 10);
    assert_int_equal(peak->live_at_end, 30);
    finish(&f, &a);
}

static void fragmentation_is_what_was_reserved_beside_the_peak(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    alloc(&f, 0, "", ORR_ROLE_OTHER, 900);
    alloc(&f, 1, "", ORR_ROLE_OTHER, 900);
    /* All at one time: the order of the rows says what came first. */
    fixture_counter(&f, 0, "reserved bytes", 7, 2048);
    fixture_counter(&f, 0, "memory bytes", 7, 512);
    fixture_counter(&f, 0, "reserved bytes", 7, 4096);
    fixture_counter(&f, 0, "memory bytes", 7, 1024); /* the peak */
    fixture_counter(&f, 0, "memory bytes", 7, 0);
    fixture_counter(&f, 0, "reserved bytes", 7, 6144);
    fixture_counter(&f, 0, "memory bytes", 7, 1024); /* as large, but not the first */
    fixture_counter(&f, 1, "memory bytes", 7, 1024);
    struct orr_analysis *a = analyze(&f);
    const struct orr_memory_peak *peak = &a->peaks.items[0];
    assert_true(peak->knows_reserved);
    assert_int_equal(peak->reserved_bytes, 4096);
    assert_int_equal(peak->reserved_peak_bytes, 6144);
    assert_int_equal(orr_memory_fragmentation(peak), 3072);
    assert_false(a->peaks.items[1].knows_reserved); /* there is no such counter */
    assert_int_equal(orr_memory_fragmentation(&a->peaks.items[1]), 0);
    finish(&f, &a);
}

static void only_the_lines_with_most_bytes_are_kept(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    for (int i = 0; i < 40; i++) {
        alloc(&f, 0, fixture_text(&f, "x:%d", i % 20), ORR_ROLE_OTHER, (uint64_t)(1 + i % 20));
    }
    struct orr_analysis *a = analyze(&f);
    const struct orr_memory_peak *peak = &a->peaks.items[0];
    assert_int_equal(peak->line_total, 20);
    assert_int_equal(peak->line_count, ORR_MEMORY_LINES);
    for (unsigned i = 0; i < peak->line_count; i++) {
        assert_int_equal(peak->lines[i].bytes, 2 * (20 - i)); /* the same text twice is one line */
        assert_int_equal(peak->lines[i].count, 2);
    }
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * A damaged trace */

static void what_cannot_be_is_left_out_and_harms_nothing(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    uint64_t huge = alloc(&f, 0, "a:1", ORR_ROLE_PARAMETER, UINT64_MAX);
    alloc(&f, 0, "a:2", ORR_ROLE_PARAMETER, 5);
    f.timeline.buffers[huge - 1].free_cmd = 1; /* before it was allocated */
    fixture_buffer_role(&f, 77, 1, ORR_ROLE_GRADIENT);
    fixture_buffer(&f, 9, 100); /* of no device */
    struct orr_timeline_buffer *host = fixture_buffer(&f, 1, 100);
    host->memory = "pinned";
    fixture_buffer_role(&f, host->id, 1, ORR_ROLE_GRADIENT);
    struct orr_analysis *a = analyze(&f);
    assert_int_equal(a->peaks.items[0].peak_bytes, UINT64_MAX);
    assert_int_equal(a->peaks.items[0].role_bytes[ORR_ROLE_PARAMETER], UINT64_MAX);
    assert_int_equal(a->peaks.items[1].peak_bytes, 0);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Groups of devices, reports */

static int compare_values(const void *context, uint32_t a, uint32_t b) {
    const int *values = context;
    return values[a] - values[b];
}

static void devices_that_say_the_same_are_one_group(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    const int values[] = {7, 7, 3, 7, 3, 3, 9};
    const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 16};
    struct orr_device_groups groups;
    assert_int_equal(orr__device_groups_make(&memory, 7, compare_values, values, &groups), ORR_OK);
    static const char *const wanted[] = {"0-1,3", "2,4-5", "16"};
    assert_int_equal(groups.count, 3);
    for (size_t g = 0; g < groups.count; g++) {
        char text[ORR_DEVICE_GROUP_TEXT_MAX];
        assert_string_equal(orr__device_group_text(&groups, g, ids, text), wanted[g]);
    }
    orr__device_groups_free(&memory, &groups);
}

static void a_group_of_many_ranges_says_how_many_devices_it_has(void **state) {
    (void)state;
    enum { DEVICES = 400 };
    struct orr_memory memory = orr_memory_system();
    int values[DEVICES];
    uint32_t ids[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        values[i] = i % 2;
        ids[i] = (uint32_t)i * 10000000;
    }
    struct orr_device_groups groups;
    assert_int_equal(orr__device_groups_make(&memory, DEVICES, compare_values, values, &groups),
                     ORR_OK);
    char text[ORR_DEVICE_GROUP_TEXT_MAX];
    orr__device_group_text(&groups, 1, ids, text);
    assert_string_equal(text, "10000000,30000000,50000000,... (200)");
    orr__device_groups_free(&memory, &groups);
    assert_int_equal(orr__device_groups_make(&memory, 0, compare_values, values, &groups), ORR_OK);
    assert_int_equal(groups.count, 0);
    orr__device_groups_free(&memory, &groups);
}

static void check_says(const char *text, const char *part) {
    const char *memory = strstr(text, "memory");
    if (!strstr(text, part)) {
        fail_msg("no \"%s\" in:\n%s", part, memory ? memory : text);
    }
}

static void add_two_equal_devices(struct fixture *f) {
    for (uint32_t device = 0; device < 2; device++) {
        alloc(f, device, "m.lua:1", ORR_ROLE_PARAMETER, 3000);
        alloc(f, device, "somewhere/far/away/in/a/folder/with/a/long/name/m.lua:12345",
              ORR_ROLE_ACTIVATION, 1000);
        fixture_counter(f, device, "reserved bytes", 1, 8192);
        fixture_counter(f, device, "memory bytes", 1, 4096);
    }
}

static void the_text_folds_equal_devices_and_the_json_has_them_all(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    add_two_equal_devices(&f);
    struct orr_analysis *a = analyze(&f);
    char *text;
    size_t length;
    assert_int_equal(orr_report_text(a, &text, &length), ORR_OK);
    squeeze(text);
    check_says(text, "\n 0-1 4.10 kB 1.00 MB 0.41 % 8.19 kB 4.10 kB 2 4.00 kB t\n");
    check_says(text, "\n 0-1 parameter 3.00 kB 75.00 % 3.00 kB\n");
    check_says(text, "\n 0-1 activation 1.00 kB 25.00 % 1.00 kB\n");
    check_says(text, "\n 0-1 t 2 4.00 kB 100.00 %\n");
    check_says(text, "...away/in/a/folder/with/a/long/name/m.lua:12345 activation 1 1.00 kB");
    orr_memory_free(a->memory, text);
    assert_int_equal(orr_report_json(a, &text, &length), ORR_OK);
    check_says(text, "\"reserved_bytes\": 8192, \"reserved_peak_bytes\": 8192, "
                     "\"fragmentation_bytes\": 4096, \"roles\": {\"other\": {\"bytes\": 0, "
                     "\"peak_bytes\": 0}, \"parameter\": {\"bytes\": 3000, \"peak_bytes\": 3000}");
    check_says(text, "\"line_count\": 2, \"lines\": [{\"site\": \"m.lua:1\", \"role\": "
                     "\"parameter\", \"count\": 1, \"bytes\": 3000}");
    orr_memory_free(a->memory, text);
    finish(&f, &a);
}

/* ------------------------------------------------------------------------------------------------
 * Memory of the host that fails */

static void a_failed_allocation_leaks_nothing(void **state) {
    (void)state;
    struct fixture f;
    start(&f);
    add_two_equal_devices(&f);
    fail_each_allocation(&f);
    fixture_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_at_the_peak_are_split_by_role_and_line),
        cmocka_unit_test(another_role_counts_from_the_command_after_which_it_was_given),
        cmocka_unit_test(fragmentation_is_what_was_reserved_beside_the_peak),
        cmocka_unit_test(only_the_lines_with_most_bytes_are_kept),
        cmocka_unit_test(what_cannot_be_is_left_out_and_harms_nothing),
        cmocka_unit_test(devices_that_say_the_same_are_one_group),
        cmocka_unit_test(a_group_of_many_ranges_says_how_many_devices_it_has),
        cmocka_unit_test(the_text_folds_equal_devices_and_the_json_has_them_all),
        cmocka_unit_test(a_failed_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests_name("analyzer: memory", tests, NULL, NULL);
}
