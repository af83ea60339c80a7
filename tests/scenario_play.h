/* Plays scenario texts on simulated devices, for the tests of the binding.
 *
 *     struct play play = play_text("print(1 + 1)");
 *     assert_string_equal(play.printed, "2\n");
 *     play_end(&play);
 *
 * The text's path is "demo.lua". Threads: one. */
#ifndef ORR_TESTS_SCENARIO_PLAY_H
#define ORR_TESTS_SCENARIO_PLAY_H

#include "scenarios/scenario.h"
#include "tests/support.h"

struct play {
    struct fixture fixture;
    struct orr_scenario_config config;
    struct orr_scenario *scenario; /* NULL if it did not compile */
    enum orr_status status;
    struct orr_error error;
    char printed[8192];
    size_t printed_length;
};

/* Devices of 16 GB and round figures, defaults for the rest; the test may change config,
 * fixture.config and fixture.specs before play_run. */
void play_prepare(struct play *play, const char *text, uint32_t device_count);
/* Compiles, runs and finishes; status and error say how it ended. */
void play_run(struct play *play);
/* Both, on one device. */
void play_text(struct play *play, const char *text);
/* Frees everything and asserts that no memory is left. */
void play_end(struct play *play);

/* Plays a text on one device (or several) and asserts that it prints exactly `wanted`. */
void expect_printed(const char *text, const char *wanted);
void expect_printed_on(uint32_t device_count, const char *text, const char *wanted);

/* Plays a text on two devices (or as many as given) and asserts that it ends with ORR_INVALID and
 * exactly this message. */
void expect_failure(const char *text, const char *message);
void expect_failure_on(uint32_t device_count, const char *text, const char *message);

#endif
