/* Moves: local kernels that copy cuts of elements between blobs of one device, for pieces that do
 * not lie one behind the other.
 *
 *     from: a piece of 4 x 6           to: dense, from byte `to` on
 *     . . . . . .
 *     . . x x x .   counts 2 x 3       x x x x x x      a row is `width` bytes; dimensions that lie
 *     . . x x x .                                       one behind the other on both sides are one
 *
 *     struct orr__move *move = orr__move_new(runtime, 2);
 *     orr__move_add(move, target, source, &cut);
 *     orr__move_enqueue(move, &(struct orr__move_call){.device = 0, .name = "pack", ...});
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_MOVE_INTERNAL_H
#define ORR_RUNTIME_MOVE_INTERNAL_H

#include "runtime/tensor_internal.h"

/* Where the elements of a cut are on both sides, in bytes. */
struct orr__cut {
    int rank; /* of the loops around a row, outermost first; 0: one row */
    uint64_t counts[ORR_RANK_MAX], to_strides[ORR_RANK_MAX], from_strides[ORR_RANK_MAX];
    uint64_t width, to, from; /* of a row; of the first one */
};

/* A part of a dense array: it starts at `starts` (NULL: everywhere at 0) of an array of `shape`,
 * whose first byte is at `offset`. */
struct orr__place {
    const struct orr_shape *shape;
    const int64_t *starts;
    uint64_t offset;
};

/* The cut of `counts` elements, `element` bytes each, from one place to another. */
struct orr__cut orr__cut_of(const struct orr_shape *counts, const struct orr__place *to,
                            const struct orr__place *from, size_t element);
uint64_t orr__cut_bytes(const struct orr__cut *cut);

struct orr__move;

/* A move of at most `count` cuts and zeros; NULL without memory. */
struct orr__move *orr__move_new(struct orr_runtime *runtime, uint32_t count);
/* Adds a cut; both blobs must stay until the move is enqueued. An empty one is left out. */
void orr__move_add(struct orr__move *move, struct orr__blob *to, struct orr__blob *from,
                   const struct orr__cut *cut);
/* The first `bytes` of a blob become zero, before the cuts that go there, which are added later and
 * count as written with the zeros. */
void orr__move_zero(struct orr__move *move, struct orr__blob *to, uint64_t bytes);
/* Drops one that is not enqueued; accepts NULL. */
void orr__move_drop(struct orr__move *move);

struct orr__move_call {
    uint32_t device;
    enum orr_stream_kind stream; /* of the device's own; COMPUTE unless said otherwise */
    struct orr_stream *own;      /* another stream of the device, or NULL */
    const char *name;
    enum orr_dtype dtype;
    uint64_t op; /* the logical operator */
};

/* Enqueues the move as one kernel on the device's stream, behind whatever wrote the blobs. It is
 * taken over, also after a failure. Nothing is enqueued for nothing. */
enum orr_status orr__move_enqueue(struct orr__move *move,
                                  const struct orr__move_call *call) ORR_MUST_CHECK;

#endif
