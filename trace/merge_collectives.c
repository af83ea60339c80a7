/* Collectives of a match become one row each; those of the parts that no match has stay as they
 * are. */
#include <assert.h>
#include <string.h>

#include "trace/merge_internal.h"

enum { ALL_RANKS_MAX = 1 << 20 }; /* ranks of a job that are believed, for "all ranks" */

/* What is filled while collectives are made. */
struct collectives {
    struct orr__merge *merge;
    size_t communicator_capacity, member_capacity;
    uint32_t all_ranks; /* the communicator for those without one, NONE before it is made */
};

/* -- Before ------------------------------------------------------------------------------------ */

static size_t communicator_index(const struct orr_timeline *t, uint32_t id) {
    const struct orr_timeline_communicator *c = orr_timeline_communicator(t, id);
    return c ? (size_t)(c - t->communicators) : t->communicator_count;
}

static void index_part(struct orr__merge *merge, struct orr__merge_part *part) {
    const struct orr_timeline *t = part->timeline;
    part->communicators =
        orr__merge_array(merge, t->communicator_count, sizeof *part->communicators);
    part->joined = orr__merge_array(merge, t->collective_count, sizeof *part->joined);
    if (t->collective_count > 0)
        part->collective_of =
            orr__merge_array(merge, t->command_count, sizeof *part->collective_of);
    if (merge->status != ORR_OK)
        return;
    memset(part->communicators, 0xff, t->communicator_count * sizeof *part->communicators);
    if (!part->collective_of)
        return;
    memset(part->collective_of, 0xff, t->command_count * sizeof *part->collective_of);
    for (size_t i = 0; i < t->collective_member_count; i++) {
        const struct orr_timeline_collective_member *m = &t->collective_members[i];
        size_t command =
            orr__merge_find(t->commands, t->command_count, sizeof *t->commands, m->cmd);
        size_t collective = orr__merge_find(t->collectives, t->collective_count,
                                            sizeof *t->collectives, m->collective);
        if (m->cmd != 0 && command < t->command_count && collective < t->collective_count)
            part->collective_of[command] = (uint32_t)collective;
    }
}

/* The part's own row of a member, or NULL. */
static const struct orr_timeline_collective *own_row(const struct orr__merge *merge,
                                                     const struct orr_merge_member *member) {
    const struct orr__merge_part *part = &merge->parts[member->part];
    const struct orr_timeline *t = part->timeline;
    if (!part->collective_of)
        return NULL;
    size_t command =
        orr__merge_find(t->commands, t->command_count, sizeof *t->commands, member->cmd);
    assert(command < t->command_count);
    uint32_t row = part->collective_of[command];
    return row == ORR_ID_NONE ? NULL : &t->collectives[row];
}

/* A part's device is the one that its collectives ran on. */
static void find_main_devices(struct orr__merge *merge) {
    bool *known = orr__merge_array(merge, merge->part_count, sizeof *known);
    for (size_t i = 0; i < merge->match->member_count && known; i++) {
        const struct orr_merge_member *m = &merge->match->members[i];
        struct orr__merge_part *part = &merge->parts[m->part];
        const struct orr_timeline_command *c = orr_timeline_command(part->timeline, m->cmd);
        assert(c);
        uint32_t device = orr__merge_device(part, c->device);
        if (!known[m->part] && device != ORR_ID_NONE) {
            part->main_device = device;
            known[m->part] = true;
        }
    }
    orr_memory_free(merge->memory, known);
}

/* -- Communicators ----------------------------------------------------------------------------- */

