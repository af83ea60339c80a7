#include "hazards/fix_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "hazards/order_memory.h"
#include "hazards/text_builder.h"

/* What the plans are about: the pair, where each of the two happens, and the plans so far. */
struct planner {
    const struct orr_stream_program *program;
    const struct orr_order_finding *finding;
    struct orr_order_place a, b;
    uint32_t after_a, before_b; /* where something new may stand: outside groups */
    struct orr__fix_plan *plans;
    uint32_t count;
};

enum { NAMES = 6 };

/* Names for one message, shown in short. */
struct names {
    char texts[NAMES][ORR__SHOWN_MAX];
};

static const char *shown(const struct planner *planner, struct names *names, int slot,
                         enum orr_name_space space, uint32_t id) {
    return orr__shown(orr_stream_program_text(planner->program, space, id), names->texts[slot]);
}

static struct orr__fix_plan *next_plan(struct planner *planner) {
    struct orr__fix_plan *plan = &planner->plans[planner->count++];
    *plan = (struct orr__fix_plan){.moved = ORR_NONE};
    return plan;
}

static struct orr_stream_op *add_step(struct orr__fix_plan *plan, uint32_t before,
                                      enum orr_stream_op_kind kind, uint32_t host) {
    struct orr__fix_step *step = &plan->steps[plan->step_count++];
    step->before = before;
    step->op = orr_stream_op(kind);
    step->op.host = host;
    return &step->op;
}

static void append(struct orr__fix_plan *plan, const char *text) {
    size_t length = 0;
    while (plan->text[length])
        length++;
    snprintf(plan->text + length, sizeof plan->text - length, "%s", text);
}

/* --- places --- */

/* What is called inside a group takes effect at its end, so an order must stand outside. */
static uint32_t after_group(const struct orr_stream_program *program, uint32_t index) {
    uint32_t host = program->ops[index].host, open = 0;
    for (uint32_t i = 0; i <= index; i++) {
        if (program->ops[i].host != host)
            continue;
        open += program->ops[i].kind == ORR_OP_GROUP_START;
        open -= program->ops[i].kind == ORR_OP_GROUP_END && open > 0;
    }
    uint32_t at = index + 1;
    for (uint32_t i = at; open > 0 && i < program->op_count; i++) {
        if (program->ops[i].host != host)
            continue;
        open += program->ops[i].kind == ORR_OP_GROUP_START;
        open -= program->ops[i].kind == ORR_OP_GROUP_END;
        if (open == 0)
            at = i + 1;
    }
    return at;
}

static uint32_t before_group(const struct orr_stream_program *program, uint32_t index) {
    uint32_t host = program->ops[index].host, open = 0, first = index;
    for (uint32_t i = 0; i < index; i++) {
        if (program->ops[i].host != host)
            continue;
        if (program->ops[i].kind == ORR_OP_GROUP_START && open++ == 0)
            first = i;
        open -= program->ops[i].kind == ORR_OP_GROUP_END && open > 0;
    }
    return open > 0 ? first : index;
}

/* The last record of an event on a's stream between the two, which no later call undid. */
static uint32_t covering_event(const struct planner *planner) {
    const struct orr_stream_op *ops = planner->program->ops;
    for (uint32_t i = planner->before_b; i-- > planner->after_a;) {
        if (ops[i].kind != ORR_OP_RECORD || ops[i].stream != planner->a.stream)
            continue;
        bool is_kept = true;
        for (uint32_t j = i + 1; is_kept && j < planner->before_b; j++)
            is_kept = ops[j].object != ops[i].object ||
                      (ops[j].kind != ORR_OP_RECORD && ops[j].kind != ORR_OP_EVENT_CREATE &&
                       ops[j].kind != ORR_OP_EVENT_DESTROY);
        return is_kept ? i : ORR_NONE;
    }
    return ORR_NONE;
}

/* Whether a's stream gets more work between the two, for which a sync would wait needlessly. */
static bool has_later_work(const struct planner *planner) {
    const struct orr_stream_op *ops = planner->program->ops;
    for (uint32_t i = planner->after_a; i < planner->before_b; i++)
        if (ops[i].stream == planner->a.stream && ops[i].access_count > 0)
            return true;
    return false;
}

/* --- plans --- */

