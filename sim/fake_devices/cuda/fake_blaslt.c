/* The fake cublasLt's entry points: a product of one pair of matrices with an epilogue. */
#include <string.h>

#include "sim/fake_devices/cuda/fake_blas.h"

enum { ALGORITHM = 0x0a1 }; /* the only one */

/* Everything that is created, in one list: a handle, a description, a layout, a preference. */
enum kind { HANDLE, PRODUCT, LAYOUT, PREFERENCE };

struct object {
    struct object *next;
    enum kind kind;
    union {
        struct {
            cublasOperation_t op_a, op_b;
            cublasComputeType_t compute;
            cublasLtEpilogue_t epilogue;
            const void *bias;
        } product;
        struct {
            cudaDataType_t type;
            int64_t rows, columns, step;
        } layout;
        uint64_t workspace_bytes; /* of a preference */
    };
};

struct blaslt {
    struct object *objects;
};

static void close_all(struct orr_fake_cuda *fake, void *state) {
    struct blaslt *lt = state;
    while (lt->objects) {
        struct object *object = lt->objects;
        lt->objects = object->next;
        orr_memory_free(fake->memory, object);
    }
}

static struct blaslt *state_of(struct orr_fake_cuda *fake) {
    return orr__fake_library(fake, ORR__CUDA_BLASLT, sizeof(struct blaslt), close_all);
}

static struct object *find(struct orr_fake_cuda *fake, const void *handle, enum kind kind) {
    struct blaslt *lt = state_of(fake);
    struct object *object = lt ? lt->objects : NULL;
    while (object && (const void *)object != handle)
        object = object->next;
    return object && object->kind == kind ? object : NULL;
}

static struct object *make(struct orr_fake_cuda *fake, enum kind kind) {
    struct blaslt *lt = state_of(fake);
    struct object *object = lt ? orr_memory_alloc(fake->memory, sizeof *object) : NULL;
    if (!object)
        return NULL;
    object->kind = kind;
    object->next = lt->objects;
    lt->objects = object;
    fake->census.handles++;
    return object;
}

/* What it does, it does also where the call fails by plan. */
static cublasStatus_t destroy(enum orr__fake_function function, const void *handle,
                              enum kind kind) {
    struct orr_fake_cuda *fake;
    int fault = orr__fake_enter(function, &fake);
    struct object *object = fake ? find(fake, handle, kind) : NULL;
    if (!object)
        return fault ? (cublasStatus_t)fault : CUBLAS_STATUS_INVALID_VALUE;
    struct object **at = &state_of(fake)->objects;
    while (*at != object)
        at = &(*at)->next;
    *at = object->next;
    fake->census.handles--;
    orr_memory_free(fake->memory, object);
    return (cublasStatus_t)fault;
}

