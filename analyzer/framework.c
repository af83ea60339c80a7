#include "analyzer/framework.h"

#include <string.h>
#include <strings.h>

#include "analyzer/events_fill.h"
#include "analyzer/operator_set.h"
#include "analyzer/sort.h"
#include "analyzer/times.h"

/* A kernel and the operator's call it belongs to. */
struct member {
    uint32_t op;    /* of the events */
    uint32_t owner; /* of the timeline's ops */
};

struct builder {
    const struct orr_timeline *timeline;
    const struct orr_events *events;
    const struct orr_analysis_options *options;
    const struct orr_memory *memory;
    struct orr_roofline *roofline;
    struct orr_framework *out;
    struct member *members;
    uint32_t *order;
    size_t member_count, row_capacity;
    /* Distinct operators: names for the set, and for each its cost and first row. */
    struct orr_events names;
    struct orr__operator_set set;
    struct orr_imported_cost *costs;
    uint32_t *first_row; /* by distinct operator, or NONE */
    uint32_t *next_row;  /* by row: the same operator on another kind of device */
    size_t cost_capacity, first_capacity, next_capacity;
};

/* ------------------------------------------------------------------------------------------------
 * Kernels by their operator's call */

static uint32_t owner_of(const struct builder *b, const struct orr_events_op *op) {
    if (op->command >= b->timeline->command_count) {
        return ORR_EVENTS_NONE;
    }
    return orr__find_op(b->timeline, b->timeline->commands[op->command].op);
}

static bool member_before(const void *context, uint32_t x, uint32_t y) {
    const struct builder *b = context;
    const struct member *m = &b->members[x], *n = &b->members[y];
    if (m->owner != n->owner) {
        return m->owner < n->owner;
    }
    const struct orr_events_op *p = &b->events->ops[m->op], *q = &b->events->ops[n->op];
    uint32_t d = b->events->streams[p->stream].device, e = b->events->streams[q->stream].device;
    return d != e ? d < e : orr__events_op_before(b->events, m->op, n->op);
}

static enum orr_status collect(struct builder *b) {
    b->members = orr_memory_resize(b->memory, NULL, b->events->op_count * sizeof *b->members);
    if (!b->members) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < b->events->op_count; i++) {
        if (b->events->ops[i].activity != ORR_ACTIVITY_COMPUTE) {
            continue;
        }
        uint32_t owner = owner_of(b, &b->events->ops[i]);
        if (owner == ORR_EVENTS_NONE) {
            b->out->other_kernels++;
        } else {
            b->members[b->member_count++] = (struct member){(uint32_t)i, owner};
        }
    }
    b->out->kernels = b->member_count;
    b->order = orr_memory_resize(b->memory, NULL, b->member_count * sizeof *b->order);
    if (!b->order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < b->member_count; i++) {
        b->order[i] = (uint32_t)i;
    }
    return orr__sort_indices(b->memory, b->order, b->member_count, member_before, b);
}

/* ------------------------------------------------------------------------------------------------
 * One call of an operator */

struct group {
    size_t first, end; /* in b->order */
    uint32_t device;
    int64_t time_ns; /* of the union */
    bool tf32;
    const struct orr_events_op *longest;
};

static const struct orr_events_op *op_at(const struct builder *b, size_t i) {
    return &b->events->ops[b->members[b->order[i]].op];
}

/* Does a kernel's name say that it multiplies in TF32? */
static bool says_tf32(const char *name) {
    for (; *name; name++) {
        if (strncasecmp(name, "tf32", 4) == 0 || strncmp(name, "s1688", 5) == 0) {
            return true;
        }
    }
    return false;
}

