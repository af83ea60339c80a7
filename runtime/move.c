#include <assert.h>
#include <string.h>

#include "runtime/move_internal.h"

/* --- cuts --- */

/* Bytes from one index to the next of each dimension. */
static void strides_of(const struct orr_shape *shape, size_t element, uint64_t *out) {
    uint64_t stride = element;
    for (int i = shape->rank - 1; i >= 0; i--) {
        out[i] = stride;
        stride *= (uint64_t)shape->dims[i];
    }
}

static uint64_t offset_of(const struct orr__place *place, const uint64_t *strides) {
    uint64_t at = place->offset;
    for (int i = 0; place->starts && i < place->shape->rank; i++) {
        at += (uint64_t)place->starts[i] * strides[i];
    }
    return at;
}

/* Puts a loop in front of those there are, or makes the one in front longer if the new one goes on
 * where that ends. Loops are built innermost first, at the end of the arrays. */
static void add_loop(struct orr__cut *cut, uint64_t count, uint64_t to, uint64_t from) {
    int first = ORR_RANK_MAX - cut->rank;
    if (count == 1) {
        return;
    }
    if (cut->rank == 0 && to == cut->width && from == cut->width) {
        cut->width *= count;
        return;
    }
    if (cut->rank > 0 && to == cut->counts[first] * cut->to_strides[first] &&
        from == cut->counts[first] * cut->from_strides[first]) {
        cut->counts[first] *= count;
        return;
    }
    cut->rank++;
    cut->counts[first - 1] = count;
    cut->to_strides[first - 1] = to;
    cut->from_strides[first - 1] = from;
}

struct orr__cut orr__cut_of(const struct orr_shape *counts, const struct orr__place *to,
                            const struct orr__place *from, size_t element) {
    uint64_t to_strides[ORR_RANK_MAX], from_strides[ORR_RANK_MAX];
    struct orr__cut cut = {.width = element};
    assert(counts->rank == to->shape->rank && counts->rank == from->shape->rank);
    strides_of(to->shape, element, to_strides);
    strides_of(from->shape, element, from_strides);
    if (orr_shape_count(counts) == 0) {
        return (struct orr__cut){.width = 0};
    }
    for (int i = counts->rank - 1; i >= 0; i--) {
        add_loop(&cut, (uint64_t)counts->dims[i], to_strides[i], from_strides[i]);
    }
    int first = ORR_RANK_MAX - cut.rank;
    size_t bytes = (size_t)cut.rank * sizeof cut.counts[0];
    memmove(cut.counts, cut.counts + first, bytes);
    memmove(cut.to_strides, cut.to_strides + first, bytes);
    memmove(cut.from_strides, cut.from_strides + first, bytes);
    cut.to = offset_of(to, to_strides);
    cut.from = offset_of(from, from_strides);
    return cut;
}

uint64_t orr__cut_bytes(const struct orr__cut *cut) {
    uint64_t bytes = cut->width;
    for (int i = 0; i < cut->rank; i++) {
        bytes *= cut->counts[i];
    }
    return bytes;
}

/* Bytes from the first one to behind the last one. */
static uint64_t extent(const struct orr__cut *cut, const uint64_t *strides) {
    uint64_t bytes = cut->width;
    for (int i = 0; i < cut->rank; i++) {
        bytes += (cut->counts[i] - 1) * strides[i];
    }
    return bytes;
}

static void copy_cut(char *to, const char *from, const struct orr__cut *cut) {
    uint64_t index[ORR_RANK_MAX] = {0};
    for (int dim = 0; dim >= 0;) {
        memcpy(to, from, cut->width);
        dim = cut->rank - 1;
        while (dim >= 0 && ++index[dim] == cut->counts[dim]) {
            to -= (cut->counts[dim] - 1) * cut->to_strides[dim];
            from -= (cut->counts[dim] - 1) * cut->from_strides[dim];
            index[dim--] = 0;
        }
        if (dim >= 0) {
            to += cut->to_strides[dim];
            from += cut->from_strides[dim];
        }
    }
}

/* --- moves --- */