/* ---- Objects ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out_handle) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtCreate);
    *out_handle = (cublasLtHandle_t)(void *)make(fake, HANDLE);
    return *out_handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return destroy(ORR__FAKE_cublasLtDestroy, handle, HANDLE);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out_product,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatmulDescCreate);
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    struct object *object = make(fake, PRODUCT);
    *out_product = (cublasLtMatmulDesc_t)(void *)object;
    if (!object)
        return CUBLAS_STATUS_ALLOC_FAILED;
    object->product.op_a = object->product.op_b = CUBLAS_OP_N;
    object->product.compute = compute;
    object->product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
    return destroy(ORR__FAKE_cublasLtMatmulDescDestroy, product, PRODUCT);
}

static cublasStatus_t assign(void *to, size_t size, const void *from, size_t given) {
    if (!from || given != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, size);
    return CUBLAS_STATUS_SUCCESS;
}

#define ASSIGN(to) assign(&(to), sizeof(to), value, bytes)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatmulDescSetAttribute);
    struct object *object = find(fake, product, PRODUCT);
    if (!object)
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return ASSIGN(object->product.op_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return ASSIGN(object->product.op_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return ASSIGN(object->product.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return ASSIGN(object->product.bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out_layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t step) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatrixLayoutCreate);
    struct object *object = make(fake, LAYOUT);
    *out_layout = (cublasLtMatrixLayout_t)(void *)object;
    if (!object)
        return CUBLAS_STATUS_ALLOC_FAILED;
    object->layout.type = type;
    object->layout.rows = (int64_t)rows;
    object->layout.columns = (int64_t)columns;
    object->layout.step = step;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy(ORR__FAKE_cublasLtMatrixLayoutDestroy, layout, LAYOUT);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatrixLayoutSetAttribute);
    struct object *object = find(fake, layout, LAYOUT);
    if (!object)
        return CUBLAS_STATUS_INVALID_VALUE;
    return attribute == CUBLASLT_MATRIX_LAYOUT_LD ? ASSIGN(object->layout.step)
                                                  : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out_preference) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatmulPreferenceCreate);
    *out_preference = (cublasLtMatmulPreference_t)(void *)make(fake, PREFERENCE);
    return *out_preference ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy(ORR__FAKE_cublasLtMatmulPreferenceDestroy, preference, PREFERENCE);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute);
    struct object *object = find(fake, preference, PREFERENCE);
    uint32_t alignment; /* any will do */
    if (!object)
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return ASSIGN(object->workspace_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return ASSIGN(alignment);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

/* ---- Products ---- */

/* The product of the descriptions; INVALID_VALUE if they don't go together. */
static cublasStatus_t describe(struct orr_fake_cuda *fake, cublasLtMatmulDesc_t product_handle,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, struct orr__fake_gemm *out_gemm) {
    const struct object *product = find(fake, product_handle, PRODUCT);
    const struct object *of_a = find(fake, a, LAYOUT), *of_b = find(fake, b, LAYOUT);
    const struct object *of_c = find(fake, c, LAYOUT);
    if (!product || !of_a || !of_b || !of_c || of_a->layout.type != of_b->layout.type)
        return CUBLAS_STATUS_INVALID_VALUE;
    bool plain_a = product->product.op_a == CUBLAS_OP_N;
    bool plain_b = product->product.op_b == CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = product->product.epilogue;
    bool adds = epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    bool relu = epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    *out_gemm = (struct orr__fake_gemm){
        .op_a = product->product.op_a,
        .op_b = product->product.op_b,
        .type = of_a->layout.type,
        .result = of_c->layout.type,
        .compute = product->product.compute,
        .m = of_c->layout.rows,
        .n = of_c->layout.columns,
        .k = plain_a ? of_a->layout.columns : of_a->layout.rows,
        .lda = of_a->layout.step,
        .ldb = of_b->layout.step,
        .ldc = of_c->layout.step,
        .batch = 1,
        .bias = adds ? product->product.bias : NULL,
        .relu = relu,
    };
    bool fits = (plain_a ? of_a->layout.rows : of_a->layout.columns) == out_gemm->m &&
                (plain_b ? of_b->layout.rows : of_b->layout.columns) == out_gemm->k &&
                (plain_b ? of_b->layout.columns : of_b->layout.rows) == out_gemm->n &&
                (!adds || out_gemm->bias);
    if (!fits)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!adds && !relu && epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return orr__fake_gemm_check(out_gemm);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *out_found) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic);
    struct orr__fake_gemm gemm;
    *out_found = 0;
    if (!find(fake, handle, HANDLE))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (wanted < 1 || c != d || !find(fake, preference, PREFERENCE))
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = describe(fake, product, a, b, c, &gemm);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    results[0] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS};
    results[0].algo.data[0] = ALGORITHM;
    *out_found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t layout_a,
                              const void *b, cublasLtMatrixLayout_t layout_b, const void *beta,
                              const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    ORR__FAKE_ENTER(cublasStatus_t, cublasLtMatmul);
    struct orr__fake_gemm gemm;
    if (!find(fake, handle, HANDLE))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool known = !algorithm || algorithm->data[0] == ALGORITHM;
    if (!alpha || !beta || c != d || layout_c != layout_d || !known ||
        (uintptr_t)workspace % 256 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = describe(fake, product, layout_a, layout_b, layout_c, &gemm);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    gemm.alpha = orr__fake_gemm_scalar(gemm.compute, alpha);
    gemm.beta = orr__fake_gemm_scalar(gemm.compute, beta);
    gemm.a = a;
    gemm.b = b;
    gemm.c = d;
    return orr__fake_blas_enqueue(fake, stream, &gemm, workspace, workspace_bytes);
}
