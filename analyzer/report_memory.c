#include "analyzer/report_memory.h"

#include <string.h>

#include "analyzer/device_groups.h"
#include "analyzer/report_explain.h"
#include "analyzer/table.h"

/* Rows of the tables; lines of the program only for the first few groups of devices. */
enum { GROUP_ROWS = 16, LINE_GROUPS = 4, LINE_ROWS = 5 };

struct memory_report {
    const struct orr_analysis *a;
    struct orr_text *text;
    struct orr_device_groups groups;
    const uint32_t *ids; /* numbers of the devices */
};

/* ------------------------------------------------------------------------------------------------
 * Devices that say the same */

static int compare_counts(const uint64_t *x, const uint64_t *y, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_lines(const struct orr_memory_peak *x, const struct orr_memory_peak *y) {
    for (unsigned i = 0; i < x->line_count && i < y->line_count; i++) {
        const struct orr_memory_line *a = &x->lines[i], *b = &y->lines[i];
        const uint64_t left[] = {a->bytes, a->count, a->role},
                       right[] = {b->bytes, b->count, b->role};
        int order = compare_counts(left, right, 3);
        order = order ? order : strcmp(a->site, b->site);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

static int compare_peaks(const void *context, uint32_t a, uint32_t b) {
    const struct orr_memory_peaks *peaks = context;
    const struct orr_memory_peak *x = &peaks->items[a], *y = &peaks->items[b];
    const uint64_t left[] = {x->peak_bytes,     x->capacity_bytes, x->knows_reserved,
                             x->reserved_bytes, x->allocations,    x->live_at_end,
                             x->line_total};
    const uint64_t right[] = {y->peak_bytes,     y->capacity_bytes, y->knows_reserved,
                              y->reserved_bytes, y->allocations,    y->live_at_end,
                              y->line_total};
    int order = compare_counts(left, right, sizeof left / sizeof *left);
    order = order ? order : compare_counts(x->role_bytes, y->role_bytes, ORR_ROLE_COUNT);
    order = order ? order : compare_counts(x->role_peak_bytes, y->role_peak_bytes, ORR_ROLE_COUNT);
    return order ? order : compare_lines(x, y);
}

/* ------------------------------------------------------------------------------------------------
 * Tables */

static const struct orr_memory_peak *example(const struct memory_report *r, size_t group) {
    return &r->a->peaks.items[r->groups.members[r->groups.first[group]]];
}

static const char *share_text(uint64_t part, uint64_t whole, char *buffer) {
    orr__ratio_text((orr_u128)part * 100, whole, 2, buffer);
    return whole > 0 ? strcat(buffer, " %") : buffer;
}

static void more_rows(const struct memory_report *r, size_t all, size_t shown) {
    if (all > shown) {
        orr__text_add(r->text, "  (%zu more: --json lists all)\n", all - shown);
    }
}

static void add_peaks(const struct memory_report *r) {
    struct orr_table table;
    orr__table_begin(&table, r->a->memory,
                     ">device|>peak|>capacity|>peak share of capacity|>reserved then|"
                     ">fragmentation|>allocations|>live at end|largest at the peak");
    for (size_t g = 0; g < r->groups.count && g < GROUP_ROWS; g++) {
        const struct orr_memory_peak *peak = example(r, g);
        char devices[ORR_DEVICE_GROUP_TEXT_MAX], label[ORR_TABLE_CELL_MAX + 1] = "-";
        char bytes[ORR_NUMBER_TEXT_MAX], all[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
        char live[ORR_NUMBER_TEXT_MAX], reserved[ORR_NUMBER_TEXT_MAX];
        char fragmentation[ORR_NUMBER_TEXT_MAX];
        if (peak->top_count > 0 && peak->top[0].label[0] != '\0') {
            orr__table_clean(peak->top[0].label, label);
        }
        bool known = peak->capacity_bytes > 0, knows = peak->knows_reserved;
        orr__table_row(&table, "%s|%s|%s|%s|%s|%s|%llu|%s|%s",
                       orr__device_group_text(&r->groups, g, r->ids, devices),
                       orr__amount_text(peak->peak_bytes, "B", bytes),
                       known ? orr__amount_text(peak->capacity_bytes, "B", all) : "unknown",
                       share_text(peak->peak_bytes, peak->capacity_bytes, share),
                       knows ? orr__amount_text(peak->reserved_bytes, "B", reserved) : "unknown",
                       knows ? orr__amount_text(orr_memory_fragmentation(peak), "B", fragmentation)
                             : "-",
                       (unsigned long long)peak->allocations,
                       orr__amount_text(peak->live_at_end, "B", live), label);
    }
    orr__table_end(&table, r->text);
    more_rows(r, r->groups.count, GROUP_ROWS);
}

static bool has_roles(const struct memory_report *r) {
    for (size_t g = 0; g < r->groups.count; g++) {
        for (int role = ORR_ROLE_OTHER + 1; role < ORR_ROLE_COUNT; role++) {
            if (example(r, g)->role_peak_bytes[role] > 0) {
                return true;
            }
        }
    }
    return false;
}

static void add_roles(const struct memory_report *r) {
    if (!has_roles(r)) {
        return;
    }
    orr__text_add(r->text, "  what it was for (as asked for; the largest is of each role at its "
                           "own time)\n");
    struct orr_table table;
    orr__table_begin(&table, r->a->memory, ">device|role|>at the peak|>share|>largest");
    for (size_t g = 0; g < r->groups.count && g < LINE_GROUPS; g++) {
        const struct orr_memory_peak *peak = example(r, g);
        char devices[ORR_DEVICE_GROUP_TEXT_MAX];
        orr__device_group_text(&r->groups, g, r->ids, devices);
        for (int role = 0; role < ORR_ROLE_COUNT; role++) {
            char then[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], most[ORR_NUMBER_TEXT_MAX];
            if (peak->role_peak_bytes[role] > 0) {
                orr__table_row(&table, "%s|%s|%s|%s|%s", devices,
                               orr_role_text((enum orr_role)role),
                               orr__amount_text(peak->role_bytes[role], "B", then),
                               share_text(peak->role_bytes[role], peak->buffer_peak_bytes, share),
                               orr__amount_text(peak->role_peak_bytes[role], "B", most));
            }
        }
    }
    orr__table_end(&table, r->text);
    more_rows(r, r->groups.count, LINE_GROUPS);
}

/* Of a long path the end, which says the line. */
static const char *site_text(const char *site, char *buffer) {
    size_t length = strlen(site);
    char tail[ORR_TABLE_CELL_MAX + 1] = "...";
    if (length == 0) {
        return "unknown";
    }
    if (length > ORR_TABLE_CELL_MAX) {
        strcpy(tail + 3, site + length - (ORR_TABLE_CELL_MAX - 3));
        site = tail;
    }
    return orr__table_clean(site, buffer);
}

static void add_lines(const struct memory_report *r) {
    orr__text_add(r->text, "  live at the peak, by line\n");
    struct orr_table table;
    orr__table_begin(&table, r->a->memory, ">device|line|role|>buffers|>bytes|>share");
    for (size_t g = 0; g < r->groups.count && g < LINE_GROUPS; g++) {
        const struct orr_memory_peak *peak = example(r, g);
        char devices[ORR_DEVICE_GROUP_TEXT_MAX];
        orr__device_group_text(&r->groups, g, r->ids, devices);
        for (unsigned i = 0; i < peak->line_count && i < LINE_ROWS; i++) {
            const struct orr_memory_line *line = &peak->lines[i];
            char site[ORR_TABLE_CELL_MAX + 1], bytes[ORR_NUMBER_TEXT_MAX];
            char share[ORR_NUMBER_TEXT_MAX];
            orr__table_row(&table, "%s|%s|%s|%llu|%s|%s", devices, site_text(line->site, site),
                           orr_role_text(line->role), (unsigned long long)line->count,
                           orr__amount_text(line->bytes, "B", bytes),
                           share_text(line->bytes, peak->buffer_peak_bytes, share));
        }
    }
    orr__table_end(&table, r->text);
}

/* Where a library does the work many buffers come from one line: their labels, the operators that
 * made them, tell more. */
static void add_labels(const struct memory_report *r) {
    orr__text_add(r->text, "  live at the peak, by label\n");
    struct orr_table table;
    orr__table_begin(&table, r->a->memory, ">device|label|>buffers|>bytes|>share");
    for (size_t g = 0; g < r->groups.count && g < LINE_GROUPS; g++) {
        const struct orr_memory_peak *peak = example(r, g);
        char devices[ORR_DEVICE_GROUP_TEXT_MAX];
        orr__device_group_text(&r->groups, g, r->ids, devices);
        for (unsigned i = 0; i < peak->top_count && i < LINE_ROWS; i++) {
            const struct orr_memory_top *top = &peak->top[i];
            char label[ORR_TABLE_CELL_MAX + 1], bytes[ORR_NUMBER_TEXT_MAX];
            char share[ORR_NUMBER_TEXT_MAX];
            orr__table_row(&table, "%s|%s|%llu|%s|%s", devices,
                           top->label[0] ? orr__table_clean(top->label, label) : "-",
                           (unsigned long long)top->count, orr__amount_text(top->bytes, "B", bytes),
                           share_text(top->bytes, peak->buffer_peak_bytes, share));
        }
    }
    orr__table_end(&table, r->text);
}

static enum orr_status number_devices(struct memory_report *r, uint32_t **out_ids) {
    const struct orr_memory_peaks *peaks = &r->a->peaks;
    *out_ids = orr_memory_alloc(r->a->memory, peaks->count * sizeof **out_ids);
    if (!*out_ids) {
        return ORR_NO_MEMORY;
    }
    for (size_t d = 0; d < peaks->count; d++) {
        (*out_ids)[d] = peaks->items[d].device;
    }
    r->ids = *out_ids;
    return orr__device_groups_make(r->a->memory, peaks->count, compare_peaks, peaks, &r->groups);
}

void orr__report_memory(const struct orr_analysis *analysis, struct orr_text *text) {
    uint64_t allocations = 0;
    for (size_t d = 0; d < analysis->peaks.count; d++) {
        allocations += analysis->peaks.items[d].allocations;
        allocations += analysis->peaks.items[d].peak_bytes > 0;
    }
    if (!orr__records_allocations(analysis)) {
        orr__report_memory_counters(analysis, text);
        return;
    }
    if (allocations == 0) {
        return;
    }
    struct memory_report r = {.a = analysis, .text = text};
    uint32_t *ids;
    if (number_devices(&r, &ids) == ORR_OK) {
        orr__text_add(text, "\nmemory (fragmentation: reserved, but in no buffer at the peak)\n");
        add_peaks(&r);
        add_roles(&r);
        add_lines(&r);
        add_labels(&r);
    } else {
        text->failed = true;
    }
    orr__device_groups_free(analysis->memory, &r.groups);
    orr_memory_free(analysis->memory, ids);
}
