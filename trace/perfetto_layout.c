#include "trace/perfetto_internal.h"

#include <assert.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------- */
/* Items */

static int64_t relative(const struct orr__export *export, int64_t time_ns) {
    return time_ns - export->t0_ns;
}

/* End of something that began: skewed clocks must not make it negative, and what never ended is
 * drawn up to the end of the trace. */
static int64_t end_or_last(const struct orr__export *export, int64_t start_ns, int64_t end_ns) {
    if (end_ns == ORR_TIME_NONE) {
        return export->last_ns;
    }
    return end_ns < start_ns ? relative(export, start_ns) : relative(export, end_ns);
}

static void add_item(struct orr__export *export, enum orr__item_kind kind, size_t index,
                     uint32_t lane, uint64_t order, int64_t start_ns, int64_t end_ns) {
    assert(start_ns >= 0 && end_ns >= start_ns && lane < export->lane_count);
    export->items[export->item_count++] = (struct orr__item){
        .start_ns = start_ns,
        .end_ns = end_ns,
        .order = order,
        .lane = lane & ((1u << 27) - 1),
        .kind = (unsigned)kind & 15u,
        .index = (uint32_t)index,
    };
}

static void add_enqueue(struct orr__export *export, size_t index) {
    const struct orr_timeline_command *command = &export->timeline->commands[index];
    size_t host = orr__host_index(export->timeline, command->host);
    if (host == ORR__NO_INDEX || command->enqueue_ns == ORR_TIME_NONE || command->call != 0) {
        return;
    }
    int64_t enqueued_ns =
        command->enqueued_ns == ORR_TIME_NONE ? command->enqueue_ns : command->enqueued_ns;
    add_item(export, ORR__ITEM_ENQUEUE, index, (uint32_t)host, command->id,
             relative(export, command->enqueue_ns),
             end_or_last(export, command->enqueue_ns, enqueued_ns));
}

static void add_command(struct orr__export *export, size_t index) {
    const struct orr_timeline_command *command = &export->timeline->commands[index];
    if (command->start_ns == ORR_TIME_NONE) {
        export->counts.never_started++;
        return;
    }
    if (orr__bad_command(export->timeline, command)) {
        export->counts.slices_left_out++;
        return;
    }
    export->counts.unfinished += command->finish_ns == ORR_TIME_NONE;
    size_t stream = orr__stream_index(export->timeline, command->stream);
    if (stream == ORR__NO_INDEX || export->stream_lane[stream] == ORR__NO_SLICE) {
        return;
    }
    uint32_t lane = export->stream_lane[stream];
    int64_t start_ns = relative(export, command->start_ns);
    int64_t end_ns = end_or_last(export, command->start_ns, command->finish_ns);
    add_item(export, ORR__ITEM_COMMAND, index, lane, command->id, start_ns, end_ns);
    export->items[export->item_count - 1].graph = command->kind == ORR_COMMAND_GRAPH;
    if (command->kind == ORR_COMMAND_WAIT && command->finish_ns != ORR_TIME_NONE &&
        end_ns > start_ns) {
        add_item(export, ORR__ITEM_RESUME, index, lane, command->id, end_ns, end_ns);
    }
}

static void add_sync(struct orr__export *export, size_t index) {
    const struct orr_timeline_sync *sync = &export->timeline->syncs[index];
    size_t host = orr__host_index(export->timeline, sync->host);
    if (host == ORR__NO_INDEX || sync->begin_ns == ORR_TIME_NONE) {
        return;
    }
    int64_t end_ns = end_or_last(export, sync->begin_ns, sync->end_ns);
    add_item(export, ORR__ITEM_SYNC, index, (uint32_t)host, sync->cmd,
             relative(export, sync->begin_ns), end_ns);
    if (sync->cmd != 0 && sync->end_ns != ORR_TIME_NONE) {
        add_item(export, ORR__ITEM_SYNCED, index, (uint32_t)host, sync->cmd, end_ns, end_ns);
    }
}

