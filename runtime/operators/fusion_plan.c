/* Which calls become one kernel.
 *
 * While planning, the group whose last call is i lies at out_groups[i]; a call that joins it moves
 * it to its own place. So the place of a value says at once whether it is still a group's result,
 * and squeezing out the empty places at the end gives the order in which groups can run. */
#include <assert.h>
#include <string.h>

#include "runtime/operators/fused.h"
#include "runtime/operators/operators_internal.h"

/* Number of calls that read each value made in the list; a call that reads it twice counts once. */
static void count_readers(const struct orr_fusion_call *calls, int count, int *out_readers) {
    memset(out_readers, 0, (size_t)count * sizeof *out_readers);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < calls[i].input_count; j++) {
            int value = calls[i].inputs[j];
            bool repeated = false;
            for (int k = 0; k < j; k++)
                repeated = repeated || calls[i].inputs[k] == value;
            assert(value < i);
            if (value >= 0 && !repeated)
                out_readers[value]++;
        }
}

static bool is_product(const struct orr_fusion_call *calls, int call) {
    return calls[call].op->class == ORR_OPERATOR_GEMM;
}

/* Can a call be in a group of two or more? */
static bool is_fusible(const struct orr_fusion_call *call, enum orr_fusion_mode mode) {
    if (call->op->class == ORR_OPERATOR_GEMM)
        return mode == ORR_FUSION_EPILOGUE;
    return call->op->class == ORR_OPERATOR_POINTWISE && mode != ORR_FUSION_OFF;
}

static bool group_holds(const struct orr_fusion_group *group, int call) {
    for (int i = 0; i < group->call_count; i++)
        if (group->calls[i] == call)
            return true;
    return false;
}

/* Collects the distinct values that a group reads from memory; returns their number, which may be
 * larger than `max`, the room in out_values. */
static int collect_operands(const struct orr_fusion_call *calls,
                            const struct orr_fusion_group *group, int max, int *out_values,
                            struct orr_operand_info *out_infos) {
    int found = 0;
    for (int i = 0; i < group->call_count; i++) {
        const struct orr_fusion_call *call = &calls[group->calls[i]];
        for (int j = 0; j < call->input_count; j++) {
            int value = call->inputs[j];
            bool known = value >= 0 && group_holds(group, value);
            for (int k = 0; k < found && k < max; k++)
                known = known || out_values[k] == value;
            if (known)
                continue;
            if (found < max) {
                out_values[found] = value;
                if (out_infos)
                    out_infos[found] = call->operands[j];
            }
            found++;
        }
    }
    return found;
}

/* Joins two groups in program order, a product first. Returns false, and leaves *out as it was, if
 * the result would be no kernel: two products, or too many stages or operands. */
static bool join(const struct orr_fusion_call *calls, const struct orr_fusion_group *a,
                 const struct orr_fusion_group *b, struct orr_fusion_group *out) {
    if (a->call_count + b->call_count > ORR_FUSED_STAGES_MAX)
        return false;
    if (is_product(calls, a->calls[0]) && is_product(calls, b->calls[0]))
        return false;
    struct orr_fusion_group joined = {.call_count = 0};
    int of_a = 0, of_b = 0;
    while (of_a < a->call_count || of_b < b->call_count) {
        bool take_a = of_b == b->call_count;
        if (!take_a && of_a < a->call_count) {
            bool product = is_product(calls, a->calls[of_a]);
            bool other_product = is_product(calls, b->calls[of_b]);
            take_a = product || (!other_product && a->calls[of_a] < b->calls[of_b]);
        }
        joined.calls[joined.call_count++] = take_a ? a->calls[of_a++] : b->calls[of_b++];
    }
    int values[ORR_FUSED_OPERANDS_MAX];
    if (collect_operands(calls, &joined, ORR_FUSED_OPERANDS_MAX, values, NULL) >
        ORR_FUSED_OPERANDS_MAX)
        return false;
    *out = joined;
    return true;
}

/* Lets call `index` join the groups that make its operands. */
static void place_call(const struct orr_fusion_call *calls, int index, enum orr_fusion_mode mode,
                       const int *readers, struct orr_fusion_group *groups) {
    const struct orr_fusion_call *call = &calls[index];
    groups[index] = (struct orr_fusion_group){.call_count = 1, .calls = {index}};
    if (!is_fusible(call, mode) || is_product(calls, index))
        return;
    for (int i = 0; i < call->input_count; i++) {
        int value = call->inputs[i];
        if (value < 0 || groups[value].call_count == 0)
            continue;
        const struct orr_fusion_call *maker = &calls[value];
        bool fits = is_fusible(maker, mode) && readers[value] == 1 && !maker->kept &&
                    maker->result.dtype == call->result.dtype &&
                    orr_shape_equal(&maker->result.shape, &call->result.shape);
        if (fits && join(calls, &groups[value], &groups[index], &groups[index]))
            groups[value].call_count = 0;
    }
}

enum orr_status orr_fusion_plan(const struct orr_fusion_call *calls, int count,
                                enum orr_fusion_mode mode, const struct orr_memory *memory,
                                struct orr_fusion_group *out_groups, int *out_group_count,
                                struct orr_error *error) {
    *out_group_count = 0;
    int *readers = orr_memory_alloc(memory, (size_t)count * sizeof *readers);
    if (!readers)
        return orr_error_set(error, ORR_NO_MEMORY, "fusion: no host memory for %d calls", count);
    count_readers(calls, count, readers);
    for (int i = 0; i < count; i++)
        place_call(calls, i, mode, readers, out_groups);
    for (int i = 0; i < count; i++)
        if (out_groups[i].call_count > 0)
            out_groups[(*out_group_count)++] = out_groups[i];
    orr_memory_free(memory, readers);
    return ORR_OK;
}

/* The slot of a value: an operand's, or that of the stage that makes it. */
static int slot_of(const struct orr_fusion_group *group, int value, const int *operands,
                   int operand_count) {
    for (int i = 0; i < group->call_count; i++)
        if (group->calls[i] == value)
            return operand_count + i;
    int slot = 0;
    while (operands[slot] != value)
        slot++;
    return slot;
}

void orr_fusion_build(const struct orr_fusion_call *calls, const struct orr_fusion_group *group,
                      struct orr_fused *out_fused, int *out_values,
                      struct orr_operand_info *out_infos) {
    *out_fused = (struct orr_fused){.stage_count = group->call_count};
    out_fused->operand_count =
        collect_operands(calls, group, ORR_FUSED_OPERANDS_MAX, out_values, out_infos);
    assert(out_fused->operand_count <= ORR_FUSED_OPERANDS_MAX);
    for (int i = 0; i < group->call_count; i++) {
        const struct orr_fusion_call *call = &calls[group->calls[i]];
        struct orr_fused_stage *stage = &out_fused->stages[i];
        stage->op = call->op;
        stage->attributes = *call->attributes;
        stage->input_count = call->input_count;
        for (int j = 0; j < call->input_count; j++)
            stage->inputs[j] =
                slot_of(group, call->inputs[j], out_values, out_fused->operand_count);
    }
}
