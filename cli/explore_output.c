#include <string.h>

#include "cli/explore.h"
#include "cli/replace.h"
#include "hazards/text_builder.h"
#include "trace/output.h"

enum { COLUMNS_MAX = 16, WIDTH_MAX = 32 };

/* --- tables --- */

static const char *actor_text(const struct orr_stream_program *program, uint32_t actor) {
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    return actor < streams ? orr_stream_program_text(program, ORR_NAME_STREAM, actor)
                           : orr_stream_program_text(program, ORR_NAME_HOST, actor - streams);
}

struct table {
    uint32_t actors[COLUMNS_MAX];
    int widths[COLUMNS_MAX];
    uint32_t count;
};

/* "3 k s1 r:A", with "start" or the like if a step is not all of an operation. */
static void cell_text(const struct orr_stream_program *program,
                      const struct orr_schedule_step *step, char *text, size_t size) {
    char op[160];
    orr_stream_op_short(program, step->op, op, sizeof op);
    /* Without "host: ", which the columns tell, or the steps before. */
    const char *host = orr_stream_program_text(program, ORR_NAME_HOST, program->ops[step->op].host);
    size_t length = strlen(host);
    const char *shown =
        strncmp(op, host, length) == 0 && strncmp(op + length, ": ", 2) == 0 ? op + length + 2 : op;
    const char *what = step->what == ORR_STEP_START    ? "start "
                       : step->what == ORR_STEP_FINISH ? "finish "
                       : step->what == ORR_STEP_BODY   ? "in "
                                                       : "";
    snprintf(text, size, "%u %s%s", step->op, what, shown);
    if (strlen(text) > WIDTH_MAX)
        memcpy(text + WIDTH_MAX - 3, "...", 4);
}

static uint32_t find_column(const struct table *table, uint32_t actor) {
    uint32_t i = 0;
    while (i < table->count && table->actors[i] != actor)
        i++;
    return i;
}

/* Columns in order of actors; false if there are too many. */
static bool make_table(const struct orr_stream_program *program,
                       const struct orr_schedule *schedule, struct table *table) {
    *table = (struct table){.count = 0};
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        uint32_t actor = schedule->steps[i].actor, at = table->count;
        if (find_column(table, actor) < table->count)
            continue;
        if (table->count == COLUMNS_MAX)
            return false;
        for (; at > 0 && table->actors[at - 1] > actor; at--)
            table->actors[at] = table->actors[at - 1];
        table->actors[at] = actor;
        table->count++;
    }
    for (uint32_t i = 0; i < table->count; i++)
        table->widths[i] = (int)strlen(actor_text(program, table->actors[i]));
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        char text[192];
        cell_text(program, &schedule->steps[i], text, sizeof text);
        int *width = &table->widths[find_column(table, schedule->steps[i].actor)];
        *width = *width > (int)strlen(text) ? *width : (int)strlen(text);
    }
    return true;
}

static void print_row(const struct orr_cli *cli, const struct table *table, uint32_t column,
                      const char *text) {
    for (uint32_t i = 0; i <= column; i++)
        fprintf(cli->out, " | %-*s", i < column ? table->widths[i] : 0, i == column ? text : "");
    fputc('\n', cli->out);
}

void orr_cli_print_schedule(const struct orr_cli *cli, const struct orr_stream_program *program,
                            const struct orr_schedule *schedule) {
    struct table table;
    char text[192];
    bool fits = make_table(program, schedule, &table);
    fprintf(cli->out, "    step");
    for (uint32_t i = 0; fits && i < table.count; i++)
        fprintf(cli->out, " | %-*s", i + 1 < table.count ? table.widths[i] : 0,
                actor_text(program, table.actors[i]));
    fputc('\n', cli->out);
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        cell_text(program, &schedule->steps[i], text, sizeof text);
        fprintf(cli->out, "    %4u", i + 1);
        if (fits)
            print_row(cli, &table, find_column(&table, schedule->steps[i].actor), text);
        else
            fprintf(cli->out, " | %s: %s\n", actor_text(program, schedule->steps[i].actor), text);
    }
}

/* --- for people --- */

/* Runs that show nothing leave it open; without runs (a program too large) it is unknown. */
static const char *verdict_text(const struct orr_exploration *found, const char *nothing) {
    return found->verdict == ORR_CHECK_UNKNOWN && found->runs > 0
               ? nothing
               : orr_check_verdict_text(found->verdict);
}

static void print_counts(const struct orr_cli *cli, const struct orr_exploration *found) {
    fprintf(cli->out, "    %llu run%s", (unsigned long long)found->runs,
            found->runs == 1 ? "" : "s");
    if (found->orders > 0)
        fprintf(cli->out, ", %llu distinct order%s%s", (unsigned long long)found->orders,
                found->orders == 1 ? "" : "s",
                found->is_capped ? " of more (the budget ended it)" : ": all there are");
    else
        fprintf(cli->out, ": what they have not shown may still happen");
    if (found->given_up > 0)
        fprintf(cli->out, ", and %llu begun and given up as repetition%s",
                (unsigned long long)found->given_up, found->given_up == 1 ? "" : "s");
    if (found->wrong > 0)
        fprintf(cli->out, "; %llu gave wrong numbers", (unsigned long long)found->wrong);
    if (found->stuck > 0)
        fprintf(cli->out, "; %llu got stuck", (unsigned long long)found->stuck);
    fputc('\n', cli->out);
}

