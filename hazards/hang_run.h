/* A run of a hang model (hazards/hang_model.h): its state, the next step of each process, and the
 * way back.
 *
 * Processes are the hosts and the streams; process p is host p, or stream p - host_count. The state
 * is one array of words; while steps are logged, orr__hang_undo takes them back.
 *
 *     orr__hang_run_create(&model, &run);
 *     while (orr__hang_look(&run, p) == ORR__HANG_READY)
 *         orr__hang_step(&run, p);
 *     ... run.key: what p waits for ...
 *     orr__hang_run_destroy(&run);
 *
 * Missing memory is remembered in `failed`; what follows is then without meaning, but safe.
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_HANG_RUN_H
#define ORR_HAZARDS_HANG_RUN_H

#include "hazards/hang_model.h"
#include "hazards/hangs.h"

enum orr__hang_look {
    ORR__HANG_OVER,   /* no call left; a stream: nothing in it now */
    ORR__HANG_READY,  /* the next step can be made */
    ORR__HANG_WAITING /* for `key` */
};

/* What somebody can wait for. */
enum orr__hang_wait {
    ORR__HANG_FINISH, /* the next entry of a stream to finish */
    ORR__HANG_FREE,   /* a lock */
    ORR__HANG_FLAG,
    ORR__HANG_SLOT,    /* of a device */
    ORR__HANG_INSTANCE /* all its members to start */
};

/* What an entry is, in `status`. */
enum { ORR__HANG_ABSENT, ORR__HANG_QUEUED, ORR__HANG_FINISHED };

struct orr__hang_run {
    const struct orr__hang_model *model; /* borrowed */
    uint32_t *words;
    /* Where in `words` what is. By host: */
    size_t pc;
    /* by stream: first and last unfinished entry (ORR_NONE), their number, steps of the first one
     * (COMM: 1 = started), entries of kinds COMM not started and BODY not finished; by rule: the
     * last entry of the other stream that the stream's newest entry knows; */
    size_t head, tail, count, progress, comm_left, body_left, seen;
    /* by entry: status, the next one in the stream, a list of what it waits for; */
    size_t status, next, waits;
    /* by event: a list, or ORR_NONE if never recorded; by lock: owner, 0 = none; by flag; by
     * counter: numbers taken; by member: instance or ORR_NONE; */
    size_t event, lock, flag, taken, instance;
    /* by instance: members started (of messages: 1 sender, 2 receiver), the first of them; by
     * device: entries started, streams with entries of kind COMM that are not finished. */
    size_t started, first, used, active;
    size_t list_top, word_count; /* list_top: one word, the end of `lists` */

    /* Lists of entries: a count, then so many. Only the end of it is taken back. */
    uint32_t *lists;
    size_t list_capacity;

    struct orr__hang_change *log;
    size_t log_count, log_capacity;
    bool is_logging, failed;
    uint64_t made; /* steps in all, those that were taken back too */

    struct orr_hang_step *steps; /* made so far, without those that go by themselves */
    size_t step_count, step_capacity;

    uint32_t mismatch_a, mismatch_b; /* two members that differ, ORR_NONE: none */

    uint32_t key; /* of the last look that said WAITING */

    /* Who waits for what, and who should look again. */
    uint32_t *waiting_first, *waiting_next, *waiting_key; /* by key; by process; by process */
    uint32_t *todo;
    uint32_t todo_count;
    bool *is_todo;
};

/* A state before the first step, with every process to look. To be destroyed in any case. */
enum orr_status orr__hang_run_create(const struct orr__hang_model *model,
                                     struct orr__hang_run *out_run) ORR_MUST_CHECK;
void orr__hang_run_destroy(struct orr__hang_run *run);

/* The number of a thing to wait for. */
uint32_t orr__hang_wait_key(const struct orr__hang_model *model, enum orr__hang_wait what,
                            uint32_t object);

/* Can a process make its next step? */
enum orr__hang_look orr__hang_look(struct orr__hang_run *run, uint32_t process);
/* Makes it; it is READY. Who waited for its effect is to look again. */
void orr__hang_step(struct orr__hang_run *run, uint32_t process);

/* Takes steps back until the log has `log_count` changes again; everybody is to look again. */
void orr__hang_undo(struct orr__hang_run *run, size_t log_count, size_t step_count);

/* A process waits for the key of its last look. */
void orr__hang_await(struct orr__hang_run *run, uint32_t process);
/* A process is to look again. */
void orr__hang_wake(struct orr__hang_run *run, uint32_t process);

/* The call of a host, NULL at its end. */
const struct orr__hang_call *orr__hang_next_call(const struct orr__hang_run *run, uint32_t host);
/* The step that a BODY entry at the head of a stream makes next, NULL: only its finish is left. */
const struct orr_stream_step *orr__hang_next_body(const struct orr__hang_run *run, uint32_t stream);
/* Has the entry started (or finished)? */
bool orr__hang_has_started(const struct orr__hang_run *run, uint32_t entry);
/* The first unfinished entry of a list, ORR_NONE: none. */
uint32_t orr__hang_first_unfinished(const struct orr__hang_run *run, uint32_t list);
/* Have all members of its instance started? For a member that has its number. */
bool orr__hang_is_matched(const struct orr__hang_run *run, uint32_t member);

#endif
