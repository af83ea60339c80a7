#include "hazards/check.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 64 << 10 };

static const struct {
    const char *text;
    bool is_unsafe;
} verdicts[] = {
#define ROW(name, text, is_unsafe) [ORR_CHECK_##name] = {text, is_unsafe},
    ORR_CHECK_VERDICT_LIST(ROW)
#undef ROW
};

const char *orr_check_verdict_text(enum orr_check_verdict_kind kind) {
    assert((unsigned)kind < ORR_CHECK_VERDICT_COUNT);
    return verdicts[kind].text;
}

bool orr_check_verdict_is_unsafe(enum orr_check_verdict_kind kind) {
    assert((unsigned)kind < ORR_CHECK_VERDICT_COUNT);
    return verdicts[kind].is_unsafe;
}

enum orr_status orr_stream_program_check(const struct orr_stream_program *program,
                                         const struct orr_check_limits *limits,
                                         struct orr_check_verdict *out_verdict) {
    *out_verdict =
        (struct orr_check_verdict){.op_a = ORR_NONE, .op_b = ORR_NONE, .memory = program->memory};
    switch (program->oracle) {
    case ORR_ORACLE_HB: return orr_check_order(program, out_verdict);
    case ORR_ORACLE_HANG:
        return orr_check_hangs(program, limits ? limits->states_max : 0, out_verdict);
    case ORR_ORACLE_CAPTURE: return orr_check_capture(program, out_verdict);
    }
    return ORR_UNSUPPORTED; /* no such oracle: not reached */
}

void orr_check_verdict_clear(struct orr_check_verdict *verdict) {
    if (!verdict->memory)
        return;
    orr_memory_free(verdict->memory, verdict->message);
    orr_memory_free(verdict->memory, verdict->fix);
    orr_memory_free(verdict->memory, verdict->data);
    verdict->message = verdict->fix = verdict->data = NULL;
}

static enum orr_status set_text(const struct orr_memory *memory, char **text, const char *format,
                                va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    size = size > TEXT_MAX ? TEXT_MAX : size;
    char *made = orr_memory_alloc(memory, size);
    if (!made)
        return ORR_NO_MEMORY;
    vsnprintf(made, size, format, arguments);
    orr_memory_free(memory, *text);
    *text = made;
    return ORR_OK;
}

enum orr_status orr_check_verdict_message(struct orr_check_verdict *verdict, const char *format,
                                          ...) {
    va_list arguments;
    va_start(arguments, format);
    enum orr_status status = set_text(verdict->memory, &verdict->message, format, arguments);
    va_end(arguments);
    return status;
}

enum orr_status orr_check_verdict_fix(struct orr_check_verdict *verdict, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    enum orr_status status = set_text(verdict->memory, &verdict->fix, format, arguments);
    va_end(arguments);
    return status;
}
