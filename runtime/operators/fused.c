#include "runtime/operators/fused.h"

#include <assert.h>

#include "runtime/operators/operators_internal.h"
#include "runtime/operators/pointwise_internal.h"

_Static_assert((int)ORR_FUSED_STAGES_MAX <= (int)ORR__STAGES_MAX, "a kernel fits the engine");
_Static_assert((int)ORR_FUSED_SLOTS_MAX < (int)ORR__SLOTS_MAX, "a kernel fits the engine");

static bool has_product(const struct orr_fused *fused) {
    return fused->stages[0].op->class == ORR_OPERATOR_GEMM;
}

/* Shapes and dtypes of a stage's operands. `slots` holds those known so far. */
static void stage_operands(const struct orr_fused_stage *stage,
                           const struct orr_operand_info *slots,
                           struct orr_operand_info *out_operands) {
    for (int i = 0; i < stage->input_count; i++)
        out_operands[i] = slots[stage->inputs[i]];
}

/* Checks what can be said of a stage without shapes. */
static enum orr_status check_stage(const struct orr_fused *fused, int index,
                                   struct orr_error *error) {
    const struct orr_fused_stage *stage = &fused->stages[index];
    if (!stage->op)
        return orr_error_set(error, ORR_INVALID, "fused: stage %d has no operator", index);
    bool product = stage->op->class == ORR_OPERATOR_GEMM;
    if (!(product && index == 0) && stage->op->class != ORR_OPERATOR_POINTWISE)
        return orr_error_set(error, ORR_INVALID,
                             "fused: stage %d is %s, expected a pointwise operator%s", index,
                             stage->op->name, index == 0 ? " or a matrix product" : "");
    if (stage->input_count < stage->op->inputs_min || stage->input_count > stage->op->inputs_max)
        return orr_error_set(error, ORR_INVALID, "fused: stage %d, %s, has %d operands", index,
                             stage->op->name, stage->input_count);
    for (int i = 0; i < stage->input_count; i++)
        if (stage->inputs[i] < 0 || stage->inputs[i] >= fused->operand_count + index)
            return orr_error_set(
                error, ORR_INVALID, "fused: stage %d, %s, reads slot %d, expected 0 to %d", index,
                stage->op->name, stage->inputs[i], fused->operand_count + index - 1);
    return ORR_OK;
}

enum orr_status orr_fused_infer(const struct orr_fused *fused,
                                const struct orr_operand_info *operands, int operand_count,
                                struct orr_operand_info *out_result, struct orr_error *error) {
    if (fused->stage_count < 1 || fused->stage_count > ORR_FUSED_STAGES_MAX)
        return orr_error_set(error, ORR_INVALID, "fused: %d stages, expected 1 to %d",
                             fused->stage_count, ORR_FUSED_STAGES_MAX);
    if (operand_count != fused->operand_count || operand_count < 1 ||
        operand_count > ORR_FUSED_OPERANDS_MAX)
        return orr_error_set(error, ORR_INVALID, "fused: %d operands given, expected %d",
                             operand_count, fused->operand_count);
    struct orr_operand_info slots[ORR_FUSED_SLOTS_MAX];
    for (int i = 0; i < operand_count; i++)
        slots[i] = operands[i];
    for (int i = 0; i < fused->stage_count; i++) {
        const struct orr_fused_stage *stage = &fused->stages[i];
        struct orr_operand_info inputs[ORR_FUSED_INPUTS_MAX];
        enum orr_status status = check_stage(fused, i, error);
        if (status != ORR_OK)
            return status;
        stage_operands(stage, slots, inputs);
        status = stage->op->infer(inputs, stage->input_count, &stage->attributes,
                                  &slots[operand_count + i], error);
        if (status != ORR_OK)
            return status;
    }
    const struct orr_operand_info *result = &slots[operand_count + fused->stage_count - 1];
    for (int i = 0; i < fused->stage_count; i++) {
        const struct orr_operand_info *between = &slots[operand_count + i];
        char own[ORR_SHAPE_TEXT_MAX], last[ORR_SHAPE_TEXT_MAX];
        if (between->dtype != result->dtype || !orr_shape_equal(&between->shape, &result->shape))
            return orr_error_set(error, ORR_INVALID,
                                 "fused: stage %d, %s, gives %s but the last one %s", i,
                                 fused->stages[i].op->name, orr_shape_text(&between->shape, own),
                                 orr_shape_text(&result->shape, last));
    }
    *out_result = *result;
    return ORR_OK;
}

/* Infos of all slots: every stage's result has the kernel's shape and dtype. */
static void fill_slots(const struct orr_fused *fused, const struct orr_operand_info *operands,
                       const struct orr_operand_info *result, struct orr_operand_info *out_slots) {
    for (int i = 0; i < fused->operand_count; i++)
        out_slots[i] = operands[i];
    for (int i = 0; i < fused->stage_count; i++)
        out_slots[fused->operand_count + i] = *result;
}

