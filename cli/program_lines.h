/* The lines of a PROGRAM.jsonl file, one after another.
 *
 * Threads: one. */
#ifndef ORR_CLI_PROGRAM_LINES_H
#define ORR_CLI_PROGRAM_LINES_H

#include <stdint.h>

#include "hazards/stream_program_read.h"

struct orr_program_lines {
    const struct orr_memory *memory;
    const char *path; /* "-": standard input */
    /* Called for every line but blank ones; line->program is NULL for a malformed one, of which
     * `what` says what is wrong. The line may be taken over (pointers set to NULL). A status other
     * than ORR_OK ends the reading. */
    enum orr_status (*line)(void *context, uint64_t number, struct orr_stream_program_line *line,
                            const char *what);
    void *context;
};

/* Reads the file. ORR_INVALID: it can't be read, or is a trace or a schedule. Else what `line`
 * returned, or ORR_NO_MEMORY. */
enum orr_status orr_program_lines_read(const struct orr_program_lines *lines,
                                       struct orr_error *error) ORR_MUST_CHECK;

#endif
