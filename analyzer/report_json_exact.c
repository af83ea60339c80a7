/* "exact": the figures of exact.h and of the rest of an analysis, under the keys and by the rules
 * that traces of other tools are checked by. */
#include <string.h>

#include "analyzer/report_json_internal.h"

/* The name that the options give, else the last part of the path. */
static const char *file_name(const struct orr_analysis_options *options) {
    const char *slash = strrchr(options->file, '/');
    return options->name && options->name[0] ? options->name : slash ? slash + 1 : options->file;
}

static void put_exact_counts(struct json *j, const struct orr_analysis *a) {
    const struct orr_exact *e = &a->exact;
    const struct orr_events_source *s = &a->events.source;
    const struct orr_split *split = &a->split;
    put_string(j, "file", file_name(&a->options));
    put_string(j, "format", s->format);
    put_count(j, "gpu_ops", e->gpu_ops);
    put_count(j, "kernels", e->kernels);
    put_count(j, "memcpys", e->memcpys);
    put_count(j, "memsets", e->memsets);
    put_count(j, "memcpy_bytes", e->memcpy_bytes);
    put_open(j, "top_kernels", "[");
    for (unsigned i = 0; i < e->top_count; i++) {
        put_open(j, NULL, "{");
        put_string(j, "name", e->top_kernels[i].name);
        put_count(j, "count", e->top_kernels[i].count);
        put_int(j, "sum_ns", e->top_kernels[i].sum_ns);
        put_int(j, "min_ns", e->top_kernels[i].min_ns);
        put_int(j, "max_ns", e->top_kernels[i].max_ns);
        put_close(j, "}");
    }
    put_close(j, "]");
    put_count(j, "bad_ops", s->bad_ops);
    put_count(j, "zero_len_ops", e->zero_len_ops);
    put_count(j, "streams", a->idle_streams.streams);
    put_count(j, "api_calls", s->api_calls);
    put_count(j, "linked", split->linked);
    put_count(j, "unlinked", split->unlinked);
    put_count(j, "ops_multi_api", e->ops_multi_api);
    put_count(j, "fanout_corrs", e->fanout_corrs);
    put_count(j, "max_ops_per_corr", e->max_ops_per_corr);
    put_count(j, "graph_launches", e->graph_launches);
    put_count(j, "graph_launches_no_op", e->graph_launches_no_op);
    put_count(j, "graph_ops", e->graph_ops);
}

static void put_exact_order(struct json *j, const struct orr_analysis *a) {
    const struct orr_events_source *s = &a->events.source;
    const struct orr_split *split = &a->split;
    put_count(j, "start_before_launch", split->early);
    put_int(j, "start_before_launch_max_ns", split->early_max_ns);
    put_count(j, "start_during_launch", split->during);
    put_count(j, "same_stream_overlaps", split->overlaps);
    put_int(j, "same_stream_overlap_max_ns", split->overlap_max_ns);
    put_count(j, "subns_stamps", s->subns_stamps);
    put_time_or_null(j, "time_base_ns", s->has_time_base, s->time_base_ns);
    put_count(j, "event_waits", s->event_waits);
    put_count(j, "event_waits_unresolved", s->event_waits_unresolved);
    put_count(j, "dep_violations", split->dep_violations);
    put_int(j, "api_once_ns", split->call_ns_once);
    put_int(j, "api_per_op_ns", split->call_ns_per_op);
    put_open(j, "split", "{");
    put_count(j, "ops", split->ops);
    put_int(j, "submit", split->submit_ns);
    put_int(j, "stream_wait", split->stream_wait_ns);
    put_int(j, "dep_wait", split->dep_wait_ns);
    put_int(j, "dispatch", split->dispatch_ns);
    put_int(j, "device", split->device_ns);
    put_int(j, "total", split->total_ns);
    put_close(j, "}");
    orr__json_idle_streams(j, a);
    put_open(j, "idle_by_stream_n", "{");
    for (unsigned c = 0; c < ORR_STREAM_IDLE_COUNT; c++) {
        put_count(j, orr_stream_idle_text((enum orr_stream_idle)c), a->idle_streams.counts[c]);
    }
    put_close(j, "}");
}

static void put_exact_launch(struct json *j, const struct orr_device_report *r) {
    const struct orr_launch *launch = &r->launch;
    put_open(j, "launch", "{");
    put_count(j, "calls", launch->calls);
    put_int(j, "sum_ns", launch->sum_ns);
    put_time_or_null(j, "median_ns", launch->calls > 0, launch->median_ns);
    put_time_or_null(j, "p95_ns", launch->calls > 0, launch->p95_ns);
    put_count(j, "feed_calls", launch->feed_calls);
    put_time_or_null(j, "launch_period_ns", r->whole.has_launch_period, r->whole.launch_period_ns);
    put_count(j, "feed_gaps", r->whole.feed_gaps);
    put_time_or_null(j, "gap_period_ns", r->whole.has_gap_period, r->whole.gap_period_ns);
    put_count(j, "graph_gaps", launch->graph_gaps);
    put_int(j, "graph_gap_ns", launch->graph_gap_ns);
    put_close(j, "}");
    put_answer(j, "launch_bound", r->whole.bound);
}

