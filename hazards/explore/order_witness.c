#include "hazards/explore/order_witness.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hazards/explore/minimize.h"
#include "hazards/explore/orders.h"

enum { ORDERS_TRIED = 4096, ORDERS_TRIED_OF_PART = 256 };

/* --- schedules that need no search --- */

enum place { PLACE_WHERE_IT_STOOD, PLACE_LATE, PLACE_EARLY, PLACES };

static bool is_early(const struct orr__order_plan *plan, const struct orr__order_finding *pair,
                     uint32_t action, enum place place) {
    uint32_t a = pair->action_a, b = pair->action_b;
    if (action == a || action == b)
        return false;
    if (place == PLACE_EARLY)
        return orr__plan_is_before(plan, action, a) || orr__plan_is_before(plan, action, b);
    return !orr__plan_is_before(plan, a, action) && !orr__plan_is_before(plan, b, action) &&
           (place == PLACE_LATE || action < b);
}

/* Everything that may come before the pair, b, a, the rest; each part in list order. */
static void turn_pair(const struct orr__order_plan *plan, const struct orr__order_finding *pair,
                      enum place place, uint32_t *order) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (is_early(plan, pair, i, place))
            order[count++] = i;
    order[count++] = pair->action_b;
    order[count++] = pair->action_a;
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (i != pair->action_a && i != pair->action_b && !is_early(plan, pair, i, place))
            order[count++] = i;
    assert(count == plan->action_count);
}

struct witness {
    bool is_wrong;
    struct orr__outcome expected, outcome; /* of the order in the run */
};

static bool is_wrong(const struct witness *witness) {
    return witness->outcome.poisoned > 0 || witness->outcome.hash != witness->expected.hash;
}

static enum orr_status try_orders(struct orr__order_run *run, const struct orr__order_finding *pair,
                                  uint32_t orders_max, struct witness *witness) {
    const struct orr__order_plan *plan = run->plan;
    struct orr__orders orders;
    enum orr_status status = orr__orders_open(&orders, plan);
    if (status != ORR_OK)
        return status;
    for (uint32_t i = 0; i < orders_max && orr__orders_next(&orders); i++) {
        if (!(orders.before[(size_t)pair->action_a * plan->words + pair->action_b / 64] >>
                  (pair->action_b % 64) &
              1))
            continue;
        orr__order_run_first(run, orders.before);
        witness->outcome = orr__order_run_all(run, run->order);
        witness->is_wrong = is_wrong(witness);
        if (witness->is_wrong)
            break;
    }
    status = orders.status;
    orr__orders_close(&orders);
    return status;
}

/* Leaves a schedule in run->order: one with wrong numbers if one was found, else the pair turned
 * where it stood. */
static enum orr_status find_schedule(struct orr__order_run *run,
                                     const struct orr__order_finding *pair, uint32_t orders_max,
                                     struct witness *witness) {
    const struct orr__order_plan *plan = run->plan;
    *witness = (struct witness){0};
    for (uint32_t i = 0; i < plan->action_count; i++)
        run->order[i] = i;
    witness->expected = witness->outcome = orr__order_run_all(run, run->order);
    if (pair->action_a == ORR_NONE) { /* in every schedule */
        witness->is_wrong = is_wrong(witness);
        return ORR_OK;
    }
    for (int place = 0; place < PLACES; place++) {
        turn_pair(plan, pair, (enum place)place, run->order);
        witness->outcome = orr__order_run_all(run, run->order);
        witness->is_wrong = is_wrong(witness);
        if (witness->is_wrong)
            return ORR_OK;
    }
    enum orr_status status = try_orders(run, pair, orders_max, witness);
    if (status == ORR_OK && !witness->is_wrong) {
        turn_pair(plan, pair, PLACE_WHERE_IT_STOOD, run->order);
        witness->outcome = orr__order_run_all(run, run->order);
    }
    return status;
}

/* --- the smallest part of the program --- */

struct wanted {
    const struct orr_stream_program *program;
    const struct orr__order_finding *found;
    bool must_be_wrong;
    struct orr_explore_finding *finding;
};

static const struct orr__order_finding *find_pair(const struct orr__order_plan *plan,
                                                  const struct orr__order_finding *found,
                                                  uint32_t op_a, uint32_t op_b) {
    for (uint32_t i = 0; i < plan->finding_count; i++) {
        const struct orr__order_finding *here = &plan->findings[i];
        if (here->op_a == op_a && here->op_b == op_b && here->kind == found->kind &&
            (here->action_a == ORR_NONE) == (found->action_a == ORR_NONE))
            return here;
    }
    return NULL;
}

