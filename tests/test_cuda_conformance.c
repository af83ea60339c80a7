/* The CUDA backend against the conformance suite, over both engines of the fake devices. Kernels of
 * the suite are host functions here, and their operands pinned memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda_internal.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/conformance.h"

/* test_cuda_collectives.c tries them with more. */
enum { RANKS_MAX = 2 };

/* The fake's host functions take a fixed time, so that a slow kernel of the suite gets something
 * slow before it. */
static enum orr_status submit_slowly(struct orr_backend *base, uint32_t id,
                                     const struct orr_command *command,
                                     const struct orr_point *waits, uint32_t wait_count,
                                     struct orr_point *out_point, struct orr_error *error) {
    struct orr__k_spin spin = {.ns = CONFORMANCE_SLOW_NS};
    struct cuda_stream *stream = orr__cuda(base)->streams[id];
    if (command->service_ns == CONFORMANCE_SLOW_NS && !stream->destroyed) {
        enum orr_status status = orr__cuda_use(stream->backend, stream->device->gpu, error);
        if (status == ORR_OK)
            status = orr__cuda_launch(&stream->queue, ORR__K_spin, 1, 32, 0, &spin, error);
        if (status != ORR_OK)
            return status;
    }
    return orr__cuda_submit(base, id, command, waits, wait_count, out_point, error);
}

static struct orr_fake_cuda *fake;

static void must_be_nothing_left(void) {
    static const struct orr_fake_cuda_census nothing;
    struct orr_fake_cuda_census census = orr_fake_cuda_census(fake);
    if (memcmp(&census, &nothing, sizeof census) == 0)
        return;
    printf("# the last backend left something behind: %llu blocks, %llu of the host, %llu streams, "
           "%llu events, %llu libraries, %llu pools\n",
           (unsigned long long)census.allocations, (unsigned long long)census.host_allocations,
           (unsigned long long)census.streams, (unsigned long long)census.events,
           (unsigned long long)census.libraries, (unsigned long long)census.pools);
    abort();
}

static enum orr_status open_over_fake(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    must_be_nothing_left();
    return orr__cuda_open(orr_fake_cuda_api(fake), config, out_backend, error);
}

static enum orr_status open_simulated(const struct orr_backend_config *config,
                                      struct orr_backend **out_backend, struct orr_error *error) {
    enum orr_status status = open_over_fake(config, out_backend, error);
    if (status == ORR_OK)
        orr__cuda(*out_backend)->verbs.submit = submit_slowly;
    return status;
}

static int run(enum orr_fake_engine engine, const struct conformance_target *target) {
    const struct orr_memory memory = orr_memory_system();
    const struct orr_fake_cuda_options options = {.engine = engine};
    struct orr_error error = {0};
    if (orr_fake_cuda_open(&options, &memory, &fake, &error) != ORR_OK) {
        printf("# the fake: %s\n", error.text);
        return 1;
    }
    int failed = conformance_run(target);
    if (failed == 0)
        must_be_nothing_left();
    orr_fake_cuda_close(&fake);
    return failed;
}

static const struct conformance_exception unsupported[] = {
    {"timing_only_computes_nothing_and_has_no_memory",
     "a run that is timing only is refused: a GPU has nothing to time then"},
    {NULL, NULL}};

int main(void) {
    static const struct conformance_target threads = {.name = "conformance of cuda over threads",
                                                      .open = open_over_fake,
                                                      .ranks_max = RANKS_MAX,
                                                      .unsupported = unsupported};
    static const struct conformance_target simulated = {
        .name = "conformance of cuda over the simulator",
        .open = open_simulated,
        .virtual_time = true,
        .ranks_max = RANKS_MAX,
        .unsupported = unsupported};
    return run(ORR_FAKE_THREADS, &threads) + run(ORR_FAKE_SIMULATED, &simulated);
}
