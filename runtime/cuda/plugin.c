#include "runtime/cuda/plugin.h"

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/probe.h"

static const char *cudart_of(const struct orr_cuda_options *options) {
    return options ? options->cudart : NULL;
}

static void release(struct orr__cuda_api *api) {
    orr__cuda_library_close(&api);
}

/* The table is opened for this one backend, which releases it when it is closed. */
static enum orr_status open(const struct orr_backend_config *config,
                            struct orr_backend **out_backend, struct orr_error *error) {
    struct orr__cuda_api *api;
    uint32_t gpus;
    *out_backend = NULL;
    orr__cuda_set_environment();
    enum orr_status status =
        orr__cuda_library_open(cudart_of(config->options), config->memory, &api, error);
    if (status != ORR_OK)
        return status;
    api->release = release;
    status = orr__cuda_probe_gpus(api, &gpus, error);
    if (status == ORR_OK)
        status = orr__cuda_open(api, config, out_backend, error);
    if (status != ORR_OK)
        orr__cuda_library_close(&api);
    return status;
}

static enum orr_status probe(const struct orr_cuda_options *options, bool libraries,
                             struct orr_cuda_machine *out_machine, struct orr_error *error) {
    struct orr_memory memory = orr_memory_system();
    struct orr__cuda_api *api;
    struct orr_error reason = {0};
    orr__cuda_machine_clear(out_machine);
    orr__cuda_set_environment();
    enum orr_status status = orr__cuda_library_open(cudart_of(options), &memory, &api, &reason);
    if (status != ORR_OK) {
        orr__cuda_note_missing(out_machine, ORR__CUDA_RUNTIME, &reason);
        return orr_error_set(error, status, "%s", reason.text);
    }
    status = orr__cuda_probe(api, out_machine, error);
    if (libraries)
        orr__cuda_probe_libraries(api, out_machine);
    orr__cuda_library_close(&api);
    return status;
}

/* The function that plugin.map exports. */
const struct orr_cuda_plugin *orr_backend_get(void) {
    static const struct orr_cuda_plugin plugin = {
        .abi = ORR_BACKEND_ABI, .open = open, .probe = probe};
    return &plugin;
}
