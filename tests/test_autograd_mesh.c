/* Gradients over meshes: equal to those of one device, with the placements of the table in
 * runtime/autograd.h, and with no more collectives than they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu.h"
#include "runtime/operators/gemm.h"
#include "runtime/region.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"

enum { PARAMETERS_MAX = 8 };

/* --- small models: parameters, and a loss made of them --- */

struct parameter {
    enum orr_dtype dtype;
    struct orr_shape shape;
    const char *dp, *tp; /* placements along the two axes */
    const char *grad;    /* of the gradient, as orr_layout_text has it */
};

struct model {
    const char *name;
    struct parameter
        parameters[PARAMETERS_MAX]; /* ends with a dp of NULL; integers have no gradient */
    struct orr_tensor *(*loss)(struct fixture *f, struct orr_mesh *mesh,
                               struct orr_tensor *const *parameters);
};

static struct orr_tensor *linear(struct fixture *f, struct orr_tensor *x, struct orr_tensor *w,
                                 struct orr_tensor *b) {
    struct op call = op_of("linear");
    struct orr_tensor *inputs[3] = {x, w, b};
    return run(f, &call, inputs, b ? 3 : 2);
}

/* gelu(x w1^T + b1) w2^T + b2, w1 cut by columns and w2 by rows along tp, the batch along dp. */
static struct orr_tensor *mlp_loss(struct fixture *f, struct orr_mesh *mesh,
                                   struct orr_tensor *const *p) {
    struct orr_layout rows = place(mesh, "S(0)", "R");
    struct orr_tensor *h = then(f, "gelu", linear(f, p[0], p[2], p[3]), NULL);
    struct orr_tensor *z = linear(f, h, p[4], NULL);
    orr_tensor_destroy(&h);
    z = then(f, "add", moved(f, z, &rows), p[5]);
    return then(f, "cross_entropy", z, p[1]);
}

static struct orr_tensor *reshaped(struct fixture *f, struct orr_tensor *x,
                                   struct orr_shape shape) {
    struct op call = op_of("reshape");
    at(&call, "shape")->shape = shape;
    struct orr_tensor *out = run(f, &call, &x, 1);
    orr_tensor_destroy(&x);
    return out;
}

static struct orr_tensor *swapped(struct fixture *f, struct orr_tensor *x) {
    struct op call = op_of("transpose");
    at(&call, "perm")->shape = dims(4, 0, 2, 1, 3);
    struct orr_tensor *out = run(f, &call, &x, 1);
    orr_tensor_destroy(&x);
    return out;
}

enum { BATCH = 4, TOKENS = 3, HIDDEN = 8, HEADS = 4, KV_HEADS = 2, HEAD = 4 };

/* [b, s, heads d] -> [b, heads, s, d], rotated */
static struct orr_tensor *heads_of(struct fixture *f, struct orr_tensor *x, int64_t heads,
                                   bool rotate) {
    struct orr_tensor *h = swapped(f, reshaped(f, x, dims(4, BATCH, TOKENS, heads, HEAD)));
    return rotate ? then(f, "rope", h, NULL) : h;
}

/* x + attention(rmsnorm(x)), then the mean square of its layernorm; heads cut along tp. */
static struct orr_tensor *attention_loss(struct fixture *f, struct orr_mesh *mesh,
                                         struct orr_tensor *const *p) {
    struct orr_layout rows = place(mesh, "S(0)", "R");
    struct op sdpa = op_of("sdpa");
    struct orr_tensor *n = apply(f, "rmsnorm", p[0], p[1]);
    struct orr_tensor *qkv[3] = {heads_of(f, linear(f, n, p[2], NULL), HEADS, true),
                                 heads_of(f, linear(f, n, p[3], NULL), KV_HEADS, true),
                                 heads_of(f, linear(f, n, p[4], NULL), KV_HEADS, false)};
    at(&sdpa, "causal")->integer = 1;
    struct orr_tensor *a = swapped(f, run(f, &sdpa, qkv, 3));
    a = reshaped(f, a, dims(3, BATCH, TOKENS, (int64_t)HEADS * HEAD, 0));
    struct orr_tensor *o = linear(f, a, p[5], NULL);
    orr_tensor_destroy(&a);
    orr_tensor_destroy(&n);
    for (int i = 0; i < 3; i++) {
        orr_tensor_destroy(&qkv[i]);
    }
    struct orr_tensor *y = then(f, "layernorm", then(f, "add", moved(f, o, &rows), p[0]), NULL);
    struct orr_tensor *square = apply(f, "mul", y, p[6]);
    square = then(f, "mul", square, y);
    orr_tensor_destroy(&y);
    return then(f, "mean", square, NULL);
}

