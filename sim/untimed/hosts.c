/* Hosts: who goes on. A host acts until it observes something, or, where there are several, until
 * it touches what they share; from there on it wants a turn, which is a step like any other. */
#include "runtime/splitmix.h"
#include "sim/untimed/untimed_internal.h"

void orr__x_call_begin(struct orr__x_call *call, enum orr_untimed_kind kind) {
    call->kind = kind;
    call->command_kind = ORR_COMMAND_MARKER;
    call->name = call->site = 0;
    call->access_count = call->point_count = 0;
    call->asks_all = call->waits = false;
}

void orr__x_call_touch(struct orr_untimed *x, struct orr__x_call *call, uint32_t memory,
                       uint64_t offset, uint64_t bytes, uint32_t mode) {
    if (orr__x_reserve(x, &call->accesses, &call->access_capacity, call->access_count + 1,
                       sizeof *call->accesses, ORR__X_SLOTS) != ORR_OK) {
        return;
    }
    call->accesses[call->access_count++] =
        (struct orr_access){.memory = memory, .mode = mode, .offset = offset, .bytes = bytes};
}

/* --- who can go on --- */

/* Hosts whose wait is over run again. */
static void wake(struct orr_untimed *x) {
    for (uint64_t rest = x->blocked; rest; rest &= rest - 1) {
        uint32_t id = (uint32_t)__builtin_ctzll(rest);
        struct orr__x_host *host = &x->hosts[id];
        size_t open = 0;
        while (open < host->point_count && orr__x_retired(x, host->points[open])) {
            open++;
        }
        if (open == host->point_count) {
            host->state = ORR__X_RUNS;
            x->blocked &= ~ORR__X_BIT(id);
            x->running++;
        }
    }
}

/* Index of a point among those that a host has asked about in vain; asked_count if it is not
 * there. */
static uint32_t find_asked(const struct orr__x_host *host, struct orr_point point) {
    uint32_t at = 0;
    while (at < host->asked_count &&
           (host->asked[at].stream != point.stream || host->asked[at].seq != point.seq)) {
        at++;
    }
    return at;
}

/* A loop that polls would have an order for every number of its rounds: after some vain ones the
 * host waits instead. */
static bool waits_by_now(const struct orr__x_host *host, struct orr_point point) {
    uint32_t at = find_asked(host, point);
    return at < host->asked_count && host->vain[at] >= ORR__X_VAIN;
}

static void count_vain(struct orr__x_host *host, struct orr_point point) {
    uint32_t at = find_asked(host, point);
    if (at == ORR__X_ASKED) {
        return;
    }
    if (at == host->asked_count) {
        host->asked[at] = point;
        host->vain[at] = 0;
        host->asked_count++;
    }
    host->vain[at]++;
}

static uint64_t enabled_hosts(const struct orr_untimed *x) {
    uint64_t enabled = x->starters;
    for (uint64_t rest = x->starters; rest; rest &= rest - 1) {
        uint32_t process = (uint32_t)__builtin_ctzll(rest);
        const struct orr__x_call *call = &x->hosts[x->processes[process].index].call;
        if (call->waits && !orr__x_retired(x, call->points[0])) {
            enabled &= ~ORR__X_BIT(process);
        }
    }
    return enabled;
}

static void end(struct orr_untimed *x, enum orr_untimed_outcome outcome) {
    x->over = true;
    x->outcome = outcome;
}

static void grant(struct orr_untimed *x, uint32_t process) {
    uint32_t id = x->processes[process].index;
    struct orr__x_host *host = &x->hosts[id];
    host->state = ORR__X_RUNS;
    x->running++;
    x->starters &= ~ORR__X_BIT(process);
    x->granted = x->acted = id;
}

/* Steps until a host can go on: one that runs, or one that is granted its step. With none the
 * execution is over. */
