/* Operators that move or make data: casts, permutations, slices, sources, random numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/random_internal.h"
#include "tests/operator_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};

/* ---- Moves ---- */

static void cast_converts_between_all_dtypes(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int from = 0; from < ORR_DTYPE_COUNT; from++)
        for (int to = 0; to < ORR_DTYPE_COUNT; to++) {
            struct call call = call_open("cast");
            call_input(&call, tensor_random((enum orr_dtype)from, shape2(11, 60), &random, -3, 3));
            call_int(&call, "dtype", to);
            call_run(&call);
            struct orr_tensor_view want = tensor_make((enum orr_dtype)to, shape2(11, 60));
            orr_dtype_convert((enum orr_dtype)to, want.data, (enum orr_dtype)from,
                              call.inputs[0].data, 660);
            assert_true(tensor_equal(&want, &call.output));
            tensor_free(&want);
            call_close(&call);
        }
}

static void check_transpose(enum orr_dtype dtype, struct random *random, bool by_default) {
    struct orr_shape shape = shape_random(random, (int)random_int(random, 2, 5), 7);
    struct orr_shape perm = {.rank = shape.rank};
    if (random_int(random, 0, 1))
        shape.dims[random_int(random, 0, shape.rank - 1)] = random_int(random, 30, 70);
    for (int i = 0; i < shape.rank; i++)
        perm.dims[i] = i;
    for (int i = shape.rank - 1; i > 0 && !by_default; i--) {
        int j = (int)random_int(random, 0, i);
        int64_t kept = perm.dims[i];
        perm.dims[i] = perm.dims[j];
        perm.dims[j] = kept;
    }
    if (by_default) {
        perm.dims[shape.rank - 1] = shape.rank - 2;
        perm.dims[shape.rank - 2] = shape.rank - 1;
    }
    struct call call = call_open("transpose");
    call_input(&call, tensor_random(dtype, shape, random, -100, 100));
    if (!by_default)
        call_shape(&call, "perm", perm);
    call_run(&call);
    for (int64_t i = 0; i < tensor_count(&call.output); i++) {
        int64_t at[ORR_RANK_MAX] = {0}, rest = i, index = 0;
        for (int j = shape.rank - 1; j >= 0; j--) {
            assert_int_equal(call.output.shape.dims[j], shape.dims[perm.dims[j]]);
            at[perm.dims[j]] = rest % call.output.shape.dims[j];
            rest /= call.output.shape.dims[j];
        }
        for (int j = 0; j < shape.rank; j++)
            index = index * shape.dims[j] + at[j];
        assert_true(tensor_at(&call.output, i) == tensor_at(&call.inputs[0], index));
    }
    call_close(&call);
}

static void transpose_permutes_dimensions(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 40; trial++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++)
            check_transpose((enum orr_dtype)dtype, &random, trial % 4 == 0);
}

static void slice_takes_a_box(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 80; trial++) {
        enum orr_dtype dtype = (enum orr_dtype)(trial % ORR_DTYPE_COUNT);
        struct orr_shape shape = shape_random(&random, (int)random_int(&random, 1, 4), 9);
        struct orr_shape starts = {.rank = (int)random_int(&random, 0, shape.rank)};
        struct orr_shape ends = {.rank = (int)random_int(&random, 0, shape.rank)};
        int64_t from[ORR_RANK_MAX], count[ORR_RANK_MAX];
        for (int i = 0; i < shape.rank; i++) {
            int64_t start = i < starts.rank ? random_int(&random, 0, shape.dims[i]) : 0;
            int64_t end = i < ends.rank ? random_int(&random, start, shape.dims[i]) : shape.dims[i];
            bool from_end = random_int(&random, 0, 1);
            starts.dims[i] = from_end && start < shape.dims[i] ? start - shape.dims[i] : start;
            ends.dims[i] = end == shape.dims[i] ? from_end ? INT64_MAX : end
                                                : (from_end ? end - shape.dims[i] : end);
            from[i] = start;
            count[i] = end - start;
        }
        struct call call = call_open("slice");
        call_input(&call, tensor_random(dtype, shape, &random, -100, 100));
        call_shape(&call, "starts", starts);
        call_shape(&call, "ends", ends);
        call_run(&call);
        for (int64_t i = 0; i < tensor_count(&call.output); i++) {
            int64_t rest = i, index = 0, stride = 1;
            for (int j = shape.rank - 1; j >= 0; j--) {
                index += (from[j] + rest % count[j]) * stride;
                rest /= count[j];
                stride *= shape.dims[j];
            }
            assert_true(tensor_at(&call.output, i) == tensor_at(&call.inputs[0], index));
        }
        for (int j = 0; j < shape.rank; j++)
            assert_int_equal(call.output.shape.dims[j], count[j]);
        call_close(&call);
    }
}

