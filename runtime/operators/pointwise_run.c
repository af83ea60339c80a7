#include "runtime/operators/pointwise_internal.h"

#include <assert.h>
#include <string.h>

enum {
    COMPUTE_SIZE_MAX = 8,     /* bytes of one element while it is computed */
    PERIOD_TABLE_MAX = 16384, /* a row up to this long is converted once and kept */
    SCRATCH_BLOCK = ORR__BLOCK * COMPUTE_SIZE_MAX
};

enum load_kind {
    LOAD_STREAM,  /* the result's own order */
    LOAD_READY,   /* one value for all, already in the block */
    LOAD_PERIOD,  /* a row repeated, converted to a table one block longer than the row */
    LOAD_STRIDED, /* any other broadcast */
};

/* How one operand gets into its slot. */
struct loader {
    enum load_kind kind;
    const char *data;
    char *block; /* scratch of one block */
    char *table;
    struct orr__strided array; /* over the result's elements, stride 0 where broadcast */
};

struct machine {
    const struct orr__stage *stages;
    int stage_count, operand_count;
    enum orr_dtype dtype;   /* of the tensors */
    enum orr_dtype compute; /* of the blocks */
    size_t size, compute_size;
    struct loader loaders[ORR__SLOTS_MAX];
    char *results[ORR__STAGES_MAX];
};

static enum orr_dtype compute_dtype(enum orr_dtype dtype) {
    switch (dtype) {
    case ORR_DTYPE_F64: return ORR_DTYPE_F64;
    case ORR_DTYPE_I32:
    case ORR_DTYPE_I64: return ORR_DTYPE_I64;
    default: return ORR_DTYPE_F32;
    }
}

/* Strides of an operand over the result's dimensions. */
static struct orr__strided broadcast_over(const struct orr_shape *operand,
                                          const struct orr_shape *result) {
    struct orr__strided array = {.rank = result->rank};
    int64_t dense[ORR_RANK_MAX] = {0};
    orr__dense_strides(operand, dense);
    int missing = result->rank - operand->rank;
    assert(missing >= 0);
    for (int i = 0; i < result->rank; i++) {
        array.dims[i] = result->dims[i];
        bool stretched = i < missing || operand->dims[i - missing] == 1;
        array.strides[i] = stretched ? 0 : dense[i - missing];
    }
    orr__strided_merge(&array);
    return array;
}

static enum load_kind classify(const struct orr__strided *array) {
    if (array->rank == 0 || (array->rank == 1 && array->strides[0] == 0))
        return LOAD_READY;
    if (array->rank == 1 && array->strides[0] == 1)
        return LOAD_STREAM;
    if (array->rank == 2 && array->strides[0] == 0 && array->strides[1] == 1 &&
        array->dims[1] <= PERIOD_TABLE_MAX)
        return LOAD_PERIOD;
    return LOAD_STRIDED;
}

/* Elements of scratch that an operand's loader needs beside its block. */
static size_t table_length(const struct loader *loader) {
    return loader->kind == LOAD_PERIOD ? (size_t)loader->array.dims[1] + ORR__BLOCK : 0;
}

static void fill(char *to, const char *element, size_t size, size_t count) {
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * size, element, size);
}

/* Converts what stays the same for all blocks. */
static void prepare(const struct machine *machine, struct loader *loader) {
    size_t size = machine->compute_size;
    if (loader->kind == LOAD_READY) {
        orr_dtype_convert(machine->compute, loader->block, machine->dtype, loader->data, 1);
        fill(loader->block + size, loader->block, size, ORR__BLOCK - 1);
    }
    if (loader->kind != LOAD_PERIOD)
        return;
    size_t period = (size_t)loader->array.dims[1];
    orr_dtype_convert(machine->compute, loader->table, machine->dtype, loader->data, period);
    for (size_t done = 0; done < ORR__BLOCK; done++)
        memcpy(loader->table + (period + done) * size, loader->table + done * size, size);
}

static void load_strided(const struct machine *machine, const struct loader *loader, int64_t first,
                         int count) {
    const struct orr__strided *array = &loader->array;
    int inner = array->rank - 1;
    int64_t at[ORR_RANK_MAX];
    for (int done = 0; done < count;) {
        int64_t offset = orr__strided_seek(array, first + done, at);
        int64_t rest = array->dims[inner] - at[inner];
        size_t run = (size_t)(rest < count - done ? rest : count - done);
        char *to = loader->block + (size_t)done * machine->compute_size;
        const char *from = loader->data + (size_t)offset * machine->size;
        bool single = array->strides[inner] == 0;
        orr_dtype_convert(machine->compute, to, machine->dtype, from, single ? 1 : run);
        if (single)
            fill(to + machine->compute_size, to, machine->compute_size, run - 1);
        done += (int)run;
    }
}

/* The block of an operand that belongs to result elements first .. first + count - 1. */
static const void *load(const struct machine *machine, const struct loader *loader, int64_t first,
                        int count) {
    switch (loader->kind) {
    case LOAD_READY: return loader->block;
    case LOAD_PERIOD:
        return loader->table + (size_t)(first % loader->array.dims[1]) * machine->compute_size;
    case LOAD_STREAM: {
        const char *from = loader->data + (size_t)first * machine->size;
        if (machine->compute == machine->dtype && count == ORR__BLOCK)
            return from;
        orr_dtype_convert(machine->compute, loader->block, machine->dtype, from, (size_t)count);
        break;
    }
    case LOAD_STRIDED: load_strided(machine, loader, first, count); break;
    }
    if (count < ORR__BLOCK)
        memset(loader->block + (size_t)count * machine->compute_size, 0,
               (size_t)(ORR__BLOCK - count) * machine->compute_size);
    return loader->block;
}

