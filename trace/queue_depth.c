#include "trace/queue_depth.h"

#include <stdbool.h>
#include <string.h>

#include "trace/timeline_texts.h"

struct change {
    int64_t ts_ns;
    uint32_t device;
    int32_t by;
};

static int compare_changes(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->device != y->device) {
        return x->device < y->device ? -1 : 1;
    }
    return x->ts_ns != y->ts_ns ? (x->ts_ns < y->ts_ns ? -1 : 1) : 0;
}

static bool counts(const struct orr_timeline_command *command) {
    return command->seq > 0 && command->device != ORR_ID_NONE &&
           command->enqueue_ns != ORR_TIME_NONE;
}

static size_t collect(const struct orr_timeline *timeline, struct change *changes) {
    size_t count = 0;
    for (size_t i = 0; i < timeline->command_count; i++) {
        const struct orr_timeline_command *command = &timeline->commands[i];
        if (!counts(command)) {
            continue;
        }
        changes[count++] = (struct change){command->enqueue_ns, command->device, 1};
        if (command->finish_ns != ORR_TIME_NONE) {
            changes[count++] = (struct change){command->finish_ns, command->device, -1};
        }
    }
    return count;
}

/* Change points of all devices into `out`, in order of device and time; returns their number. */
static size_t depths(const struct change *changes, size_t count, struct orr_timeline_counter *out) {
    size_t made = 0;
    int64_t depth = 0, before = 0;
    for (size_t i = 0; i < count; i++) {
        depth = i > 0 && changes[i].device != changes[i - 1].device ? 0 : depth;
        before = i > 0 && changes[i].device != changes[i - 1].device ? 0 : before;
        depth += changes[i].by;
        bool last = i + 1 == count || compare_changes(&changes[i], &changes[i + 1]) != 0;
        if (last && depth != before) {
            out[made++] = (struct orr_timeline_counter){.device = changes[i].device,
                                                        .name = ORR_QUEUE_DEPTH_NAME,
                                                        .ts_ns = changes[i].ts_ns,
                                                        .value = (double)depth};
            before = depth;
        }
    }
    return made;
}

static int compare_counters(const void *a, const void *b) {
    const struct orr_timeline_counter *x = a, *y = b;
    if (x->device != y->device) {
        return x->device < y->device ? -1 : 1;
    }
    int names = strcmp(x->name, y->name);
    return names ? names : x->ts_ns != y->ts_ns ? (x->ts_ns < y->ts_ns ? -1 : 1) : 0;
}

enum orr_status orr_timeline_add_queue_depth(struct orr_timeline *timeline) {
    const struct orr_memory *memory = timeline->memory;
    size_t most = 2 * timeline->command_count;
    struct change *changes = orr_memory_alloc(memory, most * sizeof *changes);
    struct orr_timeline_counter *counters =
        orr_memory_alloc(memory, (timeline->counter_count + most) * sizeof *counters);
    enum orr_status status = changes && counters ? ORR_OK : ORR_NO_MEMORY;
    size_t count = 0;
    if (status == ORR_OK) {
        size_t change_count = collect(timeline, changes);
        status = orr__stable_sort(memory, changes, change_count, sizeof *changes, compare_changes);
        count = timeline->counter_count;
        if (status == ORR_OK) {
            if (count > 0) {
                memcpy(counters, timeline->counters, count * sizeof *counters);
            }
            count += depths(changes, change_count, counters + count);
            status = orr__stable_sort(memory, counters, count, sizeof *counters, compare_counters);
        }
    }
    orr_memory_free(memory, changes);
    if (status != ORR_OK) {
        orr_memory_free(memory, counters);
        return status;
    }
    orr_memory_free(memory, timeline->counters);
    timeline->counters = counters;
    timeline->counter_count = count;
    return ORR_OK;
}
