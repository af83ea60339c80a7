#include <stdlib.h>

#include "hazards/explore/order_plan.h"

/* Which actions conflict, and what that is called; then which memory cells each action touches.
 * Findings come in the order in which the check of happens-before would make them if it went on
 * after the first: by the later operation, its accesses as listed, and for each the allocation, the
 * end of the name, and earlier accesses as listed. */

enum { KINDS = 3 }; /* of findings */

/* What was found last with each action, or operation, as the earlier one: repetitions follow
 * closely, as later ones come in order. */
struct finder {
    struct orr__order_plan *plan;
    uint32_t *conflict_of;       /* by action: the later action, + 1 */
    uint32_t *finding_of[KINDS]; /* by operation: the later operation, + 1 */
};

static enum orr_status add_conflict(struct finder *finder, uint32_t a, uint32_t b) {
    struct orr__order_plan *plan = finder->plan;
    if (finder->conflict_of[a] == b + 1)
        return ORR_OK;
    if (plan->conflict_count == ORR_PLAN_CONFLICTS_MAX)
        return ORR_UNSUPPORTED;
    enum orr_status status = orr_memory_grow(
        plan->memory, &plan->conflicts, &plan->conflict_capacity, (size_t)plan->conflict_count + 1,
        sizeof *plan->conflicts, ORR_PLAN_CONFLICTS_MAX);
    if (status == ORR_OK) {
        plan->conflicts[plan->conflict_count++] = (struct orr__conflict){a, b};
        finder->conflict_of[a] = b + 1;
    }
    return status;
}

static enum orr_status add_finding(struct finder *finder,
                                   const struct orr__order_finding *finding) {
    struct orr__order_plan *plan = finder->plan;
    int kind = finding->kind == ORR_CHECK_RACE             ? 0
               : finding->kind == ORR_CHECK_USE_AFTER_FREE ? 1
                                                           : 2;
    if (finder->finding_of[kind][finding->op_a] == finding->op_b + 1 ||
        plan->finding_count == ORR_PLAN_FINDINGS_MAX)
        return ORR_OK;
    enum orr_status status = orr_memory_grow(plan->memory, &plan->findings, &plan->finding_capacity,
                                             (size_t)plan->finding_count + 1,
                                             sizeof *plan->findings, ORR_PLAN_FINDINGS_MAX);
    if (status == ORR_OK) {
        plan->findings[plan->finding_count++] = *finding;
        finder->finding_of[kind][finding->op_a] = finding->op_b + 1;
    }
    return status;
}

/* Actions a < b conflict: both as a pair to be ordered and as a finding. */
static enum orr_status add_pair(struct finder *finder, uint32_t a, uint32_t b,
                                enum orr_check_verdict_kind kind, uint32_t buffer, uint64_t lo,
                                uint64_t hi) {
    struct orr__order_finding finding = {.kind = kind,
                                         .op_a = finder->plan->actions[a].op,
                                         .op_b = finder->plan->actions[b].op,
                                         .action_a = a,
                                         .action_b = b,
                                         .buffer = buffer,
                                         .lo = lo,
                                         .hi = hi};
    enum orr_status status = add_conflict(finder, a, b);
    return status == ORR_OK ? add_finding(finder, &finding) : status;
}

static enum orr_status compare(struct finder *finder, const struct orr__plan_access *old,
                               const struct orr__plan_access *now) {
    const struct orr__order_plan *plan = finder->plan;
    if (old->block != now->block || !(old->is_write || now->is_write) || old->hi <= now->lo ||
        now->hi <= old->lo || plan->actions[old->action].op == plan->actions[now->action].op ||
        orr__plan_is_before(plan, old->action, now->action))
        return ORR_OK;
    return add_pair(finder, old->action, now->action,
                    old->name == now->name ? ORR_CHECK_RACE : ORR_CHECK_USE_AFTER_FREE, now->name,
                    old->lo > now->lo ? old->lo : now->lo, old->hi < now->hi ? old->hi : now->hi);
}

/* The access and everything before it. */
static enum orr_status look_back(struct finder *finder, uint32_t index) {
    const struct orr__order_plan *plan = finder->plan;
    const struct orr__plan_access *now = &plan->accesses[index];
    enum orr_status status = ORR_OK;
    if (now->alloc != ORR_NONE && !orr__plan_is_before(plan, now->alloc, now->action))
        status = add_pair(finder, now->alloc, now->action, ORR_CHECK_USE_BEFORE_ALLOC, now->name,
                          now->lo, now->hi);
    if (status == ORR_OK && now->ended_op != ORR_NONE) {
        struct orr__order_finding finding = {.kind = ORR_CHECK_USE_AFTER_FREE,
                                             .op_a = now->ended_op,
                                             .op_b = plan->actions[now->action].op,
                                             .action_a = ORR_NONE,
                                             .action_b = now->action,
                                             .buffer = now->name,
                                             .lo = now->lo,
                                             .hi = now->hi};
        status = add_finding(finder, &finding);
    }
    for (uint32_t i = 0; status == ORR_OK && i < index; i++)
        status = compare(finder, &plan->accesses[i], now);
    return status;
}

