#include "runtime/cuda/times_internal.h"

enum {
    ORIGIN_PERIOD_NS = 1000000000, /* cudaEventElapsedTime is a float of ms: 61 ns apart at 1 s */
    ORIGIN_SAMPLES_FIRST = 8,      /* the first ones pay for what is set up lazily */
    ORIGIN_SAMPLES = 3,
    ORIGINS_MAX = 1 << 24, /* half a year of them */
    EVENTS_MAX = 1 << 24
};

static bool create_event(struct orr__cuda_times *times, cudaEvent_t *out_event) {
    *out_event = NULL;
    return orr__cuda_times_worked(
        times, times->api->rt.cudaEventCreateWithFlags(out_event, cudaEventDefault),
        "cudaEventCreateWithFlags");
}

static void destroy_event(struct orr__cuda_times *times, cudaEvent_t event) {
    if (event)
        (void)orr__cuda_times_worked(times, times->api->rt.cudaEventDestroy(event),
                                     "cudaEventDestroy");
}

/* An event that happens at once, between two looks at the host's clock. */
static bool sample(struct orr__cuda_times *times, struct orr__cuda_clock *clock, cudaEvent_t event,
                   int64_t *out_before_ns, int64_t *out_after_ns) {
    const struct orr__cuda_runtime_table *rt = &times->api->rt;
    *out_before_ns = orr__cuda_times_now(times);
    if (!orr__cuda_times_worked(times, rt->cudaEventRecord(event, clock->stream),
                                "cudaEventRecord") ||
        !orr__cuda_times_worked(times, rt->cudaEventSynchronize(event), "cudaEventSynchronize"))
        return false;
    *out_after_ns = orr__cuda_times_now(times);
    return true;
}

/* The narrowest bracket of several samples. Its middle is off by half its width at most. */
static bool take_origin(struct orr__cuda_times *times, struct orr__cuda_clock *clock, int samples) {
    if (orr_memory_grow(times->memory, &clock->origins, &clock->origin_capacity,
                        clock->origin_count + 1, sizeof *clock->origins, ORIGINS_MAX) != ORR_OK) {
        orr__cuda_times_failed(times, "out of host memory for a GPU's clock");
        return false;
    }
    cudaEvent_t best = NULL, spare = NULL;
    int64_t best_ns = 0, width_ns = INT64_MAX;
    bool worked = create_event(times, &best) && create_event(times, &spare);
    for (int i = 0; i < samples && worked; i++) {
        int64_t before_ns = 0, after_ns = 0;
        worked = sample(times, clock, spare, &before_ns, &after_ns);
        if (!worked || after_ns - before_ns >= width_ns)
            continue;
        width_ns = after_ns - before_ns;
        best_ns = before_ns + width_ns / 2;
        cudaEvent_t narrowest = spare;
        spare = best;
        best = narrowest;
    }
    destroy_event(times, spare);
    if (!worked) {
        destroy_event(times, best);
        return false;
    }
    clock->origins[clock->origin_count++] =
        (struct orr__cuda_origin){.event = best, .host_ns = best_ns};
    times->counts.origins++;
    if ((width_ns + 1) / 2 > times->counts.clock_error_ns)
        times->counts.clock_error_ns = (width_ns + 1) / 2;
    return true;
}

/* The stream has the highest priority, so that origins wait for nobody's kernels. */
static bool open_stream(struct orr__cuda_times *times, struct orr__cuda_clock *clock) {
    const struct orr__cuda_runtime_table *rt = &times->api->rt;
    int least = 0, greatest = 0;
    return orr__cuda_times_worked(times, rt->cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                  "cudaDeviceGetStreamPriorityRange") &&
           orr__cuda_times_worked(
               times,
               rt->cudaStreamCreateWithPriority(&clock->stream, cudaStreamNonBlocking, greatest),
               "cudaStreamCreateWithPriority");
}

