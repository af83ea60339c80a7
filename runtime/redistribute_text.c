/* Plans as text. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/redistribute_internal.h"

const char *orr_redistribute_kind_text(enum orr_redistribute_kind kind) {
    switch (kind) {
    case ORR_REDISTRIBUTE_ALL_REDUCE: return "all_reduce";
    case ORR_REDISTRIBUTE_REDUCE_SCATTER: return "reduce_scatter";
    case ORR_REDISTRIBUTE_ALL_GATHER: return "all_gather";
    case ORR_REDISTRIBUTE_ALL_TO_ALL: return "all_to_all";
    case ORR_REDISTRIBUTE_SLICE: return "slice";
    case ORR_REDISTRIBUTE_PAD: return "pad";
    case ORR_REDISTRIBUTE_ZERO: return "zero";
    case ORR_REDISTRIBUTE_KEEP: return "keep";
    }
    return "unknown";
}

struct text {
    char *buffer;
    size_t at, size;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = text->size - text->at;
    int length = vsnprintf(text->buffer + text->at, room, format, arguments);
    va_end(arguments);
    if (length > 0) {
        text->at += (size_t)length < room ? (size_t)length : room - 1;
    }
}

/* "72 B on the wire, 1 hop" */
static void put_traffic(struct text *text, uint64_t bytes, uint64_t hops) {
    put(text, "%llu B on the wire, %llu hop%s", (unsigned long long)bytes, (unsigned long long)hops,
        hops == 1 ? "" : "s");
}

/* One axis' placement: as a layout of that axis alone writes it. */
static const char *placement_text(const struct orr_mesh *mesh, struct orr_placement placement,
                                  char *buffer) {
    struct orr_mesh line = *mesh;
    line.axis_count = 1;
    struct orr_layout layout = {.mesh = &line, .axes = {placement}};
    return orr_layout_text(&layout, buffer);
}

static void put_step(struct text *text, const struct orr_mesh *mesh,
                     const struct orr_redistribute_step *step, int number) {
    char from[ORR_PLACEMENT_TEXT_MAX], to[ORR_PLACEMENT_TEXT_MAX];
    put(text, "  %d. %-14s %s: %s -> %s, ", number, orr_redistribute_kind_text(step->kind),
        mesh->names[step->axis], placement_text(mesh, step->from, from),
        placement_text(mesh, step->to, to));
    if (step->kind <= ORR_REDISTRIBUTE_ALL_TO_ALL) {
        put_traffic(text, step->bytes, step->hops);
        if (step->local_bytes > 0) {
            put(text, ", %llu B packed", (unsigned long long)step->local_bytes);
        }
    } else {
        put(text, "local, %llu B", (unsigned long long)step->local_bytes);
    }
    put(text, "\n");
}

/* A candidate that was not taken, on one line. */
static void put_other(struct text *text, const struct orr_mesh *mesh,
                      const struct orr_redistribute_path *path) {
    put(text, "  or: ");
    put_traffic(text, path->bytes, path->hops);
    put(text, ", %llu B local:", (unsigned long long)path->local_bytes);
    for (int i = 0; i < path->step_count; i++) {
        char to[ORR_PLACEMENT_TEXT_MAX];
        const struct orr_redistribute_step *step = &path->steps[i];
        put(text, "%s %s %s -> %s", i ? "," : "", orr_redistribute_kind_text(step->kind),
            mesh->names[step->axis], placement_text(mesh, step->to, to));
    }
    put(text, "\n");
}

static void put_steps(struct text *text, const struct orr_mesh *mesh,
                      const struct orr_redistribute_path *path, int number) {
    for (int i = 0; i < path->step_count; i++) {
        put_step(text, mesh, &path->steps[i], number + i);
    }
}

/* "4 sends"; "1 send"; "moves" on the devices that have all parts. */
static void put_sends(struct text *text, const struct orr_redistribute_crossing *crossing) {
    if (crossing->sends == 0) {
        put(text, "move");
    } else {
        put(text, "%llu send%s", (unsigned long long)crossing->sends,
            crossing->sends == 1 ? "" : "s");
    }
}

static void put_crossing(struct text *text, const struct orr_redistribute_crossing *crossing,
                         int number) {
    char from[ORR_PLACEMENT_TEXT_MAX], to[ORR_PLACEMENT_TEXT_MAX];
    char old[ORR_MESH_TEXT_MAX], new[ORR_MESH_TEXT_MAX];
    put(text, "  %d. %-14s %s on %s -> %s on %s: ", number,
        crossing->shares      ? "share"
        : crossing->sends > 0 ? "send_receive"
                              : "move",
        orr_layout_text(&crossing->sent, from), orr_mesh_devices_text(crossing->sent.mesh, old),
        orr_layout_text(&crossing->received, to),
        orr_mesh_devices_text(crossing->received.mesh, new));
    if (crossing->shares) {
        put(text, "the devices have their pieces\n");
        return;
    }
    if (crossing->sends > 0) {
        put_sends(text, crossing);
        put(text, " of %llu B together, ", (unsigned long long)crossing->sum_bytes);
        put_traffic(text, crossing->bytes, crossing->hops);
    } else {
        put(text, "local");
    }
    if (crossing->local_bytes > 0) {
        put(text, ", %llu B %s", (unsigned long long)crossing->local_bytes,
            crossing->sends > 0 ? "packed" : "moved");
    }
    put(text, "\n");
}

