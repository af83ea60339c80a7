/* Every operator against a plain computation in f64, written apart from the library's: over all
 * dtypes and random shapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "tests/operator_fixture.h"

static const enum orr_dtype floats[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_F16,
                                        ORR_DTYPE_BF16};
static const enum orr_dtype integers[] = {ORR_DTYPE_I32, ORR_DTYPE_I64};

/* Unit in the last place of the arithmetic: f32 for everything but f64. */
static double compute_epsilon(enum orr_dtype dtype) {
    return dtype == ORR_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
}

/* Compares a result with `want`: the error of the arithmetic is absolute, that of the final
 * rounding relative (and absolute among f16's subnormals). */
static void check(const struct call *call, const double *want, double arithmetic) {
    enum orr_dtype dtype = call->output.dtype;
    double smallest = dtype == ORR_DTYPE_F16 ? 0x1p-24 : 0;
    for (int64_t i = 0; i < tensor_count(&call->output); i++)
        assert_near(call->op->name, i, tensor_at(&call->output, i), want[i],
                    arithmetic * compute_epsilon(dtype) + smallest, 0.501 * dtype_epsilon(dtype));
}

static double *numbers(int64_t count) {
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

/* Index into an operand of the element that result element `index` reads, by numpy's rule. */
static int64_t broadcast_index(const struct orr_shape *operand, const struct orr_shape *result,
                               int64_t index) {
    int64_t at = 0, stride = 1;
    for (int i = result->rank - 1, j = operand->rank - 1; i >= 0; i--, j--) {
        int64_t coordinate = index % result->dims[i];
        index /= result->dims[i];
        if (j < 0)
            continue;
        at += (operand->dims[j] == 1 ? 0 : coordinate) * stride;
        stride *= operand->dims[j];
    }
    return at;
}

/* ---- Pointwise ---- */

static double ref_add(double x, double y) {
    return x + y;
}
static double ref_sub(double x, double y) {
    return x - y;
}
static double ref_mul(double x, double y) {
    return x * y;
}
static double ref_div(double x, double y) {
    return x / y;
}
static double ref_maximum(double x, double y) {
    return fmax(x, y);
}

static const struct {
    const char *name;
    double (*reference)(double, double);
    bool of_integers;
} binaries[] = {
    {"add", ref_add, true},  {"sub", ref_sub, true},         {"mul", ref_mul, true},
    {"div", ref_div, false}, {"maximum", ref_maximum, true},
};

/* A shape that broadcasts to `result`: some dimensions 1, some leading ones left out. */
static struct orr_shape shrink(struct random *random, const struct orr_shape *result) {
    struct orr_shape shape = *result;
    for (int i = 0; i < shape.rank; i++)
        if (random_int(random, 0, 2) == 0)
            shape.dims[i] = 1;
    int dropped = (int)random_int(random, 0, shape.rank);
    if (random_int(random, 0, 1) == 0)
        dropped = 0;
    return orr_shape_of(shape.rank - dropped, shape.dims + dropped);
}

static void check_binary(size_t row, enum orr_dtype dtype, struct random *random) {
    struct orr_shape shape = shape_random(random, (int)random_int(random, 0, 5), 6);
    if (shape.rank > 0 && random_int(random, 0, 1) == 0)
        shape.dims[random_int(random, 0, shape.rank - 1)] = random_int(random, 1, 1100);
    struct call call = call_open(binaries[row].name);
    call_input(&call, tensor_random(dtype, shrink(random, &shape), random, -50, 50));
    call_input(&call, tensor_random(dtype, shrink(random, &shape), random, 1, 50));
    call_run(&call);
    double *want = numbers(tensor_count(&call.output));
    for (int64_t i = 0; i < tensor_count(&call.output); i++) {
        int64_t a = broadcast_index(&call.inputs[0].shape, &call.output.shape, i);
        int64_t b = broadcast_index(&call.inputs[1].shape, &call.output.shape, i);
        want[i] =
            binaries[row].reference(tensor_at(&call.inputs[0], a), tensor_at(&call.inputs[1], b));
        /* One exact operation, rounded first to f32 and then to 16 bits. */
        want[i] =
            dtype == ORR_DTYPE_F64 || !orr_dtype_is_float(dtype) ? want[i] : (double)(float)want[i];
    }
    check(&call, want, 0);
    free(want);
    call_close(&call);
}

static void binary_operators_broadcast_and_round_once(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (size_t row = 0; row < sizeof binaries / sizeof binaries[0]; row++)
        for (int trial = 0; trial < 60; trial++) {
            for (size_t d = 0; d < 4; d++)
                check_binary(row, floats[d], &random);
            for (size_t d = 0; binaries[row].of_integers && d < 2; d++)
                check_binary(row, integers[d], &random);
        }
}

/* The shapes that take different ways through the engine: streams of several blocks, a scalar, a
 * short row, a row too long for the table, a column, a plane in the middle. */
static void every_way_of_reading_an_operand_gives_the_same(void **state) {
    (void)state;
    struct random random = random_seeded();
    const struct orr_shape results[] = {shape2(3, 700), shape2(2, 20000), shape3(5, 300, 4)};
    for (size_t r = 0; r < 3; r++) {
        struct orr_shape full = results[r], row = full, column = full, scalar = shape1(1);
        row.dims[0] = 1;
        column.dims[full.rank - 1] = 1;
        struct orr_shape ways[] = {full, row, column, scalar, shape1(full.dims[full.rank - 1])};
        for (size_t a = 0; a < 5; a++)
            for (size_t d = 0; d < 4; d++) {
                struct call call = call_open("sub");
                call_input(&call, tensor_random(floats[d], ways[a], &random, -2, 2));
                call_input(&call, tensor_random(floats[d], full, &random, -2, 2));
                call_run(&call);
                for (int64_t i = 0; i < tensor_count(&call.output); i++) {
                    int64_t at = broadcast_index(&ways[a], &full, i);
                    double want = tensor_at(&call.inputs[0], at) - tensor_at(&call.inputs[1], i);
                    assert_near("sub", i, tensor_at(&call.output, i), want, 1e-7,
                                0.501 * dtype_epsilon(floats[d]));
                }
                call_close(&call);
            }
    }
}

static double ref_relu(double x) {
    return x < 0 ? 0 : x;
}
static double ref_gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}
static double ref_silu(double x) {
    return x / (1 + exp(-x));
}
static double ref_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double ref_neg(double x) {
    return -x;
}

