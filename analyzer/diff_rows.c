/* Rows of work, calls and ranges on both sides, aligned by what they are called. See diff.h.
 *
 * Each side makes a list of entries, one for every op, call or range that lies in a unit; sorted by
 * (row, duration) they are samples ready for quartiles and the rank test. Rows of both sides are
 * sorted by their texts and merged. */
#include <string.h>

#include "analyzer/diff_internal.h"
#include "analyzer/rank_test.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

enum { ROLES = ORR_ACTIVITY_COPY + 1 };

/* One op, call or range. */
struct entry {
    int64_t duration_ns;
    uint32_t row, unit; /* unit ORR__UNIT_NONE: only the sum over all units is known */
};

/* One row of one side: entries [first, first + count). */
struct row {
    const char *name, *shape, *kind;
    const struct orr_events_operator *operator; /* of work, NULL else */
    enum orr_activity role;
    bool waiting;
    size_t first, count;
    int64_t sum_ns;
    bool taken; /* aligned */
};

struct table {
    const struct orr__diff_part *part;
    enum orr_diff_sort sort;
    struct entry *entries; /* owned, as are these */
    size_t entry_count, entry_capacity;
    struct row *rows;
    size_t row_count, row_capacity;
    int64_t *durations; /* of the entries in their order */
};

static void free_table(struct table *t) {
    orr_memory_free(t->part->memory, t->entries);
    orr_memory_free(t->part->memory, t->rows);
    orr_memory_free(t->part->memory, t->durations);
}

