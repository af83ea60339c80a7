/* Step 2: random tensor programs on logical devices, against one CPU device. Every operator that
 * the generator knows comes up, in many shapes, dtypes and placements. */
#include "tests/device/check.h"
#include "tests/random_program_run.h"

enum { DEVICES = 4, PROGRAMS = 400, PROGRAMS_QUICK = 10, ROUND = 20 };

struct tally {
    int programs, wrong, operators, equal, close, vague;
};

static void check_one(struct check *check, const struct program_machines *machines, uint64_t seed,
                      struct tally *tally) {
    static struct program program;
    static struct outcome outcome;
    const struct program_options options = {.devices = DEVICES, .operators = 6};
    program_draw(&program, seed, &options);
    bool good = program_check(machines, &program, &outcome);
    tally->programs++;
    tally->operators += outcome.operators;
    tally->equal += outcome.equal;
    tally->close += outcome.close;
    tally->vague += outcome.vague;
    if (good)
        return;
    tally->wrong++;
    check_say(check, "numbers", CHECK_NOTE, "program of seed %llu: %s", (unsigned long long)seed,
              outcome.text);
}

static bool check_round(struct check *check, uint64_t seed, int count, struct tally *tally) {
    struct check_run cpu, gpu;
    if (!check_run_open(check, &cpu, DEVICES, true, ORR_CUDA_TIMESTAMPS_HOST, NULL))
        return false;
    bool open = check_run_open(check, &gpu, DEVICES, false, ORR_CUDA_TIMESTAMPS_HOST, NULL);
    const struct program_machines machines = {.one = cpu.runtime, .many = gpu.runtime};
    for (int i = 0; open && i < count; i++)
        check_one(check, &machines, seed + (uint64_t)i, tally);
    if (open)
        check_run_close(&gpu);
    check_run_close(&cpu);
    return open;
}

void check_numbers(struct check *check) {
    struct tally tally = {0};
    int usual = check->quick ? PROGRAMS_QUICK : PROGRAMS;
    int programs = check->programs > 0 ? check->programs : usual;
    for (int i = 0; i < programs; i += ROUND) {
        int left = programs - i < ROUND ? programs - i : ROUND;
        if (!check_round(check, check->seed + (uint64_t)i, left, &tally))
            return;
    }
    check_say(check, "numbers", tally.wrong ? CHECK_FAIL : CHECK_PASS,
              "%d of %d random programs agree with the CPU (%d operators; results: %d exact, %d "
              "within rounding, %d hardly comparable; seeds from %llu)",
              tally.programs - tally.wrong, tally.programs, tally.operators, tally.equal,
              tally.close, tally.vague, (unsigned long long)check->seed);
}
