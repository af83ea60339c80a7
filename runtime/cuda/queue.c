#include "runtime/cuda/queue.h"

#include <assert.h>
#include <inttypes.h>

enum {
    BLOCKS_PER_SM = 8,      /* of ORR__CUDA_BLOCK threads; an SM holds 2048 (CUDA programming guide,
                               table of compute capabilities 8.0 to 10.0) */
    ROW_BLOCKS_PER_SM = 16, /* twice as many, so that rows of uneven cost spread */
    SHARED_USUAL = 48 << 10 /* bytes a block may use without being asked */
};

static const char *const names[ORR__K_COUNT] = {
#define NAME(family, kernel, type) [ORR__K_##kernel] = #kernel,
    ORR__CUDA_KERNEL_LIST(NAME)
#undef NAME
};

const char *orr__cuda_kernel_name(enum orr__cuda_kernel kernel) {
    return names[kernel];
}

static uint32_t at_most(uint64_t blocks, uint64_t most) {
    return (uint32_t)(blocks < most ? blocks : most);
}

uint32_t orr__cuda_grid(const struct orr__cuda_queue *queue, uint64_t count) {
    uint64_t blocks = count / ORR__CUDA_BLOCK + (count % ORR__CUDA_BLOCK != 0);
    return at_most(blocks, (uint64_t)queue->sm_count * BLOCKS_PER_SM);
}

uint32_t orr__cuda_grid_rows(const struct orr__cuda_queue *queue, uint64_t rows) {
    return at_most(rows, (uint64_t)queue->sm_count * ROW_BLOCKS_PER_SM);
}

enum orr_status orr__cuda_launch(struct orr__cuda_queue *queue, enum orr__cuda_kernel kernel,
                                 uint32_t grid, uint32_t block, uint32_t shared_bytes,
                                 const void *argument, struct orr_error *error) {
    const struct orr__cuda_api *api = queue->api;
    const void *function = queue->code->functions[kernel];
    if (grid == 0)
        return ORR_OK;
    cudaError_t code = cudaSuccess;
    const char *call = "cudaFuncSetAttribute";
    if (shared_bytes > SHARED_USUAL)
        code = api->rt.cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)shared_bytes);
    if (code == cudaSuccess) {
        /* CUDA copies the argument before it returns, and doesn't write to it. */
        void *arguments[1] = {(void *)(uintptr_t)argument};
        call = "cudaLaunchKernel";
        code = api->rt.cudaLaunchKernel(function, (struct dim3){grid, 1, 1},
                                        (struct dim3){block, 1, 1}, arguments, shared_bytes,
                                        queue->stream);
    }
    enum orr_status status = orr__cuda_check(api, code, call, error);
    if (status != ORR_OK)
        orr_error_prefix(error, "kernel %s", names[kernel]);
    return status;
}

/* ---- Memory ---- */

