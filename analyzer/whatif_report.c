/* What a what-if came to, for people and as JSON. */
#include <stdio.h>
#include <string.h>

#include "analyzer/critical_path.h"
#include "analyzer/report_json_internal.h"
#include "analyzer/table.h"
#include "analyzer/whatif.h"

static int64_t length(int64_t begin_ns, int64_t end_ns) {
    return end_ns - begin_ns;
}

static int64_t baseline(const struct orr_whatif_window *w) {
    return length(w->begin_ns, w->end_ns);
}

static int64_t predicted(const struct orr_whatif_window *w) {
    return length(w->predicted_begin_ns, w->predicted_end_ns);
}

/* "12.21 %", or "-12.21 %" for what is lost. */
static const char *share(int64_t part, int64_t whole, char *buffer) {
    if (part >= 0) {
        return orr__percent_text(part, whole, buffer);
    }
    buffer[0] = '-';
    orr__percent_text(-part, whole, buffer + 1);
    return buffer;
}

static const char *time_text(int64_t ns, char *buffer) {
    if (ns >= 0) {
        return orr__time_text(ns, buffer);
    }
    buffer[0] = '-';
    orr__time_text(-ns, buffer + 1);
    return buffer;
}

enum { CELL = ORR_NUMBER_TEXT_MAX + 1 };

/* ------------------------------------------------------------------------------------------------
 * Text */

static void add_settings(struct orr_text *text, const struct orr_whatif *whatif) {
    for (size_t i = 0; i < whatif->setting_count; i++) {
        const struct orr_whatif_setting *setting = &whatif->settings[i];
        const struct orr_whatif_effect *effect = &whatif->effects[i];
        const char *what =
            setting->key == ORR_WHATIF_LAUNCH_COST || setting->key == ORR_WHATIF_GRAPH
                ? "launching calls"
            : setting->key == ORR_WHATIF_HOST ? "points of host threads"
                                              : "ops";
        orr__text_add(text, "what if %s: %llu of %llu %s; %s%s%s\n", setting->text,
                      (unsigned long long)effect->affected, (unsigned long long)effect->total, what,
                      orr_whatif_assumption(setting->key), effect->why[0] ? "; " : "", effect->why);
    }
}

static void add_row(struct orr_table *table, const char *name,
                    const struct orr_whatif_window *window) {
    char before[CELL], after[CELL], saved[CELL], percent[CELL];
    int64_t gain = baseline(window) - predicted(window);
    orr__table_row(table, "%s|%s|%s|%s|%s", name, time_text(baseline(window), before),
                   time_text(predicted(window), after), time_text(gain, saved),
                   share(gain, baseline(window), percent));
}

static void add_windows(struct orr_text *text, const struct orr_whatif *whatif) {
    struct orr_table table;
    const struct orr_events *events = &whatif->analysis->events;
    orr__table_begin(&table, whatif->memory, "device|>as it was|>predicted|>saved|>of it");
    for (size_t d = 0; d < events->device_count; d++) {
        char name[ORR_TABLE_CELL_MAX + 1], label[ORR_TABLE_CELL_MAX + 24];
        if (whatif->devices[d].begin_ns < whatif->devices[d].end_ns) {
            snprintf(label, sizeof label, "%u %s", (unsigned)events->devices[d].id,
                     orr__table_clean(events->devices[d].name, name));
            add_row(&table, label, &whatif->devices[d]);
        }
    }
    if (events->device_count != 1) {
        add_row(&table, "all", &whatif->all);
    }
    orr__table_end(&table, text);
}

static int64_t sum(const int64_t *kinds) {
    int64_t all = 0;
    for (int k = 0; k < ORR_PATH_COUNT; k++) {
        all += kinds[k];
    }
    return all;
}

