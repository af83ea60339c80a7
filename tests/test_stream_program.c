/* Stream programs from text and back: what is read, what is refused and how, what comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/check_json.h"
#include "hazards/json_events.h"
#include "hazards/stream_program_read.h"
#include "hazards/stream_program_write.h"
#include "tests/stream_program_fixture.h"
#include "tests/support.h"

static struct orr_memory memory;

/* A line that must be well formed. */
static struct orr_stream_program *read_line(const char *text) {
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    if (orr_stream_program_read(&memory, text, strlen(text), &line, &error) != ORR_OK)
        fail_msg("%s\n%s", error.text, text);
    orr_memory_free(&memory, line.id);
    return line.program;
}

/* A program around operations: streams s (nb) and L (legacy) of device 0. */
static const char *around(const char *oracle, const char *ops) {
    static char text[1 << 16];
    snprintf(text, sizeof text,
             "{\"id\":\"a\",\"program\":{\"oracle\":\"%s\",\"streams\":{\"s\":{\"dev\":0,\"kind\":"
             "\"nb\"},\"L\":{\"dev\":0,\"kind\":\"legacy\"}},\"comms\":{\"c\":[0,\"r\"]},\"ops\":"
             "[%s]}}",
             oracle, ops);
    return text;
}

static void expect_text(const struct orr_stream_program *program, enum orr_name_space space,
                        uint32_t id, const char *text) {
    assert_string_equal(orr_stream_program_text(program, space, id), text);
}

/* --- what is read --- */

static void fields_may_stand_in_any_order(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(
        "{\"note\":[{\"ops\":1}],\"program\":{\"ops\":[{\"writes\":[\"B[0:4]\"],\"reads\":[\"A\"],"
        "\"site\":\"x.lua:3\",\"stream\":\"s\",\"host\":\"r\",\"op\":\"kernel\"}],\"buffers\":"
        "{\"A\":\"pinned\"},\"streams\":{\"s\":{\"kind\":\"ptds\",\"dev\":3}}},\"id\":\"x\"}");
    const struct orr_stream_op *op = &program->ops[0];
    assert_int_equal(program->op_count, 1);
    assert_int_equal(op->kind, ORR_OP_KERNEL);
    expect_text(program, ORR_NAME_HOST, op->host, "r");
    expect_text(program, ORR_NAME_STREAM, op->stream, "s");
    expect_text(program, ORR_NAME_WORD, op->site, "x.lua:3");
    assert_int_equal(program->streams[op->stream].device, 3);
    assert_int_equal(program->streams[op->stream].sync, ORR_STREAM_PTDS);
    assert_int_equal(op->access_count, 2);
    assert_false(program->accesses[0].is_write);
    assert_true(program->accesses[0].hi == ORR_RANGE_WHOLE);
    assert_int_equal(program->buffers[program->accesses[0].buffer], ORR_MEMORY_PINNED);
    assert_true(program->accesses[1].is_write && program->accesses[1].hi == 4);
    orr_stream_program_destroy(&program);
}

static void null_is_as_good_as_absent(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(
        "{\"id\":\"x\",\"program\":{\"oracle\":null,\"pageable\":null,\"capture_mode\":null,"
        "\"nccl_serial\":null,\"slots\":null,\"queue_depth\":null,\"comms\":null,\"buffers\":"
        "{\"A\":null},\"streams\":{\"s\":{\"dev\":0,\"kind\":\"nb\"},\"t\":null},\"ops\":[{\"op\":"
        "\"kernel\",\"stream\":\"s\",\"host\":null,\"reads\":null,\"writes\":[]}]}}");
    assert_int_equal(program->oracle, ORR_ORACLE_HB);
    assert_true(program->slots == 99 && program->queue_depth == ORR_NO_LIMIT);
    assert_int_equal(program->ops[0].host, 0);
    assert_int_equal(program->ops[0].access_count, 0);
    orr_stream_program_destroy(&program);
}

static void of_a_key_given_twice_the_last_value_counts(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(
        "{\"id\":1,\"id\":\"x\",\"program\":{\"oracle\":\"hang\",\"ops\":[{\"op\":\"lock\"}]},"
        "\"program\":{\"ops\":[{\"op\":\"kernel\",\"stream\":\"t\"},{\"op\":\"kernel\",\"stream\":"
        "\"t\"}],\"streams\":{\"t\":{\"dev\":0,\"kind\":\"nb\"}},\"buffers\":{\"B\":\"pinned\"},"
        "\"buffers\":{\"C\":\"empty\"},\"streams\":{\"s\":{\"dev\":0,\"dev\":2,\"kind\":\"nb\"}},"
        "\"ops\":[{\"op\":\"memset\",\"op\":\"kernel\",\"stream\":\"t\",\"stream\":\"s\",\"host\":"
        "\"r\",\"host\":null,\"reads\":[\"A\"],\"reads\":[\"B\",\"C\"]}]}}");
    assert_int_equal(program->op_count, 1);
    assert_int_equal(program->ops[0].kind, ORR_OP_KERNEL);
    assert_int_equal(program->ops[0].host, 0);
    expect_text(program, ORR_NAME_STREAM, program->ops[0].stream, "s");
    assert_int_equal(program->streams[program->ops[0].stream].device, 2);
    assert_int_equal(program->access_count, 2);
    assert_int_equal(program->buffers[program->accesses[0].buffer], ORR_MEMORY_DEV);
    assert_int_equal(program->buffers[program->accesses[1].buffer], ORR_MEMORY_EMPTY);
    orr_stream_program_destroy(&program);
}

