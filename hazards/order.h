/* Happens-before findings of a stream program: pairs of operations that nothing orders. What
 * orr_check_order says about the first one, here for all of them, as data.
 *
 *     static bool found(void *context, const struct orr_order_finding *finding) { ... }
 *     enum orr_status status = orr_check_order_all(program, found, NULL, NULL);
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_ORDER_H
#define ORR_HAZARDS_ORDER_H

#include "hazards/check.h"

struct orr_order_finding {
    enum orr_check_verdict_kind kind; /* RACE, USE_AFTER_FREE, USE_BEFORE_ALLOC */
    uint32_t op_a, op_b;              /* a < b; `b` is where it is found */
    /* In program->accesses; ORR_NONE where the operation is no access but an allocation or an end
     * of life. */
    uint32_t access_a, access_b;
};

/* What stopped a check before the end. */
struct orr_order_malformed {
    uint32_t op;      /* ORR_NONE: nothing */
    const char *what; /* "is ended a second time", said of the name; static storage */
    enum orr_name_space space;
    uint32_t name;
};

/* Returns false to end the check. */
typedef bool (*orr_order_found)(void *context, const struct orr_order_finding *finding);

/* Calls `found` for the earliest partner of every access, and of every end of life, that has one,
 * in order of operations; no pair of operations twice with the same kind. The first is that of
 * orr_check_order. Stops before an operation that is malformed, and says so in *out_malformed
 * (may be NULL). A finding costs time in proportion to the operations before it. Errors:
 * ORR_NO_MEMORY. */
enum orr_status orr_check_order_all(const struct orr_stream_program *program, orr_order_found found,
                                    void *context,
                                    struct orr_order_malformed *out_malformed) ORR_MUST_CHECK;

/* Who accesses memory in an operation: a stream, or with stream ORR_NONE the host itself. */
struct orr_order_place {
    uint32_t stream, host;
};

/* Where the reads (or writes) of an operation happen: the reads of a staged copy are the host's.
 * Also for operations that allocate or end a life. */
struct orr_order_place orr_order_place(const struct orr_stream_program *program, uint32_t op,
                                       bool is_write);

/* The message of a finding: both operations, buffer and range, what kind of conflict, and the order
 * that is missing. Replaces verdict's kind, pair and message. */
enum orr_status orr_order_finding_describe(const struct orr_stream_program *program,
                                           const struct orr_order_finding *finding,
                                           struct orr_check_verdict *verdict) ORR_MUST_CHECK;

#endif
