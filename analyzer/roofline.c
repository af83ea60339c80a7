#include "analyzer/roofline.h"

#include <assert.h>
#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

const char *orr_bound_text(enum orr_bound bound) {
    static const char *const texts[] = {
#define ORR_BOUND_TEXT(name, text) text,
        ORR_BOUND_LIST(ORR_BOUND_TEXT)
#undef ORR_BOUND_TEXT
    };
    return bound < ORR_BOUND_COUNT ? texts[bound] : "";
}

/* ------------------------------------------------------------------------------------------------
 * One measurement */

/* a * b as 192 bits. */
struct wide {
    orr_u128 high;
    uint64_t low;
};

static struct wide multiply(orr_u128 a, uint64_t b) {
    orr_u128 low = (orr_u128)(uint64_t)a * b;
    orr_u128 high = (a >> 64) * b + (low >> 64);
    return (struct wide){high, (uint64_t)low};
}

/* a * b >= c * d */
static bool product_reaches(orr_u128 a, uint64_t b, orr_u128 c, uint64_t d) {
    struct wide x = multiply(a, b), y = multiply(c, d);
    return x.high != y.high ? x.high > y.high : x.low >= y.low;
}

static bool known(const struct orr_roof *roof) {
    return roof->bandwidth > 0 && (roof->peak > 0 || roof->flops == 0);
}

bool orr_roof_right(const struct orr_roof *roof) {
    return roof->peak > 0 && product_reaches(roof->flops, roof->bandwidth, roof->bytes, roof->peak);
}

void orr_roof_fraction(const struct orr_roof *roof, orr_u128 *out_numerator,
                       orr_u128 *out_denominator) {
    *out_numerator = 0;
    *out_denominator = 0;
    if (roof->time_ns <= 0 || !known(roof)) {
        return;
    }
    bool right = orr_roof_right(roof);
    *out_numerator = (right ? roof->flops : roof->bytes) * 1000000000;
    *out_denominator = (orr_u128)(right ? roof->peak : roof->bandwidth) * (uint64_t)roof->time_ns;
}

enum orr_bound orr_roof_classify(const struct orr_roof *roof, unsigned percent, bool *out_above) {
    if (out_above) {
        *out_above = false;
    }
    if (!known(roof)) {
        return ORR_BOUND_NO_COST;
    }
    if (roof->time_ns <= 0) {
        return ORR_BOUND_LATENCY;
    }
    bool right = orr_roof_right(roof);
    orr_u128 amount = right ? roof->flops : roof->bytes;
    orr_u128 limit = (orr_u128)(right ? roof->peak : roof->bandwidth) * (uint64_t)roof->time_ns;
    if (out_above) {
        orr_u128 rate = right ? roof->peak : roof->bandwidth;
        *out_above = amount * 1000000000 > limit + rate * roof->ops;
    }
    if (!product_reaches(amount, UINT64_C(100000000000), limit, percent)) {
        return ORR_BOUND_LATENCY;
    }
    return right ? ORR_BOUND_COMPUTE : ORR_BOUND_MEMORY;
}

struct orr_roof orr_roof_of_row(const struct orr_operator_row *row) {
    return (struct orr_roof){.flops = row->flops,
                             .bytes = row->bytes_read + row->bytes_written,
                             .time_ns = row->time_ns,
                             .ops = row->count,
                             .peak = row->peak,
                             .bandwidth = row->bandwidth};
}

uint64_t orr__peak_of(const struct orr_events *events, const struct orr_analysis_options *options,
                      uint32_t device, uint8_t unit, uint8_t dtype) {
    const struct orr_events_device *d = &events->devices[device];
    const uint64_t(*tables[2])[ORR_DTYPE_COUNT] = {options->peaks.flops, d->peak};
    for (unsigned t = 0; t < 2; t++) {
        if (dtype < ORR_DTYPE_COUNT && unit == ORR_UNIT_MATRIX && tables[t][unit][dtype]) {
            return tables[t][unit][dtype];
        }
        if (dtype < ORR_DTYPE_COUNT && tables[t][ORR_UNIT_VECTOR][dtype]) {
            return tables[t][ORR_UNIT_VECTOR][dtype];
        }
    }
    uint64_t chosen = options->peaks.flops[ORR_UNIT_VECTOR][ORR_DTYPE_F32];
    return chosen ? chosen : d->peak[ORR_UNIT_VECTOR][ORR_DTYPE_F32];
}

