#include "runtime/operator.h"

#include <assert.h>
#include <string.h>

#include "runtime/operators/operators_internal.h"

static const struct orr_operator *const table[] = {
#define TABLE_ROW(name) &orr__operator_##name,
    ORR__OPERATOR_LIST(TABLE_ROW)
#undef TABLE_ROW
};

int orr_operator_count(void) {
    return (int)(sizeof table / sizeof table[0]);
}

const struct orr_operator *orr_operator_at(int index) {
    assert(index >= 0 && index < orr_operator_count());
    return table[index];
}

const struct orr_operator *orr_operator_find(const char *name) {
    for (int i = 0; i < orr_operator_count(); i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

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