static void ranks_and_counts_are_compared_as_json_values(void **state) {
    (void)state;
    struct orr_stream_program *program =
        read_line(around("hang", "{\"op\":\"coll\",\"comm\":\"c\",\"stream\":\"s\",\"rank\":0.0,"
                                 "\"count\":1.0,\"kind\":\"k\"},"
                                 "{\"op\":\"coll\",\"comm\":\"c\",\"stream\":\"s\",\"rank\":\"0\","
                                 "\"count\":-0.150e1},"
                                 "{\"op\":\"send\",\"comm\":\"c\",\"stream\":\"s\",\"peer\":1e2,"
                                 "\"host\":\"r\"},"
                                 "{\"op\":\"recv\",\"comm\":\"c\",\"stream\":\"s\",\"peer\":100,"
                                 "\"count\":1}"));
    const struct orr_stream_op *ops = program->ops;
    assert_int_equal(ops[0].rank, program->members[0]);
    assert_int_equal(ops[0].count, ORR_NONE);
    expect_text(program, ORR_NAME_WORD, ops[0].word, "\"k\"");
    expect_text(program, ORR_NAME_RANK, ops[1].rank, "\"0\"");
    expect_text(program, ORR_NAME_WORD, ops[1].count, "-15e-1");
    assert_int_equal(ops[1].word, ORR_NONE);
    assert_int_equal(ops[2].rank, program->members[1]);
    assert_int_equal(ops[2].other, ops[3].other);
    expect_text(program, ORR_NAME_RANK, ops[3].rank, "\"h\"");
    orr_stream_program_destroy(&program);
}

