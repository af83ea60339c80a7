#include "runtime/collective.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "runtime/dtype.h"

/* Elements summed at a time: the partial sums stay in the first-level cache. */
enum { BLOCK_ELEMENTS = 512 };

/* Partial sums of one block, in the type that the dtype is summed in. */
union block {
    double f64[BLOCK_ELEMENTS];
    float f32[BLOCK_ELEMENTS];
    uint64_t u64[BLOCK_ELEMENTS];
    uint32_t u32[BLOCK_ELEMENTS];
    uint8_t u8[BLOCK_ELEMENTS];
};

const char *orr_collective_kind_text(enum orr_collective_kind kind) {
    switch (kind) {
    case ORR_COLLECTIVE_ALL_REDUCE: return "all_reduce";
    case ORR_COLLECTIVE_ALL_GATHER: return "all_gather";
    case ORR_COLLECTIVE_REDUCE_SCATTER: return "reduce_scatter";
    case ORR_COLLECTIVE_BROADCAST: return "broadcast";
    case ORR_COLLECTIVE_BARRIER: return "barrier";
    case ORR_COLLECTIVE_KIND_COUNT: break;
    }
    return "unknown";
}

/* The member with a rank. Callers nearly always list members by rank. */
static const struct orr_collective *member_of(const struct orr_collective *const *members,
                                              uint32_t count, uint32_t rank) {
    if (members[rank]->rank == rank)
        return members[rank];
    for (uint32_t i = 0; i < count; i++)
        if (members[i]->rank == rank)
            return members[i];
    return NULL;
}

/* ---- checks ------------------------------------------------------------------------------- */

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
    if (a->count != b->count)
        return orr_error_set(error, ORR_INVALID,
                             "communicator %u: %s of %llu elements at rank %u, of %llu at rank %u",
                             a->communicator, orr_collective_kind_text(a->kind),
                             (unsigned long long)a->count, a->rank, (unsigned long long)b->count,
                             b->rank);
    if (a->kind == ORR_COLLECTIVE_BROADCAST && a->root != b->root)
        return orr_error_set(
            error, ORR_INVALID,
            "communicator %u: broadcast with root %u at rank %u, root %u at rank %u",
            a->communicator, a->root, a->rank, b->root, b->rank);
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
    if (first->kind == ORR_COLLECTIVE_BROADCAST && first->root >= count)
        return orr_error_set(error, ORR_INVALID, "broadcast from root %u of %u ranks", first->root,
                             count);
    for (uint32_t i = 1; i < count; i++) {
        enum orr_status status = check_pair(first, members[i], error);
        if (status != ORR_OK)
            return status;
    }
    return check_ranks(members, count, error);
}

static enum orr_status check_pointers(const struct orr_collective *const *members, uint32_t count,
                                      struct orr_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const struct orr_collective *m = members[i];
        if (m->kind == ORR_COLLECTIVE_BARRIER || m->count == 0)
            continue;
        bool is_root = m->kind == ORR_COLLECTIVE_BROADCAST && m->rank == m->root;
        bool needs_in = m->kind != ORR_COLLECTIVE_BROADCAST || is_root;
        if ((needs_in && !m->in) || (!is_root && !m->out))
            return orr_error_set(error, ORR_INVALID, "%s: rank %u has no %s buffer",
                                 orr_collective_kind_text(m->kind), m->rank,
                                 needs_in && !m->in ? "input" : "output");
    }
    return ORR_OK;
}

/* ---- sums --------------------------------------------------------------------------------- */

static void block_add(enum orr_dtype dtype, union block *sum, const void *in, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F64:
        for (size_t i = 0; i < n; i++)
            sum->f64[i] += ((const double *)in)[i];
        break;
    case ORR_DTYPE_F32:
        for (size_t i = 0; i < n; i++)
            sum->f32[i] += ((const float *)in)[i];
        break;
    case ORR_DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            sum->f32[i] += orr_f32_from_f16(((const uint16_t *)in)[i]);
        break;
    case ORR_DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            sum->f32[i] += orr_f32_from_bf16(((const uint16_t *)in)[i]);
        break;
    case ORR_DTYPE_I32:
        for (size_t i = 0; i < n; i++)
            sum->u32[i] += ((const uint32_t *)in)[i];
        break;
    case ORR_DTYPE_I64:
        for (size_t i = 0; i < n; i++)
            sum->u64[i] += ((const uint64_t *)in)[i];
        break;
    case ORR_DTYPE_BOOL:
        for (size_t i = 0; i < n; i++)
            sum->u8[i] = sum->u8[i] || ((const uint8_t *)in)[i];
        break;
    case ORR_DTYPE_COUNT:
    case ORR_DTYPE_NONE: assert(0); break;
    }
}

