#include "cli/run_check.h"

#include <string.h>

#include "cli/replace.h"
#include "hazards/recorder.h"
#include "hazards/stream_program_write.h"
#include "trace/json_writer.h"
#include "trace/output.h"

/* --- who watches --- */

enum orr_status orr_watch_create(const struct orr_memory *memory,
                                 const struct orr_monitor_options *options, bool records,
                                 struct orr_watch *out_watch, struct orr_error *error) {
    *out_watch = (struct orr_watch){0};
    enum orr_status status = ORR_OK;
    if (options)
        status = orr_monitor_create(memory, options, &out_watch->monitor);
    if (status == ORR_OK && records)
        status = orr_recorder_create(memory, &out_watch->recorder);
    if (status != ORR_OK)
        return orr_error_set(error, status, "no memory to watch the run");
    if (options && records)
        orr_observer_tee_init(&out_watch->tee, orr_monitor_observer(out_watch->monitor),
                              orr_recorder_observer(out_watch->recorder));
    return ORR_OK;
}

void orr_watch_destroy(struct orr_watch *watch) {
    orr_monitor_destroy(&watch->monitor);
    orr_recorder_destroy(&watch->recorder);
}

struct orr_observer *orr_watch_observer(struct orr_watch *watch) {
    if (watch->monitor && watch->recorder)
        return &watch->tee.observer;
    if (watch->monitor)
        return orr_monitor_observer(watch->monitor);
    return watch->recorder ? orr_recorder_observer(watch->recorder) : NULL;
}

enum orr_status orr_watch_program_check(const char *path, struct orr_error *error) {
    return orr_replace_check(path, ORR_STREAM_PROGRAM_MARK,
                             "file of stream programs that Orrery wrote", error);
}

enum orr_status orr_watch_write_program(const struct orr_watch *watch,
                                        const struct orr_memory *memory, const char *id,
                                        const char *path, struct orr_error *error) {
    struct orr_stream_program *program = NULL;
    struct orr_output *output = NULL;
    char *text = NULL;
    enum orr_status status = orr_watch_program_check(path, error);
    if (status != ORR_OK)
        return status;
    status = orr_recorder_program(watch->recorder, &program);
    if (status == ORR_OK)
        status = orr_stream_program_write(program, id, &text);
    orr_stream_program_destroy(&program);
    if (status != ORR_OK)
        return orr_error_set(error, status, "%s: the run can't be written as a stream program: %s",
                             path, orr_status_text(status));
    status = orr_output_create(path, memory, &output, error);
    if (status == ORR_OK) {
        orr_output_write(output, text, strlen(text));
        status = orr_output_finish(&output, error);
    }
    orr_memory_free(memory, text);
    return status;
}

/* --- findings --- */

enum orr_status orr_run_check_end(struct orr_monitor *monitor, struct orr_runtime *runtime,
                                  const struct orr_memory *memory, struct orr_run_check *out_check,
                                  struct orr_error *error) {
    size_t count = orr_monitor_finding_count(monitor);
    *out_check = (struct orr_run_check){.figures = orr_monitor_figures(monitor)};
    enum orr_status status = orr_monitor_status(monitor);
    if (status == ORR_OK && count > 0) {
        out_check->findings = orr_memory_alloc(memory, count * sizeof *out_check->findings);
        status = out_check->findings ? ORR_OK : ORR_NO_MEMORY;
    }
    if (status != ORR_OK)
        return orr_error_set(error, status,
                             "no memory left for the check: its answer would not be "
                             "complete");
    for (size_t i = 0; i < count; i++) {
        struct orr_monitor_finding *finding = &out_check->findings[i];
        orr_monitor_finding(monitor, i, finding);
        if (runtime)
            orr_runtime_finding(runtime, finding->kind_text, finding->severity, finding->cmd_a,
                                finding->cmd_b, finding->buffer, finding->message, finding->fix);
    }
    out_check->finding_count = count;
    return ORR_OK;
}

enum orr_status orr_run_check_ended(struct orr_run_check *out_check,
                                    const struct orr_memory *memory, const char *kind,
                                    const char *message, const char *fix) {
    struct orr_monitor_finding *findings = orr_memory_resize(
        memory, out_check->findings, (out_check->finding_count + 1) * sizeof *findings);
    if (!findings)
        return ORR_NO_MEMORY;
    snprintf(out_check->ended_by, sizeof out_check->ended_by, "%s", kind);
    struct orr_monitor_finding *added = &findings[out_check->finding_count++];
    out_check->findings = findings;
    *added = (struct orr_monitor_finding){
        .kind_text = out_check->ended_by, .severity = "error", .count = 1};
    snprintf(added->message, sizeof added->message, "%s", message);
    snprintf(added->fix, sizeof added->fix, "%s", fix);
    return ORR_OK;
}

void orr_run_check_clear(struct orr_run_check *check, const struct orr_memory *memory) {
    orr_memory_free(memory, check->findings);
    *check = (struct orr_run_check){0};
}

