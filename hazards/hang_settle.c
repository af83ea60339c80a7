#include "hazards/hang_settle.h"

#include "hazards/hang_rivals.h"

static void set_pending(struct orr__hang_settling *in, uint32_t process) {
    if (in->is_pending[process])
        return;
    in->is_pending[process] = true;
    in->pending[in->pending_count++] = process;
}

static bool is_over(const struct orr__hang_settling *in) {
    return in->run.failed || in->run.mismatch_a != ORR_NONE;
}

static void go_on(struct orr__hang_settling *in, uint32_t process) {
    struct orr__hang_run *run = &in->run;
    while (!is_over(in)) {
        switch (orr__hang_look(run, process)) {
        case ORR__HANG_OVER: return;
        case ORR__HANG_WAITING: orr__hang_await(run, process); return;
        case ORR__HANG_READY: break;
        }
        if (!orr__hang_goes_alone(run, process)) {
            set_pending(in, process);
            return;
        }
        orr__hang_step(run, process);
    }
}

/* Looks again at those that did not go alone: others may have gone out of their way, or taken what
 * they want. True if one could go. */
static bool look_at_pending(struct orr__hang_settling *in) {
    bool moved = false;
    uint32_t count = in->pending_count;
    in->pending_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t process = in->pending[i];
        in->is_pending[process] = false;
        enum orr__hang_look look = orr__hang_look(&in->run, process);
        if (look == ORR__HANG_WAITING) {
            orr__hang_await(&in->run, process);
        } else if (look == ORR__HANG_READY && orr__hang_goes_alone(&in->run, process)) {
            orr__hang_wake(&in->run, process);
            moved = true;
        } else if (look == ORR__HANG_READY) {
            set_pending(in, process);
        }
    }
    return moved;
}

void orr__hang_settle(struct orr__hang_settling *in) {
    struct orr__hang_run *run = &in->run;
    do {
        while (run->todo_count > 0 && !is_over(in)) {
            uint32_t process = run->todo[--run->todo_count];
            run->is_todo[process] = false;
            if (run->waiting_key[process] == ORR_NONE && !in->is_pending[process])
                go_on(in, process);
        }
    } while (!is_over(in) && look_at_pending(in));
}

void orr__hang_settle_step(struct orr__hang_settling *in, uint32_t process) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < in->pending_count; i++)
        if (in->pending[i] != process)
            in->pending[kept++] = in->pending[i];
    in->pending_count = kept;
    in->is_pending[process] = false;
    orr__hang_step(&in->run, process);
}

void orr__hang_settle_undo(struct orr__hang_settling *in, size_t log_count, size_t step_count) {
    for (uint32_t i = 0; i < in->pending_count; i++)
        in->is_pending[in->pending[i]] = false;
    in->pending_count = 0;
    orr__hang_undo(&in->run, log_count, step_count);
}

bool orr__hang_is_stuck(const struct orr__hang_run *run) {
    const struct orr__hang_model *model = run->model;
    for (uint32_t h = 0; h < model->host_count; h++)
        if (run->words[run->pc + h] < model->hosts[h].call_count)
            return true;
    for (uint32_t s = 0; s < model->stream_count; s++)
        if (run->words[run->count + s] > 0)
            return true;
    return false;
}

enum orr_status orr__hang_settle_create(const struct orr__hang_model *model,
                                        struct orr__hang_settling *out_settling) {
    const struct orr_memory *memory = model->program->memory;
    size_t processes = (size_t)model->host_count + model->stream_count;
    *out_settling = (struct orr__hang_settling){.run = {.model = model}};
    out_settling->pending = orr_memory_alloc(memory, processes * sizeof *out_settling->pending);
    out_settling->is_pending =
        orr_memory_alloc(memory, processes * sizeof *out_settling->is_pending);
    if (!out_settling->pending || !out_settling->is_pending)
        return ORR_NO_MEMORY;
    return orr__hang_run_create(model, &out_settling->run);
}

void orr__hang_settle_destroy(struct orr__hang_settling *settling) {
    if (!settling->run.model)
        return;
    const struct orr_memory *memory = settling->run.model->program->memory;
    orr_memory_free(memory, settling->pending);
    orr_memory_free(memory, settling->is_pending);
    orr__hang_run_destroy(&settling->run);
    *settling = (struct orr__hang_settling){0};
}
