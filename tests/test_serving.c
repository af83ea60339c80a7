/* Attention over a cache: rows go where they belong and nowhere else, in the cache's own memory;
 * each sequence attends as if it were alone; who still looks at the old cache is waited for, and
 * who would see it changed is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/operators/gemm.h"
#include "runtime/region.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"

#define F32 ORR_DTYPE_F32
#define I32 ORR_DTYPE_I32
#define I64 ORR_DTYPE_I64

static double number(int64_t i, int seed) {
    return (double)((i * 37 + 11 * seed) % 101) / 25 - 2;
}

/* Small numbers that depend on their place and on the seed. */
static struct orr_tensor *filled(struct fixture *f, struct orr_shape shape, int seed) {
    static double values[VALUES_MAX];
    for (int64_t i = 0; i < orr_shape_count(&shape); i++) {
        values[i] = number(i, seed);
    }
    return upload(f, F32, shape, values, NULL);
}

static struct orr_tensor *whole(struct fixture *f, enum orr_dtype dtype, int64_t count,
                                const double *values) {
    return upload(f, dtype, dims(1, count, 0, 0, 0), values, NULL);
}

/* The cache afterwards; the others are destroyed. */
static struct orr_tensor *append(struct fixture *f, struct orr_tensor *cache,
                                 struct orr_tensor *rows, struct orr_tensor *positions,
                                 struct orr_tensor *slots) {
    struct op call = op_of("kv_append");
    struct orr_tensor *inputs[4] = {cache, rows, positions, slots};
    struct orr_tensor *result = run(f, &call, inputs, slots ? 4 : 3);
    for (int i = 0; i < 4; i++) {
        orr_tensor_destroy(&inputs[i]);
    }
    return result;
}

static void rows_are_written_where_they_belong(void **state) {
    (void)state;
    struct fixture f;
    static double got[VALUES_MAX];
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *cache =
        append(&f, filled(&f, dims(4, 3, 2, 5, 2), 1), filled(&f, dims(4, 3, 2, 2, 2), 2),
               whole(&f, I32, 3, (double[]){3, -1, 0}), whole(&f, I64, 3, (double[]){2, 0, 1}));
    download(&f, cache, got);
    for (int64_t i = 0; i < 60; i++) {
        int64_t slot = i / 20, head = i / 10 % 2, row = i / 2 % 5, column = i % 2;
        int64_t from = slot == 2 ? 0 : 2, first = slot == 2 ? 3 : 0;
        bool is_new = slot > 0 && row >= first && row < first + 2;
        int64_t at = ((from * 2 + head) * 2 + row - first) * 2 + column;
        assert_true((float)got[i] == (float)(is_new ? number(at, 2) : number(i, 1)));
    }
    orr_tensor_destroy(&cache);
    fixture_close(&f);
}

/* The result on the device of a sequence: k and v's first `length` rows, with sdpa. */
static struct orr_tensor *alone(struct fixture *f, struct orr_tensor *q, struct orr_tensor *k,
                                struct orr_tensor *v, int64_t i, int64_t slot, int64_t length) {
    struct orr_tensor *all[3] = {q, k, v}, *cut[3];
    for (int part = 0; part < 3; part++) {
        struct op slice = op_of("slice");
        struct orr_shape shape = tensor_shape(all[part]);
        int64_t first = part == 0 ? i : slot, rows = part == 0 ? shape.dims[2] : length;
        at(&slice, "starts")->shape = dims(4, first, 0, 0, 0);
        at(&slice, "ends")->shape = dims(4, first + 1, shape.dims[1], rows, shape.dims[3]);
        cut[part] = run(f, &slice, &all[part], 1);
    }
    struct op sdpa = op_of("sdpa");
    at(&sdpa, "causal")->integer = 1;
    struct orr_tensor *result = run(f, &sdpa, cut, 3);
    for (int part = 0; part < 3; part++) {
        orr_tensor_destroy(&cut[part]);
    }
    return result;
}

