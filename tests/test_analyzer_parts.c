/* The analyzer's small parts: sorting, intervals, numbers as text, the roofline's classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "analyzer/intervals.h"
#include "analyzer/roofline.h"
#include "analyzer/sort.h"
#include "analyzer/table.h"
#include "analyzer/text.h"
#include "tests/support.h"

/* ------------------------------------------------------------------------------------------------
 * Sorting */

struct keyed {
    const int *keys;
    size_t comparisons;
};

static bool key_before(const void *context, uint32_t a, uint32_t b) {
    struct keyed *keyed = (struct keyed *)(uintptr_t)context;
    keyed->comparisons++;
    return keyed->keys[a] < keyed->keys[b];
}

static void check_sorted(const int *keys, size_t count) {
    struct orr_memory memory = orr_memory_system();
    uint32_t *order = orr_memory_alloc(&memory, (count + 1) * sizeof *order);
    struct keyed keyed = {keys, 0};
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    assert_int_equal(orr__sort_indices(&memory, order, count, key_before, &keyed), ORR_OK);
    for (size_t i = 1; i < count; i++) {
        assert_true(keys[order[i - 1]] < keys[order[i]] ||
                    (keys[order[i - 1]] == keys[order[i]] && order[i - 1] < order[i]));
    }
    orr_memory_free(&memory, order);
}

static void indices_are_sorted_stably_whatever_their_order(void **state) {
    (void)state;
    uint64_t random = random_seed(7);
    for (int round = 0; round < 300; round++) {
        int keys[200];
        size_t count = (size_t)random_below(&random, 200);
        uint64_t range = 1 + random_below(&random, 300);
        for (size_t i = 0; i < count; i++) {
            keys[i] = (int)random_below(&random, range);
        }
        check_sorted(keys, count);
    }
}

static void sorted_indices_cost_one_comparison_each(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    static int keys[1000];
    static uint32_t order[1000];
    for (uint32_t i = 0; i < 1000; i++) {
        keys[i] = (int)i;
        order[i] = i;
    }
    struct keyed keyed = {keys, 0};
    assert_int_equal(orr__sort_indices(&memory, order, 1000, key_before, &keyed), ORR_OK);
    assert_int_equal(keyed.comparisons, 999);
}

static void times_are_sorted_with_their_signs(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    int64_t values[] = {5, -3, INT64_MAX, 0, INT64_MIN, -3, 1000000007, 256, 255};
    const int64_t expected[] = {INT64_MIN, -3, -3, 0, 5, 255, 256, 1000000007, INT64_MAX};
    assert_int_equal(orr__sort_times(&memory, values, 9), ORR_OK);
    assert_memory_equal(values, expected, sizeof expected);
    assert_int_equal(orr__sort_times(&memory, NULL, 0), ORR_OK);
}

static void quantiles_are_the_lower_median_and_the_nearest_rank(void **state) {
    (void)state;
    int64_t values[100];
    for (int i = 0; i < 100; i++) {
        values[i] = i + 1;
    }
    assert_int_equal(orr__sorted_median(values, 1), 1);
    assert_int_equal(orr__sorted_median(values, 2), 1);
    assert_int_equal(orr__sorted_median(values, 3), 2);
    assert_int_equal(orr__sorted_median(values, 100), 50);
    assert_int_equal(orr__sorted_p95(values, 1), 1);
    assert_int_equal(orr__sorted_p95(values, 19), 19);
    assert_int_equal(orr__sorted_p95(values, 20), 19);
    assert_int_equal(orr__sorted_p95(values, 61), 58);
    assert_int_equal(orr__sorted_p95(values, 100), 95);
}

/* ------------------------------------------------------------------------------------------------
 * Intervals */

struct pieces {
    unsigned lists[32];
    int64_t begins[32], ends[32];
    size_t count;
};

static void keep_piece(void *context, unsigned list, int64_t begin_ns, int64_t end_ns) {
    struct pieces *pieces = context;
    assert_true(begin_ns < end_ns && pieces->count < 32);
    pieces->lists[pieces->count] = list;
    pieces->begins[pieces->count] = begin_ns;
    pieces->ends[pieces->count++] = end_ns;
}

static void intervals_that_touch_or_overlap_become_one(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_intervals list = {0};
    assert_int_equal(orr__intervals_reserve(&memory, &list, 5), ORR_OK);
    orr__intervals_add(&list, 0, 10);
    orr__intervals_add(&list, 5, 7);
    orr__intervals_add(&list, 10, 12);
    orr__intervals_add(&list, 13, 13);
    orr__intervals_add(&list, 20, 30);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0].end_ns, 12);
    assert_int_equal(orr__intervals_length(&list), 22);
    assert_int_equal(orr__intervals_find(&list, 12), 1);
    assert_int_equal(orr__intervals_find(&list, 11), 0);
    assert_int_equal(orr__intervals_find(&list, 30), 2);
    orr__intervals_free(&memory, &list);
}