static const struct {
    const char *name;
    double (*reference)(double);
    double low, arithmetic; /* smallest operand; error allowed in units of the arithmetic */
    bool of_integers;
} unaries[] = {
    {"relu", ref_relu, -5, 0, true},
    {"gelu", ref_gelu, -5, 8, false},
    {"silu", ref_silu, -5, 8, false},
    {"exp", exp, -5, 300, false},
    {"tanh", tanh, -5, 4, false},
    {"neg", ref_neg, -5, 0, true},
    {"sqrt", sqrt, 0, 2, false},
    {"log", log, 0.01, 4, false},
    {"sigmoid", ref_sigmoid, -5, 4, false},
};

static void check_unary(size_t row, enum orr_dtype dtype, struct random *random) {
    struct call call = call_open(unaries[row].name);
    struct orr_shape shape = shape_random(random, (int)random_int(random, 0, 4), 9);
    call_input(&call, tensor_random(dtype, shape, random, unaries[row].low, 5));
    call_run(&call);
    double *want = numbers(tensor_count(&call.output));
    for (int64_t i = 0; i < tensor_count(&call.output); i++)
        want[i] = unaries[row].reference(tensor_at(&call.inputs[0], i));
    check(&call, want, unaries[row].arithmetic);
    free(want);
    call_close(&call);
}

static void unary_operators_follow_their_formulas(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (size_t row = 0; row < sizeof unaries / sizeof unaries[0]; row++)
        for (int trial = 0; trial < 40; trial++) {
            for (size_t d = 0; d < 4; d++)
                check_unary(row, floats[d], &random);
            for (size_t d = 0; unaries[row].of_integers && d < 2; d++)
                check_unary(row, integers[d], &random);
        }
}

static void scale_multiplies_by_its_attribute(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (size_t d = 0; d < 4; d++) {
        struct call call = call_open("scale");
        call_input(&call, tensor_random(floats[d], shape2(9, 80), &random, -3, 3));
        call_real(&call, "alpha", -0.375);
        call_run(&call);
        for (int64_t i = 0; i < tensor_count(&call.output); i++)
            assert_near("scale", i, tensor_at(&call.output, i),
                        tensor_at(&call.inputs[0], i) * -0.375, 0x1p-25,
                        0.501 * dtype_epsilon(floats[d]));
        call_close(&call);
    }
}

