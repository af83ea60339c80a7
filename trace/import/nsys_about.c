/* What an nsys export says of itself and its machine: devices, threads' names, versions, the clock,
 * diagnostics, memory in use. See nsys.h. Names of users and hosts and paths are left behind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/import/nsys.h"
#include "trace/timeline_texts.h"

enum {
    DIAGNOSTICS_MAX = 20,
    MESSAGE_MAX = 300,
    ALIASES_MAX = 4096, /* of a real machine: processes times GPUs */
    GPUS_MAX = 1024,
    PROCESSES_MAX = 64 /* that worked on one device, of those looked at */
};

/* -- Devices ----------------------------------------------------------------------------------- */

/* deviceId is what a process calls a device; TARGET_INFO_CUDA_DEVICE says which GPU that is. */
struct alias {
    int64_t cuda, gpu, pid, multiprocessors;
};

struct aliases {
    struct alias *items;
    size_t count, capacity;
};

enum { ALIAS_CUDA, ALIAS_GPU, ALIAS_PID, ALIAS_MULTIPROCESSORS, ALIAS_COLUMNS };
static const char *const alias_columns[ALIAS_COLUMNS] = {"cudaId", "gpuId", "pid",
                                                         "numMultiprocessors"};

enum {
    GPU_ID,
    GPU_NAME,
    GPU_MEMORY,
    GPU_BANDWIDTH,
    GPU_CLOCK,
    GPU_SMS,
    GPU_MAJOR,
    GPU_MINOR,
    GPU_COLUMNS
};
static const char *const gpu_columns[GPU_COLUMNS] = {
    "id",        "name",    "totalMemory",  "memoryBandwidth",
    "clockRate", "smCount", "computeMajor", "computeMinor"};

static int compare_used(const void *a, const void *b) {
    const struct orr__nsys_stream *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->process == y->process ? 0 : x->process < y->process ? -1 : 1;
}

static int compare_aliases(const void *a, const void *b) {
    const struct alias *x = a, *y = b;
    return x->cuda == y->cuda ? 0 : x->cuda < y->cuda ? -1 : 1;
}

static enum orr_status read_aliases(struct orr__nsys *nsys, struct aliases *aliases) {
    struct orr__nsys_scan scan;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, "TARGET_INFO_CUDA_DEVICE",
                                                 alias_columns, ALIAS_COLUMNS, &scan);
    while (aliases->count < ALIASES_MAX && orr__nsys_scan_next(&scan, &status)) {
        struct alias alias;
        if (!orr__nsys_int(&scan, ALIAS_CUDA, &alias.cuda) ||
            !orr__nsys_int(&scan, ALIAS_GPU, &alias.gpu))
            continue;
        orr__nsys_int(&scan, ALIAS_PID, &alias.pid);
        orr__nsys_int(&scan, ALIAS_MULTIPROCESSORS, &alias.multiprocessors);
        if (orr_memory_grow(nsys->memory, &aliases->items, &aliases->capacity, aliases->count + 1,
                            sizeof alias, ALIASES_MAX) != ORR_OK)
            status = orr__nsys_no_memory(nsys);
        else
            aliases->items[aliases->count++] = alias;
    }
    status = orr__nsys_end(nsys, &scan, status);
    if (status == ORR_OK && orr__stable_sort(nsys->memory, aliases->items, aliases->count,
                                             sizeof *aliases->items, compare_aliases) != ORR_OK)
        status = orr__nsys_no_memory(nsys);
    return status;
}

/* A device that worked, and the GPU that its processes mean by it. */
struct known {
    uint32_t device;
    int64_t gpu, multiprocessors; /* -1, 0: not known */
};

struct knowns {
    struct known *items;
    size_t count, capacity;
};

/* Did one of these worked-on streams' processes have this pid? It is part of a globalPid. */
static bool used_by(const struct orr__nsys_stream *streams, size_t count, int64_t pid) {
    for (size_t i = 0; i < count && i < PROCESSES_MAX; i++)
        if ((streams[i].process >> 24 & 0xffffff) == ((uint64_t)pid & 0xffffff))
            return true;
    return false;
}

