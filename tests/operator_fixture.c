#include "tests/operator_fixture.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Memory ---- */

static void *counting_resize(void *context, void *block, size_t size) {
    struct counting_memory *memory = context;
    if (size == 0) {
        memory->live -= block != NULL;
        free(block);
        return NULL;
    }
    memory->requests++;
    if (memory->fail_at != 0 && memory->requests >= memory->fail_at)
        return NULL;
    void *resized = realloc(block, size);
    memory->live += resized && !block;
    return resized;
}

void counting_memory_init(struct counting_memory *memory, size_t fail_at) {
    *memory = (struct counting_memory){
        .table = {.resize = counting_resize, .context = memory},
        .fail_at = fail_at,
    };
}

/* ---- Random numbers ---- */

struct random random_seeded(void) {
    static bool printed;
    const char *text = getenv("ORR_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    if (!printed)
        print_message("seed %" PRIu64 "\n", seed);
    printed = true;
    return (struct random){.state = seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du};
}

/* xorshift64* (Vigna). Not the library's generator, so that a mistake there isn't shared. */
uint64_t random_bits(struct random *random) {
    uint64_t x = random->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * 0x2545f4914f6cdd1du;
}

int64_t random_int(struct random *random, int64_t low, int64_t high) {
    uint64_t range = (uint64_t)(high - low) + 1;
    return low + (int64_t)((random_bits(random) >> 1) % range);
}

double random_real(struct random *random, double low, double high) {
    return low + (high - low) * ((double)(random_bits(random) >> 11) * 0x1p-53);
}

/* ---- Tensors ---- */

struct orr_tensor_view tensor_make(enum orr_dtype dtype, struct orr_shape shape) {
    size_t bytes = (size_t)orr_shape_count(&shape) * orr_dtype_size(dtype);
    struct orr_tensor_view tensor = {.dtype = dtype, .shape = shape, .data = calloc(1, bytes + 1)};
    assert_non_null(tensor.data);
    return tensor;
}

struct orr_tensor_view tensor_random(enum orr_dtype dtype, struct orr_shape shape,
                                     struct random *random, double low, double high) {
    struct orr_tensor_view tensor = tensor_make(dtype, shape);
    int64_t count = tensor_count(&tensor);
    for (int64_t i = 0; i < count; i++)
        orr_dtype_store(dtype, tensor.data, (size_t)i, random_real(random, low, high));
    return tensor;
}

void tensor_free(struct orr_tensor_view *tensor) {
    free(tensor->data);
    tensor->data = NULL;
}

int64_t tensor_count(const struct orr_tensor_view *tensor) {
    return orr_shape_count(&tensor->shape);
}

double tensor_at(const struct orr_tensor_view *tensor, int64_t index) {
    return orr_dtype_load(tensor->dtype, tensor->data, (size_t)index);
}

bool tensor_equal(const struct orr_tensor_view *a, const struct orr_tensor_view *b) {
    if (a->dtype != b->dtype || !orr_shape_equal(&a->shape, &b->shape))
        return false;
    return memcmp(a->data, b->data, (size_t)tensor_count(a) * orr_dtype_size(a->dtype)) == 0;
}

struct orr_shape shape_random(struct random *random, int rank, int64_t most) {
    struct orr_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++)
        shape.dims[i] = random_int(random, 1, most);
    return shape;
}

struct orr_shape shape1(int64_t a) {
    return orr_shape_of(1, (int64_t[]){a});
}

struct orr_shape shape2(int64_t a, int64_t b) {
    return orr_shape_of(2, (int64_t[]){a, b});
}

struct orr_shape shape3(int64_t a, int64_t b, int64_t c) {
    return orr_shape_of(3, (int64_t[]){a, b, c});
}

struct orr_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return orr_shape_of(4, (int64_t[]){a, b, c, d});
}

/* ---- Operator calls ---- */

struct call call_open(const char *op) {
    struct call call = {.op = orr_operator_find(op)};
    if (!call.op)
        fail_msg("no operator '%s'", op);
    orr_operator_defaults(call.op, &call.attributes);
    return call;
}

void call_input(struct call *call, struct orr_tensor_view tensor) {
    assert_true(call->input_count < ORR_INPUTS_MAX);
    call->inputs[call->input_count++] = tensor;
}

static struct orr_attribute *attribute(struct call *call, const char *name) {
    int index = orr_operator_attribute(call->op, name);
    if (index < 0)
        fail_msg("%s has no attribute '%s'", call->op->name, name);
    return &call->attributes.values[index];
}

void call_int(struct call *call, const char *name, int64_t value) {
    attribute(call, name)->integer = value;
}

void call_real(struct call *call, const char *name, double value) {
    attribute(call, name)->real = value;
}

void call_shape(struct call *call, const char *name, struct orr_shape value) {
    attribute(call, name)->shape = value;
}

static void infos_of(const struct call *call, struct orr_operand_info *out_infos) {
    for (int i = 0; i < call->input_count; i++)
        out_infos[i] = (struct orr_operand_info){call->inputs[i].dtype, call->inputs[i].shape};
}

enum orr_status call_infer(const struct call *call, struct orr_operand_info *out_result,
                           struct orr_error *error) {
    struct orr_operand_info infos[ORR_INPUTS_MAX], results[ORR_OUTPUTS_MAX];
    infos_of(call, infos);
    enum orr_status status =
        call->op->infer(infos, call->input_count, &call->attributes, results, error);
    if (status == ORR_OK)
        *out_result = results[0];
    return status;
}

struct orr_cost call_cost(const struct call *call) {
    struct orr_operand_info infos[ORR_INPUTS_MAX], result;
    struct orr_error error = {0};
    infos_of(call, infos);
    if (call_infer(call, &result, &error) != ORR_OK)
        fail_msg("%s", error.text);
    return call->op->cost(infos, call->input_count, &call->attributes, &result);
}

enum orr_status call_run_with(struct call *call, const struct orr_memory *memory,
                              struct orr_error *error) {
    struct orr_operand_info result;
    enum orr_status status = call_infer(call, &result, error);
    if (status != ORR_OK)
        return status;
    tensor_free(&call->output);
    call->output = tensor_make(result.dtype, result.shape);
    return call->op->compute(call->inputs, call->input_count, &call->attributes, &call->output,
                             memory, error);
}

void call_run(struct call *call) {
    struct counting_memory memory;
    struct orr_error error = {0};
    counting_memory_init(&memory, 0);
    if (call_run_with(call, &memory.table, &error) != ORR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(memory.live, 0);
}

void call_close(struct call *call) {
    for (int i = 0; i < call->input_count; i++)
        tensor_free(&call->inputs[i]);
    tensor_free(&call->output);
}

/* ---- Comparing ---- */

void assert_near(const char *what, int64_t index, double got, double want, double absolute,
                 double relative) {
    if (isnan(want) ? isnan(got) : got == want)
        return;
    if (isfinite(want) && fabs(got - want) <= absolute + relative * fabs(want))
        return;
    fail_msg("%s, element %" PRId64 ": got %.17g, expected %.17g (difference %.3g, allowed %.3g)",
             what, index, got, want, got - want, absolute + relative * fabs(want));
}

double dtype_epsilon(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return 0x1p-52;
    case ORR_DTYPE_F32: return 0x1p-23;
    case ORR_DTYPE_F16: return 0x1p-10;
    case ORR_DTYPE_BF16: return 0x1p-7;
    default: return 0;
    }
}
