/* The door of the plugin, orrery-cuda.so: the one function that it exports.
 *
 * The program and the library contain no symbol of CUDA. Whoever wants GPUs opens the plugin with
 * dlopen, and passes on what it gives:
 *
 *     const struct orr_cuda_plugin *(*get)(void) = dlsym(library, "orr_backend_get");
 *     const struct orr_cuda_plugin *plugin = get();
 *     if (plugin->abi != ORR_BACKEND_ABI) ...
 *     struct orr_cuda_options options = {.gpus = gpus, .timestamps = ORR_CUDA_TIMESTAMPS_AUTO};
 *     plugin->probe(&options, &memory, &machine, &error);       what is there
 *     config.open = plugin->open; config.options = &options;    run on it
 *
 * This header includes nothing of CUDA's.
 *
 * Threads: as the backend. */
#ifndef ORR_RUNTIME_CUDA_PLUGIN_H
#define ORR_RUNTIME_CUDA_PLUGIN_H

#include "runtime/backend.h"

enum { ORR_CUDA_GPUS_MAX = 64, ORR_CUDA_TEXT_MAX = 256 };

/* Where device times come from: the best there is, or exactly this one (ORR_UNAVAILABLE if it isn't
 * there). */
enum orr_cuda_timestamps {
    ORR_CUDA_TIMESTAMPS_AUTO,
    ORR_CUDA_TIMESTAMPS_CUPTI,
    ORR_CUDA_TIMESTAMPS_EVENTS,
    ORR_CUDA_TIMESTAMPS_BOTH, /* CUPTI's, compared with those of events: for checks of both */
    ORR_CUDA_TIMESTAMPS_HOST  /* when the host learned of it: for checks of everything else */
};

/* How collectives are done: by NCCL if each logical device has a GPU of its own, else emulated; or
 * always emulated; or by NCCL or not at all. */
enum orr_cuda_collectives {
    ORR_CUDA_COLLECTIVES_AUTO,
    ORR_CUDA_COLLECTIVES_EMULATED,
    ORR_CUDA_COLLECTIVES_NCCL
};

/* `options` of struct orr_backend_config. Borrowed until close. */
struct orr_cuda_options {
    const uint32_t *gpus; /* by logical device: the GPU that hosts it; NULL: all on GPU 0 */
    enum orr_cuda_timestamps timestamps;
    enum orr_cuda_collectives collectives;
    bool no_graphs;     /* launches of programs enqueue their commands one by one */
    const char *cudart; /* path of the CUDA runtime library; NULL: it is searched for */
};

/* A GPU, as the driver describes it. */
struct orr_cuda_gpu {
    char name[ORR_CUDA_TEXT_MAX]; /* "NVIDIA H200" */
    int capability;               /* 90: compute capability 9.0 */
    uint32_t sm_count;
    uint64_t memory_bytes, bandwidth, l2_bytes; /* bandwidth: byte/s, 0 unknown */
    uint32_t clock_khz, copy_engines;
};

/* A library of the toolkit and what was found of it. */
struct orr_cuda_library {
    char name[32];                    /* "CUDA runtime", "cuBLAS", ... */
    char path[ORR_CUDA_TEXT_MAX];     /* "" if it is not there */
    char version[32];                 /* "13.0" */
    char missing[ORR_ERROR_TEXT_MAX]; /* why it is not there */
};

enum { ORR_CUDA_LIBRARIES_MAX = 8 };

/* What is there. Filled as far as it can be, also if the probe fails. */
struct orr_cuda_machine {
    int runtime_version, driver_version; /* 13000; 0 unknown */
    uint32_t gpu_count;
    struct orr_cuda_gpu gpus[ORR_CUDA_GPUS_MAX];
    uint32_t library_count;
    struct orr_cuda_library libraries[ORR_CUDA_LIBRARIES_MAX];
    char architectures[ORR_CUDA_TEXT_MAX]; /* that the plugin has code for: "80 90 100" */
};

struct orr_cuda_plugin {
    uint32_t abi; /* ORR_BACKEND_ABI */
    orr_backend_open open;
    /* Looks without running anything. ORR_UNAVAILABLE with one clear line if nothing could run:
     * no driver, a stub, too old a driver, no visible GPU, no toolkit library. `libraries` opens
     * every library to tell its version (cuBLAS takes 0.1 s); else only the CUDA runtime. */
    enum orr_status (*probe)(const struct orr_cuda_options *options, bool libraries,
                             struct orr_cuda_machine *out_machine, struct orr_error *error);
};

/* The plugin's only door; static storage. Found with dlsym: nobody links it. */
const struct orr_cuda_plugin *orr_backend_get(void);

#endif