/* Members are in order of start within a device. */
static struct group measure(const struct builder *b, size_t first) {
    uint32_t owner = b->members[b->order[first]].owner;
    struct group g = {.first = first, .device = b->events->streams[op_at(b, first)->stream].device};
    int64_t reach = INT64_MIN;
    for (g.end = first; g.end < b->member_count; g.end++) {
        const struct orr_events_op *op = op_at(b, g.end);
        if (b->members[b->order[g.end]].owner != owner ||
            b->events->streams[op->stream].device != g.device) {
            break;
        }
        if (op->end_ns > reach) {
            g.time_ns = orr__add_ns(g.time_ns, op->end_ns - orr__max_ns(op->start_ns, reach));
            reach = op->end_ns;
        }
        bool longer =
            !g.longest || op->end_ns - op->start_ns > g.longest->end_ns - g.longest->start_ns;
        g.longest = longer ? op : g.longest;
        g.tf32 = g.tf32 || says_tf32(op->name);
    }
    return g;
}

/* Blocks of a grid, "[64, 1, 1] x [256, 1, 1]"; 0 for another text. */
static uint64_t blocks_of(const char *grid) {
    uint64_t blocks = 1;
    if (!grid || *grid != '[') {
        return 0;
    }
    for (grid++; *grid && *grid != ']';) {
        uint64_t dim = 0;
        if (*grid < '0' || *grid > '9') {
            grid++;
            continue;
        }
        for (; *grid >= '0' && *grid <= '9'; grid++) {
            if (__builtin_mul_overflow(dim, 10, &dim)) {
                return 0;
            }
            dim += (uint64_t)(*grid - '0');
        }
        if (__builtin_mul_overflow(blocks, dim, &blocks)) {
            return 0;
        }
    }
    return blocks;
}

/* ------------------------------------------------------------------------------------------------
 * Rows */

/* The distinct operator of a timeline op, with its cost. */
static enum orr_status intern(struct builder *b, const struct orr_timeline_op *op,
                              uint32_t *out_index) {
    struct orr_events_operator item = {
        .name = op->name, .kind = "", .shape = op->shape, .dtype = (uint8_t)op->dtype};
    size_t known = b->names.operator_count;
    enum orr_status status = orr__operator_intern(&b->names, &b->set, &item, out_index);
    if (status != ORR_OK || *out_index < known) {
        return status;
    }
    status = orr_memory_grow(b->memory, &b->costs, &b->cost_capacity, known + 1, sizeof *b->costs,
                             ORR_EVENTS_NONE - 1);
    if (status == ORR_OK) {
        status = orr_memory_grow(b->memory, &b->first_row, &b->first_capacity, known + 1,
                                 sizeof *b->first_row, ORR_EVENTS_NONE - 1);
    }
    if (status == ORR_OK) {
        b->first_row[known] = ORR_EVENTS_NONE;
        orr_imported_cost(op->name, op->shape, &b->costs[known]);
    }
    return status;
}

static uint64_t peak_for(const struct builder *b, uint32_t device, uint8_t unit, uint8_t dtype,
                         bool tf32) {
    if (tf32 && dtype == ORR_DTYPE_F32) {
        uint64_t given = b->options->peaks.flops[ORR_UNIT_MATRIX][dtype];
        return given ? given : b->events->devices[device].peak[ORR_UNIT_MATRIX][dtype];
    }
    return orr__peak_of(b->events, b->options, device, unit, dtype);
}

