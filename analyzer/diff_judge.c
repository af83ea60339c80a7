/* What a comparison comes to: outcome, main cause, regression, and one line that says it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/diff_internal.h"
#include "analyzer/text.h"

enum {
    NAME_SHOWN = 72,
    COMMON_MIN = 50 /* percent; of less, it may be another program */
};

struct sentence {
    char *text;
    size_t length;
};

static void say(struct sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct sentence *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(s->text + s->length, ORR_DIFF_VERDICT_MAX - s->length, format, arguments);
    va_end(arguments);
    s->length += length > 0 ? (size_t)length : 0;
    s->length = s->length < ORR_DIFF_VERDICT_MAX ? s->length : ORR_DIFF_VERDICT_MAX - 1;
}

/* A name on one line, cut in the middle of templates if it must be. */
static void say_name(struct sentence *s, const char *name) {
    size_t begin = s->length;
    say(s, "%.*s%s", NAME_SHOWN, name, strlen(name) > NAME_SHOWN ? "..." : "");
    for (size_t i = begin; i < s->length; i++) {
        unsigned char c = (unsigned char)s->text[i];
        s->text[i] = c < 0x20 || c == 0x7f ? '?' : s->text[i];
    }
}

static const char *article(enum orr_diff_unit unit) {
    return unit == ORR_DIFF_UNIT_ITERATION ? "an iteration"
           : unit == ORR_DIFF_UNIT_STEP    ? "a step"
           : unit == ORR_DIFF_UNIT_RUN     ? "a run"
                                           : "a second";
}

static void say_signed(struct sentence *s, int64_t ns) {
    char buffer[ORR_NUMBER_TEXT_MAX];
    say(s, "%s%s", ns > 0 ? "+" : "", orr__time_text(ns, buffer));
}

/* "19.95 ms an iteration, 17.64 ms before (+13.10 %)" */
static void say_unit(struct sentence *s, const struct orr_diff *diff) {
    char after[ORR_NUMBER_TEXT_MAX], before[ORR_NUMBER_TEXT_MAX], percent[ORR_NUMBER_TEXT_MAX];
    const struct orr_diff_figure *unit = &diff->unit;
    say(s, "%s %s, %s before (%s%s)", orr__time_text(unit->unit_ns[1], after), article(diff->by),
        orr__time_text(unit->unit_ns[0], before), unit->delta_ns > 0 ? "+" : "",
        orr__percent_text(unit->delta_ns, unit->unit_ns[0], percent));
}

/* ------------------------------------------------------------------------------------------------
 * Causes */

static int64_t cause_delta(const struct orr_diff *diff, unsigned cause) {
    return diff->causes[1][cause] - diff->causes[0][cause];
}

static void find_main(struct orr_diff *diff) {
    int64_t sign = diff->unit.delta_ns < 0 ? -1 : 1, most = 0;
    diff->has_main = false;
    for (unsigned c = 0; c < ORR_DIFF_CAUSE_COUNT; c++) {
        int64_t part = sign * cause_delta(diff, c);
        if (part > most) {
            most = part;
            diff->main_cause = (enum orr_diff_cause)c;
            diff->has_main = true;
        }
    }
}

/* The row that differs most, in the direction of the whole if that has one, of those that have
 * changed for sure. */
static const struct orr_diff_row *find_row(const struct orr_diff *diff, enum orr_diff_sort sort,
                                           int role) {
    for (size_t i = 0; i < diff->row_count; i++) {
        const struct orr_diff_row *row = &diff->rows[i];
        bool sure =
            row->status == ORR_DIFF_CHANGED ||
            (row->tested && (row->status == ORR_DIFF_APPEARED || row->status == ORR_DIFF_VANISHED));
        bool along = (row->delta_ns > 0 && diff->outcome != ORR_DIFF_OUTCOME_FASTER) ||
                     (row->delta_ns < 0 && diff->outcome != ORR_DIFF_OUTCOME_SLOWER);
        if (row->sort == sort && sure && along && !row->waiting &&
            (role < 0 || (int)row->role == role)) {
            return row;
        }
    }
    return NULL;
}

