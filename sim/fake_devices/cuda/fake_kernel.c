/* Kernels: images are looked at no closer than their magic number, and every kernel of the
 * backend's list is in every image. What runs is the kernel's source, compiled for the CPU. */
#include <string.h>
#include <time.h>

#include "sim/fake_devices/cuda/emulate.h"
#include "sim/fake_devices/cuda/fake_internal.h"

enum {
    THREADS_MAX = 1024, /* of a block */
    KERNEL_NS = 2000,   /* in virtual time: so much for a kernel, */
    WAVE_NS = 200,      /* and so much for as many blocks as there are multiprocessors */
    PAUSE_NS = 1000
};

static const uint32_t fatbin_magic = 0xBA55ED50;

struct kernel {
    struct orr__fake_code *code;
    uint32_t index;        /* enum orr__cuda_kernel */
    uint32_t shared_bytes; /* that a launch may ask for */
};

struct orr__fake_code {
    struct orr__fake_code *next;
    struct kernel kernels[ORR__K_COUNT];
};

cudaError_t cudaLibraryLoadData(cudaLibrary_t *out_library, const void *image,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned int jit_count, enum cudaLibraryOption *options,
                                void **option_values, unsigned int option_count) {
    ORR__FAKE_ENTER(cudaError_t, cudaLibraryLoadData);
    (void)jit_options, (void)jit_values, (void)options, (void)option_values;
    if (!out_library || !image || jit_count || option_count) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic != fatbin_magic) {
        return orr__fake_leave(fake, cudaErrorInvalidKernelImage);
    }
    struct orr__fake_code *code = orr_memory_alloc(fake->memory, sizeof *code);
    if (!code) {
        return orr__fake_leave(fake, cudaErrorMemoryAllocation);
    }
    for (uint32_t i = 0; i < ORR__K_COUNT; i++) {
        code->kernels[i] = (struct kernel){code, i, ORR__FAKE_SHARED_BYTES};
    }
    code->next = fake->codes;
    fake->codes = code;
    fake->census.libraries++;
    *out_library = (cudaLibrary_t)code;
    return orr__fake_leave(fake, cudaSuccess);
}

static struct orr__fake_code **find(struct orr_fake_cuda *fake, cudaLibrary_t library) {
    struct orr__fake_code **at = &fake->codes;
    while (*at && (cudaLibrary_t)*at != library) {
        at = &(*at)->next;
    }
    return at;
}

static void drop(struct orr_fake_cuda *fake, struct orr__fake_code **at) {
    struct orr__fake_code *code = *at;
    *at = code->next;
    orr_memory_free(fake->memory, code);
}

void orr__fake_codes_close(struct orr_fake_cuda *fake) {
    while (fake->codes) {
        drop(fake, &fake->codes);
    }
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(ORR__FAKE_cudaLibraryUnload, &fake);
    struct orr__fake_code **at = fake ? find(fake, library) : NULL;
    if (at && *at) {
        drop(fake, at);
        fake->census.libraries--;
    } else if (!fault) {
        return orr__fake_leave(fake, cudaErrorInvalidResourceHandle);
    }
    return fault ? (cudaError_t)fault : orr__fake_leave(fake, cudaSuccess);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out_kernel, cudaLibrary_t library,
                                 const char *name) {
    ORR__FAKE_ENTER(cudaError_t, cudaLibraryGetKernel);
    struct orr__fake_code *code = *find(fake, library);
    if (!code || !out_kernel || !name) {
        return orr__fake_leave(fake, code ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    }
    for (uint32_t i = 0; i < ORR__K_COUNT; i++) {
        if (strcmp(orr_emulated_kernel_at(i)->name, name) == 0) {
            *out_kernel = (cudaKernel_t)&code->kernels[i];
            return orr__fake_leave(fake, cudaSuccess);
        }
    }
    return orr__fake_leave(fake, cudaErrorSymbolNotFound);
}

/* The kernel of a function's address, or NULL. */
static struct kernel *kernel_of(struct orr_fake_cuda *fake, const void *function) {
    for (struct orr__fake_code *code = fake->codes; code; code = code->next) {
        for (uint32_t i = 0; i < ORR__K_COUNT; i++) {
            if (&code->kernels[i] == function) {
                return &code->kernels[i];
            }
        }
    }
    return NULL;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value) {
    ORR__FAKE_ENTER(cudaError_t, cudaFuncSetAttribute);
    struct kernel *kernel = kernel_of(fake, function);
    if (!kernel) {
        return orr__fake_leave(fake, cudaErrorInvalidDeviceFunction);
    }
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
        return orr__fake_leave(fake, cudaSuccess);
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        value > ORR__FAKE_SHARED_BYTES_OPTIN) {
        return orr__fake_leave(fake, cudaErrorInvalidValue);
    }
    kernel->shared_bytes = (uint32_t)value;
    return orr__fake_leave(fake, cudaSuccess);
}

