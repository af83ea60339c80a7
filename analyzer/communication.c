#include "analyzer/communication.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/times.h"

struct builder {
    const struct orr_events *events;
    const struct orr_memory *memory;
    struct orr_communication *out;
    int64_t begin_ns, end_ns; /* the window */
    size_t row_capacity, cell_capacity;
    uint32_t *table; /* rows by hash, +1; 0: free. A power of two */
    size_t table_size;
    uint32_t *row_of;  /* by collective; NONE before it was met */
    uint32_t no_group; /* row of ops without a collective, or NONE */
    /* Of the current device: by row, the row's cell + 1. */
    size_t *cell_of;
    size_t cell_of_capacity;
    size_t device_first; /* its first cell */
};

/* ------------------------------------------------------------------------------------------------
 * Rows: one for each axis and kind */

static const char BETWEEN[] = "between meshes"; /* whose communicators are called "0-3 and 4-7" */

/* Is it the name of a communicator between two meshes: their devices, "0-3 and 4-7"? */
static bool is_between(const char *group) {
    static const char devices[] = "0123456789-,. ";
    static const char and_[] = "and ";
    size_t here = strspn(group, devices);
    const char *rest = group + here;
    if (here == 0 || strncmp(rest, and_, sizeof and_ - 1) != 0) {
        return false;
    }
    rest += sizeof and_ - 1;
    return *rest != '\0' && strspn(rest, devices) == strlen(rest);
}

/* Length of a communicator's name without a group's number behind a blank. */
static size_t axis_length(const char *group) {
    size_t length = strlen(group), at = length;
    while (at > 0 && group[at - 1] >= '0' && group[at - 1] <= '9') {
        at--;
    }
    return at < length && at > 1 && group[at - 1] == ' ' ? at - 1 : length;
}

static uint32_t hash_of(const char *axis, size_t length, const char *kind) { /* FNV-1a */
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint8_t)axis[i]) * 16777619u;
    }
    for (hash *= 16777619u; *kind; kind++) {
        hash = (hash ^ (uint8_t)*kind) * 16777619u;
    }
    return hash;
}

static bool row_is(const struct orr_communication_row *row, const char *axis, size_t length,
                   const char *kind) {
    return strncmp(row->axis, axis, length) == 0 && row->axis[length] == '\0' &&
           strcmp(row->kind, kind) == 0;
}

/* Where a row is in the table, or where it would be. */
static size_t find_slot(const struct builder *b, const char *axis, size_t length,
                        const char *kind) {
    size_t at = hash_of(axis, length, kind) & (b->table_size - 1);
    while (b->table[at] != 0 && !row_is(&b->out->rows[b->table[at] - 1], axis, length, kind)) {
        at = (at + 1) & (b->table_size - 1);
    }
    return at;
}

/* Keeps the table at most half full. */
static enum orr_status grow_table(struct builder *b) {
    size_t size = b->table_size ? 2 * b->table_size : 64;
    if (2 * (b->out->row_count + 1) <= b->table_size) {
        return ORR_OK;
    }
    uint32_t *table = orr_memory_alloc(b->memory, size * sizeof *table);
    if (!table) {
        return ORR_NO_MEMORY;
    }
    orr_memory_free(b->memory, b->table);
    b->table = table;
    b->table_size = size;
    for (uint32_t i = 0; i < b->out->row_count; i++) {
        const struct orr_communication_row *row = &b->out->rows[i];
        table[find_slot(b, row->axis, strlen(row->axis), row->kind)] = i + 1;
    }
    return ORR_OK;
}

static enum orr_status row_for(struct builder *b, const char *group, const char *kind,
                               uint32_t *out_row) {
    struct orr_communication *out = b->out;
    group = is_between(group) ? BETWEEN : group;
    size_t length = axis_length(group);
    enum orr_status status = grow_table(b);
    if (status != ORR_OK) {
        return status;
    }
    size_t slot = find_slot(b, group, length, kind);
    if (b->table[slot] == 0) {
        status = orr_memory_grow(b->memory, &out->rows, &b->row_capacity, out->row_count + 1,
                                 sizeof *out->rows, UINT32_MAX - 1);
        char *axis = status == ORR_OK ? orr_memory_text(b->memory, group, length) : NULL;
        if (!axis) {
            return ORR_NO_MEMORY;
        }
        out->rows[out->row_count++] = (struct orr_communication_row){.axis = axis, .kind = kind};
        b->table[slot] = (uint32_t)out->row_count;
    }
    *out_row = b->table[slot] - 1;
    return ORR_OK;
}

