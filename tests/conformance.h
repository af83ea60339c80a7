/* Conformance: one table of cases over the backend seam, run against every backend.
 *
 * A backend plugs in with a target (how to open it, a device spec, whether its time is virtual) and
 * two lists with a reason for each entry: cases that it does not support, which are skipped with
 * the reason, and cases that are expected to fail, which pass while they fail and fail once they
 * pass. A machine that can't have the backend (ORR_UNAVAILABLE from open) skips all, with the
 * reason.
 *
 *     static const struct conformance_target target = {.name = "cpu", .open = orr_cpu_open};
 *     int main(void) { return conformance_run(&target); }
 *
 * Every case also checks, for whatever it submits, that each command is retired exactly once, on
 * the host's thread, in the order of its stream and after all that it waited for, that its times
 * and sequence number are in order, that what the host layer filled in comes back, and that closing
 * the backend frees all memory.
 *
 * Threads: one. Kernels may run on other threads; they touch their own job and atomics only. */
#ifndef ORR_TESTS_CONFORMANCE_H
#define ORR_TESTS_CONFORMANCE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/backend.h"

struct conformance_exception {
    const char *name; /* of a case; NULL ends the list */
    const char *reason;
};

struct conformance_target {
    const char *name; /* for the report */
    orr_backend_open open;
    struct orr_device_spec spec; /* of every device; queue_depth is set by the cases */
    bool virtual_time;           /* kernels take service_ns, and `run` is called at their finish */
    /* What collectives compute is tried with up to so many ranks; 0: CONFORMANCE_DEVICES_MAX. For
     * backends whose collectives have a test of their own with more. */
    uint32_t ranks_max;
    const struct conformance_exception *unsupported, *expected_to_fail; /* may be NULL */
};

/* Runs all cases as a cmocka group; returns the number that failed. */
int conformance_run(const struct conformance_target *target);

/* --- for the files with cases -------------------------------------------------------------- */

enum {
    CONFORMANCE_DEVICES_MAX = 8,
    CONFORMANCE_SLOW_NS = 100000000, /* service of a slow kernel on a virtual clock */
    CONFORMANCE_CELLS = 64           /* int64 cells in a memory made by `cells` */
};

struct fixture;
typedef void (*conformance_function)(struct fixture *f);

struct conformance_case {
    const char *name; /* a sentence, words joined by underscores */
    conformance_function run;
};

extern const struct conformance_case conformance_order_cases[];      /* end with a NULL name */
extern const struct conformance_case conformance_host_cases[];       /* waits, records, memory */
extern const struct conformance_case conformance_failure_cases[];    /* poison, no memory */
extern const struct conformance_case conformance_collective_cases[]; /* groups */

/* What a kernel of the suite does, on cells of int64. */
enum job_kind {
    JOB_NOTHING,
    JOB_STORE,     /* *to = value */
    JOB_COPY,      /* *to = *from */
    JOB_MIX,       /* *to = *to * 3 + value, so that the order of two shows */
    JOB_CHECK,     /* the job's `seen` = *from */
    JOB_FAIL,      /* fails with a text of its own, "job N broke" */
    JOB_FAIL_MUTE, /* fails without a text */
    JOB_TALK       /* leaves a text, but does not fail */
};

struct job {
    struct fixture *f;
    enum job_kind kind;
    bool slow; /* real time: waits until the gate is open */
    int64_t value, seen;
    const int64_t *from;
    int64_t *to;
    uint64_t id;
    _Atomic int runs;
    struct orr_access accesses[2];
    struct orr_command command;
    struct job *next;
};

/* What is known of a command, by id. */
struct outcome {
    struct orr_record_command given, record;
    bool submitted, retired, has_cause;
    struct orr_point point, *waits; /* waits: owned */
    uint32_t wait_count;
    char cause[ORR_ERROR_TEXT_MAX];
};

struct stream_note {
    uint32_t device;
    uint64_t retired; /* commands handed back so far */
};

struct fixture {
    const struct conformance_target *target;
    jmp_buf out;          /* where a failed check goes */
    char failure[2048];   /* why */
    uint64_t seed, draws; /* of random cases; printed with a failure */
    pthread_t host;

    struct orr_memory memory; /* counts; fails the request when `allowances` is 0 */
    int64_t allowances;       /* < 0: never fails */
    int64_t live_blocks;

    struct orr_device_spec specs[CONFORMANCE_DEVICES_MAX];
    struct orr_backend *backend;
    const struct orr_backend_verbs *verbs;
    struct orr_error error; /* of the last call that may fail */
    uint32_t device_count;
    enum orr_runner runner;
    uint32_t depth; /* of queues; 0: the backend's default */
    bool timing_only;

