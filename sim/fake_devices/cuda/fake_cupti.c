/* Fake CUPTI: records of activity from what the fake's streams do.
 *
 * As in the real one a record is written into the client's buffer when its call is made, and
 * completed when the work is done; a buffer is handed back once it is full and every record in it
 * is complete, or when it is flushed, and a forced flush hands back incomplete ones, without times.
 * With a seed that is not 0 buffers are left early at any record, handed back in any order, and
 * launches have records both of the runtime's call and of the driver's below it. */
#include <assert.h>
#include <string.h>

#include "runtime/splitmix.h"
#include "sim/fake_devices/cuda/fake_internal.h"

enum {
    EXTERNAL_DEPTH = 8, /* ids that can be pushed */
    KINDS = 64,         /* of activity that are told apart */
    BUFFERS_MAX = 4096,
    OPEN_MAX = 1 << 20,
    MANY_BUFFERS = 12,     /* lent: then the fake looks whether one can be handed back */
    OVERHEAD_NS = 1000,    /* that it says a flush has cost */
    DRIVER_CALL = 1 << 30, /* correlation ids of calls below those of a library */
    DRIVER_LAUNCH = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx
};

/* Without a clock from the client, records are in another one: as CLOCK_REALTIME would be. */
static const int64_t other_clock_ns = 1700000000000000000;

/* A client's buffer that is being filled, or has records that aren't complete. */
struct lent {
    uint8_t *data;
    size_t size, used;
    uint32_t records, limit; /* so many, then it counts as full; 0: as many as fit */
    uint32_t open;           /* records that aren't complete */
    bool full;
};

/* A record that isn't complete. */
struct open {
    uint64_t work;
    CUpti_Activity *record;
    size_t buffer; /* index in `lent` */
};

struct cupti {
    struct orr_fake_cuda *fake;
    CUpti_TimestampCallbackFunc clock;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    bool zeroed;         /* the client gives zeroed buffers */
    bool enabled[KINDS]; /* by kind of activity */
    bool runtime_calls[ORR__FAKE_FUNCTION_COUNT];
    bool driver_launches;
    uint64_t external[EXTERNAL_DEPTH];
    uint32_t external_count;
    struct lent *lent; /* the last one is written to if it isn't full */
    size_t lent_count, lent_capacity;
    struct open *open;
    size_t open_count, open_capacity;
    uint64_t dropped, to_drop, random;
    uint32_t driver_calls;
};

static uint64_t draw(struct cupti *cupti, uint64_t below) {
    return orr_splitmix_next(&cupti->random) % below;
}

static uint64_t client_ns(const struct cupti *cupti, int64_t ns) {
    int64_t apart_ns =
        cupti->clock ? (int64_t)cupti->clock() - orr__fake_now(cupti->fake) : other_clock_ns;
    return (uint64_t)(ns + apart_ns);
}

/* --- buffers --- */

static struct lent *writable(struct cupti *cupti) {
    struct lent *last = cupti->lent_count > 0 ? &cupti->lent[cupti->lent_count - 1] : NULL;
    return last && !last->full ? last : NULL;
}

static struct lent *borrow(struct cupti *cupti) {
    struct lent lent = {0};
    size_t limit = 0;
    if (!cupti->request ||
        orr_memory_grow(cupti->fake->memory, &cupti->lent, &cupti->lent_capacity,
                        cupti->lent_count + 1, sizeof *cupti->lent, BUFFERS_MAX) != ORR_OK)
        return NULL;
    cupti->request(&lent.data, &lent.size, &limit);
    if (!lent.data)
        return NULL;
    assert(((uintptr_t)lent.data & 7) == 0 && lent.size >= sizeof(CUpti_ActivityKernel10));
    if (!cupti->zeroed)
        memset(lent.data, 0, lent.size);
    lent.limit = (uint32_t)limit;
    if (cupti->fake->options.seed != 0 && draw(cupti, 4) == 0)
        lent.limit = 1 + (uint32_t)draw(cupti, 24);
    cupti->lent[cupti->lent_count] = lent;
    return &cupti->lent[cupti->lent_count++];
}

