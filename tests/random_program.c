/* Drawing programs, and what can be said about one without running it: its numbers and its text. */
#include "tests/random_program.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/random_numbers.h"

enum { TRIES = 40 };

static int64_t below(struct draft *d, int64_t bound) {
    return (int64_t)random_below(&d->random, (uint64_t)bound);
}

static bool percent(struct draft *d, int64_t share) {
    return below(d, 100) < share;
}

/* --- numbers --- */

static uint64_t mixed(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

/* In [-1, 1), in steps of 2^-20: sums of a few are exact in f32. */
static double fraction(uint64_t hash) {
    return (double)(int64_t)(hash >> 43) / (double)(1 << 20) - 1;
}

double program_value(const struct program *program, const struct step *step, int64_t index) {
    (void)program;
    uint64_t hash = mixed(step->seed, (uint64_t)index);
    switch (step->domain) {
    case DOMAIN_WHOLE: return (double)(hash % 7) - 3;
    case DOMAIN_INDEX: return (double)(hash % (uint64_t)step->bound) + (double)step->base;
    case DOMAIN_DISTINCT:
        return (double)((step->seed % 97 + (uint64_t)index) % (uint64_t)step->bound) +
               (double)step->base;
    case DOMAIN_POSITIVE: return 1.25 + fraction(hash) * 0.75;
    case DOMAIN_UNIT: return fraction(hash) * 0.875;
    case DOMAIN_SMOOTH: break;
    }
    return fraction(hash);
}

static bool is_whole(enum domain domain) {
    return domain == DOMAIN_WHOLE || domain == DOMAIN_INDEX || domain == DOMAIN_DISTINCT;
}

/* The term of `whole` that coordinate `at` of `count` has. Whole numbers stay so in any order of
 * averaging: they are `ranks`, or several times as much, away. */
static double term_of(enum orr_reduction reduction, bool integers, double whole, uint64_t hash,
                      int64_t count, int64_t at, int64_t ranks) {
    double own = 0, others = 0;
    int64_t unit = reduction == ORR_AVG ? ranks : 1;
    for (int64_t i = 0; i < count - 1; i++) {
        uint64_t h = mixed(hash, (uint64_t)i + 17);
        double term = integers ? ((double)(h % 7) - 3) * (double)unit : fraction(h);
        others += term;
        own = i == at ? term : own;
    }
    bool last = at == count - 1;
    if (reduction == ORR_SUM) {
        return last ? whole - others : own;
    }
    if (reduction == ORR_AVG) {
        return whole + (last ? -others : own);
    }
    uint64_t h = mixed(hash, (uint64_t)at + 71);
    double away = integers ? (double)(h % 4) : fabs(fraction(h));
    away = (int64_t)(hash % (uint64_t)count) == at ? 0 : away; /* one of them is the extreme */
    return reduction == ORR_MAX ? whole - away : whole + away;
}

double program_term(const struct program *program, const struct step *step,
                    const struct orr_mesh *mesh, uint32_t rank, int64_t index) {
    double value = program_value(program, step, index);
    uint64_t path = mixed(step->seed + 1, (uint64_t)index);
    for (int axis = 0; axis < mesh->axis_count; axis++) {
        if (step->places[axis].kind == ORR_PARTIAL) {
            int64_t at = orr_mesh_coordinate(mesh, rank, axis);
            value = term_of(step->places[axis].reduction, is_whole(step->domain), value, path,
                            mesh->dims[axis], at, mesh->size);
            path = mixed(path, (uint64_t)at);
        }
    }
    return value;
}

/* --- drawing --- */

void program_mesh(const struct program *program, struct orr_mesh *out_mesh) {
    *out_mesh = (struct orr_mesh){.axis_count = program->axis_count, .size = 1};
    for (int i = 0; i < program->axis_count; i++) {
        out_mesh->dims[i] = program->dims[i];
        out_mesh->size *= (uint32_t)program->dims[i];
        out_mesh->names[i][0] = (char)('a' + i);
    }
}

static void draw_mesh(struct draft *d, int devices) {
    struct program *p = d->program;
    p->axis_count = 1 + (int)below(d, 3) + (int)below(d, 2);
    for (;;) {
        int64_t size = 1;
        for (int i = 0; i < p->axis_count; i++) {
            p->dims[i] = 1 + below(d, p->axis_count > 2 ? 3 : percent(d, 20) ? 8 : 4);
            size *= p->dims[i];
        }
        if (size <= devices && (size > 1 || percent(d, 5))) {
            return;
        }
    }
}

static struct orr_placement draw_placement(struct draft *d, int rank, int partial_percent) {
    if (percent(d, partial_percent)) {
        return (struct orr_placement){
            .kind = ORR_PARTIAL,
            .reduction = percent(d, 50) ? ORR_SUM : (enum orr_reduction)below(d, 4)};
    }
    if (rank > 0 && percent(d, 60)) {
        return (struct orr_placement){.kind = ORR_SHARD, .dim = (int32_t)below(d, rank)};
    }
    return (struct orr_placement){.kind = ORR_REPLICATE};
}

/* Terms of numbers in a byte have no room, and no collective adds them. */
static int partial_percent(enum orr_dtype dtype, int usual) {
    return orr_dtype_size(dtype) > 1 ? usual : 0;
}

static void draw_places(struct draft *d, int rank, int partial_percent,
                        struct orr_placement *places) {
    for (int i = 0; i < d->program->axis_count; i++) {
        places[i] = draw_placement(d, rank, partial_percent);
    }
}

/* Appends a step; its results are the caller's to fill. NULL without room. */
static struct step *append(struct program *p, const struct step *step, int results) {
    if (p->step_count == PROGRAM_STEPS_MAX || p->variable_count + results > PROGRAM_VARIABLES_MAX) {
        return NULL;
    }
    struct step *at = &p->steps[p->step_count++];
    *at = *step;
    at->first = p->variable_count;
    at->results = results;
    for (int i = 0; i < results; i++) {
        p->variables[p->variable_count++] =
            (struct variable){.step = p->step_count - 1, .result = i};
    }
    return at;
}

int program_tensor(struct draft *d, enum orr_dtype dtype, const struct orr_shape *shape,
                   enum domain domain, int64_t bound) {
    struct step step = {.kind = STEP_TENSOR, .domain = domain, .bound = bound};
    step.seed = random_next(&d->random);
    if (!orr_dtype_is_float(dtype) && !is_whole(domain)) {
        step.domain = DOMAIN_WHOLE;
    }
    draw_places(d, shape->rank, partial_percent(dtype, 20), step.places);
    const struct step *made = append(d->program, &step, 1);
    if (!made) {
        return -1;
    }
    struct variable *v = &d->program->variables[made->first];
    v->info = (struct orr_operand_info){dtype, *shape};
    v->whole = is_whole(step.domain);
    v->lo = step.domain == DOMAIN_POSITIVE ? 0.5 : step.domain == DOMAIN_WHOLE ? -3 : -1;
    v->hi = step.domain == DOMAIN_POSITIVE ? 2 : step.domain == DOMAIN_WHOLE ? 3 : 1;
    if (step.domain == DOMAIN_INDEX || step.domain == DOMAIN_DISTINCT) {
        v->lo = 0;
        v->hi = (double)bound - 1;
    }
    memcpy(v->places, step.places, sizeof v->places);
    return made->first;
}

/* Another placement of a variable; returns the new variable, or -1 without room. */
static int redistribute(struct draft *d, int from, const struct orr_placement *places) {
    struct step step = {.kind = STEP_REDISTRIBUTE, .inputs = {from}, .input_count = 1};
    memcpy(step.places, places, sizeof step.places);
    const struct step *made = append(d->program, &step, 1);
    if (!made) {
        return -1;
    }
    struct variable *v = &d->program->variables[made->first];
    const struct variable *source = &d->program->variables[from];
    v->info = source->info;
    v->lo = source->lo;
    v->hi = source->hi;
    v->whole = source->whole;
    memcpy(v->places, places, sizeof v->places);
    return made->first;
}

/* --- placements that an operator takes --- */

/* A call of an operator on part of the mesh: what orr_placement_infer is asked. */
struct call {
    const struct step *step;
    struct orr_operand_info inputs[ORR_INPUTS_MAX], outputs[ORR_OUTPUTS_MAX];
    struct orr_layout layouts[ORR_INPUTS_MAX];
};

static bool is_legal(const struct call *call, struct orr_layout *out_layout) {
    const struct orr_layout *pointers[ORR_INPUTS_MAX];
    struct orr_error error = {0};
    for (int i = 0; i < call->step->input_count; i++) {
        pointers[i] = &call->layouts[i];
    }
    return orr_placement_infer(call->step->op, call->inputs, pointers, call->step->input_count,
                               &call->step->attributes, call->outputs, out_layout,
                               &error) == ORR_OK;
}

/* One guess of what the rule wants along an axis, for all operands. */
static void guess(struct draft *d, const struct call *call, struct orr_placement *places) {
    int count = call->step->input_count, first = (int)below(d, count);
    int pattern = (int)below(d, 4);
    for (int i = 0; i < count; i++) {
        int rank = call->inputs[i].shape.rank;
        int partial = partial_percent(call->inputs[i].dtype, 25);
        struct orr_placement replicate = {.kind = ORR_REPLICATE};
        places[i] = pattern == 0 || i == first ? draw_placement(d, rank, partial) : replicate;
        if (pattern == 1 && i > 0) { /* alike, counted from the front */
            places[i] =
                places[0].kind == ORR_SHARD && places[0].dim >= rank ? replicate : places[0];
        } else if (pattern == 1) {
            places[i] = draw_placement(d, rank, partial);
        } else if (pattern == 2 && i > 0 && places[0].kind == ORR_SHARD) { /* from the back */
            places[i] = places[0];
            places[i].dim += rank - call->inputs[0].shape.rank;
            places[i] = places[i].dim < 0 ? replicate : places[i];
        }
    }
}

/* Legal placements along one axis: cut or partial ones if some are found soon. */
static void steer_axis(struct draft *d, const struct call *call, int axis,
                       struct orr_placement *out_places) {
    struct orr_mesh line = {.axis_count = 1,
                            .size = (uint32_t)d->program->dims[axis],
                            .dims = {d->program->dims[axis]},
                            .names = {"a"}};
    struct call along = *call;
    struct orr_layout ignored;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        bool replicated = true;
        guess(d, call, out_places);
        for (int i = 0; i < call->step->input_count; i++) {
            along.layouts[i] = orr_layout_replicated(&line);
            along.layouts[i].axes[0] = out_places[i];
            replicated &= out_places[i].kind == ORR_REPLICATE;
        }
        if (!replicated && is_legal(&along, &ignored)) {
            return;
        }
    }
    for (int i = 0; i < call->step->input_count; i++) {
        out_places[i] = (struct orr_placement){.kind = ORR_REPLICATE};
    }
}

