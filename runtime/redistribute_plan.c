/* The search for the cheapest sequence of steps.
 *
 *     phase of an axis:   0 as it was  --->  1 replicated  --->  2 as wanted
 *                         '-------------- one step --------------'
 *
 * A state is one phase for each axis. The search goes through all sequences, axis by axis from the
 * innermost, so there are at most (2 k)! / 2^k ways for k axes and in practice few. */
#include <assert.h>
#include <string.h>

#include "runtime/collective.h"
#include "runtime/redistribute_internal.h"

/* ---- one change --------------------------------------------------------------------------- */

/* Is a dimension cut by an axis inside of `axis`, too? */
static bool cut_inside(const struct orr__change *change, struct orr_placement placement) {
    for (int i = change->axis + 1; i < change->layout.mesh->axis_count; i++) {
        struct orr_placement inner = change->layout.axes[i];
        if (placement.kind == ORR_SHARD && inner.kind == ORR_SHARD && inner.dim == placement.dim &&
            change->layout.mesh->dims[i] > 1) {
            return true;
        }
    }
    return false;
}

/* Is there an inner axis that has to be reduced first, in another way? */
static bool reduced_inside(const struct orr__change *change) {
    struct orr_placement from = change->layout.axes[change->axis];
    for (int i = change->axis + 1; i < change->layout.mesh->axis_count; i++) {
        struct orr_placement inner = change->layout.axes[i];
        if (from.kind == ORR_PARTIAL && inner.kind == ORR_PARTIAL &&
            inner.reduction != from.reduction && change->layout.mesh->dims[i] > 1) {
            return true;
        }
    }
    return false;
}

static bool kind_of_pair(struct orr_placement from, struct orr_placement to,
                         enum orr_redistribute_kind *out_kind) {
    bool sum = to.kind == ORR_PARTIAL && to.reduction == ORR_SUM;
    static const enum orr_redistribute_kind steps[3][3] = {
        [ORR_REPLICATE] =
            {[ORR_SHARD] = ORR_REDISTRIBUTE_SLICE, [ORR_PARTIAL] = ORR_REDISTRIBUTE_ZERO},
        [ORR_SHARD] = {[ORR_REPLICATE] = ORR_REDISTRIBUTE_ALL_GATHER,
                       [ORR_SHARD] = ORR_REDISTRIBUTE_ALL_TO_ALL,
                       [ORR_PARTIAL] = ORR_REDISTRIBUTE_PAD},
        [ORR_PARTIAL] = {[ORR_REPLICATE] = ORR_REDISTRIBUTE_ALL_REDUCE,
                         [ORR_SHARD] = ORR_REDISTRIBUTE_REDUCE_SCATTER}};
    if ((from.kind == ORR_PARTIAL && to.kind == ORR_PARTIAL) ||
        (from.kind == ORR_SHARD && to.kind == ORR_PARTIAL && !sum)) {
        return false;
    }
    *out_kind = steps[from.kind][to.kind];
    if (from.kind == ORR_REPLICATE && to.kind == ORR_PARTIAL && !sum) {
        *out_kind = ORR_REDISTRIBUTE_KEEP;
    }
    return true;
}

bool orr__change_kind(const struct orr__change *change, enum orr_redistribute_kind *out_kind) {
    struct orr_placement from = change->layout.axes[change->axis];
    assert(!orr_placement_equal(from, change->to));
    if (change->layout.mesh->dims[change->axis] == 1) {
        *out_kind = ORR_REDISTRIBUTE_KEEP;
        return true;
    }
    if (cut_inside(change, from) || cut_inside(change, change->to) || reduced_inside(change)) {
        return false;
    }
    return kind_of_pair(from, change->to, out_kind);
}

struct orr__change_shapes orr__change_shapes(const struct orr__change *change, uint32_t rank) {
    struct orr_layout base = change->layout, after = change->layout;
    const struct orr_shape *shape = &change->info->shape;
    base.axes[change->axis] = (struct orr_placement){.kind = ORR_REPLICATE};
    after.axes[change->axis] = change->to;
    return (struct orr__change_shapes){.before =
                                           orr_layout_local(&change->layout, shape, rank, NULL),
                                       .after = orr_layout_local(&after, shape, rank, NULL),
                                       .base = orr_layout_local(&base, shape, rank, NULL)};
}

