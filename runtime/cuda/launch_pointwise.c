/* Launchers of pointwise operators and chains of them: a program for the kernels of
 * kernels/pointwise.h. */
#include <assert.h>
#include <string.h>

#include "runtime/cuda/gemm.h"
#include "runtime/cuda/launch.h"
#include "runtime/operators/random_internal.h"

_Static_assert((int)ORR__K_STAGES_MAX == (int)ORR_FUSED_STAGES_MAX, "a chain fits the kernel");
_Static_assert((int)ORR__K_OPERANDS_MAX == (int)ORR_FUSED_OPERANDS_MAX + 1,
               "its operands and a product's result fit, too");

static const char *const names[ORR__P_COUNT] = {
#define NAME(name) [ORR__P_##name] = #name,
    ORR__K_POINTWISE_BINARY(NAME) ORR__K_POINTWISE_UNARY(NAME)
#undef NAME
};

/* ORR__P_COUNT if it is none. */
static int op_of(const char *name) {
    int op = 0;
    while (op < ORR__P_COUNT && strcmp(names[op], name) != 0)
        op++;
    return op;
}

/* ---- Strides ---- */

/* Strides of an operand over the result's dimensions. */
static void broadcast(const struct orr_shape *x, const struct orr_shape *y, int64_t *out_strides) {
    int64_t dense[ORR_RANK_MAX] = {0};
    int missing = y->rank - x->rank;
    orr__dense_strides(x, dense);
    for (int i = 0; i < y->rank; i++) {
        bool stretched = i < missing || x->dims[i - missing] == 1;
        out_strides[i] = stretched ? 0 : dense[i - missing];
    }
}

static enum orr__k_operand_kind kind_of(const struct orr_shape *x, const struct orr_shape *y) {
    if (orr_shape_count(x) == orr_shape_count(y))
        return ORR__K_DENSE; /* at most dimensions of 1 are missing */
    return orr_shape_count(x) == 1 ? ORR__K_SINGLE : ORR__K_STRIDED;
}

/* Strides over the same dimensions. */
struct lists {
    int64_t *strides[ORR__K_OPERANDS_MAX + ORR__K_STAGES_MAX];
    int count;
};

static bool joins(const struct lists *lists, int outer, int inner, int64_t inner_dim) {
    for (int i = 0; i < lists->count; i++)
        if (lists->strides[i][outer] != inner_dim * lists->strides[i][inner])
            return false;
    return true;
}

/* Drops dimensions of 1 and joins neighbours that are one run in all lists; returns how many are
 * left. */
static int join_dims(const struct orr_shape *shape, const struct lists *lists, int64_t *out_dims) {
    int rank = 0;
    for (int dim = 0; dim < shape->rank; dim++) {
        int64_t length = shape->dims[dim];
        if (length == 1)
            continue;
        bool joined = rank > 0 && joins(lists, rank - 1, dim, length);
        int to = joined ? rank - 1 : rank++;
        out_dims[to] = joined ? out_dims[to] * length : length;
        for (int i = 0; i < lists->count; i++)
            lists->strides[i][to] = lists->strides[i][dim];
    }
    return rank;
}

/* ---- Stages ---- */

/* Where the elements of the result are in the whole of which it is a part. */
static void place(const struct orr_shape *shape, const struct orr_shape *whole,
                  const struct orr_shape *starts, uint64_t *out_base, int64_t *out_strides) {
    *out_base = 0;
    orr__dense_strides(whole->rank > 0 ? whole : shape, out_strides);
    for (int i = 0; i < whole->rank; i++)
        *out_base += (uint64_t)(starts->dims[i] * out_strides[i]);
}

/* p, seed, global_shape, starts. */
static void fill_dropout(struct orr__k_stage *stage, const struct orr_attributes *attributes,
                         const struct orr_shape *shape) {
    const struct orr_attribute *values = attributes->values;
    double p = values[0].real;
    stage->factor = p < 1 ? 1 / (1 - p) : 0;
    stage->key = orr__random_key((uint64_t)values[1].integer);
    stage->threshold = orr__dropout_threshold(p);
    place(shape, &values[2].shape, &values[3].shape, &stage->base, stage->strides);
}

static bool fill_stage(struct orr__k_stage *stage, const struct orr_fused_stage *from,
                       const struct orr_shape *shape) {
    stage->op = op_of(from->op->name);
    if (stage->op == ORR__P_scale)
        stage->factor = from->attributes.values[0].real;
    if (stage->op == ORR__P_dropout)
        fill_dropout(stage, &from->attributes, shape);
    return stage->op < ORR__P_COUNT;
}

/* ---- Programs ---- */

