#include "trace/timeline_arrays.h"

#include <string.h>

#define MEMBER(item, type, member, limit)                                                          \
    { #member, ORR__MEMBER_##type, offsetof(struct orr_timeline_##item, member), 1, limit }

static const struct orr__member meta_members[] = {
    MEMBER(meta, TEXT, key, 0),
    MEMBER(meta, TEXT, value, 0),
};
static const struct orr__member devices_members[] = {
    MEMBER(device, U32, id, 0),
    MEMBER(device, U32, physical, 0),
    MEMBER(device, TEXT, name, 0),
    MEMBER(device, TEXT, kind, 0),
    MEMBER(device, TEXT, profile, 0),
    MEMBER(device, U64, mem_bytes, 0),
    MEMBER(device, U64, bandwidth, 0),
    {"peak", ORR__MEMBER_U64, offsetof(struct orr_timeline_device, peak), 2 * ORR_DTYPE_COUNT, 0},
    MEMBER(device, U32, multiprocessors, 0),
};
static const struct orr__member streams_members[] = {
    MEMBER(stream, U32, id, 0),
    MEMBER(stream, U32, device, 0),
    MEMBER(stream, TEXT, name, 0),
    MEMBER(stream, ENUM, kind, ORR_STREAM_KIND_COUNT),
    MEMBER(stream, ENUM, sync, ORR_STREAM_LEGACY + 1),
    MEMBER(stream, U64, process, 0),
};
static const struct orr__member hosts_members[] = {
    MEMBER(host, U32, id, 0),
    MEMBER(host, TEXT, name, 0),
    MEMBER(host, TEXT, label, 0),
    MEMBER(host, U64, process, 0),
};
static const struct orr__member ops_members[] = {
    MEMBER(op, U64, id, 0),
    MEMBER(op, U64, parent, 0),
    MEMBER(op, TEXT, name, 0),
    MEMBER(op, TEXT, kind, 0),
    MEMBER(op, TEXT, site, 0),
    MEMBER(op, TEXT, shape, 0),
    MEMBER(op, DTYPE, dtype, 0),
    MEMBER(op, U64, flops, 0),
    MEMBER(op, U64, bytes_read, 0),
    MEMBER(op, U64, bytes_written, 0),
    MEMBER(op, U64, bytes_broadcast, 0),
};
static const struct orr__member commands_members[] = {
    MEMBER(command, U64, id, 0),
    MEMBER(command, U64, op, 0),
    MEMBER(command, U64, seq, 0),
    MEMBER(command, U32, host, 0),
    MEMBER(command, U32, device, 0),
    MEMBER(command, U32, stream, 0),
    MEMBER(command, U32, caller, 0),
    MEMBER(command, ENUM, kind, ORR_COMMAND_KIND_COUNT),
    MEMBER(command, ENUM, status, ORR_COMMAND_STATUS_COUNT),
    MEMBER(command, DTYPE, dtype, 0),
    MEMBER(command, U8, unit, ORR_UNIT_MATRIX + 1),
    MEMBER(command, TEXT, name, 0),
    MEMBER(command, TEXT, event, 0),
    MEMBER(command, TEXT, site, 0),
    MEMBER(command, TEXT, ts_source, 0),
    MEMBER(command, I64, enqueue_ns, 0),
    MEMBER(command, I64, enqueued_ns, 0),
    MEMBER(command, I64, ready_ns, 0),
    MEMBER(command, I64, start_ns, 0),
    MEMBER(command, I64, finish_ns, 0),
    MEMBER(command, U64, flops, 0),
    MEMBER(command, U64, bytes_read, 0),
    MEMBER(command, U64, bytes_written, 0),
    MEMBER(command, U64, call, 0),
    MEMBER(command, U64, correlation, 0),
    MEMBER(command, U64, graph, 0),
    MEMBER(command, TEXT, grid, 0),
};
static const struct orr__member edges_members[] = {
    MEMBER(edge, U64, src, 0),
    MEMBER(edge, U64, dst, 0),
    MEMBER(edge, ENUM, kind, ORR_EDGE_KIND_COUNT),
};
static const struct orr__member syncs_members[] = {
    MEMBER(sync, U64, id, 0),      MEMBER(sync, U64, cmd, 0),
    MEMBER(sync, U32, host, 0),    MEMBER(sync, ENUM, kind, ORR_SYNC_KIND_COUNT),
    MEMBER(sync, TEXT, target, 0), MEMBER(sync, I64, begin_ns, 0),
    MEMBER(sync, I64, end_ns, 0),  MEMBER(sync, U64, call, 0),
    MEMBER(sync, U32, stream, 0),  MEMBER(sync, U32, device, 0),
};
static const struct orr__member buffers_members[] = {
    MEMBER(buffer, U64, id, 0),       MEMBER(buffer, U64, block, 0),
    MEMBER(buffer, U64, bytes, 0),    MEMBER(buffer, U64, alloc_cmd, 0),
    MEMBER(buffer, U64, free_cmd, 0), MEMBER(buffer, U32, device, 0),
    MEMBER(buffer, U32, stream, 0),   MEMBER(buffer, TEXT, memory, 0),
    MEMBER(buffer, TEXT, label, 0),   MEMBER(buffer, ENUM, role, ORR_ROLE_COUNT),
};
static const struct orr__member buffer_roles_members[] = {
    MEMBER(buffer_role, U64, buffer, 0),
    MEMBER(buffer_role, U64, after_cmd, 0),
    MEMBER(buffer_role, I64, ts_ns, 0),
    MEMBER(buffer_role, ENUM, role, ORR_ROLE_COUNT),
};
static const struct orr__member accesses_members[] = {
    MEMBER(access, U64, cmd, 0),
    MEMBER(access, U64, buffer, 0),
    MEMBER(access, U64, offset, 0),
    MEMBER(access, U64, bytes, 0),
    MEMBER(access, ENUM, mode, ORR_ACCESS_READ_WRITE + 1),
};
static const struct orr__member communicators_members[] = {
    MEMBER(communicator, U32, id, 0),
    MEMBER(communicator, TEXT, name, 0),
};
static const struct orr__member members_members[] = {
    MEMBER(member, U32, communicator, 0),
    MEMBER(member, U32, rank, 0),
    MEMBER(member, U32, device, 0),
};
static const struct orr__member collectives_members[] = {
    MEMBER(collective, U64, id, 0),        MEMBER(collective, U64, seq, 0),
    MEMBER(collective, U64, bytes, 0),     MEMBER(collective, U32, communicator, 0),
    MEMBER(collective, U32, root, 0),      MEMBER(collective, U32, peer, 0),
    MEMBER(collective, TEXT, kind, 0),     MEMBER(collective, TEXT, algorithm, 0),
    MEMBER(collective, TEXT, protocol, 0), MEMBER(collective, I64, modelled_ns, 0),
    MEMBER(collective, DTYPE, dtype, 0),   MEMBER(collective, BOOL, emulated, 0),
};
static const struct orr__member collective_members_members[] = {
    MEMBER(collective_member, U64, collective, 0),
    MEMBER(collective_member, U64, cmd, 0),
    MEMBER(collective_member, U32, rank, 0),
};
static const struct orr__member counters_members[] = {
    MEMBER(counter, U32, device, 0), MEMBER(counter, U32, order, 0),
    MEMBER(counter, TEXT, name, 0),  MEMBER(counter, I64, ts_ns, 0),
    MEMBER(counter, REAL, value, 0),
};
static const struct orr__member findings_members[] = {
    MEMBER(finding, U64, id, 0),       MEMBER(finding, U64, cmd_a, 0),
    MEMBER(finding, U64, cmd_b, 0),    MEMBER(finding, U64, buffer, 0),
    MEMBER(finding, TEXT, kind, 0),    MEMBER(finding, TEXT, severity, 0),
    MEMBER(finding, TEXT, message, 0), MEMBER(finding, TEXT, fix, 0),
};
static const struct orr__member calls_members[] = {
    MEMBER(call, U64, id, 0),    MEMBER(call, U64, merged, 0),   MEMBER(call, U64, correlation, 0),
    MEMBER(call, TEXT, name, 0), MEMBER(call, I64, begin_ns, 0), MEMBER(call, I64, end_ns, 0),
    MEMBER(call, U32, host, 0),
};
static const struct orr__member stream_waits_members[] = {
    MEMBER(stream_wait, U64, id, 0),        MEMBER(stream_wait, U32, stream, 0),
    MEMBER(stream_wait, U32, source, 0),    MEMBER(stream_wait, I64, at_ns, 0),
    MEMBER(stream_wait, I64, record_ns, 0), MEMBER(stream_wait, BOOL, resolved, 0),
};
static const struct orr__member overheads_members[] = {
    MEMBER(overhead, U64, process, 0),   MEMBER(overhead, TEXT, name, 0),
    MEMBER(overhead, I64, begin_ns, 0),  MEMBER(overhead, I64, end_ns, 0),
    MEMBER(overhead, BOOL, profiler, 0),
};
static const struct orr__member slices_members[] = {
    MEMBER(slice, I64, begin_ns, 0),
    MEMBER(slice, I64, end_ns, 0),
    MEMBER(slice, TEXT, name, 0),
    MEMBER(slice, U64, op, 0),
    MEMBER(slice, U32, host, 0),
    MEMBER(slice, U32, stream, 0),
    MEMBER(slice, ENUM, kind, ORR_SLICE_KIND_COUNT),
};

#define ARRAY(items, count, item, id_size)                                                         \
    {                                                                                              \
#items, offsetof(struct orr_timeline, items), offsetof(struct orr_timeline, count),        \
            sizeof(struct orr_timeline_##item), id_size,                                           \
            sizeof items##_members / sizeof *items##_members, items##_members                      \
    }

const struct orr__array orr__arrays[ORR__ARRAY_COUNT] = {
    ARRAY(meta, meta_count, meta, 0),
    ARRAY(devices, device_count, device, 4),
    ARRAY(streams, stream_count, stream, 4),
    ARRAY(hosts, host_count, host, 4),
    ARRAY(ops, op_count, op, 8),
    ARRAY(commands, command_count, command, 8),
    ARRAY(edges, edge_count, edge, 0),
    ARRAY(syncs, sync_count, sync, 8),
    ARRAY(buffers, buffer_count, buffer, 8),
    ARRAY(buffer_roles, buffer_role_count, buffer_role, 0),
    ARRAY(accesses, access_count, access, 0),
    ARRAY(communicators, communicator_count, communicator, 4),
    ARRAY(members, member_count, member, 0),
    ARRAY(collectives, collective_count, collective, 8),
    ARRAY(collective_members, collective_member_count, collective_member, 0),
    ARRAY(counters, counter_count, counter, 0),
    ARRAY(findings, finding_count, finding, 8),
    ARRAY(calls, call_count, call, 8),
    ARRAY(stream_waits, stream_wait_count, stream_wait, 8),
    ARRAY(overheads, overhead_count, overhead, 0),
    ARRAY(slices, slice_count, slice, 0),
};

size_t orr__member_size(const struct orr__member *member) {
    switch ((enum orr__member_type)member->type) {
    case ORR__MEMBER_U8: return sizeof(uint8_t);
    case ORR__MEMBER_BOOL: return sizeof(bool);
    case ORR__MEMBER_DTYPE:
    case ORR__MEMBER_ENUM: return sizeof(enum orr_dtype);
    case ORR__MEMBER_U32: return sizeof(uint32_t);
    case ORR__MEMBER_TEXT: return sizeof(const char *);
    case ORR__MEMBER_U64:
    case ORR__MEMBER_I64:
    case ORR__MEMBER_REAL: break;
    }
    return sizeof(uint64_t);
}

void *orr__array_items(const struct orr_timeline *timeline, const struct orr__array *array) {
    void *items;
    memcpy(&items, (const unsigned char *)timeline + array->items, sizeof items);
    return items;
}

size_t orr__array_count(const struct orr_timeline *timeline, const struct orr__array *array) {
    size_t count;
    memcpy(&count, (const unsigned char *)timeline + array->count, sizeof count);
    return count;
}

void orr__array_set(struct orr_timeline *timeline, const struct orr__array *array, void *items,
                    size_t count) {
    memcpy((unsigned char *)timeline + array->items, &items, sizeof items);
    memcpy((unsigned char *)timeline + array->count, &count, sizeof count);
}
