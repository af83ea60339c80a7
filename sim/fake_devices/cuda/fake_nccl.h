/* Private to the fake NCCL: communicators, and the calls of a group until it ends.
 *
 * Calls are kept as they come; ncclGroupEnd joins those that belong together and puts their work
 * into the streams (fake_nccl_group.c). One thread drives all ranks, so a group that lacks a call
 * can't be completed by anybody else: where NCCL waits for ever, the fake answers ncclInvalidUsage,
 * and ncclGetLastError says who is missing.
 *
 * Threads: the host's. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_FAKE_NCCL_H
#define ORR_SIM_FAKE_DEVICES_CUDA_FAKE_NCCL_H

#include "runtime/collective.h"
#include "sim/fake_devices/cuda/fake_internal.h"

enum { ORR__FAKE_NCCL_TEXT_MAX = 256 };

struct orr__fake_clique;

/* What a ncclComm_t points to. */
struct ncclComm {
    struct orr__fake_clique *clique; /* NULL: destroyed */
    uint32_t rank, device;
};

/* The communicators that were made together. */
struct orr__fake_clique {
    struct orr__fake_clique *next;
    uint32_t ranks, alive;
    struct ncclComm members[];
};

enum orr__fake_nccl_kind { ORR__FAKE_COLLECTIVE, ORR__FAKE_SEND, ORR__FAKE_RECEIVE };

struct orr__fake_nccl_call {
    enum orr__fake_nccl_kind kind;
    enum orr_collective_kind collective;
    enum orr__fake_function function;
    struct ncclComm *communicator;
    struct orr__fake_stream *stream;
    const void *in;
    void *out;
    uint64_t count;
    ncclDataType_t type;
    ncclRedOp_t operation; /* of those that reduce */
    uint32_t root;         /* or peer */
    bool done;
};

struct orr__fake_nccl {
    struct orr__fake_clique *cliques;
    uint32_t depth; /* of groups */
    struct orr__fake_nccl_call *calls;
    size_t call_count, call_capacity;
    char last_error[ORR__FAKE_NCCL_TEXT_MAX];
};

/* nccl.h declares these two without their arguments. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* Bytes of an element; 0 for a type that is none. */
uint64_t orr__fake_nccl_size(ncclDataType_t type);

/* Says why, for ncclGetLastError; returns `code`. */
ncclResult_t orr__fake_nccl_fail(struct orr__fake_nccl *nccl, ncclResult_t code, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));

/* Puts the calls' work into their streams, and forgets the calls. */
ncclResult_t orr__fake_nccl_end(struct orr_fake_cuda *fake, struct orr__fake_nccl *nccl);

#endif
