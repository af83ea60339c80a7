/* Element types of tensors, and the conversions that simulation, CPU threads and tests share.
 *
 * f16 is IEEE 754 binary16, bf16 the upper half of binary32; both round to nearest, ties to even,
 * and keep NaN a NaN. bool is one byte, 0 or 1.
 *
 * f8e4m3 and f8e5m2 are the 8-bit floats of Micikevicius et al., "FP8 formats for deep learning"
 * (2022), and of OCP's OFP8 specification: e4m3 has no infinity, one NaN (for each sign), and
 * reaches 448; e5m2 is the upper half of a binary16 and reaches 57344. They round to nearest, ties
 * to even, and saturate: what is too large, infinity too, becomes the largest finite number, as in
 * OCP's saturating mode and cuda_fp8.h's __NV_SATFINITE; NaN stays NaN.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_DTYPE_H
#define ORR_RUNTIME_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/status.h"

/* X(name, text, bytes) */
#define ORR_DTYPE_LIST(X)                                                                          \
    X(F64, "f64", 8)                                                                               \
    X(F32, "f32", 4)                                                                               \
    X(F16, "f16", 2)                                                                               \
    X(BF16, "bf16", 2)                                                                             \
    X(I32, "i32", 4)                                                                               \
    X(I64, "i64", 8)                                                                               \
    X(BOOL, "bool", 1)                                                                             \
    X(I8, "i8", 1)                                                                                 \
    X(F8E4M3, "f8e4m3", 1)                                                                         \
    X(F8E5M2, "f8e5m2", 1)

enum orr_dtype {
#define ORR_DTYPE_ENUM(name, text, bytes) ORR_DTYPE_##name,
    ORR_DTYPE_LIST(ORR_DTYPE_ENUM)
#undef ORR_DTYPE_ENUM
        ORR_DTYPE_COUNT,
    ORR_DTYPE_NONE = 255 /* no element type: commands that are not tensor work */
};

/* Bytes of one element. */
size_t orr_dtype_size(enum orr_dtype dtype);

/* "bf16" and so on; "none" for ORR_DTYPE_NONE. Static storage. */
const char *orr_dtype_name(enum orr_dtype dtype);

/* Finds a dtype by name. Returns ORR_INVALID for an unknown one and leaves *out_dtype alone. */
enum orr_status orr_dtype_parse(const char *name, enum orr_dtype *out_dtype) ORR_MUST_CHECK;

/* True for f64, f32, f16, bf16: the floats that operators compute with. */
int orr_dtype_is_float(enum orr_dtype dtype);

/* True for i8, f8e4m3, f8e5m2: they hold quantized values and are only moved and converted; no
 * operator or reducing collective computes with them. */
int orr_dtype_is_storage(enum orr_dtype dtype);

/* The value of 16 bits; exact. */
float orr_f32_from_f16(uint16_t bits);
float orr_f32_from_bf16(uint16_t bits);

/* The nearest 16-bit float, ties to even; too large is infinity, a NaN is a quiet NaN. */
uint16_t orr_f16_from_f32(float value);
uint16_t orr_bf16_from_f32(float value);

/* The value of an 8-bit float; exact. */
float orr_f32_from_f8e4m3(uint8_t bits);
float orr_f32_from_f8e5m2(uint8_t bits);

/* The nearest 8-bit float, ties to even, saturating; a NaN is a quiet NaN with its sign. */
uint8_t orr_f8e4m3_from_f32(float value);
uint8_t orr_f8e5m2_from_f32(float value);

/* Converts `count` elements between any two dtypes. Float to integer truncates toward zero and
 * saturates (NaN becomes 0), a wider integer to i32 or i8 saturates; anything to bool is "not
 * zero". Each result is rounded once: f64 and i64 do not go through f32 on their way to a narrower
 * float. `from` and `to` may not overlap unless they are equal and the dtypes have the same size.
 */
void orr_dtype_convert(enum orr_dtype to_dtype, void *to, enum orr_dtype from_dtype,
                       const void *from, size_t count);

/* Reads element `index` of an array as f64 (i64 beyond 2^53 loses digits). */
double orr_dtype_load(enum orr_dtype dtype, const void *array, size_t index);

/* Writes element `index` of an array from f64, with the rules of orr_dtype_convert. */
void orr_dtype_store(enum orr_dtype dtype, void *array, size_t index, double value);

#endif
