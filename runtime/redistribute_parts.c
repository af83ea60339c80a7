/* Which parts of a tensor go from which rank of one mesh to which rank of another, and what that
 * costs.
 *
 *     old mesh: S(0) over 2             new mesh: S(1) over 3
 *     0 0 0 0 0 0                       0 0 1 1 2 2
 *     1 1 1 1 1 1                       0 0 1 1 2 2          six parts: each row with each column
 *
 * Ranks of the old mesh that differ only along replicated axes are replicas of one piece. */
#include <assert.h>
#include <string.h>

#include "runtime/collective.h"
#include "runtime/redistribute_internal.h"

enum { PARTS_MAX = 1 << 26 };

/* --- axes --- */

static bool is_partial(const struct orr_layout *layout, int axis) {
    return layout->axes[axis].kind == ORR_PARTIAL && layout->mesh->dims[axis] > 1;
}

/* Which partial axes keep their terms: out_kept[axis] is the other mesh's axis, or -1. Of several
 * ones with different reductions the order counts, too. */
static void find_kept(const struct orr_layout *from, const struct orr_layout *to, int *out_kept) {
    int last = -1;
    bool in_order = true, alike = true;
    const struct orr_placement *first = NULL;
    for (int i = 0; i < from->mesh->axis_count; i++) {
        int match = is_partial(from, i) ? orr__matching_axis(from->mesh, i, to->mesh) : -1;
        bool keeps = match >= 0 && orr_placement_equal(from->axes[i], to->axes[match]);
        out_kept[i] = keeps ? match : -1;
        if (keeps) {
            first = first ? first : &from->axes[i];
            alike = alike && orr_placement_equal(*first, from->axes[i]);
            in_order = in_order && match > last;
            last = match;
        }
    }
    for (int i = 0; !alike && !in_order && i < from->mesh->axis_count; i++) {
        out_kept[i] = -1;
    }
}

/* --- finding the parts --- */

struct finder {
    struct orr_runtime *runtime;
    const struct orr_operand_info *info;
    const struct orr_layout *from, *to;
    int match[ORR_MESH_AXES_MAX]; /* of the old mesh's axes */
    uint32_t replicas;
    uint64_t *loads; /* bytes that a rank of the old mesh sends so far */
    struct orr__parts *parts;
};

static bool is_replicated(const struct finder *f, int axis) {
    return f->from->axes[axis].kind == ORR_REPLICATE || f->from->mesh->dims[axis] == 1;
}

/* Does a rank of the old mesh have the terms that one of the new mesh needs? */
static bool has_terms(const struct finder *f, uint32_t source, uint32_t target) {
    for (int i = 0; i < f->from->mesh->axis_count; i++) {
        if (is_partial(f->from, i)) {
            assert(f->match[i] >= 0);
            if (orr_mesh_coordinate(f->from->mesh, source, i) !=
                orr_mesh_coordinate(f->to->mesh, target, f->match[i])) {
                return false;
            }
        }
    }
    return true;
}

static bool are_replicas(const struct finder *f, uint32_t a, uint32_t b) {
    for (int i = 0; i < f->from->mesh->axis_count; i++) {
        if (!is_replicated(f, i) &&
            orr_mesh_coordinate(f->from->mesh, a, i) != orr_mesh_coordinate(f->from->mesh, b, i)) {
            return false;
        }
    }
    return true;
}

/* The `index`-th replica of a piece whose first one is `first`. */
static uint32_t replica(const struct finder *f, uint32_t first, uint32_t index) {
    for (int i = f->from->mesh->axis_count - 1; i >= 0; i--) {
        if (is_replicated(f, i)) {
            uint32_t length = (uint32_t)f->from->mesh->dims[i];
            first += index % length * orr_mesh_stride(f->from->mesh, i);
            index /= length;
        }
    }
    return first;
}

/* Index of the replica at a target's own coordinates. */
static uint32_t nearest_replica(const struct finder *f, uint32_t target) {
    uint32_t index = 0;
    for (int i = 0; i < f->from->mesh->axis_count; i++) {
        if (is_replicated(f, i)) {
            int64_t at =
                f->match[i] < 0 ? 0 : orr_mesh_coordinate(f->to->mesh, target, f->match[i]);
            index = index * (uint32_t)f->from->mesh->dims[i] + (uint32_t)at;
        }
    }
    return index;
}

/* Which replica of a piece a target gets it from. */
static uint32_t choose(const struct finder *f, uint32_t first, uint32_t target) {
    uint32_t own = f->parts->own[target], nearest = nearest_replica(f, target);
    if (own != ORR_ID_NONE && are_replicas(f, own, first)) {
        return own;
    }
    uint32_t best = replica(f, first, nearest);
    for (uint32_t i = 1; i < f->replicas; i++) {
        uint32_t other = replica(f, first, (nearest + i) % f->replicas);
        best = f->loads[other] < f->loads[best] ? other : best;
    }
    return best;
}

