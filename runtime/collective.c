#include "runtime/collective.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "runtime/dtype.h"

/* Elements summed at a time: the partial sums stay in the first-level cache. */
enum { BLOCK_ELEMENTS = 512 };

/* Partial results of one block, in the type that the dtype is reduced in. */
union block {
    double f64[BLOCK_ELEMENTS];
    float f32[BLOCK_ELEMENTS];
    uint64_t u64[BLOCK_ELEMENTS];
    int64_t i64[BLOCK_ELEMENTS];
    uint32_t u32[BLOCK_ELEMENTS];
    int32_t i32[BLOCK_ELEMENTS];
    uint8_t u8[BLOCK_ELEMENTS];
};

const char *orr_collective_kind_text(enum orr_collective_kind kind) {
    switch (kind) {
    case ORR_COLLECTIVE_ALL_REDUCE: return "all_reduce";
    case ORR_COLLECTIVE_ALL_GATHER: return "all_gather";
    case ORR_COLLECTIVE_REDUCE_SCATTER: return "reduce_scatter";
    case ORR_COLLECTIVE_BROADCAST: return "broadcast";
    case ORR_COLLECTIVE_BARRIER: return "barrier";
    case ORR_COLLECTIVE_REDUCE: return "reduce";
    case ORR_COLLECTIVE_GATHER: return "gather";
    case ORR_COLLECTIVE_SCATTER: return "scatter";
    case ORR_COLLECTIVE_ALL_TO_ALL: return "all_to_all";
    case ORR_COLLECTIVE_SEND_RECEIVE: return "send_receive";
    case ORR_COLLECTIVE_KIND_COUNT: break;
    }
    return "unknown";
}

const char *orr_reduction_text(enum orr_reduction reduction) {
    switch (reduction) {
    case ORR_SUM: return "sum";
    case ORR_AVG: return "avg";
    case ORR_MAX: return "max";
    case ORR_MIN: return "min";
    }
    return "unknown";
}

bool orr_collective_has_root(enum orr_collective_kind kind) {
    return kind == ORR_COLLECTIVE_BROADCAST || kind == ORR_COLLECTIVE_REDUCE ||
           kind == ORR_COLLECTIVE_GATHER || kind == ORR_COLLECTIVE_SCATTER;
}

bool orr_collective_reduces(enum orr_collective_kind kind) {
    return kind == ORR_COLLECTIVE_ALL_REDUCE || kind == ORR_COLLECTIVE_REDUCE ||
           kind == ORR_COLLECTIVE_REDUCE_SCATTER;
}

bool orr_collective_is_direct(enum orr_collective_kind kind) {
    return kind == ORR_COLLECTIVE_GATHER || kind == ORR_COLLECTIVE_SCATTER ||
           kind == ORR_COLLECTIVE_ALL_TO_ALL || kind == ORR_COLLECTIVE_SEND_RECEIVE;
}

uint64_t orr_collective_counts_length(enum orr_collective_kind kind, uint64_t ranks) {
    switch (kind) {
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_REDUCE_SCATTER:
    case ORR_COLLECTIVE_GATHER:
    case ORR_COLLECTIVE_SCATTER: return ranks;
    case ORR_COLLECTIVE_ALL_TO_ALL: return ranks * ranks;
    default: return 0;
    }
}

/* ---- pieces ------------------------------------------------------------------------------- */

/* Elements of piece `index`. */
static uint64_t piece(const struct orr_collective *c, uint64_t index) {
    return c->counts ? c->counts[index] : c->count;
}

/* Elements of `length` pieces from `first` on, `step` apart. */
static uint64_t pieces(const struct orr_collective *c, uint64_t first, uint64_t length,
                       uint64_t step) {
    if (!c->counts)
        return c->count * length;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < length; i++)
        sum += c->counts[first + i * step];
    return sum;
}

/* What rank `source` sends before its piece for `target`, and `target` gets before it. */
static uint64_t before_in(const struct orr_collective *c, uint32_t source, uint32_t target) {
    return pieces(c, (uint64_t)source * c->ranks, target, 1);
}