/* Hands a buffer back. Records in it that aren't complete stay without times. */
static void hand_back(struct cupti *cupti, size_t index) {
    struct lent lent = cupti->lent[index];
    size_t kept = 0;
    cupti->lent_count--;
    memmove(&cupti->lent[index], &cupti->lent[index + 1],
            (cupti->lent_count - index) * sizeof *cupti->lent);
    for (size_t i = 0; i < cupti->open_count; i++) {
        struct open open = cupti->open[i];
        if (open.buffer == index)
            continue;
        open.buffer -= open.buffer > index ? 1 : 0;
        cupti->open[kept++] = open;
    }
    cupti->open_count = kept;
    if (cupti->complete)
        cupti->complete(NULL, 0, lent.data, lent.size, lent.used);
}

/* One that may go, in order or any of them; lent_count: none may. */
static size_t choose(struct cupti *cupti, bool all, bool incomplete) {
    size_t chosen = cupti->lent_count, count = 0;
    for (size_t i = 0; i < cupti->lent_count; i++) {
        const struct lent *lent = &cupti->lent[i];
        if ((!all && !lent->full) || (!incomplete && lent->open > 0))
            continue;
        if (chosen == cupti->lent_count ||
            (cupti->fake->options.seed != 0 && draw(cupti, ++count + 1) == 0))
            chosen = i;
    }
    return chosen;
}

static void hand_back_all(struct cupti *cupti, bool all, bool incomplete) {
    size_t index;
    while ((index = choose(cupti, all, incomplete)) < cupti->lent_count)
        hand_back(cupti, index);
}

/* --- writing records --- */

/* Whether this record is one of those that options.cupti_drops loses. */
static bool is_lost(struct cupti *cupti, CUpti_ActivityKind kind) {
    bool matters = kind != CUPTI_ACTIVITY_KIND_RUNTIME && kind != CUPTI_ACTIVITY_KIND_DRIVER &&
                   kind != CUPTI_ACTIVITY_KIND_OVERHEAD;
    if (cupti->to_drop == 0 || !matters || (cupti->fake->options.seed != 0 && draw(cupti, 4) != 0))
        return false;
    cupti->to_drop--;
    return true;
}

/* Room for a record, with its kind set; NULL: it is dropped. */
static CUpti_Activity *write_record(struct cupti *cupti, CUpti_ActivityKind kind, size_t bytes) {
    struct lent *lent = writable(cupti);
    if (is_lost(cupti, kind)) {
        cupti->dropped++;
        return NULL;
    }
    if (lent &&
        (lent->used + bytes > lent->size || (lent->limit > 0 && lent->records == lent->limit))) {
        lent->full = true;
        lent = NULL;
    }
    if (!lent && cupti->lent_count >= MANY_BUFFERS)
        orr__fake_collect(cupti->fake);
    if (!lent)
        hand_back_all(cupti, false, false);
    if (!lent)
        lent = borrow(cupti);
    if (!lent) {
        cupti->dropped++;
        return NULL;
    }
    CUpti_Activity *record = (CUpti_Activity *)(void *)(lent->data + lent->used);
    record->kind = kind;
    lent->used += bytes;
    lent->records++;
    return record;
}

static void write_call(struct cupti *cupti, CUpti_ActivityKind kind, CUpti_CallbackId cbid,
                       uint32_t correlation, int64_t begin_ns, int64_t end_ns, int code) {
    CUpti_ActivityExternalCorrelation *external = NULL;
    if (cupti->external_count > 0 && cupti->enabled[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION])
        external = (CUpti_ActivityExternalCorrelation *)(void *)write_record(
            cupti, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof *external);
    if (external) {
        external->externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
        external->externalId = cupti->external[cupti->external_count - 1];
        external->correlationId = correlation;
    }
    CUpti_ActivityAPI *api = (CUpti_ActivityAPI *)(void *)write_record(cupti, kind, sizeof *api);
    if (!api)
        return;
    api->cbid = cbid;
    api->start = client_ns(cupti, begin_ns);
    api->end = client_ns(cupti, end_ns);
    api->correlationId = correlation;
    api->returnValue = (uint32_t)code;
}

/* --- what the streams do --- */

static const struct {
    enum orr__fake_function function;
    CUpti_CallbackId cbid;
} launches[] = {
    {ORR__FAKE_cudaLaunchKernel, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000},
    {ORR__FAKE_cudaMemcpyAsync, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020},
    {ORR__FAKE_cudaMemsetAsync, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020},
    {ORR__FAKE_cudaGraphLaunch, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000},
};

