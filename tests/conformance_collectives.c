/* Conformance: groups. They meet, end together, and compute what direct loops compute, for every
 * kind, dtype, root and size. */
#include "tests/conformance.h"

#include <stdio.h>
#include <string.h>

#include "runtime/collective.h"

enum {
    RANKS_MAX = CONFORMANCE_DEVICES_MAX,
    COUNT_MAX = 1300, /* more than two blocks of the arithmetic */
    GUARD = 0x5a,
    GUARD_BYTES = 64
};

/* One rank's memory and stream. */
struct rank {
    uint32_t stream, in_memory, out_memory;
    char *in, *out;
};

/* One collective to try. */
struct trial {
    enum orr_collective_kind kind;
    enum orr_dtype dtype;
    enum orr_reduction reduction;
    uint32_t ranks, root;
    uint64_t count;
    bool uneven, in_place, inexact;
    uint64_t counts[RANKS_MAX * RANKS_MAX]; /* of pieces, if uneven */
};

static const char *trial_text(const struct trial *t) {
    static char text[160];
    snprintf(text, sizeof text, "%s of %llu %s by %s over %u ranks, root %u%s%s",
             orr_collective_kind_text(t->kind), (unsigned long long)t->count,
             orr_dtype_name(t->dtype), orr_reduction_text(t->reduction), t->ranks, t->root,
             t->uneven ? ", uneven" : "", t->in_place ? ", in place" : "");
    return text;
}

static struct orr_collective member_of(const struct trial *t, uint32_t rank) {
    return (struct orr_collective){.kind = t->kind,
                                   .dtype = t->dtype,
                                   .reduction = t->reduction,
                                   .rank = rank,
                                   .ranks = t->ranks,
                                   .root = t->root,
                                   .count = t->count,
                                   .counts = t->uneven ? t->counts : NULL};
}

static uint64_t piece_count(const struct trial *t, uint32_t index) {
    return t->uneven ? t->counts[index] : t->count;
}

/* Elements of `length` pieces, `step` apart. */
static uint64_t pieces(const struct trial *t, uint32_t first, uint32_t length, uint32_t step) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < length; i++)
        sum += piece_count(t, first + i * step);
    return sum;
}

/* Elements that a rank puts in and gets out. */
static uint64_t in_count(const struct trial *t, uint32_t rank) {
    switch (t->kind) {
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_GATHER: return piece_count(t, rank);
    case ORR_COLLECTIVE_REDUCE_SCATTER: return pieces(t, 0, t->ranks, 1);
    case ORR_COLLECTIVE_SCATTER: return rank == t->root ? pieces(t, 0, t->ranks, 1) : 0;
    case ORR_COLLECTIVE_BROADCAST: return rank == t->root ? t->count : 0;
    case ORR_COLLECTIVE_ALL_TO_ALL: return pieces(t, rank * t->ranks, t->ranks, 1);
    default: return t->count;
    }
}

static uint64_t out_count(const struct trial *t, uint32_t rank) {
    switch (t->kind) {
    case ORR_COLLECTIVE_ALL_GATHER: return pieces(t, 0, t->ranks, 1);
    case ORR_COLLECTIVE_GATHER: return rank == t->root ? pieces(t, 0, t->ranks, 1) : 0;
    case ORR_COLLECTIVE_REDUCE: return rank == t->root ? t->count : 0;
    case ORR_COLLECTIVE_REDUCE_SCATTER:
    case ORR_COLLECTIVE_SCATTER: return piece_count(t, rank);
    case ORR_COLLECTIVE_ALL_TO_ALL: return pieces(t, rank, t->ranks, t->ranks);
    default: return t->count;
    }
}

/* ---- direct computation ------------------------------------------------------------------- */

/* What rank `rank` puts in at `index`: small integers, whose sums are exact in every dtype; or, for
 * floating-point types, values whose sums depend on the order and on the rounding. */
static double input(const struct trial *t, uint32_t rank, uint64_t index) {
    uint64_t h = (index * 31 + rank * 17 + t->count) * 0x9e3779b97f4a7c15u >> 40;
    if (t->dtype == ORR_DTYPE_BOOL)
        return h % 5 == 0;
    if (t->inexact)
        return (double)(h % 2001) / 7.0 * (rank % 2 ? -1.0 : 1.01);
    return (double)(h % 17) - 8.0;
}

