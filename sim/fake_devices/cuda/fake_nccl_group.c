/* The fake NCCL's groups: which calls belong together, and their work in the streams.
 *
 *                 all meet                              all meet
 *     rank 0   ... --+-- kernel: all inputs, all outputs --+-- ...
 *     rank 1   ... --+-- kernel of the same duration ------+-- ...
 *
 * The arithmetic is runtime/collective.h's, in rank order; NCCL's own order is another one. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_nccl.h"

/* Durations in virtual time: round figures, of the order of NVLink's. */
enum { KERNEL_NS = 5000, HOP_NS = 1000, LINK_BYTES_PER_NS = 100 };

uint64_t orr__fake_nccl_size(ncclDataType_t type) {
    switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
    }
}

/* ORR_DTYPE_NONE for types that the fake does not reduce. */
static enum orr_dtype dtype_of(ncclDataType_t type) {
    switch (type) {
    case ncclFloat16: return ORR_DTYPE_F16;
    case ncclBfloat16: return ORR_DTYPE_BF16;
    case ncclFloat32: return ORR_DTYPE_F32;
    case ncclFloat64: return ORR_DTYPE_F64;
    case ncclInt32: return ORR_DTYPE_I32;
    case ncclInt64: return ORR_DTYPE_I64;
    default: return ORR_DTYPE_NONE;
    }
}

static enum orr_reduction reduction_of(ncclRedOp_t operation) {
    return operation == ncclMax   ? ORR_MAX
           : operation == ncclMin ? ORR_MIN
           : operation == ncclAvg ? ORR_AVG
                                  : ORR_SUM;
}

/* --- work --- */

/* What all ranks of a collective do. `bytes` are reduced as bytes; else members say how. */
struct collective {
    uint32_t ranks, pad;
    bool bytes, largest;
    struct orr_collective members[];
};

/* Maxima or minima of unsigned bytes. */
static void reduce_bytes(const struct collective *c) {
    uint64_t total = orr_collective_in_count(&c->members[0]);
    for (uint64_t i = 0; i < total; i++) {
        uint8_t x = ((const uint8_t *)c->members[0].in)[i];
        for (uint32_t rank = 1; rank < c->ranks; rank++) {
            uint8_t y = ((const uint8_t *)c->members[rank].in)[i];
            x = (c->largest ? y > x : y < x) ? y : x;
        }
        for (uint32_t rank = 0; rank < c->ranks; rank++) {
            const struct orr_collective *of = &c->members[rank];
            bool scattered = of->kind == ORR_COLLECTIVE_REDUCE_SCATTER;
            bool gets = of->kind == ORR_COLLECTIVE_REDUCE ? rank == of->root
                                                          : !scattered || i / of->count == rank;
            if (gets)
                ((uint8_t *)of->out)[scattered ? i % of->count : i] = x;
        }
    }
}

static void run_collective(struct orr__fake_work *work, void *argument) {
    const struct collective *c = argument;
    const struct orr_collective *members[ORR__FAKE_GPUS_MAX];
    (void)work;
    for (uint32_t i = 0; i < c->ranks; i++)
        members[i] = &c->members[i];
    /* The calls have been checked: it can't fail. */
    if (c->bytes)
        reduce_bytes(c);
    else
        (void)!orr_collective_run(members, c->ranks, NULL);
}

struct transfer {
    void *to;
    const void *from;
    uint64_t bytes;
};

static void run_transfer(struct orr__fake_work *work, void *argument) {
    const struct transfer *t = argument;
    (void)work;
    memmove(t->to, t->from, t->bytes);
}

static int64_t duration_of(const struct orr_collective *of) {
    struct orr_traffic traffic = orr_collective_traffic(of);
    return KERNEL_NS + HOP_NS * (int64_t)traffic.hops +
           (int64_t)(traffic.bytes / LINK_BYTES_PER_NS);
}

/* --- collectives --- */

/* The calls of all ranks that belong to one collective. */
struct joined {
    struct orr__fake_nccl_call *calls[ORR__FAKE_GPUS_MAX];
    uint32_t ranks;
};

static cudaError_t meet(struct orr_fake_cuda *fake, const struct joined *joined) {
    cudaError_t code = cudaSuccess;
    for (uint32_t i = 1; code == cudaSuccess && i < joined->ranks; i++)
        code = orr__fake_order(fake, joined->calls[i]->stream, joined->calls[0]->stream);
    for (uint32_t i = 1; code == cudaSuccess && i < joined->ranks; i++)
        code = orr__fake_order(fake, joined->calls[0]->stream, joined->calls[i]->stream);
    return code;
}

