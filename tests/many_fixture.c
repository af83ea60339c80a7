#include "tests/many_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

const struct orr_operator *settle(const struct example *example,
                                  struct orr_attributes *attributes) {
    const struct orr_operator *op = orr_operator_find(example->op);
    if (!op) {
        fail_msg("no operator '%s'", example->op);
    }
    orr_operator_defaults(op, attributes);
    for (int i = 0; i < 4 && example->settings[i].name; i++) {
        const struct setting *setting = &example->settings[i];
        int index = orr_operator_attribute(op, setting->name);
        assert_true(index >= 0);
        attributes->values[index] =
            (struct orr_attribute){setting->integer, setting->real, setting->shape};
    }
    return op;
}

struct many open_example(const struct example *example, enum orr_dtype dtype, struct random *random,
                         double low, double high) {
    struct many call = {.input_count = example->input_count};
    call.op = settle(example, &call.attributes);
    for (int i = 0; i < example->input_count; i++) {
        const struct orr_operand_info *info = &example->inputs[i];
        enum orr_dtype own = info->dtype == F32 ? dtype : info->dtype;
        call.inputs[i] =
            tensor_random(own, info->shape, random, own == I64 ? 0 : low, own == I64 ? 2 : high);
    }
    return call;
}

enum orr_status try_run(struct many *call, const struct orr_memory *memory,
                        struct orr_error *error) {
    struct orr_operand_info infos[INPUTS], results[ORR_OUTPUTS_MAX];
    for (int i = 0; i < call->input_count; i++) {
        infos[i] = (struct orr_operand_info){call->inputs[i].dtype, call->inputs[i].shape};
    }
    enum orr_status status =
        call->op->infer(infos, call->input_count, &call->attributes, results, error);
    if (status != ORR_OK) {
        return status;
    }
    for (int i = 0; i < call->op->outputs; i++) {
        tensor_free(&call->outputs[i]);
        call->outputs[i] = tensor_make(results[i].dtype, results[i].shape);
    }
    return call->op->compute(call->inputs, call->input_count, &call->attributes, call->outputs,
                             memory, error);
}

void run_many(struct many *call) {
    struct counting_memory memory;
    struct orr_error error = {0};
    counting_memory_init(&memory, 0);
    if (try_run(call, &memory.table, &error) != ORR_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(memory.live, 0);
}

void close_many(struct many *call) {
    for (int i = 0; i < call->input_count; i++) {
        tensor_free(&call->inputs[i]);
    }
    for (int i = 0; i < call->op->outputs; i++) {
        tensor_free(&call->outputs[i]);
    }
}

void check_costs(const struct cost_row *rows, int count) {
    for (int i = 0; i < count; i++) {
        const struct example *example = &rows[i].example;
        struct orr_attributes attributes;
        struct orr_operand_info results[ORR_OUTPUTS_MAX];
        struct orr_error error = {0};
        const struct orr_operator *op = settle(example, &attributes);
        if (op->infer(example->inputs, example->input_count, &attributes, results, &error) !=
            ORR_OK) {
            fail_msg("%s", error.text);
        }
        struct orr_cost cost =
            op->cost(example->inputs, example->input_count, &attributes, results);
        if (cost.flops != rows[i].flops || cost.bytes_read != rows[i].bytes_read ||
            cost.bytes_written != rows[i].bytes_written ||
            cost.bytes_broadcast != rows[i].bytes_broadcast || cost.unit != rows[i].unit) {
            fail_msg("row %d, %s: %llu FLOPs, %llu read, %llu written, %llu broadcast, unit %d", i,
                     example->op, (unsigned long long)cost.flops,
                     (unsigned long long)cost.bytes_read, (unsigned long long)cost.bytes_written,
                     (unsigned long long)cost.bytes_broadcast, (int)cost.unit);
        }
    }
}
