/* Emulated collectives: common work in the leader's stream, between two meetings.
 *
 *     one GPU        stream 0  --- e -+-- kernel: all inputs, all outputs --+-- e ---
 *                    stream 1  --- e -+                                     +-- wait
 *                    stream 2  --- e -+                                     +-- wait
 *
 *     several GPUs   moves: all meet, every target's stream copies what its rank gets, all meet.
 *                    reductions: the leader's stream copies all inputs into its own GPU's memory
 *                    and reduces them there; then moves of the results.
 *
 * Copies between GPUs need no access of one to another's memory: the CUDA runtime sends them
 * through the host where there is none. */
#include <string.h>

#include "runtime/collective.h"
#include "runtime/cuda/collective_internal.h"

/* --- reductions --- */

static bool all_on_one_gpu(const struct orr__cuda_collectives *c) {
    bool one = true;
    for (uint32_t i = 1; i < c->count; i++)
        one = one && orr__cuda_gpu_of(c, c->members[i].device) ==
                         orr__cuda_gpu_of(c, c->members[0].device);
    return one;
}

/* Elements that each rank puts in. */
static uint64_t reduced_count(const struct orr_collective *of) {
    return orr_collective_in_count(of);
}

static bool gets_result(const struct orr_collective *of) {
    return of->kind != ORR_COLLECTIVE_REDUCE || of->rank == of->root;
}

/* The kernel over all inputs, wherever they are: `terms` says it. */
static enum orr_status launch_reduction(struct orr__cuda_collectives *c, struct orr__k_term *terms,
                                        struct orr__k_reduction *reduction,
                                        enum orr__cuda_kernel kernel, struct orr_error *error) {
    const struct orr_collective *first = c->collectives[0];
    *reduction =
        (struct orr__k_reduction){.count = reduced_count(first),
                                  .ranks = c->count,
                                  .dtype = (int32_t)first->dtype,
                                  .reduction = (int32_t)first->reduction,
                                  .scattered = first->kind == ORR_COLLECTIVE_REDUCE_SCATTER};
    for (uint32_t i = 0; i < c->count && reduction->scattered; i++) {
        uint64_t count;
        terms[i].begin = orr_collective_piece(first, i, &count);
    }
    struct orr__cuda_queue *queue = c->members[0].queue;
    enum orr_status status = orr__cuda_member_current(c, 0, error);
    if (status != ORR_OK)
        return status;
    return orr__cuda_launch(queue, kernel, orr__cuda_grid(queue, reduction->count), ORR__CUDA_BLOCK,
                            0, &c->argument, error);
}

/* Reduces inputs at `in` of each rank (NULL: its own operand) into its output, or, if `out` is
 * there, all into `out`, where pieces are as in an input. */
static enum orr_status reduce(struct orr__cuda_collectives *c, char *in, char *out,
                              struct orr_error *error) {
    uint64_t size = orr_dtype_size(c->collectives[0]->dtype);
    bool few = c->count <= ORR__K_RANKS_FEW;
    struct orr__k_term *terms = few ? c->argument.reduce_few.terms : c->argument.reduce_many.terms;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct orr_collective *of = c->collectives[i];
        uint64_t bytes = reduced_count(of) * size, piece;
        bool scattered = of->kind == ORR_COLLECTIVE_REDUCE_SCATTER;
        terms[i] = (struct orr__k_term){.in = in ? in + i * bytes : of->in};
        if (!out)
            terms[i].out = gets_result(of) ? of->out : NULL;
        else if (scattered)
            terms[i].out = out + orr_collective_piece(of, i, &piece) * size;
        else
            terms[i].out = i == 0 ? out : NULL;
    }
    return launch_reduction(
        c, terms, few ? &c->argument.reduce_few.reduction : &c->argument.reduce_many.reduction,
        few ? ORR__K_reduce_few : ORR__K_reduce_many, error);
}

/* --- copies between GPUs --- */

/* In a member's stream. */
static enum orr_status copy(struct orr__cuda_collectives *c, uint32_t index, void *to,
                            const void *from, uint64_t bytes, struct orr_error *error) {
    enum orr_status status = orr__cuda_member_current(c, index, error);
    if (status != ORR_OK || bytes == 0)
        return status;
    return orr__cuda_check(c->api,
                           c->api->rt.cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                                                      c->members[index].queue->stream),
                           "cudaMemcpyAsync", error);
}

/* The results, once reduced at `out`, to the ranks that get them. */
static enum orr_status hand_out(struct orr__cuda_collectives *c, const char *out,
                                struct orr_error *error) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        const struct orr_collective *of = c->collectives[i];
        uint64_t size = orr_dtype_size(of->dtype), first = 0, count = of->count;
        if (of->kind == ORR_COLLECTIVE_REDUCE_SCATTER)
            first = orr_collective_piece(of, i, &count);
        if (gets_result(of))
            status = copy(c, i, of->out, out + first * size, count * size, error);
    }
    return status;
}

