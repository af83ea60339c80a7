#include <assert.h>
#include <string.h>

#include "hazards/hang_rivals.h"
#include "hazards/hang_seen.h"
#include "hazards/hang_witness.h"

/* A state in which something competes, and which of it is tried. */
struct frame {
    size_t log_count, step_count;
    size_t choice_first, choice_count, choice_next; /* in `choices`: processes */
};

struct search {
    const struct orr__hang_model *model;
    const struct orr_memory *memory;
    struct orr__hang_run run;
    struct orr__hang_seen seen;
    struct orr_hang_result *result;
    uint64_t states_max;
    /* Processes that are ready but do not go alone. */
    uint32_t *pending;
    uint32_t pending_count;
    bool *is_pending;
    struct frame *frames;
    size_t frame_count, frame_capacity;
    uint32_t *choices;
    size_t choice_count, choice_capacity;
    /* A set of processes that grows until nobody outside is in the way of anybody inside. */
    uint32_t *set, *best;
    uint32_t set_count, best_count;
    uint32_t *in_set, epoch; /* in_set[p] == epoch: p is in it */
};

/* --- steps that go alone --- */

static void set_pending(struct search *in, uint32_t process) {
    if (in->is_pending[process])
        return;
    in->is_pending[process] = true;
    in->pending[in->pending_count++] = process;
}

static bool is_over(const struct search *in) {
    return in->run.failed || in->run.mismatch_a != ORR_NONE;
}

