/* Placements of quantized weights and of serving, along one mesh axis.
 *
 *     quantize            S(d) -> S(d), q and scale alike, d before the last dimension
 *     dequantize          S(d),S(d) -> S(d), d before the last    S(last),R -> S(last)
 *     linear_quantized    as linear's, the scale being S(0) where the codes are:
 *                         S(row),R,R,R -> S(row)    R,S(0),S(0),S(0) -> S(column)
 *                         S(inner),S(1),R -> P and P,R,R -> P without a bias
 *     kv_append           S(1),S(1),R,[R] -> S(1): heads    all S(0) -> S(0) without slots
 *     sdpa_decode         S(1),S(1),S(1),R,[R] -> S(1)      all S(0) -> S(0) without slots
 *     rope_at             all S(0) -> S(0)    S(d),R -> S(d) for another d before the last two */
#include "runtime/placement_internal.h"

static bool replicated_from(const struct question *q, int first) {
    for (int i = first; i < q->count; i++) {
        if (q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    return true;
}

static bool sharded_from(const struct question *q, int first, int dim) {
    for (int i = first; i < q->count; i++) {
        if (!is_shard(q->given[i], dim)) {
            return false;
        }
    }
    return true;
}

static bool quantize_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    return out->kind == ORR_SHARD && out->dim < rank_of(q, 0) - 1;
}

static bool dequantize_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    if (is_shard(*out, rank_of(q, 0) - 1)) {
        return q->given[1].kind == ORR_REPLICATE;
    }
    return out->kind == ORR_SHARD && is_shard(q->given[1], out->dim);
}

static bool linear_rule(const struct question *q, struct orr_placement *out) {
    int last = rank_of(q, 0) - 1;
    struct orr_placement x = q->given[0], codes = q->given[1];
    if (x.kind == ORR_REPLICATE) {
        *out = shard(last);
        return sharded_from(q, 1, 0);
    }
    bool inner = is_shard(x, last) && is_shard(codes, 1) && replicated_from(q, 2);
    bool partial = is_sum(x) && replicated_from(q, 1);
    *out = inner || partial ? P : x;
    if (inner || partial) {
        return q->count == 3; /* a bias would be added once by every rank */
    }
    return x.kind == ORR_SHARD && x.dim < last && replicated_from(q, 1);
}

/* The first `count` operands are sharded by heads and the others replicated, or all of them by
 * sequences; slots are places in the whole cache. */
static bool cache_rule(const struct question *q, int count, struct orr_placement *out) {
    bool has_slots = q->count == q->op->inputs_max;
    *out = q->given[0];
    if (sharded_from(q, 0, 0)) {
        return !has_slots;
    }
    return is_shard(*out, 1) && alike(q, count);
}

static bool append_rule(const struct question *q, struct orr_placement *out) {
    return cache_rule(q, 2, out);
}

static bool decode_rule(const struct question *q, struct orr_placement *out) {
    return cache_rule(q, 3, out);
}

static bool rope_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    if (is_shard(*out, 0)) {
        return is_shard(q->given[1], 0);
    }
    return out->kind == ORR_SHARD && out->dim < rank_of(q, 0) - 2 &&
           q->given[1].kind == ORR_REPLICATE;
}

static const struct entry {
    const char *name;
    rule_function rule;
    const char *legal;
} entries[] = {
    {"quantize", quantize_rule, "R or S(d) for d before the last dimension"},
    {"dequantize", dequantize_rule,
     "R; q and scale S(d) for d before q's last dimension; q S(last) with scale R"},
    {"linear_quantized", linear_rule,
     "all R; x S(row), the others R; x R, the others S(0); x S(inner), q S(1), scale R, no bias"},
    {"kv_append", append_rule, "all R; cache and new S(1), the others R; all S(0) without slots"},
    {"sdpa_decode", decode_rule, "all R; q, k and v S(1), the others R; all S(0) without slots"},
    {"rope_at", rope_rule, "all R; all S(0); x S(d) before its last two dimensions, positions R"},
};

static const struct entry *entry_of(const struct orr_operator *op) {
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (strcmp(op->name, entries[i].name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

rule_function orr__serving_placement(const struct orr_operator *op) {
    const struct entry *entry = entry_of(op);
    return entry ? entry->rule : NULL;
}

const char *orr__serving_legal(const struct orr_operator *op) {
    const struct entry *entry = entry_of(op);
    return entry ? entry->legal : NULL;
}
