/* The reports about the ranks of a job: `orrery analyze` of several traces.
 *
 * One JSON document:
 *
 *   file, format      the set's name, "kineto-set"
 *   begin_ns, end_ns, window_ns   of all ranks, on the clock of the first
 *   ranks[]           of each rank the document of report_json.h
 *   rank_set          communication kernels by plain ordinal, clocks as they are: ranks,
 *                     comm_per_rank, collectives[] {name, start_spread_ns, end_spread_ns,
 *                     last_rank, transfer_ns}, last_count, wait_ns, offset_ns,
 *                     offset_residual_max_ns; what cannot be matched so is null, and
 *                     rank_analysis.matching says why
 *   exact             the same object, with file and format
 *   rank_analysis     ranks.h: clocks aligned, collectives matched by what the traces say
 *
 * rank_analysis has
 *
 *   ranks, world_size, missing, notes
 *   matching          {comm_ops, matched_ops, collectives, all_to_all, mismatched, refused,
 *                     refusals[] {kind, group, ops, why}}
 *   clock             {aligned, why, one_clock, median_transfer_ns, offsets[] {rank, reference,
 *                     offset_ns, base_ns, collectives, residual_p05_ns, residual_p95_ns,
 *                     residual_max_ns}}
 *   straggler         {rank, times_last, collectives, wait_caused_ns}, or null; why
 *   stragglers[]      {rank, collectives, times_last, wait_suffered_ns, wait_caused_ns, comm_ns,
 *                     transfer_ns}; null where clocks are not aligned
 *   collectives[]     {kind, group, seq, matched_by, name, members, last_rank, arrival_ns,
 *                     start_spread_ns, transfer_ns, wait_ns, caused_ns, mismatched}: at most
 *                     options.path_rows of them, in order of time; collective_count says how many
 *                     there are
 *   devices[]         {rank, device, name, window_ns, compute_ns, exposed_comm_ns, exposed_copy_ns,
 *                     idle{}, residual_ns, verdict}
 *   critical_path     {length_ns, kinds{}, residual_ns, ranks[] {rank, time_ns}, unknown_rank_ns,
 *                     hops, knows_waits, segments[]}: hops are changes from one rank to another;
 *                     without knows_waits, dispatch contains waits between streams that the source
 *                     does not record, and the path cannot follow them; null where clocks are not
 *                     aligned
 *
 *   inferred_path     the same if waits for collectives are inferred where the source records none
 *                     (orr_rank_path_infer), with inferred_waits; null where there are none
 *   bubbles[]         rank_bubble.h: {pipeline (its lowest rank), rank, stages, step, begin_ns,
 *                     window_ns, compute_ns, transfer_ns, bubble_ns, share, microbatches,
 *                     ideal_share, classes{}}: empty where no sends and receives are paired, or
 *                     clocks are not aligned
 *
 * The document of a single trace with several devices that communicate has a rank_analysis, too.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_REPORT_SET_H
#define ORR_ANALYZER_REPORT_SET_H

#include "analyzer/analysis.h"
#include "analyzer/ranks.h"

struct orr_report_set {
    const struct orr_memory *memory;
    const char *file;
    const struct orr_ranks *ranks;
    const struct orr_rank_set *exact;
    const struct orr_analysis *whole;       /* of the timeline of all ranks */
    const struct orr_analysis *const *each; /* in the order of ranks->parts */
    size_t count;
};

/* As orr_report_json and orr_report_text; the texts are freed with set->memory. ORR_NO_MEMORY. */
enum orr_status orr_report_json_set(const struct orr_report_set *set, char **out_text,
                                    size_t *out_length) ORR_MUST_CHECK;
enum orr_status orr_report_text_set(const struct orr_report_set *set, char **out_text,
                                    size_t *out_length) ORR_MUST_CHECK;

/* Time of a critical path on each rank. */
struct orr_rank_path {
    int64_t *time_ns;   /* by index of ranks->items; owned */
    int64_t unknown_ns; /* on threads and devices of no rank */
    uint64_t hops;
};
/* Of `critical`, the path of `whole` or one that was inferred. ORR_NO_MEMORY. */
enum orr_status orr_rank_path_compute(const struct orr_ranks *ranks,
                                      const struct orr_analysis *whole,
                                      const struct orr_critical_path *critical,
                                      const struct orr_memory *memory,
                                      struct orr_rank_path *out_path) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_rank_path_free(const struct orr_memory *memory, struct orr_rank_path *path);

/* The critical path if ops waited for collectives, and collectives for ops, where the source does
 * not say so: an op that nothing recorded explains, with what ended last before it on its device,
 * in another stream, not more than options.dispatch_max_ns before; one of both a member of a
 * collective of several ranks. A guess: never
 * mixed with what is recorded. *out_waits: such ops; without any, *out_path is empty.
 * ORR_NO_MEMORY. Freed with orr_critical_path_free. */
enum orr_status orr_rank_path_infer(const struct orr_analysis *whole,
                                    const struct orr_memory *memory,
                                    struct orr_critical_path *out_path,
                                    uint64_t *out_waits) ORR_MUST_CHECK;

#endif
