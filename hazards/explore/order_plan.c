#include "hazards/explore/order_plan.h"

#include <assert.h>
#include <string.h>

/* Reads the calls of a program in list order. Every actor, event, flag, ... has a row: the set of
 * actions that are known to be done before anything it does (or whoever waits for it does) next. */

enum end_kind { END_NONE, END_FREE, END_FREE_ASYNC, END_HOST };

struct name_state {
    uint32_t block;
    uint32_t alloc;  /* action of its alloc_async */
    uint32_t end_op; /* ORR_NONE: lives */
    uint8_t end;     /* enum end_kind */
    bool is_introduced, is_reused;
};

/* A stream that a buffer remembers, from record_stream. */
struct remembered {
    uint32_t buffer, stream;
};

struct builder {
    struct orr__order_plan *plan;
    const struct orr_stream_program *program;
    uint64_t *rows; /* actors, events, flags, freed buffers, then pairs of communicator and host */
    uint32_t first_event, first_flag, first_freed, first_serial, row_count;
    bool *is_set; /* per row: events with content, flags that were notified, serial pairs */
    struct name_state *names;
    struct remembered *remembered;
    size_t remembered_capacity;
    uint32_t remembered_count, block_count;
    const char *invalid;
};

/* --- rows --- */

static uint64_t *row(const struct builder *b, uint32_t index) {
    return b->rows + (size_t)index * b->plan->words;
}

static void join(const struct builder *b, uint32_t into, uint32_t from) {
    uint64_t *to = row(b, into);
    const uint64_t *what = row(b, from);
    for (uint32_t i = 0; i < b->plan->words; i++)
        to[i] |= what[i];
}

static void save(const struct builder *b, uint32_t into, uint32_t from) {
    memcpy(row(b, into), row(b, from), b->plan->words * sizeof(uint64_t));
    b->is_set[into] = true;
}

static uint32_t host_row(const struct builder *b, uint32_t host) {
    return b->program->names[ORR_NAME_STREAM].count + host;
}

static bool is_legacy(const struct builder *b, uint32_t stream) {
    return b->program->streams[stream].sync == ORR_STREAM_LEGACY;
}

static bool is_blocking_of(const struct builder *b, uint32_t stream, uint32_t legacy) {
    const struct orr_stream_info *info = &b->program->streams[stream];
    return (info->sync == ORR_STREAM_BL || info->sync == ORR_STREAM_PTDS) &&
           info->device == b->program->streams[legacy].device;
}

/* `into` joins the blocking streams of `stream` if that is a legacy one. */
static void join_blocking(const struct builder *b, uint32_t into, uint32_t stream) {
    if (!is_legacy(b, stream))
        return;
    for (uint32_t i = 0; i < b->program->names[ORR_NAME_STREAM].count; i++)
        if (is_blocking_of(b, i, stream))
            join(b, into, i);
}

/* --- actions --- */

static struct orr__action *add_action(struct builder *b, uint32_t op, uint32_t actor,
                                      enum orr__action_role role) {
    struct orr__order_plan *plan = b->plan;
    uint32_t index = plan->action_count++;
    struct orr__action *action = &plan->actions[index];
    *action = (struct orr__action){.op = op,
                                   .actor = actor,
                                   .role = (uint8_t)role,
                                   .name = ORR_NONE,
                                   .block = ORR_NONE,
                                   .access_first = plan->access_count};
    uint64_t *known = row(b, actor);
    memcpy(plan->before + (size_t)index * plan->words, known, plan->words * sizeof(uint64_t));
    known[index / 64] |= 1ull << (index % 64);
    return action;
}

static uint32_t last_action(const struct builder *b) {
    return b->plan->action_count - 1;
}

/* Adds the accesses of `op` to the last action: all, or only those that read or write. */
enum which { WHICH_ALL, WHICH_READS, WHICH_WRITES };

