/* From a line of a PROGRAM.jsonl file to a stream program. docs/stream_programs.md is the format.
 *
 *     struct orr_stream_program_reader *reader;
 *     orr_stream_program_reader_create(&memory, &reader);
 *     while (more bytes of the line) orr_stream_program_reader_text(reader, bytes, size);
 *     status = orr_stream_program_reader_end(reader, &line, &error);
 *     ... line.program, line.id ...
 *     orr_stream_program_line_clear(&line, &memory);
 *
 * A line may come in pieces of any size and is never held as a whole: memory is that of the program
 * plus that of the longest string. Limits: those of hazards/json_events.h.
 *
 * What a malformed line is told, in this order: that it is no JSON, no object, has no id; then what
 * is wrong with a value, in the order of the line; then the checks of the program as a whole
 * (hazards/stream_program_rules.h), in the order of its operations. Of a key that an object has
 * twice the last value counts; a value of the wrong type is wrong even if another follows.
 *
 * Threads: one at a time. */
#ifndef ORR_HAZARDS_STREAM_PROGRAM_READ_H
#define ORR_HAZARDS_STREAM_PROGRAM_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "hazards/stream_program.h"
#include "runtime/error.h"

struct orr_stream_program_reader;

/* One line; both pointers are owned by the caller. */
struct orr_stream_program_line {
    char *id;                           /* NULL: the line is no object, or has no string `id` */
    struct orr_stream_program *program; /* NULL if the line is blank or malformed */
    bool is_blank;
};

/* A reader without text. `memory` is borrowed until the reader and its programs are destroyed. */
enum orr_status
orr_stream_program_reader_create(const struct orr_memory *memory,
                                 struct orr_stream_program_reader **out_reader) ORR_MUST_CHECK;
/* Nulls; accepts NULL. */
void orr_stream_program_reader_destroy(struct orr_stream_program_reader **reader);

/* More of the current line, without its end. Only ORR_NO_MEMORY ends it early; what is wrong with
 * the text is told by orr_stream_program_reader_end. */
enum orr_status orr_stream_program_reader_text(struct orr_stream_program_reader *reader,
                                               const char *bytes, size_t size) ORR_MUST_CHECK;

/* The line is complete; the reader is ready for the next. ORR_INVALID: it is malformed, the error
 * names the field and what was expected there, and out_line holds the id if there is one.
 * ORR_NO_MEMORY. */
enum orr_status orr_stream_program_reader_end(struct orr_stream_program_reader *reader,
                                              struct orr_stream_program_line *out_line,
                                              struct orr_error *error) ORR_MUST_CHECK;

/* Frees what a line holds. */
void orr_stream_program_line_clear(struct orr_stream_program_line *line,
                                   const struct orr_memory *memory);

/* All of the above for a line in memory, with or without its end. A blank line is malformed. */
enum orr_status orr_stream_program_read(const struct orr_memory *memory, const char *text,
                                        size_t length, struct orr_stream_program_line *out_line,
                                        struct orr_error *error) ORR_MUST_CHECK;

#endif
