/* The happens-before check: known programs, and random ones against a second, naive check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hazards/order.h"
#include "hazards/order_report.h"
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

/* The state of the generator for program `index`. */
static uint64_t nth(uint64_t seed, long index) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)index + 1;
    return state ? state : 1;
}

static void assert_same(const struct orr_stream_program *program, struct orr_check_verdict verdict,
                        struct orr_check_verdict wanted, const char *wanted_by, long index) {
    if (wanted.kind == verdict.kind && wanted.op_a == verdict.op_a && wanted.op_b == verdict.op_b)
        return;
    show(program);
    fail_msg("program %ld: %s [%d, %d], but %s: %s [%d, %d]", index,
             orr_check_verdict_text(verdict.kind), (int)verdict.op_a, (int)verdict.op_b, wanted_by,
             orr_check_verdict_text(wanted.kind), (int)wanted.op_a, (int)wanted.op_b);
}

static void compare_with_naive(struct program_random (*draw)(uint64_t *state), long count,
                               long kinds[ORR_CHECK_VERDICT_COUNT]) {
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(1);
    for (long i = 0; i < count; i++) {
        uint64_t drawn = nth(seed, i);
        struct program_random options = draw(&drawn);
        struct orr_stream_program *program = program_random(&memory, &options, &drawn);
        struct orr_check_verdict verdict;
        assert_int_equal(orr_check_order(program, &verdict), ORR_OK);
        assert_same(program, verdict, order_naive(program), "the naive check says", i);
        kinds[verdict.kind]++;
        orr_check_verdict_clear(&verdict);
        orr_stream_program_destroy(&program);
    }
    for (int i = 0; i <= ORR_CHECK_INVALID; i++)
        if (kinds[i] > 0)
            print_message("%s: %ld\n", orr_check_verdict_text((enum orr_check_verdict_kind)i),
                          kinds[i]);
}

/* ORR_ORDER_PROGRAMS: how many instead of `usual`. */
static long program_count(long usual) {
    const char *text = getenv("ORR_ORDER_PROGRAMS");
    return text ? atol(text) : usual;
}

static void random_programs_get_the_verdict_of_the_naive_check(void **state) {
    (void)state;
    long kinds[ORR_CHECK_VERDICT_COUNT] = {0};
    compare_with_naive(program_random_small, program_count(2000), kinds);
    assert_true(kinds[ORR_CHECK_NO_RACE] > 0 && kinds[ORR_CHECK_RACE] > 0 &&
                kinds[ORR_CHECK_USE_AFTER_FREE] > 0 && kinds[ORR_CHECK_USE_BEFORE_ALLOC] > 0 &&
                kinds[ORR_CHECK_INVALID] > 0);
}

static void programs_of_hundreds_of_streams_do_too(void **state) {
    (void)state;
    long kinds[ORR_CHECK_VERDICT_COUNT] = {0};
    compare_with_naive(program_random_wide, program_count(1000) / 10, kinds);
    assert_true(kinds[ORR_CHECK_RACE] > 0);
}

/* --- properties --- */

/* The same program with streams, buffers, events and hosts declared in reverse order, and with
 * operations without effect put in. `places`: where each operation went. */
