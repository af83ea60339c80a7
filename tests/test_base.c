/* status, error, memory, dtype, shape, names and cost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cost.h"
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/names.h"
#include "runtime/shape.h"
#include "tests/operator_fixture.h"

/* ---- status and error ---- */

static void each_status_has_its_own_text(void **state) {
    (void)state;
    for (int i = 0; i < ORR_STATUS_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(orr_status_text((enum orr_status)i),
                                    orr_status_text((enum orr_status)j));
    assert_string_equal(orr_status_text(ORR_DEVICE_MEMORY), "out of device memory");
    assert_string_equal(orr_status_text((enum orr_status)999), "unknown status");
}

static void the_first_error_is_kept(void **state) {
    (void)state;
    struct orr_error error = {0};
    assert_int_equal(orr_error_set(&error, ORR_INVALID, "line %d", 7), ORR_INVALID);
    assert_int_equal(orr_error_set(&error, ORR_IO, "later"), ORR_IO);
    assert_int_equal(error.status, ORR_INVALID);
    assert_string_equal(error.text, "line 7");
    assert_int_equal(orr_error_set(NULL, ORR_IO, "nobody listens"), ORR_IO);
    orr_error_clear(&error);
    assert_int_equal(error.status, ORR_OK);
    assert_string_equal(error.text, "");
}

static void a_long_error_is_cut_with_dots_between_characters(void **state) {
    (void)state;
    char text[2 * ORR_ERROR_TEXT_MAX];
    for (size_t shift = 0; shift < 3; shift++) { /* each place of a 3-byte character at the cut */
        size_t used = shift;
        memset(text, 'a', shift);
        while (used + 3 < sizeof text) {
            memcpy(text + used, "\xe2\x82\xac", 3); /* the euro sign */
            used += 3;
        }
        text[used] = '\0';
        struct orr_error error = {0};
        assert_int_equal(orr_error_set(&error, ORR_IO, "%s", text), ORR_IO);
        size_t length = strlen(error.text);
        assert_true(length < ORR_ERROR_TEXT_MAX && length >= ORR_ERROR_TEXT_MAX - 4);
        assert_string_equal(error.text + length - 3, "...");
        assert_int_equal((length - 3 - shift) % 3, 0);
    }
}

static void an_error_is_one_line(void **state) {
    (void)state;
    struct orr_error error = {0};
    assert_int_equal(orr_error_set(&error, ORR_INVALID, "name '%s'", "a\nb\r"), ORR_INVALID);
    assert_string_equal(error.text, "name 'a b '");
}

static void a_prefix_goes_before_an_error_only(void **state) {
    (void)state;
    struct orr_error error = {0};
    orr_error_prefix(&error, "main.lua:%d", 3);
    assert_string_equal(error.text, "");
    assert_int_equal(orr_error_set(&error, ORR_INVALID, "wrong"), ORR_INVALID);
    orr_error_prefix(&error, "main.lua:%d", 3);
    assert_string_equal(error.text, "main.lua:3: wrong");
    for (int i = 0; i < 200; i++)
        orr_error_prefix(&error, "outer %d", i);
    assert_int_equal(strlen(error.text), ORR_ERROR_TEXT_MAX - 1);
    assert_string_equal(error.text + ORR_ERROR_TEXT_MAX - 4, "...");
    assert_memory_equal(error.text, "outer 199: outer 198: ", 22);
}

static void the_nearest_name_is_suggested_if_it_is_near(void **state) {
    (void)state;
    static const char *const names[] = {"device", "devices", "matmul", "relu", "a"};
    assert_string_equal(orr_nearest_name("dvice", names, 5), "device");
    assert_string_equal(orr_nearest_name("mtamul", names, 5), "matmul"); /* neighbours swapped */
    assert_string_equal(orr_nearest_name("ReLU", names, 5), "relu");
    assert_string_equal(orr_nearest_name("matmull", names, 5), "matmul");
    assert_null(orr_nearest_name("softmax", names, 5));
    assert_null(orr_nearest_name("", names, 5));
    assert_null(orr_nearest_name("b", names, 5)); /* nothing of "a" is left in it */
    assert_null(orr_nearest_name("device", names, 0));
}

/* ---- memory ---- */

static void allocations_are_zeroed_and_counted(void **state) {
    (void)state;
    struct counting_memory memory;
    counting_memory_init(&memory, 0);
    unsigned char *block = orr_memory_alloc(&memory.table, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(block[i], 0);
    assert_int_equal((uintptr_t)block % 16, 0);
    block[999] = 7;
    block = orr_memory_resize(&memory.table, block, 100000);
    assert_int_equal(block[999], 7);
    void *empty = orr_memory_alloc(&memory.table, 0);
    assert_non_null(empty);
    char *text = orr_memory_text(&memory.table, "abcdef", 3);
    assert_string_equal(text, "abc");
    assert_int_equal(memory.live, 3);
    orr_memory_free(&memory.table, block);
    orr_memory_free(&memory.table, empty);
    orr_memory_free(&memory.table, text);
    orr_memory_free(&memory.table, NULL);
    assert_int_equal(memory.live, 0);
    struct orr_memory system = orr_memory_system();
    block = orr_memory_alloc(&system, 10);
    assert_non_null(block);
    orr_memory_free(&system, block);
}

static void an_array_grows_by_doubling_up_to_its_maximum(void **state) {
    (void)state;
    struct counting_memory memory;
    counting_memory_init(&memory, 0);
    int *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(
            orr_memory_grow(&memory.table, &items, &capacity, i + 1, sizeof *items, 1000), ORR_OK);
        assert_int_equal(items[i], 0);
        items[i] = (int)i + 1;
    }
    assert_true(memory.requests <= 8);
    assert_int_equal(capacity, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(items[i], i + 1);
    assert_int_equal(orr_memory_grow(&memory.table, &items, &capacity, 1001, sizeof *items, 1000),
                     ORR_NO_MEMORY);
    assert_int_equal(capacity, 1000);
    assert_int_equal(
        orr_memory_grow(&memory.table, &items, &capacity, SIZE_MAX, sizeof *items, SIZE_MAX),
        ORR_NO_MEMORY);
    orr_memory_free(&memory.table, items);
}

static void growth_without_memory_changes_nothing(void **state) {
    (void)state;
    struct counting_memory memory;
    counting_memory_init(&memory, 2);
    int64_t *items = NULL;
    size_t capacity = 0;
    assert_int_equal(orr_memory_grow(&memory.table, &items, &capacity, 3, sizeof *items, 100),
                     ORR_OK);
    int64_t *before = items;
    size_t capacity_before = capacity;
    items[2] = 42;
    assert_int_equal(orr_memory_grow(&memory.table, &items, &capacity, 50, sizeof *items, 100),
                     ORR_NO_MEMORY);
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, capacity_before);
    assert_int_equal(items[2], 42);
    orr_memory_free(&memory.table, items);
    assert_null(orr_memory_text(&memory.table, "x", 1));
    assert_null(orr_memory_alloc(&memory.table, 1));
    assert_int_equal(memory.live, 0);
}

/* ---- dtype ---- */

static void dtypes_have_names_and_sizes(void **state) {
    (void)state;
    for (int i = 0; i < ORR_DTYPE_COUNT; i++) {
        enum orr_dtype dtype = ORR_DTYPE_NONE;
        assert_int_equal(orr_dtype_parse(orr_dtype_name((enum orr_dtype)i), &dtype), ORR_OK);
        assert_int_equal(dtype, i);
    }
    enum orr_dtype dtype = ORR_DTYPE_I32;
    assert_int_equal(orr_dtype_parse("float32", &dtype), ORR_INVALID);
    assert_int_equal(dtype, ORR_DTYPE_I32);
    assert_string_equal(orr_dtype_name(ORR_DTYPE_NONE), "none");
    assert_int_equal(orr_dtype_size(ORR_DTYPE_BF16), 2);
    assert_int_equal(orr_dtype_size(ORR_DTYPE_BOOL), 1);
    assert_int_equal(orr_dtype_size(ORR_DTYPE_F8E4M3), 1);
    assert_true(orr_dtype_is_float(ORR_DTYPE_BF16) && !orr_dtype_is_float(ORR_DTYPE_BOOL));
}

/* Value of a 16-bit float from its definition. */
static double value_of_bits(unsigned bits, int exponent_bits) {
    int fraction_bits = 15 - exponent_bits;
    int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    double fraction = (double)(bits & ((1u << fraction_bits) - 1)) / (1 << fraction_bits);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = bits & 0x8000u ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign *
           (exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias));
}