static double rounded(enum orr_dtype dtype, double value) {
    uint64_t cell = 0;
    orr_dtype_store(dtype, &cell, 0, value);
    return orr_dtype_load(dtype, &cell, 0);
}

static double joined(const struct trial *t, double a, double b) {
    bool all = t->reduction == ORR_AVG || t->reduction == ORR_MIN;
    if (t->dtype == ORR_DTYPE_BOOL)
        return all ? a != 0 && b != 0 : a != 0 || b != 0;
    if (t->reduction == ORR_MAX)
        return b > a ? b : a;
    if (t->reduction == ORR_MIN)
        return b < a ? b : a;
    if (orr_dtype_is_float(t->dtype) && t->dtype != ORR_DTYPE_F64)
        return (double)((float)a + (float)b);
    return a + b;
}

static double averaged(const struct trial *t, double sum) {
    if (t->dtype == ORR_DTYPE_BOOL)
        return sum;
    if (t->dtype == ORR_DTYPE_F64)
        return sum / t->ranks;
    if (orr_dtype_is_float(t->dtype))
        return (double)((float)sum / (float)t->ranks);
    return (double)((int64_t)sum / (int64_t)t->ranks);
}

/* Reduction over ranks in rank order, in f64 for f64 and in f32 for the shorter types. */
static double reduced(const struct trial *t, uint64_t index) {
    double result = 0;
    for (uint32_t rank = 0; rank < t->ranks; rank++) {
        double value = rounded(t->dtype, input(t, rank, index));
        result = rank == 0 ? value : joined(t, result, value);
    }
    return rounded(t->dtype, t->reduction == ORR_AVG ? averaged(t, result) : result);
}

/* The rank whose piece element `index` of a concatenation is; *index becomes its place there. */
static uint32_t owner_of(const struct trial *t, uint32_t first, uint32_t step, uint64_t *index) {
    uint32_t rank = 0;
    while (*index >= piece_count(t, first + rank * step))
        *index -= piece_count(t, first + rank++ * step);
    return rank;
}

static double expected(const struct trial *t, uint32_t rank, uint64_t index) {
    uint32_t owner;
    switch (t->kind) {
    case ORR_COLLECTIVE_ALL_REDUCE:
    case ORR_COLLECTIVE_REDUCE: return reduced(t, index);
    case ORR_COLLECTIVE_REDUCE_SCATTER: return reduced(t, pieces(t, 0, rank, 1) + index);
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_GATHER:
        owner = owner_of(t, 0, 1, &index);
        return rounded(t->dtype, input(t, owner, index));
    case ORR_COLLECTIVE_SCATTER:
        return rounded(t->dtype, input(t, t->root, pieces(t, 0, rank, 1) + index));
    case ORR_COLLECTIVE_ALL_TO_ALL:
        owner = owner_of(t, rank, t->ranks, &index);
        return rounded(t->dtype, input(t, owner, pieces(t, owner * t->ranks, rank, 1) + index));
    default: return rounded(t->dtype, input(t, t->root, index));
    }
}

/* ---- one trial ---------------------------------------------------------------------------- */

static void open_ranks(struct fixture *f, uint32_t ranks, struct rank *out_ranks) {
    uint64_t bytes = (uint64_t)COUNT_MAX * 8 * RANKS_MAX + GUARD_BYTES;
    conformance_open(f, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        struct rank *r = &out_ranks[i];
        r->stream = conformance_stream(f, i);
        uint32_t device = conformance_memory_of(f, i);
        check(f, f->verbs->memory_create(f->backend, device, bytes, &r->in_memory, &f->error) ==
                     ORR_OK);
        check(f, f->verbs->memory_create(f->backend, device, bytes, &r->out_memory, &f->error) ==
                     ORR_OK);
        r->in = f->verbs->memory_pointer(f->backend, r->in_memory);
        r->out = f->verbs->memory_pointer(f->backend, r->out_memory);
    }
}

/* Where the operands of one rank lie: { memory, offset } of input and output. */
struct operands {
    uint32_t in_memory, out_memory;
    uint64_t in_offset, out_offset, in_bytes, out_bytes;
    char *in, *out;
};

