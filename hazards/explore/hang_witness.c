#include "hazards/explore/hang_witness.h"

#include <stdio.h>
#include <string.h>

#include "hazards/explore/minimize.h"

enum { RUNS_OF_PART = 512, STEPS_MAX = 4000000 /* of all parts that are tried for a finding */ };

/* --- ends --- */

enum orr_status orr__hang_end_take(const struct orr__interleavings *search,
                                   struct orr__hang_end *out_end) {
    const struct orr__queue_plan *plan = search->plan;
    *out_end = (struct orr__hang_end){0};
    out_end->kind = orr__interleavings_end(search, &out_end->op_a, &out_end->op_b);
    out_end->blocked = orr_memory_alloc(plan->memory, plan->actor_count * sizeof *out_end->blocked);
    if (!out_end->blocked)
        return ORR_NO_MEMORY;
    for (uint32_t actor = 0; actor < plan->actor_count; actor++) {
        struct orr_schedule_step step;
        bool has = orr__queue_next(plan, search->state, actor, &step);
        out_end->blocked[actor] = has ? step.op : ORR_NONE;
    }
    return ORR_OK;
}

void orr__hang_end_clear(struct orr__hang_end *end, const struct orr_memory *memory) {
    orr_memory_free(memory, end->blocked);
    end->blocked = NULL;
}

bool orr__hang_end_is(const struct orr__hang_end *end, const struct orr__hang_end *other,
                      uint32_t actor_count) {
    if (end->kind != other->kind)
        return false;
    if (end->kind == ORR_CHECK_MISMATCH)
        return end->op_a == other->op_a && end->op_b == other->op_b;
    return memcmp(end->blocked, other->blocked, actor_count * sizeof *end->blocked) == 0;
}

/* --- storing --- */

static const char *actor_text(const struct orr__queue_plan *plan, uint32_t actor) {
    return actor < plan->stream_count
               ? orr_stream_program_text(plan->program, ORR_NAME_STREAM, actor)
               : orr_stream_program_text(plan->program, ORR_NAME_HOST, actor - plan->stream_count);
}

static enum orr_status write_message(const struct orr__interleavings *search,
                                     struct orr_explore_finding *finding) {
    const struct orr__queue_plan *plan = search->plan;
    char text[4096], a[128], b[128];
    size_t used = 0;
    if (finding->kind == ORR_CHECK_MISMATCH) {
        orr_stream_op_short(plan->program, finding->op_a, a, sizeof a);
        orr_stream_op_short(plan->program, finding->op_b, b, sizeof b);
        used = (size_t)snprintf(text, sizeof text, "mismatch: op %u '%s' meets op %u '%s'",
                                finding->op_a, a, finding->op_b, b);
    } else {
        used = (size_t)snprintf(text, sizeof text, "hang:");
        const char *comma = "";
        for (uint32_t actor = 0; actor < plan->actor_count && used < sizeof text; actor++) {
            struct orr_schedule_step step;
            if (!orr__queue_next(plan, search->state, actor, &step))
                continue;
            orr_stream_op_short(plan->program, step.op, a, sizeof a);
            used += (size_t)snprintf(
                text + used, sizeof text - used, "%s %s %s %s op %u '%s'", comma,
                actor < plan->stream_count ? "stream" : "host", actor_text(plan, actor),
                step.what == ORR_STEP_FINISH ? "can't finish" : "is stuck at", step.op, a);
            comma = ",";
        }
    }
    used = used >= sizeof text ? sizeof text - 1 : used;
    finding->message = orr_memory_text(plan->memory, text, used);
    return finding->message ? ORR_OK : ORR_NO_MEMORY;
}

