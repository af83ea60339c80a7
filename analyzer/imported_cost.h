/* What an operator of a framework costs, from its name and the shapes of its inputs as the
 * profiler recorded them: the counterpart of what our own operators declare, for traces of others.
 *
 *     struct orr_imported_cost cost;
 *     orr_imported_cost("aten::addmm", "bf16[512], bf16[141, 512], bf16[512, 512], 1, 1", &cost);
 *     if (cost.known) use(cost.flops); else say(cost.why);
 *
 * Known are PyTorch's operators that launch kernels themselves; of those, what their schema
 * (aten/src/ATen/native/native_functions.yaml) and the recorded arguments decide. Everything else
 * is not known, with the reason, and never guessed. Counts are those of this project: a fused
 * multiply-add is two FLOPs; an elementary function, a comparison or an addition is one; each
 * operand is read once and each result written once; an operand with fewer elements than the result
 * is counted in bytes_broadcast.
 *
 *   products      mm bmm addmm baddbmm mv dot linear matmul: 2 m k n a matrix, one more for each
 *                 element that a bias is added to
 *   convolutions  2 N K C/groups prod(R) prod(out), out = (in + 2 pad - dilation (R - 1) - 1) /
 *                 stride + 1; backward: once for each gradient that is asked for
 *   attention     forward 2 b h pairs (d + dv), causal masks counted exactly (aligned at the last
 *                 row and column, as FlashAttention 2 does); backward 2 b h pairs (3 d + 2 dv):
 *                 five products (Dao, "FlashAttention-2", 2023, section 2.3)
 *   elements      as runtime/operators/pointwise.c counts: gelu 5, silu 4, ...; types of results by
 *                 torch's rules of type promotion
 *   rows          reductions 1, softmax 5, layer norm 6 and one each for weight and bias, rms norm
 *                 3
 *   moves         copies, fills, cat, embedding, index_select, gather: bytes alone
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_IMPORTED_COST_H
#define ORR_ANALYZER_IMPORTED_COST_H

#include <stdbool.h>
#include <stdint.h>

struct orr_imported_cost {
    bool known;
    const char *why;  /* static: why it is not known; "" if it is */
    const char *kind; /* static: "gemm", "conv", "attention", "pointwise", "reduction", "norm",
                       * "gather", "copy"; "" for operators that are not known */
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
    uint8_t unit;  /* enum orr_unit */
    uint8_t dtype; /* enum orr_dtype of the operands, ORR_DTYPE_NONE if it is none of ours */
};

/* `inputs` is the line of trace/import/operator_inputs.h. */
void orr_imported_cost(const char *name, const char *inputs, struct orr_imported_cost *out_cost);

#endif
