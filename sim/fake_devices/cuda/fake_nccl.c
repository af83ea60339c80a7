/* The fake NCCL's entry points. */
#include "sim/fake_devices/cuda/fake_nccl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- state --- */

static void close_all(struct orr_fake_cuda *fake, void *state) {
    struct orr__fake_nccl *nccl = state;
    while (nccl->cliques) {
        struct orr__fake_clique *clique = nccl->cliques;
        nccl->cliques = clique->next;
        orr_memory_free(fake->memory, clique);
    }
    orr_memory_free(fake->memory, nccl->calls);
}

static struct orr__fake_nccl *state_of(struct orr_fake_cuda *fake) {
    return orr__fake_library(fake, ORR__CUDA_NCCL, sizeof(struct orr__fake_nccl), close_all);
}

ncclResult_t orr__fake_nccl_fail(struct orr__fake_nccl *nccl, ncclResult_t code, const char *format,
                                 ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(nccl->last_error, sizeof nccl->last_error, format, arguments);
    va_end(arguments);
    return code;
}

/* --- texts --- */

ncclResult_t ncclGetVersion(int *version) {
    ORR__FAKE_ENTER(ncclResult_t, ncclGetVersion);
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO for "
                                        "details)",
                                        "unhandled system error (run with NCCL_DEBUG=INFO for "
                                        "details)",
                                        "internal error - please report this issue to the NCCL "
                                        "developers",
                                        "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                        "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    struct orr_fake_cuda *fake;
    (void)orr__fake_enter(ORR__FAKE_ncclGetErrorString, &fake);
    return (unsigned)code < ncclNumResults ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t communicator) {
    struct orr_fake_cuda *fake;
    (void)communicator; /* NCCL has one text for all, too */
    (void)orr__fake_enter(ORR__FAKE_ncclGetLastError, &fake);
    struct orr__fake_nccl *nccl = fake ? state_of(fake) : NULL;
    return nccl ? nccl->last_error : "";
}

/* --- communicators --- */

/* A GPU twice is refused without a word, as NCCL 2.28 does it. */
static bool devices_are_distinct(const struct orr_fake_cuda *fake, const int *devices, int count) {
    bool seen[ORR__FAKE_GPUS_MAX] = {false};
    for (int i = 0; i < count; i++) {
        int device = devices ? devices[i] : i;
        if (device < 0 || (uint32_t)device >= fake->options.gpu_count || seen[device])
            return false;
        seen[device] = true;
    }
    return true;
}

ncclResult_t ncclCommInitAll(ncclComm_t *out, int count, const int *devices) {
    ORR__FAKE_ENTER(ncclResult_t, ncclCommInitAll);
    struct orr__fake_nccl *nccl = state_of(fake);
    if (!nccl)
        return ncclSystemError;
    if (!out || count <= 0)
        return orr__fake_nccl_fail(nccl, ncclInvalidArgument, "%d ranks", count);
    if (!devices_are_distinct(fake, devices, count))
        return ncclInvalidUsage;
    struct orr__fake_clique *clique =
        orr_memory_alloc(fake->memory, sizeof *clique + (size_t)count * sizeof clique->members[0]);
    if (!clique)
        return orr__fake_nccl_fail(nccl, ncclSystemError, "no memory");
    clique->next = nccl->cliques;
    nccl->cliques = clique;
    clique->ranks = clique->alive = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        clique->members[i] =
            (struct ncclComm){clique, (uint32_t)i, (uint32_t)(devices ? devices[i] : i)};
        out[i] = &clique->members[i];
    }
    fake->census.communicators += (uint64_t)count;
    return ncclSuccess;
}

static struct orr__fake_clique *clique_of(struct orr__fake_nccl *nccl, ncclComm_t communicator) {
    for (struct orr__fake_clique *clique = nccl ? nccl->cliques : NULL; clique;
         clique = clique->next)
        for (uint32_t i = 0; i < clique->ranks; i++)
            if (&clique->members[i] == communicator && communicator->clique)
                return clique;
    return NULL;
}

