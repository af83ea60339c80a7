/* Peaks from a device's name, and from the command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cli/peaks.h"
#include "tests/timeline_fixture.h"

static struct fixture f;

/* A device of another tool's trace; told figures may be 0. */
static const struct orr_timeline_device *filled(const char *name, uint64_t mem_bytes,
                                                uint32_t multiprocessors, uint64_t bandwidth) {
    struct orr_error error = {0};
    fixture_init(&f);
    struct orr_cli cli = {.out = stdout, .err = stderr, .memory = &f.memory};
    f.timeline.source.format = "kineto";
    fixture_device(&f, name, "gpu");
    f.timeline.devices[0].profile = "";
    f.timeline.devices[0].mem_bytes = mem_bytes;
    f.timeline.devices[0].multiprocessors = multiprocessors;
    f.timeline.devices[0].bandwidth = bandwidth;
    assert_int_equal(orr_cli_fill_peaks(&cli, &f.timeline, &error), ORR_OK);
    return &f.timeline.devices[0];
}

static void a_name_that_means_one_board_gives_its_peaks(void **state) {
    (void)state;
    const struct orr_timeline_device *d = filled("NVIDIA H100 80GB HBM3", 85017624576, 132, 0);
    assert_int_equal(d->bandwidth, 3350000000000);
    assert_int_equal(d->peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16], 989000000000000);
    assert_string_equal(d->profile, "h100-sxm");
    fixture_free(&f);
}

static void another_memory_gives_no_bandwidth(void **state) {
    (void)state;
    const struct orr_timeline_device *d = filled("NVIDIA A100-SXM4-40GB", 42505273344, 108, 0);
    assert_int_equal(d->bandwidth, 0);
    assert_int_equal(d->peak[ORR_UNIT_MATRIX][ORR_DTYPE_F16], 312000000000000);
    fixture_free(&f);
}

static void what_the_trace_says_stays(void **state) {
    (void)state;
    assert_int_equal(filled("NVIDIA L4", 0, 0, 123)->bandwidth, 123);
    fixture_free(&f);
}

static void names_that_could_mean_others_give_nothing(void **state) {
    (void)state;
    static const char *const names[] = {"NVIDIA H100 PCIe",
                                        "NVIDIA H100",
                                        "NVIDIA H100 NVL",
                                        "NVIDIA A100-PG509-200",
                                        "Tesla V100-SXM2-32GB",
                                        "NVIDIA GeForce RTX 3080",
                                        "h100",
                                        ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct orr_timeline_device *d = filled(names[i], 0, 0, 0);
        assert_int_equal(d->bandwidth, 0);
        assert_int_equal(d->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32], 0);
        assert_string_equal(d->profile, "");
        fixture_free(&f);
    }
}

static void a_name_is_not_believed_against_the_traces_figures(void **state) {
    (void)state;
    assert_int_equal(filled("NVIDIA H100 80GB HBM3", 0, 114, 0)->bandwidth, 0);
    fixture_free(&f);
    assert_int_equal(filled("NVIDIA H100 80GB HBM3", 42505273344, 132, 0)->bandwidth, 0);
    fixture_free(&f);
}

static void rates_are_read(void **state) {
    (void)state;
    struct orr_analysis_peaks peaks = {0};
    assert_null(orr_cli_parse_peaks(NULL, &peaks));
    assert_null(orr_cli_parse_peaks("matrix.bf16=989e12,vector.f32=67e12", &peaks));
    assert_int_equal(peaks.flops[ORR_UNIT_MATRIX][ORR_DTYPE_BF16], 989000000000000);
    assert_int_equal(peaks.flops[ORR_UNIT_VECTOR][ORR_DTYPE_F32], 67000000000000);
    assert_null(orr_cli_parse_bandwidth("3.35e12", &peaks));
    assert_int_equal(peaks.bandwidth, 3350000000000);
    assert_null(orr_cli_parse_bandwidth(NULL, &peaks));
}

static void what_is_no_rate_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "bf16=1e12",
                                        "matrix.bf16",
                                        "matrix.bf16=",
                                        "matrix.bf16=0",
                                        "matrix.bf16=-1e12",
                                        "matrix.bf16=nan",
                                        "matrix.bf16=1e19",
                                        "matrix.bf16=1e12x",
                                        "matrix.bf17=1e12",
                                        "matrix.=1e12",
                                        "tensor.bf16=1e12",
                                        "matrix.bf16=1e12,",
                                        "matrix.bf16=1e12;vector.f32=1e12",
                                        "matrix.bf16,vector.f32=1e12"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct orr_analysis_peaks peaks = {0};
        if (!orr_cli_parse_peaks(wrong[i], &peaks)) {
            fail_msg("\"%s\" was taken", wrong[i]);
        }
    }
    struct orr_analysis_peaks peaks = {0};
    assert_non_null(orr_cli_parse_bandwidth("fast", &peaks));
    assert_non_null(orr_cli_parse_bandwidth("", &peaks));
    assert_non_null(orr_cli_parse_bandwidth("inf", &peaks));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_means_one_board_gives_its_peaks),
        cmocka_unit_test(another_memory_gives_no_bandwidth),
        cmocka_unit_test(what_the_trace_says_stays),
        cmocka_unit_test(names_that_could_mean_others_give_nothing),
        cmocka_unit_test(a_name_is_not_believed_against_the_traces_figures),
        cmocka_unit_test(rates_are_read),
        cmocka_unit_test(what_is_no_rate_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
