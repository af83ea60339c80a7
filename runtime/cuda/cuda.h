/* CUDA devices: the backend `cuda`. N logical devices on one GPU, or each on its own.
 *
 * Opened from the plugin (plugin.h) with the real libraries, or by tests with any table of entry
 * points. See README.md of this folder for how a command travels, and for what fails how.
 *
 * Memory of a device is out of the host's reach (separate_memory), and comes from a pool for each
 * logical device, which has no limit of its own: capacity is the host layer's business. Pinned
 * memory is reached from everywhere.
 *
 * A stream of the seam is a non-blocking CUDA stream; those for communication have the GPU's
 * highest priority. A host that waits for one thing, or for all of some, blocks in
 * cudaEventSynchronize; one that waits for any of some, or until a deadline, or while NCCL may lose
 * a peer, looks again every 20 us.
 *
 * Runner: with ORR_RUNNER_PER_DEVICE commands are launched by the calling thread all the same, but
 * in the name of their device's dispatch host, with its times of the call.
 *
 * A run that is timing only is refused: a GPU has nothing to time then.
 *
 * Threads: verbs from one thread, as every backend; host functions run on a thread of CUDA's. */
#ifndef ORR_RUNTIME_CUDA_CUDA_H
#define ORR_RUNTIME_CUDA_CUDA_H

#include "runtime/cuda/api.h"
#include "runtime/cuda/plugin.h"

/* Opens logical devices over a table of entry points, borrowed until close, which calls its
 * `release` if that is set; not so when this fails. config->options is a struct orr_cuda_options
 * or NULL. ORR_UNAVAILABLE and the reason if there is no GPU to run on. */
enum orr_status orr__cuda_open(struct orr__cuda_api *api, const struct orr_backend_config *config,
                               struct orr_backend **out_backend,
                               struct orr_error *error) ORR_MUST_CHECK;

#endif
