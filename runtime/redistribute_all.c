/* Several tensors redistributed as one: through flat buckets.
 *
 *     tensors a, b over two ranks, P(sum) -> S(0):
 *
 *     a: 0 1   b: 0 1     --pack-->   a0 b0 | a1 b1   --reduce_scatter-->   rank 0: a0 b0
 *                                                                          rank 1: a1 b1
 *                                                     --unpack-->          a0, b0   a1, b1
 *
 * A bucket takes the tensors of one mesh and dtype whose cheapest steps are of the same kinds along
 * the same axes; each step is one collective, with one kernel for each rank before and behind it.
 * Pieces of different sizes need no padding: the last rank's are the smallest of every tensor.
 *
 * The collectives have a stream of their own on every device, as frameworks give each process
 * group one, and what arrived is unpacked there. In the communicate stream the collectives of
 * the next layer would wait behind the reduction of this one's gradients, and in the compute
 * stream its whole backward pass would. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/collective.h"
#include "runtime/recording_internal.h"
#include "runtime/redistribute_internal.h"

struct member {
    struct orr_redistribute_path path;
    bool taken; /* is done, or in a bucket */
};

/* The tensors of a bucket, while they are changed step by step. */
struct bucket {
    struct orr_runtime *runtime;
    struct orr_mesh *mesh;
    uint32_t count;
    struct orr_tensor **now, **next; /* one reference each */
    struct orr_stream **streams;     /* of each rank, for collectives and what they write */
    const struct member **members;
    size_t element;
    uint64_t op;
    /* Of the step: bucket memory of each rank before and behind a collective. */
    const struct orr_redistribute_step *step;
    struct orr__blob *packed, *arrived;
    uint64_t *packed_bytes, *arrived_bytes;
};

static struct orr__change change_of(const struct bucket *b, uint32_t i, int step) {
    const struct orr_redistribute_step *planned = &b->members[i]->path.steps[step];
    return (struct orr__change){.info = &b->now[i]->info,
                                .layout = b->now[i]->layout,
                                .axis = planned->axis,
                                .to = planned->to};
}

static struct orr__move_call call_of(const struct bucket *b, uint32_t rank, const char *name) {
    return (struct orr__move_call){.device = b->mesh->devices[rank],
                                   .name = name,
                                   .dtype = b->now[0]->info.dtype,
                                   .op = b->op};
}

/* --- packing and unpacking --- */

/* Are pieces of every tensor side by side for each rank of the group, or each tensor's all in one?
 * Before a collective that scatters, and behind one that gathers. */
static bool scatters(enum orr_redistribute_kind kind) {
    return kind == ORR_REDISTRIBUTE_REDUCE_SCATTER || kind == ORR_REDISTRIBUTE_ALL_TO_ALL;
}

static bool gathers(enum orr_redistribute_kind kind) {
    return kind == ORR_REDISTRIBUTE_ALL_GATHER || kind == ORR_REDISTRIBUTE_ALL_TO_ALL;
}

/* A tensor's piece number `part` on one side of the collective: where it is in the rank's piece,
 * and from byte `at` on in the bucket. */
static struct orr__cut piece_cut(const struct bucket *b, const struct orr__change *change,
                                 uint32_t rank, bool unpacks, int64_t part, uint64_t at) {
    struct orr__change_shapes shapes = orr__change_shapes(change, rank);
    const struct orr_shape *shape = unpacks ? &shapes.after : &shapes.before;
    enum orr_redistribute_kind kind = b->step->kind;
    if (unpacks ? !gathers(kind) : !scatters(kind)) {
        struct orr__place piece = {shape, NULL, 0}, bucket = {shape, NULL, at};
        return orr__cut_of(shape, unpacks ? &piece : &bucket, unpacks ? &bucket : &piece,
                           b->element);
    }
    int dim = unpacks ? change->layout.axes[change->axis].dim : change->to.dim;
    struct orr__span span = orr__piece_span(shape->dims[dim], b->mesh->dims[change->axis], part);
    return orr__span_cut(shape, dim, span, at, b->element, unpacks);
}

/* Number of pieces of each tensor on one side. */
static int64_t part_count(const struct bucket *b, bool unpacks) {
    bool cuts = unpacks ? gathers(b->step->kind) : scatters(b->step->kind);
    return cuts ? b->mesh->dims[b->step->axis] : 1;
}

