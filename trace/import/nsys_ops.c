/* Work of devices: KERNEL, MEMCPY, MEMSET and whole graphs, and how their rows join with those of
 * RUNTIME. See nsys.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/import/nsys.h"

/* The first columns of every table here; the rest is each table's own. */
#define PLACE "start", "end", "correlationId", "deviceId", "contextId", "streamId", "globalPid"

enum { START, END, CORRELATION, DEVICE, OWN = DEVICE + 4 };
enum { KERNEL_NAME = OWN, KERNEL_GRID, KERNEL_GRAPH = KERNEL_GRID + 6, KERNEL_COLUMNS };
enum { COPY_BYTES = OWN, COPY_KIND, COPY_FROM, COPY_TO, COPY_COLUMNS };
enum { SET_BYTES = OWN, SET_KIND, SET_COLUMNS };
enum { GRAPH_ID = OWN, GRAPH_COLUMNS };

static const char *const kernel_columns[KERNEL_COLUMNS] = {
    PLACE,    "demangledName|shortName|mangledName",
    "gridX",  "gridY",
    "gridZ",  "blockX",
    "blockY", "blockZ",
    "graphId"};
static const char *const copy_columns[COPY_COLUMNS] = {PLACE, "bytes", "copyKind", "srcKind",
                                                       "dstKind"};
static const char *const set_columns[SET_COLUMNS] = {PLACE, "bytes", "memKind"};
static const char *const graph_columns[GRAPH_COLUMNS] = {PLACE, "graphId"};

struct join { /* of one table, as in orr_timeline_source */
    uint64_t rows, naive_rows, process_rows, unlinked;
};

/* -- Names ------------------------------------------------------------------------------------- */

/* ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND of an export, in the words that CUPTI's own writers
 * (Kineto) use. */
static const char *const copy_kinds[] = {"",     "HtoD",     "DtoH",     "HtoA",    "AtoH",
                                         "AtoA", "AtoD",     "DtoA",     "DtoD",    "HtoH",
                                         "PtoP", "UVM HtoD", "UVM DtoH", "UVM DtoD"};
static const char *const memory_kinds[] = {"Pageable",       "Pinned",  "Device",
                                           "Array",          "Managed", "Device Static",
                                           "Managed Static", "Unknown"};
enum {
    COPY_KINDS = sizeof copy_kinds / sizeof *copy_kinds,
    MEMORY_KINDS = sizeof memory_kinds / sizeof *memory_kinds
};

/* An index within `count`; `count` itself for what is none. */
static unsigned code_of(struct orr__nsys_scan *scan, int column, unsigned count) {
    int64_t code;
    bool known = orr__nsys_int(scan, column, &code) && code >= 0 && code < count;
    return known ? (unsigned)code : count;
}

static const char *text_of(struct orr__nsys *nsys, const char *text) {
    return orr__builder_text(nsys->builder, text, strlen(text));
}

static const char *copy_name(struct orr__nsys *nsys, struct orr__nsys_scan *scan) {
    unsigned kind = code_of(scan, COPY_KIND, COPY_KINDS);
    unsigned from = code_of(scan, COPY_FROM, MEMORY_KINDS);
    unsigned to = code_of(scan, COPY_TO, MEMORY_KINDS);
    const char **cached = &nsys->copy_names[kind][from][to];
    if (*cached)
        return *cached;
    char text[96];
    const char *word = kind < COPY_KINDS ? copy_kinds[kind] : "";
    int length = snprintf(text, sizeof text, word[0] ? "Memcpy %s" : "Memcpy%s", word);
    if (from < MEMORY_KINDS && to < MEMORY_KINDS)
        snprintf(text + length, sizeof text - (size_t)length, " (%s -> %s)", memory_kinds[from],
                 memory_kinds[to]);
    return *cached = text_of(nsys, text);
}

static const char *set_name(struct orr__nsys *nsys, struct orr__nsys_scan *scan) {
    unsigned kind = code_of(scan, SET_KIND, MEMORY_KINDS);
    char text[48];
    snprintf(text, sizeof text, kind < MEMORY_KINDS ? "Memset (%s)" : "Memset",
             kind < MEMORY_KINDS ? memory_kinds[kind] : "");
    return text_of(nsys, text);
}