static void numbers_have_one_form_for_each_value(void **state) {
    (void)state;
    static const char *const forms[][2] = {
        {"0", "0"},
        {"-0.0e7", "0"},
        {"1.0", "1"},
        {"100", "100"},
        {"1e2", "100"},
        {"0.010e4", "100"},
        {"-12.50", "-125e-1"},
        {"0.05", "5e-2"},
        {"18446744073709551616", "18446744073709551616"},
        {"1e20", "1e20"},
        {"123456789012345678901234567890", "12345678901234567890123456789e1"},
        {"1E+999999999999999999999", "1e999999999999999999"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct orr__builder text = {.memory = &memory};
        orr__build_json_number(&text, forms[i][0]);
        assert_false(text.failed);
        if (i + 1 < sizeof forms / sizeof forms[0]) /* the last one is cut somewhere */
            assert_string_equal(text.data, forms[i][1]);
        orr__builder_clear(&text);
    }
}

static void limits_take_any_integer(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {{"0", 0},
                 {"-3", 0},
                 {"2e0", 2},
                 {"18446744073709551614", UINT64_MAX - 1},
                 {"18446744073709551615", ORR_NO_LIMIT},
                 {"1e400", ORR_NO_LIMIT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"id\":\"\",\"program\":{\"streams\":{},\"ops\":[],\"slots\":%s,"
                 "\"queue_depth\":%s}}",
                 cases[i].text, cases[i].text);
        struct orr_stream_program *program = read_line(text);
        assert_true(program->slots == cases[i].value && program->queue_depth == cases[i].value);
        orr_stream_program_destroy(&program);
    }
}

static void fields_without_influence_may_hold_anything(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(around(
        "hb", "{\"op\":\"alloc\",\"buf\":\"A\",\"stream\":\"nowhere\",\"handle\":[{}],\"graph\":1},"
              "{\"op\":\"kernel\",\"stream\":\"s\",\"flag\":5,\"event\":{},\"replay\":1e999,"
              "\"buf\":[[[]]],\"site\":3},"
              "{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"x\",\"y\"]]},"
              "{\"op\":\"coll\",\"comm\":\"other\",\"stream\":\"s\"},"
              "{\"op\":\"view\",\"buf\":\"A\",\"stream\":\"L\"}"));
    assert_int_equal(program->ops[0].stream, ORR_NONE);
    assert_int_equal(program->ops[1].site, ORR_NONE);
    assert_int_equal(program->ops[2].step_count, 0);
    orr_stream_program_destroy(&program);
}

static void names_hold_any_character(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(
        around("hb", "{\"op\":\"notify\",\"flag\":\"a\\u0000b\"},{\"op\":\"await\",\"flag\":"
                     "\"a\\u0000c\"},{\"op\":\"notify\",\"flag\":\"\\ud83d\\ude00\"},"
                     "{\"op\":\"notify\",\"flag\":\"\xf0\x9f\x98\x80\"}"));
    assert_int_equal(program->names[ORR_NAME_FLAG].count, 3);
    expect_text(program, ORR_NAME_FLAG, program->ops[3].object, "\xf0\x9f\x98\x80");
    orr_stream_program_destroy(&program);
}

static void bounds_beyond_64_bits_keep_their_order(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(
        around("hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"writes\":[\"A\"],\"writes\":["
                     "\"A[5:100000000000000000000]\","
                     "\"A[18446744073709551615:0018446744073709551616]\","
                     "\"A[9223372036854775808:18446744073709551614]\","
                     "\"A[99999999999999999999:100000000000000000000]\",\"A[7:8]\",\"B\"]}"));
    const struct orr_stream_access *accesses = program->accesses;
    assert_int_equal(program->access_count, 6);
    assert_true(accesses[0].lo == 5 && accesses[4].lo == 7 && accesses[4].hi == 8);
    assert_true(accesses[5].lo == 0 && accesses[5].hi == ORR_RANGE_WHOLE);
    assert_true(accesses[2].lo < accesses[2].hi && accesses[2].hi < accesses[1].lo);
    assert_true(accesses[1].lo < accesses[1].hi && accesses[1].hi < accesses[3].lo);
    assert_true(accesses[3].lo < accesses[3].hi && accesses[3].hi == accesses[0].hi);
    assert_true(accesses[0].hi < ORR_RANGE_WHOLE && accesses[2].lo > 8);
    orr_stream_program_destroy(&program);
    program = read_line(around("hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"writes\":["
                                     "\"A[9223372036854775809:18446744073709551614]\"]}"));
    assert_true(program->accesses[0].lo == UINT64_C(9223372036854775809));
    assert_true(program->accesses[0].hi == UINT64_MAX - 1);
    orr_stream_program_destroy(&program);
}

/* --- what is refused --- */

static void expect_refused(const char *text, const char *id, const char *message) {
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    enum orr_status status = orr_stream_program_read(&memory, text, strlen(text), &line, &error);
    if (status != ORR_INVALID || !strstr(error.text, message))
        fail_msg("'%s' is not in '%s' of\n%s", message, error.text, text);
    assert_null(line.program);
    if (id)
        assert_string_equal(line.id, id);
    else
        assert_null(line.id);
    orr_stream_program_line_clear(&line, &memory);
}

static void what_is_no_line_has_no_id(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "an empty line"},
        {" \t\r\n", "an empty line"},
        {"7", "the line is no object"},
        {"null", "the line is no object"},
        {"[{\"id\":\"a\"}]", "the line is no object"},
        {"\"id\"", "the line is no object"},
        {"{\"id\":\"a\",\"program\":{\"streams\":{},\"ops\":[]}", "no JSON behind byte"},
        {"{\"id\":\"a\",\"program\":{\"streams\":{},\"ops\":[]}} x", "no JSON behind byte 44"},
        {"{\"id\":\"a\"}{}", "no JSON behind byte"},
        {"{'id':\"a\"}", "no JSON behind byte"},
        {"{\"id\":\"a\",}", "no JSON behind byte"},
        {"{\"id\":\"a\",\"x\":01}", "no JSON behind byte"},
        {"{\"id\":\"a\",\"x\":NaN}", "no JSON behind byte"},
        {"{\"id\":\"a\",\"x\":\"\xc3\"}", "no JSON"},
        {"{\"id\":\"a\",\"x\":\"\xc0\x80\"}", "not UTF-8"},
        {"{\"id\":\"a\",\"x\":\"\xf5\x80\x80\x80\"}", "no"},
        {"\xef\xbb\xbf{\"id\":\"a\"}", "no JSON behind byte"},
        {"{\"program\":{\"streams\":{},\"ops\":[]}}", "id: missing"},
        {"{\"id\":null,\"program\":{}}", "id: missing"},
        {"{\"id\":[\"a\"],\"program\":{}}", "id: missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i][0], NULL, cases[i][1]);
}

static void a_malformed_program_is_told_by_its_field(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "program: missing"},
        {",\"program\":null", "program: missing"},
        {",\"program\":[]", "program: no object"},
        {",\"program\":{\"ops\":[]}", "program.streams: missing"},
        {",\"program\":{\"ops\":[],\"streams\":null}", "program.streams: missing"},
        {",\"program\":{\"streams\":{}}", "program.ops: missing"},
        {",\"program\":{\"ops\":{},\"streams\":{}}", "program.ops: no array"},
        {",\"program\":{\"ops\":[],\"streams\":[]}", "program.streams: no object"},
        {",\"program\":{\"ops\":[7],\"streams\":{}}", "ops[0]: no object"},
        {",\"program\":{\"ops\":[null],\"streams\":{}}", "ops[0]: no object"},
        {",\"program\":{\"ops\":[],\"streams\":{\"s\":{\"kind\":\"nb\"}}}",
         "program.streams.s.dev: missing"},
        {",\"program\":{\"ops\":[],\"streams\":{\"s\":{\"dev\":0}}}",
         "program.streams.s.kind: missing; nb, bl, ptds or legacy"},
        {",\"program\":{\"ops\":[],\"streams\":{\"s\":{\"dev\":0,\"kind\":\"x\"}}}",
         "program.streams.s.kind: 'x' is unknown"},
        {",\"program\":{\"ops\":[],\"streams\":{\"s\":{\"dev\":\"0\",\"kind\":\"nb\"}}}",
         "program.streams.s.dev: expected a device"},
        {",\"program\":{\"ops\":[],\"streams\":{\"s\":{\"dev\":-1,\"kind\":\"nb\"}}}",
         "program.streams.s.dev: expected a device"},
        {",\"program\":{\"ops\":[],\"streams\":{\"s\":7}}", "program.streams.s: no object"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"oracle\":\"hp\"}", "program.oracle: 'hp'"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"oracle\":7}", "program.oracle: no string"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"pageable\":\"lax\"}",
         "program.pageable: 'lax' is unknown; strict or staged"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"capture_mode\":\"x\"}",
         "program.capture_mode: 'x'"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"nccl_serial\":1}", "program.nccl_serial: true"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"slots\":\"2\"}", "program.slots: no integer"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"queue_depth\":0.5}", "program.queue_depth: no"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"buffers\":[]}", "program.buffers: no object"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"buffers\":{\"A\":\"hbm\"}}",
         "program.buffers.A: 'hbm' is unknown; dev, pinned, pageable, managed or empty"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"comms\":{\"c\":\"r\"}}",
         "program.comms.c: no array"},
        {",\"program\":{\"ops\":[],\"streams\":{},\"comms\":{\"c\":[0,true]}}",
         "program.comms.c[1]: expected a rank"},
        {",\"program\":{\"ops\":[],\"streams\":{\"L\":{\"dev\":1,\"kind\":\"legacy\"},\"M\":"
         "{\"dev\":1,\"kind\":\"legacy\"}}}",
         "program.streams: 'L' and 'M' are both of kind legacy on device 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{\"id\":\"a\"%s}", cases[i][0]);
        expect_refused(text, "a", cases[i][1]);
    }
}

