/* Every allocation of a tensor program failing in turn: operators, redistribution, futures, fusion,
 * capture and replay give back what they took and say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/region.h"
#include "sim/sim.h"
#include "tests/support.h"

enum { SIZE = 8, COUNT = SIZE * SIZE };

/* What the program is doing; a failed step ends it. */
struct program {
    struct orr_runtime *runtime;
    enum orr_status status;
};

static struct orr_tensor *apply(struct program *p, const char *name, struct orr_tensor *a,
                                struct orr_tensor *b) {
    const struct orr_operator *op = orr_operator_find(name);
    struct orr_attributes attributes;
    struct orr_tensor *inputs[2] = {a, b}, *out = NULL;
    bool source = op->class == ORR_OPERATOR_SOURCE;
    if (p->status != ORR_OK) {
        return NULL;
    }
    orr_operator_defaults(op, &attributes);
    if (source) {
        attributes.values[orr_operator_attribute(op, "shape")].shape =
            orr_shape_of(2, (int64_t[]){SIZE, SIZE});
    }
    p->status = orr_tensor_apply(p->runtime, op, inputs,
                                 source ? 0
                                 : b    ? 2
                                        : 1,
                                 &attributes, NULL, &out);
    assert_true((p->status == ORR_OK) == (out != NULL));
    return out;
}

static void read_back(struct program *p, struct orr_tensor *tensor) {
    struct orr_future *future = NULL;
    float values[COUNT];
    if (p->status == ORR_OK) {
        p->status = orr_tensor_future(tensor, &future);
    }
    if (p->status == ORR_OK) {
        p->status = orr_future_get(future, values, sizeof values);
    }
    orr_future_destroy(&future);
}

/* relu(x y) + x, with intermediates freed on the way. */
static enum orr_status traced(void *context, struct orr_tensor *const *inputs, int count,
                              struct orr_tensor **outputs, int max, int *out_count) {
    struct program *p = context;
    (void)count;
    (void)max;
    struct orr_tensor *product = apply(p, "matmul", inputs[0], inputs[1]);
    struct orr_tensor *positive = apply(p, "relu", product, NULL);
    struct orr_tensor *sum = apply(p, "add", positive, inputs[0]);
    orr_tensor_destroy(&product);
    orr_tensor_destroy(&positive);
    outputs[0] = sum;
    *out_count = sum ? 1 : 0;
    return p->status;
}

static void call(struct program *p, struct orr_compiled *compiled, struct orr_tensor *x,
                 struct orr_tensor *y) {
    struct orr_tensor *inputs[2] = {x, y}, *out = NULL;
    int count = 0;
    if (p->status != ORR_OK) {
        return;
    }
    p->status = orr_compiled_call(compiled, inputs, 2, traced, p, &out, 1, &count);
    assert_int_equal(count, p->status == ORR_OK ? 1 : 0);
    read_back(p, out);
    orr_tensor_destroy(&out);
}

static void shuffle(struct program *p, struct orr_tensor *x) {
    struct orr_tensor *cut = NULL, *whole = NULL;
    if (p->status != ORR_OK) {
        return;
    }
    struct orr_layout layout = *orr_tensor_layout(x), shards = layout;
    shards.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 1};
    p->status = orr_tensor_redistribute(x, &shards, &cut);
    if (p->status == ORR_OK) {
        p->status = orr_tensor_redistribute(cut, &layout, &whole);
    }
    orr_tensor_destroy(&cut);
    orr_tensor_destroy(&whole);
}

static void run(struct memory_counting *memory, void *context) {
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct orr_error error = {0};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 2};
    struct program p = {0};
    (void)context;
    p.status = orr_runtime_create(&config, &p.runtime, &error);
    if (p.status != ORR_OK) {
        assert_null(p.runtime);
        return;
    }
    struct orr_compiled *compiled = NULL;
    struct orr_tensor *x = apply(&p, "randn", NULL, NULL), *y = apply(&p, "ones", NULL, NULL);
    struct orr_tensor *sum = apply(&p, "add", x, y), *other = apply(&p, "neg", x, NULL);
    read_back(&p, sum);
    shuffle(&p, x);
    if (p.status == ORR_OK) {
        p.status = orr_compiled_create(p.runtime, "block", ORR_FUSION_EPILOGUE, true, &compiled);
    }
    call(&p, compiled, x, y);     /* captures */
    call(&p, compiled, x, y);     /* replays */
    call(&p, compiled, other, y); /* captures with private operands */
    call(&p, compiled, x, y);     /* replays, copying them */
    if (p.status == ORR_OK) {
        p.status = orr_runtime_finish(p.runtime);
    }
    if (p.status != ORR_OK) {
        /* A kernel that got no scratch memory fails on its device. */
        assert_true(p.status == ORR_NO_MEMORY || p.status == ORR_DEVICE_FAILED);
        assert_true(orr_runtime_error(p.runtime)->text[0] != '\0');
    }
    /* Half of it is left to the runtime to free. */
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&sum);
    orr_runtime_destroy(&p.runtime);
}

static void any_allocation_of_a_tensor_program_may_fail(void **state) {
    (void)state;
    size_t requests = fail_each_request(run, NULL);
    print_message("# %zu requests\n", requests);
    assert_true(requests > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_of_a_tensor_program_may_fail)};
    return cmocka_run_group_tests_name("tensor oom", tests, NULL, NULL);
}
