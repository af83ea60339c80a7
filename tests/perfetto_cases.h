/* Timelines that the Perfetto writer is tested on, with the phases that go with them.
 *
 *     struct perfetto_case c;
 *     perfetto_case_random(&c, seed);
 *     orr_perfetto_write(fixture_timeline(&c.fixture), c.phases, c.phase_count, ...);
 *     perfetto_case_save(&c, "case.db", "case.analysis.json");    // for tests/check_perfetto.py
 *     perfetto_case_free(&c);
 *
 * Threads: one. */
#ifndef ORR_TESTS_PERFETTO_CASES_H
#define ORR_TESTS_PERFETTO_CASES_H

#include "tests/timeline_fixture.h"
#include "trace/perfetto.h"

enum { PERFETTO_CASE_PHASES = 64 };

struct perfetto_case {
    struct fixture fixture;
    struct orr_perfetto_phase phases[PERFETTO_CASE_PHASES];
    size_t phase_count;
};

/* The example of docs/perfetto.md. */
void perfetto_case_example(struct perfetto_case *c);

/* Everything at least once: merged marks, a graph over its kernels, an overlap, a collective, waits
 * that block and do not, an unfinished command, one that never started, findings, counters. */
void perfetto_case_rich(struct perfetto_case *c);

/* Anything: ties, overlaps on a stream, skewed clocks, odd texts, rows that refer to nothing. */
void perfetto_case_random(struct perfetto_case *c, uint64_t seed);

/* `commands` kernels, copies, records and waits on four devices as a run leaves them. */
void perfetto_case_large(struct perfetto_case *c, size_t commands);

/* Writes the database and the phases in the form of `orrery analyze --json`. */
void perfetto_case_save(struct perfetto_case *c, const char *db_path, const char *analysis_path);

void perfetto_case_free(struct perfetto_case *c);

#endif
