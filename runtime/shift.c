/* Ring shifts: every rank's piece goes to another rank along one axis of the mesh.
 *
 *     axis of 4, by 1:   0 -> 1 -> 2 -> 3 -> 0      in one group of sends for each ring */
#include <assert.h>

#include "runtime/recording_internal.h"
#include "runtime/redistribute_internal.h"

struct shift {
    struct orr_runtime *runtime;
    struct orr_tensor *source, *target;
    int axis;
    uint32_t length, stride, by; /* of the axis; 0 < by < length */
    uint64_t op;
    struct orr_send *sends;
    struct orr_stream **streams;
    struct orr_point *points;
};

static const struct orr_mesh *mesh_of(const struct shift *s) {
    return s->source->layout.mesh;
}

static struct orr_shape piece_of(const struct orr_tensor *tensor, uint32_t rank) {
    return orr_layout_local(&tensor->layout, &tensor->info.shape, rank, NULL);
}

/* The tensor is cut along the axis, into pieces of one shape in every ring. */
static enum orr_status check(struct orr_tensor *tensor, int axis) {
    const struct orr_mesh *mesh = tensor->layout.mesh;
    char text[ORR_PLACEMENT_TEXT_MAX], shape[ORR_SHAPE_TEXT_MAX];
    if (tensor->layout.axes[axis].kind != ORR_SHARD) {
        return orr__runtime_fail(tensor->runtime, ORR_INVALID,
                                 "shift along '%s' of a tensor that is %s: expected a shard S(dim) "
                                 "along that axis",
                                 mesh->names[axis], orr_layout_text(&tensor->layout, text));
    }
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        int64_t at = orr_mesh_coordinate(mesh, rank, axis);
        struct orr_shape piece = piece_of(tensor, rank);
        struct orr_shape first =
            piece_of(tensor, rank - (uint32_t)at * orr_mesh_stride(mesh, axis));
        if (!orr_shape_equal(&piece, &first)) {
            return orr__runtime_fail(
                tensor->runtime, ORR_INVALID,
                "shift along '%s' of a tensor of shape %s that is %s: its shards are uneven, "
                "expected equal ones",
                mesh->names[axis], orr_shape_text(&tensor->info.shape, shape),
                orr_layout_text(&tensor->layout, text));
        }
    }
    return ORR_OK;
}

/* One ring: that of rank `first`, whose coordinate is 0. */
static enum orr_status turn_ring(struct shift *s, uint32_t first) {
    struct orr_communicator *communicator =
        orr_mesh_communicator(s->source->layout.mesh, first, s->axis);
    struct orr_shape piece = piece_of(s->source, first);
    uint64_t count = (uint64_t)orr_shape_count(&piece);
    enum orr_status status = communicator ? ORR_OK : ORR_NO_MEMORY;
    for (uint32_t i = 0; status == ORR_OK && i < s->length; i++) {
        uint32_t rank = first + i * s->stride, to = (i + s->by) % s->length;
        struct orr__blob *from = orr__tensor_blob(s->source, rank);
        const struct orr__blob *in = orr__tensor_blob(s->target, first + to * s->stride);
        s->streams[i] =
            orr_device_stream(s->runtime, mesh_of(s)->devices[rank], ORR_STREAM_COMMUNICATE);
        s->sends[i] = (struct orr_send){.source = i,
                                        .target = to,
                                        .count = count,
                                        .from = {.buffer = from->buffer},
                                        .to = {.buffer = in->buffer}};
        status = s->streams[i] ? orr__blob_use(from, s->streams[i]) : ORR_NO_MEMORY;
    }
    if (status == ORR_OK) {
        status = orr_send_receive_enqueue(communicator, s->source->info.dtype, s->sends, s->length,
                                          s->streams, NULL, s->op, s->points);
    }
    for (uint32_t i = 0; status == ORR_OK && i < s->length; i++) {
        orr__blob_written(orr__tensor_blob(s->target, first + i * s->stride), s->streams[i],
                          s->points[i]);
    }
    return status;
}

static enum orr_status turn_rings(struct shift *s) {
    const struct orr_memory *memory = s->runtime->memory;
    s->sends = orr_memory_alloc(memory, s->length * sizeof *s->sends);
    s->streams = orr_memory_alloc(memory, s->length * sizeof(struct orr_stream *));
    s->points = orr_memory_alloc(memory, s->length * sizeof *s->points);
    enum orr_status status =
        s->sends && s->streams && s->points ? ORR_OK : orr__runtime_no_memory(s->runtime);
    for (uint32_t rank = 0; status == ORR_OK && rank < mesh_of(s)->size; rank++) {
        struct orr_shape piece = piece_of(s->source, rank);
        if (orr_mesh_coordinate(mesh_of(s), rank, s->axis) == 0 && orr_shape_count(&piece) > 0) {
            status = turn_ring(s, rank);
        }
    }
    orr_memory_free(memory, s->sends);
    orr_memory_free(memory, s->streams);
    orr_memory_free(memory, s->points);
    return status;
}

static enum orr_status run_shift(struct shift *s) {
    struct orr_cost none = {0};
    orr__runtime_operator_begin(s->runtime, mesh_of(s)->devices[0], -1);
    enum orr_status status = orr__tensor_allocate(s->target, ORR_STREAM_COMMUNICATE, "shift");
    if (status == ORR_OK) {
        s->op = orr__op_record(s->runtime, "shift", "collective", none, &s->target->info, 0);
        status = turn_rings(s);
    }
    orr__runtime_operator_end(s->runtime, status == ORR_OK && !s->runtime->capture);
    return status;
}

static enum orr_status shift(struct orr_tensor *tensor, int axis, uint32_t by,
                             struct orr_tensor **out_tensor) {
    struct orr_runtime *runtime = tensor->runtime;
    const struct orr_mesh *mesh = tensor->layout.mesh;
    struct shift s = {.runtime = runtime,
                      .source = tensor,
                      .target = orr__tensor_new(runtime, &tensor->info, &tensor->layout),
                      .axis = axis,
                      .length = (uint32_t)mesh->dims[axis],
                      .stride = orr_mesh_stride(mesh, axis),
                      .by = by};
    if (!s.target) {
        return ORR_NO_MEMORY;
    }
    enum orr_status status = run_shift(&s);
    if (status != ORR_OK) {
        orr__tensor_release(s.target);
        return status;
    }
    struct orr__stage step = {.input_count = 1,
                              .inputs = {tensor},
                              .outputs = {s.target},
                              .shift = {.axis = axis, .by = by}};
    orr__tape_record(runtime, &step);
    orr__recordings_add(runtime, &step);
    *out_tensor = s.target;
    return ORR_OK;
}

enum orr_status orr_tensor_shift(struct orr_tensor *tensor, int axis, int64_t by,
                                 struct orr_tensor **out_tensor) {
    struct orr_runtime *runtime = tensor->runtime;
    const struct orr_mesh *mesh = tensor->layout.mesh;
    assert(axis >= 0 && axis < mesh->axis_count);
    int64_t length = mesh->dims[axis], least = (by % length + length) % length;
    *out_tensor = NULL;
    orr_error_clear(&runtime->error);
    enum orr_status status = length == 1 ? ORR_OK : check(tensor, axis);
    if (status == ORR_OK && least == 0) {
        *out_tensor = orr_tensor_retain(tensor);
        return ORR_OK;
    }
    if (status == ORR_OK) {
        status = orr__redistribute_begin(tensor, "shift");
    }
    return status == ORR_OK ? shift(tensor, axis, (uint32_t)least, out_tensor) : status;
}
