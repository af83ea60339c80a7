#include "hazards/hang_build.h"

#include <assert.h>
#include <string.h>

#include "runtime/splitmix.h"

/* --- counters by what they count --- */

struct key {
    uint32_t comm, rank, peer, kind;
};

/* Open addressing; a slot holds a number + 1. */
struct key_map {
    struct key *keys;
    uint32_t *slots;
    size_t mask;
};

static bool map_create(struct key_map *map, struct orr__arena *arena, size_t keys_max) {
    size_t size = 16;
    while (size < 2 * keys_max)
        size *= 2;
    map->mask = size - 1;
    map->keys = orr__arena_alloc(arena, size, sizeof *map->keys);
    map->slots = orr__arena_alloc(arena, size, sizeof *map->slots);
    return map->keys && map->slots;
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t *map_slot(const struct key_map *map, struct key key) {
    uint64_t hash = orr_splitmix_mix((uint64_t)key.comm << 32 | key.rank);
    hash = orr_splitmix_mix(hash ^ ((uint64_t)key.peer << 32 | key.kind));
    for (size_t at = hash & map->mask;; at = (at + 1) & map->mask) {
        if (map->slots[at] != 0 && memcmp(&map->keys[at], &key, sizeof key) != 0)
            continue;
        map->keys[at] = key;
        return &map->slots[at];
    }
}

static uint32_t map_find(const struct key_map *map, struct key key) {
    uint32_t slot = *map_slot(map, key);
    return slot == 0 ? ORR_NONE : slot - 1;
}

/* --- calls --- */

struct building {
    struct orr__hang_model *model;
    struct key_map counters;
    uint32_t *mark;        /* stream: the newest entry that a group puts into it, or ORR_NONE */
    uint32_t group_member; /* first member of the open group */
    uint32_t depth;        /* of groups */
};

static struct key counter_key(const struct orr_stream_program *program,
                              const struct orr_stream_op *op) {
    uint32_t rank = op->rank;
    if (rank == ORR_NONE) /* the host, as nobody else is called */
        rank = program->names[ORR_NAME_RANK].count + op->host;
    uint32_t peer = op->kind == ORR_OP_COLL ? ORR_NONE : op->other;
    return (struct key){.comm = op->object, .rank = rank, .peer = peer, .kind = op->kind};
}

static uint32_t add_member(struct building *in, uint32_t index) {
    struct orr__hang_model *model = in->model;
    const struct orr_stream_op *op = &model->program->ops[index];
    struct key key = counter_key(model->program, op);
    uint32_t *slot = map_slot(&in->counters, key);
    if (*slot == 0) {
        model->counters[model->counter_count] = (struct orr__hang_counter){.kind = op->kind,
                                                                           .comm = key.comm,
                                                                           .rank = key.rank,
                                                                           .peer = key.peer,
                                                                           .partner = ORR_NONE};
        *slot = ++model->counter_count;
    }
    model->counters[*slot - 1].member_count++;
    model->members[model->member_count] = (struct orr__hang_member){
        .op = index, .host = op->host, .counter = *slot - 1, .entry = ORR_NONE};
    return model->member_count++;
}

static uint32_t add_entry(struct orr__hang_model *model, uint32_t index, uint32_t stream,
                          enum orr__hang_entry_kind kind) {
    struct orr__hang_stream *info = &model->streams[stream];
    info->comm_count += kind == ORR__HANG_COMM;
    info->body_count += kind == ORR__HANG_BODY;
    model->entries[model->entry_count] =
        (struct orr__hang_entry){.op = index,
                                 .host = model->program->ops[index].host,
                                 .stream = stream,
                                 .kind = (uint8_t)kind};
    return model->entry_count++;
}

/* The members since the group's start, one entry a stream in the order in which streams appear. */
static void end_group(struct building *in, uint32_t index, struct orr__hang_call *call) {
    struct orr__hang_model *model = in->model;
    const struct orr_stream_op *ops = model->program->ops;
    uint32_t first = model->entry_count, members = in->group_member;
    for (uint32_t m = members; m < model->member_count; m++) {
        uint32_t stream = ops[model->members[m].op].stream;
        if (in->mark[stream] == ORR_NONE || in->mark[stream] < first)
            in->mark[stream] = add_entry(model, index, stream, ORR__HANG_COMM);
        model->members[m].entry = in->mark[stream];
        model->entries[in->mark[stream]].member_count++;
    }
    uint32_t at = members; /* lists of the group's entries lie where its members do */
    for (uint32_t e = first; e < model->entry_count; e++) {
        model->entries[e].member_first = at;
        at += model->entries[e].member_count;
        model->entries[e].member_count = 0;
    }
    for (uint32_t m = members; m < model->member_count; m++) {
        struct orr__hang_entry *entry = &model->entries[model->members[m].entry];
        model->entry_members[entry->member_first + entry->member_count++] = m;
    }
    call->entry_first = first;
    call->entry_count = model->entry_count - first;
}

/* False: a call without effect on anybody. */
static bool fill_call(struct building *in, uint32_t index, struct orr__hang_call *call) {
    struct orr__hang_model *model = in->model;
    const struct orr_stream_op *op = &model->program->ops[index];
    *call =
        (struct orr__hang_call){.op = index, .entry_first = model->entry_count, .member = ORR_NONE};
    switch (op->kind) {
    case ORR_OP_GROUP_START:
        if (in->depth++ == 0)
            in->group_member = model->member_count;
        return model->is_exact;
    case ORR_OP_GROUP_END:
        assert(in->depth > 0);
        if (--in->depth == 0)
            end_group(in, index, call);
        return model->is_exact || call->entry_count > 0;
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV:
        call->member = add_member(in, index);
        if (in->depth > 0)
            return true;
        model->members[call->member].entry = add_entry(model, index, op->stream, ORR__HANG_COMM);
        model->entries[call->entry_first].member_first = call->member;
        model->entries[call->entry_first].member_count = 1;
        model->entry_members[call->member] = call->member;
        break;
    case ORR_OP_KERNEL:
    case ORR_OP_MEMCPY:
    case ORR_OP_MEMSET: add_entry(model, index, op->stream, ORR__HANG_WORK); break;
    case ORR_OP_HOSTFN:
        add_entry(model, index, op->stream,
                  orr__hang_body_waits(model, op) ? ORR__HANG_BODY : ORR__HANG_WORK);
        break;
    case ORR_OP_WAIT:
        if (!op->ignored)
            add_entry(model, index, op->stream, ORR__HANG_WAIT);
        break;
    default: break;
    }
    call->entry_count = model->entry_count - call->entry_first;
    return true;
}

/* Host by host, so that what belongs to a host lies together. */
static void add_calls(struct building *in, const uint32_t *order, const uint32_t *first) {
    struct orr__hang_model *model = in->model;
    for (uint32_t h = 0; h < model->host_count; h++) {
        struct orr__hang_host *host = &model->hosts[h];
        host->call_first = model->call_count;
        in->depth = 0;
        for (uint32_t i = first[h]; i < first[h + 1]; i++)
            if (fill_call(in, order[i], &model->calls[model->call_count]))
                model->call_count++;
        host->call_count = model->call_count - host->call_first;
    }
}

/* --- instances --- */

static void list_counter_members(struct orr__hang_model *model) {
    uint32_t first = 0;
    for (uint32_t c = 0; c < model->counter_count; c++) {
        model->counters[c].member_first = first;
        first += model->counters[c].member_count;
        model->counters[c].member_count = 0;
    }
    for (uint32_t m = 0; m < model->member_count; m++) {
        struct orr__hang_counter *counter = &model->counters[model->members[m].counter];
        if (counter->member_count > 0 &&
            model->members[model->counter_members[counter->member_first]].host !=
                model->members[m].host)
            counter->is_shared = model->shares_counters = true;
        model->counter_members[counter->member_first + counter->member_count++] = m;
    }
}

static void list_ranks(struct building *in) {
    struct orr__hang_model *model = in->model;
    const struct orr_stream_program *program = model->program;
    uint32_t count = 0;
    for (uint32_t c = 0; c < model->comm_count; c++) {
        const struct orr_comm_info *info = &program->comms[c];
        model->comms[c].rank_first = count;
        for (uint32_t i = 0; i < info->member_count; i++) {
            uint32_t rank = program->members[info->member_first + i];
            struct key key = {.comm = c, .rank = rank, .peer = ORR_NONE, .kind = ORR_OP_COUNT};
            uint32_t *slot = map_slot(&in->counters, key);
            if (*slot != 0)
                continue; /* listed twice */
            *slot = 1;
            key.kind = ORR_OP_COLL;
            uint32_t counter = map_find(&in->counters, key);
            if (counter != ORR_NONE)
                model->counters[counter].is_listed = true;
            model->rank_names[count] = rank;
            model->ranks[count++] = counter;
        }
        model->comms[c].rank_count = count - model->comms[c].rank_first;
    }
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static void number_instances(struct building *in) {
    struct orr__hang_model *model = in->model;
    for (uint32_t i = 0; i < model->counter_count; i++) {
        struct orr__hang_counter *counter = &model->counters[i];
        struct orr__hang_comm *comm = &model->comms[counter->comm];
        if (counter->kind == ORR_OP_COLL)
            comm->instance_count = larger(comm->instance_count, counter->member_count);
    }
    for (uint32_t c = 0; c < model->comm_count; c++) {
        model->comms[c].instance_first = model->instance_count;
        model->instance_count += model->comms[c].instance_count;
    }
    for (uint32_t i = 0; i < model->counter_count; i++) {
        struct orr__hang_counter *counter = &model->counters[i];
        if (counter->kind == ORR_OP_COLL) {
            counter->instance_first = model->comms[counter->comm].instance_first;
            continue;
        }
        struct key other = {.comm = counter->comm, .rank = counter->peer, .peer = counter->rank};
        other.kind = counter->kind == ORR_OP_SEND ? ORR_OP_RECV : ORR_OP_SEND;
        counter->partner = map_find(&in->counters, other);
        if (counter->partner != ORR_NONE && counter->partner < i) {
            counter->instance_first = model->counters[counter->partner].instance_first;
            continue;
        }
        counter->instance_first = model->instance_count;
        uint32_t count = counter->member_count;
        if (counter->partner != ORR_NONE)
            count = larger(count, model->counters[counter->partner].member_count);
        model->instance_count += count;
    }
}

/* --- do calls differ? --- */

static bool same_call(const struct orr__hang_model *model, uint32_t a, uint32_t b) {
    const struct orr_stream_op *x = &model->program->ops[model->members[a].op];
    const struct orr_stream_op *y = &model->program->ops[model->members[b].op];
    return x->word == y->word && x->count == y->count;
}

/* Numbers of shared counters are anybody's guess: there, all calls are compared with each other. */
static bool comm_may_mismatch(const struct orr__hang_model *model,
                              const struct orr__hang_comm *comm, uint32_t *firsts) {
    bool is_shared = false;
    for (uint32_t n = 0; n < comm->instance_count; n++)
        firsts[n] = ORR_NONE;
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        uint32_t counter = model->ranks[comm->rank_first + i];
        is_shared = is_shared || (counter != ORR_NONE && model->counters[counter].is_shared);
    }
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        uint32_t number = model->ranks[comm->rank_first + i];
        if (number == ORR_NONE)
            continue;
        const struct orr__hang_counter *counter = &model->counters[number];
        for (uint32_t n = 0; n < counter->member_count; n++) {
            uint32_t member = model->counter_members[counter->member_first + n];
            uint32_t *first = &firsts[is_shared ? 0 : n];
            if (*first != ORR_NONE && !same_call(model, *first, member))
                return true;
            *first = member;
        }
    }
    return false;
}

