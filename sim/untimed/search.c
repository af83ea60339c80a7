/* Which step is next.
 *
 *     node 0      node 1          node 2
 *     [process] - [process] ... - [process]      the execution at hand is the path of nodes
 *      backtrack   backtrack       backtrack     what is to be tried there, because a race
 *      sleep       sleep           sleep         showed that another order exists; what needs
 *                                                 not be tried, because it has been
 *
 * After an execution the deepest node with something left to try gets another process, and the
 * program is run again: the steps before are chosen as they were. */
#include "runtime/splitmix.h"
#include "sim/untimed/untimed_internal.h"

/* The default schedule: what was enqueued first, as if every command was waited for at once; hosts
 * only when no command can be next, the one that acted last before others. */
static uint32_t default_of(const struct orr_untimed *x, uint64_t processes) {
    uint32_t best = ORR_ID_NONE, host = ORR_ID_NONE;
    for (uint64_t rest = processes; rest; rest &= rest - 1) {
        uint32_t process = (uint32_t)__builtin_ctzll(rest);
        if (!x->processes[process].is_host) {
            if (best == ORR_ID_NONE || x->orders[process] < x->orders[best]) {
                best = process;
            }
        } else if (host == ORR_ID_NONE || x->processes[process].index == x->acted) {
            host = process;
        }
    }
    return best != ORR_ID_NONE ? best : host;
}

/* --- every distinct order once --- */

static uint64_t independent_of(struct orr_untimed *x, uint32_t process, uint64_t others) {
    uint64_t independent = 0;
    struct orr__x_move move = orr__x_next_move(x, process);
    for (uint64_t rest = others & ~ORR__X_BIT(process); rest; rest &= rest - 1) {
        uint32_t other = (uint32_t)__builtin_ctzll(rest);
        struct orr__x_move its = orr__x_next_move(x, other);
        if (!orr__x_dependent(x, &move, &its)) {
            independent |= ORR__X_BIT(other);
        }
    }
    return independent;
}

/* The first step that the plan leaves open: what may be tried there by others. */
static void divide(struct orr_untimed *x, uint64_t enabled) {
    struct orr__x_search *search = &x->search;
    search->open = enabled & ~search->options.asleep;
    for (uint64_t rest = enabled; search->options.divides && rest; rest &= rest - 1) {
        uint32_t process = (uint32_t)__builtin_ctzll(rest);
        search->independent[process] = independent_of(x, process, enabled);
    }
}

static bool add_node(struct orr_untimed *x, uint32_t depth, uint64_t enabled) {
    struct orr__x_search *search = &x->search;
    uint32_t base = search->options.plan_length;
    if (orr__x_reserve(x, &search->nodes, &search->node_capacity, depth + 1, sizeof *search->nodes,
                       ORR__X_STEPS + 1) != ORR_OK) {
        return false;
    }
    struct orr__x_node *node = &search->nodes[depth];
    *node = (struct orr__x_node){.enabled = enabled};
    search->node_count = depth + 1;
    if (depth < base) {
        node->process = search->plan[depth];
        node->backtrack = ORR__X_BIT(node->process);
        return (enabled & node->backtrack) != 0;
    }
    if (depth == base) {
        divide(x, enabled);
        node->sleep = search->options.asleep;
    } else {
        node->sleep = search->nodes[depth - 1].next_sleep;
    }
    if (!(enabled & ~node->sleep)) {
        search->node_count = depth;
        return false;
    }
    node->process = (uint8_t)default_of(x, enabled & ~node->sleep);
    node->backtrack = ORR__X_BIT(node->process);
    return true;
}

static uint32_t choose_systematically(struct orr_untimed *x, uint64_t enabled) {
    struct orr__x_search *search = &x->search;
    uint32_t depth = x->step_count;
    if (depth >= search->replay && !add_node(x, depth, enabled)) {
        return ORR_ID_NONE;
    }
    struct orr__x_node *node = &search->nodes[depth];
    if (!(enabled & ORR__X_BIT(node->process))) {
        x->over = true;
        x->outcome = ORR_UNTIMED_DIVERGED;
        return ORR_ID_NONE;
    }
    if (depth + 1 >= search->replay && depth >= search->options.plan_length) {
        node->next_sleep = node->sleep ? independent_of(x, node->process, node->sleep) : 0;
    }
    return node->process;
}

