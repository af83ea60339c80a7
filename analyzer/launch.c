#include "analyzer/launch.h"

#include <assert.h>
#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

__extension__ typedef __int128 wide;

const char *orr_graph_reason_text(enum orr_graph_reason reason) {
    static const char *const texts[] = {
#define ORR_GRAPH_REASON_TEXT(name, text) text,
        ORR_GRAPH_REASON_LIST(ORR_GRAPH_REASON_TEXT)
#undef ORR_GRAPH_REASON_TEXT
    };
    return reason < ORR_GRAPH_REASON_COUNT ? texts[reason] : "";
}

bool orr__share_reaches(int64_t part, unsigned percent, int64_t whole) {
    return (wide)part * 100 >= (wide)whole * percent;
}

bool orr__share_exceeds(int64_t part, unsigned percent, int64_t whole) {
    return (wide)part * 100 > (wide)whole * percent;
}

/* ------------------------------------------------------------------------------------------------
 * The feeding thread and its calls */

/* Distinct calls that own an op of the device, in any order; owned by the caller. */
struct call_list {
    uint32_t *calls;
    size_t count;
};

static enum orr_status list_calls(const struct orr_events *events, uint32_t device,
                                  struct orr_launch_scratch *scratch,
                                  const struct orr_memory *memory, struct call_list *list) {
    size_t first = events->device_first[device], end = events->device_first[device + 1];
    list->calls = orr_memory_resize(memory, NULL, (end - first) * sizeof *list->calls);
    if (!list->calls) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = first; i < end; i++) {
        uint32_t call = events->ops[events->device_order[i]].call;
        if (call != ORR_EVENTS_NONE && scratch->seen_by[call] != device + 1) {
            scratch->seen_by[call] = device + 1;
            list->calls[list->count++] = call;
        }
    }
    return ORR_OK;
}

/* Thread with most calls of the list; of equals the one whose label is first in text. */
static void choose_thread(const struct orr_events *events, const struct call_list *list,
                          struct orr_launch_scratch *scratch, struct orr_launch *launch) {
    for (size_t i = 0; i < list->count; i++) {
        scratch->counts[events->calls[list->calls[i]].thread]++;
    }
    for (size_t i = 0; i < list->count; i++) {
        uint32_t thread = events->calls[list->calls[i]].thread;
        size_t calls = scratch->counts[thread];
        scratch->counts[thread] = 0; /* looked at once, and zero again for the next device */
        bool first_in_text =
            launch->thread != ORR_EVENTS_NONE && calls > 0 && calls == launch->feed_calls &&
            strcmp(events->threads[thread].label, events->threads[launch->thread].label) < 0;
        if (calls > launch->feed_calls || first_in_text) {
            launch->thread = thread;
            launch->feed_calls = calls;
        }
    }
}

static enum orr_status measure_calls(const struct orr_events *events, const struct call_list *list,
                                     struct orr_launch *launch) {
    launch->calls = list->count;
    launch->feed_starts =
        orr_memory_resize(launch->memory, NULL, list->count * sizeof *launch->feed_starts);
    int64_t *times = orr_memory_resize(launch->memory, NULL, list->count * sizeof *times);
    enum orr_status status = launch->feed_starts && times ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < list->count && status == ORR_OK; i++) {
        const struct orr_events_call *call = &events->calls[list->calls[i]];
        times[i] = call->end_ns - call->begin_ns;
        launch->sum_ns = orr__add_ns(launch->sum_ns, times[i]);
        if (call->thread == launch->thread) {
            launch->feed_starts[launch->feed_start_count++] = call->begin_ns;
        }
    }
    if (status == ORR_OK) {
        status = orr__sort_times(launch->memory, times, list->count);
    }
    if (status == ORR_OK && list->count > 0) {
        launch->median_ns = orr__sorted_median(times, list->count);
        launch->p95_ns = orr__sorted_p95(times, list->count);
        status = orr__sort_times(launch->memory, launch->feed_starts, launch->feed_start_count);
    }
    orr_memory_free(launch->memory, times);
    return status;
}

