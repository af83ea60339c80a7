#include "cli/program_lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/subject.h"

enum { PIECE_BYTES = 1 << 16 };

struct reading {
    const struct orr_program_lines *lines;
    struct orr_stream_program_reader *reader;
    uint64_t number;
    bool in_line; /* the last line has begun */
};

static enum orr_status end_line(struct reading *reading) {
    const struct orr_program_lines *lines = reading->lines;
    struct orr_stream_program_line line;
    struct orr_error error = {0};
    reading->number++;
    enum orr_status status = orr_stream_program_reader_end(reading->reader, &line, &error);
    if (status == ORR_INVALID || (status == ORR_OK && !line.is_blank))
        status = lines->line(lines->context, reading->number, &line, error.text);
    orr_stream_program_line_clear(&line, lines->memory);
    return status;
}

static enum orr_status take_piece(struct reading *reading, const char *bytes, size_t size) {
    enum orr_status status = ORR_OK;
    while (size > 0 && status == ORR_OK) {
        const char *end = memchr(bytes, '\n', size);
        size_t length = end ? (size_t)(end - bytes) : size;
        status = orr_stream_program_reader_text(reading->reader, bytes, length);
        if (status == ORR_OK && end)
            status = end_line(reading);
        reading->in_line = !end;
        bytes += length + (end ? 1 : 0);
        size -= length + (end ? 1 : 0);
    }
    return status;
}

static enum orr_status read_file(struct reading *reading, FILE *file, struct orr_error *error) {
    char *piece = orr_memory_alloc(reading->lines->memory, PIECE_BYTES);
    enum orr_status status = piece ? ORR_OK : ORR_NO_MEMORY;
    for (bool is_first = true; status == ORR_OK; is_first = false) {
        size_t size = fread(piece, 1, PIECE_BYTES, file);
        if (size == 0)
            break;
        const char *other = is_first ? orr_cli_other_file(piece, size) : NULL;
        if (other)
            status =
                orr_error_set(error, ORR_INVALID, "%s: %s; a file of stream programs was expected",
                              reading->lines->path, other);
        else
            status = take_piece(reading, piece, size);
    }
    if (status == ORR_OK && ferror(file))
        status = orr_error_set(error, ORR_INVALID, "%s: %s; it can't be read", reading->lines->path,
                               strerror(errno));
    if (status == ORR_OK && reading->in_line)
        status = end_line(reading);
    orr_memory_free(reading->lines->memory, piece);
    return status;
}

enum orr_status orr_program_lines_read(const struct orr_program_lines *lines,
                                       struct orr_error *error) {
    struct reading reading = {.lines = lines};
    bool is_stdin = strcmp(lines->path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(lines->path, "rb");
    if (!file)
        return orr_error_set(error, ORR_INVALID, "%s: %s; a file of stream programs was expected",
                             lines->path, strerror(errno));
    enum orr_status status = orr_stream_program_reader_create(lines->memory, &reading.reader);
    if (status == ORR_OK)
        status = read_file(&reading, file, error);
    if (!is_stdin)
        fclose(file);
    orr_stream_program_reader_destroy(&reading.reader);
    if (status != ORR_OK) /* an earlier text is kept */
        orr_error_set(error, status, "%s: %s at line %llu", lines->path, orr_status_text(status),
                      (unsigned long long)reading.number + 1);
    return status;
}
