/* Numbers of JSON texts: integers exactly, never through a double. */
#include <stdlib.h>

#include "trace/import/json_lexer.h"

/* A decimal number, taken apart: sign, digits without leading zeros, and where the point stands. */
struct decimal {
    const char *at, *end; /* digits and at most one point, from the first digit other than 0 on */
    int64_t point;        /* digits before the point, after the exponent; may be negative */
    bool negative;
};

enum { EXPONENT_MAX = 100000 };

static bool parse_exponent(const char *at, const char *end, int64_t *out_exponent) {
    bool negative = at < end && *at == '-';
    int64_t exponent = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        exponent = exponent < EXPONENT_MAX ? exponent * 10 + (*at - '0') : EXPONENT_MAX;
    }
    *out_exponent = negative ? -exponent : exponent;
    return true;
}

static bool parse_decimal(const struct orr__json_value *value, struct decimal *out) {
    if (value->kind != ORR__JSON_NUMBER && value->kind != ORR__JSON_STRING)
        return false;
    const char *at = value->text.at, *end = at + value->text.length;
    while (at < end && *at == ' ')
        at++;
    while (end > at && end[-1] == ' ')
        end--;
    out->negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    size_t digits = 0;
    int64_t before = 0, exponent = 0;
    bool point = false, significant = false;
    out->at = NULL;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            return false;
        digits++;
        if (!significant && *at != '0') {
            significant = true;
            out->at = at;
        }
        if (significant && !point)
            before++;
        if (!significant && point)
            before--;
    }
    out->end = at;
    if (!significant)
        out->at = at;
    if (digits == 0 || (at < end && !parse_exponent(at + 1, end, &exponent)))
        return false;
    out->point = before + exponent;
    return true;
}

/* The integer part of the number times 10^shift. */
static bool magnitude(const struct decimal *decimal, unsigned shift, uint64_t *out_number,
                      bool *out_exact) {
    int64_t left = decimal->point + (int64_t)shift;
    uint64_t number = 0;
    const char *at = decimal->at;
    *out_exact = true;
    for (; at < decimal->end; at++) {
        if (*at == '.')
            continue;
        unsigned digit = (unsigned)(*at - '0');
        if (left-- > 0) {
            if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
                __builtin_add_overflow(number, digit, &number))
                return false;
        } else if (digit != 0) {
            *out_exact = false;
            break;
        }
    }
    for (; left > 0 && number > 0; left--) {
        if (__builtin_mul_overflow(number, UINT64_C(10), &number))
            return false;
    }
    *out_number = number;
    return true;
}

static bool with_sign(uint64_t number, bool negative, int64_t *out_number) {
    if (number > (uint64_t)INT64_MAX + negative)
        return false;
    *out_number = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

bool orr__json_scaled(const struct orr__json_value *value, unsigned shift, int64_t *out_number,
                      bool *out_exact) {
    struct decimal decimal;
    uint64_t number;
    bool exact;
    if (!parse_decimal(value, &decimal) || !magnitude(&decimal, shift, &number, &exact))
        return false;
    if (out_exact)
        *out_exact = exact;
    return with_sign(number, decimal.negative, out_number);
}

bool orr__json_i64(const struct orr__json_value *value, int64_t *out_number) {
    bool exact;
    int64_t number;
    if (!orr__json_scaled(value, 0, &number, &exact) || !exact)
        return false;
    *out_number = number;
    return true;
}

bool orr__json_u64(const struct orr__json_value *value, uint64_t *out_number) {
    struct decimal decimal;
    uint64_t number;
    bool exact;
    if (!parse_decimal(value, &decimal) || !magnitude(&decimal, 0, &number, &exact) || !exact ||
        (decimal.negative && number > 0))
        return false;
    *out_number = number;
    return true;
}

bool orr__json_double(const struct orr__json_value *value, double *out_number) {
    enum { DOUBLE_MAX = 64 };
    struct decimal decimal;
    char text[DOUBLE_MAX + 1], *end;
    if (value->text.length > DOUBLE_MAX || !parse_decimal(value, &decimal))
        return false;
    memcpy(text, value->text.at, value->text.length);
    text[value->text.length] = '\0';
    double number = strtod(text, &end);
    if (end == text || number - number != 0)
        return false;
    *out_number = number;
    return true;
}
