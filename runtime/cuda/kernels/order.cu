/* Kernels of order.h. */
#include "device.h"

#include "runtime/cuda/kernels/order.h"

/* How many of `count` sorted keys are below `key`, or, if `equal`, not above it. */
DEVICE int64_t keys_before(const int64_t *keys, int64_t count, int64_t key, int equal) {
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (keys[middle] < key || (equal && keys[middle] == key))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* A tile's keys into shared memory, in their order. */
DEVICE void load_tile(struct lane lane, const struct orr__k_order_tile *a, int64_t first, int count,
                      int64_t *tile) {
    block_sync(lane);
    for (int i = thread_index(lane); i < count; i += thread_count(lane)) {
        int64_t index = load_i64(a->indices, a->index_dtype, first + i);
        if (index < 0 || index >= a->bound)
            fault_raise(lane, a->fault, ORR__FAULT_INDEX, index, a->bound);
        tile[i] = index - a->offset;
    }
    block_sync(lane);
}

KERNEL(order_tile, struct orr__k_order_tile) {
    int64_t *tile = (int64_t *)shared_memory(lane), step = block_count(lane) * ORR__ORDER_TILE;
    for (int64_t first = block_index(lane) * ORR__ORDER_TILE; first < a->count; first += step) {
        int64_t rest = a->count - first;
        int count = (int)(rest < ORR__ORDER_TILE ? rest : ORR__ORDER_TILE);
        load_tile(lane, a, first, count, tile);
        for (int i = thread_index(lane); i < count; i += thread_count(lane)) {
            int64_t key = tile[i], place = first;
            for (int j = 0; j < count; j++)
                place += tile[j] < key || (tile[j] == key && j < i);
            a->keys[place] = key;
            a->order[place] = first + i;
        }
    }
}

KERNEL(order_merge, struct orr__k_order_merge) {
    for (int64_t i = first_index(lane); i < a->count; i += index_step(lane)) {
        int64_t pair = i / (2 * a->run) * (2 * a->run), middle = pair + a->run, place = i;
        int64_t end = middle + a->run < a->count ? middle + a->run : a->count;
        if (i >= middle)
            place += keys_before(a->from_keys + pair, a->run, a->from_keys[i], 1) - a->run;
        else if (middle < end)
            place += keys_before(a->from_keys + middle, end - middle, a->from_keys[i], 0);
        a->keys[place] = a->from_keys[i];
        a->order[place] = a->from_order[i];
    }
}

KERNEL(order_starts, struct orr__k_order_starts) {
    for (int64_t key = first_index(lane); key <= a->key_count; key += index_step(lane))
        a->starts[key] = keys_before(a->keys, a->count, key, 0);
}