static void add_phase(struct orr__export *export, size_t index) {
    const struct orr_perfetto_phase *phase = &export->phases[index];
    size_t device = orr__device_index(export->timeline, phase->device);
    if (device == ORR__NO_INDEX || phase->begin_ns == ORR_TIME_NONE ||
        phase->end_ns <= phase->begin_ns) {
        export->counts.slices_left_out++;
        return;
    }
    add_item(export, ORR__ITEM_PHASE, index, export->device_lane[device], 0,
             relative(export, phase->begin_ns), relative(export, phase->end_ns));
}

static void add_call(struct orr__export *export, size_t index) {
    const struct orr_timeline_call *call = &export->timeline->calls[index];
    size_t host = orr__host_index(export->timeline, call->host);
    if (host == ORR__NO_INDEX || orr__bad_stretch(call->begin_ns, call->end_ns)) {
        export->counts.slices_left_out++;
        return;
    }
    add_item(export, ORR__ITEM_CALL, index, (uint32_t)host, 0, relative(export, call->begin_ns),
             relative(export, call->end_ns));
}

static void add_timeline_slice(struct orr__export *export, size_t index) {
    const struct orr_timeline_slice *slice = &export->timeline->slices[index];
    size_t host = orr__host_index(export->timeline, slice->host);
    size_t stream = orr__stream_index(export->timeline, slice->stream);
    uint32_t lane = ORR__NO_SLICE;
    if (host != ORR__NO_INDEX) {
        lane = export->host_slices[ORR__SLICES_COUNT * host + orr__slice_lane_of(slice)];
    } else if (stream != ORR__NO_INDEX) {
        lane = export->stream_slices[stream];
    }
    /* A lane of slices is never the first; of a stream without a device it was not made. */
    if (lane == ORR__NO_SLICE || lane == 0 || orr__bad_stretch(slice->begin_ns, slice->end_ns)) {
        export->counts.slices_left_out++;
        return;
    }
    add_item(export, ORR__ITEM_SLICE, index, lane, 0, relative(export, slice->begin_ns),
             relative(export, slice->end_ns));
}

/* The device that ran a command, by index: its stream's, if that is known. */
static size_t command_device(const struct orr_timeline *timeline,
                             const struct orr_timeline_command *command) {
    size_t stream = orr__stream_index(timeline, command->stream);
    uint32_t id = stream == ORR__NO_INDEX ? command->device : timeline->streams[stream].device;
    return orr__device_index(timeline, id);
}

/* A finding stands where its later command starts; if that never did, or on no device, where the
 * earlier one does. */
static void add_finding(struct orr__export *export, size_t index) {
    const struct orr_timeline *timeline = export->timeline;
    const struct orr_timeline_finding *finding = &timeline->findings[index];
    const uint64_t candidates[] = {finding->cmd_b, finding->cmd_a};
    for (size_t i = 0; i < 2; i++) {
        size_t cmd = orr__command_index(timeline, candidates[i]);
        if (candidates[i] == 0 || cmd == ORR__NO_INDEX) {
            continue;
        }
        const struct orr_timeline_command *command = &timeline->commands[cmd];
        size_t device = command_device(timeline, command);
        if (device != ORR__NO_INDEX && command->start_ns != ORR_TIME_NONE) {
            int64_t start_ns = relative(export, command->start_ns);
            add_item(export, ORR__ITEM_FINDING, index, export->device_lane[device] + 1, finding->id,
                     start_ns, start_ns);
            return;
        }
    }
}

