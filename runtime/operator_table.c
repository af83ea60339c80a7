#include <assert.h>
#include <string.h>

#include "runtime/operator.h"
#include "runtime/operators/operators_internal.h"

/* Apart from operator.c: whoever links this file links the arithmetic of all rows. */
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
