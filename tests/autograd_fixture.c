#include "tests/autograd_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

void must(struct fixture *f, enum orr_status status) {
    if (status != ORR_OK) {
        fail_msg("%s: %s", orr_status_text(status), fixture_error(f));
    }
}

struct orr_shape dims(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return orr_shape_of(rank, (int64_t[]){a, b, c, d});
}

struct orr_shape tensor_shape(const struct orr_tensor *tensor) {
    return orr_tensor_info(tensor)->shape;
}

struct orr_tensor *upload(struct fixture *f, enum orr_dtype dtype, struct orr_shape shape,
                          const double *values, const struct orr_layout *layout) {
    struct orr_operand_info info = {.dtype = dtype, .shape = shape};
    int64_t count = orr_shape_count(&shape);
    assert_true(count <= VALUES_MAX);
    double data[VALUES_MAX];
    struct orr_tensor *tensor;
    for (int64_t i = 0; i < count; i++) {
        orr_dtype_store(dtype, data, (size_t)i, values[i]);
    }
    must(f, orr_tensor_from_host(f->runtime, &info, layout, data, &tensor));
    return tensor;
}

void download(struct fixture *f, struct orr_tensor *tensor, double *values) {
    const struct orr_operand_info *info = orr_tensor_info(tensor);
    int64_t count = orr_shape_count(&info->shape);
    assert_true(count <= VALUES_MAX);
    double data[VALUES_MAX];
    struct orr_future *future;
    must(f, orr_tensor_future(tensor, &future));
    must(f, orr_future_get(future, data, (size_t)count * orr_dtype_size(info->dtype)));
    orr_future_destroy(&future);
    for (int64_t i = 0; i < count; i++) {
        values[i] = orr_dtype_load(info->dtype, data, (size_t)i);
    }
}

struct op op_of(const char *name) {
    struct op call = {.op = orr_operator_find(name)};
    if (!call.op) {
        fail_msg("no operator '%s'", name);
    }
    orr_operator_defaults(call.op, &call.attributes);
    return call;
}

struct orr_attribute *at(struct op *call, const char *name) {
    int index = orr_operator_attribute(call->op, name);
    if (index < 0) {
        fail_msg("%s has no attribute '%s'", call->op->name, name);
    }
    return &call->attributes.values[index];
}

struct orr_tensor *run(struct fixture *f, const struct op *call, struct orr_tensor *const *inputs,
                       int count) {
    struct orr_tensor *outputs[ORR_OUTPUTS_MAX];
    must(f,
         orr_tensor_apply(f->runtime, call->op, inputs, count, &call->attributes, NULL, outputs));
    for (int i = 1; i < call->op->outputs; i++) {
        orr_tensor_destroy(&outputs[i]);
    }
    return outputs[0];
}

struct orr_tensor *apply(struct fixture *f, const char *name, struct orr_tensor *x,
                         struct orr_tensor *y) {
    struct op call = op_of(name);
    struct orr_tensor *inputs[2] = {x, y};
    return run(f, &call, inputs, y ? 2 : 1);
}

struct orr_tensor *then(struct fixture *f, const char *name, struct orr_tensor *x,
                        struct orr_tensor *y) {
    struct orr_tensor *out = apply(f, name, x, y);
    orr_tensor_destroy(&x);
    return out;
}

struct orr_layout place(struct orr_mesh *mesh, const char *first, const char *second) {
    struct orr_layout layout = orr_layout_replicated(mesh);
    struct orr_error error = {0};
    if (orr_placement_parse(first, &layout.axes[0], &error) != ORR_OK ||
        (mesh->axis_count > 1 && orr_placement_parse(second, &layout.axes[1], &error) != ORR_OK)) {
        fail_msg("%s", error.text);
    }
    return layout;
}

void assert_layout(const struct orr_tensor *tensor, const char *text) {
    char buffer[ORR_PLACEMENT_TEXT_MAX];
    assert_string_equal(orr_layout_text(orr_tensor_layout(tensor), buffer), text);
}

struct orr_tensor *moved(struct fixture *f, struct orr_tensor *tensor,
                         const struct orr_layout *layout) {
    struct orr_tensor *out;
    must(f, orr_tensor_redistribute(tensor, layout, &out));
    orr_tensor_destroy(&tensor);
    return out;
}
