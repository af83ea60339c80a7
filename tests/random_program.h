/* Random tensor programs: drawn from a seed, run on a mesh, printed as text.
 *
 * A program is a list of steps over variables. Steps make a tensor from numbers, apply an operator
 * of the table, or redistribute. The generator keeps an interval for every variable and, for every
 * operator, how much it can enlarge an error of its operands, so that whoever runs the program
 * twice knows by how much rounding may part the two results, and where it may not at all:
 *
 *     step      error of its result
 *     tensor    0, but for a sum or average of terms that are no whole numbers
 *     operator  sum over operands of gain * error; if it sums what several ranks have, or works on
 *               partial terms, eps * (terms summed + ranks) * (sum of their magnitudes) besides
 *     whole numbers that stay below what the dtype holds exactly: 0
 *
 * An error of 0 means equal values, element by element.
 *
 *     struct program program;
 *     program_draw(&program, seed, &options);
 *     puts(program_text(&program, text, sizeof text));
 *
 * Threads: pure functions of their arguments. */
#ifndef ORR_TESTS_RANDOM_PROGRAM_H
#define ORR_TESTS_RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/placement.h"

enum {
    PROGRAM_STEPS_MAX = 96,
    PROGRAM_VARIABLES_MAX = 160,
    PROGRAM_DEVICES_MAX = 16,
    PROGRAM_TEXT_MAX = 1 << 15
};

/* What numbers a tensor is filled with. */
enum domain {
    DOMAIN_SMOOTH,   /* [-1, 1) */
    DOMAIN_WHOLE,    /* -3 .. 3 */
    DOMAIN_POSITIVE, /* [0.5, 2) */
    DOMAIN_INDEX,    /* 0 .. bound - 1 */
    DOMAIN_UNIT,     /* [-0.9, 0.9) */
    DOMAIN_DISTINCT  /* 0 .. bound - 1, each at most once */
};

/* What is known about the results of an operator before it runs. */
struct effect {
    double lo[ORR_OUTPUTS_MAX], hi[ORR_OUTPUTS_MAX]; /* every element is within */
    bool whole[ORR_OUTPUTS_MAX];                     /* whole numbers of whole operands */
    double gain[ORR_INPUTS_MAX]; /* error of a result for an error of 1 of the operand */
    bool sums;                   /* along dimensions that may be cut */
    double terms, mass;          /* of each sum: how many, and the sum of their magnitudes */
};

struct variable {
    struct orr_operand_info info;
    double lo, hi;
    bool whole;
    int step, result; /* who makes it, and which of its results it is */
    bool spent;       /* an operator changes it in place: nobody can use it again */
    struct orr_placement places[ORR_MESH_AXES_MAX]; /* where it will be unless it is refused */
};

enum step_kind { STEP_TENSOR, STEP_OPERATOR, STEP_REDISTRIBUTE };

struct step {
    enum step_kind kind;
    const struct orr_operator *op;
    struct orr_attributes attributes;
    int inputs[ORR_INPUTS_MAX], input_count;
    int first, results;                             /* variables */
    struct orr_placement places[ORR_MESH_AXES_MAX]; /* TENSOR, sources, REDISTRIBUTE */
    enum domain domain;                             /* TENSOR */
    int64_t bound, base;                            /* DOMAIN_INDEX and DISTINCT: from `base` on */
    uint64_t seed;                                  /* TENSOR: of its numbers and terms */
    bool dropped;                                   /* left out by shrinking */
    struct effect effect;
};

struct program {
    uint64_t seed;
    int axis_count;
    int64_t dims[ORR_MESH_AXES_MAX];
    int step_count, variable_count;
    struct step steps[PROGRAM_STEPS_MAX];
    struct variable variables[PROGRAM_VARIABLES_MAX];
    int loss; /* variable whose elements' sum is differentiated; -1: none */
};

struct program_options {
    int devices;    /* at most so many ranks */
    int operators;  /* so many, and their operands */
    bool gradients; /* floats of f64 and differentiable operators, and a loss */
};

void program_draw(struct program *program, uint64_t seed, const struct program_options *options);

/* The mesh's shape without a runtime, for asking about placements. */
void program_mesh(const struct program *program, struct orr_mesh *out_mesh);

/* Readable, one line a step, cut off at `size`; returns `buffer`. Dropped steps are left out. */
const char *program_text(const struct program *program, char *buffer, size_t size);

/* Element `index` of a tensor made by a step, the same whatever its placements are. */
double program_value(const struct program *program, const struct step *step, int64_t index);
/* The term of it that a rank has under the step's placements. */
double program_term(const struct program *program, const struct step *step,
                    const struct orr_mesh *mesh, uint32_t rank, int64_t index);

/* --- for the generator's two files --- */

/* A program in the making. */
struct draft {
    struct program *program;
    uint64_t random;
    enum orr_dtype dtype;
    bool whole, gradients;
    bool steers; /* puts operands where operators take them, mostly */
};

/* Draws an operator with its operands, appended to the program; false: nothing that fits was found,
 * and nothing was appended but perhaps tensors. */
struct recipe {
    const char *op;
    int weight; /* how often, relative to others */
    bool (*draw)(struct draft *draft, struct step *step);
    bool smooth; /* may be differentiated; a gradient that jumps does so where few numbers are */
};
const struct recipe *program_recipe(int index);
int program_recipe_count(void);
/* Those of language models, images and serving, which are among them. */
const struct recipe *program_model_recipe(int index);
int program_model_recipe_count(void);

/* Uses a recipe: its operands, its effect, its results; false if the recipe found nothing. */
bool program_apply(struct draft *draft, const struct recipe *recipe);
/* A new tensor; returns its variable, or -1 without room. */
int program_tensor(struct draft *draft, enum orr_dtype dtype, const struct orr_shape *shape,
                   enum domain domain, int64_t bound);

#endif