static struct operands operands_of(const struct trial *t, const struct rank *r, uint32_t rank) {
    uint64_t size = orr_dtype_size(t->dtype), before = pieces(t, 0, rank, 1) * size;
    bool root = rank == t->root;
    struct operands o = {.in_memory = r->in_memory,
                         .out_memory = t->in_place ? r->in_memory : r->out_memory,
                         .in_bytes = in_count(t, rank) * size,
                         .out_bytes = out_count(t, rank) * size};
    if (t->in_place &&
        (t->kind == ORR_COLLECTIVE_ALL_GATHER || (t->kind == ORR_COLLECTIVE_GATHER && root)))
        o.in_offset = before;
    if (t->in_place &&
        (t->kind == ORR_COLLECTIVE_REDUCE_SCATTER || (t->kind == ORR_COLLECTIVE_SCATTER && root)))
        o.out_offset = before;
    o.in = r->in + o.in_offset;
    o.out = (t->in_place ? r->in : r->out) + o.out_offset;
    return o;
}

static void fill_operands(struct fixture *f, const struct trial *t, const struct operands *o,
                          uint32_t rank) {
    memset(o->out, GUARD, o->out_bytes + GUARD_BYTES);
    for (uint64_t i = 0; i < in_count(t, rank); i++)
        orr_dtype_store(t->dtype, o->in, i, input(t, rank, i));
    conformance_define(f, o->in_memory, o->in_offset, o->in_bytes);
}

static void member_accesses(const struct operands *o, struct job *job) {
    uint32_t count = 0;
    if (o->in_bytes > 0)
        job->accesses[count++] = (struct orr_access){.memory = o->in_memory,
                                                     .mode = ORR_ACCESS_READ,
                                                     .offset = o->in_offset,
                                                     .bytes = o->in_bytes};
    if (o->out_bytes > 0)
        job->accesses[count++] = (struct orr_access){.memory = o->out_memory,
                                                     .mode = ORR_ACCESS_WRITE,
                                                     .offset = o->out_offset,
                                                     .bytes = o->out_bytes};
    job->command.access_count = count;
}

static void member_job(struct fixture *f, struct orr_collective *collective, struct job *job) {
    (void)f;
    job->command.record.header.a = ORR_COMMAND_COLLECTIVE;
    job->command.run = NULL;
    job->command.service_ns = -1;
    job->command.collective = collective;
}

/* Submits a group of jobs and expects ORR_OK. */
static void submit_group(struct fixture *f, const uint32_t *streams, struct job *const *jobs,
                         uint32_t count, const struct orr_point *waits, uint32_t wait_count,
                         struct orr_point *out_points) {
    struct orr_command commands[RANKS_MAX] = {{.flags = 0}};
    for (uint32_t i = 0; i < count; i++) {
        conformance_announce(f, &jobs[i]->command, streams[i], waits, wait_count);
        commands[i] = jobs[i]->command;
    }
    f->error = (struct orr_error){0};
    enum orr_status status = f->verbs->submit_group(f->backend, streams, commands, count, waits,
                                                    wait_count, out_points, &f->error);
    check_text(f, status == ORR_OK, "submit_group: %s %s", orr_status_text(status), f->error.text);
    for (uint32_t i = 0; i < count; i++)
        conformance_submitted(f, &commands[i], out_points[i]);
}

static void check_members(struct fixture *f, const struct orr_point *points, uint32_t count) {
    int64_t finish_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        conformance_wait(f, points[i]);
        const struct orr_record_command *r = conformance_record(f, points[i]);
        check(f, r->header.c == ORR_COMMAND_STATUS_OK);
        check(f, i == 0 || r->finish_ns == finish_ns);
        finish_ns = r->finish_ns;
    }
}

static void check_result(struct fixture *f, const struct trial *t, const struct operands *o,
                         uint32_t rank) {
    for (uint64_t i = 0; i < out_count(t, rank); i++) {
        double found = orr_dtype_load(t->dtype, o->out, i), wanted = expected(t, rank, i);
        check_text(f, found == wanted, "%s: rank %u, element %llu is %.17g, expected %.17g",
                   trial_text(t), rank, (unsigned long long)i, found, wanted);
    }
    if (t->in_place)
        return;
    for (uint32_t i = 0; i < GUARD_BYTES; i++)
        check_text(f, o->out[o->out_bytes + i] == GUARD, "%s: rank %u wrote past its output",
                   trial_text(t), rank);
}

