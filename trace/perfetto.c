#include "trace/perfetto.h"

#include <assert.h>
#include <sys/stat.h>
#include <zlib.h>

#include "trace/perfetto_internal.h"

enum { BUFFER_BYTES = 1 << 18 };

static const char file_start[] = ORR__PERFETTO_START;

/* ---------------------------------------------------------------------------------------------- */
/* Metadata */

static bool key_is_allowed(const char *key) {
    static const char *const ours[] = {"t0_ns",
                                       "slices",
                                       "arrows",
                                       "counters",
                                       "arrows_left_out",
                                       "slices_left_out",
                                       "unfinished",
                                       "never_started",
                                       ORR__PERFETTO_MARK_KEY,
                                       ORR__PERFETTO_TIMELINE_KEY};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strcmp(key, ours[i]) == 0) {
            return false;
        }
    }
    return key[0] != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static int compare_keys(const void *context, uint32_t a, uint32_t b) {
    const struct orr_timeline_meta *meta = context;
    return strcmp(meta[a].key, meta[b].key);
}

/* Writes the rows of `meta`, in the timeline's order; of rows with one key, which our own traces
 * cannot have, the first. */
static enum orr_status write_meta(struct orr__export *export, struct orr_json_writer *writer) {
    const struct orr_timeline_meta *meta = export->timeline->meta;
    size_t count = export->timeline->meta_count;
    bool *written;
    enum orr_status status = orr__export_keys(export, count);
    status =
        status == ORR_OK ? orr__export_alloc(export, &written, count, sizeof *written) : status;
    if (status != ORR_OK) {
        return status;
    }
    struct orr__sort_key *keys = export->keys;
    for (size_t i = 0; i < count; i++) {
        keys[i] = (struct orr__sort_key){.key = 0, .index = (uint32_t)i};
    }
    orr__sort_ties(keys, export->scratch, count, compare_keys, meta);
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || compare_keys(meta, keys[i - 1].index, keys[i].index) != 0;
        written[keys[i].index] = first && key_is_allowed(meta[keys[i].index].key);
    }
    for (size_t i = 0; i < count; i++) {
        if (written[i]) {
            ORR_JSON_LITERAL(writer, "\"");
            orr_json_text(writer, meta[i].key);
            ORR_JSON_LITERAL(writer, "\":\"");
            orr_json_text(writer, meta[i].value);
            ORR_JSON_LITERAL(writer, "\",");
        }
    }
    orr_memory_free(export->memory, written);
    return ORR_OK;
}

static void write_count(struct orr_json_writer *writer, const char *key, uint64_t count) {
    ORR_JSON_LITERAL(writer, ",\"");
    orr_json_text(writer, key);
    ORR_JSON_LITERAL(writer, "\":");
    orr_json_u64(writer, count);
}

static enum orr_status write_head(struct orr__export *export, struct orr_json_writer *writer) {
    const struct orr_perfetto_counts *counts = &export->counts;
    orr_json_bytes(writer, file_start, sizeof file_start - 1);
    ORR_JSON_LITERAL(writer, ORR__PERFETTO_MARK ",");
    enum orr_status status = write_meta(export, writer);
    if (status != ORR_OK) {
        return status;
    }
    ORR_JSON_LITERAL(writer, "\"t0_ns\":\"");
    orr_json_i64(writer, export->t0_ns);
    ORR_JSON_LITERAL(writer, "\"");
    write_count(writer, "slices", counts->slices);
    write_count(writer, "arrows", counts->arrows);
    write_count(writer, "counters", counts->counters);
    write_count(writer, "arrows_left_out", counts->arrows_left_out);
    write_count(writer, "slices_left_out", counts->slices_left_out);
    write_count(writer, "unfinished", counts->unfinished);
    write_count(writer, "never_started", counts->never_started);
    status = orr__perfetto_timeline(export, writer);
    ORR_JSON_LITERAL(writer, "},\"traceEvents\":[");
    return status;
}

/* ---------------------------------------------------------------------------------------------- */
/* Names of processes and threads */

/* Ends the line before; returns the cursor, with room. */
static char *start_line(struct orr__export *export, struct orr_json_writer *writer) {
    char *at = orr_json_reserve(writer);
    return export->counts.events++ == 0 ? ORR_JSON_PUT(at, "\n") : ORR_JSON_PUT(at, ",\n");
}

static void start_naming(struct orr__export *export, struct orr_json_writer *writer, uint32_t pid,
                         uint32_t tid, const char *what) {
    writer->cursor = start_line(export, writer);
    ORR_JSON_LITERAL(writer, "{\"ph\":\"M\",\"pid\":");
    orr_json_u64(writer, pid);
    ORR_JSON_LITERAL(writer, ",\"tid\":");
    orr_json_u64(writer, tid);
    ORR_JSON_LITERAL(writer, ",\"name\":\"");
    orr_json_text(writer, what);
    ORR_JSON_LITERAL(writer, "\",\"args\":{\"");
}

