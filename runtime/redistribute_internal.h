/* What plan and execution of a redistribution share: redistribute_plan.c (search),
 * redistribute_parts.c (what goes between meshes), redistribute_text.c, redistribute.c (steps),
 * redistribute_across.c (between meshes).
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_REDISTRIBUTE_INTERNAL_H
#define ORR_RUNTIME_REDISTRIBUTE_INTERNAL_H

#include "runtime/move_internal.h"
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

/* Paths of a plan whose layouts are on different meshes, and its crossing. */
enum orr_status orr__redistribute_search_across(struct orr_runtime *runtime,
                                                struct orr_redistribute_plan *plan) ORR_MUST_CHECK;
/* Either search. */
enum orr_status orr__redistribute_find(struct orr_runtime *runtime,
                                       struct orr_redistribute_plan *plan) ORR_MUST_CHECK;
/* < 0 if the first costs less. */
int orr__path_compare(const struct orr_redistribute_path *a, const struct orr_redistribute_path *b);

/* --- parts that go from one mesh to another --- */

/* A box of a tensor, in coordinates of the whole, which a rank of the one mesh has and one of the
 * other needs. */
struct orr__part {
    uint32_t source, target; /* ranks of their meshes */
    uint32_t next;           /* of the same source, or ORR_ID_NONE */
    bool local;              /* both are one device */
    struct orr_shape counts;
    int64_t starts[ORR_RANK_MAX];
};

/* A rank's piece of the whole. */
struct orr__rank_piece {
    struct orr_shape shape;
    int64_t starts[ORR_RANK_MAX];
};

struct orr__parts {
    struct orr__rank_piece *sources, *targets; /* of each rank */
    uint32_t *own;                             /* rank of the old mesh on the new one's device, or
                                             ORR_ID_NONE */
    uint32_t *first;                           /* part of each source, or ORR_ID_NONE */
    struct orr__part *items;                   /* by target, each target's by source */
    size_t count, capacity;
    bool shares; /* each target's device has exactly its piece */
};

/* Finds them for two layouts of a tensor on different meshes; partial axes of the first are those
 * of the second. To be freed, also after a failure. */
enum orr_status orr__parts_find(struct orr_runtime *runtime, const struct orr_operand_info *info,
                                const struct orr_layout *from, const struct orr_layout *to,
                                struct orr__parts *out_parts) ORR_MUST_CHECK;
void orr__parts_free(struct orr_runtime *runtime, struct orr__parts *parts);

/* The part taken out of its source's piece (or put into its target's) from a dense copy at byte
 * `at`. */
struct orr__cut orr__part_packs(const struct orr__parts *parts, const struct orr__part *part,
                                uint64_t at, size_t element);
struct orr__cut orr__part_unpacks(const struct orr__parts *parts, const struct orr__part *part,
                                  uint64_t at, size_t element);
/* Straight from the one to the other. */
struct orr__cut orr__part_copies(const struct orr__parts *parts, const struct orr__part *part,
                                 size_t element);

/* --- execution --- */

/* The part `span` along dimension `dim` of a piece of shape `whole`, which begins at byte `at` when
 * it lies alone, densely; taken out of the piece or, if `puts`, put into it. */
struct orr__cut orr__span_cut(const struct orr_shape *whole, int dim, struct orr__span span,
                              uint64_t at, size_t element, bool puts);
/* Adds what a local step does on a rank, at most two entries. slice: the rank's part of its piece;
 * pad: its piece within zeros; zero: its piece if it is the first of its group, else zeros. */
void orr__change_move(const struct orr__change *change, enum orr_redistribute_kind kind,
                      uint32_t rank, struct orr__blob *to, struct orr__blob *from,
                      struct orr__move *move);

/* Memory on the way, one buffer for each rank of a mesh that has bytes[rank] > 0, with the role of
 * communication: for `streams` by rank, or, if that is NULL, the devices' streams of a kind. What
 * was allocated is to be freed, also after a failure; that gives it back once its last reader has
 * retired. */
enum orr_status orr__blobs_allocate(const struct orr_mesh *mesh, enum orr_stream_kind kind,
                                    struct orr_stream *const *streams, const uint64_t *bytes,
                                    const char *label, struct orr__blob *blobs) ORR_MUST_CHECK;
void orr__blobs_free(struct orr__blob *blobs, uint32_t count);

/* Does the steps of a path. *tensor is replaced by the result, whose handle it then is; `last` says
 * whether the result is what the caller asked for, or still on its way. */
enum orr_status orr__redistribute_steps(struct orr_tensor **tensor,
                                        const struct orr_redistribute_path *path, uint64_t parent,
                                        bool last) ORR_MUST_CHECK;
/* Does the crossing of a plan, in the same way. */
enum orr_status orr__redistribute_cross(struct orr_tensor **tensor,
                                        const struct orr_redistribute_plan *plan, uint64_t parent,
                                        bool last) ORR_MUST_CHECK;

/* What every call begins with: the host's turn (ORR_BLOCKED), operators before it in an open
 * region, memory of the tensor, room on the tape. */
enum orr_status orr__redistribute_begin(struct orr_tensor *tensor, const char *what) ORR_MUST_CHECK;

/* orr_tensor_redistribute without looking at regions and tapes: the tensor has storage. */
enum orr_status orr__redistribute(struct orr_tensor *tensor, const struct orr_layout *layout,
                                  struct orr_tensor **out_tensor) ORR_MUST_CHECK;

#endif