/* The current run as a schedule of the whole program; `part` NULL: the program is the whole. */
static enum orr_status store_run(const struct orr__interleavings *search,
                                 const struct orr__part *part, struct orr_schedule *schedule) {
    const struct orr_memory *memory = search->plan->memory;
    uint32_t ops = search->plan->program->op_count;
    orr_schedule_clear(schedule, memory);
    schedule->kept = orr_memory_alloc(memory, ops * sizeof *schedule->kept);
    schedule->steps = orr_memory_alloc(memory, search->step_count * sizeof *schedule->steps);
    if (!schedule->kept || !schedule->steps)
        return ORR_NO_MEMORY;
    schedule->kept_count = ops;
    for (uint32_t i = 0; i < ops; i++)
        schedule->kept[i] = part ? part->ops[i] : i;
    schedule->step_count = search->step_count;
    schedule->outcome = orr__queue_hash_blocked(search->plan, search->state, schedule->kept);
    for (uint32_t i = 0; i < search->step_count; i++) {
        schedule->steps[i] = search->steps[i];
        schedule->steps[i].op = schedule->kept[search->steps[i].op];
    }
    return ORR_OK;
}

enum orr_status orr__hang_store(const struct orr__interleavings *search,
                                struct orr_explore_finding *finding) {
    enum orr_status status = store_run(search, NULL, &finding->schedule);
    return status == ORR_OK ? write_message(search, finding) : status;
}

/* --- what must stay --- */

/* The call of a channel that takes this number. Of several hosts' calls it depends on the run;
 * among those not made yet, the first in the list. */
static uint32_t find_call(const struct orr__queue_plan *plan, const uint32_t *state,
                          uint32_t channel, uint32_t number) {
    uint32_t made = state[plan->at.counters + channel];
    uint32_t next = made;
    for (uint32_t i = 0; i < plan->program->op_count; i++) {
        if (plan->calls[i].channel != channel)
            continue;
        uint32_t host = plan->program->ops[i].host, at = plan->host_first[host];
        while (plan->host_ops[at] != i)
            at++;
        bool is_made = at < plan->host_first[host] + state[plan->at.calls + host];
        if ((is_made ? state[plan->at.numbers + i] : next++) == number)
            return i;
    }
    return ORR_NONE;
}

/* The calls that the other side of a communication makes, or never comes to make. */
static void keep_partners(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t op,
                          bool *keep) {
    const struct orr__channel *channel = &plan->channels[plan->calls[op].channel];
    uint32_t number = state[plan->at.numbers + op];
    for (uint32_t i = 0; i < plan->channel_count; i++) {
        const struct orr__channel *other = &plan->channels[i];
        bool is_partner = channel->kind == ORR_OP_COLL
                              ? other->kind == ORR_OP_COLL && other->comm == channel->comm
                              : i == channel->match;
        uint32_t call = is_partner ? find_call(plan, state, i, number) : ORR_NONE;
        if (call != ORR_NONE)
            keep[call] = true;
    }
}

/* What would let the blocked go on: unlocks by the host that holds the lock, notifications. */
static void keep_releases(const struct orr__queue_plan *plan, const uint32_t *state, uint32_t op,
                          bool *keep) {
    const struct orr_stream_op *ops = plan->program->ops, *blocked = &ops[op];
    for (uint32_t i = 0; i < plan->program->op_count; i++)
        if ((blocked->kind == ORR_OP_LOCK && ops[i].kind == ORR_OP_UNLOCK &&
             ops[i].object == blocked->object &&
             state[plan->at.locks + blocked->object] == 1 + ops[i].host) ||
            (blocked->kind == ORR_OP_AWAIT && ops[i].kind == ORR_OP_NOTIFY &&
             ops[i].object == blocked->object))
            keep[i] = true;
}

static void mark_needed(const struct orr__queue_plan *plan, const uint32_t *state,
                        const struct orr__hang_end *end, bool *keep) {
    if (end->kind == ORR_CHECK_MISMATCH) {
        keep[end->op_a] = keep[end->op_b] = true;
        return;
    }
    for (uint32_t actor = 0; actor < plan->actor_count; actor++) {
        uint32_t op = end->blocked[actor];
        if (op == ORR_NONE)
            continue;
        keep[op] = true;
        keep_releases(plan, state, op, keep);
        if (actor >= plan->stream_count)
            continue;
        for (uint32_t i = 0; i < plan->calls[op].entry_count; i++) {
            const struct orr__entry *entry = &plan->entries[plan->calls[op].entry_first + i];
            for (uint32_t k = 0; k < entry->member_count; k++) {
                keep[plan->members[entry->member_first + k]] = true;
                keep_partners(plan, state, plan->members[entry->member_first + k], keep);
            }
        }
    }
}

