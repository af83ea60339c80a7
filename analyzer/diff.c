/* The comparison as a whole: by what unit, and what comes out. See diff.h. */
#include "analyzer/diff.h"

#include <assert.h>
#include <string.h>

#include "analyzer/diff_internal.h"

#define TEXTS(function, type, list, entry, count)                                                  \
    const char *function(enum type value) {                                                        \
        static const char *const texts[] = {list(entry)};                                          \
        assert((unsigned)value < (count));                                                         \
        return texts[value];                                                                       \
    }
#define TEXT(name, text) text,

TEXTS(orr_diff_unit_text, orr_diff_unit, ORR_DIFF_UNIT_LIST, TEXT, ORR_DIFF_UNIT_COUNT)
TEXTS(orr_diff_status_text, orr_diff_status, ORR_DIFF_STATUS_LIST, TEXT, ORR_DIFF_STATUS_COUNT)
TEXTS(orr_diff_outcome_text, orr_diff_outcome, ORR_DIFF_OUTCOME_LIST, TEXT, ORR_DIFF_OUTCOME_COUNT)
TEXTS(orr_diff_sort_text, orr_diff_sort, ORR_DIFF_SORT_LIST, TEXT, ORR_DIFF_SORT_COUNT)
TEXTS(orr_diff_cause_text, orr_diff_cause, ORR_DIFF_CAUSE_LIST, TEXT, ORR_DIFF_CAUSE_COUNT)

struct orr_diff_options orr_diff_options_default(void) {
    return (struct orr_diff_options){.share_percent = 1,
                                     .p_max = 0.01,
                                     .values_min = 8,
                                     .max_regression = -1,
                                     .rows_max = 15,
                                     .names = {"before", "after"}};
}

/* The unit that shares are taken of is the mean of both sides', so that neither counts for more. */
enum orr_diff_status orr__diff_status(const struct orr_diff *diff, int64_t delta_ns, size_t values,
                                      double p) {
    orr_u128 units = (orr_u128)diff->unit.unit_ns[0] + (orr_u128)diff->unit.unit_ns[1];
    orr_u128 size = (orr_u128)(delta_ns < 0 ? -(uint64_t)delta_ns : (uint64_t)delta_ns);
    bool large = units > 0 && size * 200 >= units * diff->options.share_percent;
    if (diff->exact) {
        return large && delta_ns != 0 ? ORR_DIFF_CHANGED : ORR_DIFF_UNCHANGED;
    }
    if (values < diff->options.values_min) {
        return ORR_DIFF_INCONCLUSIVE;
    }
    if (!large) {
        return ORR_DIFF_UNCHANGED;
    }
    return p < diff->options.p_max ? ORR_DIFF_CHANGED : ORR_DIFF_INCONCLUSIVE;
}

/* ------------------------------------------------------------------------------------------------
 * By what unit */

static bool both_have_units(const struct orr__diff_part *parts) {
    return parts[0].units > 0 && parts[1].units > 0;
}

static enum orr_status cut_both(struct orr__diff_part *parts,
                                enum orr_status (*cut)(struct orr__diff_part *part)) {
    enum orr_status status = cut(&parts[0]);
    return status == ORR_OK ? cut(&parts[1]) : status;
}

static enum orr_status try_steps(struct orr_diff *diff, struct orr__diff_part *parts,
                                 bool *out_done) {
    *out_done = false;
    if (parts[0].steps.count == 0 || parts[1].steps.count == 0) {
        return ORR_OK;
    }
    enum orr_status status = cut_both(parts, orr__diff_cut_steps);
    if (status == ORR_OK && both_have_units(parts)) {
        *out_done = true;
        diff->by = ORR_DIFF_UNIT_STEP;
        for (unsigned s = 0; s < 2; s++) {
            diff->by_name[s] = orr_step_source_text(parts[s].steps.source);
        }
    }
    return status;
}

