/* Groups of collectives: how they are taken, and how their members meet. */
#include "runtime/cuda/collective.h"

#include <assert.h>
#include <string.h>

#include "runtime/collective.h"
#include "runtime/cuda/collective_internal.h"

/* --- the object --- */

uint32_t orr__cuda_gpu_of(const struct orr__cuda_collectives *c, uint32_t device) {
    assert(device < c->device_count);
    return c->gpus ? c->gpus[device] : 0;
}

/* The first two logical devices that share a GPU. */
static bool find_shared(const struct orr__cuda_collectives *c, uint32_t *out_a, uint32_t *out_b) {
    for (uint32_t b = 1; b < c->device_count; b++)
        for (uint32_t a = 0; a < b; a++)
            if (orr__cuda_gpu_of(c, a) == orr__cuda_gpu_of(c, b)) {
                *out_a = a;
                *out_b = b;
                return true;
            }
    return false;
}

/* NCCL answers two ranks on one GPU with ncclInvalidUsage and no reason (ncclCommInitAll of 2.28),
 * so the reason is said here. */
static enum orr_status choose(struct orr__cuda_collectives *c, enum orr_cuda_collectives wanted,
                              struct orr_error *error) {
    uint32_t a, b;
    struct orr_error missing = {0};
    if (wanted == ORR_CUDA_COLLECTIVES_EMULATED)
        return ORR_OK;
    if (find_shared(c, &a, &b))
        return wanted == ORR_CUDA_COLLECTIVES_AUTO
                   ? ORR_OK
                   : orr_error_set(error, ORR_UNAVAILABLE,
                                   "NCCL wants a GPU for each device, but devices %u and %u share "
                                   "GPU %u, which it refuses with ncclInvalidUsage (5): use "
                                   "--collectives emulated, or a GPU for each",
                                   a, b, orr__cuda_gpu_of(c, a));
    if (wanted == ORR_CUDA_COLLECTIVES_NCCL) {
        enum orr_status status = orr__cuda_need(c->api, ORR__CUDA_NCCL, error);
        c->nccl = status == ORR_OK;
        return status;
    }
    c->nccl = c->device_count > 1 && orr__cuda_need(c->api, ORR__CUDA_NCCL, &missing) == ORR_OK;
    return ORR_OK;
}

enum orr_status orr__cuda_collectives_open(struct orr__cuda_api *api,
                                           const struct orr_memory *memory,
                                           const struct orr_cuda_options *options,
                                           uint32_t device_count,
                                           struct orr__cuda_collectives **out_collectives,
                                           struct orr_error *error) {
    *out_collectives = NULL;
    struct orr__cuda_collectives *c = orr_memory_alloc(memory, sizeof *c);
    if (!c)
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for collectives");
    memset(c, 0, sizeof *c);
    c->api = api;
    c->memory = memory;
    c->gpus = options ? options->gpus : NULL;
    c->device_count = device_count;
    for (uint32_t i = 0; i < device_count; i++) {
        assert(orr__cuda_gpu_of(c, i) < ORR_CUDA_GPUS_MAX);
        c->several = c->several || orr__cuda_gpu_of(c, i) != orr__cuda_gpu_of(c, 0);
    }
    enum orr_status status =
        choose(c, options ? options->collectives : ORR_CUDA_COLLECTIVES_AUTO, error);
    if (status == ORR_OK)
        *out_collectives = c;
    else
        orr_memory_free(memory, c);
    return status;
}

void orr__cuda_collectives_close(struct orr__cuda_collectives **handle) {
    struct orr__cuda_collectives *c = *handle;
    if (!c)
        return;
    orr__nccl_close(c, false);
    /* Destroying fails only after an error that everything else has told of, too. */
    for (uint32_t gpu = 0; gpu < ORR_CUDA_GPUS_MAX; gpu++)
        if (c->events[gpu])
            (void)c->api->rt.cudaEventDestroy(c->events[gpu]);
    orr_memory_free(c->memory, c->members);
    orr_memory_free(c->memory, c->collectives);
    orr_memory_free(c->memory, c);
    *handle = NULL;
}

const char *orr__cuda_collectives_algorithm(const struct orr__cuda_collectives *c) {
    return c->nccl ? "nccl" : "emulated";
}

enum orr_status orr__cuda_collectives_poll(struct orr__cuda_collectives *c,
                                           struct orr_error *error) {
    return c->nccl ? orr__nccl_poll(c, error) : ORR_OK;
}

/* --- meeting --- */

static enum orr_status make_current(struct orr__cuda_collectives *c, uint32_t gpu,
                                    struct orr_error *error) {
    if (!c->several)
        return ORR_OK;
    return orr__cuda_check(c->api, c->api->rt.cudaSetDevice((int)gpu), "cudaSetDevice", error);
}

