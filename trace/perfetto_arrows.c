#include "trace/perfetto_internal.h"

#include <assert.h>

/* ---------------------------------------------------------------------------------------------- */
/* Arrows */

/* Adds an arrow between two places. Nothing is drawn to or from what is not drawn; an arrow that
 * would point back in time (readers would turn it round), or one whose end found no room, is
 * counted. */
static void add_arrow(struct orr__export *export, enum orr__arrow_kind kind, uint32_t src,
                      uint32_t dst, size_t src_cmd, size_t dst_cmd) {
    if (src == ORR__NO_SLICE || dst == ORR__NO_SLICE) {
        return;
    }
    if (src == ORR__LEFT_OUT || dst == ORR__LEFT_OUT ||
        export->slices[dst].start_ns < export->slices[src].start_ns) {
        export->counts.arrows_left_out++;
        return;
    }
    export->arrows[export->arrow_count++] = (struct orr__arrow){
        .src = src,
        .dst = dst,
        .src_cmd = (uint32_t)src_cmd,
        .dst_cmd = (uint32_t)dst_cmd,
        .kind = kind,
    };
}

static bool wait_blocked(const struct orr_timeline_command *wait) {
    return wait->finish_ns > wait->start_ns;
}

/* An event joins a record and a wait: its `resume`, because the wait itself began earlier. A wait
 * that is still blocked at the end has resumed nowhere. */
static void add_event_arrow(struct orr__export *export, size_t src, size_t dst) {
    const struct orr_timeline_command *wait = &export->timeline->commands[dst];
    if (wait->kind != ORR_COMMAND_WAIT || wait->start_ns == ORR_TIME_NONE ||
        wait->finish_ns == ORR_TIME_NONE) {
        return;
    }
    if (wait_blocked(wait)) {
        add_arrow(export, ORR__ARROW_EVENT, export->command_slice[src], export->resume_slice[dst],
                  src, dst);
    } else {
        add_arrow(export, ORR__ARROW_EVENT_DONE, export->command_slice[src],
                  export->command_slice[dst], src, dst);
    }
}

static void add_edge_arrow(struct orr__export *export, const struct orr_timeline_edge *edge) {
    if (edge->kind != ORR_EDGE_EVENT && edge->kind != ORR_EDGE_ALLOCATOR) {
        return;
    }
    size_t src = orr__command_index(export->timeline, edge->src);
    size_t dst = orr__command_index(export->timeline, edge->dst);
    if (src == ORR__NO_INDEX || dst == ORR__NO_INDEX) {
        return;
    }
    if (edge->kind == ORR_EDGE_EVENT) {
        add_event_arrow(export, src, dst);
    } else {
        add_arrow(export, ORR__ARROW_REUSE, export->command_slice[src], export->command_slice[dst],
                  src, dst);
    }
}

static void add_sync_arrow(struct orr__export *export, size_t index) {
    size_t cmd = orr__command_index(export->timeline, export->timeline->syncs[index].cmd);
    if (cmd != ORR__NO_INDEX) {
        add_arrow(export, ORR__ARROW_SYNC, export->command_slice[cmd], export->synced_slice[index],
                  cmd, cmd);
    }
}

/* A host reads and writes memory itself: there the call is all there is to see. */
static bool is_by_host(const struct orr_timeline_command *command) {
    return command->kind == ORR_COMMAND_HOSTREAD || command->kind == ORR_COMMAND_HOSTWRITE;
}

static uint32_t finding_slice(const struct orr__export *export, size_t index) {
    return is_by_host(&export->timeline->commands[index]) ? export->enqueue_slice[index]
                                                          : export->command_slice[index];
}

static int64_t finding_ns(const struct orr_timeline_command *command) {
    return is_by_host(command) ? command->enqueue_ns : command->start_ns;
}

/* The two commands of a finding, whichever came first in this run: nothing orders them. */
static void add_finding_arrow(struct orr__export *export,
                              const struct orr_timeline_finding *finding) {
    const struct orr_timeline *timeline = export->timeline;
    size_t a = orr__command_index(timeline, finding->cmd_a);
    size_t b = orr__command_index(timeline, finding->cmd_b);
    if (a == ORR__NO_INDEX || b == ORR__NO_INDEX || a == b) {
        return;
    }
    bool turned = finding_ns(&timeline->commands[b]) < finding_ns(&timeline->commands[a]);
    size_t src = turned ? b : a, dst = turned ? a : b;
    add_arrow(export, ORR__ARROW_FINDING, finding_slice(export, src), finding_slice(export, dst),
              src, dst);
}

static void collect_arrows(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    for (size_t i = 0; i < timeline->command_count; i++) {
        size_t call = orr__call_of(timeline, &timeline->commands[i]);
        uint32_t src = call == ORR__NO_INDEX ? export->enqueue_slice[i] : export->call_slice[call];
        add_arrow(export, ORR__ARROW_ENQUEUE, src, export->command_slice[i], i, i);
    }
    for (size_t i = 0; i < timeline->edge_count; i++) {
        add_edge_arrow(export, &timeline->edges[i]);
    }
    for (size_t i = 0; i < timeline->sync_count; i++) {
        add_sync_arrow(export, i);
    }
    for (size_t i = 0; i < timeline->finding_count; i++) {
        add_finding_arrow(export, &timeline->findings[i]);
    }
}

/* Order of ids among arrows with one source time. Commands are compared by index, which is by id.
 * What is still equal keeps the order of the timeline. */
