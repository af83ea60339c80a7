/* Oracle hang, naively: every reachable state of a small stream program, by the words of
 * docs/stream_programs.md, with nothing left out. Shares no code with hazards/hang_*.
 *
 * Programs are small: NAIVE_MAX_* below. */
#ifndef ORR_TESTS_HANG_NAIVE_H
#define ORR_TESTS_HANG_NAIVE_H

#include "hazards/hangs.h"

enum {
    NAIVE_HOSTS_MAX = 4,
    NAIVE_STREAMS_MAX = 5,
    NAIVE_EVENTS_MAX = 3,
    NAIVE_LOCKS_MAX = 3,
    NAIVE_FLAGS_MAX = 3,
    NAIVE_OPS_MAX = 16
};

/* NO_HANG, HANG, MISMATCH; UNKNOWN beyond so many states. */
enum orr_check_verdict_kind naive_hangs(const struct orr_stream_program *program,
                                        uint32_t states_max);

/* Plays a schedule; NULL if each step is possible when its turn comes and the result's kind is what
 * there is at the end, else what is wrong. */
const char *naive_replay(const struct orr_stream_program *program,
                         const struct orr_hang_result *result);

#endif
