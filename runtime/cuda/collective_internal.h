/* What the files of collectives share: collective.c takes a group and lets its members meet,
 * emulated.c and nccl.c do its work.
 *
 * Threads: the host's. */
#ifndef ORR_RUNTIME_CUDA_COLLECTIVE_INTERNAL_H
#define ORR_RUNTIME_CUDA_COLLECTIVE_INTERNAL_H

#include "runtime/cuda/collective.h"

/* A NCCL communicator: one for each communicator of the program and list of devices. */
struct orr__nccl_clique {
    struct orr__nccl_clique *next;
    uint32_t id; /* of the program's communicator; ORR_ID_NONE: all devices, for sends */
    uint32_t count;
    ncclComm_t *communicators; /* by rank; behind the devices */
    uint32_t devices[];        /* by rank, logical */
};

struct orr__cuda_collectives {
    struct orr__cuda_api *api;
    const struct orr_memory *memory;
    const uint32_t *gpus; /* by logical device; NULL: all on GPU 0 */
    uint32_t device_count;
    bool several; /* GPUs: which one is current matters */
    bool nccl;
    /* One for each GPU, made when it is first used. A wait is for an event's latest record at the
     * time of the call, so one event serves any number of meetings. */
    cudaEvent_t events[ORR_CUDA_GPUS_MAX];
    struct orr__nccl_clique *cliques;
    bool failed; /* NCCL has: `failure` says how */
    struct orr_error failure;

    /* The group in hand, by rank. The first one leads: common work is in its stream. */
    struct orr__cuda_member *members;
    const struct orr_collective **collectives;
    uint32_t count, capacity;

    union {
        struct orr__k_reduce_few reduce_few;
        struct orr__k_reduce_many reduce_many;
        struct orr__k_carry_few carry_few;
        struct orr__k_carry_many carry_many;
    } argument; /* of the launch in hand */
};

/* The GPU of a logical device. */
uint32_t orr__cuda_gpu_of(const struct orr__cuda_collectives *c, uint32_t device);
/* The member of the group with a rank that is there: of sends there may be only some. */
uint32_t orr__cuda_index_of(const struct orr__cuda_collectives *c, uint32_t rank);
/* Makes the GPU of a member of the group current. */
enum orr_status orr__cuda_member_current(struct orr__cuda_collectives *c, uint32_t index,
                                         struct orr_error *error) ORR_MUST_CHECK;

/* The leader's stream waits for all that is in the members' streams; the members' streams wait for
 * all that is in the leader's; both, one after the other. */
enum orr_status orr__cuda_arrive(struct orr__cuda_collectives *c,
                                 struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cuda_leave(struct orr__cuda_collectives *c,
                                struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cuda_meet(struct orr__cuda_collectives *c,
                               struct orr_error *error) ORR_MUST_CHECK;

/* The group in hand, whose operands are all there. */
enum orr_status orr__emulated_enqueue(struct orr__cuda_collectives *c,
                                      struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__nccl_enqueue(struct orr__cuda_collectives *c,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* ORR_DEVICE_FAILED if NCCL has failed, now or before. */
enum orr_status orr__nccl_poll(struct orr__cuda_collectives *c,
                               struct orr_error *error) ORR_MUST_CHECK;
/* Destroys all communicators, or aborts them. */
void orr__nccl_close(struct orr__cuda_collectives *c, bool abort);

#endif