static void say_row(struct sentence *s, const struct orr_diff_row *row) {
    char after[ORR_NUMBER_TEXT_MAX], before[ORR_NUMBER_TEXT_MAX];
    if (!row) {
        return;
    }
    say(s, "; ");
    say_name(s, row->name);
    if (row->status != ORR_DIFF_CHANGED) {
        say(s, " %s: ", orr_diff_status_text(row->status));
        say_signed(s, row->delta_ns);
        return;
    }
    say(s, ": ");
    say_signed(s, row->delta_ns);
    say(s, " (median %s, %s before)", orr__time_text(row->sides[1].median_ns, after),
        orr__time_text(row->sides[0].median_ns, before));
}

static void say_cause(struct sentence *s, const struct orr_diff *diff) {
    if (!diff->has_main) {
        return;
    }
    say(s, "; most of it is %s: ", orr_diff_cause_text(diff->main_cause));
    say_signed(s, cause_delta(diff, diff->main_cause));
    switch (diff->main_cause) {
    case ORR_DIFF_CAUSE_COMPUTE:
        say_row(s, find_row(diff, ORR_DIFF_SORT_WORK, ORR_ACTIVITY_COMPUTE));
        break;
    case ORR_DIFF_CAUSE_COMM:
        say_row(s, find_row(diff, ORR_DIFF_SORT_WORK, ORR_ACTIVITY_COMM));
        break;
    case ORR_DIFF_CAUSE_COPY:
        say_row(s, find_row(diff, ORR_DIFF_SORT_WORK, ORR_ACTIVITY_COPY));
        break;
    default: say_row(s, find_row(diff, ORR_DIFF_SORT_CALL, -1)); break;
    }
}

/* Part of the time of work, of both sides, whose rows are on both. */
static unsigned common_percent(const struct orr_diff *diff) {
    orr_u128 common = 0, all = 0;
    for (size_t i = 0; i < diff->row_count; i++) {
        const struct orr_diff_row *row = &diff->rows[i];
        if (row->sort == ORR_DIFF_SORT_WORK) {
            orr_u128 sum = (orr_u128)row->sides[0].unit_ns + (orr_u128)row->sides[1].unit_ns;
            all += sum;
            common += row->sides[0].count > 0 && row->sides[1].count > 0 ? sum : 0;
        }
    }
    return all == 0 ? 100 : (unsigned)(common * 100 / all);
}