static void try_collective(struct fixture *f, const struct rank *ranks, const struct trial *t) {
    struct operands operands[RANKS_MAX];
    struct orr_collective members[RANKS_MAX];
    struct job *jobs[RANKS_MAX];
    uint32_t streams[RANKS_MAX];
    struct orr_point points[RANKS_MAX];
    for (uint32_t i = 0; i < t->ranks; i++) {
        operands[i] = operands_of(t, &ranks[i], i);
        fill_operands(f, t, &operands[i], i);
        members[i] = member_of(t, i);
        check(f, orr_collective_in_count(&members[i]) == in_count(t, i));
        check(f, orr_collective_out_count(&members[i]) == out_count(t, i));
        members[i].in = operands[i].in_bytes > 0 ? operands[i].in : NULL;
        members[i].out = operands[i].out_bytes > 0 ? operands[i].out : NULL;
        jobs[i] = conformance_job(f, JOB_NOTHING);
        member_job(f, &members[i], jobs[i]);
        member_accesses(&operands[i], jobs[i]);
        streams[i] = ranks[i].stream;
    }
    submit_group(f, streams, jobs, t->ranks, NULL, 0, points);
    check_members(f, points, t->ranks);
    for (uint32_t i = 0; i < t->ranks; i++)
        check_result(f, t, &operands[i], i);
}

/* Pieces of different sizes about `count`, some of them empty. */
static void draw_counts(struct trial *t) {
    uint64_t length = orr_collective_counts_length(t->kind, t->ranks);
    t->uneven = length > 0;
    for (uint64_t i = 0; i < length; i++) {
        uint64_t h = (i * 7 + t->count + t->ranks) * 0x9e3779b97f4a7c15u >> 40;
        t->counts[i] = h % 4 == 0 ? 0 : h % (t->count + 1);
    }
}

/* One size, in place and not, with even pieces and with uneven ones. */
static void try_size(struct fixture *f, const struct rank *ranks, struct trial t) {
    bool all_to_all = t.kind == ORR_COLLECTIVE_ALL_TO_ALL;
    for (int variant = 0; variant < 8; variant++) {
        t.in_place = variant & 1;
        t.inexact = variant & 2;
        t.uneven = false;
        if (variant & 4)
            draw_counts(&t);
        bool same = (t.in_place && all_to_all) || (t.inexact && !orr_dtype_is_float(t.dtype)) ||
                    (!t.uneven && (variant & 4));
        if (!same)
            try_collective(f, ranks, &t);
    }
}

static void try_kind(struct fixture *f, enum orr_collective_kind kind) {
    static const uint32_t rank_counts[] = {1, 2, 3, 5, 8};
    static const uint64_t counts[] = {0, 1, 257, COUNT_MAX};
    uint32_t ranks_max = f->target->ranks_max > 0 ? f->target->ranks_max : RANKS_MAX;
    for (size_t i = 0; i < sizeof rank_counts / sizeof rank_counts[0]; i++) {
        struct rank ranks[RANKS_MAX];
        if (rank_counts[i] > ranks_max)
            break;
        open_ranks(f, rank_counts[i], ranks);
        uint32_t roots = orr_collective_has_root(kind) ? rank_counts[i] : 1;
        int reductions = orr_collective_reduces(kind) ? ORR_MIN + 1 : 1;
        int dtypes = orr_collective_reduces(kind) ? ORR_DTYPE_I8 : ORR_DTYPE_COUNT;
        for (int dtype = 0; dtype < dtypes; dtype++)
            for (uint32_t root = 0; root < roots; root++)
                for (int k = 0; k < 4 * reductions; k++)
                    try_size(f, ranks,
                             (struct trial){.kind = kind,
                                            .dtype = (enum orr_dtype)dtype,
                                            .reduction = (enum orr_reduction)(k / 4),
                                            .ranks = rank_counts[i],
                                            .root = root,
                                            .count = counts[k % 4]});
        conformance_close(f);
    }
}

static void all_reduce_equals_the_direct_reduction(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_ALL_REDUCE);
}

static void reduce_equals_the_direct_reduction_at_every_root(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_REDUCE);
}

