#include "cli/rank_set.h"

#include <string.h>

#include "cli/trace_name.h"
#include "trace/merge.h"

/* Traces with their models, which the ranks are found from. */
struct models {
    struct orr_ranks_input *inputs;
    struct orr_events *events;
    size_t count;
};

/* What named the traces on the command line. */
struct words {
    const char *const *paths;
    int count;
};

/* What merging takes, in the order of ranks->parts. */
struct merging {
    const struct orr_timeline **parts;
    struct orr_merge_part *how;
    struct orr_merge_collective *collectives;
    struct orr_merge_member *members;
    uint32_t *device_ranks; /* of all parts, one after the other */
};

static void free_merging(const struct orr_cli *cli, struct merging *merging) {
    orr_memory_free(cli->memory, merging->parts);
    orr_memory_free(cli->memory, merging->how);
    orr_memory_free(cli->memory, merging->collectives);
    orr_memory_free(cli->memory, merging->members);
    orr_memory_free(cli->memory, merging->device_ranks);
}

static uint64_t command_of(const struct orr_ranks_input *input, uint32_t op) {
    return input->timeline->commands[input->events->ops[op].command].id;
}

/* Collectives that one trace has whole are joined there already. */
static size_t fill_match(const struct orr_ranks *ranks, const struct orr_ranks_input *inputs,
                         struct merging *merging) {
    size_t count = 0;
    for (size_t i = 0; i < ranks->collective_count; i++) {
        const struct orr_ranks_collective *c = &ranks->collectives[i];
        if (c->how == ORR_RANKS_RECORDED)
            continue;
        merging->collectives[count++] = (struct orr_merge_collective){.kind = c->kind,
                                                                      .group = c->group,
                                                                      .seq = c->seq,
                                                                      .first = c->first,
                                                                      .count = c->count};
    }
    for (size_t i = 0; i < ranks->member_count; i++) {
        const struct orr_ranks_member *m = &ranks->members[i];
        uint32_t part = ranks->items[m->rank].part;
        const struct orr_ranks_input *input = &inputs[ranks->parts[part].input];
        merging->members[i] = (struct orr_merge_member){part, command_of(input, m->op)};
    }
    return count;
}

/* The rank of each device of a part: of the one that communicates on it, else the part's first. */
static void fill_devices(const struct orr_ranks *ranks, size_t part,
                         const struct orr_timeline *timeline, uint32_t *device_ranks) {
    for (size_t d = 0; d < timeline->device_count; d++)
        device_ranks[d] = ranks->parts[part].rank;
    for (size_t i = ranks->count; i > 0; i--) {
        const struct orr_rank *r = &ranks->items[i - 1];
        const struct orr_timeline_device *device = r->part == part && r->device != ORR_ID_NONE
                                                       ? orr_timeline_device(timeline, r->device)
                                                       : NULL;
        if (device)
            device_ranks[device - timeline->devices] = r->rank;
    }
}

static void fill_parts(const struct orr_ranks *ranks, const struct orr_ranks_input *inputs,
                       struct merging *m) {
    size_t device = 0;
    for (size_t p = 0; p < ranks->part_count; p++) {
        m->parts[p] = inputs[ranks->parts[p].input].timeline;
        m->how[p] = (struct orr_merge_part){.rank = ranks->parts[p].rank,
                                            .offset_ns = orr_ranks_shift(ranks, &ranks->parts[p]),
                                            .device_ranks = m->device_ranks + device};
        fill_devices(ranks, p, m->parts[p], m->device_ranks + device);
        device += m->parts[p]->device_count;
    }
}

static enum orr_status merge(const struct orr_cli *cli, const struct orr_ranks *ranks,
                             const struct orr_ranks_input *inputs,
                             struct orr_timeline **out_timeline, struct orr_error *error) {
    const struct orr_memory *memory = cli->memory;
    size_t count = ranks->part_count;
    struct merging m = {
        .parts = orr_memory_alloc(memory, count * sizeof *m.parts),
        .how = orr_memory_alloc(memory, count * sizeof *m.how),
        .collectives =
            orr_memory_alloc(memory, ranks->collective_count * sizeof *m.collectives + 1),
        .members = orr_memory_alloc(memory, ranks->member_count * sizeof *m.members + 1)};
    size_t devices = 1;
    for (size_t p = 0; p < count; p++)
        devices += inputs[p].timeline->device_count;
    m.device_ranks = orr_memory_alloc(memory, devices * sizeof *m.device_ranks);
    enum orr_status status;
    if (!m.parts || !m.how || !m.collectives || !m.members || !m.device_ranks) {
        status = orr_error_set(error, ORR_NO_MEMORY, "no memory to join %zu traces", count);
    } else {
        fill_parts(ranks, inputs, &m);
        struct orr_merge_match match = {
            .collectives = m.collectives,
            .members = m.members,
            .collective_count = fill_match(ranks, inputs, &m),
            .member_count = ranks->member_count,
            .world_size = (uint32_t)(ranks->world_size < UINT32_MAX ? ranks->world_size : 0)};
        status = orr_timeline_merge(m.parts, m.how, count, &match, memory, out_timeline, error);
    }
    free_merging(cli, &m);
    return status;
}

/* -- Joining without analysing ----------------------------------------------------------------- */

static void free_models(const struct orr_cli *cli, struct models *models) {
    for (size_t i = 0; i < models->count; i++)
        orr_events_free(&models->events[i]);
    orr_memory_free(cli->memory, models->events);
    orr_memory_free(cli->memory, models->inputs);
}

