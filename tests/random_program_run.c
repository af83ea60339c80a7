#include "tests/random_program_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/autograd.h"
#include "runtime/tensor_internal.h"

enum { WATCHED_MAX = 32 };

/* One of the two runs. */
struct execution {
    struct orr_runtime *runtime;
    const struct program *program;
    struct orr_mesh *mesh;
    bool distributed;
    bool elsewhere; /* the two runs are on different machines */
    struct outcome *outcome;
    struct orr_tensor *tensors[PROGRAM_VARIABLES_MAX];
    double *values[PROGRAM_VARIABLES_MAX];
    bool split[PROGRAM_STEPS_MAX], partial[PROGRAM_STEPS_MAX]; /* as the operator ran */
    struct orr_layout from[PROGRAM_STEPS_MAX];                 /* of a redistribution's operand */
    struct orr_gradient_tape *tape;
    int watched[WATCHED_MAX], watched_count; /* variables */
    struct orr_tensor *gradients[WATCHED_MAX];
    double *gradient_values[WATCHED_MAX];
};

__attribute__((format(printf, 2, 3))) static bool wrong(struct outcome *outcome, const char *format,
                                                        ...) {
    va_list arguments;
    va_start(arguments, format);
    if (outcome->text[0] == '\0') {
        (void)vsnprintf(outcome->text, sizeof outcome->text, format, arguments);
    }
    va_end(arguments);
    return false;
}

static bool must(struct execution *e, enum orr_status status, const char *what, int step) {
    return status == ORR_OK || wrong(e->outcome, "step %%%d, %s%s: %s: %s",
                                     step < 0 ? -1 : e->program->steps[step].first, what,
                                     e->distributed ? "" : " on one device",
                                     orr_status_text(status), orr_runtime_error(e->runtime)->text);
}

/* --- tensors --- */

static struct orr_layout layout_of(const struct execution *e, const struct orr_placement *places) {
    struct orr_layout layout = orr_layout_replicated(e->mesh);
    if (e->distributed) {
        memcpy(layout.axes, places, sizeof layout.axes);
    }
    return layout;
}

static bool make_tensor(struct execution *e, int index) {
    const struct step *step = &e->program->steps[index];
    const struct orr_operand_info *info = &e->program->variables[step->first].info;
    struct orr_layout layout = layout_of(e, step->places);
    size_t bytes = (size_t)orr_shape_count(&info->shape) * orr_dtype_size(info->dtype);
    void *zeros = calloc(bytes + 1, 1);
    enum orr_status status =
        orr_tensor_from_host(e->runtime, info, &layout, zeros, &e->tensors[step->first]);
    free(zeros);
    return must(e, status, "tensor", index);
}

/* Element `index` of a piece as an index of the whole. */
static int64_t place_of(const struct orr_shape *whole, const struct orr_shape *piece,
                        const int64_t *starts, int64_t index) {
    int64_t at = 0, stride = 1;
    for (int dim = piece->rank - 1; dim >= 0; dim--) {
        at += (index % piece->dims[dim] + starts[dim]) * stride;
        index /= piece->dims[dim];
        stride *= whole->dims[dim];
    }
    return at;
}

/* Contents, once nothing is in flight: the terms of a partial tensor are all different. */
static void fill_tensor(const struct execution *e, int index) {
    const struct step *step = &e->program->steps[index];
    const struct orr_tensor *tensor = e->tensors[step->first];
    for (uint32_t rank = 0; rank < e->mesh->size; rank++) {
        int64_t starts[ORR_RANK_MAX];
        const struct orr_shape *whole = &tensor->info.shape;
        struct orr_shape piece = orr_layout_local(&tensor->layout, whole, rank, starts);
        for (int64_t i = 0; i < orr_shape_count(&piece); i++) {
            int64_t at = place_of(whole, &piece, starts, i);
            double value = e->distributed ? program_term(e->program, step, e->mesh, rank, at)
                                          : program_value(e->program, step, at);
            orr_dtype_store(tensor->info.dtype, tensor->storage->blobs[rank].buffer->data,
                            (size_t)i, value);
        }
    }
}

static bool make_tensors(struct execution *e) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < e->program->step_count; i++) {
            const struct step *step = &e->program->steps[i];
            if (step->dropped || step->kind != STEP_TENSOR) {
                continue;
            }
            if (pass == 1) {
                fill_tensor(e, i);
            } else if (!make_tensor(e, i)) {
                return false;
            }
        }
        if (pass == 0 && !must(e, orr_runtime_finish(e->runtime), "tensors", -1)) {
            return false;
        }
    }
    return true;
}

