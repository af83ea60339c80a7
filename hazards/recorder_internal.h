/* Internal to the recorder: the calls as they were told. recorder.c writes them down,
 * recorder_program.c makes a program of them, recorder_blocks.c finds out which buffers share
 * bytes.
 *
 * Threads: one. */
#ifndef ORR_HAZARDS_RECORDER_INTERNAL_H
#define ORR_HAZARDS_RECORDER_INTERNAL_H

#include "hazards/recorder.h"

enum orr__call_kind {
    ORR__CALL_COMMAND,
    ORR__CALL_ALLOC,
    ORR__CALL_FREE,
    ORR__CALL_RECORD_STREAM,
    ORR__CALL_OBSERVED,
    ORR__CALL_POSTED,
    ORR__CALL_TAKEN
};

struct orr__call {
    uint8_t kind;    /* enum orr__call_kind */
    uint8_t command; /* enum orr_command_kind */
    uint8_t collective_kind;
    uint32_t host, stream, name, site;
    uint64_t id;  /* of the command, buffer or message */
    uint64_t seq; /* of a command in its stream */
    size_t access_first, point_first;
    uint32_t access_count, point_count;
    uint32_t communicator, rank, members;
};

struct orr__noted_buffer {
    uint64_t id, base, bytes;
    uint32_t memory, label;
    bool is_host, is_pageable;
};

struct orr__noted_stream {
    uint32_t id, device, name;
};

struct orr__noted_host {
    uint32_t id;
    char *name; /* owned */
};

struct orr_recorder {
    struct orr_observer observer; /* first */
    const struct orr_memory *memory;
    struct orr__call *calls;
    struct orr_observed_access *accesses;
    struct orr_point *points;
    struct orr__noted_buffer *buffers; /* in the order of allocations, ids ascending */
    struct orr__noted_stream *streams;
    struct orr__noted_host *hosts;
    size_t call_count, call_capacity, access_count, access_capacity, point_count, point_capacity,
        buffer_count, buffer_capacity, stream_count, stream_capacity, host_count, host_capacity;
    enum orr_status status;
};

/* How a buffer is introduced. */
struct orr__block_use {
    uint64_t origin;     /* where ranges of its block begin in its memory */
    uint32_t other;      /* index of the buffer whose block it gets; ORR_NONE: a new block */
    bool is_whole;       /* it gets the whole of that block: `alloc` with `reuse`, not an alias */
    size_t first, count; /* in `order`: the buffers of its block */
};

/* For every buffer; `order` groups the buffers of a block. Both are owned by the caller. */
struct orr__blocks {
    struct orr__block_use *uses;
    uint32_t *order;
};

/* ORR_NO_MEMORY leaves nothing behind. */
enum orr_status orr__recorder_blocks(const struct orr_recorder *recorder,
                                     struct orr__blocks *out_blocks) ORR_MUST_CHECK;

/* Index of the buffer with an id; ORR_NONE if nobody told of it. */
uint32_t orr__recorder_buffer(const struct orr_recorder *recorder, uint64_t id);

#endif
