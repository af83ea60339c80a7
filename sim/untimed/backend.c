/* The backend's verbs but for those of machine.c and hosts.c: memory, opening, rewinding. */
#include "runtime/splitmix.h"
#include "sim/untimed/untimed_internal.h"

enum { POINTER_ALIGNMENT = 64, SPARES_MAX = 1024 };

/* --- memory --- */

static bool take_spare(struct orr_untimed *x, uint64_t bytes, struct orr__memory *memory) {
    for (size_t i = x->spare_count; i-- > 0;) {
        if (x->spares[i].bytes == bytes) {
            *memory = x->spares[i];
            x->spares[i] = x->spares[--x->spare_count];
            return true;
        }
    }
    return false;
}

static void free_memory(struct orr_untimed *x, struct orr__memory *memory) {
    orr_memory_free(x->memory, memory->block);
    orr_memory_free(x->memory, memory->undefined);
    *memory = (struct orr__memory){0};
}

/* Bytes are kept for later executions; contents are undefined then as now. */
static void keep_memory(struct orr_untimed *x, struct orr__memory *memory) {
    if (memory->block && x->spare_count < SPARES_MAX &&
        orr_memory_grow(x->memory, &x->spares, &x->spare_capacity, x->spare_count + 1,
                        sizeof *x->spares, SPARES_MAX) == ORR_OK) {
        memory->undefined_count = 0;
        x->spares[x->spare_count++] = *memory;
        *memory = (struct orr__memory){0};
        return;
    }
    free_memory(x, memory);
}

static enum orr_status memory_create(struct orr_backend *backend, uint32_t device, uint64_t bytes,
                                     uint32_t *out_memory, struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    *out_memory = ORR_ID_NONE;
    if (orr_memory_grow(x->memory, &x->memories, &x->memory_capacity, x->memory_count + 1,
                        sizeof *x->memories, ORR__X_MEMORIES) != ORR_OK) {
        return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
    }
    struct orr__memory memory = {.bytes = bytes};
    if (!x->timing_only && !take_spare(x, bytes, &memory)) {
        bool possible = bytes <= (uint64_t)PTRDIFF_MAX - POINTER_ALIGNMENT;
        memory.block =
            possible ? orr_memory_resize(x->memory, NULL, bytes + POINTER_ALIGNMENT) : NULL;
        uintptr_t at = ((uintptr_t)memory.block + POINTER_ALIGNMENT - 1) / POINTER_ALIGNMENT;
        memory.pointer = (unsigned char *)(at * POINTER_ALIGNMENT);
    }
    memory.device = device;
    memory.live = true;
    if (!x->timing_only &&
        (!memory.block || orr__range_undefine(&memory, x->memory, 0, bytes) != ORR_OK)) {
        free_memory(x, &memory);
        return orr_error_set(error, ORR_NO_MEMORY, "explore: no host memory for %llu bytes",
                             (unsigned long long)bytes);
    }
    *out_memory = (uint32_t)x->memory_count;
    x->memories[x->memory_count++] = memory;
    return ORR_OK;
}

static void memory_destroy(struct orr_backend *backend, uint32_t id) {
    struct orr_untimed *x = orr__x_of(backend);
    keep_memory(x, &x->memories[id]);
}

static void *memory_pointer(struct orr_backend *backend, uint32_t id) {
    return orr__x_of(backend)->memories[id].pointer;
}

static void memory_undefine(struct orr_backend *backend, uint32_t stream, uint32_t id,
                            uint64_t offset, uint64_t bytes) {
    struct orr_untimed *x = orr__x_of(backend);
    if (!x->timing_only && !x->over) {
        orr__x_undefine(x, stream, id, offset, bytes);
    }
}

static void memory_define(struct orr_backend *backend, uint32_t id, uint64_t offset,
                          uint64_t bytes) {
    struct orr_untimed *x = orr__x_of(backend);
    if (!x->timing_only &&
        orr__range_define(&x->memories[id], x->memory, offset, offset + bytes) != ORR_OK) {
        x->out_of_memory = true;
    }
}

static void stream_destroy(struct orr_backend *backend, uint32_t stream) {
    (void)backend;
    (void)stream;
}

static enum orr_status fail_of(struct orr_backend *backend, uint32_t id, struct orr_error *error) {
    const struct orr_untimed *x = orr__x_of(backend);
    const struct orr__x_stream *stream = &x->streams[id];
    if (x->out_of_memory) {
        return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
    }
    if (!stream->failed) {
        return ORR_OK;
    }
    return orr_error_set(error, ORR_DEVICE_FAILED, "%s",
                         stream->failure ? stream->failure->text : "a device operation failed");
}

/* --- from one execution to the next --- */

