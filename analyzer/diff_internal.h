/* Internal to analyzer/diff*.c: one side of a comparison, cut into units.
 *
 *   device 0   edge 0    edge 1    edge 2            units 0, 1; edge 2 ends them
 *   device 1   edge 3        edge 4     edge 5       units 3, 4
 *
 * A unit has the number of the edge that begins it.
 *
 * Threads: plain data. */
#ifndef ORR_ANALYZER_DIFF_INTERNAL_H
#define ORR_ANALYZER_DIFF_INTERNAL_H

#include "analyzer/diff.h"
#include "analyzer/steps.h"

#define ORR__UNIT_NONE UINT32_MAX

struct orr__diff_part {
    const struct orr_analysis *analysis;
    const struct orr_memory *memory;
    struct orr_steps steps;
    uint32_t *devices; /* those with ops: indices in the events, ascending; owned */
    size_t device_count;
    int64_t *edges; /* ascending within a device; owned */
    size_t edge_count, edge_capacity;
    size_t *edge_first; /* of each of `devices`, and one more; owned */
    uint32_t *unit_of;  /* by op: its unit, or ORR__UNIT_NONE; owned */
    uint8_t *used_step; /* by step: it is a unit of some device; owned */
    uint32_t *feeds;    /* by thread: the place in `devices` that its process feeds most; owned */
    uint8_t *is_fed;    /* by place: some process does; owned */
    enum orr_activity *roles;   /* by stream; owned */
    uint64_t units, host_units; /* of all devices; of the devices that processes feed */
    int64_t length_ns, host_length_ns;
};

/* A row of work that may begin an iteration. */
struct orr__diff_anchor {
    uint32_t operator_index;
    enum orr_activity role;
};

/* Finds devices, steps, roles and who feeds whom. */
enum orr_status orr__diff_part_open(const struct orr_analysis *analysis,
                                    const struct orr_memory *memory,
                                    struct orr__diff_part *out_part) ORR_MUST_CHECK;
void orr__diff_part_close(struct orr__diff_part *part);

/* Cut into units, in one of these ways; the last cut counts. A device that has no unit has one edge
 * or none. */
enum orr_status orr__diff_cut_steps(struct orr__diff_part *part) ORR_MUST_CHECK;
enum orr_status orr__diff_cut_anchor(struct orr__diff_part *part,
                                     const struct orr__diff_anchor *anchor) ORR_MUST_CHECK;
/* One unit: from the first start to the last end of any device; and of each device. */
enum orr_status orr__diff_cut_run(struct orr__diff_part *part) ORR_MUST_CHECK;
enum orr_status orr__diff_cut_whole(struct orr__diff_part *part) ORR_MUST_CHECK;

/* The row that begins the longest iteration of both; *out_found: there is one. */
enum orr_status orr__diff_find_anchor(const struct orr__diff_part *parts,
                                      const struct orr_diff_options *options,
                                      struct orr__diff_anchor *out_anchors,
                                      bool *out_found) ORR_MUST_CHECK;

/* Units of one device: edges[first] .. edges[first + count]. */
static inline size_t orr__diff_units_of(const struct orr__diff_part *part, size_t device) {
    size_t edges = part->edge_first[device + 1] - part->edge_first[device];
    return edges > 0 ? edges - 1 : 0;
}

/* A sum over all units as a figure per unit: `host` is for calls and ranges. */
int64_t orr__diff_per_unit(const struct orr__diff_part *part, enum orr_diff_unit by, int64_t sum,
                           bool host);

/* Names and shapes as text: the order of rows. */
int orr__diff_compare_operators(const struct orr_events_operator *a,
                                const struct orr_events_operator *b);

/* Fills diff->rows from parts that are cut. */
enum orr_status orr__diff_rows(struct orr_diff *diff, struct orr__diff_part *parts) ORR_MUST_CHECK;
/* Fills diff->devices, causes and the unit's figure. */
enum orr_status orr__diff_devices(struct orr_diff *diff,
                                  struct orr__diff_part *parts) ORR_MUST_CHECK;
/* Outcome, main cause, regression and the line. */
void orr__diff_judge(struct orr_diff *diff);

/* The very same values, sorted: then nothing has changed, however few they are. */
static inline bool orr__diff_equal(const int64_t *a, size_t a_count, const int64_t *b,
                                   size_t b_count) {
    for (size_t i = 0; i < a_count && a_count == b_count; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return a_count == b_count && a_count > 0;
}

/* Status of a figure that differs by delta_ns where a unit takes unit_ns; `values` is the smaller
 * number of values of the two sides. */
enum orr_diff_status orr__diff_status(const struct orr_diff *diff, int64_t delta_ns, size_t values,
                                      double p);

#endif
