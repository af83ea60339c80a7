/* Communication ops of all ranks: what kind, which group, who with. */
#include <string.h>

#include "analyzer/ranks_internal.h"
#include "analyzer/sort.h"
#include "analyzer/timeline_find.h"

enum { WORD_MAX = 256 };

/* First match in this order: longer words before those they contain. */
static const struct {
    const char *word;
    enum orr__comm_kind kind;
} words[] = {
    {"allreduce", ORR__COMM_ALL_REDUCE},
    {"reducescatter", ORR__COMM_REDUCE_SCATTER},
    {"allgather", ORR__COMM_ALL_GATHER},
    {"alltoall", ORR__COMM_ALL_TO_ALL},
    {"broadcast", ORR__COMM_BROADCAST},
    {"bcast", ORR__COMM_BROADCAST},
    {"sendrecv", ORR__COMM_SEND_RECEIVE},
    {"sendreceive", ORR__COMM_SEND_RECEIVE},
    {"barrier", ORR__COMM_BARRIER},
    {"reduce", ORR__COMM_REDUCE},
    {"gather", ORR__COMM_GATHER},
    {"scatter", ORR__COMM_SCATTER},
    {"send", ORR__COMM_SEND},
    {"recv", ORR__COMM_RECEIVE},
    {"receive", ORR__COMM_RECEIVE},
};

bool orr__comm_transfer(enum orr__comm_kind kind) {
    return kind == ORR__COMM_SEND || kind == ORR__COMM_RECEIVE || kind == ORR__COMM_SEND_RECEIVE;
}

const char *orr__comm_kind_text(enum orr__comm_kind kind) {
    static const char *const texts[] = {
#define COMM_TEXT(name, text, coincide) text,
        ORR__COMM_LIST(COMM_TEXT)
#undef COMM_TEXT
    };
    return texts[kind];
}

enum orr__comm_kind orr__comm_kind_of(const char *text) {
    /* Letters alone, in lower case: "All_Reduce" and "allreduce" are one word. Arguments of a
     * kernel's name say nothing. */
    char letters[WORD_MAX];
    size_t length = 0;
    for (; *text && *text != '(' && *text != '<' && length + 1 < sizeof letters; text++) {
        char c = *text;
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (c >= 'a' && c <= 'z') {
            letters[length++] = c;
        }
    }
    letters[length] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(letters, words[i].word)) {
            return words[i].kind;
        }
    }
    return ORR__COMM_OTHER;
}

/* ------------------------------------------------------------------------------------------------
 * Groups */

/* Places of a part's communicators in the groups, and of groups by their hash. */
struct collector {
    struct orr__ranks_work *w;
    uint32_t *group_of; /* by index of the part's communicators; NONE: not looked up yet */
    uint32_t *table;    /* a power of two, at most half full; NONE: free */
    size_t table_size;
    uint32_t nameless;     /* the group of what has no communicator, NONE before it is made */
    const char *last_name; /* and what it says: names repeat */
    enum orr__comm_kind last_kind;
};

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

static uint64_t hash_group(const struct orr__comm_group *group) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = group->name; *c; c++) {
        hash = mix(hash, (unsigned char)*c);
    }
    for (size_t i = 0; i < group->rank_count; i++) {
        hash = mix(hash, group->ranks[i]);
    }
    return hash ^ hash >> 29;
}

static bool same_group(const struct orr__comm_group *a, const struct orr__comm_group *b) {
    return a->hash == b->hash && a->rank_count == b->rank_count && strcmp(a->name, b->name) == 0 &&
           (a->rank_count == 0 ||
            memcmp(a->ranks, b->ranks, a->rank_count * sizeof *a->ranks) == 0);
}

static size_t group_slot(const struct collector *c, const struct orr__comm_group *group) {
    size_t slot = (size_t)group->hash & (c->table_size - 1);
    while (c->table[slot] != ORR_EVENTS_NONE && !same_group(&c->w->groups[c->table[slot]], group)) {
        slot = (slot + 1) & (c->table_size - 1);
    }
    return slot;
}

