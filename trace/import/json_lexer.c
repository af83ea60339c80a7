#include "trace/import/json_lexer.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* ---------------------------------------------------------------------------------------------- */
/* Bytes */

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_number(char c) {
    return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static const char *after_space(const char *at) {
    while (is_space(*at))
        at++;
    return at;
}

/* The first byte from `at` on that a string does not consist of: a quote, a backslash, a control
 * character, or the end. *all gets the highest bit of what was passed. */
static const char *string_run(const char *at, const char *end, unsigned *high) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    const __m128i last_control = _mm_set1_epi8(0x1f);
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i stops =
            _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
        unsigned mask = (unsigned)_mm_movemask_epi8(_mm_or_si128(stops, control));
        unsigned signs = (unsigned)_mm_movemask_epi8(bytes);
        if (mask != 0) {
            unsigned passed = (unsigned)__builtin_ctz(mask);
            *high |= signs & ((1u << passed) - 1u);
            return at + passed;
        }
        *high |= signs;
        at += 16;
    }
#endif
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) {
        *high |= (unsigned char)*at & 0x80u;
        at++;
    }
    return at;
}

/* ---------------------------------------------------------------------------------------------- */
/* States */

static bool broken(struct orr__json_cursor *cursor, const char *at) {
    if (cursor->state == ORR__JSON_OK) {
        /* A NUL at the very end is the end; one before it is a wrong byte. */
        cursor->state = at >= cursor->end ? ORR__JSON_MORE : ORR__JSON_BROKEN;
        cursor->error_at = at;
    }
    cursor->at = at;
    return false;
}

static bool repair(struct orr__json_cursor *cursor, enum orr__json_repair what) {
    cursor->repairs[what]++;
    return true;
}

void orr__json_begin(struct orr__json_cursor *cursor, const char *text, size_t length,
                     bool tolerant) {
    *cursor = (struct orr__json_cursor){
        .at = text, .end = text + length, .state = ORR__JSON_OK, .tolerant = tolerant};
}

/* ---------------------------------------------------------------------------------------------- */
/* Strings */

/* Bytes of the escape at `at` (a backslash), 0 if it is none that JSON knows. */
static size_t escape_size(const char *at, const char *end) {
    switch (end - at > 1 ? at[1] : '\0') {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return 2;
    case 'u':
        if (end - at < 6 || !is_hex(at[2]) || !is_hex(at[3]) || !is_hex(at[4]) || !is_hex(at[5]))
            return 0;
        return 6;
    default: return 0;
    }
}

static inline __attribute__((always_inline)) bool strict_string(struct orr__json_cursor *cursor,
                                                                struct orr__json_text *out_text) {
    const char *begin = cursor->at, *at = begin;
    unsigned high = 0;
    for (;;) {
        at = string_run(at, cursor->end, &high);
        if (*at == '"' && at < cursor->end) {
            *out_text = (struct orr__json_text){
                .at = begin, .length = (size_t)(at - begin), .plain = high == 0};
            cursor->at = at + 1;
            return true;
        }
        size_t size = *at == '\\' ? escape_size(at, cursor->end) : 0;
        if (size == 0)
            return broken(cursor, cursor->end - at < 6 && *at == '\\' ? cursor->end : at);
        high = 0x80;
        at += size;
    }
}

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
    if (at == begin || at == limit || (!quoted && !is_word(*begin)))
        return NO;
    if (*at == ':')
        return YES;
    at = *at == '"' ? after_space(at + 1) : at;
    return at >= end ? UNSURE : *at == ':' ? YES : NO;
}

/* Can a value of an object or array end before `at`? */
static enum answer is_value_end(const char *at, const char *end, bool in_array) {
    at = after_space(at);
    if (at >= end)
        return UNSURE;
    if (*at == ',') {
        at = after_space(at + 1);
        if (at >= end)
            return UNSURE;
        return in_array || *at == '}' || *at == ']' ? YES : is_key(at, end);
    }
    if (*at == '"' && !in_array)
        return is_key(at, end); /* a comma is missing */
    if (*at != (in_array ? ']' : '}'))
        return NO;
    at = after_space(at + 1);
    if (at >= end)
        return UNSURE;
    return *at == ',' || *at == ']' || *at == '}' || *at == '{' ? YES : NO;
}

