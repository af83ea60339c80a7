/* The crossing of a redistribution: parts of pieces go to another mesh, in one group of sends.
 *
 *     old rank's piece --pack--> packed --send--> arrived --unpack--> new rank's piece
 *                 (only where a part does not lie in one row)
 *     a piece of the same device: --------------move--------------> */
#include <assert.h>
#include <string.h>

#include "runtime/redistribute_internal.h"
#include "runtime/role.h"

/* Where a part is on its way, in bytes from the start of the blob that it is sent from or to. */
struct way {
    bool packs, unpacks;
    uint64_t from, to;
};

struct crossing {
    struct orr_runtime *runtime;
    struct orr_tensor *source, *target;
    struct orr__parts parts;
    size_t element;
    uint64_t op;
    struct way *ways;                   /* of each part */
    struct orr__blob *packed, *arrived; /* of each old and new rank; no buffer if not needed */
    uint64_t *packed_bytes, *arrived_bytes;
    /* Of sends. */
    const struct orr__mesh_bridge *bridge;
    const uint32_t *old_ranks, *new_ranks; /* in its communicator; NULL: the mesh's own */
    /* Of each new rank: where what is sent to it arrives, and to whose stream its piece belongs. */
    struct orr_stream **arrivals, **owners;
};

static const struct orr_mesh *old_mesh(const struct crossing *x) {
    return x->source->layout.mesh;
}

static const struct orr_mesh *new_mesh(const struct crossing *x) {
    return x->target->layout.mesh;
}

static uint64_t part_bytes(const struct crossing *x, const struct orr__part *part) {
    return (uint64_t)orr_shape_count(&part->counts) * x->element;
}

/* --- what goes where --- */

static bool is_same_box(const struct orr__part *a, const struct orr__part *b) {
    return orr_shape_equal(&a->counts, &b->counts) &&
           memcmp(a->starts, b->starts, (size_t)a->counts.rank * sizeof a->starts[0]) == 0;
}

/* A part that its source has packed already, for another rank. */
static const struct way *packed_before(const struct crossing *x, size_t index) {
    const struct orr__part *items = x->parts.items;
    for (uint32_t i = x->parts.first[items[index].source]; i < index; i = items[i].next) {
        if (!items[i].local && is_same_box(&items[i], &items[index])) {
            return &x->ways[i];
        }
    }
    return NULL;
}

static void lay_out(struct crossing *x, size_t index) {
    const struct orr__part *part = &x->parts.items[index];
    struct way *way = &x->ways[index];
    struct orr__cut from = orr__part_packs(&x->parts, part, 0, x->element);
    struct orr__cut to = orr__part_unpacks(&x->parts, part, 0, x->element);
    *way = (struct way){from.rank > 0, to.rank > 0, from.from, to.to};
    if (way->packs) {
        const struct way *before = packed_before(x, index);
        uint64_t *bytes = &x->packed_bytes[part->source];
        way->from = before ? before->from : *bytes;
        *bytes += before ? 0 : part_bytes(x, part);
    }
    if (way->unpacks) {
        way->to = x->arrived_bytes[part->target];
        x->arrived_bytes[part->target] += part_bytes(x, part);
    }
}

static uint32_t old_rank(const struct crossing *x, uint32_t rank) {
    return x->old_ranks ? x->old_ranks[rank] : rank;
}

static uint32_t new_rank(const struct crossing *x, uint32_t rank) {
    return x->new_ranks ? x->new_ranks[rank] : rank;
}

/* A piece that is made of what arrives belongs to the bridge's stream, on which it is unpacked,
 * too: on the compute stream that would hold up what is behind it until everything is there. A
 * piece of parts of the same device belongs to the compute stream. */
static enum orr_status lay_out_all(struct crossing *x) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < new_mesh(x)->size; i++) {
        x->owners[i] = orr_device_stream(x->runtime, new_mesh(x)->devices[i], ORR_STREAM_COMPUTE);
        status = x->owners[i] ? ORR_OK : ORR_NO_MEMORY;
    }
    for (size_t i = 0; status == ORR_OK && i < x->parts.count; i++) {
        const struct orr__part *part = &x->parts.items[i];
        if (part->local) {
            continue;
        }
        lay_out(x, i);
        struct orr_stream *stream = orr__bridge_stream(x->bridge, new_rank(x, part->target));
        status = stream ? ORR_OK : ORR_NO_MEMORY;
        x->arrivals[part->target] = stream;
        x->owners[part->target] = stream;
    }
    return status;
}

/* --- memory --- */

