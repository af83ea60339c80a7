/* Sums of gradients over several passes. */
#include "runtime/autograd.h"
#include "runtime/tensor_internal.h"

static void drop_terms(struct orr__sum *pending) {
    for (int i = 0; i < 2; i++) {
        if (pending->terms[i]) {
            orr__tensor_release(pending->terms[i]);
        }
    }
    *pending = (struct orr__sum){0};
}

/* A handle of the tensor without the partial axes that the other one does not have. */
static enum orr_status match(struct orr_tensor *tensor, const struct orr_layout *other,
                             struct orr_tensor **out) {
    struct orr_layout layout = tensor->layout;
    for (int axis = 0; axis < layout.mesh->axis_count; axis++) {
        if (layout.axes[axis].kind == ORR_PARTIAL && other->axes[axis].kind != ORR_PARTIAL) {
            layout.axes[axis] = other->axes[axis];
        }
    }
    return orr_tensor_redistribute(tensor, &layout, out);
}

/* Goes on with a sum: what it has brought already is there when a blocked call is repeated. */
static enum orr_status add(struct orr__sum *pending, struct orr_tensor *sum,
                           struct orr_tensor *gradient, struct orr_tensor **out_total) {
    const struct orr_operator *op = orr_operator_find("add");
    struct orr_attributes attributes;
    enum orr_status status = ORR_OK;
    orr_operator_defaults(op, &attributes);
    if (!pending->terms[0]) {
        status = match(sum, &gradient->layout, &pending->terms[0]);
    }
    if (status == ORR_OK && !pending->terms[1]) {
        status = match(gradient, &sum->layout, &pending->terms[1]);
    }
    if (status == ORR_OK) {
        status = orr_tensor_apply(gradient->runtime, op, pending->terms, 2, &attributes, NULL,
                                  out_total);
    }
    return status;
}

enum orr_status orr_gradient_accumulate(struct orr_tensor **sum, struct orr_tensor *gradient) {
    struct orr_runtime *runtime = gradient->runtime;
    struct orr__sum *pending = &runtime->hosts[runtime->host].sum;
    struct orr_tensor *total = NULL;
    orr_error_clear(&runtime->error);
    if (!*sum) {
        *sum = orr_tensor_retain(gradient);
        return ORR_OK;
    }
    if ((*sum)->layout.mesh != gradient->layout.mesh) {
        return orr__runtime_fail(runtime, ORR_INVALID,
                                 "gradients on different meshes can't be added");
    }
    if ((*sum)->info.dtype != gradient->info.dtype ||
        !orr_shape_equal(&(*sum)->info.shape, &gradient->info.shape)) {
        char is[ORR_SHAPE_TEXT_MAX], to[ORR_SHAPE_TEXT_MAX];
        return orr__runtime_fail(
            runtime, ORR_INVALID, "a gradient %s %s can't be added to a sum %s %s",
            orr_shape_text(&gradient->info.shape, is), orr_dtype_name(gradient->info.dtype),
            orr_shape_text(&(*sum)->info.shape, to), orr_dtype_name((*sum)->info.dtype));
    }
    if (pending->sum != (*sum)->serial || pending->gradient != gradient->serial) {
        drop_terms(pending); /* of a call that was not repeated */
        pending->sum = (*sum)->serial;
        pending->gradient = gradient->serial;
    }
    enum orr_status status = add(pending, *sum, gradient, &total);
    if (status == ORR_BLOCKED) {
        return status;
    }
    drop_terms(pending);
    if (status == ORR_OK) {
        orr__tensor_release(*sum);
        *sum = total;
    }
    return status;
}
