#include "tests/scenario_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"

static void keep(void *context, const char *text, size_t length) {
    struct play *play = context;
    assert_true(play->printed_length + length < sizeof play->printed);
    memcpy(play->printed + play->printed_length, text, length);
    play->printed_length += length;
    play->printed[play->printed_length] = '\0';
}

void play_prepare(struct play *play, const char *text, uint32_t device_count) {
    memset(play, 0, sizeof *play);
    fixture_prepare(&play->fixture, orr_sim_open, device_count);
    play->config = (struct orr_scenario_config){
        .path = "demo.lua", .text = text, .length = strlen(text), .print = keep};
}

void play_run(struct play *play) {
    fixture_start(&play->fixture);
    struct orr_runtime *runtime = play->fixture.runtime;
    play->config.memory = &play->fixture.memory.table;
    play->config.print_context = play;
    play->status = orr_scenario_create(&play->config, &play->scenario, &play->error);
    if (play->status == ORR_OK)
        play->status = orr_scenario_run(play->scenario, runtime, &play->error);
    if (play->status == ORR_OK)
        play->status = orr_runtime_finish(runtime);
}

void play_text(struct play *play, const char *text) {
    play_prepare(play, text, 1);
    play_run(play);
}

void play_end(struct play *play) {
    orr_scenario_destroy(&play->scenario);
    fixture_close(&play->fixture);
}

void expect_printed_on(uint32_t device_count, const char *text, const char *wanted) {
    struct play play;
    play_prepare(&play, text, device_count);
    play_run(&play);
    if (play.status != ORR_OK)
        print_message("%s\n", play.error.text);
    assert_int_equal(play.status, ORR_OK);
    assert_string_equal(play.printed, wanted);
    play_end(&play);
}

void expect_printed(const char *text, const char *wanted) {
    expect_printed_on(1, text, wanted);
}

void expect_failure(const char *text, const char *message) {
    expect_failure_on(2, text, message);
}

void expect_failure_on(uint32_t device_count, const char *text, const char *message) {
    struct play play;
    play_prepare(&play, text, device_count);
    play_run(&play);
    assert_string_equal(play.error.text, message);
    assert_int_equal(play.status, ORR_INVALID);
    play_end(&play);
}