static void a_malformed_operation_is_told_by_its_field(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"hb", "{}", "ops[0].op: missing"},
        {"hb", "{\"op\":7}", "ops[0].op: no string"},
        {"hb", "{\"op\":\"kernle\"}", "ops[0].op: 'kernle' is unknown; did you mean 'kernel'?"},
        {"hb", "{\"op\":\"kernel\"}", "ops[0].stream: missing"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"S\"}",
         "ops[0].stream: 'S' is not declared; did you mean 's'?"},
        {"hb", "{\"op\":\"kernel\",\"stream\":7}", "ops[0].stream: expected the name of a stream"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"host\":0}", "ops[0].host: expected"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":\"A\"}", "ops[0].reads: expected"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[7]}",
         "ops[0].reads[0]: '7' is no access"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[\"A\",\"B[1:]\"]}",
         "ops[0].reads[1]: 'B[1:]' is no access"},
        {"hang", "{\"op\":\"kernel\",\"stream\":\"s\",\"writes\":[\"A[-1:2]\"]}",
         "ops[0].writes[0]: 'A[-1:2]' is no access"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"writes\":[\"\"]}", "ops[0].writes[0]: ''"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"writes\":[\"A [0:1]\"]}", "no access"},
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"writes\":[\"A[0:1]x\"]}", "no access"},
        {"hb", "{\"op\":\"memcpy\",\"stream\":\"s\",\"writes\":[\"A\"]}",
         "ops[0].reads: 0 accesses; exactly one"},
        {"hb", "{\"op\":\"memcpy\",\"stream\":\"s\",\"reads\":[\"A\"],\"writes\":[\"A\",\"B\"]}",
         "ops[0].writes: 2 accesses; exactly one"},
        {"hb", "{\"op\":\"memcpy_sync\",\"writes\":[\"A\"]}", "ops[0].reads: 0 accesses"},
        {"hb", "{\"op\":\"memset_sync\"}", "ops[0].writes: 0 accesses"},
        {"hb", "{\"op\":\"memset_sync\",\"dev\":1,\"writes\":[\"A\"]}",
         "ops[0].dev: device 1 has no stream of kind legacy"},
        {"hb", "{\"op\":\"memset_sync\",\"dev\":1.5,\"writes\":[\"A\"]}", "ops[0].dev: expected"},
        {"hb", "{\"op\":\"host_read\",\"writes\":[\"A\"]}", "ops[0].reads: missing"},
        {"hb", "{\"op\":\"host_write\"}", "ops[0].writes: missing"},
        {"hb", "{\"op\":\"record\",\"stream\":\"s\"}", "ops[0].event: missing"},
        {"hb", "{\"op\":\"wait\",\"event\":\"e\",\"ignored\":true}", "ops[0].stream: missing"},
        {"hb", "{\"op\":\"wait\",\"event\":\"e\",\"stream\":\"s\",\"ignored\":1}",
         "ops[0].ignored: expected true or false"},
        {"hb", "{\"op\":\"await\"}", "ops[0].flag: missing"},
        {"hb", "{\"op\":\"alloc\"}", "ops[0].buf: missing"},
        {"hb", "{\"op\":\"alias\",\"buf\":\"A\"}", "ops[0].of: missing"},
        {"hb", "{\"op\":\"coll\",\"stream\":\"s\"}", "ops[0].comm: missing"},
        {"hb", "{\"op\":\"coll\",\"stream\":\"s\",\"comm\":\"c\",\"kind\":7}", "ops[0].kind:"},
        {"hb", "{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"lock\"]]}", "ops[0].body:"},
        {"hb", "{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"lock\",7]]}", "ops[0].body:"},
        {"hb", "{\"op\":\"lock\",\"lock\":\"l\"}", "ops[0].op: lock is no operation of oracle hb"},
        {"hang", "{\"op\":\"host_free\",\"buf\":\"A\"}", "is no operation of oracle hang"},
        {"capture", "{\"op\":\"group_start\"}", "is no operation of oracle capture"},
        {"hang", "{\"op\":\"lock\"}", "ops[0].lock: missing"},
        {"hang", "{\"op\":\"send\",\"stream\":\"s\",\"comm\":\"c\"}", "ops[0].peer: missing"},
        {"hang", "{\"op\":\"coll\",\"stream\":\"s\",\"comm\":\"d\"}",
         "ops[0].comm: 'd' is not declared; expected a name of program.comms"},
        {"hang", "{\"op\":\"sync_device\",\"devs\":0}", "ops[0].devs: expected"},
        {"hang", "{\"op\":\"sync_device\",\"devs\":[0,-1]}", "ops[0].devs: expected"},
        {"hang", "{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"lok\",\"l\"]]}",
         "ops[0].body: 'lok' is unknown"},
        {"hang", "{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"sync_stream\",\"t\"]]}",
         "ops[0].body: 't' is not declared"},
        {"hang", "{\"op\":\"group_start\",\"host\":\"r\"},{\"op\":\"group_end\"}",
         "ops[1].op: group_end of host 'h', which has no open group"},
        {"hang", "{\"op\":\"unlock\",\"lock\":\"l\"},{\"op\":\"lock\"},{\"op\":\"kernel\"}",
         "ops[1].lock: missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(around(cases[i][0], cases[i][1]), "a", cases[i][2]);
}

