/* Random programs over the host layer, properly ordered: whatever machine runs them, and in
 * whichever order, they leave the same numbers. Streams, events, allocations that are freed while
 * in use, copies within and between devices and to pinned memory, synthetic kernels, collectives,
 * full queues.
 *
 *     expected = runtime_program_run(orr_sim_open, ORR_RUNNER_INLINE, 400, seed, NULL);
 *     found = runtime_program_run(orr_cpu_open, ORR_RUNNER_INLINE, 400, seed, NULL);
 *
 * Threads: one. */
#ifndef ORR_TESTS_RUNTIME_PROGRAM_H
#define ORR_TESTS_RUNTIME_PROGRAM_H

#include "runtime/backend.h"

/* Runs one; returns a hash of all that was read back. *out_trace (or NULL) is one of all records.
 * Asserts that every command has a record and ended well, and that nothing leaks. */
uint64_t runtime_program_run(orr_backend_open open, enum orr_runner runner, int steps,
                             uint64_t seed, uint64_t *out_trace);

#endif