enum orr_status orr__cuda_member_current(struct orr__cuda_collectives *c, uint32_t index,
                                         struct orr_error *error) {
    return make_current(c, orr__cuda_gpu_of(c, c->members[index].device), error);
}

/* The event of a GPU, recorded in a member's stream. */
static enum orr_status record(struct orr__cuda_collectives *c, uint32_t index,
                              struct orr_error *error) {
    cudaEvent_t *event = &c->events[orr__cuda_gpu_of(c, c->members[index].device)];
    enum orr_status status = orr__cuda_member_current(c, index, error);
    if (status == ORR_OK && !*event)
        status = orr__cuda_check(c->api,
                                 c->api->rt.cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                                 "cudaEventCreateWithFlags", error);
    if (status == ORR_OK)
        status = orr__cuda_check(
            c->api, c->api->rt.cudaEventRecord(*event, c->members[index].queue->stream),
            "cudaEventRecord", error);
    return status;
}

/* Member `index` waits for the latest record in the stream of member `of`. */
static enum orr_status await(struct orr__cuda_collectives *c, uint32_t index, uint32_t of,
                             struct orr_error *error) {
    cudaEvent_t event = c->events[orr__cuda_gpu_of(c, c->members[of].device)];
    enum orr_status status = orr__cuda_member_current(c, index, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_check(
        c->api, c->api->rt.cudaStreamWaitEvent(c->members[index].queue->stream, event, 0),
        "cudaStreamWaitEvent", error);
}

enum orr_status orr__cuda_arrive(struct orr__cuda_collectives *c, struct orr_error *error) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 1; status == ORR_OK && i < c->count; i++) {
        status = record(c, i, error);
        if (status == ORR_OK)
            status = await(c, 0, i, error);
    }
    return status;
}

enum orr_status orr__cuda_leave(struct orr__cuda_collectives *c, struct orr_error *error) {
    enum orr_status status = c->count > 1 ? record(c, 0, error) : ORR_OK;
    for (uint32_t i = 1; status == ORR_OK && i < c->count; i++)
        status = await(c, i, 0, error);
    return status;
}

enum orr_status orr__cuda_meet(struct orr__cuda_collectives *c, struct orr_error *error) {
    enum orr_status status = orr__cuda_arrive(c, error);
    return status == ORR_OK ? orr__cuda_leave(c, error) : status;
}

/* --- groups --- */

static enum orr_status reserve(struct orr__cuda_collectives *c, uint32_t count,
                               struct orr_error *error) {
    if (count <= c->capacity)
        return ORR_OK;
    struct orr__cuda_member *members = orr_memory_alloc(c->memory, count * sizeof *members);
    const struct orr_collective **collectives =
        orr_memory_alloc(c->memory, count * sizeof(const struct orr_collective *));
    if (!members || !collectives) {
        orr_memory_free(c->memory, members);
        orr_memory_free(c->memory, collectives);
        return orr_error_set(error, ORR_NO_MEMORY, "no memory for a group of %u", count);
    }
    orr_memory_free(c->memory, c->members);
    orr_memory_free(c->memory, c->collectives);
    c->members = members;
    c->collectives = collectives;
    c->capacity = count;
    return ORR_OK;
}

/* By rank; callers nearly always have them so. */
static void take(struct orr__cuda_collectives *c, const struct orr__cuda_member *members,
                 uint32_t count) {
    c->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = c->count++;
        for (; at > 0 && c->members[at - 1].collective->rank > members[i].collective->rank; at--)
            c->members[at] = c->members[at - 1];
        c->members[at] = members[i];
    }
    for (uint32_t i = 0; i < count; i++)
        c->collectives[i] = c->members[i].collective;
}

uint32_t orr__cuda_index_of(const struct orr__cuda_collectives *c, uint32_t rank) {
    uint32_t low = 0, high = c->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->collectives[middle]->rank <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool has_operands(const struct orr__cuda_collectives *c) {
    bool any = false;
    for (uint32_t i = 0; i < c->count; i++)
        any = any || c->collectives[i]->in || c->collectives[i]->out ||
              c->collectives[i]->transfer_count > 0;
    return any;
}

enum orr_status orr__cuda_collectives_enqueue(struct orr__cuda_collectives *c,
                                              const struct orr__cuda_member *members,
                                              uint32_t count, struct orr_error *error) {
    assert(count > 0);
    enum orr_status status = reserve(c, count, error);
    if (status != ORR_OK)
        return status;
    take(c, members, count);
    status = orr_collective_check(c->collectives, count, error);
    if (status != ORR_OK || !has_operands(c))
        return status == ORR_OK ? orr__cuda_meet(c, error) : status;
    status = orr_collective_check_operands(c->collectives, count, error);
    if (status != ORR_OK)
        return status;
    /* A rank by itself needs nobody's help. */
    return c->nccl && count > 1 ? orr__nccl_enqueue(c, error) : orr__emulated_enqueue(c, error);
}