static bool breaks(const struct orr_events_call *call) {
    return call->flags & (ORR_CALL_WAITING | ORR_CALL_BREAKING);
}

/* Begins of the calls that break, by thread, once for all devices: the thread of a single
 * controller feeds every one of them. */
static enum orr_status list_breaking(const struct orr_events *events,
                                     const struct orr_memory *memory,
                                     struct orr_launch_scratch *scratch) {
    size_t count = 0;
    for (size_t i = 0; i < events->call_count; i++) {
        count += breaks(&events->calls[i]);
    }
    scratch->breaking = orr_memory_resize(memory, NULL, count * sizeof *scratch->breaking);
    scratch->breaking_first =
        orr_memory_alloc(memory, (events->thread_count + 1) * sizeof *scratch->breaking_first);
    if (!scratch->breaking || !scratch->breaking_first) {
        return ORR_NO_MEMORY;
    }
    count = 0;
    for (size_t t = 0; t < events->thread_count; t++) {
        for (size_t i = events->thread_first[t]; i < events->thread_first[t + 1]; i++) {
            const struct orr_events_call *call = &events->calls[events->thread_order[i]];
            if (breaks(call)) {
                scratch->breaking[count++] = call->begin_ns;
            }
        }
        scratch->breaking_first[t + 1] = count;
    }
    return ORR_OK;
}

static void borrow_breaking(const struct orr_launch_scratch *scratch, struct orr_launch *launch) {
    if (launch->thread != ORR_EVENTS_NONE) {
        size_t first = scratch->breaking_first[launch->thread];
        launch->breaking = scratch->breaking + first;
        launch->breaking_count = scratch->breaking_first[launch->thread + 1] - first;
    }
}

enum orr_status orr_launch_scratch_create(const struct orr_events *events,
                                          const struct orr_memory *memory,
                                          struct orr_launch_scratch *out_scratch) {
    *out_scratch = (struct orr_launch_scratch){
        .seen_by = orr_memory_alloc(memory, events->call_count * sizeof(uint32_t)),
        .counts = orr_memory_alloc(memory, events->thread_count * sizeof(size_t))};
    bool all = out_scratch->seen_by && out_scratch->counts;
    enum orr_status status = all ? list_breaking(events, memory, out_scratch) : ORR_NO_MEMORY;
    if (status != ORR_OK) {
        orr_launch_scratch_free(memory, out_scratch);
    }
    return status;
}

void orr_launch_scratch_free(const struct orr_memory *memory, struct orr_launch_scratch *scratch) {
    orr_memory_free(memory, scratch->seen_by);
    orr_memory_free(memory, scratch->counts);
    orr_memory_free(memory, scratch->breaking);
    orr_memory_free(memory, scratch->breaking_first);
    *scratch = (struct orr_launch_scratch){0};
}