static enum orr_status add_entry(struct table *t, uint32_t row, uint32_t unit, int64_t duration) {
    enum orr_status status =
        orr_memory_grow(t->part->memory, &t->entries, &t->entry_capacity, t->entry_count + 1,
                        sizeof *t->entries, UINT32_MAX - 1);
    if (status == ORR_OK) {
        t->entries[t->entry_count++] = (struct entry){duration, row, unit};
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Texts of rows */

static int compare_texts(const char *a, const char *b) {
    return a == b ? 0 : strcmp(a, b);
}

int orr__diff_compare_operators(const struct orr_events_operator *a,
                                const struct orr_events_operator *b) {
    int order = compare_texts(a->name, b->name);
    if (order == 0) {
        order = compare_texts(a->kind, b->kind);
    }
    if (order == 0) {
        order = compare_texts(a->shape, b->shape);
    }
    if (order == 0 && a->dtype != b->dtype) {
        order = a->dtype < b->dtype ? -1 : 1;
    }
    return order != 0 ? order : a->unit == b->unit ? 0 : a->unit < b->unit ? -1 : 1;
}

/* By name and role only: what may be one row whose shape has changed. */
static int compare_names(const struct row *a, const struct row *b) {
    int order = compare_texts(a->name, b->name);
    if (order == 0) {
        order = compare_texts(a->kind, b->kind);
    }
    return order != 0 ? order : a->role == b->role ? 0 : a->role < b->role ? -1 : 1;
}

static int compare_rows(const struct row *a, const struct row *b) {
    int order = compare_names(a, b);
    if (order != 0 || !a->operator|| !b->operator) {
        return order;
    }
    return orr__diff_compare_operators(a->operator, b->operator);
}

/* ------------------------------------------------------------------------------------------------
 * Entries of one side */

static enum orr_status gather_work(struct table *t) {
    const struct orr_events *events = &t->part->analysis->events;
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        uint32_t unit = t->part->unit_of[i];
        if (unit == ORR__UNIT_NONE) {
            continue;
        }
        uint32_t row = op->operator_index * ROLES + (uint32_t)t->part->roles[op->stream];
        enum orr_status status = add_entry(t, row, unit, op->end_ns - op->start_ns);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

/* Does host time `at` of a thread lie in the units of the device that its process feeds? With
 * steps, in a step that is a unit. */
static bool in_units(const struct orr__diff_part *part, enum orr_diff_unit by, uint32_t thread,
                     int64_t at) {
    uint32_t place = part->feeds[thread];
    if (place == ORR__UNIT_NONE || orr__diff_units_of(part, place) == 0) {
        return false;
    }
    if (by == ORR_DIFF_UNIT_STEP) {
        uint32_t step =
            orr_steps_at(&part->steps, part->analysis->events.threads[thread].process, at);
        return step != ORR_STEP_NONE && part->used_step[step];
    }
    return by == ORR_DIFF_UNIT_RUN || (at >= part->edges[part->edge_first[place]] &&
                                       at < part->edges[part->edge_first[place + 1] - 1]);
}

/* Calls: the row is that of the first call with the name, until names are compared. */
static enum orr_status gather_calls(struct table *t, enum orr_diff_unit by) {
    const struct orr_events *events = &t->part->analysis->events;
    if (strcmp(events->source.format, "orrery") == 0) {
        return ORR_OK;
    }
    for (size_t i = 0; i < events->call_count; i++) {
        const struct orr_events_call *call = &events->calls[i];
        if (!in_units(t->part, by, call->thread, call->begin_ns)) {
            continue;
        }
        enum orr_status status =
            add_entry(t, (uint32_t)i, ORR__UNIT_NONE, call->end_ns - call->begin_ns);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

static bool is_range(const struct orr_timeline_slice *slice) {
    return slice->host != ORR_ID_NONE && slice->end_ns >= slice->begin_ns &&
           slice->begin_ns != ORR_TIME_NONE &&
           (slice->kind == ORR_SLICE_ANNOTATION || slice->kind == ORR_SLICE_OPERATOR);
}

/* A step itself is the unit, and has another name each time. */
static bool is_step(const struct orr__diff_part *part, const struct orr_timeline_slice *slice,
                    uint64_t process) {
    uint32_t step = orr_steps_at(&part->steps, process, slice->begin_ns);
    return step != ORR_STEP_NONE && part->steps.items[step].begin_ns == slice->begin_ns &&
           strcmp(part->steps.items[step].name, slice->name) == 0;
}

static enum orr_status gather_ranges(struct table *t, enum orr_diff_unit by) {
    const struct orr_timeline *timeline = t->part->analysis->timeline;
    for (size_t i = 0; i < timeline->slice_count; i++) {
        const struct orr_timeline_slice *slice = &timeline->slices[i];
        const struct orr_timeline_host *host =
            is_range(slice) ? orr_timeline_host(timeline, slice->host) : NULL;
        int64_t duration;
        if (!host || !in_units(t->part, by, (uint32_t)(host - timeline->hosts), slice->begin_ns) ||
            is_step(t->part, slice, host->process) ||
            __builtin_sub_overflow(slice->end_ns, slice->begin_ns, &duration)) {
            continue;
        }
        enum orr_status status = add_entry(t, (uint32_t)i, ORR__UNIT_NONE, duration);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}

static struct row describe(const struct table *t, uint32_t row) {
    const struct orr_events *events = &t->part->analysis->events;
    switch (t->sort) {
    case ORR_DIFF_SORT_WORK: {
        const struct orr_events_operator *o = &events->operators[row / ROLES];
        return (struct row){.name = o->name,
                            .shape = o->shape,
                            .kind = o->kind,
                            .operator= o,
                            .role = (enum orr_activity)(row % ROLES)};
    }
    case ORR_DIFF_SORT_CALL:
        return (struct row){.name = events->calls[row].name,
                            .shape = "",
                            .kind = "",
                            .waiting = (events->calls[row].flags & ORR_CALL_WAITING) != 0};
    default:
        return (struct row){
            .name = t->part->analysis->timeline->slices[row].name, .shape = "", .kind = ""};
    }
}

/* ------------------------------------------------------------------------------------------------
 * From entries to rows */

static bool entry_before(const void *context, uint32_t a, uint32_t b) {
    const struct table *t = context;
    const struct entry *x = &t->entries[a], *y = &t->entries[b];
    return x->row != y->row ? x->row < y->row : x->duration_ns < y->duration_ns;
}

/* Sorts calls' and ranges' entries by the text of their names, and gives equal ones the first
 * one's row. */
static bool name_before(const void *context, uint32_t a, uint32_t b) {
    const struct table *t = context;
    return compare_texts(describe(t, t->entries[a].row).name, describe(t, t->entries[b].row).name) <
           0;
}

static enum orr_status sort_entries(struct table *t,
                                    bool (*before)(const void *context, uint32_t a, uint32_t b)) {
    const struct orr_memory *m = t->part->memory;
    uint32_t *order = orr_memory_resize(m, NULL, (t->entry_count + 1) * sizeof *order);
    struct entry *sorted = orr_memory_resize(m, NULL, (t->entry_count + 1) * sizeof *sorted);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < t->entry_count; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(m, order, t->entry_count, before, t);
    }
    for (size_t i = 0; status == ORR_OK && i < t->entry_count; i++) {
        sorted[i] = t->entries[order[i]];
    }
    orr_memory_free(m, order);
    orr_memory_free(m, status == ORR_OK ? t->entries : sorted);
    if (status == ORR_OK) {
        t->entries = sorted;
        t->entry_capacity = t->entry_count + 1;
    }
    return status;
}

static enum orr_status join_names(struct table *t) {
    enum orr_status status = sort_entries(t, name_before);
    for (size_t i = 1; status == ORR_OK && i < t->entry_count; i++) {
        const char *before = describe(t, t->entries[i - 1].row).name;
        if (compare_texts(before, describe(t, t->entries[i].row).name) == 0) {
            t->entries[i].row = t->entries[i - 1].row;
        }
    }
    return status;
}

static enum orr_status make_rows(struct table *t) {
    for (size_t first = 0, end; first < t->entry_count; first = end) {
        struct row row = describe(t, t->entries[first].row);
        row.first = first;
        for (end = first; end < t->entry_count && t->entries[end].row == t->entries[first].row;
             end++) {
            row.sum_ns = orr__add_ns(row.sum_ns, t->entries[end].duration_ns);
            t->durations[end] = t->entries[end].duration_ns;
        }
        row.count = end - first;
        enum orr_status status = orr_memory_grow(t->part->memory, &t->rows, &t->row_capacity,
                                                 t->row_count + 1, sizeof row, UINT32_MAX);
        if (status != ORR_OK) {
            return status;
        }
        t->rows[t->row_count++] = row;
    }
    return ORR_OK;
}

static bool row_before(const void *context, uint32_t a, uint32_t b) {
    const struct table *t = context;
    return compare_rows(&t->rows[a], &t->rows[b]) < 0;
}

static enum orr_status sort_rows(struct table *t) {
    const struct orr_memory *m = t->part->memory;
    uint32_t *order = orr_memory_resize(m, NULL, (t->row_count + 1) * sizeof *order);
    struct row *sorted = orr_memory_resize(m, NULL, (t->row_count + 1) * sizeof *sorted);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < t->row_count; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(m, order, t->row_count, row_before, t);
    }
    for (size_t i = 0; status == ORR_OK && i < t->row_count; i++) {
        sorted[i] = t->rows[order[i]];
    }
    orr_memory_free(m, order);
    orr_memory_free(m, status == ORR_OK ? t->rows : sorted);
    if (status == ORR_OK) {
        t->rows = sorted;
        t->row_capacity = t->row_count + 1;
    }
    return status;
}

static enum orr_status make_table(const struct orr__diff_part *part, enum orr_diff_sort sort,
                                  enum orr_diff_unit by, struct table *out_table) {
    *out_table = (struct table){.part = part, .sort = sort};
    enum orr_status status = sort == ORR_DIFF_SORT_WORK   ? gather_work(out_table)
                             : sort == ORR_DIFF_SORT_CALL ? gather_calls(out_table, by)
                                                          : gather_ranges(out_table, by);
    if (status == ORR_OK && sort != ORR_DIFF_SORT_WORK) {
        status = join_names(out_table);
    }
    if (status == ORR_OK) {
        status = sort_entries(out_table, entry_before);
    }
    if (status == ORR_OK) {
        out_table->durations =
            orr_memory_alloc(part->memory, out_table->entry_count * sizeof *out_table->durations);
        status = out_table->durations ? make_rows(out_table) : ORR_NO_MEMORY;
    }
    return status == ORR_OK ? sort_rows(out_table) : status;
}

/* ------------------------------------------------------------------------------------------------
 * Comparing */

/* Rows of one side that make one side of a row: one, or several of one name. */
struct group {
    const struct table *table;
    const struct row *rows;
    size_t count;
    int64_t *values; /* durations, sorted; owned if there are several rows */
    bool owned;
    size_t value_count;
};

static enum orr_status gather_values(struct group *g) {
    if (g->count <= 1) {
        g->value_count = g->count ? g->rows->count : 0;
        g->values = g->count ? g->table->durations + g->rows->first : NULL;
        return ORR_OK;
    }
    for (size_t r = 0; r < g->count; r++) {
        g->value_count += g->rows[r].count;
    }
    const struct orr_memory *m = g->table->part->memory;
    g->values = orr_memory_alloc(m, g->value_count * sizeof *g->values);
    g->owned = true;
    if (!g->values) {
        return ORR_NO_MEMORY;
    }
    size_t at = 0;
    for (size_t r = 0; r < g->count; r++) {
        memcpy(g->values + at, g->table->durations + g->rows[r].first,
               g->rows[r].count * sizeof *g->values);
        at += g->rows[r].count;
    }
    return orr__sort_times(m, g->values, g->value_count);
}

/* The ceil(part * n / 4)-th smallest value. */
static int64_t quartile(const int64_t *values, size_t count, size_t part) {
    return count == 0 ? 0 : values[(part * count + 3) / 4 - 1];
}

static struct orr_diff_side side_of(const struct group *g, enum orr_diff_unit by) {
    struct orr_diff_side side = {.count = g->value_count};
    for (size_t r = 0; r < g->count; r++) {
        side.sum_ns = orr__add_ns(side.sum_ns, g->rows[r].sum_ns);
    }
    side.lower_ns = quartile(g->values, g->value_count, 1);
    side.median_ns = quartile(g->values, g->value_count, 2);
    side.upper_ns = quartile(g->values, g->value_count, 3);
    side.unit_ns =
        orr__diff_per_unit(g->table->part, by, side.sum_ns, g->table->sort != ORR_DIFF_SORT_WORK);
    return side;
}

/* Sums of a group in every unit, sorted. */
static enum orr_status unit_sums(const struct group *g, int64_t **out_sums, size_t *out_count) {
    const struct orr__diff_part *part = g->table->part;
    int64_t *sums = orr_memory_alloc(part->memory, (part->edge_count + 1) * sizeof *sums);
    *out_sums = sums;
    *out_count = 0;
    if (!sums) {
        return ORR_NO_MEMORY;
    }
    for (size_t r = 0; r < g->count; r++) {
        for (size_t i = g->rows[r].first; i < g->rows[r].first + g->rows[r].count; i++) {
            const struct entry *e = &g->table->entries[i];
            sums[e->unit] = orr__add_ns(sums[e->unit], e->duration_ns);
        }
    }
    for (size_t d = 0; d < part->device_count; d++) { /* last edges begin no unit */
        for (size_t u = 0; u < orr__diff_units_of(part, d); u++) {
            sums[(*out_count)++] = sums[part->edge_first[d] + u];
        }
    }
    return orr__sort_times(part->memory, sums, *out_count);
}

static bool counts_differ(const struct group *g) {
    orr_u128 a = (orr_u128)g[0].value_count * g[1].table->part->units;
    orr_u128 b = (orr_u128)g[1].value_count * g[0].table->part->units;
    return a > b ? (a - b) * 100 >= b : (b - a) * 100 >= a;
}

/* Where the number per unit differs, durations alone don't tell. */
static enum orr_status test_sums(const struct orr_diff *diff, const struct group *g,
                                 struct orr_diff_row *row) {
    int64_t *sums[2] = {NULL, NULL};
    size_t counts[2];
    enum orr_status status = unit_sums(&g[0], &sums[0], &counts[0]);
    if (status == ORR_OK) {
        status = unit_sums(&g[1], &sums[1], &counts[1]);
    }
    if (status == ORR_OK && counts[0] >= diff->options.values_min &&
        counts[1] >= diff->options.values_min) {
        double p = orr_rank_test(sums[0], counts[0], sums[1], counts[1]);
        row->p = p < row->p ? p : row->p;
    }
    orr_memory_free(diff->memory, sums[0]);
    orr_memory_free(diff->memory, sums[1]);
    return status;
}

static enum orr_status judge_row(const struct orr_diff *diff, const struct group *g,
                                 struct orr_diff_row *row) {
    size_t fewer = g[0].value_count < g[1].value_count ? g[0].value_count : g[1].value_count;
    row->p = 1;
    row->delta_ns = row->sides[1].unit_ns - row->sides[0].unit_ns;
    if (g[0].count == 0 || g[1].count == 0) {
        row->status = g[0].count == 0 ? ORR_DIFF_APPEARED : ORR_DIFF_VANISHED;
        size_t more = g[0].value_count + g[1].value_count;
        row->tested = diff->exact || more >= diff->options.values_min;
        return ORR_OK;
    }
    row->tested = diff->exact || fewer >= diff->options.values_min;
    if (row->tested && !diff->exact) {
        row->p = orr_rank_test(g[0].values, g[0].value_count, g[1].values, g[1].value_count);
    }
    row->status = orr__diff_status(diff, row->delta_ns, fewer, row->p);
    if (row->delta_ns == 0 &&
        orr__diff_equal(g[0].values, g[0].value_count, g[1].values, g[1].value_count)) {
        row->status = ORR_DIFF_UNCHANGED;
    }
    if (row->status != ORR_DIFF_INCONCLUSIVE || row->sort != ORR_DIFF_SORT_WORK || diff->exact ||
        diff->by == ORR_DIFF_UNIT_SECOND || !counts_differ(g)) {
        return ORR_OK;
    }
    enum orr_status status = test_sums(diff, g, row);
    row->tested = row->tested || row->p < 1;
    if (row->p < diff->options.p_max) {
        row->status = ORR_DIFF_CHANGED;
    }
    return status;
}

struct output {
    struct orr_diff *diff;
    size_t capacity;
};

static enum orr_status add_row(struct output *out, const struct table *tables, const struct row *a,
                               size_t a_count, const struct row *b, size_t b_count) {
    struct orr_diff *diff = out->diff;
    struct group g[2] = {{.table = &tables[0], .rows = a, .count = a_count},
                         {.table = &tables[1], .rows = b, .count = b_count}};
    const struct row *model = a_count ? a : b;
    struct orr_diff_row row = {.sort = tables[0].sort,
                               .name = model->name,
                               .shape = model->shape,
                               .role = model->role,
                               .waiting = model->waiting};
    row.reshaped = a_count && b_count && compare_rows(a, b) != 0;
    row.reshaped = row.reshaped || a_count > 1 || b_count > 1;
    if (row.reshaped) {
        row.shape = "";
    }
    enum orr_status status = gather_values(&g[0]);
    if (status == ORR_OK) {
        status = gather_values(&g[1]);
    }
    if (status == ORR_OK) {
        row.sides[0] = side_of(&g[0], diff->by);
        row.sides[1] = side_of(&g[1], diff->by);
        status = judge_row(diff, g, &row);
    }
    for (unsigned side = 0; side < 2; side++) {
        orr_memory_free(diff->memory, g[side].owned ? g[side].values : NULL);
    }
    if (status == ORR_OK) {
        status = orr_memory_grow(diff->memory, &diff->rows, &out->capacity, diff->row_count + 1,
                                 sizeof row, UINT32_MAX);
    }
    if (status == ORR_OK) {
        diff->rows[diff->row_count++] = row;
        diff->counts[row.sort][row.status]++;
    }
    return status;
}

/* Rows equal in all texts. */
static enum orr_status align_equal(struct output *out, struct table *tables) {
    enum orr_status status = ORR_OK;
    for (size_t i = 0, k = 0;
         i < tables[0].row_count && k < tables[1].row_count && status == ORR_OK;) {
        struct row *a = &tables[0].rows[i], *b = &tables[1].rows[k];
        int order = compare_rows(a, b);
        i += order <= 0;
        k += order >= 0;
        if (order == 0) {
            a->taken = b->taken = true;
            status = add_row(out, tables, a, 1, b, 1);
        }
    }
    return status;
}

/* Moves what is not aligned to the front, in order. */
static size_t keep_left(struct table *t) {
    size_t kept = 0;
    for (size_t i = 0; i < t->row_count; i++) {
        if (!t->rows[i].taken) {
            t->rows[kept++] = t->rows[i];
        }
    }
    return t->row_count = kept;
}

static size_t same_name(const struct table *t, size_t first) {
    size_t end = first;
    while (end < t->row_count && compare_names(&t->rows[end], &t->rows[first]) == 0) {
        end++;
    }
    return end - first;
}

/* Rows left over: of one name on both sides they are one, else each is new or gone. Ranges are
 * named after numbers more often than they come and go: only those on both sides count. */
static enum orr_status align_left(struct output *out, struct table *tables) {
    size_t i = 0, k = 0, a_end = keep_left(&tables[0]), b_end = keep_left(&tables[1]);
    enum orr_status status = ORR_OK;
    bool both_only = tables[0].sort == ORR_DIFF_SORT_RANGE;
    while ((i < a_end || k < b_end) && status == ORR_OK) {
        const struct row *a = i < a_end ? &tables[0].rows[i] : NULL;
        const struct row *b = k < b_end ? &tables[1].rows[k] : NULL;
        int order = !a ? 1 : !b ? -1 : compare_names(a, b);
        size_t a_count = order <= 0 ? order == 0 ? same_name(&tables[0], i) : 1 : 0;
        size_t b_count = order >= 0 ? order == 0 ? same_name(&tables[1], k) : 1 : 0;
        if (order == 0 || !both_only) {
            status = add_row(out, tables, a, a_count, b, b_count);
        }
        i += a_count;
        k += b_count;
    }
    return status;
}

static enum orr_status compare_sort(struct output *out, const struct orr__diff_part *parts,
                                    enum orr_diff_sort sort) {
    struct table tables[2] = {{.part = &parts[0]}, {.part = &parts[1]}};
    enum orr_status status = make_table(&parts[0], sort, out->diff->by, &tables[0]);
    if (status == ORR_OK) {
        status = make_table(&parts[1], sort, out->diff->by, &tables[1]);
    }
    if (status == ORR_OK) {
        status = align_equal(out, tables);
    }
    if (status == ORR_OK) {
        status = align_left(out, tables);
    }
    free_table(&tables[0]);
    free_table(&tables[1]);
    return status;
}

static bool shown_before(const void *context, uint32_t a, uint32_t b) {
    const struct orr_diff_row *x = (const struct orr_diff_row *)context + a;
    const struct orr_diff_row *y = (const struct orr_diff_row *)context + b;
    int64_t size_x = x->delta_ns < 0 ? -x->delta_ns : x->delta_ns;
    int64_t size_y = y->delta_ns < 0 ? -y->delta_ns : y->delta_ns;
    if (x->sort != y->sort) {
        return x->sort < y->sort;
    }
    if (size_x != size_y) {
        return size_x > size_y;
    }
    int order = compare_texts(x->name, y->name);
    return order != 0 ? order < 0 : compare_texts(x->shape, y->shape) < 0;
}

static enum orr_status sort_shown(struct orr_diff *diff) {
    const struct orr_memory *m = diff->memory;
    uint32_t *order = orr_memory_resize(m, NULL, (diff->row_count + 1) * sizeof *order);
    struct orr_diff_row *sorted =
        orr_memory_resize(m, NULL, (diff->row_count + 1) * sizeof *sorted);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < diff->row_count; i++) {
        order[i] = (uint32_t)i;
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(m, order, diff->row_count, shown_before, diff->rows);
    }
    for (size_t i = 0; status == ORR_OK && i < diff->row_count; i++) {
        sorted[i] = diff->rows[order[i]];
    }
    orr_memory_free(m, order);
    orr_memory_free(m, status == ORR_OK ? diff->rows : sorted);
    if (status == ORR_OK) {
        diff->rows = sorted;
    }
    return status;
}

enum orr_status orr__diff_rows(struct orr_diff *diff, struct orr__diff_part *parts) {
    struct output out = {.diff = diff};
    enum orr_status status = ORR_OK;
    for (unsigned sort = 0; sort < ORR_DIFF_SORT_COUNT && status == ORR_OK; sort++) {
        status = compare_sort(&out, parts, (enum orr_diff_sort)sort);
    }
    return status == ORR_OK ? sort_shown(diff) : status;
}
