/* When commands ran on a GPU: device times, in the host's clock.
 *
 * Three sources, the best first; which one a command's start and finish are from stands in its
 * record (enum orr_ts_source):
 *
 *     CUPTI    records of what the GPU did, one for each kernel and copy. The id of our command is
 *              pushed around its enqueueing, so that its records are found again; several kernels
 *              make one interval.
 *     events   CUDA events: one recorded behind the command (the backend has it anyhow, to see that
 *              the command is done), and one before it if the stream may have been idle. In a busy
 *              stream a command starts when all before it has finished. Resolution about 0.5 us
 *              (cuda_runtime_api.h, cudaEventElapsedTime).
 *     host     when the host learned of it.
 *
 *     orr__cuda_times_begin(times, &slot->stamp, gpu, stream, busy);    behind the stream's waits
 *     ... kernels ...
 *     orr__cuda_times_end(times, &slot->stamp);
 *     cudaEventRecord(slot->done, stream);              created with orr__cuda_times_event_flags()
 *     ...
 *     once cudaEventQuery(slot->done) says so:
 *     orr__cuda_times_resolve(times, &slot->stamp, slot->done, &bounds, must, &record);
 *
 * What happened on the host is known better than what a second clock says of it, so measured times
 * are clamped: enqueue <= start <= finish <= when the host saw the end, and a start is no earlier
 * than the finish of what the command waited for. Clamps are counted, those beyond the uncertainty
 * of the clocks as inversions. A command whose records were lost gets its times from the next best
 * source, which its record says; losses are counted and told.
 *
 * Threads: the host's thread. CUPTI calls back from threads of its own; that stays in here. */
#ifndef ORR_RUNTIME_CUDA_TIMES_H
#define ORR_RUNTIME_CUDA_TIMES_H

#include "runtime/cuda/api.h"
#include "runtime/cuda/plugin.h"
#include "runtime/memory.h"
#include "runtime/record.h"

struct orr__cuda_times;

/* What a command's times will be read from; lies in the command's slot, does not move between begin
 * and resolve, and is all zeros for commands that run no kernel: waits, records, markers. */
struct orr__cuda_stamp {
    uint64_t ticket;   /* where CUPTI's records are gathered; 0: nowhere */
    cudaEvent_t began; /* NULL: none was recorded */
    uint32_t gpu;      /* its index, + 1; 0: nothing ran on a GPU */
    uint32_t origin;   /* event that times are measured from: 1 + its index; 0 none */
    bool arrives;      /* member of a collective: starts when it has arrived */
    bool on_host;      /* a host function, which writes these: */
    int64_t host_start_ns, host_finish_ns; /* as orr__cuda_times_now */
};

/* What the host knows of a command, ns since open; ORR_TIME_NONE where there is no such thing. */
struct orr__cuda_bounds {
    int64_t enqueue_ns, enqueued_ns; /* the host's call began, returned */
    int64_t before_ns;               /* finish of the command before it in its stream */
    int64_t awaited_ns;              /* latest finish of what it waited for */
    /* A time at which it was known to be done. CUPTI is asked once for all commands of one such
     * time: of those that are found done together it should be the same. */
    int64_t observed_ns;
};

/* Counts of a run. */
struct orr__cuda_times_counts {
    uint64_t sources[ORR_TS_SOURCE_COUNT]; /* commands by the source of their times */
    uint64_t dropped;                      /* records that CUPTI says it has lost */
    uint64_t missing;                      /* commands that ended without all their records */
    uint64_t late;                   /* records that came when their command had been handed back */
    uint64_t failed;                 /* calls for times that failed: `reason` has the first one */
    uint64_t clamped;                /* commands with a time that had to be moved */
    uint64_t inversions;             /* of these, further than the clocks' uncertainty */
    uint64_t checked, disagreements; /* commands with times of two sources; that differ too much */
    int64_t clock_error_ns;          /* half the widest bracket around an origin event; 0 none */
    int64_t overhead_ns;             /* what CUPTI says it has cost */
    uint64_t origins, flushes;
};

