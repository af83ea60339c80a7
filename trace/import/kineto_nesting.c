/* The cpu_op that a call stands in, by time on the thread: for work whose External id leads
 * nowhere, as in files of older profilers, whose ids of calls and operators have nothing in common.
 *
 * Only calls that own one command: what a captured graph contains is not of the operator that
 * happens to launch it. */
#include "trace/import/kineto_internal.h"
#include "trace/sort.h"

struct nesting {
    const struct orr__kineto *k;
    struct orr_timeline *timeline;
    struct orr__sort_key *operators, *wanted, *scratch; /* by begin */
    size_t wanted_count;
    uint32_t *owned;  /* commands of each call */
    uint32_t *top;    /* operator that is open on each host, + 1 */
    uint32_t *parent; /* of each operator, + 1 */
};

static uint64_t key_of(int64_t ns) {
    return (uint64_t)ns ^ UINT64_C(1) << 63;
}

static const struct orr_timeline_slice *slice_of(const struct nesting *n, uint32_t op) {
    return &n->timeline->slices[n->k->operators[op].slice];
}

/* Of two that begin together the longer one is around the other. */
static int compare_operators(const void *context, uint32_t a, uint32_t b) {
    const struct nesting *n = context;
    int64_t x = slice_of(n, a)->end_ns, y = slice_of(n, b)->end_ns;
    if (x != y)
        return x > y ? -1 : 1;
    const struct orr__kineto_operator *p = &n->k->operators[a], *q = &n->k->operators[b];
    int order = strcmp(p->name, q->name);
    return order != 0 ? order : strcmp(p->shape, q->shape);
}

static bool is_wanted(const struct nesting *n, const struct orr_timeline_command *command) {
    return command->op == 0 && command->call != 0 && n->owned[command->call - 1] == 1;
}

/* Whether anything has to be done at all. */
static bool count_owned(struct nesting *n) {
    const struct orr_timeline *t = n->timeline;
    bool any = false;
    for (size_t i = 0; i < t->command_count; i++)
        if (t->commands[i].call != 0)
            n->owned[t->commands[i].call - 1]++;
    for (size_t i = 0; i < t->command_count; i++)
        any = any || is_wanted(n, &t->commands[i]);
    return any;
}

static void sort_items(struct nesting *n) {
    const struct orr_timeline *t = n->timeline;
    size_t count = n->k->operators_count;
    for (size_t i = 0; i < count; i++)
        n->operators[i] =
            (struct orr__sort_key){key_of(slice_of(n, (uint32_t)i)->begin_ns), (uint32_t)i, 0};
    orr__sort_keys(n->operators, n->scratch, count);
    orr__sort_ties(n->operators, n->scratch, count, compare_operators, n);
    for (size_t i = 0; i < t->command_count; i++)
        if (is_wanted(n, &t->commands[i]))
            n->wanted[n->wanted_count++] =
                (struct orr__sort_key){key_of(t->commands[i].enqueue_ns), (uint32_t)i, 0};
    orr__sort_keys(n->wanted, n->scratch, n->wanted_count);
}

/* The innermost operator that is open on the host at that time, + 1; 0 none. */
static uint32_t open_at(struct nesting *n, uint32_t host, int64_t ns) {
    while (n->top[host] != 0 && slice_of(n, n->top[host] - 1)->end_ns <= ns)
        n->top[host] = n->parent[n->top[host] - 1];
    return n->top[host];
}

static enum orr_status walk(struct nesting *n, size_t *op_capacity) {
    struct orr_timeline *t = n->timeline;
    enum orr_status status = ORR_OK;
    size_t at = 0, count = n->k->operators_count;
    for (size_t i = 0; status == ORR_OK && i < n->wanted_count; i++) {
        struct orr_timeline_command *command = &t->commands[n->wanted[i].index];
        for (; at < count && n->operators[at].key <= n->wanted[i].key; at++) {
            uint32_t op = n->operators[at].index, host = slice_of(n, op)->host;
            if (host >= t->host_count)
                continue;
            n->parent[op] = open_at(n, host, slice_of(n, op)->begin_ns);
            n->top[host] = op + 1;
        }
        uint32_t found =
            command->host < t->host_count ? open_at(n, command->host, command->enqueue_ns) : 0;
        if (found != 0)
            status = orr__kineto_assign(n->k, t, op_capacity, found - 1, command);
    }
    return status;
}

enum orr_status orr__kineto_nest(struct orr__kineto *k, struct orr_timeline *timeline,
                                 size_t *op_capacity) {
    struct nesting n = {.k = k, .timeline = timeline};
    size_t operators = k->operators_count, commands = timeline->command_count;
    size_t most = operators > commands ? operators : commands;
    if (operators == 0 || commands == 0 || timeline->call_count == 0)
        return ORR_OK;
    n.owned = orr_memory_alloc(k->memory, timeline->call_count * sizeof *n.owned);
    enum orr_status status = n.owned ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK && count_owned(&n)) {
        n.operators = orr_memory_alloc(k->memory, operators * sizeof *n.operators);
        n.wanted = orr_memory_alloc(k->memory, commands * sizeof *n.wanted);
        n.scratch = orr_memory_alloc(k->memory, most * sizeof *n.scratch);
        n.top = orr_memory_alloc(k->memory, timeline->host_count * sizeof *n.top);
        n.parent = orr_memory_alloc(k->memory, operators * sizeof *n.parent);
        status = n.operators && n.wanted && n.scratch && n.top && n.parent ? ORR_OK : ORR_NO_MEMORY;
        if (status == ORR_OK) {
            sort_items(&n);
            status = walk(&n, op_capacity);
        }
    }
    orr_memory_free(k->memory, n.owned);
    orr_memory_free(k->memory, n.operators);
    orr_memory_free(k->memory, n.wanted);
    orr_memory_free(k->memory, n.scratch);
    orr_memory_free(k->memory, n.top);
    orr_memory_free(k->memory, n.parent);
    return status;
}