static enum orr_status add_accesses(struct builder *b, const struct orr_stream_op *op,
                                    enum which which) {
    struct orr__order_plan *plan = b->plan;
    struct orr__action *action = &plan->actions[last_action(b)];
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct orr_stream_access *access = &b->program->accesses[op->access_first + i];
        if (b->program->buffers[access->buffer] == ORR_MEMORY_EMPTY || access->hi <= access->lo ||
            (which == WHICH_READS && access->is_write) ||
            (which == WHICH_WRITES && !access->is_write))
            continue;
        enum orr_status status = orr_memory_grow(
            plan->memory, &plan->accesses, &plan->access_capacity, (size_t)plan->access_count + 1,
            sizeof *plan->accesses, ORR_PLAN_ACCESSES_MAX + 1);
        if (status != ORR_OK)
            return status;
        const struct name_state *name = &b->names[access->buffer];
        plan->accesses[plan->access_count++] =
            (struct orr__plan_access){.action = last_action(b),
                                      .name = access->buffer,
                                      .block = name->block,
                                      .alloc = name->alloc,
                                      .ended_op = name->end_op,
                                      .is_write = access->is_write,
                                      .lo = access->lo,
                                      .hi = access->hi};
        action->access_count++;
        if (name->end_op != ORR_NONE)
            action->is_poisoned = true;
    }
    return ORR_OK;
}

/* What a stream joins before an action or a wait, and who joins it after. */
static void stream_enter(const struct builder *b, uint32_t host, uint32_t stream) {
    join_blocking(b, stream, stream);
    join(b, stream, host_row(b, host));
}

static void stream_leave(const struct builder *b, uint32_t stream) {
    if (!is_legacy(b, stream))
        return;
    for (uint32_t i = 0; i < b->program->names[ORR_NAME_STREAM].count; i++)
        if (is_blocking_of(b, i, stream))
            join(b, i, stream);
}

static enum orr_status stream_action(struct builder *b, uint32_t index, uint32_t stream,
                                     enum which which) {
    const struct orr_stream_op *op = &b->program->ops[index];
    stream_enter(b, op->host, stream);
    add_action(b, index, stream, ORR_ACTION_ACCESS);
    enum orr_status status = add_accesses(b, op, which);
    stream_leave(b, stream);
    return status;
}

static enum orr_status host_action(struct builder *b, uint32_t index, enum which which) {
    const struct orr_stream_op *op = &b->program->ops[index];
    add_action(b, index, host_row(b, op->host), ORR_ACTION_ACCESS);
    return add_accesses(b, op, which);
}

static void host_waits(const struct builder *b, uint32_t host, uint32_t stream) {
    join(b, host_row(b, host), stream);
    join_blocking(b, host_row(b, host), stream);
}

/* --- copies --- */

static enum orr_memory_kind memory_of(const struct builder *b, const struct orr_stream_op *op,
                                      bool is_write) {
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct orr_stream_access *access = &b->program->accesses[op->access_first + i];
        if (access->is_write == is_write)
            return b->program->buffers[access->buffer];
    }
    return ORR_MEMORY_DEV;
}

static bool is_host_memory(enum orr_memory_kind kind) {
    return kind == ORR_MEMORY_PINNED || kind == ORR_MEMORY_PAGEABLE;
}

/* The host reads the source into a staging buffer; the stream writes the destination from it. */
static enum orr_status staged_copy(struct builder *b, uint32_t index, uint32_t stream) {
    enum orr_status status = host_action(b, index, WHICH_READS);
    if (status == ORR_OK)
        status = stream_action(b, index, stream, WHICH_WRITES);
    b->plan->actions[last_action(b)].part = 1;
    return status;
}

static enum orr_status copy_async(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    enum orr_memory_kind source = memory_of(b, op, false), target = memory_of(b, op, true);
    if (source == ORR_MEMORY_PAGEABLE && !is_host_memory(target) && b->program->is_staged)
        return staged_copy(b, index, op->stream);
    enum orr_status status = stream_action(b, index, op->stream, WHICH_ALL);
    if (is_host_memory(source) && is_host_memory(target))
        join(b, host_row(b, op->host), op->stream);
    return status;
}

static uint32_t legacy_of(const struct builder *b, uint32_t device) {
    for (uint32_t i = 0; i < b->program->names[ORR_NAME_STREAM].count; i++)
        if (is_legacy(b, i) && b->program->streams[i].device == device)
            return i;
    return ORR_NONE;
}

