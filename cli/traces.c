#include "cli/traces.h"

#include <stdio.h>
#include <string.h>

enum orr_status orr_cli_read_traces(const struct orr_cli *cli, const char *const *paths, int count,
                                    const struct orr_import_options *options,
                                    struct orr_traces *out_traces, struct orr_error *error) {
    static const struct orr_import_options tolerant = {0};
    *out_traces = (struct orr_traces){0};
    enum orr_status status = ORR_OK;
    for (int i = 0; i < count && status == ORR_OK; i++)
        status = orr_traces_read(paths[i], options ? options : &tolerant, cli->memory, out_traces,
                                 error);
    if (status != ORR_OK)
        orr_traces_free(cli->memory, out_traces);
    return status;
}

const char *orr_cli_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] != '\0' ? slash + 1 : path;
}

const char *orr_cli_set_name(const char *const *paths, int count, char *buffer) {
    const char *first = count > 0 ? orr_cli_base_name(paths[0]) : "";
    if (count <= 1)
        snprintf(buffer, ORR_CLI_SET_NAME_MAX, "%s", first);
    else
        snprintf(buffer, ORR_CLI_SET_NAME_MAX, "%.200s and %d more", first, count - 1);
    return buffer;
}
