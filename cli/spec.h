/* What to run on: the SPEC of --devices.
 *
 *     SPEC = PART { "+" PART }
 *     PART = "sim:" MACHINE [ "*" N ]       a built-in machine, or a path to a machine file
 *          | "cpu" [ "*" N ]
 *          | "cuda:" GPUS [ "*" N ]         GPUs as the driver counts those that are visible
 *     GPUS = RANGE { "," RANGE },  RANGE = GPU [ "-" GPU ]
 *
 * A machine may stand for several devices: sim:dgx-h100*128 is 128 nodes, 1,024 devices. Each GPU
 * that a part names hosts N logical devices, one after another: cuda:0-1*2 is cuda:0,0,1,1. Parts
 * of one run have one backend. The plugin for GPUs is opened, and asked what there is, once a part
 * names one.
 *
 * Threads: one. */
#ifndef ORR_CLI_SPEC_H
#define ORR_CLI_SPEC_H

#include <stdbool.h>

#include "cli/cli.h"
#include "runtime/backend.h"
#include "runtime/cuda/plugin.h"
#include "sim/profiled/profiled.h"

/* Without --devices, and without a line "-- devices: SPEC" in the scenario. */
#define ORR_SPEC_DEFAULT "sim:h100"

enum { ORR_SPEC_DEVICES_MAX = 1 << 17 };

struct orr_spec {
    orr_backend_open open;
    bool virtual_clock;              /* the backend's time is simulated */
    struct orr_device_spec *devices; /* owned */
    size_t device_count, device_capacity;
    char name[ORR_DEVICE_NAME_MAX]; /* machine of the first part */
    uint32_t *gpus;                 /* of a run on GPUs: by device, the GPU that hosts it; owned */
    size_t gpu_capacity;
    struct orr_cuda_options cuda;         /* as they were given, with the GPUs */
    const void *options;                  /* what `open` takes: &cuda, &profiled or NULL */
    struct orr_profiled_options profiled; /* of a serial profile */
};

/* Parses a SPEC; `cuda` (NULL: defaults) says how to run on GPUs, its texts are borrowed until
 * clear. The spec stays where it is: `options` points into it. ORR_EXIT_USAGE for one that is no
 * SPEC, ORR_EXIT_INPUT for an unknown or wrong machine, ORR_EXIT_UNAVAILABLE for a backend that is
 * not here or a GPU that can't be used, ORR_EXIT_FAILED without memory; the text is in *error. Free
 * with orr_spec_clear in any case. */
enum orr_exit orr_spec_parse(const char *text, const struct orr_cuda_options *cuda,
                             const struct orr_memory *memory, struct orr_spec *out_spec,
                             struct orr_error *error);

/* Makes a parsed spec one that measures each command alone on its devices, and simulates as many of
 * them as it has (sim/profiled/profiled.h). ORR_EXIT_USAGE for simulated devices, on which there is
 * nothing to measure. */
enum orr_exit orr_spec_profile(struct orr_spec *spec, struct orr_error *error);

/* Frees what it owns. */
void orr_spec_clear(struct orr_spec *spec, const struct orr_memory *memory);

#endif
