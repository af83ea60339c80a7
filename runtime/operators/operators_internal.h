/* What the operator files share: the list of rows, checks with their messages, parts of costs.
 *
 * One file here holds one subject. A row's functions get no pointer to their row, so each names it:
 * orr__operator_<name>. To add an operator, write its row and put its name in the list below.
 *
 * Threads: pure functions and constants. */
#ifndef ORR_RUNTIME_OPERATORS_INTERNAL_H
#define ORR_RUNTIME_OPERATORS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/operator.h"

/* The order of the table. */
#define ORR__OPERATOR_LIST(X)                                                                      \
    X(matmul)                                                                                      \
    X(linear)                                                                                      \
    X(add)                                                                                         \
    X(sub)                                                                                         \
    X(mul)                                                                                         \
    X(div)                                                                                         \
    X(maximum)                                                                                     \
    X(relu)                                                                                        \
    X(gelu)                                                                                        \
    X(silu)                                                                                        \
    X(exp)                                                                                         \
    X(log)                                                                                         \
    X(tanh)                                                                                        \
    X(sigmoid)                                                                                     \
    X(neg)                                                                                         \
    X(scale)                                                                                       \
    X(sqrt)                                                                                        \
    X(dropout)                                                                                     \
    X(softmax)                                                                                     \
    X(layernorm)                                                                                   \
    X(rmsnorm)                                                                                     \
    X(rope)                                                                                        \
    X(sdpa)                                                                                        \
    X(sum)                                                                                         \
    X(mean)                                                                                        \
    X(max)                                                                                         \
    X(argmax)                                                                                      \
    X(embedding)                                                                                   \
    X(cross_entropy)                                                                               \
    X(cast)                                                                                        \
    X(transpose)                                                                                   \
    X(slice)                                                                                       \
    X(concat)                                                                                      \
    X(reshape)                                                                                     \
    X(conv2d)                                                                                      \
    X(groupnorm)                                                                                   \
    X(zeros)                                                                                       \
    X(ones)                                                                                        \
    X(full)                                                                                        \
    X(arange)                                                                                      \
    X(rand)                                                                                        \
    X(randn)                                                                                       \
    X(gather_last)                                                                                 \
    X(scatter_last)                                                                                \
    X(topk)                                                                                        \
    X(dropout_mask)                                                                                \
    X(dropout_mask_backward)                                                                       \
    X(moe_dispatch)                                                                                \
    X(moe_combine)                                                                                 \
    X(moe_dot)                                                                                     \
    X(moe_load)                                                                                    \
    X(sdpa_block)                                                                                  \
    X(sdpa_merge)                                                                                  \
    X(sdpa_block_backward)                                                                         \
    X(relu_backward)                                                                               \
    X(gelu_backward)                                                                               \
    X(silu_backward)                                                                               \
    X(tanh_backward)                                                                               \
    X(sigmoid_backward)                                                                            \
    X(maximum_backward)                                                                            \
    X(softmax_backward)                                                                            \
    X(layernorm_backward)                                                                          \
    X(layernorm_backward_weight)                                                                   \
    X(rmsnorm_backward)                                                                            \
    X(rmsnorm_backward_weight)                                                                     \
    X(rope_backward)                                                                               \
    X(sdpa_backward)                                                                               \
    X(matmul_backward_weight)                                                                      \
    X(unbroadcast)                                                                                 \
    X(expand)                                                                                      \
    X(max_backward)                                                                                \
    X(embedding_backward)                                                                          \
    X(cross_entropy_backward)                                                                      \
    X(pad)                                                                                         \
    X(conv2d_backward_input)                                                                       \
    X(conv2d_backward_weight)                                                                      \
    X(groupnorm_backward)                                                                          \
    X(groupnorm_backward_weight)                                                                   \
    X(quantize)                                                                                    \
    X(dequantize)                                                                                  \
    X(linear_quantized)                                                                            \
    X(kv_append)                                                                                   \
    X(sdpa_decode)                                                                                 \
    X(rope_at)                                                                                     \
    X(sgd)                                                                                         \
    X(sgd_momentum)                                                                                \
    X(adamw)                                                                                       \
    X(adamw_master)                                                                                \
    X(count_nonfinite)

#define ORR__OPERATOR_DECLARE(name) extern const struct orr_operator orr__operator_##name;
ORR__OPERATOR_LIST(ORR__OPERATOR_DECLARE)
#undef ORR__OPERATOR_DECLARE

