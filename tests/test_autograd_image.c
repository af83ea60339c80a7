/* Gradients of convolutions, group norms and quantized weights over a mesh: those of whole tensors,
 * placed as the table in runtime/autograd.h says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/autograd_fixture.h"

#define F64 ORR_DTYPE_F64

enum { PARAMETERS_MAX = 8 };

struct parameter {
    struct orr_shape shape;
    const char *dp, *tp; /* placements along the two axes; NULL ends */
    const char *grad;    /* of the gradient, as orr_layout_text has it */
};

/* A loss made of parameters; `sharded` false: everything is replicated. */
struct model {
    struct parameter parameters[PARAMETERS_MAX];
    struct orr_tensor *(*loss)(struct fixture *f, struct orr_mesh *mesh, bool sharded,
                               struct orr_tensor *const *parameters);
};

static struct orr_tensor *call_of(struct fixture *f, struct op *call, struct orr_tensor *a,
                                  struct orr_tensor *b, struct orr_tensor *c) {
    struct orr_tensor *inputs[3] = {a, b, c};
    return run(f, call, inputs, c ? 3 : 2);
}

/* conv(silu(groupnorm(conv(x)))), a part of each element: images along dp; filters of the first
 * convolution, groups, and input channels of the second along tp. */
static struct orr_tensor *image_loss(struct fixture *f, struct orr_mesh *mesh, bool sharded,
                                     struct orr_tensor *const *p) {
    struct op first = op_of("conv2d"), norm = op_of("groupnorm"), second = op_of("conv2d");
    at(&first, "padding")->integer = 1;
    at(&norm, "groups")->integer = 4;
    at(&second, "stride")->integer = 2;
    struct orr_tensor *h = call_of(f, &first, p[0], p[1], p[2]);
    struct orr_tensor *n = then(f, "silu", call_of(f, &norm, h, p[3], p[4]), NULL);
    struct orr_tensor *y = call_of(f, &second, n, p[5], NULL);
    orr_tensor_destroy(&h);
    orr_tensor_destroy(&n);
    if (sharded) {
        struct orr_layout rows = place(mesh, "S(0)", "R");
        y = moved(f, y, &rows);
    }
    return then(f, "sum", then(f, "mul", y, p[6]), NULL);
}

/* Each group of channels on a rank of its own: depthwise, and in two groups. */
static struct orr_tensor *grouped_loss(struct fixture *f, struct orr_mesh *mesh, bool sharded,
                                       struct orr_tensor *const *p) {
    struct op depthwise = op_of("conv2d"), pairs = op_of("conv2d");
    (void)mesh;
    (void)sharded;
    at(&depthwise, "groups")->integer = 4;
    at(&pairs, "groups")->integer = 2;
    struct orr_tensor *h = call_of(f, &depthwise, p[0], p[1], p[2]);
    struct orr_tensor *y = call_of(f, &pairs, h, p[3], NULL);
    orr_tensor_destroy(&h);
    return then(f, "sum", then(f, "mul", y, p[4]), NULL);
}

