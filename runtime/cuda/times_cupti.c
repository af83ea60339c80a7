/* CUPTI's activity records.
 *
 * A buffer's life:   FREE --request--> LENT --complete--> queue --collect, on the host--> FREE
 *
 * The callbacks come from any thread, and allocate nothing: buffers are there from the start, and
 * change hands by their state. CUPTI passes no context to callbacks, as there is one of it in a
 * process; so `current` is the one variable of this backend that is no part of a struct. */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/cuda/times_internal.h"

enum {
    BUFFER_BYTES = 4 << 10, /* some 12 launches: a buffer stays away while one of them runs */
    BUFFERS = 1024,
    CLOCK_TOLERANCE_NS = 1000000
};

enum buffer_state { FREE, LENT, QUEUED };

struct buffer {
    _Atomic int state;     /* enum buffer_state */
    _Atomic uint64_t lent; /* number of the request that it answered */
    uint64_t order; /* of completion; both: who completes it until it is FULL, then the host */
    size_t bytes;
};

struct orr__cuda_cupti {
    struct orr__cuda_times *times;
    struct orr__cuda_activities activities;
    uint8_t *block; /* all buffers, each aligned to 8 bytes as CUPTI wants it */
    struct buffer buffers[BUFFERS];
    /* 1 + the index of buffers in order of completion; 0: not there yet. Never full. */
    _Atomic uint32_t queue[BUFFERS];
    _Atomic uint64_t requests, completed; /* of buffers, so far */
    uint64_t collected;
    uint64_t requests_before; /* when the command under way began */
    int64_t flush_ns;         /* when CUPTI was last asked for its records */
    bool attached;            /* CUPTI knows of the callbacks */
};

static _Atomic(struct orr__cuda_cupti *) current;

/* --- callbacks --- */

static uint64_t CUPTIAPI host_clock(void) {
    const struct orr__cuda_cupti *cupti = atomic_load(&current);
    return cupti ? (uint64_t)cupti->times->api->now(cupti->times->api) : 0;
}

/* Without a buffer CUPTI drops records, and counts them. */
static void CUPTIAPI request_buffer(uint8_t **out_buffer, size_t *out_size, size_t *out_records) {
    struct orr__cuda_cupti *cupti = atomic_load(&current);
    *out_buffer = NULL;
    *out_size = 0;
    *out_records = 0; /* as many as fit */
    uint64_t request = cupti ? atomic_fetch_add(&cupti->requests, 1) + 1 : 0;
    for (size_t tried = 0; cupti && tried < BUFFERS; tried++) {
        size_t i = (request + tried) % BUFFERS;
        int state = FREE;
        if (!atomic_compare_exchange_strong(&cupti->buffers[i].state, &state, LENT))
            continue;
        atomic_store(&cupti->buffers[i].lent, request);
        *out_buffer = cupti->block + i * BUFFER_BYTES;
        *out_size = BUFFER_BYTES;
        return;
    }
}

static void CUPTIAPI complete_buffer(CUcontext context, uint32_t stream, uint8_t *data, size_t size,
                                     size_t valid) {
    struct orr__cuda_cupti *cupti = atomic_load(&current);
    (void)context, (void)stream, (void)size;
    if (!cupti || !data)
        return;
    size_t index = (size_t)(data - cupti->block) / BUFFER_BYTES;
    cupti->buffers[index].bytes = valid;
    atomic_store(&cupti->buffers[index].state, QUEUED);
    uint64_t place = atomic_fetch_add(&cupti->completed, 1) % BUFFERS;
    atomic_store(&cupti->queue[place], (uint32_t)index + 1);
}

/* --- records --- */

static bool worked(struct orr__cuda_cupti *cupti, CUptiResult code, const char *call) {
    struct orr_error error = {0};
    if (orr__cupti_check(cupti->times->api, code, call, &error) == ORR_OK)
        return true;
    orr__cuda_times_failed(cupti->times, error.text);
    return false;
}

static void overhead(struct orr__cuda_cupti *cupti, CUpti_Activity *record) {
    CUpti_ActivityOverhead3 *cost = (CUpti_ActivityOverhead3 *)record;
    if (cost->end > cost->start)
        cupti->times->counts.overhead_ns += (int64_t)(cost->end - cost->start);
    free(cost->overheadData); /* CUPTI's own block, which its documentation gives to the client */
}

