/* Ring attention's pieces: attention to one block of keys after the other, merged, is attention to
 * all of them, and so is its gradient; a block that sees nothing adds nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/operators/gemm.h"
#include "tests/many_fixture.h"

enum { BATCH = 2, HEADS = 4, KV = 2, D = 6, DV = 5 };

/* Sizes of a ring: `blocks` blocks of `s` queries and `t` keys. */
struct ring {
    int64_t blocks, s, t;
    bool causal;
};

static struct orr_tensor_view copy_of(const struct orr_tensor_view *from) {
    struct orr_tensor_view copy = tensor_make(from->dtype, from->shape);
    memcpy(copy.data, from->data, (size_t)tensor_count(from) * orr_dtype_size(from->dtype));
    return copy;
}

/* x [b, h, blocks * length, width], its blocks moved `shift` up the ring. */
static struct orr_tensor_view moved(const struct orr_tensor_view *x, int64_t blocks,
                                    int64_t shift) {
    struct orr_tensor_view out = tensor_make(x->dtype, x->shape);
    const int64_t *dims = x->shape.dims;
    size_t bytes = (size_t)(dims[2] / blocks * dims[3]) * orr_dtype_size(x->dtype);
    for (int64_t head = 0; head < dims[0] * dims[1]; head++) {
        for (int64_t block = 0; block < blocks; block++) {
            int64_t from = ((block - shift) % blocks + blocks) % blocks;
            memcpy((char *)out.data + (size_t)(head * blocks + block) * bytes,
                   (const char *)x->data + (size_t)(head * blocks + from) * bytes, bytes);
        }
    }
    return out;
}

static void set(struct many *call, const char *name, int64_t value) {
    call->attributes.values[orr_operator_attribute(call->op, name)].integer = value;
}

/* A call of an operator on views that it takes over. */
static struct many call_of(const char *op, int count, const struct orr_tensor_view *inputs) {
    struct many call = {.op = orr_operator_find(op), .input_count = count};
    assert_non_null(call.op);
    orr_operator_defaults(call.op, &call.attributes);
    memcpy(call.inputs, inputs, (size_t)count * sizeof *inputs);
    return call;
}

static void draw(const struct ring *ring, enum orr_dtype dtype, struct random *random,
                 struct orr_tensor_view *qkv) {
    int64_t s = ring->blocks * ring->s, t = ring->blocks * ring->t;
    qkv[0] = tensor_random(dtype, shape4(BATCH, HEADS, s, D), random, -1, 1);
    qkv[1] = tensor_random(dtype, shape4(BATCH, KV, t, D), random, -1, 1);
    qkv[2] = tensor_random(dtype, shape4(BATCH, KV, t, DV), random, -1, 1);
}

/* One step of the ring. */
static struct many step(const struct ring *ring, const struct orr_tensor_view *qkv, int64_t shift) {
    struct many call = call_of(
        "sdpa_block", 3,
        (const struct orr_tensor_view[]){copy_of(&qkv[0]), moved(&qkv[1], ring->blocks, shift),
                                         moved(&qkv[2], ring->blocks, shift)});
    set(&call, "causal", ring->causal);
    set(&call, "blocks", ring->blocks);
    set(&call, "shift", shift);
    run_many(&call);
    return call;
}

/* All steps, merged: out and lse, owned by the caller. */
static void around(const struct ring *ring, const struct orr_tensor_view *qkv,
                   struct orr_tensor_view *out, struct orr_tensor_view *lse) {
    struct many call = step(ring, qkv, 0);
    *out = copy_of(&call.outputs[0]);
    *lse = copy_of(&call.outputs[1]);
    close_many(&call);
    for (int64_t shift = 1; shift < ring->blocks; shift++) {
        call = step(ring, qkv, shift);
        struct many merge =
            call_of("sdpa_merge", 4,
                    (const struct orr_tensor_view[]){*out, *lse, copy_of(&call.outputs[0]),
                                                     copy_of(&call.outputs[1])});
        run_many(&merge);
        *out = copy_of(&merge.outputs[0]);
        *lse = copy_of(&merge.outputs[1]);
        close_many(&merge);
        close_many(&call);
    }
}