/* Concatenating the slices of a tensor gives it back. */
static void concat_undoes_slicing(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 60; trial++) {
        enum orr_dtype dtype = (enum orr_dtype)(trial % ORR_DTYPE_COUNT);
        struct orr_shape shape = shape_random(&random, (int)random_int(&random, 1, 4), 6);
        int dim = (int)random_int(&random, 0, shape.rank - 1);
        shape.dims[dim] = random_int(&random, 1, 30);
        struct orr_tensor_view whole = tensor_random(dtype, shape, &random, -100, 100);
        struct call concat = call_open("concat");
        call_int(&concat, "dim", trial % 2 ? dim : dim - shape.rank);
        for (int64_t start = 0; start < shape.dims[dim];) {
            bool last = concat.input_count == ORR_INPUTS_MAX - 1;
            int64_t end = last ? shape.dims[dim] : random_int(&random, start, shape.dims[dim]);
            struct call slice = call_open("slice");
            struct orr_shape starts = {.rank = shape.rank}, ends = shape;
            starts.dims[dim] = start;
            ends.dims[dim] = end;
            call_shape(&slice, "starts", starts);
            call_shape(&slice, "ends", ends);
            slice.inputs[slice.input_count++] = whole;
            call_run(&slice);
            call_input(&concat, slice.output);
            start = end;
        }
        call_run(&concat);
        assert_true(tensor_equal(&concat.output, &whole));
        tensor_free(&whole);
        call_close(&concat);
    }
}

static void reshape_is_an_alias_with_one_open_dimension(void **state) {
    (void)state;
    struct orr_operand_info result;
    struct call call = call_open("reshape");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape3(4, 6, 5)));
    call_shape(&call, "shape", shape2(-1, 10));
    assert_int_equal(call_infer(&call, &result, NULL), ORR_OK);
    struct orr_shape want = shape2(12, 10);
    assert_true(orr_shape_equal(&result.shape, &want));
    call_shape(&call, "shape", shape2(120, 1));
    assert_int_equal(call_infer(&call, &result, NULL), ORR_OK);
    static const int64_t wrong[][2] = {{-1, -1}, {7, -1}, {11, 11}, {-2, 60}, {0, -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct orr_error error = {0};
        call_shape(&call, "shape", orr_shape_of(2, wrong[i]));
        assert_int_equal(call_infer(&call, &result, &error), ORR_INVALID);
        assert_memory_equal(error.text, "reshape: x [4, 6, 5] f32: ", 26);
    }
    assert_null(call.op->compute);
    assert_int_equal(call.op->class, ORR_OPERATOR_ALIAS);
    call_close(&call);
}

/* ---- Sources ---- */

static void constant_sources_fill_their_shape(void **state) {
    (void)state;
    static const char *const names[] = {"zeros", "ones", "full"};
    for (size_t n = 0; n < 3; n++)
        for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
            struct call call = call_open(names[n]);
            double value = n == 2 ? (dtype == ORR_DTYPE_BOOL ? 1 : -3) : (double)n;
            call_shape(&call, "shape", shape2(37, 53));
            call_int(&call, "dtype", dtype);
            if (n == 2)
                call_real(&call, "value", value);
            call_run(&call);
            assert_int_equal(call.output.dtype, dtype);
            assert_int_equal(tensor_count(&call.output), 37 * 53);
            for (int64_t i = 0; i < 37 * 53; i++)
                assert_true(tensor_at(&call.output, i) == value);
            call_close(&call);
        }
}