static void all_gather_equals_the_direct_concatenation(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_ALL_GATHER);
}

static void gather_equals_the_direct_concatenation_at_every_root(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_GATHER);
}

static void scatter_equals_the_pieces_of_every_roots_input(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_SCATTER);
}

static void reduce_scatter_equals_the_pieces_of_the_direct_reduction(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_REDUCE_SCATTER);
}

static void broadcast_equals_the_roots_input_for_every_root(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_BROADCAST);
}

static void all_to_all_equals_the_direct_exchange(struct fixture *f) {
    try_kind(f, ORR_COLLECTIVE_ALL_TO_ALL);
}

/* ---- sends and receives ------------------------------------------------------------------- */

enum { TRANSFERS = 12 };

/* Random transfers: transfer i reads element i * 40 on of its source and writes there. */
struct exchange {
    struct orr_transfer transfers[TRANSFERS];
    uint32_t count, ranks;
    bool takes_part[RANKS_MAX];
};

static void draw_exchange(struct fixture *f, const struct rank *ranks, struct exchange *x) {
    memset(x->takes_part, 0, sizeof x->takes_part);
    x->count = 1 + conformance_draw(f, TRANSFERS);
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t s = conformance_draw(f, x->ranks), t = conformance_draw(f, x->ranks);
        x->transfers[i] = (struct orr_transfer){.source = s,
                                                .target = t,
                                                .count = conformance_draw(f, 41),
                                                .from = ranks[s].in + i * 40 * sizeof(int32_t),
                                                .to = ranks[t].out + i * 40 * sizeof(int32_t)};
        x->takes_part[s] = x->takes_part[t] = true;
    }
}

static void check_exchange(struct fixture *f, const struct exchange *x, const struct rank *ranks) {
    for (uint32_t rank = 0; rank < x->ranks; rank++) {
        const int32_t *out = (const int32_t *)(const void *)ranks[rank].out;
        for (uint32_t i = 0; i < TRANSFERS; i++)
            for (uint32_t k = 0; k < 40; k++) {
                const struct orr_transfer *t = &x->transfers[i];
                bool here = i < x->count && t->target == rank && k < t->count;
                int32_t wanted = here ? (int32_t)(t->source * 1000 + i * 40 + k) : -1;
                check_text(f, out[i * 40 + k] == wanted,
                           "rank %u, transfer %u, element %u is %d, expected %d", rank, i, k,
                           out[i * 40 + k], wanted);
            }
    }
}

static void party_accesses(const struct rank *r, struct job *job) {
    job->accesses[0] = (struct orr_access){
        .memory = r->in_memory, .mode = ORR_ACCESS_READ, .bytes = TRANSFERS * 40 * sizeof(int32_t)};
    job->accesses[1] = (struct orr_access){.memory = r->out_memory,
                                           .mode = ORR_ACCESS_READ_WRITE,
                                           .bytes = TRANSFERS * 40 * sizeof(int32_t)};
    job->command.access_count = 2;
}

static void try_exchange(struct fixture *f, const struct rank *ranks, struct exchange *x) {
    struct orr_collective members[RANKS_MAX];
    struct job *jobs[RANKS_MAX];
    uint32_t streams[RANKS_MAX], count = 0;
    struct orr_point points[RANKS_MAX];
    draw_exchange(f, ranks, x);
    for (uint32_t rank = 0; rank < x->ranks; rank++) {
        for (uint32_t i = 0; i < TRANSFERS * 40; i++) {
            ((int32_t *)(void *)ranks[rank].in)[i] = (int32_t)(rank * 1000 + i);
            ((int32_t *)(void *)ranks[rank].out)[i] = -1;
        }
        conformance_define(f, ranks[rank].in_memory, 0, TRANSFERS * 40 * sizeof(int32_t));
        conformance_define(f, ranks[rank].out_memory, 0, TRANSFERS * 40 * sizeof(int32_t));
        if (!x->takes_part[rank])
            continue;
        members[count] = (struct orr_collective){.kind = ORR_COLLECTIVE_SEND_RECEIVE,
                                                 .dtype = ORR_DTYPE_I32,
                                                 .rank = rank,
                                                 .ranks = x->ranks,
                                                 .transfers = x->transfers,
                                                 .transfer_count = x->count};
        jobs[count] = conformance_job(f, JOB_NOTHING);
        member_job(f, &members[count], jobs[count]);
        party_accesses(&ranks[rank], jobs[count]);
        streams[count++] = ranks[rank].stream;
    }
    submit_group(f, streams, jobs, count, NULL, 0, points);
    check_members(f, points, count);
    check_exchange(f, x, ranks);
}