/* Embedding, norm with weights, dropout, tanh, softmax, max: what is left, over the batch. */
static struct orr_tensor *words_loss(struct fixture *f, struct orr_mesh *mesh,
                                     struct orr_tensor *const *p) {
    (void)mesh;
    struct op norm = op_of("layernorm"), dropout = op_of("dropout"), max = op_of("max");
    struct orr_tensor *e = apply(f, "embedding", p[0], p[1]), *inputs[3] = {e, p[2], p[3]};
    struct orr_tensor *h = run(f, &norm, inputs, 3);
    orr_tensor_destroy(&e);
    at(&dropout, "p")->real = 0.3;
    at(&dropout, "seed")->integer = 5;
    struct orr_tensor *kept = run(f, &dropout, &h, 1);
    orr_tensor_destroy(&h);
    h = then(f, "mul", then(f, "tanh", kept, NULL), p[4]);
    struct orr_tensor *soft = apply(f, "softmax", h, NULL);
    h = then(f, "mul", h, soft);
    orr_tensor_destroy(&soft);
    at(&max, "dim")->integer = 1;
    struct orr_tensor *top = run(f, &max, &h, 1);
    orr_tensor_destroy(&h);
    return then(f, "sum", top, NULL);
}

#define F64 ORR_DTYPE_F64
#define I64 ORR_DTYPE_I64
#define D1(a)                                                                                      \
    {                                                                                              \
        1, {                                                                                       \
            a                                                                                      \
        }                                                                                          \
    }
#define D2(a, b)                                                                                   \
    {                                                                                              \
        2, {                                                                                       \
            a, b                                                                                   \
        }                                                                                          \
    }
#define D3(a, b, c)                                                                                \
    {                                                                                              \
        3, {                                                                                       \
            a, b, c                                                                                \
        }                                                                                          \
    }

static const struct model models[] = {
    {"mlp",
     {{F64, D2(8, 6), "S(0)", "R", "[S(0), P(sum)]"},
      {I64, D1(8), "S(0)", "R", ""},
      {F64, D2(8, 6), "R", "S(0)", "[P(sum), S(0)]"},
      {F64, D1(8), "R", "S(0)", "[P(sum), S(0)]"},
      {F64, D2(4, 8), "R", "S(1)", "[P(sum), S(1)]"},
      {F64, D1(4), "R", "R", "[P(sum), R]"},
      {0}},
     mlp_loss},
    {"attention",
     {{F64, D3(BATCH, TOKENS, HIDDEN), "S(0)", "R", "[S(0), R]"},
      {F64, D1(HIDDEN), "R", "R", "[P(sum), R]"},
      {F64, D2(HEADS *HEAD, HIDDEN), "R", "S(0)", "[P(sum), S(0)]"},
      {F64, D2(KV_HEADS *HEAD, HIDDEN), "R", "S(0)", "[P(sum), S(0)]"},
      {F64, D2(KV_HEADS *HEAD, HIDDEN), "R", "S(0)", "[P(sum), S(0)]"},
      {F64, D2(HIDDEN, HEADS *HEAD), "R", "S(1)", "[P(sum), S(1)]"},
      {F64, D1(HIDDEN), "R", "R", "[P(sum), R]"},
      {0}},
     attention_loss},
    {"words",
     {{I64, D1(12), "S(0)", "R", ""},
      {F64, D2(5, 6), "R", "R", "[P(sum), R]"},
      {F64, D1(6), "R", "R", "[P(sum), R]"},
      {F64, D1(6), "R", "R", "[P(sum), R]"},
      {F64, D1(6), "R", "R", "[P(sum), R]"},
      {0}},
     words_loss},
};

