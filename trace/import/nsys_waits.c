/* Waiting: SYNCHRONIZATION with the records of CUDA_EVENT, and time that drivers and the profiler
 * took. See nsys.h.
 *
 * A row of SYNCHRONIZATION is told by its type, but one export gives a cudaStreamSynchronize the
 * type of a stream's wait, old ones have the type in another column, and rows of type "event" also
 * stand for cudaEventQuery, which waits for nothing. So the name of the linked call goes first. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/import/nsys.h"
#include "trace/timeline_texts.h"

/* eventId, eventSyncId, streamId: "none". */
#define NONE_32 4294967295

enum { TYPE_UNKNOWN, TYPE_EVENT, TYPE_WAIT, TYPE_STREAM, TYPE_CONTEXT }; /* ENUM_CUPTI_SYNC_TYPE */

enum { START, END, CORRELATION, DEVICE, TYPE = DEVICE + 4, OLD_TYPE, EVENT, SYNC_ID, COLUMNS };
static const char *const sync_columns[COLUMNS] = {
    "start",     "end",      "correlationId",      "deviceId", "contextId",  "streamId",
    "globalPid", "syncType", "deprecatedSyncType", "eventId",  "eventSyncId"};

enum { RECORD_CORRELATION, RECORD_DEVICE, RECORD_SYNC_ID = RECORD_DEVICE + 4, RECORD_COLUMNS };
static const char *const record_columns[RECORD_COLUMNS] = {
    "correlationId", "deviceId", "contextId", "streamId", "globalPid", "eventSyncId"};

enum { OVERHEAD_START, OVERHEAD_END, OVERHEAD_TID, OVERHEAD_NAME, OVERHEAD_TYPE, OVERHEAD_COLUMNS };
static const char *const overhead_columns[OVERHEAD_COLUMNS] = {"start", "end", "globalTid",
                                                               "nameId|name", "overheadType"};

/* -- Records ----------------------------------------------------------------------------------- */

static int compare_events(const void *a, const void *b) {
    const struct orr__nsys_event *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->sync_id == y->sync_id ? 0 : x->sync_id < y->sync_id ? -1 : 1;
}

static enum orr_status add_record(struct orr__nsys *nsys, struct orr__nsys_scan *scan) {
    struct orr__nsys_event event;
    int64_t sync_id;
    bool known = orr__nsys_int(scan, RECORD_SYNC_ID, &sync_id);
    if (!known || sync_id < 0 || sync_id == NONE_32)
        return ORR_OK;
    event.sync_id = (uint64_t)sync_id;
    event.stream = orr__nsys_stream(nsys, scan, RECORD_DEVICE, &event.process);
    event.correlation = orr__nsys_correlation(scan, RECORD_CORRELATION);
    if (orr_memory_grow(nsys->memory, &nsys->events, &nsys->event_capacity, nsys->event_count + 1,
                        sizeof *nsys->events, SIZE_MAX / 64) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    nsys->events[nsys->event_count++] = event;
    return ORR_OK;
}

static enum orr_status read_records(struct orr__nsys *nsys) {
    struct orr__nsys_scan scan;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                                                 record_columns, RECORD_COLUMNS, &scan);
    while (orr__nsys_scan_next(&scan, &status))
        status = add_record(nsys, &scan);
    status = orr__nsys_end(nsys, &scan, status);
    if (status == ORR_OK && orr__stable_sort(nsys->memory, nsys->events, nsys->event_count,
                                             sizeof *nsys->events, compare_events) != ORR_OK)
        status = orr__nsys_no_memory(nsys);
    return status;
}

