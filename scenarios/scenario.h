/* Scenarios: programs in Lua 5.4 that drive a runtime. This is the sandbox, the binding, and the
 * list of expectations that a scenario leaves behind; scenarios/README.md is the manual for their
 * authors.
 *
 *     struct orr_scenario_config config = {.memory = &memory, .path = "overlap.lua",
 *                                          .text = text, .length = length, .print = print};
 *     struct orr_scenario *scenario;
 *     if (orr_scenario_create(&config, &scenario, &error) != ORR_OK) ...     (syntax: exit code 3)
 *     if (orr_scenario_run(scenario, runtime, &error) != ORR_OK) ...
 *     for (size_t i = 0; i < orr_scenario_expectation_count(scenario); i++)
 *         judge(orr_scenario_expectation(scenario, i));
 *     orr_scenario_destroy(&scenario);
 *
 * What a scenario can reach: base, string, table, math, utf8 and coroutine without their doors to
 * the outside, `orrery`, `expect`, and `require` of the embedded library. No files, no clock, no
 * bytecode, no finalizers, no addresses. `pairs` goes in the order of sorted keys, math.random
 * starts from the run's seed, instructions and memory are limited.
 *
 * Every error names file and line of the innermost frame in the scenario's own file (frames of the
 * embedded library are skipped).
 *
 * Threads: a scenario belongs to the thread of its runtime. */
#ifndef ORR_SCENARIOS_SCENARIO_H
#define ORR_SCENARIOS_SCENARIO_H

#include <stdbool.h>

#include "runtime/runtime.h"

struct orr_scenario;

/* key=value of the command line. */
struct orr_scenario_argument {
    const char *key, *value;
};

#define ORR_SCENARIO_INSTRUCTIONS_MAX UINT64_C(1000000000) /* of the Lua machine; some seconds */
#define ORR_SCENARIO_MEMORY_MAX       (UINT64_C(1) << 30)  /* bytes of Lua's heap */

/* All pointers are borrowed until destroy. */
struct orr_scenario_config {
    const struct orr_memory *memory;
    const char *path; /* as the user wrote it: stands in messages and sites */
    const char *text; /* the program */
    size_t length;
    const struct orr_scenario_argument *arguments;
    size_t argument_count;
    uint64_t instructions_max; /* 0: ORR_SCENARIO_INSTRUCTIONS_MAX */
    uint64_t memory_max;       /* 0: ORR_SCENARIO_MEMORY_MAX */
    /* It is to be run many times: see orr_scenario_rewind. What one run writes into globals is gone
     * in the next, and the tables of the standard library can't be changed. */
    bool repeats;
    /* Calls are not told their lines, which errors name all the same: faster. */
    bool without_sites;
    /* Where print goes: whole lines with their newline. NULL: nowhere. */
    void (*print)(void *context, const char *text, size_t length);
    void *print_context;
};

/* Compiles the program. ORR_INVALID with file and line for a syntax error or bytecode;
 * ORR_NO_MEMORY. */
enum orr_status orr_scenario_create(const struct orr_scenario_config *config,
                                    struct orr_scenario **out_scenario,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* Runs it to its end, once, on a runtime that is borrowed for the call; devices may still be
 * working when it returns (orr_runtime_finish waits for them). Expectations that need no more than
 * the scenario's own values are judged on the way. ORR_INVALID: the program is wrong (also an
 * exceeded limit); other statuses are the runtime's, with its text behind file and line. */
enum orr_status orr_scenario_run(struct orr_scenario *scenario, struct orr_runtime *runtime,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* As it was before it ran, at a fraction of the cost of a new one; for scenarios that repeat. The
 * runtime is rewound, or another, before it runs again. ORR_NO_MEMORY: only destroy is left. */
enum orr_status orr_scenario_rewind(struct orr_scenario *scenario) ORR_MUST_CHECK;

/* For scenarios that repeat: whether calls of the next run are told their lines. */
void orr_scenario_set_sites(struct orr_scenario *scenario, bool with_sites);

/* The runtime's host that runs now: who prints. */
uint32_t orr_scenario_running(const struct orr_scenario *scenario);
/* What one of the runtime's hosts is in the scenario: "host", "rank 3". */
void orr_scenario_host_text(const struct orr_scenario *scenario, uint32_t host, char *text,
                            size_t size);

/* What to do about it, or "". */
const char *orr_scenario_stop_fix(const struct orr_scenario *scenario);
/* After the run, or the end of its runtime, has failed with *error: if it was a wait that can never
 * end, that becomes the run's finding. */
void orr_scenario_blame(struct orr_scenario *scenario, const struct orr_error *error);
/* Kind of the finding that ended the last run ("hang", "collective-mismatch"), whose message is
 * that of the error; NULL if none did. Borrowed until destroy. */
const char *orr_scenario_stopped(const struct orr_scenario *scenario);
/* What that finding is about, in words that are the same whoever's call comes first. */
const char *orr_scenario_stop_about(const struct orr_scenario *scenario);

/* Where its hosts are when a run has been left in the middle: "rank 0 at case.lua:7 in receive;
 * rank 1 at case.lua:9 in a wait for a device". "" if all have ended. */
void orr_scenario_describe_hosts(const struct orr_scenario *scenario, char *text, size_t size);

/* True if the run failed because of the command line's key=value, not because of the program. */
bool orr_scenario_arguments_wrong(const struct orr_scenario *scenario);

/* Frees and nulls; accepts NULL. Handles that the program made stay with the runtime, which frees
 * them: destroy the scenario first. */
void orr_scenario_destroy(struct orr_scenario **scenario);

/* What an expectation is about. */
enum orr_expectation_kind {
    ORR_EXPECT_VALUE,   /* judged when it was made */
    ORR_EXPECT_CLEAN,   /* no finding, and no command that failed, was skipped or poisoned */
    ORR_EXPECT_FINDING, /* `name`: at least one finding of that kind */
    ORR_EXPECT_PHASE,   /* `name`: class of the longest phase of `device`: "launch-bound" */
    ORR_EXPECT_ANALYSIS /* `name`: path in the analysis, against `number` or `text` */
};

struct orr_expectation {
    enum orr_expectation_kind kind;
    bool passed;     /* VALUE only */
    bool is_text;    /* ANALYSIS: compare `text`, else `number` within `tolerance` (relative) */
    uint32_t device; /* PHASE only */
    double number, tolerance;
    const char *name; /* class, kind or path; "" */
    const char *text; /* VALUE: what was found and what was wanted; ANALYSIS: the wanted text */
    const char *site; /* "file:line" */
    const char *call; /* "expect.time_ns": for messages */
};

/* Expectations in the order in which they were made; borrowed until destroy. */
size_t orr_scenario_expectation_count(const struct orr_scenario *scenario);
const struct orr_expectation *orr_scenario_expectation(const struct orr_scenario *scenario,
                                                       size_t index);

#endif