/* --- operators --- */

static bool is_cut(const struct orr_layout *layout) {
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        if (layout->axes[i].kind != ORR_REPLICATE && layout->mesh->dims[i] > 1) {
            return true;
        }
    }
    return false;
}

static bool has_terms(const struct orr_layout *layout) {
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        if (layout->axes[i].kind == ORR_PARTIAL && layout->mesh->dims[i] > 1) {
            return true;
        }
    }
    return false;
}

/* Does the text say what was refused, and for which placements? */
static bool is_clear(struct execution *e, int index, enum orr_status status,
                     struct orr_tensor *const *inputs) {
    const struct step *step = &e->program->steps[index];
    const char *text = orr_runtime_error(e->runtime)->text;
    if (status != ORR_INVALID && status != ORR_UNSUPPORTED) {
        return must(e, status, step->op->name, index);
    }
    bool clear = strncmp(text, step->op->name, strlen(step->op->name)) == 0;
    for (int i = 0; i < step->input_count; i++) {
        char place[ORR_PLACEMENT_TEXT_MAX];
        clear &= strstr(text, orr_layout_text(orr_tensor_layout(inputs[i]), place)) != NULL;
    }
    return clear || wrong(e->outcome, "step %%%d, %s: not a clear error: %s", step->first,
                          step->op->name, text);
}

/* Applies with operands as they are, or replicated. `inputs` are then what was applied to: the
 * variables' own handles, because an operator that works in place wants a tensor with one handle,
 * but for those that had to be replicated. */
static enum orr_status apply(struct execution *e, int index, bool replicate,
                             struct orr_tensor **inputs) {
    const struct step *step = &e->program->steps[index];
    struct orr_layout layout = layout_of(e, step->places);
    bool source = step->op->class == ORR_OPERATOR_SOURCE;
    enum orr_status status = ORR_OK;
    for (int i = 0; i < step->input_count; i++) {
        struct orr_tensor *operand = e->tensors[step->inputs[i]];
        struct orr_layout whole = orr_layout_replicated(e->mesh);
        inputs[i] = operand;
        if (replicate && status == ORR_OK &&
            !orr_layout_equal(orr_tensor_layout(operand), &whole)) {
            status = orr_tensor_redistribute(operand, &whole, &inputs[i]);
            if (step->op->in_place && i == 0) { /* which wants its memory for itself */
                orr_tensor_destroy(&e->tensors[step->inputs[0]]);
            }
        }
    }
    if (replicate && source) { /* a source that may not lie there */
        layout = orr_layout_replicated(e->mesh);
    }
    struct orr_attributes attributes = step->attributes;
    int shards = orr_operator_attribute(step->op, "shards");
    if (shards >= 0 && !e->distributed) { /* of this mesh there is one axis, and nothing to cut */
        attributes.values[shards].shape.rank = 0;
    }
    if (status == ORR_OK) {
        status = orr_tensor_apply(e->runtime, step->op, inputs, step->input_count, &attributes,
                                  source ? &layout : NULL, &e->tensors[step->first]);
    }
    return status;
}

static void look_at_layouts(struct execution *e, int index, struct orr_tensor *const *inputs) {
    const struct step *step = &e->program->steps[index];
    for (int i = 0; i < step->input_count; i++) {
        e->split[index] |= is_cut(orr_tensor_layout(inputs[i]));
        e->partial[index] |= has_terms(orr_tensor_layout(inputs[i]));
    }
    for (int i = 0; i < step->results; i++) {
        e->split[index] |= is_cut(orr_tensor_layout(e->tensors[step->first + i]));
        e->partial[index] |= has_terms(orr_tensor_layout(e->tensors[step->first + i]));
    }
}

/* Lets go of operands that are not variables. */
static void release_inputs(const struct execution *e, int index, struct orr_tensor **inputs) {
    const struct step *step = &e->program->steps[index];
    for (int i = 0; i < step->input_count; i++) {
        if (inputs[i] != e->tensors[step->inputs[i]]) {
            orr_tensor_destroy(&inputs[i]);
        }
    }
}

