/* Exploration: a backend without time, whose schedule is chosen step by step, and a search that
 * runs one program again and again until every distinct order has been seen, or a budget is used
 * up.
 *
 *     program --calls--> streams' queues --choice: which head is next--> memory, retire
 *        ^                                     ^
 *        '-- goes on when what it waits for    '-- search: sleep sets, source sets;
 *            has happened, or when it is           random; priorities; a given schedule
 *            chosen where it observes
 *
 * A step is one of: a command that touches memory, whole (a collective: all its members at once);
 * a host that reads or writes memory, or asks whether something has finished; with several hosts,
 * every call of theirs that touches what they share. Everything else happens as soon as it can:
 * records, waits, syncs that are satisfied, commands without ranges. Queues have no depth.
 *
 * Two steps depend on each other if their byte ranges overlap and one writes; if one asks whether
 * the other has happened; or if they are calls of hosts about the same stream, event or mailbox.
 * Two executions that order dependent steps alike are the same distinct order. The search (source
 * sets with sleep sets: Abdulla, Aronsson, Jonsson, Sagonas, "Optimal dynamic partial order
 * reduction", POPL 2014) completes exactly one execution of each; a few more are abandoned on the
 * way, where only steps are left that have been tried before.
 *
 * Numbers are really computed, and bytes that were never written poison what is computed from them,
 * as in sim/. There is no overlap in time: what would overlap happens in either order.
 *
 *     config.open = orr_untimed_open;
 *     orr_runtime_create(&config, &runtime, &error);
 *     struct orr_untimed *explore = orr_untimed_of(orr_runtime_backend(runtime));
 *     orr_untimed_search(explore, &(struct orr_untimed_options){.strategy = ORR_UNTIMED_DPOR});
 *     while (orr_untimed_next(explore) == ORR_OK) {
 *         ... run the program, orr_runtime_finish ...
 *         if (orr_untimed_end(explore) == ORR_UNTIMED_COMPLETE) ...
 *         orr_runtime_rewind(runtime);
 *     }
 *
 * Limits: 64 streams and hosts together, 16384 steps. A host that has asked three times in vain
 * whether something has finished waits for it when it asks again: a loop that polls would have an
 * order for every number of its rounds.
 *
 * Threads: one, that of the runtime; several runtimes are independent. */
#ifndef ORR_SIM_UNTIMED_UNTIMED_H
#define ORR_SIM_UNTIMED_UNTIMED_H

#include "runtime/backend.h"

enum { ORR_UNTIMED_PROCESSES_MAX = 64, ORR_UNTIMED_STEPS_MAX = 16384 };

struct orr_untimed;

/* Opens the backend. It computes numbers, unless the configuration is timing-only; runners for each
 * device are not distinguished from inline ones. ORR_NO_MEMORY. */
enum orr_status orr_untimed_open(const struct orr_backend_config *config,
                                 struct orr_backend **out_backend, struct orr_error *error);

/* The exploration that a backend is; NULL for another backend. */
struct orr_untimed *orr_untimed_of(struct orr_backend *backend);

/* --- what to do --- */

enum orr_untimed_strategy {
    ORR_UNTIMED_DPOR,   /* every distinct order once */
    ORR_UNTIMED_PCT,    /* random priorities with depth - 1 changes */
    ORR_UNTIMED_RANDOM, /* each step uniform among those that are possible */
    ORR_UNTIMED_FOLLOW  /* the default schedule, but for the steps of `plan` */
};

/* Zero is a default everywhere. Pointers are borrowed for the call. */
struct orr_untimed_options {
    enum orr_untimed_strategy strategy;
    uint64_t seed;       /* PCT, RANDOM */
    uint64_t first, end; /* PCT, RANDOM: executions first <= i < end, each from seed and i */
    uint32_t depth;      /* PCT: of the bug looked for, 1 or more */
    uint32_t length;     /* PCT: steps of an execution, about */
    /* DPOR: only executions that begin like this, with these processes (bits) asleep then.
     * FOLLOW: process of step i where it is possible; beyond its end, or where it is
     * ORR_UNTIMED_DEFAULT, the default: the command enqueued first, hosts after all commands. */
    const uint8_t *plan;
    uint32_t plan_length;
    uint64_t asleep;
    bool divides; /* DPOR: see orr_untimed_choices */
};
enum { ORR_UNTIMED_DEFAULT = 0xff };

/* Sets up a search. ORR_NO_MEMORY. */
enum orr_status orr_untimed_search(struct orr_untimed *explore,
                                   const struct orr_untimed_options *options) ORR_MUST_CHECK;

/* Prepares the next execution, on a runtime that was just created or rewound. ORR_NOT_READY: the
 * search is over. ORR_UNSUPPORTED: the last one had more steps or processes than there may be. */
