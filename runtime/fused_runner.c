/* Fused kernels on tensors: one kernel per rank for a group of operator calls. */
#include <stdio.h>
#include <string.h>

#include "runtime/tensor_internal.h"

struct fused_work {
    const struct orr_memory *memory;
    struct orr_fused fused;
    struct orr_tensor_view operands[ORR_FUSED_OPERANDS_MAX];
    struct orr_tensor_view result;
};

static enum orr_status run_work(void *object, struct orr_error *error) {
    const struct fused_work *work = object;
    return orr_fused_compute(&work->fused, work->operands, &work->result, work->memory, error);
}

static void describe_work(const void *object, struct orr_task *out_task) {
    const struct fused_work *work = object;
    *out_task = (struct orr_task){
        .kind = ORR_TASK_FUSED,
        .fused = {.fused = &work->fused, .operands = work->operands, .result = &work->result}};
}

static void release_work(void *object) {
    struct fused_work *work = object;
    orr_memory_free(work->memory, work);
}

static struct orr_operand_info local_info(const struct orr_tensor *tensor, uint32_t rank) {
    return (struct orr_operand_info){
        .dtype = tensor->info.dtype,
        .shape = orr_layout_local(&tensor->layout, &tensor->info.shape, rank, NULL)};
}

static struct orr_tensor_view view_of(const struct orr_operand_info *info,
                                      const struct orr_tensor *tensor, uint32_t rank) {
    return (struct orr_tensor_view){
        .dtype = info->dtype, .shape = info->shape, .data = orr_tensor_buffer(tensor, rank)->data};
}

/* "matmul+add+relu" */
static void name_of(const struct orr_fused *fused, char *buffer, size_t size) {
    size_t at = 0;
    buffer[0] = 0;
    for (int i = 0; i < fused->stage_count && at < size; i++) {
        at += (size_t)snprintf(buffer + at, size - at, "%s%s", i ? "+" : "",
                               fused->stages[i].op->name);
    }
}

static struct orr__piece piece_of(const struct orr_tensor *tensor, uint32_t rank) {
    struct orr__piece piece = {.whole = tensor->info.shape};
    piece.shape = orr_layout_local(&tensor->layout, &tensor->info.shape, rank, piece.starts);
    return piece;
}

/* The attributes become the rank's. What a stage makes has the shape and the shards of the result,
 * as all results of a fused kernel. */
static void localize(struct orr_fused *fused, struct orr_tensor *const *operands,
                     const struct orr_tensor *result, uint32_t rank) {
    struct orr__piece whole = piece_of(result, rank), pieces[ORR_FUSED_INPUTS_MAX];
    for (int i = 0; i < fused->stage_count; i++) {
        struct orr_fused_stage *stage = &fused->stages[i];
        for (int k = 0; k < stage->input_count; k++) {
            int slot = stage->inputs[k];
            pieces[k] = slot < fused->operand_count ? piece_of(operands[slot], rank) : whole;
        }
        orr__localize(stage->op, pieces, stage->input_count, &whole, &stage->attributes);
    }
}

static bool add_work(struct orr_runtime *runtime, const struct orr_fused *fused,
                     struct orr__launch *launch) {
    struct fused_work *work = orr_memory_alloc(runtime->memory, sizeof *work);
    if (!work) {
        return false;
    }
    work->memory = runtime->memory;
    work->fused = *fused;
    for (int i = 0; i < launch->input_count; i++) {
        work->operands[i] = view_of(&launch->input_infos[i], launch->inputs[i], launch->rank);
    }
    work->result = view_of(launch->output_infos, launch->outputs[0], launch->rank);
    launch->kernel.work = work;
    launch->kernel.run = run_work;
    launch->kernel.describe = describe_work;
    launch->kernel.release = release_work;
    return true;
}

static enum orr_status run_on_rank(struct orr_runtime *runtime, const struct orr_fused *fused,
                                   struct orr_tensor *const *operands, struct orr_tensor *result,
                                   uint32_t rank, uint64_t *op) {
    struct orr_operand_info infos[ORR_FUSED_OPERANDS_MAX], out = local_info(result, rank);
    for (int i = 0; i < fused->operand_count; i++) {
        infos[i] = local_info(operands[i], rank);
    }
    char name[128];
    struct orr_fused local = *fused;
    name_of(fused, name, sizeof name);
    localize(&local, operands, result, rank);
    struct orr_cost cost = orr_fused_cost(&local, infos, &out);
    if (rank == 0) {
        *op = orr__op_record(runtime, name, orr__operator_class_text(fused->stages[0].op->class),
                             cost, &result->info, 0);
    }
    struct orr__launch launch = {
        .rank = rank,
        .inputs = operands,
        .input_infos = infos,
        .input_count = fused->operand_count,
        .outputs = &result,
        .output_infos = &out,
        .output_count = 1,
        .kernel = {.name = name,
                   .dtype = orr__arithmetic_dtype(infos, fused->operand_count, &out),
                   .cost = cost,
                   .op = *op}};
    bool computes = !runtime->timing_only && orr_tensor_buffer(result, rank)->data;
    if (computes && !add_work(runtime, &local, &launch)) {
        return orr__runtime_no_memory(runtime);
    }
    return orr__launch_kernel(runtime, &launch);
}

enum orr_status orr__run_fused(struct orr_runtime *runtime, const struct orr_fused *fused,
                               struct orr_tensor *const *operands, struct orr_tensor *result) {
    const struct orr_mesh *mesh = result->layout.mesh;
    orr__runtime_operator_begin(runtime, mesh->devices[0], -1);
    enum orr_status status = orr__tensor_allocate(result, ORR_STREAM_COMPUTE, "fused");
    uint64_t op = 0;
    for (uint32_t rank = 0; status == ORR_OK && rank < mesh->size; rank++) {
        status = run_on_rank(runtime, fused, operands, result, rank, &op);
    }
    orr__runtime_operator_end(runtime, status == ORR_OK && !runtime->capture);
    return status;
}
