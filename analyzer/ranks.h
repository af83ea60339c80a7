/* Ranks: which collectives of several traces are the same one, how far the ranks' clocks are apart,
 * and who waits for whom (2.10 of the analysis reference).
 *
 *     rank 0  [==== wait for rank 2 ====|transfer]
 *     rank 1        [== wait =======....|transfer]
 *     rank 2                            [transfer]       rank 2 arrives last: it makes the others
 *             |----- start spread ------|                wait
 *
 *     struct orr_ranks ranks;
 *     if (orr_ranks_compute(inputs, count, &memory, &ranks, &error) != ORR_OK) ...
 *     orr_ranks_free(&memory, &ranks);
 *
 * What a rank is. Of several traces, each is the process that wrote it; its number is the one that
 * it says, else its place. Where a trace has communication on several devices or of several
 * processes (Nsight Systems, our own runs), each of these is one, numbered in their order, devices
 * first.
 *
 * Matching, for each group of ranks and each kind of collective on its own:
 *   recorded   the trace says which commands of several ranks are one collective: our own
 *   pair       a send and a receive: by source, destination and ordinal, if counts agree
 *   sequence   group and sequence number are recorded; a collective counts if all ranks of the
 *              group that have a trace have it
 *   ordinal    else the nth of each rank, if all have equally many
 *   ordinal of sends and receives of which no peer is known: taken for an all-to-all, and flagged
 * Anything else is refused, with the reason.
 *
 * Clocks. Traces of one file have one clock. Else the offset of a trace is the median over matched
 * collectives of its end minus that of the reference, the lowest rank, where ends coincide:
 * all-reduce, all-gather, barrier, and what was taken for an all-to-all. A trace that shares none
 * with the reference is aligned with one that is aligned already. Residuals are deviations from the
 * median. If the 95th percentile of their size, of any trace, exceeds the median transfer, clocks
 * are not aligned, and nothing is said about waits.
 *
 * Waits, of corrected times. arrival = the largest start; a rank waits arrival - its own start;
 * transfer = the smallest end - arrival. If that is negative, members do not overlap: counted as
 * mismatched, and left out of all sums. The last rank causes arrival - the second largest start;
 * where several arrive together, none of them counts as last.
 * Members of our own simulated collectives start together: there, arriving is being ready.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_RANKS_H
#define ORR_ANALYZER_RANKS_H

#include "analyzer/events.h"

struct orr_ranks_input {
    const struct orr_timeline *timeline;
    const struct orr_events *events; /* of that timeline, prepared */
    const char *name;                /* for people */
};

/* A trace. */
struct orr_ranks_part {
    size_t input;       /* index of its input */
    const char *name;   /* borrowed from the input */
    uint32_t rank;      /* of its first rank */
    int64_t base_ns;    /* time base minus that of the first part, if all have one, else 0 */
    bool aligned;       /* offset_ns is known; its own reference always is */
    uint32_t reference; /* the part that the offset is against, by index */
    int64_t offset_ns;  /* its clock minus the reference's, beside base_ns */
    size_t samples;     /* collectives that tell */
    int64_t residual_p05_ns, residual_p95_ns; /* signed, of deviations from offset_ns */
    int64_t residual_size_p95_ns;             /* of their absolute values */
    int64_t residual_max_ns;                  /* largest absolute value */
};

/* A rank. */
struct orr_rank {
    uint32_t rank, part;
    uint32_t device; /* id in its trace of where it communicates; ORR_ID_NONE: nowhere */
    uint64_t process;
    uint64_t comm_ops; /* communication ops, matched or not */
    uint64_t matched;  /* of them */
    /* Of judged collectives. */
    uint64_t collectives, last;
    int64_t wait_suffered_ns, wait_caused_ns;
    int64_t comm_ns;     /* from its start to its end, summed */
    int64_t transfer_ns; /* of the collectives it took part in */
};

/* X(name, text) */
#define ORR_RANKS_HOW_LIST(X)                                                                      \
    X(RECORDED, "recorded")                                                                        \
    X(PAIR, "pair")                                                                                \
    X(SEQUENCE, "sequence")                                                                        \
    X(ORDINAL, "ordinal")                                                                          \
    X(ALL_TO_ALL, "ordinal, taken for an all-to-all")

enum orr_ranks_how {
#define ORR_RANKS_HOW_ENUM(name, text) ORR_RANKS_##name,
    ORR_RANKS_HOW_LIST(ORR_RANKS_HOW_ENUM)
#undef ORR_RANKS_HOW_ENUM
        ORR_RANKS_HOW_COUNT
};
/* "recorded", ...: static storage. */
const char *orr_ranks_how_text(enum orr_ranks_how how);