static enum orr_status add_row(struct builder *b, const struct orr_timeline_op *op, uint32_t index,
                               const struct group *g, uint32_t *out_row) {
    struct orr_framework *out = b->out;
    enum orr_status status =
        orr_memory_grow(b->memory, &out->rows, &b->row_capacity, out->row_count + 1,
                        sizeof *out->rows, ORR_EVENTS_NONE - 1);
    if (status == ORR_OK) {
        status = orr_memory_grow(b->memory, &b->next_row, &b->next_capacity, out->row_count + 1,
                                 sizeof *b->next_row, ORR_EVENTS_NONE - 1);
    }
    if (status != ORR_OK) {
        return status;
    }
    const struct orr_imported_cost *cost = &b->costs[index];
    uint8_t dtype = cost->dtype == ORR_DTYPE_NONE ? (uint8_t)op->dtype : cost->dtype;
    out->rows[out->row_count] =
        (struct orr_framework_row){.name = op->name,
                                   .inputs = op->shape,
                                   .kind = cost->kind,
                                   .dtype = dtype,
                                   .unit = cost->unit,
                                   .device = g->device,
                                   .min_ns = INT64_MAX,
                                   .has_cost = cost->known,
                                   .peak = peak_for(b, g->device, cost->unit, dtype, g->tf32),
                                   .bandwidth = orr__bandwidth_of(b->events, b->options, g->device),
                                   .bound = ORR_BOUND_NO_COST,
                                   .tf32 = g->tf32,
                                   .why = cost->why,
                                   .main_kernel = ""};
    b->next_row[out->row_count] = b->first_row[index];
    *out_row = b->first_row[index] = (uint32_t)out->row_count++;
    return ORR_OK;
}

/* The row of an operator on devices with these peaks. */
static enum orr_status row_of(struct builder *b, const struct orr_timeline_op *op,
                              const struct group *g, uint32_t *out_index, uint32_t *out_row) {
    enum orr_status status = intern(b, op, out_index);
    if (status != ORR_OK) {
        return status;
    }
    const struct orr_imported_cost *cost = &b->costs[*out_index];
    uint8_t dtype = cost->dtype == ORR_DTYPE_NONE ? (uint8_t)op->dtype : cost->dtype;
    uint64_t peak = peak_for(b, g->device, cost->unit, dtype, g->tf32);
    uint64_t bandwidth = orr__bandwidth_of(b->events, b->options, g->device);
    for (uint32_t r = b->first_row[*out_index]; r != ORR_EVENTS_NONE; r = b->next_row[r]) {
        const struct orr_framework_row *row = &b->out->rows[r];
        if (row->peak == peak && row->bandwidth == bandwidth && row->tf32 == g->tf32) {
            *out_row = r;
            return ORR_OK;
        }
    }
    return add_row(b, op, *out_index, g, out_row);
}

static void set_bounds(struct builder *b, const struct group *g, enum orr_bound bound) {
    for (size_t i = g->first; i < g->end; i++) {
        b->roofline->bounds[b->members[b->order[i]].op] = (uint8_t)bound;
    }
}

static enum orr_status add_group(struct builder *b, const struct group *g) {
    const struct orr_timeline_op *op = &b->timeline->ops[b->members[b->order[g->first]].owner];
    uint32_t index, place;
    enum orr_status status = row_of(b, op, g, &index, &place);
    if (status != ORR_OK) {
        return status;
    }
    struct orr_framework_row *row = &b->out->rows[place];
    const struct orr_imported_cost *cost = &b->costs[index];
    if (g->time_ns > row->max_ns || row->count == 0) {
        row->main_kernel = g->longest->name;
        row->blocks = blocks_of(b->timeline->commands[g->longest->command].grid);
    }
    row->count++;
    row->kernels += g->end - g->first;
    row->time_ns = orr__add_ns(row->time_ns, g->time_ns);
    row->min_ns = orr__min_ns(row->min_ns, g->time_ns);
    row->max_ns = orr__max_ns(row->max_ns, g->time_ns);
    if (!cost->known) {
        return ORR_OK;
    }
    row->flops += cost->flops;
    row->bytes_read += cost->bytes_read;
    row->bytes_written += cost->bytes_written;
    row->bytes_broadcast += cost->bytes_broadcast;
    struct orr_roof roof = {.flops = cost->flops,
                            .bytes = (orr_u128)cost->bytes_read + cost->bytes_written,
                            .ops = 1,
                            .time_ns = g->time_ns,
                            .peak = row->peak,
                            .bandwidth = row->bandwidth};
    set_bounds(b, g, orr_roof_classify(&roof, b->options->roof_percent, NULL));
    return ORR_OK;
}