static void hang_needs_no_fields_where_nothing_happens(void **state) {
    (void)state;
    struct orr_stream_program *program = read_line(
        around("hang", "{\"op\":\"alloc\"},{\"op\":\"free\"},{\"op\":\"record_stream\",\"stream\":"
                       "\"gone\"},{\"op\":\"host_read\"},{\"op\":\"host_write\"},{\"op\":"
                       "\"sync_device\"},{\"op\":\"implicit_sync\",\"devs\":[]}"));
    assert_int_equal(program->op_count, 7);
    assert_int_equal(program->ops[2].stream, ORR_NONE);
    assert_int_equal(program->devices[program->ops[6].device_first], ORR_NONE);
    orr_stream_program_destroy(&program);
}

/* --- pieces, size, memory --- */

static void a_line_may_come_in_pieces(void **state) {
    (void)state;
    static const char *const lines[] = {
        ("  {\"id\":\"\xc3\xa4\\u00e4\",\"program\":{\"streams\":{\"s\":{\"dev\":10,\"kind\":"
         "\"nb\"}},\"ops\":[{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[\"A[10:200]\"]}]}} \r"),
        "{\"id\":\"b\",\"program\":{\"streams\":{},\"ops\":[{\"op\":\"kernel\"}]}}",
        "{\"id\":\"c\" no",
        "   ",
    };
    struct orr_stream_program_reader *reader;
    assert_int_equal(orr_stream_program_reader_create(&memory, &reader), ORR_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t length = strlen(lines[i]);
        for (size_t cut = 0; cut <= length + 1; cut++) {
            struct orr_stream_program_line line;
            struct orr_error error = {0};
            size_t first = cut > length ? 0 : cut;
            for (size_t k = 0; cut > length && k < length; k++) /* byte by byte */
                assert_int_equal(orr_stream_program_reader_text(reader, lines[i] + k, 1), ORR_OK);
            if (cut <= length) {
                assert_int_equal(orr_stream_program_reader_text(reader, lines[i], first), ORR_OK);
                assert_int_equal(
                    orr_stream_program_reader_text(reader, lines[i] + first, length - first),
                    ORR_OK);
            }
            enum orr_status status = orr_stream_program_reader_end(reader, &line, &error);
            assert_int_equal(status, i == 0 || i == 3 ? ORR_OK : ORR_INVALID);
            assert_int_equal(line.is_blank, i == 3);
            if (i == 0) {
                assert_string_equal(line.id, "\xc3\xa4\xc3\xa4");
                assert_true(line.program->accesses[0].lo == 10);
                assert_true(line.program->accesses[0].hi == 200);
            }
            if (i == 2)
                assert_string_equal(error.text,
                                    "no JSON behind byte 9: lexical error: invalid string in json "
                                    "text.; one object was expected");
            orr_stream_program_line_clear(&line, &memory);
        }
    }
    orr_stream_program_reader_destroy(&reader);
}

