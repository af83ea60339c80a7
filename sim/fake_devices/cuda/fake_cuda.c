/* Opening and closing; the table. */
#include "sim/fake_devices/cuda/fake_cuda.h"

#include <assert.h>
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

/* The fake that entry points mean: CUDA's functions have no argument to say so. */
static struct orr_fake_cuda *current;

static const uint64_t memory_bytes_default = UINT64_C(16) << 30;

struct orr_fake_cuda *orr__fake_current(void) {
    if (!current) {
        current = orr__fake_shim_open();
    }
    return current;
}

bool orr__fake_may_call(const struct orr_fake_cuda *fake) {
    return pthread_equal(pthread_self(), fake->host) && !fake->inside;
}

cudaError_t orr__fake_found(struct orr_fake_cuda *fake) {
    return (cudaError_t)atomic_load_explicit(&fake->device_error, memory_order_relaxed);
}

static int64_t api_now(const struct orr__cuda_api *api) {
    return orr__fake_now(api->context);
}

static void api_rest(const struct orr__cuda_api *api, int64_t ns) {
    const struct orr_fake_cuda *fake = api->context;
    fake->engine->verbs->rest(fake->engine, ns);
}

static bool is_installed(const struct orr_fake_cuda *fake, enum orr__cuda_library library) {
    switch (library) {
    case ORR__CUDA_RUNTIME: return true;
    case ORR__CUDA_BLAS:
    case ORR__CUDA_BLASLT: return !fake->options.no_blas;
    case ORR__CUDA_NCCL: return !fake->options.no_nccl;
    case ORR__CUDA_CUPTI: return !fake->options.no_cupti;
    default: return false;
    }
}

static enum orr_status api_load(struct orr__cuda_api *api, enum orr__cuda_library library,
                                struct orr_error *error) {
    static const char *const names[ORR__CUDA_LIBRARIES] = {"CUDA runtime", "cuBLAS", "cuBLASLt",
                                                           "NCCL", "CUPTI"};
    if (!is_installed(api->context, library)) {
        return orr_error_set(error, ORR_UNAVAILABLE,
                             "%s is not installed with the fake CUDA devices", names[library]);
    }
    switch (library) {
#define FILL(function) api->rt.function = function;
    case ORR__CUDA_RUNTIME: ORR__CUDA_RUNTIME_LIST(FILL) break;
#undef FILL
#define FILL(function) api->blas.function = function;
    case ORR__CUDA_BLAS: ORR__CUDA_BLAS_LIST(FILL) break;
#undef FILL
#define FILL(function) api->lt.function = function;
    case ORR__CUDA_BLASLT: ORR__CUDA_BLASLT_LIST(FILL) break;
#undef FILL
#define FILL(function) api->nccl.function = function;
    case ORR__CUDA_NCCL: ORR__CUDA_NCCL_LIST(FILL) break;
#undef FILL
#define FILL(function) api->cupti.function = function;
    case ORR__CUDA_CUPTI: ORR__CUDA_CUPTI_LIST(FILL) break;
#undef FILL
    default: break;
    }
    api->loaded[library] = true;
    return ORR_OK;
}

static enum orr_status open_engine(struct orr_fake_cuda *fake, struct orr_error *error) {
    struct orr__fake_engine_config config = {.memory = fake->memory,
                                             .device_count = fake->options.gpu_count,
                                             .seed = fake->options.seed,
                                             .jitter_ns = fake->options.jitter_ns,
                                             .device_error = &fake->device_error,
                                             .inside = &fake->inside};
    return fake->options.engine == ORR_FAKE_SIMULATED
               ? orr__fake_engine_simulated(&config, &fake->engine, error)
               : orr__fake_engine_threads(&config, &fake->engine, error);
}

