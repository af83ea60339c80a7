/* Internal to trace/: a pull reader of JSON texts that lie in memory, and of the broken ones that
 * tools write.
 *
 * A cursor walks over a text and hands out slices of it; it allocates nothing and copies nothing.
 *
 *     {"name": "a\"b", "args": {"stream": 7, "grid": [1, 2, 3]}}
 *
 *     struct orr__json_value value;
 *     if (orr__json_value(&cursor, &value) && value.kind == ORR__JSON_OBJECT) {
 *         struct orr__json_text key;
 *         while (orr__json_member(&cursor, &key, &value)) {
 *             if (orr__json_is(key, "name")) name = value.text;
 *             else if (orr__json_is(key, "args") && value.kind == ORR__JSON_OBJECT)
 *                 while (orr__json_member(&cursor, &key, &value)) {
 *                     ...
 *                     orr__json_skip(&cursor, &value);
 *                 }
 *             else orr__json_skip(&cursor, &value);
 *         }
 *     }
 *     if (cursor.state == ORR__JSON_OK) ...   // else: what was read is worth nothing
 *
 * A value that is an object or an array is only begun: it is either walked through by calls of
 * orr__json_member or orr__json_element until they return false, or passed by orr__json_skip, which
 * does nothing for any other kind.
 *
 * Two ways to read. Strict: what is no JSON sets the state to BROKEN. Tolerant: what tools are
 * known to have written is repaired (see enum orr__json_repair), and only what can't be is BROKEN.
 * A text that ends too early sets MORE, in both.
 *
 * Threads: one at a time a cursor. */
#ifndef ORR_TRACE_IMPORT_JSON_LEXER_H
#define ORR_TRACE_IMPORT_JSON_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum orr__json_kind {
    ORR__JSON_NULL,
    ORR__JSON_FALSE,
    ORR__JSON_TRUE,
    ORR__JSON_NUMBER, /* the text as it stands */
    ORR__JSON_STRING,
    ORR__JSON_ARRAY,
    ORR__JSON_OBJECT
};

enum orr__json_state { ORR__JSON_OK, ORR__JSON_MORE, ORR__JSON_BROKEN };

/* X(name, text): what a tolerant cursor repairs. */
#define ORR__JSON_REPAIR_LIST(X)                                                                   \
    X(CONTROL, "control character in a string")                                                    \
    X(ESCAPE, "backslash that escapes nothing")                                                    \
    X(QUOTE, "unescaped quote in a string")                                                        \
    X(UNCLOSED, "string without its closing quote")                                                \
    X(KEY, "key without its quotes")                                                               \
    X(COMMA, "comma too many or missing")                                                          \
    X(NUMBER, "NaN or Infinity")                                                                   \
    X(UTF8, "text that is not UTF-8")

enum orr__json_repair {
#define ORR__JSON_REPAIR_ENUM(name, text) ORR__JSON_REPAIR_##name,
    ORR__JSON_REPAIR_LIST(ORR__JSON_REPAIR_ENUM)
#undef ORR__JSON_REPAIR_ENUM
        ORR__JSON_REPAIR_COUNT
};

/* What stands between the quotes, as it stands there; of a number, literal or skipped container the
 * whole of it. */
struct orr__json_text {
    const char *at;
    size_t length;
    bool plain; /* no backslash and nothing else that has to be decoded or repaired */
};

struct orr__json_value {
    enum orr__json_kind kind;
    struct orr__json_text text; /* of a container only after orr__json_skip */
};

enum { ORR__JSON_DEPTH_MAX = 64 };

struct orr__json_cursor {
    const char *at, *end; /* *end can be read: NUL, or a quote or bracket */
    const char *error_at; /* where it became BROKEN */
    enum orr__json_state state;
    bool tolerant;
    bool first;  /* in a container that was just begun */
    bool open;   /* the text may go on behind its end */
    bool member; /* what orr__json_value reads is the value of a member, not an element */
    uint32_t repairs[ORR__JSON_REPAIR_COUNT]; /* done so far, places */
};

/* Starts reading `length` bytes. The byte behind must be there: NUL, or, for a piece of a longer
 * text that ends with NUL somewhere, a quote or bracket. */
void orr__json_begin(struct orr__json_cursor *cursor, const char *text, size_t length,
                     bool tolerant);

/* The next value. False: the state says why. */
bool orr__json_value(struct orr__json_cursor *cursor, struct orr__json_value *out_value);

/* The next member of the object that was begun; false at its end, which is then passed, or when the
 * state is no longer OK. */
bool orr__json_member(struct orr__json_cursor *cursor, struct orr__json_text *out_key,
                      struct orr__json_value *out_value);

/* The next element of the array that was begun; the same. */
bool orr__json_element(struct orr__json_cursor *cursor, struct orr__json_value *out_value);

/* Passes the rest of a container that was just begun, and sets value->text to the whole of it; for
 * other kinds does nothing. */
void orr__json_skip(struct orr__json_cursor *cursor, struct orr__json_value *value);

/* Is it this literal? Keys with escapes are not looked into. */
#define orr__json_is(text, literal)                                                                \
    ((text).length == sizeof(literal) - 1 && memcmp((text).at, literal, sizeof(literal) - 1) == 0)

/* Decodes a string into `out`, which has room for 3 bytes for each of text.length, and returns the
 * size: escapes resolved, wrong escapes as they stand, lone surrogates and what is no UTF-8 as
 * U+FFFD (if any, *out_repaired is set, which may be NULL), NUL as U+FFFD. Not terminated. */
size_t orr__json_decode(struct orr__json_text text, char *out, bool *out_repaired);

/* An integer, of a number or of a string that holds one: decimal digits with or without a sign; a
 * fraction of zeros and an exponent are accepted if the value is an integer. False: none, or out of
 * range. */
bool orr__json_i64(const struct orr__json_value *value, int64_t *out_number);
bool orr__json_u64(const struct orr__json_value *value, uint64_t *out_number);

/* A number, or a string that holds one, times 10^shift, truncated toward zero, without going
 * through a double: with shift 3 the nanoseconds of a time in microseconds. *out_exact (may be
 * NULL) is false if a digit other than 0 was cut off. False: no number, or out of range. */
bool orr__json_scaled(const struct orr__json_value *value, unsigned shift, int64_t *out_number,
                      bool *out_exact);

/* The nearest double. False: no number. */
bool orr__json_double(const struct orr__json_value *value, double *out_number);

#endif
