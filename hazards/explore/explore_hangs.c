#include <string.h>

#include "hazards/explore/explore.h"
#include "hazards/explore/hang_witness.h"
#include "hazards/explore/interleavings.h"
#include "hazards/explore/strategy.h"

/* Exploration of whether hosts and streams get stuck. Every end that differs from those before is a
 * finding. */

enum { FINDINGS_MAX = 64, PROGRESS_RUNS = 1 << 14 };

struct search {
    const struct orr_explore_options *options;
    struct orr__interleavings runs;
    struct orr__strategy strategy;
    struct orr_exploration *exploration;
    struct orr__hang_end ends[FINDINGS_MAX]; /* of the findings */
};

static bool is_known(const struct search *search, const struct orr__hang_end *end) {
    for (uint32_t i = 0; i < search->exploration->finding_count; i++)
        if (orr__hang_end_is(&search->ends[i], end, search->runs.plan->actor_count))
            return true;
    return false;
}

/* The current run got stuck. */
static enum orr_status note_end(struct search *search) {
    const struct orr__queue_plan *plan = search->runs.plan;
    uint32_t index = search->exploration->finding_count;
    struct orr__hang_end end;
    search->exploration->stuck++;
    if (index == FINDINGS_MAX)
        return ORR_OK;
    enum orr_status status = orr__hang_end_take(&search->runs, &end);
    if (status != ORR_OK || is_known(search, &end)) {
        orr__hang_end_clear(&end, plan->memory);
        return status;
    }
    struct orr_explore_finding *finding =
        orr__exploration_add(search->exploration, end.kind, end.op_a, end.op_b);
    if (!finding) {
        orr__hang_end_clear(&end, plan->memory);
        return ORR_NO_MEMORY;
    }
    search->ends[index] = end;
    status = orr__hang_store(&search->runs, finding);
    if (status == ORR_OK && index < search->options->witnesses)
        status = orr__hang_minimize(plan, search->runs.state, &end, finding);
    return status;
}

/* Makes the next run; false after the last. */
static bool next_run(struct search *search) {
    if (search->options->strategy == ORR_EXPLORE_DPOR)
        return orr__interleavings_next(&search->runs);
    orr__strategy_begin(&search->strategy, search->exploration->runs);
    orr__interleavings_run(&search->runs, &search->strategy);
    return true;
}

static enum orr_status run_all(struct search *search) {
    struct orr_exploration *exploration = search->exploration;
    const struct orr_explore_options *options = search->options;
    enum orr_status status = ORR_OK;
    while (status == ORR_OK) {
        uint64_t begun = exploration->runs + exploration->given_up;
        if (begun == options->budget) {
            exploration->is_capped = true;
            break;
        }
        if (options->progress && begun % PROGRESS_RUNS == PROGRESS_RUNS - 1)
            options->progress(options->progress_context, begun);
        if (!next_run(search)) {
            status = search->runs.status;
            break;
        }
        if (search->runs.is_given_up) {
            exploration->given_up++;
            continue;
        }
        exploration->runs++;
        uint32_t a, b;
        if (orr__interleavings_end(&search->runs, &a, &b) != ORR_CHECK_NO_HANG)
            status = note_end(search);
    }
    return status;
}

static void decide_verdict(struct orr_exploration *exploration, bool is_dpor) {
    exploration->orders = is_dpor ? exploration->runs : 0;
    exploration->verdict =
        is_dpor && !exploration->is_capped ? ORR_CHECK_NO_HANG : ORR_CHECK_UNKNOWN;
    for (uint32_t i = 0; i < exploration->finding_count; i++)
        if (exploration->findings[i].kind == ORR_CHECK_MISMATCH ||
            exploration->verdict != ORR_CHECK_MISMATCH)
            exploration->verdict = exploration->findings[i].kind;
}

static enum orr_status open_search(struct search *search, const struct orr__queue_plan *plan) {
    const struct orr_explore_options *options = search->options;
    enum orr_status status = orr__interleavings_open(&search->runs, plan);
    if (status == ORR_OK)
        status = orr__strategy_open(&search->strategy, plan->memory, plan->actor_count);
    search->strategy.is_pct = options->strategy == ORR_EXPLORE_PCT;
    search->strategy.depth = options->depth;
    search->strategy.seed = options->seed;
    search->strategy.step_max = plan->step_max > 0 ? plan->step_max : 1;
    return status;
}

/* A program that can't be what it says is a verdict. */
static enum orr_status judge_invalid(struct orr_exploration *exploration,
                                     const struct orr_error *found) {
    exploration->verdict = ORR_CHECK_INVALID;
    size_t length = strlen(found->text);
    length = length < sizeof exploration->message ? length : sizeof exploration->message - 1;
    memcpy(exploration->message, found->text, length);
    return ORR_OK;
}

enum orr_status orr__explore_hangs(const struct orr_stream_program *program,
                                   const struct orr_explore_options *options,
                                   struct orr_exploration *exploration, struct orr_error *error) {
    struct orr__queue_plan *plan;
    struct orr_error found = {0};
    enum orr_status status = orr__queue_plan_create(program, &plan, &found);
    if (status == ORR_INVALID)
        return judge_invalid(exploration, &found);
    if (status != ORR_OK)
        return found.status == ORR_OK ? status : orr_error_set(error, status, "%s", found.text);
    struct search search = {.options = options, .exploration = exploration};
    status = open_search(&search, plan);
    if (status == ORR_OK)
        status = run_all(&search);
    if (status == ORR_OK)
        decide_verdict(exploration, options->strategy == ORR_EXPLORE_DPOR);
    for (uint32_t i = 0; i < exploration->finding_count; i++)
        orr__hang_end_clear(&search.ends[i], plan->memory);
    orr__strategy_close(&search.strategy);
    orr__interleavings_close(&search.runs);
    orr__queue_plan_destroy(&plan);
    return status;
}
