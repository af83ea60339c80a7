#include "trace/json_writer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

void orr_json_start(struct orr_json_writer *writer, struct orr_output *output, char *buffer,
                    size_t size) {
    assert(size >= ORR_JSON_RESERVE_MAX);
    *writer = (struct orr_json_writer){
        .cursor = buffer, .limit = buffer + size, .buffer = buffer, .output = output};
}

void orr_json_flush(struct orr_json_writer *writer) {
    size_t size = (size_t)(writer->cursor - writer->buffer);
    orr_output_write(writer->output, writer->buffer, size);
    writer->flushed += size;
    writer->cursor = writer->buffer;
}

void orr_json_bytes(struct orr_json_writer *writer, const char *bytes, size_t size) {
    while (size > 0) {
        size_t room = (size_t)(writer->limit - writer->cursor);
        size_t chunk = size < room ? size : room;
        writer->cursor = orr_json_put(writer->cursor, bytes, chunk);
        bytes += chunk;
        size -= chunk;
        if (size > 0) {
            orr_json_flush(writer);
        }
    }
}

static unsigned decimal_digits(uint64_t value) {
    unsigned digits = 1;
    for (;;) {
        if (value < 10) {
            return digits;
        }
        if (value < 100) {
            return digits + 1;
        }
        if (value < 1000) {
            return digits + 2;
        }
        if (value < 10000) {
            return digits + 3;
        }
        value /= 10000;
        digits += 4;
    }
}