/* The action `index` ends the life of its name: after the allocation (if the stream frees it) and
 * after every access under this name. */
static enum orr_status look_at_end(struct finder *finder, uint32_t index) {
    const struct orr__order_plan *plan = finder->plan;
    const struct orr__action *end = &plan->actions[index];
    enum orr_status status = ORR_OK;
    bool is_async = plan->program->ops[end->op].kind == ORR_OP_FREE_ASYNC;
    for (uint32_t i = 0; is_async && status == ORR_OK && i < index; i++)
        if (plan->actions[i].role == ORR_ACTION_ALLOC && plan->actions[i].name == end->name &&
            !orr__plan_is_before(plan, i, index))
            status = add_pair(finder, i, index, ORR_CHECK_USE_BEFORE_ALLOC, end->name, 0, 0);
    for (uint32_t i = 0; status == ORR_OK && i < end->access_first; i++) {
        const struct orr__plan_access *old = &plan->accesses[i];
        if (old->name == end->name && old->block == end->block &&
            !orr__plan_is_before(plan, old->action, index))
            status = add_pair(finder, old->action, index, ORR_CHECK_USE_AFTER_FREE, end->name,
                              old->lo, old->hi);
    }
    return status;
}

static enum orr_status find_all(struct finder *finder) {
    const struct orr__order_plan *plan = finder->plan;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < plan->action_count; i++) {
        const struct orr__action *action = &plan->actions[i];
        if (action->role == ORR_ACTION_END)
            status = look_at_end(finder, i);
        for (uint32_t k = 0; status == ORR_OK && k < action->access_count; k++)
            status = look_back(finder, action->access_first + k);
    }
    return status;
}

enum orr_status orr__plan_find_conflicts(struct orr__order_plan *plan) {
    struct finder finder = {.plan = plan};
    uint32_t *marks = orr_memory_alloc(
        plan->memory,
        (plan->action_count + (size_t)KINDS * plan->program->op_count) * sizeof *marks);
    if (!marks)
        return ORR_NO_MEMORY;
    finder.conflict_of = marks;
    for (uint32_t i = 0; i < KINDS; i++)
        finder.finding_of[i] = marks + plan->action_count + (size_t)i * plan->program->op_count;
    enum orr_status status = find_all(&finder);
    orr_memory_free(plan->memory, marks);
    return status;
}

/* --- cells --- */

/* A cell is the smallest piece of a block between two bounds of accesses. Before them come two per
 * name, "allocated" and "ended", and one per action, for what a copy keeps in a staging buffer. */

struct bound {
    uint32_t block;
    uint64_t at;
};

static int compare_bounds(const void *left, const void *right) {
    const struct bound *a = left, *b = right;
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at; /* equal ones are the same */
}

