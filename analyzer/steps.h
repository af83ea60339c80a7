/* Steps of a trace: the stretches of host time that the program does again and again.
 *
 * What marks them, the first that applies, for each process on its own:
 *
 *   ProfilerStep#N     annotations that torch.profiler's step() leaves; one is enough
 *   annotations        at least two of one thread whose names are equal but for their numbers, that
 *                      do not overlap and say in words what they are: "step", "iteration", "iter",
 *                      "train step"; failing those, "batch", "decode", "generation", "execute
 *                      context". An optimizer's step, a microbatch, an epoch is no step.
 *   graph launches     in our own traces: at least two launches of one captured program by one
 *                      host. A step goes on until the next one begins, or the trace ends.
 *
 * Of several series of one sort, the one that takes most time. The number is the one in the name
 * that rises from step to step, else the step's place in its series, from 0.
 *
 *     struct orr_steps steps;
 *     if (orr_steps_find(timeline, &memory, &steps) != ORR_OK) ...
 *     uint32_t step = orr_steps_at(&steps, process, call_begin_ns);   // ORR_STEP_NONE: in none
 *     orr_steps_free(&memory, &steps);
 *
 * Work belongs to the step in which its call begins, on whatever thread of the process: times are
 * host times, and a device may still work on a step when the next has begun. The first and the last
 * step of a process are not steady state: caches fill, profilers start and stop, the trace cuts
 * them.
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_STEPS_H
#define ORR_ANALYZER_STEPS_H

#include "trace/timeline.h"

#define ORR_STEP_NONE UINT32_MAX

struct orr_step {
    const char *name;         /* the annotation's or the program's; borrowed from the timeline */
    uint64_t number;          /* as above */
    uint64_t process;         /* of its host, as in the timeline */
    uint32_t host;            /* id of the thread that marked it */
    int64_t begin_ns, end_ns; /* host time, [begin, end) */
    bool boundary;            /* the first or the last of its process */
};

/* X(name, text): what marks the steps. */
#define ORR_STEP_SOURCE_LIST(X)                                                                    \
    X(NONE, "nothing that repeats marks steps: no annotation, and no launch of one captured "      \
            "program")                                                                             \
    X(PROFILER, "the profiler's annotations ProfilerStep#N")                                       \
    X(ANNOTATION, "annotations whose names differ in a number only")                               \
    X(GRAPH, "launches of one captured program")

enum orr_step_source {
#define ORR_STEP_SOURCE_ENUM(name, text) ORR_STEP_SOURCE_##name,
    ORR_STEP_SOURCE_LIST(ORR_STEP_SOURCE_ENUM)
#undef ORR_STEP_SOURCE_ENUM
        ORR_STEP_SOURCE_COUNT
};
/* The text above: static storage. */
const char *orr_step_source_text(enum orr_step_source source);

struct orr_steps {
    struct orr_step *items; /* by process, then begin; those of one process don't overlap; owned */
    size_t count;
    enum orr_step_source source; /* of the first process that has steps */
};

/* Finds the steps of a timeline, which must live as long as they do. A trace without any is fine.
 * ORR_NO_MEMORY. */
enum orr_status orr_steps_find(const struct orr_timeline *timeline, const struct orr_memory *memory,
                               struct orr_steps *out_steps) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_steps_free(const struct orr_memory *memory, struct orr_steps *steps);

/* Index of the step of a process that a host time lies in, or ORR_STEP_NONE. */
uint32_t orr_steps_at(const struct orr_steps *steps, uint64_t process, int64_t time_ns);

#endif
