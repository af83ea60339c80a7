/* Placement rules of the operators that language models add, along one mesh axis:
 *
 *     gather_last             S(d),S(d) -> S(d), d before the last    S(last),R -> P    P,R -> P
 *     scatter_last            S(d),S(d) -> S(d), d before the last    P,R -> P
 *                             R,R -> S(last) as asked
 *     topk                    S(d) -> S(d), d before the last
 *     dropout_mask            S(d) -> S(d)
 *     dropout_mask_backward   S(d),S(d) -> S(d)    P,R -> P */
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

static const struct {
    const char *name;
    rule_function rule;
    const char *legal;
} rules[] = {
    {"gather_last", gather_last_rule, "R; S(d) alike; x S(last) or P with indices R"},
    {"scatter_last", scatter_last_rule, "R; S(d) alike, d before the last; grad P with indices R"},
    {"topk", topk_rule, "R or S(d), d before the last dimension"},
    {"dropout_mask", elements_rule, "R or S(d)"},
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