/* Rounds a stage's result to the tensors' dtype, in place. */
static void round_block(const struct machine *machine, void *block, int count) {
    if (machine->dtype == ORR_DTYPE_I32) {
        int64_t *values = block;
        for (int i = 0; i < ORR__BLOCK; i++)
            values[i] = (int32_t)(uint32_t)values[i];
    } else if (machine->dtype == ORR_DTYPE_F16 || machine->dtype == ORR_DTYPE_BF16) {
        uint16_t rounded[ORR__BLOCK];
        orr_dtype_convert(machine->dtype, rounded, ORR_DTYPE_F32, block, (size_t)count);
        orr_dtype_convert(ORR_DTYPE_F32, block, machine->dtype, rounded, (size_t)count);
    }
}

static void run_block(const struct machine *machine, const struct orr_tensor_view *output,
                      int64_t first, int count) {
    const void *slots[ORR__SLOTS_MAX];
    for (int i = 0; i < machine->operand_count; i++)
        slots[i] = load(machine, &machine->loaders[i], first, count);
    for (int i = 0; i < machine->stage_count; i++) {
        const struct orr__stage *stage = &machine->stages[i];
        const struct orr__pointwise *kernels = orr__pointwise_of(stage->op);
        assert(kernels && stage->inputs[0] >= 0 && stage->inputs[1] >= 0);
        assert(stage->inputs[0] < machine->operand_count + i &&
               stage->inputs[1] < machine->operand_count + i); /* earlier slots only */
        struct orr__block block = {.a = slots[stage->inputs[0]],
                                   .b = slots[stage->inputs[1]],
                                   .out = machine->results[i],
                                   .count = count,
                                   .first = first,
                                   .shape = &output->shape,
                                   .attributes = stage->attributes};
        orr__kernel kernel = machine->compute == ORR_DTYPE_F32   ? kernels->f32
                             : machine->compute == ORR_DTYPE_F64 ? kernels->f64
                                                                 : kernels->i64;
        assert(kernel); /* infer has asked for the dtypes that there are kernels for */
        kernel(&block);
        bool rounds_anyway = i == machine->stage_count - 1 && machine->dtype != ORR_DTYPE_I32;
        if (!rounds_anyway)
            round_block(machine, machine->results[i], count);
        slots[machine->operand_count + i] = machine->results[i];
    }
    orr_dtype_convert(machine->dtype, (char *)output->data + (size_t)first * machine->size,
                      machine->compute, machine->results[machine->stage_count - 1], (size_t)count);
}

/* Gives each loader and stage its part of the scratch; returns the bytes needed. */
static size_t lay_out(struct machine *machine, char *scratch) {
    size_t used = 0;
    for (int i = 0; i < machine->operand_count; i++) {
        struct loader *loader = &machine->loaders[i];
        loader->block = scratch ? scratch + used : NULL;
        used += SCRATCH_BLOCK;
        loader->table = scratch ? scratch + used : NULL;
        used += table_length(loader) * COMPUTE_SIZE_MAX;
    }
    for (int i = 0; i < machine->stage_count; i++, used += SCRATCH_BLOCK)
        machine->results[i] = scratch ? scratch + used : NULL;
    return used;
}

enum orr_status orr__pointwise_run(const struct orr__stage *stages, int stage_count,
                                   const struct orr_tensor_view *operands, int operand_count,
                                   const struct orr_tensor_view *output,
                                   const struct orr_memory *memory, struct orr_error *error) {
    assert(stage_count > 0 && stage_count <= ORR__STAGES_MAX);
    assert(operand_count >= 0 && operand_count + stage_count <= ORR__SLOTS_MAX);
    int64_t total = orr_shape_count(&output->shape);
    if (total == 0)
        return ORR_OK;
    struct machine machine = {.stages = stages,
                              .stage_count = stage_count,
                              .operand_count = operand_count,
                              .dtype = output->dtype,
                              .compute = compute_dtype(output->dtype),
                              .size = orr_dtype_size(output->dtype)};
    machine.compute_size = orr_dtype_size(machine.compute);
    for (int i = 0; i < operand_count; i++) {
        struct loader *loader = &machine.loaders[i];
        loader->data = operands[i].data;
        loader->array = broadcast_over(&operands[i].shape, &output->shape);
        loader->kind = classify(&loader->array);
    }
    size_t scratch_size = lay_out(&machine, NULL);
    char *scratch = orr_memory_resize(memory, NULL, scratch_size);
    if (!scratch)
        return orr__no_scratch(stages[0].op, scratch_size, error);
    lay_out(&machine, scratch);
    for (int i = 0; i < operand_count; i++)
        prepare(&machine, &machine.loaders[i]);
    for (int64_t first = 0; first < total; first += ORR__BLOCK)
        run_block(&machine, output, first,
                  (int)(total - first < ORR__BLOCK ? total - first : ORR__BLOCK));
    orr_memory_free(memory, scratch);
    return ORR_OK;
}
