#include <string.h>

#include "cli/check.h"
#include "cli/program_lines.h"
#include "cli/replace.h"
#include "hazards/check_json.h"
#include "hazards/fix.h"
#include "hazards/order_report.h"
#include "hazards/stream_program_write.h"
#include "trace/output.h"

struct judge {
    const struct orr_cli *cli;
    const struct orr_check_request *request;
    uint64_t line; /* number of the line at hand */
    uint64_t programs, counts[ORR_CHECK_VERDICT_COUNT];
    struct orr_output *repaired;     /* NULL: not asked for */
    uint64_t written, unsafe, fixed; /* programs there; unsafe ones; of these, repaired ones */
    struct orr_error error;          /* what ended the run */
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
                                      const struct orr_stream_program_line *line, bool is_unsafe) {
    /* So many that long programs end in time: each fix costs a few checks. */
    enum { FIXES_MAX = 1000, STEPS_MAX = 100000000 };
    uint32_t fixes_max = STEPS_MAX / (line->program->op_count + 1) + 1;
    fixes_max = fixes_max < FIXES_MAX ? fixes_max : FIXES_MAX;
    struct orr_stream_program *repaired = NULL;
    char *text = NULL;
    uint32_t fixes = 0;
    bool is_safe = false;
    enum orr_status status = ORR_OK;
    if (line->program->oracle == ORR_ORACLE_HB)
        status = orr_fix_all(line->program, fixes_max, &repaired, &fixes, &is_safe);
    if (status == ORR_OK)
        status = orr_stream_program_write(repaired ? repaired : line->program, line->id, &text);
    if (status == ORR_OK)
        orr_output_write(judge->repaired, text, strlen(text));
    judge->written++;
    judge->unsafe += is_unsafe;
    judge->fixed += is_unsafe && is_safe;
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
    if (status == ORR_OK && verdict.kind == ORR_CHECK_INVALID)
        status = orr_check_verdict_message(&verdict, "line %llu: %s",
                                           (unsigned long long)judge->line, verdict.message);
    if (status == ORR_OK)
        status = orr_order_report(line->program, &options, &more);
    if (status == ORR_OK)
        status = answer(judge, line->id, &verdict, more);
    if (status == ORR_OK && judge->repaired)
        status = write_repaired(judge, line, orr_check_verdict_is_unsafe(verdict.kind));
    orr_memory_free(line->program->memory, more);
    orr_check_verdict_clear(&verdict);
    return status;
}

static enum orr_status take_line(void *context, uint64_t number,
                                 struct orr_stream_program_line *line, const char *what) {
    struct judge *judge = context;
    judge->line = number;
    return line->program ? answer_program(judge, line) : answer_invalid(judge, line->id, what);
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

/* Hangs and capture errors are not repaired. */
static void print_repaired(const struct judge *judge) {
    fprintf(judge->request->as_json ? judge->cli->err : judge->cli->out,
            "%s: %llu program%s, %llu of %llu unsafe ones repaired%s\n", judge->request->repair,
            (unsigned long long)judge->written, judge->written == 1 ? "" : "s",
            (unsigned long long)judge->fixed, (unsigned long long)judge->unsafe,
            judge->fixed < judge->unsafe ? "; the others are not safe" : "");
}

static enum orr_status open_repaired(struct judge *judge) {
    const char *path = judge->request->repair;
    if (!path)
        return ORR_OK;
    enum orr_status status = orr_replace_check(
        path, ORR_STREAM_PROGRAM_MARK, "file of stream programs that Orrery wrote", &judge->error);
    if (status == ORR_OK)
        status = orr_output_create(path, judge->cli->memory, &judge->repaired, &judge->error);
    return status;
}

/* The file appears once it is whole. */
static enum orr_status close_repaired(struct judge *judge, enum orr_status status) {
    if (status == ORR_OK && judge->repaired)
        return orr_output_finish(&judge->repaired, &judge->error);
    orr_output_discard(&judge->repaired);
    return status;
}

enum orr_exit orr_cli_check_programs(const struct orr_cli *cli,
                                     const struct orr_check_request *request) {
    struct judge judge = {.cli = cli, .request = request};
    const struct orr_program_lines lines = {
        .memory = cli->memory, .path = request->path, .line = take_line, .context = &judge};
    enum orr_status status = open_repaired(&judge);
    if (status == ORR_OK)
        status = orr_program_lines_read(&lines, &judge.error);
    status = close_repaired(&judge, status);
    if (status != ORR_OK) {
        orr_error_set(&judge.error, status, "%s", orr_status_text(status));
        return orr_cli_fail(cli, &judge.error);
    }
    if (!request->as_json)
        print_summary(&judge);
    if (request->repair)
        print_repaired(&judge);
    orr_check_report_done(request->report);
    return exit_of(&judge);
}
