/* Kernels of move.h. */
#include "device.h"

#include "runtime/cuda/kernels/convert.h"
#include "runtime/cuda/kernels/move.h"

/* ---- Cuts ---- */

DEVICE void move_unit(const struct orr__k_cut *cut, int64_t i) {
    int64_t from, to = strided_offsets(&cut->to, cut->from_strides, i, &from);
    move_bytes(cut->to_data + to, cut->from_data + from, cut->unit);
}

KERNEL(move_cut, struct orr__k_cut) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane))
        move_unit(a, i);
}

KERNEL(move_cuts, struct orr__k_cuts) {
    for (int cut = 0; cut < a->count; cut++)
        for (int64_t i = first_index(lane); i < a->cuts[cut].count; i += index_step(lane))
            move_unit(&a->cuts[cut], i);
}

/* ---- Two dimensions change places ---- */

enum { TILE = 32, PITCH = 33 }; /* one more than a tile, so that columns are in different banks */

/* A tile of 32 x 32 goes through shared memory, so that both sides are read and written in rows. */
KERNEL(turn, struct orr__k_turn) {
    char *tile = (char *)shared_memory(lane);
    int64_t down = (a->rows + TILE - 1) / TILE, across = (a->columns + TILE - 1) / TILE;
    int64_t tiles = a->batch * down * across;
    for (int64_t t = block_index(lane); t < tiles; t += block_count(lane)) {
        int64_t first = t / (down * across) * a->rows * a->columns;
        int64_t row = t / across % down * TILE, column = t % across * TILE;
        const char *x = (const char *)a->x + first * a->size;
        char *y = (char *)a->y + first * a->size;
        block_sync(lane);
        for (int i = thread_index(lane); i < TILE * TILE; i += thread_count(lane)) {
            int64_t r = row + i / TILE, c = column + i % TILE;
            if (r < a->rows && c < a->columns)
                move_bytes(tile + (i / TILE * PITCH + i % TILE) * a->size,
                           x + (r * a->columns + c) * a->size, a->size);
        }
        block_sync(lane);
        for (int i = thread_index(lane); i < TILE * TILE; i += thread_count(lane)) {
            int64_t r = row + i % TILE, c = column + i / TILE;
            if (r < a->rows && c < a->columns)
                move_bytes(y + (c * a->rows + r) * a->size,
                           tile + (i % TILE * PITCH + i / TILE) * a->size, a->size);
        }
    }
}

/* ---- Casts ---- */

KERNEL(cast, struct orr__k_cast) {
    bool from_real = dtype_is_real(a->from_dtype);
    /* f64 is slow on many GPUs, and needed only for itself and for integers. */
    bool through_f32 = from_real && dtype_is_real(a->to_dtype) && a->from_dtype != ORR_DTYPE_F64 &&
                       a->to_dtype != ORR_DTYPE_F64;
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        if (through_f32)
            store_f32(a->to, a->to_dtype, i, load_f32(a->from, a->from_dtype, i));
        else if (from_real)
            store_any_f64(a->to, a->to_dtype, i, load_f64(a->from, a->from_dtype, i));
        else
            store_any_i64(a->to, a->to_dtype, i, load_i64(a->from, a->from_dtype, i));
    }
}