static bool run_operator(struct execution *e, int index) {
    const struct step *step = &e->program->steps[index];
    struct orr_tensor *inputs[ORR_INPUTS_MAX];
    enum orr_status status = apply(e, index, false, inputs);
    e->outcome->operators += e->distributed;
    bool good = true;
    if (status != ORR_OK && e->distributed) {
        e->outcome->refused++;
        good = is_clear(e, index, status, inputs);
        status = apply(e, index, true, inputs);
    } else if (e->distributed) {
        look_at_layouts(e, index, inputs);
        e->outcome->split += e->split[index];
    }
    if (status == ORR_OK) {
        look_at_layouts(e, index, inputs);
    }
    good = good && must(e, status, step->op->name, index);
    release_inputs(e, index, inputs);
    return good;
}

static bool run_redistribution(struct execution *e, int index) {
    const struct step *step = &e->program->steps[index];
    struct orr_tensor *from = e->tensors[step->inputs[0]];
    struct orr_layout layout = layout_of(e, step->places);
    e->from[index] = *orr_tensor_layout(from);
    return must(e, orr_tensor_redistribute(from, &layout, &e->tensors[step->first]), "redistribute",
                index);
}

/* --- gradients --- */

static bool watch(struct execution *e) {
    if (!must(e, orr_gradient_tape_begin(e->runtime, &e->tape), "tape", -1)) {
        return false;
    }
    for (int i = 0; i < e->program->step_count && e->watched_count < WATCHED_MAX; i++) {
        const struct step *step = &e->program->steps[i];
        if (!step->dropped && step->kind == STEP_TENSOR &&
            orr_dtype_is_float(e->program->variables[step->first].info.dtype)) {
            e->watched[e->watched_count++] = step->first;
            if (!must(e, orr_gradient_tape_watch(e->tape, e->tensors[step->first]), "watch", i)) {
                return false;
            }
        }
    }
    return true;
}

/* "R or P(sum)" for R, "R" for P: the table in runtime/autograd.h. */
static bool lies_right(const struct orr_layout *tensor, const struct orr_layout *gradient) {
    for (int i = 0; i < tensor->mesh->axis_count; i++) {
        struct orr_placement a = tensor->axes[i], g = gradient->axes[i];
        bool sum = g.kind == ORR_PARTIAL && g.reduction == ORR_SUM;
        bool right = a.kind == ORR_SHARD       ? orr_placement_equal(a, g)
                     : a.kind == ORR_REPLICATE ? g.kind == ORR_REPLICATE || sum
                                               : g.kind == ORR_REPLICATE;
        if (!right && tensor->mesh->dims[i] > 1) {
            return false;
        }
    }
    return true;
}

static bool differentiate(struct execution *e) {
    struct orr_gradient_seed seed = {.tensor = e->tensors[e->program->loss], .value = 1};
    struct orr_tensor *wanted[WATCHED_MAX];
    for (int i = 0; i < e->watched_count; i++) {
        wanted[i] = e->tensors[e->watched[i]];
    }
    enum orr_status status =
        orr_gradient_from(e->tape, &seed, 1, wanted, e->watched_count, e->gradients);
    if (status == ORR_UNSUPPORTED && e->distributed) { /* uneven shards of heads, and the like */
        e->outcome->refused_gradients++;
        return true;
    }
    if (!must(e, status, "gradient", e->program->variables[e->program->loss].step)) {
        return false;
    }
    for (int i = 0; i < e->watched_count; i++) {
        char place[ORR_PLACEMENT_TEXT_MAX], gradient[ORR_PLACEMENT_TEXT_MAX];
        const struct orr_layout *of = orr_tensor_layout(wanted[i]);
        const struct orr_layout *is = orr_tensor_layout(e->gradients[i]);
        if (!lies_right(of, is)) {
            return wrong(e->outcome, "the gradient of %%%d, which is %s, is %s", e->watched[i],
                         orr_layout_text(of, place), orr_layout_text(is, gradient));
        }
    }
    return true;
}

/* --- one run --- */

static double *read_values(struct execution *e, struct orr_tensor *tensor) {
    const struct orr_operand_info *info = orr_tensor_info(tensor);
    size_t count = (size_t)orr_shape_count(&info->shape);
    size_t element = orr_dtype_size(info->dtype);
    char *data = malloc(count * element + 1);
    double *values = malloc(count * sizeof *values + 1);
    struct orr_future *future = NULL;
    enum orr_status status = orr_tensor_future(tensor, &future);
    if (status == ORR_OK) {
        status = orr_future_get(future, data, count * element);
        orr_future_destroy(&future);
    }
    if (!must(e, status, "read", -1)) {
        free(values);
        values = NULL;
    }
    for (size_t i = 0; values && i < count; i++) {
        values[i] = orr_dtype_load(info->dtype, data, i);
    }
    free(data);
    return values;
}

