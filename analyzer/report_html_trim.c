/* Keeping the document of an HTML report small, and safe inside a script element. */
#include <string.h>

#include "analyzer/report_html_internal.h"

/* The documents are our own and shallow; the limit is for those that are handed in. */
enum { DEPTH_MAX = 64 };

struct trim {
    const char *at, *end;
    size_t items, bytes;
    struct orr_text *out;
    struct orr__html_cut *cut;
    const char *name; /* key of the member of the document that is being read */
    size_t name_length;
};

static void skip_space(struct trim *t) {
    while (t->at < t->end && strchr(" \t\r\n", *t->at)) {
        t->at++;
    }
}

static bool take(struct trim *t, char wanted) {
    skip_space(t);
    if (t->at == t->end || *t->at != wanted) {
        return false;
    }
    t->at++;
    return true;
}

static void emit(struct trim *t, bool keep, const char *bytes, size_t length) {
    if (keep) {
        orr__text_append(t->out, bytes, length);
    }
}

/* Where a text may be cut: not inside an escape or a character of UTF-8. `from` is behind the
 * opening quote. */
static size_t cut_length(const char *from, size_t length, size_t bytes) {
    size_t whole = 0;
    while (whole < length) {
        size_t step = 1;
        if (from[whole] == '\\') {
            step = whole + 1 < length && from[whole + 1] == 'u' ? 6 : 2;
        }
        while (whole + step < length && ((unsigned char)from[whole + step] & 0xC0U) == 0x80U) {
            step++;
        }
        if (whole + step > bytes || whole + step > length) {
            break;
        }
        whole += step;
    }
    return whole;
}

/* A text with its quotes; *out_from and *out_length are what stands between them in the source. */
static bool string(struct trim *t, bool keep, const char **out_from, size_t *out_length) {
    if (!take(t, '"')) {
        return false;
    }
    const char *from = t->at;
    while (t->at < t->end && *t->at != '"') {
        t->at += *t->at == '\\' && t->at + 1 < t->end ? 2 : 1;
    }
    if (t->at >= t->end) {
        return false;
    }
    size_t length = (size_t)(t->at - from);
    t->at++;
    size_t kept = length > t->bytes ? cut_length(from, length, t->bytes) : length;
    emit(t, keep, "\"", 1);
    emit(t, keep, from, kept);
    if (kept < length) {
        emit(t, keep, "\xE2\x80\xA6", 3);
        t->cut->characters += keep;
    }
    emit(t, keep, "\"", 1);
    *out_from = from;
    *out_length = length;
    return true;
}

static bool scalar(struct trim *t, bool keep) {
    const char *from = t->at;
    while (t->at < t->end && !strchr(",]} \t\r\n", *t->at)) {
        t->at++;
    }
    emit(t, keep, from, (size_t)(t->at - from));
    return t->at > from;
}

static bool value(struct trim *t, bool keep, unsigned depth);

static bool object(struct trim *t, bool keep, unsigned depth) {
    emit(t, keep, "{", 1);
    for (bool first = true; !take(t, '}'); first = false) {
        const char *name;
        size_t length;
        if (!first && !take(t, ',')) {
            return false;
        }
        emit(t, keep && !first, ", ", 2);
        if (!string(t, keep, &name, &length) || !take(t, ':')) {
            return false;
        }
        if (depth == 1) {
            t->name = name;
            t->name_length = length;
        }
        emit(t, keep, ": ", 2);
        if (!value(t, keep, depth)) {
            return false;
        }
    }
    emit(t, keep, "}", 1);
    return true;
}

/* Counts what was left out of an array; `member`: of the document itself. */
static void note(struct trim *t, bool member, uint64_t left_out) {
    if (left_out == 0) {
        return;
    }
    if (!member) {
        t->cut->nested += left_out;
        return;
    }
    struct json *j = &t->cut->left_out;
    orr__text_append(&j->text, j->comma ? ", \"" : "\"", j->comma ? 3 : 1);
    orr__text_append(&j->text, t->name, t->name_length);
    orr__text_add(&j->text, "\": %llu", (unsigned long long)left_out);
    j->comma = true;
}

static bool array(struct trim *t, bool keep, unsigned depth) {
    uint64_t index = 0, left_out = 0;
    emit(t, keep, "[", 1);
    for (; !take(t, ']'); index++) {
        bool within = index < t->items;
        if (index > 0 && !take(t, ',')) {
            return false;
        }
        emit(t, keep && within && index > 0, ", ", 2);
        if (!value(t, keep && within, depth)) {
            return false;
        }
        left_out += !within;
    }
    emit(t, keep, "]", 1);
    note(t, depth == 2 && keep, keep ? left_out : 0);
    return true;
}

static bool value(struct trim *t, bool keep, unsigned depth) {
    const char *from;
    size_t length;
    skip_space(t);
    if (t->at == t->end || depth == DEPTH_MAX || t->out->failed) {
        return false;
    }
    switch (*t->at) {
    case '{': t->at++; return object(t, keep, depth + 1);
    case '[': t->at++; return array(t, keep, depth + 1);
    case '"': return string(t, keep, &from, &length);
    default: return scalar(t, keep);
    }
}

bool orr__html_trim(const char *document, size_t length, size_t items, size_t bytes,
                    struct orr_text *out, struct orr__html_cut *cut) {
    struct trim t = {.at = document,
                     .end = document + length,
                     .items = items,
                     .bytes = bytes,
                     .out = out,
                     .cut = cut,
                     .name = ""};
    bool whole = value(&t, true, 0);
    skip_space(&t);
    return whole && t.at == t.end && !out->failed && !cut->left_out.text.failed;
}

/* ---------------------------------------------------------------------------------------------- */

static const char *escape_of(const char *at, const char *end, size_t *out_length) {
    *out_length = 1;
    switch (*at) {
    case '<': return "\\u003c";
    case '>': return "\\u003e";
    case '&': return "\\u0026";
    case '\xE2':
        if (end - at >= 3 && at[1] == '\x80' && (at[2] == '\xA8' || at[2] == '\xA9')) {
            *out_length = 3;
            return at[2] == '\xA8' ? "\\u2028" : "\\u2029";
        }
        return NULL;
    default: return NULL;
    }
}

void orr__html_escape(struct orr_text *out, const char *json, size_t length) {
    const char *from = json, *end = json + length;
    for (const char *at = json; at < end;) {
        size_t width;
        const char *escape = escape_of(at, end, &width);
        if (escape) {
            orr__text_append(out, from, (size_t)(at - from));
            orr__text_append(out, escape, strlen(escape));
            from = at + width;
        }
        at += width;
    }
    orr__text_append(out, from, (size_t)(end - from));
}
