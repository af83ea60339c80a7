#include "runtime/cuda/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/images.h"
#include "runtime/cuda/library.h"

#define MAX_CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"

void orr__cuda_set_environment(void) {
    (void)setenv(MAX_CONNECTIONS, "32", 0);
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

/* --- is there a GPU? --- */

static void version_text(int version, char *text, size_t size) {
    snprintf(text, size, "%d.%d", version / 1000, version % 1000 / 10);
}

static enum orr_status driver_insufficient(const struct orr__cuda_api *api,
                                           struct orr_error *error) {
    int driver = 0, runtime = 0;
    char has[16], needs[16];
    enum orr_status status =
        orr__cuda_check(api, api->rt.cudaDriverGetVersion(&driver), "cudaDriverGetVersion", error);
    if (status == ORR_OK)
        status = orr__cuda_check(api, api->rt.cudaRuntimeGetVersion(&runtime),
                                 "cudaRuntimeGetVersion", error);
    if (status != ORR_OK)
        return status;
    version_text(driver, has, sizeof has);
    version_text(runtime, needs, sizeof needs);
    if (driver == 0)
        return orr_error_set(error, ORR_UNAVAILABLE,
                             "no NVIDIA driver found (libcuda.so.1 is not installed or cannot be "
                             "loaded); CUDA runtime %s",
                             needs);
    return orr_error_set(error, ORR_UNAVAILABLE,
                         "the NVIDIA driver supports CUDA %s but this build needs %s", has, needs);
}

enum orr_status orr__cuda_probe_gpus(const struct orr__cuda_api *api, uint32_t *out_count,
                                     struct orr_error *error) {
    int count = 0;
    *out_count = 0;
    cudaError_t code = api->rt.cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver)
        return driver_insufficient(api, error);
    if (code == cudaErrorStubLibrary)
        return orr_error_set(error, ORR_UNAVAILABLE,
                             "libcuda.so.1 on the library path is the toolkit's link-time stub, "
                             "not a driver");
    if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
        return orr_error_set(error, ORR_UNAVAILABLE,
                             "there is an NVIDIA driver, but no CUDA device is visible "
                             "(CUDA_VISIBLE_DEVICES?)");
    struct orr_error reason = {0};
    if (orr__cuda_check(api, code, "cudaGetDeviceCount", &reason) != ORR_OK)
        return orr_error_set(error, ORR_UNAVAILABLE, "%s", reason.text);
    *out_count = (uint32_t)count;
    return ORR_OK;
}

/* --- what is it? --- */

/* cudaGetDeviceProperties writes a struct that grows: room for what a later minor version of the
 * same major adds behind the fields that are used here. */
union properties {
    struct cudaDeviceProp known;
    char room[4 * sizeof(struct cudaDeviceProp)];
};

static enum orr_status attribute(const struct orr__cuda_api *api, int gpu,
                                 enum cudaDeviceAttr attribute, int *out_value,
                                 struct orr_error *error) {
    *out_value = 0;
    return orr__cuda_check(api, api->rt.cudaDeviceGetAttribute(out_value, attribute, gpu),
                           "cudaDeviceGetAttribute", error);
}

static enum orr_status attributes(const struct orr__cuda_api *api, int index,
                                  struct orr_cuda_gpu *gpu, struct orr_error *error) {
    static const enum cudaDeviceAttr wanted[] = {cudaDevAttrComputeCapabilityMajor,
                                                 cudaDevAttrComputeCapabilityMinor,
                                                 cudaDevAttrMultiProcessorCount,
                                                 cudaDevAttrL2CacheSize,
                                                 cudaDevAttrClockRate,
                                                 cudaDevAttrMemoryClockRate,
                                                 cudaDevAttrGlobalMemoryBusWidth,
                                                 cudaDevAttrAsyncEngineCount};
    enum { MAJOR, MINOR, SMS, L2, CLOCK, MEMORY_CLOCK, BUS, ENGINES, COUNT };
    int values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        enum orr_status status = attribute(api, index, wanted[i], &values[i], error);
        if (status != ORR_OK)
            return status;
    }
    gpu->capability = 10 * values[MAJOR] + values[MINOR];
    gpu->sm_count = (uint32_t)values[SMS];
    gpu->l2_bytes = (uint64_t)values[L2];
    gpu->clock_khz = (uint32_t)values[CLOCK];
    gpu->copy_engines = (uint32_t)values[ENGINES];
    /* Two transfers a clock over the whole bus: NVIDIA's technical blog, "How to Query Device
     * Properties and Handle Errors in CUDA C/C++". kHz and bits. */
    gpu->bandwidth = 2 * (uint64_t)values[MEMORY_CLOCK] * 1000 * (uint64_t)values[BUS] / 8;
    return ORR_OK;
}