struct orr_ranks_member {
    uint32_t rank;            /* index of orr_ranks.items */
    uint32_t op;              /* index in the events of its part */
    int64_t own_ns;           /* start as recorded, plus base_ns */
    int64_t done_ns;          /* end as recorded, plus base_ns */
    int64_t start_ns, end_ns; /* corrected; start is the arrival */
};

struct orr_ranks_collective {
    const char *kind;  /* "all_reduce", ... */
    const char *group; /* name of the group, "" unknown */
    const char *name;  /* of the lowest rank's kernel */
    uint64_t seq;      /* sequence number, or ordinal within group and kind */
    enum orr_ranks_how how;
    uint32_t source;     /* of a pair: index of orr_ranks.items of who sends; else 0 */
    size_t first, count; /* in members, by rank */
    uint32_t last;       /* index of orr_ranks.items; the lowest rank of several */
    int64_t arrival_ns, transfer_ns, wait_ns, caused_ns;
    bool comparable; /* clocks of all members are known against each other */
    bool mismatched; /* transfer_ns is negative */
};

struct orr_ranks_refusal {
    const char *kind, *group;
    uint64_t ops; /* that are not matched for it */
    char why[192];
};

enum { ORR_RANKS_TEXT_MAX = 256, ORR_RANKS_NOTES_MAX = 4 };

struct orr_ranks {
    struct orr_ranks_part *parts;             /* by rank; owned */
    struct orr_rank *items;                   /* by rank; owned */
    struct orr_ranks_collective *collectives; /* by the arrival of their lowest rank; owned */
    struct orr_ranks_member *members;         /* owned */
    struct orr_ranks_refusal *refusals;       /* owned */
    uint32_t *missing;                        /* ranks of the job that are in no trace; owned */
    size_t part_count, count, collective_count, member_count, refusal_count, missing_count;
    size_t refusal_capacity, collective_capacity, member_capacity;
    uint64_t world_size; /* 0: not known */
    uint64_t comm_ops, matched_ops;
    uint64_t judged, mismatched; /* collectives; of the rest, those whose members do not overlap */
    uint64_t all_to_all;         /* collectives that are taken for one */
    bool one_clock;              /* a single trace */
    bool aligned;                /* waits can be told */
    int64_t median_transfer_ns;  /* of collectives that aligned clocks */
    bool has_median_transfer;
    char refused[ORR_RANKS_TEXT_MAX];                    /* why nothing is matched at all, "" */
    char clock[ORR_RANKS_TEXT_MAX];                      /* why clocks are not aligned, "" */
    char notes[ORR_RANKS_NOTES_MAX][ORR_RANKS_TEXT_MAX]; /* what was assumed; "" ends */
};

/* Of traces that are ranks of one job, in any order, at least one. A trace without communication is
 * fine. Texts are borrowed from the inputs, which must live as long. ORR_NO_MEMORY. */
enum orr_status orr_ranks_compute(const struct orr_ranks_input *inputs, size_t count,
                                  const struct orr_memory *memory, struct orr_ranks *out_ranks,
                                  struct orr_error *error) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_ranks_free(const struct orr_memory *memory, struct orr_ranks *ranks);

/* How much later a part's clock is than that of the first part, base included: what to subtract
 * from its times. Only base_ns where clocks are not aligned. */
int64_t orr_ranks_shift(const struct orr_ranks *ranks, const struct orr_ranks_part *part);

/* The rank whose device this is in a timeline of several ranks (trace/merge.h); the device's own
 * number in any other. */
uint32_t orr_ranks_of_device(const struct orr_timeline *timeline, uint32_t device);

/* The rank that causes most waiting, or NULL: none is caused, clocks are not aligned, or ranks are
 * missing, and a verdict on the job would be one on a sample. */
const struct orr_rank *orr_ranks_straggler(const struct orr_ranks *ranks);

/* --- figures as traces' conventions have them, clocks not corrected --- */

struct orr_rank_set_collective {
    const char *name; /* of the lowest rank's kernel */
    int64_t start_spread_ns, end_spread_ns, transfer_ns;
    uint32_t last; /* index of the part */
};

/* Communication kernels of all parts, matched by plain ordinal if all have equally many of the same
 * kinds. */
struct orr_rank_set {
    bool matched;
    struct orr_rank_set_collective *collectives; /* owned, as are the arrays by part */
    size_t collective_count, part_count;
    uint64_t *comm_ops, *last;
    int64_t *wait_ns, *offset_ns, *residual_max_ns;
};

/* ORR_NO_MEMORY. */
enum orr_status orr_rank_set_compute(const struct orr_ranks_input *inputs,
                                     const struct orr_ranks *ranks, const struct orr_memory *memory,
                                     struct orr_rank_set *out_set) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_rank_set_free(const struct orr_memory *memory, struct orr_rank_set *set);

#endif