static void check_decode(struct fixture *f, int64_t queries, bool with_slots) {
    static double got[VALUES_MAX], want[VALUES_MAX];
    const double lengths[3] = {7, 0, (double)queries}, slots[3] = {3, 1, 0};
    int64_t sequences = with_slots ? 4 : 3, count = 4 * queries * 3;
    struct orr_tensor *q = filled(f, dims(4, 3, 4, queries, 4), 3);
    struct orr_tensor *k = filled(f, dims(4, sequences, 2, 9, 4), 4);
    struct orr_tensor *v = filled(f, dims(4, sequences, 2, 9, 3), 5);
    struct orr_tensor *inputs[5] = {q, k, v, whole(f, I64, 3, lengths), whole(f, I32, 3, slots)};
    struct op call = op_of("sdpa_decode");
    struct orr_tensor *out = run(f, &call, inputs, with_slots ? 5 : 4);
    download(f, out, got);
    for (int64_t i = 0; i < 3; i++) {
        memset(want, 0, sizeof want);
        if (lengths[i] > 0) {
            struct orr_tensor *one =
                alone(f, q, k, v, i, with_slots ? (int64_t)slots[i] : i, (int64_t)lengths[i]);
            download(f, one, want);
            orr_tensor_destroy(&one);
        }
        assert_memory_equal(got + i * count, want, (size_t)count * sizeof(double));
    }
    orr_tensor_destroy(&out);
    for (int i = 0; i < 5; i++) {
        orr_tensor_destroy(&inputs[i]);
    }
}

static void a_sequence_attends_as_if_it_were_alone(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    for (int64_t queries = 1; queries <= 3; queries++) {
        check_decode(&f, queries, false);
        check_decode(&f, queries, true);
    }
    fixture_close(&f);
}

static void rope_at_is_rope_with_an_offset_each(void **state) {
    (void)state;
    struct fixture f;
    static double got[VALUES_MAX], want[VALUES_MAX];
    const double positions[3] = {5, 0, 17};
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *x = filled(&f, dims(4, 3, 2, 2, 4), 6);
    struct orr_tensor *at_positions = whole(&f, I32, 3, positions);
    struct orr_tensor *all = apply(&f, "rope_at", x, at_positions);
    download(&f, all, got);
    for (int i = 0; i < 3; i++) {
        struct op rope = op_of("rope");
        at(&rope, "offset")->integer = (int64_t)positions[i];
        struct orr_tensor *one = run(&f, &rope, &x, 1);
        download(&f, one, want);
        assert_memory_equal(got + 16 * i, want + 16 * i, 16 * sizeof(double));
        orr_tensor_destroy(&one);
    }
    orr_tensor_destroy(&all);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&at_positions);
    fixture_close(&f);
}

/* --- in place --- */

/* One sequence of capacity 8, a row of 2 at `position`; what apply says. */
static enum orr_status try_append(struct fixture *f, struct orr_tensor *cache, double position,
                                  struct orr_tensor **out) {
    struct op call = op_of("kv_append");
    struct orr_tensor *inputs[3] = {cache, filled(f, dims(4, 1, 1, 1, 2), 9),
                                    whole(f, I64, 1, &position)};
    enum orr_status status =
        orr_tensor_apply(f->runtime, call.op, inputs, 3, &call.attributes, NULL, out);
    orr_tensor_destroy(&inputs[1]);
    orr_tensor_destroy(&inputs[2]);
    return status;
}

static void assert_text(struct fixture *f, const char *text) {
    if (!strstr(fixture_error(f), text)) {
        fail_msg("%s, not %s", fixture_error(f), text);
    }
}

