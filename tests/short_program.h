/* Stream programs for tests, from the short form of operations (docs/stream_programs.md):
 *
 *     struct orr_stream_program *program = short_program(
 *         &memory, ORR_ORACLE_HB, "s0 s1 L=legacy:0 b=bl:1 A=pinned",
 *         "k s0 w:A; rec e s0; wait s1 e; k s1 r:A[0:4]");
 *
 * Streams are declared first: "name" (non-blocking, device 0) or "name=kind:device"; so are buffers
 * that are not device memory ("name=pinned") and communicators ("c=comm:r0,r1"). A prefix "x: "
 * names the host. What is malformed fails the test. */
#ifndef ORR_TESTS_SHORT_PROGRAM_H
#define ORR_TESTS_SHORT_PROGRAM_H

#include "hazards/stream_program.h"

/* Owned by the caller. */
struct orr_stream_program *short_program(const struct orr_memory *memory, enum orr_oracle oracle,
                                         const char *declarations, const char *ops);

#endif
