/* CUPTI_ACTIVITY_KIND_RUNTIME: calls of the runtime's and the driver's API. See nsys.h. */
#include <string.h>

#include "trace/import/nsys.h"

enum { START, END, TID, CORRELATION, NAME, COLUMNS, NAMES = 128 };

static const char *const columns[COLUMNS] = {"start", "end", "globalTid", "correlationId",
                                             "nameId|name"};

/* Names as they stand in StringIds, and without their version. */
struct names {
    const char *raw[NAMES], *plain[NAMES];
};

/* "cudaLaunchKernel_v7000" without "_v7000". */
static size_t plain_length(const char *name) {
    size_t length = strlen(name), at = length;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    bool version = at < length && at > 2 && name[at - 1] == 'v' && name[at - 2] == '_';
    return version ? at - 2 : length;
}

static const char *plain_name(struct orr__nsys *nsys, struct names *names, const char *raw) {
    size_t slot = ((uintptr_t)raw >> 4) % NAMES;
    if (!raw)
        return "unnamed call";
    if (names->raw[slot] != raw) {
        names->raw[slot] = raw;
        names->plain[slot] = orr__builder_text(nsys->builder, raw, plain_length(raw));
    }
    return names->plain[slot];
}

/* A call without a correlation owns nothing, and no row of work can join with it. */
static enum orr_status add_call(struct orr__nsys *nsys, const struct orr_timeline_call *read,
                                uint64_t process) {
    struct orr_timeline_call *call = orr__builder_call(nsys->builder);
    if (!call)
        return orr__nsys_no_memory(nsys);
    call->begin_ns = read->begin_ns;
    call->end_ns = read->end_ns;
    call->name = read->name;
    call->host = read->host;
    call->correlation = read->correlation;
    if (read->correlation == ORR_CORRELATION_NONE)
        return ORR_OK;
    if (orr_memory_grow(nsys->memory, &nsys->apis, &nsys->api_capacity, nsys->api_count + 1,
                        sizeof *nsys->apis, SIZE_MAX / 64) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    nsys->apis[nsys->api_count++] = (struct orr__nsys_api){
        .correlation = read->correlation, .process = process, .name = read->name};
    return ORR_OK;
}

static enum orr_status read_row(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                                struct names *names) {
    struct orr_timeline_call call = {.correlation = orr__nsys_correlation(scan, CORRELATION)};
    int64_t tid;
    if (!orr__nsys_int(scan, START, &call.begin_ns) || !orr__nsys_int(scan, END, &call.end_ns)) {
        nsys->skipped++;
        return ORR_OK;
    }
    orr__nsys_int(scan, TID, &tid);
    call.host = orr__nsys_host(nsys, tid);
    call.name = plain_name(nsys, names, orr__nsys_name(nsys, scan, NAME));
    orr__nsys_saw(nsys, call.end_ns);
    return add_call(nsys, &call, orr__nsys_process(nsys, tid));
}

enum orr_status orr__nsys_read_calls(struct orr__nsys *nsys) {
    struct orr__nsys_scan scan;
    struct names names = {0};
    enum orr_status status =
        orr__nsys_scan_open(&nsys->file, "CUPTI_ACTIVITY_KIND_RUNTIME", columns, COLUMNS, &scan);
    while (orr__nsys_scan_next(&scan, &status))
        status = read_row(nsys, &scan, &names);
    status = orr__nsys_end(nsys, &scan, status);
    return status == ORR_OK ? orr__nsys_sort_apis(nsys) : status;
}