struct half {
    enum orr_dtype dtype;
    int exponent_bits;
    float (*to_f32)(uint16_t bits);
    uint16_t (*from_f32)(float value);
};

static const struct half halves[] = {
    {ORR_DTYPE_F16, 5, orr_f32_from_f16, orr_f16_from_f32},
    {ORR_DTYPE_BF16, 8, orr_f32_from_bf16, orr_bf16_from_f32},
};

static uint16_t half_from_f64(const struct half *half, double value) {
    uint16_t bits;
    orr_dtype_store(half->dtype, &bits, 0, value);
    return bits;
}

static void every_16_bit_pattern_converts_to_its_value_and_back(void **state) {
    (void)state;
    for (size_t h = 0; h < 2; h++)
        for (unsigned bits = 0; bits < 65536; bits++) {
            double want = value_of_bits(bits, halves[h].exponent_bits);
            float got = halves[h].to_f32((uint16_t)bits);
            uint16_t back = halves[h].from_f32(got);
            uint16_t back_f64 = half_from_f64(&halves[h], want);
            if (isnan(want)) {
                assert_true(isnan(got));
                assert_true(isnan(halves[h].to_f32(back)) && isnan(halves[h].to_f32(back_f64)));
                assert_int_equal(back & 0x8000u, bits & 0x8000u);
                continue;
            }
            if ((double)got != want || back != bits || back_f64 != bits)
                fail_msg("%s %04x: %g, %04x, %04x", orr_dtype_name(halves[h].dtype), bits,
                         (double)got, back, back_f64);
        }
}

