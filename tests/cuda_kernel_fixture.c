#include "tests/cuda_kernel_fixture.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 64, GUARD_BYTE = 0x5a, POISON = 0xff, SM_COUNT = 2, WARPS = 64 };

/* ---- The table: a stream and a pool are the fixture's address ---- */

static cudaError_t fake_launch(const void *function, dim3 grid, dim3 block, void **arguments,
                               size_t shared_bytes, cudaStream_t stream) {
    struct kernel_fixture *fixture = (void *)stream;
    const struct orr_emulated_kernel *kernel = function;
    fixture->launches++;
    struct orr_error error = {0};
    /* Any block is right (kernels.h): a few warps do, and cost less. */
    bool fewer = fixture->emulation.mode == ORR_EMULATED_BACKWARDS && block.x > WARPS;
    if (orr_emulate(&fixture->emulation, kernel, grid.x, fewer ? WARPS : block.x,
                    (uint32_t)shared_bytes, arguments[0], &error) == ORR_OK)
        return cudaSuccess;
    fixture->error = error;
    return cudaErrorLaunchFailure;
}

static cudaError_t fake_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                             cudaStream_t stream) {
    (void)kind;
    (void)stream;
    memmove(to, from, bytes);
    return cudaSuccess;
}

static cudaError_t fake_set(void *to, int value, size_t bytes, cudaStream_t stream) {
    (void)stream;
    memset(to, value, bytes);
    return cudaSuccess;
}

static cudaError_t fake_host_function(cudaStream_t stream, cudaHostFn_t function, void *context) {
    (void)stream;
    function(context);
    return cudaSuccess;
}

static cudaError_t fake_take(void **out_memory, size_t bytes, cudaMemPool_t pool,
                             cudaStream_t stream) {
    struct kernel_fixture *fixture = (void *)stream;
    assert_ptr_equal(pool, stream);
    *out_memory = orr_memory_alloc(&fixture->device.table, bytes);
    if (!*out_memory)
        return cudaErrorMemoryAllocation;
    memset(*out_memory, POISON, bytes);
    return cudaSuccess;
}

static cudaError_t fake_give(void *memory, cudaStream_t stream) {
    struct kernel_fixture *fixture = (void *)stream;
    orr_memory_free(&fixture->device.table, memory);
    return cudaSuccess;
}