static bool read_all(struct execution *e) {
    bool good = true;
    for (int i = 0; i < e->program->variable_count && good; i++) {
        if (e->tensors[i] && !e->program->variables[i].spent) {
            e->values[i] = read_values(e, e->tensors[i]);
            good = e->values[i] != NULL;
        }
    }
    for (int i = 0; i < e->watched_count && good; i++) {
        if (e->gradients[i]) {
            e->gradient_values[i] = read_values(e, e->gradients[i]);
            good = e->gradient_values[i] != NULL;
        }
    }
    return good;
}

static bool execute(struct execution *e) {
    const struct program *p = e->program;
    static const char *const names[ORR_MESH_AXES_MAX] = {"a", "b", "c", "d"};
    static const int64_t one[1] = {1};
    enum orr_status status = orr_mesh_create(e->runtime, e->distributed ? p->axis_count : 1,
                                             e->distributed ? p->dims : one, names, NULL, &e->mesh);
    if (!must(e, status, "mesh", -1) || !make_tensors(e) || (p->loss >= 0 && !watch(e))) {
        return false;
    }
    for (int i = 0; i < p->step_count; i++) {
        const struct step *step = &p->steps[i];
        if ((step->kind == STEP_OPERATOR && !step->dropped && !run_operator(e, i)) ||
            (step->kind == STEP_REDISTRIBUTE && !step->dropped && !run_redistribution(e, i))) {
            return false;
        }
    }
    return (p->loss < 0 || differentiate(e)) && read_all(e);
}

static void release(struct orr_tensor **tensors, int count) {
    for (int i = 0; i < count; i++) {
        orr_tensor_destroy(&tensors[i]);
    }
}

static void end_execution(struct execution *e) {
    orr_gradient_tape_destroy(&e->tape);
    release(e->tensors, PROGRAM_VARIABLES_MAX);
    release(e->gradients, WATCHED_MAX);
    for (int i = 0; i < PROGRAM_VARIABLES_MAX; i++) {
        free(e->values[i]);
    }
    for (int i = 0; i < WATCHED_MAX; i++) {
        free(e->gradient_values[i]);
    }
}

/* --- comparing --- */

/* What a variable may differ by, and the magnitude of its terms. */
struct bound {
    double error, mass;
};

static double epsilon(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return 0x1p-52;
    case ORR_DTYPE_F32: return 0x1p-23;
    case ORR_DTYPE_F16: return 0x1p-10;
    case ORR_DTYPE_BF16: return 0x1p-7;
    case ORR_DTYPE_F8E4M3: return 0x1p-3;
    case ORR_DTYPE_F8E5M2: return 0x1p-2;
    default: return 0;
    }
}

static double magnitude(const struct variable *v) {
    return fmax(fabs(v->lo), fabs(v->hi));
}

/* Whole numbers below this are exact, and so are their sums. */
static double exact_below(enum orr_dtype dtype) {
    double eps = epsilon(dtype);
    return eps > 0 ? 1 / eps : INFINITY;
}

static struct bound bound_tensor(const struct execution *e, const struct step *step) {
    const struct variable *v = &e->program->variables[step->first];
    double ranks = e->mesh->size, mass = magnitude(v) + 12.0 * ranks * ranks; /* see term_of */
    struct orr_layout layout = layout_of(e, step->places);
    bool exact = !has_terms(&layout) || v->info.dtype == ORR_DTYPE_F64 ||
                 (v->whole && mass < exact_below(v->info.dtype));
    return (struct bound){exact ? 0 : epsilon(v->info.dtype) * ranks * mass,
                          has_terms(&layout) ? mass : magnitude(v)};
}

static struct bound bound_redistribution(const struct execution *e, int index,
                                         const struct bound *bounds) {
    const struct step *step = &e->program->steps[index];
    const struct variable *v = &e->program->variables[step->first];
    struct orr_layout to = layout_of(e, step->places);
    struct bound bound = bounds[step->inputs[0]];
    double ranks = e->mesh->size;
    bool terms = has_terms(&to) || has_terms(&e->from[index]);
    if (terms && !(v->whole && ranks * bound.mass < exact_below(v->info.dtype))) {
        bound.error += 2 * epsilon(v->info.dtype) * ranks * bound.mass;
    }
    bound.mass = has_terms(&to) ? fmax(bound.mass, magnitude(v)) : magnitude(v);
    return bound;
}