static uint32_t find_bound(const struct bound *bounds, uint32_t count, uint32_t block,
                           uint64_t at) {
    uint32_t low = 0, high = count;
    struct bound wanted = {block, at};
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_bounds(&bounds[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum orr_status add_touch(struct orr__order_plan *plan, uint32_t action, uint32_t first,
                                 uint32_t end, bool is_write) {
    enum orr_status status = orr_memory_grow(plan->memory, &plan->touches, &plan->touch_capacity,
                                             (size_t)plan->touch_count + 1, sizeof *plan->touches,
                                             4 * ORR_PLAN_ACCESSES_MAX + 4 * ORR_PLAN_ACTIONS_MAX);
    if (status != ORR_OK)
        return status;
    plan->touches[plan->touch_count++] =
        (struct orr__touch){.first = first, .end = end, .is_write = is_write};
    plan->actions[action].touch_count++;
    return ORR_OK;
}

static enum orr_status touch_access(struct orr__order_plan *plan,
                                    const struct orr__plan_access *access, bool is_ended,
                                    const struct bound *bounds, uint32_t bound_count,
                                    uint32_t first_cell) {
    enum orr_status status = ORR_OK;
    if (access->alloc != ORR_NONE)
        status = add_touch(plan, access->action, 2 * access->name, 2 * access->name + 1, false);
    if (status == ORR_OK && is_ended)
        status = add_touch(plan, access->action, 2 * access->name + 1, 2 * access->name + 2, false);
    if (status != ORR_OK)
        return status;
    uint32_t lo = first_cell + find_bound(bounds, bound_count, access->block, access->lo);
    uint32_t hi = first_cell + find_bound(bounds, bound_count, access->block, access->hi);
    return add_touch(plan, access->action, lo, hi, access->is_write);
}

/* `ended_block`: the block of names whose life ends by an action, else ORR_NONE. */
static enum orr_status touch_all(struct orr__order_plan *plan, const uint32_t *ended_block,
                                 const struct bound *bounds, uint32_t bound_count,
                                 uint32_t first_cell) {
    uint32_t first_staging = 2 * plan->program->names[ORR_NAME_BUFFER].count;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < plan->action_count; i++) {
        struct orr__action *action = &plan->actions[i];
        action->touch_first = plan->touch_count;
        if (action->role == ORR_ACTION_ALLOC)
            status = add_touch(plan, i, 2 * action->name, 2 * action->name + 1, true);
        if (action->role == ORR_ACTION_END)
            status = add_touch(plan, i, 2 * action->name + 1, 2 * action->name + 2, true);
        if (action->part == 1)
            status = add_touch(plan, i, first_staging + i - 1, first_staging + i, false);
        for (uint32_t k = 0; status == ORR_OK && k < action->access_count; k++) {
            const struct orr__plan_access *access = &plan->accesses[action->access_first + k];
            /* After its end it is poisoned anyway, whether that has run or not. */
            bool may_end =
                access->ended_op == ORR_NONE && ended_block[access->name] == access->block;
            status = touch_access(plan, access, may_end, bounds, bound_count, first_cell);
        }
        if (status == ORR_OK && i + 1 < plan->action_count && plan->actions[i + 1].part == 1)
            status = add_touch(plan, i, first_staging + i, first_staging + i + 1, true);
    }
    return status;
}

/* Cells of blocks that no living name has are nobody's in the end. */
static void mark_final(struct orr__order_plan *plan, const struct bound *bounds, uint32_t count,
                       uint32_t first_cell, const uint32_t *block_of, const bool *is_live) {
    uint32_t names = plan->program->names[ORR_NAME_BUFFER].count;
    for (uint32_t name = 0; name < names; name++) {
        if (!is_live[name])
            continue;
        uint32_t i = find_bound(bounds, count, block_of[name], 0);
        for (; i < count && bounds[i].block == block_of[name]; i++)
            plan->is_final[first_cell + i] = true;
    }
}

enum orr_status orr__plan_cut_cells(struct orr__order_plan *plan, const uint32_t *block_of,
                                    const bool *is_live, struct orr_error *error) {
    uint32_t count = 0, first = 2 * plan->program->names[ORR_NAME_BUFFER].count;
    first += plan->action_count;
    struct bound *bounds =
        orr_memory_alloc(plan->memory, (size_t)(2 * plan->access_count) * sizeof *bounds);
    uint32_t names = plan->program->names[ORR_NAME_BUFFER].count;
    uint32_t *ended_block = orr_memory_alloc(plan->memory, names * sizeof *ended_block);
    if (!bounds || !ended_block) {
        orr_memory_free(plan->memory, bounds);
        orr_memory_free(plan->memory, ended_block);
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < names; i++)
        ended_block[i] = ORR_NONE;
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].role == ORR_ACTION_END)
            ended_block[plan->actions[i].name] = plan->actions[i].block;
    for (uint32_t i = 0; i < plan->access_count; i++) {
        const struct orr__plan_access *access = &plan->accesses[i];
        bounds[count++] = (struct bound){access->block, access->lo};
        bounds[count++] = (struct bound){access->block, access->hi};
    }
    qsort(bounds, count, sizeof *bounds, compare_bounds);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || compare_bounds(&bounds[kept - 1], &bounds[i]) != 0)
            bounds[kept++] = bounds[i];
    plan->cell_count = first + kept;
    enum orr_status status = ORR_OK;
    if (plan->cell_count > ORR_PLAN_CELLS_MAX)
        status = orr_error_set(error, ORR_UNSUPPORTED,
                               "too large to explore: more than %d pieces of memory",
                               ORR_PLAN_CELLS_MAX);
    if (status == ORR_OK)
        plan->is_final = orr_memory_alloc(plan->memory, plan->cell_count);
    if (status == ORR_OK && !plan->is_final)
        status = ORR_NO_MEMORY;
    if (status == ORR_OK)
        status = touch_all(plan, ended_block, bounds, kept, first);
    if (status == ORR_OK)
        mark_final(plan, bounds, kept, first, block_of, is_live);
    orr_memory_free(plan->memory, bounds);
    orr_memory_free(plan->memory, ended_block);
    return status;
}
