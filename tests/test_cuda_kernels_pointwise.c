/* CUDA kernels of pointwise operators, of chains of them, and of dropout's masks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_kernel_fixture.h"

static const enum orr_dtype numbers[] = {ORR_DTYPE_F32, ORR_DTYPE_BF16, ORR_DTYPE_F16,
                                         ORR_DTYPE_F64, ORR_DTYPE_I32,  ORR_DTYPE_I64};
enum { NUMBERS = sizeof numbers / sizeof numbers[0], FLOATS = 4 };

static bool takes(const struct orr_operator *op, enum orr_dtype dtype) {
    struct orr_operand_info in[2] = {{dtype, shape1(1)}, {dtype, shape1(1)}}, out[1];
    struct orr_attributes attributes;
    orr_operator_defaults(op, &attributes);
    return op->infer(in, op->inputs_min, &attributes, out, NULL) == ORR_OK;
}

/* What a logarithm or a root takes is positive. */
static struct orr_tensor_view operand(struct random *random, const struct orr_operator *op,
                                      enum orr_dtype dtype, struct orr_shape shape) {
    bool positive = strcmp(op->name, "log") == 0 || strcmp(op->name, "sqrt") == 0;
    struct orr_tensor_view x = tensor_random(dtype, shape, random, positive ? 0.1 : -4, 4);
    if (tensor_count(&x) > 8) /* an edge of relu and maximum */
        orr_dtype_store(dtype, x.data, 7, positive ? 1 : 0);
    return x;
}

static void fill_attributes(struct call *call) {
    if (strcmp(call->op->name, "scale") == 0)
        call_real(call, "alpha", 0.3);
    if (strcmp(call->op->name, "dropout") == 0)
        call_int(call, "seed", 77);
}

static void every_operator_in_every_dtype(void **state) {
    static const int64_t sizes[] = {0, 1, 3, 4, 31, 33, 1000};
    struct random random = random_seeded();
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        if (op->class != ORR_OPERATOR_POINTWISE)
            continue;
        for (size_t d = 0; d < NUMBERS; d++)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && takes(op, numbers[d]); s++) {
                struct call call = call_open(op->name);
                for (int j = 0; j < op->inputs_min; j++)
                    call_input(&call, operand(&random, op, numbers[d], shape1(sizes[s])));
                fill_attributes(&call);
                /* The same functions of the same libm: no difference at all. */
                kernel_check_within(*state, &call, 0);
                call_close(&call);
            }
    }
}

