/* Random programs give on many devices what they give on one, or are refused clearly.
 *
 * ORR_TEST_SEED is the first seed; the command line's first argument is how many there are instead
 * of the usual ones: `test_random_programs 100000`. What fails is printed with its seed, after as
 * many steps as possible were left out. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "sim/sim.h"
#include "tests/random_program_run.h"
#include "tests/support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS_SIM = 250, SEEDS_GRADIENT = 80, SEEDS_CPU = 15 };
#else
enum { SEEDS_SIM = 2500, SEEDS_GRADIENT = 800, SEEDS_CPU = 100 };
#endif

enum { ROUND = 50 }; /* programs to a runtime, which keeps their meshes */

/* How many programs each test runs; 0: the usual number. */
static uint64_t asked_seeds;

/* For a crash: which program it was. Written by one thread, read in its signal handler. */
static char running[64] = "";

struct bench {
    struct memory_counting memory;
    struct orr_device_spec specs[PROGRAM_DEVICES_MAX];
    struct orr_runtime *runtime;
};

static void open_bench(struct bench *b, orr_backend_open open) {
    struct orr_error error;
    memory_counting_init(&b->memory, 0);
    for (int i = 0; i < PROGRAM_DEVICES_MAX; i++) {
        b->specs[i] = spec_for_tests();
    }
    struct orr_runtime_config config = {.memory = &b->memory.table,
                                        .open = open,
                                        .specs = b->specs,
                                        .device_count = PROGRAM_DEVICES_MAX};
    assert_int_equal(orr_runtime_create(&config, &b->runtime, &error), ORR_OK);
}

static void close_bench(struct bench *b) {
    assert_int_equal(orr_runtime_finish(b->runtime), ORR_OK);
    orr_runtime_destroy(&b->runtime);
    assert_int_equal(b->memory.live, 0);
}

static void add(struct outcome *sum, const struct outcome *outcome) {
    sum->operators += outcome->operators;
    sum->refused += outcome->refused;
    sum->split += outcome->split;
    sum->equal += outcome->equal;
    sum->close += outcome->close;
    sum->vague += outcome->vague;
    sum->gradients += outcome->gradients;
    sum->refused_gradients += outcome->refused_gradients;
}

static void fail_with(struct bench *b, struct program *program, struct outcome *outcome) {
    static char text[PROGRAM_TEXT_MAX];
    const struct program_machines machines = {.one = b->runtime, .many = b->runtime};
    program_shrink(&machines, program, outcome);
    fail_msg("%s\n%s", outcome->text, program_text(program, text, sizeof text));
}

static struct outcome run_seeds(orr_backend_open open, uint64_t first, uint64_t count,
                                const struct program_options *options) {
    static struct bench b;
    static struct program program;
    struct outcome sum = {0}, outcome;
    for (uint64_t i = 0; i < count; i++) {
        if (i % ROUND == 0) {
            open_bench(&b, open);
        }
        snprintf(running, sizeof running, "# crashed in program %llu\n",
                 (unsigned long long)(first + i));
        program_draw(&program, first + i, options);
        const struct program_machines machines = {.one = b.runtime, .many = b.runtime};
        if (!program_check(&machines, &program, &outcome)) {
            fail_with(&b, &program, &outcome);
        }
        add(&sum, &outcome);
        if (i % ROUND == ROUND - 1 || i == count - 1) {
            close_bench(&b);
        }
    }
    running[0] = '\0';
    print_message(
        "# %llu programs: %d operators, %d on cut operands, %d refused; results %d equal, "
        "%d close, %d vague; %d gradients, %d refused\n",
        (unsigned long long)count, sum.operators, sum.split, sum.refused, sum.equal, sum.close,
        sum.vague, sum.gradients, sum.refused_gradients);
    return sum;
}

/* A test that refuses everything, or compares nothing, is none. */
static void assert_meaningful(const struct outcome *sum) {
    assert_true(sum->split * 100 > sum->operators * 50);
    assert_true(sum->refused * 100 > sum->operators * 2);
    assert_true(sum->refused * 100 < sum->operators * 25);
    assert_true(sum->vague * 100 < (sum->equal + sum->close) * 10);
    assert_true(sum->equal * 100 > sum->close * 50);
}

static uint64_t seeds(uint64_t usual) {
    return asked_seeds ? asked_seeds : usual;
}

static void programs_mean_the_same_on_any_mesh(void **state) {
    (void)state;
    const struct program_options options = {.devices = PROGRAM_DEVICES_MAX, .operators = 10};
    struct outcome sum = run_seeds(orr_sim_open, random_seed(1), seeds(SEEDS_SIM), &options);
    assert_meaningful(&sum);
}

static void and_so_do_their_gradients(void **state) {
    (void)state;
    const struct program_options options = {
        .devices = PROGRAM_DEVICES_MAX, .operators = 6, .gradients = true};
    struct outcome sum = run_seeds(orr_sim_open, random_seed(1), seeds(SEEDS_GRADIENT), &options);
    assert_true(sum.gradients * 10 > sum.refused_gradients * 100);
    assert_true(sum.split * 100 > sum.operators * 50);
}

static void and_on_threads(void **state) {
    (void)state;
    const struct program_options options = {.devices = PROGRAM_DEVICES_MAX, .operators = 8};
    run_seeds(orr_cpu_open, random_seed(1), seeds(SEEDS_CPU), &options);
}

static void say_which(int number) {
    ssize_t written = write(STDERR_FILENO, running, strlen(running));
    (void)written;
    signal(number, SIG_DFL);
    raise(number);
}

int main(int argc, char **argv) {
    asked_seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    signal(SIGABRT, say_which);
    signal(SIGSEGV, say_which);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_mean_the_same_on_any_mesh),
        cmocka_unit_test(and_so_do_their_gradients),
        cmocka_unit_test(and_on_threads),
    };
    return cmocka_run_group_tests_name("random programs", tests, NULL, NULL);
}