/* Values that differ from each other; small integers for indices. */
static void fill(const struct parameter *parameter, int index, double *values) {
    uint64_t state = 77 + (uint64_t)index;
    int64_t count = orr_shape_count(&parameter->shape);
    for (int64_t i = 0; i < count; i++) {
        values[i] = parameter->dtype == I64 ? (double)random_below(&state, 4)
                                            : ((double)random_below(&state, 2001) - 1000) / 1000;
    }
}

static int count_of(const struct model *model) {
    int count = 0;
    while (model->parameters[count].dp) {
        count++;
    }
    return count;
}

/* Gradients of a model on a mesh of dp x tp devices; grads[i] has room for VALUES_MAX numbers. */
static void gradients(const struct model *model, struct fixture *f, int64_t dp, int64_t tp,
                      double (*grads)[VALUES_MAX]) {
    struct orr_tensor *parameters[PARAMETERS_MAX], *wanted[PARAMETERS_MAX], *got[PARAMETERS_MAX];
    struct orr_mesh *mesh;
    struct orr_gradient_tape *tape;
    double values[VALUES_MAX];
    int count = count_of(model), floats = 0;
    must(f, orr_mesh_create(f->runtime, 2, (int64_t[]){dp, tp}, (const char *[]){"dp", "tp"}, NULL,
                            &mesh));
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    for (int i = 0; i < count; i++) {
        const struct parameter *parameter = &model->parameters[i];
        struct orr_layout layout = place(mesh, parameter->dp, parameter->tp);
        fill(parameter, i, values);
        parameters[i] = upload(f, parameter->dtype, parameter->shape, values, &layout);
        if (parameter->dtype == F64) {
            must(f, orr_gradient_tape_watch(tape, parameters[i]));
            wanted[floats++] = parameters[i];
        }
    }
    struct orr_tensor *loss = model->loss(f, mesh, parameters);
    must(f, orr_gradient(tape, loss, wanted, floats, got));
    download(f, loss, grads[count]);
    for (int i = 0, next = 0; i < count; i++) {
        if (model->parameters[i].dtype == F64) {
            assert_layout(got[next], model->parameters[i].grad);
            download(f, got[next], grads[i]);
            orr_tensor_destroy(&got[next++]);
        }
        orr_tensor_destroy(&parameters[i]);
    }
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
}

static void compare(const struct model *model, double (*wanted)[VALUES_MAX],
                    double (*got)[VALUES_MAX], int64_t dp, int64_t tp) {
    int count = count_of(model);
    for (int i = 0; i <= count; i++) {
        int64_t elements = i < count ? orr_shape_count(&model->parameters[i].shape) : 1;
        for (int64_t k = 0; k < elements && (i == count || model->parameters[i].dtype == F64);
             k++) {
            if (!near_f64(got[i][k], wanted[i][k], 1e-12)) {
                fail_msg("%s on %d x %d devices, parameter %d, element %d: %.17g, on one %.17g",
                         model->name, (int)dp, (int)tp, i, (int)k, got[i][k], wanted[i][k]);
            }
        }
    }
}

