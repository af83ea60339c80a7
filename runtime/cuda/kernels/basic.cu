/* Kernels of basic.h. */
#include "device.h"

#include "runtime/cuda/kernels/basic.h"

KERNEL(spin, struct orr__k_spin) {
    uint64_t begin = device_clock_ns(lane);
    while ((int64_t)(device_clock_ns(lane) - begin) < a->ns)
        device_pause(lane);
}

KERNEL(stamp, struct orr__k_stamp) {
    if (block_index(lane) == 0 && thread_index(lane) == 0)
        *a->to = device_clock_ns(lane);
}