static enum orr_status collect_items(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    const size_t limit = INT32_MAX;
    if (timeline->command_count > limit / 4 || timeline->sync_count > limit / 8 ||
        timeline->finding_count > limit / 8 || export->phase_count > limit / 8 ||
        timeline->edge_count > limit || timeline->counter_count > limit ||
        timeline->call_count > limit / 8 || timeline->slice_count > limit / 8) {
        return orr_error_set(export->error, ORR_UNSUPPORTED,
                             "%s: the trace is too long for one file", export->path);
    }
    size_t items = 3 * timeline->command_count + 2 * timeline->sync_count + export->phase_count +
                   timeline->finding_count + timeline->call_count + timeline->slice_count;
    enum orr_status status =
        orr__export_alloc(export, &export->items, items, sizeof *export->items);
    if (status != ORR_OK) {
        return status;
    }
    for (size_t i = 0; i < timeline->command_count; i++) {
        add_enqueue(export, i);
        add_command(export, i);
    }
    for (size_t i = 0; i < timeline->sync_count; i++) {
        add_sync(export, i);
    }
    for (size_t i = 0; i < export->phase_count; i++) {
        add_phase(export, i);
    }
    for (size_t i = 0; i < timeline->finding_count; i++) {
        add_finding(export, i);
    }
    for (size_t i = 0; i < timeline->call_count; i++) {
        add_call(export, i);
    }
    for (size_t i = 0; i < timeline->slice_count; i++) {
        add_timeline_slice(export, i);
    }
    assert(export->item_count <= items);
    return ORR_OK;
}

/* The order of layout at one start: longest first, lanes apart, in a lane what may share a slice
 * together (enqueues of one call), then commands by id. */
static int compare_items(const void *context, uint32_t a_index, uint32_t b_index) {
    const struct orr__item *items = context, *a = &items[a_index], *b = &items[b_index];
    if (a->end_ns != b->end_ns) {
        return a->end_ns > b->end_ns ? -1 : 1;
    }
    if (a->lane != b->lane) {
        return a->lane < b->lane ? -1 : 1;
    }
    bool a_enqueue = a->kind == ORR__ITEM_ENQUEUE, b_enqueue = b->kind == ORR__ITEM_ENQUEUE;
    if (a_enqueue != b_enqueue) {
        return a_enqueue ? -1 : 1;
    }
    if (a->order != b->order) {
        return a->order < b->order ? -1 : 1;
    }
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return (a->index > b->index) - (a->index < b->index);
}

static enum orr_status sort_items(struct orr__export *export) {
    size_t count = export->item_count;
    struct orr__item *sorted;
    enum orr_status status = orr__export_keys(export, count);
    if (status == ORR_OK) {
        status = orr__export_alloc(export, &sorted, count, sizeof *sorted);
    }
    if (status != ORR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        export->keys[i].key = (uint64_t) export->items[i].start_ns;
        export->keys[i].index = (uint32_t)i;
    }
    orr__sort_keys(export->keys, export->scratch, count);
    orr__sort_ties(export->keys, export->scratch, count, compare_items, export->items);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = export->items[export->keys[i].index];
    }
    orr_memory_free(export->memory, export->items);
    export->items = sorted;
    return ORR_OK;
}

/* ---------------------------------------------------------------------------------------------- */
/* Slices */

/* Remembers where items[first, first + count) were drawn. */
static void record_place(struct orr__export *export, size_t first, size_t count, uint32_t place) {
    for (size_t i = first; i < first + count; i++) {
        const struct orr__item *item = &export->items[i];
        switch ((enum orr__item_kind)item->kind) {
        case ORR__ITEM_ENQUEUE: export->enqueue_slice[item->index] = place; break;
        case ORR__ITEM_COMMAND: export->command_slice[item->index] = place; break;
        case ORR__ITEM_RESUME: export->resume_slice[item->index] = place; break;
        case ORR__ITEM_SYNCED: export->synced_slice[item->index] = place; break;
        case ORR__ITEM_CALL: export->call_slice[item->index] = place; break;
        case ORR__ITEM_SLICE:
        case ORR__ITEM_SYNC:
        case ORR__ITEM_PHASE:
        case ORR__ITEM_FINDING: break;
        }
    }
}

static void add_slice(struct orr__export *export, size_t first, size_t count, uint32_t tid) {
    const struct orr__item *item = &export->items[first];
    export->slices[export->slice_count++] = (struct orr__slice){
        .start_ns = item->start_ns,
        .dur_ns = item->end_ns - item->start_ns,
        .pid = export->lanes[item->lane].pid,
        .tid = tid,
        .first = (uint32_t)first,
        .count = (uint32_t)count,
    };
}

