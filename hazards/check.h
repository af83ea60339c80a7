/* The check of a stream program: one verdict, by the oracle that the program asks.
 *
 *     struct orr_check_verdict verdict;
 *     if (orr_stream_program_check(program, &limits, &verdict) != ORR_OK) ...   (no memory)
 *     printf("%s %s\n", orr_check_verdict_text(verdict.kind), verdict.message);
 *     orr_check_verdict_clear(&verdict);
 *
 * The verdict follows from the program alone: not from timing, durations or seeds. The rules are
 * those of docs/stream_programs.md.
 *
 * Threads: any, each with its own verdict. */
#ifndef ORR_HAZARDS_CHECK_H
#define ORR_HAZARDS_CHECK_H

#include "hazards/stream_program.h"

/* X(NAME, "text", unsafe) */
#define ORR_CHECK_VERDICT_LIST(X)                                                                  \
    X(NO_RACE, "no-race", false)                                                                   \
    X(RACE, "race", true)                                                                          \
    X(USE_AFTER_FREE, "use-after-free", true)                                                      \
    X(USE_BEFORE_ALLOC, "use-before-alloc", true)                                                  \
    X(NO_HANG, "no-hang", false)                                                                   \
    X(MISMATCH, "mismatch", true)                                                                  \
    X(HANG, "hang", true)                                                                          \
    X(NO_ERROR, "no-error", false)                                                                 \
    X(ERROR, "error", true)                                                                        \
    X(INVALID, "invalid", false)                                                                   \
    X(UNKNOWN, "unknown", false)

enum orr_check_verdict_kind {
#define ORR_CHECK_VERDICT_ENUM(name, text, unsafe) ORR_CHECK_##name,
    ORR_CHECK_VERDICT_LIST(ORR_CHECK_VERDICT_ENUM)
#undef ORR_CHECK_VERDICT_ENUM
        ORR_CHECK_VERDICT_COUNT
};

struct orr_check_verdict {
    enum orr_check_verdict_kind kind;
    /* The finding's pair of operations, a < b. ORR_NONE where there is none (capture errors have
     * only b). */
    uint32_t op_a, op_b;
    char *message, *fix; /* one line or more; owned; NULL where there is nothing to say */
    char *data; /* further members of the verdict's JSON object, each behind ", "; owned; or NULL */
    const struct orr_memory *memory;
};

struct orr_check_limits {
    uint64_t states_max; /* of oracle hang: beyond, the verdict is `unknown`; 0: the default */
};
enum { ORR_CHECK_STATES_DEFAULT = 4000000 };

/* A verdict as files and people spell it: "use-after-free"; static storage. */
const char *orr_check_verdict_text(enum orr_check_verdict_kind kind);
/* Is it one of those that say no? `invalid` and `unknown` are neither yes nor no. */
bool orr_check_verdict_is_unsafe(enum orr_check_verdict_kind kind);

/* Judges a program. `limits` NULL: defaults. The verdict is to be cleared in any case. */
enum orr_status orr_stream_program_check(const struct orr_stream_program *program,
                                         const struct orr_check_limits *limits,
                                         struct orr_check_verdict *out_verdict) ORR_MUST_CHECK;

/* Frees the texts. */
void orr_check_verdict_clear(struct orr_check_verdict *verdict);

/* Sets a verdict's kind, pair and texts (printf's; the texts are cut at 64 KiB). */
enum orr_status orr_check_verdict_message(struct orr_check_verdict *verdict, const char *format,
                                          ...) __attribute__((format(printf, 2, 3))) ORR_MUST_CHECK;
enum orr_status orr_check_verdict_fix(struct orr_check_verdict *verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3))) ORR_MUST_CHECK;

/* --- the oracles, for the dispatcher above and for tests --- */

/* hazards/program_order.c: happens-before. */
enum orr_status orr_check_order(const struct orr_stream_program *program,
                                struct orr_check_verdict *out_verdict) ORR_MUST_CHECK;
/* hazards/hangs.c: all interleavings. */
enum orr_status orr_check_hangs(const struct orr_stream_program *program, uint64_t states_max,
                                struct orr_check_verdict *out_verdict) ORR_MUST_CHECK;
/* hazards/capture_rules.c: stream capture. */
enum orr_status orr_check_capture(const struct orr_stream_program *program,
                                  struct orr_check_verdict *out_verdict) ORR_MUST_CHECK;

#endif
