#include "trace/base64.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t orr__base64_encode(const unsigned char *bytes, size_t size, char *out_text) {
    char *at = out_text;
    for (size_t i = 0; i < size; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        word |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
        word |= i + 2 < size ? bytes[i + 2] : 0;
        *at++ = digits[word >> 18];
        *at++ = digits[word >> 12 & 63];
        *at++ = i + 1 < size ? digits[word >> 6 & 63] : '=';
        *at++ = i + 2 < size ? digits[word & 63] : '=';
    }
    return (size_t)(at - out_text);
}

/* The digit's value; 64: it is none. */
static uint32_t value_of(char digit) {
    if (digit >= 'A' && digit <= 'Z')
        return (uint32_t)(digit - 'A');
    if (digit >= 'a' && digit <= 'z')
        return (uint32_t)(digit - 'a') + 26;
    if (digit >= '0' && digit <= '9')
        return (uint32_t)(digit - '0') + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : 64;
}

bool orr__base64_decode(const char *text, size_t length, unsigned char *out_bytes,
                        size_t *out_size) {
    *out_size = 0;
    if (length % 4 != 0)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        bool last = i + 4 == length;
        size_t padding = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
        uint32_t word = 0;
        for (size_t k = 0; k < 4; k++) {
            uint32_t value = k < 4 - padding ? value_of(text[i + k]) : 0;
            if (value > 63)
                return false;
            word = word << 6 | value;
        }
        out_bytes[(*out_size)++] = (unsigned char)(word >> 16);
        if (padding < 2)
            out_bytes[(*out_size)++] = (unsigned char)(word >> 8);
        if (padding < 1)
            out_bytes[(*out_size)++] = (unsigned char)word;
    }
    return true;
}