static struct many whole(const struct ring *ring, const struct orr_tensor_view *qkv) {
    struct many call = call_of(
        "sdpa", 3,
        (const struct orr_tensor_view[]){copy_of(&qkv[0]), copy_of(&qkv[1]), copy_of(&qkv[2])});
    set(&call, "causal", ring->causal);
    run_many(&call);
    return call;
}

static void assert_same(const char *what, const struct orr_tensor_view *got,
                        const struct orr_tensor_view *wanted, double tolerance) {
    assert_int_equal(tensor_count(got), tensor_count(wanted));
    for (int64_t i = 0; i < tensor_count(got); i++) {
        assert_near(what, i, tensor_at(got, i), tensor_at(wanted, i), tolerance, tolerance);
    }
}

static const struct ring rings[] = {
    {1, 5, 5, false}, {1, 5, 5, true},  {2, 3, 3, true},   {4, 3, 3, true},
    {4, 3, 3, false}, {3, 2, 5, false}, {2, 70, 70, true}, {2, 70, 130, false},
};

static void blocks_merged_are_attention_to_all_keys(void **state) {
    (void)state;
    struct random random = random_seeded();
    static const enum orr_dtype dtypes[] = {F64, F32};
    for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++) {
        for (int d = 0; d < 2; d++) {
            struct orr_tensor_view qkv[3], out, lse;
            draw(&rings[i], dtypes[d], &random, qkv);
            around(&rings[i], qkv, &out, &lse);
            struct many wanted = whole(&rings[i], qkv);
            assert_same("out", &out, &wanted.outputs[0], d == 0 ? 1e-14 : 2e-6);
            close_many(&wanted);
            tensor_free(&out);
            tensor_free(&lse);
            for (int k = 0; k < 3; k++) {
                tensor_free(&qkv[k]);
            }
        }
    }
}

/* lse against its definition, for one query in the middle of a ring. */
static void lse_is_the_logarithm_of_the_sum_of_exponentials(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct ring ring = {3, 4, 4, true};
    struct orr_tensor_view qkv[3], out, lse;
    draw(&ring, F64, &random, qkv);
    around(&ring, qkv, &out, &lse);
    for (int64_t query = 0; query < 12; query++) {
        double sum = 0;
        for (int64_t key = 0; key <= query; key++) {
            double score = 0;
            for (int64_t c = 0; c < D; c++) {
                score += tensor_at(&qkv[0], query * D + c) * tensor_at(&qkv[1], key * D + c);
            }
            sum += exp(score / sqrt(D));
        }
        assert_near("lse", query, tensor_at(&lse, query), log(sum), 1e-14, 1e-14);
    }
    tensor_free(&out);
    tensor_free(&lse);
    for (int k = 0; k < 3; k++) {
        tensor_free(&qkv[k]);
    }
}

/* Adds a step's dk or dv, moved back to where its keys came from. */
static void add_moved(struct orr_tensor_view *sum, const struct orr_tensor_view *part,
                      int64_t blocks, int64_t shift) {
    struct orr_tensor_view back = moved(part, blocks, -shift);
    for (int64_t i = 0; i < tensor_count(sum); i++) {
        orr_dtype_store(F64, sum->data, (size_t)i, tensor_at(sum, i) + tensor_at(&back, i));
    }
    tensor_free(&back);
}

