/* Oracle capture: the code, the cause and the way out of each error; size; missing memory. Verdicts
 * of small programs are in tests/data/programs.jsonl, random ones in tests/differential_check.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "hazards/check.h"
#include "hazards/stream_program_read.h"
#include "tests/stream_program_fixture.h"
#include "tests/support.h"

static struct orr_memory memory;

/* Streams s, t (nb), b (bl), L (legacy) of device 0. */
static struct orr_stream_program *read_ops(const struct orr_memory *of, const char *mode,
                                           const char *ops) {
    char text[4096];
    snprintf(
        text, sizeof text,
        "{\"id\":\"a\",\"program\":{\"oracle\":\"capture\",\"capture_mode\":\"%s\",\"streams\":"
        "{\"s\":{\"dev\":0,\"kind\":\"nb\"},\"t\":{\"dev\":0,\"kind\":\"nb\"},\"b\":{\"dev\":0,"
        "\"kind\":\"bl\"},\"L\":{\"dev\":0,\"kind\":\"legacy\"}},\"ops\":[%s]}}",
        mode, ops);
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    enum orr_status status = orr_stream_program_read(of, text, strlen(text), &line, &error);
    if (status == ORR_INVALID)
        fail_msg("%s\n%s", error.text, text);
    orr_memory_free(of, line.id);
    return line.program;
}

#define BEGIN "{\"op\":\"capture_begin\",\"stream\":\"s\"},"
#define FORK                                                                                       \
    "{\"op\":\"record\",\"event\":\"e\",\"stream\":\"s\"},"                                        \
    "{\"op\":\"wait\",\"stream\":\"t\",\"event\":\"e\"},"
#define END    "{\"op\":\"capture_end\",\"stream\":\"s\"}"
#define KERNEL "{\"op\":\"kernel\",\"stream\":\"t\"},"

