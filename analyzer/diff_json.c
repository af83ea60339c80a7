/* The comparison as one JSON document: everything, in whole ns. See diff.h. */
#include <stdio.h>
#include <string.h>

#include "analyzer/diff.h"
#include "analyzer/report_json_internal.h"

static void put_double(struct json *j, const char *name, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    key(j, name);
    orr__text_add(&j->text, "%s", text);
}

static void put_figure(struct json *j, const char *name, const struct orr_diff_figure *figure) {
    put_open(j, name, "{");
    put_int(j, "before_ns", figure->unit_ns[0]);
    put_int(j, "after_ns", figure->unit_ns[1]);
    put_int(j, "delta_ns", figure->delta_ns);
    put_double(j, "p", figure->p);
    put_string(j, "status", orr_diff_status_text(figure->status));
    put_close(j, "}");
}

static void put_options(struct json *j, const struct orr_diff *diff) {
    put_open(j, "options", "{");
    put_count(j, "share_percent", diff->options.share_percent);
    put_double(j, "p_max", diff->options.p_max);
    put_count(j, "values_min", diff->options.values_min);
    if (diff->options.max_regression >= 0) {
        put_double(j, "max_regression_percent", diff->options.max_regression);
    } else {
        put_null(j, "max_regression_percent");
    }
    put_close(j, "}");
}

static void put_causes(struct json *j, const struct orr_diff *diff) {
    put_open(j, "causes", "[");
    for (unsigned c = 0; c < ORR_DIFF_CAUSE_COUNT; c++) {
        put_open(j, NULL, "{");
        put_string(j, "cause", orr_diff_cause_text((enum orr_diff_cause)c));
        put_int(j, "before_ns", diff->causes[0][c]);
        put_int(j, "after_ns", diff->causes[1][c]);
        put_int(j, "delta_ns", diff->causes[1][c] - diff->causes[0][c]);
        put_close(j, "}");
    }
    put_close(j, "]");
    if (diff->has_main) {
        put_string(j, "main_cause", orr_diff_cause_text(diff->main_cause));
    } else {
        put_null(j, "main_cause");
    }
}

static void put_devices(struct json *j, const struct orr_diff *diff) {
    put_open(j, "devices", "[");
    for (size_t d = 0; d < diff->device_count; d++) {
        const struct orr_diff_device *device = &diff->devices[d];
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "before", device->ids[0]);
        put_count(j, "after", device->ids[1]);
        put_count(j, "units_before", device->units[0]);
        put_count(j, "units_after", device->units[1]);
        put_figure(j, "unit", &device->unit);
        put_open(j, "classes", "{");
        for (unsigned c = 0; c < ORR_CLASS_BEFORE_FIRST; c++) {
            put_figure(j, orr_class_text((enum orr_class)c), &device->classes[c]);
        }
        put_close(j, "}");
        put_close(j, "}");
    }
    put_close(j, "]");
    put_count(j, "devices_only_before", diff->device_only[0]);
    put_count(j, "devices_only_after", diff->device_only[1]);
}

static void put_side(struct json *j, const char *name, const struct orr_diff_side *side) {
    put_open(j, name, "{");
    put_count(j, "count", side->count);
    put_int(j, "sum_ns", side->sum_ns);
    put_int(j, "per_unit_ns", side->unit_ns);
    put_time_or_null(j, "lower_ns", side->count > 0, side->lower_ns);
    put_time_or_null(j, "median_ns", side->count > 0, side->median_ns);
    put_time_or_null(j, "upper_ns", side->count > 0, side->upper_ns);
    put_close(j, "}");
}

static const char *role_text(enum orr_activity role) {
    return role == ORR_ACTIVITY_COMM   ? "communicate"
           : role == ORR_ACTIVITY_COPY ? "copy"
                                       : "compute";
}

static void put_rows(struct json *j, const struct orr_diff *diff) {
    put_open(j, "rows", "[");
    for (size_t i = 0; i < diff->row_count; i++) {
        const struct orr_diff_row *row = &diff->rows[i];
        line(j);
        put_open(j, NULL, "{");
        put_string(j, "sort", orr_diff_sort_text(row->sort));
        put_string(j, "name", row->name);
        put_string(j, "shape", row->shape);
        if (row->sort == ORR_DIFF_SORT_WORK) {
            put_string(j, "stream_role", role_text(row->role));
        }
        put_bool(j, "shape_changed", row->reshaped);
        put_string(j, "status", orr_diff_status_text(row->status));
        put_int(j, "delta_ns", row->delta_ns);
        if (row->tested) {
            put_double(j, "p", row->p);
        } else {
            put_null(j, "p");
        }
        put_side(j, "before", &row->sides[0]);
        put_side(j, "after", &row->sides[1]);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_regression(struct json *j, const struct orr_diff *diff) {
    put_bool(j, "regression", diff->regression);
    if (diff->regression) {
        put_string(j, "grown", diff->grown[0] ? diff->grown : orr_diff_unit_text(diff->by));
        put_double(j, "grown_percent", diff->grown_percent);
    }
}

static void put_damage(struct json *j, const struct orr_diff *diff) {
    put_open(j, "damage", "[");
    for (unsigned s = 0; s < 2; s++) {
        const struct orr_timeline *t = diff->timelines[s];
        for (size_t i = 0; i < t->finding_count; i++) {
            const struct orr_timeline_finding *f = &t->findings[i];
            if (strncmp(f->kind, "import_", 7) == 0 && strcmp(f->severity, "note") != 0) {
                put_open(j, NULL, "{");
                put_string(j, "of", s ? "after" : "before");
                put_string(j, "kind", f->kind);
                put_string(j, "severity", f->severity);
                put_string(j, "message", f->message);
                put_close(j, "}");
            }
        }
    }
    put_close(j, "]");
}

enum orr_status orr_diff_json(const struct orr_diff *diff, char **out_text, size_t *out_length) {
    struct json j = {.text = {.memory = diff->memory}, .memory = diff->memory};
    put_open(&j, NULL, "{");
    put_string(&j, "before", diff->options.names[0]);
    put_string(&j, "after", diff->options.names[1]);
    put_string(&j, "outcome", orr_diff_outcome_text(diff->outcome));
    put_string(&j, "verdict", diff->verdict);
    put_string(&j, "by", orr_diff_unit_text(diff->by));
    put_string(&j, "by_before", diff->by_name[0]);
    put_string(&j, "by_after", diff->by_name[1]);
    put_bool(&j, "exact", diff->exact);
    put_count(&j, "units_before", diff->units[0]);
    put_count(&j, "units_after", diff->units[1]);
    put_options(&j, diff);
    put_damage(&j, diff);
    put_regression(&j, diff);
    put_figure(&j, "unit", &diff->unit);
    put_causes(&j, diff);
    put_devices(&j, diff);
    put_rows(&j, diff);
    put_close(&j, "}");
    orr__text_append(&j.text, "\n", 1);
    *out_text = j.text.data;
    *out_length = j.text.length;
    if (j.text.failed) {
        orr__text_free(&j.text);
        *out_text = NULL;
        return ORR_NO_MEMORY;
    }
    return ORR_OK;
}
