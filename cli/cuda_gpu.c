#include "cli/cuda_gpu.h"

#include <stdio.h>
#include <string.h>

#include "scenarios/machine.h"

/* What is kept back of a GPU's memory, for the driver's context, cuBLAS' workspaces, scratch and
 * NCCL's buffers; and what capacities are a multiple of, the size of the driver's pages. */
enum { KEPT_BACK = 16, PAGE_BYTES = 2 << 20 };

/* --- which machine it is --- */

/* Words that a GPU's name has, and one that it has not: variants with slower memory or links have
 * the same number. */
static const struct known {
    const char *word, *without, *machine;
} known[] = {
    {"NVIDIA H200", "NVL", "h200"},
    {"NVIDIA B200", "GB200", "b200"},
    {"NVIDIA H100 80GB HBM3", NULL, "h100-sxm"},
    {"NVIDIA A100-SXM", NULL, "a100-sxm"},
};

const char *orr_cuda_gpu_machine(const char *gpu_name) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(gpu_name, known[i].word) &&
            !(known[i].without && strstr(gpu_name, known[i].without)))
            return known[i].machine;
    return strcmp(gpu_name, "NVIDIA L4") == 0 ? "l4" : NULL; /* L40 and L40S are others */
}

/* --- what its attributes tell --- */

/* Multiplications with addition of one multiprocessor in a clock. Vector: CUDA C++ Programming
 * Guide, "Arithmetic Instructions", results of 32-bit and 64-bit floating-point multiply-add.
 * Matrix, f16 and bf16 with f32 sums, dense: NVIDIA's architecture whitepapers, peak rate of the
 * product divided by its multiprocessors and boost clock (A100: 312 TFLOP/s, 108, 1.41 GHz; A10:
 * 125, 72, 1.695; L4: 121, 58, 2.04; H100 SXM: 989, 132, 1.83). */
static const struct rate {
    int capability;
    uint32_t f32, f64, matrix16;
} rates[] = {{80, 64, 32, 1024}, {86, 128, 2, 512}, {89, 128, 2, 512}, {90, 128, 64, 2048}};

static void peaks(const struct orr_cuda_gpu *gpu, struct orr_device_spec *spec) {
    uint64_t clocks = (uint64_t)gpu->sm_count * gpu->clock_khz * 1000;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (rates[i].capability != gpu->capability)
            continue;
        spec->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 2 * clocks * rates[i].f32;
        spec->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F64] = 2 * clocks * rates[i].f64;
        spec->peak[ORR_UNIT_MATRIX][ORR_DTYPE_F16] = 2 * clocks * rates[i].matrix16;
        spec->peak[ORR_UNIT_MATRIX][ORR_DTYPE_BF16] = 2 * clocks * rates[i].matrix16;
    }
}

static enum orr_status base(const struct orr_cuda_gpu *gpu, const struct orr_memory *memory,
                            struct orr_device_spec *spec, struct orr_error *error) {
    const char *name = orr_cuda_gpu_machine(gpu->name);
    struct orr_machine *machine;
    *spec = (struct orr_device_spec){.kind = "gpu", .bandwidth = gpu->bandwidth};
    if (!name) {
        peaks(gpu, spec);
        return ORR_OK;
    }
    enum orr_status status = orr_machine_load(name, memory, &machine, error);
    if (status != ORR_OK)
        return status;
    *spec = machine->spec;
    orr_machine_destroy(&machine);
    return ORR_OK;
}

enum orr_status orr_cuda_gpu_spec(const struct orr_cuda_gpu *gpu, uint32_t index, uint32_t sharers,
                                  const struct orr_memory *memory, struct orr_device_spec *out_spec,
                                  struct orr_error *error) {
    enum orr_status status = base(gpu, memory, out_spec, error);
    if (status != ORR_OK)
        return status;
    snprintf(out_spec->name, sizeof out_spec->name, "%.*s", ORR_DEVICE_NAME_MAX - 1, gpu->name);
    uint64_t shared = gpu->memory_bytes - gpu->memory_bytes / KEPT_BACK;
    out_spec->memory_bytes = shared / sharers / PAGE_BYTES * PAGE_BYTES;
    out_spec->sm_count = gpu->sm_count;
    out_spec->l2_bytes = gpu->l2_bytes;
    out_spec->copy_engines = gpu->copy_engines;
    out_spec->hosted_by = index + 1;
    return ORR_OK;
}
