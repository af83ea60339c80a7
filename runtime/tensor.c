#include "runtime/tensor.h"

#include <assert.h>
#include <string.h>

#include "runtime/role.h"
#include "runtime/tensor_internal.h"

struct orr_tensor *orr__tensor_new(struct orr_runtime *runtime, const struct orr_operand_info *info,
                                   const struct orr_layout *layout) {
    struct orr_tensor *tensor = orr_memory_alloc(runtime->memory, sizeof *tensor);
    if (!tensor) {
        (void)orr__runtime_no_memory(runtime);
        return NULL;
    }
    *tensor = (struct orr_tensor){.runtime = runtime,
                                  .info = *info,
                                  .layout = *layout,
                                  .next = runtime->tensors,
                                  .role = runtime->hosts[runtime->host].role,
                                  .node = -1,
                                  .serial = ++runtime->tensor_count,
                                  .family = runtime->tensor_count,
                                  .references = 1};
    if (tensor->next) {
        tensor->next->previous = tensor;
    }
    runtime->tensors = tensor;
    return tensor;
}

/* A tensor lets go of a storage; blobs that nobody has any more are freed, unless they go with the
 * runtime. */
static void storage_drop(const struct orr_memory *memory, struct orr__storage *storage,
                         bool frees_buffers) {
    if (--storage->references > 0) {
        return;
    }
    for (uint32_t i = 0; i < storage->count; i++) {
        struct orr__blob *blob = orr__storage_blob(storage, i);
        assert(blob->references > 0);
        if (--blob->references == 0 && frees_buffers) {
            orr_buffer_free(&blob->buffer);
        }
    }
    struct orr__storage *base = storage->base;
    if (base && --base->views == 0 && base->references == 0) {
        orr_memory_free(memory, base);
    }
    if (storage->views == 0) {
        orr_memory_free(memory, storage->ranks);
        orr_memory_free(memory, storage);
    }
}

/* Freeing a tensor's blobs is one call, however many devices they are on: its caller pays, if
 * anyone. */
static void storage_release(struct orr_runtime *runtime, struct orr__storage *storage) {
    if (!storage) {
        return;
    }
    orr__runtime_operator_begin(runtime, 0, 0);
    storage_drop(runtime->memory, storage, true);
    orr__runtime_operator_end(runtime, false);
}

void orr__tensor_release(struct orr_tensor *tensor) {
    if (--tensor->references > 0) {
        return;
    }
    struct orr_runtime *runtime = tensor->runtime;
    storage_release(runtime, tensor->storage);
    *(tensor->previous ? &tensor->previous->next : &runtime->tensors) = tensor->next;
    if (tensor->next) {
        tensor->next->previous = tensor->previous;
    }
    orr_memory_free(runtime->memory, tensor);
}

enum orr_status orr__tensor_check_kept(const struct orr_tensor *tensor, const char *who) {
    if (tensor->storage) {
        return ORR_OK;
    }
    if (tensor->replaced) {
        return orr__runtime_fail(tensor->runtime, ORR_INVALID,
                                 "%s: the tensor was changed in place; use the result of the "
                                 "operator that did so",
                                 who);
    }
    if (tensor->evicted) {
        return orr__runtime_fail(tensor->runtime, ORR_INVALID,
                                 "%s: the tensor has been evicted; restore it first", who);
    }
    return orr__runtime_fail(tensor->runtime, ORR_INVALID,
                             "%s: the tensor was made inside a region and not returned from it, so "
                             "it was never kept in memory",
                             who);
}

void orr__tensor_drop_storage(struct orr_tensor *tensor) {
    storage_release(tensor->runtime, tensor->storage);
    tensor->storage = NULL;
}

struct orr_tensor *orr_tensor_retain(struct orr_tensor *tensor) {
    tensor->references++;
    return tensor;
}

void orr_tensor_destroy(struct orr_tensor **tensor) {
    if (*tensor) {
        bool last = (*tensor)->references == 1;
        struct orr_runtime *runtime = (*tensor)->runtime;
        orr__tensor_release(*tensor);
        *tensor = NULL;
        if (last) {
            orr__runtime_spend_event(runtime, 0);
        }
    }
}

/* With the runtime: its buffers are freed as a whole, by themselves. */
void orr__tensors_destroy(struct orr_runtime *runtime) {
    while (runtime->tensors) {
        struct orr_tensor *tensor = runtime->tensors;
        runtime->tensors = tensor->next;
        if (tensor->storage) {
            storage_drop(runtime->memory, tensor->storage, false);
        }
        orr_memory_free(runtime->memory, tensor);
    }
}

const struct orr_operand_info *orr_tensor_info(const struct orr_tensor *tensor) {
    return &tensor->info;
}

const struct orr_layout *orr_tensor_layout(const struct orr_tensor *tensor) {
    return &tensor->layout;
}