static struct orr_cost stage_cost(const struct orr_fused_stage *stage,
                                  const struct orr_operand_info *slots,
                                  const struct orr_operand_info *result) {
    struct orr_operand_info inputs[ORR_FUSED_INPUTS_MAX];
    stage_operands(stage, slots, inputs);
    return stage->op->cost(inputs, stage->input_count, &stage->attributes, result);
}

struct orr_cost orr_fused_cost(const struct orr_fused *fused,
                               const struct orr_operand_info *operands,
                               const struct orr_operand_info *result) {
    struct orr_operand_info slots[ORR_FUSED_SLOTS_MAX];
    bool charged[ORR_FUSED_OPERANDS_MAX] = {false};
    fill_slots(fused, operands, result, slots);
    struct orr_cost cost = {.unit = ORR_UNIT_VECTOR};
    int first = 0;
    if (has_product(fused)) {
        cost = stage_cost(&fused->stages[0], slots, result);
        for (int i = 0; i < fused->stages[0].input_count; i++)
            charged[fused->stages[0].inputs[i]] = true;
        first = 1;
    }
    cost.bytes_written = orr__bytes(result);
    for (int i = first; i < fused->stage_count; i++) {
        const struct orr_fused_stage *stage = &fused->stages[i];
        /* An epilogue runs on the vector units while the next tile is on the matrix units. */
        struct orr_cost traffic = {.flops = first ? 0 : stage_cost(stage, slots, result).flops};
        for (int j = 0; j < stage->input_count; j++) {
            int slot = stage->inputs[j];
            if (slot >= fused->operand_count || charged[slot])
                continue;
            charged[slot] = true;
            orr__charge_operand(&traffic, &slots[slot], result);
        }
        cost = orr_cost_add(cost, traffic);
    }
    return cost;
}

/* The pointwise part as a program for the engine, which gets only the operands that it reads. */
struct pointwise_program {
    struct orr_tensor_view operands[ORR_FUSED_OPERANDS_MAX + 1];
    struct orr__stage stages[ORR_FUSED_STAGES_MAX];
    int operand_count, stage_count;
};

/* The engine's operand for a slot that is in memory: an operand, or the product's result. */
static int engine_operand(struct pointwise_program *program, int *engine_of_slot, int slot,
                          const struct orr_tensor_view *view) {
    if (engine_of_slot[slot] < 0) {
        engine_of_slot[slot] = program->operand_count;
        program->operands[program->operand_count++] = *view;
    }
    return engine_of_slot[slot];
}

static void build_program(const struct orr_fused *fused, int first,
                          const struct orr_tensor_view *operands,
                          const struct orr_tensor_view *result, struct pointwise_program *program) {
    int engine_of_slot[ORR_FUSED_SLOTS_MAX], product_slot = fused->operand_count;
    for (int i = 0; i < ORR_FUSED_SLOTS_MAX; i++)
        engine_of_slot[i] = -1;
    for (int i = first; i < fused->stage_count; i++)
        for (int j = 0; j < fused->stages[i].input_count; j++) {
            int slot = fused->stages[i].inputs[j];
            if (slot < fused->operand_count)
                engine_operand(program, engine_of_slot, slot, &operands[slot]);
            else if (first == 1 && slot == product_slot)
                engine_operand(program, engine_of_slot, slot, result);
        }
    program->stage_count = fused->stage_count - first;
    for (int i = first; i < fused->stage_count; i++)
        engine_of_slot[fused->operand_count + i] = program->operand_count + i - first;
    for (int i = first; i < fused->stage_count; i++) {
        const struct orr_fused_stage *stage = &fused->stages[i];
        program->stages[i - first] = (struct orr__stage){
            .op = stage->op,
            .attributes = &stage->attributes,
            .inputs = {engine_of_slot[stage->inputs[0]],
                       engine_of_slot[stage->inputs[stage->input_count - 1]]},
        };
    }
}

enum orr_status orr_fused_compute(const struct orr_fused *fused,
                                  const struct orr_tensor_view *operands,
                                  const struct orr_tensor_view *result,
                                  const struct orr_memory *memory, struct orr_error *error) {
    assert(fused->stage_count >= 1 && fused->stage_count <= ORR_FUSED_STAGES_MAX);
    int first = has_product(fused) ? 1 : 0;
    if (first == 1) {
        /* The product goes to the result's memory, rounded, and the chain works on it in place. */
        const struct orr_fused_stage *product = &fused->stages[0];
        struct orr_tensor_view inputs[ORR_FUSED_INPUTS_MAX];
        for (int i = 0; i < product->input_count; i++)
            inputs[i] = operands[product->inputs[i]];
        enum orr_status status = product->op->compute(inputs, product->input_count,
                                                      &product->attributes, result, memory, error);
        if (status != ORR_OK || fused->stage_count == 1)
            return status;
    }
    struct pointwise_program program = {.operand_count = 0};
    build_program(fused, first, operands, result, &program);
    return orr__pointwise_run(program.stages, program.stage_count, program.operands,
                              program.operand_count, result, memory, error);
}