/* Bytes of a rank's bucket on one side. */
static uint64_t bucket_bytes(const struct bucket *b, int step, uint32_t rank, bool unpacks) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        struct orr__change change = change_of(b, i, step);
        struct orr__change_shapes shapes = orr__change_shapes(&change, rank);
        bytes += (uint64_t)orr_shape_count(unpacks ? &shapes.after : &shapes.before);
    }
    return bytes * b->element;
}

/* The one kernel of a rank on one side. */
static enum orr_status pack_rank(const struct bucket *b, int step, uint32_t rank, bool unpacks,
                                 struct orr__blob *bucket) {
    int64_t parts = part_count(b, unpacks);
    struct orr__move *move = orr__move_new(b->runtime, b->count * (uint32_t)parts);
    uint64_t at = 0;
    if (!move) {
        return ORR_NO_MEMORY;
    }
    for (int64_t part = 0; part < parts; part++) {
        for (uint32_t i = 0; i < b->count; i++) {
            struct orr__change change = change_of(b, i, step);
            struct orr__cut cut = piece_cut(b, &change, rank, unpacks, part, at);
            struct orr__blob *piece = orr__tensor_blob(unpacks ? b->next[i] : b->now[i], rank);
            orr__move_add(move, unpacks ? piece : bucket, unpacks ? bucket : piece, &cut);
            at += orr__cut_bytes(&cut);
        }
    }
    assert(at == (unpacks ? b->arrived_bytes : b->packed_bytes)[rank]);
    struct orr__move_call call = call_of(b, rank, unpacks ? "unpack" : "pack");
    call.own = unpacks ? b->streams[rank] : NULL;
    return orr__move_enqueue(move, &call);
}

/* --- the collective --- */

struct group {
    struct orr_stream **streams;
    struct orr_piece *inputs, *outputs;
    struct orr_point *points;
    uint64_t *counts;
    struct orr_collective collective; /* of all tensors together */
};

/* Adds a tensor's elements to the collective's. */
static void add_counts(struct group *group, const struct orr_collective *one, uint64_t length) {
    group->collective.count += one->counts ? 0 : one->count;
    for (uint64_t i = 0; i < length; i++) {
        group->counts[i] += one->counts ? one->counts[i] : one->count;
    }
}

/* What the group of a rank transfers for all tensors. */
static enum orr_status sum_up(const struct bucket *b, int step, uint32_t rank,
                              struct group *group) {
    enum orr_status status = ORR_OK;
    bool even = true;
    uint64_t length = 0;
    for (uint32_t i = 0; status == ORR_OK && i < b->count; i++) {
        struct orr__change change = change_of(b, i, step);
        struct orr_collective one;
        uint64_t *counts;
        status = orr__change_collective(b->runtime, &change, b->step->kind, rank, &one, &counts);
        if (status == ORR_OK && i == 0) {
            group->collective = one;
            group->collective.count = 0;
            group->collective.counts = NULL;
            length = orr_collective_counts_length(one.kind, one.ranks);
            memset(group->counts, 0, length * sizeof *group->counts);
        }
        if (status == ORR_OK) {
            add_counts(group, &one, length);
            even = even && !one.counts;
        }
        orr_memory_free(b->runtime->memory, counts);
    }
    group->collective.counts = even ? NULL : group->counts;
    return status;
}

static enum orr_status fill_group(const struct bucket *b, uint32_t first, struct group *group) {
    uint32_t stride = orr_mesh_stride(b->mesh, b->step->axis);
    bool in_place = b->step->kind == ORR_REDISTRIBUTE_ALL_REDUCE;
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < group->collective.ranks; i++) {
        uint32_t rank = first + i * stride;
        struct orr__blob *out = in_place ? &b->packed[rank] : &b->arrived[rank];
        group->streams[i] = b->streams[rank];
        group->inputs[i] = (struct orr_piece){.buffer = b->packed[rank].buffer};
        group->outputs[i] = (struct orr_piece){.buffer = out->buffer};
        if (b->packed[rank].buffer) {
            status = orr__blob_use(&b->packed[rank], group->streams[i]);
        }
    }
    return status;
}