static const struct orr__nsys_event *find_record(const struct orr__nsys *nsys, uint64_t process,
                                                 int64_t sync_id) {
    struct orr__nsys_event key = {.process = process, .sync_id = (uint64_t)sync_id};
    size_t low = 0, high = nsys->event_count;
    if (sync_id < 0 || sync_id == NONE_32)
        return NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_events(&nsys->events[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < nsys->event_count && compare_events(&nsys->events[low], &key) == 0;
    return found ? &nsys->events[low] : NULL;
}

/* -- Rows of SYNCHRONIZATION ------------------------------------------------------------------- */

struct row {
    uint64_t process, correlation;
    int64_t start, end, device, number, event, sync_id;
    uint32_t stream; /* the builder's; ORR_ID_NONE: of no stream */
    bool has_event;
    int64_t type;
};

static int64_t type_by_name(const char *name, int64_t type) {
    if (strstr(name, "WaitEvent"))
        return type == TYPE_UNKNOWN ? TYPE_WAIT : type;
    if (!strstr(name, "Synchronize"))
        return type;
    if (strstr(name, "Event"))
        return TYPE_EVENT;
    return strstr(name, "Stream") ? TYPE_STREAM : TYPE_CONTEXT;
}

static void read_type(struct orr__nsys *nsys, struct orr__nsys_scan *scan, struct row *row,
                      bool *out_poll) {
    size_t any, same;
    const char *name = orr__nsys_find_apis(nsys, row->process, row->correlation, &any, &same);
    if (!orr__nsys_int(scan, TYPE, &row->type) && !orr__nsys_int(scan, OLD_TYPE, &row->type))
        row->type = TYPE_UNKNOWN;
    *out_poll = name && strstr(name, "Query");
    if (name)
        row->type = type_by_name(name, row->type);
}

static void add_wait(struct orr__nsys *nsys, const struct row *row) {
    const struct orr__nsys_event *record = find_record(nsys, row->process, row->sync_id);
    struct orr__wait wait = {.process = row->process,
                             .correlation = row->correlation,
                             .record_correlation =
                                 record ? record->correlation : ORR_CORRELATION_NONE,
                             .stream = row->stream,
                             .source = record ? record->stream : ORR_ID_NONE,
                             .ts_ns = row->start};
    orr__builder_wait(nsys->builder, &wait);
}

static const char *target_text(struct orr__nsys *nsys, const struct row *row) {
    char text[64];
    int length = 0;
    if (row->type == TYPE_EVENT && row->has_event)
        length = snprintf(text, sizeof text, "event %" PRId64, row->event);
    else if (row->type == TYPE_EVENT)
        length = snprintf(text, sizeof text, "an event");
    else if (row->type == TYPE_STREAM)
        length = snprintf(text, sizeof text, "stream %" PRId64 " of device %" PRId64, row->number,
                          row->device);
    else
        length = snprintf(text, sizeof text, "device %" PRId64, row->device);
    return orr__builder_text(nsys->builder, text, (size_t)length);
}

static void add_sync(struct orr__nsys *nsys, const struct row *row) {
    const struct orr__nsys_event *record =
        row->type == TYPE_EVENT ? find_record(nsys, row->process, row->sync_id) : NULL;
    struct orr_timeline_sync *sync = orr__builder_sync(nsys->builder);
    if (!sync)
        return;
    sync->begin_ns = row->start;
    sync->end_ns = row->end;
    sync->target = target_text(nsys, row);
    sync->kind = row->type == TYPE_EVENT    ? ORR_SYNC_EVENT
                 : row->type == TYPE_STREAM ? ORR_SYNC_STREAM
                                            : ORR_SYNC_DEVICE;
    if (row->type == TYPE_STREAM)
        sync->stream = row->stream;
    else if (record)
        sync->stream = record->stream;
    if (row->type == TYPE_CONTEXT && row->device >= 0 && row->device < ORR__BUILDER_DEVICES)
        sync->device = (uint32_t)row->device;
    orr__builder_link_sync(nsys->builder, row->process, row->correlation);
}

static enum orr_status read_row(struct orr__nsys *nsys, struct orr__nsys_scan *scan) {
    struct row row = {.correlation = orr__nsys_correlation(scan, CORRELATION),
                      .stream = ORR_ID_NONE};
    bool poll;
    bool timed = orr__nsys_int(scan, START, &row.start) && orr__nsys_int(scan, END, &row.end);
    orr__nsys_int(scan, DEVICE, &row.device);
    bool streamed = orr__nsys_int(scan, DEVICE + 2, &row.number) && row.number != NONE_32;
    int64_t pid;
    orr__nsys_int(scan, DEVICE + 3, &pid);
    row.process = orr__nsys_process(nsys, pid);
    if (streamed)
        row.stream = orr__nsys_stream(nsys, scan, DEVICE, &row.process);
    row.has_event = orr__nsys_int(scan, EVENT, &row.event) && row.event != NONE_32;
    if (!orr__nsys_int(scan, SYNC_ID, &row.sync_id))
        row.sync_id = -1;
    read_type(nsys, scan, &row, &poll);
    if (!timed || poll) {
        nsys->skipped += !timed;
        return ORR_OK;
    }
    orr__nsys_saw(nsys, row.end);
    if (row.type == TYPE_WAIT && row.has_event)
        add_wait(nsys, &row);
    else if (row.type == TYPE_EVENT || row.type == TYPE_STREAM || row.type == TYPE_CONTEXT)
        add_sync(nsys, &row);
    return orr__builder_failed(nsys->builder) ? orr__nsys_no_memory(nsys) : ORR_OK;
}

static enum orr_status read_syncs(struct orr__nsys *nsys) {
    struct orr__nsys_scan scan;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                                 sync_columns, COLUMNS, &scan);
    nsys->api_hint = 0;
    while (orr__nsys_scan_next(&scan, &status))
        status = read_row(nsys, &scan);
    return orr__nsys_end(nsys, &scan, status);
}

/* -- Overhead ---------------------------------------------------------------------------------- */

/* ENUM_CUPTI_OVERHEAD_TYPE: 3 buffer flush, 4 instrumentation, 5 resources are the profiler's; 2,
 * 6, 7, 8 (compiling, loading, a full queue of launches) are CUDA's own. */
static bool is_profilers(int64_t type) {
    return type >= 3 && type <= 5;
}

static const char *overhead_text(int64_t type) {
    static const char *const texts[] = {"Undefined",
                                        "Unknown",
                                        "Driver Compiler",
                                        "Buffer Flush",
                                        "Instrumentation",
                                        "Resource",
                                        "Runtime Triggered Module Loading",
                                        "Lazy Function Loading",
                                        "Command Buffer Full"};
    bool known = type >= 0 && type < (int64_t)(sizeof texts / sizeof *texts);
    return known ? texts[type] : "Overhead";
}

static enum orr_status add_overhead(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                                    bool all_are_profilers) {
    int64_t start, end, tid, type;
    if (!orr__nsys_int(scan, OVERHEAD_START, &start) || !orr__nsys_int(scan, OVERHEAD_END, &end)) {
        nsys->skipped++;
        return ORR_OK;
    }
    orr__nsys_int(scan, OVERHEAD_TID, &tid);
    bool typed = orr__nsys_int(scan, OVERHEAD_TYPE, &type);
    const char *name = orr__nsys_name(nsys, scan, OVERHEAD_NAME);
    struct orr_timeline_overhead *overhead = orr__builder_overhead(nsys->builder);
    if (!overhead)
        return orr__nsys_no_memory(nsys);
    const char *fallback = overhead_text(typed ? type : 1);
    overhead->name = name ? name : orr__builder_text(nsys->builder, fallback, strlen(fallback));
    overhead->process = orr__nsys_process(nsys, tid);
    overhead->begin_ns = start;
    overhead->end_ns = end;
    overhead->profiler = all_are_profilers || (typed && is_profilers(type));
    return ORR_OK;
}

static enum orr_status read_overheads(struct orr__nsys *nsys, const char *table,
                                      bool all_are_profilers) {
    struct orr__nsys_scan scan;
    enum orr_status status =
        orr__nsys_scan_open(&nsys->file, table, overhead_columns, OVERHEAD_COLUMNS, &scan);
    while (orr__nsys_scan_next(&scan, &status))
        status = add_overhead(nsys, &scan, all_are_profilers);
    return orr__nsys_end(nsys, &scan, status);
}

enum orr_status orr__nsys_read_waits(struct orr__nsys *nsys) {
    enum orr_status status = read_records(nsys);
    if (status == ORR_OK)
        status = read_syncs(nsys);
    if (status == ORR_OK)
        status = read_overheads(nsys, "CUPTI_ACTIVITY_KIND_OVERHEAD", false);
    if (status == ORR_OK)
        status = read_overheads(nsys, "PROFILER_OVERHEAD", true);
    return status;
}