static cudaError_t fake_is_capturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out) {
    const struct kernel_fixture *fixture = (void *)stream;
    *out = fixture->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static cudaError_t fake_set_attribute(const void *function, enum cudaFuncAttribute attribute,
                                      int value) {
    (void)function;
    (void)attribute;
    (void)value;
    return cudaSuccess;
}

static const char *fake_error_name(cudaError_t code) {
    return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                             : "cudaErrorLaunchFailure";
}

static const char *fake_error_string(cudaError_t code) {
    (void)code;
    return "it failed";
}

static cudaError_t fake_memory_info(size_t *out_free, size_t *out_total) {
    *out_free = *out_total = 0;
    return cudaErrorUnknown;
}

static void fill_table(struct orr__cuda_runtime_table *rt) {
    rt->cudaLaunchKernel = fake_launch;
    rt->cudaMemcpyAsync = fake_copy;
    rt->cudaMemsetAsync = fake_set;
    rt->cudaLaunchHostFunc = fake_host_function;
    rt->cudaMallocFromPoolAsync = fake_take;
    rt->cudaFreeAsync = fake_give;
    rt->cudaMemGetInfo = fake_memory_info;
    rt->cudaStreamIsCapturing = fake_is_capturing;
    rt->cudaFuncSetAttribute = fake_set_attribute;
    rt->cudaGetErrorName = fake_error_name;
    rt->cudaGetErrorString = fake_error_string;
}

/* ---- Opening ---- */

int kernel_setup(void **state) {
    struct kernel_fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    counting_memory_init(&fixture->device, 0);
    counting_memory_init(&fixture->host, 0);
    fill_table(&fixture->api.rt);
    fixture->api.loaded[ORR__CUDA_RUNTIME] = true;
    for (uint32_t i = 0; i < ORR__K_COUNT; i++)
        fixture->code.functions[i] = orr_emulated_kernel_at(i);
    fixture->emulation.memory = &fixture->host.table;
    fixture->queue = (struct orr__cuda_queue){
        .api = &fixture->api,
        .code = &fixture->code,
        .memory = &fixture->host.table,
        .stream = (cudaStream_t)(void *)fixture,
        .pool = (cudaMemPool_t)(void *)fixture,
        .sm_count = SM_COUNT,
        .fault = &fixture->fault,
    };
    *state = fixture;
    return 0;
}

int kernel_teardown(void **state) {
    struct kernel_fixture *fixture = *state;
    orr__cuda_queue_clear(&fixture->queue);
    size_t live = fixture->device.live + fixture->host.live;
    free(fixture);
    return live == 0 ? 0 : -1;
}

enum orr_status kernel_enqueue(struct kernel_fixture *fixture, const struct orr_task *task,
                               struct orr_error *error) {
    return orr__cuda_enqueue(&fixture->queue, task, error);
}

/* ---- Tensors between guards ---- */

static size_t bytes_of(const struct orr_tensor_view *view) {
    return (size_t)orr_shape_count(&view->shape) * orr_dtype_size(view->dtype);
}

static struct orr_tensor_view guarded(enum orr_dtype dtype, struct orr_shape shape) {
    struct orr_tensor_view view = {.dtype = dtype, .shape = shape};
    unsigned char *block = malloc(bytes_of(&view) + 2 * GUARD);
    assert_non_null(block);
    memset(block, GUARD_BYTE, bytes_of(&view) + 2 * GUARD);
    view.data = block + GUARD;
    memset(view.data, POISON, bytes_of(&view));
    return view;
}

static void guarded_free(struct orr_tensor_view *view) {
    free((unsigned char *)view->data - GUARD);
    view->data = NULL;
}

static void assert_guards(const char *what, const struct orr_tensor_view *view) {
    const unsigned char *data = view->data;
    for (size_t i = 0; i < GUARD; i++)
        if (data[-1 - (ptrdiff_t)i] != GUARD_BYTE || data[bytes_of(view) + i] != GUARD_BYTE)
            fail_msg("%s: writes outside of a tensor of %zu bytes", what, bytes_of(view));
}

/* One run of a call: its own operands and results. */
struct run {
    struct orr_tensor_view inputs[ORR_INPUTS_MAX], outputs[ORR_OUTPUTS_MAX];
};

static struct run run_open(const struct call *call, const struct orr_operand_info *results) {
    struct run run = {0};
    for (int i = 0; i < call->input_count; i++) {
        run.inputs[i] = guarded(call->inputs[i].dtype, call->inputs[i].shape);
        memcpy(run.inputs[i].data, call->inputs[i].data, bytes_of(&call->inputs[i]));
    }
    for (int i = 0; i < call->op->outputs; i++)
        run.outputs[i] = guarded(results[i].dtype, results[i].shape);
    if (call->op->in_place) {
        guarded_free(&run.outputs[0]);
        run.outputs[0].data = run.inputs[0].data;
    }
    return run;
}

static void run_close(const struct call *call, struct run *run) {
    for (int i = 0; i < call->input_count; i++)
        guarded_free(&run->inputs[i]);
    for (int i = call->op->in_place ? 1 : 0; i < call->op->outputs; i++)
        guarded_free(&run->outputs[i]);
}

static void infer(const struct call *call, struct orr_operand_info *out_results) {
    struct orr_operand_info infos[ORR_INPUTS_MAX];
    struct orr_error error = {0};
    for (int i = 0; i < call->input_count; i++)
        infos[i] = (struct orr_operand_info){call->inputs[i].dtype, call->inputs[i].shape};
    if (call->op->infer(infos, call->input_count, &call->attributes, out_results, &error) != ORR_OK)
        fail_msg("%s", error.text);
}

static enum orr_status run_kernels(struct kernel_fixture *fixture, const struct call *call,
                                   struct run *run, struct orr_error *error) {
    struct orr_task task = {
        .kind = ORR_TASK_OPERATOR,
        .call = {.op = call->op,
                 .attributes = &call->attributes,
                 .input_count = call->input_count,
                 .inputs = run->inputs,
                 .outputs = run->outputs},
    };
    return kernel_enqueue(fixture, &task, error);
}

/* ---- Comparing ---- */

static double usual_bound(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return 1e-12;
    case ORR_DTYPE_F32: return 1e-5;
    case ORR_DTYPE_F16:
    case ORR_DTYPE_BF16: return 1e-2;
    default: return 0;
    }
}

