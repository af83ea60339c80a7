/* Fixes of happens-before findings, proven; and waits that can go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hazards/fix.h"
#include "hazards/order_internal.h"
#include "hazards/order_report.h"
#include "hazards/redundant.h"
#include "tests/order_naive.h"
#include "tests/program_random.h"
#include "tests/program_text.h"
#include "tests/support.h"

static bool keep_first(void *context, const struct orr_order_finding *finding) {
    *(struct orr_order_finding *)context = *finding;
    return false;
}

static struct orr_order_finding first_finding(const struct orr_stream_program *program) {
    struct orr_order_finding first = {.op_b = ORR_NONE};
    assert_int_equal(orr_check_order_all(program, keep_first, &first, NULL), ORR_OK);
    return first;
}

/* --- fixes --- */

struct fixed {
    const char *program, *edits, *text;
};

static const struct fixed fixes[] = {
    {"k s w:A; k t r:A", "1 'rec fix s', 2 'wait t fix'",
     "record an event on stream s after op 0, and let stream t wait for it before op 1"},
    {"k s w:A; rec e s; k t r:A", "2 'wait t e'",
     "let stream t wait for event 'e', recorded by op 1, before op 2"},
    {"k s w:A; rec e s; edestroy e; k t r:A", "1 'rec fix s', 4 'wait t fix'",
     "record an event on stream s after op 0, and let stream t wait for it before op 3"},
    {"k s w:A; hr A", "1 'ssync s'", "let host h synchronise stream s before op 1"},
    {"k s w:A; k s w:B; hr A", "1 'rec fix s', 3 'esync fix'",
     "record an event on stream s after op 0, and let host h wait for it before op 2"},
    {"hw A; x: hr A", "1 'notify fix', 2 'x: await fix'",
     "let host h notify a flag after op 0, and host x await it before op 1"},
    {"alloc A s; k t r:A; free A; alloc B s reuse=A; k s w:B", "2 'rs A t'",
     "tell the allocator that stream t uses 'A' (record_stream) before op 2 frees it"},
    {"alloc A s; free A; k s r:A", "2 'free A'",
     "end 'A' after op 2, its last use, and hand its block on only then"},
    {"alloc A s; free A; alloc B s reuse=A; k s r:A; k s w:B", "3 'free A'",
     "end 'A' after op 3, its last use, and hand its block on only then"},
    {"cfree A; k s r:A", "1 'ssync s', 2 'cfree A'",
     "end 'A' after op 1, its last use, and hand its block on only then; the host that ends it "
     "synchronises the stream of the use before"},
    {"malloca X s; freea X s; rec e s; wait t e; k t r:X",
     "4 'rec fix t', 5 'wait s fix', 6 'freea X s'",
     "end 'X' after op 4, its last use, and hand its block on only then; the stream that ends it "
     "waits for an event recorded after the use"},
    {"malloca X s; k t w:X", "1 'rec fix s', 2 'wait t fix'",
     "record an event on stream s after op 0, and let stream t wait for it before op 1"},
    {"gs; k s w:A; k t r:B; ge; gs; k t r:A; ge", "4 'rec fix s', 5 'wait t fix'",
     "record an event on stream s after op 1, and let stream t wait for it before op 5"},
    {"x: k s w:A; k t r:A", "1 'x: rec fix s', 2 'wait t fix'",
     "record an event on stream s after op 0, and let stream t wait for it before op 1; the hosts "
     "must make these calls in this order"},
};

static void describe_edits(const struct orr_fix *fix, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < fix->edit_count && length < size; i++) {
        char call[64];
        orr_stream_op_short(fix->program, fix->edits[i].at, call, sizeof call);
        length += (size_t)snprintf(text + length, size - length, "%s%u '%s'", i > 0 ? ", " : "",
                                   fix->edits[i].at, call);
    }
}

