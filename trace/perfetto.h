/* Perfetto: writes a timeline as the JSON trace format of Chrome, for ui.perfetto.dev and others.
 *
 * What a track holds, which slice starts where and which arrows join them is laid down in
 * docs/perfetto.md and checked by tests/check_perfetto.py. In short:
 *
 *     process `Hosts`           a thread for each host: enqueues and syncs; `NAME marks`
 *     process `Device d (KIND)` threads `phases`, `findings`, and for each stream its slices, `NAME
 *                               marks` (all that take no time), `NAME graphs`, `NAME overlap k`
 *
 * On one thread no two slices start together and none starts inside another, whatever the trace
 * says: zero-length things of one place and time are one mark, what overlaps goes to an overlap
 * thread. Times are printed in microseconds with three decimals, exactly. The same timeline and
 * phases make the same bytes, compressed ones too.
 *
 *     struct orr_perfetto_counts counts;
 *     struct orr_perfetto_phase phase = {0, 6000, 26007, "memory-bound", "2 flop/byte, ridge 295"};
 *     status = orr_perfetto_write(timeline, &phase, 1, "run.json.gz", &memory, &counts, &error);
 *
 * Threads: reads the timeline only; any number of exports may run at once. */
#ifndef ORR_TRACE_PERFETTO_H
#define ORR_TRACE_PERFETTO_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"
#include "trace/timeline.h"

/* A stretch of a device's time with one explanation, as the analyzer finds them. */
struct orr_perfetto_phase {
    uint32_t device;
    int64_t begin_ns, end_ns; /* half-open */
    const char *class_name;   /* "memory-bound": name of the slice; borrowed for the call */
    const char *why;          /* "" if there is nothing to say; borrowed for the call */
};

/* What was written, and what was not. The first seven are in the file's metadata too. */
struct orr_perfetto_counts {
    uint64_t slices, arrows, counters; /* events X, pairs of events s and f, events C */
    uint64_t arrows_left_out; /* the destination starts before the source, or was left out itself */
    uint64_t slices_left_out; /* no overlap thread was free; a phase overlaps another one or is
                                 empty */
    uint64_t unfinished;      /* commands that started and did not finish; drawn to the end */
    uint64_t never_started;   /* commands that never started: only their enqueue is drawn */
    uint64_t events;          /* lines in traceEvents, names of tracks included */
    uint64_t bytes;           /* of JSON, before compression; above 200 MB browsers have trouble */
};

/* Writes `path`, compressed if it ends in ".gz". The file appears when it is whole; on failure
 * nothing is left behind and an earlier file stays (trace/output.h). `phases` (borrowed for the
 * call) come from whoever analyses; NULL and 0 for none. *out_counts may be NULL.
 *
 * The times of `metadata` and of the events are relative to t0_ns of the metadata: 0 for a virtual
 * clock (meta `clock`), else the least time of the trace. Rows that refer to devices, streams or
 * hosts that the timeline does not have are not drawn.
 *
 * Takes memory in proportion to commands, edges and counters (about 300 bytes a command), not to
 * the size of the file. ORR_INVALID if times are negative on a virtual clock or span 2^52 ns (52
 * days) or more; ORR_UNSUPPORTED beyond 2^31 rows of one kind; ORR_IO with path and reason;
 * ORR_NO_MEMORY. May block on the file. */
enum orr_status orr_perfetto_write(const struct orr_timeline *timeline,
                                   const struct orr_perfetto_phase *phases, size_t phase_count,
                                   const char *path, const struct orr_memory *memory,
                                   struct orr_perfetto_counts *out_counts,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* True if `path` is a file that orr_perfetto_write wrote (judged by its first bytes, compressed or
 * not), false for any other file and for none: what may be replaced without asking. */
int orr_perfetto_recognize(const char *path);

#endif
