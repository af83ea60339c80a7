#include "sim/fake_devices/cuda/emulate.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "runtime/cuda/kernels/kernels.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

enum {
    STACK_BYTES = 64 << 10, /* of a thread; kernels have no recursion and no large arrays */
    SHARED_MAX = 227 << 10, /* of a block on compute capability 9.0 (CUDA programming guide) */
    GUARD_BYTES = 64,       /* behind shared memory */
    PATTERN = 0xa5,
    PAUSE_NS = 100
};

/* ---- The table ---- */

#define DECLARE(family, kernel, type)                                                              \
    void orr__emulated_##kernel(struct lane lane, const void *argument);
ORR__CUDA_KERNEL_LIST(DECLARE)
#undef DECLARE

static const struct orr_emulated_kernel table[] = {
#define ROW(family, kernel, type) {#kernel, sizeof(type), orr__emulated_##kernel},
    ORR__CUDA_KERNEL_LIST(ROW)
#undef ROW
};

const struct orr_emulated_kernel *orr_emulated_kernel_at(uint32_t index) {
    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;
}

const struct orr_emulated_kernel *orr_emulated_kernel_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- Threads of a block ---- */

enum thread_state { THREAD_READY, THREAD_WAITS, THREAD_ENDED };

/* What a sanitizer must be told when the stack changes. */
struct fiber {
    ucontext_t context;
    void *sanitizer; /* ASan: its fake stack; TSan: its fiber */
    const void *stack;
    size_t stack_bytes;
};

struct thread {
    struct fiber fiber;
    enum thread_state state;
    struct lane lane;
};

struct orr__emulated_launch {
    const struct orr_emulation *emulation;
    const struct orr_emulated_kernel *kernel;
    const void *argument;
    uint32_t shared_bytes;
    uint64_t clock_ns; /* without a clock of the caller's */
    unsigned char *shared;
    uint64_t slots[ORR_EMULATED_BLOCK_MAX];
    struct fiber scheduler;
    ucontext_t fresh;       /* what a thread's context is made from */
    struct thread *threads; /* none if collapsed */
    unsigned char *stacks;
};

/* Before the stack changes from `from` to `to`; `ends`: `from` never runs again. */
static void announce(struct fiber *from, const struct fiber *to, bool ends) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ends ? NULL : &from->sanitizer, to->stack, to->stack_bytes);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to->sanitizer, 0);
#endif
    (void)from;
    (void)to;
    (void)ends;
}

/* After it changed to `now`, from `before`. */
static void arrive(const struct fiber *now, struct fiber *before) {
#if defined(__SANITIZE_ADDRESS__)
    /* The scheduler's stack is the caller's, and known only from here. */
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(now->sanitizer, &stack, &bytes);
    if (!before->stack) {
        before->stack = stack;
        before->stack_bytes = bytes;
    }
#endif
    (void)now;
    (void)before;
}

static void change(struct fiber *from, struct fiber *to) {
    announce(from, to, false);
    swapcontext(&from->context, &to->context);
    arrive(from, to);
}

/* The first function on a thread's stack. makecontext passes ints only, so the address comes in two
 * halves. */
static void thread_main(unsigned high, unsigned low) {
    struct thread *thread = (struct thread *)((uintptr_t)high << 32 | low);
    struct orr__emulated_launch *launch = thread->lane.launch;
    arrive(&thread->fiber, &launch->scheduler);
    launch->kernel->run(thread->lane, launch->argument);
    thread->state = THREAD_ENDED;
    announce(&thread->fiber, &launch->scheduler, true);
    setcontext(&launch->scheduler.context);
}

static void start_thread(struct orr__emulated_launch *launch, struct lane lane) {
    struct thread *thread = &launch->threads[lane.thread];
    uintptr_t address = (uintptr_t)thread;
    thread->state = THREAD_READY;
    thread->lane = lane;
    thread->fiber.stack = launch->stacks + (size_t)lane.thread * STACK_BYTES;
    thread->fiber.stack_bytes = STACK_BYTES;
#if defined(__SANITIZE_ADDRESS__)
    thread->fiber.sanitizer = NULL;
#endif
    thread->fiber.context = launch->fresh; /* a context costs a system call */
    thread->fiber.context.uc_stack.ss_sp = launch->stacks + (size_t)lane.thread * STACK_BYTES;
    thread->fiber.context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->fiber.context, (void (*)(void))thread_main, 2,
                (unsigned)((uint64_t)address >> 32), (unsigned)address);
}

/* One turn of every thread; then each waits or has ended. */
static void take_turns(struct orr__emulated_launch *launch, int threads, int *out_waiting) {
    bool backwards = launch->emulation->mode == ORR_EMULATED_BACKWARDS;
    *out_waiting = 0;
    for (int i = 0; i < threads; i++) {
        struct thread *thread = &launch->threads[backwards ? threads - 1 - i : i];
        if (thread->state == THREAD_ENDED)
            continue;
        thread->state = THREAD_READY;
        change(&launch->scheduler, &thread->fiber);
        *out_waiting += thread->state == THREAD_WAITS;
    }
}

static enum orr_status run_threads(struct orr__emulated_launch *launch, struct lane lane,
                                   struct orr_error *error) {
    int waiting;
    for (int i = 0; i < lane.threads; i++) {
        lane.thread = i;
        start_thread(launch, lane);
    }
    do {
        take_turns(launch, lane.threads, &waiting);
        if (waiting != 0 && waiting != lane.threads)
            return orr_error_set(error, ORR_INVALID,
                                 "kernel %s: %d of the %d threads of a block synchronize, the "
                                 "others have ended",
                                 launch->kernel->name, waiting, lane.threads);
    } while (waiting > 0);
    return ORR_OK;
}

