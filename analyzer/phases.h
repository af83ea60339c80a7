/* Phases of a device: stretches in which one thing dominates (2.7).
 *
 * The window is cut into cells of h = max(100 us, W / 1000). Each cell holds the exact ns of eight
 * groups; a cell's label is the largest group of the sum over it and two cells on each side; a
 * phase is a maximal run of one label. Its figures are unsmoothed, so per group the phases of a
 * device add up to the window.
 *
 *     cells     |c c c|l l l l l l|m m m|
 *     phases    compute    launch  memory
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_PHASES_H
#define ORR_ANALYZER_PHASES_H

#include "analyzer/classes.h"
#include "analyzer/launch.h"

/* X(name, group, class): the group, and what a phase labelled with it is called. A phase labelled
 * launch is launch_bound only if its own interval passes the test of launch.h, else
 * host_stalled. */
#define ORR_PHASE_LIST(X)                                                                          \
    X(COMPUTE_BOUND, "compute_bound", "compute_bound")                                             \
    X(MEMORY_BOUND, "memory_bound", "memory_bound")                                                \
    X(LATENCY_BOUND, "latency_bound", "latency_bound")                                             \
    X(NO_COST, "no_cost", "no_cost")                                                               \
    X(COMM, "comm", "communication_bound")                                                         \
    X(COPY, "copy", "copy_bound")                                                                  \
    X(LAUNCH, "launch", "launch_bound")                                                            \
    X(WAIT, "wait", "idle")

enum orr_phase_group {
#define ORR_PHASE_ENUM(name, group, class_) ORR_PHASE_##name,
    ORR_PHASE_LIST(ORR_PHASE_ENUM)
#undef ORR_PHASE_ENUM
        ORR_PHASE_COUNT
};

/* "compute_bound", "comm", ...: static storage. */
const char *orr_phase_group_text(enum orr_phase_group group);

enum { ORR_PHASE_TOP = 3 };

struct orr_phase_top { /* operator and its device time within the phase, summed */
    uint32_t operator_index;
    int64_t time_ns;
};

struct orr_phase {
    uint32_t device;
    enum orr_phase_group label;
    int64_t begin_ns, end_ns;
    int64_t groups[ORR_PHASE_COUNT]; /* ns, unsmoothed: they sum to end - begin */
    struct orr_launch_terms launch;  /* of a phase labelled launch; zero otherwise */
    unsigned top_count;
    struct orr_phase_top top[ORR_PHASE_TOP];
};

/* "launch_bound", "host_stalled", ... */
const char *orr_phase_class_text(const struct orr_phase *phase);

struct orr_phases {
    struct orr_phase *items; /* by device, then time; owned */
    size_t count, capacity;
    int64_t cell_ns;
};

/* Cells of one device while it is walked. */
struct orr_phase_cells {
    int64_t begin_ns, end_ns, cell_ns;
    size_t count;
    int64_t (*ns)[ORR_PHASE_COUNT]; /* owned */
};

/* Width of a cell for a window of `window_ns`. */
int64_t orr_phase_cell_width(const struct orr_analysis_options *options, int64_t window_ns);

/* Empty cells of cell_ns each over [begin, end), the last one shorter. ORR_NO_MEMORY. */
enum orr_status orr_phase_cells_create(struct orr_phase_cells *cells, int64_t begin_ns,
                                       int64_t end_ns, int64_t cell_ns,
                                       const struct orr_memory *memory) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_phase_cells_free(const struct orr_memory *memory, struct orr_phase_cells *cells);

/* Adds [begin, end), clipped to the window, to a group. */
void orr_phase_cells_add(struct orr_phase_cells *cells, enum orr_phase_group group,
                         int64_t begin_ns, int64_t end_ns);

/* Group of a class of idle time. */
enum orr_phase_group orr_phase_of_class(enum orr_class class_);

/* Appends the phases of a device whose cells are complete (each ns of the window in some group). */
enum orr_status orr_phases_add(struct orr_phases *phases, const struct orr_phase_cells *cells,
                               const struct orr_events *events, const struct orr_launch *launch,
                               const struct orr_analysis_options *options, uint32_t device,
                               const struct orr_memory *memory) ORR_MUST_CHECK;
/* Frees and empties. */
void orr_phases_free(const struct orr_memory *memory, struct orr_phases *phases);

#endif
