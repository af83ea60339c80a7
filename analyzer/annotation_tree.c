/* Paths of annotations: a sweep over the slices of each thread. See annotations.h. */
#include <string.h>

#include "analyzer/annotations.h"
#include "analyzer/events_fill.h"
#include "analyzer/sort.h"

struct builder {
    const struct orr_timeline *timeline;
    const struct orr_events *events;
    const struct orr_steps *steps;
    const struct orr_memory *memory;
    struct orr_annotations *out;
    uint32_t *node_of_call; /* by call of the events */
    uint32_t *slices;       /* those that count, by thread, begin, end descending */
    uint32_t *threads;      /* of each of them: index in the timeline's hosts */
    size_t slice_count, capacity;
    uint32_t *slots; /* node + 1 by (parent, name), 0 empty; a power of two */
    size_t slot_count;
};

/* ------------------------------------------------------------------------------------------------
 * Nodes */

static uint64_t hash_of(uint32_t parent, const char *name, size_t length) {
    uint64_t hash = UINT64_C(14695981039346656037) ^ parent;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 29;
}

static bool same_node(const struct orr_annotation *node, uint32_t parent, const char *name,
                      size_t length) {
    return node->parent == parent && node->name_length == length &&
           memcmp(node->name, name, length) == 0;
}

static void insert(struct builder *b, uint32_t index) {
    const struct orr_annotation *node = &b->out->items[index];
    uint64_t hash = hash_of(node->parent, node->name, node->name_length);
    size_t at = hash & (b->slot_count - 1);
    while (b->slots[at]) {
        at = (at + 1) & (b->slot_count - 1);
    }
    b->slots[at] = index + 1;
}

/* Twice the slots, when half are taken. */
static enum orr_status grow_slots(struct builder *b) {
    if ((b->out->count + 1) * 2 <= b->slot_count) {
        return ORR_OK;
    }
    size_t count = b->slot_count ? 2 * b->slot_count : 256;
    uint32_t *slots = orr_memory_alloc(b->memory, count * sizeof *slots);
    if (!slots) {
        return ORR_NO_MEMORY;
    }
    orr_memory_free(b->memory, b->slots);
    b->slots = slots;
    b->slot_count = count;
    for (uint32_t i = 1; i < b->out->count; i++) {
        insert(b, i);
    }
    return ORR_OK;
}

static enum orr_status add_node(struct builder *b, uint32_t parent, const char *name, size_t length,
                                uint32_t *out_index) {
    struct orr_annotations *out = b->out;
    enum orr_status status = orr_memory_grow(b->memory, &out->items, &b->capacity, out->count + 1,
                                             sizeof *out->items, ORR_ANNOTATION_NODES_MAX);
    if (status == ORR_OK) {
        status = grow_slots(b);
    }
    if (status != ORR_OK) {
        return status;
    }
    uint32_t index = (uint32_t)out->count++;
    out->items[index] = (struct orr_annotation){
        .name = name,
        .name_length = length,
        .parent = parent,
        .depth = parent == ORR_EVENTS_NONE ? 0 : out->items[parent].depth + 1};
    if (parent != ORR_EVENTS_NONE) {
        insert(b, index);
    }
    *out_index = index;
    return ORR_OK;
}

/* The child of a node by name, made when new; the parent itself beyond the limits. */
static enum orr_status child_of(struct builder *b, uint32_t parent, const char *name, size_t length,
                                uint32_t *out_index) {
    size_t at = hash_of(parent, name, length) & (b->slot_count - 1);
    for (; b->slots[at]; at = (at + 1) & (b->slot_count - 1)) {
        if (same_node(&b->out->items[b->slots[at] - 1], parent, name, length)) {
            *out_index = b->slots[at] - 1;
            return ORR_OK;
        }
    }
    if (b->out->count == ORR_ANNOTATION_NODES_MAX ||
        b->out->items[parent].depth == ORR_ANNOTATION_DEPTH_MAX) {
        b->out->dropped++;
        *out_index = parent;
        return ORR_OK;
    }
    return add_node(b, parent, name, length, out_index);
}

/* ------------------------------------------------------------------------------------------------
 * Slices */

/* Names of emit_nvtx end in ", op_id = 12" or ", seq = 3": the same operator every time. */
static size_t name_length(const char *name) {
    const char *ends[] = {strstr(name, ", op_id = "), strstr(name, ", seq = ")};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends[i] && (size_t)(ends[i] - name) < length) {
            length = (size_t)(ends[i] - name);
        }
    }
    return length;
}