/* Is it a new tensor that nothing else uses? Then it can be made where it is wanted. */
static bool can_be_made_there(const struct program *p, const struct step *step, int operand,
                              int first_new) {
    int variable = step->inputs[operand];
    if (variable < first_new || p->steps[p->variables[variable].step].kind != STEP_TENSOR) {
        return false;
    }
    for (int i = 0; i < step->input_count; i++) {
        if (i != operand && step->inputs[i] == variable) {
            return false;
        }
    }
    return true;
}

/* Puts operands where the operator takes them. False without room. */
static bool steer(struct draft *d, struct call *call, struct step *step, int first_new) {
    struct program *p = d->program;
    struct orr_placement wanted[ORR_INPUTS_MAX][ORR_MESH_AXES_MAX] = {0};
    for (int axis = 0; axis < p->axis_count; axis++) {
        struct orr_placement along[ORR_INPUTS_MAX];
        steer_axis(d, call, axis, along);
        for (int i = 0; i < step->input_count; i++) {
            wanted[i][axis] = along[i];
        }
    }
    for (int i = 0; i < step->input_count; i++) {
        bool same = true;
        for (int axis = 0; axis < p->axis_count; axis++) {
            same &= orr_placement_equal(wanted[i][axis], call->layouts[i].axes[axis]);
        }
        if (same) {
            continue;
        }
        if (can_be_made_there(p, step, i, first_new)) {
            struct variable *v = &p->variables[step->inputs[i]];
            memcpy(v->places, wanted[i], sizeof v->places);
            memcpy(p->steps[v->step].places, wanted[i], sizeof v->places);
        } else {
            step->inputs[i] = redistribute(d, step->inputs[i], wanted[i]);
            if (step->inputs[i] < 0) {
                return false;
            }
        }
        memcpy(call->layouts[i].axes, wanted[i], sizeof wanted[i]);
    }
    return true;
}

