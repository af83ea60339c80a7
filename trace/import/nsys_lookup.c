/* What rows of an nsys export refer to: texts, threads, streams, API rows. See nsys.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/import/nsys.h"
#include "trace/timeline_texts.h"

/* The low bits of a globalTid are the thread. */
#define PROCESS_MASK (~UINT64_C(0xffffff))

static uint64_t mix(uint64_t a) {
    a ^= a >> 33;
    a *= UINT64_C(0xff51afd7ed558ccd);
    return a ^ a >> 33;
}

enum orr_status orr__nsys_no_memory(struct orr__nsys *nsys) {
    return orr_error_set(nsys->error, ORR_NO_MEMORY, "%s: no memory to read the trace",
                         nsys->file.path);
}

/* -- Texts ------------------------------------------------------------------------------------- */

static int compare_strings(const void *a, const void *b) {
    const struct orr__nsys_string *x = a, *y = b;
    return x->id == y->id ? 0 : x->id < y->id ? -1 : 1;
}

static enum orr_status add_string(struct orr__nsys *nsys, struct orr__nsys_scan *scan) {
    int64_t id, rowid;
    if (!orr__nsys_int(scan, 0, &id) || !orr__nsys_int(scan, 1, &rowid))
        return ORR_OK;
    if (orr_memory_grow(nsys->memory, &nsys->strings, &nsys->string_capacity,
                        nsys->string_count + 1, sizeof *nsys->strings, SIZE_MAX / 64) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    nsys->strings[nsys->string_count++] = (struct orr__nsys_string){.id = id, .rowid = rowid};
    return ORR_OK;
}

/* Scripts that cut an export may have lost the table's key, so ids are looked up here. */
enum orr_status orr__nsys_read_strings(struct orr__nsys *nsys) {
    static const char *const columns[] = {"id", "rowid"};
    struct orr__nsys_scan scan;
    if (!orr__nsys_has_column(&nsys->file, "StringIds", "value"))
        return ORR_OK;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, "StringIds", columns, 2, &scan);
    while (orr__nsys_scan_next(&scan, &status))
        status = add_string(nsys, &scan);
    status = orr__nsys_end(nsys, &scan, status);
    if (status == ORR_OK && orr__stable_sort(nsys->memory, nsys->strings, nsys->string_count,
                                             sizeof *nsys->strings, compare_strings) != ORR_OK)
        status = orr__nsys_no_memory(nsys);
    if (status == ORR_OK && nsys->string_count > 0 &&
        sqlite3_prepare_v2(nsys->file.db, "SELECT value FROM StringIds WHERE rowid = ?1", -1,
                           &nsys->string_query, NULL) != SQLITE_OK)
        nsys->string_count = 0;
    return status;
}

static const char *fetch(struct orr__nsys *nsys, const struct orr__nsys_string *string) {
    const char *text = NULL;
    sqlite3_bind_int64(nsys->string_query, 1, string->rowid);
    int code = sqlite3_step(nsys->string_query);
    if (code == SQLITE_ROW && sqlite3_column_type(nsys->string_query, 0) == SQLITE_TEXT) {
        const char *value = (const char *)sqlite3_column_text(nsys->string_query, 0);
        text = value ? orr__builder_text(nsys->builder, value, strlen(value)) : NULL;
    }
    nsys->lost_texts += !text;
    sqlite3_reset(nsys->string_query);
    return text ? text : "";
}

const char *orr__nsys_string(struct orr__nsys *nsys, int64_t id) {
    size_t low = 0, high = nsys->string_count;
    size_t middle = id >= 0 && (uint64_t)id < high ? (size_t)id : high / 2; /* ids are dense */
    while (low < high) {
        struct orr__nsys_string *string = &nsys->strings[middle];
        if (string->id == id) {
            if (!string->text)
                string->text = fetch(nsys, string);
            return string->text[0] ? string->text : NULL;
        }
        if (string->id < id)
            low = middle + 1;
        else
            high = middle;
        middle = low + (high - low) / 2;
    }
    return NULL;
}

const char *orr__nsys_name(struct orr__nsys *nsys, struct orr__nsys_scan *scan, int column) {
    int64_t id;
    size_t length;
    const char *text = orr__nsys_text(scan, column, &length);
    if (text && !(length > 0 && strspn(text, "0123456789") == length))
        return length > 0 ? orr__builder_text(nsys->builder, text, length) : NULL;
    return orr__nsys_int(scan, column, &id) ? orr__nsys_string(nsys, id) : NULL;
}

/* -- Threads and streams ----------------------------------------------------------------------- */

uint64_t orr__nsys_process(const struct orr__nsys *nsys, int64_t global_id) {
    return nsys->has_processes ? (uint64_t)global_id & PROCESS_MASK : 0;
}

