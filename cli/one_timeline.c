#include "cli/one_timeline.h"

#include "cli/rank_set.h"
#include "cli/traces.h"

enum orr_status orr_cli_read_one_timeline(const struct orr_cli *cli, const char *const *paths,
                                          int count, const struct orr_import_options *options,
                                          struct orr_timeline **out_timeline, size_t *out_count,
                                          struct orr_error *error) {
    struct orr_traces traces = {0};
    *out_timeline = NULL;
    enum orr_status status = orr_cli_read_traces(cli, paths, count, options, &traces, error);
    if (status != ORR_OK)
        return status;
    if (out_count)
        *out_count = traces.count;
    if (traces.count == 1) {
        *out_timeline = traces.items[0].timeline;
        traces.items[0].timeline = NULL;
    } else {
        status = orr_cli_join_traces(cli, &traces, out_timeline, error);
    }
    orr_traces_free(cli->memory, &traces);
    return status;
}
