#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hazards/explore/explore.h"
#include "hazards/explore/order_run.h"
#include "hazards/explore/order_witness.h"
#include "hazards/explore/orders.h"
#include "hazards/explore/pool.h"
#include "hazards/explore/strategy.h"

/* Exploration of what is done with memory. Runs are made by jobs, whose number does not depend on
 * the number of threads; the budget is handed out to them in rounds. */

enum { JOBS_MAX = 64, JOB_DEPTH_MAX = 12, FEW_CONFLICTS = 4, ROUND_RUNS = 1 << 14 };

struct job {
    struct orr__order_run run;
    struct orr__orders orders;     /* dpor */
    struct orr__strategy strategy; /* pct, random */
    uint64_t next_run;             /* of the strategy */
    uint64_t *done, *seen;         /* sets: of actions in a run; of conflicts seen reversed */
    uint32_t *heads, *enabled, *positions;
    uint64_t quota, runs, wrong;
    bool is_exhausted;
    enum orr_status status;
};

struct search {
    const struct orr__order_plan *plan;
    const struct orr_explore_options *options;
    struct orr__outcome expected;
    uint32_t *first_of_actor, *next_of_action; /* actions of an actor, as lists */
    struct job *jobs;
    uint32_t job_count;
    bool reversed[JOBS_MAX][JOB_DEPTH_MAX]; /* dpor: where each job's part of the tree begins */
    uint32_t depths[JOBS_MAX];
};

/* --- exhaustive --- */

static void count_outcome(const struct search *search, struct job *job,
                          struct orr__outcome outcome) {
    job->runs++;
    job->wrong += outcome.poisoned > 0 || outcome.hash != search->expected.hash;
}

static void run_orders(const struct search *search, struct job *job) {
    for (; job->quota > 0; job->quota--) {
        if (!orr__orders_next(&job->orders)) {
            job->is_exhausted = true;
            job->status = job->orders.status;
            return;
        }
        orr__order_run_first(&job->run, job->orders.before);
        count_outcome(search, job, orr__order_run_all(&job->run, job->run.order));
    }
}

/* Whether the part of the tree below a path of decisions has another decision. */
static enum orr_status has_decision(const struct search *search, const bool *path, uint32_t depth,
                                    bool *out_has) {
    struct orr__orders orders;
    enum orr_status status = orr__orders_open(&orders, search->plan);
    *out_has = false;
    if (status != ORR_OK)
        return status;
    bool longer[JOB_DEPTH_MAX + 1] = {false};
    uint32_t made;
    memcpy(longer, path, depth);
    orr__orders_restrict(&orders, longer, depth + 1, &made);
    *out_has = made == depth + 1;
    status = orders.status;
    orr__orders_close(&orders);
    return status;
}

/* Puts the two halves of part `index` in its place. */
static void split_part(struct search *search, uint32_t index) {
    for (uint32_t i = search->job_count; i > index + 1; i--) {
        memcpy(search->reversed[i], search->reversed[i - 1], JOB_DEPTH_MAX);
        search->depths[i] = search->depths[i - 1];
    }
    search->job_count++;
    memcpy(search->reversed[index + 1], search->reversed[index], JOB_DEPTH_MAX);
    search->reversed[index][search->depths[index]] = false;
    search->reversed[index + 1][search->depths[index]] = true;
    search->depths[index + 1] = ++search->depths[index];
}

/* Cuts the tree of decisions into parts, always the shallowest, first of those. */
static enum orr_status split_tree(struct search *search) {
    search->job_count = 1;
    if (search->plan->conflict_count <= FEW_CONFLICTS)
        return ORR_OK;
    uint32_t jobs_max = search->plan->words > 4 ? 8 : JOBS_MAX;
    for (uint32_t depth = 0; depth < JOB_DEPTH_MAX; depth++) {
        for (uint32_t i = 0; i < search->job_count && search->job_count < jobs_max; i++) {
            bool has;
            if (search->depths[i] != depth)
                continue;
            enum orr_status status = has_decision(search, search->reversed[i], depth, &has);
            if (status != ORR_OK)
                return status;
            if (has)
                split_part(search, i++); /* both halves are one deeper */
        }
    }
    return ORR_OK;
}

