/* The search of a scenario, divided among threads so that its result does not depend on how many
 * there are: what is divided, into which parts, and how many executions each part gets follows from
 * counts alone.
 *
 *     few orders:    one search
 *     many:          prefixes ___ every choice of the first steps, each its own search: what others
 *                    |    |   |   have tried there is asleep in it
 *                   job  job  job ...  rounds of at most so many executions each */
#include <stdlib.h>
#include <string.h>

#include "cli/explore_scenario.h"
#include "hazards/explore/pool.h"

enum { FIRST_EXECUTIONS = 2000, ROUND_EXECUTIONS = 4096, PLAN_MAX = 24 };

struct job {
    struct orr_explorer *explorer; /* owned; NULL before the first round */
    struct orr_untimed_options options;
    uint8_t plan[PLAN_MAX];
    struct orr_search search;
    bool begun;
    uint64_t share; /* executions in this round */
    enum orr_status status;
    struct orr_error error;
};

struct dividing {
    const struct orr_explored *explored;
    const struct orr_explore_order *order;
    uint64_t reference;
    struct job *jobs;
    uint32_t job_count;
    uint32_t turn[ORR_EXPLORE_JOBS + 64]; /* jobs of this round */
};

static enum orr_status open_job(const struct dividing *dividing, struct job *job) {
    struct orr_explorer_config config = orr_explored_config(dividing->explored);
    enum orr_status status = ORR_OK;
    if (!job->explorer)
        status = orr_explorer_create(&config, &job->explorer, &job->error);
    job->options.plan = job->plan;
    if (status == ORR_OK)
        status = orr_search_begin(job->explorer, &job->options, dividing->reference, &job->search);
    job->search.counts_orders = job->options.strategy != ORR_UNTIMED_DPOR;
    job->begun = status == ORR_OK;
    return status;
}

static void run_job(void *context, uint32_t number) {
    struct dividing *dividing = context;
    struct job *job = &dividing->jobs[dividing->turn[number]];
    if (job->status == ORR_OK && !job->begun)
        job->status = open_job(dividing, job);
    if (job->status != ORR_OK)
        return;
    job->status = orr_search_run(&job->search, job->share);
    if (job->status != ORR_OK && job->error.status == ORR_OK)
        job->error = *orr_explorer_error(job->explorer);
}

static uint64_t executions_of(const struct dividing *dividing) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < dividing->job_count; i++)
        sum += dividing->jobs[i].search.executions;
    return sum;
}

/* Rounds until nothing is left to try, or of the budget. */
static enum orr_status run_rounds(struct dividing *dividing, bool *out_capped,
                                  struct orr_error *error) {
    const struct orr_explore_order *order = dividing->order;
    for (;;) {
        uint64_t done = executions_of(dividing);
        uint32_t open = 0;
        for (uint32_t i = 0; i < dividing->job_count; i++)
            if (!dividing->jobs[i].search.is_over)
                dividing->turn[open++] = i;
        *out_capped = open > 0;
        if (open == 0 || done >= order->budget)
            return ORR_OK;
        uint64_t left = order->budget - done, share = left / open;
        for (uint32_t i = 0; i < open; i++) {
            struct job *job = &dividing->jobs[dividing->turn[i]];
            job->share = share + (i < left % open);
            if (job->share > ROUND_EXECUTIONS)
                job->share = ROUND_EXECUTIONS;
        }
        orr__pool_run(order->threads, open, run_job, dividing);
        for (uint32_t i = 0; i < dividing->job_count; i++)
            if (dividing->jobs[i].status != ORR_OK) {
                *error = dividing->jobs[i].error;
                return orr_error_set(error, dividing->jobs[i].status, "%s",
                                     orr_status_text(dividing->jobs[i].status));
            }
        if (order->progress)
            order->progress(order->progress_context, executions_of(dividing));
    }
}

/* --- dividing --- */

/* One more job; false when there is no room. */
static bool add_job(struct dividing *dividing, const struct orr_untimed_options *options,
                    const uint8_t *plan, uint32_t plan_length, uint64_t asleep) {
    if (dividing->job_count == ORR_EXPLORE_JOBS + 64)
        return false;
    struct job *job = &dividing->jobs[dividing->job_count++];
    memset(job, 0, sizeof *job);
    job->options = *options;
    job->options.plan_length = plan_length;
    job->options.asleep = asleep;
    if (plan_length > 0)
        memcpy(job->plan, plan, plan_length);
    return true;
}