static void add_paths(struct orr_text *text, const struct orr_whatif *whatif) {
    struct orr_table table;
    orr__table_begin(&table, whatif->memory, "on the path|>as it was|>|>predicted|>");
    for (int k = 0; k < ORR_PATH_COUNT; k++) {
        char kind[ORR_HYPHENS_MAX], cells[4][CELL];
        int64_t before = whatif->path_before[k], after = whatif->path_after[k];
        if (before == 0 && after == 0) {
            continue;
        }
        orr__table_row(&table, "%s|%s|%s|%s|%s",
                       orr__text_hyphens(orr_path_kind_text((enum orr_path_kind)k), kind),
                       time_text(before, cells[0]),
                       share(before, sum(whatif->path_before), cells[1]),
                       time_text(after, cells[2]), share(after, sum(whatif->path_after), cells[3]));
    }
    orr__table_end(&table, text);
    char kind[ORR_HYPHENS_MAX];
    orr__text_add(text, "what limits next: %s\n",
                  orr__text_hyphens(orr_path_kind_text(orr_whatif_limit(whatif)), kind));
}

static void add_checks(struct orr_text *text, const struct orr_whatif *whatif) {
    orr__text_add(text,
                  "unchanged, the replay differs from the trace by %lld ns; %llu of %llu ops "
                  "stay where they were (no usable call)\n",
                  (long long)whatif->replay_error_ns, (unsigned long long)whatif->pinned,
                  (unsigned long long)whatif->ops);
    if (whatif->answers && whatif->overlap_changed > 0) {
        orr__text_add(text,
                      "%llu ops come to run beside others of their device, or no longer do: their "
                      "own times are kept\n",
                      (unsigned long long)whatif->overlap_changed);
    }
}

static void add_rerun(struct orr_text *text, const struct orr_whatif *whatif,
                      const struct orr_whatif_rerun *rerun) {
    char time[CELL], percent[CELL];
    if (!rerun) {
        return;
    }
    if (!rerun->ran) {
        orr__text_add(text, "not run again: %s\n", rerun->how);
        return;
    }
    int64_t real = baseline(&rerun->all), error = predicted(&whatif->all) - real;
    orr__text_add(text, "run again with %s: %s; ", rerun->how, time_text(real, time));
    if (!whatif->answers) {
        orr__text_add(text, "nothing was predicted\n");
        return;
    }
    orr__text_add(text, "error of the prediction %lld ns = %s", (long long)error,
                  share(error, real, percent));
    if (rerun->comparable) {
        orr__text_add(text, "; of any start or end at most %lld ns\n", (long long)rerun->most_ns);
    } else {
        orr__text_add(text, "; it has other ops, which are not compared one by one\n");
    }
}

enum orr_status orr_whatif_text(const struct orr_whatif *whatif,
                                const struct orr_whatif_rerun *rerun, char **out_text,
                                size_t *out_length) {
    struct orr_text text = {.memory = whatif->memory};
    add_settings(&text, whatif);
    if (whatif->answers) {
        add_windows(&text, whatif);
        add_paths(&text, whatif);
    } else {
        orr__text_add(&text, "no answer: %s\n", whatif->why);
    }
    add_checks(&text, whatif);
    add_rerun(&text, whatif, rerun);
    if (text.failed) {
        orr__text_free(&text);
        return ORR_NO_MEMORY;
    }
    *out_text = text.data;
    *out_length = text.length;
    return ORR_OK;
}

/* ------------------------------------------------------------------------------------------------
 * JSON */

/* 100 part / whole with four decimals, signed. */
static void put_percent(struct json *j, const char *name, int64_t part, int64_t whole) {
    char buffer[ORR_NUMBER_TEXT_MAX];
    if (whole <= 0) {
        put_null(j, name);
        return;
    }
    orr_u128 size = part < 0 ? (orr_u128)0 - (orr_u128)part : (orr_u128)part;
    key(j, name);
    orr__text_add(&j->text, "%s%s", part < 0 ? "-" : "",
                  orr__ratio_text(size * 100, (orr_u128)whole, 4, buffer));
}

