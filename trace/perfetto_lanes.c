#include "trace/perfetto_internal.h"

#include <assert.h>

/* Index of a row that a look-up found, ORR__NO_INDEX if it found none. */
#define INDEX_IN(rows, row) ((row) ? (size_t)((row) - (rows)) : ORR__NO_INDEX)

size_t orr__command_index(const struct orr_timeline *timeline, uint64_t id) {
    const struct orr_timeline_command *row = orr_timeline_command(timeline, id);
    return INDEX_IN(timeline->commands, row);
}

size_t orr__device_index(const struct orr_timeline *timeline, uint32_t id) {
    const struct orr_timeline_device *row = orr_timeline_device(timeline, id);
    return INDEX_IN(timeline->devices, row);
}

size_t orr__stream_index(const struct orr_timeline *timeline, uint32_t id) {
    const struct orr_timeline_stream *row = orr_timeline_stream(timeline, id);
    return INDEX_IN(timeline->streams, row);
}

size_t orr__host_index(const struct orr_timeline *timeline, uint32_t id) {
    const struct orr_timeline_host *row = orr_timeline_host(timeline, id);
    return INDEX_IN(timeline->hosts, row);
}

enum orr_status orr__export_alloc(const struct orr__export *export, void *out_block, size_t count,
                                  size_t size) {
    void *block = NULL;
    if (count <= SIZE_MAX / size) {
        block = orr_memory_resize(export->memory, NULL, count * size);
    }
    memcpy(out_block, &block, sizeof block);
    if (!block) {
        return orr_error_set(export->error, ORR_NO_MEMORY, "%s: out of memory", export->path);
    }
    return ORR_OK;
}

