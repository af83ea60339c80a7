#include "tests/autograd_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"

struct orr_tensor *numbers(struct fixture *f, int64_t rows, int64_t columns, int seed,
                           const struct orr_layout *layout) {
    double values[VALUES_MAX];
    uint64_t state = 99 + (uint64_t)seed;
    for (int64_t i = 0; i < rows * columns; i++) {
        values[i] = ((double)random_below(&state, 2001) - 1000) / 1000;
    }
    return upload(f, ORR_DTYPE_F64, dims(2, rows, columns, 0, 0), values, layout);
}

struct net net_of(struct fixture *f, const struct orr_layout *batch) {
    return (struct net){.x = numbers(f, 4, 6, 1, batch),
                        .w1 = numbers(f, 6, 8, 2, NULL),
                        .w2 = numbers(f, 8, 6, 3, NULL),
                        .b = numbers(f, 1, 8, 4, NULL)};
}

void net_free(struct net *net) {
    orr_tensor_destroy(&net->x);
    orr_tensor_destroy(&net->w1);
    orr_tensor_destroy(&net->w2);
    orr_tensor_destroy(&net->b);
}

/* mean(((gelu(x w1 + b) w2) x) / ...) with x used three times. */
struct orr_tensor *net_loss(struct fixture *f, const struct net *net) {
    struct orr_tensor *h = then(f, "add", apply(f, "matmul", net->x, net->w1), net->b);
    h = then(f, "matmul", then(f, "gelu", h, NULL), net->w2);
    h = then(f, "add", then(f, "mul", h, net->x), net->x);
    return then(f, "mean", h, NULL);
}

void net_watch(struct fixture *f, struct orr_gradient_tape *tape, const struct net *net) {
    must(f, orr_gradient_tape_watch(tape, net->x));
    must(f, orr_gradient_tape_watch(tape, net->w1));
    must(f, orr_gradient_tape_watch(tape, net->w2));
    must(f, orr_gradient_tape_watch(tape, net->b));
}

void net_wanted(const struct net *net, struct orr_tensor **wanted) {
    wanted[0] = net->x;
    wanted[1] = net->w1;
    wanted[2] = net->w2;
    wanted[3] = net->b;
}

/* Values of gradients, one behind the other; destroys them. */
void net_read(struct fixture *f, struct orr_tensor **grads, double *values) {
    for (int i = 0; i < NET_GRADS; i++) {
        download(f, grads[i], values);
        struct orr_shape shape = tensor_shape(grads[i]);
        values += orr_shape_count(&shape);
        orr_tensor_destroy(&grads[i]);
    }
}

void net_reference(double *values) {
    struct fixture f;
    struct orr_gradient_tape *tape;
    struct orr_tensor *wanted[NET_GRADS], *grads[NET_GRADS];
    fixture_open(&f, orr_sim_open, 1);
    struct net net = net_of(&f, NULL);
    must(&f, orr_gradient_tape_begin(f.runtime, &tape));
    net_watch(&f, tape, &net);
    struct orr_tensor *loss = net_loss(&f, &net);
    net_wanted(&net, wanted);
    must(&f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
    net_read(&f, grads, values);
    orr_tensor_destroy(&loss);
    orr_gradient_tape_destroy(&tape);
    net_free(&net);
    fixture_close(&f);
}

void assert_values(const double *got, const double *wanted, int count, double tolerance) {
    for (int i = 0; i < count; i++) {
        if (!near_f64(got[i], wanted[i], tolerance)) {
            fail_msg("value %d: %.17g, expected %.17g", i, got[i], wanted[i]);
        }
    }
}

void expect_error(struct fixture *f, enum orr_status status, enum orr_status wanted,
                  const char *text) {
    assert_int_equal(status, wanted);
    if (!strstr(fixture_error(f), text)) {
        fail_msg("'%s' does not say '%s'", fixture_error(f), text);
    }
}

size_t kernel_count(const struct fixture *f) {
    struct orr_record_cursor cursor = {0};
    const struct orr_record *record;
    size_t found = 0;
    while ((record = orr_record_memory_next(f->store, &cursor))) {
        found += record->kind == ORR_RECORD_COMMAND && record->a == ORR_COMMAND_KERNEL;
    }
    return found;
}
