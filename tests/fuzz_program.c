/* Fuzzes the reader of stream programs, the writer and all three oracles.
 *
 * Byte 0 of the input chooses: with its top bit set the rest is the line as it is; else its low
 * bits are the program's options, and each further byte is an operation (or a piece of one) from
 * the table below. Whatever the line is, it is read alike in one piece and in several; what is well
 * formed is written and read back the same; and a verdict names operations that are there, has a
 * message and a fix if it is unsafe, and is JSON when it is printed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hazards/check_json.h"
#include "hazards/fix.h"
#include "hazards/json_events.h"
#include "hazards/order_report.h"
#include "hazards/stream_op_fields.h"
#include "hazards/stream_program_read.h"
#include "hazards/stream_program_write.h"
#include "tests/stream_program_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 32768, STATES_MAX = 3000, OPS_MAX = 48 };

static void must(int condition, const char *what, const char *text) {
    if (!condition) {
        fprintf(stderr, "fuzz_program: %s\n%s\n", what, text);
        abort();
    }
}

/* The object's end is added; "%s" is a stream, "%b" a buffer, "%e" an event, "%c" a host. */
static const char *const operations[] = {
    "\"op\":\"kernel\",\"stream\":\"%s\",\"reads\":[\"%b\"],\"writes\":[\"%b\"]",
    "\"op\":\"kernel\",\"stream\":\"%s\",\"writes\":[\"%b[2:6]\"]",
    "\"op\":\"kernel\",\"stream\":\"%s\",\"reads\":[\"%b[0:4]\",\"%b\"],\"host\":\"%c\"",
    "\"op\":\"memset\",\"stream\":\"%s\",\"writes\":[\"%b\"]",
    "\"op\":\"hostfn\",\"stream\":\"%s\",\"reads\":[\"%b\"]",
    "\"op\":\"hostfn\",\"stream\":\"%s\",\"body\":[[\"lock\",\"l\"],[\"sync_stream\",\"%s\"]]",
    "\"op\":\"memcpy\",\"stream\":\"%s\",\"reads\":[\"%b\"],\"writes\":[\"%b\"]",
    "\"op\":\"memcpy_sync\",\"reads\":[\"%b\"],\"writes\":[\"%b\"]",
    "\"op\":\"memset_sync\",\"writes\":[\"%b\"]",
    "\"op\":\"coll\",\"comm\":\"c\",\"stream\":\"%s\",\"host\":\"%c\",\"kind\":\"k\"",
    "\"op\":\"coll\",\"comm\":\"d\",\"stream\":\"%s\",\"host\":\"%c\",\"count\":2",
    "\"op\":\"send\",\"comm\":\"c\",\"stream\":\"%s\",\"host\":\"%c\",\"peer\":\"%c\"",
    "\"op\":\"recv\",\"comm\":\"c\",\"stream\":\"%s\",\"host\":\"%c\",\"peer\":\"%c\"",
    "\"op\":\"group_start\",\"host\":\"%c\"",
    "\"op\":\"group_end\",\"host\":\"%c\"",
    "\"op\":\"host_read\",\"reads\":[\"%b\"],\"host\":\"%c\"",
    "\"op\":\"host_write\",\"writes\":[\"%b[0:3]\"],\"host\":\"%c\"",
    "\"op\":\"view\",\"buf\":\"%b\"",
    "\"op\":\"record\",\"event\":\"%e\",\"stream\":\"%s\",\"host\":\"%c\"",
    "\"op\":\"wait\",\"event\":\"%e\",\"stream\":\"%s\",\"host\":\"%c\"",
    "\"op\":\"wait\",\"event\":\"%e\",\"stream\":\"%s\",\"ignored\":true",
    "\"op\":\"sync_event\",\"event\":\"%e\",\"host\":\"%c\"",
    "\"op\":\"query_ok\",\"event\":\"%e\"",
    "\"op\":\"event_query\",\"event\":\"%e\"",
    "\"op\":\"sync_stream\",\"stream\":\"%s\",\"host\":\"%c\"",
    "\"op\":\"stream_query_ok\",\"stream\":\"%s\"",
    "\"op\":\"sync_device\",\"host\":\"%c\"",
    "\"op\":\"implicit_sync\",\"devs\":[0,1]",
    "\"op\":\"event_create\",\"event\":\"%e\"",
    "\"op\":\"event_destroy\",\"event\":\"%e\"",
    "\"op\":\"stream_destroy\",\"stream\":\"%s\"",
    "\"op\":\"notify\",\"flag\":\"%e\",\"host\":\"%c\"",
    "\"op\":\"await\",\"flag\":\"%e\",\"host\":\"%c\"",
    "\"op\":\"lock\",\"lock\":\"l\",\"host\":\"%c\"",
    "\"op\":\"unlock\",\"lock\":\"l\",\"host\":\"%c\"",
    "\"op\":\"alloc\",\"buf\":\"%b\",\"stream\":\"%s\"",
    "\"op\":\"alloc\",\"buf\":\"%b\",\"reuse\":\"%b\"",
    "\"op\":\"free\",\"buf\":\"%b\"",
    "\"op\":\"record_stream\",\"buf\":\"%b\",\"stream\":\"%s\"",
    "\"op\":\"alloc_async\",\"buf\":\"%b\",\"stream\":\"%s\"",
    "\"op\":\"alloc_async\",\"buf\":\"%b\",\"stream\":\"%s\",\"reuse\":\"%b\"",
    "\"op\":\"free_async\",\"buf\":\"%b\",\"stream\":\"%s\"",
    "\"op\":\"cuda_malloc\",\"host\":\"%c\"",
    "\"op\":\"cuda_free\",\"buf\":\"%b\"",
    "\"op\":\"host_free\",\"buf\":\"%b\"",
    "\"op\":\"alias\",\"buf\":\"%b\",\"of\":\"%b\"",
    "\"op\":\"capture_begin\",\"stream\":\"%s\",\"host\":\"%c\"",
    "\"op\":\"capture_end\",\"stream\":\"%s\",\"host\":\"%c\"",
    "\"op\":\"graph_launch\",\"graph\":[{}]",
    "\"op\":\"coll\",\"comm\":\"c\",\"stream\":\"%s\",\"rank\":1e0,\"count\":1.50",
    "\"op\":\"kernel\",\"stream\":7",
    "\"op\":\"kernel\",\"stream\":\"nowhere\"",
    "\"op\":\"kernel\",\"stream\":\"%s\",\"reads\":[\"%b[\"]",
    "\"op\":null",
    "\"op\":\"lokc\",\"lock\":\"l\"",
};
enum { OPERATIONS = sizeof operations / sizeof operations[0], MALFORMED = 5 };

