#include <assert.h>
#include <string.h>

#include "hazards/hang_rivals.h"
#include "hazards/hang_settle.h"
#include "hazards/hang_state.h"
#include "hazards/hang_witness.h"
#include "runtime/splitmix.h"

enum {
    STATES_BEFORE_PROBES = 1000,
    PROBES = 64,
    PROBE_STEPS = 4 << 20, /* of all probes together, about */
    WORK_PER_STATE = 64    /* steps and looks; so much for each state that is allowed */
};

/* A state in which something competes, and which of it is tried. */
struct frame {
    size_t log_count, step_count;
    size_t choice_first, choice_count, choice_next; /* in `choices`: processes */
};

struct search {
    const struct orr__hang_model *model;
    const struct orr_memory *memory;
    struct orr__hang_settling now;
    struct orr__hang_seen seen;
    struct orr_hang_result *result;
    uint64_t states_max, looks;
    bool has_probed;
    struct frame *frames;
    size_t frame_count, frame_capacity;
    uint32_t *choices;
    size_t choice_count, choice_capacity;
    /* A set of processes that grows until nobody outside is in the way of anybody inside. */
    uint32_t *set, *best;
    uint32_t set_count, best_count;
    uint32_t *in_set, epoch; /* in_set[p] == epoch: p is in it */
    uint32_t *places;        /* for orr__hang_state */
};

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
        in->looks++;
        if (orr__hang_look(&in->now.run, process) != ORR__HANG_READY) {
            orr__hang_needed(&in->now.run, process, add_to_set, in);
            continue;
        }
        in->set[i] = in->set[ready];
        in->set[ready++] = process;
        if (ready >= limit)
            return limit;
        orr__hang_rivals(&in->now.run, process, add_to_set, in);
    }
    return ready;
}

/* The smallest set there is, by any beginning. */
static void choose(struct search *in) {
    in->best_count = in->now.pending_count + 1;
    for (uint32_t i = 0; i < in->now.pending_count && in->best_count > 1; i++) {
        uint32_t ready = close_set(in, in->now.pending[i], in->best_count);
        if (ready >= in->best_count)
            continue;
        in->best_count = ready;
        memcpy(in->best, in->set, ready * sizeof *in->best);
    }
    assert(in->best_count >= 1 && in->best_count <= in->now.pending_count);
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
    in->frames[in->frame_count++] = (struct frame){.log_count = in->now.run.log_count,
                                                   .step_count = in->now.run.step_count,
                                                   .choice_first = in->choice_count,
                                                   .choice_count = in->best_count};
    memcpy(in->choices + in->choice_count, in->best, in->best_count * sizeof *in->best);
    in->choice_count += in->best_count;
    in->now.run.is_logging = true;
    return ORR_OK;
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
        orr__hang_settle_undo(&in->now, frame->log_count, frame->step_count);
        orr__hang_step(&in->now.run, in->choices[frame->choice_first + frame->choice_next++]);
        return true;
    }
    return false;
}

static enum orr_status keep_finding(struct search *in, const struct orr__hang_run *run,
                                    enum orr_check_verdict_kind kind) {
    orr_hang_result_clear(in->result);
    in->result->kind = kind;
    return orr__hang_witness(run, in->result);
}

/* --- probes --- */

/* One run by chance: each time the pending process that draws the lowest number. Every other probe
 * draws once for each process, so that some are always late. */
static void probe(struct orr__hang_settling *now, uint64_t number) {
    uint64_t seed = number;
    for (orr__hang_settle(now); now->pending_count > 0; orr__hang_settle(now)) {
        if (now->run.failed || now->run.mismatch_a != ORR_NONE)
            return;
        uint32_t chosen = now->pending[0];
        uint64_t lowest = UINT64_MAX, draw = orr_splitmix_next(&seed);
        for (uint32_t i = 0; i < now->pending_count; i++) {
            uint64_t mine = orr_splitmix_at(number % 2 == 0 ? draw : number << 32, now->pending[i]);
            if (mine < lowest) {
                lowest = mine;
                chosen = now->pending[i];
            }
        }
        orr__hang_settle_step(now, chosen);
    }
}

