/* The arithmetic of collectives, shared by every backend that computes on host memory, and what
 * they put on the wire.
 *
 * Sums are taken in rank order (((rank 0 + rank 1) + rank 2) + ...), in f32 for f32, f16 and bf16
 * (rounded once, at the end), in f64 for f64, modulo 2^n for integers, and as "or" for bool. So
 * simulated devices and CPU threads give equal results bit for bit, whoever arrives last. An
 * average is the sum divided by the number of ranks before it is rounded; that of integers is cut
 * towards zero. Maximum and minimum are NaN if any term is, and the first of equal terms.
 *
 *     const struct orr_collective *members[2] = {&of_rank_0, &of_rank_1};
 *     if (orr_collective_run(members, 2, &error) != ORR_OK)
 *         fail(error.text);
 *
 * In place is allowed the way NCCL allows it (races.md rule 43): in == out for all-reduce, reduce
 * and broadcast; in == the rank's own piece of out for all-gather and gather; out == the rank's own
 * piece of in for reduce-scatter and scatter. Other overlaps are not.
 *
 * Threads: pure functions of their arguments; one thread at a time for one collective. */
#ifndef ORR_RUNTIME_COLLECTIVE_H
#define ORR_RUNTIME_COLLECTIVE_H

#include <stdint.h>

#include "runtime/backend.h"

/* Which fields a kind looks at. */
bool orr_collective_has_root(enum orr_collective_kind kind);
bool orr_collective_reduces(enum orr_collective_kind kind);
/* Entries of `counts`: 0 if the kind has pieces of one size only. */
uint64_t orr_collective_counts_length(enum orr_collective_kind kind, uint64_t ranks);

/* Elements that the member's rank reads from `in`, and writes to `out`. 0 for SEND_RECEIVE, whose
 * transfers say it. A broadcast writes at its root, too. */
uint64_t orr_collective_in_count(const struct orr_collective *collective);
uint64_t orr_collective_out_count(const struct orr_collective *collective);

/* Checks that `count` members form one collective: same communicator, kind, dtype, element counts,
 * ranks == count, same root and reduction where the kind has one, each rank exactly once;
 * SEND_RECEIVE: same transfers, each member's rank once, each rank of a transfer among the members.
 * ORR_INVALID names the first two ranks that differ, and in what. Members may be in any order. */
enum orr_status orr_collective_check(const struct orr_collective *const *members, uint32_t count,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* Checks the members and computes every rank's `out`. ORR_INVALID also when a pointer that the
 * kind needs is NULL (element count 0 and barriers need none; a broadcast needs `in` only at its
 * root, and no `out` there). Nothing is written on failure. Allocates nothing. */
enum orr_status orr_collective_run(const struct orr_collective *const *members, uint32_t count,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* The pointers of members that orr_collective_check accepts. ORR_INVALID names a rank without one
 * that its kind needs, as orr_collective_run has it. */
enum orr_status orr_collective_check_operands(const struct orr_collective *const *members,
                                              uint32_t count,
                                              struct orr_error *error) ORR_MUST_CHECK;

/* Piece `rank` of a kind with a piece for each rank: its first element among all pieces, and how
 * many it has. */
uint64_t orr_collective_piece(const struct orr_collective *collective, uint32_t rank,
                              uint64_t *out_count);

/* Bytes that a collective moves from one rank's input to a rank's output, maybe the same rank's. */
struct orr_collective_move {
    uint32_t source, target; /* ranks */
    const void *from;
    void *to;
    uint64_t bytes;
};

/* Visits the moves of a checked collective that doesn't reduce; what is in place already is none.
 * For whoever moves bytes in another way than orr_collective_run, which copies them in this order;
 * none reads what another one writes. */
void orr_collective_moves(const struct orr_collective *const *members, uint32_t count,
                          void (*visit)(void *context, const struct orr_collective_move *move),
                          void *context);

/* What a collective puts on the wire: hops, one after the other, and bytes on the busiest link. */
struct orr_traffic {
    uint64_t hops, bytes; /* bytes at most INT64_MAX */
};

/* For n ranks, S = bytes of `count` elements, pieces of P bytes together and p the smallest:
 *     ring     all_reduce      2(n-1) hops, 2(n-1)/n S
 *              all_gather      n-1, P - p     (equal pieces of S: (n-1) S)
 *              reduce_scatter  n-1, P - p     (equal pieces of S: (n-1) S)
 *     chain    broadcast       n-1, S
 *              reduce          n-1, S
 *     direct   gather          1, P - the root's piece
 *              scatter         1, P - the root's piece
 *              all_to_all      1, the most that a rank sends to, or gets from, others
 *                                             (equal pieces of S: (n-1) S)
 *              send_receive    1, the most that a rank sends to, or gets from, others
 *     barrier                  2(n-1), 0
 * Ring and chain are the textbook costs (Patarasuk and Yuan, "Bandwidth optimal all-reduce
 * algorithms", 2009): a ring's link carries every piece but the one of the rank behind it, so the
 * busiest of uneven pieces' links everything but the smallest. Direct: NCCL makes gather, scatter
 * and all-to-all of sends and receives in one group (NCCL user guide, "Point-to-point
 * communication"), which are in flight at once; a rank's link is full duplex and carries all that
 * the rank sends one way and all that it gets the other way. Costs nothing for n = 1. */
struct orr_traffic orr_collective_traffic(const struct orr_collective *collective);

/* What the traffic takes on a machine's links, without a wait for anybody: as the simulator has it
 * for a collective that shares nothing, hops x latency + bytes / link's bandwidth + the fixed time
 * of a kernel, rounded up. The links are the network's if the members `span_nodes`, else those
 * between devices. ORR_TIME_NONE if the spec has no such link. */
int64_t orr_collective_link_ns(const struct orr_collective *collective,
                               const struct orr_device_spec *spec, bool span_nodes);

/* "ring" kinds become "direct" where a backend says so; these are direct on every backend. */
bool orr_collective_is_direct(enum orr_collective_kind kind);

#endif