/* ---- A launch ---- */

static enum orr_status check_launch(const struct orr_emulated_kernel *kernel, uint32_t grid,
                                    uint32_t block, uint32_t shared_bytes,
                                    struct orr_error *error) {
    if (grid == 0 || grid > INT32_MAX || block == 0 || block > ORR_EMULATED_BLOCK_MAX ||
        block % ORR_EMULATED_WARP != 0 || shared_bytes > SHARED_MAX)
        return orr_error_set(error, ORR_INVALID,
                             "kernel %s: can't launch %u blocks of %u threads with %u bytes of "
                             "shared memory",
                             kernel->name, grid, block, shared_bytes);
    return ORR_OK;
}

static bool take_memory(struct orr__emulated_launch *launch, uint32_t block) {
    const struct orr_memory *memory = launch->emulation->memory;
    launch->shared = orr_memory_alloc(memory, launch->shared_bytes + GUARD_BYTES);
    if (launch->emulation->mode == ORR_EMULATED_COLLAPSED)
        return launch->shared;
    launch->threads = orr_memory_alloc(memory, block * sizeof launch->threads[0]);
    launch->stacks = orr_memory_resize(memory, NULL, (size_t)block * STACK_BYTES); /* not zeroed */
#if defined(__SANITIZE_THREAD__)
    launch->scheduler.sanitizer = __tsan_get_current_fiber();
    for (uint32_t i = 0; launch->threads && i < block; i++)
        launch->threads[i].fiber.sanitizer = __tsan_create_fiber(0);
#endif
    return launch->shared && launch->threads && launch->stacks;
}

static void give_memory(struct orr__emulated_launch *launch, uint32_t block) {
    const struct orr_memory *memory = launch->emulation->memory;
#if defined(__SANITIZE_THREAD__)
    for (uint32_t i = 0; launch->threads && i < block; i++)
        __tsan_destroy_fiber(launch->threads[i].fiber.sanitizer);
#endif
    (void)block;
    orr_memory_free(memory, launch->stacks);
    orr_memory_free(memory, launch->threads);
    orr_memory_free(memory, launch->shared);
}

static bool guard_is_whole(const struct orr__emulated_launch *launch) {
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (launch->shared[launch->shared_bytes + i] != PATTERN)
            return false;
    return true;
}

static enum orr_status run_block(struct orr__emulated_launch *launch, struct lane lane,
                                 struct orr_error *error) {
    enum orr_status status = ORR_OK;
    memset(launch->shared, PATTERN, launch->shared_bytes + GUARD_BYTES);
    if (lane.threads == 1)
        launch->kernel->run(lane, launch->argument);
    else
        status = run_threads(launch, lane, error);
    if (status == ORR_OK && !guard_is_whole(launch))
        return orr_error_set(error, ORR_INVALID,
                             "kernel %s: writes past its %u bytes of shared memory",
                             launch->kernel->name, launch->shared_bytes);
    return status;
}

enum orr_status orr_emulate(const struct orr_emulation *emulation,
                            const struct orr_emulated_kernel *kernel, uint32_t grid, uint32_t block,
                            uint32_t shared_bytes, const void *argument, struct orr_error *error) {
    enum orr_status status = check_launch(kernel, grid, block, shared_bytes, error);
    if (status != ORR_OK)
        return status;
    bool collapsed = emulation->mode == ORR_EMULATED_COLLAPSED;
    struct orr__emulated_launch launch = {
        .emulation = emulation,
        .kernel = kernel,
        .argument = argument,
        .shared_bytes = shared_bytes,
    };
    if (!take_memory(&launch, block))
        status = orr_error_set(error, ORR_NO_MEMORY, "kernel %s: no memory for the threads' stacks",
                               kernel->name);
    if (!collapsed)
        getcontext(&launch.fresh);
    struct lane lane = {
        .launch = &launch,
        .threads = collapsed ? 1 : (int)block,
        .blocks = grid,
    };
    for (; lane.block < lane.blocks && status == ORR_OK; lane.block++)
        status = run_block(&launch, lane, error);
    give_memory(&launch, block);
    return status;
}

/* ---- What device.h calls ---- */

void orr__emulated_sync(struct lane lane) {
    struct orr__emulated_launch *launch = lane.launch;
    if (lane.threads == 1)
        return;
    struct thread *thread = &launch->threads[lane.thread];
    assert(thread->state == THREAD_READY);
    thread->state = THREAD_WAITS;
    change(&thread->fiber, &launch->scheduler);
}

void *orr__emulated_shared(struct lane lane) {
    return lane.launch->shared;
}

void *orr__emulated_slots(struct lane lane) {
    return lane.launch->slots;
}

uint64_t orr__emulated_now(struct lane lane) {
    const struct orr_emulation *emulation = lane.launch->emulation;
    return emulation->now ? emulation->now(emulation->context) : lane.launch->clock_ns;
}

void orr__emulated_pause(struct lane lane) {
    const struct orr_emulation *emulation = lane.launch->emulation;
    if (emulation->pause)
        emulation->pause(emulation->context);
    lane.launch->clock_ns += PAUSE_NS;
}