static void integers_wrap_around(void **state) {
    (void)state;
    struct call call = call_open("add");
    call_input(&call, tensor_make(ORR_DTYPE_I32, shape1(2)));
    call_input(&call, tensor_make(ORR_DTYPE_I32, shape1(2)));
    int32_t *a = call.inputs[0].data, *b = call.inputs[1].data;
    a[0] = INT32_MAX, b[0] = 1;
    a[1] = INT32_MIN, b[1] = -1;
    call_run(&call);
    assert_true(tensor_at(&call.output, 0) == INT32_MIN);
    assert_true(tensor_at(&call.output, 1) == INT32_MAX);
    call_close(&call);
    call = call_open("mul");
    call_input(&call, tensor_make(ORR_DTYPE_I64, shape1(1)));
    call_input(&call, tensor_make(ORR_DTYPE_I64, shape1(1)));
    ((int64_t *)call.inputs[0].data)[0] = ((int64_t)1 << 32) + 3;
    ((int64_t *)call.inputs[1].data)[0] = ((int64_t)1 << 32) + 5;
    call_run(&call);
    assert_true(((int64_t *)call.output.data)[0] == ((int64_t)8 << 32) + 15);
    call_close(&call);
}

static void nan_and_infinity_come_through(void **state) {
    (void)state;
    static const char *const names[] = {"relu", "neg", "maximum", "add", "silu"};
    for (size_t n = 0; n < 5; n++)
        for (size_t d = 0; d < 4; d++)
            for (int side = 0; side < 2; side++) {
                struct call call = call_open(names[n]);
                for (int i = 0; i < call.op->inputs_max; i++) {
                    call_input(&call, tensor_make(floats[d], shape1(3)));
                    double first = i == side || call.op->inputs_max == 1 ? (double)NAN : 1;
                    orr_dtype_store(floats[d], call.inputs[i].data, 0, first);
                    orr_dtype_store(floats[d], call.inputs[i].data, 1, INFINITY);
                }
                call_run(&call);
                assert_true(isnan(tensor_at(&call.output, 0)));
                assert_true(isinf(tensor_at(&call.output, 1)));
                call_close(&call);
            }
}

static void a_pointwise_result_may_replace_its_operand(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    for (size_t d = 0; d < 4; d++) {
        struct call call = call_open("add");
        call_input(&call, tensor_random(floats[d], shape2(30, 50), &random, -1, 1));
        call_input(&call, tensor_random(floats[d], shape1(50), &random, -1, 1));
        call_run(&call);
        assert_int_equal(
            call.op->compute(call.inputs, 2, &call.attributes, &call.inputs[0], &memory, &error),
            ORR_OK);
        assert_true(tensor_equal(&call.inputs[0], &call.output));
        call_close(&call);
    }
}

/* ---- Matrix products ---- */

static double element(const struct orr_tensor_view *matrix, int64_t base, bool transposed,
                      int64_t rows, int64_t columns, int64_t i, int64_t j) {
    return tensor_at(matrix, base + (transposed ? j * rows + i : i * columns + j));
}

static void check_matmul(enum orr_dtype dtype, struct random *random) {
    int64_t m = random_int(random, 1, 9), k = random_int(random, 0, 70),
            n = random_int(random, 1, 9);
    bool transpose_a = random_int(random, 0, 1), transpose_b = random_int(random, 0, 1);
    struct orr_shape batch = shape_random(random, (int)random_int(random, 0, 3), 3);
    struct orr_shape x = shrink(random, &batch), weight = shrink(random, &batch);
    struct orr_shape of_x = x, of_weight = weight;
    x.dims[x.rank++] = transpose_a ? k : m;
    x.dims[x.rank++] = transpose_a ? m : k;
    weight.dims[weight.rank++] = transpose_b ? n : k;
    weight.dims[weight.rank++] = transpose_b ? k : n;
    struct call call = call_open("matmul");
    call_int(&call, "transpose_a", transpose_a);
    call_int(&call, "transpose_b", transpose_b);
    call_input(&call, tensor_random(dtype, x, random, -3, 3));
    call_input(&call, tensor_random(dtype, weight, random, -3, 3));
    call_run(&call);
    struct orr_shape result = call.output.shape;
    struct orr_shape batches = orr_shape_of(result.rank - 2, result.dims);
    double *want = numbers(tensor_count(&call.output));
    for (int64_t i = 0; i < tensor_count(&call.output); i++) {
        int64_t b = i / (m * n), row = i / n % m, column = i % n;
        int64_t base_x = broadcast_index(&of_x, &batches, b) * m * k;
        int64_t base_w = broadcast_index(&of_weight, &batches, b) * k * n;
        for (int64_t p = 0; p < k; p++)
            want[i] += element(&call.inputs[0], base_x, transpose_a, m, k, row, p) *
                       element(&call.inputs[1], base_w, transpose_b, k, n, p, column);
    }
    check(&call, want, 9 * (double)(k + 1));
    free(want);
    call_close(&call);
}