uint64_t orr__bandwidth_of(const struct orr_events *events,
                           const struct orr_analysis_options *options, uint32_t device) {
    uint64_t chosen = options->peaks.bandwidth;
    return chosen ? chosen : events->devices[device].bandwidth;
}

/* ------------------------------------------------------------------------------------------------
 * Rows */

struct row_state {
    uint64_t bytes_read; /* of the first op; `uniform` while all ops of the row agree */
    uint32_t next;       /* row of the same operator on another kind of machine, or NONE */
    uint32_t profile;
    bool uniform;
};

struct builder {
    const struct orr_events *events;
    const struct orr_analysis_options *options;
    const struct orr_memory *memory;
    uint32_t *profile_of; /* by device: first device with the same peaks */
    uint32_t *head;       /* by operator: its first row, or NONE */
    struct orr_operator_row *rows;
    struct row_state *states;
    size_t count, row_capacity, state_capacity;
};

static bool same_machine(const struct orr_events_device *a, const struct orr_events_device *b) {
    return a->bandwidth == b->bandwidth && memcmp(a->peak, b->peak, sizeof a->peak) == 0;
}

/* Machines are few and their devices adjacent, so the last one is tried first. */
static void find_profiles(struct builder *b) {
    const struct orr_events_device *devices = b->events->devices;
    for (uint32_t d = 0; d < b->events->device_count; d++) {
        uint32_t last = d > 0 ? b->profile_of[d - 1] : 0;
        if (!same_machine(&devices[last], &devices[d])) {
            for (last = 0; !same_machine(&devices[last], &devices[d]); last++) {
            }
        }
        b->profile_of[d] = last;
    }
}

static enum orr_status add_row(struct builder *b, const struct orr_events_op *op, uint32_t profile,
                               uint32_t *out_row) {
    enum orr_status status = orr_memory_grow(b->memory, &b->rows, &b->row_capacity, b->count + 1,
                                             sizeof *b->rows, ORR_EVENTS_NONE - 1);
    if (status == ORR_OK) {
        status = orr_memory_grow(b->memory, &b->states, &b->state_capacity, b->count + 1,
                                 sizeof *b->states, ORR_EVENTS_NONE - 1);
    }
    if (status != ORR_OK) {
        return status;
    }
    const struct orr_events_operator *kind = &b->events->operators[op->operator_index];
    b->rows[b->count] = (struct orr_operator_row){
        .operator_index = op->operator_index,
        .device = profile,
        .min_ns = INT64_MAX,
        .peak = orr__peak_of(b->events, b->options, profile, kind->unit, kind->dtype),
        .bandwidth = orr__bandwidth_of(b->events, b->options, profile)};
    b->states[b->count] = (struct row_state){.bytes_read = op->bytes_read,
                                             .next = b->head[op->operator_index],
                                             .profile = profile,
                                             .uniform = true};
    *out_row = b->head[op->operator_index] = (uint32_t)b->count++;
    return ORR_OK;
}

static enum orr_status row_of(struct builder *b, const struct orr_events_op *op,
                              uint32_t *out_row) {
    uint32_t profile = b->profile_of[b->events->streams[op->stream].device];
    for (uint32_t row = b->head[op->operator_index]; row != ORR_EVENTS_NONE;
         row = b->states[row].next) {
        if (b->states[row].profile == profile) {
            *out_row = row;
            return ORR_OK;
        }
    }
    return add_row(b, op, profile, out_row);
}

/* Time of the call that launched this op alone. */
static int64_t own_call_ns(const struct orr_events *events, const struct orr_events_op *op) {
    if (!orr_events_linked(op) || events->calls[op->call].op_count != 1) {
        return 0;
    }
    return events->calls[op->call].end_ns - events->calls[op->call].begin_ns;
}