/* Magnitudes up to which a dtype is exact for whole numbers, or well away from its end. */
static double most_of(enum orr_dtype dtype, bool whole) {
    switch (dtype) {
    case ORR_DTYPE_F64:
    case ORR_DTYPE_I64: return whole ? 0x1p48 : 1e4;
    case ORR_DTYPE_F32: return whole ? 0x1p22 : 1e4;
    case ORR_DTYPE_I32: return 0x1p28;
    case ORR_DTYPE_F16: return whole ? 0x1p10 : 1e4;
    case ORR_DTYPE_BF16: return whole ? 0x1p7 : 1e4;
    case ORR_DTYPE_I8: return 127;
    case ORR_DTYPE_F8E4M3: return 448;
    case ORR_DTYPE_F8E5M2: return 57344;
    default: return 1;
    }
}

static void fill_call(struct draft *d, struct orr_mesh *mesh, const struct step *step,
                      struct call *call) {
    call->step = step;
    for (int i = 0; i < step->input_count; i++) {
        const struct variable *v = &d->program->variables[step->inputs[i]];
        call->inputs[i] = v->info;
        call->layouts[i] = orr_layout_replicated(mesh);
        memcpy(call->layouts[i].axes, v->places, sizeof v->places);
    }
}

bool program_apply(struct draft *d, const struct recipe *recipe) {
    struct program *p = d->program;
    struct step step = {.kind = STEP_OPERATOR, .op = orr_operator_find(recipe->op)};
    struct orr_mesh mesh;
    static struct call call;
    struct orr_error error = {0};
    int first_new = p->variable_count;
    program_mesh(p, &mesh);
    orr_operator_defaults(step.op, &step.attributes);
    if (!recipe->draw(d, &step)) {
        return false;
    }
    fill_call(d, &mesh, &step, &call);
    if (step.op->infer(call.inputs, step.input_count, &step.attributes, call.outputs, &error) !=
        ORR_OK) {
        return false;
    }
    for (int i = 0; i < step.op->outputs; i++) {
        double size = fmax(fabs(step.effect.lo[i]), fabs(step.effect.hi[i]));
        if (size > most_of(call.outputs[i].dtype, step.effect.whole[i])) {
            return false;
        }
    }
    struct orr_layout out = orr_layout_replicated(&mesh);
    if (step.op->class == ORR_OPERATOR_SOURCE) {
        draw_places(d, call.outputs[0].shape.rank, 3, step.places);
        memcpy(out.axes, step.places, sizeof step.places);
    } else {
        bool legal = is_legal(&call, &out);
        if (d->steers && (legal ? percent(d, 30) : percent(d, 85)) &&
            !steer(d, &call, &step, first_new)) {
            return false;
        }
        if (!is_legal(&call, &out)) {
            out = orr_layout_replicated(&mesh);
        }
    }
    const struct step *made = append(p, &step, step.op->outputs);
    if (made && step.op->in_place) {
        p->variables[step.inputs[0]].spent = true;
    }
    for (int i = 0; made && i < step.op->outputs; i++) {
        struct variable *v = &p->variables[made->first + i];
        v->info = call.outputs[i];
        v->lo = step.effect.lo[i];
        v->hi = step.effect.hi[i];
        v->whole = step.effect.whole[i];
        memcpy(v->places, out.axes, sizeof v->places);
    }
    return made != NULL;
}

