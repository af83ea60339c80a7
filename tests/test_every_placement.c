/* Every operator of the table with every placement of its operands along an axis of two and of
 * three devices: it is refused by a message that has the operator's name, the placements given and
 * the legal ones, or it gives what one device gives.
 *
 * Shards are uneven where sizes are, and terms of partial operands are all different, so that a
 * rule that is wrong shows. ORR_TEST_SEED is the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"
#include "tests/random_program_run.h"
#include "tests/support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DRAWS = 1 };
#else
enum { DRAWS = 6 };
#endif

enum {
    ATTEMPTS = 200,
    COMBINATIONS_MAX = 2500, /* of one call; more are drawn, not counted through */
    PLACEMENTS_MAX = 1 + ORR_RANK_MAX + 4
};

/* What became of the calls of an operator. */
struct count {
    int accepted; /* with a cut or partial operand */
    int refused, uneven;
};

/* An operator with its operands, and the tensors whose placements are gone through. */
struct trial {
    struct orr_runtime *runtime;
    struct program program;
    uint64_t random;
    int tensors[ORR_INPUTS_MAX], tensor_count; /* steps */
    struct count count;
};

/* --- the operator --- */

/* The program is one operator and the tensors that it needs. */
static bool draw(struct trial *t, const struct recipe *recipe, int64_t devices, bool whole) {
    struct draft draft = {.program = &t->program, .dtype = ORR_DTYPE_F64, .whole = whole};
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        t->program =
            (struct program){.loss = -1, .axis_count = 1, .dims = {devices}, .seed = t->random};
        draft.random = random_next(&t->random);
        if (program_apply(&draft, recipe)) {
            return true;
        }
    }
    return false;
}

static struct step *operator_of(struct trial *t) {
    return &t->program.steps[t->program.step_count - 1];
}

/* Each tensor once, however many operands it is; others are left out. */
static void find_tensors(struct trial *t) {
    const struct step *step = operator_of(t);
    t->tensor_count = 0;
    for (int i = 0; i < t->program.step_count - 1; i++) {
        bool used = false;
        for (int k = 0; k < step->input_count; k++) {
            used |= t->program.variables[step->inputs[k]].step == i;
        }
        t->program.steps[i].dropped = !used;
        if (used) {
            t->tensors[t->tensor_count++] = i;
        }
    }
}

/* --- placements --- */

static const struct orr_operand_info *info_of(const struct trial *t, int step) {
    return &t->program.variables[t->program.steps[step].first].info;
}

