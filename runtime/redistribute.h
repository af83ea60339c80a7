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
 * To another mesh a tensor goes in three parts: steps on its own mesh, sends, steps on the other
 * mesh. Terms of partial axes are reduced on the mesh where they are, into replicas or shards,
 * whatever costs least in all; but where the other mesh has the same axis (name and length) with
 * the same partial placement, terms go as they are. Then every rank of the other mesh gets its
 * piece in parts from ranks that hold them: from its own device without a transfer, else from the
 * replica that sends least so far, first that at its own coordinates. All of these sends are one
 * group, on communicate streams that the two meshes have for themselves, so nothing can wait in a
 * circle; parts that do not lie one behind the other are packed by local kernels on the compute
 * streams, and unpacked where they arrive. Where all devices have exactly their pieces already (a
 * permutation of the axes, a slice of replicas) the memory is shared and nothing is done.
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

/* What goes from one mesh to another. */
struct orr_redistribute_crossing {
    struct orr_layout sent, received; /* on the old and on the new mesh */
    bool shares;                      /* devices have their pieces already */
    uint64_t sends, sum_bytes;        /* how many, and what they carry together */
    uint64_t hops, bytes;             /* on the wire: of the rank that sends or gets most */
    uint64_t local_bytes;             /* read and written by the rank that packs, unpacks or
                                         copies most */
};

struct orr_redistribute_plan {
    struct orr_operand_info info;
    struct orr_layout from, to;
    bool crosses; /* to another mesh: paths[0] on the old one, crossing, `after` on the new one */
    struct orr_redistribute_crossing crossing;
    struct orr_redistribute_path after;
    int path_count; /* the cheapest candidates, at most PATHS_MAX; paths[0] is what is done */
    struct orr_redistribute_path paths[ORR_REDISTRIBUTE_PATHS_MAX];
    uint64_t candidate_count; /* all of them */
};

/* What orr_tensor_redistribute(tensor, layout, ...) would do, without doing it. ORR_INVALID for a
 * layout that does not fit the tensor, ORR_NO_MEMORY. */
enum orr_status orr_redistribute_plan(struct orr_tensor *tensor, const struct orr_layout *layout,
                                      struct orr_redistribute_plan *out_plan) ORR_MUST_CHECK;

/* The plan in lines, each with its newline; cut off at `size` bytes. Returns `buffer`. */
const char *orr_redistribute_text(const struct orr_redistribute_plan *plan, char *buffer,
                                  size_t size);

/* What is done, in one line without a newline: "redistribute S(0) -> S(1): all_to_all all; 72 B on
 * the wire, 1 hop; best of 2". To another mesh: "redistribute P(sum) -> S(0) on 4-7:
 * reduce_scatter all, 4 sends; 96 B on the wire, 4 hops; best of 3". A redistribution is recorded
 * as a logical operator of this name and of kind "redistribute", whose children are its steps. */
const char *orr_redistribute_summary(const struct orr_redistribute_plan *plan, char *buffer,
                                     size_t size);

#endif