static void sends_arrive_where_they_should_and_nowhere_else(struct fixture *f) {
    for (uint32_t count = 1; count <= RANKS_MAX; count++) {
        struct rank ranks[RANKS_MAX];
        struct exchange x = {.ranks = count};
        open_ranks(f, count, ranks);
        for (int round = 0; round < 20; round++)
            try_exchange(f, ranks, &x);
        conformance_close(f);
    }
}

/* ---- meeting ------------------------------------------------------------------------------ */

static struct job *barrier_job(struct fixture *f, uint32_t rank, uint32_t ranks) {
    static struct orr_collective members[RANKS_MAX + 1][RANKS_MAX];
    struct orr_collective *member = &members[ranks][rank];
    *member = (struct orr_collective){.kind = ORR_COLLECTIVE_BARRIER, .rank = rank, .ranks = ranks};
    struct job *job = conformance_job(f, JOB_NOTHING);
    member_job(f, member, job);
    return job;
}

static void submit_barrier(struct fixture *f, const uint32_t *streams, uint32_t count,
                           const struct orr_point *waits, uint32_t wait_count,
                           struct orr_point *out_points) {
    struct job *jobs[RANKS_MAX];
    for (uint32_t i = 0; i < count; i++)
        jobs[i] = barrier_job(f, i, count);
    submit_group(f, streams, jobs, count, waits, wait_count, out_points);
}

static void members_wait_for_the_last_and_finish_together(struct fixture *f) {
    conformance_open(f, 3);
    uint32_t s[3] = {conformance_stream(f, 0), conformance_stream(f, 1), conformance_stream(f, 2)};
    conformance_quick(f, s[0], NULL, 0);
    struct orr_point slow = conformance_slow(f, s[1], NULL, 0), points[3];
    submit_barrier(f, s, 3, NULL, 0, points);
    struct orr_point after = conformance_quick(f, s[2], NULL, 0);
    for (int i = 0; i < 3; i++)
        check(f, conformance_query(f, points[i]) == ORR_NOT_READY);
    check(f, conformance_query(f, after) == ORR_NOT_READY);
    conformance_open_gate(f);
    check_members(f, points, 3);
    conformance_wait(f, after);
    int64_t slow_ns = conformance_record(f, slow)->finish_ns;
    check(f, conformance_record(f, points[1])->start_ns >= slow_ns);
    for (int i = 0; i < 3; i++)
        check(f, conformance_record(f, points[i])->finish_ns >= slow_ns);
    check(f, conformance_record(f, after)->start_ns >= conformance_record(f, points[2])->finish_ns);
    conformance_close(f);
}

static void a_group_waits_for_what_it_is_told_to(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t s[2] = {conformance_stream(f, 0), conformance_stream(f, 1)};
    uint32_t other = conformance_stream(f, 0);
    struct orr_point slow = conformance_slow(f, other, NULL, 0), points[2];
    submit_barrier(f, s, 2, &slow, 1, points);
    for (int i = 0; i < 2; i++)
        check(f, conformance_query(f, points[i]) == ORR_NOT_READY);
    conformance_open_gate(f);
    check_members(f, points, 2);
    for (int i = 0; i < 2; i++)
        check(f,
              conformance_record(f, points[i])->start_ns >= conformance_record(f, slow)->finish_ns);
    conformance_close(f);
}

static void other_streams_go_on_while_a_group_waits(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t s[2] = {conformance_stream(f, 0), conformance_stream(f, 1)};
    uint32_t other = conformance_stream(f, 0);
    struct orr_point points[2];
    conformance_slow(f, s[1], NULL, 0);
    submit_barrier(f, s, 2, NULL, 0, points);
    for (int i = 0; i < 10; i++)
        conformance_wait(f, conformance_quick(f, other, NULL, 0));
    check(f, conformance_query(f, points[0]) == ORR_NOT_READY);
    conformance_open_gate(f);
    check_members(f, points, 2);
    conformance_close(f);
}

