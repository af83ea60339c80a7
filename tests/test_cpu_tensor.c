/* The same tensor program on simulated devices and on CPU threads: equal bytes.
 *
 * Random graphs of operators on random meshes; the seed is printed and can be set by
 * ORR_TEST_SEED. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/operators/gemm.h"
#include "runtime/region.h"
#include "runtime/splitmix.h"
#include "sim/sim.h"

enum { TENSORS_MAX = 24, SIZE = 16, GRAPHS = 40, STEPS = 16 };

struct program {
    struct orr_memory memory;
    struct orr_runtime *runtime;
    struct orr_tensor *tensors[TENSORS_MAX];
    int count;
};

static uint32_t below(uint64_t *state, uint32_t bound) {
    return (uint32_t)(orr_splitmix_next(state) % bound);
}

static void must(struct program *p, enum orr_status status) {
    if (status != ORR_OK) {
        fail_msg("%s: %s", orr_status_text(status), orr_runtime_error(p->runtime)->text);
    }
}

static void open_program(struct program *p, orr_backend_open open, uint32_t devices,
                         enum orr_runner runner) {
    struct orr_device_spec specs[4];
    memset(specs, 0, sizeof specs);
    for (uint32_t i = 0; i < devices; i++) {
        specs[i].memory_bytes = (uint64_t)1 << 32;
        specs[i].bandwidth = 1000000000000;
        specs[i].peer_bandwidth = 100000000000;
        specs[i].peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32] = 1000000000000;
    }
    *p = (struct program){.memory = orr_memory_system()};
    struct orr_runtime_config config = {.memory = &p->memory,
                                        .open = open,
                                        .specs = specs,
                                        .device_count = devices,
                                        .runner = runner};
    struct orr_error error = {0};
    if (orr_runtime_create(&config, &p->runtime, &error) != ORR_OK) {
        fail_msg("%s", error.text);
    }
}

static struct orr_tensor *apply(struct program *p, const char *name, struct orr_tensor **inputs,
                                int count) {
    const struct orr_operator *op = orr_operator_find(name);
    struct orr_attributes attributes;
    struct orr_tensor *out;
    orr_operator_defaults(op, &attributes);
    must(p, orr_tensor_apply(p->runtime, op, inputs, count, &attributes, NULL, &out));
    return out;
}

static struct orr_tensor *randn(struct program *p, int64_t seed) {
    const struct orr_operator *op = orr_operator_find("randn");
    struct orr_attributes attributes;
    struct orr_tensor *out;
    const int64_t dims[2] = {SIZE, SIZE};
    orr_operator_defaults(op, &attributes);
    attributes.values[orr_operator_attribute(op, "shape")].shape = orr_shape_of(2, dims);
    attributes.values[orr_operator_attribute(op, "seed")].integer = seed;
    must(p, orr_tensor_apply(p->runtime, op, NULL, 0, &attributes, NULL, &out));
    return out;
}

/* One random operator over what is there; the choices come from `state` alone. */
static struct orr_tensor *step(struct program *p, uint64_t *state) {
    static const char *const unary[] = {"relu", "gelu", "softmax", "neg", "tanh"};
    static const char *const binary[] = {"add", "mul", "matmul", "sub", "maximum"};
    struct orr_tensor *in[2] = {p->tensors[below(state, (uint32_t)p->count)],
                                p->tensors[below(state, (uint32_t)p->count)]};
    uint32_t which = below(state, 5);
    if (below(state, 3) == 0) {
        return apply(p, unary[which], in, 1);
    }
    /* Values stay of order one: what a product makes is squashed. */
    struct orr_tensor *wide = apply(p, binary[which], in, 2);
    struct orr_tensor *out = apply(p, "tanh", &wide, 1);
    orr_tensor_destroy(&wide);
    return out;
}

/* A redistribution there and back again, so that collectives take part. */
static void shuffle(struct program *p, uint64_t *state) {
    struct orr_tensor **slot = &p->tensors[below(state, (uint32_t)p->count)], *cut, *back;
    struct orr_layout whole = *orr_tensor_layout(*slot), layout = whole;
    layout.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = (int32_t)below(state, 2)};
    must(p, orr_tensor_redistribute(*slot, &layout, &cut));
    must(p, orr_tensor_redistribute(cut, &whole, &back));
    orr_tensor_destroy(&cut);
    orr_tensor_destroy(slot);
    *slot = back;
}

