/* Tensors, their storage and how operators become kernels: shared by tensor.c, runner.c,
 * redistribute.c, future.c and region.c.
 *
 * Threads: as the runtime. */
#ifndef ORR_RUNTIME_TENSOR_INTERNAL_H
#define ORR_RUNTIME_TENSOR_INTERNAL_H

#include "runtime/operators/fused.h"
#include "runtime/runtime_internal.h"
#include "runtime/tensor.h"

/* One rank's memory, and who wrote it last. */
struct orr__blob {
    uint32_t references; /* storages that have it */
    struct orr_buffer *buffer;
    struct orr_stream *writer; /* NULL: contents were there from the start */
    struct orr_point written;
    uint64_t mark; /* the count of runtime->mark_count that saw it last */
};

/* Blobs of a tensor; shared by tensors that alias each other (reshape). A view has blobs of another
 * storage, in another order or only some of them: the same memory on another mesh. */
struct orr__storage {
    uint32_t references; /* tensors that have it */
    uint32_t views;      /* views of it, which need the structure but keep only their blobs */
    uint32_t count;
    struct orr__storage *base; /* NULL: no view, the blobs are here */
    uint32_t *ranks;           /* a view's: index of each rank's blob in the base; owned */
    struct orr__blob blobs[];
};

static inline struct orr__blob *orr__storage_blob(struct orr__storage *storage, uint32_t rank) {
    return storage->base ? &storage->base->blobs[storage->ranks[rank]] : &storage->blobs[rank];
}

struct orr_tensor {
    struct orr_runtime *runtime;
    struct orr_operand_info info; /* of the whole */
    struct orr_layout layout;
    struct orr__storage *storage;       /* NULL: not computed yet (in a region) */
    struct orr_tensor *previous, *next; /* live ones of the runtime */
    enum orr_role role;                 /* of its memory, until that is there */
    int node;                           /* index of the open region's node that makes it; -1 */
    bool dead;                          /* made inside a region and not returned from it */
    bool replaced;                      /* an operator changed its memory and handed it on */
    uint32_t references;                /* the user's handle, and nodes of an open region */
    uint64_t serial;                    /* from 1, never used again: tapes know it by this */
    uint64_t mark;                      /* as its blobs', while it has none */
    uint64_t family;                    /* serial of what it is a reshape of; its own if of none */
    uint32_t evicted;                   /* 0: no; else how many of the family went with it */
    uint32_t evictions;                 /* so far: its memory is another one after each */
};

/* A tensor without storage; NULL without memory. */
struct orr_tensor *orr__tensor_new(struct orr_runtime *runtime, const struct orr_operand_info *info,
                                   const struct orr_layout *layout);
void orr__tensor_release(struct orr_tensor *tensor);
void orr__tensors_destroy(struct orr_runtime *runtime);
void orr__futures_destroy(struct orr_runtime *runtime);
void orr__compiled_destroy(struct orr_runtime *runtime);
/* Outside of a region, or after its flush: ORR_INVALID for a tensor that has no memory. */
enum orr_status orr__tensor_check_kept(const struct orr_tensor *tensor,
                                       const char *who) ORR_MUST_CHECK;
/* Its memory goes; the handle stays, dead. */
void orr__tensor_drop_storage(struct orr_tensor *tensor);

/* Allocates its blobs for the devices' streams of a kind. */
enum orr_status orr__tensor_allocate(struct orr_tensor *tensor, enum orr_stream_kind kind,
                                     const char *label) ORR_MUST_CHECK;
/* The same with a stream for each rank. */
enum orr_status orr__tensor_allocate_each(struct orr_tensor *tensor,
                                          struct orr_stream *const *streams,
                                          const char *label) ORR_MUST_CHECK;
void orr__tensor_share(struct orr_tensor *tensor, struct orr_tensor *with);
/* Shares memory across meshes: rank i's blob is that of rank ranks[i] of the other one. `ranks` are
 * owned, also after a failure. */
enum orr_status orr__tensor_share_ranks(struct orr_tensor *tensor, struct orr_tensor *with,
                                        uint32_t *ranks) ORR_MUST_CHECK;
static inline struct orr__blob *orr__tensor_blob(const struct orr_tensor *tensor, uint32_t rank) {
    return orr__storage_blob(tensor->storage, rank);
}

/* Makes `stream` wait for the last write of a blob, if another stream made it, and lets the
 * allocator know that `stream` uses it. */
enum orr_status orr__blob_use(struct orr__blob *blob, struct orr_stream *stream) ORR_MUST_CHECK;
/* The same for a stream that is going to change what is there: it also waits for what other streams
 * that used the blob have in line. */
