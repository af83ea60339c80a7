/* The run behind the happens-before checks: hazards/order_check.c, called by program_order.c and
 * redundant.c.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_ORDER_INTERNAL_H
#define ORR_HAZARDS_ORDER_INTERNAL_H

#include "hazards/order.h"

struct orr__order_request {
    orr_order_found found;
    void *context;
    /* If not NULL, an array of op_count falses. Those operations are set without which somebody
     * would know less at some moment, or a name would be malformed. What work does is not looked
     * at: it is about operations that only order. */
    bool *effective;
    /* If not NULL, an array of op_count: operations that are left out. None with accesses, and none
     * that introduces or ends a name. */
    const bool *skip;
};

enum orr_status orr__order_check(const struct orr_stream_program *program,
                                 const struct orr__order_request *request,
                                 struct orr_order_malformed *out_malformed) ORR_MUST_CHECK;

#endif