static struct orr_stream_program *disguise(const struct orr_stream_program *program,
                                           uint32_t *places, uint64_t *state) {
    static const enum orr_name_space spaces[] = {ORR_NAME_BUFFER, ORR_NAME_EVENT, ORR_NAME_HOST};
    struct orr_stream_program *made;
    uint32_t id;
    char text[32];
    assert_int_equal(orr_stream_program_create(program->memory, &made), ORR_OK);
    made->is_staged = program->is_staged;
    made->nccl_serial = program->nccl_serial;
    uint32_t streams = program->names[ORR_NAME_STREAM].count;
    for (uint32_t i = streams; i-- > 0;) {
        snprintf(text, sizeof text, "renamed%u", i);
        assert_int_equal(orr_stream_program_stream(made, text, program->streams[i].device,
                                                   program->streams[i].sync, &id),
                         ORR_OK);
    }
    for (int space = 0; space < 3; space++) {
        for (uint32_t i = program->names[spaces[space]].count; i-- > 0;) {
            snprintf(text, sizeof text, "renamed%u", i);
            assert_int_equal(orr_stream_program_name(made, spaces[space], text, &id), ORR_OK);
            if (spaces[space] == ORR_NAME_BUFFER)
                made->buffers[id] = program->buffers[i];
        }
    }
    for (uint32_t i = 0; i < 8; i++) { /* communicators and flags stay */
        snprintf(text, sizeof text, "%u", i);
        assert_int_equal(orr_stream_program_name(made, ORR_NAME_COMM, text, &id), ORR_OK);
        assert_int_equal(orr_stream_program_name(made, ORR_NAME_FLAG, text, &id), ORR_OK);
    }
    for (uint32_t i = 0; i < program->op_count; i++) {
        struct orr_stream_op op = program->ops[i];
        struct orr_stream_access accesses[8];
        while (random_below(state, 4) == 0) {
            static const uint8_t idle[] = {ORR_OP_VIEW, ORR_OP_GROUP_START, ORR_OP_STREAM_CREATE};
            struct orr_stream_op extra =
                orr_stream_op((enum orr_stream_op_kind)idle[made->op_count % 3]);
            extra.stream = extra.object = 0;
            assert_int_equal(orr_stream_program_add(made, &extra, NULL, 0), ORR_OK);
        }
        places[i] = made->op_count;
        /* Host 0 is "h" in every program; the renamed ones follow, last first. */
        op.host = program->names[ORR_NAME_HOST].count - op.host;
        op.stream = streams - 1 - op.stream;
        bool is_event = op.kind == ORR_OP_RECORD || op.kind == ORR_OP_WAIT ||
                        op.kind == ORR_OP_SYNC_EVENT || op.kind == ORR_OP_QUERY_OK ||
                        op.kind == ORR_OP_EVENT_CREATE || op.kind == ORR_OP_EVENT_DESTROY;
        bool is_buffer =
            op.kind == ORR_OP_VIEW || (op.kind >= ORR_OP_ALLOC && op.kind <= ORR_OP_ALIAS);
        uint32_t buffers = program->names[ORR_NAME_BUFFER].count;
        if (is_event)
            op.object = program->names[ORR_NAME_EVENT].count - 1 - op.object;
        if (is_buffer)
            op.object = buffers - 1 - op.object;
        if (is_buffer && op.other != ORR_NONE)
            op.other = buffers - 1 - op.other;
        for (uint32_t j = 0; j < op.access_count; j++) {
            accesses[j] = program->accesses[op.access_first + j];
            accesses[j].buffer = buffers - 1 - accesses[j].buffer;
        }
        assert_int_equal(orr_stream_program_add(made, &op, accesses, op.access_count), ORR_OK);
    }
    return made;
}

static void names_and_idle_operations_do_not_matter(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(2);
    for (long i = 0; i < program_count(500); i++) {
        uint32_t places[64];
        uint64_t drawn = nth(seed, i);
        struct program_random options = program_random_small(&drawn);
        struct orr_stream_program *program = program_random(&memory, &options, &drawn);
        struct orr_stream_program *other = disguise(program, places, &drawn);
        struct orr_check_verdict verdict, disguised;
        assert_int_equal(orr_check_order(program, &verdict), ORR_OK);
        assert_int_equal(orr_check_order(other, &disguised), ORR_OK);
        struct orr_check_verdict wanted = verdict;
        if (verdict.op_b != ORR_NONE) {
            wanted.op_a = places[verdict.op_a];
            wanted.op_b = places[verdict.op_b];
        }
        assert_same(program, disguised, wanted, "under other names", i);
        orr_check_verdict_clear(&verdict);
        orr_check_verdict_clear(&disguised);
        orr_stream_program_destroy(&program);
        orr_stream_program_destroy(&other);
    }
}