static cudaError_t enqueue_kernels(struct orr_fake_cuda *fake, const struct joined *joined,
                                   const struct collective *collective, size_t bytes) {
    struct orr__fake_task task = {.kind = ORR__FAKE_KERNEL,
                                  .name = orr__fake_function_text(joined->calls[0]->function),
                                  .run = run_collective,
                                  .argument = collective,
                                  .argument_bytes = bytes,
                                  .duration_ns = duration_of(&collective->members[0]),
                                  .grid = 1,
                                  .block = 512};
    cudaError_t code = meet(fake, joined);
    for (uint32_t i = 0; code == cudaSuccess && i < joined->ranks; i++) {
        code = orr__fake_enqueue(fake, joined->calls[i]->stream, &task);
        task.run = NULL;
        task.argument = NULL;
        task.argument_bytes = 0;
    }
    return code == cudaSuccess ? meet(fake, joined) : code;
}

static ncclResult_t enqueue_collective(struct orr_fake_cuda *fake, struct orr__fake_nccl *nccl,
                                       const struct joined *joined) {
    const struct orr__fake_nccl_call *first = joined->calls[0];
    enum orr_dtype dtype = dtype_of(first->type);
    bool reduces = orr_collective_reduces(first->collective), largest = first->operation == ncclMax;
    bool integers = dtype == ORR_DTYPE_I32 || dtype == ORR_DTYPE_I64;
    bool bytes = first->type == ncclUint8 && (largest || first->operation == ncclMin);
    if (reduces && ((dtype == ORR_DTYPE_NONE && !bytes) || first->operation == ncclProd ||
                    (integers && first->operation == ncclAvg)))
        return orr__fake_nccl_fail(nccl, ncclInvalidArgument,
                                   "%s : the fake has no such reduction of this type",
                                   orr__fake_function_text(first->function));
    size_t length = sizeof(struct collective) + joined->ranks * sizeof(struct orr_collective);
    struct collective *c = orr_memory_alloc(fake->memory, length);
    if (!c)
        return orr__fake_nccl_fail(nccl, ncclSystemError, "no memory");
    c->ranks = joined->ranks;
    c->bytes = reduces && bytes;
    c->largest = largest;
    for (uint32_t i = 0; i < joined->ranks; i++) {
        const struct orr__fake_nccl_call *call = joined->calls[i];
        uint64_t size = orr__fake_nccl_size(call->type);
        c->members[i] = (struct orr_collective){.kind = call->collective,
                                                .dtype = reduces && !bytes ? dtype : ORR_DTYPE_I8,
                                                .rank = i,
                                                .ranks = joined->ranks,
                                                .root = call->root,
                                                .count = reduces ? call->count : call->count * size,
                                                .in = call->in,
                                                .out = call->out,
                                                .reduction = reduction_of(call->operation)};
    }
    cudaError_t code = enqueue_kernels(fake, joined, c, length);
    orr_memory_free(fake->memory, c);
    return code == cudaSuccess
               ? ncclSuccess
               : orr__fake_nccl_fail(nccl, ncclUnhandledCudaError, "Cuda failure %d", (int)code);
}

static bool same_collective(const struct orr__fake_nccl_call *a,
                            const struct orr__fake_nccl_call *b) {
    return a->collective == b->collective && a->count == b->count && a->type == b->type &&
           a->operation == b->operation && a->root == b->root;
}

static struct orr__fake_nccl_call *next_of(struct orr__fake_nccl *nccl,
                                           const struct ncclComm *communicator,
                                           enum orr__fake_nccl_kind kind, uint32_t root,
                                           bool any_root) {
    for (size_t i = 0; i < nccl->call_count; i++) {
        struct orr__fake_nccl_call *call = &nccl->calls[i];
        if (!call->done && call->kind == kind && call->communicator == communicator &&
            (any_root || call->root == root))
            return call;
    }
    return NULL;
}

/* The oldest call of each rank of the communicator. */
static ncclResult_t join(struct orr__fake_nccl *nccl, const struct orr__fake_nccl_call *first,
                         struct joined *out) {
    struct orr__fake_clique *clique = first->communicator->clique;
    const char *name = orr__fake_function_text(first->function);
    out->ranks = clique->ranks;
    for (uint32_t i = 0; i < clique->ranks; i++) {
        out->calls[i] = next_of(nccl, &clique->members[i], ORR__FAKE_COLLECTIVE, 0, true);
        if (!out->calls[i])
            return orr__fake_nccl_fail(nccl, ncclInvalidUsage,
                                       "%s : rank %u of %u makes no such call in this group; NCCL "
                                       "would wait for it for ever",
                                       name, i, clique->ranks);
        if (!same_collective(out->calls[i], out->calls[0]))
            return orr__fake_nccl_fail(nccl, ncclInvalidUsage,
                                       "%s : rank %u makes another call than rank 0, or with other "
                                       "arguments",
                                       name, i);
    }
    return ncclSuccess;
}