struct input {
    const uint8_t *data;
    size_t size;
};

static unsigned draw(struct input *input) {
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

/* Whether the oracle lists the operation. */
static bool is_listed(const char *form, enum orr_oracle oracle) {
    char name[32];
    if (sscanf(form, "\"op\":\"%31[a-z_]", name) != 1)
        return false;
    return orr__op_is_listed(orr__stream_op_find(name), oracle);
}

/* A form for the oracle; now and then one that is malformed, or of another oracle. */
static const char *draw_form(struct input *input, enum orr_oracle oracle) {
    unsigned drawn = draw(input);
    if (drawn >= 5 * (OPERATIONS - MALFORMED)) /* a few of 256 */
        return operations[drawn % OPERATIONS];
    unsigned at = drawn % (OPERATIONS - MALFORMED);
    while (!is_listed(operations[at], oracle))
        at = (at + 1) % (OPERATIONS - MALFORMED);
    return operations[at];
}

/* One operation with names drawn from the input; the length of what was added. */
static size_t build_operation(char *text, const char *form, struct input *input) {
    static const char *const streams[] = {"s", "t", "b", "L"};
    static const char *const buffers[] = {"A", "B", "H", "V"};
    size_t used = 0;
    unsigned names = draw(input);
    for (; *form; form++) {
        if (*form != '%') {
            text[used++] = *form;
            continue;
        }
        unsigned which = names & 3;
        names = names >> 2 | (names & 3) << 6;
        switch (*++form) {
        case 's': used += (size_t)sprintf(text + used, "%s", streams[which]); break;
        case 'b': used += (size_t)sprintf(text + used, "%s", buffers[which]); break;
        case 'e': text[used++] = which & 1 ? 'e' : 'f'; break;
        default: text[used++] = which & 1 ? 'h' : 'r'; break;
        }
    }
    return used;
}

static size_t build_line(char *text, struct input *input) {
    static const char *const oracles[] = {"hb", "hang", "capture", "hb"};
    static const char *const modes[] = {"global", "thread_local", "relaxed", "global"};
    static const enum orr_oracle of[] = {ORR_ORACLE_HB, ORR_ORACLE_HANG, ORR_ORACLE_CAPTURE,
                                         ORR_ORACLE_HB};
    unsigned options = draw(input), more = draw(input);
    enum orr_oracle oracle = of[options & 3];
    size_t used = (size_t)snprintf(
        text, TEXT_MAX,
        "{\"id\":\"x\",\"program\":{\"oracle\":\"%s\",\"capture_mode\":\"%s\",\"pageable\":\"%s\","
        "\"nccl_serial\":%s,\"slots\":%u,\"queue_depth\":%s,\"comms\":{\"c\":[\"h\",\"r\"],\"d\":"
        "[\"h\",\"r\"]},\"streams\":{\"s\":{\"dev\":0,\"kind\":\"nb\"},\"t\":{\"dev\":%u,\"kind\":"
        "\"nb\"},\"b\":{\"dev\":0,\"kind\":\"bl\"},\"L\":{\"dev\":0,\"kind\":\"legacy\"}},"
        "\"buffers\":{\"H\":\"pinned\",\"V\":\"pageable\"},\"ops\":[",
        oracles[options & 3], modes[options >> 2 & 3], options & 16 ? "staged" : "strict",
        options & 32 ? "true" : "false", more & 3, more & 4 ? "null" : "2", more >> 3 & 1);
    for (int i = 0; i < OPS_MAX && input->size > 0; i++) {
        const char *form = draw_form(input, oracle);
        used += (size_t)sprintf(text + used, "%s{", i > 0 ? "," : "");
        used += build_operation(text + used, form, input);
        text[used++] = '}';
    }
    return used + (size_t)sprintf(text + used, "]}}");
}

/* The same line in pieces: the same answer. */
static void read_in_pieces(const struct orr_memory *memory, const char *text, size_t length,
                           size_t piece, enum orr_status status,
                           const struct orr_stream_program_line *whole,
                           const struct orr_error *wrong) {
    struct orr_stream_program_reader *reader;
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    must(orr_stream_program_reader_create(memory, &reader) == ORR_OK, "no reader", text);
    for (size_t at = 0; at < length; at += piece)
        must(orr_stream_program_reader_text(reader, text + at,
                                            length - at < piece ? length - at : piece) == ORR_OK,
             "no memory", text);
    enum orr_status again = orr_stream_program_reader_end(reader, &line, &error);
    must(line.is_blank || again == status, "another status in pieces", text);
    must(line.is_blank || strcmp(error.text, wrong->text) == 0, error.text, text);
    must(!line.id == !whole->id && (!line.id || strcmp(line.id, whole->id) == 0), "id", text);
    must(!line.program || stream_program_equal(line.program, whole->program), "program", text);
    orr_stream_program_line_clear(&line, memory);
    orr_stream_program_reader_destroy(&reader);
}

static void write_and_read(const struct orr_memory *memory,
                           const struct orr_stream_program *program, const char *id) {
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    char *text, *again;
    must(orr_stream_program_write(program, id, &text) == ORR_OK, "not written", "");
    must(orr_stream_program_read(memory, text, strlen(text), &line, &error) == ORR_OK, error.text,
         text);
    must(stream_program_equal(program, line.program), "another program is read back", text);
    must(strcmp(line.id, id) == 0, "another id is read back", text);
    must(orr_stream_program_write(line.program, id, &again) == ORR_OK, "not written again", text);
    orr_stream_program_line_clear(&line, memory);
    orr_memory_free(memory, text);
    orr_memory_free(memory, again);
}

static bool keep_nothing(void *context, const struct orr__json_value *value) {
    (void)context;
    (void)value;
    return true;
}

static void check(const struct orr_memory *memory, const struct orr_stream_program *program,
                  const char *text) {
    struct orr_check_limits limits = {.states_max = STATES_MAX};
    struct orr_check_verdict verdict;
    struct orr__json json = {.memory = memory, .tell = keep_nothing};
    struct orr_error error = {0};
    char *line;
    must(orr_stream_program_check(program, &limits, &verdict) == ORR_OK, "no verdict", text);
    bool is_unsafe = orr_check_verdict_is_unsafe(verdict.kind);
    bool has_pair = verdict.op_b != ORR_NONE;
    must(!has_pair || verdict.op_b < program->op_count, "an operation that is not there", text);
    must(verdict.op_a == ORR_NONE || verdict.op_a < verdict.op_b, "a pair out of order", text);
    must(has_pair == (is_unsafe && program->oracle != ORR_ORACLE_HANG), "a pair", text);
    must(!is_unsafe || (verdict.message && verdict.message[0] && verdict.fix && verdict.fix[0]),
         "an unsafe verdict without a message or a fix", text);
    must(orr_check_verdict_json(&verdict, "x", memory, &line) == ORR_OK, "no line", text);
    must(orr__json_parse(&json, line, strlen(line), &error) == ORR_OK &&
             orr__json_end(&json, &error) == ORR_OK,
         error.text, line);
    orr__json_clear(&json);
    orr_memory_free(memory, line);
    orr_check_verdict_clear(&verdict);
}

/* All findings and what is redundant are JSON too; fixes end, and what they call safe is. */
static void repair(const struct orr_memory *memory, const struct orr_stream_program *program,
                   const char *text) {
    const struct orr_order_report_options options = {
        .as_json = true, .all = true, .redundant = true};
    struct orr__json json = {.memory = memory, .tell = keep_nothing};
    struct orr_error error = {0};
    struct orr_stream_program *repaired;
    struct orr_check_verdict verdict;
    uint32_t count;
    bool is_safe;
    char *more;
    must(orr_order_report(program, &options, &more) == ORR_OK, "no report", text);
    must(orr__json_parse(&json, "{\"id\": 0", 8, &error) == ORR_OK &&
             orr__json_parse(&json, more, strlen(more), &error) == ORR_OK &&
             orr__json_parse(&json, "}", 1, &error) == ORR_OK &&
             orr__json_end(&json, &error) == ORR_OK,
         error.text, more);
    orr__json_clear(&json);
    orr_memory_free(memory, more);
    must(orr_fix_all(program, OPS_MAX, &repaired, &count, &is_safe) == ORR_OK, "no repair", text);
    must(orr_check_order(repaired, &verdict) == ORR_OK, "no verdict of the repair", text);
    must(is_safe == !orr_check_verdict_is_unsafe(verdict.kind), "repaired in name only", text);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&repaired);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    static char text[TEXT_MAX];
    if (size < 1)
        return 0;
    struct input input = {data, size};
    size_t length;
    if (data[0] & 0x80) {
        length = size - 1 < TEXT_MAX - 1 ? size - 1 : TEXT_MAX - 1;
        memcpy(text, data + 1, length);
        for (size_t i = 0; i < length; i++)
            text[i] = text[i] == '\n' ? ' ' : text[i];
    } else {
        length = build_line(text, &input);
    }
    text[length] = '\0';
    enum orr_status status = orr_stream_program_read(&memory, text, length, &line, &error);
    must(status == ORR_OK || status == ORR_INVALID, "no memory", text);
    must(status == ORR_OK || error.text[0] != '\0', "a refusal without a text", text);
    must((status == ORR_OK) == (line.program != NULL), "a status without its program", text);
    read_in_pieces(&memory, text, length, 1 + data[size - 1] % 7, status, &line, &error);
    if (status == ORR_OK) {
        write_and_read(&memory, line.program, line.id);
        check(&memory, line.program, text);
        if (line.program->oracle == ORR_ORACLE_HB)
            repair(&memory, line.program, text);
    }
    orr_stream_program_line_clear(&line, &memory);
    return 0;
}