static uint64_t before_out(const struct orr_collective *c, uint32_t source, uint32_t target) {
    return pieces(c, target, source, c->ranks);
}

uint64_t orr_collective_in_count(const struct orr_collective *c) {
    switch (c->kind) {
    case ORR_COLLECTIVE_ALL_REDUCE:
    case ORR_COLLECTIVE_REDUCE: return c->count;
    case ORR_COLLECTIVE_BROADCAST: return c->rank == c->root ? c->count : 0;
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_GATHER: return piece(c, c->rank);
    case ORR_COLLECTIVE_REDUCE_SCATTER: return pieces(c, 0, c->ranks, 1);
    case ORR_COLLECTIVE_SCATTER: return c->rank == c->root ? pieces(c, 0, c->ranks, 1) : 0;
    case ORR_COLLECTIVE_ALL_TO_ALL: return before_in(c, c->rank, c->ranks);
    default: return 0;
    }
}

uint64_t orr_collective_out_count(const struct orr_collective *c) {
    switch (c->kind) {
    case ORR_COLLECTIVE_ALL_REDUCE:
    case ORR_COLLECTIVE_BROADCAST: return c->count;
    case ORR_COLLECTIVE_REDUCE: return c->rank == c->root ? c->count : 0;
    case ORR_COLLECTIVE_ALL_GATHER: return pieces(c, 0, c->ranks, 1);
    case ORR_COLLECTIVE_GATHER: return c->rank == c->root ? pieces(c, 0, c->ranks, 1) : 0;
    case ORR_COLLECTIVE_REDUCE_SCATTER:
    case ORR_COLLECTIVE_SCATTER: return piece(c, c->rank);
    case ORR_COLLECTIVE_ALL_TO_ALL: return before_out(c, c->ranks, c->rank);
    default: return 0;
    }
}

/* The member with a rank. Callers nearly always list members by rank. */
static const struct orr_collective *member_of(const struct orr_collective *const *members,
                                              uint32_t count, uint32_t rank) {
    if (rank < count && members[rank]->rank == rank)
        return members[rank];
    for (uint32_t i = 0; i < count; i++)
        if (members[i]->rank == rank)
            return members[i];
    return NULL;
}

/* ---- checks ------------------------------------------------------------------------------- */

static bool same_transfers(const struct orr_collective *a, const struct orr_collective *b) {
    bool same = a->transfer_count == b->transfer_count;
    for (uint32_t i = 0; same && a->transfers != b->transfers && i < a->transfer_count; i++)
        same = a->transfers[i].source == b->transfers[i].source &&
               a->transfers[i].target == b->transfers[i].target &&
               a->transfers[i].count == b->transfers[i].count &&
               a->transfers[i].from == b->transfers[i].from &&
               a->transfers[i].to == b->transfers[i].to;
    return same;
}

static enum orr_status check_counts(const struct orr_collective *a, const struct orr_collective *b,
                                    struct orr_error *error) {
    uint64_t length = orr_collective_counts_length(a->kind, a->ranks);
    bool uneven = length > 0 && (a->counts || b->counts);
    for (uint64_t i = 0; uneven && a->ranks == b->ranks && a->counts != b->counts && i < length;
         i++)
        if (piece(a, i) != piece(b, i))
            return orr_error_set(
                error, ORR_INVALID,
                "communicator %u: %s of %llu elements (piece %llu) at rank %u, of %llu at rank %u",
                a->communicator, orr_collective_kind_text(a->kind), (unsigned long long)piece(a, i),
                (unsigned long long)i, a->rank, (unsigned long long)piece(b, i), b->rank);
    if (!uneven && a->kind != ORR_COLLECTIVE_SEND_RECEIVE && a->count != b->count)
        return orr_error_set(error, ORR_INVALID,
                             "communicator %u: %s of %llu elements at rank %u, of %llu at rank %u",
                             a->communicator, orr_collective_kind_text(a->kind),
                             (unsigned long long)a->count, a->rank, (unsigned long long)b->count,
                             b->rank);
    if (a->kind == ORR_COLLECTIVE_SEND_RECEIVE && !same_transfers(a, b))
        return orr_error_set(error, ORR_INVALID,
                             "communicator %u: ranks %u and %u have different transfers",
                             a->communicator, a->rank, b->rank);
    return ORR_OK;
}

