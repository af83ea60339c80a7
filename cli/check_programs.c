#include <errno.h>
#include <string.h>

#include "cli/check.h"
#include "hazards/check_json.h"
#include "hazards/fix.h"
#include "hazards/order_report.h"
#include "hazards/stream_program_read.h"
#include "hazards/stream_program_write.h"

enum { PIECE_BYTES = 1 << 16, PATH_SIZE = 4096 };

struct judge {
    const struct orr_cli *cli;
    const struct orr_check_request *request;
    struct orr_stream_program_reader *reader;
    uint64_t line; /* number of the line at hand */
    uint64_t programs, counts[ORR_CHECK_VERDICT_COUNT];
    FILE *repaired;
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

/* `more`: fields for the object of JSON, or lines for people. */
static enum orr_status answer(struct judge *judge, const char *id,
                              const struct orr_check_verdict *verdict, const char *more) {
    judge->programs++;
    judge->counts[verdict->kind]++;
    report(judge, id, verdict);
    if (!judge->request->as_json) {
        print_verdict(judge, id, verdict);
        print_indented(judge, "", more);
        return ORR_OK;
    }
    char *text;
    if (orr_check_verdict_json(verdict, id, judge->cli->memory, &text) != ORR_OK)
        return orr_error_set(&judge->error, ORR_NO_MEMORY, "no memory for a verdict");
    size_t inside = strlen(text) - strlen("}\n");
    fprintf(judge->cli->out, "%.*s%s%s", (int)inside, text, more, text + inside);
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
        status = answer(judge, id, &verdict, "");
    orr_check_verdict_clear(&verdict);
    return status;
}

/* The program with fixes until no finding is left, or until no fix helps. */
static enum orr_status write_repaired(struct judge *judge,
                                      const struct orr_stream_program_line *line) {
    /* So many that long programs end in time: each fix costs a few checks. */
    enum { FIXES_MAX = 1000, STEPS_MAX = 100000000 };
    uint32_t fixes_max = STEPS_MAX / (line->program->op_count + 1) + 1;
    fixes_max = fixes_max < FIXES_MAX ? fixes_max : FIXES_MAX;
    struct orr_stream_program *repaired = NULL;
    char *text = NULL;
    uint32_t fixes;
    bool is_safe;
    enum orr_status status = ORR_OK;
    if (line->program->oracle == ORR_ORACLE_HB)
        status = orr_fix_all(line->program, fixes_max, &repaired, &fixes, &is_safe);
    if (status == ORR_OK)
        status = orr_stream_program_write(repaired ? repaired : line->program, line->id, &text);
    if (status == ORR_OK)
        fputs(text, judge->repaired);
    if (status == ORR_INVALID)
        status = orr_error_set(&judge->error, status,
                               "%s: line %llu has a buffer whose name can't be "
                               "written back; letters, digits and underscores were expected",
                               judge->request->path, (unsigned long long)judge->line);
    orr_memory_free(line->program->memory, text);
    orr_stream_program_destroy(&repaired);
    return status;
}

static enum orr_status answer_program(struct judge *judge,
                                      const struct orr_stream_program_line *line) {
    struct orr_check_limits limits = {.states_max = judge->request->states_max};
    struct orr_order_report_options options = {.as_json = judge->request->as_json,
                                               .all = judge->request->all,
                                               .redundant = judge->request->redundant};
    char *more = NULL;
    struct orr_check_verdict verdict;
    enum orr_status status = orr_stream_program_check(line->program, &limits, &verdict);
    if (status == ORR_UNSUPPORTED) {
        verdict.kind = ORR_CHECK_UNKNOWN;
        status = orr_check_verdict_message(&verdict, "this version has no such check");
    }
    if (status == ORR_OK)
        status = orr_order_report(line->program, &options, &more);
    if (status == ORR_OK)
        status = answer(judge, line->id, &verdict, more);
    if (status == ORR_OK && judge->repaired)
        status = write_repaired(judge, line);
    orr_memory_free(line->program->memory, more);
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

/* --- the file of repaired programs --- */

static void partial_path(const struct judge *judge, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%s.part", judge->request->repair);
}

static enum orr_status open_repaired(struct judge *judge) {
    char path[PATH_SIZE];
    if (!judge->request->repair)
        return ORR_OK;
    partial_path(judge, path);
    judge->repaired = fopen(path, "wb");
    return judge->repaired ? ORR_OK
                           : orr_error_set(&judge->error, ORR_IO,
                                           "%s: %s; a file for repaired programs was expected",
                                           path, strerror(errno));
}

/* The file gets its name once it is whole. */
static enum orr_status close_repaired(struct judge *judge, enum orr_status status) {
    char path[PATH_SIZE];
    if (!judge->repaired)
        return status;
    partial_path(judge, path);
    bool is_whole = !ferror(judge->repaired);
    is_whole = fclose(judge->repaired) == 0 && is_whole;
    if (status == ORR_OK && is_whole && rename(path, judge->request->repair) == 0)
        return ORR_OK;
    if (status == ORR_OK)
        status = orr_error_set(&judge->error, ORR_IO, "%s: %s; it can't be written",
                               judge->request->repair, strerror(errno));
    remove(path);
    return status;
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
        status = open_repaired(&judge);
    if (status == ORR_OK)
        status = judge_file(&judge, file);
    status = close_repaired(&judge, status);
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
