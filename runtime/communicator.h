/* Communicators and collectives.
 *
 * A communicator is an ordered set of devices; rank r is its r-th device. A collective is enqueued
 * on one stream of every member, all at once (the single controller's form of a NCCL group), starts
 * when all members are at the head of their streams and finishes for all together. It orders
 * nothing between ranks apart from that; buffers are in use until it completes on the stream
 * (races.md rule 32). Sums are taken in rank order, so results are the same on every backend.
 * Pieces of different sizes: orr_communicator_enqueue with `counts`. Sends and receives are one
 * group of the ranks that take part in them: orr_send_receive_enqueue.
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
/* Its name; borrowed until the runtime is destroyed. */
const char *orr_communicator_name(const struct orr_communicator *communicator);

/* A contiguous range of a buffer. */
struct orr_piece {
    struct orr_buffer *buffer;
    uint64_t offset;
};

/* One collective. Fields that the kind has no use for are ignored, and so are pieces of ranks that
 * read or write nothing. Everything is borrowed for the call. */
struct orr_collective_call {
    enum orr_collective_kind kind; /* not SEND_RECEIVE */
    enum orr_dtype dtype;
    enum orr_reduction reduction;
    uint32_t root;  /* a rank */
    uint64_t count; /* elements as in struct orr_collective */
    /* Elements of each rank's piece, or of the piece that rank s sends to rank t at [s * ranks + t]
     * (all-to-all); NULL: `count` each. */
    const uint64_t *counts;
    struct orr_stream *const *streams; /* one per rank */
    const struct orr_piece *inputs, *outputs;
    /* Bytes that each rank's pieces have; NULL: as many as the buffer has behind their begins. */
    const uint64_t *input_bytes, *output_bytes;
    const char *name; /* NULL or "": the kind's */
    uint64_t op;      /* the logical operator, 0 none */
};

/* Enqueues one collective. In place is allowed as in runtime/collective.h: equal pieces, or the
 * rank's own piece for gather and scatter; never for all-to-all. `out_points` may be NULL, else one
 * entry per rank. ORR_INVALID for a stream of another device than the rank's, a range outside its
 * buffer or longer than its piece, or counts for a kind whose pieces are equal. */
enum orr_status orr_communicator_enqueue(struct orr_communicator *communicator,
                                         const struct orr_collective_call *call,
                                         struct orr_point *out_points) ORR_MUST_CHECK;

/* The same for `count` elements each, sums, and everything else as above. */
enum orr_status orr_collective_enqueue(struct orr_communicator *communicator,
                                       enum orr_collective_kind kind, enum orr_dtype dtype,
                                       uint64_t count, uint32_t root,
                                       struct orr_stream *const *streams,
                                       const struct orr_piece *inputs,
                                       const struct orr_piece *outputs, const char *name,
                                       uint64_t op, struct orr_point *out_points) ORR_MUST_CHECK;

/* `count` elements from a piece of rank `source` to a piece of rank `target`. */
struct orr_send {
    uint32_t source, target;
    uint64_t count;
    struct orr_piece from, to;
};

/* Enqueues sends with their receives as one group: it has a member on the stream of every rank that
 * sends or receives, starts when all of them are at the heads of their streams and finishes for all
 * together, so exchanges in any direction can't deadlock. What is received must overlap nothing
 * that is sent or received in the same group. `streams` has one entry per rank, which is looked at
 * for ranks that take part; `out_points` may be NULL, else has one entry per rank, with seq 0 for
 * the others. Nothing happens for `send_count` 0. ORR_INVALID as above, for an unknown rank, or for
 * sends that overlap so. */
enum orr_status orr_send_receive_enqueue(struct orr_communicator *communicator,
                                         enum orr_dtype dtype, const struct orr_send *sends,
                                         uint32_t send_count, struct orr_stream *const *streams,
                                         const char *name, uint64_t op,
                                         struct orr_point *out_points) ORR_MUST_CHECK;

#endif
