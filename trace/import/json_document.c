#include "trace/import/json_document.h"

#include <assert.h>

enum {
    WINDOW_BYTES = 1 << 20,
    WINDOW_BYTES_MAX = 1 << 24,
    KEY_BYTES = 64,       /* of a key of the top level; a longer one is none of ours */
    LOOK_BACK_BYTES = 512 /* white space and brackets between two events */
};

enum place { AT_START, IN_OBJECT, IN_EVENTS, AT_END };

struct orr__json_document {
    struct orr__json_input *input;
    const struct orr_memory *memory;
    char *window;
    size_t capacity, capacity_max;
    char *at, *end; /* what is left to read of the window; *end is NUL */
    uint64_t base;  /* byte of the text that window[0] is */
    uint64_t floor; /* byte of the text before which nothing is looked at */
    enum place place;
    bool dry;    /* the input has ended */
    bool first;  /* event of an array, or what follows one that could not be read */
    bool comma;  /* was read since the last event */
    bool unread; /* the value of the piece last handed out */
    enum orr_status status;
    char key[KEY_BYTES];
    struct orr__json_piece piece; /* the last one */
    struct orr__json_report report;
};

static uint64_t offset_of(const struct orr__json_document *d, const char *at) {
    return d->base + (uint64_t)(at - d->window);
}

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

/* Reads on; what lies before d->at is given up. False if nothing came: the input is dry, or the
 * window full, or reading failed. */
static bool fill(struct orr__json_document *d) {
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
    d->report.bytes = offset_of(d, d->end);
    if (d->input->status != ORR_OK)
        d->status = d->input->status;
    return got > 0;
}

size_t orr__json_document_peek(struct orr__json_document *d, const char **out_text) {
    if (d->at == d->end)
        fill(d);
    *out_text = d->at;
    return (size_t)(d->end - d->at);
}

