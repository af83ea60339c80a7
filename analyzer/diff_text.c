/* The comparison as text: verdict first. See diff.h. */
#include <stdio.h>
#include <string.h>

#include "analyzer/diff.h"
#include "analyzer/table.h"
#include "analyzer/text.h"

enum { CLEAN_MAX = 512 };

static const char *article(enum orr_diff_unit unit) {
    return unit == ORR_DIFF_UNIT_ITERATION ? "an" : "a";
}

static const char *signed_time(int64_t ns, char *buffer) {
    buffer[0] = '+';
    orr__time_text(ns, ns > 0 ? buffer + 1 : buffer);
    return buffer;
}

struct cells {
    char before[ORR_NUMBER_TEXT_MAX], after[ORR_NUMBER_TEXT_MAX], delta[ORR_NUMBER_TEXT_MAX + 1],
        percent[ORR_NUMBER_TEXT_MAX];
};

static void fill_cells(struct cells *c, int64_t before, int64_t after) {
    orr__time_text(before, c->before);
    orr__time_text(after, c->after);
    signed_time(after - before, c->delta);
    orr__percent_text(after - before, before, c->percent);
}

/* Without what C++ adds to a kernel's name, so that what tells two of them apart comes early. */
static void shorten(const char *name, char *out, size_t size) {
    static const char *const noise[] = {
        "void ",           "at::native::",   "<unnamed>::", "(anonymous namespace)::",
        "(unsigned long)", "(unsigned int)", "(int)",       "(bool)",
        "std::",           "cutlass::",      "c10::"};
    size_t length = 0;
    while (*name && length + 1 < size) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof noise / sizeof *noise && skip == 0; i++) {
            size_t noise_length = strlen(noise[i]);
            skip = strncmp(name, noise[i], noise_length) == 0 ? noise_length : 0;
        }
        if (skip > 0) {
            name += skip;
        } else {
            out[length++] = *name++;
        }
    }
    out[length] = '\0';
}

static const char *clean_name(const char *name, char *buffer) {
    char shorter[CLEAN_MAX];
    shorten(name, shorter, sizeof shorter);
    return orr__table_clean(shorter[0] ? shorter : "(no name)", buffer);
}

/* ------------------------------------------------------------------------------------------------
 * Head */

static void add_method(const struct orr_diff *diff, struct orr_text *text) {
    char name[ORR_TABLE_CELL_MAX + 1];
    const char *unit = orr_diff_unit_text(diff->by);
    orr__text_add(text, "\nBefore: %s\nAfter:  %s\n", diff->options.names[0],
                  diff->options.names[1]);
    switch (diff->by) {
    case ORR_DIFF_UNIT_STEP:
        orr__text_add(text, "Compared by steps, which %s mark.\n", diff->by_name[1]);
        break;
    case ORR_DIFF_UNIT_ITERATION:
        orr__text_add(text,
                      "Compared by iterations: nothing marks steps, and %s begins the longest "
                      "stretch of work\nthat repeats itself in both traces.\n",
                      clean_name(diff->by_name[1], name));
        break;
    case ORR_DIFF_UNIT_RUN:
        orr__text_add(text, "Compared as whole runs: both are simulated.\n");
        break;
    default:
        orr__text_add(text, "Compared by shares of a second: nothing marks steps, and nothing "
                            "repeats itself in both traces.\n");
        break;
    }
    if (diff->by == ORR_DIFF_UNIT_RUN) {
        orr__text_add(text, "%llu devices before, %llu after; times are per device.\n",
                      (unsigned long long)diff->units[0], (unsigned long long)diff->units[1]);
    } else if (diff->by != ORR_DIFF_UNIT_SECOND) {
        orr__text_add(text, "%llu %ss before, %llu after, over all devices; times are per %s",
                      (unsigned long long)diff->units[0], unit, (unsigned long long)diff->units[1],
                      unit);
        orr__text_add(text, " and device.\n");
    }
    if (diff->exact) {
        orr__text_add(text, "Changed: differs by at least %u %% of %s %s. Nothing is random.\n",
                      diff->options.share_percent, article(diff->by), unit);
    } else {
        orr__text_add(
            text,
            "Changed: differs by at least %u %% of %s %s, and p < %g by a rank test of at "
            "least %u values a side.\nInconclusive is not unchanged.\n",
            diff->options.share_percent, article(diff->by), unit, diff->options.p_max,
            diff->options.values_min);
    }
    if (diff->modelled[0] != diff->modelled[1]) {
        orr__text_add(text, "One of them is simulated: it is compared with a real one.\n");
    }
}