static void run_graph(struct program *p, uint64_t seed) {
    uint64_t state = seed;
    for (int64_t i = 0; i < 3; i++) {
        p->tensors[p->count] = randn(p, (int64_t)(seed % 1000) + i);
        p->count++;
    }
    for (int i = 0; i < STEPS; i++) {
        p->tensors[p->count] = step(p, &state);
        p->count++;
        if (below(&state, 4) == 0) {
            shuffle(p, &state);
        }
        if (below(&state, 5) == 0) { /* a tensor dies while work on it may be queued */
            orr_tensor_destroy(&p->tensors[0]);
            p->tensors[0] = p->tensors[--p->count];
        }
    }
}

static void read_tensor(struct program *p, struct orr_tensor *tensor, float *values) {
    struct orr_future *future;
    must(p, orr_tensor_future(tensor, &future));
    must(p, orr_future_get(future, values, SIZE * SIZE * sizeof *values));
    orr_future_destroy(&future);
}

static void compare(struct program *sim, struct program *cpu, uint64_t seed) {
    float a[SIZE * SIZE], b[SIZE * SIZE];
    assert_int_equal(sim->count, cpu->count);
    for (int i = 0; i < sim->count; i++) {
        read_tensor(sim, sim->tensors[i], a);
        read_tensor(cpu, cpu->tensors[i], b);
        if (memcmp(a, b, sizeof a) != 0 || a[0] != a[0]) {
            fail_msg("tensor %d of the graph of seed %llu differs: %g and %g", i,
                     (unsigned long long)seed, (double)a[0], (double)b[0]);
        }
    }
}

static void random_graphs_give_equal_bytes_on_sim_and_cpu(void **state) {
    (void)state;
    const char *text = getenv("ORR_TEST_SEED");
    uint64_t first = text ? strtoull(text, NULL, 10) : 1;
    print_message("# seeds %llu and up\n", (unsigned long long)first);
    for (uint64_t seed = first; seed < first + GRAPHS; seed++) {
        struct program sim, cpu;
        uint32_t devices = 1u << (seed % 3);
        enum orr_runner runner = seed % 2 ? ORR_RUNNER_PER_DEVICE : ORR_RUNNER_INLINE;
        open_program(&sim, orr_sim_open, devices, runner);
        open_program(&cpu, orr_cpu_open, devices, runner);
        run_graph(&sim, seed);
        run_graph(&cpu, seed);
        compare(&sim, &cpu, seed);
        must(&sim, orr_runtime_finish(sim.runtime));
        must(&cpu, orr_runtime_finish(cpu.runtime));
        orr_runtime_destroy(&sim.runtime);
        orr_runtime_destroy(&cpu.runtime);
    }
}

static enum orr_status block(void *context, struct orr_tensor *const *inputs, int count,
                             struct orr_tensor **outputs, int max, int *out_count) {
    struct program *p = context;
    (void)max;
    struct orr_tensor *in[2] = {inputs[0], inputs[1]};
    struct orr_tensor *product = apply(p, "matmul", in, count);
    struct orr_tensor *sum[2] = {apply(p, "gelu", &product, 1), inputs[0]};
    struct orr_tensor *wide = apply(p, "add", sum, 2);
    outputs[0] = apply(p, "softmax", &wide, 1);
    *out_count = 1;
    orr_tensor_destroy(&product);
    orr_tensor_destroy(&sum[0]);
    orr_tensor_destroy(&wide);
    return ORR_OK;
}

static void captured_and_replayed_on_threads_the_numbers_stay(void **state) {
    (void)state;
    struct program p;
    open_program(&p, orr_cpu_open, 2, ORR_RUNNER_INLINE);
    struct orr_tensor *in[2] = {randn(&p, 1), randn(&p, 2)}, *eager, *out;
    struct orr_compiled *compiled;
    float wanted[SIZE * SIZE], got[SIZE * SIZE];
    int count;
    must(&p, block(&p, in, 2, &eager, 1, &count));
    read_tensor(&p, eager, wanted);
    must(&p, orr_compiled_create(p.runtime, "block", ORR_FUSION_EPILOGUE, true, &compiled));
    for (int call = 0; call < 20; call++) {
        must(&p, orr_compiled_call(compiled, in, 2, block, &p, &out, 1, &count));
        read_tensor(&p, out, got);
        assert_memory_equal(got, wanted, sizeof got);
        orr_tensor_destroy(&out);
    }
    assert_int_equal(orr_compiled_counts(compiled).replays, 19);
    orr_compiled_destroy(&compiled);
    orr_runtime_destroy(&p.runtime);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_give_equal_bytes_on_sim_and_cpu),
        cmocka_unit_test(captured_and_replayed_on_threads_the_numbers_stay),
    };
    return cmocka_run_group_tests_name("cpu tensor", tests, NULL, NULL);
}
