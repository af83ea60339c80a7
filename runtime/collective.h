/* The arithmetic of collectives, shared by every backend that computes on host memory.
 *
 * Sums are taken in rank order (((rank 0 + rank 1) + rank 2) + ...), in f32 for f32, f16 and bf16
 * (rounded once, at the end), in f64 for f64, modulo 2^n for integers, and as "or" for bool. So
 * simulated devices and CPU threads give equal results bit for bit, whoever arrives last.
 *
 *     const struct orr_collective *members[2] = {&of_rank_0, &of_rank_1};
 *     if (orr_collective_run(members, 2, &error) != ORR_OK)
 *         fail(error.text);
 *
 * In place is allowed the way NCCL allows it (races.md rule 43): in == out for all-reduce and
 * broadcast; in == out + rank * count for all-gather; out == in + rank * count for reduce-scatter.
 * Other overlaps are not.
 *
 * Threads: pure functions of their arguments; one thread at a time for one collective. */
#ifndef ORR_RUNTIME_COLLECTIVE_H
#define ORR_RUNTIME_COLLECTIVE_H

#include <stdint.h>

#include "runtime/backend.h"

/* Checks that `count` members form one collective: same communicator, kind, dtype, element count,
 * ranks == count, same root (broadcast), each rank exactly once. ORR_INVALID names the first two
 * ranks that differ, and in what. Members may be in any order. */
enum orr_status orr_collective_check(const struct orr_collective *const *members, uint32_t count,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* Checks the members and computes every rank's `out`. ORR_INVALID also when a pointer that the
 * kind needs is NULL (element count 0 and barriers need none; a broadcast needs `in` only at its
 * root, and no `out` there). Nothing is written on failure. Allocates nothing. */
enum orr_status orr_collective_run(const struct orr_collective *const *members, uint32_t count,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
