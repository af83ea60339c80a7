/* A thread for each stream.
 *
 *     host:   slots[tail++ & mask] = work; post ----> thread: wait for a post, slots[head++ & mask]
 *     thread: run; state = DONE (release)       ----> whoever asks for this very work (acquire)
 *
 * `taken` only tells the host that a slot may be written again: it reads it relaxed, so that it
 * learns nothing of what the thread did. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/splitmix.h"
#include "sim/fake_devices/cuda/engine.h"

enum {
    SLOTS = 1024, /* of a stream: a power of two */
    NS_PER_S = 1000000000,
    NAP_NS = 50000 /* of a host that waits for room in a stream */
};

struct threads {
    struct orr__fake_engine base;
    struct orr__fake_engine_config config;
};

struct stream_thread {
    struct threads *engine;
    pthread_t thread;
    sem_t posted;
    _Atomic(struct orr__fake_work *) slots[SLOTS]; /* NULL: the end */
    uint64_t tail;                                 /* the host's */
    _Atomic uint64_t taken;
    uint64_t random; /* the thread's */
};

static int64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void nap(int64_t ns) {
    struct timespec t = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&t, NULL);
}

/* Sleeps while *word is `value`. ThreadSanitizer sees nothing of it: what orders threads are the
 * accesses to the word. */
static void sleep_on(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* For the host, and for the threads of other streams. */
static void wait_for(struct orr__fake_work *work) {
    for (;;) {
        uint32_t state = atomic_load_explicit(&work->state, memory_order_acquire);
        if (state == ORR__FAKE_DONE) {
            return;
        }
        if (state == ORR__FAKE_PENDING &&
            !atomic_compare_exchange_strong_explicit(&work->state, &state, ORR__FAKE_SLEPT_FOR,
                                                     memory_order_relaxed, memory_order_relaxed)) {
            continue;
        }
        sleep_on(&work->state, ORR__FAKE_SLEPT_FOR);
    }
}

static void finish(struct orr__fake_work *work) {
    uint32_t before = atomic_exchange_explicit(&work->state, ORR__FAKE_DONE, memory_order_release);
    /* The work may be gone by now: its address is only a name for the sleepers. */
    if (before == ORR__FAKE_SLEPT_FOR) {
        wake_all(&work->state);
    }
}

static void run_one(struct stream_thread *own, struct orr__fake_work *work) {
    for (uint32_t i = 0; i < work->wait_count; i++) {
        wait_for(work->waits[i]);
    }
    int64_t jitter_ns = own->engine->config.jitter_ns;
    if (jitter_ns > 0) {
        nap((int64_t)(orr_splitmix_next(&own->random) % (uint64_t)jitter_ns));
    }
    work->start_ns = monotonic();
    orr__fake_work_run(work, own->engine->config.device_error);
    work->finish_ns = work->task.run ? monotonic() : work->start_ns;
    finish(work);
}

static void *run_stream(void *context) {
    struct stream_thread *own = context;
    for (uint64_t head = 0;; head++) {
        while (sem_wait(&own->posted) != 0 && errno == EINTR) {
        }
        struct orr__fake_work *work =
            atomic_load_explicit(&own->slots[head % SLOTS], memory_order_acquire);
        if (!work) {
            return NULL;
        }
        run_one(own, work);
        atomic_store_explicit(&own->taken, head + 1, memory_order_release);
    }
}

static void hand_over(struct stream_thread *own, struct orr__fake_work *work) {
    while (own->tail - atomic_load_explicit(&own->taken, memory_order_relaxed) >= SLOTS) {
        nap(NAP_NS);
    }
    atomic_store_explicit(&own->slots[own->tail % SLOTS], work, memory_order_release);
    own->tail++;
    sem_post(&own->posted);
}

static enum orr_status threads_submit(struct orr__fake_engine *engine, void *own,
                                      struct orr__fake_work *work) {
    (void)engine;
    hand_over(own, work);
    return ORR_OK;
}

static enum orr_status threads_stream_create(struct orr__fake_engine *engine, uint32_t device,
                                             uint32_t id, void **out_own, struct orr_error *error) {
    struct threads *threads = (struct threads *)engine;
    (void)device;
    *out_own = NULL;
    struct stream_thread *own = orr_memory_alloc(threads->config.memory, sizeof *own);
    if (!own) {
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a stream of the fake GPU");
    }
    own->engine = threads;
    own->random = orr_splitmix_at(threads->config.seed, id);
    sem_init(&own->posted, 0, 0);
    if (pthread_create(&own->thread, NULL, run_stream, own) != 0) {
        sem_destroy(&own->posted);
        orr_memory_free(threads->config.memory, own);
        return orr_error_set(error, ORR_NO_MEMORY, "no thread for a stream of the fake GPU");
    }
    *out_own = own;
    return ORR_OK;
}

static void threads_stream_destroy(struct orr__fake_engine *engine, void *context) {
    struct stream_thread *own = context;
    hand_over(own, NULL);
    pthread_join(own->thread, NULL);
    sem_destroy(&own->posted);
    orr_memory_free(((struct threads *)engine)->config.memory, own);
}

static bool threads_done(struct orr__fake_engine *engine, struct orr__fake_work *work) {
    (void)engine;
    return atomic_load_explicit(&work->state, memory_order_acquire) == ORR__FAKE_DONE;
}

static void threads_wait(struct orr__fake_engine *engine, struct orr__fake_work *work) {
    (void)engine;
    wait_for(work);
}

static int64_t threads_now(struct orr__fake_engine *engine) {
    (void)engine;
    return monotonic();
}

static void threads_spend(struct orr__fake_engine *engine, int64_t ns) {
    (void)engine, (void)ns;
}

static void threads_rest(struct orr__fake_engine *engine, int64_t ns) {
    (void)engine;
    nap(ns);
}

static void threads_close(struct orr__fake_engine *engine) {
    struct threads *threads = (struct threads *)engine;
    orr_memory_free(threads->config.memory, threads);
}

static const struct orr__fake_engine_verbs threads_verbs = {
    .close = threads_close,
    .stream_create = threads_stream_create,
    .stream_destroy = threads_stream_destroy,
    .submit = threads_submit,
    .done = threads_done,
    .wait = threads_wait,
    .now = threads_now,
    .spend = threads_spend,
    .rest = threads_rest,
};

enum orr_status orr__fake_engine_threads(const struct orr__fake_engine_config *config,
                                         struct orr__fake_engine **out_engine,
                                         struct orr_error *error) {
    *out_engine = NULL;
    struct threads *threads = orr_memory_alloc(config->memory, sizeof *threads);
    if (!threads) {
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for the threads of the fake GPU");
    }
    *threads = (struct threads){.base.verbs = &threads_verbs, .config = *config};
    *out_engine = &threads->base;
    return ORR_OK;
}
