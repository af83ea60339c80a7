#include "hazards/explore/interleavings.h"

#include <assert.h>
#include <string.h>

enum { BRANCHES_MAX = 1 << 20 };

struct orr__branch {
    uint32_t *state;      /* owned */
    uint32_t *candidates; /* actors; owned */
    bool *sleep;          /* owned */
    uint32_t count, next, step_count;
};

enum orr_status orr__interleavings_open(struct orr__interleavings *search,
                                        const struct orr__queue_plan *plan) {
    const struct orr_memory *memory = plan->memory;
    uint32_t actors = plan->actor_count;
    *search = (struct orr__interleavings){.plan = plan};
    search->state = orr_memory_alloc(memory, plan->at.words * sizeof *search->state);
    search->steps = orr_memory_alloc(memory, plan->step_max * sizeof *search->steps);
    search->sleep = orr_memory_alloc(memory, actors);
    search->others = orr_memory_alloc(memory, actors);
    search->group = orr_memory_alloc(memory, actors);
    search->enabled = orr_memory_alloc(memory, actors * sizeof *search->enabled);
    if (search->state && search->steps && search->sleep && search->others && search->group &&
        search->enabled)
        return ORR_OK;
    orr__interleavings_close(search);
    return ORR_NO_MEMORY;
}

void orr__interleavings_close(struct orr__interleavings *search) {
    if (!search->plan)
        return;
    const struct orr_memory *memory = search->plan->memory;
    for (uint32_t i = 0; i < search->branch_opened; i++) {
        orr_memory_free(memory, search->branches[i].state);
        orr_memory_free(memory, search->branches[i].candidates);
        orr_memory_free(memory, search->branches[i].sleep);
    }
    orr_memory_free(memory, search->branches);
    orr_memory_free(memory, search->state);
    orr_memory_free(memory, search->steps);
    orr_memory_free(memory, search->sleep);
    orr_memory_free(memory, search->others);
    orr_memory_free(memory, search->group);
    orr_memory_free(memory, search->enabled);
    *search = (struct orr__interleavings){0};
}

static uint32_t find_enabled(struct orr__interleavings *search) {
    uint32_t count = 0;
    for (uint32_t actor = 0; actor < search->plan->actor_count; actor++)
        if (orr__queue_can(search->plan, search->state, actor))
            search->enabled[count++] = actor;
    return count;
}

static void step(struct orr__interleavings *search, uint32_t actor) {
    assert(search->step_count < search->plan->step_max);
    orr__queue_next(search->plan, search->state, actor, &search->steps[search->step_count++]);
    orr__queue_step(search->plan, search->state, actor);
}

static bool has_met(const struct orr__interleavings *search) {
    uint32_t a, b;
    return orr__queue_mismatch(search->plan, search->state, &a, &b);
}

/* --- persistent sets --- */

static bool is_enabled(const struct orr__interleavings *search, uint32_t count, uint32_t actor) {
    for (uint32_t i = 0; i < count; i++)
        if (search->enabled[i] == actor)
            return true;
    return false;
}

/* The actors that disturb `seed`, those that disturb them, ...: their number, 0 if one of them
 * can't go now, as it may be any other's step that lets it. Marks them in search->group. */
static uint32_t close_group(struct orr__interleavings *search, uint32_t enabled, uint32_t seed) {
    uint32_t actors = search->plan->actor_count, size = 0, before;
    bool *looked_at = search->others;
    memset(search->group, 0, actors);
    search->group[seed] = true;
    do {
        before = size;
        size = 0;
        for (uint32_t actor = 0; actor < actors; actor++) {
            if (!search->group[actor])
                continue;
            size++;
            memset(looked_at, 0, actors);
            if (!orr__queue_disturbers(search->plan, search->state, actor, looked_at))
                continue;
            for (uint32_t i = 0; i < actors; i++) {
                if (looked_at[i] && !is_enabled(search, enabled, i))
                    return 0;
                search->group[i] = search->group[i] || looked_at[i];
            }
        }
    } while (size != before);
    return size;
}

/* Leaves a persistent set at the beginning of search->enabled and returns its size. */
static uint32_t choose(struct orr__interleavings *search, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!orr__queue_disturbers(search->plan, search->state, search->enabled[i],
                                   search->others)) {
            search->enabled[0] = search->enabled[i];
            return 1;
        }
    }
    uint32_t best = count, best_seed = ORR_NONE;
    for (uint32_t i = 0; i < count && best > 2; i++) {
        uint32_t size = close_group(search, count, search->enabled[i]);
        if (size > 0 && size < best) {
            best = size;
            best_seed = search->enabled[i];
        }
    }
    if (best_seed == ORR_NONE)
        return count;
    close_group(search, count, best_seed);
    best = 0;
    for (uint32_t actor = 0; actor < search->plan->actor_count; actor++)
        if (search->group[actor])
            search->enabled[best++] = actor;
    return best;
}

/* --- depth first --- */