/* As right after open. Arrays stay as large as they have become. */
static void restart(struct orr_untimed *x) {
    for (uint32_t i = 0; i < x->stream_count; i++) {
        if (x->streams[i].owns_failure) {
            orr_memory_free(x->memory, x->streams[i].failure);
        }
        x->streams[i].owns_failure = false;
    }
    for (size_t i = 0; i < x->memory_count; i++) {
        keep_memory(x, &x->memories[i]);
    }
    x->stream_count = x->host_count = x->live_count = x->process_count = x->lanes = 0;
    x->enabled = x->starters = x->blocked = 0;
    x->running = x->order_count = 0;
    x->multi = x->over = false;
    x->granted = x->asking = x->cause = ORR_ID_NONE;
    x->current = x->acted = 0;
    x->outcome = ORR_UNTIMED_COMPLETE;
    x->memory_count = x->group_count = x->group_stream_count = x->group_access_count = 0;
    x->wait_count = x->access_count = x->question_count = 0;
    x->clock_count = 1; /* the clock of nothing */
    x->step_count = 0;
    uint32_t host;
    (void)orr__x_host_create(&x->base, &host);
}

static void untimed_rewind(struct orr_backend *backend) {
    struct orr_untimed *x = orr__x_of(backend);
    orr__x_retire_all(x);
    restart(x);
}

static void free_everything(struct orr_untimed *x) {
    const struct orr_memory *memory = x->memory;
    for (uint32_t i = 0; i < ORR__X_PROCESSES; i++) {
        orr_memory_free(memory, x->streams[i].slots);
        orr_memory_free(memory, x->streams[i].retireds);
        if (x->streams[i].owns_failure) {
            orr_memory_free(memory, x->streams[i].failure);
        }
        orr_memory_free(memory, x->hosts[i].points);
        orr_memory_free(memory, x->hosts[i].call.accesses);
        orr_memory_free(memory, x->hosts[i].call.points);
    }
    for (size_t i = 0; i < x->memory_count; i++) {
        free_memory(x, &x->memories[i]);
    }
    for (size_t i = 0; i < x->spare_count; i++) {
        free_memory(x, &x->spares[i]);
    }
    orr_memory_free(memory, x->memories);
    orr_memory_free(memory, x->spares);
    orr_memory_free(memory, x->groups);
    orr_memory_free(memory, x->group_streams);
    orr_memory_free(memory, x->group_accesses);
    orr_memory_free(memory, (void *)x->members);
    orr_memory_free(memory, x->waits);
    orr_memory_free(memory, x->clocks);
    orr_memory_free(memory, x->step_clocks);
    orr_memory_free(memory, x->steps);
    orr_memory_free(memory, x->events);
    orr_memory_free(memory, x->accesses);
    orr_memory_free(memory, x->questions);
    orr_memory_free(memory, x->races);
    orr_memory_free(memory, x->race_plans);
    orr_memory_free(memory, x->race_table);
    orr__x_search_free(x);
    orr_memory_free(memory, x);
}

static void untimed_close(struct orr_backend *backend) {
    struct orr_untimed *x = orr__x_of(backend);
    orr__x_retire_all(x);
    free_everything(x);
}

static const struct orr_backend_verbs verbs = {
    .abi = ORR_BACKEND_ABI,
    .name = "explore",
    .clock = "virtual",
    .collective = "ring",
    .close = untimed_close,
    .memory_create = memory_create,
    .memory_destroy = memory_destroy,
    .memory_pointer = memory_pointer,
    .stream_create = orr__x_stream_create,
    .stream_destroy = stream_destroy,
    .submit = orr__x_submit,
    .submit_group = orr__x_submit_group,
    .query = orr__x_query,
    .wait = orr__x_wait,
    .poll = orr__x_poll,
    .now = orr__x_now,
    .fail_of = fail_of,
    .host_create = orr__x_host_create,
    .host_next = orr__x_host_next,
    .host_done = orr__x_host_done,
    .host_park = orr__x_host_park,
    .host_unpark = orr__x_host_unpark,
    .host_spend = orr__x_host_spend,
    .host_access = orr__x_host_access,
    .memory_undefine = memory_undefine,
    .memory_define = memory_define,
    .rewind = untimed_rewind,
    .host_concerns = orr__x_host_concerns,
};

enum orr_status orr_untimed_open(const struct orr_backend_config *config,
                                 struct orr_backend **out_backend, struct orr_error *error) {
    *out_backend = NULL;
    struct orr_untimed *x = orr_memory_alloc(config->memory, sizeof *x);
    if (!x) {
        return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
    }
    x->base.verbs = &verbs;
    x->memory = config->memory;
    x->retire = config->retire;
    x->timing_only = config->timing_only;
    x->search.options.strategy = ORR_UNTIMED_FOLLOW;
    if (orr_memory_grow(x->memory, &x->clocks, &x->clock_capacity, 1, sizeof *x->clocks,
                        ORR__X_CLOCKS) != ORR_OK) {
        free_everything(x);
        return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
    }
    restart(x);
    *out_backend = &x->base;
    return ORR_OK;
}