struct program {
    struct orr__k_pointwise a;
    int operand_count;
    int slots[ORR_FUSED_SLOTS_MAX]; /* the kernel's, by the fused kernel's; UNUSED */
};

enum { UNUSED = INT32_MAX };

/* The kernel's slot for a fused kernel's, which is in memory or a stage's result. */
static int slot_of(struct program *program, int slot, const struct orr_tensor_view *view,
                   const struct orr_shape *shape) {
    if (program->slots[slot] == UNUSED) {
        assert(program->operand_count < ORR__K_OPERANDS_MAX);
        struct orr__k_operand *operand = &program->a.operands[program->operand_count];
        operand->data = view->data;
        operand->kind = (int32_t)kind_of(&view->shape, shape);
        broadcast(&view->shape, shape, operand->strides);
        program->slots[slot] = program->operand_count++;
    }
    return program->slots[slot];
}

static void fill_inputs(struct program *program, const struct orr_task_fused *task, int first,
                        int index) {
    const struct orr_fused *fused = task->fused;
    const struct orr_fused_stage *from = &fused->stages[index];
    int32_t slots[2];
    for (int i = 0; i < 2; i++) {
        int slot = from->inputs[i < from->input_count ? i : 0];
        const struct orr_tensor_view *view =
            slot < fused->operand_count ? &task->operands[slot] : task->result;
        slots[i] = slot_of(program, slot, view, &task->result->shape);
        int stage = -1 - slots[i];
        if (stage >= 0 && stage != index - first - 1)
            program->a.stages[stage].keep = 1;
    }
    program->a.stages[index - first].a = slots[0];
    program->a.stages[index - first].b = slots[1];
    program->slots[fused->operand_count + index] = -1 - (index - first);
}

/* Joins dimensions, and says whether four elements at once can be read and written. */
static void finish(struct program *program, const struct orr_tensor_view *result) {
    struct orr__k_pointwise *a = &program->a;
    struct lists lists = {.count = 0};
    uintptr_t addresses = (uintptr_t)result->data;
    for (int i = 0; i < program->operand_count; i++) {
        if (a->operands[i].kind == ORR__K_STRIDED)
            lists.strides[lists.count++] = a->operands[i].strides;
        if (a->operands[i].kind == ORR__K_DENSE)
            addresses |= (uintptr_t)a->operands[i].data;
    }
    for (int i = 0; i < a->stage_count; i++)
        if (a->stages[i].op == ORR__P_dropout)
            lists.strides[lists.count++] = a->stages[i].strides;
    a->rank = join_dims(&result->shape, &lists, a->dims);
    a->vectors = addresses % (ORR__K_VECTOR * orr_dtype_size(result->dtype)) == 0;
}

static enum orr__cuda_kernel kernel_of(enum orr_dtype dtype) {
    if (dtype == ORR_DTYPE_F64)
        return ORR__K_pointwise_f64;
    return dtype == ORR_DTYPE_I32 || dtype == ORR_DTYPE_I64 ? ORR__K_pointwise_i64
                                                            : ORR__K_pointwise_f32;
}

enum orr_status orr__cuda_pointwise(struct orr__cuda_queue *queue,
                                    const struct orr_task_fused *task, int first,
                                    struct orr_error *error) {
    const struct orr_fused *fused = task->fused;
    const struct orr_tensor_view *y = task->result;
    struct program program = {.a = {.out = y->data,
                                    .count = orr_shape_count(&y->shape),
                                    .dtype = (int32_t)y->dtype,
                                    .stage_count = fused->stage_count - first}};
    program.a.small = program.a.count <= INT32_MAX;
    if (program.a.count == 0)
        return ORR_OK;
    for (int i = 0; i < ORR_FUSED_SLOTS_MAX; i++)
        program.slots[i] = UNUSED;
    for (int i = first; i < fused->stage_count; i++) {
        if (!fill_stage(&program.a.stages[i - first], &fused->stages[i], &y->shape))
            return orr_error_set(error, ORR_UNSUPPORTED, "%s: there is no CUDA kernel for it",
                                 fused->stages[i].op->name);
        fill_inputs(&program, task, first, i);
    }
    finish(&program, y);
    uint64_t vectors = ((uint64_t)program.a.count + ORR__K_VECTOR - 1) / ORR__K_VECTOR;
    return orr__cuda_launch(queue, kernel_of(y->dtype), orr__cuda_grid(queue, vectors),
                            ORR__CUDA_BLOCK, 0, &program.a, error);
}

