/* Schedules as files: a finding with the steps that lead to it, and the program they are steps of,
 * so that it can be replayed anywhere and told apart from what the program has become since.
 *
 *     {
 *       "orrery_schedule": 1,
 *       "id": "two-writers", "source": "programs.jsonl", "fingerprint": "83b1...",
 *       "strategy": "dpor", "seed": 1, "depth": 3,
 *       "finding": {"kind": "race", "ops": [0, 4], "message": "..."},
 *       "expected": "52a0...", "outcome": "9d11...", "poisoned": 0,
 *       "kept": [0, 4],
 *       "steps": [
 *         {"op": 4, "stream": "s1", "what": "run", "does": "k s1 w:A"},
 *         {"op": 0, "stream": "s0", "what": "run", "does": "k s0 w:A"}
 *       ],
 *       "program": {...}
 *     }
 *
 * A step is of a `stream` or a `host`; `what` is run, call, start, finish or body. "does" is for
 * people. The document is a stream program with more fields: what reads those reads this.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_EXPLORE_SCHEDULE_FILE_H
#define ORR_HAZARDS_EXPLORE_SCHEDULE_FILE_H

#include "hazards/explore/explore.h"

enum { ORR_SCHEDULE_VERSION = 1 };

struct orr_schedule_file {
    char *id, *source; /* owned when read; borrowed when written; source NULL: unknown */
    uint64_t fingerprint;
    enum orr_explore_strategy strategy;
    uint64_t seed;
    uint32_t depth;
    enum orr_check_verdict_kind kind;
    uint32_t op_a, op_b;
    char *message;
    struct orr_schedule schedule;
    struct orr_stream_program *program;
};

/* Text of a strategy, "dpor". */
const char *orr_explore_strategy_text(enum orr_explore_strategy strategy);
/* Text of a step's kind, "start". */
const char *orr_schedule_what_text(enum orr_schedule_what what);

/* The document, owned by the caller (orr_memory_free of the program's memory). */
enum orr_status orr_schedule_write(const struct orr_schedule_file *file,
                                   char **out_text) ORR_MUST_CHECK;

/* Reads a document; everything in *out_file is owned and to be cleared in any case. ORR_INVALID:
 * one line says what is wrong and what was expected. */
enum orr_status orr_schedule_read(const struct orr_memory *memory, const char *text, size_t length,
                                  struct orr_schedule_file *out_file,
                                  struct orr_error *error) ORR_MUST_CHECK;
/* Frees what was read. */
void orr_schedule_file_clear(struct orr_schedule_file *file, const struct orr_memory *memory);

#endif