static struct orr_tensor *codes(struct fixture *f, struct orr_mesh *mesh, bool sharded, int64_t out,
                                int64_t in, int dim, struct orr_tensor **scale) {
    const struct orr_operator *op = orr_operator_find("quantize");
    struct orr_layout layout = orr_layout_replicated(mesh);
    struct orr_attributes attributes;
    double values[64];
    struct orr_tensor *both[ORR_OUTPUTS_MAX];
    for (int i = 0; i < 64; i++) {
        values[i] = (double)(i * 29 % 23) - 11;
    }
    struct orr_tensor *w = upload(f, ORR_DTYPE_F32, dims(2, out, in, 0, 0), values, &layout);
    orr_operator_defaults(op, &attributes);
    must(f, orr_tensor_apply(f->runtime, op, &w, 1, &attributes, NULL, both));
    orr_tensor_destroy(&w);
    layout.axes[1] = (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
    *scale = sharded && dim == 0 ? moved(f, both[1], &layout) : both[1];
    return sharded ? moved(f, both[0], &layout) : both[0];
}

/* Columns of the first weight and rows of the second along tp, as in a tensor-parallel layer. */
static struct orr_tensor *quantized_loss(struct fixture *f, struct orr_mesh *mesh, bool sharded,
                                         struct orr_tensor *const *p) {
    struct op call = op_of("linear_quantized");
    struct orr_tensor *scale[2], *q[2] = {codes(f, mesh, sharded, 8, 6, 0, &scale[0]),
                                          codes(f, mesh, sharded, 4, 8, 1, &scale[1])};
    struct orr_tensor *first[4] = {p[0], q[0], scale[0], p[1]};
    struct orr_tensor *h = then(f, "silu", run(f, &call, first, 4), NULL);
    struct orr_tensor *second[3] = {h, q[1], scale[1]}, *y = run(f, &call, second, 3);
    orr_tensor_destroy(&h);
    for (int i = 0; i < 2; i++) {
        orr_tensor_destroy(&q[i]);
        orr_tensor_destroy(&scale[i]);
    }
    if (sharded) {
        struct orr_layout rows = place(mesh, "S(0)", "R");
        y = moved(f, y, &rows);
    }
    return then(f, "sum", then(f, "mul", y, p[2]), NULL);
}

static const struct model models[] = {
    {{{{4, {4, 4, 5, 5}}, "S(0)", "R", "[S(0), P(sum)]"},
      {{4, {8, 4, 3, 3}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{1, {8}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{1, {8}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{1, {8}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{4, {3, 8, 2, 2}}, "R", "S(1)", "[P(sum), S(1)]"},
      {{4, {4, 3, 2, 2}}, "S(0)", "R", "[S(0), R]"}},
     image_loss},
    {{{{4, {2, 4, 4, 4}}, "S(0)", "S(1)", "[S(0), S(1)]"},
      {{4, {8, 1, 2, 2}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{1, {8}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{4, {2, 4, 1, 1}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{4, {2, 2, 3, 3}}, "S(0)", "S(1)", "[S(0), S(1)]"}},
     grouped_loss},
    {{{{2, {4, 6}}, "S(0)", "R", "[S(0), P(sum)]"},
      {{1, {8}}, "R", "S(0)", "[P(sum), S(0)]"},
      {{2, {4, 4}}, "S(0)", "R", "[S(0), R]"}},
     quantized_loss},
};

static double number(int64_t i, int parameter) {
    return (double)((i * 31 + 17 * parameter) % 37) / 16 - 1.1;
}

/* Gradients of all parameters, one after the other; checks their placements if `sharded`. */
static void gradients(struct fixture *f, struct orr_mesh *mesh, const struct model *model,
                      bool sharded, double *out) {
    static double values[VALUES_MAX];
    struct orr_tensor *parameters[PARAMETERS_MAX], *grads[PARAMETERS_MAX];
    struct orr_gradient_tape *tape;
    uint32_t count = 0;
    must(f, orr_gradient_tape_begin(f->runtime, &tape));
    for (; model->parameters[count].dp; count++) {
        const struct parameter *p = &model->parameters[count];
        struct orr_layout layout = sharded ? place(mesh, p->dp, p->tp) : place(mesh, "R", "R");
        for (int64_t i = 0; i < orr_shape_count(&p->shape); i++) {
            values[i] = number(i, (int)count);
        }
        parameters[count] = upload(f, F64, p->shape, values, &layout);
        must(f, orr_gradient_tape_watch(tape, parameters[count]));
    }
    struct orr_tensor *loss = model->loss(f, mesh, sharded, parameters);
    must(f, orr_gradient(tape, loss, parameters, (int)count, grads));
    for (uint32_t i = 0; i < count; i++) {
        if (sharded) {
            assert_layout(grads[i], model->parameters[i].grad);
        }
        download(f, grads[i], out);
        out += orr_shape_count(&model->parameters[i].shape);
        orr_tensor_destroy(&grads[i]);
        orr_tensor_destroy(&parameters[i]);
    }
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
}

static void gradients_over_a_mesh_are_those_of_whole_tensors(void **state) {
    (void)state;
    static double got[VALUES_MAX], want[VALUES_MAX];
    for (size_t k = 0; k < sizeof models / sizeof models[0]; k++) {
        struct fixture f;
        fixture_open(&f, orr_sim_open, 4);
        struct orr_mesh *mesh;
        must(&f, orr_mesh_create(f.runtime, 2, (int64_t[]){2, 2}, (const char *[]){"dp", "tp"},
                                 NULL, &mesh));
        gradients(&f, mesh, &models[k], false, want);
        gradients(&f, mesh, &models[k], true, got);
        int64_t count = 0, zeros = 0;
        for (int i = 0; models[k].parameters[i].dp; i++) {
            count += orr_shape_count(&models[k].parameters[i].shape);
        }
        for (int64_t i = 0; i < count; i++) {
            zeros += want[i] == 0;
            if (!near_f64(got[i], want[i], 1e-11)) {
                fail_msg("model %d, value %lld: %g, not %g", (int)k, (long long)i, got[i], want[i]);
            }
        }
        assert_true(zeros < count / 4); /* what a stride leaves out */
        fixture_close(&f);
    }
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_over_a_mesh_are_those_of_whole_tensors),
    };
    return cmocka_run_group_tests_name("image gradients", tests, NULL, NULL);
}
