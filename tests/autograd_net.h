/* A small training step for the tests of gradients: two layers with an input that several things
 * read, enough for additions and reductions.
 *
 *     struct net net = net_of(&f, NULL);
 *     net_watch(&f, tape, &net);
 *     struct orr_tensor *loss = net_loss(&f, &net);
 *     net_wanted(&net, wanted);
 *     must(&f, orr_gradient(tape, loss, wanted, NET_GRADS, grads));
 *     net_read(&f, grads, values);
 *
 * Threads: one. */
#ifndef ORR_TESTS_AUTOGRAD_NET_H
#define ORR_TESTS_AUTOGRAD_NET_H

#include "tests/autograd_fixture.h"

enum { NET_GRADS = 4, NET_VALUES = 24 + 48 + 48 + 8 };

struct net {
    struct orr_tensor *x, *w1, *w2, *b;
};

/* A matrix of f64 between -1 and 1. */
struct orr_tensor *numbers(struct fixture *f, int64_t rows, int64_t columns, int seed,
                           const struct orr_layout *layout);

/* `batch`: where x lies. */
struct net net_of(struct fixture *f, const struct orr_layout *batch);
void net_free(struct net *net);
struct orr_tensor *net_loss(struct fixture *f, const struct net *net);
void net_watch(struct fixture *f, struct orr_gradient_tape *tape, const struct net *net);
/* x, w1, w2, b */
void net_wanted(const struct net *net, struct orr_tensor **wanted);
/* Values of their gradients, one behind the other; destroys them. */
void net_read(struct fixture *f, struct orr_tensor **grads, double *values);
/* What those are, on one device. */
void net_reference(double *values);

void assert_values(const double *got, const double *wanted, int count, double tolerance);
/* Fails unless the call failed like this, and its message holds the text. */
void expect_error(struct fixture *f, enum orr_status status, enum orr_status wanted,
                  const char *text);
/* Kernels that ran so far. */
size_t kernel_count(const struct fixture *f);

#endif
