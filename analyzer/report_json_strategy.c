/* The parts of the JSON report about strategies: memory, communication, pipelines. */
#include "analyzer/report_explain.h"
#include "analyzer/report_json_internal.h"

/* What the allocator had taken from the device: unknown without its counter. */
static void put_reserved(struct json *j, const struct orr_memory_peak *peak) {
    if (peak->knows_reserved) {
        put_count(j, "reserved_bytes", peak->reserved_bytes);
        put_count(j, "reserved_peak_bytes", peak->reserved_peak_bytes);
        put_count(j, "fragmentation_bytes", orr_memory_fragmentation(peak));
    } else {
        put_null(j, "reserved_bytes");
        put_null(j, "reserved_peak_bytes");
        put_null(j, "fragmentation_bytes");
    }
}

/* Of each role the bytes at the device's peak, and its own largest. */
static void put_roles(struct json *j, const struct orr_memory_peak *peak) {
    put_open(j, "roles", "{");
    for (int role = 0; role < ORR_ROLE_COUNT; role++) {
        put_open(j, orr_role_text((enum orr_role)role), "{");
        put_count(j, "bytes", peak->role_bytes[role]);
        put_count(j, "peak_bytes", peak->role_peak_bytes[role]);
        put_close(j, "}");
    }
    put_close(j, "}");
}

/* The lines that had most at the peak; `line_count` says how many there are in all. */
static void put_lines(struct json *j, const struct orr_memory_peak *peak) {
    put_count(j, "line_count", peak->line_total);
    put_open(j, "lines", "[");
    for (unsigned i = 0; i < peak->line_count; i++) {
        put_open(j, NULL, "{");
        put_string(j, "site", peak->lines[i].site);
        put_string(j, "role", orr_role_text(peak->lines[i].role));
        put_count(j, "count", peak->lines[i].count);
        put_count(j, "bytes", peak->lines[i].bytes);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_bytes_or_null(struct json *j, const char *name, bool known, uint64_t bytes) {
    if (known) {
        put_count(j, name, bytes);
    } else {
        put_null(j, name);
    }
}

void orr__json_memory(struct json *j, const struct orr_analysis *a) {
    bool recorded = orr__records_allocations(a);
    put_open(j, "memory", "[");
    for (size_t d = 0; d < a->peaks.count; d++) {
        const struct orr_memory_peak *peak = &a->peaks.items[d];
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "device", peak->device);
        put_bytes_or_null(j, "peak_bytes", recorded || peak->peak_bytes > 0, peak->peak_bytes);
        put_count(j, "capacity_bytes", peak->capacity_bytes);
        put_bytes_or_null(j, "requested_peak_bytes", recorded, peak->buffer_peak_bytes);
        put_bytes_or_null(j, "allocations", recorded, peak->allocations);
        put_bytes_or_null(j, "live_at_end_bytes", recorded, peak->live_at_end);
        put_reserved(j, peak);
        if (recorded) {
            put_roles(j, peak);
        } else {
            put_null(j, "roles");
        }
        put_lines(j, peak);
        put_open(j, "top", "[");
        for (unsigned i = 0; i < peak->top_count; i++) {
            put_open(j, NULL, "{");
            put_string(j, "label", peak->top[i].label);
            put_count(j, "count", peak->top[i].count);
            put_count(j, "bytes", peak->top[i].bytes);
            put_close(j, "}");
        }
        put_close(j, "]");
        put_close(j, "}");
    }
    put_close(j, "]");
}

/* ---------------------------------------------------------------------------------------------- */

static void put_sums(struct json *j, const struct orr_communication_sums *sums) {
    put_count(j, "ops", sums->ops);
    put_int(j, "time_ns", sums->time_ns);
    put_int(j, "exposed_ns", sums->exposed_ns);
    put_int(j, "overlapped_ns", sums->time_ns - sums->exposed_ns);
    put_time_or_null(j, "waiting_ns", sums->partial == 0, sums->waiting_ns);
}

void orr__json_communication(struct json *j, const struct orr_analysis *a) {
    put_open(j, "communication", "[");
    for (size_t i = 0; i < a->communication.row_count; i++) {
        const struct orr_communication_row *row = &a->communication.rows[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "axis", row->axis);
        put_string(j, "kind", row->kind);
        put_count(j, "count", row->count);
        if (row->count > 0) {
            put_wide(j, "bytes", row->bytes);
        } else {
            put_null(j, "bytes");
        }
        put_sums(j, &row->sums);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_device_communication(struct json *j, const struct orr_analysis *a,
                                     uint32_t device) {
    const struct orr_communication *c = &a->communication;
    put_open(j, "communication", "[");
    for (size_t i = c->first[device]; i < c->first[device + 1]; i++) {
        const struct orr_communication_row *row = &c->rows[c->cells[i].row];
        put_open(j, NULL, "{");
        put_string(j, "axis", row->axis);
        put_string(j, "kind", row->kind);
        if (row->count > 0) {
            put_wide(j, "bytes", c->cells[i].bytes);
        } else {
            put_null(j, "bytes");
        }
        put_sums(j, &c->cells[i].sums);
        put_close(j, "}");
    }
    put_close(j, "]");
}

/* ---------------------------------------------------------------------------------------------- */

static void put_bubble(struct json *j, const struct orr_analysis *a, uint32_t device) {
    const struct orr_stage *stage = &a->pipelines.stages[device];
    if (stage->pipeline == ORR_EVENTS_NONE) {
        put_null(j, "bubble");
        return;
    }
    const struct orr_pipeline *pipeline = &a->pipelines.items[stage->pipeline];
    put_open(j, "bubble", "{");
    put_count(j, "pipeline", stage->pipeline);
    put_int(j, "bubble_ns", orr_stage_bubble(stage));
    put_ratio(j, "share", (orr_u128)orr_stage_bubble(stage),
              (orr_u128)(pipeline->end_ns - pipeline->begin_ns), 9);
    put_int(j, "warm_up_ns", stage->warm_up_ns);
    put_int(j, "steady_ns", stage->steady_ns);
    put_int(j, "drain_ns", stage->drain_ns);
    put_close(j, "}");
}

void orr__json_device_strategy(struct json *j, const struct orr_analysis *a, uint32_t device) {
    put_device_communication(j, a, device);
    put_bubble(j, a, device);
}

void orr__json_pipelines(struct json *j, const struct orr_analysis *a) {
    put_open(j, "pipelines", "[");
    for (size_t i = 0; i < a->pipelines.count; i++) {
        const struct orr_pipeline *pipeline = &a->pipelines.items[i];
        int64_t span = pipeline->end_ns - pipeline->begin_ns;
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "devices", pipeline->devices);
        put_int(j, "begin_ns", pipeline->begin_ns);
        put_int(j, "end_ns", pipeline->end_ns);
        put_int(j, "bubble_ns", pipeline->bubble_ns);
        put_ratio(j, "share", (orr_u128)pipeline->bubble_ns, (orr_u128)span * pipeline->devices, 9);
        put_close(j, "}");
    }
    put_close(j, "]");
}
