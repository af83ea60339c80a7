#include <errno.h>
#include <string.h>

#include "cli/explore.h"
#include "cli/program_lines.h"
#include "cli/scenario_verbs.h"
#include "cli/subject.h"
#include "hazards/explore/fingerprint.h"
#include "hazards/text_builder.h"

static const char usage[] =
    "usage: orrery replay FILE [PROGRAM.jsonl|SCENARIO.lua] [--json]\n"
    "\n"
    "Runs a schedule that orrery explore saved again, step by step, and shows the finding. The\n"
    "file holds the program that it was found in; what is replayed is compared with what that\n"
    "program is now, in PROGRAM.jsonl or, without it, in the file it came from (as it was named\n"
    "then, or beside the schedule). Names of programs, other lines, sites and labels may change;\n"
    "if operations, streams, memory or switches did, the schedule no longer fits.\n"
    "\n"
    "  --json      one document\n"
    "\n"
    "Exit codes: 1 if the finding is shown again, 3 if the schedule no longer fits or is none.\n";

enum { FILE_BYTES_MAX = 1 << 28 };

struct replay {
    const struct orr_cli *cli;
    const char *path, *program_path; /* program_path NULL: the source */
    bool as_json;
    struct orr_schedule_file file;
    char *source; /* where the program was looked for; owned; NULL: nowhere */
    /* Of the lines there: */
    struct orr_stream_program_line same_id, only;
    char *same_print; /* name of a program with this fingerprint; owned */
    bool has_same_print, has_same_id;
    uint64_t programs;
    struct orr_error error;
};

/* --- the program as it is now --- */

static enum orr_status look_at_line(void *context, uint64_t number,
                                    struct orr_stream_program_line *line, const char *what) {
    struct replay *replay = context;
    const struct orr_memory *memory = replay->cli->memory;
    (void)number, (void)what;
    replay->programs++;
    bool is_id = line->id && strcmp(line->id, replay->file.id) == 0;
    if (line->program &&
        orr_stream_program_fingerprint(line->program) == replay->file.fingerprint &&
        (!replay->has_same_print || is_id)) {
        replay->has_same_print = true;
        orr_memory_free(memory, replay->same_print);
        replay->same_print = line->id;
        line->id = NULL;
        return ORR_OK;
    }
    struct orr_stream_program_line *kept = is_id && !replay->has_same_id ? &replay->same_id
                                           : replay->programs == 1       ? &replay->only
                                                                         : NULL;
    replay->has_same_id = replay->has_same_id || is_id;
    if (kept) {
        *kept = *line;
        *line = (struct orr_stream_program_line){0};
    }
    return ORR_OK;
}

static bool exists(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

/* The source as it was named, or its last part beside the schedule. NULL: not there. */
static char *find_source(const struct replay *replay) {
    const struct orr_memory *memory = replay->cli->memory;
    const char *source = replay->file.source;
    struct orr__builder beside = {.memory = memory};
    if (replay->program_path)
        return orr_memory_text(memory, replay->program_path, strlen(replay->program_path));
    if (!source)
        return NULL;
    if (exists(source))
        return orr_memory_text(memory, source, strlen(source));
    const char *slash = strrchr(replay->path, '/'), *name = strrchr(source, '/');
    if (slash)
        orr__build_bytes(&beside, replay->path, (size_t)(slash + 1 - replay->path));
    orr__build_text(&beside, name ? name + 1 : source);
    if (!beside.failed && exists(beside.data))
        return beside.data;
    orr__builder_clear(&beside);
    return NULL;
}

/* ORR_INVALID: the program is another one now. */
static enum orr_status compare_with_source(struct replay *replay) {
    replay->source = find_source(replay);
    if (!replay->source)
        return ORR_OK;
    struct orr_program_lines lines = {.memory = replay->cli->memory,
                                      .path = replay->source,
                                      .line = look_at_line,
                                      .context = replay};
    enum orr_status status = orr_program_lines_read(&lines, &replay->error);
    if (status != ORR_OK || replay->has_same_print)
        return status;
    const struct orr_stream_program *now = replay->has_same_id     ? replay->same_id.program
                                           : replay->programs == 1 ? replay->only.program
                                                                   : NULL;
    if (now)
        status =
            orr_schedule_fits(replay->file.program, &replay->file.schedule, now, &replay->error);
    else if (replay->has_same_id)
        status = orr_error_set(&replay->error, ORR_INVALID,
                               "schedule no longer fits: program '%s' is malformed now",
                               replay->file.id);
    else
        status = orr_error_set(&replay->error, ORR_INVALID,
                               "schedule no longer fits: no program has the id '%s', and none is "
                               "the one it was found in",
                               replay->file.id);
    orr_error_prefix(&replay->error, "%s", replay->source);
    return status;
}

/* --- the file --- */

static enum orr_status read_text(struct replay *replay, struct orr__builder *text) {
    char piece[4096];
    FILE *file = fopen(replay->path, "rb");
    if (!file)
        return orr_error_set(&replay->error, ORR_INVALID, "%s: %s; a schedule was expected",
                             replay->path, strerror(errno));
    size_t size;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0 && text->length < FILE_BYTES_MAX)
        orr__build_bytes(text, piece, size);
    bool is_bad = ferror(file);
    fclose(file);
    if (is_bad || text->length >= FILE_BYTES_MAX)
        return orr_error_set(&replay->error, ORR_INVALID, "%s: %s; a schedule was expected",
                             replay->path, is_bad ? "it can't be read" : "more than 256 MiB");
    return text->failed ? ORR_NO_MEMORY : ORR_OK;
}