/* What two machines may make of the same operands: one rounds a term, or a function, otherwise. */
static double rounding_apart(const struct step *step, const struct variable *v,
                             const struct bound *bound) {
    enum orr_operator_class class = step->op->class;
    bool moves = class == ORR_OPERATOR_MOVE || class == ORR_OPERATOR_ALIAS;
    if (moves || (v->whole && bound->mass < exact_below(v->info.dtype))) {
        return 0;
    }
    enum { FUNCTION = 8 }; /* units in the last place: more than any function is off by */
    return epsilon(v->info.dtype) * (step->effect.terms + FUNCTION) *
           fmax(bound->mass, magnitude(v));
}

static struct bound bound_result(const struct execution *e, int index, int result,
                                 const struct bound *bounds) {
    const struct step *step = &e->program->steps[index];
    const struct effect *effect = &step->effect;
    const struct variable *v = &e->program->variables[step->first + result];
    struct bound bound = {0, effect->sums ? effect->mass : magnitude(v)};
    double terms_mass = 0, ranks = e->mesh->size;
    bool whole = effect->whole[result];
    for (int i = 0; i < step->input_count; i++) {
        const struct bound *from = &bounds[step->inputs[i]];
        bound.error += from->error > 0 ? effect->gain[i] * from->error : 0;
        terms_mass += isfinite(effect->gain[i]) ? effect->gain[i] * from->mass : 0;
        whole &= e->program->variables[step->inputs[i]].whole;
    }
    bound.mass = fmax(bound.mass, terms_mass);
    bool reordered = (effect->sums && e->split[index]) || e->partial[index];
    if (reordered && !(whole && ranks * bound.mass < exact_below(v->info.dtype))) {
        bound.error += epsilon(v->info.dtype) * (effect->terms + ranks) * bound.mass;
    }
    if (e->elsewhere) {
        bound.error += rounding_apart(step, v, &bound);
    }
    if (bound.error > 0) {
        bound.error += epsilon(v->info.dtype) * magnitude(v);
    }
    if (!e->partial[index]) {
        bound.mass = magnitude(v);
    }
    return bound;
}

static const char *maker_of(const struct program *p, int variable) {
    const struct step *step = &p->steps[p->variables[variable].step];
    return step->kind == STEP_OPERATOR       ? step->op->name
           : step->kind == STEP_REDISTRIBUTE ? "redistribute"
                                             : "tensor";
}

static double largest(const double *values, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(values[i]));
    }
    return most;
}

static bool compare_variable(struct execution *one, struct execution *many, int index,
                             const struct bound *bound) {
    const struct program *p = one->program;
    const double *a = one->values[index], *b = many->values[index];
    int64_t count = orr_shape_count(&p->variables[index].info.shape);
    struct outcome *outcome = many->outcome;
    double most = largest(a, count);
    bool vague = !(bound->error <= 0.05 * most);
    *(bound->error == 0 ? &outcome->equal : vague ? &outcome->vague : &outcome->close) += 1;
    for (int64_t i = 0; i < count; i++) {
        bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
        if (!same && !(fabs(a[i] - b[i]) <= bound->error)) {
            return wrong(outcome,
                         "%%%d (%s): element %lld is %.17g, on one device %.17g; they may differ "
                         "by %g",
                         index, maker_of(p, index), (long long)i, b[i], a[i], bound->error);
        }
    }
    return true;
}

static bool compare_all(struct execution *one, struct execution *many) {
    const struct program *p = one->program;
    struct bound bounds[PROGRAM_VARIABLES_MAX];
    for (int i = 0; i < p->step_count; i++) {
        const struct step *step = &p->steps[i];
        for (int k = 0; k < step->results && !step->dropped; k++) {
            int variable = step->first + k;
            bounds[variable] = step->kind == STEP_TENSOR ? bound_tensor(many, step)
                               : step->kind == STEP_OPERATOR
                                   ? bound_result(many, i, k, bounds)
                                   : bound_redistribution(many, i, bounds);
            if (!p->variables[variable].spent &&
                !compare_variable(one, many, variable, &bounds[variable])) {
                return false;
            }
        }
    }
    return true;
}