static void a_sweep_names_each_piece_after_the_first_list(void **state) {
    (void)state;
    struct orr_interval a[] = {{10, 20}, {40, 50}}, b[] = {{0, 15}, {18, 45}, {60, 70}};
    struct orr_intervals lists[] = {{a, 2, 2}, {b, 3, 3}};
    struct pieces pieces = {0};
    orr__intervals_sweep(lists, 2, keep_piece, &pieces);
    int64_t first = 0, second = 0;
    for (size_t i = 0; i < pieces.count; i++) {
        *(pieces.lists[i] == 0 ? &first : &second) += pieces.ends[i] - pieces.begins[i];
        assert_true(i == 0 || pieces.begins[i] >= pieces.ends[i - 1]);
    }
    assert_int_equal(first, 20);
    assert_int_equal(second, 10 + 20 + 10);
    assert_int_equal(orr__intervals_common(&lists[0], &lists[1]), 5 + 2 + 5);
}

/* ------------------------------------------------------------------------------------------------
 * Numbers */

/* `call` writes into buffer_. */
#define CHECK_TEXT(call, expected)                                                                 \
    do {                                                                                           \
        char buffer_[ORR_NUMBER_TEXT_MAX];                                                         \
        assert_string_equal(call, expected);                                                       \
    } while (0)

static void times_have_the_unit_that_suits_them(void **state) {
    (void)state;
    CHECK_TEXT(orr__time_text(0, buffer_), "0 ns");
    CHECK_TEXT(orr__time_text(999, buffer_), "999 ns");
    CHECK_TEXT(orr__time_text(1000, buffer_), "1.00 us");
    CHECK_TEXT(orr__time_text(16973, buffer_), "16.97 us");
    CHECK_TEXT(orr__time_text(274878, buffer_), "274.88 us");
    CHECK_TEXT(orr__time_text(999994, buffer_), "999.99 us");
    CHECK_TEXT(orr__time_text(999995, buffer_), "1.00 ms");
    CHECK_TEXT(orr__time_text(5000000, buffer_), "5.00 ms");
    CHECK_TEXT(orr__time_text(999994999, buffer_), "999.99 ms");
    CHECK_TEXT(orr__time_text(999995000, buffer_), "1.00 s");
    CHECK_TEXT(orr__time_text(INT64_MAX, buffer_), "9223372036.85 s");
    CHECK_TEXT(orr__time_text(-1500, buffer_), "-1.50 us");
}

static void percentages_and_ratios_are_rounded_half_up(void **state) {
    (void)state;
    CHECK_TEXT(orr__percent_text(67109, 274878, buffer_), "24.41 %");
    CHECK_TEXT(orr__percent_text(33554, 274878, buffer_), "12.21 %");
    CHECK_TEXT(orr__percent_text(1, 0, buffer_), "-");
    CHECK_TEXT(orr__percent_text(3496135, 3907825, buffer_), "89.46 %");
    CHECK_TEXT(orr__ratio_text(1, 8, 2, buffer_), "0.13");
    CHECK_TEXT(orr__hundredfold_text((orr_u128)1 << 126, (orr_u128)1 << 127, buffer_), "50.00");
    CHECK_TEXT(orr__hundredfold_text(1, 0, buffer_), "-");
    CHECK_TEXT(orr__ratio_text(5, 1, 0, buffer_), "5");
    CHECK_TEXT(orr__ratio_text((orr_u128)1 << 120, (orr_u128)1 << 119, 3, buffer_), "2.000");
    CHECK_TEXT(orr__u128_text((orr_u128)UINT64_MAX * 10, buffer_), "184467440737095516150");
    CHECK_TEXT(orr__amount_text(33554432, "B", buffer_), "33.55 MB");
    CHECK_TEXT(orr__amount_text(137438953472, "FLOP", buffer_), "137.44 GFLOP");
    CHECK_TEXT(orr__amount_text(999, "B", buffer_), "999 B");
    CHECK_TEXT(orr__amount_text(999999, "B", buffer_), "1.00 MB");
}

static void json_strings_are_escaped_and_valid(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_text text = {.memory = &memory};
    orr__text_json_string(&text, "a\"b\\c\n\x01 \xc3\xa9 \xff \xe2\x82");
    assert_string_equal(text.data, "\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9 \\ufffd \\ufffd\\ufffd\"");
    orr__text_free(&text);
}

