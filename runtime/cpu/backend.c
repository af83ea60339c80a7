/* Open and close, memory, clock, and the table of verbs. */
#include "runtime/cpu/cpu_internal.h"

#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* ---- clock and spinning ------------------------------------------------------------------- */

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t orr__cpu_now(const struct cpu_backend *backend) {
    return monotonic_ns() - backend->base_ns;
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool orr__cpu_spin_begin(struct cpu_backend *backend, struct cpu_spin *out_spin) {
    if (atomic_fetch_add(&backend->spinning, 1) >= backend->spin_max) {
        atomic_fetch_sub(&backend->spinning, 1);
        return false;
    }
    *out_spin = (struct cpu_spin){.until_ns = orr__cpu_now(backend) + CPU_SPIN_NS};
    return true;
}

bool orr__cpu_spin_step(const struct cpu_backend *backend, const struct cpu_spin *spin) {
    /* Some pauses between two looks: each look takes the cache line away from the writer. Measured
     * with empty kernels: 146, 149, 106, 95 ns an enqueue with 8, 16, 32, 64 pauses. */
    for (int i = 0; i < 32; i++)
        relax();
    return orr__cpu_now(backend) < spin->until_ns;
}

void orr__cpu_spin_end(struct cpu_backend *backend) {
    atomic_fetch_sub(&backend->spinning, 1);
}

/* Processors that this process may use. */
static uint32_t processor_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* The block's true address is kept just before the aligned one. */
void *orr__cpu_alloc(const struct orr_memory *memory, uint64_t bytes, bool zeroed) {
    uint64_t extra = CPU_LINE + sizeof(void *);
    if (bytes > SIZE_MAX - extra)
        return NULL;
    size_t size = (size_t)(bytes + extra);
    char *block = zeroed ? orr_memory_alloc(memory, size) : orr_memory_resize(memory, NULL, size);
    if (!block)
        return NULL;
    uintptr_t first = (uintptr_t)block + sizeof(void *);
    size_t gap = (size_t)((CPU_LINE - first % CPU_LINE) % CPU_LINE);
    char *aligned = block + sizeof(void *) + gap;
    memcpy(aligned - sizeof(void *), &block, sizeof block);
    return aligned;
}

void orr__cpu_free(const struct orr_memory *memory, void *block) {
    if (!block)
        return;
    void *whole;
    memcpy(&whole, (char *)block - sizeof(void *), sizeof whole);
    orr_memory_free(memory, whole);
}

static enum orr_status memory_create(struct orr_backend *base, uint32_t device, uint64_t bytes,
                                     uint32_t *out_memory, struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    *out_memory = ORR_ID_NONE;
    if (device >= backend->device_count && device != ORR_ID_NONE)
        return orr_error_set(error, ORR_INVALID, "no device %u, there are %u", device,
                             backend->device_count);
    void *pointer = NULL;
    if (orr_memory_grow(backend->memory, &backend->memories, &backend->memory_capacity,
                        backend->memory_count + 1, sizeof *backend->memories,
                        ORR_ID_NONE) != ORR_OK ||
        (!backend->timing_only && !(pointer = orr__cpu_alloc(backend->memory, bytes, false))))
        return orr_error_set(error, ORR_NO_MEMORY, "no host memory for %llu bytes of device %u",
                             (unsigned long long)bytes, device);
    *out_memory = (uint32_t)backend->memory_count;
    backend->memories[backend->memory_count++] =
        (struct cpu_memory){.pointer = pointer, .live = true};
    return ORR_OK;
}

static struct cpu_memory *memory_find(struct orr_backend *base, uint32_t memory) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(memory < backend->memory_count && backend->memories[memory].live);
    return &backend->memories[memory];
}

static void memory_destroy(struct orr_backend *base, uint32_t memory) {
    struct cpu_memory *found = memory_find(base, memory);
    orr__cpu_free(orr__cpu(base)->memory, found->pointer);
    *found = (struct cpu_memory){0};
}

static void *memory_pointer(struct orr_backend *base, uint32_t memory) {
    return memory_find(base, memory)->pointer;
}

/* ---- host --------------------------------------------------------------------------------- */

static int64_t now(struct orr_backend *base, uint32_t host) {
    (void)host;
    return orr__cpu_now(orr__cpu(base));
}

