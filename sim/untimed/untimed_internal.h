/* The inside of exploration: the structures that its files share.
 *
 *     struct orr_untimed
 *      |- streams[]    queue of slots; the head is ready, or waits for points
 *      |- hosts[]      runs, wants a turn, is blocked, parked, or has ended
 *      |- processes[]  streams and hosts by one numbering: the bits of every mask
 *      |- memories[]   bytes and which of them are undefined
 *      |- events       steps of this execution, with their clocks
 *      '- search       nodes of the tree of choices, or what random strategies need
 *
 * Clocks: lane p of a clock is the number of steps of process p that came before. Step a came
 * before step b in every execution of the same order if b's clock counts a. Clocks are values in a
 * pool, which an execution fills from the beginning; whoever has one keeps its index.
 *
 * Threads: one. */
#ifndef ORR_SIM_UNTIMED_UNTIMED_INTERNAL_H
#define ORR_SIM_UNTIMED_UNTIMED_INTERNAL_H

#include <assert.h>
#include <string.h>

#include "sim/untimed/untimed.h"
#include "sim/hazard_ranges.h"

enum {
    ORR__X_PROCESSES = ORR_UNTIMED_PROCESSES_MAX,
    ORR__X_STEPS = ORR_UNTIMED_STEPS_MAX,
    ORR__X_SLOTS = 1 << 20,
    ORR__X_MEMORIES = 1 << 20,
    ORR__X_CLOCKS = 1 << 20,
    ORR__X_RACES = 4096,
    ORR__X_PLANS = 1 << 26, /* bytes */
    ORR__X_DEPTH = 16,
    ORR__X_ASKED = 16, /* points whose vain questions a host counts */
    ORR__X_VAIN = 3    /* questions about a point, then a host waits for it */
};

/* Things that hosts share, as memory: a byte for each. */
#define ORR__X_OF_STREAMS        (UINT32_MAX - 1)
#define ORR__X_OF_EVENTS         (UINT32_MAX - 2)
#define ORR__X_OF_MEETINGS       (UINT32_MAX - 3)
#define ORR__X_IS_SHARED(memory) ((memory) >= UINT32_MAX - 7)

#define ORR__X_BIT(i) (UINT64_C(1) << (i))

struct orr__x_clock {
    uint16_t at[ORR__X_PROCESSES];
};

/* A collective whose members are in their streams' queues. */
struct orr__x_group {
    uint32_t count, arrived;
    uint32_t first;                      /* in group_streams */
    uint32_t first_access, access_count; /* in group_accesses */
};

/* A command in a queue, or, without one, memory that becomes undefined there. */
struct orr__x_slot {
    struct orr_command *command;
    uint64_t id, seq;
    uint32_t clock; /* of its host, when it was enqueued */
    uint32_t order; /* of all slots */
    uint32_t first_wait, wait_count;
    uint32_t group; /* index + 1; 0: none */
    bool works;     /* it is a step */
    struct orr_access undefines;
};

/* How a command has retired: what comes before whoever knows of it. */
struct orr__x_retired {
    uint32_t clock;
    uint32_t cause; /* the last step that it needed, + 1; 0: none */
};

struct orr__x_stream {
    struct orr__x_slot *slots;
    size_t slot_capacity;
    uint32_t head, count;            /* slots before head have retired */
    struct orr__x_retired *retireds; /* by seq - 1 */
    size_t retired_capacity;
    uint64_t submitted, retired;
    uint64_t waiters; /* streams whose head waits for a point of this one */
    uint32_t clock, device;
    uint32_t process;
    uint32_t cause;     /* the last step that what has retired needed, + 1 */
    uint32_t waits_for; /* stream that its head waits for; ORR_ID_NONE */
    uint64_t waits_seq;
    bool ready;  /* its head's waits are over */
    bool failed; /* see failed_seq */
    uint64_t failed_seq;
    struct orr_error *failure; /* of the stream that failed first */
    bool owns_failure;
};

enum orr__x_state { ORR__X_RUNS, ORR__X_WANTS, ORR__X_BLOCKED, ORR__X_PARKED, ORR__X_DONE };

