/* Collectives by NCCL. One host drives all ranks, so every collective is one group of calls.
 *
 * NCCL takes averages of integers and "or" and "and" of bools in pieces: it sums, or takes maxima
 * and minima of bytes, and a kernel settles the result. Pieces of different sizes are a broadcast
 * or a reduction each, as PyTorch's ProcessGroupNCCL does it; gathers, scatters, all-to-alls and
 * exchanges are sends and receives (NCCL user guide, "Point-to-point communication"). */
#include <assert.h>
#include <string.h>

#include "runtime/collective.h"
#include "runtime/cuda/collective_internal.h"

static enum orr_status check(const struct orr__cuda_collectives *c, ncclResult_t code,
                             const char *call, struct orr_error *error) {
    return orr__nccl_check(c->api, code, call, error);
}

/* --- communicators --- */

static bool is_of_group(const struct orr__nccl_clique *clique,
                        const struct orr__cuda_collectives *c) {
    bool sends = c->collectives[0]->kind == ORR_COLLECTIVE_SEND_RECEIVE;
    if (sends || clique->id != c->collectives[0]->communicator || clique->count != c->count)
        return sends && clique->id == ORR_ID_NONE;
    for (uint32_t i = 0; i < c->count; i++)
        if (clique->devices[i] != c->members[i].device)
            return false;
    return true;
}

/* Of a group of sends only those ranks are known that take part: all groups of sends use one
 * communicator of all devices, whose ranks are the devices. */
static enum orr_status make_clique(struct orr__cuda_collectives *c,
                                   struct orr__nccl_clique **out_clique, struct orr_error *error) {
    bool sends = c->collectives[0]->kind == ORR_COLLECTIVE_SEND_RECEIVE;
    uint32_t count = sends ? c->device_count : c->count;
    size_t at = sizeof(struct orr__nccl_clique) + count * sizeof(uint32_t);
    at = (at + sizeof(ncclComm_t) - 1) / sizeof(ncclComm_t) * sizeof(ncclComm_t);
    struct orr__nccl_clique *clique = orr_memory_alloc(c->memory, at + count * sizeof(ncclComm_t));
    int *gpus = orr_memory_alloc(c->memory, count * sizeof *gpus);
    enum orr_status status = ORR_OK;
    if (!clique || !gpus) {
        status = orr_error_set(error, ORR_NO_MEMORY, "no memory for a communicator of %u", count);
        goto out;
    }
    clique->id = sends ? ORR_ID_NONE : c->collectives[0]->communicator;
    clique->count = count;
    clique->communicators = (ncclComm_t *)(void *)((char *)clique + at);
    for (uint32_t i = 0; i < count; i++) {
        clique->devices[i] = sends ? i : c->members[i].device;
        gpus[i] = (int)orr__cuda_gpu_of(c, clique->devices[i]);
    }
    status = check(c, c->api->nccl.ncclCommInitAll(clique->communicators, (int)count, gpus),
                   "ncclCommInitAll", error);
    if (status != ORR_OK)
        goto out;
    clique->next = c->cliques;
    c->cliques = *out_clique = clique;
    clique = NULL;
out:
    orr_memory_free(c->memory, clique);
    orr_memory_free(c->memory, gpus);
    return status;
}

static enum orr_status find_clique(struct orr__cuda_collectives *c,
                                   struct orr__nccl_clique **out_clique, struct orr_error *error) {
    for (struct orr__nccl_clique *clique = c->cliques; clique; clique = clique->next)
        if (is_of_group(clique, c)) {
            *out_clique = clique;
            return ORR_OK;
        }
    return make_clique(c, out_clique, error);
}

/* Errors of destroying what is done with change nothing any more. */
void orr__nccl_close(struct orr__cuda_collectives *c, bool abort) {
    while (c->cliques) {
        struct orr__nccl_clique *clique = c->cliques;
        c->cliques = clique->next;
        for (uint32_t i = 0; i < clique->count; i++)
            (void)(abort ? c->api->nccl.ncclCommAbort(clique->communicators[i])
                         : c->api->nccl.ncclCommDestroy(clique->communicators[i]));
        orr_memory_free(c->memory, clique);
    }
}

/* After a failure nothing is known of any rank's kernels but that they may wait for ever. */
static enum orr_status give_up(struct orr__cuda_collectives *c, const struct orr_error *why,
                               struct orr_error *error) {
    if (!c->failed)
        c->failure = *why;
    c->failed = true;
    orr__nccl_close(c, true);
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s", c->failure.text);
}