static enum orr_status read_file(struct replay *replay) {
    struct orr__builder text = {.memory = replay->cli->memory};
    enum orr_status status = read_text(replay, &text);
    const char *data = text.data ? text.data : "", *other = orr_cli_other_file(data, text.length);
    bool is_trace = other && strcmp(other, "a trace") == 0;
    if (status == ORR_OK && (is_trace || data[strspn(data, " \t\r\n")] != '{')) {
        status = orr_error_set(&replay->error, ORR_INVALID, "%s: %s; a schedule was expected",
                               replay->path, is_trace ? other : "no JSON object");
    } else if (status == ORR_OK) {
        status = orr_schedule_read(replay->cli->memory, data, text.length, &replay->file,
                                   &replay->error);
        if (status != ORR_OK)
            orr_error_prefix(&replay->error, "%s", replay->path);
    }
    orr__builder_clear(&text);
    return status;
}

/* --- the answer --- */

static enum orr_status run_again(struct replay *replay, struct orr_replay_result *result) {
    const struct orr_schedule *schedule = &replay->file.schedule;
    bool is_hang = replay->file.program->oracle == ORR_ORACLE_HANG;
    enum orr_status status =
        orr_schedule_replay(replay->file.program, schedule, result, &replay->error);
    if (status == ORR_OK &&
        (result->outcome != schedule->outcome || result->expected != schedule->expected ||
         result->poisoned != schedule->poisoned || (is_hang && result->kind != replay->file.kind)))
        status = orr_error_set(&replay->error, ORR_INVALID,
                               "schedule no longer fits: its steps come to something else than "
                               "when it was saved");
    if (status != ORR_OK)
        orr_error_prefix(&replay->error, "%s", replay->path);
    return status;
}

static void print_answer(const struct replay *replay, const struct orr_replay_result *result) {
    FILE *out = replay->cli->out;
    const struct orr_schedule_file *file = &replay->file;
    fprintf(out, "%s: %s, again\n", file->id, orr_check_verdict_text(file->kind));
    if (file->message)
        fprintf(out, "  %s\n", file->message);
    orr_cli_print_schedule(replay->cli, file->program, &file->schedule);
    if (file->program->oracle == ORR_ORACLE_HB && result->poisoned > 0)
        fprintf(out, "    %u operation%s used memory that was not there\n", result->poisoned,
                result->poisoned == 1 ? "" : "s");
    else if (file->program->oracle == ORR_ORACLE_HB)
        fprintf(out, "    %s\n",
                result->outcome != result->expected
                    ? "other numbers than in the program's own order"
                    : "the same numbers as in the program's own order");
    if (!replay->source)
        fprintf(out, "    the program that it came from is not here; replayed as it was saved\n");
    else if (replay->same_print && strcmp(replay->same_print, file->id) != 0)
        fprintf(out, "    the program is called '%s' now\n", replay->same_print);
}

