#include "hazards/text_builder.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const size_t bytes_max = (size_t)1 << 40;

void orr__builder_clear(struct orr__builder *builder) {
    orr_memory_free(builder->memory, builder->data);
    *builder = (struct orr__builder){.memory = builder->memory};
}

void orr__builder_restart(struct orr__builder *builder) {
    builder->length = 0;
    builder->failed = false;
    if (builder->data)
        builder->data[0] = '\0';
}

void orr__build_bytes(struct orr__builder *builder, const char *bytes, size_t length) {
    if (builder->failed)
        return;
    if (orr_memory_grow(builder->memory, &builder->data, &builder->capacity,
                        builder->length + length + 1, 1, bytes_max) != ORR_OK) {
        builder->failed = true;
        return;
    }
    memcpy(builder->data + builder->length, bytes, length);
    builder->length += length;
    builder->data[builder->length] = '\0';
}

void orr__build_text(struct orr__builder *builder, const char *text) {
    orr__build_bytes(builder, text, strlen(text));
}

void orr__build_format(struct orr__builder *builder, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    size_t size = length < 0 ? 0 : (size_t)length;
    if (!builder->failed && orr_memory_grow(builder->memory, &builder->data, &builder->capacity,
                                            builder->length + size + 1, 1, bytes_max) != ORR_OK)
        builder->failed = true;
    if (!builder->failed) {
        vsnprintf(builder->data + builder->length, size + 1, format, arguments);
        builder->length += size;
    }
    va_end(arguments);
}

size_t orr__utf8_length(const unsigned char *at, size_t size) {
    static const struct {
        unsigned char mask, bits, length;
        uint32_t least;
    } forms[] = {
        {0x80, 0, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (int i = 0; i < 4; i++) {
        if ((at[0] & forms[i].mask) != forms[i].bits)
            continue;
        uint32_t code = at[0] & (unsigned char)~forms[i].mask;
        for (size_t k = 1; k < forms[i].length; k++) {
            if (k >= size || (at[k] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (at[k] & 0x3fu);
        }
        return code < forms[i].least || code > 0x10ffff ? 0 : forms[i].length;
    }
    return 0;
}

/* The length of what is written as an escape at `at`; 0: *out_plain bytes stand for themselves. */
static size_t escape_length(const unsigned char *at, size_t *out_plain) {
    if (at[0] < 0x20 || at[0] == '"' || at[0] == '\\')
        return 1;
    *out_plain = 1;
    if (at[0] < 0x80)
        return 0;
    if (at[0] == 0xc0 && at[1] == 0x80)
        return 2;
    *out_plain = orr__utf8_length(at, strnlen((const char *)at, 4));
    if (*out_plain == 0)
        return 1;
    return at[0] == 0xed && at[1] >= 0xa0 ? 3 : 0;
}

static void build_escape(struct orr__builder *builder, const unsigned char *at, size_t length) {
    static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    const char *found = length == 1 ? strchr(letters, at[0]) : NULL;
    if (found && at[0] != '\0') {
        orr__build_bytes(builder, "\\", 1);
        orr__build_bytes(builder, &names[found - letters], 1);
        return;
    }
    unsigned code = at[0] < 0x80 ? at[0] : 0xfffd;
    if (length == 2)
        code = 0;
    if (length == 3)
        code = 0xd000u | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    orr__build_format(builder, "\\u%04x", code);
}

void orr__build_json_string(struct orr__builder *builder, const char *text) {
    orr__build_bytes(builder, "\"", 1);
    const unsigned char *from = (const unsigned char *)text, *at = from;
    while (*at != '\0') {
        size_t plain, length = escape_length(at, &plain);
        if (length == 0) {
            at += plain;
            continue;
        }
        orr__build_bytes(builder, (const char *)from, (size_t)(at - from));
        build_escape(builder, at, length);
        from = at += length;
    }
    orr__build_bytes(builder, (const char *)from, (size_t)(at - from));
    orr__build_bytes(builder, "\"", 1);
}

/* The exponent of "e+12" and the like behind the digits; one too large for any use is cut. */
static int64_t read_exponent(const char *text) {
    if (*text != 'e' && *text != 'E')
        return 0;
    const int64_t limit = INT64_C(1) << 59; /* ten times of it is no overflow */
    bool is_negative = text[1] == '-';
    int64_t value = 0;
    for (text += text[1] == '-' || text[1] == '+' ? 2 : 1; *text; text++)
        value = value < limit ? 10 * value + (*text - '0') : value;
    return is_negative ? -value : value;
}

void orr__build_json_number(struct orr__builder *builder, const char *text) {
    enum { INTEGER_DIGITS = 20 };
    bool is_negative = *text == '-';
    text += is_negative;
    size_t size = strcspn(text, "eE"), start = builder->length;
    int64_t exponent = read_exponent(text + size);
    const char *point = memchr(text, '.', size);
    if (point)
        exponent -= (int64_t)(size - (size_t)(point + 1 - text));
    if (is_negative)
        orr__build_bytes(builder, "-", 1);
    size_t digits = builder->length;
    size_t zeros = strspn(text, "0.");
    zeros = zeros > size ? size : zeros;
    const char *rest = text + zeros;
    size_t whole = point && rest <= point ? (size_t)(point - rest) : 0;
    orr__build_bytes(builder, rest, whole);
    if (whole > 0)
        rest = point + 1;
    orr__build_bytes(builder, rest, size - (size_t)(rest - text));
    if (builder->failed)
        return;
    while (builder->length > digits && builder->data[builder->length - 1] == '0') {
        builder->length--;
        exponent++;
    }
    builder->data[builder->length] = '\0';
    size_t count = builder->length - digits;
    if (count == 0) { /* zero has no sign either */
        builder->length = start;
        orr__build_bytes(builder, "0", 1);
    } else if (exponent >= 0 && count <= INTEGER_DIGITS &&
               exponent <= INTEGER_DIGITS - (int64_t)count) {
        orr__build_bytes(builder, "00000000000000000000", (size_t)exponent);
    } else {
        orr__build_format(builder, "e%lld", (long long)exponent);
    }
}

const char *orr__shown(const char *text, char *buffer) {
    size_t length = 0;
    for (; text[length] != '\0' && length < ORR__SHOWN_MAX - 4; length++)
        buffer[length] = (unsigned char)text[length] < 0x20 ? '?' : text[length];
    bool is_cut = text[length] != '\0';
    while (is_cut && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--; /* not half a character */
    memcpy(buffer + length, is_cut ? "..." : "", is_cut ? 4 : 1);
    return buffer;
}