struct orr_roof orr_framework_roof(const struct orr_framework_row *row) {
    return (struct orr_roof){.flops = row->flops,
                             .bytes = row->bytes_read + row->bytes_written,
                             .time_ns = row->time_ns,
                             .ops = row->count,
                             .peak = row->peak,
                             .bandwidth = row->bandwidth};
}

/* ---------------------------------------------------------------------------------------------- */

static bool row_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_framework_row *p = (const struct orr_framework_row *)context + x;
    const struct orr_framework_row *q = (const struct orr_framework_row *)context + y;
    if (p->time_ns != q->time_ns) {
        return p->time_ns > q->time_ns;
    }
    int order = strcmp(p->name, q->name);
    order = order ? order : strcmp(p->inputs, q->inputs);
    if (order != 0) {
        return order < 0;
    }
    return p->dtype != q->dtype     ? p->dtype < q->dtype
           : p->device != q->device ? p->device < q->device
                                    : p->tf32 < q->tf32;
}

static enum orr_status finish_rows(struct builder *b) {
    struct orr_framework *out = b->out;
    size_t count = out->row_count;
    uint32_t *order = orr_memory_resize(b->memory, NULL, count * sizeof *order);
    struct orr_framework_row *sorted = orr_memory_resize(b->memory, NULL, count * sizeof *sorted);
    enum orr_status status = order && sorted ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        struct orr_framework_row *row = &out->rows[i];
        order[i] = (uint32_t)i;
        out->all_ns = orr__add_ns(out->all_ns, row->time_ns);
        if (row->has_cost) {
            struct orr_roof roof = orr_framework_roof(row);
            row->bound = orr_roof_classify(&roof, b->options->roof_percent, &row->above_roof);
            out->costed_ns = orr__add_ns(out->costed_ns, row->time_ns);
        }
    }
    if (status == ORR_OK) {
        status = orr__sort_indices(b->memory, order, count, row_before, out->rows);
    }
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        sorted[i] = out->rows[order[i]];
    }
    if (status == ORR_OK) {
        orr_memory_free(b->memory, out->rows);
        out->rows = sorted;
        sorted = NULL;
    }
    orr_memory_free(b->memory, sorted);
    orr_memory_free(b->memory, order);
    return status;
}

static enum orr_status build(struct builder *b) {
    enum orr_status status = collect(b);
    for (size_t i = 0; i < b->member_count && status == ORR_OK;) {
        struct group g = measure(b, i);
        status = add_group(b, &g);
        i = g.end;
    }
    return status == ORR_OK && b->out->row_count > 0 ? finish_rows(b) : status;
}

enum orr_status
orr_framework_compute(const struct orr_timeline *timeline, const struct orr_events *events,
                      const struct orr_analysis_options *options, const struct orr_memory *memory,
                      struct orr_roofline *roofline, struct orr_framework *out_framework) {
    *out_framework = (struct orr_framework){0};
    if (!orr__timeline_imported(timeline)) {
        return ORR_OK;
    }
    struct builder b = {.timeline = timeline,
                        .events = events,
                        .options = options,
                        .memory = memory,
                        .roofline = roofline,
                        .out = out_framework};
    orr_events_init(&b.names, memory);
    enum orr_status status = build(&b);
    orr__operator_set_free(memory, &b.set);
    orr_events_free(&b.names);
    void *arrays[] = {b.members, b.order, b.costs, b.first_row, b.next_row};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        orr_memory_free(memory, arrays[i]);
    }
    if (status != ORR_OK) {
        orr_framework_free(memory, out_framework);
    }
    return status;
}

void orr_framework_free(const struct orr_memory *memory, struct orr_framework *framework) {
    orr_memory_free(memory, framework->rows);
    *framework = (struct orr_framework){0};
}