/* The traffic of a plan to another mesh: of its steps there and here, and of what goes between. */
static void put_traffic_across(struct text *text, const struct orr_redistribute_plan *plan) {
    const struct orr_redistribute_path *a = &plan->paths[0], *b = &plan->after;
    put_traffic(text, a->bytes + plan->crossing.bytes + b->bytes,
                a->hops + plan->crossing.hops + b->hops);
}

static void put_plan_across(struct text *text, const struct orr_redistribute_plan *plan) {
    int before = plan->paths[0].step_count;
    put_traffic_across(text, plan);
    put(text, "; the best of %llu candidate%s\n", (unsigned long long)plan->candidate_count,
        plan->candidate_count == 1 ? "" : "s");
    put_steps(text, plan->from.mesh, &plan->paths[0], 1);
    put_crossing(text, &plan->crossing, before + 1);
    put_steps(text, plan->to.mesh, &plan->after, before + 2);
}

const char *orr_redistribute_text(const struct orr_redistribute_plan *plan, char *buffer,
                                  size_t size) {
    assert(size > 0);
    struct text text = {.buffer = buffer, .size = size};
    char devices[ORR_MESH_TEXT_MAX];
    char shape[ORR_SHAPE_TEXT_MAX], from[ORR_PLACEMENT_TEXT_MAX], to[ORR_PLACEMENT_TEXT_MAX];
    const struct orr_redistribute_path *best = &plan->paths[0];
    const struct orr_mesh *mesh = plan->from.mesh;
    buffer[0] = '\0';
    put(&text, "%s %s, %s -> %s", orr_shape_text(&plan->info.shape, shape),
        orr_dtype_name(plan->info.dtype), orr_layout_text(&plan->from, from),
        orr_layout_text(&plan->to, to));
    if (plan->crosses) {
        put(&text, " on %s: ", orr_mesh_devices_text(plan->to.mesh, devices));
        put_plan_across(&text, plan);
        return buffer;
    }
    if (best->step_count == 0) {
        put(&text, ": nothing to do\n");
        return buffer;
    }
    put(&text, ": ");
    put_traffic(&text, best->bytes, best->hops);
    put(&text, "; the best of %llu candidate%s\n", (unsigned long long)plan->candidate_count,
        plan->candidate_count == 1 ? "" : "s");
    put_steps(&text, mesh, best, 1);
    for (int i = 1; i < plan->path_count; i++) {
        put_other(&text, mesh, &plan->paths[i]);
    }
    return buffer;
}

/* "all_reduce tp, all_gather dp"; returns how many. */
static int put_kinds(struct text *text, const struct orr_mesh *mesh,
                     const struct orr_redistribute_path *path, const char *separator) {
    for (int i = 0; i < path->step_count; i++) {
        put(text, "%s %s %s", separator, orr_redistribute_kind_text(path->steps[i].kind),
            mesh->names[path->steps[i].axis]);
        separator = ",";
    }
    return path->step_count;
}

const char *orr_redistribute_summary(const struct orr_redistribute_plan *plan, char *buffer,
                                     size_t size) {
    assert(size > 0);
    struct text text = {.buffer = buffer, .size = size};
    char devices[ORR_MESH_TEXT_MAX];
    char from[ORR_PLACEMENT_TEXT_MAX], to[ORR_PLACEMENT_TEXT_MAX];
    const struct orr_redistribute_path *best = &plan->paths[0];
    buffer[0] = '\0';
    put(&text, "redistribute %s -> %s", orr_layout_text(&plan->from, from),
        orr_layout_text(&plan->to, to));
    if (plan->crosses) {
        put(&text, " on %s", orr_mesh_devices_text(plan->to.mesh, devices));
    }
    put(&text, ":");
    int steps = put_kinds(&text, plan->from.mesh, best, "");
    if (plan->crosses) {
        put(&text, "%s ", steps > 0 ? "," : "");
        if (plan->crossing.shares) {
            put(&text, "share");
        } else {
            put_sends(&text, &plan->crossing);
        }
        (void)put_kinds(&text, plan->to.mesh, &plan->after, ",");
        put(&text, "; ");
        put_traffic_across(&text, plan);
    } else {
        put(&text, "%s; ", steps > 0 ? "" : " nothing");
        put_traffic(&text, best->bytes, best->hops);
    }
    put(&text, "; best of %llu", (unsigned long long)plan->candidate_count);
    return buffer;
}
