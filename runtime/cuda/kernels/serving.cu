/* Kernels of serving.h. */
#include "device.h"

#include "runtime/cuda/kernels/serving.h"

KERNEL(rope_angles, struct orr__k_rope_angles) {
    int64_t rows = a->sequences * a->positions;
    for (int64_t i = first_index(lane); i < rows * a->half; i += index_step(lane)) {
        int64_t row = i / a->half, pair = i % a->half;
        int64_t start =
            a->starts ? load_i64(a->starts, a->starts_dtype, row / a->positions) : a->offset;
        double position = (double)start + (double)(row % a->positions);
        double angle = position * pow(a->theta, -(double)(2 * pair) / (double)(2 * a->half));
        int dtype = a->wide ? ORR_DTYPE_F64 : ORR_DTYPE_F32;
        store_f64(a->cosines, dtype, i, cos(angle));
        store_f64(a->sines, dtype, i, sin(angle));
    }
}

#define ROPE(suffix, type)                                                                         \
    KERNEL(rope_##suffix, struct orr__k_rope) {                                                    \
        int64_t rows = a->sequences * a->inner * a->positions;                                     \
        for (int64_t i = first_index(lane); i < rows * a->half; i += index_step(lane)) {           \
            int64_t row = i / a->half, pair = i % a->half, at = row * 2 * a->half + pair;          \
            int64_t angle = row / a->positions / a->inner * a->positions + row % a->positions;     \
            type c = ((const type *)a->cosines)[angle * a->half + pair];                           \
            type s = ((const type *)a->sines)[angle * a->half + pair];                             \
            type x = load_##suffix(a->x, a->dtype, at);                                            \
            type y = load_##suffix(a->x, a->dtype, at + a->half);                                  \
            s = a->back ? -s : s;                                                                  \
            store_##suffix(a->y, a->dtype, at, x *c - y * s);                                      \
            store_##suffix(a->y, a->dtype, at + a->half, y * c + x * s);                           \
        }                                                                                          \
    }
ROPE(f32, float)
ROPE(f64, double)

/* True if all sequences' indices are in range; else one thread of the grid says which is not. */
DEVICE bool append_is_valid(struct lane lane, const struct orr__k_append *a) {
    bool says = block_index(lane) == 0 && thread_index(lane) == 0, valid = true;
    for (int64_t i = 0; i < a->b && valid; i++) {
        int64_t slot = a->slots ? load_i64(a->slots, a->slots_dtype, i) : i;
        int64_t position = load_i64(a->positions, a->positions_dtype, i);
        bool known = slot >= 0 && slot < a->sequences, fits = position <= a->capacity - a->count;
        valid = known && fits;
        if (!known && says)
            fault_raise(lane, a->fault, ORR__FAULT_INDEX, slot, a->sequences);
        else if (!fits && says)
            fault_raise(lane, a->fault, ORR__FAULT_INDEX, position, a->capacity - a->count + 1);
    }
    return valid;
}

KERNEL(append, struct orr__k_append) {
    if (!append_is_valid(lane, a))
        return;
    int64_t row_count = a->b * a->heads * a->count;
    for (int64_t i = first_index(lane); i < row_count * a->bytes; i += index_step(lane)) {
        int64_t row = i / a->bytes, at = row / a->count;
        int64_t sequence = at / a->heads, head = at % a->heads;
        int64_t slot = a->slots ? load_i64(a->slots, a->slots_dtype, sequence) : sequence;
        int64_t position = load_i64(a->positions, a->positions_dtype, sequence);
        int64_t to = (slot * a->heads + head) * a->capacity + position + row % a->count;
        if (position >= 0)
            ((unsigned char *)a->cache)[to * a->bytes + i % a->bytes] =
                ((const unsigned char *)a->rows)[i];
    }
}