/* What a host wants to do, when it is a step. */
struct orr__x_call {
    enum orr_untimed_kind kind;
    enum orr_command_kind command_kind;
    uint32_t name, site;
    struct orr_access *accesses; /* capacity of them */
    size_t access_count, access_capacity;
    struct orr_point *points; /* HOST_ASKS: asked about */
    size_t point_count, point_capacity;
    bool asks_all; /* instead: what has retired of everything */
    bool waits;    /* it has asked in vain so often that it waits now */
};

struct orr__x_host {
    enum orr__x_state state;
    uint32_t process, clock;
    uint32_t commands; /* made so far */
    int64_t now_ns;    /* its calls so far: there is no time */
    uint64_t reads;    /* digest */
    struct orr__x_call call;
    struct orr_point *points; /* BLOCKED: for all of them */
    size_t point_count, point_capacity;
    bool captured; /* `points` belong to a wait that has begun */
    /* Points asked about in vain, and how often. */
    uint32_t asked_count;
    struct orr_point asked[ORR__X_ASKED];
    uint8_t vain[ORR__X_ASKED];
};

struct orr__x_process {
    bool is_host;
    uint8_t index;
    uint16_t steps;
};

/* A step, besides what others see of it. */
struct orr__x_event {
    uint64_t signature;     /* a bit for each memory that it touches */
    uint32_t clock, before; /* `before`: of its process, without it */
    uint16_t ordinal;       /* of its process, from 1 */
    uint32_t marked_by;     /* a later step that depends on it for another reason than ranges */
    bool asks_all, is_command;
    uint64_t answer; /* which points asked about had retired */
};

/* A question whose answer was no. */
struct orr__x_open_question {
    uint32_t event;
    struct orr_point point;
};

struct orr__x_node {
    uint64_t enabled, sleep, backtrack, next_sleep;
    uint8_t process;
};

struct orr__x_search {
    struct orr_untimed_options options;
    uint8_t *plan;
    size_t plan_capacity;
    struct orr__x_node *nodes; /* ORR__X_STEPS of them as they are needed */
    size_t node_capacity;
    uint32_t node_count;
    uint32_t replay; /* steps that are as in the execution before */
    bool started, over;
    uint64_t execution; /* PCT, RANDOM */
    uint64_t random;
    uint64_t priorities[ORR__X_PROCESSES];
    uint32_t changes[ORR__X_DEPTH];
    uint64_t open;                          /* what the first open step is chosen among */
    uint64_t independent[ORR__X_PROCESSES]; /* there, if the search is to be divided */
};

struct orr_untimed {
    struct orr_backend base; /* first */
    const struct orr_memory *memory;
    struct orr_retire retire;
    bool timing_only, out_of_memory;

    struct orr__x_stream streams[ORR__X_PROCESSES];
    uint32_t stream_count;
    struct orr__x_host hosts[ORR__X_PROCESSES];
    uint32_t host_count, live_count;
    struct orr__x_process processes[ORR__X_PROCESSES];
    uint32_t process_count, lanes;
    uint64_t enabled;  /* processes that are streams whose head can be the next step */
    uint64_t starters; /* the same of hosts that want a turn */
    uint64_t blocked;  /* hosts (by index) that wait for points */
    uint32_t running;  /* hosts in state RUNS */
    uint32_t orders[ORR__X_PROCESSES]; /* of the heads that are enabled, by process */
    uint32_t order_count;
    bool multi;       /* there has been more than one host */
    uint32_t granted; /* host whose step has been taken note of, and may happen; ORR_ID_NONE */
    uint32_t asking;  /* host that asks whether it is its turn; ORR_ID_NONE */
    uint32_t current; /* host that runs */
    uint32_t acted;   /* host that made the last step of hosts */
    uint32_t cause;   /* step that happens now */
    bool over;        /* nothing happens any more: see outcome */
    enum orr_untimed_outcome outcome;