static void what_is_no_number_comes_through(void **state) {
    static const char *const names[] = {"relu", "maximum", "relu_backward", "maximum_backward",
                                        "gelu", "exp"};
    struct random random = random_seeded();
    for (size_t i = 0; i < 6 * FLOATS; i++) {
        struct call call = call_open(names[i % 6]);
        for (int j = 0; j < call.op->inputs_min; j++) {
            struct orr_tensor_view x = operand(&random, call.op, numbers[i / 6], shape1(9));
            orr_dtype_store(x.dtype, x.data, (size_t)j, (double)NAN);
            orr_dtype_store(x.dtype, x.data, (size_t)j + 3, (double)INFINITY);
            orr_dtype_store(x.dtype, x.data, (size_t)j + 5, -(double)INFINITY);
            call_input(&call, x);
        }
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

static void integers_wrap_around(void **state) {
    static const char *const names[] = {"add", "sub", "mul", "neg", "maximum"};
    for (size_t i = 0; i < 5 * 2; i++) {
        struct call call = call_open(names[i % 5]);
        enum orr_dtype dtype = i / 5 ? ORR_DTYPE_I64 : ORR_DTYPE_I32;
        for (int j = 0; j < call.op->inputs_min; j++) {
            struct orr_tensor_view x = tensor_make(dtype, shape1(4));
            for (size_t e = 0; e < 4; e++) {
                int64_t value = e < 2 ? INT64_MIN + (int64_t)e : INT64_MAX - (int64_t)e;
                if (dtype == ORR_DTYPE_I64)
                    ((int64_t *)x.data)[e] = value;
                else
                    ((int32_t *)x.data)[e] =
                        e < 2 ? INT32_MIN + (int32_t)e : INT32_MAX - (int32_t)e;
            }
            call_input(&call, x);
        }
        kernel_check(*state, &call);
        call_close(&call);
    }
}

/* Shapes that broadcast: dimensions left out, or 1, on either side. */
static struct orr_shape thinner(struct random *random, struct orr_shape shape) {
    int dropped = random_int(random, 0, 2) ? 0 : (int)random_int(random, 0, shape.rank);
    struct orr_shape out = {.rank = shape.rank - dropped};
    for (int i = 0; i < out.rank; i++)
        out.dims[i] = random_int(random, 0, 2) ? shape.dims[i + dropped] : 1;
    return out;
}

static void operands_broadcast(void **state) {
    static const char *const names[] = {"sub", "mul", "div", "maximum"};
    struct random random = random_seeded();
    for (int round = 0; round < 100; round++) {
        struct call call = call_open(names[round % 4]);
        enum orr_dtype dtype = numbers[round / 4 % (round % 4 == 2 ? FLOATS : NUMBERS)];
        struct orr_shape shape = shape_random(&random, (int)random_int(&random, 0, 5), 6);
        call_input(&call, operand(&random, call.op, dtype, thinner(&random, shape)));
        call_input(&call, operand(&random, call.op, dtype, thinner(&random, shape)));
        if (dtype == ORR_DTYPE_I32 || dtype == ORR_DTYPE_I64 || round % 3)
            kernel_check(*state, &call);
        else
            kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

/* ---- Chains ---- */

struct chain {
    struct orr_fused fused;
    struct orr_tensor_view operands[ORR_FUSED_OPERANDS_MAX];
    struct orr_shape shape;
    enum orr_dtype dtype;
};

static const char *const binary_names[] = {"add", "sub", "mul", "maximum", "relu_backward"};
static const char *const unary_names[] = {"relu", "neg", "scale", "tanh", "dropout", "sigmoid"};

/* An operand of the result's shape, or one that broadcasts to it; its slot. */
static int chain_operand(struct chain *chain, struct random *random, bool whole) {
    int slot = chain->fused.operand_count++;
    struct orr_shape shape = whole ? chain->shape : thinner(random, chain->shape);
    chain->operands[slot] = tensor_random(chain->dtype, shape, random, -2, 2);
    return slot;
}

/* Operand slots come first, so they are all drawn before the stages. */
static struct chain draw_chain(struct random *random, int round) {
    struct chain chain = {.dtype = numbers[round % FLOATS]};
    chain.shape = shape_random(random, (int)random_int(random, 0, 4), 7);
    int operands = (int)random_int(random, 1, ORR_FUSED_OPERANDS_MAX);
    for (int i = 0; i < operands; i++)
        chain_operand(&chain, random, i == 0 || random_int(random, 0, 1));
    chain.fused.stage_count = (int)random_int(random, 1, ORR_FUSED_STAGES_MAX);
    for (int i = 0; i < chain.fused.stage_count; i++) {
        struct orr_fused_stage *stage = &chain.fused.stages[i];
        bool binary = random_int(random, 0, 1);
        const char *name = binary ? binary_names[random_int(random, 0, i == 0 ? 3 : 4)]
                                  : unary_names[random_int(random, 0, 5)];
        stage->op = orr_operator_find(name);
        stage->input_count = binary ? 2 : 1;
        orr_operator_defaults(stage->op, &stage->attributes);
        if (strcmp(name, "scale") == 0)
            stage->attributes.values[0].real = 0.7;
        if (strcmp(name, "dropout") == 0)
            stage->attributes.values[1].integer = i;
        /* One operand is the last result, or the whole first operand; the other is any. */
        int last = i == 0 ? 0 : operands + i - 1;
        bool equal = strcmp(name, "relu_backward") == 0;
        int other = equal && i > 0 ? operands + (int)random_int(random, 0, i - 1)
                                   : (int)random_int(random, 0, operands + i - 1);
        bool swapped = random_int(random, 0, 1);
        stage->inputs[0] = binary && swapped ? other : last;
        stage->inputs[1] = binary && swapped ? last : other;
    }
    return chain;
}

static void check_chain(struct kernel_fixture *fixture, const struct chain *chain, bool in_place) {
    struct orr_tensor_view want = tensor_make(chain->dtype, chain->shape), got = want, operands[16];
    struct orr_error error = {0};
    size_t bytes = (size_t)tensor_count(&want) * orr_dtype_size(chain->dtype);
    if (orr_fused_compute(&chain->fused, chain->operands, &want, &fixture->host.table, &error) !=
        ORR_OK)
        fail_msg("%s", error.text);
    for (int mode = ORR_EMULATED_COLLAPSED; mode <= ORR_EMULATED_BACKWARDS; mode++) {
        got = tensor_make(chain->dtype, chain->shape);
        memset(got.data, 0xff, bytes);
        memcpy(operands, chain->operands, sizeof operands);
        if (in_place) {
            memcpy(got.data, operands[0].data, bytes);
            operands[0].data = got.data;
        }
        struct orr_task task = {
            .kind = ORR_TASK_FUSED,
            .fused = {.fused = &chain->fused, .operands = operands, .result = &got}};
        fixture->emulation.mode = (enum orr_emulated_mode)mode;
        if (kernel_enqueue(fixture, &task, &error) != ORR_OK)
            fail_msg("%s %s", error.text, fixture->error.text);
        for (int64_t i = 0; i < tensor_count(&want); i++)
            if (tensor_at(&got, i) != tensor_at(&want, i))
                fail_msg("chain of %d stages, %s, element %d: got %.9g, expected %.9g",
                         chain->fused.stage_count, orr_dtype_name(chain->dtype), (int)i,
                         tensor_at(&got, i), tensor_at(&want, i));
        tensor_free(&got);
    }
    tensor_free(&want);
}

static void chains_give_what_their_operators_give(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 150; round++) {
        struct chain chain = draw_chain(&random, round);
        check_chain(*state, &chain, round % 3 == 0);
        for (int i = 0; i < chain.fused.operand_count; i++)
            tensor_free(&chain.operands[i]);
    }
}

static void a_chain_of_all_operands_and_stages(void **state) {
    struct random random = random_seeded();
    struct chain chain = {.dtype = ORR_DTYPE_BF16, .shape = shape3(3, 5, 8)};
    for (int i = 0; i < ORR_FUSED_OPERANDS_MAX; i++)
        chain_operand(&chain, &random, i == 0);
    chain.fused.stage_count = ORR_FUSED_STAGES_MAX;
    for (int i = 0; i < ORR_FUSED_STAGES_MAX; i++) {
        struct orr_fused_stage *stage = &chain.fused.stages[i];
        stage->op = orr_operator_find("add");
        stage->input_count = 2;
        stage->inputs[0] = i == 0 ? 0 : ORR_FUSED_OPERANDS_MAX + i - 1;
        stage->inputs[1] = i;
    }
    check_chain(*state, &chain, false);
    check_chain(*state, &chain, true);
    for (int i = 0; i < ORR_FUSED_OPERANDS_MAX; i++)
        tensor_free(&chain.operands[i]);
}

/* ---- Dropout ---- */

static void dropout_keeps_the_same_elements_everywhere(void **state) {
    static const double ps[] = {0, 0.25, 0.5, 1};
    struct random random = random_seeded();
    for (int i = 0; i < 4 * FLOATS * 2; i++) {
        struct call call = call_open(i % 2 ? "dropout_mask" : "dropout");
        bool part = i / 2 % 3 == 1;
        call_input(&call, tensor_random(numbers[i / 2 % FLOATS], shape3(6, 5, 7), &random, -2, 2));
        call_real(&call, "p", ps[i / 8]);
        call_int(&call, "seed", i);
        if (part) {
            call_shape(&call, "global_shape", shape3(9, 6, 7));
            call_shape(&call, "starts", shape3(3, 1, 0));
        }
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

static void masks_are_applied_to_gradients(void **state) {
    struct random random = random_seeded();
    for (size_t i = 0; i < FLOATS; i++) {
        struct call call = call_open("dropout_mask_backward");
        call_input(&call, tensor_random(numbers[i], shape2(13, 11), &random, -2, 2));
        call_input(&call, tensor_make(ORR_DTYPE_BOOL, shape2(13, 11)));
        for (size_t e = 0; e < 13 * 11; e++)
            ((uint8_t *)call.inputs[1].data)[e] = random_int(&random, 0, 1) != 0;
        call_real(&call, "p", 0.3);
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(every_operator_in_every_dtype),
        CASE(what_is_no_number_comes_through),
        CASE(integers_wrap_around),
        CASE(operands_broadcast),
        CASE(chains_give_what_their_operators_give),
        CASE(a_chain_of_all_operands_and_stages),
        CASE(dropout_keeps_the_same_elements_everywhere),
        CASE(masks_are_applied_to_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