static void write_sort_index(struct orr__export *export, struct orr_json_writer *writer,
                             uint32_t pid, uint32_t tid, const char *what, uint64_t index) {
    start_naming(export, writer, pid, tid, what);
    ORR_JSON_LITERAL(writer, "sort_index\":");
    orr_json_u64(writer, index);
    ORR_JSON_LITERAL(writer, "}}");
}

static void write_process(struct orr__export *export, struct orr_json_writer *writer,
                          const struct orr__lane *lane) {
    uint32_t pid = lane->pid;
    start_naming(export, writer, pid, pid, "process_name");
    ORR_JSON_LITERAL(writer, "name\":\"");
    if (lane->kind == ORR__LANE_HOST) {
        ORR_JSON_LITERAL(writer, "Hosts");
    } else {
        size_t device = orr__device_index(export->timeline, lane->id);
        const char *kind = export->timeline->devices[device].kind;
        ORR_JSON_LITERAL(writer, "Device ");
        orr_json_u64(writer, lane->id);
        if (kind[0] != '\0') {
            ORR_JSON_LITERAL(writer, " (");
            orr_json_text(writer, kind);
            ORR_JSON_LITERAL(writer, ")");
        }
    }
    ORR_JSON_LITERAL(writer, "\"}}");
    uint64_t index = lane->kind == ORR__LANE_HOST ? 0 : (uint64_t)pid - ORR__DEVICE_PID + 1;
    write_sort_index(export, writer, pid, pid, "process_sort_index", index);
}

static void lane_name(struct orr_json_writer *writer, const struct orr__lane *lane) {
    orr_json_text(writer, lane->name[0] != '\0' ? lane->name : "unnamed");
    if (lane->ambiguous) {
        orr_json_text(writer, lane->id_suffix);
        orr_json_u64(writer, lane->id);
        ORR_JSON_LITERAL(writer, ")");
    }
    orr_json_text(writer, lane->suffix);
}

/* Names the thread at `offset` of a lane: the lane's name, what is behind it, and a number unless
 * that is 0. */
static void write_thread(struct orr__export *export, struct orr_json_writer *writer,
                         const struct orr__lane *lane, uint32_t offset, const char *behind,
                         uint64_t number) {
    uint32_t tid = lane->tid + offset;
    start_naming(export, writer, lane->pid, tid, "thread_name");
    ORR_JSON_LITERAL(writer, "name\":\"");
    lane_name(writer, lane);
    orr_json_text(writer, behind);
    if (number > 0) {
        orr_json_u64(writer, number);
    }
    ORR_JSON_LITERAL(writer, "\"}}");
    write_sort_index(export, writer, lane->pid, tid, "thread_sort_index", tid);
}