enum orr_status orr__blobs_allocate(const struct orr_mesh *mesh, enum orr_stream_kind kind,
                                    struct orr_stream *const *streams, const uint64_t *bytes,
                                    const char *label, struct orr__blob *blobs) {
    struct orr_runtime *runtime = mesh->runtime;
    enum orr_role before = orr_runtime_set_role(runtime, runtime->host, ORR_ROLE_COMMUNICATION);
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < mesh->size; i++) {
        if (bytes[i] > 0) {
            struct orr_stream *stream =
                streams ? streams[i] : orr_device_stream(runtime, mesh->devices[i], kind);
            status = stream ? orr_buffer_alloc(stream, bytes[i], label, &blobs[i].buffer)
                            : ORR_NO_MEMORY;
        }
    }
    orr_runtime_set_role(runtime, runtime->host, before);
    return status;
}

void orr__blobs_free(struct orr__blob *blobs, uint32_t count) {
    for (uint32_t i = 0; blobs && i < count; i++) {
        if (blobs[i].buffer) {
            orr_buffer_free(&blobs[i].buffer);
        }
    }
}

static enum orr_status allocate(struct crossing *x) {
    enum orr_status status = orr__tensor_allocate_each(x->target, x->owners, "redistribute");
    if (status == ORR_OK) {
        status = orr__blobs_allocate(old_mesh(x), ORR_STREAM_COMPUTE, NULL, x->packed_bytes,
                                     "send_receive", x->packed);
    }
    if (status == ORR_OK) {
        status = orr__blobs_allocate(new_mesh(x), ORR_STREAM_COMMUNICATE, x->arrivals,
                                     x->arrived_bytes, "send_receive", x->arrived);
    }
    return status;
}

static void crossing_free(struct crossing *x) {
    const struct orr_memory *memory = x->runtime->memory;
    orr__blobs_free(x->packed, old_mesh(x)->size);
    orr__blobs_free(x->arrived, new_mesh(x)->size);
    orr_memory_free(memory, x->ways);
    orr_memory_free(memory, x->packed);
    orr_memory_free(memory, x->arrived);
    orr_memory_free(memory, x->packed_bytes);
    orr_memory_free(memory, x->arrived_bytes);
    orr_memory_free(memory, x->arrivals);
    orr_memory_free(memory, x->owners);
}

static enum orr_status crossing_alloc(struct crossing *x) {
    const struct orr_memory *memory = x->runtime->memory;
    uint32_t old = old_mesh(x)->size, new = new_mesh(x)->size;
    x->ways = orr_memory_alloc(memory, (x->parts.count + 1) * sizeof *x->ways);
    x->packed = orr_memory_alloc(memory, old * sizeof *x->packed);
    x->packed_bytes = orr_memory_alloc(memory, old * sizeof *x->packed_bytes);
    x->arrived = orr_memory_alloc(memory, new * sizeof *x->arrived);
    x->arrived_bytes = orr_memory_alloc(memory, new * sizeof *x->arrived_bytes);
    x->arrivals = orr_memory_alloc(memory, new * sizeof(struct orr_stream *));
    x->owners = orr_memory_alloc(memory, new * sizeof(struct orr_stream *));
    if (x->ways && x->packed && x->packed_bytes && x->arrived && x->arrived_bytes && x->arrivals &&
        x->owners) {
        return ORR_OK;
    }
    return orr__runtime_no_memory(x->runtime);
}

/* --- kernels --- */

static struct orr__move_call call_of(const struct crossing *x, uint32_t device, const char *name) {
    return (struct orr__move_call){
        .device = device, .name = name, .dtype = x->source->info.dtype, .op = x->op};
}

/* One kernel for all that a rank packs. */
static enum orr_status pack(const struct crossing *x, uint32_t rank) {
    const struct orr__part *items = x->parts.items;
    uint32_t count = 0;
    uint64_t at = 0;
    for (uint32_t i = x->parts.first[rank]; i != ORR_ID_NONE; i = items[i].next) {
        count++;
    }
    struct orr__move *move = orr__move_new(x->runtime, count);
    if (!move) {
        return ORR_NO_MEMORY;
    }
    for (uint32_t i = x->parts.first[rank]; i != ORR_ID_NONE; i = items[i].next) {
        if (x->ways[i].packs && x->ways[i].from == at) { /* else it was packed before */
            struct orr__cut cut = orr__part_packs(&x->parts, &items[i], at, x->element);
            orr__move_add(move, &x->packed[rank], orr__tensor_blob(x->source, rank), &cut);
            at += part_bytes(x, &items[i]);
        }
    }
    assert(at == x->packed_bytes[rank]);
    struct orr__move_call call = call_of(x, old_mesh(x)->devices[rank], "pack");
    return orr__move_enqueue(move, &call);
}

/* One kernel for all that a rank unpacks, and for what it has itself: parts `first` to before
 * `past`. */