static void the_result_is_the_cache_s_memory_and_the_operand_is_spent(void **state) {
    (void)state;
    struct fixture f;
    struct orr_tensor *out;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *cache = filled(&f, dims(4, 1, 1, 8, 2), 1);
    struct orr_buffer *memory = orr_tensor_buffer(cache, 0);
    uint64_t used = orr_device_memory(f.runtime, 0).requested;
    must(&f, try_append(&f, cache, 2, &out));
    assert_ptr_equal(orr_tensor_buffer(out, 0), memory);
    assert_null(orr_tensor_buffer(cache, 0));
    assert_int_equal(orr_device_memory(f.runtime, 0).requested, used);
    struct orr_tensor *again;
    assert_int_equal(try_append(&f, cache, 3, &again), ORR_INVALID);
    assert_text(&f, "kv_append: operand cache was changed in place; use the result");
    struct orr_future *future;
    assert_int_equal(orr_tensor_future(cache, &future), ORR_INVALID);
    assert_text(&f, "future: the tensor was changed in place; use the result");
    struct orr_layout layout = *orr_tensor_layout(cache);
    layout.axes[0] = (struct orr_placement){.kind = ORR_SHARD, .dim = 0};
    assert_int_equal(orr_tensor_redistribute(cache, &layout, &again), ORR_INVALID);
    orr_tensor_destroy(&cache);
    must(&f, try_append(&f, out, 3, &again));
    orr_tensor_destroy(&out);
    orr_tensor_destroy(&again);
    fixture_close(&f);
}

static enum orr_status trace_append(void *context, struct orr_tensor *const *inputs,
                                    int input_count, struct orr_tensor **outputs, int output_max,
                                    int *out_output_count) {
    struct fixture *f = context;
    struct op call = op_of("kv_append");
    (void)output_max;
    *out_output_count = 1;
    return orr_tensor_apply(f->runtime, call.op, inputs, input_count, &call.attributes, NULL,
                            outputs);
}

static void memory_that_others_hold_is_not_changed(void **state) {
    (void)state;
    struct fixture f;
    struct orr_tensor *out;
    fixture_open(&f, orr_sim_open, 1);
    struct orr_tensor *cache = filled(&f, dims(4, 1, 1, 8, 2), 1);
    struct op reshape = op_of("reshape");
    at(&reshape, "shape")->shape = dims(1, 16, 0, 0, 0);
    struct orr_tensor *flat = run(&f, &reshape, &cache, 1);
    assert_int_equal(try_append(&f, cache, 2, &out), ORR_INVALID);
    assert_text(&f,
                "kv_append changes operand cache in place, but another tensor holds its memory");
    orr_tensor_destroy(&flat);
    struct op append = op_of("kv_append");
    struct orr_tensor *twice[3] = {cache, cache, whole(&f, I64, 1, (const double[]){0})};
    assert_int_equal(
        orr_tensor_apply(f.runtime, append.op, twice, 3, &append.attributes, NULL, &out),
        ORR_INVALID);
    assert_text(&f, "in place, and operand new is the same memory");
    orr_tensor_destroy(&twice[2]);

    struct orr_gradient_tape *tape;
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    must(&f, orr_gradient_tape_watch(tape, cache));
    struct orr_tensor *squares = apply(&f, "mul", cache, cache);
    assert_int_equal(try_append(&f, cache, 2, &out), ORR_INVALID);
    assert_text(&f, "a tape or another handle holds its memory too");
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&squares);

    struct orr_compiled *compiled;
    double position = 2;
    int count;
    struct orr_tensor *inputs[3] = {cache, filled(&f, dims(4, 1, 1, 1, 2), 9),
                                    whole(&f, I64, 1, &position)};
    must(&f, orr_compiled_create(f.runtime, "step", ORR_FUSION_OFF, true, &compiled));
    assert_int_equal(orr_compiled_call(compiled, inputs, 3, trace_append, &f, &out, 1, &count),
                     ORR_UNSUPPORTED);
    assert_text(&f, "a compiled function does not follow");
    orr_compiled_destroy(&compiled);
    for (int i = 0; i < 3; i++) {
        orr_tensor_destroy(&inputs[i]);
    }
    fixture_close(&f);
}