static void a_command_may_wait_for_one_member(struct fixture *f) {
    conformance_open(f, 2);
    uint32_t s[2] = {conformance_stream(f, 0), conformance_stream(f, 1)};
    uint32_t other = conformance_stream(f, 1);
    struct orr_point points[2];
    conformance_slow(f, s[0], NULL, 0);
    submit_barrier(f, s, 2, NULL, 0, points);
    struct orr_point after = conformance_quick(f, other, &points[1], 1);
    check(f, conformance_query(f, after) == ORR_NOT_READY);
    conformance_open_gate(f);
    conformance_wait(f, after);
    check(f, conformance_record(f, after)->start_ns >= conformance_record(f, points[1])->finish_ns);
    conformance_close(f);
}

/* Groups over random subsets of streams, with kernels between, in one order of submission: they
 * can't deadlock, whatever threads run them. */
static void many_groups_over_overlapping_streams_end(struct fixture *f, enum orr_runner runner) {
    enum { STREAMS = 6, GROUPS = 200 };
    f->runner = runner;
    conformance_open(f, 3);
    uint32_t s[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++)
        s[i] = conformance_stream(f, i % 3);
    static struct orr_point points[GROUPS][STREAMS];
    static uint32_t counts[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        uint32_t chosen[STREAMS], count = 0;
        for (uint32_t i = 0; i < STREAMS; i++)
            if (conformance_draw(f, 2))
                chosen[count++] = s[i];
        if (count == 0)
            chosen[count++] = s[0];
        uint32_t swap = conformance_draw(f, count), first = chosen[0];
        chosen[0] = chosen[swap]; /* ranks are in no particular order of streams */
        chosen[swap] = first;
        struct orr_point before = conformance_quick(f, s[conformance_draw(f, STREAMS)], NULL, 0);
        submit_barrier(f, chosen, count, &before, conformance_draw(f, 2), points[g]);
        counts[g] = count;
    }
    for (int g = 0; g < GROUPS; g++)
        check_members(f, points[g], counts[g]);
    conformance_close(f);
}

static void groups_over_overlapping_streams_do_not_deadlock(struct fixture *f) {
    many_groups_over_overlapping_streams_end(f, ORR_RUNNER_INLINE);
}

static void groups_with_dispatch_hosts_do_not_deadlock(struct fixture *f) {
    many_groups_over_overlapping_streams_end(f, ORR_RUNNER_PER_DEVICE);
}

static void a_group_is_refused_as_a_whole_when_one_queue_is_full(struct fixture *f) {
    f->depth = 4;
    conformance_open(f, 2);
    uint32_t s[2] = {conformance_stream(f, 0), conformance_stream(f, 1)};
    conformance_slow(f, s[1], NULL, 0);
    for (int i = 0; i < 3; i++)
        conformance_quick(f, s[1], NULL, 0);
    struct orr_command commands[2];
    struct job *jobs[2];
    for (uint32_t i = 0; i < 2; i++) {
        jobs[i] = barrier_job(f, i, 2);
        conformance_announce(f, &jobs[i]->command, s[i], NULL, 0);
        commands[i] = jobs[i]->command;
    }
    struct orr_point points[2];
    enum orr_status status =
        f->verbs->submit_group(f->backend, s, commands, 2, NULL, 0, points, &f->error);
    check(f, status == ORR_FULL);
    check(f, points[0].stream == s[1] && points[0].seq >= 1 && points[0].seq <= 4);
    struct orr_point next = conformance_quick(f, s[0], NULL, 0);
    check(f, next.seq == 1); /* nothing was put into the other stream */
    conformance_wait(f, next);
    struct orr_point room = points[0];
    conformance_open_gate(f);
    conformance_wait(f, room);
    submit_group(f, s, jobs, 2, NULL, 0, points);
    check_members(f, points, 2);
    conformance_close(f);
}

/* ---- failures ----------------------------------------------------------------------------- */

