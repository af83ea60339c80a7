/* What the program's own names say: device time, idle time and communication by annotation.
 *
 * An op belongs to the annotations that its launching thread was inside of when the op's call
 * began, outermost first; that is its path. Annotations are what users and frameworks mark: NVTX
 * ranges, record_function, modules (nn.Module: Linear_3), not frames of Python, and operators only
 * where nothing else is marked; steps (steps.h) are left out, so that a layer's figures are those
 * of all steps.
 *
 *     thread    |-- forward ---------------------|
 *                 |-- layer 0 --|  |- layer 1 -|          paths: forward / layer 0
 *     calls          a     b          c        d                 forward / layer 1     forward
 *     device             [-A-) [B)      [--C-)   [D)
 *
 *   total    length of the union of the ops of a path and of those below it: never more than the
 *            device's busy time, so shares stay within 100 % whatever overlaps
 *   self     the same of the ops whose path ends there
 *   exposed  communication of them that runs while the device computes nothing; where several ops
 *            communicate at once, the earlier one has it
 *   idle     gaps of the device that these ops end, by cause (2.3): an op that fills a gap need not
 *            be its cause
 *
 * All are clipped to the window and sums over devices. Annotations are never work: their own length
 * counts nowhere. Ops that are unlinked, or launched outside any annotation (the autograd engine's
 * own thread), have the empty path. In our own traces, which have no annotations, the path is the
 * line of the program (op.site).
 *
 *     status = orr_annotations_begin(timeline, events, &steps, window, memory, &annotations);
 *     ... orr_annotations_add_idle, orr_annotations_add_gap in the walk of each device ...
 *     status = orr_annotations_finish(&annotations, events, memory);
 *
 * Cost: a sort of the slices and one pass with a stack; a pass over the ops with their paths.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_ANNOTATIONS_H
#define ORR_ANALYZER_ANNOTATIONS_H

#include "analyzer/classes.h"
#include "analyzer/steps.h"
#include "trace/timeline.h"

enum { ORR_ANNOTATION_NODES_MAX = 1 << 16, ORR_ANNOTATION_DEPTH_MAX = 64 };

struct orr_annotation {
    const char *name; /* borrowed from the timeline; its first name_length bytes */
    size_t name_length;
    uint32_t parent; /* index, ORR_EVENTS_NONE of the one without a name, which is item 0 */
    uint32_t depth;  /* 0 of item 0 */
    uint64_t count;  /* slices with this path */
    uint64_t ops, self_ops;
    int64_t total_ns, self_ns;
    int64_t exposed_comm_ns;       /* below it, too */
    int64_t idle[ORR_CLASS_COUNT]; /* likewise; causes of idle time alone */
};

struct orr_annotations {
    struct orr_annotation *items; /* parents before children; owned */
    size_t count;                 /* 0 without any annotation */
    uint32_t *order;              /* indices by total time, largest first; owned */
    bool by_site;                 /* lines of the program: our own traces */
    bool by_operator;             /* nothing is annotated: operators stand for it */
    uint64_t dropped; /* slices beyond the limits above: their ops count at the parent */

    /* While devices are walked. */
    struct orr_interval window;
    uint32_t *node_of_op;              /* by op of the events: where its path ends; owned */
    int64_t gap_idle[ORR_CLASS_COUNT]; /* pieces of the gap that is being told */
};

/* Finds the paths of all ops of the timeline that `events` were made of. ORR_NO_MEMORY. Freed with
 * orr_annotations_free. */
enum orr_status orr_annotations_begin(const struct orr_timeline *timeline,
                                      const struct orr_events *events,
                                      const struct orr_steps *steps, struct orr_interval window,
                                      const struct orr_memory *memory,
                                      struct orr_annotations *out) ORR_MUST_CHECK;
/* A piece of a gap, and the gap behind its pieces, as the walk of a device's classes tells them. */
void orr_annotations_add_idle(struct orr_annotations *annotations, enum orr_class class_,
                              int64_t begin_ns, int64_t end_ns);
void orr_annotations_add_gap(struct orr_annotations *annotations, const struct orr_gap *gap);
/* Busy time, sums and order, once all gaps were added. ORR_NO_MEMORY leaves it to be freed. */
enum orr_status orr_annotations_finish(struct orr_annotations *annotations,
                                       const struct orr_events *events,
                                       const struct orr_memory *memory) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_annotations_free(const struct orr_memory *memory, struct orr_annotations *annotations);

/* --- between annotations.c and annotation_tree.c --- */

/* Fills in items and node_of_op of an empty one. ORR_NO_MEMORY. */
enum orr_status orr__annotation_tree(const struct orr_timeline *timeline,
                                     const struct orr_events *events, const struct orr_steps *steps,
                                     const struct orr_memory *memory,
                                     struct orr_annotations *out) ORR_MUST_CHECK;

#endif
