/* Collectives of logical devices: emulated on one GPU, or NCCL's where each has a GPU of its own.
 *
 * A group's members wait for each other in their streams, as NCCL's do: nothing of a collective
 * begins before every member has reached the head of its stream, and all end together.
 *
 *     emulated   every stream records an event; the stream of the lowest rank waits for all of
 *                them, runs one kernel that reads all inputs and writes all outputs, and records an
 *                event that the others wait for. Terms are taken in rank order, so results are
 *                those of runtime/collective.h, bit for bit but for the payload of NaNs. On several
 *                GPUs operands travel to the lowest rank's GPU and back by copies. Its time is that
 *                of memory, not of links.
 *     nccl       one NCCL communicator for each communicator, made when it is first used. Sums
 *                are in NCCL's order and rounded where NCCL rounds.
 *
 *     status = orr__cuda_collectives_open(api, memory, options, device_count, &c, &error);
 *     struct orr__cuda_member members[2] = {{queue_0, 0, &of_rank_0}, {queue_1, 1, &of_rank_1}};
 *     ... what the members wait for is in their streams already ...
 *     status = orr__cuda_collectives_enqueue(c, members, 2, &error);
 *
 * Functions leave another GPU current than they found if there are several.
 *
 * Threads: the host's. */
#ifndef ORR_RUNTIME_CUDA_COLLECTIVE_H
#define ORR_RUNTIME_CUDA_COLLECTIVE_H

#include "runtime/backend.h"
#include "runtime/cuda/plugin.h"
#include "runtime/cuda/queue.h"

struct orr__cuda_collectives; /* of one backend */

/* A member of a group. */
struct orr__cuda_member {
    struct orr__cuda_queue *queue; /* on the device's GPU */
    uint32_t device;               /* logical */
    const struct orr_collective *collective;
};

/* `options` may be NULL; all is borrowed until close. Decides between NCCL and emulation:
 * ORR_UNAVAILABLE if options ask for NCCL and two devices share a GPU, or NCCL is not there. */
enum orr_status orr__cuda_collectives_open(struct orr__cuda_api *api,
                                           const struct orr_memory *memory,
                                           const struct orr_cuda_options *options,
                                           uint32_t device_count,
                                           struct orr__cuda_collectives **out_collectives,
                                           struct orr_error *error) ORR_MUST_CHECK;

/* Streams have finished. Nulls; accepts NULL. Before queues are cleared. */
void orr__cuda_collectives_close(struct orr__cuda_collectives **collectives);

/* "emulated" or "nccl": `collective` of the backend's verbs. Static. */
const char *orr__cuda_collectives_algorithm(const struct orr__cuda_collectives *collectives);

/* Enqueues one collective; members in any order, each in a stream of its own. Without operands
 * (barriers, runs that are timing only) members only wait for each other. ORR_INVALID as
 * orr_collective_check, or if an operand that the kind needs is NULL: nothing has been enqueued
 * then. Anything else (a call that failed) may leave part of the group in the streams: the backend
 * ends the members as failed. */
enum orr_status orr__cuda_collectives_enqueue(struct orr__cuda_collectives *collectives,
                                              const struct orr__cuda_member *members,
                                              uint32_t count,
                                              struct orr_error *error) ORR_MUST_CHECK;

/* For a host that waits: ORR_DEVICE_FAILED once NCCL tells of an error (a lost peer); all its
 * communicators are aborted then, so that their kernels end, and later collectives fail. */
enum orr_status orr__cuda_collectives_poll(struct orr__cuda_collectives *collectives,
                                           struct orr_error *error) ORR_MUST_CHECK;

#endif