static void schedule(struct orr_untimed *x) {
    while (!x->over) {
        if (x->blocked) {
            wake(x);
        }
        if (x->running > 0) {
            return;
        }
        uint64_t enabled = x->enabled | enabled_hosts(x);
        if (!enabled) {
            end(x, ORR_UNTIMED_HANG);
            return;
        }
        if (x->step_count == ORR__X_STEPS) {
            end(x, ORR_UNTIMED_TOO_LONG);
            return;
        }
        uint32_t process = orr__x_choose(x, enabled);
        if (process == ORR_ID_NONE) {
            end(x, x->over ? x->outcome : ORR_UNTIMED_ABANDONED);
            return;
        }
        orr__x_note(x, process);
        if (x->over) {
            return;
        }
        if (x->processes[process].is_host) {
            grant(x, process);
        } else {
            orr__x_execute(x, process);
            if (x->question_count > 0) {
                orr__x_answer(x);
            }
        }
    }
}

/* Whether this host goes on; if so it runs. */
static enum orr__x_turn is_mine(struct orr_untimed *x, uint32_t id) {
    if (x->over) {
        return ORR__X_OTHERS;
    }
    if (x->granted == id) {
        x->granted = ORR_ID_NONE;
        x->current = id;
        return ORR__X_MINE;
    }
    return ORR__X_OTHERS;
}

enum orr__x_turn orr__x_take_turn(struct orr_untimed *x, uint32_t id) {
    struct orr__x_host *host = &x->hosts[id];
    host->now_ns++;
    if (x->granted == id || x->over) {
        return is_mine(x, id);
    }
    assert(host->state == ORR__X_RUNS);
    host->state = ORR__X_WANTS;
    x->running--;
    x->starters |= ORR__X_BIT(host->process);
    schedule(x);
    return is_mine(x, id);
}

/* --- calls --- */

enum orr_status orr__x_query(struct orr_backend *backend, uint32_t id, struct orr_point point) {
    struct orr_untimed *x = orr__x_of(backend);
    struct orr__x_host *host = &x->hosts[id];
    struct orr__x_call *call = &host->call;
    if (x->over) {
        return ORR_BLOCKED;
    }
    orr__x_call_begin(call, ORR_UNTIMED_HOST_ASKS);
    if (orr__x_reserve(x, &call->points, &call->point_capacity, 1, sizeof *call->points,
                       ORR__X_SLOTS) != ORR_OK) {
        return ORR_NO_MEMORY;
    }
    if (point.seq > 0) {
        call->points[call->point_count++] = point;
        call->waits = waits_by_now(host, point);
    }
    if (x->multi) {
        orr__x_call_touch(x, call, ORR__X_OF_STREAMS, point.stream, 1, ORR_ACCESS_READ);
    }
    if (orr__x_take_turn(x, id) != ORR__X_MINE) {
        return ORR_BLOCKED;
    }
    if (orr__x_retired(x, point)) {
        if (point.seq > 0) {
            uint32_t clock = x->streams[point.stream].retireds[point.seq - 1].clock;
            host->clock = orr__x_clock_join(x, host->clock, clock);
        }
        return ORR_OK;
    }
    count_vain(host, point);
    return ORR_NOT_READY;
}

/* What a wait is for is decided when it is called, though it may be called again. */
static bool capture(struct orr_untimed *x, struct orr__x_host *host, const struct orr_point *points,
                    uint32_t count) {
    if (orr__x_reserve(x, &host->points, &host->point_capacity, count, sizeof *host->points,
                       ORR__X_SLOTS) != ORR_OK) {
        return false;
    }
    host->point_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (points[i].seq > 0) {
            host->points[host->point_count++] = points[i];
        }
    }
    host->captured = true;
    return true;
}

/* With several hosts, which commands a wait is for depends on who has enqueued before. */
static enum orr__x_turn turn_to_wait(struct orr_untimed *x, uint32_t id,
                                     const struct orr_point *points, uint32_t count) {
    if (!x->multi) {
        return ORR__X_MINE;
    }
    struct orr__x_call *call = &x->hosts[id].call;
    orr__x_call_begin(call, ORR_UNTIMED_HOST_CALL);
    for (uint32_t i = 0; i < count; i++) {
        orr__x_call_touch(x, call, ORR__X_OF_STREAMS, points[i].stream, 1, ORR_ACCESS_READ);
    }
    return orr__x_take_turn(x, id);
}

