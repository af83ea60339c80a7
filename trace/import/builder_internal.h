/* Internal to trace/import/: the inside of a builder, shared by builder.c, which appends, and
 * builder_link.c, which finishes.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_BUILDER_INTERNAL_H
#define ORR_TRACE_IMPORT_BUILDER_INTERNAL_H

#include "trace/import/builder.h"
#include "trace/import/index.h"
#include "trace/timeline_texts.h"

struct orr__text {
    const char *text;
    uint32_t length;
};

/* Who a stream is, for looking it up and for its place among the others. */
struct orr__stream_key {
    uint32_t device;
    uint64_t process, context;
    int64_t number;
};

struct orr__sync_link {
    uint64_t sync; /* its id */
    uint64_t process, correlation;
};

/* X(items, count): arrays of the timeline that a builder appends to. */
#define ORR__BUILDER_ARRAYS(X)                                                                     \
    X(meta, meta_count)                                                                            \
    X(devices, device_count)                                                                       \
    X(streams, stream_count)                                                                       \
    X(hosts, host_count)                                                                           \
    X(commands, command_count)                                                                     \
    X(syncs, sync_count)                                                                           \
    X(communicators, communicator_count)                                                           \
    X(members, member_count)                                                                       \
    X(collectives, collective_count)                                                               \
    X(collective_members, collective_member_count)                                                 \
    X(counters, counter_count)                                                                     \
    X(findings, finding_count)                                                                     \
    X(calls, call_count)                                                                           \
    X(stream_waits, stream_wait_count)                                                             \
    X(overheads, overhead_count)                                                                   \
    X(slices, slice_count)

struct orr__builder {
    const struct orr_memory *memory;
    struct orr_timeline *timeline;
    bool failed; /* memory is out */
    struct orr__texts *storage;
    struct orr__text *texts; /* each once */
    size_t text_count, text_capacity;
    struct orr__index text_index;
    struct orr__stream_key *stream_keys; /* by the builder's number */
    size_t stream_key_capacity;
    struct orr__index device_index, stream_index, host_index;
    uint32_t last_stream; /* most events are of the stream and the thread of the one before */
    uint32_t last_host;
    struct orr__wait *waits; /* parallel to timeline->stream_waits */
    size_t wait_capacity;
    struct orr__sync_link *sync_links;
    size_t sync_link_count, sync_link_capacity;
#define ORR__BUILDER_CAPACITY(items, count) size_t items##_capacity;
    ORR__BUILDER_ARRAYS(ORR__BUILDER_CAPACITY)
#undef ORR__BUILDER_CAPACITY
};

#endif