/* Feeds `count` copies of a text. */
static void feed(struct orr_stream_program_reader *reader, const char *text, size_t count) {
    enum { COPIES = 1024 };
    size_t length = strlen(text);
    char *many = malloc(length * COPIES);
    assert_non_null(many);
    for (size_t i = 0; i < COPIES; i++)
        memcpy(many + i * length, text, length);
    for (; count > 0; count -= count < COPIES ? count : COPIES)
        assert_int_equal(orr_stream_program_reader_text(reader, many,
                                                        length * (count < COPIES ? count : COPIES)),
                         ORR_OK);
    free(many);
}

/* Peak of bytes in use. */
struct measured {
    struct orr_memory table;
    size_t live, peak;
};

static void *measure(void *context, void *block, size_t size) {
    struct measured *measured = context;
    size_t *header = block ? (size_t *)block - 2 : NULL;
    measured->live -= header ? header[0] : 0;
    if (size == 0) {
        free(header);
        return NULL;
    }
    size_t *grown = realloc(header, size + 2 * sizeof *grown);
    assert_non_null(grown);
    grown[0] = size;
    measured->live += size;
    measured->peak = measured->live > measured->peak ? measured->live : measured->peak;
    return grown + 2;
}

/* Feeds before, `count` copies and after; expects the message, or none; gives the peak. */
static size_t feed_line(const char *before, const char *text, size_t count, const char *after,
                        const char *message) {
    struct measured measured = {.table = {.resize = measure}};
    measured.table.context = &measured;
    struct orr_stream_program_reader *reader;
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    assert_int_equal(orr_stream_program_reader_create(&measured.table, &reader), ORR_OK);
    feed(reader, before, 1);
    feed(reader, text, count);
    feed(reader, after, 1);
    enum orr_status status = orr_stream_program_reader_end(reader, &line, &error);
    if (message && !strstr(error.text, message))
        fail_msg("'%s' is not in '%s'", message, error.text);
    assert_int_equal(status, message ? ORR_INVALID : ORR_OK);
    orr_stream_program_line_clear(&line, &measured.table);
    orr_stream_program_reader_destroy(&reader);
    assert_int_equal(measured.live, 0);
    return measured.peak;
}

#define EMPTY "\"program\":{\"streams\":{},\"ops\":[]}}"

static void long_lines_take_little_memory(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    /* 10 MB of values that nobody reads */
    assert_true(feed_line("{\"id\":\"a\",\"note\":[0", ",123456789e99", 800000, "]," EMPTY, NULL) <
                MIB);
    /* one string of 10 MB */
    assert_true(feed_line("{\"id\":\"a\",\"note\":\"", "0123456789", MIB, "\"," EMPTY, NULL) <
                64 * MIB);
    /* blanks before and within */
    assert_true(feed_line(" ", "          ", MIB, "{\"id\":\"a\"," EMPTY, NULL) < MIB);
    assert_true(feed_line("{\"id\":\"a\",", "          ", MIB, EMPTY, NULL) < 64 * MIB);
    /* a program that is known to be malformed is not kept */
    assert_true(feed_line("{\"id\":\"a\",\"program\":{\"ops\":[7",
                          ",{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[\"A\"]}", 200000, "]}}",
                          "ops[0]: no object") < MIB);
}

static void a_long_program_takes_what_its_operations_take(void **state) {
    (void)state;
    enum { OPS = 100000, BYTES_PER_OP = 500 };
    size_t peak = feed_line(
        "{\"id\":\"a\",\"program\":{\"streams\":{\"s\":{\"dev\":0,\"kind\":\"nb\"}},\"ops\":[{"
        "\"op\":\"view\",\"buf\":\"A\"}",
        ",{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[\"A[0:10]\",\"B\"],\"writes\":[\"C\"]}",
        OPS, "]}}", NULL);
    assert_true(peak < (size_t)OPS * BYTES_PER_OP);
}

static void deep_nesting_is_read_or_refused(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 1);
    assert_non_null(text);
    memset(text, ']', 2 * DEPTH);
    text[DEPTH] = '\0';
    char *after = malloc(DEPTH + 64);
    assert_non_null(after);
    snprintf(after, DEPTH + 64, "%s,%s", text, EMPTY);
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    struct orr_stream_program_reader *reader;
    assert_int_equal(orr_stream_program_reader_create(&memory, &reader), ORR_OK);
    feed(reader, "{\"id\":\"a\",\"x\":", 1);
    feed(reader, "[", DEPTH);
    assert_int_equal(orr_stream_program_reader_text(reader, after, strlen(after)), ORR_OK);
    assert_int_equal(orr_stream_program_reader_end(reader, &line, &error), ORR_OK);
    orr_stream_program_line_clear(&line, &memory);
    orr_stream_program_reader_destroy(&reader);
    free(after);
    free(text);
    feed_line("{\"id\":\"a\",\"x\":", "[", ORR_JSON_DEPTH_MAX, "", "nested more than 1000000 deep");
    feed_line("{\"id\":\"a\",\"x\":", "{\"y\":", DEPTH, "", "premature EOF");
    feed_line("{\"id\":\"a\",\"x\":\"", "0123456789abcdef", (ORR_JSON_TOKEN_MAX >> 4) + 5000, "\"}",
              "longer than 67108864 bytes");
}

