/* What came before what: every step gets a clock when it is noted.
 *
 *     stream's clock --.                        latest first, each step that the new one depends
 *     host's, when it  +--> the step's clock <- on and does not come after yet: these two have
 *     was enqueued  --'     (what comes before  raced, and what comes before the older one comes
 *                            in any case)       before the new one too */
#include "runtime/splitmix.h"
#include "sim/untimed/untimed_internal.h"

enum orr_status orr__x_reserve(struct orr_untimed *x, void *items, size_t *capacity, size_t needed,
                               size_t size, size_t max) {
    if (needed <= *capacity) {
        return ORR_OK;
    }
    enum orr_status status = orr_memory_grow(x->memory, items, capacity, needed, size, max);
    if (status != ORR_OK) {
        x->out_of_memory = true;
        x->over = true;
        x->outcome = ORR_UNTIMED_TOO_LONG;
    }
    return status;
}

/* --- clocks --- */

/* Index of a clock whose content is whatever was there; 0, the clock of nothing, without memory. */
static uint32_t new_clock(struct orr_untimed *x) {
    if (orr__x_reserve(x, &x->clocks, &x->clock_capacity, x->clock_count + 1, sizeof *x->clocks,
                       ORR__X_CLOCKS) != ORR_OK) {
        return 0;
    }
    return (uint32_t)x->clock_count++;
}

static void join(struct orr__x_clock *clock, const struct orr__x_clock *other, uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++) {
        clock->at[i] = clock->at[i] > other->at[i] ? clock->at[i] : other->at[i];
    }
}

static bool is_within(const struct orr__x_clock *clock, const struct orr__x_clock *other,
                      uint32_t lanes) {
    bool within = true;
    for (uint32_t i = 0; i < lanes; i++) {
        within &= clock->at[i] <= other->at[i];
    }
    return within;
}

static void copy_clock(struct orr_untimed *x, uint32_t to, uint32_t from) {
    *orr__x_clock_at(x, to) = *orr__x_clock_at(x, from); /* all lanes: processes may appear later */
}

uint32_t orr__x_clock_join(struct orr_untimed *x, uint32_t a, uint32_t b) {
    if (a == b || b == 0 || is_within(orr__x_clock_at(x, b), orr__x_clock_at(x, a), x->lanes)) {
        return a;
    }
    if (a == 0 || is_within(orr__x_clock_at(x, a), orr__x_clock_at(x, b), x->lanes)) {
        return b;
    }
    uint32_t clock = new_clock(x);
    if (clock != 0) {
        copy_clock(x, clock, a);
        join(orr__x_clock_at(x, clock), orr__x_clock_at(x, b), x->lanes);
    }
    return clock;
}

/* --- moves --- */

struct orr__x_move orr__x_next_move(struct orr_untimed *x, uint32_t process) {
    uint32_t index = x->processes[process].index;
    if (x->processes[process].is_host) {
        const struct orr__x_call *call = &x->hosts[index].call;
        return (struct orr__x_move){.accesses = call->accesses,
                                    .access_count = call->access_count,
                                    .points = call->points,
                                    .point_count = call->point_count,
                                    .asks_all = call->asks_all};
    }
    const struct orr__x_slot *head = orr__x_head(&x->streams[index]);
    struct orr__x_move move = {.is_command = true, .stream = index};
    if (head->group) {
        const struct orr__x_group *group = &x->groups[head->group - 1];
        move.accesses = &x->group_accesses[group->first_access];
        move.access_count = group->access_count;
    } else if (head->command) {
        move.accesses = head->command->accesses;
        move.access_count = head->command->access_count;
    } else {
        move.accesses = &head->undefines;
        move.access_count = 1;
    }
    return move;
}

static bool overlap(const struct orr_access *a, size_t a_count, const struct orr_access *b,
                    size_t b_count) {
    for (size_t i = 0; i < a_count; i++) {
        for (size_t k = 0; k < b_count; k++) {
            if (orr__x_overlap(&a[i], &b[k])) {
                return true;
            }
        }
    }
    return false;
}

/* Whether a command decides the answer to a question. */
static bool answers(const struct orr_untimed *x, const struct orr__x_move *command,
                    const struct orr__x_move *question) {
    if (!command->is_command) {
        return false;
    }
    if (question->asks_all) {
        return true;
    }
    for (size_t i = 0; i < question->point_count; i++) {
        if (!orr__x_retired(x, question->points[i]) &&
            orr__x_would_retire(x, command->stream, question->points[i])) {
            return true;
        }
    }
    return false;
}