static void put_window(struct json *j, const struct orr_whatif *whatif,
                       const struct orr_whatif_window *window) {
    bool known = whatif->answers;
    int64_t saved = baseline(window) - predicted(window);
    put_int(j, "baseline_ns", baseline(window));
    put_time_or_null(j, "predicted_ns", known, predicted(window));
    put_time_or_null(j, "saved_ns", known, saved);
    if (known) {
        put_percent(j, "saved_percent", saved, baseline(window));
    } else {
        put_null(j, "saved_percent");
    }
}

static void put_settings(struct json *j, const struct orr_whatif *whatif) {
    put_open(j, "settings", "[");
    for (size_t i = 0; i < whatif->setting_count; i++) {
        const struct orr_whatif_effect *effect = &whatif->effects[i];
        put_open(j, NULL, "{");
        put_string(j, "set", whatif->settings[i].text);
        put_count(j, "affected", effect->affected);
        put_count(j, "of", effect->total);
        put_string(j, "assumes", orr_whatif_assumption(whatif->settings[i].key));
        put_string(j, "note", effect->why);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_path(struct json *j, const char *name, const int64_t *kinds) {
    put_open(j, name, "{");
    for (int k = 0; k < ORR_PATH_COUNT; k++) {
        put_int(j, orr_path_kind_text((enum orr_path_kind)k), kinds[k]);
    }
    put_close(j, "}");
}

static void put_devices(struct json *j, const struct orr_whatif *whatif) {
    const struct orr_events *events = &whatif->analysis->events;
    put_open(j, "devices", "[");
    for (size_t d = 0; d < events->device_count; d++) {
        line(j);
        put_open(j, NULL, "{");
        put_count(j, "id", events->devices[d].id);
        put_window(j, whatif, &whatif->devices[d]);
        put_close(j, "}");
    }
    put_close(j, "]");
}

static void put_rerun(struct json *j, const struct orr_whatif *whatif,
                      const struct orr_whatif_rerun *rerun) {
    if (!rerun) {
        put_null(j, "rerun");
        return;
    }
    int64_t real = baseline(&rerun->all), error = predicted(&whatif->all) - real;
    bool known = rerun->ran && whatif->answers;
    put_open(j, "rerun", "{");
    put_bool(j, "ran", rerun->ran);
    put_string(j, "how", rerun->how);
    put_time_or_null(j, "ns", rerun->ran, real);
    put_time_or_null(j, "error_ns", known, error);
    if (known) {
        put_percent(j, "error_percent", error, real);
    } else {
        put_null(j, "error_percent");
    }
    put_time_or_null(j, "largest_op_error_ns", known && rerun->comparable, rerun->most_ns);
    put_close(j, "}");
}

enum orr_status orr_whatif_json(const struct orr_whatif *whatif,
                                const struct orr_whatif_rerun *rerun, char **out_text,
                                size_t *out_length) {
    struct json j = {.text = {.memory = whatif->memory}, .memory = whatif->memory};
    put_open(&j, NULL, "{");
    put_settings(&j, whatif);
    put_bool(&j, "answers", whatif->answers);
    put_string(&j, "why", whatif->why);
    put_window(&j, whatif, &whatif->all);
    put_devices(&j, whatif);
    put_open(&j, "path", "{");
    put_path(&j, "baseline", whatif->path_before);
    if (whatif->answers) {
        put_path(&j, "predicted", whatif->path_after);
        put_string(&j, "limits_next", orr_path_kind_text(orr_whatif_limit(whatif)));
    } else {
        put_null(&j, "predicted");
        put_null(&j, "limits_next");
    }
    put_close(&j, "}");
    put_int(&j, "replay_error_ns", whatif->replay_error_ns);
    put_count(&j, "ops", whatif->ops);
    put_count(&j, "pinned", whatif->pinned);
    put_count(&j, "overlap_changed", whatif->overlap_changed);
    put_count(&j, "exact_work", whatif->refined);
    put_rerun(&j, whatif, rerun);
    put_close(&j, "}");
    orr__text_append(&j.text, "\n", 1);
    if (j.text.failed) {
        orr__text_free(&j.text);
        return ORR_NO_MEMORY;
    }
    *out_text = j.text.data;
    *out_length = j.text.length;
    return ORR_OK;
}
