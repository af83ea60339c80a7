/* Internal to trace/: a Chrome JSON trace of any size, piece by piece.
 *
 * The document is an object, whose member "traceEvents" is an array, or that array alone. Pieces
 * are the other members of the object, and the events, in the order of the text. Memory is a window
 * of 1 MiB, which grows for a piece that is longer, up to 16 MiB; an event that is longer still is
 * skipped, and counted.
 *
 *     struct orr__json_document *document;
 *     status = orr__json_document_open(input, memory, &document);
 *     struct orr__json_piece piece;
 *     while (orr__json_document_next(document, &piece)) {
 *         if (piece.kind == ORR__JSON_EVENT) {
 *             do {
 *                 event = (struct event){0};
 *                 read_event(&piece.cursor, &event);          // calls of orr__json_value ...
 *             } while (orr__json_document_again(document, &piece));
 *             if (piece.good) take(&event);                    // slices are good until the next
 *         } else if (orr__json_is(piece.key, "deviceProperties")) {
 *             the same
 *         }                                                    // not read: it is passed, any size
 *     }
 *     status = orr__json_document_status(document, error);      // I/O, memory
 *     use(orr__json_document_report(document));
 *     orr__json_document_close(&document);
 *
 * The reading in the middle may be asked for again: because the window ended in the piece, or
 * because the strict reading failed and a tolerant one is tried. Then nothing of the former reading
 * counts, so it must leave nothing behind.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_JSON_DOCUMENT_H
#define ORR_TRACE_IMPORT_JSON_DOCUMENT_H

#include "trace/import/json_input.h"
#include "trace/import/json_lexer.h"

enum orr__json_piece_kind { ORR__JSON_MEMBER, ORR__JSON_EVENT };

struct orr__json_piece {
    enum orr__json_piece_kind kind;
    struct orr__json_text key;      /* of a member; good until its value is read */
    struct orr__json_cursor cursor; /* before the value */
    uint64_t offset;                /* of the value's first byte in the text */
    bool good;                      /* read as a whole; set by orr__json_document_again */
};

/* How often, and where first (byte of the text). */
struct orr__json_tally {
    uint64_t count, first;
};

struct orr__json_document;

struct orr__json_report {
    struct orr__json_tally repairs[ORR__JSON_REPAIR_COUNT];
    struct orr__json_tally skipped; /* events, or what stood between them, that could not be read */
    struct orr__json_tally members; /* members of the top level that could not be read */
    uint64_t bytes;                 /* of text read so far */
    uint64_t events;                /* read, good ones */
    bool has_events;                /* there was a traceEvents, or the text is an array */
    bool is_array;                  /* the text is an array */
    bool cut;                       /* ended before its end */
    bool cut_in_event;              /* in the middle of an event, which is lost */
    uint64_t cut_at;                /* byte of the text; of the file, if `input_cut` */
    bool input_cut;    /* it was the input below that was cut or damaged, not the text */
    uint64_t trailing; /* bytes behind the end that are not blank; where: trailing_at */
    uint64_t trailing_at;
};

/* Starts a document; `input` is borrowed until close. ORR_NO_MEMORY. */
enum orr_status orr__json_document_open(struct orr__json_input *input,
                                        const struct orr_memory *memory,
                                        struct orr__json_document **out_document) ORR_MUST_CHECK;

/* The same with another window, of at least ORR__JSON_WINDOW_MIN bytes at first and window_max at
 * most. What is read does not depend on it, but for pieces that do not fit. */
enum { ORR__JSON_WINDOW_MIN = 2048 };
enum orr_status
orr__json_document_open_window(struct orr__json_input *input, const struct orr_memory *memory,
                               size_t window, size_t window_max,
                               struct orr__json_document **out_document) ORR_MUST_CHECK;

/* The first bytes of the text, at most `size`, which stay to be read. Before the first piece. */
size_t orr__json_document_peek(struct orr__json_document *document, const char **out_text);

/* The next piece; false at the end, or when reading fails. */
bool orr__json_document_next(struct orr__json_document *document, struct orr__json_piece *piece);

/* After a reading: true if it has to be done again, else piece->good says if it counts. */
bool orr__json_document_again(struct orr__json_document *document, struct orr__json_piece *piece);

/* What there is to tell; complete after the last piece. */
const struct orr__json_report *orr__json_document_report(const struct orr__json_document *document);

/* What it reads from. */
const struct orr__json_input *orr__json_document_input(const struct orr__json_document *document);

/* A repair that the caller did itself (a string that was not UTF-8), in this piece. */
void orr__json_document_repaired(struct orr__json_document *document,
                                 const struct orr__json_piece *piece, enum orr__json_repair what);

/* ORR_OK, ORR_IO, ORR_NO_MEMORY of the reading so far. */
enum orr_status orr__json_document_status(const struct orr__json_document *document,
                                          struct orr_error *error) ORR_MUST_CHECK;

/* Closes and nulls; accepts NULL. The input stays. */
void orr__json_document_close(struct orr__json_document **document);

#endif