/* To the next byte that is no white space; NUL at the end. */
static char skip_space(struct orr__json_document *d) {
    for (;;) {
        while (*d->at == ' ' || *d->at == '\n' || *d->at == '\r' || *d->at == '\t')
            d->at++;
        if (d->at < d->end || !fill(d))
            return *d->at;
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Where things go on behind what cannot be read */

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The last byte before `at` in the window that is no white space; NUL if there is none. */
static const char *back(const struct orr__json_document *d, const char *at) {
    const char *limit = d->floor > d->base ? d->window + (d->floor - d->base) : d->window;
    if (at - limit > LOOK_BACK_BYTES / 2)
        limit = at - LOOK_BACK_BYTES / 2;
    while (at > limit && is_blank(at[-1]))
        at--;
    return at > limit ? at - 1 : "";
}

static const char *forth(const char *at) {
    while (is_blank(*at))
        at++;
    return at;
}

static bool is_one_of(const char *at, const char *const *keys, size_t count_of_keys) {
    for (size_t i = 0; i < count_of_keys; i++) {
        size_t length = strlen(keys[i]);
        if (strncmp(at, keys[i], length) == 0 && at[length] == '"')
            return true;
    }
    return false;
}

/* Does an event begin with this bracket? It follows one, and its first key is one that events
 * have. */
static bool is_event_start(const struct orr__json_document *d, const char *at) {
    static const char *const keys[] = {"ph", "cat",  "name", "pid", "tid", "ts",
                                       "s",  "args", "id",   "dur", "bp",  "id2"};
    const char *before = back(d, at);
    if (*before == ',')
        before = back(d, before);
    const char *key = forth(at + 1);
    return *before == '}' && *key == '"' && is_one_of(key + 1, keys, sizeof keys / sizeof *keys);
}

/* Does the array of events end with this bracket? An event comes before, and behind it the end, or
 * what profilers write there. */
static bool is_events_end(const struct orr__json_document *d, const char *at) {
    static const char *const keys[] = {
        "traceName",    "displayTimeUnit",  "baseTimeNanoseconds", "schemaVersion",
        "trace_id",     "deviceProperties", "distributedInfo",     "INFO",
        "cupti_version"};
    if (*back(d, at) != '}')
        return false;
    const char *next = forth(at + 1);
    if (*next == ',') {
        next = forth(next + 1);
        return *next == '"' && is_one_of(next + 1, keys, sizeof keys / sizeof *keys);
    }
    if (*next == '}')
        next = forth(next + 1);
    return next == d->end && d->dry;
}

/* Passes what follows d->at + 1 until an event or the array's end begins; at the end of the text if
 * neither does. */
static void find_event(struct orr__json_document *d) {
    char *at = d->at + (d->at < d->end);
    d->floor = offset_of(d, d->at);
    for (;;) {
        while (at < d->end && *at != '{' && *at != ']')
            at++;
        bool sure = d->end - at > LOOK_BACK_BYTES / 2 || d->dry;
        if (at < d->end && sure) {
            if (*at == '{' ? is_event_start(d, at) : is_events_end(d, at))
                break;
            at++;
            continue;
        }
        /* What comes before and behind has to be in the window. */
        size_t before = (size_t)(at - d->at);
        before = before < LOOK_BACK_BYTES ? before : LOOK_BACK_BYTES;
        d->at = at - before;
        bool more = fill(d);
        at = d->at + before;
        if (!more && at >= d->end)
            break;
        if (!more && !d->dry) /* reading failed */
            break;
    }
    d->at = at;
    d->first = true;
    d->comma = false;
}

/* Passes everything up to the array of events; true if there is one. */
static bool find_events(struct orr__json_document *d) {
    static const char wanted[] = "\"traceEvents\"";
    size_t length = sizeof wanted - 1;
    for (;;) {
        char *at = memchr(d->at, '"', (size_t)(d->end - d->at));
        d->at = at ? at : d->end;
        if ((size_t)(d->end - d->at) < length + LOOK_BACK_BYTES && fill(d))
            continue;
        if (d->at >= d->end)
            return false;
        if (strncmp(d->at, wanted, length) == 0) {
            char *next = d->at + length;
            while (is_blank(*next) || *next == ':')
                next++;
            if (*next == '[') {
                d->at = next + 1;
                return true;
            }
        }
        d->at++;
    }
}

/* Passes a value of any size. */
static void stream_over(struct orr__json_document *d) {
    size_t depth = 0;
    bool quoted = false;
    for (;; d->at++) {
        if (d->at >= d->end && !fill(d))
            return;
        char c = *d->at;
        if (quoted) {
            if (c == '\\' && d->end - d->at < 2 && !fill(d))
                return;
            if (c == '\\')
                d->at++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return; /* the end of what is around a plain value */
            depth--;
        } else if (c != ',' || depth > 0) {
            continue;
        }
        if (depth == 0 && !quoted) {
            d->at += c != ',';
            return;
        }
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
    d->report.cut_at = offset_of(d, d->end);
    d->at = d->end;
    d->place = AT_END;
    return false;
}

static bool give_up(struct orr__json_document *d, struct orr__json_piece *piece, bool too_long) {
    if (d->status != ORR_OK) {
        d->place = AT_END;
        return false;
    }
    if (piece->kind == ORR__JSON_EVENT) {
        count(&d->report.skipped, 1, piece->offset);
        find_event(d);
        return false;
    }
    count(&d->report.members, 1, piece->offset);
    if (too_long) {
        stream_over(d);
    } else if (find_events(d)) {
        d->place = IN_EVENTS;
        d->first = d->report.has_events = true;
    } else {
        d->place = AT_END;
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
    if (more && (fill(d) || d->dry != was_dry)) {
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
    d->place = AT_END;
    return false;
}

/* The text ends outside of a value, and before its end. An array need not be closed. */
static bool ends_open(struct orr__json_document *d) {
    d->report.cut = d->status == ORR_OK;
    d->report.cut_at = offset_of(d, d->end);
    return end_here(d);
}

static bool hand_out(struct orr__json_document *d, struct orr__json_piece *piece,
                     enum orr__json_piece_kind kind) {
    piece->kind = kind;
    piece->offset = offset_of(d, d->at);
    piece->good = false;
    start_reading(d, piece, false);
    d->unread = true;
    d->piece = *piece;
    return true;
}

static void count_comma(struct orr__json_document *d, bool wrong) {
    count(&d->report.repairs[ORR__JSON_REPAIR_COMMA], wrong, offset_of(d, d->at));
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
            d->place = d->report.is_array ? AT_END : IN_OBJECT;
            return false;
        } else if (c != '\0' && strchr("{[\"-0123456789ntf", c)) {
            count_comma(d, !d->first && !d->comma);
            d->first = d->comma = false;
            return hand_out(d, piece, ORR__JSON_EVENT);
        } else {
            count(&d->report.skipped, 1, offset_of(d, d->at));
            find_event(d);
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
        if (!fill(d)) {
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
            d->place = IN_EVENTS;
            d->first = d->report.has_events = true;
            return false;
        }
        return hand_out(d, piece, ORR__JSON_MEMBER);
    }
    if (d->at >= d->end)
        return ends_open(d);
    /* What is no member: the events may still come. */
    count(&d->report.members, 1, offset_of(d, d->at));
    if (d->report.has_events || !find_events(d))
        return end_here(d);
    d->place = IN_EVENTS;
    d->first = d->report.has_events = true;
    return false;
}

static void start(struct orr__json_document *d) {
    const char *text;
    if (orr__json_document_peek(d, &text) >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        d->at += 3;
    char c = skip_space(d);
    d->place = c == '[' ? IN_EVENTS : c == '{' ? IN_OBJECT : AT_END;
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
        d->report.trailing_at = offset_of(d, d->at);
    do {
        d->report.trailing += (uint64_t)(d->end - d->at);
        d->at = d->end;
    } while (fill(d));
}

bool orr__json_document_next(struct orr__json_document *d, struct orr__json_piece *piece) {
    if (d->unread) {
        struct orr__json_piece last = d->piece;
        pass(d, &last);
    }
    while (d->status == ORR_OK) {
        bool got = false;
        switch (d->place) {
        case AT_START: start(d); break;
        case IN_OBJECT: got = next_member(d, piece); break;
        case IN_EVENTS: got = next_event(d, piece); break;
        case AT_END: break;
        }
        if (got)
            return true;
        if (d->place == AT_END) {
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