static enum orr_status check_pair(const struct orr_collective *a, const struct orr_collective *b,
                                  struct orr_error *error) {
    if (a->communicator != b->communicator)
        return orr_error_set(
            error, ORR_INVALID,
            "members of one group are of communicators %u (rank %u) and %u (rank %u)",
            a->communicator, a->rank, b->communicator, b->rank);
    if (a->kind != b->kind)
        return orr_error_set(error, ORR_INVALID,
                             "communicator %u: rank %u calls %s, rank %u calls %s", a->communicator,
                             a->rank, orr_collective_kind_text(a->kind), b->rank,
                             orr_collective_kind_text(b->kind));
    if (a->kind == ORR_COLLECTIVE_BARRIER)
        return ORR_OK;
    if (a->dtype != b->dtype)
        return orr_error_set(error, ORR_INVALID,
                             "communicator %u: %s of %s at rank %u, of %s at rank %u",
                             a->communicator, orr_collective_kind_text(a->kind),
                             orr_dtype_name(a->dtype), a->rank, orr_dtype_name(b->dtype), b->rank);
    enum orr_status status = check_counts(a, b, error);
    if (status != ORR_OK)
        return status;
    if (orr_collective_has_root(a->kind) && a->root != b->root)
        return orr_error_set(
            error, ORR_INVALID, "communicator %u: %s with root %u at rank %u, root %u at rank %u",
            a->communicator, orr_collective_kind_text(a->kind), a->root, a->rank, b->root, b->rank);
    if (orr_collective_reduces(a->kind) && a->reduction != b->reduction)
        return orr_error_set(error, ORR_INVALID,
                             "communicator %u: %s by %s at rank %u, by %s at "
                             "rank %u",
                             a->communicator, orr_collective_kind_text(a->kind),
                             orr_reduction_text(a->reduction), a->rank,
                             orr_reduction_text(b->reduction), b->rank);
    return ORR_OK;
}

/* Every rank of a transfer is a member, and every member's rank is there once. */
static enum orr_status check_parties(const struct orr_collective *const *members, uint32_t count,
                                     struct orr_error *error) {
    const struct orr_collective *first = members[0];
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k <= i; k++)
            if (members[i]->rank >= first->ranks || (k < i && members[k]->rank == members[i]->rank))
                return orr_error_set(error, ORR_INVALID,
                                     "communicator %u: member %u says rank %u of %u, %s",
                                     first->communicator, i, members[i]->rank, first->ranks,
                                     k < i ? "which is there twice" : "which there is not");
    for (uint32_t i = 0; i < first->transfer_count; i++) {
        const struct orr_transfer *t = &first->transfers[i];
        if (!member_of(members, count, t->source) || !member_of(members, count, t->target))
            return orr_error_set(error, ORR_INVALID,
                                 "communicator %u: transfer %u goes from rank %u to rank %u, which "
                                 "are not both members of the group",
                                 first->communicator, i, t->source, t->target);
    }
    return ORR_OK;
}

static enum orr_status check_ranks(const struct orr_collective *const *members, uint32_t count,
                                   struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        if (members[i]->ranks != count || members[i]->rank >= count)
            return orr_error_set(error, ORR_INVALID,
                                 "communicator %u: member %u says rank %u of %u, in a group of %u",
                                 members[i]->communicator, i, members[i]->rank, members[i]->ranks,
                                 count);
    }
    for (uint32_t rank = 0; rank < count; rank++)
        if (!member_of(members, count, rank))
            return orr_error_set(error, ORR_INVALID,
                                 "communicator %u: no member of the group has rank %u, another "
                                 "rank is there twice",
                                 members[0]->communicator, rank);
    return ORR_OK;
}

