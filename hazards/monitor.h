/* The check of runs: an observer that finds accesses that nothing orders, in whatever order they
 * happened to take place.
 *
 * It keeps a vector clock for every stream and host, and who touched which bytes last. A stream's
 * command comes after the earlier ones of its stream, after what it waits for, and after all that
 * the host that called it had done or seen by then; a host learns from syncs, successful queries
 * and messages. Nothing else orders, and how long things take plays no part: the same calls get the
 * same findings.
 *
 *     struct orr_monitor *monitor;
 *     if (orr_monitor_create(&memory, NULL, &monitor) != ORR_OK) ...
 *     config.observer = orr_monitor_observer(monitor);          (struct orr_runtime_config)
 *     ... the run; or orr_timeline_observe(timeline, observer) for a trace ...
 *     for (size_t i = 0; i < orr_monitor_finding_count(monitor); i++) {
 *         struct orr_monitor_finding finding;
 *         orr_monitor_finding(monitor, i, &finding);
 *         puts(finding.message);
 *     }
 *     orr_monitor_destroy(&monitor);
 *
 * Findings:
 *   race              two accesses to the same bytes of a buffer, at least one a write, that
 *                     nothing orders
 *   use-after-free    the same through two buffers that got the same bytes one after the other
 *   unordered-free    (warning) a buffer is freed although nothing orders a use of it by another
 *                     stream before what its own stream does next, nor is that stream recorded: the
 *                     next owner of the bytes would conflict, whether there was one or not
 * Each pair of sites is reported once per kind, with the number of times; all are found, not only
 * the first. Of the partners of an access the latest of every stream is looked at, not the
 * earliest.
 *
 * Memory follows the bytes in use and the number of streams and hosts, not the length of the run.
 * For waits on old points a bounded number of clocks is kept (versions_max): past that a wait for a
 * very old point may be taken for one of a somewhat later point, which can hide a finding and never
 * makes one up; orr_monitor_figures counts such waits.
 *
 * Threads: one, that of the runtime. */
#ifndef ORR_HAZARDS_MONITOR_H
#define ORR_HAZARDS_MONITOR_H

#include "runtime/observer.h"

/* X(NAME, "text", "severity") */
#define ORR_MONITOR_KIND_LIST(X)                                                                   \
    X(RACE, "race", "error")                                                                       \
    X(USE_AFTER_FREE, "use-after-free", "error")                                                   \
    X(UNORDERED_FREE, "unordered-free", "warning")

enum orr_monitor_kind {
#define ORR_MONITOR_KIND_ENUM(name, text, severity) ORR_MONITOR_##name,
    ORR_MONITOR_KIND_LIST(ORR_MONITOR_KIND_ENUM)
#undef ORR_MONITOR_KIND_ENUM
        ORR_MONITOR_KIND_COUNT
};

struct orr_monitor;

/* All zero: the defaults. */
struct orr_monitor_options {
    /* The members of every collective wait for each other (races.md rule 35). Off, a collective
     * orders nothing between ranks; a barrier always does, since that is all it is for. */
    bool joint_collectives;
    /* An allocation that gets bytes which other streams had to be done with puts its host behind
     * their work, and behind the hosts that gave the bytes up, as `alloc` with `reuse` does in
     * stream programs. Off, it only puts what happens to these bytes behind it: whether the
     * allocator found them or others is chance, so that no other order may come of it. */
    bool reuse_orders_hosts;
    size_t versions_max; /* clocks kept for points, of all streams; 0: ORR_MONITOR_VERSIONS */
    size_t findings_max; /* distinct ones kept, more are counted; 0: ORR_MONITOR_FINDINGS */
};
enum { ORR_MONITOR_VERSIONS = 65536, ORR_MONITOR_FINDINGS = 4096 };

enum { ORR_MONITOR_TEXT_MAX = 1024, ORR_MONITOR_SITE_MAX = 256 };

/* One finding, for the eye and for tables. */
struct orr_monitor_finding {
    enum orr_monitor_kind kind;
    const char *kind_text, *severity; /* static */
    uint64_t cmd_a, cmd_b, buffer;    /* the first pair of its kind and sites... */
    uint64_t count;                   /* ...of so many */
    char message[ORR_MONITOR_TEXT_MAX], fix[ORR_MONITOR_TEXT_MAX];
    char site_a[ORR_MONITOR_SITE_MAX], site_b[ORR_MONITOR_SITE_MAX]; /* "file:line", or "" */
};

struct orr_monitor_figures {
    uint64_t commands, accesses; /* looked at */
    uint64_t unknown;            /* accesses to buffers nobody told of, waits for such streams */
    uint64_t blurred_waits;      /* for points so old that a later one had to stand in */
    uint64_t dropped_findings;   /* beyond findings_max */
    uint64_t bytes;              /* memory in use for clocks and histories */
};

/* `memory` is borrowed until destroy. `options` NULL: the defaults. */
enum orr_status orr_monitor_create(const struct orr_memory *memory,
                                   const struct orr_monitor_options *options,
                                   struct orr_monitor **out_monitor) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr_monitor_destroy(struct orr_monitor **monitor);

/* Whom to tell; lives as long as the monitor. */
struct orr_observer *orr_monitor_observer(struct orr_monitor *monitor);

/* ORR_OK, or ORR_NO_MEMORY: something is missing from the findings. */
enum orr_status orr_monitor_status(const struct orr_monitor *monitor) ORR_MUST_CHECK;

/* Distinct findings so far, in the order in which they were made. */
size_t orr_monitor_finding_count(const struct orr_monitor *monitor);
/* Describes one of them; index < count. Needs the observed names still to be there. */
void orr_monitor_finding(const struct orr_monitor *monitor, size_t index,
                         struct orr_monitor_finding *out_finding);
/* What it has done so far, and the memory that takes. */
struct orr_monitor_figures orr_monitor_figures(const struct orr_monitor *monitor);

#endif
