#include "tests/analyzer_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <cmocka.h>

static void ok(enum orr_status status) {
    assert_int_equal(status, ORR_OK);
}

void model_init(struct model *model, const struct orr_memory *memory) {
    model->memory = memory;
    orr_events_init(&model->events, memory);
    model->events.source.format = "test";
    model->events.source.knows_waits = true;
    model->events.source.knows_syncs = true;
}

uint32_t model_device(struct model *model) {
    uint32_t index;
    struct orr_events_device device = {.id = (uint32_t)model->events.device_count, .name = "GPU"};
    ok(orr_events_add_device(&model->events, &device, &index));
    return index;
}

uint32_t model_stream(struct model *model, uint32_t device) {
    uint32_t index;
    struct orr_events_stream stream = {
        .device = device, .id = (uint32_t)model->events.stream_count, .name = "stream"};
    ok(orr_events_add_stream(&model->events, &stream, &index));
    return index;
}

uint32_t model_thread(struct model *model, uint32_t process, const char *label) {
    uint32_t index;
    struct orr_events_thread thread = {.process = process, .name = "thread"};
    snprintf(thread.label, sizeof thread.label, "%s", label);
    ok(orr_events_add_thread(&model->events, &thread, &index));
    return index;
}

static bool starts(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static uint32_t flags_of(const char *name) {
    static const char *const breaking[] = {"Malloc",       "Free",       "HostAlloc",
                                           "HostRegister", "ModuleLoad", "StreamCreate"};
    bool async = strstr(name, "Async") != NULL;
    bool copies =
        starts(name, "cudaMemcpy") || starts(name, "cuMemcpy") || starts(name, "hipMemcpy");
    uint32_t flags = 0;
    if (strstr(name, "Synchronize") || (copies && !async)) {
        flags |= ORR_CALL_WAITING;
    }
    if (strstr(name, "Launch")) {
        flags |= ORR_CALL_LAUNCH;
    }
    if (strstr(name, "GraphLaunch")) {
        flags |= ORR_CALL_GRAPH;
    }
    for (size_t i = 0; i < sizeof breaking / sizeof *breaking; i++) {
        flags |= !async && strstr(name, breaking[i]) ? (uint32_t)ORR_CALL_BREAKING : 0;
    }
    return flags;
}

uint32_t model_call(struct model *model, uint32_t thread, int64_t begin_ns, int64_t end_ns,
                    const char *name) {
    uint32_t index;
    struct orr_events_call call = {.begin_ns = begin_ns,
                                   .end_ns = end_ns,
                                   .thread = thread,
                                   .records = 1,
                                   .flags = flags_of(name),
                                   .name = name};
    ok(orr_events_add_call(&model->events, &call, &index));
    model->events.source.api_calls++;
    return index;
}

static uint32_t operator_named(struct model *model, const char *name) {
    struct orr_events *events = &model->events;
    for (uint32_t i = 0; i < events->operator_count; i++) {
        if (strcmp(events->operators[i].name, name) == 0) {
            return i;
        }
    }
    uint32_t index;
    struct orr_events_operator item = {
        .name = name, .kind = "", .shape = "", .dtype = (uint8_t)ORR_DTYPE_NONE};
    ok(orr_events_add_operator(events, &item, &index));
    return index;
}

struct orr_events_op *model_op(struct model *model, uint32_t stream, uint32_t call,
                               int64_t start_ns, int64_t end_ns, const char *name) {
    bool copy = starts(name, "Memcpy"), fill = starts(name, "Memset");
    bool comm = strncasecmp(name, "nccl", 4) == 0;
    struct orr_events_op op = {.start_ns = start_ns,
                               .end_ns = end_ns,
                               .ready_ns = ORR_TIME_NONE,
                               .wait_ns = ORR_TIME_NONE,
                               .wait_op = ORR_EVENTS_NONE,
                               .wait_call = ORR_EVENTS_NONE,
                               .correlation =
                                   model->events.op_count + model->events.source.bad_ops + 1,
                               .stream = stream,
                               .call = call,
                               .operator_index = operator_named(model, name),
                               .collective = ORR_EVENTS_NONE,
                               .name = name,
                               .kind = (uint8_t)(copy   ? ORR_DEVICE_OP_COPY
                                                 : fill ? ORR_DEVICE_OP_FILL
                                                        : ORR_DEVICE_OP_KERNEL),
                               .activity = (uint8_t)(copy || fill ? ORR_ACTIVITY_COPY
                                                     : comm       ? ORR_ACTIVITY_COMM
                                                                  : ORR_ACTIVITY_COMPUTE)};
    uint32_t index;
    ok(orr_events_add_op(&model->events, &op, &index));
    return index == ORR_EVENTS_NONE ? NULL : &model->events.ops[index];
}

void model_wait(struct model *model, uint32_t stream, int64_t at_ns, uint32_t source,
                int64_t record_ns) {
    struct orr_events_wait wait = {stream, source, at_ns, record_ns, true};
    ok(orr_events_add_wait(&model->events, &wait, NULL));
    model->events.source.event_waits++;
}

void model_overhead(struct model *model, uint32_t process, int64_t begin_ns, int64_t end_ns) {
    struct orr_events_overhead overhead = {process, begin_ns, end_ns};
    ok(orr_events_add_overhead(&model->events, &overhead, NULL));
}

void model_sync(struct model *model, uint32_t call, enum orr_sync_target kind, uint32_t target) {
    struct orr_events_sync sync = {call, kind, target};
    ok(orr_events_add_sync(&model->events, &sync, NULL));
}

struct orr_analysis *model_analyze(struct model *model,
                                   const struct orr_analysis_options *options) {
    struct orr_analysis_options defaults = orr_analysis_options_default();
    struct orr_analysis *analysis;
    struct orr_error error = {0};
    ok(orr_events_prepare(&model->events, &error));
    ok(orr_analyze_events(&model->events, options ? options : &defaults, model->memory, &analysis,
                          &error));
    return analysis;
}

void model_done(struct model *model, struct orr_analysis **analysis) {
    orr_analysis_destroy(analysis);
    orr_events_free(&model->events);
}

/* ---------------------------------------------------------------------------------------------- */

static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* to[i]: the new place of item i; the same place for all without a state. */
static void permute(uint32_t *to, size_t count, uint64_t *state) {
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint32_t)i;
    }
    for (size_t i = count; state && i > 1; i--) {
        size_t j = (size_t)(next(state) % i);
        uint32_t swap = to[i - 1];
        to[i - 1] = to[j];
        to[j] = swap;
    }
}

