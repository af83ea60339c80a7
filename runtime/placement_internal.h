/* What the files of placement rules share: the question that a rule answers, for one mesh axis, and
 * the words that answers are made of.
 *
 * Threads: pure functions. */
#ifndef ORR_RUNTIME_PLACEMENT_INTERNAL_H
#define ORR_RUNTIME_PLACEMENT_INTERNAL_H

#include <string.h>

#include "runtime/placement.h"

enum { PLACEMENT_WHY_MAX = 160 };

struct question {
    const struct orr_operator *op;
    const struct orr_operand_info *inputs;
    int count;
    const struct orr_attributes *attributes;
    const struct orr_operand_info *output;
    int axis;
    int64_t ranks; /* along the axis */
    int64_t parts; /* that the first operand's sharded dimension is cut into, by all axes */
    struct orr_placement given[ORR_INPUTS_MAX]; /* along the axis */
    char *why; /* PLACEMENT_WHY_MAX bytes, "": what a rule that refuses may say about it */
};

static const struct orr_placement R = {.kind = ORR_REPLICATE};
static const struct orr_placement P = {.kind = ORR_PARTIAL, .reduction = ORR_SUM};

static inline struct orr_placement shard(int dim) {
    return (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
}

static inline bool is(const struct question *q, const char *name) {
    return strcmp(q->op->name, name) == 0;
}

static inline bool is_shard(struct orr_placement placement, int dim) {
    return placement.kind == ORR_SHARD && placement.dim == dim;
}

static inline bool is_sum(struct orr_placement placement) {
    return placement.kind == ORR_PARTIAL && placement.reduction == ORR_SUM;
}

static inline bool all_replicated(const struct question *q) {
    for (int i = 0; i < q->count; i++) {
        if (q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    return true;
}

static inline int rank_of(const struct question *q, int input) {
    return q->inputs[input].shape.rank;
}

static inline bool flag(const struct question *q, const char *name) {
    int index = orr_operator_attribute(q->op, name);
    return index >= 0 && q->attributes->values[index].integer != 0;
}

/* Linear in each of its two operands. */
static inline bool bilinear_partial(const struct question *q) {
    return (is_sum(q->given[0]) && q->given[1].kind == ORR_REPLICATE) ||
           (q->given[0].kind == ORR_REPLICATE && is_sum(q->given[1]));
}

/* The first `count` operands are sharded alike, the others replicated. */
static inline bool alike(const struct question *q, int count) {
    for (int i = 0; i < q->count; i++) {
        if (i < count ? !is_shard(q->given[i], q->given[0].dim)
                      : q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    return true;
}

/* Is `dim` in the attribute's list? */
static inline bool lists(const struct question *q, const char *name, int dim) {
    const struct orr_shape *list =
        &q->attributes->values[orr_operator_attribute(q->op, name)].shape;
    for (int i = 0; i < list->rank; i++) {
        if (list->dims[i] == dim) {
            return true;
        }
    }
    return false;
}

/* The dimension that the operator's attribute `shards` asks the result to be cut along, or -1. */
static inline int wanted_dim(const struct question *q) {
    int index = orr_operator_attribute(q->op, "shards");
    const struct orr_shape *shards = index < 0 ? NULL : &q->attributes->values[index].shape;
    return shards && q->axis < shards->rank ? (int)shards->dims[q->axis] : -1;
}

/* Says whether the placements given make sense, and if so what the result's is. */
typedef bool (*rule_function)(const struct question *q, struct orr_placement *out);

/* Convolutions and group norms (placement_image.c): an operator's rule, and the placements that fit
 * it, for messages; NULL for other operators. */
rule_function orr__image_placement(const struct orr_operator *op);
const char *orr__image_legal(const struct orr_operator *op);
/* The same for quantized weights and serving (placement_serving.c). */
rule_function orr__serving_placement(const struct orr_operator *op);
const char *orr__serving_legal(const struct orr_operator *op);
/* The same for what language models add (placement_model.c). */
rule_function orr__model_placement(const struct orr_operator *op);
const char *orr__model_legal(const struct orr_operator *op);

#endif
