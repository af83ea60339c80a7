#include <string.h>

#include "hazards/explore/explore.h"
#include "hazards/explore/interleavings.h"
#include "hazards/explore/minimize.h"
#include "hazards/explore/order_run.h"

/* Runs a saved schedule again: on the part of the program that it kept, step by step. */

static const char *actor_text(const struct orr_stream_program *program, uint32_t actor) {
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    return actor < streams ? orr_stream_program_text(program, ORR_NAME_STREAM, actor)
                           : orr_stream_program_text(program, ORR_NAME_HOST, actor - streams);
}

static enum orr_status does_not_fit(const struct orr_stream_program *program,
                                    const struct orr_schedule *schedule, uint32_t step,
                                    const char *why, struct orr_error *error) {
    char op[160];
    orr_stream_op_short(program, schedule->steps[step].op, op, sizeof op);
    return orr_error_set(
        error, ORR_INVALID, "schedule no longer fits: step %u wants op %u '%s' on %s, %s", step + 1,
        schedule->steps[step].op, op, actor_text(program, schedule->steps[step].actor), why);
}

/* --- memory --- */

static uint32_t find_action(const struct orr__order_plan *plan, uint32_t op, uint32_t actor) {
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].op == op && plan->actions[i].actor == actor)
            return i;
    return ORR_NONE;
}

static bool is_next(const struct orr__order_run *run, uint32_t action) {
    const uint64_t *row = run->plan->before + (size_t)action * run->plan->words;
    for (uint32_t i = 0; i < run->plan->words; i++)
        if (row[i] & ~run->done[i])
            return false;
    return true;
}

static enum orr_status order_steps(const struct orr__part *part,
                                   const struct orr_schedule *schedule, struct orr__order_run *run,
                                   struct orr_error *error) {
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const struct orr_schedule_step *step = &schedule->steps[i];
        uint32_t op = orr__part_index(part, step->op);
        uint32_t action = op == ORR_NONE ? ORR_NONE : find_action(run->plan, op, step->actor);
        if (action == ORR_NONE)
            return does_not_fit(part->whole, schedule, i, "where it does nothing", error);
        if (run->done[action / 64] >> (action % 64) & 1)
            return does_not_fit(part->whole, schedule, i, "which has been done", error);
        if (!is_next(run, action))
            return does_not_fit(part->whole, schedule, i,
                                "but something that comes before it has not been done", error);
        run->done[action / 64] |= 1ull << (action % 64);
        run->order[i] = action;
    }
    if (schedule->step_count != run->plan->action_count)
        return orr_error_set(error, ORR_INVALID,
                             "schedule no longer fits: it has %u steps, the operations that it "
                             "keeps take %u",
                             schedule->step_count, run->plan->action_count);
    return ORR_OK;
}

static enum orr_status replay_order(const struct orr__part *part,
                                    const struct orr_schedule *schedule,
                                    struct orr_replay_result *result, struct orr_error *error) {
    struct orr__order_plan *plan;
    struct orr__order_run run = {0};
    enum orr_status status = orr__order_plan_create(part->program, &plan, error);
    if (status != ORR_OK)
        return status;
    status = orr__order_run_open(&run, plan);
    if (status == ORR_OK && schedule->step_count > plan->action_count)
        status = orr_error_set(error, ORR_INVALID,
                               "schedule no longer fits: it has %u steps, the operations that it "
                               "keeps take %u",
                               schedule->step_count, plan->action_count);
    if (status == ORR_OK)
        status = order_steps(part, schedule, &run, error);
    if (status == ORR_OK) {
        struct orr__outcome outcome = orr__order_run_all(&run, run.order);
        result->kind = ORR_CHECK_NO_RACE;
        result->outcome = outcome.hash;
        result->poisoned = outcome.poisoned;
        for (uint32_t i = 0; i < plan->action_count; i++)
            run.order[i] = i;
        result->expected = orr__order_run_all(&run, run.order).hash;
    }
    orr__order_run_close(&run);
    orr__order_plan_destroy(&plan);
    return status;
}

/* --- hangs --- */

static enum orr_status make_steps(const struct orr__part *part, const struct orr_schedule *schedule,
                                  const struct orr__queue_plan *plan, uint32_t *state,
                                  struct orr_error *error) {
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const struct orr_schedule_step *step = &schedule->steps[i];
        struct orr_schedule_step next;
        uint32_t a, b;
        if (step->actor >= plan->actor_count || !orr__queue_next(plan, state, step->actor, &next))
            return does_not_fit(part->whole, schedule, i, "which has nothing left to do", error);
        if (part->ops[next.op] != step->op || next.what != step->what)
            return does_not_fit(part->whole, schedule, i, "whose next step is another", error);
        if (!orr__queue_can(plan, state, step->actor) || orr__queue_mismatch(plan, state, &a, &b))
            return does_not_fit(part->whole, schedule, i, "which can't go on", error);
        orr__queue_step(plan, state, step->actor);
    }
    return ORR_OK;
}

static enum orr_check_verdict_kind judge_state(const struct orr__queue_plan *plan,
                                               const uint32_t *state) {
    uint32_t a, b;
    if (orr__queue_mismatch(plan, state, &a, &b))
        return ORR_CHECK_MISMATCH;
    for (uint32_t actor = 0; actor < plan->actor_count; actor++)
        if (orr__queue_can(plan, state, actor))
            return ORR_CHECK_UNKNOWN; /* it goes on */
    return orr__queue_is_done(plan, state) ? ORR_CHECK_NO_HANG : ORR_CHECK_HANG;
}

static enum orr_status replay_hang(const struct orr__part *part,
                                   const struct orr_schedule *schedule,
                                   struct orr_replay_result *result, struct orr_error *error) {
    struct orr__queue_plan *plan;
    enum orr_status status = orr__queue_plan_create(part->program, &plan, error);
    if (status != ORR_OK)
        return status;
    uint32_t *state = orr_memory_alloc(plan->memory, plan->at.words * sizeof *state);
    status = state ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        orr__queue_reset(plan, state);
        status = make_steps(part, schedule, plan, state, error);
    }
    if (status == ORR_OK) {
        result->kind = judge_state(plan, state);
        result->outcome = orr__queue_hash_blocked(plan, state, part->ops);
    }
    orr_memory_free(plan->memory, state);
    orr__queue_plan_destroy(&plan);
    return status;
}

enum orr_status orr_schedule_replay(const struct orr_stream_program *program,
                                    const struct orr_schedule *schedule,
                                    struct orr_replay_result *out_result, struct orr_error *error) {
    *out_result = (struct orr_replay_result){.kind = ORR_CHECK_UNKNOWN};
    bool *keep = orr_memory_alloc(program->memory, program->op_count);
    if (!keep)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < schedule->kept_count; i++)
        keep[schedule->kept[i]] = true;
    struct orr__part part = {0};
    enum orr_status status = orr__part_open(&part, program, keep);
    if (status == ORR_OK)
        status = program->oracle == ORR_ORACLE_HANG
                     ? replay_hang(&part, schedule, out_result, error)
                     : replay_order(&part, schedule, out_result, error);
    orr__part_close(&part);
    orr_memory_free(program->memory, keep);
    return status;
}