static void read_with(struct memory_counting *counting, void *context) {
    static const char text[] =
        "{\"note\":[\"\\u0041\",[[[1.5]]]],\"id\":\"a\",\"program\":{\"streams\":{\"s\":{\"dev\":0,"
        "\"kind\":\"nb\"},\"L\":{\"dev\":0,\"kind\":\"legacy\"}},\"oracle\":\"hang\",\"comms\":"
        "{\"c\":[1,\"h\"]},\"ops\":[{\"op\":\"coll\",\"comm\":\"c\",\"stream\":\"s\",\"count\":4,"
        "\"rank\":1e0},{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"lock\",\"l\"]]},{\"op\":"
        "\"implicit_sync\",\"devs\":[0,1]},{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[\"A\"],"
        "\"writes\":[\"B[0:99999999999999999999]\"],\"site\":\"x\"}]}}";
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    char *written = NULL, *answer = NULL;
    enum orr_status status =
        orr_stream_program_read(&counting->table, text, strlen(text), &line, &error);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    if (status == ORR_OK)
        status = orr_stream_program_write(line.program, "a", &written);
    struct orr_check_verdict verdict = {.op_a = ORR_NONE, .op_b = ORR_NONE};
    if (status == ORR_OK)
        status = orr_check_verdict_json(&verdict, "a", &counting->table, &answer);
    assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    assert_true(context == NULL);
    orr_memory_free(&counting->table, written);
    orr_memory_free(&counting->table, answer);
    orr_stream_program_line_clear(&line, &counting->table);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(fail_each_request(read_with, NULL) > 50);
}

/* --- what is written --- */

static void programs_are_written_in_one_form(void **state) {
    (void)state;
    struct orr_stream_program *program =
        read_line("{\"program\":{\"ops\":[{\"writes\":[\"A[0:4]\"],\"op\":\"kernel\",\"stream\":"
                  "\"s\",\"host\":\"h\"},{\"op\":\"coll\",\"host\":\"r\",\"comm\":\"c\",\"stream\":"
                  "\"s\",\"rank\":\"r\",\"count\":1,\"kind\":\"k\"}],\"slots\":99,\"buffers\":{"
                  "\"A\":\"dev\",\"B\":\"pinned\"},\"streams\":{\"s\":{\"kind\":\"bl\",\"dev\":0}}}"
                  ",\"id\":\"x\"}");
    char *text;
    assert_int_equal(orr_stream_program_write(program, "\"\n", &text), ORR_OK);
    assert_string_equal(
        text, "{\"id\": \"\\\"\\n\", \"writer\": \"orrery\", \"program\": {\"streams\": {"
              "\"s\": {\"dev\": 0, \"kind\": "
              "\"bl\"}}, \"buffers\": {\"B\": \"pinned\"}, \"ops\": [{\"op\": \"kernel\", "
              "\"stream\": \"s\", \"writes\": [\"A[0:4]\"]}, {\"op\": \"coll\", \"host\": \"r\", "
              "\"comm\": \"c\", \"stream\": \"s\", \"kind\": \"k\"}], \"ops_text\": [\"k s "
              "w:A[0:4]\", \"r: coll c k s\"]}}\n");
    orr_memory_free(&memory, text);
    orr_stream_program_destroy(&program);
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    enum { PROGRAMS = 600 };
    uint64_t random = random_seed(41);
    for (int i = 0; i < PROGRAMS; i++) {
        struct orr_stream_program *program = stream_program_draw(
            &random, (enum orr_oracle)(i % 3), (uint32_t)random_below(&random, 30), &memory);
        assert_non_null(program);
        char *text, *again;
        assert_int_equal(orr_stream_program_write(program, "p", &text), ORR_OK);
        struct orr_stream_program *back = read_line(text);
        if (!stream_program_equal(program, back))
            fail_msg("program %d is not read back: %s", i, text);
        assert_int_equal(orr_stream_program_write(back, "p", &again), ORR_OK);
        assert_string_equal(text, again);
        orr_memory_free(&memory, text);
        orr_memory_free(&memory, again);
        orr_stream_program_destroy(&program);
        orr_stream_program_destroy(&back);
    }
}

static void a_name_that_no_access_can_have_is_not_written(void **state) {
    (void)state;
    struct orr_stream_program *program;
    uint32_t buffer;
    char *text;
    assert_int_equal(orr_stream_program_create(&memory, &program), ORR_OK);
    assert_int_equal(orr_stream_program_name(program, ORR_NAME_BUFFER, "a b", &buffer), ORR_OK);
    struct orr_stream_op op = orr_stream_op(ORR_OP_HOST_READ);
    struct orr_stream_access access = {.buffer = buffer, .hi = ORR_RANGE_WHOLE};
    op.host = 0;
    assert_int_equal(orr_stream_program_add(program, &op, &access, 1), ORR_OK);
    assert_int_equal(orr_stream_program_write(program, "x", &text), ORR_INVALID);
    assert_null(text);
    orr_stream_program_destroy(&program);
}

