/* Internal to analyzer/: what the files of ranks.h share.
 *
 *   ranks.c          parts and ranks, and the order of the work
 *   ranks_entries.c  communication ops, their kinds and groups
 *   ranks_match.c    entries -> sorted runs of what may be one collective
 *   ranks_judge.c    runs -> collectives, or refusals
 *   ranks_clock.c    offsets
 *   ranks_wait.c     arrivals, waits, stragglers
 *   rank_set.c       figures by plain ordinal
 *
 * Threads: one at a time. */
#ifndef ORR_ANALYZER_RANKS_INTERNAL_H
#define ORR_ANALYZER_RANKS_INTERNAL_H

#include "analyzer/ranks.h"

#define ORR__SEQ_NONE UINT64_MAX

/* Kinds of communication. X(name, text, ends coincide) */
#define ORR__COMM_LIST(X)                                                                          \
    X(ALL_REDUCE, "all_reduce", true)                                                              \
    X(ALL_GATHER, "all_gather", true)                                                              \
    X(BARRIER, "barrier", true)                                                                    \
    X(REDUCE_SCATTER, "reduce_scatter", false)                                                     \
    X(ALL_TO_ALL, "all_to_all", false)                                                             \
    X(BROADCAST, "broadcast", false)                                                               \
    X(REDUCE, "reduce", false)                                                                     \
    X(GATHER, "gather", false)                                                                     \
    X(SCATTER, "scatter", false)                                                                   \
    X(SEND_RECEIVE, "send_receive", false)                                                         \
    X(SEND, "send", false)                                                                         \
    X(RECEIVE, "receive", false)                                                                   \
    X(OTHER, "collective", false)

enum orr__comm_kind {
#define ORR__COMM_ENUM(name, text, coincide) ORR__COMM_##name,
    ORR__COMM_LIST(ORR__COMM_ENUM)
#undef ORR__COMM_ENUM
        ORR__COMM_COUNT
};

/* What a collective's kind, or a kernel's name, says: "allreduce", "_allgather_base",
 * "ncclDevKernel_SendRecv(...)". */
enum orr__comm_kind orr__comm_kind_of(const char *text);
const char *orr__comm_kind_text(enum orr__comm_kind kind);
/* From rank to rank. */
bool orr__comm_transfer(enum orr__comm_kind kind);

/* A communication op. */
struct orr__comm_entry {
    uint32_t rank;       /* index of ranks->items */
    uint32_t op;         /* in the events of its part */
    uint32_t group;      /* index of groups */
    uint32_t collective; /* of its part, if that has other members there, too; else NONE */
    uint32_t peer;       /* the other's rank, ORR_ID_NONE unknown */
    enum orr__comm_kind kind;
    uint64_t seq;     /* ORR__SEQ_NONE: not recorded */
    uint64_t ordinal; /* within rank, group, kind, peer */
};

/* Ranks that communicate with each other: equal names and equal lists of ranks are one group. */
struct orr__comm_group {
    const char *name;
    const uint32_t *ranks; /* sorted numbers, NULL: not known, so all; owned by the work */
    size_t rank_count;
    uint64_t hash;
    bool local, global; /* peers can be meant as places in `ranks`; as numbers of the job */
    bool has_seq;       /* sequence numbers of all its entries are recorded */
};

struct orr__ranks_work {
    const struct orr_ranks_input *inputs;
    const struct orr_memory *memory;
    struct orr_ranks *ranks;
    struct orr__comm_entry *entries; /* rank after rank, in the order of the definitions */
    size_t entry_count, entry_capacity;
    struct orr__comm_group *groups;
    size_t group_count, group_capacity;
    bool numbered; /* ranks' numbers are those of the job, one of each trace */
};

static inline const struct orr_ranks_input *orr__ranks_input(const struct orr__ranks_work *w,
                                                             uint32_t rank) {
    return &w->inputs[w->ranks->parts[w->ranks->items[rank].part].input];
}

static inline const struct orr_events_op *orr__ranks_op(const struct orr__ranks_work *w,
                                                        const struct orr__comm_entry *entry) {
    return &orr__ranks_input(w, entry->rank)->events->ops[entry->op];
}

/* a + b, a - b within +-2^62, so that sums of two more fit. */
int64_t orr__ranks_add(int64_t a, int64_t b);

/* What entries of one collective have in common, beside seq and ordinal. */
struct orr__comm_block {
    bool recorded;
    uint32_t part, collective; /* if recorded */
    uint32_t group;
    enum orr__comm_kind kind;
    bool pair;
    uint32_t source, destination; /* ranks' numbers, if a pair */
};

struct orr__matcher {
    struct orr__ranks_work *w;
    uint32_t *order;
    uint32_t *counts;  /* by rank: entries in a block */
    uint8_t *expected; /* by rank: is in the group */
};

struct orr__comm_block orr__comm_block_of(const struct orr__matcher *m,
                                          const struct orr__comm_entry *e);
/* Do sequence numbers count for it? */
bool orr__has_seq(const struct orr__ranks_work *w, const struct orr__comm_entry *e);
/* By block, sequence number where it counts, ordinal. */
int orr__compare_keys(const struct orr__matcher *m, uint32_t a, uint32_t b);
/* Takes or refuses a block: the entries order[first .. end). */
enum orr_status orr__ranks_judge(struct orr__matcher *m, size_t first, size_t end) ORR_MUST_CHECK;

enum orr_status orr__ranks_collect(struct orr__ranks_work *w) ORR_MUST_CHECK;
enum orr_status orr__ranks_match(struct orr__ranks_work *w) ORR_MUST_CHECK;
enum orr_status orr__ranks_align(struct orr__ranks_work *w) ORR_MUST_CHECK;
void orr__ranks_wait(struct orr__ranks_work *w);
/* Frees what the work owns. */
void orr__ranks_work_free(struct orr__ranks_work *w);

#endif
