/* Conversions run in blocks of a fixed length, because compilers turn a loop of known length into
 * vector code even at -O2, and a loop of unknown length only beyond it. Scalars and blocks share
 * the same inline functions, so there is one definition of each rounding. */
#include "runtime/dtype.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCK = 64 };

size_t orr_dtype_size(enum orr_dtype dtype) {
    static const unsigned char sizes[ORR_DTYPE_COUNT] = {
#define DTYPE_SIZE(name, text, bytes) [ORR_DTYPE_##name] = bytes,
        ORR_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
    };
    assert(dtype < ORR_DTYPE_COUNT);
    return sizes[dtype];
}

static const char *const names[ORR_DTYPE_COUNT] = {
#define DTYPE_NAME(name, text, bytes) [ORR_DTYPE_##name] = text,
    ORR_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
};

const char *orr_dtype_name(enum orr_dtype dtype) {
    return dtype < ORR_DTYPE_COUNT ? names[dtype] : "none";
}

enum orr_status orr_dtype_parse(const char *name, enum orr_dtype *out_dtype) {
    for (int i = 0; i < ORR_DTYPE_COUNT; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out_dtype = (enum orr_dtype)i;
        return ORR_OK;
    }
    return ORR_INVALID;
}

int orr_dtype_is_float(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_F64 || dtype == ORR_DTYPE_F32 || dtype == ORR_DTYPE_F16 ||
           dtype == ORR_DTYPE_BF16;
}

int orr_dtype_is_storage(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_I8 || dtype == ORR_DTYPE_F8E4M3 || dtype == ORR_DTYPE_F8E5M2;
}

/* ---- One element ---- */

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* All ones if true. Choosing by masks keeps both values' arithmetic unconditional; from `?:` gcc
 * makes a branch here, and the block loops below then stay scalar. */
static inline uint32_t mask_if(bool condition) {
    return 0u - (uint32_t)condition;
}

static inline uint32_t choose(uint32_t mask, uint32_t yes, uint32_t no) {
    return (yes & mask) | (no & ~mask);
}

/* The exponent is rebiased by integer addition, and subnormals are normalised by one exact float
 * subtraction. The method is Fabian Giesen's half_to_float_fast5 (public domain). */
static inline float f32_of_f16(uint16_t half) {
    const uint32_t exponent_mask = 0x7c00u << 13;
    uint32_t bits = (half & 0x7fffu) << 13;
    uint32_t exponent = bits & exponent_mask;
    bits += (127u - 15u) << 23;
    uint32_t special = bits + ((128u - 16u) << 23);
    uint32_t subnormal = bits_of(float_of(bits + (1u << 23)) - float_of(113u << 23));
    bits = choose(mask_if(exponent == exponent_mask), special, bits);
    bits = choose(mask_if(exponent == 0), subnormal, bits);
    return float_of(bits | (half & 0x8000u) << 16);
}

/* After Fabian Giesen's float_to_half_fast3_rtne (public domain): a subnormal result is rounded by
 * the float addition of a magic number whose last place is f16's. A NaN becomes quiet and keeps
 * the top of its payload. Comparisons are signed, which SSE2 has; the sign bit is off by then. */
