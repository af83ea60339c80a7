#include "analyzer/report_explain.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/events_fill.h"
#include "analyzer/table.h"
#include "analyzer/times.h"

/* Rows of each table; --json has more. */
enum { OPERATOR_ROWS = 12, ANNOTATION_ROWS = 16, DEVICE_ROWS = 16, STEP_ROWS = 10 };

static bool is_imported(const struct orr_analysis *a) {
    return a->timeline && orr__timeline_imported(a->timeline);
}

static void more_rows(struct orr_text *text, size_t all, size_t shown) {
    if (all > shown) {
        orr__text_add(text, "  (%zu more: --json lists all)\n", all - shown);
    }
}

int64_t orr__all_windows(const struct orr_analysis *analysis) {
    int64_t sum = 0;
    for (size_t d = 0; d < analysis->device_count; d++) {
        sum = orr__add_ns(sum, analysis->devices[d].end_ns - analysis->devices[d].begin_ns);
    }
    return sum;
}

/* ------------------------------------------------------------------------------------------------
 * Peaks */

static bool has_peak(const uint64_t (*peak)[ORR_DTYPE_COUNT]) {
    for (unsigned i = 0; i < 2 * ORR_DTYPE_COUNT; i++) {
        if (peak[i / ORR_DTYPE_COUNT][i % ORR_DTYPE_COUNT] > 0) {
            return true;
        }
    }
    return false;
}

/* The timeline's row of a device: profile names the machine that peaks were taken from. */
static const char *profile_of(const struct orr_analysis *a, uint32_t device) {
    const struct orr_timeline_device *row =
        a->timeline ? orr_timeline_device(a->timeline, a->events.devices[device].id) : NULL;
    return row && row->profile ? row->profile : "";
}

const char *orr__peak_source(const struct orr_analysis *analysis, uint32_t device) {
    const struct orr_events_device *d = &analysis->events.devices[device];
    const struct orr_analysis_peaks *given = &analysis->options.peaks;
    const char *profile = profile_of(analysis, device);
    if (given->bandwidth > 0 || has_peak(given->flops)) {
        return "given; what is not, from the trace or its machine";
    }
    if (!has_peak(d->peak) && d->bandwidth == 0) {
        return "not known";
    }
    return profile[0] ? profile : "the trace";
}

/* "3.35 TB/s; matrix bf16 989.00 TFLOP/s, vector f32 67.00 TFLOP/s" */
static void add_peaks_of(const struct orr_analysis *a, uint32_t device, struct orr_text *text) {
    static const struct {
        enum orr_unit unit;
        enum orr_dtype dtype;
    } shown[] = {{ORR_UNIT_MATRIX, ORR_DTYPE_BF16},
                 {ORR_UNIT_MATRIX, ORR_DTYPE_F16},
                 {ORR_UNIT_VECTOR, ORR_DTYPE_F32}};
    char amount[ORR_NUMBER_TEXT_MAX];
    uint64_t bandwidth = orr__bandwidth_of(&a->events, &a->options, device);
    orr__text_add(text, "%s",
                  bandwidth > 0 ? orr__amount_text(bandwidth, "B/s", amount)
                                : "bandwidth not known");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        uint64_t given = a->options.peaks.flops[shown[i].unit][shown[i].dtype];
        uint64_t peak =
            given ? given : a->events.devices[device].peak[shown[i].unit][shown[i].dtype];
        if (peak > 0) {
            orr__text_add(text, ", %s %s %s", shown[i].unit ? "matrix" : "vector",
                          orr_dtype_name(shown[i].dtype), orr__amount_text(peak, "FLOP/s", amount));
        }
    }
}

/* Devices of one name have one line, and so have all whose peaks are not known. */
void orr__report_peaks(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_events *e = &analysis->events;
    const char *shown = NULL;
    size_t unknown = 0;
    char name[ORR_TABLE_CELL_MAX + 1];
    if (!is_imported(analysis)) {
        return;
    }
    for (uint32_t d = 0; d < e->device_count; d++) {
        const char *source = orr__peak_source(analysis, d);
        if (analysis->devices[d].times.ops == 0) {
            continue;
        }
        if (strcmp(source, "not known") == 0) {
            unknown++;
        } else if (!shown || strcmp(shown, e->devices[d].name) != 0) {
            shown = e->devices[d].name;
            orr__text_add(text, "peaks of device %u, %s: ", e->devices[d].id,
                          orr__table_clean(shown, name));
            add_peaks_of(analysis, d, text);
            orr__text_add(text, " (%s%s)\n",
                          source == profile_of(analysis, d) ? "by its name: machine " : "", source);
        }
    }
    if (unknown > 0) {
        orr__text_add(text,
                      "peaks of %s%zu device%s: not known: the trace has none, and no machine "
                      "of that name is; give them with --bandwidth and --peak\n",
                      shown ? "the other " : "", unknown, unknown == 1 ? "" : "s");
    }
}