/* A command may have lost one of its kernels, and look complete without. */
static void lost(struct orr__cuda_cupti *cupti, uint64_t records) {
    cupti->times->counts.dropped += records;
    if (records > 0)
        orr__cuda_activities_distrust(&cupti->activities);
}

static void take_record(struct orr__cuda_cupti *cupti, CUpti_Activity *record) {
    struct orr__cuda_activities *to = &cupti->activities;
    enum orr_status status = ORR_OK;
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const CUpti_ActivityExternalCorrelation *r = (const void *)record;
        if (r->externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
            status = orr__cuda_activities_link(to, r->correlationId, r->externalId);
        break;
    }
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const CUpti_ActivityKernel10 *r = (const void *)record;
        status = orr__cuda_activities_ran(to, r->correlationId, r->start, r->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy6 *r = (const void *)record;
        status = orr__cuda_activities_ran(to, r->correlationId, r->start, r->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const CUpti_ActivityMemcpyPtoP4 *r = (const void *)record;
        status = orr__cuda_activities_ran(to, r->correlationId, r->start, r->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *r = (const void *)record;
        status = orr__cuda_activities_ran(to, r->correlationId, r->start, r->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: overhead(cupti, record); break;
    default: break; /* the calls themselves, whose times are known already */
    }
    if (status == ORR_OK)
        return;
    lost(cupti, 1);
    orr__cuda_times_failed(cupti->times, "out of host memory for CUPTI's records");
}

static void take_buffer(struct orr__cuda_cupti *cupti, uint8_t *data, size_t bytes) {
    const struct orr__cuda_cupti_table *table = &cupti->times->api->cupti;
    CUpti_Activity *record = NULL;
    CUptiResult code = CUPTI_SUCCESS;
    while (bytes > 0 && code == CUPTI_SUCCESS) {
        code = table->cuptiActivityGetNextRecord(data, bytes, &record);
        if (code == CUPTI_SUCCESS)
            take_record(cupti, record);
        else if (code != CUPTI_ERROR_MAX_LIMIT_REACHED &&
                 !worked(cupti, code, "cuptiActivityGetNextRecord"))
            lost(cupti, 1); /* at least */
    }
}

/* Takes what CUPTI has handed over. Buffers go back to it zeroed, as it was told they are. */
static void collect(struct orr__cuda_cupti *cupti) {
    uint64_t before = cupti->collected;
    uint32_t number;
    while ((number = atomic_exchange(&cupti->queue[cupti->collected % BUFFERS], 0)) > 0) {
        struct buffer *buffer = &cupti->buffers[number - 1];
        uint8_t *data = cupti->block + (size_t)(number - 1) * BUFFER_BYTES;
        take_buffer(cupti, data, buffer->bytes);
        memset(data, 0, buffer->bytes);
        cupti->collected++;
        atomic_store(&buffer->state, FREE);
    }
    if (cupti->collected == before)
        return;
    size_t dropped = 0;
    if (worked(cupti, cupti->times->api->cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped),
               "cuptiActivityGetNumDroppedRecords"))
        lost(cupti, dropped);
    cupti->times->counts.late = cupti->activities.late;
}

void orr__cuda_cupti_flush(struct orr__cuda_cupti *cupti) {
    cupti->flush_ns = orr__cuda_times_now(cupti->times);
    cupti->times->counts.flushes++;
    (void)worked(cupti, cupti->times->api->cupti.cuptiActivityFlushAll(0), "cuptiActivityFlushAll");
    collect(cupti);
}

/* --- commands --- */

uint64_t orr__cuda_cupti_begin(struct orr__cuda_cupti *cupti, uint32_t users) {
    collect(cupti);
    uint64_t ticket = orr__cuda_activities_begin(&cupti->activities, users);
    if (ticket == 0) {
        orr__cuda_times_failed(cupti->times, "out of host memory for CUPTI's records");
        return 0;
    }
    if (worked(cupti,
               cupti->times->api->cupti.cuptiActivityPushExternalCorrelationId(
                   CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, ticket),
               "cuptiActivityPushExternalCorrelationId")) {
        cupti->requests_before = atomic_load(&cupti->requests);
        return ticket;
    }
    for (uint32_t i = 0; i < users; i++)
        orr__cuda_activities_end(&cupti->activities, ticket);
    return 0;
}

/* The records that link a call are written by the calling thread, so those of a command are in one
 * buffer, and are handed over together, unless a buffer was asked for meanwhile. */
void orr__cuda_cupti_end(struct orr__cuda_cupti *cupti, uint64_t ticket) {
    uint64_t last = 0, requests = atomic_load(&cupti->requests);
    if (requests != cupti->requests_before)
        orr__cuda_activities_split(&cupti->activities, ticket, cupti->requests_before, requests);
    if (worked(cupti,
               cupti->times->api->cupti.cuptiActivityPopExternalCorrelationId(
                   CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last),
               "cuptiActivityPopExternalCorrelationId") &&
        last != ticket)
        orr__cuda_times_failed(cupti->times, "CUPTI mixed up external correlation ids");
}

/* Whether CUPTI still has one of the buffers that a command's records may be in: that which was in
 * use when it began, or one of those that were asked for since. */
static bool holds(const struct orr__cuda_cupti *cupti, const struct orr__cuda_split *split) {
    for (size_t i = 0; split->last > 0 && i < BUFFERS; i++) {
        uint64_t lent = atomic_load(&cupti->buffers[i].lent);
        if (atomic_load(&cupti->buffers[i].state) == LENT && lent >= split->first &&
            lent <= split->last)
            return true;
    }
    return false;
}

static bool complete(const struct orr__cuda_cupti *cupti, uint64_t ticket, uint64_t *out_start_ns,
                     uint64_t *out_finish_ns) {
    struct orr__cuda_split split;
    return orr__cuda_activities_complete(&cupti->activities, ticket, out_start_ns, out_finish_ns,
                                         &split) &&
           !holds(cupti, &split);
}

bool orr__cuda_cupti_read(struct orr__cuda_cupti *cupti, uint64_t ticket, int64_t observed_ns,
                          bool must, int64_t *out_start_ns, int64_t *out_finish_ns) {
    uint64_t start_ns = 0, finish_ns = 0;
    bool there = complete(cupti, ticket, &start_ns, &finish_ns);
    if (!there && must && cupti->flush_ns < observed_ns) {
        orr__cuda_cupti_flush(cupti);
        there = complete(cupti, ticket, &start_ns, &finish_ns);
    }
    *out_start_ns = (int64_t)start_ns - cupti->times->base_ns;
    *out_finish_ns = (int64_t)finish_ns - cupti->times->base_ns;
    return there;
}

void orr__cuda_cupti_release(struct orr__cuda_cupti *cupti, uint64_t ticket) {
    orr__cuda_activities_end(&cupti->activities, ticket);
}

/* --- set-up --- */

/* Calls that launch or copy. Records link a command to what ran only by way of its calls; those of
 * all other calls would only cost time. cuBLASLt launches by the driver's cuLaunchKernelEx
 * (flashinfer issue 2145: with runtime records alone its kernels belong to nobody). */
static const CUpti_CallbackId runtime_calls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000};
static const CUpti_CallbackId driver_calls[] = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                                CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMCPY2,
                                           CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_OVERHEAD};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Its records must be in our clock, whatever it would take by itself (CLOCK_REALTIME). */
