/* Cost of an operator or kernel: floating-point operations and bytes moved.
 *
 * Lives in runtime because the simulator needs it to predict and the analyzer to explain. The count
 * is algorithmic: each operand read once, each result written once. A small operand that is
 * broadcast along the others (a bias row) stays in cache while the large ones stream; its bytes are
 * counted apart in bytes_broadcast and are not charged to the memory system.
 *
 * Threads: plain data. */
#ifndef ORR_RUNTIME_COST_H
#define ORR_RUNTIME_COST_H

#include <stdint.h>

/* Which arithmetic units an operation runs on; a device has a peak for each and each dtype. */
enum orr_unit {
    ORR_UNIT_VECTOR, /* element by element: CUDA cores, SIMD lanes */
    ORR_UNIT_MATRIX  /* matrix multiplication: tensor cores */
};

struct orr_cost {
    uint64_t flops;           /* a fused multiply-add counts as two */
    uint64_t bytes_read;      /* streamed operands */
    uint64_t bytes_written;   /* results */
    uint64_t bytes_broadcast; /* broadcast operands, counted apart */
    enum orr_unit unit;
};

/* Sum of two costs; the unit is MATRIX if either is. Saturates at UINT64_MAX. */
struct orr_cost orr_cost_add(struct orr_cost a, struct orr_cost b);

#endif
