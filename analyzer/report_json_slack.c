/* Slack in the JSON report. */
#include "analyzer/report_json_internal.h"

/* null: nothing at the end of the trace depends on it. */
static void put_slack(struct json *j, const char *name, int64_t slack_ns) {
    put_time_or_null(j, name, slack_ns != INT64_MAX, slack_ns);
}

static void put_operators(struct json *j, const struct orr_analysis *a) {
    put_open(j, "operators", "[");
    for (size_t i = 0; i < a->slack.operator_count && i < a->options.path_rows; i++) {
        const struct orr_slack_operator *row = &a->slack.operators[i];
        const struct orr_events_operator *operator= & a->events.operators[row->operator_index];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "op", operator->name);
        put_string(j, "shape", operator->shape);
        put_count(j, "count", row->count);
        put_count(j, "without_slack", row->without);
        put_int(j, "time_without_slack_ns", row->time_ns);
        put_slack(j, "least_slack_ns", row->least_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
}

void orr__json_slack(struct json *j, const struct orr_analysis *a) {
    if (!a->slack.known) {
        put_null(j, "slack");
        return;
    }
    put_open(j, "slack", "{");
    put_count(j, "ops", a->slack.op_count);
    put_count(j, "ops_without", a->slack.without);
    put_count(j, "pinned", a->slack.pinned);
    put_int(j, "replay_error_ns", a->slack.replay_error_ns);
    put_operators(j, a);
    put_open(j, "commands", "[");
    for (size_t i = 0; a->rows && i < a->events.op_count; i++) {
        const struct orr_events_op *op = &a->events.ops[a->rows[i]];
        put_open(j, NULL, "{");
        put_count(j, "id", op->correlation);
        put_slack(j, "slack_ns", a->slack.ops_ns[a->rows[i]]);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_close(j, "}");
}
