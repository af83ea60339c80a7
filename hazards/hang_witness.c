#include "hazards/hang_witness.h"

#include <assert.h>

#include "hazards/hang_explain.h"

struct witness {
    const struct orr__hang_model *searched; /* which knows the harmless locks */
    struct orr__hang_run run;               /* of all calls */
    uint32_t hosts;
};

/* Does the next step of a stream belong to those that go by themselves? */
static bool goes_by_itself(const struct witness *in, uint32_t stream) {
    const struct orr__hang_run *run = &in->run;
    const struct orr__hang_entry *entry = &run->model->entries[run->words[run->head + stream]];
    if (entry->kind == ORR__HANG_COMM)
        return run->words[run->progress + stream] > 0;
    if (entry->kind != ORR__HANG_BODY || !orr__hang_next_body(run, stream))
        return true;
    return !orr__hang_body_waits(in->searched, &run->model->program->ops[entry->op]);
}

static bool is_over(const struct witness *in) {
    return in->run.failed || in->run.mismatch_a != ORR_NONE;
}

/* Lets streams do what goes by itself. */
static void drain(struct witness *in) {
    struct orr__hang_run *run = &in->run;
    while (run->todo_count > 0 && !is_over(in)) {
        uint32_t process = run->todo[--run->todo_count];
        run->is_todo[process] = false;
        if (process < in->hosts || run->waiting_key[process] != ORR_NONE)
            continue;
        uint32_t stream = process - in->hosts;
        enum orr__hang_look look;
        while ((look = orr__hang_look(run, process)) == ORR__HANG_READY &&
               goes_by_itself(in, stream) && !is_over(in))
            orr__hang_step(run, process);
        if (look == ORR__HANG_WAITING)
            orr__hang_await(run, process);
    }
}

/* The host that holds the lock that the last look waited for, or ORR_NONE. */
static uint32_t holder(const struct witness *in) {
    const struct orr__hang_run *run = &in->run;
    uint32_t lock = run->key - run->model->stream_count; /* wraps for a stream's key */
    if (run->key < run->model->stream_count || lock >= run->model->lock_count)
        return ORR_NONE;
    uint32_t owner = run->words[run->lock + lock] - 1;
    return owner < in->hosts ? owner : ORR_NONE;
}

/* One call of a host. Where it waits for a harmless lock, its holder goes on first: all that is
 * left to do there are calls that the search left out. */
static bool call(struct witness *in, uint32_t host) {
    uint32_t caller = host;
    for (size_t tries = 0; tries <= in->run.model->call_count && !is_over(in); tries++) {
        drain(in);
        if (is_over(in))
            return true;
        enum orr__hang_look look = orr__hang_look(&in->run, caller);
        if (look == ORR__HANG_READY) {
            orr__hang_step(&in->run, caller);
            if (caller == host)
                return true;
            caller = host;
        } else {
            caller = look == ORR__HANG_WAITING ? holder(in) : ORR_NONE;
            if (caller == ORR_NONE)
                return false;
        }
    }
    return is_over(in);
}

static bool call_up_to(struct witness *in, uint32_t host, uint32_t op) {
    for (;;) {
        const struct orr__hang_call *next = orr__hang_next_call(&in->run, host);
        if (!next)
            return false;
        bool is_last = next->op == op;
        if (!call(in, host))
            return false;
        if (is_last || is_over(in))
            return true;
    }
}

/* The search's step of a stream. */
static bool step_stream(struct witness *in, const struct orr_hang_step *step) {
    struct orr__hang_run *run = &in->run;
    drain(in);
    if (is_over(in))
        return true;
    uint32_t head = run->words[run->head + step->who];
    if (head == ORR_NONE || run->model->entries[head].op != step->op ||
        orr__hang_look(run, in->hosts + step->who) != ORR__HANG_READY)
        return false;
    orr__hang_step(run, in->hosts + step->who);
    return true;
}

/* What hosts and streams can still do at the end, which is nothing that the search has seen. */
static void end(struct witness *in) {
    bool moved = true;
    while (moved && !is_over(in)) {
        moved = false;
        for (uint32_t host = 0; host < in->hosts; host++) {
            drain(in);
            while (!is_over(in) && orr__hang_look(&in->run, host) == ORR__HANG_READY) {
                orr__hang_step(&in->run, host);
                drain(in);
                moved = true;
            }
        }
    }
}

static bool follow(struct witness *in, const struct orr__hang_run *searched) {
    bool follows = true;
    for (size_t i = 0; follows && i < searched->step_count && !is_over(in); i++) {
        const struct orr_hang_step *step = &searched->steps[i];
        if (step->kind == ORR_HANG_CALL)
            follows = call_up_to(in, step->who, step->op);
        else if (step->kind != ORR_HANG_FINISH)
            follows = step_stream(in, step);
    }
    end(in);
    return follows;
}

enum orr_status orr__hang_witness(const struct orr__hang_run *searched,
                                  struct orr_hang_result *result) {
    struct orr__hang_model model;
    struct witness in = {.searched = searched->model, .hosts = searched->model->host_count};
    enum orr_status status = orr__hang_model_create(searched->model->program, true, &model);
    if (status == ORR_OK)
        status = orr__hang_run_create(&model, &in.run);
    if (status == ORR_OK) {
        bool follows = follow(&in, searched);
        if (in.run.failed)
            status = ORR_NO_MEMORY;
        else
            assert(follows &&
                   (in.run.mismatch_a != ORR_NONE) == (result->kind == ORR_CHECK_MISMATCH));
        (void)follows;
    }
    if (status == ORR_OK)
        status = orr__hang_explain(&in.run, result);
    orr__hang_run_destroy(&in.run);
    orr__hang_model_clear(&model);
    return status;
}