enum orr_status orr_launch_begin(struct orr_launch *launch, const struct orr_events *events,
                                 uint32_t device, struct orr_launch_scratch *scratch,
                                 const struct orr_memory *memory) {
    *launch = (struct orr_launch){.thread = ORR_EVENTS_NONE, .events = events, .memory = memory};
    struct call_list list = {0};
    enum orr_status status = list_calls(events, device, scratch, memory, &list);
    if (status == ORR_OK) {
        choose_thread(events, &list, scratch, launch);
        status = measure_calls(events, &list, launch);
    }
    borrow_breaking(scratch, launch);
    orr_memory_free(memory, list.calls);
    if (status != ORR_OK) {
        orr_launch_free(memory, launch);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Gaps */

/* Number of sorted values below `limit`. */
static size_t count_below(const int64_t *values, size_t count, int64_t limit) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static enum orr_graph_reason graph_reason(const struct orr_launch *launch,
                                          const struct orr_gap *gap) {
    const struct orr_events *events = launch->events;
    const struct orr_events_op *op = &events->ops[gap->op];
    const struct orr_events_op *previous =
        gap->previous == ORR_EVENTS_NONE ? NULL : &events->ops[gap->previous];
    if (!previous || !orr_events_linked(op) || !orr_events_linked(previous) ||
        orr_events_early(events, op) || orr_events_early(events, previous)) {
        return ORR_GRAPH_REASON_UNLINKED;
    }
    const struct orr_events_call *call = &events->calls[op->call];
    const struct orr_events_call *before = &events->calls[previous->call];
    if (call->thread != launch->thread || before->thread != launch->thread) {
        return ORR_GRAPH_REASON_THREAD;
    }
    if ((call->flags | before->flags) & ORR_CALL_GRAPH) {
        return ORR_GRAPH_REASON_GRAPH;
    }
    size_t until = count_below(launch->breaking, launch->breaking_count, call->begin_ns);
    size_t from = count_below(launch->breaking, launch->breaking_count, before->begin_ns);
    return until > from ? ORR_GRAPH_REASON_BREAKING : ORR_GRAPH_REASON_ELIGIBLE;
}

static void note(struct orr_launch *launch, enum orr_status status) {
    launch->status = launch->status == ORR_OK ? status : launch->status;
}

static void add_graph_gap(struct orr_launch *launch, const struct orr_gap *gap) {
    int64_t part = gap->classes[ORR_CLASS_HOST_LAUNCH] + gap->classes[ORR_CLASS_HOST_OTHER] +
                   gap->classes[ORR_CLASS_DISPATCH];
    enum orr_graph_reason reason = graph_reason(launch, gap);
    launch->graph_gap_counts[reason]++;
    launch->graph_gap_times[reason] += part;
    if (reason != ORR_GRAPH_REASON_ELIGIBLE) {
        return;
    }
    launch->graph_gaps++;
    launch->graph_gap_ns += part;
    enum orr_status status =
        orr_memory_grow(launch->memory, &launch->pairs, &launch->pair_capacity,
                        launch->pair_count + 1, sizeof *launch->pairs, ORR_EVENTS_NONE - 1);
    note(launch, status);
    if (status == ORR_OK) {
        const struct orr_events_op *ops = launch->events->ops;
        launch->pairs[launch->pair_count++] = (struct orr_launch_pair){
            ops[gap->previous].operator_index, ops[gap->op].operator_index, part};
    }
}

void orr_launch_add_gap(struct orr_launch *launch, const struct orr_gap *gap) {
    add_graph_gap(launch, gap);
    const struct orr_events_op *op = &launch->events->ops[gap->op];
    if (gap->host_ns == 0 || launch->events->calls[op->call].thread != launch->thread) {
        return;
    }
    assert(launch->gap_end_count == 0 ||
           launch->gap_ends[launch->gap_end_count - 1] <= gap->end_ns);
    enum orr_status status =
        orr_memory_grow(launch->memory, &launch->gap_ends, &launch->gap_end_capacity,
                        launch->gap_end_count + 1, sizeof *launch->gap_ends, ORR_EVENTS_NONE - 1);
    note(launch, status);
    if (status == ORR_OK) {
        launch->gap_ends[launch->gap_end_count++] = gap->end_ns;
    }
}

static bool pair_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_launch_pair *pairs = context;
    return pairs[a].first != pairs[b].first ? pairs[a].first < pairs[b].first
                                            : pairs[a].second < pairs[b].second;
}

/* Time of eligible gaps between operators that follow each other at least twice. */
static enum orr_status sum_repeated(struct orr_launch *launch) {
    size_t count = launch->pair_count;
    uint32_t *order = orr_memory_resize(launch->memory, NULL, count * sizeof *order);
    if (!order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    enum orr_status status =
        orr__sort_indices(launch->memory, order, count, pair_before, launch->pairs);
    for (size_t begin = 0, end; begin < count && status == ORR_OK; begin = end) {
        int64_t sum = 0;
        for (end = begin; end < count && !pair_before(launch->pairs, order[begin], order[end]);
             end++) {
            sum += launch->pairs[order[end]].ns;
        }
        launch->graph_repeated_ns += end - begin >= 2 ? sum : 0;
    }
    orr_memory_free(launch->memory, order);
    return status;
}

enum orr_status orr_launch_finish(struct orr_launch *launch) {
    enum orr_status status = launch->status;
    if (status == ORR_OK) {
        status = sum_repeated(launch);
    }
    orr_memory_free(launch->memory, launch->pairs);
    launch->pairs = NULL;
    launch->breaking = NULL;
    return status;
}

void orr_launch_free(const struct orr_memory *memory, struct orr_launch *launch) {
    orr_memory_free(memory, launch->pairs);
    orr_memory_free(memory, launch->feed_starts);
    orr_memory_free(memory, launch->gap_ends);
    *launch = (struct orr_launch){.thread = ORR_EVENTS_NONE};
}

/* ------------------------------------------------------------------------------------------------
 * The answer */

/* Median of the differences of successive sorted times. */
static enum orr_status period(const struct orr_memory *memory, const int64_t *times, size_t begin,
                              size_t end, bool *out_has, int64_t *out_period) {
    size_t count = end - begin;
    *out_has = count >= 2;
    *out_period = 0;
    if (count < 2) {
        return ORR_OK;
    }
    times += begin;
    int64_t *steps = orr_memory_resize(memory, NULL, (count - 1) * sizeof *steps);
    if (!steps) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 1; i < count; i++) {
        steps[i - 1] = times[i] - times[i - 1];
    }
    enum orr_status status = orr__sort_times(memory, steps, count - 1);
    if (status == ORR_OK) {
        *out_period = orr__sorted_median(steps, count - 1);
    }
    orr_memory_free(memory, steps);
    return status;
}

static enum orr_answer answer(const struct orr_launch_terms *terms,
                              const struct orr_analysis_options *options) {
    if (!orr__share_reaches(terms->host_ns, options->host_percent, terms->window_ns)) {
        return ORR_ANSWER_NO;
    }
    if (terms->feed_gaps < options->launch_gaps_min || !terms->has_launch_period ||
        !terms->has_gap_period) {
        return ORR_ANSWER_UNKNOWN;
    }
    int64_t difference = terms->gap_period_ns - terms->launch_period_ns;
    difference = difference < 0 ? -difference : difference;
    /* |Pg - Pl| <= 25 % of Pl */
    bool alike = (wide)difference * 100 <= (wide)terms->launch_period_ns * options->period_percent;
    return alike ? ORR_ANSWER_YES : ORR_ANSWER_NO;
}

enum orr_status orr_launch_judge(const struct orr_launch *launch,
                                 const struct orr_analysis_options *options, bool whole,
                                 int64_t begin_ns, int64_t end_ns, int64_t window_ns,
                                 int64_t host_ns, struct orr_launch_terms *out_terms) {
    size_t starts = 0, starts_end = launch->feed_start_count;
    size_t gaps = 0, gaps_end = launch->gap_end_count;
    if (!whole) {
        starts = count_below(launch->feed_starts, launch->feed_start_count, begin_ns);
        starts_end = count_below(launch->feed_starts, launch->feed_start_count, end_ns);
        gaps = count_below(launch->gap_ends, launch->gap_end_count, begin_ns + 1);
        gaps_end = count_below(launch->gap_ends, launch->gap_end_count, end_ns + 1);
    }
    *out_terms = (struct orr_launch_terms){
        .host_ns = host_ns, .window_ns = window_ns, .feed_gaps = gaps_end - gaps};
    enum orr_status status = period(launch->memory, launch->feed_starts, starts, starts_end,
                                    &out_terms->has_launch_period, &out_terms->launch_period_ns);
    if (status == ORR_OK) {
        status = period(launch->memory, launch->gap_ends, gaps, gaps_end,
                        &out_terms->has_gap_period, &out_terms->gap_period_ns);
    }
    out_terms->bound = answer(out_terms, options);
    return status;
}