static void go_on(struct search *in, uint32_t process) {
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
static bool look_at_pending(struct search *in) {
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

/* Makes every step that goes alone. */
static void settle(struct search *in) {
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

/* --- which of the others to try --- */

static bool add_to_set(void *context, uint32_t process) {
    struct search *in = context;
    if (in->in_set[process] == in->epoch)
        return true;
    in->in_set[process] = in->epoch;
    in->set[in->set_count++] = process;
    return true;
}

/* The set that `seed` needs. Its ready processes are moved to its beginning; returns their number,
 * or `limit` if there are at least so many. */
static uint32_t close_set(struct search *in, uint32_t seed, uint32_t limit) {
    uint32_t ready = 0;
    in->epoch++;
    in->set_count = 0;
    add_to_set(in, seed);
    for (uint32_t i = 0; i < in->set_count; i++) {
        uint32_t process = in->set[i];
        if (orr__hang_look(&in->run, process) != ORR__HANG_READY) {
            orr__hang_needed(&in->run, process, add_to_set, in);
            continue;
        }
        in->set[i] = in->set[ready];
        in->set[ready++] = process;
        if (ready >= limit)
            return limit;
        orr__hang_rivals(&in->run, process, add_to_set, in);
    }
    return ready;
}

/* The smallest set there is, by any beginning. */
static void choose(struct search *in) {
    in->best_count = in->pending_count + 1;
    for (uint32_t i = 0; i < in->pending_count && in->best_count > 1; i++) {
        uint32_t ready = close_set(in, in->pending[i], in->best_count);
        if (ready >= in->best_count)
            continue;
        in->best_count = ready;
        memcpy(in->best, in->set, ready * sizeof *in->best);
    }
    assert(in->best_count >= 1 && in->best_count <= in->pending_count);
}

/* --- states --- */

static void mix_list(const struct orr__hang_run *run, struct orr__hang_hash *hash, uint32_t list) {
    uint64_t count = 0;
    for (uint32_t i = 1; list != ORR_NONE && i <= run->lists[list]; i++) {
        uint32_t entry = run->lists[list + i];
        if (run->words[run->status + entry] == ORR__HANG_FINISHED)
            continue;
        orr__hang_mix(hash, entry);
        count++;
    }
    orr__hang_mix(hash, count << 1 | (list != ORR_NONE));
}

/* Everything in the stream, with what it waits for; without what finishes by itself. */
static void mix_stream(const struct orr__hang_run *run, struct orr__hang_hash *hash,
                       uint32_t stream) {
    uint32_t entry = run->words[run->head + stream];
    for (; entry != ORR_NONE; entry = run->words[run->next + entry]) {
        uint32_t list = run->words[run->waits + entry];
        bool waits = orr__hang_first_unfinished(run, list) != ORR_NONE;
        if (run->model->has_room && !waits && run->model->entries[entry].kind <= ORR__HANG_WAIT)
            continue;
        orr__hang_mix(hash, entry);
        if (waits)
            mix_list(run, hash, list);
    }
    orr__hang_mix(hash, UINT64_MAX);
}

static bool is_used_later(const struct orr__hang_run *run, uint32_t event) {
    const struct orr__hang_model *model = run->model;
    uint32_t user = model->first_users[orr__hang_key(model, ORR__HANG_USE, event)];
    for (; user != ORR_NONE; user = model->users[user].next)
        if (run->words[run->pc + model->users[user].process] <= model->users[user].last)
            return true;
    return false;
}

static struct orr__hang_hash state_hash(const struct orr__hang_run *run) {
    const struct orr__hang_model *model = run->model;
    struct orr__hang_hash hash = {.a = 1, .b = 2};
    for (uint32_t h = 0; h < model->host_count; h++)
        orr__hang_mix(&hash, run->words[run->pc + h]);
    for (uint32_t s = 0; s < model->stream_count; s++) {
        orr__hang_mix(&hash,
                      (uint64_t)run->words[run->head + s] << 32 | run->words[run->progress + s]);
        if (!model->streams[s].is_fixed)
            mix_stream(run, &hash, s);
    }
    for (uint32_t l = 0; l < model->lock_count; l++)
        orr__hang_mix(&hash, run->words[run->lock + l]);
    for (uint32_t e = 0; e < model->event_count; e++)
        if (!model->event_is_fixed[e] && is_used_later(run, e)) {
            orr__hang_mix(&hash, e);
            mix_list(run, &hash, run->words[run->event + e]);
        }
    for (uint32_t m = 0; model->shares_counters && m < model->member_count; m++)
        orr__hang_mix(&hash, run->words[run->instance + m]);
    return hash;
}

/* --- search --- */

static enum orr_status push_frame(struct search *in) {
    enum orr_status status =
        orr_memory_grow(in->memory, &in->frames, &in->frame_capacity, in->frame_count + 1,
                        sizeof *in->frames, SIZE_MAX / sizeof *in->frames);
    if (status == ORR_OK)
        status = orr_memory_grow(in->memory, &in->choices, &in->choice_capacity,
                                 in->choice_count + in->best_count, sizeof *in->choices,
                                 SIZE_MAX / sizeof *in->choices);
    if (status != ORR_OK)
        return status;
    in->frames[in->frame_count++] = (struct frame){.log_count = in->run.log_count,
                                                   .step_count = in->run.step_count,
                                                   .choice_first = in->choice_count,
                                                   .choice_count = in->best_count};
    memcpy(in->choices + in->choice_count, in->best, in->best_count * sizeof *in->best);
    in->choice_count += in->best_count;
    in->run.is_logging = true;
    return ORR_OK;
}

static void step_pending(struct search *in, uint32_t process) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < in->pending_count; i++)
        if (in->pending[i] != process)
            in->pending[kept++] = in->pending[i];
    in->pending_count = kept;
    in->is_pending[process] = false;
    orr__hang_step(&in->run, process);
}

/* The next choice that has not been tried; false: none is left. */
static bool backtrack(struct search *in) {
    while (in->frame_count > 0) {
        struct frame *frame = &in->frames[in->frame_count - 1];
        if (frame->choice_next == frame->choice_count) {
            in->choice_count = frame->choice_first;
            in->frame_count--;
            continue;
        }
        for (uint32_t i = 0; i < in->pending_count; i++)
            in->is_pending[in->pending[i]] = false;
        in->pending_count = 0;
        orr__hang_undo(&in->run, frame->log_count, frame->step_count);
        orr__hang_step(&in->run, in->choices[frame->choice_first + frame->choice_next++]);
        return true;
    }
    return false;
}

static bool is_stuck(const struct orr__hang_run *run) {
    const struct orr__hang_model *model = run->model;
    for (uint32_t h = 0; h < model->host_count; h++)
        if (run->words[run->pc + h] < model->hosts[h].call_count)
            return true;
    for (uint32_t s = 0; s < model->stream_count; s++)
        if (run->words[run->count + s] > 0)
            return true;
    return false;
}

static enum orr_status keep_finding(struct search *in, enum orr_check_verdict_kind kind) {
    orr_hang_result_clear(in->result);
    in->result->kind = kind;
    return orr__hang_witness(&in->run, in->result);
}

/* After settle: what to do with this state. *out_done: the answer is in the result. */
static enum orr_status visit(struct search *in, bool *out_done) {
    *out_done = true;
    if (in->run.failed)
        return ORR_NO_MEMORY;
    if (in->run.mismatch_a != ORR_NONE)
        return keep_finding(in, ORR_CHECK_MISMATCH);
    if (in->pending_count == 0) {
        enum orr_status status = ORR_OK;
        bool is_new = in->result->kind != ORR_CHECK_HANG && is_stuck(&in->run);
        if (is_new)
            status = keep_finding(in, ORR_CHECK_HANG);
        if (status == ORR_OK && !(is_new && !in->model->may_mismatch))
            *out_done = !backtrack(in);
        return status;
    }
    choose(in);
    if (in->best_count == 1) {
        step_pending(in, in->best[0]);
        *out_done = false;
        return ORR_OK;
    }
    bool is_new = true;
    enum orr_status status =
        orr__hang_seen_add(&in->seen, in->memory, state_hash(&in->run), &is_new);
    if (status != ORR_OK)
        return status;
    if (in->seen.count > in->states_max) {
        in->result->found_hang = in->result->kind == ORR_CHECK_HANG;
        in->result->kind = ORR_CHECK_UNKNOWN;
        return ORR_OK;
    }
    if (is_new)
        status = push_frame(in);
    if (status == ORR_OK)
        *out_done = !backtrack(in);
    return status;
}

static enum orr_status search_create(struct search *in) {
    const struct orr_memory *memory = in->memory;
    size_t processes = (size_t)in->model->host_count + in->model->stream_count;
    in->pending = orr_memory_alloc(memory, processes * sizeof *in->pending);
    in->is_pending = orr_memory_alloc(memory, processes * sizeof *in->is_pending);
    in->set = orr_memory_alloc(memory, processes * sizeof *in->set);
    in->best = orr_memory_alloc(memory, processes * sizeof *in->best);
    in->in_set = orr_memory_alloc(memory, processes * sizeof *in->in_set);
    if (!in->pending || !in->is_pending || !in->set || !in->best || !in->in_set)
        return ORR_NO_MEMORY;
    return orr__hang_run_create(in->model, &in->run);
}

static void search_destroy(struct search *in) {
    orr__hang_run_destroy(&in->run);
    orr__hang_seen_clear(&in->seen, in->memory);
    orr_memory_free(in->memory, in->pending);
    orr_memory_free(in->memory, in->is_pending);
    orr_memory_free(in->memory, in->set);
    orr_memory_free(in->memory, in->best);
    orr_memory_free(in->memory, in->in_set);
    orr_memory_free(in->memory, in->frames);
    orr_memory_free(in->memory, in->choices);
}

enum orr_status orr_hangs_find(const struct orr_stream_program *program, uint64_t states_max,
                               struct orr_hang_result *out_result) {
    *out_result = (struct orr_hang_result){.memory = program->memory, .kind = ORR_CHECK_NO_HANG};
    struct orr__hang_model model;
    struct search in = {.model = &model,
                        .memory = program->memory,
                        .result = out_result,
                        .states_max = states_max > 0 ? states_max : ORR_CHECK_STATES_DEFAULT};
    enum orr_status status = orr__hang_model_create(program, false, &model);
    if (status == ORR_OK)
        status = search_create(&in);
    for (bool done = false; status == ORR_OK && !done;) {
        settle(&in);
        status = visit(&in, &done);
    }
    out_result->states = in.seen.count;
    if (status != ORR_OK)
        orr_hang_result_clear(out_result);
    search_destroy(&in);
    orr__hang_model_clear(&model);
    return status;
}
