/* Internal to trace/: the inputs of a framework's operator as one line of text.
 *
 * PyTorch's profiler writes shapes, types and values of an operator's arguments in three arrays;
 * this joins them, an item for each argument:
 *
 *     Input Dims        [[16, 559, 1024], [], [], []]
 *     Input type        ["float", "ScalarList", "Scalar", ""]
 *     Concrete Inputs   ["", "[-1]", "True", ""]
 *
 *     f32[16, 559, 1024], [-1], True, -
 *
 *   tensor   its element type and shape: "bf16[8, 64]", "f64[]" of one number; "?[8, 64]" where the
 *            type is not recorded. Types: f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool c64
 *            c128; others "?".
 *   list     of tensors: "(f32[4], f32[8])"
 *   value    as recorded; "-" where it is not, or longer than ORR__INPUT_VALUE_MAX
 *
 * The analyzer derives costs from it (analyzer/imported_cost.h), and people read it as the shape.
 *
 * Threads: pure functions. */
#ifndef ORR_TRACE_IMPORT_OPERATOR_INPUTS_H
#define ORR_TRACE_IMPORT_OPERATOR_INPUTS_H

#include <stddef.h>

#include "runtime/dtype.h"
#include "trace/import/json_lexer.h"

enum { ORR__INPUT_VALUE_MAX = 40, ORR__INPUTS_MAX = 1024 };

/* Pieces of JSON text as they stand in the file; length 0 for an array that is not there.
 *
 * Writes the line into `buffer` of ORR__INPUTS_MAX bytes, with a NUL; returns its length. What does
 * not fit, or is no such array, gives "": better nothing than half of it. */
size_t orr__operator_inputs(struct orr__json_text dims, struct orr__json_text types,
                            struct orr__json_text values, char *buffer);

/* Element type of the first tensor of such a line, ORR_DTYPE_NONE if there is none or it is not one
 * of ours. */
enum orr_dtype orr__operator_dtype(const char *inputs);

#endif