static enum orr_status grow_table(struct collector *c) {
    size_t size = c->table_size > 0 ? 2 * c->table_size : 64;
    uint32_t *table = orr_memory_resize(c->w->memory, NULL, size * sizeof *table);
    if (!table) {
        return ORR_NO_MEMORY;
    }
    memset(table, 0xff, size * sizeof *table);
    orr_memory_free(c->w->memory, c->table);
    c->table = table;
    c->table_size = size;
    for (size_t i = 0; i < c->w->group_count; i++) {
        c->table[group_slot(c, &c->w->groups[i])] = (uint32_t)i;
    }
    return ORR_OK;
}

/* Takes group->ranks over. */
static enum orr_status intern_group(struct collector *c, struct orr__comm_group *group,
                                    uint32_t *out_index) {
    struct orr__ranks_work *w = c->w;
    group->hash = hash_group(group);
    enum orr_status status = 2 * w->group_count >= c->table_size ? grow_table(c) : ORR_OK;
    size_t slot = status == ORR_OK ? group_slot(c, group) : 0;
    if (status == ORR_OK && c->table[slot] != ORR_EVENTS_NONE) {
        *out_index = c->table[slot];
        orr_memory_free(w->memory, (void *)group->ranks);
        return ORR_OK;
    }
    if (status == ORR_OK) {
        status = orr_memory_grow(w->memory, &w->groups, &w->group_capacity, w->group_count + 1,
                                 sizeof *w->groups, ORR_EVENTS_NONE - 1);
    }
    if (status != ORR_OK) {
        orr_memory_free(w->memory, (void *)group->ranks);
        return status;
    }
    *out_index = c->table[slot] = (uint32_t)w->group_count;
    w->groups[w->group_count++] = *group;
    return ORR_OK;
}

static bool smaller(const void *context, uint32_t a, uint32_t b) {
    (void)context;
    return a < b;
}

/* The group that a communicator of a timeline is: its name and its ranks, sorted. */
static enum orr_status read_group(struct collector *c, const struct orr_timeline *t,
                                  uint32_t communicator, uint32_t *out_index) {
    const struct orr_timeline_communicator *row = &t->communicators[communicator];
    struct orr__comm_group group = {.name = row->name};
    size_t first = 0, end;
    while (first < t->member_count && t->members[first].communicator != row->id) {
        first++;
    }
    end = first;
    while (end < t->member_count && t->members[end].communicator == row->id) {
        end++;
    }
    if (end > first) {
        uint32_t *ranks = orr_memory_resize(c->w->memory, NULL, (end - first) * sizeof *ranks);
        if (!ranks) {
            return ORR_NO_MEMORY;
        }
        for (size_t i = first; i < end; i++) {
            ranks[i - first] = t->members[i].rank;
        }
        group.ranks = ranks;
        group.rank_count = end - first;
        enum orr_status status =
            orr__sort_indices(c->w->memory, ranks, group.rank_count, smaller, NULL);
        if (status != ORR_OK) {
            orr_memory_free(c->w->memory, ranks);
            return status;
        }
    }
    return intern_group(c, &group, out_index);
}

