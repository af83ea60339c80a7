/* Strings and keys of texts that have something wrong with them. */
#include "trace/import/json_lexer_internal.h"

/* UNSURE: the text ends where the answer would be. */
enum answer { NO, YES, UNSURE };

/* Is `at` where a key and its colon stand? `"ph":`, or what is left of it: `ph":`, `"ph:`. */
static enum answer is_key(const char *at, const char *end) {
    enum { KEY_MAX = 128 };
    const char *limit = end - at < KEY_MAX ? end : at + KEY_MAX;
    bool quoted = *at == '"';
    if (quoted)
        at++;
    const char *begin = at;
    while (at < limit && *at != '"' && *at != ':' && *at != '\n' && *at != ',' && *at != '{')
        at++;
    if (at >= end)
        return UNSURE;
    if (at == begin || at == limit || (!quoted && !orr__json_is_word(*begin)))
        return NO;
    if (*at == ':')
        return YES;
    at = *at == '"' ? orr__json_after_space(at + 1) : at;
    return at >= end ? UNSURE : *at == ':' ? YES : NO;
}

/* Can a value of an object or array end before `at`? */
static enum answer is_value_end(const char *at, const char *end, bool in_array) {
    at = orr__json_after_space(at);
    if (at >= end)
        return UNSURE;
    if (*at == ',') {
        at = orr__json_after_space(at + 1);
        if (at >= end)
            return UNSURE;
        return in_array || *at == '}' || *at == ']' ? YES : is_key(at, end);
    }
    if (*at == '"' && !in_array)
        return is_key(at, end); /* a comma is missing */
    if (*at != (in_array ? ']' : '}'))
        return NO;
    at = orr__json_after_space(at + 1);
    if (at >= end)
        return UNSURE;
    return *at == ',' || *at == ']' || *at == '}' || *at == '{' ? YES : NO;
}

/* The last byte before `at` that is no space, or NUL if that is before `begin`. */
static const char *before_space(const char *begin, const char *at) {
    while (at > begin && orr__json_is_space(at[-1]))
        at--;
    return at > begin ? at - 1 : NULL;
}

/* The answer as far as the text goes; false, and MORE, if more of it could change the answer. */
static bool sure(struct orr__json_cursor *cursor, enum answer *answer) {
    if (*answer != UNSURE)
        return true;
    *answer = YES;
    return !cursor->open || orr__json_broken(cursor, cursor->end);
}

/* A backslash in a tolerant string. True if the string ends behind it: C:\folder\" */
static bool tolerant_escape(struct orr__json_cursor *cursor, bool in_array, const char **at) {
    const char *end = cursor->end;
    size_t size = orr__json_escape_size(*at, end);
    if (end - *at < 6 && cursor->open)
        return orr__json_broken(cursor, end);
    if (size == 2 && (*at)[1] == '"' && *at + 2 < end) {
        enum answer ends = is_value_end(*at + 2, end, in_array);
        if (!sure(cursor, &ends))
            return false;
        if (ends == YES) {
            orr__json_repair(cursor, ORR__JSON_REPAIR_ESCAPE);
            ++*at;
            return true;
        }
    }
    if (size == 0)
        orr__json_repair(cursor, ORR__JSON_REPAIR_ESCAPE);
    *at += size > 0 ? size : 1;
    return false;
}

enum quote { QUOTE_ENDS, QUOTE_INSIDE, QUOTE_MEMBER, QUOTE_BROKEN };

/* What a quote in a tolerant string is. QUOTE_MEMBER: a member begins with it, behind the comma at
 * *out_comma, so that the string lacks its end. */
static enum quote classify_quote(struct orr__json_cursor *cursor, bool in_array, const char *begin,
                                 const char *at, const char **out_comma) {
    enum answer ends = is_value_end(at + 1, cursor->end, in_array);
    if (!sure(cursor, &ends))
        return QUOTE_BROKEN;
    if (ends == YES)
        return QUOTE_ENDS;
    const char *before = before_space(begin, at);
    if (!before || (*before != '{' && *before != ','))
        return QUOTE_INSIDE;
    enum answer key = is_key(at, cursor->end);
    if (!sure(cursor, &key))
        return QUOTE_BROKEN;
    if (key == NO)
        return QUOTE_INSIDE;
    if (*before == '{') { /* the next event begins within the string */
        orr__json_broken(cursor, before);
        return QUOTE_BROKEN;
    }
    *out_comma = before;
    return in_array ? QUOTE_INSIDE : QUOTE_MEMBER;
}

bool orr__json_tolerant_string(struct orr__json_cursor *cursor, bool in_array,
                               struct orr__json_text *out_text) {
    const char *begin = cursor->at, *at = begin, *comma = NULL;
    unsigned high = 0;
    bool ended = false;
    while (!ended) {
        at = orr__json_string_run(at, cursor->end, &high);
        if (at >= cursor->end)
            return orr__json_broken(cursor, at);
        if (*at == '\\') {
            high = 0x80;
            ended = tolerant_escape(cursor, in_array, &at);
            if (cursor->state != ORR__JSON_OK)
                return false;
            continue;
        }
        if (*at != '"') {
            high = 0x80;
            orr__json_repair(cursor, ORR__JSON_REPAIR_CONTROL);
            at++;
            continue;
        }
        switch (classify_quote(cursor, in_array, begin, at, &comma)) {
        case QUOTE_ENDS: ended = true; break;
        case QUOTE_INSIDE:
            high = 0x80;
            orr__json_repair(cursor, ORR__JSON_REPAIR_QUOTE);
            at++;
            break;
        case QUOTE_MEMBER:
            orr__json_repair(cursor, ORR__JSON_REPAIR_UNCLOSED);
            *out_text = (struct orr__json_text){.at = begin, .length = (size_t)(comma - begin)};
            cursor->at = comma;
            return true;
        case QUOTE_BROKEN: return false;
        }
    }
    *out_text =
        (struct orr__json_text){.at = begin, .length = (size_t)(at - begin), .plain = high == 0};
    cursor->at = at + 1;
    return true;
}

bool orr__json_tolerant_key(struct orr__json_cursor *cursor, struct orr__json_text *out_key) {
    const char *at = cursor->at, *end = cursor->end;
    bool quoted = *at == '"';
    if (quoted) {
        struct orr__json_cursor tried = *cursor;
        tried.at++;
        bool whole = orr__json_strict_string(&tried, out_key);
        const char *colon = whole ? orr__json_after_space(tried.at) : tried.at;
        if (cursor->open && colon >= cursor->end)
            return orr__json_broken(cursor, cursor->end);
        if (whole && *colon == ':') {
            cursor->at = tried.at;
            return true;
        }
        at++;
    }
    if (!quoted && at < end && !orr__json_is_word(*at))
        return orr__json_broken(cursor, at);
    const char *begin = at;
    while (at < end && *at != ':' && *at != '"' && (unsigned char)*at >= 0x20)
        at++;
    *out_key = (struct orr__json_text){.at = begin, .length = (size_t)(at - begin)};
    cursor->at = at + (at < end && *at == '"');
    const char *colon = orr__json_after_space(cursor->at);
    if (at >= end || *colon != ':')
        return orr__json_broken(cursor, colon);
    return orr__json_repair(cursor, ORR__JSON_REPAIR_KEY);
}
