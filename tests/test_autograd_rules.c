/* Every operator has a gradient that agrees with finite differences in f64, on random shapes and
 * attributes, or a reason to have none. The cases are in gradient_cases.c; the seed is printed and
 * can be set by ORR_TEST_SEED. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/autograd_internal.h"
#include "runtime/operators/gemm.h"
#include "sim/sim.h"
#include "tests/gradient_trial.h"

static void every_rule_agrees_with_finite_differences(void **state) {
    (void)state;
    struct fixture f;
    struct dice dice = {.state = random_seed(1)};
    fixture_open(&f, orr_sim_open, 1);
    for (int table = 0; gradient_tables[table]; table++) {
        for (const struct gradient_case *entry = gradient_tables[table]; entry->op; entry++) {
            for (int k = 0; k < 12; k++) {
                check_gradient_case(&f, entry, &dice);
            }
        }
    }
    fixture_close(&f);
}

static int cases_of(const char *op) {
    int found = 0;
    for (int table = 0; gradient_tables[table]; table++) {
        for (const struct gradient_case *entry = gradient_tables[table]; entry->op; entry++) {
            found += strcmp(entry->op, op) == 0;
        }
    }
    return found;
}

static const char *reason_of(const char *op) {
    for (const struct without_gradient *entry = without_gradient; entry->op; entry++) {
        if (strcmp(entry->op, op) == 0) {
            return entry->reason;
        }
    }
    return NULL;
}

/* A new row of the operator table fails here until it has a case in gradient_cases.c, or a reason
 * there; one that gets a rule loses its reason. */
static void every_operator_has_a_tested_gradient_or_a_reason_for_none(void **state) {
    (void)state;
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        int cases = cases_of(op->name);
        bool rule = orr__rule_of(op) != NULL, reason = reason_of(op->name) != NULL;
        if (rule != (cases > 0)) {
            fail_msg("%s: %s", op->name,
                     rule ? "its gradient rule has no case in tests/gradient_cases.c"
                          : "a case without a gradient rule");
        }
        if (rule == reason) {
            fail_msg("%s: %s", op->name,
                     rule ? "has a gradient and a reason to have none"
                          : "neither a gradient rule with a case in tests/gradient_cases.c nor a "
                            "reason in without_gradient there");
        }
    }
    for (const struct without_gradient *entry = without_gradient; entry->op; entry++) {
        if (!orr_operator_find(entry->op) || !entry->reason[0]) {
            fail_msg("%s: no operator, or no reason", entry->op);
        }
    }
}

int main(void) {
    orr_gemm_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_agrees_with_finite_differences),
        cmocka_unit_test(every_operator_has_a_tested_gradient_or_a_reason_for_none),
    };
    return cmocka_run_group_tests_name("autograd rules", tests, NULL, NULL);
}
