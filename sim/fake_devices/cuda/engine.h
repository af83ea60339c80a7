/* What runs the streams of the fake CUDA devices: a small seam with two engines behind it.
 *
 * A work is a task in a stream. Works of a stream run one after another; a work waits for others,
 * of any stream, that it names. That is all an engine knows of CUDA.
 *
 *     simulated   the simulator: a stream of it for each stream, durations as the work says; what a
 *                 work does happens when it finishes, within a call of the host
 *     threads     a thread for each stream; durations are what they are
 *
 * The thread engine is made for ThreadSanitizer: it orders what streams and waits order, and
 * nothing else. Works are handed to a thread by a semaphore that only the host posts; a finished
 * work says so in a word of its own, stored with release and read with acquire by whoever waits for
 * exactly this one. There is no lock, and the host reclaims a work only after it has read that
 * word, so that neither the host's calls nor the memory of works orders two streams by accident.
 *
 * Threads: verbs from the host's thread. `run` of a task: on the stream's thread. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_ENGINE_H
#define ORR_SIM_FAKE_DEVICES_CUDA_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"

struct orr__fake_work;
struct orr__fake_stream;

enum orr__fake_kind {
    ORR__FAKE_KERNEL,
    ORR__FAKE_MEMCPY,
    ORR__FAKE_MEMSET,
    ORR__FAKE_HOSTFN,
    ORR__FAKE_RECORD, /* of an event */
    ORR__FAKE_WAIT,   /* for works of other streams */
    ORR__FAKE_OTHER
};

/* What a stream is to do. */
struct orr__fake_task {
    enum orr__fake_kind kind;
    const char *name; /* a kernel's, as the CUDA tools would show it; static. NULL: none */
    /* NULL: nothing. `argument` is the work's copy, aligned to 16 bytes. Must not call CUDA. */
    void (*run)(struct orr__fake_work *work, void *argument);
    const void *argument;
    size_t argument_bytes;
    int64_t duration_ns;                /* in virtual time */
    uint64_t bytes;                     /* that it moves, for records of activity */
    int copy_kind;                      /* MEMCPY: enum cudaMemcpyKind, never Default */
    uint32_t grid, block, shared_bytes; /* KERNEL */
    int fails_with; /* not 0: it does nothing, and leaves this error behind, a sticky one */
};

enum orr__fake_state { ORR__FAKE_PENDING, ORR__FAKE_DONE, ORR__FAKE_SLEPT_FOR };

/* A task in a stream. */
struct orr__fake_work {
    /* Constant once submitted. */
    struct orr__fake_task task;
    struct orr__fake_stream *stream; /* NULL once the host has collected it */
    uint32_t device, stream_id;
    uint64_t number;      /* 1, 2, ... over all streams, in order of submission */
    uint64_t correlation; /* number of the call that made it */
    uint64_t node;        /* of a graph, from 1; 0: it is of none */
    int64_t enqueue_ns;
    uint32_t wait_count;
    struct orr__fake_work **waits;
    /* The engine's, read by the host when the work is done. */
    int64_t start_ns, finish_ns;
    _Atomic uint32_t state; /* enum orr__fake_state */
    /* The engine's name of it: of the simulator's stream and command. */
    uint32_t own_stream;
    uint64_t own_seq;
    /* The host's. */
    uint32_t references;
    struct orr__fake_work *after; /* the next one of its stream */
    bool collected;
};

struct orr__fake_engine;

struct orr__fake_engine_verbs {
    void (*close)(struct orr__fake_engine *engine); /* all streams have been destroyed */
    /* What the engine keeps of a stream, in *out_own. */
    enum orr_status (*stream_create)(struct orr__fake_engine *engine, uint32_t device, uint32_t id,
                                     void **out_own, struct orr_error *error);
    void (*stream_destroy)(struct orr__fake_engine *engine, void *own); /* all is done in it */
    /* Waits for room in the stream if it has to. ORR_NO_MEMORY: nothing happened. */
    enum orr_status (*submit)(struct orr__fake_engine *engine, void *own,
                              struct orr__fake_work *work);
    bool (*done)(struct orr__fake_engine *engine, struct orr__fake_work *work);
    void (*wait)(struct orr__fake_engine *engine, struct orr__fake_work *work);
    int64_t (*now)(struct orr__fake_engine *engine);
    /* The host computes for so long; does nothing in real time. */
    void (*spend)(struct orr__fake_engine *engine, int64_t ns);
    /* The host does nothing for about so long. */
    void (*rest)(struct orr__fake_engine *engine, int64_t ns);
};

struct orr__fake_engine {
    const struct orr__fake_engine_verbs *verbs;
};

struct orr__fake_engine_config {
    const struct orr_memory *memory;
    uint32_t device_count;
    uint64_t seed;
    int64_t jitter_ns;
    /* Set once a device has found an error: works behind it do nothing. */
    _Atomic int *device_error;
    bool *inside; /* set while a work runs on the host's thread */
};

enum orr_status orr__fake_engine_simulated(const struct orr__fake_engine_config *config,
                                           struct orr__fake_engine **out_engine,
                                           struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__fake_engine_threads(const struct orr__fake_engine_config *config,
                                         struct orr__fake_engine **out_engine,
                                         struct orr_error *error) ORR_MUST_CHECK;

/* Does what the work says, for engines. */
void orr__fake_work_run(struct orr__fake_work *work, _Atomic int *device_error);

#endif
