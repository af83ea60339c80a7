/* What would keep a program from hanging: the smallest change that is known to help.
 *
 * Candidates are made into programs and searched in turn; the first without hang and mismatch is
 * said, with the word that it was checked. Where none is, the text says what is wrong in general.
 *
 * Threads: as the program's. */
#ifndef ORR_HAZARDS_HANG_FIX_H
#define ORR_HAZARDS_HANG_FIX_H

#include "hazards/hang_text.h"

/* Appends the fix of a result of kind HANG or MISMATCH. */
enum orr_status orr__hang_fix(struct orr__builder *out, const struct orr_stream_program *program,
                              const struct orr_hang_result *result) ORR_MUST_CHECK;

#endif