static void check_meshes(orr_backend_open open) {
    static const int64_t meshes[][2] = {{2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};
    static double wanted[PARAMETERS_MAX + 1][VALUES_MAX], got[PARAMETERS_MAX + 1][VALUES_MAX];
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct fixture f;
        fixture_open(&f, open, 1);
        gradients(&models[m], &f, 1, 1, wanted);
        fixture_close(&f);
        for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
            fixture_open(&f, open, (uint32_t)(meshes[i][0] * meshes[i][1]));
            memset(got, 0, sizeof got);
            gradients(&models[m], &f, meshes[i][0], meshes[i][1], got);
            compare(&models[m], wanted, got, meshes[i][0], meshes[i][1]);
            must(&f, orr_runtime_finish(f.runtime));
            fixture_close(&f);
        }
    }
}

static void gradients_on_meshes_equal_those_of_one_device(void **state) {
    (void)state;
    check_meshes(orr_sim_open);
}

static void gradients_on_cpu_devices_equal_those_of_one(void **state) {
    (void)state;
    check_meshes(orr_cpu_open);
}

/* --- collectives --- */

static int collectives(const struct fixture *f, const char *kind) {
    int found = 0;
    for (size_t i = 0; i < record_count(f, ORR_RECORD_COLLECTIVE); i++) {
        const struct orr_record_collective *record = record_at(f, ORR_RECORD_COLLECTIVE, i);
        found += strcmp(name_text(f, record->kind), kind) == 0;
    }
    return found;
}

/* Three products read one activation; its three partial gradients are reduced once. The other one
 * is the forward pass's. */
static void partial_gradients_of_one_tensor_are_reduced_once(void **state) {
    (void)state;
    static double got[PARAMETERS_MAX + 1][VALUES_MAX];
    struct fixture f;
    fixture_open(&f, orr_sim_open, 2);
    gradients(&models[1], &f, 1, 2, got);
    assert_int_equal(collectives(&f, "all_reduce"), 2);
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), 2);
    fixture_close(&f);
}

/* --- the table of runtime/autograd.h --- */

/* y = x w + b and its gradients on one axis of two devices. */
static const struct {
    const char *x, *w, *b, *y, *dx, *dw, *db; /* b NULL: none */
} rows[] = {
    {"R", "R", "R", "R", "R", "R", "R"},
    {"S(0)", "R", "R", "S(0)", "S(0)", "P(sum)", "P(sum)"},
    {"R", "S(1)", "S(0)", "S(1)", "P(sum)", "S(1)", "S(0)"},
    {"S(1)", "S(0)", NULL, "P(sum)", "S(1)", "S(0)", NULL},
    {"P(sum)", "R", NULL, "P(sum)", "R", "P(sum)", NULL},
    {"R", "P(sum)", NULL, "P(sum)", "P(sum)", "R", NULL},
};

/* A tensor with a placement; partial ones are products of two shards. */
static struct orr_tensor *placed(struct fixture *f, struct orr_mesh *mesh, struct orr_shape shape,
                                 const char *text, int seed) {
    struct parameter parameter = {.dtype = F64, .shape = shape};
    double values[VALUES_MAX];
    fill(&parameter, seed, values);
    struct orr_layout layout = place(mesh, text[0] == 'P' ? "R" : text, NULL);
    struct orr_tensor *tensor = upload(f, F64, shape, values, &layout);
    if (text[0] != 'P') {
        return tensor;
    }
    struct orr_layout columns = place(mesh, "S(1)", NULL), inner = place(mesh, "S(0)", NULL);
    struct parameter square = {.dtype = F64, .shape = dims(2, shape.dims[1], shape.dims[1], 0, 0)};
    fill(&square, seed + 1, values);
    struct orr_tensor *factor = upload(f, F64, square.shape, values, &inner);
    tensor = then(f, "matmul", moved(f, tensor, &columns), factor);
    orr_tensor_destroy(&factor);
    return tensor;
}

