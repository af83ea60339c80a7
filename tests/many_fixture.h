/* What the tests of operators with several results share: examples as data, calls that keep all
 * results, exact costs.
 *
 *     struct example example = {"sgd", {{F32, SHAPE(4)}, {F32, SHAPE(4)}}, 2, {{"lr", 0, 1, {0}}}};
 *     struct many call = open_example(&example, F32, &random, -1, 1);
 *     run_many(&call);
 *     ... tensor_at(&call.outputs[0], 0) ...
 *     close_many(&call);
 *
 * Threads: one. */
#ifndef ORR_TESTS_MANY_FIXTURE_H
#define ORR_TESTS_MANY_FIXTURE_H

#include "tests/operator_fixture.h"

#define F64  ORR_DTYPE_F64
#define F32  ORR_DTYPE_F32
#define F16  ORR_DTYPE_F16
#define BF16 ORR_DTYPE_BF16
#define I64  ORR_DTYPE_I64
#define SHAPE(...)                                                                                 \
    {                                                                                              \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                               \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define SCALAR                                                                                     \
    {                                                                                              \
        0, {                                                                                       \
            0                                                                                      \
        }                                                                                          \
    }

enum { INPUTS = 6 };

/* An attribute of an example; `name` NULL ends. */
struct setting {
    const char *name;
    int64_t integer;
    double real;
    struct orr_shape shape;
};

struct example {
    const char *op;
    struct orr_operand_info inputs[INPUTS];
    int input_count;
    struct setting settings[4];
};

/* A call with all its results. */
struct many {
    const struct orr_operator *op;
    struct orr_attributes attributes;
    int input_count;
    struct orr_tensor_view inputs[INPUTS], outputs[ORR_OUTPUTS_MAX];
};

/* The example's operator, and its attributes. */
const struct orr_operator *settle(const struct example *example, struct orr_attributes *attributes);

/* The call of an example; float operands in `dtype` where the example has f32, indices below 2. */
struct many open_example(const struct example *example, enum orr_dtype dtype, struct random *random,
                         double low, double high);
/* Infers and computes with a memory table; returns the status. */
enum orr_status try_run(struct many *call, const struct orr_memory *memory,
                        struct orr_error *error);
/* The same; fails the test unless it succeeds and leaves no memory behind. */
void run_many(struct many *call);
void close_many(struct many *call);

struct cost_row {
    struct example example;
    uint64_t flops, bytes_read, bytes_written, bytes_broadcast;
    enum orr_unit unit;
};

/* Fails the test unless each row has exactly this cost. */
void check_costs(const struct cost_row *rows, int count);

#endif