static enum orr_status try_iterations(struct orr_diff *diff, struct orr__diff_part *parts,
                                      bool *out_done) {
    struct orr__diff_anchor anchors[2];
    enum orr_status status = orr__diff_find_anchor(parts, &diff->options, anchors, out_done);
    for (unsigned s = 0; s < 2 && status == ORR_OK && *out_done; s++) {
        const struct orr_events *events = &parts[s].analysis->events;
        diff->by_name[s] = events->operators[anchors[s].operator_index].name;
        status = orr__diff_cut_anchor(&parts[s], &anchors[s]);
    }
    if (status == ORR_OK && *out_done) {
        diff->by = ORR_DIFF_UNIT_ITERATION;
        *out_done = both_have_units(parts);
    }
    return status;
}

static enum orr_status cut_units(struct orr_diff *diff, struct orr__diff_part *parts) {
    bool done;
    enum orr_status status = try_steps(diff, parts, &done);
    if (status == ORR_OK && !done && !diff->exact) {
        status = try_iterations(diff, parts, &done);
    }
    if (status == ORR_OK && !done) {
        diff->by = diff->exact ? ORR_DIFF_UNIT_RUN : ORR_DIFF_UNIT_SECOND;
        diff->by_name[0] = diff->by_name[1] = "";
        status = cut_both(parts, diff->exact ? orr__diff_cut_run : orr__diff_cut_whole);
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

static enum orr_status compare(struct orr_diff *diff, struct orr__diff_part *parts) {
    enum orr_status status = cut_units(diff, parts);
    for (unsigned s = 0; s < 2; s++) { /* shares of it are asked for on the way */
        diff->unit.unit_ns[s] = orr__diff_per_unit(&parts[s], diff->by, parts[s].length_ns, false);
    }
    if (status == ORR_OK) {
        status = orr__diff_devices(diff, parts);
    }
    if (status == ORR_OK) {
        status = orr__diff_rows(diff, parts);
    }
    if (status == ORR_OK) {
        orr__diff_judge(diff);
    }
    return status;
}

enum orr_status orr_diff_make(const struct orr_analysis *before, const struct orr_analysis *after,
                              const struct orr_diff_options *options,
                              const struct orr_memory *memory, struct orr_diff **out_diff,
                              struct orr_error *error) {
    struct orr__diff_part parts[2] = {{0}, {0}};
    struct orr_diff *diff = orr_memory_alloc(memory, sizeof *diff);
    enum orr_status status = diff ? ORR_OK : ORR_NO_MEMORY;
    *out_diff = NULL;
    assert(before->timeline && after->timeline);
    if (diff) {
        diff->memory = memory;
        diff->options = *options;
        diff->by_name[0] = diff->by_name[1] = "";
        diff->grown = "";
        diff->timelines[0] = before->timeline;
        diff->timelines[1] = after->timeline;
        diff->modelled[0] = before->events.source.modelled;
        diff->modelled[1] = after->events.source.modelled;
        diff->exact = diff->modelled[0] && diff->modelled[1];
        status = orr__diff_part_open(before, memory, &parts[0]);
    }
    if (status == ORR_OK) {
        status = orr__diff_part_open(after, memory, &parts[1]);
    }
    if (status == ORR_OK) {
        status = compare(diff, parts);
    }
    orr__diff_part_close(&parts[0]);
    orr__diff_part_close(&parts[1]);
    if (status == ORR_OK) {
        *out_diff = diff;
        return ORR_OK;
    }
    orr_diff_destroy(&diff);
    return orr_error_set(error, status, "no memory to compare the traces");
}

void orr_diff_destroy(struct orr_diff **diff) {
    struct orr_diff *d = *diff;
    *diff = NULL;
    if (d) {
        orr_memory_free(d->memory, d->devices);
        orr_memory_free(d->memory, d->rows);
        orr_memory_free(d->memory, d);
    }
}