/* The row of an op; its collective is counted when it is met first. */
static enum orr_status row_of_op(struct builder *b, const struct orr_events_op *op,
                                 uint32_t *out_row) {
    uint32_t *known = op->collective == ORR_EVENTS_NONE ? &b->no_group : &b->row_of[op->collective];
    if (*known == ORR_EVENTS_NONE) {
        bool grouped = op->collective != ORR_EVENTS_NONE;
        const struct orr_events_collective *c =
            grouped ? &b->events->collectives[op->collective] : NULL;
        enum orr_status status =
            row_for(b, grouped ? c->group : "", grouped ? c->kind : "unknown", known);
        if (status != ORR_OK) {
            return status;
        }
        b->out->rows[*known].count += grouped;
        b->out->rows[*known].bytes += grouped ? c->bytes : 0;
    }
    *out_row = *known;
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Devices */

static void add_piece(struct orr_communication_sums *sums, const struct orr__comm_piece *piece,
                      int64_t length) {
    sums->time_ns = orr__add_ns(sums->time_ns, length);
    sums->exposed_ns = orr__add_ns(sums->exposed_ns, piece->exposed ? length : 0);
    sums->waiting_ns = orr__add_ns(sums->waiting_ns, piece->waiting ? length : 0);
}

static void on_piece(void *context, const struct orr__comm_piece *piece) {
    struct builder *b = context;
    int64_t begin = orr__max_ns(piece->begin_ns, b->begin_ns);
    int64_t end = orr__min_ns(piece->end_ns, b->end_ns);
    if (begin >= end) {
        return;
    }
    uint32_t collective = b->events->ops[piece->op].collective;
    uint32_t row = collective == ORR_EVENTS_NONE ? b->no_group : b->row_of[collective];
    assert(row != ORR_EVENTS_NONE && b->cell_of[row] > b->device_first);
    add_piece(&b->out->cells[b->cell_of[row] - 1].sums, piece, end - begin);
    add_piece(&b->out->rows[row].sums, piece, end - begin);
}

/* Does the op lie in the window? One of no length that is in it or at its edge does. */
static bool in_window(const struct builder *b, const struct orr_events_op *op) {
    bool touches = op->start_ns <= b->end_ns && op->end_ns >= b->begin_ns;
    bool overlaps = op->start_ns < b->end_ns && op->end_ns > b->begin_ns;
    return op->start_ns == op->end_ns ? touches : overlaps;
}

/* The device's cell of an op's row, new if need be. */
static enum orr_status count_op(struct builder *b, const struct orr_events_op *op) {
    struct orr_communication *out = b->out;
    uint32_t row = ORR_EVENTS_NONE;
    enum orr_status status = row_of_op(b, op, &row);
    if (status == ORR_OK) {
        status = orr_memory_grow(b->memory, &b->cell_of, &b->cell_of_capacity, out->row_count,
                                 sizeof *b->cell_of, SIZE_MAX / sizeof *b->cell_of);
    }
    if (status == ORR_OK && b->cell_of[row] <= b->device_first) {
        status = orr_memory_grow(b->memory, &out->cells, &b->cell_capacity, out->cell_count + 1,
                                 sizeof *out->cells, SIZE_MAX / sizeof *out->cells);
        if (status == ORR_OK) {
            out->cells[out->cell_count++] = (struct orr_communication_cell){.row = row};
            b->cell_of[row] = out->cell_count;
        }
    }
    if (status == ORR_OK) {
        struct orr_communication_cell *cell = &out->cells[b->cell_of[row] - 1];
        bool grouped = op->collective != ORR_EVENTS_NONE;
        bool partial = !grouped || !orr_events_whole(&b->events->collectives[op->collective]);
        cell->sums.ops++;
        cell->sums.partial += partial;
        out->rows[row].sums.partial += partial;
        cell->bytes += grouped ? b->events->collectives[op->collective].bytes : 0;
        out->rows[row].sums.ops++;
    }
    return status;
}

static enum orr_status count_ops(struct builder *b, uint32_t device) {
    const struct orr_events *events = b->events;
    enum orr_status status = ORR_OK;
    for (size_t i = events->device_first[device];
         status == ORR_OK && i < events->device_first[device + 1]; i++) {
        const struct orr_events_op *op = &events->ops[events->device_order[i]];
        if (op->activity == ORR_ACTIVITY_COMM && in_window(b, op)) {
            status = count_op(b, op);
        }
    }
    return status;
}

static enum orr_status walk_devices(struct builder *b) {
    struct orr__comm_scratch scratch = {0};
    enum orr_status status = ORR_OK;
    for (uint32_t d = 0; status == ORR_OK && d < b->events->device_count; d++) {
        b->device_first = b->out->cell_count;
        status = count_ops(b, d);
        if (status == ORR_OK) {
            status = orr__comm_walk(b->events, d, b->memory, &scratch, on_piece, b);
        }
        b->out->first[d + 1] = b->out->cell_count;
    }
    orr__comm_scratch_free(b->memory, &scratch);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * The rows in order */

struct ranked {
    struct orr_communication_row row;
    uint32_t before; /* its index so far */
};

static int compare_rows(const void *a, const void *b) {
    const struct orr_communication_row *x = &((const struct ranked *)a)->row;
    const struct orr_communication_row *y = &((const struct ranked *)b)->row;
    if (x->sums.exposed_ns != y->sums.exposed_ns) {
        return x->sums.exposed_ns > y->sums.exposed_ns ? -1 : 1;
    }
    if (x->sums.time_ns != y->sums.time_ns) {
        return x->sums.time_ns > y->sums.time_ns ? -1 : 1;
    }
    int order = strcmp(x->axis, y->axis);
    return order ? order : strcmp(x->kind, y->kind);
}

static int compare_cells(const void *a, const void *b) {
    const struct orr_communication_cell *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

static enum orr_status order_rows(struct builder *b) {
    struct orr_communication *out = b->out;
    struct ranked *ranked = orr_memory_alloc(b->memory, out->row_count * sizeof *ranked);
    uint32_t *now = orr_memory_alloc(b->memory, out->row_count * sizeof *now);
    if (ranked && now) {
        for (uint32_t i = 0; i < out->row_count; i++) {
            ranked[i] = (struct ranked){out->rows[i], i};
        }
        qsort(ranked, out->row_count, sizeof *ranked, compare_rows);
        for (uint32_t i = 0; i < out->row_count; i++) {
            out->rows[i] = ranked[i].row;
            now[ranked[i].before] = i;
        }
        for (size_t i = 0; i < out->cell_count; i++) {
            out->cells[i].row = now[out->cells[i].row];
        }
        for (size_t d = 0; d < b->events->device_count; d++) {
            qsort(out->cells + out->first[d], out->first[d + 1] - out->first[d], sizeof *out->cells,
                  compare_cells);
        }
    }
    enum orr_status status = ranked && now ? ORR_OK : ORR_NO_MEMORY;
    orr_memory_free(b->memory, ranked);
    orr_memory_free(b->memory, now);
    return status;
}

enum orr_status orr_communication_compute(const struct orr_events *events, int64_t begin_ns,
                                          int64_t end_ns, const struct orr_memory *memory,
                                          struct orr_communication *out) {
    *out = (struct orr_communication){0};
    struct builder b = {.events = events,
                        .memory = memory,
                        .out = out,
                        .begin_ns = begin_ns,
                        .end_ns = end_ns,
                        .no_group = ORR_EVENTS_NONE};
    out->first = orr_memory_alloc(memory, (events->device_count + 1) * sizeof *out->first);
    b.row_of = orr_memory_alloc(memory, events->collective_count * sizeof *b.row_of);
    enum orr_status status = out->first && b.row_of ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; status == ORR_OK && i < events->collective_count; i++) {
        b.row_of[i] = ORR_EVENTS_NONE;
    }
    if (status == ORR_OK) {
        status = walk_devices(&b);
    }
    if (status == ORR_OK && out->row_count > 0) {
        status = order_rows(&b);
    }
    orr_memory_free(memory, b.table);
    orr_memory_free(memory, b.row_of);
    orr_memory_free(memory, b.cell_of);
    if (status != ORR_OK) {
        orr_communication_free(memory, out);
    }
    return status;
}

void orr_communication_free(const struct orr_memory *memory, struct orr_communication *c) {
    for (size_t i = 0; i < c->row_count; i++) {
        orr_memory_free(memory, c->rows[i].axis);
    }
    orr_memory_free(memory, c->rows);
    orr_memory_free(memory, c->cells);
    orr_memory_free(memory, c->first);
    *c = (struct orr_communication){0};
}