static enum orr_status run_group(const struct bucket *b, int step, uint32_t first,
                                 struct group *group) {
    uint32_t stride = orr_mesh_stride(b->mesh, b->step->axis);
    bool in_place = b->step->kind == ORR_REDISTRIBUTE_ALL_REDUCE;
    struct orr_communicator *communicator = orr_mesh_communicator(b->mesh, first, b->step->axis);
    enum orr_status status = communicator ? sum_up(b, step, first, group) : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        status = fill_group(b, first, group);
    }
    if (status == ORR_OK) {
        const struct orr_collective *all = &group->collective;
        struct orr_collective_call call = {.kind = all->kind,
                                           .dtype = all->dtype,
                                           .reduction = all->reduction,
                                           .count = all->count,
                                           .counts = all->counts,
                                           .streams = group->streams,
                                           .inputs = group->inputs,
                                           .outputs = group->outputs,
                                           .op = b->op};
        status = orr_communicator_enqueue(communicator, &call, group->points);
    }
    for (uint32_t i = 0; status == ORR_OK && i < group->collective.ranks; i++) {
        struct orr__blob *out = (in_place ? b->packed : b->arrived) + first + i * stride;
        orr__blob_written(out, group->streams[i], group->points[i]);
    }
    return status;
}

static enum orr_status run_groups(const struct bucket *b, int step) {
    const struct orr_memory *memory = b->runtime->memory;
    uint64_t ranks = (uint64_t)b->mesh->dims[b->step->axis];
    struct group group = {.streams = orr_memory_alloc(memory, ranks * sizeof(struct orr_stream *)),
                          .inputs = orr_memory_alloc(memory, ranks * sizeof *group.inputs),
                          .outputs = orr_memory_alloc(memory, ranks * sizeof *group.outputs),
                          .points = orr_memory_alloc(memory, ranks * sizeof *group.points),
                          .counts = orr_memory_alloc(memory, ranks * ranks * sizeof(uint64_t))};
    enum orr_status status =
        group.streams && group.inputs && group.outputs && group.points && group.counts
            ? ORR_OK
            : orr__runtime_no_memory(b->runtime);
    for (uint32_t rank = 0; status == ORR_OK && rank < b->mesh->size; rank++) {
        if (orr_mesh_coordinate(b->mesh, rank, b->step->axis) == 0) {
            status = run_group(b, step, rank, &group);
        }
    }
    orr_memory_free(memory, group.streams);
    orr_memory_free(memory, group.inputs);
    orr_memory_free(memory, group.outputs);
    orr_memory_free(memory, group.points);
    orr_memory_free(memory, group.counts);
    return status;
}

/* --- steps --- */

static enum orr_status exchange(struct bucket *b, int step) {
    bool in_place = b->step->kind == ORR_REDISTRIBUTE_ALL_REDUCE;
    const char *name = orr_redistribute_kind_text(b->step->kind);
    for (uint32_t rank = 0; rank < b->mesh->size; rank++) {
        b->packed_bytes[rank] = bucket_bytes(b, step, rank, false);
        b->arrived_bytes[rank] = bucket_bytes(b, step, rank, true);
    }
    enum orr_status status =
        orr__blobs_allocate(b->mesh, ORR_STREAM_COMPUTE, NULL, b->packed_bytes, name, b->packed);
    if (status == ORR_OK && !in_place) {
        status = orr__blobs_allocate(b->mesh, ORR_STREAM_COMMUNICATE, b->streams, b->arrived_bytes,
                                     name, b->arrived);
    }
    for (uint32_t rank = 0; status == ORR_OK && rank < b->mesh->size; rank++) {
        status = pack_rank(b, step, rank, false, &b->packed[rank]);
    }
    if (status == ORR_OK) {
        status = run_groups(b, step);
    }
    for (uint32_t rank = 0; status == ORR_OK && rank < b->mesh->size; rank++) {
        status = pack_rank(b, step, rank, true, in_place ? &b->packed[rank] : &b->arrived[rank]);
    }
    orr__blobs_free(b->packed, b->mesh->size);
    orr__blobs_free(b->arrived, b->mesh->size);
    memset(b->packed, 0, b->mesh->size * sizeof *b->packed);
    memset(b->arrived, 0, b->mesh->size * sizeof *b->arrived);
    return status;
}