static void arange_counts_up_and_down(void **state) {
    (void)state;
    static const int64_t ranges[][4] = {
        {0, 1000, 1, 1000},
        {5, 12, 3, 3},
        {5, 14, 3, 3},
        {10, 0, -4, 3},
        {3, 3, 1, 0},
        {4, 3, 1, 0},
        {3, 4, -1, 0},
        {INT64_MIN, INT64_MIN + 2, 1, 2},
        {INT64_MAX - 1, INT64_MAX, 5, 1},
    };
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        struct call call = call_open("arange");
        call_int(&call, "start", ranges[r][0]);
        call_int(&call, "end", ranges[r][1]);
        call_int(&call, "step", ranges[r][2]);
        call_run(&call);
        assert_int_equal(tensor_count(&call.output), ranges[r][3]);
        for (int64_t i = 0; i < ranges[r][3]; i++)
            assert_int_equal(((int64_t *)call.output.data)[i], ranges[r][0] + i * ranges[r][2]);
        call_close(&call);
    }
    struct orr_operand_info result;
    struct call call = call_open("arange");
    call_int(&call, "start", INT64_MIN);
    call_int(&call, "end", INT64_MAX);
    assert_int_equal(call_infer(&call, &result, NULL), ORR_INVALID);
    call_int(&call, "step", 0);
    assert_int_equal(call_infer(&call, &result, NULL), ORR_INVALID);
}

/* Published outputs of SplitMix64 for the state 1234567. */
static void the_generator_is_splitmix64(void **state) {
    (void)state;
    uint64_t at = 1234567;
    assert_true(orr_splitmix_next(&at) == 6457827717110365317u);
    assert_true(orr_splitmix_next(&at) == 3203168211198807973u);
    assert_true(orr__random_bits(1234567, 0) == 6457827717110365317u);
    assert_true(orr__random_bits(1234567, 1) == 3203168211198807973u);
    assert_true(orr__random_bits(1234567, 2) == 9817491932198370423u);
    assert_true(orr__random_bits(1234567, 3) == 4593380528125082431u);
    assert_true(orr__random_bits(1234567, 4) == 16408922859458223821u);
}

static void the_generators_logarithm_is_accurate(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int i = 0; i < 100000; i++) {
        double x = ldexp(random_real(&random, 0.5, 1), -(int)random_int(&random, 0, 54));
        assert_near("log", i, orr__random_log(x), log(x), 1e-16, 1e-11);
    }
}

static struct call random_call(const char *name, enum orr_dtype dtype, struct orr_shape shape,
                               int64_t seed) {
    struct call call = call_open(name);
    call_shape(&call, "shape", shape);
    call_int(&call, "dtype", dtype);
    call_int(&call, "seed", seed);
    return call;
}

/* The normal number z of an element and its uniform one u are made of the same bits: z is where
 * the normal distribution function reaches u. */
static void randn_inverts_the_distribution_function(void **state) {
    (void)state;
    struct call uniform = random_call("rand", ORR_DTYPE_F64, shape1(200000), 11);
    struct call normal = random_call("randn", ORR_DTYPE_F64, shape1(200000), 11);
    call_run(&uniform);
    call_run(&normal);
    for (int64_t i = 0; i < 200000; i++) {
        double u = tensor_at(&uniform.output, i) + 0x1p-54, z = tensor_at(&normal.output, i);
        double reached = 0.5 * erfc(-z / sqrt(2));
        /* An error of 1.2e-7 in z is one of about z^2 times that in the tail's probability. */
        assert_near("randn", i, reached, u, 1e-17, 1.3e-7 * (1 + z * z));
    }
    call_close(&uniform);
    call_close(&normal);
    /* The far tails, which no sample reaches: against values of the inverse from tables. */
    uint64_t bits[] = {0, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 61};
    double values[4];
    orr__random_normals(bits, 4, values);
    assert_near("smallest", 0, values[0], -8.2923611, 1e-6, 0);
    assert_near("largest", 1, values[1], 8.2923611, 1e-6, 0);
    assert_near("middle", 2, values[2], 0, 1e-15, 0);
    assert_near("an eighth", 3, values[3], -1.1503494, 2e-7, 0);
}

