/* Placement rules of the operators that language models add, along one mesh axis:
 *
 *     gather_last             S(d),S(d) -> S(d), d before the last    S(last),R -> P    P,R -> P
 *     scatter_last            S(d),S(d) -> S(d), d before the last    P,R -> P
 *                             R,R -> S(last) as asked
 *     topk                    S(d) -> S(d), d before the last
 *     dropout_mask            S(d) -> S(d)
 *     dropout_mask_backward   S(d),S(d) -> S(d)    P,R -> P
 *     moe_dispatch            x, indices and weights S(0) -> S(1), S(1) -> S(2), if the groups
 *                             there divide by the pieces; x S(2), others R -> S(4); one of x and
 *                             weights P, others R -> P
 *     moe_combine             y S(1), others S(0) -> S(0); y S(2), others S(1) -> S(1); y S(4),
 *                             others R -> S(2); one of y and weights P, others R -> P
 *     moe_dot                 x and indices S(0), y S(1) -> S(0); S(1), S(2) -> S(1); x S(2), y
 *                             S(4), indices R -> P; one of x and y P, others R -> P
 *     moe_load                S(d) -> P
 *     sdpa_block, sdpa_block_backward    S(0), S(1) alike; S(2) alike if the blocks divide by the
 *                             pieces
 *     sdpa_merge              S(0), S(1), S(2) alike */
#include <stdio.h>

#include "runtime/placement_internal.h"

/* Linear in the first operand, the others replicated. */
static bool first_partial(const struct question *q, struct orr_placement *out) {
    for (int i = 1; i < q->count; i++) {
        if (q->given[i].kind != ORR_REPLICATE) {
            return false;
        }
    }
    *out = P;
    return is_sum(q->given[0]);
}

static bool gather_last_rule(const struct question *q, struct orr_placement *out) {
    int last = rank_of(q, 0) - 1;
    if (is_shard(q->given[0], last)) {
        *out = P;
        return q->given[1].kind == ORR_REPLICATE;
    }
    *out = q->given[0];
    return alike(q, 2) || first_partial(q, out);
}

static bool scatter_last_rule(const struct question *q, struct orr_placement *out) {
    int last = rank_of(q, 0) - 1;
    if (wanted_dim(q) >= 0) {
        *out = shard(last);
        return wanted_dim(q) == last && all_replicated(q);
    }
    *out = q->given[0];
    return (alike(q, 2) && q->given[0].dim != last) || first_partial(q, out);
}

static bool topk_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    return q->given[0].kind == ORR_SHARD && q->given[0].dim != rank_of(q, 0) - 1;
}

static bool elements_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    return alike(q, q->count) || (q->count > 1 && first_partial(q, out));
}

/* --- mixtures of experts: tokens [b, s, ...] are cut as the groups of slots
 * [experts, gb, gs, capacity, h] are: one dimension further on --- */

/* All operands are replicated but one of floats, which is partial: they are linear in each. */
static bool one_partial(const struct question *q, struct orr_placement *out) {
    int partial = 0, replicated = 0;
    for (int i = 0; i < q->count; i++) {
        partial += is_sum(q->given[i]) && orr_dtype_is_float(q->inputs[i].dtype);
        replicated += q->given[i].kind == ORR_REPLICATE;
    }
    *out = P;
    return partial == 1 && partial + replicated == q->count;
}

/* Operand `slots` (-1: none) is cut along its groups and the others along the tokens of those:
 * along 0 or 1, which it returns, or -1. */
static int tokens_cut(const struct question *q, int slots) {
    for (int dim = 0; dim < 2; dim++) {
        bool fits = true;
        for (int i = 0; i < q->count; i++) {
            fits = fits && is_shard(q->given[i], i == slots ? dim + 1 : dim);
        }
        if (fits) {
            return dim;
        }
    }
    return -1;
}

/* Every piece has whole groups. */
static bool groups_divide(const struct question *q, int64_t groups) {
    if (groups % q->parts == 0) {
        return true;
    }
    snprintf(q->why, PLACEMENT_WHY_MAX, "%lld groups of tokens don't divide into %lld pieces",
             (long long)groups, (long long)q->parts);
    return false;
}

/* Operand 0 is cut along its width, the others are replicated. */
static bool width_cut(const struct question *q) {
    return is_shard(q->given[0], rank_of(q, 0) - 1) && alike(q, 1);
}