/* What two pieces have in common; false if nothing. */
static bool intersect(const struct orr__rank_piece *a, const struct orr__rank_piece *b,
                      struct orr__part *part) {
    part->counts = a->shape;
    for (int i = 0; i < a->shape.rank; i++) {
        int64_t a_end = a->starts[i] + a->shape.dims[i], b_end = b->starts[i] + b->shape.dims[i];
        int64_t start = a->starts[i] > b->starts[i] ? a->starts[i] : b->starts[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        if (end <= start) {
            return false;
        }
        part->starts[i] = start;
        part->counts.dims[i] = end - start;
    }
    return true;
}

static enum orr_status add_part(struct finder *f, struct orr__part *part) {
    struct orr__parts *parts = f->parts;
    if (orr_memory_grow(f->runtime->memory, &parts->items, &parts->capacity, parts->count + 1,
                        sizeof *parts->items, PARTS_MAX) != ORR_OK) {
        return orr__runtime_no_memory(f->runtime);
    }
    part->local = parts->own[part->target] == part->source;
    part->next = ORR_ID_NONE;
    if (!part->local) {
        f->loads[part->source] += (uint64_t)orr_shape_count(&part->counts);
    }
    parts->items[parts->count++] = *part;
    return ORR_OK;
}

static enum orr_status find_for_target(struct finder *f, uint32_t target) {
    enum orr_status status = ORR_OK;
    for (uint32_t rank = 0; status == ORR_OK && rank < f->from->mesh->size; rank++) {
        struct orr__part part = {.target = target};
        bool first = true;
        for (int i = 0; first && i < f->from->mesh->axis_count; i++) {
            first = !is_replicated(f, i) || orr_mesh_coordinate(f->from->mesh, rank, i) == 0;
        }
        if (first && has_terms(f, rank, target) &&
            intersect(&f->parts->sources[rank], &f->parts->targets[target], &part)) {
            part.source = choose(f, rank, target);
            status = add_part(f, &part);
        }
    }
    return status;
}

/* Chains the parts of each source, in their order. */
static void chain(struct orr__parts *parts) {
    for (size_t i = parts->count; i > 0; i--) {
        struct orr__part *part = &parts->items[i - 1];
        part->next = parts->first[part->source];
        parts->first[part->source] = (uint32_t)(i - 1);
    }
}

static bool is_same_piece(const struct orr__rank_piece *a, const struct orr__rank_piece *b) {
    bool empty = orr_shape_count(&a->shape) == 0 && orr_shape_count(&b->shape) == 0;
    return empty || (orr_shape_equal(&a->shape, &b->shape) &&
                     memcmp(a->starts, b->starts, sizeof a->starts) == 0);
}

static bool can_share(const struct finder *f) {
    const struct orr__parts *parts = f->parts;
    bool all = true;
    for (uint32_t i = 0; all && i < f->to->mesh->size; i++) {
        all = parts->own[i] != ORR_ID_NONE && has_terms(f, parts->own[i], i) &&
              is_same_piece(&parts->sources[parts->own[i]], &parts->targets[i]);
    }
    return all;
}

/* Pieces of every rank, and ranks on one device. */
static enum orr_status prepare(struct finder *f) {
    const struct orr_memory *memory = f->runtime->memory;
    const struct orr_mesh *from = f->from->mesh, *to = f->to->mesh;
    struct orr__parts *parts = f->parts;
    uint32_t *ranks = orr_memory_alloc(memory, f->runtime->device_count * sizeof *ranks);
    parts->sources = orr_memory_alloc(memory, from->size * sizeof *parts->sources);
    parts->targets = orr_memory_alloc(memory, to->size * sizeof *parts->targets);
    parts->own = orr_memory_alloc(memory, to->size * sizeof *parts->own);
    parts->first = orr_memory_alloc(memory, from->size * sizeof *parts->first);
    f->loads = orr_memory_alloc(memory, from->size * sizeof *f->loads);
    if (!ranks || !parts->sources || !parts->targets || !parts->own || !parts->first || !f->loads) {
        orr_memory_free(memory, ranks);
        return orr__runtime_no_memory(f->runtime);
    }
    for (uint32_t i = 0; i < from->size; i++) {
        struct orr__rank_piece *piece = &parts->sources[i];
        ranks[from->devices[i]] = i + 1;
        piece->shape = orr_layout_local(f->from, &f->info->shape, i, piece->starts);
        parts->first[i] = ORR_ID_NONE;
    }
    for (uint32_t i = 0; i < to->size; i++) {
        struct orr__rank_piece *piece = &parts->targets[i];
        uint32_t rank = ranks[to->devices[i]];
        piece->shape = orr_layout_local(f->to, &f->info->shape, i, piece->starts);
        parts->own[i] = rank > 0 ? rank - 1 : ORR_ID_NONE;
    }
    orr_memory_free(memory, ranks);
    return ORR_OK;
}

enum orr_status orr__parts_find(struct orr_runtime *runtime, const struct orr_operand_info *info,
                                const struct orr_layout *from, const struct orr_layout *to,
                                struct orr__parts *out_parts) {
    struct finder f = {.runtime = runtime, .info = info, .from = from, .to = to, .replicas = 1};
    *out_parts = (struct orr__parts){0};
    f.parts = out_parts;
    for (int i = 0; i < from->mesh->axis_count; i++) {
        f.match[i] = orr__matching_axis(from->mesh, i, to->mesh);
        f.replicas *= is_replicated(&f, i) ? (uint32_t)from->mesh->dims[i] : 1;
    }
    enum orr_status status = prepare(&f);
    out_parts->shares = status == ORR_OK && can_share(&f);
    for (uint32_t i = 0; status == ORR_OK && !out_parts->shares && i < to->mesh->size; i++) {
        status = find_for_target(&f, i);
    }
    if (status == ORR_OK) {
        chain(out_parts);
    }
    orr_memory_free(runtime->memory, f.loads);
    return status;
}

void orr__parts_free(struct orr_runtime *runtime, struct orr__parts *parts) {
    orr_memory_free(runtime->memory, parts->sources);
    orr_memory_free(runtime->memory, parts->targets);
    orr_memory_free(runtime->memory, parts->own);
    orr_memory_free(runtime->memory, parts->first);
    orr_memory_free(runtime->memory, parts->items);
    *parts = (struct orr__parts){0};
}

/* --- where they are --- */

/* Where a part is in a piece; `starts` is what the place points to. */
static struct orr__place place_in(const struct orr__part *part, const struct orr__rank_piece *piece,
                                  int64_t *starts) {
    for (int i = 0; i < piece->shape.rank; i++) {
        starts[i] = part->starts[i] - piece->starts[i];
        assert(starts[i] >= 0 && starts[i] + part->counts.dims[i] <= piece->shape.dims[i]);
    }
    return (struct orr__place){&piece->shape, starts, 0};
}

struct orr__cut orr__part_packs(const struct orr__parts *parts, const struct orr__part *part,
                                uint64_t at, size_t element) {
    int64_t starts[ORR_RANK_MAX];
    struct orr__place from = place_in(part, &parts->sources[part->source], starts);
    struct orr__place alone = {&part->counts, NULL, at};
    return orr__cut_of(&part->counts, &alone, &from, element);
}

struct orr__cut orr__part_unpacks(const struct orr__parts *parts, const struct orr__part *part,
                                  uint64_t at, size_t element) {
    int64_t starts[ORR_RANK_MAX];
    struct orr__place to = place_in(part, &parts->targets[part->target], starts);
    struct orr__place alone = {&part->counts, NULL, at};
    return orr__cut_of(&part->counts, &to, &alone, element);
}

struct orr__cut orr__part_copies(const struct orr__parts *parts, const struct orr__part *part,
                                 size_t element) {
    int64_t starts[2][ORR_RANK_MAX];
    struct orr__place from = place_in(part, &parts->sources[part->source], starts[0]);
    struct orr__place to = place_in(part, &parts->targets[part->target], starts[1]);
    return orr__cut_of(&part->counts, &to, &from, element);
}

/* --- costs --- */

/* Bytes that pass through each device of both meshes: the old one's ranks, then the new one's. */
struct traffic {
    uint64_t sent, got, local;
};

static void count_part(const struct orr__parts *parts, const struct orr__part *part, size_t element,
                       struct traffic *source, struct traffic *target) {
    uint64_t bytes = (uint64_t)orr_shape_count(&part->counts) * element;
    if (part->local) {
        target->local += 2 * bytes;
        return;
    }
    source->sent += bytes;
    target->got += bytes;
    source->local += orr__part_packs(parts, part, 0, element).rank > 0 ? 2 * bytes : 0;
    target->local += orr__part_unpacks(parts, part, 0, element).rank > 0 ? 2 * bytes : 0;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* As orr_collective_traffic has it for a group of sends. */
static enum orr_status price(struct orr_runtime *runtime, const struct orr_redistribute_plan *plan,
                             const struct orr__parts *parts,
                             struct orr_redistribute_crossing *crossing) {
    uint32_t old = crossing->sent.mesh->size, all = old + crossing->received.mesh->size;
    struct traffic *ranks = orr_memory_alloc(runtime->memory, all * sizeof *ranks);
    if (!ranks) {
        return orr__runtime_no_memory(runtime);
    }
    for (size_t i = 0; i < parts->count; i++) {
        const struct orr__part *part = &parts->items[i];
        uint32_t own = parts->own[part->target];
        count_part(parts, part, orr_dtype_size(plan->info.dtype), &ranks[part->source],
                   &ranks[own != ORR_ID_NONE ? own : old + part->target]);
        crossing->sends += !part->local;
    }
    for (uint32_t i = 0; i < all; i++) {
        crossing->sum_bytes += ranks[i].sent;
        crossing->bytes = most(crossing->bytes, most(ranks[i].sent, ranks[i].got));
        crossing->local_bytes = most(crossing->local_bytes, ranks[i].local);
    }
    crossing->hops = crossing->sends > 0;
    orr_memory_free(runtime->memory, ranks);
    return ORR_OK;
}

/* --- the search --- */

/* A plan whose partial axes that don't keep their terms become `reduced` before the crossing. */
static enum orr_status try_reduced(struct orr_runtime *runtime, const int *kept,
                                   struct orr_placement reduced,
                                   struct orr_redistribute_plan *plan) {
    struct orr_redistribute_plan before = {.info = plan->info, .from = plan->from};
    struct orr_redistribute_plan after = {.info = plan->info, .to = plan->to};
    struct orr_redistribute_crossing *crossing = &plan->crossing;
    struct orr__parts parts = {0};
    bool is_kept[ORR_MESH_AXES_MAX] = {false};
    *crossing = (struct orr_redistribute_crossing){.sent = plan->from, .received = plan->to};
    for (int i = 0; i < plan->from.mesh->axis_count; i++) {
        if (kept[i] >= 0) {
            is_kept[kept[i]] = true;
        } else if (plan->from.axes[i].kind == ORR_PARTIAL) {
            bool whole = plan->from.mesh->dims[i] == 1;
            crossing->sent.axes[i] =
                whole ? (struct orr_placement){.kind = ORR_REPLICATE} : reduced;
        }
    }
    for (int i = 0; i < plan->to.mesh->axis_count; i++) {
        if (plan->to.axes[i].kind == ORR_PARTIAL && !is_kept[i]) {
            crossing->received.axes[i] = (struct orr_placement){.kind = ORR_REPLICATE};
        }
    }
    before.to = crossing->sent;
    after.from = crossing->received;
    enum orr_status status = orr__redistribute_search(runtime, &before);
    if (status == ORR_OK) {
        status = orr__redistribute_search(runtime, &after);
    }
    if (status == ORR_OK) {
        status =
            orr__parts_find(runtime, &plan->info, &crossing->sent, &crossing->received, &parts);
    }
    if (status == ORR_OK) {
        crossing->shares = parts.shares;
        status = price(runtime, plan, &parts, crossing);
    }
    orr__parts_free(runtime, &parts);
    plan->paths[0] = before.paths[0];
    plan->after = after.paths[0];
    return status;
}

/* The sums over all three. */
static struct orr_redistribute_path whole(const struct orr_redistribute_plan *plan) {
    const struct orr_redistribute_path *a = &plan->paths[0], *b = &plan->after;
    const struct orr_redistribute_crossing *c = &plan->crossing;
    return (struct orr_redistribute_path){.step_count = a->step_count + b->step_count,
                                          .hops = a->hops + c->hops + b->hops,
                                          .bytes = a->bytes + c->bytes + b->bytes,
                                          .local_bytes =
                                              a->local_bytes + c->local_bytes + b->local_bytes};
}

enum orr_status orr__redistribute_search_across(struct orr_runtime *runtime,
                                                struct orr_redistribute_plan *plan) {
    int kept[ORR_MESH_AXES_MAX];
    bool reduces = false;
    find_kept(&plan->from, &plan->to, kept);
    for (int i = 0; i < plan->from.mesh->axis_count; i++) {
        reduces = reduces || (is_partial(&plan->from, i) && kept[i] < 0);
    }
    plan->crosses = true;
    plan->path_count = 1;
    plan->candidate_count = 1;
    enum orr_status status =
        try_reduced(runtime, kept, (struct orr_placement){.kind = ORR_REPLICATE}, plan);
    for (int dim = 0; status == ORR_OK && reduces && dim < plan->info.shape.rank; dim++) {
        struct orr_redistribute_plan other = *plan;
        status = try_reduced(runtime, kept, (struct orr_placement){.kind = ORR_SHARD, .dim = dim},
                             &other);
        struct orr_redistribute_path a = whole(&other), b = whole(plan);
        other.candidate_count = ++plan->candidate_count;
        if (status == ORR_OK && orr__path_compare(&a, &b) < 0) {
            *plan = other;
        }
    }
    return status;
}