/* ------------------------------------------------------------------------------------------------
 * Operators of a framework */

/* "; its main kernel has 40 blocks for 132 multiprocessors": too few to keep them busy. */
static void add_blocks(const struct orr_analysis *a, const struct orr_framework_row *row,
                       struct orr_text *text) {
    const struct orr_timeline_device *d =
        orr_timeline_device(a->timeline, a->events.devices[row->device].id);
    if (row->bound == ORR_BOUND_LATENCY && row->blocks > 0 && d && d->multiprocessors > 0 &&
        row->blocks < 2 * (uint64_t)d->multiprocessors) {
        orr__text_add(text, "; its main kernel has %llu blocks for %u multiprocessors",
                      (unsigned long long)row->blocks, d->multiprocessors);
    }
}

void orr__why_framework(const struct orr_analysis *analysis, const struct orr_framework_row *row,
                        struct orr_text *text) {
    char intensity[ORR_NUMBER_TEXT_MAX], ridge[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    char roof_text[ORR_NUMBER_TEXT_MAX];
    struct orr_roof roof = orr_framework_roof(row);
    orr_u128 bytes = roof.bytes, up, down;
    if (!row->has_cost) {
        orr__text_add(text, "%s", row->why);
    } else {
        orr_roof_fraction(&roof, &up, &down);
        if (down == 0) {
            orr__text_add(text, "%s",
                          row->time_ns == 0 ? "it took no time"
                          : row->tf32 ? "its kernels multiply in TF32, whose peak is not known"
                                      : "no peak or bandwidth is known for the device");
        } else if (row->flops == 0) {
            orr__text_add(text, "moves bytes alone; %s %% of %s",
                          orr__hundredfold_text(up, down, share),
                          orr__amount_text(row->bandwidth, "B/s", roof_text));
        } else {
            bool right = orr_roof_right(&roof);
            orr__text_add(text, "%s FLOP/B %s ridge %s; %s %% of %s",
                          orr__ratio_text(row->flops, bytes, 2, intensity), right ? ">=" : "<",
                          orr__ratio_text(row->peak, row->bandwidth, 2, ridge),
                          orr__hundredfold_text(up, down, share),
                          right ? orr__amount_text(row->peak, "FLOP/s", roof_text)
                                : orr__amount_text(row->bandwidth, "B/s", roof_text));
        }
    }
    add_blocks(analysis, row, text);
}

static void add_framework_rows(const struct orr_analysis *a, struct orr_text *text) {
    const struct orr_framework *f = &a->explain.framework;
    struct orr_table table;
    orr__table_begin(&table, a->memory,
                     "operator|inputs|>count|>kernels|>time|>FLOP|>bytes|>FLOP/B|>% of roof|class");
    for (size_t i = 0; i < f->row_count && i < OPERATOR_ROWS; i++) {
        const struct orr_framework_row *row = &f->rows[i];
        char name[ORR_TABLE_CELL_MAX + 1], inputs[ORR_TABLE_CELL_MAX + 1], class_[32];
        char time[ORR_NUMBER_TEXT_MAX], flops[ORR_NUMBER_TEXT_MAX], bytes[ORR_NUMBER_TEXT_MAX];
        char intensity[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
        struct orr_roof roof = orr_framework_roof(row);
        orr_u128 up, down;
        orr_roof_fraction(&roof, &up, &down);
        orr__table_row(&table, "%s|%s|%llu|%llu|%s|%s|%s|%s|%s|%s%s",
                       orr__table_clean(row->name, name), orr__table_clean(row->inputs, inputs),
                       (unsigned long long)row->count, (unsigned long long)row->kernels,
                       orr__time_text(row->time_ns, time),
                       row->has_cost ? orr__amount_text(row->flops, "FLOP", flops) : "unknown",
                       row->has_cost ? orr__amount_text(roof.bytes, "B", bytes) : "unknown",
                       row->has_cost ? orr__ratio_text(row->flops, roof.bytes, 2, intensity) : "-",
                       row->has_cost ? orr__hundredfold_text(up, down, share) : "-",
                       orr__text_hyphens(orr_bound_text(row->bound), class_),
                       row->above_roof ? ", above-roof" : "");
    }
    orr__table_end(&table, text);
    more_rows(text, f->row_count, OPERATOR_ROWS);
}

void orr__report_framework(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_framework *f = &analysis->explain.framework;
    char part[ORR_NUMBER_TEXT_MAX], whole[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    if (f->row_count == 0) {
        return;
    }
    orr__text_add(text, "\noperators of the framework, by their inputs (time: union of the kernels "
                        "of each call, summed; bytes: each operand read once, each result written "
                        "once)\n");
    add_framework_rows(analysis, text);
    for (size_t i = 0; i < f->row_count && i < 3; i++) {
        const struct orr_framework_row *row = &f->rows[i];
        char name[ORR_TABLE_CELL_MAX + 1], inputs[ORR_TABLE_CELL_MAX + 1], class_[32];
        orr__text_add(text, "  %s(%s): %s: ", orr__table_clean(row->name, name),
                      orr__table_clean(row->inputs, inputs),
                      orr__text_hyphens(orr_bound_text(row->bound), class_));
        orr__why_framework(analysis, row, text);
        orr__text_add(text, "\n");
    }
    orr__text_add(
        text, "  a cost is known for %s = %s of their %s\n", orr__time_text(f->costed_ns, part),
        orr__percent_text(f->costed_ns, f->all_ns, share), orr__time_text(f->all_ns, whole));
    if (f->other_kernels > 0) {
        orr__text_add(text, "  %llu of %llu kernels belong to no operator that is recorded\n",
                      (unsigned long long)f->other_kernels,
                      (unsigned long long)(f->kernels + f->other_kernels));
    }
}

/* Kernels by name and grid; what they cost is known of their operators at most. */
void orr__report_kernels(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_roofline *r = &analysis->roofline;
    orr__text_add(text,
                  "\nkernels, by their grids (time: on the device, summed; host: calls of one "
                  "kernel each; blocks x threads)\n");
    struct orr_table table;
    orr__table_begin(&table, analysis->memory, "kernel|grid|>count|>host|>time|>shortest|>longest");
    for (size_t i = 0; i < r->row_count && i < OPERATOR_ROWS; i++) {
        const struct orr_operator_row *row = &r->rows[i];
        const struct orr_events_operator *o = &analysis->events.operators[row->operator_index];
        char name[ORR_TABLE_CELL_MAX + 1], grid[ORR_TABLE_CELL_MAX + 1];
        char host[ORR_NUMBER_TEXT_MAX], time[ORR_NUMBER_TEXT_MAX], least[ORR_NUMBER_TEXT_MAX];
        char most[ORR_NUMBER_TEXT_MAX];
        orr__table_row(&table, "%s|%s|%llu|%s|%s|%s|%s", orr__table_clean(o->name, name),
                       orr__table_clean(o->shape, grid), (unsigned long long)row->count,
                       orr__time_text(row->host_ns, host), orr__time_text(row->time_ns, time),
                       orr__time_text(row->min_ns, least), orr__time_text(row->max_ns, most));
    }
    orr__table_end(&table, text);
    more_rows(text, r->row_count, OPERATOR_ROWS);
}

/* ------------------------------------------------------------------------------------------------
 * Steps, annotations, queues */

void orr__report_steps(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_steps *steps = &analysis->explain.steps;
    if (!is_imported(analysis) || analysis->events.op_count == 0) {
        return;
    }
    if (steps->count == 0) {
        orr__text_add(text, "\nsteps: unknown: %s\n", orr_step_source_text(steps->source));
        return;
    }
    orr__text_add(text,
                  "\nsteps: %zu, by %s (host time; the first and the last are not steady "
                  "state)\n",
                  steps->count, orr_step_source_text(steps->source));
    struct orr_table table;
    orr__table_begin(&table, analysis->memory, "step|>begin|>length|");
    for (size_t i = 0; i < steps->count && i < STEP_ROWS; i++) {
        const struct orr_step *s = &steps->items[i];
        char name[ORR_TABLE_CELL_MAX + 1], begin[ORR_NUMBER_TEXT_MAX], length[ORR_NUMBER_TEXT_MAX];
        bool before = s->begin_ns < analysis->begin_ns;
        int64_t apart =
            before ? analysis->begin_ns - s->begin_ns : s->begin_ns - analysis->begin_ns;
        orr__table_row(&table, "%s|%s%s|%s|%s", orr__table_clean(s->name, name), before ? "-" : "",
                       orr__time_text(apart, begin),
                       orr__time_text(s->end_ns - s->begin_ns, length),
                       s->boundary ? "boundary" : "");
    }
    orr__table_end(&table, text);
    more_rows(text, steps->count, STEP_ROWS);
}

/* "forward / layer 3", the end of it if it is long; modules without the word for what they are. */
static void path_text(const struct orr_annotations *all, uint32_t index, char *out) {
    static const char module[] = "nn.Module: ";
    char path[8 * ORR_TABLE_CELL_MAX] = "";
    size_t at = sizeof path - 1;
    if (index == 0) {
        strcpy(out, "(all)");
        return;
    }
    for (; index != 0 && index != ORR_EVENTS_NONE; index = all->items[index].parent) {
        const struct orr_annotation *a = &all->items[index];
        size_t skip = strncmp(a->name, module, sizeof module - 1) == 0 ? sizeof module - 1 : 0;
        size_t room = at > 3 ? at - 3 : 0, length = a->name_length - skip;
        length = length < room ? length : room;
        at -= length;
        memcpy(path + at, a->name + skip, length);
        if (a->parent == 0 || at <= 3) {
            break;
        }
        at -= 3;
        memcpy(path + at, " / ", 3);
    }
    const char *from = path + at;
    size_t length = strlen(from);
    if (length > ORR_TABLE_CELL_MAX) {
        char cut[ORR_TABLE_CELL_MAX + 1];
        snprintf(cut, sizeof cut, "...%s", from + length - (ORR_TABLE_CELL_MAX - 3));
        orr__table_clean(cut, out);
    } else {
        orr__table_clean(from, out);
    }
}

static int64_t idle_of(const struct orr_annotation *a) {
    int64_t sum = 0;
    for (unsigned c = ORR_CLASS_PROFILER_OVERHEAD; c < ORR_CLASS_BEFORE_FIRST; c++) {
        sum = orr__add_ns(sum, a->idle[c]);
    }
    return sum;
}

/* "host-other 81.20 %" of the idle time, the largest cause. */
static void main_cause(const struct orr_annotation *a, char *out, size_t size) {
    unsigned best = ORR_CLASS_PROFILER_OVERHEAD;
    for (unsigned c = best; c < ORR_CLASS_BEFORE_FIRST; c++) {
        best = a->idle[c] > a->idle[best] ? c : best;
    }
    char name[32], share[ORR_NUMBER_TEXT_MAX];
    if (a->idle[best] == 0) {
        snprintf(out, size, "-");
    } else {
        snprintf(out, size, "%s %s", orr__text_hyphens(orr_class_text((enum orr_class)best), name),
                 orr__percent_text(a->idle[best], idle_of(a), share));
    }
}

void orr__report_annotations(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_annotations *all = &analysis->explain.annotations;
    if (all->count == 0 || all->by_site) {
        return;
    }
    int64_t window = orr__all_windows(analysis);
    orr__text_add(text,
                  "\n%s of the launching threads (device: union of their ops, of inner ones "
                  "too; idle: of gaps that their ops end; shares of the window)\n",
                  all->by_operator ? "operators" : "annotations");
    struct orr_table table;
    orr__table_begin(&table, analysis->memory,
                     "path|>count|>ops|>device|>share|>self|>exposed comm|>idle|main cause");
    for (size_t i = 0; i < all->count && i < ANNOTATION_ROWS; i++) {
        const struct orr_annotation *a = &all->items[all->order[i]];
        char path[ORR_TABLE_CELL_MAX + 1], cause[64];
        char total[ORR_NUMBER_TEXT_MAX], self[ORR_NUMBER_TEXT_MAX], idle[ORR_NUMBER_TEXT_MAX];
        char share[ORR_NUMBER_TEXT_MAX], exposed[ORR_NUMBER_TEXT_MAX];
        path_text(all, all->order[i], path);
        main_cause(a, cause, sizeof cause);
        orr__table_row(
            &table, "%s|%llu|%llu|%s|%s|%s|%s|%s|%s", path, (unsigned long long)a->count,
            (unsigned long long)a->ops, orr__time_text(a->total_ns, total),
            orr__percent_text(a->total_ns, window, share), orr__time_text(a->self_ns, self),
            orr__time_text(a->exposed_comm_ns, exposed), orr__time_text(idle_of(a), idle), cause);
    }
    orr__table_end(&table, text);
    more_rows(text, all->count, ANNOTATION_ROWS);
}

void orr__report_queues(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_queues *queues = &analysis->explain.queues;
    bool any = false;
    for (size_t i = 0; i < queues->count; i++) {
        any = any || queues->items[i].linked > 0;
    }
    if (!is_imported(analysis) || !any) {
        return;
    }
    orr__text_add(text, "\nqueue depth (ops whose call has begun and that have not; over time, up "
                        "to the last start)\n");
    struct orr_table table;
    orr__table_begin(&table, analysis->memory,
                     ">device|>ops|>queued before the trace|>max|>p50|>p95|>mean|>empty|>share");
    for (size_t i = 0; i < queues->count && i < DEVICE_ROWS; i++) {
        const struct orr_queue *q = &queues->items[i];
        int64_t length = q->end_ns - q->begin_ns;
        char mean[ORR_NUMBER_TEXT_MAX], empty[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
        if (length == 0) {
            continue;
        }
        orr__table_row(
            &table, "%u|%llu|%llu|%llu|%llu|%llu|%s|%s|%s", analysis->events.devices[q->device].id,
            (unsigned long long)q->linked, (unsigned long long)q->initial,
            (unsigned long long)q->max, (unsigned long long)q->p50, (unsigned long long)q->p95,
            orr__ratio_text(q->area, (orr_u128)length, 2, mean), orr__time_text(q->empty_ns, empty),
            orr__percent_text(q->empty_ns, length, share));
    }
    orr__table_end(&table, text);
    more_rows(text, queues->count, DEVICE_ROWS);
}

/* ------------------------------------------------------------------------------------------------
 * Memory */

bool orr__records_allocations(const struct orr_analysis *analysis) {
    return !is_imported(analysis) || analysis->timeline->buffer_count > 0;
}

void orr__report_memory_counters(const struct orr_analysis *analysis, struct orr_text *text) {
    const struct orr_memory_timeline *m = &analysis->explain.memory;
    if (m->count == 0) {
        return;
    }
    orr__text_add(text, "\nmemory, by the trace's counters (what it was for is not recorded)\n");
    struct orr_table table;
    orr__table_begin(&table, analysis->memory,
                     ">device|counter|>samples|>peak|>at|>share of capacity|>last");
    for (size_t i = 0; i < m->count && i < 2 * DEVICE_ROWS; i++) {
        const struct orr_memory_series *s = &m->items[i];
        const struct orr_timeline_device *d = orr_timeline_device(analysis->timeline, s->device);
        char peak[ORR_NUMBER_TEXT_MAX], at[ORR_NUMBER_TEXT_MAX], last[ORR_NUMBER_TEXT_MAX];
        char share[ORR_NUMBER_TEXT_MAX];
        bool before = s->peak_ns < analysis->begin_ns;
        int64_t apart = before ? analysis->begin_ns - s->peak_ns : s->peak_ns - analysis->begin_ns;
        orr_u128 capacity = d ? d->mem_bytes : 0;
        orr__table_row(&table, "%u|%s|%llu|%s|%s%s|%s%s|%s", s->device, s->counter,
                       (unsigned long long)s->samples, orr__amount_text(s->peak, "B", peak),
                       before ? "-" : "", orr__time_text(apart, at),
                       orr__hundredfold_text(s->peak, capacity, share), capacity > 0 ? " %" : "",
                       orr__amount_text(s->last, "B", last));
    }
    orr__table_end(&table, text);
    more_rows(text, m->count, 2 * DEVICE_ROWS);
}