uint64_t orr__outer_count(const struct orr_shape *shape, int dim) {
    uint64_t count = 1;
    for (int i = 0; i < dim; i++) {
        count *= (uint64_t)shape->dims[i];
    }
    return count;
}

uint64_t orr__inner_count(const struct orr_shape *shape, int dim) {
    uint64_t count = 1;
    for (int i = dim + 1; i < shape->rank; i++) {
        count *= (uint64_t)shape->dims[i];
    }
    return count;
}

bool orr__is_strided(const struct orr_shape *shape, int dim) {
    return orr__outer_count(shape, dim) > 1;
}

struct orr__span orr__piece_span(int64_t size, int64_t parts, int64_t index) {
    int64_t piece = (size + parts - 1) / parts, start = piece * index;
    start = start < size ? start : size;
    return (struct orr__span){start, piece < size - start ? piece : size - start};
}

/* Elements of piece `index` along `dim`. */
static uint64_t piece_count(const struct orr_shape *base, int dim, int64_t parts, int64_t index) {
    struct orr__span span = orr__piece_span(base->dims[dim], parts, index);
    return (uint64_t)span.length * orr__outer_count(base, dim) * orr__inner_count(base, dim);
}

/* Elements that rank `s` has before and rank `t` after a change from a cut of dimension a to one of
 * dimension b. */
static uint64_t pair_count(struct orr_shape base, int a, int b, int64_t parts, int64_t s,
                           int64_t t) {
    base.dims[a] = orr__piece_span(base.dims[a], parts, s).length;
    base.dims[b] = orr__piece_span(base.dims[b], parts, t).length;
    return (uint64_t)orr_shape_count(&base);
}

static enum orr_status fill_counts(struct orr_runtime *runtime, const struct orr_shape *base,
                                   struct orr_placement from, struct orr_placement to,
                                   struct orr_collective *collective, uint64_t **out_counts) {
    int64_t parts = collective->ranks;
    bool pairs = collective->kind == ORR_COLLECTIVE_ALL_TO_ALL;
    int a = from.kind == ORR_SHARD ? from.dim : to.dim, b = to.kind == ORR_SHARD ? to.dim : a;
    if (base->dims[a] % parts == 0 && base->dims[b] % parts == 0) {
        collective->count =
            pairs ? pair_count(*base, a, b, parts, 0, 0) : piece_count(base, a, parts, 0);
        return ORR_OK;
    }
    uint64_t length = orr_collective_counts_length(collective->kind, (uint64_t)parts);
    uint64_t *counts = orr_memory_alloc(runtime->memory, length * sizeof *counts);
    if (!counts) {
        return orr__runtime_no_memory(runtime);
    }
    for (uint64_t i = 0; i < length; i++) {
        counts[i] = pairs ? pair_count(*base, a, b, parts, (int64_t)i / parts, (int64_t)i % parts)
                          : piece_count(base, a, parts, (int64_t)i);
    }
    collective->counts = *out_counts = counts;
    return ORR_OK;
}

enum orr_status orr__change_collective(struct orr_runtime *runtime,
                                       const struct orr__change *change,
                                       enum orr_redistribute_kind kind, uint32_t rank,
                                       struct orr_collective *out_collective,
                                       uint64_t **out_counts) {
    static const enum orr_collective_kind kinds[] = {
        [ORR_REDISTRIBUTE_ALL_REDUCE] = ORR_COLLECTIVE_ALL_REDUCE,
        [ORR_REDISTRIBUTE_REDUCE_SCATTER] = ORR_COLLECTIVE_REDUCE_SCATTER,
        [ORR_REDISTRIBUTE_ALL_GATHER] = ORR_COLLECTIVE_ALL_GATHER,
        [ORR_REDISTRIBUTE_ALL_TO_ALL] = ORR_COLLECTIVE_ALL_TO_ALL};
    assert(kind <= ORR_REDISTRIBUTE_ALL_TO_ALL);
    struct orr_shape base = orr__change_shapes(change, rank).base;
    struct orr_placement from = change->layout.axes[change->axis];
    *out_counts = NULL;
    *out_collective =
        (struct orr_collective){.kind = kinds[kind],
                                .dtype = change->info->dtype,
                                .reduction = from.kind == ORR_PARTIAL ? from.reduction : ORR_SUM,
                                .ranks = (uint32_t)change->layout.mesh->dims[change->axis]};
    if (kind == ORR_REDISTRIBUTE_ALL_REDUCE) {
        out_collective->count = (uint64_t)orr_shape_count(&base);
        return ORR_OK;
    }
    return fill_counts(runtime, &base, from, change->to, out_collective, out_counts);
}