enum orr_status orr_collective_check(const struct orr_collective *const *members, uint32_t count,
                                     struct orr_error *error) {
    assert(count > 0);
    const struct orr_collective *first = members[0];
    if (first->kind >= ORR_COLLECTIVE_KIND_COUNT)
        return orr_error_set(error, ORR_INVALID, "unknown kind of collective %d", (int)first->kind);
    if (first->kind != ORR_COLLECTIVE_BARRIER && first->dtype >= ORR_DTYPE_COUNT)
        return orr_error_set(error, ORR_INVALID, "%s without an element type",
                             orr_collective_kind_text(first->kind));
    if (orr_collective_has_root(first->kind) && first->root >= count)
        return orr_error_set(error, ORR_INVALID, "%s with root %u of %u ranks",
                             orr_collective_kind_text(first->kind), first->root, count);
    if (orr_collective_reduces(first->kind) && first->reduction > ORR_MIN)
        return orr_error_set(error, ORR_INVALID, "%s by an unknown reduction %d",
                             orr_collective_kind_text(first->kind), (int)first->reduction);
    if (orr_collective_reduces(first->kind) && orr_dtype_is_storage(first->dtype))
        return orr_error_set(error, ORR_INVALID,
                             "%s of %s: no collective adds or compares quantized values; expected "
                             "f64, f32, f16, bf16, i32, i64 or bool",
                             orr_collective_kind_text(first->kind), orr_dtype_name(first->dtype));
    for (uint32_t i = 1; i < count; i++) {
        enum orr_status status = check_pair(first, members[i], error);
        if (status != ORR_OK)
            return status;
    }
    return first->kind == ORR_COLLECTIVE_SEND_RECEIVE ? check_parties(members, count, error)
                                                      : check_ranks(members, count, error);
}

static enum orr_status check_transfers(const struct orr_collective *c, struct orr_error *error) {
    for (uint32_t i = 0; i < c->transfer_count; i++) {
        const struct orr_transfer *t = &c->transfers[i];
        if (t->count > 0 && (!t->from || !t->to))
            return orr_error_set(error, ORR_INVALID, "send_receive: rank %u has no %s buffer",
                                 t->from ? t->target : t->source, t->from ? "output" : "input");
    }
    return ORR_OK;
}

enum orr_status orr_collective_check_operands(const struct orr_collective *const *members,
                                              uint32_t count, struct orr_error *error) {
    if (members[0]->kind == ORR_COLLECTIVE_SEND_RECEIVE)
        return check_transfers(members[0], error);
    for (uint32_t i = 0; i < count; i++) {
        const struct orr_collective *m = members[i];
        bool spares_out = m->kind == ORR_COLLECTIVE_BROADCAST && m->rank == m->root;
        bool needs_in = orr_collective_in_count(m) > 0;
        bool needs_out = orr_collective_out_count(m) > 0 && !spares_out;
        if ((needs_in && !m->in) || (needs_out && !m->out))
            return orr_error_set(error, ORR_INVALID, "%s: rank %u has no %s buffer",
                                 orr_collective_kind_text(m->kind), m->rank,
                                 needs_in && !m->in ? "input" : "output");
        if (m->kind == ORR_COLLECTIVE_ALL_TO_ALL && needs_in && count > 1 && m->in == m->out)
            return orr_error_set(error, ORR_INVALID, "all_to_all: rank %u's input is its output",
                                 m->rank);
    }
    return ORR_OK;
}

/* ---- reductions --------------------------------------------------------------------------- */

static double f64_max(double a, double b) {
    return b > a || b != b ? b : a;
}

static double f64_min(double a, double b) {
    return b < a || b != b ? b : a;
}

static float f32_max(float a, float b) {
    return b > a || b != b ? b : a;
}

static float f32_min(float a, float b) {
    return b < a || b != b ? b : a;
}

