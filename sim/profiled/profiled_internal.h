/* Private to sim/profiled: the two backends in one, and the table of what was measured. */
#ifndef ORR_SIM_PROFILED_PROFILED_INTERNAL_H
#define ORR_SIM_PROFILED_PROFILED_INTERNAL_H

#include "sim/profiled/profiled.h"

/* --- durations.c: the shortest time of each kind of command --- */

struct profiled_duration {
    uint32_t name; /* 0 and kind 0: a free place */
    uint16_t kind, dtype;
    uint64_t flops, bytes_read, bytes_written;
    int64_t ns;
};

struct profiled_durations {
    const struct orr_memory *memory;
    struct profiled_duration *places; /* open addressing; capacity is a power of two, or 0 */
    size_t count, capacity;
};

/* The entry of a command's kind, made with ns ORR_TIME_MAX if it is new; NULL without memory. Valid
 * until the next call. */
struct profiled_duration *orr__profiled_duration(struct profiled_durations *durations,
                                                 const struct orr_record_command *record);
void orr__profiled_durations_clear(struct profiled_durations *durations);

/* --- measure.c --- */

/* What a host has begun: the simulator may tell it to come again with the same call, and a command
 * must not run twice. */
struct profiled_memo {
    bool done;
    int64_t ns;
    uint32_t name, stream; /* of the call */
};

/* A command on the inner machine. */
struct profiled_job {
    const struct orr_command *outer;
    orr_command_describe describe;    /* of the host layer */
    struct orr_record_command record; /* once retired */
    bool retired;
};

struct profiled {
    struct orr_backend base; /* must be first */
    const struct orr_memory *memory;
    struct orr_backend *inner, *sim;
    const struct orr_backend_verbs *on, *in; /* theirs: of inner, of sim */
    orr_command_describe describe;
    const struct orr_names *names; /* NULL: none */
    struct orr_error cause;        /* of the last inner command that failed */
    struct profiled_durations durations;
    struct profiled_memo *memos; /* by host */
    size_t memo_capacity;
    uint32_t *memory_devices; /* by memory; ORR_ID_NONE: host memory */
    size_t memory_count, memory_capacity;
    struct orr_command *commands; /* scratch of groups: */
    struct profiled_job *jobs;
    struct orr_point *points;
    uint32_t group_capacity;
    struct orr_profiled_counters counters;
};

/* Callbacks that the inner backend is opened with; the context is the struct profiled. */
void orr__profiled_retired(void *context, const struct orr_command *command,
                           const struct orr_error *error);
void orr__profiled_describe(const struct orr_command *command, struct orr_task *out_task);

/* Runs a command, or all members of a group, on the inner machine and waits. *out_ns is the service
 * time for the simulator, or -1 where its model knows better. ORR_DEVICE_FAILED with the cause. */
enum orr_status orr__profiled_run(struct profiled *profiled, const struct orr_command *command,
                                  uint32_t stream, int64_t *out_ns, struct orr_error *error);
enum orr_status orr__profiled_run_group(struct profiled *profiled, const uint32_t *streams,
                                        const struct orr_command *commands, uint32_t count,
                                        struct orr_error *error);

#endif
