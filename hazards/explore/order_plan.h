/* What can happen in a stream program whose calls are made in list order, as data for exploration.
 *
 * Calls are read once, in list order, and become *actions*: work of a stream, accesses of a host,
 * stream-ordered allocations, ends of life. Everything else (enqueues, records, waits, satisfied
 * syncs) only decides which actions come before which, so it is settled here, and exploration never
 * meets it. Where the check of happens-before counts (a clock per stream and host), the plan names:
 * for every action the set of actions that come before it.
 *
 *     actor:   s0          s1              h
 *              0 write A   1 read A        2 read A
 *     before:  {}          {}              {0, 1}          conflicts: (0, 1)
 *
 * Two actions conflict if they touch the same memory and one of them changes it, and nothing orders
 * them. A schedule is any sequence of all actions that respects `before`; two schedules differ only
 * if they order a conflict differently.
 *
 * Actors are numbered: streams first, then hosts.
 *
 * Threads: immutable once made; for any number of readers. */
#ifndef ORR_HAZARDS_EXPLORE_ORDER_PLAN_H
#define ORR_HAZARDS_EXPLORE_ORDER_PLAN_H

#include "hazards/check.h"

enum {
    ORR_PLAN_ACTIONS_MAX = 4096, /* the sets take ACTIONS_MAX^2 / 8 = 2 MB */
    ORR_PLAN_ACCESSES_MAX = 16384,
    ORR_PLAN_CELLS_MAX = 1 << 16,
    ORR_PLAN_CONFLICTS_MAX = 1 << 20,
    ORR_PLAN_FINDINGS_MAX = 1 << 16,   /* later ones are left out */
    ORR_PLAN_ROWS_BYTES_MAX = 64 << 20 /* of sets kept while the plan is made */
};

enum orr__action_role {
    ORR_ACTION_ACCESS, /* of a stream or a host */
    ORR_ACTION_ALLOC,  /* alloc_async */
    ORR_ACTION_END     /* free_async, cuda_free, host_free */
};

/* An access as the check sees it. */
struct orr__plan_access {
    uint32_t action, name, block;
    uint32_t alloc;    /* action of the name's alloc_async; ORR_NONE */
    uint32_t ended_op; /* the name had been ended by this operation; ORR_NONE */
    bool is_write;
    uint64_t lo, hi;
};

/* Cells [first, end) that an action reads or changes when it runs. */
struct orr__touch {
    uint32_t first, end;
    bool is_write;
};

struct orr__action {
    uint32_t op, actor;
    uint32_t access_first, access_count;
    uint32_t touch_first, touch_count;
    uint32_t name, block; /* of ALLOC and END */
    uint8_t role;         /* enum orr__action_role */
    uint8_t part;         /* 1: the second action of a copy */
    bool is_poisoned;     /* uses memory that had been freed at the call, in every schedule */
};

/* Actions a < b in list order that conflict and that nothing orders. */
struct orr__conflict {
    uint32_t a, b;
};

/* As the check's verdicts, in its order; actions ORR_NONE: true in every schedule. */
struct orr__order_finding {
    enum orr_check_verdict_kind kind;
    uint32_t op_a, op_b, action_a, action_b, buffer;
    uint64_t lo, hi; /* what both touch; hi <= lo: not a range */
};

struct orr__order_plan {
    const struct orr_stream_program *program; /* borrowed */
    const struct orr_memory *memory;
    struct orr__action *actions;
    struct orr__plan_access *accesses;
    struct orr__touch *touches;
    struct orr__conflict *conflicts;
    struct orr__order_finding *findings;
    uint64_t *before; /* action_count rows of `words`: bit i of row j: i comes before j */
    bool *is_final;   /* per cell: somebody may look at it in the end */
    uint32_t action_count, access_count, touch_count, conflict_count, finding_count, cell_count;
    uint32_t words, actor_count;
    uint32_t invalid_op; /* operations from here on are malformed and left out; ORR_NONE */
    const char *invalid; /* what is wrong with it */
    size_t access_capacity, touch_capacity, conflict_capacity, finding_capacity;
};

/* Makes the plan of a program, which is borrowed until the plan is destroyed. ORR_UNSUPPORTED for
 * programs beyond the limits above. */
enum orr_status orr__order_plan_create(const struct orr_stream_program *program,
                                       struct orr__order_plan **out_plan,
                                       struct orr_error *error) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr__order_plan_destroy(struct orr__order_plan **plan);

/* True if action `a` comes before action `b` in every schedule. */
static inline bool orr__plan_is_before(const struct orr__order_plan *plan, uint32_t a, uint32_t b) {
    return plan->before[(size_t)b * plan->words + a / 64] >> (a % 64) & 1;
}

/* --- between the files of this module --- */

/* Finds conflicts and findings; needs actions, accesses, before. */
enum orr_status orr__plan_find_conflicts(struct orr__order_plan *plan) ORR_MUST_CHECK;
/* Cuts memory into cells and says which action touches which. `block_of` says the last block of
 * each name, `is_live` whether the name has not been ended. */
enum orr_status orr__plan_cut_cells(struct orr__order_plan *plan, const uint32_t *block_of,
                                    const bool *is_live, struct orr_error *error) ORR_MUST_CHECK;

#endif
