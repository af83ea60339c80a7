/* The sorts behind exports: stable, in order, whatever the keys are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/trace_support.h"
#include "trace/sort.h"

enum { COUNT_MAX = 3000 };

static struct orr__sort_key keys[COUNT_MAX], scratch[COUNT_MAX];
static uint32_t ranks[COUNT_MAX]; /* what rows with equal keys are compared by */
static uint64_t key_of[COUNT_MAX];

static int compare_ranks(const void *context, uint32_t a, uint32_t b) {
    const uint32_t *rank = context;
    return (rank[a] > rank[b]) - (rank[a] < rank[b]);
}

static void fill(uint64_t *random, size_t count, uint64_t mask, uint32_t rank_limit) {
    for (size_t i = 0; i < count; i++) {
        key_of[i] = trace_random(random) & mask;
        ranks[i] = (uint32_t)(trace_random(random) % rank_limit);
        keys[i] = (struct orr__sort_key){.key = key_of[i], .index = (uint32_t)i};
    }
}

/* Every row is there once, in order of (key, rank if they are sorted by it, index). */
static void assert_sorted(size_t count, int by_rank) {
    static unsigned char seen[COUNT_MAX];
    for (size_t i = 0; i < count; i++) {
        seen[i] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t index = keys[i].index;
        assert_true(index < count && !seen[index]);
        assert_true(keys[i].key == key_of[index]);
        seen[index] = 1;
        if (i == 0) {
            continue;
        }
        uint32_t before = keys[i - 1].index;
        assert_true(key_of[before] <= key_of[index]);
        if (key_of[before] < key_of[index]) {
            continue;
        }
        uint32_t rank_before = by_rank ? ranks[before] : 0, rank = by_rank ? ranks[index] : 0;
        assert_true(rank_before < rank || (rank_before == rank && before < index));
    }
}

static void random_keys_come_out_in_order(void **unused) {
    static const uint64_t masks[] = {
        0, 1, 0xff, 0xffff, 0x7ff << 8, UINT64_MAX, (uint64_t)7 << 61, 0xfffffffffffff};
    uint64_t random = trace_seed() * 2 + 1;
    (void)unused;
    for (int round = 0; round < 400; round++) {
        size_t count = trace_random(&random) % (round % 10 == 0 ? COUNT_MAX : 40);
        uint64_t mask = masks[trace_random(&random) % (sizeof masks / sizeof *masks)];
        fill(&random, count, mask, round % 3 == 0 ? 3 : UINT32_MAX);
        orr__sort_keys(keys, scratch, count);
        assert_sorted(count, 0);
        orr__sort_ties(keys, scratch, count, compare_ranks, ranks);
        assert_sorted(count, 1);
    }
}

static void sorted_and_reversed_keys_come_out_in_order(void **unused) {
    (void)unused;
    for (int reversed = 0; reversed < 2; reversed++) {
        for (size_t i = 0; i < COUNT_MAX; i++) {
            key_of[i] = reversed ? (uint64_t)(COUNT_MAX - i) * 1000003 : (uint64_t)i * 1000003;
            keys[i] = (struct orr__sort_key){.key = key_of[i], .index = (uint32_t)i};
        }
        orr__sort_keys(keys, scratch, COUNT_MAX);
        assert_sorted(COUNT_MAX, 0);
    }
}

static void nothing_and_one_are_sorted(void **unused) {
    (void)unused;
    orr__sort_keys(keys, scratch, 0);
    orr__sort_ties(keys, scratch, 0, compare_ranks, ranks);
    keys[0] = (struct orr__sort_key){.key = 5, .index = 0};
    key_of[0] = 5;
    orr__sort_keys(keys, scratch, 1);
    orr__sort_ties(keys, scratch, 1, compare_ranks, ranks);
    assert_sorted(1, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_keys_come_out_in_order),
        cmocka_unit_test(sorted_and_reversed_keys_come_out_in_order),
        cmocka_unit_test(nothing_and_one_are_sorted),
    };
    return cmocka_run_group_tests_name("sort", tests, NULL, NULL);
}
