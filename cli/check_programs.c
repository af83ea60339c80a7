#include <errno.h>
#include <string.h>

#include "cli/check.h"
#include "hazards/check_json.h"
#include "hazards/stream_program_read.h"

enum { PIECE_BYTES = 1 << 16 };

struct judge {
    const struct orr_cli *cli;
    const struct orr_check_request *request;
    struct orr_stream_program_reader *reader;
    uint64_t line; /* number of the line at hand */
    uint64_t programs, counts[ORR_CHECK_VERDICT_COUNT];
    struct orr_error error; /* what ended the run */
};

/* --- answers --- */

/* A text for people on one line. */
static void print_text(const struct judge *judge, const char *text) {
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, judge->cli->out);
}

/* Lines behind four spaces. */
static void print_indented(const struct judge *judge, const char *lead, const char *text) {
    while (text && *text) {
        size_t length = strcspn(text, "\n");
        fprintf(judge->cli->out, "    %s%.*s\n", lead, (int)length, text);
        text += length + (text[length] == '\n');
        lead = "";
    }
}

static void print_verdict(const struct judge *judge, const char *id,
                          const struct orr_check_verdict *verdict) {
    FILE *out = judge->cli->out;
    if (id)
        print_text(judge, id);
    else
        fprintf(out, "line %llu", (unsigned long long)judge->line);
    fprintf(out, ": %s", orr_check_verdict_text(verdict->kind));
    if (verdict->op_b != ORR_NONE && verdict->op_a != ORR_NONE)
        fprintf(out, ", operations %u and %u", verdict->op_a, verdict->op_b);
    else if (verdict->op_b != ORR_NONE)
        fprintf(out, ", operation %u", verdict->op_b);
    fputc('\n', out);
    print_indented(judge, "", verdict->message);
    print_indented(judge, "fix: ", verdict->fix);
}

/* For SARIF and JUnit: the line of the file is where a program's findings are. */
static void report(const struct judge *judge, const char *id,
                   const struct orr_check_verdict *verdict) {
    bool is_safe = verdict->kind == ORR_CHECK_NO_RACE || verdict->kind == ORR_CHECK_NO_HANG ||
                   verdict->kind == ORR_CHECK_NO_ERROR;
    const char *kind = orr_check_verdict_text(verdict->kind);
    char site[4096], name[32];
    snprintf(site, sizeof site, "%s:%llu", judge->request->path, (unsigned long long)judge->line);
    snprintf(name, sizeof name, "line %llu", (unsigned long long)judge->line);
    orr_check_report_case(judge->request->report, judge->request->path, id ? id : name,
                          is_safe ? NULL : kind);
    if (!is_safe)
        orr_check_report_finding(judge->request->report,
                                 &(struct orr_check_report_finding){.kind = kind,
                                                                    .severity = "error",
                                                                    .message = verdict->message,
                                                                    .fix = verdict->fix,
                                                                    .site_b = site});
}

static enum orr_status answer(struct judge *judge, const char *id,
                              const struct orr_check_verdict *verdict) {
    judge->programs++;
    judge->counts[verdict->kind]++;
    report(judge, id, verdict);
    if (!judge->request->as_json) {
        print_verdict(judge, id, verdict);
        return ORR_OK;
    }
    char *text;
    if (orr_check_verdict_json(verdict, id, judge->cli->memory, &text) != ORR_OK)
        return orr_error_set(&judge->error, ORR_NO_MEMORY, "no memory for a verdict");
    fputs(text, judge->cli->out);
    orr_memory_free(judge->cli->memory, text);
    return ORR_OK;
}

static void print_summary(const struct judge *judge) {
    FILE *out = judge->cli->out;
    fprintf(out, "%llu program%s", (unsigned long long)judge->programs,
            judge->programs == 1 ? "" : "s");
    const char *comma = ": ";
    for (int kind = 0; kind < ORR_CHECK_VERDICT_COUNT; kind++) {
        if (judge->counts[kind] == 0)
            continue;
        fprintf(out, "%s%llu %s", comma, (unsigned long long)judge->counts[kind],
                orr_check_verdict_text((enum orr_check_verdict_kind)kind));
        comma = ", ";
    }
    fputc('\n', out);
}

/* --- lines --- */

static enum orr_status answer_invalid(struct judge *judge, const char *id, const char *message) {
    struct orr_check_verdict verdict = {.kind = ORR_CHECK_INVALID,
                                        .op_a = ORR_NONE,
                                        .op_b = ORR_NONE,
                                        .memory = judge->cli->memory};
    enum orr_status status = orr_check_verdict_message(&verdict, "line %llu: %s",
                                                       (unsigned long long)judge->line, message);
    if (status == ORR_OK)
        status = answer(judge, id, &verdict);
    orr_check_verdict_clear(&verdict);
    return status;
}

