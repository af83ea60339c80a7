/* Any trace, whoever wrote it, as timelines in memory.
 *
 * What a file is, is found out from its content, never from its name:
 *
 *   our own database         SQLite with our application id          one timeline
 *   our own export           Chrome JSON with our metadata           one timeline, nothing lost
 *   PyTorch / Kineto         Chrome JSON, all dialects               one timeline a file
 *   Nsight Systems           SQLite with CUPTI_ACTIVITY_KIND_* or StringIds   one timeline
 *   gzip of a JSON           the JSON's
 *   tar, tar.gz              of JSON files, one of each rank: one timeline a member
 *
 *     struct orr_traces traces = {0};
 *     struct orr_import_options options = {0};
 *     if (orr_traces_read("trace.json.gz", &options, &memory, &traces, &error) != ORR_OK) ...
 *     for (size_t i = 0; i < traces.count; i++) use(traces.items[i].timeline);
 *     orr_traces_free(&memory, &traces);
 *
 * Reading is streaming: beside the timeline's arrays, memory is bounded whatever the file. What is
 * broken inside a trace (a cut end, a bad escape, an event that makes no sense, a table that is
 * missing) is repaired, skipped or cut there, counted in timeline->source and told as a finding
 * whose kind begins with "import_"; never silently, and never more than the event concerned.
 *
 * Threads: one at a time per call; timelines are immutable afterwards. */
#ifndef ORR_TRACE_IMPORT_H
#define ORR_TRACE_IMPORT_H

#include <stdbool.h>

#include "trace/timeline.h"

struct orr_import_options {
    bool strict; /* a trace that needed repair, or was cut, is ORR_INVALID with the first place */
    bool without_accesses; /* of our own databases: who has no use for them saves a third */
};

struct orr_trace {
    char *name;                    /* the path, or "ARCHIVE/member"; owned */
    struct orr_timeline *timeline; /* owned */
};

struct orr_traces {
    struct orr_trace *items;
    size_t count, capacity;
};

/* Appends the trace or traces of a file. ORR_INVALID with path, place, what is wrong and what was
 * expected for what is no trace (an empty file, HTML, an SQLite database of something else, a
 * folder, no such file); ORR_IO; ORR_NO_MEMORY. On failure *traces is as it was. */
enum orr_status orr_traces_read(const char *path, const struct orr_import_options *options,
                                const struct orr_memory *memory, struct orr_traces *traces,
                                struct orr_error *error) ORR_MUST_CHECK;

/* Frees all timelines and empties; accepts a zeroed one. */
void orr_traces_free(const struct orr_memory *memory, struct orr_traces *traces);

#endif