static void errors_name_code_cause_and_way_out(void **state) {
    (void)state;
    static const struct {
        const char *mode, *ops, *code;
        const char *why, *fix;
    } cases[] = {
        {"global", "{\"op\":\"capture_begin\",\"stream\":\"L\"}",
         "op 0 'capb L' (host h): error 900, cudaErrorStreamCaptureUnsupported",
         "'L' is the legacy default stream", "capture on a stream that the program created"},
        {"global", BEGIN BEGIN END, "op 1 'capb s' (host h): error 401",
         "already in the capture that op 0 began", "end the capture before"},
        {"global", END, "error 903, cudaErrorStreamCaptureUnmatched", "stream 's' is in no capture",
         "begin the capture on this stream"},
        {"global", BEGIN FORK "{\"op\":\"capture_end\",\"stream\":\"t\"}", "error 903",
         "that op 0 began on stream 's', its origin", "end the capture on stream 's'"},
        {"global", BEGIN "{\"op\":\"capture_end\",\"stream\":\"s\",\"host\":\"g\"}",
         "op 1 'g: cape s' (host g): error 908, cudaErrorStreamCaptureWrongThread",
         "host 'h' began the capture, at op 0", "end the capture on host 'h'"},
        {"global", BEGIN FORK KERNEL END, "error 904, cudaErrorStreamCaptureUnjoined",
         "stream 't' joined the capture at op 2, and its last captured action, op 3 "
         "'k t', is not ordered",
         "record an event on stream 't' after op 3 and let stream 's' wait for it before "
         "op 4"},
        {"global",
         "{\"op\":\"record\",\"event\":\"e\",\"stream\":\"t\"}," BEGIN
         "{\"op\":\"wait\",\"event\":\"e\",\"stream\":\"s\"}",
         "error 905, cudaErrorStreamCaptureIsolation",
         "event 'e' was recorded by op 0 outside of the capture that op 1 began",
         "wait for 'e' on stream 's' before op 1 begins"},
        {"global",
         BEGIN "{\"op\":\"record\",\"event\":\"e\",\"stream\":\"s\"}," END
               ",{\"op\":\"wait\",\"event\":\"e\",\"stream\":\"t\"}",
         "error 907, cudaErrorCapturedEvent", "in a capture that op 2 ended", "record 'e' again"},
        {"global", BEGIN "{\"op\":\"capture_begin\",\"stream\":\"t\"}," FORK END,
         "error 902, cudaErrorStreamCaptureMerge",
         "stream 't' is in the capture that op 1 began, event 'e' in the one that op "
         "0 began",
         "one origin stream"},
        {"global",
         BEGIN "{\"op\":\"record\",\"event\":\"e\",\"stream\":\"s\"},"
               "{\"op\":\"wait\",\"event\":\"e\",\"stream\":\"L\"}",
         "error 900", "can't join the capture of event 'e'", "wait after the capture's end"},
        {"global",
         "{\"op\":\"capture_begin\",\"stream\":\"b\"},{\"op\":\"memset\",\"stream\":\"L\"}",
         "error 906, cudaErrorStreamCaptureImplicit",
         "blocking stream 'b', which is in the capture", "run it on a stream of kind nb"},
        {"global", BEGIN "{\"op\":\"sync_stream\",\"stream\":\"s\"}", "error 900",
         "its work does not run yet", "after the capture's end"},
        {"global",
         BEGIN "{\"op\":\"record\",\"event\":\"e\",\"stream\":\"s\"},"
               "{\"op\":\"sync_event\",\"event\":\"e\"}",
         "error 907", "the host can't ask for captured work", "record an event after"},
        {"global", BEGIN "{\"op\":\"cuda_malloc\",\"host\":\"g\"}", "error 900",
         "host 'h' is capturing stream 's' since op 0 in mode global, which forbids this "
         "call; the capture is invalidated (901, cudaErrorStreamCaptureInvalidated)",
         "capture in mode thread_local"},
        {"thread_local", BEGIN "{\"op\":\"event_query\",\"event\":\"e\"}", "error 900",
         "in mode thread_local", "capture in mode relaxed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct orr_stream_program *program = read_ops(&memory, cases[i].mode, cases[i].ops);
        struct orr_check_verdict verdict;
        assert_int_equal(orr_check_capture(program, &verdict), ORR_OK);
        assert_int_equal(verdict.kind, ORR_CHECK_ERROR);
        if (!strstr(verdict.message, cases[i].code) || !strstr(verdict.message, cases[i].why) ||
            !strstr(verdict.fix, cases[i].fix))
            fail_msg("case %zu: %s\nfix: %s", i, verdict.message, verdict.fix);
        assert_int_equal(verdict.op_a, ORR_NONE);
        orr_check_verdict_clear(&verdict);
        orr_stream_program_destroy(&program);
    }
}

static void add(struct orr_stream_program *program, enum orr_stream_op_kind kind, uint32_t stream,
                uint32_t event) {
    struct orr_stream_op op = orr_stream_op(kind);
    op.host = 0;
    op.stream = stream;
    op.object = event;
    assert_int_equal(orr_stream_program_add(program, &op, NULL, 0), ORR_OK);
}

/* Many streams fork from one and join it in many rounds: sets that were copied, or even compared,
 * would take streams x operations. */
static void long_captures_take_little_time(void **state) {
    (void)state;
    enum { STREAMS = 3000, ROUNDS = 10 };
    struct orr_stream_program *program;
    uint32_t stream, event;
    assert_int_equal(orr_stream_program_create(&memory, &program), ORR_OK);
    program->oracle = ORR_ORACLE_CAPTURE;
    for (uint32_t i = 0; i < STREAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", i);
        assert_int_equal(orr_stream_program_stream(program, name, 0, ORR_STREAM_NB, &stream),
                         ORR_OK);
        assert_int_equal(orr_stream_program_name(program, ORR_NAME_EVENT, name, &event), ORR_OK);
    }
    add(program, ORR_OP_CAPTURE_BEGIN, 0, ORR_NONE);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        add(program, ORR_OP_RECORD, 0, 0);
        for (uint32_t i = 1; i < STREAMS; i++) {
            add(program, ORR_OP_WAIT, i, 0);
            add(program, ORR_OP_KERNEL, i, ORR_NONE);
            add(program, ORR_OP_RECORD, i, i);
        }
        for (uint32_t i = 1; i < STREAMS; i++)
            add(program, ORR_OP_WAIT, 0, i);
    }
    add(program, ORR_OP_CAPTURE_END, 0, ORR_NONE);
    struct orr_check_verdict verdict;
    assert_int_equal(orr_check_capture(program, &verdict), ORR_OK);
    assert_int_equal(verdict.kind, ORR_CHECK_NO_ERROR);
    orr_check_verdict_clear(&verdict);
    program->ops[program->op_count - 2].kind = ORR_OP_GRAPH_LAUNCH; /* the last one joins no more */
    assert_int_equal(orr_check_capture(program, &verdict), ORR_OK);
    assert_int_equal(verdict.kind, ORR_CHECK_ERROR);
    assert_int_equal(verdict.op_b, program->op_count - 1);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void check_with(struct memory_counting *counting, void *context) {
    struct orr_stream_program *program =
        read_ops(&counting->table, "global", (const char *)context);
    if (!program)
        return;
    struct orr_check_verdict verdict;
    enum orr_status status = orr_stream_program_check(program, NULL, &verdict);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    char unjoined[] = BEGIN FORK KERNEL END;
    char forbidden[] = BEGIN "{\"op\":\"cuda_malloc\"}";
    assert_true(fail_each_request(check_with, unjoined) > 20);
    assert_true(fail_each_request(check_with, forbidden) > 20);
}

int main(void) {
    memory = orr_memory_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_code_cause_and_way_out),
        cmocka_unit_test(long_captures_take_little_time),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("capture_rules", tests, NULL, NULL);
}
