/* What if: what the trace would have been, had something cost less.
 *
 * Each setting changes durations, lags or host times of the trace's own graph (replay.h), which is
 * then replayed: what runs where, in which order and behind what stays as it was. Unchanged, the
 * replay gives every time of the trace; that difference is printed with every answer.
 *
 *     struct orr_whatif_setting settings[2];
 *     orr_whatif_parse("launch_cost=0", &settings[0], &error);
 *     orr_whatif_parse("kernel:gemm*=x2", &settings[1], &error);
 *     orr_whatif_compute(analysis, settings, 2, &options, &memory, &whatif, &error);
 *     orr_whatif_text(whatif, &text, &length);
 *     orr_whatif_destroy(&whatif);
 *
 * xF is F times as fast, a decimal fraction with at most six decimals (x0.5: half as fast); of
 * launch_cost it is F times the cost. Times are scaled by 1/F, rounded to millionths.
 *
 *     launch_cost=0|xF|NS   what each call takes that enqueues work, graph launches included; on
 *                           our own runs at least 1 ns, as any call
 *     host=xF               all that host threads do but waiting
 *     kernel:NAME=xF        ops whose kernel or operator has that name (* and ? match any)
 *     class:CLASS=xF        ops of a class: compute, comm (of collectives: the transfer), copy
 *     bandwidth=xF          ops that memory bounds, as far as their arithmetic allows
 *     network=xF            transfers of collectives; waiting for the last member stays
 *     overlap=perfect       communication delays nothing; a device takes as long as its longest
 *                           stream of it
 *     straggler=none        the device that is slowest in the ops that several devices run takes
 *                           the median time of the others for each
 *     graph=on              launches of one thread with nothing between them that cannot be
 *                           captured are one launch, which takes as long as the first of them
 *     fuse=A+B+...          ops of these names that follow each other in a stream are one op, with
 *     fuse=elementwise      one launch; what they hand on is neither written nor read, if their
 *                           traffic is known and memory bounds them
 *
 * What stays out: no rule knows that two ops that now run at the same time slow each other down, so
 * that answers are exact where nothing shares a device, and a ceiling elsewhere; ops that come to
 * overlap, or no longer do, are counted.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_WHATIF_H
#define ORR_ANALYZER_WHATIF_H

#include "analyzer/analysis.h"
#include "analyzer/replay.h"

/* X(name, key): keys of settings. */
#define ORR_WHATIF_LIST(X)                                                                         \
    X(LAUNCH_COST, "launch_cost")                                                                  \
    X(HOST, "host")                                                                                \
    X(KERNEL, "kernel:")                                                                           \
    X(CLASS, "class:")                                                                             \
    X(BANDWIDTH, "bandwidth")                                                                      \
    X(NETWORK, "network")                                                                          \
    X(OVERLAP, "overlap")                                                                          \
    X(STRAGGLER, "straggler")                                                                      \
    X(GRAPH, "graph")                                                                              \
    X(FUSE, "fuse")

enum orr_whatif_key {
#define ORR_WHATIF_ENUM(name, text) ORR_WHATIF_##name,
    ORR_WHATIF_LIST(ORR_WHATIF_ENUM)
#undef ORR_WHATIF_ENUM
        ORR_WHATIF_COUNT
};

enum { ORR_WHATIF_NAME_MAX = 200, ORR_WHATIF_SETTINGS_MAX = 32, ORR_WHATIF_MILLION = 1000000 };

struct orr_whatif_setting {
    enum orr_whatif_key key;
    char text[ORR_WHATIF_NAME_MAX]; /* as it was given */
    char name[ORR_WHATIF_NAME_MAX]; /* of kernel:, class:, and fuse; else "" */
    bool scaled;                    /* xF: by `time_ppm`; else to `ns` (launch_cost) */
    uint64_t factor_ppm;            /* F, in millionths */
    uint64_t time_ppm;              /* what times are multiplied with, in millionths */
    int64_t ns;
};

/* Reads KEY=VALUE. ORR_INVALID names the nearest key, or what was expected. */
enum orr_status orr_whatif_parse(const char *text, struct orr_whatif_setting *out_setting,
                                 struct orr_error *error) ORR_MUST_CHECK;

/* True if a name matches a pattern of characters, * (any number of them) and ? (any one). */
bool orr_whatif_matches(const char *pattern, const char *name);