static bool moe_dispatch_rule(const struct question *q, struct orr_placement *out) {
    int dim = tokens_cut(q, -1);
    if (dim >= 0) {
        const struct orr_shape *groups =
            &q->attributes->values[orr_operator_attribute(q->op, "groups")].shape;
        *out = shard(dim + 1);
        return groups_divide(q, groups->rank ? groups->dims[dim] : 1);
    }
    *out = shard(4);
    return width_cut(q) || one_partial(q, out);
}

static bool moe_combine_rule(const struct question *q, struct orr_placement *out) {
    int dim = tokens_cut(q, 0);
    if (dim >= 0) {
        *out = shard(dim);
        return groups_divide(q, q->inputs[0].shape.dims[dim + 1]);
    }
    *out = shard(2);
    return width_cut(q) || one_partial(q, out);
}

static bool moe_dot_rule(const struct question *q, struct orr_placement *out) {
    int dim = tokens_cut(q, 1);
    if (dim >= 0) {
        *out = shard(dim);
        return groups_divide(q, q->inputs[1].shape.dims[dim + 1]);
    }
    *out = P;
    return (is_shard(q->given[0], 2) && is_shard(q->given[1], 4) &&
            q->given[2].kind == ORR_REPLICATE) ||
           one_partial(q, out);
}

/* --- ring attention: batch, heads, and whole blocks of the sequence --- */

static bool merge_rule(const struct question *q, struct orr_placement *out) {
    *out = q->given[0];
    return alike(q, q->count) && q->given[0].dim < 3;
}

static bool blocks_rule(const struct question *q, struct orr_placement *out) {
    int64_t blocks = q->attributes->values[orr_operator_attribute(q->op, "blocks")].integer;
    if (!merge_rule(q, out) || q->given[0].dim != 2 || blocks % q->parts == 0) {
        return merge_rule(q, out);
    }
    snprintf(q->why, PLACEMENT_WHY_MAX, "%lld blocks don't divide into %lld pieces",
             (long long)blocks, (long long)q->parts);
    return false;
}

static bool counts_rule(const struct question *q, struct orr_placement *out) {
    *out = P;
    return q->given[0].kind == ORR_SHARD;
}

static const struct {
    const char *name;
    rule_function rule;
    const char *legal;
} rules[] = {
    {"gather_last", gather_last_rule, "R; S(d) alike; x S(last) or P with indices R"},
    {"scatter_last", scatter_last_rule, "R; S(d) alike, d before the last; grad P with indices R"},
    {"topk", topk_rule, "R or S(d), d before the last dimension"},
    {"dropout_mask", elements_rule, "R or S(d)"},
    {"moe_dispatch", moe_dispatch_rule,
     "R; all S(0) or all S(1), whole groups a piece; x S(2) with the others R; x or weights P"},
    {"moe_combine", moe_combine_rule,
     "R; y S(1) with the others S(0), or S(2) with S(1), whole groups a piece; y S(4) with the "
     "others R; y or weights P"},
    {"moe_dot", moe_dot_rule,
     "R; y S(1) with the others S(0), or S(2) with S(1), whole groups a piece; x S(2) with y S(4) "
     "and indices R; x or y P"},
    {"moe_load", counts_rule, "R or S(d)"},
    {"sdpa_block", blocks_rule, "R; all S(0), all S(1), or all S(2) with whole blocks a piece"},
    {"sdpa_block_backward", blocks_rule,
     "R; all S(0), all S(1), or all S(2) with whole blocks a piece"},
    {"sdpa_merge", merge_rule, "R; all S(0), all S(1) or all S(2)"},
    {"dropout_mask_backward", elements_rule, "R; S(d) alike; grad P with mask R"},
};

static int find(const struct orr_operator *op) {
    int count = (int)(sizeof rules / sizeof rules[0]);
    for (int i = 0; i < count; i++) {
        if (strcmp(op->name, rules[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

rule_function orr__model_placement(const struct orr_operator *op) {
    int index = find(op);
    return index < 0 ? NULL : rules[index].rule;
}

const char *orr__model_legal(const struct orr_operator *op) {
    int index = find(op);
    return index < 0 ? NULL : rules[index].legal;
}