static void say_rows(struct sentence *s, const struct orr_diff *diff) {
    const size_t *counts = diff->counts[ORR_DIFF_SORT_WORK];
    size_t all = 0;
    for (unsigned k = 0; k < ORR_DIFF_STATUS_COUNT; k++) {
        all += counts[k];
    }
    size_t other = counts[ORR_DIFF_APPEARED] + counts[ORR_DIFF_VANISHED];
    if (common_percent(diff) < COMMON_MIN) {
        say(s, "; only %u %% of the work's time is spent on the same work", common_percent(diff));
    }
    say(s, "; of %zu rows of work %zu changed", all, counts[ORR_DIFF_CHANGED]);
    if (other > 0) {
        say(s, ", %zu appeared, %zu vanished", counts[ORR_DIFF_APPEARED],
            counts[ORR_DIFF_VANISHED]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * The line */

static uint64_t fewest_units(const struct orr_diff *diff) {
    uint64_t fewest = UINT64_MAX;
    for (size_t d = 0; d < diff->device_count; d++) {
        const uint64_t *units = diff->devices[d].units;
        uint64_t here = units[0] < units[1] ? units[0] : units[1];
        fewest = here < fewest && here > 0 ? here : fewest;
    }
    return fewest == UINT64_MAX ? 0 : fewest;
}

static void say_unknown(struct sentence *s, const struct orr_diff *diff) {
    uint64_t fewest = fewest_units(diff);
    if (diff->units[0] == 0 || diff->units[1] == 0) {
        say(s, "the trace %s has no work that takes time on a device",
            diff->units[0] == 0 ? "before" : "after");
        return;
    }
    if (diff->by == ORR_DIFF_UNIT_SECOND) {
        say(s, "nothing marks steps, and no work repeats itself in both traces: compared are "
               "shares of a second, which say what differs, not what is slower");
    } else if (fewest < diff->options.values_min) {
        say_unit(s, diff);
        say(s, ", but a side has only %llu %s%s: a test needs %u", (unsigned long long)fewest,
            orr_diff_unit_text(diff->by), fewest == 1 ? "" : "s", diff->options.values_min);
    } else {
        say_unit(s, diff);
        say(s, ", which chance may have done (p = %.2g)", diff->unit.p);
    }
    say_row(s, find_row(diff, ORR_DIFF_SORT_WORK, -1));
    say_rows(s, diff);
}

static void grew(struct orr_diff *diff, const char *name, double percent) {
    if (percent > diff->options.max_regression && !diff->regression) {
        diff->regression = true;
        diff->grown = name;
        diff->grown_percent = percent;
    }
}

/* Only what has changed for sure can be a regression. */
static void find_regression(struct orr_diff *diff) {
    const struct orr_diff_figure *unit = &diff->unit;
    if (diff->options.max_regression < 0) {
        return;
    }
    if (diff->outcome == ORR_DIFF_OUTCOME_SLOWER && unit->unit_ns[0] > 0) {
        grew(diff, "", 100.0 * (double)unit->delta_ns / (double)unit->unit_ns[0]);
    }
    for (size_t i = 0; i < diff->row_count; i++) {
        const struct orr_diff_row *row = &diff->rows[i];
        int64_t before = row->sides[0].unit_ns;
        if (row->sort != ORR_DIFF_SORT_WORK || row->delta_ns <= 0) {
            continue;
        }
        if (row->status == ORR_DIFF_CHANGED && before > 0) {
            grew(diff, row->name, 100.0 * (double)row->delta_ns / (double)before);
        }
    }
}

/* Shares of a second cannot say that nothing has changed, but equal traces can. */
static bool all_equal(const struct orr_diff *diff) {
    for (size_t d = 0; d < diff->device_count; d++) {
        if (diff->devices[d].unit.status != ORR_DIFF_UNCHANGED) {
            return false;
        }
    }
    for (size_t i = 0; i < diff->row_count; i++) {
        if (diff->rows[i].status != ORR_DIFF_UNCHANGED) {
            return false;
        }
    }
    return diff->device_only[0] + diff->device_only[1] == 0;
}

void orr__diff_judge(struct orr_diff *diff) {
    bool known = diff->units[0] > 0 && diff->units[1] > 0 &&
                 (diff->by != ORR_DIFF_UNIT_SECOND || all_equal(diff));
    enum orr_diff_status status = known ? diff->unit.status : ORR_DIFF_INCONCLUSIVE;
    diff->outcome = status == ORR_DIFF_UNCHANGED ? ORR_DIFF_OUTCOME_SAME
                    : status != ORR_DIFF_CHANGED ? ORR_DIFF_OUTCOME_UNKNOWN
                    : diff->unit.delta_ns > 0    ? ORR_DIFF_OUTCOME_SLOWER
                                                 : ORR_DIFF_OUTCOME_FASTER;
    find_main(diff);
    find_regression(diff);
    struct sentence s = {.text = diff->verdict};
    say(&s, "%s: ", orr_diff_outcome_text(diff->outcome));
    if (diff->outcome == ORR_DIFF_OUTCOME_UNKNOWN) {
        say_unknown(&s, diff);
        return;
    }
    if (diff->by == ORR_DIFF_UNIT_SECOND) {
        say(&s, "the traces are equal in all that is compared");
        return;
    }
    say_unit(&s, diff);
    if (diff->outcome != ORR_DIFF_OUTCOME_SAME) {
        say_cause(&s, diff);
    } else {
        say_row(&s, find_row(diff, ORR_DIFF_SORT_WORK, -1));
    }
    say_rows(&s, diff);
}
