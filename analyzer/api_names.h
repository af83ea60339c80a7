/* What names say: which calls of CUDA's and HIP's API wait, launch or can't be captured, and which
 * kernels communicate. The tables are in api_names.c, as data; they are the rules that figures of
 * other tools' traces are checked by, and apply to any name, known or new.
 *
 * Own traces need none of it: their commands say what they are.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_API_NAMES_H
#define ORR_ANALYZER_API_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Flags (enum orr_call_flag) of a call by the name of its function: "cudaLaunchKernel". */
uint32_t orr__api_flags(const char *name);

/* True for names of kernels of a communication library, in any case of letters:
 * "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)". */
bool orr__communication_kernel(const char *name);

#endif