uint64_t orr_tensor_bytes(const struct orr_tensor *tensor, uint32_t device) {
    const struct orr_mesh *mesh = tensor->layout.mesh;
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        if (device == ORR_TENSOR_ALL_DEVICES || mesh->devices[rank] == device) {
            struct orr_shape piece =
                orr_layout_local(&tensor->layout, &tensor->info.shape, rank, NULL);
            bytes += (uint64_t)orr_shape_count(&piece) * orr_dtype_size(tensor->info.dtype);
        }
    }
    return bytes;
}

struct orr_buffer *orr_tensor_buffer(const struct orr_tensor *tensor, uint32_t rank) {
    return tensor->storage ? orr__tensor_blob(tensor, rank)->buffer : NULL;
}

static uint64_t blob_bytes(const struct orr_tensor *tensor, uint32_t rank) {
    struct orr_shape local = orr_layout_local(&tensor->layout, &tensor->info.shape, rank, NULL);
    uint64_t bytes = (uint64_t)orr_shape_count(&local) * orr_dtype_size(tensor->info.dtype);
    return bytes ? bytes : 1; /* an empty piece still has an address */
}

/* For the devices' streams of a kind, or a stream for each rank. */
static enum orr_status allocate(struct orr_tensor *tensor, enum orr_stream_kind kind,
                                struct orr_stream *const *streams, const char *label) {
    struct orr_runtime *runtime = tensor->runtime;
    const struct orr_mesh *mesh = tensor->layout.mesh;
    struct orr__storage *storage =
        orr_memory_alloc(runtime->memory, sizeof *storage + mesh->size * sizeof storage->blobs[0]);
    if (!storage) {
        return orr__runtime_no_memory(runtime);
    }
    storage->references = 1;
    for (; storage->count < mesh->size; storage->count++) {
        uint32_t rank = storage->count;
        struct orr_stream *stream =
            streams ? streams[rank] : orr_device_stream(runtime, mesh->devices[rank], kind);
        enum orr_status status =
            stream ? orr_buffer_alloc(stream, blob_bytes(tensor, storage->count), label,
                                      &storage->blobs[storage->count].buffer)
                   : ORR_NO_MEMORY;
        if (status != ORR_OK) {
            storage_release(runtime, storage);
            return status;
        }
        storage->blobs[storage->count].references = 1;
    }
    tensor->storage = storage;
    return ORR_OK;
}

static enum orr_status allocate_in_role(struct orr_tensor *tensor, enum orr_stream_kind kind,
                                        struct orr_stream *const *streams, const char *label) {
    struct orr_runtime *runtime = tensor->runtime;
    enum orr_role before = orr_runtime_set_role(runtime, runtime->host, tensor->role);
    enum orr_status status = allocate(tensor, kind, streams, label);
    orr_runtime_set_role(runtime, runtime->host, before);
    return status;
}

enum orr_status orr__tensor_allocate(struct orr_tensor *tensor, enum orr_stream_kind kind,
                                     const char *label) {
    return allocate_in_role(tensor, kind, NULL, label);
}

enum orr_status orr__tensor_allocate_each(struct orr_tensor *tensor,
                                          struct orr_stream *const *streams, const char *label) {
    return allocate_in_role(tensor, ORR_STREAM_COMPUTE, streams, label);
}

void orr__tensor_share(struct orr_tensor *tensor, struct orr_tensor *with) {
    assert(!tensor->storage && with->storage);
    tensor->storage = with->storage;
    tensor->storage->references++;
}

enum orr_status orr__tensor_share_ranks(struct orr_tensor *tensor, struct orr_tensor *with,
                                        uint32_t *ranks) {
    const struct orr_memory *memory = tensor->runtime->memory;
    struct orr__storage *view = orr_memory_alloc(memory, sizeof *view), *base = with->storage;
    assert(!tensor->storage && base);
    if (!view) {
        orr_memory_free(memory, ranks);
        return orr__runtime_no_memory(tensor->runtime);
    }
    *view = (struct orr__storage){.references = 1, .base = base->base ? base->base : base};
    view->ranks = ranks;
    for (; view->count < tensor->layout.mesh->size; view->count++) {
        uint32_t rank = ranks[view->count];
        assert(rank < base->count);
        ranks[view->count] = base->base ? base->ranks[rank] : rank;
        orr__storage_blob(view, view->count)->references++;
    }
    view->base->views++;
    tensor->storage = view;
    return ORR_OK;
}

enum orr_status orr__blob_use(struct orr__blob *blob, struct orr_stream *stream) {
    enum orr_status status = ORR_OK;
    if (blob->writer && blob->writer != stream) {
        status = orr_stream_wait_point(stream, blob->written);
    }
    if (status == ORR_OK && blob->buffer->stream && blob->buffer->stream != stream) {
        status = orr_buffer_record_stream(blob->buffer, stream);
    }
    return status;
}