static void matmul_multiplies_batches_and_transposes(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 120; trial++) {
        for (size_t d = 0; d < 4; d++)
            check_matmul(floats[d], &random);
        for (size_t d = 0; d < 2; d++)
            check_matmul(integers[d], &random);
    }
}

/* Large enough for several panels of a 16-bit product; nearly all zeros, so that the sums are
 * known: row i has i + 1 at column i * 1000 and -1 in the last. */
static void a_long_16_bit_product_is_made_of_panels(void **state) {
    (void)state;
    enum { M = 67, N = 19, K = 600000 };
    for (int transposed = 0; transposed < 4; transposed++) {
        bool transpose_a = transposed & 1, transpose_b = transposed & 2;
        struct call call = call_open("matmul");
        call_int(&call, "transpose_a", transpose_a);
        call_int(&call, "transpose_b", transpose_b);
        call_input(&call, tensor_make(ORR_DTYPE_BF16, transpose_a ? shape2(K, M) : shape2(M, K)));
        call_input(&call, tensor_make(ORR_DTYPE_BF16, transpose_b ? shape2(N, K) : shape2(K, N)));
        uint16_t *x = call.inputs[0].data, *weight = call.inputs[1].data;
        for (int64_t i = 0; i < M; i++) {
            int64_t p = i * 1000;
            x[transpose_a ? p * M + i : i * K + p] = orr_bf16_from_f32((float)i + 1);
            x[transpose_a ? (int64_t)(K - 1) * M + i : i * K + K - 1] = orr_bf16_from_f32(-1);
            for (int64_t j = 0; j < N; j++)
                weight[transpose_b ? j * K + p : p * N + j] =
                    orr_bf16_from_f32((float)((i * 7 + j * 3) % 11));
        }
        for (int64_t j = 0; j < N; j++)
            weight[transpose_b ? j * K + K - 1 : (int64_t)(K - 1) * N + j] =
                orr_bf16_from_f32((float)j);
        call_run(&call);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                double want = (double)((i + 1) * ((i * 7 + j * 3) % 11) - j);
                assert_near("matmul", i * N + j, tensor_at(&call.output, i * N + j), want, 0,
                            0x1p-8);
            }
        call_close(&call);
    }
}

static void linear_multiplies_by_the_transposed_weight_and_adds_bias(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 60; trial++)
        for (size_t d = 0; d < 4; d++) {
            int64_t in = random_int(&random, 1, 60), out = random_int(&random, 1, 12);
            struct orr_shape x = shape_random(&random, (int)random_int(&random, 1, 4), 5);
            bool bias = random_int(&random, 0, 1);
            x.dims[x.rank - 1] = in;
            struct call call = call_open("linear");
            call_input(&call, tensor_random(floats[d], x, &random, -2, 2));
            call_input(&call, tensor_random(floats[d], shape2(out, in), &random, -2, 2));
            if (bias)
                call_input(&call, tensor_random(floats[d], shape1(out), &random, -2, 2));
            call_run(&call);
            double *want = numbers(tensor_count(&call.output));
            for (int64_t i = 0; i < tensor_count(&call.output); i++) {
                want[i] = bias ? tensor_at(&call.inputs[2], i % out) : 0;
                for (int64_t p = 0; p < in; p++)
                    want[i] += tensor_at(&call.inputs[0], i / out * in + p) *
                               tensor_at(&call.inputs[1], i % out * in + p);
            }
            check(&call, want, 4 * (double)(in + 1));
            free(want);
            call_close(&call);
        }
}

/* ---- Norms ---- */