    _Atomic int gate; /* 1: slow kernels may go on */
    struct job *jobs;
    struct outcome *outcomes; /* by id */
    uint64_t ids, outcome_capacity, retired_count;
    struct stream_note *streams; /* by id */
    uint32_t stream_count, stream_capacity;
};

/* Ends the case as failed, with the condition's text or with a message of its own. */
#define check(f, condition)                                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            conformance_fail(f, __FILE__, __LINE__, "%s", #condition);                             \
    } while (0)
#define check_text(f, condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            conformance_fail(f, __FILE__, __LINE__, __VA_ARGS__);                                  \
    } while (0)
_Noreturn void conformance_fail(struct fixture *f, const char *file, int line, const char *format,
                                ...) __attribute__((format(printf, 4, 5)));

/* Opens the backend with `device_count` devices and the fixture's other settings. */
void conformance_open(struct fixture *f, uint32_t device_count);
/* As conformance_open, but returns what open does. */
enum orr_status conformance_try_open(struct fixture *f, uint32_t device_count);
/* Opens the gate, closes the backend, checks that everything has retired and nothing leaks. */
void conformance_close(struct fixture *f);
/* The gate of slow kernels; a case that leaves it closed has it opened at its end. */
void conformance_open_gate(struct fixture *f);

uint32_t conformance_stream(struct fixture *f, uint32_t device);
/* Whose memory a case uses where it looks at the bytes itself, and its kernels are host code: the
 * device's, or pinned memory of the host if the host can't reach that. */
uint32_t conformance_memory_of(const struct fixture *f, uint32_t device);
/* Such memory of CONFORMANCE_CELLS cells, all 0 and defined. Its id is in *out_memory unless NULL.
 */
int64_t *conformance_cells(struct fixture *f, uint32_t device, uint32_t *out_memory);
/* Marks bytes that the host wrote as written. */
void conformance_define(struct fixture *f, uint32_t memory, uint64_t offset, uint64_t bytes);

/* A kernel without operands: fresh id, quick, ready to be submitted. Freed at the end. */
struct job *conformance_job(struct fixture *f, enum job_kind kind);
/* Its operands: cells of memories. `pointer` is the start of the memory. */
void conformance_reads(struct job *job, uint32_t memory, const int64_t *pointer, uint32_t cell);
void conformance_writes(struct job *job, uint32_t memory, int64_t *pointer, uint32_t cell);

/* Submits and expects ORR_OK; returns the point. */
struct orr_point conformance_submit(struct fixture *f, uint32_t stream, struct job *job,
                                    const struct orr_point *waits, uint32_t wait_count);
/* Submits, whatever comes of it. */
enum orr_status conformance_try_submit(struct fixture *f, uint32_t stream, struct job *job,
                                       const struct orr_point *waits, uint32_t wait_count,
                                       struct orr_point *out_point);
/* Shorthands: a job without operands, quick or slow, of any command kind. */
struct orr_point conformance_quick(struct fixture *f, uint32_t stream,
                                   const struct orr_point *waits, uint32_t wait_count);
struct orr_point conformance_slow(struct fixture *f, uint32_t stream, const struct orr_point *waits,
                                  uint32_t wait_count);
struct orr_point conformance_kind(struct fixture *f, uint32_t stream, enum orr_command_kind kind,
                                  const struct orr_point *waits, uint32_t wait_count);

/* For submits that a case makes itself: fills stream and device and notes what is given, before the
 * call; notes that the command was accepted as `point`, after it. */
void conformance_announce(struct fixture *f, struct orr_command *command, uint32_t stream,
                          const struct orr_point *waits, uint32_t wait_count);
void conformance_submitted(struct fixture *f, const struct orr_command *command,
                           struct orr_point point);

/* Waits for one point without limit, expects ORR_OK. */
void conformance_wait(struct fixture *f, struct orr_point point);
enum orr_status conformance_query(struct fixture *f, struct orr_point point);
/* The record and more of a retired command, found by its point. */
const struct outcome *conformance_outcome(struct fixture *f, struct orr_point point);
const struct orr_record_command *conformance_record(struct fixture *f, struct orr_point point);
enum orr_command_status conformance_status(struct fixture *f, struct orr_point point);

/* A number below `bound` from the fixture's seed. */
uint32_t conformance_draw(struct fixture *f, uint32_t bound);

#endif
