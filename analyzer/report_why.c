#include "analyzer/report_why.h"

#include <string.h>

static int64_t difference(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

void orr__why_launch(const struct orr_analysis *analysis, const struct orr_launch_terms *terms,
                     struct orr_text *text) {
    const struct orr_analysis_options *o = &analysis->options;
    char share[ORR_NUMBER_TEXT_MAX], gap[ORR_NUMBER_TEXT_MAX], launch[ORR_NUMBER_TEXT_MAX];
    char apart[ORR_NUMBER_TEXT_MAX];
    orr__percent_text(terms->host_ns, terms->window_ns, share);
    bool much = terms->window_ns > 0 &&
                orr__share_reaches(terms->host_ns, o->host_percent, terms->window_ns);
    orr__text_add(text, "host-launch + host-other = %s of the window (%s %u %%)", share,
                  much ? ">=" : "<", o->host_percent);
    if (!much) {
        return;
    }
    if (terms->bound == ORR_ANSWER_UNKNOWN) {
        orr__text_add(text,
                      "; %llu gaps that end in a launch of the feeding thread: at least %u "
                      "are needed to compare periods",
                      (unsigned long long)terms->feed_gaps, o->launch_gaps_min);
        return;
    }
    int64_t apart_ns = difference(terms->gap_period_ns, terms->launch_period_ns);
    orr__text_add(text, "; gap period %s, launch period %s: %s apart (%s %u %%)",
                  orr__time_text(terms->gap_period_ns, gap),
                  orr__time_text(terms->launch_period_ns, launch),
                  orr__percent_text(apart_ns, terms->launch_period_ns, apart),
                  terms->bound == ORR_ANSWER_YES ? "<=" : ">", o->period_percent);
}

enum orr_busy orr__main_busy(const struct orr_device_report *report) {
    unsigned best = 0;
    for (unsigned b = 1; b < ORR_BUSY_COUNT; b++) {
        best = report->busy_groups[b] > report->busy_groups[best] ? b : best;
    }
    return (enum orr_busy)best;
}

static const char *busy_words(enum orr_busy busy) {
    static const char *const words[ORR_BUSY_COUNT] = {"compute-bound ops", "memory-bound ops",
                                                      "latency-bound ops", "ops without a cost",
                                                      "communication",     "copies"};
    return words[busy];
}

static void why_unreliable(const struct orr_analysis *analysis,
                           const struct orr_device_report *report, struct orr_text *text) {
    const int64_t *c = report->classes;
    char share[ORR_NUMBER_TEXT_MAX];
    int64_t unknown =
        c[ORR_CLASS_UNKNOWN_WAIT] + c[ORR_CLASS_UNKNOWN_UNLINKED] + c[ORR_CLASS_UNKNOWN_CLOCK];
    orr__percent_text(unknown, report->end_ns - report->begin_ns, share);
    orr__text_add(text, "unknown classes = %s of the window (limit %u %%)", share,
                  analysis->options.unknown_percent);
    if (analysis->replays.without_ops > 0) {
        orr__text_add(text, "; %llu graph launches own no recorded op",
                      (unsigned long long)analysis->replays.without_ops);
    }
    if (analysis->replays.short_ones > 0) {
        orr__text_add(text, "; %llu graph launches own fewer ops than others of their graph",
                      (unsigned long long)analysis->replays.short_ones);
    }
}

static void why_busy(const struct orr_device_report *report, struct orr_text *text) {
    int64_t window = report->end_ns - report->begin_ns;
    char share[ORR_NUMBER_TEXT_MAX], part[ORR_NUMBER_TEXT_MAX];
    enum orr_busy most = orr__main_busy(report);
    orr__text_add(
        text, "busy %s of the window; most of it in %s (%s of busy time)",
        orr__percent_text(orr_classes_busy(report->classes), window, share), busy_words(most),
        orr__percent_text(report->busy_groups[most], orr_classes_busy(report->classes), part));
}

void orr__why_verdict(const struct orr_analysis *analysis, const struct orr_device_report *report,
                      struct orr_text *text) {
    int64_t window = report->end_ns - report->begin_ns;
    const int64_t *c = report->classes;
    char share[ORR_NUMBER_TEXT_MAX];
    switch (report->verdict) {
    case ORR_VERDICT_IDLE: orr__text_add(text, "no op ran on it"); return;
    case ORR_VERDICT_UNRELIABLE: why_unreliable(analysis, report, text); return;
    case ORR_VERDICT_LAUNCH_BOUND:
    case ORR_VERDICT_HOST_STALLED:
        orr__why_launch(analysis, &report->window, text);
        orr__text_add(text, c[ORR_CLASS_HOST_LAUNCH] > c[ORR_CLASS_HOST_OTHER]
                                ? "; driver time dominates (host-launch > host-other)"
                                : "; framework time dominates (host-other >= host-launch)");
        return;
    case ORR_VERDICT_UNKNOWN: orr__why_launch(analysis, &report->window, text); return;
    case ORR_VERDICT_SYNC_BOUND:
        orr__text_add(text, "host-sync = %s of the window (>= %u %%)",
                      orr__percent_text(c[ORR_CLASS_HOST_SYNC], window, share),
                      analysis->options.sync_percent);
        return;
    default: why_busy(report, text);
    }
}

void orr__why_phase(const struct orr_analysis *analysis, const struct orr_phase *phase,
                    struct orr_text *text) {
    int64_t length = phase->end_ns - phase->begin_ns;
    char share[ORR_NUMBER_TEXT_MAX], name[64];
    const char *group = orr_phase_group_text(phase->label);
    size_t i = 0;
    for (; group[i] && i + 1 < sizeof name; i++) {
        name[i] = group[i] == '_' ? '-' : group[i];
    }
    name[i] = '\0';
    orr__text_add(text, "%s = %s of the phase", name,
                  orr__percent_text(phase->groups[phase->label], length, share));
    if (phase->label == ORR_PHASE_LAUNCH) {
        orr__text_add(text, "; ");
        orr__why_launch(analysis, &phase->launch, text);
    }
}

/* "memory-bound: reading the weight dominates, ..." */
static void add_weight(const struct orr_operator_row *row, struct orr_text *text) {
    orr_u128 bytes = row->bytes_read + row->bytes_written;
    orr_u128 weight = (orr_u128)row->weight_bytes * row->count;
    if (row->bound != ORR_BOUND_MEMORY || weight * 2 < bytes || weight == 0) {
        return;
    }
    char part[ORR_NUMBER_TEXT_MAX], all[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    orr__text_add(text, "; reading weight dominates (%s of %s = %s %% of its bytes)",
                  orr__amount_text(weight, "B", part), orr__amount_text(bytes, "B", all),
                  orr__hundredfold_text(weight, bytes, share));
}

void orr__why_row(const struct orr_analysis *analysis, const struct orr_operator_row *row,
                  struct orr_text *text) {
    (void)analysis;
    char intensity[ORR_NUMBER_TEXT_MAX], ridge[ORR_NUMBER_TEXT_MAX], share[ORR_NUMBER_TEXT_MAX];
    char roof_text[ORR_NUMBER_TEXT_MAX];
    orr_u128 bytes = row->bytes_read + row->bytes_written, up, down;
    struct orr_roof roof = orr_roof_of_row(row);
    if (row->no_cost > 0) {
        orr__text_add(text, "no cost is known for %llu of %llu ops",
                      (unsigned long long)row->no_cost, (unsigned long long)row->count);
        return;
    }
    if (row->flops == 0 && bytes == 0) {
        orr__text_add(text, "it declares no FLOP and no bytes: only its time is known");
        return;
    }
    orr_roof_fraction(&roof, &up, &down);
    if (down == 0) {
        orr__text_add(text, row->time_ns == 0 ? "it took no time"
                                              : "no peak or bandwidth is known for the device");
        return;
    }
    bool right = orr_roof_right(&roof);
    orr__text_add(text, "%s FLOP/B %s ridge %s; %s %% of %s",
                  orr__ratio_text(row->flops, bytes, 2, intensity), right ? ">=" : "<",
                  orr__ratio_text(row->peak, row->bandwidth, 2, ridge),
                  orr__hundredfold_text(up, down, share),
                  right ? orr__amount_text(row->peak, "FLOP/s", roof_text)
                        : orr__amount_text(row->bandwidth, "B/s", roof_text));
    add_weight(row, text);
}