enum orr_status orr__blob_overwrite(struct orr__blob *blob, struct orr_stream *stream) {
    enum orr_status status = orr__blob_use(blob, stream);
    struct orr_stream *owner = blob->buffer->stream;
    if (status == ORR_OK && owner && owner != stream) {
        status = orr_stream_wait_point(stream, orr_stream_point(owner));
    }
    for (struct orr__use *use = blob->buffer->uses; status == ORR_OK && use; use = use->next) {
        if (use->stream != stream) {
            status = orr_stream_wait_point(stream, orr_stream_point(use->stream));
        }
    }
    return status;
}

void orr__blob_written(struct orr__blob *blob, struct orr_stream *stream, struct orr_point point) {
    blob->writer = stream;
    blob->written = point;
}

/* Puts a piece of the whole, which starts at `starts`, where it belongs in a dense copy of
 * itself. */
static void cut_piece(char *to, const char *from, size_t element, const struct orr_shape *whole,
                      const struct orr_shape *piece, const int64_t *starts) {
    int64_t rows = 1;
    int last = piece->rank - 1;
    for (int i = 0; i < last; i++) {
        rows *= piece->dims[i];
    }
    size_t width = piece->rank ? (size_t)piece->dims[last] * element : element;
    for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row, at = piece->rank ? starts[last] : 0, stride = 1;
        for (int i = last - 1; i >= 0; i--) {
            stride *= whole->dims[i + 1];
            at += (rest % piece->dims[i] + starts[i]) * stride;
            rest /= piece->dims[i];
        }
        memcpy(to + (size_t)row * width, from + (size_t)at * element, width);
    }
}

/* Of a sum the first rank along the axis has all. */
static bool is_zero_term(const struct orr_layout *layout, uint32_t rank) {
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        if (layout->axes[i].kind == ORR_PARTIAL && layout->axes[i].reduction == ORR_SUM &&
            orr_mesh_coordinate(layout->mesh, rank, i) != 0) {
            return true;
        }
    }
    return false;
}

static enum orr_status upload(struct orr_tensor *tensor, uint32_t rank, const char *values) {
    struct orr_runtime *runtime = tensor->runtime;
    struct orr__blob *blob = orr__tensor_blob(tensor, rank);
    int64_t starts[ORR_RANK_MAX];
    struct orr_shape piece = orr_layout_local(&tensor->layout, &tensor->info.shape, rank, starts);
    size_t element = orr_dtype_size(tensor->info.dtype);
    uint64_t bytes = (uint64_t)orr_shape_count(&piece) * element;
    if (bytes == 0) {
        return ORR_OK;
    }
    struct orr_stream *stream = blob->buffer->stream;
    struct orr_buffer *staging = NULL;
    enum orr_status status = orr_buffer_alloc_host(runtime, bytes, "staging", &staging);
    char *cut = NULL;
    if (status == ORR_OK && values) {
        cut = orr_memory_alloc(runtime->memory, bytes);
        if (!cut) {
            status = orr__runtime_no_memory(runtime);
        } else {
            cut_piece(cut, values, element, &tensor->info.shape, &piece, starts);
            if (is_zero_term(&tensor->layout, rank)) {
                memset(cut, 0, bytes);
            }
            status = orr__buffer_initialize(staging, 0, cut, bytes);
        }
    }
    if (status == ORR_OK) {
        status = orr_stream_copy(stream, blob->buffer, 0, staging, 0, bytes);
    }
    if (status == ORR_OK) {
        orr__blob_written(blob, stream, orr_stream_point(stream));
    }
    orr_memory_free(runtime->memory, cut);
    orr_buffer_free(&staging);
    return status;
}

enum orr_status orr_tensor_from_host(struct orr_runtime *runtime,
                                     const struct orr_operand_info *info,
                                     const struct orr_layout *layout, const void *values,
                                     struct orr_tensor **out_tensor) {
    *out_tensor = NULL;
    struct orr_layout where;
    if (layout) {
        where = *layout;
    } else {
        struct orr_mesh *mesh = orr_mesh_default(runtime);
        if (!mesh) {
            return ORR_NO_MEMORY;
        }
        where = orr_layout_replicated(mesh);
    }
    orr_error_clear(&runtime->error);
    enum orr_status status = orr_layout_check(&where, &info->shape, &runtime->error);
    if (status == ORR_OK) {
        status = orr__runtime_turn(runtime);
    }
    if (status != ORR_OK) {
        return status;
    }
    struct orr_tensor *tensor = orr__tensor_new(runtime, info, &where);
    if (!tensor) {
        return ORR_NO_MEMORY;
    }
    orr__runtime_operator_begin(runtime, where.mesh->devices[0], -1);
    status = orr__tensor_allocate(tensor, ORR_STREAM_COPY, "from_host");
    for (uint32_t rank = 0; status == ORR_OK && rank < where.mesh->size; rank++) {
        status = upload(tensor, rank, values);
    }
    orr__runtime_operator_end(runtime, status == ORR_OK);
    if (status != ORR_OK) {
        orr__tensor_release(tensor);
        return status;
    }
    *out_tensor = tensor;
    return ORR_OK;
}