static enum orr_status move_locally(const struct bucket *b, int step, uint32_t rank) {
    struct orr__move *move = orr__move_new(b->runtime, 2 * b->count);
    if (!move) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        struct orr__change change = change_of(b, i, step);
        orr__change_move(&change, b->step->kind, rank, orr__tensor_blob(b->next[i], rank),
                         orr__tensor_blob(b->now[i], rank), move);
    }
    struct orr__move_call call = call_of(b, rank, orr_redistribute_kind_text(b->step->kind));
    return orr__move_enqueue(move, &call);
}

/* Makes the results of a step, with memory. */
static enum orr_status make_next(struct bucket *b, int step, bool last) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < b->count; i++) {
        struct orr__change change = change_of(b, i, step);
        change.layout.axes[change.axis] = change.to;
        b->next[i] = orr__tensor_new(b->runtime, change.info, &change.layout);
        if (!b->next[i]) {
            return ORR_NO_MEMORY;
        }
        b->next[i]->role = last ? b->next[i]->role : ORR_ROLE_COMMUNICATION;
        if (b->step->kind == ORR_REDISTRIBUTE_KEEP) {
            orr__tensor_share(b->next[i], b->now[i]);
        } else {
            bool local = b->step->kind > ORR_REDISTRIBUTE_ALL_TO_ALL;
            status = local ? orr__tensor_allocate(b->next[i], ORR_STREAM_COMPUTE, "redistribute")
                           : orr__tensor_allocate_each(b->next[i], b->streams, "redistribute");
        }
    }
    return status;
}

static enum orr_status run_step(struct bucket *b, int step, bool last, uint64_t parent) {
    struct orr_cost none = {0};
    b->step = &b->members[0]->path.steps[step];
    orr__runtime_operator_begin(b->runtime, b->mesh->devices[0], -1);
    enum orr_status status = make_next(b, step, last);
    bool keeps = b->step->kind == ORR_REDISTRIBUTE_KEEP;
    if (status == ORR_OK && !keeps) {
        b->op = orr__op_record(b->runtime, orr_redistribute_kind_text(b->step->kind), "collective",
                               none, &b->now[0]->info, parent);
        bool local = b->step->kind > ORR_REDISTRIBUTE_ALL_TO_ALL;
        status = local ? ORR_OK : exchange(b, step);
        for (uint32_t rank = 0; local && status == ORR_OK && rank < b->mesh->size; rank++) {
            status = move_locally(b, step, rank);
        }
    }
    orr__runtime_operator_end(b->runtime, !keeps && status == ORR_OK && !b->runtime->capture);
    for (uint32_t i = 0; status == ORR_OK && i < b->count; i++) {
        orr__tensor_release(b->now[i]);
        b->now[i] = b->next[i];
        b->next[i] = NULL;
    }
    return status;
}

/* "redistribute 12 tensors: reduce_scatter dp, slice tp; 96 B on the wire, 3 hops" */
static uint64_t record_bucket(const struct bucket *b) {
    char text[ORR_REDISTRIBUTE_SUMMARY_MAX];
    struct orr_cost none = {0};
    const struct orr_redistribute_path *path = &b->members[0]->path;
    int at = snprintf(text, sizeof text, "redistribute %u tensors:", (unsigned)b->count);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        bytes += b->members[i]->path.bytes;
    }
    for (int i = 0; i < path->step_count; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%s %s %s", i ? "," : "",
                       orr_redistribute_kind_text(path->steps[i].kind),
                       b->mesh->names[path->steps[i].axis]);
    }
    snprintf(text + at, sizeof text - (size_t)at, "; %llu B on the wire, %llu hop%s",
             (unsigned long long)bytes, (unsigned long long)path->hops, path->hops == 1 ? "" : "s");
    return orr__op_record(b->runtime, text, "redistribute", none, &b->now[0]->info, 0);
}

static enum orr_status find_streams(struct bucket *b) {
    enum orr_status status = ORR_OK;
    for (uint32_t rank = 0; status == ORR_OK && rank < b->mesh->size; rank++) {
        uint32_t index = b->mesh->devices[rank];
        struct orr__device *device = &b->runtime->devices[index];
        if (!device->bucket) {
            status = orr_stream_create(b->runtime, index, ORR_STREAM_COMMUNICATE,
                                       "communicate (buckets)", &device->bucket);
        }
        b->streams[rank] = device->bucket;
    }
    return status;
}