/* Where the search takes long, a few runs by chance often find what it would find late. */
static enum orr_status probe_some(struct search *in, bool *out_done) {
    enum orr_status status = ORR_OK;
    uint64_t steps = 0;
    in->has_probed = true;
    for (uint64_t i = 0; status == ORR_OK && i < PROBES && steps < PROBE_STEPS && !*out_done; i++) {
        struct orr__hang_settling now;
        status = orr__hang_settle_create(in->model, &now);
        if (status == ORR_OK) {
            probe(&now, i);
            steps += now.run.step_count;
            if (now.run.failed) {
                status = ORR_NO_MEMORY;
            } else if (now.run.mismatch_a != ORR_NONE) {
                status = keep_finding(in, &now.run, ORR_CHECK_MISMATCH);
                *out_done = true;
            } else if (in->result->kind != ORR_CHECK_HANG && orr__hang_is_stuck(&now.run)) {
                status = keep_finding(in, &now.run, ORR_CHECK_HANG);
                *out_done = !in->model->may_mismatch;
            }
        }
        orr__hang_settle_destroy(&now);
    }
    return status;
}

/* After settle: what to do with this state. *out_done: the answer is in the result. */
static enum orr_status visit(struct search *in, bool *out_done) {
    *out_done = true;
    if (in->now.run.failed)
        return ORR_NO_MEMORY;
    if (in->now.run.mismatch_a != ORR_NONE)
        return keep_finding(in, &in->now.run, ORR_CHECK_MISMATCH);
    if (in->now.pending_count == 0) {
        enum orr_status status = ORR_OK;
        bool is_new = in->result->kind != ORR_CHECK_HANG && orr__hang_is_stuck(&in->now.run);
        if (is_new)
            status = keep_finding(in, &in->now.run, ORR_CHECK_HANG);
        if (status == ORR_OK && !(is_new && !in->model->may_mismatch))
            *out_done = !backtrack(in);
        return status;
    }
    choose(in);
    if (in->best_count == 1) {
        orr__hang_settle_step(&in->now, in->best[0]);
        *out_done = false;
        return ORR_OK;
    }
    bool is_new = true;
    enum orr_status status = orr__hang_seen_add(&in->seen, in->memory,
                                                orr__hang_state(&in->now.run, in->places), &is_new);
    if (status != ORR_OK)
        return status;
    uint64_t work_max =
        in->states_max > UINT64_MAX / WORK_PER_STATE ? UINT64_MAX : in->states_max * WORK_PER_STATE;
    if (in->seen.count > in->states_max || in->looks + in->now.run.made > work_max) {
        in->result->found_hang = in->result->kind == ORR_CHECK_HANG;
        in->result->kind = ORR_CHECK_UNKNOWN;
        return ORR_OK;
    }
    if (is_new)
        status = push_frame(in);
    *out_done = false;
    if (status == ORR_OK && !in->has_probed && in->seen.count >= STATES_BEFORE_PROBES)
        status = probe_some(in, out_done);
    if (status == ORR_OK && !*out_done)
        *out_done = !backtrack(in);
    return status;
}

static enum orr_status search_create(struct search *in) {
    const struct orr_memory *memory = in->memory;
    size_t processes = (size_t)in->model->host_count + in->model->stream_count;
    in->set = orr_memory_alloc(memory, processes * sizeof *in->set);
    in->best = orr_memory_alloc(memory, processes * sizeof *in->best);
    in->in_set = orr_memory_alloc(memory, processes * sizeof *in->in_set);
    in->places = orr_memory_alloc(memory, in->model->entry_count * sizeof *in->places);
    if (!in->places || !in->set || !in->best || !in->in_set)
        return ORR_NO_MEMORY;
    return orr__hang_settle_create(in->model, &in->now);
}

static void search_destroy(struct search *in) {
    orr__hang_settle_destroy(&in->now);
    orr__hang_seen_clear(&in->seen, in->memory);
    orr_memory_free(in->memory, in->places);
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
        orr__hang_settle(&in.now);
        status = visit(&in, &done);
    }
    out_result->states = in.seen.count;
    if (status != ORR_OK)
        orr_hang_result_clear(out_result);
    search_destroy(&in);
    orr__hang_model_clear(&model);
    return status;
}
