#include "analyzer/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void orr__text_free(struct orr_text *text) {
    orr_memory_free(text->memory, text->data);
    *text = (struct orr_text){0};
}

/* Room for `more` bytes and the NUL. */
static bool make_room(struct orr_text *text, size_t more) {
    if (!text->failed && orr_memory_grow(text->memory, &text->data, &text->capacity,
                                         text->length + more + 1, 1, SIZE_MAX / 2) != ORR_OK) {
        text->failed = true;
    }
    return !text->failed;
}

void orr__text_append(struct orr_text *text, const char *bytes, size_t length) {
    if (make_room(text, length)) {
        memcpy(text->data + text->length, bytes, length);
        text->length += length;
        text->data[text->length] = '\0';
    }
}

void orr__text_add(struct orr_text *text, const char *format, ...) {
    char buffer[512];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof buffer) {
        orr__text_append(text, buffer, (size_t)length);
    } else if (length >= 0 && make_room(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 if there is none. */
static size_t utf8_length(const unsigned char *s) {
    if (s[0] < 0x80) {
        return 1;
    }
    size_t length = s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] >= 0xf5) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return overlong || beyond ? 0 : length;
}

const char *orr__text_hyphens(const char *name, char *buffer) {
    size_t i = 0;
    for (; name[i] && i < ORR_HYPHENS_MAX - 1; i++) {
        buffer[i] = name[i] == '_' ? '-' : name[i];
    }
    buffer[i] = '\0';
    return buffer;
}

void orr__text_json_string(struct orr_text *text, const char *string) {
    orr__text_append(text, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)string; *s;) {
        size_t length = utf8_length(s);
        if (length == 0) {
            orr__text_append(text, "\\ufffd", 6);
            s++;
        } else if (*s == '"' || *s == '\\') {
            orr__text_add(text, "\\%c", *s++);
        } else if (*s < 0x20) {
            orr__text_add(text, "\\u%04x", *s++);
        } else {
            orr__text_append(text, (const char *)s, length);
            s += length;
        }
    }
    orr__text_append(text, "\"", 1);
}

/* ------------------------------------------------------------------------------------------------
 * Numbers */

const char *orr__u128_text(orr_u128 value, char *buffer) {
    char digits[40];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < count; i++) {
        buffer[i] = digits[count - 1 - i];
    }
    buffer[count] = '\0';
    return buffer;
}

const char *orr__ratio_text(orr_u128 numerator, orr_u128 denominator, unsigned decimals,
                            char *buffer) {
    if (denominator == 0) {
        return strcpy(buffer, "-");
    }
    /* Very large operands lose low bits that no decimal shows. */
    while (numerator >> 90 || denominator >> 90) {
        numerator >>= 1;
        denominator >>= 1;
    }
    denominator = denominator > 0 ? denominator : 1;
    orr_u128 scale = 1;
    for (unsigned i = 0; i < decimals; i++) {
        scale *= 10;
    }
    orr_u128 scaled = (numerator * scale + denominator / 2) / denominator;
    orr__u128_text(scaled / scale, buffer);
    if (decimals > 0) {
        size_t length = strlen(buffer);
        snprintf(buffer + length, 12, ".%0*llu", (int)decimals,
                 (unsigned long long)(scaled % scale));
    }
    return buffer;
}

const char *orr__hundredfold_text(orr_u128 numerator, orr_u128 denominator, char *buffer) {
    while (numerator >> 100 && denominator > 0) {
        numerator >>= 1;
        denominator = denominator > 1 ? denominator >> 1 : 1;
    }
    return orr__ratio_text(numerator * 100, denominator, 2, buffer);
}

const char *orr__percent_text(int64_t part, int64_t whole, char *buffer) {
    if (whole <= 0) {
        return strcpy(buffer, "-");
    }
    char number[ORR_NUMBER_TEXT_MAX - 4];
    orr_u128 size = (orr_u128)(part < 0 ? -part : part) * 100;
    orr__ratio_text(size, (orr_u128)whole, 2, number);
    snprintf(buffer, ORR_NUMBER_TEXT_MAX, "%s%s %%", part < 0 ? "-" : "", number);
    return buffer;
}

const char *orr__time_text(int64_t ns, char *buffer) {
    static const struct {
        int64_t limit, unit;
        const char *name;
    } units[] = {{1000000, 1000, "us"}, {1000000000, 1000000, "ms"}, {INT64_MAX, 1000000000, "s"}};
    int64_t size = ns < 0 ? -ns : ns;
    if (size < 1000) {
        snprintf(buffer, ORR_NUMBER_TEXT_MAX, "%lld ns", (long long)ns);
        return buffer;
    }
    unsigned u = 0;
    /* 999,999 ns would round to 1000.00 us: half a hundredth below the limit the next unit is
     * used. */
    while (size >= units[u].limit - units[u].unit / 200 && u < 2) {
        u++;
    }
    char number[ORR_NUMBER_TEXT_MAX - 5];
    orr__ratio_text((orr_u128)size, (orr_u128)units[u].unit, 2, number);
    snprintf(buffer, ORR_NUMBER_TEXT_MAX, "%s%s %s", ns < 0 ? "-" : "", number, units[u].name);
    return buffer;
}

const char *orr__amount_text(orr_u128 value, const char *suffix, char *buffer) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E", "Z"};
    orr_u128 unit = 1;
    unsigned p = 0;
    while (p < 7 && value >= unit * 1000 - unit / 200) {
        unit *= 1000;
        p++;
    }
    char number[ORR_NUMBER_TEXT_MAX];
    orr__ratio_text(value, unit, p > 0 ? 2 : 0, number);
    snprintf(buffer, ORR_NUMBER_TEXT_MAX, "%.40s %s%s", number, prefixes[p], suffix);
    return buffer;
}