/* Processes that could have made the first of the steps after `early` that don't come after it,
 * up to `late`, which is one of them. */
static uint64_t initials(const struct orr_untimed *x, uint32_t early, uint32_t late) {
    uint16_t first[ORR__X_PROCESSES];
    uint64_t seen = 0, result = 0;
    uint32_t of_early = x->steps[early].process;
    uint16_t ordinal = x->events[early].ordinal;
    for (uint32_t i = early + 1; i <= late; i++) {
        const struct orr__x_clock *clock = orr__x_clock_at(x, x->events[i].clock);
        uint32_t process = x->steps[i].process;
        if ((i < late && clock->at[of_early] >= ordinal) || (seen & ORR__X_BIT(process))) {
            continue;
        }
        bool is_first = true;
        for (uint64_t rest = seen; rest && is_first; rest &= rest - 1) {
            uint32_t other = (uint32_t)__builtin_ctzll(rest);
            is_first = clock->at[other] < first[other];
        }
        seen |= ORR__X_BIT(process);
        first[process] = x->events[i].ordinal;
        result |= is_first ? ORR__X_BIT(process) : 0;
    }
    return result;
}

static void try_other_order(struct orr_untimed *x, uint32_t early, uint32_t late) {
    struct orr__x_node *node = &x->search.nodes[early];
    /* One that was not enabled then was made possible by what came in between: no other order. */
    uint64_t candidates = initials(x, early, late) & node->enabled;
    if (!candidates || (candidates & (node->backtrack | node->sleep))) {
        return;
    }
    uint64_t own = ORR__X_BIT(x->steps[late].process);
    node->backtrack |= candidates & own ? own : candidates & (~candidates + 1);
}

bool orr__x_choice_was_vain(struct orr_untimed *x) {
    struct orr__x_search *search = &x->search;
    if (search->options.strategy != ORR_UNTIMED_DPOR) {
        return true;
    }
    if (x->step_count < search->replay) {
        return false; /* the last choice of the ones that are repeated: tried, and nothing */
    }
    search->node_count = x->step_count;
    return true;
}

static bool backtrack(struct orr__x_search *search) {
    while (search->node_count > search->options.plan_length) {
        struct orr__x_node *node = &search->nodes[search->node_count - 1];
        node->sleep |= ORR__X_BIT(node->process);
        uint64_t left = node->backtrack & ~node->sleep;
        if (left) {
            node->process = (uint8_t)__builtin_ctzll(left);
            search->replay = search->node_count;
            return true;
        }
        search->node_count--;
    }
    return false;
}

/* --- random strategies --- */

static uint32_t choose_randomly(struct orr_untimed *x, uint64_t enabled) {
    uint64_t count = (uint64_t)__builtin_popcountll(enabled);
    uint64_t skip = orr_splitmix_next(&x->search.random) % count;
    while (skip-- > 0) {
        enabled &= enabled - 1;
    }
    return (uint32_t)__builtin_ctzll(enabled);
}

static uint32_t highest(const struct orr__x_search *search, uint64_t enabled) {
    uint32_t best = (uint32_t)__builtin_ctzll(enabled);
    for (uint64_t rest = enabled; rest; rest &= rest - 1) {
        uint32_t process = (uint32_t)__builtin_ctzll(rest);
        if (search->priorities[process] > search->priorities[best]) {
            best = process;
        }
    }
    return best;
}

/* Burckhardt, Kothari, Musuvathi, Nagarakatte, "A randomized scheduler with probabilistic
 * guarantees of finding bugs", ASPLOS 2010: the highest priority acts; at each of depth - 1 steps,
 * drawn beforehand, who would act gets one below all others. */
static uint32_t choose_by_priority(struct orr_untimed *x, uint64_t enabled) {
    struct orr__x_search *search = &x->search;
    uint32_t best = highest(search, enabled);
    for (uint32_t i = 0; i + 1 < search->options.depth; i++) {
        if (search->changes[i] == x->step_count) {
            search->priorities[best] = search->options.depth - 1 - i;
            best = highest(search, enabled);
        }
    }
    return best;
}