static enum orr_status print_json(const struct replay *replay,
                                  const struct orr_replay_result *result) {
    struct orr__builder line = {.memory = replay->cli->memory};
    const struct orr_schedule_file *file = &replay->file;
    orr__build_text(&line, "{\"id\": ");
    orr__build_json_string(&line, file->id);
    orr__build_format(&line, ", \"verdict\": \"%s\", \"steps\": %u, \"message\": ",
                      orr_check_verdict_text(file->kind), file->schedule.step_count);
    orr__build_json_string(&line, file->message ? file->message : "");
    if (file->program->oracle == ORR_ORACLE_HB)
        orr__build_format(&line,
                          ", \"expected\": \"%016llx\", \"outcome\": \"%016llx\", "
                          "\"poisoned\": %u",
                          (unsigned long long)result->expected, (unsigned long long)result->outcome,
                          result->poisoned);
    orr__build_format(&line, ", \"compared\": %s}\n", replay->source ? "true" : "false");
    enum orr_status status = line.failed ? ORR_NO_MEMORY : ORR_OK;
    if (status == ORR_OK)
        fputs(line.data, replay->cli->out);
    orr__builder_clear(&line);
    return status;
}

/* The schedule and what it is to be compared with are of different kinds. */
static enum orr_exit fail_kind(const struct replay *replay, const char *is, const char *program) {
    fprintf(replay->cli->err, "orrery: %s: it %s, but %s %s\n", replay->path, is,
            replay->program_path, program);
    return ORR_EXIT_INPUT;
}

static enum orr_exit replay_schedule(struct replay *replay) {
    struct orr_replay_result result;
    enum orr_status status = read_file(replay);
    if (status == ORR_OK && replay->program_path && orr_cli_ends_in(replay->program_path, ".lua"))
        return fail_kind(replay, "is of a stream program", "is a scenario");
    if (status == ORR_OK)
        status = compare_with_source(replay);
    if (status == ORR_OK)
        status = run_again(replay, &result);
    if (status == ORR_OK && replay->as_json)
        status = print_json(replay, &result);
    else if (status == ORR_OK)
        print_answer(replay, &result);
    if (status == ORR_OK)
        return ORR_EXIT_NO;
    orr_error_set(&replay->error, status, "%s: %s", replay->path, orr_status_text(status));
    return orr_cli_fail(replay->cli, &replay->error);
}

/* False if the file is no schedule of a scenario; what else it is, others say. */
static bool replay_scenario(struct replay *replay, enum orr_exit *out_exit) {
    struct orr__builder text = {.memory = replay->cli->memory};
    struct orr_error error = {0};
    enum orr_status status = read_text(replay, &text);
    bool is_one = status == ORR_OK && text.data && orr_is_scenario_schedule(text.data);
    if (is_one && replay->program_path && orr_cli_ends_in(replay->program_path, ".jsonl"))
        *out_exit = fail_kind(replay, "is of a scenario", "holds stream programs");
    else if (is_one)
        *out_exit = orr_cli_replay_scenario(replay->cli, replay->path, text.data, text.length,
                                            replay->program_path, replay->as_json);
    replay->error = error;
    orr__builder_clear(&text);
    return is_one;
}

enum orr_exit orr_cli_replay(const struct orr_cli *cli, int argc, char **argv) {
    int help, as_json = 0;
    const struct orr_cli_option options[] = {{"--json", NULL, &as_json}, {NULL, NULL, NULL}};
    struct orr_cli_positional words;
    enum orr_exit exit = orr_cli_parse(cli, argc, argv, usage, options, &words, &help);
    if (exit != ORR_EXIT_OK || help)
        return exit;
    if (words.count < 1 || words.count > 2)
        return orr_cli_usage(cli, argv[0], "expected a schedule, and perhaps a program");
    struct replay replay = {.cli = cli,
                            .path = words.items[0],
                            .program_path = words.count > 1 ? words.items[1] : NULL,
                            .as_json = as_json};
    if (!replay_scenario(&replay, &exit))
        exit = replay_schedule(&replay);
    orr_schedule_file_clear(&replay.file, cli->memory);
    orr_stream_program_line_clear(&replay.same_id, cli->memory);
    orr_stream_program_line_clear(&replay.only, cli->memory);
    orr_memory_free(cli->memory, replay.same_print);
    orr_memory_free(cli->memory, replay.source);
    return exit;
}