static enum orr_status finish_wait(struct orr_untimed *x, struct orr__x_host *host) {
    for (size_t i = 0; i < host->point_count; i++) {
        struct orr_point point = host->points[i];
        uint32_t clock = x->streams[point.stream].retireds[point.seq - 1].clock;
        host->clock = orr__x_clock_join(x, host->clock, clock);
    }
    host->captured = false;
    host->now_ns++;
    return ORR_OK;
}

/* The first that has retired ends a wait for any: a question about each, asked until one answer is
 * yes. */
static enum orr_status wait_any(struct orr_untimed *x, uint32_t id, const struct orr_point *points,
                                uint32_t count) {
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            enum orr_status status = orr__x_query(&x->base, id, points[i]);
            if (status != ORR_NOT_READY) {
                return status;
            }
        }
    }
}

enum orr_status orr__x_wait(struct orr_backend *backend, uint32_t id,
                            const struct orr_point *points, uint32_t count, enum orr_wait_mode mode,
                            int64_t deadline_ns, struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    struct orr__x_host *host = &x->hosts[id];
    (void)deadline_ns; /* without time nothing is late */
    if (x->over) {
        return ORR_BLOCKED;
    }
    if (mode == ORR_WAIT_ANY && count > 1) {
        return wait_any(x, id, points, count);
    }
    if (!host->captured) {
        if (turn_to_wait(x, id, points, count) != ORR__X_MINE) {
            return ORR_BLOCKED;
        }
        if (!capture(x, host, points, count)) {
            return orr_error_set(error, ORR_NO_MEMORY, "explore: out of host memory");
        }
    }
    size_t open = 0;
    while (open < host->point_count && orr__x_retired(x, host->points[open])) {
        open++;
    }
    if (open == host->point_count) {
        return finish_wait(x, host);
    }
    host->state = ORR__X_BLOCKED;
    x->running--;
    x->blocked |= ORR__X_BIT(id);
    schedule(x);
    if (x->over || host->state != ORR__X_RUNS || x->granted != ORR_ID_NONE) {
        return ORR_BLOCKED;
    }
    x->current = id;
    return finish_wait(x, host);
}

/* Asks what has retired of everything. Only where there is something that has not. */
void orr__x_poll(struct orr_backend *backend) {
    struct orr_untimed *x = orr__x_of(backend);
    struct orr__x_host *host = &x->hosts[x->current];
    if (x->over || x->multi || !x->enabled || host->state != ORR__X_RUNS) {
        return;
    }
    orr__x_call_begin(&host->call, ORR_UNTIMED_HOST_ASKS);
    host->call.asks_all = true;
    (void)orr__x_take_turn(x, x->current);
    for (uint32_t i = 0; i < x->stream_count; i++) {
        host->clock = orr__x_clock_join(x, host->clock, x->streams[i].clock);
    }
}

int64_t orr__x_now(struct orr_backend *backend, uint32_t id) {
    return orr__x_of(backend)->hosts[id].now_ns;
}

void orr__x_host_spend(struct orr_backend *backend, uint32_t id, int64_t ns) {
    (void)ns;
    orr__x_of(backend)->hosts[id].now_ns++;
}

/* --- host memory --- */

static uint64_t digest(uint64_t before, const unsigned char *bytes, uint64_t count) {
    uint64_t state = before;
    for (; count >= 8; count -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        state = orr_splitmix_mix(state ^ word);
    }
    if (count > 0) {
        uint64_t word = 0;
        memcpy(&word, bytes, count);
        state = orr_splitmix_mix(state ^ word);
    }
    return state;
}