/* Between every two neighbours: the middle goes to the even one, a little more or less to the
 * nearer one; from f32 where it holds the middle, and from f64, which must round once. */
static void values_between_halves_round_to_nearest_even(void **state) {
    (void)state;
    for (size_t h = 0; h < 2; h++) {
        int exponent_bits = halves[h].exponent_bits;
        unsigned last = (((1u << exponent_bits) - 1) << (15 - exponent_bits)) - 1; /* largest */
        for (unsigned bits = 0; bits <= last; bits++) {
            double low = value_of_bits(bits, exponent_bits);
            double high = bits == last ? 2 * low - value_of_bits(bits - 1, exponent_bits)
                                       : value_of_bits(bits + 1, exponent_bits);
            double middle = (low + high) / 2;
            unsigned even = bits % 2 == 0 ? bits : bits + 1; /* beyond the largest: infinity */
            const struct half *half = &halves[h];
            assert_int_equal(half_from_f64(half, middle), even);
            assert_int_equal(half_from_f64(half, nextafter(middle, high)), bits + 1);
            assert_int_equal(half_from_f64(half, nextafter(middle, low)), bits);
            assert_int_equal(half_from_f64(half, -middle), even | 0x8000u);
            float single = (float)middle;
            if ((double)single != middle)
                continue;
            assert_int_equal(half->from_f32(single), even);
            assert_int_equal(half->from_f32(nextafterf(single, INFINITY)), bits + 1);
            assert_int_equal(half->from_f32(nextafterf(single, 0)), bits);
        }
    }
}