static ncclResult_t destroy(struct orr_fake_cuda *fake, ncclComm_t communicator) {
    struct orr__fake_nccl *nccl = state_of(fake);
    struct orr__fake_clique *clique = clique_of(nccl, communicator);
    if (!clique)
        return ncclInvalidArgument;
    communicator->clique = NULL;
    fake->census.communicators--;
    if (--clique->alive > 0)
        return ncclSuccess;
    struct orr__fake_clique **link = &nccl->cliques;
    while (*link != clique)
        link = &(*link)->next;
    *link = clique->next;
    orr_memory_free(fake->memory, clique);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_ncclCommDestroy, &fake);
    ncclResult_t code = fake ? destroy(fake, communicator) : ncclInvalidArgument;
    return fault ? (ncclResult_t)fault : code;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_ncclCommAbort, &fake);
    ncclResult_t code = fake ? destroy(fake, communicator) : ncclInvalidArgument;
    return fault ? (ncclResult_t)fault : code;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *out_error) {
    ORR__FAKE_ENTER(ncclResult_t, ncclCommGetAsyncError);
    if (!clique_of(state_of(fake), communicator) || !out_error)
        return ncclInvalidArgument;
    *out_error = ncclSuccess;
    return ncclSuccess;
}

/* --- groups --- */

ncclResult_t ncclGroupStart(void) {
    ORR__FAKE_ENTER(ncclResult_t, ncclGroupStart);
    struct orr__fake_nccl *nccl = state_of(fake);
    if (!nccl)
        return ncclSystemError;
    nccl->depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_ncclGroupEnd, &fake);
    struct orr__fake_nccl *nccl = fake ? state_of(fake) : NULL;
    if (!nccl)
        return ncclSystemError;
    if (nccl->depth == 0)
        return orr__fake_nccl_fail(nccl, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--nccl->depth > 0)
        return (ncclResult_t)fault;
    if (fault)
        nccl->call_count = 0;
    return fault ? (ncclResult_t)fault : orr__fake_nccl_end(fake, nccl);
}

/* --- calls --- */

static bool is_there(struct orr_fake_cuda *fake, const void *address, uint64_t bytes,
                     uint32_t device) {
    uint32_t on = device;
    enum orr__fake_place place =
        bytes > 0 ? orr__fake_where(fake, address, bytes, &on) : ORR__FAKE_PINNED;
    return place == ORR__FAKE_PINNED || (place == ORR__FAKE_DEVICE && on == device);
}

/* Elements of the buffers, by what the rank does. */
static uint64_t in_count(const struct orr__fake_nccl_call *call) {
    const struct ncclComm *of = call->communicator;
    if (call->kind == ORR__FAKE_RECEIVE)
        return 0;
    if (call->kind == ORR__FAKE_COLLECTIVE && call->collective == ORR_COLLECTIVE_REDUCE_SCATTER)
        return call->count * of->clique->ranks;
    bool unused = call->kind == ORR__FAKE_COLLECTIVE &&
                  call->collective == ORR_COLLECTIVE_BROADCAST && of->rank != call->root;
    return unused ? 0 : call->count;
}

static uint64_t out_count(const struct orr__fake_nccl_call *call) {
    const struct ncclComm *of = call->communicator;
    if (call->kind == ORR__FAKE_SEND)
        return 0;
    if (call->kind == ORR__FAKE_COLLECTIVE && call->collective == ORR_COLLECTIVE_ALL_GATHER)
        return call->count * of->clique->ranks;
    bool unused = call->kind == ORR__FAKE_COLLECTIVE && call->collective == ORR_COLLECTIVE_REDUCE &&
                  of->rank != call->root;
    return unused ? 0 : call->count;
}

static ncclResult_t check(struct orr_fake_cuda *fake, struct orr__fake_nccl *nccl,
                          const struct orr__fake_nccl_call *call) {
    const char *name = orr__fake_function_text(call->function);
    const struct ncclComm *of = call->communicator;
    uint64_t size = orr__fake_nccl_size(call->type);
    if (!call->stream || call->stream->device != of->device)
        return orr__fake_nccl_fail(nccl, ncclInvalidArgument,
                                   "%s : rank %u's stream is not one of its GPU", name, of->rank);
    if (size == 0 || call->root >= of->clique->ranks || call->operation > ncclAvg)
        return orr__fake_nccl_fail(nccl, ncclInvalidArgument,
                                   "%s : invalid type, operation, root or peer at rank %u", name,
                                   of->rank);
    if (!is_there(fake, call->in, in_count(call) * size, of->device) ||
        !is_there(fake, call->out, out_count(call) * size, of->device))
        return orr__fake_nccl_fail(nccl, ncclInvalidArgument,
                                   "%s : a buffer of rank %u is not in memory of its GPU", name,
                                   of->rank);
    return ncclSuccess;
}