static void a_failed_member_skips_the_whole_group(struct fixture *f) {
    conformance_open(f, 3);
    uint32_t s[3] = {conformance_stream(f, 0), conformance_stream(f, 1), conformance_stream(f, 2)};
    struct job *job = conformance_job(f, JOB_FAIL);
    conformance_submit(f, s[1], job, NULL, 0);
    struct orr_point points[3];
    submit_barrier(f, s, 3, NULL, 0, points);
    struct orr_point after = conformance_quick(f, s[2], NULL, 0);
    for (int i = 0; i < 3; i++) {
        conformance_wait(f, points[i]);
        check(f, conformance_status(f, points[i]) == ORR_COMMAND_STATUS_SKIPPED);
        check(f, strstr(conformance_outcome(f, points[i])->cause, "broke") != NULL);
    }
    conformance_wait(f, after);
    check(f, conformance_status(f, after) == ORR_COMMAND_STATUS_SKIPPED);
    for (int i = 0; i < 3; i++)
        check(f, f->verbs->fail_of(f->backend, s[i], &f->error) == ORR_DEVICE_FAILED);
    conformance_close(f);
}

/* A mismatch is found by the submit, or else ends all members as failed; never is it computed. */
static void members_that_disagree_are_not_computed(struct fixture *f) {
    struct rank ranks[2];
    open_ranks(f, 2, ranks);
    struct orr_collective members[2];
    struct job *jobs[2];
    struct orr_command commands[2];
    uint32_t streams[2] = {ranks[0].stream, ranks[1].stream};
    for (uint32_t i = 0; i < 2; i++) {
        memset(ranks[i].in, 0, 80);
        memset(ranks[i].out, GUARD, 80);
        conformance_define(f, ranks[i].in_memory, 0, 80);
        members[i] = (struct orr_collective){.kind = ORR_COLLECTIVE_ALL_REDUCE,
                                             .dtype = ORR_DTYPE_F32,
                                             .rank = i,
                                             .ranks = 2,
                                             .count = 8 + i,
                                             .in = ranks[i].in,
                                             .out = ranks[i].out};
        jobs[i] = conformance_job(f, JOB_NOTHING);
        member_job(f, &members[i], jobs[i]);
        conformance_announce(f, &jobs[i]->command, streams[i], NULL, 0);
        commands[i] = jobs[i]->command;
    }
    struct orr_point points[2];
    enum orr_status status =
        f->verbs->submit_group(f->backend, streams, commands, 2, NULL, 0, points, &f->error);
    check(f, status == ORR_OK || (status == ORR_INVALID && f->error.text[0] != '\0'));
    for (uint32_t i = 0; status == ORR_OK && i < 2; i++) {
        conformance_submitted(f, &commands[i], points[i]);
        conformance_wait(f, points[i]);
        check(f, conformance_status(f, points[i]) == ORR_COMMAND_STATUS_FAILED);
        check(f, strstr(conformance_outcome(f, points[i])->cause, "8") != NULL);
    }
    for (uint32_t i = 0; i < 2; i++)
        check(f, ranks[i].out[0] == GUARD && ranks[i].out[31] == GUARD);
    conformance_close(f);
}

#define CASE(name)                                                                                 \
    { #name, name }

const struct conformance_case conformance_collective_cases[] = {
    CASE(all_reduce_equals_the_direct_reduction),
    CASE(reduce_equals_the_direct_reduction_at_every_root),
    CASE(all_gather_equals_the_direct_concatenation),
    CASE(gather_equals_the_direct_concatenation_at_every_root),
    CASE(scatter_equals_the_pieces_of_every_roots_input),
    CASE(reduce_scatter_equals_the_pieces_of_the_direct_reduction),
    CASE(broadcast_equals_the_roots_input_for_every_root),
    CASE(all_to_all_equals_the_direct_exchange),
    CASE(sends_arrive_where_they_should_and_nowhere_else),
    CASE(members_wait_for_the_last_and_finish_together),
    CASE(a_group_waits_for_what_it_is_told_to),
    CASE(other_streams_go_on_while_a_group_waits),
    CASE(a_command_may_wait_for_one_member),
    CASE(groups_over_overlapping_streams_do_not_deadlock),
    CASE(groups_with_dispatch_hosts_do_not_deadlock),
    CASE(a_group_is_refused_as_a_whole_when_one_queue_is_full),
    CASE(a_failed_member_skips_the_whole_group),
    CASE(members_that_disagree_are_not_computed),
    {NULL, NULL},
};