/* Takes the first overlap thread of a lane that is free at `start_ns`, until `end_ns`: its tid, 0
 * if there is none. */
static enum orr_status take_overlap(struct orr__export *export, struct orr__lane *lane,
                                    int64_t start_ns, int64_t end_ns, uint32_t *out_tid) {
    size_t k = 0;
    *out_tid = 0;
    while (k < lane->overlap_count && lane->overlap_end_ns[k] > start_ns) {
        k++;
    }
    if (k == ORR__OVERLAPS_MAX) {
        return ORR_OK;
    }
    if (k == lane->overlap_count) {
        enum orr_status status =
            orr_memory_grow(export->memory, &lane->overlap_end_ns, &lane->overlap_capacity, k + 1,
                            sizeof *lane->overlap_end_ns, ORR__OVERLAPS_MAX);
        if (status != ORR_OK) {
            return orr_error_set(export->error, status, "%s: out of memory", export->path);
        }
        lane->overlap_count++;
    }
    lane->overlap_end_ns[k] = end_ns;
    *out_tid = lane->tid + ORR__OVERLAP_TID + (uint32_t)k;
    return ORR_OK;
}

/* Puts items[first, first + count), which share one slice of some length, on the first thread of
 * their lane that is free. */
static enum orr_status place(struct orr__export *export, size_t first, size_t count) {
    const struct orr__item *item = &export->items[first];
    struct orr__lane *lane = &export->lanes[item->lane];
    bool graph = item->graph;
    int64_t *end_ns = graph ? &lane->graphs_end_ns : &lane->end_ns;
    uint32_t tid = graph ? lane->tid + ORR__GRAPHS_TID : lane->tid;
    assert(item->end_ns > item->start_ns);
    if (*end_ns <= item->start_ns) {
        *end_ns = item->end_ns;
        lane->used |= !graph;
        lane->graphs_used |= graph;
    } else if (lane->kind == ORR__LANE_PHASES) {
        tid = 0;
    } else {
        enum orr_status status = take_overlap(export, lane, item->start_ns, item->end_ns, &tid);
        if (status != ORR_OK) {
            return status;
        }
    }
    if (tid == 0) {
        export->counts.slices_left_out++;
        record_place(export, first, count, ORR__LEFT_OUT);
        return ORR_OK;
    }
    add_slice(export, first, count, tid);
    return ORR_OK;
}

/* Places items[first, end), all of one lane, start and end. Enqueues come first there and share a
 * slice, whose place in the order is that of its first command. */
static enum orr_status place_equal(struct orr__export *export, size_t first, size_t end) {
    const struct orr__item *items = export->items;
    size_t group_end = first;
    while (group_end < end && items[group_end].kind == ORR__ITEM_ENQUEUE) {
        group_end++;
    }
    bool grouped = group_end > first;
    enum orr_status status = ORR_OK;
    for (size_t i = group_end; i < end && status == ORR_OK; i++) {
        if (grouped && items[i].order >= items[first].order) {
            status = place(export, first, group_end - first);
            grouped = false;
        }
        status = status == ORR_OK ? place(export, i, 1) : status;
    }
    if (grouped && status == ORR_OK) {
        status = place(export, first, group_end - first);
    }
    return status;
}

/* All that takes no time at one moment of one lane is one slice. */
static void place_marks(struct orr__export *export, size_t first, size_t end) {
    struct orr__lane *lane = &export->lanes[export->items[first].lane];
    bool finding = lane->kind == ORR__LANE_FINDINGS;
    lane->used |= finding;
    lane->marks_used |= !finding;
    add_slice(export, first, end - first, finding ? lane->tid : lane->tid + ORR__MARKS_TID);
}

static int compare_slices(const struct orr__slice *a, const struct orr__slice *b) {
    if (a->dur_ns != b->dur_ns) {
        return a->dur_ns > b->dur_ns ? -1 : 1;
    }
    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    return (a->tid > b->tid) - (a->tid < b->tid);
}