void orr__x_process_appears(struct orr_untimed *x, uint32_t process) {
    struct orr__x_search *search = &x->search;
    if (search->options.strategy == ORR_UNTIMED_PCT) {
        search->priorities[process] = orr_splitmix_next(&search->random) | UINT64_C(1) << 63;
    }
}

static void draw_changes(struct orr__x_search *search) {
    uint32_t length = search->options.length ? search->options.length : 1;
    for (uint32_t i = 0; i + 1 < search->options.depth; i++) {
        search->changes[i] = (uint32_t)(orr_splitmix_next(&search->random) % length);
    }
}

/* --- */

uint32_t orr__x_choose(struct orr_untimed *x, uint64_t enabled) {
    struct orr__x_search *search = &x->search;
    uint32_t depth = x->step_count;
    switch (search->options.strategy) {
    case ORR_UNTIMED_DPOR: return choose_systematically(x, enabled);
    case ORR_UNTIMED_PCT: return choose_by_priority(x, enabled);
    case ORR_UNTIMED_RANDOM: return choose_randomly(x, enabled);
    case ORR_UNTIMED_FOLLOW:
    default: break;
    }
    bool planned = depth < search->options.plan_length &&
                   search->plan[depth] != ORR_UNTIMED_DEFAULT &&
                   (enabled & ORR__X_BIT(search->plan[depth]));
    return planned ? search->plan[depth] : default_of(x, enabled);
}

/* --- races --- */

/* Slot of a pair of ids in the table, or of what is free for it. */
static size_t find_race(const struct orr_untimed *x, uint64_t hash) {
    size_t at = (size_t)hash & (x->race_table_size - 1);
    while (x->race_table[at] && x->race_table[at] != hash) {
        at = (at + 1) & (x->race_table_size - 1);
    }
    return at;
}

static uint64_t race_hash(uint64_t a, uint64_t b) {
    uint64_t hash = orr_splitmix_mix(a < b ? a : b);
    return orr_splitmix_mix(hash ^ (a < b ? b : a)) | 1;
}

static bool is_new_race(struct orr_untimed *x, uint64_t a, uint64_t b) {
    uint64_t hash = race_hash(a, b);
    if (!x->race_table) {
        x->race_table_size = 4 * ORR__X_RACES;
        x->race_table = orr_memory_alloc(x->memory, x->race_table_size * sizeof *x->race_table);
        if (!x->race_table) {
            x->out_of_memory = true;
            return false;
        }
    }
    size_t at = find_race(x, hash);
    if (x->race_table[at] || x->race_count == ORR__X_RACES) {
        return false;
    }
    x->race_table[at] = hash;
    return true;
}

/* Steps that lead to the later one before the earlier one: those in between that don't come after
 * the earlier one. */
static void keep_race(struct orr_untimed *x, uint32_t early, uint32_t late,
                      const struct orr_access *of_a, const struct orr_access *of_b) {
    if (orr__x_reserve(x, &x->races, &x->race_capacity, x->race_count + 1, sizeof *x->races,
                       ORR__X_RACES) != ORR_OK ||
        orr__x_reserve(x, &x->race_plans, &x->race_plan_capacity, x->race_plan_count + late + 1, 1,
                       ORR__X_PLANS) != ORR_OK) {
        return;
    }
    struct orr_untimed_race *race = &x->races[x->race_count++];
    *race = (struct orr_untimed_race){.a = x->steps[early],
                                      .b = x->steps[late],
                                      .of_a = *of_a,
                                      .of_b = *of_b,
                                      .first_plan = (uint32_t)x->race_plan_count};
    uint32_t process = x->steps[early].process;
    for (uint32_t i = 0; i <= late; i++) {
        const struct orr__x_clock *clock = orr__x_clock_at(x, x->events[i].clock);
        if (i < early || i == late ||
            (i > early && clock->at[process] < x->events[early].ordinal)) {
            x->race_plans[x->race_plan_count++] = x->steps[i].process;
        }
    }
    race->plan_length = (uint32_t)x->race_plan_count - race->first_plan;
}

