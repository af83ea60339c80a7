#include "runtime/operator.h"

#include <assert.h>
#include <string.h>

void orr_operator_defaults(const struct orr_operator *op, struct orr_attributes *out_attributes) {
    memset(out_attributes, 0, sizeof *out_attributes);
    for (int i = 0; op->attributes[i].name; i++) {
        assert(i < ORR_ATTRIBUTES_MAX);
        if (op->attributes[i].required)
            continue;
        out_attributes->values[i].integer = op->attributes[i].integer;
        out_attributes->values[i].real = op->attributes[i].real;
    }
}

int orr_operator_attribute(const struct orr_operator *op, const char *name) {
    for (int i = 0; op->attributes[i].name; i++)
        if (strcmp(op->attributes[i].name, name) == 0)
            return i;
    return -1;
}