/* What whoever knows the machine can add. All may be zero. */
struct orr_whatif_options {
    uint32_t queue_depth;    /* launches that a stream holds before a call blocks, 0 not known */
    int64_t graph_launch_ns; /* a captured graph's launch, 0: as the first call of those it takes */
    int64_t graph_node_ns;   /* between its nodes */
    /* Exact work of an op of the events in 2^-20 ns, negative where not known. */
    int64_t (*work)(void *context, const struct orr_events *events, uint32_t op);
    /* What an op that takes `work` (of a collective: its transfer) would take with other bandwidth
     * of memory or links, in 2^-20 ns; negative: not known, or no other. For BANDWIDTH, NETWORK. */
    int64_t (*changed)(void *context, const struct orr_whatif_setting *setting,
                       const struct orr_events *events, uint32_t op, int64_t work);
    void *context;
};

/* What a setting came to. */
struct orr_whatif_effect {
    uint64_t affected; /* calls (launch_cost, graph), points of hosts (host), ops (others) */
    uint64_t total;    /* of how many */
    bool answers;      /* false: see `why` */
    char why[ORR_WHATIF_NAME_MAX]; /* why it has no answer, or what it leaves out; "" */
};

struct orr_whatif_window {
    int64_t begin_ns, end_ns;                     /* observed: first start, last end of its ops */
    int64_t predicted_begin_ns, predicted_end_ns; /* equal without ops */
};

struct orr_whatif {
    const struct orr_memory *memory;
    const struct orr_analysis *analysis; /* borrowed */
    struct orr_whatif_setting settings[ORR_WHATIF_SETTINGS_MAX];
    struct orr_whatif_effect effects[ORR_WHATIF_SETTINGS_MAX];
    size_t setting_count;
    struct orr_replay *replay;     /* owned */
    struct orr_replay_times times; /* predicted; owned */
    int64_t replay_error_ns;       /* of the unchanged replay: 0 */
    uint64_t refined;              /* ops whose exact work is known */
    uint64_t ops, pinned;          /* pinned: at their observed times, whatever changes */
    uint64_t overlap_changed; /* ops that overlap others of their device before or after only */
    bool answers;             /* false: see `why`; predicted times mean nothing then */
    char why[ORR_WHATIF_NAME_MAX];
    struct orr_whatif_window all;
    struct orr_whatif_window *devices; /* by index of the events; owned */
    int64_t path_before[ORR_PATH_COUNT], path_after[ORR_PATH_COUNT];
};

/* Predicts. ORR_INVALID for more than ORR_WHATIF_SETTINGS_MAX settings; ORR_NO_MEMORY;
 * ORR_UNSUPPORTED as orr_replay_create. The analysis must live as long as the result, which is
 * owned by the caller. */
enum orr_status orr_whatif_compute(const struct orr_analysis *analysis,
                                   const struct orr_whatif_setting *settings, size_t count,
                                   const struct orr_whatif_options *options,
                                   const struct orr_memory *memory, struct orr_whatif **out_whatif,
                                   struct orr_error *error) ORR_MUST_CHECK;
/* Frees and nulls; accepts NULL. */
void orr_whatif_destroy(struct orr_whatif **whatif);

/* The kind that takes most of the path after: what limits next. */
enum orr_path_kind orr_whatif_limit(const struct orr_whatif *whatif);

/* What a key assumes, in a sentence: static storage. */
const char *orr_whatif_assumption(enum orr_whatif_key key);

/* A real run of what was predicted, to compare with; reports print it if it is there. */
struct orr_whatif_rerun {
    bool ran;
    char how[ORR_WHATIF_NAME_MAX]; /* what was changed for it, or why there is none */
    struct orr_whatif_window all;  /* its own times in begin_ns and end_ns */
    bool comparable;               /* it has the same commands */
    int64_t most_ns;               /* then: the largest difference of an op's start or end */
};

/* The answer for people, and as one JSON document; owned by the caller. `rerun` may be NULL. */
enum orr_status orr_whatif_text(const struct orr_whatif *whatif,
                                const struct orr_whatif_rerun *rerun, char **out_text,
                                size_t *out_length) ORR_MUST_CHECK;
enum orr_status orr_whatif_json(const struct orr_whatif *whatif,
                                const struct orr_whatif_rerun *rerun, char **out_text,
                                size_t *out_length) ORR_MUST_CHECK;

#endif
