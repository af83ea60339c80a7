#include "hazards/fix_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A program that is being changed, and where the pair is in it. */
struct patient {
    struct orr_fix *fix;
    uint32_t a, b;
};

/* --- changes --- */

static enum orr_status insert(struct patient *patient, uint32_t at,
                              const struct orr_stream_op *op) {
    struct orr_fix *fix = patient->fix;
    enum orr_status status = orr_stream_program_insert(fix->program, at, op);
    if (status != ORR_OK)
        return status;
    patient->a += patient->a >= at;
    patient->b += patient->b >= at;
    for (uint32_t i = 0; i < fix->edit_count; i++)
        fix->edits[i].at += fix->edits[i].at >= at;
    fix->edits[fix->edit_count++] = (struct orr_fix_edit){.op = *op, .at = at};
    return ORR_OK;
}

/* The end of life `a` goes right behind `b`; whoever got the block in between gets a new one. */
static void move_behind(struct patient *patient) {
    struct orr_fix *fix = patient->fix;
    struct orr_stream_op *ops = fix->program->ops, moved = ops[patient->a];
    memmove(ops + patient->a, ops + patient->a + 1, (patient->b - patient->a) * sizeof *ops);
    ops[patient->b] = moved;
    for (uint32_t i = 0; i < patient->b; i++)
        if ((ops[i].kind == ORR_OP_ALLOC || ops[i].kind == ORR_OP_ALLOC_ASYNC) &&
            ops[i].other == moved.object)
            ops[i].other = ORR_NONE;
    fix->edits[fix->edit_count++] =
        (struct orr_fix_edit){.op = moved, .at = patient->b, .is_moved = true};
    patient->a = patient->b--;
}

/* A name that the space does not have yet. */
static enum orr_status new_name(struct orr_stream_program *program, enum orr_name_space space,
                                uint32_t *out_id) {
    char text[32] = "fix";
    for (uint32_t i = 2; orr__name_table_find(&program->names[space], text) != ORR_NONE; i++)
        snprintf(text, sizeof text, "fix%" PRIu32, i);
    return orr_stream_program_name(program, space, text, out_id);
}