static enum orr_status add_op(struct builder *b, const struct orr_events_op *op,
                              uint8_t *out_bound) {
    uint32_t index;
    enum orr_status status = row_of(b, op, &index);
    if (status != ORR_OK) {
        return status;
    }
    struct orr_operator_row *row = &b->rows[index];
    int64_t time = op->end_ns - op->start_ns;
    row->count++;
    row->no_cost += !op->has_cost;
    row->flops += op->flops;
    row->bytes_read += op->bytes_read;
    row->bytes_written += op->bytes_written;
    row->bytes_broadcast += op->bytes_broadcast;
    row->time_ns = orr__add_ns(row->time_ns, time);
    row->host_ns = orr__add_ns(row->host_ns, own_call_ns(b->events, op));
    row->min_ns = time < row->min_ns ? time : row->min_ns;
    row->max_ns = time > row->max_ns ? time : row->max_ns;
    b->states[index].uniform =
        b->states[index].uniform && op->has_cost && op->bytes_read == b->states[index].bytes_read;
    struct orr_roof roof = {.flops = op->flops,
                            .bytes = (orr_u128)op->bytes_read + op->bytes_written,
                            .ops = 1,
                            .time_ns = time,
                            .peak = row->peak,
                            .bandwidth = row->bandwidth};
    enum orr_bound bound = ORR_BOUND_NO_COST;
    if (op->has_cost) {
        bound = orr_roof_classify(&roof, b->options->roof_percent, NULL);
    }
    *out_bound = (uint8_t)bound;
    return ORR_OK;
}

/* Elements of the shapes in a text like "[8, 4096]" or "[8, 4096] x [4096, 4096]": for each its
 * last dimension and the product of the others. Returns how many there are, at most `max`; 0 for a
 * text that says nothing or a product that does not fit. */
static unsigned parse_shapes(const char *text, unsigned max, uint64_t *out_rows,
                             uint64_t *out_last) {
    unsigned count = 0;
    while (count < max && (text = strchr(text, '[')) != NULL) {
        uint64_t rows = 1, last = 1;
        for (text++; *text && *text != ']';) {
            if (*text < '0' || *text > '9') {
                text++;
                continue;
            }
            if (__builtin_mul_overflow(rows, last, &rows)) {
                return 0;
            }
            for (last = 0; *text >= '0' && *text <= '9'; text++) {
                last = last * 10 + (uint64_t)(*text - '0');
            }
        }
        out_rows[count] = rows;
        out_last[count] = last;
        count++;
    }
    return count;
}

/* Bytes of a GEMM's weight. From the result's shape [.., N] with M rows: x and w are read once, so
 * (M + N) K elements are read; that gives K, and the weight has K N. */
static uint64_t weight_of(const struct orr_events_operator *operator_, uint64_t bytes_read) {
    uint64_t rows[2], last[2], element = orr_dtype_size(operator_->dtype), elements;
    unsigned shapes = parse_shapes(operator_->shape, 2, rows, last);
    if (shapes == 2) {
        bool fits = !__builtin_mul_overflow(rows[1], last[1], &elements) &&
                    !__builtin_mul_overflow(elements, element, &elements);
        return fits && elements <= bytes_read ? elements : 0;
    }
    if (shapes != 1 || rows[0] > UINT32_MAX || last[0] > UINT32_MAX || rows[0] + last[0] == 0 ||
        bytes_read % ((rows[0] + last[0]) * element) != 0) {
        return 0;
    }
    return bytes_read / (rows[0] + last[0]) * last[0];
}

static void finish_rows(struct builder *b) {
    for (size_t i = 0; i < b->count; i++) {
        struct orr_operator_row *row = &b->rows[i];
        const struct orr_events_operator *operator_ = &b->events->operators[row->operator_index];
        struct orr_roof roof = orr_roof_of_row(row);
        row->bound = ORR_BOUND_NO_COST;
        if (row->no_cost == 0) {
            row->bound = orr_roof_classify(&roof, b->options->roof_percent, &row->above_roof);
        }
        bool gemm = strcmp(operator_->kind, "gemm") == 0 && operator_->dtype < ORR_DTYPE_COUNT;
        if (gemm && b->states[i].uniform) {
            row->weight_bytes = weight_of(operator_, b->states[i].bytes_read);
        }
    }
}

int orr__operator_compare(const struct orr_events_operator *a,
                          const struct orr_events_operator *b) {
    int order = strcmp(a->name, b->name);
    order = order ? order : strcmp(a->shape, b->shape);
    order = order ? order : strcmp(a->kind, b->kind);
    order = order ? order : (int)a->dtype - (int)b->dtype;
    return order ? order : (int)a->unit - (int)b->unit;
}

