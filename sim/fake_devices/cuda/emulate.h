/* Runs the CUDA backend's kernels on a CPU: the sources of runtime/cuda/kernels, compiled as C over
 * emulated/device.h.
 *
 *     const struct orr_emulated_kernel *kernel = orr_emulated_kernel_find("softmax");
 *     struct orr_emulation emulation = {.mode = ORR_EMULATED_COLLAPSED, .memory = &memory};
 *     status = orr_emulate(&emulation, kernel, grid, block, shared_bytes, &argument, &error);
 *
 * Collapsed, each block has one thread, whatever the launch asks for: kernels are written so that
 * this gives the same result (kernels.h), and it is fast. In the other modes every thread of a
 * block runs, in turns: each until it synchronizes with its block or ends, then the next one. The
 * order of turns, forwards or backwards, decides what a kernel with a missing block_sync sees: in
 * one of the two it reads what was not yet written. Sums over a block are taken in the GPU's order.
 *
 * What it finds: threads of a block of which some synchronize and others end; writes past the
 * shared memory that a launch asked for; shared memory is filled with a pattern for each block, so
 * that what is read before it is written shows.
 *
 * Threads: a launch belongs to the calling thread; distinct launches may run at the same time. */
#ifndef ORR_SIM_FAKE_DEVICES_CUDA_EMULATE_H
#define ORR_SIM_FAKE_DEVICES_CUDA_EMULATE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"

enum orr_emulated_mode {
    ORR_EMULATED_COLLAPSED, /* one thread a block */
    ORR_EMULATED_FORWARDS,  /* all threads, in turns from the first one on */
    ORR_EMULATED_BACKWARDS  /* all threads, from the last one on */
};

enum { ORR_EMULATED_BLOCK_MAX = 1024, ORR_EMULATED_WARP = 32 }; /* as on every GPU */

/* Zeros are the defaults, but for the memory. */
struct orr_emulation {
    enum orr_emulated_mode mode;
    const struct orr_memory *memory; /* for shared memory and the threads' stacks */
    /* The device's clock, ns, and what a kernel that waits for it calls between two looks; NULL: a
     * clock of the launch's own, which starts at 0 and which every pause puts forward by 100 ns. */
    uint64_t (*now)(void *context);
    void (*pause)(void *context);
    void *context;
};

/* A launch while it runs: emulate.c's own. */
struct orr__emulated_launch;

/* A thread of a kernel; what the words of device.h are given. */
struct lane {
    struct orr__emulated_launch *launch;
    int thread, threads;   /* of the block */
    int64_t block, blocks; /* of the grid */
};

struct orr_emulated_kernel {
    const char *name;
    size_t argument_bytes;
    void (*run)(struct lane lane, const void *argument);
};

/* All kernels, in the order of enum orr__cuda_kernel; NULL past the last. */
const struct orr_emulated_kernel *orr_emulated_kernel_at(uint32_t index);
/* The kernel of a name, or NULL. */
const struct orr_emulated_kernel *orr_emulated_kernel_find(const char *name);

/* Runs all blocks, one after another. ORR_INVALID for what a GPU would not launch (no block, a
 * block of more than 1024 threads or of no multiple of 32, more than 227 KiB of shared memory) and
 * for what is found (see above); ORR_NO_MEMORY. The argument is borrowed for the call. */
enum orr_status orr_emulate(const struct orr_emulation *emulation,
                            const struct orr_emulated_kernel *kernel, uint32_t grid, uint32_t block,
                            uint32_t shared_bytes, const void *argument,
                            struct orr_error *error) ORR_MUST_CHECK;

/* --- for emulated/device.h --- */

/* Returns when all threads of the block are here. */
void orr__emulated_sync(struct lane lane);
void *orr__emulated_shared(struct lane lane);
/* Room for 8 bytes of each thread of the block. */
void *orr__emulated_slots(struct lane lane);
uint64_t orr__emulated_now(struct lane lane);
void orr__emulated_pause(struct lane lane);

#endif