/* What was lost of a trace is lost for the comparison. */
static void add_damage(const struct orr_diff *diff, struct orr_text *text) {
    for (unsigned s = 0; s < 2; s++) {
        const struct orr_timeline *t = diff->timelines[s];
        for (size_t i = 0; i < t->finding_count; i++) {
            const struct orr_timeline_finding *f = &t->findings[i];
            if (strncmp(f->kind, "import_", 7) == 0 && strcmp(f->severity, "note") != 0) {
                orr__text_add(text, "%s, %s: %s\n", s ? "After" : "Before", f->severity,
                              f->message);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Where a unit's time went */

static void add_causes(const struct orr_diff *diff, struct orr_text *text) {
    struct orr_table table;
    struct cells c;
    orr__text_add(text, "\nWhere the time of %s %s went, mean over devices\n", article(diff->by),
                  orr_diff_unit_text(diff->by));
    orr__table_begin(&table, diff->memory, "|>before|>after|>difference|>");
    for (unsigned k = 0; k < ORR_DIFF_CAUSE_COUNT; k++) {
        if (diff->causes[0][k] != 0 || diff->causes[1][k] != 0) {
            fill_cells(&c, diff->causes[0][k], diff->causes[1][k]);
            orr__table_row(&table, "%s|%s|%s|%s|%s", orr_diff_cause_text((enum orr_diff_cause)k),
                           c.before, c.after, c.delta, c.percent);
        }
    }
    fill_cells(&c, diff->unit.unit_ns[0], diff->unit.unit_ns[1]);
    orr__table_row(&table, "all|%s|%s|%s|%s", c.before, c.after, c.delta, c.percent);
    orr__table_end(&table, text);
}

static void add_figure(struct orr_table *table, const struct orr_diff_device *device,
                       const char *what, const struct orr_diff_figure *figure) {
    struct cells c;
    char name[ORR_HYPHENS_MAX], ids[48];
    if (figure->unit_ns[0] == 0 && figure->unit_ns[1] == 0) {
        return;
    }
    if (device->ids[0] == device->ids[1]) {
        snprintf(ids, sizeof ids, "%u", device->ids[0]);
    } else {
        snprintf(ids, sizeof ids, "%u, %u", device->ids[0], device->ids[1]);
    }
    fill_cells(&c, figure->unit_ns[0], figure->unit_ns[1]);
    orr__table_row(table, "%s|%s|%s|%s|%s|%s|%s", ids, orr__text_hyphens(what, name), c.before,
                   c.after, c.delta, c.percent, orr_diff_status_text(figure->status));
}

enum { DEVICES_SHOWN = 4 };

static void add_devices(const struct orr_diff *diff, struct orr_text *text) {
    struct orr_table table;
    size_t shown = diff->device_count < DEVICES_SHOWN ? diff->device_count : DEVICES_SHOWN;
    if (shown == 0) {
        return;
    }
    orr__text_add(text, "\nDevices, by class of time\n");
    orr__table_begin(&table, diff->memory, "device||>before|>after|>difference|>|");
    for (size_t d = 0; d < shown; d++) {
        const struct orr_diff_device *device = &diff->devices[d];
        add_figure(&table, device, orr_diff_unit_text(diff->by), &device->unit);
        for (unsigned c = 0; c < ORR_CLASS_COUNT; c++) {
            add_figure(&table, device, orr_class_text((enum orr_class)c), &device->classes[c]);
        }
    }
    orr__table_end(&table, text);
    if (diff->device_count > shown) {
        orr__text_add(text, "(%zu more devices: --json)\n", diff->device_count - shown);
    }
    if (diff->device_only[0] + diff->device_only[1] > 0) {
        orr__text_add(text, "Devices without a counterpart: %zu before, %zu after.\n",
                      diff->device_only[0], diff->device_only[1]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Rows */

static void count_text(const struct orr_diff *diff, const struct orr_diff_side *side, unsigned s,
                       char *buffer) {
    if (diff->by == ORR_DIFF_UNIT_SECOND) {
        orr__u128_text(side->count, buffer);
    } else {
        orr__ratio_text(side->count, diff->units[s], 2, buffer);
    }
}

static void add_row(const struct orr_diff *diff, struct orr_table *table,
                    const struct orr_diff_row *row) {
    char name[ORR_TABLE_CELL_MAX + 1], counts[2][ORR_NUMBER_TEXT_MAX],
        medians[2][ORR_NUMBER_TEXT_MAX], p[24] = "-";
    struct cells c;
    fill_cells(&c, row->sides[0].unit_ns, row->sides[1].unit_ns);
    for (unsigned s = 0; s < 2; s++) {
        count_text(diff, &row->sides[s], s, counts[s]);
        orr__time_text(row->sides[s].median_ns, medians[s]);
        if (row->sides[s].count == 0) {
            memcpy(medians[s], "-", 2);
        }
    }
    if (row->tested && !diff->exact && row->sides[0].count && row->sides[1].count) {
        snprintf(p, sizeof p, row->p < 1e-6 ? "< 1e-6" : "%.1g", row->p);
    }
    orr__table_row(table, "%s|%s|%s|%s|%s|%s|%s|%s|%s|%s", clean_name(row->name, name), counts[0],
                   counts[1], medians[0], medians[1], c.before, c.after, c.delta, p,
                   row->reshaped ? "changed shape" : orr_diff_status_text(row->status));
}

/* What is too small to matter is shown only if it is new or gone. */
static bool is_shown(const struct orr_diff *diff, const struct orr_diff_row *row) {
    int64_t size = row->delta_ns < 0 ? -row->delta_ns : row->delta_ns;
    int64_t unit = diff->unit.unit_ns[0] / 2 + diff->unit.unit_ns[1] / 2;
    if (row->status == ORR_DIFF_UNCHANGED || row->delta_ns == 0) {
        return false;
    }
    return row->status != ORR_DIFF_INCONCLUSIVE ||
           size >= unit / 100 * (int64_t)diff->options.share_percent;
}

static void add_rows(const struct orr_diff *diff, enum orr_diff_sort sort, const char *title,
                     struct orr_text *text) {
    const size_t *counts = diff->counts[sort];
    size_t shown = 0, all = 0;
    struct orr_table table;
    for (unsigned k = 0; k < ORR_DIFF_STATUS_COUNT; k++) {
        all += counts[k];
    }
    if (all == 0) {
        return;
    }
    orr__text_add(text,
                  "\n%s: %zu changed, %zu appeared, %zu vanished, %zu inconclusive, %zu "
                  "unchanged\n",
                  title, counts[ORR_DIFF_CHANGED], counts[ORR_DIFF_APPEARED],
                  counts[ORR_DIFF_VANISHED], counts[ORR_DIFF_INCONCLUSIVE],
                  counts[ORR_DIFF_UNCHANGED]);
    orr__table_begin(&table, diff->memory,
                     "name|>n before|>n after|>median before|>median after|>sum before|>sum after|"
                     ">difference|>p|");
    for (size_t i = 0; i < diff->row_count && shown < diff->options.rows_max; i++) {
        if (diff->rows[i].sort == sort && is_shown(diff, &diff->rows[i])) {
            add_row(diff, &table, &diff->rows[i]);
            shown++;
        }
    }
    if (shown > 0) {
        orr__table_end(&table, text);
    } else {
        struct orr_text nothing = {.memory = diff->memory};
        orr__table_end(&table, &nothing);
        orr__text_free(&nothing);
    }
}

enum orr_status orr_diff_text(const struct orr_diff *diff, char **out_text, size_t *out_length) {
    struct orr_text text = {.memory = diff->memory};
    orr__text_add(&text, "%s\n", diff->verdict);
    if (diff->options.max_regression >= 0) {
        if (diff->regression && diff->grown[0]) {
            char name[ORR_TABLE_CELL_MAX + 1];
            orr__text_add(&text, "Regression: %s takes %.2f %% longer, more than %g %%.\n",
                          clean_name(diff->grown, name), diff->grown_percent,
                          diff->options.max_regression);
        } else if (diff->regression) {
            orr__text_add(&text, "Regression: %s %s takes %.2f %% longer, more than %g %%.\n",
                          article(diff->by), orr_diff_unit_text(diff->by), diff->grown_percent,
                          diff->options.max_regression);
        } else {
            orr__text_add(&text, "No regression above %g %% that is certain.\n",
                          diff->options.max_regression);
        }
    }
    add_method(diff, &text);
    add_damage(diff, &text);
    if (diff->units[0] > 0 && diff->units[1] > 0) {
        add_causes(diff, &text);
        add_devices(diff, &text);
    }
    add_rows(diff, ORR_DIFF_SORT_WORK, "Work of devices", &text);
    add_rows(diff, ORR_DIFF_SORT_CALL, "Calls of hosts", &text);
    add_rows(diff, ORR_DIFF_SORT_RANGE, "Ranges and operators of hosts", &text);
    *out_text = text.data;
    *out_length = text.length;
    if (text.failed) {
        orr__text_free(&text);
        *out_text = NULL;
        return ORR_NO_MEMORY;
    }
    return ORR_OK;
}