enum orr_status orr__blob_overwrite(struct orr__blob *blob,
                                    struct orr_stream *stream) ORR_MUST_CHECK;
void orr__blob_written(struct orr__blob *blob, struct orr_stream *stream, struct orr_point point);

/* Writes the record of a logical operator, returns its id. */
uint64_t orr__op_record(struct orr_runtime *runtime, const char *name, const char *kind,
                        struct orr_cost cost, const struct orr_operand_info *output,
                        uint64_t parent);
const char *orr__operator_class_text(enum orr_operator_class class);

/* Shapes, dtypes and placements of the results, without doing anything. */
enum orr_status orr__operator_infer(struct orr_runtime *runtime, const struct orr_operator *op,
                                    struct orr_tensor *const *inputs, int input_count,
                                    const struct orr_attributes *attributes,
                                    const struct orr_layout *layout,
                                    struct orr_operand_info *out_infos,
                                    struct orr_layout *out_layout) ORR_MUST_CHECK;

/* A ring shift; by 0: none. */
struct orr__shift {
    int axis;
    uint32_t by;
};

/* One operator of a kernel, or one stage of a fused one. */
struct orr__stage {
    const struct orr_operator *op;
    struct orr_attributes attributes;
    int input_count;
    struct orr_tensor *inputs[ORR_INPUTS_MAX];
    struct orr_tensor *outputs[ORR_OUTPUTS_MAX];
    struct orr__shift shift; /* without an operator: a shift, or a redistribution */
};

/* Runs an operator whose outputs have no storage yet: blobs, then a kernel on every device. */
enum orr_status orr__run_operator(struct orr_runtime *runtime,
                                  const struct orr__stage *stage) ORR_MUST_CHECK;

/* One rank's piece of a tensor. */
struct orr__piece {
    struct orr_shape whole, shape;
    int64_t starts[ORR_RANK_MAX]; /* in the whole */
};

/* Gives an operator's attributes the meaning that they have for one rank's pieces, as its table row
 * says (enum orr_attribute_local): localize.c. `result` is the piece of the first result. A stage
 * of a fused kernel has no operands of its own: `input_count` is 0 then. */
void orr__localize(const struct orr_operator *op, const struct orr__piece *inputs, int input_count,
                   const struct orr__piece *result, struct orr_attributes *attributes);

/* One kernel of one rank. The caller fills `kernel` but for ranges and host costs; its work is
 * owned by the command once the call succeeded, and released if it fails. */
struct orr__launch {
    uint32_t rank;
    struct orr_tensor *const *inputs, *const *outputs;
    const struct orr_operand_info *input_infos, *output_infos; /* local */
    int input_count, output_count;
    bool in_place; /* the first output is the first input's memory */
    struct orr_kernel kernel;
};
enum orr_status orr__launch_kernel(struct orr_runtime *runtime,
                                   struct orr__launch *launch) ORR_MUST_CHECK;

/* dtype of the arithmetic: the first floating-point operand's, else the result's. */
enum orr_dtype orr__arithmetic_dtype(const struct orr_operand_info *inputs, int input_count,
                                     const struct orr_operand_info *output);

/* Runs a group of operator calls as one kernel per rank: fused_runner.c. `operands` are the tensors
 * of the fused kernel's operands. */
enum orr_status orr__run_fused(struct orr_runtime *runtime, const struct orr_fused *fused,
                               struct orr_tensor *const *operands,
                               struct orr_tensor *result) ORR_MUST_CHECK;

/* --- autograd.c: what the tapes of the current host see; nothing to do without one --- */

/* Room for one more application with these operands, so that recording it can't fail. */
enum orr_status orr__tape_reserve(struct orr_runtime *runtime, struct orr_tensor *const *inputs,
                                  int input_count) ORR_MUST_CHECK;
/* An operator has been applied; `op` NULL: a redistribution or shift. Only after a reserve. */
void orr__tape_record(struct orr_runtime *runtime, const struct orr__stage *stage);
/* ORR_INVALID if the current host has a tape that records, which would miss what `what` does. */
enum orr_status orr__tape_refuse(struct orr_runtime *runtime, const char *what) ORR_MUST_CHECK;
void orr__tapes_destroy(struct orr_runtime *runtime);

/* The open region takes the operator into its graph instead; defined by region.c. */
enum orr_status orr__region_add(struct orr_runtime *runtime,
                                const struct orr__stage *stage) ORR_MUST_CHECK;
/* Runs what the open region has collected so far, because the host is about to look or, if
 * `host_reads` is false, to redistribute: a captured region breaks there. Nothing to do without
 * one. */
enum orr_status orr__region_flush(struct orr_runtime *runtime, bool host_reads) ORR_MUST_CHECK;

#endif
