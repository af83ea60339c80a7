/* Recorded programs: a region of commands captured once and replayed with one launch.
 *
 * Between begin and end the runtime's streams record instead of running: every kernel, copy, fill,
 * host function, collective, event record and wait goes into the program with its byte ranges and
 * its waits, and costs the host nothing. A launch enqueues all of it with one host call: a command
 * of kind `graph` on the launching stream, then every recorded command as a graph node.
 *
 *     struct orr_program *program;
 *     orr_program_begin(runtime, &program);
 *     ... enqueue as usual, on any streams ...
 *     orr_program_end(program);
 *     orr_program_launch(program, stream);      // as often as you like
 *     orr_program_destroy(&program);
 *
 * Order: every node starts after the launch's point in `stream`, and a later command of `stream`
 * starts after all nodes (the launch forks to and joins the other streams). Two launches of one
 * program do not overlap (races.md rule 31). Waits inside the region become edges between nodes;
 * waits for points from before the region hold for the first launch only, since `stream` orders the
 * rest.
 *
 * Buffers used by the region are kept alive by the program until it is destroyed, and nodes hold
 * their addresses: replay reads what is there then (races.md rule 30). Work objects are kept
 * likewise.
 *
 * A host wait, query or read inside the region can't be recorded: it answers ORR_UNSUPPORTED and
 * names the site; a caller that can go on ends the program, launches it, does the read and begins
 * another one (scenarios do that and report it as finding "graph-break"). Launching another program
 * there is unsupported too.
 *
 * Points and events recorded inside mean something inside only: a wait for one outside is
 * ORR_INVALID, as CUDA's error 907, until the event is recorded again (races.md rule 28).
 *
 * Only calls of the host that began are recorded; others go their usual way.
 *
 * A launch is one call: its host's turn is asked for once. If a full queue blocks it in the middle
 * and another host has to run first (ORR_BLOCKED), or memory runs out in the middle
 * (ORR_NO_MEMORY), the commands so far are enqueued, and the same call repeated goes on with the
 * rest.
 *
 * Which program fits which operands is the caller's business; compiled functions guard theirs by
 * shapes, dtypes and placements (runtime/region.h).
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_PROGRAM_H
#define ORR_RUNTIME_PROGRAM_H

#include "runtime/communicator.h"

struct orr_program;

/* Starts recording the current host's calls; one region at a time (ORR_INVALID inside another). */
enum orr_status orr_program_begin(struct orr_runtime *runtime,
                                  struct orr_program **out_program) ORR_MUST_CHECK;

/* Ends recording, by the host that began (ORR_INVALID otherwise). The program can be launched. */
enum orr_status orr_program_end(struct orr_program *program) ORR_MUST_CHECK;

/* Enqueues the whole program: one host call (spec.host_graph_ns). ORR_INVALID if a stream or
 * communicator of it was destroyed, or another call's launch of it is not complete; ORR_UNSUPPORTED
 * while the host's calls are recorded; else as any enqueuing call. */
enum orr_status orr_program_launch(struct orr_program *program,
                                   struct orr_stream *stream) ORR_MUST_CHECK;

/* Waits for nothing: buffers and work are freed when the last launch has retired. Ends a recording
 * that is still open, dropping it. Nulls; accepts NULL. */
void orr_program_destroy(struct orr_program **program);

/* Are the current host's calls being recorded? */
bool orr_runtime_is_capturing(const struct orr_runtime *runtime);

/* Commands recorded, launches so far. */
uint32_t orr_program_command_count(const struct orr_program *program);
uint64_t orr_program_launch_count(const struct orr_program *program);

/* One recorded command, for readers of programs (printing, comparing, the PROGRAM format). */
struct orr_program_command {
    const char *name; /* borrowed until destroy */
    enum orr_command_kind kind;
    struct orr_stream *stream;
    uint64_t flops, bytes_read, bytes_written;
    uint32_t access_count;
    const struct orr_access *accesses;
    struct orr_buffer *const *buffers; /* of the accesses */
    uint32_t wait_count;
    const uint32_t *waits; /* indices of commands it waits for, besides its stream's order */
};
/* `index` < command count. */
struct orr_program_command orr_program_at(const struct orr_program *program, uint32_t index);

#endif
