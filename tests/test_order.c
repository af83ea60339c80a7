/* The happens-before check: known programs, and random ones against a second, naive check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hazards/order.h"
#include "tests/order_naive.h"
#include "tests/program_random.h"
#include "tests/program_text.h"
#include "tests/support.h"

static const char *op_word(const struct orr_stream_program *program, uint32_t index) {
    return orr_stream_op_text((enum orr_stream_op_kind)program->ops[index].kind);
}

static void show(const struct orr_stream_program *program) {
    print_message("staged %d serial %d\n", program->is_staged, program->nccl_serial);
    for (uint32_t i = 0; i < program->op_count; i++) {
        const struct orr_stream_op *op = &program->ops[i];
        print_message("%u h%u %s s%d(%s) object %d other %d:", i, op->host, op_word(program, i),
                      (int)op->stream, orr_stream_sync_text(program->streams[op->stream].sync),
                      (int)op->object, (int)op->other);
        for (uint32_t j = 0; j < op->access_count; j++) {
            const struct orr_stream_access *x = &program->accesses[op->access_first + j];
            print_message(" %c:%u[%d:%d]", x->is_write ? 'w' : 'r', x->buffer, (int)x->lo,
                          (int)x->hi);
        }
        print_message("\n");
    }
}

static void random_programs_get_the_verdict_of_the_naive_check(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1);
    const char *text = getenv("ORR_ORDER_PROGRAMS");
    long count = text ? atol(text) : 3000, kinds[ORR_CHECK_VERDICT_COUNT] = {0};
    for (long i = 0; i < count; i++) {
        uint64_t at = seed * 0x9e3779b97f4a7c15u + (uint64_t)i + 1, drawn = at ? at : 1;
        struct program_random options = program_random_small(&drawn);
        struct orr_stream_program *program = program_random(&memory, &options, &drawn);
        struct orr_check_verdict naive = order_naive(program), verdict;
        assert_int_equal(orr_check_order(program, &verdict), ORR_OK);
        if (naive.kind != verdict.kind || naive.op_a != verdict.op_a ||
            naive.op_b != verdict.op_b) {
            show(program);
            fail_msg("program %ld of seed %llu: %s [%d, %d], the naive check says %s [%d, %d]", i,
                     (unsigned long long)seed, orr_check_verdict_text(verdict.kind),
                     (int)verdict.op_a, (int)verdict.op_b, orr_check_verdict_text(naive.kind),
                     (int)naive.op_a, (int)naive.op_b);
        }
        kinds[verdict.kind]++;
        orr_check_verdict_clear(&verdict);
        orr_stream_program_destroy(&program);
    }
    for (int i = 0; i <= ORR_CHECK_INVALID; i++)
        if (kinds[i] > 0)
            print_message("%s: %ld\n", orr_check_verdict_text((enum orr_check_verdict_kind)i),
                          kinds[i]);
    assert_true(kinds[ORR_CHECK_NO_RACE] > 0 && kinds[ORR_CHECK_RACE] > 0 &&
                kinds[ORR_CHECK_USE_AFTER_FREE] > 0 && kinds[ORR_CHECK_USE_BEFORE_ALLOC] > 0 &&
                kinds[ORR_CHECK_INVALID] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_get_the_verdict_of_the_naive_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
