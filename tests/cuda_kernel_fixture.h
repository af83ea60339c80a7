/* Kernels of the CUDA backend against the operators' own arithmetic, without a GPU: a queue whose
 * table of entry points runs everything at once, kernels by sim/fake_devices/cuda/emulate.h.
 *
 *     static void softmax_is_the_cpus(void **state) {
 *         struct kernel_fixture *fixture = *state;
 *         struct call call = call_open("softmax");             // tests/operator_fixture.h
 *         call_input(&call, tensor_random(ORR_DTYPE_F32, shape2(3, 33), &random, -1, 1));
 *         kernel_check(fixture, &call);
 *         call_close(&call);
 *     }
 *     cmocka_unit_test_setup_teardown(softmax_is_the_cpus, kernel_setup, kernel_teardown)
 *
 * Numbers prove the kernels' arithmetic as compiled for the CPU; that they run on a GPU is a matter
 * of the device check.
 *
 * Threads: one. */
#ifndef ORR_TESTS_CUDA_KERNEL_FIXTURE_H
#define ORR_TESTS_CUDA_KERNEL_FIXTURE_H

#include "runtime/cuda/queue.h"
#include "sim/fake_devices/cuda/emulate.h"
#include "tests/operator_fixture.h"

struct kernel_fixture {
    struct orr__cuda_queue queue;
    struct orr_emulation emulation; /* mode: the caller's, for kernel_enqueue */
    struct orr_error error;         /* of the last launch that failed */
    bool collapsed;                 /* kernel_check: one thread a block only, where many blocks
                                     * synchronize often and other cases run all threads */
    uint64_t launches;
    bool capturing; /* what the stream says it is */
    double slack;   /* results may be so far off in any case: sums of terms that cancel out */
    struct counting_memory device; /* of cudaMalloc and pools; fail_at may be set */
    struct counting_memory host;
    struct orr__cuda_api api;
    struct orr__cuda_code code;
    struct orr__cuda_fault fault;
};

/* For cmocka: *state is a struct kernel_fixture. The teardown fails the test if device memory that
 * was taken for it is left. */
int kernel_setup(void **state);
int kernel_teardown(void **state);

/* Enqueues a task in the emulation's mode; returns what orr__cuda_enqueue does. */
enum orr_status kernel_enqueue(struct kernel_fixture *fixture, const struct orr_task *task,
                               struct orr_error *error);

/* Runs the call by kernels in every mode of emulation, and by the operator's compute, and fails the
 * test where results differ by more than the dtype allows: f64 1e-12, f32 1e-5, f16 and bf16 1e-2
 * of the norm and of the largest element; integers and bool not at all. Results are filled with
 * NaNs before, bytes around them are guarded, operands may not change (unless the operator is in
 * place). */
void kernel_check(struct kernel_fixture *fixture, const struct call *call);

/* The same with another bound, for sums of many terms; 0: bit for bit. */
void kernel_check_within(struct kernel_fixture *fixture, const struct call *call, double bound);

/* Enqueues the call's operator with results of its own, in the emulation's mode; for calls that are
 * to fail. */
enum orr_status kernel_call_status(struct kernel_fixture *fixture, const struct call *call,
                                   struct orr_error *error);

#endif