/* Inputs come together in the leader's scratch memory: all of them, and the result behind them. */
static enum orr_status reduce_across(struct orr__cuda_collectives *c, struct orr_error *error) {
    uint64_t bytes = reduced_count(c->collectives[0]) * orr_dtype_size(c->collectives[0]->dtype);
    void *scratch;
    enum orr_status status = orr__cuda_member_current(c, 0, error);
    if (status == ORR_OK)
        status = orr__cuda_scratch(c->members[0].queue, (c->count + 1) * bytes, &scratch, error);
    if (status != ORR_OK)
        return status;
    char *in = scratch, *out = in + c->count * bytes;
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++)
        status = copy(c, 0, in + i * bytes, c->collectives[i]->in, bytes, error);
    if (status == ORR_OK)
        status = reduce(c, in, out, error);
    if (status == ORR_OK)
        status = orr__cuda_leave(c, error);
    if (status == ORR_OK)
        status = hand_out(c, out, error);
    return status;
}

/* --- moves --- */

struct carrier {
    struct orr__cuda_collectives *c;
    bool across; /* by copies */
    uint64_t bytes;
    enum orr_status status;
    struct orr_error *error;
};

static void launch_segments(struct carrier *carrier) {
    struct orr__cuda_collectives *c = carrier->c;
    struct orr__cuda_queue *queue = c->members[0].queue;
    struct orr__k_carry_many *many = &c->argument.carry_many;
    uint32_t count = many->count, rows = orr__cuda_grid_rows(queue, count);
    uint32_t grid = orr__cuda_grid(queue, carrier->bytes / 16);
    if (count == 0 || carrier->status != ORR_OK)
        return;
    /* The few lie as the first of the many do. */
    carrier->status =
        orr__cuda_launch(queue, count <= ORR__K_SEGMENTS_FEW ? ORR__K_carry_few : ORR__K_carry_many,
                         grid > rows ? grid : rows, ORR__CUDA_BLOCK, 0, many, carrier->error);
    many->count = 0;
    carrier->bytes = 0;
}

static void carry(void *context, const struct orr_collective_move *move) {
    struct carrier *carrier = context;
    struct orr__k_carry_many *many = &carrier->c->argument.carry_many;
    if (carrier->status != ORR_OK)
        return;
    if (carrier->across) {
        carrier->status = copy(carrier->c, orr__cuda_index_of(carrier->c, move->target), move->to,
                               move->from, move->bytes, carrier->error);
        return;
    }
    many->segments[many->count++] =
        (struct orr__k_segment){.to = move->to, .from = move->from, .bytes = move->bytes};
    carrier->bytes += move->bytes;
    if (many->count == ORR__K_SEGMENTS_MANY)
        launch_segments(carrier);
}

static enum orr_status carry_all(struct orr__cuda_collectives *c, bool across,
                                 struct orr_error *error) {
    struct carrier carrier = {.c = c, .across = across, .status = ORR_OK, .error = error};
    _Static_assert(offsetof(struct orr__k_carry_few, segments) ==
                       offsetof(struct orr__k_carry_many, segments),
                   "a launch of few takes the first of many");
    c->argument.carry_many.count = c->argument.carry_many.pad = 0;
    carrier.status = orr__cuda_member_current(c, 0, error);
    orr_collective_moves(c->collectives, c->count, carry, &carrier);
    if (!across)
        launch_segments(&carrier);
    return carrier.status;
}

/* --- groups --- */

static enum orr_status enqueue_across(struct orr__cuda_collectives *c, struct orr_error *error) {
    enum orr_status status;
    if (orr_collective_reduces(c->collectives[0]->kind)) {
        status = orr__cuda_arrive(c, error);
        if (status == ORR_OK)
            status = reduce_across(c, error);
    } else {
        status = orr__cuda_meet(c, error);
        if (status == ORR_OK)
            status = carry_all(c, true, error);
    }
    return status == ORR_OK ? orr__cuda_meet(c, error) : status;
}

enum orr_status orr__emulated_enqueue(struct orr__cuda_collectives *c, struct orr_error *error) {
    bool reduces = orr_collective_reduces(c->collectives[0]->kind);
    if (reduces && c->count > ORR__K_RANKS_MANY)
        return orr_error_set(
            error, ORR_UNSUPPORTED, "%s over %u ranks: emulated collectives reduce over %d at most",
            orr_collective_kind_text(c->collectives[0]->kind), c->count, ORR__K_RANKS_MANY);
    if (!all_on_one_gpu(c))
        return enqueue_across(c, error);
    enum orr_status status = orr__cuda_arrive(c, error);
    if (status == ORR_OK)
        status = reduces ? reduce(c, NULL, NULL, error) : carry_all(c, false, error);
    return status == ORR_OK ? orr__cuda_leave(c, error) : status;
}
