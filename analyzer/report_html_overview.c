/* What the charts of an HTML report draw over time: exact sums of short cells. */
#include "analyzer/hosts.h"
#include "analyzer/report_html_internal.h"

/* Cells of all devices together: the more devices, the fewer each. */
enum { CELLS_TOGETHER = 24000, CELLS_MIN = 250 };

/* Kinds of time of a device: busy time by what bounds it, then the classes of idle time. */
enum {
    IDLE_FIRST = ORR_CLASS_PROFILER_OVERHEAD,
    KIND_COUNT = ORR_BUSY_COUNT + ORR_CLASS_COUNT - IDLE_FIRST
};

static const char *kind_text(unsigned kind) {
    return kind < ORR_BUSY_COUNT
               ? orr_phase_group_text((enum orr_phase_group)kind)
               : orr_class_text((enum orr_class)(kind - ORR_BUSY_COUNT + IDLE_FIRST));
}

/* Sums of `kinds` kinds; cell c of kind k: ns[k * count + c]. */
struct cells {
    struct orr__html_cells at;
    size_t kinds;
    int64_t *ns; /* owned */
};

static void cells_add(struct cells *cells, unsigned kind, int64_t begin_ns, int64_t end_ns) {
    begin_ns = begin_ns > cells->at.begin_ns ? begin_ns : cells->at.begin_ns;
    end_ns = end_ns < cells->at.end_ns ? end_ns : cells->at.end_ns;
    while (begin_ns < end_ns) {
        int64_t cell = (begin_ns - cells->at.begin_ns) / cells->at.cell_ns;
        int64_t limit = cells->at.end_ns;
        if (cell < (int64_t)cells->at.count - 1) {
            limit = cells->at.begin_ns + (cell + 1) * cells->at.cell_ns;
        }
        int64_t end = end_ns < limit ? end_ns : limit;
        cells->ns[kind * cells->at.count + (size_t)cell] += end - begin_ns;
        begin_ns = end;
    }
}

static void cells_clear(struct cells *cells) {
    for (size_t i = 0; i < cells->kinds * cells->at.count; i++) {
        cells->ns[i] = 0;
    }
}

/* {KIND: [ns, ...]}, of the kinds that there are. */
static void put_cells(struct json *j, const struct cells *cells, const char *(*text)(unsigned)) {
    put_open(j, "ns", "{");
    for (unsigned k = 0; k < cells->kinds; k++) {
        const int64_t *ns = &cells->ns[k * cells->at.count];
        size_t last = cells->at.count;
        while (last > 0 && ns[last - 1] == 0) {
            last--;
        }
        if (last == 0) {
            continue;
        }
        /* Zeros at the end are left out. */
        put_open(j, text(k), "[");
        for (size_t c = 0; c < last; c++) {
            orr__text_add(&j->text, c > 0 ? ",%lld" : "%lld", (long long)ns[c]);
        }
        put_close(j, "]");
    }
    put_close(j, "}");
}

/* ------------------------------------------------------------------------------------------------
 * Devices */

static void on_busy(void *context, enum orr_busy busy, int64_t begin_ns, int64_t end_ns) {
    cells_add(context, busy, begin_ns, end_ns);
}

static void on_idle(void *context, enum orr_class class_, int64_t begin_ns, int64_t end_ns) {
    cells_add(context, ORR_BUSY_COUNT + (unsigned)class_ - IDLE_FIRST, begin_ns, end_ns);
}

static void on_gap(void *context, const struct orr_gap *gap) {
    (void)context;
    (void)gap;
}