/* --- all findings --- */

struct collected {
    struct orr_order_finding items[64];
    uint32_t count;
};

static bool collect(void *context, const struct orr_order_finding *finding) {
    struct collected *all = context;
    assert_true(all->count < 64);
    all->items[all->count++] = *finding;
    return true;
}

static void findings_go_on_after_the_first_without_repeats(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(
        &memory, "k s w:A w:B; k t r:A r:B; k t r:A; rec e s; wait u e; k u w:A; k v w:C; await f");
    struct orr_order_malformed malformed;
    struct collected all = {0};
    assert_int_equal(orr_check_order_all(program, collect, &all, &malformed), ORR_OK);
    static const uint32_t pairs[][2] = {{0, 1}, {0, 2}, {1, 5}};
    assert_int_equal(all.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(all.items[i].op_a, pairs[i][0]);
        assert_int_equal(all.items[i].op_b, pairs[i][1]);
    }
    assert_int_equal(malformed.op, 7);
    orr_stream_program_destroy(&program);
}

static bool keep_pairs(void *context, const struct orr_order_finding *finding) {
    uint8_t *found = context;
    found[finding->op_b] = 1;
    return true;
}

/* An operation has a finding among all findings iff it has one when everything before it that has
 * one is forgiven: the operations after a finding are still judged exactly. */
static void later_findings_are_those_of_the_naive_check_too(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(3);
    for (long i = 0; i < program_count(500); i++) {
        uint64_t drawn = nth(seed, i);
        struct program_random options = program_random_small(&drawn);
        options.malformed_permille = 0;
        struct orr_stream_program *program = program_random(&memory, &options, &drawn);
        uint8_t found[64] = {0}, wanted[64] = {0};
        assert_int_equal(orr_check_order_all(program, keep_pairs, found, NULL), ORR_OK);
        order_naive_all(program, wanted);
        for (uint32_t op = 0; op < program->op_count; op++)
            if (found[op] != wanted[op]) {
                show(program);
                fail_msg("program %ld, op %u: %d, the naive check says %d", i, op, found[op],
                         wanted[op]);
            }
        orr_stream_program_destroy(&program);
    }
}