static const char *grid_text(struct orr__nsys *nsys, struct orr__nsys_scan *scan) {
    int64_t size[6];
    uint64_t hash = 0;
    for (int i = 0; i < 6; i++) {
        if (!orr__nsys_int(scan, KERNEL_GRID + i, &size[i]))
            return "";
        hash = (hash ^ (uint64_t)size[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    struct orr__nsys_grid *slot = &nsys->grid_cache[hash % ORR__NSYS_GRID_CACHE];
    if (!slot->text || memcmp(slot->size, size, sizeof size) != 0) {
        char text[160];
        snprintf(text, sizeof text,
                 "[%" PRId64 ", %" PRId64 ", %" PRId64 "] x [%" PRId64 ", %" PRId64 ", %" PRId64
                 "]",
                 size[0], size[1], size[2], size[3], size[4], size[5]);
        memcpy(slot->size, size, sizeof size);
        slot->text = text_of(nsys, text);
    }
    return slot->text;
}

/* -- Rows -------------------------------------------------------------------------------------- */

static void count_join(struct orr__nsys *nsys, struct join *join, uint64_t process,
                       uint64_t correlation) {
    size_t any, same;
    orr__nsys_find_apis(nsys, process, correlation, &any, &same);
    join->rows++;
    join->naive_rows += any;
    join->process_rows += same;
    join->unlinked += same == 0;
}

static uint64_t bytes_of(struct orr__nsys_scan *scan, int column) {
    int64_t bytes;
    return orr__nsys_int(scan, column, &bytes) && bytes > 0 ? (uint64_t)bytes : 0;
}

/* What all tables have: a command with its place, or NULL: the row makes no sense, or there is no
 * memory, which *status then says. */
static struct orr_timeline_command *start_row(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                                              struct join *join, enum orr_status *status) {
    int64_t start, end;
    uint64_t process;
    uint64_t correlation = orr__nsys_correlation(scan, CORRELATION);
    uint32_t stream = orr__nsys_stream(nsys, scan, DEVICE, &process);
    if (join)
        count_join(nsys, join, process, correlation);
    bool timed = orr__nsys_int(scan, START, &start) && orr__nsys_int(scan, END, &end);
    if (!timed || stream == ORR_ID_NONE) {
        nsys->skipped++;
        return NULL;
    }
    struct orr_timeline_command *command = orr__builder_command(nsys->builder);
    if (!command) {
        *status = orr__nsys_no_memory(nsys);
        return NULL;
    }
    int64_t device;
    orr__nsys_int(scan, DEVICE, &device);
    command->device = (uint32_t)device;
    command->stream = stream;
    command->start_ns = start;
    command->finish_ns = end;
    command->correlation = correlation;
    orr__nsys_saw(nsys, end);
    return command;
}

static void fill_kernel(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                        struct orr_timeline_command *command) {
    const char *name = orr__nsys_name(nsys, scan, KERNEL_NAME);
    int64_t graph;
    command->kind = ORR_COMMAND_KERNEL;
    command->name = name ? name : "unnamed kernel";
    command->grid = grid_text(nsys, scan);
    command->graph = orr__nsys_int(scan, KERNEL_GRAPH, &graph) && graph > 0 ? (uint64_t)graph : 0;
}

static void fill_copy(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                      struct orr_timeline_command *command) {
    command->kind = ORR_COMMAND_COPY;
    command->name = copy_name(nsys, scan);
    command->bytes_read = command->bytes_written = bytes_of(scan, COPY_BYTES);
}

static void fill_set(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                     struct orr_timeline_command *command) {
    command->kind = ORR_COMMAND_FILL;
    command->name = set_name(nsys, scan);
    command->bytes_written = bytes_of(scan, SET_BYTES);
}

static void fill_graph(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                       struct orr_timeline_command *command) {
    char text[48];
    int64_t graph;
    orr__nsys_int(scan, GRAPH_ID, &graph);
    snprintf(text, sizeof text, "graph %" PRId64, graph);
    command->kind = ORR_COMMAND_GRAPH;
    command->name = text_of(nsys, text);
    command->graph = graph > 0 ? (uint64_t)graph : 0;
}

typedef void fill_row(struct orr__nsys *nsys, struct orr__nsys_scan *scan,
                      struct orr_timeline_command *command);

static enum orr_status read_table(struct orr__nsys *nsys, const char *table,
                                  const char *const *columns, unsigned count, fill_row *fill,
                                  struct join *join) {
    struct orr__nsys_scan scan;
    enum orr_status status = orr__nsys_scan_open(&nsys->file, table, columns, count, &scan);
    nsys->api_hint = 0;
    while (orr__nsys_scan_next(&scan, &status)) {
        struct orr_timeline_command *command = start_row(nsys, &scan, join, &status);
        if (command)
            fill(nsys, &scan, command);
    }
    return orr__nsys_end(nsys, &scan, status);
}

static enum orr_status read_graphs(struct orr__nsys *nsys) {
    uint64_t before = nsys->rows;
    enum orr_status status = read_table(nsys, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graph_columns,
                                        GRAPH_COLUMNS, fill_graph, NULL);
    if (status != ORR_OK || nsys->rows == before)
        return status;
    orr__builder_finding(nsys->builder, "import_graphs_whole", "warning",
                         "capture with nsys profile --cuda-graph-trace=node",
                         "%" PRIu64 " graph launches were recorded whole: which kernels ran in "
                         "them, and when, is not known",
                         nsys->rows - before);
    return ORR_OK;
}

enum orr_status orr__nsys_read_ops(struct orr__nsys *nsys) {
    struct join kernel = {0}, copy = {0}, set = {0};
    struct orr_timeline_source *source = orr__builder_source(nsys->builder);
    enum orr_status status = read_table(nsys, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns,
                                        KERNEL_COLUMNS, fill_kernel, &kernel);
    if (status == ORR_OK)
        status = read_table(nsys, "CUPTI_ACTIVITY_KIND_MEMCPY", copy_columns, COPY_COLUMNS,
                            fill_copy, &copy);
    if (status == ORR_OK)
        status = read_table(nsys, "CUPTI_ACTIVITY_KIND_MEMSET", set_columns, SET_COLUMNS, fill_set,
                            &set);
    if (status == ORR_OK)
        status = read_graphs(nsys);
    source->kernel_rows = kernel.rows;
    source->kernel_naive_rows = kernel.naive_rows;
    source->kernel_process_rows = kernel.process_rows;
    source->kernel_unlinked = kernel.unlinked;
    source->memcpy_rows = copy.rows;
    source->memcpy_naive_rows = copy.naive_rows;
    source->memcpy_process_rows = copy.process_rows;
    source->memcpy_unlinked = copy.unlinked;
    source->memset_rows = set.rows;
    source->memset_naive_rows = set.naive_rows;
    source->memset_process_rows = set.process_rows;
    source->memset_unlinked = set.unlinked;
    return status;
}
