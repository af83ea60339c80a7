/* A second happens-before check for the tests, written straight from the rules: dense clocks, a
 * list of every access, all compared with all. Slow, short, and with no line in common
 * with hazards/.
 *
 * Threads: any. */
#ifndef ORR_TESTS_ORDER_NAIVE_H
#define ORR_TESTS_ORDER_NAIVE_H

#include "hazards/check.h"

/* Kind and pair of the verdict (no texts). Fails the test that runs on anything too large. */
struct orr_check_verdict order_naive(const struct orr_stream_program *program);

/* Goes on after findings: found[op] = 1 for each operation that has one. For well-formed programs
 * only. */
void order_naive_all(const struct orr_stream_program *program, uint8_t *found);

#endif