static bool row_before(const void *context, uint32_t x, uint32_t y) {
    const struct builder *b = context;
    const struct orr_operator_row *p = &b->rows[x], *q = &b->rows[y];
    if (p->time_ns != q->time_ns) {
        return p->time_ns > q->time_ns;
    }
    int order = orr__operator_compare(&b->events->operators[p->operator_index],
                                      &b->events->operators[q->operator_index]);
    return order ? order < 0 : p->device < q->device;
}

/* An array of 0 .. count - 1, sorted. */
static enum orr_status sorted_indices(const struct orr_memory *memory, size_t count,
                                      bool (*before)(const void *, uint32_t, uint32_t),
                                      const void *context, uint32_t **out_order) {
    uint32_t *order = orr_memory_resize(memory, NULL, count * sizeof *order);
    *out_order = order;
    if (!order) {
        return ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    return orr__sort_indices(memory, order, count, before, context);
}

static enum orr_status sort_rows(struct builder *b, struct orr_roofline *out) {
    uint32_t *order = NULL;
    enum orr_status status = sorted_indices(b->memory, b->count, row_before, b, &order);
    out->rows = orr_memory_resize(b->memory, NULL, b->count * sizeof *out->rows);
    if (!out->rows) {
        status = ORR_NO_MEMORY;
    }
    for (size_t i = 0; i < b->count && status == ORR_OK; i++) {
        out->rows[i] = b->rows[order[i]];
    }
    out->row_count = status == ORR_OK ? b->count : 0;
    orr_memory_free(b->memory, order);
    return status;
}

static enum orr_status make_rows(struct builder *b, struct orr_roofline *out) {
    const struct orr_events *events = b->events;
    b->profile_of = orr_memory_alloc(b->memory, events->device_count * sizeof *b->profile_of);
    b->head = orr_memory_alloc(b->memory, events->operator_count * sizeof *b->head);
    out->bounds = orr_memory_alloc(b->memory, events->op_count);
    if (!b->profile_of || !b->head || !out->bounds) {
        return ORR_NO_MEMORY;
    }
    find_profiles(b);
    for (size_t i = 0; i < events->operator_count; i++) {
        b->head[i] = ORR_EVENTS_NONE;
    }
    enum orr_status status = ORR_OK;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        if (events->ops[i].activity == ORR_ACTIVITY_COMPUTE) {
            status = add_op(b, &events->ops[i], &out->bounds[i]);
        }
    }
    if (status == ORR_OK) {
        finish_rows(b);
        status = sort_rows(b, out);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Kinds */

struct kind_time {
    int64_t time_ns, host_ns;
    uint64_t count;
};

static bool kind_name_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_events *events = context;
    return strcmp(events->operators[x].kind, events->operators[y].kind) < 0;
}

static bool kind_time_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_kind_row *rows = context;
    if (rows[x].time_ns != rows[y].time_ns) {
        return rows[x].time_ns > rows[y].time_ns;
    }
    return strcmp(rows[x].kind, rows[y].kind) < 0;
}

/* Sums of operators with an equal kind; order lists operators by kind. */
static size_t merge_kinds(const struct orr_events *events, const struct kind_time *times,
                          const uint32_t *order, struct orr_kind_row *rows) {
    size_t count = 0;
    for (size_t i = 0; i < events->operator_count; i++) {
        const char *kind = events->operators[order[i]].kind;
        if (times[order[i]].count == 0) {
            continue;
        }
        if (count == 0 || strcmp(rows[count - 1].kind, kind) != 0) {
            rows[count++] = (struct orr_kind_row){.kind = kind};
        }
        struct orr_kind_row *row = &rows[count - 1];
        row->count += times[order[i]].count;
        row->time_ns = orr__add_ns(row->time_ns, times[order[i]].time_ns);
        row->host_ns = orr__add_ns(row->host_ns, times[order[i]].host_ns);
    }
    return count;
}

