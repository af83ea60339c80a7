/* The inputs of a framework's operator, from the line that importers make of them
 * (trace/import/operator_inputs.h): "bf16[512], bf16[141, 512], bf16[512, 512], 1, 1".
 *
 *     struct orr__inputs inputs;
 *     if (!orr__inputs_parse(op->shape, &inputs)) ...        // nothing recorded, or not of ours
 *     uint64_t rows = inputs.items[1].dims[0];
 *
 * Threads: pure functions. */
#ifndef ORR_ANALYZER_IMPORTED_INPUTS_H
#define ORR_ANALYZER_IMPORTED_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/dtype.h"

enum { ORR__INPUT_COUNT_MAX = 24, ORR__INPUT_RANK_MAX = 8 };

/* Element types as frameworks have them: bytes, and how types combine. */
struct orr__element {
    uint8_t bytes;   /* 0: not recorded, or not known here */
    uint8_t dtype;   /* enum orr_dtype, ORR_DTYPE_NONE if it is none of ours */
    bool is_float;   /* complex is not */
    bool is_integer; /* bool is not */
};

enum orr__input_kind { ORR__INPUT_VALUE, ORR__INPUT_TENSOR, ORR__INPUT_LIST };

struct orr__input {
    enum orr__input_kind kind;
    struct orr__element element; /* of a tensor, or of all tensors of a list */
    unsigned rank;
    uint64_t dims[ORR__INPUT_RANK_MAX];
    uint64_t count;    /* elements, of all tensors of a list */
    const char *value; /* borrowed, not terminated: the text of a value */
    size_t value_length;
};

struct orr__inputs {
    struct orr__input items[ORR__INPUT_COUNT_MAX];
    unsigned count; /* arguments behind the last one are not recorded */
};

/* False for a line that is empty or not understood: a shape too long, a number too large. */
bool orr__inputs_parse(const char *line, struct orr__inputs *out_inputs);

/* The tensor at a place, or NULL if there is none. */
const struct orr__input *orr__inputs_tensor(const struct orr__inputs *inputs, unsigned index);

/* Is the value at a place this word? False for "-", not recorded. */
bool orr__inputs_value_is(const struct orr__inputs *inputs, unsigned index, const char *word);
/* Is it recorded at all? */
bool orr__inputs_has_value(const struct orr__inputs *inputs, unsigned index);
/* Whole numbers of a value, "[1, 1]" or "1", at most `max`; the count, -1 if it is none. Negative
 * ones come as they are. */
int orr__inputs_numbers(const struct orr__inputs *inputs, unsigned index, int64_t *out_numbers,
                        unsigned max);

#endif
