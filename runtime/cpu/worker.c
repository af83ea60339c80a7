/* The devices' side: worker threads, what a stream's owner does, and how streams change owners. */
#include "runtime/cpu/cpu_internal.h"

#include <assert.h>
#include <string.h>

#include "runtime/collective.h"

/* ---- the pool ----------------------------------------------------------------------------- */

enum orr_status orr__cpu_pool_init(struct cpu_pool *pool) {
    if (pthread_mutex_init(&pool->lock, NULL) != 0)
        return ORR_NO_MEMORY;
    pool->ready_first = pool->ready_last = NULL;
    pool->sleepers = NULL;
    pool->stopping = false;
    atomic_init(&pool->ready_count, 0);
    atomic_init(&pool->spinners, 0);
    return ORR_OK;
}

/* Under the lock: a sleeper to be woken, if more is ready than the spinning workers will take. */
static struct cpu_worker *pool_waken(struct cpu_pool *pool) {
    struct cpu_worker *worker = pool->sleepers;
    if (!worker || atomic_load(&pool->ready_count) <= atomic_load(&pool->spinners))
        return NULL;
    pool->sleepers = worker->parked;
    worker->woken = true;
    return worker;
}

static void worker_signal(struct cpu_worker *worker) {
    if (!worker)
        return;
    pthread_cond_signal(&worker->wake);
    atomic_fetch_add_explicit(&worker->backend->wakeups, 1, memory_order_relaxed);
}

/* Gives a stream (which the caller owns) to whichever worker is free. There always is one: threads
 * are as many as streams in use, and a busy thread runs only one of them. */
static void pool_post(struct cpu_pool *pool, struct cpu_stream *stream) {
    stream->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->ready_last)
        pool->ready_last->next = stream;
    else
        pool->ready_first = stream;
    pool->ready_last = stream;
    atomic_fetch_add(&pool->ready_count, 1);
    struct cpu_worker *worker = pool_waken(pool);
    pthread_mutex_unlock(&pool->lock);
    worker_signal(worker);
}

