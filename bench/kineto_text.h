/* A trace as PyTorch's profiler writes it, of any size, made up.
 *
 * Training steps of a model: frames of Python, nested operators with the shapes of their inputs,
 * API calls, flows, kernels with launch geometry, copies, communication on a second stream, memory
 * instants, annotations of steps; pretty-printed, times relative to a base, in microseconds with
 * three decimals. About eleven events for each kernel, 230 bytes each, as in real traces.
 *
 *     struct kineto_text made;
 *     kineto_text_write(file, 110 * 1000 * 1000, &made);   // at least so many bytes, whole steps
 *
 * The same text on every machine. Threads: nothing is kept. */
#ifndef ORR_BENCH_KINETO_TEXT_H
#define ORR_BENCH_KINETO_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct kineto_text { /* what was written */
    uint64_t bytes, events, ops, calls;
};

/* False when the file can't be written. */
bool kineto_text_write(FILE *file, uint64_t bytes_min, struct kineto_text *out_made);

#endif
