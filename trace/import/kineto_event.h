/* Internal to trace/import/: one event of a Chrome JSON trace, taken apart.
 *
 * Only the members that somebody uses are kept, as slices of the text; whatever their order.
 *
 *     struct orr__event_keys keys;
 *     orr__event_keys_init(&keys);
 *     orr__event_read(&keys, &piece.cursor, &event);
 *     if (event.ph == 'X' && event.has & ORR__ARG_BIT(CORRELATION))
 *         orr__json_u64(&event.args[ORR__ARG_CORRELATION], &number);
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_KINETO_EVENT_H
#define ORR_TRACE_IMPORT_KINETO_EVENT_H

#include "trace/import/json_lexer.h"

/* X(name, key): members of an event itself. */
#define ORR__FIELD_LIST(X)                                                                         \
    X(CAT, "cat")                                                                                  \
    X(NAME, "name")                                                                                \
    X(PID, "pid")                                                                                  \
    X(TID, "tid")                                                                                  \
    X(TS, "ts")                                                                                    \
    X(DUR, "dur")

/* X(name, key): members of its args. */
#define ORR__ARG_LIST(X)                                                                           \
    X(CORRELATION, "correlation")                                                                  \
    X(DEVICE, "device")                                                                            \
    X(STREAM, "stream")                                                                            \
    X(CONTEXT, "context")                                                                          \
    X(EXTERNAL_ID, "External id")                                                                  \
    X(EXTERNAL_ID_OLD, "external id")                                                              \
    X(BYTES, "bytes")                                                                              \
    X(GRID, "grid")                                                                                \
    X(BLOCK, "block")                                                                              \
    X(GRAPH_ID, "graph id")                                                                        \
    X(SYNC_KIND, "cuda_sync_kind")                                                                 \
    X(WAIT_STREAM, "wait_on_stream")                                                               \
    X(WAIT_RECORD, "wait_on_cuda_event_record_corr_id")                                            \
    X(DIMS, "Input Dims")                                                                          \
    X(TYPES, "Input type")                                                                         \
    X(VALUES, "Concrete Inputs")                                                                   \
    X(META_NAME, "name")                                                                           \
    X(MEMORY_DEVICE_TYPE, "Device Type")                                                           \
    X(MEMORY_DEVICE, "Device Id")                                                                  \
    X(MEMORY_ALLOCATED, "Total Allocated")                                                         \
    X(MEMORY_RESERVED, "Total Reserved")                                                           \
    X(COLLECTIVE, "Collective name")                                                               \
    X(COLLECTIVE_IN, "In msg nelems")                                                              \
    X(COLLECTIVE_OUT, "Out msg nelems")                                                            \
    X(COLLECTIVE_DTYPE, "dtype")                                                                   \
    X(COLLECTIVE_SEQ, "Seq")                                                                       \
    X(COLLECTIVE_SRC, "Src Rank")                                                                  \
    X(COLLECTIVE_DST, "Dst Rank")                                                                  \
    X(GROUP_NAME, "Process Group Name")                                                            \
    X(GROUP_TITLE, "Process Group Description")                                                    \
    X(GROUP_RANKS, "Process Group Ranks")

#define ORR__EVENT_ENUM_FIELD(name, key) ORR__FIELD_##name,
#define ORR__EVENT_ENUM_ARG(name, key)   ORR__ARG_##name,
enum orr__field { ORR__FIELD_LIST(ORR__EVENT_ENUM_FIELD) ORR__FIELD_COUNT };
enum orr__arg { ORR__ARG_LIST(ORR__EVENT_ENUM_ARG) ORR__ARG_COUNT };

#define ORR__ARG_BIT(name) (UINT64_C(1) << ORR__ARG_##name)
_Static_assert(ORR__ARG_COUNT <= 64, "a bit each");

struct orr__event {
    char ph; /* '\0': none */
    bool is_object;
    uint32_t fields; /* bits of those that are there: 1 << ORR__FIELD_name */
    uint64_t has;    /* ORR__ARG_BIT(name) of those that are there */
    struct orr__json_value field[ORR__FIELD_COUNT]; /* absent: null, without text */
    struct orr__json_value args[ORR__ARG_COUNT];    /* absent: whatever */
    struct orr__json_text all_args; /* the whole object, length 0 if there is none */
};

/* The keys by a hash of their length and first byte. */
struct orr__event_keys {
    uint8_t first[64];            /* argument + 1, 0 none */
    uint8_t next[ORR__ARG_COUNT]; /* likewise */
};

void orr__event_keys_init(struct orr__event_keys *keys);

/* Reads the value that the cursor stands before; whether it is worth anything, the cursor's state
 * says. */
void orr__event_read(const struct orr__event_keys *keys, struct orr__json_cursor *cursor,
                     struct orr__event *out_event);

#endif
