/* The words that kernels are written in, for a CPU: what runtime/cuda/kernels/gpu/device.h is for
 * the GPU. The threads of a block take turns: each runs until it synchronizes, then the next one
 * goes on (emulate.h).
 *
 * Threads: a kernel's blocks and threads are run by one thread of the CPU. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_EMULATED_DEVICE_H
#define ORR_SIM_FAKE_DEVICES_CUDA_EMULATED_DEVICE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/cuda/kernels/fault.h"
#include "runtime/dtype.h"
#include "sim/fake_devices/cuda/emulate.h"

#define DEVICE static inline __attribute__((unused))

#define ROLLED

#define KERNEL(name, type)                                                                         \
    static void name##_body(struct lane lane, const type *a);                                      \
    void orr__emulated_##name(struct lane lane, const void *argument);                             \
    void orr__emulated_##name(struct lane lane, const void *argument) {                            \
        name##_body(lane, argument);                                                               \
    }                                                                                              \
    static void name##_body(struct lane lane, const type *a)

#endif
