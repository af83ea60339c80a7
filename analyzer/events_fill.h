/* Filling an event model from a timeline: what its steps share. Internal to analyzer/.
 *
 *     own traces        calls, collectives, ops, dependencies, syncs
 *                       events_calls.c, events_ops.c, events_waits.c
 *     other tools'      the same from calls and stream waits of their own: events_imported.c
 *
 * Threads: one at a time. */
#ifndef ORR_ANALYZER_EVENTS_FILL_H
#define ORR_ANALYZER_EVENTS_FILL_H

#include "analyzer/events.h"
#include "analyzer/timeline_find.h"

struct orr__graph_call;

struct orr__filler {
    const struct orr_timeline *timeline;
    struct orr_events *events;
    const struct orr_memory *memory;
    /* By index of a command: its call, its op, and the last op at or before it in its stream. */
    uint32_t *call_of, *op_of, *op_before;
    uint32_t *operator_of;     /* by index of a timeline op: its row in events->operators */
    uint32_t *collective_of;   /* by index of a command; NULL without collectives */
    uint32_t *stream_commands; /* indices of commands, by stream and seq */
    size_t *stream_first;      /* of each stream in stream_commands */
    uint32_t *stream_index; /* by index of a timeline stream: index of the event stream, or NONE */
    struct orr__graph_call *graphs;
    uint32_t *graph_order;
    size_t graph_count;
    uint8_t *awaits;          /* a bit per command: an edge leads to it */
    uint64_t *last_broadcast; /* by device: the operator whose broadcast bytes were charged last */
    uint32_t *merged_call;    /* other tools': by index of a timeline call, its call or NONE */
};

/* The steps, in this order; each may use what those before it filled. ORR_NO_MEMORY. */
enum orr_status orr__fill_calls(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_collectives(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_ops(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_dependencies(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_syncs(struct orr__filler *filler) ORR_MUST_CHECK;

/* What stands for orr__fill_calls, orr__fill_ops, orr__fill_dependencies and orr__fill_syncs with
 * other tools' traces. */
enum orr_status orr__fill_imported_calls(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_imported_ops(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_imported_waits(struct orr__filler *filler) ORR_MUST_CHECK;
enum orr_status orr__fill_imported_syncs(struct orr__filler *filler) ORR_MUST_CHECK;

/* True for traces of other tools. */
bool orr__timeline_imported(const struct orr_timeline *timeline);

#endif