/* The last byte before `at` that is no space, or NUL if that is before `begin`. */
static const char *before_space(const char *begin, const char *at) {
    while (at > begin && is_space(at[-1]))
        at--;
    return at > begin ? at - 1 : NULL;
}

/* The answer as far as the text goes; false, and MORE, if more of it could change the answer. */
static bool sure(struct orr__json_cursor *cursor, enum answer *answer) {
    if (*answer != UNSURE)
        return true;
    *answer = YES;
    return !cursor->open || broken(cursor, cursor->end);
}

/* A backslash in a tolerant string. True if the string ends behind it: C:\folder\" */
static bool tolerant_escape(struct orr__json_cursor *cursor, bool in_array, const char **at) {
    const char *end = cursor->end;
    size_t size = escape_size(*at, end);
    if (end - *at < 6 && cursor->open)
        return broken(cursor, end);
    if (size == 2 && (*at)[1] == '"' && *at + 2 < end) {
        enum answer ends = is_value_end(*at + 2, end, in_array);
        if (!sure(cursor, &ends))
            return false;
        if (ends == YES) {
            repair(cursor, ORR__JSON_REPAIR_ESCAPE);
            ++*at;
            return true;
        }
    }
    if (size == 0)
        repair(cursor, ORR__JSON_REPAIR_ESCAPE);
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
        broken(cursor, before);
        return QUOTE_BROKEN;
    }
    *out_comma = before;
    return in_array ? QUOTE_INSIDE : QUOTE_MEMBER;
}

/* A string in a text that has something wrong with it, maybe here. Ends at the first quote, escaped
 * or not, behind which the text can go on; or before a member that begins within. */
