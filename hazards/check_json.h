/* A verdict as the line of JSON that `orrery check --json` prints.
 *
 *     {"id": "a", "verdict": "race", "first_conflict_ops": [0, 3], "message": "...", "fix": "..."}
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_CHECK_JSON_H
#define ORR_HAZARDS_CHECK_JSON_H

#include "hazards/check.h"

/* The line with its end, as a text owned by the caller. `id` as a reader gives it; NULL: null.
 * ORR_NO_MEMORY. */
enum orr_status orr_check_verdict_json(const struct orr_check_verdict *verdict, const char *id,
                                       const struct orr_memory *memory,
                                       char **out_text) ORR_MUST_CHECK;

#endif
