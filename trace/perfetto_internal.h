/* What the files of the Perfetto writer share. The pipeline, each step a file:
 *
 *     timeline --> lanes: one for each host, stream, phases, findings    perfetto_lanes.c
 *              --> items: (start, end, lane, what), in order of layout   perfetto_layout.c
 *              --> slices: placed on a thread; items that share one are
 *                  adjacent                                              perfetto_layout.c
 *              --> arrows between slices, change points of counters      perfetto_arrows.c
 *              --> lines, merged by time                                 perfetto.c
 *                  with the names and args of slices                     perfetto_slices.c
 *                  and the timeline itself, to be read back              perfetto_timeline.c
 *
 * Rows of the timeline are referred to by their index, times are relative to t0. Threads: one. */
#ifndef ORR_TRACE_PERFETTO_INTERNAL_H
#define ORR_TRACE_PERFETTO_INTERNAL_H

#include <stdbool.h>

#include "trace/json_writer.h"
#include "trace/perfetto.h"
#include "trace/sort.h"

enum {
    ORR__HOSTS_PID = 1,
    ORR__DEVICE_PID = 10,  /* of device 0 */
    ORR__LANE_TIDS = 1000, /* thread ids of one lane: */
    ORR__MARKS_TID = 1,    /* + 1 */
    ORR__GRAPHS_TID = 2,   /* + 2 */
    ORR__OVERLAP_TID = 3,  /* + 3 and up */
    ORR__OVERLAPS_MAX = ORR__LANE_TIDS - ORR__OVERLAP_TID,
    ORR__LIST_MAX = 256, /* entries of `cmds` and `what` */
    /* Bytes of a packed timeline: its text must fit where JSON is read, see json_document.h. */
    ORR__PERFETTO_PACK_MAX = 11 << 20,
    ORR__TRACK_TEXTS = 256
};

/* How a file begins, in all versions; and the mark behind that: which version of the metadata it
 * is. */
#define ORR__PERFETTO_START    "{\"displayTimeUnit\":\"ns\",\"metadata\":{"
#define ORR__PERFETTO_MARK_KEY "orrery_export"
#define ORR__PERFETTO_MARK     "\"" ORR__PERFETTO_MARK_KEY "\":\"1\""

/* Key of the metadata: the timeline, packed (timeline_pack.h), as base64. */
#define ORR__PERFETTO_TIMELINE_KEY "timeline"

/* No slice: there is nothing to draw, or no room where it belongs. */
#define ORR__NO_SLICE UINT32_MAX
#define ORR__LEFT_OUT (UINT32_MAX - 1)
#define ORR__NO_INDEX SIZE_MAX

enum orr__lane_kind {
    ORR__LANE_HOST,
    ORR__LANE_PHASES,
    ORR__LANE_FINDINGS,
    ORR__LANE_STREAM,
    ORR__LANE_SLICES /* of a host or a stream: what other tools call annotations and the like */
};

/* Lanes of a host's slices, by what they are. */
enum orr__slice_lane {
    ORR__SLICES_ANNOTATIONS,
    ORR__SLICES_OPERATORS,
    ORR__SLICES_FUNCTIONS,
    ORR__SLICES_COUNT
};

/* A group of threads that belong to one thing, in the order of (pid, tid). */
struct orr__lane {
    enum orr__lane_kind kind;
    uint32_t pid, tid;     /* the first of its thread ids */
    uint32_t id;           /* of the host, stream or device */
    const char *name;      /* "": none */
    const char *suffix;    /* of lanes of slices: " annotations"; else "" */
    const char *id_suffix; /* what stands before the id if the name is ambiguous: " (host " */
    uint32_t base;         /* of lanes of slices: the lane of the host or stream */
    bool ambiguous;        /* the name alone would not be unique in the process */
    bool used, marks_used, graphs_used;
    int64_t end_ns, graphs_end_ns; /* last end on the main thread, on `graphs` */
    int64_t *overlap_end_ns;       /* and on each overlap thread */
    size_t overlap_count, overlap_capacity;
};

enum orr__item_kind {
    ORR__ITEM_ENQUEUE, /* index: command */
    ORR__ITEM_COMMAND, /* index: command */
    ORR__ITEM_RESUME,  /* index: command, a wait that blocked */
    ORR__ITEM_SYNC,    /* index: sync */
    ORR__ITEM_SYNCED,  /* index: sync */
    ORR__ITEM_PHASE,   /* index: phase */
    ORR__ITEM_FINDING, /* index: finding */
    ORR__ITEM_CALL,    /* index: call */
    ORR__ITEM_SLICE    /* index: slice of the timeline */
};

/* One thing to draw. */
struct orr__item {
    int64_t start_ns, end_ns; /* end >= start */
    uint64_t order;           /* among equal ones: id of the command, or of the finding */
    uint32_t lane : 27, kind : 4, graph : 1; /* graph: a command that covers others */
    uint32_t index;
};

/* One event X: items[first] alone, or `count` > 1 items that share it. */
struct orr__slice {
    int64_t start_ns, dur_ns;
    uint32_t pid, tid;
    uint32_t first, count;
};

/* In the order of their table: arrows that are equal otherwise are numbered by it. */
enum orr__arrow_kind {
    ORR__ARROW_ENQUEUE,
    ORR__ARROW_EVENT,
    ORR__ARROW_EVENT_DONE,
    ORR__ARROW_SYNC,
    ORR__ARROW_REUSE,
    ORR__ARROW_FINDING
};

struct orr__arrow {
    uint32_t src, dst;         /* slices */
    uint32_t src_cmd, dst_cmd; /* indices of commands */
    uint32_t kind;             /* enum orr__arrow_kind */
};