static void random_numbers_have_their_moments(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    for (int seed = 0; seed < 4; seed++)
        for (int normal = 0; normal < 2; normal++) {
            struct call call =
                random_call(normal ? "randn" : "rand", ORR_DTYPE_F32, shape1(COUNT), seed);
            call_run(&call);
            double sum = 0, squares = 0, neighbours = 0, mean = normal ? 0 : 0.5;
            for (int64_t i = 0; i < COUNT; i++) {
                double x = tensor_at(&call.output, i) - mean;
                sum += x;
                squares += x * x;
                neighbours += i > 0 ? x * (tensor_at(&call.output, i - 1) - mean) : 0;
            }
            double variance = normal ? 1 : 1.0 / 12; /* limits: five standard errors */
            assert_near("mean", seed, sum / COUNT, 0, 5 * sqrt(variance / COUNT), 0);
            assert_near("variance", seed, squares / COUNT, variance, 0, 5 * sqrt(2.0 / COUNT));
            assert_near("correlation", seed, neighbours / COUNT, 0, 5 * variance / sqrt(COUNT), 0);
            call_close(&call);
        }
}

/* rand of a narrower dtype is the wider one cut off, so it stays below 1. */
static void dtypes_share_their_random_digits(void **state) {
    (void)state;
    struct call wide = random_call("rand", ORR_DTYPE_F64, shape1(70000), 3);
    call_run(&wide);
    static const int bits[] = {53, 24, 11, 8};
    for (size_t d = 1; d < 4; d++) {
        struct call call = random_call("rand", floats[d], shape1(70000), 3);
        call_run(&call);
        for (int64_t i = 0; i < 70000; i++) {
            double want = floor(ldexp(tensor_at(&wide.output, i), bits[d]));
            assert_true(tensor_at(&call.output, i) == ldexp(want, -bits[d]));
        }
        call_close(&call);
    }
    call_close(&wide);
}

static void seeds_give_different_tensors(void **state) {
    (void)state;
    for (int64_t seed = 0; seed < 50; seed++) {
        struct call a = random_call("rand", ORR_DTYPE_F64, shape1(100), seed);
        struct call b = random_call("rand", ORR_DTYPE_F64, shape1(100), seed + 1);
        call_run(&a);
        call_run(&b);
        for (int64_t i = 0; i < 100; i++)
            for (int64_t j = 0; j < 100; j++)
                assert_true(tensor_at(&a.output, i) != tensor_at(&b.output, j));
        call_close(&a);
        call_close(&b);
    }
}

/* These numbers hold on every machine. They were computed by the same formulas in Python, which
 * shares no code and no compiler with the library, and change only with the generator. */