/* Replaces job `index` by one for each choice after its plan. False if it has none to offer. */
static bool split_job(struct dividing *dividing, struct orr_explorer *explorer, uint32_t index) {
    struct job parent = dividing->jobs[index];
    struct orr_untimed_options options = parent.options;
    struct orr_search search;
    uint32_t length = options.plan_length;
    options.divides = true;
    options.plan = parent.plan;
    if (length + 1 >= PLAN_MAX ||
        orr_search_begin(explorer, &options, dividing->reference, &search) != ORR_OK)
        return false;
    bool ran = orr_search_run(&search, 1) == ORR_OK;
    orr_search_end(&search);
    const struct orr_untimed *backend = orr_explorer_backend(explorer);
    uint64_t choices = orr_untimed_choices(backend), before = options.asleep;
    uint32_t count = (uint32_t)__builtin_popcountll(choices);
    if (!ran || count == 0 || dividing->job_count + count > ORR_EXPLORE_JOBS + 64)
        return false;
    memmove(&dividing->jobs[index], &dividing->jobs[index + 1],
            (--dividing->job_count - index) * sizeof *dividing->jobs);
    for (; choices; choices &= choices - 1) {
        uint32_t process = (uint32_t)__builtin_ctzll(choices);
        uint8_t plan[PLAN_MAX];
        memcpy(plan, parent.plan, sizeof plan);
        plan[length] = (uint8_t)process;
        uint64_t asleep = before & orr_untimed_independent(backend, process);
        (void)add_job(dividing, &parent.options, plan, length + 1, asleep);
        before |= UINT64_C(1) << process;
    }
    return true;
}

/* Splits the jobs with the shortest plans until there are enough. */
static void divide(struct dividing *dividing, struct orr_explorer *explorer) {
    for (uint32_t length = 0; length + 1 < PLAN_MAX; length++) {
        for (uint32_t i = 0; i < dividing->job_count;) {
            if (dividing->job_count >= ORR_EXPLORE_JOBS)
                return;
            bool is_next = dividing->jobs[i].options.plan_length == length;
            if (!is_next || !split_job(dividing, explorer, i))
                i++;
        }
    }
}

/* Parts of a random search: ranges of executions. */
static void divide_range(struct dividing *dividing) {
    uint64_t budget = dividing->order->budget;
    uint64_t parts = budget < ORR_EXPLORE_JOBS ? budget : ORR_EXPLORE_JOBS;
    for (uint64_t i = 0; i < parts; i++) {
        struct orr_untimed_options options = dividing->order->options;
        options.first = budget / parts * i + (i < budget % parts ? i : budget % parts);
        options.end = options.first + budget / parts + (i < budget % parts);
        (void)add_job(dividing, &options, NULL, 0, 0);
    }
}

/* --- joining --- */

static int compare_orders(const void *left, const void *right) {
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Different ones among those that random executions came to. */
static enum orr_status count_orders(const struct dividing *dividing,
                                    struct orr_explore_answer *answer) {
    size_t total = 0, at = 0;
    for (uint32_t i = 0; i < dividing->job_count; i++)
        total += dividing->jobs[i].search.order_count;
    uint64_t *orders = orr_memory_alloc(answer->memory, total * sizeof *orders);
    if (!orders)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < dividing->job_count; i++) {
        const struct orr_search *search = &dividing->jobs[i].search;
        if (search->order_count > 0)
            memcpy(&orders[at], search->orders, search->order_count * sizeof *orders);
        at += search->order_count;
    }
    qsort(orders, total, sizeof *orders, compare_orders); /* equal ones are equal: any order */
    for (size_t i = 0; i < total; i++)
        answer->orders += i == 0 || orders[i] != orders[i - 1];
    orr_memory_free(answer->memory, orders);
    return ORR_OK;
}

static enum orr_status join_found(struct orr_explore_answer *answer, struct orr_search *search) {
    for (size_t i = 0; i < search->found_count; i++) {
        struct orr_found *found = &search->found[i];
        bool known = false;
        for (size_t k = 0; k < answer->found_count && !known; k++)
            known = answer->found[k].kind == found->kind && answer->found[k].key == found->key;
        if (known)
            continue;
        enum orr_status status = orr_memory_grow(
            answer->memory, &answer->found, &answer->found_capacity, answer->found_count + 1,
            sizeof *answer->found, (size_t)ORR_EXPLORER_FOUND_MAX * (ORR_EXPLORE_JOBS + 64));
        if (status != ORR_OK)
            return status;
        answer->found[answer->found_count++] = *found;
        found->plan = NULL; /* it is the answer's now */
    }
    return ORR_OK;
}

/* The gravest kind first, in each kind as they were found. */
static void sort_found(struct orr_explore_answer *answer) {
    for (size_t i = 1; i < answer->found_count; i++) {
        struct orr_found moved = answer->found[i];
        size_t k = i;
        for (; k > 0 && answer->found[k - 1].kind > moved.kind; k--)
            answer->found[k] = answer->found[k - 1];
        answer->found[k] = moved;
    }
}

struct results {
    uint64_t values[ORR_EXPLORER_RESULTS_MAX];
};

static void join_results(struct results *results, uint32_t *count,
                         const struct orr_search *search) {
    for (uint32_t i = 0; i < search->result_count; i++) {
        uint32_t k = 0;
        while (k < *count && results->values[k] != search->results[i])
            k++;
        if (k == *count && *count < ORR_EXPLORER_RESULTS_MAX)
            results->values[(*count)++] = search->results[i];
    }
}