/* Memory only: that calls of hosts can come in either order is no race of theirs. */
static void note_race(struct orr_untimed *x, uint32_t early, uint32_t late) {
    const struct orr_untimed_step *a = &x->steps[early], *b = &x->steps[late];
    for (uint32_t i = 0; i < a->access_count; i++) {
        const struct orr_access *of_a = &x->accesses[a->first_access + i];
        for (uint32_t k = 0; k < b->access_count && !ORR__X_IS_SHARED(of_a->memory); k++) {
            const struct orr_access *of_b = &x->accesses[b->first_access + k];
            if (!orr__x_overlap(of_a, of_b)) {
                continue;
            }
            if (is_new_race(x, a->id, b->id)) {
                keep_race(x, early, late, of_a, of_b);
            }
            return;
        }
    }
}

void orr__x_raced(struct orr_untimed *x, uint32_t early, uint32_t late) {
    note_race(x, early, late);
    if (x->search.options.strategy == ORR_UNTIMED_DPOR && early >= x->search.options.plan_length) {
        try_other_order(x, early, late);
    }
}

/* Newest first, so that those before stay where they can be found. */
static void forget_races(struct orr_untimed *x) {
    while (x->race_count > 0) {
        const struct orr_untimed_race *race = &x->races[--x->race_count];
        x->race_table[find_race(x, race_hash(race->a.id, race->b.id))] = 0;
    }
    x->race_plan_count = 0;
}

/* --- searches --- */

enum orr_status orr_untimed_search(struct orr_untimed *x,
                                   const struct orr_untimed_options *options) {
    struct orr__x_search *search = &x->search;
    if (orr_memory_grow(x->memory, &search->plan, &search->plan_capacity,
                        (size_t)options->plan_length + 1, 1, ORR__X_STEPS + 1) != ORR_OK) {
        return ORR_NO_MEMORY;
    }
    if (options->plan_length > 0) {
        memcpy(search->plan, options->plan, options->plan_length);
    }
    search->options = *options;
    search->options.plan = NULL;
    if (search->options.depth > ORR__X_DEPTH) {
        search->options.depth = ORR__X_DEPTH;
    }
    search->started = search->over = false;
    search->node_count = search->replay = 0;
    search->open = 0;
    search->execution = options->first;
    forget_races(x);
    return ORR_OK;
}

static bool next_of_strategy(struct orr_untimed *x) {
    struct orr__x_search *search = &x->search;
    bool first = !search->started;
    search->started = true;
    switch (search->options.strategy) {
    case ORR_UNTIMED_DPOR: return first || backtrack(search);
    case ORR_UNTIMED_FOLLOW: return first;
    case ORR_UNTIMED_PCT:
    case ORR_UNTIMED_RANDOM:
    default: break;
    }
    if (search->execution >= search->options.end) {
        return false;
    }
    search->random = orr_splitmix_at(orr_splitmix_mix(search->options.seed), search->execution++);
    return true;
}

enum orr_status orr_untimed_next(struct orr_untimed *x) {
    struct orr__x_search *search = &x->search;
    if (search->started && x->outcome == ORR_UNTIMED_TOO_LONG) {
        return ORR_UNSUPPORTED;
    }
    search->over = search->over || !next_of_strategy(x);
    if (search->over) {
        return ORR_NOT_READY;
    }
    if (search->options.strategy == ORR_UNTIMED_PCT) {
        for (uint32_t i = 0; i < x->process_count; i++) {
            orr__x_process_appears(x, i);
        }
        draw_changes(search);
    }
    return ORR_OK;
}

uint64_t orr_untimed_choices(const struct orr_untimed *x) {
    return x->search.open;
}

uint64_t orr_untimed_independent(const struct orr_untimed *x, uint32_t process) {
    assert(process < ORR__X_PROCESSES);
    return x->search.independent[process];
}

void orr__x_search_free(struct orr_untimed *x) {
    orr_memory_free(x->memory, x->search.plan);
    orr_memory_free(x->memory, x->search.nodes);
}
