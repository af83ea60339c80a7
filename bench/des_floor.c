#include "bench/des_floor.h"

#include <stdbool.h>
#include <stdlib.h>

#include "bench/bench.h"

enum { RING_RECORDS = 1 << 16 };

struct op {
    uint64_t duration_ns;
    uint32_t stream, dependencies;
};

struct trace {
    uint64_t time_ns;
    uint32_t kind, stream;
    uint64_t op, duration_ns;
};

struct event {
    uint64_t time_ns, stream;
};

struct stream {
    uint32_t *ops;
    uint32_t next, count;
};

struct core {
    struct op *ops;
    struct stream *streams;
    struct event *heap;
    uint32_t heap_count;
    struct trace *ring;
    uint64_t ring_head, now_ns;
};

static bool before(struct event a, struct event b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.stream < b.stream;
}

static void push(struct core *core, struct event event) {
    uint32_t at = core->heap_count++;
    while (at > 0 && before(event, core->heap[(at - 1) / 4])) {
        core->heap[at] = core->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    core->heap[at] = event;
}

static struct event pop(struct core *core) {
    struct event top = core->heap[0], last = core->heap[--core->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t first = 4 * at + 1, best = first;
        if (first >= core->heap_count)
            break;
        uint32_t end = first + 4 < core->heap_count ? first + 4 : core->heap_count;
        for (uint32_t child = first + 1; child < end; child++)
            best = before(core->heap[child], core->heap[best]) ? child : best;
        if (!before(core->heap[best], last))
            break;
        core->heap[at] = core->heap[best];
        at = best;
    }
    core->heap[at] = last;
    return top;
}

static void trace(struct core *core, uint32_t kind, uint32_t stream, uint32_t op) {
    core->ring[core->ring_head++ % RING_RECORDS] =
        (struct trace){core->now_ns, kind, stream, op, core->ops[op].duration_ns};
}

static void start_next(struct core *core, uint32_t id) {
    struct stream *stream = &core->streams[id];
    if (stream->next == stream->count)
        return;
    uint32_t op = stream->ops[stream->next];
    if (core->ops[op].dependencies > 0)
        return;
    trace(core, 1, id, op);
    push(core, (struct event){core->now_ns + core->ops[op].duration_ns, id});
}

static void *need(size_t size) {
    void *block = malloc(size);
    bench_must(block != NULL, "no memory");
    return block;
}

static void build(struct core *core, uint32_t streams, uint32_t kernels) {
    size_t count = (size_t)streams * kernels;
    *core = (struct core){.ops = need(count * sizeof *core->ops),
                          .streams = need(streams * sizeof *core->streams),
                          .heap = need((streams + 1) * sizeof *core->heap),
                          .ring = calloc(RING_RECORDS, sizeof *core->ring)};
    bench_must(core->ring != NULL, "no memory");
    for (uint32_t i = 0; i < streams; i++)
        core->streams[i] =
            (struct stream){.ops = need(kernels * sizeof(uint32_t)), .count = kernels};
    for (uint32_t j = 0; j < kernels; j++)
        for (uint32_t i = 0; i < streams; i++) {
            uint32_t op = j * streams + i;
            core->streams[i].ops[j] = op;
            core->ops[op] =
                (struct op){.duration_ns = (uint64_t)des_floor_duration_ns(i, j), .stream = i};
        }
}

double des_floor_run(uint32_t streams, uint32_t kernels, int64_t *out_end_ns) {
    struct core core;
    build(&core, streams, kernels);
    double begin_s = bench_thread_cpu_s();
    for (uint32_t i = 0; i < streams; i++)
        start_next(&core, i);
    while (core.heap_count > 0) {
        struct event event = pop(&core);
        uint32_t id = (uint32_t)event.stream;
        core.now_ns = event.time_ns;
        trace(&core, 2, id, core.streams[id].ops[core.streams[id].next++]);
        start_next(&core, id);
    }
    double spent_s = bench_thread_cpu_s() - begin_s;
    *out_end_ns = (int64_t)core.now_ns;
    for (uint32_t i = 0; i < streams; i++)
        free(core.streams[i].ops);
    free(core.ops);
    free(core.streams);
    free(core.heap);
    free(core.ring);
    return spent_s;
}