static enum orr_status fail_of(struct orr_backend *base, uint32_t id, struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    assert(id < backend->stream_count);
    struct cpu_stream *stream = backend->streams[id];
    orr__cpu_retire(backend);
    uint64_t poisoned = atomic_load_explicit(&stream->poisoned_seq, memory_order_acquire);
    if (poisoned == 0 || poisoned > stream->retired)
        return ORR_OK;
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s", stream->cause.text);
}

static enum orr_status host_access(struct orr_backend *base, const struct orr_command *command,
                                   struct orr_error *error) {
    struct cpu_backend *backend = orr__cpu(base);
    struct orr_command copy = *command;
    struct orr_record_command *record = &copy.record;
    struct orr_error cause = {0};
    enum orr_status status = ORR_OK;
    record->start_ns = orr__cpu_now(backend);
    if (record->enqueue_ns == ORR_TIME_NONE)
        record->enqueue_ns = record->start_ns;
    if (copy.run && !backend->timing_only)
        status = copy.run(&copy, &cause);
    record->finish_ns = record->enqueued_ns = orr__cpu_now(backend);
    record->ready_ns = record->start_ns;
    record->seq = 0;
    record->header.c = status == ORR_OK ? ORR_COMMAND_STATUS_OK : ORR_COMMAND_STATUS_FAILED;
    if (status != ORR_OK)
        orr_error_set(&cause, status, "a host access failed: %s", orr_status_text(status));
    backend->retire.retired(backend->retire.context, &copy, status == ORR_OK ? NULL : &cause);
    return status == ORR_OK ? ORR_OK : orr_error_set(error, ORR_DEVICE_FAILED, "%s", cause.text);
}

/* ---- open and close ----------------------------------------------------------------------- */

enum orr_status orr__cpu_thread_start(pthread_t *out_thread, void *(*entry)(void *), void *context,
                                      struct orr_error *error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(out_thread, NULL, entry, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        return orr_error_set(error, ORR_NO_MEMORY, "can't start a thread: error %d", result);
    return ORR_OK;
}

static enum orr_status locks_init(struct cpu_backend *backend) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return ORR_NO_MEMORY;
    /* Deadlines are times of the backend's clock. */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    enum orr_status status = ORR_NO_MEMORY;
    if (pthread_mutex_init(&backend->host_lock, NULL) != 0)
        goto out;
    if (pthread_cond_init(&backend->host_wake, &attributes) != 0) {
        pthread_mutex_destroy(&backend->host_lock);
        goto out;
    }
    status = orr__cpu_pool_init(&backend->pool);
    if (status != ORR_OK) {
        pthread_cond_destroy(&backend->host_wake);
        pthread_mutex_destroy(&backend->host_lock);
    }
out:
    pthread_condattr_destroy(&attributes);
    return status;
}

/* Frees what has no locks and threads. */
static void backend_free(struct cpu_backend *backend) {
    const struct orr_memory *memory = backend->memory;
    for (size_t i = 0; i < backend->memory_count; i++)
        orr__cpu_free(memory, backend->memories[i].pointer);
    orr__hosts_clear(&backend->hosts);
    orr_memory_free(memory, backend->memories);
    orr_memory_free(memory, backend->streams);
    orr_memory_free(memory, backend->busy);
    orr_memory_free(memory, backend->dispatchers);
    orr_memory_free(memory, backend->depths);
    orr__cpu_free(memory, backend);
}

static void backend_close(struct orr_backend *base) {
    struct cpu_backend *backend = orr__cpu(base);
    orr__cpu_drain(backend);
    for (uint32_t i = 0; backend->dispatchers && i < backend->device_count; i++)
        orr__cpu_dispatcher_destroy(backend, backend->dispatchers[i]);
    orr__cpu_pool_stop(backend);
    for (size_t i = 0; i < backend->stream_count; i++)
        orr__cpu_stream_free(backend, backend->streams[i]);
    assert(backend->streams_live == 0);
    pthread_cond_destroy(&backend->host_wake);
    pthread_mutex_destroy(&backend->host_lock);
    backend_free(backend);
}

static const struct orr_backend_verbs cpu_verbs = {
    .abi = ORR_BACKEND_ABI,
    .name = "cpu",
    .clock = "monotonic",
    .collective = "direct",
    .close = backend_close,
    .memory_create = memory_create,
    .memory_destroy = memory_destroy,
    .memory_pointer = memory_pointer,
    .stream_create = orr__cpu_stream_create,
    .stream_destroy = orr__cpu_stream_destroy,
    .submit = orr__cpu_submit,
    .submit_group = orr__cpu_submit_group,
    .query = orr__cpu_query,
    .wait = orr__cpu_wait,
    .poll = orr__cpu_poll,
    .now = now,
    .fail_of = fail_of,
    .host_create = orr__cpu_host_create,
    .host_next = orr__cpu_host_next,
    .host_done = orr__cpu_host_done,
    .host_reason = orr__cpu_host_reason,
    .host_park = orr__cpu_host_park,
    .host_unpark = orr__cpu_host_unpark,
    .host_access = host_access,
    .perturb = orr__cpu_perturb,
};

