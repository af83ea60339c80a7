#include "runtime/cuda/launch_order.h"

#include "runtime/cuda/launch_rows.h"

uint64_t orr__cuda_order_bytes(int64_t count, int64_t keys) {
    return ((uint64_t)count * 4 + (uint64_t)keys + 1) * sizeof(int64_t);
}

static enum orr_status launch_tiles(struct orr__cuda_queue *queue,
                                    const struct orr__cuda_order *order, int64_t *keys,
                                    int64_t *places, struct orr_error *error) {
    struct orr__k_order_tile a = {
        .indices = order->indices,
        .keys = keys,
        .order = places,
        .fault = queue->fault,
        .count = order->count,
        .offset = order->first,
        .bound = order->bound,
        .index_dtype = order->index_dtype,
    };
    uint64_t tiles = ((uint64_t)order->count + ORR__ORDER_TILE - 1) / ORR__ORDER_TILE;
    return orr__cuda_launch(queue, ORR__K_order_tile, orr__cuda_grid_rows(queue, tiles),
                            ORR__CUDA_BLOCK, ORR__ORDER_TILE * sizeof(int64_t), &a, error);
}

enum orr_status orr__cuda_order(struct orr__cuda_queue *queue, struct orr__cuda_order *order,
                                void *scratch, struct orr_error *error) {
    int64_t count = order->count, *starts = (int64_t *)scratch + count * 4;
    /* Two sets of keys and places, which take turns. */
    int64_t *from = scratch, *to = from + count * 2;
    enum orr_status status = launch_tiles(queue, order, from, from + count, error);
    for (int64_t run = ORR__ORDER_TILE; run < count && status == ORR_OK; run *= 2) {
        struct orr__k_order_merge a = {
            .from_keys = from,
            .from_order = from + count,
            .keys = to,
            .order = to + count,
            .count = count,
            .run = run,
        };
        status = orr__cuda_launch_each(queue, ORR__K_order_merge, count, &a, error);
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    order->sorted = from;
    order->order = from + count;
    order->starts = starts;
    struct orr__k_order_starts a = {
        .keys = from, .starts = starts, .count = count, .key_count = order->keys};
    if (status == ORR_OK)
        status = orr__cuda_launch_each(queue, ORR__K_order_starts, order->keys + 1, &a, error);
    return status;
}