/* The number a conversion must give, by the rules in dtype.h, computed another way. */
static bool stored_as(enum orr_dtype dtype, const void *element, double value) {
    double got = orr_dtype_load(dtype, element, 0);
    if (dtype == ORR_DTYPE_BOOL)
        return got == (value != 0);
    if (dtype == ORR_DTYPE_I32 || dtype == ORR_DTYPE_I64 || dtype == ORR_DTYPE_I8) {
        int bits = dtype == ORR_DTYPE_I64 ? 63 : dtype == ORR_DTYPE_I32 ? 31 : 7;
        double low = -ldexp(1, bits);
        double high = dtype == ORR_DTYPE_I64 ? 0x1p63 : ldexp(1, bits) - 1;
        return got == (isnan(value) ? 0 : fmin(fmax(trunc(value), low), high));
    }
    return isnan(value) ? isnan(got) : got == value;
}

/* To `fraction` bits behind the first, to the nearest and even, saturating; the values below are
 * no subnormals. tests/test_dtype8.c has all the others. */
static double rounded_to_f8(int fraction, double value) {
    double largest = fraction == 3 ? 448 : 57344;
    if (isnan(value) || value == 0)
        return value;
    if (isinf(value))
        return copysign(largest, value);
    int exponent;
    double digits = ldexp(frexp(value, &exponent), fraction + 1);
    value = ldexp(nearbyint(digits), exponent - fraction - 1);
    return copysign(fmin(fabs(value), largest), value);
}

static void any_dtype_converts_to_any_other_at_any_length(void **state) {
    (void)state;
    static const double values[] = {0,      1,           -1,       2.5,       -3.75,  100,
                                    -127,   65280,       -65280,   0x1p20,    0x1p31, -0x1p40,
                                    0x1p63, (double)NAN, INFINITY, -INFINITY, 0.125,  -0.0};
    enum { COUNT = 203 };
    double source[COUNT];
    struct random random = random_seeded();
    for (int from = 0; from < ORR_DTYPE_COUNT; from++)
        for (int to = 0; to < ORR_DTYPE_COUNT; to++) {
            uint64_t a[COUNT], b[COUNT + 1];
            size_t count = (size_t)random_int(&random, 0, COUNT);
            size_t size = orr_dtype_size((enum orr_dtype)to);
            for (size_t i = 0; i < count; i++) {
                source[i] = values[random_int(&random, 0, sizeof values / sizeof values[0] - 1)];
                orr_dtype_store((enum orr_dtype)from, a, i, source[i]);
                source[i] = orr_dtype_load((enum orr_dtype)from, a, i);
            }
            memset(b, 0xa5, sizeof b);
            orr_dtype_convert((enum orr_dtype)to, b, (enum orr_dtype)from, a, count);
            for (size_t i = 0; i < count; i++) {
                const char *element = (char *)b + i * size;
                double fits = source[i];
                if (to == ORR_DTYPE_F32 || to == ORR_DTYPE_F16 || to == ORR_DTYPE_BF16)
                    fits = (double)(float)fits; /* the largest i32 needs 31 digits */
                if (to == ORR_DTYPE_F16 && fabs(fits) > 65504)
                    fits = copysign(INFINITY, fits);
                if (to == ORR_DTYPE_F8E4M3 || to == ORR_DTYPE_F8E5M2)
                    fits = rounded_to_f8(to == ORR_DTYPE_F8E4M3 ? 3 : 2, fits);
                if (!stored_as((enum orr_dtype)to, element, fits))
                    fail_msg("%s to %s: %g became %g", orr_dtype_name((enum orr_dtype)from),
                             orr_dtype_name((enum orr_dtype)to), source[i],
                             orr_dtype_load((enum orr_dtype)to, element, 0));
            }
            unsigned char guard[8];
            memset(guard, 0xa5, sizeof guard);
            assert_memory_equal((char *)b + count * size, guard, sizeof guard);
        }
}