static enum orr_status make_kinds(const struct orr_events *events, const struct orr_memory *memory,
                                  struct orr_roofline *out) {
    struct kind_time *times = orr_memory_alloc(memory, events->operator_count * sizeof *times);
    struct orr_kind_row *rows = orr_memory_alloc(memory, events->operator_count * sizeof *rows);
    uint32_t *order = NULL, *by_time = NULL;
    enum orr_status status = times && rows ? ORR_OK : ORR_NO_MEMORY;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        const struct orr_events_op *op = &events->ops[i];
        struct kind_time *time = &times[op->operator_index];
        time->count++;
        time->time_ns = orr__add_ns(time->time_ns, op->end_ns - op->start_ns);
        time->host_ns = orr__add_ns(time->host_ns, own_call_ns(events, op));
    }
    if (status == ORR_OK) {
        status = sorted_indices(memory, events->operator_count, kind_name_before, events, &order);
    }
    size_t count = 0;
    if (status == ORR_OK) {
        count = merge_kinds(events, times, order, rows);
        status = sorted_indices(memory, count, kind_time_before, rows, &by_time);
    }
    out->kinds = orr_memory_resize(memory, NULL, count * sizeof *out->kinds);
    status = out->kinds ? status : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        out->kinds[i] = rows[by_time[i]];
    }
    out->kind_count = status == ORR_OK ? count : 0;
    orr_memory_free(memory, times);
    orr_memory_free(memory, rows);
    orr_memory_free(memory, order);
    orr_memory_free(memory, by_time);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Collectives */

struct meeting { /* one collective: when its members arrived and left */
    int64_t first_end_ns, last_start_ns, wait_ns;
};

static bool collective_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_events *events = context;
    const struct orr_events_collective *a = &events->collectives[x], *b = &events->collectives[y];
    int order = strcmp(a->kind, b->kind);
    order = order ? order : strcmp(a->group, b->group);
    if (order) {
        return order < 0;
    }
    if (a->size != b->size) {
        return a->size < b->size;
    }
    return a->bytes < b->bytes;
}

static bool collective_row_before(const void *context, uint32_t x, uint32_t y) {
    const struct orr_collective_row *rows = context;
    return rows[x].transfer_ns != rows[y].transfer_ns ? rows[x].transfer_ns > rows[y].transfer_ns
                                                      : x < y;
}

static void meet(const struct orr_events *events, struct meeting *meetings) {
    for (size_t i = 0; i < events->collective_count; i++) {
        meetings[i] = (struct meeting){INT64_MAX, INT64_MIN, 0};
    }
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (op->collective == ORR_EVENTS_NONE) {
            continue;
        }
        struct meeting *m = &meetings[op->collective];
        m->first_end_ns = op->end_ns < m->first_end_ns ? op->end_ns : m->first_end_ns;
        m->last_start_ns = op->start_ns > m->last_start_ns ? op->start_ns : m->last_start_ns;
    }
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (op->collective != ORR_EVENTS_NONE) {
            struct meeting *m = &meetings[op->collective];
            m->wait_ns = orr__add_ns(m->wait_ns, m->last_start_ns - op->start_ns);
        }
    }
}

/* Factor of the bus bandwidth as a fraction; 0/1 if the kind has none. */
static void bus_factor(const char *kind, uint64_t size, uint64_t *out_up, uint64_t *out_down) {
    uint64_t others = size > 0 ? size - 1 : 0;
    *out_down = size > 0 ? size : 1;
    if (strcmp(kind, "all_reduce") == 0) {
        *out_up = 2 * others;
    } else if (strcmp(kind, "all_gather") == 0 || strcmp(kind, "reduce_scatter") == 0 ||
               strcmp(kind, "all_to_all") == 0 || strcmp(kind, "gather") == 0 ||
               strcmp(kind, "scatter") == 0) {
        *out_up = others;
    } else {
        bool moves = strcmp(kind, "broadcast") == 0 || strcmp(kind, "send") == 0 ||
                     strcmp(kind, "recv") == 0 || strcmp(kind, "reduce") == 0 ||
                     strcmp(kind, "send_receive") == 0;
        *out_up = moves;
        *out_down = 1;
    }
}

static void set_bus_bandwidth(struct orr_collective_row *row) {
    uint64_t up, down, moved = row->count - row->partial - row->mismatched;
    bus_factor(row->kind, row->size, &up, &down);
    if (row->transfer_ns <= 0 || up == 0 || moved == 0) {
        return;
    }
    /* bytes < 2^64, up < 2^33, 1e9 < 2^30: the count goes in after a division. */
    orr_u128 rate = (orr_u128)row->bytes * up / down * 1000000000;
    orr_u128 time = (orr_u128)(uint64_t)row->transfer_ns;
    rate = rate <= (~(orr_u128)0) / moved ? rate * moved / time : rate / time * moved;
    row->bus_bandwidth = rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
}