bool orr__x_dependent(const struct orr_untimed *x, const struct orr__x_move *a,
                      const struct orr__x_move *b) {
    return overlap(a->accesses, a->access_count, b->accesses, b->access_count) ||
           answers(x, a, b) || answers(x, b, a);
}

/* --- noting a step --- */

static uint64_t signature_of(const struct orr_access *accesses, size_t count) {
    uint64_t signature = 0;
    for (size_t i = 0; i < count; i++) {
        signature |= ORR__X_BIT(accesses[i].memory & 63);
    }
    return signature;
}

static void describe_command(const struct orr_untimed *x, const struct orr__x_slot *head,
                             uint32_t id, struct orr_untimed_step *step) {
    step->id = head->id;
    step->stream = id;
    step->device = x->streams[id].device;
    if (!head->command) {
        step->kind = ORR_UNTIMED_REUSE;
        step->command_kind = ORR_COMMAND_ALLOC;
        step->host = (uint32_t)(head->id >> 32);
        return;
    }
    const struct orr_record_command *record = &head->command->record;
    step->kind = ORR_UNTIMED_COMMAND;
    step->command_kind = record->header.a;
    step->host = record->host;
    step->name = record->name;
    step->site = record->site;
}

static void describe(const struct orr_untimed *x, uint32_t process, struct orr_untimed_step *step) {
    uint32_t index = x->processes[process].index;
    *step = (struct orr_untimed_step){.process = (uint8_t)process,
                                      .device = ORR_ID_NONE,
                                      .stream = ORR_ID_NONE,
                                      .first_access = (uint32_t)x->access_count};
    if (!x->processes[process].is_host) {
        const struct orr__x_stream *stream = &x->streams[index];
        describe_command(x, &stream->slots[stream->head], index, step);
        return;
    }
    const struct orr__x_host *host = &x->hosts[index];
    step->id = (uint64_t)index << 32 | host->commands;
    step->kind = (uint8_t)host->call.kind;
    step->command_kind = (uint8_t)host->call.command_kind;
    step->host = index;
    step->name = host->call.name;
    step->site = host->call.site;
}

/* What comes before the next step of a process whatever it touches. */
static uint32_t base_clock(struct orr_untimed *x, uint32_t process) {
    uint32_t index = x->processes[process].index;
    if (x->processes[process].is_host) {
        const struct orr__x_host *host = &x->hosts[index];
        if (!host->call.waits) {
            return host->clock;
        }
        struct orr_point point = host->call.points[0];
        return orr__x_clock_join(x, host->clock,
                                 x->streams[point.stream].retireds[point.seq - 1].clock);
    }
    const struct orr__x_slot *head = orr__x_head(&x->streams[index]);
    uint32_t clock = x->streams[index].clock;
    if (head->group) {
        const struct orr__x_group group = x->groups[head->group - 1];
        for (uint32_t i = 0; i < group.count; i++) {
            uint32_t member = x->group_streams[group.first + i];
            clock = orr__x_clock_join(x, clock, x->streams[member].clock);
        }
    }
    return clock;
}

static void ask(struct orr_untimed *x, uint32_t number, const struct orr__x_move *move) {
    for (size_t i = 0; i < move->point_count; i++) {
        struct orr_point point = move->points[i];
        if (orr__x_retired(x, point)) {
            x->events[number].answer += i + 1;
            x->steps[number].answered = true;
            uint32_t cause = x->streams[point.stream].retireds[point.seq - 1].cause;
            if (cause > 0) {
                x->events[cause - 1].marked_by = number;
            }
        } else if (orr__x_reserve(x, &x->questions, &x->question_capacity, x->question_count + 1,
                                  sizeof *x->questions, ORR__X_SLOTS) == ORR_OK) {
            x->questions[x->question_count++] =
                (struct orr__x_open_question){.event = number, .point = point};
        }
    }
}

/* Marks earlier steps that the new one depends on for another reason than ranges. */
static void mark(struct orr_untimed *x, uint32_t number, const struct orr__x_move *move) {
    if (!move->is_command) {
        ask(x, number, move);
        return;
    }
    for (size_t i = 0; i < x->question_count; i++) {
        if (orr__x_would_retire(x, move->stream, x->questions[i].point)) {
            x->events[x->questions[i].event].marked_by = number;
        }
    }
}

void orr__x_answer(struct orr_untimed *x) {
    size_t kept = 0;
    for (size_t i = 0; i < x->question_count; i++) {
        if (!orr__x_retired(x, x->questions[i].point)) {
            x->questions[kept++] = x->questions[i];
        }
    }
    x->question_count = kept;
}