enum orr_status orr__export_keys(struct orr__export *export, size_t count) {
    if (count <= export->key_capacity) {
        return ORR_OK;
    }
    orr_memory_free(export->memory, export->keys);
    export->keys = NULL;
    export->key_capacity = 0;
    enum orr_status status =
        orr__export_alloc(export, &export->keys, 2 * count, sizeof *export->keys);
    if (status == ORR_OK) {
        export->scratch = export->keys + count;
        export->key_capacity = count;
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------- */
/* Time zero */

struct span {
    int64_t least, greatest;
    bool any;
};

static void span_add(struct span *span, int64_t time_ns) {
    if (time_ns == ORR_TIME_NONE) {
        return;
    }
    span->least = !span->any || time_ns < span->least ? time_ns : span->least;
    span->greatest = !span->any || time_ns > span->greatest ? time_ns : span->greatest;
    span->any = true;
}

static void span_add_stretch(struct span *span, int64_t begin_ns, int64_t end_ns) {
    if (!orr__bad_stretch(begin_ns, end_ns)) {
        span_add(span, begin_ns);
        span_add(span, end_ns);
    }
}

static struct span trace_span(const struct orr_timeline *timeline) {
    struct span span = {0};
    for (size_t i = 0; i < timeline->command_count; i++) {
        const struct orr_timeline_command *command = &timeline->commands[i];
        if (orr__bad_command(timeline, command)) {
            continue;
        }
        span_add(&span, command->enqueue_ns);
        span_add(&span, command->enqueued_ns);
        span_add(&span, command->start_ns);
        span_add(&span, command->finish_ns);
    }
    for (size_t i = 0; i < timeline->sync_count; i++) {
        span_add(&span, timeline->syncs[i].begin_ns);
        span_add(&span, timeline->syncs[i].end_ns);
    }
    for (size_t i = 0; i < timeline->counter_count; i++) {
        span_add(&span, timeline->counters[i].ts_ns);
    }
    for (size_t i = 0; i < timeline->call_count; i++) {
        span_add_stretch(&span, timeline->calls[i].begin_ns, timeline->calls[i].end_ns);
    }
    for (size_t i = 0; i < timeline->slice_count; i++) {
        span_add_stretch(&span, timeline->slices[i].begin_ns, timeline->slices[i].end_ns);
    }
    return span;
}

static bool clock_is_virtual(const struct orr_timeline *timeline) {
    for (size_t i = 0; i < timeline->meta_count; i++) {
        if (strcmp(timeline->meta[i].key, "clock") == 0) {
            return strcmp(timeline->meta[i].value, "virtual") == 0;
        }
    }
    return false;
}

/* Chooses t0 and checks that every time fits behind it: above 2^52 ns readers that keep
 * microseconds in a double lose nanoseconds. */
static enum orr_status choose_zero(struct orr__export *export) {
    const uint64_t limit = (uint64_t)1 << 52;
    struct span trace = trace_span(export->timeline), all = trace;
    for (size_t i = 0; i < export->phase_count; i++) {
        span_add(&all, export->phases[i].begin_ns);
        span_add(&all, export->phases[i].end_ns);
    }
    bool is_virtual = clock_is_virtual(export->timeline);
    if (is_virtual && all.least < 0) {
        return orr_error_set(export->error, ORR_INVALID,
                             "%s: the trace has a time of %lld ns, but its clock is virtual and "
                             "starts at 0",
                             export->path, (long long)all.least);
    }
    export->t0_ns = is_virtual ? 0 : all.least;
    if ((uint64_t)all.greatest - (uint64_t) export->t0_ns >= limit) {
        return orr_error_set(export->error, ORR_INVALID,
                             "%s: the trace reaches from %lld to %lld ns; readers are exact only "
                             "below 2^52 ns (52 days)",
                             export->path, (long long)export->t0_ns, (long long)all.greatest);
    }
    export->last_ns = trace.any ? trace.greatest - export->t0_ns : 0;
    return ORR_OK;
}

/* ---------------------------------------------------------------------------------------------- */
/* Names that must not stand alone */

static size_t skip_digits_back(const char *name, size_t end) {
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') {
        end--;
    }
    return end;
}

/* True if `name` ends in `before` + digits + `after`; digits may be none if `after` is "". */
static bool ends_in_number(const char *name, const char *before, const char *after) {
    size_t length = strlen(name), after_length = strlen(after), before_length = strlen(before);
    if (length < after_length || strcmp(name + length - after_length, after) != 0) {
        return false;
    }
    size_t digits = skip_digits_back(name, length - after_length);
    return digits >= before_length &&
           memcmp(name + digits - before_length, before, before_length) == 0;
}

/* Names that look like one of ours get the id behind them, so that all threads of a process differ
 * as long as the names that stand alone do. */
static bool is_reserved(const char *name) {
    return name[0] == '\0' || strcmp(name, "phases") == 0 || strcmp(name, "findings") == 0 ||
           ends_in_number(name, " marks", "") || ends_in_number(name, " graphs", "") ||
           ends_in_number(name, " overlap ", "") || ends_in_number(name, " (host ", ")") ||
           ends_in_number(name, " (stream ", ")");
}

static const char *const slice_suffixes[ORR__SLICES_COUNT] = {" annotations", " operators",
                                                              " functions"};

/* Where there are lanes of slices, names that look like theirs are taken, too. */
static bool is_slice_name(const struct orr__export *export, const char *name) {
    bool found = false;
    for (size_t i = 0; i < ORR__SLICES_COUNT && export->host_slices; i++) {
        found |= ends_in_number(name, "", slice_suffixes[i]);
    }
    return found;
}

static bool is_ours(const struct orr__lane *lane) {
    return lane->kind != ORR__LANE_HOST && lane->kind != ORR__LANE_STREAM;
}

static int compare_lane_names(const void *context, uint32_t a, uint32_t b) {
    const struct orr__lane *lanes = context;
    return orr_json_text_compare(lanes[a].name, lanes[b].name);
}

/* Marks lanes whose name is reserved or is that of another lane of the same process, as written. */
static enum orr_status find_ambiguous(struct orr__export *export) {
    size_t count = export->lane_count;
    if (orr__export_keys(export, count) != ORR_OK) {
        return ORR_NO_MEMORY;
    }
    struct orr__sort_key *keys = export->keys;
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        struct orr__lane *lane = &export->lanes[i];
        lane->ambiguous =
            !is_ours(lane) && (is_reserved(lane->name) || is_slice_name(export, lane->name));
        keys[named].key = lane->pid;
        keys[named].index = (uint32_t)i;
        named += lane->kind != ORR__LANE_SLICES; /* those are named after another lane */
    }
    orr__sort_keys(keys, export->scratch, named);
    orr__sort_ties(keys, export->scratch, named, compare_lane_names, export->lanes);
    for (size_t i = 1; i < named; i++) {
        uint32_t a = keys[i - 1].index, b = keys[i].index;
        if (keys[i - 1].key == keys[i].key && compare_lane_names(export->lanes, a, b) == 0) {
            export->lanes[a].ambiguous = !is_ours(&export->lanes[a]);
            export->lanes[b].ambiguous = !is_ours(&export->lanes[b]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct orr__lane *lane = &export->lanes[i];
        if (lane->kind == ORR__LANE_SLICES) {
            lane->ambiguous = export->lanes[lane->base].ambiguous;
        }
    }
    return ORR_OK;
}

/* ---------------------------------------------------------------------------------------------- */
/* Lanes */

/* Ids that are small, as ours are, show in pid and tid; otherwise the position does. */
uint32_t orr__device_pid(const struct orr__export *export, size_t device) {
    const struct orr_timeline *timeline = export->timeline;
    bool small = timeline->devices[timeline->device_count - 1].id <= INT32_MAX - ORR__DEVICE_PID;
    uint32_t number = small ? timeline->devices[device].id : (uint32_t)device;
    return ORR__DEVICE_PID + number;
}

enum { LANES_OF_PROCESS_MAX = INT32_MAX / ORR__LANE_TIDS - 1 };

static uint32_t lane_tid(size_t number) {
    assert(number < LANES_OF_PROCESS_MAX);
    return (uint32_t)(ORR__LANE_TIDS * (number + 1));
}

static struct orr__lane *add_lane(struct orr__export *export, enum orr__lane_kind kind,
                                  uint32_t pid, uint32_t tid, const char *name) {
    struct orr__lane *lane = &export->lanes[export->lane_count++];
    *lane = (struct orr__lane){
        .kind = kind,
        .pid = pid,
        .tid = tid,
        .name = name,
        .suffix = "",
        .id_suffix = kind == ORR__LANE_HOST ? " (host " : " (stream ",
    };
    return lane;
}

/* A lane for slices of the host or stream that has lane `base`. */
static uint32_t add_slice_lane(struct orr__export *export, uint32_t base, uint32_t tid,
                               enum orr__slice_lane what) {
    const struct orr__lane *of = &export->lanes[base];
    struct orr__lane *lane = add_lane(export, ORR__LANE_SLICES, of->pid, tid, of->name);
    lane->suffix = slice_suffixes[what];
    lane->id_suffix = of->id_suffix;
    lane->id = of->id;
    lane->base = base;
    return (uint32_t)(lane - export->lanes);
}

enum { WANTED = 0 }; /* in host_slices and stream_slices, until the lane is there */

/* Marks which hosts and streams have slices, and of which sort. */
static enum orr_status want_slices(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    size_t hosts = ORR__SLICES_COUNT * timeline->host_count, streams = timeline->stream_count;
    if (timeline->slice_count == 0) {
        return ORR_OK;
    }
    enum orr_status status =
        orr__export_alloc(export, &export->host_slices, hosts, sizeof *export->host_slices);
    if (status == ORR_OK) {
        status = orr__export_alloc(export, &export->stream_slices, streams,
                                   sizeof *export->stream_slices);
    }
    if (status != ORR_OK) {
        return status;
    }
    memset(export->host_slices, 0xff, hosts * sizeof *export->host_slices);
    memset(export->stream_slices, 0xff, streams * sizeof *export->stream_slices);
    for (size_t i = 0; i < timeline->slice_count; i++) {
        const struct orr_timeline_slice *slice = &timeline->slices[i];
        size_t host = orr__host_index(timeline, slice->host);
        size_t stream = orr__stream_index(timeline, slice->stream);
        if (host != ORR__NO_INDEX) {
            export->host_slices[ORR__SLICES_COUNT * host + orr__slice_lane_of(slice)] = WANTED;
        } else if (stream != ORR__NO_INDEX) {
            export->stream_slices[stream] = WANTED;
        }
    }
    return ORR_OK;
}

static enum orr_status add_hosts(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    size_t count = timeline->host_count;
    const size_t most = LANES_OF_PROCESS_MAX / (ORR__SLICES_COUNT + 1);
    if (count >= most) {
        return orr_error_set(export->error, ORR_UNSUPPORTED, "%s: %zu hosts, at most %zu",
                             export->path, count, most);
    }
    bool small = count > 0 && timeline->hosts[count - 1].id < most;
    for (size_t i = 0; i < count; i++) {
        const struct orr_timeline_host *host = &timeline->hosts[i];
        const char *name = host->name[0] != '\0' ? host->name : host->label;
        add_lane(export, ORR__LANE_HOST, ORR__HOSTS_PID, lane_tid(small ? host->id : i), name)->id =
            host->id;
    }
    size_t next = small ? timeline->hosts[count - 1].id + (size_t)1 : count;
    for (size_t i = 0; export->host_slices && i < ORR__SLICES_COUNT * count; i++) {
        if (export->host_slices[i] == WANTED) {
            export->host_slices[i] =
                add_slice_lane(export, (uint32_t)(i / ORR__SLICES_COUNT), lane_tid(next++),
                               (enum orr__slice_lane)(i % ORR__SLICES_COUNT));
        }
    }
    return ORR_OK;
}

/* Adds the lanes of one device: streams[0, count) are its streams, by id. */
static enum orr_status add_device(struct orr__export *export, size_t device,
                                  const struct orr__sort_key *streams, size_t count) {
    uint32_t pid = orr__device_pid(export, device), id = export->timeline->devices[device].id;
    if (count >= LANES_OF_PROCESS_MAX / 2) {
        return orr_error_set(export->error, ORR_UNSUPPORTED,
                             "%s: %zu streams on device %u, at most %d", export->path, count, id,
                             LANES_OF_PROCESS_MAX / 2);
    }
    export->device_lane[device] = (uint32_t) export->lane_count;
    add_lane(export, ORR__LANE_PHASES, pid, 1, "phases")->id = id;
    add_lane(export, ORR__LANE_FINDINGS, pid, 2, "findings")->id = id;
    for (size_t i = 0; i < count; i++) {
        const struct orr_timeline_stream *stream = &export->timeline->streams[streams[i].index];
        export->stream_lane[streams[i].index] = (uint32_t) export->lane_count;
        add_lane(export, ORR__LANE_STREAM, pid, lane_tid(i), stream->name)->id = stream->id;
    }
    size_t next = count;
    for (size_t i = 0; export->stream_slices && i < count; i++) {
        uint32_t *lane = &export->stream_slices[streams[i].index];
        if (*lane == WANTED) {
            *lane = add_slice_lane(export, export->stream_lane[streams[i].index], lane_tid(next++),
                                   ORR__SLICES_ANNOTATIONS);
        }
    }
    return ORR_OK;
}

/* Sorts the streams by device into export->keys; those without one get no lane. Returns how many
 * have one. */
static size_t sort_streams(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    size_t count = 0;
    for (size_t i = 0; i < timeline->stream_count; i++) {
        size_t device = orr__device_index(timeline, timeline->streams[i].device);
        export->stream_lane[i] = ORR__NO_SLICE;
        if (device != ORR__NO_INDEX) {
            export->keys[count].key = device;
            export->keys[count++].index = (uint32_t)i;
        }
    }
    orr__sort_keys(export->keys, export->scratch, count);
    return count;
}

static enum orr_status add_devices(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    enum orr_status status = orr__export_keys(export, timeline->stream_count);
    if (status != ORR_OK) {
        return status;
    }
    size_t count = sort_streams(export), begin = 0;
    for (size_t device = 0; device < timeline->device_count && status == ORR_OK; device++) {
        size_t end = begin;
        while (end < count && export->keys[end].key == device) {
            end++;
        }
        status = add_device(export, device, export->keys + begin, end - begin);
        begin = end;
    }
    return status;
}

enum orr_status orr__perfetto_lanes(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    const size_t limit = ((size_t)1 << 27) - 1; /* struct orr__item has 27 bits for a lane */
    size_t lanes = timeline->host_count + timeline->stream_count + 2 * timeline->device_count;
    if (timeline->slice_count > 0) {
        lanes += ORR__SLICES_COUNT * timeline->host_count + timeline->stream_count;
    }
    enum orr_status status = choose_zero(export);
    status = status == ORR_OK ? want_slices(export) : status;
    if (status == ORR_OK && lanes > limit) {
        status = orr_error_set(export->error, ORR_UNSUPPORTED, "%s: more than %zu tracks",
                               export->path, limit);
    }
    if (status == ORR_OK) {
        status = orr__export_alloc(export, &export->lanes, lanes, sizeof *export->lanes);
    }
    if (status == ORR_OK) {
        status = orr__export_alloc(export, &export->stream_lane, timeline->stream_count,
                                   sizeof *export->stream_lane);
    }
    if (status == ORR_OK) {
        status = orr__export_alloc(export, &export->device_lane, timeline->device_count,
                                   sizeof *export->device_lane);
    }
    status = status == ORR_OK ? add_hosts(export) : status;
    status = status == ORR_OK ? add_devices(export) : status;
    return status == ORR_OK ? find_ambiguous(export) : status;
}