static enum orr_status run_bucket(struct bucket *b) {
    const struct orr_memory *memory = b->runtime->memory;
    uint32_t size = b->mesh->size;
    int steps = b->members[0]->path.step_count;
    b->packed = orr_memory_alloc(memory, size * sizeof *b->packed);
    b->arrived = orr_memory_alloc(memory, size * sizeof *b->arrived);
    b->packed_bytes = orr_memory_alloc(memory, size * sizeof *b->packed_bytes);
    b->arrived_bytes = orr_memory_alloc(memory, size * sizeof *b->arrived_bytes);
    b->streams = orr_memory_alloc(memory, size * sizeof(struct orr_stream *));
    enum orr_status status =
        b->packed && b->arrived && b->packed_bytes && b->arrived_bytes && b->streams
            ? find_streams(b)
            : orr__runtime_no_memory(b->runtime);
    uint64_t parent = status == ORR_OK ? record_bucket(b) : 0;
    for (int i = 0; status == ORR_OK && i < steps; i++) {
        status = run_step(b, i, i + 1 == steps, parent);
    }
    orr_memory_free(memory, b->packed);
    orr_memory_free(memory, b->arrived);
    orr_memory_free(memory, b->packed_bytes);
    orr_memory_free(memory, b->arrived_bytes);
    orr_memory_free(memory, b->streams);
    return status;
}

/* A tensor that has no other like it needs no bucket. */
static enum orr_status run_alone(struct bucket *b, const struct orr_layout *layout) {
    struct orr_tensor *out;
    enum orr_status status = orr__redistribute(b->now[0], layout, &out);
    if (status == ORR_OK) {
        orr__tensor_release(b->now[0]);
        b->now[0] = out;
    }
    return status;
}

/* --- buckets --- */

/* The whole call. */
struct call {
    struct orr_runtime *runtime;
    struct orr_tensor *const *tensors;
    const struct orr_layout *layouts;
    uint32_t count;
    struct member *members;
    struct orr_tensor **outs;
};

static bool is_alike(const struct call *c, uint32_t a, uint32_t b) {
    const struct orr_redistribute_path *x = &c->members[a].path, *y = &c->members[b].path;
    bool alike = c->tensors[a]->layout.mesh == c->tensors[b]->layout.mesh &&
                 c->tensors[a]->info.dtype == c->tensors[b]->info.dtype &&
                 x->step_count == y->step_count;
    for (int i = 0; alike && i < x->step_count; i++) {
        const struct orr_redistribute_step *s = &x->steps[i], *t = &y->steps[i];
        alike = s->kind == t->kind && s->axis == t->axis &&
                (s->from.kind != ORR_PARTIAL || s->from.reduction == t->from.reduction);
    }
    return alike;
}

/* The bucket of tensor `first` and all later ones that are alike. */
static enum orr_status do_bucket(struct call *c, uint32_t first, uint32_t *indices) {
    const struct orr_memory *memory = c->runtime->memory;
    struct bucket b = {.runtime = c->runtime,
                       .mesh = c->tensors[first]->layout.mesh,
                       .element = orr_dtype_size(c->tensors[first]->info.dtype)};
    b.now = orr_memory_alloc(memory, c->count * sizeof(struct orr_tensor *));
    b.next = orr_memory_alloc(memory, c->count * sizeof(struct orr_tensor *));
    b.members = orr_memory_alloc(memory, c->count * sizeof(struct member *));
    enum orr_status status =
        b.now && b.next && b.members ? ORR_OK : orr__runtime_no_memory(c->runtime);
    for (uint32_t i = first; status == ORR_OK && i < c->count; i++) {
        if (!c->members[i].taken && is_alike(c, first, i)) {
            c->members[i].taken = true;
            indices[b.count] = i;
            b.members[b.count] = &c->members[i];
            b.now[b.count++] = orr_tensor_retain(c->tensors[i]);
        }
    }
    if (status == ORR_OK) {
        status = b.count > 1 ? run_bucket(&b) : run_alone(&b, &c->layouts[first]);
    }
    for (uint32_t i = 0; i < b.count; i++) {
        if (b.next[i]) {
            orr__tensor_release(b.next[i]);
        }
        if (status == ORR_OK) {
            c->outs[indices[i]] = b.now[i];
        } else {
            orr__tensor_release(b.now[i]);
        }
    }
    orr_memory_free(memory, b.now);
    orr_memory_free(memory, b.next);
    orr_memory_free(memory, b.members);
    return status;
}

