/* Runs a random program twice, on a mesh of one device and on its own mesh, and compares. The two
 * may be on different machines: one whose numbers are known, and one whose numbers are in question.
 *
 * Where the distributed run refuses an operator, the refusal must be clear: ORR_INVALID or
 * ORR_UNSUPPORTED with the operator's name and the operands' placements. The operands are then
 * replicated and the program goes on, so that what follows is tested too.
 *
 *     const struct program_machines machines = {.one = runtime, .many = runtime};
 *     struct outcome outcome;
 *     if (!program_check(&machines, &program, &outcome)) {
 *         program_shrink(&machines, &program, &outcome);
 *         puts(outcome.text);
 *     }
 *
 * Threads: as the runtime. */
#ifndef ORR_TESTS_RANDOM_PROGRAM_RUN_H
#define ORR_TESTS_RANDOM_PROGRAM_RUN_H

#include "runtime/tensor.h"
#include "tests/random_program.h"

enum { OUTCOME_TEXT_MAX = 2048 };

struct outcome {
    char text[OUTCOME_TEXT_MAX]; /* what is wrong; "" if nothing is */
    int operators, refused;      /* of the distributed run */
    int split;               /* operators that had a cut or partial operand, and were accepted */
    int equal, close, vague; /* results compared: exactly, within an error, hardly */
    int gradients, refused_gradients;
};

/* Where the two runs take place. If they are different machines, each operator's results may also
 * differ by what its terms and functions are rounded to; gradients are not to be asked for then. */
struct program_machines {
    struct orr_runtime *one, *many;
};

/* True if both runs agree and refusals are clear. */
bool program_check(const struct program_machines *machines, const struct program *program,
                   struct outcome *out_outcome);

/* Drops steps as long as something is still wrong; `outcome` becomes that of what is left. */
void program_shrink(const struct program_machines *machines, struct program *program,
                    struct outcome *outcome);

#endif