static void random_tensors_are_the_same_everywhere(void **state) {
    (void)state;
    struct call call = random_call("rand", ORR_DTYPE_F64, shape1(3), 42);
    call_run(&call);
    static const double uniform[] = {0x1.0220f40f0e898p-1, 0x1.4fd0099530f9ep-2,
                                     0x1.3bfa55ea82efcp-1};
    for (int64_t i = 0; i < 3; i++)
        assert_true(tensor_at(&call.output, i) == uniform[i]);
    call_close(&call);
    call = random_call("randn", ORR_DTYPE_F64, shape1(600), 42);
    call_run(&call);
    uint64_t hash = 0, bits;
    for (int64_t i = 0; i < 600; i++) {
        memcpy(&bits, (double *)call.output.data + i, sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    assert_true(hash == 0xe72f69e6e7a1fc3bu);
    call_close(&call);
}

/* Takes the box that a shard's attributes describe out of the whole tensor. */
static struct call box_of(const struct orr_tensor_view *whole, struct orr_shape starts,
                          struct orr_shape shape) {
    struct call slice = call_open("slice");
    struct orr_shape ends = starts;
    for (int i = 0; i < starts.rank; i++)
        ends.dims[i] += shape.dims[i];
    call_shape(&slice, "starts", starts);
    call_shape(&slice, "ends", ends);
    slice.inputs[slice.input_count++] = *whole;
    call_run(&slice);
    slice.input_count = 0; /* `whole` stays the caller's */
    return slice;
}

static void shards_are_parts_of_the_whole(void **state) {
    (void)state;
    struct random random = random_seeded();
    static const char *const names[] = {"rand", "randn", "dropout"};
    for (int trial = 0; trial < 40; trial++)
        for (size_t n = 0; n < 3; n++) {
            struct orr_shape global = shape_random(&random, (int)random_int(&random, 1, 4), 9);
            global.dims[random_int(&random, 0, global.rank - 1)] = random_int(&random, 1, 700);
            struct orr_shape starts = {.rank = global.rank}, shape = {.rank = global.rank};
            for (int i = 0; i < global.rank; i++) {
                starts.dims[i] = random_int(&random, 0, global.dims[i] - 1);
                shape.dims[i] = random_int(&random, 1, global.dims[i] - starts.dims[i]);
            }
            struct call whole = call_open(names[n]), part = call_open(names[n]);
            call_int(&whole, "seed", trial);
            call_int(&part, "seed", trial);
            if (n == 2) {
                call_input(&whole, tensor_random(ORR_DTYPE_F32, global, &random, 1, 2));
                struct call box = box_of(&whole.inputs[0], starts, shape);
                call_input(&part, box.output);
            } else {
                call_shape(&whole, "shape", global);
                call_shape(&part, "shape", shape);
            }
            call_shape(&part, "global_shape", global);
            call_shape(&part, "starts", starts);
            call_run(&whole);
            call_run(&part);
            struct call box = box_of(&whole.output, starts, shape);
            assert_true(tensor_equal(&box.output, &part.output));
            call_close(&box);
            call_close(&whole);
            call_close(&part);
        }
}

/* ---- Dropout ---- */

static void dropout_keeps_its_share_and_scales_it(void **state) {
    (void)state;
    struct random random = random_seeded();
    enum { COUNT = 200000 };
    for (size_t d = 0; d < 4; d++)
        for (int tenths = 0; tenths <= 10; tenths++) {
            double p = tenths / 10.0;
            struct call call = call_open("dropout");
            call_input(&call, tensor_random(floats[d], shape1(COUNT), &random, 1, 2));
            call_real(&call, "p", p);
            call_int(&call, "seed", 5);
            call_run(&call);
            int64_t kept = 0;
            for (int64_t i = 0; i < COUNT; i++) {
                double y = tensor_at(&call.output, i);
                kept += y != 0;
                if (y != 0)
                    assert_near("dropout", i, y, tensor_at(&call.inputs[0], i) / (1 - p), 0,
                                0.501 * dtype_epsilon(floats[d]) +
                                    2 * (d == 0 ? 0x1p-52 : 0x1p-23));
            }
            assert_near("kept", 0, (double)kept, COUNT * (1 - p), 5 * sqrt(COUNT * p * (1 - p)), 0);
            if (tenths == 0)
                assert_true(tensor_equal(&call.output, &call.inputs[0]));
            call_close(&call);
        }
}

static void a_dropped_nan_is_zero(void **state) {
    (void)state;
    struct call call = call_open("dropout");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape1(1000)));
    for (int i = 0; i < 1000; i++)
        ((float *)call.inputs[0].data)[i] = i % 2 ? (float)NAN : (float)INFINITY;
    call_run(&call);
    int zeros = 0;
    for (int64_t i = 0; i < 1000; i++)
        zeros += tensor_at(&call.output, i) == 0;
    assert_true(zeros > 400 && zeros < 600);
    call_close(&call);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cast_converts_between_all_dtypes),
        cmocka_unit_test(transpose_permutes_dimensions),
        cmocka_unit_test(slice_takes_a_box),
        cmocka_unit_test(concat_undoes_slicing),
        cmocka_unit_test(reshape_is_an_alias_with_one_open_dimension),
        cmocka_unit_test(constant_sources_fill_their_shape),
        cmocka_unit_test(arange_counts_up_and_down),
        cmocka_unit_test(the_generator_is_splitmix64),
        cmocka_unit_test(the_generators_logarithm_is_accurate),
        cmocka_unit_test(randn_inverts_the_distribution_function),
        cmocka_unit_test(random_numbers_have_their_moments),
        cmocka_unit_test(dtypes_share_their_random_digits),
        cmocka_unit_test(seeds_give_different_tensors),
        cmocka_unit_test(random_tensors_are_the_same_everywhere),
        cmocka_unit_test(shards_are_parts_of_the_whole),
        cmocka_unit_test(dropout_keeps_its_share_and_scales_it),
        cmocka_unit_test(a_dropped_nan_is_zero),
    };
    return cmocka_run_group_tests_name("operators data", tests, NULL, NULL);
}
