/* Exploring scenarios: what the files behind `orrery explore SCENARIO` and `orrery replay` share.
 *
 *     read --> default schedule --> search, divided among threads --> findings
 *                                   --> each with the fewest steps out of the ordinary --> answer
 *
 * Threads: one, but for the search's own. */
#ifndef ORR_CLI_EXPLORE_SCENARIO_H
#define ORR_CLI_EXPLORE_SCENARIO_H

#include "cli/scenario_verbs.h"
#include "cli/spec.h"
#include "scenarios/explorer.h"

enum {
    ORR_EXPLORE_ARGUMENTS_MAX = 256,
    ORR_EXPLORE_MESSAGE_MAX = 2048,
    ORR_EXPLORE_SHOWN_MAX = 32, /* findings that are looked at closely */
    ORR_EXPLORE_JOBS = 32,
    ORR_SHOWN_TEXT_MAX = 160
};

/* A scenario that can be run: its text, machine and arguments. */
struct orr_explored {
    const struct orr_memory *memory;
    const char *path;
    char *text;    /* owned */
    char *devices; /* owned */
    size_t length;
    struct orr_spec spec;
    struct orr_scenario_argument arguments[ORR_EXPLORE_ARGUMENTS_MAX]; /* texts are owned */
    size_t argument_count;
    uint64_t seed;
};

/* Reads the scenario; devices NULL: its own. Exit codes as orr_session_run. To be cleared. */
enum orr_exit orr_explored_open(struct orr_explored *explored, const char *devices,
                                struct orr_error *error);
/* Adds "key=value". ORR_INVALID if it is none, or there are too many. */
enum orr_status orr_explored_argument(struct orr_explored *explored, const char *word);
void orr_explored_clear(struct orr_explored *explored);
struct orr_explorer_config orr_explored_config(const struct orr_explored *explored);

struct orr_explore_order {
    struct orr_untimed_options options; /* strategy, seed, depth */
    uint64_t budget;
    uint32_t threads;
    void (*progress)(void *context, uint64_t executions); /* NULL: none */
    void *progress_context;
};

/* A finding as it is shown: with the fewest choices out of the ordinary. */
struct orr_shown {
    enum orr_found_kind kind;
    uint8_t *plan; /* ORR_UNTIMED_DEFAULT where the default is right; owned */
    uint32_t plan_length;
    uint32_t shown_steps; /* of the execution: after these it has happened */
    uint32_t length;      /* steps of the execution */
    char message[ORR_EXPLORE_MESSAGE_MAX];
    char result[64];              /* how the execution ended: digest of its numbers, or a word */
    bool differs;                 /* its numbers are not those of the default schedule */
    uint64_t key, a, b;           /* of struct orr_found */
    uint32_t times;               /* such findings, in other steps too */
    struct orr_shown_step *steps; /* shown_steps of them; owned */
};

struct orr_shown_step {
    uint8_t process;
    bool chosen; /* not the default */
    char by[ORR_SHOWN_TEXT_MAX], does[ORR_SHOWN_TEXT_MAX], site[ORR_SHOWN_TEXT_MAX];
};

struct orr_explore_answer {
    const struct orr_memory *memory;
    uint64_t executions, abandoned, orders, hangs;
    bool capped;
    uint32_t result_count; /* different results; ORR_EXPLORER_RESULTS_MAX: or more */
    uint32_t longest;
    struct orr_found *found; /* the gravest first; plans are owned */
    size_t found_count, found_capacity;
    struct orr_shown *shown; /* owned */
    size_t shown_count;
};

/* cli/explore_search.c: runs the search. `first` is the default schedule's execution. */
enum orr_status orr_explore_search_all(const struct orr_explored *explored,
                                       const struct orr_explore_order *order,
                                       struct orr_explorer *explorer,
                                       const struct orr_execution *first,
                                       struct orr_explore_answer *out_answer,
                                       struct orr_error *error) ORR_MUST_CHECK;
void orr_explore_answer_clear(struct orr_explore_answer *answer);

/* cli/explore_picture.c: what an execution that was told sites has left: live buffers, and what
 * hosts have read, each with a digest; to say what differs. */
struct orr_pictured {
    uint64_t digest, key; /* key: what it is */
    char text[ORR_SHOWN_TEXT_MAX];
};
struct orr_picture {
    const struct orr_memory *memory;
    struct orr_pictured *entries; /* owned; reads by host and order, then buffers */
    size_t count, capacity;
};
enum orr_status orr_picture_take(struct orr_explorer *explorer, const struct orr_memory *memory,
                                 struct orr_picture *out_picture) ORR_MUST_CHECK;
/* Says the first thing that both have and that differs; false if there is none. */
bool orr_picture_differs(const struct orr_picture *picture, const struct orr_picture *normal,
                         char *text, size_t size);
void orr_picture_clear(struct orr_picture *picture);

/* cli/explore_shown.c: makes findings presentable, in answer->shown. */
enum orr_status orr_explore_show_all(struct orr_explorer *explorer,
                                     const struct orr_execution *first,
                                     struct orr_explore_answer *answer) ORR_MUST_CHECK;
/* Looks at the last execution, which was told sites, as one that shows `found`: everything but the
 * plan is filled in. `normal` is what the default schedule leaves. */
enum orr_status orr_explore_describe(struct orr_explorer *explorer, const struct orr_found *found,
                                     const struct orr_execution *execution, uint64_t reference,
                                     const struct orr_picture *normal,
                                     struct orr_shown *shown) ORR_MUST_CHECK;
void orr_shown_clear(struct orr_shown *shown, const struct orr_memory *memory);

/* cli/explore_answer.c: says it. */
void orr_explore_print(FILE *out, const struct orr_explored *explored,
                       const struct orr_explore_answer *answer, bool systematic);
void orr_explore_print_steps(FILE *out, const struct orr_shown *shown);
enum orr_status orr_explore_print_json(FILE *out, const struct orr_explored *explored,
                                       const struct orr_explore_order *order,
                                       const struct orr_explore_answer *answer) ORR_MUST_CHECK;

/* cli/scenario_schedule.c: a finding's schedule as a file. */
enum orr_status orr_scenario_schedule_save(const struct orr_explored *explored,
                                           const struct orr_shown *shown, const char *path,
                                           struct orr_error *error) ORR_MUST_CHECK;

/* What is in such a file. */
struct orr_scenario_schedule {
    const struct orr_memory *memory;
    struct orr_explored explored; /* path, devices, arguments and seed */
    char *path;                   /* of the scenario; owned */
    struct orr_shown shown;
    struct orr_found found;
};
enum orr_status orr_scenario_schedule_read(const struct orr_memory *memory, const char *text,
                                           size_t length,
                                           struct orr_scenario_schedule *out_schedule,
                                           struct orr_error *error) ORR_MUST_CHECK;
void orr_scenario_schedule_clear(struct orr_scenario_schedule *schedule);

#endif
