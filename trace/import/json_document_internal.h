/* Internal to the reader of documents: what json_document.c, which goes from piece to piece, and
 * json_resync.c, which finds the place to go on behind what cannot be read, have in common.
 *
 * Threads: one at a time. */
#ifndef ORR_TRACE_IMPORT_JSON_DOCUMENT_INTERNAL_H
#define ORR_TRACE_IMPORT_JSON_DOCUMENT_INTERNAL_H

#include "trace/import/json_document.h"

enum { ORR__JSON_KEY_BYTES = 64 }; /* of a key of the top level; a longer one is none of ours */

enum orr__json_place {
    ORR__JSON_AT_START,
    ORR__JSON_IN_OBJECT,
    ORR__JSON_IN_EVENTS,
    ORR__JSON_AT_END
};

struct orr__json_document {
    struct orr__json_input *input;
    const struct orr_memory *memory;
    char *window;
    size_t capacity, capacity_max;
    char *at, *end; /* what is left to read of the window; *end is NUL */
    uint64_t base;  /* byte of the text that window[0] is */
    uint64_t floor; /* byte of the text before which nothing is looked at */
    enum orr__json_place place;
    bool dry;    /* the input has ended */
    bool first;  /* event of an array, or what follows one that could not be read */
    bool comma;  /* was read since the last event */
    bool unread; /* the value of the piece last handed out */
    enum orr_status status;
    char key[ORR__JSON_KEY_BYTES];
    struct orr__json_piece piece; /* the last one */
    struct orr__json_report report;
};

/* The byte of the text that this is. */
static inline uint64_t orr__json_offset(const struct orr__json_document *d, const char *at) {
    return d->base + (uint64_t)(at - d->window);
}

/* Reads on; what lies before d->at is given up. False if nothing came: the input is dry, or the
 * window full, or reading failed. */
bool orr__json_fill(struct orr__json_document *d);

/* Passes what follows d->at + 1 until an event or the array's end begins; at the end of the text if
 * neither does. */
void orr__json_find_event(struct orr__json_document *d);

/* Passes everything up to the array of events; true if there is one. */
bool orr__json_find_events(struct orr__json_document *d);

/* Passes a value of any size. */
void orr__json_stream_over(struct orr__json_document *d);

#endif