static void ref_norm(const struct call *call, double eps, double *want) {
    const struct orr_tensor_view *x = &call->inputs[0];
    int64_t width = x->shape.dims[x->shape.rank - 1], count = tensor_count(x);
    bool softmax = strcmp(call->op->name, "softmax") == 0;
    bool layer = strcmp(call->op->name, "layernorm") == 0;
    for (int64_t first = 0; first < count; first += width) {
        double largest = -INFINITY, sum = 0, mean = 0, square = 0;
        for (int64_t i = first; i < first + width; i++) {
            largest = fmax(largest, tensor_at(x, i));
            mean += tensor_at(x, i) / (double)width;
        }
        mean = layer ? mean : 0;
        for (int64_t i = first; i < first + width; i++) {
            sum += exp(tensor_at(x, i) - largest);
            square += (tensor_at(x, i) - mean) * (tensor_at(x, i) - mean) / (double)width;
        }
        for (int64_t i = first; i < first + width; i++) {
            want[i] = softmax ? exp(tensor_at(x, i) - largest) / sum
                              : (tensor_at(x, i) - mean) / sqrt(square + eps);
            if (call->input_count > 1)
                want[i] *= tensor_at(&call->inputs[1], i - first);
            if (call->input_count > 2)
                want[i] += tensor_at(&call->inputs[2], i - first);
        }
    }
}

static void norms_work_along_the_last_dimension(void **state) {
    (void)state;
    static const char *const names[] = {"softmax", "layernorm", "rmsnorm"};
    struct random random = random_seeded();
    for (int trial = 0; trial < 60; trial++)
        for (size_t n = 0; n < 3; n++)
            for (size_t d = 0; d < 4; d++) {
                struct orr_shape shape = shape_random(&random, (int)random_int(&random, 1, 4), 6);
                int64_t width = random_int(&random, 1, 90);
                shape.dims[shape.rank - 1] = width;
                struct call call = call_open(names[n]);
                call_input(&call, tensor_random(floats[d], shape, &random, -4, 5));
                double eps = n == 0 ? 0 : 1e-3;
                if (n > 0)
                    call_real(&call, "eps", eps);
                int extra = (int)random_int(&random, 0, call.op->inputs_max - 1);
                for (int i = 0; i < extra; i++)
                    call_input(&call, tensor_random(floats[d], shape1(width), &random, -2, 2));
                call_run(&call);
                double *want = numbers(tensor_count(&call.output));
                ref_norm(&call, eps, want);
                check(&call, want, 200);
                free(want);
                call_close(&call);
            }
}

static void softmax_survives_large_and_masked_scores(void **state) {
    (void)state;
    struct call call = call_open("softmax");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(1, 4)));
    float *x = call.inputs[0].data;
    x[0] = 1e30f, x[1] = 1e30f, x[2] = -INFINITY, x[3] = -1e30f;
    call_run(&call);
    assert_true(tensor_at(&call.output, 0) == 0.5 && tensor_at(&call.output, 1) == 0.5);
    assert_true(tensor_at(&call.output, 2) == 0 && tensor_at(&call.output, 3) == 0);
    call_close(&call);
}

/* Two matrices of 3 x 5: rows see 3, 4 and 5 columns, whatever is behind them. */
static void a_causal_softmax_is_that_of_the_columns_that_a_row_sees(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct call masked = call_open("softmax"), row = call_open("softmax");
    call_int(&masked, "causal", 1);
    call_input(&masked, tensor_random(ORR_DTYPE_F64, shape3(2, 3, 5), &random, -1, 1));
    call_run(&masked);
    for (int64_t i = 0; i < 6; i++) {
        int64_t seen = 3 + i % 3;
        row.input_count = 0;
        call_input(&row, tensor_make(ORR_DTYPE_F64, shape1(seen)));
        memcpy(row.inputs[0].data, (double *)masked.inputs[0].data + 5 * i, (size_t)seen * 8);
        call_run(&row);
        for (int64_t j = 0; j < 5; j++)
            assert_near("softmax", i, tensor_at(&masked.output, 5 * i + j),
                        j < seen ? tensor_at(&row.output, j) : 0, 0, 0);
        tensor_free(&row.inputs[0]);
    }
    row.input_count = 0;
    call_close(&row);
    call_close(&masked);
}

/* ---- Attention ---- */