/* ---- costs -------------------------------------------------------------------------------- */

/* Bytes that local kernels of the first rank read and write. */
static uint64_t local_elements(const struct orr__change *change, enum orr_redistribute_kind kind) {
    struct orr__change_shapes s = orr__change_shapes(change, 0);
    struct orr_placement from = change->layout.axes[change->axis];
    uint64_t before = (uint64_t)orr_shape_count(&s.before);
    uint64_t after = (uint64_t)orr_shape_count(&s.after);
    switch (kind) {
    case ORR_REDISTRIBUTE_REDUCE_SCATTER:
        return orr__is_strided(&s.before, change->to.dim) ? 2 * before : 0;
    case ORR_REDISTRIBUTE_ALL_GATHER: return orr__is_strided(&s.after, from.dim) ? 2 * after : 0;
    case ORR_REDISTRIBUTE_ALL_TO_ALL:
        return (orr__is_strided(&s.before, change->to.dim) ? 2 * before : 0) +
               (orr__is_strided(&s.after, from.dim) ? 2 * after : 0);
    case ORR_REDISTRIBUTE_SLICE: return 2 * after;
    case ORR_REDISTRIBUTE_PAD:
    case ORR_REDISTRIBUTE_ZERO: return before + after;
    case ORR_REDISTRIBUTE_ALL_REDUCE:
    case ORR_REDISTRIBUTE_KEEP: break;
    }
    return 0;
}

/* The group of rank 0 is a largest one: first pieces are never smaller than later ones. */
static enum orr_status price(struct orr_runtime *runtime, const struct orr__change *change,
                             struct orr_redistribute_step *step) {
    step->hops = step->bytes = 0;
    step->local_bytes = local_elements(change, step->kind) * orr_dtype_size(change->info->dtype);
    if (step->kind > ORR_REDISTRIBUTE_ALL_TO_ALL) {
        return ORR_OK;
    }
    struct orr_collective collective;
    uint64_t *counts;
    enum orr_status status =
        orr__change_collective(runtime, change, step->kind, 0, &collective, &counts);
    if (status == ORR_OK) {
        struct orr_traffic traffic = orr_collective_traffic(&collective);
        step->hops = traffic.hops;
        step->bytes = traffic.bytes;
    }
    orr_memory_free(runtime->memory, counts);
    return status;
}

int orr__path_compare(const struct orr_redistribute_path *a,
                      const struct orr_redistribute_path *b) {
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    if (a->hops != b->hops) {
        return a->hops < b->hops ? -1 : 1;
    }
    if (a->local_bytes != b->local_bytes) {
        return a->local_bytes < b->local_bytes ? -1 : 1;
    }
    return (a->step_count > b->step_count) - (a->step_count < b->step_count);
}

/* ---- the search --------------------------------------------------------------------------- */

struct search {
    struct orr_runtime *runtime;
    struct orr_redistribute_plan *plan;
    struct orr_layout now;
    int phases[ORR_MESH_AXES_MAX];
    struct orr_redistribute_path path;
};

static bool is_wanted(const struct search *s) {
    for (int axis = 0; axis < s->now.mesh->axis_count; axis++) {
        if (!orr_placement_equal(s->now.axes[axis], s->plan->to.axes[axis]) ||
            s->phases[axis] == 1) {
            return false;
        }
    }
    return true;
}