static void called(void *context, const struct orr__fake_called *call) {
    struct cupti *cupti = context;
    CUpti_CallbackId cbid = CUPTI_RUNTIME_TRACE_CBID_INVALID;
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        if (launches[i].function == call->function)
            cbid = launches[i].cbid;
    if (!cupti->runtime_calls[call->function] && !cupti->enabled[CUPTI_ACTIVITY_KIND_RUNTIME])
        return;
    write_call(cupti, CUPTI_ACTIVITY_KIND_RUNTIME, cbid, (uint32_t)call->correlation,
               call->begin_ns, call->end_ns, call->code);
    if (cupti->driver_launches && call->function == ORR__FAKE_cudaLaunchKernel &&
        cupti->fake->options.seed != 0)
        write_call(cupti, CUPTI_ACTIVITY_KIND_DRIVER, DRIVER_LAUNCH, (uint32_t)call->correlation,
                   call->begin_ns, call->end_ns, call->code);
}

static CUpti_ActivityKind kind_of(const struct orr__fake_work *work) {
    switch (work->task.kind) {
    case ORR__FAKE_KERNEL: return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case ORR__FAKE_MEMCPY: return CUPTI_ACTIVITY_KIND_MEMCPY;
    case ORR__FAKE_MEMSET: return CUPTI_ACTIVITY_KIND_MEMSET;
    default: return CUPTI_ACTIVITY_KIND_INVALID;
    }
}

static void fill_kernel(const struct orr__fake_work *work, CUpti_ActivityKernel10 *record,
                        uint32_t correlation) {
    record->deviceId = work->device;
    record->contextId = work->device + 1;
    record->streamId = work->stream_id + 1;
    record->gridX = (int32_t)work->task.grid;
    record->blockX = (int32_t)work->task.block;
    record->gridY = record->gridZ = record->blockY = record->blockZ = 1;
    record->dynamicSharedMemory = (int32_t)work->task.shared_bytes;
    record->correlationId = correlation;
    record->gridId = (int64_t)work->number;
    record->name = work->task.name;
    record->graphNodeId = work->node;
}

static void fill_memcpy(const struct orr__fake_work *work, CUpti_ActivityMemcpy6 *record,
                        uint32_t correlation) {
    record->copyKind = (uint8_t)work->task.copy_kind;
    record->bytes = work->task.bytes;
    record->deviceId = work->device;
    record->contextId = work->device + 1;
    record->streamId = work->stream_id + 1;
    record->correlationId = correlation;
    record->graphNodeId = work->node;
    record->copyCount = 1;
}

static void fill_memset(const struct orr__fake_work *work, CUpti_ActivityMemset4 *record,
                        uint32_t correlation) {
    record->bytes = work->task.bytes;
    record->deviceId = work->device;
    record->contextId = work->device + 1;
    record->streamId = work->stream_id + 1;
    record->correlationId = correlation;
    record->graphNodeId = work->node;
}

static CUpti_Activity *write_activity(struct cupti *cupti, const struct orr__fake_work *work,
                                      uint32_t correlation) {
    CUpti_ActivityKind kind = kind_of(work);
    size_t bytes = kind == CUPTI_ACTIVITY_KIND_MEMCPY   ? sizeof(CUpti_ActivityMemcpy6)
                   : kind == CUPTI_ACTIVITY_KIND_MEMSET ? sizeof(CUpti_ActivityMemset4)
                                                        : sizeof(CUpti_ActivityKernel10);
    CUpti_Activity *record = write_record(cupti, kind, bytes);
    if (!record)
        return NULL;
    if (kind == CUPTI_ACTIVITY_KIND_MEMCPY)
        fill_memcpy(work, (void *)record, correlation);
    else if (kind == CUPTI_ACTIVITY_KIND_MEMSET)
        fill_memset(work, (void *)record, correlation);
    else
        fill_kernel(work, (void *)record, correlation);
    return record;
}

