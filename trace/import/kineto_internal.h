/* Internal to trace/import/: what the files of the Kineto importer share.
 *
 *   kineto_event.c        text of an event -> struct orr__event
 *   kineto.c              the loop, the members of the top level, finishing
 *   kineto_work.c         events of devices and API calls -> builder
 *   kineto_host.c         events of threads, counters, names -> builder
 *   kineto_operators.c    External id -> operators with shapes
 *   kineto_nesting.c      calls -> operators by time, where ids lead nowhere
 *   kineto_processes.c    several processes in one file
 *   kineto_collectives.c  arguments of communication kernels -> communicators, collectives
 *   kineto_findings.c     what there is to tell of the import
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_KINETO_INTERNAL_H
#define ORR_TRACE_IMPORT_KINETO_INTERNAL_H

#include "trace/import/builder.h"
#include "trace/import/formats.h"
#include "trace/import/index.h"
#include "trace/import/kineto_event.h"

enum {
    ORR__KINETO_TEXT_MAX = 1 << 16,   /* bytes of a name; of a longer one the beginning */
    ORR__KINETO_DEVICES_MAX = 1 << 12 /* of deviceProperties; more are not looked at */
};

/* X(name): sorts of events that are counted. */
#define ORR__KINETO_COUNT_LIST(X)                                                                  \
    X(flows)         /* arrows; work is linked by correlation */                                   \
    X(instants)      /* other than those of memory */                                              \
    X(summaries)     /* the slice of the whole profile */                                          \
    X(metadata)      /* names and sort keys */                                                     \
    X(no_event)      /* without a ph, or no object */                                              \
    X(other_ph)      /* of a ph that is not known */                                               \
    X(no_time)       /* with a time that is none, or beyond what fits */                           \
    X(no_place)      /* of a device or stream that cannot be told */                               \
    X(no_call)       /* API calls without a correlation */                                         \
    X(counters_left) /* of no device */                                                            \
    X(memory_left)   /* memory of hosts, or without totals */

struct orr__kineto_device { /* of deviceProperties */
    uint64_t id, mem_bytes, multiprocessors;
    const char *name;
};

struct orr__kineto_operator { /* a cpu_op */
    uint64_t external_id, slice;
    const char *name, *shape;
    enum orr_dtype dtype;
};

struct orr__kineto_reference { /* from work on a device to a cpu_op */
    uint64_t command, external_id;
};

struct orr__kineto_counter { /* of an event "C": taken if its pid turns out to be a device */
    uint32_t device;
    const char *name;
    int64_t ts_ns;
    double value;
};

struct orr__kineto_thread { /* a name from the metadata */
    const char *label, *name;
};

struct orr__kineto_member { /* a communication kernel */
    uint64_t command;
    uint32_t communicator; /* index of the importer's */
    uint64_t seq, bytes;
    bool has_seq;
    const char *kind;
    enum orr_dtype dtype;
    uint32_t root, peer;
};

struct orr__kineto_group {
    const char *name, *ranks; /* "[0, 1]" as written */
};

/* An array of the importer's own. */
#define ORR__KINETO_ARRAY(type, name)                                                              \
    struct type *name;                                                                             \
    size_t name##_count, name##_capacity

struct orr__kineto {
    const struct orr_memory *memory;
    struct orr__builder *builder;
    struct orr__json_document *document;
    struct orr__json_piece *piece; /* being read */
    struct orr__event_keys keys;
    struct orr__event event;
    char *text;  /* 3 * ORR__KINETO_TEXT_MAX bytes, for decoding */
    bool failed; /* memory is out */
    bool has_syncs, has_waits;
    bool member_repaired;                       /* a text of the member being read */
    uint8_t has_work[ORR__BUILDER_DEVICES / 8]; /* a bit for each device */
    uint64_t slices, commands;                  /* made so far: their ids and places */
    uint64_t subns_stamps;
    uint64_t first_offset_no_time, first_offset_no_place;
#define ORR__KINETO_COUNTER(name) uint64_t name;
    ORR__KINETO_COUNT_LIST(ORR__KINETO_COUNTER)
#undef ORR__KINETO_COUNTER
    ORR__KINETO_ARRAY(orr__kineto_device, devices);
    ORR__KINETO_ARRAY(orr__kineto_operator, operators);
    ORR__KINETO_ARRAY(orr__kineto_reference, references);
    ORR__KINETO_ARRAY(orr__kineto_thread, threads);
    ORR__KINETO_ARRAY(orr__kineto_counter, counters);
    ORR__KINETO_ARRAY(orr__kineto_member, members);
    ORR__KINETO_ARRAY(orr__kineto_group, groups);
    struct orr__index thread_index, group_index;
};

