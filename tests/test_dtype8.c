/* The 8-bit dtypes: every code, and every place between two of them. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/dtype.h"
#include "tests/operator_fixture.h"

struct format {
    enum orr_dtype dtype;
    int exponent_bits, bias;
    unsigned largest; /* code of the largest finite number */
    bool has_infinity;
    float (*to_f32)(uint8_t bits);
    uint8_t (*from_f32)(float value);
};

/* Table 1 of Micikevicius et al. 2022. */
static const struct format formats[] = {
    {ORR_DTYPE_F8E4M3, 4, 7, 0x7e, false, orr_f32_from_f8e4m3, orr_f8e4m3_from_f32},
    {ORR_DTYPE_F8E5M2, 5, 15, 0x7b, true, orr_f32_from_f8e5m2, orr_f8e5m2_from_f32},
};

/* The value of a code by the definition of its format. */
static double value_of(const struct format *format, unsigned bits) {
    int fraction_bits = 7 - format->exponent_bits;
    unsigned magnitude = bits & 0x7fu;
    double sign = bits & 0x80u ? -1 : 1;
    if (magnitude > format->largest)
        return format->has_infinity && magnitude == format->largest + 1 ? sign * (double)INFINITY
                                                                        : (double)NAN;
    int exponent = (int)(magnitude >> fraction_bits);
    double fraction =
        (double)(magnitude & ((1u << fraction_bits) - 1)) / (double)(1 << fraction_bits);
    return sign * (exponent == 0 ? ldexp(fraction, 1 - format->bias)
                                 : ldexp(1 + fraction, exponent - format->bias));
}

/* The nearest of all codes, searched one by one; of two equally near the one with an even code. */
static unsigned nearest_code(const struct format *format, double value) {
    unsigned best = 0;
    double magnitude = fabs(value);
    for (unsigned code = 1; code <= format->largest; code++) {
        double gap = fabs(value_of(format, code) - magnitude);
        double best_gap = fabs(value_of(format, best) - magnitude);
        if (gap < best_gap || (gap == best_gap && code % 2 == 0))
            best = code;
    }
    if (isinf(value))
        best = format->largest;
    return best | (signbit(value) ? 0x80u : 0);
}

static unsigned stored(const struct format *format, double value) {
    uint8_t bits;
    orr_dtype_store(format->dtype, &bits, 0, value);
    return bits;
}

static void check_value(const struct format *format, double value) {
    unsigned want = nearest_code(format, value);
    if (stored(format, value) != want)
        fail_msg("%s of %a is %02x, not %02x", orr_dtype_name(format->dtype), value,
                 stored(format, value), want);
    float single = (float)value;
    if ((double)single == value)
        assert_int_equal(format->from_f32(single), want);
}

static void every_code_converts_to_its_value_and_back(void **state) {
    (void)state;
    for (size_t f = 0; f < 2; f++)
        for (unsigned bits = 0; bits < 256; bits++) {
            const struct format *format = &formats[f];
            double want = value_of(format, bits);
            uint8_t code = (uint8_t)bits;
            double loaded = orr_dtype_load(format->dtype, &code, 0);
            float got = format->to_f32(code);
            if (isnan(want)) {
                assert_true(isnan(got) && isnan(loaded));
                assert_int_equal(format->from_f32(got), (bits & 0x80u) | 0x7fu);
                assert_true(isnan(format->to_f32((uint8_t)stored(format, want))));
                continue;
            }
            if ((double)got != want || loaded != want)
                fail_msg("%s %02x is %g and %g, not %g", orr_dtype_name(format->dtype), bits,
                         (double)got, loaded, want);
            unsigned back = isinf(want) ? (bits & 0x80u) | format->largest : bits;
            assert_int_equal(format->from_f32(got), back);
            assert_int_equal(stored(format, want), back);
        }
}