/* Libraries launch by the driver: a call of its own, with an id of its own. */
static void enqueued(void *context, const struct orr__fake_work *work) {
    struct cupti *cupti = context;
    CUpti_ActivityKind kind = kind_of(work);
    uint32_t correlation = (uint32_t)work->correlation;
    if (kind == CUPTI_ACTIVITY_KIND_INVALID)
        return;
    if (orr__fake_function_library(cupti->fake->call.function) != ORR__CUDA_RUNTIME) {
        correlation = DRIVER_CALL + ++cupti->driver_calls;
        if (cupti->driver_launches || cupti->enabled[CUPTI_ACTIVITY_KIND_DRIVER])
            write_call(cupti, CUPTI_ACTIVITY_KIND_DRIVER, DRIVER_LAUNCH, correlation,
                       work->enqueue_ns, work->enqueue_ns, 0);
    }
    if (!cupti->enabled[kind])
        return;
    CUpti_Activity *record = write_activity(cupti, work, correlation);
    if (!record)
        return;
    if (orr_memory_grow(cupti->fake->memory, &cupti->open, &cupti->open_capacity,
                        cupti->open_count + 1, sizeof *cupti->open, OPEN_MAX) != ORR_OK)
        return; /* it stays without times */
    size_t buffer = cupti->lent_count - 1;
    cupti->lent[buffer].open++;
    cupti->open[cupti->open_count++] =
        (struct open){.work = work->number, .record = record, .buffer = buffer};
}

static void complete_record(struct cupti *cupti, CUpti_Activity *record, uint64_t start_ns,
                            uint64_t finish_ns) {
    (void)cupti;
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        CUpti_ActivityMemcpy6 *copy = (void *)record;
        copy->start = start_ns;
        copy->end = finish_ns;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        CUpti_ActivityMemset4 *set = (void *)record;
        set->start = start_ns;
        set->end = finish_ns;
    } else {
        CUpti_ActivityKernel10 *kernel = (void *)record;
        kernel->start = start_ns;
        kernel->end = kernel->completed = finish_ns;
    }
}

static void finished(void *context, const struct orr__fake_work *work) {
    struct cupti *cupti = context;
    for (size_t i = 0; i < cupti->open_count; i++) {
        struct open open = cupti->open[i];
        if (open.work != work->number)
            continue;
        complete_record(cupti, open.record, client_ns(cupti, work->start_ns),
                        client_ns(cupti, work->finish_ns));
        cupti->lent[open.buffer].open--;
        cupti->open[i] = cupti->open[--cupti->open_count];
        return;
    }
}

/* --- the library --- */

static void forget(struct cupti *cupti) {
    struct orr_fake_cuda *fake = cupti->fake;
    orr_memory_free(fake->memory, cupti->lent);
    orr_memory_free(fake->memory, cupti->open);
    fake->observer = (struct orr__fake_observer){0};
    *cupti = (struct cupti){.fake = NULL};
}

static void close_library(struct orr_fake_cuda *fake, void *state) {
    struct cupti *cupti = state;
    (void)fake;
    if (cupti->fake)
        forget(cupti);
}

/* NULL without memory. */
static struct cupti *cupti_of(struct orr_fake_cuda *fake) {
    struct cupti *cupti =
        orr__fake_library(fake, ORR__CUDA_CUPTI, sizeof(struct cupti), close_library);
    if (!cupti || cupti->fake)
        return cupti;
    *cupti = (struct cupti){
        .fake = fake, .to_drop = fake->options.cupti_drops, .random = fake->options.seed};
    fake->observer = (struct orr__fake_observer){
        .called = called, .enqueued = enqueued, .finished = finished, .context = cupti};
    return cupti;
}

/* The head of an entry point that needs the library's state. */
#define ENTER(function)                                                                            \
    ORR__FAKE_ENTER(CUptiResult, function);                                                        \
    struct cupti *cupti = cupti_of(fake);                                                          \
    if (!cupti)                                                                                    \
    return CUPTI_ERROR_OUT_OF_MEMORY