static void rope_rotates_half_split_pairs(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 20; trial++)
        for (size_t d = 0; d < 4; d++) {
            struct orr_shape shape = shape_random(&random, (int)random_int(&random, 2, 4), 7);
            int64_t half = random_int(&random, 1, 20), offset = random_int(&random, 0, 5000);
            int64_t width = 2 * half, positions = shape.dims[shape.rank - 2];
            shape.dims[shape.rank - 1] = width;
            struct call call = call_open("rope");
            call_input(&call, tensor_random(floats[d], shape, &random, -1, 1));
            call_int(&call, "offset", offset);
            call_real(&call, "theta", 500000);
            call_run(&call);
            double *want = numbers(tensor_count(&call.output));
            for (int64_t i = 0; i < tensor_count(&call.output); i++) {
                int64_t position = offset + i / width % positions, pair = i % width % half;
                double angle = (double)position * pow(500000, -2.0 * (double)pair / (double)width);
                bool second = i % width >= half;
                double own = tensor_at(&call.inputs[0], i);
                double other = tensor_at(&call.inputs[0], second ? i - half : i + half);
                want[i] = own * cos(angle) + (second ? 1 : -1) * other * sin(angle);
            }
            /* Angles go up to 5,000; an error of one place in one is 5,000 places here. */
            check(&call, want, floats[d] == ORR_DTYPE_F64 ? 20000 : 8);
            free(want);
            call_close(&call);
        }
}

static void ref_sdpa(const struct call *call, bool causal, double scale, double *want) {
    const struct orr_tensor_view *q = &call->inputs[0], *k = &call->inputs[1],
                                 *v = &call->inputs[2];
    int64_t heads = q->shape.dims[1], s = q->shape.dims[2], d = q->shape.dims[3];
    int64_t kv_heads = k->shape.dims[1], t = k->shape.dims[2], dv = v->shape.dims[3];
    double *scores = numbers(t);
    for (int64_t row = 0; row < q->shape.dims[0] * heads * s; row++) {
        int64_t batch = row / s / heads, head = row / s % heads, query = row % s;
        int64_t kv = batch * kv_heads + head / (heads / kv_heads);
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < t; j++) {
            scores[j] = 0;
            for (int64_t i = 0; i < d; i++)
                scores[j] += tensor_at(q, row * d + i) * tensor_at(k, (kv * t + j) * d + i);
            scores[j] = causal && j > query + t - s ? -INFINITY : scores[j] * scale;
            largest = fmax(largest, scores[j]);
        }
        for (int64_t j = 0; j < t; j++)
            sum += scores[j] = exp(scores[j] - largest);
        for (int64_t i = 0; i < dv; i++) {
            want[row * dv + i] = 0;
            for (int64_t j = 0; j < t; j++)
                want[row * dv + i] += scores[j] / sum * tensor_at(v, (kv * t + j) * dv + i);
        }
    }
    free(scores);
}

static void sdpa_attends_with_groups_masks_and_scales(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 30; trial++)
        for (size_t f = 0; f < 4; f++) {
            int64_t b = random_int(&random, 1, 2), kv = random_int(&random, 1, 2);
            int64_t heads = kv * random_int(&random, 1, 3), d = random_int(&random, 1, 9);
            int64_t s = random_int(&random, 1, trial % 10 == 0 ? 150 : 12);
            int64_t t = s + random_int(&random, 0, 9), dv = random_int(&random, 1, 9);
            bool causal = random_int(&random, 0, 1);
            double scale = random_int(&random, 0, 1) ? random_real(&random, -1, 1) : 0;
            struct call call = call_open("sdpa");
            call_int(&call, "causal", causal);
            call_real(&call, "scale", scale);
            call_input(&call, tensor_random(floats[f], shape4(b, heads, s, d), &random, -2, 2));
            call_input(&call, tensor_random(floats[f], shape4(b, kv, t, d), &random, -2, 2));
            call_input(&call, tensor_random(floats[f], shape4(b, kv, t, dv), &random, -2, 2));
            call_run(&call);
            double *want = numbers(tensor_count(&call.output));
            ref_sdpa(&call, causal, scale == 0 ? 1 / sqrt((double)d) : scale, want);
            check(&call, want, 200);
            free(want);
            call_close(&call);
        }
}

/* ---- Reductions ---- */