static void each_finding_gets_the_smallest_fix_that_proves(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++) {
        struct orr_stream_program *program = stream_program_of(&memory, fixes[i].program);
        struct orr_order_finding first = first_finding(program);
        struct orr_fix fix;
        char edits[256];
        assert_int_not_equal(first.op_b, ORR_NONE);
        assert_int_equal(orr_fix_find(program, &first, &fix), ORR_OK);
        describe_edits(&fix, edits, sizeof edits);
        assert_string_equal(edits, fixes[i].edits);
        assert_string_equal(fix.text, fixes[i].text);
        assert_true(fix.is_proven);
        assert_int_equal(order_naive(fix.program).kind, ORR_CHECK_NO_RACE);
        orr_fix_clear(&fix);
        orr_stream_program_destroy(&program);
    }
}

static void what_is_left_is_said(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program = stream_program_of(&memory, "k s w:A; k t w:A; k u r:A");
    struct orr_order_finding first = first_finding(program);
    struct orr_fix fix;
    assert_int_equal(orr_fix_find(program, &first, &fix), ORR_OK);
    assert_true(fix.is_proven);
    assert_int_equal(fix.next.op_b, ORR_NONE); /* up to the pair */
    struct orr_order_finding next = first_finding(fix.program);
    assert_int_equal(next.op_a, 0);
    assert_int_equal(next.op_b, 4);
    orr_fix_clear(&fix);
    orr_stream_program_destroy(&program);
}

/* ORR_ORDER_PROGRAMS: how many instead of `usual`. */
static long program_count(long usual) {
    const char *text = getenv("ORR_ORDER_PROGRAMS");
    return text ? atol(text) : usual;
}

static struct orr_stream_program *draw_program(const struct orr_memory *memory, uint64_t seed,
                                               long index) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)index + 1;
    state = state ? state : 1;
    struct program_random options = program_random_small(&state);
    options.malformed_permille = 0;
    return program_random(memory, &options, &state);
}

/* Fixes one finding after the other; returns how many fixes it took to a safe program, -1 if one
 * did not prove. */
static int repair(struct orr_stream_program **program) {
    for (int count = 0; count < 200; count++) {
        struct orr_order_finding first = first_finding(*program);
        struct orr_fix fix;
        if (first.op_b == ORR_NONE)
            return count;
        assert_int_equal(orr_fix_find(*program, &first, &fix), ORR_OK);
        if (!fix.is_proven) {
            orr_fix_clear(&fix);
            return -1;
        }
        struct orr_check_verdict naive = order_naive(fix.program);
        if (fix.next.op_b != ORR_NONE) {
            assert_int_equal(naive.op_a, fix.next.op_a);
            assert_int_equal(naive.op_b, fix.next.op_b);
        }
        orr_stream_program_destroy(program);
        *program = fix.program;
        fix.program = NULL;
        orr_fix_clear(&fix);
    }
    return -1;
}

static void random_programs_are_repaired_step_by_step(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(4);
    long repaired = 0, stuck = 0, fixes_made = 0;
    for (long i = 0; i < program_count(150); i++) {
        struct orr_stream_program *program = draw_program(&memory, seed, i);
        int count = repair(&program);
        if (count >= 0) {
            repaired += count > 0;
            fixes_made += count;
            assert_int_equal(order_naive(program).kind, ORR_CHECK_NO_RACE);
        } else {
            stuck++;
        }
        orr_stream_program_destroy(&program);
    }
    print_message("%ld programs repaired by %ld fixes, %ld not\n", repaired, fixes_made, stuck);
    assert_true(stuck * 20 <= repaired);
}

static void report_and_repair(const struct orr_stream_program *program) {
    const struct orr_order_report_options options = {.all = true, .redundant = true};
    struct orr_stream_program *repaired;
    uint32_t count;
    bool is_safe;
    char *text;
    if (orr_order_report(program, &options, &text) == ORR_OK)
        orr_memory_free(program->memory, text);
    else
        assert_null(text);
    if (orr_fix_all(program, 10, &repaired, &count, &is_safe) == ORR_OK)
        assert_true(is_safe && count == 1);
    orr_stream_program_destroy(&repaired);
}

