#include "tests/timeline_fixture.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture_text {
    struct fixture_text *next;
    char text[];
};

/* Which entry of `capacity` belongs to which array. */
enum array {
    META,
    DEVICES,
    STREAMS,
    HOSTS,
    OPS,
    COMMANDS,
    EDGES,
    SYNCS,
    BUFFERS,
    ACCESSES,
    COMMUNICATORS,
    MEMBERS,
    COLLECTIVES,
    COLLECTIVE_MEMBERS,
    COUNTERS,
    FINDINGS,
    BUFFER_ROLES
};

static void out_of_memory(void) {
    fprintf(stderr, "timeline_fixture: out of memory\n");
    abort();
}

void fixture_init(struct fixture *fixture) {
    *fixture = (struct fixture){.memory = orr_memory_system()};
    fixture->timeline.memory = &fixture->memory;
    fixture->timeline.source = (struct orr_timeline_source){.format = "orrery",
                                                            .knows_waits = true,
                                                            .knows_syncs = true,
#define NOT_KNOWN(name) .name = ORR_SOURCE_NONE,
                                                            ORR_SOURCE_NUMBER_LIST(NOT_KNOWN)
#undef NOT_KNOWN
    };
}

void fixture_free(struct fixture *fixture) {
    struct orr_timeline *t = &fixture->timeline;
    void *arrays[FIXTURE_ARRAYS] = {
        t->meta,     t->devices,       t->streams,  t->hosts,       t->ops,
        t->commands, t->edges,         t->syncs,    t->buffers,     t->accesses,
        t->members,  t->communicators, t->counters, t->collectives, t->collective_members,
        t->findings, t->buffer_roles};
    for (int i = 0; i < FIXTURE_ARRAYS; i++) {
        orr_memory_free(&fixture->memory, arrays[i]);
    }
    while (fixture->texts) {
        struct fixture_text *next = fixture->texts->next;
        orr_memory_free(&fixture->memory, fixture->texts);
        fixture->texts = next;
    }
    *fixture = (struct fixture){0};
}

/* Room for one row more in the array that `items` points to; returns the row, zeroed. */
static void *grow(struct fixture *fixture, enum array array, void *items, size_t *count,
                  size_t size) {
    if (orr_memory_grow(&fixture->memory, items, &fixture->capacity[array], *count + 1, size,
                        SIZE_MAX / size) != ORR_OK) {
        out_of_memory();
    }
    char *base;
    memcpy(&base, items, sizeof base);
    return base + (*count)++ * size;
}