/* A worker that spun but found work of its own leaves what is ready to somebody else. */
static void pool_rouse(struct cpu_pool *pool) {
    if (atomic_load(&pool->ready_count) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    struct cpu_worker *worker = pool_waken(pool);
    pthread_mutex_unlock(&pool->lock);
    worker_signal(worker);
}

/* Under the lock. */
static struct cpu_stream *pool_pop(struct cpu_pool *pool) {
    struct cpu_stream *stream = pool->ready_first;
    if (!stream)
        return NULL;
    pool->ready_first = stream->next;
    if (!pool->ready_first)
        pool->ready_last = NULL;
    stream->next = NULL;
    atomic_fetch_sub(&pool->ready_count, 1);
    return stream;
}

static void pool_spin(struct cpu_backend *backend) {
    struct cpu_spin spin;
    if (!orr__cpu_spin_begin(backend, &spin))
        return;
    struct cpu_pool *pool = &backend->pool;
    atomic_fetch_add(&pool->spinners, 1);
    while (atomic_load_explicit(&pool->ready_count, memory_order_relaxed) == 0 &&
           orr__cpu_spin_step(backend, &spin))
        continue;
    atomic_fetch_sub(&pool->spinners, 1);
    orr__cpu_spin_end(backend);
}

/* Under the lock. */
static void worker_sleep(struct cpu_worker *worker) {
    struct cpu_pool *pool = &worker->backend->pool;
    worker->woken = false;
    worker->parked = pool->sleepers;
    pool->sleepers = worker;
    while (!worker->woken)
        pthread_cond_wait(&worker->wake, &pool->lock);
}

/* The next stream to run, now owned by the caller; NULL when the pool stops. */
static struct cpu_stream *pool_take(struct cpu_worker *worker) {
    struct cpu_pool *pool = &worker->backend->pool;
    struct cpu_stream *stream;
    bool spun = false;
    pthread_mutex_lock(&pool->lock);
    while (!(stream = pool_pop(pool)) && !pool->stopping) {
        if (!spun) {
            pthread_mutex_unlock(&pool->lock);
            pool_spin(worker->backend);
            pthread_mutex_lock(&pool->lock);
        } else {
            worker_sleep(worker);
        }
        spun = !spun;
    }
    pthread_mutex_unlock(&pool->lock);
    return stream;
}

/* ---- finishing: publish, and find who waited ---------------------------------------------- */

/* Takes the waiters whose point is done off the stream's list and makes the caller their owner. */
static void stream_notify(struct cpu_worker *worker, struct cpu_stream *stream, uint64_t done) {
    bool wake_host = false;
    uint64_t lowest = UINT64_MAX;
    pthread_mutex_lock(&stream->lock);
    struct cpu_stream **link = &stream->waiters;
    while (*link) {
        struct cpu_stream *waiter = *link;
        if (waiter->awaited_seq > done) {
            lowest = waiter->awaited_seq < lowest ? waiter->awaited_seq : lowest;
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        waiter->next = worker->handed;
        worker->handed = waiter;
    }
    if (stream->host_watch <= done) {
        wake_host = true;
        stream->host_watch = UINT64_MAX;
    }
    lowest = stream->host_watch < lowest ? stream->host_watch : lowest;
    atomic_store(&stream->watch, lowest);
    pthread_mutex_unlock(&stream->lock);
    if (wake_host)
        orr__cpu_host_wake(stream->backend);
}

/* The slot belongs to the host from here on. */
static void stream_finish(struct cpu_worker *worker, struct cpu_stream *stream,
                          struct cpu_slot *slot, uint64_t seq, int64_t finish_ns,
                          enum orr_command_status status) {
    assert(seq == atomic_load_explicit(&stream->done, memory_order_relaxed) + 1);
    assert(finish_ns >= slot->start_ns);
    slot->finish_ns = finish_ns;
    slot->status = (uint8_t)status;
    atomic_store_explicit(&stream->finishes[seq & stream->finish_mask], finish_ns,
                          memory_order_release);
    atomic_store(&stream->done, seq);
    if (atomic_load(&stream->watch) <= seq)
        stream_notify(worker, stream, seq);
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* When a command finished, or ORR_TIME_NONE if that is so long ago that its entry may hold the time
 * of a later command (written just before `done` reaches that one; so `done` is read last). */
static int64_t finish_of(const struct cpu_stream *stream, uint64_t seq) {
    int64_t finish_ns =
        atomic_load_explicit(&stream->finishes[seq & stream->finish_mask], memory_order_acquire);
    uint64_t done = atomic_load_explicit(&stream->done, memory_order_acquire);
    assert(done >= seq);
    return done >= seq + stream->finish_mask ? ORR_TIME_NONE : finish_ns;
}

/* Marks the stream as failed from command `seq` on. Its cause may be filled already. */
static void stream_poison(struct cpu_stream *stream, uint64_t seq, const struct orr_error *cause) {
    if (atomic_load_explicit(&stream->poisoned_seq, memory_order_relaxed) != 0)
        return;
    if (cause != &stream->cause)
        stream->cause = *cause;
    assert(stream->cause.status != ORR_OK);
    atomic_store_explicit(&stream->poisoned_seq, seq, memory_order_release);
}

static bool stream_is_poisoned(const struct cpu_stream *stream, uint64_t seq) {
    uint64_t first = atomic_load_explicit(&stream->poisoned_seq, memory_order_acquire);
    return first != 0 && first <= seq;
}

/* Puts the stream into the list of waiters of another one, unless the point is done meanwhile.
 * True: the caller no longer owns it. */
static bool stream_block(struct cpu_stream *stream, struct cpu_stream *awaited, uint64_t seq) {
    pthread_mutex_lock(&awaited->lock);
    if (seq < atomic_load_explicit(&awaited->watch, memory_order_relaxed))
        atomic_store(&awaited->watch, seq);
    /* The watch may stay too low if the point is done by now: that costs one look too many. */
    bool blocked = atomic_load(&awaited->done) < seq;
    if (blocked) {
        atomic_fetch_add_explicit(&stream->backend->blocks, 1, memory_order_relaxed);
        atomic_store_explicit(&stream->activity, CPU_PARKED, memory_order_relaxed);
        stream->awaited_seq = seq;
        stream->next = awaited->waiters;
        awaited->waiters = stream;
    }
    pthread_mutex_unlock(&awaited->lock);
    return blocked;
}

/* Spins for a point while somebody is working on it. */
static bool spin_for_point(struct cpu_backend *backend, const struct cpu_stream *awaited,
                           uint64_t seq) {
    struct cpu_spin spin;
    struct cpu_pool *pool = &backend->pool;
    if (atomic_load_explicit(&awaited->activity, memory_order_relaxed) != CPU_RUNNING ||
        !orr__cpu_spin_begin(backend, &spin))
        return false;
    bool done = false;
    atomic_fetch_add(&pool->spinners, 1);
    while (!(done = atomic_load_explicit(&awaited->done, memory_order_acquire) >= seq) &&
           atomic_load_explicit(&pool->ready_count, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&awaited->activity, memory_order_relaxed) == CPU_RUNNING &&
           orr__cpu_spin_step(backend, &spin))
        continue;
    atomic_fetch_sub(&pool->spinners, 1);
    orr__cpu_spin_end(backend);
    if (done)
        pool_rouse(pool);
    return done;
}

/* True when everything the command waits for is done. False: the stream was set aside. With streams
 * handed to it, the worker has something better to do than to spin. */
static bool waits_over(struct cpu_worker *worker, struct cpu_stream *stream, struct cpu_slot *slot,
                       uint64_t seq) {
    for (uint32_t i = 0; i < slot->wait_count; i++) {
        struct cpu_stream *awaited = slot->waits[i].stream;
        uint64_t point = slot->waits[i].seq;
        if (atomic_load_explicit(&awaited->done, memory_order_acquire) < point &&
            (worker->handed || !spin_for_point(worker->backend, awaited, point))) {
            if (stream_block(stream, awaited, point))
                return false;
            pool_rouse(&worker->backend->pool);
        }
        int64_t finish_ns = finish_of(awaited, point);
        slot->awaited_ns = finish_ns > slot->awaited_ns ? finish_ns : slot->awaited_ns;
        if (stream_is_poisoned(awaited, point))
            stream_poison(stream, seq, &awaited->cause);
    }
    return true;
}

/* ---- running ------------------------------------------------------------------------------ */

/* Ends the command with a failure whose text may or may not have been given. */
static void command_fail(struct cpu_stream *stream, uint64_t seq, enum orr_status status) {
    orr_error_set(&stream->cause, status, "command %llu of stream %u failed: %s",
                  (unsigned long long)seq, stream->id, orr_status_text(status));
    stream_poison(stream, seq, &stream->cause);
}

/* Calls the command's function. The stream, not poisoned, lends its cause for the error. */
static enum orr_command_status slot_compute(struct cpu_stream *stream, struct cpu_slot *slot,
                                            uint64_t seq) {
    assert(stream->cause.status == ORR_OK);
    enum orr_status status = slot->run(&slot->command, &stream->cause);
    if (status != ORR_OK) {
        command_fail(stream, seq, status);
        return ORR_COMMAND_STATUS_FAILED;
    }
    if (stream->cause.status != ORR_OK)
        orr_error_clear(&stream->cause);
    return ORR_COMMAND_STATUS_OK;
}

static int64_t later_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Runs the command at the head. `*stamp_ns` is when the one before finished if that is a fair start
 * for this one too, else ORR_TIME_NONE. A wait has started when it came to the head. */
static void command_run(struct cpu_worker *worker, struct cpu_stream *stream, struct cpu_slot *slot,
                        uint64_t seq, int64_t *stamp_ns) {
    struct cpu_backend *backend = worker->backend;
    bool skipped = stream_is_poisoned(stream, seq);
    bool runs = slot->run && !skipped;
    int64_t start_ns = *stamp_ns;
    if (!runs || start_ns == ORR_TIME_NONE || slot->wait_count > 0)
        start_ns = orr__cpu_now(backend);
    start_ns = later_ns(start_ns, slot->awaited_ns);
    int64_t finish_ns = start_ns;
    if (slot->start_ns == ORR_TIME_NONE)
        slot->start_ns = start_ns;
    enum orr_command_status status = skipped ? ORR_COMMAND_STATUS_SKIPPED : ORR_COMMAND_STATUS_OK;
    if (runs) {
        status = slot_compute(stream, slot, seq);
        finish_ns = later_ns(start_ns, orr__cpu_now(backend));
    }
    *stamp_ns = finish_ns;
    stream_finish(worker, stream, slot, seq, finish_ns, status);
}

static struct cpu_slot *slot_of(const struct cpu_stream *stream, uint64_t seq) {
    return &stream->slots[(seq - 1) & stream->mask];
}

/* Computes a collective whose members have all arrived. The cause of a failure is kept with the
 * stream of the first member; a failed stream among the members fails or skips all of them. */
static enum orr_command_status group_compute(struct cpu_group *group, bool timing_only) {
    struct cpu_member *first = &group->members[0];
    for (uint32_t i = 0; i < group->count; i++) {
        struct cpu_member *member = &group->members[i];
        if (!stream_is_poisoned(member->stream, member->seq))
            continue;
        for (uint32_t j = 0; j < group->count; j++)
            stream_poison(group->members[j].stream, group->members[j].seq, &member->stream->cause);
        return ORR_COMMAND_STATUS_SKIPPED;
    }
    enum orr_status status = ORR_OK;
    if (!timing_only && group->computes)
        status = orr_collective_run(group->collectives, group->count, &first->stream->cause);
    for (uint32_t i = 0; status == ORR_OK && i < group->count; i++) {
        const struct cpu_slot *slot = slot_of(group->members[i].stream, group->members[i].seq);
        if (slot->run)
            status = slot->run(&slot->command, &first->stream->cause);
    }
    if (status == ORR_OK) {
        orr_error_clear(&first->stream->cause);
        return ORR_COMMAND_STATUS_OK;
    }
    command_fail(first->stream, first->seq, status);
    for (uint32_t i = 1; i < group->count; i++)
        stream_poison(group->members[i].stream, group->members[i].seq, &first->stream->cause);
    return ORR_COMMAND_STATUS_FAILED;
}

/* The last member of a group has arrived: its worker, which owns all member streams now, computes,
 * finishes all at one time, and is left with `stream`; the others are handed on. */
static void group_finish(struct cpu_worker *worker, struct cpu_stream *stream,
                         struct cpu_group *group) {
    struct cpu_backend *backend = worker->backend;
    enum orr_command_status result = group_compute(group, backend->timing_only);
    int64_t finish_ns = orr__cpu_now(backend);
    uint32_t count = group->count;
    for (uint32_t i = 0; i < count; i++) {
        int64_t start_ns = slot_of(group->members[i].stream, group->members[i].seq)->start_ns;
        finish_ns = start_ns > finish_ns ? start_ns : finish_ns;
    }
    /* The host frees the group once all members are retired, so after the last stream_finish
     * nothing of it may be read. */
    for (uint32_t i = 0; i < count; i++) {
        struct cpu_stream *member = group->members[i].stream;
        uint64_t seq = group->members[i].seq;
        stream_finish(worker, member, slot_of(member, seq), seq, finish_ns, result);
        if (member == stream)
            continue;
        member->next = worker->handed;
        worker->handed = member;
    }
}

/* False: others have to arrive, and the stream now belongs to the group. */
static bool group_arrive(struct cpu_worker *worker, struct cpu_stream *stream,
                         struct cpu_slot *slot) {
    struct cpu_group *group = slot->group;
    slot->start_ns = later_ns(orr__cpu_now(worker->backend), slot->awaited_ns);
    atomic_store_explicit(&stream->activity, CPU_PARKED, memory_order_relaxed);
    uint32_t count = group->count; /* who is not the last may find the group freed after this */
    if (atomic_fetch_add(&group->arrived, 1) + 1 < count)
        return false;
    atomic_store_explicit(&stream->activity, CPU_RUNNING, memory_order_relaxed);
    group_finish(worker, stream, group);
    return true;
}

/* ---- owning a stream ---------------------------------------------------------------------- */

/* Waits a little for the next command; then another round trip through the pool is saved. */
static bool spin_for_launch(struct cpu_backend *backend, const struct cpu_stream *stream,
                            uint64_t seq) {
    struct cpu_spin spin;
    struct cpu_pool *pool = &backend->pool;
    if (!orr__cpu_spin_begin(backend, &spin))
        return false;
    bool launched = false;
    atomic_fetch_add(&pool->spinners, 1);
    while (!(launched = atomic_load_explicit(&stream->launched, memory_order_relaxed) >= seq) &&
           atomic_load_explicit(&pool->ready_count, memory_order_relaxed) == 0 &&
           orr__cpu_spin_step(backend, &spin))
        continue;
    atomic_fetch_sub(&pool->spinners, 1);
    orr__cpu_spin_end(backend);
    return launched;
}

/* Gives up an empty stream. False: a command came meanwhile, and the caller still owns it. */
static bool stream_release(struct cpu_stream *stream, uint64_t seq) {
    atomic_store(&stream->activity, CPU_IDLE);
    if (atomic_load(&stream->launched) < seq)
        return true;
    int idle = CPU_IDLE;
    return !atomic_compare_exchange_strong(&stream->activity, &idle, CPU_RUNNING);
}

/* Sets *out_launched to the last launched command if that is *seq or later. False: the stream was
 * given up, because it is empty. */
static bool stream_refill(struct cpu_worker *worker, struct cpu_stream *stream, uint64_t *seq,
                          uint64_t *out_launched) {
    for (;;) {
        *out_launched = atomic_load_explicit(&stream->launched, memory_order_acquire);
        if (*out_launched >= *seq)
            return true;
        bool spun = !worker->handed;
        bool launched = spun && spin_for_launch(worker->backend, stream, *seq);
        if (!launched && stream_release(stream, *seq))
            return false;
        /* Taken back, but another worker may have owned it in between and run some commands. */
        *seq = atomic_load_explicit(&stream->done, memory_order_relaxed) + 1;
        if (spun)
            pool_rouse(&worker->backend->pool);
    }
}

/* Other threads run what the caller was handed, because it has more to run itself. */
static void worker_hand_on(struct cpu_worker *worker) {
    while (worker->handed) {
        struct cpu_stream *stream = worker->handed;
        worker->handed = stream->next;
        pool_post(&worker->backend->pool, stream);
    }
}

/* Runs a stream until it is empty or has to wait. */
static void stream_run(struct cpu_worker *worker, struct cpu_stream *stream) {
    atomic_store_explicit(&stream->activity, CPU_RUNNING, memory_order_relaxed);
    uint64_t seq = atomic_load_explicit(&stream->done, memory_order_relaxed);
    uint64_t launched = 0;
    int64_t stamp_ns = ORR_TIME_NONE;
    for (;;) {
        seq++;
        if (seq > launched) {
            if (!stream_refill(worker, stream, &seq, &launched))
                return;
            /* What is launched after a stamp must not start at it. */
            stamp_ns = ORR_TIME_NONE;
        }
        struct cpu_slot *slot = slot_of(stream, seq);
        if (slot->is_wait && slot->wait_count > 0 && slot->start_ns == ORR_TIME_NONE)
            slot->start_ns = orr__cpu_now(worker->backend);
        if (!waits_over(worker, stream, slot, seq))
            return;
        if (worker->handed) {
            worker_hand_on(worker);
            stamp_ns = ORR_TIME_NONE;
        }
        if (!slot->group) {
            command_run(worker, stream, slot, seq, &stamp_ns);
            continue;
        }
        if (!group_arrive(worker, stream, slot))
            return;
        stamp_ns = ORR_TIME_NONE;
    }
}

static void *worker_main(void *context) {
    struct cpu_worker *worker = context;
    for (;;) {
        struct cpu_stream *stream = worker->handed;
        if (stream) {
            worker->handed = stream->next;
            worker_hand_on(worker);
            atomic_fetch_add_explicit(&worker->backend->handovers, 1, memory_order_relaxed);
        } else {
            stream = pool_take(worker);
        }
        if (!stream)
            return NULL;
        stream_run(worker, stream);
    }
}

void orr__cpu_launch(struct cpu_stream *stream, uint64_t seq) {
    atomic_store(&stream->launched, seq);
    int idle = CPU_IDLE;
    if (atomic_load(&stream->activity) == CPU_IDLE &&
        atomic_compare_exchange_strong(&stream->activity, &idle, CPU_RUNNING))
        pool_post(&stream->backend->pool, stream);
}

/* ---- life --------------------------------------------------------------------------------- */

enum orr_status orr__cpu_worker_start(struct cpu_backend *backend, struct orr_error *error) {
    struct cpu_worker *worker = orr__cpu_alloc(backend->memory, sizeof *worker, true);
    if (!worker)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a worker thread");
    worker->backend = backend;
    enum orr_status status = ORR_NO_MEMORY;
    if (pthread_cond_init(&worker->wake, NULL) != 0) {
        orr_error_set(error, status, "no condition variable for a worker thread");
        goto out;
    }
    status = orr__cpu_thread_start(&worker->thread, worker_main, worker, error);
    if (status != ORR_OK) {
        pthread_cond_destroy(&worker->wake);
        goto out;
    }
    worker->next = backend->workers;
    backend->workers = worker;
    backend->worker_count++;
    worker = NULL;
out:
    orr__cpu_free(backend->memory, worker);
    return status;
}

void orr__cpu_pool_stop(struct cpu_backend *backend) {
    struct cpu_pool *pool = &backend->pool;
    /* Streams without commands may still be on their way through the ready list: what a group
     * handed on. Workers empty it before they stop. */
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (; pool->sleepers; pool->sleepers = pool->sleepers->parked) {
        pool->sleepers->woken = true;
        pthread_cond_signal(&pool->sleepers->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    /* One that still runs may wake another, so none goes before all have ended. */
    for (const struct cpu_worker *worker = backend->workers; worker; worker = worker->next)
        pthread_join(worker->thread, NULL);
    while (backend->workers) {
        struct cpu_worker *worker = backend->workers;
        backend->workers = worker->next;
        pthread_cond_destroy(&worker->wake);
        orr__cpu_free(backend->memory, worker);
    }
    pthread_mutex_destroy(&pool->lock);
}
