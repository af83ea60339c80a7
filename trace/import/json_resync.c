/* Where things go on behind what cannot be read. */
#include "trace/import/json_document_internal.h"

enum { LOOK_BACK_BYTES = 512 }; /* white space and brackets between two events */

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

void orr__json_find_event(struct orr__json_document *d) {
    char *at = d->at + (d->at < d->end);
    d->floor = orr__json_offset(d, d->at);
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
        bool more = orr__json_fill(d);
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

bool orr__json_find_events(struct orr__json_document *d) {
    static const char wanted[] = "\"traceEvents\"";
    size_t length = sizeof wanted - 1;
    for (;;) {
        char *at = memchr(d->at, '"', (size_t)(d->end - d->at));
        d->at = at ? at : d->end;
        if ((size_t)(d->end - d->at) < length + LOOK_BACK_BYTES && orr__json_fill(d))
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

void orr__json_stream_over(struct orr__json_document *d) {
    size_t depth = 0;
    bool quoted = false;
    for (;; d->at++) {
        if (d->at >= d->end && !orr__json_fill(d))
            return;
        char c = *d->at;
        if (quoted) {
            if (c == '\\' && d->end - d->at < 2 && !orr__json_fill(d))
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
