#include "analyzer/idle_streams.h"

#include "analyzer/times.h"

const char *orr_stream_idle_text(enum orr_stream_idle class_) {
    static const char *const texts[] = {
#define ORR_STREAM_IDLE_TEXT(name, text) text,
        ORR_STREAM_IDLE_LIST(ORR_STREAM_IDLE_TEXT)
#undef ORR_STREAM_IDLE_TEXT
    };
    return class_ < ORR_STREAM_IDLE_COUNT ? texts[class_] : "";
}

static enum orr_stream_idle class_of(const struct orr_events *events,
                                     const struct orr_events_op *op, int64_t previous_end,
                                     const struct orr_analysis_options *options) {
    if (!orr_events_linked(op)) {
        return ORR_STREAM_IDLE_UNLINKED;
    }
    if (events->calls[op->call].begin_ns > previous_end) {
        return ORR_STREAM_IDLE_HOST;
    }
    bool is_short = op->start_ns - previous_end < options->short_gap_ns;
    return is_short ? ORR_STREAM_IDLE_SHORT : ORR_STREAM_IDLE_QUEUED;
}

void orr_idle_streams_compute(const struct orr_events *events,
                              const struct orr_analysis_options *options,
                              struct orr_idle_streams *out_idle) {
    *out_idle = (struct orr_idle_streams){0};
    for (size_t s = 0; s < events->stream_count; s++) {
        out_idle->streams += events->stream_first[s + 1] > events->stream_first[s];
    }
    for (size_t i = 0; i < events->op_count; i++) {
        const struct orr_events_op *op = &events->ops[i];
        int64_t previous_end = orr_events_previous_end(events, op);
        if (op->prev_op == ORR_EVENTS_NONE || op->start_ns <= previous_end) {
            continue;
        }
        enum orr_stream_idle class_ = class_of(events, op, previous_end, options);
        out_idle->ns[class_] = orr__add_ns(out_idle->ns[class_], op->start_ns - previous_end);
        out_idle->counts[class_]++;
    }
}
