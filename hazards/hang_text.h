/* Results of oracle hang in words.
 *
 * Threads: pure functions. */
#ifndef ORR_HAZARDS_HANG_TEXT_H
#define ORR_HAZARDS_HANG_TEXT_H

#include "hazards/hangs.h"
#include "hazards/text_builder.h"

/* Fills the texts of what is blocked. */
enum orr_status orr__hang_say(const struct orr_stream_program *program,
                              struct orr_hang_result *result) ORR_MUST_CHECK;

/* Appends the message of a result that says no or nothing. */
void orr__hang_message(struct orr__builder *out, const struct orr_stream_program *program,
                       const struct orr_hang_result *result);

/* Appends what is blocked, or which calls mismatch, as members of a JSON object, each behind ", ":
 *
 *     "states": 12,
 *     "blocked": [{"host": "r0", "op": 1, "reason": "stream", "object": "m0", "other_op": 0,
 *                  "waits_for": {"stream": "m0"}}, ...]
 *     "mismatch": {"communicator": "c", "number": 1, "ranks": ["r0", "r1"], "ops": [0, 2]}
 *
 * `number` counts from 1. Reasons: stream, room, lock, flag, slot, partner (whose object is the
 * communicator, and which has `rank` and `number`). */
void orr__hang_json(struct orr__builder *out, const struct orr_stream_program *program,
                    const struct orr_hang_result *result);

/* Appends an operation in short form and where it stands: "op 3 'coll c allreduce s0'". */
void orr__hang_say_op(struct orr__builder *out, const struct orr_stream_program *program,
                      uint32_t op);
/* Appends a rank, without the quotes that a JSON string has. */
void orr__hang_say_rank(struct orr__builder *out, const struct orr_stream_program *program,
                        uint32_t rank);

#endif