/* Gradients in f64: far from their rounding, near to none of what a wrong rule makes of them. */
static bool compare_gradients(struct execution *one, struct execution *many) {
    const struct program *p = one->program;
    double most = 1;
    for (int i = 0; i < one->watched_count; i++) {
        int64_t count = orr_shape_count(&p->variables[one->watched[i]].info.shape);
        most = one->gradient_values[i] ? fmax(most, largest(one->gradient_values[i], count)) : most;
    }
    for (int i = 0; i < one->watched_count; i++) {
        int64_t count = orr_shape_count(&p->variables[one->watched[i]].info.shape);
        const double *a = one->gradient_values[i], *b = many->gradient_values[i];
        many->outcome->gradients += a && b;
        for (int64_t k = 0; a && b && k < count; k++) {
            if (!(fabs(a[k] - b[k]) <= 1e-9 * most)) {
                return wrong(many->outcome,
                             "gradient of %%%d: element %lld is %.17g, on one device %.17g",
                             one->watched[i], (long long)k, b[k], a[k]);
            }
        }
    }
    return true;
}

bool program_check(const struct program_machines *machines, const struct program *program,
                   struct outcome *out_outcome) {
    *out_outcome = (struct outcome){0};
    struct execution *runs = calloc(2, sizeof *runs);
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        runs[i].runtime = i == 1 ? machines->many : machines->one;
        runs[i].elsewhere = machines->many != machines->one;
        runs[i].program = program;
        runs[i].distributed = i == 1;
        runs[i].outcome = out_outcome;
        good = execute(&runs[i]);
    }
    good = good && compare_all(&runs[0], &runs[1]) && compare_gradients(&runs[0], &runs[1]);
    end_execution(&runs[0]);
    end_execution(&runs[1]);
    free(runs);
    return good;
}

/* --- shrinking --- */

/* Drops a step and all that need it. */
static void drop(struct program *p, int index) {
    p->steps[index].dropped = true;
    for (int i = index + 1; i < p->step_count; i++) {
        for (int k = 0; k < p->steps[i].input_count; k++) {
            p->steps[i].dropped |= p->steps[p->variables[p->steps[i].inputs[k]].step].dropped;
        }
    }
    if (p->loss >= 0 && p->steps[p->variables[p->loss].step].dropped) {
        p->loss = -1;
    }
}

/* Leaves a redistribution out: what follows uses its operand as it is. */
static void bypass(struct program *p, int index) {
    const struct step *step = &p->steps[index];
    for (int i = index + 1; i < p->step_count; i++) {
        for (int k = 0; k < p->steps[i].input_count; k++) {
            if (p->steps[i].inputs[k] == step->first) {
                p->steps[i].inputs[k] = step->inputs[0];
            }
        }
    }
    p->loss = p->loss == step->first ? step->inputs[0] : p->loss;
    p->variables[step->inputs[0]].spent |= p->variables[step->first].spent;
    drop(p, index);
}

static bool still_wrong(const struct program_machines *machines, struct program *program,
                        const struct program *smaller, struct outcome *outcome) {
    static struct outcome tried;
    if (program_check(machines, smaller, &tried)) {
        return false;
    }
    *program = *smaller;
    *outcome = tried;
    return true;
}

void program_shrink(const struct program_machines *machines, struct program *program,
                    struct outcome *outcome) {
    static struct program smaller;
    for (bool progress = true; progress;) {
        progress = false;
        for (int i = program->step_count - 1; i >= 0; i--) {
            for (int way = 0; way < 2 && !program->steps[i].dropped; way++) {
                smaller = *program;
                if (way == 1 && program->steps[i].kind != STEP_REDISTRIBUTE) {
                    continue;
                }
                (way == 0 ? drop : bypass)(&smaller, i);
                progress |= still_wrong(machines, program, &smaller, outcome);
            }
        }
        for (int i = 0; i < program->step_count; i++) {
            for (int axis = 0; axis < program->axis_count; axis++) {
                if (!program->steps[i].dropped &&
                    program->steps[i].places[axis].kind != ORR_REPLICATE) {
                    smaller = *program;
                    smaller.steps[i].places[axis] = (struct orr_placement){.kind = ORR_REPLICATE};
                    progress |= still_wrong(machines, program, &smaller, outcome);
                }
            }
        }
    }
}
