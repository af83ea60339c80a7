/* NVTX_EVENTS: what programs and frameworks named. See nsys.h. */
#include <inttypes.h>
#include <string.h>

#include "trace/import/nsys.h"

enum { TYPE_MARK = 34, TYPE_PUSH_POP = 59, TYPE_START_END = 60 }; /* ENUM_NSYS_EVENT_TYPE */

enum { START, END, TYPE, TID, TEXT, TEXT_ID, COLUMNS };
static const char *const columns[COLUMNS] = {"start",     "end",  "eventType",
                                             "globalTid", "text", "textId"};

/* Ranges of libraries, which say nothing about the program's parts: NCCL's own name its calls. */
static bool is_library(const char *name) {
    return strncmp(name, "nccl", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

static bool begins_with(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* What torch's emit_nvtx names: "aten::mm, op_id = 7", "AddmmBackward0, seq = 3". Its length
 * without what differs from call to call, or 0 if it is none. */
static size_t operator_length(const char *name) {
    static const char *const spaces[] = {
        "aten::", "c10d::", "prim::", "torch::", "nccl:", "autograd::", "record_param_comms"};
    const char *number = strstr(name, ", op_id = ");
    const char *sequence = strstr(name, ", seq = ");
    const char *shapes = strstr(name, ", sizes = ");
    size_t length = strlen(name);
    if (number && (size_t)(number - name) < length)
        length = (size_t)(number - name);
    if (sequence && (size_t)(sequence - name) < length)
        length = (size_t)(sequence - name);
    if (shapes && (size_t)(shapes - name) < length)
        length = (size_t)(shapes - name);
    if (number || sequence)
        return length;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (begins_with(name, spaces[i]))
            return length;
    return 0;
}

struct range {
    int64_t begin, end;
    const char *name;
    enum orr_slice_kind kind;
};

static void name_range(struct orr__nsys *nsys, struct orr__nsys_scan *scan, struct range *range) {
    size_t length;
    int64_t id;
    const char *text = orr__nsys_text(scan, TEXT, &length);
    if (!text && orr__nsys_int(scan, TEXT_ID, &id)) {
        text = orr__nsys_string(nsys, id);
        length = text ? strlen(text) : 0;
    }
    size_t named = text ? operator_length(text) : 0;
    if (!text || length == 0) {
        range->name = "unnamed range";
        range->kind = ORR_SLICE_OTHER;
    } else if (named > 0) {
        range->name = orr__builder_text(nsys->builder, text, named);
        range->kind = ORR_SLICE_OPERATOR;
    } else {
        range->name = orr__builder_text(nsys->builder, text, length);
        range->kind = is_library(text) ? ORR_SLICE_OTHER : ORR_SLICE_ANNOTATION;
    }
}

/* A range still open when the capture ended has no end; the next pass gives it the trace's. */
static enum orr_status read_row(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                                uint64_t *open) {
    struct range range;
    int64_t type, tid;
    orr__nsys_int(scan, TYPE, &type);
    if (type != TYPE_MARK && type != TYPE_PUSH_POP && type != TYPE_START_END)
        return ORR_OK;
    if (!orr__nsys_int(scan, START, &range.begin)) {
        nsys->skipped++;
        return ORR_OK;
    }
    orr__nsys_int(scan, TID, &tid);
    name_range(nsys, scan, &range);
    bool ended = orr__nsys_int(scan, END, &range.end);
    if (type == TYPE_MARK) {
        range.end = range.begin;
        range.kind = ORR_SLICE_OTHER;
    } else if (!ended) {
        range.end = ORR_TIME_NONE;
        ++*open;
    }
    orr__nsys_saw(nsys, ended ? range.end : range.begin);
    uint32_t host = orr__nsys_host(nsys, tid);
    struct orr_timeline_slice *slice = orr__builder_slice(nsys->builder);
    if (!slice)
        return orr__nsys_no_memory(nsys);
    slice->begin_ns = range.begin;
    slice->end_ns = range.end;
    slice->name = range.name;
    slice->kind = range.kind;
    slice->host = host;
    return ORR_OK;
}

enum orr_status orr__nsys_read_ranges(struct orr__nsys *nsys) {
    struct orr__nsys_scan scan;
    uint64_t open = 0;
    enum orr_status status =
        orr__nsys_scan_open(&nsys->file, "NVTX_EVENTS", columns, COLUMNS, &scan);
    while (orr__nsys_scan_next(&scan, &status))
        status = read_row(nsys, &scan, &open);
    status = orr__nsys_end(nsys, &scan, status);
    if (status == ORR_OK && open > 0)
        orr__builder_finding(nsys->builder, "import_open_ranges", "note", "",
                             "%" PRIu64 " NVTX ranges have no end: they are shown to the end of "
                             "the trace",
                             open);
    return status;
}