#define GROW(fixture, ARRAY, field)                                                                \
    grow(fixture, ARRAY, &(fixture)->timeline.field##s, &(fixture)->timeline.field##_count,        \
         sizeof *(fixture)->timeline.field##s)

const char *fixture_text(struct fixture *fixture, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    struct fixture_text *text = orr_memory_alloc(&fixture->memory, sizeof *text + size);
    if (!text) {
        out_of_memory();
    }
    vsnprintf(text->text, size, format, again);
    va_end(again);
    text->next = fixture->texts;
    fixture->texts = text;
    return text->text;
}

void fixture_meta(struct fixture *fixture, const char *key, const char *value) {
    struct orr_timeline *timeline = &fixture->timeline;
    struct orr_timeline_meta *meta =
        grow(fixture, META, &timeline->meta, &timeline->meta_count, sizeof *meta);
    *meta = (struct orr_timeline_meta){.key = key, .value = value};
}

uint32_t fixture_host(struct fixture *fixture, const char *name) {
    struct orr_timeline_host *host = GROW(fixture, HOSTS, host);
    *host = (struct orr_timeline_host){
        .id = (uint32_t)fixture->timeline.host_count - 1, .name = name, .label = ""};
    return host->id;
}

uint32_t fixture_device(struct fixture *fixture, const char *name, const char *kind) {
    struct orr_timeline_device *device = GROW(fixture, DEVICES, device);
    *device = (struct orr_timeline_device){
        .id = (uint32_t)fixture->timeline.device_count - 1,
        .name = name,
        .kind = kind,
        .profile = "",
    };
    return device->id;
}

uint32_t fixture_stream(struct fixture *fixture, uint32_t device, const char *name,
                        enum orr_stream_kind kind) {
    struct orr_timeline_stream *stream = GROW(fixture, STREAMS, stream);
    *stream = (struct orr_timeline_stream){
        .id = (uint32_t)fixture->timeline.stream_count - 1,
        .device = device,
        .name = name,
        .kind = kind,
    };
    return stream->id;
}

static uint64_t next_seq(const struct orr_timeline *timeline, uint32_t stream) {
    for (size_t i = timeline->command_count; i > 0; i--) {
        if (timeline->commands[i - 1].stream == stream) {
            return timeline->commands[i - 1].seq + 1;
        }
    }
    return 1;
}

struct orr_timeline_command *fixture_command(struct fixture *fixture, enum orr_command_kind kind,
                                             uint32_t stream, const char *name, int64_t start_ns,
                                             int64_t finish_ns) {
    bool in_stream = stream < fixture->timeline.stream_count;
    uint64_t seq = in_stream ? next_seq(&fixture->timeline, stream) : 0;
    struct orr_timeline_command *command = GROW(fixture, COMMANDS, command);
    *command = (struct orr_timeline_command){
        .id = fixture->timeline.command_count,
        .seq = seq,
        .host = ORR_ID_NONE,
        .stream = stream,
        .device = in_stream ? fixture->timeline.streams[stream].device : ORR_ID_NONE,
        .kind = kind,
        .status = finish_ns == ORR_TIME_NONE ? ORR_COMMAND_STATUS_PENDING : ORR_COMMAND_STATUS_OK,
        .dtype = ORR_DTYPE_NONE,
        .name = name,
        .event = "",
        .site = "",
        .ts_source = "",
        .grid = "",
        .correlation = ORR_CORRELATION_NONE,
        .enqueue_ns = ORR_TIME_NONE,
        .enqueued_ns = ORR_TIME_NONE,
        .ready_ns = ORR_TIME_NONE,
        .start_ns = start_ns,
        .finish_ns = finish_ns,
    };
    return command;
}

struct orr_timeline_command *fixture_row(struct fixture *fixture, uint64_t id) {
    if (id == 0 || id > fixture->timeline.command_count) {
        fprintf(stderr, "timeline_fixture: no command %llu\n", (unsigned long long)id);
        abort();
    }
    return &fixture->timeline.commands[id - 1];
}

void fixture_enqueue(struct fixture *fixture, uint64_t id, uint32_t host, int64_t enqueue_ns,
                     int64_t enqueued_ns) {
    struct orr_timeline_command *command = fixture_row(fixture, id);
    command->host = host;
    command->enqueue_ns = enqueue_ns;
    command->enqueued_ns = enqueued_ns;
}

void fixture_edge(struct fixture *fixture, uint64_t src, uint64_t dst, enum orr_edge_kind kind) {
    struct orr_timeline_edge *edge = GROW(fixture, EDGES, edge);
    *edge = (struct orr_timeline_edge){.src = src, .dst = dst, .kind = kind};
}

struct orr_timeline_sync *fixture_sync(struct fixture *fixture, uint32_t host,
                                       enum orr_sync_kind kind, int64_t begin_ns, int64_t end_ns,
                                       uint64_t cmd) {
    struct orr_timeline_sync *sync = GROW(fixture, SYNCS, sync);
    *sync = (struct orr_timeline_sync){
        .id = fixture->timeline.sync_count,
        .cmd = cmd,
        .host = host,
        .kind = kind,
        .target = "",
        .stream = ORR_ID_NONE,
        .device = ORR_ID_NONE,
        .begin_ns = begin_ns,
        .end_ns = end_ns,
    };
    return sync;
}

struct orr_timeline_op *fixture_op(struct fixture *fixture, const char *name, const char *kind) {
    struct orr_timeline_op *op = GROW(fixture, OPS, op);
    *op = (struct orr_timeline_op){
        .id = fixture->timeline.op_count,
        .name = name,
        .kind = kind,
        .site = "",
        .shape = "",
        .dtype = ORR_DTYPE_NONE,
    };
    return op;
}

struct orr_timeline_buffer *fixture_buffer(struct fixture *fixture, uint32_t device,
                                           uint64_t bytes) {
    struct orr_timeline_buffer *buffer = GROW(fixture, BUFFERS, buffer);
    *buffer = (struct orr_timeline_buffer){
        .id = fixture->timeline.buffer_count,
        .block = fixture->timeline.buffer_count,
        .bytes = bytes,
        .device = device,
        .stream = ORR_ID_NONE,
        .memory = "dev",
        .label = "",
    };
    return buffer;
}

void fixture_buffer_role(struct fixture *fixture, uint64_t buffer, uint64_t after_cmd,
                         enum orr_role role) {
    struct orr_timeline_buffer_role *item = GROW(fixture, BUFFER_ROLES, buffer_role);
    *item =
        (struct orr_timeline_buffer_role){.buffer = buffer, .after_cmd = after_cmd, .role = role};
}

void fixture_access(struct fixture *fixture, uint64_t cmd, uint64_t buffer, uint64_t offset,
                    uint64_t bytes, enum orr_access_mode mode) {
    struct orr_timeline *timeline = &fixture->timeline;
    struct orr_timeline_access *access =
        grow(fixture, ACCESSES, &timeline->accesses, &timeline->access_count, sizeof *access);
    *access = (struct orr_timeline_access){
        .cmd = cmd, .buffer = buffer, .offset = offset, .bytes = bytes, .mode = mode};
}

uint32_t fixture_communicator(struct fixture *fixture, const char *name) {
    struct orr_timeline_communicator *communicator = GROW(fixture, COMMUNICATORS, communicator);
    *communicator = (struct orr_timeline_communicator){
        .id = (uint32_t)fixture->timeline.communicator_count - 1, .name = name};
    return communicator->id;
}

void fixture_member(struct fixture *fixture, uint32_t communicator, uint32_t rank,
                    uint32_t device) {
    struct orr_timeline_member *member = GROW(fixture, MEMBERS, member);
    *member =
        (struct orr_timeline_member){.communicator = communicator, .rank = rank, .device = device};
}

struct orr_timeline_collective *fixture_collective(struct fixture *fixture, uint32_t communicator,
                                                   const char *kind, uint64_t bytes) {
    uint64_t seq = 0;
    for (size_t i = 0; i < fixture->timeline.collective_count; i++) {
        seq += fixture->timeline.collectives[i].communicator == communicator;
    }
    struct orr_timeline_collective *collective = GROW(fixture, COLLECTIVES, collective);
    *collective = (struct orr_timeline_collective){
        .id = fixture->timeline.collective_count,
        .seq = seq,
        .bytes = bytes,
        .communicator = communicator,
        .root = ORR_ID_NONE,
        .peer = ORR_ID_NONE,
        .kind = kind,
        .algorithm = "",
        .protocol = "",
        .modelled_ns = ORR_TIME_NONE,
        .dtype = ORR_DTYPE_NONE,
    };
    return collective;
}

void fixture_collective_member(struct fixture *fixture, uint64_t collective, uint32_t rank,
                               uint64_t cmd) {
    struct orr_timeline_collective_member *member =
        GROW(fixture, COLLECTIVE_MEMBERS, collective_member);
    *member =
        (struct orr_timeline_collective_member){.collective = collective, .cmd = cmd, .rank = rank};
}

void fixture_counter(struct fixture *fixture, uint32_t device, const char *name, int64_t ts_ns,
                     double value) {
    struct orr_timeline_counter *counter = GROW(fixture, COUNTERS, counter);
    *counter = (struct orr_timeline_counter){.device = device,
                                             .order = (uint32_t)fixture->timeline.counter_count - 1,
                                             .name = name,
                                             .ts_ns = ts_ns,
                                             .value = value};
}

struct orr_timeline_finding *fixture_finding(struct fixture *fixture, const char *kind,
                                             const char *severity, uint64_t cmd_a, uint64_t cmd_b) {
    struct orr_timeline_finding *finding = GROW(fixture, FINDINGS, finding);
    *finding = (struct orr_timeline_finding){
        .id = fixture->timeline.finding_count,
        .cmd_a = cmd_a,
        .cmd_b = cmd_b,
        .kind = kind,
        .severity = severity,
        .message = "",
        .fix = "",
    };
    return finding;
}

static int compare_u64(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_edges(const void *left, const void *right) {
    const struct orr_timeline_edge *a = left, *b = right;
    int order = compare_u64(a->dst, b->dst);
    order = order ? order : compare_u64(a->src, b->src);
    return order ? order : (int)a->kind - (int)b->kind;
}

static int compare_accesses(const void *left, const void *right) {
    const struct orr_timeline_access *a = left, *b = right;
    int order = compare_u64(a->cmd, b->cmd);
    order = order ? order : compare_u64(a->buffer, b->buffer);
    order = order ? order : compare_u64(a->offset, b->offset);
    return order ? order : compare_u64(a->bytes, b->bytes);
}

static int compare_counters(const void *left, const void *right) {
    const struct orr_timeline_counter *a = left, *b = right;
    int order = compare_u64(a->device, b->device);
    order = order ? order : strcmp(a->name, b->name);
    return order ? order : (a->ts_ns > b->ts_ns) - (a->ts_ns < b->ts_ns);
}

/* qsort of glibc keeps the order of equal rows only while it finds memory for a merge sort; equal
 * counters need their order, so this is an insertion sort, which is enough for tests. */
static void sort_stable(void *rows, size_t count, size_t size,
                        int (*compare)(const void *, const void *)) {
    char *base = rows, saved[128];
    if (size > sizeof saved) {
        abort();
    }
    for (size_t i = 1; i < count; i++) {
        size_t j = i;
        memcpy(saved, base + i * size, size);
        while (j > 0 && compare(base + (j - 1) * size, saved) > 0) {
            memcpy(base + j * size, base + (j - 1) * size, size);
            j--;
        }
        memcpy(base + j * size, saved, size);
    }
}

const struct orr_timeline *fixture_timeline(struct fixture *fixture) {
    struct orr_timeline *t = &fixture->timeline;
    sort_stable(t->edges, t->edge_count, sizeof *t->edges, compare_edges);
    sort_stable(t->accesses, t->access_count, sizeof *t->accesses, compare_accesses);
    sort_stable(t->counters, t->counter_count, sizeof *t->counters, compare_counters);
    return t;
}
