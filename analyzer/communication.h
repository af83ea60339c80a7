/* Communication by what it was for: per axis of a mesh and kind of collective, how much of it was
 * exposed and how much ran beside computation.
 *
 *     device 0   compute        [#####]      [#########]
 *                dp reduce_scatter [------------]
 *                tp all_reduce               .  [---]
 *                whose time        |dp dp dp|.  |tp |
 *                exposed              |ex ex|
 *
 * An axis is the name of the communicator without the group's number: a mesh calls its
 * communicators "AXIS NUMBER" (runtime/mesh.h); those between two meshes, "0-3 and 4-7", are one
 * axis "between meshes". On each device, every instant of the window at which communication runs
 * belongs to exactly one op: of those that run the one that began last, since what was begun before
 * is what goes on in the background (ties: the last one in the order of the event model). It is
 * exposed if no compute op of the device runs at that instant, else overlapped; and of what is
 * exposed it is waiting while a member of the op's collective has not started yet, anywhere. So per
 * device, over all axes and kinds, times add up to |M|, what is exposed to the class exposed_comm,
 * what is overlapped to overlap_ns (classes.h), exactly.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_COMMUNICATION_H
#define ORR_ANALYZER_COMMUNICATION_H

#include "analyzer/events.h"
#include "analyzer/roofline.h"

/* Sums over the ops of one axis and kind; time_ns = exposed_ns + overlapped_ns. */
struct orr_communication_sums {
    uint64_t ops;    /* that lie in the window, at least in part */
    int64_t time_ns; /* instants that belong to them */
    int64_t exposed_ns;
    int64_t waiting_ns; /* of exposed_ns */
    uint64_t partial;   /* ops whose collective has members in no trace, or is not known: what they
                         * waited is in no sum */
};

/* One axis and kind, over all devices. */
struct orr_communication_row {
    char *axis;       /* owned; "" without a communicator */
    const char *kind; /* "all_reduce", ... */
    uint64_t count;   /* collectives that have an op in the window */
    orr_u128 bytes;   /* of those, each once: as in table collective, one rank's share */
    struct orr_communication_sums sums;
};

/* The same on one device. */
struct orr_communication_cell {
    uint32_t row;
    orr_u128 bytes; /* of its ops' collectives */
    struct orr_communication_sums sums;
};

struct orr_communication {
    struct orr_communication_row *rows; /* by exposed, then time, then axis, kind; owned */
    size_t row_count;
    struct orr_communication_cell
        *cells;    /* of device d: cells[first[d]] .. [first[d + 1]]; owned */
    size_t *first; /* one more than devices; owned */
    size_t cell_count;
};

/* Of the window [begin, end). ORR_NO_MEMORY. Freed with orr_communication_free. */
enum orr_status orr_communication_compute(const struct orr_events *events, int64_t begin_ns,
                                          int64_t end_ns, const struct orr_memory *memory,
                                          struct orr_communication *out) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_communication_free(const struct orr_memory *memory, struct orr_communication *c);

/* --- the walk itself, also for pipeline.c --- */

/* A stretch of one device that belongs to communication op `op`: exposed or not, and of the former
 * waiting or not. Stretches are disjoint and ascending. */
struct orr__comm_piece {
    uint32_t op;
    int64_t begin_ns, end_ns;
    bool exposed, waiting;
};

/* Tells the pieces of a device, unclipped. `scratch` is reused from device to device. */
struct orr__comm_scratch {
    uint32_t *running; /* a stack: the one that began last on top */
    size_t capacity;
};
enum orr_status orr__comm_walk(const struct orr_events *events, uint32_t device,
                               const struct orr_memory *memory, struct orr__comm_scratch *scratch,
                               void (*piece)(void *context, const struct orr__comm_piece *piece),
                               void *context) ORR_MUST_CHECK;
/* Frees and empties. */
void orr__comm_scratch_free(const struct orr_memory *memory, struct orr__comm_scratch *scratch);

/* When the last member of an op's collective started, as far as the trace tells; the op's own start
 * without a collective. */
int64_t orr__comm_all_started(const struct orr_events *events, const struct orr_events_op *op);

#endif