char *orr_json_put_u64(char *at, uint64_t value) {
    char *end = at + decimal_digits(value), *digit = end;
    while (value >= 100) {
        memcpy(digit -= 2, digit_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        memcpy(digit - 2, digit_pairs + value * 2, 2);
    } else {
        digit[-1] = (char)('0' + value);
    }
    return end;
}

char *orr_json_put_time(char *at, int64_t time_ns) {
    assert(time_ns >= 0);
    uint64_t ns = (uint64_t)time_ns;
    unsigned fraction = (unsigned)(ns % 1000);
    at = orr_json_put_u64(at, ns / 1000);
    at[0] = '.';
    at[1] = (char)('0' + fraction / 100);
    memcpy(at + 2, digit_pairs + fraction % 100 * 2, 2);
    return at + 4;
}

void orr_json_u64(struct orr_json_writer *writer, uint64_t value) {
    char *at = orr_json_reserve(writer, ORR_JSON_NUMBER_MAX);
    if (value <= INT64_MAX) {
        writer->cursor = orr_json_put_u64(at, value);
        return;
    }
    *at = '"';
    at = orr_json_put_u64(at + 1, value);
    *at = '"';
    writer->cursor = at + 1;
}

void orr_json_i64(struct orr_json_writer *writer, int64_t value) {
    char *at = orr_json_reserve(writer, ORR_JSON_NUMBER_MAX);
    uint64_t magnitude = (uint64_t)value;
    if (value < 0) {
        *at++ = '-';
        magnitude = 0 - magnitude;
    }
    writer->cursor = orr_json_put_u64(at, magnitude);
}

/* snprintf takes the decimal point from the locale: what stands between the first digit and the
 * next one is the point, of whatever length. */
static size_t format_double(char *text, size_t size, double value) {
    int printed = snprintf(text, size, "%.16e", value);
    assert(printed > 0 && (size_t)printed < size);
    size_t first = text[0] == '-' ? 1 : 0, next = first + 1;
    while (text[next] != '\0' && (text[next] < '0' || text[next] > '9')) {
        next++;
    }
    text[first + 1] = '.';
    memmove(text + first + 2, text + next, (size_t)printed - next + 1);
    return (size_t)printed - next + first + 2;
}

void orr_json_double(struct orr_json_writer *writer, double value) {
    const double exact = 9007199254740992.0; /* 2^53 */
    assert(value - value == 0);
    if (value > -exact && value < exact && (double)(int64_t)value == value) {
        orr_json_i64(writer, (int64_t)value);
        return;
    }
    char text[64];
    size_t length = format_double(text, sizeof text, value);
    orr_json_bytes(writer, text, length);
}

/* Length of the UTF-8 sequence at `text`; 0 if it is none, and then *out_bad is the length of its
 * maximal part, which one U+FFFD replaces (Unicode 15, section 3.9, table 3-7). Reads at most one
 * byte behind what is right, which the terminating NUL makes safe. */
static size_t sequence_length(const unsigned char *text, size_t *out_bad) {
    *out_bad = 1;
    unsigned lead = text[0], low = 0x80, high = 0xbf;
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : low;
    high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : high; /* no surrogates; <= U+10FFFF */
    for (size_t i = 1; i < length; i++) {
        if (text[i] < low || text[i] > high) {
            *out_bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

/* True if none of the 8 bytes needs a second look: all are ASCII from 0x20, not `"`, not `\`.
 * Subtracting 0x20 from each byte borrows into the high bit of those below it; so does subtracting
 * 1 from (byte ^ c) where byte equals c. A borrow only comes out of a byte that needs the look. */
static bool plain_word(uint64_t word) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
    return (((word - ones * 0x20) | (quote - ones) | (slash - ones) | word) & highs) == 0;
}

static bool plain_byte(unsigned char byte) {
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

/* Number of bytes at the start of `text` that go out as they are without a look at UTF-8. */
static size_t plain_length(const char *text, size_t size) {
    size_t length = 0;
    while (size - length >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, text + length, sizeof word);
        if (!plain_word(word)) {
            break;
        }
        length += sizeof word;
    }
    while (length < size && plain_byte((unsigned char)text[length])) {
        length++;
    }
    return length;
}

static void escape(struct orr_json_writer *writer, unsigned char byte) {
    static const char hex[] = "0123456789abcdef";
    char *at = orr_json_reserve(writer, 8);
    if (byte >= 0x20) {
        at[0] = '\\';
        at[1] = (char)byte;
        writer->cursor = at + 2;
        return;
    }
    at = orr_json_put(at, "\\u00", 4);
    at[0] = hex[byte >> 4];
    at[1] = hex[byte & 15];
    writer->cursor = at + 2;
}

void orr_json_text(struct orr_json_writer *writer, const char *text) {
    size_t left = strlen(text);
    for (;;) {
        size_t plain = plain_length(text, left), bad = 1;
        orr_json_bytes(writer, text, plain);
        text += plain;
        left -= plain;
        if (left == 0) {
            return;
        }
        size_t length = sequence_length((const unsigned char *)text, &bad);
        if (length > 1) {
            orr_json_bytes(writer, text, length);
        } else if (length == 1) {
            escape(writer, (unsigned char)*text);
        } else {
            ORR_JSON_LITERAL(writer, "\xef\xbf\xbd");
            length = bad;
        }
        text += length;
        left -= length;
    }
}

/* The next sequence of a text as it is written, and its length there; moves on. */
static const char *next_written(const char **text, size_t *out_length) {
    size_t bad = 0, length = sequence_length((const unsigned char *)*text, &bad);
    const char *here = *text;
    *text += length > 0 ? length : bad;
    *out_length = length > 0 ? length : 3;
    return length > 0 ? here : "\xef\xbf\xbd";
}

int orr_json_text_compare(const char *a, const char *b) {
    while (*a != '\0' && *b != '\0') {
        size_t a_length, b_length;
        const char *from_a = next_written(&a, &a_length), *from_b = next_written(&b, &b_length);
        size_t shorter = a_length < b_length ? a_length : b_length;
        int order = memcmp(from_a, from_b, shorter);
        if (order != 0 || a_length != b_length) {
            return order != 0 ? order : a_length < b_length ? -1 : 1;
        }
    }
    return (*a != '\0') - (*b != '\0');
}