/* A copy to the host reads the old cache on another stream while the next kernels are enqueued. */
static void a_copy_that_started_before_sees_the_old_rows(struct fixture *f) {
    static float values[2048];
    struct orr_future *futures[4];
    struct orr_tensor *cache = filled(f, dims(4, 1, 1, 1024, 2), 1);
    for (int step = 0; step < 4; step++) {
        must(f, orr_tensor_future(cache, &futures[step]));
        struct orr_tensor *next;
        must(f, try_append(f, cache, step, &next));
        orr_tensor_destroy(&cache);
        cache = next;
    }
    for (int step = 0; step < 4; step++) {
        must(f, orr_future_get(futures[step], values, sizeof values));
        for (int64_t i = 0; i < 2048; i++) {
            float want = (float)number(i < 2 * step ? i % 2 : i, i < 2 * step ? 9 : 1);
            assert_true(values[i] == want);
        }
        orr_future_destroy(&futures[step]);
    }
    orr_tensor_destroy(&cache);
}

static void the_old_rows_are_read_before_they_change(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    a_copy_that_started_before_sees_the_old_rows(&f);
    assert_int_equal(record_count(&f, ORR_RECORD_FINDING), 0);
    fixture_close(&f);
    fixture_open(&f, orr_cpu_open, 1);
    a_copy_that_started_before_sees_the_old_rows(&f);
    fixture_close(&f);
}

/* Two appends and a read on two devices, as far as memory goes. A cache that could not be changed
 * is still its owner's. */
static void run_short(struct memory_counting *memory, void *context) {
    (void)context;
    struct orr_device_spec specs[2] = {spec_for_tests(), spec_for_tests()};
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 2};
    struct orr_runtime *runtime;
    struct orr_error error = {0};
    if (orr_runtime_create(&config, &runtime, &error) != ORR_OK) {
        return;
    }
    struct op zeros = op_of("zeros"), append = op_of("kv_append");
    struct orr_tensor *t[3] = {NULL}, *next;
    at(&zeros, "shape")->shape = dims(4, 2, 1, 8, 2);
    (void)!orr_tensor_apply(runtime, zeros.op, NULL, 0, &zeros.attributes, NULL, &t[0]);
    at(&zeros, "shape")->shape = dims(4, 2, 1, 1, 2);
    (void)!orr_tensor_apply(runtime, zeros.op, NULL, 0, &zeros.attributes, NULL, &t[1]);
    at(&zeros, "shape")->shape = dims(1, 2, 0, 0, 0);
    at(&zeros, "dtype")->integer = I64;
    (void)!orr_tensor_apply(runtime, zeros.op, NULL, 0, &zeros.attributes, NULL, &t[2]);
    for (int i = 0; i < 2 && t[0] && t[1] && t[2]; i++) {
        if (orr_tensor_apply(runtime, append.op, t, 3, &append.attributes, NULL, &next) == ORR_OK) {
            assert_null(orr_tensor_buffer(t[0], 0));
            orr_tensor_destroy(&t[0]);
            t[0] = next;
        }
        assert_non_null(orr_tensor_buffer(t[0], 0));
    }
    for (int i = 0; i < 3; i++) {
        orr_tensor_destroy(&t[i]);
    }
    orr_runtime_destroy(&runtime);
}

static void a_cache_survives_failing_allocations(void **state) {
    (void)state;
    assert_true(fail_each_request(run_short, NULL) > 20);
}

/* --- mistakes --- */