static enum orr_status open_part(const struct search *search, struct job *job, uint32_t index) {
    enum orr_status status = orr__orders_open(&job->orders, search->plan);
    if (status != ORR_OK)
        return status;
    uint32_t made;
    orr__orders_restrict(&job->orders, search->reversed[index], search->depths[index], &made);
    return job->orders.status;
}

/* --- by a strategy --- */

static bool is_ready(const struct search *search, const struct job *job, uint32_t action) {
    const uint64_t *row = search->plan->before + (size_t)action * search->plan->words;
    for (uint32_t i = 0; i < search->plan->words; i++)
        if (row[i] & ~job->done[i])
            return false;
    return true;
}

/* One run: every actor's next action can go once what comes before it is done. */
static void run_once(const struct search *search, struct job *job) {
    const struct orr__order_plan *plan = search->plan;
    memcpy(job->heads, search->first_of_actor, plan->actor_count * sizeof *job->heads);
    memset(job->done, 0, plan->words * sizeof *job->done);
    orr__strategy_begin(&job->strategy, job->next_run);
    for (uint32_t i = 0; i < plan->action_count; i++) {
        uint32_t count = 0;
        for (uint32_t actor = 0; actor < plan->actor_count; actor++)
            if (job->heads[actor] != ORR_NONE && is_ready(search, job, job->heads[actor]))
                job->enabled[count++] = actor;
        assert(count > 0);
        uint32_t actor = job->enabled[orr__strategy_pick(&job->strategy, job->enabled, count)];
        uint32_t action = job->heads[actor];
        job->heads[actor] = search->next_of_action[action];
        job->done[action / 64] |= 1ull << (action % 64);
        job->run.order[i] = action;
        job->positions[action] = i;
    }
    for (uint32_t i = 0; i < plan->conflict_count; i++)
        if (job->positions[plan->conflicts[i].b] < job->positions[plan->conflicts[i].a])
            job->seen[i / 64] |= 1ull << (i % 64);
}

static void run_strategy(const struct search *search, struct job *job) {
    for (; job->quota > 0; job->quota--) {
        run_once(search, job);
        count_outcome(search, job, orr__order_run_all(&job->run, job->run.order));
        job->next_run += search->job_count;
    }
}

static enum orr_status open_strategy(const struct search *search, struct job *job, uint32_t index) {
    const struct orr__order_plan *plan = search->plan;
    const struct orr_memory *memory = plan->memory;
    enum orr_status status = orr__strategy_open(&job->strategy, memory, plan->actor_count);
    if (status != ORR_OK)
        return status;
    job->strategy.is_pct = search->options->strategy == ORR_EXPLORE_PCT;
    job->strategy.depth = search->options->depth;
    job->strategy.seed = search->options->seed;
    job->strategy.step_max = plan->action_count > 0 ? plan->action_count : 1;
    job->next_run = index;
    job->done = orr_memory_alloc(memory, plan->words * sizeof *job->done);
    job->seen = orr_memory_alloc(memory, (plan->conflict_count / 64 + 1) * sizeof *job->seen);
    job->heads = orr_memory_alloc(memory, plan->actor_count * sizeof *job->heads);
    job->enabled = orr_memory_alloc(memory, plan->actor_count * sizeof *job->enabled);
    job->positions = orr_memory_alloc(memory, plan->action_count * sizeof *job->positions);
    return job->done && job->seen && job->heads && job->enabled && job->positions ? ORR_OK
                                                                                  : ORR_NO_MEMORY;
}

/* --- jobs --- */