static uint32_t moved(const uint32_t *to, uint32_t index) {
    return index == ORR_EVENTS_NONE ? index : to[index];
}

static int64_t shifted(int64_t time, int64_t shift) {
    return time == ORR_TIME_NONE ? time : time + shift;
}

struct places {
    uint32_t *ops, *calls, *operators, *waits, *syncs, *overheads, *collectives;
};

/* Item `place` of the copy is the item of `from` that moved there. */
static uint32_t origin(const uint32_t *to, size_t count, size_t place) {
    for (uint32_t i = 0; i < count; i++) {
        if (to[i] == place) {
            return i;
        }
    }
    fail();
    return 0;
}

static void copy_calls(struct model *copy, const struct orr_events *f, const struct places *p,
                       int64_t shift) {
    for (size_t i = 0; i < f->call_count; i++) {
        struct orr_events_call call = f->calls[origin(p->calls, f->call_count, i)];
        call.begin_ns += shift;
        call.end_ns += shift;
        ok(orr_events_add_call(&copy->events, &call, NULL));
    }
    for (size_t i = 0; i < f->operator_count; i++) {
        ok(orr_events_add_operator(
            &copy->events, &f->operators[origin(p->operators, f->operator_count, i)], NULL));
    }
    for (size_t i = 0; i < f->collective_count; i++) {
        ok(orr_events_add_collective(
            &copy->events, &f->collectives[origin(p->collectives, f->collective_count, i)], NULL));
    }
}

static void copy_ops(struct model *copy, const struct orr_events *f, const struct places *p,
                     int64_t shift) {
    for (size_t i = 0; i < f->op_count; i++) {
        struct orr_events_op op = f->ops[origin(p->ops, f->op_count, i)];
        op.start_ns += shift;
        op.end_ns += shift;
        op.ready_ns = shifted(op.ready_ns, shift);
        op.wait_ns = shifted(op.wait_ns, shift);
        op.wait_op = moved(p->ops, op.wait_op);
        op.wait_call = moved(p->calls, op.wait_call);
        op.call = moved(p->calls, op.call);
        op.operator_index = moved(p->operators, op.operator_index);
        op.collective = moved(p->collectives, op.collective);
        ok(orr_events_add_op(&copy->events, &op, NULL));
    }
}

static void copy_rest(struct model *copy, const struct orr_events *f, const struct places *p,
                      int64_t shift) {
    for (size_t i = 0; i < f->wait_count; i++) {
        struct orr_events_wait wait = f->waits[origin(p->waits, f->wait_count, i)];
        wait.at_ns += shift;
        wait.record_ns += shift;
        ok(orr_events_add_wait(&copy->events, &wait, NULL));
    }
    for (size_t i = 0; i < f->sync_count; i++) {
        struct orr_events_sync sync = f->syncs[origin(p->syncs, f->sync_count, i)];
        sync.call = moved(p->calls, sync.call);
        if (sync.kind == ORR_SYNC_TARGET_OP) {
            sync.target = moved(p->ops, sync.target);
        }
        ok(orr_events_add_sync(&copy->events, &sync, NULL));
    }
    for (size_t i = 0; i < f->overhead_count; i++) {
        struct orr_events_overhead overhead =
            f->overheads[origin(p->overheads, f->overhead_count, i)];
        overhead.begin_ns += shift;
        overhead.end_ns += shift;
        ok(orr_events_add_overhead(&copy->events, &overhead, NULL));
    }
}

void model_copy(struct model *copy, const struct model *from, uint64_t *state, int64_t shift_ns) {
    const struct orr_events *f = &from->events;
    model_init(copy, from->memory);
    struct places p;
    const struct {
        uint32_t **places;
        size_t count;
    } lists[] = {{&p.ops, f->op_count},
                 {&p.calls, f->call_count},
                 {&p.operators, f->operator_count},
                 {&p.waits, f->wait_count},
                 {&p.syncs, f->sync_count},
                 {&p.overheads, f->overhead_count},
                 {&p.collectives, f->collective_count}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        *lists[i].places = orr_memory_alloc(from->memory, lists[i].count * sizeof(uint32_t));
        assert_non_null(*lists[i].places);
        permute(*lists[i].places, lists[i].count, state);
    }
    for (size_t i = 0; i < f->device_count; i++) {
        ok(orr_events_add_device(&copy->events, &f->devices[i], NULL));
    }
    for (size_t i = 0; i < f->stream_count; i++) {
        ok(orr_events_add_stream(&copy->events, &f->streams[i], NULL));
    }
    for (size_t i = 0; i < f->thread_count; i++) {
        ok(orr_events_add_thread(&copy->events, &f->threads[i], NULL));
    }
    copy_calls(copy, f, &p, shift_ns);
    copy_ops(copy, f, &p, shift_ns);
    copy_rest(copy, f, &p, shift_ns);
    copy->events.source = f->source;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        orr_memory_free(from->memory, *lists[i].places);
    }
}
