#include "analyzer/options.h"

#include "runtime/record.h"

struct orr_analysis_options orr_analysis_options_default(void) {
    return (struct orr_analysis_options){
        .file = "",
        .begin_ns = ORR_TIME_NONE,
        .end_ns = ORR_TIME_NONE,
        .short_gap_ns = 30,
        .dispatch_max_ns = 100000,
        .host_percent = 50,
        .launch_gaps_min = 8,
        .period_percent = 25,
        .unknown_percent = 10,
        .sync_percent = 50,
        .busy_percent = 80,
        .roof_percent = 60,
        .cell_min_ns = 100000,
        .cells = 1000,
        .smooth = 2,
        .command_rows = 64,
        .path_rows = 1000,
        .slack_nodes = 100000,
    };
}
