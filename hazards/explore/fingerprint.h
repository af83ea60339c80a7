/* Whether a program is still the one that a schedule was found in.
 *
 * The fingerprint covers what can matter to a schedule: the operations in list order with their
 * hosts, streams, objects and accesses, by name; kinds of streams and of memory; the oracle and the
 * switches of the model; for hangs also ranks, kinds and counts of collectives, and who is in a
 * communicator. It does not cover how the program is written down: its id, sites and labels of
 * operations, the order of declarations, unknown fields.
 *
 * Threads: pure functions. */
#ifndef ORR_HAZARDS_EXPLORE_FINGERPRINT_H
#define ORR_HAZARDS_EXPLORE_FINGERPRINT_H

#include "hazards/explore/explore.h"

/* The same on every machine. */
uint64_t orr_stream_program_fingerprint(const struct orr_stream_program *program);

/* ORR_OK if the fingerprints are equal. Else ORR_INVALID: "schedule no longer fits: step 7 wants op
 * 3 'k s0 w:A' on stream s0, the program has 'k s0 w:B'", or what else has changed since the
 * schedule was found in the program `found`. */
enum orr_status orr_schedule_fits(const struct orr_stream_program *found,
                                  const struct orr_schedule *schedule,
                                  const struct orr_stream_program *now,
                                  struct orr_error *error) ORR_MUST_CHECK;

#endif
