#include "runtime/cost.h"

#include <stdbool.h>

static uint64_t add_saturated(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct orr_cost orr_cost_add(struct orr_cost a, struct orr_cost b) {
    bool matrix = a.unit == ORR_UNIT_MATRIX || b.unit == ORR_UNIT_MATRIX;
    return (struct orr_cost){
        .flops = add_saturated(a.flops, b.flops),
        .bytes_read = add_saturated(a.bytes_read, b.bytes_read),
        .bytes_written = add_saturated(a.bytes_written, b.bytes_written),
        .bytes_broadcast = add_saturated(a.bytes_broadcast, b.bytes_broadcast),
        .unit = matrix ? ORR_UNIT_MATRIX : ORR_UNIT_VECTOR,
    };
}