static enum orr_status set_clock(struct orr__cuda_cupti *cupti, struct orr_error *error) {
    const struct orr__cuda_api *api = cupti->times->api;
    uint64_t stamp = 0;
    enum orr_status status =
        orr__cupti_check(api, api->cupti.cuptiActivityRegisterTimestampCallback(host_clock),
                         "cuptiActivityRegisterTimestampCallback", error);
    if (status == ORR_OK)
        status =
            orr__cupti_check(api, api->cupti.cuptiGetTimestamp(&stamp), "cuptiGetTimestamp", error);
    if (status != ORR_OK)
        return status;
    int64_t apart_ns = api->now(api) - (int64_t)stamp;
    if (apart_ns < 0 || apart_ns > CLOCK_TOLERANCE_NS)
        return orr_error_set(error, ORR_UNAVAILABLE,
                             "CUPTI's clock is %lld ns off the host's, which it was given",
                             (long long)apart_ns);
    return ORR_OK;
}

static enum orr_status set_buffers(struct orr__cuda_cupti *cupti, struct orr_error *error) {
    const struct orr__cuda_api *api = cupti->times->api;
    uint8_t zeroed = 1;
    size_t size = sizeof zeroed;
    enum orr_status status =
        orr__cupti_check(api,
                         api->cupti.cuptiActivitySetAttribute(
                             CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed),
                         "cuptiActivitySetAttribute", error);
    if (status == ORR_OK)
        status = orr__cupti_check(
            api, api->cupti.cuptiActivityRegisterCallbacks(request_buffer, complete_buffer),
            "cuptiActivityRegisterCallbacks", error);
    return status;
}