/* --- all of it --- */

static bool sort_by_host(const struct orr__hang_model *model, struct orr__arena *scratch,
                         const bool *keep, uint32_t **out_order, uint32_t **out_first) {
    const struct orr_stream_program *program = model->program;
    uint32_t *order = orr__arena_alloc(scratch, program->op_count, sizeof *order);
    uint32_t *first = orr__arena_alloc(scratch, (size_t)model->host_count + 1, sizeof *first);
    if (!order || !first)
        return false;
    for (uint32_t i = 0; i < program->op_count; i++)
        if (keep[i])
            first[program->ops[i].host]++;
    uint32_t total = 0;
    for (uint32_t h = 0; h <= model->host_count; h++)
        total = first[h] += total;
    for (uint32_t i = program->op_count; i-- > 0;)
        if (keep[i])
            order[--first[program->ops[i].host]] = i;
    *out_order = order;
    *out_first = first;
    return true;
}

static bool make_tables(struct building *in, struct orr__arena *scratch, uint32_t members) {
    struct orr__hang_model *model = in->model;
    const struct orr_stream_program *program = model->program;
    struct orr__arena *arena = &model->arena;
    uint32_t ops = program->op_count;
    model->hosts = orr__arena_alloc(arena, model->host_count, sizeof *model->hosts);
    model->calls = orr__arena_alloc(arena, ops, sizeof *model->calls);
    model->entries = orr__arena_alloc(arena, ops, sizeof *model->entries);
    model->members = orr__arena_alloc(arena, members, sizeof *model->members);
    model->counters = orr__arena_alloc(arena, members, sizeof *model->counters);
    model->entry_members = orr__arena_alloc(arena, members, sizeof *model->entry_members);
    model->counter_members = orr__arena_alloc(arena, members, sizeof *model->counter_members);
    model->comms = orr__arena_alloc(arena, model->comm_count, sizeof *model->comms);
    model->ranks = orr__arena_alloc(arena, program->member_count, sizeof *model->ranks);
    model->rank_names = orr__arena_alloc(arena, program->member_count, sizeof *model->rank_names);
    in->mark = orr__arena_alloc(scratch, model->stream_count, sizeof *in->mark);
    size_t keys = (size_t)members + program->member_count;
    if (!model->hosts || !model->calls || !model->entries || !model->members || !model->counters ||
        !model->entry_members || !model->counter_members || !model->comms || !model->ranks ||
        !model->rank_names || !in->mark || !map_create(&in->counters, scratch, keys))
        return false;
    for (uint32_t i = 0; i < model->stream_count; i++)
        in->mark[i] = ORR_NONE;
    return true;
}

enum orr_status orr__hang_build(struct orr__hang_model *model, const bool *keep) {
    const struct orr_stream_program *program = model->program;
    struct orr__arena scratch = {.memory = program->memory};
    struct building in = {.model = model};
    uint32_t members = 0, *order, *first;
    for (uint32_t i = 0; i < program->op_count; i++) {
        uint8_t kind = program->ops[i].kind;
        members += kind == ORR_OP_COLL || kind == ORR_OP_SEND || kind == ORR_OP_RECV;
    }
    uint32_t *firsts = orr__arena_alloc(&scratch, members, sizeof *firsts);
    enum orr_status status = ORR_NO_MEMORY;
    if (!firsts || !sort_by_host(model, &scratch, keep, &order, &first) ||
        !make_tables(&in, &scratch, members))
        goto out;
    status = ORR_OK;
    add_calls(&in, order, first);
    list_counter_members(model);
    list_ranks(&in);
    number_instances(&in);
    for (uint32_t c = 0; c < model->comm_count && !model->may_mismatch; c++)
        model->may_mismatch = comm_may_mismatch(model, &model->comms[c], firsts);
out:
    orr__arena_clear(&scratch);
    return status;
}
