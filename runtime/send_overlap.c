/* What a group of sends receives must overlap nothing else that the group sends or receives: all
 * transfers of a group are under way at once, so whoever came first would be chance. */
#include <stdlib.h>

#include "runtime/runtime_internal.h"

/* One end of a send: bytes [begin, end) of a buffer. */
struct span {
    const struct orr_buffer *buffer;
    uint64_t begin, end;
    uint32_t send;
    bool received;
};

/* By buffer and place; the rest makes the order total, so that it depends on the sends alone. */
static int compare_spans(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    if (a->buffer != b->buffer)
        return a->buffer->id < b->buffer->id ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->send != b->send)
        return a->send < b->send ? -1 : 1;
    return (int)a->received - (int)b->received;
}

static enum orr_status refuse(struct orr_runtime *runtime, const struct span *a,
                              const struct span *b) {
    const struct span *received = a->received ? a : b, *other = a->received ? b : a;
    return orr__runtime_fail(
        runtime, ORR_INVALID,
        "send_receive: what send %u receives overlaps what send %u %s, in buffer '%s' from byte "
        "%llu: all sends of a group happen at once",
        (unsigned)received->send + 1, (unsigned)other->send + 1,
        other->received ? "receives" : "sends",
        orr_names_text(runtime->names, received->buffer->label),
        (unsigned long long)(a->begin > b->begin ? a->begin : b->begin));
}

static uint32_t list_spans(const struct orr_send *sends, uint32_t count, uint64_t size,
                           struct span *out_spans) {
    uint32_t filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = sends[i].count * size;
        const struct orr_piece *from = &sends[i].from, *to = &sends[i].to;
        if (bytes == 0)
            continue;
        out_spans[filled++] =
            (struct span){from->buffer, from->offset, from->offset + bytes, i, false};
        out_spans[filled++] = (struct span){to->buffer, to->offset, to->offset + bytes, i, true};
    }
    return filled;
}

/* Of the spans before the current one in its buffer, only those count that reach furthest: of the
 * received ones, and of all. */
static enum orr_status sweep(struct orr_runtime *runtime, const struct span *spans,
                             uint32_t count) {
    const struct span *received = NULL, *any = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct span *span = &spans[i];
        if (any && any->buffer != span->buffer)
            received = any = NULL;
        const struct span *other = span->received ? any : received;
        if (other && other->end > span->begin)
            return refuse(runtime, other, span);
        if (span->received && (!received || span->end > received->end))
            received = span;
        if (!any || span->end > any->end)
            any = span;
    }
    return ORR_OK;
}

enum orr_status orr__sends_check_overlap(struct orr_runtime *runtime, const struct orr_send *sends,
                                         uint32_t count, enum orr_dtype dtype) {
    bool apart = count == 1 && sends[0].from.buffer != sends[0].to.buffer;
    if (apart)
        return ORR_OK;
    struct span *spans = orr_memory_alloc(runtime->memory, 2 * (uint64_t)count * sizeof *spans);
    if (!spans)
        return orr__runtime_no_memory(runtime);
    uint32_t filled = list_spans(sends, count, orr_dtype_size(dtype), spans);
    qsort(spans, filled, sizeof *spans, compare_spans);
    enum orr_status status = sweep(runtime, spans, filled);
    orr_memory_free(runtime->memory, spans);
    return status;
}