/* Sets the source up. Called once the driver is known to be there, and before anything creates a
 * context: CUPTI wants to be first. With AUTO a source that can't be had is passed over, and
 * `reason` says why; else ORR_UNAVAILABLE. BOTH: CUPTI's times, compared with those of events.
 * Times are ns since this call. Borrows api and memory until close. */
enum orr_status orr__cuda_times_open(struct orr__cuda_api *api, enum orr_cuda_timestamps wanted,
                                     const struct orr_memory *memory,
                                     struct orr__cuda_times **out_times,
                                     struct orr_error *error) ORR_MUST_CHECK;
/* Nulls; accepts NULL. Nothing is in flight any more. */
void orr__cuda_times_close(struct orr__cuda_times **times);

/* The source in use: ORR_TS_CUPTI, ORR_TS_EVENT or ORR_TS_HOST. */
enum orr_ts_source orr__cuda_times_source(const struct orr__cuda_times *times);
/* Why it is not a better one, or the first call that failed since; "" if all is well. Borrowed
 * until close. */
const char *orr__cuda_times_reason(const struct orr__cuda_times *times);
const struct orr__cuda_times_counts *orr__cuda_times_counts(const struct orr__cuda_times *times);

/* What is worth knowing of all this, as rows of the trace's table meta: "timestamps" (the source),
 * "timestamps_warning" if commands went without it, and counts that are not 0. */
void orr__cuda_times_notes(const struct orr__cuda_times *times, orr_backend_note note,
                           void *context);

/* The host's clock, ns since open. From any thread. */
int64_t orr__cuda_times_now(const struct orr__cuda_times *times);

/* For cudaEventCreateWithFlags of the events that commands' ends are seen by. */
unsigned orr__cuda_times_event_flags(const struct orr__cuda_times *times);

/* Around the enqueueing of a command's kernels and copies, with its GPU current, behind the waits
 * of its stream. `busy`: the command before it in its stream has not been seen to be done. They
 * can't fail: without its stamp a command has its times from the next best source. Not nested. */
void orr__cuda_times_begin(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp,
                           uint32_t gpu, cudaStream_t stream, bool busy);
void orr__cuda_times_end(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp);

/* Instead of both, for a node of a CUDA graph: its time is that of an event which the graph records
 * behind it, given to resolve as `done`. CUPTI's records of graphs are not asked for. */
void orr__cuda_times_replayed(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp,
                              uint32_t gpu);

/* The same around the kernels of a collective, for all its members. They start when they have
 * arrived, and finish together: with the last of its kernels (CUPTI), or each by its own event. */
void orr__cuda_times_begin_group(struct orr__cuda_times *times,
                                 struct orr__cuda_stamp *const *stamps, const uint32_t *gpus,
                                 uint32_t count);
void orr__cuda_times_end_group(struct orr__cuda_times *times, struct orr__cuda_stamp *const *stamps,
                               uint32_t count);

/* Fills start_ns and finish_ns of a record whose command is done, and says from where they are.
 * Frees what the stamp holds. `done` is the event behind the command, NULL: none. `must` false: may
 * answer ORR_NOT_READY if CUPTI has not handed its records over yet (it hands them over in
 * buffers); true: asks CUPTI for them, and takes the next best source if it still lacks some. */
enum orr_status orr__cuda_times_resolve(struct orr__cuda_times *times,
                                        struct orr__cuda_stamp *stamp, cudaEvent_t done,
                                        const struct orr__cuda_bounds *bounds, bool must,
                                        struct orr_record_command *record,
                                        enum orr_ts_source *out_source) ORR_MUST_CHECK;
/* Asks CUPTI for the records that it has by now; does nothing with other sources. */
void orr__cuda_times_flush(struct orr__cuda_times *times);
/* For a command that was not run: frees what the stamp holds. */
void orr__cuda_times_discard(struct orr__cuda_times *times, struct orr__cuda_stamp *stamp);

#endif