static void integers_keep_all_digits_and_round_once(void **state) {
    (void)state;
    int64_t big[] = {INT64_MAX, INT64_MIN, ((int64_t)1 << 53) + 1, -((int64_t)1 << 62) - 3};
    int64_t back[4];
    orr_dtype_convert(ORR_DTYPE_I64, back, ORR_DTYPE_I64, big, 4);
    assert_memory_equal(back, big, sizeof big);
    int32_t small[4];
    orr_dtype_convert(ORR_DTYPE_I32, small, ORR_DTYPE_I64, big, 4);
    assert_int_equal(small[0], INT32_MAX);
    assert_int_equal(small[1], INT32_MIN);
    orr_dtype_convert(ORR_DTYPE_I64, back, ORR_DTYPE_I32, small, 2);
    assert_true(back[0] == INT32_MAX && back[1] == INT32_MIN);
    /* Just above the middle of two bf16: through f64 or f32 it would first become the middle. */
    int64_t above = ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1;
    uint16_t bits;
    orr_dtype_convert(ORR_DTYPE_BF16, &bits, ORR_DTYPE_I64, &above, 1);
    assert_true(orr_f32_from_bf16(bits) == 0x1p60f + 0x1p53f);
    above--;
    orr_dtype_convert(ORR_DTYPE_BF16, &bits, ORR_DTYPE_I64, &above, 1);
    assert_true(orr_f32_from_bf16(bits) == 0x1p60f);
    above = -above - 1;
    orr_dtype_convert(ORR_DTYPE_BF16, &bits, ORR_DTYPE_I64, &above, 1);
    assert_true(orr_f32_from_bf16(bits) == -0x1p60f - 0x1p53f);
    float single;
    orr_dtype_convert(ORR_DTYPE_F32, &single, ORR_DTYPE_I64, &above, 1);
    assert_true(single == -0x1p60f - 0x1p52f);
}

static void dtypes_of_one_size_convert_in_place(void **state) {
    (void)state;
    uint16_t values[300];
    for (int i = 0; i < 300; i++)
        values[i] = orr_f16_from_f32((float)i);
    orr_dtype_convert(ORR_DTYPE_BF16, values, ORR_DTYPE_F16, values, 300);
    for (int i = 0; i < 256; i++)
        assert_true(orr_f32_from_bf16(values[i]) == (float)i);
    union {
        double real;
        int64_t integer;
    } wide[130];
    for (int i = 0; i < 130; i++)
        wide[i].real = i - 64.5;
    orr_dtype_convert(ORR_DTYPE_I64, wide, ORR_DTYPE_F64, wide, 130);
    for (int i = 0; i < 130; i++)
        assert_int_equal(wide[i].integer, i <= 64 ? i - 64 : i - 65);
}

/* ---- shape ---- */

static void shapes_are_checked_for_rank_sign_and_size(void **state) {
    (void)state;
    struct orr_error error = {0};
    struct orr_shape shape = shape3(4, 0, 5);
    assert_int_equal(orr_shape_check(&shape, 8, &error), ORR_OK);
    assert_int_equal(orr_shape_count(&shape), 0);
    shape.dims[1] = -2;
    assert_int_equal(orr_shape_check(&shape, 8, &error), ORR_INVALID);
    assert_non_null(strstr(error.text, "dimension 1"));
    assert_non_null(strstr(error.text, "-2"));
    shape = shape2((int64_t)1 << 31, (int64_t)1 << 29);
    assert_int_equal(orr_shape_check(&shape, 4, NULL), ORR_OK);
    assert_int_equal(orr_shape_check(&shape, 8, NULL), ORR_INVALID);
    shape = shape3((int64_t)1 << 62, (int64_t)1 << 62, 0); /* empty, but its strides overflow */
    assert_int_equal(orr_shape_check(&shape, 1, NULL), ORR_INVALID);
    shape.rank = 9;
    assert_int_equal(orr_shape_check(&shape, 1, NULL), ORR_INVALID);
    shape.rank = -1;
    assert_int_equal(orr_shape_check(&shape, 1, NULL), ORR_INVALID);
    shape = orr_shape_of(0, NULL);
    assert_int_equal(orr_shape_check(&shape, 8, NULL), ORR_OK);
    assert_int_equal(orr_shape_count(&shape), 1);
}