static size_t merge_collectives(const struct orr_events *events, const struct meeting *meetings,
                                const uint32_t *order, struct orr_collective_row *rows) {
    size_t count = 0;
    uint32_t last = ORR_EVENTS_NONE;
    for (size_t i = 0; i < events->collective_count; i++) {
        uint32_t index = order[i];
        const struct orr_events_collective *c = &events->collectives[index];
        if (c->members == 0) {
            continue;
        }
        bool new_row = last == ORR_EVENTS_NONE || collective_before(events, last, index);
        last = index;
        struct orr_collective_row *row = &rows[count - !new_row];
        if (new_row) {
            *row = (struct orr_collective_row){
                .kind = c->kind, .group = c->group, .size = c->size, .bytes = c->bytes};
            count++;
        }
        row->count++;
        row->emulated += c->emulated;
        row->modelled_ns = orr__add_ns(row->modelled_ns, c->modelled_ns);
        if (!orr_events_whole(c)) {
            row->partial++;
            continue;
        }
        row->arrival_ns = orr__add_ns(row->arrival_ns, meetings[index].wait_ns);
        int64_t transfer = meetings[index].first_end_ns - meetings[index].last_start_ns;
        if (transfer < 0) {
            row->mismatched++;
        } else {
            row->transfer_ns = orr__add_ns(row->transfer_ns, transfer);
        }
    }
    return count;
}

static enum orr_status make_collectives(const struct orr_events *events,
                                        const struct orr_memory *memory, struct orr_roofline *out) {
    size_t all = events->collective_count, count = 0;
    struct meeting *meetings = orr_memory_alloc(memory, all * sizeof *meetings);
    struct orr_collective_row *rows = orr_memory_alloc(memory, all * sizeof *rows);
    uint32_t *order = NULL, *by_time = NULL;
    enum orr_status status = meetings && rows ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK) {
        meet(events, meetings);
        status = sorted_indices(memory, all, collective_before, events, &order);
    }
    if (status == ORR_OK) {
        count = merge_collectives(events, meetings, order, rows);
        for (size_t i = 0; i < count; i++) {
            set_bus_bandwidth(&rows[i]);
        }
        status = sorted_indices(memory, count, collective_row_before, rows, &by_time);
    }
    out->collectives = orr_memory_resize(memory, NULL, count * sizeof *out->collectives);
    status = out->collectives ? status : ORR_NO_MEMORY;
    for (size_t i = 0; i < count && status == ORR_OK; i++) {
        out->collectives[i] = rows[by_time[i]];
    }
    out->collective_count = status == ORR_OK ? count : 0;
    orr_memory_free(memory, meetings);
    orr_memory_free(memory, rows);
    orr_memory_free(memory, order);
    orr_memory_free(memory, by_time);
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

enum orr_status orr_roofline_compute(const struct orr_events *events,
                                     const struct orr_analysis_options *options,
                                     const struct orr_memory *memory,
                                     struct orr_roofline *out_roofline) {
    *out_roofline = (struct orr_roofline){0};
    struct builder builder = {.events = events, .options = options, .memory = memory};
    enum orr_status status = make_rows(&builder, out_roofline);
    if (status == ORR_OK) {
        status = make_kinds(events, memory, out_roofline);
    }
    if (status == ORR_OK) {
        status = make_collectives(events, memory, out_roofline);
    }
    orr_memory_free(memory, builder.profile_of);
    orr_memory_free(memory, builder.head);
    orr_memory_free(memory, builder.rows);
    orr_memory_free(memory, builder.states);
    if (status != ORR_OK) {
        orr_roofline_free(memory, out_roofline);
    }
    return status;
}

void orr_roofline_free(const struct orr_memory *memory, struct orr_roofline *roofline) {
    orr_memory_free(memory, roofline->rows);
    orr_memory_free(memory, roofline->kinds);
    orr_memory_free(memory, roofline->collectives);
    orr_memory_free(memory, roofline->bounds);
    *roofline = (struct orr_roofline){0};
}
