#include "runtime/placement.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const reductions[] = {"sum", "avg", "max", "min"};

static bool parse_shard(const char *text, struct orr_placement *out) {
    int dim, end = 0;
    if (sscanf(text, "S(%d)%n", &dim, &end) != 1 || text[end] != 0 || end == 0 || dim < 0 ||
        dim >= ORR_RANK_MAX) {
        return false;
    }
    *out = (struct orr_placement){.kind = ORR_SHARD, .dim = dim};
    return true;
}

static bool parse_partial(const char *text, struct orr_placement *out) {
    *out = (struct orr_placement){.kind = ORR_PARTIAL, .reduction = ORR_SUM};
    if (strcmp(text, "P") == 0) {
        return true;
    }
    for (int i = 0; i < 4; i++) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "P(%s)", reductions[i]);
        if (strcmp(text, wanted) == 0) {
            out->reduction = (enum orr_reduction)i;
            return true;
        }
    }
    return false;
}

enum orr_status orr_placement_parse(const char *text, struct orr_placement *out_placement,
                                    struct orr_error *error) {
    *out_placement = (struct orr_placement){.kind = ORR_REPLICATE};
    if (strcmp(text, "R") == 0 || parse_shard(text, out_placement) ||
        parse_partial(text, out_placement)) {
        return ORR_OK;
    }
    return orr_error_set(error, ORR_INVALID,
                         "placement '%s': expected R, S(dim) or P(sum|avg|max|min)", text);
}

static int placement_text(struct orr_placement placement, char *buffer, size_t size) {
    switch (placement.kind) {
    case ORR_REPLICATE: return snprintf(buffer, size, "R");
    case ORR_SHARD: return snprintf(buffer, size, "S(%d)", placement.dim);
    case ORR_PARTIAL: return snprintf(buffer, size, "P(%s)", reductions[placement.reduction]);
    }
    return 0;
}

const char *orr_layout_text(const struct orr_layout *layout, char *buffer) {
    int at = 0, count = layout->mesh->axis_count;
    for (int i = 0; i < count; i++) {
        at += snprintf(buffer + at, (size_t)(ORR_PLACEMENT_TEXT_MAX - at), "%s",
                       i ? ", " : (count > 1 ? "[" : ""));
        at += placement_text(layout->axes[i], buffer + at, (size_t)(ORR_PLACEMENT_TEXT_MAX - at));
    }
    snprintf(buffer + at, (size_t)(ORR_PLACEMENT_TEXT_MAX - at), "%s", count > 1 ? "]" : "");
    assert(at + 1 < ORR_PLACEMENT_TEXT_MAX); /* four axes of at most "P(sum), " */
    return buffer;
}

struct orr_layout orr_layout_replicated(struct orr_mesh *mesh) {
    return (struct orr_layout){.mesh = mesh};
}

bool orr_placement_equal(struct orr_placement a, struct orr_placement b) {
    return a.kind == b.kind && (a.kind != ORR_SHARD || a.dim == b.dim) &&
           (a.kind != ORR_PARTIAL || a.reduction == b.reduction);
}

bool orr_layout_equal(const struct orr_layout *a, const struct orr_layout *b) {
    if (a->mesh != b->mesh) {
        return false;
    }
    for (int i = 0; i < a->mesh->axis_count; i++) {
        if (!orr_placement_equal(a->axes[i], b->axes[i])) {
            return false;
        }
    }
    return true;
}

enum orr_status orr_layout_check(const struct orr_layout *layout, const struct orr_shape *shape,
                                 struct orr_error *error) {
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        if (layout->axes[i].kind == ORR_SHARD && layout->axes[i].dim >= shape->rank) {
            char text[ORR_SHAPE_TEXT_MAX];
            return orr_error_set(error, ORR_INVALID,
                                 "placement S(%d) of a tensor of shape %s: it has no dimension %d",
                                 layout->axes[i].dim, orr_shape_text(shape, text),
                                 layout->axes[i].dim);
        }
    }
    return ORR_OK;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

struct orr_shape orr_layout_local(const struct orr_layout *layout, const struct orr_shape *shape,
                                  uint32_t rank, int64_t *out_starts) {
    struct orr_shape local = *shape;
    int64_t starts[ORR_RANK_MAX] = {0};
    for (int i = 0; i < layout->mesh->axis_count; i++) {
        if (layout->axes[i].kind != ORR_SHARD) {
            continue;
        }
        int dim = layout->axes[i].dim;
        assert(dim < shape->rank);
        int64_t size = local.dims[dim], parts = layout->mesh->dims[i];
        int64_t piece = (size + parts - 1) / parts;
        int64_t from = least(piece * orr_mesh_coordinate(layout->mesh, rank, i), size);
        starts[dim] += from;
        local.dims[dim] = least(piece, size - from);
        assert(parts > 0 && local.dims[dim] >= 0);
        assert(starts[dim] + local.dims[dim] <= shape->dims[dim]);
    }
    if (out_starts) {
        memcpy(out_starts, starts, sizeof starts);
    }
    return local;
}
