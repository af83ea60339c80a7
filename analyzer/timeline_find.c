#include "analyzer/timeline_find.h"

#include <stddef.h>
#include <string.h>

size_t orr__find_u64(const void *items, size_t count, size_t size, size_t offset, uint64_t id) {
    const char *bytes = items;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t here;
        memcpy(&here, bytes + middle * size + offset, sizeof here);
        if (here < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t orr__find_command(const struct orr_timeline *t, uint64_t id) {
    if (id == 0) {
        return ORR_EVENTS_NONE;
    }
    size_t i = id - 1;
    if (i >= t->command_count || t->commands[i].id != id) {
        i = orr__find_u64(t->commands, t->command_count, sizeof *t->commands,
                          offsetof(struct orr_timeline_command, id), id);
    }
    return i < t->command_count && t->commands[i].id == id ? (uint32_t)i : ORR_EVENTS_NONE;
}

uint32_t orr__find_op(const struct orr_timeline *t, uint64_t id) {
    if (id == 0) {
        return ORR_EVENTS_NONE;
    }
    size_t i = id - 1;
    if (i >= t->op_count || t->ops[i].id != id) {
        i = orr__find_u64(t->ops, t->op_count, sizeof *t->ops, offsetof(struct orr_timeline_op, id),
                          id);
    }
    return i < t->op_count && t->ops[i].id == id ? (uint32_t)i : ORR_EVENTS_NONE;
}

/* Index of the row with a 32-bit id in an array sorted by it. */
static uint32_t find_u32(const void *items, size_t count, size_t size, uint32_t id) {
    const char *bytes = items;
    uint32_t here;
    if (id < count) {
        memcpy(&here, bytes + id * size, sizeof here);
        if (here == id) {
            return id;
        }
    }
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        memcpy(&here, bytes + middle * size, sizeof here);
        if (here < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == count) {
        return ORR_EVENTS_NONE;
    }
    memcpy(&here, bytes + low * size, sizeof here);
    return here == id ? (uint32_t)low : ORR_EVENTS_NONE;
}

_Static_assert(offsetof(struct orr_timeline_stream, id) == 0, "find_u32 looks there");
_Static_assert(offsetof(struct orr_timeline_host, id) == 0, "find_u32 looks there");
_Static_assert(offsetof(struct orr_timeline_device, id) == 0, "find_u32 looks there");
_Static_assert(offsetof(struct orr_timeline_communicator, id) == 0, "find_u32 looks there");

uint32_t orr__find_stream(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->streams, t->stream_count, sizeof *t->streams, id);
}

uint32_t orr__find_host(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->hosts, t->host_count, sizeof *t->hosts, id);
}

uint32_t orr__find_device(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->devices, t->device_count, sizeof *t->devices, id);
}

uint32_t orr__find_communicator(const struct orr_timeline *t, uint32_t id) {
    return find_u32(t->communicators, t->communicator_count, sizeof *t->communicators, id);
}

uint32_t orr__find_call(const struct orr_timeline *t, uint64_t id) {
    if (id == 0) {
        return ORR_EVENTS_NONE;
    }
    size_t i = id - 1;
    if (i >= t->call_count || t->calls[i].id != id) {
        i = orr__find_u64(t->calls, t->call_count, sizeof *t->calls,
                          offsetof(struct orr_timeline_call, id), id);
    }
    return i < t->call_count && t->calls[i].id == id ? (uint32_t)i : ORR_EVENTS_NONE;
}

bool orr__is_op_kind(enum orr_command_kind kind) {
    return kind == ORR_COMMAND_KERNEL || kind == ORR_COMMAND_COLLECTIVE ||
           kind == ORR_COMMAND_COPY || kind == ORR_COMMAND_FILL;
}

bool orr__good_time(int64_t time) {
    return time <= ORR_EVENTS_TIME_MAX && time >= -ORR_EVENTS_TIME_MAX;
}
