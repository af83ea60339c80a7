#include "hazards/explore/order_run.h"

#include <assert.h>
#include <string.h>

enum { ALLOCATED = 1, ENDED = 2 };

enum orr_status orr__order_run_open(struct orr__order_run *run,
                                    const struct orr__order_plan *plan) {
    *run = (struct orr__order_run){.plan = plan};
    run->cells = orr_memory_alloc(plan->memory, plan->cell_count * sizeof *run->cells);
    run->done = orr_memory_alloc(plan->memory, plan->words * sizeof *run->done);
    run->order = orr_memory_alloc(plan->memory, plan->action_count * sizeof *run->order);
    if (run->cells && run->done && run->order)
        return ORR_OK;
    orr__order_run_close(run);
    return ORR_NO_MEMORY;
}

void orr__order_run_close(struct orr__order_run *run) {
    if (!run->plan)
        return;
    orr_memory_free(run->plan->memory, run->cells);
    orr_memory_free(run->plan->memory, run->done);
    orr_memory_free(run->plan->memory, run->order);
    *run = (struct orr__order_run){0};
}

/* What an action reads: its identity mixed with the cells. Counts cells that say that the memory is
 * not there; those of names come before all others. */
static uint64_t read_cells(const struct orr__order_run *run, uint32_t index, bool *out_poisoned) {
    const struct orr__order_plan *plan = run->plan;
    const struct orr__action *action = &plan->actions[index];
    const struct orr__touch *touch = plan->touches + action->touch_first;
    uint32_t names_end = 2 * plan->program->names[ORR_NAME_BUFFER].count;
    uint64_t value = 0x9e3779b97f4a7c15u * (index + 1);
    bool poisoned = action->is_poisoned;
    for (uint32_t i = 0; i < action->touch_count; i++) {
        if (touch[i].is_write)
            continue;
        for (uint32_t cell = touch[i].first; cell < touch[i].end; cell++)
            value = orr__mix(value ^ run->cells[cell]);
        if (touch[i].first < names_end) {
            uint64_t expected = touch[i].first % 2 == 0 ? ALLOCATED : 0;
            poisoned = poisoned || run->cells[touch[i].first] != expected;
        }
    }
    *out_poisoned = poisoned;
    return value;
}

static void write_cells(const struct orr__order_run *run, uint32_t index, uint64_t value) {
    const struct orr__order_plan *plan = run->plan;
    const struct orr__action *action = &plan->actions[index];
    const struct orr__touch *touch = plan->touches + action->touch_first;
    if (action->role != ORR_ACTION_ACCESS) { /* its one touch is the state of a name */
        run->cells[touch[0].first] = action->role == ORR_ACTION_ALLOC ? ALLOCATED : ENDED;
        return;
    }
    for (uint32_t i = 0; i < action->touch_count; i++) {
        if (!touch[i].is_write)
            continue;
        for (uint32_t cell = touch[i].first; cell < touch[i].end; cell++)
            run->cells[cell] = value = orr__mix(value + 1);
    }
}

struct orr__outcome orr__order_run_all(struct orr__order_run *run, const uint32_t *order) {
    const struct orr__order_plan *plan = run->plan;
    struct orr__outcome outcome = {0, 0};
    memset(run->cells, 0, plan->cell_count * sizeof *run->cells);
    for (uint32_t i = 0; i < plan->action_count; i++) {
        bool poisoned;
        uint64_t value = read_cells(run, order[i], &poisoned);
        outcome.hash += orr__mix(value); /* whatever else runs in between */
        outcome.poisoned += poisoned;
        write_cells(run, order[i], value);
    }
    for (uint32_t cell = 0; cell < plan->cell_count; cell++)
        if (plan->is_final[cell]) /* a sum: names may be numbered otherwise in another file */
            outcome.hash += orr__mix(run->cells[cell] + 1);
    return outcome;
}

/* Up to 64 actions: the sets are single words. */
static void first_of_few(const struct orr__order_run *run, const uint64_t *before) {
    uint32_t count = run->plan->action_count;
    uint64_t left = count == 64 ? UINT64_MAX : (1ull << count) - 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t candidates = left;
        uint32_t next;
        do {
            assert(candidates);
            next = (uint32_t)__builtin_ctzll(candidates);
            candidates &= candidates - 1;
        } while (before[next] & left);
        left &= ~(1ull << next);
        run->order[i] = next;
    }
}

static bool is_ready(const struct orr__order_run *run, const uint64_t *row) {
    for (uint32_t i = 0; i < run->plan->words; i++)
        if (row[i] & ~run->done[i])
            return false;
    return true;
}

void orr__order_run_first(struct orr__order_run *run, const uint64_t *before) {
    uint32_t count = run->plan->action_count, words = run->plan->words;
    if (words == 1) {
        first_of_few(run, before);
        return;
    }
    memset(run->done, 0, words * sizeof *run->done);
    uint32_t lowest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = lowest;
        while ((run->done[next / 64] >> (next % 64) & 1) ||
               !is_ready(run, before + (size_t)next * words)) {
            next++;
            assert(next < count);
        }
        run->done[next / 64] |= 1ull << (next % 64);
        run->order[i] = next;
        while (lowest < count && (run->done[lowest / 64] >> (lowest % 64) & 1))
            lowest++;
    }
}