static void tables_align_their_columns(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_text text = {.memory = &memory};
    struct orr_table table;
    char clean[ORR_TABLE_CELL_MAX + 1];
    orr__table_begin(&table, &memory, "name|>count|note");
    orr__table_row(&table, "%s|%d|%s", orr__table_clean("a|b", clean), 5, "");
    orr__table_row(&table, "%s|%d|%s", "longer", 12345678, "x");
    orr__table_end(&table, &text);
    assert_string_equal(text.data, "  name       count  note\n"
                                   "  a/b            5\n"
                                   "  longer  12345678  x\n");
    orr__text_free(&text);
}

/* ------------------------------------------------------------------------------------------------
 * Roofline */

static const uint64_t peak = 500000000000000, bandwidth = 2000000000000; /* ridge 250 */

static enum orr_bound class_of(orr_u128 flops, orr_u128 bytes, int64_t time_ns) {
    struct orr_roof roof = {flops, bytes, time_ns, 1, peak, bandwidth};
    return orr_roof_classify(&roof, 60, NULL);
}

static void classes_follow_the_ridge_and_sixty_percent(void **state) {
    (void)state;
    /* 250 FLOP/B is on the ridge: equality counts as compute. 500,000 FLOP take 1 ns at the
     * peak. */
    assert_int_equal(class_of(500000000, 2000000, 1000), ORR_BOUND_COMPUTE);
    assert_int_equal(class_of(500000000, 2000001, 1000), ORR_BOUND_MEMORY);
    /* 60 % of the peak is 1666.67 ns. */
    assert_int_equal(class_of(500000000, 2000000, 1666), ORR_BOUND_COMPUTE);
    assert_int_equal(class_of(500000000, 2000000, 1667), ORR_BOUND_LATENCY);
    assert_int_equal(class_of(0, 2000000, 1666), ORR_BOUND_MEMORY);
    assert_int_equal(class_of(0, 2000000, 1667), ORR_BOUND_LATENCY);
    assert_int_equal(class_of(500000000, 2000000, 0), ORR_BOUND_LATENCY);
    assert_int_equal(class_of(0, 0, 10), ORR_BOUND_LATENCY);
}

static void what_has_no_peak_has_no_class(void **state) {
    (void)state;
    struct orr_roof roof = {1000, 1000, 10, 1, 0, bandwidth};
    assert_int_equal(orr_roof_classify(&roof, 60, NULL), ORR_BOUND_NO_COST);
    roof.flops = 0; /* nothing to compute: bandwidth is enough */
    assert_int_equal(orr_roof_classify(&roof, 60, NULL), ORR_BOUND_LATENCY);
    roof.bytes = 20000;
    assert_int_equal(orr_roof_classify(&roof, 60, NULL), ORR_BOUND_MEMORY);
    roof.bandwidth = 0;
    assert_int_equal(orr_roof_classify(&roof, 60, NULL), ORR_BOUND_NO_COST);
}

static void above_the_roof_is_more_than_rounding_explains(void **state) {
    (void)state;
    bool above;
    struct orr_roof roof = {500000000, 0, 1000, 1, peak, bandwidth};
    orr_roof_classify(&roof, 60, &above);
    assert_false(above);
    roof.time_ns = 999; /* 1 ns short: its two stamps were rounded */
    orr_roof_classify(&roof, 60, &above);
    assert_false(above);
    roof.time_ns = 998;
    orr_roof_classify(&roof, 60, &above);
    assert_true(above);
}

static void products_of_very_large_sums_stay_exact(void **state) {
    (void)state;
    /* F / Q = 250 exactly, with F near 2^96: the products need 140 bits. */
    orr_u128 bytes = ((orr_u128)1 << 88) + 1;
    struct orr_roof roof = {bytes * 250, bytes, INT64_MAX, 1, peak, bandwidth};
    assert_true(orr_roof_right(&roof));
    roof.flops -= 1;
    assert_false(orr_roof_right(&roof));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_are_sorted_stably_whatever_their_order),
        cmocka_unit_test(sorted_indices_cost_one_comparison_each),
        cmocka_unit_test(times_are_sorted_with_their_signs),
        cmocka_unit_test(quantiles_are_the_lower_median_and_the_nearest_rank),
        cmocka_unit_test(intervals_that_touch_or_overlap_become_one),
        cmocka_unit_test(a_sweep_names_each_piece_after_the_first_list),
        cmocka_unit_test(times_have_the_unit_that_suits_them),
        cmocka_unit_test(percentages_and_ratios_are_rounded_half_up),
        cmocka_unit_test(json_strings_are_escaped_and_valid),
        cmocka_unit_test(tables_align_their_columns),
        cmocka_unit_test(classes_follow_the_ridge_and_sixty_percent),
        cmocka_unit_test(what_has_no_peak_has_no_class),
        cmocka_unit_test(above_the_roof_is_more_than_rounding_explains),
        cmocka_unit_test(products_of_very_large_sums_stay_exact),
    };
    return cmocka_run_group_tests_name("analyzer parts", tests, NULL, NULL);
}