static enum orr_status copy_sync(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    uint32_t legacy = legacy_of(b, op->device);
    assert(legacy != ORR_NONE);
    enum orr_memory_kind source = memory_of(b, op, false), target = memory_of(b, op, true);
    if (source == ORR_MEMORY_PAGEABLE && !is_host_memory(target)) {
        host_waits(b, op->host, legacy);
        return staged_copy(b, index, legacy);
    }
    enum orr_status status = stream_action(b, index, legacy, WHICH_ALL);
    if (is_host_memory(source) || is_host_memory(target))
        join(b, host_row(b, op->host), legacy);
    return status;
}

static enum orr_status fill_sync(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    uint32_t legacy = legacy_of(b, op->device);
    assert(legacy != ORR_NONE);
    enum orr_memory_kind target = memory_of(b, op, true);
    enum orr_status status = stream_action(b, index, legacy, WHICH_ALL);
    if (target == ORR_MEMORY_PINNED || target == ORR_MEMORY_MANAGED)
        join(b, host_row(b, op->host), legacy);
    return status;
}

static enum orr_status communicate(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    if (!b->program->nccl_serial)
        return stream_action(b, index, op->stream, WHICH_ALL);
    uint32_t serial =
        b->first_serial + op->object * b->program->names[ORR_NAME_HOST].count + op->host;
    join(b, op->stream, serial); /* nothing in it before the first */
    enum orr_status status = stream_action(b, index, op->stream, WHICH_ALL);
    save(b, serial, op->stream);
    return status;
}

/* --- events --- */

static void record_event(const struct builder *b, const struct orr_stream_op *op) {
    uint32_t event = b->first_event + op->object;
    join(b, op->stream, host_row(b, op->host));
    save(b, event, op->stream);
    join_blocking(b, event, op->stream);
}

static void wait_event(const struct builder *b, const struct orr_stream_op *op) {
    uint32_t event = b->first_event + op->object;
    if (op->ignored || !b->is_set[event])
        return;
    stream_enter(b, op->host, op->stream);
    join(b, op->stream, event);
    stream_leave(b, op->stream);
}

static void host_waits_event(const struct builder *b, const struct orr_stream_op *op) {
    uint32_t event = b->first_event + op->object;
    if (b->is_set[event])
        join(b, host_row(b, op->host), event);
}

static void host_waits_device(const struct builder *b, const struct orr_stream_op *op) {
    for (uint32_t i = 0; i < b->program->names[ORR_NAME_STREAM].count; i++)
        if (b->program->streams[i].device == op->device)
            join(b, host_row(b, op->host), i);
}

/* --- memory --- */

/* Gives a name its block; with `reuse` that of a name which `end` ended, whose saved row `actor`
 * joins. */
static void introduce(struct builder *b, const struct orr_stream_op *op, enum end_kind end,
                      uint32_t actor) {
    struct name_state *name = &b->names[op->object];
    if (name->is_introduced || name->end_op != ORR_NONE) {
        b->invalid = name->is_introduced ? "introduces a name twice" : "introduces an ended name";
        return;
    }
    uint32_t block = b->block_count;
    if (op->other != ORR_NONE) {
        struct name_state *old = &b->names[op->other];
        if (old->end != end || old->is_reused) {
            b->invalid = old->is_reused ? "reuses memory that was reused before"
                                        : "reuses memory that the matching call has not freed";
            return;
        }
        old->is_reused = true;
        block = old->block;
        join(b, actor, b->first_freed + op->other);
    } else {
        b->block_count++;
    }
    name->is_introduced = true;
    name->block = block;
}

static void make_alias(struct builder *b, const struct orr_stream_op *op) {
    struct name_state *name = &b->names[op->object];
    if (name->is_introduced || name->end_op != ORR_NONE) {
        b->invalid = name->is_introduced ? "introduces a name twice" : "introduces an ended name";
        return;
    }
    name->is_introduced = true;
    name->block = b->names[op->other].block;
}

static void end_name(struct builder *b, uint32_t index, enum end_kind kind) {
    struct name_state *name = &b->names[b->program->ops[index].object];
    name->end_op = index;
    name->end = (uint8_t)kind;
}