static void mistakes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *op;
        struct orr_operand_info inputs[5];
        int count;
        const char *text;
    } mistakes[] = {
        {"kv_append",
         {{F32, {4, {2, 1, 8, 2}}}, {F32, {4, {2, 1, 1, 3}}}, {I64, {1, {2}}}},
         3,
         "expected cache [n, h, capacity, d] and new [b, h, s, d] of one dtype"},
        {"kv_append",
         {{F32, {4, {2, 1, 8, 2}}}, {F32, {4, {1, 1, 1, 2}}}, {I64, {1, {1}}}},
         3,
         "1 sequences for a cache of 2: slots are needed"},
        {"kv_append",
         {{F32, {4, {2, 1, 8, 2}}}, {F32, {4, {2, 1, 9, 2}}}, {I64, {1, {2}}}},
         3,
         "9 rows don't fit a capacity of 8"},
        {"kv_append",
         {{F32, {4, {2, 1, 8, 2}}}, {F32, {4, {2, 1, 1, 2}}}, {F32, {1, {2}}}},
         3,
         "expected positions [2] of i32 or i64"},
        {"sdpa_decode",
         {{F32, {4, {2, 3, 1, 4}}},
          {F32, {4, {2, 2, 8, 4}}},
          {F32, {4, {2, 2, 8, 4}}},
          {I64, {1, {2}}}},
         4,
         "3 query heads are not a multiple of 2"},
        {"sdpa_decode",
         {{F32, {4, {2, 2, 1, 4}}},
          {F32, {4, {2, 2, 8, 4}}},
          {F32, {4, {2, 2, 8, 4}}},
          {I64, {1, {3}}}},
         4,
         "expected lengths [2] of i32 or i64"},
        {"rope_at", {{F32, {3, {2, 1, 3}}}, {I64, {1, {2}}}}, 2, "with an even d"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct op call = op_of(mistakes[i].op);
        struct orr_operand_info results[ORR_OUTPUTS_MAX];
        struct orr_error error = {0};
        assert_int_equal(call.op->infer(mistakes[i].inputs, mistakes[i].count, &call.attributes,
                                        results, &error),
                         ORR_INVALID);
        if (!strstr(error.text, mistakes[i].text)) {
            fail_msg("%s, not %s", error.text, mistakes[i].text);
        }
    }
}

/* What kernels find in their data comes with the command's end. */
static void rows_beyond_the_cache_are_named(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    float cache[16] = {0}, rows[2] = {0}, out[16];
    int64_t index[2] = {8, 0};
    struct op call = op_of("kv_append");
    struct orr_tensor_view inputs[4] = {{F32, dims(4, 1, 1, 8, 2), cache},
                                        {F32, dims(4, 1, 1, 1, 2), rows},
                                        {I64, dims(1, 1, 0, 0, 0), &index[0]},
                                        {I64, dims(1, 1, 0, 0, 0), &index[1]}};
    struct orr_tensor_view output = {F32, inputs[0].shape, out};
    struct orr_error error = {0};
    assert_int_equal(call.op->compute(inputs, 4, &call.attributes, &output, &memory, &error),
                     ORR_INVALID);
    assert_string_equal(error.text, "kv_append: rows 8 .. 8 of element 0 in a cache of capacity 8");
    error = (struct orr_error){0};
    index[0] = 0;
    index[1] = 1;
    assert_int_equal(call.op->compute(inputs, 4, &call.attributes, &output, &memory, &error),
                     ORR_INVALID);
    assert_string_equal(error.text,
                        "kv_append: slot 1 of element 0, but the cache has 1 sequences");

    error = (struct orr_error){0};
    call = op_of("sdpa_decode");
    float q[2] = {0}, result[2];
    struct orr_tensor_view operands[4] = {
        {F32, dims(4, 1, 1, 1, 2), q}, inputs[0], inputs[0], {I64, dims(1, 1, 0, 0, 0), &index[0]}};
    output = (struct orr_tensor_view){F32, operands[0].shape, result};
    index[0] = 9;
    assert_int_equal(call.op->compute(operands, 4, &call.attributes, &output, &memory, &error),
                     ORR_INVALID);
    assert_string_equal(error.text,
                        "sdpa_decode: length 9 of element 0, expected 0 or 1 queries .. 8 keys");
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_written_where_they_belong),
        cmocka_unit_test(a_sequence_attends_as_if_it_were_alone),
        cmocka_unit_test(rope_at_is_rope_with_an_offset_each),
        cmocka_unit_test(the_result_is_the_cache_s_memory_and_the_operand_is_spent),
        cmocka_unit_test(memory_that_others_hold_is_not_changed),
        cmocka_unit_test(the_old_rows_are_read_before_they_change),
        cmocka_unit_test(a_cache_survives_failing_allocations),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(rows_beyond_the_cache_are_named),
    };
    return cmocka_run_group_tests_name("serving", tests, NULL, NULL);
}