static bool touch(const struct orr_untimed *x, uint32_t a, uint32_t b) {
    if (!(x->events[a].signature & x->events[b].signature)) {
        return false;
    }
    const struct orr_untimed_step *of_a = &x->steps[a], *of_b = &x->steps[b];
    return overlap(&x->accesses[of_a->first_access], of_a->access_count,
                   &x->accesses[of_b->first_access], of_b->access_count);
}

static bool depends(const struct orr_untimed *x, uint32_t early, uint32_t late) {
    const struct orr__x_event *a = &x->events[early], *b = &x->events[late];
    if (a->marked_by == late || (a->asks_all && b->is_command) || (b->asks_all && a->is_command)) {
        return true;
    }
    return touch(x, early, late);
}

/* Completes the clock of the new step by what it depends on, and tells the search of races. */
static void order(struct orr_untimed *x, uint32_t number) {
    for (uint32_t early = number; early-- > 0;) {
        const struct orr__x_event *event = &x->events[early];
        struct orr__x_clock *clock = orr__x_clock_at(x, x->events[number].clock);
        if (clock->at[x->steps[early].process] >= event->ordinal || !depends(x, early, number)) {
            continue;
        }
        orr__x_raced(x, early, number);
        join(clock, orr__x_clock_at(x, event->clock), x->lanes);
    }
}

void orr__x_note(struct orr_untimed *x, uint32_t process) {
    uint32_t number = x->step_count;
    struct orr__x_move move = orr__x_next_move(x, process);
    if (orr__x_reserve(x, &x->steps, &x->step_capacity, number + 1, sizeof *x->steps,
                       ORR__X_STEPS) != ORR_OK ||
        orr__x_reserve(x, &x->events, &x->event_capacity, number + 1, sizeof *x->events,
                       ORR__X_STEPS) != ORR_OK ||
        orr__x_reserve(x, &x->step_clocks, &x->step_clock_capacity, number + 1,
                       sizeof *x->step_clocks, ORR__X_STEPS) != ORR_OK ||
        orr__x_reserve(x, &x->accesses, &x->access_capacity, x->access_count + move.access_count,
                       sizeof *x->accesses, ORR__X_SLOTS) != ORR_OK) {
        return;
    }
    struct orr_untimed_step *step = &x->steps[number];
    describe(x, process, step);
    for (size_t i = 0; i < move.access_count; i++) {
        x->accesses[x->access_count++] = move.accesses[i];
    }
    step->access_count = (uint32_t)move.access_count;
    uint32_t base = base_clock(x, process);
    uint32_t clock = number | ORR__X_OF_STEP;
    uint16_t ordinal = ++x->processes[process].steps;
    bool repeats = number + 1 < x->search.replay;
    x->events[number] =
        (struct orr__x_event){.signature = signature_of(move.accesses, move.access_count),
                              .clock = clock,
                              .before = base,
                              .ordinal = ordinal,
                              .marked_by = ORR_ID_NONE,
                              .asks_all = move.asks_all,
                              .is_command = move.is_command};
    x->step_count++;
    if (move.point_count > 0 || x->question_count > 0) {
        mark(x, number, &move);
    }
    if (!repeats) { /* else its clock is still there */
        copy_clock(x, clock, base);
        orr__x_clock_at(x, clock)->at[process] = ordinal;
        order(x, number);
    }
    if (x->processes[process].is_host) {
        x->hosts[x->processes[process].index].clock = clock;
    }
}

void orr__x_take_back(struct orr_untimed *x) {
    const struct orr_untimed_step *step = &x->steps[--x->step_count];
    struct orr__x_process *process = &x->processes[step->process];
    assert(process->is_host);
    process->steps--;
    x->access_count = step->first_access;
    x->hosts[process->index].clock = x->events[x->step_count].before;
}

/* --- what others see --- */

/* A step among those of its process. */
static uint64_t name_of(const struct orr_untimed *x, uint32_t number) {
    uint64_t process = x->steps[number].process;
    return orr_splitmix_mix(process << 32 | x->events[number].ordinal);
}

/* Which steps there were, the order of those that touch the same, and the answers. */
uint64_t orr_untimed_order(const struct orr_untimed *x) {
    uint64_t sum = 0;
    for (uint32_t b = 0; b < x->step_count; b++) {
        uint64_t name = name_of(x, b);
        sum += orr_splitmix_mix(name + x->events[b].answer);
        for (uint32_t a = 0; a < b; a++) {
            if (touch(x, a, b)) {
                sum += orr_splitmix_mix(name ^ (name_of(x, a) + ORR_SPLITMIX_STEP));
            }
        }
    }
    return sum;
}
