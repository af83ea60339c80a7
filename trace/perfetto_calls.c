/* What only other tools' traces have: calls apart from commands, and records that make no sense. */
#include "trace/perfetto_internal.h"

enum { TIME_BITS = 61 };

static bool beyond(int64_t time_ns) {
    return time_ns > INT64_C(1) << TIME_BITS || time_ns < -(INT64_C(1) << TIME_BITS);
}

bool orr__bad_stretch(int64_t begin_ns, int64_t end_ns) {
    return begin_ns == ORR_TIME_NONE || end_ns == ORR_TIME_NONE || end_ns < begin_ns ||
           beyond(begin_ns) || beyond(end_ns);
}

bool orr__bad_command(const struct orr_timeline *timeline,
                      const struct orr_timeline_command *command) {
    if (strcmp(timeline->source.format, "orrery") == 0) {
        return false;
    }
    return orr__bad_stretch(command->start_ns, command->finish_ns) ||
           (command->start_ns == 0 && command->finish_ns == 0);
}

enum orr__slice_lane orr__slice_lane_of(const struct orr_timeline_slice *slice) {
    switch (slice->kind) {
    case ORR_SLICE_ANNOTATION: return ORR__SLICES_ANNOTATIONS;
    case ORR_SLICE_FUNCTION: return ORR__SLICES_FUNCTIONS;
    case ORR_SLICE_OPERATOR:
    case ORR_SLICE_OTHER:
    case ORR_SLICE_KIND_COUNT: break;
    }
    return ORR__SLICES_OPERATORS;
}

/* Ids of calls ascend. */
static size_t call_index(const struct orr_timeline *timeline, uint64_t id) {
    size_t low = 0, high = timeline->call_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (timeline->calls[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < timeline->call_count && timeline->calls[low].id == id;
    return found ? low : ORR__NO_INDEX;
}

size_t orr__call_of(const struct orr_timeline *timeline,
                    const struct orr_timeline_command *command) {
    return command->call == 0 ? ORR__NO_INDEX : call_index(timeline, command->call);
}

enum orr_status orr__perfetto_calls(struct orr__export *export) {
    const struct orr_timeline *timeline = export->timeline;
    size_t calls = timeline->call_count, commands = timeline->command_count;
    if (calls == 0) {
        return ORR_OK;
    }
    enum orr_status status =
        orr__export_alloc(export, &export->call_first, calls + 2, sizeof *export->call_first);
    if (status == ORR_OK) {
        status = orr__export_alloc(export, &export->call_commands, commands, sizeof(uint32_t));
    }
    if (status != ORR_OK) {
        return status;
    }
    /* Counted at i + 2, summed there, and moved down as they are filled in. */
    uint32_t *first = export->call_first;
    memset(first, 0, (calls + 2) * sizeof *first);
    for (size_t i = 0; i < commands; i++) {
        size_t call = orr__call_of(timeline, &timeline->commands[i]);
        first[(call == ORR__NO_INDEX ? 0 : call + 2)] += call != ORR__NO_INDEX;
    }
    for (size_t i = 2; i < calls + 2; i++) {
        first[i] += first[i - 1];
    }
    for (size_t i = 0; i < commands; i++) {
        size_t call = orr__call_of(timeline, &timeline->commands[i]);
        if (call != ORR__NO_INDEX) {
            export->call_commands[first[call + 1]++] = (uint32_t)i;
        }
    }
    return ORR_OK;
}