static ncclResult_t end_collectives(struct orr_fake_cuda *fake, struct orr__fake_nccl *nccl) {
    for (size_t i = 0; i < nccl->call_count; i++) {
        struct joined joined;
        if (nccl->calls[i].done || nccl->calls[i].kind != ORR__FAKE_COLLECTIVE)
            continue;
        ncclResult_t code = join(nccl, &nccl->calls[i], &joined);
        if (code == ncclSuccess)
            code = enqueue_collective(fake, nccl, &joined);
        if (code != ncclSuccess)
            return code;
        for (uint32_t rank = 0; rank < joined.ranks; rank++)
            joined.calls[rank]->done = true;
    }
    return ncclSuccess;
}

/* --- sends and receives --- */

/* The receive that a send arrives at: the oldest one of its peer for it. */
static ncclResult_t match(struct orr__fake_nccl *nccl, struct orr__fake_nccl_call *send,
                          struct orr__fake_nccl_call **out_receive) {
    const struct ncclComm *from = send->communicator;
    const struct ncclComm *to = &from->clique->members[send->root];
    *out_receive = next_of(nccl, to, ORR__FAKE_RECEIVE, from->rank, false);
    if (!*out_receive)
        return orr__fake_nccl_fail(nccl, ncclInvalidUsage,
                                   "ncclSend : rank %u sends to rank %u, which receives nothing "
                                   "from it in this group; NCCL would wait for it for ever",
                                   from->rank, to->rank);
    uint64_t sent = send->count * orr__fake_nccl_size(send->type);
    uint64_t expected = (*out_receive)->count * orr__fake_nccl_size((*out_receive)->type);
    if (sent != expected)
        return orr__fake_nccl_fail(nccl, ncclInvalidUsage,
                                   "ncclSend : rank %u sends %llu bytes to rank %u, which expects "
                                   "%llu",
                                   from->rank, (unsigned long long)sent, to->rank,
                                   (unsigned long long)expected);
    return ncclSuccess;
}

static cudaError_t enqueue_transfer(struct orr_fake_cuda *fake,
                                    const struct orr__fake_nccl_call *send,
                                    const struct orr__fake_nccl_call *receive) {
    struct transfer transfer = {receive->out, send->in,
                                send->count * orr__fake_nccl_size(send->type)};
    struct orr__fake_task task = {.kind = ORR__FAKE_KERNEL,
                                  .name = "ncclSendRecv",
                                  .run = run_transfer,
                                  .argument = &transfer,
                                  .argument_bytes = sizeof transfer,
                                  .duration_ns = KERNEL_NS + HOP_NS +
                                                 (int64_t)(transfer.bytes / LINK_BYTES_PER_NS),
                                  .grid = 1,
                                  .block = 512};
    return orr__fake_enqueue(fake, receive->stream, &task);
}

/* All that a group sends and receives is under way at once: receivers wait for what is before the
 * sends, bytes travel in the receivers' streams, senders wait for them. */
static ncclResult_t end_sends(struct orr_fake_cuda *fake, struct orr__fake_nccl *nccl) {
    enum { ARRIVE, TRAVEL, LEAVE, STEPS };
    cudaError_t cuda = cudaSuccess;
    for (int step = ARRIVE; step < STEPS; step++) {
        for (size_t i = 0; i < nccl->call_count; i++)
            nccl->calls[i].done = nccl->calls[i].kind == ORR__FAKE_COLLECTIVE;
        for (size_t i = 0; cuda == cudaSuccess && i < nccl->call_count; i++) {
            struct orr__fake_nccl_call *send = &nccl->calls[i], *receive;
            if (send->kind != ORR__FAKE_SEND)
                continue;
            ncclResult_t code = match(nccl, send, &receive);
            if (code != ncclSuccess)
                return code;
            send->done = receive->done = true;
            cuda = step == ARRIVE   ? orr__fake_order(fake, send->stream, receive->stream)
                   : step == TRAVEL ? enqueue_transfer(fake, send, receive)
                                    : orr__fake_order(fake, receive->stream, send->stream);
        }
    }
    for (size_t i = 0; cuda == cudaSuccess && i < nccl->call_count; i++)
        if (!nccl->calls[i].done)
            return orr__fake_nccl_fail(nccl, ncclInvalidUsage,
                                       "ncclRecv : rank %u expects something from rank %u, which "
                                       "sends nothing in this group; NCCL would wait for it for "
                                       "ever",
                                       nccl->calls[i].communicator->rank, nccl->calls[i].root);
    return cuda == cudaSuccess
               ? ncclSuccess
               : orr__fake_nccl_fail(nccl, ncclUnhandledCudaError, "Cuda failure %d", (int)cuda);
}

ncclResult_t orr__fake_nccl_end(struct orr_fake_cuda *fake, struct orr__fake_nccl *nccl) {
    ncclResult_t code = end_collectives(fake, nccl);
    if (code == ncclSuccess)
        code = end_sends(fake, nccl);
    nccl->call_count = 0;
    return code;
}
