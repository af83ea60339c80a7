#include "hazards/order_report.h"

#include <inttypes.h>

#include "hazards/order.h"
#include "hazards/redundant.h"
#include "hazards/text_builder.h"

/* A finding that is told, and how many are like it. */
struct told {
    struct orr_order_finding finding;
    uint32_t count;
};

struct report {
    const struct orr_stream_program *program;
    const struct orr_order_report_options *options;
    struct orr__builder text;
    struct told *told;
    size_t told_capacity;
    uint32_t told_count, seen;
    bool is_cut;
    enum orr_status status;
};

/* --- findings --- */

static bool is_same_place(const struct orr_stream_program *program, uint32_t a, uint32_t b) {
    const struct orr_stream_op *x = &program->ops[a], *y = &program->ops[b];
    return x->site != ORR_NONE && x->site == y->site && x->label == y->label && x->kind == y->kind;
}

static struct told *find_told(struct report *report, const struct orr_order_finding *finding) {
    for (uint32_t i = 0; i < report->told_count; i++) {
        const struct orr_order_finding *other = &report->told[i].finding;
        if (other->kind == finding->kind &&
            is_same_place(report->program, other->op_a, finding->op_a) &&
            is_same_place(report->program, other->op_b, finding->op_b))
            return &report->told[i];
    }
    return NULL;
}

static bool take_finding(void *context, const struct orr_order_finding *finding) {
    struct report *report = context;
    struct told *same = find_told(report, finding);
    report->is_cut = (!same && report->told_count == ORR_ORDER_REPORT_MAX) ||
                     report->seen++ == ORR_ORDER_REPORT_SEEN_MAX;
    if (report->is_cut)
        return false;
    if (same) {
        same->count++;
        return true;
    }
    report->status =
        orr_memory_grow(report->program->memory, &report->told, &report->told_capacity,
                        (size_t)report->told_count + 1, sizeof *report->told, ORR_ORDER_REPORT_MAX);
    if (report->status != ORR_OK)
        return false;
    report->told[report->told_count++] = (struct told){.finding = *finding, .count = 1};
    return true;
}

static void add_finding(struct report *report, const struct told *told, bool is_first) {
    struct orr__builder *text = &report->text;
    struct orr_check_verdict verdict = {.memory = report->program->memory};
    report->status = orr_order_finding_describe(report->program, &told->finding, &verdict);
    const char *kind = orr_check_verdict_text(verdict.kind);
    if (report->status == ORR_OK && report->options->as_json) {
        orr__build_format(text,
                          "%s{\"verdict\": \"%s\", \"ops\": [%" PRIu32 ", %" PRIu32
                          "], \"count\": %" PRIu32 ", \"message\": ",
                          is_first ? "" : ", ", kind, verdict.op_a, verdict.op_b, told->count);
        orr__build_json_string(text, verdict.message);
        orr__build_text(text, "}");
    } else if (report->status == ORR_OK && is_first) {
        if (told->count > 1)
            orr__build_format(text, "%" PRIu32 " times at these two places\n", told->count);
    } else if (report->status == ORR_OK) {
        orr__build_format(text, "also %s, operations %" PRIu32 " and %" PRIu32, kind, verdict.op_a,
                          verdict.op_b);
        if (told->count > 1)
            orr__build_format(text, ", %" PRIu32 " times", told->count);
        orr__build_format(text, ": %s\n", verdict.message);
    }
    orr_check_verdict_clear(&verdict);
}

static void add_findings(struct report *report) {
    bool as_json = report->options->as_json;
    enum orr_status status = orr_check_order_all(report->program, take_finding, report, NULL);
    report->status = report->status == ORR_OK ? status : report->status;
    if (as_json)
        orr__build_text(&report->text, ", \"findings\": [");
    for (uint32_t i = 0; report->status == ORR_OK && i < report->told_count; i++)
        add_finding(report, &report->told[i], i == 0);
    if (as_json)
        orr__build_text(&report->text, "]");
    if (report->is_cut)
        orr__build_text(&report->text,
                        as_json ? ", \"more_findings\": true" : "and more findings\n");
}

/* --- what can go --- */

static void add_redundant_op(struct report *report, const struct orr_redundant_item *item,
                             bool is_first) {
    char call[128];
    if (report->options->as_json) {
        orr__build_format(&report->text,
                          "%s{\"op\": %" PRIu32 ", \"why\": \"%s\", \"together\": %s}",
                          is_first ? "" : ", ", item->op, orr_redundant_why_text(item->why),
                          item->together ? "true" : "false");
        return;
    }
    orr_stream_op_short(report->program, item->op, call, sizeof call);
    const char *why = "orders nothing: nobody learns anything new from it";
    if (item->why == ORR_REDUNDANT_NOT_NEEDED)
        why = item->together ? "orders what no finding needs"
                             : "orders what no finding needs, as long as the others stay";
    orr__build_format(&report->text, "redundant: op %" PRIu32 " '%s' %s\n", item->op, call, why);
}

static void add_redundant(struct report *report) {
    struct orr_redundant found;
    report->status = orr_redundant_find(report->program, 0, &found);
    if (report->status != ORR_OK || !found.is_safe)
        return;
    bool as_json = report->options->as_json;
    if (as_json)
        orr__build_text(&report->text, ", \"redundant\": [");
    for (uint32_t i = 0; i < found.count; i++)
        add_redundant_op(report, &found.items[i], i == 0);
    if (as_json)
        orr__build_format(&report->text, "], \"redundant_untried\": %" PRIu32, found.untried);
    else if (found.untried > 0)
        orr__build_format(&report->text,
                          "redundant: %" PRIu32
                          " later ones were not tried; only whether they order "
                          "anything is known\n",
                          found.untried);
    orr_redundant_clear(&found, report->program->memory);
}

enum orr_status orr_order_report(const struct orr_stream_program *program,
                                 const struct orr_order_report_options *options, char **out_text) {
    struct report report = {.program = program, .options = options, .text.memory = program->memory};
    bool asks = program->oracle == ORR_ORACLE_HB;
    orr__build_text(&report.text, "");
    if (options->all && asks)
        add_findings(&report);
    if (options->redundant && asks && report.status == ORR_OK)
        add_redundant(&report);
    orr_memory_free(program->memory, report.told);
    if (report.text.failed)
        report.status = ORR_NO_MEMORY;
    *out_text = report.text.data;
    if (report.status != ORR_OK) {
        orr__builder_clear(&report.text);
        *out_text = NULL;
    }
    return report.status;
}
