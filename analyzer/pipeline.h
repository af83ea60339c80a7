/* Pipelines and their bubbles: what the stages of a pipeline idle because they wait for each other.
 *
 *     stage 0   F0 F1 F2 .  .  .  B0 .. B1 .. B2      . bubble
 *     stage 1   .  F0 F1 F2 .  B0 .. B1 .. B2 .
 *     stage 2   .  .  F0 B0 F1 B1 F2 B2 .  .  .
 *             begin                            end
 *
 * All of it follows from the trace alone, of ops that lie in the window at least in part:
 *
 *   edge       a compute or copy op whose latest awaited op ran on another device (an event);
 *              or a send to another device: a send_receive whose members each only read or only
 *              write. Exchanges in which a member does both (rings) and collectives are no edges.
 *   pipeline   devices that edges connect, directly or not. A stage of it is a device with a
 *              compute op at either end of an edge. Its stage streams are those of these ops.
 *   span       from the first start to the last end of compute ops in stage streams of the
 *              pipeline, clipped to the window.
 *   bubble     of a stage, disjoint parts of the device's classes (classes.h):
 *              of dep_wait      gaps that an op ends which waits for another device
 *              of exposed_comm  instants that belong to a send or receive above which still waits
 *                               for the other side (communication.h: "waiting")
 *              of before_first  if the device's first op waits for another device: from the begin
 *                               of the span, or the end of the op's call if that is later, to the
 *                               end of what it waited for
 *              of after_last    up to the end of the span
 *              of host_sync, host_other   while a host waits, be it another one than the device's
 *                               own, and another stage of the pipeline computes: the step's end is
 *                               waited for, and the device has nothing left to do
 *   warm-up    before the device's first op at an edge; drain: behind its last compute op in a
 *              stage stream, and of host time; steady: the rest.
 *
 * With equal stages and no other costs the bubble is the span without the stage's work: of 1F1B
 * with p stages and m microbatches (p - 1) / (m + p - 1) of it. Host time, transfers, other
 * collectives and work beside the pipeline are in no bubble.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_PIPELINE_H
#define ORR_ANALYZER_PIPELINE_H

#include "analyzer/classes.h"
#include "analyzer/events.h"

/* What a device is in a pipeline. */
struct orr_stage {
    uint32_t pipeline;         /* index, or ORR_EVENTS_NONE: the device is no stage */
    int64_t first_ns, last_ns; /* first start of an op at an edge; last end in a stage stream */
    int64_t warm_up_ns, steady_ns, drain_ns;
};

struct orr_pipeline {
    uint32_t devices;             /* that are stages */
    int64_t begin_ns, end_ns;     /* span */
    int64_t bubble_ns;            /* of all stages */
    struct orr_intervals awaited; /* a stage computes and a host waits; owned */
};

struct orr_pipelines {
    struct orr_stage *stages;   /* one per device; owned */
    struct orr_pipeline *items; /* in the order of their first devices; owned */
    size_t device_count, count;
    int64_t begin_ns, end_ns; /* window */
    uint8_t *directed;        /* by collective: a send that is an edge; owned */
};

/* Finds pipelines, stages and spans in a window. ORR_NO_MEMORY. Freed with orr_pipelines_free. */
enum orr_status orr_pipelines_find(const struct orr_events *events, int64_t begin_ns,
                                   int64_t end_ns, const struct orr_memory *memory,
                                   struct orr_pipelines *out) ORR_MUST_CHECK;
/* A gap of a device, as the walk of its classes tells it. */
void orr_pipelines_add_gap(struct orr_pipelines *p, const struct orr_events *events,
                           uint32_t device, const struct orr_gap *gap);
/* A stretch of class host_sync or host_other, likewise. */
void orr_pipelines_add_host(struct orr_pipelines *p, uint32_t device, int64_t begin_ns,
                            int64_t end_ns);
/* The other parts of the bubbles, once all gaps were added. */
enum orr_status orr_pipelines_finish(struct orr_pipelines *p, const struct orr_events *events,
                                     const struct orr_memory *memory) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_pipelines_free(const struct orr_memory *memory, struct orr_pipelines *p);

/* Sum of the parts. */
int64_t orr_stage_bubble(const struct orr_stage *stage);

#endif