uint32_t orr__nsys_host(struct orr__nsys *nsys, int64_t tid) {
    struct orr__nsys_host *slot = &nsys->host_cache[mix((uint64_t)tid) % ORR__NSYS_CACHE];
    if (slot->used && slot->tid == tid)
        return slot->host;
    char label[24];
    int length = snprintf(label, sizeof label, "%" PRId64, tid);
    uint32_t host =
        orr__builder_host(nsys->builder, orr__nsys_process(nsys, tid), label, (size_t)length);
    *slot = (struct orr__nsys_host){.tid = tid, .host = host, .used = true};
    /* Without memory a thread has no name; that is for the builder to say. */
    if (orr_memory_grow(nsys->memory, &nsys->hosts, &nsys->host_capacity, nsys->host_count + 1,
                        sizeof *nsys->hosts, SIZE_MAX / 64) == ORR_OK)
        nsys->hosts[nsys->host_count++] = *slot;
    return host;
}

static uint32_t make_stream(struct orr__nsys *nsys, struct orr__nsys_stream *stream) {
    orr__builder_device(nsys->builder, stream->device);
    stream->stream = orr__builder_stream(nsys->builder, stream->device, stream->process,
                                         stream->context, stream->number);
    if (orr_memory_grow(nsys->memory, &nsys->streams, &nsys->stream_capacity,
                        nsys->stream_count + 1, sizeof *nsys->streams, SIZE_MAX / 64) == ORR_OK)
        nsys->streams[nsys->stream_count++] = *stream;
    return stream->stream;
}

uint32_t orr__nsys_stream(struct orr__nsys *nsys, struct orr__nsys_scan *scan, int first,
                          uint64_t *out_process) {
    int64_t device, context, number, pid;
    bool known = orr__nsys_int(scan, first, &device);
    orr__nsys_int(scan, first + 1, &context);
    orr__nsys_int(scan, first + 2, &number);
    orr__nsys_int(scan, first + 3, &pid);
    *out_process = orr__nsys_process(nsys, pid);
    if (!known || device < 0 || device >= ORR__BUILDER_DEVICES)
        return ORR_ID_NONE;
    struct orr__nsys_stream stream = {.process = *out_process,
                                      .context = (uint64_t)context,
                                      .number = number,
                                      .device = (uint32_t)device,
                                      .used = true};
    uint64_t hash = mix(stream.process ^ mix(stream.context << 32 ^ stream.device) ^
                        (uint64_t)number * UINT64_C(0x9e3779b97f4a7c15));
    struct orr__nsys_stream *slot = &nsys->stream_cache[hash % ORR__NSYS_CACHE];
    if (slot->used && slot->process == stream.process && slot->context == stream.context &&
        slot->number == number && slot->device == stream.device)
        return slot->stream;
    make_stream(nsys, &stream);
    *slot = stream;
    return stream.stream;
}

uint64_t orr__nsys_correlation(struct orr__nsys_scan *scan, int column) {
    int64_t correlation;
    bool known = orr__nsys_int(scan, column, &correlation) && correlation >= 0;
    return known ? (uint64_t)correlation : ORR_CORRELATION_NONE;
}

/* -- API rows ---------------------------------------------------------------------------------- */

static int compare_apis(const void *a, const void *b) {
    const struct orr__nsys_api *x = a, *y = b;
    if (x->correlation != y->correlation)
        return x->correlation < y->correlation ? -1 : 1;
    return x->process == y->process ? 0 : x->process < y->process ? -1 : 1;
}

enum orr_status orr__nsys_sort_apis(struct orr__nsys *nsys) {
    return orr__stable_sort(nsys->memory, nsys->apis, nsys->api_count, sizeof *nsys->apis,
                            compare_apis) == ORR_OK
               ? ORR_OK
               : orr__nsys_no_memory(nsys);
}

/* First index from `low` on whose row is not less than the key: near the place asked for last, in
 * most cases, so steps double before the search begins. */
static size_t lower_bound(const struct orr__nsys *nsys, size_t low,
                          const struct orr__nsys_api *key) {
    size_t step = 1, high = low;
    while (high < nsys->api_count && compare_apis(&nsys->apis[high], key) < 0) {
        low = high + 1;
        high = nsys->api_count - high > step ? high + step : nsys->api_count;
        step *= 2;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_apis(&nsys->apis[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t start_at(const struct orr__nsys *nsys, uint64_t correlation) {
    size_t hint = nsys->api_hint;
    bool before = hint < nsys->api_count && nsys->apis[hint].correlation < correlation;
    return before ? hint : 0;
}

const char *orr__nsys_find_apis(struct orr__nsys *nsys, uint64_t process, uint64_t correlation,
                                size_t *out_any, size_t *out_same) {
    *out_any = *out_same = 0;
    if (correlation == ORR_CORRELATION_NONE)
        return NULL;
    struct orr__nsys_api key = {.correlation = correlation};
    size_t first = lower_bound(nsys, start_at(nsys, correlation), &key);
    nsys->api_hint = first > 0 ? first - 1 : 0;
    if (first == nsys->api_count || nsys->apis[first].correlation != correlation)
        return NULL;
    key.process = process;
    size_t same = lower_bound(nsys, first, &key);
    key.process = UINT64_MAX;
    size_t end = lower_bound(nsys, same, &key);
    *out_any = end - first;
    key.process = process + 1; /* a process never is UINT64_MAX: its low bits are 0 */
    size_t same_end = lower_bound(nsys, same, &key);
    *out_same = same_end - same;
    return same_end > same ? nsys->apis[same].name : NULL;
}