static void free_cached(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    uint32_t freed = b->first_freed + op->object;
    save(b, freed, host_row(b, op->host));
    for (uint32_t i = 0; i < b->remembered_count; i++)
        if (b->remembered[i].buffer == op->object)
            join(b, freed, b->remembered[i].stream);
    end_name(b, index, END_FREE);
}

static enum orr_status remember_stream(struct builder *b, const struct orr_stream_op *op) {
    enum orr_status status = orr_memory_grow(
        b->plan->memory, &b->remembered, &b->remembered_capacity, (size_t)b->remembered_count + 1,
        sizeof *b->remembered, b->program->op_count);
    if (status == ORR_OK)
        b->remembered[b->remembered_count++] = (struct remembered){op->object, op->stream};
    return status;
}

static void name_action(const struct builder *b, struct orr__action *action) {
    action->name = b->program->ops[action->op].object;
    action->block = b->names[action->name].block;
}

static void alloc_async(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    introduce(b, op, END_FREE_ASYNC, op->stream);
    if (b->invalid)
        return;
    stream_enter(b, op->host, op->stream);
    name_action(b, add_action(b, index, op->stream, ORR_ACTION_ALLOC));
    b->names[op->object].alloc = last_action(b);
    stream_leave(b, op->stream);
}

static void free_async(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    if (b->names[op->object].alloc == ORR_NONE) {
        b->invalid = "frees memory that alloc_async did not allocate";
        return;
    }
    stream_enter(b, op->host, op->stream);
    name_action(b, add_action(b, index, op->stream, ORR_ACTION_END));
    stream_leave(b, op->stream);
    save(b, b->first_freed + op->object, op->stream);
    end_name(b, index, END_FREE_ASYNC);
}

/* The end of life on the host is a step of the host, but nothing is ordered by it. */
static void free_on_host(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    name_action(b, add_action(b, index, host_row(b, op->host), ORR_ACTION_END));
    end_name(b, index, END_HOST);
}

/* --- the calls --- */

static bool ends_a_name(enum orr_stream_op_kind kind) {
    return kind == ORR_OP_FREE || kind == ORR_OP_FREE_ASYNC || kind == ORR_OP_CUDA_FREE ||
           kind == ORR_OP_HOST_FREE;
}

static enum orr_status apply_memory(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    if (ends_a_name((enum orr_stream_op_kind)op->kind) && b->names[op->object].end_op != ORR_NONE) {
        b->invalid = "ends a name twice";
        return ORR_OK;
    }
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_ALLOC: introduce(b, op, END_FREE, host_row(b, op->host)); break;
    case ORR_OP_FREE: free_cached(b, index); break;
    case ORR_OP_RECORD_STREAM: return remember_stream(b, op);
    case ORR_OP_ALLOC_ASYNC: alloc_async(b, index); break;
    case ORR_OP_FREE_ASYNC: free_async(b, index); break;
    case ORR_OP_CUDA_FREE:
    case ORR_OP_HOST_FREE: free_on_host(b, index); break;
    case ORR_OP_ALIAS: make_alias(b, op); break;
    default: break; /* no effect on what comes before what */
    }
    return ORR_OK;
}

static void apply_order(struct builder *b, const struct orr_stream_op *op) {
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_RECORD: record_event(b, op); break;
    case ORR_OP_WAIT: wait_event(b, op); break;
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK: host_waits_event(b, op); break;
    case ORR_OP_SYNC_STREAM:
    case ORR_OP_STREAM_QUERY_OK: host_waits(b, op->host, op->stream); break;
    case ORR_OP_SYNC_DEVICE: host_waits_device(b, op); break;
    case ORR_OP_EVENT_CREATE:
    case ORR_OP_EVENT_DESTROY: b->is_set[b->first_event + op->object] = false; break;
    case ORR_OP_NOTIFY: save(b, b->first_flag + op->object, host_row(b, op->host)); break;
    case ORR_OP_AWAIT:
        if (b->is_set[b->first_flag + op->object])
            join(b, host_row(b, op->host), b->first_flag + op->object);
        else
            b->invalid = "awaits a flag that was not notified yet";
        break;
    default: assert(false);
    }
}

