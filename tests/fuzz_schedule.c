/* Fuzzes the reader of schedules, replay, and exploration of whatever program comes out.
 *
 * The input is a schedule file. Steps are replayed even if the fingerprint no longer fits: they
 * must be refused or run, whatever the program has become. The program is explored under a small
 * budget and checked: where neither gave up, both say the same; and what was found is written, read
 * back and replayed to the same outcome. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/explore/schedule_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUDGET = 24, STATES_MAX = 3000, OPS_MAX = 64 };

static void must(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_schedule: %s\n", what);
        abort();
    }
}

static void replay(const struct orr_schedule_file *file) {
    struct orr_replay_result result;
    struct orr_error error = {0};
    enum orr_status status = orr_schedule_replay(file->program, &file->schedule, &result, &error);
    must(status == ORR_OK || error.text[0], "a refusal without a reason");
}

static void save_and_replay(const struct orr_stream_program *program,
                            const struct orr_explore_finding *finding) {
    struct orr_schedule_file file = {.id = "p",
                                     .kind = finding->kind,
                                     .op_a = finding->op_a,
                                     .op_b = finding->op_b,
                                     .message = finding->message,
                                     .schedule = finding->schedule,
                                     .program = (struct orr_stream_program *)program};
    struct orr_schedule_file back;
    struct orr_replay_result result;
    struct orr_error error = {0};
    char *text;
    if (orr_schedule_write(&file, &text) != ORR_OK)
        return; /* a name that can't be written */
    must(orr_schedule_read(program->memory, text, strlen(text), &back, &error) == ORR_OK,
         error.text);
    must(orr_schedule_replay(back.program, &back.schedule, &result, &error) == ORR_OK, error.text);
    must(result.outcome == finding->schedule.outcome, "a replay comes to something else");
    must(result.poisoned == finding->schedule.poisoned, "a replay poisons something else");
    orr_schedule_file_clear(&back, program->memory);
    orr_memory_free(program->memory, text);
}

static void explore(const struct orr_stream_program *program) {
    struct orr_explore_options options = orr_explore_defaults();
    struct orr_check_limits limits = {.states_max = STATES_MAX};
    struct orr_check_verdict verdict;
    struct orr_exploration *found;
    struct orr_error error = {0};
    options.budget = BUDGET;
    options.witnesses = 2;
    if (orr_explore(program, &options, &found, &error) != ORR_OK)
        return;
    must(orr_stream_program_check(program, &limits, &verdict) == ORR_OK, "no verdict");
    bool is_open = verdict.kind == ORR_CHECK_UNKNOWN ||
                   (program->oracle == ORR_ORACLE_HANG && found->is_capped);
    must(is_open || verdict.kind == found->verdict, "the check says something else");
    for (uint32_t i = 0; i < found->finding_count && i < options.witnesses; i++)
        save_and_replay(program, &found->findings[i]);
    orr_check_verdict_clear(&verdict);
    orr_exploration_destroy(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct orr_memory memory = orr_memory_system();
    struct orr_schedule_file file;
    struct orr_error error = {0};
    enum orr_status status = orr_schedule_read(&memory, (const char *)data, size, &file, &error);
    must(status == ORR_OK || error.text[0], "malformed, and nobody says why");
    if (file.program && file.program->op_count <= OPS_MAX &&
        file.program->oracle != ORR_ORACLE_CAPTURE) {
        replay(&file);
        explore(file.program);
    }
    orr_schedule_file_clear(&file, &memory);
    return 0;
}
