#include "hazards/hangs.h"

#include "hazards/hang_fix.h"

/* Message, fix and data, in this order, by one builder. */
static enum orr_status say(struct orr__builder *text, const struct orr_stream_program *program,
                           const struct orr_hang_result *result,
                           struct orr_check_verdict *verdict) {
    enum orr_status status = ORR_OK;
    orr__hang_message(text, program, result);
    if (text->failed)
        return ORR_NO_MEMORY;
    if (text->length > 0)
        status = orr_check_verdict_message(verdict, "%s", text->data);
    orr__builder_restart(text);
    if (status == ORR_OK && orr_check_verdict_is_unsafe(result->kind))
        status = orr__hang_fix(text, program, result);
    if (text->failed)
        return ORR_NO_MEMORY;
    if (status == ORR_OK && text->length > 0)
        status = orr_check_verdict_fix(verdict, "%s", text->data);
    orr__builder_restart(text);
    orr__hang_json(text, program, result);
    return text->failed ? ORR_NO_MEMORY : status;
}

enum orr_status orr_check_hangs(const struct orr_stream_program *program, uint64_t states_max,
                                struct orr_check_verdict *out_verdict) {
    struct orr_hang_result result;
    enum orr_status status = orr_hangs_find(program, states_max, &result);
    if (status == ORR_OK) {
        struct orr__builder text = {.memory = program->memory};
        out_verdict->kind = result.kind;
        status = say(&text, program, &result, out_verdict);
        if (status == ORR_OK)
            out_verdict->data = text.data;
        else
            orr__builder_clear(&text);
    }
    orr_hang_result_clear(&result);
    return status;
}