static struct known find_gpu(struct orr__nsys *nsys, const struct aliases *aliases,
                             const struct orr__nsys_stream *streams, size_t count, size_t *at) {
    struct known known = {.device = streams->device, .gpu = -1};
    bool ambiguous = false;
    while (*at < aliases->count && aliases->items[*at].cuda < known.device)
        ++*at;
    for (; *at < aliases->count && aliases->items[*at].cuda == known.device; ++*at) {
        const struct alias *alias = &aliases->items[*at];
        if (nsys->has_processes && !used_by(streams, count, alias->pid))
            continue;
        ambiguous = ambiguous || (known.gpu >= 0 && known.gpu != alias->gpu);
        known.gpu = alias->gpu;
        known.multiprocessors = alias->multiprocessors;
    }
    if (!ambiguous)
        return known;
    orr__builder_finding(nsys->builder, "import_device_ambiguous", "warning",
                         "analyze the processes apart",
                         "device %u is another GPU in one process than in another: figures of the "
                         "device mix them",
                         known.device);
    return (struct known){.device = known.device, .gpu = -1};
}

/* Devices in ascending order, as are streams and aliases. */
static enum orr_status find_gpus(struct orr__nsys *nsys, const struct aliases *aliases,
                                 struct knowns *knowns) {
    size_t alias = 0;
    for (size_t first = 0, end; first < nsys->stream_count; first = end) {
        for (end = first;
             end < nsys->stream_count && nsys->streams[end].device == nsys->streams[first].device;)
            end++;
        if (orr_memory_grow(nsys->memory, &knowns->items, &knowns->capacity, knowns->count + 1,
                            sizeof *knowns->items, ORR__BUILDER_DEVICES) != ORR_OK)
            return orr__nsys_no_memory(nsys);
        struct known known = find_gpu(nsys, aliases, &nsys->streams[first], end - first, &alias);
        if (known.gpu < 0 && aliases->count == 0)
            known.gpu = known.device; /* the best guess where nothing else is said */
        knowns->items[knowns->count++] = known;
    }
    return ORR_OK;
}

static void note_device(struct orr__nsys *nsys, uint32_t device, const char *what, int64_t value) {
    char key[64], text[32];
    snprintf(key, sizeof key, "device_%u_%s", device, what);
    snprintf(text, sizeof text, "%" PRId64, value);
    orr__builder_meta(nsys->builder, key, text);
}

static void describe(struct orr__nsys *nsys, struct orr__nsys_scan *scan, uint32_t number) {
    struct orr_timeline_device *device = orr__builder_device(nsys->builder, number);
    size_t length;
    int64_t value, minor;
    const char *name = orr__nsys_text(scan, GPU_NAME, &length);
    if (!device)
        return;
    if (name && length > 0)
        device->name = orr__builder_text(nsys->builder, name, length);
    if (orr__nsys_int(scan, GPU_MEMORY, &value) && value > 0)
        device->mem_bytes = (uint64_t)value;
    if (orr__nsys_int(scan, GPU_BANDWIDTH, &value) && value > 0)
        device->bandwidth = (uint64_t)value;
    if (orr__nsys_int(scan, GPU_SMS, &value) && value > 0 && value < UINT32_MAX)
        device->multiprocessors = (uint32_t)value;
    if (orr__nsys_int(scan, GPU_CLOCK, &value) && value > 0)
        note_device(nsys, number, "clock_hz", value);
    if (orr__nsys_int(scan, GPU_MAJOR, &value) && orr__nsys_int(scan, GPU_MINOR, &minor) &&
        value > 0 && value < 1000 && minor >= 0 && minor < 10)
        note_device(nsys, number, "compute_capability", value * 10 + minor);
}

