/* Stream programs for tests, written in the short form of docs/stream_programs.md.
 *
 *     struct orr_stream_program *p = stream_program_of(&memory,
 *         "stream s0 bl; stream L legacy; buffer H pageable; k s0 w:A; rec e s0; wait s1 e;"
 *         "h1: k s1 r:A[0:8]");
 *
 * Statements end with ";" or a newline. Besides operations: `stream NAME KIND [DEVICE]`,
 * `buffer NAME KIND`, `comm NAME RANK...`, `option staged|serial|hang`, `option slots|depth N`. A
 * stream that is not declared is non-blocking, on device 0. memcpy_sync and memset_sync take
 * `dev=N`; collectives `n=COUNT` and `rank=RANK`. Anything else fails the test that runs.
 *
 * Threads: any. */
#ifndef ORR_TESTS_PROGRAM_TEXT_H
#define ORR_TESTS_PROGRAM_TEXT_H

#include "hazards/stream_program.h"

/* Owned by the caller. */
struct orr_stream_program *stream_program_of(const struct orr_memory *memory, const char *text);

#endif
