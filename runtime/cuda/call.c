#include "runtime/cuda/call.h"

#include <assert.h>

static const struct orr_attribute *attribute_of(const struct orr_task_operator *call,
                                                const char *attribute) {
    int index = orr_operator_attribute(call->op, attribute);
    assert(index >= 0);
    return &call->attributes->values[index];
}

int64_t orr__call_integer(const struct orr_task_operator *call, const char *attribute) {
    return attribute_of(call, attribute)->integer;
}

double orr__call_real(const struct orr_task_operator *call, const char *attribute) {
    return attribute_of(call, attribute)->real;
}

const struct orr_shape *orr__call_shape(const struct orr_task_operator *call,
                                        const char *attribute) {
    return &attribute_of(call, attribute)->shape;
}
