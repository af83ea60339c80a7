/* Exploring a scenario: the Lua program itself runs again and again, on a runtime whose schedule is
 * chosen (sim/untimed/untimed.h), so that hosts may branch on what they read. One explorer is one
 * Lua state and one runtime, both rewound between executions; several threads have one each.
 *
 *     struct orr_explorer *explorer;
 *     if (orr_explorer_create(&config, &explorer, &error) != ORR_OK) ...
 *     struct orr_execution first;
 *     orr_explorer_follow(explorer, NULL, 0, true, &first);        the default schedule
 *     ...
 *     struct orr_search search;
 *     orr_search_begin(explorer, &options, first.numbers, &search);
 *     orr_search_run(&search, 100000);
 *     for (i = 0; i < search.found_count; i++) ...
 *
 * What can be found: a hang; ranks that make different calls, or another finding with which the
 * program stops itself; an error, or a failed expectation, that some order leads to; numbers
 * (contents of live buffers, what hosts read, what is printed) that differ from those of the
 * default schedule; bytes that are read though nobody has written them; two accesses to the same
 * bytes that come in either order.
 *
 * Expectations of times, and those that need a trace, are not judged: there is no time.
 *
 * Threads: each explorer belongs to one; different ones are independent. */
#ifndef ORR_SCENARIOS_EXPLORER_H
#define ORR_SCENARIOS_EXPLORER_H

#include "scenarios/scenario.h"
#include "sim/untimed/untimed.h"

enum { ORR_EXPLORER_FOUND_MAX = 1024, ORR_EXPLORER_RESULTS_MAX = 64 };

/* All pointers are borrowed until destroy. */
struct orr_explorer_config {
    const struct orr_memory *memory;
    const char *path, *text;
    size_t length;
    const struct orr_scenario_argument *arguments;
    size_t argument_count;
    const struct orr_device_spec *specs;
    uint32_t device_count;
    uint64_t seed;
};

struct orr_explorer;

/* Compiles the scenario and opens the runtime. Errors as those of orr_scenario_create and
 * orr_runtime_create. */
enum orr_status orr_explorer_create(const struct orr_explorer_config *config,
                                    struct orr_explorer **out_explorer,
                                    struct orr_error *error) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr_explorer_destroy(struct orr_explorer **explorer);

/* X(NAME, "text"), the gravest first. */
#define ORR_FOUND_LIST(X)                                                                          \
    X(HANG, "hang")                                                                                \
    X(MISMATCH, "collective-mismatch")                                                             \
    X(STOPPED, "stopped")                                                                          \
    X(ERROR, "error")                                                                              \
    X(EXPECTATION, "failed-expectation")                                                           \
    X(NUMBERS, "wrong-numbers")                                                                    \
    X(UNDEFINED, "undefined-read")                                                                 \
    X(RACE, "race")

enum orr_found_kind {
#define ORR_FOUND_ENUM(name, text) ORR_FOUND_##name,
    ORR_FOUND_LIST(ORR_FOUND_ENUM)
#undef ORR_FOUND_ENUM
        ORR_FOUND_COUNT
};
const char *orr_found_text(enum orr_found_kind kind);

/* One execution. */
struct orr_execution {
    enum orr_untimed_outcome outcome;
    enum orr_status status; /* COMPLETE: how the program ended */
    bool arguments_wrong;
    bool stopped;                /* by a finding of its own: orr_scenario_stopped */
    uint64_t numbers;            /* COMPLETE and ORR_OK: digest of all that it computed; else 0 */
    uint32_t failed_expectation; /* index of the first one, ORR_ID_NONE */
    uint64_t undefined_step;     /* id of the first step that read what nobody has written */
    bool has_undefined;
};

/* Runs once, by a plan (struct orr_untimed_options), and leaves everything as it is then for the
 * functions below, until the next execution. ORR_NO_MEMORY, ORR_UNSUPPORTED (too long). */
enum orr_status orr_explorer_follow(struct orr_explorer *explorer, const uint8_t *plan,
                                    uint32_t plan_length, bool with_sites,
                                    struct orr_execution *out_execution) ORR_MUST_CHECK;

/* What the last execution was made of; borrowed until the next one. */
struct orr_runtime *orr_explorer_runtime(struct orr_explorer *explorer);
struct orr_untimed *orr_explorer_backend(struct orr_explorer *explorer);
const struct orr_scenario *orr_explorer_scenario(const struct orr_explorer *explorer);
/* The text of the last failure. */
const struct orr_error *orr_explorer_error(const struct orr_explorer *explorer);

/* --- a search --- */

struct orr_found {
    enum orr_found_kind kind;
    uint64_t key;       /* the same for the same thing, in every execution */
    uint64_t a, b;      /* RACE: ids of the steps; UNDEFINED: a */
    uint64_t execution; /* of the search, from 0: where it was found first */
    uint8_t *plan;      /* that leads to it; owned */
    uint32_t plan_length;
};

struct orr_search {
    struct orr_explorer *explorer;
    struct orr_untimed_options options;
    uint64_t reference; /* numbers of the default schedule; 0: it came to none */
    bool counts_orders; /* random strategies: keep the orders seen */
    bool is_over;       /* nothing is left to try */
    uint64_t executions, complete, abandoned, hangs;
    uint32_t longest;                           /* execution so far, in steps */
    uint64_t results[ORR_EXPLORER_RESULTS_MAX]; /* different numbers */
    uint32_t result_count;                      /* RESULTS_MAX: or more */
    uint64_t *orders;                           /* different ones; owned */
    size_t order_count, order_capacity;
    struct orr_found *found; /* in the order in which they were found; owned */
    size_t found_count, found_capacity;
    uint32_t races_seen;
};

/* Starts a search; plan and explorer are borrowed until its end. */
enum orr_status orr_search_begin(struct orr_explorer *explorer,
                                 const struct orr_untimed_options *options, uint64_t reference,
                                 struct orr_search *out_search) ORR_MUST_CHECK;
/* Executes at most `executions` more. */
enum orr_status orr_search_run(struct orr_search *search, uint64_t executions) ORR_MUST_CHECK;
/* Whether the last execution shows what was found. */
bool orr_found_is_shown(const struct orr_explorer *explorer, const struct orr_found *found,
                        const struct orr_execution *execution, uint64_t reference);
/* Frees what it owns. */
void orr_search_end(struct orr_search *search);

#endif