enum orr_status orr__nccl_poll(struct orr__cuda_collectives *c, struct orr_error *error) {
    struct orr_error why = {0};
    if (c->failed)
        return give_up(c, &c->failure, error);
    for (struct orr__nccl_clique *clique = c->cliques; clique; clique = clique->next)
        for (uint32_t i = 0; i < clique->count; i++) {
            ncclResult_t state = ncclSuccess;
            ncclResult_t code =
                c->api->nccl.ncclCommGetAsyncError(clique->communicators[i], &state);
            if (code == ncclSuccess && state != ncclInProgress)
                code = state;
            if (check(c, code, "ncclCommGetAsyncError", &why) != ORR_OK)
                return give_up(c, &why, error);
        }
    return ORR_OK;
}

/* --- what is reduced how --- */

static ncclDataType_t type_of(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return ncclFloat64;
    case ORR_DTYPE_F32: return ncclFloat32;
    case ORR_DTYPE_F16: return ncclFloat16;
    case ORR_DTYPE_BF16: return ncclBfloat16;
    case ORR_DTYPE_I32: return ncclInt32;
    case ORR_DTYPE_I64: return ncclInt64;
    default: return ncclUint8;
    }
}

static ncclRedOp_t operation_of(const struct orr_collective *of) {
    bool is_bool = of->dtype == ORR_DTYPE_BOOL;
    switch (of->reduction) {
    case ORR_SUM: return is_bool ? ncclMax : ncclSum;
    case ORR_AVG: return is_bool ? ncclMin : orr_dtype_is_float(of->dtype) ? ncclAvg : ncclSum;
    case ORR_MAX: return ncclMax;
    case ORR_MIN: return ncclMin;
    }
    return ncclSum;
}

static bool needs_settling(const struct orr_collective *of) {
    bool average = of->reduction == ORR_AVG && !orr_dtype_is_float(of->dtype);
    return orr_collective_reduces(of->kind) && (average || of->dtype == ORR_DTYPE_BOOL);
}