static enum orr_status store_schedule(const struct orr__order_run *run,
                                      const struct witness *witness, const struct orr__part *part,
                                      struct orr_schedule *schedule) {
    const struct orr__order_plan *plan = run->plan;
    orr_schedule_clear(schedule, plan->memory);
    schedule->kept = orr_memory_alloc(plan->memory, part->op_count * sizeof *schedule->kept);
    schedule->steps = orr_memory_alloc(plan->memory, plan->action_count * sizeof *schedule->steps);
    if (!schedule->kept || !schedule->steps)
        return ORR_NO_MEMORY;
    memcpy(schedule->kept, part->ops, part->op_count * sizeof *part->ops);
    schedule->kept_count = part->op_count;
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct orr__action *action = &plan->actions[run->order[i]];
        schedule->steps[i] = (struct orr_schedule_step){
            .op = part->ops[action->op], .actor = action->actor, .what = ORR_STEP_RUN};
    }
    schedule->step_count = plan->action_count;
    schedule->expected = witness->expected.hash;
    schedule->outcome = witness->outcome.hash;
    schedule->poisoned = witness->outcome.poisoned;
    return ORR_OK;
}

/* Whether a part of the program still has the finding; keeps the schedule if it has. */
static enum orr_status has_finding(void *context, const struct orr__part *part, bool *out_has) {
    struct wanted *wanted = context;
    *out_has = false;
    uint32_t op_a = orr__part_index(part, wanted->found->op_a);
    uint32_t op_b = orr__part_index(part, wanted->found->op_b);
    if (op_a == ORR_NONE || op_b == ORR_NONE)
        return ORR_OK;
    struct orr__order_plan *plan;
    enum orr_status status = orr__order_plan_create(part->program, &plan, NULL);
    if (status != ORR_OK)
        return status;
    const struct orr__order_finding *pair = find_pair(plan, wanted->found, op_a, op_b);
    struct orr__order_run run = {0};
    if (pair && plan->invalid_op == ORR_NONE) {
        struct witness witness;
        status = orr__order_run_open(&run, plan);
        if (status == ORR_OK)
            status = find_schedule(&run, pair, ORDERS_TRIED_OF_PART, &witness);
        *out_has = status == ORR_OK && witness.is_wrong == wanted->must_be_wrong;
        if (*out_has)
            status = store_schedule(&run, &witness, part, &wanted->finding->schedule);
    }
    orr__order_run_close(&run);
    orr__order_plan_destroy(&plan);
    return status;
}

enum orr_status orr__order_witness(const struct orr__order_plan *plan,
                                   const struct orr__order_finding *found,
                                   struct orr_explore_finding *finding) {
    struct orr__order_run run;
    struct witness witness;
    enum orr_status status = orr__order_run_open(&run, plan);
    if (status == ORR_OK)
        status = find_schedule(&run, found, ORDERS_TRIED, &witness);
    struct orr__part whole = {0};
    if (status == ORR_OK)
        status = orr__part_open_whole(&whole, plan->program);
    if (status == ORR_OK)
        status = store_schedule(&run, &witness, &whole, &finding->schedule);
    orr__part_close(&whole);
    orr__order_run_close(&run);
    if (status != ORR_OK)
        return status;
    finding->shows_wrong = witness.is_wrong;
    struct wanted wanted = {plan->program, found, witness.is_wrong, finding};
    return orr__minimize(plan->program, NULL, has_finding, &wanted);
}

/* --- text --- */

enum orr_status orr__order_message(const struct orr__order_plan *plan,
                                   const struct orr__order_finding *found,
                                   struct orr_explore_finding *finding) {
    char a[128], b[128], text[1024];
    orr_stream_op_short(plan->program, found->op_a, a, sizeof a);
    orr_stream_op_short(plan->program, found->op_b, b, sizeof b);
    const char *buffer = orr_stream_program_text(plan->program, ORR_NAME_BUFFER, found->buffer);
    const char *why = found->action_a == ORR_NONE ? "uses memory after its end, in every schedule"
                      : finding->shows_wrong ? "nothing orders them; turned round: wrong numbers"
                      : finding->schedule.steps
                          ? "nothing orders them; no schedule tried gave other numbers"
                          : "nothing orders them";
    int length =
        snprintf(text, sizeof text, "%s on %s: op %u '%s' and op %u '%s': %s",
                 orr_check_verdict_text(found->kind), buffer, found->op_a, a, found->op_b, b, why);
    size_t size = length < 0 ? 0 : (size_t)length >= sizeof text ? sizeof text - 1 : (size_t)length;
    finding->message = orr_memory_text(plan->memory, text, size);
    return finding->message ? ORR_OK : ORR_NO_MEMORY;
}
