/* What the tests of redistribution share: a runtime of many devices, random placements, tensors
 * with terms of their own on every rank, and a direct look at every rank's memory.
 *
 *     struct trial t = {.random = seed};
 *     ... t.info, t.from, t.to ...
 *     struct orr_tensor *source = source_of(&b, &t);      // t.wanted: the whole tensor
 *     look_at_all(target, t.wanted, look_compares);       // fails where a rank has something else
 *
 * Whatever fails here fails the test that runs.
 *
 * Threads: one. */
#ifndef ORR_TESTS_REDISTRIBUTE_FIXTURE_H
#define ORR_TESTS_REDISTRIBUTE_FIXTURE_H

#include "runtime/redistribute_internal.h"
#include "tests/support.h"

enum { DEVICES = 36, ELEMENTS_MAX = 1 << 13 };

/* A runtime of many devices; FIXTURE_DEVICES_MAX is too few for meshes of several axes. */
struct bench {
    struct memory_counting memory;
    struct orr_device_spec specs[DEVICES];
    struct orr_runtime *runtime;
    struct orr_error error;
};

void bench_open(struct bench *b, orr_backend_open open, uint32_t devices);
/* Asserts that nothing leaked. */
void bench_close(struct bench *b);
void must_be_ok(struct orr_runtime *runtime, enum orr_status status);

struct trial {
    uint64_t random;
    struct orr_operand_info info;
    struct orr_layout from, to;
    double wanted[ELEMENTS_MAX]; /* the whole tensor */
    char text[512];              /* what is being compared, for messages */
};

/* Mostly shards, of the trial's shape. */
struct orr_placement draw_placement(struct trial *t);
/* A tensor laid out as t->from says. */
struct orr_tensor *source_of(struct bench *b, struct trial *t);

/* Calls `look` for every element of every rank's piece, once for the ranks of a reduction. */
void look_at_all(const struct orr_tensor *tensor, double *values,
                 void (*look)(double *at, double value));
void look_takes(double *at, double value);
/* Fails for another value, with the text of the trial that was last described. */
void look_compares(double *at, double value);
/* The text of a trial, for messages. */
void describe(struct trial *t, uint64_t seed);
/* What arrives on the host. */
void check_future(struct bench *b, struct trial *t, struct orr_tensor *tensor);

#endif