/* A blob that a move reads or writes, and where. */
struct end {
    struct orr__blob *blob;
    uint64_t first, past;
    bool writes, zeroed;
};

/* A cut, or zeros: one row from the start of a blob. */
struct entry {
    struct orr__cut cut;
    bool zeros;
    uint32_t to, from; /* indices of ends */
    char *to_data;     /* of the blobs, once it is enqueued */
    const char *from_data;
};

struct orr__move {
    struct orr_runtime *runtime;
    const struct orr_memory *memory;
    struct end *ends; /* until it is enqueued */
    uint32_t end_count, capacity, count;
    uint64_t bytes_read, bytes_written;
    struct entry entries[];
};

static enum orr_status run_move(void *work, struct orr_error *error) {
    const struct orr__move *move = work;
    (void)error;
    for (uint32_t i = 0; i < move->count; i++) {
        const struct entry *entry = &move->entries[i];
        if (entry->zeros) {
            memset(entry->to_data, 0, entry->cut.width);
            continue;
        }
        copy_cut(entry->to_data + entry->cut.to, entry->from_data + entry->cut.from, &entry->cut);
    }
    return ORR_OK;
}

static void describe_cut(const void *cuts, uint32_t index, struct orr_task_cut *out_cut) {
    const struct orr__move *move = cuts;
    const struct entry *entry = &move->entries[index];
    *out_cut =
        (struct orr_task_cut){.rank = entry->cut.rank,
                              .width = entry->cut.width,
                              .to = entry->to_data + entry->cut.to,
                              .from = entry->zeros ? NULL : entry->from_data + entry->cut.from};
    memcpy(out_cut->counts, entry->cut.counts, sizeof out_cut->counts);
    memcpy(out_cut->to_strides, entry->cut.to_strides, sizeof out_cut->to_strides);
    memcpy(out_cut->from_strides, entry->cut.from_strides, sizeof out_cut->from_strides);
}

static void describe_move(const void *work, struct orr_task *out_task) {
    const struct orr__move *move = work;
    *out_task = (struct orr_task){
        .kind = ORR_TASK_MOVE, .move = {.count = move->count, .cuts = move, .cut = describe_cut}};
}

static void release_move(void *work) {
    struct orr__move *move = work;
    orr_memory_free(move->memory, move);
}

struct orr__move *orr__move_new(struct orr_runtime *runtime, uint32_t count) {
    struct orr__move *move =
        orr_memory_alloc(runtime->memory, sizeof *move + count * sizeof move->entries[0]);
    struct end *ends =
        orr_memory_alloc(runtime->memory, (2 * (size_t)count + 1) * sizeof move->ends[0]);
    if (!move || !ends) {
        orr_memory_free(runtime->memory, move);
        orr_memory_free(runtime->memory, ends);
        (void)orr__runtime_no_memory(runtime);
        return NULL;
    }
    move->runtime = runtime;
    move->memory = runtime->memory;
    move->ends = ends;
    move->capacity = count;
    return move;
}

void orr__move_drop(struct orr__move *move) {
    if (move) {
        orr_memory_free(move->memory, move->ends);
        orr_memory_free(move->memory, move);
    }
}

/* The index of a blob's end, which covers these bytes, too. The latest ends are looked at first:
 * cuts of one blob mostly come one after the other. */
static uint32_t end_of(struct orr__move *move, struct orr__blob *blob, bool writes, uint64_t first,
                       uint64_t past) {
    uint32_t i = move->end_count;
    while (i > 0 && !(move->ends[i - 1].blob == blob && move->ends[i - 1].writes == writes)) {
        i--;
    }
    if (i == 0) {
        move->ends[move->end_count] = (struct end){blob, first, past, writes, false};
        return move->end_count++;
    }
    struct end *end = &move->ends[i - 1];
    end->first = first < end->first ? first : end->first;
    end->past = past > end->past ? past : end->past;
    return i - 1;
}

