#include "analyzer/report_devices.h"

#include <stdio.h>

#include "analyzer/device_groups.h"
#include "analyzer/table.h"
#include "analyzer/times.h"

/* More devices than DEVICE_ROWS are grouped. */
enum { DEVICE_ROWS = 16, GROUP_ROWS = 24, PARTS = 7 };

/* Compute, exposed communication and copies, host, wait, unknown, outside. */
static void parts_of(const struct orr_device_report *report, int64_t parts[PARTS]) {
    const int64_t *c = report->classes;
    const int64_t found[PARTS] = {c[ORR_CLASS_COMPUTE],
                                  c[ORR_CLASS_EXPOSED_COMM],
                                  c[ORR_CLASS_EXPOSED_COPY],
                                  c[ORR_CLASS_HOST_LAUNCH] + c[ORR_CLASS_HOST_OTHER] +
                                      c[ORR_CLASS_HOST_SYNC] + c[ORR_CLASS_PROFILER_OVERHEAD],
                                  c[ORR_CLASS_DEP_WAIT] + c[ORR_CLASS_DISPATCH],
                                  c[ORR_CLASS_UNKNOWN_WAIT] + c[ORR_CLASS_UNKNOWN_UNLINKED] +
                                      c[ORR_CLASS_UNKNOWN_CLOCK],
                                  c[ORR_CLASS_BEFORE_FIRST] + c[ORR_CLASS_AFTER_LAST]};
    for (unsigned p = 0; p < PARTS; p++) {
        parts[p] = found[p];
    }
}

static int64_t window_of(const struct orr_device_report *report) {
    return report->end_ns - report->begin_ns;
}

static void add_row(struct orr_table *table, const char *devices, const char *name, uint64_t ops,
                    const int64_t parts[PARTS], int64_t window, enum orr_verdict verdict) {
    char clean[ORR_TABLE_CELL_MAX + 1], text[ORR_HYPHENS_MAX], shares[PARTS][ORR_NUMBER_TEXT_MAX];
    for (unsigned p = 0; p < PARTS; p++) {
        orr__percent_text(parts[p], window, shares[p]);
    }
    orr__table_row(table, "%s|%s|%llu|%s|%s|%s|%s|%s|%s|%s|%s", devices,
                   orr__table_clean(name, clean), (unsigned long long)ops, shares[0], shares[1],
                   shares[2], shares[3], shares[4], shares[5], shares[6],
                   orr__text_hyphens(orr_verdict_text(verdict), text));
}

static void add_devices(const struct orr_analysis *a, struct orr_table *table) {
    for (size_t d = 0; d < a->device_count; d++) {
        const struct orr_device_report *report = &a->devices[d];
        char id[16];
        int64_t parts[PARTS];
        snprintf(id, sizeof id, "%u", a->events.devices[d].id);
        parts_of(report, parts);
        add_row(table, id, a->events.devices[d].name, report->times.ops, parts, window_of(report),
                report->verdict);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Groups */

static int compare_devices(const void *context, uint32_t a, uint32_t b) {
    const struct orr_analysis *analysis = context;
    const struct orr_device_report *x = &analysis->devices[a], *y = &analysis->devices[b];
    int64_t left[PARTS], right[PARTS], window = window_of(x); /* the same for all devices */
    if (x->verdict != y->verdict) {
        return (int)x->verdict - (int)y->verdict;
    }
    parts_of(x, left);
    parts_of(y, right);
    for (unsigned p = 0; p < PARTS && window > 0; p++) {
        int difference = (int)((orr_u128)left[p] * 100 / (orr_u128)window) -
                         (int)((orr_u128)right[p] * 100 / (orr_u128)window);
        if (difference != 0) {
            return difference;
        }
    }
    return 0;
}

/* Sums over a group's devices: shares of their windows together. */
static void add_group(const struct orr_analysis *a, const struct orr_device_groups *groups,
                      size_t group, const uint32_t *ids, struct orr_table *table) {
    int64_t sums[PARTS] = {0}, window = 0;
    uint64_t ops = 0;
    size_t first = groups->first[group], end = groups->first[group + 1];
    for (size_t i = first; i < end; i++) {
        const struct orr_device_report *report = &a->devices[groups->members[i]];
        int64_t parts[PARTS];
        parts_of(report, parts);
        for (unsigned p = 0; p < PARTS; p++) {
            sums[p] = orr__add_ns(sums[p], parts[p]);
        }
        window = orr__add_ns(window, window_of(report));
        ops += report->times.ops;
    }
    char devices[ORR_DEVICE_GROUP_TEXT_MAX];
    uint32_t example = groups->members[first];
    add_row(table, orr__device_group_text(groups, group, ids, devices),
            end - first == 1 ? a->events.devices[example].name : "", ops, sums, window,
            a->devices[example].verdict);
}

static bool add_groups(const struct orr_analysis *a, struct orr_table *table, size_t *out_groups) {
    struct orr_device_groups groups = {0};
    uint32_t *ids = orr_memory_alloc(a->memory, a->device_count * sizeof *ids);
    for (size_t d = 0; ids && d < a->device_count; d++) {
        ids[d] = a->events.devices[d].id;
    }
    bool done = ids && orr__device_groups_make(a->memory, a->device_count, compare_devices, a,
                                               &groups) == ORR_OK;
    for (size_t g = 0; done && g < groups.count && g < GROUP_ROWS; g++) {
        add_group(a, &groups, g, ids, table);
    }
    *out_groups = groups.count;
    orr__device_groups_free(a->memory, &groups);
    orr_memory_free(a->memory, ids);
    return done;
}

void orr__report_devices(const struct orr_analysis *a, struct orr_text *text) {
    if (a->device_count < 2) {
        return;
    }
    bool grouped = a->device_count > DEVICE_ROWS;
    size_t groups = 0;
    orr__text_add(text, "\ndevices (shares of the window%s)\n",
                  grouped ? "; those whose shares are in the same percent, together" : "");
    struct orr_table table;
    orr__table_begin(&table, a->memory,
                     ">device|name|>ops|>compute|>exposed-comm|>exposed-copy|>host|>wait|>unknown|"
                     ">outside|verdict");
    if (!grouped) {
        add_devices(a, &table);
    } else if (!add_groups(a, &table, &groups)) {
        text->failed = true;
    }
    orr__table_end(&table, text);
    if (groups > GROUP_ROWS) {
        orr__text_add(text, "  (%zu more: --json lists all devices)\n", groups - GROUP_ROWS);
    }
}