static enum orr_status apply(struct builder *b, uint32_t index) {
    const struct orr_stream_op *op = &b->program->ops[index];
    switch ((enum orr_stream_op_kind)op->kind) {
    case ORR_OP_KERNEL:
    case ORR_OP_HOSTFN:
    case ORR_OP_MEMSET: return stream_action(b, index, op->stream, WHICH_ALL);
    case ORR_OP_MEMCPY: return copy_async(b, index);
    case ORR_OP_MEMCPY_SYNC: return copy_sync(b, index);
    case ORR_OP_MEMSET_SYNC: return fill_sync(b, index);
    case ORR_OP_COLL:
    case ORR_OP_SEND:
    case ORR_OP_RECV: return communicate(b, index);
    case ORR_OP_HOST_READ:
    case ORR_OP_HOST_WRITE: return host_action(b, index, WHICH_ALL);
    case ORR_OP_RECORD:
    case ORR_OP_WAIT:
    case ORR_OP_SYNC_EVENT:
    case ORR_OP_QUERY_OK:
    case ORR_OP_SYNC_STREAM:
    case ORR_OP_STREAM_QUERY_OK:
    case ORR_OP_SYNC_DEVICE:
    case ORR_OP_EVENT_CREATE:
    case ORR_OP_EVENT_DESTROY:
    case ORR_OP_NOTIFY:
    case ORR_OP_AWAIT: apply_order(b, op); return ORR_OK;
    default: return apply_memory(b, index);
    }
}

/* --- life --- */

/* How many actions there will be at most. */
static uint32_t count_actions(const struct orr_stream_program *program) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->op_count; i++) {
        switch ((enum orr_stream_op_kind)program->ops[i].kind) {
        case ORR_OP_MEMCPY:
        case ORR_OP_MEMCPY_SYNC: count += 2; break;
        case ORR_OP_KERNEL:
        case ORR_OP_HOSTFN:
        case ORR_OP_MEMSET:
        case ORR_OP_MEMSET_SYNC:
        case ORR_OP_COLL:
        case ORR_OP_SEND:
        case ORR_OP_RECV:
        case ORR_OP_HOST_READ:
        case ORR_OP_HOST_WRITE:
        case ORR_OP_ALLOC_ASYNC:
        case ORR_OP_FREE_ASYNC:
        case ORR_OP_CUDA_FREE:
        case ORR_OP_HOST_FREE: count++; break;
        default: break;
        }
        if (count > ORR_PLAN_ACTIONS_MAX)
            break;
    }
    return count;
}

static enum orr_status count_rows(struct builder *b, struct orr_error *error) {
    const struct orr_stream_program *program = b->program;
    b->plan->actor_count =
        program->names[ORR_NAME_STREAM].count + program->names[ORR_NAME_HOST].count;
    b->first_event = b->plan->actor_count;
    b->first_flag = b->first_event + program->names[ORR_NAME_EVENT].count;
    b->first_freed = b->first_flag + program->names[ORR_NAME_FLAG].count;
    b->first_serial = b->first_freed + program->names[ORR_NAME_BUFFER].count;
    uint64_t count = b->first_serial;
    if (program->nccl_serial)
        count +=
            (uint64_t)program->names[ORR_NAME_COMM].count * program->names[ORR_NAME_HOST].count;
    if (count * b->plan->words * sizeof(uint64_t) > ORR_PLAN_ROWS_BYTES_MAX)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "too large to explore: %u actions with %u names of streams, hosts, "
                             "events, flags and buffers",
                             64 * b->plan->words, b->first_serial);
    b->row_count = (uint32_t)count;
    return ORR_OK;
}