/* The elements of one result, in order: `outer` and `inner` fix it, `step` walks. */
static void check_reduction(const char *name, enum orr_dtype dtype, struct random *random) {
    struct orr_shape shape = shape_random(random, (int)random_int(random, 1, 4), 6);
    if (random_int(random, 0, 1))
        shape.dims[random_int(random, 0, shape.rank - 1)] = random_int(random, 1, 1300);
    bool all = random_int(random, 0, 3) == 0, keep = random_int(random, 0, 1);
    int dim = (int)random_int(random, 0, shape.rank - 1);
    int64_t n = all ? orr_shape_count(&shape) : shape.dims[dim], inner = 1;
    for (int i = dim + 1; !all && i < shape.rank; i++)
        inner *= shape.dims[i];
    struct call call = call_open(name);
    call_input(&call, tensor_random(dtype, shape, random, -20, 20));
    if (!all)
        call_int(&call, "dim", random_int(random, 0, 1) ? dim : dim - shape.rank);
    call_int(&call, "keepdim", keep);
    call_run(&call);
    assert_int_equal(call.output.shape.rank, keep ? shape.rank : all ? 0 : shape.rank - 1);
    int64_t count = orr_shape_count(&shape) / n;
    assert_int_equal(tensor_count(&call.output), count);
    double *want = numbers(count);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0, largest = -INFINITY, index = 0;
        for (int64_t step = 0; step < n; step++) {
            double x = tensor_at(&call.inputs[0], (i / inner * n + step) * inner + i % inner);
            sum += x;
            index = x > largest ? (double)step : index;
            largest = fmax(largest, x);
        }
        want[i] = strcmp(name, "sum") == 0    ? sum
                  : strcmp(name, "mean") == 0 ? sum / (double)n
                  : strcmp(name, "max") == 0  ? largest
                                              : index;
    }
    check(&call, want, dtype == ORR_DTYPE_F64 ? 20 * (double)n : 1);
    free(want);
    call_close(&call);
}

static void reductions_work_over_any_dimension_or_all(void **state) {
    (void)state;
    static const char *const names[] = {"sum", "mean", "max", "argmax"};
    struct random random = random_seeded();
    for (int trial = 0; trial < 60; trial++)
        for (size_t n = 0; n < 4; n++) {
            for (size_t d = 0; d < 4; d++)
                check_reduction(names[n], floats[d], &random);
            for (size_t d = 0; strcmp(names[n], "mean") != 0 && d < 2; d++)
                check_reduction(names[n], integers[d], &random);
        }
}

static void sums_of_many_small_numbers_keep_their_digits(void **state) {
    (void)state;
    enum { COUNT = 3000000 };
    for (int columns = 0; columns < 2; columns++) {
        struct call call = call_open("sum");
        call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(COUNT / (1 + columns), 1 + columns)));
        float *x = call.inputs[0].data;
        for (int i = 0; i < COUNT; i++)
            x[i] = 0.1f;
        call_int(&call, "dim", 0);
        call_run(&call);
        assert_near("sum", columns, tensor_at(&call.output, columns),
                    (double)0.1f * (COUNT / (1 + columns)), 0, 0x1p-23);
        call_close(&call);
    }
}

static void the_largest_is_found_among_nan_and_ties(void **state) {
    (void)state;
    struct call call = call_open("argmax");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(3, 3)));
    const float values[] = {2, 7, 7, 1, NAN, 9, -1, -5, -1};
    memcpy(call.inputs[0].data, values, sizeof values);
    call_int(&call, "dim", 1);
    call_run(&call);
    assert_true(tensor_at(&call.output, 0) == 1 && tensor_at(&call.output, 1) == 1);
    assert_true(tensor_at(&call.output, 2) == 0);
    call.op = orr_operator_find("max");
    call_run(&call);
    assert_true(tensor_at(&call.output, 0) == 7 && isnan(tensor_at(&call.output, 1)));
    call_int(&call, "dim", 0);
    call_run(&call);
    assert_true(tensor_at(&call.output, 0) == 2 && isnan(tensor_at(&call.output, 1)));
    call_close(&call);
    call = call_open("sum");
    call_input(&call, tensor_make(ORR_DTYPE_BOOL, shape1(700)));
    memset(call.inputs[0].data, 1, 600);
    call_run(&call);
    assert_int_equal(call.output.dtype, ORR_DTYPE_I64);
    assert_true(tensor_at(&call.output, 0) == 600);
    call_close(&call);
}

/* ---- Gather ---- */

static void embedding_copies_rows(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 30; trial++)
        for (size_t d = 0; d < 4; d++) {
            int64_t rows = random_int(&random, 1, 20), width = random_int(&random, 1, 9);
            struct orr_shape indices = shape_random(&random, (int)random_int(&random, 0, 3), 5);
            struct call call = call_open("embedding");
            call_input(&call, tensor_random(integers[trial % 2], indices, &random, 0,
                                            (double)rows - 0.01));
            call_input(&call, tensor_random(floats[d], shape2(rows, width), &random, -9, 9));
            call_run(&call);
            for (int64_t i = 0; i < tensor_count(&call.output); i++) {
                int64_t row = (int64_t)tensor_at(&call.inputs[0], i / width);
                assert_true(tensor_at(&call.output, i) ==
                            tensor_at(&call.inputs[1], row * width + i % width));
            }
            call_close(&call);
        }
}