static struct orr__cuda_clock *clock_of(struct orr__cuda_times *times, uint32_t gpu) {
    if (orr_memory_grow(times->memory, &times->clocks, &times->clock_capacity, (size_t)gpu + 1,
                        sizeof *times->clocks, ORR_CUDA_GPUS_MAX) == ORR_OK)
        return &times->clocks[gpu];
    orr__cuda_times_failed(times, "out of host memory for a GPU's clock");
    return NULL;
}

uint32_t orr__cuda_clock_origin(struct orr__cuda_times *times, uint32_t gpu) {
    struct orr__cuda_clock *clock = clock_of(times, gpu);
    if (!clock || clock->broken)
        return 0;
    if (!clock->stream)
        clock->broken =
            !open_stream(times, clock) || !take_origin(times, clock, ORIGIN_SAMPLES_FIRST);
    else if (orr__cuda_times_now(times) - clock->origins[clock->origin_count - 1].host_ns >=
             ORIGIN_PERIOD_NS)
        clock->broken = !take_origin(times, clock, ORIGIN_SAMPLES);
    return clock->broken ? 0 : (uint32_t)clock->origin_count;
}

/* Room to take it back is made with the event, so that giving it back can't fail. */
static cudaEvent_t take_event(struct orr__cuda_times *times, struct orr__cuda_clock *clock) {
    if (clock->idle_count > 0)
        return clock->idle[--clock->idle_count];
    if (orr_memory_grow(times->memory, &clock->idle, &clock->idle_capacity, clock->event_count + 1,
                        sizeof(cudaEvent_t), EVENTS_MAX) != ORR_OK) {
        orr__cuda_times_failed(times, "out of host memory for events");
        return NULL;
    }
    cudaEvent_t event = NULL;
    if (create_event(times, &event))
        clock->event_count++;
    return event;
}

cudaEvent_t orr__cuda_clock_record(struct orr__cuda_times *times, uint32_t gpu,
                                   cudaStream_t stream) {
    struct orr__cuda_clock *clock = &times->clocks[gpu];
    cudaEvent_t event = take_event(times, clock);
    if (!event || orr__cuda_times_worked(times, times->api->rt.cudaEventRecord(event, stream),
                                         "cudaEventRecord"))
        return event;
    clock->idle[clock->idle_count++] = event;
    return NULL;
}

void orr__cuda_clock_give(struct orr__cuda_times *times, uint32_t gpu, cudaEvent_t event) {
    struct orr__cuda_clock *clock = &times->clocks[gpu];
    clock->idle[clock->idle_count++] = event;
}

bool orr__cuda_clock_read(struct orr__cuda_times *times, uint32_t gpu, uint32_t origin,
                          cudaEvent_t event, int64_t *out_ns) {
    const struct orr__cuda_origin *from = &times->clocks[gpu].origins[origin - 1];
    float ms = 0;
    if (!orr__cuda_times_worked(times, times->api->rt.cudaEventElapsedTime(&ms, from->event, event),
                                "cudaEventElapsedTime"))
        return false;
    double ns = (double)ms * 1e6;
    *out_ns = from->host_ns + (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
    return true;
}

static void close_clock(struct orr__cuda_times *times, struct orr__cuda_clock *clock) {
    for (size_t i = 0; i < clock->origin_count; i++)
        destroy_event(times, clock->origins[i].event);
    for (size_t i = 0; i < clock->idle_count; i++)
        destroy_event(times, clock->idle[i]);
    if (clock->stream)
        (void)orr__cuda_times_worked(times, times->api->rt.cudaStreamDestroy(clock->stream),
                                     "cudaStreamDestroy");
    orr_memory_free(times->memory, clock->origins);
    orr_memory_free(times->memory, clock->idle);
}

void orr__cuda_clocks_close(struct orr__cuda_times *times) {
    for (size_t i = 0; i < times->clock_capacity; i++)
        close_clock(times, &times->clocks[i]);
    orr_memory_free(times->memory, times->clocks);
}
