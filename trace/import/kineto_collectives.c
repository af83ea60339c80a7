/* What newer profilers write with communication kernels: which collective of which group. */
#include "trace/import/kineto_internal.h"

/* torch.distributed's names of collectives, and ours. */
static const struct {
    const char *text, *kind;
} kinds[] = {
    {"allreduce", "all_reduce"},
    {"allreduce_coalesced", "all_reduce"},
    {"_allgather_base", "all_gather"},
    {"allgather", "all_gather"},
    {"allgather_into_tensor_coalesced", "all_gather"},
    {"reduce_scatter", "reduce_scatter"},
    {"_reduce_scatter_base", "reduce_scatter"},
    {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
    {"broadcast", "broadcast"},
    {"_broadcast_oop", "broadcast"},
    {"reduce", "reduce"},
    {"_reduce_oop", "reduce"},
    {"all_to_all", "all_to_all"},
    {"all_to_allv", "all_to_all"},
    {"alltoall_base", "all_to_all"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"barrier", "barrier"},
    {"send", "send_receive"},
    {"recv", "send_receive"},
};

static const char *kind_of(struct orr__kineto *k, const struct orr__json_value *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name->text.length == strlen(kinds[i].text) &&
            memcmp(name->text.at, kinds[i].text, name->text.length) == 0)
            return kinds[i].kind;
    return orr__kineto_text(k, name);
}

static const char *text_of(struct orr__kineto *k, enum orr__arg arg) {
    if (!orr__kineto_has_arg(k, arg))
        return "";
    const struct orr__json_value *value = &k->event.args[arg];
    if (value->kind == ORR__JSON_STRING)
        return orr__kineto_text(k, value);
    return value->text.length <= ORR__KINETO_TEXT_MAX
               ? orr__builder_text(k->builder, value->text.at, value->text.length)
               : "";
}

/* The group by name and ranks; UINT32_MAX without memory. Texts are stored once, so equal ones are
 * the same. */
static uint32_t find_group(struct orr__kineto *k) {
    const char *name = text_of(k, ORR__ARG_GROUP_NAME), *ranks = text_of(k, ORR__ARG_GROUP_RANKS);
    const char *title = text_of(k, ORR__ARG_GROUP_TITLE);
    if (name[0] == '\0')
        name = title;
    uint64_t hash = orr__hash_mix(orr__hash_mix((uintptr_t)name, (uintptr_t)ranks), 1);
    size_t at = orr__index_start(&k->group_index, hash);
    uint32_t item;
    for (; (item = orr__index_item(&k->group_index, &at, hash)) != ORR__INDEX_NONE; at++)
        if (k->groups[item].name == name && k->groups[item].ranks == ranks)
            return item;
    struct orr__kineto_group *group = ORR__KINETO_ADD(k, groups);
    if (!group ||
        orr__index_add(&k->group_index, k->memory, hash, (uint32_t)k->groups_count - 1) != ORR_OK) {
        k->failed = true;
        return UINT32_MAX;
    }
    *group = (struct orr__kineto_group){name, ranks};
    return (uint32_t)(k->groups_count - 1);
}

/* The larger of what goes in and comes out: the whole of the message, as for ours. */
static uint64_t message_bytes(const struct orr__kineto *k, enum orr_dtype dtype) {
    uint64_t in = 0, out = 0, bytes;
    if (dtype == ORR_DTYPE_NONE)
        return 0;
    (void)orr__kineto_u64(k, ORR__ARG_COLLECTIVE_IN, &in);
    (void)orr__kineto_u64(k, ORR__ARG_COLLECTIVE_OUT, &out);
    if (__builtin_mul_overflow(in > out ? in : out, (uint64_t)orr_dtype_size(dtype), &bytes))
        return 0;
    return bytes;
}

static uint32_t rank_of(const struct orr__kineto *k, enum orr__arg arg) {
    uint64_t number;
    return orr__kineto_u64(k, arg, &number) && number < ORR_ID_NONE ? (uint32_t)number
                                                                    : ORR_ID_NONE;
}

void orr__kineto_collective(struct orr__kineto *k, uint64_t command) {
    const struct orr__json_value *name = &k->event.args[ORR__ARG_COLLECTIVE];
    if (name->kind != ORR__JSON_STRING)
        return;
    uint32_t group = find_group(k);
    struct orr__kineto_member *member = group == UINT32_MAX ? NULL : ORR__KINETO_ADD(k, members);
    if (!member)
        return;
    *member = (struct orr__kineto_member){.command = command,
                                          .communicator = group,
                                          .kind = kind_of(k, name),
                                          .dtype = ORR_DTYPE_NONE,
                                          .root = rank_of(k, ORR__ARG_COLLECTIVE_SRC),
                                          .peer = rank_of(k, ORR__ARG_COLLECTIVE_DST)};
    if (orr__kineto_has_arg(k, ORR__ARG_COLLECTIVE_DTYPE))
        member->dtype = orr__kineto_dtype(k->event.args[ORR__ARG_COLLECTIVE_DTYPE].text);
    member->bytes = message_bytes(k, member->dtype);
    member->has_seq = orr__kineto_u64(k, ORR__ARG_COLLECTIVE_SEQ, &member->seq);
}

/* -- Resolving --------------------------------------------------------------------------------- */

/* "[0, 1, 2]"; newer files cut long lists: "[0, 1, ..., 7]". Nothing then. */
static void add_ranks(struct orr__kineto *k, uint32_t communicator, const char *ranks) {
    struct orr__json_cursor cursor;
    struct orr__json_value item;
    uint64_t rank;
    for (int pass = 0; pass < 2; pass++) {
        orr__json_begin(&cursor, ranks, strlen(ranks), false);
        if (!orr__json_value(&cursor, &item) || item.kind != ORR__JSON_ARRAY)
            return;
        while (orr__json_element(&cursor, &item)) {
            if (!orr__json_u64(&item, &rank) || rank >= ORR_ID_NONE)
                return;
            struct orr_timeline_member *member = pass == 1 ? orr__builder_member(k->builder) : NULL;
            if (member) {
                member->communicator = communicator;
                member->rank = (uint32_t)rank;
            }
        }
        if (cursor.state != ORR__JSON_OK)
            return;
    }
}

void orr__kineto_resolve_collectives(struct orr__kineto *k) {
    for (size_t i = 0; i < k->groups_count; i++) {
        struct orr_timeline_communicator *item = orr__builder_communicator(k->builder);
        if (!item)
            return;
        item->name = k->groups[i].name;
        add_ranks(k, item->id, k->groups[i].ranks);
    }
    for (size_t i = 0; i < k->members_count; i++) {
        const struct orr__kineto_member *from = &k->members[i];
        struct orr_timeline_collective *item = orr__builder_collective(k->builder);
        if (!item)
            return;
        item->communicator = from->communicator;
        item->seq = from->has_seq ? from->seq : 0;
        item->bytes = from->bytes;
        item->dtype = from->dtype;
        item->kind = from->kind;
        item->root = from->root;
        item->peer = from->peer;
        struct orr_timeline_collective_member *member = orr__builder_collective_member(k->builder);
        if (!member)
            return;
        *member = (struct orr_timeline_collective_member){.collective = (uint64_t)i + 1,
                                                          .cmd = from->command};
    }
}