void orr__move_add(struct orr__move *move, struct orr__blob *to, struct orr__blob *from,
                   const struct orr__cut *cut) {
    uint64_t bytes = orr__cut_bytes(cut);
    if (bytes == 0) {
        return;
    }
    assert(move->count < move->capacity);
    struct entry *entry = &move->entries[move->count++];
    entry->cut = *cut;
    entry->to = end_of(move, to, true, cut->to, cut->to + extent(cut, cut->to_strides));
    entry->from = end_of(move, from, false, cut->from, cut->from + extent(cut, cut->from_strides));
    move->bytes_read += bytes;
    move->bytes_written += move->ends[entry->to].zeroed ? 0 : bytes;
}

void orr__move_zero(struct orr__move *move, struct orr__blob *to, uint64_t bytes) {
    if (bytes == 0) {
        return;
    }
    assert(move->count < move->capacity);
    struct entry *entry = &move->entries[move->count++];
    entry->zeros = true;
    entry->cut.width = bytes;
    entry->to = end_of(move, to, true, 0, bytes);
    move->ends[entry->to].zeroed = true;
    move->bytes_written += bytes;
}

/* Fills in where the data is; false where host code can't reach it. */
static bool find_data(struct orr__move *move) {
    bool all = true;
    for (uint32_t i = 0; i < move->count; i++) {
        struct entry *entry = &move->entries[i];
        entry->to_data = move->ends[entry->to].blob->buffer->data;
        all = all && entry->to_data;
        if (!entry->zeros) {
            entry->from_data = move->ends[entry->from].blob->buffer->data;
            all = all && entry->from_data;
        }
    }
    return all;
}

/* Waits, reads first, and ranges. */
static enum orr_status use_ends(struct orr__move *move, struct orr_stream *stream,
                                struct orr_range *ranges) {
    enum orr_status status = ORR_OK;
    for (int writes = 0; writes < 2; writes++) {
        for (uint32_t i = 0; status == ORR_OK && i < move->end_count; i++) {
            struct end *end = &move->ends[i];
            ranges[i] = (struct orr_range){end->blob->buffer, end->first, end->past - end->first,
                                           end->writes ? ORR_ACCESS_WRITE : ORR_ACCESS_READ};
            if (end->writes == (writes != 0)) {
                status = orr__blob_use(end->blob, stream);
            }
        }
    }
    return status;
}

static enum orr_status enqueue(struct orr__move *move, const struct orr__move_call *call,
                               struct orr_range *ranges) {
    struct orr_stream *stream =
        call->own ? call->own : orr_device_stream(move->runtime, call->device, call->stream);
    enum orr_status status = stream ? use_ends(move, stream, ranges) : ORR_NO_MEMORY;
    bool reachable = find_data(move);
    struct orr_kernel kernel = {
        .name = call->name,
        .dtype = call->dtype,
        .cost = {.bytes_read = move->bytes_read, .bytes_written = move->bytes_written},
        .accesses = ranges,
        .access_count = move->end_count,
        .submit_ns = -1,
        .service_ns = -1,
        .op = call->op,
        .run = reachable && !move->runtime->timing_only ? run_move : NULL,
        .describe = describe_move,
        .work = move,
        .release = release_move};
    struct end *ends = move->ends; /* the move itself may be gone once it is enqueued */
    struct orr_point point;
    if (status == ORR_OK) {
        status = orr_stream_kernel(stream, &kernel, &point);
    }
    for (uint32_t i = 0; status == ORR_OK && i < kernel.access_count; i++) {
        if (ranges[i].mode == ORR_ACCESS_WRITE) {
            orr__blob_written(ends[i].blob, stream, point);
        }
    }
    return status;
}

enum orr_status orr__move_enqueue(struct orr__move *move, const struct orr__move_call *call) {
    const struct orr_memory *memory = move->memory;
    if (move->end_count == 0) {
        orr__move_drop(move);
        return ORR_OK;
    }
    struct orr_range *ranges = orr_memory_alloc(memory, move->end_count * sizeof *ranges);
    struct end *ends = move->ends;
    enum orr_status status =
        ranges ? enqueue(move, call, ranges) : orr__runtime_no_memory(move->runtime);
    if (status != ORR_OK) {
        orr_memory_free(memory, move);
    }
    orr_memory_free(memory, ends);
    orr_memory_free(memory, ranges);
    return status;
}