/* One operator is a chain of one stage. */
static enum orr_status launch_one(struct orr__cuda_queue *queue,
                                  const struct orr_task_operator *call, struct orr_error *error) {
    struct orr_fused fused = {.operand_count = call->input_count, .stage_count = 1};
    fused.stages[0].op = call->op;
    fused.stages[0].attributes = *call->attributes;
    fused.stages[0].input_count = call->input_count;
    for (int i = 0; i < call->input_count; i++)
        fused.stages[0].inputs[i] = i;
    struct orr_task_fused task = {
        .fused = &fused, .operands = call->inputs, .result = &call->outputs[0]};
    return orr__cuda_pointwise(queue, &task, 0, error);
}

/* The product goes to the result's memory, rounded, and the chain works on it in place. */
static enum orr_status launch_product(struct orr__cuda_queue *queue,
                                      const struct orr_task_fused *task, struct orr_error *error) {
    const struct orr_fused_stage *product = &task->fused->stages[0];
    const struct orr__cuda_operator *row = orr__cuda_operator_find(product->op->name);
    struct orr_tensor_view inputs[ORR_FUSED_INPUTS_MAX];
    if (!row)
        return orr_error_set(error, ORR_UNSUPPORTED, "%s: there is no CUDA kernel for it",
                             product->op->name);
    for (int i = 0; i < product->input_count; i++)
        inputs[i] = task->operands[product->inputs[i]];
    struct orr_task_operator call = {.op = product->op,
                                     .attributes = &product->attributes,
                                     .input_count = product->input_count,
                                     .inputs = inputs,
                                     .outputs = task->result};
    return row->launch(queue, &call, error);
}

enum orr_status orr__cuda_fused(struct orr__cuda_queue *queue, const struct orr_task_fused *task,
                                struct orr_error *error) {
    enum orr_status status = ORR_OK;
    int first = 0;
    if (task->fused->stages[0].op->class == ORR_OPERATOR_GEMM) {
        status = orr__cuda_product_epilogue(queue, task, &first, error);
        if (status == ORR_OK && first == 0) {
            status = launch_product(queue, task, error);
            first = 1;
        }
    }
    if (status != ORR_OK || first == task->fused->stage_count)
        return status;
    return orr__cuda_pointwise(queue, task, first, error);
}

/* ---- Dropout with a mask ---- */

static enum orr_status launch_mask(struct orr__cuda_queue *queue, struct orr__k_dropout_mask *a,
                                   const struct orr_task_operator *call, struct orr_error *error) {
    double p = orr__cuda_real(call, "p");
    a->y = call->outputs[0].data;
    a->x = call->inputs[0].data;
    a->count = orr_shape_count(&call->inputs[0].shape);
    a->factor = p < 1 ? 1 / (1 - p) : 0;
    a->dtype = (int32_t)call->inputs[0].dtype;
    return orr__cuda_launch(queue, ORR__K_dropout_mask, orr__cuda_grid(queue, (uint64_t)a->count),
                            ORR__CUDA_BLOCK, 0, a, error);
}

static enum orr_status launch_dropout_mask(struct orr__cuda_queue *queue,
                                           const struct orr_task_operator *call,
                                           struct orr_error *error) {
    const struct orr_shape *shape = &call->inputs[0].shape;
    struct orr__k_dropout_mask a = {.mask = call->outputs[1].data};
    struct lists lists = {.strides = {a.strides}, .count = 1};
    if (orr_shape_count(shape) == 0)
        return ORR_OK;
    a.key = orr__random_key((uint64_t)orr__cuda_integer(call, "seed"));
    a.threshold = orr__dropout_threshold(orr__cuda_real(call, "p"));
    place(shape, &orr__cuda_attribute(call, "global_shape")->shape,
          &orr__cuda_attribute(call, "starts")->shape, &a.base, a.strides);
    a.rank = join_dims(shape, &lists, a.dims);
    a.small = orr_shape_count(shape) <= INT32_MAX;
    return launch_mask(queue, &a, call, error);
}

static enum orr_status launch_dropout_mask_backward(struct orr__cuda_queue *queue,
                                                    const struct orr_task_operator *call,
                                                    struct orr_error *error) {
    struct orr__k_dropout_mask a = {.mask = call->inputs[1].data, .reads = 1};
    return launch_mask(queue, &a, call, error);
}

const struct orr__cuda_operator orr__cuda_pointwise_operators[] = {
#define ROW(name) {#name, launch_one},
    ORR__K_POINTWISE_BINARY(ROW) ORR__K_POINTWISE_UNARY(ROW)
#undef ROW
        {"dropout_mask", launch_dropout_mask},
    {"dropout_mask_backward", launch_dropout_mask_backward},
    {NULL, NULL},
};
