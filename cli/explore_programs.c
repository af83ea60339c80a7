#include <string.h>

#include "cli/explore.h"
#include "cli/program_lines.h"

struct exploring {
    const struct orr_cli *cli;
    const struct orr_explore_request *request;
    bool is_found, is_invalid, is_unknown, has_id, is_saved;
    struct orr_error error;
};

/* The first finding with a schedule; one that shows wrong numbers, if there is such a one. */
static const struct orr_explore_finding *pick_finding(const struct orr_exploration *found) {
    const struct orr_explore_finding *picked = NULL;
    for (uint32_t i = 0; i < found->finding_count; i++) {
        const struct orr_explore_finding *finding = &found->findings[i];
        if (finding->schedule.steps && (!picked || (finding->shows_wrong && !picked->shows_wrong)))
            picked = finding;
    }
    return picked;
}

static enum orr_status save(struct exploring *exploring, const struct orr_stream_program_line *line,
                            const struct orr_exploration *found) {
    const struct orr_explore_request *request = exploring->request;
    const struct orr_explore_finding *finding = pick_finding(found);
    if (!request->output || exploring->is_saved || !finding)
        return ORR_OK;
    bool is_stdin = strcmp(request->path, "-") == 0;
    const struct orr_schedule_file file = {.id = line->id,
                                           .source = is_stdin ? NULL : (char *)request->path,
                                           .strategy = request->options.strategy,
                                           .seed = request->options.seed,
                                           .depth = request->options.depth,
                                           .kind = finding->kind,
                                           .op_a = finding->op_a,
                                           .op_b = finding->op_b,
                                           .message = finding->message,
                                           .schedule = finding->schedule,
                                           .program = line->program};
    exploring->is_saved = true;
    return orr_cli_schedule_save(&file, request->output, &exploring->error);
}

static enum orr_status show(struct exploring *exploring, const char *id, uint64_t number,
                            const struct orr_stream_program *program,
                            const struct orr_exploration *found) {
    char name[32];
    snprintf(name, sizeof name, "line %llu", (unsigned long long)number);
    exploring->is_found = exploring->is_found || found->finding_count > 0;
    exploring->is_invalid = exploring->is_invalid || found->verdict == ORR_CHECK_INVALID;
    if (exploring->request->as_json)
        return orr_cli_exploration_json(exploring->cli, id, program, &exploring->request->options,
                                        found);
    orr_cli_print_exploration(exploring->cli, id ? id : name, program, found);
    return ORR_OK;
}

/* A line that was not explored: malformed, or too large. */
static enum orr_status show_message(struct exploring *exploring, const char *id, uint64_t number,
                                    enum orr_check_verdict_kind verdict, const char *what) {
    struct orr_exploration found = {.verdict = verdict};
    snprintf(found.message, sizeof found.message, "line %llu: %.200s", (unsigned long long)number,
             what);
    exploring->is_unknown = exploring->is_unknown || verdict == ORR_CHECK_UNKNOWN;
    return show(exploring, id, number, NULL, &found);
}

/* What can't be explored (capture rules) is judged by the check. */
static enum orr_status show_capture(struct exploring *exploring, uint64_t number,
                                    const struct orr_stream_program_line *line) {
    struct orr_check_verdict verdict;
    struct orr_exploration found = {.memory = exploring->cli->memory};
    enum orr_status status = orr_stream_program_check(line->program, NULL, &verdict);
    found.verdict = verdict.kind;
    if (status == ORR_OK && orr_check_verdict_is_unsafe(verdict.kind)) {
        struct orr_explore_finding finding = {
            .kind = verdict.kind, .op_a = ORR_NONE, .op_b = verdict.op_b};
        finding.message = verdict.message;
        found.findings = &finding;
        found.finding_count = 1;
        status = show(exploring, line->id, number, line->program, &found);
    } else if (status == ORR_OK) {
        status = show(exploring, line->id, number, line->program, &found);
    }
    orr_check_verdict_clear(&verdict);
    return status;
}

/* What is malformed is told with its line, however late it was noticed. */
static void add_line(struct orr_exploration *found, uint64_t number) {
    char what[sizeof found->message];
    snprintf(what, sizeof what, "%s", found->message);
    snprintf(found->message, sizeof found->message, "line %llu: %.200s", (unsigned long long)number,
             what);
}

static enum orr_status explore_line(void *context, uint64_t number,
                                    struct orr_stream_program_line *line, const char *what) {
    struct exploring *exploring = context;
    const struct orr_explore_request *request = exploring->request;
    if (request->id && (!line->id || strcmp(line->id, request->id) != 0))
        return ORR_OK;
    exploring->has_id = true;
    if (!line->program)
        return show_message(exploring, line->id, number, ORR_CHECK_INVALID, what);
    if (line->program->oracle == ORR_ORACLE_CAPTURE)
        return show_capture(exploring, number, line);
    struct orr_exploration *found;
    struct orr_error error = {0};
    enum orr_status status = orr_explore(line->program, &request->options, &found, &error);
    if (status == ORR_UNSUPPORTED)
        return show_message(exploring, line->id, number, ORR_CHECK_UNKNOWN, error.text);
    if (status != ORR_OK)
        return status;
    if (found->verdict == ORR_CHECK_INVALID)
        add_line(found, number);
    status = show(exploring, line->id, number, line->program, found);
    if (status == ORR_OK)
        status = save(exploring, line, found);
    orr_exploration_destroy(&found);
    return status;
}

enum orr_exit orr_cli_explore_programs(const struct orr_cli *cli,
                                       const struct orr_explore_request *request) {
    struct exploring exploring = {.cli = cli, .request = request};
    struct orr_program_lines lines = {
        .memory = cli->memory, .path = request->path, .line = explore_line, .context = &exploring};
    enum orr_status status = ORR_OK;
    if (request->output)
        status = orr_cli_schedule_check(request->output, &exploring.error);
    if (status == ORR_OK)
        status = orr_program_lines_read(&lines, &exploring.error);
    if (status != ORR_OK)
        return orr_cli_fail(cli, &exploring.error);
    if (request->id && !exploring.has_id) {
        fprintf(cli->err, "orrery: %s: no program has the id '%s'\n", request->path, request->id);
        return ORR_EXIT_INPUT;
    }
    if (request->output && !exploring.is_saved)
        fprintf(cli->err, "orrery: nothing was found; %s was not written\n", request->output);
    return exploring.is_invalid   ? ORR_EXIT_INPUT
           : exploring.is_found   ? ORR_EXIT_NO
           : exploring.is_unknown ? ORR_EXIT_FAILED
                                  : ORR_EXIT_OK;
}