static uint32_t device_of_rank(const struct orr__merge *merge, uint32_t rank) {
    size_t low = 0, high = merge->part_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (merge->parts[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < merge->part_count && merge->parts[low].rank == rank ? merge->parts[low].main_device
                                                                     : ORR_ID_NONE;
}

static uint32_t add_communicator(struct collectives *c, const char *name) {
    struct orr__merge *merge = c->merge;
    struct orr_timeline *t = merge->timeline;
    if (merge->status == ORR_OK)
        orr__merge_fail(merge, orr_memory_grow(merge->memory, &t->communicators,
                                               &c->communicator_capacity, t->communicator_count + 1,
                                               sizeof *t->communicators, ORR_ID_NONE));
    if (merge->status != ORR_OK)
        return ORR_ID_NONE;
    uint32_t id = (uint32_t)t->communicator_count;
    t->communicators[t->communicator_count++] = (struct orr_timeline_communicator){id, name};
    return id;
}

static void add_member(struct collectives *c, uint32_t communicator, uint32_t rank,
                       uint32_t device) {
    struct orr__merge *merge = c->merge;
    struct orr_timeline *t = merge->timeline;
    if (merge->status == ORR_OK)
        orr__merge_fail(merge,
                        orr_memory_grow(merge->memory, &t->members, &c->member_capacity,
                                        t->member_count + 1, sizeof *t->members, SIZE_MAX / 64));
    if (merge->status == ORR_OK)
        t->members[t->member_count++] = (struct orr_timeline_member){communicator, rank, device};
}

/* The communicator `index` of a part, made when first asked for. Ours name the members' devices;
 * other tools' only their ranks. */
static uint32_t communicator_of(struct collectives *c, struct orr__merge_part *part, size_t index) {
    const struct orr_timeline *t = part->timeline;
    if (index == t->communicator_count)
        return ORR_ID_NONE;
    if (part->communicators[index] != ORR_ID_NONE)
        return part->communicators[index];
    const struct orr_timeline_communicator *old = &t->communicators[index];
    uint32_t id = add_communicator(c, orr__merge_text(c->merge, old->name));
    bool own = strcmp(t->source.format, "orrery") == 0;
    for (size_t i = 0; i < t->member_count; i++) {
        const struct orr_timeline_member *m = &t->members[i];
        if (m->communicator == old->id)
            add_member(c, id, m->rank,
                       own ? orr__merge_device(part, m->device)
                           : device_of_rank(c->merge, m->rank));
    }
    part->communicators[index] = id;
    return id;
}

/* For collectives whose source names none. */
static uint32_t all_ranks(struct collectives *c, const char *name) {
    struct orr__merge *merge = c->merge;
    if (c->all_ranks != ORR_ID_NONE)
        return c->all_ranks;
    c->all_ranks =
        add_communicator(c, orr__merge_text(merge, name[0] == '\0' ? "all ranks" : name));
    uint64_t size = merge->timeline->source.world_size;
    if (size != ORR_SOURCE_NONE && size <= ALL_RANKS_MAX &&
        size > merge->parts[merge->part_count - 1].rank) {
        for (uint32_t r = 0; r < size; r++)
            add_member(c, c->all_ranks, r, device_of_rank(merge, r));
    } else {
        for (size_t i = 0; i < merge->part_count; i++)
            add_member(c, c->all_ranks, merge->parts[i].rank, merge->parts[i].main_device);
    }
    return c->all_ranks;
}

/* -- Collectives ------------------------------------------------------------------------------- */

static void copy_texts(struct orr__merge *merge, struct orr_timeline_collective *row) {
    row->kind = orr__merge_text(merge, row->kind ? row->kind : "");
    row->algorithm = orr__merge_text(merge, row->algorithm ? row->algorithm : "");
    row->protocol = orr__merge_text(merge, row->protocol ? row->protocol : "");
}

/* The communicator of a matched collective, which becomes that of all its members' parts. */
static uint32_t join_communicators(struct collectives *c,
                                   const struct orr_merge_collective *matched) {
    struct orr__merge *merge = c->merge;
    uint32_t id = ORR_ID_NONE;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < matched->count; i++) {
            const struct orr_merge_member *m = &merge->match->members[matched->first + i];
            struct orr__merge_part *part = &merge->parts[m->part];
            const struct orr_timeline_collective *row = own_row(merge, m);
            size_t index = row ? communicator_index(part->timeline, row->communicator)
                               : part->timeline->communicator_count;
            if (index == part->timeline->communicator_count)
                continue;
            if (pass == 0 && part->communicators[index] != ORR_ID_NONE && id == ORR_ID_NONE)
                id = part->communicators[index];
            if (pass == 1 && id == ORR_ID_NONE)
                id = communicator_of(c, part, index);
            if (pass == 1 && part->communicators[index] == ORR_ID_NONE)
                part->communicators[index] = id;
        }
    return id == ORR_ID_NONE ? all_ranks(c, matched->group) : id;
}

static void add_matched(struct collectives *c, const struct orr_merge_collective *matched) {
    struct orr__merge *merge = c->merge;
    struct orr_timeline *t = merge->timeline;
    struct orr_timeline_collective row = {
        .root = ORR_ID_NONE, .peer = ORR_ID_NONE, .modelled_ns = ORR_TIME_NONE};
    for (size_t i = matched->count; i > 0; i--) {
        const struct orr_merge_member *m = &merge->match->members[matched->first + i - 1];
        struct orr__merge_part *part = &merge->parts[m->part];
        const struct orr_timeline_collective *own = own_row(merge, m);
        if (own) {
            row = *own;
            part->joined[own - part->timeline->collectives] = true;
        }
        t->collective_members[t->collective_member_count + i - 1] =
            (struct orr_timeline_collective_member){t->collective_count + 1,
                                                    orr__merge_command(part, m->cmd), part->rank};
    }
    t->collective_member_count += matched->count;
    row.id = t->collective_count + 1;
    row.communicator = join_communicators(c, matched);
    row.seq = matched->seq;
    row.kind = matched->kind;
    copy_texts(merge, &row);
    t->collectives[t->collective_count++] = row;
}

/* What no match has: alone, or all members in one part. */
static void add_others(struct collectives *c, struct orr__merge_part *part) {
    struct orr__merge *merge = c->merge;
    const struct orr_timeline *old = part->timeline;
    struct orr_timeline *t = merge->timeline;
    uint64_t *ids = orr__merge_array(merge, old->collective_count, sizeof *ids);
    for (size_t i = 0; i < old->collective_count && merge->status == ORR_OK; i++) {
        if (part->joined[i])
            continue;
        struct orr_timeline_collective row = old->collectives[i];
        row.id = ids[i] = t->collective_count + 1;
        row.communicator = communicator_of(c, part, communicator_index(old, row.communicator));
        copy_texts(merge, &row);
        t->collectives[t->collective_count++] = row;
    }
    for (size_t i = 0; i < old->collective_member_count && merge->status == ORR_OK; i++) {
        struct orr_timeline_collective_member m = old->collective_members[i];
        size_t row = orr__merge_find(old->collectives, old->collective_count,
                                     sizeof *old->collectives, m.collective);
        m.cmd = orr__merge_command(part, m.cmd);
        if (row == old->collective_count || ids[row] == 0 || m.cmd == 0)
            continue;
        m.collective = ids[row];
        t->collective_members[t->collective_member_count++] = m;
    }
    orr_memory_free(merge->memory, ids);
}

void orr__merge_collectives(struct orr__merge *merge) {
    struct orr_timeline *t = merge->timeline;
    size_t rows = merge->match->collective_count, members = merge->match->member_count;
    for (size_t i = 0; i < merge->part_count; i++) {
        rows += merge->parts[i].timeline->collective_count;
        members += merge->parts[i].timeline->collective_member_count;
        index_part(merge, &merge->parts[i]);
    }
    t->collectives = orr__merge_array(merge, rows, sizeof *t->collectives);
    t->collective_members = orr__merge_array(merge, members, sizeof *t->collective_members);
    if (merge->status != ORR_OK)
        return;
    find_main_devices(merge);
    struct collectives c = {.merge = merge, .all_ranks = ORR_ID_NONE};
    for (size_t i = 0; i < merge->match->collective_count && merge->status == ORR_OK; i++)
        add_matched(&c, &merge->match->collectives[i]);
    for (size_t i = 0; i < merge->part_count && merge->status == ORR_OK; i++)
        add_others(&c, &merge->parts[i]);
}
