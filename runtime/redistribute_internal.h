/* What plan and execution of a redistribution share: redistribute_plan.c, redistribute.c.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_REDISTRIBUTE_INTERNAL_H
#define ORR_RUNTIME_REDISTRIBUTE_INTERNAL_H

#include "runtime/redistribute.h"
#include "runtime/tensor_internal.h"

/* A change of one axis: from `layout` to the layout with axes[axis] = to. */
struct orr__change {
    const struct orr_operand_info *info;
    struct orr_layout layout;
    int axis;
    struct orr_placement to;
};

/* The step that makes a change; false if there is none. */
bool orr__change_kind(const struct orr__change *change, enum orr_redistribute_kind *out_kind);

/* Shapes of a rank's piece: before, after, and as if the axis were replicated. */
struct orr__change_shapes {
    struct orr_shape before, after, base;
};
struct orr__change_shapes orr__change_shapes(const struct orr__change *change, uint32_t rank);

/* Elements before dimension `dim` and behind it, of one index of it. */
uint64_t orr__outer_count(const struct orr_shape *shape, int dim);
uint64_t orr__inner_count(const struct orr_shape *shape, int dim);

/* Index range of piece `index` of `parts`, of a dimension of `size`. */
struct orr__span {
    int64_t start, length;
};
struct orr__span orr__piece_span(int64_t size, int64_t parts, int64_t index);

/* The collective that a change needs in the group of `rank`, without pointers. *out_counts is what
 * its `counts` points to, NULL for pieces of one size; to be freed. */
enum orr_status orr__change_collective(struct orr_runtime *runtime,
                                       const struct orr__change *change,
                                       enum orr_redistribute_kind kind, uint32_t rank,
                                       struct orr_collective *out_collective,
                                       uint64_t **out_counts) ORR_MUST_CHECK;

/* Must pieces along a dimension be gathered from rows of the shape? */
bool orr__is_strided(const struct orr_shape *shape, int dim);

/* Fills in the paths of a plan with info, from and to. */
enum orr_status orr__redistribute_search(struct orr_runtime *runtime,
                                         struct orr_redistribute_plan *plan) ORR_MUST_CHECK;

/* orr_tensor_redistribute without looking at regions and tapes: the tensor has storage. */
enum orr_status orr__redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                  struct orr_tensor **out_tensor) ORR_MUST_CHECK;

#endif