static void shapes_broadcast_from_the_right(void **state) {
    (void)state;
    struct orr_shape a = shape3(4, 1, 5), b = shape2(7, 1), want = shape3(4, 7, 5), got;
    assert_int_equal(orr_shape_broadcast(&a, &b, &got), ORR_OK);
    assert_true(orr_shape_equal(&got, &want));
    assert_int_equal(orr_shape_broadcast(&b, &a, &got), ORR_OK);
    assert_true(orr_shape_equal(&got, &want));
    struct orr_shape scalar = orr_shape_of(0, NULL);
    assert_int_equal(orr_shape_broadcast(&a, &scalar, &got), ORR_OK);
    assert_true(orr_shape_equal(&got, &a));
    b = shape1(4);
    assert_int_equal(orr_shape_broadcast(&a, &b, &got), ORR_INVALID);
    a = shape2(1, 0);
    b = shape2(3, 1);
    want = shape2(3, 0);
    assert_int_equal(orr_shape_broadcast(&a, &b, &got), ORR_OK);
    assert_true(orr_shape_equal(&got, &want));
    assert_false(orr_shape_equal(&a, &want));
}

static void shapes_print_as_lists(void **state) {
    (void)state;
    char text[ORR_SHAPE_TEXT_MAX];
    struct orr_shape shape = shape2(4096, 4096);
    assert_string_equal(orr_shape_text(&shape, text), "[4096, 4096]");
    shape = orr_shape_of(0, NULL);
    assert_string_equal(orr_shape_text(&shape, text), "[]");
    shape.rank = ORR_RANK_MAX;
    for (int i = 0; i < ORR_RANK_MAX; i++)
        shape.dims[i] = INT64_MIN;
    assert_int_equal(strlen(orr_shape_text(&shape, text)), 8 * 20 + 7 * 2 + 2);
}

/* ---- names ---- */

static void a_text_has_one_id_in_order_of_first_use(void **state) {
    (void)state;
    struct counting_memory memory;
    struct orr_names *names;
    counting_memory_init(&memory, 0);
    assert_int_equal(orr_names_create(&memory.table, &names), ORR_OK);
    assert_int_equal(orr_names_count(names), 1);
    assert_string_equal(orr_names_text(names, 0), "");
    uint32_t id;
    assert_int_equal(orr_names_intern(names, "relu", 4, &id), ORR_OK);
    assert_int_equal(id, 1);
    assert_int_equal(orr_names_intern(names, "main.lua:12", 8, &id), ORR_OK);
    assert_int_equal(id, 2);
    assert_int_equal(orr_names_intern(names, "relu", 4, &id), ORR_OK);
    assert_int_equal(id, 1);
    assert_int_equal(orr_names_intern(names, "", 0, &id), ORR_OK);
    assert_int_equal(id, 0);
    assert_int_equal(orr_names_intern(names, "a\0b", 3, &id), ORR_OK);
    assert_int_equal(id, 3);
    assert_int_equal(orr_names_intern(names, "a\0c", 3, &id), ORR_OK);
    assert_int_equal(id, 4);
    assert_string_equal(orr_names_text(names, 2), "main.lua");
    assert_string_equal(orr_names_text(names, 5), "");
    assert_string_equal(orr_names_text(names, UINT32_MAX), "");
    assert_int_equal(orr_names_count(names), 5);
    orr_names_destroy(&names);
    assert_null(names);
    orr_names_destroy(&names);
    assert_int_equal(memory.live, 0);
}

