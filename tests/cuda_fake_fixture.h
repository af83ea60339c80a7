/* What the tests of the fake CUDA devices share: a fake, and streams that can be held up.
 *
 * Threads: one. */
#ifndef ORR_TESTS_CUDA_FAKE_FIXTURE_H
#define ORR_TESTS_CUDA_FAKE_FIXTURE_H

#include <stdatomic.h>

#include "runtime/cuda/kernels/kernels.h"
#include "sim/fake_devices/cuda/fake_cuda.h"
#include "tests/support.h"

/* A call that has to succeed, or to fail with this code. */
#define CALL(call)          assert_int_equal((f->rt->call), cudaSuccess)
#define REFUSED(code, call) assert_int_equal((f->rt->call), (code))

struct fake {
    struct memory_counting memory;
    enum orr_fake_engine engine;
    struct orr_fake_cuda *cuda;
    const struct orr__cuda_runtime_table *rt;
    struct orr_error error;
    cudaLibrary_t library; /* NULL until the first kernel */
    const void *functions[ORR__K_COUNT];
    atomic_int gate; /* opened by fake_let_go */
};

void fake_open(struct fake *f, struct orr_fake_cuda_options options);
/* Asserts that no memory is left. */
void fake_close(struct fake *f);
/* Asserts that the program has cleaned up behind itself, but for the library of kernels. */
void fake_nothing_is_alive(struct fake *f);

/* Runs a case over both engines, without and with delays; each run in a fake of its own. */
void fake_each(void (*run)(struct fake *f));

cudaStream_t fake_stream(struct fake *f);
cudaEvent_t fake_event(struct fake *f);

/* Launches a kernel of the backend's list with one thread. */
cudaError_t fake_launch(struct fake *f, enum orr__cuda_kernel kernel, const void *argument,
                        cudaStream_t stream);
/* What comes later in the stream does not start before fake_let_go: a host function waits for it,
 * or, in virtual time, the stream is busy for 10 ms. */
void fake_hold(struct fake *f, cudaStream_t stream);
void fake_let_go(struct fake *f);

#endif