/* b's stream or host waits for `event` before b; says so at the end of the text. */
static void wait_before_b(const struct planner *planner, struct orr__fix_plan *plan,
                          uint32_t event) {
    bool is_host = planner->b.stream == ORR_NONE;
    struct orr_stream_op *op = add_step(plan, planner->before_b,
                                        is_host ? ORR_OP_SYNC_EVENT : ORR_OP_WAIT, planner->b.host);
    op->object = event;
    if (!is_host)
        op->stream = planner->b.stream;
}

static const char *waiter(const struct planner *planner, struct names *names, int slot) {
    return planner->b.stream == ORR_NONE
               ? shown(planner, names, slot, ORR_NAME_HOST, planner->b.host)
               : shown(planner, names, slot, ORR_NAME_STREAM, planner->b.stream);
}

static const char *waiter_kind(const struct planner *planner) {
    return planner->b.stream == ORR_NONE ? "host" : "stream";
}

/* An event waited for by another host than the one that records it. */
static void say_call_order(const struct planner *planner, struct orr__fix_plan *plan) {
    if (planner->a.host != planner->b.host)
        append(plan, "; the hosts must make these calls in this order");
}

static void plan_known_event(struct planner *planner) {
    uint32_t record = covering_event(planner);
    if (record == ORR_NONE)
        return;
    struct names names;
    struct orr__fix_plan *plan = next_plan(planner);
    uint32_t event = planner->program->ops[record].object;
    wait_before_b(planner, plan, event);
    snprintf(plan->text, sizeof plan->text,
             "let %s %s wait for event '%s', recorded by op %" PRIu32 ", before op %" PRIu32,
             waiter_kind(planner), waiter(planner, &names, 0),
             shown(planner, &names, 1, ORR_NAME_EVENT, event), record, planner->finding->op_b);
    say_call_order(planner, plan);
}

static void plan_new_event(struct planner *planner) {
    struct names names;
    struct orr__fix_plan *plan = next_plan(planner);
    add_step(plan, planner->after_a, ORR_OP_RECORD, planner->a.host)->stream = planner->a.stream;
    wait_before_b(planner, plan, ORR_NONE);
    snprintf(plan->text, sizeof plan->text,
             "record an event on stream %s after op %" PRIu32
             ", and let %s %s wait for it before op %" PRIu32,
             shown(planner, &names, 0, ORR_NAME_STREAM, planner->a.stream), planner->finding->op_a,
             waiter_kind(planner), waiter(planner, &names, 1), planner->finding->op_b);
    say_call_order(planner, plan);
}

static void plan_sync(struct planner *planner) {
    struct names names;
    struct orr__fix_plan *plan = next_plan(planner);
    uint32_t host = planner->b.host;
    add_step(plan, planner->before_b, ORR_OP_SYNC_STREAM, host)->stream = planner->a.stream;
    snprintf(plan->text, sizeof plan->text, "let host %s synchronise stream %s before op %" PRIu32,
             shown(planner, &names, 0, ORR_NAME_HOST, host),
             shown(planner, &names, 1, ORR_NAME_STREAM, planner->a.stream), planner->finding->op_b);
}

/* Host a tells host b, which waits. */
static void plan_flag(struct planner *planner) {
    struct names names;
    struct orr__fix_plan *plan = next_plan(planner);
    add_step(plan, planner->after_a, ORR_OP_NOTIFY, planner->a.host);
    add_step(plan, planner->before_b, ORR_OP_AWAIT, planner->b.host);
    snprintf(plan->text, sizeof plan->text,
             "let host %s notify a flag after op %" PRIu32
             ", and host %s await it before op %" PRIu32,
             shown(planner, &names, 0, ORR_NAME_HOST, planner->a.host), planner->finding->op_a,
             shown(planner, &names, 1, ORR_NAME_HOST, planner->b.host), planner->finding->op_b);
}

/* The operation of this kind for a name, before `end`. */
static uint32_t find_op(const struct orr_stream_program *program, enum orr_stream_op_kind kind,
                        uint32_t object, uint32_t end) {
    for (uint32_t i = end; i-- > 0;)
        if (program->ops[i].kind == kind && program->ops[i].object == object)
            return i;
    return ORR_NONE;
}