/* What a call that found no memory asked for, and of how much. */
static void tell_sizes(const struct orr__cuda_queue *queue, uint64_t bytes,
                       struct orr_error *error) {
    size_t free_bytes = 0, total_bytes = 0;
    if (queue->api->rt.cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        orr_error_prefix(error, "asked for %" PRIu64 " bytes, free are %zu of %zu", bytes,
                         free_bytes, total_bytes);
    else
        orr_error_prefix(error, "asked for %" PRIu64 " bytes", bytes);
}

static enum orr_status take(struct orr__cuda_queue *queue, uint64_t bytes, void **out_memory,
                            struct orr_error *error) {
    const struct orr__cuda_runtime_table *rt = &queue->api->rt;
    *out_memory = NULL;
    enum orr_status status;
    if (queue->pool)
        status = orr__cuda_check(
            queue->api, rt->cudaMallocFromPoolAsync(out_memory, bytes, queue->pool, queue->stream),
            "cudaMallocFromPoolAsync", error);
    else
        status =
            orr__cuda_check(queue->api, rt->cudaMalloc(out_memory, bytes), "cudaMalloc", error);
    if (status == ORR_NO_MEMORY)
        tell_sizes(queue, bytes, error);
    return status;
}

/* Kernels that use the memory are in front of this in the stream; cudaFree waits for them. */
static enum orr_status give(struct orr__cuda_queue *queue, void **memory, struct orr_error *error) {
    const struct orr__cuda_runtime_table *rt = &queue->api->rt;
    void *old = *memory;
    *memory = NULL;
    if (!old)
        return ORR_OK;
    if (queue->pool)
        return orr__cuda_check(queue->api, rt->cudaFreeAsync(old, queue->stream), "cudaFreeAsync",
                               error);
    return orr__cuda_check(queue->api, rt->cudaFree(old), "cudaFree", error);
}

/* Memory can't be taken while the stream is being captured: a graph would keep addresses that are
 * someone else's when it is launched. */
static enum orr_status refuse_capture(struct orr__cuda_queue *queue, const char *what,
                                      uint64_t bytes, struct orr_error *error) {
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    enum orr_status status =
        orr__cuda_check(queue->api, queue->api->rt.cudaStreamIsCapturing(queue->stream, &capture),
                        "cudaStreamIsCapturing", error);
    if (status != ORR_OK || capture == cudaStreamCaptureStatusNone)
        return status;
    return orr_error_set(error, ORR_UNSUPPORTED,
                         "graph capture: %s needs %" PRIu64 " bytes of device memory, which can't "
                         "be taken in a capture; run the program once before",
                         what, bytes);
}

/* What was too small is kept until the queue is cleared: a graph that was captured with it writes
 * to it at every launch. As each block is larger by half than the one before, all that are kept
 * are at most twice as large as the one in use. */
enum orr_status orr__cuda_scratch(struct orr__cuda_queue *queue, uint64_t bytes, void **out_scratch,
                                  struct orr_error *error) {
    enum orr_status status = ORR_OK;
    void *grown = NULL;
    if (bytes > queue->scratch_bytes) {
        uint64_t asked = bytes + queue->scratch_bytes / 2;
        status = refuse_capture(queue, "a kernel's scratch", asked, error);
        if (status == ORR_OK)
            status = take(queue, asked, &grown, error);
        if (status == ORR_OK) {
            assert(queue->outgrown_count < ORR__CUDA_OUTGROWN_MAX);
            if (queue->scratch)
                queue->outgrown[queue->outgrown_count++] = queue->scratch;
            queue->scratch = grown;
            queue->scratch_bytes = asked;
        }
    }
    *out_scratch = status == ORR_OK ? queue->scratch : NULL;
    return status;
}

/* ---- cuBLAS ---- */

/* Sums of f16 and bf16 that are split over the GPU are joined in f32, too, and f32 isn't TF32
 * (cuBLAS guide, cublasMath_t). Setting a handle's stream resets its workspace (cuBLAS guide,
 * cublasSetStream): that comes second. */
static enum orr_status prepare_blas(struct orr__cuda_queue *queue, struct orr_error *error) {
    struct orr__cuda_api *api = queue->api;
    enum orr_status status = orr__cublas_check(
        api, api->blas.cublasSetStream(queue->blas, queue->stream), "cublasSetStream", error);
    if (status == ORR_OK)
        status =
            orr__cublas_check(api,
                              api->blas.cublasSetMathMode(
                                  queue->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                              "cublasSetMathMode", error);
    if (status == ORR_OK && !queue->workspace)
        status = take(queue, ORR__CUDA_BLAS_WORKSPACE, &queue->workspace, error);
    if (status == ORR_OK)
        status = orr__cublas_check(
            api,
            api->blas.cublasSetWorkspace(queue->blas, queue->workspace, ORR__CUDA_BLAS_WORKSPACE),
            "cublasSetWorkspace", error);
    return status;
}

enum orr_status orr__cuda_blas_handle(struct orr__cuda_queue *queue, cublasHandle_t *out_handle,
                                      struct orr_error *error) {
    struct orr__cuda_api *api = queue->api;
    enum orr_status status = ORR_OK;
    *out_handle = NULL;
    if (!queue->blas) {
        status = refuse_capture(queue, "cuBLAS", ORR__CUDA_BLAS_WORKSPACE, error);
        if (status == ORR_OK)
            status = orr__cuda_need(api, ORR__CUDA_BLAS, error);
        if (status != ORR_OK)
            return status;
        cublasHandle_t handle = NULL;
        status = orr__cublas_check(api, api->blas.cublasCreate(&handle), "cublasCreate", error);
        if (status != ORR_OK)
            return status;
        queue->blas = handle;
        status = prepare_blas(queue, error);
        if (status != ORR_OK) {
            (void)api->blas.cublasDestroy(handle);
            queue->blas = NULL;
        }
    }
    *out_handle = queue->blas;
    return status;
}

void orr__cuda_queue_clear(struct orr__cuda_queue *queue) {
    /* What fails here fails because of an earlier error, which has been told. */
    struct orr_error ignored = {0};
    if (queue->blas)
        (void)queue->api->blas.cublasDestroy(queue->blas);
    if (queue->blaslt)
        (void)queue->api->lt.cublasLtDestroy(queue->blaslt);
    queue->blas = NULL;
    queue->blaslt = NULL;
    if (give(queue, &queue->workspace, &ignored) != ORR_OK)
        orr_error_clear(&ignored);
    if (give(queue, &queue->scratch, &ignored) != ORR_OK)
        orr_error_clear(&ignored);
    while (queue->outgrown_count > 0)
        if (give(queue, &queue->outgrown[--queue->outgrown_count], &ignored) != ORR_OK)
            orr_error_clear(&ignored);
    queue->scratch_bytes = 0;
}
