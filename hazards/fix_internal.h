/* Changes that may order a pair: made by hazards/fix_plans.c, applied and judged by hazards/fix.c.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_FIX_INTERNAL_H
#define ORR_HAZARDS_FIX_INTERNAL_H

#include "hazards/fix.h"

enum { ORR__FIX_PLANS_MAX = 8 };

/* An operation to put before operation `before`; after a move, if there is one. A new event or flag
 * has object ORR_NONE until the plan is applied. */
struct orr__fix_step {
    uint32_t before;
    struct orr_stream_op op;
};

struct orr__fix_plan {
    struct orr__fix_step steps[2]; /* in order of `before` */
    uint32_t step_count;
    uint32_t moved; /* operation that goes right behind op_b, ORR_NONE; reuses of its name go */
    char text[ORR_FIX_TEXT_MAX];
};

/* Plans for a finding, the smallest first; returns how many. */
uint32_t orr__fix_plans(const struct orr_stream_program *program,
                        const struct orr_order_finding *finding,
                        struct orr__fix_plan plans[ORR__FIX_PLANS_MAX]);

#endif