/* --- the smallest part --- */

struct wanted {
    const struct orr__queue_plan *plan; /* of the whole */
    const struct orr__hang_end *end;
    const bool *needed;
    struct orr_schedule *schedule;
    uint64_t *steps_left; /* counted, not timed, so that the answer is the same everywhere */
    const struct orr_schedule_step *guide; /* the run that was found */
    uint32_t guide_count;
    bool is_last; /* the part is the smallest: the shortest run is looked for, not any */
};

static bool holds_needed(const struct wanted *wanted, const struct orr__part *part) {
    uint32_t needed = 0, held = 0;
    for (uint32_t i = 0; i < wanted->plan->program->op_count; i++)
        needed += wanted->needed[i];
    for (uint32_t i = 0; i < part->op_count; i++)
        held += wanted->needed[part->ops[i]];
    return needed == held;
}

/* The end of a run of the part, in operations of the whole, is the wanted one. */
static enum orr_status is_wanted(const struct wanted *wanted, const struct orr__part *part,
                                 const struct orr__interleavings *search, bool *out_is) {
    struct orr__hang_end end;
    *out_is = false;
    enum orr_status status = orr__hang_end_take(search, &end);
    if (status != ORR_OK)
        return status;
    if (end.kind == ORR_CHECK_MISMATCH) {
        end.op_a = part->ops[end.op_a];
        end.op_b = part->ops[end.op_b];
    }
    for (uint32_t i = 0; i < search->plan->actor_count; i++)
        if (end.blocked[i] != ORR_NONE)
            end.blocked[i] = part->ops[end.blocked[i]];
    *out_is = orr__hang_end_is(wanted->end, &end, search->plan->actor_count);
    orr__hang_end_clear(&end, search->plan->memory);
    return ORR_OK;
}

/* The run that was found, without what the part leaves out, most often ends like it. */
static enum orr_status follow_guide(const struct wanted *wanted, const struct orr__part *part,
                                    struct orr__interleavings *search, bool *out_has) {
    uint64_t cost = wanted->guide_count + 1;
    *wanted->steps_left -= cost < *wanted->steps_left ? cost : *wanted->steps_left;
    orr__interleavings_follow(search, wanted->guide, wanted->guide_count, part->ops);
    enum orr_status status = is_wanted(wanted, part, search, out_has);
    return status == ORR_OK && *out_has ? store_run(search, part, wanted->schedule) : status;
}

/* Looks for a run of the part with that end, or for the shortest. */
static enum orr_status search_part(const struct wanted *wanted, const struct orr__part *part,
                                   struct orr__interleavings *search, bool *out_has) {
    uint32_t shortest = UINT32_MAX;
    enum orr_status status = ORR_OK;
    for (int i = 0; status == ORR_OK && i<RUNS_OF_PART && * wanted->steps_left> 0; i++) {
        bool is;
        if (!orr__interleavings_next(search))
            break;
        uint64_t cost = search->step_count + 1;
        *wanted->steps_left -= cost < *wanted->steps_left ? cost : *wanted->steps_left;
        if (search->is_given_up || search->step_count >= shortest)
            continue;
        status = is_wanted(wanted, part, search, &is);
        if (status != ORR_OK || !is)
            continue;
        shortest = search->step_count;
        *out_has = true;
        status = store_run(search, part, wanted->schedule);
        if (!wanted->is_last)
            break;
    }
    return status == ORR_OK ? search->status : status;
}

