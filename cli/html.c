#include "cli/html.h"

#include "cli/replace.h"
#include "trace/output.h"

enum orr_status orr_cli_html_check(const char *path, struct orr_error *error) {
    return orr_replace_check(path, ORR_REPORT_HTML_MARK, "report of `orrery analyze --html`",
                             error);
}

static enum orr_status write_page(const struct orr_cli *cli, const struct orr_analysis *analysis,
                                  const struct orr_report_html_extra *extra, const char *path,
                                  struct orr_error *error) {
    char *text = NULL;
    size_t length = 0;
    struct orr_output *output = NULL;
    enum orr_status status = orr_cli_html_check(path, error);
    if (status != ORR_OK)
        return status;
    status = orr_report_html(analysis, extra, &text, &length);
    if (status != ORR_OK)
        return orr_error_set(error, status, "%s: the report could not be made: %s", path,
                             orr_status_text(status));
    status = orr_output_create(path, cli->memory, &output, error);
    if (status == ORR_OK) {
        orr_output_write(output, text, length);
        status = orr_output_finish(&output, error);
    }
    orr_memory_free(analysis->memory, text);
    return status;
}

enum orr_status orr_cli_html_write(const struct orr_cli *cli, const struct orr_analysis *analysis,
                                   const char *path, struct orr_error *error) {
    return write_page(cli, analysis, NULL, path, error);
}

enum orr_status orr_cli_html_write_set(const struct orr_cli *cli, const struct orr_report_set *set,
                                       const char *path, struct orr_error *error) {
    char *json = NULL, *text = NULL;
    size_t length = 0, text_length = 0;
    enum orr_status status = orr_report_json_set(set, &json, &length);
    if (status == ORR_OK)
        status = orr_report_text_set(set, &text, &text_length);
    if (status == ORR_OK) {
        struct orr_report_html_extra extra = {.set = json, .set_length = length, .verdict = text};
        status = write_page(cli, set->whole, &extra, path, error);
    } else {
        orr_error_set(error, status, "%s: the report could not be made: %s", path,
                      orr_status_text(status));
    }
    orr_memory_free(set->memory, json);
    orr_memory_free(set->memory, text);
    return status;
}