/* In front of a launch's argument. */
struct launch {
    _Alignas(16) const struct orr_emulated_kernel *kernel;
    struct orr_fake_cuda *fake;
    int64_t clock_ns; /* simulated: the device's */
};

/* Of threads: real time. */
static uint64_t real_now(void *context) {
    struct launch *launch = context;
    return (uint64_t)orr__fake_now(launch->fake);
}

static void real_pause(void *context) {
    struct timespec t = {.tv_nsec = PAUSE_NS};
    (void)context;
    nanosleep(&t, NULL);
}

/* Of the simulator: from the start of the kernel on, by what it has waited. */
static uint64_t virtual_now(void *context) {
    struct launch *launch = context;
    return (uint64_t)launch->clock_ns;
}

static void virtual_pause(void *context) {
    struct launch *launch = context;
    launch->clock_ns += PAUSE_NS;
}

static void run_kernel(struct orr__fake_work *work, void *argument) {
    struct launch *launch = argument;
    struct orr_fake_cuda *fake = launch->fake;
    bool simulated = fake->options.engine == ORR_FAKE_SIMULATED;
    struct orr_emulation emulation = {.mode = fake->options.block_threads ? ORR_EMULATED_FORWARDS
                                                                          : ORR_EMULATED_COLLAPSED,
                                      .memory = fake->memory,
                                      .now = simulated ? virtual_now : real_now,
                                      .pause = simulated ? virtual_pause : real_pause,
                                      .context = launch};
    launch->clock_ns = work->start_ns;
    struct orr_error error = {0};
    enum orr_status status =
        orr_emulate(&emulation, launch->kernel, work->task.grid, work->task.block,
                    work->task.shared_bytes, launch + 1, &error);
    if (status != ORR_OK) {
        atomic_store_explicit(&fake->device_error, cudaErrorLaunchFailure, memory_order_relaxed);
    }
}

static int64_t duration_of(const struct kernel *kernel, uint32_t grid, const void *argument) {
    int64_t waves = (grid + ORR__FAKE_SM_COUNT - 1) / ORR__FAKE_SM_COUNT;
    int64_t ns = KERNEL_NS + waves * WAVE_NS;
    if (kernel->index == ORR__K_spin) {
        ns += ((const struct orr__k_spin *)argument)->ns;
    }
    return ns;
}

/* The error that a plan has for this launch, counted by kernels. */
static int planned(struct orr_fake_cuda *fake, uint32_t index) {
    uint64_t nth = ++fake->launches[index];
    for (uint32_t i = 0; i < fake->fault_count; i++) {
        const struct orr__fake_fault *fault = &fake->faults[i];
        if (fault->function == ORR__FAKE_FUNCTION_COUNT + index && fault->nth == nth) {
            return fault->code;
        }
    }
    return 0;
}

static cudaError_t check(const struct kernel *kernel, const struct orr__fake_stream *stream,
                         dim3 grid, dim3 block, void **arguments, size_t shared_bytes) {
    if (!kernel) {
        return cudaErrorInvalidDeviceFunction;
    }
    if (!stream || stream->device != (uint32_t)stream->fake->device) {
        return cudaErrorInvalidResourceHandle;
    }
    bool one_dimension = grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1;
    if (!one_dimension || grid.x == 0 || block.x == 0 || block.x > THREADS_MAX ||
        grid.x > INT32_MAX) {
        return cudaErrorInvalidConfiguration; /* kernels.h: blocks and grids have one dimension */
    }
    if (!arguments || !arguments[0] || shared_bytes > kernel->shared_bytes) {
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t handle) {
    ORR__FAKE_ENTER(cudaError_t, cudaLaunchKernel);
    struct kernel *kernel = kernel_of(fake, function);
    struct orr__fake_stream *stream = orr__fake_stream_find(fake, handle);
    cudaError_t code = check(kernel, stream, grid, block, arguments, shared_bytes);
    if (code != cudaSuccess) {
        return orr__fake_leave(fake, code);
    }
    const struct orr_emulated_kernel *emulated = orr_emulated_kernel_at(kernel->index);
    size_t bytes = sizeof(struct launch) + emulated->argument_bytes;
    struct launch *launch = orr_memory_alloc(fake->memory, bytes);
    if (!launch) {
        return orr__fake_leave(fake, cudaErrorMemoryAllocation);
    }
    *launch = (struct launch){.kernel = emulated, .fake = fake};
    memcpy(launch + 1, arguments[0], emulated->argument_bytes);
    struct orr__fake_task task = {.kind = ORR__FAKE_KERNEL,
                                  .name = emulated->name,
                                  .run = run_kernel,
                                  .argument = launch,
                                  .argument_bytes = bytes,
                                  .duration_ns = duration_of(kernel, grid.x, arguments[0]),
                                  .grid = grid.x,
                                  .block = block.x,
                                  .shared_bytes = (uint32_t)shared_bytes,
                                  .fails_with = planned(fake, kernel->index)};
    code = orr__fake_enqueue(fake, stream, &task);
    orr_memory_free(fake->memory, launch);
    return orr__fake_leave(fake, code);
}
