/* A GPU as a device spec: what the analyzer and models of links want to know of it.
 *
 * A GPU whose name is that of a built-in machine has that machine's figures; of any other one, what
 * its attributes tell, and what is not known stays 0. In both cases the spec's name is the GPU's
 * own, and counts and sizes are what the driver says.
 *
 * Threads: one. */
#ifndef ORR_CLI_CUDA_GPU_H
#define ORR_CLI_CUDA_GPU_H

#include "runtime/cuda/plugin.h"

/* The built-in machine that a GPU of this name is, or NULL. */
const char *orr_cuda_gpu_machine(const char *gpu_name);

/* The spec of one of `sharers` logical devices on GPU `index`, which share its memory evenly. */
enum orr_status orr_cuda_gpu_spec(const struct orr_cuda_gpu *gpu, uint32_t index, uint32_t sharers,
                                  const struct orr_memory *memory, struct orr_device_spec *out_spec,
                                  struct orr_error *error) ORR_MUST_CHECK;

#endif
