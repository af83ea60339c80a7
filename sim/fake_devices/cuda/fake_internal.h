/* Private to the fake CUDA devices: what their files share, those of the fake libraries too.
 *
 * An entry point begins with ORR__FAKE_ENTER, which counts the call, charges its host, asks the
 * fault plan, and returns the error of a sticky failure; those of the CUDA runtime end with leave:
 *
 *     cudaError_t cudaStreamQuery(cudaStream_t handle) {
 *         ORR__FAKE_ENTER(cudaError_t, cudaStreamQuery);
 *         struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
 *         if (!stream)
 *             return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
 *         return orr__fake_leave(fake, orr__fake_is_idle(stream) ? cudaSuccess :
 * cudaErrorNotReady);
 *     }
 *
 * The fake libraries put work into streams with orr__fake_enqueue and order streams with
 * orr__fake_order; both know of captures. What a library keeps besides is in orr__fake_library.
 *
 *     cublasStatus_t cublasGemmEx(...) {
 *         ORR__FAKE_ENTER(cublasStatus_t, cublasGemmEx);
 *         struct orr__fake_task task = {.kind = ORR__FAKE_KERNEL, .name = "gemm", .run = multiply,
 *                                       .argument = &a, .argument_bytes = sizeof a, ...};
 *         return orr__fake_enqueue(fake, stream, &task) == cudaSuccess ? CUBLAS_STATUS_SUCCESS :
 * ...
 *
 * Threads: the host's, but for `run` of tasks. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_FAKE_INTERNAL_H
#define ORR_SIM_FAKE_DEVICES_CUDA_FAKE_INTERNAL_H

#include <pthread.h>

#include "runtime/cuda/kernels/kernels.h"
#include "sim/fake_devices/cuda/engine.h"
#include "sim/fake_devices/cuda/fake_cuda.h"

/* The open fake. Without one the shim's is opened (shim.c); NULL if that can't be. */
struct orr_fake_cuda *orr__fake_current(void);
/* Opens one by the environment; NULL, and a line on stderr, if that can't be. */
struct orr_fake_cuda *orr__fake_shim_open(void);

enum {
    ORR__FAKE_GPUS_MAX = 64,
    ORR__FAKE_FAULTS_MAX = 16,
    ORR__FAKE_SM_COUNT = 8,                   /* few, so that grids are small */
    ORR__FAKE_SHARED_BYTES = 48 << 10,        /* of a block, as the CUDA documentation has it, */
    ORR__FAKE_SHARED_BYTES_OPTIN = 227 << 10, /* and after cudaFuncSetAttribute, for 9.0 */
    ORR__FAKE_HOSTFN_NS = 1000                /* of a host function, in virtual time */
};

/* --- entry points --- */

/* ORR__FAKE_cudaMalloc, ...: every function of the five tables, as the lists write it. */
enum orr__fake_function {
#define ORR__FAKE_FUNCTION_ENUM(function) ORR__FAKE_##function,
    ORR__CUDA_RUNTIME_LIST(ORR__FAKE_FUNCTION_ENUM) /* */
    ORR__CUDA_BLAS_LIST(ORR__FAKE_FUNCTION_ENUM)    /* */
    ORR__CUDA_BLASLT_LIST(ORR__FAKE_FUNCTION_ENUM)  /* */
    ORR__CUDA_NCCL_LIST(ORR__FAKE_FUNCTION_ENUM)    /* */
    ORR__CUDA_CUPTI_LIST(ORR__FAKE_FUNCTION_ENUM)   /* */
    ORR__FAKE_FUNCTION_COUNT
#undef ORR__FAKE_FUNCTION_ENUM
};

/* Declares `fake`, and returns from the function if the call fails by plan, or by a sticky error.
 * */