/* Room for one more item, zeroed, or NULL and k->failed. */
#define ORR__KINETO_ADD(k, name)                                                                   \
    (orr_memory_grow((k)->memory, &(k)->name, &(k)->name##_capacity, (k)->name##_count + 1,        \
                     sizeof *(k)->name, INT32_MAX) != ORR_OK                                       \
         ? ((k)->failed = true, NULL)                                                              \
         : &(k)->name[(k)->name##_count++])

static inline bool orr__kineto_has(const struct orr__kineto *k, enum orr__field field) {
    return (k->event.fields >> field & 1) != 0;
}

static inline bool orr__kineto_has_arg(const struct orr__kineto *k, enum orr__arg arg) {
    return (k->event.has >> arg & 1) != 0;
}

/* A text of the event, decoded and stored once; "" if it is no string. */
const char *orr__kineto_text(struct orr__kineto *k, const struct orr__json_value *value);

/* An integer argument; false if it is not there or none. */
bool orr__kineto_i64(const struct orr__kineto *k, enum orr__arg arg, int64_t *out_number);
bool orr__kineto_u64(const struct orr__kineto *k, enum orr__arg arg, uint64_t *out_number);

/* Begin and end of the event in ns; false, and counted, if they are none. *out_subns is how many of
 * the two stamps had more than three decimals. */
bool orr__kineto_times(struct orr__kineto *k, int64_t *out_begin_ns, int64_t *out_end_ns,
                       unsigned *out_subns);

/* The correlation, or ORR_CORRELATION_NONE. */
uint64_t orr__kineto_correlation(const struct orr__kineto *k, enum orr__arg arg);

/* "pid/tid" of the event, stored. */
const char *orr__kineto_thread_label(struct orr__kineto *k);
/* The thread of the event. */
uint32_t orr__kineto_host(struct orr__kineto *k);

/* Device, and stream of it (arguments first, then pid and tid); false, and counted, if there is
 * none. *out_stream is the builder's. */
bool orr__kineto_stream(struct orr__kineto *k, uint32_t *out_device, uint32_t *out_stream);

/* Number of a device from a value; false if it is none that a builder takes. */
bool orr__kineto_device_number(const struct orr__json_value *value, uint32_t *out_device);

/* The event, by its category; false if it is none of these. */
bool orr__kineto_work(struct orr__kineto *k, const char *category, size_t length);
/* Any other slice. */
void orr__kineto_slice(struct orr__kineto *k, const char *category, size_t length);
/* Instants of memory, counters, names. */
void orr__kineto_instant(struct orr__kineto *k);
void orr__kineto_counter(struct orr__kineto *k);
void orr__kineto_metadata(struct orr__kineto *k);
/* Counters of what turned out to be devices; before the builder is finished. */
void orr__kineto_resolve_counters(struct orr__kineto *k);

/* The name that the metadata gives a thread by its stored label, or NULL. */
const char *orr__kineto_thread_name(const struct orr__kineto *k, const char *label);

/* A slice from the event's times; NULL if it has none. */
struct orr_timeline_slice *orr__kineto_add_slice(struct orr__kineto *k, enum orr_slice_kind kind);

/* What a cpu_op says, and who refers to it. */
void orr__kineto_operator(struct orr__kineto *k, uint64_t slice, const char *name);
void orr__kineto_reference(struct orr__kineto *k, uint64_t command);
/* Makes the operators that work refers to, in a finished timeline. ORR_NO_MEMORY. */
enum orr_status orr__kineto_resolve_operators(struct orr__kineto *k,
                                              struct orr_timeline *timeline) ORR_MUST_CHECK;
/* Makes an operator (by its index) the command's; `op_capacity` is of timeline->ops.
 * ORR_NO_MEMORY. */
enum orr_status orr__kineto_assign(const struct orr__kineto *k, struct orr_timeline *timeline,
                                   size_t *op_capacity, uint32_t item,
                                   struct orr_timeline_command *command) ORR_MUST_CHECK;
/* Those of commands that have none yet, by time (kineto_nesting.c). ORR_NO_MEMORY. */
enum orr_status orr__kineto_nest(struct orr__kineto *k, struct orr_timeline *timeline,
                                 size_t *op_capacity) ORR_MUST_CHECK;
/* "Float", "c10::BFloat16", "long int": ORR_DTYPE_NONE for what is not known here. */
enum orr_dtype orr__kineto_dtype(struct orr__json_text text);

/* The collective of a communication kernel, if its arguments say which. */
void orr__kineto_collective(struct orr__kineto *k, uint64_t command);
/* Makes communicators and collectives in the builder. */
void orr__kineto_resolve_collectives(struct orr__kineto *k);

/* Tells the calls of several processes apart if they share correlations; before the builder is
 * finished. ORR_NO_MEMORY. */
enum orr_status orr__kineto_separate(struct orr__kineto *k) ORR_MUST_CHECK;

/* Findings and the source's numbers; before the builder is finished. */
void orr__kineto_findings(struct orr__kineto *k);
/* For strict readers: ORR_INVALID with the first thing that is wrong with the text. */
enum orr_status orr__kineto_strict(const struct orr__json_report *report, const char *name,
                                   struct orr_error *error) ORR_MUST_CHECK;

#endif