static void fix_everything(struct memory_counting *memory, void *context) {
    struct orr_stream_program *program;
    struct orr_fix fix;
    struct orr_redundant redundant;
    if (orr_stream_program_copy(context, &program) != ORR_OK)
        return;
    const struct orr_memory *kept = program->memory;
    struct orr_order_finding first = first_finding(program);
    program->memory = &memory->table;
    if (orr_fix_find(program, &first, &fix) == ORR_OK)
        assert_true(fix.is_proven);
    orr_fix_clear(&fix);
    if (orr_redundant_find(program, 0, &redundant) == ORR_OK)
        assert_false(redundant.is_safe);
    orr_redundant_clear(&redundant, program->memory);
    report_and_repair(program);
    program->memory = kept;
    orr_stream_program_destroy(&program);
}

static void missing_memory_leaves_nothing_behind(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program =
        stream_program_of(&memory, "malloca X s; freea X s; rec e s; wait t e; k t r:X; k s w:A");
    fail_each_request(fix_everything, program);
    orr_stream_program_destroy(&program);
}

/* --- what can go --- */

struct spare {
    const char *program, *redundant; /* op, why, and * if together */
};

static const struct spare spares[] = {
    {"k s w:A; rec e s; wait t e; k t r:A", ""},
    {"k s w:A; rec e s; wait t e; wait t e; k t r:A", "2 not-needed, 3 nothing-new*"},
    {"k s w:A; rec e s; wait t e; k t r:B", "1 not-needed*, 2 not-needed*"},
    {"k s w:A; rec e s; k s r:A", "1 nothing-new*"},
    {"k s w:A; ssync s; hr A; ssync s; dsync 0", "3 nothing-new*, 4 nothing-new*"},
    {"wait s e; k s w:A", "0 nothing-new*"},
    {"k s w:A; rec e s; wait t e; rec f s; wait t f; k t r:A",
     "1 not-needed, 2 not-needed, 3 nothing-new*, 4 nothing-new*"},
    {"alloc A s; k t w:A; rs A t; free A", "2 nothing-new*"},
    {"alloc A s; k t w:A; rs A t; free A; alloc B s reuse=A; k s w:B", ""},
    {"alloc A s; k s w:A; rs A s; free A; alloc B s reuse=A; k s w:B", "2 not-needed*"},
    {"notify f; await f; hw A", "1 nothing-new*"},
    {"notify f; hw A", "0 nothing-new*"},
    {"hw A; notify f; x: await f; x: hr A", ""},
};

static void describe_redundant(const struct orr_redundant *redundant, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < redundant->count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%u %s%s", i > 0 ? ", " : "",
                                   redundant->items[i].op,
                                   orr_redundant_why_text(redundant->items[i].why),
                                   redundant->items[i].together ? "*" : "");
}

static void what_orders_nothing_and_what_nothing_needs(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    for (size_t i = 0; i < sizeof spares / sizeof *spares; i++) {
        struct orr_stream_program *program = stream_program_of(&memory, spares[i].program);
        struct orr_redundant redundant;
        char text[256];
        assert_int_equal(orr_redundant_find(program, 0, &redundant), ORR_OK);
        assert_true(redundant.is_safe);
        assert_int_equal(redundant.untried, 0);
        describe_redundant(&redundant, text, sizeof text);
        assert_string_equal(text, spares[i].redundant);
        orr_redundant_clear(&redundant, program->memory);
        orr_stream_program_destroy(&program);
    }
}

static void a_long_program_is_tried_as_far_as_asked(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    struct orr_stream_program *program =
        stream_program_of(&memory, "k s w:A; rec e s; wait t e; k t r:B; wait t e; esync e");
    struct orr_redundant redundant;
    char text[256];
    assert_int_equal(orr_redundant_find(program, 12, &redundant), ORR_OK);
    describe_redundant(&redundant, text, sizeof text);
    assert_string_equal(text, "1 not-needed*, 4 nothing-new*");
    assert_int_equal(redundant.untried, 2);
    orr_redundant_clear(&redundant, program->memory);
    orr_stream_program_destroy(&program);
}

