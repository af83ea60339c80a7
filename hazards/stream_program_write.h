/* From a stream program to a line of a PROGRAM.jsonl file: recorded runs, minimized findings.
 *
 *     char *text;
 *     if (orr_stream_program_write(program, "found", &text) == ORR_OK)
 *         fputs(text, file);
 *     orr_memory_free(program->memory, text);
 *
 * The line is canonical: fields in one order, defaults left out, the short form of every operation
 * beside it (`ops_text`, which no reader reads), and who wrote it (`writer`, for whoever asks if
 * the file may be replaced). Reading it back gives the same program, with names numbered in the
 * order of the line.
 *
 * Threads: any. */
#ifndef ORR_HAZARDS_STREAM_PROGRAM_WRITE_H
#define ORR_HAZARDS_STREAM_PROGRAM_WRITE_H

#include "hazards/stream_program.h"

/* What stands near the beginning of a file of such lines. */
#define ORR_STREAM_PROGRAM_MARK "\"writer\": \"orrery\""

/* The line with its end, owned by the caller. `id` NULL: the program alone, an object without id.
 * ORR_INVALID: the name of a buffer that is accessed has other characters than letters, digits and
 * underscores, so that it could not be read back. ORR_NO_MEMORY. */
enum orr_status orr_stream_program_write(const struct orr_stream_program *program, const char *id,
                                         char **out_text) ORR_MUST_CHECK;

#endif