static enum orr_status answer_program(struct judge *judge,
                                      const struct orr_stream_program_line *line) {
    struct orr_check_limits limits = {.states_max = judge->request->states_max};
    struct orr_check_verdict verdict;
    enum orr_status status = orr_stream_program_check(line->program, &limits, &verdict);
    if (status == ORR_UNSUPPORTED) {
        verdict.kind = ORR_CHECK_UNKNOWN;
        status = orr_check_verdict_message(&verdict, "this version has no such check");
    }
    if (status == ORR_OK)
        status = answer(judge, line->id, &verdict);
    orr_check_verdict_clear(&verdict);
    return status;
}

static enum orr_status end_line(struct judge *judge) {
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    judge->line++;
    enum orr_status status = orr_stream_program_reader_end(judge->reader, &line, &error);
    if (status == ORR_INVALID)
        status = answer_invalid(judge, line.id, error.text);
    else if (status == ORR_OK && !line.is_blank)
        status = answer_program(judge, &line);
    orr_stream_program_line_clear(&line, judge->cli->memory);
    return status;
}

/* A piece of the file; *in_line: the last line has begun. */
static enum orr_status take_piece(struct judge *judge, const char *bytes, size_t size,
                                  bool *in_line) {
    enum orr_status status = ORR_OK;
    while (size > 0 && status == ORR_OK) {
        const char *end = memchr(bytes, '\n', size);
        size_t length = end ? (size_t)(end - bytes) : size;
        status = orr_stream_program_reader_text(judge->reader, bytes, length);
        if (status == ORR_OK && end)
            status = end_line(judge);
        *in_line = !end;
        bytes += length + (end ? 1 : 0);
        size -= length + (end ? 1 : 0);
    }
    return status;
}

static enum orr_status judge_file(struct judge *judge, FILE *file) {
    bool in_line = false;
    enum orr_status status = ORR_OK;
    char *piece = orr_memory_alloc(judge->cli->memory, PIECE_BYTES);
    if (!piece)
        status = ORR_NO_MEMORY;
    while (status == ORR_OK) {
        size_t size = fread(piece, 1, PIECE_BYTES, file);
        if (size == 0)
            break;
        status = take_piece(judge, piece, size, &in_line);
    }
    if (status == ORR_OK && ferror(file))
        status = orr_error_set(&judge->error, ORR_INVALID, "%s: %s; it can't be read",
                               judge->request->path, strerror(errno));
    if (status == ORR_OK && in_line)
        status = end_line(judge);
    orr_memory_free(judge->cli->memory, piece);
    if (status != ORR_OK)
        orr_error_set(&judge->error, status, "%s: %s at line %llu", judge->request->path,
                      orr_status_text(status), (unsigned long long)judge->line + 1);
    return status;
}

static enum orr_exit exit_of(const struct judge *judge) {
    enum orr_exit exit = judge->counts[ORR_CHECK_UNKNOWN] > 0 ? ORR_EXIT_FAILED : ORR_EXIT_OK;
    for (int kind = 0; kind < ORR_CHECK_VERDICT_COUNT; kind++)
        if (judge->counts[kind] > 0 &&
            orr_check_verdict_is_unsafe((enum orr_check_verdict_kind)kind))
            exit = ORR_EXIT_NO;
    return judge->counts[ORR_CHECK_INVALID] > 0 ? ORR_EXIT_INPUT : exit;
}

enum orr_exit orr_cli_check_programs(const struct orr_cli *cli,
                                     const struct orr_check_request *request) {
    struct judge judge = {.cli = cli, .request = request};
    bool is_stdin = strcmp(request->path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(request->path, "rb");
    if (!file) {
        fprintf(cli->err, "orrery: %s: %s; a file of stream programs was expected\n", request->path,
                strerror(errno));
        return ORR_EXIT_INPUT;
    }
    enum orr_status status = orr_stream_program_reader_create(cli->memory, &judge.reader);
    if (status == ORR_OK)
        status = judge_file(&judge, file);
    if (!is_stdin)
        fclose(file);
    orr_stream_program_reader_destroy(&judge.reader);
    if (status != ORR_OK) {
        orr_error_set(&judge.error, status, "%s", orr_status_text(status));
        return orr_cli_fail(cli, &judge.error);
    }
    if (!request->as_json)
        print_summary(&judge);
    orr_check_report_done(request->report);
    return exit_of(&judge);
}
