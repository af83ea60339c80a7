/* A backend whose commands end when the test says so: "not done before advance, done after".
 *
 * Nothing happens by itself. The test finishes commands one by one, fails them, or lets a wait do
 * it; it can make queues full, hosts blocked, and waits hang. So the host layer is tested alone, at
 * every point of a command's life. In the spirit of the mock scheduler of the Linux kernel's
 * drm_sched tests.
 *
 *     struct orr_runtime_config config = {.open = manual_open, ...};
 *     orr_runtime_create(&config, &runtime, &error);
 *     struct manual_backend *manual = manual_of(runtime);
 *     orr_stream_kernel(stream, &kernel, NULL);
 *     assert_int_equal(orr_stream_query(stream), ORR_NOT_READY);
 *     manual_finish(manual, 0);
 *     assert_int_equal(orr_stream_query(stream), ORR_OK);
 *
 * The clock counts verbs: each one takes 1 ns. Groups start together. Memory is real.
 *
 * Threads: one. */
#ifndef ORR_TESTS_MANUAL_BACKEND_H
#define ORR_TESTS_MANUAL_BACKEND_H

#include "runtime/backend.h"
#include "runtime/runtime.h"

enum {
    MANUAL_STREAMS_MAX = 32,
    MANUAL_QUEUE_MAX = 64,
    MANUAL_WAITS_MAX = 8,
    MANUAL_MEMORIES_MAX = 64
};

struct manual_command {
    struct orr_command command;
    struct orr_point waits[MANUAL_WAITS_MAX];
    uint32_t wait_count;
    uint64_t group; /* serial of its group, 0 none */
};

struct manual_stream {
    struct manual_command queue[MANUAL_QUEUE_MAX]; /* the head first */
    uint32_t count;
    uint64_t submitted, retired, failed_seq;
};

struct manual_memory {
    void *block;
    uint64_t bytes;
    uint64_t undefine_offset, undefine_bytes; /* of the last memory_undefine */
    uint32_t undefine_stream;
    uint32_t undefines;
    bool live;
};

struct manual_backend {
    struct orr_backend base;
    struct orr_backend_config config;
    struct orr_error failure; /* the first */
    struct manual_stream *streams;
    struct manual_memory *memories;
    uint32_t stream_count, memory_count, memories_live;
    uint64_t groups;
    int64_t now_ns;

    /* What the test may set. */
    uint32_t depth;        /* commands that a stream holds before it is full */
    uint32_t block_acts;   /* so many acting calls answer ORR_BLOCKED */
    bool block_waits;      /* waits that are not over answer ORR_BLOCKED instead of finishing */
    bool retire_in_submit; /* a command that can run retires within its own submit */
    bool hang;             /* waits that are not over answer ORR_DEVICE_FAILED */
};

/* See orr_backend_open; `queue_depth` of the first spec is the depth. */
enum orr_status manual_open(const struct orr_backend_config *config,
                            struct orr_backend **out_backend, struct orr_error *error);

/* The backend under a runtime that was opened with manual_open. */
struct manual_backend *manual_of(struct orr_runtime *runtime);

/* Ends the head of a stream (and with a member of a group all others). False if there is none, or
 * it waits. */
bool manual_finish(struct manual_backend *manual, uint32_t stream);

/* The same, but the device fails it. */
bool manual_fail(struct manual_backend *manual, uint32_t stream, const char *text);

/* Ends everything that can end, the lowest stream first. */
void manual_finish_all(struct manual_backend *manual);

#endif