/* --- as text and as JSON --- */

enum { JSON_TEXT_MAX = 6 * ORR_MONITOR_TEXT_MAX + ORR_JSON_BUFFER_MIN };

/* A string with its quotes. It fits into the buffer, so that nothing is handed to an output. */
static void put_string(FILE *out, const char *text) {
    char buffer[JSON_TEXT_MAX];
    struct orr_json_writer writer;
    char cut[ORR_MONITOR_TEXT_MAX];
    snprintf(cut, sizeof cut, "%s", text);
    orr_json_start(&writer, NULL, buffer, sizeof buffer);
    orr_json_text(&writer, cut);
    fprintf(out, "\"%.*s\"", (int)orr_json_size(&writer), buffer);
}

static void put_finding(const struct orr_monitor_finding *finding, FILE *out) {
    fprintf(out, "{\"kind\": \"%s\", \"severity\": \"%s\", \"count\": %llu, \"cmd_a\": %llu, ",
            finding->kind_text, finding->severity, (unsigned long long)finding->count,
            (unsigned long long)finding->cmd_a);
    fprintf(out,
            "\"cmd_b\": %llu, \"buffer\": %llu, \"message\": ", (unsigned long long)finding->cmd_b,
            (unsigned long long)finding->buffer);
    put_string(out, finding->message);
    fputs(", \"fix\": ", out);
    put_string(out, finding->fix);
    fputc('}', out);
}

/* The gravest kind that there is; what ended the run is. */
static const char *verdict(const struct orr_run_check *check) {
    const struct orr_monitor_finding *first = NULL;
    if (check->ended_by[0])
        return check->ended_by;
    for (size_t i = 0; i < check->finding_count; i++)
        if (!first || check->findings[i].kind < first->kind)
            first = &check->findings[i];
    return first ? first->kind_text : "no-race";
}

static void print_json(const struct orr_run_check *check, const char *subject, FILE *out) {
    const struct orr_monitor_figures *figures = &check->figures;
    fputs("{\"subject\": ", out);
    put_string(out, subject);
    fprintf(out, ", \"verdict\": \"%s\", \"commands\": %llu, \"accesses\": %llu, ", verdict(check),
            (unsigned long long)figures->commands, (unsigned long long)figures->accesses);
    fprintf(out, "\"blurred_waits\": %llu, \"dropped_findings\": %llu, \"findings\": [",
            (unsigned long long)figures->blurred_waits,
            (unsigned long long)figures->dropped_findings);
    for (size_t i = 0; i < check->finding_count; i++) {
        fputs(i > 0 ? ",\n" : "\n", out);
        put_finding(&check->findings[i], out);
    }
    fputs("]}\n", out);
}

void orr_run_check_print(const struct orr_run_check *check, const char *subject, bool json,
                         FILE *out) {
    if (json) {
        print_json(check, subject, out);
        return;
    }
    for (size_t i = 0; i < check->finding_count; i++) {
        const struct orr_monitor_finding *finding = &check->findings[i];
        fprintf(out, "%s: %s: %s\n    fix: %s\n", finding->severity, finding->kind_text,
                finding->message, finding->fix);
    }
    orr_run_check_summary(check, subject, out);
}

void orr_run_check_summary(const struct orr_run_check *check, const char *subject, FILE *out) {
    fprintf(out, "%s: %s: %zu finding%s, %llu accesses of %llu commands checked\n", subject,
            verdict(check), check->finding_count, check->finding_count == 1 ? "" : "s",
            (unsigned long long)check->figures.accesses,
            (unsigned long long)check->figures.commands);
    if (check->figures.blurred_waits > 0)
        fprintf(out,
                "%llu waits for very old points were taken for somewhat later ones, which can "
                "hide findings\n",
                (unsigned long long)check->figures.blurred_waits);
    if (check->figures.dropped_findings > 0)
        fprintf(out, "%llu findings more were not kept\n",
                (unsigned long long)check->figures.dropped_findings);
}

void orr_run_check_report(const struct orr_run_check *check, const char *subject, const char *name,
                          struct orr_check_report *report) {
    orr_check_report_case(report, subject, name, check->finding_count > 0 ? verdict(check) : NULL);
    for (size_t i = 0; i < check->finding_count; i++) {
        const struct orr_monitor_finding *finding = &check->findings[i];
        orr_check_report_finding(report,
                                 &(struct orr_check_report_finding){.kind = finding->kind_text,
                                                                    .severity = finding->severity,
                                                                    .message = finding->message,
                                                                    .fix = finding->fix,
                                                                    .site_a = finding->site_a,
                                                                    .site_b = finding->site_b});
    }
    orr_check_report_done(report);
}

enum orr_exit orr_run_check_exit(const struct orr_run_check *check) {
    return check->finding_count > 0 ? ORR_EXIT_NO : ORR_EXIT_OK;
}