/* A loop over the block for each reduction; `x` is the term. */
#define REDUCE(sum_field, field, type, load, max, min)                                             \
    for (size_t i = 0; reduction <= ORR_AVG && i < n; i++)                                         \
        block->sum_field[i] += load;                                                               \
    for (size_t i = 0; reduction == ORR_MAX && i < n; i++) {                                       \
        type a = block->field[i], b = (type)load;                                                  \
        block->field[i] = max;                                                                     \
    }                                                                                              \
    for (size_t i = 0; reduction == ORR_MIN && i < n; i++) {                                       \
        type a = block->field[i], b = (type)load;                                                  \
        block->field[i] = min;                                                                     \
    }

static void block_f32(enum orr_dtype dtype, enum orr_reduction reduction, union block *block,
                      const void *in, size_t n) {
    const uint16_t *half = in;
    if (dtype == ORR_DTYPE_F16) {
        REDUCE(f32, f32, float, orr_f32_from_f16(half[i]), f32_max(a, b), f32_min(a, b))
    } else if (dtype == ORR_DTYPE_BF16) {
        REDUCE(f32, f32, float, orr_f32_from_bf16(half[i]), f32_max(a, b), f32_min(a, b))
    } else {
        REDUCE(f32, f32, float, ((const float *)in)[i], f32_max(a, b), f32_min(a, b))
    }
}

static void block_bool(enum orr_reduction reduction, union block *block, const uint8_t *in,
                       size_t n) {
    bool all = reduction == ORR_AVG || reduction == ORR_MIN;
    for (size_t i = 0; i < n; i++)
        block->u8[i] = all ? block->u8[i] && in[i] : block->u8[i] || in[i];
}

/* Adds a rank's terms to those before it. Integers are added unsigned: they wrap around. */
static void block_reduce(enum orr_dtype dtype, enum orr_reduction reduction, union block *block,
                         const void *in, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F64:
        REDUCE(f64, f64, double, ((const double *)in)[i], f64_max(a, b), f64_min(a, b))
        break;
    case ORR_DTYPE_F32:
    case ORR_DTYPE_F16:
    case ORR_DTYPE_BF16: block_f32(dtype, reduction, block, in, n); break;
    case ORR_DTYPE_I32:
        REDUCE(u32, i32, int32_t, ((const uint32_t *)in)[i], b > a ? b : a, b < a ? b : a)
        break;
    case ORR_DTYPE_I64:
        REDUCE(u64, i64, int64_t, ((const uint64_t *)in)[i], b > a ? b : a, b < a ? b : a)
        break;
    case ORR_DTYPE_BOOL: block_bool(reduction, block, in, n); break;
    case ORR_DTYPE_I8:
    case ORR_DTYPE_F8E4M3:
    case ORR_DTYPE_F8E5M2: /* orr_collective_check refuses them */
    case ORR_DTYPE_COUNT:
    case ORR_DTYPE_NONE: assert(0); break;
    }
}

/* The first term: copied, not added to zero, so that a single -0.0 stays what it is. */
static void block_start(enum orr_dtype dtype, union block *block, const void *in, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            block->f32[i] = orr_f32_from_f16(((const uint16_t *)in)[i]);
        break;
    case ORR_DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            block->f32[i] = orr_f32_from_bf16(((const uint16_t *)in)[i]);
        break;
    case ORR_DTYPE_BOOL:
        for (size_t i = 0; i < n; i++)
            block->u8[i] = ((const uint8_t *)in)[i] != 0;
        break;
    default: memcpy(block, in, n * orr_dtype_size(dtype)); break;
    }
}

static void block_average(enum orr_dtype dtype, union block *block, uint32_t ranks, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F64:
        for (size_t i = 0; i < n; i++)
            block->f64[i] /= (double)ranks;
        break;
    case ORR_DTYPE_I32:
        for (size_t i = 0; i < n; i++)
            block->i32[i] /= (int32_t)ranks;
        break;
    case ORR_DTYPE_I64:
        for (size_t i = 0; i < n; i++)
            block->i64[i] /= (int64_t)ranks;
        break;
    case ORR_DTYPE_BOOL: break;
    default:
        for (size_t i = 0; i < n; i++)
            block->f32[i] /= (float)ranks;
    }
}

