/* Sums of gradients over several passes. */
#include "runtime/autograd.h"
#include "runtime/tensor_internal.h"

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

enum orr_status orr_gradient_accumulate(struct orr_tensor **sum, struct orr_tensor *gradient) {
    if (!*sum) {
        *sum = orr_tensor_retain(gradient);
        return ORR_OK;
    }
    const struct orr_operator *add = orr_operator_find("add");
    struct orr_attributes attributes;
    struct orr_tensor *terms[2] = {NULL, NULL}, *total = NULL;
    orr_operator_defaults(add, &attributes);
    if ((*sum)->layout.mesh != gradient->layout.mesh) {
        return orr__runtime_fail(gradient->runtime, ORR_INVALID,
                                 "gradients on different meshes can't be added");
    }
    enum orr_status status = match(*sum, &gradient->layout, &terms[0]);
    if (status == ORR_OK) {
        status = match(gradient, &(*sum)->layout, &terms[1]);
    }
    if (status == ORR_OK) {
        status = orr_tensor_apply(gradient->runtime, add, terms, 2, &attributes, NULL, &total);
    }
    for (int i = 0; i < 2; i++) {
        if (terms[i]) {
            orr__tensor_release(terms[i]);
        }
    }
    if (status == ORR_OK) {
        orr__tensor_release(*sum);
        *sum = total;
    }
    return status;
}
