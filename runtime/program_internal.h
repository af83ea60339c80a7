/* Recorded programs inside: what program.c, program_capture.c and program_launch.c share.
 *
 *     nodes     [n0][n1][n2 n3][n4]...     in order of calls; n2 and n3: one group
 *                 |                        template: the pending object that the capture took
 *     streams   [s0][s0][s0 s1][s1]...     of each node; contiguous, as a group submission wants it
 *     points    [p0][p1][p2 p3][p4]...     of each node in the last launch
 *     waits     [0][1 2]...                indices of nodes; a node has a slice of it
 *     outside   [q]...                     points from before the region; a node has a slice of it
 *     lanes     [s0: first 0, last 2][s1: first 3, last 4]
 *
 * A template is a pending object that never reaches a backend: it holds ranges, work and the
 * function that computes. Every launch submits a fresh pending object whose `work` is the node and
 * whose `run` calls the template's.
 *
 * Life: `in_flight` counts commands of launches that have not retired. A destroyed program is freed
 * by whoever takes it to 0, which may be the retire callback.
 *
 * Threads: as the runtime; a backend's worker reads templates, which are constant after the end of
 * the region. */
#ifndef ORR_RUNTIME_PROGRAM_INTERNAL_H
#define ORR_RUNTIME_PROGRAM_INTERNAL_H

#include "runtime/program.h"
#include "runtime/runtime_internal.h"

enum {
    ORR__PROGRAM_COMMANDS_MAX = 1 << 28,
    ORR__PROGRAM_WAITS_MAX = 1 << 30,
    ORR__PROGRAMS_MAX = INT32_MAX /* ids of a runtime's programs: 31 bits */
};

struct orr__program_node {
    struct orr_program *program;
    struct orr__pending *template;
    size_t waits_begin, outside_begin;
    uint32_t wait_count, outside_count;
    uint32_t group_first, group_count; /* of the group it belongs to; itself and 1 if it is alone */
    bool grouped;                      /* submitted as a group, which may have one member only */
    bool forks;                        /* the first one of its stream */
};

/* A stream of the program. */
struct orr__program_lane {
    struct orr_stream *stream;
    uint32_t first, last; /* nodes */
};

/* A communicator of the program; `found` is of the last check. */
struct orr__program_communicator {
    uint32_t id;
    struct orr_communicator *found;
};

/* A launch from its first command to its last; open in between only while its host is blocked, or
 * after a failure. */
struct orr__program_launch {
    bool open;
    uint32_t host;
    struct orr_stream *stream;
    int64_t begin_ns; /* of the call */
    uint32_t next;    /* node to submit next */
    bool ended;       /* the backend has been told that the nodes are complete */
    struct orr_point fork;
};

struct orr_program {
    struct orr__capture capture; /* first */
    struct orr_runtime *runtime;
    struct orr_program *previous, *next; /* of the runtime */
    uint32_t id;                         /* from 1 */
    uint32_t site;                       /* of the region's beginning */
    uint32_t id_graph, id_join;          /* names */
    bool recording, destroyed;

    struct orr__program_node *nodes;
    struct orr_stream **streams;
    struct orr_point *points;
    uint32_t node_count;
    size_t node_capacity, stream_capacity, point_capacity;
    uint32_t *waits;
    size_t wait_count, wait_capacity;
    struct orr_point *outside;
    size_t outside_count, outside_capacity;
    struct orr__program_lane *lanes;
    size_t lane_count, lane_capacity;
    uint32_t *lane_of; /* by stream id: 1 + its lane, 0 none */
    size_t lane_of_capacity;
    struct orr__program_communicator *communicators; /* by id */
    size_t communicator_count, communicator_capacity;
    struct orr_point *scratch; /* room for any node's wait list, and for a point of every lane */
    size_t scratch_capacity;

    struct orr_point *after; /* what the next launch comes after, besides its stream */
    size_t after_count, after_capacity;

    uint64_t launch_count, in_flight;
    struct orr_point end; /* of the last launch; seq 0: there was none */
    struct orr__program_launch launch;
};

/* --- program_launch.c --- */

/* What a command of a launch was recorded from, or NULL if it is no such command, or computes
 * nothing. */
const struct orr_command *orr__program_template(const struct orr_command *command);

/* --- program.c --- */

/* Drops a reference of a command in flight; frees a destroyed program with its last one. */
void orr__program_retired(struct orr_program *program);

/* --- program_launch.c --- */

/* The next launch comes after a point, too, at no cost: for one that the runtime has seen retired,
 * so that whoever checks what orders what knows of it. */
enum orr_status orr__program_launch_after(struct orr_program *program,
                                          struct orr_point point) ORR_MUST_CHECK;

/* The first part of orr_program_launch, up to its first node, which leaves it open. */
enum orr_status orr__program_launch_begin(struct orr_program *program,
                                          struct orr_stream *stream) ORR_MUST_CHECK;

/* --- program_capture.c --- */

/* Fills in the hooks. */
void orr__program_capture_init(struct orr_program *program);

#endif
