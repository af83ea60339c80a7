/* The smallest part of a program that still shows something: delta debugging over operations.
 *
 * Threads: any, each with its own search. */
#ifndef ORR_HAZARDS_EXPLORE_MINIMIZE_H
#define ORR_HAZARDS_EXPLORE_MINIMIZE_H

#include "hazards/stream_program.h"

/* Some operations of a program, as a program. */
struct orr__part {
    const struct orr_stream_program *whole; /* borrowed */
    struct orr_stream_program *program;     /* owned */
    uint32_t *ops;                          /* of the whole, ascending; owned */
    uint32_t op_count;
};

/* `keep`: of the whole's op_count operations. */
enum orr_status orr__part_open(struct orr__part *part, const struct orr_stream_program *whole,
                               const bool *keep) ORR_MUST_CHECK;
enum orr_status orr__part_open_whole(struct orr__part *part,
                                     const struct orr_stream_program *whole) ORR_MUST_CHECK;
/* Accepts what was never opened. */
void orr__part_close(struct orr__part *part);

/* Index in the part of an operation of the whole; ORR_NONE if it was left out. */
uint32_t orr__part_index(const struct orr__part *part, uint32_t op);

/* Leaves operations out, in halves, quarters, ... and then one by one, as long as `still` says that
 * the part still has what is wanted, until nothing more can go (one operation alone). The last part
 * for which `still` said yes is the answer; it may say no to all, and the whole is the answer.
 * `unit_of` (NULL: none): operations that only make sense together have one number, below the
 * number of operations; such units are left out first. */
enum orr_status orr__minimize(const struct orr_stream_program *whole, const uint32_t *unit_of,
                              enum orr_status (*still)(void *context, const struct orr__part *part,
                                                       bool *out_has),
                              void *context) ORR_MUST_CHECK;

#endif