static enum orr_status describe(const struct orr__cuda_api *api, int index,
                                struct orr_cuda_gpu *gpu, struct orr_error *error) {
    union properties properties;
    memset(&properties, 0, sizeof properties);
    enum orr_status status =
        orr__cuda_check(api, api->rt.cudaGetDeviceProperties(&properties.known, index),
                        "cudaGetDeviceProperties", error);
    if (status != ORR_OK)
        return status;
    snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof properties.known.name - 1,
             properties.known.name);
    gpu->memory_bytes = properties.known.totalGlobalMem;
    return attributes(api, index, gpu, error);
}

void orr__cuda_machine_clear(struct orr_cuda_machine *machine) {
    *machine = (struct orr_cuda_machine){0};
    snprintf(machine->architectures, sizeof machine->architectures, "%s",
             orr__cuda_architectures());
}

enum orr_status orr__cuda_probe(const struct orr__cuda_api *api,
                                struct orr_cuda_machine *out_machine, struct orr_error *error) {
    uint32_t count;
    orr__cuda_machine_clear(out_machine);
    enum orr_status status =
        orr__cuda_check(api, api->rt.cudaRuntimeGetVersion(&out_machine->runtime_version),
                        "cudaRuntimeGetVersion", error);
    if (status == ORR_OK)
        status = orr__cuda_check(api, api->rt.cudaDriverGetVersion(&out_machine->driver_version),
                                 "cudaDriverGetVersion", error);
    if (status == ORR_OK)
        status = orr__cuda_probe_gpus(api, &count, error);
    if (status != ORR_OK)
        return status;
    count = count < ORR_CUDA_GPUS_MAX ? count : ORR_CUDA_GPUS_MAX;
    for (uint32_t i = 0; i < count && status == ORR_OK; i++) {
        status = describe(api, (int)i, &out_machine->gpus[i], error);
        out_machine->gpu_count += status == ORR_OK;
    }
    return status;
}

void orr__cuda_probe_notes(const struct orr__cuda_api *api, orr_backend_note note, void *context) {
    int version = 0;
    char text[16];
    if (api->rt.cudaRuntimeGetVersion(&version) == cudaSuccess) {
        version_text(version, text, sizeof text);
        note(context, "cuda_runtime", text);
    }
    if (api->rt.cudaDriverGetVersion(&version) == cudaSuccess) {
        version_text(version, text, sizeof text);
        note(context, "cuda_driver", text);
    }
    const char *connections = getenv(MAX_CONNECTIONS);
    if (connections)
        note(context, "cuda_device_max_connections", connections);
}

/* --- libraries --- */

/* cublasGetVersion wants no handle for this, as NVIDIA's own cublasGetProperty does; NCCL says
 * 22809 for 2.28.9. */
static void library_version(struct orr__cuda_api *api, enum orr__cuda_library library,
                            struct orr_cuda_library *row) {
    int version = 0;
    uint32_t cupti = 0;
    switch (library) {
    case ORR__CUDA_RUNTIME:
        if (api->rt.cudaRuntimeGetVersion(&version) == cudaSuccess)
            version_text(version, row->version, sizeof row->version);
        break;
    case ORR__CUDA_BLAS:
        if (api->blas.cublasGetVersion_v2(NULL, &version) == CUBLAS_STATUS_SUCCESS)
            snprintf(row->version, sizeof row->version, "%d.%d.%d", version / 10000,
                     version / 100 % 100, version % 100);
        break;
    case ORR__CUDA_NCCL:
        if (api->nccl.ncclGetVersion(&version) == ncclSuccess)
            snprintf(row->version, sizeof row->version, "%d.%d.%d", version / 10000,
                     version / 100 % 100, version % 100);
        break;
    case ORR__CUDA_CUPTI:
        if (api->cupti.cuptiGetVersion(&cupti) == CUPTI_SUCCESS)
            snprintf(row->version, sizeof row->version, "API %u", cupti);
        break;
    default: break;
    }
}

/* The next row, with the library's name. */
static struct orr_cuda_library *add_row(struct orr_cuda_machine *machine,
                                        enum orr__cuda_library library) {
    struct orr_cuda_library *row = &machine->libraries[machine->library_count++];
    *row = (struct orr_cuda_library){0};
    snprintf(row->name, sizeof row->name, "%s", orr__cuda_library_name(library));
    return row;
}

void orr__cuda_note_missing(struct orr_cuda_machine *machine, enum orr__cuda_library library,
                            const struct orr_error *error) {
    struct orr_cuda_library *row = add_row(machine, library);
    snprintf(row->missing, sizeof row->missing, "%s", error->text);
}

void orr__cuda_probe_libraries(struct orr__cuda_api *api, struct orr_cuda_machine *machine) {
    for (int i = 0; i < ORR__CUDA_LIBRARIES; i++) {
        enum orr__cuda_library library = (enum orr__cuda_library)i;
        struct orr_error error = {0};
        if (orr__cuda_need(api, library, &error) != ORR_OK) {
            orr__cuda_note_missing(machine, library, &error);
            continue;
        }
        struct orr_cuda_library *row = add_row(machine, library);
        snprintf(row->path, sizeof row->path, "%s", orr__cuda_library_path(api, library));
        library_version(api, library, row);
    }
}