static void block_store(enum orr_dtype dtype, const union block *block, void *out, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = orr_f16_from_f32(block->f32[i]);
        break;
    case ORR_DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = orr_bf16_from_f32(block->f32[i]);
        break;
    default: memcpy(out, block, n * orr_dtype_size(dtype)); break;
    }
}

/* Reduces `n` elements from element `first` of every rank's input, in rank order. */
static void block_fill(const struct orr_collective *const *members, uint32_t count, uint64_t first,
                       size_t n, union block *block) {
    enum orr_dtype dtype = members[0]->dtype;
    enum orr_reduction reduction = members[0]->reduction;
    size_t offset = (size_t)first * orr_dtype_size(dtype);
    for (uint32_t rank = 0; rank < count; rank++) {
        const char *in = (const char *)member_of(members, count, rank)->in + offset;
        if (rank == 0)
            block_start(dtype, block, in, n);
        else
            block_reduce(dtype, reduction, block, in, n);
    }
    if (reduction == ORR_AVG)
        block_average(dtype, block, count, n);
}

static size_t block_length(uint64_t done, uint64_t total) {
    return total - done < BLOCK_ELEMENTS ? (size_t)(total - done) : BLOCK_ELEMENTS;
}

/* Every input of a block is read before any output of it is written: in place is safe. */
static void all_reduce(const struct orr_collective *const *members, uint32_t count) {
    enum orr_dtype dtype = members[0]->dtype;
    size_t size = orr_dtype_size(dtype);
    uint64_t total = members[0]->count;
    bool all = members[0]->kind == ORR_COLLECTIVE_ALL_REDUCE;
    union block block;
    for (uint64_t done = 0; done < total; done += BLOCK_ELEMENTS) {
        size_t n = block_length(done, total);
        block_fill(members, count, done, n, &block);
        for (uint32_t i = 0; i < count; i++)
            if (all || members[i]->rank == members[i]->root)
                block_store(dtype, &block, (char *)members[i]->out + (size_t)done * size, n);
    }
}

static void reduce_scatter(const struct orr_collective *const *members, uint32_t count) {
    enum orr_dtype dtype = members[0]->dtype;
    size_t size = orr_dtype_size(dtype);
    union block block;
    for (uint32_t i = 0; i < count; i++) {
        const struct orr_collective *m = members[i];
        uint64_t total = piece(m, m->rank), first = pieces(m, 0, m->rank, 1);
        for (uint64_t done = 0; done < total; done += BLOCK_ELEMENTS) {
            size_t n = block_length(done, total);
            block_fill(members, count, first + done, n, &block);
            block_store(dtype, &block, (char *)m->out + (size_t)done * size, n);
        }
    }
}

/* ---- moves -------------------------------------------------------------------------------- */

uint64_t orr_collective_piece(const struct orr_collective *c, uint32_t rank, uint64_t *out_count) {
    *out_count = piece(c, rank);
    return pieces(c, 0, rank, 1);
}

/* Who is told of moves. */
struct visitor {
    void (*visit)(void *context, const struct orr_collective_move *move);
    void *context;
};

static void move(const struct visitor *visitor, const struct orr_collective *source,
                 uint32_t target, void *to, uint64_t to_first, const void *from,
                 uint64_t from_first, uint64_t count) {
    size_t size = orr_dtype_size(source->dtype);
    if (count == 0)
        return;
    struct orr_collective_move m = {.source = source->rank,
                                    .target = target,
                                    .from = (const char *)from + (size_t)from_first * size,
                                    .to = (char *)to + (size_t)to_first * size,
                                    .bytes = (uint64_t)count * size};
    if (m.from != m.to)
        visitor->visit(visitor->context, &m);
}