static ncclResult_t post(struct orr_fake_cuda *fake, struct orr__fake_nccl_call call,
                         cudaStream_t stream) {
    struct orr__fake_nccl *nccl = state_of(fake);
    if (!clique_of(nccl, call.communicator))
        return nccl ? orr__fake_nccl_fail(nccl, ncclInvalidArgument, "%s : no communicator",
                                          orr__fake_function_text(call.function))
                    : ncclSystemError;
    call.stream = orr__fake_stream_find(fake, stream);
    ncclResult_t code = check(fake, nccl, &call);
    if (code != ncclSuccess)
        return code;
    if (nccl->call_count == nccl->call_capacity) {
        size_t capacity = nccl->call_capacity ? nccl->call_capacity * 2 : 64;
        void *calls =
            orr_memory_resize(fake->memory, nccl->calls, capacity * sizeof nccl->calls[0]);
        if (!calls)
            return orr__fake_nccl_fail(nccl, ncclSystemError, "no memory");
        nccl->calls = calls;
        nccl->call_capacity = capacity;
    }
    nccl->calls[nccl->call_count++] = call;
    return nccl->depth > 0 ? ncclSuccess : orr__fake_nccl_end(fake, nccl);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclAllReduce);
    struct orr__fake_nccl_call call = {.collective = ORR_COLLECTIVE_ALL_REDUCE,
                                       .function = ORR__FAKE_ncclAllReduce,
                                       .communicator = communicator,
                                       .in = in,
                                       .out = out,
                                       .count = count,
                                       .type = type,
                                       .operation = operation};
    return post(fake, call, stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t communicator,
                        cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclReduce);
    struct orr__fake_nccl_call call = {.collective = ORR_COLLECTIVE_REDUCE,
                                       .function = ORR__FAKE_ncclReduce,
                                       .communicator = communicator,
                                       .in = in,
                                       .out = out,
                                       .count = count,
                                       .type = type,
                                       .operation = operation,
                                       .root = (uint32_t)root};
    return post(fake, call, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t communicator,
                               cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclReduceScatter);
    struct orr__fake_nccl_call call = {.collective = ORR_COLLECTIVE_REDUCE_SCATTER,
                                       .function = ORR__FAKE_ncclReduceScatter,
                                       .communicator = communicator,
                                       .in = in,
                                       .out = out,
                                       .count = count,
                                       .type = type,
                                       .operation = operation};
    return post(fake, call, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclAllGather);
    struct orr__fake_nccl_call call = {.collective = ORR_COLLECTIVE_ALL_GATHER,
                                       .function = ORR__FAKE_ncclAllGather,
                                       .communicator = communicator,
                                       .in = in,
                                       .out = out,
                                       .count = count,
                                       .type = type};
    return post(fake, call, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclBroadcast);
    struct orr__fake_nccl_call call = {.collective = ORR_COLLECTIVE_BROADCAST,
                                       .function = ORR__FAKE_ncclBroadcast,
                                       .communicator = communicator,
                                       .in = in,
                                       .out = out,
                                       .count = count,
                                       .type = type,
                                       .root = (uint32_t)root};
    return post(fake, call, stream);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclSend);
    struct orr__fake_nccl_call call = {.kind = ORR__FAKE_SEND,
                                       .function = ORR__FAKE_ncclSend,
                                       .communicator = communicator,
                                       .in = in,
                                       .count = count,
                                       .type = type,
                                       .root = (uint32_t)peer};
    return post(fake, call, stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
    ORR__FAKE_ENTER(ncclResult_t, ncclRecv);
    struct orr__fake_nccl_call call = {.kind = ORR__FAKE_RECEIVE,
                                       .function = ORR__FAKE_ncclRecv,
                                       .communicator = communicator,
                                       .out = out,
                                       .count = count,
                                       .type = type,
                                       .root = (uint32_t)peer};
    return post(fake, call, stream);
}
