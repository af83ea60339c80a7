/* What the tests of base modules and operators share: memory that fails on request, a seeded
 * generator, tensors, and operator calls with named attributes.
 *
 *     struct call call = call_open("softmax");
 *     call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(3, 5), &random, -1, 1));
 *     call_run(&call);                      // infer and compute; fails the test on errors
 *     assert_near("softmax", 0, tensor_at(&call.output, 0), 0.25, 1e-6, 1e-6);
 *     call_close(&call);                    // frees operands and result
 *
 * Threads: one. */
#ifndef ORR_TESTS_OPERATOR_FIXTURE_H
#define ORR_TESTS_OPERATOR_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/operator.h"

/* ---- Memory ---- */

struct counting_memory {
    struct orr_memory table;
    size_t requests; /* allocations and growths asked for so far */
    size_t fail_at;  /* this one fails, and all after it; 0: none */
    size_t live;     /* blocks not freed */
};

/* `memory` stays where it is while its table is in use. */
void counting_memory_init(struct counting_memory *memory, size_t fail_at);

/* ---- Random numbers ---- */

struct random {
    uint64_t state;
};

/* The seed of this process's random tests: ORR_TEST_SEED, or 1. Prints it once. */
struct random random_seeded(void);
uint64_t random_bits(struct random *random);
/* Uniform in low .. high, both included. */
int64_t random_int(struct random *random, int64_t low, int64_t high);
/* Uniform in [low, high). */
double random_real(struct random *random, double low, double high);

/* ---- Tensors ---- */

/* Zeroed; freed with tensor_free. */
struct orr_tensor_view tensor_make(enum orr_dtype dtype, struct orr_shape shape);
struct orr_tensor_view tensor_random(enum orr_dtype dtype, struct orr_shape shape,
                                     struct random *random, double low, double high);
void tensor_free(struct orr_tensor_view *tensor);
int64_t tensor_count(const struct orr_tensor_view *tensor);
double tensor_at(const struct orr_tensor_view *tensor, int64_t index);
/* Same dtype, shape and bytes. */
bool tensor_equal(const struct orr_tensor_view *a, const struct orr_tensor_view *b);

/* A shape of `rank` dimensions drawn from 1 .. most. */
struct orr_shape shape_random(struct random *random, int rank, int64_t most);
struct orr_shape shape1(int64_t a);
struct orr_shape shape2(int64_t a, int64_t b);
struct orr_shape shape3(int64_t a, int64_t b, int64_t c);
struct orr_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d);

/* ---- Operator calls ---- */

struct call {
    const struct orr_operator *op;
    struct orr_attributes attributes;
    int input_count;
    struct orr_tensor_view inputs[ORR_INPUTS_MAX]; /* owned */
    struct orr_tensor_view output;                 /* owned; data NULL before call_run */
};

struct call call_open(const char *op);
/* Takes the tensor over. */
void call_input(struct call *call, struct orr_tensor_view tensor);
void call_int(struct call *call, const char *attribute, int64_t value);
void call_real(struct call *call, const char *attribute, double value);
void call_shape(struct call *call, const char *attribute, struct orr_shape value);
/* Infers; the status and text are the caller's to judge. */
enum orr_status call_infer(const struct call *call, struct orr_operand_info *out_result,
                           struct orr_error *error);
/* Cost for the call's operands; infer must accept them. */
struct orr_cost call_cost(const struct call *call);
/* Infers and computes into a new output (an old one is freed). */
void call_run(struct call *call);
/* The same with a memory table; returns compute's status. */
enum orr_status call_run_with(struct call *call, const struct orr_memory *memory,
                              struct orr_error *error);
void call_close(struct call *call);

/* ---- Comparing ---- */

/* Fails the test unless |got - want| <= absolute + relative * |want| (NaN equals NaN, infinities
 * must be equal). `what` and the index are printed. */
void assert_near(const char *what, int64_t index, double got, double want, double absolute,
                 double relative);

/* Unit in the last place of 1.0: 2^-52, 2^-23, 2^-10, 2^-7; 0 for integers. */
double dtype_epsilon(enum orr_dtype dtype);

#endif
