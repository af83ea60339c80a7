#include "analyzer/phases.h"

#include <assert.h>
#include <string.h>

#include "analyzer/times.h"

struct phase_texts {
    const char *group, *class_;
};

static const struct phase_texts texts[] = {
#define ORR_PHASE_TEXT(name, group, class_) {group, class_},
    ORR_PHASE_LIST(ORR_PHASE_TEXT)
#undef ORR_PHASE_TEXT
};

const char *orr_phase_group_text(enum orr_phase_group group) {
    return group < ORR_PHASE_COUNT ? texts[group].group : "";
}

const char *orr_phase_class_text(const struct orr_phase *phase) {
    if (phase->label == ORR_PHASE_LAUNCH && phase->launch.bound != ORR_ANSWER_YES) {
        return "host_stalled";
    }
    return texts[phase->label].class_;
}

enum orr_phase_group orr_phase_of_class(enum orr_class class_) {
    switch (class_) {
    case ORR_CLASS_EXPOSED_COMM: return ORR_PHASE_COMM;
    case ORR_CLASS_EXPOSED_COPY: return ORR_PHASE_COPY;
    case ORR_CLASS_HOST_LAUNCH:
    case ORR_CLASS_HOST_OTHER: return ORR_PHASE_LAUNCH;
    default: return ORR_PHASE_WAIT;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Cells */

int64_t orr_phase_cell_width(const struct orr_analysis_options *options, int64_t window_ns) {
    int64_t width = options->cells > 0 ? window_ns / (int64_t)options->cells : window_ns;
    width = width > options->cell_min_ns ? width : options->cell_min_ns;
    return width > 0 ? width : 1;
}

enum orr_status orr_phase_cells_create(struct orr_phase_cells *cells, int64_t begin_ns,
                                       int64_t end_ns, int64_t cell_ns,
                                       const struct orr_memory *memory) {
    assert(begin_ns <= end_ns && cell_ns > 0);
    *cells = (struct orr_phase_cells){begin_ns, end_ns, cell_ns, 0, NULL};
    cells->count = (size_t)((end_ns - begin_ns) / cell_ns + ((end_ns - begin_ns) % cell_ns != 0));
    cells->ns = orr_memory_alloc(memory, cells->count * sizeof *cells->ns);
    return cells->ns ? ORR_OK : ORR_NO_MEMORY;
}

void orr_phase_cells_free(const struct orr_memory *memory, struct orr_phase_cells *cells) {
    orr_memory_free(memory, cells->ns);
    *cells = (struct orr_phase_cells){0};
}

static int64_t cell_begin(const struct orr_phase_cells *cells, size_t cell) {
    return cells->begin_ns + (int64_t)cell * cells->cell_ns;
}

static int64_t cell_end(const struct orr_phase_cells *cells, size_t cell) {
    return cell + 1 < cells->count ? cell_begin(cells, cell + 1) : cells->end_ns;
}

void orr_phase_cells_add(struct orr_phase_cells *cells, enum orr_phase_group group,
                         int64_t begin_ns, int64_t end_ns) {
    begin_ns = begin_ns > cells->begin_ns ? begin_ns : cells->begin_ns;
    end_ns = end_ns < cells->end_ns ? end_ns : cells->end_ns;
    while (begin_ns < end_ns) {
        size_t cell = (size_t)((begin_ns - cells->begin_ns) / cells->cell_ns);
        int64_t until = cell_end(cells, cell);
        until = until < end_ns ? until : end_ns;
        cells->ns[cell][group] += until - begin_ns;
        begin_ns = until;
    }
}

/* The largest group of the cells around one; the first of equals. */
static enum orr_phase_group label_of(const struct orr_phase_cells *cells, size_t cell,
                                     unsigned smooth) {
    size_t from = cell > smooth ? cell - smooth : 0;
    size_t to = cells->count - cell > smooth ? cell + smooth : cells->count - 1;
    int64_t sums[ORR_PHASE_COUNT] = {0};
    for (size_t c = from; c <= to; c++) {
        for (unsigned g = 0; g < ORR_PHASE_COUNT; g++) {
            sums[g] += cells->ns[c][g];
        }
    }
    unsigned best = 0;
    for (unsigned g = 1; g < ORR_PHASE_COUNT; g++) {
        best = sums[g] > sums[best] ? g : best;
    }
    return (enum orr_phase_group)best;
}

/* ------------------------------------------------------------------------------------------------
 * The operators that took most of each phase */

struct tops {
    const struct orr_events *events;
    int64_t *times;    /* by operator, 0 outside the current phase */
    uint32_t *touched; /* operators with a time */
    uint32_t *running; /* ops that have begun and may reach into the next phase */
    size_t touched_count, running_count, next; /* next: place in the device's order */
};

static enum orr_status create_tops(struct tops *tops, const struct orr_events *events,
                                   uint32_t device, const struct orr_memory *memory) {
    size_t ops = events->device_first[device + 1] - events->device_first[device];
    *tops = (struct tops){.events = events, .next = events->device_first[device]};
    tops->times = orr_memory_alloc(memory, events->operator_count * sizeof *tops->times);
    tops->touched = orr_memory_resize(memory, NULL, events->operator_count * sizeof *tops->touched);
    tops->running = orr_memory_resize(memory, NULL, ops * sizeof *tops->running);
    return tops->times && tops->touched && tops->running ? ORR_OK : ORR_NO_MEMORY;
}

static void free_tops(const struct orr_memory *memory, struct tops *tops) {
    orr_memory_free(memory, tops->times);
    orr_memory_free(memory, tops->touched);
    orr_memory_free(memory, tops->running);
}

static void add_time(struct tops *tops, const struct orr_events_op *op, int64_t begin_ns,
                     int64_t end_ns) {
    int64_t from = op->start_ns > begin_ns ? op->start_ns : begin_ns;
    int64_t to = op->end_ns < end_ns ? op->end_ns : end_ns;
    if (from >= to) {
        return;
    }
    if (tops->times[op->operator_index] == 0) {
        tops->touched[tops->touched_count++] = op->operator_index;
    }
    tops->times[op->operator_index] = orr__add_ns(tops->times[op->operator_index], to - from);
}

/* Adds the ops that run in [begin, end); phases come in ascending order. */
static void run_phase(struct tops *tops, uint32_t device, int64_t begin_ns, int64_t end_ns) {
    const struct orr_events *events = tops->events;
    for (; tops->next < events->device_first[device + 1]; tops->next++) {
        uint32_t op = events->device_order[tops->next];
        if (events->ops[op].start_ns >= end_ns) {
            break;
        }
        if (events->ops[op].end_ns > begin_ns) {
            tops->running[tops->running_count++] = op;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < tops->running_count; i++) {
        const struct orr_events_op *op = &events->ops[tops->running[i]];
        add_time(tops, op, begin_ns, end_ns);
        if (op->end_ns > end_ns) {
            tops->running[kept++] = tops->running[i];
        }
    }
    tops->running_count = kept;
}

/* By time, then by text, so that the order of the arrays does not matter. */
static bool top_before(const struct tops *tops, uint32_t a, uint32_t b) {
    if (tops->times[a] != tops->times[b]) {
        return tops->times[a] > tops->times[b];
    }
    int order = orr__operator_compare(&tops->events->operators[a], &tops->events->operators[b]);
    return order ? order < 0 : a < b;
}

static void take_tops(struct tops *tops, struct orr_phase *phase) {
    uint32_t best[ORR_PHASE_TOP + 1];
    unsigned count = 0;
    for (size_t i = 0; i < tops->touched_count; i++) {
        unsigned at = count;
        for (; at > 0 && top_before(tops, tops->touched[i], best[at - 1]); at--) {
            best[at] = best[at - 1];
        }
        best[at] = tops->touched[i];
        count = count < ORR_PHASE_TOP ? count + 1 : ORR_PHASE_TOP;
    }
    phase->top_count = count;
    for (unsigned i = 0; i < count; i++) {
        phase->top[i] = (struct orr_phase_top){best[i], tops->times[best[i]]};
    }
    for (size_t i = 0; i < tops->touched_count; i++) {
        tops->times[tops->touched[i]] = 0;
    }
    tops->touched_count = 0;
}

/* ---------------------------------------------------------------------------------------------- */

/* Cells [first, end) as a phase, without its launch terms and tops. */
static struct orr_phase make_phase(const struct orr_phase_cells *cells, uint32_t device,
                                   enum orr_phase_group label, size_t first, size_t end) {
    struct orr_phase phase = {.device = device,
                              .label = label,
                              .begin_ns = cell_begin(cells, first),
                              .end_ns = cell_end(cells, end - 1)};
    int64_t sum = 0;
    for (size_t c = first; c < end; c++) {
        for (unsigned g = 0; g < ORR_PHASE_COUNT; g++) {
            phase.groups[g] += cells->ns[c][g];
            sum += cells->ns[c][g];
        }
    }
    assert(sum == phase.end_ns - phase.begin_ns);
    (void)sum;
    return phase;
}

static enum orr_status add_phase(struct orr_phases *phases, struct orr_phase *phase,
                                 struct tops *tops, const struct orr_launch *launch,
                                 const struct orr_analysis_options *options,
                                 const struct orr_memory *memory) {
    run_phase(tops, phase->device, phase->begin_ns, phase->end_ns);
    take_tops(tops, phase);
    enum orr_status status = ORR_OK;
    if (phase->label == ORR_PHASE_LAUNCH) {
        status = orr_launch_judge(launch, options, false, phase->begin_ns, phase->end_ns,
                                  phase->end_ns - phase->begin_ns, phase->groups[ORR_PHASE_LAUNCH],
                                  &phase->launch);
    }
    if (status == ORR_OK) {
        status = orr_memory_grow(memory, &phases->items, &phases->capacity, phases->count + 1,
                                 sizeof *phases->items, SIZE_MAX / sizeof *phases->items);
    }
    if (status == ORR_OK) {
        phases->items[phases->count++] = *phase;
    }
    return status;
}

enum orr_status orr_phases_add(struct orr_phases *phases, const struct orr_phase_cells *cells,
                               const struct orr_events *events, const struct orr_launch *launch,
                               const struct orr_analysis_options *options, uint32_t device,
                               const struct orr_memory *memory) {
    struct tops tops;
    phases->cell_ns = cells->cell_ns;
    enum orr_status status = create_tops(&tops, events, device, memory);
    for (size_t first = 0, end; first < cells->count && status == ORR_OK; first = end) {
        enum orr_phase_group label = label_of(cells, first, options->smooth);
        for (end = first + 1; end < cells->count && label_of(cells, end, options->smooth) == label;
             end++) {
        }
        struct orr_phase phase = make_phase(cells, device, label, first, end);
        status = add_phase(phases, &phase, &tops, launch, options, memory);
    }
    free_tops(memory, &tops);
    return status;
}

void orr_phases_free(const struct orr_memory *memory, struct orr_phases *phases) {
    orr_memory_free(memory, phases->items);
    *phases = (struct orr_phases){0};
}
