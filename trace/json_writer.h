/* Fast formatting of JSON into an output: literals, texts, integers, times, doubles.
 *
 * It formats values and knows nothing of commas, braces or keys: whoever calls it does. Numbers
 * come out in the forms that readers of traces take without loss: Perfetto's importer reads more
 * than 18 digits after the point as another number, without an error, and integers beyond int64
 * too (google/perfetto @ec5d16b14b74).
 *
 *     struct orr_json_writer writer;
 *     orr_json_start(&writer, output, buffer, sizeof buffer);
 *     ORR_JSON_LITERAL(&writer, "{\"ts\":");
 *     orr_json_time(&writer, 26007);                   // 26.007
 *     ORR_JSON_LITERAL(&writer, ",\"name\":\"");
 *     orr_json_text(&writer, name);
 *     ORR_JSON_LITERAL(&writer, "\"}");
 *     orr_json_flush(&writer);
 *
 * Failures of the output are kept there. Independent of the locale. Threads: one a writer. */
#ifndef ORR_TRACE_JSON_WRITER_H
#define ORR_TRACE_JSON_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trace/output.h"

/* Room that orr_json_reserve and orr_json_put_text leave, and the least size of a buffer. */
enum { ORR_JSON_ROOM = 1024, ORR_JSON_BUFFER_MIN = 2 * ORR_JSON_ROOM };

struct orr_json_writer {
    char *cursor, *limit; /* room */
    char *buffer;
    uint64_t flushed; /* bytes handed to the output */
    struct orr_output *output;
};

/* Starts writing to `output` through `buffer` (at least ORR_JSON_BUFFER_MIN bytes); both are
 * borrowed until the last flush. */
void orr_json_start(struct orr_json_writer *writer, struct orr_output *output, char *buffer,
                    size_t size);

/* Hands what is buffered to the output. */
void orr_json_flush(struct orr_json_writer *writer);

/* Bytes written so far, buffered ones too. */
static inline uint64_t orr_json_size(const struct orr_json_writer *writer) {
    return writer->flushed + (uint64_t)(writer->cursor - writer->buffer);
}

/* ---------------------------------------------------------------------------------------------- */
/* Any amount, checked */

/* Bytes as they are. */
void orr_json_bytes(struct orr_json_writer *writer, const char *bytes, size_t size);

#define ORR_JSON_LITERAL(writer, text) orr_json_bytes(writer, "" text, sizeof(text) - 1)

/* The inside of a string: UTF-8 as it is; `"`, `\` and bytes below 0x20 escaped; bytes that are no
 * UTF-8 (surrogates too) as U+FFFD, one for each maximal part of a sequence, as decoders do. */
void orr_json_text(struct orr_json_writer *writer, const char *text);

/* Compares two texts as orr_json_text writes them: 0 exactly if they come out equal. */
int orr_json_text_compare(const char *a, const char *b);

/* An integer; one beyond int64 as a string of decimal digits. */
void orr_json_u64(struct orr_json_writer *writer, uint64_t value);
void orr_json_i64(struct orr_json_writer *writer, int64_t value);

/* A finite double: as an integer if it is one below 2^53, else with 16 digits after the point and
 * an exponent. */
void orr_json_double(struct orr_json_writer *writer, double value);

/* ---------------------------------------------------------------------------------------------- */
/* Into room that was reserved: for the lines that a file has millions of
 *
 *     char *at = orr_json_reserve(&writer);
 *     at = ORR_JSON_PUT(at, "{\"ts\":");
 *     at = orr_json_put_time(at, 26007);
 *     writer.cursor = at; */

/* `at`, a cursor of this writer, with ORR_JSON_ROOM bytes of room behind it. */
static inline char *orr_json_more(struct orr_json_writer *writer, char *at) {
    if (writer->limit - at < ORR_JSON_ROOM) {
        writer->cursor = at;
        orr_json_flush(writer);
        at = writer->cursor;
    }
    return at;
}

/* The writer's cursor, with room; what is put there is written once writer->cursor is behind it. */
static inline char *orr_json_reserve(struct orr_json_writer *writer) {
    return orr_json_more(writer, writer->cursor);
}

/* Bytes as they are; with a literal the copy is an instruction or two. */
static inline char *orr_json_put(char *at, const char *bytes, size_t size) {
    memcpy(at, bytes, size);
    return at + size;
}

#define ORR_JSON_PUT(at, text) orr_json_put(at, "" text, sizeof(text) - 1)

/* The digits of an integer: at most 20 bytes (it may write a few more behind them). */
char *orr_json_put_u64(char *at, uint64_t value);

/* Nanoseconds >= 0 as microseconds with three decimals: at most 21 bytes, likewise. */
char *orr_json_put_time(char *at, int64_t time_ns);

/* The inside of a string, as orr_json_text, of any length: needs its own room only, and leaves
 * ORR_JSON_ROOM bytes behind what it returns. */
char *orr_json_put_text(struct orr_json_writer *writer, char *at, const char *text);

#endif
