/* Copies the arrays of the parts, with their ids, texts and times made those of the whole. */
#include <stddef.h>
#include <string.h>

#include "trace/merge_internal.h"

/* Room in the timeline for the items that all parts have in one array; then, for each item of each
 * part, `item` is its copy to be changed, `part` where it comes from. */
#define MERGE_ARRAY(merge, array, array_count, type)                                               \
    for (struct rows rows = begin_rows(merge, offsetof(struct orr_timeline, array),                \
                                       offsetof(struct orr_timeline, array_count), sizeof(type));  \
         next_row(&rows);)

struct rows {
    struct orr__merge *merge;
    size_t array, count, size;
    size_t part_index, index;
    const struct orr__merge_part *part;
    void *item;
};

static size_t count_at(const struct orr_timeline *t, size_t offset) {
    size_t count;
    memcpy(&count, (const char *)t + offset, sizeof count);
    return count;
}

static char *array_at(const struct orr_timeline *t, size_t offset) {
    char *array;
    memcpy(&array, (const char *)t + offset, sizeof array);
    return array;
}

static struct rows begin_rows(struct orr__merge *merge, size_t array, size_t count, size_t size) {
    size_t total = 0;
    for (size_t i = 0; i < merge->part_count; i++)
        total += count_at(merge->parts[i].timeline, count);
    void *items = orr__merge_array(merge, total, size);
    memcpy((char *)merge->timeline + array, &items, sizeof items);
    return (struct rows){.merge = merge, .array = array, .count = count, .size = size};
}

/* Copies the next item to the end of the timeline's array. */
static bool next_row(struct rows *rows) {
    struct orr__merge *merge = rows->merge;
    while (rows->part_index < merge->part_count &&
           rows->index == count_at(merge->parts[rows->part_index].timeline, rows->count)) {
        rows->part_index++;
        rows->index = 0;
    }
    if (rows->part_index == merge->part_count || merge->status != ORR_OK)
        return false;
    rows->part = &merge->parts[rows->part_index];
    size_t count = count_at(merge->timeline, rows->count);
    rows->item = array_at(merge->timeline, rows->array) + count * rows->size;
    memcpy(rows->item, array_at(rows->part->timeline, rows->array) + rows->index * rows->size,
           rows->size);
    count++;
    memcpy((char *)merge->timeline + rows->count, &count, sizeof count);
    rows->index++;
    return true;
}

static const char *text(struct orr__merge *merge, const char *old) {
    return old ? orr__merge_text(merge, old) : "";
}

/* -- Work -------------------------------------------------------------------------------------- */

static void add_ops(struct orr__merge *merge) {
    MERGE_ARRAY(merge, ops, op_count, struct orr_timeline_op) {
        struct orr_timeline_op *op = rows.item;
        op->id = merge->timeline->op_count;
        op->parent = orr__merge_op(rows.part, op->parent);
        op->name = text(merge, op->name);
        op->kind = text(merge, op->kind);
        op->site = text(merge, op->site);
        op->shape = text(merge, op->shape);
    }
}

/* A start and finish of 0 say that the record was lost; no clock makes a time of them. */
static void shift_work(const struct orr__merge_part *part, struct orr_timeline_command *c) {
    c->enqueue_ns = orr__merge_time(part, c->enqueue_ns);
    c->enqueued_ns = orr__merge_time(part, c->enqueued_ns);
    c->ready_ns = orr__merge_time(part, c->ready_ns);
    if (c->start_ns == 0 && c->finish_ns == 0)
        return;
    c->start_ns = orr__merge_time(part, c->start_ns);
    c->finish_ns = orr__merge_time(part, c->finish_ns);
}

static void add_commands(struct orr__merge *merge) {
    MERGE_ARRAY(merge, commands, command_count, struct orr_timeline_command) {
        struct orr_timeline_command *c = rows.item;
        c->id = merge->timeline->command_count;
        c->op = orr__merge_op(rows.part, c->op);
        c->host = orr__merge_host(rows.part, c->host);
        c->caller = orr__merge_host(rows.part, c->caller);
        c->device = orr__merge_device(rows.part, c->device);
        c->stream = orr__merge_stream(rows.part, c->stream);
        c->call = orr__merge_call(rows.part, c->call);
        c->name = text(merge, c->name);
        c->event = text(merge, c->event);
        c->site = text(merge, c->site);
        c->ts_source = text(merge, c->ts_source);
        c->grid = text(merge, c->grid);
        shift_work(rows.part, c);
    }
}

