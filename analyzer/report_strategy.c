#include "analyzer/report_strategy.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/device_groups.h"
#include "analyzer/table.h"
#include "analyzer/times.h"

enum { COMMUNICATION_ROWS = 16, STAGE_ROWS = 24 };

static void more_rows(struct orr_text *text, size_t all, size_t shown) {
    if (all > shown) {
        orr__text_add(text, "  (%zu more: --json lists all)\n", all - shown);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Communication by axis and kind */

static void add_communication_row(struct orr_table *table,
                                  const struct orr_communication_row *row) {
    char axis[ORR_TABLE_CELL_MAX + 1], kind[ORR_TABLE_CELL_MAX + 1], bytes[ORR_NUMBER_TEXT_MAX];
    char time[ORR_NUMBER_TEXT_MAX], exposed[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    char waiting[ORR_NUMBER_TEXT_MAX], overlapped[ORR_NUMBER_TEXT_MAX];
    const struct orr_communication_sums *sums = &row->sums;
    orr__table_row(table, "%s|%s|%llu|%s|%s|%s|%s|%s|%s",
                   row->axis[0] ? orr__table_clean(row->axis, axis) : "-",
                   orr__table_clean(row->kind, kind), (unsigned long long)row->count,
                   row->count > 0 ? orr__amount_text(row->bytes, "B", bytes) : "unknown",
                   orr__time_text(sums->time_ns, time), orr__time_text(sums->exposed_ns, exposed),
                   orr__percent_text(sums->exposed_ns, sums->time_ns, share),
                   sums->partial == 0 ? orr__time_text(sums->waiting_ns, waiting) : "unknown",
                   orr__time_text(sums->time_ns - sums->exposed_ns, overlapped));
}

void orr__report_communication(const struct orr_analysis *a, struct orr_text *text) {
    const struct orr_communication *c = &a->communication;
    if (c->row_count == 0) {
        return;
    }
    orr__text_add(text, "\ncommunication by mesh axis (device time, summed; exposed: the device "
                        "computes nothing meanwhile; waiting: of that, until the last member "
                        "came)\n");
    struct orr_table table;
    orr__table_begin(&table, a->memory,
                     "axis|kind|>count|>bytes|>time|>exposed|>share|>waiting|>overlapped");
    for (size_t i = 0; i < c->row_count && i < COMMUNICATION_ROWS; i++) {
        add_communication_row(&table, &c->rows[i]);
    }
    orr__table_end(&table, text);
    more_rows(text, c->row_count, COMMUNICATION_ROWS);
}

/* ------------------------------------------------------------------------------------------------
 * Pipelines */

static int64_t span_of(const struct orr_analysis *a, const struct orr_stage *stage) {
    const struct orr_pipeline *pipeline = &a->pipelines.items[stage->pipeline];
    return pipeline->end_ns - pipeline->begin_ns;
}

/* What a row says but for its devices. Stages whose rows read the same are one row, in whatever
 * pipeline they are: their figures may differ in what is rounded away. */
enum { STAGE_TEXT_MAX = 256 };

struct stage_rows {
    const struct orr_analysis *a;
    char (*texts)[STAGE_TEXT_MAX]; /* by device; "" for what is no stage */
    uint32_t *ids;                 /* numbers of devices */
};

static void print_stage(const struct orr_analysis *a, const struct orr_stage *stage, char *row) {
    int64_t span = span_of(a, stage), bubble = orr_stage_bubble(stage);
    char time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], warm_up[ORR_NUMBER_TEXT_MAX];
    char steady[ORR_NUMBER_TEXT_MAX], drain[ORR_NUMBER_TEXT_MAX], whole[ORR_NUMBER_TEXT_MAX];
    snprintf(row, STAGE_TEXT_MAX, "%.40s|%.40s|%.40s|%.40s|%.40s|%.40s",
             orr__time_text(span, whole), orr__time_text(bubble, time),
             orr__percent_text(bubble, span, share), orr__time_text(stage->warm_up_ns, warm_up),
             orr__time_text(stage->steady_ns, steady), orr__time_text(stage->drain_ns, drain));
}

static int compare_stages(const void *context, uint32_t a, uint32_t b) {
    const struct stage_rows *rows = context;
    return strcmp(rows->texts[a], rows->texts[b]);
}

static void add_stages(const struct stage_rows *stages, struct orr_text *text,
                       const struct orr_device_groups *groups) {
    struct orr_table table;
    size_t rows = 0;
    orr__table_begin(&table, stages->a->memory,
                     ">device|>span|>bubble|>share|>warm-up|>steady|>drain");
    for (size_t g = 0; g < groups->count; g++) {
        const char *row = stages->texts[groups->members[groups->first[g]]];
        char devices[ORR_DEVICE_GROUP_TEXT_MAX];
        if (row[0] != '\0' && ++rows <= STAGE_ROWS) {
            orr__table_row(&table, "%s|%s", orr__device_group_text(groups, g, stages->ids, devices),
                           row);
        }
    }
    orr__table_end(&table, text);
    more_rows(text, rows, STAGE_ROWS);
}

/* "pipeline bubble 1.20 ms of 4.40 ms x stage = 27.27 %" */
static void add_all_pipelines(const struct orr_analysis *a, struct orr_text *text) {
    int64_t bubble = 0, whole = 0;
    char time[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX], all[ORR_NUMBER_TEXT_MAX];
    uint64_t devices = 0;
    for (size_t i = 0; i < a->pipelines.count; i++) {
        const struct orr_pipeline *pipeline = &a->pipelines.items[i];
        bubble = orr__add_ns(bubble, pipeline->bubble_ns);
        devices += pipeline->devices;
        for (uint32_t d = 0; d < pipeline->devices; d++) {
            whole = orr__add_ns(whole, pipeline->end_ns - pipeline->begin_ns);
        }
    }
    orr__text_add(text,
                  "  %zu pipeline%s of %llu devices in all: bubble %s of %s (devices x span) = "
                  "%s\n",
                  a->pipelines.count, a->pipelines.count == 1 ? "" : "s",
                  (unsigned long long)devices, orr__time_text(bubble, time),
                  orr__time_text(whole, all), orr__percent_text(bubble, whole, share));
}

static void print_stages(const struct stage_rows *rows) {
    for (size_t d = 0; d < rows->a->pipelines.device_count; d++) {
        const struct orr_stage *stage = &rows->a->pipelines.stages[d];
        rows->ids[d] = rows->a->events.devices[d].id;
        if (stage->pipeline != ORR_EVENTS_NONE) {
            print_stage(rows->a, stage, rows->texts[d]);
        }
    }
}

void orr__report_pipelines(const struct orr_analysis *a, struct orr_text *text) {
    if (a->pipelines.count == 0) {
        return;
    }
    size_t devices = a->pipelines.device_count;
    struct stage_rows rows = {.a = a,
                              .texts = orr_memory_alloc(a->memory, devices * sizeof *rows.texts),
                              .ids = orr_memory_alloc(a->memory, devices * sizeof *rows.ids)};
    struct orr_device_groups groups = {0};
    bool all = rows.texts && rows.ids;
    if (all) {
        print_stages(&rows);
        all = orr__device_groups_make(a->memory, devices, compare_stages, &rows, &groups) == ORR_OK;
    }
    if (all) {
        orr__text_add(text, "\npipeline bubbles (what stages idle because they wait for another "
                            "one; span: first to last computation of the pipeline)\n");
        add_stages(&rows, text, &groups);
        add_all_pipelines(a, text);
    }
    text->failed = text->failed || !all;
    orr__device_groups_free(a->memory, &groups);
    orr_memory_free(a->memory, rows.texts);
    orr_memory_free(a->memory, rows.ids);
}