static void operations_have_a_short_form(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"hb", "{\"op\":\"kernel\",\"stream\":\"s\",\"reads\":[\"A\"],\"writes\":[\"B[0:4]\"]}",
         "k s r:A w:B[0:4]"},
        {"hb", "{\"op\":\"memcpy\",\"stream\":\"s\",\"reads\":[\"A\"],\"writes\":[\"B\"]}",
         "cp s B<A"},
        {"hb", "{\"op\":\"memset\",\"stream\":\"s\",\"writes\":[\"B\"]}", "ms s B"},
        {"hb", "{\"op\":\"memcpy_sync\",\"reads\":[\"A\"],\"writes\":[\"B\"]}", "cpsync B<A"},
        {"hb", "{\"op\":\"memset_sync\",\"writes\":[\"B\"]}", "mssync B"},
        {"hang",
         "{\"op\":\"hostfn\",\"stream\":\"s\",\"body\":[[\"lock\",\"l\"],[\"sync_stream\","
         "\"L\"]]}",
         "hostfn s lock:l ssync:L"},
        {"hb", "{\"op\":\"record\",\"event\":\"e\",\"stream\":\"s\",\"host\":\"r\"}", "r: rec e s"},
        {"hb", "{\"op\":\"wait\",\"event\":\"e\",\"stream\":\"s\",\"ignored\":true}",
         "waitign s e"},
        {"hang",
         "{\"op\":\"coll\",\"comm\":\"c\",\"kind\":\"allreduce\",\"stream\":\"s\","
         "\"count\":4,\"rank\":0}",
         "coll c allreduce s n=4 rank=0"},
        {"hang", "{\"op\":\"send\",\"comm\":\"c\",\"peer\":\"r\",\"stream\":\"s\"}", "send c r s"},
        {"hang", "{\"op\":\"implicit_sync\",\"devs\":[0,1]}", "isync 0 1"},
        {"hang", "{\"op\":\"sync_device\"}", "dsync 0"},
        {"hb", "{\"op\":\"alloc\",\"buf\":\"B\",\"stream\":\"s\",\"reuse\":\"A\"}",
         "alloc B s reuse=A"},
        {"hb", "{\"op\":\"alias\",\"buf\":\"D\",\"of\":\"H\"}", "alias D H"},
        {"hb", "{\"op\":\"record_stream\",\"buf\":\"A\",\"stream\":\"s\"}", "rs A s"},
        {"capture", "{\"op\":\"capture_begin\",\"stream\":\"s\"}", "capb s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct orr_stream_program *program = read_line(around(cases[i][0], cases[i][1]));
        char text[64], cut[6];
        orr_stream_op_short(program, 0, text, sizeof text);
        assert_string_equal(text, cases[i][2]);
        orr_stream_op_short(program, 0, cut, sizeof cut);
        assert_int_equal(strncmp(text, cut, strlen(cut)), 0);
        orr_stream_program_destroy(&program);
    }
}

static void verdicts_are_written_as_json(void **state) {
    (void)state;
    char *text;
    struct orr_check_verdict verdict = {
        .kind = ORR_CHECK_ERROR, .op_a = ORR_NONE, .op_b = 3, .memory = &memory};
    assert_int_equal(orr_check_verdict_message(&verdict, "a\n\"\xff\x80%s", "x"), ORR_OK);
    assert_int_equal(orr_check_verdict_json(&verdict, "\xc0\x80\xed\xb0\x80", &memory, &text),
                     ORR_OK);
    assert_string_equal(text, "{\"id\": \"\\u0000\\udc00\", \"verdict\": \"error\", "
                              "\"first_conflict_ops\": [null, 3], \"message\": "
                              "\"a\\n\\\"\\ufffd\\ufffdx\", \"fix\": \"\"}\n");
    orr_memory_free(&memory, text);
    orr_check_verdict_clear(&verdict);
}

int main(void) {
    memory = orr_memory_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_may_stand_in_any_order),
        cmocka_unit_test(null_is_as_good_as_absent),
        cmocka_unit_test(of_a_key_given_twice_the_last_value_counts),
        cmocka_unit_test(ranks_and_counts_are_compared_as_json_values),
        cmocka_unit_test(numbers_have_one_form_for_each_value),
        cmocka_unit_test(limits_take_any_integer),
        cmocka_unit_test(fields_without_influence_may_hold_anything),
        cmocka_unit_test(names_hold_any_character),
        cmocka_unit_test(bounds_beyond_64_bits_keep_their_order),
        cmocka_unit_test(what_is_no_line_has_no_id),
        cmocka_unit_test(a_malformed_program_is_told_by_its_field),
        cmocka_unit_test(a_malformed_operation_is_told_by_its_field),
        cmocka_unit_test(hang_needs_no_fields_where_nothing_happens),
        cmocka_unit_test(a_line_may_come_in_pieces),
        cmocka_unit_test(long_lines_take_little_memory),
        cmocka_unit_test(a_long_program_takes_what_its_operations_take),
        cmocka_unit_test(deep_nesting_is_read_or_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(programs_are_written_in_one_form),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_name_that_no_access_can_have_is_not_written),
        cmocka_unit_test(operations_have_a_short_form),
        cmocka_unit_test(verdicts_are_written_as_json),
    };
    return cmocka_run_group_tests_name("stream_program", tests, NULL, NULL);
}