void orr_cli_print_exploration(const struct orr_cli *cli, const char *name,
                               const struct orr_stream_program *program,
                               const struct orr_exploration *found) {
    fprintf(cli->out, "%s: %s\n", name, verdict_text(found, "nothing found"));
    if (found->message[0])
        fprintf(cli->out, "    %s\n", found->message);
    if (found->runs > 0)
        print_counts(cli, found);
    for (uint32_t i = 0; i < found->finding_count; i++) {
        const struct orr_explore_finding *finding = &found->findings[i];
        fprintf(cli->out, "  %s\n", finding->message);
        if (!finding->schedule.steps)
            continue;
        fprintf(cli->out, "    of %u operations these are enough:", program->op_count);
        for (uint32_t k = 0; k < finding->schedule.kept_count; k++)
            fprintf(cli->out, " %u", finding->schedule.kept[k]);
        fputc('\n', cli->out);
        orr_cli_print_schedule(cli, program, &finding->schedule);
    }
}

/* --- JSON --- */

static void build_steps(struct orr__builder *line, const struct orr_stream_program *program,
                        const struct orr_schedule *schedule) {
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    orr__build_text(line, ", \"kept\": [");
    for (uint32_t i = 0; i < schedule->kept_count; i++)
        orr__build_format(line, "%s%u", i > 0 ? ", " : "", schedule->kept[i]);
    orr__build_text(line, "], \"steps\": [");
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const struct orr_schedule_step *step = &schedule->steps[i];
        orr__build_format(line, "%s{\"op\": %u, \"%s\": ", i > 0 ? ", " : "", step->op,
                          step->actor < streams ? "stream" : "host");
        orr__build_json_string(line, actor_text(program, step->actor));
        orr__build_format(line, ", \"what\": \"%s\"}",
                          orr_schedule_what_text((enum orr_schedule_what)step->what));
    }
    orr__build_text(line, "]");
}

static void build_finding(struct orr__builder *line, const struct orr_stream_program *program,
                          const struct orr_explore_finding *finding) {
    orr__build_format(line, "{\"kind\": \"%s\", \"ops\": ", orr_check_verdict_text(finding->kind));
    if (finding->op_b == ORR_NONE)
        orr__build_text(line, "null");
    else if (finding->op_a == ORR_NONE)
        orr__build_format(line, "[null, %u]", finding->op_b);
    else
        orr__build_format(line, "[%u, %u]", finding->op_a, finding->op_b);
    orr__build_text(line, ", \"message\": ");
    orr__build_json_string(line, finding->message ? finding->message : "");
    if (program->oracle == ORR_ORACLE_HB && finding->schedule.steps)
        orr__build_format(line, ", \"wrong_numbers\": %s", finding->shows_wrong ? "true" : "false");
    if (finding->schedule.steps)
        build_steps(line, program, &finding->schedule);
    orr__build_text(line, "}");
}

static void build_counts(struct orr__builder *line, const struct orr_explore_options *options,
                         const struct orr_exploration *found) {
    orr__build_format(line, ", \"strategy\": \"%s\", \"runs\": %llu, \"orders\": ",
                      orr_explore_strategy_text(options->strategy),
                      (unsigned long long)found->runs);
    if (found->orders > 0)
        orr__build_format(line, "%llu", (unsigned long long)found->orders);
    else
        orr__build_text(line, "null");
    orr__build_format(line,
                      ", \"capped\": %s, \"given_up\": %llu, \"wrong\": %llu, \"stuck\": %llu",
                      found->is_capped ? "true" : "false", (unsigned long long)found->given_up,
                      (unsigned long long)found->wrong, (unsigned long long)found->stuck);
}

enum orr_status orr_cli_exploration_json(const struct orr_cli *cli, const char *id,
                                         const struct orr_stream_program *program,
                                         const struct orr_explore_options *options,
                                         const struct orr_exploration *found) {
    struct orr__builder line = {.memory = cli->memory};
    orr__build_text(&line, "{\"id\": ");
    if (id)
        orr__build_json_string(&line, id);
    else
        orr__build_text(&line, "null");
    orr__build_format(&line, ", \"verdict\": \"%s\"", verdict_text(found, "nothing-found"));
    if (found->message[0]) {
        orr__build_text(&line, ", \"message\": ");
        orr__build_json_string(&line, found->message);
    }
    build_counts(&line, options, found);
    orr__build_text(&line, ", \"findings\": [");
    for (uint32_t i = 0; i < found->finding_count; i++) {
        orr__build_text(&line, i > 0 ? ", " : "");
        build_finding(&line, program, &found->findings[i]);
    }
    orr__build_text(&line, "]}\n");
    enum orr_status status = line.failed ? ORR_NO_MEMORY : ORR_OK;
    if (status == ORR_OK)
        fputs(line.data, cli->out);
    orr__builder_clear(&line);
    return status;
}

/* --- files --- */

enum orr_status orr_cli_schedule_check(const char *path, struct orr_error *error) {
    struct orr_error other = {0};
    if (orr_replace_check(path, "\"orrery_scenario_schedule\"", "schedule", &other) == ORR_OK)
        return ORR_OK;
    return orr_replace_check(path, "\"orrery_schedule\"", "schedule", error);
}

enum orr_status orr_cli_schedule_save(const struct orr_schedule_file *file, const char *path,
                                      struct orr_error *error) {
    char *text;
    struct orr_output *output;
    enum orr_status status = orr_cli_schedule_check(path, error);
    if (status != ORR_OK)
        return status;
    status = orr_schedule_write(file, &text);
    if (status == ORR_INVALID)
        return orr_error_set(error, status, "%s: the name of a buffer can't be written", path);
    if (status != ORR_OK)
        return status;
    status = orr_output_create(path, file->program->memory, &output, error);
    if (status == ORR_OK) {
        orr_output_write(output, text, strlen(text));
        status = orr_output_finish(&output, error);
    }
    orr_memory_free(file->program->memory, text);
    return status;
}
