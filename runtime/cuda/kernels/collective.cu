/* Kernels of collective.h: the arithmetic of runtime/collective.c. */
#include "device.h"

#include "runtime/cuda/kernels/collective.h"

/* As enum orr_reduction of runtime/backend.h, which is no header for kernels. */
enum { SUM, AVG, MAX, MIN };

/* Elements that a thread has in flight: it loads a term of each before it adds any. */
enum { LANES = 4 };

/* --- one number of two terms --- */

#define JOIN_FLOAT(name, type)                                                                     \
    DEVICE type name(type a, type b, int32_t reduction) {                                          \
        if (reduction <= AVG)                                                                      \
            return a + b;                                                                          \
        bool takes = reduction == MAX ? b > a : b < a;                                             \
        return takes || b != b ? b : a;                                                            \
    }
JOIN_FLOAT(join_f32, float)
JOIN_FLOAT(join_f64, double)

/* Integers are added unsigned: they wrap around. */
#define JOIN_INTEGER(name, type, whole)                                                            \
    DEVICE type name(type a, type b, int32_t reduction) {                                          \
        if (reduction <= AVG)                                                                      \
            return (type)((whole)a + (whole)b);                                                    \
        bool takes = reduction == MAX ? b > a : b < a;                                             \
        return takes ? b : a;                                                                      \
    }
JOIN_INTEGER(join_i32, int32_t, uint32_t)
JOIN_INTEGER(join_i64, int64_t, uint64_t)

DEVICE uint8_t join_bool(uint8_t a, uint8_t b, int32_t reduction) {
    bool all = reduction == AVG || reduction == MIN;
    return all ? a && b : a || b;
}

/* --- reductions --- */

/* Elements [begin, end) for the ranks [first, last) that have an out. `load`: element i of `in`;
 * `store`: x becomes element i - base of `out`. */