static enum orr_status enable(struct orr__cuda_cupti *cupti, struct orr_error *error) {
    const struct orr__cuda_api *api = cupti->times->api;
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < COUNT(runtime_calls) && status == ORR_OK; i++)
        status =
            orr__cupti_check(api, api->cupti.cuptiActivityEnableRuntimeApi(runtime_calls[i], 1),
                             "cuptiActivityEnableRuntimeApi", error);
    for (size_t i = 0; i < COUNT(driver_calls) && status == ORR_OK; i++)
        status = orr__cupti_check(api, api->cupti.cuptiActivityEnableDriverApi(driver_calls[i], 1),
                                  "cuptiActivityEnableDriverApi", error);
    for (size_t i = 0; i < COUNT(kinds) && status == ORR_OK; i++)
        status = orr__cupti_check(api, api->cupti.cuptiActivityEnable(kinds[i]),
                                  "cuptiActivityEnable", error);
    return status;
}

/* What is launched outside of commands belongs to nobody, which its records then say; else they
 * would be waited for, as those that came before the record that links them. */
static enum orr_status own_nothing(struct orr__cuda_cupti *cupti, struct orr_error *error) {
    const struct orr__cuda_api *api = cupti->times->api;
    return orr__cupti_check(api,
                            api->cupti.cuptiActivityPushExternalCorrelationId(
                                CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 0),
                            "cuptiActivityPushExternalCorrelationId", error);
}

/* The order of these calls is CUPTI's: the clock before any kind of record, all before the first
 * context (runtime/cuda/times.h). */
static enum orr_status attach(struct orr__cuda_cupti *cupti, struct orr_error *error) {
    struct orr__cuda_cupti *nobody = NULL;
    if (!atomic_compare_exchange_strong(&current, &nobody, cupti))
        return orr_error_set(error, ORR_UNAVAILABLE, "another run of this process uses CUPTI");
    cupti->attached = true;
    enum orr_status status = set_clock(cupti, error);
    if (status == ORR_OK)
        status = set_buffers(cupti, error);
    if (status == ORR_OK)
        status = enable(cupti, error);
    if (status == ORR_OK)
        status = own_nothing(cupti, error);
    return status;
}

enum orr_status orr__cuda_cupti_open(struct orr__cuda_times *times,
                                     struct orr__cuda_cupti **out_cupti, struct orr_error *error) {
    *out_cupti = NULL;
    enum orr_status status = orr__cuda_need(times->api, ORR__CUDA_CUPTI, error);
    if (status != ORR_OK)
        return status;
    struct orr__cuda_cupti *cupti = orr_memory_alloc(times->memory, sizeof *cupti);
    if (cupti)
        cupti->block = orr_memory_alloc(times->memory, (size_t)BUFFERS * BUFFER_BYTES);
    if (!cupti || !cupti->block) {
        orr_memory_free(times->memory, cupti);
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for CUPTI's records");
    }
    cupti->times = times;
    cupti->activities.memory = times->memory;
    cupti->flush_ns = -1;
    status = attach(cupti, error);
    if (status != ORR_OK)
        orr__cuda_cupti_close(&cupti);
    *out_cupti = cupti;
    return status == ORR_OK || status == ORR_NO_MEMORY ? status : ORR_UNAVAILABLE;
}

/* CUPTI must not call back any more: it is detached from the process, which also gives back buffers
 * that it still holds. What fails here concerns nobody any more. */
static void detach(struct orr__cuda_cupti *cupti) {
    const struct orr__cuda_cupti_table *table = &cupti->times->api->cupti;
    uint64_t last = 0;
    (void)table->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (size_t i = 0; i < COUNT(kinds); i++)
        (void)table->cuptiActivityDisable(kinds[i]);
    (void)table->cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                       &last);
    (void)table->cuptiFinalize();
    atomic_store(&current, NULL);
}

void orr__cuda_cupti_close(struct orr__cuda_cupti **handle) {
    struct orr__cuda_cupti *cupti = *handle;
    if (!cupti)
        return;
    if (cupti->attached)
        detach(cupti);
    const struct orr_memory *memory = cupti->times->memory;
    orr__cuda_activities_close(&cupti->activities);
    orr_memory_free(memory, cupti->block);
    orr_memory_free(memory, cupti);
    *handle = NULL;
}
