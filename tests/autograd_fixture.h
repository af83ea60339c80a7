/* What the tests of gradients share: tensors from and to numbers, operators with named attributes,
 * layouts on a mesh of two axes, dp and tp.
 *
 *     struct op call = op_of("softmax");
 *     struct orr_tensor *x = upload(&f, ORR_DTYPE_F64, shape, values, NULL);
 *     struct orr_tensor *y = run(&f, &call, &x, 1);
 *     download(&f, y, values);
 *
 * Whatever fails here fails the test that runs.
 *
 * Threads: one. */
#ifndef ORR_TESTS_AUTOGRAD_FIXTURE_H
#define ORR_TESTS_AUTOGRAD_FIXTURE_H

#include "runtime/autograd.h"
#include "tests/support.h"

enum { VALUES_MAX = 4096 }; /* elements of a tensor */

void must(struct fixture *f, enum orr_status status);

/* orr_shape_of with as many of the dimensions as `rank` says. */
struct orr_shape dims(int rank, int64_t a, int64_t b, int64_t c, int64_t d);
struct orr_shape tensor_shape(const struct orr_tensor *tensor);

/* A tensor of values; `layout` NULL: on all devices, replicated. */
struct orr_tensor *upload(struct fixture *f, enum orr_dtype dtype, struct orr_shape shape,
                          const double *values, const struct orr_layout *layout);
/* The whole tensor's values, waited for. */
void download(struct fixture *f, struct orr_tensor *tensor, double *values);

/* An operator with its attributes, defaults at first. */
struct op {
    const struct orr_operator *op;
    struct orr_attributes attributes;
};

struct op op_of(const char *name);
struct orr_attribute *at(struct op *call, const char *name);
/* The first result; others are destroyed. */
struct orr_tensor *run(struct fixture *f, const struct op *call, struct orr_tensor *const *inputs,
                       int count);
/* One with defaults; `y` may be NULL. */
struct orr_tensor *apply(struct fixture *f, const char *name, struct orr_tensor *x,
                         struct orr_tensor *y);
/* The same, and destroys x. */
struct orr_tensor *then(struct fixture *f, const char *name, struct orr_tensor *x,
                        struct orr_tensor *y);

/* A layout from texts, one for each axis of the mesh: place(mesh, "S(0)", "R"). `second` may be
 * NULL for a mesh of one axis. */
struct orr_layout place(struct orr_mesh *mesh, const char *first, const char *second);
/* Fails unless the tensor's layout has this text. */
void assert_layout(const struct orr_tensor *tensor, const char *text);

/* Redistributes and destroys the old one. */
struct orr_tensor *moved(struct fixture *f, struct orr_tensor *tensor,
                         const struct orr_layout *layout);

#endif