/* How tensor `i` gets where it is to go; what needs no steps of its own mesh is done at once. */
static enum orr_status plan_one(struct call *c, uint32_t i) {
    struct orr_tensor *tensor = c->tensors[i];
    struct orr_redistribute_plan plan = {
        .info = tensor->info, .from = tensor->layout, .to = c->layouts[i]};
    if (orr_layout_equal(&tensor->layout, &c->layouts[i])) {
        c->outs[i] = orr_tensor_retain(tensor);
        c->members[i].taken = true;
        return ORR_OK;
    }
    if (tensor->layout.mesh != c->layouts[i].mesh) {
        c->members[i].taken = true;
        return orr__redistribute(tensor, &c->layouts[i], &c->outs[i]);
    }
    enum orr_status status = orr__redistribute_search(c->runtime, &plan);
    c->members[i].path = plan.paths[0];
    return status;
}

/* Each tensor is a node of its own on a tape: its gradient comes back by itself. */
static enum orr_status record_all(const struct call *c) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        struct orr__stage step = {
            .input_count = 1, .inputs = {c->tensors[i]}, .outputs = {c->outs[i]}};
        if (c->outs[i] == c->tensors[i]) {
            continue;
        }
        status = orr__tape_reserve(c->runtime, step.inputs, 1);
        if (status == ORR_OK) {
            orr__tape_record(c->runtime, &step);
            orr__recordings_add(c->runtime, &step);
        }
    }
    return status;
}

static enum orr_status do_all(struct call *c) {
    uint32_t *indices = orr_memory_alloc(c->runtime->memory, c->count * sizeof *indices);
    enum orr_status status = indices ? ORR_OK : orr__runtime_no_memory(c->runtime);
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        status = plan_one(c, i);
    }
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        status = c->members[i].taken ? ORR_OK : do_bucket(c, i, indices);
    }
    orr_memory_free(c->runtime->memory, indices);
    return status == ORR_OK ? record_all(c) : status;
}

static enum orr_status begin(const struct call *c) {
    enum orr_status status = ORR_OK;
    orr_error_clear(&c->runtime->error);
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        status = orr_layout_check(&c->layouts[i], &c->tensors[i]->info.shape, &c->runtime->error);
    }
    if (status == ORR_OK) {
        status = orr__runtime_turn(c->runtime);
    }
    if (status == ORR_OK) {
        status = orr__region_flush(c->runtime, false);
    }
    for (uint32_t i = 0; status == ORR_OK && i < c->count; i++) {
        status = orr__tensor_check_kept(c->tensors[i], "redistribute_all");
    }
    return status;
}

enum orr_status orr_tensor_redistribute_all(struct orr_tensor *const *tensors,
                                            const struct orr_layout *layouts, uint32_t count,
                                            struct orr_tensor **out_tensors) {
    for (uint32_t i = 0; i < count; i++) {
        out_tensors[i] = NULL;
    }
    if (count == 0) {
        return ORR_OK;
    }
    struct call c = {.runtime = tensors[0]->runtime,
                     .tensors = tensors,
                     .layouts = layouts,
                     .count = count,
                     .outs = out_tensors};
    enum orr_status status = begin(&c);
    if (status != ORR_OK) {
        return status;
    }
    c.members = orr_memory_alloc(c.runtime->memory, count * sizeof *c.members);
    status = c.members ? do_all(&c) : orr__runtime_no_memory(c.runtime);
    orr_memory_free(c.runtime->memory, c.members);
    for (uint32_t i = 0; status != ORR_OK && i < count; i++) {
        if (out_tensors[i]) {
            orr__tensor_release(out_tensors[i]);
            out_tensors[i] = NULL;
        }
    }
    return status;
}