struct orr_untimed *orr_untimed_of(struct orr_backend *backend) {
    return backend->verbs == &verbs ? orr__x_of(backend) : NULL;
}

/* --- what happened --- */

bool orr_untimed_lost_memory(const struct orr_untimed *x) {
    return x->out_of_memory;
}

enum orr_untimed_outcome orr_untimed_end(struct orr_untimed *x) {
    if (!x->over) {
        orr__x_drain(x);
    }
    return x->over ? x->outcome : ORR_UNTIMED_COMPLETE;
}

const struct orr_untimed_step *orr_untimed_steps(const struct orr_untimed *x, uint32_t *out_count) {
    *out_count = x->step_count;
    return x->steps;
}

const struct orr_access *orr_untimed_accesses(const struct orr_untimed *x,
                                              const struct orr_untimed_step *step) {
    return &x->accesses[step->first_access];
}

enum orr_untimed_thing orr_untimed_thing_of(uint32_t memory) {
    return memory == ORR__X_OF_STREAMS    ? ORR_UNTIMED_STREAM
           : memory == ORR__X_OF_EVENTS   ? ORR_UNTIMED_EVENT
           : memory == ORR__X_OF_MEETINGS ? ORR_UNTIMED_MEETING
                                          : ORR_UNTIMED_MEMORY;
}

const struct orr_untimed_race *orr_untimed_races(const struct orr_untimed *x, uint32_t *out_count) {
    *out_count = (uint32_t)x->race_count;
    return x->races;
}

const uint8_t *orr_untimed_race_plan(const struct orr_untimed *x,
                                     const struct orr_untimed_race *race) {
    return &x->race_plans[race->first_plan];
}

uint64_t orr_untimed_reads(const struct orr_untimed *x) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x->host_count; i++) {
        sum += orr_splitmix_mix(x->hosts[i].reads ^ (i + 1) * ORR_SPLITMIX_STEP);
    }
    return sum;
}

static uint64_t take_in(uint64_t state, const unsigned char *bytes, uint64_t count) {
    for (; count >= 8; count -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        state = (state ^ word) * ORR_SPLITMIX_STEP;
        state ^= state >> 32;
    }
    for (; count > 0; count--, bytes++) {
        state = (state ^ *bytes) * ORR_SPLITMIX_STEP;
    }
    return state;
}

uint64_t orr_untimed_contents(const struct orr_untimed *x, uint32_t id, uint64_t offset,
                              uint64_t bytes) {
    const struct orr__memory *memory = &x->memories[id];
    uint64_t at = offset, end = offset + bytes, state = ORR_SPLITMIX_STEP;
    for (size_t i = 0; memory->pointer && i <= memory->undefined_count && at < end; i++) {
        bool last = i == memory->undefined_count;
        uint64_t lo = last ? end : memory->undefined[i].lo;
        uint64_t hi = last ? end : memory->undefined[i].hi;
        if (hi <= at && !last) {
            continue;
        }
        lo = lo < at ? at : lo > end ? end : lo;
        state = take_in(orr_splitmix_mix(state ^ (lo - offset)), memory->pointer + at, lo - at);
        at = hi < end ? hi : end;
    }
    return state;
}

static uint32_t stuck_hosts(const struct orr_untimed *x, struct orr_untimed_blocked *blocked,
                            uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->host_count && count < max; i++) {
        const struct orr__x_host *host = &x->hosts[i];
        if (host->state == ORR__X_DONE) {
            continue;
        }
        blocked[count] =
            (struct orr_untimed_blocked){.is_host = true, .id = i, .waits_for = ORR_ID_NONE};
        for (size_t k = host->point_count; host->state == ORR__X_BLOCKED && k-- > 0;) {
            if (!orr__x_retired(x, host->points[k])) {
                blocked[count].waits_for = host->points[k].stream;
                blocked[count].waits_seq = host->points[k].seq;
            }
        }
        count++;
    }
    return count;
}

uint32_t orr_untimed_stuck(const struct orr_untimed *x, struct orr_untimed_blocked *blocked,
                           uint32_t max) {
    uint32_t count = stuck_hosts(x, blocked, max);
    for (uint32_t i = 0; i < x->stream_count && count < max; i++) {
        const struct orr__x_stream *stream = &x->streams[i];
        if (stream->count == 0) {
            continue;
        }
        const struct orr__x_slot *head = &stream->slots[stream->head];
        blocked[count] = (struct orr_untimed_blocked){
            .id = i, .waits_for = stream->waits_for, .waits_seq = stream->waits_seq};
        if (head->command) {
            blocked[count].name = head->command->record.name;
            blocked[count].site = head->command->record.site;
        }
        count++;
    }
    return count;
}