static void add_calls(struct orr__merge *merge) {
    MERGE_ARRAY(merge, calls, call_count, struct orr_timeline_call) {
        struct orr_timeline_call *call = rows.item;
        call->id = merge->timeline->call_count;
        call->merged = orr__merge_call(rows.part, call->merged);
        call->host = orr__merge_host(rows.part, call->host);
        call->name = text(merge, call->name);
        call->begin_ns = orr__merge_time(rows.part, call->begin_ns);
        call->end_ns = orr__merge_time(rows.part, call->end_ns);
    }
}

/* -- Order ------------------------------------------------------------------------------------- */

/* Those that lead nowhere are kept out: their ids would name other commands. */
static void add_edges(struct orr__merge *merge) {
    MERGE_ARRAY(merge, edges, edge_count, struct orr_timeline_edge) {
        struct orr_timeline_edge *edge = rows.item;
        edge->src = orr__merge_command(rows.part, edge->src);
        edge->dst = orr__merge_command(rows.part, edge->dst);
        if (edge->src == 0 || edge->dst == 0)
            merge->timeline->edge_count--;
    }
}

static void add_stream_waits(struct orr__merge *merge) {
    MERGE_ARRAY(merge, stream_waits, stream_wait_count, struct orr_timeline_stream_wait) {
        struct orr_timeline_stream_wait *wait = rows.item;
        wait->id = merge->timeline->stream_wait_count;
        wait->stream = orr__merge_stream(rows.part, wait->stream);
        wait->source = orr__merge_stream(rows.part, wait->source);
        wait->at_ns = orr__merge_time(rows.part, wait->at_ns);
        wait->record_ns = orr__merge_time(rows.part, wait->record_ns);
    }
}

/* What a host waited for is said as a text, too, that may end in a device's number. */
static const char *target_text(struct orr__merge *merge, const struct orr__merge_part *part,
                               const char *target) {
    static const char word[] = "device ";
    size_t digits = strlen(target), length = digits;
    uint64_t id = 0, place = 1;
    while (digits > 0 && length - digits < 9 && target[digits - 1] >= '0' &&
           target[digits - 1] <= '9') {
        id += place * (uint64_t)(target[--digits] - '0');
        place *= 10;
    }
    size_t before = sizeof word - 1;
    if (digits == length || digits < before || strncmp(target + digits - before, word, before) != 0)
        return text(merge, target);
    uint32_t device = orr__merge_device(part, (uint32_t)id);
    if (device == ORR_ID_NONE || digits > 200)
        return text(merge, target);
    return orr__merge_textf(merge, "%.*s%u", (int)digits, target, device);
}

static void add_syncs(struct orr__merge *merge) {
    MERGE_ARRAY(merge, syncs, sync_count, struct orr_timeline_sync) {
        struct orr_timeline_sync *sync = rows.item;
        sync->id = merge->timeline->sync_count;
        sync->cmd = orr__merge_command(rows.part, sync->cmd);
        sync->call = orr__merge_call(rows.part, sync->call);
        sync->host = orr__merge_host(rows.part, sync->host);
        sync->stream = orr__merge_stream(rows.part, sync->stream);
        sync->device = orr__merge_device(rows.part, sync->device);
        sync->target = target_text(merge, rows.part, sync->target ? sync->target : "");
        sync->begin_ns = orr__merge_time(rows.part, sync->begin_ns);
        sync->end_ns = orr__merge_time(rows.part, sync->end_ns);
    }
}

static void add_overheads(struct orr__merge *merge) {
    MERGE_ARRAY(merge, overheads, overhead_count, struct orr_timeline_overhead) {
        struct orr_timeline_overhead *overhead = rows.item;
        overhead->process = orr__merge_process(merge, rows.part, overhead->process);
        overhead->name = text(merge, overhead->name);
        overhead->begin_ns = orr__merge_time(rows.part, overhead->begin_ns);
        overhead->end_ns = orr__merge_time(rows.part, overhead->end_ns);
    }
}