/* Only devices that worked are described: the table lists all of the machine. */
static enum orr_status describe_devices(struct orr__nsys *nsys, const struct knowns *knowns) {
    struct orr__nsys_scan scan;
    enum orr_status status =
        orr__nsys_scan_open(&nsys->file, "TARGET_INFO_GPU", gpu_columns, GPU_COLUMNS, &scan);
    while (scan.rows < GPUS_MAX && orr__nsys_scan_next(&scan, &status)) {
        int64_t id;
        bool known = orr__nsys_int(&scan, GPU_ID, &id);
        for (size_t i = 0; known && i < knowns->count; i++)
            if (knowns->items[i].gpu == id)
                describe(nsys, &scan, knowns->items[i].device);
    }
    for (size_t i = 0; i < knowns->count; i++) {
        const struct known *known = &knowns->items[i];
        struct orr_timeline_device *device = orr__builder_device(nsys->builder, known->device);
        if (device && device->multiprocessors == 0 && known->multiprocessors > 0 &&
            known->multiprocessors < UINT32_MAX)
            device->multiprocessors = (uint32_t)known->multiprocessors;
    }
    return orr__nsys_end(nsys, &scan, status);
}

/* Keeps one stream for each (device, process): what is left is small. */
static enum orr_status reduce_streams(struct orr__nsys *nsys) {
    if (orr__stable_sort(nsys->memory, nsys->streams, nsys->stream_count, sizeof *nsys->streams,
                         compare_used) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    size_t kept = 0;
    for (size_t i = 0; i < nsys->stream_count; i++)
        if (i == 0 || compare_used(&nsys->streams[i], &nsys->streams[kept - 1]) != 0)
            nsys->streams[kept++] = nsys->streams[i];
    nsys->stream_count = kept;
    return ORR_OK;
}

static enum orr_status read_devices(struct orr__nsys *nsys) {
    struct aliases aliases = {0};
    struct knowns knowns = {0};
    enum orr_status status = reduce_streams(nsys);
    if (status == ORR_OK)
        status = read_aliases(nsys, &aliases);
    if (status == ORR_OK)
        status = find_gpus(nsys, &aliases, &knowns);
    if (status == ORR_OK)
        status = describe_devices(nsys, &knowns);
    orr_memory_free(nsys->memory, aliases.items);
    orr_memory_free(nsys->memory, knowns.items);
    return status;
}

/* -- Threads ----------------------------------------------------------------------------------- */

static int compare_hosts(const void *a, const void *b) {
    const struct orr__nsys_host *x = a, *y = b;
    return x->tid == y->tid ? 0 : x->tid < y->tid ? -1 : 1;
}

static const struct orr__nsys_host *find_host(const struct orr__nsys *nsys, int64_t tid) {
    struct orr__nsys_host key = {.tid = tid};
    size_t low = 0, high = nsys->host_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_hosts(&nsys->hosts[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < nsys->host_count && nsys->hosts[low].tid == tid ? &nsys->hosts[low] : NULL;
}

/* The table names all threads of the machine; those that did something here are few. */
static enum orr_status read_thread_names(struct orr__nsys *nsys) {
    static const char *const columns[] = {"globalTid", "nameId|name"};
    struct orr__nsys_scan scan;
    if (orr__stable_sort(nsys->memory, nsys->hosts, nsys->host_count, sizeof *nsys->hosts,
                         compare_hosts) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    enum orr_status status = orr__nsys_scan_open(&nsys->file, "ThreadNames", columns, 2, &scan);
    while (orr__nsys_scan_next(&scan, &status)) {
        int64_t tid;
        const struct orr__nsys_host *host =
            orr__nsys_int(&scan, 0, &tid) ? find_host(nsys, tid) : NULL;
        const char *name = host ? orr__nsys_name(nsys, &scan, 1) : NULL;
        if (name)
            orr__builder_name_host(nsys->builder, host->host, name);
    }
    return orr__nsys_end(nsys, &scan, status);
}

/* -- The export -------------------------------------------------------------------------------- */

static enum orr_status read_clock(struct orr__nsys *nsys) {
    static const char *const columns[] = {"utcEpochNs"};
    struct orr_timeline_source *source = orr__builder_source(nsys->builder);
    struct orr__nsys_scan scan;
    enum orr_status status =
        orr__nsys_scan_open(&nsys->file, "TARGET_INFO_SESSION_START_TIME", columns, 1, &scan);
    while (!source->has_time_base && orr__nsys_scan_next(&scan, &status))
        source->has_time_base = orr__nsys_int(&scan, 0, &source->time_base_ns);
    return orr__nsys_end(nsys, &scan, status);
}

/* What is worth keeping of the export's and the capture's settings; hosts, users, paths and command
 * lines are not. */
static bool is_kept(const char *key) {
    static const char *const keys[] = {"EXPORT_PRODUCT_NAME",           "EXPORT_PRODUCT_VERSION",
                                       "EXPORT_SCHEMA_VERSION",         "EXPORT_ARCH",
                                       "CUDA_GRAPH_TRACE_OPTIONS:MODE", "DERIVED_WINDOW_NS"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static enum orr_status read_meta(struct orr__nsys *nsys, const char *table) {
    static const char *const columns[] = {"name", "value"};
    struct orr__nsys_scan scan;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, table, columns, 2, &scan);
    while (orr__nsys_scan_next(&scan, &status)) {
        char key[64], text[128];
        size_t length, value_length;
        const char *name = orr__nsys_text(&scan, 0, &length);
        if (!name || length >= sizeof key || !is_kept(name))
            continue;
        memcpy(key, name, length + 1);
        const char *value = orr__nsys_text(&scan, 1, &value_length);
        if (!value || value_length >= sizeof text || strchr(value, '/'))
            continue;
        memcpy(text, value, value_length + 1);
        orr__builder_meta(nsys->builder, key, text);
    }
    return orr__nsys_end(nsys, &scan, status);
}

/* -- Diagnostics ------------------------------------------------------------------------------- */

/* One line of what the profiler said, without control characters and without words that are
 * paths. */
static void clean(const char *text, char *line, size_t size) {
    size_t length = 0;
    while (*text && length + 8 < size) {
        size_t word = strcspn(text, " \t\r\n");
        const char *slash = memchr(text, '/', word);
        bool is_path = slash && memchr(slash + 1, '/', word - (size_t)(slash + 1 - text));
        if (is_path) {
            memcpy(line + length, "(path)", 6);
            length += 6;
        }
        for (size_t i = 0; !is_path && i < word && length + 8 < size; i++)
            if ((unsigned char)text[i] >= 32)
                line[length++] = text[i];
        text += word;
        if (*text) {
            text++;
            line[length++] = ' ';
        }
    }
    while (length > 0 && line[length - 1] == ' ')
        length--;
    line[length] = '\0';
}

/* ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 2 warning, 3 error; the others are progress. */
static enum orr_status read_diagnostics(struct orr__nsys *nsys) {
    static const char *const columns[] = {"severity", "text"};
    struct orr__nsys_scan scan;
    uint64_t told = 0, left = 0;
    enum orr_status status =
        orr__nsys_scan_open(&nsys->file, "DIAGNOSTIC_EVENT", columns, 2, &scan);
    while (orr__nsys_scan_next(&scan, &status)) {
        int64_t severity;
        size_t length;
        char line[MESSAGE_MAX];
        const char *text = orr__nsys_text(&scan, 1, &length);
        orr__nsys_int(&scan, 0, &severity);
        if ((severity != 2 && severity != 3) || !text)
            continue;
        if (told == DIAGNOSTICS_MAX) {
            left++;
            continue;
        }
        clean(text, line, sizeof line);
        orr__builder_finding(nsys->builder, "import_diagnostic",
                             severity == 3 ? "error" : "warning", "", "the profiler said: %s",
                             line);
        told++;
    }
    if (left > 0)
        orr__builder_finding(nsys->builder, "import_diagnostic", "note", "",
                             "the profiler said %" PRIu64 " more things of this sort", left);
    return orr__nsys_end(nsys, &scan, status);
}

/* -- Memory in use ----------------------------------------------------------------------------- */

enum { MEMORY_START, MEMORY_DEVICE, MEMORY_BYTES, MEMORY_KIND, MEMORY_OPERATION, MEMORY_COLUMNS };
static const char *const memory_columns[MEMORY_COLUMNS] = {"start", "deviceId", "bytes", "memKind",
                                                           "memoryOperationType"};

enum { KIND_DEVICE = 2, OPERATION_ALLOCATE = 0, OPERATION_FREE = 1 };

struct memory_change {
    int64_t at, bytes;
    uint32_t device;
};

struct memory_changes {
    struct memory_change *items;
    size_t count, capacity;
};

static int compare_changes(const void *a, const void *b) {
    const struct memory_change *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->at == y->at ? 0 : x->at < y->at ? -1 : 1;
}

static enum orr_status add_change(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                                  struct memory_changes *changes) {
    struct memory_change change;
    int64_t device, kind, operation;
    bool known = orr__nsys_int(scan, MEMORY_START, &change.at) &&
                 orr__nsys_int(scan, MEMORY_DEVICE, &device) &&
                 orr__nsys_int(scan, MEMORY_BYTES, &change.bytes) &&
                 orr__nsys_int(scan, MEMORY_KIND, &kind) &&
                 orr__nsys_int(scan, MEMORY_OPERATION, &operation);
    if (!known || kind != KIND_DEVICE || device < 0 || device >= ORR__BUILDER_DEVICES ||
        change.bytes < 0 || (operation != OPERATION_ALLOCATE && operation != OPERATION_FREE))
        return ORR_OK;
    change.device = (uint32_t)device;
    if (operation == OPERATION_FREE)
        change.bytes = -change.bytes;
    if (orr_memory_grow(nsys->memory, &changes->items, &changes->capacity, changes->count + 1,
                        sizeof change, SIZE_MAX / 64) != ORR_OK)
        return orr__nsys_no_memory(nsys);
    changes->items[changes->count++] = change;
    return ORR_OK;
}

/* True if the sum never falls below 0: what was freed had been seen to be allocated. */
static bool is_complete(const struct memory_change *changes, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(sum, changes[i].bytes, &sum) || sum < 0)
            return false;
    return true;
}

static void add_counters(struct orr__nsys *nsys, const struct memory_change *changes,
                         size_t count) {
    if (!is_complete(changes, count)) {
        orr__builder_finding(nsys->builder, "import_memory_unknown", "note",
                             "capture from the start of the program",
                             "device %u frees memory whose allocation is not in the trace: how "
                             "much is in use is not known",
                             changes->device);
        return;
    }
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct orr_timeline_counter *counter = orr__builder_counter(nsys->builder);
        if (!counter)
            return;
        sum += changes[i].bytes;
        counter->device = changes[i].device;
        counter->name = orr__builder_text(nsys->builder, "memory bytes", strlen("memory bytes"));
        counter->ts_ns = changes[i].at;
        counter->value = (double)sum;
    }
}

static enum orr_status read_memory(struct orr__nsys *nsys) {
    struct memory_changes changes = {0};
    struct orr__nsys_scan scan;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, "CUDA_GPU_MEMORY_USAGE_EVENTS",
                                                 memory_columns, MEMORY_COLUMNS, &scan);
    while (orr__nsys_scan_next(&scan, &status))
        status = add_change(nsys, &scan, &changes);
    status = orr__nsys_end(nsys, &scan, status);
    if (status == ORR_OK && orr__stable_sort(nsys->memory, changes.items, changes.count,
                                             sizeof *changes.items, compare_changes) != ORR_OK)
        status = orr__nsys_no_memory(nsys);
    for (size_t first = 0, end; status == ORR_OK && first < changes.count; first = end) {
        for (end = first;
             end < changes.count && changes.items[end].device == changes.items[first].device;)
            end++;
        add_counters(nsys, &changes.items[first], end - first);
    }
    orr_memory_free(nsys->memory, changes.items);
    return status;
}

enum orr_status orr__nsys_read_about(struct orr__nsys *nsys) {
    static enum orr_status (*const readers[])(struct orr__nsys *) = {
        read_devices, read_thread_names, read_clock, read_diagnostics, read_memory};
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < sizeof readers / sizeof *readers && status == ORR_OK; i++)
        status = readers[i](nsys);
    if (status == ORR_OK)
        status = read_meta(nsys, "META_DATA_EXPORT");
    return status == ORR_OK ? read_meta(nsys, "META_DATA_CAPTURE") : status;
}