/* The first addend: copied, not added to zero, so that a single -0.0 stays what it is. */
static void block_start(enum orr_dtype dtype, union block *sum, const void *in, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            sum->f32[i] = orr_f32_from_f16(((const uint16_t *)in)[i]);
        break;
    case ORR_DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            sum->f32[i] = orr_f32_from_bf16(((const uint16_t *)in)[i]);
        break;
    case ORR_DTYPE_BOOL:
        for (size_t i = 0; i < n; i++)
            sum->u8[i] = ((const uint8_t *)in)[i] != 0;
        break;
    default: memcpy(sum, in, n * orr_dtype_size(dtype)); break;
    }
}

static void block_store(enum orr_dtype dtype, const union block *sum, void *out, size_t n) {
    switch (dtype) {
    case ORR_DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = orr_f16_from_f32(sum->f32[i]);
        break;
    case ORR_DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = orr_bf16_from_f32(sum->f32[i]);
        break;
    default: memcpy(out, sum, n * orr_dtype_size(dtype)); break;
    }
}

/* Sums `n` elements from element `first` of every rank's input, in rank order. */
static void block_sum(const struct orr_collective *const *members, uint32_t count, uint64_t first,
                      size_t n, union block *sum) {
    enum orr_dtype dtype = members[0]->dtype;
    size_t offset = (size_t)first * orr_dtype_size(dtype);
    for (uint32_t rank = 0; rank < count; rank++) {
        const char *in = (const char *)member_of(members, count, rank)->in + offset;
        if (rank == 0)
            block_start(dtype, sum, in, n);
        else
            block_add(dtype, sum, in, n);
    }
}

static size_t block_length(uint64_t done, uint64_t total) {
    return total - done < BLOCK_ELEMENTS ? (size_t)(total - done) : BLOCK_ELEMENTS;
}

/* Every input of a block is read before any output of it is written: in place is safe. */
static void all_reduce(const struct orr_collective *const *members, uint32_t count) {
    enum orr_dtype dtype = members[0]->dtype;
    size_t size = orr_dtype_size(dtype);
    uint64_t total = members[0]->count;
    union block sum;
    for (uint64_t done = 0; done < total; done += BLOCK_ELEMENTS) {
        size_t n = block_length(done, total);
        block_sum(members, count, done, n, &sum);
        for (uint32_t i = 0; i < count; i++)
            block_store(dtype, &sum, (char *)members[i]->out + (size_t)done * size, n);
    }
}

static void reduce_scatter(const struct orr_collective *const *members, uint32_t count) {
    enum orr_dtype dtype = members[0]->dtype;
    size_t size = orr_dtype_size(dtype);
    uint64_t total = members[0]->count;
    union block sum;
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t done = 0; done < total; done += BLOCK_ELEMENTS) {
            size_t n = block_length(done, total);
            block_sum(members, count, members[i]->rank * total + done, n, &sum);
            block_store(dtype, &sum, (char *)members[i]->out + (size_t)done * size, n);
        }
    }
}

static void copy(void *to, const void *from, size_t bytes) {
    if (to != from)
        memcpy(to, from, bytes);
}

static void all_gather(const struct orr_collective *const *members, uint32_t count) {
    size_t bytes = (size_t)members[0]->count * orr_dtype_size(members[0]->dtype);
    for (uint32_t rank = 0; rank < count; rank++) {
        const void *in = member_of(members, count, rank)->in;
        for (uint32_t i = 0; i < count; i++)
            copy((char *)members[i]->out + rank * bytes, in, bytes);
    }
}

static void broadcast(const struct orr_collective *const *members, uint32_t count) {
    size_t bytes = (size_t)members[0]->count * orr_dtype_size(members[0]->dtype);
    const void *in = member_of(members, count, members[0]->root)->in;
    for (uint32_t i = 0; i < count; i++)
        if (members[i]->out)
            copy(members[i]->out, in, bytes);
}

enum orr_status orr_collective_run(const struct orr_collective *const *members, uint32_t count,
                                   struct orr_error *error) {
    enum orr_status status = orr_collective_check(members, count, error);
    if (status == ORR_OK)
        status = check_pointers(members, count, error);
    if (status != ORR_OK || members[0]->count == 0)
        return status;
    switch (members[0]->kind) {
    case ORR_COLLECTIVE_ALL_REDUCE: all_reduce(members, count); break;
    case ORR_COLLECTIVE_ALL_GATHER: all_gather(members, count); break;
    case ORR_COLLECTIVE_REDUCE_SCATTER: reduce_scatter(members, count); break;
    case ORR_COLLECTIVE_BROADCAST: broadcast(members, count); break;
    case ORR_COLLECTIVE_BARRIER:
    case ORR_COLLECTIVE_KIND_COUNT: break;
    }
    return ORR_OK;
}
