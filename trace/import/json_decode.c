/* Texts of JSON strings as UTF-8. */
#include "trace/import/json_lexer.h"

static unsigned hex4(const char *at) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
        code = code << 4 | digit;
    }
    return code;
}

static bool is_hex4(const char *at, const char *end) {
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = at[i], low = (char)(c | 0x20);
        if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'f'))
            return false;
    }
    return true;
}

static char *put_code(char *out, unsigned code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

enum { REPLACEMENT = 0xfffd };

/* \uXXXX at `at`, maybe a pair; returns what follows. */
static const char *decode_unicode(const char *at, const char *end, char **out) {
    unsigned code = hex4(at + 2);
    at += 6;
    if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u' &&
        is_hex4(at + 2, end)) {
        unsigned low = hex4(at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *out = put_code(*out, 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
            return at + 6;
        }
    }
    bool lone = code >= 0xd800 && code < 0xe000;
    *out = put_code(*out, lone || code == 0 ? REPLACEMENT : code);
    return at;
}

static const char *decode_escape(const char *at, const char *end, char **out) {
    char code = '\0';
    switch (end - at > 1 ? at[1] : '\0') {
    case '"': code = '"'; break;
    case '\\': code = '\\'; break;
    case '/': code = '/'; break;
    case 'b': code = '\b'; break;
    case 'f': code = '\f'; break;
    case 'n': code = '\n'; break;
    case 'r': code = '\r'; break;
    case 't': code = '\t'; break;
    case 'u':
        if (is_hex4(at + 2, end))
            return decode_unicode(at, end, out);
        break;
    default: break;
    }
    if (code == '\0') {
        *(*out)++ = '\\'; /* escapes nothing: stands for itself */
        return at + 1;
    }
    *(*out)++ = code;
    return at + 2;
}

/* Bytes of the UTF-8 sequence at `at`, 0 if it is none; *out_bad is then how many to replace. */
static size_t sequence(const char *text, const char *end, size_t *out_bad) {
    const unsigned char *at = (const unsigned char *)text;
    size_t room = (size_t)(end - text), size = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    *out_bad = 1;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    unsigned low = 0x80, high = 0xbf; /* of the second byte */
    if (at[0] == 0xe0)
        low = 0xa0;
    else if (at[0] == 0xed)
        high = 0x9f;
    else if (at[0] == 0xf0)
        low = 0x90;
    else if (at[0] == 0xf4)
        high = 0x8f;
    if (room < 2 || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if (room <= i || (at[i] & 0xc0) != 0x80) {
            *out_bad = i;
            return 0;
        }
    }
    return size;
}

size_t orr__json_decode(struct orr__json_text text, char *out, bool *out_repaired) {
    char *begin = out;
    const char *at = text.at, *end = at + text.length;
    if (text.plain) {
        memcpy(out, at, text.length);
        return text.length;
    }
    while (at < end) {
        size_t bad, size;
        if (*at == '\\') {
            at = decode_escape(at, end, &out);
        } else if ((unsigned char)*at < 0x80) {
            if (*at == '\0')
                out = put_code(out, REPLACEMENT);
            else
                *out++ = *at;
            at++;
        } else if ((size = sequence(at, end, &bad)) > 0) {
            memcpy(out, at, size);
            out += size;
            at += size;
        } else {
            out = put_code(out, REPLACEMENT);
            at += bad;
            if (out_repaired)
                *out_repaired = true;
        }
    }
    return (size_t)(out - begin);
}
