/* Fused kernels: several operators in one kernel, with the same numbers and less traffic.
 *
 * Two things may be fused, because they are what compilers and libraries do without changing any
 * operand's layout:
 *   - chains (and trees) of pointwise operators over one shape: the results in between stay in
 *     registers;
 *   - with ORR_FUSION_EPILOGUE also a matrix product followed by such a chain: bias, activation and
 *     residual are applied before the product's tile is written.
 * The stages run one after another on each block of elements, and every stage's result is rounded
 * to its dtype as if it had been written, so a fused kernel gives bit for bit what its operators
 * give one by one.
 *
 * A stage's operands are slots: first the fused kernel's own operands, then the stages' results:
 *
 *     relu(x @ w + b):   operands 0 x, 1 w, 2 b;   slots 3, 4, 5 = results of stages 0, 1, 2
 *
 *     struct orr_fused fused = {.operand_count = 3, .stage_count = 3, .stages = {
 *         {.op = matmul, .input_count = 2, .inputs = {0, 1}},
 *         {.op = add,    .input_count = 2, .inputs = {3, 2}},
 *         {.op = relu,   .input_count = 1, .inputs = {4}}}};
 *
 * The planner takes a list of calls in program order and says which of them become one kernel; the
 * runtime then launches one kernel for each group, in the order of the groups:
 *
 *     status = orr_fusion_plan(calls, count, ORR_FUSION_POINTWISE, memory, groups, &group_count,
 *                              &error);
 *     for (int i = 0; i < group_count; i++) {
 *         orr_fusion_build(calls, &groups[i], &fused, values, infos);
 *         orr_fused_cost(&fused, infos, &cost) ...
 *
 * Threads: pure functions; compute is safe on distinct results. */
#ifndef ORR_RUNTIME_FUSED_H
#define ORR_RUNTIME_FUSED_H

#include "runtime/operator.h"

enum {
    ORR_FUSED_STAGES_MAX = 16,
    ORR_FUSED_OPERANDS_MAX = 16,
    ORR_FUSED_INPUTS_MAX = 4, /* of one stage: a product's scale and bias */
    ORR_FUSED_SLOTS_MAX = ORR_FUSED_STAGES_MAX + ORR_FUSED_OPERANDS_MAX
};

struct orr_fused_stage {
    const struct orr_operator *op; /* the first may be of class GEMM, all others are POINTWISE */
    struct orr_attributes attributes;
    int input_count;
    int inputs[ORR_FUSED_INPUTS_MAX]; /* slots, of operands or of earlier stages */
};

/* A plain value: copy it, keep it, no destroy. The last stage's result is the kernel's result. */
struct orr_fused {
    int operand_count;
    int stage_count;
    struct orr_fused_stage stages[ORR_FUSED_STAGES_MAX];
};

/* Shape and dtype of the result. ORR_INVALID names the stage and what is wrong: a stage that may
 * not be fused, a slot that does not exist yet, operands that an operator refuses, or a result in
 * between whose shape differs from the last one's. */
enum orr_status orr_fused_infer(const struct orr_fused *fused,
                                const struct orr_operand_info *operands, int operand_count,
                                struct orr_operand_info *out_result,
                                struct orr_error *error) ORR_MUST_CHECK;

/* Cost for operands that infer accepted: the FLOPs of all stages (behind a product: the product's
 * alone, because an epilogue runs on the vector units in its shadow), the bytes of each operand
 * once (an operand with fewer elements than the result in bytes_broadcast, but a product's two
 * factors always in bytes_read) and of the result; 0 bytes for results in between. MATRIX if a
 * product is in it. */
struct orr_cost orr_fused_cost(const struct orr_fused *fused,
                               const struct orr_operand_info *operands,
                               const struct orr_operand_info *result);

/* Computes the result. Without a product the result may be the memory of an operand of its shape;
 * with one it may not overlap any. Returns what a product's compute returns, or ORR_NO_MEMORY. */
enum orr_status orr_fused_compute(const struct orr_fused *fused,
                                  const struct orr_tensor_view *operands,
                                  const struct orr_tensor_view *result,
                                  const struct orr_memory *memory,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* What the planner may fuse. */
enum orr_fusion_mode {
    ORR_FUSION_OFF,       /* one group for each call */
    ORR_FUSION_POINTWISE, /* pointwise chains */
    ORR_FUSION_EPILOGUE   /* pointwise chains, also behind a matrix product */
};

/* One operator call of a list in program order, in single-assignment form. Values are numbered:
 * 0 .. count - 1 are the calls' results; a negative one is not made by any call in the list, and
 * equal negative numbers are the same tensor. */
struct orr_fusion_call {
    const struct orr_operator *op;           /* with one result */
    const struct orr_attributes *attributes; /* borrowed for the planner and build */
    int input_count;
    int inputs[ORR_INPUTS_MAX];              /* values */
    const struct orr_operand_info *operands; /* of the inputs, borrowed likewise */
    struct orr_operand_info result;
    bool kept; /* somebody outside the list needs the result: it must be written to memory */
};

/* Calls that become one kernel: a matrix product first, the others in program order. The last one's
 * result is the group's. */
struct orr_fusion_group {
    int call_count;
    int calls[ORR_FUSED_STAGES_MAX];
};

/* Assigns every call to one group. A call joins the group that makes one of its operands if both
 * may be fused, that operand is the group's result, nobody else needs it, and shape and dtype stay
 * the same. Groups come in the order of their last calls, and each operand of a group is made by an
 * earlier group or outside the list. `out_groups` has room for `count`. Returns ORR_NO_MEMORY if
 * there is no scratch space. */
enum orr_status orr_fusion_plan(const struct orr_fusion_call *calls, int count,
                                enum orr_fusion_mode mode, const struct orr_memory *memory,
                                struct orr_fusion_group *out_groups, int *out_group_count,
                                struct orr_error *error) ORR_MUST_CHECK;

/* Makes the kernel of a group of two calls or more (one call needs no fused kernel, though a
 * pointwise or product call may be built too). out_values[i] is the value of operand i, and
 * out_infos[i] its shape and dtype; both have room for ORR_FUSED_OPERANDS_MAX. */
void orr_fusion_build(const struct orr_fusion_call *calls, const struct orr_fusion_group *group,
                      struct orr_fused *out_fused, int *out_values,
                      struct orr_operand_info *out_infos);

#endif
