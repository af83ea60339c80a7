/* What the files of the happens-before check share: its state, and the steps of an operation.
 *
 *     order_check.c    takes operations one by one
 *     order_access.c   checks and adds the accesses of an action; finds partners
 *     order_life.c     allocations and ends of life
 *
 * Threads: one per check. */
#ifndef ORR_HAZARDS_ORDER_CHECK_INTERNAL_H
#define ORR_HAZARDS_ORDER_CHECK_INTERNAL_H

#include "hazards/access_tree.h"
#include "hazards/order_internal.h"
#include "hazards/order_memory.h"
#include "hazards/order_model.h"

/* One of record_stream's streams, in a list per name. */
struct orr__order_recorded {
    uint32_t stream, next, op;
};

/* What is known of a name, besides struct orr__order_name. */
struct orr__order_name_state {
    struct orr__stamps uses;  /* accesses by this name, if its end is to come after them */
    struct orr__view at_free; /* for the next owner of the block */
    uint32_t recorded_first;  /* in `recorded`; ORR_NONE */
    bool end_is_checked;
};

/* Who made what an event holds, or notified a flag. */
struct orr__order_makers {
    uint32_t *events, *flags; /* operations; ORR_NONE */
    bool *replaced;           /* the event held something else before, that would be back */
};

/* The stamps of an operation's actions. A staged copy has two: its read is the host's. */
struct orr__order_stamps {
    struct orr__stamp read, write;
};

struct orr__order_check {
    const struct orr_stream_program *program;
    struct orr__order_memory names;
    struct orr__access_trees trees;
    struct orr__order_model model;
    struct orr__order_name_state *states;
    struct orr__order_stamps *stamps;
    struct orr__order_recorded *recorded;
    size_t recorded_capacity;
    uint32_t recorded_count;
    orr_order_found found;
    void *context;
    /* Of the operation at hand. */
    uint32_t index;
    struct orr_order_finding *reported; /* findings of this operation */
    size_t reported_capacity;
    uint32_t reported_count;
    bool is_stopped;
    bool *effective; /* per operation, if asked for: whether it changed what somebody knows */
    struct orr__order_makers makers;
};

/* Which of an operation's accesses an action makes. */
enum orr__order_part { ORR__PART_ALL, ORR__PART_READS, ORR__PART_WRITES };

/* Passes a finding on, unless the operation already has one of this kind with this partner. */
enum orr_status orr__order_tell(struct orr__order_check *check, enum orr_check_verdict_kind kind,
                                uint32_t op_a, uint32_t access_a, uint32_t access_b) ORR_MUST_CHECK;
/* Reports the first use of a name that the view, of who ends its life, does not know. */
enum orr_status orr__order_tell_use(struct orr__order_check *check, uint32_t name,
                                    const struct orr__view *view) ORR_MUST_CHECK;
/* Whether a name is from alloc_async, and the view does not know that allocation. */
bool orr__order_is_before_alloc(const struct orr__order_check *check, uint32_t name,
                                const struct orr__view *view);

/* An action of a stream, or of the operation's host, with the accesses of the operation that are
 * its part. */
enum orr_status orr__order_stream_action(struct orr__order_check *check, uint32_t stream,
                                         enum orr__order_part part) ORR_MUST_CHECK;
enum orr_status orr__order_host_action(struct orr__order_check *check,
                                       enum orr__order_part part) ORR_MUST_CHECK;

/* The operation at hand, if it allocates or ends something; else without effect. */
enum orr_status orr__order_take_life(struct orr__order_check *check,
                                     const struct orr_stream_op *op) ORR_MUST_CHECK;

#endif