/* Of a gather only the root has room for the pieces. */
static void gather(const struct orr_collective *const *members, uint32_t count,
                   const struct visitor *visitor) {
    bool all = members[0]->kind == ORR_COLLECTIVE_ALL_GATHER;
    uint64_t first = 0;
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct orr_collective *from = member_of(members, count, rank);
        for (uint32_t i = 0; i < count; i++)
            if (all || members[i]->rank == members[i]->root)
                move(visitor, from, members[i]->rank, members[i]->out, first, from->in, 0,
                     piece(from, rank));
        first += piece(from, rank);
    }
}

static void broadcast(const struct orr_collective *const *members, uint32_t count,
                      const struct visitor *visitor) {
    const struct orr_collective *root = member_of(members, count, members[0]->root);
    for (uint32_t i = 0; i < count; i++)
        if (members[i]->out)
            move(visitor, root, members[i]->rank, members[i]->out, 0, root->in, 0, root->count);
}

static void scatter(const struct orr_collective *const *members, uint32_t count,
                    const struct visitor *visitor) {
    const struct orr_collective *root = member_of(members, count, members[0]->root);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = members[i]->rank;
        move(visitor, root, rank, members[i]->out, 0, root->in, pieces(root, 0, rank, 1),
             piece(root, rank));
    }
}

static void all_to_all(const struct orr_collective *const *members, uint32_t count,
                       const struct visitor *visitor) {
    for (uint32_t s = 0; s < count; s++) {
        const struct orr_collective *from = member_of(members, count, s);
        for (uint32_t t = 0; t < count; t++)
            move(visitor, from, t, member_of(members, count, t)->out, before_out(from, s, t),
                 from->in, before_in(from, s, t), piece(from, (uint64_t)s * count + t));
    }
}

static void send_receive(const struct orr_collective *c, const struct visitor *visitor) {
    struct orr_collective source = *c;
    for (uint32_t i = 0; i < c->transfer_count; i++) {
        const struct orr_transfer *t = &c->transfers[i];
        source.rank = t->source;
        move(visitor, &source, t->target, t->to, 0, t->from, 0, t->count);
    }
}

void orr_collective_moves(const struct orr_collective *const *members, uint32_t count,
                          void (*visit)(void *context, const struct orr_collective_move *move),
                          void *context) {
    struct visitor visitor = {visit, context};
    switch (members[0]->kind) {
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_GATHER: gather(members, count, &visitor); break;
    case ORR_COLLECTIVE_BROADCAST: broadcast(members, count, &visitor); break;
    case ORR_COLLECTIVE_SCATTER: scatter(members, count, &visitor); break;
    case ORR_COLLECTIVE_ALL_TO_ALL: all_to_all(members, count, &visitor); break;
    case ORR_COLLECTIVE_SEND_RECEIVE: send_receive(members[0], &visitor); break;
    case ORR_COLLECTIVE_ALL_REDUCE:
    case ORR_COLLECTIVE_REDUCE:
    case ORR_COLLECTIVE_REDUCE_SCATTER:
    case ORR_COLLECTIVE_BARRIER:
    case ORR_COLLECTIVE_KIND_COUNT: break;
    }
}

/* A rank may send to itself. */
static void copy(void *context, const struct orr_collective_move *move) {
    (void)context;
    memmove(move->to, move->from, (size_t)move->bytes);
}

enum orr_status orr_collective_run(const struct orr_collective *const *members, uint32_t count,
                                   struct orr_error *error) {
    enum orr_status status = orr_collective_check(members, count, error);
    if (status == ORR_OK)
        status = orr_collective_check_operands(members, count, error);
    if (status != ORR_OK)
        return status;
    switch (members[0]->kind) {
    case ORR_COLLECTIVE_ALL_REDUCE:
    case ORR_COLLECTIVE_REDUCE: all_reduce(members, count); break;
    case ORR_COLLECTIVE_REDUCE_SCATTER: reduce_scatter(members, count); break;
    default: orr_collective_moves(members, count, copy, NULL); break;
    }
    return ORR_OK;
}