static enum orr_status has_end(void *context, const struct orr__part *part, bool *out_has) {
    const struct wanted *wanted = context;
    struct orr__queue_plan *plan;
    *out_has = false;
    if (*wanted->steps_left == 0 || !holds_needed(wanted, part))
        return ORR_OK;
    enum orr_status status = orr__queue_plan_create(part->program, &plan, NULL);
    if (status == ORR_INVALID)
        return ORR_OK; /* a group without its beginning */
    if (status != ORR_OK)
        return status;
    struct orr__interleavings search = {0};
    status = orr__interleavings_open(&search, plan);
    if (status == ORR_OK && !wanted->is_last)
        status = follow_guide(wanted, part, &search, out_has);
    if (status == ORR_OK && !*out_has)
        status = search_part(wanted, part, &search, out_has);
    orr__interleavings_close(&search);
    orr__queue_plan_destroy(&plan);
    return status;
}

/* The shortest run found of the part that the schedule keeps. */
static enum orr_status shorten(struct wanted *wanted) {
    const struct orr_stream_program *program = wanted->plan->program;
    uint64_t steps_left = STEPS_MAX;
    struct orr__part part = {0};
    bool has, *keep = orr_memory_alloc(program->memory, program->op_count);
    if (!keep)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < wanted->schedule->kept_count; i++)
        keep[wanted->schedule->kept[i]] = true;
    enum orr_status status = orr__part_open(&part, program, keep);
    wanted->is_last = true;
    wanted->steps_left = &steps_left;
    if (status == ORR_OK)
        status = has_end(wanted, &part, &has);
    orr__part_close(&part);
    orr_memory_free(program->memory, keep);
    return status;
}

/* Calls that only make sense together: those of one collective, by place in the list; the beginning
 * and the end of a group. Each has the number of the first of them. */
static void find_units(const struct orr__queue_plan *plan, uint32_t *ordinal, uint32_t *unit_of) {
    const struct orr_stream_op *ops = plan->program->ops;
    for (uint32_t i = 0; i < plan->program->op_count; i++) {
        uint32_t depth = 0;
        unit_of[i] = i;
        ordinal[i] = 0;
        for (uint32_t k = 0; k < i && ops[i].kind == ORR_OP_COLL; k++)
            ordinal[i] += plan->calls[k].channel == plan->calls[i].channel;
        for (uint32_t k = 0; k < i && ops[i].kind == ORR_OP_COLL && unit_of[i] == i; k++)
            if (ops[k].kind == ORR_OP_COLL && ops[k].object == ops[i].object &&
                ordinal[k] == ordinal[i])
                unit_of[i] = k;
        for (uint32_t k = i; k-- > 0 && ops[i].kind == ORR_OP_GROUP_END && unit_of[i] == i;) {
            if (ops[k].host != ops[i].host)
                continue;
            if (ops[k].kind == ORR_OP_GROUP_START && depth == 0)
                unit_of[i] = k;
            depth += ops[k].kind == ORR_OP_GROUP_END;
            depth -= ops[k].kind == ORR_OP_GROUP_START && depth > 0;
        }
    }
}

enum orr_status orr__hang_minimize(const struct orr__queue_plan *plan, const uint32_t *state,
                                   const struct orr__hang_end *end,
                                   struct orr_explore_finding *finding) {
    const struct orr_schedule *found = &finding->schedule;
    bool *needed = orr_memory_alloc(plan->memory, plan->program->op_count);
    struct orr_schedule_step *guide =
        orr_memory_alloc(plan->memory, found->step_count * sizeof *guide);
    uint32_t *units =
        orr_memory_alloc(plan->memory, 2 * (size_t)plan->program->op_count * sizeof *units);
    enum orr_status status = needed && guide && units ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        find_units(plan, units + plan->program->op_count, units);
        uint64_t steps_left = STEPS_MAX;
        mark_needed(plan, state, end, needed);
        memcpy(guide, found->steps, found->step_count * sizeof *guide);
        struct wanted wanted = {.plan = plan,
                                .end = end,
                                .needed = needed,
                                .schedule = &finding->schedule,
                                .steps_left = &steps_left,
                                .guide = guide,
                                .guide_count = found->step_count};
        status = orr__minimize(plan->program, units, has_end, &wanted);
        if (status == ORR_OK)
            status = shorten(&wanted);
    }
    orr_memory_free(plan->memory, needed);
    orr_memory_free(plan->memory, guide);
    orr_memory_free(plan->memory, units);
    return status;
}