static void gradients_of_blocks_add_up_to_those_of_all_keys(void **state) {
    (void)state;
    struct random random = random_seeded();
    for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++) {
        const struct ring *ring = &rings[i];
        struct orr_tensor_view qkv[3], out, lse, sums[3];
        draw(ring, F64, &random, qkv);
        around(ring, qkv, &out, &lse);
        struct orr_tensor_view grad = tensor_random(F64, out.shape, &random, -1, 1);
        struct many wanted = call_of(
            "sdpa_backward", 5,
            (const struct orr_tensor_view[]){copy_of(&grad), copy_of(&qkv[0]), copy_of(&qkv[1]),
                                             copy_of(&qkv[2]), copy_of(&out)});
        set(&wanted, "causal", ring->causal);
        run_many(&wanted);
        for (int k = 0; k < 3; k++) {
            sums[k] = tensor_make(F64, qkv[k].shape);
        }
        for (int64_t shift = 0; shift < ring->blocks; shift++) {
            struct many call =
                call_of("sdpa_block_backward", 6,
                        (const struct orr_tensor_view[]){
                            copy_of(&grad), copy_of(&qkv[0]), moved(&qkv[1], ring->blocks, shift),
                            moved(&qkv[2], ring->blocks, shift), copy_of(&out), copy_of(&lse)});
            set(&call, "causal", ring->causal);
            set(&call, "blocks", ring->blocks);
            set(&call, "shift", shift);
            run_many(&call);
            for (int k = 0; k < 3; k++) {
                add_moved(&sums[k], &call.outputs[k], ring->blocks, k == 0 ? 0 : shift);
            }
            close_many(&call);
        }
        static const char *const names[3] = {"dq", "dk", "dv"};
        for (int k = 0; k < 3; k++) {
            assert_same(names[k], &sums[k], &wanted.outputs[k], 1e-13);
            tensor_free(&sums[k]);
            tensor_free(&qkv[k]);
        }
        close_many(&wanted);
        tensor_free(&grad);
        tensor_free(&out);
        tensor_free(&lse);
    }
}

static void a_block_of_later_keys_gives_nothing(void **state) {
    (void)state;
    struct random random = random_seeded();
    struct ring ring = {2, 3, 3, true};
    struct orr_tensor_view qkv[3];
    draw(&ring, F32, &random, qkv);
    struct many call = step(&ring, qkv, 1);
    for (int64_t row = 0; row < (int64_t)BATCH * HEADS * 6; row++) {
        bool hidden = row % 6 < 3; /* block 0 is shown the keys of block 1 */
        assert_true((tensor_at(&call.outputs[1], row) == -(double)INFINITY) == hidden);
        for (int64_t i = 0; hidden && i < DV; i++) {
            assert_true(tensor_at(&call.outputs[0], row * DV + i) == 0);
        }
    }
    close_many(&call);
    for (int k = 0; k < 3; k++) {
        tensor_free(&qkv[k]);
    }
}

/* A row that neither has seen stays 0 and -infinity; one that only one has seen is that one's. */
static void merging_with_nothing_changes_nothing(void **state) {
    (void)state;
    struct example example = {"sdpa_merge",
                              {{F32, SHAPE(1, 1, 3, 2)},
                               {F32, SHAPE(1, 1, 3)},
                               {BF16, SHAPE(1, 1, 3, 2)},
                               {F32, SHAPE(1, 1, 3)}},
                              4,
                              {{0}}};
    struct random random = random_seeded();
    struct many call = open_example(&example, F32, &random, 1, 2);
    float *lse_a = call.inputs[1].data, *lse_b = call.inputs[3].data;
    memset(call.inputs[0].data, 0, 2 * 2 * sizeof(float)); /* rows 0 and 1 of a saw nothing */
    memset(call.inputs[2].data, 0, 2 * sizeof(uint16_t));  /* row 0 of b */
    lse_a[0] = lse_a[1] = lse_b[0] = lse_b[2] = -INFINITY;
    run_many(&call);
    for (int64_t i = 0; i < 6; i++) {
        double wanted = i < 2   ? 0
                        : i < 4 ? tensor_at(&call.inputs[2], i)
                                : tensor_at(&call.inputs[0], i);
        assert_near("merged", i, tensor_at(&call.outputs[0], i), wanted, 0, 0);
    }
    assert_true(tensor_at(&call.outputs[1], 0) == -(double)INFINITY);
    assert_true(tensor_at(&call.outputs[1], 1) == (double)lse_b[1]);
    assert_true(tensor_at(&call.outputs[1], 2) == (double)lse_a[2]);
    close_many(&call);
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_merged_are_attention_to_all_keys),
        cmocka_unit_test(lse_is_the_logarithm_of_the_sum_of_exponentials),
        cmocka_unit_test(gradients_of_blocks_add_up_to_those_of_all_keys),
        cmocka_unit_test(a_block_of_later_keys_gives_nothing),
        cmocka_unit_test(merging_with_nothing_changes_nothing),
    };
    return cmocka_run_group_tests_name("attention blocks", tests, NULL, NULL);
}