/* A cached block that was handed on too early: its allocator is told of a's stream. */
static void plan_record_stream(struct planner *planner) {
    const struct orr_order_finding *finding = planner->finding;
    if (finding->access_a == ORR_NONE || finding->access_b == ORR_NONE ||
        planner->a.stream == ORR_NONE)
        return;
    uint32_t name = planner->program->accesses[finding->access_a].buffer;
    uint32_t end = find_op(planner->program, ORR_OP_FREE, name, finding->op_b);
    if (end == ORR_NONE || end < finding->op_a ||
        name == planner->program->accesses[finding->access_b].buffer)
        return;
    struct names names;
    struct orr__fix_plan *plan = next_plan(planner);
    struct orr_stream_op *op =
        add_step(plan, end, ORR_OP_RECORD_STREAM, planner->program->ops[end].host);
    op->object = name;
    op->stream = planner->a.stream;
    snprintf(plan->text, sizeof plan->text,
             "tell the allocator that stream %s uses '%s' (record_stream) before op %" PRIu32
             " frees it",
             shown(planner, &names, 0, ORR_NAME_STREAM, planner->a.stream),
             shown(planner, &names, 1, ORR_NAME_BUFFER, name), end);
}

/* An end of life that a later use follows: it goes behind the use. */
static struct orr__fix_plan *plan_later_end(struct planner *planner) {
    const struct orr_order_finding *finding = planner->finding;
    struct names names;
    struct orr__fix_plan *plan = next_plan(planner);
    plan->moved = finding->op_a;
    snprintf(
        plan->text, sizeof plan->text,
        "end '%s' after op %" PRIu32 ", its last use, and hand its block on only then",
        shown(planner, &names, 0, ORR_NAME_BUFFER, planner->program->ops[finding->op_a].object),
        finding->op_b);
    return plan;
}

/* The end goes behind the use; if that is not enough, it waits for the use as well. Behind the move
 * the end is where the use was. */
static void plan_ends(struct planner *planner) {
    const struct orr_stream_op *end = &planner->program->ops[planner->finding->op_a];
    uint32_t at = planner->finding->op_b;
    plan_later_end(planner);
    if (end->kind == ORR_OP_FREE)
        return;
    struct orr__fix_plan *plan = plan_later_end(planner);
    if (planner->b.stream == ORR_NONE) {
        add_step(plan, at, ORR_OP_NOTIFY, planner->b.host);
        add_step(plan, at, ORR_OP_AWAIT, end->host);
        append(plan, "; the host that ends it awaits a flag that is notified after the use");
    } else if (end->kind != ORR_OP_FREE_ASYNC) {
        add_step(plan, at, ORR_OP_SYNC_STREAM, end->host)->stream = planner->b.stream;
        append(plan, "; the host that ends it synchronises the stream of the use before");
    } else {
        add_step(plan, at, ORR_OP_RECORD, planner->b.host)->stream = planner->b.stream;
        add_step(plan, at, ORR_OP_WAIT, end->host)->stream = end->stream;
        append(plan, "; the stream that ends it waits for an event recorded after the use");
    }
}

uint32_t orr__fix_plans(const struct orr_stream_program *program,
                        const struct orr_order_finding *finding,
                        struct orr__fix_plan plans[ORR__FIX_PLANS_MAX]) {
    bool a_writes = finding->access_a == ORR_NONE || program->accesses[finding->access_a].is_write;
    bool b_writes = finding->access_b == ORR_NONE || program->accesses[finding->access_b].is_write;
    struct planner planner = {.program = program,
                              .finding = finding,
                              .a = orr_order_place(program, finding->op_a, a_writes),
                              .b = orr_order_place(program, finding->op_b, b_writes),
                              .after_a = after_group(program, finding->op_a),
                              .before_b = before_group(program, finding->op_b),
                              .plans = plans};
    if (finding->kind == ORR_CHECK_USE_AFTER_FREE && finding->access_a == ORR_NONE) {
        plan_ends(&planner);
        return planner.count;
    }
    if (planner.after_a > planner.before_b) { /* both in one group */
        planner.after_a = finding->op_a + 1;
        planner.before_b = finding->op_b;
    }
    plan_record_stream(&planner);
    if (planner.a.stream == ORR_NONE) {
        plan_flag(&planner);
        return planner.count;
    }
    plan_known_event(&planner);
    if (planner.b.stream == ORR_NONE && !has_later_work(&planner))
        plan_sync(&planner);
    plan_new_event(&planner);
    plan_sync(&planner);
    return planner.count;
}
