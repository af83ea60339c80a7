/* Internal to trace/: what the files of merge.h share.
 *
 * merge.c says what goes where, and copies devices, streams, hosts and meta; merge_ids.c turns ids,
 * processes, times and texts of a part into those of the whole; merge_rows.c copies arrays,
 * merge_collectives.c those about collectives.
 *
 * Failure is sticky: merge->status keeps the first, texts are "" then, and nothing between needs to
 * be checked.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_MERGE_INTERNAL_H
#define ORR_TRACE_MERGE_INTERNAL_H

#include "trace/merge.h"
#include "trace/timeline_texts.h"

/* A process of a part, and its number in the timeline. */
struct orr__merge_process {
    uint64_t old;
    uint32_t part;
    uint64_t number;
};

/* A text of a part, by its address, and its copy. */
struct orr__merge_text {
    const char *old, *copy;
};

/* Where the items of a part went. Index of an item plus base, plus 1, is the id of what counts from
 * 1; 0 stays 0. */
struct orr__merge_part {
    const struct orr_timeline *timeline;
    uint32_t rank;
    int64_t offset_ns;
    const uint32_t *device_ranks;         /* or NULL */
    uint32_t *devices, *streams, *hosts;  /* by index: the new id; NONE for a device left out */
    uint32_t *communicators;              /* by index: the new id, NONE before it has one */
    uint32_t *collective_of;              /* by index of a command: its collective's, or NONE */
    bool *joined;                         /* by index of a collective: a match has it */
    size_t ops, commands, calls, buffers; /* bases */
    uint64_t blocks;                      /* base of block numbers */
    uint32_t main_device;                 /* of its collectives, else its first; NONE without */
};

struct orr__merge {
    const struct orr_memory *memory;
    const struct orr_merge_match *match;
    struct orr_error *error;
    struct orr_timeline *timeline; /* being made */
    struct orr__merge_part *parts;
    size_t part_count;
    struct orr__merge_process *processes; /* sorted by (old, part) */
    size_t process_count, process_capacity;
    struct orr__texts *texts;
    struct orr__merge_text *cache; /* a power of two of them, found by the hash of `old` */
    size_t cache_count, cache_size;
    enum orr_status status;
};

/* Keeps the first failure. */
void orr__merge_fail(struct orr__merge *merge, enum orr_status status);
/* Zeroed room for `count` items; NULL after a failure. */
void *orr__merge_array(struct orr__merge *merge, size_t count, size_t size);

/* A copy of a part's text. */
const char *orr__merge_text(struct orr__merge *merge, const char *text);
/* A made text. */
const char *orr__merge_textf(struct orr__merge *merge, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A text of so many bytes. */
const char *orr__merge_keep(struct orr__merge *merge, const char *text, size_t length);
/* "rank 3: " or "rank 3 " before a text of any length. */
const char *orr__merge_prefixed(struct orr__merge *merge, const struct orr__merge_part *part,
                                const char *separator, const char *text);

/* New ids of a part's; absent ones, and those that name nothing, are absent. */
uint32_t orr__merge_device(const struct orr__merge_part *part, uint32_t id);
uint32_t orr__merge_stream(const struct orr__merge_part *part, uint32_t id);
uint32_t orr__merge_host(const struct orr__merge_part *part, uint32_t id);
uint64_t orr__merge_op(const struct orr__merge_part *part, uint64_t id);
uint64_t orr__merge_command(const struct orr__merge_part *part, uint64_t id);
uint64_t orr__merge_call(const struct orr__merge_part *part, uint64_t id);
uint64_t orr__merge_buffer(const struct orr__merge_part *part, uint64_t id);
uint64_t orr__merge_process(const struct orr__merge *merge, const struct orr__merge_part *part,
                            uint64_t process);
/* A time of the part's clock in that of the timeline. */
int64_t orr__merge_time(const struct orr__merge_part *part, int64_t ns);

/* Index of the item with an id in an array sorted by it, `count` if there is none. The id is the
 * first member, of 8 bytes. */
size_t orr__merge_find(const void *items, size_t count, size_t size, uint64_t id);

/* Gives all processes of all parts their numbers. */
void orr__merge_processes(struct orr__merge *merge);
/* merge_rows.c: everything but devices, streams, hosts, meta and what is below. */
void orr__merge_rows(struct orr__merge *merge);
/* merge_collectives.c: communicators, their members, collectives, their members. */
void orr__merge_collectives(struct orr__merge *merge);

#endif