static enum orr_status allocate(struct builder *b, struct orr_error *error) {
    struct orr__order_plan *plan = b->plan;
    uint32_t actions = count_actions(b->program);
    if (actions > ORR_PLAN_ACTIONS_MAX)
        return orr_error_set(error, ORR_UNSUPPORTED,
                             "too large to explore: more than %d operations that do something",
                             ORR_PLAN_ACTIONS_MAX);
    plan->words = (actions + 63) / 64;
    plan->words += plan->words == 0;
    enum orr_status status = count_rows(b, error);
    if (status != ORR_OK)
        return status;
    uint32_t buffers = b->program->names[ORR_NAME_BUFFER].count;
    plan->actions = orr_memory_alloc(plan->memory, (actions + 1) * sizeof *plan->actions);
    plan->before =
        orr_memory_alloc(plan->memory, (size_t)(actions + 1) * plan->words * sizeof *plan->before);
    b->rows = orr_memory_alloc(plan->memory, (size_t)b->row_count * plan->words * sizeof *b->rows);
    b->is_set = orr_memory_alloc(plan->memory, b->row_count);
    b->names = orr_memory_alloc(plan->memory, (size_t)buffers * sizeof *b->names);
    if (!plan->actions || !plan->before || !b->rows || !b->is_set || !b->names)
        return ORR_NO_MEMORY;
    for (uint32_t i = 0; i < buffers; i++)
        b->names[i] = (struct name_state){.block = i, .alloc = ORR_NONE, .end_op = ORR_NONE};
    b->block_count = buffers;
    return ORR_OK;
}

static enum orr_status cut_cells(struct builder *b, struct orr_error *error) {
    uint32_t count = b->program->names[ORR_NAME_BUFFER].count;
    uint32_t *block_of = orr_memory_alloc(b->plan->memory, count * sizeof *block_of);
    bool *is_live = orr_memory_alloc(b->plan->memory, count);
    enum orr_status status = ORR_NO_MEMORY;
    if (block_of && is_live) {
        for (uint32_t i = 0; i < count; i++) {
            block_of[i] = b->names[i].block;
            is_live[i] = b->names[i].end_op == ORR_NONE;
        }
        status = orr__plan_cut_cells(b->plan, block_of, is_live, error);
    }
    orr_memory_free(b->plan->memory, block_of);
    orr_memory_free(b->plan->memory, is_live);
    return status;
}

static enum orr_status build(struct builder *b, struct orr_error *error) {
    enum orr_status status = allocate(b, error);
    for (uint32_t i = 0; status == ORR_OK && i < b->program->op_count; i++) {
        status = apply(b, i);
        if (b->plan->access_count > ORR_PLAN_ACCESSES_MAX)
            return orr_error_set(error, ORR_UNSUPPORTED,
                                 "too large to explore: more than %d accesses",
                                 ORR_PLAN_ACCESSES_MAX);
        if (b->invalid) {
            b->plan->invalid_op = i;
            b->plan->invalid = b->invalid;
            break;
        }
    }
    if (status == ORR_OK)
        status = orr__plan_find_conflicts(b->plan);
    if (status == ORR_UNSUPPORTED)
        return orr_error_set(error, status, "too large to explore: more than %d conflicts",
                             ORR_PLAN_CONFLICTS_MAX);
    if (status == ORR_OK)
        status = cut_cells(b, error);
    return status;
}

enum orr_status orr__order_plan_create(const struct orr_stream_program *program,
                                       struct orr__order_plan **out_plan, struct orr_error *error) {
    assert(program->oracle == ORR_ORACLE_HB);
    struct orr__order_plan *plan = orr_memory_alloc(program->memory, sizeof *plan);
    *out_plan = NULL;
    if (!plan)
        return ORR_NO_MEMORY;
    plan->program = program;
    plan->memory = program->memory;
    plan->invalid_op = ORR_NONE;
    struct builder b = {.plan = plan, .program = program};
    enum orr_status status = build(&b, error);
    orr_memory_free(plan->memory, b.rows);
    orr_memory_free(plan->memory, b.is_set);
    orr_memory_free(plan->memory, b.names);
    orr_memory_free(plan->memory, b.remembered);
    if (status != ORR_OK)
        orr__order_plan_destroy(&plan);
    *out_plan = plan;
    return status;
}

void orr__order_plan_destroy(struct orr__order_plan **handle) {
    struct orr__order_plan *plan = *handle;
    if (!plan)
        return;
    const struct orr_memory *memory = plan->memory;
    orr_memory_free(memory, plan->actions);
    orr_memory_free(memory, plan->accesses);
    orr_memory_free(memory, plan->touches);
    orr_memory_free(memory, plan->conflicts);
    orr_memory_free(memory, plan->findings);
    orr_memory_free(memory, plan->before);
    orr_memory_free(memory, plan->is_final);
    orr_memory_free(memory, plan);
    *handle = NULL;
}
