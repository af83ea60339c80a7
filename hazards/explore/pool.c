#include "hazards/explore/pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct pool {
    void (*work)(void *context, uint32_t job);
    void *context;
    uint32_t job_count;
    atomic_uint next;
};

static void *take_jobs(void *argument) {
    struct pool *pool = argument;
    for (;;) {
        uint32_t job = atomic_fetch_add(&pool->next, 1);
        if (job >= pool->job_count)
            return NULL;
        pool->work(pool->context, job);
    }
}

void orr__pool_run(uint32_t threads, uint32_t job_count, void (*work)(void *context, uint32_t job),
                   void *context) {
    struct pool pool = {.work = work, .context = context, .job_count = job_count};
    pthread_t others[ORR_POOL_THREADS_MAX];
    uint32_t started = 0;
    threads = threads > ORR_POOL_THREADS_MAX ? ORR_POOL_THREADS_MAX : threads;
    threads = threads > job_count ? job_count : threads;
    while (started + 1 < threads && pthread_create(&others[started], NULL, take_jobs, &pool) == 0)
        started++;
    take_jobs(&pool);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}