#define REDUCE(name, type, load, join, average, store)                                             \
    DEVICE void name(struct lane lane, const struct orr__k_reduction *r,                           \
                     const struct orr__k_term *terms, uint64_t begin, uint64_t end, uint64_t base, \
                     uint32_t first, uint32_t last) {                                              \
        int64_t step = index_step(lane), count = (int64_t)(end - begin);                           \
        for (int64_t at = first_index(lane); at < count; at += LANES * step) {                     \
            type sums[LANES], next[LANES];                                                         \
            ROLLED for (uint32_t rank = 0; rank < r->ranks; rank++) {                              \
                const void *in = terms[rank].in;                                                   \
                for (int k = 0; k < LANES; k++) {                                                  \
                    int64_t i = (int64_t)begin + at + k * step;                                    \
                    if (at + k * step < count)                                                     \
                        next[k] = load;                                                            \
                }                                                                                  \
                for (int k = 0; k < LANES; k++)                                                    \
                    if (at + k * step < count)                                                     \
                        sums[k] = rank == 0 ? next[k] : join(sums[k], next[k], r->reduction);      \
            }                                                                                      \
            for (int k = 0; k < LANES; k++) {                                                      \
                int64_t i = (int64_t)(begin - base) + at + k * step;                               \
                type x = sums[k];                                                                  \
                if (at + k * step >= count)                                                        \
                    break;                                                                         \
                if (r->reduction == AVG)                                                           \
                    x = average;                                                                   \
                ROLLED for (uint32_t rank = first; rank < last; rank++) {                          \
                    void *out = terms[rank].out;                                                   \
                    if (out)                                                                       \
                        store;                                                                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define REDUCE_FLOAT(name, dtype)                                                                  \
    REDUCE(name, float, load_f32(in, dtype, i), join_f32, x / (float)r->ranks,                     \
           store_f32(out, dtype, i, x))
REDUCE_FLOAT(reduce_f32, ORR_DTYPE_F32)
REDUCE_FLOAT(reduce_f16, ORR_DTYPE_F16)
REDUCE_FLOAT(reduce_bf16, ORR_DTYPE_BF16)

#define REDUCE_PLAIN(name, type, join, average)                                                    \
    REDUCE(name, type, ((const type *)in)[i], join, average, ((type *)out)[i] = x)
REDUCE_PLAIN(reduce_f64, double, join_f64, x / (double)r->ranks)
REDUCE_PLAIN(reduce_i32, int32_t, join_i32, x / (int32_t)r->ranks)
REDUCE_PLAIN(reduce_i64, int64_t, join_i64, x / (int64_t)r->ranks)

REDUCE(reduce_bool, uint8_t, ((const uint8_t *)in)[i] != 0, join_bool, x, ((uint8_t *)out)[i] = x)

DEVICE void reduce_range(struct lane lane, const struct orr__k_reduction *r,
                         const struct orr__k_term *terms, uint64_t begin, uint64_t end,
                         uint64_t base, uint32_t first, uint32_t last) {
    switch (r->dtype) {
    case ORR_DTYPE_F64: reduce_f64(lane, r, terms, begin, end, base, first, last); break;
    case ORR_DTYPE_F16: reduce_f16(lane, r, terms, begin, end, base, first, last); break;
    case ORR_DTYPE_BF16: reduce_bf16(lane, r, terms, begin, end, base, first, last); break;
    case ORR_DTYPE_I32: reduce_i32(lane, r, terms, begin, end, base, first, last); break;
    case ORR_DTYPE_I64: reduce_i64(lane, r, terms, begin, end, base, first, last); break;
    case ORR_DTYPE_BOOL: reduce_bool(lane, r, terms, begin, end, base, first, last); break;
    default: reduce_f32(lane, r, terms, begin, end, base, first, last); break;
    }
}

DEVICE void reduce(struct lane lane, const struct orr__k_reduction *r,
                   const struct orr__k_term *terms) {
    uint32_t pieces = r->scattered ? r->ranks : 1;
    for (uint32_t p = 0; p < pieces; p++) {
        uint64_t begin = r->scattered ? terms[p].begin : 0;
        uint64_t end = p + 1 < pieces ? terms[p + 1].begin : r->count;
        reduce_range(lane, r, terms, begin, end, begin, r->scattered ? p : 0,
                     r->scattered ? p + 1 : r->ranks);
    }
}

KERNEL(reduce_few, struct orr__k_reduce_few) {
    reduce(lane, &a->reduction, a->terms);
}

KERNEL(reduce_many, struct orr__k_reduce_many) {
    reduce(lane, &a->reduction, a->terms);
}

/* --- bytes --- */

/* What one load takes at best, and at least for what is aligned to nothing; memory of any type. */
struct __attribute__((aligned(16), may_alias)) wide {
    uint64_t low, high;
};
struct __attribute__((aligned(4), may_alias)) word {
    uint32_t bits;
};

/* Whole units from byte `done` on, where both ends are aligned to them. */
#define CARRY_UNITS(unit)                                                                          \
    if (((uintptr_t)s->to | (uintptr_t)s->from) % sizeof(struct unit) == 0) {                      \
        struct unit *to = (struct unit *)s->to;                                                    \
        const struct unit *from = (const struct unit *)s->from;                                    \
        int64_t begin = done / (int64_t)sizeof *to, end = bytes / (int64_t)sizeof *to;             \
        for (int64_t i = begin + first; i < end; i += step)                                        \
            to[i] = from[i];                                                                       \
        done = end * (int64_t)sizeof *to;                                                          \
    }

/* The block is the `index`-th of `blocks` that carry this segment. */
DEVICE void carry_segment(struct lane lane, const struct orr__k_segment *s, int64_t index,
                          int64_t blocks) {
    int64_t first = index * thread_count(lane) + thread_index(lane);
    int64_t step = blocks * thread_count(lane), bytes = (int64_t)s->bytes, done = 0;
    CARRY_UNITS(wide)
    CARRY_UNITS(word)
    for (int64_t i = done + first; i < bytes; i += step)
        ((char *)s->to)[i] = ((const char *)s->from)[i];
}

/* Blocks are dealt out to segments: several to each, or, with more segments than blocks, one to
 * every block_count-th. */
DEVICE void carry(struct lane lane, const struct orr__k_segment *segments, int64_t count) {
    int64_t blocks = block_count(lane) / count, at = block_index(lane);
    if (blocks == 0) {
        for (int64_t i = at; i < count; i += block_count(lane))
            carry_segment(lane, &segments[i], 0, 1);
    } else if (at / blocks < count) {
        carry_segment(lane, &segments[at / blocks], at % blocks, blocks);
    }
}

KERNEL(carry_few, struct orr__k_carry_few) {
    carry(lane, a->segments, a->count);
}

KERNEL(carry_many, struct orr__k_carry_many) {
    carry(lane, a->segments, a->count);
}

/* --- what NCCL leaves undone --- */

KERNEL(settle, struct orr__k_settle) {
    for (int64_t i = first_index(lane); i < (int64_t)a->count; i += index_step(lane)) {
        if (a->dtype == ORR_DTYPE_I32)
            ((int32_t *)a->x)[i] /= (int32_t)a->ranks;
        else if (a->dtype == ORR_DTYPE_I64)
            ((int64_t *)a->x)[i] /= (int64_t)a->ranks;
        else
            ((uint8_t *)a->x)[i] = ((const uint8_t *)a->x)[i] != 0;
    }
}
