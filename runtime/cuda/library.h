/* NVIDIA's libraries, opened at run time: fills the tables of api.h.
 *
 * Where the CUDA runtime is looked for, in this order: the path that was asked for, and then
 * nowhere else; the folders of LD_LIBRARY_PATH, which the user names for this very process;
 * $CUDA_HOME and $CUDA_PATH, each with lib64 and lib; wherever the loader finds it. Only the major
 * version of the toolkit that this was built with will do, because types differ between majors.
 * The other libraries are looked for beside the runtime that was found first, so that all are of
 * one toolkit. A library once opened stays in the process: it has threads and exit handlers of its
 * own.
 *
 *     struct orr__cuda_api *api;
 *     status = orr__cuda_library_open(options->cudart, memory, &api, error);
 *     ... orr__cuda_need(api, ORR__CUDA_NCCL, error) ...
 *     orr__cuda_library_close(&api);
 *
 * Threads: the host's. */
#ifndef ORR_RUNTIME_CUDA_LIBRARY_H
#define ORR_RUNTIME_CUDA_LIBRARY_H

#include "runtime/cuda/api.h"
#include "runtime/memory.h"

/* A table with the CUDA runtime's entry points; `cudart` is its path, or NULL: search. Owned, freed
 * by orr__cuda_library_close after every backend over it; `release` is NULL, and whoever sets it
 * leaves the table to a backend (api.h). ORR_UNAVAILABLE with every path tried and what was wrong
 * with it; ORR_NO_MEMORY. */
enum orr_status orr__cuda_library_open(const char *cudart, const struct orr_memory *memory,
                                       struct orr__cuda_api **out_api,
                                       struct orr_error *error) ORR_MUST_CHECK;

/* Nulls; accepts NULL. The libraries stay loaded. */
void orr__cuda_library_close(struct orr__cuda_api **api);

/* The file of a library that is loaded, else "". Of an api that was opened here. */
const char *orr__cuda_library_path(const struct orr__cuda_api *api, enum orr__cuda_library library);

/* "CUDA runtime", "cuBLAS", ...: for people. */
const char *orr__cuda_library_name(enum orr__cuda_library library);

#endif
