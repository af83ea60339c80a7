/* Placements: where a tensor's elements are, one placement for each mesh axis.
 *
 *     R      replicate: every rank along the axis has all of it
 *     S(d)   shard: dimension d is cut into as many pieces as the axis is long, in order
 *     P(op)  partial: every rank has a full-size term; the tensor is their sum (avg, max, min)
 *
 * Shards may be uneven: the piece of coordinate i of n is [i c, (i + 1) c) with c = ceil(size / n),
 * cut at the end; later ones may be empty. If two axes shard one dimension, the first axis cuts
 * first. If two axes are partial, terms are reduced along the last axis first, which matters if
 * their reductions differ.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_PLACEMENT_H
#define ORR_RUNTIME_PLACEMENT_H

#include "runtime/mesh.h"
#include "runtime/operator.h"

enum orr_placement_kind { ORR_REPLICATE, ORR_SHARD, ORR_PARTIAL };

struct orr_placement {
    enum orr_placement_kind kind;
    int32_t dim;                  /* SHARD */
    enum orr_reduction reduction; /* PARTIAL */
};

/* A mesh and one placement for each of its axes. */
struct orr_layout {
    struct orr_mesh *mesh; /* borrowed from the runtime */
    struct orr_placement axes[ORR_MESH_AXES_MAX];
};

enum { ORR_PLACEMENT_TEXT_MAX = 64, ORR_PLACEMENTS_TEXT_MAX = 256 };

/* "R", "S(0)", "P" or "P(sum)", "P(avg)", ... ORR_INVALID for anything else. */
enum orr_status orr_placement_parse(const char *text, struct orr_placement *out_placement,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* "S(0)" for one axis, "[S(0), R]" for several; returns `buffer` (ORR_PLACEMENT_TEXT_MAX bytes). */
const char *orr_layout_text(const struct orr_layout *layout, char *buffer);

/* Equal in what counts for their kind. */
bool orr_placement_equal(struct orr_placement a, struct orr_placement b);

/* All axes replicated. */
struct orr_layout orr_layout_replicated(struct orr_mesh *mesh);
/* The same mesh, and equal placements along each axis. */
bool orr_layout_equal(const struct orr_layout *a, const struct orr_layout *b);

/* ORR_INVALID for a shard of a dimension that the shape doesn't have. */
enum orr_status orr_layout_check(const struct orr_layout *layout, const struct orr_shape *shape,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* Shape of a rank's piece of a tensor, and where it starts in the whole (may be NULL). */
struct orr_shape orr_layout_local(const struct orr_layout *layout, const struct orr_shape *shape,
                                  uint32_t rank, int64_t *out_starts);

/* An operator's operands with their placements: "x S(0), weight R"; what does not fit is left out.
 * Returns `buffer` (ORR_PLACEMENTS_TEXT_MAX bytes). */
const char *orr_placements_text(const struct orr_operator *op,
                                const struct orr_layout *const *layouts, int count, char *buffer);

/* Placements of an operator's result for given placements of its operands, axis by axis (every
 * operator's rules: placement_rules.c). ORR_INVALID names the operator, the placements given and
 * the legal ones; a partial operand of a non-linear operator is never accepted. All layouts must be
 * of one mesh. */
enum orr_status
orr_placement_infer(const struct orr_operator *op, const struct orr_operand_info *inputs,
                    const struct orr_layout *const *layouts, int input_count,
                    const struct orr_attributes *attributes, const struct orr_operand_info *output,
                    struct orr_layout *out_layout, struct orr_error *error) ORR_MUST_CHECK;

#endif