/* First stream of a device, where streams are sorted by it. */
static size_t first_stream(const struct orr_events *events, uint32_t device) {
    size_t low = 0, high = events->stream_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (events->streams[middle].device < device) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Processes that ran work on a device, ascending; a source that knows one process only names none.
 * Sources that know several have their streams sorted by device and process. */
static void put_processes(struct json *j, const struct orr_analysis *a, uint32_t device) {
    const struct orr_events *events = &a->events;
    uint64_t last = 0;
    put_open(j, "processes", "[");
    for (size_t s = first_stream(events, device);
         s < events->stream_count && events->streams[s].device == device; s++) {
        const struct orr_events_stream *stream = &events->streams[s];
        bool ran = events->stream_first[s + 1] > events->stream_first[s];
        if (ran && stream->process > last) {
            put_count(j, NULL, stream->process);
            last = stream->process;
        }
    }
    put_close(j, "]");
}

static void put_exact_device(struct json *j, const struct orr_analysis *a,
                             const struct orr_device_report *r) {
    const struct orr_device_times *t = &r->times;
    put_open(j, NULL, "{");
    put_count(j, "device", a->events.devices[r->device].id);
    put_processes(j, a, r->device);
    put_count(j, "ops", t->ops);
    put_int(j, "first_ns", t->first_ns);
    put_int(j, "last_ns", t->last_ns);
    put_int(j, "span_ns", t->span_ns);
    put_int(j, "busy_ns", t->busy_ns);
    put_int(j, "idle_ns", t->span_ns - t->busy_ns);
    put_int(j, "compute_ns", t->compute_ns);
    put_int(j, "comm_ns", t->comm_ns);
    put_int(j, "copy_ns", t->copy_ns);
    put_int(j, "comm_compute_overlap_ns", t->comm_compute_ns);
    orr__json_classes(j, "classes", t->classes, 0, ORR_CLASS_BEFORE_FIRST);
    int64_t sum = 0;
    for (unsigned c = 0; c < ORR_CLASS_BEFORE_FIRST; c++) {
        sum += t->classes[c];
    }
    put_int(j, "residual_ns", t->span_ns - sum);
    put_count(j, "gaps", t->gaps);
    put_count(j, "gaps_host", t->gaps_host);
    put_exact_launch(j, r);
    put_close(j, "}");
}

/* A table of the source joined with its calls: by correlation alone, which pairs work of one
 * process with calls of another, and by process and correlation. */
static void put_join_table(struct json *j, const char *name, uint64_t rows, uint64_t naive,
                           uint64_t process, uint64_t unlinked) {
    put_open(j, name, "{");
    put_count(j, "rows", rows);
    put_count(j, "naive_rows", naive);
    put_count(j, "process_rows", process);
    put_count(j, "unlinked", unlinked);
    put_close(j, "}");
}

static void put_join(struct json *j, const struct orr_analysis *a) {
    const struct orr_timeline_source *s = a->timeline ? &a->timeline->source : NULL;
    if (!s || strcmp(a->events.source.format, "nsys") != 0 || s->kernel_rows == ORR_SOURCE_NONE) {
        return;
    }
    put_open(j, "join", "{");
    put_join_table(j, "kernel", s->kernel_rows, s->kernel_naive_rows, s->kernel_process_rows,
                   s->kernel_unlinked);
    put_join_table(j, "memcpy", s->memcpy_rows, s->memcpy_naive_rows, s->memcpy_process_rows,
                   s->memcpy_unlinked);
    put_join_table(j, "memset", s->memset_rows, s->memset_naive_rows, s->memset_process_rows,
                   s->memset_unlinked);
    put_close(j, "}");
    put_count(j, "naive_false_rows",
              s->kernel_naive_rows - s->kernel_process_rows + s->memcpy_naive_rows -
                  s->memcpy_process_rows + s->memset_naive_rows - s->memset_process_rows);
}

void orr__json_exact(struct json *j, const struct orr_analysis *a) {
    line(j);
    put_open(j, "exact", "{");
    put_exact_counts(j, a);
    put_exact_order(j, a);
    put_join(j, a);
    put_open(j, "devices", "[");
    for (size_t d = 0; d < a->device_count; d++) {
        if (a->devices[d].times.ops > 0) {
            line(j);
            put_exact_device(j, a, &a->devices[d]);
        }
    }
    put_close(j, "]");
    put_close(j, "}");
}