static void work(void *context, uint32_t index) {
    struct search *search = context;
    struct job *job = &search->jobs[index];
    if (job->quota == 0)
        return;
    if (search->options->strategy == ORR_EXPLORE_DPOR)
        run_orders(search, job);
    else
        run_strategy(search, job);
}

static enum orr_status open_jobs(struct search *search) {
    bool is_dpor = search->options->strategy == ORR_EXPLORE_DPOR;
    enum orr_status status = ORR_OK;
    search->job_count = JOBS_MAX;
    if (is_dpor)
        status = split_tree(search);
    else if (search->options->budget < JOBS_MAX)
        search->job_count = 1;
    if (status != ORR_OK)
        return status;
    search->jobs = orr_memory_alloc(search->plan->memory, search->job_count * sizeof *search->jobs);
    if (!search->jobs)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; status == ORR_OK && i < search->job_count; i++) {
        struct job *job = &search->jobs[i];
        status = orr__order_run_open(&job->run, search->plan);
        if (status == ORR_OK)
            status = is_dpor ? open_part(search, job, i) : open_strategy(search, job, i);
    }
    return status;
}

static void close_jobs(struct search *search) {
    const struct orr_memory *memory = search->plan->memory;
    for (uint32_t i = 0; search->jobs && i < search->job_count; i++) {
        struct job *job = &search->jobs[i];
        orr__order_run_close(&job->run);
        orr__orders_close(&job->orders);
        orr__strategy_close(&job->strategy);
        orr_memory_free(memory, job->done);
        orr_memory_free(memory, job->seen);
        orr_memory_free(memory, job->heads);
        orr_memory_free(memory, job->enabled);
        orr_memory_free(memory, job->positions);
    }
    orr_memory_free(memory, search->jobs);
}

/* Gives what is left of the budget to the jobs that are not exhausted; false if none is left. */
static bool hand_out(struct search *search, uint64_t left) {
    uint32_t active = 0;
    for (uint32_t i = 0; i < search->job_count; i++)
        active += !search->jobs[i].is_exhausted;
    if (active == 0 || left == 0)
        return false;
    uint64_t share = left / active, rest = left % active;
    for (uint32_t i = 0; i < search->job_count; i++) {
        struct job *job = &search->jobs[i];
        job->quota = 0;
        if (job->is_exhausted)
            continue;
        job->quota = share + (rest > 0);
        rest -= rest > 0;
        job->quota = job->quota > ROUND_RUNS ? ROUND_RUNS : job->quota;
    }
    return true;
}

static enum orr_status run_jobs(struct search *search, struct orr_exploration *exploration) {
    const struct orr_explore_options *options = search->options;
    enum orr_status status = ORR_OK;
    bool is_exhausted = false;
    while (status == ORR_OK && hand_out(search, options->budget - exploration->runs)) {
        orr__pool_run(options->threads, search->job_count, work, search);
        exploration->runs = exploration->wrong = 0;
        is_exhausted = true;
        for (uint32_t i = 0; i < search->job_count; i++) {
            exploration->runs += search->jobs[i].runs;
            exploration->wrong += search->jobs[i].wrong;
            is_exhausted = is_exhausted && search->jobs[i].is_exhausted;
            status = status == ORR_OK ? search->jobs[i].status : status;
        }
        if (options->progress)
            options->progress(options->progress_context, exploration->runs);
    }
    exploration->is_capped = !is_exhausted;
    return status;
}

/* --- findings --- */

/* By happens-before, or, for a strategy, by what its runs have shown. */
static bool is_found(const struct search *search, const struct orr__order_finding *finding) {
    const struct orr__order_plan *plan = search->plan;
    if (search->options->strategy == ORR_EXPLORE_DPOR || finding->action_a == ORR_NONE)
        return true;
    for (uint32_t i = 0; i < plan->conflict_count; i++)
        if (plan->conflicts[i].a == finding->action_a && plan->conflicts[i].b == finding->action_b)
            for (uint32_t k = 0; k < search->job_count; k++)
                if (search->jobs[k].seen[i / 64] >> (i % 64) & 1)
                    return true;
    return false;
}

