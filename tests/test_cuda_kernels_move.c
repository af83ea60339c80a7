/* CUDA kernels that move elements, make them, or cast them: against the operators and commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/backend.h"
#include "runtime/synthetic.h"
#include "tests/cuda_kernel_fixture.h"

static const enum orr_dtype all_dtypes[] = {
    ORR_DTYPE_F64, ORR_DTYPE_F32,  ORR_DTYPE_F16, ORR_DTYPE_BF16,   ORR_DTYPE_I32,
    ORR_DTYPE_I64, ORR_DTYPE_BOOL, ORR_DTYPE_I8,  ORR_DTYPE_F8E4M3, ORR_DTYPE_F8E5M2};
enum { DTYPES = sizeof all_dtypes / sizeof all_dtypes[0] };

static enum orr_dtype some_dtype(struct random *random) {
    return all_dtypes[random_int(random, 0, DTYPES - 1)];
}

/* Values of either sign, whose bytes all differ. */
static void some_tensor(struct call *call, struct random *random, enum orr_dtype dtype,
                        struct orr_shape shape) {
    call_input(call, tensor_random(dtype, shape, random, -120, 120));
}

/* ---- Operators as cuts ---- */

static void transposes_of_every_order(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 60; round++) {
        struct call call = call_open("transpose");
        int rank = (int)random_int(&random, 2, 8);
        struct orr_shape shape = shape_random(&random, rank, rank < 4 ? 40 : 4), perm = shape;
        some_tensor(&call, &random, some_dtype(&random), shape);
        for (int i = 0; i < rank; i++)
            perm.dims[i] = i;
        for (int i = rank - 1; i > 0; i--) {
            int64_t other = random_int(&random, 0, i), kept = perm.dims[i];
            perm.dims[i] = perm.dims[other];
            perm.dims[other] = kept;
        }
        for (int i = 0; i < rank; i++)
            perm.dims[i] -= random_int(&random, 0, 3) == 0 ? rank : 0;
        if (round % 4 > 0)
            call_shape(&call, "perm", perm);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void transposes_of_matrices_use_tiles(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    static const int64_t sizes[] = {1, 31, 32, 33, 65};
    for (size_t i = 0; i < 25; i++) {
        struct call call = call_open("transpose");
        some_tensor(&call, &random, all_dtypes[i % DTYPES], shape3(3, sizes[i / 5], sizes[i % 5]));
        kernel_check(fixture, &call);
        call_close(&call);
    }
}

/* The last axis of eight in front: eight loops, and none goes on in another. */
static void a_transpose_of_eight_dimensions_that_cannot_be_merged(void **state) {
    struct random random = random_seeded();
    struct call call = call_open("transpose");
    struct orr_shape shape = {.rank = 8}, perm = {.rank = 8};
    for (int i = 0; i < 8; i++) {
        shape.dims[i] = 2 + i % 2;
        perm.dims[i] = 7 - i;
    }
    some_tensor(&call, &random, ORR_DTYPE_I8, shape);
    call_shape(&call, "perm", perm);
    kernel_check(*state, &call);
    call_close(&call);
}

static void slices_with_starts_and_ends_from_either_side(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 60; round++) {
        struct call call = call_open("slice");
        int rank = (int)random_int(&random, 1, 4);
        struct orr_shape shape = shape_random(&random, rank, rank == 1 ? 700 : 9);
        struct orr_shape starts = {.rank = (int)random_int(&random, 0, rank)}, ends = starts;
        for (int i = 0; i < starts.rank; i++) {
            starts.dims[i] = random_int(&random, 0, shape.dims[i]);
            ends.dims[i] = random_int(&random, starts.dims[i], shape.dims[i]);
            if (ends.dims[i] < shape.dims[i] && random_int(&random, 0, 1) == 0)
                ends.dims[i] -= shape.dims[i];
            if (starts.dims[i] > 0 && starts.dims[i] < shape.dims[i] &&
                random_int(&random, 0, 2) == 0)
                starts.dims[i] -= shape.dims[i];
        }
        some_tensor(&call, &random, some_dtype(&random), shape);
        call_shape(&call, "starts", starts);
        call_shape(&call, "ends", ends);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void zeros_around_a_tensor(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 40; round++) {
        struct call call = call_open("pad");
        int rank = (int)random_int(&random, 0, 4);
        struct orr_shape before = {.rank = (int)random_int(&random, 0, rank)}, after = before;
        for (int i = 0; i < before.rank; i++) {
            before.dims[i] = random_int(&random, 0, 3);
            after.dims[i] = random_int(&random, 0, 3);
        }
        some_tensor(&call, &random, some_dtype(&random), shape_random(&random, rank, 9));
        call_shape(&call, "before", before);
        call_shape(&call, "after", after);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

static void up_to_sixteen_tensors_become_one(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 40; round++) {
        struct call call = call_open("concat");
        int rank = (int)random_int(&random, 1, 3), dim = (int)random_int(&random, 0, rank - 1);
        int count = round == 0 ? 16 : (int)random_int(&random, 1, 16);
        struct orr_shape shape = shape_random(&random, rank, 9);
        enum orr_dtype dtype = some_dtype(&random);
        for (int i = 0; i < count; i++) {
            shape.dims[dim] = random_int(&random, 0, 5);
            some_tensor(&call, &random, dtype, shape);
        }
        call_int(&call, "dim", round % 2 ? dim : dim - rank);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

/* Some dimensions of a shape are repeated; x has them with size 1, or lacks them. */
static void repeated_tensors_and_the_sums_that_undo_it(void **state) {
    struct random random = random_seeded();
    for (int round = 0; round < 60; round++) {
        struct call expand = call_open("expand"), sum = call_open("unbroadcast");
        int rank = (int)random_int(&random, 1, 4);
        bool lacks = round % 2;
        struct orr_shape shape = shape_random(&random, rank, round % 7 ? 9 : 40), x = {.rank = 0};
        struct orr_shape dims = {.rank = 0};
        for (int i = 0; i < rank; i++) {
            bool repeats = random_int(&random, 0, 1);
            if (repeats)
                dims.dims[dims.rank++] = i;
            if (!(repeats && lacks))
                x.dims[x.rank++] = repeats ? 1 : shape.dims[i];
        }
        some_tensor(&expand, &random, some_dtype(&random), x);
        call_shape(&expand, "shape", shape);
        call_shape(&expand, "dims", dims);
        kernel_check(*state, &expand);
        some_tensor(&sum, &random, all_dtypes[round % 4], shape);
        call_shape(&sum, "dims", dims);
        kernel_check(*state, &sum);
        call_close(&expand);
        call_close(&sum);
    }
}

/* So many terms that they are summed in parts. */
static void long_sums_are_split(void **state) {
    struct random random = random_seeded();
    for (int inner = 0; inner < 2; inner++) {
        struct call call = call_open("unbroadcast");
        some_tensor(&call, &random, ORR_DTYPE_F32, inner ? shape2(5, 3001) : shape2(3001, 5));
        call_shape(&call, "dims", shape1(inner));
        call_int(&call, "leading", inner ? 0 : 1);
        kernel_check(*state, &call);
        call_close(&call);
    }
}

/* ---- Casts ---- */

static const double edges[] = {
    0,    -0.0,      0.5,          1,     -1,      1.5,     2.5,      127.5,    -128.5,
    300,  448,       465,          500,   57344,   65504,   65520,    70000,    -70000,
    1e-8, 5.96e-8,   1e-40,        1e300, -1e300,  3e38,    3.5e38,   1e9,      2147483647,
    -3e9, 9.3e18,    -9.3e18,      0.1,   1.0 / 3, 1.00049, 1.000489, 16777217, 1.001953125001,
    2e-3, 0x1.004p0, 0x1.0040001p0};

static void every_dtype_becomes_every_other(void **state) {
    struct random random = random_seeded();
    enum { EDGES = sizeof edges / sizeof edges[0], SPECIALS = 3, RANDOM = 230 };
    for (size_t i = 0; i < DTYPES * DTYPES; i++) {
        struct call call = call_open("cast");
        struct orr_tensor_view x = tensor_random(
            all_dtypes[i / DTYPES], shape1(EDGES + SPECIALS + RANDOM), &random, -9e3, 9e3);
        for (size_t e = 0; e < EDGES; e++)
            orr_dtype_store(x.dtype, x.data, e, edges[e]);
        orr_dtype_store(x.dtype, x.data, EDGES, (double)INFINITY);
        orr_dtype_store(x.dtype, x.data, EDGES + 1, -(double)INFINITY);
        orr_dtype_store(x.dtype, x.data, EDGES + 2, (double)NAN);
        if (x.dtype == ORR_DTYPE_I64)
            for (int e = 0; e < 64; e++) /* more digits than an f64 holds */
                ((int64_t *)x.data)[EDGES + e] = (int64_t)(random_bits(&random) >> e);
        if (x.dtype == ORR_DTYPE_I64) { /* a little more than half of bf16's last place */
            ((int64_t *)x.data)[0] = ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1;
            ((int64_t *)x.data)[1] = -((int64_t *)x.data)[0];
        }
        call_input(&call, x);
        call_int(&call, "dtype", all_dtypes[i % DTYPES]);
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

/* ---- Sources ---- */

static void constants_of_every_dtype(void **state) {
    static const char *const names[] = {"zeros", "ones", "full"};
    for (size_t i = 0; i < 3 * DTYPES; i++) {
        struct call call = call_open(names[i / DTYPES]);
        call_shape(&call, "shape", i % 2 ? shape2(3, 211) : shape1((int64_t)i % 3));
        call_int(&call, "dtype", all_dtypes[i % DTYPES]);
        if (i / DTYPES == 2)
            call_real(&call, "value", 3.3);
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

static void ranges_of_numbers(void **state) {
    static const int64_t cases[][3] = {
        {0, 1000, 1}, {10, -500, -3}, {5, 5, 1}, {0, 5000000000, 9999999}, {-7, 2, 4}};
    for (size_t i = 0; i < 5 * 6; i++) {
        struct call call = call_open("arange");
        call_int(&call, "start", cases[i / 6][0]);
        call_int(&call, "end", cases[i / 6][1]);
        call_int(&call, "step", cases[i / 6][2]);
        call_int(&call, "dtype", all_dtypes[i % 6]);
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

/* Bit for bit: an element depends on the seed and its index only, on every machine. */
static void random_numbers_are_the_same_everywhere(void **state) {
    struct random random = random_seeded();
    for (int i = 0; i < 2 * 4 * 3; i++) {
        struct call call = call_open(i % 2 ? "randn" : "rand");
        struct orr_shape shape = i % 3 == 0 ? shape3(7, 9, 33) : shape3(4, 5, 6);
        call_shape(&call, "shape", shape);
        call_int(&call, "dtype", all_dtypes[i / 2 % 4]);
        call_int(&call, "seed", (int64_t)random_bits(&random));
        if (i % 3 > 0) { /* a part of a larger tensor, in rows or in the middle */
            call_shape(&call, "global_shape", i % 3 == 1 ? shape3(12, 5, 6) : shape3(5, 9, 8));
            call_shape(&call, "starts", i % 3 == 1 ? shape3(8, 0, 0) : shape3(1, 4, 1));
        }
        kernel_check_within(*state, &call, 0);
        call_close(&call);
    }
}

/* ---- Commands ---- */

struct cut_list {
    struct orr_task_cut cuts[40];
};

static void cut_at(const void *cuts, uint32_t index, struct orr_task_cut *out_cut) {
    *out_cut = ((const struct cut_list *)cuts)->cuts[index];
}

/* Rows of 6 bytes of a matrix of 40 x 7, apart in the result, in one move of 40 cuts over zeros. */
static void a_move_of_many_cuts_over_zeros(void **state) {
    struct kernel_fixture *fixture = *state;
    enum { ROWS = 39, FROM = 7, TO = 9 };
    unsigned char from[ROWS * FROM], to[ROWS * TO], want[ROWS * TO];
    struct cut_list list;
    struct orr_error error = {0};
    for (int i = 0; i < ROWS * FROM; i++)
        from[i] = (unsigned char)(i + 1);
    memset(want, 0, sizeof want);
    list.cuts[0] = (struct orr_task_cut){.width = sizeof to, .to = to};
    for (int i = 0; i < ROWS; i++) {
        list.cuts[i + 1] =
            (struct orr_task_cut){.width = 6, .to = to + i * TO, .from = from + i * FROM};
        memcpy(want + i * TO, from + i * FROM, 6);
    }
    struct orr_task task = {.kind = ORR_TASK_MOVE,
                            .move = {.count = ROWS + 1, .cuts = &list, .cut = cut_at}};
    for (int mode = ORR_EMULATED_COLLAPSED; mode <= ORR_EMULATED_BACKWARDS; mode++) {
        fixture->emulation.mode = (enum orr_emulated_mode)mode;
        memset(to, 0xff, sizeof to);
        assert_int_equal(kernel_enqueue(fixture, &task, &error), ORR_OK);
        assert_memory_equal(to, want, sizeof to);
    }
}

static void rows_in_loops_are_moved_in_the_largest_units(void **state) {
    struct kernel_fixture *fixture = *state;
    _Alignas(16) unsigned char from[4 * 64], to[2 * 3 * 48], want[sizeof to];
    struct cut_list list = {{{.rank = 2,
                              .counts = {2, 3},
                              .to_strides = {3 * 48, 48},
                              .from_strides = {64, 16},
                              .width = 32,
                              .to = to,
                              .from = from + 16}}};
    struct orr_error error = {0};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7);
    memset(want, 0xff, sizeof want);
    for (size_t i = 0; i < 6; i++)
        memcpy(want + i * 48, from + 16 + i / 3 * 64 + i % 3 * 16, 32);
    struct orr_task task = {.kind = ORR_TASK_MOVE,
                            .move = {.count = 1, .cuts = &list, .cut = cut_at}};
    memset(to, 0xff, sizeof to);
    assert_int_equal(kernel_enqueue(fixture, &task, &error), ORR_OK);
    assert_memory_equal(to, want, sizeof to);
}

static void copies_and_fills(void **state) {
    struct kernel_fixture *fixture = *state;
    char from[100] = "what is copied", to[100];
    struct orr_error error = {0};
    struct orr_task task = {.kind = ORR_TASK_COPY};
    task.copy.to = to;
    task.copy.from = from;
    task.copy.bytes = sizeof from;
    assert_int_equal(kernel_enqueue(fixture, &task, &error), ORR_OK);
    assert_memory_equal(to, from, sizeof from);
    task = (struct orr_task){.kind = ORR_TASK_FILL};
    task.fill.to = to;
    task.fill.bytes = 99;
    task.fill.value = 0xab;
    assert_int_equal(kernel_enqueue(fixture, &task, &error), ORR_OK);
    assert_int_equal((unsigned char)to[98], 0xab);
    assert_int_equal(to[99], from[99]);
}

/* ---- Synthetic kernels ---- */

enum { RANGES_MAX = 150, ARENA = 40000 };

struct synthetic_case {
    struct orr_access accesses[RANGES_MAX];
    uint32_t count;
    unsigned char *arena;
};

static void *range_pointer(const struct orr_command *command, uint32_t access) {
    return (unsigned char *)command->context + command->accesses[access].offset;
}

static void compute_synthetic(const struct synthetic_case *c, const char *name) {
    struct orr__synthetic synthetic;
    orr__synthetic_begin(&synthetic, name);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->accesses[i].mode & ORR_ACCESS_READ)
            orr__synthetic_read(&synthetic, c->arena + c->accesses[i].offset,
                                (size_t)c->accesses[i].bytes);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->accesses[i].mode & ORR_ACCESS_WRITE)
            orr__synthetic_write(&synthetic, c->arena + c->accesses[i].offset,
                                 (size_t)c->accesses[i].bytes);
}

/* Ranges side by side, of any size and alignment. */
static void draw_ranges(struct synthetic_case *c, struct random *random, int round) {
    uint64_t at = 0;
    c->count = (uint32_t)random_int(random, 0, round % 5 == 0 ? RANGES_MAX : 4);
    for (uint32_t i = 0; i < c->count; i++) {
        int64_t most = c->count > 4 ? 200 : 9000;
        uint64_t bytes = (uint64_t)random_int(random, 0, most);
        c->accesses[i] = (struct orr_access){
            .mode = (uint32_t)random_int(random, 1, 3), .offset = at, .bytes = bytes};
        at += bytes + (uint64_t)random_int(random, 0, 9);
        if (random_int(random, 0, 1))
            at = (at + 15) / 16 * 16;
    }
    assert_true(at <= ARENA);
}

static void synthetic_kernels_are_the_same_everywhere(void **state) {
    struct kernel_fixture *fixture = *state;
    struct random random = random_seeded();
    unsigned char *arena = malloc(3 * ARENA), *want = arena + ARENA, *before = want + ARENA;
    assert_non_null(arena);
    for (int round = 0; round < 60; round++) {
        struct synthetic_case c;
        struct orr__synthetic begun;
        struct orr_error error = {0};
        draw_ranges(&c, &random, round);
        for (int i = 0; i < ARENA; i++)
            before[i] = (unsigned char)random_bits(&random);
        memcpy(want, before, ARENA);
        c.arena = want;
        compute_synthetic(&c, "produce");
        orr__synthetic_begin(&begun, "produce");
        struct orr_command command = {
            .accesses = c.accesses, .access_count = c.count, .context = arena};
        struct orr_task task = {.kind = ORR_TASK_SYNTHETIC};
        task.synthetic.digest = begun.digest;
        task.synthetic.command = &command;
        task.synthetic.pointer = range_pointer;
        memcpy(arena, before, ARENA);
        fixture->emulation.mode = (enum orr_emulated_mode)(round % 3);
        if (orr__cuda_enqueue(&fixture->queue, &task, &error) != ORR_OK)
            fail_msg("%s %s", error.text, fixture->error.text);
        assert_memory_equal(arena, want, ARENA);
    }
    free(arena);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kernel_setup, kernel_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(transposes_of_every_order),
        CASE(transposes_of_matrices_use_tiles),
        CASE(a_transpose_of_eight_dimensions_that_cannot_be_merged),
        CASE(slices_with_starts_and_ends_from_either_side),
        CASE(zeros_around_a_tensor),
        CASE(up_to_sixteen_tensors_become_one),
        CASE(repeated_tensors_and_the_sums_that_undo_it),
        CASE(long_sums_are_split),
        CASE(every_dtype_becomes_every_other),
        CASE(constants_of_every_dtype),
        CASE(ranges_of_numbers),
        CASE(random_numbers_are_the_same_everywhere),
        CASE(a_move_of_many_cuts_over_zeros),
        CASE(rows_in_loops_are_moved_in_the_largest_units),
        CASE(copies_and_fills),
        CASE(synthetic_kernels_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