    struct orr__memory *memories;
    size_t memory_count, memory_capacity;
    struct orr__memory *spares; /* of earlier executions: bytes to be used again */
    size_t spare_count, spare_capacity;

    struct orr__x_group *groups;
    size_t group_count, group_capacity;
    uint32_t *group_streams;
    size_t group_stream_count, group_stream_capacity;
    struct orr_access *group_accesses;
    size_t group_access_count, group_access_capacity;
    const struct orr_collective **members; /* scratch */
    size_t member_capacity;

    struct orr_point *waits;
    size_t wait_count, wait_capacity;

    struct orr__x_clock *clocks;
    size_t clock_count, clock_capacity;
    struct orr__x_clock *step_clocks; /* those of steps, which the next execution may repeat */
    size_t step_clock_capacity;

    struct orr_untimed_step *steps;
    struct orr__x_event *events;
    size_t step_capacity, event_capacity;
    uint32_t step_count;
    struct orr_access *accesses;
    size_t access_count, access_capacity;
    struct orr__x_open_question *questions;
    size_t question_count, question_capacity;

    struct orr_untimed_race *races;
    size_t race_count, race_capacity;
    uint8_t *race_plans;
    size_t race_plan_count, race_plan_capacity;
    uint64_t *race_table; /* hashes of pairs; a power of two of slots */
    size_t race_table_size;

    struct orr__x_search search;
};

static inline struct orr_untimed *orr__x_of(struct orr_backend *backend) {
    return (struct orr_untimed *)(void *)backend;
}

static inline struct orr__x_slot *orr__x_head(struct orr__x_stream *stream) {
    return &stream->slots[stream->head];
}

static inline bool orr__x_retired(const struct orr_untimed *x, struct orr_point point) {
    return point.seq == 0 || x->streams[point.stream].retired >= point.seq;
}