/* R, S of every dimension, P of every reduction; numbers in a byte have no terms. */
static int placements_of(const struct orr_operand_info *info, struct orr_placement *out) {
    int count = 0;
    out[count++] = (struct orr_placement){.kind = ORR_REPLICATE};
    for (int dim = 0; dim < info->shape.rank; dim++) {
        out[count++] = (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
    }
    for (int i = 0; i < 4 && orr_dtype_size(info->dtype) > 1; i++) {
        out[count++] =
            (struct orr_placement){.kind = ORR_PARTIAL, .reduction = (enum orr_reduction)i};
    }
    return count;
}

static int64_t combinations(const struct trial *t) {
    struct orr_placement ignored[PLACEMENTS_MAX];
    int64_t count = 1;
    for (int i = 0; i < t->tensor_count; i++) {
        count *= placements_of(info_of(t, t->tensors[i]), ignored);
    }
    return count;
}

/* Places the tensors as combination number `index` says. */
static void place_tensors(struct trial *t, int64_t index) {
    for (int i = 0; i < t->tensor_count; i++) {
        struct orr_placement all[PLACEMENTS_MAX];
        int count = placements_of(info_of(t, t->tensors[i]), all);
        t->program.steps[t->tensors[i]].places[0] = all[index % count];
        index /= count;
    }
}

/* --- asking --- */

static void fail_trial(struct trial *t, const char *what) {
    static char text[PROGRAM_TEXT_MAX];
    fail_msg("%s\n%s", what, program_text(&t->program, text, sizeof text));
}

/* Operator, placements given, legal ones. */
static void check_refusal(struct trial *t, const struct orr_layout *const *layouts,
                          const char *message) {
    const struct step *step = operator_of(t);
    bool clear = strncmp(message, step->op->name, strlen(step->op->name)) == 0 &&
                 strstr(message, "legal: ") && strlen(strstr(message, "legal: ")) > 8;
    for (int i = 0; i < step->input_count; i++) {
        char place[ORR_PLACEMENT_TEXT_MAX];
        clear &= strstr(message, orr_layout_text(layouts[i], place)) != NULL;
    }
    if (!clear) {
        fail_trial(t, message);
    }
}

/* Terms of a sum that were made of terms of another reduction are no terms of anything. */
static void check_reduction(struct trial *t, const struct orr_layout *const *layouts,
                            const struct orr_layout *result) {
    bool other = false;
    for (int i = 0; i < operator_of(t)->input_count; i++) {
        const struct orr_placement *given = &layouts[i]->axes[0];
        other |= given->kind == ORR_PARTIAL && given->reduction != ORR_SUM;
    }
    if (other && result->axes[0].kind == ORR_PARTIAL && result->axes[0].reduction == ORR_SUM) {
        fail_trial(t, "a sum of what is no sum");
    }
}

static bool is_legal(struct trial *t) {
    const struct step *step = operator_of(t);
    struct orr_operand_info inputs[ORR_INPUTS_MAX], outputs[ORR_OUTPUTS_MAX];
    struct orr_layout layouts[ORR_INPUTS_MAX], result;
    const struct orr_layout *pointers[ORR_INPUTS_MAX];
    struct orr_mesh mesh;
    struct orr_error error = {0};
    program_mesh(&t->program, &mesh);
    for (int i = 0; i < step->input_count; i++) {
        const struct variable *v = &t->program.variables[step->inputs[i]];
        inputs[i] = v->info;
        layouts[i] = orr_layout_replicated(&mesh);
        layouts[i].axes[0] = t->program.steps[v->step].places[0];
        pointers[i] = &layouts[i];
    }
    for (int i = 0; i < step->results; i++) {
        outputs[i] = t->program.variables[step->first + i].info;
    }
    if (orr_placement_infer(step->op, inputs, pointers, step->input_count, &step->attributes,
                            outputs, &result, &error) == ORR_OK) {
        check_reduction(t, pointers, &result);
        return true;
    }
    check_refusal(t, pointers, error.text);
    return false;
}

static void try_combination(struct trial *t) {
    static struct outcome outcome;
    if (operator_of(t)->input_count > 0 && !is_legal(t)) {
        t->count.refused++;
        return;
    }
    const struct program_machines machines = {.one = t->runtime, .many = t->runtime};
    if (!program_check(&machines, &t->program, &outcome)) {
        fail_trial(t, outcome.text);
    }
    t->count.accepted += outcome.split;
    t->count.uneven += outcome.refused;
}

/* Cut along the same dimension, where they have it: what rules take most often. */
static void place_alike(struct trial *t, int dim) {
    for (int i = 0; i < t->tensor_count; i++) {
        struct orr_placement *place = &t->program.steps[t->tensors[i]].places[0];
        bool has = dim < info_of(t, t->tensors[i])->shape.rank;
        *place = (struct orr_placement){.kind = has ? ORR_SHARD : ORR_REPLICATE, .dim = dim};
    }
}

static void try_all(struct trial *t) {
    int64_t count = combinations(t);
    bool all = count <= COMBINATIONS_MAX;
    for (int64_t i = 0; i < (all ? count : COMBINATIONS_MAX); i++) {
        place_tensors(t, all ? i : (int64_t)random_below(&t->random, (uint64_t)count));
        try_combination(t);
    }
    for (int dim = 0; dim < ORR_RANK_MAX && !all; dim++) {
        place_alike(t, dim);
        try_combination(t);
    }
}

/* A source has no operands: it goes through its own placements. */
static void try_source(struct trial *t) {
    struct step *step = operator_of(t);
    struct orr_placement all[PLACEMENTS_MAX];
    int count = placements_of(&t->program.variables[step->first].info, all);
    for (int i = 0; i < count; i++) {
        step->places[0] = all[i];
        try_combination(t);
    }
}

/* --- the table --- */

static struct orr_runtime *open_runtime(struct memory_counting *memory,
                                        struct orr_device_spec *specs) {
    struct orr_runtime *runtime;
    struct orr_error error;
    memory_counting_init(memory, 0);
    for (int i = 0; i < 3; i++) {
        specs[i] = spec_for_tests();
    }
    struct orr_runtime_config config = {
        .memory = &memory->table, .open = orr_sim_open, .specs = specs, .device_count = 3};
    assert_int_equal(orr_runtime_create(&config, &runtime, &error), ORR_OK);
    return runtime;
}

static void try_operator(struct trial *t, const struct recipe *recipe) {
    t->count = (struct count){0};
    /* Further ones while there were only scalars, which nothing can be done with. */
    for (int i = 0; i < DRAWS || (i < DRAWS + 20 && t->count.accepted == 0); i++) {
        for (int64_t devices = 2; devices <= 3; devices++) {
            struct memory_counting memory;
            struct orr_device_spec specs[3];
            if (!draw(t, recipe, devices, i % 2 == 1) && !draw(t, recipe, devices, false)) {
                fail_msg("no call of %s was found", recipe->op);
            }
            t->runtime = open_runtime(&memory, specs);
            find_tensors(t);
            (operator_of(t)->op->class == ORR_OPERATOR_SOURCE ? try_source : try_all)(t);
            assert_int_equal(orr_runtime_finish(t->runtime), ORR_OK);
            orr_runtime_destroy(&t->runtime);
            assert_int_equal(memory.live, 0);
        }
    }
}

static void every_operator_takes_placements_rightly_or_refuses_them_clearly(void **state) {
    (void)state;
    static struct trial trial;
    struct count sum = {0};
    trial.random = random_seed(1);
    for (int i = 0; i < program_recipe_count(); i++) {
        try_operator(&trial, program_recipe(i));
        sum.accepted += trial.count.accepted;
        sum.refused += trial.count.refused;
        sum.uneven += trial.count.uneven;
        if (trial.count.accepted == 0) {
            fail_msg("%s took no sharded operand", program_recipe(i)->op);
        }
    }
    print_message("# %d operators: %d accepted, %d of them refused for uneven shards; %d refused\n",
                  program_recipe_count(), sum.accepted + sum.uneven, sum.uneven, sum.refused);
    assert_true(sum.accepted > 20 * program_recipe_count() * DRAWS / 6);
    assert_true(sum.refused > sum.accepted);
}

static void every_operator_has_a_recipe(void **state) {
    (void)state;
    for (int i = 0; i < orr_operator_count(); i++) {
        bool found = false;
        for (int k = 0; k < program_recipe_count(); k++) {
            found |= strcmp(program_recipe(k)->op, orr_operator_at(i)->name) == 0;
        }
        if (!found) {
            fail_msg("no recipe for %s in tests/random_program_recipes.c or _models.c",
                     orr_operator_at(i)->name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_recipe),
        cmocka_unit_test(every_operator_takes_placements_rightly_or_refuses_them_clearly),
    };
    return cmocka_run_group_tests_name("every placement", tests, NULL, NULL);
}
