#include "hazards/fix.h"
#include "hazards/order_internal.h"

enum orr_status orr_check_order_all(const struct orr_stream_program *program, orr_order_found found,
                                    void *context, struct orr_order_malformed *out_malformed) {
    struct orr__order_request request = {.found = found, .context = context};
    struct orr_order_malformed malformed;
    return orr__order_check(program, &request, out_malformed ? out_malformed : &malformed);
}

static bool keep_first(void *context, const struct orr_order_finding *finding) {
    *(struct orr_order_finding *)context = *finding;
    return false;
}

/* What to do, and what a check of the program with it said. */
static enum orr_status set_fix(const struct orr_stream_program *program,
                               const struct orr_order_finding *finding,
                               struct orr_check_verdict *verdict) {
    struct orr_fix fix;
    enum orr_status status = orr_fix_find(program, finding, &fix);
    if (status != ORR_OK)
        return status;
    if (!fix.is_proven)
        status = orr_check_verdict_fix(verdict, "%s (not proven)", fix.text);
    else if (fix.next.op_b == ORR_NONE)
        status = orr_check_verdict_fix(verdict, "%s (checked: orders the two)", fix.text);
    else
        status = orr_check_verdict_fix(
            verdict,
            "%s (checked: orders the two; next: %s, operations %u and %u of the changed "
            "program)",
            fix.text, orr_check_verdict_text(fix.next.kind), fix.next.op_a, fix.next.op_b);
    orr_fix_clear(&fix);
    return status;
}

enum orr_status orr_check_order(const struct orr_stream_program *program,
                                struct orr_check_verdict *out_verdict) {
    struct orr_order_finding first = {.op_b = ORR_NONE};
    struct orr_order_malformed malformed;
    *out_verdict = (struct orr_check_verdict){
        .kind = ORR_CHECK_NO_RACE, .op_a = ORR_NONE, .op_b = ORR_NONE, .memory = program->memory};
    enum orr_status status = orr_check_order_all(program, keep_first, &first, &malformed);
    if (status != ORR_OK)
        return status;
    if (malformed.op != ORR_NONE) {
        out_verdict->kind = ORR_CHECK_INVALID;
        return orr_check_verdict_message(
            out_verdict, "ops[%u]: '%s' %s", malformed.op,
            orr_stream_program_text(program, malformed.space, malformed.name), malformed.what);
    }
    if (first.op_b == ORR_NONE)
        return ORR_OK;
    status = orr_order_finding_describe(program, &first, out_verdict);
    return status == ORR_OK ? set_fix(program, &first, out_verdict) : status;
}