static int compare_arrows(const void *context, uint32_t a_index, uint32_t b_index) {
    const struct orr__export *export = context;
    const struct orr__arrow *a = &export->arrows[a_index], *b = &export->arrows[b_index];
    int64_t a_ns = export->slices[a->dst].start_ns, b_ns = export->slices[b->dst].start_ns;
    if (a_ns != b_ns) {
        return a_ns < b_ns ? -1 : 1;
    }
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    if (a->dst_cmd != b->dst_cmd) {
        return a->dst_cmd < b->dst_cmd ? -1 : 1;
    }
    return (a->src_cmd > b->src_cmd) - (a->src_cmd < b->src_cmd);
}

/* Puts the arrows in order of their ids. */
static enum orr_status sort_arrows(struct orr__export *export) {
    size_t count = export->arrow_count;
    struct orr__arrow *sorted;
    enum orr_status status = orr__export_alloc(export, &sorted, count, sizeof *sorted);
    if (status != ORR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        export->keys[i].key = (uint64_t) export->slices[export->arrows[i].src].start_ns;
        export->keys[i].index = (uint32_t)i;
    }
    orr__sort_keys(export->keys, export->scratch, count);
    orr__sort_ties(export->keys, export->scratch, count, compare_arrows, export);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = export->arrows[export->keys[i].index];
    }
    orr_memory_free(export->memory, export->arrows);
    export->arrows = sorted;
    return ORR_OK;
}

/* The order of their ends; equal times stay in order of ids. */
static void sort_ends(struct orr__export *export) {
    size_t count = export->arrow_count;
    for (size_t i = 0; i < count; i++) {
        export->keys[i].key = (uint64_t) export->slices[export->arrows[i].dst].start_ns;
        export->keys[i].index = (uint32_t)i;
    }
    orr__sort_keys(export->keys, export->scratch, count);
    for (size_t i = 0; i < count; i++) {
        export->arrow_by_end[i] = export->keys[i].index;
    }
}

enum orr_status orr__perfetto_arrows(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    size_t most = timeline->command_count + timeline->edge_count + timeline->sync_count +
                  timeline->finding_count;
    enum orr_status status =
        orr__export_alloc(export, &export->arrows, most, sizeof *export->arrows);
    if (status != ORR_OK) {
        return status;
    }
    collect_arrows(export);
    size_t count = export->arrow_count;
    assert(count <= most);
    export->counts.arrows = count;
    status = orr__export_alloc(export, &export->arrow_by_end, count, sizeof *export->arrow_by_end);
    status = status == ORR_OK ? orr__export_keys(export, count) : status;
    status = status == ORR_OK ? sort_arrows(export) : status;
    if (status == ORR_OK) {
        sort_ends(export);
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------- */
/* Counters */

const char *orr__counter_name(const struct orr_timeline_counter *counter) {
    return counter->name[0] != '\0' ? counter->name : "counter";
}

static int compare_series(const struct orr_timeline_counter *a,
                          const struct orr_timeline_counter *b) {
    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    return orr_json_text_compare(orr__counter_name(a), orr__counter_name(b));
}

/* By series, then time; rows of one moment keep the timeline's order. Names are compared as they
 * are written, because that is what a reader sees as one series. */
static int compare_points(const void *context, uint32_t a_index, uint32_t b_index) {
    const struct orr_timeline_counter *counters = context;
    const struct orr_timeline_counter *a = &counters[a_index], *b = &counters[b_index];
    int order = compare_series(a, b);
    return order != 0 ? order : (a->ts_ns > b->ts_ns) - (a->ts_ns < b->ts_ns);
}

static int compare_names(const void *context, uint32_t a, uint32_t b) {
    const struct orr_timeline_counter *counters = context;
    return compare_series(&counters[a], &counters[b]);
}

static bool is_drawn(const struct orr_timeline *timeline,
                     const struct orr_timeline_counter *counter) {
    return counter->value - counter->value == 0 && counter->ts_ns != ORR_TIME_NONE &&
           orr__device_index(timeline, counter->device) != ORR__NO_INDEX;
}

/* Keeps, of the points in export->keys[0, count), sorted by series and time, the last of each
 * moment where it differs from the value before. Returns how many. */
static size_t keep_changes(struct orr__export *export, size_t count) {
    struct orr__sort_key *keys = export->keys;
    const struct orr_timeline_counter *counters = export->timeline->counters;
    const struct orr_timeline_counter *before = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct orr_timeline_counter *here = &counters[keys[i].index];
        if (i + 1 < count && compare_points(counters, keys[i].index, keys[i + 1].index) == 0) {
            continue;
        }
        if (before && compare_series(before, here) == 0 && before->value == here->value) {
            continue;
        }
        before = here;
        keys[kept++] = keys[i];
    }
    return kept;
}

static void sort_counters(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    struct orr__sort_key *keys = export->keys;
    size_t count = 0;
    for (size_t i = 0; i < timeline->counter_count; i++) {
        if (is_drawn(timeline, &timeline->counters[i])) {
            keys[count++] = (struct orr__sort_key){.key = 0, .index = (uint32_t)i};
        }
    }
    orr__sort_ties(keys, export->scratch, count, compare_points, timeline->counters);
    count = keep_changes(export, count);
    for (size_t i = 0; i < count; i++) {
        keys[i].key = (uint64_t)(timeline->counters[keys[i].index].ts_ns - export->t0_ns);
    }
    orr__sort_keys(keys, export->scratch, count);
    orr__sort_ties(keys, export->scratch, count, compare_names, timeline->counters);
    for (size_t i = 0; i < count; i++) {
        export->counters[i] = keys[i].index;
    }
    export->counter_count = count;
    export->counts.counters = count;
}

enum orr_status orr__perfetto_counters(struct orr__export *export) {
    size_t count = export->timeline->counter_count;
    enum orr_status status =
        orr__export_alloc(export, &export->counters, count, sizeof *export->counters);
    status = status == ORR_OK ? orr__export_keys(export, count) : status;
    if (status == ORR_OK) {
        sort_counters(export);
    }
    return status;
}