static enum orr_status report(const struct search *search, struct orr_exploration *exploration) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < search->plan->finding_count; i++) {
        const struct orr__order_finding *found = &search->plan->findings[i];
        if (!is_found(search, found))
            continue;
        struct orr_explore_finding *finding =
            orr__exploration_add(exploration, found->kind, found->op_a, found->op_b);
        if (!finding)
            return ORR_NO_MEMORY;
        if (exploration->finding_count <= search->options->witnesses)
            status = orr__order_witness(search->plan, found, finding);
        if (status == ORR_OK)
            status = orr__order_message(search->plan, found, finding);
    }
    return status;
}

static void decide_verdict(const struct search *search, struct orr_exploration *exploration) {
    const struct orr__order_plan *plan = search->plan;
    bool is_dpor = search->options->strategy == ORR_EXPLORE_DPOR;
    if (exploration->finding_count > 0) {
        exploration->verdict = exploration->findings[0].kind;
    } else if (plan->invalid_op != ORR_NONE) {
        exploration->verdict = ORR_CHECK_INVALID;
        snprintf(
            exploration->message, sizeof exploration->message, "ops[%u]: %s %s", plan->invalid_op,
            orr_stream_op_text((enum orr_stream_op_kind)plan->program->ops[plan->invalid_op].kind),
            plan->invalid);
    } else {
        exploration->verdict = is_dpor ? ORR_CHECK_NO_RACE : ORR_CHECK_UNKNOWN;
    }
    exploration->orders = is_dpor ? exploration->runs : 0;
}

/* --- all --- */

static enum orr_status link_actions(struct search *search) {
    const struct orr__order_plan *plan = search->plan;
    search->first_of_actor =
        orr_memory_alloc(plan->memory, plan->actor_count * sizeof *search->first_of_actor);
    search->next_of_action =
        orr_memory_alloc(plan->memory, plan->action_count * sizeof *search->next_of_action);
    if (!search->first_of_actor || !search->next_of_action)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < plan->actor_count; i++)
        search->first_of_actor[i] = ORR_NONE;
    for (uint32_t i = plan->action_count; i-- > 0;) {
        search->next_of_action[i] = search->first_of_actor[plan->actions[i].actor];
        search->first_of_actor[plan->actions[i].actor] = i;
    }
    return ORR_OK;
}

static enum orr_status run_reference(struct search *search) {
    struct orr__order_run run;
    enum orr_status status = orr__order_run_open(&run, search->plan);
    if (status != ORR_OK)
        return status;
    for (uint32_t i = 0; i < search->plan->action_count; i++)
        run.order[i] = i;
    search->expected = orr__order_run_all(&run, run.order);
    orr__order_run_close(&run);
    return ORR_OK;
}

enum orr_status orr__explore_order(const struct orr_stream_program *program,
                                   const struct orr_explore_options *options,
                                   struct orr_exploration *exploration, struct orr_error *error) {
    struct orr__order_plan *plan;
    enum orr_status status = orr__order_plan_create(program, &plan, error);
    if (status != ORR_OK)
        return status;
    struct search search = {.plan = plan, .options = options};
    status = link_actions(&search);
    if (status == ORR_OK)
        status = run_reference(&search);
    if (status == ORR_OK)
        status = open_jobs(&search);
    if (status == ORR_OK)
        status = run_jobs(&search, exploration);
    if (status == ORR_OK)
        status = report(&search, exploration);
    if (status == ORR_OK)
        decide_verdict(&search, exploration);
    close_jobs(&search);
    orr_memory_free(plan->memory, search.first_of_actor);
    orr_memory_free(plan->memory, search.next_of_action);
    orr__order_plan_destroy(&plan);
    return status;
}
