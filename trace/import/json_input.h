/* Internal to trace/: the bytes of a text, from a file, out of gzip, out of a tar archive.
 *
 * Inputs stand on each other; each gives bytes to whoever asks, and says when they end too early.
 *
 *     file --> [gunzip] --> [member of a tar --> [gunzip]] --> document
 *
 *     struct orr__json_input *input;
 *     status = orr__json_input_open(path, memory, &input, error);
 *     while ((size = orr__json_input_read(input, buffer, sizeof buffer)) > 0) use(buffer, size);
 *     if (input->cut) ...                       // how, and at which byte of the file: input->why
 *     orr__json_input_close(&input);
 *
 * A cut or damaged gzip gives all bytes before the place, and then ends: that is no failure here.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_JSON_INPUT_H
#define ORR_TRACE_IMPORT_JSON_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"

enum { ORR__INPUT_PEEK_MAX = 512 };

struct orr__json_input {
    /* Up to `capacity` bytes; 0 at the end, for whatever reason. Of the kind of input. */
    size_t (*read)(struct orr__json_input *input, void *buffer, size_t capacity);
    void (*close)(struct orr__json_input *input); /* frees it and what it stands on */
    const struct orr_memory *memory;
    uint64_t bytes;     /* delivered */
    uint64_t peeked_at; /* of those in `head`, the next to deliver */
    size_t head_size;   /* bytes looked at before they were delivered */
    char head[ORR__INPUT_PEEK_MAX];
    enum orr_status status; /* ORR_IO, ORR_NO_MEMORY: reading failed, and `why` says how */
    bool cut;               /* ended too early, or was damaged: what came before is good */
    uint64_t cut_at;        /* byte of the file */
    char why[96];           /* "the gzip stream ends too early" */
};

/* Opens a file; reads gzip (of any number of members) as what is in it. ORR_INVALID for no such
 * file, a folder; ORR_IO; ORR_NO_MEMORY. */
enum orr_status orr__json_input_open(const char *path, const struct orr_memory *memory,
                                     struct orr__json_input **out_input,
                                     struct orr_error *error) ORR_MUST_CHECK;

/* Bytes in memory, borrowed until close; gzip is read as what is in it. ORR_NO_MEMORY. */
enum orr_status orr__json_input_bytes(const void *bytes, size_t size,
                                      const struct orr_memory *memory,
                                      struct orr__json_input **out_input) ORR_MUST_CHECK;

/* The next bytes, at most `capacity`; 0 at the end. */
size_t orr__json_input_read(struct orr__json_input *input, void *buffer, size_t capacity);

/* The first bytes, which stay to be read: at most ORR__INPUT_PEEK_MAX, fewer only where there are
 * no more. Before the first read. */
size_t orr__json_input_peek(struct orr__json_input *input, const char **out_head);

/* Closes and nulls; accepts NULL. */
void orr__json_input_close(struct orr__json_input **input);

/* Are these the bytes of a file as they stand there? */
bool orr__json_input_is_plain(const struct orr__json_input *input);

/* On top of `below`, which is then owned by it (on failure too): what gzip holds. ORR_NO_MEMORY. */
enum orr_status orr__gunzip_open(struct orr__json_input *below, const struct orr_memory *memory,
                                 struct orr__json_input **out_input) ORR_MUST_CHECK;

/* Does it begin like gzip? */
bool orr__is_gzip(const char *head, size_t size);

#endif