static enum orr_status check_config(const struct orr_backend_config *config,
                                    struct orr_error *error) {
    if (config->device_count == 0)
        return orr_error_set(error, ORR_INVALID, "cpu: no devices asked for");
    for (uint32_t i = 0; i < config->device_count; i++)
        if (config->specs[i].queue_depth > CPU_DEPTH_MAX)
            return orr_error_set(error, ORR_INVALID, "cpu: device %u: queue depth %u, at most %d",
                                 i, config->specs[i].queue_depth, CPU_DEPTH_MAX);
    return ORR_OK;
}

/* What needs no locks and threads; what is there is freed by backend_free. */
static enum orr_status backend_fill(struct cpu_backend *backend,
                                    const struct orr_backend_config *config) {
    uint32_t count = config->device_count;
    backend->base = (struct orr_backend){.verbs = &cpu_verbs};
    backend->memory = config->memory;
    backend->retire = config->retire;
    backend->device_count = count;
    backend->timing_only = config->timing_only;
    backend->spin_max = processor_count() - 1;
    backend->base_ns = monotonic_ns();
    orr__cpu_hosts_init(backend);
    uint32_t host;
    if (orr__cpu_host_create(&backend->base, &host) != ORR_OK)
        return ORR_NO_MEMORY;
    backend->depths = orr_memory_alloc(config->memory, count * sizeof *backend->depths);
    if (!backend->depths)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t depth = config->specs[i].queue_depth;
        backend->depths[i] = depth > 0 ? depth : CPU_DEPTH_DEFAULT;
    }
    return ORR_OK;
}

/* The dispatch hosts make no calls of the caller's, so they take no turns. */
static enum orr_status dispatchers_open(struct cpu_backend *backend, struct orr_error *error) {
    backend->dispatchers =
        orr_memory_alloc(backend->memory, backend->device_count * sizeof *backend->dispatchers);
    if (!backend->dispatchers)
        return orr_error_set(error, ORR_NO_MEMORY, "cpu: no memory for dispatchers");
    for (uint32_t i = 0; i < backend->device_count; i++) {
        uint32_t host;
        if (orr__cpu_host_create(&backend->base, &host) != ORR_OK)
            return orr_error_set(error, ORR_NO_MEMORY, "cpu: no memory for dispatch hosts");
        orr__cpu_host_done(&backend->base, host);
        enum orr_status status =
            orr__cpu_dispatcher_create(backend, host, &backend->dispatchers[i], error);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

enum orr_status orr_cpu_open(const struct orr_backend_config *config,
                             struct orr_backend **out_backend, struct orr_error *error) {
    *out_backend = NULL;
    enum orr_status status = check_config(config, error);
    if (status != ORR_OK)
        return status;
    struct cpu_backend *backend = orr__cpu_alloc(config->memory, sizeof *backend, true);
    if (!backend)
        return orr_error_set(error, ORR_NO_MEMORY, "cpu: no memory for the backend");
    status = backend_fill(backend, config);
    if (status == ORR_OK)
        status = locks_init(backend);
    if (status != ORR_OK) {
        backend_free(backend);
        return orr_error_set(error, status, "cpu: no memory for %u devices", config->device_count);
    }
    if (config->runner == ORR_RUNNER_PER_DEVICE)
        status = dispatchers_open(backend, error);
    if (status != ORR_OK) {
        backend_close(&backend->base);
        return status;
    }
    *out_backend = &backend->base;
    return ORR_OK;
}

void orr_cpu_counters(struct orr_backend *base, struct orr_cpu_counters *out_counters) {
    struct cpu_backend *backend = orr__cpu(base);
    *out_counters = (struct orr_cpu_counters){
        .threads = backend->worker_count,
        .wakeups = atomic_load(&backend->wakeups),
        .host_wakeups = atomic_load(&backend->host_wakeups),
        .blocks = atomic_load(&backend->blocks),
        .handovers = atomic_load(&backend->handovers),
    };
}