/* ---- traffic ------------------------------------------------------------------------------ */

typedef unsigned __int128 wide;

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Elements on the busiest link of a ring: all pieces but the smallest. */
static uint64_t all_but_the_smallest(const struct orr_collective *c) {
    uint64_t sum = 0, least = piece(c, 0);
    for (uint32_t rank = 0; rank < c->ranks; rank++) {
        sum += piece(c, rank);
        least = piece(c, rank) < least ? piece(c, rank) : least;
    }
    return sum - least;
}

static uint64_t busiest_of_all_to_all(const struct orr_collective *c) {
    uint64_t most = 0;
    for (uint32_t rank = 0; c->counts && rank < c->ranks; rank++) {
        uint64_t own = piece(c, (uint64_t)rank * c->ranks + rank);
        most = larger(most, before_in(c, rank, c->ranks) - own);
        most = larger(most, before_out(c, c->ranks, rank) - own);
    }
    return c->counts ? most : c->count * (c->ranks - 1);
}

static uint64_t busiest_of_transfers(const struct orr_collective *c) {
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < c->ranks; rank++) {
        uint64_t sent = 0, got = 0;
        for (uint32_t i = 0; i < c->transfer_count; i++) {
            const struct orr_transfer *t = &c->transfers[i];
            sent += t->source == rank && t->target != rank ? t->count : 0;
            got += t->target == rank && t->source != rank ? t->count : 0;
        }
        most = larger(most, larger(sent, got));
    }
    return most;
}

/* Elements on the busiest link but for an all-reduce. */
static uint64_t elements(const struct orr_collective *c) {
    switch (c->kind) {
    case ORR_COLLECTIVE_ALL_GATHER:
    case ORR_COLLECTIVE_REDUCE_SCATTER: return all_but_the_smallest(c);
    case ORR_COLLECTIVE_BROADCAST:
    case ORR_COLLECTIVE_REDUCE: return c->ranks > 1 ? c->count : 0;
    case ORR_COLLECTIVE_GATHER:
    case ORR_COLLECTIVE_SCATTER: return pieces(c, 0, c->ranks, 1) - piece(c, c->root);
    case ORR_COLLECTIVE_ALL_TO_ALL: return busiest_of_all_to_all(c);
    case ORR_COLLECTIVE_SEND_RECEIVE: return busiest_of_transfers(c);
    default: return 0;
    }
}

struct orr_traffic orr_collective_traffic(const struct orr_collective *c) {
    uint64_t n = c->ranks, hops = n - 1;
    bool twice = c->kind == ORR_COLLECTIVE_ALL_REDUCE || c->kind == ORR_COLLECTIVE_BARRIER;
    if (twice)
        hops = 2 * (n - 1);
    else if (orr_collective_is_direct(c->kind))
        hops = n > 1;
    if (c->kind == ORR_COLLECTIVE_BARRIER)
        return (struct orr_traffic){hops, 0};
    wide size = orr_dtype_size(c->dtype);
    wide bytes = c->kind == ORR_COLLECTIVE_ALL_REDUCE ? (wide)2 * (n - 1) * (c->count * size) / n
                                                      : elements(c) * size;
    return (struct orr_traffic){hops, bytes > INT64_MAX ? INT64_MAX : (uint64_t)bytes};
}

int64_t orr_collective_link_ns(const struct orr_collective *c, const struct orr_device_spec *spec,
                               bool span_nodes) {
    struct orr_traffic traffic = orr_collective_traffic(c);
    uint64_t link = span_nodes ? spec->network_bandwidth : spec->peer_bandwidth;
    int64_t hop_ns = span_nodes ? spec->network_latency_ns : spec->peer_latency_ns;
    if (link == 0)
        return ORR_TIME_NONE;
    wide ns = ((wide)traffic.bytes * 1000000000 + link - 1) / link;
    ns += (wide)(uint64_t)hop_ns * traffic.hops + (wide)(uint64_t)spec->kernel_fixed_ns;
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}