static void placements_of_gradients_follow_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        struct orr_mesh *mesh;
        struct orr_gradient_tape *tape;
        fixture_open(&f, orr_sim_open, 2);
        must(&f, orr_mesh_create(f.runtime, 1, (int64_t[]){2}, (const char *[]){"d"}, NULL, &mesh));
        struct orr_tensor *x = placed(&f, mesh, dims(2, 4, 6, 0, 0), rows[i].x, 1);
        struct orr_tensor *w = placed(&f, mesh, dims(2, 6, 2, 0, 0), rows[i].w, 3);
        struct orr_tensor *b =
            rows[i].b ? placed(&f, mesh, dims(1, 2, 0, 0, 0), rows[i].b, 5) : NULL;
        struct orr_tensor *wanted[3] = {x, w, b}, *got[3] = {NULL, NULL, NULL};
        must(&f, orr_gradient_tape_begin(f.runtime, &tape));
        for (int k = 0; k < (b ? 3 : 2); k++) {
            must(&f, orr_gradient_tape_watch(tape, wanted[k]));
        }
        struct orr_tensor *y = apply(&f, "matmul", x, w);
        assert_layout(y, rows[i].y);
        y = b ? then(&f, "add", y, b) : y;
        struct orr_gradient_seed seed = {.tensor = y};
        must(&f, orr_gradient_from(tape, &seed, 1, wanted, b ? 3 : 2, got));
        assert_layout(got[0], rows[i].dx);
        assert_layout(got[1], rows[i].dw);
        if (b) {
            assert_layout(got[2], rows[i].db);
        }
        for (int k = 0; k < 3; k++) {
            orr_tensor_destroy(&got[k]);
            orr_tensor_destroy(&wanted[k]);
        }
        orr_tensor_destroy(&y);
        orr_gradient_tape_destroy(&tape);
        fixture_close(&f);
    }
}

/* --- sharded parameters, uneven shards, places in the whole --- */

/* mean(tanh(x w)) with w gathered before use; the gradient of w goes to values. */
static void sharded_parameter(struct fixture *f, const char *x_place, const char *w_place,
                              int64_t batch, const char *grad, double *values) {
    struct orr_mesh *mesh = orr_mesh_default(f->runtime);
    struct orr_layout whole = place(mesh, "R", NULL);
    struct orr_gradient_tape *tape;
    struct orr_tensor *x = placed(f, mesh, dims(2, batch, 6, 0, 0), x_place, 1), *gathered, *dw;
    struct orr_tensor *w = placed(f, mesh, dims(2, 6, 4, 0, 0), w_place, 2);
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    must(f, orr_gradient_tape_watch(tape, w));
    must(f, orr_tensor_redistribute(w, &whole, &gathered));
    struct orr_tensor *y = then(f, "tanh", apply(f, "matmul", x, gathered), NULL);
    struct orr_tensor *loss = then(f, "mean", y, NULL);
    must(f, orr_gradient(tape, loss, &w, 1, &dw));
    assert_layout(dw, grad);
    download(f, dw, values);
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&w);
    orr_tensor_destroy(&gathered);
    orr_tensor_destroy(&loss);
    orr_tensor_destroy(&dw);
}

static void assert_values(const double *got, const double *wanted, int count) {
    for (int i = 0; i < count; i++) {
        if (!near_f64(got[i], wanted[i], 1e-12)) {
            fail_msg("element %d: %.17g, expected %.17g", i, got[i], wanted[i]);
        }
    }
}

static void gathered_parameters_get_scattered_gradients(void **state) {
    (void)state;
    double wanted[VALUES_MAX], got[VALUES_MAX];
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    sharded_parameter(&f, "R", "R", 8, "R", wanted);
    fixture_close(&f);
    fixture_open(&f, orr_sim_open, 2);
    sharded_parameter(&f, "S(0)", "S(0)", 8, "S(0)", got);
    assert_int_equal(collectives(&f, "all_gather"), 1);
    assert_int_equal(collectives(&f, "reduce_scatter"), 1);
    assert_int_equal(record_count(&f, ORR_RECORD_COLLECTIVE), 2);
    fixture_close(&f);
    assert_values(got, wanted, 24);
    fixture_open(&f, orr_sim_open, 2); /* columns: whatever way there is, to the same numbers */
    sharded_parameter(&f, "S(0)", "S(1)", 8, "S(1)", got);
    fixture_close(&f);
    assert_values(got, wanted, 24);
}