/* The program without one operation, or without all that can go together. */
static struct orr_stream_program *without(const struct orr_stream_program *program, uint32_t op,
                                          const struct orr_redundant *together) {
    bool *keep = malloc(program->op_count * sizeof *keep);
    struct orr_stream_program *rest;
    assert_non_null(keep);
    for (uint32_t i = 0; i < program->op_count; i++)
        keep[i] = i != op;
    for (uint32_t i = 0; together && i < together->count; i++)
        keep[together->items[i].op] = !together->items[i].together;
    assert_int_equal(orr_stream_program_subset(program, keep, &rest), ORR_OK);
    free(keep);
    return rest;
}

static bool is_listed(const struct orr_redundant *redundant, uint32_t op) {
    for (uint32_t i = 0; i < redundant->count; i++)
        if (redundant->items[i].op == op)
            return true;
    return false;
}

static void a_sync_is_either_missed_or_listed(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(5);
    long listed = 0, missed = 0;
    for (long i = 0; i < program_count(150); i++) {
        struct orr_stream_program *program = draw_program(&memory, seed, i);
        struct orr_redundant redundant;
        (void)repair(&program);
        assert_int_equal(orr_redundant_find(program, 0, &redundant), ORR_OK);
        for (uint32_t op = 0; redundant.is_safe && op < program->op_count; op++) {
            if (!orr_redundant_is_candidate(program, op))
                continue;
            struct orr_stream_program *rest = without(program, op, NULL);
            bool is_missed = order_naive(rest).kind != ORR_CHECK_NO_RACE;
            assert_int_equal(is_missed, !is_listed(&redundant, op));
            listed += !is_missed;
            missed += is_missed;
            orr_stream_program_destroy(&rest);
        }
        if (redundant.is_safe) {
            struct orr_stream_program *rest = without(program, ORR_NONE, &redundant);
            assert_int_equal(order_naive(rest).kind, ORR_CHECK_NO_RACE);
            orr_stream_program_destroy(&rest);
        }
        orr_redundant_clear(&redundant, program->memory);
        orr_stream_program_destroy(&program);
    }
    print_message("%ld can go, %ld are missed\n", listed, missed);
    assert_true(listed > 0 && missed > 0);
}

static bool count_finding(void *context, const struct orr_order_finding *finding) {
    uint64_t *hash = context;
    *hash = *hash * 31 + finding->access_a * 7 + finding->access_b + (uint64_t)finding->kind;
    return true;
}

/* Accesses keep their numbers among themselves, because what goes has none. */
static uint64_t all_findings(const struct orr_stream_program *program) {
    uint64_t hash = 1;
    assert_int_equal(orr_check_order_all(program, count_finding, &hash, NULL), ORR_OK);
    return hash;
}

static void without_what_has_no_effect_every_finding_stays(void **state) {
    (void)state;
    struct orr_memory memory = orr_memory_system();
    uint64_t seed = random_seed(6);
    long tried = 0;
    for (long i = 0; i < program_count(400); i++) {
        struct orr_stream_program *program = draw_program(&memory, seed, i);
        bool effective[64] = {false};
        uint64_t hash = 1;
        struct orr__order_request request = {
            .found = count_finding, .context = &hash, .effective = effective};
        struct orr_order_malformed malformed;
        assert_int_equal(orr__order_check(program, &request, &malformed), ORR_OK);
        for (uint32_t op = 0; op < program->op_count; op++) {
            if (!orr_redundant_is_candidate(program, op) || effective[op])
                continue;
            struct orr_stream_program *rest = without(program, op, NULL);
            assert_true(all_findings(rest) == hash);
            tried++;
            orr_stream_program_destroy(&rest);
        }
        orr_stream_program_destroy(&program);
    }
    print_message("%ld operations without effect\n", tried);
    assert_true(tried > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_finding_gets_the_smallest_fix_that_proves),
        cmocka_unit_test(what_is_left_is_said),
        cmocka_unit_test(random_programs_are_repaired_step_by_step),
        cmocka_unit_test(missing_memory_leaves_nothing_behind),
        cmocka_unit_test(what_orders_nothing_and_what_nothing_needs),
        cmocka_unit_test(a_long_program_is_tried_as_far_as_asked),
        cmocka_unit_test(a_sync_is_either_missed_or_listed),
        cmocka_unit_test(without_what_has_no_effect_every_finding_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