static void many_and_long_texts_keep_their_ids_and_places(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_names *names;
    enum { COUNT = 20000, LONG = 100000 };
    assert_int_equal(orr_names_create(&memory, &names), ORR_OK);
    char text[32];
    uint32_t id;
    assert_int_equal(orr_names_intern(names, "first", 5, &id), ORR_OK);
    const char *first = orr_names_text(names, id);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < COUNT; i++) {
            int length = snprintf(text, sizeof text, "name %d", i);
            assert_int_equal(orr_names_intern(names, text, (size_t)length, &id), ORR_OK);
            assert_int_equal(id, i + 2);
            assert_string_equal(orr_names_text(names, id), text);
        }
    assert_ptr_equal(orr_names_text(names, 1), first);
    char *wide = orr_memory_alloc(&memory, LONG);
    memset(wide, 'w', LONG);
    assert_int_equal(orr_names_intern(names, wide, LONG, &id), ORR_OK);
    assert_int_equal(strlen(orr_names_text(names, id)), LONG);
    assert_int_equal(orr_names_count(names), COUNT + 3);
    orr_memory_free(&memory, wide);
    orr_names_destroy(&names);
}

/* Whichever allocation fails: nothing leaks, and the table goes on with what it had. */
static void names_survive_every_failing_allocation(void **state) {
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        struct counting_memory memory;
        struct orr_names *names;
        counting_memory_init(&memory, fail_at);
        enum orr_status status = orr_names_create(&memory.table, &names);
        uint32_t kept = 0;
        for (int i = 0; status == ORR_OK && i < 5000; i++) {
            char text[32];
            uint32_t id;
            int length = snprintf(text, sizeof text, "a rather long text %d", i);
            status = orr_names_intern(names, text, (size_t)length, &id);
            kept += status == ORR_OK;
        }
        if (names) {
            uint32_t id;
            assert_int_equal(orr_names_count(names), kept + 1);
            if (kept > 0) {
                assert_int_equal(orr_names_intern(names, "a rather long text 0", 20, &id), ORR_OK);
                assert_int_equal(id, 1);
            }
        }
        orr_names_destroy(&names);
        assert_int_equal(memory.live, 0);
        if (status == ORR_OK) {
            assert_true(fail_at > 8);
            break;
        }
        assert_int_equal(status, ORR_NO_MEMORY);
    }
}

/* ---- cost ---- */

static void costs_add_up_and_saturate(void **state) {
    (void)state;
    struct orr_cost a = {1, 2, 3, 4, ORR_UNIT_VECTOR}, b = {10, 20, 30, 40, ORR_UNIT_MATRIX};
    struct orr_cost sum = orr_cost_add(a, b);
    assert_true(sum.flops == 11 && sum.bytes_read == 22 && sum.bytes_written == 33);
    assert_true(sum.bytes_broadcast == 44 && sum.unit == ORR_UNIT_MATRIX);
    assert_int_equal(orr_cost_add(a, a).unit, ORR_UNIT_VECTOR);
    a.flops = UINT64_MAX - 5;
    assert_true(orr_cost_add(a, b).flops == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_its_own_text),
        cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(a_long_error_is_cut_with_dots_between_characters),
        cmocka_unit_test(an_error_is_one_line),
        cmocka_unit_test(a_prefix_goes_before_an_error_only),
        cmocka_unit_test(the_nearest_name_is_suggested_if_it_is_near),
        cmocka_unit_test(allocations_are_zeroed_and_counted),
        cmocka_unit_test(an_array_grows_by_doubling_up_to_its_maximum),
        cmocka_unit_test(growth_without_memory_changes_nothing),
        cmocka_unit_test(dtypes_have_names_and_sizes),
        cmocka_unit_test(every_16_bit_pattern_converts_to_its_value_and_back),
        cmocka_unit_test(values_between_halves_round_to_nearest_even),
        cmocka_unit_test(any_dtype_converts_to_any_other_at_any_length),
        cmocka_unit_test(integers_keep_all_digits_and_round_once),
        cmocka_unit_test(dtypes_of_one_size_convert_in_place),
        cmocka_unit_test(shapes_are_checked_for_rank_sign_and_size),
        cmocka_unit_test(shapes_broadcast_from_the_right),
        cmocka_unit_test(shapes_print_as_lists),
        cmocka_unit_test(a_text_has_one_id_in_order_of_first_use),
        cmocka_unit_test(many_and_long_texts_keep_their_ids_and_places),
        cmocka_unit_test(names_survive_every_failing_allocation),
        cmocka_unit_test(costs_add_up_and_saturate),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
