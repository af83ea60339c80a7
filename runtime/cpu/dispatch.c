/* Dispatch threads (ORR_RUNNER_PER_DEVICE): each launches its device's commands in the order in
 * which the host handed them over. A ring of one producer and one consumer. */
#include "runtime/cpu/cpu_internal.h"

#include <assert.h>

static struct cpu_wait *entry_at(const struct cpu_dispatcher *dispatcher, uint64_t index) {
    return &dispatcher->entries[index & (CPU_DISPATCH_DEPTH - 1)];
}

/* The launch is a call of the dispatch host, so its stamps are the record's. They are complete
 * before the worker can see the command; waking a sleeper is not in them. */
static void launch_one(struct cpu_dispatcher *dispatcher, struct cpu_wait entry) {
    struct cpu_stream *stream = entry.stream;
    struct cpu_slot *slot = &stream->slots[(entry.seq - 1) & stream->mask];
    slot->command.record.host = dispatcher->host;
    slot->command.record.enqueue_ns = orr__cpu_now(dispatcher->backend);
    slot->command.record.enqueued_ns = orr__cpu_now(dispatcher->backend);
    orr__cpu_launch(stream, entry.seq);
}

static void spin_for_push(struct cpu_dispatcher *dispatcher, uint64_t taken) {
    struct cpu_spin spin;
    if (!orr__cpu_spin_begin(dispatcher->backend, &spin))
        return;
    while (atomic_load_explicit(&dispatcher->pushed, memory_order_relaxed) == taken &&
           orr__cpu_spin_step(dispatcher->backend, &spin))
        continue;
    orr__cpu_spin_end(dispatcher->backend);
}

/* Sleeps until something was pushed. False: the dispatcher is to stop. */
static bool sleep_for_push(struct cpu_dispatcher *dispatcher, uint64_t taken) {
    pthread_mutex_lock(&dispatcher->lock);
    atomic_store(&dispatcher->parked, 1);
    while (atomic_load(&dispatcher->pushed) == taken && !dispatcher->stopping)
        pthread_cond_wait(&dispatcher->wake, &dispatcher->lock);
    atomic_store(&dispatcher->parked, 0);
    bool stopping = dispatcher->stopping && atomic_load(&dispatcher->pushed) == taken;
    pthread_mutex_unlock(&dispatcher->lock);
    return !stopping;
}

static void *dispatcher_main(void *context) {
    struct cpu_dispatcher *dispatcher = context;
    uint64_t taken = 0;
    for (;;) {
        uint64_t pushed = atomic_load_explicit(&dispatcher->pushed, memory_order_acquire);
        while (taken < pushed) {
            struct cpu_wait entry = *entry_at(dispatcher, taken);
            launch_one(dispatcher, entry);
            atomic_store_explicit(&dispatcher->taken, ++taken, memory_order_release);
        }
        spin_for_push(dispatcher, taken);
        if (!sleep_for_push(dispatcher, taken))
            return NULL;
    }
}

uint64_t orr__cpu_dispatcher_room(const struct cpu_dispatcher *dispatcher) {
    uint64_t pushed = atomic_load_explicit(&dispatcher->pushed, memory_order_relaxed);
    return CPU_DISPATCH_DEPTH -
           (pushed - atomic_load_explicit(&dispatcher->taken, memory_order_acquire));
}

struct cpu_wait orr__cpu_dispatcher_oldest(const struct cpu_dispatcher *dispatcher) {
    /* If it has been taken in the meantime it is still a point that will retire. */
    uint64_t taken = atomic_load_explicit(&dispatcher->taken, memory_order_acquire);
    uint64_t pushed = atomic_load_explicit(&dispatcher->pushed, memory_order_relaxed);
    return *entry_at(dispatcher, taken < pushed ? taken : pushed - 1);
}

void orr__cpu_dispatcher_push(struct cpu_dispatcher *dispatcher, struct cpu_stream *stream,
                              uint64_t seq) {
    assert(orr__cpu_dispatcher_room(dispatcher) > 0);
    uint64_t pushed = atomic_load_explicit(&dispatcher->pushed, memory_order_relaxed);
    *entry_at(dispatcher, pushed) = (struct cpu_wait){stream, seq};
    atomic_store(&dispatcher->pushed, pushed + 1);
    if (!atomic_load(&dispatcher->parked))
        return;
    pthread_mutex_lock(&dispatcher->lock);
    pthread_cond_signal(&dispatcher->wake);
    pthread_mutex_unlock(&dispatcher->lock);
}

enum orr_status orr__cpu_dispatcher_create(struct cpu_backend *backend, uint32_t host,
                                           struct cpu_dispatcher **out_dispatcher,
                                           struct orr_error *error) {
    *out_dispatcher = NULL;
    struct cpu_dispatcher *dispatcher = orr__cpu_alloc(backend->memory, sizeof *dispatcher, true);
    if (!dispatcher)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a dispatcher");
    enum orr_status status = ORR_NO_MEMORY;
    dispatcher->backend = backend;
    dispatcher->host = host;
    atomic_init(&dispatcher->pushed, 0);
    atomic_init(&dispatcher->taken, 0);
    atomic_init(&dispatcher->parked, 0);
    dispatcher->entries =
        orr__cpu_alloc(backend->memory, CPU_DISPATCH_DEPTH * sizeof *dispatcher->entries, true);
    bool has_lock = pthread_mutex_init(&dispatcher->lock, NULL) == 0;
    bool has_wake = has_lock && pthread_cond_init(&dispatcher->wake, NULL) == 0;
    if (!dispatcher->entries || !has_wake) {
        orr_error_set(error, status, "no memory for a dispatcher");
        goto out;
    }
    status = orr__cpu_thread_start(&dispatcher->thread, dispatcher_main, dispatcher, error);
    if (status != ORR_OK)
        goto out;
    *out_dispatcher = dispatcher;
    return ORR_OK;
out:
    if (has_wake)
        pthread_cond_destroy(&dispatcher->wake);
    if (has_lock)
        pthread_mutex_destroy(&dispatcher->lock);
    orr__cpu_free(backend->memory, dispatcher->entries);
    orr__cpu_free(backend->memory, dispatcher);
    return status;
}

void orr__cpu_dispatcher_destroy(struct cpu_backend *backend, struct cpu_dispatcher *dispatcher) {
    if (!dispatcher)
        return;
    pthread_mutex_lock(&dispatcher->lock);
    dispatcher->stopping = true;
    pthread_cond_signal(&dispatcher->wake);
    pthread_mutex_unlock(&dispatcher->lock);
    pthread_join(dispatcher->thread, NULL);
    pthread_cond_destroy(&dispatcher->wake);
    pthread_mutex_destroy(&dispatcher->lock);
    orr__cpu_free(backend->memory, dispatcher->entries);
    orr__cpu_free(backend->memory, dispatcher);
}
