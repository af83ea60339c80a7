/* The floor of the simulator: what a discrete-event core costs that does nothing else. Kernels in
 * stream order, one stream a device, a 4-ary heap of running ones ordered by (time, stream), and
 * two trace records of 32 bytes a kernel, start and finish, into a ring of 2 MiB.
 *
 * Threads: one. */
#ifndef ORR_BENCH_DES_FLOOR_H
#define ORR_BENCH_DES_FLOOR_H

#include <stdint.h>

/* CPU seconds for running `kernels` of them on each of `streams` streams; building what is to be
 * run does not count. Kernel j of stream i takes des_floor_duration_ns(i, j). *out_end_ns is when
 * the last one ends. */
double des_floor_run(uint32_t streams, uint32_t kernels, int64_t *out_end_ns);

/* 10 to 11 us, different for neighbours. */
static inline int64_t des_floor_duration_ns(uint64_t stream, uint64_t kernel) {
    return 10000 + (int64_t)((stream * 7919 + kernel * 104729) % 1000);
}

#endif
