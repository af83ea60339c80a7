/* Timelines built by hand, for the tests of whatever reads one.
 *
 *     struct fixture fixture;
 *     fixture_init(&fixture);
 *     uint32_t device = fixture_device(&fixture, "sim:h100 0", "sim");
 *     uint32_t stream = fixture_stream(&fixture, device, "compute", ORR_STREAM_COMPUTE);
 *     fixture_command(&fixture, ORR_COMMAND_KERNEL, stream, "produce", 6000, 26007);
 *     fixture_command(&fixture, ORR_COMMAND_RECORD, stream, "record e1", 26007, 26007);
 *     fixture_edge(&fixture, 1, 2, ORR_EDGE_STREAM);
 *     const struct orr_timeline *timeline = fixture_timeline(&fixture);
 *     ...
 *     fixture_free(&fixture);
 *
 * Ids are given in order of the calls (commands, ops, buffers, ... from 1; devices, streams, hosts
 * from 0). A function that returns a pointer returns the new row with the rest of its fields empty
 * (texts "", ids absent, times ORR_TIME_NONE), to be filled in before the next call: rows move when
 * their array grows. Texts are borrowed, unless made with fixture_text.
 *
 * Out of memory ends the test program; this is test code. Threads: one. */
#ifndef ORR_TESTS_TIMELINE_FIXTURE_H
#define ORR_TESTS_TIMELINE_FIXTURE_H

#include "trace/timeline.h"

enum { FIXTURE_ARRAYS = 17 };

struct fixture_text;

struct fixture {
    struct orr_timeline timeline; /* read it through fixture_timeline, which sorts first */
    struct orr_memory memory;
    size_t capacity[FIXTURE_ARRAYS];
    struct fixture_text *texts;
};

void fixture_init(struct fixture *fixture);
void fixture_free(struct fixture *fixture);

/* Sorts what must be sorted (edges, accesses, counters); lends the timeline until the next call. */
const struct orr_timeline *fixture_timeline(struct fixture *fixture);

/* A formatted text that lives as long as the fixture. */
const char *fixture_text(struct fixture *fixture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void fixture_meta(struct fixture *fixture, const char *key, const char *value);
uint32_t fixture_host(struct fixture *fixture, const char *name);
uint32_t fixture_device(struct fixture *fixture, const char *name, const char *kind);
uint32_t fixture_stream(struct fixture *fixture, uint32_t device, const char *name,
                        enum orr_stream_kind kind);

/* Sets kind, stream, device, name, start and finish. `stream` may be ORR_ID_NONE. seq counts the
 * commands of the stream; the status is OK if it finished, else PENDING. Nothing is enqueued. */
struct orr_timeline_command *fixture_command(struct fixture *fixture, enum orr_command_kind kind,
                                             uint32_t stream, const char *name, int64_t start_ns,
                                             int64_t finish_ns);

/* Says of the command `id` that `host` enqueued it from `enqueue_ns` to `enqueued_ns`. */
void fixture_enqueue(struct fixture *fixture, uint64_t id, uint32_t host, int64_t enqueue_ns,
                     int64_t enqueued_ns);

/* The row of a command, to change it; valid until the next fixture_command. */
struct orr_timeline_command *fixture_row(struct fixture *fixture, uint64_t id);

void fixture_edge(struct fixture *fixture, uint64_t src, uint64_t dst, enum orr_edge_kind kind);
struct orr_timeline_sync *fixture_sync(struct fixture *fixture, uint32_t host,
                                       enum orr_sync_kind kind, int64_t begin_ns, int64_t end_ns,
                                       uint64_t cmd);
struct orr_timeline_op *fixture_op(struct fixture *fixture, const char *name, const char *kind);
struct orr_timeline_buffer *fixture_buffer(struct fixture *fixture, uint32_t device,
                                           uint64_t bytes);
/* A buffer's role from behind a command on. */
void fixture_buffer_role(struct fixture *fixture, uint64_t buffer, uint64_t after_cmd,
                         enum orr_role role);
void fixture_access(struct fixture *fixture, uint64_t cmd, uint64_t buffer, uint64_t offset,
                    uint64_t bytes, enum orr_access_mode mode);
uint32_t fixture_communicator(struct fixture *fixture, const char *name);
void fixture_member(struct fixture *fixture, uint32_t communicator, uint32_t rank, uint32_t device);
struct orr_timeline_collective *fixture_collective(struct fixture *fixture, uint32_t communicator,
                                                   const char *kind, uint64_t bytes);
void fixture_collective_member(struct fixture *fixture, uint64_t collective, uint32_t rank,
                               uint64_t cmd);
void fixture_counter(struct fixture *fixture, uint32_t device, const char *name, int64_t ts_ns,
                     double value);
struct orr_timeline_finding *fixture_finding(struct fixture *fixture, const char *kind,
                                             const char *severity, uint64_t cmd_a, uint64_t cmd_b);

/* Writes the timeline as a SQLite file with the tables of the trace's contract (meta, device,
 * stream, host, op, cmd, edge, sync, communicator, collective, collective_member, counter,
 * finding), absent values as NULL, for checkers that read a database. Replaces the file; ends the
 * test program on failure. */
void fixture_save(struct fixture *fixture, const char *path);

#endif