static const struct recipe *draw_recipe(struct draft *d) {
    int total = 0;
    for (int i = 0; i < program_recipe_count(); i++) {
        total += program_recipe(i)->weight;
    }
    int64_t at = below(d, total);
    int index = 0;
    while (at >= program_recipe(index)->weight) {
        at -= program_recipe(index++)->weight;
    }
    return program_recipe(index);
}

static void draw_redistribution(struct draft *d) {
    const struct program *p = d->program;
    if (p->variable_count > 0) {
        int from = (int)below(d, p->variable_count);
        if (p->variables[from].spent) {
            return;
        }
        struct orr_placement places[ORR_MESH_AXES_MAX] = {0};
        const struct orr_operand_info *info = &p->variables[from].info;
        draw_places(d, info->shape.rank, partial_percent(info->dtype, 25), places);
        (void)redistribute(d, from, places);
    }
}

/* The last variable of floats that is made of a tensor of floats. */
static int draw_loss(const struct program *p) {
    bool depends[PROGRAM_VARIABLES_MAX] = {false};
    int loss = -1;
    for (int i = 0; i < p->variable_count; i++) {
        const struct step *step = &p->steps[p->variables[i].step];
        depends[i] = step->kind == STEP_TENSOR;
        for (int k = 0; k < step->input_count; k++) {
            depends[i] |= depends[step->inputs[k]];
        }
        depends[i] &= orr_dtype_is_float(p->variables[i].info.dtype) != 0;
        loss = depends[i] && step->kind == STEP_OPERATOR ? i : loss;
    }
    return loss;
}

void program_draw(struct program *program, uint64_t seed, const struct program_options *options) {
    struct draft d = {.program = program, .random = mixed(seed, 1) | 1, .steers = true};
    d.gradients = options->gradients;
    *program = (struct program){.seed = seed, .loss = -1};
    draw_mesh(&d, options->devices);
    d.whole = !d.gradients && percent(&d, 40);
    d.dtype = d.gradients || percent(&d, 60) ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
    if (d.whole && percent(&d, 20)) {
        d.dtype = percent(&d, 50) ? ORR_DTYPE_I64 : ORR_DTYPE_I32;
    }
    for (int i = 0, attempts = 0; i < options->operators && attempts < 8 * options->operators;
         attempts++) {
        const struct recipe *recipe = draw_recipe(&d);
        if (d.gradients && !recipe->smooth) {
            continue;
        }
        i += program_apply(&d, recipe);
        if (percent(&d, 15)) {
            draw_redistribution(&d);
        }
    }
    program->loss = d.gradients ? draw_loss(program) : -1;
}

