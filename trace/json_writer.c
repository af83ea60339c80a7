#include "trace/json_writer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>

void orr_json_start(struct orr_json_writer *writer, struct orr_output *output, char *buffer,
                    size_t size) {
    assert(size >= ORR_JSON_BUFFER_MIN);
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

/* The digits of a value below 10^8 as 8 bytes, most significant first, each 0 to 9: halves, then
 * quarters, then single digits, all lanes at once. The multiplications stand for divisions and are
 * exact in these ranges: 10486 / 2^20 for 1/100 below 10^4, 103 / 2^10 for 1/10 below 100. */
static inline uint64_t eight_digits(uint32_t value) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first digit is the lowest byte");
    uint64_t halves = value / 10000 | (uint64_t)(value % 10000) << 32;
    uint64_t hundreds = ((halves * 10486) >> 20) & 0x0000007f0000007fu;
    uint64_t pairs = ((halves - 100 * hundreds) << 16) + hundreds;
    uint64_t tens = ((pairs * 103) >> 10) & 0x000f000f000f000fu;
    return ((pairs - 10 * tens) << 8) + tens;
}

static const uint64_t ascii_zeros = 0x3030303030303030u;

static inline char *put_eight(char *at, uint32_t value) {
    uint64_t digits = eight_digits(value) | ascii_zeros;
    memcpy(at, &digits, sizeof digits);
    return at + sizeof digits;
}

/* Without leading zeros; writes 8 bytes whatever the number of digits, which is found by branches,
 * because they are predicted: computed, it would hold up all that is written behind. */
static inline char *put_up_to_eight(char *at, uint32_t value) {
    uint64_t digits = eight_digits(value) | ascii_zeros;
    unsigned zeros = 0;
    if (value < 10000) {
        zeros += 4;
        digits >>= 32;
        value *= 10000;
    }
    if (value < 1000000) {
        zeros += 2;
        digits >>= 16;
        value *= 100;
    }
    if (value < 10000000) {
        zeros += 1;
        digits >>= 8;
    }
    memcpy(at, &digits, sizeof digits);
    return at + sizeof digits - zeros;
}

static inline char *put_u64(char *at, uint64_t value) {
    const uint64_t base = 100000000;
    if (value < base) {
        return put_up_to_eight(at, (uint32_t)value);
    }
    if (value < base * base) {
        at = put_up_to_eight(at, (uint32_t)(value / base));
        return put_eight(at, (uint32_t)(value % base));
    }
    at = put_up_to_eight(at, (uint32_t)(value / (base * base)));
    at = put_eight(at, (uint32_t)(value / base % base));
    return put_eight(at, (uint32_t)(value % base));
}

char *orr_json_put_u64(char *at, uint64_t value) {
    return put_u64(at, value);
}

/* Digits of whole microseconds to leave out in front, of at most 5, for a time below 10^8 ns. */
static inline unsigned leading_zeros(uint32_t ns) {
    if (ns >= 1000000) {
        return ns >= 10000000 ? 0 : 1;
    }
    return ns >= 100000 ? 2 : ns >= 10000 ? 3 : 4;
}

/* The last 8 digits are computed together; the point goes between the fifth and the sixth. */
char *orr_json_put_time(char *at, int64_t time_ns) {
    assert(time_ns >= 0);
    const uint64_t base = 100000000;
    uint64_t high = (uint64_t)time_ns / base;
    uint32_t low = (uint32_t)((uint64_t)time_ns - high * base);
    uint64_t digits = eight_digits(low) | ascii_zeros;
    uint64_t decimals = digits >> 40 << 8 | '.';
    unsigned zeros = 0;
    if (high > 0) {
        at = put_u64(at, high);
    } else {
        zeros = leading_zeros(low);
    }
    digits >>= 8 * zeros;
    memcpy(at, &digits, sizeof digits);
    at += 5 - zeros;
    memcpy(at, &decimals, sizeof decimals);
    return at + 4;
}

void orr_json_u64(struct orr_json_writer *writer, uint64_t value) {
    char *at = orr_json_reserve(writer);
    if (value <= INT64_MAX) {
        writer->cursor = put_u64(at, value);
        return;
    }
    *at = '"';
    at = put_u64(at + 1, value);
    *at = '"';
    writer->cursor = at + 1;
}

void orr_json_i64(struct orr_json_writer *writer, int64_t value) {
    char *at = orr_json_reserve(writer);
    uint64_t magnitude = (uint64_t)value;
    if (value < 0) {
        *at++ = '-';
        magnitude = 0 - magnitude;
    }
    writer->cursor = put_u64(at, magnitude);
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
    char *at = orr_json_reserve(writer);
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

/* Copies a text of `size` bytes if none needs a second look; false, and nothing certain at `at`,
 * otherwise. The last bytes are copied as a whole word that overlaps the one before. */
static bool copy_plain(char *at, const char *text, size_t size) {
    uint64_t word;
    if (size < sizeof word) {
        memcpy(at, text, size);
        return plain_length(text, size) == size;
    }
    for (size_t i = 0; i < size - sizeof word; i += sizeof word) {
        memcpy(&word, text + i, sizeof word);
        if (!plain_word(word)) {
            return false;
        }
        memcpy(at + i, &word, sizeof word);
    }
    memcpy(&word, text + size - sizeof word, sizeof word);
    memcpy(at + size - sizeof word, &word, sizeof word);
    return plain_word(word);
}

char *orr_json_put_text(struct orr_json_writer *writer, char *at, const char *text) {
    size_t size = strlen(text), room = (size_t)(writer->limit - at);
    if (room >= size + ORR_JSON_ROOM && copy_plain(at, text, size)) {
        return at + size;
    }
    writer->cursor = at;
    orr_json_text(writer, text);
    return orr_json_reserve(writer);
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
