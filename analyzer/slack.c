#include "analyzer/slack.h"

#include <string.h>

#include "analyzer/replay.h"
#include "analyzer/roofline.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

void orr_slack_free(const struct orr_memory *memory, struct orr_slack *slack) {
    orr_memory_free(memory, slack->ops_ns);
    orr_memory_free(memory, slack->operators);
    *slack = (struct orr_slack){0};
}

struct by_time {
    const struct orr_events *events;
    const struct orr_slack_operator *rows;
};

static bool comes_first(const void *context, uint32_t a, uint32_t b) {
    const struct by_time *sort = context;
    if (sort->rows[a].time_ns != sort->rows[b].time_ns) {
        return sort->rows[a].time_ns > sort->rows[b].time_ns;
    }
    if (sort->rows[a].least_ns != sort->rows[b].least_ns) {
        return sort->rows[a].least_ns < sort->rows[b].least_ns;
    }
    const struct orr_events_operator *operators = sort->events->operators;
    return orr__operator_compare(&operators[sort->rows[a].operator_index],
                                 &operators[sort->rows[b].operator_index]) < 0;
}

static void sum_operators(const struct orr_events *events, struct orr_slack *slack,
                          struct orr_slack_operator *rows) {
    for (size_t o = 0; o < events->op_count; o++) {
        const struct orr_events_op *op = &events->ops[o];
        struct orr_slack_operator *row = &rows[op->operator_index];
        int64_t here = slack->ops_ns[o];
        row->operator_index = op->operator_index;
        row->least_ns = row->count == 0 ? here : orr__min_ns(row->least_ns, here);
        row->count++;
        if (here == 0) {
            row->without++;
            slack->without++;
            row->time_ns = orr__add_ns(row->time_ns, op->end_ns - op->start_ns);
        }
    }
}

static enum orr_status list_operators(const struct orr_events *events,
                                      const struct orr_memory *memory, struct orr_slack *slack) {
    size_t all = events->operator_count, count = 0;
    struct orr_slack_operator *rows = orr_memory_alloc(memory, all * sizeof *rows);
    uint32_t *order = orr_memory_alloc(memory, all * sizeof *order);
    slack->operators = orr_memory_alloc(memory, all * sizeof *slack->operators);
    enum orr_status status = rows && order && slack->operators ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        sum_operators(events, slack, rows);
        for (size_t i = 0; i < all; i++) {
            if (rows[i].count > 0) {
                order[count++] = (uint32_t)i;
            }
        }
        struct by_time context = {events, rows};
        status = orr__sort_indices(memory, order, count, comes_first, &context);
    }
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        slack->operators[slack->operator_count++] = rows[order[i]];
    }
    orr_memory_free(memory, rows);
    orr_memory_free(memory, order);
    return status;
}

static enum orr_status measure(const struct orr_events *events, const struct orr_replay *replay,
                               struct orr_slack *slack) {
    struct orr_replay_times times;
    enum orr_status status = orr_replay_times_create(replay, &times);
    if (status != ORR_OK) {
        return status;
    }
    slack->ops_ns =
        orr_memory_resize(replay->memory, NULL, (events->op_count + 1) * sizeof *slack->ops_ns);
    status = slack->ops_ns ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        orr_replay_run(replay, &replay->values, &times);
        slack->replay_error_ns = orr_replay_difference(replay, &times);
        slack->pinned = replay->pinned_ops;
        slack->op_count = events->op_count;
        slack->known = true;
        status = orr_replay_slack(replay, &replay->values, &times, slack->ops_ns);
    }
    orr_replay_times_free(replay->memory, &times);
    return status;
}

enum orr_status orr_slack_compute(const struct orr_events *events,
                                  const struct orr_timeline *timeline, size_t nodes_max,
                                  const struct orr_memory *memory, struct orr_slack *out_slack) {
    *out_slack = (struct orr_slack){0};
    bool own = strcmp(events->source.format, "orrery") == 0;
    size_t nodes = events->op_count + events->call_count;
    struct orr_replay_options options = {0};
    struct orr_replay *replay = NULL;
    struct orr_error error = {0};
    if (nodes > nodes_max) {
        return ORR_OK;
    }
    enum orr_status status =
        orr_replay_create(events, own ? timeline : NULL, &options, memory, &replay, &error);
    if (status == ORR_UNSUPPORTED) {
        return ORR_OK; /* more of something than a graph has room for: not known */
    }
    if (status == ORR_OK) {
        status = measure(events, replay, out_slack);
    }
    orr_replay_destroy(&replay);
    if (status == ORR_OK) {
        status = list_operators(events, memory, out_slack);
    }
    if (status != ORR_OK) {
        orr_slack_free(memory, out_slack);
    }
    return status;
}