static void add_slices(struct orr__merge *merge) {
    MERGE_ARRAY(merge, slices, slice_count, struct orr_timeline_slice) {
        struct orr_timeline_slice *slice = rows.item;
        slice->op = orr__merge_op(rows.part, slice->op);
        slice->host = orr__merge_host(rows.part, slice->host);
        slice->stream = orr__merge_stream(rows.part, slice->stream);
        slice->name = text(merge, slice->name);
        slice->begin_ns = orr__merge_time(rows.part, slice->begin_ns);
        slice->end_ns = orr__merge_time(rows.part, slice->end_ns);
    }
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void add_buffers(struct orr__merge *merge) {
    MERGE_ARRAY(merge, buffers, buffer_count, struct orr_timeline_buffer) {
        struct orr_timeline_buffer *buffer = rows.item;
        buffer->id = merge->timeline->buffer_count;
        buffer->block = buffer->block == 0 ? 0 : buffer->block + rows.part->blocks;
        buffer->alloc_cmd = orr__merge_command(rows.part, buffer->alloc_cmd);
        buffer->free_cmd = orr__merge_command(rows.part, buffer->free_cmd);
        buffer->device = orr__merge_device(rows.part, buffer->device);
        buffer->stream = orr__merge_stream(rows.part, buffer->stream);
        buffer->memory = text(merge, buffer->memory);
        buffer->label = text(merge, buffer->label);
    }
    MERGE_ARRAY(merge, buffer_roles, buffer_role_count, struct orr_timeline_buffer_role) {
        struct orr_timeline_buffer_role *role = rows.item;
        role->buffer = orr__merge_buffer(rows.part, role->buffer);
        role->after_cmd = orr__merge_command(rows.part, role->after_cmd);
        role->ts_ns = orr__merge_time(rows.part, role->ts_ns);
    }
    MERGE_ARRAY(merge, accesses, access_count, struct orr_timeline_access) {
        struct orr_timeline_access *access = rows.item;
        access->cmd = orr__merge_command(rows.part, access->cmd);
        access->buffer = orr__merge_buffer(rows.part, access->buffer);
        if (access->cmd == 0 || access->buffer == 0)
            merge->timeline->access_count--;
    }
}

static int compare_counters(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    int names = x->name == y->name ? 0 : strcmp(x->name, y->name);
    if (names != 0)
        return names;
    return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

/* Of the parts one after the other, as their rows are. */
static void add_counters(struct orr__merge *merge) {
    const struct orr__merge_part *part = NULL;
    uint32_t before = 0;
    MERGE_ARRAY(merge, counters, counter_count, struct orr_timeline_counter) {
        struct orr_timeline_counter *counter = rows.item;
        before =
            part && part != rows.part ? before + (uint32_t)part->timeline->counter_count : before;
        part = rows.part;
        counter->order += before;
        counter->device = orr__merge_device(rows.part, counter->device);
        counter->name = text(merge, counter->name);
        counter->ts_ns = orr__merge_time(rows.part, counter->ts_ns);
    }
    struct orr_timeline *t = merge->timeline;
    if (merge->status == ORR_OK)
        orr__merge_fail(merge, orr__stable_sort(merge->memory, t->counters, t->counter_count,
                                                sizeof *t->counters, compare_counters));
}

/* -- Findings ---------------------------------------------------------------------------------- */

static void add_findings(struct orr__merge *merge) {
    MERGE_ARRAY(merge, findings, finding_count, struct orr_timeline_finding) {
        struct orr_timeline_finding *finding = rows.item;
        finding->id = merge->timeline->finding_count;
        finding->cmd_a = orr__merge_command(rows.part, finding->cmd_a);
        finding->cmd_b = orr__merge_command(rows.part, finding->cmd_b);
        finding->buffer = orr__merge_buffer(rows.part, finding->buffer);
        finding->kind = text(merge, finding->kind);
        finding->severity = text(merge, finding->severity);
        finding->message =
            orr__merge_prefixed(merge, rows.part, ": ", finding->message ? finding->message : "");
        finding->fix = text(merge, finding->fix);
    }
}

void orr__merge_rows(struct orr__merge *merge) {
    add_ops(merge);
    add_commands(merge);
    add_calls(merge);
    add_edges(merge);
    add_stream_waits(merge);
    add_syncs(merge);
    add_overheads(merge);
    add_slices(merge);
    add_buffers(merge);
    add_counters(merge);
    add_findings(merge);
}