static inline uint16_t f16_of_f32(float value) {
    const uint32_t magic = ((127u - 15u) + (23u - 10u) + 1u) << 23;
    uint32_t bits = bits_of(value);
    uint32_t sign = bits & 0x80000000u;
    bits ^= sign;
    int32_t magnitude = (int32_t)bits;
    uint32_t quiet = 0x0200u | (bits >> 13 & 0x3ffu);
    uint32_t special = 0x7c00u | (quiet & mask_if(magnitude > 0x7f800000));
    uint32_t subnormal = bits_of(float_of(bits) + float_of(magic)) - magic;
    uint32_t normal = (bits - ((127u - 15u) << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
    uint32_t half = choose(mask_if(magnitude < 113 << 23), subnormal, normal);
    half = choose(mask_if(magnitude >= (127 + 16) << 23), special, half);
    return (uint16_t)(half | sign >> 16);
}

static inline float f32_of_bf16(uint16_t half) {
    return float_of((uint32_t)half << 16);
}

static inline uint16_t bf16_of_f32(float value) {
    uint32_t bits = bits_of(value);
    uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    uint32_t quiet = bits | 0x00400000u;
    bits = (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
    return (uint16_t)(bits >> 16);
}

/* e4m3 in the bits of an f16 is 2^8 too small, because their biases are 7 and 15; what would be an
 * infinity or a NaN in f16 can't come up, since one exponent bit is off. */
static inline float f32_of_f8e4m3(uint8_t bits) {
    uint32_t magnitude = bits_of(f32_of_f16((uint16_t)((bits & 0x7fu) << 7)) * 256);
    uint32_t value = choose(mask_if((bits & 0x7fu) == 0x7fu), 0x7fc00000u, magnitude);
    return float_of(value | (bits & 0x80u) << 24);
}

static inline float f32_of_f8e5m2(uint8_t bits) {
    return f32_of_f16((uint16_t)(bits << 8));
}

/* An 8-bit float with its exponent's bias and this many bits of fraction, as f16_of_f32 above:
 * subnormal results by a magic number, then the largest finite code takes all that is beyond. */
static inline uint8_t f8_of_f32(float value, uint32_t bias, uint32_t fraction, uint32_t largest,
                                uint32_t nan) {
    const uint32_t drop = 23u - fraction, magic = (127u - bias + drop + 1u) << 23;
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 24 & 0x80u;
    bits &= 0x7fffffffu;
    int32_t magnitude = (int32_t)bits;
    uint32_t subnormal = bits_of(float_of(bits) + float_of(magic)) - magic;
    uint32_t half = (1u << (drop - 1)) - 1;
    uint32_t normal = (bits - ((127u - bias) << 23) + half + (bits >> drop & 1u)) >> drop;
    uint32_t small = mask_if(magnitude < (int32_t)(128u - bias) << 23);
    uint32_t code = choose(small, subnormal, normal);
    code = choose(mask_if((int32_t)code > (int32_t)largest), largest, code);
    code = choose(mask_if(magnitude > 0x7f800000), nan, code);
    return (uint8_t)(code | sign);
}

static inline uint8_t f8e4m3_of_f32(float value) {
    return f8_of_f32(value, 7, 3, 0x7e, 0x7f);
}

static inline uint8_t f8e5m2_of_f32(float value) {
    return f8_of_f32(value, 15, 2, 0x7b, 0x7f);
}

/* f64 to f32 with the last bit "sticky" (round to odd): rounding that to a narrower
 * float equals rounding the f64 once, because f32 keeps more than two bits beyond each (Boldo and
 * Melquiond, "When double rounding is odd", 2005). */
static inline float f32_of_f64_to_odd(double value) {
    float nearest = (float)value;
    double back = (double)nearest;
    if (back == value || value != value)
        return nearest;
    uint32_t bits = bits_of(nearest);
    double magnitude = value < 0 ? -value : value;
    double rounded = value < 0 ? -back : back;
    if (rounded > magnitude)
        bits--; /* toward zero; from infinity that is the largest finite f32 */
    return float_of(bits | 1u);
}

/* An i64 in f64, sticky in the same way: beyond 2^53 the lowest bits are folded into bit 11. */
static inline double f64_of_i64_to_odd(int64_t value) {
    uint64_t magnitude = value < 0 ? 0u - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53 != 0 && (magnitude & 0x7ffu) != 0)
        magnitude = (magnitude & ~(uint64_t)0x7ffu) | 0x800u;
    double result = (double)magnitude;
    return value < 0 ? -result : result;
}

static inline int64_t i64_of_f64(double value) {
    if (value != value)
        return 0;
    if (value >= 9223372036854775808.0)
        return INT64_MAX;
    if (value <= -9223372036854775808.0)
        return INT64_MIN;
    return (int64_t)value;
}

static inline int32_t i32_of_i64(int64_t value) {
    if (value > INT32_MAX)
        return INT32_MAX;
    return value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

static inline int8_t i8_of_i64(int64_t value) {
    if (value > INT8_MAX)
        return INT8_MAX;
    return (int8_t)(value < INT8_MIN ? INT8_MIN : value);
}

float orr_f32_from_f16(uint16_t bits) {
    return f32_of_f16(bits);
}

float orr_f32_from_bf16(uint16_t bits) {
    return f32_of_bf16(bits);
}

uint16_t orr_f16_from_f32(float value) {
    return f16_of_f32(value);
}

uint16_t orr_bf16_from_f32(float value) {
    return bf16_of_f32(value);
}

float orr_f32_from_f8e4m3(uint8_t bits) {
    return f32_of_f8e4m3(bits);
}

float orr_f32_from_f8e5m2(uint8_t bits) {
    return f32_of_f8e5m2(bits);
}

uint8_t orr_f8e4m3_from_f32(float value) {
    return f8e4m3_of_f32(value);
}

uint8_t orr_f8e5m2_from_f32(float value) {
    return f8e5m2_of_f32(value);
}

/* ---- Blocks ---- */

/* Defines a direct conversion of an array; `x` in the expression is the source element. */
#define DIRECT(name, to_type, from_type, expression)                                               \
    static void name(void *to_array, const void *from_array, size_t count) {                       \
        to_type *restrict to = to_array;                                                           \
        const from_type *restrict from = from_array;                                               \
        for (; count >= BLOCK; count -= BLOCK, to += BLOCK, from += BLOCK)                         \
            for (int i = 0; i < BLOCK; i++) {                                                      \
                from_type x = from[i];                                                             \
                to[i] = expression;                                                                \
            }                                                                                      \
        for (size_t i = 0; i < count; i++) {                                                       \
            from_type x = from[i];                                                                 \
            to[i] = expression;                                                                    \
        }                                                                                          \
    }

DIRECT(f32_from_f16, float, uint16_t, f32_of_f16(x))
DIRECT(f32_from_bf16, float, uint16_t, f32_of_bf16(x))
DIRECT(f16_from_f32, uint16_t, float, f16_of_f32(x))
DIRECT(bf16_from_f32, uint16_t, float, bf16_of_f32(x))
DIRECT(f64_from_f32, double, float, (double)x)
DIRECT(f32_from_f64, float, double, (float)x)

DIRECT(f64_from_f16, double, uint16_t, (double)f32_of_f16(x))
DIRECT(f64_from_bf16, double, uint16_t, (double)f32_of_bf16(x))
DIRECT(f16_from_f64, uint16_t, double, f16_of_f32(f32_of_f64_to_odd(x)))
DIRECT(bf16_from_f64, uint16_t, double, bf16_of_f32(f32_of_f64_to_odd(x)))
DIRECT(i64_from_f64, int64_t, double, i64_of_f64(x))
DIRECT(i32_from_f64, int32_t, double, i32_of_i64(i64_of_f64(x)))
DIRECT(bool_from_f64, uint8_t, double, x != 0)

DIRECT(i64_from_i32, int64_t, int32_t, x)
DIRECT(i64_from_bool, int64_t, uint8_t, x != 0)
DIRECT(f64_from_i64, double, int64_t, (double)x)
DIRECT(f32_from_i64, float, int64_t, (float)x)
DIRECT(f16_from_i64, uint16_t, int64_t, f16_of_f32(f32_of_f64_to_odd(f64_of_i64_to_odd(x))))
DIRECT(bf16_from_i64, uint16_t, int64_t, bf16_of_f32(f32_of_f64_to_odd(f64_of_i64_to_odd(x))))
DIRECT(i32_from_i64, int32_t, int64_t, i32_of_i64(x))
DIRECT(bool_from_i64, uint8_t, int64_t, x != 0)

DIRECT(f32_from_i8, float, int8_t, (float)x)
DIRECT(i64_from_i8, int64_t, int8_t, x)
DIRECT(i8_from_i64, int8_t, int64_t, i8_of_i64(x))
DIRECT(i8_from_f64, int8_t, double, i8_of_i64(i64_of_f64(x)))

/* Defines what tensors and the middle formats need of an 8-bit float. */
#define F8(name)                                                                                   \
    DIRECT(f32_from_##name, float, uint8_t, f32_of_##name(x))                                      \
    DIRECT(f64_from_##name, double, uint8_t, (double)f32_of_##name(x))                             \
    DIRECT(name##_from_f32, uint8_t, float, name##_of_f32(x))                                      \
    DIRECT(name##_from_f64, uint8_t, double, name##_of_f32(f32_of_f64_to_odd(x)))                  \
    DIRECT(name##_from_i64, uint8_t, int64_t,                                                      \
           name##_of_f32(f32_of_f64_to_odd(f64_of_i64_to_odd(x))))
F8(f8e4m3)
F8(f8e5m2)

typedef void (*direct_fn)(void *to, const void *from, size_t count);

static void copy_f64(void *to, const void *from, size_t count) {
    memcpy(to, from, count * 8);
}

/* Pairs of different sizes that tensors meet all the time. */
static direct_fn find_direct(enum orr_dtype to, enum orr_dtype from) {
    static const direct_fn table[ORR_DTYPE_COUNT][ORR_DTYPE_COUNT] = {
        [ORR_DTYPE_F32] = {[ORR_DTYPE_F16] = f32_from_f16,
                           [ORR_DTYPE_BF16] = f32_from_bf16,
                           [ORR_DTYPE_F64] = f32_from_f64,
                           [ORR_DTYPE_I8] = f32_from_i8,
                           [ORR_DTYPE_F8E4M3] = f32_from_f8e4m3,
                           [ORR_DTYPE_F8E5M2] = f32_from_f8e5m2},
        [ORR_DTYPE_F16] = {[ORR_DTYPE_F32] = f16_from_f32},
        [ORR_DTYPE_BF16] = {[ORR_DTYPE_F32] = bf16_from_f32},
        [ORR_DTYPE_F64] = {[ORR_DTYPE_F32] = f64_from_f32},
        [ORR_DTYPE_F8E4M3] = {[ORR_DTYPE_F32] = f8e4m3_from_f32},
        [ORR_DTYPE_F8E5M2] = {[ORR_DTYPE_F32] = f8e5m2_from_f32},
    };
    return table[to][from];
}

/* The rest goes block by block through f64 (from floats) or i64 (from integers). */
static bool is_real(enum orr_dtype dtype) {
    return orr_dtype_is_float(dtype) || dtype == ORR_DTYPE_F8E4M3 || dtype == ORR_DTYPE_F8E5M2;
}

static const direct_fn to_middle[ORR_DTYPE_COUNT] = {
    [ORR_DTYPE_F64] = copy_f64,           [ORR_DTYPE_F32] = f64_from_f32,
    [ORR_DTYPE_F16] = f64_from_f16,       [ORR_DTYPE_BF16] = f64_from_bf16,
    [ORR_DTYPE_I32] = i64_from_i32,       [ORR_DTYPE_I64] = copy_f64,
    [ORR_DTYPE_BOOL] = i64_from_bool,     [ORR_DTYPE_I8] = i64_from_i8,
    [ORR_DTYPE_F8E4M3] = f64_from_f8e4m3, [ORR_DTYPE_F8E5M2] = f64_from_f8e5m2,
};
static const direct_fn from_f64[ORR_DTYPE_COUNT] = {
    [ORR_DTYPE_F64] = copy_f64,           [ORR_DTYPE_F32] = f32_from_f64,
    [ORR_DTYPE_F16] = f16_from_f64,       [ORR_DTYPE_BF16] = bf16_from_f64,
    [ORR_DTYPE_I32] = i32_from_f64,       [ORR_DTYPE_I64] = i64_from_f64,
    [ORR_DTYPE_BOOL] = bool_from_f64,     [ORR_DTYPE_I8] = i8_from_f64,
    [ORR_DTYPE_F8E4M3] = f8e4m3_from_f64, [ORR_DTYPE_F8E5M2] = f8e5m2_from_f64,
};
static const direct_fn from_i64[ORR_DTYPE_COUNT] = {
    [ORR_DTYPE_F64] = f64_from_i64,       [ORR_DTYPE_F32] = f32_from_i64,
    [ORR_DTYPE_F16] = f16_from_i64,       [ORR_DTYPE_BF16] = bf16_from_i64,
    [ORR_DTYPE_I32] = i32_from_i64,       [ORR_DTYPE_I64] = copy_f64,
    [ORR_DTYPE_BOOL] = bool_from_i64,     [ORR_DTYPE_I8] = i8_from_i64,
    [ORR_DTYPE_F8E4M3] = f8e4m3_from_i64, [ORR_DTYPE_F8E5M2] = f8e5m2_from_i64,
};

void orr_dtype_convert(enum orr_dtype to_dtype, void *to, enum orr_dtype from_dtype,
                       const void *from, size_t count) {
    assert(to_dtype < ORR_DTYPE_COUNT && from_dtype < ORR_DTYPE_COUNT);
    size_t to_size = orr_dtype_size(to_dtype), from_size = orr_dtype_size(from_dtype);
    if (to_dtype == from_dtype) {
        if (to != from && count > 0)
            memcpy(to, from, count * to_size);
        return;
    }
    direct_fn direct = find_direct(to_dtype, from_dtype);
    if (direct) {
        direct(to, from, count);
        return;
    }
    direct_fn second = is_real(from_dtype) ? from_f64[to_dtype] : from_i64[to_dtype];
    union {
        double real[BLOCK];
        int64_t integer[BLOCK];
    } middle;
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t length = count - done < BLOCK ? count - done : BLOCK;
        to_middle[from_dtype](&middle, (const char *)from + done * from_size, length);
        second((char *)to + done * to_size, &middle, length);
    }
}

double orr_dtype_load(enum orr_dtype dtype, const void *array, size_t index) {
    double value;
    orr_dtype_convert(ORR_DTYPE_F64, &value, dtype,
                      (const char *)array + index * orr_dtype_size(dtype), 1);
    return value;
}

void orr_dtype_store(enum orr_dtype dtype, void *array, size_t index, double value) {
    orr_dtype_convert(dtype, (char *)array + index * orr_dtype_size(dtype), ORR_DTYPE_F64, &value,
                      1);
}