static void uneven_batches_weigh_rows_alike(void **state) {
    (void)state;
    double wanted[VALUES_MAX], got[VALUES_MAX];
    struct fixture f;
    fixture_open(&f, orr_sim_open, 1);
    sharded_parameter(&f, "R", "R", 7, "R", wanted);
    fixture_close(&f);
    for (uint32_t devices = 2; devices <= 4; devices++) {
        fixture_open(&f, orr_sim_open, devices);
        sharded_parameter(&f, "S(0)", "R", 7, "P(sum)", got);
        fixture_close(&f);
        assert_values(got, wanted, 24);
    }
}

/* dropout over rows or columns and rope over positions: sum(op(x) x), its gradient, and op(x). */
static void by_place(struct fixture *f, const char *name, const char *text, double *values,
                     double *grads) {
    struct orr_mesh *mesh = orr_mesh_default(f->runtime);
    struct op call = op_of(name);
    struct orr_gradient_tape *tape;
    struct orr_tensor *x = placed(f, mesh, dims(2, 6, 8, 0, 0), text, 1), *dx;
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    must(f, orr_gradient_tape_watch(tape, x));
    struct orr_tensor *y = run(f, &call, &x, 1), *product = apply(f, "mul", y, x);
    struct orr_tensor *loss = then(f, "sum", product, NULL);
    must(f, orr_gradient(tape, loss, &x, 1, &dx));
    download(f, y, values);
    download(f, dx, grads);
    orr_gradient_tape_destroy(&tape);
    orr_tensor_destroy(&x);
    orr_tensor_destroy(&y);
    orr_tensor_destroy(&loss);
    orr_tensor_destroy(&dx);
}

static void masks_and_positions_are_those_of_the_whole(void **state) {
    (void)state;
    static const char *const names[] = {"dropout", "rope"}, *const places[] = {"S(0)", "S(1)"};
    double values[2][VALUES_MAX], grads[2][VALUES_MAX];
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, orr_sim_open, 1);
        by_place(&f, names[i], "R", values[0], grads[0]);
        fixture_close(&f);
        for (int k = 0; k < 2 - i; k++) { /* rope's last dimension is not cut */
            fixture_open(&f, orr_sim_open, 3);
            by_place(&f, names[i], places[k], values[1], grads[1]);
            fixture_close(&f);
            assert_values(values[1], values[0], 48);
            assert_values(grads[1], grads[0], 48);
        }
    }
}

static enum orr_status fused_dropout(void *context, struct orr_tensor *const *inputs, int count,
                                     struct orr_tensor **outputs, int max, int *out_count) {
    (void)count;
    (void)max;
    outputs[0] = then(context, "neg", apply(context, "dropout", inputs[0], NULL), NULL);
    *out_count = 1;
    return ORR_OK;
}

static void a_fused_dropout_over_shards_has_the_mask_of_the_whole(void **state) {
    (void)state;
    double values[2][VALUES_MAX];
    for (int sharded = 0; sharded < 2; sharded++) {
        struct fixture f;
        struct orr_compiled *compiled;
        int count;
        fixture_open(&f, orr_sim_open, sharded ? 3 : 1);
        struct orr_tensor *out, *x = placed(&f, orr_mesh_default(f.runtime), dims(2, 6, 8, 0, 0),
                                            sharded ? "S(0)" : "R", 1);
        must(&f, orr_compiled_create(f.runtime, "f", ORR_FUSION_POINTWISE, false, &compiled));
        must(&f, orr_compiled_call(compiled, &x, 1, fused_dropout, &f, &out, 1, &count));
        download(&f, out, values[sharded]);
        orr_tensor_destroy(&x);
        orr_tensor_destroy(&out);
        orr_compiled_destroy(&compiled);
        fixture_close(&f);
    }
    assert_values(values[1], values[0], 48);
}

