#include "trace/import/json_document.h"

#include "trace/import/json_document_internal.h"

enum { WINDOW_BYTES = 1 << 20, WINDOW_BYTES_MAX = 1 << 24 };

static void count(struct orr__json_tally *tally, uint64_t places, uint64_t offset) {
    if (tally->count == 0 && places > 0)
        tally->first = offset;
    tally->count += places;
}

/* ---------------------------------------------------------------------------------------------- */
/* The window */

enum orr_status orr__json_document_open(struct orr__json_input *input,
                                        const struct orr_memory *memory,
                                        struct orr__json_document **out_document) {
    return orr__json_document_open_window(input, memory, WINDOW_BYTES, WINDOW_BYTES_MAX,
                                          out_document);
}

enum orr_status orr__json_document_open_window(struct orr__json_input *input,
                                               const struct orr_memory *memory, size_t window,
                                               size_t window_max,
                                               struct orr__json_document **out_document) {
    struct orr__json_document *d = *out_document = orr_memory_alloc(memory, sizeof *d);
    if (!d)
        return ORR_NO_MEMORY;
    d->input = input;
    d->memory = memory;
    d->capacity = window;
    d->capacity_max = window_max;
    d->window = orr_memory_resize(memory, NULL, d->capacity + 1);
    if (!d->window) {
        orr__json_document_close(out_document);
        return ORR_NO_MEMORY;
    }
    d->at = d->end = d->window;
    *d->end = '\0';
    return ORR_OK;
}

void orr__json_document_close(struct orr__json_document **document) {
    struct orr__json_document *d = *document;
    *document = NULL;
    if (!d)
        return;
    orr_memory_free(d->memory, d->window);
    orr_memory_free(d->memory, d);
}

/* Doubles the window; false if it is as large as it gets, or without memory. */
static bool grow(struct orr__json_document *d) {
    if (d->capacity >= d->capacity_max)
        return false;
    size_t begin = (size_t)(d->at - d->window), size = (size_t)(d->end - d->window);
    char *window = orr_memory_resize(d->memory, d->window, 2 * d->capacity + 1);
    if (!window) {
        d->status = ORR_NO_MEMORY;
        return false;
    }
    d->capacity *= 2;
    d->window = window;
    d->at = window + begin;
    d->end = window + size;
    return true;
}

bool orr__json_fill(struct orr__json_document *d) {
    if (d->dry || d->status != ORR_OK)
        return false;
    size_t kept = (size_t)(d->end - d->at);
    if (d->at > d->window) {
        d->base += (uint64_t)(d->at - d->window);
        memmove(d->window, d->at, kept);
        d->at = d->window;
        d->end = d->window + kept;
    }
    if (kept == d->capacity && !grow(d)) {
        *d->end = '\0';
        return false;
    }
    size_t room = d->capacity - kept, got = 0, size = 1;
    while (got < room && size > 0) {
        size = orr__json_input_read(d->input, d->end + got, room - got);
        got += size;
    }
    d->end += got;
    *d->end = '\0';
    d->dry = size == 0;
    d->report.bytes = orr__json_offset(d, d->end);
    if (d->input->status != ORR_OK)
        d->status = d->input->status;
    return got > 0;
}

size_t orr__json_document_peek(struct orr__json_document *d, const char **out_text) {
    if (d->at == d->end)
        orr__json_fill(d);
    *out_text = d->at;
    return (size_t)(d->end - d->at);
}

