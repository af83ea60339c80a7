/* A CUDA stream as the launchers of operators see it: where kernels go, with what they need besides
 * operands.
 *
 * The launchers (launch_*.c, one file for a family of operators) turn a task into kernels and
 * library calls. They know nothing of points, records or other streams, so that they are tested
 * with a queue whose table of entry points runs everything at once.
 *
 *     struct orr__k_softmax a = {.x = x->data, .y = y->data, .rows = rows, .width = width};
 *     status = orr__cuda_launch(queue, ORR__K_softmax_f32, orr__cuda_grid_rows(queue, rows),
 *                               ORR__CUDA_BLOCK, ORR__CUDA_SHARED_SCRATCH, &a, error);
 *
 * Threads: a queue belongs to the host's thread. */
#ifndef ORR_RUNTIME_CUDA_QUEUE_H
#define ORR_RUNTIME_CUDA_QUEUE_H

#include "runtime/cuda/api.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/kernels/fault.h"
#include "runtime/cuda/kernels/kernels.h"
#include "runtime/memory.h"
#include "runtime/task.h"

enum {
    ORR__CUDA_OUTGROWN_MAX = 96,        /* growths of a queue's scratch, each by half or more */
    ORR__CUDA_BLOCK = 256,              /* threads of a block, unless a kernel wants others */
    ORR__CUDA_SHARED_SCRATCH = 33 * 8,  /* bytes that the block reductions need */
    ORR__CUDA_BLAS_WORKSPACE = 32 << 20 /* bytes; NVIDIA's advice for Hopper (cuBLAS guide,
                                                cublasSetWorkspace) */
};

struct orr__cuda_queue {
    struct orr__cuda_api *api;
    const struct orr__cuda_code *code;
    const struct orr_memory *memory; /* of the host */
    cudaStream_t stream;
    uint32_t sm_count;
    struct orr__cuda_fault *fault; /* address that both host and kernels use */
    /* Made on first use, freed by orr__cuda_queue_clear. */
    cublasHandle_t blas;
    cublasLtHandle_t blaslt;
    void *workspace, *scratch;
    uint64_t scratch_bytes;
    /* Scratch that has been too small: graphs that were captured with it still use it. */
    void *outgrown[ORR__CUDA_OUTGROWN_MAX];
    uint32_t outgrown_count;
    cudaMemPool_t pool; /* where scratch comes from; NULL: cudaMalloc */
};

/* Blocks for `count` elements of work, ORR__CUDA_BLOCK to a block: never more than fill the GPU. */
uint32_t orr__cuda_grid(const struct orr__cuda_queue *queue, uint64_t count);
/* Blocks for `rows` of work, one to a block. */
uint32_t orr__cuda_grid_rows(const struct orr__cuda_queue *queue, uint64_t rows);

/* "softmax": as the image's symbol. */
const char *orr__cuda_kernel_name(enum orr__cuda_kernel kernel);

/* Launches a kernel with one argument struct. A grid of 0 launches nothing. */
enum orr_status orr__cuda_launch(struct orr__cuda_queue *queue, enum orr__cuda_kernel kernel,
                                 uint32_t grid, uint32_t block, uint32_t shared_bytes,
                                 const void *argument, struct orr_error *error) ORR_MUST_CHECK;

/* Device memory for the kernels of one task, which the next one on the queue overwrites; aligned to
 * 256 bytes. */
enum orr_status orr__cuda_scratch(struct orr__cuda_queue *queue, uint64_t bytes, void **out_scratch,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* The queue's cuBLAS handle, with the stream and an explicit workspace set. */
enum orr_status orr__cuda_blas_handle(struct orr__cuda_queue *queue, cublasHandle_t *out_handle,
                                      struct orr_error *error) ORR_MUST_CHECK;

/* Frees what was made on use; the stream has finished. */
void orr__cuda_queue_clear(struct orr__cuda_queue *queue);

/* --- operators.c: tasks --- */

/* How an operator is launched. */
struct orr__cuda_operator {
    const char *name; /* as in the table of operators; NULL ends a list */
    enum orr_status (*launch)(struct orr__cuda_queue *queue, const struct orr_task_operator *call,
                              struct orr_error *error);
};

/* The row of an operator, or NULL if there is no kernel for it. */
const struct orr__cuda_operator *orr__cuda_operator_find(const char *name);

/* Enqueues a task of kind OPERATOR, FUSED, SYNTHETIC, MOVE, COPY or FILL. ORR_UNSUPPORTED names an
 * operator without kernel, or a dtype that its kernel doesn't take. */
enum orr_status orr__cuda_enqueue(struct orr__cuda_queue *queue, const struct orr_task *task,
                                  struct orr_error *error) ORR_MUST_CHECK;

/* The stages of a fused kernel from `first` on, all pointwise; with a `first` of 1 or more, the
 * result's memory holds that of the stage before, and none needs an earlier one's:
 * launch_pointwise.c. */
enum orr_status orr__cuda_pointwise(struct orr__cuda_queue *queue,
                                    const struct orr_task_fused *task, int first,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* The tasks that are no operator: launch_pointwise.c, launch_move.c, launch_synthetic.c. */
enum orr_status orr__cuda_fused(struct orr__cuda_queue *queue, const struct orr_task_fused *task,
                                struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cuda_move(struct orr__cuda_queue *queue, const struct orr_task_move *move,
                               struct orr_error *error) ORR_MUST_CHECK;
enum orr_status orr__cuda_synthetic(struct orr__cuda_queue *queue, const struct orr_task *task,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* Each launch_*.c has one list. */
extern const struct orr__cuda_operator orr__cuda_pointwise_operators[];
extern const struct orr__cuda_operator orr__cuda_move_operators[];
extern const struct orr__cuda_operator orr__cuda_source_operators[];
extern const struct orr__cuda_operator orr__cuda_norm_operators[];
extern const struct orr__cuda_operator orr__cuda_softmax_operators[];
extern const struct orr__cuda_operator orr__cuda_reduction_operators[];
extern const struct orr__cuda_operator orr__cuda_gather_operators[];
extern const struct orr__cuda_operator orr__cuda_expert_operators[];
extern const struct orr__cuda_operator orr__cuda_attention_operators[];
extern const struct orr__cuda_operator orr__cuda_serving_operators[];
extern const struct orr__cuda_operator orr__cuda_gemm_operators[];
extern const struct orr__cuda_operator orr__cuda_quantize_operators[];
extern const struct orr__cuda_operator orr__cuda_image_operators[];
extern const struct orr__cuda_operator orr__cuda_update_operators[];

#endif
