/* Private to the times*.c of this folder: where device times come from.
 *
 *     times.c           which source, what is done with measured times
 *     times_clock.c     events, and a GPU's clock in terms of the host's
 *     times_cupti.c     CUPTI: set-up, buffers, records
 *     times_activity.c  which records belong to which command
 *
 * Threads: the host's, but for CUPTI's callbacks in times_cupti.c. */
#ifndef ORR_RUNTIME_CUDA_TIMES_INTERNAL_H
#define ORR_RUNTIME_CUDA_TIMES_INTERNAL_H

#include "runtime/cuda/times.h"

/* --- times_clock.c --- */

/* An event on a GPU whose time on the host's clock is known. */
struct orr__cuda_origin {
    cudaEvent_t event;
    int64_t host_ns; /* since open */
};

/* A GPU's clock. */
struct orr__cuda_clock {
    bool broken;         /* a call failed: it has no clock */
    cudaStream_t stream; /* for origins alone; NULL: nothing is open yet */
    struct orr__cuda_origin *origins;
    size_t origin_count, origin_capacity;
    cudaEvent_t *idle; /* events with timing that nobody uses */
    size_t idle_count, idle_capacity;
    size_t event_count; /* that exist, idle or not, besides origins; idle has room for them all */
};

/* The number of the newest origin of a GPU, the current one; takes a new one if that is too old. 0:
 * it has no clock. */
uint32_t orr__cuda_clock_origin(struct orr__cuda_times *times, uint32_t gpu);
/* An event recorded in a stream of a GPU that has a clock; NULL if that failed. Given back by
 * orr__cuda_clock_give. */
cudaEvent_t orr__cuda_clock_record(struct orr__cuda_times *times, uint32_t gpu,
                                   cudaStream_t stream);
void orr__cuda_clock_give(struct orr__cuda_times *times, uint32_t gpu, cudaEvent_t event);
/* When an event that has happened did so, in ns since open. */
bool orr__cuda_clock_read(struct orr__cuda_times *times, uint32_t gpu, uint32_t origin,
                          cudaEvent_t event, int64_t *out_ns);
/* Gives everything back. */
void orr__cuda_clocks_close(struct orr__cuda_times *times);

/* --- times_activity.c --- */

/* The requests for buffers that a command's records may be in, where that may be several; last 0:
 * all are in one. */
struct orr__cuda_split {
    uint64_t first, last;
};

/* What ran for one command, or for one collective of several: an entry, named by its ticket. */
struct orr__cuda_entry {
    uint64_t start_ns, finish_ns; /* CUPTI's clock */
    struct orr__cuda_split split;
    uint32_t generation;        /* of the ticket */
    uint32_t users;             /* commands that will read it; 0: it is free */
    uint32_t expected, arrived; /* calls that were linked to it; records of what they ran */
    uint32_t calls;             /* 1 + the first of them; 0 none */
    bool untimed;               /* a record had no times, or may be lost */
};

/* A call that launched or copied something, by CUPTI's correlation id. */
struct orr__cuda_call {
    uint64_t start_ns, finish_ns;
    uint32_t correlation;
    uint32_t next;    /* 1 + the next in its bucket, or in the list of free ones */
    uint32_t sibling; /* 1 + the next of the same entry */
    uint32_t entry;   /* 1 + its entry; 0: nobody waits for it */
    bool linked, ran; /* the record that links it, and that of what it ran, are there */
    bool late;        /* its command has been handed back */
};

struct orr__cuda_activities {
    const struct orr_memory *memory;
    struct orr__cuda_entry *entries;
    size_t entry_count, entry_capacity;
    uint32_t *free_entries;
    size_t free_count, free_capacity;
    struct orr__cuda_call *calls;
    size_t call_count, call_capacity;
    uint32_t free_calls;
    uint32_t *buckets; /* 1 + first call; a power of two of them */
    size_t bucket_count;
    uint64_t late; /* records that came when their command had been handed back */
};

/* A new entry that `users` commands will take from; 0: no memory. */
uint64_t orr__cuda_activities_begin(struct orr__cuda_activities *activities, uint32_t users);
/* What ran for every call that is linked so far is known, and together that is an interval. There
 * may be more calls to come if the records are split over buffers. */
bool orr__cuda_activities_complete(const struct orr__cuda_activities *activities, uint64_t ticket,
                                   uint64_t *out_start_ns, uint64_t *out_finish_ns,
                                   struct orr__cuda_split *out_split);
void orr__cuda_activities_split(struct orr__cuda_activities *activities, uint64_t ticket,
                                uint64_t first, uint64_t last);
/* Records were lost, and nobody knows whose: no entry of now will be complete. */
void orr__cuda_activities_distrust(struct orr__cuda_activities *activities);
/* A user needs the entry no longer. */
void orr__cuda_activities_end(struct orr__cuda_activities *activities, uint64_t ticket);
/* Call `correlation` was made for a ticket; 0: for nobody. ORR_NO_MEMORY: the record is lost. */
enum orr_status orr__cuda_activities_link(struct orr__cuda_activities *activities,
                                          uint32_t correlation, uint64_t ticket);
/* What it launched ran so long; start 0: nobody knows when. */
enum orr_status orr__cuda_activities_ran(struct orr__cuda_activities *activities,
                                         uint32_t correlation, uint64_t start_ns,
                                         uint64_t finish_ns);
void orr__cuda_activities_close(struct orr__cuda_activities *activities);

/* --- times_cupti.c --- */

struct orr__cuda_cupti;

/* Takes CUPTI into use. ORR_UNAVAILABLE and the reason if it can't be had; ORR_NO_MEMORY. */
enum orr_status orr__cuda_cupti_open(struct orr__cuda_times *times,
                                     struct orr__cuda_cupti **out_cupti, struct orr_error *error);
void orr__cuda_cupti_close(struct orr__cuda_cupti **cupti);
/* What the calling thread launches from now on belongs to `users` commands. 0: it can't be told. */
uint64_t orr__cuda_cupti_begin(struct orr__cuda_cupti *cupti, uint32_t users);
/* No longer. */
void orr__cuda_cupti_end(struct orr__cuda_cupti *cupti, uint64_t ticket);
/* Asks CUPTI for what it has, and takes it. */
void orr__cuda_cupti_flush(struct orr__cuda_cupti *cupti);
/* Whether all records of a ticket are there. `must`: CUPTI is asked for what it still holds, unless
 * it was since observed_ns, when the work was done. Times in ns since open. */
bool orr__cuda_cupti_read(struct orr__cuda_cupti *cupti, uint64_t ticket, int64_t observed_ns,
                          bool must, int64_t *out_start_ns, int64_t *out_finish_ns);
void orr__cuda_cupti_release(struct orr__cuda_cupti *cupti, uint64_t ticket);

/* --- times.c --- */

struct orr__cuda_times {
    struct orr__cuda_api *api;
    const struct orr_memory *memory;
    enum orr_ts_source source;
    bool both;
    int64_t base_ns; /* of the host's clock, at open */
    char reason[ORR_ERROR_TEXT_MAX];
    struct orr__cuda_times_counts counts;
    struct orr__cuda_clock *clocks; /* by GPU */
    size_t clock_capacity;
    struct orr__cuda_cupti *cupti; /* NULL: not in use */
};

/* A call for times failed: counts it, and keeps the first one's text. */
void orr__cuda_times_failed(struct orr__cuda_times *times, const char *text);
/* The same for a call of CUDA; true if it did not fail. */
bool orr__cuda_times_worked(struct orr__cuda_times *times, cudaError_t code, const char *call);

#endif
