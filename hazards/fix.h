/* The smallest change that orders the pair of a happens-before finding, proven by a check of the
 * changed program.
 *
 *     struct orr_fix fix;
 *     if (orr_fix_find(program, &finding, &fix) != ORR_OK) ...       (no memory)
 *     if (fix.is_proven) write(fix.program);
 *     orr_fix_clear(&fix);
 *
 * Tried in turn, the first that proves is taken: an event that is there already and covers the
 * earlier operation; recording the stream at the free of a cached block; an event recorded right
 * after the earlier operation, for which the later stream or host waits; a sync of the host; a flag
 * between hosts; a later end of life.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_FIX_H
#define ORR_HAZARDS_FIX_H

#include "hazards/order.h"

enum { ORR_FIX_EDITS_MAX = 4, ORR_FIX_TEXT_MAX = 512 };

struct orr_fix_edit {
    struct orr_stream_op op; /* in the changed program */
    uint32_t at;             /* its place there */
    bool is_moved;           /* it was there before, elsewhere; else it is new */
};

struct orr_fix {
    /* The program with the change; owned. Of the last change tried if none proved; NULL if there
     * was none to try. Its names go on where the old ones end. */
    struct orr_stream_program *program;
    struct orr_fix_edit edits[ORR_FIX_EDITS_MAX]; /* in order of their places */
    uint32_t edit_count;
    bool is_proven; /* the changed program is well-formed, and the pair no finding of it */
    /* The first finding that is left, in operations of the changed program; op_b ORR_NONE: none up
     * to the later operation of the pair. */
    struct orr_order_finding next;
    char text[ORR_FIX_TEXT_MAX]; /* what to do, for people */
};

/* Finds a fix for a finding of orr_check_order_all. Each change tried costs one check. Errors:
 * ORR_NO_MEMORY. */
enum orr_status orr_fix_find(const struct orr_stream_program *program,
                             const struct orr_order_finding *finding,
                             struct orr_fix *out_fix) ORR_MUST_CHECK;
/* Fixes one finding after the other, at most `fixes_max`. *out_program: the result, owned by the
 * caller; *out_count: how many fixes are in it; *out_is_safe: no finding is left. It ends early at
 * a finding for which no fix proves. Errors: ORR_NO_MEMORY. */
enum orr_status orr_fix_all(const struct orr_stream_program *program, uint32_t fixes_max,
                            struct orr_stream_program **out_program, uint32_t *out_count,
                            bool *out_is_safe) ORR_MUST_CHECK;
/* Frees the program; the fix may be one that failed. */
void orr_fix_clear(struct orr_fix *fix);

#endif