static enum orr_status apply_steps(struct patient *patient, struct orr__fix_plan *plan) {
    uint32_t made = ORR_NONE;
    for (uint32_t i = plan->step_count; i-- > 0;) {
        struct orr_stream_op *op = &plan->steps[i].op;
        bool is_flag = op->kind == ORR_OP_NOTIFY || op->kind == ORR_OP_AWAIT;
        bool is_named = op->object != ORR_NONE || op->kind == ORR_OP_SYNC_STREAM;
        enum orr_status status = ORR_OK;
        if (!is_named && made == ORR_NONE)
            status =
                new_name(patient->fix->program, is_flag ? ORR_NAME_FLAG : ORR_NAME_EVENT, &made);
        if (!is_named)
            op->object = made;
        if (status == ORR_OK)
            status = insert(patient, plan->steps[i].before, op);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

/* --- proof --- */

struct proof {
    uint32_t first, second; /* the pair, in list order */
    bool is_found;
    struct orr_order_finding next;
};

static bool judge(void *context, const struct orr_order_finding *finding) {
    struct proof *proof = context;
    if (finding->op_b > proof->second)
        return false;
    if (finding->op_a == proof->first && finding->op_b == proof->second)
        proof->is_found = true;
    else if (proof->next.op_b == ORR_NONE)
        proof->next = *finding;
    return !proof->is_found;
}

/* Checks the changed program up to the pair. Both may have changed places. */
static enum orr_status prove(struct patient *patient) {
    struct proof proof = {.first = patient->a < patient->b ? patient->a : patient->b,
                          .second = patient->a < patient->b ? patient->b : patient->a,
                          .next.op_b = ORR_NONE};
    struct orr_order_malformed malformed;
    enum orr_status status = orr_check_order_all(patient->fix->program, judge, &proof, &malformed);
    patient->fix->next = proof.next;
    patient->fix->is_proven = status == ORR_OK && !proof.is_found &&
                              (malformed.op == ORR_NONE || malformed.op > proof.second);
    return status;
}

static void sort_edits(struct orr_fix *fix) {
    for (uint32_t i = 1; i < fix->edit_count; i++) {
        struct orr_fix_edit edit = fix->edits[i];
        uint32_t at = i;
        for (; at > 0 && fix->edits[at - 1].at > edit.at; at--)
            fix->edits[at] = fix->edits[at - 1];
        fix->edits[at] = edit;
    }
}

static enum orr_status try_plan(const struct orr_stream_program *program,
                                const struct orr_order_finding *finding, struct orr__fix_plan *plan,
                                struct orr_fix *fix) {
    orr_fix_clear(fix);
    struct patient patient = {.fix = fix, .a = finding->op_a, .b = finding->op_b};
    enum orr_status status = orr_stream_program_copy(program, &fix->program);
    if (status != ORR_OK)
        return status;
    if (plan->moved != ORR_NONE)
        move_behind(&patient);
    status = apply_steps(&patient, plan);
    if (status == ORR_OK)
        status = prove(&patient);
    sort_edits(fix);
    snprintf(fix->text, sizeof fix->text, "%s", plan->text);
    return status;
}

enum orr_status orr_fix_find(const struct orr_stream_program *program,
                             const struct orr_order_finding *finding, struct orr_fix *out_fix) {
    struct orr__fix_plan plans[ORR__FIX_PLANS_MAX];
    uint32_t count = orr__fix_plans(program, finding, plans);
    enum orr_status status = ORR_OK;
    *out_fix = (struct orr_fix){.next.op_b = ORR_NONE};
    for (uint32_t i = 0; status == ORR_OK && i < count && !out_fix->is_proven; i++)
        status = try_plan(program, finding, &plans[i], out_fix);
    if (status != ORR_OK)
        orr_fix_clear(out_fix);
    return status;
}

void orr_fix_clear(struct orr_fix *fix) {
    orr_stream_program_destroy(&fix->program);
    *fix = (struct orr_fix){.next.op_b = ORR_NONE};
}

/* --- all --- */

static bool keep_first(void *context, const struct orr_order_finding *finding) {
    *(struct orr_order_finding *)context = *finding;
    return false;
}

static enum orr_status find_first(const struct orr_stream_program *program,
                                  struct orr_order_finding *out_first, bool *out_is_safe) {
    *out_first = (struct orr_order_finding){.op_b = ORR_NONE};
    enum orr_status status = orr_check_order_all(program, keep_first, out_first, NULL);
    *out_is_safe = status == ORR_OK && out_first->op_b == ORR_NONE;
    return status;
}

/* One more fix; *out_is_over: there was nothing to fix, or no fix proved. */
static enum orr_status fix_next(struct orr_stream_program **program, uint32_t *count,
                                bool *out_is_safe, bool *out_is_over) {
    struct orr_order_finding first;
    struct orr_fix fix = {.program = NULL};
    enum orr_status status = find_first(*program, &first, out_is_safe);
    if (status == ORR_OK && !*out_is_safe)
        status = orr_fix_find(*program, &first, &fix);
    *out_is_over = !fix.is_proven;
    if (fix.is_proven) {
        orr_stream_program_destroy(program);
        *program = fix.program;
        fix.program = NULL;
        ++*count;
    }
    orr_fix_clear(&fix);
    return status;
}

enum orr_status orr_fix_all(const struct orr_stream_program *program, uint32_t fixes_max,
                            struct orr_stream_program **out_program, uint32_t *out_count,
                            bool *out_is_safe) {
    struct orr_order_finding first;
    bool is_over = false;
    *out_count = 0;
    *out_is_safe = false;
    enum orr_status status = orr_stream_program_copy(program, out_program);
    while (status == ORR_OK && !is_over && *out_count < fixes_max)
        status = fix_next(out_program, out_count, out_is_safe, &is_over);
    if (status == ORR_OK && !is_over)
        status = find_first(*out_program, &first, out_is_safe);
    if (status != ORR_OK)
        orr_stream_program_destroy(out_program);
    return status;
}