/* --- a step with its reductions in a region --- */

/* tanh(x w1) w2 on a batch over two devices, both weights' gradients reduced. */
static enum orr_status reduced_step(void *context, struct orr_tensor *const *inputs, int count,
                                    struct orr_tensor **outputs, int max, int *out_count) {
    struct fixture *f = context;
    struct orr_layout whole = place(orr_mesh_default(f->runtime), "R", NULL);
    struct orr_gradient_tape *tape;
    assert_true(count == 3 && max >= 2);
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    must(f, orr_gradient_tape_watch(tape, inputs[1]));
    must(f, orr_gradient_tape_watch(tape, inputs[2]));
    struct orr_tensor *h = then(f, "tanh", apply(f, "matmul", inputs[0], inputs[1]), NULL);
    struct orr_tensor *loss = then(f, "mean", apply(f, "matmul", h, inputs[2]), NULL);
    must(f, orr_gradient(tape, loss, &inputs[1], 2, outputs));
    for (int i = 0; i < 2; i++) {
        outputs[i] = then(f, "neg", moved(f, outputs[i], &whole), NULL);
    }
    *out_count = 2;
    orr_tensor_destroy(&h);
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
    return ORR_OK;
}

static void a_region_may_hold_a_step_with_its_reductions(void **state) {
    (void)state;
    double wanted[2][VALUES_MAX], got[VALUES_MAX];
    for (int kind = 0; kind < 4; kind++) { /* one device; two: eager, fused, captured */
        struct fixture f;
        struct orr_compiled *compiled;
        fixture_open(&f, orr_sim_open, kind == 0 ? 1 : 2);
        struct orr_mesh *mesh = orr_mesh_default(f.runtime);
        struct orr_tensor *inputs[3] = {
            placed(&f, mesh, dims(2, 4, 6, 0, 0), kind == 0 ? "R" : "S(0)", 1),
            placed(&f, mesh, dims(2, 6, 8, 0, 0), "R", 2),
            placed(&f, mesh, dims(2, 8, 2, 0, 0), "R", 3)};
        must(&f,
             orr_compiled_create(f.runtime, "step", kind < 2 ? ORR_FUSION_OFF : ORR_FUSION_EPILOGUE,
                                 kind == 3, &compiled));
        for (int call = 0; call < 3; call++) {
            struct orr_tensor *outputs[2];
            int count;
            must(&f, orr_compiled_call(compiled, inputs, 3, reduced_step, &f, outputs, 2, &count));
            for (int i = 0; i < 2; i++) {
                assert_layout(outputs[i], "R");
                download(&f, outputs[i], kind == 0 ? wanted[i] : got);
                if (kind > 0) {
                    assert_values(got, wanted[i], i == 0 ? 48 : 16);
                }
                orr_tensor_destroy(&outputs[i]);
            }
        }
        for (int i = 0; i < 3; i++) {
            orr_tensor_destroy(&inputs[i]);
        }
        orr_compiled_destroy(&compiled);
        fixture_close(&f);
    }
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_on_meshes_equal_those_of_one_device),
        cmocka_unit_test(gradients_on_cpu_devices_equal_those_of_one),
        cmocka_unit_test(partial_gradients_of_one_tensor_are_reduced_once),
        cmocka_unit_test(placements_of_gradients_follow_the_table),
        cmocka_unit_test(gathered_parameters_get_scattered_gradients),
        cmocka_unit_test(uneven_batches_weigh_rows_alike),
        cmocka_unit_test(masks_and_positions_are_those_of_the_whole),
        cmocka_unit_test(a_fused_dropout_over_shards_has_the_mask_of_the_whole),
        cmocka_unit_test(a_region_may_hold_a_step_with_its_reductions),
    };
    return cmocka_run_group_tests_name("autograd mesh", tests, NULL, NULL);
}
