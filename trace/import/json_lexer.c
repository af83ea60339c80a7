#include "trace/import/json_lexer_internal.h"

void orr__json_begin(struct orr__json_cursor *cursor, const char *text, size_t length,
                     bool tolerant) {
    *cursor = (struct orr__json_cursor){
        .at = text, .end = text + length, .state = ORR__JSON_OK, .tolerant = tolerant};
}

/* ---------------------------------------------------------------------------------------------- */
/* Values */

static bool literal(struct orr__json_cursor *cursor, const char *word, enum orr__json_kind kind,
                    struct orr__json_value *out_value) {
    const char *at = cursor->at;
    size_t length = strlen(word);
    if ((size_t)(cursor->end - at) < length)
        return orr__json_broken(
            cursor, strncmp(at, word, (size_t)(cursor->end - at)) == 0 ? cursor->end : at);
    if (memcmp(at, word, length) != 0)
        return orr__json_broken(cursor, at);
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
        return orr__json_broken(cursor, at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(cursor->end - word) > length && memcmp(word, words[i], length) == 0 &&
            !orr__json_is_word(word[length])) {
            cursor->at = word + length;
            *out_value = (struct orr__json_value){
                .kind = ORR__JSON_NULL,
                .text = {.at = at, .length = (size_t)(cursor->at - at), .plain = true}};
            return orr__json_repair(cursor, ORR__JSON_REPAIR_NUMBER);
        }
    }
    return orr__json_broken(cursor, cursor->end - word < 9 ? cursor->end : at);
}

static inline __attribute__((always_inline)) bool number(struct orr__json_cursor *cursor,
                                                         struct orr__json_value *out_value) {
    const char *at = cursor->at;
    while (orr__json_is_number(*at))
        at++;
    if (at >= cursor->end)
        return orr__json_broken(cursor, cursor->end); /* it may go on */
    if (orr__json_is_word(*at))
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
    cursor->at = orr__json_after_space(cursor->at);
    char c = *cursor->at;
    switch (c) {
    case '"':
        cursor->at++;
        out_value->kind = ORR__JSON_STRING;
        return cursor->tolerant ? orr__json_tolerant_string(cursor, in_array, &out_value->text)
                                : orr__json_strict_string(cursor, &out_value->text);
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
        return orr__json_is_digit(c) || c == '-' ? number(cursor, out_value)
                                                 : orr__json_broken(cursor, cursor->at);
    }
}

bool orr__json_value(struct orr__json_cursor *cursor, struct orr__json_value *out_value) {
    return cursor->state == ORR__JSON_OK && value_in(cursor, !cursor->member, out_value);
}

/* ---------------------------------------------------------------------------------------------- */
/* Members and elements */

static inline __attribute__((always_inline)) bool read_key(struct orr__json_cursor *cursor,
                                                           struct orr__json_text *out_key) {
    if (cursor->tolerant)
        return orr__json_tolerant_key(cursor, out_key);
    if (*cursor->at != '"')
        return orr__json_broken(cursor, cursor->at);
    cursor->at++;
    return orr__json_strict_string(cursor, out_key);
}

/* Passes the comma before an item, if there has to be one. False at the end of the container. */
static inline __attribute__((always_inline)) bool next_item(struct orr__json_cursor *cursor,
                                                            char close) {
    if (cursor->state != ORR__JSON_OK)
        return false;
    const char *at = orr__json_after_space(cursor->at);
    bool first = cursor->first;
    cursor->first = false;
    if (*at == close) {
        cursor->at = at + 1;
        return false;
    }
    if (*at == ',' && !first) {
        at = orr__json_after_space(at + 1);
        if (cursor->tolerant) {
            for (; *at == ','; at = orr__json_after_space(at + 1))
                orr__json_repair(cursor, ORR__JSON_REPAIR_COMMA);
            if (*at == close) {
                cursor->at = at + 1;
                orr__json_repair(cursor, ORR__JSON_REPAIR_COMMA);
                return false;
            }
        }
    } else if (!first) {
        if (!cursor->tolerant || at >= cursor->end || *at == '}' || *at == ']')
            return orr__json_broken(cursor, at);
        orr__json_repair(cursor, ORR__JSON_REPAIR_COMMA);
    }
    cursor->at = at;
    return true;
}

bool orr__json_member(struct orr__json_cursor *cursor, struct orr__json_text *out_key,
                      struct orr__json_value *out_value) {
    if (!next_item(cursor, '}') || !read_key(cursor, out_key))
        return false;
    const char *at = orr__json_after_space(cursor->at);
    if (*at != ':')
        return orr__json_broken(cursor, at);
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
            if (!orr__json_strict_string(cursor, &text))
                return;
            at = cursor->at;
            continue;
        case '{':
        case '[':
            if (depth++ == ORR__JSON_DEPTH_MAX) {
                orr__json_broken(cursor, at);
                return;
            }
            inside = inside << 1 | (c == '[');
            break;
        case '}':
        case ']':
            if ((inside & 1) != (c == ']')) {
                orr__json_broken(cursor, at);
                return;
            }
            inside >>= 1;
            depth--;
            break;
        default: orr__json_broken(cursor, at); return;
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
                orr__json_broken(cursor, cursor->at);
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