static bool is_step(const struct builder *b, const struct orr_timeline_slice *s, uint32_t thread) {
    uint32_t step = orr_steps_at(b->steps, b->timeline->hosts[thread].process, s->begin_ns);
    const struct orr_step *found = step == ORR_STEP_NONE ? NULL : &b->steps->items[step];
    return found && found->host == s->host && found->begin_ns == s->begin_ns &&
           found->end_ns == s->end_ns && strcmp(found->name, s->name) == 0;
}

/* The thread of a slice that counts, as its place in the timeline; NONE for others. */
static uint32_t thread_of(const struct builder *b, const struct orr_timeline_slice *s,
                          bool operators) {
    static const char module[] = "nn.Module: ";
    bool named = operators ? s->kind == ORR_SLICE_OPERATOR
                           : s->kind == ORR_SLICE_ANNOTATION ||
                                 (s->kind == ORR_SLICE_FUNCTION &&
                                  strncmp(s->name, module, sizeof module - 1) == 0);
    if (!named || s->host == ORR_ID_NONE || s->end_ns <= s->begin_ns ||
        !orr__good_time(s->begin_ns) || !orr__good_time(s->end_ns)) {
        return ORR_EVENTS_NONE;
    }
    uint32_t thread = orr__find_host(b->timeline, s->host);
    return thread != ORR_EVENTS_NONE && !is_step(b, s, thread) ? thread : ORR_EVENTS_NONE;
}

static size_t count_slices(const struct builder *b, bool operators) {
    size_t count = 0;
    for (size_t i = 0; i < b->timeline->slice_count; i++) {
        count += thread_of(b, &b->timeline->slices[i], operators) != ORR_EVENTS_NONE;
    }
    return count;
}

static bool slice_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_timeline *t = context;
    const struct orr_timeline_slice *a = &t->slices[x], *b = &t->slices[y];
    if (a->host != b->host) {
        return a->host < b->host;
    }
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns;
    }
    return a->end_ns != b->end_ns ? a->end_ns > b->end_ns : strcmp(a->name, b->name) < 0;
}

static enum orr_status collect(struct builder *b) {
    const struct orr_timeline *t = b->timeline;
    size_t count = count_slices(b, false);
    if (count == 0) {
        count = count_slices(b, true);
        b->out->by_operator = count > 0;
    }
    if (count == 0 || t->slice_count >= ORR_EVENTS_NONE) {
        return ORR_OK;
    }
    b->slices = orr_memory_resize(b->memory, NULL, count * sizeof *b->slices);
    if (!b->slices) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < t->slice_count; i++) {
        if (thread_of(b, &t->slices[i], b->out->by_operator) != ORR_EVENTS_NONE) {
            b->slices[b->slice_count++] = (uint32_t)i;
        }
    }
    return orr__sort_indices(b->memory, b->slices, b->slice_count, slice_before, t);
}

/* ------------------------------------------------------------------------------------------------
 * The sweep */

struct open_slice {
    int64_t end_ns;
    uint32_t node;
};

struct sweep {
    struct open_slice *stack; /* owned; what ended is dropped when it is on top */
    size_t depth, capacity;
};

/* An annotation that outlives the one it began in keeps its path. */
static void close_until(struct sweep *s, int64_t time) {
    while (s->depth > 0 && s->stack[s->depth - 1].end_ns <= time) {
        s->depth--;
    }
}

static enum orr_status open_slice(struct builder *b, struct sweep *s,
                                  const struct orr_timeline_slice *slice) {
    uint32_t node;
    close_until(s, slice->begin_ns);
    uint32_t parent = s->depth > 0 ? s->stack[s->depth - 1].node : 0;
    enum orr_status status = child_of(b, parent, slice->name, name_length(slice->name), &node);
    if (status == ORR_OK) {
        status = orr_memory_grow(b->memory, &s->stack, &s->capacity, s->depth + 1, sizeof *s->stack,
                                 UINT32_MAX);
    }
    if (status == ORR_OK) {
        b->out->items[node].count += node != parent;
        s->stack[s->depth++] = (struct open_slice){slice->end_ns, node};
    }
    return status;
}