static enum orr_status make_models(const struct orr_cli *cli, const struct orr_traces *traces,
                                   struct models *models, struct orr_error *error) {
    models->inputs = orr_memory_alloc(cli->memory, traces->count * sizeof *models->inputs);
    models->events = orr_memory_alloc(cli->memory, traces->count * sizeof *models->events);
    if (!models->inputs || !models->events)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory to join %zu traces", traces->count);
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < traces->count && status == ORR_OK; i++) {
        models->inputs[i] = (struct orr_ranks_input){traces->items[i].timeline, &models->events[i],
                                                     traces->items[i].name};
        status = orr_events_from_timeline(traces->items[i].timeline, cli->memory,
                                          &models->events[i], error);
        models->count += status == ORR_OK;
    }
    return status;
}

enum orr_status orr_cli_join_traces(const struct orr_cli *cli, const struct orr_traces *traces,
                                    struct orr_timeline **out_timeline, struct orr_error *error) {
    struct models models = {0};
    struct orr_ranks ranks = {0};
    *out_timeline = NULL;
    enum orr_status status = make_models(cli, traces, &models, error);
    if (status == ORR_OK)
        status = orr_ranks_compute(models.inputs, models.count, cli->memory, &ranks, error);
    if (status == ORR_OK)
        status = merge(cli, &ranks, models.inputs, out_timeline, error);
    orr_ranks_free(cli->memory, &ranks);
    free_models(cli, &models);
    return status;
}

/* -- Analysing --------------------------------------------------------------------------------- */

/* Each trace alone, in the order of the inputs first; in that of the ranks when they are known. */
static enum orr_status analyze_each(const struct orr_cli *cli, const struct orr_traces *traces,
                                    const struct words *words,
                                    const struct orr_analysis_options *options,
                                    struct orr_ranks_input *inputs, struct orr_cli_rank_set *set,
                                    struct orr_error *error) {
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < traces->count && status == ORR_OK; i++) {
        struct orr_analysis_options own = *options;
        own.file = traces->items[i].name;
        own.name = orr_cli_trace_name(words->paths, words->count, traces->items[i].name);
        status = orr_analyze(traces->items[i].timeline, &own, cli->memory, &set->each[i], error);
        if (status == ORR_OK) {
            inputs[i] = (struct orr_ranks_input){traces->items[i].timeline, &set->each[i]->events,
                                                 traces->items[i].name};
            set->count++;
        }
    }
    return status;
}

static enum orr_status order_each(const struct orr_cli *cli, struct orr_cli_rank_set *set) {
    struct orr_analysis **sorted = orr_memory_alloc(cli->memory, set->count * sizeof *sorted);
    if (!sorted)
        return ORR_NO_MEMORY;
    for (size_t p = 0; p < set->count; p++)
        sorted[p] = set->each[set->ranks.parts[p].input];
    memcpy(set->each, sorted, set->count * sizeof *sorted);
    orr_memory_free(cli->memory, sorted);
    return ORR_OK;
}

static enum orr_status explain(const struct orr_cli *cli, const struct orr_traces *traces,
                               const struct words *words,
                               const struct orr_analysis_options *options,
                               struct orr_ranks_input *inputs, struct orr_cli_rank_set *set,
                               struct orr_error *error) {
    enum orr_status status = analyze_each(cli, traces, words, options, inputs, set, error);
    if (status == ORR_OK)
        status = orr_ranks_compute(inputs, set->count, cli->memory, &set->ranks, error);
    if (status == ORR_OK)
        status = orr_rank_set_compute(inputs, &set->ranks, cli->memory, &set->exact);
    if (status == ORR_OK)
        status = merge(cli, &set->ranks, inputs, &set->timeline, error);
    if (status == ORR_OK)
        status = orr_analyze(set->timeline, options, cli->memory, &set->whole, error);
    if (status == ORR_OK)
        status = order_each(cli, set);
    return status;
}

enum orr_status orr_cli_rank_set_make(const struct orr_cli *cli, const struct orr_traces *traces,
                                      const char *const *paths, int path_count,
                                      const struct orr_analysis_options *options,
                                      struct orr_cli_rank_set *out_set, struct orr_error *error) {
    struct orr_cli_rank_set *set = out_set;
    struct words words = {paths, path_count};
    *set = (struct orr_cli_rank_set){0};
    set->each = orr_memory_alloc(cli->memory, traces->count * sizeof *set->each);
    struct orr_ranks_input *inputs = orr_memory_alloc(cli->memory, traces->count * sizeof *inputs);
    enum orr_status status = set->each && inputs
                                 ? explain(cli, traces, &words, options, inputs, set, error)
                                 : ORR_NO_MEMORY;
    orr_memory_free(cli->memory, inputs);
    if (status != ORR_OK) {
        orr_cli_rank_set_free(cli, set);
        return orr_error_set(error, status, "no memory to analyze %zu traces", traces->count);
    }
    set->report = (struct orr_report_set){.memory = cli->memory,
                                          .file = options->file,
                                          .ranks = &set->ranks,
                                          .exact = &set->exact,
                                          .whole = set->whole,
                                          .each = (const struct orr_analysis *const *)set->each,
                                          .count = set->count};
    return ORR_OK;
}

void orr_cli_rank_set_free(const struct orr_cli *cli, struct orr_cli_rank_set *set) {
    orr_analysis_destroy(&set->whole);
    orr_timeline_destroy(&set->timeline);
    for (size_t i = 0; i < set->count; i++)
        orr_analysis_destroy(&set->each[i]);
    orr_memory_free(cli->memory, set->each);
    orr_rank_set_free(cli->memory, &set->exact);
    orr_ranks_free(cli->memory, &set->ranks);
    *set = (struct orr_cli_rank_set){0};
}