/* Bit for bit, but for NaNs' payloads. */
static void assert_same(const char *what, const struct orr_tensor_view *got,
                        const struct orr_tensor_view *want) {
    size_t size = orr_dtype_size(got->dtype);
    for (int64_t i = 0; i < tensor_count(want); i++) {
        const char *own = (const char *)got->data + (size_t)i * size;
        const char *other = (const char *)want->data + (size_t)i * size;
        double g = tensor_at(got, i), w = tensor_at(want, i);
        if (memcmp(own, other, size) != 0 && !(isnan(g) && isnan(w)))
            fail_msg("%s, element %" PRId64 ": got %.17g, expected exactly %.17g", what, i, g, w);
    }
}

static void assert_within(const char *what, const struct orr_tensor_view *got,
                          const struct orr_tensor_view *want, double bound, double slack) {
    double most = 0, square = 0, difference = 0;
    int64_t count = tensor_count(want);
    for (int64_t i = 0; i < count; i++)
        if (isfinite(tensor_at(want, i)))
            most = fmax(most, fabs(tensor_at(want, i)));
    for (int64_t i = 0; i < count; i++) {
        double g = tensor_at(got, i), w = tensor_at(want, i);
        assert_near(what, i, g, w, bound * most + slack, 0);
        if (!isfinite(w))
            continue;
        square += w * w;
        difference += fabs(g - w) <= slack ? 0 : (g - w) * (g - w);
    }
    if (difference > bound * bound * square)
        fail_msg("%s: relative difference %.3g, allowed %.3g", what, sqrt(difference / square),
                 bound);
}

static void compare(const struct call *call, const struct run *got, const struct run *want,
                    const char *mode, double bound, double slack) {
    char what[128];
    for (int i = 0; i < call->op->outputs; i++) {
        snprintf(what, sizeof what, "%s %s %s, result %d", call->op->name,
                 orr_dtype_name(want->outputs[i].dtype), mode, i);
        double own = bound < 0 ? usual_bound(want->outputs[i].dtype) : bound;
        assert_guards(what, &got->outputs[i]);
        if (own > 0)
            assert_within(what, &got->outputs[i], &want->outputs[i], own, slack);
        else
            assert_same(what, &got->outputs[i], &want->outputs[i]);
    }
    for (int i = call->op->in_place ? 1 : 0; i < call->input_count; i++) {
        snprintf(what, sizeof what, "%s %s, operand %d", call->op->name, mode, i);
        assert_guards(what, &got->inputs[i]);
        if (memcmp(got->inputs[i].data, call->inputs[i].data, bytes_of(&call->inputs[i])) != 0)
            fail_msg("%s has changed", what);
    }
}

/* `bound` < 0: the dtypes' own. */
static void check(struct kernel_fixture *fixture, const struct call *call, double bound) {
    static const struct {
        enum orr_emulated_mode mode;
        const char *name;
    } modes[] = {{ORR_EMULATED_COLLAPSED, "collapsed"},
                 {ORR_EMULATED_FORWARDS, "forwards"},
                 {ORR_EMULATED_BACKWARDS, "backwards"}};
    struct orr_operand_info results[ORR_OUTPUTS_MAX];
    struct orr_error error = {0};
    infer(call, results);
    struct run want = run_open(call, results);
    if (call->op->compute(want.inputs, call->input_count, &call->attributes, want.outputs,
                          &fixture->host.table, &error) != ORR_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < (fixture->collapsed ? 1 : sizeof modes / sizeof modes[0]); i++) {
        struct run got = run_open(call, results);
        fixture->emulation.mode = modes[i].mode;
        if (run_kernels(fixture, call, &got, &error) != ORR_OK)
            fail_msg("%s %s: %s %s", call->op->name, modes[i].name, error.text,
                     fixture->error.text);
        if (fixture->fault.code != ORR__FAULT_NONE)
            fail_msg("%s %s: an index of %" PRId64 " of %" PRId64, call->op->name, modes[i].name,
                     fixture->fault.value, fixture->fault.bound);
        compare(call, &got, &want, modes[i].name, bound, fixture->slack);
        run_close(call, &got);
    }
    run_close(call, &want);
}

void kernel_check(struct kernel_fixture *fixture, const struct call *call) {
    check(fixture, call, -1);
}

void kernel_check_within(struct kernel_fixture *fixture, const struct call *call, double bound) {
    check(fixture, call, bound);
}

enum orr_status kernel_call_status(struct kernel_fixture *fixture, const struct call *call,
                                   struct orr_error *error) {
    struct orr_operand_info results[ORR_OUTPUTS_MAX];
    infer(call, results);
    struct run run = run_open(call, results);
    enum orr_status status = run_kernels(fixture, call, &run, error);
    run_close(call, &run);
    return status;
}
