/* Every operator has a kernel, and gives what the operator's own arithmetic gives: the recipes of
 * random programs, one operator at a time, in every dtype that it takes. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_blas_fixture.h"
#include "tests/random_program.h"

enum { DRAWS = 2, TRIES = 10 };

static void every_operator_has_a_kernel(void **state) {
    int missing = 0;
    (void)state;
    for (int i = 0; i < orr_operator_count(); i++) {
        const struct orr_operator *op = orr_operator_at(i);
        bool found = orr__cuda_operator_find(op->name) != NULL;
        /* A reshape's result is its operand's memory: nothing is run. */
        if (found == (op->class != ORR_OPERATOR_ALIAS))
            continue;
        print_message("%s %s a kernel\n", op->name, found ? "needs no, but has," : "has not");
        missing++;
    }
    assert_int_equal(missing, 0);
}

static void a_name_that_is_no_operator_has_none(void **state) {
    (void)state;
    assert_null(orr__cuda_operator_find("reshape"));
    assert_null(orr__cuda_operator_find("no such operator"));
    assert_null(orr__cuda_operator_find(""));
}

/* ---- Drawn calls ---- */

/* The operand of a step: a tensor's numbers; results of other operators don't come up, because the
 * program has one only. */
static struct orr_tensor_view operand_of(const struct program *program, int variable) {
    const struct variable *v = &program->variables[variable];
    const struct step *made = &program->steps[v->step];
    struct orr_tensor_view x = tensor_make(v->info.dtype, v->info.shape);
    assert_int_equal(made->kind, STEP_TENSOR);
    for (int64_t i = 0; i < tensor_count(&x); i++)
        orr_dtype_store(x.dtype, x.data, (size_t)i, program_value(program, made, i));
    return x;
}

/* False if the recipe finds nothing this time. */
static bool draw_call(const struct recipe *recipe, uint64_t seed, enum orr_dtype dtype,
                      struct call *call, struct effect *out_effect) {
    static struct program program; /* large */
    struct draft draft = {.program = &program, .random = seed, .dtype = dtype};
    memset(&program, 0, sizeof program);
    program.axis_count = 1;
    program.dims[0] = 1;
    draft.whole = seed % 2 == 0;
    if (!program_apply(&draft, recipe))
        return false;
    const struct step *step = &program.steps[program.step_count - 1];
    *call = call_open(step->op->name);
    call->attributes = step->attributes;
    for (int i = 0; i < step->input_count; i++)
        call_input(call, operand_of(&program, step->inputs[i]));
    *out_effect = step->effect;
    return true;
}

/* What terms that cancel out may leave: rounding errors of the largest that the result could have
 * been, and of sums. */
static double slack_of(const struct call *call, const struct effect *effect, enum orr_dtype dtype) {
    double epsilon = dtype == ORR_DTYPE_F64 ? DBL_EPSILON : (double)FLT_EPSILON, most = 0;
    for (int i = 0; i < call->op->outputs; i++)
        most = fmax(most, fmax(fabs(effect->lo[i]), fabs(effect->hi[i])));
    return 4 * epsilon * most +
           (effect->sums ? 2 * epsilon * (effect->terms + 4) * effect->mass : 0);
}

/* How often the recipe found something, of few tries. */
static int check_recipe(struct kernel_fixture *fixture, const struct recipe *recipe,
                        struct random *random, enum orr_dtype dtype) {
    int done = 0;
    for (int i = 0; i < TRIES && done < DRAWS; i++) {
        struct call call;
        struct effect effect;
        if (!draw_call(recipe, random_bits(random), dtype, &call, &effect))
            continue;
        fixture->slack = slack_of(&call, &effect, dtype);
        kernel_check(fixture, &call);
        call_close(&call);
        done++;
    }
    return done;
}

static void every_operator_is_the_cpus(void **state) {
    static const enum orr_dtype dtypes[] = {ORR_DTYPE_F64, ORR_DTYPE_F32, ORR_DTYPE_BF16,
                                            ORR_DTYPE_F16, ORR_DTYPE_I64};
    struct random random = random_seeded();
    for (int i = 0; i < program_recipe_count(); i++) {
        const struct recipe *recipe = program_recipe(i);
        int done = 0;
        if (!orr__cuda_operator_find(recipe->op))
            continue; /* reshape */
        for (size_t j = 0; j < sizeof dtypes / sizeof dtypes[0]; j++)
            done += check_recipe(*state, recipe, &random, dtypes[j]);
        if (done == 0)
            fail_msg("%s was never drawn", recipe->op);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_kernel),
        cmocka_unit_test(a_name_that_is_no_operator_has_none),
        cmocka_unit_test_setup_teardown(every_operator_is_the_cpus, blas_setup, kernel_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