/* --- text --- */

struct writer {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(w->at, w->left, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < w->left ? (size_t)length : w->left - 1;
    w->at += used;
    w->left -= used;
}

static void put_places(struct writer *w, const struct program *p,
                       const struct orr_placement *places) {
    struct orr_mesh mesh;
    struct orr_layout layout;
    char text[ORR_PLACEMENT_TEXT_MAX];
    program_mesh(p, &mesh);
    layout = orr_layout_replicated(&mesh);
    memcpy(layout.axes, places, sizeof layout.axes);
    put(w, "%s", orr_layout_text(&layout, text));
}

static void put_attributes(struct writer *w, const struct step *step) {
    struct orr_attributes usual;
    char text[ORR_SHAPE_TEXT_MAX];
    orr_operator_defaults(step->op, &usual);
    for (int i = 0; i < ORR_ATTRIBUTES_MAX && step->op->attributes[i].name; i++) {
        const struct orr_attribute_spec *spec = &step->op->attributes[i];
        const struct orr_attribute *value = &step->attributes.values[i];
        bool integer = spec->kind != ORR_ATTRIBUTE_REAL && spec->kind != ORR_ATTRIBUTE_SHAPE;
        if (spec->kind == ORR_ATTRIBUTE_SHAPE && value->shape.rank > 0) {
            put(w, ", %s = %s", spec->name, orr_shape_text(&value->shape, text));
        } else if (spec->kind == ORR_ATTRIBUTE_DTYPE) {
            put(w, ", %s = %s", spec->name, orr_dtype_name((enum orr_dtype)value->integer));
        } else if (integer && value->integer != usual.values[i].integer) {
            put(w, ", %s = %lld", spec->name, (long long)value->integer);
        } else if (spec->kind == ORR_ATTRIBUTE_REAL && value->real != usual.values[i].real) {
            put(w, ", %s = %g", spec->name, value->real);
        }
    }
}

static void put_results(struct writer *w, const struct program *p, const struct step *step) {
    char text[ORR_SHAPE_TEXT_MAX];
    for (int i = 0; i < step->results; i++) {
        put(w, "%s%%%d", i ? ", " : "  ", step->first + i);
    }
    put(w, " = ");
    if (step->kind != STEP_REDISTRIBUTE) {
        const struct orr_operand_info *info = &p->variables[step->first].info;
        put(w, "%s %s ", orr_dtype_name(info->dtype), orr_shape_text(&info->shape, text));
    }
}

const char *program_text(const struct program *p, char *buffer, size_t size) {
    static const char *const domains[] = {"smooth", "whole", "positive",
                                          "index",  "unit",  "distinct"};
    struct writer w = {buffer, size};
    struct orr_mesh mesh;
    program_mesh(p, &mesh);
    struct orr_shape grid = orr_shape_of(p->axis_count, p->dims);
    char text[ORR_SHAPE_TEXT_MAX];
    put(&w, "seed %llu, mesh %s\n", (unsigned long long)p->seed, orr_shape_text(&grid, text));
    for (int i = 0; i < p->step_count; i++) {
        const struct step *step = &p->steps[i];
        if (step->dropped) {
            continue;
        }
        put_results(&w, p, step);
        put(&w, "%s(",
            step->kind == STEP_TENSOR     ? "tensor"
            : step->kind == STEP_OPERATOR ? step->op->name
                                          : "redistribute");
        for (int k = 0; k < step->input_count; k++) {
            put(&w, "%s%%%d", k ? ", " : "", step->inputs[k]);
        }
        if (step->kind == STEP_OPERATOR) {
            put_attributes(&w, step);
        } else if (step->kind == STEP_TENSOR) {
            put(&w, "%s", domains[step->domain]);
        }
        put(&w, ")");
        if (step->kind != STEP_OPERATOR || step->op->class == ORR_OPERATOR_SOURCE) {
            put(&w, " at ");
            put_places(&w, p, step->places);
        }
        put(&w, "\n");
    }
    if (p->loss >= 0) {
        put(&w, "  gradients of the sum of %%%d\n", p->loss);
    }
    return buffer;
}
