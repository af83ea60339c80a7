/* What there is to run on: driver, runtime, GPUs, libraries; and the one line that says why not.
 *
 * NVIDIA's codes alone mislead: without any driver the CUDA runtime says that the driver's version
 * is "insufficient", and the driver's version is told as 0 without an error. So:
 *
 *     libcudart can't be loaded              every path that was tried, and what was wrong with it
 *     error 35, driver's version 0           no NVIDIA driver found
 *     error 35, driver's version above 0     the driver supports a.b, this build needs c.d
 *     error 34                               libcuda.so.1 is the toolkit's link-time stub
 *     error 100, or no device                there is a driver, but no visible device
 *     anything else                          call, name, number, text
 *
 * All are ORR_UNAVAILABLE: nothing can run.
 *
 * Threads: the host's. */
#ifndef ORR_RUNTIME_CUDA_PROBE_H
#define ORR_RUNTIME_CUDA_PROBE_H

#include "runtime/cuda/api.h"
#include "runtime/cuda/plugin.h"

/* Settings that the driver reads from the environment when it starts; those that the user made
 * stay. CUDA_DEVICE_MAX_CONNECTIONS=32: more streams than hardware queues wait for each other
 * without need, and 32 is the most there are. CUDA_MODULE_LOADING=EAGER: a kernel that is loaded at
 * its first launch may wait for everything that runs. Call it before any function of CUDA's. */
void orr__cuda_set_environment(void);

/* Is there a GPU to run on? Creates no context on it. */
enum orr_status orr__cuda_probe_gpus(const struct orr__cuda_api *api, uint32_t *out_count,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* Nothing is known yet but what this build has code for. */
void orr__cuda_machine_clear(struct orr_cuda_machine *machine);

/* Fills what is known of the machine, as far as it goes; versions first, then GPUs. */
enum orr_status orr__cuda_probe(const struct orr__cuda_api *api,
                                struct orr_cuda_machine *out_machine,
                                struct orr_error *error) ORR_MUST_CHECK;

/* What is worth knowing of a run on GPUs, as rows of the trace's table meta: "cuda_runtime" and
 * "cuda_driver", versions as "13.0", and "cuda_device_max_connections", as it is set. */
void orr__cuda_probe_notes(const struct orr__cuda_api *api, orr_backend_note note, void *context);

/* Opens each library of a table of real ones: a row with its path and version, or why it isn't
 * there. */
void orr__cuda_probe_libraries(struct orr__cuda_api *api, struct orr_cuda_machine *machine);

/* A row for a library that isn't there. */
void orr__cuda_note_missing(struct orr_cuda_machine *machine, enum orr__cuda_library library,
                            const struct orr_error *error);

#endif