static void note_read(struct orr_untimed *x, struct orr__x_host *host,
                      const struct orr_command *command, bool undefined) {
    host->reads = orr_splitmix_mix(host->reads + 1);
    for (uint32_t i = 0; !undefined && i < command->access_count; i++) {
        const struct orr_access *access = &command->accesses[i];
        const unsigned char *bytes = x->memories[access->memory].pointer;
        host->reads = digest(host->reads, bytes + access->offset, access->bytes);
    }
}

static enum orr_status act_on_memory(struct orr_untimed *x, struct orr__x_host *host,
                                     const struct orr_command *command, struct orr_error *error,
                                     bool *out_undefined) {
    *out_undefined = false;
    if (x->timing_only) {
        return ORR_OK;
    }
    *out_undefined = orr__x_reads_undefined(x, command->accesses, command->access_count);
    enum orr_status status =
        command->run && !*out_undefined ? command->run(command, error) : ORR_OK;
    if (command->record.header.a == ORR_COMMAND_HOSTREAD) {
        note_read(x, host, command, *out_undefined);
    }
    if (orr__writes_settle(x->memories, x->memory, command, false) != ORR_OK) {
        x->out_of_memory = true;
    }
    return status;
}

enum orr_status orr__x_host_access(struct orr_backend *backend, const struct orr_command *command,
                                   struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    uint32_t id = command->record.host;
    struct orr__x_host *host = &x->hosts[id];
    struct orr__x_call *call = &host->call;
    if (x->over) {
        return ORR_BLOCKED;
    }
    orr__x_call_begin(call, ORR_UNTIMED_HOST_ACCESS);
    call->command_kind = (enum orr_command_kind)command->record.header.a;
    call->name = command->record.name;
    call->site = command->record.site;
    for (uint32_t i = 0; i < command->access_count; i++) {
        const struct orr_access *access = &command->accesses[i];
        orr__x_call_touch(x, call, access->memory, access->offset, access->bytes, access->mode);
    }
    if (orr__x_take_turn(x, id) != ORR__X_MINE) {
        return ORR_BLOCKED;
    }
    struct orr_command *own = command->in_place;
    assert(own);
    bool undefined;
    own->record.enqueue_ns = own->record.ready_ns = own->record.start_ns = host->now_ns;
    own->record.enqueued_ns = own->record.finish_ns = host->now_ns;
    enum orr_status status = act_on_memory(x, host, own, error, &undefined);
    x->steps[x->step_count - 1].undefined = undefined;
    x->steps[x->step_count - 1].digest = host->reads;
    own->record.header.c = (uint8_t)(status != ORR_OK ? ORR_COMMAND_STATUS_FAILED
                                     : undefined      ? ORR_COMMAND_STATUS_POISONED
                                                      : ORR_COMMAND_STATUS_OK);
    host->commands++;
    x->retire.retired(x->retire.context, own, status != ORR_OK ? error : NULL);
    return status;
}

/* --- several hosts --- */

static void start_host(struct orr_untimed *x, uint32_t id, uint32_t process, uint32_t clock) {
    struct orr__x_host *host = &x->hosts[id];
    struct orr__x_call call = host->call;
    struct orr_point *points = host->points;
    size_t capacity = host->point_capacity;
    *host = (struct orr__x_host){.state = ORR__X_RUNS,
                                 .process = process,
                                 .clock = clock,
                                 .call = call,
                                 .points = points,
                                 .point_capacity = capacity};
    x->running++;
    x->live_count++;
}

/* A host begins with what who makes it knows; if all others have ended, with what they knew. */
enum orr_status orr__x_host_create(struct orr_backend *backend, uint32_t *out_host) {
    struct orr_untimed *x = orr__x_of(backend);
    *out_host = ORR_ID_NONE;
    uint32_t process = orr__x_process_new(x, true, x->host_count);
    if (process == ORR_ID_NONE) {
        return ORR_UNSUPPORTED;
    }
    uint32_t clock = x->host_count > 0 ? x->hosts[x->current].clock : 0;
    for (uint32_t i = 0; x->live_count == 0 && i < x->host_count; i++) {
        clock = orr__x_clock_join(x, clock, x->hosts[i].clock);
    }
    x->multi = x->host_count > 0;
    start_host(x, x->host_count, process, clock);
    *out_host = x->host_count++;
    return ORR_OK;
}

