/* Exploration of a stream program: runs it under many schedules and says what went wrong in which.
 *
 *     struct orr_explore_options options = orr_explore_defaults();
 *     struct orr_exploration *found;
 *     status = orr_explore(program, &options, &found, &error);
 *     for (uint32_t i = 0; i < found->finding_count; i++)
 *         ... found->findings[i].message, .schedule ...
 *     orr_exploration_destroy(&found);
 *
 * What is explored follows from the program's oracle. `hb`: the calls are made in list order, and
 * what streams and hosts do with memory is tried in every order that the calls allow. `hang`: the
 * order of calls of different hosts is free as well, memory plays no part, and the question is
 * whether something gets stuck. Programs with oracle `capture` have no schedules (ORR_UNSUPPORTED).
 *
 * Strategies. `dpor` (dynamic partial-order reduction) is exhaustive: of schedules that order all
 * conflicts alike one is run. `pct` and `random` run as many schedules as the budget says and prove
 * nothing by finding nothing.
 *
 * Results are the same on every machine and for any number of threads.
 *
 * Threads: any, each with its own exploration; the program must not change meanwhile. */
#ifndef ORR_HAZARDS_EXPLORE_EXPLORE_H
#define ORR_HAZARDS_EXPLORE_EXPLORE_H

#include "hazards/check.h"

enum orr_explore_strategy { ORR_EXPLORE_DPOR, ORR_EXPLORE_PCT, ORR_EXPLORE_RANDOM };

enum { ORR_EXPLORE_BUDGET_DEFAULT = 1000000, ORR_EXPLORE_WITNESSES_DEFAULT = 16 };

struct orr_explore_options {
    enum orr_explore_strategy strategy;
    uint64_t budget;    /* runs at most; at least 1 */
    uint64_t seed;      /* pct, random */
    uint32_t depth;     /* pct: constraints on the order that a bug needs; 1 to 64 */
    uint32_t threads;   /* of oracle hb; interleavings (hang) are explored by the caller's alone */
    uint32_t witnesses; /* findings that get a minimized schedule; the others are only named */
    /* Called on the caller's thread now and then with the number of runs so far; may be NULL. */
    void (*progress)(void *context, uint64_t runs);
    void *progress_context;
};

/* dpor, 1,000,000 runs, seed 1, depth 3, one thread, 16 witnesses. */
struct orr_explore_options orr_explore_defaults(void);

/* What a step of a schedule is. */
enum orr_schedule_what {
    ORR_STEP_RUN,  /* an action of a stream or a host, or an entry of a stream, from start to end */
    ORR_STEP_CALL, /* hang: a host makes a call */
    ORR_STEP_START,  /* hang: a communication entry starts */
    ORR_STEP_FINISH, /* hang: it ends */
    ORR_STEP_BODY    /* hang: a step of a host function's body */
};

struct orr_schedule_step {
    uint32_t op;    /* index in the program */
    uint32_t actor; /* a stream's number, or number of streams + a host's number */
    uint8_t what;   /* enum orr_schedule_what */
};

/* A schedule of some of a program's operations, the others left out: what was needed to show a
 * finding. Steps name operations by their index in the whole program. */
struct orr_schedule {
    uint32_t *kept; /* operations, ascending; owned */
    uint32_t kept_count;
    struct orr_schedule_step *steps; /* owned */
    uint32_t step_count;
    /* hb: what the program's own order gives, and this one. hang: outcome says who is blocked. */
    uint64_t expected, outcome;
    uint32_t poisoned; /* hb: actions that used memory that was not there */
};

struct orr_explore_finding {
    enum orr_check_verdict_kind kind;
    uint32_t op_a, op_b;          /* hb; ORR_NONE for hangs. In a mismatch, the two calls */
    bool shows_wrong;             /* hb: the schedule gives wrong numbers */
    struct orr_schedule schedule; /* steps NULL: none was looked for */
    char *message;                /* owned */
};

struct orr_exploration {
    const struct orr_memory *memory;
    /* The first finding's kind; NO_RACE or NO_HANG only if that is proven, INVALID if the program
     * is, else UNKNOWN: nothing was found. */
    enum orr_check_verdict_kind verdict;
    uint64_t runs;     /* made */
    uint64_t orders;   /* distinct ones among them; 0: not counted (pct, random) */
    uint64_t wrong;    /* hb: runs that gave wrong numbers */
    uint64_t stuck;    /* hang: runs that got stuck or met a mismatch */
    uint64_t given_up; /* hang: runs that were begun and found to repeat others */
    bool is_capped;    /* the budget ended it, or it proves nothing anyway */
    struct orr_explore_finding *findings; /* in the check's order */
    uint32_t finding_count;
    size_t finding_capacity;
    char message[256]; /* of INVALID */
};

/* Explores. ORR_UNSUPPORTED for programs too large, with the limit in `error`. */
enum orr_status orr_explore(const struct orr_stream_program *program,
                            const struct orr_explore_options *options,
                            struct orr_exploration **out_exploration,
                            struct orr_error *error) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr_exploration_destroy(struct orr_exploration **exploration);

/* What came of a schedule. */
struct orr_replay_result {
    enum orr_check_verdict_kind kind; /* HANG, MISMATCH, NO_HANG; hb: NO_RACE */
    uint64_t outcome, expected;
    uint32_t poisoned;
};

/* Runs a schedule again on the program that it was made for. ORR_INVALID, with the step and what
 * the program has in its place, if it doesn't fit. */
enum orr_status orr_schedule_replay(const struct orr_stream_program *program,
                                    const struct orr_schedule *schedule,
                                    struct orr_replay_result *out_result,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* Frees what a schedule holds; it is empty again. */
void orr_schedule_clear(struct orr_schedule *schedule, const struct orr_memory *memory);

/* --- between the files of this module --- */

/* Adds an empty finding; NULL without memory. */
struct orr_explore_finding *orr__exploration_add(struct orr_exploration *exploration,
                                                 enum orr_check_verdict_kind kind, uint32_t op_a,
                                                 uint32_t op_b);
enum orr_status orr__explore_order(const struct orr_stream_program *program,
                                   const struct orr_explore_options *options,
                                   struct orr_exploration *exploration,
                                   struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__explore_hangs(const struct orr_stream_program *program,
                                   const struct orr_explore_options *options,
                                   struct orr_exploration *exploration,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