static void messages_name_operations_buffers_and_places(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program =
        stream_program_of(&memory, "k s w:A[0:8]; x: k t r:B r:A[4:12]");
    struct orr_check_verdict verdict;
    uint32_t label, site;
    assert_int_equal(orr_stream_program_name(program, ORR_NAME_WORD, "matmul", &label), ORR_OK);
    assert_int_equal(orr_stream_program_name(program, ORR_NAME_WORD, "train.lua:7", &site), ORR_OK);
    program->ops[1].label = label;
    program->ops[1].site = site;
    assert_int_equal(orr_check_order(program, &verdict), ORR_OK);
    assert_string_equal(
        verdict.message,
        "read after write of A[4:8]: op 1 'x: k t r:B r:A[4:12]' (matmul, stream t, host x, "
        "train.lua:7) follows op 0 'k s w:A[0:8]' (stream s) in the order of calls only; stream t "
        "does not wait for it");
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void assert_report(const struct orr_stream_program *program, bool as_json, bool all,
                          bool redundant, const char *wanted) {
    struct orr_order_report_options options = {
        .as_json = as_json, .all = all, .redundant = redundant};
    char *text;
    assert_int_equal(orr_order_report(program, &options, &text), ORR_OK);
    assert_string_equal(text, wanted);
    orr_memory_free(program->memory, text);
}

static void a_report_tells_findings_at_the_same_places_once(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(
        &memory, "k s w:A; k t r:A; rec e t; wait s e; k s w:A; k t r:A; k u w:B; k s w:B");
    uint32_t lines[2];
    assert_int_equal(orr_stream_program_name(program, ORR_NAME_WORD, "a.lua:1", &lines[0]), ORR_OK);
    assert_int_equal(orr_stream_program_name(program, ORR_NAME_WORD, "a.lua:2", &lines[1]), ORR_OK);
    program->ops[0].site = program->ops[4].site = lines[0];
    program->ops[1].site = program->ops[5].site = lines[1];
    struct orr_check_verdict verdict = {.memory = &memory};
    struct orr_order_finding last = {
        .kind = ORR_CHECK_RACE, .op_a = 6, .op_b = 7, .access_a = 4, .access_b = 5};
    char json[2048], text[2048];
    assert_int_equal(orr_order_finding_describe(program, &last, &verdict), ORR_OK);
    snprintf(text, sizeof text, "2 times at these two places\nalso race, operations 6 and 7: %s\n",
             verdict.message);
    assert_report(program, false, true, true, text);
    struct orr_order_finding first = {
        .kind = ORR_CHECK_RACE, .op_a = 0, .op_b = 1, .access_a = 0, .access_b = 1};
    char *kept = verdict.message;
    verdict.message = NULL;
    assert_int_equal(orr_order_finding_describe(program, &first, &verdict), ORR_OK);
    snprintf(json, sizeof json,
             ", \"findings\": [{\"verdict\": \"race\", \"ops\": [0, 1], \"count\": 2, "
             "\"message\": \"%s\"}, {\"verdict\": \"race\", \"ops\": [6, 7], \"count\": 1, "
             "\"message\": \"%s\"}]",
             verdict.message, kept);
    assert_report(program, true, true, true, json);
    orr_memory_free(&memory, kept);
    orr_check_verdict_clear(&verdict);
    orr_stream_program_destroy(&program);
}

static void a_report_tells_what_can_go(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program =
        stream_program_of(&memory, "k s w:A; rec e s; wait t e; k t r:A; wait t e");
    assert_report(
        program, false, true, true,
        "redundant: op 4 'wait t e' orders nothing: nobody learns anything new from it\n");
    assert_report(program, true, false, true,
                  ", \"redundant\": [{\"op\": 4, \"why\": \"nothing-new\", \"together\": true}], "
                  "\"redundant_untried\": 0");
    assert_report(program, true, false, false, "");
    program->oracle = ORR_ORACLE_HANG;
    assert_report(program, true, true, true, "");
    orr_stream_program_destroy(&program);
}

/* --- memory --- */

static void check_everything(struct memory_counting *memory, void *context) {
    struct orr_stream_program *program;
    struct orr_check_verdict verdict;
    if (orr_stream_program_copy(context, &program) != ORR_OK)
        return;
    program->memory = &memory->table;
    if (orr_check_order(program, &verdict) == ORR_OK)
        assert_int_equal(verdict.kind, ORR_CHECK_USE_AFTER_FREE);
    orr_check_verdict_clear(&verdict);
    program->memory = ((struct orr_stream_program *)context)->memory;
    orr_stream_program_destroy(&program);
}

static void missing_memory_leaves_nothing_behind(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(
        &memory,
        "option serial; stream L legacy; stream b bl; k L w:B[0:4]; k b r:B[2:6]; coll c x s r:C;"
        "coll c x t r:C; rec e s; wait t e; esync e; dsync 0; notify f; await f; alloc A s;"
        "k t r:A; rs A u; free A; alloc D s reuse=A; malloca M s; k s w:M; freea M s; hr Z;"
        "k s w:D");
    fail_each_request(check_everything, program);
    orr_stream_program_destroy(&program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_get_the_verdict_of_the_naive_check),
        cmocka_unit_test(programs_of_hundreds_of_streams_do_too),
        cmocka_unit_test(names_and_idle_operations_do_not_matter),
        cmocka_unit_test(findings_go_on_after_the_first_without_repeats),
        cmocka_unit_test(later_findings_are_those_of_the_naive_check_too),
        cmocka_unit_test(messages_name_operations_buffers_and_places),
        cmocka_unit_test(a_report_tells_findings_at_the_same_places_once),
        cmocka_unit_test(a_report_tells_what_can_go),
        cmocka_unit_test(missing_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