static void values_between_codes_round_to_nearest_even_once(void **state) {
    (void)state;
    for (size_t f = 0; f < 2; f++)
        for (unsigned code = 0; code < formats[f].largest; code++) {
            const struct format *format = &formats[f];
            double low = value_of(format, code), high = value_of(format, code + 1);
            double middle = (low + high) / 2;
            double tries[] = {middle,
                              nextafter(middle, high),
                              nextafter(middle, low),
                              (double)nextafterf((float)middle, (float)high),
                              (double)nextafterf((float)middle, (float)low),
                              nextafter(low, high),
                              low + (high - low) * 0.3,
                              low + (high - low) * 0.8};
            for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
                check_value(format, tries[i]);
                check_value(format, -tries[i]);
            }
        }
}

static void what_is_too_large_saturates(void **state) {
    (void)state;
    assert_true(orr_f32_from_f8e4m3(0x7e) == 448 && orr_f32_from_f8e5m2(0x7b) == 57344);
    for (size_t f = 0; f < 2; f++) {
        const struct format *format = &formats[f];
        double largest = value_of(format, format->largest);
        double beyond[] = {largest * 1.03, largest * 1.25, largest * 2,     1e30,
                           1e300,          DBL_MAX,        (double)FLT_MAX, (double)INFINITY};
        for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
            assert_int_equal(stored(format, beyond[i]), format->largest);
            assert_int_equal(stored(format, -beyond[i]), format->largest | 0x80u);
            assert_int_equal(format->from_f32((float)beyond[i]), format->largest);
        }
    }
}

static void random_bits_of_f32_round_like_the_slow_search(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 20000; trial++) {
        const struct format *format = &formats[trial % 2];
        double scale = ldexp(1, (int)random_int(&random, -24, 18));
        double value = ((double)random_int(&random, -1000000, 1000000) / 1e6) * scale;
        check_value(format, (double)(float)value);
        check_value(format, value);
    }
}

/* i64 beyond 2^53 would be rounded twice on its way through f64. */
static void whole_numbers_round_once(void **state) {
    (void)state;
    int64_t values[] = {0,  1,     -1,  17,    19,    -464,      464,       465,
                        24, 57344, -72, 61440, 61441, INT64_MAX, INT64_MIN, 1000};
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            uint8_t bits;
            orr_dtype_convert(formats[f].dtype, &bits, ORR_DTYPE_I64, &values[i], 1);
            assert_int_equal(bits, nearest_code(&formats[f], (double)values[i]));
        }
}

static void i8_truncates_and_saturates(void **state) {
    (void)state;
    static const double from[] = {0, 1.9, -1.9, 127, 127.9, 128, -128, -129, 1e30, -1e30};
    static const int want[] = {0, 1, -1, 127, 127, 127, -128, -128, 127, -128};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        int8_t got;
        orr_dtype_store(ORR_DTYPE_I8, &got, 0, from[i]);
        assert_int_equal(got, want[i]);
    }
    int8_t got = 5;
    orr_dtype_store(ORR_DTYPE_I8, &got, 0, (double)NAN);
    assert_int_equal(got, 0);
    for (int value = -128; value < 128; value++) {
        int8_t code = (int8_t)value, back;
        int64_t wide;
        float single;
        orr_dtype_convert(ORR_DTYPE_I64, &wide, ORR_DTYPE_I8, &code, 1);
        orr_dtype_convert(ORR_DTYPE_F32, &single, ORR_DTYPE_I8, &code, 1);
        orr_dtype_convert(ORR_DTYPE_I8, &back, ORR_DTYPE_I64, &wide, 1);
        assert_true(wide == value && single == (float)value && back == value);
    }
}

static void storage_dtypes_are_no_floats_to_compute_with(void **state) {
    (void)state;
    for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
        bool storage = orr_dtype_is_storage((enum orr_dtype)dtype);
        assert_int_equal(storage, dtype >= ORR_DTYPE_I8);
        assert_false(storage && orr_dtype_is_float((enum orr_dtype)dtype));
        if (storage)
            assert_int_equal(orr_dtype_size((enum orr_dtype)dtype), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_converts_to_its_value_and_back),
        cmocka_unit_test(values_between_codes_round_to_nearest_even_once),
        cmocka_unit_test(what_is_too_large_saturates),
        cmocka_unit_test(random_bits_of_f32_round_like_the_slow_search),
        cmocka_unit_test(whole_numbers_round_once),
        cmocka_unit_test(i8_truncates_and_saturates),
        cmocka_unit_test(storage_dtypes_are_no_floats_to_compute_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