CUptiResult cuptiGetVersion(uint32_t *version) {
    ORR__FAKE_ENTER(CUptiResult, cuptiGetVersion);
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text) {
    ORR__FAKE_ENTER(CUptiResult, cuptiGetResultString);
    switch (result) {
    case CUPTI_SUCCESS: *text = "CUPTI_SUCCESS"; break;
    case CUPTI_ERROR_INVALID_PARAMETER: *text = "CUPTI_ERROR_INVALID_PARAMETER"; break;
    case CUPTI_ERROR_INVALID_OPERATION: *text = "CUPTI_ERROR_INVALID_OPERATION"; break;
    case CUPTI_ERROR_OUT_OF_MEMORY: *text = "CUPTI_ERROR_OUT_OF_MEMORY"; break;
    case CUPTI_ERROR_MAX_LIMIT_REACHED: *text = "CUPTI_ERROR_MAX_LIMIT_REACHED"; break;
    case CUPTI_ERROR_QUEUE_EMPTY: *text = "CUPTI_ERROR_QUEUE_EMPTY"; break;
    case CUPTI_ERROR_INVALID_KIND: *text = "CUPTI_ERROR_INVALID_KIND"; break;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"; break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
        *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
        break;
    default: *text = "CUPTI_ERROR_UNKNOWN"; break;
    }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp) {
    ENTER(cuptiGetTimestamp);
    *timestamp = client_ns(cupti, orr__fake_now(fake));
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
    ENTER(cuptiActivityRegisterTimestampCallback);
    if (!clock)
        return CUPTI_ERROR_INVALID_PARAMETER;
    cupti->clock = clock;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
    ENTER(cuptiActivityRegisterCallbacks);
    if (!request || !complete)
        return CUPTI_ERROR_INVALID_PARAMETER;
    cupti->request = request;
    cupti->complete = complete;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
                                      void *value) {
    ENTER(cuptiActivitySetAttribute);
    if (!size || !value || attribute != CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (*size < sizeof(uint8_t))
        return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    cupti->zeroed = *(const uint8_t *)value != 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    ENTER(cuptiActivityEnable);
    if (kind <= CUPTI_ACTIVITY_KIND_INVALID || (int)kind >= KINDS)
        return CUPTI_ERROR_INVALID_KIND;
    cupti->enabled[kind] = true;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
    ENTER(cuptiActivityDisable);
    if (kind <= CUPTI_ACTIVITY_KIND_INVALID || (int)kind >= KINDS)
        return CUPTI_ERROR_INVALID_KIND;
    cupti->enabled[kind] = false;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
    ENTER(cuptiActivityEnableRuntimeApi);
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        if (launches[i].cbid == cbid)
            cupti->runtime_calls[launches[i].function] = enable != 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
    ENTER(cuptiActivityEnableDriverApi);
    if (cbid == DRIVER_LAUNCH)
        cupti->driver_launches = enable != 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
    ENTER(cuptiActivityPushExternalCorrelationId);
    if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (cupti->external_count == EXTERNAL_DEPTH)
        return CUPTI_ERROR_OUT_OF_MEMORY;
    cupti->external[cupti->external_count++] = id;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t *last) {
    ENTER(cuptiActivityPopExternalCorrelationId);
    if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (cupti->external_count == 0)
        return CUPTI_ERROR_QUEUE_EMPTY;
    uint64_t id = cupti->external[--cupti->external_count];
    if (last)
        *last = id;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
    ENTER(cuptiActivityFlushAll);
    if (!cupti->complete)
        return CUPTI_ERROR_INVALID_OPERATION;
    orr__fake_collect(fake);
    CUpti_ActivityOverhead3 *overhead = NULL;
    if (cupti->enabled[CUPTI_ACTIVITY_KIND_OVERHEAD])
        overhead = (CUpti_ActivityOverhead3 *)(void *)write_record(
            cupti, CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof *overhead);
    if (overhead) {
        overhead->overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
        overhead->start = client_ns(cupti, orr__fake_now(fake));
        overhead->end = overhead->start + OVERHEAD_NS;
    }
    hand_back_all(cupti, true, (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
    return CUPTI_SUCCESS;
}

static size_t size_of(const CUpti_Activity *record) {
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead3);
    default: return 0;
    }
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, CUpti_Activity **record) {
    ORR__FAKE_ENTER(CUptiResult, cuptiActivityGetNextRecord);
    if (!buffer || !record)
        return CUPTI_ERROR_INVALID_PARAMETER;
    uint8_t *next = *record ? (uint8_t *)*record + size_of(*record) : buffer;
    if (next >= buffer + bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)next;
    return size_of(*record) > 0 && size_of(*record) <= (size_t)(buffer + bytes - next)
               ? CUPTI_SUCCESS
               : CUPTI_ERROR_INVALID_KIND;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped) {
    ENTER(cuptiActivityGetNumDroppedRecords);
    (void)context, (void)stream;
    if (!dropped)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = cupti->dropped;
    cupti->dropped = 0;
    return CUPTI_SUCCESS;
}

/* Also if it fails by plan: a program must be able to leave. */
CUptiResult cuptiFinalize(void) {
    struct orr_fake_cuda *fake = NULL;
    int fault = orr__fake_enter(ORR__FAKE_cuptiFinalize, &fake);
    struct cupti *cupti = fake ? cupti_of(fake) : NULL;
    if (cupti)
        forget(cupti);
    return (CUptiResult)fault;
}