static enum orr_status unpack(const struct crossing *x, uint32_t rank, size_t first, size_t past) {
    struct orr__move *move = orr__move_new(x->runtime, (uint32_t)(past - first));
    struct orr__blob *to = orr__tensor_blob(x->target, rank);
    bool unpacks = false;
    if (!move) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = first; i < past; i++) {
        const struct orr__part *part = &x->parts.items[i];
        if (part->local) {
            struct orr__cut cut = orr__part_copies(&x->parts, part, x->element);
            orr__move_add(move, to, orr__tensor_blob(x->source, part->source), &cut);
        } else if (x->ways[i].unpacks) {
            struct orr__cut cut = orr__part_unpacks(&x->parts, part, x->ways[i].to, x->element);
            orr__move_add(move, to, &x->arrived[rank], &cut);
            unpacks = true;
        }
    }
    struct orr__move_call call =
        call_of(x, new_mesh(x)->devices[rank], unpacks ? "unpack" : "move");
    call.own = x->owners[rank];
    return orr__move_enqueue(move, &call);
}

static enum orr_status pack_all(const struct crossing *x) {
    enum orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < old_mesh(x)->size; i++) {
        status = x->packed_bytes[i] > 0 ? pack(x, i) : ORR_OK;
    }
    return status;
}

static enum orr_status unpack_all(const struct crossing *x) {
    enum orr_status status = ORR_OK;
    for (size_t first = 0, past = 0; status == ORR_OK && first < x->parts.count; first = past) {
        uint32_t rank = x->parts.items[first].target;
        while (past < x->parts.count && x->parts.items[past].target == rank) {
            past++;
        }
        status = unpack(x, rank, first, past);
    }
    return status;
}

/* --- sends --- */

/* The group of sends, in ranks of the bridge's communicator. */
struct group {
    struct orr_send *sends;
    uint32_t count;
    struct orr_stream **streams; /* of each rank, NULL for one that has no part */
    struct orr_point *points;
};

static struct orr_stream *member(const struct crossing *x, struct group *group, uint32_t rank) {
    if (!group->streams[rank]) {
        group->streams[rank] = orr__bridge_stream(x->bridge, rank);
    }
    return group->streams[rank];
}

static struct orr__blob *send_from(const struct crossing *x, size_t i) {
    uint32_t rank = x->parts.items[i].source;
    return x->ways[i].packs ? &x->packed[rank] : orr__tensor_blob(x->source, rank);
}

static struct orr__blob *send_to(const struct crossing *x, size_t i) {
    uint32_t rank = x->parts.items[i].target;
    return x->ways[i].unpacks ? &x->arrived[rank] : orr__tensor_blob(x->target, rank);
}

static enum orr_status add_send(const struct crossing *x, struct group *group, size_t i) {
    const struct orr__part *part = &x->parts.items[i];
    uint32_t source = old_rank(x, part->source), target = new_rank(x, part->target);
    if (!member(x, group, source) || !member(x, group, target)) {
        return ORR_NO_MEMORY;
    }
    const struct orr__blob *out = send_from(x, i), *in = send_to(x, i);
    group->sends[group->count++] = (struct orr_send){source,
                                                     target,
                                                     (uint64_t)orr_shape_count(&part->counts),
                                                     {out->buffer, x->ways[i].from},
                                                     {in->buffer, x->ways[i].to}};
    return ORR_OK;
}

/* Sends come after what wrote the pieces: one wait for each, however many parts of it are sent. */
static enum orr_status wait_for_pieces(const struct crossing *x, uint32_t rank) {
    const struct orr__part *items = x->parts.items;
    struct orr_stream *stream = NULL;
    bool packs = false, sends = false;
    for (uint32_t i = x->parts.first[rank]; i != ORR_ID_NONE; i = items[i].next) {
        packs = packs || (!items[i].local && x->ways[i].packs);
        sends = sends || (!items[i].local && !x->ways[i].packs);
    }
    enum orr_status status = ORR_OK;
    if (packs || sends) {
        stream = orr__bridge_stream(x->bridge, old_rank(x, rank));
        status = stream ? ORR_OK : ORR_NO_MEMORY;
    }
    if (status == ORR_OK && packs) {
        status = orr__blob_use(&x->packed[rank], stream);
    }
    if (status == ORR_OK && sends) {
        status = orr__blob_use(orr__tensor_blob(x->source, rank), stream);
    }
    return status;
}