static void cross_entropy_is_the_mean_negative_log_likelihood(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (int trial = 0; trial < 40; trial++)
        for (size_t d = 0; d < 4; d++) {
            int64_t n = random_int(&random, 1, 9), classes = random_int(&random, 1, 60);
            struct call call = call_open("cross_entropy");
            call_input(&call, tensor_random(floats[d], shape2(n, classes), &random, -9, 9));
            call_input(&call, tensor_random(integers[1 - trial % 2], shape1(n), &random, 0,
                                            (double)classes - 0.01));
            call_run(&call);
            double loss = 0;
            for (int64_t i = 0; i < n; i++) {
                double sum = 0;
                for (int64_t j = 0; j < classes; j++)
                    sum += exp(tensor_at(&call.inputs[0], i * classes + j));
                int64_t target = (int64_t)tensor_at(&call.inputs[1], i);
                loss += log(sum) - tensor_at(&call.inputs[0], i * classes + target);
            }
            enum orr_dtype expected = d == 0 ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
            assert_int_equal(call.output.dtype, expected);
            assert_int_equal(call.output.shape.rank, 0);
            assert_near("cross_entropy", 0, tensor_at(&call.output, 0), loss / (double)n,
                        100 * compute_epsilon(expected), 4 * dtype_epsilon(expected));
            call_close(&call);
        }
}

static void indices_out_of_range_are_named(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_error error = {0};
    struct call call = call_open("embedding");
    call_input(&call, tensor_make(ORR_DTYPE_I64, shape1(3)));
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(10, 4)));
    ((int64_t *)call.inputs[0].data)[2] = 10;
    assert_int_equal(call_run_with(&call, &memory, &error), ORR_INVALID);
    assert_string_equal(error.text,
                        "embedding: indices [3] i64 and weight [10, 4] f32: index 10 at position "
                        "2 is not a row of weight, expected 0 to 9");
    call_close(&call);
    orr_error_clear(&error);
    call = call_open("cross_entropy");
    call_input(&call, tensor_make(ORR_DTYPE_F32, shape2(2, 5)));
    call_input(&call, tensor_make(ORR_DTYPE_I64, shape1(2)));
    ((int64_t *)call.inputs[1].data)[1] = -1;
    assert_int_equal(call_run_with(&call, &memory, &error), ORR_INVALID);
    assert_string_equal(error.text,
                        "cross_entropy: logits [2, 5] f32 and targets [2] i64: target -1 at "
                        "position 1 is not a class, expected 0 to 4");
    call_close(&call);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary_operators_broadcast_and_round_once),
        cmocka_unit_test(every_way_of_reading_an_operand_gives_the_same),
        cmocka_unit_test(unary_operators_follow_their_formulas),
        cmocka_unit_test(scale_multiplies_by_its_attribute),
        cmocka_unit_test(integers_wrap_around),
        cmocka_unit_test(nan_and_infinity_come_through),
        cmocka_unit_test(a_pointwise_result_may_replace_its_operand),
        cmocka_unit_test(matmul_multiplies_batches_and_transposes),
        cmocka_unit_test(a_long_16_bit_product_is_made_of_panels),
        cmocka_unit_test(linear_multiplies_by_the_transposed_weight_and_adds_bias),
        cmocka_unit_test(norms_work_along_the_last_dimension),
        cmocka_unit_test(softmax_survives_large_and_masked_scores),
        cmocka_unit_test(a_causal_softmax_is_that_of_the_columns_that_a_row_sees),
        cmocka_unit_test(rope_rotates_half_split_pairs),
        cmocka_unit_test(sdpa_attends_with_groups_masks_and_scales),
        cmocka_unit_test(reductions_work_over_any_dimension_or_all),
        cmocka_unit_test(sums_of_many_small_numbers_keep_their_digits),
        cmocka_unit_test(the_largest_is_found_among_nan_and_ties),
        cmocka_unit_test(embedding_copies_rows),
        cmocka_unit_test(cross_entropy_is_the_mean_negative_log_likelihood),
        cmocka_unit_test(indices_out_of_range_are_named),
    };
    return cmocka_run_group_tests_name("operators", tests, NULL, NULL);
}