/* To the next byte that is no white space; NUL at the end. */
static char skip_space(struct orr__json_document *d) {
    for (;;) {
        while (*d->at == ' ' || *d->at == '\n' || *d->at == '\r' || *d->at == '\t')
            d->at++;
        if (d->at < d->end || !orr__json_fill(d))
            return *d->at;
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Reading a piece */

static void start_reading(struct orr__json_document *d, struct orr__json_piece *piece,
                          bool tolerant) {
    orr__json_begin(&piece->cursor, d->at, (size_t)(d->end - d->at), tolerant);
    piece->cursor.open = !d->dry;
    piece->cursor.member = piece->kind == ORR__JSON_MEMBER;
}

static void take_repairs(struct orr__json_document *d, const struct orr__json_piece *piece) {
    for (int i = 0; i < ORR__JSON_REPAIR_COUNT; i++)
        count(&d->report.repairs[i], piece->cursor.repairs[i], piece->offset);
}

/* The text ends within the piece. */
static bool cut_in(struct orr__json_document *d, struct orr__json_piece *piece) {
    d->report.cut = true;
    d->report.cut_in_event = piece->kind == ORR__JSON_EVENT;
    d->report.cut_at = orr__json_offset(d, d->end);
    d->at = d->end;
    d->place = ORR__JSON_AT_END;
    return false;
}

static bool give_up(struct orr__json_document *d, struct orr__json_piece *piece, bool too_long) {
    if (d->status != ORR_OK) {
        d->place = ORR__JSON_AT_END;
        return false;
    }
    if (piece->kind == ORR__JSON_EVENT) {
        count(&d->report.skipped, 1, piece->offset);
        orr__json_find_event(d);
        return false;
    }
    count(&d->report.members, 1, piece->offset);
    if (too_long) {
        orr__json_stream_over(d);
    } else if (orr__json_find_events(d)) {
        d->place = ORR__JSON_IN_EVENTS;
        d->first = d->report.has_events = true;
    } else {
        d->place = ORR__JSON_AT_END;
    }
    return false;
}

bool orr__json_document_again(struct orr__json_document *d, struct orr__json_piece *piece) {
    struct orr__json_cursor *cursor = &piece->cursor;
    bool tolerant = cursor->tolerant;
    d->unread = false;
    piece->good = cursor->state == ORR__JSON_OK;
    if (piece->good) {
        d->at += cursor->at - d->at;
        if (tolerant)
            take_repairs(d, piece);
        d->report.events += piece->kind == ORR__JSON_EVENT;
        return false;
    }
    bool more = cursor->state == ORR__JSON_MORE, was_dry = d->dry;
    if (more && (orr__json_fill(d) || d->dry != was_dry)) {
        start_reading(d, piece, tolerant);
        return true;
    }
    bool too_long = more && !d->dry;
    if (!too_long && !tolerant && d->status == ORR_OK) {
        start_reading(d, piece, true);
        return true;
    }
    return more && d->dry ? cut_in(d, piece) : give_up(d, piece, too_long);
}

/* Passes the value of a piece that nobody has read. */
static void pass(struct orr__json_document *d, struct orr__json_piece *piece) {
    do {
        struct orr__json_value value;
        if (orr__json_value(&piece->cursor, &value))
            orr__json_skip(&piece->cursor, &value);
    } while (orr__json_document_again(d, piece));
}

/* ---------------------------------------------------------------------------------------------- */
/* From piece to piece */

static bool end_here(struct orr__json_document *d) {
    d->place = ORR__JSON_AT_END;
    return false;
}

/* The text ends outside of a value, and before its end. An array need not be closed. */
static bool ends_open(struct orr__json_document *d) {
    d->report.cut = d->status == ORR_OK;
    d->report.cut_at = orr__json_offset(d, d->end);
    return end_here(d);
}

static bool hand_out(struct orr__json_document *d, struct orr__json_piece *piece,
                     enum orr__json_piece_kind kind) {
    piece->kind = kind;
    piece->offset = orr__json_offset(d, d->at);
    piece->good = false;
    start_reading(d, piece, false);
    d->unread = true;
    d->piece = *piece;
    return true;
}

static void count_comma(struct orr__json_document *d, bool wrong) {
    count(&d->report.repairs[ORR__JSON_REPAIR_COMMA], wrong, orr__json_offset(d, d->at));
}

static bool next_event(struct orr__json_document *d, struct orr__json_piece *piece) {
    for (;;) {
        char c = skip_space(d);
        if (d->at >= d->end)
            return ends_open(d);
        if (c == ',') {
            count_comma(d, d->first || d->comma);
            d->first = false;
            d->comma = true;
            d->at++;
        } else if (c == ']') {
            count_comma(d, d->comma);
            d->at++;
            d->place = d->report.is_array ? ORR__JSON_AT_END : ORR__JSON_IN_OBJECT;
            return false;
        } else if (c != '\0' && strchr("{[\"-0123456789ntf", c)) {
            count_comma(d, !d->first && !d->comma);
            d->first = d->comma = false;
            return hand_out(d, piece, ORR__JSON_EVENT);
        } else {
            count(&d->report.skipped, 1, orr__json_offset(d, d->at));
            orr__json_find_event(d);
        }
    }
}

/* Reads a key and its colon. */
static bool next_key(struct orr__json_document *d, struct orr__json_piece *piece) {
    struct orr__json_cursor cursor;
    struct orr__json_value key;
    for (;;) {
        orr__json_begin(&cursor, d->at, (size_t)(d->end - d->at), false);
        if (*d->at == '"' && orr__json_value(&cursor, &key) && cursor.at < d->end)
            break;
        if (*d->at != '"' || cursor.state == ORR__JSON_BROKEN)
            return false;
        if (!orr__json_fill(d)) {
            d->at = d->end;
            return false;
        }
    }
    size_t length = key.text.length < sizeof d->key ? key.text.length : 0;
    memcpy(d->key, key.text.at, length);
    piece->key = (struct orr__json_text){.at = d->key, .length = length, .plain = key.text.plain};
    d->at += cursor.at - d->at;
    if (skip_space(d) != ':')
        return false;
    d->at++;
    return true;
}

static bool next_member(struct orr__json_document *d, struct orr__json_piece *piece) {
    char c = skip_space(d);
    if (d->at >= d->end)
        return ends_open(d);
    while (c == ',') {
        d->at++;
        c = skip_space(d);
    }
    if (c == '}') {
        d->at++;
        return end_here(d);
    }
    if (next_key(d, piece)) {
        if (skip_space(d) == '[' && orr__json_is(piece->key, "traceEvents")) {
            d->at++;
            d->place = ORR__JSON_IN_EVENTS;
            d->first = d->report.has_events = true;
            return false;
        }
        return hand_out(d, piece, ORR__JSON_MEMBER);
    }
    if (d->at >= d->end)
        return ends_open(d);
    /* What is no member: the events may still come. */
    count(&d->report.members, 1, orr__json_offset(d, d->at));
    if (d->report.has_events || !orr__json_find_events(d))
        return end_here(d);
    d->place = ORR__JSON_IN_EVENTS;
    d->first = d->report.has_events = true;
    return false;
}

static void start(struct orr__json_document *d) {
    const char *text;
    if (orr__json_document_peek(d, &text) >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        d->at += 3;
    char c = skip_space(d);
    d->place = c == '[' ? ORR__JSON_IN_EVENTS : c == '{' ? ORR__JSON_IN_OBJECT : ORR__JSON_AT_END;
    d->report.is_array = d->report.has_events = c == '[';
    d->at += d->at < d->end;
    d->first = true;
}

/* Whatever follows the end. */
static void read_rest(struct orr__json_document *d) {
    if (d->status != ORR_OK || d->report.cut)
        return;
    skip_space(d);
    if (d->report.trailing == 0)
        d->report.trailing_at = orr__json_offset(d, d->at);
    do {
        d->report.trailing += (uint64_t)(d->end - d->at);
        d->at = d->end;
    } while (orr__json_fill(d));
}

bool orr__json_document_next(struct orr__json_document *d, struct orr__json_piece *piece) {
    if (d->unread) {
        struct orr__json_piece last = d->piece;
        pass(d, &last);
    }
    while (d->status == ORR_OK) {
        bool got = false;
        switch (d->place) {
        case ORR__JSON_AT_START: start(d); break;
        case ORR__JSON_IN_OBJECT: got = next_member(d, piece); break;
        case ORR__JSON_IN_EVENTS: got = next_event(d, piece); break;
        case ORR__JSON_AT_END: break;
        }
        if (got)
            return true;
        if (d->place == ORR__JSON_AT_END) {
            read_rest(d);
            break;
        }
    }
    if (d->input->cut) {
        d->report.input_cut = true;
        d->report.cut = true;
        d->report.cut_at = d->input->cut_at;
    }
    return false;
}

const struct orr__json_report *
orr__json_document_report(const struct orr__json_document *document) {
    return &document->report;
}

const struct orr__json_input *orr__json_document_input(const struct orr__json_document *document) {
    return document->input;
}

void orr__json_document_repaired(struct orr__json_document *document,
                                 const struct orr__json_piece *piece, enum orr__json_repair what) {
    count(&document->report.repairs[what], 1, piece->offset);
}

enum orr_status orr__json_document_status(const struct orr__json_document *document,
                                          struct orr_error *error) {
    if (document->status == ORR_IO)
        return orr_error_set(error, ORR_IO, "%s", document->input->why);
    return document->status == ORR_OK
               ? ORR_OK
               : orr_error_set(error, document->status, "out of host memory");
}