static enum orr_status settle(struct orr__cuda_collectives *c, uint32_t index,
                              struct orr_error *error) {
    const struct orr_collective *of = c->collectives[index];
    struct orr__cuda_queue *queue = c->members[index].queue;
    struct orr__k_settle argument = {.x = of->out,
                                     .count = orr_collective_out_count(of),
                                     .ranks = of->ranks,
                                     .dtype = (int32_t)of->dtype};
    enum orr_status status = orr__cuda_member_current(c, index, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch(queue, ORR__K_settle, orr__cuda_grid(queue, argument.count),
                            ORR__CUDA_BLOCK, 0, &argument, error);
}

/* --- calls --- */

/* A member's calls within the group. */
struct caller {
    const struct orr__cuda_collectives *c;
    const struct orr_collective *of;
    ncclComm_t communicator;
    cudaStream_t stream;
    uint64_t size; /* of an element */
    struct orr_error *error;
};

static enum orr_status call_reduce_scatter(const struct caller *m) {
    const struct orr_collective *of = m->of;
    const struct orr__cuda_nccl_table *nccl = &m->c->api->nccl;
    ncclDataType_t type = type_of(of->dtype);
    ncclRedOp_t operation = operation_of(of);
    enum orr_status status = ORR_OK;
    if (!of->counts)
        return check(m->c,
                     nccl->ncclReduceScatter(of->in, of->out, of->count, type, operation,
                                             m->communicator, m->stream),
                     "ncclReduceScatter", m->error);
    for (uint32_t rank = 0; status == ORR_OK && rank < of->ranks; rank++) {
        uint64_t count, first = orr_collective_piece(of, rank, &count);
        if (count > 0)
            status = check(m->c,
                           nccl->ncclReduce((const char *)of->in + first * m->size,
                                            rank == of->rank ? of->out : NULL, count, type,
                                            operation, (int)rank, m->communicator, m->stream),
                           "ncclReduce", m->error);
    }
    return status;
}

static enum orr_status call_all_gather(const struct caller *m) {
    const struct orr_collective *of = m->of;
    const struct orr__cuda_nccl_table *nccl = &m->c->api->nccl;
    enum orr_status status = ORR_OK;
    if (!of->counts)
        return check(m->c,
                     nccl->ncclAllGather(of->in, of->out, of->count * m->size, ncclUint8,
                                         m->communicator, m->stream),
                     "ncclAllGather", m->error);
    for (uint32_t rank = 0; status == ORR_OK && rank < of->ranks; rank++) {
        uint64_t count, first = orr_collective_piece(of, rank, &count);
        char *to = (char *)of->out + first * m->size;
        if (count > 0)
            status = check(m->c,
                           nccl->ncclBroadcast(rank == of->rank ? of->in : to, to, count * m->size,
                                               ncclUint8, (int)rank, m->communicator, m->stream),
                           "ncclBroadcast", m->error);
    }
    return status;
}

static enum orr_status call_broadcast(const struct caller *m) {
    const struct orr_collective *of = m->of;
    bool root = of->rank == of->root;
    /* A root without `out` has it in place. */
    void *to = of->out ? of->out : (void *)(uintptr_t)of->in;
    return check(m->c,
                 m->c->api->nccl.ncclBroadcast(root ? of->in : of->out, to, of->count * m->size,
                                               ncclUint8, (int)of->root, m->communicator,
                                               m->stream),
                 "ncclBroadcast", m->error);
}

static enum orr_status call(const struct caller *m) {
    const struct orr_collective *of = m->of;
    const struct orr__cuda_nccl_table *nccl = &m->c->api->nccl;
    switch (of->kind) {
    case ORR_COLLECTIVE_ALL_REDUCE:
        return check(m->c,
                     nccl->ncclAllReduce(of->in, of->out, of->count, type_of(of->dtype),
                                         operation_of(of), m->communicator, m->stream),
                     "ncclAllReduce", m->error);
    case ORR_COLLECTIVE_REDUCE:
        return check(m->c,
                     nccl->ncclReduce(of->in, of->rank == of->root ? of->out : NULL, of->count,
                                      type_of(of->dtype), operation_of(of), (int)of->root,
                                      m->communicator, m->stream),
                     "ncclReduce", m->error);
    case ORR_COLLECTIVE_REDUCE_SCATTER: return call_reduce_scatter(m);
    case ORR_COLLECTIVE_ALL_GATHER: return call_all_gather(m);
    case ORR_COLLECTIVE_BROADCAST: return call_broadcast(m);
    default: return ORR_OK;
    }
}

/* --- sends and receives --- */

struct mail {
    struct orr__cuda_collectives *c;
    const struct orr__nccl_clique *clique;
    enum orr_status status;
    struct orr_error *error;
};

/* Moves between the same two ranks match in the order of calls, which is the same for both. */
static void post(void *context, const struct orr_collective_move *move) {
    struct mail *mail = context;
    struct orr__cuda_collectives *c = mail->c;
    uint32_t from = orr__cuda_index_of(c, move->source), to = orr__cuda_index_of(c, move->target);
    bool sends = c->collectives[0]->kind == ORR_COLLECTIVE_SEND_RECEIVE;
    uint32_t source = sends ? c->members[from].device : move->source;
    uint32_t target = sends ? c->members[to].device : move->target;
    if (mail->status == ORR_OK && from == to) {
        mail->status = orr__cuda_member_current(c, to, mail->error);
        if (mail->status == ORR_OK)
            mail->status = orr__cuda_check(
                c->api,
                c->api->rt.cudaMemcpyAsync(move->to, move->from, move->bytes, cudaMemcpyDefault,
                                           c->members[to].queue->stream),
                "cudaMemcpyAsync", mail->error);
        return;
    }
    if (mail->status == ORR_OK)
        mail->status = check(c,
                             c->api->nccl.ncclSend(move->from, move->bytes, ncclUint8, (int)target,
                                                   mail->clique->communicators[source],
                                                   c->members[from].queue->stream),
                             "ncclSend", mail->error);
    if (mail->status == ORR_OK)
        mail->status = check(c,
                             c->api->nccl.ncclRecv(move->to, move->bytes, ncclUint8, (int)source,
                                                   mail->clique->communicators[target],
                                                   c->members[to].queue->stream),
                             "ncclRecv", mail->error);
}

/* --- groups --- */

static enum orr_status call_all(struct orr__cuda_collectives *c,
                                const struct orr__nccl_clique *clique, struct orr_error *error) {
    enum orr_status status = ORR_OK;
    if (orr_collective_is_direct(c->collectives[0]->kind)) {
        struct mail mail = {c, clique, ORR_OK, error};
        orr_collective_moves(c->collectives, c->count, post, &mail);
        return mail.status;
    }
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        struct caller caller = {.c = c,
                                .of = c->collectives[i],
                                .communicator = clique->communicators[i],
                                .stream = c->members[i].queue->stream,
                                .size = orr_dtype_size(c->collectives[i]->dtype),
                                .error = error};
        status = call(&caller);
    }
    return status;
}

enum orr_status orr__nccl_enqueue(struct orr__cuda_collectives *c, struct orr_error *error) {
    struct orr_error why = {0};
    struct orr__nccl_clique *clique = NULL;
    if (c->failed)
        return give_up(c, &c->failure, error);
    enum orr_status status = find_clique(c, &clique, error);
    if (status == ORR_OK)
        status = check(c, c->api->nccl.ncclGroupStart(), "ncclGroupStart", error);
    if (status != ORR_OK)
        return status;
    status = call_all(c, clique, &why);
    /* The group ends in any case; what ends it badly is told by the first call that failed. */
    ncclResult_t end = c->api->nccl.ncclGroupEnd();
    if (status == ORR_OK)
        status = check(c, end, "ncclGroupEnd", &why);
    if (status != ORR_OK)
        return give_up(c, &why, error);
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++)
        if (needs_settling(c->collectives[i]) && orr_collective_out_count(c->collectives[i]) > 0)
            status = settle(c, i, error);
    return status;
}