static bool open_branch(struct orr__interleavings *search) {
    const struct orr_memory *memory = search->plan->memory;
    if (search->branch_count < search->branch_opened)
        return true;
    search->status =
        orr_memory_grow(memory, &search->branches, &search->branch_capacity,
                        (size_t)search->branch_count + 1, sizeof *search->branches, BRANCHES_MAX);
    if (search->status != ORR_OK)
        return false;
    uint32_t actors = search->plan->actor_count;
    struct orr__branch *branch = &search->branches[search->branch_opened++];
    branch->state = orr_memory_alloc(memory, search->plan->at.words * sizeof *branch->state);
    branch->candidates = orr_memory_alloc(memory, actors * sizeof *branch->candidates);
    branch->sleep = orr_memory_alloc(memory, actors);
    if (!branch->state || !branch->candidates || !branch->sleep)
        search->status = ORR_NO_MEMORY;
    return search->status == ORR_OK;
}

/* Takes the next candidate of the last branch. */
static void take(struct orr__interleavings *search) {
    struct orr__branch *branch = &search->branches[search->branch_count - 1];
    uint32_t actor = branch->candidates[branch->next++];
    if (branch->next == branch->count)
        search->branch_count--; /* the last: nothing to come back for */
    memcpy(search->state, branch->state, search->plan->at.words * sizeof *search->state);
    search->step_count = branch->step_count;
    for (uint32_t i = 0; i < search->plan->actor_count; i++)
        search->sleep[i] =
            branch->sleep[i] && !orr__queue_depends(search->plan, branch->state, i, actor);
    branch->sleep[actor] = true;
    step(search, actor);
}

/* From a state with several steps to try: keeps what is needed to come back, takes the first. */
static bool branch_out(struct orr__interleavings *search, uint32_t count) {
    if (!open_branch(search))
        return false;
    struct orr__branch *branch = &search->branches[search->branch_count++];
    memcpy(branch->state, search->state, search->plan->at.words * sizeof *branch->state);
    memcpy(branch->candidates, search->enabled, count * sizeof *branch->candidates);
    memcpy(branch->sleep, search->sleep, search->plan->actor_count);
    branch->count = count;
    branch->next = 0;
    branch->step_count = search->step_count;
    take(search);
    return true;
}

static bool run(struct orr__interleavings *search) {
    for (;;) {
        uint32_t count = has_met(search) ? 0 : find_enabled(search);
        if (count == 0)
            return true;
        count = choose(search, count);
        uint32_t awake = 0;
        for (uint32_t i = 0; i < count; i++)
            if (!search->sleep[search->enabled[i]])
                search->enabled[awake++] = search->enabled[i];
        if (awake == 0) {
            search->is_given_up = true;
            return true;
        }
        if (count == 1)
            step(search, search->enabled[0]); /* disturbs nobody: who sleeps goes on sleeping */
        else if (!branch_out(search, awake))
            return false;
    }
}

bool orr__interleavings_next(struct orr__interleavings *search) {
    if (search->status != ORR_OK)
        return false;
    search->is_given_up = false;
    if (!search->is_started) {
        search->is_started = true;
        search->step_count = 0;
        memset(search->sleep, 0, search->plan->actor_count);
        orr__queue_reset(search->plan, search->state);
    } else if (search->branch_count == 0) {
        return false;
    } else {
        take(search);
    }
    return run(search);
}

/* --- by a strategy --- */

void orr__interleavings_run(struct orr__interleavings *search, struct orr__strategy *strategy) {
    orr__queue_reset(search->plan, search->state);
    search->step_count = 0;
    search->is_given_up = false;
    for (;;) {
        uint32_t count = has_met(search) ? 0 : find_enabled(search);
        if (count == 0)
            return;
        step(search, search->enabled[orr__strategy_pick(strategy, search->enabled, count)]);
    }
}

void orr__interleavings_follow(struct orr__interleavings *search,
                               const struct orr_schedule_step *steps, uint32_t count,
                               const uint32_t *op_of) {
    orr__queue_reset(search->plan, search->state);
    search->step_count = 0;
    search->is_given_up = false;
    for (uint32_t i = 0; i < count && !has_met(search); i++) {
        struct orr_schedule_step next;
        if (orr__queue_next(search->plan, search->state, steps[i].actor, &next) &&
            op_of[next.op] == steps[i].op && next.what == steps[i].what &&
            orr__queue_can(search->plan, search->state, steps[i].actor))
            step(search, steps[i].actor);
    }
    while (!has_met(search) && find_enabled(search) > 0)
        step(search, search->enabled[0]);
}

enum orr_check_verdict_kind orr__interleavings_end(const struct orr__interleavings *search,
                                                   uint32_t *out_a, uint32_t *out_b) {
    *out_a = *out_b = ORR_NONE;
    if (orr__queue_mismatch(search->plan, search->state, out_a, out_b))
        return ORR_CHECK_MISMATCH;
    return orr__queue_is_done(search->plan, search->state) ? ORR_CHECK_NO_HANG : ORR_CHECK_HANG;
}