/* Sets of dtypes, one bit each. */
enum {
    ORR__FLOATS =
        1 << ORR_DTYPE_F64 | 1 << ORR_DTYPE_F32 | 1 << ORR_DTYPE_F16 | 1 << ORR_DTYPE_BF16,
    ORR__INTEGERS = 1 << ORR_DTYPE_I32 | 1 << ORR_DTYPE_I64,
    ORR__NUMBERS = ORR__FLOATS | ORR__INTEGERS,
    ORR__SUMMABLE = ORR__NUMBERS | 1 << ORR_DTYPE_BOOL,
    ORR__ANY = ORR__SUMMABLE | 1 << ORR_DTYPE_I8 | 1 << ORR_DTYPE_F8E4M3 | 1 << ORR_DTYPE_F8E5M2
};

/* Fails with ORR_INVALID and the text "name: x [2, 3] f32 and y [4] f32: <what is wrong>". */
enum orr_status orr__refuse(const struct orr_operator *op, const struct orr_operand_info *inputs,
                            int input_count, struct orr_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Checks the number of operands, that each shape is sound, and that each dtype is in the set. */
enum orr_status orr__check_operands(const struct orr_operator *op,
                                    const struct orr_operand_info *inputs, int input_count,
                                    unsigned dtypes, struct orr_error *error) ORR_MUST_CHECK;

/* The same, and that all dtypes are equal. */
enum orr_status orr__check_same_dtype(const struct orr_operator *op,
                                      const struct orr_operand_info *inputs, int input_count,
                                      unsigned dtypes, struct orr_error *error) ORR_MUST_CHECK;

/* Checks that a result's size fits in int64. */
enum orr_status orr__check_result(const struct orr_operator *op,
                                  const struct orr_operand_info *inputs, int input_count,
                                  const struct orr_operand_info *result,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* Turns a dimension given as -rank .. rank-1 into 0 .. rank-1. */
enum orr_status orr__check_dim(const struct orr_operator *op, const struct orr_operand_info *inputs,
                               int input_count, int64_t dim, int rank, int *out_dim,
                               struct orr_error *error) ORR_MUST_CHECK;

/* The failure of a scratch allocation of `size` bytes. */
enum orr_status orr__no_scratch(const struct orr_operator *op, size_t size,
                                struct orr_error *error);

/* Shape and dtype of a view. */
struct orr_operand_info orr__info(const struct orr_tensor_view *view);

/* Bytes of an operand. */
uint64_t orr__bytes(const struct orr_operand_info *info);

/* Product that stops at UINT64_MAX. */
uint64_t orr__times(uint64_t a, uint64_t b);

/* Adds an operand's bytes to a cost: to bytes_broadcast if it has fewer elements than the result,
 * else to bytes_read. */
void orr__charge_operand(struct orr_cost *cost, const struct orr_operand_info *operand,
                         const struct orr_operand_info *result);

/* Costs of rows with one operand: it is read and the result written; `reduce` does one operation
 * for each element of the operand, `copy` none. */
struct orr_cost orr__cost_reduce(const struct orr_operand_info *inputs, int input_count,
                                 const struct orr_attributes *attributes,
                                 const struct orr_operand_info *outputs);
struct orr_cost orr__cost_copy(const struct orr_operand_info *inputs, int input_count,
                               const struct orr_attributes *attributes,
                               const struct orr_operand_info *outputs);

/* May a tensor of this dtype hold indices? i32 or i64. */
bool orr__is_index(enum orr_dtype dtype);
/* Element `at` of such a tensor. */
static inline int64_t orr__load_index(const struct orr_tensor_view *indices, int64_t at) {
    return indices->dtype == ORR_DTYPE_I32 ? ((const int32_t *)indices->data)[at]
                                           : ((const int64_t *)indices->data)[at];
}

/* Product of dims[from] .. dims[to - 1]. */
int64_t orr__dims_product(const struct orr_shape *shape, int from, int to);

/* Length of a row: the last dimension. */
static inline int64_t orr__row_length(const struct orr_shape *shape) {
    return shape->dims[shape->rank - 1];
}

/* An array as dimensions and strides in elements, walked in row-major order. */
struct orr__strided {
    int rank;
    int64_t dims[ORR_RANK_MAX];
    int64_t strides[ORR_RANK_MAX];
};

/* Row-major strides of a dense array. */
void orr__dense_strides(const struct orr_shape *shape, int64_t *out_strides);

/* Drops dimensions of size 1 and joins neighbours that are one run, without changing the order of
 * elements. An array with a dimension of 0 keeps it. */
void orr__strided_merge(struct orr__strided *array);

/* Offset in elements of the element with row-major index `index`; coordinates go to `out_at`. */
int64_t orr__strided_seek(const struct orr__strided *array, int64_t index, int64_t *out_at);

#endif
