/* Fake CUDA: the entry points of runtime/cuda/api.h without a GPU, so that the CUDA backend's host
 * logic is tested everywhere.
 *
 * Streams, events, memory, graphs and the libraries behave as NVIDIA's documentation says; kernels
 * are the backend's own sources, compiled for the CPU (emulate.h). What runs the streams is an
 * engine:
 *
 *     ORR_FAKE_SIMULATED   virtual time on the simulator: exact, the same in every run
 *     ORR_FAKE_THREADS     a thread for each stream, in real time: what is not ordered by streams
 *                          and events is a data race, which ThreadSanitizer reports
 *
 *     struct orr_fake_cuda_options options = {.engine = ORR_FAKE_SIMULATED, .gpu_count = 2};
 *     orr_fake_cuda_open(&options, &memory, &fake, &error);
 *     orr__cuda_open(orr_fake_cuda_api(fake), &config, &backend, &error);
 *     ... backend->verbs->close(backend); orr_fake_cuda_close(&fake);
 *
 * What a fake cannot show: that device code runs on a GPU, cuBLAS's choices, real times and limits
 * of concurrency, CUPTI's own behaviour, errors that a GPU finds by itself.
 *
 * CUDA's functions have no context argument: one fake at a time can be open in a process, as there
 * is one CUDA runtime.
 *
 * Threads: entry points from one thread, as the backend calls them. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_FAKE_CUDA_H
#define ORR_SIM_FAKE_DEVICES_CUDA_FAKE_CUDA_H

#include "runtime/cuda/api.h"
#include "runtime/memory.h"

enum orr_fake_engine { ORR_FAKE_SIMULATED, ORR_FAKE_THREADS };

/* Values of driver_version, besides versions as 13000 and 0, that of the toolkit's headers. */
enum {
    ORR_FAKE_NO_DRIVER = -1,
    ORR_FAKE_STUB_DRIVER = -2, /* the toolkit's, for linking only */
    ORR_FAKE_NO_GPU = -3       /* a driver, but no GPU is visible */
};

/* Zeros are the defaults. */
struct orr_fake_cuda_options {
    enum orr_fake_engine engine;
    uint32_t gpu_count;    /* 0: 1 */
    uint64_t memory_bytes; /* of each GPU; 0: 16 GiB */
    int driver_version;    /* see above */
    uint64_t seed;         /* of delays and of the order in which graphs run their nodes */
    int64_t jitter_ns;     /* each work waits up to so long before it starts */
    bool block_threads;    /* kernels run with all threads of a block; else with one */
    bool no_blas, no_nccl, no_cupti; /* these libraries are "not installed" */
    uint64_t cupti_drops;            /* so many of its records are lost */
    /* Calls that fail: "function:nth:code[,...]", "cudaMalloc:3:2"; with "!" behind it the error
     * is sticky: every later call returns it. The code is the library's own. A function that
     * destroys something has done so also when it fails, so that the census tells who cleans up.
     * With a kernel's name its nth launch fails on the GPU: sticky, and heard of later. Borrowed
     * for the call. */
    const char *faults;
    /* If there: nothing works but what needs no device, every other call of the CUDA runtime fails
     * with cudaErrorInitializationError, and that error's text is this. Borrowed for the fake's
     * life. */
    const char *refusal;
};

struct orr_fake_cuda;

/* ORR_INVALID for a fault plan that is none, or if a fake is open already; ORR_NO_MEMORY. */
enum orr_status orr_fake_cuda_open(const struct orr_fake_cuda_options *options,
                                   const struct orr_memory *memory, struct orr_fake_cuda **out_fake,
                                   struct orr_error *error) ORR_MUST_CHECK;
/* Nulls; accepts NULL. What the caller has left undone (memory, streams, events, graphs) is freed.
 * */
void orr_fake_cuda_close(struct orr_fake_cuda **fake);

/* The table, filled. Borrowed until close. */
struct orr__cuda_api *orr_fake_cuda_api(struct orr_fake_cuda *fake);

/* What is alive: 0 of each once a program has cleaned up behind itself. */
struct orr_fake_cuda_census {
    uint64_t allocations, host_allocations, streams, events, graphs, libraries, pools, handles,
        communicators;
};
struct orr_fake_cuda_census orr_fake_cuda_census(const struct orr_fake_cuda *fake);

/* How often a function has been called, by its name; for tests. */
uint64_t orr_fake_cuda_calls(const struct orr_fake_cuda *fake, const char *function);

#endif