/* Slices [first, end) are those of one thread; its calls are in order of their begins. */
static enum orr_status sweep_thread(struct builder *b, struct sweep *s, uint32_t thread,
                                    size_t first, size_t end) {
    const struct orr_events *events = b->events;
    s->depth = 0;
    for (size_t c = events->thread_first[thread]; c < events->thread_first[thread + 1]; c++) {
        uint32_t call = events->thread_order[c];
        int64_t begin = events->calls[call].begin_ns;
        for (; first < end && b->timeline->slices[b->slices[first]].begin_ns <= begin; first++) {
            enum orr_status status = open_slice(b, s, &b->timeline->slices[b->slices[first]]);
            if (status != ORR_OK) {
                return status;
            }
        }
        close_until(s, begin);
        b->node_of_call[call] = s->depth > 0 ? s->stack[s->depth - 1].node : 0;
    }
    enum orr_status status = ORR_OK;
    for (; first < end && status == ORR_OK; first++) { /* those after the last call are counted */
        status = open_slice(b, s, &b->timeline->slices[b->slices[first]]);
    }
    return status;
}

static enum orr_status sweep_all(struct builder *b) {
    struct sweep s = {0};
    enum orr_status status = ORR_OK;
    for (size_t i = 0, next; i < b->slice_count && status == ORR_OK; i = next) {
        uint32_t host = b->timeline->slices[b->slices[i]].host;
        for (next = i + 1;
             next < b->slice_count && b->timeline->slices[b->slices[next]].host == host; next++) {
        }
        status = sweep_thread(b, &s, orr__find_host(b->timeline, host), i, next);
    }
    orr_memory_free(b->memory, s.stack);
    return status;
}

/* The line of the program that an op comes from. */
static const char *site_of(const struct orr_timeline *t, uint32_t command) {
    uint32_t op = orr__find_op(t, t->commands[command].op);
    const char *site = op == ORR_EVENTS_NONE ? "" : t->ops[op].site;
    return site[0] ? site : t->commands[command].site;
}

enum { SITE_CACHE = 256 };

/* Equal sites mostly are one text, and a program has few: a small cache by address saves the
 * hashing. */
static enum orr_status name_by_site(struct builder *b) {
    enum orr_status status = ORR_OK;
    struct {
        const char *site;
        uint32_t node;
    } cache[SITE_CACHE] = {{NULL, 0}};
    b->out->by_site = true;
    for (size_t i = 0; i < b->events->op_count && status == ORR_OK; i++) {
        uint32_t command = b->events->ops[i].command;
        const char *site =
            command < b->timeline->command_count ? site_of(b->timeline, command) : "";
        if (!site[0]) {
            continue;
        }
        size_t slot = ((uintptr_t)site >> 3 ^ (uintptr_t)site >> 11) % SITE_CACHE;
        if (cache[slot].site != site) {
            cache[slot].site = site;
            status = child_of(b, 0, site, strlen(site), &cache[slot].node);
        }
        b->out->node_of_op[i] = cache[slot].node;
    }
    return status;
}

static enum orr_status name_by_slice(struct builder *b) {
    b->node_of_call = orr_memory_alloc(b->memory, b->events->call_count * sizeof *b->node_of_call);
    if (!b->node_of_call) {
        return ORR_NO_MEMORY;
    }
    enum orr_status status = sweep_all(b);
    for (size_t i = 0; i < b->events->op_count && status == ORR_OK; i++) {
        uint32_t call = b->events->ops[i].call;
        b->out->node_of_op[i] = call == ORR_EVENTS_NONE ? 0 : b->node_of_call[call];
    }
    return status;
}

static enum orr_status build(struct builder *b) {
    uint32_t root;
    enum orr_status status = collect(b);
    bool own = !orr__timeline_imported(b->timeline);
    if (status != ORR_OK || (b->slice_count == 0 && !own)) {
        return status;
    }
    b->out->node_of_op =
        orr_memory_alloc(b->memory, b->events->op_count * sizeof *b->out->node_of_op);
    status = b->out->node_of_op ? add_node(b, ORR_EVENTS_NONE, "", 0, &root) : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        status = b->slice_count > 0 ? name_by_slice(b) : name_by_site(b);
    }
    return status;
}

enum orr_status orr__annotation_tree(const struct orr_timeline *timeline,
                                     const struct orr_events *events, const struct orr_steps *steps,
                                     const struct orr_memory *memory, struct orr_annotations *out) {
    struct builder b = {
        .timeline = timeline, .events = events, .steps = steps, .memory = memory, .out = out};
    enum orr_status status = build(&b);
    orr_memory_free(memory, b.node_of_call);
    orr_memory_free(memory, b.slices);
    orr_memory_free(memory, b.slots);
    return status;
}
