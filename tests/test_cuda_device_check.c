/* The steps of the device check, over the fake devices: their own logic, what they print, and that
 * the negative control of step 3 sees a missing wait. Nothing here says anything about a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "scenarios/machine.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/device/check.h"

/* Of step 2; 0: few. `test_cuda_device_check 1000` runs so many. */
static int asked_programs;

/* Of step 9: where the machine goes, and from how many sizes of uploads. */
static const char *machine_path;
static int uploads;

/* Runs one step over a fresh fake; returns what it wrote. */
static const char *run_step(int number, void (*step)(struct check *check), struct check *check) {
    static char text[1 << 16];
    static struct check_points points;
    const struct orr_fake_cuda_options options = {.engine = ORR_FAKE_SIMULATED};
    struct orr_fake_cuda *fake;
    struct orr_error error;
    points.count = 0;
    *check = (struct check){.memory = orr_memory_system(),
                            .points = &points,
                            .step = number,
                            .machine_path = machine_path,
                            .quick = true,
                            .fake = true,
                            .programs = asked_programs,
                            .seed = 1};
    assert_int_equal(orr_fake_cuda_open(&options, &check->memory, &fake, &error), ORR_OK);
    check->api = orr_fake_cuda_api(fake);
    check->results = tmpfile();
    assert_non_null(check->results);
    step(check);
    rewind(check->results);
    text[fread(text, 1, sizeof text - 1, check->results)] = '\0';
    fclose(check->results);
    struct orr_fake_cuda_census census = orr_fake_cuda_census(fake);
    static const struct orr_fake_cuda_census none;
    assert_memory_equal(&census, &none, sizeof census);
    orr_fake_cuda_close(&fake);
    return text;
}

static void expect_line(const char *text, const char *line) {
    if (!strstr(text, line))
        fail_msg("no line '%s' in:\n%s", line, text);
}

static void test_probe(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(0, check_probe, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,0,probe,pass,1 GPU(s)");
    expect_line(text, "Fake CUDA device");
}

static void test_images(void **state) {
    (void)state;
    struct check check;
    expect_line(run_step(1, check_images, &check), "check,1,images,pass,");
}

static void test_numbers(void **state) {
    (void)state;
    struct check check;
    expect_line(run_step(2, check_numbers, &check), "check,2,numbers,pass,");
}

static void test_order_and_its_negative_control(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(3, check_order, &check);
    expect_line(text, "check,3,order,pass,with the wait 5 of 5 right; findings: 0");
    expect_line(text, "check,3,order negative control,pass,without it 0 of 5 right; findings: 1");
}

static void test_overlap_is_skipped(void **state) {
    (void)state;
    struct check check;
    expect_line(run_step(4, check_overlap, &check), "check,4,overlap,skip,");
}

static void test_clocks(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(5, check_clocks, &check);
    assert_int_equal(check.failed, 0);
    assert_int_equal(check.passed, 4);
    expect_line(text, "0 early, 0 overlapping");
}

static void test_launches(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(6, check_launches, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,6,graph node,skip,");
}

static void points_and_model(struct check *check) {
    check_points(check);
    check_model(check);
}

static void test_points_and_model(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(7, points_and_model, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,7,points,skip,");
    expect_line(text, "device copy,note,fitted to ");
    expect_line(text, "kernel,note,fitted to 8 points");
}

/* Half of the points are fitted: with one size of uploads, none can be told. */
static void model_of_points(struct check *check) {
    enum { SIZES = 6 };
    assert_true(check_look(check));
    check->fake = false;
    for (int kind = POINT_DEVICE_COPY; kind <= POINT_KERNEL; kind++)
        for (int i = 1; i <= (kind == POINT_UPLOAD ? uploads : SIZES); i++)
            check->points->items[check->points->count++] =
                (struct check_point){.kind = (enum check_point_kind)kind,
                                     .bytes = 1e6 * i,
                                     .flops = 1e9 * i,
                                     .ns = kind == POINT_GEMM ? 1000 * i : 2000 + 500 * i};
    check_model(check);
}

static void test_measured_machine_can_be_loaded(void **state) {
    (void)state;
    char path[] = "/tmp/orrery-measured-XXXXXX.lua";
    int file = mkstemps(path, 4);
    assert_true(file >= 0 && close(file) == 0 && unlink(path) == 0);
    machine_path = path;
    uploads = 1;
    struct check check;
    expect_line(run_step(9, model_of_points, &check),
                "check,9,machine,skip,not written: the rate of uploads was not measured");
    assert_int_not_equal(access(path, F_OK), 0);
    uploads = 6;
    expect_line(run_step(9, model_of_points, &check), "check,9,machine,pass,/tmp/orrery-measured-");
    struct orr_memory memory = orr_memory_system();
    struct orr_machine *machine = NULL;
    struct orr_error error = {0};
    if (orr_machine_load(path, &memory, &machine, &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(machine->spec.host_bandwidth, 2000000000000);
    assert_int_equal(machine->spec.host_latency_ns, 2000);
    assert_int_equal(machine->spec.peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16], 1000000000000000);
    orr_machine_destroy(&machine);
    unlink(path);
    machine_path = NULL;
}

static void test_limits(void **state) {
    (void)state;
    struct check check;
    const char *text = run_step(8, check_limits, &check);
    assert_int_equal(check.failed, 0);
    expect_line(text, "check,8,out of memory,pass,");
    expect_line(text, "two ranks on one GPU give code 5");
}

int main(int argc, char **argv) {
    asked_programs = argc > 1 ? atoi(argv[1]) : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_order_and_its_negative_control),
        cmocka_unit_test(test_overlap_is_skipped),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_points_and_model),
        cmocka_unit_test(test_measured_machine_can_be_loaded),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("device check over fake devices", tests, NULL, NULL);
}