/* Keeps the path among the best, behind those that cost as much. */
static void keep_path(struct search *s) {
    struct orr_redistribute_plan *plan = s->plan;
    plan->candidate_count++;
    int at = plan->path_count;
    while (at > 0 && orr__path_compare(&s->path, &plan->paths[at - 1]) < 0) {
        at--;
    }
    if (at == ORR_REDISTRIBUTE_PATHS_MAX) {
        return;
    }
    int last = plan->path_count < ORR_REDISTRIBUTE_PATHS_MAX ? plan->path_count++
                                                             : ORR_REDISTRIBUTE_PATHS_MAX - 1;
    memmove(&plan->paths[at + 1], &plan->paths[at], (size_t)(last - at) * sizeof plan->paths[0]);
    plan->paths[at] = s->path;
}

static enum orr_status explore(struct search *s);

/* Goes on with the axis changed, if some step does that, and comes back. */
static enum orr_status try_change(struct search *s, int axis, int phase, struct orr_placement to) {
    struct orr__change change = {.info = &s->plan->info, .layout = s->now, .axis = axis, .to = to};
    struct orr_redistribute_path before = s->path;
    struct orr_placement from = s->now.axes[axis];
    int old_phase = s->phases[axis];
    struct orr_redistribute_step step = {.axis = axis, .from = from, .to = to};
    if (!orr__change_kind(&change, &step.kind)) {
        return ORR_OK;
    }
    enum orr_status status = price(s->runtime, &change, &step);
    if (status != ORR_OK) {
        return status;
    }
    assert(s->path.step_count < ORR_REDISTRIBUTE_STEPS_MAX);
    s->path.steps[s->path.step_count++] = step;
    s->path.hops += step.hops;
    s->path.bytes += step.bytes;
    s->path.local_bytes += step.local_bytes;
    s->phases[axis] = phase;
    s->now.axes[axis] = to;
    status = explore(s);
    s->now.axes[axis] = from;
    s->phases[axis] = old_phase;
    s->path = before;
    return status;
}

/* All ways on from where the search is. */
static enum orr_status explore(struct search *s) {
    const struct orr_placement whole = {.kind = ORR_REPLICATE};
    enum orr_status status = ORR_OK;
    if (is_wanted(s)) {
        keep_path(s);
        return ORR_OK;
    }
    for (int axis = s->now.mesh->axis_count - 1; status == ORR_OK && axis >= 0; axis--) {
        struct orr_placement from = s->now.axes[axis], to = s->plan->to.axes[axis];
        bool differs = !orr_placement_equal(from, to);
        if (s->phases[axis] == 2) {
            continue;
        }
        if (differs) {
            status = try_change(s, axis, 2, to);
        }
        if (status == ORR_OK && s->phases[axis] == 0 && from.kind != ORR_REPLICATE &&
            to.kind != ORR_REPLICATE) {
            status = try_change(s, axis, 1, whole);
        }
    }
    return status;
}

enum orr_status orr__redistribute_search(struct orr_runtime *runtime,
                                         struct orr_redistribute_plan *plan) {
    struct search search = {.runtime = runtime, .plan = plan, .now = plan->from};
    plan->path_count = 0;
    plan->candidate_count = 0;
    enum orr_status status = explore(&search);
    assert(status != ORR_OK || plan->path_count > 0);
    return status;
}

enum orr_status orr__redistribute_find(struct orr_runtime *runtime,
                                       struct orr_redistribute_plan *plan) {
    return plan->from.mesh == plan->to.mesh ? orr__redistribute_search(runtime, plan)
                                            : orr__redistribute_search_across(runtime, plan);
}

enum orr_status orr_redistribute_plan(struct orr_tensor *tensor, const struct orr_layout *layout,
                                      struct orr_redistribute_plan *out_plan) {
    struct orr_runtime *runtime = tensor->runtime;
    *out_plan =
        (struct orr_redistribute_plan){.info = tensor->info, .from = tensor->layout, .to = *layout};
    orr_error_clear(&runtime->error);
    enum orr_status status = orr_layout_check(layout, &tensor->info.shape, &runtime->error);
    return status == ORR_OK ? orr__redistribute_find(runtime, out_plan) : status;
}