#define ORR__FAKE_ENTER(type, function)                                                            \
    struct orr_fake_cuda *fake = NULL;                                                             \
    int fault = orr__fake_enter(ORR__FAKE_##function, &fake);                                      \
    if (fault)                                                                                     \
    return (type)fault

/* The code that the call has to return, or 0. *out_fake is the open one; if there is none, or the
 * caller must not call, it is NULL and the code not 0. A function that destroys something calls
 * this itself: it does its work, and then returns the code, because an error must not keep programs
 * from cleaning up. */
int orr__fake_enter(enum orr__fake_function function, struct orr_fake_cuda **out_fake);

/* The end of a function of the CUDA runtime: keeps the error for cudaGetLastError, tells the
 * observer of the call. Returns `code`. */
cudaError_t orr__fake_leave(struct orr_fake_cuda *fake, cudaError_t code);

/* False on the threads of streams, and in host functions: those must not call CUDA. */
bool orr__fake_may_call(const struct orr_fake_cuda *fake);
/* The error that a device has found by now, or cudaSuccess. */
cudaError_t orr__fake_found(struct orr_fake_cuda *fake);

/* --- the fake itself --- */

struct orr__fake_fault {
    uint32_t function; /* of enum orr__fake_function; behind them, enum orr__cuda_kernel */
    uint64_t nth;
    int code;
    bool sticky;
};

/* A function's name, as in lists and after expansion (cublasCreate and cublasCreate_v2). */
const char *orr__fake_function_text(enum orr__fake_function function);
const char *orr__fake_function_symbol(enum orr__fake_function function);
enum orr__cuda_library orr__fake_function_library(enum orr__fake_function function);

/* Reads a fault plan; ORR_INVALID names what is wrong with it. */
enum orr_status orr__fake_faults_parse(const char *text, struct orr__fake_fault *out_faults,
                                       uint32_t *out_count, struct orr_error *error) ORR_MUST_CHECK;

/* A call of an entry point that returned, for records of activity. */
struct orr__fake_called {
    enum orr__fake_function function;
    uint64_t correlation;
    int64_t begin_ns, end_ns;
    int code;
};

/* Who hears of everything: the fake CUPTI. Any may be NULL. */
struct orr__fake_observer {
    void (*called)(void *context, const struct orr__fake_called *called); /* CUDA runtime only */
    void (*enqueued)(void *context, const struct orr__fake_work *work);
    /* When the host has learned that it is done; the works of a stream in order. */
    void (*finished)(void *context, const struct orr__fake_work *work);
    void *context;
};

/* State of a fake library. */
struct orr__fake_library {
    void *state;
    void (*close)(struct orr_fake_cuda *fake, void *state);
};

struct orr__fake_blocks;
struct orr__fake_pool;
struct orr__fake_code;
struct orr__fake_event;
struct orr__fake_capture;
struct orr__fake_graph;
struct orr__fake_exec;

struct orr_fake_cuda {
    struct orr_fake_cuda_options options;
    const struct orr_memory *memory;
    struct orr__cuda_api api;
    struct orr__fake_engine *engine;
    struct orr_fake_cuda_census census;
    struct orr__fake_library libraries[ORR__CUDA_LIBRARIES];
    struct orr__fake_observer observer;

    uint64_t calls[ORR__FAKE_FUNCTION_COUNT];
    uint64_t launches[ORR__K_COUNT];
    struct orr__fake_fault faults[ORR__FAKE_FAULTS_MAX];
    uint32_t fault_count;
    int sticky[ORR__CUDA_LIBRARIES]; /* errors that every later call returns */
    _Atomic int device_error;        /* one that a device has found, sticky too */
    cudaError_t last_error;
    struct orr__fake_called call; /* the one under way */

    pthread_t host; /* the thread that may call */
    bool inside;    /* a work is being run on it */

    int device;                       /* current */
    struct orr__fake_stream *streams; /* in order of creation, the destroyed ones too */
    uint32_t next_stream;
    uint64_t correlation, works;
    uint64_t random;                 /* state of a splitmix generator */
    struct orr__fake_blocks *blocks; /* fake_memory.c */
    struct orr__fake_pool *pools;
    struct orr__fake_event *events; /* destroyed ones too */
    struct orr__fake_event *events_destroyed, *events_destroyed_last;
    uint64_t events_made, events_resting;
    struct orr__fake_capture *captures; /* those under way */
    uint64_t captures_made;
    struct orr__fake_graph *graphs;
    struct orr__fake_exec *execs;
    struct orr__fake_code *codes; /* loaded libraries of kernels */
};

/* State of a library, zeroed when first asked for; NULL without memory. `close` (NULL: nothing to
 * do) is called before the memory of the state is freed. */
void *orr__fake_library(struct orr_fake_cuda *fake, enum orr__cuda_library library, size_t bytes,
                        void (*close)(struct orr_fake_cuda *fake, void *state));

/* --- streams and works --- */

struct orr__fake_stream {
    struct orr_fake_cuda *fake;
    struct orr__fake_stream *next;
    uint32_t id, device;
    int priority;
    bool destroyed; /* by the program; freed once its work is done */
    bool hidden;    /* a graph's */
    void *own;      /* the engine's */
    /* Not collected yet, in order; and the last one submitted, or NULL. */
    struct orr__fake_work *first, *last, *tail;
    /* NULL, or what is captured here, and the nodes that the next one has to come after. */
    struct orr__fake_capture *capture;
    uint32_t *frontier;
    size_t frontier_count, frontier_capacity;
    uint32_t branch;
};

/* NULL if the handle is none of a stream that is alive. The legacy default stream is none. */
struct orr__fake_stream *orr__fake_stream_find(struct orr_fake_cuda *fake, cudaStream_t handle);
/* Also used for graphs' own streams. */
cudaError_t orr__fake_stream_make(struct orr_fake_cuda *fake, uint32_t device, int priority,
                                  struct orr__fake_stream **out_stream);
void orr__fake_stream_end(struct orr_fake_cuda *fake, struct orr__fake_stream *stream);

/* Appends a task to a stream, or to the graph that it is captured into. cudaErrorMemoryAllocation
 * if the host has no memory; errors of captures. */
cudaError_t orr__fake_enqueue(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                              const struct orr__fake_task *task) ORR_MUST_CHECK;

/* What comes later in `after` waits for what is in `before` now. Also in captures. */
cudaError_t orr__fake_order(struct orr_fake_cuda *fake, struct orr__fake_stream *before,
                            struct orr__fake_stream *after) ORR_MUST_CHECK;

/* Appends a task to a stream whatever is captured. `out_work` NULL, or a reference. */
cudaError_t orr__fake_submit(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                             const struct orr__fake_task *task, struct orr__fake_work *const *waits,
                             uint32_t wait_count, uint64_t node,
                             struct orr__fake_work **out_work) ORR_MUST_CHECK;
void orr__fake_work_hold(struct orr__fake_work *work);
void orr__fake_work_release(struct orr_fake_cuda *fake, struct orr__fake_work **work); /* nulls */

/* True if it is done; then the host has learned of it and of all before it in its stream. */
bool orr__fake_work_done(struct orr_fake_cuda *fake, struct orr__fake_work *work);
void orr__fake_work_wait(struct orr_fake_cuda *fake, struct orr__fake_work *work);
bool orr__fake_is_idle(struct orr_fake_cuda *fake, struct orr__fake_stream *stream);
void orr__fake_stream_wait(struct orr_fake_cuda *fake, struct orr__fake_stream *stream);
void orr__fake_device_wait(struct orr_fake_cuda *fake, uint32_t device);
/* Learns of all that is done, on all streams. */
void orr__fake_collect(struct orr_fake_cuda *fake);

/* The host's clock; virtual, or CLOCK_MONOTONIC. And what makes virtual time pass. */
int64_t orr__fake_now(struct orr_fake_cuda *fake);
void orr__fake_spend(struct orr_fake_cuda *fake, int64_t ns);

void orr__fake_streams_close(struct orr_fake_cuda *fake);

/* What a call that waits does when it fails: after a sticky error it does wait, for all streams, so
 * that nothing runs any more that could use what the program frees now. Returns `fault`. */
cudaError_t orr__fake_fault_after_wait(struct orr_fake_cuda *fake, int fault);

/* --- events --- */

struct orr__fake_event {
    struct orr__fake_event *next, *next_destroyed;
    uint64_t alive; /* number of its creation; 0: destroyed */
    uint32_t device;
    bool untimed;
    struct orr__fake_work *work; /* the last record, or NULL */
    /* Or it was recorded in a capture: its id, and the nodes to come after. */
    uint64_t capture;
    uint32_t *frontier;
    size_t frontier_count;
};

struct orr__fake_event *orr__fake_event_find(struct orr_fake_cuda *fake, cudaEvent_t handle);
/* The event's record is this work now. */
void orr__fake_event_set(struct orr_fake_cuda *fake, struct orr__fake_event *event,
                         struct orr__fake_work *work);
void orr__fake_events_close(struct orr_fake_cuda *fake);

/* --- captures and graphs --- */

struct orr__fake_capture {
    struct orr__fake_capture *next;
    uint64_t id;
    struct orr__fake_stream *origin;
    enum cudaStreamCaptureMode mode;
    bool invalid;
    struct orr__fake_graph *graph; /* what has been captured */
};

/* A task of a graph, after others with smaller indices. */
struct orr__fake_node {
    struct orr__fake_task task;    /* owns the argument */
    struct orr__fake_event *event; /* a record that sets an event at each launch, or NULL */
    uint64_t event_alive;
    uint32_t branch; /* by streams of the capture, from 0 */
    uint32_t after_count;
    uint32_t *after;
};

/* Constant once captured; shared by graphs and what was instantiated of them. */
struct orr__fake_nodes {
    uint32_t references;
    struct orr__fake_node **items;
    size_t count, capacity;
    uint32_t *devices; /* by branch */
    size_t branch_count, branch_capacity;
};

struct orr__fake_graph {
    struct orr__fake_graph *next;
    struct orr__fake_nodes *nodes;
};

void orr__fake_nodes_release(struct orr_fake_cuda *fake, struct orr__fake_nodes **nodes);

/* Adds a task to the graph that the stream is captured into. */
cudaError_t orr__fake_capture_task(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                   const struct orr__fake_task *task,
                                   struct orr__fake_event *event) ORR_MUST_CHECK;
/* What the stream does next comes after nodes of `capture`, which it becomes part of; NULL: after
 * something outside of captures, which is an error. */
cudaError_t orr__fake_capture_join(struct orr_fake_cuda *fake, struct orr__fake_stream *stream,
                                   struct orr__fake_capture *capture, const uint32_t *frontier,
                                   size_t count) ORR_MUST_CHECK;
struct orr__fake_capture *orr__fake_capture_find(struct orr_fake_cuda *fake, uint64_t id);
/* Returns `code`. */
cudaError_t orr__fake_capture_invalidate(struct orr_fake_cuda *fake,
                                         struct orr__fake_capture *capture, cudaError_t code);
/* A call that is not allowed while anything is captured (but in mode Relaxed). */
cudaError_t orr__fake_capture_forbids(struct orr_fake_cuda *fake) ORR_MUST_CHECK;
/* The answer to a query of an event that was recorded in a capture. */
cudaError_t orr__fake_capture_touched(struct orr_fake_cuda *fake, struct orr__fake_event *event);
/* The stream goes away. */
void orr__fake_capture_abandon(struct orr_fake_cuda *fake, struct orr__fake_stream *stream);
struct orr__fake_graph *orr__fake_graph_find(struct orr_fake_cuda *fake, cudaGraph_t handle);
void orr__fake_graph_free(struct orr_fake_cuda *fake, struct orr__fake_graph *graph);
void orr__fake_graphs_close(struct orr_fake_cuda *fake);

/* --- memory --- */

enum orr__fake_place {
    ORR__FAKE_PAGEABLE, /* none of ours: the program's own */
    ORR__FAKE_PINNED,
    ORR__FAKE_DEVICE,
    ORR__FAKE_NOWHERE /* freed, or beyond the end of an allocation */
};

/* Where `bytes` from an address are; *out_device for memory of a device. */
enum orr__fake_place orr__fake_where(struct orr_fake_cuda *fake, const void *address,
                                     uint64_t bytes, uint32_t *out_device);
enum orr_status orr__fake_memory_open(struct orr_fake_cuda *fake) ORR_MUST_CHECK;
void orr__fake_memory_close(struct orr_fake_cuda *fake);

/* --- kernels --- */

void orr__fake_codes_close(struct orr_fake_cuda *fake);

#endif