static enum orr_status join(struct dividing *dividing, struct orr_explore_answer *answer) {
    struct results results;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; i < dividing->job_count && status == ORR_OK; i++) {
        struct orr_search *search = &dividing->jobs[i].search;
        answer->executions += search->executions;
        answer->abandoned += search->abandoned;
        answer->hangs += search->hangs;
        answer->longest = search->longest > answer->longest ? search->longest : answer->longest;
        if (dividing->order->options.strategy == ORR_UNTIMED_DPOR)
            answer->orders += search->complete + search->hangs;
        join_results(&results, &answer->result_count, search);
        status = join_found(answer, search);
    }
    if (status == ORR_OK && dividing->order->options.strategy != ORR_UNTIMED_DPOR)
        status = count_orders(dividing, answer);
    sort_found(answer);
    return status;
}

static void close_jobs(struct dividing *dividing, const struct orr_explorer *explorer) {
    for (uint32_t i = 0; i < dividing->job_count; i++) {
        struct job *job = &dividing->jobs[i];
        if (job->begun)
            orr_search_end(&job->search);
        if (job->explorer != explorer)
            orr_explorer_destroy(&job->explorer);
        job->begun = false;
    }
    dividing->job_count = 0;
}

/* A short search by the explorer that is there; when it is over, that was all. */
static enum orr_status search_briefly(struct dividing *dividing, struct orr_explorer *explorer,
                                      bool *out_over, struct orr_error *error) {
    (void)add_job(dividing, &dividing->order->options, NULL, 0, 0);
    struct job *job = &dividing->jobs[0];
    job->explorer = explorer;
    job->status = open_job(dividing, job);
    if (job->status == ORR_OK)
        job->status = orr_search_run(&job->search, dividing->order->budget < FIRST_EXECUTIONS
                                                       ? dividing->order->budget
                                                       : FIRST_EXECUTIONS);
    *out_over = job->search.is_over || job->search.executions >= dividing->order->budget;
    if (job->status == ORR_OK)
        return ORR_OK;
    *error = *orr_explorer_error(explorer);
    return orr_error_set(error, job->status, "%s", orr_status_text(job->status));
}

static enum orr_status search_all(struct dividing *dividing, struct orr_explorer *explorer,
                                  struct orr_explore_answer *answer, struct orr_error *error) {
    bool is_over = false;
    enum orr_status status = ORR_OK;
    if (dividing->order->options.strategy == ORR_UNTIMED_DPOR) {
        status = search_briefly(dividing, explorer, &is_over, error);
        answer->capped = status == ORR_OK && is_over && !dividing->jobs[0].search.is_over;
        if (status == ORR_OK && !is_over) {
            close_jobs(dividing, explorer);
            (void)add_job(dividing, &dividing->order->options, NULL, 0, 0);
            divide(dividing, explorer);
        }
    } else {
        divide_range(dividing);
    }
    if (status == ORR_OK && !is_over)
        status = run_rounds(dividing, &answer->capped, error);
    if (dividing->order->options.strategy != ORR_UNTIMED_DPOR)
        answer->capped = true; /* they are never through */
    if (status == ORR_OK && join(dividing, answer) != ORR_OK)
        status = orr_error_set(error, ORR_NO_MEMORY, "out of host memory for an exploration");
    close_jobs(dividing, explorer);
    return status;
}

enum orr_status
orr_explore_search_all(const struct orr_explored *explored, const struct orr_explore_order *order,
                       struct orr_explorer *explorer, const struct orr_execution *first,
                       struct orr_explore_answer *out_answer, struct orr_error *error) {
    *out_answer = (struct orr_explore_answer){.memory = explored->memory};
    struct dividing *dividing = orr_memory_alloc(explored->memory, sizeof *dividing);
    if (dividing)
        dividing->jobs =
            orr_memory_alloc(explored->memory, (ORR_EXPLORE_JOBS + 64) * sizeof *dividing->jobs);
    if (!dividing || !dividing->jobs) {
        orr_memory_free(explored->memory, dividing);
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for an exploration");
    }
    dividing->explored = explored;
    dividing->order = order;
    dividing->reference = first->numbers;
    enum orr_status status = search_all(dividing, explorer, out_answer, error);
    orr_memory_free(explored->memory, dividing->jobs);
    orr_memory_free(explored->memory, dividing);
    return status;
}

void orr_explore_answer_clear(struct orr_explore_answer *answer) {
    for (size_t i = 0; i < answer->found_count; i++)
        orr_memory_free(answer->memory, answer->found[i].plan);
    for (size_t i = 0; i < answer->shown_count; i++)
        orr_shown_clear(&answer->shown[i], answer->memory);
    if (answer->memory) {
        orr_memory_free(answer->memory, answer->found);
        orr_memory_free(answer->memory, answer->shown);
    }
    *answer = (struct orr_explore_answer){0};
}
