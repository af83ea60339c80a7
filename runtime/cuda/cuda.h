/* CUDA devices: the backend `cuda`. N logical devices on one GPU, or each on its own.
 *
 * Opened from the plugin (plugin.h) with the real libraries, or by tests with any table of entry
 * points. See README.md of this folder for how a command travels.
 *
 * Threads: verbs from one thread, as every backend; host functions run on a thread of CUDA's. */
#ifndef ORR_RUNTIME_CUDA_CUDA_H
#define ORR_RUNTIME_CUDA_CUDA_H

#include "runtime/cuda/api.h"
#include "runtime/cuda/plugin.h"

/* Opens logical devices over a table of entry points, borrowed until close. config->options is a
 * struct orr_cuda_options or NULL. ORR_UNAVAILABLE and the reason if there is no GPU to run on. */
enum orr_status orr__cuda_open(struct orr__cuda_api *api, const struct orr_backend_config *config,
                               struct orr_backend **out_backend,
                               struct orr_error *error) ORR_MUST_CHECK;

#endif