static void write_tracks(struct orr__export *export, struct orr_json_writer *writer) {
    for (size_t i = 0; i < export->lane_count; i++) {
        const struct orr__lane *lane = &export->lanes[i];
        if (i == 0 || lane->pid != export->lanes[i - 1].pid) {
            write_process(export, writer, lane);
        }
        /* Hosts and streams are named even when idle, other tracks when they or theirs are used. */
        if (lane->used || lane->kind == ORR__LANE_HOST || lane->kind == ORR__LANE_STREAM ||
            (lane->kind == ORR__LANE_SLICES && (lane->marks_used || lane->overlap_count > 0))) {
            write_thread(export, writer, lane, 0, "", 0);
        }
        if (lane->marks_used) {
            write_thread(export, writer, lane, ORR__MARKS_TID, " marks", 0);
        }
        if (lane->graphs_used) {
            write_thread(export, writer, lane, ORR__GRAPHS_TID, " graphs", 0);
        }
        for (uint32_t k = 0; k < lane->overlap_count; k++) {
            write_thread(export, writer, lane, ORR__OVERLAP_TID + k, " overlap ", (uint64_t)k + 1);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Events */

struct literal {
    const char *text;
    size_t size;
};

#define LITERAL(string)                                                                            \
    { string, sizeof(string) - 1 }

/* Ends of the lines of arrows, by kind. */
static const struct literal arrow_ends[] = {
    [ORR__ARROW_ENQUEUE] = LITERAL(",\"name\":\"enqueue\",\"cat\":\"op\"}"),
    [ORR__ARROW_EVENT] = LITERAL(",\"name\":\"event\",\"cat\":\"op\"}"),
    [ORR__ARROW_EVENT_DONE] = LITERAL(",\"name\":\"event-done\",\"cat\":\"op\"}"),
    [ORR__ARROW_SYNC] = LITERAL(",\"name\":\"sync\",\"cat\":\"op\"}"),
    [ORR__ARROW_REUSE] = LITERAL(",\"name\":\"reuse\",\"cat\":\"op\"}"),
    [ORR__ARROW_FINDING] = LITERAL(",\"name\":\"finding\",\"cat\":\"op\"}"),
};

static void fill_track_text(struct orr__track_text *track, uint32_t pid, uint32_t tid) {
    char *at = ORR_JSON_PUT(track->text, "\"pid\":");
    at = orr_json_put_u64(at, pid);
    at = ORR_JSON_PUT(at, ",\"tid\":");
    at = orr_json_put_u64(at, tid);
    at = ORR_JSON_PUT(at, ",\"ts\":");
    track->pid = pid;
    track->tid = tid;
    track->size = (uint32_t)(at - track->text);
    assert(track->size <= sizeof track->text);
}

char *orr__perfetto_place(const struct orr__export *export, char *at, uint32_t pid, uint32_t tid) {
    struct orr__shared_texts *shared = export->shared;
    struct orr__track_text *track = &shared->tracks[(tid + 37 * pid) % ORR__TRACK_TEXTS];
    if (track->pid != pid || track->tid != tid) {
        fill_track_text(track, pid, tid);
    }
    /* Copies of a fixed size are a few instructions; the room is there. */
    memcpy(at, track->text, sizeof track->text);
    at += track->size;
    memcpy(at, shared->time, sizeof shared->time);
    return at + shared->time_size;
}

/* One end of the arrow at `index`, whose id is one more. */
static void write_arrow_end(struct orr__export *export, struct orr_json_writer *writer,
                            size_t index, bool is_source) {
    const struct orr__arrow *arrow = &export->arrows[index];
    const struct orr__slice *slice = &export->slices[is_source ? arrow->src : arrow->dst];
    const struct literal *end = &arrow_ends[arrow->kind];
    char *at = start_line(export, writer);
    at = is_source ? ORR_JSON_PUT(at, "{\"ph\":\"s\",")
                   : ORR_JSON_PUT(at, "{\"ph\":\"f\",\"bp\":\"e\",");
    at = orr__perfetto_place(export, at, slice->pid, slice->tid);
    at = ORR_JSON_PUT(at, ",\"id\":");
    at = orr_json_put_u64(at, index + 1);
    writer->cursor = orr_json_put(at, end->text, end->size);
}

static void write_counter(struct orr__export *export, struct orr_json_writer *writer,
                          const struct orr_timeline_counter *counter) {
    size_t device = orr__device_index(export->timeline, counter->device);
    char *at = start_line(export, writer);
    at = ORR_JSON_PUT(at, "{\"ph\":\"C\",\"pid\":");
    at = orr_json_put_u64(at, orr__device_pid(export, device));
    at = ORR_JSON_PUT(at, ",\"ts\":");
    at = orr_json_put_time(at, counter->ts_ns - export->t0_ns);
    writer->cursor = ORR_JSON_PUT(at, ",\"name\":\"");
    orr_json_text(writer, orr__counter_name(counter));
    ORR_JSON_LITERAL(writer, "\",\"args\":{\"value\":");
    orr_json_double(writer, counter->value);
    ORR_JSON_LITERAL(writer, "}}");
}

/* Where the merge is: the next of each sort of event. */
struct heads {
    size_t slice, source, end, counter;
};

static int64_t source_ns(const struct orr__export *export, size_t arrow) {
    return export->slices[export->arrows[arrow].src].start_ns;
}

static int64_t end_ns(const struct orr__export *export, size_t position) {
    return export->slices[export->arrows[export->arrow_by_end[position]].dst].start_ns;
}

static int64_t counter_ns(const struct orr__export *export, size_t position) {
    return export->timeline->counters[export->counters[position]].ts_ns - export->t0_ns;
}

/* The time of the next event; every arrow has a slice at either end, so slices and counters say. */
static bool next_time(const struct orr__export *export, const struct heads *heads,
                      int64_t *out_ns) {
    bool slices = heads->slice < export->slice_count;
    bool counters = heads->counter < export->counter_count;
    int64_t slice = slices ? export->slices[heads->slice].start_ns : INT64_MAX;
    int64_t counter = counters ? counter_ns(export, heads->counter) : INT64_MAX;
    *out_ns = slice < counter ? slice : counter;
    return slices || counters;
}

/* All events in order: by time; at one time slices (in their order), sources, ends, counters. */
static void write_events(struct orr__export *export, struct orr_json_writer *writer) {
    struct heads at = {0};
    int64_t now_ns;
    while (next_time(export, &at, &now_ns) && !orr_output_failed(writer->output)) {
        char *time_end = orr_json_put_time(export->shared->time, now_ns);
        export->shared->time_size = (size_t)(time_end - export->shared->time);
        for (; at.slice < export->slice_count && export->slices[at.slice].start_ns == now_ns;
             at.slice++) {
            writer->cursor = orr__perfetto_slice(export, writer, start_line(export, writer),
                                                 &export->slices[at.slice]);
        }
        for (; at.source < export->arrow_count && source_ns(export, at.source) == now_ns;
             at.source++) {
            write_arrow_end(export, writer, at.source, true);
        }
        for (; at.end < export->arrow_count && end_ns(export, at.end) == now_ns; at.end++) {
            write_arrow_end(export, writer, export->arrow_by_end[at.end], false);
        }
        for (; at.counter < export->counter_count && counter_ns(export, at.counter) == now_ns;
             at.counter++) {
            write_counter(export, writer,
                          &export->timeline->counters[export->counters[at.counter]]);
        }
    }
    assert(orr_output_failed(writer->output) ||
           (at.source == export->arrow_count && at.end == export->arrow_count));
}

static enum orr_status write_file(struct orr__export *export, struct orr_output *output) {
    char *buffer;
    enum orr_status status = orr__export_alloc(export, &export->shared, 1, sizeof *export->shared);
    if (status == ORR_OK) {
        *export->shared = (struct orr__shared_texts){0};
        status = orr__export_alloc(export, &buffer, BUFFER_BYTES, 1);
    }
    if (status != ORR_OK) {
        return status;
    }
    struct orr_json_writer writer;
    orr_json_start(&writer, output, buffer, BUFFER_BYTES);
    status = write_head(export, &writer);
    if (status == ORR_OK) {
        write_tracks(export, &writer);
        write_events(export, &writer);
        ORR_JSON_LITERAL(&writer, "\n]}\n");
        export->counts.bytes = orr_json_size(&writer);
        orr_json_flush(&writer);
    }
    orr_memory_free(export->memory, buffer);
    return status;
}

/* ---------------------------------------------------------------------------------------------- */
/* The whole */

static void free_export(struct orr__export *export) {
    const struct orr_memory *memory = export->memory;
    for (size_t i = 0; i < export->lane_count; i++) {
        orr_memory_free(memory, export->lanes[i].overlap_end_ns);
    }
    void *const blocks[] = {
        export->lanes,         export->stream_lane,   export->device_lane,   export->items,
        export->slices,        export->enqueue_slice, export->command_slice, export->resume_slice,
        export->synced_slice,  export->collective_of, export->arrows,        export->arrow_by_end,
        export->counters,      export->keys,          export->shared,        export->host_slices,
        export->stream_slices, export->call_slice,    export->call_first,    export->call_commands,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        orr_memory_free(memory, blocks[i]);
    }
}

enum orr_status orr_perfetto_write(const struct orr_timeline *timeline,
                                   const struct orr_perfetto_phase *phases, size_t phase_count,
                                   const char *path, const struct orr_memory *memory,
                                   struct orr_perfetto_counts *out_counts,
                                   struct orr_error *error) {
    struct orr__export export = {
        .timeline = timeline,
        .phases = phases,
        .phase_count = phase_count,
        .memory = memory,
        .error = error,
        .path = path,
    };
    struct orr_output *output = NULL;
    if (out_counts) {
        *out_counts = (struct orr_perfetto_counts){0};
    }
    enum orr_status status = orr__perfetto_lanes(&export);
    status = status == ORR_OK ? orr__perfetto_layout(&export) : status;
    status = status == ORR_OK ? orr__perfetto_arrows(&export) : status;
    status = status == ORR_OK ? orr__perfetto_counters(&export) : status;
    status = status == ORR_OK ? orr_output_create(path, memory, &output, error) : status;
    status = status == ORR_OK ? write_file(&export, output) : status;
    if (status == ORR_OK) {
        status = orr_output_finish(&output, error);
    }
    orr_output_discard(&output);
    free_export(&export);
    if (status == ORR_OK && out_counts) {
        *out_counts = export.counts;
    }
    return status;
}

int orr_perfetto_recognize(const char *path) {
    char start[sizeof file_start] = "";
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
        return 0;
    }
    gzFile file = gzopen(path, "rb"); /* reads what is not compressed as it is */
    if (!file) {
        return 0;
    }
    int length = gzread(file, start, sizeof start - 1);
    gzclose(file);
    return length == (int)sizeof start - 1 && memcmp(start, file_start, sizeof start - 1) == 0;
}