static enum orr_status enqueue_group(const struct crossing *x, struct group *group) {
    enum orr_status status = ORR_OK;
    for (size_t i = 0; status == ORR_OK && i < x->parts.count; i++) {
        status = x->parts.items[i].local ? ORR_OK : add_send(x, group, i);
    }
    for (uint32_t i = 0; status == ORR_OK && i < old_mesh(x)->size; i++) {
        status = x->parts.first[i] == ORR_ID_NONE ? ORR_OK : wait_for_pieces(x, i);
    }
    if (status == ORR_OK) {
        status =
            orr_send_receive_enqueue(x->bridge->communicator, x->source->info.dtype, group->sends,
                                     group->count, group->streams, NULL, x->op, group->points);
    }
    for (size_t i = 0, k = 0; status == ORR_OK && i < x->parts.count; i++) {
        if (!x->parts.items[i].local) {
            uint32_t rank = group->sends[k++].target;
            orr__blob_written(send_to(x, i), group->streams[rank], group->points[rank]);
        }
    }
    return status;
}

static enum orr_status send_all(const struct crossing *x) {
    const struct orr_memory *memory = x->runtime->memory;
    uint32_t ranks = orr_communicator_size(x->bridge->communicator);
    struct group group = {0};
    group.sends = orr_memory_alloc(memory, x->parts.count * sizeof *group.sends);
    group.streams = orr_memory_alloc(memory, ranks * sizeof(struct orr_stream *));
    group.points = orr_memory_alloc(memory, ranks * sizeof *group.points);
    enum orr_status status = group.sends && group.streams && group.points
                                 ? enqueue_group(x, &group)
                                 : orr__runtime_no_memory(x->runtime);
    orr_memory_free(memory, group.sends);
    orr_memory_free(memory, group.streams);
    orr_memory_free(memory, group.points);
    return status;
}

static bool has_sends(const struct crossing *x) {
    bool any = false;
    for (size_t i = 0; !any && i < x->parts.count; i++) {
        any = !x->parts.items[i].local;
    }
    return any;
}

static enum orr_status find_bridge(struct crossing *x) {
    struct orr_mesh *from = x->source->layout.mesh, *first;
    x->bridge = orr__mesh_bridge(from, x->target->layout.mesh, &first);
    if (!x->bridge) {
        return ORR_NO_MEMORY;
    }
    *(first == from ? &x->new_ranks : &x->old_ranks) = x->bridge->ranks;
    return ORR_OK;
}

/* --- the whole --- */

static enum orr_status exchange(struct crossing *x, uint64_t parent) {
    struct orr_cost none = {0};
    enum orr_status status = crossing_alloc(x);
    if (status != ORR_OK) {
        return status;
    }
    bool sends = has_sends(x);
    if (sends) {
        status = find_bridge(x);
    }
    if (status == ORR_OK) {
        status = lay_out_all(x);
    }
    if (status != ORR_OK) {
        return status;
    }
    orr__runtime_operator_begin(x->runtime, old_mesh(x)->devices[0], -1);
    status = allocate(x);
    if (status == ORR_OK) {
        x->op = orr__op_record(x->runtime, sends ? "send_receive" : "move", "collective", none,
                               &x->target->info, parent);
        status = pack_all(x);
    }
    if (status == ORR_OK && sends) {
        status = send_all(x);
    }
    if (status == ORR_OK) {
        status = unpack_all(x);
    }
    orr__runtime_operator_end(x->runtime, status == ORR_OK && !x->runtime->capture);
    return status;
}

/* The target gets the memory that its devices have already. */
static enum orr_status share(const struct crossing *x) {
    uint32_t size = new_mesh(x)->size;
    uint32_t *ranks = orr_memory_alloc(x->runtime->memory, size * sizeof *ranks);
    if (!ranks) {
        return orr__runtime_no_memory(x->runtime);
    }
    memcpy(ranks, x->parts.own, size * sizeof *ranks);
    return orr__tensor_share_ranks(x->target, x->source, ranks);
}

enum orr_status orr__redistribute_cross(struct orr_tensor **tensor,
                                        const struct orr_redistribute_plan *plan, uint64_t parent,
                                        bool last) {
    struct orr_runtime *runtime = (*tensor)->runtime;
    const struct orr_redistribute_crossing *crossing = &plan->crossing;
    struct crossing x = {.runtime = runtime,
                         .source = *tensor,
                         .target = orr__tensor_new(runtime, &plan->info, &crossing->received),
                         .element = orr_dtype_size(plan->info.dtype)};
    if (!x.target) {
        return ORR_NO_MEMORY;
    }
    x.target->role = last ? x.target->role : ORR_ROLE_COMMUNICATION;
    enum orr_status status =
        orr__parts_find(runtime, &plan->info, &crossing->sent, &crossing->received, &x.parts);
    if (status == ORR_OK) {
        status = x.parts.shares ? share(&x) : exchange(&x, parent);
    }
    crossing_free(&x);
    orr__parts_free(runtime, &x.parts);
    if (status != ORR_OK) {
        orr__tensor_release(x.target);
        return status;
    }
    orr__tensor_release(x.source);
    *tensor = x.target;
    return ORR_OK;
}
