/* What the simulator's cost model says of ops: their exact work, and with other bandwidths. */
#include <string.h>

#include "cli/whatif.h"
#include "runtime/collective.h"
#include "sim/cost_model.h"

__extension__ typedef unsigned __int128 wide;

static const struct orr_device_spec *spec_of(const struct orr_whatif_change *change,
                                             const struct orr_events *events,
                                             const struct orr_events_op *op) {
    uint32_t device = events->devices[events->streams[op->stream].device].id;
    return device < change->spec_count && op->has_cost ? &change->specs[device] : NULL;
}

static int64_t kernel_work(const struct orr_device_spec *spec, const struct orr_events *events,
                           const struct orr_events_op *op) {
    const struct orr_events_operator *row = &events->operators[op->operator_index];
    uint64_t bytes = op->bytes_read + op->bytes_written;
    return (int64_t)orr__kernel_work(spec, (enum orr_unit)row->unit, (enum orr_dtype)row->dtype,
                                     op->flops, bytes, -1)
        .work;
}

static int64_t copy_work(const struct orr_device_spec *spec, int route,
                         const struct orr_events_op *op) {
    return (int64_t)orr__copy_work(spec, (enum orr__route)route, op->bytes_read).work;
}

int64_t orr_whatif_work(void *context, const struct orr_events *events, uint32_t index) {
    const struct orr_events_op *op = &events->ops[index];
    const struct orr_device_spec *spec = spec_of(context, events, op);
    int64_t observed = op->end_ns - op->start_ns;
    if (!spec)
        return -1;
    if (op->kind == ORR_DEVICE_OP_KERNEL || op->kind == ORR_DEVICE_OP_FILL)
        return kernel_work(spec, events, op);
    /* Which way a copy goes is not in the model: the one that takes that long. */
    for (int route = ORR__ROUTE_LOCAL;
         op->kind == ORR_DEVICE_OP_COPY && route <= ORR__ROUTE_NETWORK; route++) {
        int64_t work = copy_work(spec, route, op);
        int64_t whole = work >> ORR__WORK_BITS;
        if (whole >= observed - 1 && whole <= observed + 1)
            return work;
    }
    return -1;
}

/* Which collectives have members in several nodes. */
static const uint8_t *find_spans(struct orr_whatif_change *change,
                                 const struct orr_events *events) {
    if (change->spans)
        return change->spans;
    size_t count = events->collective_count;
    uint32_t *nodes = orr_memory_alloc(change->memory, (count + 1) * sizeof *nodes);
    change->spans = orr_memory_alloc(change->memory, count + 1);
    for (size_t o = 0; nodes && change->spans && o < events->op_count; o++) {
        const struct orr_events_op *op = &events->ops[o];
        const struct orr_device_spec *spec = spec_of(change, events, op);
        if (op->collective == ORR_EVENTS_NONE || !spec || spec->devices_per_node == 0)
            continue;
        uint32_t device = events->devices[events->streams[op->stream].device].id;
        uint32_t node = 1 + device / spec->devices_per_node, *first = &nodes[op->collective];
        change->spans[op->collective] |= *first != 0 && *first != node;
        *first = node;
    }
    orr_memory_free(change->memory, nodes);
    return change->spans;
}

/* A collective's hops and its kernel's fixed part stay; what is left goes over the links. */
static int64_t changed_transfer(struct orr_whatif_change *change,
                                const struct orr_whatif_setting *setting,
                                const struct orr_events *events, const struct orr_events_op *op,
                                const struct orr_device_spec *spec, int64_t work) {
    const struct orr_events_collective *row = &events->collectives[op->collective];
    const uint8_t *spans = find_spans(change, events);
    struct orr_collective collective = {
        .kind = ORR_COLLECTIVE_KIND_COUNT, .dtype = ORR_DTYPE_F32, .ranks = row->members};
    for (int kind = 0; kind < ORR_COLLECTIVE_KIND_COUNT; kind++)
        if (strcmp(orr_collective_kind_text((enum orr_collective_kind)kind), row->kind) == 0)
            collective.kind = (enum orr_collective_kind)kind;
    if (!spans || collective.kind == ORR_COLLECTIVE_KIND_COUNT || row->members < 2)
        return -1;
    bool direct = orr_collective_is_direct(collective.kind);
    uint64_t hops = direct ? 1 : orr_collective_traffic(&collective).hops;
    int64_t hop_ns = spans[op->collective] ? spec->network_latency_ns : spec->peer_latency_ns;
    wide fixed = ((wide)hops * (uint64_t)hop_ns + (uint64_t)spec->kernel_fixed_ns)
                 << ORR__WORK_BITS;
    if ((wide)(uint64_t)work < fixed)
        return -1;
    wide moved = ((wide)(uint64_t)work - fixed) * ORR_WHATIF_MILLION / setting->factor_ppm;
    return fixed + moved > ORR__WORK_MAX ? -1 : (int64_t)(fixed + moved);
}

int64_t orr_whatif_changed(void *context, const struct orr_whatif_setting *setting,
                           const struct orr_events *events, uint32_t index, int64_t work) {
    struct orr_whatif_change *change = context;
    const struct orr_events_op *op = &events->ops[index];
    const struct orr_device_spec *spec = spec_of(change, events, op);
    if (!spec)
        return -1;
    if (op->collective != ORR_EVENTS_NONE)
        return setting->key == ORR_WHATIF_NETWORK
                   ? changed_transfer(change, setting, events, op, spec, work)
                   : -1;
    struct orr_device_spec tuned = *spec;
    orr_whatif_tune_device(&tuned, setting);
    bool kernel = op->kind == ORR_DEVICE_OP_KERNEL || op->kind == ORR_DEVICE_OP_FILL;
    if (kernel && setting->key == ORR_WHATIF_BANDWIDTH && kernel_work(spec, events, op) == work)
        return kernel_work(&tuned, events, op);
    for (int route = ORR__ROUTE_LOCAL;
         op->kind == ORR_DEVICE_OP_COPY && route <= ORR__ROUTE_NETWORK; route++)
        if (copy_work(spec, route, op) == work)
            return copy_work(&tuned, route, op);
    return -1;
}
