#include "analyzer/exact.h"

#include <string.h>

#include "analyzer/sort.h"
#include "analyzer/times.h"

static void count_ops(const struct orr_events *events, struct orr_exact *exact) {
    exact->gpu_ops = events->op_count;
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        exact->zero_len_ops += op->start_ns == op->end_ns;
        switch (op->kind) {
        case ORR_DEVICE_OP_COPY:
            exact->memcpys++;
            exact->memcpy_bytes += op->bytes_written;
            break;
        case ORR_DEVICE_OP_FILL: exact->memsets++; break;
        default: exact->kernels++; break;
        }
        if (orr_events_linked(op)) {
            const struct orr_events_call *call = &events->calls[op->call];
            exact->ops_multi_api += call->records > 1;
            exact->graph_ops += (call->flags & ORR_CALL_GRAPH) != 0;
        }
    }
}

static void count_calls(const struct orr_events *events, struct orr_exact *exact) {
    for (size_t c = 0; c < events->call_count; c++) {
        const struct orr_events_call *call = &events->calls[c];
        exact->fanout_corrs += call->op_count > 1;
        if (call->op_count > exact->max_ops_per_corr) {
            exact->max_ops_per_corr = call->op_count;
        }
        if (call->flags & ORR_CALL_GRAPH) {
            exact->graph_launches++;
            exact->graph_launches_no_op += call->op_count == 0;
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Top kernels: names by content, in a hash table with open addressing; rows in order of first
 * use. */

struct names {
    struct orr_exact_kernel *rows; /* owned */
    uint32_t *slots;               /* row + 1; owned */
    size_t count, row_capacity, slot_count;
};

static uint64_t hash_name(const char *name) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash ^ (hash >> 32);
}

static enum orr_status grow_slots(struct names *names, const struct orr_memory *memory) {
    size_t slot_count = names->slot_count ? 2 * names->slot_count : 256;
    uint32_t *slots = orr_memory_alloc(memory, slot_count * sizeof *slots);
    if (!slots) {
        return ORR_NO_MEMORY;
    }
    for (size_t row = 0; row < names->count; row++) {
        size_t at = hash_name(names->rows[row].name) & (slot_count - 1);
        while (slots[at] != 0) {
            at = (at + 1) & (slot_count - 1);
        }
        slots[at] = (uint32_t)row + 1;
    }
    orr_memory_free(memory, names->slots);
    names->slots = slots;
    names->slot_count = slot_count;
    return ORR_OK;
}

static enum orr_status find_row(struct names *names, const struct orr_memory *memory,
                                const char *name, uint32_t *out_row) {
    if (2 * (names->count + 1) > names->slot_count) {
        enum orr_status status = grow_slots(names, memory);
        if (status != ORR_OK) {
            return status;
        }
    }
    size_t at = hash_name(name) & (names->slot_count - 1);
    for (; names->slots[at] != 0; at = (at + 1) & (names->slot_count - 1)) {
        *out_row = names->slots[at] - 1;
        if (names->rows[*out_row].name == name || strcmp(names->rows[*out_row].name, name) == 0) {
            return ORR_OK;
        }
    }
    enum orr_status status =
        orr_memory_grow(memory, &names->rows, &names->row_capacity, names->count + 1,
                        sizeof *names->rows, ORR_EVENTS_NONE - 1);
    if (status == ORR_OK) {
        *out_row = (uint32_t)names->count;
        names->rows[names->count++] = (struct orr_exact_kernel){.name = name, .min_ns = INT64_MAX};
        names->slots[at] = *out_row + 1;
    }
    return status;
}

static bool more(const struct orr_exact_kernel *a, const struct orr_exact_kernel *b) {
    return a->sum_ns != b->sum_ns ? a->sum_ns > b->sum_ns : strcmp(a->name, b->name) < 0;
}

static void take_top(const struct names *names, struct orr_exact *exact) {
    for (size_t row = 0; row < names->count; row++) {
        const struct orr_exact_kernel *kernel = &names->rows[row];
        unsigned at = exact->top_count;
        for (; at > 0 && more(kernel, &exact->top_kernels[at - 1]); at--) {
            if (at < ORR_EXACT_TOP) {
                exact->top_kernels[at] = exact->top_kernels[at - 1];
            }
        }
        if (at < ORR_EXACT_TOP) {
            exact->top_kernels[at] = *kernel;
            exact->top_count += exact->top_count < ORR_EXACT_TOP;
        }
    }
}

static enum orr_status sum_kernels(const struct orr_events *events, const struct orr_memory *memory,
                                   struct orr_exact *exact) {
    struct names names = {0};
    enum orr_status status = ORR_OK;
    uint32_t row = 0;
    for (size_t i = 0; i < events->op_count && status == ORR_OK; i++) {
        const struct orr_events_op *op = &events->ops[i];
        if (op->kind == ORR_DEVICE_OP_COPY || op->kind == ORR_DEVICE_OP_FILL) {
            continue;
        }
        status = find_row(&names, memory, op->name, &row);
        if (status != ORR_OK) {
            break;
        }
        int64_t time = op->end_ns - op->start_ns;
        struct orr_exact_kernel *kernel = &names.rows[row];
        kernel->count++;
        kernel->sum_ns = orr__add_ns(kernel->sum_ns, time);
        kernel->min_ns = time < kernel->min_ns ? time : kernel->min_ns;
        kernel->max_ns = time > kernel->max_ns ? time : kernel->max_ns;
    }
    if (status == ORR_OK) {
        take_top(&names, exact);
    }
    orr_memory_free(memory, names.rows);
    orr_memory_free(memory, names.slots);
    return status;
}

enum orr_status orr_exact_compute(const struct orr_events *events, const struct orr_memory *memory,
                                  struct orr_exact *out_exact) {
    *out_exact = (struct orr_exact){0};
    count_ops(events, out_exact);
    count_calls(events, out_exact);
    return sum_kernels(events, memory, out_exact);
}