static enum orr_status fill(struct orr_fake_cuda *fake, struct orr_error *error) {
    enum orr_status status =
        orr__fake_faults_parse(fake->options.faults, fake->faults, &fake->fault_count, error);
    fake->options.faults = NULL; /* borrowed for the call */
    if (status == ORR_OK && fake->options.gpu_count > ORR__FAKE_GPUS_MAX) {
        status = orr_error_set(error, ORR_INVALID, "a fake machine has at most %d GPUs",
                               ORR__FAKE_GPUS_MAX);
    }
    if (status == ORR_OK) {
        status = orr__fake_memory_open(fake);
    }
    if (status == ORR_NO_MEMORY) {
        return orr_error_set(error, status, "no memory for the fake CUDA devices");
    }
    return status == ORR_OK ? open_engine(fake, error) : status;
}

static void free_all(struct orr_fake_cuda *fake) {
    orr__fake_graphs_close(fake);
    if (fake->engine) {
        orr__fake_streams_close(fake);
    }
    orr__fake_events_close(fake);
    for (int i = 0; i < ORR__CUDA_LIBRARIES; i++) {
        if (fake->libraries[i].close) {
            fake->libraries[i].close(fake, fake->libraries[i].state);
        }
        orr_memory_free(fake->memory, fake->libraries[i].state);
    }
    orr__fake_memory_close(fake);
    orr__fake_codes_close(fake);
    if (fake->engine) {
        fake->engine->verbs->close(fake->engine);
    }
    orr_memory_free(fake->memory, fake);
}

enum orr_status orr_fake_cuda_open(const struct orr_fake_cuda_options *options,
                                   const struct orr_memory *memory, struct orr_fake_cuda **out_fake,
                                   struct orr_error *error) {
    *out_fake = NULL;
    if (current) {
        return orr_error_set(error, ORR_INVALID, "a fake CUDA is open already in this process");
    }
    struct orr_fake_cuda *fake = orr_memory_alloc(memory, sizeof *fake);
    if (!fake) {
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for the fake CUDA devices");
    }
    fake->options = *options;
    fake->options.gpu_count = options->gpu_count ? options->gpu_count : 1;
    fake->options.memory_bytes =
        options->memory_bytes ? options->memory_bytes : memory_bytes_default;
    fake->memory = memory;
    fake->random = options->seed;
    fake->host = pthread_self();
    fake->api =
        (struct orr__cuda_api){.load = api_load, .now = api_now, .rest = api_rest, .context = fake};
    enum orr_status status = fill(fake, error);
    if (status == ORR_OK) {
        status = api_load(&fake->api, ORR__CUDA_RUNTIME, error);
    }
    if (status != ORR_OK) {
        free_all(fake);
        return status;
    }
    *out_fake = current = fake;
    return ORR_OK;
}

void orr_fake_cuda_close(struct orr_fake_cuda **fake) {
    if (*fake) {
        assert(*fake == current);
        free_all(*fake);
        current = NULL;
    }
    *fake = NULL;
}

struct orr__cuda_api *orr_fake_cuda_api(struct orr_fake_cuda *fake) {
    return &fake->api;
}

struct orr_fake_cuda_census orr_fake_cuda_census(const struct orr_fake_cuda *fake) {
    return fake->census;
}

uint64_t orr_fake_cuda_calls(const struct orr_fake_cuda *fake, const char *function) {
    for (enum orr__fake_function i = 0; i < ORR__FAKE_FUNCTION_COUNT; i++) {
        if (strcmp(orr__fake_function_text(i), function) == 0 ||
            strcmp(orr__fake_function_symbol(i), function) == 0) {
            return fake->calls[i];
        }
    }
    return 0;
}

void *orr__fake_library(struct orr_fake_cuda *fake, enum orr__cuda_library library, size_t bytes,
                        void (*close)(struct orr_fake_cuda *fake, void *state)) {
    struct orr__fake_library *own = &fake->libraries[library];
    if (!own->state) {
        own->state = orr_memory_alloc(fake->memory, bytes);
        own->close = own->state ? close : NULL;
    }
    return own->state;
}
