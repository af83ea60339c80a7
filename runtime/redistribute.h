/* Plans of redistributions: by which steps a tensor gets other placements, and what that costs.
 *
 * A step changes the placement along one mesh axis, in all groups of ranks along it at once:
 *
 *     P(op) -> R      all_reduce                 S(a) -> S(b)        all_to_all
 *     P(op) -> S(d)   reduce_scatter             R -> S(d)           slice, local
 *     S(d) -> R       all_gather                 S(d) -> P(sum)      pad, local: zeros around it
 *     R -> P(sum)     zero, local: the first rank keeps its values, the others have zeros
 *     R -> P(avg), P(max), P(min)                keep: every rank's values are its term
 *
 * along an axis of one device every change is a keep, which costs nothing. Where pieces do not lie
 * one behind the other in memory, a local kernel packs or interleaves them. An axis goes straight
 * from its old placement to the new one, or becomes R in between; what an axis may do depends on
 * those inside of it: where two cut one dimension the inner one must be whole while the outer one
 * changes, and of partial axes with different reductions the inner one is reduced first. All
 * sequences of such steps are the candidates. The cheapest has the fewest bytes on the wire (the
 * sum over steps of runtime/collective.h's formulas for the largest group), then the fewest hops,
 * then the fewest bytes moved by local kernels, then the fewest steps, and then comes first in the
 * order of the search, so that the choice is always the same.
 *
 *     struct orr_redistribute_plan plan;
 *     char text[ORR_REDISTRIBUTE_TEXT_MAX];
 *     if (orr_redistribute_plan(tensor, &layout, &plan) == ORR_OK)
 *         puts(orr_redistribute_text(&plan, text, sizeof text));
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_REDISTRIBUTE_H
#define ORR_RUNTIME_REDISTRIBUTE_H

#include "runtime/tensor.h"

enum orr_redistribute_kind {
    ORR_REDISTRIBUTE_ALL_REDUCE,
    ORR_REDISTRIBUTE_REDUCE_SCATTER,
    ORR_REDISTRIBUTE_ALL_GATHER,
    ORR_REDISTRIBUTE_ALL_TO_ALL,
    ORR_REDISTRIBUTE_SLICE,
    ORR_REDISTRIBUTE_PAD,
    ORR_REDISTRIBUTE_ZERO,
    ORR_REDISTRIBUTE_KEEP
};

/* "all_reduce", ... */
const char *orr_redistribute_kind_text(enum orr_redistribute_kind kind);

struct orr_redistribute_step {
    enum orr_redistribute_kind kind;
    int axis;
    struct orr_placement from, to;
    uint64_t hops, bytes; /* on the wire, of the largest group; 0 for a local step */
    uint64_t local_bytes; /* read and written by its local kernels, on the first rank */
};

enum {
    ORR_REDISTRIBUTE_STEPS_MAX = 2 * ORR_MESH_AXES_MAX,
    ORR_REDISTRIBUTE_PATHS_MAX = 8,
    ORR_REDISTRIBUTE_TEXT_MAX = 8192,
    ORR_REDISTRIBUTE_SUMMARY_MAX = 512
};

/* One sequence of steps, and the sums over them. */
struct orr_redistribute_path {
    int step_count;
    struct orr_redistribute_step steps[ORR_REDISTRIBUTE_STEPS_MAX];
    uint64_t hops, bytes, local_bytes;
};

struct orr_redistribute_plan {
    struct orr_operand_info info;
    struct orr_layout from, to;
    int path_count; /* the cheapest candidates, at most PATHS_MAX; paths[0] is what is done */
    struct orr_redistribute_path paths[ORR_REDISTRIBUTE_PATHS_MAX];
    uint64_t candidate_count; /* all of them */
};

/* What orr_tensor_redistribute(tensor, layout, ...) would do, without doing it. ORR_INVALID for a
 * layout that does not fit the tensor, ORR_UNSUPPORTED for another mesh, ORR_NO_MEMORY. */
enum orr_status orr_redistribute_plan(struct orr_tensor *tensor, const struct orr_layout *layout,
                                      struct orr_redistribute_plan *out_plan) ORR_MUST_CHECK;

/* The plan in lines, each with its newline; cut off at `size` bytes. Returns `buffer`. */
const char *orr_redistribute_text(const struct orr_redistribute_plan *plan, char *buffer,
                                  size_t size);

/* What is done, in one line without a newline: "redistribute S(0) -> S(1): all_to_all all; 72 B on
 * the wire, 1 hop; best of 2". A redistribution is recorded as a logical operator of this name and
 * of kind "redistribute", whose children are its steps. */
const char *orr_redistribute_summary(const struct orr_redistribute_plan *plan, char *buffer,
                                     size_t size);

#endif