/* Texts that many lines in a row share: of the time that is being written, and of threads, found by
 * a hash of their ids. */
struct orr__shared_texts {
    char time[32];
    size_t time_size;
    struct orr__track_text {
        uint32_t pid, tid; /* pid 0: free */
        uint32_t size;
        char text[48]; /* "pid":10,"tid":1000,"ts": */
    } tracks[ORR__TRACK_TEXTS];
};

struct orr__export {
    const struct orr_timeline *timeline;
    const struct orr_perfetto_phase *phases;
    size_t phase_count;
    const struct orr_memory *memory;
    struct orr_error *error;
    const char *path;

    int64_t t0_ns;
    int64_t last_ns; /* the trace's last time, relative */

    struct orr__lane *lanes;
    size_t lane_count;
    uint32_t *stream_lane;   /* by index of the stream; ORR__NO_SLICE if its device is not there */
    uint32_t *device_lane;   /* by index of the device: its phases, then its findings */
    uint32_t *host_slices;   /* by index of the host, ORR__SLICES_COUNT each: lanes, or
                            * ORR__NO_SLICE; NULL: there are no slices */
    uint32_t *stream_slices; /* by index of the stream, likewise */

    struct orr__item *items;
    size_t item_count;
    struct orr__slice *slices;
    size_t slice_count;
    /* Where a thing was drawn: a slice, ORR__NO_SLICE or ORR__LEFT_OUT. */
    uint32_t *enqueue_slice, *command_slice, *resume_slice; /* by index of the command */
    uint32_t *synced_slice;                                 /* by index of the sync */
    uint32_t *call_slice;                                   /* by index of the call */
    /* Commands that call i owns: call_commands[call_first[i] .. call_first[i + 1]), by index. */
    uint32_t *call_first, *call_commands;
    uint32_t *collective_of; /* by index of the command: of the collective + 1; NULL: no members */

    struct orr__arrow *arrows; /* in order of their ids, the first has id 1 */
    uint32_t *arrow_by_end;    /* arrows in order of (destination's start, id) */
    size_t arrow_count;
    uint32_t *counters; /* counters to write, in order of (ts, device, name) */
    size_t counter_count;

    struct orr__sort_key *keys, *scratch; /* one block, for whatever is being sorted */
    size_t key_capacity;

    struct orr__shared_texts *shared;

    struct orr_perfetto_counts counts;
};

/* Fills t0_ns, last_ns, lanes and their maps. */
enum orr_status orr__perfetto_lanes(struct orr__export *export) ORR_MUST_CHECK;

/* Fills items, slices and where things were drawn; needs the lanes. */
enum orr_status orr__perfetto_layout(struct orr__export *export) ORR_MUST_CHECK;

/* Fills arrows and counters; needs the layout. */
enum orr_status orr__perfetto_arrows(struct orr__export *export) ORR_MUST_CHECK;
enum orr_status orr__perfetto_counters(struct orr__export *export) ORR_MUST_CHECK;

/* Puts `"pid":10,"tid":1000,"ts":26.007` of the time being written at `at`, which has room for 80
 * bytes; returns the end. */
char *orr__perfetto_place(const struct orr__export *export, char *at, uint32_t pid, uint32_t tid);

/* Puts one event X of the time being written at `at`, a cursor of the writer with ORR_JSON_ROOM
 * bytes of room less 8, without what ends the line; returns the end. */
char *orr__perfetto_slice(const struct orr__export *export, struct orr_json_writer *writer,
                          char *at, const struct orr__slice *slice);

/* Writes the member of the metadata that holds the timeline; nothing if it is too large. */
enum orr_status orr__perfetto_timeline(struct orr__export *export,
                                       struct orr_json_writer *writer) ORR_MUST_CHECK;

/* Fills call_first and call_commands; part of the layout. */
enum orr_status orr__perfetto_calls(struct orr__export *export) ORR_MUST_CHECK;

/* The call that enqueued a command, by index; ORR__NO_INDEX: it carries its call itself, or has
 * none. */
size_t orr__call_of(const struct orr_timeline *timeline,
                    const struct orr_timeline_command *command);

/* A record of another tool's trace that makes no sense, and is not drawn: it ends before it begins,
 * or both are 0, or a time is beyond +-2^61. Of a run of ours none is. */
bool orr__bad_command(const struct orr_timeline *timeline,
                      const struct orr_timeline_command *command);
bool orr__bad_stretch(int64_t begin_ns, int64_t end_ns);

/* Which of a host's lanes a slice belongs to. */
enum orr__slice_lane orr__slice_lane_of(const struct orr_timeline_slice *slice);

/* The pid of a device, by index. */
uint32_t orr__device_pid(const struct orr__export *export, size_t device);

/* The name of a counter; never "". */
const char *orr__counter_name(const struct orr_timeline_counter *counter);

/* Indices of rows by id, ORR__NO_INDEX if there is none. */
size_t orr__command_index(const struct orr_timeline *timeline, uint64_t id);
size_t orr__device_index(const struct orr_timeline *timeline, uint32_t id);
size_t orr__stream_index(const struct orr_timeline *timeline, uint32_t id);
size_t orr__host_index(const struct orr_timeline *timeline, uint32_t id);

/* `count` entries of `size` bytes, not zeroed, or ORR_NO_MEMORY with a text; never NULL on
 * success. *out_block is a pointer of any type. */
enum orr_status orr__export_alloc(const struct orr__export *export, void *out_block, size_t count,
                                  size_t size) ORR_MUST_CHECK;

/* Makes export->keys and export->scratch hold `count` entries each; what was in them is lost. */
enum orr_status orr__export_keys(struct orr__export *export, size_t count) ORR_MUST_CHECK;

#endif
