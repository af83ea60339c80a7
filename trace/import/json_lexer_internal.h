/* Internal to the reader of JSON: bytes, states and strings, for json_lexer.c, which walks over a
 * text, and json_tolerant.c, which reads what is broken in it.
 *
 * Threads: one at a time a cursor. */
#ifndef ORR_TRACE_IMPORT_JSON_LEXER_INTERNAL_H
#define ORR_TRACE_IMPORT_JSON_LEXER_INTERNAL_H

#include "trace/import/json_lexer.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline bool orr__json_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static inline bool orr__json_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static inline bool orr__json_is_hex(char c) {
    return orr__json_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static inline bool orr__json_is_word(char c) {
    return orr__json_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline bool orr__json_is_number(char c) {
    return orr__json_is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static inline const char *orr__json_after_space(const char *at) {
    while (orr__json_is_space(*at))
        at++;
    return at;
}

/* The first byte from `at` on that a string does not consist of: a quote, a backslash, a control
 * character, or the end. *high gets the highest bits of what was passed. */
static inline const char *orr__json_string_run(const char *at, const char *end, unsigned *high) {
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

/* Ends the reading there: MORE at the end of the text, else BROKEN. Returns false. */
static inline bool orr__json_broken(struct orr__json_cursor *cursor, const char *at) {
    if (cursor->state == ORR__JSON_OK) {
        /* A NUL at the very end is the end; one before it is a wrong byte. */
        cursor->state = at >= cursor->end ? ORR__JSON_MORE : ORR__JSON_BROKEN;
        cursor->error_at = at;
    }
    cursor->at = at;
    return false;
}

/* Counts a repair; returns true. */
static inline bool orr__json_repair(struct orr__json_cursor *cursor, enum orr__json_repair what) {
    cursor->repairs[what]++;
    return true;
}

/* Bytes of the escape at `at` (a backslash), 0 if it is none that JSON knows. */
static inline size_t orr__json_escape_size(const char *at, const char *end) {
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
        if (end - at < 6 || !orr__json_is_hex(at[2]) || !orr__json_is_hex(at[3]) ||
            !orr__json_is_hex(at[4]) || !orr__json_is_hex(at[5]))
            return 0;
        return 6;
    default: return 0;
    }
}

/* A string, behind its opening quote. */
static inline __attribute__((always_inline)) bool
orr__json_strict_string(struct orr__json_cursor *cursor, struct orr__json_text *out_text) {
    const char *begin = cursor->at, *at = begin;
    unsigned high = 0;
    for (;;) {
        at = orr__json_string_run(at, cursor->end, &high);
        if (*at == '"' && at < cursor->end) {
            *out_text = (struct orr__json_text){
                .at = begin, .length = (size_t)(at - begin), .plain = high == 0};
            cursor->at = at + 1;
            return true;
        }
        size_t size = *at == '\\' ? orr__json_escape_size(at, cursor->end) : 0;
        if (size == 0)
            return orr__json_broken(cursor, cursor->end - at < 6 && *at == '\\' ? cursor->end : at);
        high = 0x80;
        at += size;
    }
}

/* A string in a text that has something wrong with it, maybe here; behind its opening quote. Ends
 * at the first quote, escaped or not, behind which the text can go on; or before a member that
 * begins within. */
bool orr__json_tolerant_string(struct orr__json_cursor *cursor, bool in_array,
                               struct orr__json_text *out_text);

/* A key, which may lack a quote; at its colon afterwards. */
bool orr__json_tolerant_key(struct orr__json_cursor *cursor, struct orr__json_text *out_key);

#endif