/* Slices of one start come out of the layout in their final order, but for overlap and graph
 * threads among equally long ones: few and near, so an insertion sort. */
static void settle(struct orr__export *export, size_t first) {
    struct orr__slice *slices = export->slices;
    for (size_t i = first + 1; i < export->slice_count; i++) {
        struct orr__slice moved = slices[i];
        size_t j = i;
        while (j > first && compare_slices(&slices[j - 1], &moved) > 0) {
            slices[j] = slices[j - 1];
            j--;
        }
        slices[j] = moved;
    }
    for (size_t i = first; i < export->slice_count; i++) {
        record_place(export, slices[i].first, slices[i].count, (uint32_t)i);
    }
}

static enum orr_status place_all(struct orr__export *export) {
    const struct orr__item *items = export->items;
    size_t settled = 0;
    for (size_t first = 0, end; first < export->item_count; first = end) {
        const struct orr__item *item = &items[first];
        end = first + 1;
        while (end < export->item_count && items[end].start_ns == item->start_ns &&
               items[end].end_ns == item->end_ns && items[end].lane == item->lane) {
            end++;
        }
        if (item->end_ns == item->start_ns) {
            place_marks(export, first, end);
        } else {
            enum orr_status status = place_equal(export, first, end);
            if (status != ORR_OK) {
                return status;
            }
        }
        if (end == export->item_count || items[end].start_ns != item->start_ns) {
            settle(export, settled);
            settled = export->slice_count;
        }
    }
    export->counts.slices = export->slice_count;
    return ORR_OK;
}

static enum orr_status alloc_places(const struct orr__export *export, uint32_t **out_places,
                                    size_t count) {
    enum orr_status status = orr__export_alloc(export, out_places, count, sizeof **out_places);
    for (size_t i = 0; status == ORR_OK && i < count; i++) {
        (*out_places)[i] = ORR__NO_SLICE;
    }
    return status;
}

/* Which collective a command belongs to; the first, should a trace say more than one. */
static enum orr_status find_collectives(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    if (timeline->collective_member_count == 0) {
        return ORR_OK;
    }
    size_t commands = timeline->command_count;
    enum orr_status status =
        orr__export_alloc(export, &export->collective_of, commands, sizeof *export->collective_of);
    if (status != ORR_OK) {
        return status;
    }
    memset(export->collective_of, 0, commands * sizeof *export->collective_of);
    for (size_t i = timeline->collective_member_count; i-- > 0;) {
        const struct orr_timeline_collective_member *member = &timeline->collective_members[i];
        size_t cmd = orr__command_index(timeline, member->cmd);
        const struct orr_timeline_collective *collective =
            orr_timeline_collective(timeline, member->collective);
        if (cmd != ORR__NO_INDEX && collective) {
            export->collective_of[cmd] = (uint32_t)(collective - timeline->collectives) + 1;
        }
    }
    return ORR_OK;
}

enum orr_status orr__perfetto_layout(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    enum orr_status status = collect_items(export);
    status = status == ORR_OK ? sort_items(export) : status;
    if (status == ORR_OK) {
        status =
            orr__export_alloc(export, &export->slices, export->item_count, sizeof *export->slices);
    }
    if (status == ORR_OK) {
        status = alloc_places(export, &export->enqueue_slice, timeline->command_count);
    }
    if (status == ORR_OK) {
        status = alloc_places(export, &export->command_slice, timeline->command_count);
    }
    if (status == ORR_OK) {
        status = alloc_places(export, &export->resume_slice, timeline->command_count);
    }
    if (status == ORR_OK) {
        status = alloc_places(export, &export->synced_slice, timeline->sync_count);
    }
    if (status == ORR_OK) {
        status = alloc_places(export, &export->call_slice, timeline->call_count);
    }
    status = status == ORR_OK ? find_collectives(export) : status;
    status = status == ORR_OK ? orr__perfetto_calls(export) : status;
    return status == ORR_OK ? place_all(export) : status;
}