static bool tolerant_string(struct orr__json_cursor *cursor, bool in_array,
                            struct orr__json_text *out_text) {
    const char *begin = cursor->at, *at = begin, *comma = NULL;
    unsigned high = 0;
    bool ended = false;
    while (!ended) {
        at = string_run(at, cursor->end, &high);
        if (at >= cursor->end)
            return broken(cursor, at);
        if (*at == '\\') {
            high = 0x80;
            ended = tolerant_escape(cursor, in_array, &at);
            if (cursor->state != ORR__JSON_OK)
                return false;
            continue;
        }
        if (*at != '"') {
            high = 0x80;
            repair(cursor, ORR__JSON_REPAIR_CONTROL);
            at++;
            continue;
        }
        switch (classify_quote(cursor, in_array, begin, at, &comma)) {
        case QUOTE_ENDS: ended = true; break;
        case QUOTE_INSIDE:
            high = 0x80;
            repair(cursor, ORR__JSON_REPAIR_QUOTE);
            at++;
            break;
        case QUOTE_MEMBER:
            repair(cursor, ORR__JSON_REPAIR_UNCLOSED);
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

/* ---------------------------------------------------------------------------------------------- */
/* Values */

static bool literal(struct orr__json_cursor *cursor, const char *word, enum orr__json_kind kind,
                    struct orr__json_value *out_value) {
    const char *at = cursor->at;
    size_t length = strlen(word);
    if ((size_t)(cursor->end - at) < length)
        return broken(cursor,
                      strncmp(at, word, (size_t)(cursor->end - at)) == 0 ? cursor->end : at);
    if (memcmp(at, word, length) != 0)
        return broken(cursor, at);
    *out_value =
        (struct orr__json_value){.kind = kind, .text = {.at = at, .length = length, .plain = true}};
    cursor->at = at + length;
    return true;
}

/* NaN, Infinity, -Infinity, nan, inf: no number, so a value that is not there. */
static bool no_number(struct orr__json_cursor *cursor, struct orr__json_value *out_value) {
    static const char *const words[] = {"NaN", "nan", "Infinity", "inf"};
    const char *at = cursor->at, *word = at + (*at == '-' || *at == '+');
    if (!cursor->tolerant)
        return broken(cursor, at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(cursor->end - word) > length && memcmp(word, words[i], length) == 0 &&
            !is_word(word[length])) {
            cursor->at = word + length;
            *out_value = (struct orr__json_value){
                .kind = ORR__JSON_NULL,
                .text = {.at = at, .length = (size_t)(cursor->at - at), .plain = true}};
            return repair(cursor, ORR__JSON_REPAIR_NUMBER);
        }
    }
    return broken(cursor, cursor->end - word < 9 ? cursor->end : at);
}

static inline __attribute__((always_inline)) bool number(struct orr__json_cursor *cursor,
                                                         struct orr__json_value *out_value) {
    const char *at = cursor->at;
    while (is_number(*at))
        at++;
    if (at >= cursor->end)
        return broken(cursor, cursor->end); /* it may go on */
    if (is_word(*at))
        return no_number(cursor, out_value);
    *out_value = (struct orr__json_value){
        .kind = ORR__JSON_NUMBER,
        .text = {.at = cursor->at, .length = (size_t)(at - cursor->at), .plain = true}};
    cursor->at = at;
    return true;
}

static bool container(struct orr__json_cursor *cursor, enum orr__json_kind kind,
                      struct orr__json_value *out_value) {
    *out_value = (struct orr__json_value){.kind = kind, .text = {.at = cursor->at, .plain = true}};
    cursor->at++;
    cursor->first = true;
    return true;
}

static inline __attribute__((always_inline)) bool
value_in(struct orr__json_cursor *cursor, bool in_array, struct orr__json_value *out_value) {
    cursor->at = after_space(cursor->at);
    char c = *cursor->at;
    switch (c) {
    case '"':
        cursor->at++;
        out_value->kind = ORR__JSON_STRING;
        return cursor->tolerant ? tolerant_string(cursor, in_array, &out_value->text)
                                : strict_string(cursor, &out_value->text);
    case '{': return container(cursor, ORR__JSON_OBJECT, out_value);
    case '[': return container(cursor, ORR__JSON_ARRAY, out_value);
    case 't': return literal(cursor, "true", ORR__JSON_TRUE, out_value);
    case 'f': return literal(cursor, "false", ORR__JSON_FALSE, out_value);
    case 'n':
        if (cursor->end - cursor->at < 2 || cursor->at[1] != 'a')
            return literal(cursor, "null", ORR__JSON_NULL, out_value);
        return no_number(cursor, out_value);
    case 'N':
    case 'I':
    case 'i': return no_number(cursor, out_value);
    default:
        return is_digit(c) || c == '-' ? number(cursor, out_value) : broken(cursor, cursor->at);
    }
}

bool orr__json_value(struct orr__json_cursor *cursor, struct orr__json_value *out_value) {
    return cursor->state == ORR__JSON_OK && value_in(cursor, !cursor->member, out_value);
}

/* ---------------------------------------------------------------------------------------------- */
/* Members and elements */

/* A key that lacks a quote: at its colon afterwards. */
static bool tolerant_key(struct orr__json_cursor *cursor, struct orr__json_text *out_key) {
    const char *at = cursor->at, *end = cursor->end;
    bool quoted = *at == '"';
    if (quoted) {
        struct orr__json_cursor tried = *cursor;
        tried.at++;
        bool whole = strict_string(&tried, out_key);
        const char *colon = whole ? after_space(tried.at) : tried.at;
        if (cursor->open && colon >= cursor->end)
            return broken(cursor, cursor->end);
        if (whole && *colon == ':') {
            cursor->at = tried.at;
            return true;
        }
        at++;
    }
    if (!quoted && at < end && !is_word(*at))
        return broken(cursor, at);
    const char *begin = at;
    while (at < end && *at != ':' && *at != '"' && (unsigned char)*at >= 0x20)
        at++;
    *out_key = (struct orr__json_text){.at = begin, .length = (size_t)(at - begin)};
    cursor->at = at + (at < end && *at == '"');
    const char *colon = after_space(cursor->at);
    if (at >= end || *colon != ':')
        return broken(cursor, colon);
    return repair(cursor, ORR__JSON_REPAIR_KEY);
}

static inline __attribute__((always_inline)) bool read_key(struct orr__json_cursor *cursor,
                                                           struct orr__json_text *out_key) {
    if (cursor->tolerant)
        return tolerant_key(cursor, out_key);
    if (*cursor->at != '"')
        return broken(cursor, cursor->at);
    cursor->at++;
    return strict_string(cursor, out_key);
}

/* Passes the comma before an item, if there has to be one. False at the end of the container. */
static inline __attribute__((always_inline)) bool next_item(struct orr__json_cursor *cursor,
                                                            char close) {
    if (cursor->state != ORR__JSON_OK)
        return false;
    const char *at = after_space(cursor->at);
    bool first = cursor->first;
    cursor->first = false;
    if (*at == close) {
        cursor->at = at + 1;
        return false;
    }
    if (*at == ',' && !first) {
        at = after_space(at + 1);
        if (cursor->tolerant) {
            for (; *at == ','; at = after_space(at + 1))
                repair(cursor, ORR__JSON_REPAIR_COMMA);
            if (*at == close) {
                cursor->at = at + 1;
                repair(cursor, ORR__JSON_REPAIR_COMMA);
                return false;
            }
        }
    } else if (!first) {
        if (!cursor->tolerant || at >= cursor->end || *at == '}' || *at == ']')
            return broken(cursor, at);
        repair(cursor, ORR__JSON_REPAIR_COMMA);
    }
    cursor->at = at;
    return true;
}

bool orr__json_member(struct orr__json_cursor *cursor, struct orr__json_text *out_key,
                      struct orr__json_value *out_value) {
    if (!next_item(cursor, '}') || !read_key(cursor, out_key))
        return false;
    const char *at = after_space(cursor->at);
    if (*at != ':')
        return broken(cursor, at);
    cursor->at = at + 1;
    return value_in(cursor, false, out_value);
}

bool orr__json_element(struct orr__json_cursor *cursor, struct orr__json_value *out_value) {
    return next_item(cursor, ']') && value_in(cursor, true, out_value);
}

/* ---------------------------------------------------------------------------------------------- */
/* Skipping */

/* Bytes that mean something outside strings. */
static const uint8_t structural[256] = {
    ['\0'] = 1, ['"'] = 1, ['{'] = 1, ['}'] = 1, ['['] = 1, [']'] = 1};

/* Only brackets and strings are looked at. `inside` has a bit for each open container: 1 an
 * array. */
static void skip_strict(struct orr__json_cursor *cursor, bool is_array) {
    uint64_t inside = is_array;
    unsigned depth = 1;
    struct orr__json_text text;
    const char *at = cursor->at;
    while (depth > 0) {
        while (!structural[(unsigned char)*at])
            at++;
        char c = *at;
        switch (c) {
        case '"':
            cursor->at = at + 1;
            if (!strict_string(cursor, &text))
                return;
            at = cursor->at;
            continue;
        case '{':
        case '[':
            if (depth++ == ORR__JSON_DEPTH_MAX) {
                broken(cursor, at);
                return;
            }
            inside = inside << 1 | (c == '[');
            break;
        case '}':
        case ']':
            if ((inside & 1) != (c == ']')) {
                broken(cursor, at);
                return;
            }
            inside >>= 1;
            depth--;
            break;
        default: broken(cursor, at); return;
        }
        at++;
    }
    cursor->at = at;
    cursor->first = false;
}

static void skip_tolerant(struct orr__json_cursor *cursor, bool is_array) {
    uint64_t inside = is_array;
    unsigned depth = 1;
    while (depth > 0 && cursor->state == ORR__JSON_OK) {
        struct orr__json_text key;
        struct orr__json_value value;
        bool got =
            inside & 1 ? orr__json_element(cursor, &value) : orr__json_member(cursor, &key, &value);
        if (!got) {
            inside >>= 1;
            depth--;
        } else if (value.kind >= ORR__JSON_ARRAY) {
            if (depth++ == ORR__JSON_DEPTH_MAX) {
                broken(cursor, cursor->at);
                return;
            }
            inside = inside << 1 | (value.kind == ORR__JSON_ARRAY);
        }
    }
}

void orr__json_skip(struct orr__json_cursor *cursor, struct orr__json_value *value) {
    if (value->kind < ORR__JSON_ARRAY || cursor->state != ORR__JSON_OK)
        return;
    if (cursor->tolerant)
        skip_tolerant(cursor, value->kind == ORR__JSON_ARRAY);
    else
        skip_strict(cursor, value->kind == ORR__JSON_ARRAY);
    if (cursor->state == ORR__JSON_OK)
        value->text.length = (size_t)(cursor->at - value->text.at);
}