enum orr_status orr_untimed_next(struct orr_untimed *explore) ORR_MUST_CHECK;

/* --- what happened --- */

enum orr_untimed_outcome {
    ORR_UNTIMED_COMPLETE,  /* to its end */
    ORR_UNTIMED_ABANDONED, /* only steps left that lead where others have been */
    ORR_UNTIMED_HANG,      /* no step was possible, and a host was waiting */
    ORR_UNTIMED_DIVERGED,  /* the program did not do again what it had done: out of memory */
    ORR_UNTIMED_TOO_LONG   /* more steps or processes than there may be */
};

/* Ends the execution: what was left to do, but nobody waits for, happens. */
enum orr_untimed_outcome orr_untimed_end(struct orr_untimed *explore);
/* Whether host memory was missing where no call could say so: what has happened means nothing. */
bool orr_untimed_lost_memory(const struct orr_untimed *explore);

enum orr_untimed_kind {
    ORR_UNTIMED_COMMAND,
    ORR_UNTIMED_REUSE,       /* memory is handed out again: its contents are undefined */
    ORR_UNTIMED_HOST_ACCESS, /* a host reads or writes */
    ORR_UNTIMED_HOST_ASKS,   /* query */
    ORR_UNTIMED_HOST_CALL    /* about something that hosts share */
};

/* A step. Names are the runtime's. */
struct orr_untimed_step {
    uint64_t id; /* host << 32 | number of the command among its host's: the same in every order */
    uint8_t process, kind, command_kind; /* the latter enum orr_command_kind */
    bool undefined;                      /* it read bytes that nobody has written */
    bool answered;                       /* a query was answered with yes */
    uint32_t host, device, stream;       /* stream ORR_ID_NONE: of a host */
    uint32_t name, site;
    uint32_t first_access, access_count;
    uint64_t digest; /* of what a host has read by then; 0 for other steps */
};

/* Steps of the execution, in order; borrowed until the next one. */
const struct orr_untimed_step *orr_untimed_steps(const struct orr_untimed *explore,
                                                 uint32_t *out_count);
/* What a step touches: memory, or, in the same form, things that hosts share. */
const struct orr_access *orr_untimed_accesses(const struct orr_untimed *explore,
                                              const struct orr_untimed_step *step);

/* Things that hosts share. */
enum orr_untimed_thing {
    ORR_UNTIMED_MEMORY,
    ORR_UNTIMED_STREAM,
    ORR_UNTIMED_EVENT,
    ORR_UNTIMED_MEETING
};
enum orr_untimed_thing orr_untimed_thing_of(uint32_t memory);

/* The same for executions of the same distinct order, and, but for chance, for no others. */
uint64_t orr_untimed_order(const struct orr_untimed *explore);

/* Digests of what the hosts have read so far, in order of each host's reads. */
uint64_t orr_untimed_reads(const struct orr_untimed *explore);
/* Digest of the bytes that are defined in a range of memory, and of which ones are. */
uint64_t orr_untimed_contents(const struct orr_untimed *explore, uint32_t memory, uint64_t offset,
                              uint64_t bytes);

/* Two steps that some executions order one way and some the other; in the execution `a` came before
 * `b`. Told once per pair of ids while a search goes on. Followed, the steps of `plan` lead to `b`
 * before `a`. */
struct orr_untimed_race {
    struct orr_untimed_step a, b;
    struct orr_access of_a, of_b; /* the first ranges that overlap */
    uint32_t first_plan, plan_length;
};
const struct orr_untimed_race *orr_untimed_races(const struct orr_untimed *explore,
                                                 uint32_t *out_count);
/* Borrowed until the search goes on. */
const uint8_t *orr_untimed_race_plan(const struct orr_untimed *explore,
                                     const struct orr_untimed_race *race);

/* What keeps a process of a hang from going on. */
struct orr_untimed_blocked {
    bool is_host;
    uint32_t id;         /* of the host or stream */
    uint32_t name, site; /* of a stream's next command */
    uint32_t waits_for;  /* a stream that it waits for, ORR_ID_NONE if for something else */
    uint64_t waits_seq;
};
/* Fills `blocked` with what has not ended, hosts first; returns how many there are. */
uint32_t orr_untimed_stuck(const struct orr_untimed *explore, struct orr_untimed_blocked *blocked,
                           uint32_t max);

/* For dividing a search (DPOR with `divides`): the processes (bits) among which the first step that
 * the plan leaves open is chosen, without those asleep, 0 if the execution ended before; and those
 * of all whose next step there does not depend on that of `process`. A search whose plan goes on
 * with `process` has asleep what is independent of it among what was asleep or tried before. */
uint64_t orr_untimed_choices(const struct orr_untimed *explore);
uint64_t orr_untimed_independent(const struct orr_untimed *explore, uint32_t process);

#endif