static inline bool orr__x_overlap(const struct orr_access *a, const struct orr_access *b) {
    return a->memory == b->memory && ((a->mode | b->mode) & ORR_ACCESS_WRITE) &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Indices of clocks: with this bit, of a step's. */
#define ORR__X_OF_STEP (UINT32_C(1) << 31)

static inline struct orr__x_clock *orr__x_clock_at(const struct orr_untimed *x, uint32_t clock) {
    return clock & ORR__X_OF_STEP ? &x->step_clocks[clock & ~ORR__X_OF_STEP] : &x->clocks[clock];
}

/* What a process would do next, or a step has done. */
struct orr__x_move {
    const struct orr_access *accesses;
    size_t access_count;
    const struct orr_point *points; /* asked about */
    size_t point_count;
    bool asks_all, is_command;
    uint32_t stream; /* of a command: its own, or a member's */
};

/* machine.c: queues */
enum orr_status orr__x_stream_create(struct orr_backend *backend, uint32_t device,
                                     enum orr_stream_kind kind, uint32_t *out_stream,
                                     struct orr_error *error);
enum orr_status orr__x_submit(struct orr_backend *backend, uint32_t stream,
                              const struct orr_command *command, const struct orr_point *waits,
                              uint32_t wait_count, struct orr_point *out_point,
                              struct orr_error *error);
enum orr_status orr__x_submit_group(struct orr_backend *backend, const uint32_t *streams,
                                    const struct orr_command *commands, uint32_t count,
                                    const struct orr_point *waits, uint32_t wait_count,
                                    struct orr_point *out_points, struct orr_error *error);
/* Memory becomes undefined in the order of a stream. */
void orr__x_undefine(struct orr_untimed *x, uint32_t stream, uint32_t memory, uint64_t offset,
                     uint64_t bytes);
/* Whether a point will have retired once a command of `by` (a stream that is enabled) has. */
bool orr__x_would_retire(const struct orr_untimed *x, uint32_t by, struct orr_point point);
/* The head of a process that is a stream happens, as the step that was noted last. */
void orr__x_execute(struct orr_untimed *x, uint32_t process);
/* A new process; ORR_ID_NONE, and the execution is over, if there are too many. */
uint32_t orr__x_process_new(struct orr_untimed *x, bool is_host, uint32_t index);
/* Retires what is left as PENDING. */
void orr__x_retire_all(struct orr_untimed *x);

/* compute.c: what commands do to memory */
enum orr_command_status orr__x_compute(struct orr_untimed *x, uint32_t stream,
                                       struct orr_command *command);
enum orr_command_status orr__x_compute_group(struct orr_untimed *x,
                                             const struct orr__x_group *group);
/* What a skipped command (or NULL) would have written is not there. */
void orr__x_skip(struct orr_untimed *x, const struct orr_command *command);
bool orr__x_reads_undefined(const struct orr_untimed *x, const struct orr_access *accesses,
                            size_t count);

/* hosts.c: who goes on */
enum orr__x_turn { ORR__X_MINE, ORR__X_OTHERS };
/* A host wants to do what its `call` says. OTHERS: it has to yield; also when all is over. */
enum orr__x_turn orr__x_take_turn(struct orr_untimed *x, uint32_t host);
void orr__x_call_begin(struct orr__x_call *call, enum orr_untimed_kind kind);
void orr__x_call_touch(struct orr_untimed *x, struct orr__x_call *call, uint32_t memory,
                       uint64_t offset, uint64_t bytes, uint32_t mode);
enum orr_status orr__x_query(struct orr_backend *backend, uint32_t host, struct orr_point point);
enum orr_status orr__x_wait(struct orr_backend *backend, uint32_t host,
                            const struct orr_point *points, uint32_t count, enum orr_wait_mode mode,
                            int64_t deadline_ns, struct orr_error *error);
void orr__x_poll(struct orr_backend *backend);
int64_t orr__x_now(struct orr_backend *backend, uint32_t host);
enum orr_status orr__x_host_create(struct orr_backend *backend, uint32_t *out_host);
enum orr_status orr__x_host_next(struct orr_backend *backend, uint32_t *out_host,
                                 struct orr_error *error);
void orr__x_host_done(struct orr_backend *backend, uint32_t host);
void orr__x_host_park(struct orr_backend *backend, uint32_t host);
void orr__x_host_unpark(struct orr_backend *backend, uint32_t host, uint32_t by);
void orr__x_host_spend(struct orr_backend *backend, uint32_t host, int64_t ns);
void orr__x_host_concerns(struct orr_backend *backend, uint32_t host, uint64_t thing);
enum orr_status orr__x_host_access(struct orr_backend *backend, const struct orr_command *command,
                                   struct orr_error *error);
/* Everything that is enabled happens, though nobody waits for it. */
void orr__x_drain(struct orr_untimed *x);

/* events.c: clocks, dependence, what came before what */
uint32_t orr__x_clock_join(struct orr_untimed *x, uint32_t a, uint32_t b);
struct orr__x_move orr__x_next_move(struct orr_untimed *x, uint32_t process);
bool orr__x_dependent(const struct orr_untimed *x, const struct orr__x_move *a,
                      const struct orr__x_move *b);
/* Notes that `process` makes the next step. */
void orr__x_note(struct orr_untimed *x, uint32_t process);
/* The last step was none: its host found that it has to wait. What it raced with stays noted. */
void orr__x_take_back(struct orr_untimed *x);
/* Questions whose answer is yes by now are not open any more. */
void orr__x_answer(struct orr_untimed *x);
enum orr_status orr__x_reserve(struct orr_untimed *x, void *items, size_t *capacity, size_t needed,
                               size_t size, size_t max);

/* search.c */
/* The process of the next step; ORR_ID_NONE: the execution is to be abandoned. */
uint32_t orr__x_choose(struct orr_untimed *x, uint64_t enabled);
/* The step that was chosen last was none. False: nothing else is to be tried in its place. */
bool orr__x_choice_was_vain(struct orr_untimed *x);
/* Steps `early` and `late` (the last one) could have come the other way round. */
void orr__x_raced(struct orr_untimed *x, uint32_t early, uint32_t late);
void orr__x_process_appears(struct orr_untimed *x, uint32_t process);
void orr__x_search_free(struct orr_untimed *x);

#endif