static enum orr_status put_device(struct json *j, const struct orr_analysis *a,
                                  const struct orr_hosts *hosts, uint32_t index,
                                  struct cells *cells) {
    struct orr_walk walk = {on_busy, on_idle, on_gap, cells};
    struct orr_device_times times;
    cells_clear(cells);
    enum orr_status status =
        orr_classes_walk(&a->events, hosts, &a->options, a->roofline.bounds, index,
                         (struct orr_interval){a->begin_ns, a->end_ns}, j->memory, &walk, &times);
    if (status != ORR_OK) {
        return status;
    }
    bool any = times.ops > 0;
    on_idle(cells, ORR_CLASS_BEFORE_FIRST, a->begin_ns, any ? times.first_ns : a->end_ns);
    if (any) {
        on_idle(cells, ORR_CLASS_AFTER_LAST, times.last_ns, a->end_ns);
    }
    line(j);
    put_open(j, NULL, "{");
    put_count(j, "id", a->events.devices[index].id);
    put_string(j, "name", a->events.devices[index].name);
    put_cells(j, cells, kind_text);
    put_close(j, "}");
    return ORR_OK;
}

static enum orr_status put_devices(struct json *j, const struct orr_analysis *a, size_t shown,
                                   struct cells *cells) {
    struct orr_hosts hosts = {0};
    enum orr_status status = orr_hosts_create(&a->events, j->memory, &hosts);
    put_open(j, "devices", "[");
    for (uint32_t d = 0; status == ORR_OK && d < shown; d++) {
        status = put_device(j, a, &hosts, d, cells);
    }
    put_close(j, "]");
    orr_hosts_free(j->memory, &hosts);
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * Critical path */

static const char *path_text(unsigned kind) {
    return orr_path_kind_text((enum orr_path_kind)kind);
}

static void put_path(struct json *j, const struct orr_analysis *a, struct cells *cells) {
    cells->kinds = ORR_PATH_COUNT;
    cells_clear(cells);
    for (size_t i = 0; i < a->path.segment_count; i++) {
        const struct orr_path_segment *s = &a->path.segments[i];
        cells_add(cells, s->kind, s->begin_ns, s->end_ns);
    }
    put_open(j, "path", "{");
    put_cells(j, cells, path_text);
    put_close(j, "}");
}

/* ---------------------------------------------------------------------------------------------- */

static size_t cell_count(size_t devices, int64_t window_ns) {
    size_t count = CELLS_TOGETHER / (devices > 0 ? devices : 1);
    count = count > CELLS_MIN ? count : CELLS_MIN;
    count = count < ORR_REPORT_HTML_CELLS ? count : ORR_REPORT_HTML_CELLS;
    return (uint64_t)window_ns < count ? (size_t)window_ns : count;
}

_Static_assert((int)KIND_COUNT > (int)ORR_PATH_COUNT, "cells of devices have room for the path's");

enum orr_status orr__html_overview(struct json *j, const struct orr_analysis *a) {
    int64_t window = a->end_ns - a->begin_ns;
    size_t shown =
        a->device_count < ORR_REPORT_HTML_DEVICES ? a->device_count : ORR_REPORT_HTML_DEVICES;
    struct cells cells = {.at = {.begin_ns = a->begin_ns, .end_ns = a->end_ns},
                          .kinds = KIND_COUNT};
    cells.at.count = cell_count(shown, window);
    cells.at.cell_ns = 1;
    if (cells.at.count > 0) {
        cells.at.cell_ns =
            window / (int64_t)cells.at.count + (window % (int64_t)cells.at.count != 0);
        cells.at.count = (size_t)(window / cells.at.cell_ns + (window % cells.at.cell_ns != 0));
    }
    cells.ns = orr_memory_alloc(j->memory, (cells.at.count * KIND_COUNT + 1) * sizeof *cells.ns);
    if (!cells.ns) {
        return ORR_NO_MEMORY;
    }
    put_int(j, "begin_ns", a->begin_ns);
    put_int(j, "window_ns", window);
    put_int(j, "cell_ns", cells.at.cell_ns);
    put_count(j, "cells", cells.at.count);
    put_open(j, "kinds", "[");
    for (unsigned k = 0; k < KIND_COUNT; k++) {
        put_string(j, NULL, kind_text(k));
    }
    put_close(j, "]");
    enum orr_status status = put_devices(j, a, shown, &cells);
    put_count(j, "devices_left_out", a->device_count - shown);
    put_path(j, a, &cells);
    orr__html_counters(j, a->timeline, &cells.at);
    orr_memory_free(j->memory, cells.ns);
    return status == ORR_OK && j->text.failed ? ORR_NO_MEMORY : status;
}