/* The host that goes on: granted its step, or the first that runs. */
static uint32_t next_running(const struct orr_untimed *x) {
    if (x->granted != ORR_ID_NONE) {
        return x->granted;
    }
    for (uint32_t i = 0; i < x->host_count; i++) {
        if (x->hosts[i].state == ORR__X_RUNS) {
            return i;
        }
    }
    return ORR_ID_NONE;
}

/* As runtime/backend.h says, and the answer to a host that asks whether it is its turn. */
enum orr_status orr__x_host_next(struct orr_backend *backend, uint32_t *out_host,
                                 struct orr_error *error) {
    struct orr_untimed *x = orr__x_of(backend);
    uint32_t asking = x->asking;
    x->asking = ORR_ID_NONE;
    if (asking != ORR_ID_NONE) {
        bool mine = !x->over && (!x->multi || orr__x_take_turn(x, asking) == ORR__X_MINE);
        *out_host = mine ? asking : ORR_ID_NONE;
        return ORR_OK;
    }
    if (!x->over && x->live_count == 0) {
        return ORR_NOT_READY;
    }
    schedule(x);
    *out_host = x->over ? ORR_ID_NONE : next_running(x);
    if (*out_host == ORR_ID_NONE) {
        return orr_error_set(error, ORR_DEVICE_FAILED, "the execution is over");
    }
    if (x->granted == ORR_ID_NONE) {
        x->current = *out_host;
    }
    return ORR_OK;
}

void orr__x_host_concerns(struct orr_backend *backend, uint32_t id, uint64_t thing) {
    struct orr_untimed *x = orr__x_of(backend);
    struct orr__x_call *call = &x->hosts[id].call;
    x->asking = id;
    if (x->multi && !x->over) {
        orr__x_call_begin(call, ORR_UNTIMED_HOST_CALL);
        orr__x_call_touch(x, call, ORR__X_OF_MEETINGS, thing, 1, ORR_ACCESS_WRITE);
    }
}

void orr__x_host_done(struct orr_backend *backend, uint32_t id) {
    struct orr_untimed *x = orr__x_of(backend);
    if (x->hosts[id].state == ORR__X_RUNS) {
        x->running--;
    }
    x->hosts[id].state = ORR__X_DONE;
    x->live_count--;
}

void orr__x_host_park(struct orr_backend *backend, uint32_t id) {
    struct orr_untimed *x = orr__x_of(backend);
    struct orr__x_host *host = &x->hosts[id];
    assert(host->state == ORR__X_RUNS);
    host->state = ORR__X_PARKED;
    x->running--;
    const struct orr_untimed_step *last = x->step_count ? &x->steps[x->step_count - 1] : NULL;
    if (x->over || !last || last->kind != ORR_UNTIMED_HOST_CALL || last->process != host->process) {
        return;
    }
    orr__x_take_back(x);
    if (!orr__x_choice_was_vain(x)) {
        end(x, ORR_UNTIMED_ABANDONED);
    }
}

void orr__x_host_unpark(struct orr_backend *backend, uint32_t id, uint32_t by) {
    struct orr_untimed *x = orr__x_of(backend);
    assert(x->hosts[id].state == ORR__X_PARKED);
    x->hosts[id].state = ORR__X_RUNS;
    x->hosts[id].clock = orr__x_clock_join(x, x->hosts[id].clock, x->hosts[by].clock);
    x->running++;
}

void orr__x_drain(struct orr_untimed *x) {
    while (!x->over && x->enabled && x->step_count < ORR__X_STEPS) {
        uint32_t process = orr__x_choose(x, x->enabled);
        if (process == ORR_ID_NONE) {
            end(x, x->over ? x->outcome : ORR_UNTIMED_ABANDONED);
            return;
        }
        orr__x_note(x, process);
        if (!x->over) {
            orr__x_execute(x, process);
        }
    }
}
