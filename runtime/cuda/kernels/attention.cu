/* Kernels of attention.h: the same source for f32 and f64. */
#include "device.h"

#include "runtime/cuda/kernels/attention.h"

enum { DEPTH = ORR__ATTENTION_DEPTH, WIDTH = ORR__ATTENTION_WIDTH, PARTS = ORR__ATTENTION_PARTS };

/* --- what is seen, and where rows are --- */

/* The rows of one key head in one block of the ring, and its keys. */
struct head {
    int64_t b, kv, block; /* which one */
    int64_t rows;         /* queries of all heads that read it */
    int64_t keys;         /* from `key_at` on in memory, in rows */
    int64_t key_at;
    int64_t hidden; /* query i of a head sees keys 0 .. i + hidden; not causal: all */
    bool all;
};

DEVICE struct head attention_head(struct lane lane, const struct orr__k_attention *shape,
                                  int64_t index) {
    struct head head;
    head.block = index % shape->blocks;
    head.kv = index / shape->blocks % shape->hkv;
    head.b = index / shape->blocks / shape->hkv;
    head.rows = shape->h / shape->hkv * shape->s;
    head.keys = shape->t;
    head.key_at = index * shape->t;
    head.all = !shape->causal;
    head.hidden = shape->t - shape->s;
    if (shape->lengths) {
        int64_t slot = shape->slots ? load_i64(shape->slots, shape->slots_dtype, head.b) : head.b;
        int64_t length = load_i64(shape->lengths, shape->lengths_dtype, head.b);
        bool known = slot >= 0 && slot < shape->sequences;
        bool fits = length == 0 || (length >= shape->s && length <= shape->capacity);
        if (!known)
            fault_raise(lane, shape->fault, ORR__FAULT_INDEX, slot, shape->sequences);
        else if (!fits)
            fault_raise(lane, shape->fault, ORR__FAULT_INDEX, length, shape->capacity + 1);
        head.keys = known && fits ? length : 0;
        head.key_at = known ? (slot * shape->hkv + head.kv) * shape->capacity : 0;
        head.hidden = length - shape->s;
    } else if (shape->causal) {
        int64_t query = shape->first + head.block, key = (query - shape->shift) % shape->total;
        key += key < 0 ? shape->total : 0;
        head.all = key < query;
        head.keys = key > query ? 0 : head.keys;
    }
    return head;
}

/* Row `row` of a head's queries in memory, -1 past the last. */
DEVICE int64_t attention_row(const struct orr__k_attention *shape, const struct head *head,
                             int64_t row) {
    int64_t query = head->kv * (shape->h / shape->hkv) + row / shape->s;
    int64_t at = ((head->b * shape->h + query) * shape->blocks + head->block) * shape->s;
    return row < head->rows ? at + row % shape->s : -1;
}

/* How many keys it sees. */
DEVICE int64_t attention_seen(const struct orr__k_attention *shape, const struct head *head,
                              int64_t row) {
    if (row >= head->rows || head->keys == 0)
        return 0;
    return head->all ? head->keys : row % shape->s + head->hidden + 1;
}

DEVICE int64_t attention_ceiling(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

#define TILE_KERNEL(name, type) KERNEL(name, type)
#define TILE_PRODUCTS           NAME(tile_products)
#define TILE_MIX                NAME(tile_mix)

#define REAL       float
#define TILE       ORR__ATTENTION_TILE_F32
#define NAME(name) name##_f32
#define LOAD       load_f32
#define STORE      store_f32
#define REAL_EXP   expf
#define REAL_LOG   logf
#include "runtime/cuda/kernels/bodies/attention.h"
#undef REAL
#undef TILE
#undef NAME
#undef LOAD
#undef STORE
#undef REAL_EXP
#undef REAL_LOG

#define REAL       double
#define TILE       ORR__ATTENTION_TILE_F64
#define NAME(name) name##_f64
#define LOAD       load_f64
#define STORE      store_f64
#define REAL_EXP   exp
#define REAL_LOG   log
#include "runtime/cuda/kernels/bodies/attention.h"
