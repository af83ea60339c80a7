/* What the benchmarks share: clocks, medians, lines of results, peers.
 *
 * A result is a line `name,value,unit`; scripts/bench joins those of all programs into a table with
 * the project's aims. Ours and what it is compared with take turns within one run, and medians are
 * compared, because machines are noisy. What one thread does is measured by its CPU time.
 *
 *     double values[BENCH_ROUNDS_MAX];
 *     for (int i = 0; i < bench_rounds(); i++) {
 *         double begin_s = bench_cpu_s();
 *         work();
 *         values[i] = bench_cpu_s() - begin_s;
 *     }
 *     bench_value("work", bench_median(values, bench_rounds()) * 1e9, "ns");
 *
 * Threads: none of these functions keeps anything. */
#ifndef ORR_BENCH_BENCH_H
#define ORR_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/status.h"

enum { BENCH_ROUNDS_MAX = 16, BENCH_PEER_VALUES = 8 };

double bench_wall_s(void);
double bench_thread_cpu_s(void);
double bench_process_cpu_s(void);

/* BENCH_QUICK=1 in the environment asks for fewer and shorter rounds. */
bool bench_quick(void);
int bench_rounds(void); /* 5, or 3 when quick */

/* From here on memory that is freed stays with the process, so that page faults, whose cost is the
 * system's and not ours, count once at most: in a first round, which should not count. */
void bench_keep_memory(void);

/* Sorts the values. */
double bench_median(double *values, int count);

void bench_value(const char *name, double value, const char *unit);
/* Same, with a name made of several parts. */
void bench_valuef(double value, const char *unit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the program with a message unless the condition holds, or the status is ORR_OK. */
void bench_must(bool condition, const char *what);
void bench_check(enum orr_status status, const char *what);

/* Whether the peer program `name` was built, which is so if its library is installed; prints a line
 * `skipped: ...` if not. */
bool bench_peer_exists(const char *name);

/* Runs a peer program with arguments; it prints at most `count` numbers, one a line. */
void bench_peer_run(const char *name, const char *arguments, double *out_values, int count);

#endif