static enum orr_status find_group(struct collector *c, const struct orr_timeline *t,
                                  const struct orr_timeline_collective *row, uint32_t *out_index) {
    uint32_t communicator = row ? orr__find_communicator(t, row->communicator) : ORR_EVENTS_NONE;
    uint32_t *known = communicator == ORR_EVENTS_NONE ? &c->nameless : &c->group_of[communicator];
    if (*known == ORR_EVENTS_NONE) {
        struct orr__comm_group none = {.name = ""};
        enum orr_status status = communicator == ORR_EVENTS_NONE
                                     ? intern_group(c, &none, known)
                                     : read_group(c, t, communicator, known);
        if (status != ORR_OK) {
            return status;
        }
    }
    *out_index = *known;
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Entries */

static enum orr__comm_kind kind_of(struct collector *c, const char *text) {
    if (text != c->last_name) {
        c->last_name = text;
        c->last_kind = orr__comm_kind_of(text);
    }
    return c->last_kind;
}

/* Which side of a transfer an op is, from the ranks that its row names: often the other one's
 * alone. */
static void set_peer(const struct orr__ranks_work *w, const struct orr_timeline_collective *row,
                     struct orr__comm_entry *entry) {
    uint32_t own = w->ranks->items[entry->rank].rank;
    bool from = row->root != ORR_ID_NONE, to = row->peer != ORR_ID_NONE;
    if (entry->kind == ORR__COMM_SEND || (to && (!from || row->root == own))) {
        entry->kind = ORR__COMM_SEND;
        entry->peer = row->peer;
    } else if (entry->kind == ORR__COMM_RECEIVE || (from && (!to || row->peer == own))) {
        entry->kind = ORR__COMM_RECEIVE;
        entry->peer = from ? row->root : row->peer;
    }
}

static enum orr_status add_entry(struct collector *c, uint32_t rank, uint32_t index) {
    struct orr__ranks_work *w = c->w;
    const struct orr_ranks_input *input = orr__ranks_input(w, rank);
    const struct orr_timeline *t = input->timeline;
    const struct orr_events_op *op = &input->events->ops[index];
    bool has_row = op->collective != ORR_EVENTS_NONE && op->collective < t->collective_count;
    const struct orr_timeline_collective *row = has_row ? &t->collectives[op->collective] : NULL;
    struct orr__comm_entry entry = {.rank = rank,
                                    .op = index,
                                    .collective = ORR_EVENTS_NONE,
                                    .peer = ORR_ID_NONE,
                                    .seq = row ? row->seq : ORR__SEQ_NONE};
    if (row && input->events->collectives[op->collective].members > 1) {
        entry.collective = op->collective;
    }
    entry.kind = row && row->kind[0] != '\0' ? kind_of(c, row->kind) : ORR__COMM_OTHER;
    entry.kind = entry.kind == ORR__COMM_OTHER ? kind_of(c, op->name) : entry.kind;
    if (row && orr__comm_transfer(entry.kind)) {
        set_peer(w, row, &entry);
    }
    enum orr_status status = find_group(c, t, row, &entry.group);
    if (status == ORR_OK) {
        status = orr_memory_grow(w->memory, &w->entries, &w->entry_capacity, w->entry_count + 1,
                                 sizeof *w->entries, ORR_EVENTS_NONE - 1);
    }
    if (status == ORR_OK) {
        w->entries[w->entry_count++] = entry;
        w->ranks->items[rank].comm_ops++;
    }
    return status;
}

static enum orr_status add_rank(struct collector *c, uint32_t rank) {
    const struct orr_rank *r = &c->w->ranks->items[rank];
    const struct orr_events *events = orr__ranks_input(c->w, rank)->events;
    if (r->device == ORR_ID_NONE) {
        return ORR_OK;
    }
    for (uint32_t d = 0; d < events->device_count; d++) {
        if (events->devices[d].id != r->device) {
            continue;
        }
        for (size_t i = events->device_first[d]; i < events->device_first[d + 1]; i++) {
            uint32_t index = events->device_order[i];
            const struct orr_events_op *op = &events->ops[index];
            bool its = op->activity == ORR_ACTIVITY_COMM &&
                       events->streams[op->stream].process == r->process;
            enum orr_status status = its ? add_entry(c, rank, index) : ORR_OK;
            if (status != ORR_OK) {
                return status;
            }
        }
    }
    return ORR_OK;
}

enum orr_status orr__ranks_collect(struct orr__ranks_work *w) {
    struct orr_ranks *ranks = w->ranks;
    struct collector c = {.w = w, .nameless = ORR_EVENTS_NONE};
    enum orr_status status = ORR_OK;
    uint32_t part = ORR_EVENTS_NONE;
    for (uint32_t r = 0; r < ranks->count && status == ORR_OK; r++) {
        if (ranks->items[r].part != part) {
            part = ranks->items[r].part;
            size_t count = orr__ranks_input(w, r)->timeline->communicator_count;
            orr_memory_free(w->memory, c.group_of);
            c.group_of = orr_memory_resize(w->memory, NULL, count * sizeof *c.group_of + 1);
            if (!c.group_of) {
                status = ORR_NO_MEMORY;
                break;
            }
            memset(c.group_of, 0xff, count * sizeof *c.group_of);
        }
        status = add_rank(&c, r);
        ranks->comm_ops += ranks->items[r].comm_ops;
    }
    orr_memory_free(w->memory, c.group_of);
    orr_memory_free(w->memory, c.table);
    return status;
}

void orr__ranks_work_free(struct orr__ranks_work *w) {
    for (size_t i = 0; i < w->group_count; i++) {
        orr_memory_free(w->memory, (void *)w->groups[i].ranks);
    }
    orr_memory_free(w->memory, w->groups);
    orr_memory_free(w->memory, w->entries);
}
