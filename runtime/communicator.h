/* Communicators and collectives.
 *
 * A communicator is an ordered set of devices; rank r is its r-th device. A collective is enqueued
 * on one stream of every member, all at once (the single controller's form of a NCCL group), starts
 * when all members are at the head of their streams and finishes for all together. It orders
 * nothing between ranks apart from that; buffers are in use until it completes on the stream
 * (races.md rule 32). Sums are taken in rank order, so results are the same on every backend.
 *
 *     struct orr_communicator *tp;
 *     orr_communicator_create(runtime, "tp", devices, 8, &tp);
 *     orr_collective_enqueue(tp, ORR_COLLECTIVE_ALL_REDUCE, ORR_DTYPE_BF16, count, 0,
 *                            streams, inputs, outputs, "all_reduce", NULL);
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_COMMUNICATOR_H
#define ORR_RUNTIME_COMMUNICATOR_H

#include "runtime/buffer.h"

struct orr_communicator;

/* `name` and `devices` (distinct, 1 to 65,536) are copied. */
enum orr_status orr_communicator_create(struct orr_runtime *runtime, const char *name,
                                        const uint32_t *devices, uint32_t device_count,
                                        struct orr_communicator **out) ORR_MUST_CHECK;
void orr_communicator_destroy(struct orr_communicator **communicator);

/* Number of ranks, and the device of one (rank < size). */
uint32_t orr_communicator_size(const struct orr_communicator *communicator);
uint32_t orr_communicator_device(const struct orr_communicator *communicator, uint32_t rank);

/* A contiguous range of a buffer. */
struct orr_piece {
    struct orr_buffer *buffer;
    uint64_t offset;
};

/* Enqueues one collective. `count` elements as in struct orr_collective; `root` is a rank
 * (broadcast). `streams`, `inputs`, `outputs` have one entry per rank, borrowed for the call; in
 * place is allowed (equal pieces, or the rank's own piece for gather and scatter). BARRIER ignores
 * the pieces. `op` is the logical operator, 0 none. `out_points` may be NULL, else one entry per
 * rank. ORR_INVALID for a stream of another device than the rank's, or a range outside its
 * buffer. */
enum orr_status orr_collective_enqueue(struct orr_communicator *communicator,
                                       enum orr_collective_kind kind, enum orr_dtype dtype,
                                       uint64_t count, uint32_t root,
                                       struct orr_stream *const *streams,
                                       const struct orr_piece *inputs,
                                       const struct orr_piece *outputs, const char *name,
                                       uint64_t op, struct orr_point *out_points) ORR_MUST_CHECK;

#endif
