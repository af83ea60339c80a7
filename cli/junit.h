/* JUnit XML of `orrery test`: one suite, one test case per case.
 *
 *     struct orr_junit junit = {.memory = memory};
 *     orr_junit_case(&junit, "scenarios/streams/overlap.lua", "overlap", ORR_JUNIT_FAILED, "why");
 *     orr_junit_detail(&junit, "overlap.lua:12: expect.equal: got 1, wanted 2");
 *     status = orr_junit_write(&junit, "junit.xml", &error);
 *     orr_junit_clear(&junit);
 *
 * All functions but write accept NULL and then do nothing. Threads: one. */
#ifndef ORR_CLI_JUNIT_H
#define ORR_CLI_JUNIT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/error.h"
#include "runtime/memory.h"

enum orr_junit_outcome { ORR_JUNIT_PASSED, ORR_JUNIT_FAILED, ORR_JUNIT_SKIPPED };

struct orr_junit {
    const struct orr_memory *memory;
    char *body; /* the cases so far, as XML; owned */
    size_t length, capacity;
    size_t case_count, failed_count, skipped_count;
    bool open;   /* the last case still takes details */
    bool failed; /* out of memory on the way */
};

/* Adds a case. `message` stands in the failure or skip. */
void orr_junit_case(struct orr_junit *junit, const char *suite, const char *name,
                    enum orr_junit_outcome outcome, const char *message);

/* Adds a line to the text of the last case's failure. */
void orr_junit_detail(struct orr_junit *junit, const char *text);

/* May a report go to `path`? Not over a file with something else in it: ORR_IO. To be asked before
 * the cases run; writing asks again. */
enum orr_status orr_junit_check(const char *path, struct orr_error *error) ORR_MUST_CHECK;

/* Writes the file; it appears when it is whole. ORR_IO, ORR_NO_MEMORY. */
enum orr_status orr_junit_write(struct orr_junit *junit, const char *path,
                                struct orr_error *error) ORR_MUST_CHECK;

/* Frees what it owns. */
void orr_junit_clear(struct orr_junit *junit);

#endif
